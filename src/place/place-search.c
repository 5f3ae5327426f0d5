/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file searches the trees of bounds of all pools with one heap, the greatest key first. A key
 * stands for a node (level 0) or for a group of rows (higher levels). It holds the grade, the
 * inverted number of the group's first node, and the level. So of equal grades the lowest node
 * wins. The search ends when no key in the heap exceeds the key of the best node found. When the
 * first key is from a guess, the bound replaces the guess and the node goes back into the heap. If
 * a spec names a device, node, network device or label, place_search_run() visits its nodes
 * directly.
 */
#include "place/place-search.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/heap.h"
#include "place/place-conflicts.h"
#include "place/place-bounds.h"
#include "place/place-internal.h"
#include "place/workload-mix.h"
#include "place/place-mode.h"
#include "place/place-policy.h"
#include "place/place-queue.h"

#define EXACT 15u /* level of a node whose key is from its own score, not from a bound */

/* The search's heap of keys, largest first. */
#define IS_GREATER(a, b) ((a) > (b))
HEAP_HEAD(keys, uint64_t);
HEAP_DEFINE(keys, uint64_t, IS_GREATER, HEAP_NO_PLACE)

struct place_search {
	struct keys keys;

	uint32_t *stamp; /* stamp[node]: last run that visited the node */
	uint32_t run, n_stamps;
};

