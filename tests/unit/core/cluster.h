/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small random clusters for the tests of placement, and a digest of everything that such a cluster
 * tells: two digests are the same where nothing has changed.
 */
#ifndef CLUSTER_H
#define CLUSTER_H

#include <stdint.h>

#include "base/rand.h"
#include "core/place-policy.h"
#include "core/place.h"

#define GIB (1ull << 30)

/* Nodes n0, n1, ...: up to n_devices_max devices of models A and B, three racks, some CPU. */
struct place *cluster_new(
	struct rand *rand, const struct place_policy *policy, uint32_t n, uint32_t n_devices_max);

/* One that could be: shares of tenths, sometimes labels "a" and "b", several or whole devices. */
struct place_spec cluster_spec(struct rand *rand, struct place *place);

/* Tries to place so many. */
void cluster_fill(struct rand *rand, struct place *place, uint32_t n);

uint64_t cluster_digest(const struct place *place);

/* Each device's and node's figures are those that its tenants add up to. */
void cluster_check(const struct place *place);

#endif
