/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server: see grpc-server.h. A call lives from its HEADERS frame until nghttp2 closes its
 * stream, or its connection ends. `is_ended` is set earlier, at the end of the call: from then on
 * no handler is called for it, and no function changes it. One thread.
 */
#include "kubelet/grpc-server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/listener.h"
#include "kubelet/grpc-conn.h"

#define TEXT_SIZE 512

struct server_conn {
	struct grpc_conn conn; /* must stay the first member: callbacks cast to the connection */
	LIST_ENTRY(server_conn) link;
	struct grpc_server *server;
	LIST_HEAD(, grpc_call) calls;
	size_t buffered; /* bytes of unfinished requests */
};

struct grpc_call {
	LIST_ENTRY(grpc_call) link;
	struct server_conn *conn;
	int32_t stream;

	/* the request */
	char path[GRPC_PATH_MAX + 1];
	bool is_post, is_grpc, is_encoded, has_bad_timeout, has_timeout;
	uint64_t timeout_ns;
	struct buf in;

	/* the answer: `out` is being sent, `next` waits */
	struct buf out, next;
	size_t out_at;
	bool has_next, has_begun, is_deferred, is_ended;
	enum grpc_status status;
	char text[TEXT_SIZE];

	struct loop_timer deadline;
	grpc_closed_fn *gone;
	void *gone_data;
};

struct grpc_server {
	struct loop *loop;
	const struct grpc_method *methods;
	size_t n_methods;
	void *data;
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	LIST_HEAD(, server_conn) conns;
	uint32_t n_conns;
	int listen_fd;
	struct listener listener;
	struct sockaddr_un address;
	dev_t device; /* device and inode identify the socket's file */
	ino_t inode;
};

/* ---- a call's end ---- */

static void grpc_server_call_closed(struct grpc_call *call)
{
	grpc_closed_fn *gone = call->gone;

	call->gone = NULL;
	if (gone)
		gone(call->gone_data);
}

static void grpc_server_drop_request(struct grpc_call *call)
{
	call->conn->buffered -= call->in.n;
	buf_done(&call->in);
}

static void grpc_server_call_free(struct grpc_call *call)
{
	LIST_REMOVE(call, link);
	loop_remove_timer(&call->deadline);
	grpc_server_drop_request(call);
	buf_done(&call->out);
	buf_done(&call->next);
	free(call);
}

/* ---- answers ---- */

#define ANSWER_HEADERS \
	grpc_header(":status", STR("200")), grpc_header("content-type", STR("application/grpc"))

static int submit_status(struct grpc_call *call, bool is_trailer)
{
	_cleanup_buf_ struct buf text = BUF_INIT(3 * GRPC_TEXT_MAX);
	char number[16];
	nghttp2_session *session = call->conn->conn.session;
	size_t n = 0;
	nghttp2_nv headers[5];

	snprintf(number, sizeof(number), "%d", (int)call->status);
	grpc_text_encode(str_from(call->text), &text);
	if (!is_trailer) {
		const nghttp2_nv answer[] = {ANSWER_HEADERS};

		memcpy(headers, answer, sizeof(answer));
		n = ARRAY_SIZE(answer);
	}
	headers[n++] = grpc_header("grpc-status", str_from(number));
	if (text.n)
		headers[n++] = grpc_header("grpc-message", buf_str(&text));
	if (call->is_encoded && !is_trailer)
		headers[n++] = grpc_header("grpc-accept-encoding", STR("identity"));
	return is_trailer ? nghttp2_submit_trailer(session, call->stream, headers, n)
			  : nghttp2_submit_response(session, call->stream, headers, n, NULL);
}

/*
 * Frees the message that was sent completely, and makes the waiting message, if any, the next one
 * to send.
 */
static void turn_over(struct grpc_call *call)
{
	const struct buf sent = call->out;

	if (call->out_at < call->out.n)
		return;
	call->out_at = 0;
	buf_clear(&call->out);
	if (!call->has_next)
		return;
	call->has_next = false;
	call->out = call->next;
	call->next = sent;
	buf_clear(&call->next);
}

