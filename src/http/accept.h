/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which connections an HTTP server accepts, and which of them it ends for others. An address holds
 * at most its part of the limit. When the limit is reached, a newcomer takes the place of a
 * connection on which the peer has left the server waiting the longest: for a request, or until
 * the peer has read an answer. A connection whose request a handler still has keeps its place, and
 * so does a stream, which has a limit of its own. The loop's thread.
 */
#ifndef HTTP_ACCEPT_H
#define HTTP_ACCEPT_H

#include "http/server-internal.h"

/* The listening socket stays the server's. 0 or -errno. */
int http_accept_start(struct http_server *server);
void http_accept_stop(struct http_server *server);

/* A connection begins or ends. */
void http_accept_add(struct connection *connection);
void http_accept_remove(struct connection *connection);
/* A connection has ended or waits for its next request: the server may accept others. */
void http_accept_resume(struct http_server *server);

/* The server waits for the peer since connection->since_ns: for a request, or for it to read. */
bool http_accept_is_peers_turn(const struct connection *connection);

/* libmicrohttpd sees the end of the connection and frees it in its next run. */
void http_accept_cut_off(struct connection *connection);

#endif
