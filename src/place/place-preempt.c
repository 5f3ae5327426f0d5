/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search has two steps. First, every node gets a lower bound of the cost of preemption there,
 * from shares, CPU, memory and priorities alone. A heap then gives the nodes in the order of their
 * bounds. Second, the search finds a set of victims on each of these nodes. The search removes
 * groups of equal priority until the tenant fits, and puts back the removed tenants that were not
 * necessary. Then the search tries all sets that can be cheaper, on a copy of the node's counters
 * (place-capacity.h).
 */
#include "place/place-preempt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/heap.h"
#include "place/place-held.h"
#include "place/place-internal.h"
#include "place/place-queue.h"
#include "place/place-capacity.h"

#define EARLY 16u /* at most this many nodes are searched before all bounds are known */

/* The cost of a set of victims: smaller values are cheaper, and earlier fields come first. */
struct cost {
	uint32_t violations, highest, n;
	uint64_t share;
	uint64_t late; /* UINT64_MAX minus the earliest `started` of a victim; 0: does not matter */
	uint32_t node;
};

HEAP_HEAD(node_bounds, struct cost);

struct candidate {
	const struct holder *h;
	uint32_t rank, budget; /* budget: index in rules->budgets, or PLACE_NONE */
	bool is_evicted;
};

struct search {
	struct place *place;
	/* the spec's queue is 0 if rules->order->models checks that queue's limits instead */
	const struct place_spec *spec;
	const struct place_preempt *rules;
	/* 1: second search of a forced preemption, where every set exceeds a budget */
	uint32_t violations_min;

	struct candidate *list; /* candidates of the current node, cheapest first */
	uint32_t n, size;
	uint32_t *evicted_of_budget; /* by budget: number of removed tenants */
	struct node_capacity capacity;
	uint32_t *evicted, evicted_size; /* removed tenants, as the filter's argument */
	struct cost now;                 /* cost of the tenants removed so far */
	uint32_t steps, steps_max;       /* number of tried sets, and its limit */

	struct cost best;
	uint32_t *victims, victims_size; /* best.n entries */
	struct node_bounds bounds; /* lower bounds of the nodes not searched yet, cheapest first */
};

static void preempt_search_done(struct search *s)
{
	free(s->list);
	free(s->evicted_of_budget);
	free(s->victims);
	free(s->evicted);
	free(s->bounds.v);
}

static int preempt_search_compare_cost(const struct cost *a, const struct cost *b)
{
#define BY(field) \
	if (a->field != b->field) \
	return a->field < b->field ? -1 : 1
	BY(violations);
	BY(highest);
	BY(n);
	BY(share);
	BY(late);
	BY(node);
#undef BY
	return 0;
}

#define IS_CHEAPER(a, b) (preempt_search_compare_cost(&(a), &(b)) < 0)
HEAP_DEFINE(node_bounds, struct cost, IS_CHEAPER, HEAP_NO_PLACE)

/* ---- candidates ---- */

uint32_t place_budget_of(const struct place_preempt *rules, uint32_t label)
{
	uint32_t low = 0, high = rules->n_budgets;

	if (!label)
		return PLACE_NONE;
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (rules->budgets[middle].label < label)
			low = middle + 1;
		else
			high = middle;
	}
	return low < rules->n_budgets && rules->budgets[low].label == label ? low : PLACE_NONE;
}

static int compare_candidates(const void *pa, const void *pb)
{
	const struct candidate *a = pa, *b = pb;

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (holder_share(a->h) != holder_share(b->h))
		return holder_share(a->h) < holder_share(b->h) ? -1 : 1;
	return a->h->tenant < b->h->tenant ? -1 : a->h->tenant > b->h->tenant;
}

/* Returns false if the tenant may not be a victim. */
static bool is_candidate(const struct search *s, const struct holder *h, struct candidate *ret)
{
	const struct place_preempt_order *order = s->rules->order;
	int rank = order ? order->rank(order->arg, h) : h->priority;

	if (rank < 0 || (!order && h->priority >= s->spec->priority))
		return false;
	*ret = (struct candidate){
		.h = h, .rank = (uint32_t)rank, .budget = place_budget_of(s->rules, h->budget)};
	return ret->budget == PLACE_NONE || s->violations_min ||
		s->rules->budgets[ret->budget].may_evict;
}

static int list_candidates(struct search *s, uint32_t node)
{
	const struct held *held = &s->place->held[node];
	int r = array_grow(&s->list, &s->size, held->n, sizeof(*s->list));

	r = r < 0 ? r
		  : array_grow(&s->evicted, &s->evicted_size, held->n + s->place->n_evicted + 1ull,
			    sizeof(*s->evicted));
	if (r < 0)
		return r;
	s->n = 0;
	for (uint32_t i = 0; i < held->n; i++)
		s->n += is_candidate(s, &held->list[i], &s->list[s->n]);
	qsort(s->list, s->n, sizeof(*s->list), compare_candidates);
	return 0;
}

