/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC server, tested by the frames on its connections: see raw.h. */
#include "kubelet/grpc-server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "raw.h"
#include "unit.h"

#define END NGHTTP2_FLAG_END_STREAM
#define GRPC_FIELDS ":method", "POST", ":scheme", "http", "content-type", "application/grpc"

/* A server with a method of each kind; the tests look at the call that a handler keeps. */
static struct rig {
	struct loop *loop;
	struct grpc_server *server;
	struct grpc_call *kept;
	int n_kept, n_gone;
} rig;

static void on_gone(void *data)
{
	rig.kept = NULL;
	rig.n_gone++;
}

static void echo(struct grpc_call *call, struct str request)
{
	assert_ptr_equal(grpc_call_data(call), &rig);
	grpc_call_reply(call, request);
}

static void refuse(struct grpc_call *call, struct str request)
{
	grpc_call_end(call, GRPC_FAILED_PRECONDITION, "100 %% of '%.*s'", STR_ARG(request));
}

static void keep(struct grpc_call *call, struct str request)
{
	rig.kept = call;
	rig.n_kept++;
	grpc_call_watch(call, on_gone, NULL);
}

static const struct grpc_method methods[] = {
	{"/t.T/Echo", echo},
	{"/t.T/Refuse", refuse},
	{"/t.T/Keep", keep},
};

static int set_up(void **state)
{
	rig = (struct rig){0};
	assert_ok(loop_new(&rig.loop));
	assert_ok(grpc_server_new(rig.loop, methods, ARRAY_SIZE(methods), &rig, &rig.server));
	return 0;
}

static int tear_down(void **state)
{
	grpc_server_free(rig.server);
	loop_free(rig.loop);
	return 0;
}

static void expect(struct raw *raw, uint32_t stream, int status, const char *part)
{
	_cleanup_buf_ struct buf headers = BUF_INIT(8192);

	assert_int_equal(raw_status(raw, stream, NULL, &headers), status);
	assert_contains(buf_text(&headers), part);
}

/* ---- correct calls ---- */

static void a_call_is_answered(void **state)
{
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	for (uint32_t stream = 1; stream < 20; stream += 2) {
		_cleanup_buf_ struct buf out = BUF_INIT(100), headers = BUF_INIT(1000);

		raw_call(&raw, stream, "/t.T/Echo", STR("abc"));
		assert_int_equal(raw_status(&raw, stream, &out, &headers), GRPC_OK);
		assert_true(str_eq(buf_str(&out), STR("\0\0\0\0\3abc")));
		assert_string_equal(buf_text(&headers),
			":status: 200\ncontent-type: application/grpc\ngrpc-status: 0\n");
	}
	raw_close(&raw);
}

/*
 * A call as another implementation encodes it, with indexed fields of HPACK. The server accepts the
 * bytes however they are split.
 */
