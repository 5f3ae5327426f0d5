/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that try to block the daemon: passed descriptors whose close(2) sleeps, unread answers,
 * connections without limit. Each test stops the daemon while a client prepares, so that the daemon
 * finds everything at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "fake-client.h"
#include "rig.h"
/* cmocka.h comes after our headers, because its fail() is a macro */
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "wire/msg.h"
#include "../../packet.h"

#define LINGER_S 600    /* longer than the test may take */
#define ANSWER_MS 60000 /* the daemon hangs if an answer takes longer */
#define PASSED_MAX 253

static void stop(const struct rig *rig)
{
	int status;

	assert_int_equal(kill(rig->daemon, SIGSTOP), 0);
	assert_int_equal(waitpid(rig->daemon, &status, WUNTRACED), rig->daemon);
	assert_true(WIFSTOPPED(status));
}

static void go_on(const struct rig *rig)
{
	assert_int_equal(kill(rig->daemon, SIGCONT), 0);
}

static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* Makes a TCP socket with SO_LINGER and unread data; *ret_other is its peer. */
static int make_lingering(int *ret_other)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct linger linger = {1, LINGER_S};
	socklen_t n = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	static char data[65536];

	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &n), 0);
	assert_true(connect(fd, (struct sockaddr *)&address, n) == 0 || errno == EINPROGRESS);
	*ret_other = accept(listener, NULL, NULL);
	assert_true(*ret_other >= 0);
	close(listener);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	while (send(fd, data, sizeof(data), MSG_NOSIGNAL) > 0)
		;
	return fd;
}

/* Puts the descriptor into the queue of another socket, where the daemon cannot clear SO_LINGER. */
static int wrap(int fd)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(fd_send(pair[0], "x", 1, &fd, 1, 0), 1);
	close(pair[0]);
	close(fd);
	return pair[1];
}

static void send_passing(int sock, const void *packet, size_t size, int fd, size_t n)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * PASSED_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = (void *)(uintptr_t)packet, .iov_len = size};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(sizeof(int) * n)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	memset(&control, 0, sizeof(control));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * n);
	for (size_t i = 0; i < n; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(int));
	assert_true(sendmsg(sock, &msg, MSG_NOSIGNAL) >= 0);
}

enum form {
	WITH_CONTROL,
	WITH_HELLO,
	WITH_PAGES,
	WITH_NOTHING, /* an empty packet */
	MANY,
	BEHIND,       /* in the queue of a connection that the daemon closes */
	BEHIND_EMPTY, /* as BEHIND, after an empty packet */
	HUNG_UP,
	FORMS,
};

/* Passes fd in this form. Returns the open connection, or -1 for HUNG_UP. */
static int pass(const char *path, enum form form, int fd)
{
	union packet p;
	uint32_t size = make_control(&p, "{\"cmd\":\"ping\"}");
	int sock = connect_to(path);

	if (form == WITH_HELLO || form == WITH_PAGES)
		size = make_hello(&p, form == WITH_PAGES ? MSG_HELLO_AGAIN : 0);
	if (form == WITH_NOTHING)
		size = 0;
	if (form == BEHIND || form == BEHIND_EMPTY)
		assert_int_equal(send(sock, "bad", 3, 0), 3);
	if (form == BEHIND_EMPTY)
		assert_int_equal(send(sock, "", 0, 0), 0);
	send_passing(sock, p.bytes, size, fd, form == MANY ? PASSED_MAX : 1);
	close(fd);
	if (form == HUNG_UP)
		close(sock);
	return form == HUNG_UP ? -1 : sock;
}

/* Checks that the daemon answers another client. */
static void answers(const struct rig *rig)
{
	union packet p;
	const uint32_t size = make_control(&p, "{\"cmd\":\"ping\"}");
	int sock = connect_to(rig->socket);
	struct pollfd pfd = {.fd = sock, .events = POLLIN};

	assert_int_equal(send(sock, p.bytes, size, 0), size);
	if (poll(&pfd, 1, ANSWER_MS) != 1) {
		kill(rig->daemon, SIGKILL);
		fail_msg("no answer: the daemon stands still");
	}
	close(sock);
}

static void attack(const char *socket_name, bool is_wrapped)
{
	int socks[FORMS], others[FORMS];
	char path[108];
	struct rig rig;

	rig_start(&rig, "1xTest-80Gi", NULL);
	snprintf(path, sizeof(path), "%s/%s", rig.folder, socket_name);
	stop(&rig);
	for (int form = 0; form < FORMS; form++) {
		int fd = make_lingering(&others[form]);

		socks[form] = pass(path, (enum form)form, is_wrapped ? wrap(fd) : fd);
	}
	go_on(&rig);
	for (int i = 0; i < 20; i++) {
		answers(&rig);
		usleep(10000);
	}
	for (int form = 0; form < FORMS; form++)
		if (socks[form] >= 0)
			close(socks[form]);
	for (int i = 0; i < 20; i++) {
		answers(&rig);
		usleep(10000);
	}
	rig_stop(&rig);
	for (int form = 0; form < FORMS; form++)
		close(others[form]);
}

static void a_passed_socket_that_lingers_does_not_block_the_daemon(void **state)
{
	attack("divvyd.sock", false);
	attack("programs/divvyd.sock", false);
}

