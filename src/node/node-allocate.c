/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocate: returns the mounts of a slot, which are the same for all containers, and the variables
 * of the dialect that the container expects.
 *
 * The kubelet does not say for which container it asks. But it admits one pod after another, and a
 * pod's containers in order, and its list shows a pod from the moment before its admission. So the
 * container is one that the list shows, that has no slot yet and that was not admitted before. The
 * kubelet's other pods wait meanwhile. So after a second divvyd gives up, and the container starts
 * without these variables rather than with another container's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device.h"
#include "base/fd.h"
#include "base/log.h"
#include "manifest/manifest-json.h"
#include "node/node-internal.h"

#define ALLOCATE_WAIT_NS NSEC_PER_SEC
#define ALLOCATE_LOOK_NS (50 * NSEC_PER_MSEC)

/* Waits for the kubelet's list of pods, and for the API server's object of the pod. */
struct allocation {
	LIST_ENTRY(allocation) link;
	struct node *node;
	struct plugin_request *request;
	struct podres_question *question;
	struct loop_timer timer; /* until the next look, or the end of the wait */
	uint64_t until_ns;
	struct error why; /* why the container is not known yet */
};

/* ---- the container of the slot ---- */

static bool is_of(const struct podres_container *c, const struct kube_entry *pod)
{
	return !strcmp(c->space, pod->namespace_name) && !strcmp(c->pod, pod->name);
}

static bool has_slot(const struct podres_container *c)
{
	for (size_t i = 0; i < c->n_devices; i++)
		if (!strcmp(c->devices[i].resource, NODE_RESOURCE))
			return true;
	return false;
}

/* By the kubelet's list, which omits init containers, or by earlier allocations of this daemon. */
static bool was_allocated(const struct node *node, const struct podres_list *list,
	const struct kube_entry *pod, struct str container)
{
	for (uint32_t i = 0; i < node->n_slots; i++)
		if (!strcmp(node->slots[i].taker_uid, pod->uid) &&
			str_is(container, node->slots[i].taker))
			return true;
	for (size_t i = 0; i < list->n_containers; i++) {
		const struct podres_container *c = &list->containers[i];

		if (is_of(c, pod) && str_is(container, c->name) && has_slot(c))
			return true;
	}
	return false;
}

/* The first container that needs a slot, after all containers that have one. */
static bool find_next(const struct node *node, const struct podres_list *list,
	const struct kube_entry *pod, struct node_taker *ret)
{
	_cleanup_manifest_json_ struct manifest_json manifest = {0};
	_cleanup_given_ struct given given = {0};
	const char *next = NULL;

	if (manifest_json_read(json_object_get(pod->object, "metadata"),
		    json_object_get(pod->object, "spec"), STR(""), &manifest, NULL) < 0 ||
		given_parse(manifest.pod.annotations, &given, NULL) < 0)
		return false;
	for (uint32_t i = manifest.pod.n_containers; i-- > 0;) {
		const struct str name = manifest.pod.container[i].name;
		char text[GIVEN_NAME];
		const struct given_container *is = NULL;

		if (was_allocated(node, list, pod, name))
			break;
		if (str_copy(text, sizeof(text), name) >= 0)
			is = given_find(&given, text);
		next = is ? is->name : next;
	}
	if (!next || str_copy(ret->uid, sizeof(ret->uid), str_from(pod->uid)) < 0)
		return false;
	snprintf(ret->container, sizeof(ret->container), "%s", next);
	ret->pod = pod->object;
	return true;
}

/* The kubelet sets the start time when it has admitted or rejected a pod. */
static bool may_be_new(const json_t *pod)
{
	return node_has_given(pod) && !node_is_over(pod, "") && !node_is_leaving(pod) &&
		!kube_json_text_at(pod, "status", "startTime", NULL);
}

int allocate_find_taker(const struct node *node, const struct podres_list *list,
	struct node_taker *ret, struct error *err)
{
	struct node_taker found = {.pod = NULL}, one;

	for (size_t i = 0; i < list->n_containers; i++) {
		const struct podres_container *c = &list->containers[i];
		const struct kube_entry *pod;

		if (i && !strcmp(c->space, c[-1].space) && !strcmp(c->pod, c[-1].pod))
			continue;
		pod = kube_cache_find(node->pods, c->space, c->pod);
		if (!pod)
			return fail(err, EAGAIN,
				"the kubelet has a pod %s/%s, which is not known here", c->space,
				c->pod);
		if (!may_be_new(pod->object) || !find_next(node, list, pod, &one))
			continue;
		if (found.pod)
			return fail(err, EAGAIN, "it may be for container %s or, of %s/%s, for %s",
				found.container, c->space, c->pod, one.container);
		found = one;
	}
	if (!found.pod)
		return fail(err, EAGAIN, "no pod is known that the kubelet may have it for");
	*ret = found;
	return 0;
}

/* ---- mounts and variables ---- */

