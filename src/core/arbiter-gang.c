/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants on several devices: gangs. A gang competes on each device like any tenant, but in the
 * order of the devices: for a device only when it has reserved all earlier ones. So one of several
 * gangs always advances, and reservations cannot form a cycle. A gang of a better rank takes over
 * the reservation of an incomplete gang. A device reserved by an incomplete gang continues to serve
 * single tenants. When a gang has reserved its last device, all of them are drained, and then
 * opened at one epoch. Pure; one thread.
 */
#include "core/arbiter-internal.h"

bool gang_may_compete(const struct seat *seat)
{
	const struct member *member = seat->member;
	uint64_t below = member->devices & ((UINT64_C(1) << seat->device->index) - 1);
	struct member *other = seat->device->reserved;

	if (other == member) /* it has this device already and waits for others */
		return gang_is_complete(member);
	if (other &&
		(gang_is_complete(other) ||
			seat_rank(member_seat(other, seat->device->index)) <= seat_rank(seat)))
		return false;
	return (member->reserved & below) == below;
}

bool gang_is_complete(const struct member *member)
{
	return member->reserved == member->devices;
}

void gang_unreserve(struct member *member)
{
	for (uint32_t i = 0; i < member->n_seats; i++) {
		struct device *device = member->seat[i].device;

		if (device->reserved == member) {
			device->reserved = NULL;
			device->is_dirty = true;
		}
	}
	member->reserved = 0;
}

/* Whether it has been idle on all its devices since then. */
bool gang_is_idle(const struct member *member, uint64_t since)
{
	for (uint32_t i = 0; i < member->n_seats; i++)
		if (member->seat[i].state == SEAT_OPEN &&
			(member->seat[i].idle_since == 0 || member->seat[i].idle_since > since))
			return false;
	return true;
}

/*
 * It is the next tenant on this device. If this completes the gang, other turns end on all its
 * devices.
 */
void gang_reserve(struct seat *seat, uint64_t now)
{
	struct member *member = seat->member;

	if (!(member->reserved >> seat->device->index & 1)) {
		if (seat->device->reserved) /* an incomplete gang of a worse rank */
			gang_unreserve(seat->device->reserved);
		seat->device->reserved = member;
		member->reserved |= UINT64_C(1) << seat->device->index;
		for (uint32_t i = 0; i < member->n_seats; i++)
			member->seat[i].device->is_dirty = true;
	}
	if (!gang_is_complete(member))
		return;
	for (uint32_t i = 0; i < member->n_seats; i++) {
		struct device *device = member->seat[i].device;

		for (uint32_t k = 0; k < device->n_active; k++)
			if (device->active[k]->state == SEAT_OPEN &&
				device->active[k]->member != member)
				member_close(device->active[k]->member, now);
	}
}

/* Whether a tenant of a better rank now waits for this device. */
static bool is_outranked(const struct seat *seat)
{
	const struct device *device = seat->device;

	for (uint32_t i = 0; i < device->n_active; i++) {
		const struct seat *other = device->active[i];

		if (other->state != SEAT_OPEN && seat_wants(other) && !other->is_throttled &&
			seat_rank(other) < seat_rank(seat) && !is_gang(other->member))
			return true;
	}
	return false;
}

void gang_try_open(struct member *member, uint64_t now)
{
	bool corun = false;

	for (uint32_t i = 0; i < member->n_seats; i++) {
		struct seat *seat = &member->seat[i];
		enum clearance clear;

		for (uint32_t k = 0; k < seat->device->n_active; k++)
			if (seat->device->active[k]->state == SEAT_OPEN)
				return;
		if (is_outranked(seat)) {
			gang_unreserve(member);
			return;
		}
		clear = device_clearance(seat->device, seat, now);
		if (clear == CLEAR_NOT)
			return;
		corun |= clear >= CLEAR_CORUN;
	}
	gang_unreserve(member);
	for (uint32_t i = 0; corun && i < member->n_seats; i++)
		device_reopen_stuck(member->seat[i].device, &member->seat[i], now);
	member_open(member, corun, now);
}
