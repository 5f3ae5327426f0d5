/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends writes to the API server: Bindings, Events, annotations, evictions and the status of
 * policies. service-condition.c writes the conditions of pods that wait.
 */
#include "scheduler/service-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/log.h"
#include "kube/time.h"
#include "manifest/pod-condition.h"
#include "scheduler/decide.h"

bool service_may_write(const struct service *s)
{
	return s->is_leading && (!s->lease || kube_lease_may_write(s->lease));
}

static struct flight *service_write_begin(
	struct service *s, const char *ns, const char *name, const char *uid)
{
	struct flight *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->service = s;
	f->began_ns = clock_now_ns();
	f->ns = str_dup(str_from(ns));
	f->name = str_dup(str_from(name));
	f->uid = str_dup(str_from(uid));
	DL_APPEND(s->flights, f);
	return f;
}

static struct flight *take_off(struct service *s, const struct cpod *pod)
{
	return service_write_begin(s, cpod_ns(pod), cpod_name(pod), cpod_uid(pod));
}

/*
 * Checks the Lease right before the request is sent. A process that was stopped (SIGSTOP) could
 * otherwise send old decisions after another leader has decided differently.
 */
static bool service_write_may_send(void *data)
{
	const struct flight *f = data;

	return service_may_write(f->service);
}

static void service_write_end(struct flight *f)
{
	if (f->asked)
		service_answer_bind(f->asked, "divvy-scheduler is shutting down; retry");
	DL_DELETE(f->service->flights, f);
	free(f->ns);
	free(f->name);
	free(f->uid);
	free(f->refusal);
	free(f->allocating);
	free(f);
}

void service_land_all(struct service *s)
{
	while (s->flights) {
		kube_call_cancel(s->flights->call);
		service_write_end(s->flights);
	}
}

void service_event(struct service *s, const struct cpod *pod, enum reason reason, const char *text)
{
	const struct kube_event event = {.type = reason_event_type(reason),
		.reason = reason_name(reason),
		.message = text,
		.object = {"v1", "Pod", cpod_ns(pod), cpod_name(pod), cpod_uid(pod)}};

	if (service_may_write(s))
		kube_record(s->recorder, &event);
}

/* ---- Bindings ---- */

static void service_write_scheduled_event(struct service *s, const struct cpod *pod)
{
	const struct assigned *assigned = cpod_assigned(pod);
	_cleanup_buf_ struct buf text = BUF_INIT(EVENT_MESSAGE_MAX - 1);

	buf_addf(&text, "bound to %s", cpod_node(pod));
	for (uint32_t i = 0; i < assigned->n; i++) {
		buf_addf(&text, "%s %s on ", i ? ";" : ":", assigned->v[i].name);
		for (uint32_t k = 0; k < assigned->v[i].n; k++)
			buf_addf(&text, "%s%s", k ? ", " : "", assigned->v[i].device[k]);
	}
	if (*cpod_why(pod))
		buf_addf(&text, "; %s", cpod_why(pod));
	service_event(s, pod, REASON_SCHEDULED, buf_text(&text));
}

static void service_unreserve(struct flight *f);

/*
 * Ends the Binding: reports the result to sched and answers the extender request. why: reason of a
 * failure.
 */
static void service_write_settle(struct flight *f, bool is_done, const char *why)
{
	struct service *s = f->service;

	if (f->asked)
		service_answer_bind(TAKE_PTR(f->asked),
			is_done              ? NULL
				: f->refusal ? f->refusal
					     : why);
	if (!is_done && f->claim)
		service_unreserve(f);
	s->n_binds--;
	s->n_bound += is_done;
	prom_observe(&s->bind_time, clock_since_ns(clock_now_ns(), f->began_ns));
	sched_set_time(s->sched, clock_now_ns(), clock_real_ns());
	if (!is_done && f->refusal)
		sched_refused(s->sched, f->ns, f->name, f->uid, f->refusal);
	else
		sched_bound(s->sched, f->ns, f->name, f->uid, is_done);
	service_wake(s);
	service_write_end(f);
}

static void service_write_on_read(void *data, const struct kube_answer *answer)
{
	struct flight *f = data;
	_cleanup_json_ json_t *pod = NULL;
	const char *uid, *node;

	f->call = NULL;
	if (answer->result == 0 && kube_json_parse(answer->body, &pod, NULL) == 0) {
		uid = kube_json_text_at(pod, "metadata", "uid", NULL);
		node = kube_json_text_at(pod, "spec", "nodeName", NULL);
		service_write_settle(f, uid && !strcmp(uid, f->uid) && node && *node,
			"the Binding got no answer, and the pod is not bound");
		return;
	}
	/*
	 * If the result stays unknown, the pod still counts as bound: the watch will show its node,
	 * or kube-scheduler asks again. -ENOENT: the pod is deleted, so its place is free.
	 */
	service_write_settle(f, answer->result != -ENOENT, answer->error.msg);
}

