/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocate: returns the mounts of a slot, which are the same for all containers, and the variables
 * of the dialect that the container expects.
 *
 * The kubelet does not say for which container it asks. But it admits one pod after another, and a
 * pod's containers in order. The kubelet lists a pod shortly before it admits the pod. So the
 * request is for a container on the list whose pod is not admitted yet and which has no slot yet.
 * The kubelet's other pods wait until the answer. So divvyd gives up after a second, and the
 * container starts without the dialect's variables. Another container's variables would be worse.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "manifest/manifest-json.h"
#include "node/node-files.h"
#include "node/node-internal.h"

#define ALLOCATE_WAIT_NS NSEC_PER_SEC
#define ALLOCATE_LOOK_NS (50 * NSEC_PER_MSEC)
#define ALLOCATE_DISK_NS (30 * NSEC_PER_SEC)

struct allocation;

/* A container's slot, and its files while they are written. */
struct allocated {
	struct allocation *of;
	struct slot *slot;
	struct slot_files *files;
	char folder[PATH_MAX];
};

/*
 * A request that waits. It waits for the kubelet's list of pods, for the API server's object of the
 * container's pod, and then for the disk. The disk matters because the answer names files.
 */
struct allocation {
	LIST_ENTRY(allocation) link;
	struct node *node;
	struct plugin_request *request;
	struct podres_question *question;
	struct loop_timer timer; /* runs until the next look, or until the end of the wait */
	uint64_t until_ns;
	struct error why; /* why the container is not known yet, or why a file cannot be written */
	int result;       /* result of writing the files */
	struct node_env env;
	/* one for each container of the request; NULL: not given to the disk worker yet */
	struct allocated *slots;
	size_t n_slots;
	uint32_t n_writing;
};

/* ---- the container of the slot ---- */

static bool allocate_is_pod_of(const struct podres_container *c, const struct kube_entry *pod)
{
	return !strcmp(c->space, pod->namespace_name) && !strcmp(c->pod, pod->name);
}

static bool allocate_has_slot(const struct podres_container *c)
{
	for (size_t i = 0; i < c->n_devices; i++)
		if (!strcmp(c->devices[i].resource, NODE_RESOURCE))
			return true;
	return false;
}

/*
 * Whether the container has a slot already. The kubelet's list omits init containers, so earlier
 * allocations of this daemon count as well.
 */
static bool was_allocated(const struct node *node, const struct podres_list *list,
	const struct kube_entry *pod, struct str container)
{
	for (uint32_t i = 0; i < node->n_slots; i++)
		if (!strcmp(node->slots[i].taker_uid, pod->uid) &&
			str_is(container, node->slots[i].taker))
			return true;
	for (size_t i = 0; i < list->n_containers; i++) {
		const struct podres_container *c = &list->containers[i];

		if (allocate_is_pod_of(c, pod) && str_is(container, c->name) &&
			allocate_has_slot(c))
			return true;
	}
	return false;
}

/* The first container that needs a slot, after all containers that have one. */
static bool find_next(const struct node *node, const struct podres_list *list,
	const struct kube_entry *pod, struct node_taker *ret)
{
	_cleanup_manifest_json_ struct manifest_json manifest = {0};
	_cleanup_assigned_ struct assigned assigned = {0};
	const char *next = NULL;

	if (manifest_json_read(json_object_get(pod->object, "metadata"),
		    json_object_get(pod->object, "spec"), STR(""), &manifest, NULL) < 0 ||
		assigned_parse(manifest.pod.annotations, &assigned, NULL) < 0)
		return false;
	for (uint32_t i = manifest.pod.n_containers; i-- > 0;) {
		const struct str name = manifest.pod.container[i].name;
		char text[ASSIGNED_NAME];
		const struct assigned_container *is = NULL;

		if (was_allocated(node, list, pod, name))
			break;
		if (str_copy(text, sizeof(text), name) >= 0)
			is = assigned_find(&assigned, text);
		next = is ? is->name : next;
	}
	if (!next || str_copy(ret->uid, sizeof(ret->uid), str_from(pod->uid)) < 0)
		return false;
	snprintf(ret->container, sizeof(ret->container), "%s", next);
	ret->pod = pod->object;
	return true;
}

/*
 * The kubelet sets the start time when it has admitted or rejected a pod, so a pod without one may
 * be the pod that it admits now.
 */
