/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_SERVER_INTERNAL_H
#define HTTP_SERVER_INTERNAL_H

#include <microhttpd.h>
#include <sys/queue.h>

#include "http/server.h"
#include "http/tls.h"

#define METHOD_MAX 16u
#define PATH_MAX_BYTES 2048u
#define PEER_MAX 128u

/* An address that has connections. */
struct http_peer {
	LIST_ENTRY(http_peer) link;
	struct http_address address;
	uint32_t n;
};

struct connection {
	LIST_ENTRY(connection) link;
	struct http_server *server;
	struct http_tls *tls;           /* what it was shown */
	struct http_request *request;   /* that is being answered */
	struct http_peer *peer_address; /* NULL: it counts for none, or not any more */
	int fd;
	uint64_t since_ns;             /* the server waits for the peer since then */
	bool is_fresh;                 /* no request has come yet */
	bool is_cut_off;               /* its end is libmicrohttpd's to see */
	bool is_certified, is_checked; /* its certificate, and whether that is known */
	char peer[PEER_MAX];           /* whose that is */
};

struct http_request {
	struct connection *connection;
	struct MHD_Connection *mhd;
	const struct http_route *route;
	char method[METHOD_MAX], path[PATH_MAX_BYTES];
	struct buf body;
	struct buf headers; /* of the answer: name, 0, value, 0 */
	struct MHD_Response *response;
	struct http_stream *stream; /* its answer goes on; NULL: it is whole */
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
	struct loop_timer pause; /* armed: nothing is accepted until then */
	int listen_fd;
	uint32_t n_live; /* connections that have not been cut off */
	LIST_HEAD(http_peers, http_peer) peers;
	struct http_tls *tls;
	struct http_counts counts;
	uint16_t port;
	char *unix_path;                    /* to be removed; NULL: none */
	gnutls_x509_trust_list_t client_ca; /* NULL: nobody's will do */
	bool is_woken;                      /* something has gone on since libmicrohttpd was run */
	LIST_HEAD(connections, connection) connections;
};

/* Lets libmicrohttpd do what there is to do. */
void http_server_run(struct http_server *server);

/* libmicrohttpd does not touch a suspended one until it is woken. */
void http_request_suspend(struct http_request *request);
void http_request_wake(struct http_request *request);

/* The answer, which becomes the request's; NULL: out of memory, the connection is closed. */
void http_request_give(
	struct http_request *request, unsigned int status, struct MHD_Response *response);

/* ---- stream.c ---- */

/* The server ends: the connection may be closed. */
void http_stream_abandon(struct http_stream *stream);
/* The connection has ended: tells its owner. NULL is fine. */
void http_stream_end(struct http_stream *stream);

#endif
