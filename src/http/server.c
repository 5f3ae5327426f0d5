/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server: see server.h. libmicrohttpd runs inside our loop: its epoll descriptor is a source,
 * its timeout a timer. While a handler has a request, its connection is suspended in libmicrohttpd,
 * so that the connection stays untouched. One thread, the loop's.
 */
#include "http/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "http/accept.h"
#include "http/listen.h"
#include "http/server-internal.h"

#define SWEEP_NS NSEC_PER_SEC
#define LIBRARY_IDLE_S 600u    /* the limit of libmicrohttpd; http_on_sweep() acts earlier */
#define MEMORY_MAX (64u << 10) /* bytes for a connection's request line and headers */
#define TEXT_MAX (64u << 10)   /* bytes of a text that the server itself writes */

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
			return; /* without a context, its requests are refused */
		c->server = s;
		c->fd = info->connect_fd;
		c->since_ns = clock_now_ns();
		c->is_fresh = true;
		LIST_INSERT_HEAD(&s->connections, c, link);
		s->counts.n_connections++;
		http_accept_add(c);
		*context = c;
		if (!loop_timer_is_armed(&s->sweep))
			loop_set_timer(&s->sweep, clock_now_ns() + SWEEP_NS);
		return;
	}
	if (!c)
		return;
	LIST_REMOVE(c, link);
	s->counts.n_connections--;
	http_accept_remove(c);
	http_tls_unref(c->tls);
	free(c);
	*context = NULL;
}

/* Cuts off peers that take too long to send a request or read an answer. */
static void http_on_sweep(struct loop_timer *timer, uint64_t now)
{
	struct http_server *s = timer->data;
	struct connection *c = NULL; /* set only for cppcheck */

	LIST_FOREACH(c, &s->connections, link) {
		const uint64_t limit = c->is_fresh ? s->options.request_ns : s->options.idle_ns;

		if (http_accept_is_peers_turn(c) && clock_since_ns(now, c->since_ns) > limit)
			http_accept_cut_off(c);
	}
	if (!LIST_EMPTY(&s->connections))
		loop_set_timer(timer, now + SWEEP_NS);
}

/* ---- requests ---- */

static bool http_is_route_at(const struct http_route *route, struct str path)
{
	struct str ours = str_from(route->path);

	return str_skip_suffix(&ours, STR("*")) ? str_has_prefix(path, ours) : str_eq(path, ours);
}

static bool is_by(const struct http_route *route, const char *method)
{
	return !strcmp(route->method, method) ||
		(!strcmp(route->method, MHD_HTTP_METHOD_GET) &&
			!strcmp(method, MHD_HTTP_METHOD_HEAD));
}

/*
 * The first route for path and method; NULL if none: *ret_is_path says whether the path is known.
 */
static const struct http_route *find_route(
	const struct http_server *s, const char *path, const char *method, bool *ret_is_path)
{
	*ret_is_path = false;
	for (size_t i = 0; i < s->options.n_routes; i++) {
		const struct http_route *route = &s->options.routes[i];

		if (!http_is_route_at(route, str_from(path)))
			continue;
		*ret_is_path = true;
		if (is_by(route, method))
			return route;
	}
	return NULL;
}

static bool is_certified(struct connection *c, struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info;

	if (c->is_checked || !c->server->client_ca)
		return c->is_certified;
	info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	c->is_checked = true;
	c->is_certified = info &&
		http_tls_is_vouched_for(
			info->tls_session, c->server->client_ca, c->peer, sizeof(c->peer));
	return c->is_certified;
}

static struct MHD_Response *make_response(struct str body, const char *type)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		body.n, (void *)(body.p ? body.p : ""), MHD_RESPMEM_MUST_COPY);

	if (response && type)
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	return response;
}

static enum MHD_Result http_refuse_request(struct http_server *s, struct MHD_Connection *mhd,
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

/* The headers that determine where a request ends. */
struct framing {
	unsigned int n_lengths, n_encodings;
	bool is_wrong;
};

/* Whether c may be in a token (RFC 9110, 5.6.2). */
static bool is_of_token(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		(c && strchr("!#$%&'*+-.^_`|~", c));
}

static enum MHD_Result http_count_header(
	void *data, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct framing *f = data;

	for (const char *c = name; *c; c++)
		f->is_wrong = f->is_wrong || !is_of_token(*c);
	value = value ? value : "";
	if (!strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH)) {
		f->n_lengths++;
		f->is_wrong = f->is_wrong || !*value ||
			strspn(value, "0123456789") != strlen(value);
	} else if (!strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
		f->n_encodings++;
		f->is_wrong = f->is_wrong || strcasecmp(value, "chunked") != 0;
	}
	return MHD_YES;
}

