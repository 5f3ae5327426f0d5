/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dashboard: API objects become its state (web-state.h). A viewer gets the whole state and then
 * changes by server-sent events, collected over a quarter of a second. The HTTP server checks the
 * rights of a viewer before it calls these functions. In a cluster with more than WEB_DEVICES_SENT
 * devices the events have summaries of the nodes.
 *
 * Paths: / and its files are public and contain no data. /session signs in and out. These paths
 * need WEB_RIGHT: /events/, followed by the last event id that a returning viewer got,
 * /history/UID/CONTAINER, /nodes/NAME (the devices of a node), and /find?words=WORDS (the names of
 * the nodes that have all these words). One thread, on the loop.
 */
#ifndef CONTROLLER_WEB_H
#define CONTROLLER_WEB_H

#include <jansson.h>

#include "base/error.h"
#include "base/loop.h"
#include "http/server.h"

#define WEB_COOKIE "__Host-divvy-token"
#define WEB_TOKEN_MAX 3500u /* a cookie with such a token fits into 4096 bytes */

#define WEB_NODES_MAX 10000u
/*
 * With more devices than this, a viewer gets a summary of each node, and asks for the devices of
 * the nodes that it shows.
 */
#define WEB_DEVICES_SENT 2000u
/* most waiting pods in the page's list; the page shows only the number of the other ones */
#define WEB_WAITING_MAX 1000u
#define WEB_TENANTS_MAX 20000u /* most tenants with a history */
#define WEB_VIEWERS_MAX 32u
/* most bytes of the whole state, and of the data that waits for one viewer */
#define WEB_TEXT_MAX (16u << 20)

struct web;

int web_new(struct loop *loop, struct web **ret_web, struct error *err);
/* Call after the HTTP server is freed. NULL is allowed. */
void web_free(struct web *web);

/*
 * These functions set the present object and take a reference to it; NULL: the object was deleted.
 */
void web_set_gpu_node(struct web *web, const char *name, json_t *object);
void web_set_lease(struct web *web, const char *name, json_t *object);
void web_set_pod(struct web *web, const char *ns, const char *name, const json_t *object);

/*
 * Returns how long the API server has not answered. While it does not answer, the known objects may
 * be out of date, and no node counts as silent.
 */
typedef uint64_t web_silence_fn(void *data);
void web_set_silence(struct web *web, web_silence_fn *silence, void *data);

/* Call when the caches are complete: before, no viewer gets any data. */
void web_set_ready(struct web *web);

/* A user who may get this path may see the dashboard. */
#define WEB_RIGHT "/metrics"

/* Answers requests to the routes below. One handler serves all of them and calls this function. */
void web_serve(struct web *web, struct http_request *request);
#define WEB_N_ROUTES 10u
#define WEB_ROUTES(handler) \
	{"GET", "/", handler}, {"GET", "/web.css", handler}, {"GET", "/web.js", handler}, \
		{"GET", "/session", handler, true, WEB_RIGHT}, \
		{"POST", "/session", handler, true, WEB_RIGHT}, {"DELETE", "/session", handler}, \
		{"GET", "/events/*", handler, true, WEB_RIGHT}, \
		{"GET", "/nodes/*", handler, true, WEB_RIGHT}, \
		{"GET", "/find", handler, true, WEB_RIGHT}, \
	{ \
		"GET", "/history/*", handler, true, WEB_RIGHT \
	}

struct web_counts {
	uint32_t n_viewers, n_nodes, n_silent, n_waiting, n_histories;
	uint64_t n_sent; /* events sent */
};
struct web_counts web_counts(const struct web *web);

/*
 * Returns the latest measurements of the node's divvyd (spec/measured.h); STR_NONE: none, or divvyd
 * is silent.
 */
struct str web_measured(const struct web *web, const char *node);

#endif
