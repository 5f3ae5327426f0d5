/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The largest tenant, called shape, that each kind of node can hold: one with all its devices, CPU
 * and memory. Policies that look ahead expect tenants of these shapes, although the workload mix
 * may not contain them. Kinds differ in model (or set of models), so that one model's shape does
 * not replace another's. Threads: as place.h. O(nodes x kinds).
 */
#ifndef PLACE_PLACE_SHAPES_H
#define PLACE_PLACE_SHAPES_H

#include <stdint.h>

#include "place/workload-mix.h"
#include "place/place.h"

#define PLACE_SHAPES_MAX 24u

/*
 * Writes one tenant per shape (n is 1, weight 0) and returns how many. If there are more kinds than
 * PLACE_SHAPES_MAX, those with the most devices count, and among equal kinds the first. A shape has
 * at most SPEC_DEVICES_MAX devices.
 */
uint32_t place_shapes_of(
	const struct place *place, struct mix_entry ret_shapes[static PLACE_SHAPES_MAX]);

#endif
