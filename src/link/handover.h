/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connection handover: passes a further connection of a session (bulk.h) from the listener to the
 * session's process. The listener's child reads the session's name and hands the connection back to
 * the listener. The listener finds the child of that name and passes the connection on. The sockets
 * have no names, so no other process can reach them. The listener's one thread, unless stated
 * otherwise.
 */
#ifndef LINK_HANDOVER_H
#define LINK_HANDOVER_H

#include <sys/resource.h>

#include "link/bulk.h"
#include "link/children.h"

struct door {
	rlim_t files;              /* the limit of descriptors before door_init() */
	int in;                    /* receives connections from children; poll it */
	int knock;                 /* children send through it; all of them have it */
	int to[CHILDREN_MAX];      /* for each place the socket to that child; -1: none */
	struct children *children; /* shared with the children */
};

/*
 * Raises this process's limit of descriptors to the maximum; children get the former limit. 0 or
 * -errno.
 */
int door_init(struct door *d, struct children *children);

/*
 * Call before forking the child of that place. Returns the child's end, which the listener closes
 * afterwards. -errno.
 */
int door_open(struct door *d, int place);
/* In the child: closes everything that is not the child's own. */
void door_in_child(struct door *d);
void door_close(struct door *d, int place);

/*
 * Passes on the connections that children handed in, and closes those that belong to no child.
 * Never blocks.
 */
void door_pass(struct door *d);

/* ---- in a child ---- */

/* Names this child's session. Call before the peer may know the name. */
void door_name(struct door *d, int place, const struct bulk_name *name);
/* Hands in a connection of the session of that name. The caller keeps fd. 0 or -errno. */
int door_knock(const struct door *d, const struct bulk_name *name, int fd);
/* The child wants no more connections: later ones are closed. Also closes its own end. */
void door_shut(struct door *d, int place, int own);
/* Receives a connection through the child's own end. -ETIMEDOUT; -EPIPE: the listener has ended. */
int door_await(int own, uint64_t until_ns);

#endif
