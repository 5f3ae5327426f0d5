/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers of this node with devices of another node, or of this node through a worker
 * (node-remote.c). For the files node*.c. The loop's thread.
 */
#ifndef NODE_NODE_REMOTE_H
#define NODE_NODE_REMOTE_H

#include "agent/tenant.h"
#include "base/error.h"
#include "kubelet/podres.h"

struct node;
struct slot;
struct remote;

/*
 * Connects the slot's container with its devices on node `server`. 0: the container may start.
 * -EAGAIN with a message: ask again soon. Other errors refuse the container.
 */
int remote_open(struct node *node, struct slot *slot, const struct tenant_pod *pod,
	const char *server, struct error *err);
/* Lets no new process in; connected processes keep their connections. Accepts NULL. */
void remote_free(struct remote *remote);
/*
 * Frees the object when the daemon ends, but keeps the socket, because containers have it mounted.
 * Accepts NULL.
 */
void remote_leave(struct remote *remote);

/* the pod and container that the object serves */
const struct tenant_pod *remote_pod(const struct remote *remote);
/* Whether the container was allowed to start. */
bool remote_is_ready(const struct remote *remote);

void remote_tick(struct remote *remote, uint64_t now);

/*
 * After a restart of divvyd: makes the objects of the containers on the kubelet's list that have
 * devices of other nodes.
 */
void remote_resume(struct node *node, const struct podres_list *list);

#endif
