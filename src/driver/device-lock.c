/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lock files: see device-lock.h. A user's daemon first opens a file without O_CREAT, because
 * protected_regular forbids O_CREAT on another user's file. It opens the file read-only if it must,
 * because flock() needs no more. So any user can lock a file that everybody can read, and root does
 * not trust such a lock. Releasing unlinks the file under the lock; taking checks that the path
 * still names the locked file.
 */
#include "driver/device-lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/process.h"

#define TRIES 16
#define TRY_AGAIN_NS NSEC_PER_MSEC
#define LOCKS_MAX (16u << 20) /* bytes of /proc/locks */
#define FLAGS (O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)

struct file_id {
	unsigned int major, minor;
	uint64_t inode;
};

struct taking {
	const char *uuid, *socket;
	bool is_forced;
	struct lock_owner owner; /* holder of a busy lock */
	char its_socket[256];    /* holder's socket for messages; "": none that can be trusted */
};

/* ---- the kernel's list of locks ---- */

/*
 * Parses a line such as "7: FLOCK ADVISORY WRITE 359 00:13:11691 0 EOF". A waiting request has "->"
 * before FLOCK, and is no lock.
 */
static bool parse_flock(struct str line, struct file_id *ret_id, pid_t *ret_pid)
{
	char text[128];
	long pid;

	if (str_copy(text, sizeof(text), line) < 0 ||
		sscanf(text, "%*[0-9]: FLOCK %*s %*s %ld %x:%x:%" SCNu64, &pid, &ret_id->major,
			&ret_id->minor, &ret_id->inode) != 4)
		return false;
	*ret_pid = (pid_t)pid;
	return true;
}

static int find_owner(const struct file_id *id, struct lock_owner *ret)
{
	_cleanup_buf_ struct buf text = BUF_INIT(LOCKS_MAX);
	struct str rest, line;
	int r = file_read("/proc/locks", &text, NULL);

	if (r < 0)
		return r;
	rest = buf_str(&text);
	while (str_split(&rest, '\n', &line)) {
		uid_t real, effective;
		struct file_id other;
		pid_t pid;

		if (!parse_flock(line, &other, &pid) || pid <= 0 || other.inode != id->inode ||
			other.major != id->major || other.minor != id->minor ||
			process_uids(pid, &real, &effective) < 0)
			continue;
		*ret = (struct lock_owner){.pid = pid, .uid = real ? real : effective};
		return 0;
	}
	return -ENOENT;
}

/* Never waits for a file system in user space. */
static int lock_stat_file(int fd, struct statx *ret)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		       STATX_TYPE | STATX_UID | STATX_NLINK | STATX_INO, ret) < 0
		? -errno
		: 0;
}

static struct file_id id_of(const struct statx *stx)
{
	return (struct file_id){stx->stx_dev_major, stx->stx_dev_minor, stx->stx_ino};
}

int lock_find_owner(int fd, struct lock_owner *ret_owner)
{
	struct file_id id;
	struct statx stx;
	int r = lock_stat_file(fd, &stx);

	if (r < 0)
		return r;
	id = id_of(&stx);
	return find_owner(&id, ret_owner);
}

/* ---- one file ---- */

static bool is_still_named(int fd, const char *path)
{
	struct stat a, b;

	return !fstat(fd, &a) && !lstat(path, &b) && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

static int lock_check_holder(const struct taking *t, struct error *err)
{
	char who[64] = "";

	if (t->owner.pid)
		snprintf(who, sizeof(who), ": pid %d of user %u", (int)t->owner.pid,
			(unsigned int)t->owner.uid);
	return fail(err, EBUSY, "device %s: another divvyd shares this device already%s%s%s",
		t->uuid, who, t->its_socket[0] ? ", socket " : "", t->its_socket);
}

/* Reads the holder's socket from the file's text, for a message, if the holder owns the file. */
static void read_socket(int fd, struct taking *t)
{
	char text[400] = "";
	struct statx stx;
	ssize_t n;

	t->its_socket[0] = '\0';
	if (!t->owner.pid || lock_stat_file(fd, &stx) < 0 || stx.stx_uid != t->owner.uid)
		return;
	n = pread(fd, text, sizeof(text) - 1, 0);
	if (n <= 0 || sscanf(text, "%*d %*u %255s", t->its_socket) != 1)
		t->its_socket[0] = '\0';
	str_blank_controls(t->its_socket, strlen(t->its_socket));
}

/* Called with the lock held. The text only helps people, so a full disk is no error. */
static void write_text(int fd, const char *socket)
{
	char text[400];
	int n = snprintf(
		text, sizeof(text), "%d %u %s\n", (int)getpid(), (unsigned int)getuid(), socket);

	n = MIN(n, (int)sizeof(text) - 1);
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) < 0)
		log_debug("cannot write the lock file of a device: %s", strerror(errno));
}

