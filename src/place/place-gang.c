/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Under a savepoint, members are added one by one and victims removed, because an earlier member's
 * label or victims can make the next member fit. At the end, victims that were not necessary return
 * under their old numbers. If too few members fit, everything is rolled back.
 */
#include "place/place-gang.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "place/place-internal.h"
#include "place/place-policy.h"
#include "place/place-victims.h"

#define RECENT 4u /* nodes of recent members that prefer_fellows() tries */

/* Number of members that a node or a rack can take. */
struct space {
	uint32_t n, at; /* at: the node, or the index of the rack's first node */
	uint32_t rack;
};

struct rack {
	UT_hash_handle hh;
	uint32_t index;
};

struct gathering {
	struct place *place;
	const struct place_gang *gang;
	struct place_member *members;
	uint32_t n_placed;

	struct place_victims victims;

	uint32_t recent[RECENT], n_recent;
	/* capacity of nodes and racks for members; used only if the gang has `near` */
	struct space *nodes, *racks;
	uint32_t n_nodes, n_racks;
	uint32_t refused; /* the last member that found no place, or PLACE_NONE */
};

static void gathering_done(struct gathering *g)
{
	free(g->members);
	place_victims_done(&g->victims);
	free(g->nodes);
	free(g->racks);
}

uint32_t place_gang_least(uint32_t size, uint32_t threshold)
{
	uint64_t least = ((uint64_t)size * threshold + 500) / 1000;

	return least ? (uint32_t)least : 1;
}

static int place_gang_check(
	const struct place *place, const struct place_gang *gang, struct error *err)
{
	struct error why = {0};

	if (gang->n == 0 || gang->n > PLACE_GANG_MAX)
		return fail(err, EINVAL, "a gang of %u: 1 to %u members are possible", gang->n,
			PLACE_GANG_MAX);
	if (gang->threshold == 0 || gang->threshold > 1000)
		return fail(err, EINVAL, "threshold %u: 1 to 1000 permille are possible",
			gang->threshold);
	for (uint32_t i = 0; i < gang->n; i++) {
		int r = place_spec_check(&gang->members[i], &why);

		if (r == 0)
			r = place_spec_known(place, &gang->members[i], &why);
		if (r < 0)
			return fail(err, -r, "member %u: %s", i, why.msg);
		if (gang->members[i].priority != gang->members[0].priority)
			return fail(err, EINVAL,
				"member %u: priority %u: expected %u, because all members have the "
				"priority of the first",
				i, gang->members[i].priority, gang->members[0].priority);
	}
	return gang->preempt ? place_preempt_check(place, gang->preempt, err) : 0;
}

/* ---- capacity for members ---- */

static uint64_t copies_on_devices(
	const struct place *place, const struct place_spec *spec, uint32_t node, uint64_t mask)
{
	const uint32_t first = place->nodes[node].first_device;
	uint64_t n = 0;

	for (; mask; mask &= mask - 1) {
		uint32_t at = first + (uint32_t)__builtin_ctzll(mask);
		uint64_t bytes = place_device_bytes(place, spec, at);
		uint64_t here = place->share_free[at] / spec->share;

		if (bytes)
			here = MIN(here, place->devices[at].memory_free / bytes);
		if (spec->is_exclusive || spec->anti_affinity)
			here = 1;
		n += here;
	}
	return n / spec->count;
}

static uint32_t copies_on(const struct place *place, const struct place_spec *spec, uint32_t node)
{
	const struct node *n = &place->nodes[node];
	uint64_t copies = UINT32_MAX, mask = 0;

	if (place_node_reason(place, spec, node) != PLACE_FITS)
		return 0;
	if (spec->count) {
		bool has_room = false;

		for (uint32_t i = 0; i < n->n_devices && !has_room; i++)
			has_room = place->share_free[n->first_device + i] >= spec->share;
		if (has_room)
			mask = place_eligible(place, spec, node);
		copies = copies_on_devices(place, spec, node, mask);
	}
	if (spec->cpu_milli)
		copies = MIN(copies, (uint64_t)(place->cpu_free[node] / spec->cpu_milli));
	if (spec->memory_bytes)
		copies = MIN(copies, place->memory_free[node] / spec->memory_bytes);
	if (n->n_tenants_max)
		copies = MIN(copies, (uint64_t)(n->n_tenants_max - n->n_tenants));
	return (uint32_t)copies;
}

