/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lock files: see lock.h. A file may belong to another user (protected_regular refuses to create
 * over it), so it is opened without O_CREAT first and read-only if need be: flock asks for no more.
 * Releasing unlinks under the lock; taking checks that what it locked is still what the path names.
 */
#include "agent/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

static int open_lock(const char *path)
{
	static const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int fd = open(path, O_RDWR | flags);

	if (fd < 0 && errno == EACCES)
		fd = open(path, O_RDONLY | flags);
	if (fd < 0 && errno == ENOENT)
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | flags, 0644);
	return fd < 0 ? -errno : fd;
}

static bool is_still_named(int fd, const char *path)
{
	struct stat a, b;

	return !fstat(fd, &a) && !stat(path, &b) && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

static void read_owner(int fd, struct lock_owner *owner)
{
	char text[400] = "";
	long pid = 0;
	unsigned int uid = 0;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	*owner = (struct lock_owner){0};
	if (n <= 0)
		return;
	if (sscanf(text, "%ld %u %255s", &pid, &uid, owner->socket) < 2 || pid <= 0)
		return;
	owner->pid = (pid_t)pid;
	owner->uid = uid;
}

int lock_take(const char *folder, const char *uuid, const char *socket, struct lock *ret_lock,
	struct lock_owner *ret_owner, struct error *err)
{
	struct lock lock = LOCK_NONE;
	struct lock_owner owner;
	char text[400];
	int n, tries;

	if (!folder)
		folder = access("/run/lock", W_OK) == 0 ? "/run/lock" : "/tmp";
	snprintf(lock.path, sizeof(lock.path), "%s/divvy-%s.lock", folder, uuid);
	for (tries = 0; tries < 16; tries++) {
		_cleanup_close_ int fd = open_lock(lock.path);

		if (fd == -EEXIST || fd == -ENOENT)
			continue;
		if (fd < 0)
			return fail_errno(err, -fd, "device %s: lock file %s", uuid, lock.path);
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			if (errno != EWOULDBLOCK)
				return fail_errno(
					err, errno, "device %s: lock %s", uuid, lock.path);
			read_owner(fd, &owner);
			if (ret_owner)
				*ret_owner = owner;
			return fail(err, EBUSY,
				"device %s: shared out by another daemon already: pid %d of user "
				"%u, "
				"socket %s",
				uuid, (int)owner.pid, (unsigned int)owner.uid,
				owner.socket[0] ? owner.socket : "unknown");
		}
		if (!is_still_named(fd, lock.path))
			continue;
		n = snprintf(text, sizeof(text), "%d %u %s\n", (int)getpid(),
			(unsigned int)getuid(), socket);
		if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) < 0)
			return fail_errno(err, errno, "write %s", lock.path);
		lock.fd = TAKE_FD(fd);
		*ret_lock = lock;
		return 0;
	}
	return fail(err, EAGAIN, "device %s: lock file %s changes hands too fast", uuid, lock.path);
}

void lock_release(struct lock *lock)
{
	if (lock->fd < 0)
		return;
	unlink(lock->path);
	lock->fd = fd_close(lock->fd);
}
