/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See server.h. libmicrohttpd runs inside our loop: its epoll descriptor is one of our sources, its
 * timeout one of our timers. A request without an answer is suspended there, so that its connection
 * is not touched while somebody holds it.
 */
#include "http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "http/tls.h"

#define SWEEP_NS NSEC_PER_SEC
#define LIBRARY_IDLE_S 600u /* the sweep is sooner */
#define METHOD_MAX 16u
#define PATH_MAX_BYTES 2048u
#define MEMORY_MAX (64u << 10) /* of a connection: request line and headers */

struct connection {
	LIST_ENTRY(connection) link;
	struct http_server *server;
	struct http_tls *tls; /* what it was shown */
	int fd;
	uint64_t since_ns; /* it waits for a request since then */
	bool is_fresh;     /* no request has come yet */
	bool is_served;    /* one is being answered */
};

struct http_request {
	struct connection *connection;
	struct MHD_Connection *mhd;
	char method[METHOD_MAX], path[PATH_MAX_BYTES];
	struct buf body;
	struct MHD_Response *response;
	unsigned int status;
	bool is_handed, is_suspended;
};

struct http_server {
	struct loop *loop;
	struct http_options options;
	struct MHD_Daemon *http;
	struct loop_io io;
	struct loop_timer timer, sweep;
	struct http_tls *tls;
	struct http_counts counts;
	uint16_t port;
	LIST_HEAD(connections, connection) connections;
};

/* ---- connections ---- */

static struct connection *connection_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void on_connection(void *data, struct MHD_Connection *mhd, void **context,
	enum MHD_ConnectionNotificationCode code)
{
	struct http_server *s = data;
	struct connection *c = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		const union MHD_ConnectionInfo *info = MHD_get_connection_info(
			mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

		c = calloc(1, sizeof(*c));
		if (!c)
			return; /* its requests are refused */
		c->server = s;
		c->fd = info->connect_fd;
		c->since_ns = clock_now_ns();
		c->is_fresh = true;
		LIST_INSERT_HEAD(&s->connections, c, link);
		s->counts.n_connections++;
		*context = c;
		if (!loop_timer_is_armed(&s->sweep))
			loop_set_timer(&s->sweep, clock_now_ns() + SWEEP_NS);
		return;
	}
	if (!c)
		return;
	LIST_REMOVE(c, link);
	s->counts.n_connections--;
	http_tls_unref(c->tls);
	free(c);
	*context = NULL;
}

/* Who takes too long to say something, or has nothing to say for very long, is cut off. */
static void on_sweep(struct loop_timer *timer, uint64_t now)
{
	struct http_server *s = timer->data;
	struct connection *c = NULL; /* for cppcheck */

	LIST_FOREACH(c, &s->connections, link) {
		const uint64_t limit = c->is_fresh ? s->options.request_ns : s->options.idle_ns;

		if (c->is_served || clock_since_ns(now, c->since_ns) <= limit)
			continue;
		s->counts.n_refused += c->is_fresh;
		shutdown(c->fd, SHUT_RDWR); /* libmicrohttpd sees its end and closes it */
	}
	if (!LIST_EMPTY(&s->connections))
		loop_set_timer(timer, now + SWEEP_NS);
}

/* ---- requests ---- */

static struct MHD_Response *make_response(struct str body, const char *type)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		body.n, (void *)(body.p ? body.p : ""), MHD_RESPMEM_MUST_COPY);

	if (response && type)
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	return response;
}

