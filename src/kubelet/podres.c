/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file asks the kubelet for its list of pods and gives one answer to every question that waits
 * for that list. An answer serves the questions that were in the queue when the call began. All
 * questions have the same timeout, so an append keeps the queue sorted by deadline. If the kubelet
 * does not implement the newest version of the API, the next call uses the older one. A failed call
 * fails only the questions that reached their deadline; the others share a retry 100 ms later. Each
 * step searches the queue from its head, because a callback may add and remove questions. A list
 * borrows its strings from the decoded protobuf message, which lives as long as the list.
 */
#include "kubelet/podres.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/cleanup.h"
#include "kubelet/grpc-client.h"
#include "kubelet/podresources.pb-c.h"
#include "kubelet/unpack.h"

#define RETRY_NS (100 * NSEC_PER_MSEC)

/*
 * The methods' paths, newest version first. The fields that we read are the same in all versions.
 */
static const char *const paths[] = {
	"/v1.PodResourcesLister/List",
	"/v1alpha1.PodResourcesLister/List",
};

struct podres_question {
	TAILQ_ENTRY(podres_question) link;
	struct podres *podres;
	podres_fn *fn;
	void *data;
	uint64_t deadline_ns;
	bool is_asked; /* the present call began after the question */
};

struct podres {
	struct loop *loop;
	char *socket;
	uint64_t timeout_ns;
	TAILQ_HEAD(question_list, podres_question) questions; /* ordered by deadline */
	uint32_t n_questions;
	size_t version; /* index into paths */
	struct grpc_request *request;
	struct loop_timer begin;
};

/* ---- the answer as lists ---- */

struct owned_list {
	/* must stay the first member, because podres_list_free() casts */
	struct podres_list public;
	Podres__ListResponse *message;
	struct podres_container *containers;
	struct podres_device *devices;
};

void podres_list_free(struct podres_list *list)
{
	struct owned_list *l = (struct owned_list *)list;

	if (!l)
		return;
	message_free_p(&l->message);
	free(l->containers);
	free(l->devices);
	free(l);
}

static void podres_count_entries(
	const Podres__ListResponse *m, size_t *ret_containers, size_t *ret_devices)
{
	*ret_containers = *ret_devices = 0;
	for (size_t i = 0; i < m->n_pod_resources; i++)
		for (size_t k = 0; k < m->pod_resources[i]->n_containers; k++) {
			const Podres__ContainerResources *c = m->pod_resources[i]->containers[k];

			++*ret_containers;
			for (size_t d = 0; d < c->n_devices; d++)
				*ret_devices += c->devices[d]->n_device_ids;
		}
}

static size_t fill_devices(const Podres__ContainerResources *from, struct podres_device *to)
{
	size_t n = 0;

	for (size_t i = 0; i < from->n_devices; i++)
		for (size_t k = 0; k < from->devices[i]->n_device_ids; k++)
			to[n++] = (struct podres_device){
				from->devices[i]->resource_name, from->devices[i]->device_ids[k]};
	return n;
}

static void podres_fill_list(struct owned_list *l)
{
	struct podres_device *device = l->devices;
	struct podres_container *to = l->containers;

	for (size_t i = 0; i < l->message->n_pod_resources; i++) {
		const Podres__PodResources *pod = l->message->pod_resources[i];

		for (size_t k = 0; k < pod->n_containers; k++, to++) {
			*to = (struct podres_container){
				.space = pod->namespace_,
				.pod = pod->name,
				.name = pod->containers[k]->name,
				.devices = device,
				.n_devices = fill_devices(pod->containers[k], device),
			};
			device += to->n_devices;
		}
	}
}

int podres_parse(struct str bytes, struct podres_list **ret_list, struct error *err)
{
	struct owned_list *l = calloc(1, sizeof(*l));
	size_t n_devices;

	if (!l)
		return fail(err, ENOMEM, "out of memory");
	l->message = unpack(&podres__list_response__descriptor, bytes);
	if (!l->message) {
		podres_list_free(&l->public);
		return fail(err, EBADMSG, "the kubelet's list of pods cannot be decoded");
	}
	podres_count_entries(l->message, &l->public.n_containers, &n_devices);
	l->containers = calloc(l->public.n_containers + 1, sizeof(*l->containers));
	l->devices = calloc(n_devices + 1, sizeof(*l->devices));
	if (!l->containers || !l->devices) {
		podres_list_free(&l->public);
		return fail(err, ENOMEM, "out of memory");
	}
	podres_fill_list(l);
	l->public.containers = l->containers;
	*ret_list = &l->public;
	return 0;
}

int podres_find(const struct podres_list *list, struct str resource, struct str id,
	const struct podres_container **ret_container)
{
	const struct podres_container *found = NULL;

	for (size_t i = 0; i < list->n_containers; i++)
		for (size_t k = 0; k < list->containers[i].n_devices; k++) {
			const struct podres_device *d = &list->containers[i].devices[k];

			if (!str_is(id, d->id) || !str_is(resource, d->resource))
				continue;
			if (found && found != &list->containers[i])
				return -EEXIST;
			found = &list->containers[i];
		}
	if (!found)
		return -ENOENT;
	*ret_container = found;
	return 0;
}

