/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /healthz to all, /metrics to who may `get /metrics` in the cluster: over HTTPS with a certificate
 * of our own making, new at each start. Who asks shows a token, and the API server says who that
 * is and whether he may; nothing is kept of the answer. The loop's thread; nothing blocks.
 */
#ifndef AGENT_NODE_SERVE_H
#define AGENT_NODE_SERVE_H

#include "agent/agent.h"
#include "kube/client.h"

#define SERVE_CONNS_MAX 64u
#define SERVE_TOKEN_MAX (16u << 10)

struct serve;

/* ":9445", "127.0.0.1:9445", "[::]:9445". -EINVAL: it is none. */
int serve_check(const char *address, struct error *err);

int serve_new(struct agent *agent, struct kube_client *client, const char *address,
	const char *name, struct serve **ret_serve, struct error *err);
/* Before the client. NULL is fine. */
void serve_free(struct serve *serve);

#endif
