/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON commands of docs/control-protocol.md, one table entry each. */
#ifndef AGENT_CONTROL_H
#define AGENT_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "agent/agent.h"

/* Waiting `create` requests of one user. Root and the daemon's own user have no such limit. */
#define CONTROL_WAITING_PER_USER 64u

int control_new(struct agent *agent, struct error *err);
void control_free(struct agent *agent);

/* Executes the request in `text`. The answer goes over the connection, now or later. */
void control_request(struct conn *conn, uint32_t request, const char *text, size_t n);
/* The connection ends: drops its waiting request. */
void control_conn_closed(struct conn *conn);
/* Tries the waiting requests again, in order. Call when share or memory becomes free. */
void control_room(struct agent *agent);

#endif
