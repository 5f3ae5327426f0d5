/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the pools of a node. A pool counts only with its newest generation, and only if all
 * slices of that generation are known, whether or not they concern the node. Pools, and the slices
 * of each, are in the order of their names, so that drivers can prefer devices by name. Pools with
 * binding conditions come last.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "claims/claims-internal.h"

static bool pool_concerns(const struct slice *slice, const struct claims_node *node)
{
	const struct node_choice *nodes = &slice->nodes;

	if ((nodes->name && *nodes->name) || nodes->is_all || nodes->has_terms)
		return node_choice_has(nodes, node->name, node->labels);
	for (uint32_t i = 0; slice->is_per_device && i < slice->n_devices; i++)
		if (node_choice_has(&slice->devices[i].nodes, node->name, node->labels))
			return true;
	return false;
}

/* ---- counters ---- */

static struct pool_counter *pool_counter(struct pool *pool, const struct counter *of)
{
	for (uint32_t i = 0; i < pool->n_counters; i++)
		if (!strcmp(pool->counters[i].of->name, of->name) &&
			!strcmp(pool->counters[i].of->set, of->set))
			return &pool->counters[i];
	return NULL;
}

static void pool_count_slice(
	const struct claims *claims, struct pool *pool, const struct slice *slice)
{
	for (uint32_t i = 0; i < slice->n_devices; i++) {
		const struct device *device = &slice->devices[i];
		const struct device_use *use = device->n_counters ? claims_use(claims, device->id)
								  : NULL;

		for (uint32_t k = 0; use && k < device->n_counters; k++) {
			struct pool_counter *counter = pool_counter(pool, &device->counters[k]);

			if (counter)
				counter->left -= device->counters[k].amount.nano;
		}
	}
}

void pool_count(const struct claims *claims, struct pool *pool)
{
	if (pool->has_counted)
		return;
	pool->has_counted = true;
	for (uint32_t i = 0; i < pool->n_slices; i++)
		pool_count_slice(claims, pool, pool->slices[i]);
	for (uint32_t i = 0; i < pool->n_others; i++)
		pool_count_slice(claims, pool, pool->others[i]);
}

/* Adds the counters of a slice. Returns whether no set has them already. */
static bool pool_add_counters(struct pool *pool, const struct slice *slice)
{
	const uint32_t n = pool->n_counters;

	for (uint32_t i = 0; i < slice->n_counters; i++) {
		for (uint32_t k = 0; k < n; k++)
			if (!strcmp(pool->counters[k].of->set, slice->counters[i].set))
				return false;
		pool->counters[pool->n_counters++] = (struct pool_counter){
			&slice->counters[i], slice->counters[i].amount.nano, 0};
	}
	return true;
}

/* Whether each device of the slice consumes only counters that the pool has. */
static bool pool_has_counters(struct pool *pool, const struct slice *slice)
{
	for (uint32_t i = 0; i < slice->n_devices; i++)
		for (uint32_t k = 0; k < slice->devices[i].n_counters; k++)
			if (!pool_counter(pool, &slice->devices[i].counters[k]))
				return false;
	return true;
}

/* ---- pools ---- */

static int pool_compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Whether two devices of the node's slices have one name. */
static int pool_has_twins(const struct pool *pool, bool *ret)
{
	_cleanup_free_ const char **names = NULL;
	uint32_t n = 0, at = 0;

	for (uint32_t i = 0; i < pool->n_slices; i++)
		n += pool->slices[i]->n_devices;
	names = calloc(n + 1ul, sizeof(const char *));
	if (!names)
		return -ENOMEM;
	for (uint32_t i = 0; i < pool->n_slices; i++)
		for (uint32_t k = 0; k < pool->slices[i]->n_devices; k++)
			names[at++] = pool->slices[i]->devices[k].name;
	qsort(names, n, sizeof(const char *), pool_compare_names);
	*ret = false;
	for (uint32_t i = 1; i < n; i++)
		*ret |= !strcmp(names[i - 1], names[i]);
	return 0;
}

static int pool_check(struct pool *pool, bool are_counters_valid)
{
	bool has_twins;
	int r = pool_has_twins(pool, &has_twins);

	if (r < 0)
		return r;
	pool->is_invalid = has_twins || !are_counters_valid;
	for (uint32_t i = 0; !pool->is_invalid && i < pool->n_slices; i++)
		pool->is_invalid = !pool_has_counters(pool, pool->slices[i]);
	for (uint32_t i = 0; !pool->is_invalid && i < pool->n_others; i++)
		pool->is_invalid = !pool_has_counters(pool, pool->others[i]);
	for (uint32_t i = 0; !pool->is_invalid && i < pool->n_slices; i++)
		for (uint32_t k = 0; k < pool->slices[i]->n_devices; k++)
			pool->has_binding_conditions |=
				pool->slices[i]->devices[k].has_binding_conditions;
	return 0;
}

/* The slices of a pool as one node sees them. */
struct pool_slices {
	const struct slice *const *all; /* in the order of their names */
	uint32_t n;
	int64_t generation; /* newest of the slices for the node */
	int64_t newest;     /* newest of all slices */
	uint32_t n_current; /* slices of `generation` */
	uint32_t n_own;     /* of these, slices for the node */
	int64_t n_wanted;   /* slices that the driver has announced */
};

