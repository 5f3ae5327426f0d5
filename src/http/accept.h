/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which connections an HTTP server accepts, and which it closes to make room. One address
 * holds at most its part of the limit. At the limit, a new connection replaces the connection whose
 * peer has kept the server waiting the longest. The server waits for a request, or until the peer
 * has read an answer. A connection keeps its place while a handler has its request; so does a
 * stream, which has a limit of its own. The loop's thread.
 */
#ifndef HTTP_ACCEPT_H
#define HTTP_ACCEPT_H

#include "http/server-internal.h"

/* The listening socket stays the server's. Returns 0 or -errno. */
int http_accept_start(struct http_server *server);
void http_accept_stop(struct http_server *server);

/* Call these when a connection begins or ends. */
void http_accept_add(struct connection *connection);
void http_accept_remove(struct connection *connection);
/*
 * Call it when a connection has ended or waits for its next request: the server may accept again.
 */
void http_accept_resume(struct http_server *server);

/*
 * Whether the server has waited for the peer since connection->since_ns: for a request, or until
 * the peer reads an answer.
 */
bool http_accept_is_peers_turn(const struct connection *connection);

/* Shuts the connection down; libmicrohttpd notices that and frees it in its next run. */
void http_accept_cut_off(struct connection *connection);

#endif
