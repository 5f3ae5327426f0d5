/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Best fit: see agent-place.h. Of the devices that fit, the order is: fewest preference conflicts,
 * least share left, least memory left, lowest index. A refusal's message names the device that came
 * nearest, because the user can act on that.
 */
#include "agent/agent-place.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "base/parse.h"

/* In the order of the checks: a device that fails a later check is nearer to a fit. */
enum verdict { WRONG_DEVICE, WRONG_MODEL, TOO_SMALL, IS_FAULTY, IN_USE, NO_SHARE, NO_MEMORY, FITS };

static uint32_t place_device_left(const struct place_device *d)
{
	return d->is_exclusive || d->requested >= SPEC_SHARE_ONE ? 0
								 : SPEC_SHARE_ONE - d->requested;
}

static enum verdict place_judge_device(const struct spec *spec, const struct place_device *d)
{
	uint64_t memory = spec_memory_on(spec, d->memory_bytes);

	if (!spec_device_fits(spec, d->uuid))
		return WRONG_DEVICE;
	if (!spec_model_fits(spec, d->model))
		return WRONG_MODEL;
	if (memory > d->memory_bytes && spec->memory_policy == SPEC_MEMORY_FAIL)
		return TOO_SMALL;
	if (d->fault)
		return IS_FAULTY;
	if (spec->exclusive ? d->tenants > 0 : d->is_exclusive)
		return IN_USE;
	if (spec->request > place_device_left(d))
		return NO_SHARE;
	if (memory > d->room_bytes)
		return NO_MEMORY;
	return FITS;
}

static int refuse_share(const struct spec *spec, const struct place_device *d, struct error *err)
{
	return fail(err, ENOSPC, "request %s: %s has %s free (%s requested by %u tenant%s)",
		format_share(spec->request).s, d->uuid, format_share(place_device_left(d)).s,
		format_share(d->requested).s, d->tenants, d->tenants == 1 ? "" : "s");
}

static int place_explain_refusal(
	const struct spec *spec, const struct place_device *d, enum verdict why, struct error *err)
{
	uint64_t memory = spec_memory_on(spec, d->memory_bytes);

	switch (why) {
	case WRONG_DEVICE:
		return fail(err, EINVAL,
			"device '%s': this machine has no such device; `divvy devices` lists "
			"its devices, such as %s",
			spec->device, d->uuid);
	case WRONG_MODEL:
		return fail(err, EINVAL, "model '%s': no such device on this machine; %s is a %s",
			spec->model, d->uuid, d->model);
	case TOO_SMALL:
		return fail(err, EINVAL, "memory %s: larger than the device, which has %s",
			format_bytes_exact(memory).s, format_bytes(d->memory_bytes).s);
	case IS_FAULTY:
		return fail(err, ENOSPC, "device %s %s; see `divvy doctor`", d->uuid, d->fault);
	case IN_USE:
		if (spec->exclusive)
			return fail(err, ENOSPC, "request 1 (exclusive): %s has %u tenant%s",
				d->uuid, d->tenants, d->tenants == 1 ? "" : "s");
		return fail(err, ENOSPC, "request %s: another tenant has %s exclusively",
			format_share(spec->request).s, d->uuid);
	case NO_SHARE: return refuse_share(spec, d, err);
	default:
		return fail(err, ENOSPC, "memory %s: %s has %s free for quotas of its %s",
			format_bytes_exact(memory).s, d->uuid, format_bytes(d->room_bytes).s,
			format_bytes(d->memory_bytes).s);
	}
}

int place_name_devices(
	struct spec *spec, const struct place_device *devices, uint32_t n, struct error *err)
{
	struct str rest = str_from(spec->device), item;
	char named[SPEC_PATTERN] = "";
	size_t used = 0;

