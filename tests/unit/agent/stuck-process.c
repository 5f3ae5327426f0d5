/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stuck process mounts the FUSE file system in a mount namespace of its own, with a child as
 * the server. The server answers all requests but reads. Another child reads the file, so that the
 * kernel has locked the file's page. Then the process maps a descriptor with FOPEN_DIRECT_IO of
 * that file: mmap(2) drops the file's pages, waits for the locked page, and holds the lock of the
 * process's memory meanwhile. The kernel ends the file system, and every wait for it, when the
 * server ends.
 */
#include "stuck-process.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../patience.h"
#include "base/clock.h"
#include "base/process.h"

#define FILE_BYTES 4096u
#define FILE_NODE 2u
#define REQUEST_MAX (1u << 17)

static void reply(int fd, uint64_t unique, const void *body, size_t n)
{
	char text[256];
	struct fuse_out_header head = {
		.len = (uint32_t)(sizeof(head) + n), .error = body ? 0 : -ENOSYS, .unique = unique};

	memcpy(text, &head, sizeof(head));
	if (body)
		memcpy(text + sizeof(head), body, n);
	if (write(fd, text, head.len) < 0 && errno != ENOENT)
		_exit(1);
}

static struct fuse_attr attr_of(uint64_t node)
{
	const bool is_file = node == FILE_NODE;

	return (struct fuse_attr){.ino = node,
		.size = is_file ? FILE_BYTES : 0,
		.mode = is_file ? S_IFREG | 0444 : S_IFDIR | 0555,
		.nlink = 1,
		.blksize = FILE_BYTES};
}

/*
 * The first open of the file goes through the page cache. The server reports reads and answers
 * none.
 */
static void answer(int fd, const struct fuse_in_header *in, int reads)
{
	static uint32_t n_opened;
	const struct fuse_init_out init = {
		.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = FILE_BYTES};
	const struct fuse_entry_out entry = {.nodeid = FILE_NODE,
		.entry_valid = UINT32_MAX,
		.attr_valid = UINT32_MAX,
		.attr = attr_of(FILE_NODE)};
	const struct fuse_attr_out attr = {.attr_valid = UINT32_MAX, .attr = attr_of(in->nodeid)};
	struct fuse_open_out opened = {.fh = 1};

	switch (in->opcode) {
	case FUSE_INIT: reply(fd, in->unique, &init, sizeof(init)); break;
	case FUSE_LOOKUP: reply(fd, in->unique, &entry, sizeof(entry)); break;
	case FUSE_GETATTR: reply(fd, in->unique, &attr, sizeof(attr)); break;
	case FUSE_OPEN:
		opened.open_flags = n_opened++ ? FOPEN_DIRECT_IO : 0;
		reply(fd, in->unique, &opened, sizeof(opened));
		break;
	case FUSE_READ:
		if (write(reads, "r", 1) != 1)
			_exit(1);
		break;
	default: reply(fd, in->unique, NULL, 0);
	}
}

/* Serves until the test closes its end of `life`: nothing else can end a stuck process. */
static void serve(int fd, int reads, int life)
{
	static _Alignas(8) char request[REQUEST_MAX];

	struct pollfd polled[] = {{fd, POLLIN, 0}, {life, POLLIN, 0}};

	while (poll(polled, 2, -1) > 0 && !polled[1].revents &&
		read(fd, request, sizeof(request)) > 0)
		answer(fd, (const struct fuse_in_header *)request, reads);
	_exit(1);
}

/* Returns the server's pid, or -errno. */
static pid_t mount_it(const char *folder, int reads, int life)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[96];
	pid_t server;

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (fd < 0 || unshare(CLONE_NEWNS) < 0 ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("stuck", folder, "fuse.stuck", MS_NOSUID | MS_NODEV, options) < 0)
		return -errno;
	server = fork();
	if (server == 0)
		serve(fd, reads, life);
	close(fd);
	return server;
}

static void read_it(int fd)
{
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	_exit(read(fd, &c, 1) < 0);
}

/* Returns the descriptor to map once the kernel has locked the page, or -errno. */
static int lock_page(const char *path, int reads)
{
	const int cached = open(path, O_RDONLY | O_CLOEXEC),
		  direct = open(path, O_RDONLY | O_CLOEXEC);
	char c;

	if (cached < 0 || direct < 0)
		return -errno;
	if (fork() == 0)
		read_it(cached);
	return read(reads, &c, 1) == 1 ? direct : -EPIPE;
}

/* Writes the server's pid or -errno to ready. */
static void become_stuck(const char *folder, int ready, int life)
{
	char path[64];
	int reads[2], fd;
	pid_t server;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(path, sizeof(path), "%s/file", folder);
	server = pipe2(reads, O_CLOEXEC) < 0 ? -errno : mount_it(folder, reads[1], life);
	fd = server < 0 ? -1 : lock_page(path, reads[0]);
	if (server > 0 && fd < 0)
		server = fd;
	if (write(ready, &server, sizeof(server)) != sizeof(server))
		_exit(1);
	if (fd >= 0)
		mmap(NULL, FILE_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
	for (;;)
		pause();
}

static bool is_stuck(pid_t pid)
{
	const uint64_t until_ns = clock_now_ns() + patience_ns(60 * NSEC_PER_SEC);
	struct process_stat stat;

	do {
		assert_int_equal(process_read_stat(pid, &stat), 0);
		if (stat.state == 'D')
			return true;
		clock_sleep_until_ns(clock_now_ns() + NSEC_PER_MSEC);
	} while (stat.state != 'S' && clock_now_ns() < until_ns);
	return false;
}

void stuck_start(struct stuck_process *ret_stuck)
{
	char folder[] = "/tmp/divvy-stuck-XXXXXX";
	pid_t pid, server;
	int ready[2], life[2];

	assert_non_null(mkdtemp(folder));
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(life, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(life[1]);
		become_stuck(folder, ready[1], life[0]);
	}
	close(life[0]);
	close(ready[1]);
	assert_int_equal(poll(&(struct pollfd){ready[0], POLLIN, 0}, 1, patience_ms(60000)), 1);
	assert_int_equal(read(ready[0], &server, sizeof(server)), sizeof(server));
	close(ready[0]);
	rmdir(folder);
	*ret_stuck = (struct stuck_process){pid, life[1]};
	if (server < 0 || !is_stuck(pid)) {
		stuck_end(ret_stuck);
		print_message("no process can be stuck here: %s\n",
			server < 0 ? strerror(-server) : "mmap(2) does not wait for FUSE");
		skip();
	}
}

void stuck_end(struct stuck_process *stuck)
{
	close(stuck->life_fd);
	kill(stuck->pid, SIGKILL);
	assert_int_equal(waitpid(stuck->pid, NULL, 0), stuck->pid);
}
