/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses devices for a tenant that requests bytes of device memory: small devices if they suffice,
 * so that large devices stay free for other tenants. Sizes are bytes times the overcommit
 * (place_config.memory_factor); 0: unknown. Threads: as place.h. O(devices of the node);
 * place_sizes_of() O(all devices).
 */
#ifndef PLACE_PLACE_SIZE_H
#define PLACE_PLACE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "place/place.h"

/* By model: the smallest known device; UINT64_MAX: no size is known. */
struct place_sizes {
	uint64_t smallest[PLACE_MODELS_MAX];
	bool are_several; /* a model has devices of several sizes */
};

void place_sizes_of(const struct place *place, struct place_sizes *ret);

/* Bytes of the device beyond the smallest device of its model. */
uint64_t place_size_beyond(
	const struct place *place, const struct place_sizes *sizes, uint32_t device);

/* The least place_size_beyond() of the node's devices; 0 without devices. */
uint64_t place_size_least_beyond(
	const struct place *place, const struct place_sizes *sizes, uint32_t node);

/*
 * Takes the place of place_take_fitting() for a tenant that requests bytes. Chooses whole devices
 * among the smallest sizes; for a share, the smallest of the devices with the least free share.
 */
void place_size_take(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);

#endif