static ssize_t grpc_server_on_read(nghttp2_session *session, int32_t stream, uint8_t *bytes,
	size_t size, uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct grpc_call *call = source->ptr;
	size_t n;

	turn_over(call);
	n = MIN(call->out.n - call->out_at, size);
	if (n)
		memcpy(bytes, call->out.p + call->out_at, n);
	call->out_at += n;
	turn_over(call);
	if (call->is_ended && call->out_at == call->out.n) {
		*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (submit_status(call, true) < 0)
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	} else if (!n) {
		call->is_deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	return (ssize_t)n;
}

/* Makes nghttp2 call grpc_server_on_read() for new data. */
static void call_push(struct grpc_call *call)
{
	nghttp2_session *session = call->conn->conn.session;
	int r = 0;

	if (!call->has_begun && call->is_ended && !call->out.n) {
		r = submit_status(call, false);
	} else if (!call->has_begun) {
		const nghttp2_nv headers[] = {ANSWER_HEADERS};
		const nghttp2_data_provider provider = {
			.source.ptr = call, .read_callback = grpc_server_on_read};

		call->has_begun = true;
		r = nghttp2_submit_response(
			session, call->stream, headers, ARRAY_SIZE(headers), &provider);
	} else if (call->is_deferred) {
		call->is_deferred = false;
		r = nghttp2_session_resume_data(session, call->stream);
	}
	if (r < 0)
		nghttp2_submit_rst_stream(
			session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_INTERNAL_ERROR);
	grpc_conn_kick(&call->conn->conn);
}

static void call_finish(struct grpc_call *call, enum grpc_status status, const char *text)
{
	if (call->is_ended)
		return;
	call->is_ended = true;
	call->gone = NULL;
	call->status = status;
	snprintf(call->text, sizeof(call->text), "%s", text);
	loop_cancel_timer(&call->deadline);
	grpc_server_drop_request(call);
	call_push(call);
}

int grpc_call_send(struct grpc_call *call, struct str message)
{
	struct buf *to = call->out.n ? &call->next : &call->out;

	if (message.n > GRPC_MESSAGE_MAX)
		return -EMSGSIZE;
	to->max = GRPC_PREFIX + GRPC_MESSAGE_MAX;
	buf_clear(to);
	if (grpc_message_add(to, message) < 0) {
		buf_clear(to);
		return -ENOMEM;
	}
	call->has_next = to == &call->next;
	call_push(call);
	return 0;
}

void grpc_call_reply(struct grpc_call *call, struct str message)
{
	int r = grpc_call_send(call, message);

	if (r == -EMSGSIZE)
		grpc_call_end(call, GRPC_RESOURCE_EXHAUSTED, "an answer of %zu bytes: at most %u",
			message.n, GRPC_MESSAGE_MAX);
	else if (r < 0)
		grpc_call_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else
		call_finish(call, GRPC_OK, "");
}

void grpc_call_end(struct grpc_call *call, enum grpc_status status, const char *fmt, ...)
{
	char text[TEXT_SIZE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	call_finish(call, status, text);
}

void *grpc_call_data(const struct grpc_call *call)
{
	return call->conn->server->data;
}

void grpc_call_watch(struct grpc_call *call, grpc_closed_fn *gone, void *data)
{
	call->gone = gone;
	call->gone_data = data;
}

/* ---- requests ---- */

static void grpc_server_on_deadline(struct loop_timer *timer, uint64_t now)
{
	struct grpc_call *call = timer->data;

	grpc_server_call_closed(call);
	grpc_call_end(call, GRPC_DEADLINE_EXCEEDED, "not answered by the deadline of the call");
}

static const struct grpc_method *find_method(const struct grpc_server *server, const char *path)
{
	for (size_t i = 0; i < server->n_methods; i++)
		if (!strcmp(server->methods[i].path, path))
			return &server->methods[i];
	return NULL;
}

/* Begins a call when all of its headers have arrived. */
static void call_begin(struct grpc_call *call)
{
	struct grpc_server *server = call->conn->server;

	if (!call->is_post || !call->is_grpc) {
		const nghttp2_nv header = grpc_header(
			/* the request is no gRPC call at all */
			":status", call->is_post ? STR("415") : STR("405"));

		call->is_ended = true;
		nghttp2_submit_response(call->conn->conn.session, call->stream, &header, 1, NULL);
	} else if (!find_method(server, call->path)) {
		grpc_call_end(call, GRPC_UNIMPLEMENTED, "no method '%s'", call->path);
	} else if (call->is_encoded) {
		grpc_call_end(call, GRPC_UNIMPLEMENTED, "requests may not be compressed");
	} else if (call->has_bad_timeout) {
		grpc_call_end(call, GRPC_INTERNAL,
			"grpc-timeout: expected 1 to 8 digits and one of n, u, m, S, M, H");
	} else if (call->has_timeout) {
		call->deadline.data = call;
		if (loop_add_timer(server->loop, &call->deadline, grpc_server_on_deadline) < 0)
			grpc_call_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		else
			loop_set_timer(
				&call->deadline, clock_add_ns(clock_now_ns(), call->timeout_ns));
	}
}

/* Ends the call if its bytes cannot be one message; returns 1 when the message is complete. */
static int call_take(struct grpc_call *call, struct str *ret_request)
{
	int r = grpc_message_take(buf_str(&call->in), GRPC_MESSAGE_MAX, ret_request);

	if (r == -EMSGSIZE)
		grpc_call_end(call, GRPC_RESOURCE_EXHAUSTED, "a request of more than %u bytes",
			GRPC_MESSAGE_MAX);
	else if (r == -EPROTONOSUPPORT)
		grpc_call_end(call, GRPC_INTERNAL, "a compressed request without grpc-encoding");
	else if (r == -EBADMSG && call->in.p[0] & ~1)
		grpc_call_end(call, GRPC_INTERNAL, "not a gRPC message");
	else if (r == -EBADMSG)
		grpc_call_end(call, GRPC_UNIMPLEMENTED, "more than one request in a call");
	return r;
}

static void call_bytes(struct grpc_call *call, struct str bytes)
{
	struct server_conn *c = call->conn;
	struct str request;

	if (call->is_ended)
		return;
	if (bytes.n > GRPC_SERVER_BUFFER_MAX - c->buffered || buf_add(&call->in, bytes) < 0) {
		grpc_call_end(
			call, GRPC_RESOURCE_EXHAUSTED, "too many bytes in unfinished requests");
		return;
	}
	c->buffered += bytes.n;
	call_take(call, &request);
}

/* The whole request has arrived. */
static void call_dispatch(struct grpc_call *call)
{
	_cleanup_buf_ struct buf in = {
		0}; /* the handler may end the call, which frees its request */
	struct str request;
	int r;

	if (call->is_ended)
		return;
	r = call_take(call, &request);
	if (r == 0)
		grpc_call_end(call, GRPC_INTERNAL, "the request ends inside its message");
	if (r != 1)
		return;
	in = call->in;
	call->conn->buffered -= in.n;
	call->in = BUF_INIT(0);
	find_method(call->conn->server, call->path)->handle(call, request);
}

/* ---- nghttp2's callbacks ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct server_conn *c = user;
	struct grpc_call *call;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	call = calloc(1, sizeof(*call));
	if (!call)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	call->conn = c;
	call->stream = frame->hd.stream_id;
	/*
	 * The buffer has room for one chunk beyond the largest message, so that the call ends with
	 * a clear status.
	 */
	call->in = BUF_INIT(GRPC_PREFIX + GRPC_MESSAGE_MAX + (64u << 10));
	LIST_INSERT_HEAD(&c->calls, call, link);
	nghttp2_session_set_stream_user_data(session, call->stream, call);
	return 0;
}

static int grpc_server_on_header(nghttp2_session *session, const nghttp2_frame *frame,
	const uint8_t *name, size_t name_n, const uint8_t *value, size_t value_n, uint8_t flags,
	void *user)
{
	const struct str key = {(const char *)name, name_n};
	const struct str text = {(const char *)value, value_n};
	struct grpc_call *call;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0; /* ignores trailers */
	call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (!call)
		return 0;
	if (str_is(key, ":path")) {
		str_copy(call->path, sizeof(call->path), text);
	} else if (str_is(key, ":method")) {
		call->is_post = str_is(text, "POST");
	} else if (str_is(key, "content-type")) {
		call->is_grpc = str_has_prefix(text, STR("application/grpc"));
	} else if (str_is(key, "grpc-encoding")) {
		call->is_encoded = !str_is(text, "identity");
	} else if (str_is(key, "grpc-timeout")) {
		call->has_bad_timeout = grpc_timeout_parse(text, &call->timeout_ns) < 0;
		call->has_timeout = true;
	}
	return 0;
}

static int grpc_server_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct grpc_call *call;

	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (!call)
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		call_begin(call);
	if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		call_dispatch(call);
	return 0;
}

