/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connection handover: passes a further connection of a session (bulk.h) from the listener to the
 * session's process. The listener's child reads the session's name and hands the connection back to
 * the listener. The listener finds the child of that name and passes the connection on. The sockets
 * have no names, so no other process can reach them. Only the listener's one thread calls these
 * functions, unless stated otherwise.
 */
#ifndef LINK_HANDOVER_H
#define LINK_HANDOVER_H

#include <sys/resource.h>

#include "link/bulk.h"
#include "link/children.h"

struct handover {
	rlim_t files;              /* the limit of descriptors before handover_init() */
	int in;                    /* receives connections from children; poll it */
	int knock;                 /* the end through which all children send */
	int to[CHILDREN_MAX];      /* for each place the socket to that child; -1: none */
	struct children *children; /* shared with the children */
};

/*
 * Raises this process's limit of descriptors to the maximum; children get the former limit. 0 or
 * -errno.
 */
int handover_init(struct handover *d, struct children *children);

/*
 * Call before forking the child of that place. Returns the child's end, which the listener closes
 * after the fork, or -errno.
 */
int handover_open(struct handover *d, int place);
/* In the child: closes the listener's ends and restores the former limit of descriptors. */
void handover_in_child(struct handover *d);
void handover_close(struct handover *d, int place);

/*
 * Passes on the connections that children handed in, and closes those that belong to no child.
 * Never blocks.
 */
void handover_pass(struct handover *d);

/* ---- in a child ---- */

/* Names this child's session. Call before the peer may know the name. */
void handover_name(struct handover *d, int place, const struct bulk_name *name);
/* Hands in a connection of the session of that name. The caller keeps fd. 0 or -errno. */
int handover_submit(const struct handover *d, const struct bulk_name *name, int fd);
/*
 * Call when the child wants no more connections: later connections are closed. Also closes `own`.
 */
void handover_shut(struct handover *d, int place, int own);
/* Receives a connection through the child's own end. -ETIMEDOUT; -EPIPE: the listener has ended. */
int handover_await(int own, uint64_t until_ns);

#endif
