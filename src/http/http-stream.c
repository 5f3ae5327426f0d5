/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: see http-stream.h. libmicrohttpd asks for bytes when the socket accepts some, and the
 * connection is suspended while there are none. libmicrohttpd ignores a suspended socket, so this
 * file itself watches for the end of the socket. One thread, the loop's.
 */
#include "http/http-stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "http/server-internal.h"

#define BLOCK_BYTES (16u << 10)

struct http_stream {
	struct http_request *request;
	struct buf pending;
	struct loop_io watch;
	http_stream_fn *closed; /* NULL: the owner has closed the stream */
	void *data;
	int why; /* reason for which the stream was cut off; 0: it was not cut off */
};

/* The loop's next turn ends the connection, and the stream with it. */
static void cut_off(struct http_stream *stream, int why)
{
	if (stream->why)
		return;
	stream->why = why;
	loop_remove_io(&stream->watch);
	shutdown(stream->request->connection->fd, SHUT_RDWR);
	http_request_wake(stream->request);
}

static void http_stream_on_end(struct loop_io *io, uint32_t events)
{
	cut_off(io->data, -ECONNRESET);
}

static ssize_t on_wanted(void *data, uint64_t at, char *to, size_t room)
{
	struct http_stream *stream = data;
	const size_t n = MIN(room, stream->pending.n);

	if (stream->why)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (n) {
		memcpy(to, stream->pending.p, n);
		buf_consume(&stream->pending, n);
		return (ssize_t)n;
	}
	if (!stream->closed)
		return MHD_CONTENT_READER_END_OF_STREAM;
	http_request_suspend(stream->request);
	return 0;
}

/*
 * Only keepalive distinguishes an unplugged peer from a silent one. Keepalive has no effect on unix
 * sockets.
 */
static void keep_alive(int fd)
{
	const int one = 1, idle_s = 60, every_s = 15, n = 4;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &n, sizeof(n));
}

struct http_stream *http_stream_open(struct http_request *request, const char *content_type,
	size_t max_pending, http_stream_fn *closed, void *data)
{
	struct http_server *server = request->connection->server;
	const int fd = request->connection->fd;
	struct http_stream *stream = calloc(1, sizeof(*stream));
	struct MHD_Response *response = stream ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN,
							 BLOCK_BYTES, on_wanted, stream, NULL)
					       : NULL;

	if (!response ||
		loop_add_io(server->loop, &stream->watch, fd, EPOLLRDHUP, http_stream_on_end) < 0) {
		if (response)
			MHD_destroy_response(response);
		free(stream);
		http_answer(request, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain",
			STR("out of memory\n"));
		return NULL;
	}
	stream->request = request;
	stream->pending = BUF_INIT(max_pending);
	stream->watch.data = stream;
	stream->closed = closed;
	stream->data = data;
	request->stream = stream;
	server->counts.n_streams++;
	keep_alive(fd);
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	http_request_give(request, MHD_HTTP_OK, response);
	return stream;
}

/*
 * Makes libmicrohttpd send `pending`; cuts the peer off if too many bytes wait. Call it after
 * adding bytes.
 */
static int http_stream_flush_data(struct http_stream *stream)
{
	if (buf_error(&stream->pending) < 0) {
		stream->request->connection->server->counts.n_dropped++;
		cut_off(stream, -ENOBUFS);
		return -ENOBUFS;
	}
	http_request_wake(stream->request);
	return 0;
}

int http_stream_push(struct http_stream *stream, struct str bytes)
{
	if (stream->why)
		return -EPIPE;
	buf_add(&stream->pending, bytes);
	return http_stream_flush_data(stream);
}

int http_stream_push_event(struct http_stream *stream, const char *name, struct str data)
{
	struct str rest = data.p ? data : STR(""), line;

	if (stream->why)
		return -EPIPE;
	if (name)
		buf_addf(&stream->pending, "event: %s\n", name);
	while (str_split(&rest, '\n', &line)) {
		buf_add_text(&stream->pending, "data: ");
		buf_add(&stream->pending, line);
		buf_add_byte(&stream->pending, '\n');
	}
	buf_add_byte(&stream->pending, '\n');
	return http_stream_flush_data(stream);
}

void http_stream_close(struct http_stream *stream)
{
	if (!stream)
		return;
	stream->closed = NULL;
	http_request_wake(stream->request);
}

void http_stream_abandon(struct http_stream *stream)
{
	cut_off(stream, -ESHUTDOWN);
}

void http_stream_end(struct http_stream *stream)
{
	if (!stream)
		return;
	loop_remove_io(&stream->watch);
	stream->request->connection->server->counts.n_streams--;
	if (stream->closed)
		stream->closed(stream->data, stream->why ? stream->why : -ECONNRESET);
	buf_done(&stream->pending);
	free(stream);
}
