/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file tests on a copy of a node's counters whether a tenant fits without some other tenants.
 * capacity_fits() repeats the rules of place-fit.c on these counters, so both files must change
 * together. capacity_with() undoes capacity_without() exactly, because capacity_change_holder()
 * applies the same amounts with another sign. `usable` holds the open devices of an allowed model;
 * adding or removing tenants never changes it. `together_devices` counts over all nodes, because a
 * tenant on any node decides whether a new tenant is the first of its affinity label.
 */
#include "place/place-capacity.h"

#include <string.h>

#include "place/place-held.h"
#include "place/place-internal.h"
#include "place/place-policy.h"
#include "place/place-queue.h"

void capacity_init(struct node_capacity *capacity, const struct place *place,
	const struct place_spec *spec, uint32_t node)
{
	const struct node *n = &place->nodes[node];
	const uint64_t models = place_queue_models(place, spec);
	const struct taken taken = node_taken(n, spec->is_terminating_free);

	capacity->place = place;
	capacity->spec = spec;
	capacity->together = spec->count ? place_label_at(place, spec->affinity) : NULL;
	capacity->node = node;
	capacity->n_devices = n->n_devices;
	capacity->n_tenants = taken.n_tenants;
	capacity->cpu_taken = taken.cpu;
	capacity->memory_taken = taken.memory;
	capacity->usable = 0;
	capacity->together_devices = capacity->together
		? capacity->together->n_devices[ROLE_AFFINITY]
		: 0;
	for (uint32_t i = 0; i < n->n_devices; i++) {
		const struct device *d = &place->devices[n->first_device + i];
		const bool is_other = !(models >> d->model & 1);

		if (device_is_open(d) && !is_other &&
			(spec->device == PLACE_NONE || spec->device == n->first_device + i))
			capacity->usable |= 1ull << i;
		capacity->device[i].share = place->share_free[n->first_device + i];
		capacity->device[i].n_tenants = d->n_tenants;
		memcpy(capacity->device[i].n_of, d->n_of, sizeof(d->n_of));
		capacity->device[i].memory_taken = d->memory_taken;
		capacity->device[i].requested = place_device_bytes(
			place, spec, n->first_device + i);
		capacity->device[i].n_anti_affinity = capacity->device[i].n_together = 0;
		for (uint32_t k = 0; k < d->n_tags; k++) {
			const struct tag *tag = &d->tags[k];

			if (tag->role == ROLE_ANTI_AFFINITY && tag->label == spec->anti_affinity)
				capacity->device[i].n_anti_affinity = tag->n;
			if (tag->role == ROLE_AFFINITY && tag->label == spec->affinity)
				capacity->device[i].n_together = tag->n;
		}
	}
}

void capacity_narrow(struct node_capacity *capacity, uint64_t models)
{
	const struct device *d =
		&capacity->place->devices[capacity->place->nodes[capacity->node].first_device];

	for (uint32_t i = 0; i < capacity->n_devices; i++)
		if (!(models >> d[i].model & 1))
			capacity->usable &= ~(1ull << i);
}

/*
 * `taken` exceeds `all` if the capacity has shrunk below the tenants' use. Then only a request of 0
 * fits.
 */
static bool capacity_is_enough(uint64_t all, uint64_t taken, uint64_t asked)
{
	return !asked || taken + asked <= all;
}

static bool capacity_is_device_allowed(
	const struct node_capacity *capacity, const struct capacity_device *d)
{
	const struct place_policy *policy = capacity->place->config.policy;
	struct place_cotenants cotenants = {.n_tenants = d->n_tenants, .share_free = d->share};

	if (!policy->allows)
		return true;
	memcpy(cotenants.n_of, d->n_of, sizeof(cotenants.n_of));
	return policy->allows(capacity->spec, &cotenants);
}

static bool device_fits(const struct node_capacity *capacity, uint32_t i)
{
	const struct device *d =
		&capacity->place->devices[capacity->place->nodes[capacity->node].first_device + i];

	if (!(capacity->usable >> i & 1))
		return false;
	if (capacity->device[i].n_tenants &&
		(d->exclusion != capacity->spec->exclusion || capacity->device[i].n_anti_affinity))
		return false;
	if (capacity->together &&
		(capacity->together_devices ? !capacity->device[i].n_together
					    : capacity->device[i].n_tenants != 0))
		return false;
	if (!capacity_is_device_allowed(capacity, &capacity->device[i]))
		return false;
	if (capacity->spec->is_exclusive ? capacity->device[i].n_tenants != 0
					 : capacity->device[i].share < capacity->spec->share)
		return false;
	return capacity_is_enough(
		d->memory_all, capacity->device[i].memory_taken, capacity->device[i].requested);
}

bool capacity_fits(const struct node_capacity *capacity)
{
	const struct node *n = &capacity->place->nodes[capacity->node];
	uint32_t fit = 0;

	if ((n->n_tenants_max && capacity->n_tenants >= n->n_tenants_max) ||
		!capacity_is_enough(n->cpu_all, capacity->cpu_taken, capacity->spec->cpu_milli) ||
		!capacity_is_enough(
			n->memory_all, capacity->memory_taken, capacity->spec->memory_bytes))
		return false;
	for (uint32_t i = 0; i < capacity->n_devices && fit < capacity->spec->count; i++)
		fit += device_fits(capacity, i);
	return fit >= capacity->spec->count;
}

/* sign 1 removes the tenant from the counters, -1 adds the tenant again. */
static void capacity_change_holder(struct node_capacity *capacity, const struct holder *h, int sign)
{
	const struct place_tenant *tenant = &capacity->place->tenants[h->tenant];
	const struct place_spec *t = &tenant->spec;
	const uint32_t n = (uint32_t)sign;

	capacity->n_tenants -= n;
	capacity->cpu_taken -= (uint64_t)(int64_t)sign * t->cpu_milli;
	capacity->memory_taken -= (uint64_t)(int64_t)sign * t->memory_bytes;
	for (uint32_t i = 0; i < tenant->n; i++) {
		const uint32_t first = capacity->place->nodes[capacity->node].first_device;
		struct capacity_device *d = &capacity->device[tenant->device[i] - first];
		const bool was_together = d->n_together;

		d->share += n * h->share;
		d->n_tenants -= n;
		d->n_of[t->class] -= n;
		d->memory_taken -= (uint64_t)(int64_t)sign * tenant->bytes[i];
		if (capacity->spec->anti_affinity &&
			t->anti_affinity == capacity->spec->anti_affinity)
			d->n_anti_affinity -= n;
		if (capacity->together && t->affinity == capacity->spec->affinity)
			d->n_together -= n;
		if (was_together != (d->n_together != 0))
			capacity->together_devices -= n;
	}
}

void capacity_without(struct node_capacity *capacity, const struct holder *h)
{
	capacity_change_holder(capacity, h, 1);
}

void capacity_with(struct node_capacity *capacity, const struct holder *h)
{
	capacity_change_holder(capacity, h, -1);
}
