/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "remote/confine.h"

/* Each step of a child has a number. A child whose step fails exits with that number. */
#define MUST(step, condition) \
	do { \
		if (!(condition)) \
			_exit(step); \
	} while (0)
#define REFUSED(call) ((call) == -1 && errno == EPERM)

static void *nothing(void *data)
{
	return data;
}

static void try_what_is_refused(void)
{
	char byte;
	struct iovec here = {&byte, 1}, there = {&byte, 1};

	MUST(1, confine_calls() == 0);
	MUST(2, REFUSED(execl("/bin/true", "true", NULL)));
	MUST(3, REFUSED(fork()));
	MUST(4, REFUSED(socket(AF_INET, SOCK_STREAM, 0)));
	MUST(5, REFUSED(socket(AF_NETLINK, SOCK_RAW, 0)));
	MUST(6, REFUSED(ptrace(PTRACE_TRACEME, 0, NULL, NULL)));
	MUST(7, REFUSED(process_vm_readv(getppid(), &here, 1, &there, 1, 0)));
	MUST(8, REFUSED(kill(getppid(), 0)));
	MUST(9, REFUSED(syscall(SYS_tgkill, getppid(), getppid(), 0)));
	MUST(10, REFUSED(unshare(CLONE_NEWUSER)));
	MUST(11, REFUSED(syscall(SYS_bpf, 0, NULL, 0)));
	MUST(12, REFUSED(syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0)));
	MUST(13, REFUSED(syscall(SYS_mount, "a", "/", "tmpfs", 0, NULL)));
	MUST(14, REFUSED(prlimit(getppid(), RLIMIT_CORE, NULL, NULL)));
#ifdef SYS_clone3
	MUST(15, syscall(SYS_clone3, NULL, 0) == -1 && errno == ENOSYS);
#endif
#ifdef SYS_io_uring_setup
	MUST(16, REFUSED(syscall(SYS_io_uring_setup, 1, NULL)));
#endif
	_exit(0);
}

static void try_what_a_driver_needs(void)
{
	struct rlimit limit;
	pthread_t thread;
	int fd, pair[2];
	void *p;

	MUST(1, confine_calls() == 0);
	MUST(2, pthread_create(&thread, NULL, nothing, NULL) == 0);
	MUST(3, pthread_join(thread, NULL) == 0);
	MUST(4, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
	MUST(5, socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
	MUST(6, (fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0);
	MUST(7, ioctl(fd, TIOCGWINSZ, NULL) == -1 && errno == ENOTTY);
	MUST(8, (fd = memfd_create("x", 0)) >= 0 && ftruncate(fd, 4096) == 0);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(9, p != MAP_FAILED && mprotect(p, 4096, PROT_READ) == 0);
	MUST(10, getrlimit(RLIMIT_NOFILE, &limit) == 0);
	MUST(11, kill(getpid(), 0) == 0 && raise(0) == 0);
	_exit(0);
}

static char folder[] = "/tmp/divvy-confine-XXXXXX";

static bool opens(const char *name)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

#define NO_LANDLOCK 77

static void try_device_files(void)
{
	const int r = confine_devices(folder, 1ull << 1 | 1ull << 12);

	MUST(NO_LANDLOCK, r != -ENOSYS);
	MUST(1, r == 0);
	MUST(2, opens("dev/nvidia1") && opens("dev/nvidia12"));
	MUST(3, !opens("dev/nvidia0") && errno == EACCES);
	MUST(4, !opens("dev/nvidia2") && !opens("dev/nvidia64") && !opens("dev/nvidia76"));
	MUST(5, opens("dev/nvidiactl") && opens("dev/nvidia-uvm") && opens("dev/shm/a"));
	MUST(6, opens("proc/b"));
	MUST(7, open("/etc/passwd", O_RDONLY) < 0 && errno == EACCES);
	_exit(0);
}

/* Runs `try` in a child, since a confinement lasts until the process ends. */
static int status_of(void (*try)(void))
{
	const pid_t pid = fork();
	int status = 0;

	assert_true(pid >= 0);
	if (pid == 0)
		try();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void calls_that_could_harm_others_are_refused(void **state)
{
	assert_int_equal(status_of(try_what_is_refused), 0);
}

static void calls_that_a_driver_needs_are_allowed(void **state)
{
	assert_int_equal(status_of(try_what_a_driver_needs), 0);
}

static void make(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (name[strlen(name) - 1] == '/')
		assert_ok(mkdir(path, 0700));
	else
		assert_ok(file_replace(path, STR("x"), 0600, NULL));
}

static void only_granted_devices_can_be_opened(void **state)
{
	static const char *const names[] = {"dev/", "dev/shm/", "proc/", "dev/nvidia0",
		"dev/nvidia1", "dev/nvidia12", "dev/nvidia2", "dev/nvidia64", "dev/nvidia76",
		"dev/nvidiactl", "dev/nvidia-uvm", "dev/shm/a", "proc/b"};
	char path[PATH_MAX];
	int status;

	assert_non_null(mkdtemp(folder));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		make(names[i]);
	status = status_of(try_device_files);
	for (size_t i = ARRAY_SIZE(names); i > 0; i--) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i - 1]);
		assert_ok(remove(path));
	}
	assert_ok(rmdir(folder));
	if (status == NO_LANDLOCK)
		skip();
	assert_int_equal(status, 0);
}

/* The hash that replaces the secret is the same in all workers of a tenant. */
static void the_secret_is_replaced_by_another_word(void **state)
{
	static const char secret[] = "00112233445566778899aabbccddeeff";
	static char entry[] = "DIVVY_TENANT=00112233445566778899aabbccddeeff";
	char first[33];

	assert_ok(putenv(entry));
	confine_secret();
	memcpy(first, getenv("DIVVY_TENANT"), sizeof(first));
	assert_int_equal(strlen(first), strlen(secret));
	assert_string_not_equal(first, secret);
	assert_ptr_equal(getenv("DIVVY_TENANT"), entry + strlen("DIVVY_TENANT="));
	memcpy(entry + strlen("DIVVY_TENANT="), secret, strlen(secret));
	confine_secret();
	assert_string_equal(getenv("DIVVY_TENANT"), first);
	unsetenv("DIVVY_TENANT");
}

UNIT_MAIN(UNIT(calls_that_could_harm_others_are_refused),
	UNIT(calls_that_a_driver_needs_are_allowed), UNIT(only_granted_devices_can_be_opened),
	UNIT(the_secret_is_replaced_by_another_word))
