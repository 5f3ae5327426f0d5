/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a further connection of a session (bulk.h) gets from the listener to the process that the
 * session has. Its child reads the session's name and hands it to the listener, which finds the
 * place of that name among its children and hands it on. Sockets without names: nobody else can
 * reach them. The listener's one thread, where not said otherwise.
 */
#ifndef LINK_DOOR_H
#define LINK_DOOR_H

#include <sys/resource.h>

#include "link/bulk.h"
#include "link/children.h"

struct door {
	rlim_t files;              /* of descriptors, as it was before us */
	int in;                    /* what children hand to us; to be polled */
	int knock;                 /* ... by this, which all of them have */
	int to[CHILDREN_MAX];      /* by place: to that child; -1: nobody is there */
	struct children *children; /* shared with them */
};

/* 0 or -errno. We may have as many descriptors as there may be; children have what was before. */
int door_init(struct door *d, struct children *children);

/* Before the child of that place is made: its end, to be closed in the listener. -errno. */
int door_open(struct door *d, int place);
/* In the child: what of all that is not its own is closed. */
void door_in_child(struct door *d);
void door_close(struct door *d, int place);

/* What has been handed in, to whom it belongs; nobody's are closed. Never blocks. */
void door_pass(struct door *d);

/* ---- in a child ---- */

/* This is the session of that name; before its peer may know. */
void door_name(struct door *d, int place, const struct bulk_name *name);
/* Hands in a connection of a session of that name. It stays the caller's. 0 or -errno. */
int door_knock(const struct door *d, const struct bulk_name *name, int fd);
/* No more are wanted: whoever still comes is closed. Its own end is closed, too. */
void door_shut(struct door *d, int place, int own);
/* One that was handed on, by its own end. -ETIMEDOUT; -EPIPE: the listener is gone. */
int door_await(int own, uint64_t until_ns);

#endif
