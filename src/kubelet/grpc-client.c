/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one gRPC call on one HTTP/2 connection. nghttp2's callbacks collect status, text and
 * message and mark the connection as over; none of them frees the request. grpc_client_on_end() or
 * grpc_client_on_deadline() then calls grpc_client_give_answer(), which closes the connection and
 * the timer before `answered` runs. `answered` gets GRPC_OK only with exactly one complete message.
 * `conn` is the first member, since grpc_client_on_end() casts the connection to its request.
 */
#include "kubelet/grpc-client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/parse.h"
#include "kubelet/grpc-conn.h"

#define WINDOW_BYTES (1 << 20) /* window for the answer; HTTP/2's default is 64 KiB */

struct grpc_request {
	struct grpc_conn conn; /* must stay the first member: callbacks cast to the request */
	struct loop_timer deadline;
	int32_t stream;
	grpc_answer_fn *answered;
	void *data;

	struct buf out;
	size_t out_at;

	struct buf in;
	size_t answer_max;
	uint64_t http_status;
	bool has_status;
	enum grpc_status status;
	struct buf text;
};

/* Ends the call with this status, whatever the server has sent. */
static void grpc_client_set_status(
	struct grpc_request *r, enum grpc_status status, const char *text)
{
	buf_clear(&r->text);
	buf_add_text(&r->text, text);
	r->status = status;
	r->has_status = true;
	r->conn.is_over = true;
}

/* ---- nghttp2's callbacks ---- */

static ssize_t grpc_client_on_read(nghttp2_session *session, int32_t stream, uint8_t *bytes,
	size_t size, uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct grpc_request *r = source->ptr;
	size_t n = MIN(r->out.n - r->out_at, size);

	memcpy(bytes, r->out.p + r->out_at, n);
	r->out_at += n;
	if (r->out_at == r->out.n)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static int grpc_client_on_header(nghttp2_session *session, const nghttp2_frame *frame,
	const uint8_t *name, size_t name_n, const uint8_t *value, size_t value_n, uint8_t flags,
	void *user)
{
	const struct str key = {(const char *)name, name_n};
	const struct str text = {(const char *)value, value_n};
	struct grpc_request *r = user;

	if (frame->hd.stream_id != r->stream || r->conn.is_over)
		return 0;
	if (str_is(key, ":status")) {
		if (parse_uint(text, 100, 599, &r->http_status, NULL) < 0)
			r->http_status = 0;
	} else if (str_is(key, "grpc-status")) {
		r->status = grpc_status_parse(text);
		r->has_status = true;
	} else if (str_is(key, "grpc-message")) {
		buf_clear(&r->text);
		grpc_text_decode(text, &r->text);
	}
	return 0;
}

static int grpc_client_on_chunk(nghttp2_session *session, uint8_t flags, int32_t stream,
	const uint8_t *bytes, size_t n, void *user)
{
	struct grpc_request *r = user;
	struct str message;

	if (stream != r->stream || r->conn.is_over)
		return 0;
	if (buf_add(&r->in, (struct str){(const char *)bytes, n}) < 0 ||
		grpc_message_take(buf_str(&r->in), r->answer_max, &message) == -EMSGSIZE)
		grpc_client_set_status(r, GRPC_RESOURCE_EXHAUSTED, "the answer is too long");
	return 0;
}

static enum grpc_status status_of_reset(uint32_t code)
{
	switch (code) {
	case NGHTTP2_REFUSED_STREAM: return GRPC_UNAVAILABLE;
	case NGHTTP2_CANCEL: return GRPC_CANCELLED;
	case NGHTTP2_ENHANCE_YOUR_CALM: return GRPC_RESOURCE_EXHAUSTED;
	default: return GRPC_INTERNAL;
	}
}

static int grpc_client_on_closed(
	nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
	struct grpc_request *r = user;
	struct str message;

	if (stream != r->stream || r->conn.is_over)
		return 0;
	if (!r->has_status && code != NGHTTP2_NO_ERROR)
		grpc_client_set_status(
			r, status_of_reset(code), "the other side has reset the call");
	else if (r->http_status != 200)
		grpc_client_set_status(
			r, GRPC_UNKNOWN, "not a gRPC answer: HTTP status is not 200");
	else if (!r->has_status)
		grpc_client_set_status(r, GRPC_UNKNOWN, "the answer has no gRPC status");
	else if (r->status == GRPC_OK &&
		grpc_message_take(buf_str(&r->in), r->answer_max, &message) != 1)
		grpc_client_set_status(r, GRPC_INTERNAL, "the answer is not one message");
	r->conn.is_over = true;
	return 0;
}

/* ---- ending a call ---- */

static void request_done(struct grpc_request *r)
{
	grpc_conn_close(&r->conn);
	loop_remove_timer(&r->deadline);
	buf_done(&r->out);
	buf_done(&r->in);
	buf_done(&r->text);
	free(r);
}

static void grpc_client_give_answer(struct grpc_request *r)
{
	struct grpc_answer answer = {
		.status = r->status,
		.text = buf_text(&r->text),
		.data = r->data,
	};

	grpc_conn_close(&r->conn);
	loop_remove_timer(&r->deadline);
	if (r->status == GRPC_OK)
		grpc_message_take(buf_str(&r->in), r->answer_max, &answer.message);
	r->answered(&answer);
	request_done(r);
}

static void grpc_client_on_end(struct grpc_conn *conn)
{
	struct grpc_request *r = (struct grpc_request *)conn;
	struct str message;

	/*
	 * A connection that broke between status and end of stream may lack a part of the message.
	 */
	if (!r->has_status ||
		(r->status == GRPC_OK &&
			grpc_message_take(buf_str(&r->in), r->answer_max, &message) != 1))
		grpc_client_set_status(
			r, GRPC_UNAVAILABLE, "the other side has closed the connection");
	grpc_client_give_answer(r);
}

static void grpc_client_on_deadline(struct loop_timer *timer, uint64_t now)
{
	struct grpc_request *r = timer->data;

	grpc_client_set_status(r, GRPC_DEADLINE_EXCEEDED, "no answer by the deadline");
	grpc_client_give_answer(r);
}

/* ---- starting a call ---- */

static int make_session(struct grpc_request *r, nghttp2_session **ret_session)
{
	nghttp2_session_callbacks *cb;
	nghttp2_option *option = NULL;
	int e;

	if (nghttp2_session_callbacks_new(&cb) < 0)
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_header_callback(cb, grpc_client_on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, grpc_client_on_chunk);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, grpc_client_on_closed);
	e = nghttp2_option_new(&option);
	if (e == 0) {
		nghttp2_option_set_no_http_messaging(
			option, 1); /* grpc_client_on_closed() checks itself */
		e = nghttp2_session_client_new2(ret_session, cb, r, option);
	}
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(cb);
	return e < 0 ? -ENOMEM : 0;
}

