/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans which bound pods should move so that more whole devices become free. The placement model
 * proposes a plan, and two checks apply the rules that only the scheduler knows. hold_back() tests
 * each pod's target by Kubernetes' rules and by the devices that the pod names. hold_together()
 * tests where the scheduler would place the pod that a controller creates in place of the moved
 * one, its successor. A pod that fails a check becomes immovable, and the search begins again. Each
 * search has fewer movable pods than the search before, so the searches end. Trials in the view and
 * the placement model are undone, and no tenant stays marked as movable.
 */
#include "scheduler/cluster-move.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "place/place-defrag.h"
#include "scheduler/cluster-internal.h"

#define MOVES_MAX 1000u

static bool may_move(struct cluster *c, const struct cpod *pod)
{
	const struct pod *seen = cpod_view(c, pod);

	return pod->state == CPOD_BOUND && !pod->server && pod->n_tenants == 1 &&
		pod->assigned.n == 1 && !pod->is_deleting && seen && seen->object.owner_uid[0] &&
		cluster_may_evict(c, pod);
}

static void cluster_move_mark_pods(struct cluster *c, bool is_wanted)
{
	struct cpod *pod, *next;

	HASH_ITER(hh, c->pods, pod, next)
		for (uint32_t i = 0; i < pod->n_tenants; i++)
			place_set_movable(c->place, pod->tenants[i], is_wanted && may_move(c, pod));
}

/* Applies the rules that the placement model does not know. The pod's own node always passes. */
static bool cluster_move_fits_node(
	struct cluster *c, const struct cpod *pod, const struct cnode *to)
{
	const int at = view_find_node(c->view, to->name);
	struct fit *fit = NULL;
	bool does = false;

	if (pod->node == to)
		return true;
	/*
	 * The test needs the pod without a node: on its own node, the pod would compete with
	 * itself.
	 */
	view_assume(c->view, pod->ns, pod->name, "");
	if (at >= 0 && !to->is_stale && fit_new(c->view, cpod_view(c, pod), &fit, NULL) == 0)
		does = fit_node(fit, (uint32_t)at).why == FIT_OK;
	fit_free(fit);
	view_assume(c->view, pod->ns, pod->name, pod->node->name);
	return does;
}

static const char *cluster_move_device_uuid(const struct cluster *c, uint32_t device)
{
	struct place_device_view view;

	place_device_get(c->place, device, &view);
	return view.uuid;
}

/* Returns whether the pod accepts the device. A pod that names devices accepts only those. */
static bool cluster_move_is_device_right(const struct cpod *pod, const char *uuid)
{
	for (uint32_t i = 0; i < pod->requested.n; i++)
		if (pod->requested.v[i].spec.device[0] &&
			!spec_device_fits(&pod->requested.v[i].spec, uuid))
			return false;
	return true;
}

/* Makes each pod immovable that cannot use the plan's target; returns the number of these pods. */
static uint32_t hold_back(struct cluster *c, const struct place_defrag *plan)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < plan->n_moves; i++) {
		const struct place_move *m = &plan->moves[i];

		const struct cpod *pod = c->by_tenant[m->tenant];

		if (cluster_move_is_device_right(
			    pod, cluster_move_device_uuid(c, m->to.device[0])) &&
			cluster_move_fits_node(c, pod, c->by_place[m->to.node]))
			continue;
		place_set_movable(c->place, m->tenant, false);
		n++;
	}
	return n;
}

/* ---- places of the successors ---- */

struct closed {
	const struct place *place;
	const struct place_defrag *plan;
};

/*
 * Returns the node's devices without those that the plan empties, since they are cordoned during
 * the moves.
 */
static uint64_t cluster_move_open_devices(void *arg, const struct place_spec *spec, uint32_t node,
	const uint32_t *evicted, uint32_t n_evicted)
{
	const struct closed *closed = arg;
	struct place_node_view view;
	uint64_t mask = UINT64_MAX;

	if (!place_node_get(closed->place, node, &view))
		return 0;
	for (uint32_t i = 0; i < closed->plan->n_moves; i++)
		if (closed->plan->moves[i].from.node == node)
			mask &= ~(1ull
				<< (closed->plan->moves[i].from.device[0] - view.first_device));
	return mask;
}

/*
 * Removes the pod's tenant and returns whether the placement policy would put the successor on an
 * empty device. The move would then free no device.
 */
static bool would_spread(struct place *place, uint32_t tenant)
{
	const struct place_tenant *t = place_tenant(place, tenant);
	struct place_device_view device;
	struct place_choice choice;
	struct place_spec spec;
	uint32_t now;

	if (!t)
		return false;
	spec = t->spec;
	place_remove(place, tenant);
	/* Now the successor fits nowhere, so it waits until the planned place is free. */
	if (place_find(place, &spec, &choice, NULL) < 0)
		return false;
	place_device_get(place, choice.device[0], &device);
	if (!device.n_tenants)
		return true;
	return place_add(place, &spec, &choice, &now, NULL) < 0;
}

/* Makes each pod immovable whose successor would spread; returns the number of these pods. */
static uint32_t hold_together(struct cluster *c, const struct place_defrag *plan)
{
	struct closed closed = {c->place, plan};
	const uint32_t savepoint = place_savepoint(c->place);
	bool spreads[MOVES_MAX] = {false};
	uint32_t n = 0;

	place_set_filter(c->place, cluster_move_open_devices, &closed);
	for (uint32_t i = 0; i < plan->n_moves && i < MOVES_MAX; i++) {
		spreads[i] = would_spread(c->place, plan->moves[i].tenant);
		n += spreads[i];
	}
	place_set_filter(c->place, NULL, NULL);
	place_rollback(c->place, savepoint);
	place_release(c->place);
	for (uint32_t i = 0; n && i < plan->n_moves && i < MOVES_MAX; i++)
		if (spreads[i])
			place_set_movable(c->place, plan->moves[i].tenant, false);
	return n;
}

int cluster_find_moves(struct cluster *c, struct cluster_moves *ret, struct error *err)
{
	struct place_preempt rules = {.n_budgets = 0};
	struct place_defrag plan;
	int r;

	cluster_move_mark_pods(c, true);
	for (;;) {
		r = place_defrag_find(c->place, MOVES_MAX, &rules, &plan, err);
		if (r < 0 || (!hold_back(c, &plan) && !hold_together(c, &plan)))
			break;
		place_defrag_done(&plan);
	}
	cluster_move_mark_pods(c, false);
	if (r < 0)
		return r;
	*ret = (struct cluster_moves){.whole_before = plan.whole_before,
		.whole_after = plan.whole_after,
		.v = calloc(plan.n_moves + 1ul, sizeof(*ret->v))};
	for (uint32_t i = 0; ret->v && i < plan.n_moves; i++) {
		const struct place_move *m = &plan.moves[i];

		ret->v[ret->n++] = (struct cluster_move){.pod = c->by_tenant[m->tenant],
			.node = c->by_place[m->from.node]->name,
			.device = cluster_move_device_uuid(c, m->from.device[0]),
			.to_node = c->by_place[m->to.node]->name,
			.to_device = cluster_move_device_uuid(c, m->to.device[0])};
	}
	place_defrag_done(&plan);
	return ret->v ? 0 : fail(err, ENOMEM, "out of memory");
}

void cluster_moves_done(struct cluster_moves *moves)
{
	free(moves->v);
	*moves = (struct cluster_moves){0};
}