/* Returns 1 if locked, 0 if locked but the path names another file now, or -errno (-EBUSY). */
static int lock_open_file(int fd, const char *path, struct taking *t, struct error *err)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return is_still_named(fd, path);
	if (errno != EWOULDBLOCK)
		return fail_errno(err, errno, "device %s: lock '%s'", t->uuid, path);
	t->owner = (struct lock_owner){0};
	lock_find_owner(fd, &t->owner);
	read_socket(fd, t);
	return lock_check_holder(t, err);
}

static int open_any(const char *path, mode_t mode)
{
	int fd = open(path, O_RDWR | FLAGS);

	if (fd < 0 && errno == EACCES)
		fd = open(path, O_RDONLY | FLAGS);
	if (fd < 0 && errno == ENOENT)
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | FLAGS, mode);
	return fd < 0 ? -errno : fd;
}

/* Locks the file, whatever user owns it. Used in root's own folder, and by users' daemons. */
static int take_file(struct lock_file *file, mode_t mode, struct taking *t, struct error *err)
{
	for (int tries = 0; tries < TRIES; tries++) {
		_cleanup_close_ int fd = open_any(file->path, mode);
		int r;

		if (fd == -EEXIST || fd == -ENOENT)
			continue;
		if (fd < 0)
			return fail_errno(
				err, -fd, "device %s: lock file '%s'", t->uuid, file->path);
		r = lock_open_file(fd, file->path, t, err);
		if (r < 0)
			return r;
		if (!r)
			continue;
		write_text(fd, t->socket);
		file->fd = TAKE_FD(fd);
		return 0;
	}
	return fail(err, EAGAIN, "device %s: lock file '%s' changes its owner too fast; try again",
		t->uuid, file->path);
}

/* ---- root in a folder that everybody may write to ---- */

static bool is_users_daemon(const struct lock_owner *owner)
{
	struct process_stat stat;

	return owner->pid > 0 && owner->uid != 0 && process_read_stat(owner->pid, &stat) == 0 &&
		!strcmp(stat.name, "divvyd");
}

static bool is_trusted(const struct statx *stx, const struct statx *folder)
{
	return S_ISREG(stx->stx_mode) && stx->stx_nlink == 1 &&
		(stx->stx_uid == 0 || stx->stx_uid == geteuid()) &&
		/*
		 * Only a file on the folder's own device: a user may have mounted a file system in
		 * user space on the file.
		 */
		stx->stx_dev_major == folder->stx_dev_major &&
		stx->stx_dev_minor == folder->stx_dev_minor;
}

/*
 * Opens the file if is_trusted() accepts it, and creates a missing file. -EPERM: not trusted;
 * *ret_id then identifies the file, which was opened with O_PATH alone.
 */
static int open_trusted(const char *folder, const char *path, struct file_id *ret_id)
{
	_cleanup_close_ int top = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct statx stx, above;
	char self[64];
	int r;

	if (top < 0)
		return -errno;
	if (fd < 0 && errno == ENOENT) {
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | FLAGS, 0644);
		return fd < 0 ? -errno : TAKE_FD(fd);
	}
	if (fd < 0)
		return -errno;
	r = lock_stat_file(top, &above);
	if (r >= 0)
		r = lock_stat_file(fd, &stx);
	if (r < 0)
		return r == -EACCES ? -EPERM : r;
	*ret_id = id_of(&stx);
	if (!is_trusted(&stx, &above))
		return -EPERM;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	r = open(self, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	return r < 0 ? -errno : r;
}

static int move_aside(const char *path)
{
	char aside[LOCK_PATH + 32];

	snprintf(aside, sizeof(aside), "%s.aside", path);
	if (rename(path, aside) == 0)
		return 0;
	/* rename() fails if a folder of that name exists. */
	snprintf(aside, sizeof(aside), "%s.aside-%llx", path, (unsigned long long)clock_now_ns());
	return rename(path, aside) < 0 ? -errno : 0;
}

