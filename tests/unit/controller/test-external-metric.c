/* SPDX-License-Identifier: Apache-2.0 */
#include "unit-json.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "controller/external-metric.h"

#define LABELLED "'labels':{'divvy.gpu/tenant':'true'}"
#define POD(uid, more) "{'metadata':{'uid':'" uid "'," LABELLED "}," more "}"
#define RUNS "'spec':{'nodeName':'n'},'status':{'phase':'Running'}"
#define WAITS "'status':{'phase':'Pending'}"
#define ENDED "'spec':{'nodeName':'n'},'status':{'phase':'Succeeded'}"

#define NODE \
	"{'status':{'tenants':[" \
	"{'podUID':'u1','container':'a','devices':['d1'],'request':200}," \
	"{'podUID':'u1','container':'b','devices':['d1','d2'],'request':300}," \
	"{'podUID':'u2','container':'a','devices':['d2'],'request':1000}," \
	"{'podUID':'u3','container':'a','devices':['d2'],'request':7}]}}"
#define MEASURED \
	"u1/a=150:1048576 u1/b=100:1048576,50:1048576 u3/a=999:999 u9/a=999:999 junk u2/b=1:1"

static const char *const names[] = {"divvy_gpu_used", "divvy_gpu_utilization",
	"divvy_gpu_memory_bytes", "divvy_gpu_granted", "divvy_pods_waiting"};

static void add(struct external_sum *sum, const char *pod_text, const char *measured)
{
	_cleanup_json_ json_t *pod = unit_json(pod_text), *node = unit_json(NODE);

	external_metric_add(sum, pod, node, measured ? str_from(measured) : STR_NONE);
}

/* Checks all metrics. want: values in the order of `names`; NULL: no value. */
static void says(const struct external_sum *sum, const char *const want[])
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct external_metric *metric = external_metric_find(str_from(names[i]));
		_cleanup_json_ json_t *list = NULL;
		const json_t *items, *item;

		assert_non_null(metric);
		list = external_metric_list(metric, sum, 0);
		items = json_object_get(list, "items");
		item = json_array_get(items, 0);
		assert_int_equal(json_array_size(items), want[i] != NULL);
		if (!want[i])
			continue;
		assert_string_equal(kube_json_text_at(item, "metricName", NULL), names[i]);
		if (strcmp(kube_json_text_at(item, "value", NULL), want[i]))
			fail_msg("%s: %s, not %s", names[i], kube_json_text_at(item, "value", NULL),
				want[i]);
		assert_true(json_is_object(json_object_get(item, "metricLabels")));
	}
}

/* Without pods the values are unknown, which is not 0. */
static void without_pods_there_is_no_value(void **state)
{
	static const char *const none[ARRAY_SIZE(names)] = {NULL};
	struct external_sum sum = {0};

	says(&sum, none);
	add(&sum, POD("u1", ENDED), MEASURED);
	add(&sum, "{'metadata':{'uid':'u1'}," RUNS "}", MEASURED);
	add(&sum, "{}", MEASURED);
	add(&sum, "[]", MEASURED);
	says(&sum, none);
}

static void pods_are_summed_up(void **state)
{
	struct external_sum sum = {0};

	/* The two containers of u1 use 150 + 100 + 50 of the granted 200 + 2 x 300. */
	add(&sum, POD("u1", RUNS), MEASURED);
	says(&sum, (const char *const[]){"300m", "375m", "3Mi", "800m", "0"});
	/* A pod without a measurement adds to the granted share, but not to the used share. */
	add(&sum, POD("u2", RUNS), MEASURED);
	says(&sum, (const char *const[]){"300m", "375m", "3Mi", "1800m", "0"});
	add(&sum, POD("u4", WAITS), NULL);
	says(&sum, (const char *const[]){"300m", "375m", "3Mi", "1800m", "1"});
}

/* Old measurements of a silent node do not count. */
static void unmeasured_pods_have_no_value(void **state)
{
	struct external_sum sum = {0};

	add(&sum, POD("u1", RUNS), NULL);
	says(&sum, (const char *const[]){NULL, NULL, NULL, "800m", "0"});
	add(&sum, POD("u2", RUNS), "u2/a=1000:5");
	says(&sum, (const char *const[]){"1", "1", "5", "1800m", "0"});
}

