/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /metrics in Prometheus' text form and /healthz, over HTTP on a unix socket ("unix:PATH") or a
 * loopback port ("127.0.0.1:9400", "[::1]:9400", ":9400"). Asks nothing of the devices while a
 * request is answered.
 */
#ifndef AGENT_METRICS_H
#define AGENT_METRICS_H

#include "access/page.h"
#include "agent/agent.h"
#include "agent/node.h"
#include "base/str.h"

/* -EINVAL: an address that others could reach, or none at all. */
int metrics_check(const char *address, struct error *err);
/* NULL: none; else one that metrics_check() has let pass. */
int metrics_new(struct agent *agent, const char *address, struct error *err);

/* In a cluster: over HTTPS at options->listen, /metrics for who may; the page is the caller's. */
int metrics_serve(struct agent *agent, struct kube_client *client,
	const struct node_options *options, struct page **ret_page, struct error *err);

/* The text itself. */
int metrics_format(struct agent *agent, struct buf *out);

#endif
