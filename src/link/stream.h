/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport of a link's messages: all bytes in order, or the end. A link knows nothing else
 * about the network, and a session may have streams of several kinds. Each function blocks. One
 * thread may send while another one receives.
 */
#ifndef LINK_STREAM_H
#define LINK_STREAM_H

#include <stddef.h>

struct gnutls_session_int;

/* A stream is its kind and the kind's own state. */
struct stream {
	const struct stream_kind *kind;
	void *own;
	unsigned silent_ms; /* longest silence of the peer; 0: no limit */
};

struct stream_kind {
	/* Sends all n bytes. 0, or -EPIPE: the other side is lost. */
	int (*send)(struct stream s, const void *p, size_t n);
	/* Receives exactly n bytes. 0; -EPIPE; -ETIMEDOUT: silence for longer than silent_ms. */
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
 * TLS over TCP on an authenticated session, which the caller keeps. silent_ms: longest silence of
 * the peer, at least 1000; 0: no limit.
 */
struct stream stream_tls(struct gnutls_session_int *tls, unsigned silent_ms);

/*
 * Returns a stream that reads and sends more at a time, or `s` itself where that is impossible.
 * Afterwards only this stream may use the session, and its descriptor (gnutls_transport_get_int) is
 * not available any more. The caller calls free() on `own` after it has freed the session.
 */
struct stream stream_ahead(struct stream s);

#endif