/*
 * A proxy in front may read another end of a request with two lengths or an unknown encoding. The
 * proxy could then take the rest of one client's request for the next client's request.
 */
static bool is_framed(struct MHD_Connection *mhd, const char *version)
{
	struct framing f = {0};

	MHD_get_connection_values(mhd, MHD_HEADER_KIND, http_count_header, &f);
	return !f.is_wrong && f.n_lengths + f.n_encodings <= 1 &&
		!(f.n_encodings && strcmp(version, MHD_HTTP_VERSION_1_1) != 0);
}

static enum MHD_Result http_begin_request(struct http_server *s, struct MHD_Connection *mhd,
	const char *url, const char *method, const char *version, void **state)
{
	struct connection *c = connection_of(mhd);
	const char *length = MHD_lookup_connection_value(
		mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
	const struct http_route *route;
	struct http_request *request;
	size_t max_body;
	bool is_path;
	uint64_t n;

	if (!c)
		return MHD_NO;
	/* The body has request_ns, counted from here. */
	c->is_fresh = true;
	c->since_ns = clock_now_ns();
	if (!is_framed(mhd, version))
		return http_refuse_request(s, mhd, MHD_HTTP_BAD_REQUEST,
			"malformed header; expected names without spaces, and one "
			"Content-Length in digits or Transfer-Encoding: chunked\n");
	route = find_route(s, url, method, &is_path);
	if (route && route->is_certified && !is_certified(c, mhd))
		return http_refuse_request(s, mhd, MHD_HTTP_FORBIDDEN,
			"no client certificate of the right authority\n");
	max_body = route && route->max_body ? route->max_body : s->options.max_body;
	if (length && parse_uint(str_from(length), 0, max_body, &n, NULL) < 0)
		return http_refuse_request(
			s, mhd, MHD_HTTP_CONTENT_TOO_LARGE, "the body is too large\n");
	request = calloc(1, sizeof(*request));
	if (!request)
		return MHD_NO;
	request->connection = c;
	request->mhd = mhd;
	request->body = BUF_INIT(max_body);
	request->headers = BUF_INIT(HTTP_HEADERS_MAX);
	if (str_copy(request->method, sizeof(request->method), str_from(method)) < 0 ||
		str_copy(request->path, sizeof(request->path), str_from(url)) < 0) {
		free(request);
		return http_refuse_request(s, mhd, MHD_HTTP_URI_TOO_LONG, "the path is too long\n");
	}
	*state = request;
	return MHD_YES;
}

static enum MHD_Result http_queue_answer(struct http_request *request)
{
	if (!request->response)
		return MHD_NO;
	return MHD_queue_response(request->mhd, request->status, request->response);
}

void http_request_suspend(struct http_request *request)
{
	request->is_suspended = true;
	MHD_suspend_connection(request->mhd);
}

void http_request_wake(struct http_request *request)
{
	struct http_server *server = request->connection->server;

	if (!request->is_suspended)
		return;
	request->is_suspended = false;
	MHD_resume_connection(request->mhd);
	server->is_woken = true;
	loop_set_timer(&server->timer, 0);
}

void http_request_give(
	struct http_request *request, unsigned int status, struct MHD_Response *response)
{
	for (size_t at = 0; response && at < request->headers.n;) {
		const char *name = request->headers.p + at, *value = name + strlen(name) + 1;

		MHD_add_response_header(response, name, value);
		at += strlen(name) + strlen(value) + 2;
	}
	request->response = response;
	request->status = status;
	request->connection->since_ns = clock_now_ns();
	http_request_wake(request);
}

/* ---- routes ---- */

/* The answer names the allowed methods of a known path, or else all known paths. */
static void answer_nothing(struct http_server *s, struct http_request *request, bool is_path)
{
	_cleanup_buf_ struct buf text = BUF_INIT(TEXT_MAX);

	for (size_t i = 0; i < s->options.n_routes; i++) {
		const struct http_route *route = &s->options.routes[i];

		if (is_path && !http_is_route_at(route, str_from(request->path)))
			continue;
		buf_addf(&text, "%s%s", text.n ? " or " : "expected ",
			is_path ? route->method : route->path);
	}
	buf_add_byte(&text, '\n');
	http_answer(request, is_path ? MHD_HTTP_METHOD_NOT_ALLOWED : MHD_HTTP_NOT_FOUND, HTTP_TEXT,
		buf_str(&text));
}

static void http_dispatch_request(struct http_server *s, struct http_request *request)
{
	bool is_path;

	request->route = find_route(s, request->path, request->method, &is_path);
	if (!request->route)
		answer_nothing(s, request, is_path);
	else if (request->route->is_guarded)
		s->options.guard(s->options.guard_data, request);
	else
		http_pass(request);
}

void http_pass(struct http_request *request)
{
	request->route->handler(request->connection->server->options.data, request);
}

static enum MHD_Result on_request(void *data, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **state)
{
	struct http_server *s = data;
	struct http_request *request = *state;

	if (!request)
		return http_begin_request(s, mhd, url, method, version, state);
	if (*upload_size) {
		if (buf_add(&request->body, (struct str){upload, *upload_size}) < 0) {
			s->counts.n_refused++;
			return MHD_NO;
		}
		*upload_size = 0;
		return MHD_YES;
	}
	if (!request->is_handed) {
		request->is_handed = true;
		request->connection->is_fresh = false;
		request->connection->request = request;
		s->counts.n_requests++;
		http_dispatch_request(s, request);
	}
	if (request->status)
		return http_queue_answer(request);
	http_request_suspend(request);
	return MHD_YES;
}

static void http_on_completed(
	void *data, struct MHD_Connection *mhd, void **state, enum MHD_RequestTerminationCode code)
{
	struct http_request *request = *state;

	if (!request)
		return;
	http_stream_end(request->stream);
	request->connection->request = NULL;
	request->connection->is_fresh = false;
	request->connection->since_ns = clock_now_ns();
	http_accept_resume(request->connection->server);
	if (request->response)
		MHD_destroy_response(request->response);
	buf_done(&request->body);
	buf_done(&request->headers);
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

const char *http_cookie(const struct http_request *request, const char *name)
{
	return MHD_lookup_connection_value(request->mhd, MHD_COOKIE_KIND, name);
}

const char *http_query(const struct http_request *request, const char *name)
{
	return MHD_lookup_connection_value(request->mhd, MHD_GET_ARGUMENT_KIND, name);
}

struct each_header {
	http_header_fn *fn;
	void *data;
};

static enum MHD_Result http_on_header(
	void *data, enum MHD_ValueKind kind, const char *name, const char *value)
{
	const struct each_header *each = data;

	each->fn(each->data, name, value ? value : "");
	return MHD_YES;
}

void http_each_header(const struct http_request *request, http_header_fn *fn, void *data)
{
	struct each_header each = {fn, data};

	MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, http_on_header, &each);
}

const char *http_peer(struct http_request *request)
{
	struct connection *c = request->connection;

	return is_certified(c, request->mhd) ? c->peer : NULL;
}

int http_add_header(struct http_request *request, const char *name, const char *value)
{
	struct buf *headers = &request->headers;

	if (strpbrk(value, "\r\n"))
		return -EINVAL;
	if (strlen(name) + strlen(value) + 2 > headers->max - headers->n)
		return -EMSGSIZE;
	buf_add(headers, (struct str){name, strlen(name) + 1});
	buf_add(headers, (struct str){value, strlen(value) + 1});
	return buf_error(headers);
}

const char *http_right(const struct http_request *request)
{
	return request->route ? request->route->right : NULL;
}

struct str http_body(const struct http_request *request)
{
	return buf_str(&request->body);
}

void http_answer(struct http_request *request, unsigned int status, const char *content_type,
	struct str body)
{
	http_request_give(request, status, make_response(body, content_type));
}

void http_answer_buf(struct http_request *request, const char *content_type, const struct buf *body)
{
	if (buf_error(body) < 0)
		http_answer(
			request, MHD_HTTP_SERVICE_UNAVAILABLE, HTTP_TEXT, STR("out of memory\n"));
	else
		http_answer(request, MHD_HTTP_OK, content_type, buf_str(body));
}

void http_answer_ok(void *data, struct http_request *request)
{
	http_answer(request, MHD_HTTP_OK, HTTP_TEXT, STR("ok\n"));
}

void http_answer_ready(struct http_request *request, bool is_ready, const char *why_not)
{
	char text[128];

	snprintf(text, sizeof(text), "not ready: %s\n", why_not);
	http_answer(request, is_ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, HTTP_TEXT,
		is_ready ? STR("ok\n") : str_from(text));
}

/* ---- the loop ---- */

void http_server_run(struct http_server *s)
{
	MHD_UNSIGNED_LONG_LONG timeout_ms = 0;

	s->is_woken = false;
	MHD_run(s->http);
	if (s->is_woken) /* another request was woken meanwhile */
		loop_set_timer(&s->timer, 0);
	else if (MHD_get_timeout(s->http, &timeout_ms) == MHD_YES)
		loop_set_timer(&s->timer, clock_now_ns() + timeout_ms * NSEC_PER_MSEC);
	else
		loop_cancel_timer(&s->timer);
}

static void on_readable(struct loop_io *io, uint32_t events)
{
	http_server_run(io->data);
}

static void http_on_timer(struct loop_timer *timer, uint64_t now)
{
	http_server_run(timer->data);
}

/* ---- the server ---- */

/* GnuTLS calls this for each handshake; libmicrohttpd has put its connection into the session. */
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
	/* The accepted authorities are not sent: the list may change before the check. */
	if (c->server->client_ca || c->server->options.asks_certificate)
		gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUEST);
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

