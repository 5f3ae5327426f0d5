/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file assembles the HTTPS server of a daemon from the guard, the server and its certificate.
 * The kubelet's probes get a second server without TLS, guard and certificate. The guard exists
 * before the server that calls it. page_free() also ends the guard first, because the guard then
 * answers its waiting requests through the server. page_free() accepts a page that page_serve()
 * left half-built.
 */
#include "access/access-page.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "http/issue.h"
#include "http/http-tls.h"

#define CA_MAX (1u << 20)

struct page {
	struct http_server *server, *health; /* health NULL: no server for probes */
	struct access *access;
};

static int serve_health(
	struct page *page, struct loop *loop, const struct page_options *o, struct error *err)
{
	const struct http_options http = {.address = o->health,
		.max_connections = PAGE_HEALTH_CONNECTIONS_MAX,
		.max_per_address = PAGE_HEALTH_CONNECTIONS_MAX,
		.max_body = PAGE_BODY_MAX,
		.request_ns = PAGE_HEALTH_NS,
		.idle_ns = PAGE_HEALTH_NS,
		.gives_way_at_once = true,
		.routes = o->health_routes,
		.n_routes = o->n_health_routes,
		.data = o->data};

	return http_server_new(loop, &http, &page->health, err);
}

static int page_serve(struct page *page, struct kube_client *client, const struct page_options *o,
	struct error *err)
{
	struct http_options http = {.address = o->address,
		.is_tls = true,
		.max_connections = PAGE_CONNECTIONS_MAX,
		.max_body = PAGE_BODY_MAX,
		.idle_ns = PAGE_IDLE_NS,
		.routes = o->routes,
		.n_routes = o->n_routes,
		.data = o->data,
		.guard = access_guard};
	_cleanup_buf_ struct buf ca = BUF_INIT(CA_MAX);
	int r = access_new(client, &page->access, err);

	http.guard_data = page->access;
	if (r >= 0 && o->client_ca_file) {
		r = file_read(o->client_ca_file, &ca, err);
		http.client_ca = buf_text(&ca);
		if (r >= 0 && http_tls_check_authorities(http.client_ca, err) < 0)
			r = fail_within(err, -EINVAL, "%s", o->client_ca_file);
	}
	if (r >= 0)
		access_accept_cookie(page->access, o->cookie);
	r = r < 0 ? r : http_server_new(kube_client_loop(client), &http, &page->server, err);
	if (r >= 0 && o->health)
		r = serve_health(page, kube_client_loop(client), o, err);
	if (r >= 0 && o->cert_file)
		return http_server_read(page->server, o->cert_file, o->key_file, err);
	if (r >= 0 && o->name)
		return http_server_issue(page->server, o->name, o->host, err);
	return r;
}

int page_new(struct kube_client *client, const struct page_options *options, struct page **ret_page,
	struct error *err)
{
	struct page *page = calloc(1, sizeof(*page));
	int r = page ? page_serve(page, client, options, err) : fail(err, ENOMEM, "out of memory");

	if (r < 0) {
		page_free(page);
		return r;
	}
	*ret_page = page;
	return 0;
}

void page_free(struct page *page)
{
	if (!page)
		return;
	access_free(page->access);
	http_server_free(page->server);
	http_server_free(page->health);
	free(page);
}

struct http_server *page_server(struct page *page)
{
	return page->server;
}
