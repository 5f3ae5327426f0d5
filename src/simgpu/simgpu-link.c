/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file connects to the engine and starts it. The bare clone system call starts the engine. So
 * the program gets no SIGCHLD, runs no atfork handlers and never finds the child in a wait. The
 * code never prints or exits, and changes nothing in the process except its descriptors.
 */
#include "simgpu/simgpu-link.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

enum { CONNECT_TRIES = 50, ENVIRONMENT_MAX = 4096 };

extern char **environ;

int link_directory(char *ret_path, size_t n)
{
	const char *dir = getenv(SIMGPU_ENV_DIR);
	int length;

	if (dir && dir[0] != '\0')
		length = snprintf(ret_path, n, "%s", dir);
	else
		length = snprintf(ret_path, n, "/dev/shm/divvy-sim-%u", (unsigned)getuid());
	return length < 0 || (size_t)length >= n ? -ENAMETOOLONG : 0;
}

static int find_engine(char *ret_path, size_t n, struct error *err)
{
	static const char *const places[] = {
		"%.*s/divvy-sim-engine",
		"%.*s/../divvy-sim-engine",
		"%.*s/../../../libexec/divvy/divvy-sim-engine",
		"%.*s/../../../../libexec/divvy/divvy-sim-engine",
	};
	const char *set = getenv(SIMGPU_ENV_ENGINE);
	Dl_info info;
	const char *slash;

	if (set && set[0] != '\0') {
		snprintf(ret_path, n, "%s", set);
		return 0;
	}
	if (!dladdr((void *)(uintptr_t)link_directory, &info) || !info.dli_fname)
		return fail(err, ENOENT,
			"the file of this library is unknown; set %s to the path of divvy-sim-engine",
			SIMGPU_ENV_ENGINE);
	slash = strrchr(info.dli_fname, '/');
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		char folder[PATH_MAX];

		snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - info.dli_fname) : 1,
			slash ? info.dli_fname : ".");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(ret_path, n, places[i], (int)strlen(folder), folder);
#pragma GCC diagnostic pop
		if (access(ret_path, X_OK) == 0)
			return 0;
	}
	return fail(err, ENOENT, "no divvy-sim-engine beside %s: set %s to its path",
		info.dli_fname, SIMGPU_ENV_ENGINE);
}

/* Copies the program's environment without variables that would load libraries into the engine. */
static void copy_environment(char **to)
{
	size_t n = 0;

	for (char **e = environ; e && *e && n < ENVIRONMENT_MAX - 1; e++)
		if (strncmp(*e, "LD_", 3) != 0)
			to[n++] = *e;
	to[n] = NULL;
}

static int start_engine(const char *dir, struct error *err)
{
	_cleanup_free_ char **env = calloc(ENVIRONMENT_MAX, sizeof(*env));
	char path[PATH_MAX];
	const char *args[] = {path, "--daemon", "--dir", dir, NULL};
	int status, r;
	long pid;

	if (!env)
		return fail(err, ENOMEM, "start the simulated device");
	r = find_engine(path, sizeof(path), err);
	if (r < 0)
		return r;
	copy_environment(env);
	/* Without CLONE_VM the child is a copy; exit signal 0 sends no SIGCHLD. */
	pid = syscall(SYS_clone, 0UL, NULL, NULL, NULL, NULL);
	if (pid < 0)
		return fail_errno(err, errno, "start %s", path);
	if (pid == 0) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		syscall(SYS_close_range, 3U, ~0U, 0U);
		execve(path, (char *const *)(uintptr_t)args, env);
		_exit(127);
	}
	do {
		r = waitpid((pid_t)pid, &status, __WALL);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return fail_errno(err, errno, "wait for %s", path);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return fail(err, ECHILD,
			"%s --dir %s did not start (status %d): see %s/" SIMGPU_FILE_LOG, path, dir,
			status, dir);
	return 0;
}

static int link_try_connect(const char *dir)
{
	_cleanup_close_ int sock = -1;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int folder = -1;

	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	/*
	 * A path may exceed the length of a socket address, so the path leads through the open
	 * folder.
	 */
	folder = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return -errno;
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" SIMGPU_FILE_SOCKET,
		folder);
	if (connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return TAKE_FD(sock);
}

static int map_state(struct link *link, const char *dir)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX + 16];
	void *p;

	snprintf(path, sizeof(path), "%s/" SIMGPU_FILE_STATE, dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fd_size(fd) < (int64_t)sizeof(struct simgpu_state))
		return -EPROTO;
	p = mmap(NULL, sizeof(struct simgpu_state), PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	link->state = p;
	return link->state->magic == SIMGPU_MAGIC && link->state->abi == SIMGPU_ABI ? 0 : -EPROTO;
}

