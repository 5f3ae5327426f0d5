/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those who leave while several come under one mark: what they leave is for all who come, and in
 * the end those stay without whom all that have come fit. All of it while that mark is open. Owned
 * by the caller, zero to begin with. Threads: as place.h.
 */
#ifndef PLACE_PLACE_VICTIMS_H
#define PLACE_PLACE_VICTIMS_H

#include "place/place.h"

struct place_victim {
	uint32_t tenant;
	struct place_tenant was; /* before it left */
};

struct place_victims {
	struct place_victim *list;
	uint32_t n, size;
};

/* They leave now (the tenants of a plan, with their other halves). -ENOMEM. */
int place_victims_leave(
	struct place_victims *victims, struct place *place, const uint32_t *tenants, uint32_t n);

/* How many have left that count for the budget with that label: of two halves one does. */
uint32_t place_victims_of_budget(const struct place_victims *victims, uint32_t label);

/*
 * Those beside whom all who have come fit all the same are back, as they were and under their
 * numbers, and no victims any more: those of the highest priority first, two halves together or not
 * at all. -ENOMEM.
 */
int place_victims_spare(struct place_victims *victims, struct place *place);

/* All of them run on for a while (place_linger). -ENOSPC: more than any machine has; -ENOMEM. */
int place_victims_linger(
	const struct place_victims *victims, struct place *place, struct error *err);

/* Their numbers, rising; the caller's. NULL: out of memory. */
uint32_t *place_victims_numbers(const struct place_victims *victims);

void place_victims_done(struct place_victims *victims);

#endif
