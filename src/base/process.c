/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file reads /proc and uses pidfds. A pidfd is opened before /proc is checked, so that the
 * check is about the same process. System calls newer than GLIBC_2.28 go through syscall(). No
 * state; any thread.
 */
#include "base/process.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"

#define STAT_MAX_BYTES 4096
#define STATUS_MAX_BYTES 65536       /* includes the list of groups */
#define ENVIRON_MAX_BYTES (1u << 20) /* further bytes are ignored */

/* Fields of proc(5), counted from 1; the state follows the name. */
enum { FIELD_STATE = 3, FIELD_PARENT = 4, FIELD_START = 22 };

static int process_parse_number(struct str word, uint64_t max, uint64_t *ret)
{
	return parse_uint(word, 0, max, ret, NULL) < 0 ? -EBADMSG : 0;
}

int process_parse_stat(struct str text, struct process_stat *ret_stat)
{
	struct process_stat stat = {.state = 0};
	uint64_t pid, parent = 0;
	size_t open = str_find(text, '(');
	size_t close = text.n;
	struct str rest, word;
	int field;

	/* The name may contain a ')': the last one ends the name. */
	while (close > open && text.p[close - 1] != ')')
		close--;
	if (open == text.n || close <= open + 1)
		return -EBADMSG;
	if (process_parse_number(str_trim((struct str){text.p, open}), INT32_MAX, &pid) < 0)
		return -EBADMSG;
	if (str_copy(stat.name, sizeof(stat.name),
		    (struct str){text.p + open + 1, MIN(close - open - 2, sizeof(stat.name) - 1)}) <
		0)
		return -EBADMSG;

	rest = (struct str){text.p + close, text.n - close};
	for (field = FIELD_STATE; field <= FIELD_START; field++) {
		if (!str_word(&rest, &word))
			return -EBADMSG;
		if (field == FIELD_STATE)
			stat.state = word.p[0];
		if (field == FIELD_PARENT && process_parse_number(word, INT32_MAX, &parent) < 0)
			return -EBADMSG;
		if (field == FIELD_START &&
			process_parse_number(word, UINT64_MAX, &stat.start_ticks) < 0)
			return -EBADMSG;
	}
	stat.pid = (pid_t)pid;
	stat.parent = (pid_t)parent;
	*ret_stat = stat;
	return 0;
}

int process_read_stat(pid_t pid, struct process_stat *ret_stat)
{
	_cleanup_buf_ struct buf text = BUF_INIT(STAT_MAX_BYTES);
	char path[32];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	r = file_read(path, &text, NULL);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	return process_parse_stat(buf_str(&text), ret_stat);
}

int process_start_ticks(pid_t pid, uint64_t *ret_ticks)
{
	struct process_stat stat;
	int r = process_read_stat(pid, &stat);

	if (r < 0)
		return r;
	*ret_ticks = stat.start_ticks;
	return 0;
}

bool process_is_alive(pid_t pid, uint64_t start_ticks)
{
	struct process_stat stat;

	return process_read_stat(pid, &stat) == 0 && stat.start_ticks == start_ticks &&
		stat.state != 'Z' && stat.state != 'X';
}

int process_uids(pid_t pid, uid_t *ret_real, uid_t *ret_effective)
{
	_cleanup_buf_ struct buf text = BUF_INIT(STATUS_MAX_BYTES);
	uint64_t real, effective;
	struct str rest, line, word;
	char path[32];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	r = file_read(path, &text, NULL);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	rest = buf_str(&text);
	while (str_split(&rest, '\n', &line)) {
		if (!str_skip_prefix(&line, STR("Uid:")))
			continue;
		if (!str_word(&line, &word) || process_parse_number(word, UINT32_MAX, &real) < 0 ||
			!str_word(&line, &word) ||
			process_parse_number(word, UINT32_MAX, &effective) < 0)
			break;
		*ret_real = (uid_t)real;
		*ret_effective = (uid_t)effective;
		return 0;
	}
	return -EBADMSG;
}

void process_end_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
}

void process_await_children(void)
{
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

int pidfd_new(pid_t pid)
{
	long fd = syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : (int)fd;
}

int pidfd_kill(int pidfd, int sig)
{
	return syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) < 0 ? -errno : 0;
}

