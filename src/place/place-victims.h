/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Victims for several new tenants under one savepoint. All new tenants may use the capacity that
 * the victims free. At the end, victims whose removal turns out unnecessary return. The savepoint
 * must stay open until then. The caller owns the struct, zero at first. Threads: as place.h.
 */
#ifndef PLACE_PLACE_VICTIMS_H
#define PLACE_PLACE_VICTIMS_H

#include "place/place.h"

struct place_victim {
	uint32_t tenant;
	struct place_tenant was; /* before its removal */
};

struct place_victims {
	struct place_victim *list;
	uint32_t n, size;
};

/* Removes the victims of a plan, and the other halves of remote tenants. -ENOMEM. */
int place_victims_leave(
	struct place_victims *victims, struct place *place, const uint32_t *tenants, uint32_t n);

/*
 * Number of victims that count for the budget with that label. Two halves of a remote tenant count
 * once.
 */
uint32_t place_victims_of_budget(const struct place_victims *victims, uint32_t label);

/*
 * Puts unnecessary victims back, as before and under their numbers, and drops them from the list.
 * Victims of high priority return first, the two halves of a remote tenant together or not at all.
 * -ENOMEM.
 */
int place_victims_readd(struct place_victims *victims, struct place *place);

/*
 * Puts all victims back as terminating (place_readd_terminating()). -ENOSPC: sums overflow;
 * -ENOMEM.
 */
int place_victims_readd_terminating(
	const struct place_victims *victims, struct place *place, struct error *err);

/* Numbers of the victims, ascending; the caller frees the array. NULL: out of memory. */
uint32_t *place_victims_numbers(const struct place_victims *victims);

void place_victims_done(struct place_victims *victims);

#endif