static void bytes_written_by_hand_are_a_call(void **state)
{
	static const char fields[] = "\x83\x86"          /* :method POST, :scheme http */
				     "\x44\x09/t.T/Echo" /* :path */
				     "\x41\x07/a.sock"   /* :authority */
				     "\x5f\x10"          /* content-type */
				     "application/grpc"
				     "\x40\x02te\x08trailers";
	_cleanup_buf_ struct buf bytes = BUF_INIT(4096);

	buf_add(&bytes, STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
	buf_add(&bytes, STR("\0\0\0\x04\0\0\0\0\0"));               /* SETTINGS */
	buf_add(&bytes, STR("\0\0\x04\x08\0\0\0\0\0\0\x3f\0\x01")); /* WINDOW_UPDATE */
	buf_add(&bytes, STR("\0\0"));                               /* HEADERS, stream 1 */
	buf_add_byte(&bytes, (char)(sizeof(fields) - 1));
	buf_add(&bytes, STR("\x01\x04\0\0\0\x01"));
	buf_add(&bytes, (struct str){fields, sizeof(fields) - 1});
	buf_add(&bytes, STR("\0\0\x03\0\0\0\0\0\x01\0\0\0"));     /* DATA: half a prefix */
	buf_add(&bytes, STR("\0\0\x04\0\x01\0\0\0\x01\0\x02hi")); /* DATA: the rest, and end */
	assert_ok(buf_error(&bytes));
	for (size_t step = 1; step <= bytes.n; step = step < 16 ? step + 1 : 2 * step) {
		_cleanup_buf_ struct buf out = BUF_INIT(100);
		struct raw raw = {.loop = rig.loop, .in = BUF_INIT(65536)};
		int pair[2];

		assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
		assert_ok(grpc_server_serve(rig.server, pair[0]));
		raw.fd = pair[1];
		assert_ok(nghttp2_hd_inflate_new(&raw.inflater));
		for (size_t at = 0; at < bytes.n; at += step) {
			raw_send(&raw, bytes.p + at, MIN(step, bytes.n - at));
			loop_run_once(rig.loop, 0);
		}
		assert_int_equal(raw_status(&raw, 1, &out, NULL), GRPC_OK);
		assert_true(str_eq(buf_str(&out), STR("\0\0\0\0\2hi")));
		raw_close(&raw);
		loop_run_once(rig.loop, 0);
	}
}

static void a_refusal_has_its_message(void **state)
{
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	raw_call(&raw, 1, "/t.T/Refuse", STR("d\xc3\xa9vice\n"));
	expect(&raw, 1, GRPC_FAILED_PRECONDITION, "grpc-message: 100 %25 of 'd%C3%A9vice%0A'\n");
	raw_close(&raw);
}

static void an_answer_may_come_later(void **state)
{
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	raw_call(&raw, 1, "/t.T/Keep", STR(""));
	assert_true(raw_ping(&raw));
	assert_int_equal(rig.n_kept, 1);
	grpc_call_reply(rig.kept, STR("late"));
	expect(&raw, 1, GRPC_OK, ":status: 200");
	assert_int_equal(rig.n_gone, 0);
	raw_close(&raw);
}

static void the_longest_message_passes_both_ways(void **state)
{
	_cleanup_free_ char *bytes = calloc(1, GRPC_MESSAGE_MAX);
	_cleanup_buf_ struct buf out = BUF_INIT(GRPC_MESSAGE_MAX + GRPC_PREFIX);
	struct raw raw;

	for (size_t i = 0; i < GRPC_MESSAGE_MAX; i++)
		bytes[i] = (char)(i * 31 >> 8);
	raw_open(&raw, rig.loop, rig.server, GRPC_MESSAGE_MAX + GRPC_PREFIX);
	/* Messages that were answered do not count in the limit of unfinished requests. */
	for (uint32_t stream = 1; stream < 2 * (GRPC_SERVER_BUFFER_MAX / GRPC_MESSAGE_MAX + 2);
		stream += 2) {
		buf_clear(&out);
		raw_call(&raw, stream, "/t.T/Echo", (struct str){bytes, GRPC_MESSAGE_MAX});
		assert_int_equal(raw_status(&raw, stream, &out, NULL), GRPC_OK);
		assert_int_equal(out.n, GRPC_MESSAGE_MAX + GRPC_PREFIX);
		assert_memory_equal(out.p + GRPC_PREFIX, bytes, GRPC_MESSAGE_MAX);
	}
	raw_close(&raw);
}

/* ---- wrong calls: each fails alone, and the connection stays open ---- */

static void malformed_calls_are_refused(void **state)
{
	char path[4 * GRPC_PATH_MAX];
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	raw_call(&raw, 1, "/t.T/None", STR("abc"));
	expect(&raw, 1, GRPC_UNIMPLEMENTED, "no method '/t.T/None'");
	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	raw_call(&raw, 3, path, STR("abc"));
	expect(&raw, 3, GRPC_UNIMPLEMENTED, "no method");
	raw_headers(&raw, 5, END, ":method", "GET", ":path", "/t.T/Echo", "content-type",
		"application/grpc", NULL);
	expect(&raw, 5, -1, ":status: 405");
	raw_headers(&raw, 7, END, ":method", "POST", ":path", "/t.T/Echo", NULL);
	expect(&raw, 7, -1, ":status: 415");
	raw_headers(&raw, 9, END, NULL);
	expect(&raw, 9, -1, ":status: 405");
	raw_headers(&raw, 11, 0, GRPC_FIELDS, ":path", "/t.T/Echo", "grpc-timeout", "soon", NULL);
	expect(&raw, 11, GRPC_INTERNAL, "grpc-timeout");
	raw_headers(&raw, 13, 0, GRPC_FIELDS, ":path", "/t.T/Echo", "grpc-encoding", "gzip", NULL);
	expect(&raw, 13, GRPC_UNIMPLEMENTED, "grpc-accept-encoding: identity");
	raw_headers(
		&raw, 15, 0, GRPC_FIELDS, ":path", "/t.T/Echo", "grpc-encoding", "identity", NULL);
	raw_message(&raw, 15, END, STR("x"));
	expect(&raw, 15, GRPC_OK, "");
	assert_true(raw_ping(&raw));
	raw_close(&raw);
}

static void malformed_requests_are_refused(void **state)
{
	static const struct {
		struct str bytes;
		int status;
		const char *part;
	} wrong[] = {
		{{"", 0}, GRPC_INTERNAL, "ends inside"},
		{{"\0\0", 2}, GRPC_INTERNAL, "ends inside"},
		{{"\0\0\0\0\5half", 9}, GRPC_INTERNAL, "ends inside"},
		{{"\1\0\0\0\1a", 6}, GRPC_INTERNAL, "compressed"},
		{{"\7\0\0\0\1a", 6}, GRPC_INTERNAL, "not a gRPC message"},
		{{"\0\0\0\0\1ab", 7}, GRPC_UNIMPLEMENTED, "more than one"},
		{{"\0\0\0\0\1a\0\0\0\0\1b", 12}, GRPC_UNIMPLEMENTED, "more than one"},
		{{"\0\0\x40\0\1a", 6}, GRPC_RESOURCE_EXHAUSTED, "4194304 bytes"},
		{{"\0\xff\xff\xff\xff", 5}, GRPC_RESOURCE_EXHAUSTED, "4194304 bytes"},
	};
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	for (uint32_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		raw_begin(&raw, 2 * i + 1, "/t.T/Echo");
		raw_frame(&raw, NGHTTP2_DATA, END, 2 * i + 1, wrong[i].bytes);
		expect(&raw, 2 * i + 1, wrong[i].status, wrong[i].part);
	}
	raw_headers(&raw, 101, END, GRPC_FIELDS, ":path", "/t.T/Echo", NULL);
	expect(&raw, 101, GRPC_INTERNAL, "ends inside");
	assert_true(raw_ping(&raw));
	raw_close(&raw);
}

/* A client may send trailers; the server ignores them. */
static void a_request_may_end_with_trailers(void **state)
{
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	raw_begin(&raw, 1, "/t.T/Echo");
	raw_message(&raw, 1, 0, STR("abc"));
	raw_headers(&raw, 1, END, ":path", "/t.T/None", NULL);
	expect(&raw, 1, GRPC_OK, "");
	raw_close(&raw);
}

/* The server resets the stream of a client that sends on after the refusal. */
static void an_early_refusal_resets_the_stream(void **state)
{
	bool is_reset = false;
	struct raw_frame f;
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	raw_begin(&raw, 1, "/t.T/None");
	expect(&raw, 1, GRPC_UNIMPLEMENTED, "");
	assert_int_equal(raw_next(&raw, &f), 1);
	is_reset = f.type == NGHTTP2_RST_STREAM && f.stream == 1;
	assert_true(is_reset);
	assert_memory_equal(f.bytes.p, "\0\0\0\0", 4);
	raw_frame_done(&f);
	raw_frame(&raw, NGHTTP2_DATA, 0, 1, STR("\0\0\0\0\1a"));
	assert_true(raw_ping(&raw));
	raw_close(&raw);
}

/* All unfinished requests together have a limit of memory. */
static void all_unfinished_requests_have_a_limit(void **state)
{
	const uint32_t n = GRPC_SERVER_BUFFER_MAX / (3u << 20);
	_cleanup_free_ char *part = calloc(1, 16384);
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, GRPC_MESSAGE_MAX);
	for (uint32_t i = 0; i <= n; i++) {
		raw_begin(&raw, 2 * i + 1, "/t.T/Echo");
		raw_frame(&raw, NGHTTP2_DATA, 0, 2 * i + 1, STR("\0\0\x30\0\1"));
		for (size_t k = 0; k < (3u << 20) / 16384; k++)
			raw_frame(&raw, NGHTTP2_DATA, 0, 2 * i + 1, (struct str){part, 16384});
	}
	expect(&raw, 2 * n + 1, GRPC_RESOURCE_EXHAUSTED, "unfinished");
	raw_frame(&raw, NGHTTP2_DATA, END, 1, STR("x"));
	expect(&raw, 1, GRPC_OK, "");
	raw_close(&raw);
}

