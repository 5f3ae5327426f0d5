/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers of this node that have devices of another one, or of this one over a worker:
 * node-remote.c. Between the files node*.c; the loop's thread.
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
 * Brings the slot's container to its devices. 0: it may start; -EAGAIN with a sentence: ask again
 * soon; else it is refused. server: the node of the devices.
 */
int remote_open(struct node *node, struct slot *slot, const struct tenant_pod *pod,
	const char *server, struct error *err);
/* No process of it comes in any more; those that have do as long as they live. NULL is fine. */
void remote_free(struct remote *remote);
/* The daemon ends: what containers have mounted stays. NULL is fine. */
void remote_leave(struct remote *remote);

/* Whose it is. */
const struct tenant_pod *remote_pod(const struct remote *remote);
/* It was let start. */
bool remote_is_ready(const struct remote *remote);

void remote_tick(struct remote *remote, uint64_t now);

/* After a restart: containers that the kubelet has, and that had devices of other nodes. */
void remote_resume(struct node *node, const struct podres_list *list);

#endif
