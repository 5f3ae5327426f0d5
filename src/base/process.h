/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes: who is behind a pid. A pid alone names nobody for long; a pid together with its start
 * time (and the boot id across reboots) does. Functions return 0 or -errno. Any thread.
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
	char name[PROCESS_NAME_SIZE]; /* what the process calls itself: for display only */
	char state;                   /* R S D Z T ... as in proc(5) */
	uint64_t start_ticks;         /* since boot, in clock ticks: compare, do not compute */
};

/* The text of /proc/PID/stat; names with spaces and parentheses included. -EBADMSG if it is not. */
int process_parse_stat(struct str text, struct process_stat *ret_stat);

/* -ESRCH when there is no such process. A zombie still has one, with state 'Z'. */
int process_read_stat(pid_t pid, struct process_stat *ret_stat);

int process_start_ticks(pid_t pid, uint64_t *ret_ticks);

/* Whether that very process still runs (a zombie does not). */
bool process_is_alive(pid_t pid, uint64_t start_ticks);

/*
 * A descriptor that polls readable when that process has ended; -ESRCH when it already has, or
 * when the pid has another start time by now. Close-on-exec.
 */
int process_open(pid_t pid, uint64_t start_ticks);

/*
 * The real and the effective user of a process, as the kernel knows them. The owner of /proc/PID
 * is not that: the kernel shows root there for each process that is not dumpable.
 */
int process_uids(pid_t pid, uid_t *ret_real, uid_t *ret_effective);

/* In a child, just forked: it is killed when its parent's thread ends, and ends if it has. */
void process_end_with(pid_t parent);

/* Children can be waited for, also where who has started us ignores the ends of its own. */
void process_await_children(void);

/* A pidfd without the check. */
int pidfd_new(pid_t pid);
int pidfd_kill(int pidfd, int sig);

/*
 * Whether any process was started with that entry ("NAME=value") in its environment: 1 or 0, or
 * -errno; -EACCES when it may be one of which the environment cannot be read: one in a pid
 * namespace below ours that was started in that time (as process_start_ticks() says). One within
 * execve(2) is missed: it has no environment then. Reads all of /proc: it may take milliseconds,
 * and without end where a process is stuck.
 */
int process_find_environ(struct str entry, uint64_t since_ticks, uint64_t until_ticks);

/*
 * Whether any process is in that cgroup ("/a/b") or below it, by the v2 hierarchy mounted at root:
 * 1, or 0, also when there is no such cgroup. -ENOTSUP where root is none or does not show it.
 */
int cgroup_is_populated(const char *root, const char *path);

/* The kernel's random id of this boot, as text. */
int process_boot_id(char ret_id[static PROCESS_BOOT_ID_SIZE]);

/* Blocks the signals in this thread and returns a signalfd (non-blocking) for them. */
int signal_fd_new(const sigset_t *signals);

#endif
