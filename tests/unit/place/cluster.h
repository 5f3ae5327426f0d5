/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small clusters for the tests of placement, random or made by hand. A digest covers the whole
 * state of a cluster: it is equal as long as nothing has changed.
 */
#ifndef TESTS_UNIT_PLACE_CLUSTER_H
#define TESTS_UNIT_PLACE_CLUSTER_H

#include <stdint.h>

#include "base/cleanup.h"
#include "base/rand.h"
#include "place/place-cell.h"
#include "place/place-policy.h"
#include "place/place.h"

DEFINE_CLEANUP(struct place_cells *, place_cells_free)
DEFINE_CLEANUP(struct place *, place_free)
#define _cleanup_cells_ _cleanup_(place_cells_free_p)
#define _cleanup_place_ _cleanup_(place_free_p)

#define GIB (1ull << 30)

/* Nodes n0, n1, ...: up to n_devices_max devices of models A and B, three racks, some CPU. */
struct place *cluster_new(
	struct rand *rand, const struct place_policy *policy, uint32_t n, uint32_t n_devices_max);

/*
 * A random valid spec: its share is in tenths. Some specs have the labels "a" and "b", several
 * devices or whole devices.
 */
struct place_spec cluster_spec(struct rand *rand, struct place *place);

/* Tries to place n random tenants. */
void cluster_fill(struct rand *rand, struct place *place, uint32_t n);

/*
 * A model without nodes that knows the device model V100. `cells` may be NULL; the caller frees
 * them.
 */
struct place *cluster_by_hand(const struct place_policy *policy, const struct place_cells *cells);

/*
 * Adds a node with devices of 16 GiB, one for each digit of `link`. The digits of `numa` and `link`
 * are the devices' numbers; numa NULL: two NUMA nodes with half of the devices each. Returns the
 * first device.
 */
uint32_t cluster_add_node(struct place *place, const char *name, const char *rack, const char *numa,
	const char *link);

/* Adds a tenant with the spec on the device. Returns the tenant. */
uint32_t cluster_put(struct place *place, struct place_spec spec, uint32_t device);

/*
 * The spec's preference conflicts on each device, counted anew from all tenants. The caller frees
 * the array.
 */
uint32_t *cluster_met(const struct place *place, const struct place_spec *spec);
/*
 * The smallest sum of `met` over any spec->count devices of this node that the spec fits at
 * present.
 */
uint32_t cluster_fewest(const struct place *place, const struct place_spec *spec, uint32_t node,
	const uint32_t *met);

/* The first device that placement chooses for the spec, or PLACE_NONE if the spec fits nowhere. */
uint32_t cluster_device_for(struct place *place, struct place_spec spec);

uint64_t cluster_digest(const struct place *place);

/* Checks that the counters of all devices and nodes equal the sums over their tenants. */
void cluster_check(const struct place *place);

#endif
