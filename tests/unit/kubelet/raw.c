/* SPDX-License-Identifier: Apache-2.0 */
#include "raw.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"
#include "unit.h"
#include "../../patience.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define HEAD 9u

static void put_u32(uint8_t *to, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void begin(struct raw *raw, struct loop *loop, int fd, uint32_t window)
{
	uint8_t settings[6] = {0, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE};
	uint8_t update[4];

	*raw = (struct raw){.loop = loop, .fd = fd, .in = BUF_INIT(64u << 20)};
	assert_ok(nghttp2_hd_inflate_new(&raw->inflater));
	raw_send(raw, PREFACE, sizeof(PREFACE) - 1);
	put_u32(settings + 2, window);
	raw_frame(raw, NGHTTP2_SETTINGS, 0, 0, (struct str){(char *)settings, sizeof(settings)});
	put_u32(update, 1u << 30);
	raw_frame(raw, NGHTTP2_WINDOW_UPDATE, 0, 0, (struct str){(char *)update, sizeof(update)});
}

void raw_open(struct raw *raw, struct loop *loop, struct grpc_server *server, uint32_t window)
{
	int pair[2];

	assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	assert_ok(grpc_server_serve(server, pair[0]));
	begin(raw, loop, pair[1], window);
}

void raw_open_at(struct raw *raw, struct loop *loop, const char *path, uint32_t window)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_ok(str_copy(address.sun_path, sizeof(address.sun_path), str_from(path)));
	assert_ok(connect(fd, (struct sockaddr *)&address, sizeof(address)));
	begin(raw, loop, fd, window);
}

void raw_close(struct raw *raw)
{
	raw->fd = fd_close(raw->fd);
	nghttp2_hd_inflate_del(raw->inflater);
	raw->inflater = NULL;
	buf_done(&raw->in);
}

