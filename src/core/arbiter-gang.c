/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants on several devices: gangs. A gang competes on each device like any tenant, but in the
 * order of the devices. It competes for a device only when it has reserved all earlier devices. So
 * one of several gangs always advances, and reservations cannot form a cycle. A gang of a better
 * rank takes over the reservation of an incomplete gang. A device reserved by an incomplete gang
 * continues to serve single tenants. When a gang has reserved its last device, all its devices are
 * drained, and its gates open with one epoch. Pure; one thread.
 */
#include "core/arbiter-internal.h"

bool gang_may_compete(const struct arbiter_td *td)
{
	const struct arbiter_tenant *t = td->tenant;
	uint64_t below = t->devices & ((UINT64_C(1) << td->device->index) - 1);
	struct arbiter_tenant *other = td->device->reserved;

	if (other == t) /* the gang has this device already and waits for other devices */
		return gang_is_complete(t);
	if (other &&
		(gang_is_complete(other) ||
			td_rank(arbiter_tenant_td(other, td->device->index)) <= td_rank(td)))
		return false;
	return (t->reserved & below) == below;
}

bool gang_is_complete(const struct arbiter_tenant *t)
{
	return t->reserved == t->devices;
}

void gang_unreserve(struct arbiter_tenant *t)
{
	for (uint32_t i = 0; i < t->n_tds; i++) {
		struct device *device = t->td[i].device;

		if (device->reserved == t) {
			device->reserved = NULL;
			device->is_dirty = true;
		}
	}
	t->reserved = 0;
}

/* Whether the gang has been idle on all its devices since that time. */
bool gang_is_idle(const struct arbiter_tenant *t, uint64_t since)
{
	for (uint32_t i = 0; i < t->n_tds; i++)
		if (t->td[i].state == TD_OPEN &&
			(t->td[i].idle_since == 0 || t->td[i].idle_since > since))
			return false;
	return true;
}

/*
 * Reserves the device, on which the gang is the next tenant. If the gang is complete then, the
 * turns of other tenants end on all its devices.
 */
void gang_reserve(struct arbiter_td *td, uint64_t now)
{
	struct arbiter_tenant *t = td->tenant;

	if (!(t->reserved >> td->device->index & 1)) {
		if (td->device->reserved) /* an incomplete gang of a worse rank */
			gang_unreserve(td->device->reserved);
		td->device->reserved = t;
		t->reserved |= UINT64_C(1) << td->device->index;
		for (uint32_t i = 0; i < t->n_tds; i++)
			t->td[i].device->is_dirty = true;
	}
	if (!gang_is_complete(t))
		return;
	for (uint32_t i = 0; i < t->n_tds; i++) {
		struct device *device = t->td[i].device;

		for (uint32_t k = 0; k < device->n_active; k++)
			if (device->active[k]->state == TD_OPEN && device->active[k]->tenant != t)
				arbiter_tenant_close(device->active[k]->tenant, now);
	}
}

/* Whether a tenant of a better rank now waits for this device. */
static bool is_outranked(const struct arbiter_td *td)
{
	const struct device *device = td->device;

	for (uint32_t i = 0; i < device->n_active; i++) {
		const struct arbiter_td *other = device->active[i];

		if (other->state != TD_OPEN && td_wants(other) && !other->is_throttled &&
			td_rank(other) < td_rank(td) && !is_gang(other->tenant))
			return true;
	}
	return false;
}

void gang_try_open(struct arbiter_tenant *t, uint64_t now)
{
	bool corun = false;

	for (uint32_t i = 0; i < t->n_tds; i++) {
		struct arbiter_td *td = &t->td[i];
		enum clearance clear;

		for (uint32_t k = 0; k < td->device->n_active; k++)
			if (td->device->active[k]->state == TD_OPEN)
				return;
		if (is_outranked(td)) {
			gang_unreserve(t);
			return;
		}
		clear = device_clearance(td->device, td, now);
		if (clear == CLEAR_NOT)
			return;
		corun |= clear >= CLEAR_CORUN;
	}
	gang_unreserve(t);
	for (uint32_t i = 0; corun && i < t->n_tds; i++)
		device_reopen_stuck(t->td[i].device, &t->td[i], now);
	arbiter_tenant_open(t, corun, now);
}
