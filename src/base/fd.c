/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries in other people's programs link this file, and a program does not start if its libc
 * lacks a symbol. So this file avoids fstat, which is newer than GLIBC_2.17. It calls the kernel
 * for statx and fcntl: musl has neither statx nor fcntl64. No state; any thread.
 */
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* How long fd_send() waits while a user has too many descriptors in messages, and how often. */
#define SHORT_NS (10 * NSEC_PER_SEC)
#define SHORT_LOOK_NS (10 * NSEC_PER_MSEC)

int fd_close(int fd)
{
	cleanup_close(&fd);
	return -1;
}

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

void fd_close_from(int first)
{
	const long open_max = sysconf(_SC_OPEN_MAX), most = open_max < 65536 ? open_max : 65536;

	/* Calls by number, because glibc 2.31 has no wrapper. Linux before 5.9 lacks the call. */
	if (syscall(SYS_close_range, first, ~0U, 0) < 0)
		for (int fd = first; fd < most; fd++)
			close(fd);
}

static int fd_fcntl(int fd, int command, long argument)
{
	return (int)syscall(SYS_fcntl, fd, command, argument);
}

static int fd_read_status(
	int folder, const char *path, int flags, unsigned int mask, struct statx *ret)
{
	return (int)syscall(SYS_statx, folder, path, flags, mask, ret);
}

static int set_flag(int fd, int get, int set, int flag, bool on)
{
	int flags = fd_fcntl(fd, get, 0);
	int want;

	if (flags < 0)
		return -errno;
	want = on ? flags | flag : flags & ~flag;
	return want != flags && fd_fcntl(fd, set, want) < 0 ? -errno : 0;
}