/* Reads all available bytes. Returns false at the connection's end. */
static bool take_in(struct raw *raw)
{
	char bytes[65536];
	ssize_t n;

	while ((n = recv(raw->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		assert_ok(buf_add(&raw->in, (struct str){bytes, (size_t)n}));
	return n < 0 && errno == EAGAIN;
}

/* Returns silently if the server has closed the connection: raw_next() reports that. */
void raw_send(struct raw *raw, const void *bytes, size_t n)
{
	const uint64_t until = clock_now_ns() + patience_ns(60 * NSEC_PER_SEC);
	const char *at = bytes;

	while (n) {
		ssize_t sent = send(raw->fd, at, n, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent > 0) {
			at += sent;
			n -= (size_t)sent;
			continue;
		}
		if (sent < 0 && errno != EAGAIN)
			return;
		assert_true(clock_now_ns() < until);
		loop_run_once(raw->loop, clock_now_ns() + NSEC_PER_MSEC);
		if (!take_in(raw))
			return;
	}
}

void raw_frame(struct raw *raw, uint8_t type, uint8_t flags, uint32_t stream, struct str bytes)
{
	uint8_t head[HEAD];

	put_u32(head, (uint32_t)bytes.n << 8 | type);
	head[4] = flags;
	put_u32(head + 5, stream);
	raw_send(raw, head, sizeof(head));
	if (bytes.n)
		raw_send(raw, bytes.p, bytes.n);
}

/* Adds a literal header field of HPACK: not indexed, with a literal name, without Huffman code. */
static void add_text(struct buf *out, const char *text)
{
	size_t n = strlen(text);

	if (n < 127) {
		buf_add_byte(out, (char)n);
	} else {
		buf_add_byte(out, 127);
		for (n -= 127; n > 127; n >>= 7)
			buf_add_byte(out, (char)((n & 127) | 128));
		buf_add_byte(out, (char)n);
	}
	buf_add_text(out, text);
}

static void add_header(struct buf *out, const char *name, const char *value)
{
	buf_add_byte(out, 0);
	add_text(out, name);
	add_text(out, value);
}

void raw_headers(struct raw *raw, uint32_t stream, unsigned int flags, ...)
{
	_cleanup_buf_ struct buf out = BUF_INIT(16384);
	const char *name;
	va_list ap;

	va_start(ap, flags);
	while ((name = va_arg(ap, const char *)))
		add_header(&out, name, va_arg(ap, const char *));
	va_end(ap);
	assert_ok(buf_error(&out));
	raw_frame(raw, NGHTTP2_HEADERS, (uint8_t)(flags | NGHTTP2_FLAG_END_HEADERS), stream,
		buf_str(&out));
}

/* :authority is the path of the socket, as the kubelet's client sends it. */
void raw_begin(struct raw *raw, uint32_t stream, const char *path)
{
	raw_headers(raw, stream, 0, ":method", "POST", ":scheme", "http", ":path", path,
		":authority", "/var/lib/kubelet/device-plugins/a.sock", "content-type",
		"application/grpc", "te", "trailers", NULL);
}

void raw_message(struct raw *raw, uint32_t stream, uint8_t flags, struct str message)
{
	_cleanup_buf_ struct buf out = BUF_INIT(64u << 20);
	struct str rest;

	assert_ok(grpc_message_add(&out, message));
	for (rest = buf_str(&out); rest.n > 16384; rest.p += 16384, rest.n -= 16384)
		raw_frame(raw, NGHTTP2_DATA, 0, stream, (struct str){rest.p, 16384});
	raw_frame(raw, NGHTTP2_DATA, flags, stream, rest);
}

void raw_call(struct raw *raw, uint32_t stream, const char *path, struct str message)
{
	raw_begin(raw, stream, path);
	raw_message(raw, stream, NGHTTP2_FLAG_END_STREAM, message);
}

static void inflate(struct raw *raw, struct raw_frame *f)
{
	uint8_t *at = (uint8_t *)f->bytes.p;
	size_t left = f->bytes.n;
	int flags = 0;

	while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
		nghttp2_nv nv;
		ssize_t n = nghttp2_hd_inflate_hd2(raw->inflater, &nv, &flags, at, left, 1);

		assert_true(n >= 0);
		at += n;
		left -= (size_t)n;
		if (flags & NGHTTP2_HD_INFLATE_EMIT)
			buf_addf(&f->headers, "%.*s: %.*s\n", (int)nv.namelen, nv.name,
				(int)nv.valuelen, nv.value);
	}
	nghttp2_hd_inflate_end_headers(raw->inflater);
}

static bool take_frame(struct raw *raw, struct raw_frame *f)
{
	const uint8_t *p = (const uint8_t *)raw->in.p;
	size_t n;

	if (raw->in.n < HEAD)
		return false;
	n = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
	if (raw->in.n < HEAD + n)
		return false;
	*f = (struct raw_frame){.type = p[3],
		.flags = p[4],
		.stream = (uint32_t)p[5] << 24 | (uint32_t)p[6] << 16 | (uint32_t)p[7] << 8 | p[8],
		.bytes = BUF_INIT(64u << 20),
		.headers = BUF_INIT(64u << 10)};
	buf_add(&f->bytes, (struct str){raw->in.p + HEAD, n});
	buf_consume(&raw->in, HEAD + n);
	if (f->type == NGHTTP2_HEADERS)
		inflate(raw, f);
	return true;
}

int raw_next(struct raw *raw, struct raw_frame *ret_frame)
{
	const uint64_t until = clock_now_ns() + patience_ns(60 * NSEC_PER_SEC);
	bool is_open = true;

	for (;;) {
		if (!take_frame(raw, ret_frame)) {
			if (!is_open)
				return 0;
			loop_run_once(raw->loop, clock_now_ns() + NSEC_PER_MSEC);
			is_open = take_in(raw);
			assert_true(clock_now_ns() < until);
			continue;
		}
		if (ret_frame->type == NGHTTP2_SETTINGS && !(ret_frame->flags & NGHTTP2_FLAG_ACK))
			raw_frame(raw, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, STR(""));
		if (ret_frame->type != NGHTTP2_SETTINGS && ret_frame->type != NGHTTP2_WINDOW_UPDATE)
			return 1;
		raw_frame_done(ret_frame);
	}
}

void raw_frame_done(struct raw_frame *f)
{
	buf_done(&f->bytes);
	buf_done(&f->headers);
}

void raw_serve(struct raw *raw, struct loop *loop, int fd)
{
	const size_t preface = sizeof(PREFACE) - 1;
	struct raw_frame f;
	bool is_request = false;

	*raw = (struct raw){.loop = loop, .fd = fd, .in = BUF_INIT(64u << 20)};
	assert_ok(nghttp2_hd_inflate_new(&raw->inflater));
	raw_frame(raw, NGHTTP2_SETTINGS, 0, 0, STR(""));
	while (raw->in.n < preface) {
		loop_run_once(loop, clock_now_ns() + NSEC_PER_MSEC);
		assert_true(take_in(raw));
	}
	buf_consume(&raw->in, preface);
	while (!is_request && raw_next(raw, &f)) {
		is_request = f.flags & NGHTTP2_FLAG_END_STREAM;
		raw_frame_done(&f);
	}
	assert_true(is_request);
}

static int find_status(const struct buf *headers)
{
	const char *at = strstr(buf_text(headers), "grpc-status: ");
	int status = -1;

	if (at)
		assert_int_equal(sscanf(at, "grpc-status: %d", &status), 1);
	return status;
}

int raw_status(struct raw *raw, uint32_t stream, struct buf *out, struct buf *ret_headers)
{
	struct raw_frame f;
	int status = -1;
	bool is_over = false;

	while (!is_over && raw_next(raw, &f)) {
		if (f.stream == stream && f.type == NGHTTP2_DATA && out)
			buf_add(out, buf_str(&f.bytes));
		if (f.stream == stream && f.type == NGHTTP2_HEADERS) {
			status = find_status(&f.headers);
			is_over = f.flags & NGHTTP2_FLAG_END_STREAM;
			if (ret_headers)
				buf_add(ret_headers, buf_str(&f.headers));
		}
		is_over |= f.type == NGHTTP2_GOAWAY ||
			(f.stream == stream && f.type == NGHTTP2_RST_STREAM);
		raw_frame_done(&f);
	}
	return status;
}

bool raw_ping(struct raw *raw)
{
	struct raw_frame f;
	bool is_answer = false;

	raw_frame(raw, NGHTTP2_PING, 0, 0, STR("12345678"));
	while (!is_answer && raw_next(raw, &f)) {
		is_answer = f.type == NGHTTP2_PING && f.flags & NGHTTP2_FLAG_ACK;
		raw_frame_done(&f);
	}
	return is_answer;
}