static int call_fds(struct link *link, struct simgpu_request *request, int fd,
	struct simgpu_reply *ret_reply, struct fd_list *ret_fds)
{
	struct simgpu_reply reply;
	ssize_t n;

	request->seq = ++link->seq;
	do {
		n = fd_send(link->sock, request, sizeof(*request), &fd, fd >= 0, MSG_NOSIGNAL);
	} while (n == -EINTR);
	if (n < 0)
		return (int)n;
	do {
		n = fd_recv(link->sock, &reply, sizeof(reply), ret_fds, 0);
	} while (n == -EINTR);
	if (n < 0)
		return (int)n;
	if (n != sizeof(reply) || reply.seq != request->seq) {
		fd_list_done(ret_fds);
		return -EPROTO;
	}
	*ret_reply = reply;
	return 0;
}

static int link_say_hello(struct link *link, enum simgpu_role role)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_HELLO, .arg = {SIMGPU_ABI, role}};
	_cleanup_fd_list_ struct fd_list fds = {.n = 0};
	_cleanup_close_ int memory = -1;
	struct simgpu_reply reply;
	void *p;
	int r;

	/*
	 * The engine accesses this process's memory. An engine of another user, or in a container
	 * with fewer capabilities, may lack the right to do so and then needs this descriptor. If
	 * the open fails, the engine tries without a descriptor.
	 */
	if (role == SIMGPU_ROLE_CUDA)
		memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	r = call_fds(link, &request, memory, &reply, &fds);

	if (r < 0)
		return r;
	if (reply.status != 0)
		return -EPROTO;
	link->engine_pid = (int)reply.arg[0];
	if (role != SIMGPU_ROLE_CUDA)
		return 0;
	if (fds.n != 2)
		return -EPROTO;
	p = mmap(NULL, sizeof(struct simgpu_shm), PROT_READ | PROT_WRITE, MAP_SHARED, fds.fd[0], 0);
	if (p == MAP_FAILED)
		return -errno;
	link->shm = p;
	if (link->shm->magic != SIMGPU_MAGIC || link->shm->bytes != sizeof(struct simgpu_shm))
		return -EPROTO;
	link->doorbell = TAKE_FD(fds.fd[1]);
	/*
	 * Where Yama lets only ancestors access a process's memory, the process must allow the
	 * engine.
	 */
	prctl(PR_SET_PTRACER, (unsigned long)link->engine_pid, 0, 0, 0);
	return 0;
}

int link_open(struct link *link, enum simgpu_role role, struct error *err)
{
	char dir[PATH_MAX];
	int r = link_directory(dir, sizeof(dir));

	*link = (struct link){.sock = -1, .doorbell = -1};
	if (r < 0)
		return fail(
			err, -r, "%s: the path is too long; use a shorter path", SIMGPU_ENV_DIR);
	for (int i = 0; i < CONNECT_TRIES; i++) {
		r = link_try_connect(dir);
		if (r >= 0) {
			link->sock = r;
			r = link_say_hello(link, role);
			if (r == 0)
				r = map_state(link, dir);
			if (r == 0)
				return 0;
			link_close(link);
			if (r == -EPROTO)
				return fail(err, EPROTO,
					"the engine in %s has another version; end the programs that use it",
					dir);
		} else if (r == -ENOENT || r == -ECONNREFUSED) {
			r = start_engine(dir, err);
			if (r < 0)
				return r;
			continue;
		}
		/*
		 * The old engine was just ending, or another process is starting an engine: try
		 * again soon.
		 */
		clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 2000000}, NULL);
	}
	return fail_errno(err, -r, "connect to the simulated device in %s", dir);
}

int link_call(struct link *link, struct simgpu_request *request, int fd,
	struct simgpu_reply *ret_reply, int *ret_fd)
{
	_cleanup_fd_list_ struct fd_list fds = {.n = 0};
	int r;

	if (link->sock < 0)
		return -ENOTCONN;
	r = call_fds(link, request, fd, ret_reply, &fds);
	if (ret_fd)
		*ret_fd = r == 0 && fds.n > 0 ? TAKE_FD(fds.fd[0]) : -1;
	return r;
}

int link_is_dead(const struct link *link)
{
	struct pollfd p = {.fd = link->sock, .events = POLLRDHUP};

	if (link->sock < 0)
		return 1;
	if (link->shm && atomic_load_explicit(&link->shm->engine.dead, memory_order_relaxed))
		return 1;
	return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
}

void link_forget(struct link *link)
{
	link->sock = fd_close(link->sock);
	link->doorbell = fd_close(link->doorbell);
	if (link->shm)
		munmap(link->shm, sizeof(*link->shm));
	if (link->state)
		munmap((void *)(uintptr_t)link->state, sizeof(*link->state));
	link->shm = NULL;
	link->state = NULL;
}

void link_close(struct link *link)
{
	link_forget(link);
}
