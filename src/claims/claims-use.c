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

void claims_count(struct claims *claims, const struct allocation *allocation, int32_t sign)
{
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

const struct device_use *claims_use(const struct claims *claims, const char *id)
{
	struct device_use *use = NULL;

	HASH_FIND(hh, claims->uses, id, strlen(id), use);
	return use;
}
