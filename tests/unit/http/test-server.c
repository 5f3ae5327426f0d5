/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/listen.h"

static void answers_at_once(void **state)
{
	struct rig rig = {0};
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
	int fd;

	rig_start(&rig, NULL);
	fd = rig_dial(&rig);
	rig_say(fd, GET);
	assert_true(rig_hear(&rig, fd, &heard, "GET /a 0 y"));
	/* The connection stays open. */
	buf_clear(&heard);
	rig_say(fd, "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
	assert_true(rig_hear(&rig, fd, &heard, "POST /p 5 -"));
	assert_int_equal(http_server_counts(rig.server).n_connections, 1);
	close(fd);
	rig_stop(&rig);
}

/*
 * Answers many requests later and in another order, while one of the peers has closed its
 * connection.
 */
static void answers_later(void **state)
{
	enum { N = 20 };
	struct rig rig = {.is_holding = true};
	int fds[N];

	rig_start(&rig, NULL);
	for (int i = 0; i < N; i++) {
		fds[i] = rig_dial(&rig);
		rig_say(fds[i], GET);
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
		assert_true(rig_hear(&rig, fds[i], &heard, "late"));
		assert_contains(buf_text(&heard), "HTTP/1.1 201");
		close(fds[i]);
	}
	rig_stop(&rig);
}

static void a_body_that_is_too_large_is_refused(void **state)
{
	struct rig rig = {0};
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
	char text[BODY_MAX + 128];
	int fd;

	rig_start(&rig, NULL);
	fd = rig_dial(&rig);
	snprintf(text, sizeof(text), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\n\r\n",
		BODY_MAX + 1);
	rig_say(fd, text);
	assert_true(rig_hear(&rig, fd, &heard, "HTTP/1.1 413"));
	close(fd);
	/* A body in chunks, so that the server does not know the length in advance. */
	fd = rig_dial(&rig);
	rig_say(fd, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1001\r\n");
	memset(text, 'x', 0x1001);
	memcpy(text + 0x1001, "\r\n0\r\n\r\n", 8);
	rig_say(fd, text);
	buf_clear(&heard);
	assert_false(rig_hear(&rig, fd, &heard, "HTTP/1.1 200"));
	close(fd);
	/* A body of exactly the limit is accepted. */
	fd = rig_dial(&rig);
	snprintf(text, sizeof(text), "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\n\r\n",
		BODY_MAX);
	rig_say(fd, text);
	memset(text, 'x', BODY_MAX);
	text[BODY_MAX] = '\0';
	rig_say(fd, text);
	buf_clear(&heard);
	assert_true(rig_hear(&rig, fd, &heard, "POST /p 4096"));
	close(fd);
	assert_int_equal(http_server_counts(rig.server).n_refused, 2);
	rig_stop(&rig);
}

/* A peer that takes too long to send its request gets no answer. */
static void slow_requests_are_cut_off(void **state)
{
	static const char *const halves[] = {
		"", "GET / HT", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe"};
	const struct http_options options = {.request_ns = 1, .idle_ns = UINT64_C(1) << 60};
	struct rig rig = {0};

	rig_start(&rig, &options);
	for (size_t i = 0; i < ARRAY_SIZE(halves); i++) {
		_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
		int fd = rig_dial(&rig);

		rig_say(fd, halves[i]);
		assert_false(rig_hear(&rig, fd, &heard, NULL));
		close(fd);
	}
	assert_int_equal(rig.n_asked, 0);
	rig_stop(&rig);
}

static void connections_have_a_limit(void **state)
{
	const struct http_options options = {.max_connections = 2};
	struct rig rig = {.is_holding = true};
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
	int fds[3];

	rig_start(&rig, &options);
	for (int i = 0; i < 3; i++) {
		fds[i] = rig_dial(&rig);
		rig_say(fds[i], GET);
	}
	while (rig.n_held < 2)
		assert_true(loop_run_once(rig.loop, CLOCK_NEVER) >= 0);
	http_answer(rig.held[0], 200, NULL, STR("a"));
	http_answer(rig.held[1], 200, NULL, STR("b"));
	assert_true(rig_hear(&rig, fds[0], &heard, "a"));
	assert_true(rig.n_held == 2);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	rig_stop(&rig);
}

/* Dials n connections from this loopback address; they never send a byte. */
static void hold_silent(const struct rig *rig, const char *from, int *ret_fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret_fds[i] = rig_dial_from(rig, from);
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

/* The server answers a request from this address, although it may refuse some connections first. */
static void is_answered(struct rig *rig, const char *from)
{
	bool is_heard = false;

	while (!is_heard) {
		_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
		int fd = rig_dial_from(rig, from);

		is_heard = send(fd, GET, strlen(GET), MSG_NOSIGNAL) > 0 &&
			rig_hear(rig, fd, &heard, "200 OK");
		close(fd);
	}
}

/*
 * One sweep cuts off all silent connections at once, and the server still accepts new connections
 * after the sweep.
 */
static void a_server_accepts_after_it_cuts_silent_connections(void **state)
{
	const struct http_options options = {.max_connections = 4, .request_ns = NSEC_PER_MSEC};
	struct rig rig = {0};
	int fds[4];

	for (int round = 0; round < 3; round++) {
		rig = (struct rig){0};
		rig_start(&rig, &options);
		hold_silent(&rig, "127.0.0.1", fds, ARRAY_SIZE(fds));
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
			_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);

			assert_false(rig_hear(&rig, fds[i], &heard, NULL));
		}
		close_all(fds, ARRAY_SIZE(fds));
		is_answered(&rig, "127.0.0.1");
		rig_stop(&rig);
	}
}

/*
 * Silent connections that use up the limit of connections give way to a new connection, from any
 * address.
 */
static void silent_connections_give_way(void **state)
{
	static const char *const from[] = {"127.0.0.2", "127.0.0.1"};
	const struct http_options options = {.max_connections = 8, .request_ns = UINT64_C(1) << 60};
	struct rig rig = {0};
	int fds[16];

	rig_start(&rig, &options);
	hold_silent(&rig, "127.0.0.1", fds, ARRAY_SIZE(fds));
	for (size_t i = 0; i < ARRAY_SIZE(from); i++)
		is_answered(&rig, from[i]);
	assert_true(http_server_counts(rig.server).n_refused > 0);
	close_all(fds, ARRAY_SIZE(fds));
	rig_stop(&rig);
}

/* One address never holds more than its part; other addresses have the rest of the limit. */
static void an_address_has_a_limit(void **state)
{
	const struct http_options options = {.max_connections = 8, .request_ns = UINT64_C(1) << 60};
	struct rig rig = {.is_holding = true};
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16), other = BUF_INIT(1 << 16);
	int fds[8], fd;

	rig_start(&rig, &options);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = rig_dial(&rig);
		rig_say(fds[i], GET);
	}
	while (rig.n_held < 6)
		rig_turn(&rig);
	/* Requests of these six are being handled, so none of the six gives way. */
	assert_false(rig_hear(&rig, fds[6], &heard, NULL));
	assert_false(rig_hear(&rig, fds[7], &heard, NULL));
	fd = rig_dial_from(&rig, "127.0.0.2");
	rig_say(fd, GET);
	while (rig.n_held < 7)
		rig_turn(&rig);
	for (unsigned int i = 0; i < 7; i++)
		http_answer(rig.held[i], 200, NULL, STR("a"));
	assert_true(rig_hear(&rig, fd, &other, "200 OK"));
	close(fd);
	close_all(fds, ARRAY_SIZE(fds));
	rig_stop(&rig);
}

