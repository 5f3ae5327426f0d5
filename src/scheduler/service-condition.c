/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the condition of pods without a place, and its Event. The API server parses all managed
 * fields of a pod for each patch. That takes milliseconds for most pods, but seconds for a pod with
 * tens of thousands of keys. So a pod has at most one patch in flight. Of the messages that come
 * meanwhile, only the last is sent afterwards. After a slow or failed patch the next one waits for
 * a pause.
 */
#include "scheduler/service-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "kube/time.h"
#include "manifest/pod-condition.h"

#define SLOW_NS (NSEC_PER_SEC / 10)
#define SLOW_TIMES 16u /* the pause is this many times the patch's duration */
#define FAILED_NS NSEC_PER_SEC
#define FAILED_TWICE_MAX 6u
#define PAUSE_MAX_NS (600 * NSEC_PER_SEC)

struct condition_write {
	UT_hash_handle hh;
	struct service *service;
	char *ns, *name, *uid;
	struct kube_call *call; /* NULL: no patch in flight */
	uint64_t began_ns, not_before_ns;
	uint32_t n_failed;  /* consecutive failures */
	char *sentence;     /* next message; NULL: none */
	enum reason reason; /* reason of the next message */
	bool is_nominated;  /* the next message also writes the nominated node */
	bool has_need;      /* the next patch writes whether the pod needs a device */
	bool has_nominated; /* the last patch wrote a nominated node */
};

static void condition_write_free(struct condition_write *t)
{
	HASH_DEL(t->service->condition_writes, t);
	kube_call_cancel(t->call);
	free(t->ns);
	free(t->name);
	free(t->uid);
	free(t->sentence);
	free(t);
}

static struct condition_write *condition_write_of(struct service *s, const struct cpod *pod)
{
	const char *uid = cpod_uid(pod);
	struct condition_write *t;

	HASH_FIND_STR(s->condition_writes, uid, t);
	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->service = s;
	t->ns = str_dup(str_from(cpod_ns(pod)));
	t->name = str_dup(str_from(cpod_name(pod)));
	t->uid = str_dup(str_from(uid));
	if (t->ns && t->name && t->uid)
		HASH_ADD_KEYPTR(hh, s->condition_writes, t->uid, strlen(t->uid), t);
	if (t->hh.tbl)
		return t;
	free(t->ns);
	free(t->name);
	free(t->uid);
	free(t);
	return NULL;
}

uint64_t service_condition_pause_ns(uint64_t took_ns, uint32_t n_failed)
{
	uint64_t pause_ns = took_ns < SLOW_NS ? 0 : MIN(took_ns, PAUSE_MAX_NS) * SLOW_TIMES;

	if (n_failed)
		pause_ns = MAX(pause_ns, FAILED_NS << MIN(n_failed - 1, FAILED_TWICE_MAX));
	return MIN(pause_ns, PAUSE_MAX_NS);
}

static void service_condition_send_next(struct condition_write *t);

static void service_condition_on_written(void *data, const struct kube_answer *answer)
{
	struct condition_write *t = data;
	const uint64_t now_ns = clock_now_ns();
	const bool is_gone = answer->result == -ENOENT;

	t->call = NULL;
	if (answer->result < 0 && !is_gone)
		log_warn("pod %s/%s: %s", t->ns, t->name, answer->error.msg);
	t->n_failed = answer->result < 0 ? t->n_failed + 1 : 0;
	t->not_before_ns = now_ns +
		service_condition_pause_ns(clock_since_ns(now_ns, t->began_ns), t->n_failed);
	if (is_gone)
		condition_write_free(t);
	else
		service_condition_send_next(t);
}

static bool service_condition_may_send(void *data)
{
	const struct condition_write *t = data;

	return service_may_write(t->service);
}

/* Adds a condition to the array, which may be NULL. Returns the array, or NULL without memory. */
static json_t *add_condition(
	json_t *conditions, const char *type, bool is_true, enum reason reason, const char *message)
{
	const struct kube_time now = kube_time_format(clock_real_ns());
	json_t *condition = json_pack("{ss, ss, ss, ss*, ss, sn}", "type", type, "status",
		is_true ? "True" : "False", "reason", reason_name(reason), "message", message,
		"lastTransitionTime", now.s, "lastProbeTime");

	if (!conditions || !condition || json_array_append_new(conditions, condition) < 0) {
		json_decref(conditions);
		return NULL;
	}
	return conditions;
}

/*
 * Without a nomination the patch removes nominatedNodeName: an old value would keep other pods off
 * that node. The API server merges conditions by type.
 */
