/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC client against divvy's own server, and against answers that no server should give. */
#include "kubelet/grpc-client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "kubelet/grpc-server.h"
#include "raw.h"
#include "unit.h"

#define END NGHTTP2_FLAG_END_STREAM
#define OK_HEADERS ":status", "200", "content-type", "application/grpc"
#define LONG_NS (60 * NSEC_PER_SEC)

static struct rig {
	struct loop *loop;
	struct grpc_server *server;
	struct grpc_call *kept;
	int n_gone;
	/* the answers */
	int n_answers;
	enum grpc_status status;
	struct buf text, message;
} rig;

static void on_gone(void *data)
{
	rig.kept = NULL;
	rig.n_gone++;
}

static void echo(struct grpc_call *call, struct str request)
{
	grpc_call_reply(call, request);
}

static void refuse(struct grpc_call *call, struct str request)
{
	grpc_call_end(call, GRPC_NOT_FOUND, "no d\xc3\xa9vice '%.*s'", STR_ARG(request));
}

static void keep(struct grpc_call *call, struct str request)
{
	rig.kept = call;
	grpc_call_watch(call, on_gone, NULL);
}

static const struct grpc_method methods[] = {
	{"/t.T/Echo", echo},
	{"/t.T/Refuse", refuse},
	{"/t.T/Keep", keep},
};

static int set_up(void **state)
{
	rig = (struct rig){.text = BUF_INIT(4096), .message = BUF_INIT(64u << 20)};
	assert_ok(loop_new(&rig.loop));
	assert_ok(grpc_server_new(rig.loop, methods, ARRAY_SIZE(methods), &rig, &rig.server));
	return 0;
}

static int tear_down(void **state)
{
	grpc_server_free(rig.server);
	loop_free(rig.loop);
	buf_done(&rig.text);
	buf_done(&rig.message);
	return 0;
}

static void on_answer(const struct grpc_answer *answer)
{
	assert_ptr_equal(answer->data, &rig);
	rig.n_answers++;
	rig.status = answer->status;
	buf_clear(&rig.text);
	buf_add_text(&rig.text, answer->text);
	buf_clear(&rig.message);
	buf_add(&rig.message, answer->message);
}

static struct grpc_call_params wish_for(const char *path, struct str message)
{
	return (struct grpc_call_params){
		.path = path,
		.message = message,
		.timeout_ns = LONG_NS,
		.answered = on_answer,
		.data = &rig,
	};
}

static struct grpc_request *begin(const struct grpc_call_params *params)
{
	struct grpc_request *request = NULL;
	struct error err;
	int pair[2];

	assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	assert_ok(grpc_server_serve(rig.server, pair[0]));
	assert_ok(grpc_request_new_on(rig.loop, params, pair[1], &request, &err));
	return request;
}

static void wait_for_answers(int n)
{
	while (rig.n_answers < n)
		loop_run_once(rig.loop, CLOCK_NEVER);
	assert_int_equal(rig.n_answers, n);
}

static void call(const char *path, struct str message)
{
	const struct grpc_call_params params = wish_for(path, message);

	begin(&params);
	wait_for_answers(rig.n_answers + 1);
}

/* ---- with divvy's server ---- */

static void a_call_is_answered(void **state)
{
	call("/t.T/Echo", STR("abc"));
	assert_int_equal(rig.status, GRPC_OK);
	assert_string_equal(buf_text(&rig.text), "");
	assert_string_equal(buf_text(&rig.message), "abc");
	call("/t.T/Echo", STR(""));
	assert_int_equal(rig.status, GRPC_OK);
	assert_int_equal(rig.message.n, 0);
}

static void a_refusal_has_its_message(void **state)
{
	call("/t.T/Refuse", STR("7"));
	assert_int_equal(rig.status, GRPC_NOT_FOUND);
	assert_string_equal(buf_text(&rig.text), "no d\xc3\xa9vice '7'");
	call("/t.T/None", STR("7"));
	assert_int_equal(rig.status, GRPC_UNIMPLEMENTED);
}

static void the_longest_message_passes_both_ways(void **state)
{
	_cleanup_free_ char *bytes = calloc(1, GRPC_MESSAGE_MAX + 1);
	struct grpc_call_params params = wish_for(
		"/t.T/Echo", (struct str){bytes, GRPC_MESSAGE_MAX + 1});
	struct grpc_request *request;
	struct error err;
	int pair[2];

	for (size_t i = 0; i < GRPC_MESSAGE_MAX; i++)
		bytes[i] = (char)(i * 17 >> 7);
	call("/t.T/Echo", (struct str){bytes, GRPC_MESSAGE_MAX});
	assert_int_equal(rig.status, GRPC_OK);
	assert_int_equal(rig.message.n, GRPC_MESSAGE_MAX);
	assert_memory_equal(rig.message.p, bytes, GRPC_MESSAGE_MAX);

	assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	assert_int_equal(
		grpc_request_new_on(rig.loop, &params, pair[0], &request, &err), -EMSGSIZE);
	assert_int_equal(read(pair[1], &(char){0}, 1), 0); /* the client has closed pair[0] */
	close(pair[1]);

	params.message.n = 1000;
	params.answer_max = 999;
	begin(&params);
	wait_for_answers(2);
	assert_int_equal(rig.status, GRPC_RESOURCE_EXHAUSTED);
	assert_contains(buf_text(&rig.text), "too long");
}

