/* SPDX-License-Identifier: Apache-2.0 */
/* What differs where the connection is encrypted. */
#include "rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <gnutls/gnutls.h>

#include "base/fd.h"
#include "http/issue.h"
#include "http/stream.h"
#include "http/tls.h"

#define HOST "a.test"

struct peer {
	gnutls_session_t session;
	gnutls_certificate_credentials_t trust;
	int fd;
};

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

/* What it shows, whatever authorities the server names; NULL: nothing. */
static const char *own_crt, *own_key;

static gnutls_datum_t datum(const char *text)
{
	return (gnutls_datum_t){(unsigned char *)(uintptr_t)text, (unsigned)strlen(text)};
}

/* 0, or the handshake's failure. */
static int meet(struct rig *rig, struct peer *peer, const char *ca_pem)
{
	const gnutls_datum_t ca = datum(ca_pem);
	int r;

	peer->fd = rig_dial(rig);
	assert_ok(gnutls_certificate_allocate_credentials(&peer->trust));
	assert_int_equal(
		gnutls_certificate_set_x509_trust_mem(peer->trust, &ca, GNUTLS_X509_FMT_PEM), 1);
	if (own_crt) {
		const gnutls_datum_t crt = datum(own_crt), key = datum(own_key);

		assert_ok(gnutls_certificate_set_x509_key_mem(
			peer->trust, &crt, &key, GNUTLS_X509_FMT_PEM));
	}
	assert_ok(gnutls_init(
		&peer->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_FORCE_CLIENT_CERT));
	assert_ok(gnutls_set_default_priority(peer->session));
	assert_ok(gnutls_credentials_set(peer->session, GNUTLS_CRD_CERTIFICATE, peer->trust));
	assert_ok(gnutls_server_name_set(peer->session, GNUTLS_NAME_DNS, HOST, strlen(HOST)));
	gnutls_session_set_verify_cert(peer->session, HOST, 0);
	gnutls_transport_set_int(peer->session, peer->fd);
	while ((r = gnutls_handshake(peer->session)) == GNUTLS_E_AGAIN)
		rig_turn(rig);
	return r;
}

static void part(struct peer *peer)
{
	gnutls_deinit(peer->session);
	gnutls_certificate_free_credentials(peer->trust);
	close(peer->fd);
}

static void say(struct peer *peer, const char *text)
{
	assert_int_equal(gnutls_record_send(peer->session, text, strlen(text)), strlen(text));
}

static void hear(struct rig *rig, struct peer *peer, const char *part_of_it)
{
	_cleanup_buf_ struct buf heard = BUF_INIT(1 << 16);

	while (!strstr(buf_text(&heard), part_of_it)) {
		char text[4096];
		ssize_t n = gnutls_record_recv(peer->session, text, sizeof(text));

		if (n > 0)
			assert_ok(buf_add(&heard, (struct str){text, (size_t)n}));
		else if (n == GNUTLS_E_AGAIN)
			rig_turn(rig);
		else
			fail_msg("%s: %s", gnutls_strerror((int)n), buf_text(&heard));
	}
}

static void issue(char **ret_crt, char **ret_key)
{
	const uint64_t now = clock_real_ns();
	const struct http_issue wish = {.name = "a",
		.host = HOST,
		.from_ns = now - NSEC_PER_SEC,
		.to_ns = now + 3600 * NSEC_PER_SEC};

	assert_ok(http_issue(&wish, ret_crt, ret_key, NULL));
}

/* Nobody gets in before there is one; connections keep what they were shown. */
static void a_certificate_is_shown(void **state)
{
	char *crt[2], *key[2];
	struct rig rig = {0};
	struct peer peer, second;
	struct error err;

	rig_start(&rig, &options);
	for (int i = 0; i < 2; i++)
		issue(&crt[i], &key[i]);
	assert_true(meet(&rig, &peer, crt[0]) < 0);
	part(&peer);
	assert_int_equal(http_server_set_certificate(rig.server, crt[0], key[1], &err), -EINVAL);
	assert_contains(err.msg, "the key is that of another");
	assert_ok(http_server_set_certificate(rig.server, crt[0], key[0], &err));
	assert_ok(meet(&rig, &peer, crt[0]));
	assert_ok(http_server_set_certificate(rig.server, crt[1], key[1], &err));
	say(&peer, GET);
	hear(&rig, &peer, "GET /a 0 y");
	assert_int_equal(meet(&rig, &second, crt[0]), GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR);
	part(&second);
	assert_ok(meet(&rig, &second, crt[1]));
	part(&second);
	part(&peer);
	rig_stop(&rig);
	for (int i = 0; i < 2; i++) {
		free(crt[i]);
		free(key[i]);
	}
}

