/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant socket lies in a folder that only its tenant's container mounts. Each process that
 * connects through it belongs to that tenant, whatever its secret, user or environment. If the
 * tenant is a container of a pod, the process's cgroup must be that pod's too, as far as the daemon
 * can see cgroups. Tenant sockets refuse control requests.
 */
#ifndef AGENT_TENANT_SOCKET_H
#define AGENT_TENANT_SOCKET_H

#include "agent/agent-client.h"
#include "base/error.h"

/* Connections of one tenant at a time; the daemon closes further ones. */
#define DOOR_CONNS_MAX 2048u

struct door;

/* Opens the socket, and replaces a file at that path. The folder must exist. */
int door_open(struct tenant *tenant, const char *path, struct door **ret_door, struct error *err);
/* Removes the socket; existing connections stay. Accepts NULL. */
void door_close(struct door *door);
/*
 * Closes the socket and leaves its file, for a daemon that ends while its tenants go on. Accepts
 * NULL.
 */
void door_leave(struct door *door);

/*
 * Returns the tenant of the connection's socket. -ENOENT: the tenant has ended. -EACCES: the peer
 * is in the cgroup of another pod.
 */
int door_tenant(const struct conn *conn, struct tenant **ret_tenant, struct error *err);

#endif
