/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small clusters for the tests of placement, random ones and such as are made by hand, and a
 * digest of everything that such a cluster tells: two digests are the same where nothing has
 * changed.
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

/* One that could be: shares of tenths, sometimes labels "a" and "b", several or whole devices. */
struct place_spec cluster_spec(struct rand *rand, struct place *place);

/* Tries to place so many. */
void cluster_fill(struct rand *rand, struct place *place, uint32_t n);

/* Without nodes, of the model V100; cells may be NULL, else they stay the caller's. */
struct place *cluster_by_hand(const struct place_policy *policy, const struct place_cells *cells);

/*
 * With devices of 16 GiB, a digit for each in numa and link; numa NULL: the halves of them. Returns
 * the first device.
 */
uint32_t cluster_add_node(struct place *place, const char *name, const char *rack, const char *numa,
	const char *link);

/* A tenant of that spec is on that device. Returns it. */
uint32_t cluster_put(struct place *place, struct place_spec spec, uint32_t device);

/* By device, how many are on it that it would rather not meet: out of all tenants. The caller's. */
uint32_t *cluster_met(const struct place *place, const struct place_spec *spec);
/* The fewest on as many devices as it asks for, of those of the node that it may have now. */
uint32_t cluster_fewest(const struct place *place, const struct place_spec *spec, uint32_t node,
	const uint32_t *met);

/* The first device that the spec is given, or PLACE_NONE where it has no room. */
uint32_t cluster_device_for(struct place *place, struct place_spec spec);

uint64_t cluster_digest(const struct place *place);

/* Each device's and node's figures are those that its tenants add up to. */
void cluster_check(const struct place *place);

#endif
