/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices in use are in lists by model and free share. The search for a target thus finds the
 * smallest sufficient free share without a pass over all devices.
 */
#include "place/place-defrag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "place/place-conflicts.h"
#include "place/place-held.h"
#include "place/place-internal.h"

/*
 * lists of a model: one for each free share; a free share above SPEC_SHARE_ONE counts as
 * SPEC_SHARE_ONE
 */
#define LISTS (SPEC_SHARE_ONE + 1)

struct link {
	uint32_t next, before; /* neighbouring devices in the list, or PLACE_NONE */
	uint32_t list;         /* PLACE_NONE: in no list */
	bool has_come;         /* a tenant has moved here, so the device is not emptied */
};

/* A device that can be emptied. */
struct source {
	uint32_t device, held, n;
};

struct defrag {
	struct place *place;
	struct link *link;
	uint32_t *first, *last; /* index: the list; each model has LISTS lists */
	struct source *sources;
	uint32_t n_sources;
	uint32_t source; /* the device being emptied */
	struct place_move *moves;
	uint32_t n_moves, moves_size, n_moves_max;
	const struct place_preempt *rules;
	uint32_t *evicted_of_budget; /* by budget */
};

static void defrag_done(struct defrag *d)
{
	free(d->link);
	free(d->first);
	free(d->last);
	free(d->sources);
	free(d->moves);
	free(d->evicted_of_budget);
}

/* ---- lists ---- */

static void list_remove(struct defrag *d, uint32_t at)
{
	struct link *l = &d->link[at];

	if (l->list == PLACE_NONE)
		return;
	if (l->before == PLACE_NONE)
		d->first[l->list] = l->next;
	else
		d->link[l->before].next = l->next;
	if (l->next == PLACE_NONE)
		d->last[l->list] = l->before;
	else
		d->link[l->next].before = l->before;
	l->list = PLACE_NONE;
}

/* Appends the device to its list, if it has tenants and can take more. */
static void defrag_add_device(struct defrag *d, uint32_t at)
{
	const struct device *device = &d->place->devices[at];
	uint32_t free = MIN((uint32_t)d->place->share_free[at], SPEC_SHARE_ONE);
	uint32_t list = device->model * LISTS + free;
	struct link *l = &d->link[at];

	list_remove(d, at);
	if (!device->is_used || !device->n_tenants || !device_is_open(device) || !free)
		return;
	*l = (struct link){
		.next = PLACE_NONE, .before = d->last[list], .list = list, .has_come = l->has_come};
	if (l->before == PLACE_NONE)
		d->first[list] = at;
	else
		d->link[l->before].next = at;
	d->last[list] = at;
}

int place_set_movable(struct place *place, uint32_t tenant, bool is_movable)
{
	if (!place_tenant(place, tenant))
		return -ENOENT;
	place->tenants[tenant].spec.is_movable = is_movable;
	return 0;
}

/* ---- devices to empty ---- */

/* Whether the tenant uses network devices, or is one half of a remote pod. */
static bool is_tied(const struct place *place, uint32_t tenant)
{
	const struct place_spec *spec = &place->tenants[tenant].spec;

	return spec->network[0] || spec->network[1] || place_peer(place, tenant) != PLACE_NONE;
}

static bool is_source(const struct place *place, uint32_t at, struct source *ret)
{
	const struct device *d = &place->devices[at];
	const struct held *held = &place->held[d->node];
	const uint64_t bit = 1ull << (at - place->nodes[d->node].first_device);

	*ret = (struct source){.device = at};
	if (!device_is_open(d) || place->nodes[d->node].is_closed)
		/* emptying the device would gain nothing, as it takes no new tenants */
		return false;
	for (uint32_t i = 0; i < held->n && ret->n < d->n_tenants; i++) {
		const struct holder *h = &held->list[i];

		if (!(h->devices & bit))
			continue;
		if (h->devices != bit || !place->tenants[h->tenant].spec.is_movable ||
			is_tied(place, h->tenant))
			return false;
		ret->held += h->share;
		ret->n++;
	}
	return true;
}

static int compare_sources(const void *pa, const void *pb)
{
	const struct source *a = pa, *b = pb;

	if (a->held != b->held)
		return a->held < b->held ? -1 : 1;
	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	return a->device < b->device ? -1 : a->device > b->device;
}

static int list_devices(struct defrag *d)
{
	const uint32_t n = d->place->n_devices, n_lists = (d->place->n_models + 1) * LISTS;

	d->link = calloc(n + 1ull, sizeof(*d->link));
	d->sources = calloc(n + 1ull, sizeof(*d->sources));
	d->first = calloc(n_lists, sizeof(*d->first));
	d->last = calloc(n_lists, sizeof(*d->last));
	d->evicted_of_budget = calloc(d->rules->n_budgets + 1ull, sizeof(*d->evicted_of_budget));
	if (!d->link || !d->sources || !d->first || !d->last || !d->evicted_of_budget)
		return -ENOMEM;
	for (uint32_t i = 0; i < n_lists; i++)
		d->first[i] = d->last[i] = PLACE_NONE;
	for (uint32_t at = 0; at < n; at++) {
		const struct device *device = &d->place->devices[at];

		d->link[at].list = PLACE_NONE;
		defrag_add_device(d, at);
		if (device->is_used && device->n_tenants &&
			is_source(d->place, at, &d->sources[d->n_sources]))
			d->n_sources++;
	}
	qsort(d->sources, d->n_sources, sizeof(*d->sources), compare_sources);
	return 0;
}

