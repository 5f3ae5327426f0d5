/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer that stays open: the status and the headers are sent at once, then what is pushed, in
 * the pieces and the order in which it is pushed. Instead of http_answer(), from within the handler
 * or later; nothing blocks; the loop's thread.
 *
 * A stream lives until its `closed` has been called or http_stream_close() has, whichever is
 * first; then the handle is gone. `closed` comes exactly once, from the loop or from
 * http_server_free(), never from within a function of this header, and says why:
 *   -ECONNRESET  the peer has gone; noticed when its end comes, also while nothing is pushed, and
 *                by keepalive when it is silent
 *   -ENOBUFS     it reads too slowly: more than max_pending bytes have been waiting for it
 *   -ESHUTDOWN   the server ends
 * There is no limit in time: who wants proxies to keep it open pushes something now and then, such
 * as a comment (":\n\n" among events). Each counts as one of the server's connections.
 *
 *	stream = http_stream_open(request, "text/event-stream", 1 << 20, on_closed, viewer);
 *	...
 *	if (stream && http_stream_push_event(stream, "pod", STR("{\"name\":\"a\"}")) < 0)
 *		;  (on_closed() is coming, nothing else to do)
 */
#ifndef HTTP_STREAM_H
#define HTTP_STREAM_H

#include "http/server.h"

struct http_stream;

typedef void http_stream_fn(void *data, int why);

/*
 * Answers with 200. max_pending: bytes that may wait for the peer, those on their way in the
 * system's buffers aside. NULL: out of memory; the request has been answered with 503.
 */
struct http_stream *http_stream_open(struct http_request *request, const char *content_type,
	size_t max_pending, http_stream_fn *closed, void *data);

/*
 * The bytes are copied. -ENOBUFS: that is more than may wait, and the peer is cut off without what
 * was waiting; -EPIPE: its end is known already. After both `closed` is still to come.
 */
int http_stream_push(struct http_stream *stream, struct str bytes);

/* One server-sent event; name NULL: "message". Data may have several lines. As above. */
int http_stream_push_event(struct http_stream *stream, const char *name, struct str data);

/* What waits is still sent, then the answer ends. `closed` is not called any more. */
void http_stream_close(struct http_stream *stream);

#endif
