/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of one node that tell whether a spec would fit there without some of the node's tenants.
 * The search for victims tries sets of victims on these counters and leaves the placement model
 * unchanged. The rules are those of place-fit.c. O(devices) to start and to test, O(devices of the
 * tenant) for a change.
 */
#ifndef PLACE_PLACE_CAPACITY_H
#define PLACE_PLACE_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>

#include "place/place.h"

struct holder;
struct label;

struct capacity_device {
	uint32_t share, n_tenants;
	/* tenants with the spec's anti-affinity label, and with the spec's affinity label */
	uint32_t n_anti_affinity, n_together;
	uint32_t n_of[SPEC_OPPORTUNISTIC + 1]; /* by class */
	uint64_t memory_taken, requested;
};

struct node_capacity {
	const struct place *place;
	const struct place_spec *spec;
	const struct label *together; /* the spec's affinity label, or NULL */
	uint32_t node, n_devices, n_tenants;
	uint64_t cpu_taken, memory_taken;
	uint64_t usable;           /* open devices of an allowed model */
	uint32_t together_devices; /* devices with the spec's affinity label, on all nodes */
	struct capacity_device device[PLACE_NODE_DEVICES_MAX];
};

/* Copies the node's counters. Borrows place and spec; valid until the placement model changes. */
void capacity_init(struct node_capacity *capacity, const struct place *place,
	const struct place_spec *spec, uint32_t node);
/* Remove the tenant from the counters, or add it again. */
void capacity_without(struct node_capacity *capacity, const struct holder *h);
void capacity_with(struct node_capacity *capacity, const struct holder *h);
void capacity_narrow(
	struct node_capacity *capacity, uint64_t models); /* only devices of `models` stay usable */
bool capacity_fits(const struct node_capacity *capacity);

#endif