/*
 * Returns whether the API server may have bound the pod although the answer is missing or an error.
 */
static bool is_unclear(const struct kube_answer *answer)
{
	return answer->result != -ECANCELED && (!answer->status.http || answer->status.http >= 500);
}

/*
 * Keeps the API server's message if it refused the Binding: sched_refused() then pauses the pod's
 * preemption. Other failures do not, because they say nothing about the pod.
 */
static void note_refusal(struct flight *f, const struct kube_answer *answer)
{
	_cleanup_buf_ struct buf text = BUF_INIT(EVENT_MESSAGE_MAX - 1);

	if (answer->result == 0 || !kube_status_is_refusal(&answer->status))
		return;
	if (kube_status_format(&answer->status, &text) == 0)
		f->refusal = str_dup(buf_str(&text));
}

static void on_bound(void *data, const struct kube_answer *answer)
{
	struct flight *f = data;
	const struct kube_write read = {.target = {"v1", "pods", f->ns, f->name, NULL},
		.done = service_write_on_read,
		.data = f};
	const struct cpod *pod;

	f->call = NULL;
	if (answer->result < 0)
		log_warn("pod %s/%s: %s", f->ns, f->name, answer->error.msg);
	note_refusal(f, answer);
	if (answer->result < 0 && is_unclear(answer) &&
		kube_read(f->service->client, &read, NULL) == 0)
		return;
	pod = cluster_pod(sched_cluster(f->service->sched), f->ns, f->name);
	if (answer->result == 0 && pod && !strcmp(cpod_uid(pod), f->uid))
		service_write_scheduled_event(f->service, pod);
	service_write_settle(f, answer->result == 0, answer->error.msg);
}

static int service_send_binding(struct flight *f, const struct cpod *pod, struct error *err)
{
	struct service *s = f->service;
	const struct kube_write write = {
		.target = {.namespace_name = cpod_ns(pod), .name = cpod_name(pod)},
		.field_manager = SERVICE_MANAGER,
		.may_send = service_write_may_send,
		.done = on_bound,
		.data = f,
		.ret_call = &f->call};
	_cleanup_json_ json_t *annotations = NULL;
	int r = decide_annotations(sched_cluster(s->sched), pod, s->epoch, &annotations);

	if (r < 0)
		return fail(err, -r, "%s", strerror(-r));
	if (!service_may_write(s))
		return fail(err, EPERM, "another scheduler leads");
	r = kube_bind(s->client, &write, cpod_node(pod), cpod_uid(pod), annotations, err);
	if (r == 0)
		log_debug("pod %s/%s: to node %s", cpod_ns(pod), cpod_name(pod), cpod_node(pod));
	return r;
}

/* ---- ResourceClaims of a Binding ---- */

static void service_bind_next(struct flight *f);

/* The pod, if it is still the one that the Binding is about; else NULL. */
static struct cpod *service_bind_pod(const struct flight *f)
{
	struct cpod *pod = cluster_pod(sched_cluster(f->service->sched), f->ns, f->name);

	return pod && !strcmp(cpod_uid(pod), f->uid) && cpod_state(pod) == CPOD_ASSUMED ? pod
											: NULL;
}

/*
 * The devices of an allocation stay taken while it is written, even if its pod is deleted
 * meanwhile: no other claim may get them.
 */
static int service_begin_allocation(struct flight *f, const char *claim)
{
	f->allocating = str_dup(str_from(claim));
	if (!f->allocating)
		return -ENOMEM;
	cluster_begin_claim_write(sched_cluster(f->service->sched), f->ns, claim);
	return 0;
}

static void service_end_allocation(struct flight *f, bool is_unclear)
{
	_cleanup_free_ char *claim = TAKE_PTR(f->allocating);

	if (claim)
		cluster_end_claim_write(sched_cluster(f->service->sched), f->ns, claim, is_unclear);
}

/*
 * After the finalizer the allocation is written, and after the allocation the next claim. The
 * answer is the new claim, which the scheduler knows at once, before a watch shows it.
 */
