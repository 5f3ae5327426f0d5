/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a listener, one for each connection, in memory that they share. A child's
 * connection is unauthenticated until the child reports that its peer has proved its identity. Only
 * UNMANAGED_MAX such children are kept, so silent peers cannot block other peers. The listener's
 * one thread calls these functions; children_known() is the child's.
 */
#ifndef LINK_CHILDREN_H
#define LINK_CHILDREN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"

#define CHILDREN_MAX 4096u
#define UNMANAGED_MAX 64u /* most unauthenticated children; the listener kills the oldest of more */

struct child {
	pid_t pid; /* 0: free */
	uint64_t turn, since_ns;
	bool is_killed; /* the listener has killed the child, and has not reaped it yet */
	_Atomic uint64_t alive_ns; /* time of the child's last heartbeat; 0: none yet */
	_Atomic bool is_known;
	_Atomic bool is_named; /* the child's session has a name: handover.h */
	uint8_t name[16];
};

struct children {
	uint64_t turn;
	struct clock_listener listener; /* for children_watch() */
	struct child v[CHILDREN_MAX];
};

/* Makes the table, shared with later children. NULL: no memory. Never freed. */
struct children *children_new(void);
bool children_any(const struct children *children);

/*
 * Takes a free place for a child, or returns -EUSERS. Kills the oldest unauthenticated child if
 * there are too many.
 */
int children_take(struct children *children, uint64_t now_ns);
/* Sets the process of a place; pid <= 0 frees the place. */
void children_set(struct children *children, int at, pid_t pid);
void children_known(struct children *children, int at);
/*
 * Forks a child of this program that counts as authenticated. Returns like fork(), and writes the
 * child's place to *ret_at. Returns -1 also if no place is free.
 */
pid_t children_fork(struct children *children, int *ret_at);
/*
 * Kills each child that is unauthenticated for longer than unauthenticated_ms, and each other child
 * without a heartbeat for longer than silent_ms. A silent child is usually a stopped process: its
 * peer has given up the session, but the child still holds resources. Call more often than every
 * CLOCK_PAUSE_NS; after a longer pause all children have their full time again.
 */
void children_watch(struct children *children, uint64_t now_ns, unsigned unauthenticated_ms,
	unsigned silent_ms);
/*
 * Call after a process has ended. Frees the process's place and returns the place; -1: the process
 * had no place.
 */
int children_exited(struct children *children, pid_t pid);

#endif
