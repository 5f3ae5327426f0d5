/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /healthz to all, /metrics to who may `get /metrics` in the cluster: over HTTPS with a certificate
 * of our own making, new at each start. The loop's thread; nothing blocks.
 */
#ifndef AGENT_NODE_SERVE_H
#define AGENT_NODE_SERVE_H

#include "agent/agent.h"
#include "agent/node.h"
#include "kube/client.h"

struct serve;

int serve_new(struct agent *agent, struct kube_client *client, const struct node_options *options,
	struct serve **ret_serve, struct error *err);
/* Before the client. NULL is fine. */
void serve_free(struct serve *serve);

#endif
