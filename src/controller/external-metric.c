/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file adds up pods in a struct external_sum, and the table `metrics` computes each metric
 * from the sums. A row's function returns false if the value is not known. external_metric_add()
 * finds a pod's tenants in GPUNode.status by the pod's UID, and their use in the Lease's
 * measurements by UID and container.
 */
#include "controller/external-metric.h"

#include <string.h>

#include "base/cleanup.h"
#include "controller/web-view.h"
#include "kube/time.h"
#include "spec/dialect.h"
#include "spec/measured.h"
#include "spec/quantity.h"

/* seconds between two measurements of divvyd, which publishes them when it renews its Lease */
#define WINDOW_S 10

#define DISCOVERY_TYPE(version) \
	"application/json;g=apidiscovery.k8s.io;v=" version ";as=APIGroupDiscoveryList"

/* ---- sums ---- */

static uint64_t request_milli(const json_t *tenant)
{
	const json_int_t request = json_integer_value(json_object_get(tenant, "request"));

	return (uint64_t)MAX(request, 0) * json_array_size(json_object_get(tenant, "devices"));
}

static void external_metric_add_tenant(
	struct external_sum *sum, const json_t *tenant, struct str uid, struct str measured)
{
	const char *container = kube_json_text_at(tenant, "container", NULL);
	const uint64_t granted = request_milli(tenant);
	struct measured m;

	sum->granted += granted;
	if (measured_find(measured, uid, str_from(container), &m) < 0)
		return;
	sum->n_measured++;
	sum->measured_granted += granted;
	for (uint32_t i = 0; i < m.n; i++) {
		sum->used += m.device[i].share_permille;
		sum->bytes += m.device[i].memory_bytes;
	}
}

static bool is_counted(const json_t *pod)
{
	const char *tenant = kube_json_text_at(
		pod, "metadata", "labels", DIALECT_TENANT_LABEL, NULL);

	return tenant && !strcmp(tenant, "true") && !kube_json_is_over(pod);
}

void external_metric_add(
	struct external_sum *sum, const json_t *pod, const json_t *gpu_node, struct str measured)
{
	const char *uid = kube_json_text_at(pod, "metadata", "uid", NULL);
	const json_t *tenants = kube_json_at(gpu_node, "status", "tenants", NULL), *t;
	size_t i;

	if (!uid || !is_counted(pod))
		return;
	sum->n_pods++;
	sum->n_waiting += web_view_is_waiting(pod);
	json_array_foreach(tenants, i, t)
		if (!strcmp(kube_json_text(t, "podUID"), uid))
			external_metric_add_tenant(sum, t, str_from(uid), measured);
}

/* ---- the metrics ---- */

/* get() returns false if the value is unknown. */
struct external_metric {
	const char *name;
	bool (*get)(const struct external_sum *sum, char *ret_quantity);
	bool is_measured; /* the value is a mean over WINDOW_S */
};

static bool external_metric_used(const struct external_sum *sum, char *ret_quantity)
{
	quantity_format_milli(sum->used, ret_quantity);
	return sum->n_measured > 0;
}

static bool external_metric_utilization(const struct external_sum *sum, char *ret_quantity)
{
	if (!sum->measured_granted)
		return false;
	quantity_format_milli(sum->used * 1000 / sum->measured_granted, ret_quantity);
	return true;
}

static bool external_metric_memory(const struct external_sum *sum, char *ret_quantity)
{
	quantity_format_bytes(sum->bytes, ret_quantity);
	return sum->n_measured > 0;
}

static bool external_metric_granted(const struct external_sum *sum, char *ret_quantity)
{
	quantity_format_milli(sum->granted, ret_quantity);
	return sum->n_pods > 0;
}

static bool external_metric_waiting(const struct external_sum *sum, char *ret_quantity)
{
	quantity_format_milli(sum->n_waiting * 1000, ret_quantity);
	return sum->n_pods > 0;
}

static const struct external_metric metrics[] = {
	{"divvy_gpu_used", external_metric_used, true},
	{"divvy_gpu_utilization", external_metric_utilization, true},
	{"divvy_gpu_memory_bytes", external_metric_memory, true},
	{"divvy_gpu_granted", external_metric_granted, false},
	{"divvy_pods_waiting", external_metric_waiting, false},
};

const struct external_metric *external_metric_find(struct str name)
{
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++)
		if (str_is(name, metrics[i].name))
			return &metrics[i];
	return NULL;
}

void external_metric_name_them(struct str name, struct buf *out)
{
	buf_addf(out, "no metric '%.*s': there are ", (int)MIN(name.n, (size_t)80), name.p);
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++)
		buf_addf(out, "%s%s",
			!i                                    ? ""
				: i + 1 < ARRAY_SIZE(metrics) ? ", "
							      : " and ",
			metrics[i].name);
}

