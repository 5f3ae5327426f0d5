/* SPDX-License-Identifier: Apache-2.0 */
/* The behaviour of a server that differs on encrypted connections. */
#include "tls-peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "http/issue.h"
#include "http/http-stream.h"
#include "http/http-tls.h"

static struct http_stream *stream;
static int gone;

static void on_closed(void *data, int why)
{
	gone = why;
}

static void on_watch(void *data, struct http_request *request)
{
	stream = http_stream_open(request, "text/event-stream", 1 << 16, on_closed, NULL);
}

static const struct http_route routes[] = {
	{"GET", "/watch", on_watch},
	{"GET", "*", rig_answer},
};
static const struct http_options options = {
	.is_tls = true, .routes = routes, .n_routes = ARRAY_SIZE(routes)};

/*
 * Before the server has a certificate, no client can connect. Open connections keep their
 * certificate.
 */
static void a_certificate_is_shown(void **state)
{
	char *crt[2], *key[2];
	struct rig rig = {0};
	struct tls_peer peer, second;
	struct error err;

	rig_start(&rig, &options);
	for (int i = 0; i < 2; i++)
		tls_issue(&crt[i], &key[i]);
	assert_true(tls_meet(&rig, &peer, crt[0]) < 0);
	tls_part(&peer);
	assert_int_equal(http_server_set_certificate(rig.server, crt[0], key[1], &err), -EINVAL);
	assert_contains(err.msg, "the key belongs to another");
	assert_ok(http_server_set_certificate(rig.server, crt[0], key[0], &err));
	assert_ok(tls_meet(&rig, &peer, crt[0]));
	assert_ok(http_server_set_certificate(rig.server, crt[1], key[1], &err));
	tls_say(&peer, GET);
	tls_hear(&rig, &peer, "GET /a 0 y");
	assert_int_equal(tls_meet(&rig, &second, crt[0]), GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR);
	tls_part(&second);
	assert_ok(tls_meet(&rig, &second, crt[1]));
	tls_part(&second);
	tls_part(&peer);
	rig_stop(&rig);
	for (int i = 0; i < 2; i++) {
		free(crt[i]);
		free(key[i]);
	}
}

static void the_certificate_may_be_in_files(void **state)
{
	char folder[] = "/tmp/divvy-test-tls-XXXXXX";
	_cleanup_free_ char *crt = NULL, *key = NULL;
	struct rig rig = {0};
	struct tls_peer peer;
	struct error err;

	assert_non_null(mkdtemp(folder));
	assert_ok(chdir(folder));
	tls_issue(&crt, &key);
	rig_start(&rig, &options);
	assert_int_equal(http_server_read(rig.server, "crt", "key", &err), -ENOENT);
	assert_contains(err.msg, "crt");
	assert_ok(file_replace("crt", str_from(crt), 0600, &err));
	assert_ok(file_replace("key", STR("nonsense"), 0600, &err));
	assert_int_equal(http_server_read(rig.server, "crt", "key", &err), -EINVAL);
	assert_contains(err.msg, "key");
	assert_ok(file_replace("key", str_from(key), 0600, &err));
	assert_ok(http_server_read(rig.server, "crt", "key", &err));
	assert_ok(tls_meet(&rig, &peer, crt));
	tls_part(&peer);
	rig_stop(&rig);
	unlink("crt");
	unlink("key");
	assert_ok(chdir("/"));
	assert_ok(rmdir(folder));
}

static void streams_are_encrypted_too(void **state)
{
	_cleanup_free_ char *crt = NULL, *key = NULL;
	struct rig rig = {0};
	struct tls_peer peer;

	gone = 0;
	tls_issue(&crt, &key);
	rig_start(&rig, &options);
	assert_ok(http_server_set_certificate(rig.server, crt, key, NULL));
	assert_ok(tls_meet(&rig, &peer, crt));
	tls_say(&peer, "GET /watch HTTP/1.1\r\nHost: x\r\n\r\n");
	tls_hear(&rig, &peer, "\r\n\r\n");
	for (int i = 0; i < 3; i++) {
		assert_ok(http_stream_push_event(stream, NULL, STR("news")));
		tls_hear(&rig, &peer, "data: news\n\n");
	}
	/* A browser sends a TLS close notification, then closes the connection. */
	gnutls_bye(peer.session, GNUTLS_SHUT_WR);
	tls_part(&peer);
	while (!gone)
		assert_true(loop_run_once(rig.loop, CLOCK_NEVER) >= 0);
	assert_int_equal(gone, -ECONNRESET);
	rig_stop(&rig);
}