static json_t *service_condition_patch(const struct condition_write *t, const struct cpod *pod)
{
	const bool needs_device = cpod_needs_device(pod);
	json_t *conditions = json_array(), *patch;

	if (t->sentence)
		conditions = add_condition(
			conditions, "PodScheduled", false, t->reason, t->sentence);
	if (!cpod_is_need_reported(pod))
		conditions = add_condition(conditions, POD_CONDITION_NEEDS_DEVICE, needs_device,
			needs_device ? REASON_NO_DEVICE_FITS : REASON_WAITS_FOR_NO_DEVICE, NULL);
	if (!conditions)
		return NULL;
	patch = json_pack(
		"{s:{ss}, s:{s:o}}", "metadata", "uid", t->uid, "status", "conditions", conditions);
	if (t->sentence && patch)
		json_object_set_new(json_object_get(patch, "status"), "nominatedNodeName",
			t->is_nominated ? json_string(cpod_node(pod)) : json_null());
	return patch;
}

static int service_condition_send(struct condition_write *t, const struct cpod *pod)
{
	const struct kube_write write = {.target = {"v1", "pods", t->ns, t->name, "status"},
		.field_manager = SERVICE_MANAGER,
		.may_send = service_condition_may_send,
		.done = service_condition_on_written,
		.data = t,
		.ret_call = &t->call};
	_cleanup_json_ json_t *patch = service_condition_patch(t, pod);
	int r = patch ? kube_patch(t->service->client, &write, KUBE_PATCH_STRATEGIC, patch, NULL)
		      : -ENOMEM;

	if (r < 0)
		return r;
	t->began_ns = clock_now_ns();
	if (!t->sentence)
		return 0;
	t->has_nominated = t->is_nominated;
	service_event(t->service, pod, REASON_FAILED_SCHEDULING, t->sentence);
	return 0;
}

/* Returns whether the pod has these conditions already, and no nominatedNodeName to remove. */
static bool service_condition_is_written(
	const struct cpod *pod, enum reason reason, const char *sentence)
{
	return cpod_is_reported(pod, reason, sentence) && cpod_is_need_reported(pod) &&
		!kube_json_text_at(cpod_json(pod), "status", "nominatedNodeName", NULL);
}

/* Returns whether a patch is still needed: the pod has no node yet and lacks a condition. */
static bool is_due(const struct condition_write *t, const struct cpod *pod)
{
	if (!pod || !cpod_json(pod) || !service_may_write(t->service))
		return false;
	if (!t->sentence)
		return t->has_need && !cpod_is_need_reported(pod);
	return t->is_nominated || t->has_nominated ||
		!service_condition_is_written(pod, t->reason, t->sentence);
}

/* Sends the next message if it is due. Frees `t` if no call is in flight and no pause remains. */
static void service_condition_send_next(struct condition_write *t)
{
	const struct cpod *pod = cluster_pod(sched_cluster(t->service->sched), t->ns, t->name);
	const uint64_t now_ns = clock_now_ns();

	if (t->call)
		return;
	if (pod && strcmp(cpod_uid(pod), t->uid) != 0)
		pod = NULL; /* another pod with this name */
	if (is_due(t, pod)) {
		if (now_ns < t->not_before_ns)
			return;
		if (service_condition_send(t, pod) < 0) {
			t->not_before_ns = now_ns + service_condition_pause_ns(0, ++t->n_failed);
			return;
		}
	}
	free(t->sentence);
	t->sentence = NULL;
	t->has_need = false;
	if (!t->call && (!pod || (!t->n_failed && now_ns >= t->not_before_ns)))
		condition_write_free(t);
}

static void service_condition_unschedulable(struct service *s, const struct cpod *pod,
	enum reason reason, const char *sentence, bool is_nominated)
{
	struct condition_write *t = condition_write_of(s, pod);
	char *copy = t ? str_dup(str_from(sentence)) : NULL;

	if (!copy)
		return; /* the next change of the pod's message tries again */
	free(t->sentence);
	t->sentence = copy;
	t->reason = reason;
	t->is_nominated = is_nominated;
	service_condition_send_next(t);
}

void service_write_condition(
	struct service *s, const struct cpod *pod, enum reason reason, const char *sentence)
{
	struct condition_write *t;

	HASH_FIND_STR(s->condition_writes, cpod_uid(pod), t);
	/* If `t` exists, a patch in flight may still change the condition that the pod has now. */
	if (t || !service_condition_is_written(pod, reason, sentence))
		service_condition_unschedulable(s, pod, reason, sentence, false);
}

void service_write_need(struct service *s, const struct cpod *pod)
{
	struct condition_write *t = condition_write_of(s, pod);

	if (!t)
		return; /* kube-scheduler's next request about the pod tries again */
	t->has_need = true;
	service_condition_send_next(t);
}

void service_nominate(struct service *s, const struct cpod *pod, const char *sentence)
{
	service_condition_unschedulable(s, pod, REASON_UNSCHEDULABLE, sentence, true);
}

void service_condition_later(struct service *s)
{
	struct condition_write *t, *next;

	HASH_ITER(hh, s->condition_writes, t, next)
		service_condition_send_next(t);
}

void service_condition_end(struct service *s)
{
	struct condition_write *t, *next;

	HASH_ITER(hh, s->condition_writes, t, next)
		condition_write_free(t);
}
