/* SPDX-License-Identifier: Apache-2.0 */
#include "tls-peer.h"
#include "unit-json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "access/front.h"

/* Answers with the user that front_user() finds for the request. */
static void on_ask(void *data, struct http_request *request)
{
	struct front **front = data;
	_cleanup_json_ json_t *user = front_user(*front, request);
	_cleanup_free_ char *text = user ? kube_json_format(user) : NULL;

	http_answer(request, 200, "text/plain", text ? str_from(text) : STR("nobody"));
}

static const struct http_route routes[] = {{"GET", "*", on_ask}};

struct world {
	struct rig rig;
	struct tls_authority ca;
	struct front *front;
	char *crt, *key, *its_crt, *its_key;
};

static struct front *front_of(const char *pem, const char *names)
{
	_cleanup_json_ json_t *map = json_pack("{s:{s:s, s:s, s:s, s:s, s:s}}", "data",
		"requestheader-client-ca-file", pem, "requestheader-allowed-names", names,
		"requestheader-username-headers", "[\"X-Remote-User\",\"X-User\"]",
		"requestheader-group-headers", "[\"X-Remote-Group\"]",
		"requestheader-extra-headers-prefix", "[\"X-Remote-Extra-\"]");
	struct front *front = NULL;
	struct error err;

	if (front_new(map, &front, &err) < 0)
		fail_msg("%s", err.msg);
	return front;
}

static void start(struct world *w, const char *names)
{
	const struct http_options options = {.is_tls = true,
		.asks_certificate = true,
		.routes = routes,
		.n_routes = ARRAY_SIZE(routes),
		.data = &w->front};

	w->ca = tls_make_authority();
	w->front = front_of(w->ca.crt, names);
	tls_issue(&w->crt, &w->key);
	tls_certify(&w->ca, GNUTLS_KP_TLS_WWW_CLIENT, 3600, &w->its_crt, &w->its_key);
	rig_start(&w->rig, &options);
	assert_ok(http_server_set_certificate(w->rig.server, w->crt, w->key, NULL));
	assert_ok(http_server_set_client_ca(w->rig.server, front_authorities(w->front), NULL));
}

static void stop(struct world *w)
{
	rig_stop(&w->rig);
	front_free(w->front);
	tls_authority_done(&w->ca);
	free(w->crt);
	free(w->key);
	free(w->its_crt);
	free(w->its_key);
}

static void ask(struct world *w, bool shows, const char *headers, const char *answer)
{
	struct tls_peer peer;
	char text[1024];

	tls_own_crt = shows ? w->its_crt : NULL;
	tls_own_key = shows ? w->its_key : NULL;
	snprintf(text, sizeof(text), "GET /a HTTP/1.1\r\nHost: x\r\n%s\r\n", headers);
	assert_ok(tls_meet(&w->rig, &peer, w->crt));
	tls_say(&peer, text);
	tls_hear(&w->rig, &peer, answer);
	tls_part(&peer);
	tls_own_crt = tls_own_key = NULL;
}

static void the_front_names_the_user(void **state)
{
	struct world w = {0};

	start(&w, "[\"other\",\"me\"]");
	ask(&w, true, "X-Remote-User: ann\r\n", "{\"user\":\"ann\",\"groups\":[],\"extra\":{}}");
	ask(&w, true,
		"x-user: ann\r\nX-Remote-Group: a\r\nx-remote-group: b\r\n"
		"X-Remote-Extra-Team: one\r\nX-Remote-Extra-Team: two\r\n"
		"X-Remote-Extra-Kubernetes.io%2fPod-name: p\r\nX-Remote-Extra-: none\r\n",
		"{\"user\":\"ann\",\"groups\":[\"a\",\"b\"],\"extra\":{\"team\":[\"one\",\"two\"],"
		"\"kubernetes.io/pod-name\":[\"p\"]}}");
	ask(&w, true, "X-Remote-User: \r\n", "\r\n\r\nnobody");
	ask(&w, true, "X-Remote-Group: system:masters\r\n", "\r\n\r\nnobody");
	stop(&w);
}

/* Headers of other clients are ignored, whatever they say. */
static void headers_of_other_clients_are_ignored(void **state)
{
	static const char lie[] = "X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n";
	struct world w = {0};
	struct front *right;

	start(&w, "[\"other\"]");
	ask(&w, false, lie, "\r\n\r\nnobody");
	ask(&w, true, lie, "\r\n\r\nnobody"); /* a certificate whose name is not in the list */
	right = w.front;
	w.front = front_of(w.ca.crt, "[]");
	ask(&w, true, lie, "system:masters"); /* an empty list: any name that the authority signs */
	ask(&w, false, lie, "\r\n\r\nnobody");
	front_free(w.front);
	w.front = right;
	stop(&w);
}

static void unreadable_keys_are_named(void **state)
{
	static const struct {
		const char *map, *says;
		int r;
	} rows[] = {
		{"{}", "no requestheader-client-ca-file", -ENOENT},
		{"{'data':{'requestheader-client-ca-file':''}}",
			"enable the API server's aggregation layer", -ENOENT},
		{"{'data':{'requestheader-client-ca-file':'x','requestheader-allowed-names':'me'}}",
			"requestheader-allowed-names", -EINVAL},
		{"{'data':{'requestheader-client-ca-file':'x','requestheader-group-headers':'{}'}}",
			"requestheader-group-headers: expected a list", -EINVAL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_json_ json_t *map = unit_json(rows[i].map);
		struct front *front = NULL;
		struct error err;

		assert_int_equal(front_new(map, &front, &err), rows[i].r);
		assert_contains(err.msg, rows[i].says);
		assert_null(front);
	}
}

UNIT_MAIN(UNIT(the_front_names_the_user), UNIT(headers_of_other_clients_are_ignored),
	UNIT(unreadable_keys_are_named))