/* ---- answers ---- */

json_t *external_metric_list(
	const struct external_metric *metric, const struct external_sum *sum, uint64_t real_ns)
{
	char quantity[QUANTITY_SIZE];
	json_t *items = json_array();

	if (metric->get(sum, quantity)) {
		json_t *value = json_pack("{s:s, s:{}, s:s, s:s}", "metricName", metric->name,
			"metricLabels", "timestamp", kube_time_format(real_ns).s, "value",
			quantity);

		if (metric->is_measured)
			json_object_set_new(value, "windowSeconds", json_integer(WINDOW_S));
		json_array_append_new(items, value);
	}
	return json_pack("{s:s, s:s, s:{}, s:o}", "kind", "ExternalMetricValueList", "apiVersion",
		EXTERNAL_METRIC_GROUP, "metadata", "items", items);
}

json_t *external_metric_resources(void)
{
	json_t *resources = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++)
		json_array_append_new(resources,
			json_pack("{s:s, s:s, s:b, s:s, s:[s]}", "name", metrics[i].name,
				"singularName", "", "namespaced", 1, "kind",
				"ExternalMetricValueList", "verbs", "get"));
	return json_pack("{s:s, s:s, s:s, s:o}", "kind", "APIResourceList", "apiVersion", "v1",
		"groupVersion", EXTERNAL_METRIC_GROUP, "resources", resources);
}

json_t *external_metric_group(void)
{
	return json_pack("{s:s, s:s, s:s, s:[{s:s, s:s}], s:{s:s, s:s}}", "kind", "APIGroup",
		"apiVersion", "v1", "name", EXTERNAL_METRIC_API, "versions", "groupVersion",
		EXTERNAL_METRIC_GROUP, "version", EXTERNAL_METRIC_VERSION, "preferredVersion",
		"groupVersion", EXTERNAL_METRIC_GROUP, "version", EXTERNAL_METRIC_VERSION);
}

/* An APIGroupDiscoveryList, in the form of apidiscovery.k8s.io. */
static json_t *external_metric_discovery(const char *version)
{
	json_t *resources = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++)
		json_array_append_new(resources,
			json_pack("{s:s, s:{s:s, s:s, s:s}, s:s, s:s, s:[s]}", "resource",
				metrics[i].name, "responseKind", "group", EXTERNAL_METRIC_API,
				"version", EXTERNAL_METRIC_VERSION, "kind",
				"ExternalMetricValueList", "scope", "Namespaced",
				"singularResource", "", "verbs", "get"));
	return json_pack("{s:s, s:s+, s:{}, s:[{s:{s:s}, s:[{s:s, s:s, s:o}]}]}", "kind",
		"APIGroupDiscoveryList", "apiVersion", "apidiscovery.k8s.io/", version, "metadata",
		"items", "metadata", "name", EXTERNAL_METRIC_API, "versions", "version",
		EXTERNAL_METRIC_VERSION, "freshness", "Current", "resources", resources);
}

/*
 * Returns whether the header names this type. Parameters such as a weight may follow the type in
 * the header.
 */
static bool external_metric_accepts(const char *accept, const char *type)
{
	struct str rest = accept ? str_from(accept) : STR_NONE, element;

	while (str_split(&rest, ',', &element)) {
		element = str_trim(element);
		if (str_skip_prefix(&element, str_from(type)) && (!element.n || *element.p == ';'))
			return true;
	}
	return false;
}

json_t *external_metric_groups(const char *accept, const char **ret_content_type)
{
	/* Forms of the list for clients that know aggregated discovery, the newest first. */
	static const struct {
		const char *version, *content_type;
	} forms[] = {
		{"v2", DISCOVERY_TYPE("v2")},
		{"v2beta1", DISCOVERY_TYPE("v2beta1")},
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		if (external_metric_accepts(accept, forms[i].content_type)) {
			*ret_content_type = forms[i].content_type;
			return external_metric_discovery(forms[i].version);
		}
	*ret_content_type = "application/json";
	return json_pack("{s:s, s:s, s:[o]}", "kind", "APIGroupList", "apiVersion", "v1", "groups",
		external_metric_group());
}

json_t *external_metric_refusal(int code, const char *reason, const char *message)
{
	return json_pack("{s:s, s:s, s:{}, s:s, s:s, s:s, s:i}", "kind", "Status", "apiVersion",
		"v1", "metadata", "status", "Failure", "message", message, "reason", reason, "code",
		code);
}
