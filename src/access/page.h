/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a daemon in a cluster serves over HTTPS: an HTTP server (http/server.h) whose guard is the
 * API server (access.h). Few connections, small bodies, short idling. The kubelet's probes may have
 * a port of their own: no handshake, and no connection that another client can hold. The loop's
 * thread.
 */
#ifndef ACCESS_PAGE_H
#define ACCESS_PAGE_H

#include "access/access.h"

#define PAGE_CONNECTIONS_MAX 64u
#define PAGE_BODY_MAX (64u << 10)
#define PAGE_IDLE_NS (UINT64_C(30) * 1000000000)
#define PAGE_HEALTH_CONNECTIONS_MAX 64u
#define PAGE_HEALTH_NS (UINT64_C(2) * 1000000000) /* for a request, and without one */

struct page_options {
	const char *address; /* as http/listen.h has it */
	/* The certificate: of files; else made here, for that name and host; else given later. */
	const char *cert_file, *key_file;
	const char *name, *host;
	const char *client_ca_file;      /* of http_options.client_ca; NULL: none */
	const char *cookie;              /* a token may be in it, too; borrowed. NULL: none */
	const struct http_route *routes; /* borrowed */
	size_t n_routes;
	void *data; /* of all handlers */
	/* For probes, over HTTP, with connections of its own; NULL: nowhere. */
	const char *health;
	const struct http_route *health_routes; /* borrowed */
	size_t n_health_routes;
};

struct page;

/* The client is borrowed. Errors name the address or the files. */
int page_new(struct kube_client *client, const struct page_options *options, struct page **ret_page,
	struct error *err);
/* Before the client; what the guard has passed must have been answered. NULL is fine. */
void page_free(struct page *page);

struct http_server *page_server(struct page *page);

#endif
