/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP or HTTPS server on the loop. One thread; nothing blocks. A handler receives a request
 * when all of it has arrived, and owns it until http_answer(), which it may call at once or later.
 * The texts of the request are valid until then.
 *
 * Limits: connections, bytes of a body, and time. request_ns limits the headers of a connection's
 * first request, and each body. idle_ns limits the time until a peer has read an answer, and then
 * the time until the headers of its next request have arrived. The server cuts off slower peers.
 * accept.h says which connections are closed at the limit: a peer that sends or reads nothing
 * cannot keep other peers out. A request whose length two parsers could read differently is
 * answered with 400.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"
#include "base/str.h"

#define HTTP_CONNECTIONS_DEFAULT 256u
#define HTTP_BODY_DEFAULT (16u << 20)
#define HTTP_REQUEST_DEFAULT_NS (UINT64_C(10) * 1000000000)
/* Longer than API servers keep idle connections, so that the API server closes them first. */
#define HTTP_IDLE_DEFAULT_NS (UINT64_C(120) * 1000000000)

struct http_server;
struct http_request;

typedef void http_handler_fn(void *data, struct http_request *request);

/* A method at a path; GET also matches HEAD. The first matching route counts. */
struct http_route {
	const char *method;
	const char *path; /* "/metrics"; "/page/" followed by *: all paths below; "*": all */
	http_handler_fn *handler;
	bool is_guarded; /* the options' guard decides first */
	/* the guard checks GET on this path; NULL: the request's own method and path */
	const char *right;
	/* Without a client certificate of client_ca the answer is 403, before the body is read. */
	bool is_certified;
	size_t max_body; /* 0: the limit of the options */
};

struct http_options {
	const char *address; /* in the form of listen.h */
	bool is_tls;         /* connections fail before http_server_set_certificate() */
	/*
	 * PEM, for http_tls_check_authorities(). The server requests a client certificate, which
	 * only routes with is_certified require. NULL: no client certificate is accepted.
	 */
	const char *client_ca;
	bool asks_certificate; /* http_server_set_client_ca() sets client_ca later */
	uint32_t max_connections;
	/* for one address, or one user on a unix socket; 0: 3/4 of max_connections */
	uint32_t max_per_address;
	/* a silent peer loses its place at once, not only after 1 s (accept.c) */
	bool gives_way_at_once;
	size_t max_body;
	uint64_t request_ns, idle_ns; /* 0: the defaults */
	/*
	 * Borrowed. Other paths get 404; a known path with another method gets 405 and the methods.
	 */
	const struct http_route *routes;
	size_t n_routes;
	void *data; /* passed to the handlers */
	/* Calls http_pass() for a request of a guarded route, or answers it; at once or later. */
	http_handler_fn *guard;
	void *guard_data;
};

int http_server_new(struct loop *loop, const struct http_options *options,
	struct http_server **ret_server, struct error *err);
/* All requests must have been answered; streams may be open. Accepts NULL. */
void http_server_free(struct http_server *server);

/*
 * Sets the certificate of new connections; existing ones keep theirs. PEM, the leaf first. Returns
 * 0 or -EINVAL.
 */
int http_server_set_certificate(
	struct http_server *server, const char *cert_pem, const char *key_pem, struct error *err);

/*
 * Replaces client_ca. Connections whose certificate was checked already keep the result. Returns 0
 * or -EINVAL.
 */
int http_server_set_client_ca(struct http_server *server, const char *client_ca, struct error *err);

uint16_t http_server_port(const struct http_server *server);

const char *http_method(const struct http_request *request);
const char *http_path(const struct http_request *request);
/* NULL if absent. */
const char *http_header(const struct http_request *request, const char *name);
const char *http_cookie(const struct http_request *request, const char *name);
/* A decoded parameter of the query string. NULL if absent. */
const char *http_query(const struct http_request *request, const char *name);
/* Calls fn for each header, also for repeated ones. */
typedef void http_header_fn(void *data, const char *name, const char *value);
void http_each_header(const struct http_request *request, http_header_fn *fn, void *data);
/*
 * Common name of a client certificate that client_ca vouches for; "" if it has none. NULL: no such
 * certificate.
 */
const char *http_peer(struct http_request *request);
/*
 * Address of the peer: IPv4 as mapped into IPv6, on a unix socket the peer's user. Zeros: unknown.
 */
struct http_address {
	int family;
	uint8_t bytes[16];
};
struct http_address http_address(const struct http_request *request);
bool http_address_is_same(const struct http_address *a, const struct http_address *b);
struct str http_body(const struct http_request *request);
/* The `right` of the request's route; NULL: none. */
const char *http_right(const struct http_request *request);

/* For the guard: allows the request and calls the route's handler. */
void http_pass(struct http_request *request);

#define HTTP_TEXT "text/plain; charset=utf-8"

/*
 * Adds a header to the coming answer; copies both texts. Returns 0; -EINVAL if the value contains a
 * line end; -EMSGSIZE beyond HTTP_HEADERS_MAX in total.
 */
#define HTTP_HEADERS_MAX (8u << 10)
int http_add_header(struct http_request *request, const char *name, const char *value);

/* Answers and ends the request; copies the body. For streams see http-stream.h. */
void http_answer(struct http_request *request, unsigned int status, const char *content_type,
	struct str body);

/* As http_answer() with status 200, or with 503 if the buf has failed. */
void http_answer_buf(
	struct http_request *request, const char *content_type, const struct buf *body);
/* Content type of Prometheus' text format. */
#define HTTP_METRICS "text/plain; version=0.0.4; charset=utf-8"

/* A handler: answers 200, "ok". */
void http_answer_ok(void *data, struct http_request *request);
/* Answers 200, "ok"; or 503 and "not ready: " with why_not. */
void http_answer_ready(struct http_request *request, bool is_ready, const char *why_not);

struct http_counts {
	/* n_refused: too large, too slow, ambiguous, or beyond a limit */
	uint64_t n_requests, n_refused;
	uint64_t n_dropped; /* streams whose peers read too slowly */
	uint32_t n_connections, n_streams;
};
struct http_counts http_server_counts(const struct http_server *server);

#endif