static int grpc_server_on_chunk(nghttp2_session *session, uint8_t flags, int32_t stream,
	const uint8_t *bytes, size_t n, void *user)
{
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);

	if (call)
		call_bytes(call, (struct str){(const char *)bytes, n});
	return 0;
}

/* Resets the stream of a peer that still sends its request after it has got the answer. */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
		frame->hd.flags & NGHTTP2_FLAG_END_STREAM &&
		nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0)
		nghttp2_submit_rst_stream(
			session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
	return 0;
}

static int grpc_server_on_closed(
	nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);

	if (!call)
		return 0;
	nghttp2_session_set_stream_user_data(session, stream, NULL);
	grpc_server_call_closed(call);
	grpc_server_call_free(call);
	return 0;
}

static int make_callbacks(struct grpc_server *server)
{
	nghttp2_session_callbacks *cb;

	if (nghttp2_session_callbacks_new(&server->callbacks) < 0 ||
		nghttp2_option_new(&server->option) < 0)
		return -ENOMEM;
	cb = server->callbacks;
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(cb, grpc_server_on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, grpc_server_on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, grpc_server_on_chunk);
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, grpc_server_on_closed);
	/*
	 * The kubelet sends the socket's path as :authority, which must not contain a slash, and
	 * nghttp2 would reset each call. So nghttp2's checks are off, and grpc_server_on_header()
	 * checks the few fields that matter.
	 */
	nghttp2_option_set_no_http_messaging(server->option, 1);
	nghttp2_option_set_no_closed_streams(server->option, 1);
	return 0;
}