static void it_may_be_in_files(void **state)
{
	char folder[] = "/tmp/divvy-test-tls-XXXXXX";
	_cleanup_free_ char *crt = NULL, *key = NULL;
	struct rig rig = {0};
	struct peer peer;
	struct error err;

	assert_non_null(mkdtemp(folder));
	assert_ok(chdir(folder));
	issue(&crt, &key);
	rig_start(&rig, &options);
	assert_int_equal(http_server_read(rig.server, "crt", "key", &err), -ENOENT);
	assert_contains(err.msg, "crt");
	assert_ok(file_replace("crt", str_from(crt), 0600, &err));
	assert_ok(file_replace("key", STR("nonsense"), 0600, &err));
	assert_int_equal(http_server_read(rig.server, "crt", "key", &err), -EINVAL);
	assert_contains(err.msg, "key");
	assert_ok(file_replace("key", str_from(key), 0600, &err));
	assert_ok(http_server_read(rig.server, "crt", "key", &err));
	assert_ok(meet(&rig, &peer, crt));
	part(&peer);
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
	struct peer peer;

	gone = 0;
	issue(&crt, &key);
	rig_start(&rig, &options);
	assert_ok(http_server_set_certificate(rig.server, crt, key, NULL));
	assert_ok(meet(&rig, &peer, crt));
	say(&peer, "GET /watch HTTP/1.1\r\nHost: x\r\n\r\n");
	hear(&rig, &peer, "\r\n\r\n");
	for (int i = 0; i < 3; i++) {
		assert_ok(http_stream_push_event(stream, NULL, STR("news")));
		hear(&rig, &peer, "data: news\n\n");
	}
	/* As a browser does: it says so, and closes. */
	gnutls_bye(peer.session, GNUTLS_SHUT_WR);
	part(&peer);
	while (!gone)
		assert_true(loop_run_once(rig.loop, CLOCK_NEVER) >= 0);
	assert_int_equal(gone, -ECONNRESET);
	rig_stop(&rig);
}

/* ---- peers that show certificates ---- */

struct authority {
	char *crt, *key;
};

static struct authority make_authority(void)
{
	const uint64_t now = clock_real_ns();
	const struct http_issue wish = {
		.name = "ca", .from_ns = now - NSEC_PER_SEC, .to_ns = now + 3600 * NSEC_PER_SEC};
	struct authority ca;

	assert_ok(http_issue(&wish, &ca.crt, &ca.key, NULL));
	return ca;
}

static void authority_done(struct authority *ca)
{
	free(ca->crt);
	free(ca->key);
}

static char *pem_of(gnutls_datum_t *text)
{
	char *copy = str_dup((struct str){(const char *)text->data, text->size});

	gnutls_free(text->data);
	return copy;
}

/* For that purpose, good from now on by that many seconds. */
static void certify(const struct authority *ca, const char *purpose, int seconds, char **ret_crt,
	char **ret_key)
{
	const gnutls_datum_t ca_crt = datum(ca->crt), ca_key = datum(ca->key);
	gnutls_x509_crt_t crt, issuer;
	gnutls_x509_privkey_t key, issuer_key;
	gnutls_datum_t text;

	assert_ok(gnutls_x509_crt_init(&issuer));
	assert_ok(gnutls_x509_crt_import(issuer, &ca_crt, GNUTLS_X509_FMT_PEM));
	assert_ok(gnutls_x509_privkey_init(&issuer_key));
	assert_ok(gnutls_x509_privkey_import(issuer_key, &ca_key, GNUTLS_X509_FMT_PEM));
	assert_ok(gnutls_x509_privkey_init(&key));
	assert_ok(gnutls_x509_privkey_generate(
		key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
	assert_ok(gnutls_x509_crt_init(&crt));
	assert_ok(gnutls_x509_crt_set_version(crt, 3));
	assert_ok(gnutls_x509_crt_set_serial(crt, "\1", 1));
	assert_ok(gnutls_x509_crt_set_activation_time(crt, time(NULL) - 3600));
	assert_ok(gnutls_x509_crt_set_expiration_time(crt, time(NULL) + seconds));
	assert_ok(gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, "me", 2));
	assert_ok(gnutls_x509_crt_set_key(crt, key));
	assert_ok(gnutls_x509_crt_set_key_purpose_oid(crt, purpose, 0));
	assert_ok(gnutls_x509_crt_sign2(crt, issuer, issuer_key, GNUTLS_DIG_SHA256, 0));
	assert_ok(gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &text));
	*ret_crt = pem_of(&text);
	assert_ok(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &text));
	*ret_key = pem_of(&text);
	gnutls_x509_crt_deinit(crt);
	gnutls_x509_crt_deinit(issuer);
	gnutls_x509_privkey_deinit(key);
	gnutls_x509_privkey_deinit(issuer_key);
}

