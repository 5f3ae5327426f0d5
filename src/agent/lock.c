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

static int take_file(const char *folder, const char *uuid, const char *socket,
	struct lock_file *ret_file, struct lock_owner *ret_owner, struct error *err)
{
	struct lock_file file = {.fd = -1};
	struct lock_owner owner;
	char text[400];
	int n, tries;

	snprintf(file.path, sizeof(file.path), "%s/divvy-%s.lock", folder, uuid);
	for (tries = 0; tries < 16; tries++) {
		_cleanup_close_ int fd = open_lock(file.path);

		if (fd == -EEXIST || fd == -ENOENT)
			continue;
		if (fd < 0)
			return fail_errno(err, -fd, "device %s: lock file %s", uuid, file.path);
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			if (errno != EWOULDBLOCK)
				return fail_errno(
					err, errno, "device %s: lock %s", uuid, file.path);
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
		if (!is_still_named(fd, file.path))
			continue;
		n = snprintf(text, sizeof(text), "%d %u %s\n", (int)getpid(),
			(unsigned int)getuid(), socket);
		if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) < 0)
			return fail_errno(err, errno, "write %s", file.path);
		file.fd = TAKE_FD(fd);
		*ret_file = file;
		return 0;
	}
	return fail(err, EAGAIN, "device %s: lock file %s changes hands too fast", uuid, file.path);
}

/*
 * Users lock in /tmp where /run/lock is root's alone, and all do where there is none: to meet
 * whoever may be there root takes both.
 */
static size_t real_folders(const char *ret_folder[static LOCK_FILES])
{
	const bool has_run = access("/run/lock", W_OK) == 0;
	size_t n = 0;

	if (has_run)
		ret_folder[n++] = "/run/lock";
	if (!has_run || (geteuid() == 0 && access("/tmp", W_OK) == 0))
		ret_folder[n++] = "/tmp";
	return n;
}

int lock_take(const char *folder, const char *uuid, const char *socket, struct lock *ret_lock,
	struct lock_owner *ret_owner, struct error *err)
{
	const char *folders[LOCK_FILES] = {folder};
	size_t n = folder ? 1 : real_folders(folders);
	struct lock lock = LOCK_NONE;

	for (size_t i = 0; i < n; i++) {
		int r = take_file(folders[i], uuid, socket, &lock.files[i], ret_owner, err);

		if (r < 0) {
			lock_release(&lock);
			return r;
		}
	}
	*ret_lock = lock;
	return 0;
}

void lock_release(struct lock *lock)
{
	for (size_t i = 0; i < LOCK_FILES; i++) {
		struct lock_file *file = &lock->files[i];

		if (file->fd < 0)
			continue;
		unlink(file->path);
		file->fd = fd_close(file->fd);
	}
}
