/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What divvyd serves over HTTP and HTTPS, in a thread of ordinary priority with a loop of its own:
 * connections, handshakes and the API server's word on who may cost the daemon's loop nothing. The
 * thread sees nothing of the agent. It gets text that the loop has rendered, when somebody who may
 * has asked for it, and a sign of life once a second. These functions are for the loop's thread.
 */
#ifndef AGENT_METRICS_THREAD_H
#define AGENT_METRICS_THREAD_H

#include "agent/agent.h"
#include "agent/node.h"
#include "base/error.h"

/* /healthz is 503 when the daemon's loop has not run for so long. */
#define METRICS_BEAT_MAX_NS (UINT64_C(15) * 1000000000)

struct metrics_thread;

struct metrics_thread_options {
	const char *local;               /* as metrics_check() has it, over HTTP; NULL: none */
	const struct node_options *node; /* over HTTPS, and health over HTTP; NULL: none */
};

/* The options are borrowed. Errors name the option. */
int metrics_thread_new(struct agent *agent, const struct metrics_thread_options *options,
	struct metrics_thread **ret_thread, struct error *err);
/* Before the agent. NULL is fine. */
void metrics_thread_free(struct metrics_thread *thread);

#endif
