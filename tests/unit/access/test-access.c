/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"
#include "unit-json.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "access/access.h"
#include "kube/kube-config.h"

/* The rig's server checks access; the server `api` plays the API server, on the same loop. */
struct world {
	struct rig rig;
	struct http_server *api;
	struct kube_config *config;
	struct kube_client *client;
	struct access *access;
	unsigned int n_tokens, n_accesses;
	struct http_request *held, *all_held[ACCESS_OPEN_MAX];
	char *what; /* resource of the last question; the reader frees it */
	bool is_holding;
};

static void answer_json(struct http_request *request, json_t *json)
{
	_cleanup_free_ char *text = kube_json_format(json);

	assert_non_null(text);
	http_answer(request, 201, "application/json", str_from(text));
	json_decref(json);
}

/* Tokens are user names; tokens that begin with "nobody" belong to no user. */
static void on_token(void *data, struct http_request *request)
{
	struct world *w = data;
	_cleanup_json_ json_t *review = NULL;
	const char *token;

	w->n_tokens++;
	if (w->is_holding) {
		w->held = request;
		if (w->n_tokens <= ACCESS_OPEN_MAX)
			w->all_held[w->n_tokens - 1] = request;
		return;
	}
	assert_ok(kube_json_parse(http_body(request), &review, NULL));
	token = kube_json_text_at(review, "spec", "token", NULL);
	answer_json(request,
		json_pack("{s:{s:b, s:{s:s, s:[s], s:{s:[s]}}}}", "status", "authenticated",
			strncmp(token, "nobody", strlen("nobody")) != 0, "user", "username", token,
			"groups", "staff", "extra", "team", "one"));
}

/* Only the operator has access, and only with get to /metrics. */
static void on_access(void *data, struct http_request *request)
{
	struct world *w = data;
	_cleanup_json_ json_t *review = NULL;
	const json_t *spec, *what;

	w->n_accesses++;
	assert_ok(kube_json_parse(http_body(request), &review, NULL));
	spec = json_object_get(review, "spec");
	what = json_object_get(spec, "resourceAttributes");
	if (what) {
		w->what = kube_json_format(what);
		answer_json(request, json_pack("{s:{s:b}}", "status", "allowed", 1));
		return;
	}
	what = json_object_get(spec, "nonResourceAttributes");
	assert_string_equal(
		json_string_value(json_array_get(json_object_get(spec, "groups"), 0)), "staff");
	assert_non_null(kube_json_at(spec, "extra", "team", NULL));
	answer_json(request,
		json_pack("{s:{s:b}}", "status", "allowed",
			!strcmp(kube_json_text_at(spec, "user", NULL), "operator") &&
				!strcmp(kube_json_text_at(what, "path", NULL), "/metrics") &&
				!strcmp(kube_json_text_at(what, "verb", NULL), "get")));
}