/* Largest first, then the lowest number. */
static int compare_spaces(const void *pa, const void *pb)
{
	const struct space *a = pa, *b = pb;

	if (a->n != b->n)
		return a->n > b->n ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

static int place_gang_compare_by_rack(const void *pa, const void *pb)
{
	const struct space *a = pa, *b = pb;

	if (a->rack != b->rack)
		return a->rack < b->rack ? -1 : 1;
	return compare_spaces(pa, pb);
}

/* Numbers racks in the order of their first nodes; a node without a rack counts as a rack. */
static int number_racks(struct gathering *g)
{
	struct rack *racks = calloc(g->n_nodes + 1ull, sizeof(*racks)), *by_name = NULL, *found;
	int r = 0;

	if (!racks)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->n_nodes && r == 0; i++) {
		const char *name = g->place->nodes[g->nodes[i].at].rack;

		found = NULL;
		if (*name)
			HASH_FIND_STR(by_name, name, found);
		if (!found) {
			found = &racks[g->n_racks];
			found->index = g->n_racks++;
			if (*name)
				HASH_ADD_KEYPTR(hh, by_name, name, strlen(name), found);
			if (*name && !found->hh.tbl)
				r = -ENOMEM;
		}
		g->nodes[i].rack = found->index;
	}
	HASH_CLEAR(hh, by_name);
	free(racks);
	return r;
}

/* Lists the nodes that can take a member, by rack or all together, largest first. */
static int list_spaces(struct gathering *g)
{
	const struct place *place = g->place;
	int r = 0;

	g->nodes = calloc(place->n_nodes + 1ull, sizeof(*g->nodes));
	g->racks = calloc(place->n_nodes + 1ull, sizeof(*g->racks));
	if (!g->nodes || !g->racks)
		return -ENOMEM;
	for (uint32_t at = 0; at < place->n_nodes; at++) {
		uint32_t n = copies_on(place, &g->gang->members[0], at);

		if (n)
			g->nodes[g->n_nodes++] = (struct space){.n = n, .at = at};
	}
	if (g->gang->near == PLACE_NEAR_RACK)
		r = number_racks(g);
	if (r < 0)
		return r;
	qsort(g->nodes, g->n_nodes, sizeof(*g->nodes), place_gang_compare_by_rack);
	g->n_racks = 0;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct space *rack = &g->racks[g->n_racks - (g->n_racks != 0)];

		if (i == 0 || g->nodes[i].rack != rack->rack) {
			rack = &g->racks[g->n_racks++];
			*rack = (struct space){.at = i, .rack = g->nodes[i].rack};
		}
		rack->n = (uint32_t)MIN((uint64_t)rack->n + g->nodes[i].n, (uint64_t)UINT32_MAX);
	}
	qsort(g->racks, g->n_racks, sizeof(*g->racks), compare_spaces);
	return 0;
}

/*
 * Returns the index of the smallest space with room for `needed` members; among equal spaces the
 * first. If no space is large enough, returns `from`, the largest.
 */
static uint32_t next_space(const struct space *list, uint32_t n, uint32_t from, uint32_t needed)
{
	uint32_t low = from, high = n;

	if (list[from].n < needed)
		return from;
	while (low + 1 < high) {
		uint32_t middle = (low + high) / 2;

		if (list[middle].n >= needed)
			low = middle;
		else
			high = middle;
	}
	while (low > from && list[low - 1].n == list[low].n)
		low--;
	return low;
}

/* ---- one member ---- */

static int32_t place_gang_grade(
	const struct place *place, const struct place_spec *spec, int32_t score)
{
	const struct place_policy *policy = place->config.policy;

	return policy->grade ? policy->grade(place, spec, score) : score;
}

static void note_node(struct gathering *g, uint32_t node)
{
	for (uint32_t i = 0; i < MIN(g->n_recent, RECENT); i++)
		if (g->recent[i] == node)
			return;
	g->recent[g->n_recent++ % RECENT] = node;
}

