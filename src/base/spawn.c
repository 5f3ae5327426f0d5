/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file starts programs by posix_spawn, because a fork of a large or threaded program is slow,
 * and its child may do almost nothing. spawn_wait() waits on a pidfd, which allows a deadline,
 * before it reaps. spawn_read() ends with the child even if a grandchild holds the pipe open. No
 * state; any thread.
 */
#include "base/spawn.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/process.h"

/* Time for a killed child to end. */
#define KILLED_NS (1 * NSEC_PER_SEC)

static bool is_same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return !strncmp(a, b, n) && b[n] == '=';
}

static bool is_overridden(const char *entry, const char *const *over)
{
	for (; *over; over++)
		if (is_same_name(*over, entry))
			return true;
	return false;
}

static size_t spawn_count_strings(char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

/*
 * Our environment with `over` taking precedence. The caller frees the array; the texts are
 * borrowed. NULL when out of memory.
 */
static char **merge_env(char *const *over)
{
	char **env = calloc(
		spawn_count_strings(environ) + spawn_count_strings(over) + 1, sizeof(*env));
	size_t n = 0, i;

	if (!env)
		return NULL;
	for (i = 0; i < spawn_count_strings(environ); i++)
		if (!is_overridden(environ[i], (const char *const *)over))
			env[n++] = environ[i];
	for (i = 0; over[i]; i++)
		env[n++] = over[i];
	return env;
}

static int set_stdio(posix_spawn_file_actions_t *actions, const int *fds)
{
	int target, r = 0;

	for (target = 0; fds && r == 0 && target < 3; target++)
		if (fds[target] >= 0)
			r = posix_spawn_file_actions_adddup2(actions, fds[target], target);
	return -r;
}

static int set_signals(posix_spawnattr_t *attr)
{
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	r = posix_spawnattr_setsigmask(attr, &none);
	if (!r)
		r = posix_spawnattr_setsigdefault(attr, &all);
	if (!r)
		r = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	return -r;
}

static int spawn_start_child(const struct spawn *spawn, char *const *env, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int r;

	r = -posix_spawn_file_actions_init(&actions);
	if (r < 0)
		return r;
	r = -posix_spawnattr_init(&attr);
	if (r < 0)
		goto out;
	r = set_stdio(&actions, spawn->stdio_fds);
	if (r == 0)
		r = set_signals(&attr);
	if (r == 0)
		r = -posix_spawnp(
			ret_pid, spawn->argv[0], &actions, &attr, (char *const *)spawn->argv, env);
	posix_spawnattr_destroy(&attr);
out:
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

int spawn_run(const struct spawn *spawn, pid_t *ret_pid, struct error *err)
{
	_cleanup_free_ char **merged = NULL;
	pid_t pid;
	int r;

	if (spawn->env) {
		merged = merge_env((char *const *)spawn->env);
		if (!merged)
			return fail(err, ENOMEM, "out of memory for the environment");
	}
	r = spawn_start_child(spawn, merged ? merged : environ, &pid);
	if (r < 0)
		return fail_errno(err, -r, "start '%s'", spawn->argv[0]);
	*ret_pid = pid;
	return 0;
}

/* Waits until one of the descriptors is readable or at its end, or until the deadline. */
static int wait_readable(struct pollfd *fds, nfds_t n, uint64_t deadline_ns)
{
	struct timespec left;
	uint64_t left_ns;
	int r;

	do {
		left_ns = clock_since_ns(deadline_ns, clock_now_ns());
		left = (struct timespec){
			.tv_sec = (time_t)(left_ns / NSEC_PER_SEC),
			.tv_nsec = (long)(left_ns % NSEC_PER_SEC),
		};
		r = ppoll(fds, n, deadline_ns == CLOCK_NEVER ? NULL : &left, NULL);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return r ? 0 : -ETIMEDOUT;
}

int spawn_wait(pid_t pid, uint64_t deadline_ns, int *ret_status)
{
	_cleanup_close_ int pidfd = pidfd_new(pid);
	struct pollfd ended = {.fd = pidfd, .events = POLLIN};
	int status, r;

	if (pidfd < 0)
		return pidfd == -ESRCH ? -ECHILD : pidfd;
	r = wait_readable(&ended, 1, deadline_ns);
	if (r < 0)
		return r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	*ret_status = status;
	return 0;
}

/* Appends what is in the pipe, and drops what exceeds the buf. 0 at the pipe's end, 1 before. */
static int read_present(int fd, struct buf *text)
{
	char piece[4096];
	ssize_t n;

	while ((n = read(fd, piece, sizeof(piece))) > 0)
		buf_add(text, (struct str){piece, MIN((size_t)n, text->max - text->n)});
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

int spawn_read(pid_t pid, int fd, uint64_t deadline_ns, struct buf *text, int *ret_status)
{
	_cleanup_close_ int pidfd = pidfd_new(pid);
	struct pollfd fds[] = {{.fd = pidfd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
	int r = pidfd < 0 ? pidfd : fd_set_nonblock(fd, true);

	while (r == 0 && !fds[0].revents) {
		r = wait_readable(fds, ARRAY_SIZE(fds), deadline_ns);
		if (r == 0 && fds[1].revents && !read_present(fd, text))
			fds[1].fd = -1;
	}
	if (r == 0) {
		if (fds[1].fd >= 0)
			read_present(fd, text);
		return spawn_wait(pid, CLOCK_NEVER, ret_status);
	}
	kill(pid, SIGKILL);
	/* While the child waits for a lost device, not even SIGKILL ends it: do not wait long. */
	spawn_wait(pid, clock_now_ns() + KILLED_NS, ret_status);
	return r;
}