/* ---- peers that show certificates ---- */

static const struct http_route locked[] = {
	{"POST", "/locked", rig_answer, .is_certified = true, .max_body = 2 * BODY_MAX},
	{"GET", "*", rig_answer},
};

#define ASK "POST /locked HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"

/* Checks the answer to a client with this certificate, on a connection of its own. */
static void shows(
	struct rig *rig, const char *server, const char *crt, const char *key, const char *answer)
{
	struct tls_peer peer;

	tls_own_crt = crt;
	tls_own_key = key;
	assert_ok(tls_meet(rig, &peer, server));
	tls_say(&peer, ASK);
	tls_hear(rig, &peer, answer);
	tls_part(&peer);
	/* Any client may use the unguarded route. */
	assert_ok(tls_meet(rig, &peer, server));
	tls_say(&peer, GET);
	tls_hear(rig, &peer, "GET /a 0 y");
	tls_part(&peer);
	tls_own_crt = tls_own_key = NULL;
}

static void some_routes_need_a_client_certificate(void **state)
{
	static const char no[] = "HTTP/1.1 403";
	struct tls_authority ours = tls_make_authority(), other = tls_make_authority();
	struct http_options mine = {
		.is_tls = true, .routes = locked, .n_routes = ARRAY_SIZE(locked)};
	_cleanup_free_ char *crt = NULL, *key = NULL;
	struct error err;

	tls_issue(&crt, &key);
	assert_int_equal(http_tls_check_authorities("nonsense", &err), -EINVAL);
	assert_int_equal(http_tls_check_authorities("", &err), -EINVAL);
	assert_ok(http_tls_check_authorities(ours.crt, &err));
	for (int has_ca = 0; has_ca < 2; has_ca++) {
		const struct {
			const struct tls_authority *by;
			const char *purpose;
			int seconds;
			bool is_right;
		} rows[] = {
			{&ours, GNUTLS_KP_TLS_WWW_CLIENT, 3600, true},
			{&ours, GNUTLS_KP_TLS_WWW_CLIENT, -60, false},
			{&ours, GNUTLS_KP_TLS_WWW_SERVER, 3600, false},
			{&other, GNUTLS_KP_TLS_WWW_CLIENT, 3600, false},
		};
		struct rig rig = {0};

		mine.client_ca = has_ca ? ours.crt : NULL;
		rig_start(&rig, &mine);
		assert_ok(http_server_set_certificate(rig.server, crt, key, NULL));
		shows(&rig, crt, NULL, NULL, no);
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			_cleanup_free_ char *its_crt = NULL, *its_key = NULL;

			tls_certify(
				rows[i].by, rows[i].purpose, rows[i].seconds, &its_crt, &its_key);
			shows(&rig, crt, its_crt, its_key,
				has_ca && rows[i].is_right ? "POST /locked 2 -" : no);
		}
		rig_stop(&rig);
	}
	tls_authority_done(&ours);
	tls_authority_done(&other);
}

static void on_peer(void *data, struct http_request *request)
{
	const char *peer = http_peer(request);

	http_answer(request, 200, "text/plain",
		peer ? str_from(peer) : STR("somebody whom nobody vouches for"));
}

static const struct http_route who[] = {{"GET", "*", on_peer}};

static void is_seen_as(struct tls_peer *peer, struct rig *rig, const char *name)
{
	tls_say(peer, GET);
	tls_hear(rig, peer, name);
}

/*
 * The server gets its client authorities later, then others. A connection that was already checked
 * stays admitted.
 */
