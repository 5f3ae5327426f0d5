/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles the pool: passes nodes, placeholders and waiting pods to pool-view.h, and starts all
 * writes of the plan at once. Only one pool job runs at a time, because each plan changes the facts
 * for the next plan.
 */
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"
#include "controller/controller.h"
#include "controller/controller-placeholder.h"
#include "controller/pool-view.h"

/* ---- writes ---- */

static void job_pool_on_written(void *data, const struct kube_answer *answer)
{
	struct job *job = data;

	if (answer->result < 0 && answer->result != -ENOENT && !job->trouble) {
		job->trouble = answer->result;
		log_warn("placeholder: %s", answer->error.msg);
	}
	if (--job->kind == 0)
		job_end(job, job->trouble, "placeholders");
}

static bool is_refusal(const struct kube_answer *answer)
{
	const int http = answer->status.http;

	return http >= 400 && http < 500 && http != 409 && http != 429;
}

/*
 * A quota, a limit range or an admission controller can refuse the placeholder. Every pod that
 * waits for a whole device then gets an Event.
 */
static void on_made(void *data, const struct kube_answer *answer)
{
	struct job *job = data;
	const struct kube_entry *e = NULL;
	char text[EVENT_MESSAGE_MAX];
	struct error room;

	if (is_refusal(answer)) {
		snprintf(text, sizeof(text),
			"no whole device can be taken from another device plugin, because the "
			"placeholder pod in namespace %s was refused: %s",
			job->c->options.ns, kube_answer_sentence(answer, &room));
		while ((e = controller_next(job->c, CACHE_PODS, e)))
			if (pool_view_waits(e->object))
				controller_event(job->c, e->object, "v1", "Pod", true,
					"PlaceholderRefused", text);
	}
	job_pool_on_written(data, answer);
}

/*
 * Returns the image for placeholders: the image that --placeholder-image names, or else that of
 * this controller.
 */
static const char *image_of(const struct controller *c)
{
	const json_t *own = controller_find(c, CACHE_PODS, c->options.ns, c->options.pod_name);

	if (c->options.placeholder_image)
		return c->options.placeholder_image;
	return pool_view_image(own);
}

/* Returns a write for a pod; name NULL: for a new pod. */
static struct kube_write write_pod(struct job *job, const char *ns, const char *name)
{
	return job_write(job,
		&(struct kube_target){.group_version = "v1",
			.resource = "pods",
			.namespace_name = ns,
			.name = name},
		job_pool_on_written);
}

static int job_pool_create_placeholder(struct job *job, const char *node, struct error *err)
{
	struct kube_write write = write_pod(job, job->c->options.ns, NULL);
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
	write.done = on_made;
	pod = placeholder_pod(name, image, node[0] ? node : NULL);
	r = pod ? kube_create(job->c->client, &write, pod, err)
		: fail(err, ENOMEM, "out of memory");
	job->kind += r == 0;
	return r;
}

static int job_pool_delete_placeholder(struct job *job, const char *name, struct error *err)
{
	const struct kube_write write = write_pod(job, job->c->options.ns, name);
	int r = job_patch(job, &write, KUBE_PATCH_MERGE,
		json_pack("{s:{s:{s:s}}}", "metadata", "annotations", PLACEHOLDER_RELEASED, "true"),
		err);

	job->kind += r > 0;
	return MIN(r, 0);
}

static int delete_pod(struct job *job, const char *ns, const char *name, struct error *err)
{
	const struct kube_write write = write_pod(job, ns, name);
	const json_t *pod = controller_find(job->c, CACHE_PODS, ns, name);
	const struct kube_delete what = {
		.uid = kube_json_text_at(pod, "metadata", "uid", NULL), .grace_s = -1};
	int r = kube_delete(job->c->client, &write, &what, err);

	job->kind += r == 0;
	return r;
}

static int mark_bound(struct job *job, const struct kube_entry *e, struct error *err)
{
	const struct kube_write write = write_pod(job, e->namespace_name, e->name);
	const char *node = kube_json_text_at(e->object, "spec", "nodeName", NULL);
	json_t *change = node && placeholder_is_one(e->object, job->c->options.ns)
		? placeholder_bound_patch(e->object, controller_find(job->c, CACHE_NODES, "", node))
		: NULL;
	int r = change ? job_patch(job, &write, KUBE_PATCH_MERGE, change, err) : 0;

	job->kind += r > 0;
	return MIN(r, 0);
}