static uint32_t count_whole(const struct place *place)
{
	uint32_t n = 0;

	for (uint32_t at = 0; at < place->n_devices; at++) {
		const struct device *d = &place->devices[at];

		n += d->is_used && device_is_open(d) && !d->n_tenants &&
			!place->nodes[d->node].is_closed;
	}
	return n;
}

/* ---- moves ---- */

static bool defrag_has_room(const struct place *place, const struct place_spec *spec, uint32_t at)
{
	const uint32_t node = place->devices[at].node;

	return place_node_reason(place, spec, node) == PLACE_FITS &&
		(place_eligible(place, spec, node) >> (at - place->nodes[node].first_device) & 1);
}

/*
 * Returns the device of the source's model with the smallest free share that suffices for the
 * tenant. The tenant must have no more preference conflicts there than on the source. PLACE_NONE:
 * no such device, or too many tries.
 */
static uint32_t find_target(const struct defrag *d, const struct place_spec *spec)
{
	const uint32_t n_conflicts = place_count_conflicts(d->place, spec, d->source);
	const uint32_t lists = d->place->devices[d->source].model * LISTS;
	uint32_t tries = 0;

	for (uint32_t list = lists + spec->share; list < lists + LISTS; list++)
		for (uint32_t at = d->first[list]; at != PLACE_NONE; at = d->link[at].next) {
			if (at == d->source)
				continue;
			if (tries++ == PLACE_MOVE_TRIES)
				return PLACE_NONE;
			if (defrag_has_room(d->place, spec, at) &&
				place_count_conflicts(d->place, spec, at) <= n_conflicts)
				return at;
		}
	return PLACE_NONE;
}

static struct place_choice defrag_tenant_choice(const struct place_tenant *t)
{
	struct place_choice choice = {.node = t->node, .n = t->n};

	memcpy(choice.device, t->device, sizeof(choice.device));
	return choice;
}

static bool defrag_is_over_budget(const struct defrag *d, uint32_t label)
{
	const uint32_t budget = place_budget_of(d->rules, label);

	return budget != PLACE_NONE &&
		d->evicted_of_budget[budget] >= d->rules->budgets[budget].may_evict;
}

/* sign 1 counts a move of the tenant, -1 takes that move back. */
static void count_budget(struct defrag *d, uint32_t label, int sign)
{
	const uint32_t budget = place_budget_of(d->rules, label);

	if (budget != PLACE_NONE)
		d->evicted_of_budget[budget] += (uint32_t)sign;
}

static int move_one(struct defrag *d, uint32_t tenant)
{
	const struct place_tenant was = *place_tenant(d->place, tenant);
	struct place_move move = {.tenant = tenant, .from = defrag_tenant_choice(&was)};
	uint32_t target, ignored;
	int r;

	if (defrag_is_over_budget(d, was.spec.budget))
		return -ENOSPC;
	r = array_grow(&d->moves, &d->moves_size, d->n_moves + 1, sizeof(*d->moves));
	if (r == 0)
		r = place_remove(d->place, tenant);
	if (r < 0)
		return r;
	target = find_target(d, &was.spec);
	if (target == PLACE_NONE)
		return -ENOSPC;
	move.to = (struct place_choice){
		.node = d->place->devices[target].node, .n = 1, .device = {target}};
	r = place_add(d->place, &was.spec, &move.to, &ignored, NULL);
	if (r < 0)
		return r;
	defrag_add_device(d, target);
	count_budget(d, was.spec.budget, 1);
	d->moves[d->n_moves++] = move;
	return 0;
}

/* Largest tenant first, because it has the fewest possible targets. */
static int compare_holders(const void *pa, const void *pb)
{
	const struct holder *a = pa, *b = pb;

	if (a->share != b->share)
		return a->share > b->share ? -1 : 1;
	return a->tenant < b->tenant ? -1 : a->tenant > b->tenant;
}

static int list_tenants(const struct place *place, uint32_t device, struct holder **ret)
{
	const uint32_t node = place->devices[device].node;
	const struct held *held = &place->held[node];
	const uint64_t bit = 1ull << (device - place->nodes[node].first_device);
	struct holder *list = calloc(held->n + 1ull, sizeof(*list));
	uint32_t n = 0;

	if (!list)
		return -ENOMEM;
	for (uint32_t i = 0; i < held->n; i++)
		if (held->list[i].devices & bit)
			list[n++] = held->list[i];
	qsort(list, n, sizeof(*list), compare_holders);
	*ret = list;
	return (int)n;
}