static const struct http_route locked[] = {
	{"POST", "/locked", rig_answer, .is_certified = true, .max_body = 2 * BODY_MAX},
	{"GET", "*", rig_answer},
};

#define ASK "POST /locked HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"

/* What somebody who shows that is answered, on a connection of his own. */
static void shows(
	struct rig *rig, const char *server, const char *crt, const char *key, const char *answer)
{
	struct peer peer;

	own_crt = crt;
	own_key = key;
	assert_ok(meet(rig, &peer, server));
	say(&peer, ASK);
	hear(rig, &peer, answer);
	part(&peer);
	/* What is not locked is for all. */
	assert_ok(meet(rig, &peer, server));
	say(&peer, GET);
	hear(rig, &peer, "GET /a 0 y");
	part(&peer);
	own_crt = own_key = NULL;
}

static void some_is_for_those_with_a_certificate(void **state)
{
	static const char no[] = "HTTP/1.1 403";
	struct authority ours = make_authority(), other = make_authority();
	struct http_options mine = {
		.is_tls = true, .routes = locked, .n_routes = ARRAY_SIZE(locked)};
	_cleanup_free_ char *crt = NULL, *key = NULL;
	struct error err;

	issue(&crt, &key);
	assert_int_equal(http_tls_check_authorities("nonsense", &err), -EINVAL);
	assert_int_equal(http_tls_check_authorities("", &err), -EINVAL);
	assert_ok(http_tls_check_authorities(ours.crt, &err));
	for (int has_ca = 0; has_ca < 2; has_ca++) {
		const struct {
			const struct authority *by;
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

			certify(rows[i].by, rows[i].purpose, rows[i].seconds, &its_crt, &its_key);
			shows(&rig, crt, its_crt, its_key,
				has_ca && rows[i].is_right ? "POST /locked 2 -" : no);
		}
		rig_stop(&rig);
	}
	authority_done(&ours);
	authority_done(&other);
}

/* A route's own limit; who has no certificate does not get as far as to send it. */
static void limits_are_a_routes_own(void **state)
{
	struct authority ca = make_authority();
	const struct http_options mine = {.is_tls = true,
		.client_ca = ca.crt,
		.routes = locked,
		.n_routes = ARRAY_SIZE(locked)};
	_cleanup_free_ char *crt = NULL, *key = NULL, *its_crt = NULL, *its_key = NULL;
	char text[256], body[2 * BODY_MAX + 1];
	struct rig rig = {0};
	struct peer peer;

	issue(&crt, &key);
	rig_start(&rig, &mine);
	assert_ok(http_server_set_certificate(rig.server, crt, key, NULL));
	snprintf(text, sizeof(text),
		"POST /locked HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\n\r\n", 2 * BODY_MAX);
	assert_ok(meet(&rig, &peer, crt));
	say(&peer, text);
	hear(&rig, &peer, "HTTP/1.1 403");
	part(&peer);
	certify(&ca, GNUTLS_KP_TLS_WWW_CLIENT, 3600, &its_crt, &its_key);
	own_crt = its_crt;
	own_key = its_key;
	assert_ok(meet(&rig, &peer, crt));
	say(&peer, text);
	memset(body, 'x', 2 * BODY_MAX);
	body[2 * BODY_MAX] = '\0';
	say(&peer, body);
	hear(&rig, &peer, "POST /locked 8192");
	snprintf(text, sizeof(text),
		"POST /locked HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\n\r\n", 2 * BODY_MAX + 1);
	say(&peer, text);
	hear(&rig, &peer, "HTTP/1.1 413");
	part(&peer);
	own_crt = own_key = NULL;
	rig_stop(&rig);
	authority_done(&ca);
}

UNIT_MAIN(UNIT(some_is_for_those_with_a_certificate), UNIT(limits_are_a_routes_own),
	UNIT(a_certificate_is_shown), UNIT(it_may_be_in_files), UNIT(streams_are_encrypted_too))