/*
 * Changes the choice to the node of a recently placed member if the policy grades that node at
 * least as high, and preference conflicts do not increase.
 */
static void prefer_fellows(struct gathering *g, uint32_t i, struct place_choice *choice)
{
	struct place_spec pinned = g->gang->members[i];
	int32_t best = place_gang_grade(g->place, &pinned, choice->score);

	for (uint32_t k = 0; k < MIN(g->n_recent, RECENT); k++)
		if (g->recent[k] == choice->node)
			return;
	if (pinned.node != PLACE_NONE || pinned.device != PLACE_NONE)
		return;
	for (uint32_t k = 0; k < MIN(g->n_recent, RECENT); k++) {
		struct place_choice other;

		pinned.node = g->recent[k];
		if (place_find(g->place, &pinned, &other, NULL) == 0 &&
			other.n_conflicts <= choice->n_conflicts &&
			place_gang_grade(g->place, &pinned, other.score) >= best) {
			*choice = other;
			return;
		}
	}
}

static int place_gang_put_member(
	struct gathering *g, uint32_t i, const struct place_choice *choice, struct error *err)
{
	struct place_member *member = &g->members[i];
	int r;

	r = place_add(g->place, &g->gang->members[i], choice, &member->tenant, err);
	if (r < 0)
		return r;
	member->choice = *choice;
	note_node(g, choice->node);
	g->n_placed++;
	return 0;
}

/* Preempts tenants for the member. */
static int place_gang_preempt(
	struct gathering *g, uint32_t i, struct place_choice *ret, struct error *err)
{
	struct place_preempt rules = *g->gang->preempt;
	_cleanup_free_ struct place_budget *budgets = NULL;
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	int r;

	/* The victims of earlier members count against the budgets. */
	budgets = calloc(rules.n_budgets + 1ull, sizeof(*budgets));
	if (!budgets)
		return fail(err, ENOMEM, "out of memory for a group");
	for (uint32_t k = 0; k < rules.n_budgets; k++) {
		budgets[k] = rules.budgets[k];
		budgets[k].may_evict -= MIN(budgets[k].may_evict,
			place_victims_of_budget(&g->victims, budgets[k].label));
	}
	rules.budgets = budgets;
	r = place_preempt_find(g->place, &g->gang->members[i], &rules, &plan, err);
	if (r < 0)
		return r;
	r = place_victims_leave(&g->victims, g->place, plan.victims, plan.n_victims);
	*ret = plan.choice;
	return r < 0 ? fail(err, -r, "out of memory for a group") : 0;
}

/* Places the member if possible. Returns 0 also if no place was found. */
static int place_one(struct gathering *g, uint32_t i, struct error *err)
{
	const struct place_spec *spec = &g->gang->members[i];
	struct place_choice choice;
	int r;

	/* An earlier member with an equal spec found no place, so this member finds none either. */
	if (g->refused != PLACE_NONE && !memcmp(spec, &g->gang->members[g->refused], sizeof(*spec)))
		return 0;
	r = place_find(g->place, spec, &choice, err);
	if (r == 0 && g->gang->near == PLACE_NEAR_ANY)
		prefer_fellows(g, i, &choice);
	if (r == -ENOSPC && g->gang->preempt)
		r = place_gang_preempt(g, i, &choice, err);
	if (r == 0)
		r = place_gang_put_member(g, i, &choice, err);
	if (r == -ENOSPC)
		g->refused = i;
	return r == -ENOSPC ? 0 : r;
}

/* Fills the node with unplaced members, from *at on. */
static int fill_node(struct gathering *g, uint32_t node, uint32_t *at, struct error *err)
{
	int r = 0;

	while (*at < g->gang->n && r == 0) {
		struct place_spec pinned = g->gang->members[*at];
		struct place_choice choice;

		if (pinned.node == PLACE_NONE)
			pinned.node = node;
		r = place_find(g->place, &pinned, &choice, err);
		if (r == 0)
			r = place_gang_put_member(g, *at, &choice, err);
		*at += r == 0;
	}
	return r == -ENOSPC ? 0 : r;
}