static int grpc_client_submit(
	struct grpc_request *r, nghttp2_session *session, const struct grpc_call_params *params)
{
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES},
	};
	const nghttp2_data_provider provider = {
		.source.ptr = r, .read_callback = grpc_client_on_read};
	char timeout[GRPC_TIMEOUT_SIZE];
	nghttp2_nv headers[] = {
		grpc_header(":method", STR("POST")),
		grpc_header(":scheme", STR("http")),
		grpc_header(":path", str_from(params->path)),
		grpc_header(":authority", STR("localhost")),
		grpc_header("te", STR("trailers")),
		grpc_header("content-type", STR("application/grpc")),
		grpc_header("user-agent", STR("divvy/" DIVVY_VERSION)),
		grpc_header("grpc-timeout", STR_NONE),
	};

	grpc_timeout_format(params->timeout_ns, timeout);
	headers[ARRAY_SIZE(headers) - 1] = grpc_header("grpc-timeout", str_from(timeout));
	nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings));
	nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, WINDOW_BYTES);
	r->stream = nghttp2_submit_request(
		session, NULL, headers, ARRAY_SIZE(headers), &provider, NULL);
	return r->stream < 0 ? -ENOMEM : 0;
}

int grpc_request_new_on(struct loop *loop, const struct grpc_call_params *params, int fd,
	struct grpc_request **ret_request, struct error *err)
{
	_cleanup_close_ int owned = fd;
	struct grpc_request *r = calloc(1, sizeof(*r));
	nghttp2_session *session = NULL;
	int e;

	if (!r)
		return fail(err, ENOMEM, "out of memory");
	r->answered = params->answered;
	r->data = params->data;
	r->answer_max = params->answer_max ? params->answer_max : GRPC_MESSAGE_MAX;
	r->out = BUF_INIT(GRPC_PREFIX + GRPC_MESSAGE_MAX);
	r->in = BUF_INIT(GRPC_PREFIX + r->answer_max);
	r->text = BUF_INIT(GRPC_TEXT_MAX);
	r->deadline.data = r;
	r->conn.fd = -1;
	e = grpc_message_add(&r->out, params->message);
	if (e == 0)
		e = loop_add_timer(loop, &r->deadline, grpc_client_on_deadline);
	if (e == 0)
		e = make_session(r, &session);
	if (e == 0)
		e = grpc_client_submit(r, session, params);
	if (e < 0) {
		nghttp2_session_del(session);
		request_done(r);
		return fail_errno(err, -e, "call %s", params->path);
	}
	e = grpc_conn_open(&r->conn, loop, TAKE_FD(owned), session, grpc_client_on_end);
	if (e < 0) {
		request_done(r);
		return fail_errno(err, -e, "call %s", params->path);
	}
	loop_set_timer(&r->deadline, clock_add_ns(clock_now_ns(), params->timeout_ns));
	*ret_request = r;
	return 0;
}

int grpc_request_new(struct loop *loop, const struct grpc_call_params *params,
	struct grpc_request **ret_request, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;

	if (str_copy(address.sun_path, sizeof(address.sun_path), str_from(params->socket)) < 0)
		return fail(err, ENAMETOOLONG,
			"'%.200s': a socket's path has at most %zu characters", params->socket,
			sizeof(address.sun_path) - 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail_errno(err, errno, "socket");
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return fail_errno(err, errno, "connect to '%s'", params->socket);
	return grpc_request_new_on(loop, params, TAKE_FD(fd), ret_request, err);
}

void grpc_request_free(struct grpc_request *r)
{
	if (r)
		request_done(r);
}