static void client_authorities_may_change(void **state)
{
	static const char nobody[] = "whom nobody vouches for";
	struct tls_authority ours = tls_make_authority(), other = tls_make_authority();
	const struct http_options mine = {.is_tls = true,
		.asks_certificate = true,
		.routes = who,
		.n_routes = ARRAY_SIZE(who)};
	_cleanup_free_ char *crt = NULL, *key = NULL, *its_crt = NULL, *its_key = NULL;
	struct tls_peer early, late;
	struct rig rig = {0};
	struct error err;

	tls_issue(&crt, &key);
	tls_certify(&ours, GNUTLS_KP_TLS_WWW_CLIENT, 3600, &its_crt, &its_key);
	rig_start(&rig, &mine);
	assert_ok(http_server_set_certificate(rig.server, crt, key, NULL));
	tls_own_crt = its_crt;
	tls_own_key = its_key;
	assert_ok(tls_meet(&rig, &early, crt));
	is_seen_as(&early, &rig, nobody);
	assert_int_equal(http_server_set_client_ca(rig.server, "nonsense", &err), -EINVAL);
	assert_contains(err.msg, "authorities");
	is_seen_as(&early, &rig, nobody);
	assert_ok(http_server_set_client_ca(rig.server, ours.crt, &err));
	is_seen_as(&early, &rig, "\r\n\r\nme");
	assert_ok(http_server_set_client_ca(rig.server, other.crt, &err));
	is_seen_as(&early, &rig, "\r\n\r\nme");
	assert_ok(tls_meet(&rig, &late, crt));
	is_seen_as(&late, &rig, nobody);
	tls_part(&early);
	tls_part(&late);
	tls_own_crt = tls_own_key = NULL;
	assert_ok(tls_meet(&rig, &late, crt));
	is_seen_as(&late, &rig, nobody);
	tls_part(&late);
	rig_stop(&rig);
	tls_authority_done(&ours);
	tls_authority_done(&other);
}

/*
 * A route has its own limit of the body; a client without a certificate gets 403 before the body.
 */
static void each_route_has_its_own_limit(void **state)
{
	struct tls_authority ca = tls_make_authority();
	const struct http_options mine = {.is_tls = true,
		.client_ca = ca.crt,
		.routes = locked,
		.n_routes = ARRAY_SIZE(locked)};
	_cleanup_free_ char *crt = NULL, *key = NULL, *its_crt = NULL, *its_key = NULL;
	char text[256], body[2 * BODY_MAX + 1];
	struct rig rig = {0};
	struct tls_peer peer;

	tls_issue(&crt, &key);
	rig_start(&rig, &mine);
	assert_ok(http_server_set_certificate(rig.server, crt, key, NULL));
	snprintf(text, sizeof(text),
		"POST /locked HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\n\r\n", 2 * BODY_MAX);
	assert_ok(tls_meet(&rig, &peer, crt));
	tls_say(&peer, text);
	tls_hear(&rig, &peer, "HTTP/1.1 403");
	tls_part(&peer);
	tls_certify(&ca, GNUTLS_KP_TLS_WWW_CLIENT, 3600, &its_crt, &its_key);
	tls_own_crt = its_crt;
	tls_own_key = its_key;
	assert_ok(tls_meet(&rig, &peer, crt));
	tls_say(&peer, text);
	memset(body, 'x', 2 * BODY_MAX);
	body[2 * BODY_MAX] = '\0';
	tls_say(&peer, body);
	tls_hear(&rig, &peer, "POST /locked 8192");
	snprintf(text, sizeof(text),
		"POST /locked HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\n\r\n", 2 * BODY_MAX + 1);
	tls_say(&peer, text);
	tls_hear(&rig, &peer, "HTTP/1.1 413");
	tls_part(&peer);
	tls_own_crt = tls_own_key = NULL;
	rig_stop(&rig);
	tls_authority_done(&ca);
}

/* The server refuses TLS 1.0 and 1.1, as RFC 8996 requires. */
static void old_versions_are_refused(void **state)
{
	static const struct {
		const char *priority;
		bool is_spoken;
	} rows[] = {
		{"NORMAL:-VERS-ALL:+VERS-TLS1.0", false},
		{"NORMAL:-VERS-ALL:+VERS-TLS1.1", false},
		{"NORMAL:-VERS-ALL:+VERS-TLS1.2", true},
		{"NORMAL:-VERS-ALL:+VERS-TLS1.3", true},
	};
	char *crt, *key;
	struct rig rig = {0};
	struct tls_peer peer;
	struct error err;

	rig_start(&rig, &options);
	tls_issue(&crt, &key);
	assert_ok(http_server_set_certificate(rig.server, crt, key, &err));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		tls_priority = rows[i].priority;
		assert_int_equal(tls_meet(&rig, &peer, crt) >= 0, rows[i].is_spoken);
		tls_part(&peer);
	}
	tls_priority = NULL;
	rig_stop(&rig);
	free(crt);
	free(key);
}

UNIT_MAIN(UNIT(old_versions_are_refused), UNIT(some_routes_need_a_client_certificate),
	UNIT(each_route_has_its_own_limit), UNIT(client_authorities_may_change),
	UNIT(a_certificate_is_shown), UNIT(the_certificate_may_be_in_files),
	UNIT(streams_are_encrypted_too))
