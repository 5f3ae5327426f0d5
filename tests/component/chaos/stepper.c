/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stepper: runs a program and kills it at a chosen point of a chosen phase, so that a test can try
 * all points. A point is a change that other processes can observe. There is a point after each
 * system call of the program's main thread, and after each instruction that changes memory shared
 * with the daemon: the head and the thread lines of its up page, the tenant's counter.
 *
 * usage: stepper PHASE POINT COMMAND...      POINT 0: counts points and kills nothing
 *        stepper attach POINT PID            kills PID after POINT of its system calls
 *        stepper changes POINT PID           kills PID after POINT system calls of all its threads
 *                                            that change what other processes or a disk see
 * Prints "pid N" first; at the end "points N" (the phase or the program has ended) or "killed N".
 * The program inherits stdout. Exits with 77 if tracing is not allowed, or on other processors.
 *
 * One thread. Except for `changes`, stepper traces only the program's first thread. The program's
 * other threads run freely and are killed with the program.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "phases.h"
#include "wire/page.h"

#define SKIP 77
#define LINES_WATCHED 4u
#define PAGE 4096u
#define TEXTS 256u
#define SYSCALL_STOP (SIGTRAP | 0x80)

#if defined(__x86_64__)

/* The parts of the shared pages that the process writes; the device writes the markers (done). */
struct seen {
	uint8_t up[offsetof(struct page_up, done) < 256 ? offsetof(struct page_up, done) : 256];
	uint32_t issued[8];
	struct page_line line[LINES_WATCHED];
	uint64_t word;
	uint32_t applied[64];
};

struct run {
	pid_t pid;
	const struct page_up *up;
	const struct page_tenant *tenant;
	struct seen seen;
	uint64_t point, points;
	bool is_stepping; /* stops at instructions, not only at system calls */
	struct {
		uint64_t address; /* the page's address + 1; 0: empty */
		uint8_t bytes[PAGE];
	} text[TEXTS]; /* the program's code, each page read once */
};

static void die(const char *what)
{
	int skip = errno == EPERM || errno == ENOSYS;

	fprintf(stderr, "stepper: %s: %s\n", what, strerror(errno));
	exit(skip ? SKIP : 2);
}

/* Maps a page of the program here, found by the name of its memfd. */
static const void *find_page(pid_t pid, const char *name, size_t size)
{
	char path[64], target[128];
	const void *found = NULL;
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && !found && (e = readdir(dir))) {
		ssize_t n;
		void *p;
		int fd;

		snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", (int)pid, e->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = '\0';
		if (!strstr(target, name))
			continue;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		p = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
		if (fd >= 0)
			close(fd);
		if (p != MAP_FAILED)
			found = p;
	}
	if (dir)
		closedir(dir);
	return found;
}

static void look(const struct run *r, struct seen *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (r->up) {
		memcpy(ret->up, r->up, sizeof(ret->up));
		memcpy(ret->issued, (const void *)r->up->issued, sizeof(ret->issued));
		memcpy(ret->line, r->up->line, sizeof(ret->line));
	}
	if (r->tenant) {
		ret->word = atomic_load(&((struct page_tenant *)(uintptr_t)r->tenant)->word);
		memcpy(ret->applied, (const void *)r->tenant->applied, sizeof(ret->applied));
	}
}

static void find_pages(struct run *r)
{
	if (!r->up)
		r->up = find_page(r->pid, "divvy-up", sizeof(*r->up));
	if (!r->tenant)
		r->tenant = find_page(r->pid, "divvy-tenant", sizeof(*r->tenant));
	look(r, &r->seen);
}

static bool has_changed(struct run *r)
{
	struct seen now;

	look(r, &now);
	if (!memcmp(&now, &r->seen, sizeof(now)))
		return false;
	r->seen = now;
	return true;
}

/* Kills the program if the run has reached the chosen point. */
static bool at_point(struct run *r)
{
	if (++r->points != r->point)
		return false;
	kill(r->pid, SIGKILL);
	waitpid(r->pid, NULL, 0);
	printf("killed %" PRIu64 "\n", r->points);
	return true;
}

static bool is_end(const struct run *r, int status)
{
	return WIFEXITED(status) || WIFSIGNALED(status);
}

