/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS over TCP as a stream. By default GnuTLS reads a record's head and then its 16 KiB with
 * separate system calls, and sends each record separately. stream_ahead() reads and sends many
 * records at a time. One thread may send while another one receives.
 */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/clock.h"
#include "link/stream.h"

/* Returns whether GnuTLS asks for the same call again with the same arguments. */
static bool is_to_repeat(ssize_t said)
{
	return said == GNUTLS_E_AGAIN || said == GNUTLS_E_INTERRUPTED;
}

static int tls_send(struct stream s, const void *p, size_t n)
{
	while (n) {
		const ssize_t done = gnutls_record_send(s.own, p, n);

		if (is_to_repeat(done))
			continue;
		if (done <= 0)
			return -EPIPE;
		p = (const uint8_t *)p + done;
		n -= (size_t)done;
	}
	return 0;
}

static int tls_receive(struct stream s, void *p, size_t n)
{
	uint64_t heard = clock_now_ns();
	struct clock_listener listener = {.looked_ns = heard};

	while (n) {
		const ssize_t done = gnutls_record_recv(s.own, p, n);

		/* GnuTLS also returns GNUTLS_E_AGAIN after messages of TLS itself. */
		if (done == GNUTLS_E_AGAIN && s.silent_ms) {
			clock_look(&listener, clock_now_ns());
			if (clock_silent_ns(&listener, heard) > s.silent_ms * NSEC_PER_MSEC)
				return -ETIMEDOUT;
		}
		if (is_to_repeat(done))
			continue;
		if (done <= 0)
			return -EPIPE;
		p = (uint8_t *)p + done;
		n -= (size_t)done;
		listener.looked_ns = heard = clock_now_ns();
	}
	return 0;
}

struct stream stream_tls(gnutls_session_t tls, unsigned silent_ms)
{
	static const struct stream_kind kind = {.send = tls_send, .receive = tls_receive};
	/* Interval of the checks for silence. */
	const struct timeval look = {.tv_sec = silent_ms ? 1 : 0};

	setsockopt(gnutls_transport_get_int(tls), SOL_SOCKET, SO_RCVTIMEO, &look, sizeof(look));
	return (struct stream){&kind, tls, silent_ms};
}

/* ---- reading and sending ahead ---- */

/*
 * This side encrypts so many bytes and then sends them. The peer can decrypt them while this side
 * encrypts the next bytes.
 */
#define SENT_BYTES (64u << 10)
#define READ_BYTES (128u << 10)
#define RECORD_OVERHEAD 256u /* RFC 8446, 5.2: the most by which a record may grow */
#define RECORD_BYTES (16u << 10)

struct ahead {
	gnutls_session_t tls;
	int fd;
	size_t from, to; /* part of `in` that is read and not yet consumed */
	size_t n;        /* bytes to send */
	uint8_t in[READ_BYTES], out[SENT_BYTES + SENT_BYTES / RECORD_BYTES * RECORD_OVERHEAD];
};

static ssize_t tls_pull_bytes(gnutls_transport_ptr_t data, void *p, size_t n)
{
	struct ahead *a = data;

	if (a->from == a->to) {
		const ssize_t got = recv(a->fd, a->in, sizeof(a->in), 0);

		if (got <= 0)
			return got;
		a->from = 0;
		a->to = (size_t)got;
	}
	n = n < a->to - a->from ? n : a->to - a->from;
	memcpy(p, a->in + a->from, n);
	a->from += n;
	return (ssize_t)n;
}

static int send_all(struct ahead *a)
{
	size_t at = 0;

	while (at < a->n) {
		const ssize_t done = send(a->fd, a->out + at, a->n - at, MSG_NOSIGNAL);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return -EPIPE;
		at += (size_t)done;
	}
	a->n = 0;
	return 0;
}

static ssize_t tls_push_bytes(gnutls_transport_ptr_t data, const void *p, size_t n)
{
	struct ahead *a = data;

	if (n > sizeof(a->out) || (n > sizeof(a->out) - a->n && send_all(a) < 0)) {
		gnutls_transport_set_errno(a->tls, EPIPE);
		return -1;
	}
	memcpy(a->out + a->n, p, n);
	a->n += n;
	return (ssize_t)n;
}

static int ahead_send(struct stream s, const void *p, size_t n)
{
	struct ahead *a = s.own;
	int r = 0;

	while (n && r == 0) {
		const size_t part = n < SENT_BYTES ? n : SENT_BYTES;

		r = tls_send((struct stream){.own = a->tls}, p, part);
		r = r < 0 ? r : send_all(a);
		p = (const uint8_t *)p + part;
		n -= part;
	}
	return r;
}

static int ahead_receive(struct stream s, void *p, size_t n)
{
	const struct ahead *a = s.own;

	return tls_receive((struct stream){.own = a->tls, .silent_ms = s.silent_ms}, p, n);
}

struct stream stream_ahead(struct stream s)
{
	static const struct stream_kind kind = {.send = ahead_send, .receive = ahead_receive};
	struct ahead *a = s.kind->send == tls_send ? malloc(sizeof(*a)) : NULL;

	if (!a)
		return s;
	a->tls = s.own;
	a->fd = gnutls_transport_get_int(a->tls);
	a->from = a->to = a->n = 0;
	gnutls_transport_set_ptr(a->tls, a);
	gnutls_transport_set_pull_function(a->tls, tls_pull_bytes);
	gnutls_transport_set_push_function(a->tls, tls_push_bytes);
	return (struct stream){&kind, a, s.silent_ms};
}
