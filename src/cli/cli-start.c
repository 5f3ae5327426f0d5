/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file starts divvyd as a detached process, and waits until a connection to its socket
 * succeeds. Two commands may start a daemon at once: the second daemon exits, and its command then
 * connects to the first daemon. daemon_failed() reads only the lines that were added to the log
 * since the start, because all daemons append to one log. The new daemon inherits no descriptor but
 * its standard ones. A command uses a running daemon only after the daemon has answered `ping`,
 * because a daemon that is exiting still accepts connections.
 */
#include "cli/cli-start.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/process.h"
#include "cli/cli-path.h"

#define START_TIMEOUT_NS (20 * NSEC_PER_SEC)
/* Another daemon may have won the race for the socket. That daemon has this long to answer. */
#define LOSER_GRACE_NS (2 * NSEC_PER_SEC)
#define LOG_MAX (1u << 20) /* most log text of a daemon that exits right after its start */

static void exec_daemon(const char *program, const char *simulate, int log)
{
	const char *exit_idle = getenv("DIVVY_EXIT_IDLE");
	char idle[64] = "--exit-idle";
	const char *argv[5] = {program, idle};
	const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;

	if (exit_idle && exit_idle[0])
		snprintf(idle, sizeof(idle), "--exit-idle=%s", exit_idle);
	if (simulate) {
		argv[2] = "--simulate";
		argv[3] = simulate;
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (null < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0 || chdir("/") < 0)
		_exit(127);
	/*
	 * The daemon would otherwise keep this process's open locks and pipes for its whole life.
	 */
	fd_close_from(3);
	execv(program, (char *const *)(uintptr_t)argv);
	_exit(127);
}

/*
 * The daemon must not be a child of this process: the user's program takes over this pid and would
 * find an unknown child. So a child forks the daemon, sends the daemon's pid through a pipe, and
 * exits.
 */
static int spawn_detached(
	const char *program, const char *simulate, int log, pid_t *ret_pid, struct error *err)
{
	_cleanup_close_ int in = -1, out = -1;
	int fds[2], status;
	pid_t child, daemon = 0;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return fail_errno(err, errno, "create a pipe");
	in = fds[0];
	out = fds[1];
	child = fork();
	if (child < 0)
		return fail_errno(err, errno, "start a process");
	if (child == 0) {
		setsid();
		daemon = fork();
		if (daemon == 0)
			exec_daemon(program, simulate, log);
		_exit(daemon > 0 && write(out, &daemon, sizeof(daemon)) == sizeof(daemon) ? 0 : 1);
	}
	/* With our own end open, a read would wait for ever if the second fork has failed. */
	out = fd_close(out);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (read(in, &daemon, sizeof(daemon)) != sizeof(daemon))
		return fail(err, EAGAIN,
			"cannot start divvyd: fork failed; check the limit of processes "
			"(ulimit -u)");
	*ret_pid = daemon;
	return 0;
}

/* Makes an error from the last line that the daemon has logged since byte `from`. */
static int daemon_failed(const char *log_path, size_t from, struct error *err)
{
	_cleanup_close_ int fd = open(log_path, O_RDONLY | O_CLOEXEC);
	_cleanup_buf_ struct buf text = BUF_INIT(LOG_MAX);
	struct statvfs fs;
	struct str last;

	if (fd >= 0 && lseek(fd, (off_t)from, SEEK_SET) >= 0)
		fd_read_all(fd, &text);
	if (!text.n) {
		if (statvfs(log_path, &fs) == 0 && fs.f_bavail == 0)
			return fail(err, ENOSPC,
				"divvyd exited at once: no space is left on the file system of "
				"'%s'",
				log_path);
		return fail(err, EIO, "divvyd exited at once without a message in '%s'", log_path);
	}
	last = str_last_line(buf_str(&text));
	str_skip_prefix(&last, STR("divvyd: "));
	str_skip_prefix(&last, STR("error: "));
	return fail(err, EIO, "divvyd exited at once: %.*s", (int)MIN(last.n, (size_t)200), last.p);
}

static int await_daemon(struct client *c, const char *socket, pid_t pid, const char *log_path,
	size_t log_from, struct error *err)
{
	_cleanup_close_ int pidfd = pidfd_new(pid);
	uint64_t deadline = clock_now_ns() + START_TIMEOUT_NS;
	bool has_died = pidfd < 0;

	while (client_connect(c, socket, NULL) < 0) {
		struct pollfd end = {.fd = has_died ? -1 : pidfd, .events = POLLIN};

		if (clock_now_ns() > deadline)
			return has_died
				? daemon_failed(log_path, log_from, err)
				: fail(err, ETIMEDOUT,
					  "divvyd (pid %d) does not listen after 20 s; see '%s'",
					  (int)pid, log_path);
		if (poll(&end, 1, 10) > 0) {
			has_died = true;
			deadline = MIN(deadline, clock_now_ns() + LOSER_GRACE_NS);
		}
	}
	return 0;
}

static int start_run_daemon(
	struct client *c, const char *socket, const char *simulate, struct error *err)
{
	char program[PLACES_PATH], folder[PLACES_PATH], log_path[PLACES_PATH + 16];
	_cleanup_close_ int log = -1;
	int64_t from;
	pid_t pid = 0;
	int r;

	r = cli_path_daemon(program, sizeof(program), err);
	if (r < 0)
		return r;
	r = cli_path_runtime(folder, sizeof(folder), err);
	if (r < 0)
		return r;
	r = folder_make(folder, geteuid() == 0 && !getenv("DIVVY_RUNTIME_DIR") ? 0755 : 0700, err);
	if (r < 0)
		return r;
	snprintf(log_path, sizeof(log_path), "%s/divvyd.log", folder);
	log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (log < 0)
		return fail_errno(err, errno, "open '%s'", log_path);
	from = fd_size(log);
	r = spawn_detached(program, simulate, log, &pid, err);
	if (r < 0)
		return r;
	return await_daemon(c, socket, pid, log_path, from > 0 ? (size_t)from : 0, err);
}

/* A simulated GPU reads and writes its programs' memory, which Linux forbids across users. */
int start_check_owner(const struct client *c, const json_t *ping, struct error *err)
{
	const uid_t user = (uid_t)json_int_or_zero(ping, "uid");

	if (!json_bool_or_false(ping, "simulated") || user == geteuid())
		return 0;
	return fail(err, EPERM,
		"the daemon at '%s' simulates a GPU for user %u only; set "
		"DIVVY_RUNTIME_DIR=/some/folder for a daemon and a simulated GPU of your own",
		c->socket, (unsigned int)user);
}

/* Returns whether the daemon's devices match the specification. */
static bool start_is_like_devices(const json_t *devices, const struct simgpu_config *wanted)
{
	if (json_array_size(devices) != wanted->n)
		return false;
	for (size_t i = 0; i < wanted->n; i++) {
		const json_t *d = json_array_get(devices, i);

		if (strcmp(json_text_or_empty(d, "model"), wanted->devices[i].name) != 0 ||
			json_uint_or_zero(d, "memory_bytes") != wanted->devices[i].mem_bytes)
			return false;
	}
	return true;
}

static int start_compare_simulated(struct client *c, const char *simulate, struct error *err)
{
	_cleanup_json_ json_t *answer = NULL;
	struct simgpu_config wanted;
	const json_t *devices;
	int r = start_check_simulated(simulate, &wanted, err);

	r = r < 0 ? r : client_ask(c, "devices", NULL, &answer, err);
	if (r < 0)
		return r;
	devices = json_object_get(answer, "devices");
	if (!json_bool_or_false(answer, "simulated"))
		return fail(err, EBUSY,
			"--simulate %s: the daemon at '%s' has real devices; set "
			"DIVVY_RUNTIME_DIR=/some/folder for a daemon of your own",
			simulate, c->socket);
	if (!start_is_like_devices(devices, &wanted))
		return fail(err, EBUSY,
			"--simulate %s: the daemon at '%s' already simulates %zu x %s-%s; leave "
			"--simulate out, or set DIVVY_RUNTIME_DIR for a daemon of your own",
			simulate, c->socket, json_array_size(devices),
			json_text_or_empty(json_array_get(devices, 0), "model"),
			format_bytes(json_uint_or_zero(json_array_get(devices, 0), "memory_bytes"))
				.s);
	return 0;
}

static int check_serves_us(struct client *c, const char *simulate, struct error *err)
{
	_cleanup_json_ json_t *ping = NULL;
	int r = client_ask(c, "ping", NULL, &ping, err);

	r = r < 0 ? r : start_check_owner(c, ping, err);
	return r < 0 || !simulate ? r : start_compare_simulated(c, simulate, err);
}

int start_check_simulated(const char *simulate, struct simgpu_config *ret_config, struct error *err)
{
	int r;

	simgpu_config_init(ret_config);
	r = simgpu_config_parse_devices(ret_config, str_from(simulate), err);
	return r < 0 ? fail_within(err, r, "--simulate %s", simulate) : 0;
}

/* A daemon that is exiting still accepts connections, so only its answer shows that it stays. */
static int connect_living(
	struct client *c, const char *socket, const char *simulate, struct error *err)
{
	const uint64_t deadline = clock_now_ns() + LOSER_GRACE_NS;

	for (;;) {
		int r = client_connect(c, socket, err);

		if (r == 0)
			r = check_serves_us(c, simulate, err);
		if ((r != -ECONNRESET && r != -EPIPE) || clock_now_ns() > deadline)
			return r;
		client_done(c);
		clock_sleep_until_ns(clock_now_ns() + 10 * NSEC_PER_MSEC);
	}
}

int start_daemon(struct client *c, const char *socket, const char *simulate, struct error *err)
{
	int r = connect_living(c, socket, simulate, err);

	if (r == 0 || socket || cli_path_socket_named() || (r != -ENOENT && r != -ECONNREFUSED))
		return r;
	return start_run_daemon(c, socket, simulate, err);
}