static const struct http_route api_routes[] = {
	{"POST", "/apis/authentication.k8s.io/v1/tokenreviews", on_token},
	{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", on_access},
};

static const struct http_route routes[] = {
	{"GET", "/healthz", http_answer_ok},
	{"POST", "/page", rig_answer, .is_guarded = true, .right = "/metrics"},
	{"GET", "*", rig_answer, .is_guarded = true},
	{"DELETE", "*", rig_answer, .is_guarded = true},
};

static void start(struct world *w)
{
	struct http_options api = {.address = "127.0.0.1:0",
		.routes = api_routes,
		.n_routes = ARRAY_SIZE(api_routes),
		.data = w};
	struct http_options options = {
		.routes = routes, .n_routes = ARRAY_SIZE(routes), .guard = access_guard};
	const struct kube_config_source source = {.is_insecure_allowed = true};
	char text[512];
	struct error err;

	assert_ok(loop_new(&w->rig.loop));
	assert_ok(http_server_new(w->rig.loop, &api, &w->api, &err));
	snprintf(text, sizeof(text),
		"{clusters: [{name: a, cluster: {server: 'http://127.0.0.1:%u'}}], "
		"contexts: [{name: a, context: {cluster: a}}], current-context: a}",
		http_server_port(w->api));
	if (kube_config_parse(&(struct kube_config_text){"file", str_from(text)}, 1, &source,
		    &w->config, &err) < 0 ||
		kube_client_new(w->rig.loop, w->config, NULL, &w->client, &err) < 0)
		fail_msg("%s", err.msg);
	assert_ok(access_new(w->client, &w->access, &err));
	options.guard_data = w->access;
	rig_start(&w->rig, &options);
}

static void stop(struct world *w)
{
	access_free(w->access);
	kube_client_free(w->client);
	kube_config_free(w->config);
	http_server_free(w->api);
	rig_stop(&w->rig);
}

static void ask(struct world *w, const char *method, const char *path, const char *token,
	const char *expected)
{
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
	char text[512];
	int fd = rig_dial(&w->rig);

	snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: x\r\n%s%s%s\r\n", method, path,
		token ? "Authorization: " : "", token ? token : "", token ? "\r\n" : "");
	rig_say(fd, text);
	if (!rig_hear(&w->rig, fd, &heard, expected))
		fail_msg("%s: %s", expected, buf_text(&heard));
	close(fd);
}

static void the_api_server_decides(void **state)
{
	struct world w = {0};

	start(&w);
	ask(&w, "GET", "/healthz", NULL, "200 OK");
	ask(&w, "GET", "/metrics", NULL, "401 ");
	ask(&w, "GET", "/metrics", "Bearer ", "401 ");
	ask(&w, "GET", "/metrics", "Basic operator", "401 ");
	assert_int_equal(w.n_tokens, 0);
	ask(&w, "GET", "/metrics", "Bearer nobody", "401 ");
	assert_int_equal(w.n_accesses, 0);
	ask(&w, "GET", "/metrics", "Bearer visitor", "403 ");
	ask(&w, "GET", "/metrics", "Bearer operator", "GET /metrics 0");
	ask(&w, "HEAD", "/metrics", "Bearer operator", "200 OK");
	ask(&w, "GET", "/other", "Bearer operator", "403 ");
	ask(&w, "DELETE", "/metrics", "Bearer operator", "403 ");
	assert_int_equal(w.rig.n_asked, 2);
	stop(&w);
}

/* Answers of each kind are remembered, separately for each token and path. */
static void an_answer_is_remembered(void **state)
{
	struct world w = {0};

	start(&w);
	for (int i = 0; i < 3; i++) {
		ask(&w, "GET", "/metrics", "Bearer operator", "200 OK");
		ask(&w, "GET", "/metrics", "Bearer visitor", "403 ");
		ask(&w, "GET", "/metrics", "Bearer nobody", "401 ");
		ask(&w, "GET", "/metricsx", "Bearer operator", "403 ");
		assert_int_equal(w.n_tokens, 4);
		assert_int_equal(w.n_accesses, 3);
	}
	stop(&w);
}

static void a_route_may_be_checked_as_another(void **state)
{
	struct world w = {0};

	start(&w);
	ask(&w, "POST", "/page", "Bearer visitor", "403 ");
	ask(&w, "POST", "/page", "Bearer operator", "POST /page 0");
	ask(&w, "GET", "/page", "Bearer operator", "403 ");
	/* POST /page was checked as GET /metrics, so that remembered answer is used again. */
	ask(&w, "GET", "/metrics", "Bearer operator", "GET /metrics 0");
	assert_int_equal(w.n_tokens, 3);
	stop(&w);
}

