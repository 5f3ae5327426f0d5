/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer that stays open: sends status and headers at once, then the pushed pieces in their
 * order. Use it instead of http_answer(), in the handler or later. Nothing blocks; the loop's
 * thread.
 *
 * A stream lives until its `closed` is called or the owner calls http_stream_close(); then the
 * handle is invalid. `closed` is called exactly once, from the loop or from http_server_free(),
 * never from a function of this header. `closed` gets the reason:
 *
 *   -ECONNRESET  the peer has closed the connection, or keepalive gets no reply; noticed even if
 *                nothing is pushed
 *   -ENOBUFS     the peer reads too slowly: more than max_pending bytes waited
 *   -ESHUTDOWN   the server ends
 *
 * A stream has no time limit. To keep proxies from closing the connection, push something now and
 * then, such as a comment (":\n\n" among events). Each stream counts as a connection of the server.
 *
 *       stream = http_stream_open(request, "text/event-stream", 1 << 20, on_closed, viewer);
 *       ...
 *       if (stream && http_stream_push_event(stream, "pod", STR("{\"name\":\"a\"}")) < 0)
 *               ;  (on_closed() will be called; nothing else to do)
 */
#ifndef HTTP_HTTP_STREAM_H
#define HTTP_HTTP_STREAM_H

#include "http/server.h"

struct http_stream;

typedef void http_stream_fn(void *data, int why);

/*
 * Answers with 200. max_pending: bytes that may wait for the peer, beside those in the socket's
 * buffer. Returns NULL out of memory; the request has then been answered with 503.
 */
struct http_stream *http_stream_open(struct http_request *request, const char *content_type,
	size_t max_pending, http_stream_fn *closed, void *data);

/*
 * Copies the bytes. Returns 0; -ENOBUFS if too many bytes would wait: the peer is cut off and loses
 * the waiting bytes; -EPIPE if the connection has ended already. After both errors `closed` is
 * still called.
 */
int http_stream_push(struct http_stream *stream, struct str bytes);

/*
 * Pushes one server-sent event; name NULL: "message". Data may have several lines. Errors as
 * http_stream_push().
 */
int http_stream_push_event(struct http_stream *stream, const char *name, struct str data);

/* Sends the waiting bytes and ends the answer. `closed` is not called any more. Accepts NULL. */
void http_stream_close(struct http_stream *stream);

#endif
