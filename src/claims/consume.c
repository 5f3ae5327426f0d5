/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds requests to what the policy of a capacity allows. Steps count in thousandths if all bounds
 * of the range are whole thousandths, else in units, as in Kubernetes' allocator. Any thread.
 */
#include "claims/consume.h"

#include <errno.h>
#include <string.h>

const struct amount *requesteds_find(const struct requesteds *requesteds, const char *name)
{
	for (uint32_t i = 0; i < requesteds->n; i++)
		if (!strcmp(requesteds->v[i].name, name))
			return &requesteds->v[i].amount;
	return NULL;
}

/* Whether the steps of the range count in thousandths. */
static bool consume_is_milli(const struct capacity_range *range)
{
	int64_t milli;

	if ((range->has_min && !amount_read_milli(range->min, &milli)) ||
		(range->has_max && !amount_read_milli(range->max, &milli)))
		return false;
	return !range->has_step || (amount_read_milli(range->step, &milli) && milli >= 1);
}

/* The units in which steps count, as an integer; false: an int64_t cannot hold the amount. */
static bool consume_read(struct amount amount, bool is_milli, int64_t *ret)
{
	if (is_milli)
		return amount_read_milli(amount, ret);
	*ret = amount_units(amount);
	return amount.nano <= (__int128)INT64_MAX * 1000000000;
}

static int consume_round(struct amount requested, const struct capacity_range *range,
	struct amount *ret, struct error *err)
{
	const bool is_milli = consume_is_milli(range);
	int64_t value, min, step;
	__int128 rounded;

	if (amount_compare(requested, range->min) < 0) {
		*ret = range->min;
		return 0;
	}
	if (!range->has_step) {
		*ret = requested;
		return 0;
	}
	if (!consume_read(requested, is_milli, &value) ||
		!consume_read(range->min, is_milli, &min) ||
		!consume_read(range->step, is_milli, &step) || step <= 0)
		return fail(err, ERANGE, "the requested amount cannot be counted in steps");
	/* The least amount can be far below 0. */
	rounded = min + ((__int128)value - min + step - 1) / step * step;
	if (rounded > INT64_MAX)
		return fail(err, ERANGE, "the requested amount is too large for the next step");
	*ret = amount_from_int((int64_t)rounded);
	if (is_milli)
		ret->nano /= 1000;
	ret->is_binary = range->step.is_binary;
	return 0;
}

int consume_amount(const struct requesteds *requesteds, const struct capacity *capacity,
	struct amount *ret, struct error *err)
{
	const struct amount *requested = requesteds_find(requesteds, capacity->name);

	*ret = capacity->has_preset ? capacity->preset : capacity->value;
	if (!requested)
		return 0;
	*ret = *requested;
	if (capacity->has_range && capacity->range.has_min)
		return consume_round(*requested, &capacity->range, ret, err);
	for (uint32_t i = 0; i < capacity->n_values; i++)
		if (amount_compare(*requested, capacity->values[i]) <= 0) {
			*ret = capacity->values[i];
			break;
		}
	return 0;
}

static bool consume_breaks_range(struct amount amount, const struct capacity_range *range)
{
	const bool is_milli = consume_is_milli(range);
	int64_t value, min = 0, step;

	if (range->has_max && amount_compare(amount, range->max) > 0)
		return true;
	if (!range->has_step)
		return false;
	if (!consume_read(amount, is_milli, &value) ||
		(range->has_min && !consume_read(range->min, is_milli, &min)) ||
		!consume_read(range->step, is_milli, &step) || step <= 0)
		return true;
	return ((__int128)value - min) % step != 0;
}

static bool consume_breaks_policy(struct amount amount, const struct capacity *capacity)
{
	if (!capacity->has_policy ||
		(capacity->has_preset && amount_compare(amount, capacity->preset) == 0))
		return false;
	if (capacity->has_range)
		return consume_breaks_range(amount, &capacity->range);
	for (uint32_t i = 0; i < capacity->n_values; i++)
		if (amount_compare(amount, capacity->values[i]) == 0)
			return false;
	return capacity->n_values;
}

int consume_check(const struct requesteds *requested, const struct device *device,
	struct amount *ret, struct error *err)
{
	for (uint32_t i = 0; i < requested->n; i++)
		if (!device_capacity(device, requested->v[i].name))
			return 0;
	for (uint32_t i = 0; i < device->n_capacities; i++) {
		int r = consume_amount(requested, &device->capacities[i], &ret[i], err);

		if (r == 0 && ret[i].nano < 0)
			r = fail(err, ERANGE, "the amount is negative");
		if (r < 0)
			return fail_within(err, r, "capacity %.64s", device->capacities[i].name);
	}
	for (uint32_t i = 0; i < device->n_capacities; i++)
		if (consume_breaks_policy(ret[i], &device->capacities[i]))
			return 0;
	return 1;
}
