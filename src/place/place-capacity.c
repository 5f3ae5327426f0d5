/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file tests on a copy of a node's counters whether a tenant fits without some other tenants.
 * room_fits() repeats the rules of place-fit.c on these counters, so both files must change
 * together. room_with() undoes room_without() exactly, because change() applies the same amounts
 * with another sign. `usable` holds the open devices of an allowed model; adding or removing
 * tenants never changes it. `together_devices` counts over all nodes, because a label of affinity
 * holds on all nodes.
 */
#include "place/place-capacity.h"

#include <string.h>

#include "place/place-held.h"
#include "place/place-internal.h"
#include "place/place-policy.h"
#include "place/place-queue.h"

void room_init(
	struct room *room, const struct place *place, const struct place_spec *spec, uint32_t node)
{
	const struct node *n = &place->nodes[node];
	const uint64_t models = place_queue_models(place, spec);
	const struct taken taken = node_taken(n, spec->can_wait);

	room->place = place;
	room->spec = spec;
	room->together = spec->count ? place_label_at(place, spec->affinity) : NULL;
	room->node = node;
	room->n_devices = n->n_devices;
	room->n_tenants = taken.n_tenants;
	room->cpu_taken = taken.cpu;
	room->memory_taken = taken.memory;
	room->usable = 0;
	room->together_devices = room->together ? room->together->n_devices[ROLE_AFFINITY] : 0;
	for (uint32_t i = 0; i < n->n_devices; i++) {
		const struct device *d = &place->devices[n->first_device + i];
		const bool is_other = !(models >> d->model & 1);

		if (device_is_open(d) && !is_other &&
			(spec->device == PLACE_NONE || spec->device == n->first_device + i))
			room->usable |= 1ull << i;
		room->device[i].share = place->share_free[n->first_device + i];
		room->device[i].n_tenants = d->n_tenants;
		memcpy(room->device[i].n_of, d->n_of, sizeof(d->n_of));
		room->device[i].memory_taken = d->memory_taken;
		room->device[i].asked = place_device_bytes(place, spec, n->first_device + i);
		room->device[i].n_apart = room->device[i].n_together = 0;
		for (uint32_t k = 0; k < d->n_tags; k++) {
			const struct tag *tag = &d->tags[k];

			if (tag->role == ROLE_ANTI_AFFINITY && tag->label == spec->anti_affinity)
				room->device[i].n_apart = tag->n;
			if (tag->role == ROLE_AFFINITY && tag->label == spec->affinity)
				room->device[i].n_together = tag->n;
		}
	}
}

void room_narrow(struct room *room, uint64_t models)
{
	const struct device *d = &room->place->devices[room->place->nodes[room->node].first_device];

	for (uint32_t i = 0; i < room->n_devices; i++)
		if (!(models >> d[i].model & 1))
			room->usable &= ~(1ull << i);
}

/* More may be taken of a node than it has now. */
static bool is_left(uint64_t all, uint64_t taken, uint64_t asked)
{
	return !asked || taken + asked <= all;
}

static bool is_allowed(const struct room *room, const struct room_device *d)
{
	const struct place_policy *policy = room->place->config.policy;
	struct place_company company = {.n_tenants = d->n_tenants, .share_free = d->share};

	if (!policy->allows)
		return true;
	memcpy(company.n_of, d->n_of, sizeof(company.n_of));
	return policy->allows(room->spec, &company);
}

static bool device_fits(const struct room *room, uint32_t i)
{
	const struct device *d =
		&room->place->devices[room->place->nodes[room->node].first_device + i];

	if (!(room->usable >> i & 1))
		return false;
	if (room->device[i].n_tenants &&
		(d->exclusion != room->spec->exclusion || room->device[i].n_apart))
		return false;
	if (room->together &&
		(room->together_devices ? !room->device[i].n_together
					: room->device[i].n_tenants != 0))
		return false;
	if (!is_allowed(room, &room->device[i]))
		return false;
	if (room->spec->is_exclusive ? room->device[i].n_tenants != 0
				     : room->device[i].share < room->spec->share)
		return false;
	return is_left(d->memory_all, room->device[i].memory_taken, room->device[i].asked);
}

bool room_fits(const struct room *room)
{
	const struct node *n = &room->place->nodes[room->node];
	uint32_t fit = 0;

	if ((n->n_tenants_max && room->n_tenants >= n->n_tenants_max) ||
		!is_left(n->cpu_all, room->cpu_taken, room->spec->cpu_milli) ||
		!is_left(n->memory_all, room->memory_taken, room->spec->memory_bytes))
		return false;
	for (uint32_t i = 0; i < room->n_devices && fit < room->spec->count; i++)
		fit += device_fits(room, i);
	return fit >= room->spec->count;
}

/* sign 1: removes the tenant; -1: adds it again */
static void change(struct room *room, const struct holder *h, int sign)
{
	const struct place_tenant *tenant = &room->place->tenants[h->tenant];
	const struct place_spec *t = &tenant->spec;
	const uint32_t n = (uint32_t)sign;

	room->n_tenants -= n;
	room->cpu_taken -= (uint64_t)(int64_t)sign * t->cpu_milli;
	room->memory_taken -= (uint64_t)(int64_t)sign * t->memory_bytes;
	for (uint32_t i = 0; i < tenant->n; i++) {
		const uint32_t first = room->place->nodes[room->node].first_device;
		struct room_device *d = &room->device[tenant->device[i] - first];
		const bool was_together = d->n_together;

		d->share += n * h->share;
		d->n_tenants -= n;
		d->n_of[t->class] -= n;
		d->memory_taken -= (uint64_t)(int64_t)sign * tenant->bytes[i];
		if (room->spec->anti_affinity && t->anti_affinity == room->spec->anti_affinity)
			d->n_apart -= n;
		if (room->together && t->affinity == room->spec->affinity)
			d->n_together -= n;
		if (was_together != (d->n_together != 0))
			room->together_devices -= n;
	}
}

void room_without(struct room *room, const struct holder *h)
{
	change(room, h, 1);
}

void room_with(struct room *room, const struct holder *h)
{
	change(room, h, -1);
}
