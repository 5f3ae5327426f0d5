/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "http/http-stream.h"

#define PENDING_MAX (64u << 10)

struct viewer {
	struct rig rig;
	struct http_stream *stream;
	unsigned int n_closed;
	int why;
};

static void on_closed(void *data, int why)
{
	struct viewer *v = data;

	v->n_closed++;
	v->why = why;
	v->stream = NULL;
}

static void on_watch(void *data, struct http_request *request)
{
	struct viewer *v = data;

	v->stream = http_stream_open(request, "text/event-stream", PENDING_MAX, on_closed, v);
	assert_non_null(v->stream);
}

static void on_held(void *data, struct http_request *request)
{
	struct viewer *v = data;

	v->rig.held[v->rig.n_held++] = request;
}

/* A request of one peer pushes news to the stream of another peer. */
static void on_told(void *data, struct http_request *request)
{
	struct viewer *v = data;

	assert_ok(http_stream_push(v->stream, STR("news")));
	v->rig.held[v->rig.n_held++] = request;
}

static const struct http_route routes[] = {
	{"GET", "/tell", on_told},
	{"GET", "/watch", on_watch},
	{"GET", "/later", on_held},
};

static void start(struct viewer *v)
{
	const struct http_options options = {.routes = routes,
		.n_routes = ARRAY_SIZE(routes),
		.data = v,
		.request_ns = NSEC_PER_SEC,
		.idle_ns = 1};

	rig_start(&v->rig, &options);
}