static void service_bind_on_claim(void *data, const struct kube_answer *answer)
{
	struct flight *f = data;
	_cleanup_json_ json_t *claim = NULL;
	bool is_shown;

	f->call = NULL;
	if (answer->result < 0) {
		log_warn("pod %s/%s: ResourceClaim: %s", f->ns, f->name, answer->error.msg);
		note_refusal(f, answer);
		service_end_allocation(f, is_unclear(answer));
		service_write_settle(f, false, answer->error.msg);
		return;
	}
	is_shown = kube_json_parse(answer->body, &claim, NULL) == 0 &&
		cluster_set_claim_answer(sched_cluster(f->service->sched), claim, NULL) == 0;
	service_end_allocation(f, !is_shown);
	f->claim += f->has_finalizer;
	f->has_finalizer = !f->has_finalizer;
	service_bind_next(f);
}

/*
 * Makes the next write of a claim: first the finalizer, which keeps the claim while it has devices,
 * then the allocation and the reservation for the pod. The API server refuses another allocation
 * than the one that a claim has, so two schedulers cannot both allocate it. The version refuses a
 * claim that has changed since the node was chosen: it may have devices of another node now.
 */
static json_t *service_claim_patch(
	const struct flight *f, const struct claims_write *claim, const char *version)
{
	if (!f->has_finalizer)
		return json_pack("{s:{ss, ss*, s:[s]}}", "metadata", "uid", claim->uid,
			"resourceVersion", version, "finalizers",
			"resource.kubernetes.io/delete-protection");
	return json_pack("{s:{ss, ss*}, s:{s:O*, s:[{ss, ss, ss}]}}", "metadata", "uid", claim->uid,
		"resourceVersion", version, "status", "allocation", claim->allocation,
		"reservedFor", "resource", "pods", "name", f->name, "uid", f->uid);
}

static int service_write_claim(
	struct flight *f, const struct claims_write *claim, const char *version, struct error *err)
{
	const struct kube_write write = {.target = {"resource.k8s.io/v1", "resourceclaims", f->ns,
						 claim->name, f->has_finalizer ? "status" : NULL},
		.field_manager = SERVICE_MANAGER,
		.may_send = service_write_may_send,
		.done = service_bind_on_claim,
		.data = f,
		.ret_call = &f->call};
	_cleanup_json_ json_t *patch = service_claim_patch(f, claim, version);
	int r;

	if (!patch)
		return fail(err, ENOMEM, "out of memory");
	if (!service_may_write(f->service))
		return fail(err, EPERM, "another scheduler leads");
	if (f->has_finalizer && claim->allocation && service_begin_allocation(f, claim->name) < 0)
		return fail(err, ENOMEM, "out of memory");
	r = kube_patch(f->service->client, &write, KUBE_PATCH_STRATEGIC, patch, err);
	if (r < 0)
		service_end_allocation(f, false);
	return r;
}

/* Ends the Binding, because a driver has to make devices ready: the claims keep them. */
static void service_defer(struct flight *f)
{
	struct service *s = f->service;

	if (f->asked)
		service_answer_bind(
			TAKE_PTR(f->asked), "the devices of a ResourceClaim are not ready");
	s->n_binds--;
	sched_set_time(s->sched, clock_now_ns(), clock_real_ns());
	sched_defer(s->sched, f->ns, f->name, f->uid);
	service_wake(s);
	service_write_end(f);
}

/* Writes the next claim of the pod, or after the last one the Binding. */
static void service_bind_next(struct flight *f)
{
	const struct cpod *pod = service_bind_pod(f);
	struct error err = {0};
	int r;

	if (!pod) {
		service_write_settle(f, false, "the pod has changed");
		return;
	}
	if (f->claim < cpod_n_claims(pod)) {
		const struct claims_write claim = cpod_claim(pod, f->claim);

		/* A claim that has an allocation has the finalizer too. */
		f->has_finalizer |= !claim.allocation || claim.has_finalizer;
		r = service_write_claim(f, &claim,
			cluster_claim_version(sched_cluster(f->service->sched), pod, f->claim),
			&err);
	} else if (!cpod_claims_are_ready(sched_cluster(f->service->sched), pod)) {
		service_defer(f);
		return;
	} else {
		r = service_send_binding(f, pod, &err);
	}
	if (r < 0) {
		log_warn("pod %s/%s: cannot be bound: %s", f->ns, f->name, err.msg);
		service_write_settle(f, false, err.msg);
	}
}

void service_bind(struct service *s, const struct cpod *pod, struct http_request *asked)
{
	struct flight *f = take_off(s, pod);
	struct error err = {0};
	int r;

	if (!f) {
		if (asked)
			service_answer_bind(asked, "out of memory");
		log_warn("pod %s/%s: cannot be bound: out of memory", cpod_ns(pod), cpod_name(pod));
		return;
	}
	s->n_binds++;
	f->asked = asked;
	if (cpod_n_claims(pod)) {
		service_bind_next(f);
		return;
	}
	r = service_send_binding(f, pod, &err);
	if (r == 0)
		return;
	log_warn("pod %s/%s: cannot be bound: %s", f->ns, f->name, err.msg);
	service_write_settle(f, false, err.msg);
}