int http_server_set_client_ca(struct http_server *server, const char *client_ca, struct error *err)
{
	gnutls_x509_trust_list_t list;
	int r = http_tls_read_authorities(client_ca, &list, err);

	if (r < 0)
		return r;
	if (server->client_ca)
		gnutls_x509_trust_list_deinit(server->client_ca, 1);
	server->client_ca = list;
	return 0;
}

static int http_start_daemon(struct http_server *s, struct error *err)
{
	const unsigned int flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET |
		MHD_ALLOW_SUSPEND_RESUME | (s->options.is_tls ? (unsigned int)MHD_USE_TLS : 0u);
	const struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)on_handshake},
		{MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)HTTP_TLS_PRIORITY},
		{MHD_OPTION_END, 0, NULL},
	};
	const struct MHD_OptionItem no_tls[] = {{MHD_OPTION_END, 0, NULL}};
	const union MHD_DaemonInfo *info;
	int r;

	s->listen_fd = http_listen(s->options.address, err);
	if (s->listen_fd < 0)
		return s->listen_fd;
	s->port = address_port_of(s->listen_fd);
	if (http_address_path(s->options.address))
		s->unix_path = str_dup(str_from(http_address_path(s->options.address)));
	s->http = MHD_start_daemon(flags, 0, NULL, NULL, on_request, s, MHD_OPTION_CONNECTION_LIMIT,
		2 * (unsigned int)s->options.max_connections + 1, MHD_OPTION_CONNECTION_TIMEOUT,
		LIBRARY_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_MAX,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_NOTIFY_COMPLETED,
		http_on_completed, s, MHD_OPTION_ARRAY, s->options.is_tls ? tls : no_tls,
		MHD_OPTION_END);
	if (!s->http)
		return fail(err, EIO, "'%s': cannot start the HTTP server", s->options.address);
	info = MHD_get_daemon_info(s->http, MHD_DAEMON_INFO_EPOLL_FD);
	r = loop_add_timer(s->loop, &s->timer, http_on_timer);
	r = r < 0 ? r : loop_add_timer(s->loop, &s->sweep, http_on_sweep);
	r = r < 0 ? r : loop_add_io(s->loop, &s->io, info->epoll_fd, EPOLLIN, on_readable);
	r = r < 0 ? r : http_accept_start(s);
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
	s->listen_fd = -1;
	s->options = *options;
	if (!s->options.max_connections)
		s->options.max_connections = HTTP_CONNECTIONS_DEFAULT;
	if (!s->options.max_per_address)
		s->options.max_per_address = s->options.max_connections -
			s->options.max_connections / 4;
	if (!s->options.max_body)
		s->options.max_body = HTTP_BODY_DEFAULT;
	if (!s->options.request_ns)
		s->options.request_ns = HTTP_REQUEST_DEFAULT_NS;
	if (!s->options.idle_ns)
		s->options.idle_ns = HTTP_IDLE_DEFAULT_NS;
	s->io.data = s->timer.data = s->sweep.data = s;
	LIST_INIT(&s->connections);
	LIST_INIT(&s->peers);
	r = options->client_ca ? http_server_set_client_ca(s, options->client_ca, err) : 0;
	r = r < 0 ? r : http_start_daemon(s, err);
	if (r < 0) {
		http_server_free(s);
		return r;
	}
	*ret_server = s;
	return 0;
}

void http_server_free(struct http_server *server)
{
	struct connection *c = NULL; /* set only for cppcheck */

	if (!server)
		return;
	http_accept_stop(server);
	loop_remove_io(&server->io);
	loop_remove_timer(&server->sweep);
	/* libmicrohttpd cannot stop while a connection is suspended, so all streams end first. */
	LIST_FOREACH(c, &server->connections, link)
		if (c->request && c->request->stream)
			http_stream_abandon(c->request->stream);
	if (server->http)
		MHD_stop_daemon(server->http);
	fd_close(server->listen_fd);
	if (server->unix_path)
		unlink(server->unix_path);
	free(server->unix_path);
	if (server->client_ca)
		gnutls_x509_trust_list_deinit(server->client_ca, 1);
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