/* Continues to the next stop and passes signals on; false when the program has exited. */
static bool go_on(struct run *r, enum __ptrace_request how, int *status)
{
	int sig = WIFSTOPPED(*status) ? WSTOPSIG(*status) : 0;

	if (sig == SIGTRAP || sig == SYSCALL_STOP || sig == SIGSTOP)
		sig = 0;
	if (ptrace(how, r->pid, 0, sig) < 0 && errno != ESRCH)
		die("go on");
	if (waitpid(r->pid, status, __WALL) < 0)
		die("wait");
	return !is_end(r, *status);
}

/* Number of the phase that the program's current system call announces; 0: it is another call. */
static unsigned long phase_at(const struct user_regs_struct *regs, unsigned long long number)
{
	if (number != SYS_prctl || regs->rdi != PHASE_CALL)
		return 0;
	return (unsigned long)regs->rsi;
}

static bool stands_at_syscall(struct run *r, const struct user_regs_struct *regs)
{
	uint64_t page = regs->rip & ~(uint64_t)(PAGE - 1), at = regs->rip - page;
	uint32_t i = (uint32_t)(page / PAGE) % TEXTS;

	if (at + 1 >= PAGE) {
		errno = 0;
		return (ptrace(PTRACE_PEEKTEXT, r->pid, (void *)(uintptr_t)regs->rip, 0) &
			       0xffff) == 0x050f &&
			!errno;
	}
	if (r->text[i].address != page + 1) {
		struct iovec here = {r->text[i].bytes, PAGE},
			     there = {(void *)(uintptr_t)page, PAGE};

		r->text[i].address = page + 1;
		if (process_vm_readv(r->pid, &here, 1, &there, 1, 0) != PAGE)
			r->text[i].address = 0;
	}
	return r->text[i].bytes[at] == 0x0f && r->text[i].bytes[at + 1] == 0x05;
}

/* Continues by system calls until the phase begins. */
static bool reach(struct run *r, unsigned long phase, int *status)
{
	struct user_regs_struct regs;
	bool is_entry = true;

	while (go_on(r, PTRACE_SYSCALL, status)) {
		if (!WIFSTOPPED(*status) || WSTOPSIG(*status) != SYSCALL_STOP)
			continue;
		if (is_entry && ptrace(PTRACE_GETREGS, r->pid, 0, &regs) == 0 &&
			phase_at(&regs, regs.orig_rax) == phase)
			return go_on(r, PTRACE_SYSCALL, status);
		is_entry = !is_entry;
	}
	return false;
}

/* Goes through the phase point by point; true if the program was killed. */
static bool walk_calls(struct run *r, int *status)
{
	struct user_regs_struct regs;
	bool is_entry = true;

	while (go_on(r, PTRACE_SYSCALL, status)) {
		if (WSTOPSIG(*status) != SYSCALL_STOP)
			continue;
		if (ptrace(PTRACE_GETREGS, r->pid, 0, &regs) < 0)
			die("registers");
		if (is_entry && phase_at(&regs, regs.orig_rax))
			return false;
		is_entry = !is_entry;
		if (!is_entry)
			continue;
		if (at_point(r))
			return true;
		if (regs.orig_rax != SYS_mmap && regs.orig_rax != SYS_recvmsg)
			continue;
		find_pages(r);
		if (r->up && r->tenant) {
			r->is_stepping = true;
			return false;
		}
	}
	return false;
}

static bool walk_instructions(struct run *r, int *status)
{
	struct user_regs_struct regs;

	for (;;) {
		bool is_call;

		if (ptrace(PTRACE_GETREGS, r->pid, 0, &regs) < 0)
			die("registers");
		is_call = stands_at_syscall(r, &regs);
		if (is_call && phase_at(&regs, regs.rax))
			return false;
		if (!go_on(r, PTRACE_SINGLESTEP, status))
			return false;
		if ((is_call || has_changed(r)) && at_point(r))
			return true;
	}
}

