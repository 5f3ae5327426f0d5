/* SPDX-License-Identifier: Apache-2.0 */
/* What a spec accepts, what it refuses and in which words. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/rand.h"
#include "core/spec.h"

/* "request=0.3 limit=0.6 ..." -> spec; the result of the first call that fails. */
static int build(const char *fields, struct spec *ret_spec, struct error *err)
{
	char text[256], *rest = text, *word;

	spec_init(ret_spec);
	snprintf(text, sizeof(text), "%s", fields);
	while ((word = strsep(&rest, " "))) {
		char *value = strchr(word, '=');
		int r;

		*value++ = 0;
		r = spec_set(ret_spec, word, value, err);
		if (r < 0)
			return r;
	}
	return spec_finish(ret_spec, err);
}

static void defaults(void **state)
{
	struct spec spec;

	assert_ok(build("request=0.3", &spec, NULL));
	assert_int_equal(spec.request, 300);
	assert_int_equal(spec.limit, 1000);
	assert_int_equal(spec.count, 1);
	assert_false(spec.exclusive);
	assert_int_equal(spec.class, SPEC_STANDARD);
	assert_int_equal(spec.priority, 50);
	assert_int_equal(spec.memory_policy, SPEC_MEMORY_FAIL);
	assert_int_equal(spec.mode, SPEC_MODE_AUTO);
	assert_int_equal(spec_memory_on(&spec, 10000), 3000);
	assert_string_equal(spec.model, "");
}

static void shares_are_exact(void **state)
{
	static const char *const tenths[] = {"request=0.1", "request=0.2", "request=0.7"};
	uint32_t sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tenths); i++) {
		struct spec spec;

		assert_ok(build(tenths[i], &spec, NULL));
		sum += spec.request;
	}
	assert_int_equal(sum, SPEC_SHARE_ONE);
}

static void every_share_comes_back(void **state)
{
	for (uint32_t permille = 1; permille <= SPEC_SHARE_ONE; permille++) {
		struct spec spec;
		char text[8];

		spec_init(&spec);
		assert_ok(spec_set(&spec, "limit", spec_share_format(permille, text), NULL));
		assert_int_equal(spec.limit, permille);
	}
}

static void whole_devices_are_exclusive(void **state)
{
	struct spec spec;

	assert_ok(build("request=2", &spec, NULL));
	assert_true(spec.exclusive);
	assert_int_equal(spec.count, 2);
	assert_int_equal(spec.request, 1000);
	assert_int_equal(spec.limit, 1000);
	assert_int_equal(spec_memory_on(&spec, 12345), 12345);
	assert_ok(build("limit=2.0 request=2.0 mode=exclusive", &spec, NULL));
	assert_int_equal(spec.count, 2);
	assert_ok(build("request=1", &spec, NULL));
	assert_true(spec.exclusive);
	assert_ok(spec_set(&spec, "request", "0.5", NULL));
	assert_ok(spec_finish(&spec, NULL));
	assert_false(spec.exclusive);
	assert_int_equal(spec.limit, 1000);
	assert_int_equal(spec.count, 1);
}

static void opportunistic_by_priority(void **state)
{
	struct spec spec;

	assert_ok(build("request=0.1 priority=0", &spec, NULL));
	assert_int_equal(spec.class, SPEC_OPPORTUNISTIC);
	assert_ok(build("request=0.1 class=opportunistic", &spec, NULL));
	assert_int_equal(spec.priority, 0);
	/* A finished one may be changed. */
	assert_ok(spec_set(&spec, "class", "standard", NULL));
	assert_ok(spec_finish(&spec, NULL));
	assert_int_equal(spec.priority, 50);
	assert_int_equal(spec.class, SPEC_STANDARD);
}

static void memory_in_three_forms(void **state)
{
	struct spec spec;

	assert_ok(build("request=0.1 memory=4Gi", &spec, NULL));
	assert_int_equal(spec_memory_on(&spec, 1), 4ull << 30);
	assert_ok(build("request=0.1 memory=25%", &spec, NULL));
	assert_int_equal(spec_memory_on(&spec, 16ull << 30), 4ull << 30);
	assert_ok(build("request=0.1 memory=8388608000 memory-policy=wait", &spec, NULL));
	assert_int_equal(spec_memory_on(&spec, 1), 8388608000);
	assert_int_equal(spec.memory_policy, SPEC_MEMORY_WAIT);
	assert_ok(build("request=0.333", &spec, NULL));
	assert_true(spec_memory_on(&spec, UINT64_MAX) < UINT64_MAX / 3);
}