/* Returns 1 if locked, 0 to try again, -EBUSY, or another error, after which a retry is useless. */
static int try_shared(
	const char *folder, struct lock_file *file, struct taking *t, struct error *err)
{
	struct file_id id = {0};
	_cleanup_close_ int fd = open_trusted(folder, file->path, &id);
	int r;

	t->owner = (struct lock_owner){0};
	if (fd == -EEXIST || fd == -ENOENT)
		return 0;
	if (fd < 0 && fd != -EPERM)
		return fd;
	if (fd >= 0) {
		r = lock_open_file(fd, file->path, t, err);
		if (r > 0) {
			write_text(fd, t->socket);
			file->fd = TAKE_FD(fd);
		}
		if (r != -EBUSY || (t->owner.pid && !t->owner.uid))
			return r;
	} else {
		t->its_socket[0] = '\0';
		find_owner(&id, &t->owner);
	}
	if (!t->is_forced && is_users_daemon(&t->owner))
		return lock_check_holder(t, err);
	r = move_aside(file->path);
	if (r == 0 || r == -ENOENT)
		log_info("moved '%s' aside, since root does not own it alone", file->path);
	return r == -ENOENT ? 0 : r;
}

/*
 * Root holds the lock in its own folder already. This lock only shows users' daemons of older
 * versions that the device is taken. So root continues without it when a user prevents it.
 */
static int take_shared(
	const char *folder, struct lock_file *file, struct taking *t, struct error *err)
{
	int r = 0;

	for (int tries = 0; tries < TRIES; tries++) {
		r = try_shared(folder, file, t, err);
		if (r > 0)
			return 0;
		if (r == -EBUSY)
			return r;
		if (r < 0)
			break;
		if (tries)
			clock_sleep_until_ns(clock_now_ns() + TRY_AGAIN_NS);
	}
	log_warn("'%s': %s; continuing without this lock", file->path,
		r < 0 ? strerror(-r) : "other processes create it again and again");
	return 0;
}

/* ---- all files of a device ---- */

static int check_own_folder(const char *folder, struct error *err)
{
	struct stat st;
	int r = folder_make(folder, 0755, err);

	if (r < 0)
		return r;
	if (lstat(folder, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
		st.st_mode & S_IWOTH)
		return fail(err, EPERM,
			"folder '%s': expected a folder of root to which no other user can write",
			folder);
	return 0;
}

/* A user's daemon cannot open root's file, so it looks up the holder in the kernel's list. */
static int look_at_own(const char *path, struct taking *t, struct error *err)
{
	struct stat st;
	struct file_id id;

	if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != 0)
		return 0;
	id = (struct file_id){major(st.st_dev), minor(st.st_dev), st.st_ino};
	t->owner = (struct lock_owner){0};
	t->its_socket[0] = '\0';
	return find_owner(&id, &t->owner) < 0 ? 0 : lock_check_holder(t, err);
}

static int take_own(const char *folder, struct lock_file *file, struct taking *t, struct error *err)
{
	struct error why;
	int r;

	if (geteuid() != 0)
		return look_at_own(file->path, t, err);
	r = check_own_folder(folder, &why);
	if (r == -EROFS || r == -EACCES) {
		log_warn("%s; device %s is locked in shared folders only", why.msg, t->uuid);
		return 0;
	}
	if (r < 0) {
		if (err)
			*err = why;
		return r;
	}
	/* A process that can open a file can lock it: mode 0600 keeps users out. */
	return take_file(file, 0600, t, err);
}

void lock_folders_real(struct lock_folders *ret)
{
	const bool has_run = access("/run/lock", W_OK) == 0;
	size_t n = 0;

	*ret = (struct lock_folders){.own = "/run/divvy"};
	if (has_run)
		ret->shared[n++] = "/run/lock";
	if (!has_run || (geteuid() == 0 && access("/tmp", W_OK) == 0))
		ret->shared[n++] = "/tmp";
}

static int take_in(const char *folder, bool is_own, struct lock_file *file, struct taking *t,
	struct error *err)
{
	if (!folder)
		return 0;
	if ((size_t)snprintf(file->path, sizeof(file->path), "%s/divvy-%s.lock", folder, t->uuid) >=
		sizeof(file->path))
		return fail(err, ENAMETOOLONG, "device %s: the path of the lock file is too long",
			t->uuid);
	if (is_own)
		return take_own(folder, file, t, err);
	return geteuid() == 0 ? take_shared(folder, file, t, err) : take_file(file, 0644, t, err);
}

int lock_take(const struct lock_folders *folders, const char *uuid, const char *socket,
	bool is_forced, struct lock *ret_lock, struct lock_owner *ret_owner, struct error *err)
{
	struct taking taking = {.uuid = uuid, .socket = socket, .is_forced = is_forced};
	struct lock lock = LOCK_NONE;
	int r = take_in(folders->own, true, &lock.files[LOCK_SHARED], &taking, err);

	for (size_t i = 0; r >= 0 && i < LOCK_SHARED; i++)
		r = take_in(folders->shared[i], false, &lock.files[i], &taking, err);
	if (r < 0) {
		lock_release(&lock);
		if (r == -EBUSY && ret_owner)
			*ret_owner = taking.owner;
		return r;
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
