/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/spawn.h"
#include "../../patience.h"

#define REST " S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3\n"

static void reads_a_line_of_proc(void **state)
{
	struct process_stat stat;

	assert_ok(process_parse_stat(STR("42 (bash)" REST), &stat));
	assert_int_equal(stat.pid, 42);
	assert_int_equal(stat.parent, 7);
	assert_int_equal(stat.state, 'S');
	assert_string_equal(stat.name, "bash");
	assert_int_equal(stat.start_ticks, 987654);
}

static void names_may_hold_anything(void **state)
{
	struct process_stat stat;

	assert_ok(process_parse_stat(STR("42 (a) R 1 (b) c)" REST), &stat));
	assert_string_equal(stat.name, "a) R 1 (b) c");
	assert_int_equal(stat.start_ticks, 987654);
	assert_ok(process_parse_stat(STR("42 ())" REST), &stat));
	assert_string_equal(stat.name, ")");
	assert_ok(process_parse_stat(STR("42 ()" REST), &stat));
	assert_string_equal(stat.name, "");
}

static void refuses_other_lines(void **state)
{
	static const char *const texts[] = {"", "42", "42 (", "42 (bash", ")(", ("x (bash)" REST),
		"42 (bash)", "42 (bash) S 7 1",
		"42 (bash) S x 1 1 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 9",
		"42 (bash) S 7 1 1 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 -9"};
	struct process_stat stat;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(texts); i++)
		if (process_parse_stat(str_from(texts[i]), &stat) != -EBADMSG)
			fail_msg("'%s' was accepted", texts[i]);
}

static void reads_a_strange_process_name(void **state)
{
	struct process_stat stat;
	uint64_t ticks;

	assert_ok(prctl(PR_SET_NAME, ") Z 1 (x"));
	assert_ok(process_read_stat(getpid(), &stat));
	assert_string_equal(stat.name, ") Z 1 (x");
	assert_int_equal(stat.pid, getpid());
	assert_int_equal(stat.parent, getppid());
	assert_int_equal(stat.state, 'R');
	assert_ok(process_start_ticks(getpid(), &ticks));
	assert_true(process_is_alive(getpid(), ticks));
	assert_false(process_is_alive(getpid(), ticks + 1));
	assert_int_equal(process_open(getpid(), ticks + 1), -ESRCH);
	assert_int_equal(process_read_stat(-1, &stat), -ESRCH);
}

/*
 * A child that runs until the test kills it or ends, since it reads from a pipe that never has
 * more. The child has answered once, so its exec is over: during the exec, /proc shows no
 * environment yet.
 */
static pid_t start_cat(const char *const *env)
{
	const char *const argv[] = {"cat", NULL};
	int in[2], out[2], stdio[3];
	pid_t pid = 0;
	char c;

	assert_ok(pipe2(in, O_CLOEXEC));
	assert_ok(pipe2(out, O_CLOEXEC));
	stdio[0] = in[0];
	stdio[1] = out[1];
	stdio[2] = -1;
	assert_ok(spawn_run(
		&(struct spawn){.argv = argv, .env = env, .stdio_fds = stdio}, &pid, NULL));
	close(in[0]);
	close(out[1]);
	assert_int_equal(write(in[1], "x", 1), 1);
	assert_int_equal(read(out[0], &c, 1), 1);
	close(out[0]);
	return pid; /* in[1] stays open */
}

