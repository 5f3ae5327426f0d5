/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which labels of a node divvy writes, changes, removes, and leaves to other programs. */
#include "controller/node-labels.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "kube/kube-json.h"
#include "unit-json.h"

#define T4 "{'uuid':'GPU-a','model':'Tesla T4','memoryBytes':16106127360}"
#define DRIVER ",'versions':{'driver':'580.65.06'}"
#define OF_T4 "'devices':[" T4 "]" DRIVER

static json_t *node_labels_patch_of(const char *metadata, const char *status)
{
	json_t *node, *gpu_node = NULL, *patch;
	char text[2048];

	snprintf(text, sizeof(text), "{'metadata':{'resourceVersion':'7',%s}}", metadata);
	node = unit_json(text);
	if (status) {
		snprintf(text, sizeof(text), "{'status':{%s}}", status);
		gpu_node = unit_json(text);
	}
	patch = node_labels_patch(node, gpu_node);
	json_decref(node);
	json_decref(gpu_node);
	return patch;
}

static const json_t *labels_in(const json_t *patch)
{
	return json_object_get(json_object_get(patch, "metadata"), "labels");
}

static const char *record_in(const json_t *patch)
{
	return json_string_value(
		json_object_get(json_object_get(json_object_get(patch, "metadata"), "annotations"),
			NODE_LABELS_RECORD));
}

