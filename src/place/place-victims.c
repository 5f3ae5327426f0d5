/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file removes victims for several tenants together, and puts back victims that turn out
 * unnecessary. The list of victims keeps a copy of each tenant, because the removal clears its node
 * in the model. While the savepoint is open, no new tenant gets a victim's number, so is_out() can
 * test that number. place_victims_readd() tries to return each victim under a savepoint of its own,
 * highest priority first. The two halves of a remote tenant return together or not at all.
 */
#include "place/place-victims.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "place/place-internal.h"

static struct place_victim *other_half(
	const struct place_victims *victims, const struct place_victim *v)
{
	for (uint32_t i = 0; i < victims->n && v->was.peer != PLACE_NONE; i++)
		if (victims->list[i].tenant == v->was.peer &&
			victims->list[i].was.peer == v->tenant)
			return &victims->list[i];
	return NULL;
}

/* Returns whether the victim is removed at present. */
static bool is_out(const struct place *place, const struct place_victim *v)
{
	return !place_tenant(place, v->tenant);
}

int place_victims_leave(
	struct place_victims *victims, struct place *place, const uint32_t *tenants, uint32_t n)
{
	int r = array_grow(
		&victims->list, &victims->size, victims->n + (uint64_t)n, sizeof(*victims->list));

	for (uint32_t i = 0; i < n && r == 0; i++) {
		struct place_victim *v = &victims->list[victims->n];

		*v = (struct place_victim){
			.tenant = tenants[i], .was = *place_tenant(place, tenants[i])};
		r = place_remove(place, tenants[i]);
		victims->n += r == 0;
	}
	return r;
}

uint32_t place_victims_of_budget(const struct place_victims *victims, uint32_t label)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < victims->n; i++) {
		const struct place_victim *v = &victims->list[i], *other = other_half(victims, v);

		n += v->was.spec.budget == label && (!other || v->tenant < other->tenant);
	}
	return n;
}

static int place_victims_compare(const void *pa, const void *pb)
{
	const struct place_victim *a = pa, *b = pb;

	if (a->was.spec.priority != b->was.spec.priority)
		return a->was.spec.priority > b->was.spec.priority ? -1 : 1;
	return a->tenant < b->tenant ? -1 : a->tenant > b->tenant;
}

/* Puts back the victim, with its other half if it has one. On failure neither returns. */
static int place_victims_keep_one(
	const struct place_victims *victims, struct place *place, uint32_t i)
{
	const struct place_victim *v = &victims->list[i], *other = other_half(victims, v);
	const uint32_t savepoint = place_savepoint(place);
	int r = place_return_overlapping(place, v->tenant, &v->was);

	if (r == 0 && other)
		r = place_return_overlapping(place, other->tenant, &other->was);
	if (r < 0)
		place_rollback(place, savepoint);
	place_release(place);
	return r;
}

int place_victims_readd(struct place_victims *victims, struct place *place)
{
	uint32_t kept = 0;

	if (victims->n)
		qsort(victims->list, victims->n, sizeof(*victims->list), place_victims_compare);
	for (uint32_t i = 0; i < victims->n; i++)
		if (is_out(place, &victims->list[i]) &&
			place_victims_keep_one(victims, place, i) == -ENOMEM)
			return -ENOMEM;
	for (uint32_t i = 0; i < victims->n; i++)
		if (is_out(place, &victims->list[i]))
			victims->list[kept++] = victims->list[i];
	victims->n = kept;
	return 0;
}

int place_victims_readd_terminating(
	const struct place_victims *victims, struct place *place, struct error *err)
{
	int r = 0;

	for (uint32_t i = 0; i < victims->n && r == 0; i++)
		r = place_return_terminating(
			place, victims->list[i].tenant, &victims->list[i].was, err);
	return r;
}

uint32_t *place_victims_numbers(const struct place_victims *victims)
{
	uint32_t *numbers = calloc(victims->n + 1ull, sizeof(*numbers));

	for (uint32_t i = 0; numbers && i < victims->n; i++)
		numbers[i] = victims->list[i].tenant;
	if (numbers)
		qsort(numbers, victims->n, sizeof(*numbers), place_compare_numbers);
	return numbers;
}

void place_victims_done(struct place_victims *victims)
{
	free(victims->list);
	*victims = (struct place_victims){0};
}