static void sees_a_killed_child_as_dead_before_it_is_reaped(void **state)
{
	const pid_t pid = start_cat(NULL);
	_cleanup_close_ int pidfd = -1;
	struct pollfd p;
	uint64_t ticks;
	int status;

	assert_ok(process_start_ticks(pid, &ticks));
	assert_true(process_is_alive(pid, ticks));
	pidfd = process_open(pid, ticks);
	assert_true(pidfd >= 0);
	assert_true(fcntl(pidfd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(spawn_wait(pid, 0, &status), -ETIMEDOUT);

	assert_ok(pidfd_kill(pidfd, SIGKILL));
	p = (struct pollfd){.fd = pidfd, .events = POLLIN};
	assert_int_equal(poll(&p, 1, patience_ms(60000)), 1);
	assert_false(process_is_alive(pid, ticks));
	assert_ok(spawn_wait(pid, CLOCK_NEVER, &status));
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(process_open(pid, ticks), -ESRCH);
	assert_int_equal(spawn_wait(pid, CLOCK_NEVER, &status), -ECHILD);
}

static void spawns_with_environment_and_descriptors(void **state)
{
	const char *const argv[] = {"sh", "-c", "echo \"$DIVVY_A-$DIVVY_B\"; exit 7", NULL};
	const char *const env[] = {"DIVVY_A=new", NULL};
	_cleanup_buf_ struct buf out = BUF_INIT(100);
	int p[2], stdio[3], status;
	pid_t pid;

	setenv("DIVVY_A", "old", 1);
	setenv("DIVVY_B", "kept", 1);
	assert_ok(pipe2(p, O_CLOEXEC));
	stdio[0] = stdio[2] = -1;
	stdio[1] = p[1];
	assert_ok(spawn_run(
		&(struct spawn){.argv = argv, .env = env, .stdio_fds = stdio}, &pid, NULL));
	close(p[1]);
	assert_ok(fd_read_all(p[0], &out));
	close(p[0]);
	assert_string_equal(buf_text(&out), "new-kept\n");
	assert_ok(spawn_wait(pid, CLOCK_NEVER, &status));
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void says_that_a_program_is_missing(void **state)
{
	const char *const argv[] = {"/nonexistent/program", NULL};
	struct error err;
	pid_t pid = 0;

	assert_int_equal(spawn_run(&(struct spawn){.argv = argv}, &pid, &err), -ENOENT);
	assert_contains(err.msg, "/nonexistent/program");
	assert_int_equal(pid, 0);
}

static void the_boot_has_an_id(void **state)
{
	char a[PROCESS_BOOT_ID_SIZE], b[PROCESS_BOOT_ID_SIZE];

	assert_ok(process_boot_id(a));
	assert_ok(process_boot_id(b));
	assert_int_equal(strlen(a), PROCESS_BOOT_ID_SIZE - 1);
	assert_string_equal(a, b);
}

static void signals_are_read_from_a_descriptor(void **state)
{
	struct signalfd_siginfo info;
	_cleanup_close_ int fd = -1;
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	fd = signal_fd_new(&signals);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, &info, sizeof(info)), -1);
	assert_int_equal(errno, EAGAIN);
	raise(SIGUSR1);
	assert_int_equal(read(fd, &info, sizeof(info)), sizeof(info));
	assert_int_equal(info.ssi_signo, SIGUSR1);
}

static void finds_a_process_by_its_environment(void **state)
{
	const char *const env[] = {"A=1", "TEST_ENTRY=x y", NULL};
	const pid_t pid = start_cat(env);
	int status;

	assert_int_equal(process_find_environ(STR("TEST_ENTRY=x y"), 0, UINT64_MAX, NULL, NULL), 1);
	assert_int_equal(process_find_environ(STR("TEST_ENTRY=x"), 0, UINT64_MAX, NULL, NULL), 0);
	assert_int_equal(process_find_environ(STR("EST_ENTRY=x y"), 0, UINT64_MAX, NULL, NULL), 0);
	kill(pid, SIGKILL);
	assert_ok(spawn_wait(pid, CLOCK_NEVER, &status));
	assert_int_equal(process_find_environ(STR("TEST_ENTRY=x y"), 0, UINT64_MAX, NULL, NULL), 0);
}

struct reads {
	pid_t but;
	uint32_t n;
};

static bool read_others(void *data, pid_t pid)
{
	struct reads *reads = data;

	reads->n++;
	return pid != reads->but;
}

/* An unread process counts as a possible match if it started in the given time. */
static void a_process_can_be_left_unread(void **state)
{
	const char *const env[] = {"TEST_ENTRY=unread", NULL};
	struct reads reads = {.but = start_cat(env)};
	const struct str entry = STR("TEST_ENTRY=unread");
	uint64_t start;
	int status;

	assert_ok(process_start_ticks(reads.but, &start));
	assert_int_equal(process_find_environ(entry, start, start, read_others, &reads), -EACCES);
	assert_true(reads.n > 1);
	assert_int_equal(process_find_environ(entry, 0, start - 1, read_others, &reads), 0);
	assert_int_equal(
		process_find_environ(entry, start + 1, UINT64_MAX, read_others, &reads), 0);
	kill(reads.but, SIGKILL);
	assert_ok(spawn_wait(reads.but, CLOCK_NEVER, &status));
	assert_int_equal(process_find_environ(entry, start, start, read_others, &reads), 0);
}

static void put(const char *folder, const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_ok(file_replace(path, str_from(text), 0644, NULL));
}

static void cgroup_events_show_whether_a_cgroup_is_populated(void **state)
{
	static const char *const made[] = {
		"/a/b/cgroup.events", "/a/b", "/a", "/cgroup.controllers", ""};
	char root[] = "/tmp/test-cgroup-XXXXXX", path[128];

	assert_non_null(mkdtemp(root));
	assert_int_equal(cgroup_is_populated(root, "/a/b"), -ENOTSUP);
	put(root, "cgroup.controllers", "cpu\n");
	snprintf(path, sizeof(path), "%s/a/b", root);
	assert_ok(folder_make(path, 0755, NULL));
	put(path, "cgroup.events", "populated 1\nfrozen 0\n");
	assert_int_equal(cgroup_is_populated(root, "/a/b"), 1);
	put(path, "cgroup.events", "populated 0\nfrozen 0\n");
	assert_int_equal(cgroup_is_populated(root, "/a/b"), 0);
	assert_int_equal(cgroup_is_populated(root, "/a/gone"), 0);
	assert_int_equal(cgroup_is_populated(root, "/../a/b"), -ENOTSUP);
	for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
		snprintf(path, sizeof(path), "%s%s", root, made[i]);
		assert_int_equal(remove(path), 0);
	}
}