/* ---- asking the kubelet ---- */

static void begin_after(struct podres *p, uint64_t delay_ns)
{
	loop_set_timer(&p->begin, clock_add_ns(clock_now_ns(), delay_ns));
}

static void podres_question_free(struct podres_question *q)
{
	TAILQ_REMOVE(&q->podres->questions, q, link);
	q->podres->n_questions--;
	free(q);
}

/*
 * Returns the next question to answer. A list answers all questions that were asked before its
 * call; a failure answers only questions past their deadline. A callback may ask and forget
 * questions, so each search begins anew.
 */
static struct podres_question *next_done(struct podres *p, bool is_answered)
{
	const uint64_t now = clock_now_ns();
	struct podres_question *q;

	TAILQ_FOREACH(q, &p->questions, link)
		if (is_answered ? q->is_asked : q->deadline_ns <= now)
			return q;
	return NULL;
}

static void podres_give_answer(
	struct podres *p, const struct podres_list *list, const struct error *err)
{
	struct podres_question *q;

	while ((q = next_done(p, list != NULL))) {
		podres_fn *fn = q->fn;
		void *data = q->data;

		podres_question_free(q);
		fn(data, list, err);
	}
}

static void podres_give_error(struct podres *p, const struct error *err)
{
	struct podres_question *q;

	TAILQ_FOREACH(q, &p->questions, link)
		q->is_asked = false;
	podres_give_answer(p, NULL, err);
	if (!TAILQ_EMPTY(&p->questions))
		begin_after(p, RETRY_NS);
}

static void podres_on_answer(const struct grpc_answer *answer)
{
	struct podres *p = answer->data;
	struct podres_list *list = NULL;
	struct error err = {0};

	p->request = NULL;
	if (answer->status == GRPC_UNIMPLEMENTED && p->version + 1 < ARRAY_SIZE(paths)) {
		p->version++;
		begin_after(p, 0);
		return;
	}
	if (answer->status != GRPC_OK) {
		p->version = 0; /* the connection failed: the next kubelet may be newer */
		fail(&err, EIO, "ask the kubelet for its pods: %s: %.160s",
			grpc_status_name(answer->status), answer->text);
	} else {
		podres_parse(answer->message, &list, &err);
	}
	if (list)
		podres_give_answer(p, list, NULL);
	else
		podres_give_error(p, &err);
	podres_list_free(list);
	if (!TAILQ_EMPTY(&p->questions) && !loop_timer_is_armed(&p->begin))
		begin_after(p, 0);
}

static void podres_on_begin(struct loop_timer *timer, uint64_t now)
{
	struct podres *p = timer->data;
	struct podres_question *q = TAILQ_FIRST(&p->questions);
	struct grpc_call_params params = {
		.socket = p->socket,
		.path = paths[p->version],
		.answer_max = PODRES_MAX,
		.answered = podres_on_answer,
		.data = p,
	};
	struct error err;

	if (p->request || !q)
		return;
	params.timeout_ns = MAX(clock_since_ns(q->deadline_ns, clock_now_ns()), NSEC_PER_MSEC);
	TAILQ_FOREACH(q, &p->questions, link)
		q->is_asked = true;
	if (grpc_request_new(p->loop, &params, &p->request, &err) < 0)
		podres_give_error(p, &err);
}

int podres_ask(struct podres *p, podres_fn *fn, void *data, struct podres_question **ret_q)
{
	struct podres_question *q;

	if (p->n_questions >= PODRES_QUESTIONS_MAX)
		return -EAGAIN;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	q->podres = p;
	q->fn = fn;
	q->data = data;
	q->deadline_ns = clock_add_ns(clock_now_ns(), p->timeout_ns);
	TAILQ_INSERT_TAIL(&p->questions, q, link);
	p->n_questions++;
	if (!p->request && !loop_timer_is_armed(&p->begin))
		begin_after(p, 0);
	if (ret_q)
		*ret_q = q;
	return 0;
}

void podres_forget(struct podres_question *q)
{
	if (q)
		podres_question_free(q);
}

int podres_new(
	struct loop *loop, const char *socket, uint64_t timeout_ns, struct podres **ret_podres)
{
	struct podres *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->loop = loop;
	p->timeout_ns = timeout_ns ? timeout_ns : PODRES_TIMEOUT_NS;
	p->begin.data = p;
	TAILQ_INIT(&p->questions);
	p->socket = str_dup(str_from(socket ? socket : PODRES_SOCKET));
	r = p->socket ? loop_add_timer(loop, &p->begin, podres_on_begin) : -ENOMEM;
	if (r < 0) {
		podres_free(p);
		return r;
	}
	*ret_podres = p;
	return 0;
}

void podres_free(struct podres *p)
{
	if (!p)
		return;
	while (!TAILQ_EMPTY(&p->questions))
		podres_question_free(TAILQ_FIRST(&p->questions));
	grpc_request_free(p->request);
	loop_remove_timer(&p->begin);
	free(p->socket);
	free(p);
}
