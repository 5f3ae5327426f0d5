/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of a device's capacity a request consumes: the request policies of consumable capacity.
 * Pure; any thread.
 */
#ifndef CLAIMS_CONSUME_H
#define CLAIMS_CONSUME_H

#include "claims/resource-claim.h"
#include "claims/slice.h"

/*
 * The amount of the capacity that the request consumes: the requested amount, rounded up by the
 * capacity's policy, or without one the policy's default, or all. -ERANGE: the request cannot be
 * rounded.
 */
int consume_amount(const struct requesteds *requested, const struct capacity *capacity,
	struct amount *ret_amount, struct error *err);

/*
 * Returns 1 if the device has each requested capacity and the request obeys its policies, and
 * writes what the request consumes of device->capacities[i] to ret_amounts[i]; else 0. -ERANGE: the
 * request is not valid for any device.
 */
int consume_check(const struct requesteds *requested, const struct device *device,
	struct amount *ret_amounts, struct error *err);

/* The amount with that name; NULL: none. */
const struct amount *requesteds_find(const struct requesteds *requesteds, const char *name);

#endif
