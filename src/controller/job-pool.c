/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool: what is known of nodes, placeholders and pods that wait, as pool.h takes it; and the
 * writes of its plan, all at once. One job at a time, since each changes what the next one sees.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/rand.h"
#include "controller/controller.h"
#include "controller/placeholder.h"
#include "core/quantity.h"
#include "kube/time.h"

#define OWNER "divvy.gpu/owner"
#define DEVICES_KEY "divvy.gpu/devices"
#define MILLI "divvy.gpu/milli"
#define NODES_MAX 1024u
#define PLACEHOLDERS_MAX 4096u

/* Everything that is borrowed from the caches until the plan is carried out. */
struct view {
	struct pool_node node[NODES_MAX];
	struct pool_placeholder placeholder[PLACEHOLDERS_MAX];
	struct pool_source source[POOL_SOURCES_MAX];
	struct pool_facts facts;
};

static const char *label(const json_t *object, const char *key)
{
	return kube_json_text_at(object, "metadata", "labels", key, NULL);
}

static bool text_is(const char *text, const char *want)
{
	return text && !strcmp(text, want);
}

static bool is_over(const json_t *pod)
{
	const char *phase = kube_json_text_at(pod, "status", "phase", NULL);

	return text_is(phase, "Succeeded") || text_is(phase, "Failed");
}

static bool is_leaving(const json_t *pod)
{
	return kube_json_text_at(pod, "metadata", "deletionTimestamp", NULL);
}

bool controller_is_placeholder(const struct controller *c, const json_t *pod)
{
	return text_is(kube_json_text_at(pod, "metadata", "namespace", NULL), c->options.ns) &&
		text_is(label(pod, PLACEHOLDER_LABEL), PLACEHOLDER_NAME);
}

/* ---- what is there ---- */

static void view_nodes(const struct controller *c, struct view *v)
{
	const struct kube_entry *e = NULL;

	while ((e = controller_next(c, CACHE_NODES, e)) && v->facts.n_nodes < NODES_MAX) {
		const json_t *pool = kube_json_at(
			controller_find(c, CACHE_GPU_NODES, "", e->name), "spec", "pool", NULL);
		const char *policy = kube_json_text_at(pool, "policy", NULL);
		const json_int_t reserve = json_integer_value(json_object_get(pool, "reserve"));
		struct pool_node node = {.name = e->name};
		struct error err;

		if (!text_is(label(e->object, OWNER), "pool") || !pool)
			continue;
		if (pool_policy_parse(str_from(policy ? policy : ""), &node.policy, &err) < 0) {
			log_warn("GPUNode %s: %s", e->name, err.msg);
			continue;
		}
		node.reserve = (uint32_t)MAX(reserve, (json_int_t)0);
		v->node[v->facts.n_nodes++] = node;
	}
}

/* The device that divvyd has found behind that placeholder. NULL: none yet. */
static const char *device_of(const struct controller *c, const char *node, const char *placeholder)
{
	const json_t *devices = kube_json_at(
		controller_find(c, CACHE_GPU_NODES, "", node), "status", "devices", NULL);

	for (size_t i = 0; i < json_array_size(devices); i++) {
		const json_t *d = json_array_get(devices, i);

		if (text_is(kube_json_text_at(d, "placeholder", NULL), placeholder))
			return kube_json_text_at(d, "uuid", NULL);
	}
	return NULL;
}

/* Given to a pod that is or will be there. */
static bool is_given(const struct controller *c, const char *node, const char *uuid)
{
	const struct kube_entry *e = NULL;

	while ((e = controller_next(c, CACHE_PODS, e))) {
		const char *devices = kube_json_text_at(
			e->object, "metadata", "annotations", DEVICES_KEY, NULL);

		if (devices && strstr(devices, uuid) && !is_over(e->object) &&
			text_is(kube_json_text_at(e->object, "spec", "nodeName", NULL), node))
			return true;
	}
	return false;
}

