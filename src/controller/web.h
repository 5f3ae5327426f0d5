/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The web page: what is told of the cluster's objects becomes its state (web-state.h), and who
 * looks at it is told all of that and then each change by server-sent events, together with what
 * else has changed within a quarter of a second. Who may look is the guard's business, before.
 *
 * Paths: / and its files for all, which say nothing of the cluster; /session to sign in and out;
 * guarded: /events/ and behind it the last event's id for who was away, /history/UID/CONTAINER.
 * One thread, on the loop.
 */
#ifndef CONTROLLER_WEB_H
#define CONTROLLER_WEB_H

#include <jansson.h>

#include "base/error.h"
#include "base/loop.h"
#include "http/server.h"

#define WEB_COOKIE "__Host-divvy-token"
#define WEB_TOKEN_MAX 3500u /* with it a cookie may have 4096 bytes */

#define WEB_NODES_MAX 10000u
#define WEB_WAITING_MAX 1000u  /* of more, the number is shown */
#define WEB_TENANTS_MAX 20000u /* with a history */
#define WEB_VIEWERS_MAX 32u
#define WEB_TEXT_MAX (16u << 20) /* of all there is, and what may wait for one viewer */

struct web;

int web_new(struct loop *loop, struct web **ret_web, struct error *err);
/* After its server. NULL is fine. */
void web_free(struct web *web);

/* The object is this now; a reference is taken. NULL: it has gone. */
void web_set_gpu_node(struct web *web, const char *name, json_t *object);
void web_set_lease(struct web *web, const char *name, json_t *object);
void web_set_pod(struct web *web, const char *ns, const char *name, const json_t *object);

/* For how long the API server has not answered. What is known is old then, no node is blamed. */
typedef uint64_t web_silence_fn(void *data);
void web_set_silence(struct web *web, web_silence_fn *silence, void *data);

/* Nobody is told anything before. */
void web_set_ready(struct web *web);

/* Who may get this may see the page. */
#define WEB_RIGHT "/metrics"

/* Answers what has come by one of these routes, all of them with the handler that calls it. */
void web_serve(struct web *web, struct http_request *request);
#define WEB_N_ROUTES 8u
#define WEB_ROUTES(handler) \
	{"GET", "/", handler}, {"GET", "/web.css", handler}, {"GET", "/web.js", handler}, \
		{"GET", "/session", handler, true, WEB_RIGHT}, \
		{"POST", "/session", handler, true, WEB_RIGHT}, {"DELETE", "/session", handler}, \
		{"GET", "/events/*", handler, true, WEB_RIGHT}, \
	{ \
		"GET", "/history/*", handler, true, WEB_RIGHT \
	}

struct web_counts {
	uint32_t n_viewers, n_nodes, n_silent, n_waiting, n_histories;
	uint64_t n_told; /* events */
};
struct web_counts web_counts(const struct web *web);

/* What the node's daemon measured last (spec/measured.h); STR_NONE: nothing, or it is silent. */
struct str web_measured(const struct web *web, const char *node);

#endif