static enum MHD_Result refuse(struct http_server *s, struct MHD_Connection *mhd,
	unsigned int status, const char *sentence)
{
	struct MHD_Response *response = make_response(str_from(sentence), "text/plain");
	enum MHD_Result result;

	s->counts.n_refused++;
	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	result = MHD_queue_response(mhd, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result begin(struct http_server *s, struct MHD_Connection *mhd, const char *url,
	const char *method, void **state)
{
	struct connection *c = connection_of(mhd);
	const char *length = MHD_lookup_connection_value(
		mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
	struct http_request *request;
	uint64_t n;

	if (!c)
		return MHD_NO;
	/* The body has the time of a fresh one, counted from here. */
	c->is_fresh = true;
	c->since_ns = clock_now_ns();
	if (length && parse_uint(str_from(length), 0, s->options.max_body, &n, NULL) < 0)
		return refuse(s, mhd, MHD_HTTP_CONTENT_TOO_LARGE, "the body is too large\n");
	request = calloc(1, sizeof(*request));
	if (!request)
		return MHD_NO;
	request->connection = c;
	request->mhd = mhd;
	request->body = BUF_INIT(s->options.max_body);
	if (str_copy(request->method, sizeof(request->method), str_from(method)) < 0 ||
		str_copy(request->path, sizeof(request->path), str_from(url)) < 0) {
		free(request);
		return refuse(s, mhd, MHD_HTTP_URI_TOO_LONG, "the path is too long\n");
	}
	*state = request;
	return MHD_YES;
}

static enum MHD_Result give(struct http_request *request)
{
	if (!request->response)
		return MHD_NO;
	return MHD_queue_response(request->mhd, request->status, request->response);
}

static enum MHD_Result on_request(void *data, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **state)
{
	struct http_server *s = data;
	struct http_request *request = *state;

	if (!request)
		return begin(s, mhd, url, method, state);
	if (*upload_size) {
		if (buf_add(&request->body, (struct str){upload, *upload_size}) < 0) {
			s->counts.n_refused++;
			return MHD_NO;
		}
		*upload_size = 0;
		return MHD_YES;
	}
	if (request->is_handed)
		return give(request);
	request->is_handed = true;
	request->connection->is_fresh = false;
	request->connection->is_served = true;
	s->counts.n_requests++;
	s->options.handler(s->options.data, request);
	if (request->status)
		return give(request);
	request->is_suspended = true;
	MHD_suspend_connection(mhd);
	return MHD_YES;
}

static void on_completed(
	void *data, struct MHD_Connection *mhd, void **state, enum MHD_RequestTerminationCode code)
{
	struct http_request *request = *state;

	if (!request)
		return;
	request->connection->is_served = false;
	request->connection->is_fresh = false;
	request->connection->since_ns = clock_now_ns();
	if (request->response)
		MHD_destroy_response(request->response);
	buf_done(&request->body);
	free(request);
	*state = NULL;
}

const char *http_method(const struct http_request *request)
{
	return request->method;
}

const char *http_path(const struct http_request *request)
{
	return request->path;
}

const char *http_header(const struct http_request *request, const char *name)
{
	return MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, name);
}

struct str http_body(const struct http_request *request)
{
	return buf_str(&request->body);
}

void http_answer(struct http_request *request, unsigned int status, const char *content_type,
	struct str body)
{
	request->response = make_response(body, content_type);
	request->status = status;
	if (!request->is_suspended)
		return;
	request->is_suspended = false;
	MHD_resume_connection(request->mhd);
	loop_set_timer(&request->connection->server->timer, 0);
}

/* ---- the loop ---- */

static void run(struct http_server *s)
{
	MHD_UNSIGNED_LONG_LONG timeout_ms = 0;

	MHD_run(s->http);
	if (MHD_get_timeout(s->http, &timeout_ms) == MHD_YES)
		loop_set_timer(&s->timer, clock_now_ns() + timeout_ms * NSEC_PER_MSEC);
	else
		loop_cancel_timer(&s->timer);
}

static void on_readable(struct loop_io *io, uint32_t events)
{
	run(io->data);
}

static void on_timer(struct loop_timer *timer, uint64_t now)
{
	run(timer->data);
}

/* ---- addresses ---- */

static int split_address(
	const char *address, char host[static NI_MAXHOST], char port[static 8], struct error *err)
{
	struct str rest = str_from(address), name;
	size_t colon = rest.n;
	uint64_t number;

	while (colon && rest.p[colon - 1] != ':')
		colon--;
	name = (struct str){rest.p, colon ? colon - 1 : 0};
	rest = (struct str){rest.p + colon, rest.n - colon};
	if (!colon || parse_uint(rest, 0, 65535, &number, NULL) < 0)
		return fail(
			err, EINVAL, "'%s': expected HOST:PORT or :PORT, such as :9443", address);
	if (str_skip_prefix(&name, STR("[")) && !str_skip_suffix(&name, STR("]")))
		return fail(err, EINVAL, "'%s': a ] is missing", address);
	if (str_copy(host, NI_MAXHOST, name) < 0 || str_copy(port, 8, rest) < 0)
		return fail(err, EINVAL, "'%s': too long", address);
	return 0;
}

int http_address_check(const char *address, struct error *err)
{
	char host[NI_MAXHOST], port[8];

	return split_address(address, host, port, err);
}

static int listen_at(const struct addrinfo *a)
{
	_cleanup_close_ int fd = socket(
		a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int one = 1, zero = 0;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
		return -errno;
	if (a->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* All addresses are those of IPv6, which take IPv4's in, where there is IPv6. */
static int open_listener(const char *address, struct error *err)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
	char host[NI_MAXHOST], port[8];
	struct addrinfo *all = NULL;
	int fd = split_address(address, host, port, err);

	if (fd < 0)
		return fd;
	if (getaddrinfo(host[0] ? host : NULL, port, &hints, &all) != 0)
		return fail(err, EINVAL, "'%s': the host has to be an address", address);
	fd = -EADDRNOTAVAIL;
	for (int round = 0; round < 2 && fd < 0; round++)
		for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next)
			if ((a->ai_family == AF_INET6) == (round == 0))
				fd = listen_at(a);
	freeaddrinfo(all);
	return fd < 0 ? fail_errno(err, -fd, "listening on '%s'", address) : fd;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_storage address = {0};
	socklen_t n = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &n) < 0)
		return 0;
	return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
						   : ((struct sockaddr_in *)&address)->sin_port);
}

