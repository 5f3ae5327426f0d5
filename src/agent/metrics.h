/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of /metrics in Prometheus' format, and the check of the address that serves it without
 * protection (metrics-thread.h). Such an address is a unix socket ("unix:PATH") or a loopback port
 * ("127.0.0.1:9400", "[::1]:9400", ":9400"). Only the loop's thread calls these functions, and they
 * ask no device.
 */
#ifndef AGENT_METRICS_H
#define AGENT_METRICS_H

#include "agent/agent.h"
#include "base/str.h"

/* -EINVAL: no valid address, or one that other machines could reach. */
int metrics_check(const char *address, struct error *err);

/* Appends the text to `out`. */
int metrics_format(struct agent *agent, struct buf *out);

#endif
