/* SPDX-License-Identifier: Apache-2.0 */
/* What differs where the connection is encrypted. */
#include "rig.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <gnutls/gnutls.h>

#include "base/fd.h"
#include "http/issue.h"
#include "http/stream.h"

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

/* 0, or the handshake's failure. */
static int meet(struct rig *rig, struct peer *peer, const char *ca_pem)
{
	const gnutls_datum_t ca = {(unsigned char *)(uintptr_t)ca_pem, (unsigned)strlen(ca_pem)};
	int r;

	peer->fd = rig_dial(rig);
	assert_ok(gnutls_certificate_allocate_credentials(&peer->trust));
	assert_int_equal(
		gnutls_certificate_set_x509_trust_mem(peer->trust, &ca, GNUTLS_X509_FMT_PEM), 1);
	assert_ok(gnutls_init(&peer->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK));
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

UNIT_MAIN(UNIT(a_certificate_is_shown), UNIT(it_may_be_in_files), UNIT(streams_are_encrypted_too))
