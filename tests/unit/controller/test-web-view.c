/* SPDX-License-Identifier: Apache-2.0 */
#include "unit-json.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "controller/web-view.h"

#define NODE \
	"{\"metadata\":{\"name\":\"gpu-1\"}," \
	"\"spec\":{\"cordoned\":[{\"uuid\":\"GPU-b\",\"reason\":\"<i>fan</i>\"}]}," \
	"\"status\":{\"devices\":[" \
	"{\"uuid\":\"GPU-a\",\"index\":0,\"model\":\"H200\",\"memoryBytes\":100,\"health\":" \
	"\"Healthy\",\"owner\":\"divvy\",\"simulated\":true}," \
	"{\"uuid\":\"GPU-b\",\"index\":1,\"model\":\"H200\",\"memoryBytes\":100,\"health\":" \
	"\"Gone\",\"reason\":\"it has left\"}]," \
	"\"tenants\":[" \
	"{\"podUID\":\"u1\",\"namespace\":\"n\",\"pod\":\"p\",\"container\":\"c\",\"slot\":\"1\"," \
	"\"devices\":[\"GPU-b\",\"GPU-a\"],\"request\":300,\"limit\":600,\"memoryBytes\":[5,6]," \
	"\"class\":\"latency\",\"priority\":50,\"mode\":\"local\",\"epoch\":1,\"note\":\"\"}," \
	"{\"podUID\":\"u2\",\"namespace\":\"n\",\"pod\":\"q\",\"container\":\"c\",\"devices\":" \
	"[\"GPU-a\"],\"request\":1,\"limit\":1000,\"memoryBytes\":[7]}]," \
	"\"versions\":{\"divvyd\":\"0.1.0\"},\"conditions\":[" \
	"{\"type\":\"Ready\",\"status\":\"False\",\"reason\":\"NoDriver\",\"message\":\"none\"}," \
	"{\"type\":\"OwnerConflict\",\"status\":\"False\",\"reason\":\"None\"}]}}"

static void a_node_is_shown(void **state)
{
	_cleanup_json_ json_t *node = unit_json(NODE);
	_cleanup_free_ char *text = web_view_node(node, 0);

	assert_string_equal(text,
		"{\"alive\":true,\"simulated\":true,\"version\":\"0.1.0\",\"devices\":["
		"{\"uuid\":\"GPU-a\",\"index\":0,\"model\":\"H200\",\"bytes\":100,\"health\":"
		"\"Healthy\",\"owner\":\"divvy\"},"
		"{\"uuid\":\"GPU-b\",\"index\":1,\"model\":\"H200\",\"bytes\":100,\"health\":"
		"\"Gone\",\"why\":\"it has left\",\"cordoned\":\"<i>fan</i>\"}],\"tenants\":["
		"{\"uid\":\"u1\",\"namespace\":\"n\",\"pod\":\"p\",\"container\":\"c\",\"devices\":"
		"[1,0],\"request\":300,\"limit\":600,\"bytes\":[5,6],\"class\":\"latency\","
		"\"priority\":50,\"mode\":\"local\"},"
		"{\"uid\":\"u2\",\"namespace\":\"n\",\"pod\":\"q\",\"container\":\"c\",\"devices\":"
		"[0],\"request\":1,\"limit\":1000,\"bytes\":[7]}],\"trouble\":["
		"{\"what\":\"Ready\",\"reason\":\"NoDriver\",\"message\":\"none\"}]}");
}

static void a_summary_counts_devices_and_sums_tenants(void **state)
{
	_cleanup_json_ json_t *node = unit_json(NODE);
	_cleanup_free_ char *text = web_view_summary(node, 0, STR("u1/c=200:5,100:6"));
	_cleanup_free_ char *silent = web_view_summary(node, 7, STR(""));
	_cleanup_json_ json_t *one = unit_json(silent);

	assert_string_equal(text,
		"{\"alive\":true,\"simulated\":true,\"tenants\":2,\"trouble\":["
		"{\"what\":\"Ready\",\"reason\":\"NoDriver\",\"message\":\"none\"}],"
		"\"granted\":601,\"given\":18,\"n\":2,\"closed\":2,\"idle\":0,\"room\":0,"
		"\"bad\":1,\"bytes\":200,\"model\":\"H200\",\"used\":300}");
	assert_int_equal(json_integer_value(json_object_get(one, "since")), 7);
	assert_false(json_is_true(json_object_get(one, "alive")));
	assert_null(json_object_get(one, "used"));
	assert_int_equal(web_view_count_devices(node), 2);
}