static void many_calls_at_once_are_answered(void **state)
{
	_cleanup_free_ char *bytes = calloc(1, 1u << 20);
	const struct grpc_call_params params = wish_for("/t.T/Echo", (struct str){bytes, 1u << 20});

	for (int i = 0; i < 20; i++)
		begin(&params);
	wait_for_answers(20);
	assert_int_equal(rig.status, GRPC_OK);
}

static void a_deadline_ends_a_call(void **state)
{
	struct grpc_call_params params = wish_for("/t.T/Keep", STR("x"));

	params.timeout_ns = 2 * NSEC_PER_MSEC;
	begin(&params);
	wait_for_answers(1);
	assert_int_equal(rig.status, GRPC_DEADLINE_EXCEEDED);
	assert_int_equal(rig.message.n, 0);
}

static void a_call_may_be_canceled(void **state)
{
	const struct grpc_call_params params = wish_for("/t.T/Keep", STR("x"));
	struct grpc_request *request = begin(&params);

	while (!rig.kept)
		loop_run_once(rig.loop, CLOCK_NEVER);
	grpc_request_free(request);
	while (!rig.n_gone)
		loop_run_once(rig.loop, CLOCK_NEVER);
	assert_int_equal(rig.n_answers, 0);
	grpc_request_free(begin(&params)); /* cancelled before any byte was sent */
	grpc_request_free(NULL);
}

static void a_server_that_ends_is_unavailable(void **state)
{
	const struct grpc_call_params params = wish_for("/t.T/Keep", STR("x"));

	begin(&params);
	while (!rig.kept)
		loop_run_once(rig.loop, CLOCK_NEVER);
	grpc_server_free(rig.server);
	rig.server = NULL;
	wait_for_answers(1);
	assert_int_equal(rig.status, GRPC_UNAVAILABLE);
}

static void a_missing_server_is_an_error(void **state)
{
	char folder[] = "/tmp/divvy-grpc-XXXXXX", path[64], longest[300];
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct grpc_call_params params = wish_for("/t.T/Echo", STR("x"));
	struct grpc_request *request = NULL;
	struct error err;
	int fd;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/a.sock", folder);
	params.socket = path;
	assert_int_equal(grpc_request_new(rig.loop, &params, &request, &err), -ENOENT);
	assert_contains(err.msg, path);
	assert_ok(str_copy(address.sun_path, sizeof(address.sun_path), str_from(path)));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_ok(bind(fd, (struct sockaddr *)&address, sizeof(address)));
	assert_int_equal(grpc_request_new(rig.loop, &params, &request, &err), -ECONNREFUSED);
	assert_ok(unlink(path));
	close(fd);

	assert_ok(grpc_server_listen(rig.server, path, &err));
	assert_ok(grpc_request_new(rig.loop, &params, &request, &err));
	wait_for_answers(1);
	assert_int_equal(rig.status, GRPC_OK);
	grpc_server_free(rig.server);
	rig.server = NULL;
	assert_ok(rmdir(folder));
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	params.socket = longest;
	assert_int_equal(grpc_request_new(rig.loop, &params, &request, &err), -ENAMETOOLONG);
}

/* ---- with wrong answers ---- */

static void begin_raw(struct raw *raw)
{
	const struct grpc_call_params params = wish_for("/t.T/Echo", STR("x"));
	struct grpc_request *request;
	struct error err;
	int pair[2];

	assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	assert_ok(grpc_request_new_on(rig.loop, &params, pair[0], &request, &err));
	raw_serve(raw, rig.loop, pair[1]);
}

static void expect(struct raw *raw, enum grpc_status status, const char *part)
{
	wait_for_answers(rig.n_answers + 1);
	assert_int_equal(rig.status, status);
	assert_contains(buf_text(&rig.text), part);
	raw_close(raw);
}

