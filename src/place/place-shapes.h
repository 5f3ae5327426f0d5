/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The largest shape that each kind of node can take: all its devices, with all its CPU and memory.
 * A policy that looks ahead expects tenants of these shapes before any has come, and beside those
 * that the workload mix leaves out. A kind is of one model (of a node with several: of these), so
 * that a shape of another model is no substitute.
 * Threads: as place.h. O(nodes x kinds).
 */
#ifndef PLACE_PLACE_SHAPES_H
#define PLACE_PLACE_SHAPES_H

#include <stdint.h>

#include "place/place-mix.h"
#include "place/place.h"

#define PLACE_SHAPES_MAX 24u

/*
 * The shapes, one tenant of each (n is 1, weight 0), and how many. If the cluster has more kinds of
 * nodes, those with the most devices count, the first of equal ones. A shape has at most
 * SPEC_DEVICES_MAX devices.
 */
uint32_t place_shapes_of(
	const struct place *place, struct typical ret_shapes[static PLACE_SHAPES_MAX]);

#endif