int fd_set_cloexec(int fd, bool on)
{
	return set_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

int fd_set_nonblock(int fd, bool on)
{
	return set_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int memfd_new(const char *name, size_t size_bytes)
{
	_cleanup_close_ int fd = (int)syscall(
		SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size_bytes) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int memfd_seal(int fd, unsigned int seals)
{
	return fd_fcntl(fd, F_ADD_SEALS, (long)seals) < 0 ? -errno : 0;
}

bool memfd_has_seals(int fd, unsigned int seals)
{
	int have = fd_fcntl(fd, F_GET_SEALS, 0);

	return have >= 0 && ((unsigned int)have & seals) == seals;
}

int64_t fd_size(int fd)
{
	struct statx stx;

	if (fd_read_status(fd, "", AT_EMPTY_PATH, STATX_SIZE, &stx) < 0)
		return -errno;
	return stx.stx_size > INT64_MAX ? -EOVERFLOW : (int64_t)stx.stx_size;
}

int map_fd(int fd, size_t n, int prot, struct map *ret_map)
{
	int64_t size = fd_size(fd);
	void *p;

	if (size < 0)
		return (int)size;
	if (!n || (uint64_t)size < n)
		return -EMSGSIZE;
	p = mmap(NULL, n, prot, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	*ret_map = (struct map){p, n};
	return 0;
}

void map_done(struct map *m)
{
	int saved = errno;

	if (m->p)
		munmap(m->p, m->n);
	*m = MAP_NONE;
	errno = saved;
}

/* Uses send() for sockets because of MSG_NOSIGNAL, write() for other files. */
static ssize_t write_quietly(int fd, const void *p, size_t n)
{
	ssize_t r = send(fd, p, n, MSG_NOSIGNAL);

	return r < 0 && errno == ENOTSOCK ? write(fd, p, n) : r;
}

int fd_write_all(int fd, const void *p, size_t n)
{
	const char *at = p;
	ssize_t r;

	while (n) {
		r = write_quietly(fd, at, n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		at += r;
		n -= (size_t)r;
	}
	return 0;
}

int fd_read_exact(int fd, void *p, size_t n)
{
	char *at = p;
	ssize_t r;

	while (n) {
		r = read(fd, at, n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (!r)
			return -EPIPE;
		at += r;
		n -= (size_t)r;
	}
	return 0;
}

int fd_read_all(int fd, struct buf *b)
{
	char chunk[4096];
	ssize_t got;
	int r = buf_error(b);

	while (r == 0) {
		got = read(fd, chunk, sizeof(chunk));
		if (got == 0)
			break;
		if (got > 0)
			r = buf_add(b, (struct str){chunk, (size_t)got});
		else if (errno != EINTR)
			r = -errno;
	}
	return r;
}

int file_read(const char *path, struct buf *b, struct error *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int r;

	if (fd < 0)
		return fail_errno(err, errno, "open '%s'", path);
	r = fd_read_all(fd, b);
	if (r == -EMSGSIZE)
		return fail(err, EMSGSIZE, "'%s' is too large: at most %zu bytes are allowed", path,
			b->max);
	return r < 0 ? fail_errno(err, -r, "read '%s'", path) : 0;
}

/* Syncs the file's folder: a power failure could undo the rename otherwise. */
static int sync_folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *folder = NULL;
	_cleanup_close_ int fd = -1;

	if (!slash)
		folder = str_dup(STR("."));
	else
		folder = str_dup((struct str){path, slash == path ? 1 : (size_t)(slash - path)});
	if (!folder)
		return -ENOMEM;
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Some file systems cannot sync folders: there is nothing to wait for. */
	return fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}

/* Writes the new file in the same folder; removes it again on failure. */
static int write_beside(const char *temporary, struct str text, mode_t mode)
{
	_cleanup_close_ int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, text.p, text.n);
	if (r == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0))
		r = -errno;
	if (r < 0)
		unlink(temporary);
	return r;
}

static int write_through(const char *path, struct str text, int flags, mode_t mode)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | flags, mode);

	return fd < 0 ? -errno : fd_write_all(fd, text.p, text.n);
}

static int replace_regular(const char *path, struct str text, mode_t mode)
{
	char temporary[PATH_MAX];
	int r;

	r = snprintf(temporary, sizeof(temporary), "%s.%x-%llx~", path, (unsigned int)getpid(),
		(unsigned long long)clock_now_ns());
	if (r < 0 || (size_t)r >= sizeof(temporary))
		return -ENAMETOOLONG;
	r = write_beside(temporary, text, mode);
	if (r < 0)
		return r;
	if (rename(temporary, path) < 0) {
		r = -errno;
		unlink(temporary);
		return r;
	}
	return sync_folder_of(path);
}

int file_replace(const char *path, struct str text, mode_t mode, struct error *err)
{
	_cleanup_free_ char *target = realpath(path, NULL); /* has no symbolic links */
	struct statx stx;
	int r;

	if (!target && errno != ENOENT)
		r = -errno;
	else if (!target) /* a link to a missing target stays: creates the target */
		r = readlink(path, (char[1]){0}, 1) < 0 ? replace_regular(path, text, mode)
							: write_through(path, text, O_CREAT, mode);
	else if (fd_read_status(AT_FDCWD, target, 0, STATX_TYPE | STATX_MODE, &stx) < 0)
		r = -errno;
	else if (S_ISREG(stx.stx_mode))
		r = replace_regular(target, text, stx.stx_mode & 07777);
	else
		r = write_through(target, text, 0, mode);
	if (r == -ENOENT)
		return fail(err, ENOENT, "write '%s': its folder does not exist", path);
	return r < 0 ? fail_errno(err, -r, "write '%s'", path) : 0;
}

/* Whether file_replace() has made the name in a process that is gone: "NAME.PID-TIME~". */
static bool is_temporary_left(const char *name)
{
	const size_t n = strlen(name);
	const char *dot = strrchr(name, '.');
	char *end;
	unsigned long pid;

	if (!n || name[n - 1] != '~' || !dot)
		return false;
	pid = strtoul(dot + 1, &end, 16);
	if (end == dot + 1 || *end != '-' || !pid || pid > INT_MAX)
		return false;
	end += 1 + strspn(end + 1, "0123456789abcdef");
	return end == name + n - 1 && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

void folder_clear_temporary(const char *path)
{
	DIR *folder = opendir(path);
	const struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		if (is_temporary_left(entry->d_name))
			unlinkat(dirfd(folder), entry->d_name, 0);
	if (folder)
		closedir(folder);
}

int folder_make(const char *path, mode_t mode, struct error *err)
{
	char part[PATH_MAX];
	size_t i;

	if (!*path || str_copy(part, sizeof(part), str_from(path)) < 0)
		return fail(err, EINVAL, "'%.64s' is not the path of a folder", path);
	for (i = 1; part[i - 1]; i++) {
		if (part[i] != '/' && part[i])
			continue;
		part[i] = 0;
		if (mkdir(part, mode) < 0 && errno != EEXIST)
			return fail_errno(err, errno, "make the folder '%s'", part);
		part[i] = path[i];
	}
	return 0;
}

union control {
	char bytes[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
	struct cmsghdr align;
};

ssize_t fd_send(int sock, const void *p, size_t n, const int *fds, size_t n_fds, int flags)
{
	struct iovec iov = {.iov_base = (void *)p, .iov_len = n};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	union control control = {0};
	uint64_t until_ns = 0;
	struct cmsghdr *c;
	ssize_t r;

	if (n_fds > FD_PASS_MAX || (n_fds && !n))
		return -EINVAL;
	if (n_fds) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	for (;;) {
		do
			r = sendmsg(sock, &msg, flags | MSG_NOSIGNAL);
		while (r < 0 && errno == EINTR);
		if (r >= 0 || errno != ETOOMANYREFS || flags & MSG_DONTWAIT)
			return r < 0 ? -errno : r;
		if (!until_ns)
			until_ns = clock_now_ns() + SHORT_NS;
		else if (clock_now_ns() >= until_ns)
			return -ETOOMANYREFS;
		clock_nanosleep(
			CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = SHORT_LOOK_NS}, NULL);
	}
}

static void collect_fds(struct msghdr *msg, struct fd_list *list)
{
	struct cmsghdr *c;
	size_t i, n;
	int fd;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (list->n < FD_PASS_MAX)
				list->fd[list->n++] = fd;
			else
				fd_close(fd);
		}
	}
}

ssize_t fd_recv(int sock, void *p, size_t n, struct fd_list *ret_fds, int flags)
{
	_cleanup_fd_list_ struct fd_list list = {.n = 0};
	union control control;
	struct iovec iov = {.iov_base = p, .iov_len = n};
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t r;

	do
		r = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	collect_fds(&msg, &list);
	if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return -EMSGSIZE;
	if (ret_fds) {
		*ret_fds = list;
		list.n = 0;
	} else if (list.n) {
		return -EMSGSIZE;
	}
	return r;
}

void fd_list_done(struct fd_list *l)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		fd_close(l->fd[i]);
	l->n = 0;
}

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

int socket_refuse_rights(int sock)
{
	const int off = 0;

	return setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off)) < 0 ? -errno : 0;
}

void socket_unlink(int sock)
{
	struct sockaddr_un address;
	socklen_t n = sizeof(address);

	if (getsockname(sock, (struct sockaddr *)&address, &n) == 0 &&
		n > offsetof(struct sockaddr_un, sun_path) && address.sun_path[0])
		unlink(address.sun_path);
}
