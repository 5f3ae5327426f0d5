/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers kube-scheduler's requests (extender.h). A request about a pod that the watch has not
 * delivered yet waits up to PATIENCE_NS.
 */
#include "scheduler/service-internal.h"

#include <errno.h>
#include <stdlib.h>

#include <utlist.h>

#include "scheduler/extender.h"

/*
 * Shorter than kube-scheduler's default timeout (httpTimeout: 5 s), because kube-scheduler places
 * no pod while it waits.
 */
#define PATIENCE_NS (UINT64_C(2) * 1000000000)

struct question {
	struct question *prev, *next;
	struct http_request *request;
	enum extender_verb verb;
	json_t *args;
	uint64_t since_ns;
};

static void answer_json(struct http_request *request, json_t *answer)
{
	_cleanup_free_ char *text = kube_json_format(answer);

	json_decref(answer);
	if (text)
		http_answer(request, 200, "application/json", str_from(text));
	else
		http_answer(request, 503, HTTP_TEXT, STR("out of memory\n"));
}

/*
 * Answers with the error in the protocol's form if the verb's answer has a field for errors, else
 * with status 503. The connection closes, so that kube-scheduler connects again and may reach the
 * leader.
 */
static void service_extender_refuse(
	struct http_request *request, enum extender_verb verb, const char *sentence)
{
	json_t *answer = extender_refusal(verb, sentence);

	http_add_header(request, "Connection", "close");
	if (answer)
		answer_json(request, answer);
	else
		http_answer(request, 503, HTTP_TEXT, str_from(sentence));
}

void service_answer_bind(struct http_request *request, const char *why)
{
	answer_json(request, extender_refusal(EXTENDER_BIND, why ? why : ""));
}

static void service_extender_question_free(struct service *s, struct question *q)
{
	DL_DELETE(s->questions, q);
	json_decref(q->args);
	free(q);
}

static int bind_it(struct service *s, struct question *q, struct error *err)
{
	const struct cpod *pod;
	int r = extender_bind(s->sched, q->args, &pod, err);

	if (r == 0)
		service_bind(s, pod, q->request);
	else if (r > 0)
		service_answer_bind(q->request, NULL);
	return MIN(r, 0);
}

static int answer_it(struct service *s, struct question *q, struct error *err)
{
	json_t *answer;
	int r;

	if (!service_may_write(s) || !service_is_synced(s))
		return fail(err, EPERM,
			service_may_write(s) ? "not ready: still reading the cluster; retry"
					     : "this replica is not the leader; retry with the "
					       "leader");
	sched_set_time(s->sched, clock_now_ns(), clock_real_ns());
	if (q->verb == EXTENDER_BIND)
		return bind_it(s, q, err);
	r = extender_answer(s->sched, q->verb, q->args, &answer, err);
	if (r == 0)
		answer_json(q->request, answer);
	return r;
}

/* Returns true if the request is answered and `q` is freed. */
static bool try_question(struct service *s, struct question *q)
{
	const uint64_t took_ns = clock_since_ns(clock_now_ns(), q->since_ns);
	struct error err;
	int r = answer_it(s, q, &err);

	if (r == -EAGAIN && took_ns < PATIENCE_NS)
		return false;
	if (r < 0) {
		s->n_extender_failures++;
		service_extender_refuse(q->request, q->verb, err.msg);
	}
	prom_observe(&s->answer_time, clock_since_ns(clock_now_ns(), q->since_ns));
	service_extender_question_free(s, q);
	/* A new or released reservation can affect other pods. */
	service_wake(s);
	return true;
}

void service_ask_again(struct service *s)
{
	struct question *q, *next;

	DL_FOREACH_SAFE(s->questions, q, next)
		try_question(s, q);
}

void service_answer_all(struct service *s)
{
	while (s->questions) {
		service_extender_refuse(s->questions->request, s->questions->verb,
			"divvy-scheduler is shutting down; retry");
		service_extender_question_free(s, s->questions);
	}
}

static void service_extender_ask(
	struct service *s, struct http_request *request, enum extender_verb verb)
{
	struct question *q = calloc(1, sizeof(*q));
	struct error err;

	s->n_extender_requests++;
	if (!q || kube_json_parse(http_body(request), &q->args, &err) < 0) {
		http_answer(request, q ? 400 : 503, HTTP_TEXT,
			q ? str_from(err.msg) : STR("out of memory\n"));
		free(q);
		return;
	}
	q->request = request;
	q->verb = verb;
	q->since_ns = clock_now_ns();
	DL_APPEND(s->questions, q);
	try_question(s, q);
}

void service_on_filter(void *service, struct http_request *request)
{
	service_extender_ask(service, request, EXTENDER_FILTER);
}

void service_on_prioritize(void *service, struct http_request *request)
{
	service_extender_ask(service, request, EXTENDER_PRIORITIZE);
}

void service_on_preempt(void *service, struct http_request *request)
{
	service_extender_ask(service, request, EXTENDER_PREEMPT);
}

void service_on_bind(void *service, struct http_request *request)
{
	service_extender_ask(service, request, EXTENDER_BIND);
}
