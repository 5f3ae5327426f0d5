/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The web page: what is told of the cluster's objects becomes its state (page-state.h), and who
 * looks at it is told all of that and then each change by server-sent events, together with what
 * else has changed within a quarter of a second. Who may look is the guard's business, before.
 *
 * Paths: / and its files for all, which say nothing of the cluster; /session to sign in and out;
 * guarded: /events/ and behind it the last event's id for who was away, /history/UID/CONTAINER.
 * One thread, on the loop.
 */
#ifndef CONTROLLER_PAGE_H
#define CONTROLLER_PAGE_H

#include <jansson.h>

#include "base/error.h"
#include "base/loop.h"
#include "http/server.h"

#define PAGE_COOKIE "__Host-divvy-token"
#define PAGE_TOKEN_MAX 3500u /* with it a cookie may have 4096 bytes */

#define PAGE_NODES_MAX 10000u
#define PAGE_WAITING_MAX 1000u  /* of more, the number is shown */
#define PAGE_TENANTS_MAX 20000u /* with a history */
#define PAGE_VIEWERS_MAX 32u
#define PAGE_TEXT_MAX (16u << 20) /* of all there is, and what may wait for one viewer */

struct page;

int page_new(struct loop *loop, struct page **ret_page, struct error *err);
/* After its server. NULL is fine. */
void page_free(struct page *page);

/* The object is this now; a reference is taken. NULL: it has gone. */
void page_set_gpu_node(struct page *page, const char *name, json_t *object);
void page_set_lease(struct page *page, const char *name, json_t *object);
void page_set_pod(struct page *page, const char *ns, const char *name, const json_t *object);

/* Nobody is told anything before. */
void page_set_ready(struct page *page);

/* Who may get this may see the page. */
#define PAGE_RIGHT "/metrics"

/* Answers what has come by one of these routes, all of them with the handler that calls it. */
void page_serve(struct page *page, struct http_request *request);
#define PAGE_N_ROUTES 8u
#define PAGE_ROUTES(handler) \
	{"GET", "/", handler}, {"GET", "/page.css", handler}, {"GET", "/page.js", handler}, \
		{"GET", "/session", handler, true, PAGE_RIGHT}, \
		{"POST", "/session", handler, true, PAGE_RIGHT}, {"DELETE", "/session", handler}, \
		{"GET", "/events/*", handler, true, PAGE_RIGHT}, \
	{ \
		"GET", "/history/*", handler, true \
	}

struct page_counts {
	uint32_t n_viewers, n_nodes, n_silent, n_waiting, n_histories;
	uint64_t n_told; /* events */
};
struct page_counts page_counts(const struct page *page);

#endif
