/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what claims have of each device: whole uses, shares, and the capacity of the shares. Each
 * change of an allocation updates the counts. If memory is exhausted meanwhile, all counts are
 * dropped, and claims_refresh() makes them again. Pure; one thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/cleanup.h"
#include "claims/claims-internal.h"

static void device_use_free(struct device_use *use)
{
	struct amount_sum *sum;

	while ((sum = use->sums)) {
		use->sums = sum->next;
		free(sum->name);
		free(sum);
	}
	free(use->id);
	free(use);
}

void claims_drop_uses(struct claims *claims)
{
	struct device_use *use, *next;

	HASH_ITER(hh, claims->uses, use, next) {
		HASH_DEL(claims->uses, use);
		device_use_free(use);
	}
}

/* Finds the use of the device, or makes one. NULL: out of memory. */
static struct device_use *claims_use_of(struct claims *claims, const struct claim_device *device)
{
	const size_t size = strlen(device->driver) + strlen(device->pool) + strlen(device->device) +
		3;
	_cleanup_free_ char *id = calloc(size, 1);
	struct device_use *use = NULL;

	if (!id)
		return NULL;
	snprintf(id, size, "%s/%s/%s", device->driver, device->pool, device->device);
	HASH_FIND(hh, claims->uses, id, size - 1, use);
	if (use)
		return use;
	use = calloc(1, sizeof(*use));
	if (!use)
		return NULL;
	use->id = TAKE_PTR(id);
	HASH_ADD_KEYPTR(hh, claims->uses, use->id, size - 1, use);
	return use;
}

static int device_use_add(struct device_use *use, const char *name, __int128 nano)
{
	struct amount_sum *sum = use->sums;

	while (sum && strcmp(sum->name, name) != 0)
		sum = sum->next;
	if (!sum) {
		sum = calloc(1, sizeof(*sum));
		if (!sum)
			return -ENOMEM;
		sum->name = str_dup(str_from(name));
		sum->next = use->sums;
		use->sums = sum;
		if (!sum->name)
			return -ENOMEM;
	}
	sum->nano += nano;
	return 0;
}

static int claims_count_device(
	struct claims *claims, const struct claim_device *device, int32_t sign)
{
	struct device_use *use = claims_use_of(claims, device);

	if (!use)
		return -ENOMEM;
	if (device->is_share)
		use->n_shares += (uint32_t)sign;
	else
		use->n_whole += (uint32_t)sign;
	for (uint32_t i = 0; device->is_share && i < device->consumed.n; i++)
		if (device_use_add(use, device->consumed.v[i].name,
			    sign * device->consumed.v[i].amount.nano) < 0)
			return -ENOMEM;
	if (!use->n_shares && !use->n_whole) {
		HASH_DEL(claims->uses, use);
		device_use_free(use);
	}
	return 0;
}

/* Adds the allocation to the uses of its devices (sign 1), or removes it from them (sign -1). */
static void claims_count(struct claims *claims, const struct allocation *allocation, int32_t sign)
{
	claims->version++;
	for (uint32_t i = 0; allocation && allocation->json && i < allocation->n; i++) {
		if (claims->are_uses_old)
			return;
		if (!allocation->devices[i].is_admin &&
			claims_count_device(claims, &allocation->devices[i], sign) < 0) {
			claims_drop_uses(claims);
			claims->are_uses_old = true;
		}
	}
}

/* ---- claims whose users are hidden ---- */

static bool claims_is_hidden(const struct claims *claims, const struct claims_entry *entry)
{
	const json_t *users = json_object_get(
		json_object_get(entry->claim->json, "status"), "reservedFor");
	const size_t n = entry->claim->allocation.json ? json_array_size(users) : entry->n_assumed;

	return (entry->ending_uid && claims->is_ending_hidden) ||
		(entry->n_hidden && entry->n_hidden >= n);
}

void claims_uncount(struct claims *claims, struct claims_entry *entry)
{
	if (!entry->is_counted)
		return;
	claims_count(claims, claims_entry_allocation(entry), -1);
	entry->is_counted = false;
	claims_note_change(claims, entry);
}

void claims_recount(struct claims *claims, struct claims_entry *entry)
{
	const bool should = claims_entry_allocation(entry) && !claims_is_hidden(claims, entry);

	if (should == entry->is_counted)
		return;
	claims_count(claims, claims_entry_allocation(entry), should ? 1 : -1);
	entry->is_counted = should;
	/* Without memory for the note, models of units are wrong until the next change. */
	claims_note_change(claims, entry);
}

void claims_set_on_hidden(struct claims *claims, struct claims_on_hidden on_hidden)
{
	claims->on_hidden = on_hidden;
}

/* claims_recount() after the claim was hidden or shown. */
static void claims_recount_hidden(struct claims *claims, struct claims_entry *entry)
{
	const bool was_counted = entry->is_counted;
	struct claims_sum sum = {.ns = entry->claim->ns};

	claims_recount(claims, entry);
	if (entry->is_counted == was_counted || !claims->on_hidden.done ||
		!claims->packing.driver || claims_refresh(claims) < 0)
		return;
	claims_sum_entry(claims, entry, &sum);
	claims->on_hidden.done(claims->on_hidden.data, &sum, was_counted);
}