/* Moves all tenants of the device, or none. */
static int defrag_empty_device(struct defrag *d, uint32_t device)
{
	_cleanup_free_ struct holder *list = NULL;
	const uint32_t n_before = d->n_moves, savepoint = place_savepoint(d->place);
	int n, r = 0;

	d->source = device;
	n = list_tenants(d->place, device, &list);
	for (int i = 0; i < n && r == 0; i++)
		r = move_one(d, list[i].tenant);
	if (n < 0)
		r = n;
	if (r < 0) {
		place_rollback(d->place, savepoint);
		for (uint32_t i = n_before; i < d->n_moves; i++) {
			const struct place_move *move = &d->moves[i];

			defrag_add_device(d, move->to.device[0]);
			count_budget(d, place_tenant(d->place, move->tenant)->spec.budget, -1);
		}
		d->n_moves = n_before;
	}
	place_release(d->place);
	for (uint32_t i = n_before; i < d->n_moves; i++)
		d->link[d->moves[i].to.device[0]].has_come = true;
	defrag_add_device(d, device);
	return r == -ENOSPC ? 0 : r;
}

static int empty_all(struct defrag *d)
{
	int r = 0;

	for (uint32_t i = 0; i < d->n_sources && r == 0; i++) {
		const struct source *s = &d->sources[i];

		if (!d->link[s->device].has_come && d->n_moves + s->n <= d->n_moves_max)
			r = defrag_empty_device(d, s->device);
	}
	return r;
}

int place_defrag_find(struct place *place, uint32_t n_moves_max, const struct place_preempt *rules,
	struct place_defrag *ret, struct error *err)
{
	static const struct place_preempt no_rules;
	_cleanup_(defrag_done) struct defrag d = {.place = place,
		.n_moves_max = n_moves_max,
		.rules = rules ? rules : &no_rules,
		.source = PLACE_NONE};
	struct place_defrag plan = {0};
	uint32_t savepoint;
	int r;

	if (n_moves_max > PLACE_MOVES_MAX)
		return fail(err, EINVAL, "%u moves: up to %u are possible", n_moves_max,
			PLACE_MOVES_MAX);
	r = place_preempt_check(place, d.rules, err);
	if (r < 0)
		return r;
	plan.whole_before = count_whole(place);
	plan.fragmented_before = place_fragmentation(place);
	savepoint = place_savepoint(place);
	r = list_devices(&d);
	if (r == 0)
		r = empty_all(&d);
	plan.whole_after = count_whole(place);
	plan.fragmented_after = place_fragmentation(place);
	place_rollback(place, savepoint);
	place_release(place);
	if (r < 0)
		return fail(err, -r, "out of memory for a plan");
	plan.moves = TAKE_PTR(d.moves);
	plan.n_moves = d.n_moves;
	*ret = plan;
	return 0;
}

/* Counts the preference conflicts on all devices of the choice. */
static uint32_t defrag_count_conflicts(
	const struct place *place, const struct place_spec *spec, const struct place_choice *choice)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < choice->n && choice->device[i] < place->n_devices; i++)
		n += place_count_conflicts(place, spec, choice->device[i]);
	return n;
}

int place_defrag_move(
	struct place *place, const struct place_move *move, uint32_t *ret_tenant, struct error *err)
{
	const struct place_tenant *t = place_tenant(place, move->tenant);
	struct place_spec spec;
	uint32_t savepoint;
	int r;

	if (!t)
		return fail(err, ENOENT, "there is no tenant %u", move->tenant);
	if (t->node != move->from.node || t->n != move->from.n ||
		memcmp(t->device, move->from.device, t->n * sizeof(t->device[0])))
		return fail(
			err, ESTALE, "tenant %u has moved since the plan was made", move->tenant);
	if (t->is_terminating)
		return fail(err, EINVAL, "tenant %u is terminating: it cannot move", move->tenant);
	if (is_tied(place, move->tenant))
		return fail(err, EINVAL, "tenant %u uses network devices: it cannot move",
			move->tenant);
	spec = t->spec;
	savepoint = place_savepoint(place);
	r = place_remove(place, move->tenant);
	if (r < 0)
		fail(err, -r, "out of memory for a move");
	else if (move->to.n == spec.count &&
		defrag_count_conflicts(place, &spec, &move->to) >
			defrag_count_conflicts(place, &spec, &move->from))
		r = fail(err, ENOSPC, "tenant %u would have more preference conflicts there",
			move->tenant);
	else
		r = place_add(place, &spec, &move->to, ret_tenant, err);
	if (r < 0)
		place_rollback(place, savepoint);
	place_release(place);
	return r;
}

void place_defrag_done(struct place_defrag *plan)
{
	free(plan->moves);
	*plan = (struct place_defrag){0};
}