static void view_placeholders(const struct controller *c, struct view *v)
{
	const struct kube_entry *e = NULL;
	const int64_t now_ns = (int64_t)clock_real_ns();

	while ((e = controller_next(c, CACHE_PODS, e)) &&
		v->facts.n_placeholders < PLACEHOLDERS_MAX) {
		const char *node = kube_json_text_at(e->object, "spec", "nodeName", NULL),
			   *meant = label(e->object, PLACEHOLDER_NODE_LABEL),
			   *made = kube_json_text_at(
				   e->object, "metadata", "creationTimestamp", NULL),
			   *uuid;
		uint64_t made_ns = 0;

		if (!controller_is_placeholder(c, e->object) || is_over(e->object))
			continue;
		uuid = node ? device_of(c, node, e->name) : NULL;
		if (made)
			kube_time_parse(str_from(made), &made_ns);
		v->placeholder[v->facts.n_placeholders++] = (struct pool_placeholder){
			.name = e->name,
			.node = node    ? node
				: meant ? meant
					: "",
			.age_ns = (uint64_t)MAX(now_ns - (int64_t)made_ns, (int64_t)0),
			.is_bound = node,
			.is_used = uuid && is_given(c, node, uuid),
			.is_leaving = is_leaving(e->object)};
	}
}

static uint64_t milli_of(const json_t *pod)
{
	const json_t *containers = kube_json_at(pod, "spec", "containers", NULL);
	uint64_t sum = 0;

	for (size_t i = 0; i < json_array_size(containers); i++) {
		const char *text = kube_json_text_at(
			json_array_get(containers, i), "resources", "requests", MILLI, NULL);
		uint64_t milli;

		if (text && quantity_parse(str_from(text), 1, &milli, NULL) == 0)
			sum += MIN(milli, UINT64_C(1) << 32);
	}
	return sum;
}

static bool is_unschedulable(const json_t *pod)
{
	const json_t *all = kube_json_at(pod, "status", "conditions", NULL);

	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *one = json_array_get(all, i);

		if (text_is(kube_json_text_at(one, "type", NULL), "PodScheduled"))
			return text_is(kube_json_text_at(one, "reason", NULL), "Unschedulable");
	}
	return false;
}

static void view_sources(const struct controller *c, struct view *v)
{
	const struct kube_entry *e = NULL;

	while ((e = controller_next(c, CACHE_PODS, e)) && v->facts.n_sources < POOL_SOURCES_MAX) {
		const uint64_t milli = milli_of(e->object);

		if (!milli || kube_json_text_at(e->object, "spec", "nodeName", NULL) ||
			is_over(e->object) || is_leaving(e->object) || !is_unschedulable(e->object))
			continue;
		v->source[v->facts.n_sources++] = (struct pool_source){e->uid, milli};
	}
}

/* ---- writing ---- */

static void on_written(void *data, const struct kube_answer *answer)
{
	struct job *job = data;

	if (answer->result < 0 && answer->result != -ENOENT && !job->trouble) {
		job->trouble = answer->result;
		log_warn("placeholder: %s", answer->error.msg);
	}
	if (--job->kind == 0)
		job_end(job, job->trouble, "placeholders");
}

/* The image that this controller itself runs from. */
static const char *image_of(const struct controller *c)
{
	const json_t *own = controller_find(c, CACHE_PODS, c->options.ns, c->options.pod_name);

	if (c->options.placeholder_image)
		return c->options.placeholder_image;
	return kube_json_text_at(
		json_array_get(kube_json_at(own, "spec", "containers", NULL), 0), "image", NULL);
}

static int make(struct job *job, const char *node, struct error *err)
{
	const struct kube_write write = {.target = {.group_version = "v1",
						 .resource = "pods",
						 .namespace_name = job->c->options.ns},
		.field_manager = "divvy-controller",
		.done = on_written,
		.data = job};
	const char *image = image_of(job->c);
	_cleanup_json_ json_t *pod = NULL;
	uint64_t random;
	char name[64];
	int r;

	if (!image)
		return fail(err, ENOENT,
			"no image for placeholders: pod %s/%s is not known, and "
			"--placeholder-image names none",
			job->c->options.ns, job->c->options.pod_name);
	r = random_bytes(&random, sizeof(random));
	if (r < 0)
		return fail_errno(err, -r, "no random numbers for a name");
	snprintf(name, sizeof(name), PLACEHOLDER_NAME "-%010llx",
		(unsigned long long)(random & 0xffffffffffu));
	pod = placeholder_pod(name, image, node[0] ? node : NULL);
	r = pod ? kube_create(job->c->client, &write, pod, err)
		: fail(err, ENOMEM, "out of memory");
	job->kind += r == 0;
	return r;
}

static int delete_pod(struct job *job, const char *ns, const char *name, struct error *err)
{
	const struct kube_write write = {.target = {.group_version = "v1",
						 .resource = "pods",
						 .namespace_name = ns,
						 .name = name},
		.field_manager = "divvy-controller",
		.done = on_written,
		.data = job};
	const json_t *pod = controller_find(job->c, CACHE_PODS, ns, name);
	const struct kube_delete what = {
		.uid = kube_json_text_at(pod, "metadata", "uid", NULL), .grace_s = -1};
	int r = kube_delete(job->c->client, &write, &what, err);

	job->kind += r == 0;
	return r;
}

