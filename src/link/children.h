/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a listener, one for each connection, in memory that it shares with them. Each
 * begins as a stranger, until it says that its peer has proved who it is: of strangers only so many
 * are kept, so that who says nothing holds up nobody. The listener's one thread; children_known()
 * is the child's.
 */
#ifndef LINK_CHILDREN_H
#define LINK_CHILDREN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"

#define CHILDREN_MAX 4096u
#define STRANGERS_MAX 64u /* the oldest of more is sent away */

struct child {
	pid_t pid; /* 0: free */
	uint64_t turn, since_ns;
	_Atomic uint64_t alive_ns; /* when it was said last, from the first time on; 0: not yet */
	_Atomic bool is_known;
	_Atomic bool is_named; /* its session has a name: door.h */
	uint8_t name[16];
};

struct children {
	uint64_t turn;
	struct clock_listener listener; /* of children_watch() */
	struct child v[CHILDREN_MAX];
};

/* Shared with those that are made from now on; NULL: there is no memory. Never freed. */
struct children *children_new(void);
bool children_any(const struct children *children);

/* A place for one more, or -EUSERS; too many strangers lose the oldest of them. */
int children_take(struct children *children, uint64_t now_ns);
/* The place's process; pid <= 0: there is none, it is free again. */
void children_set(struct children *children, int at, pid_t pid);
void children_known(struct children *children, int at);
/* One more of who is known, of this program: as fork(), with its place; -1 too if there is none. */
pid_t children_fork(struct children *children, int *ret_at);
/*
 * Ends each child that is a stranger for longer than stranger_ms, and each other one that has not
 * said for longer than silent_ms that it is alive: somebody has stopped it, its peer has given it
 * up, and what it holds would be held for as long. To be called more often than every
 * CLOCK_PAUSE_NS: after a longer pause all have as long again.
 */
void children_watch(
	struct children *children, uint64_t now_ns, unsigned stranger_ms, unsigned silent_ms);
/* That process has ended: its place is free, which is returned; -1: it had none. */
int children_gone(struct children *children, pid_t pid);

#endif