static void a_token_may_be_in_the_cookie(void **state)
{
	static const char *const cookies[][2] = {
		{"Cookie: k=operator", "401 "}, /* cookies are not accepted yet */
		{"Cookie: k=operator", "200 OK"},
		{"Cookie: a=b; k=operator; c=d", "200 OK"},
		{"Cookie: k=visitor", "403 "},
		{"Cookie: k=", "401 "},
		{"Cookie: kk=operator", "401 "},
		/* A token in a header takes precedence over the cookie. */
		{"Cookie: k=operator\r\nAuthorization: Bearer visitor", "403 "},
		{"Cookie: k=operator\r\nAuthorization: Basic x", "401 "},
	};
	struct world w = {0};

	start(&w);
	for (size_t i = 0; i < ARRAY_SIZE(cookies); i++) {
		_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
		char text[256];
		int fd = rig_dial(&w.rig);

		snprintf(text, sizeof(text), "GET /metrics HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n",
			cookies[i][0]);
		rig_say(fd, text);
		if (!rig_hear(&w.rig, fd, &heard, cookies[i][1]))
			fail_msg("%s: %s", cookies[i][0], buf_text(&heard));
		close(fd);
		access_accept_cookie(w.access, "k");
	}
	stop(&w);
}

/* If there are more tokens than the limit, only the oldest answers are forgotten. */
static void the_number_of_remembered_answers_is_limited(void **state)
{
	struct world w = {0};
	char token[32];

	start(&w);
	ask(&w, "GET", "/metrics", "Bearer operator", "200 OK");
	for (unsigned int i = 0; i < ACCESS_ANSWERS_MAX; i++) {
		snprintf(token, sizeof(token), "Bearer visitor-%u", i);
		ask(&w, "GET", "/metrics", token, "403 ");
	}
	ask(&w, "GET", "/metrics", token, "403 ");
	assert_int_equal(w.n_tokens, 1 + ACCESS_ANSWERS_MAX);
	ask(&w, "GET", "/metrics", "Bearer operator", "200 OK");
	assert_int_equal(w.n_tokens, 2 + ACCESS_ANSWERS_MAX);
	stop(&w);
}

/* Invented tokens do not displace the answers for real tokens. */
static void invented_tokens_displace_no_answers(void **state)
{
	struct world w = {0};
	char token[32];

	start(&w);
	ask(&w, "GET", "/metrics", "Bearer operator", "200 OK");
	for (unsigned int i = 0; i < ACCESS_ANSWERS_MAX + 1; i++) {
		snprintf(token, sizeof(token), "Bearer nobody-%u", i);
		ask(&w, "GET", "/metrics", token, "401 ");
	}
	assert_int_equal(w.n_tokens, 2 + ACCESS_ANSWERS_MAX);
	ask(&w, "GET", "/metrics", token, "401 ");
	ask(&w, "GET", "/metrics", "Bearer operator", "200 OK");
	assert_int_equal(w.n_tokens, 2 + ACCESS_ANSWERS_MAX);
	stop(&w);
}

/*
 * After many failures from one address, the server asks the API server nothing more about tokens
 * from that address. Other addresses are not affected.
 */
static void failures_of_an_address_are_limited(void **state)
{
	struct world w = {0};
	_cleanup_buf_ struct buf other = BUF_INIT(1 << 16);
	const char text[] =
		"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer someone\r\n\r\n";
	unsigned int n_asked;
	char token[32];
	int fd;

	start(&w);
	ask(&w, "GET", "/metrics", "Bearer operator", "200 OK");
	/* More failures than expire during the loop. */
	for (unsigned int i = 0; i < 10 * ACCESS_FAILURES_MAX; i++) {
		snprintf(token, sizeof(token), "Bearer nobody-%u", i);
		ask(&w, "GET", "/metrics", token, "HTTP/1.1 4");
	}
	n_asked = w.n_tokens;
	assert_in_range(n_asked, ACCESS_FAILURES_MAX, 9 * ACCESS_FAILURES_MAX);
	fd = rig_dial_from(&w.rig, "127.0.0.2");
	rig_say(fd, text);
	assert_true(rig_hear(&w.rig, fd, &other, "403 "));
	assert_int_equal(w.n_tokens, n_asked + 1);
	close(fd);
	stop(&w);
}