static const struct {
	const char *fields, *field, *value, *right;
} wrong[] = {
	{"request=1.5", "gpu request", "1.5", "a request above 1 must be a whole number of GPUs"},
	{"request=0", "gpu request", "0", "0.001 to 1"},
	{"request=0.0001", "gpu request", "0.0001", "steps of 0.001"},
	{"request=-0.1", "gpu request", "-0.1", "0.001 to 1"},
	{"request=17", "gpu request", "17", "at most 16"},
	{"request=half", "gpu request", "half", "0.001 to 1"},
	{"request=0.5 limit=0.4", "gpu limit", "0.4", "0.5 to 1"},
	{"request=0.5 limit=1.2", "gpu limit", "1.2", "0.001 to 1"},
	{"request=0.5 limit=2", "gpu limit", "2", "at most 1"},
	{"request=2 limit=1", "gpu limit", "1", "2"},
	{"request=2 count=2", "count", "2", "leave count out"},
	{"request=0.5 count=0", "count", "0", "1 to 16"},
	{"request=0.5 count=17", "count", "17", "1 to 16"},
	{"request=0.5 memory=lots", "memory", "lots", "4Gi"},
	{"request=0.5 memory=0", "memory", "0", "4Gi"},
	{"request=0.5 memory=101%", "memory", "101%", "100%"},
	{"request=0.5 memory_policy=hope", "memory-policy", "hope", "fail, wait or swap"},
	{"request=0.5 class=vip", "class", "vip", "latency, standard or opportunistic"},
	{"request=0.5 priority=101", "priority", "101", "100"},
	{"request=0.5 priority=0 class=latency", "priority", "0", "1 to 100"},
	{"request=0.5 mode=magic", "mode", "magic", "exclusive"},
	{"request=0.5 mode=exclusive", "mode exclusive", "0.5", "whole number"},
	{"limit=0.5", "gpu request", "missing", "0.001 to 1"},
	{"request=0.5 model=", "model", "''", "1 to 63"},
	{"request=0.5 device=\x01", "device", "character 1", "printable"},
};

static void refusals_name_field_value_and_what_is_right(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct spec spec;
		struct error err = {0};

		if (build(wrong[i].fields, &spec, &err) != -EINVAL)
			fail_msg("%s: accepted", wrong[i].fields);
		assert_contains(err.msg, wrong[i].field);
		assert_contains(err.msg, wrong[i].value);
		assert_contains(err.msg, wrong[i].right);
	}
}

static void a_refusal_changes_nothing(void **state)
{
	struct spec spec, before;
	struct error err = {0};

	assert_ok(build("request=0.5 limit=0.7 memory=1Gi model=H200", &spec, NULL));
	before = spec;
	assert_int_equal(spec_set(&spec, "request", "1.5", &err), -EINVAL);
	assert_int_equal(spec_set(&spec, "memory", "x", &err), -EINVAL);
	assert_int_equal(spec_set(&spec, "model", "", &err), -EINVAL);
	assert_int_equal(spec_set(&spec, "colour", "red", &err), -ENOENT);
	assert_contains(err.msg, "'colour'");
	assert_memory_equal(&spec, &before, sizeof(spec));
	assert_ok(spec_set(&spec, "limit", "0.4", NULL));
	before = spec;
	assert_int_equal(spec_finish(&spec, &err), -EINVAL);
	assert_memory_equal(&spec, &before, sizeof(spec));
}

/* Order of fields does not matter, and finishing twice is finishing once. */
static void any_order(void **state)
{
	static const char *const fields[][2] = {{"request", "0.25"}, {"limit", "0.75"},
		{"count", "3"}, {"memory", "10%"}, {"class", "latency"}, {"priority", "7"},
		{"device", "GPU-1"}};
	struct spec expected;
	struct rand rand = rand_seeded(1);

	assert_ok(build("request=0.25 limit=0.75 count=3 memory=10% class=latency priority=7 "
			"device=GPU-1",
		&expected, NULL));
	for (int i = 0; i < 100; i++) {
		struct spec spec;
		uint32_t set = 0;

		spec_init(&spec);
		while (set != (1u << ARRAY_SIZE(fields)) - 1) {
			size_t k = rand_below(&rand, ARRAY_SIZE(fields));

			assert_ok(spec_set(&spec, fields[k][0], fields[k][1], NULL));
			set |= 1u << k;
		}
		assert_ok(spec_finish(&spec, NULL));
		assert_ok(spec_finish(&spec, NULL));
		assert_memory_equal(&spec, &expected, sizeof(spec));
	}
}

static void names(void **state)
{
	assert_string_equal(spec_class_name(SPEC_LATENCY), "latency");
	assert_string_equal(spec_memory_policy_name(SPEC_MEMORY_SWAP), "swap");
	assert_string_equal(spec_mode_name(SPEC_MODE_REMOTE), "remote");
	assert_string_equal(spec_class_name((enum spec_class)77), "unknown");
}

static void names_of_tenants(void **state)
{
	char name[SPEC_NAME + 1] = "";
	struct error err;

	memset(name, 'x', SPEC_NAME - 1);
	assert_ok(spec_name_check(name, NULL));
	assert_ok(spec_name_check("Train-1.b_c", NULL));
	name[SPEC_NAME - 1] = 'x';
	assert_int_equal(spec_name_check(name, &err), -EINVAL);
	assert_int_equal(spec_name_check("", &err), -EINVAL);
	assert_int_equal(spec_name_check("a b", &err), -EINVAL);
	assert_contains(err.msg, "'a b': expected 1 to 63 of A-Z");
}

UNIT_MAIN(UNIT(defaults), UNIT(shares_are_exact), UNIT(every_share_comes_back),
	UNIT(whole_devices_are_exclusive), UNIT(opportunistic_by_priority),
	UNIT(memory_in_three_forms), UNIT(refusals_name_field_value_and_what_is_right),
	UNIT(a_refusal_changes_nothing), UNIT(any_order), UNIT(names), UNIT(names_of_tenants))
