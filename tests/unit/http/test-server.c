/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "http/server.h"

#define BODY_MAX 4096u

struct rig {
	struct loop *loop;
	struct http_server *server;
	struct http_request *held[64];
	unsigned int n_held, n_asked;
	bool is_holding;
};

static void on_request(void *data, struct http_request *request)
{
	struct rig *rig = data;
	_cleanup_buf_ struct buf text = BUF_INIT(1 << 16);

	rig->n_asked++;
	if (rig->is_holding) {
		assert_true(rig->n_held < ARRAY_SIZE(rig->held));
		rig->held[rig->n_held++] = request;
		return;
	}
	buf_addf(&text, "%s %s %zu %s", http_method(request), http_path(request),
		http_body(request).n,
		http_header(request, "X-A") ? http_header(request, "X-A") : "-");
	http_answer(request, 200, "text/plain", buf_str(&text));
}

static void start(struct rig *rig, const struct http_options *more)
{
	struct http_options options = more ? *more : (struct http_options){0};
	struct error err;

	options.address = "127.0.0.1:0";
	options.max_body = BODY_MAX;
	options.handler = on_request;
	options.data = rig;
	assert_ok(loop_new(&rig->loop));
	if (http_server_new(rig->loop, &options, &rig->server, &err) < 0)
		fail_msg("%s", err.msg);
}

static void stop(struct rig *rig)
{
	http_server_free(rig->server);
	loop_free(rig->loop);
}

static int dial(const struct rig *rig)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_port = htons(http_server_port(rig->server)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_ok(connect(fd, (const struct sockaddr *)&to, sizeof(to)));
	assert_ok(fd_set_nonblock(fd, true));
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Runs the loop until the peer has said so much that the part is in it, or has gone. */
static bool hear(struct rig *rig, int fd, struct buf *heard, const char *part)
{
	for (;;) {
		ssize_t n;

		if (part && strstr(buf_text(heard), part))
			return true;
		assert_ok(buf_reserve(heard, 4096));
		n = recv(fd, heard->p + heard->n, 4096, 0);
		if (n == 0 || (n < 0 && errno != EAGAIN))
			return false;
		if (n > 0) {
			heard->n += (size_t)n;
			heard->p[heard->n] = '\0';
			continue;
		}
		assert_true(loop_run_once(rig->loop, clock_now_ns() + 10 * NSEC_PER_MSEC) >= 0);
	}
}

#define GET "GET /a?b=c HTTP/1.1\r\nHost: x\r\nX-A: y\r\n\r\n"

static void answers_at_once(void **state)
{
	struct rig rig = {0};
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
	int fd;

	start(&rig, NULL);
	fd = dial(&rig);
	say(fd, GET);
	assert_true(hear(&rig, fd, &heard, "GET /a 0 y"));
	/* The connection stays. */
	buf_clear(&heard);
	say(fd, "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
	assert_true(hear(&rig, fd, &heard, "POST /p 5 -"));
	assert_int_equal(http_server_counts(rig.server).n_connections, 1);
	close(fd);
	stop(&rig);
}

/* Many at once, answered later and in another order; one of them has gone away meanwhile. */
static void answers_later(void **state)
{
	enum { N = 20 };
	struct rig rig = {.is_holding = true};
	int fds[N];

	start(&rig, NULL);
	for (int i = 0; i < N; i++) {
		fds[i] = dial(&rig);
		say(fds[i], GET);
	}
	while (rig.n_held < N)
		assert_true(loop_run_once(rig.loop, CLOCK_NEVER) >= 0);
	close(fds[3]);
	for (unsigned int i = N; i-- > 0;)
		http_answer(rig.held[i], 201, "text/plain", STR("late"));
	for (int i = 0; i < N; i++) {
		_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);

		if (i == 3)
			continue;
		assert_true(hear(&rig, fds[i], &heard, "late"));
		assert_contains(buf_text(&heard), "HTTP/1.1 201");
		close(fds[i]);
	}
	stop(&rig);
}

static void what_is_too_large_is_refused(void **state)
{
	struct rig rig = {0};
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
	char text[BODY_MAX + 128];
	int fd;

	start(&rig, NULL);
	fd = dial(&rig);
	snprintf(text, sizeof(text), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\n\r\n",
		BODY_MAX + 1);
	say(fd, text);
	assert_true(hear(&rig, fd, &heard, "HTTP/1.1 413"));
	close(fd);
	/* In pieces of no known sum. */
	fd = dial(&rig);
	say(fd, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1001\r\n");
	memset(text, 'x', 0x1001);
	memcpy(text + 0x1001, "\r\n0\r\n\r\n", 8);
	say(fd, text);
	buf_clear(&heard);
	assert_false(hear(&rig, fd, &heard, "HTTP/1.1 200"));
	close(fd);
	/* As much as is possible is possible. */
	fd = dial(&rig);
	snprintf(text, sizeof(text), "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\n\r\n",
		BODY_MAX);
	say(fd, text);
	memset(text, 'x', BODY_MAX);
	text[BODY_MAX] = '\0';
	say(fd, text);
	buf_clear(&heard);
	assert_true(hear(&rig, fd, &heard, "POST /p 4096"));
	close(fd);
	assert_int_equal(http_server_counts(rig.server).n_refused, 2);
	stop(&rig);
}

/* Nobody is served who takes too long to ask. */
static void the_slow_are_cut_off(void **state)
{
	static const char *const halves[] = {
		"", "GET / HT", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe"};
	const struct http_options options = {.request_ns = 1, .idle_ns = UINT64_C(1) << 60};
	struct rig rig = {0};

	start(&rig, &options);
	for (size_t i = 0; i < ARRAY_SIZE(halves); i++) {
		_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
		int fd = dial(&rig);

		say(fd, halves[i]);
		assert_false(hear(&rig, fd, &heard, NULL));
		close(fd);
	}
	assert_int_equal(rig.n_asked, 0);
	stop(&rig);
}

static void connections_have_a_limit(void **state)
{
	const struct http_options options = {.max_connections = 2};
	struct rig rig = {.is_holding = true};
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
	int fds[3];

	start(&rig, &options);
	for (int i = 0; i < 3; i++) {
		fds[i] = dial(&rig);
		say(fds[i], GET);
	}
	while (rig.n_held < 2)
		assert_true(loop_run_once(rig.loop, CLOCK_NEVER) >= 0);
	http_answer(rig.held[0], 200, NULL, STR("a"));
	http_answer(rig.held[1], 200, NULL, STR("b"));
	assert_true(hear(&rig, fds[0], &heard, "a"));
	assert_true(rig.n_held == 2);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	stop(&rig);
}

static void addresses_are_checked(void **state)
{
	static const char *const good[] = {":9443", "127.0.0.1:80", "[::1]:9446", "0.0.0.0:0"};
	static const char *const bad[] = {"", "9443", "x:", ":65536", ":-1", "[::1:80", ":1x"};
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_ok(http_address_check(good[i], &err));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(http_address_check(bad[i], &err), -EINVAL);
		assert_contains(err.msg, bad[i]);
	}
}

UNIT_MAIN(UNIT(answers_at_once), UNIT(answers_later), UNIT(what_is_too_large_is_refused),
	UNIT(the_slow_are_cut_off), UNIT(connections_have_a_limit), UNIT(addresses_are_checked))