	while (str_split(&rest, ',', &item)) {
		struct str name = str_trim(item);
		const bool is_not = str_skip_prefix(&name, STR("!"));
		uint64_t index;

		if (parse_uint(str_trim(name), 0, UINT32_MAX, &index, NULL) < 0) {
			used += (size_t)snprintf(named + used, sizeof(named) - used, "%s%.*s",
				used ? "," : "", STR_ARG(item));
		} else if (index < n) {
			used += (size_t)snprintf(named + used, sizeof(named) - used, "%s%s%s",
				used ? "," : "", is_not ? "!" : "", devices[index].uuid);
		} else {
			return fail(err, EINVAL,
				"device '%s': no such device; this machine has %u device%s, 0 "
				"to %u",
				spec->device, n, n == 1 ? "" : "s", n - 1);
		}
		if (used >= sizeof(named))
			return fail(err, EINVAL,
				"device '%s': the UUIDs have more than %zu characters; name "
				"fewer devices",
				spec->device, sizeof(named) - 1);
	}
	memcpy(spec->device, named, sizeof(named));
	return 0;
}

static bool place_is_better_device(const struct place_device *a, const struct place_device *b)
{
	if (a->n_conflicts != b->n_conflicts)
		return a->n_conflicts < b->n_conflicts;
	if (place_device_left(a) != place_device_left(b))
		return place_device_left(a) < place_device_left(b);
	return a->room_bytes < b->room_bytes;
}

int place(const struct spec *spec, const struct place_device *devices, uint32_t n,
	uint32_t ret_devices[static SPEC_DEVICES_MAX], struct error *err)
{
	uint64_t taken = 0;
	uint32_t nearest = 0, chosen[SPEC_DEVICES_MAX], found;
	enum verdict nearest_why = WRONG_DEVICE;

	if (spec->mode == SPEC_MODE_REMOTE)
		return fail(err, EINVAL,
			"mode remote: this machine shares its own devices only; use auto, "
			"exclusive or local");
	if (spec->count > n || spec->count > SPEC_DEVICES_MAX)
		return fail(err, EINVAL, "%s %u: this machine has %u device%s",
			spec->exclusive ? "request" : "count", spec->count, n, n == 1 ? "" : "s");
	if (spec_devices_named(spec) == 1 && spec->count > 1)
		return fail(err, EINVAL, "%s %u: device names one device; expected %s",
			spec->exclusive ? "request" : "count", spec->count,
			spec->exclusive ? "1 or a part of 1" : "1");
	for (found = 0; found < spec->count; found++) {
		uint32_t best = n;

		for (uint32_t i = 0; i < n; i++) {
			enum verdict why = place_judge_device(spec, &devices[i]);

			if (taken & 1ull << i)
				continue;
			if (why == FITS &&
				(best == n || place_is_better_device(&devices[i], &devices[best])))
				best = i;
			if (why > nearest_why ||
				(why == nearest_why &&
					place_device_left(&devices[i]) >
						place_device_left(&devices[nearest]))) {
				nearest = i;
				nearest_why = why;
			}
		}
		if (best == n)
			break;
		taken |= 1ull << best;
		chosen[found] = best;
	}
	if (found == spec->count) {
		for (uint32_t i = 0; i < found; i++)
			ret_devices[i] = chosen[i];
		return 0;
	}
	if (found > 0)
		return fail(err, ENOSPC,
			"count %u: %u device%s capacity for request %s and the memory now",
			spec->count, found, found == 1 ? " has" : "s have",
			format_share(spec->request).s);
	return place_explain_refusal(spec, &devices[nearest], nearest_why, err);
}

int place_change(const struct spec *spec, const struct place_device *device, struct error *err)
{
	if (spec->request > place_device_left(device))
		return refuse_share(spec, device, err);
	return 0;
}

int place_at(const struct spec *spec, const struct place_device *device, uint64_t quota_bytes,
	struct error *err)
{
	struct spec on = *spec;
	enum verdict why;

	on.memory_bytes = quota_bytes;
	on.memory_permille = 0;
	on.device[0] = on.model[0] = '\0';
	why = place_judge_device(&on, device);
	return why == FITS ? 0 : place_explain_refusal(&on, device, why, err);
}