/* What was evicted, or preempted, has let its device go. */
static int sweep_over(struct job *job, struct error *err)
{
	const struct kube_entry *e = NULL;
	int r = 0;

	while (r == 0 && (e = controller_next(job->c, CACHE_PODS, e)))
		if (controller_is_placeholder(job->c, e->object) && is_over(e->object) &&
			!is_leaving(e->object))
			r = delete_pod(job, job->c->options.ns, e->name, err);
	return r;
}

/* ---- devices that were lost ---- */

static bool is_lost(const json_t *gpu_node, const char *devices)
{
	const json_t *all = kube_json_at(gpu_node, "status", "devices", NULL);

	if (!text_is(kube_json_text_at(gpu_node, "status", "owner", NULL), "pool"))
		return false;
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *d = json_array_get(all, i);
		const char *uuid = kube_json_text_at(d, "uuid", NULL);

		if (uuid && strstr(devices, uuid) &&
			text_is(kube_json_text_at(d, "owner", NULL), "native") &&
			!kube_json_text_at(d, "placeholder", NULL))
			return true;
	}
	return false;
}

/* divvyd has closed the gate; the pod's own controller makes another, which finds another place. */
static int sweep_lost(struct job *job, struct error *err)
{
	struct controller *c = job->c;
	const struct kube_entry *e = NULL;
	int r = 0;

	while (r == 0 && (e = controller_next(c, CACHE_PODS, e))) {
		const char *node = kube_json_text_at(e->object, "spec", "nodeName", NULL),
			   *devices = kube_json_text_at(
				   e->object, "metadata", "annotations", DEVICES_KEY, NULL);

		if (!node || !devices || is_over(e->object) || is_leaving(e->object) ||
			!is_lost(controller_find(c, CACHE_GPU_NODES, "", node), devices))
			continue;
		controller_event(c, e->object, "v1", "Pod", true, "PlaceholderLost",
			"Its device has gone back to the node's own device plugin before it had "
			"ended: the pod is deleted.");
		r = delete_pod(job, e->namespace_name, e->name, err);
	}
	return r;
}

/* ---- the job ---- */

static int carry_out(struct job *job, struct view *v, struct error *err)
{
	struct controller *c = job->c;
	struct pool_plan plan;
	int r = vgpu_pool_decide(c->pool, &v->facts, &plan);

	if (r < 0)
		return fail(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < plan.n_make; i++) {
		log_info("a whole device is wanted%s%s", plan.make[i][0] ? " of node " : "",
			plan.make[i]);
		r = make(job, plan.make[i], err);
	}
	for (size_t i = 0; r == 0 && i < plan.n_give_back; i++) {
		log_info("placeholder %s is given back", plan.give_back[i]);
		r = delete_pod(job, c->options.ns, plan.give_back[i], err);
	}
	if (plan.again_ns != CLOCK_NEVER)
		queue_add_at(c->queue, job->key, plan.again_ns);
	return r;
}

void job_pool(struct job *job)
{
	struct controller *c = job->c;
	struct view *v = NULL;
	struct error err = {0};
	int r = 0;

	job->kind =
		1; /* our own, so that none of the writes is the last one before all have begun */
	if (controller_is_synced(c, CACHE_PODS) && controller_is_synced(c, CACHE_NODES) &&
		controller_is_synced(c, CACHE_GPU_NODES)) {
		v = calloc(1, sizeof(*v));
		r = v ? 0 : fail(&err, ENOMEM, "out of memory");
	}
	if (v) {
		v->facts = (struct pool_facts){.node = v->node,
			.placeholder = v->placeholder,
			.source = v->source,
			.now_ns = clock_now_ns()};
		view_nodes(c, v);
		view_placeholders(c, v);
		if (v->facts.n_nodes)
			view_sources(c, v);
		r = sweep_over(job, &err);
		r = r < 0 ? r : sweep_lost(job, &err);
		r = r < 0 ? r : carry_out(job, v, &err);
	}
	free(v);
	if (r < 0 && !job->trouble) {
		job->trouble = r;
		log_warn("pool: %s", err.msg);
	}
	if (--job->kind == 0)
		job_end(job, job->trouble, "pool");
}
