/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_SERVER_INTERNAL_H
#define HTTP_SERVER_INTERNAL_H

#include <microhttpd.h>
#include <sys/queue.h>

#include "http/server.h"
#include "http/http-tls.h"

#define METHOD_MAX 16u
#define PATH_MAX_BYTES 2048u
#define PEER_MAX 128u

/* A client address with connections. */
struct http_peer {
	LIST_ENTRY(http_peer) link;
	struct http_address address;
	uint32_t n;
};

struct connection {
	LIST_ENTRY(connection) link;
	struct http_server *server;
	struct http_tls *tls;         /* the certificate that the server shows on this connection */
	struct http_request *request; /* the request that is being answered */
	struct http_peer *peer_address; /* NULL: no address counts this connection */
	int fd;
	uint64_t since_ns; /* when the server began to wait for the peer */
	bool is_fresh;     /* waits for the first headers or for a body: request_ns is the limit */
	bool is_cut_off;   /* shut down; libmicrohttpd has yet to notice */
	/* whether the peer's certificate is valid, and whether that is known */
	bool is_certified, is_checked;
	char peer[PEER_MAX]; /* common name of that certificate */
};

struct http_request {
	struct connection *connection;
	struct MHD_Connection *mhd;
	const struct http_route *route;
	char method[METHOD_MAX], path[PATH_MAX_BYTES];
	struct buf body;
	struct buf headers; /* of the answer: name, 0, value, 0 */
	struct MHD_Response *response;
	struct http_stream *stream; /* NULL: the answer is no stream */
	unsigned int status;
	bool is_handed, is_suspended;
};

struct http_server {
	struct loop *loop;
	struct http_options options;
	struct MHD_Daemon *http;
	struct loop_io io;
	struct loop_timer timer, sweep;
	struct loop_io listener;
	struct loop_timer pause; /* while armed, the server accepts no connection */
	int listen_fd;
	uint32_t n_live; /* connections that are not cut off */
	LIST_HEAD(http_peers, http_peer) peers;
	struct http_tls *tls;
	struct http_counts counts;
	uint16_t port;
	char *unix_path;                    /* to be removed at the end; NULL: none */
	gnutls_x509_trust_list_t client_ca; /* NULL: no client certificate is accepted */
	bool is_woken;                      /* a request was woken since libmicrohttpd ran */
	LIST_HEAD(connections, connection) connections;
};

/* Runs libmicrohttpd once. */
void http_server_run(struct http_server *server);

/* libmicrohttpd does not touch a suspended request until http_request_wake(). */
void http_request_suspend(struct http_request *request);
void http_request_wake(struct http_request *request);

/* Sets the answer, which the request then owns. NULL: out of memory; closes the connection. */
void http_request_give(
	struct http_request *request, unsigned int status, struct MHD_Response *response);

/* ---- http-stream.c ---- */

/* Cuts the stream off because the server ends. */
void http_stream_abandon(struct http_stream *stream);
/* The connection has ended: tells the stream's owner and frees the stream. Accepts NULL. */
void http_stream_end(struct http_stream *stream);

#endif
