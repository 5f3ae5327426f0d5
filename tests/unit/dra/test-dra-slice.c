/* SPDX-License-Identifier: Apache-2.0 */
#include "dra/dra-slice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "dra/dra-claim.h"
#include "kube/kube-json.h"
#include "unit.h"

#define GIB (UINT64_C(1) << 30)
#define MANY 40

static struct slice_device devices[MANY];
static char uuids[MANY][64];

static struct slice_node node_with(size_t n)
{
	for (size_t i = 0; i < n; i++) {
		snprintf(uuids[i], sizeof(uuids[i]), "GPU-%08zx-0000-0000-0000-000000000000", i);
		devices[i] = (struct slice_device){.uuid = uuids[i],
			.model = "NVIDIA H200",
			.pci = "0000:6A:00.0",
			.usable_bytes = 80 * GIB + 5,
			.compute_major = 9,
			.numa = 1,
			.nvlink_group = 0};
	}
	return (struct slice_node){.name = "node-1",
		.uid = "node-uid",
		.driver = "535.104.05",
		.cuda_version = 12020,
		.devices = devices,
		.n_devices = n};
}

static json_t *build(const struct slice_node *node, int64_t generation)
{
	json_t *slices = slice_build(node, generation);

	assert_non_null(slices);
	return slices;
}

/* The member at that path of the only shared or whole device. */
static const json_t *device_in(const json_t *slices, const char *prefix)
{
	const json_t *all = kube_json_at(json_array_get(slices, 1), "spec", "devices", NULL);

	for (size_t i = 0; i < json_array_size(all); i++)
		if (!strncmp(
			    kube_json_text(json_array_get(all, i), "name"), prefix, strlen(prefix)))
			return json_array_get(all, i);
	fail_msg("no device %s", prefix);
	return NULL;
}

static void a_device_is_in_the_pool_whole_and_shared(void **state)
{
	const struct slice_node node = node_with(1);
	_cleanup_json_ json_t *slices = build(&node, 7);
	const json_t *counters, *share, *whole;

	assert_int_equal(json_array_size(slices), 2);
	counters = json_object_get(json_array_get(slices, 0), "spec");
	assert_null(json_object_get(counters, "devices"));
	assert_string_equal(
		kube_json_text(
			json_array_get(json_object_get(counters, "sharedCounters"), 0), "name"),
		"gpu-00000000-0000-0000-0000-000000000000");
	share = device_in(slices, "share-");
	whole = device_in(slices, "gpu-");
	assert_true(json_is_true(json_object_get(share, "allowMultipleAllocations")));
	assert_null(json_object_get(whole, "allowMultipleAllocations"));
	/* Both consume all of the same counter. */
	assert_true(json_equal(json_object_get(share, "consumesCounters"),
		json_object_get(whole, "consumesCounters")));
	assert_null(kube_json_at(whole, "capacity", "share", NULL));
	assert_string_equal(kube_json_text_at(share, "capacity", "share", "value", NULL), "1k");
	/* Without a request a claim consumes all, in whole blocks. */
	assert_string_equal(
		kube_json_text_at(share, "capacity", "memory", "requestPolicy", "default", NULL),
		"80Gi");
	assert_string_equal(kube_json_text_at(share, "capacity", "memory", "requestPolicy",
				    "validRange", "step", NULL),
		"2Mi");
}