/* Sends requests from this address until the server waits for the peer to read an answer. */
static int hold_unread(struct rig *rig, const char *from)
{
	char request[2000];
	int fd = rig_dial_from(rig, from), n_full = 0;

	snprintf(request, sizeof(request), "GET /%01900d HTTP/1.1\r\nHost: x\r\n\r\n", 0);
	while (n_full < 10) {
		bool is_full = send(fd, request, strlen(request), MSG_NOSIGNAL) < 0;

		/* Half a request may have been sent; the server does not read that far any more. */
		assert_true(!is_full || errno == EAGAIN);
		n_full = is_full ? n_full + 1 : 0;
		assert_true(loop_run_once(
				    rig->loop, is_full ? clock_now_ns() + NSEC_PER_MSEC : 0) >= 0);
	}
	return fd;
}

/*
 * Peers that never read their answers, and use up the limit of connections, give way to a new
 * connection.
 */
static void unread_answers_give_way(void **state)
{
	static const char *const from[] = {"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"};
	const struct http_options options = {.max_connections = 4,
		.max_per_address = 2,
		.request_ns = UINT64_C(1) << 60,
		.idle_ns = UINT64_C(1) << 60};
	struct rig rig = {0};
	int fds[ARRAY_SIZE(from)];

	rig_start(&rig, &options);
	for (size_t i = 0; i < ARRAY_SIZE(from); i++)
		fds[i] = hold_unread(&rig, from[i]);
	assert_int_equal(http_server_counts(rig.server).n_connections, ARRAY_SIZE(from));
	is_answered(&rig, "127.0.0.3");
	is_answered(&rig, "127.0.0.1");
	close_all(fds, ARRAY_SIZE(fds));
	rig_stop(&rig);
}

