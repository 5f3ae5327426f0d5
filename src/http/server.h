/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP or HTTPS server on the loop. One thread; nothing blocks. A request is handed over when
 * all of it has come, and is the handler's until http_answer(), from within the handler or any time
 * later; what it says is valid until then.
 *
 * Limits: connections, bytes of a body, and time from the first byte of a connection (or from the
 * end of the answer before) to the end of a request: the server cuts slower peers off, and peers
 * that have not read an answer after idle_ns. accept.h says which connections give way when the
 * limit is reached: a peer that sends nothing, or reads nothing, keeps no other one out.
 * A request whose end two readers could see at different places is answered with 400.
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
/* Longer than API servers keep an idle connection: the end of one is theirs to choose. */
#define HTTP_IDLE_DEFAULT_NS (UINT64_C(120) * 1000000000)

struct http_server;
struct http_request;

typedef void http_handler_fn(void *data, struct http_request *request);

/* A method at a path; GET takes HEAD as well. The first that fits counts. */
struct http_route {
	const char *method;
	const char *path; /* "/metrics"; "/page/" and a * behind it: all below; "*": all */
	http_handler_fn *handler;
	bool is_guarded;   /* the options' guard is asked first */
	const char *right; /* ... as if for a GET of this path; NULL: for what is asked */
	/* 403 before any of the body, unless the peer has shown a certificate of client_ca. */
	bool is_certified;
	size_t max_body; /* 0: the options' */
};

struct http_options {
	const char *address; /* as listen.h has it */
	bool is_tls;         /* nobody gets in before http_server_set_certificate() */
	/*
	 * PEM, as http_tls_check_authorities() takes it: peers are asked for a certificate, and
	 * need none but where a route says so. NULL: nobody's will do.
	 */
	const char *client_ca;
	bool asks_certificate; /* client_ca comes later: http_server_set_client_ca() */
	uint32_t max_connections;
	uint32_t max_per_address; /* of one address, on a unix socket of one user; 0: 3 of 4 */
	bool gives_way_at_once; /* a newcomer need not wait until a peer has been silent for 1 s */
	size_t max_body;
	uint64_t request_ns, idle_ns; /* 0: the defaults */
	/* Borrowed. Elsewhere is 404, or 405 where another method would do, with what would. */
	const struct http_route *routes;
	size_t n_routes;
	void *data; /* of the handlers */
	/* Lets a request of a guarded route in by http_pass(), or answers it; at once or later. */
	http_handler_fn *guard;
	void *guard_data;
};

int http_server_new(struct loop *loop, const struct http_options *options,
	struct http_server **ret_server, struct error *err);
/* All requests must have been answered; streams may be open. NULL is fine. */
void http_server_free(struct http_server *server);

/* For connections from now on; those there are keep theirs. PEM: the leaf first. -EINVAL. */
int http_server_set_certificate(
	struct http_server *server, const char *cert_pem, const char *key_pem, struct error *err);

/* In the place of the options' client_ca; who was looked at by then stays as he was. -EINVAL. */
int http_server_set_client_ca(struct http_server *server, const char *client_ca, struct error *err);

uint16_t http_server_port(const struct http_server *server);

const char *http_method(const struct http_request *request);
const char *http_path(const struct http_request *request);
/* NULL: it is not there. */
const char *http_header(const struct http_request *request, const char *name);
const char *http_cookie(const struct http_request *request, const char *name);
/* Of what stands behind the path's ?, decoded. NULL: it is not there. */
const char *http_query(const struct http_request *request, const char *name);
/* Each, also those that are there several times. */
typedef void http_header_fn(void *data, const char *name, const char *value);
void http_each_header(const struct http_request *request, http_header_fn *fn, void *data);
/* Common name of the certificate that client_ca vouches for, "": it has none. NULL: no such one. */
const char *http_peer(struct http_request *request);
/* Of the connection; IPv4 as mapped into IPv6, on a unix socket the peer's user. Zeros: unknown. */
struct http_address {
	int family;
	uint8_t bytes[16];
};
struct http_address http_address(const struct http_request *request);
bool http_address_is_same(const struct http_address *a, const struct http_address *b);
struct str http_body(const struct http_request *request);
/* Its route's right; NULL: none but its own. */
const char *http_right(const struct http_request *request);

/* To the handler of its route, by the guard: it may be there. */
void http_pass(struct http_request *request);

#define HTTP_TEXT "text/plain; charset=utf-8"

/*
 * For whatever will answer it, a stream too; copied. The value is no peer's text: none that would
 * end a line is taken. -EINVAL; -EMSGSIZE: more than HTTP_HEADERS_MAX together.
 */
#define HTTP_HEADERS_MAX (8u << 10)
int http_add_header(struct http_request *request, const char *name, const char *value);

/* The body is copied. The request is gone with this. stream.h has answers that go on. */
void http_answer(struct http_request *request, unsigned int status, const char *content_type,
	struct str body);

/* The same with 200, or with 503 where the text did not fit into memory. */
void http_answer_buf(
	struct http_request *request, const char *content_type, const struct buf *body);
/* In Prometheus' text form. */
#define HTTP_METRICS "text/plain; version=0.0.4; charset=utf-8"

/* A handler: 200, "ok". */
void http_answer_ok(void *data, struct http_request *request);
/* 200, "ok"; or 503 and "not ready: " with that, in a few words. */
void http_answer_ready(struct http_request *request, bool is_ready, const char *why_not);

struct http_counts {
	uint64_t n_requests, n_refused; /* too large, too slow, ambiguous, or one too many */
	uint64_t n_dropped;             /* streams of who has read too slowly */
	uint32_t n_connections, n_streams;
};
struct http_counts http_server_counts(const struct http_server *server);

#endif
