/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What carries a link's messages: bytes in order, all of them, or the end. A link knows nothing
 * else of how it reaches the other machine, and the streams of one session may be of several kinds.
 * Each function blocks; one thread may send while another one receives.
 */
#ifndef LINK_STREAM_H
#define LINK_STREAM_H

#include <stddef.h>

struct gnutls_session_int;

/* A stream is its kind and what that kind keeps of it. */
struct stream {
	const struct stream_kind *kind;
	void *own;
	unsigned silent_ms; /* how long nothing may come; 0: for ever */
};

struct stream_kind {
	/* All n bytes. 0, or -EPIPE when the other side is gone. */
	int (*send)(struct stream s, const void *p, size_t n);
	/* Exactly n bytes, likewise; -ETIMEDOUT when nothing has come for longer than may be. */
	int (*receive)(struct stream s, void *p, size_t n);
};

static inline int stream_send(struct stream s, const void *p, size_t n)
{
	return s.kind->send(s, p, n);
}

static inline int stream_receive(struct stream s, void *p, size_t n)
{
	return s.kind->receive(s, p, n);
}

/*
 * TLS over TCP: a session that has been authenticated, and stays the caller's. At least a second
 * of silence, or 0.
 */
struct stream stream_tls(struct gnutls_session_int *tls, unsigned silent_ms);

/*
 * The same, which reads and sends more at a time; where it cannot, the stream itself. From now on
 * the session is this stream's alone: its descriptor (gnutls_transport_get_int) is to be had no
 * more.
 * `own` is free()d after the session.
 */
struct stream stream_ahead(struct stream s);

#endif
