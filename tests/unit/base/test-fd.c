/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

static bool is_cloexec(int fd)
{
	return fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

static size_t count_entries(const char *folder)
{
	DIR *dir = opendir(folder);
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static size_t count_open(void)
{
	return count_entries("/proc/self/fd");
}

static void closing_preserves_errno_and_accepts_none(void **state)
{
	errno = EXDEV;
	assert_int_equal(fd_close(-1), -1);
	assert_int_equal(fd_close(memfd_new("x", 1)), -1);
	assert_int_equal(errno, EXDEV);
}

static void shared_memory_is_zeroed_and_close_on_exec(void **state)
{
	_cleanup_close_ int fd = memfd_new("page", 8192);
	_cleanup_map_ struct map m = MAP_NONE;

	assert_true(fd >= 0);
	assert_true(is_cloexec(fd));
	assert_int_equal(fd_size(fd), 8192);
	assert_ok(map_fd(fd, 8192, PROT_READ | PROT_WRITE, &m));
	assert_int_equal(((char *)m.p)[8191], 0);
	assert_ok(fd_set_cloexec(fd, false));
	assert_false(is_cloexec(fd));
	assert_ok(fd_set_nonblock(fd, true));
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static void only_the_maker_writes_a_sealed_page(void **state)
{
	_cleanup_close_ int fd = memfd_new("page", 4096);
	_cleanup_map_ struct map writer = MAP_NONE, reader = MAP_NONE, refused = MAP_NONE;

	assert_ok(map_fd(fd, 4096, PROT_READ | PROT_WRITE, &writer));
	assert_false(memfd_has_seals(fd, F_SEAL_FUTURE_WRITE));
	assert_ok(memfd_seal(fd, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW));
	assert_true(memfd_has_seals(fd, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK));
	assert_false(memfd_has_seals(fd, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL));
	assert_int_equal(map_fd(fd, 4096, PROT_READ | PROT_WRITE, &refused), -EPERM);
	assert_null(refused.p);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_ok(map_fd(fd, 4096, PROT_READ, &reader));
	*(volatile int *)writer.p = 42;
	assert_int_equal(*(volatile int *)reader.p, 42);
}

static void a_map_longer_than_the_file_is_refused(void **state)
{
	_cleanup_close_ int fd = memfd_new("page", 4096);
	_cleanup_map_ struct map m = MAP_NONE;

	assert_int_equal(map_fd(fd, 4097, PROT_READ, &m), -EMSGSIZE);
	assert_int_equal(map_fd(fd, 0, PROT_READ, &m), -EMSGSIZE);
	assert_int_equal(map_fd(-1, 1, PROT_READ, &m), -EBADF);
	assert_false(memfd_has_seals(-1, F_SEAL_SHRINK));
}

static void written_bytes_are_read_back(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT(4);
	char got[4];
	int p[2];

	assert_ok(pipe(p));
	assert_ok(fd_write_all(p[1], "abcdefgh", 8));
	assert_ok(fd_read_exact(p[0], got, 4));
	assert_memory_equal(got, "abcd", 4);
	close(p[1]);
	assert_ok(fd_read_all(p[0], &b));
	assert_string_equal(buf_text(&b), "efgh");
	assert_int_equal(fd_read_exact(p[0], got, 1), -EPIPE);
	close(p[0]);
}

static void a_closed_socket_is_an_error_and_no_signal(void **state)
{
	int s[2];

	assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s));
	close(s[1]);
	assert_int_equal(fd_write_all(s[0], "x", 1), -EPIPE);
	assert_int_equal(fd_send(s[0], "x", 1, NULL, 0, 0), -EPIPE);
	close(s[0]);
}

static void reading_more_than_the_maximum_is_refused(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT(8);
	struct error err;

	assert_int_equal(file_read("/proc/self/stat", &b, &err), -EMSGSIZE);
	assert_contains(err.msg, "at most 8 bytes");
	buf_clear(&b);
	assert_int_equal(file_read("/nonexistent/file", &b, &err), -ENOENT);
	assert_contains(err.msg, "/nonexistent/file");
}

static void replaces_a_file_in_one_step(void **state)
{
	char folder[] = "/tmp/divvy-test-fd-XXXXXX";
	_cleanup_buf_ struct buf b = BUF_INIT(100);
	struct error err;
	struct stat st;
	char path[64], missing[64];

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/a/b/file", folder);
	snprintf(missing, sizeof(missing), "%s/c/file", folder);
	assert_int_equal(file_replace(path, STR("x"), 0640, &err), -ENOENT);
	path[strlen(path) - 5] = 0;
	assert_ok(folder_make(path, 0755, &err));
	assert_ok(folder_make(path, 0755, &err));
	path[strlen(path)] = '/';

	assert_ok(file_replace(path, STR("old text"), 0640, &err));
	assert_ok(file_replace(path, STR("new"), 0600, &err));
	assert_ok(file_read(path, &b, &err));
	assert_string_equal(buf_text(&b), "new");
	assert_ok(stat(path, &st));
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(file_replace(missing, STR("x"), 0600, &err), -ENOENT);

	/* No temporary file is left: only ".", ".." and the file. */
	path[strlen(path) - 5] = 0;
	assert_int_equal(count_entries(path), 3);
	path[strlen(path)] = '/';
	assert_ok(unlink(path));
	path[strlen(path) - 5] = 0;
	assert_ok(rmdir(path));
	path[strlen(path) - 2] = 0;
	assert_ok(rmdir(path));
	assert_ok(rmdir(folder));
}

/* The path may be a device of the machine: "-o /dev/full" must not replace it. */
static void a_path_that_is_no_regular_file_stays(void **state)
{
	char folder[] = "/tmp/divvy-test-fd-XXXXXX", link[64], fifo[64], target[64], text[8] = "";
	_cleanup_buf_ struct buf b = BUF_INIT(100);
	_cleanup_close_ int reader = -1;
	struct error err;
	struct stat st;

	assert_non_null(mkdtemp(folder));
	snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
	snprintf(link, sizeof(link), "%s/link", folder);
	snprintf(target, sizeof(target), "%s/target", folder);
	assert_ok(mkfifo(fifo, 0600));
	reader = open(fifo, O_RDWR | O_CLOEXEC);
	assert_ok(file_replace(fifo, STR("through"), 0644, &err));
	assert_int_equal(read(reader, text, sizeof(text)), 7);
	assert_string_equal(text, "through");
	assert_ok(lstat(fifo, &st));
	assert_true(S_ISFIFO(st.st_mode));

	/* The first write creates the target of the link, the second replaces it. */
	assert_ok(symlink("target", link));
	for (int i = 0; i < 2; i++) {
		assert_ok(file_replace(link, i ? STR("second") : STR("first"), 0644, &err));
		buf_clear(&b);
		assert_ok(file_read(target, &b, &err));
		assert_string_equal(buf_text(&b), i ? "second" : "first");
		assert_ok(lstat(link, &st));
		assert_true(S_ISLNK(st.st_mode));
	}
	assert_int_equal(file_replace(folder, STR("x"), 0644, &err), -EISDIR);
	assert_contains(err.msg, folder);
	assert_int_equal(count_entries(folder), 5);
	assert_ok(unlink(link));
	assert_ok(unlink(target));
	assert_ok(unlink(fifo));
	assert_ok(rmdir(folder));
}

static void a_folder_in_a_file_is_refused(void **state)
{
	struct error err;

	assert_int_equal(folder_make("/proc/version/x", 0755, &err), -ENOTDIR);
	assert_int_equal(folder_make("", 0755, &err), -EINVAL);
}

static void passes_descriptors(void **state)
{
	struct fd_list got = {.n = 0};
	size_t before = count_open();
	char text[16];
	int s[2], fds[2];

	assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s));
	fds[0] = memfd_new("a", 1000);
	fds[1] = memfd_new("b", 2000);
	assert_int_equal(fd_send(s[0], "hello", 5, fds, 2, 0), 5);
	assert_int_equal(fd_recv(s[1], text, sizeof(text), &got, 0), 5);
	assert_memory_equal(text, "hello", 5);
	assert_int_equal(got.n, 2);
	assert_true(is_cloexec(got.fd[0]));
	assert_int_equal(fd_size(got.fd[0]), 1000);
	assert_int_equal(fd_size(got.fd[1]), 2000);
	fd_list_done(&got);

	assert_int_equal(fd_recv(s[1], text, sizeof(text), &got, MSG_DONTWAIT), -EAGAIN);
	assert_int_equal(fd_send(s[0], "", 0, fds, 2, 0), -EINVAL);
	assert_int_equal(fd_send(s[0], "x", 1, fds, FD_PASS_MAX + 1, 0), -EINVAL);
	close(s[0]);
	assert_int_equal(fd_recv(s[1], text, sizeof(text), &got, 0), 0);
	close(s[1]);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(count_open(), before);
}

