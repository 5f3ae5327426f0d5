/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One node as it would be without some of its tenants, and whether another one would fit there:
 * counters for sets of tenants that are tried, while nothing is changed. Knows the rules that
 * place-fit.c knows. O(devices) to start and to ask, O(devices of the tenant) a change.
 */
#ifndef PLACE_PLACE_ROOM_H
#define PLACE_PLACE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "place/place.h"

struct holder;
struct label;

struct room_device {
	uint32_t share, n_tenants;
	uint32_t n_apart, n_together; /* that have its label of anti-affinity, of affinity */
	uint32_t n_of[SPEC_OPPORTUNISTIC + 1]; /* by class */
	uint64_t memory_taken, asked;
};

struct room {
	const struct place *place;
	const struct place_spec *spec;
	const struct label *together; /* of affinity, or NULL */
	uint32_t node, n_devices, n_tenants;
	uint64_t cpu_taken, memory_taken;
	uint64_t usable;           /* devices that are open and of the right kind */
	uint32_t together_devices; /* that hold the label of affinity, of all nodes */
	struct room_device device[PLACE_NODE_DEVICES_MAX];
};

/* As it is. Borrows place and spec; valid until the next change. */
void room_init(
	struct room *room, const struct place *place, const struct place_spec *spec, uint32_t node);
/* The tenant is gone, or there again. */
void room_without(struct room *room, const struct holder *h);
void room_with(struct room *room, const struct holder *h);
void room_narrow(struct room *room, uint64_t models); /* to devices of these */
bool room_fits(const struct room *room);

#endif