/* ---- bound of a node's cost ---- */

static uint64_t preempt_search_lateness(const struct search *s, const struct holder *h)
{
	return s->rules->is_latest_first ? UINT64_MAX - h->started : 0;
}

/* Keeps in *alone the cost of the cheapest candidate whose eviction alone frees enough. */
static void note_alone(const struct search *s, const struct candidate *c, struct cost *alone)
{
	const struct cost cost = {
		.violations = s->violations_min,
		.highest = c->rank,
		.n = 1,
		.share = holder_share(c->h),
		.late = preempt_search_lateness(s, c->h),
		.node = alone->node,
	};

	if (preempt_search_compare_cost(&cost, alone) < 0)
		*alone = cost;
}

/* One device's free share, and the shares of the candidates counted so far. */
struct part {
	uint32_t free, sum, most, least, n;
};

static void part_add(struct part *part, uint32_t share)
{
	part->sum += share;
	part->most = MAX(part->most, share);
	part->least = part->n ? MIN(part->least, share) : share;
	part->n++;
}

/* Lower bounds for one device: number of victims, and the sum of their shares. */
static void part_bound(
	const struct part *part, uint32_t asked, uint32_t *ret_n, uint32_t *ret_share)
{
	uint32_t lacking = asked > part->free ? asked - part->free : 0;

	*ret_n = lacking ? (lacking + part->most - 1) / part->most : 0;
	*ret_share = lacking;
	if (lacking && part->sum - part->least < lacking) {
		*ret_n = part->n;
		*ret_share = part->sum;
	}
}

/* Sum of the `count` smallest values; reorders `values`. */
static uint32_t sum_of_least(uint32_t *values, uint32_t n, uint32_t count)
{
	uint32_t sum = 0;

	for (uint32_t k = 0; k < count; k++) {
		uint32_t least = k;

		for (uint32_t i = k + 1; i < n; i++)
			if (values[i] < values[least])
				least = i;
		sum += values[least];
		values[least] = values[k];
	}
	return sum;
}

static void bound_of_parts(
	const struct search *s, const struct part *part, uint32_t n_devices, struct cost *ret)
{
	uint32_t n[PLACE_NODE_DEVICES_MAX], share[PLACE_NODE_DEVICES_MAX], used = 0;

	for (uint32_t d = 0; d < n_devices; d++) {
		if (part[d].free + part[d].sum < s->spec->share)
			continue;
		part_bound(&part[d], s->spec->share, &n[used], &share[used]);
		used++;
	}
	ret->n = sum_of_least(n, used, s->spec->count);
	ret->share = sum_of_least(share, used, s->spec->count);
}

/*
 * Returns the next candidate by rank. Within a rank the candidates come in no useful order, because
 * a node's list is sorted by priority only.
 */
static bool next_candidate(
	const struct search *s, const struct held *held, uint32_t *i, struct candidate *ret)
{
	if (s->rules->order) {
		if (*i == s->n)
			return false;
		*ret = s->list[(*i)++];
		return true;
	}
	while (*i < held->n && held->list[*i].priority < s->spec->priority)
		if (is_candidate(s, &held->list[(*i)++], ret))
			return true;
	return false;
}

/* Capacity of the node itself, not of its devices, that an eviction frees. */
enum need { NEED_CPU, NEED_MEMORY };

static uint64_t given_back(const struct holder *h, enum need need)
{
	if (need == NEED_CPU)
		return h->cpu_milli;
	return h->memory_mib == UINT32_MAX ? UINT64_MAX >> 20 : h->memory_mib;
}

/* Returns the node's missing capacity; memory in MiB, rounded down. */
static uint64_t preempt_search_lacking(const struct search *s, uint32_t at, enum need need)
{
	const struct node *node = &s->place->nodes[at];
	const struct taken now = node_taken(node, s->spec->is_terminating_free);
	uint64_t all = node->cpu_all, taken = now.cpu, asked = s->spec->cpu_milli;

	if (need == NEED_MEMORY) {
		all = node->memory_all;
		taken = now.memory;
		asked = s->spec->memory_bytes;
	}
	if (!asked || taken + asked <= all)
		return 0;
	return need == NEED_MEMORY ? (taken + asked - all) >> 20 : taken + asked - all;
}

/*
 * A lower bound of the cost to free enough CPU, or enough memory, of the node. Leaves *ret
 * unchanged if the node has enough. false: no set suffices, or all cost more than the best plan.
 */