int process_open(pid_t pid, uint64_t start_ticks)
{
	_cleanup_close_ int fd = pidfd_new(pid);

	if (fd < 0)
		return fd;
	/* Check only now: while we hold the pidfd, /proc/PID describes the process that we hold. */
	return process_is_alive(pid, start_ticks) ? TAKE_FD(fd) : -ESRCH;
}

/* Returns 1 if the environment has the entry, else 0; -EACCES if it cannot be read. */
static int has_environ(pid_t pid, struct str entry)
{
	_cleanup_buf_ struct buf text = BUF_INIT(ENVIRON_MAX_BYTES);
	struct str rest, one;
	char path[32];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	r = file_read(path, &text, NULL);
	if (r == -EACCES || r == -EPERM)
		return -EACCES;
	rest = (struct str){text.p, text.n};
	while (rest.n && str_split(&rest, '\0', &one))
		if (str_eq(one, entry))
			return 1;
	return 0;
}

/* A line "NSpid:" lists a pid for each pid namespace; more than one means a nested namespace. */
static bool is_in_pid_namespace(pid_t pid)
{
	_cleanup_buf_ struct buf text = BUF_INIT(STATUS_MAX_BYTES);
	struct str rest, line, word;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (file_read(path, &text, NULL) < 0)
		return false;
	rest = buf_str(&text);
	while (str_split(&rest, '\n', &line))
		if (str_skip_prefix(&line, STR("NSpid:")))
			return str_word(&line, &word) && str_word(&line, &word);
	return false;
}

int process_find_environ(struct str entry, uint64_t since_ticks, uint64_t until_ticks,
	process_may_read_fn *may_read, void *data)
{
	DIR *proc = opendir("/proc");
	bool is_unknown = false, is_skipped;
	uint64_t pid, start;
	struct dirent *e;
	int r = 0;

	if (!proc)
		return -errno;
	while (r <= 0 && (e = readdir(proc))) {
		if (parse_uint(str_from(e->d_name), 1, INT32_MAX, &pid, NULL) < 0)
			continue;
		is_skipped = may_read && !may_read(data, (pid_t)pid);
		r = is_skipped ? -EACCES : has_environ((pid_t)pid, entry);
		if (r < 0 && !is_unknown && process_start_ticks((pid_t)pid, &start) == 0 &&
			start >= since_ticks && start <= until_ticks)
			is_unknown = is_skipped || is_in_pid_namespace((pid_t)pid);
	}
	closedir(proc);
	return r > 0 ? 1 : is_unknown ? -EACCES : 0;
}

int cgroup_is_populated(const char *root, const char *path)
{
	_cleanup_buf_ struct buf text = BUF_INIT(STAT_MAX_BYTES);
	struct str rest, line;
	char file[PATH_MAX];
	int r;

	snprintf(file, sizeof(file), "%s/cgroup.controllers", root);
	/* A path with "/.." lies outside our cgroup namespace. */
	if (access(file, F_OK) < 0 || strstr(path, "/.."))
		return -ENOTSUP;
	if (snprintf(file, sizeof(file), "%s%s/cgroup.events", root, path) >= (int)sizeof(file))
		return -ENAMETOOLONG;
	r = file_read(file, &text, NULL);
	if (r == -ENOENT || r == -ENODEV) /* removed, or being removed */
		return 0;
	if (r < 0)
		return r;
	rest = buf_str(&text);
	while (str_split(&rest, '\n', &line))
		if (str_skip_prefix(&line, STR("populated ")))
			return !str_eq(line, STR("0"));
	return -EBADMSG;
}

int process_boot_id(char ret_id[static PROCESS_BOOT_ID_SIZE])
{
	_cleanup_buf_ struct buf text = BUF_INIT(64);
	struct str id;
	int r = file_read("/proc/sys/kernel/random/boot_id", &text, NULL);

	if (r < 0)
		return r;
	id = str_trim(buf_str(&text));
	if (id.n != PROCESS_BOOT_ID_SIZE - 1)
		return -EBADMSG;
	return str_copy(ret_id, PROCESS_BOOT_ID_SIZE, id);
}

int signal_fd_new(const sigset_t *signals)
{
	int fd;

	/*
	 * On Linux sigprocmask() affects the calling thread; pthread_sigmask() is a newer symbol.
	 */
	if (sigprocmask(SIG_BLOCK, signals, NULL) < 0)
		return -errno;
	fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}
