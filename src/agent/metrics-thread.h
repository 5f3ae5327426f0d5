/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What divvyd serves over HTTP and HTTPS, in a thread of ordinary priority with a loop of its own:
 * connections, handshakes and the API server's word on who may cost the daemon's loop nothing. The
 * thread sees nothing of the agent. It gets text that the loop has rendered, when somebody who may
 * has asked for it, and a sign of life once a second. These functions are for the loop's thread,
 * but for those that answer requests.
 */
#ifndef AGENT_METRICS_THREAD_H
#define AGENT_METRICS_THREAD_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/agent.h"
#include "base/error.h"

/* /healthz is 503 when the daemon's loop has not run for so long. */
#define METRICS_BEAT_MAX_NS (UINT64_C(15) * 1000000000)

struct metrics_thread;
struct http_request;

/* The caller's own server on the thread's loop: who may ask there is the caller's business. */
struct metrics_server {
	/* Before the thread runs. Its routes call metrics_thread_answer*() with the thread. */
	int (*start)(
		void *data, struct metrics_thread *thread, struct loop *loop, struct error *err);
	/* The thread has ended and every request has its answer; also where nothing has started. */
	void (*stop)(void *data);
	/* On the daemon's loop, once a second: the answer to /readyz. */
	bool (*is_ready)(void *data);
	void *data;
	size_t max_connections; /* of those that may ask for /metrics */
};

struct metrics_thread_options {
	const char *local;                   /* as metrics_check() has it, over HTTP; NULL: none */
	const struct metrics_server *server; /* copied; NULL: none */
};

/* The options are borrowed. Errors name the option. */
int metrics_thread_new(struct agent *agent, const struct metrics_thread_options *options,
	struct metrics_thread **ret_thread, struct error *err);
/* Before the agent. NULL is fine. */
void metrics_thread_free(struct metrics_thread *thread);

/* Handlers for routes of a metrics_server, in the thread: of /metrics, /healthz and /readyz. */
void metrics_thread_answer(void *thread, struct http_request *request);
void metrics_thread_answer_health(void *thread, struct http_request *request);
void metrics_thread_answer_ready(void *thread, struct http_request *request);

#endif
