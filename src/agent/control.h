/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON commands of docs/control-protocol.md: one table entry each.
 */
#ifndef AGENT_CONTROL_H
#define AGENT_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "agent/agent.h"

/* Requests of one user that wait for room; root and the daemon's own user may have all. */
#define CONTROL_WAITING_PER_USER 64u

int control_new(struct agent *agent, struct error *err);
void control_free(struct agent *agent);

/* A request's text; answers over the connection, now or later. */
void control_request(struct conn *conn, uint32_t request, const char *text, size_t n);
/* The connection is going: its waiting request is given up. */
void control_conn_gone(struct conn *conn);
/* Share or memory has become free: wishes that wait are tried again, in order. */
void control_room(struct agent *agent);

#endif
