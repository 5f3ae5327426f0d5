/* SPDX-License-Identifier: Apache-2.0 */
/* The values that a spec accepts, and its messages for other values. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/rand.h"
#include "spec/spec.h"

/*
 * Makes a spec from "request=0.3 limit=0.6 ..."; returns the result of the first call that fails.
 */
static int build(const char *fields, struct spec *ret_spec, struct error *err)
{
	char text[256], *rest = text, *word;

	spec_init(ret_spec);
	snprintf(text, sizeof(text), "%s", fields);
	while ((word = strsep(&rest, " "))) {
		char *value = strchr(word, '=');
		int r;

		*value++ = 0;
		r = spec_set_cluster(ret_spec, word, value, err);
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

static void every_share_is_read_back(void **state)
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

static void priority_0_is_opportunistic(void **state)
{
	struct spec spec;

	assert_ok(build("request=0.1 priority=0", &spec, NULL));
	assert_int_equal(spec.class, SPEC_OPPORTUNISTIC);
	assert_ok(build("request=0.1 class=opportunistic", &spec, NULL));
	assert_int_equal(spec.priority, 0);
	/* A finished spec may be changed. */
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
	/* a part of the device's memory, in whole blocks of 2 MiB */
	assert_int_equal(spec_memory_on(&spec, 141ull << 30), 24039ull << 21);
	assert_ok(build("request=0.1 memory=40%", &spec, NULL));
	assert_int_equal(spec_memory_on(&spec, 141ull << 30), 28876ull << 21);
}

static const struct {
	const char *fields, *field, *value, *right;
} wrong[] = {
	{"request=1.5", "request", "1.5", "above 1, expected a whole number of GPUs"},
	{"request=0", "request", "0", "0.001 to 1"},
	{"request=0.0001", "request", "0.0001", "steps of 0.001"},
	{"request=-0.1", "request", "-0.1", "0.001 to 1"},
	{"request=17", "request", "17", "at most 16"},
	{"request=half", "request", "half", "0.001 to 1"},
	{"request=0.5 limit=0.4", "limit", "0.4", "0.5 to 1"},
	{"request=0.5 limit=1.2", "limit", "1.2", "0.001 to 1"},
	{"request=0.5 limit=2", "limit", "2", "at most 1"},
	{"request=2 limit=1", "limit", "1", "2"},
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
	{"limit=0.5", "request", "missing", "0.001 to 1"},
	{"request=0.5 model=", "model", "''", "1 to 255"},
	{"request=0.5 device=\x01", "device", "character 1", "printable"},
	{"request=0.5 model=A100,", "model", "'A100,'", "names separated by commas"},
	{"request=0.5 model=!", "model", "'!'", "!NAME"},
	{"request=0.5 affinity=", "affinity", "''", "1 to 63"},
	{"request=0.5 preferred-anti-affinity=", "preferred-anti-affinity", "''", "1 to 63"},
	{"request=0.5 anti-affinity=\x7f", "anti-affinity", "character 1", "printable"},
	{"request=0.5 exclusion="
	 "0123456789012345678901234567890123456789012345678901234567890123",
		"exclusion", "'0123", "1 to 63"},
	{"request=0.5 group=", "group", "''", "1 to 253"},
	{"request=0.5 group-size=3", "group-size", "3", "the group has no name"},
	{"request=0.5 group-threshold=0.5", "group-threshold", "0.5", "the group has no name"},
	{"request=0.5 group=g group-size=0", "group-size", "0", "1 to 65536"},
	{"request=0.5 group=g group-size=65537", "group-size", "65537", "1 to 65536"},
	{"request=0.5 group=g group-threshold=0", "group-threshold", "0", "0.001 to 1"},
	{"request=0.5 group=g group-threshold=1.001", "group-threshold", "1.001", "0.001 to 1"},
	{"request=0.5 network=", "network", "", "10Gbps,50us"},
	{"request=0.5 network=10", "network", "10", "10Gbps,50us"},
	{"request=0.5 network=1kbps", "network", "1kbps", "1Mbps to 1000Tbps"},
	{"request=0.5 network=0Mbps", "network", "0Mbps", "1Mbps to 1000Tbps"},
	{"request=0.5 network=1001Tbps", "network", "1001Tbps", "1Mbps to 1000Tbps"},
	{"request=0.5 network=0us", "network", "0us", "1us to 1000s"},
	{"request=0.5 network=50ns", "network", "50ns", "1us to 1000s"},
	{"request=0.5 network=1001s", "network", "1001s", "1us to 1000s"},
	{"request=0.5 network=1Gbps,1Gbps", "network", "1Gbps,1Gbps", "comma between"},
	{"request=0.5 network=1us,1us", "network", "1us,1us", "comma between"},
	{"request=0.5 network=1Gbps mode=local", "network", "1Gbps", "mode auto or remote"},
	{"request=1 network=1us mode=exclusive", "network", "1us", "mode auto or remote"},
};

static void refusals_name_field_value_and_expected_value(void **state)
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

/* The order of fields does not matter, and a second spec_finish() changes nothing. */
static void fields_may_be_in_any_order(void **state)
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

static void fields_of_a_cluster(void **state)
{
	struct spec spec;
	struct error err;
	char text[SPEC_NETWORK];

	assert_ok(build("request=0.5", &spec, NULL));
	assert_false(spec.has_exclusion);
	assert_string_equal(spec_network_format(&spec, text), "");
	assert_int_equal(spec.group_threshold, 0);
	assert_ok(build("request=0.5 affinity=red anti_affinity=green preferred-anti-affinity=b "
			"exclusion= group=g group_size=5 network=10Gbps,50us",
		&spec, NULL));
	assert_string_equal(spec.affinity, "red");
	assert_string_equal(spec.anti_affinity, "green");
	assert_string_equal(spec.preferred_anti_affinity, "b");
	assert_string_equal(spec.exclusion, "");
	assert_true(spec.has_exclusion);
	assert_int_equal(spec.group_size, 5);
	assert_int_equal(spec.group_threshold, 1000);
	assert_int_equal(spec.network_mbit, 10000);
	assert_int_equal(spec.network_latency_us, 50);
	/* On one machine, a spec refuses fields that only a cluster obeys. */
	assert_ok(spec_set(&spec, "preferred-anti-affinity", "x", NULL));
	assert_int_equal(spec_set(&spec, "anti-affinity", "x", &err), -EINVAL);
	assert_string_equal(err.msg,
		"anti-affinity 'x': only a pod in a cluster has this field; on one machine use "
		"model or device");
}

static void networks_are_read_back(void **state)
{
	static const char *const texts[][2] = {{"10Gbps", "10Gbps"}, {"1.5Gbps", "1500Mbps"},
		{"1000Tbps", "1000000Gbps"}, {"50us", "50us"}, {"2ms,1Mbps", "1Mbps,2000us"},
		{"1000s", "1000000000us"}, {"25000kbps, 1us", "25Mbps,1us"}};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct spec spec, again;
		char text[SPEC_NETWORK];

		spec_init(&spec);
		spec_init(&again);
		assert_ok(spec_set_cluster(&spec, "network", texts[i][0], NULL));
		assert_string_equal(spec_network_format(&spec, text), texts[i][1]);
		assert_ok(spec_set_cluster(&again, "network", text, NULL));
		assert_true(spec_is_same(&spec, &again));
	}
}

static void groups_round_half_up(void **state)
{
	static const struct {
		uint32_t size, threshold, least;
	} cases[] = {{5, 200, 1}, {5, 300, 2}, {5, 299, 1}, {5, 500, 3}, {1, 1, 1},
		{65536, 1000, 65536}, {0, 1000, 1}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct spec spec = {
			.group_size = cases[i].size, .group_threshold = cases[i].threshold};

		assert_int_equal(spec_group_least(&spec), cases[i].least);
	}
}

static void patterns(void **state)
{
	static const struct {
		const char *model, *name;
		bool fits;
	} models[] = {
		{"H200", "NVIDIA H200", true},
		{"h200", "NVIDIA H200 NVL", true},
		{"=NVIDIA-H200", "NVIDIA H200", true},
		{"=NVIDIA-H200", "NVIDIA H200 NVL", false},
		{"=H200", "NVIDIA H200", false},
		{"A100,V100", "Tesla V100-PCIE-32GB", true},
		{"A100, V100", "Tesla V100-PCIE-32GB", true},
		{"A100,V100", "Tesla T4", false},
		{"!1080,!2080", "NVIDIA GeForce GTX 1080 Ti", false},
		{"!1080,!2080", "NVIDIA A10", true},
		{"A100,!SXM", "NVIDIA A100-SXM4-40GB", false},
		{"A100,!SXM", "NVIDIA A100-PCIE-40GB", true},
		{"NVIDIA H200 NVL", "NVIDIA H200", false},
		{"tesla_v100", "Tesla V100-PCIE-32GB", true},
	};
	struct spec spec;

	spec_init(&spec);
	assert_true(spec_model_fits(&spec, "anything"));
	assert_true(spec_device_fits(&spec, "GPU-1"));
	assert_int_equal(spec_devices_named(&spec), 0);
	for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
		assert_ok(spec_set(&spec, "model", models[i].model, NULL));
		if (spec_model_fits(&spec, models[i].name) != models[i].fits)
			fail_msg("%s %s", models[i].model, models[i].name);
	}
	assert_ok(spec_set(&spec, "device", "gpu-1,GPU-22,!GPU-3", NULL));
	assert_true(spec_device_fits(&spec, "GPU-1"));
	assert_true(spec_device_fits(&spec, "GPU-22"));
	assert_false(spec_device_fits(&spec, "GPU-2"));
	assert_false(spec_device_fits(&spec, "GPU-3"));
	assert_int_equal(spec_devices_named(&spec), 2);
	assert_ok(spec_set(&spec, "device", "!GPU-3", NULL));
	assert_true(spec_device_fits(&spec, "GPU-1"));
	assert_int_equal(spec_devices_named(&spec), 0);
}