/* Runs the script until that deadline; the caller compares the output. */
static int read_script(const char *script, uint64_t timeout_ns, struct buf *text, int *ret_status)
{
	const char *argv[] = {"sh", "-c", script, NULL};
	int fds[2], r;
	pid_t pid;

	assert_ok(pipe2(fds, O_CLOEXEC));
	assert_ok(spawn_run(
		&(struct spawn){.argv = argv, .stdio_fds = (int[]){-1, fds[1], -1}}, &pid, NULL));
	close(fds[1]);
	r = spawn_read(pid, fds[0], clock_now_ns() + patience_ns(timeout_ns), text, ret_status);
	close(fds[0]);
	return r;
}

static void reads_what_a_program_writes(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT(8), all = BUF_INIT(1 << 20);
	int status;

	assert_ok(read_script("echo 123456789; exit 3", 60 * NSEC_PER_SEC, &text, &status));
	assert_string_equal(buf_text(&text), "12345678");
	assert_int_equal(WEXITSTATUS(status), 3);
	/* More than the pipe holds, and a grandchild that keeps it open. */
	assert_ok(read_script(
		"sleep 5 & head -c 200000 /dev/zero", 60 * NSEC_PER_SEC, &all, &status));
	assert_int_equal(all.n, 200000);
}

/* A program that hangs is killed, also if it has closed its end of the pipe. */
static void a_program_that_hangs_is_killed(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT(100);
	int status;

	assert_int_equal(
		read_script("echo early; exec sleep 1000", 500 * NSEC_PER_MSEC, &text, &status),
		-ETIMEDOUT);
	assert_string_equal(buf_text(&text), "early\n");
	assert_int_equal(WTERMSIG(status), SIGKILL);
	assert_int_equal(
		read_script("exec >&-; exec sleep 1000", 500 * NSEC_PER_MSEC, &text, &status),
		-ETIMEDOUT);
}

UNIT_MAIN(UNIT(reads_a_line_of_proc), UNIT(names_may_hold_anything), UNIT(refuses_other_lines),
	UNIT(reads_a_strange_process_name), UNIT(sees_a_killed_child_as_dead_before_it_is_reaped),
	UNIT(spawns_with_environment_and_descriptors), UNIT(says_that_a_program_is_missing),
	UNIT(the_boot_has_an_id), UNIT(finds_a_process_by_its_environment),
	UNIT(a_process_can_be_left_unread), UNIT(cgroup_events_show_whether_a_cgroup_is_populated),
	UNIT(signals_are_read_from_a_descriptor), UNIT(reads_what_a_program_writes),
	UNIT(a_program_that_hangs_is_killed))