static bool may_be_new(const json_t *pod)
{
	return node_has_assigned(pod) && !node_is_over(pod, "") && !node_is_terminating(pod) &&
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
				"the kubelet lists pod %s/%s, which divvyd does not know yet",
				c->space, c->pod);
		if (!may_be_new(pod->object) || !find_next(node, list, pod, &one))
			continue;
		if (found.pod)
			return fail(err, EAGAIN,
				"the slot fits container %s, and in pod %s/%s container %s",
				found.container, c->space, c->pod, one.container);
		found = one;
	}
	if (!found.pod)
		return fail(err, EAGAIN, "no known pod matches the slot");
	*ret = found;
	return 0;
}

/* ---- mounts and variables ---- */

static void allocation_free(struct allocation *a)
{
	LIST_REMOVE(a, link);
	for (size_t i = 0; i < a->n_slots; i++)
		if (a->slots[i].files) {
			a->slots[i].slot->n_writing--;
			slot_files_forget(a->slots[i].files);
		}
	podres_forget(a->question);
	loop_remove_timer(&a->timer);
	free(a->slots);
	free(a);
}

/* plugin_refuse() and plugin_allocated() free the request, so they come last. */
static void refuse(struct allocation *a, enum grpc_status status, const char *why)
{
	struct plugin_request *request = a->request;
	const struct error err = a->why;

	allocation_free(a);
	plugin_refuse(request, status, "%s", why ? why : err.msg);
}

static void plan_fill(const struct node *node, const struct allocated *at,
	const struct plugin_pair *pairs, size_t n_pairs, struct slot_plan *ret)
{
	const struct device_set *set = node->agent->devices;

	*ret = (struct slot_plan){.folder = at->folder,
		.library = node->library,
		.sim = set->is_simulated ? set->sim_dir : NULL,
		.number = at->slot->number,
		.is_by_environment = node->options.is_by_environment,
		.env = pairs,
		.n_env = n_pairs};
}

/* Answers the request once the slots' files are on the disk. */
static void allocate_answer_request(struct allocation *a)
{
	const size_t n = a->n_slots;
	_cleanup_free_ struct slot_edits *all = calloc(n + 1, sizeof(*all));
	_cleanup_free_ struct plugin_edits *edits = calloc(n + 1, sizeof(*edits));
	struct plugin_request *request = a->request;
	struct plugin_pair pairs[NODE_ENV_MAX];

	if (!all || !edits) {
		refuse(a, GRPC_FAILED_PRECONDITION, "no memory");
		return;
	}
	for (uint32_t i = 0; i < a->env.n; i++)
		pairs[i] = (struct plugin_pair){a->env.v[i].name, a->env.v[i].value};
	for (size_t i = 0; i < n; i++) {
		struct slot_plan plan;

		plan_fill(a->node, &a->slots[i], pairs, a->env.n, &plan);
		slot_edits_fill(&plan, &all[i]);
		edits[i] = all[i].edits;
	}
	plugin_allocated(request, edits);
	allocation_free(a);
}

static void allocate_finish(struct allocation *a)
{
	if (a->n_writing)
		return;
	if (a->result < 0)
		refuse(a, GRPC_FAILED_PRECONDITION, NULL);
	else
		allocate_answer_request(a);
}

static void on_files(void *data, int result, const struct error *err)
{
	struct allocated *at = data;
	struct allocation *a = at->of;

	at->files = NULL;
	at->slot->n_writing--;
	at->slot->allocated_ns = clock_now_ns();
	a->n_writing--;
	if (result < 0 && a->result >= 0) {
		a->result = result;
		a->why = *err;
	}
	allocate_finish(a);
}

static int write_files(struct allocation *a, const struct plugin_ids *ids, struct allocated *at)
{
	struct node *node = a->node;
	struct slot *slot = ids->n == 1 ? node_slot(node, ids->ids[0]) : NULL;
	struct slot_files_params params = {.folder = at->folder,
		.state_dir = node->options.state_dir,
		.library = node->library};
	int r;

	if (!slot)
		return fail(&a->why, EINVAL,
			NODE_RESOURCE ": this container requests %zu; a container can have 1",
			ids->n);
	r = node_slot_folder(node, slot, at->folder, sizeof(at->folder), &a->why);
	if (r < 0)
		return r;
	at->of = a;
	at->slot = slot;
	/*
	 * The mount needs a loader's list now. Whether the devices are remote is known only at the
	 * container's start, which then writes the right list.
	 */
	params.is_remote = slot->is_list_remote = slot->remote != NULL;
	params.slot = slot->id;
	r = slot_files_write(node->agent->disk, &params, on_files, at, &at->files);
	if (r < 0)
		return fail(&a->why, -r, "no memory");
	slot->allocated_ns = clock_now_ns();
	slot->n_writing++;
	a->n_writing++;
	return 0;
}