static void sums_of_a_summary_do_not_overflow(void **state)
{
	_cleanup_json_ json_t *node = unit_json(
		"{'status':{'devices':[{'uuid':'a','memoryBytes':9223372036854775807},"
		"{'uuid':'b','memoryBytes':1}],'tenants':[{'devices':['a','a','b'],"
		"'request':9223372036854775807,'memoryBytes':[9223372036854775807,1]},"
		"{'devices':['b'],'request':9223372036854775807,'memoryBytes':[1]}]}}");
	_cleanup_free_ char *text = web_view_summary(node, 0, STR(""));
	_cleanup_json_ json_t *summary = unit_json(text);
	static const char *const keys[] = {"granted", "given", "bytes"};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		assert_int_equal(json_integer_value(json_object_get(summary, keys[i])), INT64_MAX);
	assert_int_equal(json_integer_value(json_object_get(summary, "room")), 0);
}

/* Any GPUNode, even with fields of wrong types, gives an item of valid JSON. */
static void a_strange_node_is_shown(void **state)
{
	static const char *const strange[] = {"{}", "[]", "{\"status\":7}",
		"{\"status\":{\"devices\":{},\"tenants\":\"x\",\"conditions\":[1,null,{}]}}",
		"{\"status\":{\"devices\":[1,{\"uuid\":5,\"index\":\"0\"}],\"tenants\":[null]}}",
		"{\"status\":{\"tenants\":[{\"podUID\":[],\"devices\":[\"GPU-x\",3]}]}}",
		"{\"spec\":{\"cordoned\":[{}]}}"};

	for (size_t i = 0; i < ARRAY_SIZE(strange); i++) {
		_cleanup_json_ json_t *node = unit_json(strange[i]);
		_cleanup_free_ char *text = web_view_node(node, 1767225600);
		_cleanup_free_ char *use = web_view_use(node, STR("u/c=1:2 ? =")), *waiting = NULL;
		_cleanup_free_ char *summary = web_view_summary(node, 0, STR("u/c=1:2 ? ="));
		_cleanup_json_ json_t *back = unit_json(text), *back_use = unit_json(use);
		_cleanup_json_ json_t *back_summary = unit_json(summary);

		assert_true(json_is_array(json_object_get(back, "devices")));
		assert_true(json_is_array(back_use));
		assert_true(json_is_integer(json_object_get(back_summary, "n")));
		assert_false(web_view_is_waiting(node));
		waiting = web_view_waiting(node);
		assert_non_null(waiting);
	}
}

static void use_is_in_the_order_of_the_tenants(void **state)
{
	_cleanup_json_ json_t *node = unit_json(NODE);
	_cleanup_free_ char *none = web_view_use(node, STR("")),
			    *both = web_view_use(
				    node, STR("u2/c=7:8 junk u9/c=1:1 u1/c=300:5,400:6")),
			    *one = web_view_use(node, STR("u2/x=1:1 u2/c=9:9"));

	assert_string_equal(none, "[null,null]");
	assert_string_equal(both, "[[300,5,400,6],[7,8]]");
	assert_string_equal(one, "[null,[9,9]]");
}

struct told {
	char text[256];
};

static void on_use(void *data, const char *key, uint32_t share, uint64_t bytes)
{
	struct told *told = data;
	const size_t n = strlen(told->text);

	snprintf(told->text + n, sizeof(told->text) - n, "%s %u %llu;", key, share,
		(unsigned long long)bytes);
}

static void on_gone(void *data, const char *key)
{
	struct told *told = data;
	const size_t n = strlen(told->text);

	snprintf(told->text + n, sizeof(told->text) - n, "%s;", key);
}