int place_search_new(struct place_search **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

void place_search_free(struct place_search *s)
{
	if (!s)
		return;
	free(s->keys.v);
	free(s->stamp);
	free(s);
}

/* ---- best first ---- */

/* Sorts by grade, then by the first node; the low bits hold a level or EXACT. */
static uint64_t place_search_key(int32_t grade, uint32_t first, uint32_t level)
{
	return (uint64_t)((uint32_t)grade ^ 0x80000000u) << 32 |
		(uint64_t)(0x0fffffffu - first) << 4 | level;
}

static int place_search_push_key(struct place_search *s, uint64_t key)
{
	if (keys_reserve(&s->keys, s->keys.n + 1ul) < 0)
		return -ENOMEM;
	keys_add(&s->keys, key);
	return 0;
}

/* The request and the best place so far. */
struct quest {
	struct place *place;
	const struct place_spec *spec;
	struct place_class class;
	/* requested CPU, and memory of the node and of each device in MiB, rounded down */
	int32_t cpu, memory, device_memory;
	/* a locality bonus can raise scores above their bounds */
	bool has_locality;
	bool has_conflicts; /* only places with n_conflicts preference conflicts count */
	/*
	 * n_conflicts: see has_conflicts. n_met_next: the smallest larger number of conflicts
	 * seen.
	 */
	uint32_t n_conflicts, n_met_next;
	uint32_t column[N_POOLS];
	uint64_t best; /* key of the best place, or 0 */
	struct place_choice choice;
};

static int32_t place_search_grade_score(const struct quest *q, int32_t score)
{
	const struct place_policy *policy = q->place->config.policy;

	return policy->grade ? policy->grade(q->place, q->spec, score) : score;
}

/* drawn: locality bonus to add */
static int32_t grade_of_bound(const struct quest *q, int32_t bound, int32_t drawn)
{
	if (q->place->config.policy->bounds_grades)
		return bound;
	return place_search_grade_score(q, drawn ? place_score_of((int64_t)bound + drawn) : bound);
}

static int32_t place_search_locality_bonus(const struct quest *q, uint32_t node)
{
	return q->has_locality ? place_locality_node(q->place, q->spec, node) : 0;
}

/* Asks the filter. If the filter forbids chosen devices, chooses again among the allowed ones. */
static bool may_be_there(
	const struct quest *q, uint32_t node, uint64_t mask, struct place_choice *choice)
{
	struct place *place = q->place;
	const uint64_t allowed = place_filtered(
		place, q->spec, node, place->evicted, place->n_evicted);

	if (!allowed || !(mask & ~allowed))
		return allowed != 0;
	mask &= allowed;
	if ((uint32_t)__builtin_popcountll(mask) < q->spec->count)
		return false;
	choice->score = place->config.policy->score(place, q->spec, node, mask, choice);
	return choice->score != PLACE_NEVER;
}

/* Returns the key if the choice is the best so far, else 0. */
static uint64_t key_if_best(const struct quest *q, const struct place_choice *choice)
{
	uint64_t key;

	if (choice->score == PLACE_NEVER)
		return 0;
	key = place_search_key(place_search_grade_score(q, choice->score), choice->node, EXACT);
	return key > q->best ? key : 0;
}

/*
 * If the node's best choice has q->n_conflicts preference conflicts, keeps the choice. If it has
 * more, keeps only their number, for a later search. The filter may forbid devices, and each choice
 * of the other devices may have more conflicts.
 */
static void place_search_visit_conflicts(struct quest *q, uint32_t node, uint64_t mask)
{
	struct place *place = q->place;
	struct place_choice choice = {.node = node, .n = q->spec->count};
	struct place_fewest fewest = place_fewest_of(place, q->spec, node, mask);
	uint64_t key;

	if (fewest.n_conflicts == q->n_conflicts) {
		choice.score = place_fewest_score(place, q->spec, &fewest, &choice);
		if (!key_if_best(q, &choice))
			return;
	}
	if (fewest.n_conflicts <= q->n_conflicts) {
		mask &= place_filtered(place, q->spec, node, place->evicted, place->n_evicted);
		if ((uint32_t)__builtin_popcountll(mask) < q->spec->count)
			return;
		fewest = place_fewest_of(place, q->spec, node, mask);
	}
	if (fewest.n_conflicts > q->n_conflicts) {
		q->n_met_next = MIN(q->n_met_next, fewest.n_conflicts);
		return;
	}
	choice.score = place_fewest_score(place, q->spec, &fewest, &choice);
	key = key_if_best(q, &choice);
	if (!key)
		return;
	q->best = key;
	q->choice = choice;
}

/* Tests the node exactly, by labels, memory and all other properties that a class lacks. */
static void place_search_visit_node(struct quest *q, uint32_t node)
{
	struct place_choice choice = {.node = node, .n = q->spec->count};
	uint64_t mask, key;

	if (place_node_reason(q->place, q->spec, node) != PLACE_FITS)
		return;
	mask = place_eligible(q->place, q->spec, node);
	if ((uint32_t)__builtin_popcountll(mask) < q->spec->count)
		return;
	if (q->has_conflicts) {
		place_search_visit_conflicts(q, node, mask);
		return;
	}
	choice.score = q->place->config.policy->score(q->place, q->spec, node, mask, &choice);
	if (!key_if_best(q, &choice) || !may_be_there(q, node, mask, &choice))
		return;
	key = key_if_best(q, &choice);
	if (!key)
		return;
	q->best = key;
	q->choice = choice;
}

/*
 * Pushes each entry of this line of a pool's table that can be better than the best place so far.
 */
static int place_search_expand_pool(struct quest *q, uint32_t pool, uint32_t level, uint32_t up)
{
	const struct place_bounds *bounds = q->place->bounds;
	const struct pool *g = place_bounds_pool(bounds, pool);
	const int32_t *cpu = columns_line(&g->columns, level, up, COLUMN_CPU),
		      *memory = columns_line(&g->columns, level, up, COLUMN_MEMORY),
		      *device_memory = columns_line(&g->columns, level, up, COLUMN_DEVICE_MEMORY);
	const int32_t *opportunistic = columns_line(&g->columns, level, up, COLUMN_OPPORTUNISTIC);
	const int32_t elsewhere = q->has_locality ? place_locality_elsewhere(q->place, q->spec) : 0;
	int32_t has_room[FAN], bound[FAN];
	int r = 0;

	columns_read(&g->columns, level, up, q->column[pool], bound);

	/* The loop has no branches, so that the compiler vectorizes it. */
	for (uint32_t i = 0; i < FAN; i++)
		has_room[i] = (cpu[i] >= q->cpu) & (memory[i] >= q->memory) &
			(device_memory[i] >= q->device_memory) & (bound[i] != PLACE_NEVER);
	for (uint32_t i = 0; i < FAN && r == 0; i++) {
		uint32_t node;
		uint64_t key;
		int32_t drawn = 0;

		if (!has_room[i])
			continue;
		node = g->node[(up * FAN + i) << FAN_BITS * level];
		if (q->has_locality && (q->spec->priority || opportunistic[i]))
			drawn = level ? elsewhere : place_search_locality_bonus(q, node);
		key = place_search_key(grade_of_bound(q, bound[i], drawn), node, level);
		if (key <= q->best || (!level && !place_bounds_is_open(bounds, node, &q->class)))
			continue;
		if (!level) {
			__builtin_prefetch(&q->place->nodes[node]);
			if (q->place->config.policy->expect)
				q->place->config.policy->expect(q->place, node);
		}
		r = place_search_push_key(q->place->search, key);
	}
	return r;
}

/*
 * The first key of the heap was made from a guess about this node: replaces the guess by the bound,
 * and pushes the node again.
 */
static int look_closer(struct quest *q, uint32_t pool, uint32_t node)
{
	const int32_t bound = place_bounds_look_closer(q->place->bounds, node, q->column[pool]);
	const uint64_t key = place_search_key(
		grade_of_bound(q, bound, place_search_locality_bonus(q, node)), node, 0);

	return key > q->best ? place_search_push_key(q->place->search, key) : 0;
}

static uint32_t place_search_key_node(uint64_t key)
{
	return 0x0fffffffu - (uint32_t)(key >> 4 & 0x0fffffffu);
}

/* Prefetches the data of a node that the search will probably visit next. */
static void place_search_expect_key(const struct quest *q, uint64_t key)
{
	const struct node *n = &q->place->nodes[place_search_key_node(key)];

	for (uint32_t i = 0; i < n->n_devices; i++)
		__builtin_prefetch(&q->place->devices[n->first_device + i]);
}

static int place_search_step(struct quest *q)
{
	const struct place_bounds *bounds = q->place->bounds;
	struct keys *keys = &q->place->search->keys;
	const uint64_t key = keys_take(keys);
	const uint32_t node = place_search_key_node(key), level = key & 15;
	const uint32_t pool = place_bounds_pool_of(bounds, node);

	if (level)
		return place_search_expand_pool(q, pool, level - 1,
			place_bounds_row_of(bounds, node) >> (FAN_BITS * level));
	if (keys->n && !(keys->v[0] & 15))
		place_search_expect_key(q, keys->v[0]);
	if (place_bounds_is_guess(bounds, node, q->column[pool]))
		return look_closer(q, pool, node);
	place_search_visit_node(q, node);
	return 0;
}

/*
 * Bounds do not include the locality bonus, so the nodes of the tenant's group are pushed
 * separately.
 */
static int place_search_expand_locality(struct quest *q)
{
	const struct place_bounds *bounds = q->place->bounds;
	const uint32_t *nodes = NULL, n = place_locality_nodes(q->place, q->spec, &nodes);
	int r = 0;

	for (uint32_t i = 0; i < n && r == 0; i++) {
		const uint32_t pool = place_bounds_pool_of(bounds, nodes[i]);
		const struct columns *columns = &place_bounds_pool(bounds, pool)->columns;
		int32_t bound;

		if (!q->column[pool])
			continue;
		bound = columns_get(
			columns, place_bounds_row_of(bounds, nodes[i]), q->column[pool]);
		if (bound != PLACE_NEVER && place_bounds_is_open(bounds, nodes[i], &q->class))
			r = place_search_push_key(q->place->search,
				place_search_key(grade_of_bound(q, bound,
							 place_search_locality_bonus(q, nodes[i])),
					nodes[i], 0));
	}
	return r;
}

/* Searches the trees of all possible pools together. */
static int search_class(struct quest *q)
{
	struct place_search *s = q->place->search;
	struct place_class of = place_bounds_class(q->place->bounds, &q->class);
	int r = 0;

	s->keys.n = 0;
	for (uint32_t i = 0; i < N_POOLS && r == 0; i++) {
		const struct pool *g = place_bounds_pool(q->place->bounds, i);

		if (!g->n || (i == POOL_NONE && of.count))
			continue;
		if (i < POOL_MIXED && q->class.models && !(q->class.models >> i & 1))
			continue;
		/*
		 * In a pool of one model all nodes have the requested model, so one column serves
		 * all `models`.
		 */
		of.models = i == POOL_MIXED ? q->class.models : 0;
		q->column[i] = place_bounds_column(q->place->bounds, i, &of);
		if (!q->column[i])
			return -ENOMEM;
		r = place_search_expand_pool(q, i, g->columns.n_levels - 1, 0);
	}
	if (r == 0 && q->has_locality)
		r = place_search_expand_locality(q);
	while (r == 0 && s->keys.n && s->keys.v[0] > q->best)
		r = place_search_step(q);
	return r;
}

struct place_class place_class_of(const struct place *place, const struct place_spec *spec)
{
	const struct place_policy *policy = place->config.policy;

	return (struct place_class){.models = spec->count ? spec->models : 0,
		.share = spec->share,
		.share_most = spec->share,
		.count = spec->count,
		.is_idle = spec->is_exclusive,
		.kind = policy->kind ? policy->kind(place, spec) : 0};
}

/* Visits each node once, even if several of its devices have the label. */
static int visit_label(struct quest *q, uint32_t id, enum role role)
{
	const struct label *label = place_label_at(q->place, id);
	struct place_search *s = q->place->search;

	if (array_grow(&s->stamp, &s->n_stamps, q->place->n_nodes, sizeof(*s->stamp)) < 0)
		return -ENOMEM;
	if (++s->run == 0) {
		memset(s->stamp, 0, s->n_stamps * sizeof(*s->stamp));
		s->run = 1;
	}
	for (uint32_t i = 0; i < label->n_devices[role]; i++) {
		const uint32_t node = q->place->devices[label->devices[role][i]].node;

		if (s->stamp[node] == s->run)
			continue;
		s->stamp[node] = s->run;
		place_search_visit_node(q, node);
	}
	return 0;
}

static int place_search_run(struct quest *q)
{
	const struct place_spec *spec = q->spec;
	int r;

	q->class = place_class_of(q->place, spec);
	q->has_locality = place_has_locality(q->place, spec);
	if (spec->device != PLACE_NONE || spec->node != PLACE_NONE) {
		place_search_visit_node(q,
			spec->node != PLACE_NONE ? spec->node
						 : q->place->devices[spec->device].node);
		return 0;
	}
	if (spec->network[0]) {
		place_search_visit_node(q, place_network_node(q->place, spec->network[0]));
		return 0;
	}
	if (spec->count && spec->affinity) {
		q->class.is_idle = true;
		if (place_label_at(q->place, spec->affinity)->n_devices[ROLE_AFFINITY])
			return visit_label(q, spec->affinity, ROLE_AFFINITY);
	}
	if (spec->count && spec->exclusion) {
		/* Only devices with this exclusion label fit, or idle devices. */
		q->class.is_idle = true;
		r = visit_label(q, spec->exclusion, ROLE_EXCLUSION);
		if (r < 0)
			return r;
	}
	return search_class(q);
}

/*
 * Fewer preference conflicts come before scores: first a search for places without conflicts, then
 * one for places with the fewest conflicts found.
 */
static int place_search_with_conflicts(struct quest *q)
{
	int r = 0;

	q->has_conflicts = place_has_conflicts(q->place, q->spec);
	q->n_met_next = 0;
	do {
		q->n_conflicts = q->n_met_next;
		q->n_met_next = UINT32_MAX;
		r = place_search_run(q);
	} while (r == 0 && !q->best && q->n_met_next != UINT32_MAX);
	return r;
}

static int place_search_check_spec(
	const struct place *place, const struct place_spec *spec, struct error *err)
{
	int r = place_spec_check(spec, err);

	if (r < 0)
		return r;
	if (spec->device != PLACE_NONE && spec->device >= place->n_devices)
		return fail(err, EINVAL, "there is no device %u", spec->device);
	if (spec->node != PLACE_NONE && spec->node >= place->n_nodes)
		return fail(err, EINVAL, "there is no node %u", spec->node);
	return place_spec_known(place, spec, err);
}

int place_find(struct place *place, const struct place_spec *spec, struct place_choice *ret_choice,
	struct error *err)
{
	struct place_spec narrowed = *spec;
	struct quest q = {.place = place,
		.spec = &narrowed,
		.cpu = columns_number(spec->cpu_milli),
		.memory = columns_number(spec->memory_bytes >> 20),
		.device_memory = columns_number(spec->device_bytes >> 20)};
	int r;

	r = place_search_check_spec(place, spec, err);
	if (r < 0)
		return r;
	r = place_queue_narrow(place, &narrowed, err);
	if (r < 0)
		return r;
	r = workload_mix_update(place);
	if (spec->is_terminating_free)
		place_count_terminating_free(place, spec->node, true);
	if (r == 0 && place->n_nodes)
		r = place_search_with_conflicts(&q);
	if (spec->is_terminating_free)
		place_count_terminating_free(place, spec->node, false);
	if (r < 0)
		return fail(err, -r, "out of memory for a decision");
	if (!q.best)
		return fail(err, ENOSPC, "no node has room for the tenant");
	*ret_choice = q.choice;
	return 0;
}
