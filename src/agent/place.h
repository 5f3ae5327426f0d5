/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which devices of this machine a new tenant gets: those where it meets the fewest that it would
 * rather not, of these by best fit, so that whole devices stay free. A
 * function of what it is given; the one-machine version of the placement engine.
 */
#ifndef AGENT_PLACE_H
#define AGENT_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "spec/spec.h"

struct place_device {
	const char *uuid;
	const char *model;
	uint64_t memory_bytes; /* usable */
	uint64_t room_bytes;   /* largest quota that could be promised, under the wish's policy */
	uint32_t asked;        /* permille asked for by tenants that are there */
	uint32_t tenants;      /* that asked for it */
	bool is_exclusive;     /* one of them has it for itself */
	const char *ailment;   /* why nobody new gets it, as words behind its name; NULL: nothing */
	uint32_t n_met; /* of those tenants, with the wish's label of preferred anti-affinity */
};

/*
 * Puts the UUIDs of devices into spec->device where it names them by their indexes. -EINVAL, spec
 * unchanged: there is no such index, or the UUIDs find no room.
 */
int place_name_devices(
	struct spec *spec, const struct place_device *devices, uint32_t n, struct error *err);

/*
 * Writes spec->count indexes. -EINVAL: never possible on this machine; -ENOSPC: not now. The
 * sentence names field, value and what is possible.
 */
int place(const struct spec *spec, const struct place_device *devices, uint32_t n,
	uint32_t ret_devices[static SPEC_DEVICES_MAX], struct error *err);

/* Has this very device room for it, with that quota? Who decided that has looked at its model. */
int place_at(const struct spec *spec, const struct place_device *device, uint64_t quota_bytes,
	struct error *err);

/* May a tenant on this device change to that request? `asked` is without its own. */
int place_change(const struct spec *spec, const struct place_device *device, struct error *err);

#endif