static bool bound_of_need(const struct search *s, uint32_t node, enum need need, struct cost *ret)
{
	const struct held *held = &s->place->held[node];
	const uint64_t lacks = preempt_search_lacking(s, node, need);
	struct cost alone = {.violations = UINT32_MAX, .node = node};
	uint64_t sum = 0, most = 1;
	uint32_t i = 0, least_share = UINT32_MAX;
	struct candidate c;

	if (!lacks)
		return true;
	*ret = (struct cost){.violations = s->violations_min, .node = node};
	while (next_candidate(s, held, &i, &c)) {
		const uint64_t back = given_back(c.h, need);

		if (sum >= lacks && c.rank > ret->highest)
			break;
		if (s->violations_min == s->best.violations && c.rank > s->best.highest)
			return false;
		if (sum < lacks)
			ret->highest = c.rank;
		sum += back;
		most = MAX(most, back);
		least_share = MIN(least_share, holder_share(c.h));
		if (back >= lacks)
			note_alone(s, &c, &alone);
	}
	if (sum < lacks)
		return false;
	ret->n = (uint32_t)MIN((lacks + most - 1) / most, (uint64_t)UINT32_MAX);
	ret->share = (uint64_t)ret->n * least_share;
	if (alone.violations != UINT32_MAX && alone.highest == ret->highest)
		*ret = alone;
	else
		ret->n = MAX(ret->n, 2u);
	return true;
}

/* Bit i: device i has a terminating tenant, so it is closed. */
static uint64_t preempt_search_terminating_of(const struct place *place, const struct node *node)
{
	uint64_t terminating = 0;

	for (uint32_t i = 0; node->n_terminating && i < node->n_devices; i++)
		terminating |= (uint64_t)(place->devices[node->first_device + i].n_terminating > 0)
			<< i;
	return terminating;
}

/*
 * A lower bound of the cost to free enough devices of the node. false: even all candidates do not
 * suffice, or every set costs more than the best plan.
 */
static bool bound_of_devices(const struct search *s, uint32_t node, struct cost *ret)
{
	const struct held *held = &s->place->held[node];
	const uint32_t n_devices = s->place->nodes[node].n_devices, count = s->spec->count;
	const uint16_t *free = n_devices ? &s->place->share_free[s->place->nodes[node].first_device]
					 : NULL;
	const uint64_t terminating = preempt_search_terminating_of(
		s->place, &s->place->nodes[node]);
	struct part part[PLACE_NODE_DEVICES_MAX];
	uint32_t enough = 0, at_once = 1, i = 0;
	struct cost alone = {.violations = UINT32_MAX, .node = node};
	struct candidate c;

	*ret = (struct cost){.violations = s->violations_min, .n = 1, .node = node};
	if (n_devices < count)
		return false;
	for (uint32_t d = 0; d < n_devices; d++) {
		part[d] = (struct part){.free = terminating >> d & 1 ? 0 : free[d]};
		enough += part[d].free >= s->spec->share;
	}
	if (enough >= count) {
		/*
		 * Enough share is free, so something else is missing: the rank of the cheapest
		 * candidate is the bound.
		 */
		if (!next_candidate(s, held, &i, &c))
			return false;
		ret->highest = c.rank;
		return true;
	}
	while (next_candidate(s, held, &i, &c)) {
		if (enough >= count && c.rank > ret->highest)
			break;
		ret->highest = c.rank;
		if (s->violations_min == s->best.violations && c.rank > s->best.highest)
			return false;
		at_once = MAX(at_once, (uint32_t)__builtin_popcountll(c.h->devices));
		for (uint64_t m = c.h->devices & ~terminating; m; m &= m - 1) {
			uint32_t d = (uint32_t)__builtin_ctzll(m);
			bool was_enough = free[d] + part[d].sum >= s->spec->share;

			if (count == 1 && free[d] + c.h->share >= s->spec->share)
				note_alone(s, &c, &alone);
			part_add(&part[d], c.h->share);
			enough += !was_enough && free[d] + part[d].sum >= s->spec->share;
		}
	}
	if (enough < count)
		return false;
	bound_of_parts(s, part, n_devices, ret);
	ret->n = MAX((ret->n + at_once - 1) / at_once, 1u);
	if (count == 1 && alone.violations != UINT32_MAX && alone.highest == ret->highest)
		*ret = alone;
	else if (count == 1)
		ret->n = MAX(ret->n, 2u);
	return true;
}

/* A lower bound of the cost of every set of victims on the node: the largest of three bounds. */
static bool preempt_search_bound(const struct search *s, uint32_t node, struct cost *ret)
{
	struct cost cost[3] = {{0}};

	if (!bound_of_need(s, node, NEED_CPU, &cost[NEED_CPU]) ||
		!bound_of_need(s, node, NEED_MEMORY, &cost[NEED_MEMORY]) ||
		!bound_of_devices(s, node, &cost[2]))
		return false;
	for (int i = 0; i < 2; i++)
		if (preempt_search_compare_cost(&cost[i], &cost[2]) > 0)
			cost[2] = cost[i];
	*ret = cost[2];
	return true;
}

/* Returns whether the cheapest tenant of the node is a candidate and can beat the best plan. */
static bool is_worth_it(const struct search *s, const struct held *held)
{
	if (s->rules->order)
		return true;
	return held->list[0].priority < s->spec->priority &&
		(s->violations_min != s->best.violations ||
			held->list[0].priority <= s->best.highest);
}