/* ---- facts ---- */

static int add_nodes(struct job *job, struct pool_view *view, struct error *err)
{
	const struct kube_entry *e = NULL;

	while ((e = controller_next(job->c, CACHE_GPU_NODES, e))) {
		const json_t *labels = kube_json_at(
			controller_find(job->c, CACHE_NODES, "", e->name), "metadata", "labels",
			NULL);
		int r = pool_view_has(labels, e->object)
			? pool_view_add_node(view, e->name, labels, e->object,
				  controller_find(
					  job->c, CACHE_LEASES, job->c->options.lease_ns, e->name),
				  err)
			: 0;

		if (r == -ENOMEM)
			return r;
		if (r < 0)
			log_warn("%s", err->msg);
	}
	return 0;
}

/*
 * divvyd has closed a lost device; its tenants' pods are deleted, and their controllers make new
 * ones that get other places.
 */
static int job_pool_add_pods(struct job *job, struct pool_view *view, struct error *err)
{
	const struct kube_entry *e = NULL;
	int r = 0;

	while (r == 0 && (e = controller_next(job->c, CACHE_PODS, e))) {
		if (pool_view_add_pod(view, e->object) != POOL_POD_LOST) {
			r = mark_bound(job, e, err);
			continue;
		}
		controller_event(job->c, e->object, "v1", "Pod", true, "PlaceholderLost",
			"the pod is deleted because its device returned to another device plugin "
			"while the pod was running");
		r = delete_pod(job, e->namespace_name, e->name, err);
	}
	return r;
}

/* ---- the job ---- */

static int job_pool_carry_out_plan(struct job *job, struct pool_view *view, struct error *err)
{
	struct controller *c = job->c;
	const struct pool_facts *facts = pool_view_facts(view, clock_now_ns());
	struct pool_plan plan;
	int r = vgpu_pool_decide(c->pool, facts, &plan);

	if (r < 0)
		return fail(err, ENOMEM, "out of memory");
	c->has_pool = facts->n_nodes || facts->n_placeholders;
	for (size_t i = 0; r == 0 && i < plan.n_make; i++) {
		log_info("creating a placeholder for a whole device%s%s",
			plan.make[i][0] ? " of node " : "", plan.make[i]);
		r = job_pool_create_placeholder(job, plan.make[i], err);
	}
	for (size_t i = 0; r == 0 && i < plan.n_give_back; i++) {
		log_info("placeholder %s is deleted", plan.give_back[i]);
		r = delete_pod(job, c->options.ns, plan.give_back[i], err);
	}
	for (size_t i = 0; r == 0 && i < plan.n_release; i++) {
		log_info("placeholder %s is released", plan.release[i]);
		r = job_pool_delete_placeholder(job, plan.release[i], err);
	}
	if (plan.again_ns != CLOCK_NEVER)
		queue_add_at(c->queue, job->key, plan.again_ns);
	return r;
}

void job_pool(struct job *job)
{
	struct controller *c = job->c;
	struct pool_view *view = NULL;
	struct error err = {0};
	int r = 0;

	job->kind =
		/*
		 * Number of writes in flight plus one, so that an answer does not end the job
		 * before all writes have started.
		 */
		1;
	if (controller_is_synced(c, CACHE_PODS) && controller_is_synced(c, CACHE_NODES) &&
		controller_is_synced(c, CACHE_GPU_NODES) && controller_is_synced(c, CACHE_LEASES)) {
		r = pool_view_new(c->options.ns, clock_real_ns(), &view);
		r = r < 0 ? fail(&err, ENOMEM, "out of memory") : add_nodes(job, view, &err);
		r = r < 0 ? r : job_pool_add_pods(job, view, &err);
		r = r < 0 ? r : job_pool_carry_out_plan(job, view, &err);
	}
	pool_view_free(view);
	if (r < 0 && !job->trouble) {
		job->trouble = r;
		log_warn("pool: %s", err.msg);
	}
	if (--job->kind == 0)
		job_end(job, job->trouble, "pool");
}