static void malformed_answers_are_failures(void **state)
{
	struct raw raw;

	begin_raw(&raw);
	raw_headers(&raw, 1, END, ":status", "404", NULL);
	expect(&raw, GRPC_UNKNOWN, "HTTP");
	begin_raw(&raw);
	raw_headers(&raw, 1, END, "grpc-status", "0", NULL);
	expect(&raw, GRPC_UNKNOWN, "HTTP");
	begin_raw(&raw);
	raw_headers(&raw, 1, END, OK_HEADERS, NULL);
	expect(&raw, GRPC_UNKNOWN, "has no gRPC status");
	begin_raw(&raw);
	raw_headers(&raw, 1, END, OK_HEADERS, "grpc-status", "0", NULL);
	expect(&raw, GRPC_INTERNAL, "not one message");
	begin_raw(&raw);
	raw_headers(&raw, 1, END, OK_HEADERS, "grpc-status", "many", "grpc-message", "%41%", NULL);
	expect(&raw, GRPC_UNKNOWN, "A%");
	begin_raw(&raw);
	raw_frame(&raw, NGHTTP2_RST_STREAM, 0, 1, STR("\0\0\0\x07"));
	expect(&raw, GRPC_UNAVAILABLE, "reset");
	begin_raw(&raw);
	raw_frame(&raw, NGHTTP2_RST_STREAM, 0, 1, STR("\0\0\0\x0b"));
	expect(&raw, GRPC_RESOURCE_EXHAUSTED, "reset");
	begin_raw(&raw);
	raw_frame(&raw, NGHTTP2_GOAWAY, 0, 0, STR("\0\0\0\0\0\0\0\0"));
	expect(&raw, GRPC_UNAVAILABLE, "");
}

/* The server keeps quiet beyond the call's deadline. */
static void a_silent_server_ends_the_call_at_its_deadline(void **state)
{
	struct grpc_call_params params = wish_for("/t.T/Echo", STR("x"));
	struct grpc_request *request;
	struct error err;
	int pair[2];

	params.timeout_ns = NSEC_PER_MSEC;
	assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	assert_ok(grpc_request_new_on(rig.loop, &params, pair[0], &request, &err));
	wait_for_answers(1);
	assert_int_equal(rig.status, GRPC_DEADLINE_EXCEEDED);
	close(pair[1]);
}

static void malformed_messages_are_failures(void **state)
{
	static const struct str bad[] = {
		{"\1\0\0\0\1a", 6}, {"\0\0\0\0\2a", 6}, {"\0\0\0\0\1ab", 7}, {"\3", 1}};
	struct raw raw;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		begin_raw(&raw);
		raw_headers(&raw, 1, 0, OK_HEADERS, NULL);
		raw_frame(&raw, NGHTTP2_DATA, 0, 1, bad[i]);
		raw_headers(&raw, 1, END, "grpc-status", "0", NULL);
		expect(&raw, GRPC_INTERNAL, "not one message");
	}
	begin_raw(&raw);
	raw_headers(&raw, 1, 0, OK_HEADERS, NULL);
	raw_frame(&raw, NGHTTP2_DATA, 0, 1, STR("\0\0\x40\0\1"));
	expect(&raw, GRPC_RESOURCE_EXHAUSTED, "too long");
}

/* A received status counts even if the connection ends right after it. */
static void a_status_counts_when_the_connection_ends(void **state)
{
	struct raw raw;

	begin_raw(&raw);
	raw_headers(&raw, 1, 0, OK_HEADERS, NULL);
	raw_frame(&raw, NGHTTP2_DATA, 0, 1, STR("\0\0\0\0\1a"));
	raw_headers(&raw, 1, END, "grpc-status", "0", NULL);
	raw_close(&raw);
	wait_for_answers(1);
	assert_int_equal(rig.status, GRPC_OK);
	assert_string_equal(buf_text(&rig.message), "a");
	begin_raw(&raw);
	raw_headers(&raw, 1, 0, OK_HEADERS, NULL);
	raw_close(&raw);
	wait_for_answers(2);
	assert_int_equal(rig.status, GRPC_UNAVAILABLE);
}

static void garbage_is_unavailable(void **state)
{
	const struct grpc_call_params params = wish_for("/t.T/Echo", STR("x"));
	static const struct str garbage[] = {
		{"HTTP/1.1 400 Bad Request\r\n\r\n", 28}, {"\0\0\0\0\0\0\0\0\0\0", 10}};
	struct grpc_request *request;
	struct error err;
	int pair[2];

	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
		assert_ok(grpc_request_new_on(rig.loop, &params, pair[0], &request, &err));
		assert_int_equal(write(pair[1], garbage[i].p, garbage[i].n), garbage[i].n);
		wait_for_answers((int)i + 1);
		assert_int_equal(rig.status, GRPC_UNAVAILABLE);
		close(pair[1]);
	}
}

#define RIGGED(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

UNIT_MAIN(RIGGED(a_call_is_answered), RIGGED(a_refusal_has_its_message),
	RIGGED(the_longest_message_passes_both_ways), RIGGED(many_calls_at_once_are_answered),
	RIGGED(a_deadline_ends_a_call), RIGGED(a_call_may_be_canceled),
	RIGGED(a_server_that_ends_is_unavailable), RIGGED(a_missing_server_is_an_error),
	RIGGED(malformed_answers_are_failures),
	RIGGED(a_silent_server_ends_the_call_at_its_deadline),
	RIGGED(malformed_messages_are_failures), RIGGED(a_status_counts_when_the_connection_ends),
	RIGGED(garbage_is_unavailable))