/*
 * Devices that the filter permits if all candidates from index i are removed, in addition to those
 * already removed.
 */
static uint64_t preempt_search_filtered(struct search *s, uint32_t i)
{
	uint32_t n = 0;

	if (!s->place->filter)
		return UINT64_MAX;
	for (; n < s->place->n_evicted; n++)
		s->evicted[n] = s->place->evicted[n];
	for (uint32_t k = 0; k < s->n; k++)
		if (k >= i || s->list[k].is_evicted)
			s->evicted[n++] = s->list[k].h->tenant;
	qsort(s->evicted, n, sizeof(*s->evicted), place_compare_numbers);
	return place_filtered(s->place, s->spec, s->capacity.node, s->evicted, n);
}

/*
 * Tests whether the tenant fits without the removed tenants. For the queues' limits the tenant
 * `but` counts as present; NULL: none.
 */
static bool preempt_search_fits_now(struct search *s, const struct holder *but)
{
	const struct place_preempt_order *order = s->rules->order;
	const uint64_t usable = s->capacity.usable;
	bool fits;

	if (order && order->models)
		capacity_narrow(&s->capacity, order->models(order->arg, but));
	fits = capacity_fits(&s->capacity) && preempt_search_filtered(s, s->n);
	s->capacity.usable = usable;
	return fits;
}

/*
 * Returns whether preemption could make the tenant fit. Preemption frees capacity, but changes no
 * other property of the node.
 */
static bool preempt_search_is_reachable(
	const struct place *place, const struct place_spec *spec, uint32_t node)
{
	const struct node *n = &place->nodes[node];
	enum place_reason reason = place_node_reason(place, spec, node);

	if (reason != PLACE_FITS && reason != PLACE_FULL_OF_TENANTS && reason != PLACE_NO_CPU &&
		reason != PLACE_NO_MEMORY)
		return false;
	if (n->cpu_all < spec->cpu_milli || n->memory_all < spec->memory_bytes)
		return false;
	if (spec->device != PLACE_NONE && place->devices[spec->device].node != node)
		return false;
	return !spec->count || !spec->models || (spec->models & n->models);
}

/* ---- sets of victims ---- */

static bool preempt_search_is_over_budget(const struct search *s, const struct candidate *c)
{
	return c->budget != PLACE_NONE &&
		s->evicted_of_budget[c->budget] >= s->rules->budgets[c->budget].may_evict;
}

/*
 * Removes the candidate from the counters. false: a budget or the order forbids its eviction in
 * addition to the tenants already removed.
 */
static bool preempt_search_evict(struct search *s, struct candidate *c)
{
	const struct place_preempt_order *order = s->rules->order;

	if (preempt_search_is_over_budget(s, c) && !s->violations_min)
		return false;
	if (order && !order->leave(order->arg, c->h))
		return false;
	if (preempt_search_is_over_budget(s, c))
		s->now.violations++;
	if (c->budget != PLACE_NONE)
		s->evicted_of_budget[c->budget]++;
	s->now.n++;
	s->now.share += holder_share(c->h);
	capacity_without(&s->capacity, c->h);
	c->is_evicted = true;
	return true;
}

static void preempt_search_keep(struct search *s, struct candidate *c)
{
	const struct place_preempt_order *order = s->rules->order;

	if (c->budget != PLACE_NONE)
		s->evicted_of_budget[c->budget]--;
	if (preempt_search_is_over_budget(s, c))
		s->now.violations--;
	if (order)
		order->stay(order->arg, c->h);
	s->now.n--;
	s->now.share -= holder_share(c->h);
	capacity_with(&s->capacity, c->h);
	c->is_evicted = false;
}

/* Cost of the removed tenants: s->now has the sums, and the loop adds the maxima. */
static struct cost cost_now(const struct search *s)
{
	struct cost cost = s->now;

	for (uint32_t i = 0; i < s->n; i++)
		if (s->list[i].is_evicted) {
			cost.highest = MAX(cost.highest, s->list[i].rank);
			cost.late = MAX(cost.late, preempt_search_lateness(s, s->list[i].h));
		}
	return cost;
}

static int keep_if_best(struct search *s)
{
	struct cost cost = cost_now(s);
	uint32_t n = 0;
	int r;

	if (preempt_search_compare_cost(&cost, &s->best) >= 0)
		return 0;
	r = array_grow(&s->victims, &s->victims_size, cost.n, sizeof(*s->victims));
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < s->n; i++)
		if (s->list[i].is_evicted)
			s->victims[n++] = s->list[i].h->tenant;
	s->best = cost;
	return 0;
}

static void all_stay(struct search *s)
{
	for (uint32_t i = s->n; i-- > 0;)
		if (s->list[i].is_evicted)
			preempt_search_keep(s, &s->list[i]);
}

