/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices of the packed driver as units: devices that consume one counter are one unit, such as a
 * GPU that is offered as a whole and in shares. Placement models know units only. Pure; one thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "claims/allocate-internal.h"

bool claims_has_units(struct claims *claims)
{
	return claims_refresh(claims) == 0 && claims->has_packed;
}

static const char *unit_name(const struct device *device)
{
	return device->n_counters ? device->counters[0].set : device->name;
}

static int64_t unit_group(const struct claims *claims, const struct device *device)
{
	const struct attribute *group = claims->packing.group
		? device_attribute(device, claims->packing.group)
		: NULL;

	return group && group->kind == ATTRIBUTE_INT ? group->number : -1;
}

/* The attribute's text ends with 0, as that of any JSON text. */
static const char *unit_model(const struct device *device)
{
	const struct attribute *model;
	char name[128];

	snprintf(name, sizeof(name), "%.63s/model", device->slice->driver);
	model = device_attribute(device, name);
	return model && model->kind == ATTRIBUTE_STRING ? model->text.p : "";
}

static uint64_t unit_bytes(const struct device *device)
{
	for (uint32_t i = 0; i < device->n_capacities; i++)
		if (!strcmp(device->capacities[i].name, "memory") &&
			device->capacities[i].value.nano > 0)
			return (uint64_t)amount_units(device->capacities[i].value);
	return 0;
}

static struct claims_unit *unit_find(struct claims_unit *units, uint32_t n, const char *name)
{
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(units[i].name, name))
			return &units[i];
	return NULL;
}

/* Whether the only request of the search may have the device, as far as nothing is taken. */
static bool unit_suits(struct search *search, uint32_t number)
{
	struct wanted *wanted = &search->claim[0].requests[0].choices[0];

	return search_suits(search, wanted, number) > 0 &&
		!search_taint(search, wanted, search->candidates[number].device) &&
		search_has_capacity(search, wanted, &search->candidates[number], true) > 0;
}

uint32_t claims_units(struct claims *claims, struct claims_search *search,
	const struct claims_node *node, struct claims_unit units[static CLAIMS_UNITS_MAX])
{
	struct claims_wanted wanted = {.steps = CLAIMS_NODE_STEPS_MAX};
	struct arena arena = {.total = 0};
	struct error err = {0};
	struct search all;
	uint32_t n = 0;

	if (search)
		wanted = search->wanted;
	if (!claims->packing.driver || claims_refresh(claims) < 0 ||
		search_new(&arena, claims, node, &wanted, &all, &err) < 0)
		all.n_candidates = 0;
	for (uint32_t i = 0; i < all.n_candidates; i++) {
		const struct device *device = all.candidates[i].device;
		struct claims_unit *unit;

		if (strcmp(device->slice->driver, claims->packing.driver) != 0)
			continue;
		unit = unit_find(units, n, unit_name(device));
		if (!unit && n == CLAIMS_UNITS_MAX)
			continue;
		if (!unit) {
			unit = &units[n++];
			*unit = (struct claims_unit){.name = unit_name(device),
				.model = unit_model(device),
				.bytes = unit_bytes(device),
				.group = unit_group(claims, device)};
		}
		unit->suits |= search && unit_suits(&all, i);
	}
	arena_done(&arena);
	return n;
}

bool claims_search_simple(const struct claims_search *search, struct claims_simple *ret)
{
	const struct resource_claim *claim = search->wanted.n == 1 ? search->wanted.v[0] : NULL;
	const struct request *request;
	struct claims_simple simple = {.count = 0};

	if (!claim || claim->n_requests != 1 || claim->requests[0].is_list)
		return false;
	request = &claim->requests[0].choices[0];
	if (request->is_all || request->is_admin || request->count < 1 ||
		request->count > CLAIM_DEVICES_MAX)
		return false;
	simple.count = (uint32_t)request->count;
	for (uint32_t i = 0; i < request->capacities.n; i++) {
		const struct requested *one = &request->capacities.v[i];
		const uint64_t units = one->amount.nano > 0 ? (uint64_t)amount_units(one->amount)
							    : 0;

		if (!strcmp(one->name, "share"))
			simple.share = MIN(units, (uint64_t)CLAIMS_WHOLE_SHARE);
		else if (!strcmp(one->name, "memory"))
			simple.bytes = units;
	}
	*ret = simple;
	return true;
}

void claims_search_prefer(struct claims_search *search, const char *unit)
{
	search->wanted.preferred = unit;
}

bool unit_is_preferred(const struct claims_wanted *wanted, const struct device *device)
{
	return wanted->preferred && !strcmp(wanted->preferred, unit_name(device));
}

/* ---- units that claims have ---- */

bool claims_next_changed(struct claims *claims, struct claims_held_units *ret)
{
	struct claims_entry *entry;
	const struct allocation *allocation;

	free(TAKE_PTR(claims->taken_change));
	if (!claims->n_changes)
		return false;
	claims->taken_change = claims->changes[--claims->n_changes];
	*ret = (struct claims_held_units){.key = claims->taken_change};
	entry = claims_find(claims, CLAIMS_CLAIM, ret->key);
	if (entry)
		entry->is_changed = false;
	allocation = entry && entry->is_counted ? claims_entry_allocation(entry) : NULL;
	for (uint32_t i = 0; allocation && i < allocation->n; i++) {
		const struct claim_device *held = &allocation->devices[i];
		const struct device *device = claims_find_device(
			claims, held->driver, held->pool, held->device);

		if (ret->n == ARRAY_SIZE(ret->units))
			break;
		if (held->is_admin || !device || !claims->packing.driver ||
			strcmp(held->driver, claims->packing.driver) != 0)
			continue;
		ret->ns = entry->claim->ns;
		ret->user = claims_entry_user(entry);
		ret->node = device->slice->nodes.name;
		ret->units[ret->n] = unit_name(device);
		ret->is_whole = !held->is_share;
		for (uint32_t k = 0; k < held->consumed.n && held->is_share; k++) {
			const uint64_t units = (uint64_t)amount_units(held->consumed.v[k].amount);

			if (!strcmp(held->consumed.v[k].name, "share"))
				ret->share = MAX(ret->share, units);
			else if (!strcmp(held->consumed.v[k].name, "memory"))
				ret->bytes = MAX(ret->bytes, units);
		}
		ret->n++;
	}
	return true;
}

int claims_note_change(struct claims *claims, struct claims_entry *entry)
{
	int r;

	if (entry->is_changed || !claims->is_watched)
		return 0;
	r = array_grow(
		&claims->changes, &claims->changes_room, claims->n_changes + 1ul, sizeof(char *));
	if (r < 0)
		return r;
	claims->changes[claims->n_changes] = str_dup(str_from(entry->key));
	if (!claims->changes[claims->n_changes])
		return -ENOMEM;
	claims->n_changes++;
	entry->is_changed = true;
	return 0;
}
