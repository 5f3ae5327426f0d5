/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wang et al. (Computer Science 50(6):86-91, 2023) as in their prototype. The three classes are
 * latency (0, guaranteed), standard (1, burstable) and opportunistic (2, best effort). The device
 * with the lowest cost wins. Cost in permille, by the tenant's class; n_2 is the device's number of
 * tenants of class 2:
 *
 *   0  only without tenants of class 0 or 1:     100 (n_2 + 1)
 *   1  only without tenants of class 0:          100 (n_2 + 1) + free share left over
 *   2  not beside two tenants of class 2, nor    100 (n_2 + 1);
 *      beside tenants of classes 0 and 2, nor    beside a tenant of class 1, + 1000 - free share;
 *      beside class 1 with less than 0.2 free:   beside a tenant of class 0, + 1000
 *
 * An idle device is chosen only if no device in use permits the tenant. In the prototype an idle
 * device costs nothing, but is considered only until a device in use is found; a race of threads
 * decides which device wins. The prototype also adds a cost for the balance of CPU and memory, but
 * an integer division always makes that cost 0. The prototype's tenants have one device. For a
 * tenant with several devices, this policy takes the cheapest devices, and their costs are added.
 */
#include "place/place-internal.h"
#include "place/place-policy.h"

#define IDLE (1 << 24) /* above any cost */
#define BURST_MILLI 200

/* Cost of the device, or -1 if it is not permitted. */
static int64_t wang_device_cost(
	const struct place_cotenants *with, uint32_t share, enum spec_class class)
{
	const uint32_t n_0 = with->n_of[SPEC_LATENCY], n_1 = with->n_of[SPEC_STANDARD],
		       n_2 = with->n_of[SPEC_OPPORTUNISTIC], free = with->share_free;
	const int64_t base = ((int64_t)n_2 + 1) * 100;

	if (with->n_tenants == 0)
		return IDLE;
	switch (class) {
	case SPEC_LATENCY: return n_0 || n_1 ? -1 : base;
	case SPEC_STANDARD: return n_0 ? -1 : base + free - share;
	default: break;
	}
	if (n_2 >= 2 || (n_0 && n_2) || (n_1 && free < BURST_MILLI))
		return -1;
	if (n_0)
		return base + 1000;
	return n_1 ? base + 1000 - free : base;
}

static uint64_t wang_judge_device(const struct place *place, const struct place_class *class,
	uint32_t node, uint64_t mask, int64_t *ret_value)
{
	const uint32_t first = place->nodes[node].first_device;
	uint64_t may = 0;

	for (uint64_t left = mask; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(left);
		const struct device *d = &place->devices[first + i];
		const struct place_cotenants with = {.n_tenants = d->n_tenants,
			.share_free = place->share_free[first + i],
			.n_of = {d->n_of[0], d->n_of[1], d->n_of[2]}};
		int64_t c = wang_device_cost(&with, class->share, (enum spec_class) class->kind);

		if (c < 0)
			continue;
		ret_value[i] = -c;
		may |= 1ull << i;
	}
	return may;
}

static bool wang_allows(const struct place_spec *spec, const struct place_cotenants *cotenants)
{
	return wang_device_cost(cotenants, spec->share, spec->class) >= 0;
}

static uint32_t wang_kind(const struct place *place, const struct place_spec *spec)
{
	return spec->class;
}

const struct place_policy place_wang = {
	.name = "wang",
	.about = "Wang et al. 2023: by which classes are on a device",
	.kind = wang_kind,
	.allows = wang_allows,
	.bound = place_judged_bound,
	.score = place_judged_score,
	.judge = wang_judge_device,
};
