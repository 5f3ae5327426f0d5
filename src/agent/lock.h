/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One daemon per device: a file per UUID, locked with flock for the daemon's life. The lock goes
 * with the process however it ends. The file's text ("pid uid socket") is for people alone: the
 * kernel says which process holds a lock.
 *
 * Folders that everybody may write to (/run/lock, /tmp) let any user hold any name. Root therefore
 * locks in a folder of its own, where a user's daemon looks first, and trusts nothing in the shared
 * folders that root does not own.
 */
#ifndef AGENT_LOCK_H
#define AGENT_LOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define LOCK_PATH 512

#define LOCK_SHARED 2
#define LOCK_FILES (LOCK_SHARED + 1)

struct lock_file {
	int fd;
	char path[LOCK_PATH];
};

struct lock {
	struct lock_file files[LOCK_FILES];
};
#define LOCK_NONE ((struct lock){.files = {{.fd = -1}, {.fd = -1}, {.fd = -1}}})

/* NULL: there is none. */
struct lock_folders {
	const char *own; /* root's alone */
	const char *shared[LOCK_SHARED];
};

struct lock_owner {
	pid_t pid; /* 0: the kernel does not show it */
	uid_t uid; /* 0 only where the real and the effective user are root */
};

/*
 * For real devices: /run/divvy, and /run/lock, or /tmp where /run/lock is not to be written; for
 * root both of these.
 */
void lock_folders_real(struct lock_folders *ret_folders);

/*
 * -EBUSY, with the holder in the sentence and in *ret_owner (if not NULL), when another process
 * holds the device. Root gets -EBUSY from root's processes, and, unless is_forced, from a user's
 * daemon that holds a file of a shared folder. Root moves aside files that other processes hold
 * there.
 */
int lock_take(const struct lock_folders *folders, const char *uuid, const char *socket,
	bool is_forced, struct lock *ret_lock, struct lock_owner *ret_owner, struct error *err);
/* Removes the files and gives the lock back. */
void lock_release(struct lock *lock);

/* The process that holds a flock of this open file. -ENOENT: the kernel shows none. */
int lock_find_owner(int fd, struct lock_owner *ret_owner);

#endif
