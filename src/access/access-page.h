/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTPS server of a daemon in a cluster (http/server.h), guarded by the API server (access.h):
 * few connections, small bodies, short idle times. The kubelet's probes may have a port of their
 * own, without a handshake, whose connections other clients cannot exhaust. The loop's thread.
 */
#ifndef ACCESS_ACCESS_PAGE_H
#define ACCESS_ACCESS_PAGE_H

#include "access/access.h"

#define PAGE_CONNECTIONS_MAX 64u
#define PAGE_BODY_MAX (64u << 10)
#define PAGE_IDLE_NS (UINT64_C(30) * 1000000000)
#define PAGE_HEALTH_CONNECTIONS_MAX 64u
#define PAGE_HEALTH_NS (UINT64_C(2) * 1000000000) /* for a request, and for an idle connection */

struct page_options {
	const char *address; /* in the form of http/listen.h */
	/* The server's certificate: from these files, or made for name and host, or set later. */
	const char *cert_file, *key_file;
	const char *name, *host;
	const char *client_ca_file;      /* for http_options.client_ca; NULL: none */
	const char *cookie;              /* cookie that may carry a token; borrowed. NULL: none */
	const struct http_route *routes; /* borrowed */
	size_t n_routes;
	void *data; /* passed to all handlers */
	/* HTTP address for probes, with connections of its own; NULL: none. */
	const char *health;
	const struct http_route *health_routes; /* borrowed */
	size_t n_health_routes;
};

struct page;

/* Borrows the client. Errors name the address or the files. */
int page_new(struct kube_client *client, const struct page_options *options, struct page **ret_page,
	struct error *err);
/*
 * Call it before the client is freed, when the handlers have answered all requests that the guard
 * has passed. Accepts NULL.
 */
void page_free(struct page *page);

struct http_server *page_server(struct page *page);

#endif
