/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves external metrics: through an APIService to the API server, or directly to a client with a
 * token. All answers come from the caches.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/controller.h"
#include "controller/external-metric.h"
#include "manifest/label-selector.h"

#define TEXT_MAX 4096u

/* Answers the request with `json`, and releases `json`. */
static void external_send_as(
	struct http_request *request, unsigned int status, const char *type, json_t *json)
{
	_cleanup_free_ char *text = json ? kube_json_format(json) : NULL;

	json_decref(json);
	if (text)
		http_answer(request, status, type, str_from(text));
	else
		http_answer(request, 503, HTTP_TEXT, STR("out of memory\n"));
}

static void external_send_json(struct http_request *request, unsigned int status, json_t *json)
{
	external_send_as(request, status, "application/json", json);
}

static void external_send_status(
	struct http_request *request, unsigned int status, const char *reason, const char *message)
{
	external_send_json(request, status, external_metric_refusal((int)status, reason, message));
}

void external_on_nothing(void *data, struct http_request *request)
{
	external_send_status(request, 404, "NotFound", "no API description here");
}

/*
 * API servers request the three paths of the functions below as a user without groups, so no
 * account has a right to these paths. The answers contain only names that the documentation has
 * too.
 */
void external_on_groups(void *data, struct http_request *request)
{
	const char *type;
	json_t *groups = external_metric_groups(http_header(request, "Accept"), &type);

	external_send_as(request, 200, type, groups);
}

void external_on_group(void *data, struct http_request *request)
{
	external_send_json(request, 200, external_metric_group());
}

void external_on_resources(void *data, struct http_request *request)
{
	external_send_json(request, 200, external_metric_resources());
}

static void external_sum_pods(
	const struct controller *c, struct str ns, const json_t *selector, struct external_sum *sum)
{
	const struct kube_entry *e = NULL;

	while ((e = controller_next(c, CACHE_PODS, e))) {
		const char *node = kube_json_text_at(e->object, "spec", "nodeName", NULL);

		if (!str_is(ns, e->namespace_name) ||
			!label_selector_fits(
				selector, kube_json_at(e->object, "metadata", "labels", NULL)))
			continue;
		external_metric_add(sum, e->object,
			node ? controller_find(c, CACHE_GPU_NODES, "", node) : NULL,
			node ? web_measured(c->web, node) : STR_NONE);
	}
}

void external_on_metric(void *data, struct http_request *request)
{
	const struct controller *c = data;
	struct str path = str_from(http_path(request)), ns = STR_NONE;
	_cleanup_buf_ struct buf text = BUF_INIT(TEXT_MAX);
	const struct external_metric *metric;
	_cleanup_json_ json_t *selector = NULL;
	struct external_sum sum = {0};
	struct error err;

	str_skip_prefix(&path, STR("/apis/" EXTERNAL_METRIC_GROUP "/"));
	if (!str_skip_prefix(&path, STR("namespaces/")) || !str_split(&path, '/', &ns) || !ns.n ||
		!path.n) {
		external_send_status(
			request, 404, "NotFound", "expected namespaces/NAMESPACE/METRIC");
		return;
	}
	metric = external_metric_find(path);
	if (!metric) {
		external_metric_name_them(path, &text);
		external_send_status(request, 404, "NotFound", buf_text(&text));
		return;
	}
	if (label_selector_parse(str_from(http_query(request, "labelSelector")), &selector, &err) <
		0) {
		external_send_status(request, 400, "BadRequest", err.msg);
		return;
	}
	if (!controller_is_synced(c, CACHE_PODS) || !controller_is_synced(c, CACHE_GPU_NODES) ||
		!controller_is_synced(c, CACHE_LEASES)) {
		external_send_status(request, 503, "ServiceUnavailable",
			"still reading pods, GPUNodes and Leases; retry");
		return;
	}
	external_sum_pods(c, ns, selector, &sum);
	external_send_json(request, 200, external_metric_list(metric, &sum, clock_real_ns()));
}

void external_look_at_front(struct controller *c)
{
	const json_t *config_map = controller_find(
		c, CACHE_FRONT, "kube-system", "extension-apiserver-authentication");
	struct front *front = NULL;
	struct error err = {0};
	int r = config_map ? front_new(config_map, &front, &err) : -ENOENT;

	if (r >= 0)
		r = http_server_set_client_ca(c->webhook, front_authorities(front), &err);
	if (r < 0 && r != -ENOENT)
		log_warn("%s", err.msg);
	if (r < 0) {
		front_free(front);
		front = NULL;
	}
	access_set_front(c->access, front);
	front_free(c->front);
	c->front = front;
}