static void attributes_describe_the_device(void **state)
{
	const struct slice_node node = node_with(1);
	_cleanup_json_ json_t *slices = build(&node, 7);
	const json_t *all = json_object_get(device_in(slices, "share-"), "attributes");

	assert_string_equal(kube_json_text_at(all, "type", "string", NULL), "share");
	assert_string_equal(kube_json_text_at(all, "uuid", "string", NULL), uuids[0]);
	assert_string_equal(kube_json_text_at(all, "model", "string", NULL), "NVIDIA H200");
	/* A semantic version has no leading zeros. */
	assert_string_equal(kube_json_text_at(all, "driverVersion", "version", NULL), "535.104.5");
	assert_string_equal(kube_json_text_at(all, "cudaVersion", "version", NULL), "12.2.0");
	assert_string_equal(
		kube_json_text_at(all, "cudaComputeCapability", "version", NULL), "9.0.0");
	assert_string_equal(
		kube_json_text_at(all, "resource.kubernetes.io/pciBusID", "string", NULL),
		"0000:6a:00.0");
	assert_true(json_is_false(kube_json_at(all, "simulated", "bool", NULL)));
	assert_null(json_object_get(all, "architecture")); /* the driver does not say */
	assert_string_equal(
		kube_json_text_at(device_in(slices, "gpu-"), "attributes", "type", "string", NULL),
		"gpu");
}

static void slices_have_the_api_s_limits(void **state)
{
	const struct slice_node node = node_with(MANY);
	_cleanup_json_ json_t *slices = build(&node, 7);
	size_t n_sets = 0, n_devices = 0, i;
	json_t *slice;

	assert_int_equal(json_array_size(slices), MANY / 8 + 2);
	json_array_foreach(slices, i, slice) {
		const json_t *spec = json_object_get(slice, "spec");
		const size_t sets = json_array_size(json_object_get(spec, "sharedCounters")),
			     some = json_array_size(json_object_get(spec, "devices"));

		assert_true(sets <= SLICE_COUNTER_SETS_MAX && some <= SLICE_DEVICES_MAX);
		assert_true(!sets != !some);
		n_sets += sets;
		n_devices += some;
		assert_int_equal(
			json_integer_value(kube_json_at(spec, "pool", "resourceSliceCount", NULL)),
			json_array_size(slices));
		assert_int_equal(slice_generation(slice), 7);
	}
	assert_int_equal(n_sets, MANY);
	assert_int_equal(n_devices, 2 * MANY);
}

static void a_node_without_devices_has_no_slice(void **state)
{
	const struct slice_node node = node_with(0);
	_cleanup_json_ json_t *slices = build(&node, 1);

	assert_int_equal(json_array_size(slices), 0);
}

static void devices_that_no_slice_can_have_are_left_out(void **state)
{
	const struct slice_node node = node_with(4);
	_cleanup_json_ json_t *slices = NULL;
	const char *why = NULL;

	devices[0].uuid = "GPU-with space";
	devices[1].usable_bytes = 1 << 20;
	devices[2].usable_bytes = UINT64_MAX;
	slices = build(&node, 1);
	assert_int_equal(json_array_size(slices), 2);
	assert_int_equal(
		json_array_size(kube_json_at(json_array_get(slices, 1), "spec", "devices", NULL)),
		2);
	assert_false(slice_admits(&devices[0], &why));
	assert_contains(why, "UUID");
	assert_false(slice_admits(&devices[1], &why));
	assert_contains(why, "less than 4 MiB");
	assert_false(slice_admits(&devices[2], &why));
	assert_contains(why, "more memory");
	assert_true(slice_admits(&devices[3], NULL));
}

static const char *share_min_of(const struct slice_node *node)
{
	_cleanup_json_ json_t *slices = build(node, 1);
	static char text[16];

	snprintf(text, sizeof(text), "%s",
		kube_json_text_at(device_in(slices, "share-"), "capacity", "share", "requestPolicy",
			"validRange", "min", NULL));
	return text;
}

/* The smallest shares of all devices together are never more than the tenants of the node. */
static void no_more_shares_than_tenants_are_offered(void **state)
{
	static const struct {
		size_t n_devices;
		const char *min;
	} cases[] = {{1, "1"}, {4, "1"}, {5, "2"}, {8, "2"}, {9, "3"}, {32, "8"}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct slice_node node = node_with(cases[i].n_devices);

		node.tenants_max = 4096;
		assert_true(SPEC_SHARE_ONE / slice_share_min(&node) * node.n_devices <= 4096);
		if (node.n_devices < 5) /* one slice of counters, one of devices */
			assert_string_equal(share_min_of(&node), cases[i].min);
		assert_int_equal(slice_share_min(&node), strtol(cases[i].min, NULL, 10));
		node.tenants_max = 1;
		assert_int_equal(slice_share_min(&node), SPEC_SHARE_ONE);
		node.tenants_max = 0;
		assert_int_equal(slice_share_min(&node), 1);
	}
}

