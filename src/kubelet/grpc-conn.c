/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves bytes between an nghttp2 session and its socket. Each turn ends in finish_turn(), which
 * sends what waits and then closes the connection or registers the next events. Only finish_turn()
 * calls `on_end`, as its last step, so that the owner may free the connection there.
 * grpc_conn_kick() sets a timer, so that frames from the owner go out in the loop's next turn. All
 * connections share one static read buffer, so a single thread must run all of them.
 */
#include "kubelet/grpc-conn.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"

#define READ_SIZE (64u << 10)

nghttp2_nv grpc_header(const char *name, struct str value)
{
	return (nghttp2_nv){
		.name = (uint8_t *)(uintptr_t)name,
		.namelen = strlen(name),
		.value = (uint8_t *)(uintptr_t)value.p,
		.valuelen = value.n,
	};
}

/* Moves frames from the session to the buffer until enough bytes wait for the socket. */
static int fill_out(struct grpc_conn *c)
{
	const uint8_t *bytes;
	ssize_t n;

	while (c->out.n < READ_SIZE) {
		n = nghttp2_session_mem_send(c->session, &bytes);
		if (n < 0)
			return -EPROTO;
		if (n == 0)
			return 0;
		if (buf_add(&c->out, (struct str){(const char *)bytes, (size_t)n}) < 0)
			return buf_error(&c->out);
	}
	return 0;
}

static int grpc_conn_flush_out(struct grpc_conn *c)
{
	ssize_t sent;
	int r;

	for (;;) {
		r = fill_out(c);
		if (r < 0 || !c->out.n)
			return r;
		sent = send(c->fd, c->out.p, c->out.n, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN ? 0 : -errno;
		buf_consume(&c->out, (size_t)sent);
	}
}

static bool is_at_end(const struct grpc_conn *c)
{
	return c->is_over ||
		(!c->out.n && !nghttp2_session_want_write(c->session) &&
			!nghttp2_session_want_read(c->session));
}

/* The last step of every turn: the connection may have been freed afterwards. */
static void finish_turn(struct grpc_conn *c)
{
	uint32_t events = 0;

	loop_cancel_timer(&c->kick);
	if (!c->is_over && grpc_conn_flush_out(c) < 0)
		c->is_over = true;
	if (is_at_end(c)) {
		grpc_conn_close(c);
		c->on_end(c);
		return;
	}
	/*
	 * Stops reading from a peer that sends requests without reading answers. A peer that merely
	 * reads slowly is still read, because two such peers could otherwise wait for each other.
	 */
	if (nghttp2_session_get_outbound_queue_size(c->session) < GRPC_CONN_QUEUE_MAX)
		events |= EPOLLIN;
	if (c->out.n)
		events |= EPOLLOUT;
	loop_mod_io(&c->io, events);
}

static void grpc_conn_on_kick(struct loop_timer *timer, uint64_t now)
{
	finish_turn(timer->data);
}

static void on_io(struct loop_io *io, uint32_t events)
{
	/* static: one thread runs all connections, and this function never calls itself */
	static uint8_t bytes[READ_SIZE];
	struct grpc_conn *c = io->data;
	ssize_t n;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			c->is_over = true;
		else if (n > 0 && nghttp2_session_mem_recv(c->session, bytes, (size_t)n) < 0)
			c->is_over = true;
	}
	finish_turn(c);
}

int grpc_conn_open(struct grpc_conn *c, struct loop *loop, int fd, nghttp2_session *session,
	grpc_conn_end_fn *on_end)
{
	int r;

	*c = (struct grpc_conn){
		.loop = loop,
		.fd = fd,
		.session = session,
		.on_end = on_end,
		.out = BUF_INIT(GRPC_CONN_OUT_MAX),
		.io.data = c,
		.kick.data = c,
	};
	r = loop_add_timer(loop, &c->kick, grpc_conn_on_kick);
	if (r >= 0)
		r = loop_add_io(loop, &c->io, fd, EPOLLIN, on_io);
	if (r < 0) {
		grpc_conn_close(c);
		return r;
	}
	grpc_conn_kick(c);
	return 0;
}

void grpc_conn_kick(struct grpc_conn *c)
{
	if (c->fd >= 0)
		loop_set_timer(&c->kick, 0);
}

void grpc_conn_close(struct grpc_conn *c)
{
	loop_remove_timer(&c->kick);
	loop_remove_io(&c->io);
	c->fd = fd_close(c->fd);
	if (c->session)
		nghttp2_session_del(c->session);
	c->session = NULL;
	buf_done(&c->out);
}