/* Has the disk worker write the files, once the container is found or the search was given up. */
static void ask_disk(struct allocation *a)
{
	const size_t n = a->request->n_containers;

	a->why = (struct error){0};
	a->slots = calloc(n + 1, sizeof(*a->slots));
	if (a->slots)
		a->n_slots = n;
	else
		a->result = fail(&a->why, ENOMEM, "no memory");
	for (size_t i = 0; a->result >= 0 && i < n; i++)
		a->result = write_files(a, &a->request->containers[i].devices, &a->slots[i]);
	loop_set_timer(&a->timer, clock_now_ns() + ALLOCATE_DISK_NS);
	allocate_finish(a);
}

void allocate_free_all(struct node *node)
{
	struct allocation *a;

	while ((a = LIST_FIRST(&node->allocations)))
		refuse(a, GRPC_UNAVAILABLE, "divvyd is shutting down");
}

/* taker: NULL if the container was not found */
static void settle(struct allocation *a, const struct node_taker *taker)
{
	const struct plugin_ids *ids = &a->request->containers[0].devices;
	struct slot *slot = ids->n == 1 ? node_slot(a->node, ids->ids[0]) : NULL;

	if (slot) {
		snprintf(slot->taker_uid, sizeof(slot->taker_uid), "%s", taker ? taker->uid : "");
		snprintf(slot->taker, sizeof(slot->taker), "%s", taker ? taker->container : "");
	}
	if (taker)
		node_env_read(a->node, taker->pod, taker->container, &a->env);
	else
		log_info("slot %s: allocated without the variables of a dialect: %s",
			slot ? slot->id : "?", a->why.msg);
	ask_disk(a);
}

static void allocate_on_list(void *data, const struct podres_list *list, const struct error *why)
{
	struct allocation *a = data;
	struct node_taker taker;

	a->question = NULL;
	if (!list)
		a->why = *why;
	else if (allocate_find_taker(a->node, list, &taker, &a->why) == 0) {
		settle(a, &taker);
		return;
	}
	loop_set_timer(&a->timer, MIN(clock_now_ns() + ALLOCATE_LOOK_NS, a->until_ns));
}

static void allocate_list_pods(struct allocation *a)
{
	if (podres_ask(a->node->podres, allocate_on_list, a, &a->question) < 0) {
		fail(&a->why, EAGAIN, "too many requests to the kubelet at once; retry");
		settle(a, NULL);
		return;
	}
	loop_set_timer(&a->timer, a->until_ns);
}

static void allocate_on_timer(struct loop_timer *timer, uint64_t now)
{
	struct allocation *a = timer->data;

	if (a->slots)
		refuse(a, GRPC_UNAVAILABLE, "the disk has not taken the slot's files in time");
	else if (now < a->until_ns)
		allocate_list_pods(a);
	else
		settle(a, NULL);
}

void allocate_slots(struct plugin_request *request)
{
	struct node *node = plugin_data(request->plugin);
	struct allocation *a = calloc(1, sizeof(*a));

	if (!a) {
		plugin_refuse(request, GRPC_FAILED_PRECONDITION, "no memory");
		return;
	}
	a->node = node;
	a->request = request;
	a->until_ns = clock_now_ns() + ALLOCATE_WAIT_NS;
	a->timer.data = a;
	fail(&a->why, ETIMEDOUT, "the kubelet did not list its pods in time");
	LIST_INSERT_HEAD(&node->allocations, a, link);
	if (loop_add_timer(node->agent->loop, &a->timer, allocate_on_timer) < 0)
		refuse(a, GRPC_FAILED_PRECONDITION, "no memory");
	else if (request->n_containers == 1)
		allocate_list_pods(a);
	else
		ask_disk(a);
}