/* ---- the server ---- */

/* GnuTLS asks for each handshake; libmicrohttpd has put its connection into the session. */
static int on_handshake(gnutls_session_t session, const gnutls_datum_t *authorities, int n,
	const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **ret_chain,
	unsigned int *ret_n, gnutls_privkey_t *ret_key)
{
	struct MHD_Connection *mhd = gnutls_session_get_ptr(session);
	struct connection *c = mhd ? connection_of(mhd) : NULL;

	if (!c || !c->server->tls)
		return -1;
	if (!c->tls)
		c->tls = http_tls_ref(c->server->tls);
	*ret_chain = c->tls->chain;
	*ret_n = c->tls->n_chain;
	*ret_key = c->tls->key;
	return 0;
}

int http_server_set_certificate(
	struct http_server *server, const char *cert_pem, const char *key_pem, struct error *err)
{
	struct http_tls *tls = NULL;
	int r = http_tls_new(cert_pem, key_pem, &tls, err);

	if (r < 0)
		return r;
	http_tls_unref(server->tls);
	server->tls = tls;
	return 0;
}

static int start(struct http_server *s, struct error *err)
{
	const unsigned int flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME |
		(s->options.is_tls ? (unsigned int)MHD_USE_TLS : 0u);
	const struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)on_handshake},
		{MHD_OPTION_END, 0, NULL},
	};
	const union MHD_DaemonInfo *info;
	int fd = open_listener(s->options.address, err), r;

	if (fd < 0)
		return fd;
	s->port = port_of(fd);
	s->http = MHD_start_daemon(flags, 0, NULL, NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET,
		fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned int)s->options.max_connections,
		MHD_OPTION_CONNECTION_TIMEOUT, LIBRARY_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)MEMORY_MAX, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_ARRAY,
		s->options.is_tls ? tls : tls + 1, MHD_OPTION_END);
	if (!s->http) {
		fd_close(fd);
		return fail(err, EIO, "'%s': the HTTP server did not start", s->options.address);
	}
	info = MHD_get_daemon_info(s->http, MHD_DAEMON_INFO_EPOLL_FD);
	r = loop_add_timer(s->loop, &s->timer, on_timer);
	r = r < 0 ? r : loop_add_timer(s->loop, &s->sweep, on_sweep);
	r = r < 0 ? r : loop_add_io(s->loop, &s->io, info->epoll_fd, EPOLLIN, on_readable);
	return r < 0 ? fail_errno(err, -r, "'%s'", s->options.address) : 0;
}

int http_server_new(struct loop *loop, const struct http_options *options,
	struct http_server **ret_server, struct error *err)
{
	struct http_server *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return fail(err, ENOMEM, "out of memory");
	s->loop = loop;
	s->options = *options;
	if (!s->options.max_connections)
		s->options.max_connections = HTTP_CONNECTIONS_DEFAULT;
	if (!s->options.max_body)
		s->options.max_body = HTTP_BODY_DEFAULT;
	if (!s->options.request_ns)
		s->options.request_ns = HTTP_REQUEST_DEFAULT_NS;
	if (!s->options.idle_ns)
		s->options.idle_ns = HTTP_IDLE_DEFAULT_NS;
	s->io.data = s->timer.data = s->sweep.data = s;
	LIST_INIT(&s->connections);
	r = start(s, err);
	if (r < 0) {
		http_server_free(s);
		return r;
	}
	*ret_server = s;
	return 0;
}

void http_server_free(struct http_server *server)
{
	if (!server)
		return;
	loop_remove_io(&server->io);
	loop_remove_timer(&server->sweep);
	if (server->http)
		MHD_stop_daemon(server->http);
	loop_remove_timer(&server->timer);
	http_tls_unref(server->tls);
	free(server);
}

uint16_t http_server_port(const struct http_server *server)
{
	return server->port;
}

struct http_counts http_server_counts(const struct http_server *server)
{
	return server->counts;
}
