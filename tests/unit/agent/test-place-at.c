/* SPDX-License-Identifier: Apache-2.0 */
/*
 * If another program has chosen the devices, the daemon checks that they are healthy, have free
 * capacity and are not held exclusively.
 */
#include "unit.h"

#include <errno.h>

#include "agent/agent-place.h"

#define GIB (1ull << 30)

static struct spec make(const char *request)
{
	struct spec spec;

	spec_init(&spec);
	assert_int_equal(spec_set(&spec, "request", request, NULL), 0);
	/*
	 * place_at() ignores these two constraints: the program that chose the device has applied
	 * them.
	 */
	assert_int_equal(spec_set(&spec, "device", "GPU-other", NULL), 0);
	assert_int_equal(spec_set(&spec, "model", "other", NULL), 0);
	assert_int_equal(spec_finish(&spec, NULL), 0);
	return spec;
}

static void the_chosen_device_needs_free_capacity(void **state)
{
	const struct place_device half = {"GPU-1", "A100", 80 * GIB, 40 * GIB, 500, 1, false};
	struct error err = {0};
	struct spec spec = make("0.5");

	assert_int_equal(place_at(&spec, &half, 40 * GIB, &err), 0);
	assert_int_equal(place_at(&spec, &half, 40 * GIB + 1, &err), -ENOSPC);
	assert_contains(err.msg, "free for quotas");
	assert_int_equal(place_at(&spec, &half, 81 * GIB, &err), -EINVAL);
	spec = make("0.501");
	assert_int_equal(place_at(&spec, &half, GIB, &err), -ENOSPC);
	assert_contains(err.msg, "0.5 free");
	spec = make("1");
	assert_int_equal(place_at(&spec, &half, GIB, &err), -ENOSPC);
	assert_contains(err.msg, "has 1 tenant");
}

static void an_exclusive_device_takes_no_other_tenant(void **state)
{
	const struct place_device whole = {"GPU-1", "A100", 80 * GIB, 80 * GIB, 1000, 1, true};
	struct error err = {0};
	struct spec spec = make("0.1");

	assert_int_equal(place_at(&spec, &whole, GIB, &err), -ENOSPC);
	assert_contains(err.msg, "exclusively");
}

static void an_unhealthy_device_gets_no_tenant(void **state)
{
	const struct place_device two[] = {
		{"GPU-a", "A100", 80 * GIB, 80 * GIB, 500, 1, false, "does not answer"},
		{"GPU-b", "A100", 80 * GIB, 80 * GIB, 0, 0, false},
	};
	struct error err = {0};
	struct spec spec = make("0.5");
	uint32_t chosen[SPEC_DEVICES_MAX];

	assert_int_equal(place_at(&spec, &two[0], GIB, &err), -ENOSPC);
	assert_contains(err.msg, "device GPU-a does not answer; ");
	assert_int_equal(spec_set(&spec, "device", "!0", NULL), 0);
	assert_int_equal(spec_set(&spec, "model", "A100", NULL), 0);
	assert_int_equal(place(&spec, two, 2, chosen, &err), 0);
	assert_int_equal(chosen[0], 1);
	assert_int_equal(place(&spec, two, 1, chosen, &err), -ENOSPC);
}

/* The indexes are those of `divvy devices`. */
static void indexes_become_device_names(void **state)
{
	const struct place_device two[] = {
		{"GPU-a", "A100", 80 * GIB, 80 * GIB, 0, 0, false},
		{"GPU-b", "A100", 80 * GIB, 80 * GIB, 500, 1, false},
	};
	struct error err = {0};
	struct spec spec = make("0.5");
	uint32_t chosen[SPEC_DEVICES_MAX];

	assert_int_equal(spec_set(&spec, "device", "1, !0,GPU-c", NULL), 0);
	assert_int_equal(place_name_devices(&spec, two, 2, &err), 0);
	assert_string_equal(spec.device, "GPU-b,!GPU-a,GPU-c");
	assert_int_equal(spec_set(&spec, "model", "A100", NULL), 0);
	assert_int_equal(place(&spec, two, 2, chosen, &err), 0);
	assert_int_equal(chosen[0], 1);
	assert_int_equal(spec_set(&spec, "device", "0,2", NULL), 0);
	assert_int_equal(place_name_devices(&spec, two, 2, &err), -EINVAL);
	assert_contains(
		err.msg, "device '0,2': no such device; this machine has 2 devices, 0 to 1");
	assert_string_equal(spec.device, "0,2");
}

static void devices_with_tenants_of_the_same_label_come_last(void **state)
{
	const struct place_device three[] = {
		{"GPU-a", "A100", 80 * GIB, 80 * GIB, 500, 2, false, NULL, 2},
		{"GPU-b", "A100", 80 * GIB, 80 * GIB, 400, 1, false, NULL, 1},
		{"GPU-c", "A100", 80 * GIB, 80 * GIB, 0, 0, false, NULL, 0},
	};
	struct spec spec = make("0.5"), most = make("0.6");
	uint32_t chosen[SPEC_DEVICES_MAX];

	spec.device[0] = spec.model[0] = most.device[0] = most.model[0] = '\0';
	assert_int_equal(place(&spec, three, 3, chosen, NULL), 0);
	assert_int_equal(chosen[0], 2);
	/*
	 * Without GPU-c, the device with the fewest conflicting tenants comes first. GPU-a is
	 * better than a refusal.
	 */
	assert_int_equal(place(&spec, three, 2, chosen, NULL), 0);
	assert_int_equal(chosen[0], 1);
	assert_int_equal(place(&spec, three, 1, chosen, NULL), 0);
	assert_int_equal(chosen[0], 0);
	assert_int_equal(place(&most, three, 1, chosen, NULL), -ENOSPC);
	spec.count = 2;
	assert_int_equal(place(&spec, three, 3, chosen, NULL), 0);
	assert_int_equal(chosen[0], 2);
	assert_int_equal(chosen[1], 1);
}

UNIT_MAIN(UNIT(indexes_become_device_names), UNIT(the_chosen_device_needs_free_capacity),
	UNIT(an_unhealthy_device_gets_no_tenant), UNIT(an_exclusive_device_takes_no_other_tenant),
	UNIT(devices_with_tenants_of_the_same_label_come_last))