static void the_list_is_as_kubernetes_reads_it(void **state)
{
	_cleanup_json_ json_t *want = unit_json(
		"{'kind':'ExternalMetricValueList','apiVersion':'external.metrics.k8s.io/v1beta1',"
		"'metadata':{},'items':[{'metricName':'divvy_gpu_used','metricLabels':{},"
		"'timestamp':'2026-01-02T03:04:05Z','value':'300m','windowSeconds':10}]}");
	_cleanup_json_ json_t *got = NULL, *resources = external_metric_resources(), *no = NULL;
	struct external_sum sum = {0};

	add(&sum, POD("u1", RUNS), MEASURED);
	got = external_metric_list(external_metric_find(STR("divvy_gpu_used")), &sum,
		UINT64_C(1767323045) * 1000000000);
	assert_true(json_equal(got, want));
	assert_string_equal(kube_json_text_at(resources, "groupVersion", NULL),
		"external.metrics.k8s.io/v1beta1");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_string_equal(
			kube_json_text_at(
				json_array_get(json_object_get(resources, "resources"), i), "name",
				NULL),
			names[i]);
	assert_int_equal(
		json_array_size(json_object_get(resources, "resources")), ARRAY_SIZE(names));
	no = external_metric_refusal(404, "NotFound", "why");
	assert_string_equal(kube_json_text_at(no, "message", NULL), "why");
	assert_int_equal(json_integer_value(json_object_get(no, "code")), 404);
}

#define TYPE(version) \
	"application/json;g=apidiscovery.k8s.io;v=" version ";as=APIGroupDiscoveryList"

/* The aggregator's header Accept since Kubernetes 1.30, and in 1.27 to 1.29. */
static void a_client_gets_the_newest_form_of_discovery_that_it_reads(void **state)
{
	static const struct {
		const char *accept, *type, *kind, *version;
	} cases[] = {
		{TYPE("v2") "," TYPE("v2beta1"), TYPE("v2"), "APIGroupDiscoveryList",
			"apidiscovery.k8s.io/v2"},
		{TYPE("v2beta1") ", " TYPE("v2") ";q=0.9, application/json", TYPE("v2"),
			"APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"},
		{TYPE("v2beta1"), TYPE("v2beta1"), "APIGroupDiscoveryList",
			"apidiscovery.k8s.io/v2beta1"},
		{TYPE("v2beta11"), "application/json", "APIGroupList", "v1"},
		{TYPE("v3") ",application/json", "application/json", "APIGroupList", "v1"},
		{"*/*", "application/json", "APIGroupList", "v1"},
		{"", "application/json", "APIGroupList", "v1"},
		{NULL, "application/json", "APIGroupList", "v1"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *type = NULL;
		_cleanup_json_ json_t *got = external_metric_groups(cases[i].accept, &type);

		assert_string_equal(type, cases[i].type);
		assert_string_equal(kube_json_text_at(got, "kind", NULL), cases[i].kind);
		assert_string_equal(kube_json_text_at(got, "apiVersion", NULL), cases[i].version);
	}
}

static void discovery_lists_every_metric(void **state)
{
	const char *type;
	_cleanup_json_ json_t *got = external_metric_groups(TYPE("v2"), &type),
			      *list = external_metric_resources();
	const json_t *group = json_array_get(json_object_get(got, "items"), 0);
	const json_t *version = json_array_get(json_object_get(group, "versions"), 0);
	const json_t *resources = json_object_get(version, "resources");
	const json_t *listed = json_object_get(list, "resources");

	assert_string_equal(
		kube_json_text_at(group, "metadata", "name", NULL), "external.metrics.k8s.io");
	assert_string_equal(kube_json_text_at(version, "version", NULL), "v1beta1");
	assert_string_equal(kube_json_text_at(version, "freshness", NULL), "Current");
	assert_int_equal(json_array_size(resources), json_array_size(listed));
	for (size_t i = 0; i < json_array_size(listed); i++) {
		const json_t *r = json_array_get(resources, i);

		assert_string_equal(kube_json_text_at(r, "resource", NULL),
			kube_json_text_at(json_array_get(listed, i), "name", NULL));
		assert_string_equal(kube_json_text_at(r, "scope", NULL), "Namespaced");
		assert_string_equal(kube_json_text_at(r, "responseKind", "kind", NULL),
			"ExternalMetricValueList");
	}
}

static void unknown_metrics_are_reported(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT(4096);

	assert_null(external_metric_find(STR("gpu")));
	assert_null(external_metric_find(STR("")));
	external_metric_name_them(STR("gpu"), &text);
	assert_string_equal(buf_text(&text),
		"no metric 'gpu': there are divvy_gpu_used, divvy_gpu_utilization, "
		"divvy_gpu_memory_bytes, divvy_gpu_granted and divvy_pods_waiting");
}

UNIT_MAIN(UNIT(without_pods_there_is_no_value), UNIT(pods_are_summed_up),
	UNIT(unmeasured_pods_have_no_value), UNIT(the_list_is_as_kubernetes_reads_it),
	UNIT(a_client_gets_the_newest_form_of_discovery_that_it_reads),
	UNIT(discovery_lists_every_metric), UNIT(unknown_metrics_are_reported))