static void an_unread_answer_is_not_kept_for_ever(void **state)
{
	const struct http_options options = {
		.request_ns = UINT64_C(1) << 60, .idle_ns = 2 * NSEC_PER_SEC};
	struct rig rig = {0};
	int fd;

	rig_start(&rig, &options);
	fd = hold_unread(&rig, "127.0.0.1");
	while (http_server_counts(rig.server).n_connections)
		rig_turn(&rig);
	close(fd);
	rig_stop(&rig);
}

/* Two parsers of the same request must not disagree about where it ends. */
static void ambiguous_requests_are_refused(void **state)
{
	static const char *const requests[] = {
		"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
		"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
		"Content-Length: 5\r\nContent-Length: 5\r\n",
		"Content-Length: 5\r\nContent-Length: 6\r\n",
		"Content-Length: +5\r\n",
		"Content-Length: 5, 5\r\n",
		"Content-Length: 0x5\r\n",
		"Content-Length:\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		"Transfer-Encoding: gzip, chunked\r\n",
		"Transfer-Encoding: identity\r\n",
		"Transfer-Encoding: xchunked\r\n",
		"Content-Length : 5\r\n",
		"Transfer-Encoding : chunked\r\n",
		"X-A: y\r\n Transfer-Encoding: chunked\r\n",
		"X(A): y\r\n",
	};
	struct rig rig = {0};

	rig_start(&rig, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
		int fd = rig_dial(&rig);

		rig_say(fd, "POST /a HTTP/1.1\r\nHost: x\r\n");
		rig_say(fd, requests[i]);
		rig_say(fd, "\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n");
		assert_false(rig_hear(&rig, fd, &heard, NULL));
		if (!strstr(buf_text(&heard), " 400 "))
			fail_msg("%s -> %s", requests[i], buf_text(&heard));
		if (rig.n_asked)
			fail_msg("%s was handed over", requests[i]);
		close(fd);
	}
	rig_stop(&rig);
}

static void on_guard(void *data, struct http_request *request)
{
	struct rig *rig = data;

	if (http_header(request, "X-A"))
		http_pass(request);
	else
		http_answer(request, 401, NULL, STR_NONE);
	rig->n_held++;
}

/* Each path has its handler and methods, and perhaps a guard; the first matching route counts. */
static void routes_are_followed(void **state)
{
	static const struct http_route routes[] = {
		{"GET", "/open", rig_answer},
		{"GET", "/guarded/*", rig_answer, .is_guarded = true},
		{"POST", "/open", rig_answer},
	};
	static const struct {
		const char *request, *answer;
	} cases[] = {
		{"GET /open HTTP/1.1\r\nHost: x\r\n\r\n", "GET /open 0 -"},
		{"HEAD /open HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200"},
		{"POST /open HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "POST /open 0"},
		{"PUT /open HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
			"expected GET or POST\n"},
		{"GET /opens HTTP/1.1\r\nHost: x\r\n\r\n",
			"expected /open or /guarded/* or /open\n"},
		{"GET /guarded/a HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 401"},
		{"GET /guarded/a HTTP/1.1\r\nHost: x\r\nX-A: b\r\n\r\n", "GET /guarded/a 0 b"},
	};
	struct rig rig = {0};
	const struct http_options options = {.routes = routes,
		.n_routes = ARRAY_SIZE(routes),
		.guard = on_guard,
		.guard_data = &rig};

	rig_start(&rig, &options);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
		int fd = rig_dial(&rig);

		rig_say(fd, cases[i].request);
		assert_true(rig_hear(&rig, fd, &heard, cases[i].answer));
		close(fd);
	}
	assert_int_equal(rig.n_held, 2);
	assert_int_equal(rig.n_asked, 4);
	rig_stop(&rig);
}