/* ---- ends from outside ---- */

static void a_deadline_ends_a_call(void **state)
{
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	raw_headers(&raw, 1, 0, GRPC_FIELDS, ":path", "/t.T/Keep", "grpc-timeout", "1m", NULL);
	raw_message(&raw, 1, END, STR(""));
	expect(&raw, 1, GRPC_DEADLINE_EXCEEDED, "deadline");
	assert_null(rig.kept);
	raw_headers(
		&raw, 3, 0, GRPC_FIELDS, ":path", "/t.T/Keep", "grpc-timeout", "99999999H", NULL);
	raw_message(&raw, 3, END, STR(""));
	assert_true(raw_ping(&raw));
	assert_non_null(rig.kept);
	raw_close(&raw);
}

/* The deadline also ends a call whose request never ends. */
static void a_deadline_ends_half_a_call(void **state)
{
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	raw_headers(&raw, 1, 0, GRPC_FIELDS, ":path", "/t.T/Keep", "grpc-timeout", "1m", NULL);
	expect(&raw, 1, GRPC_DEADLINE_EXCEEDED, "deadline");
	assert_int_equal(rig.n_kept, 0);
	raw_close(&raw);
}

static void a_reset_ends_a_call(void **state)
{
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	raw_call(&raw, 1, "/t.T/Keep", STR(""));
	raw_frame(&raw, NGHTTP2_RST_STREAM, 0, 1, STR("\0\0\0\x08"));
	assert_true(raw_ping(&raw));
	assert_int_equal(rig.n_kept, 1);
	assert_int_equal(rig.n_gone, 1);
	raw_close(&raw);
}

