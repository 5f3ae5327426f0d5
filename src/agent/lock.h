/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One daemon per device: a file per UUID, locked with flock for the daemon's life, whose text names
 * the owner ("pid start uid socket"). The lock goes with the process however it ends.
 */
#ifndef AGENT_LOCK_H
#define AGENT_LOCK_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define LOCK_PATH 512

#define LOCK_FILES 2

struct lock_file {
	int fd;
	char path[LOCK_PATH];
};

struct lock {
	struct lock_file files[LOCK_FILES];
};
#define LOCK_NONE ((struct lock){.files = {{.fd = -1}, {.fd = -1}}})

struct lock_owner {
	pid_t pid; /* 0: not known */
	uid_t uid;
	char socket[256];
};

/*
 * `folder`: NULL for real devices (/run/lock, or /tmp where that is not to be written; root: both).
 * -EBUSY, with the owner's name in the sentence and in *ret_owner (if not NULL), when another
 * process holds it.
 */
int lock_take(const char *folder, const char *uuid, const char *socket, struct lock *ret_lock,
	struct lock_owner *ret_owner, struct error *err);
/* Removes the file and gives the lock back. */
void lock_release(struct lock *lock);

#endif
