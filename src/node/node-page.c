/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's HTTP server in a cluster: /metrics over HTTPS for clients that the API server
 * authorises, and health for the kubelet's probes. It runs on the loop of the metrics thread
 * (agent/metrics-thread.h), and has a Kubernetes client of its own, because the node's client
 * belongs to the daemon's loop.
 */
#include "node/node-internal.h"

#include <errno.h>
#include <stdlib.h>

#include "access/access-page.h"
#include "agent/metrics-thread.h"
#include "http/server.h"
#include "kube/kube-client.h"
#include "kube/kube-config.h"

struct node_page {
	const struct node *node;
	struct metrics_thread *thread;
	struct kube_config *config;
	struct kube_client *client;
	struct page *page;
};

static const struct http_route health_routes[] = {
	{"GET", "/healthz", metrics_thread_answer_health},
	{"GET", "/readyz", metrics_thread_answer_ready},
};

static const struct http_route guarded_routes[] = {
	{"GET", "/healthz", metrics_thread_answer_health},
	{"GET", "/readyz", metrics_thread_answer_ready},
	{"GET", "/metrics", metrics_thread_answer, .is_guarded = true},
};

static int page_start(
	void *data, struct metrics_thread *thread, struct loop *loop, struct error *err)
{
	struct node_page *p = data;
	const struct node_options *o = &p->node->options;
	const struct kube_config_source source = {.files = o->kubeconfig};
	const struct page_options page = {.address = o->listen,
		.name = "divvyd",
		.host = o->name,
		.routes = guarded_routes,
		.n_routes = ARRAY_SIZE(guarded_routes),
		.health = o->health_listen,
		.health_routes = health_routes,
		.n_health_routes = ARRAY_SIZE(health_routes),
		.data = thread};
	int r = kube_config_load(o->kubeconfig ? &source : NULL, &p->config, err);

	r = r < 0 ? r : kube_client_new(loop, p->config, NULL, &p->client, err);
	return r < 0 ? r : page_new(p->client, &page, &p->page, err);
}

static void page_stop(void *data)
{
	struct node_page *p = data;

	page_free(p->page);
	kube_client_free(p->client);
	kube_config_free(p->config);
}

static bool page_is_ready(void *data)
{
	const struct node_page *p = data;

	return kube_cache_is_synced(p->node->pods);
}

int node_page_new(struct node *node, struct error *err)
{
	struct node_page *p = calloc(1, sizeof(*p));
	const struct metrics_server server = {.start = page_start,
		.stop = page_stop,
		.is_ready = page_is_ready,
		.data = p,
		.max_connections = PAGE_CONNECTIONS_MAX};
	const struct metrics_thread_options options = {.server = &server};
	int r;

	if (!p)
		return fail(err, ENOMEM, "out of memory");
	p->node = node;
	r = metrics_thread_new(node->agent, &options, &p->thread, err);
	if (r < 0) {
		free(p);
		return r;
	}
	node->page = p;
	return 0;
}

void node_page_free(struct node *node)
{
	if (!node->page)
		return;
	metrics_thread_free(node->page->thread);
	free(node->page);
	node->page = NULL;
}