/*
 * Puts each victim back that the set does not need, the most expensive first. Repeats that until
 * nothing changes: with labels, one tenant's return can make another victim unnecessary.
 */
static void stay_who_can(struct search *s)
{
	for (bool has_changed = true; has_changed;) {
		has_changed = false;
		for (uint32_t i = s->n; i-- > 0;) {
			struct candidate *c = &s->list[i];
			bool fits;

			if (!c->is_evicted)
				continue;
			capacity_with(&s->capacity, c->h);
			c->is_evicted = false;
			fits = preempt_search_fits_now(s, c->h);
			c->is_evicted = true;
			capacity_without(&s->capacity, c->h);
			if (!fits)
				continue;
			preempt_search_keep(s, c);
			has_changed = true;
		}
	}
}

/*
 * Tests whether the removal of all candidates from index i, in addition to those already removed,
 * would suffice. Budgets and order are ignored.
 */
static bool preempt_search_could_fit(struct search *s, uint32_t i)
{
	bool fits;

	for (uint32_t k = i; k < s->n; k++)
		capacity_without(&s->capacity, s->list[k].h);
	fits = capacity_fits(&s->capacity) && preempt_search_filtered(s, i);
	for (uint32_t k = i; k < s->n; k++)
		capacity_with(&s->capacity, s->list[k].h);
	return fits;
}

/*
 * Tries the removed tenants with each set of candidates from index i, unless the set cannot be
 * cheaper than the best set. highest: a lower bound of the set's highest rank. late: the largest
 * value of preempt_search_lateness() of the removed tenants.
 */
static int try_sets(struct search *s, uint32_t i, uint32_t highest, uint64_t late)
{
	struct candidate *c = &s->list[i];
	struct cost least = s->now;
	int r = 0;

	if (s->now.n && preempt_search_fits_now(s, NULL))
		return keep_if_best(s);
	least.n++;
	least.highest = highest;
	least.late = late;
	least.violations = MAX(least.violations, s->violations_min);
	if (i == s->n || s->steps >= s->steps_max ||
		preempt_search_compare_cost(&least, &s->best) >= 0)
		return 0;
	s->steps += 1 + (s->n - i) / 64;
	/*
	 * This test does not hold for a spec with an affinity label: the new tenant must share a
	 * device with a tenant of its label. If that tenant is a candidate, the new tenant may fit
	 * only while the candidate stays.
	 */
	if (!s->spec->affinity && !preempt_search_could_fit(s, i))
		return 0;
	least.share += holder_share(c->h);
	least.highest = MAX(highest, c->rank);
	least.late = MAX(late, preempt_search_lateness(s, c->h));
	least.violations = MAX(
		s->now.violations + preempt_search_is_over_budget(s, c), s->violations_min);
	if (preempt_search_compare_cost(&least, &s->best) < 0 && preempt_search_evict(s, c)) {
		r = try_sets(s, i + 1, least.highest, least.late);
		preempt_search_keep(s, c);
	}
	return r < 0 ? r : try_sets(s, i + 1, highest, late);
}

/* least: the node, and a lower bound of the cost there */
static int search_node(struct search *s, const struct cost *least)
{
	const uint32_t node = least->node;
	bool fits = false;
	uint64_t allowed;
	int r;

	r = list_candidates(s, node);
	if (r < 0)
		return r;
	capacity_init(&s->capacity, s->place, s->spec, node);
	s->now = (struct cost){.node = node};
	allowed = preempt_search_filtered(s, 0);
	if (!allowed)
		return 0;
	s->capacity.usable &= allowed;
	for (uint32_t i = 0; i < s->n && !fits; i++)
		fits = preempt_search_evict(s, &s->list[i]) &&
			(i + 1 == s->n || s->list[i + 1].rank != s->list[i].rank) &&
			preempt_search_fits_now(s, NULL);
	if (!fits)
		fits = s->now.n && preempt_search_fits_now(s, NULL);
	if (fits) {
		stay_who_can(s);
		r = keep_if_best(s);
	}
	all_stay(s);
	s->steps_max = MIN(s->steps + PLACE_PREEMPT_STEPS, PLACE_PREEMPT_ALL_STEPS);
	return r < 0 ? r : try_sets(s, 0, least->highest, 0);
}

/*
 * Computes the bounds of all nodes that can beat the best plan. A few nodes with the lowest bounds
 * so far are searched at once, because their costs exclude most other nodes.
 */
static int fill_bounds(struct search *s)
{
	struct cost least = {.violations = UINT32_MAX}, cost;
	uint32_t n_early = 0;
	int r;

	s->bounds.n = 0;
	r = node_bounds_reserve(&s->bounds, s->place->n_nodes);
	for (uint32_t node = 0; r == 0 && node < s->place->n_nodes; node++) {
		const struct held *held = &s->place->held[node];

		if (!held->n || !is_worth_it(s, held) ||
			!preempt_search_is_reachable(s->place, s->spec, node))
			continue;
		if (s->rules->order)
			r = list_candidates(s, node);
		if (r < 0 || !preempt_search_bound(s, node, &cost) ||
			preempt_search_compare_cost(&cost, &s->best) >= 0)
			continue;
		if (n_early < EARLY && preempt_search_compare_cost(&cost, &least) < 0) {
			least = cost;
			n_early++;
			r = search_node(s, &cost);
		} else {
			s->bounds.v[s->bounds.n++] = cost;
		}
	}
	if (r == 0)
		node_bounds_order(&s->bounds);
	return r;
}