static void addresses_are_checked(void **state)
{
	static const char *const good[] = {
		":9443", "127.0.0.1:80", "[::1]:9446", "0.0.0.0:0", "unix:/run/x"};
	static const char *const bad[] = {
		"", "9443", "x:", ":65536", ":-1", "[::1:80", ":1x", "unix:"};
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_ok(http_address_check(good[i], &err));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(http_address_check(bad[i], &err), -EINVAL);
		assert_contains(err.msg, bad[i]);
	}
}

static void headers_go_with_the_answer(void **state)
{
	struct rig rig = {.is_holding = true};
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
	static char long_value[HTTP_HEADERS_MAX];
	int fd;

	memset(long_value, 'x', sizeof(long_value) - 1);
	rig_start(&rig, NULL);
	fd = rig_dial(&rig);
	rig_say(fd, "GET /a HTTP/1.1\r\nHost: x\r\nCookie: b=2; a=1\r\n\r\n");
	while (!rig.n_held)
		rig_turn(&rig);
	assert_string_equal(http_cookie(rig.held[0], "a"), "1");
	assert_null(http_cookie(rig.held[0], "c"));
	assert_ok(http_add_header(rig.held[0], "X-One", "first"));
	assert_ok(http_add_header(rig.held[0], "X-Two", ""));
	assert_ok(http_add_header(rig.held[0], "X-Three", "third"));
	assert_int_equal(http_add_header(rig.held[0], "X-Four", "a\r\nX-Five: b"), -EINVAL);
	assert_int_equal(http_add_header(rig.held[0], "X-Six", long_value), -EMSGSIZE);
	http_answer(rig.held[0], 200, NULL, STR("end"));
	assert_true(rig_hear(&rig, fd, &heard, "end"));
	assert_contains(buf_text(&heard), "X-One: first\r\n");
	assert_contains(buf_text(&heard), "X-Three: third\r\n");
	assert_null(strstr(buf_text(&heard), "X-Five"));
	close(fd);
	rig_stop(&rig);
}

static void add_header(void *data, const char *name, const char *value)
{
	if (!strcmp(name, "X-A"))
		buf_addf(data, "%s;", value);
}

static void a_handler_can_read_the_request(void **state)
{
	struct rig rig = {.is_holding = true};
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16), values = BUF_INIT(64);
	int fd;

	rig_start(&rig, NULL);
	fd = rig_dial(&rig);
	rig_say(fd,
		"GET /a?b=c%3Dd%20in+(e)&f&g= HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nX-B: "
		"no\r\nX-A: 2\r\n\r\n");
	while (!rig.n_held)
		rig_turn(&rig);
	assert_string_equal(http_path(rig.held[0]), "/a");
	assert_string_equal(http_query(rig.held[0], "b"), "c=d in (e)");
	assert_string_equal(http_query(rig.held[0], "g"), "");
	assert_null(http_query(rig.held[0], "f"));
	assert_null(http_query(rig.held[0], "h"));
	http_each_header(rig.held[0], add_header, &values);
	assert_string_equal(buf_text(&values), "1;2;");
	assert_null(http_peer(rig.held[0]));
	http_answer(rig.held[0], 200, NULL, STR("end"));
	assert_true(rig_hear(&rig, fd, &heard, "end"));
	close(fd);
	rig_stop(&rig);
}

UNIT_MAIN(UNIT(a_handler_can_read_the_request), UNIT(answers_at_once), UNIT(answers_later),
	UNIT(a_body_that_is_too_large_is_refused), UNIT(slow_requests_are_cut_off),
	UNIT(connections_have_a_limit), UNIT(routes_are_followed), UNIT(addresses_are_checked),
	UNIT(headers_go_with_the_answer), UNIT(a_server_accepts_after_it_cuts_silent_connections),
	UNIT(silent_connections_give_way), UNIT(unread_answers_give_way),
	UNIT(an_unread_answer_is_not_kept_for_ever), UNIT(an_address_has_a_limit),
	UNIT(ambiguous_requests_are_refused))
