/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocate: which mounts a slot has, the same for all, and what variables of its dialect whoever
 * it is for will expect. For whom a slot is, is only known when the container starts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device.h"
#include "agent/node-internal.h"
#include "base/fd.h"
#include "base/log.h"
#include "core/dialect.h"

/* Waits for the kubelet's word on who has slots. */
struct allocation {
	LIST_ENTRY(allocation) link;
	struct node *node;
	struct plugin_request *request;
	struct podres_question *question;
};

/* "NAME=value" as two texts: the first now ends where the '=' was. */
static size_t split_env(struct node_env *env, struct plugin_pair *ret_pairs)
{
	size_t n = 0;

	for (uint32_t i = 0; i < env->n && n < SLOT_ENV_MORE; i++) {
		char *value = strchr(env->text[i], '=');

		*value = '\0';
		ret_pairs[n++] = (struct plugin_pair){env->text[i], value + 1};
	}
	return n;
}

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

static void answer(struct node *node, struct plugin_request *request, struct node_env *env)
{
	const size_t n = request->n_containers;
	struct slot_edits *all = calloc(n, sizeof(*all));
	struct plugin_edits *edits = calloc(n, sizeof(*edits));
	char(*folder)[PATH_MAX] = calloc(n, sizeof(*folder));
	struct plugin_pair pairs[SLOT_ENV_MORE];
	const size_t n_pairs = split_env(env, pairs);
	struct error err = {0};
	int r = all && edits && folder ? 0 : fail(&err, ENOMEM, "no memory");

	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct slot_plan plan = {.env = pairs, .n_env = n_pairs};

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

static void on_list(void *data, const struct podres_list *list, const struct error *why)
{
	struct allocation *a = data;
	struct node_env env = {.n = 0};

	a->question = NULL;
	/* Without them it starts as well. */
	if (list)
		node_env_expect(a->node, list, &env);
	else
		log_debug("Allocate: no variables of dialects: %s", why->msg);
	answer(a->node, a->request, &env);
	allocation_free(a);
}

/* Does any pod here speak another dialect than divvy's? */
static bool has_dialects(const struct node *node)
{
	const struct kube_entry *e = NULL;

	while ((e = kube_cache_next(node->pods, e))) {
		const char *list = kube_json_text_at(
			e->object, "metadata", "annotations", DIALECT_LIST_KEY, NULL);

		if (list && list[0] && node_has_given(e->object))
			return true;
	}
	return false;
}

void allocate_slots(struct plugin_request *request)
{
	struct node *node = plugin_data(request->plugin);
	struct allocation *a = request->n_containers == 1 && has_dialects(node)
		? calloc(1, sizeof(*a))
		: NULL;

	if (a) {
		a->node = node;
		a->request = request;
		LIST_INSERT_HEAD(&node->allocations, a, link);
		if (podres_ask(node->podres, on_list, a, &a->question) >= 0)
			return;
		a->question = NULL;
		allocation_free(a);
	}
	answer(node, request, &(struct node_env){.n = 0});
}