static void a_closed_connection_ends_its_calls(void **state)
{
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	raw_call(&raw, 1, "/t.T/Keep", STR(""));
	raw_call(&raw, 3, "/t.T/Keep", STR(""));
	assert_true(raw_ping(&raw));
	raw_close(&raw);
	while (rig.n_gone < 2)
		loop_run_once(rig.loop, CLOCK_NEVER);
}

static void the_end_of_the_server_ends_its_calls(void **state)
{
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	raw_call(&raw, 1, "/t.T/Keep", STR(""));
	assert_true(raw_ping(&raw));
	grpc_server_free(rig.server);
	rig.server = NULL;
	assert_int_equal(rig.n_gone, 1);
	raw_close(&raw);
}

/* ---- streams ---- */

static void a_stream_sends_until_its_end(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT(1000), headers = BUF_INIT(1000);
	struct raw_frame f;
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	raw_call(&raw, 1, "/t.T/Keep", STR(""));
	assert_true(raw_ping(&raw));
	assert_ok(grpc_call_send(rig.kept, STR("one")));
	assert_int_equal(raw_next(&raw, &f), 1);
	assert_int_equal(f.type, NGHTTP2_HEADERS);
	raw_frame_done(&f);
	assert_int_equal(raw_next(&raw, &f), 1);
	assert_true(str_eq(buf_str(&f.bytes), STR("\0\0\0\0\3one")));
	assert_int_equal(f.flags, 0);
	raw_frame_done(&f);
	assert_ok(grpc_call_send(rig.kept, STR("two")));
	assert_ok(grpc_call_send(rig.kept, STR("three")));
	grpc_call_end(rig.kept, GRPC_ABORTED, "enough");
	assert_int_equal(raw_status(&raw, 1, &out, &headers), GRPC_ABORTED);
	assert_true(str_has_suffix(buf_str(&out), STR("\0\0\0\0\5three")));
	assert_string_equal(buf_text(&headers), "grpc-status: 10\ngrpc-message: enough\n");
	raw_close(&raw);
}