static void sums_are_over_the_devices(void **state)
{
	_cleanup_json_ json_t *node = unit_json(NODE);
	struct told told = {""};

	web_view_each_use(node, STR("u1/c=300:5,400:6 u2/c=7:8 u3/c=1:1"), on_use, &told);
	assert_string_equal(told.text, "u1/c 700 11;u2/c 7 8;");
}

static void removed_tenants_are_reported(void **state)
{
	_cleanup_json_ json_t *before = unit_json(NODE), *now = unit_json(NODE),
			      *other = unit_json(NODE);
	json_t *tenants = kube_json_at(now, "status", "tenants", NULL);
	struct told told = {""};

	web_view_each_removed(before, other, on_gone, &told);
	assert_string_equal(told.text, "");
	json_array_remove(tenants, 0);
	web_view_each_removed(before, now, on_gone, &told);
	assert_string_equal(told.text, "u1/c;");
	web_view_each_removed(now, before, on_gone, &told);
	assert_string_equal(told.text, "u1/c;");
	web_view_each_removed(now, NULL, on_gone, &told);
	assert_string_equal(told.text, "u1/c;u2/c;");
}

#define POD(more, spec, status) \
	"{\"metadata\":{\"labels\":{\"divvy.gpu/tenant\":\"true\"},\"creationTimestamp\":" \
	"\"2026-01-02T03:04:05Z\"" more "},\"spec\":{" spec "\"containers\":[{\"resources\":" \
	"{\"limits\":{\"divvy.gpu/milli\":\"300\",\"divvy.gpu/memory-mib\":\"4096\"}}},{}," \
	"{\"resources\":{\"limits\":{\"divvy.gpu/milli\":\"1k\"}}}]},\"status\":{\"phase\":" \
	"\"Pending\"" status "}}"

static const struct {
	const char *pod;
	bool waits;
	const char *shown;
} pods[] = {
	{POD("", "",
		 ",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"
		 "\"Unschedulable\",\"message\":\"0/1 nodes: 1 no GPU with 0.5 free\"}]"),
		true,
		"{\"since\":1767323045,\"milli\":1300,\"mib\":4096,\"reason\":\"Unschedulable\","
		"\"why\":\"0/1 nodes: 1 no GPU with 0.5 free\"}"},
	{POD("", "", ""), true, "{\"since\":1767323045,\"milli\":1300,\"mib\":4096}"},
	{POD("", "\"nodeName\":\"gpu-1\",",
		 ",\"containerStatuses\":[{\"state\":{\"running\":{}}},{\"state\":{\"waiting\":"
		 "{\"reason\":\"ImagePullBackOff\",\"message\":\"no such image\"}}}]"),
		true,
		"{\"since\":1767323045,\"milli\":1300,\"mib\":4096,\"node\":\"gpu-1\",\"reason\":"
		"\"ImagePullBackOff\",\"why\":\"no such image\"}"},
	{POD(",\"deletionTimestamp\":\"2026-01-02T03:04:05Z\"", "", ""), false, NULL},
	{"{\"metadata\":{\"labels\":{}},\"status\":{\"phase\":\"Pending\"}}", false, NULL},
	{"{\"metadata\":{\"labels\":{\"divvy.gpu/tenant\":\"true\"}},\"status\":{\"phase\":"
	 "\"Running\"}}",
		false, NULL},
};

static void pods_that_wait_are_shown(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(pods); i++) {
		_cleanup_json_ json_t *pod = unit_json(pods[i].pod);
		_cleanup_free_ char *text = web_view_waiting(pod);

		if (web_view_is_waiting(pod) != pods[i].waits)
			fail_msg("%zu: %s", i, pods[i].pod);
		if (pods[i].waits)
			assert_string_equal(text, pods[i].shown);
	}
}

UNIT_MAIN(UNIT(a_node_is_shown), UNIT(a_summary_counts_devices_and_sums_tenants),
	UNIT(sums_of_a_summary_do_not_overflow), UNIT(a_strange_node_is_shown),
	UNIT(use_is_in_the_order_of_the_tenants), UNIT(sums_are_over_the_devices),
	UNIT(removed_tenants_are_reported), UNIT(pods_that_wait_are_shown))
