/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up the share and memory that claims have of a driver's devices. A whole device counts as
 * CLAIMS_WHOLE_SHARE, and as the memory that its slice states. Pure; one thread.
 */
#include <string.h>

#include "base/cleanup.h"
#include "claims/claims-internal.h"

#define SHARE "share"
#define MEMORY "memory"

static uint64_t sum_units(__int128 nano)
{
	return nano > 0 ? (uint64_t)amount_units((struct amount){.nano = nano}) : 0;
}

static void sum_add(struct claims_sum *sum, const char *name, struct amount amount)
{
	if (!strcmp(name, SHARE))
		sum->share += sum_units(amount.nano);
	else if (!strcmp(name, MEMORY))
		sum->bytes += sum_units(amount.nano);
}

static void sum_add_whole(struct claims_sum *sum, const struct device *device)
{
	sum->share += CLAIMS_WHOLE_SHARE;
	for (uint32_t i = 0; device && i < device->n_capacities; i++)
		if (!strcmp(device->capacities[i].name, MEMORY))
			sum->bytes += sum_units(device->capacities[i].value.nano);
}

struct claims_sum claims_sum_chosen(
	const struct claims *claims, const struct claim_result *results, uint32_t n)
{
	struct claims_sum sum = {0};

	for (uint32_t i = 0; claims->packing.driver && i < n; i++)
		for (uint32_t k = 0; k < results[i].n; k++) {
			const struct chosen *chosen = &results[i].v[k];

			if (chosen->request->is_admin ||
				strcmp(chosen->device->slice->driver, claims->packing.driver) != 0)
				continue;
			if (!chosen->consumed)
				sum_add_whole(&sum, chosen->device);
			for (uint32_t c = 0; chosen->consumed && c < chosen->device->n_capacities;
				c++)
				sum_add(&sum, chosen->device->capacities[c].name,
					chosen->consumed[c]);
		}
	return sum;
}

/* Adds what the allocation has. False: none of the driver's devices. */
static bool sum_allocation(
	const struct claims *claims, const struct allocation *allocation, struct claims_sum *sum)
{
	bool has_any = false;

	for (uint32_t i = 0; i < allocation->n; i++) {
		const struct claim_device *device = &allocation->devices[i];

		if (device->is_admin || strcmp(device->driver, claims->packing.driver) != 0)
			continue;
		has_any = true;
		if (!device->is_share)
			sum_add_whole(sum,
				claims_find_device(
					claims, device->driver, device->pool, device->device));
		for (uint32_t c = 0; device->is_share && c < device->consumed.n; c++)
			sum_add(sum, device->consumed.v[c].name, device->consumed.v[c].amount);
	}
	return has_any;
}

const char *claims_entry_user(const struct claims_entry *entry)
{
	const json_t *users = json_object_get(
		json_object_get(entry->claim->json, "status"), "reservedFor");
	const char *user = json_string_value(json_object_get(json_array_get(users, 0), "name"));

	return user ? user : entry->assumed_user;
}

bool claims_sum_entry(
	struct claims *claims, const struct claims_entry *entry, struct claims_sum *ret)
{
	const struct allocation *allocation = claims_entry_allocation(entry);
	struct claims_sum sum = {.ns = entry->claim->ns, .user = claims_entry_user(entry)};

	if (!sum_allocation(claims, allocation, &sum))
		return false;
	sum.configs = json_object_get(json_object_get(allocation->json, "devices"), "config");
	*ret = sum;
	return true;
}

bool claims_next_sum(struct claims *claims, const void **at, struct claims_sum *ret)
{
	const struct claims_entry *entry = *at ? ((const struct claims_entry *)*at)->hh.next
					       : claims->objects[CLAIMS_CLAIM];

	if (!claims->packing.driver || claims_refresh(claims) < 0)
		return false;
	for (; entry; entry = entry->hh.next) {
		if (!entry->is_counted || !claims_sum_entry(claims, entry, ret))
			continue;
		*at = entry;
		return true;
	}
	return false;
}