/* The server sends nothing beyond the window, and keeps only the newest of the waiting messages. */
static void a_slow_reader_gets_the_newest(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT(1000);
	struct raw_frame f;
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, 4);
	raw_call(&raw, 1, "/t.T/Keep", STR(""));
	assert_true(raw_ping(&raw));
	assert_ok(grpc_call_send(rig.kept, STR("first")));
	assert_int_equal(raw_next(&raw, &f), 1);
	raw_frame_done(&f);
	assert_int_equal(raw_next(&raw, &f), 1);
	assert_int_equal(f.bytes.n, 4);
	buf_add(&out, buf_str(&f.bytes));
	raw_frame_done(&f);
	assert_ok(grpc_call_send(rig.kept, STR("second")));
	assert_ok(grpc_call_send(rig.kept, STR("third")));
	grpc_call_end(rig.kept, GRPC_OK, "%s", "");
	/* the answer to the ping comes first, so no message was sent */
	assert_true(raw_ping(&raw));
	raw_frame(&raw, NGHTTP2_WINDOW_UPDATE, 0, 1, STR("\0\0\x10\0"));
	assert_int_equal(raw_status(&raw, 1, &out, NULL), GRPC_OK);
	assert_true(str_eq(buf_str(&out), STR("\0\0\0\0\5first\0\0\0\0\5third")));
	raw_close(&raw);
}

static void a_message_that_is_too_long_is_not_sent(void **state)
{
	_cleanup_free_ char *bytes = calloc(1, GRPC_MESSAGE_MAX + 1);
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	raw_call(&raw, 1, "/t.T/Keep", STR(""));
	assert_true(raw_ping(&raw));
	assert_int_equal(
		grpc_call_send(rig.kept, (struct str){bytes, GRPC_MESSAGE_MAX + 1}), -EMSGSIZE);
	grpc_call_reply(rig.kept, (struct str){bytes, GRPC_MESSAGE_MAX + 1});
	expect(&raw, 1, GRPC_RESOURCE_EXHAUSTED, "at most 4194304");
	raw_close(&raw);
}

/* ---- connections ---- */

/* Garbage ends the connection that sent it, and the server continues. */
static void garbage_ends_its_connection(void **state)
{
	static const struct str garbage[] = {
		{"GET / HTTP/1.1\r\n\r\n", 18},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff", 33},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\5\4\0\0\0\0\0abcde", 38},
		{"\0", 1},
	};
	struct raw raw;

	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		char rest[4096];
		ssize_t n;
		int pair[2];

		assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
		assert_ok(grpc_server_serve(rig.server, pair[0]));
		assert_int_equal(write(pair[1], garbage[i].p, garbage[i].n), garbage[i].n);
		do {
			loop_run_once(rig.loop, clock_now_ns() + NSEC_PER_MSEC);
			n = read(pair[1], rest, sizeof(rest));
		} while (n > 0 || (n < 0 && errno == EAGAIN));
		close(pair[1]);
	}
	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	raw_call(&raw, 1, "/t.T/Echo", STR("x"));
	expect(&raw, 1, GRPC_OK, "");
	raw_close(&raw);
}

