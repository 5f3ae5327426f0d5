/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes. The kernel reuses pids: only a pid together with its start time (across reboots also
 * the boot id) identifies a process. Functions return 0 or -errno. Any thread.
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

#define PROCESS_NAME_SIZE 16
#define PROCESS_BOOT_ID_SIZE 37

struct process_stat {
	pid_t pid;
	pid_t parent;
	char name[PROCESS_NAME_SIZE]; /* the process sets this name itself: for display only */
	char state;                   /* R S D Z T ... as in proc(5) */
	uint64_t start_ticks;         /* since boot, in clock ticks: only for comparison */
};

/*
 * Parses the text of /proc/PID/stat; the name may contain spaces and parentheses. -EBADMSG if the
 * text has another form.
 */
int process_parse_stat(struct str text, struct process_stat *ret_stat);

/* -ESRCH if there is no such process. A zombie is a process, with state 'Z'. */
int process_read_stat(pid_t pid, struct process_stat *ret_stat);

int process_start_ticks(pid_t pid, uint64_t *ret_ticks);

/* Whether the process with this pid and start time still runs; false for a zombie. */
bool process_is_alive(pid_t pid, uint64_t start_ticks);

/*
 * Returns a close-on-exec descriptor (pidfd) that polls readable when the process ends. -ESRCH if
 * the process has ended, or if the pid now belongs to a process with another start time.
 */
int process_open(pid_t pid, uint64_t start_ticks);

/*
 * The real and the effective user of a process. The owner of /proc/PID is not reliable: the kernel
 * shows root for each process that is not dumpable.
 */
int process_uids(pid_t pid, uid_t *ret_real, uid_t *ret_effective);

/*
 * For a child right after fork: the kernel kills the child when the parent's thread ends. The child
 * exits here if the parent has already ended.
 */
void process_end_with(pid_t parent);

/* Makes children waitable, also if the program that started us has set SIGCHLD to be ignored. */
void process_await_children(void);

/* A pidfd, without process_open()'s check of the start time. */
int pidfd_new(pid_t pid);
int pidfd_kill(int pidfd, int sig);

/* Called before the read of a process's environment; false skips that process. */
typedef bool process_may_read_fn(void *data, pid_t pid);

/*
 * Whether any process was started with that entry ("NAME=value") in its environment: 1 or 0, or
 * -errno. Returns -EACCES if a process with an unknown environment may have the entry. Such a
 * process was started in the given time, in ticks as process_start_ticks() returns them. Its
 * environment is unknown if may_read has skipped the process. The environment is also unknown if it
 * cannot be read and the process is in a pid namespace below ours. A process within execve(2) has
 * no environment and is missed.
 *
 * Reads all of /proc, which may take milliseconds. The read of one environment blocks while its
 * pages are on a file system that does not answer. The read also blocks while the process is stuck
 * in a change of its memory. SIGKILL does not end such a read. may_read (NULL: reads all) runs in
 * the caller's thread.
 */
int process_find_environ(struct str entry, uint64_t since_ticks, uint64_t until_ticks,
	process_may_read_fn *may_read, void *data);

/*
 * Whether any process is in the cgroup `path` ("/a/b") or below it; root is the mount point of the
 * v2 hierarchy. Returns 1; 0, also if there is no such cgroup; -ENOTSUP if root is no v2 hierarchy
 * or the path lies outside our cgroup namespace.
 */
int cgroup_is_populated(const char *root, const char *path);

/* The random id that the kernel gives each boot, as text. */
int process_boot_id(char ret_id[static PROCESS_BOOT_ID_SIZE]);

/* Blocks the signals in this thread and returns a non-blocking signalfd for them. */
int signal_fd_new(const sigset_t *signals);

#endif
