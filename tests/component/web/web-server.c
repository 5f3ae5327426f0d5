/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the controller's page without a cluster: `web-server PORT`. With a second argument
 * `starting` the server is still reading the cluster. Its standard input has the objects, one JSON
 * value a line:
 *   {"kind":"node"|"lease"|"pod", "namespace":"n", "name":"a", "object":{...}|null}
 *   {"kind":"later", "name":"5m"}     as if viewers had been connected for five minutes
 *   {"kind":"silence", "name":"35"}   the API server has not answered for 35 s
 *   {"kind":"revoke", "name":"good"}  the token "good" loses its right to the page
 * The program prints "ready" once it listens on 127.0.0.1, and exits at the end of its standard
 * input. The token "good" may read the page, "poor" may not, and other tokens are invalid.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/web-internal.h"
#include "controller/web.h"
#include "kube/kube-json.h"

#define INPUT_MAX (64u << 20)
#define READ_BYTES (64u << 10)

struct test_server {
	struct loop *loop;
	struct web *web;
	struct http_server *http;
	struct loop_io input;
	struct buf text;
	bool is_revoked;
	bool is_starting; /* the caches are not complete */
	uint64_t silence_ns;
};

static uint64_t silence_ns(void *data)
{
	return ((const struct test_server *)data)->silence_ns;
}

static void guard(void *data, struct http_request *request)
{
	const char *header = http_header(request, "Authorization"),
		   *cookie = http_cookie(request, WEB_COOKIE);
	struct str token = str_from(header ? header : cookie);

	if (header)
		str_skip_prefix(&token, STR("Bearer "));

	if (str_is(token, "good") && !((const struct test_server *)data)->is_revoked)
		http_pass(request);
	else if (str_is(token, "poor"))
		http_answer(request, 403, HTTP_TEXT, STR("you may not get /metrics\n"));
	else
		http_answer(request, 401, HTTP_TEXT, STR("the token is not valid\n"));
}

static void on_request(void *data, struct http_request *request)
{
	struct test_server *s = data;

	web_serve(s->web, request);
}

static void take(struct test_server *s, struct str line)
{
	_cleanup_json_ json_t *told = NULL;
	const char *kind, *name;
	json_t *object;

	if (kube_json_parse(line, &told, NULL) < 0)
		return;
	kind = kube_json_text_at(told, "kind", NULL);
	name = kube_json_text_at(told, "name", NULL);
	object = json_object_get(told, "object");
	if (json_is_null(object))
		object = NULL;
	if (!kind || !name)
		return;
	if (!strcmp(kind, "node"))
		web_set_gpu_node(s->web, name, object);
	else if (!strcmp(kind, "later"))
		web_beat(s->web, clock_now_ns() + 300 * NSEC_PER_SEC);
	else if (!strcmp(kind, "silence")) {
		s->silence_ns = strtoull(name, NULL, 10) * NSEC_PER_SEC;
		web_beat(s->web, clock_now_ns());
	} else if (!strcmp(kind, "revoke"))
		s->is_revoked = true;
	else if (!strcmp(kind, "lease"))
		web_set_lease(s->web, name, object);
	else
		web_set_pod(s->web, kube_json_text_at(told, "namespace", NULL), name, object);
}

static void on_input(struct loop_io *io, uint32_t events)
{
	struct test_server *s = io->data;
	ssize_t n = -1;

	if (buf_reserve(&s->text, READ_BYTES) == 0)
		n = read(STDIN_FILENO, s->text.p + s->text.n, READ_BYTES);
	if (n <= 0) {
		loop_stop(s->loop, 0);
		return;
	}
	s->text.n += (size_t)n;
	for (;;) {
		const size_t end = str_find(buf_str(&s->text), '\n');

		if (end == s->text.n)
			return;
		take(s, (struct str){s->text.p, end});
		buf_consume(&s->text, end + 1);
	}
}

static int serve(struct test_server *s, const char *port, struct error *err)
{
	static const struct http_route routes[WEB_N_ROUTES] = {WEB_ROUTES(on_request)};
	char address[32];
	const struct http_options options = {.address = address,
		.routes = routes,
		.n_routes = WEB_N_ROUTES,
		.data = s,
		.guard = guard,
		.guard_data = s};
	int r;

	snprintf(address, sizeof(address), "127.0.0.1:%.8s", port);
	r = loop_new(&s->loop);
	r = r < 0 ? r : web_new(s->loop, &s->web, err);
	if (r == 0)
		web_set_silence(s->web, silence_ns, s);
	r = r < 0 ? r : http_server_new(s->loop, &options, &s->http, err);
	s->input.data = s;
	r = r < 0 ? r : loop_add_io(s->loop, &s->input, STDIN_FILENO, EPOLLIN, on_input);
	if (r < 0)
		return r;
	if (!s->is_starting)
		web_set_ready(s->web);
	puts("ready");
	fflush(stdout);
	return loop_run(s->loop);
}

int main(int argc, char **argv)
{
	struct test_server s = {.text = BUF_INIT(INPUT_MAX)};
	struct error err = {0};
	int r;

	s.is_starting = argc > 2 && !strcmp(argv[2], "starting");
	log_init("web-server");
	r = serve(&s, argc > 1 ? argv[1] : "0", &err);
	if (r < 0)
		log_error("%s", err.msg[0] ? err.msg : strerror(-r));
	loop_remove_io(&s.input);
	http_server_free(s.http);
	web_free(s.web);
	loop_free(s.loop);
	buf_done(&s.text);
	return r < 0;
}