static void a_frame_beyond_the_limit_ends_its_connection(void **state)
{
	_cleanup_free_ char *bytes = calloc(1, 16385);
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	raw_begin(&raw, 1, "/t.T/Echo");
	raw_frame(&raw, NGHTTP2_DATA, 0, 1, (struct str){bytes, 16385});
	assert_false(raw_ping(&raw));
	raw_close(&raw);
}

static void more_than_the_window_ends_its_connection(void **state)
{
	_cleanup_buf_ struct buf all = BUF_INIT(1u << 20);
	char bytes[16384] = {0};
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	raw_begin(&raw, 1, "/t.T/Keep");
	assert_true(raw_ping(&raw));
	/* Sends all frames at once, so that the server cannot open the window in between. */
	for (int i = 0; i < 3; i++) {
		buf_add(&all, STR("\0\x40\0\0\0\0\0\0\1"));
		buf_add(&all, (struct str){bytes, sizeof(bytes)});
	}
	raw_send(&raw, all.p, all.n);
	assert_true(raw_ping(&raw));
	raw_close(&raw);
}

/* A client that exceeds the limit, which it has acknowledged, loses its connection. */
static void calls_have_a_limit(void **state)
{
	uint32_t stream;
	struct raw raw;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	/* after this the client has acknowledged the server's SETTINGS */
	assert_true(raw_ping(&raw));
	for (stream = 1; stream < 2 * GRPC_SERVER_STREAMS_MAX; stream += 2)
		raw_call(&raw, stream, "/t.T/Keep", STR(""));
	assert_true(raw_ping(&raw));
	assert_int_equal(rig.n_kept, GRPC_SERVER_STREAMS_MAX);
	assert_int_equal(rig.n_gone, 0);
	raw_frame(&raw, NGHTTP2_RST_STREAM, 0, 1, STR("\0\0\0\x08"));
	raw_call(&raw, stream, "/t.T/Keep", STR(""));
	assert_true(raw_ping(&raw));
	assert_int_equal(rig.n_kept, GRPC_SERVER_STREAMS_MAX + 1);
	raw_call(&raw, stream + 2, "/t.T/Keep", STR(""));
	assert_false(raw_ping(&raw));
	assert_int_equal(rig.n_gone, GRPC_SERVER_STREAMS_MAX + 1);
	raw_close(&raw);
}

static void connections_have_a_limit(void **state)
{
	struct raw raws[GRPC_SERVER_CONNS_MAX];
	int pair[2];

	for (size_t i = 0; i < ARRAY_SIZE(raws); i++)
		raw_open(&raws[i], rig.loop, rig.server, RAW_WINDOW);
	assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	assert_int_equal(grpc_server_serve(rig.server, pair[0]), -EUSERS);
	assert_int_equal(read(pair[1], &(char){0}, 1), 0);
	close(pair[1]);
	for (size_t i = 0; i < ARRAY_SIZE(raws); i++) {
		assert_true(raw_ping(&raws[i]));
		raw_close(&raws[i]);
	}
}