static int prepare(struct node *node, const struct plugin_ids *ids, struct slot_plan *plan,
	char folder[static PATH_MAX], struct error *err)
{
	struct slot *slot = ids->n == 1 ? node_slot(node, ids->ids[0]) : NULL;
	const struct device_set *set = node->agent->devices;
	int r;

	if (!slot)
		return fail(err, EINVAL,
			NODE_RESOURCE ": a container has one of them, and this one asks for %zu",
			ids->n);
	r = node_slot_folder(node, slot, folder, PATH_MAX);
	r = r < 0 ? fail(err, -r, "the slot's path is too long") : folder_make(folder, 0755, err);
	/* A file to mount. PreStartContainer writes its final content. */
	r = r < 0 ? r : slot_preload_write(folder, slot->remote != NULL, err);
	if (r < 0)
		return r;
	slot->allocated_ns = clock_now_ns();
	plan->folder = folder;
	plan->library = node->library;
	plan->sim = set->is_simulated ? set->sim_dir : NULL;
	plan->number = slot->number;
	plan->is_by_environment = node->options.is_by_environment;
	return library_note(node->options.state_dir, slot->id, node->library, err);
}

static void answer(struct node *node, struct plugin_request *request, const struct node_env *env)
{
	const size_t n = request->n_containers;
	struct slot_edits *all = calloc(n, sizeof(*all));
	struct plugin_edits *edits = calloc(n, sizeof(*edits));
	char(*folder)[PATH_MAX] = calloc(n, sizeof(*folder));
	struct plugin_pair pairs[NODE_ENV_MAX];
	struct error err = {0};
	int r = all && edits && folder ? 0 : fail(&err, ENOMEM, "no memory");

	for (uint32_t i = 0; i < env->n; i++)
		pairs[i] = (struct plugin_pair){env->v[i].name, env->v[i].value};
	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct slot_plan plan = {.env = pairs, .n_env = env->n};

		r = prepare(node, &request->containers[i].devices, &plan, folder[i], &err);
		if (r < 0)
			break;
		slot_edits_fill(&plan, &all[i]);
		edits[i] = all[i].edits;
	}
	if (r < 0)
		plugin_refuse(request, GRPC_FAILED_PRECONDITION, "%s", err.msg);
	else
		plugin_allocated(request, edits);
	free(folder);
	free(edits);
	free(all);
}

static void allocation_free(struct allocation *a)
{
	LIST_REMOVE(a, link);
	podres_forget(a->question);
	loop_remove_timer(&a->timer);
	free(a);
}

void allocate_free_all(struct node *node)
{
	struct allocation *a;

	while ((a = LIST_FIRST(&node->allocations))) {
		plugin_refuse(a->request, GRPC_UNAVAILABLE, "divvyd is ending");
		allocation_free(a);
	}
}

/* taker: NULL if the container stays unknown. */
static void finish(struct allocation *a, const struct node_taker *taker)
{
	const struct plugin_ids *ids = &a->request->containers[0].devices;
	struct slot *slot = ids->n == 1 ? node_slot(a->node, ids->ids[0]) : NULL;
	struct node_env env = {.n = 0};

	if (slot) {
		snprintf(slot->taker_uid, sizeof(slot->taker_uid), "%s", taker ? taker->uid : "");
		snprintf(slot->taker, sizeof(slot->taker), "%s", taker ? taker->container : "");
	}
	if (taker)
		node_env_read(a->node, taker->pod, taker->container, &env);
	else
		log_info("slot %s: allocated without the variables of a dialect: %s",
			slot ? slot->id : "?", a->why.msg);
	answer(a->node, a->request, &env);
	allocation_free(a);
}

static void on_list(void *data, const struct podres_list *list, const struct error *why)
{
	struct allocation *a = data;
	struct node_taker taker;

	a->question = NULL;
	if (!list)
		a->why = *why;
	else if (allocate_find_taker(a->node, list, &taker, &a->why) == 0) {
		finish(a, &taker);
		return;
	}
	loop_set_timer(&a->timer, MIN(clock_now_ns() + ALLOCATE_LOOK_NS, a->until_ns));
}

static void ask(struct allocation *a)
{
	if (podres_ask(a->node->podres, on_list, a, &a->question) < 0) {
		fail(&a->why, EAGAIN, "too many questions to the kubelet at once");
		finish(a, NULL);
		return;
	}
	loop_set_timer(&a->timer, a->until_ns);
}

static void on_timer(struct loop_timer *timer, uint64_t now)
{
	struct allocation *a = timer->data;

	if (now < a->until_ns)
		ask(a);
	else
		finish(a, NULL);
}

void allocate_slots(struct plugin_request *request)
{
	struct node *node = plugin_data(request->plugin);
	struct allocation *a = request->n_containers == 1 ? calloc(1, sizeof(*a)) : NULL;

	if (!a) {
		answer(node, request, &(struct node_env){.n = 0});
		return;
	}
	a->node = node;
	a->request = request;
	a->until_ns = clock_now_ns() + ALLOCATE_WAIT_NS;
	a->timer.data = a;
	fail(&a->why, ETIMEDOUT, "the kubelet has not said in time what pods it has");
	LIST_INSERT_HEAD(&node->allocations, a, link);
	if (loop_add_timer(node->agent->loop, &a->timer, on_timer) < 0) {
		answer(node, request, &(struct node_env){.n = 0});
		allocation_free(a);
		return;
	}
	ask(a);
}
