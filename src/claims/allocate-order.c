/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which devices are tried, and the score of a choice. Devices keep the order of pools,
 * slices and positions, as in kube-scheduler, except those of the packed driver. A request for one
 * of these gets the fullest device that has enough left, else an unused device of the group with
 * the fewest unused ones. A request for several devices gets them from the smallest group that has
 * enough. Pure; one thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "claims/allocate-internal.h"

#define FULL 1000u /* a capacity that is used up */

/* A candidate of the packed driver, with what decides about its place in the order. */
struct packed {
	const struct candidate *candidate; /* NULL: of another driver */
	const struct attribute *group;     /* NULL: the device is a group of its own */
	bool is_unused;                    /* no claim has the device or a part of it */
	bool has_room;                     /* for one device of the request with most devices */
	bool is_preferred;                 /* claims_search_prefer() */
	uint64_t used;                     /* of all capacities, each in 1/1000 */
	uint32_t group_free, group_room;   /* devices of its kind and group with these properties */
	bool has_group_room;               /* for all devices of that request */
	uint32_t at, group_at; /* its number, and that of the first device of its group */
};

/* Whether no claim has taken the counters of the device. */
static bool packed_has_counters(struct search *search, const struct candidate *candidate)
{
	const struct device *device = candidate->device;

	pool_count(search->claims, candidate->pool);
	for (uint32_t i = 0; i < device->n_counters; i++) {
		const struct pool_counter *counter = search_counter(
			candidate->pool, &device->counters[i]);

		if (counter && counter->left < device->counters[i].amount.nano)
			return false;
	}
	return true;
}

static uint64_t packed_part(__int128 nano, const struct capacity *capacity)
{
	if (capacity->value.nano <= 0 || nano <= 0)
		return 0;
	return (uint64_t)(MIN(nano, capacity->value.nano) * FULL / capacity->value.nano);
}

/* How much of its capacities the claims, and the search so far, have; FULL for each. */
static uint64_t packed_used(const struct candidate *candidate)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < candidate->device->n_capacities; i++) {
		const struct capacity *capacity = &candidate->device->capacities[i];

		sum += packed_part(
			device_use_sum(candidate->use, capacity->name) + candidate->consumed[i],
			capacity);
	}
	return sum;
}

/* The choice that needs the most devices; NULL: none needs more than one. */
static struct wanted *packed_lead(struct search *search)
{
	struct wanted *lead = NULL;

	for (uint32_t i = 0; i < search->n_claims; i++)
		for (uint32_t k = 0; k < search->claim[i].claim->n_requests; k++)
			for (uint32_t c = 0; c < search->claim[i].requests[k].n; c++) {
				struct wanted *one = &search->claim[i].requests[k].choices[c];

				if (!one->request->is_all && one->n > (lead ? lead->n : 1))
					lead = one;
			}
	return lead;
}

/* Like the search, but counts an error as no room: the search itself reports the error. */
static bool packed_has_room(struct search *search, struct wanted *lead, uint32_t number)
{
	struct candidate *candidate = &search->candidates[number];

	if (candidate_is_whole(candidate) || search_suits(search, lead, number) <= 0 ||
		search_has_capacity(search, lead, candidate, false) <= 0 ||
		search_taint(search, lead, candidate->device))
		return false;
	return (candidate->use && candidate->use->n_shares) ||
		packed_has_counters(search, candidate);
}

static bool packed_is_same_group(const struct packed *a, const struct packed *b)
{
	if (a->candidate->pool != b->candidate->pool || !a->group || !b->group)
		return a == b;
	return a->group->kind == b->group->kind && a->group->number == b->group->number &&
		str_eq(a->group->text, b->group->text);
}

static void packed_read(struct search *search, struct wanted *lead, uint32_t number)
{
	const struct claims_packing *packing = &search->claims->packing;
	const struct candidate *candidate = &search->candidates[number];
	struct packed *packed = &search->packed[number];

	packed->at = number;
	if (strcmp(candidate->device->slice->driver, packing->driver) != 0)
		return;
	packed->candidate = candidate;
	packed->group = packing->group ? device_attribute(candidate->device, packing->group) : NULL;
	packed->used = packed_used(candidate);
	packed->is_unused = !candidate->use && packed_has_counters(search, candidate);
	packed->is_preferred = unit_is_preferred(search->wanted, candidate->device);
	packed->has_room = lead && packed_has_room(search, lead, number);
}

static void packed_count_group(struct search *search, struct packed *packed)
{
	packed->group_at = packed->at;
	for (uint32_t i = 0; packed->candidate && i < search->n_candidates; i++) {
		const struct packed *other = &search->packed[i];

		if (!other->candidate ||
			other->candidate->device->is_shared !=
				packed->candidate->device->is_shared ||
			!packed_is_same_group(packed, other))
			continue;
		packed->group_at = MIN(packed->group_at, i);
		packed->group_free += other->is_unused;
		packed->group_room += other->has_room;
	}
}