static void unwanted_descriptors_are_closed(void **state)
{
	struct fd_list got = {.n = 0};
	size_t before;
	char text[4];
	int s[2], fd;

	assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s));
	fd = memfd_new("a", 1);
	before = count_open();
	/*
	 * fd_recv() refuses a message that is too long, and then descriptors for a caller that
	 * takes none.
	 */
	assert_int_equal(fd_send(s[0], "too long", 8, &fd, 1, 0), 8);
	assert_int_equal(fd_recv(s[1], text, sizeof(text), &got, 0), -EMSGSIZE);
	assert_int_equal(got.n, 0);
	assert_int_equal(fd_send(s[0], "x", 1, &fd, 1, 0), 1);
	assert_int_equal(fd_recv(s[1], text, sizeof(text), NULL, 0), -EMSGSIZE);
	assert_int_equal(count_open(), before);
	close(fd);
	close(s[0]);
	close(s[1]);
}

static void the_largest_list_of_descriptors_arrives(void **state)
{
	int s[2], fds[FD_PASS_MAX];
	struct fd_list got = {.n = 0};
	char text[4];

	assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s));
	for (size_t i = 0; i < FD_PASS_MAX; i++)
		fds[i] = s[0];
	assert_int_equal(fd_send(s[0], "x", 1, fds, FD_PASS_MAX, 0), 1);
	assert_int_equal(fd_recv(s[1], text, sizeof(text), &got, 0), 1);
	assert_int_equal(got.n, FD_PASS_MAX);
	fd_list_done(&got);
	close(s[0]);
	close(s[1]);
}