static bool pool_is_current(const struct pool_slices *slices, uint32_t i)
{
	return slices->all[i]->generation == slices->generation && !slices->all[i]->is_unclear;
}

static void pool_look(struct pool_slices *slices, const struct claims_node *node)
{
	slices->generation = slices->newest = INT64_MIN;
	for (uint32_t i = 0; i < slices->n; i++) {
		const struct slice *slice = slices->all[i];

		slices->newest = MAX(slices->newest, slice->generation);
		if (slice->generation > slices->generation && !slice->is_unclear &&
			pool_concerns(slice, node))
			slices->generation = slice->generation;
	}
	for (uint32_t i = 0; i < slices->n; i++) {
		if (!pool_is_current(slices, i))
			continue;
		slices->n_current++;
		if (!pool_concerns(slices->all[i], node))
			continue;
		if (!slices->n_own++)
			slices->n_wanted = slices->all[i]->n_slices;
	}
}

/* Fills the pool with its current slices: all, or only those for the node. */
static int pool_fill(struct arena *arena, const struct claims_node *node,
	const struct pool_slices *slices, bool is_own_enough, struct pool *pool)
{
	bool are_counters_valid = true;
	uint32_t n_counters = 0;

	for (uint32_t i = 0; i < slices->n; i++)
		n_counters += slices->all[i]->n_counters;
	pool->slices = arena_take_array(arena, slices->n, sizeof(const struct slice *));
	pool->others = arena_take_array(arena, slices->n, sizeof(const struct slice *));
	pool->counters = arena_take_array(arena, n_counters + 1ul, sizeof(*pool->counters));
	if (!pool->slices || !pool->others || !pool->counters)
		return -ENOMEM;
	for (uint32_t i = 0; i < slices->n; i++) {
		const struct slice *slice = slices->all[i];
		const bool is_own = pool_is_current(slices, i) && pool_concerns(slice, node);

		if (!pool_is_current(slices, i) || (is_own_enough && !is_own))
			continue;
		if (slice->has_counters)
			are_counters_valid &= pool_add_counters(pool, slice);
		else if (is_own)
			pool->slices[pool->n_slices++] = slice;
		else
			pool->others[pool->n_others++] = slice;
	}
	return pool_check(pool, are_counters_valid);
}

/*
 * Makes the pool of which `all` are the known slices. Returns 1, or 0 if the pool has no slice for
 * the node, or its slices are being replaced by ones that are not for the node.
 */
static int pool_init(struct arena *arena, const struct claims_node *node,
	const struct slice *const *all, uint32_t n_all, struct pool *ret)
{
	struct pool_slices slices = {.all = all, .n = n_all};
	bool is_own_enough;

	*ret = (struct pool){.driver = all[0]->driver, .name = all[0]->pool};
	pool_look(&slices, node);
	if (!slices.n_own)
		return 0;
	is_own_enough = slices.n_own == slices.n_wanted;
	if (!is_own_enough && slices.newest > slices.generation)
		return 0;
	if (!is_own_enough && slices.n_current != slices.n_wanted) {
		ret->is_incomplete = true;
		return 1;
	}
	return pool_fill(arena, node, &slices, is_own_enough, ret) < 0 ? -ENOMEM : 1;
}

static int pool_compare_order(const void *pa, const void *pb)
{
	const struct pool *a = pa, *b = pb;
	int r;

	if (a->has_binding_conditions != b->has_binding_conditions)
		return a->has_binding_conditions - b->has_binding_conditions;
	r = strcmp(a->driver, b->driver);
	return r ? r : strcmp(a->name, b->name);
}

/* The first slice in claims->by_node of that node; "": without a node. */
static uint32_t pools_first_of(const struct claims *claims, const char *node)
{
	uint32_t low = 0, high = claims->n_slices;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (strcmp(slice_node(claims->by_node[middle].slice), node) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static uint32_t pools_end_of(const struct claims *claims, const char *node, uint32_t first)
{
	while (first < claims->n_slices && !strcmp(slice_node(claims->by_node[first].slice), node))
		first++;
	return first;
}

int pools_gather(struct arena *arena, const struct claims *claims, const struct claims_node *node,
	struct pools *ret)
{
	const char *const names[] = {"", node->name};
	bool *seen = arena_take_array(arena, claims->n_pools + 1ul, sizeof(*seen));
	uint32_t first[2], end[2];
	struct pools pools = {0};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		first[i] = pools_first_of(claims, names[i]);
		end[i] = pools_end_of(claims, names[i], first[i]);
	}
	pools.v = arena_take_array(
		arena, end[0] - first[0] + end[1] - first[1] + 1ul, sizeof(*pools.v));
	if (!pools.v || !seen)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		for (uint32_t k = first[i]; k < end[i]; k++) {
			const uint32_t number = claims->by_node[k].pool;
			const uint32_t start = claims->pool_starts[number];
			int r;

			if (seen[number])
				continue;
			seen[number] = true;
			r = pool_init(arena, node, claims->by_pool + start,
				claims->pool_starts[number + 1] - start, &pools.v[pools.n]);
			if (r < 0)
				return r;
			pools.n += (uint32_t)r;
		}
	qsort(pools.v, pools.n, sizeof(*pools.v), pool_compare_order);
	*ret = pools;
	return 0;
}