static int search_all(struct search *s)
{
	int r = fill_bounds(s);

	while (r == 0 && s->bounds.n &&
		preempt_search_compare_cost(&s->bounds.v[0], &s->best) < 0) {
		const struct cost least = node_bounds_take(&s->bounds);

		r = search_node(s, &least);
	}
	return r;
}

static bool is_victim(const struct search *s, uint32_t tenant)
{
	for (uint32_t i = 0; i < s->best.n; i++)
		if (s->victims[i] == tenant)
			return true;
	return false;
}

/* Removes unnecessary victims from the best set, in case the search ended early at steps_max. */
static int preempt_search_trim(struct search *s)
{
	int r = list_candidates(s, s->best.node);

	if (r < 0)
		return r;
	capacity_init(&s->capacity, s->place, s->spec, s->best.node);
	s->capacity.usable &= preempt_search_filtered(s, 0);
	s->now = (struct cost){.node = s->best.node};
	for (uint32_t i = 0; i < s->n; i++)
		if (is_victim(s, s->list[i].h->tenant) && !preempt_search_evict(s, &s->list[i]))
			/*
			 * The caller's function rules->order->leave() now refuses a tenant that it
			 * allowed during the search.
			 */
			return -EINVAL;
	stay_who_can(s);
	r = keep_if_best(s);
	all_stay(s);
	return r;
}

/* ---- the plan ---- */

int place_preempt_check(
	const struct place *place, const struct place_preempt *rules, struct error *err)
{
	if (rules->n_budgets > PLACE_BUDGETS_MAX)
		return fail(err, EINVAL, "%u budgets: up to %u are possible", rules->n_budgets,
			PLACE_BUDGETS_MAX);
	for (uint32_t i = 0; i < rules->n_budgets; i++) {
		uint32_t label = rules->budgets[i].label;

		if (!place_label_at(place, label))
			return fail(err, EINVAL, "budget %u: label %u is unknown", i, label);
		if (i && label <= rules->budgets[i - 1].label)
			return fail(err, EINVAL,
				"budget %u: label %u after label %u: expected ascending labels", i,
				label, rules->budgets[i - 1].label);
	}
	return 0;
}

static uint64_t preempt_search_mix_bits(uint64_t seen, uint64_t value)
{
	return (seen ^ value) * 0x9e3779b97f4a7c15u ^ (seen >> 29);
}

/*
 * A hash of the node's tenants, their other halves, its free capacity and its terminating tenants.
 * After all changes are undone the hash is the same as before, unlike place_node_version().
 */
static uint64_t preempt_search_fingerprint(const struct place *place, uint32_t node)
{
	const struct node *n = &place->nodes[node];
	const struct held *held = &place->held[node];
	uint64_t seen = preempt_search_mix_bits(
		preempt_search_mix_bits(n->cpu_taken, n->memory_taken), n->n_tenants);

	seen = preempt_search_mix_bits(
		preempt_search_mix_bits(
			preempt_search_mix_bits(seen, n->cpu_terminating), n->memory_terminating),
		n->n_terminating);

	for (uint32_t i = 0; i < held->n; i++) {
		seen = preempt_search_mix_bits(seen, held->list[i].tenant);
		seen = preempt_search_mix_bits(seen, place_peer(place, held->list[i].tenant));
		seen = preempt_search_mix_bits(seen, held->list[i].started);
		seen = preempt_search_mix_bits(seen, held->list[i].devices);
	}
	for (uint32_t i = n->first_device; i < n->first_device + n->n_devices; i++) {
		seen = preempt_search_mix_bits(seen, place->share_free[i]);
		seen = preempt_search_mix_bits(seen, place->devices[i].memory_free);
		seen = preempt_search_mix_bits(seen, place->devices[i].n_terminating);
	}
	return seen;
}

/* A hash of the fingerprints of the plan's node and of other nodes with victims. */
static uint64_t fingerprint_of(const struct place *place, const struct place_plan *plan)
{
	uint64_t seen = preempt_search_fingerprint(place, plan->choice.node);

	for (uint32_t i = 0; i < plan->n_victims; i++) {
		const struct place_tenant *t = place_tenant(place, plan->victims[i]);
		const uint32_t node = t ? t->node : PLACE_NONE;

		if (node != plan->choice.node)
			seen = preempt_search_mix_bits(
				seen, t ? preempt_search_fingerprint(place, node) : 0);
	}
	return seen;
}

