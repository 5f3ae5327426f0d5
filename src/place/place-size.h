/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who asks for bytes of device memory leaves the large devices to others, where small ones are
 * enough. Sizes are bytes, with the factor of oversubscription; devices that do not tell theirs
 * have 0. Threads: as place.h. O(devices), of the node or of all.
 */
#ifndef PLACE_PLACE_SIZE_H
#define PLACE_PLACE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "place/place.h"

/* By model: the smallest device of those that tell their size; UINT64_MAX: none does. */
struct place_sizes {
	uint64_t smallest[PLACE_MODELS_MAX];
	bool are_several; /* of some model */
};

void place_sizes_of(const struct place *place, struct place_sizes *ret);

/* What the device has beyond the smallest of its model. */
uint64_t place_size_beyond(
	const struct place *place, const struct place_sizes *sizes, uint32_t device);

/* The least that any of the node's has beyond that; 0 where there is none. */
uint64_t place_size_least_beyond(
	const struct place *place, const struct place_sizes *sizes, uint32_t node);

/*
 * place_take_fitting() for who asks for bytes: of whole devices the smallest of which there are
 * enough, of others the smallest of those that have as little free.
 */
void place_size_take(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);

#endif