void claims_hide_user(struct claims *claims, const char *ns, const char *name, bool is_hidden)
{
	char key[CLAIMS_KEY_MAX];
	struct claims_entry *entry = claims_find(
		claims, CLAIMS_CLAIM, claims_key(CLAIMS_CLAIM, ns, name, key));

	/* A claim that was made meanwhile has no hidden users. */
	if (!entry || (!is_hidden && !entry->n_hidden))
		return;
	if (is_hidden)
		entry->n_hidden++;
	else
		entry->n_hidden--;
	claims_recount_hidden(claims, entry);
}

void claims_note_ending(struct claims *claims, const char *ns, const char *name, const char *uid)
{
	char key[CLAIMS_KEY_MAX];
	struct claims_entry *entry = claims_find(
		claims, CLAIMS_CLAIM, claims_key(CLAIMS_CLAIM, ns, name, key));

	if (!entry || entry->ending_uid || !entry->claim->allocation.json ||
		resource_claim_is_used_by_others(entry->claim, uid))
		return;
	/* Without memory, pods wait until Kubernetes has freed the claim. */
	entry->ending_uid = str_dup(str_from(uid));
	if (entry->ending_uid)
		DL_APPEND2(claims->ending, entry, ending_prev, ending_next);
}

void claims_end_ending(struct claims *claims, struct claims_entry *entry)
{
	if (!entry->ending_uid)
		return;
	DL_DELETE2(claims->ending, entry, ending_prev, ending_next);
	free(TAKE_PTR(entry->ending_uid));
}

void claims_hide_ending(struct claims *claims, bool is_hidden)
{
	struct claims_entry *entry;

	claims->is_ending_hidden = is_hidden;
	for (entry = claims->ending; entry; entry = entry->ending_next)
		claims_recount_hidden(claims, entry);
}

bool claims_has_ending(const struct claims *claims)
{
	return claims->ending;
}

/* ---- devices with more users than they have room for ---- */

static __int128 device_use_sum_of(const struct device_use *use, const char *name)
{
	for (const struct amount_sum *sum = use->sums; sum; sum = sum->next)
		if (!strcmp(sum->name, name))
			return sum->nano;
	return 0;
}

static bool slice_is_same_pool(const struct slice *a, const struct slice *b)
{
	return a->generation == b->generation && !strcmp(a->driver, b->driver) &&
		!strcmp(a->pool, b->pool);
}

/* Whether the devices in use consume more of the counter than its set has. */
static bool claims_is_counter_exceeded(
	const struct claims *claims, const struct slice *own, const struct counter *of)
{
	const struct claims_entry *entry;
	__int128 left = 0;

	for (entry = claims->objects[CLAIMS_SLICE]; entry; entry = entry->hh.next) {
		const struct slice *slice = entry->slice;

		if (!slice_is_same_pool(own, slice))
			continue;
		for (uint32_t i = 0; i < slice->n_counters; i++)
			if (!strcmp(slice->counters[i].set, of->set) &&
				!strcmp(slice->counters[i].name, of->name))
				left += slice->counters[i].amount.nano;
		for (uint32_t i = 0; i < slice->n_devices; i++)
			for (uint32_t k = 0; k < slice->devices[i].n_counters; k++)
				if (!strcmp(slice->devices[i].counters[k].set, of->set) &&
					!strcmp(slice->devices[i].counters[k].name, of->name) &&
					claims_use(claims, slice->devices[i].id))
					left -= slice->devices[i].counters[k].amount.nano;
	}
	return left < 0;
}

static bool claims_is_device_exceeded(const struct claims *claims, const struct device *device)
{
	const struct device_use *use = claims_use(claims, device->id);

	if (!use)
		return false;
	if (device->is_shared ? use->n_whole : use->n_whole > 1)
		return true;
	for (uint32_t i = 0; device->is_shared && i < device->n_capacities; i++)
		if (device_use_sum_of(use, device->capacities[i].name) >
			device->capacities[i].value.nano)
			return true;
	for (uint32_t i = 0; i < device->n_counters; i++)
		if (claims_is_counter_exceeded(claims, device->slice, &device->counters[i]))
			return true;
	return false;
}

bool claims_is_exceeded(const struct claims *claims, const struct allocation *allocation)
{
	for (uint32_t i = 0; i < allocation->n; i++) {
		const struct claim_device *held = &allocation->devices[i];
		const struct device *device = claims_find_device(
			claims, held->driver, held->pool, held->device);

		if (!held->is_admin && device && claims_is_device_exceeded(claims, device))
			return true;
	}
	return false;
}

const struct device_use *claims_use(const struct claims *claims, const char *id)
{
	struct device_use *use = NULL;

	HASH_FIND(hh, claims->uses, id, strlen(id), use);
	return use;
}