/* Sets ret->victims to the tenants and to their other halves that are not terminating yet. */
static int list_victims(
	const struct place *place, const uint32_t *tenants, uint32_t n, struct place_plan *ret)
{
	uint32_t *victims = calloc(2ull * n + 1, sizeof(*victims)), all = 0, kept = 0;

	if (!victims)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t peer = place_peer(place, tenants[i]);

		victims[all++] = tenants[i];
		if (peer != PLACE_NONE && !place->tenants[peer].is_terminating)
			victims[all++] = peer;
	}
	qsort(victims, all, sizeof(*victims), place_compare_numbers);
	for (uint32_t i = 0; i < all; i++)
		if (i == 0 || victims[i] != victims[i - 1])
			victims[kept++] = victims[i];
	ret->victims = victims;
	ret->n_victims = kept;
	return 0;
}

/*
 * Lets the policy choose the place on the node while the victims are removed. The filter gets the
 * victims and the previous place->evicted, together in ascending order.
 */
static int preempt_search_choose(struct place *place, const struct place_spec *asked, uint32_t node,
	uint32_t *tenants, uint32_t n, struct place_choice *ret, struct error *err)
{
	const uint32_t *was_evicted = place->evicted, n_was = place->n_evicted;
	_cleanup_free_ uint32_t *evicted = calloc(n + n_was + 1ull, sizeof(*evicted));
	struct place_spec spec = *asked;
	uint32_t savepoint;
	int r = 0;

	if (!evicted)
		return fail(err, ENOMEM, "out of memory for a plan");
	memcpy(evicted, tenants, n * sizeof(*evicted));
	for (uint32_t i = 0; i < n_was; i++)
		evicted[n + i] = was_evicted[i];
	qsort(evicted, n + n_was, sizeof(*evicted), place_compare_numbers);
	spec.node = node;
	savepoint = place_savepoint(place);
	place->evicted = evicted;
	place->n_evicted = n + n_was;
	for (uint32_t i = 0; i < n && r == 0; i++)
		r = place_remove(place, tenants[i]);
	r = r < 0 ? fail(err, -r, "out of memory for a plan") : place_find(place, &spec, ret, err);
	place->evicted = was_evicted;
	place->n_evicted = n_was;
	place_rollback(place, savepoint);
	place_release(place);
	return r;
}

int place_preempt_plan(struct place *place, const struct place_spec *spec, uint32_t node,
	const uint32_t *tenants, uint32_t n, bool is_graceful, struct place_plan *ret,
	struct error *err)
{
	_cleanup_free_ uint32_t *kept = calloc(n + 1ull, sizeof(*kept));
	_cleanup_(place_plan_done) struct place_plan plan = {.is_graceful = is_graceful};
	int r;

	if (!kept)
		return fail(err, ENOMEM, "out of memory for a plan");
	memcpy(kept, tenants, n * sizeof(*kept));
	r = preempt_search_choose(place, spec, node, kept, n, &plan.choice, err);
	for (uint32_t i = n; r == 0 && i-- > 0;) {
		const uint32_t out = kept[i];

		kept[i] = kept[n - 1];
		r = preempt_search_choose(place, spec, node, kept, n - 1, &plan.choice, err);
		if (r == 0)
			n--;
		if (r != -ENOSPC)
			continue;
		kept[i] = out;
		r = 0;
	}
	/* The policy chooses the place with all remaining victims removed. */
	r = r < 0 ? r : preempt_search_choose(place, spec, node, kept, n, &plan.choice, err);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < n; i++) {
		const struct place_tenant *t = place_tenant(place, kept[i]);

		plan.share_lost += (uint64_t)t->spec.share * t->n;
	}
	if (list_victims(place, kept, n, &plan) < 0)
		return fail(err, ENOMEM, "out of memory for a plan");
	plan.seen = fingerprint_of(place, &plan);
	*ret = TAKE(plan, (struct place_plan){0});
	return 0;
}

static int preempt_search_find_victims(struct search *s, struct error *err)
{
	int r;

	s->evicted_of_budget = calloc(s->rules->n_budgets + 1ull, sizeof(*s->evicted_of_budget));
	if (!s->evicted_of_budget)
		return fail(err, ENOMEM, "out of memory for a plan");
	s->best.violations = UINT32_MAX;
	r = search_all(s);
	if (r == 0 && s->best.violations == UINT32_MAX && s->rules->is_forced &&
		s->rules->n_budgets) {
		s->violations_min = 1;
		r = search_all(s);
	}
	if (r == 0 && s->best.violations != UINT32_MAX)
		r = preempt_search_trim(s);
	if (r < 0)
		return fail(err, -r,
			r == -ENOMEM ? "out of memory for a plan"
				     : "the rules changed during the search");
	if (s->best.violations != UINT32_MAX)
		return 0;
	if (s->rules->order)
		return fail(err, ENOSPC, "no node has enough evictable tenants");
	return fail(err, ENOSPC, "no node has enough evictable tenants of a priority below %u",
		s->spec->priority);
}