static int walk(struct run *r, unsigned long phase)
{
	bool is_killed = false;
	int status = 0;

	if (waitpid(r->pid, &status, 0) < 0 || is_end(r, status))
		die("start");
	if (ptrace(PTRACE_SETOPTIONS, r->pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) < 0)
		die("options");
	if (reach(r, phase, &status)) {
		find_pages(r);
		r->is_stepping = r->up && r->tenant;
		if (!r->is_stepping)
			is_killed = walk_calls(r, &status);
		if (!is_killed && r->is_stepping)
			is_killed = walk_instructions(r, &status);
	}
	if (is_killed)
		return 0;
	while (!is_end(r, status) && go_on(r, PTRACE_CONT, &status))
		;
	printf("points %" PRIu64 "\n", r->points);
	if (WIFSIGNALED(status))
		fprintf(stderr, "stepper: the program was ended by signal %d\n", WTERMSIG(status));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static int attach(struct run *r)
{
	int status = 0;

	if (ptrace(PTRACE_SEIZE, r->pid, 0, PTRACE_O_TRACESYSGOOD) < 0 ||
		ptrace(PTRACE_INTERRUPT, r->pid, 0, 0) < 0 || waitpid(r->pid, &status, __WALL) < 0)
		die("attach");
	status = 0;
	while (go_on(r, PTRACE_SYSCALL, &status)) {
		if (WIFSTOPPED(status) && status >> 16)
			continue; /* a ptrace event, not a system call */
		if (++r->points < r->point)
			continue;
		kill(r->pid, SIGKILL);
		waitpid(r->pid, &status, __WALL);
		printf("killed %" PRIu64 "\n", r->points);
		return 0;
	}
	printf("points %" PRIu64 "\n", r->points);
	return 0;
}

/* Whether the system call, once it is over, may have changed a file or told another process. */
static bool is_change(const struct user_regs_struct *regs)
{
	switch (regs->orig_rax) {
	case SYS_openat: return regs->rdx & (O_CREAT | O_TRUNC);
	case SYS_write:
	case SYS_pwrite64:
	case SYS_writev:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_rename:
	case SYS_renameat:
	case SYS_renameat2:
	case SYS_unlink:
	case SYS_unlinkat:
	case SYS_rmdir:
	case SYS_mkdir:
	case SYS_mkdirat:
	case SYS_chmod:
	case SYS_fchmod:
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_ftruncate:
	case SYS_bind:
	case SYS_listen:
	case SYS_accept4: return (long long)regs->rax >= 0;
	default: return false;
	}
}

static void seize_threads(pid_t pid)
{
	char path[64];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		die("threads");
	while ((e = readdir(dir))) {
		pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);

		if (tid > 0 &&
			ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE) <
				0 &&
			errno != ESRCH)
			die("attach");
		/* Only a stopped thread can be let go on to its next system call. */
		if (tid > 0)
			ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	}
	closedir(dir);
}

/* The kernel says of each stop of a system call whether it is the one at the end. */
static bool is_end_of_change(pid_t tid)
{
	struct __ptrace_syscall_info info = {0};
	struct user_regs_struct regs;

	return ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) >= 0 &&
		info.op == PTRACE_SYSCALL_INFO_EXIT && ptrace(PTRACE_GETREGS, tid, 0, &regs) == 0 &&
		is_change(&regs);
}

static int changes(struct run *r)
{
	int status;
	pid_t tid;

	seize_threads(r->pid);
	printf("tracing\n");
	fflush(stdout);
	while ((tid = waitpid(-1, &status, __WALL)) > 0) {
		int sig = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;

		if (!WIFSTOPPED(status))
			continue;
		if (sig == SYSCALL_STOP && is_end_of_change(tid) && ++r->points == r->point)
			kill(r->pid, SIGKILL);
		if (sig == SYSCALL_STOP || status >> 16)
			sig = 0;
		ptrace(PTRACE_SYSCALL, tid, 0, sig);
	}
	printf("%s %" PRIu64 "\n", r->points >= r->point ? "killed" : "points", r->points);
	return 0;
}

static pid_t start(char **argv)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid)
		return pid;
	if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
		_exit(SKIP);
	execv(argv[0], argv);
	fprintf(stderr, "stepper: '%s': %s\n", argv[0], strerror(errno));
	_exit(2);
}

int main(int argc, char **argv)
{
	static struct run r;

	if (argc < 4) {
		fprintf(stderr,
			"usage: stepper PHASE POINT COMMAND... | stepper attach POINT PID | "
			"stepper changes POINT PID\n");
		return 2;
	}
	r.point = strtoull(argv[2], NULL, 10);
	if (!strcmp(argv[1], "attach")) {
		r.pid = (pid_t)strtol(argv[3], NULL, 10);
		return attach(&r);
	}
	if (!strcmp(argv[1], "changes")) {
		r.pid = (pid_t)strtol(argv[3], NULL, 10);
		return changes(&r);
	}
	r.pid = start(argv + 3);
	printf("pid %d\n", (int)r.pid);
	fflush(stdout);
	return walk(&r, strtoul(argv[1], NULL, 10));
}

#else

int main(void)
{
	fprintf(stderr, "stepper: written for x86-64\n");
	return SKIP;
}

#endif