static void comparison_covers_every_field(void **state)
{
	static const char *const others[] = {"limit=1", "request=0.6", "limit=0.9", "count=2",
		"memory=1", "memory=1%", "memory-policy=swap", "class=latency", "priority=1",
		"mode=remote", "model=x", "device=x", "affinity=x", "anti-affinity=x",
		"preferred-anti-affinity=x", "exclusion=", "exclusion=x", "group=x",
		"group=x group-size=2", "group=x group-size=2 group-threshold=0.5", "network=1Gbps",
		"network=1us"};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		for (size_t k = 0; k < ARRAY_SIZE(others); k++) {
			char one[128], other[128];
			struct spec a, b;

			snprintf(one, sizeof(one), "request=0.5 %s", others[i]);
			snprintf(other, sizeof(other), "request=0.5 %s", others[k]);
			assert_ok(build(one, &a, NULL));
			assert_ok(build(other, &b, NULL));
			assert_int_equal(spec_is_same(&a, &b), i == k);
		}
}

static void fields_have_names(void **state)
{
	char name[SPEC_FIELD];
	size_t n = 0;

	for (; spec_field_name(n, name); n++) {
		struct error err = {0};
		struct spec spec;

		spec_init(&spec);
		assert_non_null(spec_field_help(n));
		assert_null(strchr(name, '_'));
		assert_int_not_equal(spec_set_cluster(&spec, name, "\x01", &err), -ENOENT);
	}
	assert_int_equal(n, 18);
	assert_null(spec_field_help(n));
}

static void unmet_preferences_are_reported(void **state)
{
	char text[SPEC_CONFLICTS];

	assert_string_equal(spec_conflicts_format("a", 0, text), "");
	assert_string_equal(spec_conflicts_format("a", 1, text),
		"beside 1 tenant that preferred-anti-affinity 'a' would keep apart");
	assert_contains(spec_conflicts_format("a", 2, text), "beside 2 tenants");
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
	assert_contains(err.msg, "'a b': expected 1 to 63 characters of A-Z");
}

UNIT_MAIN(UNIT(defaults), UNIT(shares_are_exact), UNIT(every_share_is_read_back),
	UNIT(whole_devices_are_exclusive), UNIT(priority_0_is_opportunistic),
	UNIT(memory_in_three_forms), UNIT(refusals_name_field_value_and_expected_value),
	UNIT(a_refusal_changes_nothing), UNIT(fields_may_be_in_any_order),
	UNIT(fields_of_a_cluster), UNIT(networks_are_read_back), UNIT(groups_round_half_up),
	UNIT(patterns), UNIT(comparison_covers_every_field), UNIT(fields_have_names), UNIT(names),
	UNIT(unmet_preferences_are_reported), UNIT(names_of_tenants))