/* ---- connections ---- */

static void conn_free(struct server_conn *c)
{
	struct grpc_call *call;

	grpc_conn_close(&c->conn);
	while ((call = LIST_FIRST(&c->calls))) {
		grpc_server_call_closed(call);
		grpc_server_call_free(call);
	}
	LIST_REMOVE(c, link);
	c->server->n_conns--;
	free(c);
}

static void grpc_server_on_end(struct grpc_conn *conn)
{
	conn_free((struct server_conn *)conn);
}

int grpc_server_serve(struct grpc_server *server, int fd)
{
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_SERVER_STREAMS_MAX},
	};
	_cleanup_close_ int owned = fd;
	nghttp2_session *session = NULL;
	struct server_conn *c;
	int r;

	if (server->n_conns >= GRPC_SERVER_CONNS_MAX)
		return -EUSERS;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->server = server;
	LIST_INIT(&c->calls);
	if (nghttp2_session_server_new2(&session, server->callbacks, c, server->option) < 0) {
		free(c);
		return -ENOMEM;
	}
	nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings));
	r = grpc_conn_open(&c->conn, server->loop, TAKE_FD(owned), session, grpc_server_on_end);
	if (r < 0) {
		free(c);
		return r;
	}
	LIST_INSERT_HEAD(&server->conns, c, link);
	server->n_conns++;
	return 0;
}

