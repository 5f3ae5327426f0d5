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
#define TENANT_SOCKET_CONNS_MAX 2048u

struct tenant_socket;

/* Opens the socket, and replaces a file at that path. The folder must exist. */
int tenant_socket_open(struct tenant *tenant, const char *path, struct tenant_socket **ret_socket,
	struct error *err);
/* Removes the socket; existing connections stay. Accepts NULL. */
void tenant_socket_close(struct tenant_socket *ts);
/*
 * Closes the socket but leaves its file, for a daemon that ends before its tenants. Accepts NULL.
 */
void tenant_socket_leave(struct tenant_socket *ts);

/*
 * Returns the tenant of the connection's socket. -ENOENT: the tenant has ended. -EACCES: the peer
 * is in the cgroup of another pod.
 */
int tenant_socket_tenant(const struct conn *conn, struct tenant **ret_tenant, struct error *err);

#endif