/* Connects a peer that has received only the headers of a stream so far. */
static int watch(struct viewer *v, struct buf *heard)
{
	int fd = rig_dial(&v->rig);

	rig_say(fd, "GET /watch HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(rig_hear(&v->rig, fd, heard, "\r\n\r\n"));
	assert_contains(buf_text(heard), "HTTP/1.1 200 OK\r\n");
	assert_contains(buf_text(heard), "Content-Type: text/event-stream\r\n");
	assert_contains(buf_text(heard), "Transfer-Encoding: chunked\r\n");
	assert_true(heard->n > 4 && !memcmp(heard->p + heard->n - 4, "\r\n\r\n", 4));
	assert_non_null(v->stream);
	buf_clear(heard);
	return fd;
}

static void wait_for_end(struct viewer *v)
{
	while (!v->n_closed)
		assert_true(loop_run_once(v->rig.loop, CLOCK_NEVER) >= 0);
}

/*
 * The headers come first, then each piece as it is pushed, then the end; the connection stays open.
 */
static void pieces_arrive_as_they_are_pushed(void **state)
{
	struct viewer v = {0};
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
	int fd;

	start(&v);
	fd = watch(&v, &heard);
	assert_int_equal(http_server_counts(v.rig.server).n_streams, 1);
	assert_ok(http_stream_push(v.stream, STR("one")));
	assert_true(rig_hear(&v.rig, fd, &heard, "3\r\none\r\n"));
	buf_clear(&heard);
	assert_ok(http_stream_push_event(v.stream, "pod", STR("a\nb")));
	assert_true(rig_hear(&v.rig, fd, &heard, "1C\r\nevent: pod\ndata: a\ndata: b\n\n\r\n"));
	buf_clear(&heard);
	assert_ok(http_stream_push_event(v.stream, NULL, STR_NONE));
	assert_ok(http_stream_push(v.stream, STR("last")));
	http_stream_close(v.stream);
	assert_true(rig_hear(&v.rig, fd, &heard, "data: \n\nlast\r\n0\r\n\r\n"));
	assert_int_equal(v.n_closed, 0);
	assert_int_equal(http_server_counts(v.rig.server).n_streams, 0);
	close(fd);
	rig_stop(&v.rig);
}

static void one_peers_request_pushes_to_another(void **state)
{
	struct viewer v = {0};
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
	int fd, other;

	start(&v);
	fd = watch(&v, &heard);
	other = rig_dial(&v.rig);
	rig_say(other, "GET /tell HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(rig_hear(&v.rig, fd, &heard, "4\r\nnews\r\n"));
	http_answer(v.rig.held[0], 200, NULL, STR_NONE);
	close(other);
	close(fd);
	wait_for_end(&v);
	rig_stop(&v.rig);
}

/* The handler opens the stream after its return, and pushes at once. */
static void a_stream_may_begin_later(void **state)
{
	struct viewer v = {0};
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
	int fd;

	start(&v);
	fd = rig_dial(&v.rig);
	rig_say(fd, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
	while (!v.rig.n_held)
		rig_turn(&v.rig);
	on_watch(&v, v.rig.held[0]);
	assert_ok(http_stream_push(v.stream, STR("at once")));
	assert_true(rig_hear(&v.rig, fd, &heard, "7\r\nat once\r\n"));
	close(fd);
	wait_for_end(&v);
	rig_stop(&v.rig);
}

/* The server notices the end of a silent peer; a half-closed connection counts as ended. */
static void a_closed_peer_is_noticed(void **state)
{
	for (int is_half = 0; is_half < 2; is_half++) {
		struct viewer v = {0};
		_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
		int fd;

		start(&v);
		fd = watch(&v, &heard);
		if (is_half)
			shutdown(fd, SHUT_WR);
		else
			fd = fd_close(fd);
		wait_for_end(&v);
		assert_int_equal(v.n_closed, 1);
		assert_int_equal(v.why, -ECONNRESET);
		assert_int_equal(http_server_counts(v.rig.server).n_connections, 0);
		fd_close(fd);
		rig_stop(&v.rig);
	}
}

/* A peer that does not read is cut off when more than PENDING_MAX bytes wait for it. */
static void a_slow_reader_is_dropped(void **state)
{
	struct viewer v = {0};
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
	static char block[8192];
	unsigned int n = 0;
	int fd, r = 0;

	memset(block, 'x', sizeof(block));
	start(&v);
	fd = watch(&v, &heard);
	/* The kernel's buffers take some bytes first. */
	while (r == 0) {
		r = http_stream_push(v.stream, (struct str){block, sizeof(block)});
		assert_true(++n < 100000);
		if (r == 0)
			assert_true(loop_run_once(v.rig.loop, 0) >= 0);
	}
	assert_int_equal(r, -ENOBUFS);
	assert_int_equal(v.n_closed, 0);
	assert_int_equal(http_stream_push(v.stream, STR("x")), -EPIPE);
	wait_for_end(&v);
	assert_int_equal(v.n_closed, 1);
	assert_int_equal(v.why, -ENOBUFS);
	assert_int_equal(http_server_counts(v.rig.server).n_dropped, 1);
	close(fd);
	/*
	 * The limit of unsent bytes, PENDING_MAX, also applies before the kernel has taken any
	 * byte.
	 */
	v.n_closed = 0;
	fd = watch(&v, &heard);
	for (n = 0; n < PENDING_MAX / sizeof(block); n++)
		assert_ok(http_stream_push(v.stream, (struct str){block, sizeof(block)}));
	assert_int_equal(http_stream_push(v.stream, STR("x")), -ENOBUFS);
	wait_for_end(&v);
	assert_int_equal(v.why, -ENOBUFS);
	close(fd);
	rig_stop(&v.rig);
}

static void the_server_may_end_before_a_stream(void **state)
{
	struct viewer v = {0};
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
	int fd;

	start(&v);
	fd = watch(&v, &heard);
	http_server_free(v.rig.server);
	v.rig.server = NULL;
	assert_int_equal(v.n_closed, 1);
	assert_int_equal(v.why, -ESHUTDOWN);
	assert_false(rig_hear(&v.rig, fd, &heard, NULL));
	close(fd);
	rig_stop(&v.rig);
}

UNIT_MAIN(UNIT(pieces_arrive_as_they_are_pushed), UNIT(one_peers_request_pushes_to_another),
	UNIT(a_stream_may_begin_later), UNIT(a_closed_peer_is_noticed),
	UNIT(a_slow_reader_is_dropped), UNIT(the_server_may_end_before_a_stream))