static void a_socket_can_refuse_descriptors(void **state)
{
	struct fd_list got = {.n = 0};
	char text[2];
	int s[2], r;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
	r = socket_refuse_rights(s[1]);
	if (r == -ENOPROTOOPT)
		skip();
	assert_int_equal(r, 0);
	assert_int_equal(fd_send(s[0], "x", 1, s, 1, 0), -EPERM);
	assert_int_equal(fd_send(s[0], "y", 1, NULL, 0, 0), 1);
	assert_int_equal(fd_recv(s[1], text, sizeof(text), &got, 0), 1);
	assert_int_equal(got.n, 0);
	close(s[0]);
	close(s[1]);
}

/*
 * More than FD_PASS_MAX at once, as a hostile peer might send: the kernel cuts the list, none
 * leaks.
 */
static void too_many_descriptors_are_refused(void **state)
{
	enum { MANY = FD_PASS_MAX + 24 };
	union {
		char bytes[CMSG_SPACE(sizeof(int) * MANY)];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {.iov_base = "x", .iov_len = 1};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	struct fd_list got = {.n = 0};
	int s[2], fds[MANY], i;
	size_t before;
	char text[4];

	assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s));
	for (i = 0; i < MANY; i++)
		fds[i] = s[0];
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(c), fds, sizeof(fds));
	before = count_open();
	assert_int_equal(sendmsg(s[0], &msg, 0), 1);
	assert_int_equal(fd_recv(s[1], text, sizeof(text), &got, 0), -EMSGSIZE);
	assert_int_equal(count_open(), before);
	close(s[0]);
	close(s[1]);
}