/* ---- patches of pods ---- */

static void on_patched(void *data, const struct kube_answer *answer)
{
	struct flight *f = data;

	f->call = NULL;
	/*
	 * Not an error: -ENOENT, the pod is deleted; -EAGAIN, a disruption budget refuses the
	 * eviction for now.
	 */
	if (answer->result < 0 && answer->result != -ENOENT && answer->result != -EAGAIN)
		log_warn("pod %s/%s: %s", f->ns, f->name, answer->error.msg);
	service_write_end(f);
}

static void send_patch(struct service *s, const struct cpod *pod, const struct kube_target *target,
	enum kube_patch_kind kind, const json_t *patch)
{
	struct flight *f = take_off(s, pod);
	const struct kube_write write = {.target = *target,
		.field_manager = SERVICE_MANAGER,
		.may_send = service_write_may_send,
		.done = on_patched,
		.data = f,
		.ret_call = f ? &f->call : NULL};

	if (f && (!service_may_write(s) || kube_patch(s->client, &write, kind, patch, NULL) < 0))
		service_write_end(f);
}

static void patch_status(struct service *s, const struct cpod *pod, const json_t *status)
{
	send_patch(s, pod,
		&(struct kube_target){"v1", "pods", cpod_ns(pod), cpod_name(pod), "status"},
		KUBE_PATCH_STRATEGIC, status);
}

/* ---- volumes ---- */

static void claim_one(
	struct service *s, const struct cpod *pod, const char *name, const json_t *claim)
{
	send_patch(s, pod,
		&(struct kube_target){"v1", "persistentvolumeclaims", cpod_ns(pod), name, NULL},
		KUBE_PATCH_MERGE, claim);
}

void service_claim(struct service *s, const struct cpod *pod, const struct decide_claims *claims)
{
	_cleanup_json_ json_t *patch = json_pack("{s:{s:{ss}}}", "metadata", "annotations",
		"volume.kubernetes.io/selected-node", claims->node);

	for (uint32_t i = 0; patch && i < claims->n; i++)
		claim_one(s, pod, claims->name[i], patch);
}

/*
 * Undoes the writes of ResourceClaims for a Binding that failed: ends the reservation, and the
 * allocation if this Binding has made it. The API server refuses that if another pod has reserved
 * the claim since.
 */
static void service_unreserve(struct flight *f)
{
	const struct cluster *c = sched_cluster(f->service->sched);
	const struct cpod *pod = service_bind_pod(f);

	for (uint32_t i = 0; pod && i < MIN(f->claim, cpod_n_claims(pod)); i++) {
		const struct claims_write claim = cpod_claim(pod, i);
		const char *version = cluster_claim_version(c, pod, i);
		_cleanup_json_ json_t *patch = json_pack("{s:{ss*}, s:{s:[{ss, ss}]}}", "metadata",
			"resourceVersion", version, "status", "reservedFor", "$patch", "delete",
			"uid", f->uid);

		if (patch && claim.allocation)
			json_object_set_new(
				json_object_get(patch, "status"), "allocation", json_null());
		if (patch && version)
			send_patch(f->service, pod,
				&(struct kube_target){"resource.k8s.io/v1", "resourceclaims", f->ns,
					claim.name, "status"},
				KUBE_PATCH_STRATEGIC, patch);
	}
}

/*
 * Frees the devices of claims that the waiting pod alone could use, as kube-scheduler does for a
 * pod that fits no node of its claim. The version keeps the devices if the claim has changed.
 */
void service_free_claims(struct service *s, const struct cpod *pod)
{
	struct claims_unused claim;

	for (uint32_t at = 0; cpod_next_unused_claim(sched_cluster(s->sched), pod, &at, &claim);) {
		_cleanup_json_ json_t *patch = json_pack("{s:{ss, ss}, s:{sn, sn, sn}}", "metadata",
			"uid", claim.uid, "resourceVersion", claim.version, "status", "allocation",
			"reservedFor", "devices");

		if (patch)
			send_patch(s, pod,
				&(struct kube_target){"resource.k8s.io/v1", "resourceclaims",
					cpod_ns(pod), claim.name, "status"},
				KUBE_PATCH_MERGE, patch);
	}
}

/* ---- resize requests ---- */

