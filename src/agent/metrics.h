/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of /metrics, in Prometheus' form, and the address where it is served without protection
 * (metrics-thread.h): a unix socket ("unix:PATH") or a loopback port ("127.0.0.1:9400",
 * "[::1]:9400", ":9400"). Asks nothing of the devices. The loop's thread.
 */
#ifndef AGENT_METRICS_H
#define AGENT_METRICS_H

#include "agent/agent.h"
#include "base/str.h"

/* -EINVAL: an address that others could reach, or none at all. */
int metrics_check(const char *address, struct error *err);

/* The text itself. */
int metrics_format(struct agent *agent, struct buf *out);

#endif