/* The kernel's limit is for all processes of a user, so this process becomes a user of its own. */
static int send_during_shortage(int pile, int out)
{
	const struct rlimit few = {8, 8};
	int many[FD_PASS_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = out;
	if (!geteuid() && setuid(60000 + (uid_t)getpid() % 5000) < 0)
		return 1;
	if (fd_send(pile, "x", 1, many, ARRAY_SIZE(many), 0) != 1 ||
		setrlimit(RLIMIT_NOFILE, &few) < 0)
		return 2;
	if (fd_send(out, "x", 1, &out, 1, MSG_DONTWAIT) != -ETOOMANYREFS)
		return 3;
	if (fd_send(out, "y", 1, NULL, 0, 0) != 1)
		return 4;
	return fd_send(out, "z", 1, &out, 1, 0) == 1 ? 0 : 5;
}

static void a_shortage_of_descriptors_in_messages_delays(void **state)
{
	_cleanup_fd_list_ struct fd_list got = {.n = 0};
	int pile[2], out[2], status;
	char text[4];
	pid_t pid;

	assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pile));
	assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, out));
	pid = fork();
	if (!pid) {
		close(pile[1]);
		_exit(send_during_shortage(pile[0], out[0]));
	}
	close(out[0]);
	assert_int_equal(fd_recv(out[1], text, sizeof(text), NULL, 0), 1);
	assert_int_equal(text[0], 'y');
	close(pile[1]);
	assert_int_equal(fd_recv(out[1], text, sizeof(text), &got, 0), 1);
	assert_int_equal(got.n, 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(pile[0]);
	close(out[1]);
}

/* A process that was killed while it replaced a file leaves what it has written so far. */
static void temporary_files_of_dead_processes_go(void **state)
{
	char folder[] = "/tmp/divvy-test-XXXXXX", path[128];
	pid_t dead = fork();
	const struct {
		const char *format;
		pid_t pid;
		bool stays;
	} files[] = {
		{"%s/claims.jsonl.%x-18b18c33ab8b~", dead, false},
		{"%s/claims.jsonl.%x-18b18c33ab8b~", getpid(), true},
		{"%s/claims.jsonl.%x-18b18c33ab8b", dead, true},
		{"%s/claims.jsonl.%x-~x", dead, true},
		{"%s/backup.%x~", dead, true},
	};

	if (!dead)
		_exit(0);
	assert_int_equal(waitpid(dead, NULL, 0), dead);
	folder_clear_temporary("/tmp/divvy-test-missing");
	assert_non_null(mkdtemp(folder));
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), files[i].format, folder, (unsigned int)files[i].pid);
		fd_close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	}
	folder_clear_temporary(folder);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), files[i].format, folder, (unsigned int)files[i].pid);
		assert_int_equal(unlink(path) == 0, files[i].stays);
	}
	assert_ok(rmdir(folder));
}

UNIT_MAIN(UNIT(a_socket_can_refuse_descriptors), UNIT(closing_preserves_errno_and_accepts_none),
	UNIT(shared_memory_is_zeroed_and_close_on_exec), UNIT(only_the_maker_writes_a_sealed_page),
	UNIT(a_map_longer_than_the_file_is_refused), UNIT(written_bytes_are_read_back),
	UNIT(a_closed_socket_is_an_error_and_no_signal),
	UNIT(reading_more_than_the_maximum_is_refused), UNIT(replaces_a_file_in_one_step),
	UNIT(temporary_files_of_dead_processes_go), UNIT(a_path_that_is_no_regular_file_stays),
	UNIT(a_folder_in_a_file_is_refused), UNIT(passes_descriptors),
	UNIT(unwanted_descriptors_are_closed), UNIT(the_largest_list_of_descriptors_arrives),
	UNIT(too_many_descriptors_are_refused), UNIT(a_shortage_of_descriptors_in_messages_delays))