void service_grant(struct service *s, const struct cpod *pod, bool is_granted, const char *sentence)
{
	const enum reason reason = is_granted ? REASON_GRANTED : REASON_RESIZE_REJECTED;
	const struct kube_time now = kube_time_format(clock_real_ns());
	_cleanup_json_ json_t *annotations = NULL, *patch = NULL;

	if (is_granted &&
		decide_annotations(sched_cluster(s->sched), pod, s->epoch, &annotations) < 0)
		return;
	patch = json_pack("{s:{ss, s:O*}, s:{s:[{ss, ss, ss, ss, ss}]}}", "metadata", "uid",
		cpod_uid(pod), "annotations", annotations, "status", "conditions", "type",
		POD_CONDITION_GRANTED, "status", is_granted ? "True" : "False", "reason",
		reason_name(reason), "message", sentence, "lastTransitionTime", now.s);
	if (patch)
		patch_status(s, pod, patch);
	service_event(
		s, pod, is_granted ? REASON_RESIZE_ACCEPTED : REASON_RESIZE_REJECTED, sentence);
}

static void patch_annotations(struct service *s, const struct cpod *pod, json_t *annotations)
{
	_cleanup_json_ json_t *patch = json_pack(
		"{s:{ss, sO}}", "metadata", "uid", cpod_uid(pod), "annotations", annotations);

	if (patch)
		patch_status(s, pod, patch);
}

void service_running(struct service *s, const struct cpod *pod)
{
	_cleanup_json_ json_t *patch = NULL;

	if (!cpod_running(pod))
		return;
	patch = json_pack("{s:{ss}}", "metadata", "uid", cpod_uid(pod));
	if (patch && json_object_update(json_object_get(patch, "metadata"), cpod_running(pod)) == 0)
		patch_status(s, pod, patch);
}

void service_refresh_epoch(struct service *s, const struct cpod *pod)
{
	_cleanup_json_ json_t *annotations = NULL;
	char epoch[24];

	snprintf(epoch, sizeof(epoch), "%llu", (unsigned long long)s->epoch);
	annotations = json_pack("{ss}", "divvy.gpu/epoch", epoch);
	if (annotations)
		patch_annotations(s, pod, annotations);
}

/* ---- evictions ---- */

void service_evict(struct service *s, const struct cpod *pod, enum reason reason,
	const struct sched_preemptor *preemptor)
{
	const struct kube_delete what = {.uid = cpod_uid(pod), .grace_s = -1};
	const char *version = kube_discovery_eviction(s->discovery);
	struct flight *f = take_off(s, pod);
	const struct kube_write write = {
		.target = {.namespace_name = cpod_ns(pod), .name = cpod_name(pod)},
		.field_manager = SERVICE_MANAGER,
		.may_send = service_write_may_send,
		.done = on_patched,
		.data = f,
		.ret_call = f ? &f->call : NULL};
	_cleanup_buf_ struct buf text = BUF_INIT(EVENT_MESSAGE_MAX - 1);

	if (!f)
		return;
	if (!service_may_write(s) || !version ||
		kube_evict(s->client, &write, version, &what, NULL) < 0) {
		service_write_end(f);
		return;
	}
	/* A repeated eviction has its Event already. */
	if (!preemptor)
		return;
	buf_add_text(&text, "evicted for pod ");
	sched_preemptor_format(preemptor, &text);
	service_event(s, pod, reason, buf_text(&text));
}

/* ---- policies ---- */

static void on_reported(void *data, const struct kube_answer *answer)
{
	struct flight *f = data;

	f->call = NULL;
	if (answer->result < 0 && answer->result != -ENOENT)
		log_warn("gpupolicy %s: %s", f->name, answer->error.msg);
	service_write_end(f);
}

static void service_write_report(struct service *s, const char *name, json_t *status)
{
	struct flight *f = service_write_begin(s, "", name, "");
	const struct kube_write write = {
		.target = {"divvy.gpu/v1", "gpupolicies", NULL, name, "status"},
		.field_manager = SERVICE_MANAGER,
		.may_send = service_write_may_send,
		.done = on_reported,
		.data = f,
		.ret_call = f ? &f->call : NULL};
	_cleanup_json_ json_t *patch = json_pack("{sO}", "status", status);

	if (f &&
		(!patch || !service_may_write(s) ||
			kube_patch(s->client, &write, KUBE_PATCH_MERGE, patch, NULL) < 0))
		service_write_end(f);
}

void service_report(struct service *s)
{
	_cleanup_json_ json_t *statuses = NULL;
	const char *name;
	json_t *status;

	if (!service_may_write(s) || cluster_report(sched_cluster(s->sched), &statuses) < 0)
		return;
	json_object_foreach(statuses, name, status)
		service_write_report(s, name, status);
}
