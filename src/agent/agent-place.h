/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the devices of this machine for a new tenant. Devices with the fewest preference
 * conflicts come first. Among these, best fit decides, so that whole devices stay free. All
 * functions are pure. src/place does the same for a whole cluster.
 */
#ifndef AGENT_AGENT_PLACE_H
#define AGENT_AGENT_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "spec/spec.h"

struct place_device {
	const char *uuid;
	const char *model;
	uint64_t memory_bytes; /* usable memory of the device */
	uint64_t room_bytes;   /* largest quota that the request's memory policy allows now */
	uint32_t requested;    /* requested share of its tenants, in permille */
	/* Tenants with a guarantee; for an exclusive spec also default tenants with processes. */
	uint32_t tenants;
	bool is_exclusive; /* one tenant has the device exclusively */
	/* Why no new tenant may use the device, as words after the device's name; NULL: none. */
	const char *fault;
	/* Tenants with the label that the request's preferred anti-affinity names. */
	uint32_t n_conflicts;
};

/*
 * Replaces device indexes in spec->device by UUIDs. -EINVAL: no such index, or the UUIDs do not fit
 * into the field; spec is unchanged.
 */
int place_name_devices(
	struct spec *spec, const struct place_device *devices, uint32_t n, struct error *err);

/*
 * Chooses spec->count devices and writes their indexes. -EINVAL: impossible on this machine;
 * -ENOSPC: impossible now. The message names the field, its value and the possible range.
 */
int place(const struct spec *spec, const struct place_device *devices, uint32_t n,
	uint32_t ret_devices[static SPEC_DEVICES_MAX], struct error *err);

/*
 * Checks that the device has room for the spec with that quota. Ignores the device and the model
 * that the spec names.
 */
int place_at(const struct spec *spec, const struct place_device *device, uint64_t quota_bytes,
	struct error *err);

/*
 * Checks that a tenant on this device can change to that spec. device->requested excludes the
 * tenant's own request.
 */
int place_change(const struct spec *spec, const struct place_device *device, struct error *err);

#endif
