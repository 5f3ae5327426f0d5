/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A door: a socket of one tenant alone, in a folder that only its container has. Who comes in by it
 * is that tenant's, whatever secret, user or environment he shows; where the tenant is a container
 * of a pod, his cgroup must be that pod's as well, if it can be seen. Control is refused.
 */
#ifndef AGENT_DOOR_H
#define AGENT_DOOR_H

#include "agent/client.h"
#include "base/error.h"

#define DOOR_CONNS_MAX 2048u /* of one tenant at once; more are closed */

struct door;

/* Replaces what is at that path; the folder must be there. */
int door_open(struct tenant *tenant, const char *path, struct door **ret_door, struct error *err);
/* Removes the socket; those who came in stay. NULL is fine. */
void door_close(struct door *door);
/* The daemon ends, and its tenants go on: the socket is closed, not removed. NULL is fine. */
void door_leave(struct door *door);

/* Whose door that connection came by; -ENOENT: gone since, -EACCES: it is in another's cgroup. */
int door_tenant(const struct conn *conn, struct tenant **ret_tenant, struct error *err);

#endif