static void labels_describe_the_devices(void **state)
{
	static const struct {
		const char *status, *key, *value; /* NULL: no such label */
	} cases[] = {
		{OF_T4, "divvy.gpu/device-model", "Tesla-T4"},
		{OF_T4, "divvy.gpu/device-memory-mib", "15360"},
		{OF_T4, "divvy.gpu/device-count", "1"},
		{OF_T4, "divvy.gpu/driver-version", "580.65.06"},
		{OF_T4, "nvidia.com/gpu.product", "Tesla-T4"},
		{OF_T4, "nvidia.com/gpu.memory", "15360"},
		{OF_T4, "nvidia.com/gpu.count", "1"},
		{OF_T4, "nvidia.com/cuda.driver-version.full", "580.65.06"},
		{OF_T4, "nvidia.com/cuda.driver-version.major", "580"},
		{OF_T4, "nvidia.com/cuda.driver-version.minor", "65"},
		{OF_T4, "nvidia.com/cuda.driver-version.revision", "06"},
		{OF_T4, "nvidia.com/cuda.driver.major", "580"},
		{OF_T4, "nvidia.com/cuda.driver.minor", "65"},
		{OF_T4, "nvidia.com/cuda.driver.rev", "06"},
		{"'devices':[" T4 "," T4 "]", "divvy.gpu/device-count", "2"},
		{"'devices':[" T4 "," T4 "]", "divvy.gpu/device-model", "Tesla-T4"},
		{"'devices':[" T4 "," T4 "]", "divvy.gpu/driver-version", NULL},
		/* Devices that differ have no common model. */
		{"'devices':[" T4 ",{'model':'L4','memoryBytes':16106127360}]",
			"nvidia.com/gpu.product", NULL},
		{"'devices':[" T4 ",{'model':'L4','memoryBytes':16106127360}]",
			"nvidia.com/gpu.memory", "15360"},
		{"'devices':[" T4 ",{'model':'Tesla T4','memoryBytes':1}]", "nvidia.com/gpu.memory",
			NULL},
		/* a driver's version of two parts, and one with a word */
		{"'devices':[" T4 "],'versions':{'driver':'550.120'}",
			"nvidia.com/cuda.driver-version.minor", "120"},
		{"'devices':[" T4 "],'versions':{'driver':'550.120'}",
			"nvidia.com/cuda.driver-version.revision", NULL},
		{"'devices':[" T4 "],'versions':{'driver':'580.00.simulated'}",
			"nvidia.com/cuda.driver-version.revision", NULL},
		{"'devices':[" T4 "],'versions':{'driver':'580.00.simulated'}",
			"nvidia.com/cuda.driver-version.full", "580.00.simulated"},
		/* models that are no value of a label */
		{"'devices':[{'model':'NVIDIA A100-SXM4-40GB MIG 1g.5gb','memoryBytes':1}]",
			"divvy.gpu/device-model", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"},
		{"'devices':[{'model':' (a / b)_ ','memoryBytes':1}]", "divvy.gpu/device-model",
			"a-b"},
		{"'devices':[{'model':'+','memoryBytes':1}]", "divvy.gpu/device-model", NULL},
		{"'devices':[{'model':"
		 "'123456789-123456789-123456789-123456789-123456789-123456789-12-'"
		 ",'memoryBytes':1}]",
			"divvy.gpu/device-model",
			"123456789-123456789-123456789-123456789-123456789-123456789-12"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *patch = node_labels_patch_of("'name':'n'", cases[i].status);
		const char *value = json_string_value(
			json_object_get(labels_in(patch), cases[i].key));

		assert_non_null(patch);
		if (!value != !cases[i].value || (value && strcmp(value, cases[i].value) != 0))
			fail_msg("%s: %s is %s, expected %s", cases[i].status, cases[i].key,
				value ? value : "absent", cases[i].value ? cases[i].value : "none");
	}
}

/* Each case looks at nvidia.com/gpu.count alone. */
static void labels_of_other_programs_stay(void **state)
{
#define KEY "nvidia.com/gpu.count"
#define LABEL(value) "'labels':{'" KEY "':'" value "'}"
#define RECORD(value) "'annotations':{'divvy.gpu/labels':'x=y," KEY "=" value "'}"
#define NFD "'nfd.node.kubernetes.io/feature-labels':'cpu-model.id," KEY "'"
	static const struct {
		const char *metadata, *status;
		const char *change; /* of the label: a value, "null", or NULL for none */
		bool is_recorded;   /* afterwards */
	} cases[] = {
		{"'name':'n'", OF_T4, "1", true},
		{LABEL("1") "," RECORD("1"), OF_T4, NULL, true},
		/* divvy's own label follows the devices, and goes with them. */
		{LABEL("2") "," RECORD("2"), OF_T4, "1", true},
		{LABEL("2") "," RECORD("2"), "'devices':[]", "null", false},
		{LABEL("2") "," RECORD("2"), NULL, "null", false},
		/* A label that somebody has removed comes back. */
		{RECORD("1"), OF_T4, "1", true},
		{RECORD("1"), NULL, NULL, false},
		/* labels that divvy has not written, with another value or the same */
		{LABEL("8"), OF_T4, NULL, false},
		{LABEL("1"), OF_T4, NULL, false},
		{LABEL("8"), NULL, NULL, false},
		/* Another program has changed divvy's label. */
		{LABEL("8") "," RECORD("1"), OF_T4, NULL, false},
		{LABEL("8") "," RECORD("1"), NULL, NULL, false},
		{LABEL("1") "," RECORD("12"), OF_T4, NULL, false},
		/* node-feature-discovery lists the label as its own. */
		{LABEL("1") ",'annotations':{'divvy.gpu/labels':'" KEY "=1'," NFD "}", OF_T4, NULL,
			false},
		{LABEL("1") ",'annotations':{'divvy.gpu/labels':'" KEY "=1'," NFD "}", NULL, NULL,
			false},
		{"'annotations':{" NFD "}", OF_T4, NULL, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *patch = node_labels_patch_of(
			cases[i].metadata, cases[i].status);
		const json_t *change = json_object_get(labels_in(patch), KEY);
		const char *value = json_is_null(change) ? "null" : json_string_value(change),
			   *record = record_in(patch);

		if (!value != !cases[i].change || (value && strcmp(value, cases[i].change) != 0))
			fail_msg("case %zu: changed to %s", i, value ? value : "nothing");
		if (patch && (record && strstr(record, KEY "=")) != cases[i].is_recorded)
			fail_msg("case %zu: recorded: %s", i, record ? record : "nothing");
	}
}

static void a_node_that_has_its_labels_needs_no_write(void **state)
{
	_cleanup_json_ json_t *node = node_labels_patch_of("'name':'n'", OF_T4),
			      *gpu_node = unit_json("{'status':{" OF_T4 "}}"), *removal = NULL,
			      *empty = unit_json("{'metadata':{'name':'n'}}"),
			      *reported = unit_json("{'status':{'devices':[]}}"), *none = NULL;

	assert_string_equal(
		kube_json_text(json_object_get(node, "metadata"), "resourceVersion"), "7");
	/* The patch of a bare node is the node with its labels. */
	assert_null(node_labels_patch(node, gpu_node));
	/* A GPUNode that was made again says nothing about devices before divvyd's report. */
	assert_null(node_labels_patch(node, empty));
	/* divvyd reports that the node has no device any more. */
	none = node_labels_patch(node, reported);
	assert_true(json_is_null(json_object_get(labels_in(none), "nvidia.com/gpu.product")));
	/* Without divvy, the labels that divvy wrote are removed, and the record. */
	removal = node_labels_patch(node, NULL);
	assert_int_equal(json_object_size(labels_in(removal)), json_object_size(labels_in(node)));
	assert_true(json_is_null(json_object_get(labels_in(removal), "nvidia.com/gpu.product")));
	assert_non_null(removal);
	assert_null(record_in(removal));
	assert_null(node_labels_patch_of("'name':'n'", NULL));
}

/* A node's account may write the record, but must not direct the controller to any other label. */
static void the_record_reaches_no_other_label(void **state)
{
	_cleanup_json_ json_t *patch = node_labels_patch_of(
		"'labels':{'node-restriction.kubernetes.io/a':'b'},'annotations':{"
		"'divvy.gpu/labels':'node-restriction.kubernetes.io/a=b'}",
		NULL);

	assert_int_equal(json_object_size(labels_in(patch)), 0);
	assert_null(record_in(patch));
}

UNIT_MAIN(UNIT(labels_describe_the_devices), UNIT(labels_of_other_programs_stay),
	UNIT(a_node_that_has_its_labels_needs_no_write), UNIT(the_record_reaches_no_other_label))
