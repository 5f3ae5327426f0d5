/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lock files: one daemon for each device. The daemon holds flock on a file per UUID for its whole
 * life, and the kernel releases the lock however the process ends. The file's text ("pid uid
 * socket") is for people only: the kernel says which process holds a lock.
 *
 * In folders that everybody may write to (/run/lock, /tmp) any user can lock any name. Therefore
 * root also locks a file in a folder of its own, and a user's daemon looks there first. In shared
 * folders root trusts only files that root owns.
 */
#ifndef DRIVER_DEVICE_LOCK_H
#define DRIVER_DEVICE_LOCK_H

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

/* A member is NULL where there is no such folder. */
struct lock_folders {
	const char *own; /* only root may write there */
	const char *shared[LOCK_SHARED];
};

struct lock_owner {
	pid_t pid; /* 0: the kernel does not show the holder */
	uid_t uid; /* 0 only if the real and the effective user are root */
};

/*
 * Folders for real devices: /run/divvy, and /run/lock, or /tmp where /run/lock is not writable.
 * Root uses all of them.
 */
void lock_folders_real(struct lock_folders *ret_folders);

/*
 * -EBUSY: another process holds the device; the message and *ret_owner (if not NULL) name it. Root
 * gets -EBUSY only from root's processes, and, unless is_forced, from a user's daemon that holds a
 * file of a shared folder. Root moves files that other processes hold in shared folders aside.
 */
int lock_take(const struct lock_folders *folders, const char *uuid, const char *socket,
	bool is_forced, struct lock *ret_lock, struct lock_owner *ret_owner, struct error *err);
/* Removes the files and releases the locks. */
void lock_release(struct lock *lock);

/* Finds the process that holds a flock of this open file. -ENOENT: the kernel shows none. */
int lock_find_owner(int fd, struct lock_owner *ret_owner);

#endif