static void faults_are_taints(void **state)
{
	const struct slice_node node = node_with(1);
	_cleanup_json_ json_t *slices = NULL;
	const json_t *taints;

	devices[0].taints[0] = (struct slice_taint){
		"divvy.gpu/xid", "48", true, UINT64_C(1700000000) * 1000000000};
	devices[0].taints[1] = (struct slice_taint){"divvy.gpu/cordoned", "", false, 0};
	devices[0].n_taints = 2;
	slices = build(&node, 1);
	taints = json_object_get(device_in(slices, "gpu-"), "taints");
	assert_int_equal(json_array_size(taints), 2);
	assert_string_equal(kube_json_text(json_array_get(taints, 0), "effect"), "NoExecute");
	assert_string_equal(kube_json_text(json_array_get(taints, 0), "value"), "48");
	assert_string_equal(
		kube_json_text(json_array_get(taints, 0), "timeAdded"), "2023-11-14T22:13:20Z");
	assert_string_equal(kube_json_text(json_array_get(taints, 1), "effect"), "NoSchedule");
	assert_null(json_object_get(json_array_get(taints, 1), "value"));
	assert_null(json_object_get(json_array_get(taints, 1), "timeAdded"));
	assert_true(json_equal(taints, json_object_get(device_in(slices, "share-"), "taints")));
}

static void an_unchanged_slice_needs_no_write(void **state)
{
	struct slice_node node = node_with(1);
	_cleanup_json_ json_t *before = build(&node, 7), *after = build(&node, 8);
	json_t *theirs = json_array_get(before, 1), *ours = json_array_get(after, 1), *changed;

	/* The generation is no content, and the server adds members. */
	json_object_set_new(json_object_get(theirs, "metadata"), "uid", json_string("x"));
	assert_true(slice_is_as(theirs, ours));
	devices[0].taints[0] = (struct slice_taint){"divvy.gpu/lost", "", true, 0};
	devices[0].n_taints = 1;
	changed = build(&node, 9);
	assert_false(slice_is_as(theirs, json_array_get(changed, 1)));
	/* A taint that has gone is a change, too. */
	assert_false(slice_is_as(json_array_get(changed, 1), ours));
	json_decref(changed);
	devices[0].n_taints = 0;
	node.uid = "another";
	changed = build(&node, 9);
	assert_false(slice_is_as(theirs, json_array_get(changed, 1)));
	json_decref(changed);
	assert_false(slice_is_as(NULL, ours));
}

static void names_begin_with_the_node(void **state)
{
	const struct slice_node node = node_with(1);
	_cleanup_json_ json_t *slices = build(&node, 7);
	char prefix[SLICE_NAME], name[300];

	assert_string_equal(slice_prefix("node-1", prefix), "node-1-divvy.gpu-");
	assert_string_equal(kube_json_text_at(json_array_get(slices, 1), "metadata", "name", NULL),
		"node-1-divvy.gpu-1");
	memset(name, 'n', 253);
	name[253] = '\0';
	slice_prefix(name, prefix);
	assert_true(strlen(prefix) < 250);
}

UNIT_MAIN(cmocka_unit_test(a_device_is_in_the_pool_whole_and_shared),
	cmocka_unit_test(attributes_describe_the_device),
	cmocka_unit_test(slices_have_the_api_s_limits),
	cmocka_unit_test(a_node_without_devices_has_no_slice),
	cmocka_unit_test(devices_that_no_slice_can_have_are_left_out),
	cmocka_unit_test(no_more_shares_than_tenants_are_offered),
	cmocka_unit_test(faults_are_taints), cmocka_unit_test(an_unchanged_slice_needs_no_write),
	cmocka_unit_test(names_begin_with_the_node))