static void a_lingering_socket_in_a_queue_does_not_block_the_daemon(void **state)
{
	attack("divvyd.sock", true);
	attack("programs/divvyd.sock", true);
}

/* ---- requests ---- */

static int count_tenants(struct rig *rig)
{
	json_t *a = rig_do(rig, "{s:s}", "cmd", "list");
	int n = (int)json_array_size(rig_get(a, "tenants"));

	json_decref(a);
	return n;
}

static bool has_two(void *data)
{
	return count_tenants(data) == 2;
}

/* The answers exceed the socket's buffers, and a further request follows. */
static void no_request_is_executed_while_answers_are_unread(void **state)
{
	static char part[MSG_MAX];
	char secret[33];
	union packet p;
	struct rig rig;
	uint32_t size;
	int sock;

	rig_start(&rig, "1xTest-80Gi", NULL);
	rig_tenant(&rig, "{\"request\": \"0.1\"}", secret);
	sock = connect_to(rig.socket);
	size = make_control(&p, "{\"cmd\":\"usage\",\"last_ms\":600000}");
	for (int i = 0; i < 60; i++)
		assert_int_equal(send(sock, p.bytes, size, 0), size);
	size = make_control(&p, "{\"cmd\":\"create\",\"spec\":{\"request\":\"0.1\"}}");
	assert_int_equal(send(sock, p.bytes, size, 0), size);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(count_tenants(&rig), 1);
		usleep(10000);
	}
	/* The daemon answers all requests once the client reads. */
	for (int i = 0; i < 61;) {
		const struct msg_control *reply = (const struct msg_control *)(void *)part;
		struct pollfd pfd = {.fd = sock, .events = POLLIN};

		assert_int_equal(poll(&pfd, 1, ANSWER_MS), 1);
		assert_true(recv(sock, part, sizeof(part), 0) >= (ssize_t)sizeof(*reply));
		assert_int_equal(reply->head.status, 0);
		i += !reply->more;
	}
	assert_true(rig_until(has_two, &rig, ANSWER_MS));
	close(sock);
	rig_stop(&rig);
}

/* ---- descriptors ---- */

static bool is_open(int sock)
{
	struct pollfd pfd = {.fd = sock, .events = POLLRDHUP};

	return poll(&pfd, 1, 0) == 0;
}

static int count_open(const int *socks, int n)
{
	int open = 0;

	for (int i = 0; i < n; i++)
		open += is_open(socks[i]);
	return open;
}

/* A container's root has uid 0, but the daemon does not trust it like root outside. */
static void root_in_a_container_gets_few_connections(void **state)
{
	enum { FILES = 256, MANY_SOCKETS = 100 };
	int socks[MANY_SOCKETS];
	char path[108];
	struct rig rig;

	if (getuid() != 0)
		skip();
	rig_start_with_files(&rig, "1xTest-80Gi", NULL, FILES);
	snprintf(path, sizeof(path), "%s/programs/divvyd.sock", rig.folder);
	stop(&rig);
	for (int i = 0; i < MANY_SOCKETS; i++)
		socks[i] = connect_to(path);
	go_on(&rig);
	for (int i = 0; i < 5; i++)
		answers(&rig);
	assert_in_range(count_open(socks, MANY_SOCKETS), 8, FILES / 4);
	for (int i = 0; i < MANY_SOCKETS; i++)
		close(socks[i]);
	/* After that, the socket accepts connections again. */
	answers(&rig);
	answers(&rig);
	socks[0] = connect_to(path);
	answers(&rig);
	assert_true(is_open(socks[0]));
	close(socks[0]);
	rig_stop(&rig);
}

static uint64_t cpu_ticks(pid_t pid)
{
	unsigned long long user, system;
	char path[64], text[1024];
	FILE *f;
	const char *at;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	at = strrchr(text, ')');
	assert_non_null(at);
	assert_int_equal(sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu",
				 &user, &system),
		2);
	return user + system;
}

static void a_daemon_without_descriptors_does_not_spin(void **state)
{
	enum { FILES = 256, MANY_SOCKETS = 400, SECONDS = 2 };
	int socks[MANY_SOCKETS];
	struct rig rig;
	uint64_t before;

	if (getuid() != 0)
		skip();
	rig_start_with_files(&rig, "1xTest-80Gi", NULL, FILES);
	for (int i = 0; i < MANY_SOCKETS; i++)
		socks[i] = connect_to(rig.socket);
	usleep(200000);
	before = cpu_ticks(rig.daemon);
	sleep(SECONDS);
	assert_true(cpu_ticks(rig.daemon) - before < (uint64_t)SECONDS * 50);
	for (int i = 0; i < MANY_SOCKETS; i++)
		close(socks[i]);
	answers(&rig);
	rig_stop(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_passed_socket_that_lingers_does_not_block_the_daemon),
		cmocka_unit_test(a_lingering_socket_in_a_queue_does_not_block_the_daemon),
		cmocka_unit_test(no_request_is_executed_while_answers_are_unread),
		cmocka_unit_test(root_in_a_container_gets_few_connections),
		cmocka_unit_test(a_daemon_without_descriptors_does_not_spin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