#define BY_LEAST(x, y) \
	do { \
		if ((x) != (y)) \
			return (x) < (y) ? -1 : 1; \
	} while (0)

/* For one device: the fullest, then the one whose group has the fewest unused devices. */
static int packed_compare_one(const void *pa, const void *pb)
{
	const struct packed *a = pa, *b = pb;

	BY_LEAST(b->is_preferred, a->is_preferred);
	BY_LEAST(b->used, a->used);
	BY_LEAST(a->is_unused, b->is_unused);
	BY_LEAST(a->group_free, b->group_free);
	BY_LEAST(a->at, b->at);
	return 0;
}

/* For several devices: the smallest group that has enough, else the largest group. */
static int packed_compare_several(const void *pa, const void *pb)
{
	const struct packed *a = pa, *b = pb;

	BY_LEAST(b->is_preferred, a->is_preferred);
	BY_LEAST(b->has_group_room, a->has_group_room);
	if (a->has_group_room)
		BY_LEAST(a->group_room, b->group_room);
	else
		BY_LEAST(b->group_room, a->group_room);
	BY_LEAST(a->group_at, b->group_at);
	return packed_compare_one(pa, pb);
}

/* Sorts the candidates of the packed driver, which stay at the places that they have together. */
static int packed_sort(struct search *search, const struct wanted *lead)
{
	_cleanup_free_ struct packed *sorted = calloc(search->n_candidates + 1ul, sizeof(*sorted));
	uint32_t n = 0, next = 0;

	if (!sorted)
		return fail(search->err, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < search->n_candidates; i++) {
		if (!search->packed[i].candidate)
			continue;
		sorted[n] = search->packed[i];
		sorted[n].has_group_room = lead && sorted[n].group_room >= lead->n;
		n++;
	}
	qsort(sorted, n, sizeof(*sorted), lead ? packed_compare_several : packed_compare_one);
	for (uint32_t i = 0; i < search->n_candidates; i++)
		if (search->packed[i].candidate)
			search->order[i] = sorted[next++].at;
	return 0;
}

int search_order(struct search *search)
{
	struct wanted *lead;

	search->order = search_room(search, search->n_candidates, sizeof(*search->order));
	if (!search->order)
		return search->fault;
	for (uint32_t i = 0; i < search->n_candidates; i++)
		search->order[i] = i;
	if (!search->claims->packing.driver)
		return 0;
	search->packed = search_room(search, search->n_candidates, sizeof(*search->packed));
	if (!search->packed)
		return search->fault;
	lead = packed_lead(search);
	for (uint32_t i = 0; i < search->n_candidates; i++)
		packed_read(search, lead, i);
	for (uint32_t i = 0; i < search->n_candidates; i++)
		packed_count_group(search, &search->packed[i]);
	return packed_sort(search, lead);
}

/* ---- the score ---- */

static bool packed_is_chosen(const struct packed *packed)
{
	return packed->candidate && (packed->candidate->taken_by || packed->candidate->n_shares);
}

/* Whether no chosen device before this one is of its group. */
static bool packed_begins_group(const struct search *search, uint32_t number)
{
	for (uint32_t i = 0; i < number; i++)
		if (packed_is_chosen(&search->packed[i]) &&
			packed_is_same_group(&search->packed[i], &search->packed[number]))
			return false;
	return true;
}

void search_score(struct search *search, struct claims_score *ret)
{
	struct claims_score score = {.is_packed = false};

	for (uint32_t i = 0; search->packed && i < search->n_candidates; i++) {
		const struct packed *packed = &search->packed[i];

		score.v[CLAIMS_NODE_FREE] += packed->candidate && packed->is_unused;
		if (!packed_is_chosen(packed))
			continue;
		score.v[CLAIMS_GROUPS] += packed->group && packed_begins_group(search, i);
		score.is_packed = true;
		score.v[CLAIMS_OPENED] += packed->is_unused;
		score.v[CLAIMS_GROUP_FREE] += packed->is_unused ? packed->group_free : 0;
		if (packed->candidate->device->is_shared)
			score.v[CLAIMS_LEFT] += packed->candidate->device->n_capacities *
					(uint64_t)FULL -
				packed_used(packed->candidate);
	}
	if (!score.is_packed)
		score = (struct claims_score){.is_packed = false};
	score.v[CLAIMS_GROUPS] -= score.v[CLAIMS_GROUPS] > 0;
	for (uint32_t i = 0; score.is_packed && i < search->n_claims; i++)
		for (uint32_t k = 0; k < search->claim[i].claim->n_requests; k++)
			score.v[CLAIMS_ALTERNATIVES] += search->claim[i].requests[k].chosen;
	*ret = score;
}

bool claims_score_is_better(const struct claims_score *a, const struct claims_score *b)
{
	for (uint32_t i = 0; i < CLAIMS_CRITERIA; i++)
		if (a->v[i] != b->v[i])
			return a->v[i] < b->v[i];
	return false;
}