static void grpc_server_on_knock(struct listener *l, int fd)
{
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t n = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 ||
		(peer.uid != 0 && peer.uid != geteuid()))
		fd_close(fd);
	else
		grpc_server_serve(l->data, fd);
}

/* ---- the server ---- */

bool grpc_server_is_there(const struct grpc_server *server)
{
	struct stat st;

	return server->listen_fd >= 0 && stat(server->address.sun_path, &st) == 0 &&
		st.st_dev == server->device && st.st_ino == server->inode;
}

/* Unlinks only our own socket, because another server may have replaced it at the path. */
static void grpc_server_stop_listening(struct grpc_server *server)
{
	if (grpc_server_is_there(server))
		unlink(server->address.sun_path);
	listener_remove(&server->listener);
	server->listen_fd = fd_close(server->listen_fd);
}

static int fill_address(const char *path, struct sockaddr_un *ret, struct error *err)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (str_copy(ret->sun_path, sizeof(ret->sun_path), str_from(path)) < 0)
		return fail(err, ENAMETOOLONG,
			"'%.200s': a socket's path has at most %zu characters", path,
			sizeof(ret->sun_path) - 1);
	return 0;
}

static int clear_path(const struct sockaddr_un *address, struct error *err)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return fail_errno(err, errno, "socket");
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN)
		return fail(
			err, EADDRINUSE, "'%s': another process listens there", address->sun_path);
	if (errno == ECONNREFUSED && unlink(address->sun_path) < 0 && errno != ENOENT)
		return fail_errno(err, errno, "remove the old socket '%s'", address->sun_path);
	return 0;
}

int grpc_socket_clear(const char *path, struct error *err)
{
	struct sockaddr_un address;
	int r = fill_address(path, &address, err);

	return r < 0 ? r : clear_path(&address, err);
}

int grpc_server_listen(struct grpc_server *server, const char *path, struct error *err)
{
	struct sockaddr_un address;
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r = fill_address(path, &address, err);

	if (r < 0)
		return r;
	grpc_server_stop_listening(server);
	r = clear_path(&address, err);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail_errno(err, errno, "socket");
	socket_refuse_rights(fd);
	/*
	 * Between bind and chmod any user can connect, so grpc_server_on_knock() checks each peer
	 * as well.
	 */
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
		chmod(path, 0600) < 0 || stat(path, &st) < 0 || listen(fd, SOMAXCONN) < 0)
		return fail_errno(err, errno, "listen at '%s'", path);
	server->listener.data = server;
	r = listener_add(server->loop, &server->listener, fd, grpc_server_on_knock);
	if (r < 0)
		return fail_errno(err, -r, "listen at '%s'", path);
	server->listen_fd = TAKE_FD(fd);
	server->address = address;
	server->device = st.st_dev;
	server->inode = st.st_ino;
	return 0;
}

int grpc_server_new(struct loop *loop, const struct grpc_method *methods, size_t n_methods,
	void *data, struct grpc_server **ret_server)
{
	struct grpc_server *server = calloc(1, sizeof(*server));

	if (!server)
		return -ENOMEM;
	server->loop = loop;
	server->methods = methods;
	server->n_methods = n_methods;
	server->data = data;
	server->listen_fd = -1;
	LIST_INIT(&server->conns);
	if (make_callbacks(server) < 0) {
		grpc_server_free(server);
		return -ENOMEM;
	}
	*ret_server = server;
	return 0;
}

void grpc_server_free(struct grpc_server *server)
{
	if (!server)
		return;
	while (!LIST_EMPTY(&server->conns))
		conn_free(LIST_FIRST(&server->conns));
	grpc_server_stop_listening(server);
	nghttp2_session_callbacks_del(server->callbacks);
	nghttp2_option_del(server->option);
	free(server);
}
