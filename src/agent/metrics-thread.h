/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP and HTTPS server of divvyd, in a thread of ordinary priority with a loop of its own.
 * Connections, TLS handshakes and authorisation by the API server therefore cost the daemon's loop
 * no time. The thread has no access to the agent. When an authorised client asks, it gets text that
 * the daemon's loop has rendered, and it gets a heartbeat once a second. Only the daemon's loop
 * calls these functions, except for those that answer requests.
 */
#ifndef AGENT_METRICS_THREAD_H
#define AGENT_METRICS_THREAD_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/agent.h"
#include "base/error.h"

/* /healthz answers 503 when the daemon's loop has not run for this long. */
#define METRICS_BEAT_MAX_NS (UINT64_C(15) * 1000000000)

struct metrics_thread;
struct http_request;

/* A further server, run by the caller on the thread's loop. The caller decides who may ask. */
struct metrics_server {
	/* Called before the thread runs. Routes call metrics_thread_answer*() with the thread. */
	int (*start)(
		void *data, struct metrics_thread *thread, struct loop *loop, struct error *err);
	/*
	 * Called when the thread has ended and every request has its answer, also where start() was
	 * never called.
	 */
	void (*stop)(void *data);
	/* Called on the daemon's loop once a second, for the answer to /readyz. */
	bool (*is_ready)(void *data);
	void *data;
	size_t max_connections; /* connections that may ask for /metrics */
};

struct metrics_thread_options {
	const char *local; /* an address for metrics_check(), served over HTTP; NULL: none */
	const struct metrics_server *server; /* copied; NULL: none */
};

/* Borrows the options. An error's message names the option. */
int metrics_thread_new(struct agent *agent, const struct metrics_thread_options *options,
	struct metrics_thread **ret_thread, struct error *err);
/* Call before agent_free(). Accepts NULL. */
void metrics_thread_free(struct metrics_thread *thread);

/* Handlers for routes of a metrics_server, called in the thread: /metrics, /healthz, /readyz. */
void metrics_thread_answer(void *thread, struct http_request *request);
void metrics_thread_answer_health(void *thread, struct http_request *request);
void metrics_thread_answer_ready(void *thread, struct http_request *request);

#endif