int place_preempt_find(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, struct place_plan *ret, struct error *err)
{
	const bool may_limits_give = rules->order && rules->order->models;
	struct place_spec searched = *spec;
	_cleanup_(preempt_search_done) struct search s = {
		.place = place, .spec = &searched, .rules = rules, .best = {.node = PLACE_NONE}};
	struct place_plan plan = {0};
	int r;

	r = place_preempt_check(place, rules, err);
	if (r < 0)
		return r;
	r = place_find(place, spec, &plan.choice, err);
	if (r < 0 && r != -ENOSPC)
		return r;
	if (r == -ENOSPC) {
		if (spec->count && !may_limits_give && !place_queue_models(place, spec))
			/* the queue's limits permit no model, and no eviction changes that */
			return r;
		if (!rules->order && !spec->priority)
			return fail(
				err, ENOSPC, "priority 0 is opportunistic: it preempts no tenant");
		searched.queue = may_limits_give ? 0 : spec->queue;
		r = preempt_search_find_victims(&s, err);
		if (r == 0)
			r = preempt_search_choose(
				place, spec, s.best.node, s.victims, s.best.n, &plan.choice, err);
		if (r < 0)
			return r;
		r = list_victims(place, s.victims, s.best.n, &plan);
		if (r < 0)
			return fail(err, -r, "out of memory for a plan");
		plan.violations = s.best.violations;
		plan.highest = s.best.highest;
		plan.share_lost = s.best.share;
	}
	plan.is_graceful = rules->is_graceful;
	plan.seen = fingerprint_of(place, &plan);
	*ret = plan;
	return 0;
}

void place_preempt_free(
	const struct place *place, uint32_t node, uint32_t ret[static SPEC_PRIORITY_MAX + 1])
{
	const struct node *n = &place->nodes[node];
	const struct held *held = &place->held[node];
	uint32_t free[PLACE_NODE_DEVICES_MAX], most = 0, i = 0;

	for (uint32_t d = 0; d < n->n_devices; d++) {
		free[d] = place->share_free[n->first_device + d];
		most = MAX(most, free[d]);
	}
	for (uint32_t priority = 0; priority <= SPEC_PRIORITY_MAX; priority++) {
		for (; i < held->n && held->list[i].priority < priority; i++)
			for (uint64_t m = held->list[i].devices; m; m &= m - 1) {
				const int d = __builtin_ctzll(m);

				free[d] += held->list[i].share;
				most = MAX(most, free[d]);
			}
		ret[priority] = most;
	}
}

int place_preempt_could(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, uint32_t node)
{
	_cleanup_(preempt_search_done) struct search s = {.place = place,
		.spec = spec,
		.rules = rules,
		.violations_min = 1,
		.best = {.violations = UINT32_MAX, .highest = UINT32_MAX}};
	bool fits;
	int r;

	if (place_reason_of(place, spec, node) == PLACE_FITS)
		return 1;
	if (!place->held[node].n || !is_worth_it(&s, &place->held[node]) ||
		!preempt_search_is_reachable(place, spec, node))
		return 0;
	s.evicted_of_budget = calloc(rules->n_budgets + 1ull, sizeof(*s.evicted_of_budget));
	r = s.evicted_of_budget ? list_candidates(&s, node) : -ENOMEM;
	if (r < 0)
		return r;
	capacity_init(&s.capacity, place, spec, node);
	s.capacity.usable &= preempt_search_filtered(&s, 0);
	for (uint32_t i = 0; i < s.n; i++)
		preempt_search_evict(&s, &s.list[i]);
	fits = preempt_search_fits_now(&s, NULL);
	all_stay(&s);
	return fits;
}

int place_preempt_apply(struct place *place, const struct place_spec *spec,
	const struct place_plan *plan, uint32_t *ret_tenant, struct error *err)
{
	uint32_t savepoint, tenant = PLACE_NONE;
	int r = 0;

	if (plan->choice.node >= place->n_nodes || fingerprint_of(place, plan) != plan->seen)
		return fail(err, ESTALE, "the node has changed since the plan was made");
	savepoint = place_savepoint(place);
	for (uint32_t i = 0; i < plan->n_victims && r == 0; i++)
		r = place_remove(place, plan->victims[i]);
	r = r < 0 ? fail(err, -r, "victim %u cannot be removed", plan->victims[0])
		  : place_add(place, spec, &plan->choice, &tenant, err);
	for (uint32_t i = 0; i < plan->n_victims && plan->is_graceful && r == 0; i++)
		r = place_readd_terminating(place, plan->victims[i], err);
	if (r < 0)
		place_rollback(place, savepoint);
	else
		*ret_tenant = tenant;
	place_release(place);
	return r;
}

void place_plan_done(struct place_plan *plan)
{
	free(plan->victims);
	*plan = (struct place_plan){0};
}