/* While the API server does not answer, only few tokens of one address may wait for its answer. */
static void open_questions_of_an_address_are_limited(void **state)
{
	struct world w = {.is_holding = true};
	int fds[ACCESS_OPEN_MAX];
	char text[256];

	start(&w);
	for (unsigned int i = 0; i < ACCESS_OPEN_MAX; i++) {
		fds[i] = rig_dial(&w.rig);
		snprintf(text, sizeof(text),
			"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a-%u\r\n\r\n",
			i);
		rig_say(fds[i], text);
		while (http_server_counts(w.rig.server).n_requests <= i)
			rig_turn(&w.rig);
	}
	ask(&w, "GET", "/metrics", "Bearer b", "429 ");
	ask(&w, "GET", "/healthz", "Bearer b", "200 OK");
	access_free(w.access);
	w.access = NULL;
	for (unsigned int i = 0; i < ACCESS_OPEN_MAX; i++) {
		_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);

		assert_true(rig_hear(&w.rig, fds[i], &heard, "503 "));
		if (w.all_held[i])
			http_answer(w.all_held[i], 500, NULL, STR_NONE);
		close(fds[i]);
	}
	stop(&w);
}

/* Without an answer no client gets access. */
static void without_the_api_server_no_client_has_access(void **state)
{
	struct world w = {.is_holding = true};
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);
	int fd;

	start(&w);
	fd = rig_dial(&w.rig);
	rig_say(fd, "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer operator\r\n\r\n");
	while (!w.held)
		rig_turn(&w.rig);
	access_free(w.access);
	w.access = NULL;
	assert_true(rig_hear(&w.rig, fd, &heard, "503 "));
	assert_int_equal(w.rig.n_asked, 0);
	http_answer(w.held, 500, NULL, STR_NONE);
	close(fd);
	stop(&w);
}

/* A path below /apis names a resource, as API servers parse it. */
static void a_path_may_name_a_resource(void **state)
{
	static const struct {
		const char *path, *what;
	} rows[] = {
		{"/apis/g.io/v1/namespaces/n/things",
			"{'group':'g.io','version':'v1','namespace':'n','resource':'things',"
			"'name':'','verb':'list'}"},
		{"/apis/g.io/v1/namespaces/n/things/one",
			"{'group':'g.io','version':'v1','namespace':'n','resource':'things',"
			"'name':'one','verb':'get'}"},
		{"/apis/g.io/v1/things/one",
			"{'group':'g.io','version':'v1','namespace':'','resource':'things',"
			"'name':'one','verb':'get'}"},
		{"/apis/g.io/v1", NULL},
		{"/apis/g.io/v1/namespaces/n", NULL},
		{"/apis//v1/things", NULL},
		{"/api/v1/things", NULL},
	};
	struct world w = {0};

	start(&w);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ask(&w, "GET", rows[i].path, "Bearer somebody",
			rows[i].what ? "HTTP/1.1 200" : "HTTP/1.1 403");
		assert_int_equal(!w.what, !rows[i].what);
		if (w.what) {
			_cleanup_json_ json_t *want = unit_json(rows[i].what),
					      *got = unit_json(w.what);

			assert_true(json_equal(want, got));
		}
		free(w.what);
		w.what = NULL;
	}
	stop(&w);
}

UNIT_MAIN(UNIT(a_path_may_name_a_resource), UNIT(the_api_server_decides),
	UNIT(an_answer_is_remembered), UNIT(a_route_may_be_checked_as_another),
	UNIT(a_token_may_be_in_the_cookie), UNIT(the_number_of_remembered_answers_is_limited),
	UNIT(invented_tokens_displace_no_answers), UNIT(failures_of_an_address_are_limited),
	UNIT(open_questions_of_an_address_are_limited),
	UNIT(without_the_api_server_no_client_has_access))
