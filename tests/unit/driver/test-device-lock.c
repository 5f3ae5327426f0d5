/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device locks between root and a user (65534) in folders that all users may write to. Root gets
 * its lock whatever files lie in these folders, and a user's daemon sees root's lock. Without root
 * these tests skip.
 */
#include "unit.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/device-lock.h"
#include "base/fd.h"

#define UUID "GPU-1"
#define USER 65534
#define HANG_S 120

struct world {
	char top[32], own[48], shared[48], file[80], root_file[80];
	struct lock_folders folders;
};

static void world_init(struct world *w)
{
	if (geteuid() != 0)
		skip();
	snprintf(w->top, sizeof(w->top), "/tmp/divvy-lock-XXXXXX");
	assert_non_null(mkdtemp(w->top));
	assert_ok(chmod(w->top, 0755));
	snprintf(w->own, sizeof(w->own), "%s/own", w->top);
	snprintf(w->shared, sizeof(w->shared), "%s/shared", w->top);
	assert_ok(mkdir(w->shared, 0700));
	assert_ok(chmod(w->shared, 01777));
	snprintf(w->file, sizeof(w->file), "%s/divvy-" UUID ".lock", w->shared);
	snprintf(w->root_file, sizeof(w->root_file), "%s/divvy-" UUID ".lock", w->own);
	w->folders = (struct lock_folders){.own = w->own, .shared = {w->shared}};
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void world_done(struct world *w)
{
	nftw(w->top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int take(struct world *w, bool is_forced, struct lock *lock, struct lock_owner *owner)
{
	struct error err;

	return lock_take(&w->folders, UUID, "/nowhere", is_forced, lock, owner, &err);
}

/* A child process of the user, which has called fn and lives until it is killed. */
struct child {
	pid_t pid;
	int status; /* return value of fn */
};

static struct child start_user(int (*fn)(struct world *), struct world *w, const char *name)
{
	struct child child = {0};
	struct pollfd pfd;
	int fds[2];

	assert_ok(pipe2(fds, O_CLOEXEC));
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (!child.pid) {
		alarm(HANG_S);
		if (setgid(USER) || setuid(USER))
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
		child.status = fn(w);
		if (write(fds[1], &child.status, sizeof(child.status)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	pfd = (struct pollfd){.fd = fds[0], .events = POLLIN};
	assert_int_equal(poll(&pfd, 1, HANG_S * 1000), 1);
	assert_int_equal(read(fds[0], &child.status, sizeof(child.status)), sizeof(child.status));
	close(fds[0]);
	return child;
}

static void end(const struct child *child)
{
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
}

/* Locks the shared file, whoever owns it, and writes a text that names root. */
static int hold_shared(struct world *w)
{
	static const char text[] = "1 0 /run/divvy/divvyd.sock\n";
	int fd = open(w->file, O_RDWR | O_CREAT, 0644);

	if (fd < 0)
		fd = open(w->file, O_RDONLY);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	if (write(fd, text, sizeof(text) - 1) < 0)
		return 0; /* another user's file: this process only locks it */
	return 0;
}

static int take_as_user(struct world *w)
{
	static struct lock lock;

	return take(w, false, &lock, NULL);
}

static int take_as_user_owner(struct world *w)
{
	struct lock_owner owner = {0};
	struct lock lock;

	return take(w, false, &lock, &owner) == -EBUSY && owner.uid == 0 ? (int)owner.pid : -1;
}

static int make_folder(struct world *w)
{
	return mkdir(w->file, 0700) < 0 ? -errno : 0;
}

static int make_link(struct world *w)
{
	return symlink("/etc/passwd", w->file) < 0 ? -errno : 0;
}

static int make_fifo(struct world *w)
{
	return mkfifo(w->file, 0666) < 0 ? -errno : 0;
}

static void root_gets_its_lock_whatever_lies_there(void **state)
{
	static int (*const in_the_way[])(struct world *) = {
		hold_shared, make_folder, make_link, make_fifo};

	for (size_t i = 0; i < ARRAY_SIZE(in_the_way); i++) {
		struct lock lock = LOCK_NONE;
		struct child child;
		struct world w;
		struct stat st;

		world_init(&w);
		child = start_user(in_the_way[i], &w, "holder");
		assert_ok(child.status);
		assert_ok(take(&w, false, &lock, NULL));
		assert_ok(lstat(w.file, &st));
		assert_true(S_ISREG(st.st_mode));
		assert_int_equal(st.st_uid, 0);
		assert_ok(lstat(w.root_file, &st));
		assert_int_equal(st.st_mode & 07777, 0600);
		lock_release(&lock);
		end(&child);
		world_done(&w);
	}
}

static void root_learns_of_a_users_daemon_from_the_kernel(void **state)
{
	struct lock_owner owner = {0};
	struct lock lock = LOCK_NONE;
	struct child child;
	struct world w;

	world_init(&w);
	child = start_user(hold_shared, &w, "divvyd");
	assert_ok(child.status);
	assert_int_equal(take(&w, false, &lock, &owner), -EBUSY);
	assert_int_equal(owner.pid, child.pid); /* although the text names pid 1 and root */
	assert_int_equal(owner.uid, USER);
	/* With is_forced, root takes the lock from the user's daemon. */
	assert_ok(take(&w, true, &lock, NULL));
	lock_release(&lock);
	end(&child);
	world_done(&w);
}

/*
 * Any user can lock a file that all users can read, such as the file of an older version's daemon
 * of root.
 */
static void a_users_lock_of_roots_file_does_not_stop_root(void **state)
{
	struct lock lock = LOCK_NONE;
	struct child child;
	struct world w;
	int fd;

	world_init(&w);
	fd = open(w.file, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	close(fd);
	child = start_user(hold_shared, &w, "holder");
	assert_ok(child.status);
	assert_ok(take(&w, false, &lock, NULL));
	lock_release(&lock);
	end(&child);
	world_done(&w);
}

static void root_leaves_a_text_of_another_user_alone(void **state)
{
	struct lock lock = LOCK_NONE;
	char victim[80], text[16] = "";
	struct world w;
	int fd;

	world_init(&w);
	snprintf(victim, sizeof(victim), "%s/victim", w.shared);
	fd = open(victim, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(write(fd, "precious", 8), 8);
	/* A user could make this link where the kernel does not protect hard links. */
	assert_ok(link(victim, w.file));
	assert_ok(take(&w, false, &lock, NULL));
	assert_int_equal(pread(fd, text, sizeof(text), 0), 8);
	assert_string_equal(text, "precious");
	close(fd);
	lock_release(&lock);
	world_done(&w);
}

static void a_user_sees_roots_lock_first(void **state)
{
	struct lock lock = LOCK_NONE;
	struct child child;
	struct world w;

	world_init(&w);
	assert_ok(take(&w, false, &lock, NULL));
	/* The user's daemon sees root's lock also after someone has removed the shared file. */
	unlink(w.file);
	child = start_user(take_as_user_owner, &w, "divvyd");
	assert_int_equal(child.status, getpid());
	end(&child);
	lock_release(&lock);
	child = start_user(take_as_user, &w, "divvyd");
	assert_ok(child.status);
	end(&child);
	world_done(&w);
}

static void roots_lock_stops_another_daemon_of_root(void **state)
{
	struct lock first = LOCK_NONE, second = LOCK_NONE;
	struct lock_owner owner = {.uid = 1};
	struct world w;

	world_init(&w);
	assert_ok(take(&w, false, &first, NULL));
	assert_int_equal(take(&w, true, &second, &owner), -EBUSY);
	assert_int_equal(owner.pid, getpid());
	assert_int_equal(owner.uid, 0);
	lock_release(&first);
	/* An older daemon of root locks only in the shared folder. */
	w.folders.own = NULL;
	assert_ok(take(&w, false, &first, NULL));
	w.folders.own = w.own;
	assert_int_equal(take(&w, true, &second, &owner), -EBUSY);
	assert_int_equal(owner.pid, getpid());
	lock_release(&first);
	assert_ok(take(&w, false, &second, NULL));
	lock_release(&second);
	world_done(&w);
}

static void roots_folder_must_belong_to_root(void **state)
{
	struct lock lock = LOCK_NONE;
	struct error err;
	struct world w;

	world_init(&w);
	assert_ok(mkdir(w.own, 0755));
	assert_ok(chown(w.own, USER, USER));
	assert_int_equal(lock_take(&w.folders, UUID, "/nowhere", false, &lock, NULL, &err), -EPERM);
	assert_contains(err.msg, w.own);
	world_done(&w);
}

UNIT_MAIN(UNIT(root_gets_its_lock_whatever_lies_there),
	UNIT(root_learns_of_a_users_daemon_from_the_kernel),
	UNIT(a_users_lock_of_roots_file_does_not_stop_root),
	UNIT(root_leaves_a_text_of_another_user_alone), UNIT(a_user_sees_roots_lock_first),
	UNIT(roots_lock_stops_another_daemon_of_root), UNIT(roots_folder_must_belong_to_root))