/* A client sends pings and reads no answer: the server closes the connection or stops reading. */
static void unread_pings_do_not_pile_up(void **state)
{
	char ping[17] = {0, 0, 8, NGHTTP2_PING};
	struct raw raw;
	int idle = 0;

	raw_open(&raw, rig.loop, rig.server, RAW_WINDOW);
	while (idle < 100) {
		ssize_t n = send(raw.fd, ping, sizeof(ping), MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			break;
		assert_true(n < 0 || n == sizeof(ping));
		idle = n < 0 ? idle + 1 : 0;
		loop_run_once(rig.loop, 0);
	}
	raw_close(&raw);
}

/* ---- the socket ---- */

static struct {
	char folder[32], path[64];
} place;

static void make_place(void)
{
	snprintf(place.folder, sizeof(place.folder), "/tmp/divvy-grpc-XXXXXX");
	assert_non_null(mkdtemp(place.folder));
	snprintf(place.path, sizeof(place.path), "%s/a.sock", place.folder);
}

static void a_socket_serves_its_user(void **state)
{
	struct error err;
	struct stat st;
	struct raw raw;

	make_place();
	assert_false(grpc_server_is_there(rig.server));
	assert_ok(grpc_server_listen(rig.server, place.path, &err));
	assert_true(grpc_server_is_there(rig.server));
	assert_ok(stat(place.path, &st));
	assert_int_equal(st.st_mode & 07777, 0600);
	raw_open_at(&raw, rig.loop, place.path, RAW_WINDOW);
	raw_call(&raw, 1, "/t.T/Echo", STR("x"));
	expect(&raw, 1, GRPC_OK, "");

	/* A further grpc_server_listen(), also on another path, leaves open connections alone. */
	assert_ok(unlink(place.path));
	assert_false(grpc_server_is_there(rig.server));
	assert_ok(grpc_server_listen(rig.server, place.path, &err));
	assert_true(grpc_server_is_there(rig.server));
	raw_call(&raw, 3, "/t.T/Echo", STR("x"));
	expect(&raw, 3, GRPC_OK, "");
	raw_close(&raw);

	grpc_server_free(rig.server);
	rig.server = NULL;
	assert_int_equal(stat(place.path, &st), -1);
	assert_ok(rmdir(place.folder));
}

static void a_socket_left_behind_is_replaced(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct error err;
	int fd;

	make_place();
	assert_ok(str_copy(address.sun_path, sizeof(address.sun_path), str_from(place.path)));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_ok(bind(fd, (struct sockaddr *)&address, sizeof(address)));
	assert_ok(listen(fd, 1));
	assert_int_equal(grpc_server_listen(rig.server, place.path, &err), -EADDRINUSE);
	assert_contains(err.msg, "another process listens");
	assert_contains(err.msg, place.path);
	close(fd);
	assert_ok(grpc_server_listen(rig.server, place.path, &err));

	/* The socket now belongs to another program: the server does not remove it. */
	assert_ok(unlink(place.path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_ok(bind(fd, (struct sockaddr *)&address, sizeof(address)));
	grpc_server_free(rig.server);
	rig.server = NULL;
	assert_ok(unlink(place.path));
	close(fd);
	assert_ok(rmdir(place.folder));
}

static void an_impossible_path_is_reported(void **state)
{
	char path[300];
	struct error err;

	memset(path, 'a', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(grpc_server_listen(rig.server, path, &err), -ENAMETOOLONG);
	assert_contains(err.msg, "107");
	assert_int_equal(grpc_server_listen(rig.server, "/nowhere/a.sock", &err), -ENOENT);
	assert_contains(err.msg, "/nowhere/a.sock");
}

#define RIGGED(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

UNIT_MAIN(RIGGED(a_call_is_answered), RIGGED(bytes_written_by_hand_are_a_call),
	RIGGED(a_refusal_has_its_message), RIGGED(an_answer_may_come_later),
	RIGGED(the_longest_message_passes_both_ways), RIGGED(malformed_calls_are_refused),
	RIGGED(malformed_requests_are_refused), RIGGED(a_request_may_end_with_trailers),
	RIGGED(an_early_refusal_resets_the_stream), RIGGED(all_unfinished_requests_have_a_limit),
	RIGGED(a_deadline_ends_a_call), RIGGED(a_deadline_ends_half_a_call),
	RIGGED(a_reset_ends_a_call), RIGGED(a_closed_connection_ends_its_calls),
	RIGGED(the_end_of_the_server_ends_its_calls), RIGGED(a_stream_sends_until_its_end),
	RIGGED(a_slow_reader_gets_the_newest), RIGGED(a_message_that_is_too_long_is_not_sent),
	RIGGED(garbage_ends_its_connection), RIGGED(a_frame_beyond_the_limit_ends_its_connection),
	RIGGED(more_than_the_window_ends_its_connection), RIGGED(calls_have_a_limit),
	RIGGED(connections_have_a_limit), RIGGED(unread_pings_do_not_pile_up),
	RIGGED(a_socket_serves_its_user), RIGGED(a_socket_left_behind_is_replaced),
	RIGGED(an_impossible_path_is_reported))