static int fill_spaces(struct gathering *g, struct error *err)
{
	uint32_t at = 0, rack = 0;
	int r = list_spaces(g);

	if (r < 0)
		return fail(err, -r, "out of memory for a group");
	for (; r == 0 && at < g->gang->n && rack < g->n_racks; rack++) {
		uint32_t chosen = next_space(g->racks, g->n_racks, rack, g->gang->n - at);
		const struct space here = g->racks[chosen];
		uint32_t node = here.at, end = here.at;

		while (end < g->n_nodes && g->nodes[end].rack == here.rack)
			end++;
		/*
		 * Take the chosen rack out: the racks before it move back by one, in their order.
		 */
		memmove(&g->racks[rack + 1], &g->racks[rack], (chosen - rack) * sizeof(*g->racks));
		for (; r == 0 && at < g->gang->n && node < end; node++) {
			uint32_t best = next_space(g->nodes, end, node, g->gang->n - at);
			uint32_t taken = g->nodes[best].at;

			memmove(&g->nodes[node + 1], &g->nodes[node],
				(best - node) * sizeof(*g->nodes));
			r = fill_node(g, taken, &at, err);
		}
	}
	return r;
}

/* ---- the whole gang ---- */

static int place_gang_gather(struct gathering *g, struct error *err)
{
	struct error why = {0};
	int r = g->gang->near == PLACE_NEAR_ANY ? 0 : fill_spaces(g, &why);

	if (r < 0)
		return fail(err, -r, "%s", why.msg);
	for (uint32_t i = 0; i < g->gang->n; i++) {
		if (g->members[i].tenant != PLACE_NONE)
			continue;
		r = place_one(g, i, &why);
		if (r < 0)
			return fail(err, -r, "member %u: %s", i, why.msg);
	}
	r = place_victims_readd(&g->victims, g->place);
	return r < 0 ? fail(err, -r, "out of memory for a group") : 0;
}

static int place_gang_finish(struct gathering *g, struct place_group *ret, struct error *err)
{
	const uint32_t least = place_gang_least(g->gang->n, g->gang->threshold);
	const struct place_preempt *preempt = g->gang->preempt;
	_cleanup_free_ uint32_t *victims = NULL;
	int r;

	if (g->n_placed < least)
		return fail(err, ENOSPC, "%u of %u members fit; at least %u must fit", g->n_placed,
			g->gang->n, least);
	victims = place_victims_numbers(&g->victims);
	if (!victims)
		return fail(err, ENOMEM, "out of memory for a group");
	/*
	 * Victims become terminating only now. Before, their devices would have been closed to
	 * later members.
	 */
	r = preempt && preempt->is_graceful
		? place_victims_readd_terminating(&g->victims, g->place, err)
		: 0;
	if (r < 0)
		return r;
	*ret = (struct place_group){
		.members = TAKE_PTR(g->members),
		.n = g->gang->n,
		.n_placed = g->n_placed,
		.victims = TAKE_PTR(victims),
		.n_victims = g->victims.n,
	};
	return 0;
}

int place_gang_add(struct place *place, const struct place_gang *gang, struct place_group *ret,
	struct error *err)
{
	_cleanup_(gathering_done) struct gathering g = {
		.place = place, .gang = gang, .refused = PLACE_NONE};
	uint32_t savepoint;
	int r = place_gang_check(place, gang, err);

	if (r < 0)
		return r;
	g.members = calloc(gang->n, sizeof(*g.members));
	if (!g.members)
		return fail(err, ENOMEM, "out of memory for a group");
	for (uint32_t i = 0; i < gang->n; i++)
		g.members[i].tenant = PLACE_NONE;
	savepoint = place_savepoint(place);
	r = place_gang_gather(&g, err);
	if (r == 0)
		r = place_gang_finish(&g, ret, err);
	if (r < 0)
		place_rollback(place, savepoint);
	place_release(place);
	return r;
}

void place_group_done(struct place_group *group)
{
	free(group->members);
	free(group->victims);
	*group = (struct place_group){0};
}
