/* SPDX-License-Identifier: Apache-2.0 */
#include "tls-peer.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <gnutls/x509.h>

#include "http/issue.h"

#define HOST "a.test"

const char *tls_own_crt, *tls_own_key, *tls_priority;

static gnutls_datum_t datum(const char *text)
{
	return (gnutls_datum_t){(unsigned char *)(uintptr_t)text, (unsigned)strlen(text)};
}

int tls_meet(struct rig *rig, struct tls_peer *peer, const char *ca_pem)
{
	const gnutls_datum_t ca = datum(ca_pem);
	int r;

	peer->fd = rig_dial(rig);
	assert_ok(gnutls_certificate_allocate_credentials(&peer->trust));
	assert_int_equal(
		gnutls_certificate_set_x509_trust_mem(peer->trust, &ca, GNUTLS_X509_FMT_PEM), 1);
	if (tls_own_crt) {
		const gnutls_datum_t crt = datum(tls_own_crt), key = datum(tls_own_key);

		assert_ok(gnutls_certificate_set_x509_key_mem(
			peer->trust, &crt, &key, GNUTLS_X509_FMT_PEM));
	}
	assert_ok(gnutls_init(
		&peer->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_FORCE_CLIENT_CERT));
	assert_ok(gnutls_priority_set_direct(
		peer->session, tls_priority ? tls_priority : "NORMAL", NULL));
	assert_ok(gnutls_credentials_set(peer->session, GNUTLS_CRD_CERTIFICATE, peer->trust));
	assert_ok(gnutls_server_name_set(peer->session, GNUTLS_NAME_DNS, HOST, strlen(HOST)));
	gnutls_session_set_verify_cert(peer->session, HOST, 0);
	gnutls_transport_set_int(peer->session, peer->fd);
	while ((r = gnutls_handshake(peer->session)) == GNUTLS_E_AGAIN)
		rig_turn(rig);
	return r;
}

void tls_part(struct tls_peer *peer)
{
	gnutls_deinit(peer->session);
	gnutls_certificate_free_credentials(peer->trust);
	close(peer->fd);
}

void tls_say(struct tls_peer *peer, const char *text)
{
	assert_int_equal(gnutls_record_send(peer->session, text, strlen(text)), strlen(text));
}

void tls_hear(struct rig *rig, struct tls_peer *peer, const char *part_of_it)
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

void tls_issue(char **ret_crt, char **ret_key)
{
	const uint64_t now = clock_real_ns();
	const struct http_issue wish = {.name = "a",
		.host = HOST,
		.from_ns = now - NSEC_PER_SEC,
		.to_ns = now + 3600 * NSEC_PER_SEC};

	assert_ok(http_issue(&wish, ret_crt, ret_key, NULL));
}

struct tls_authority tls_make_authority(void)
{
	const uint64_t now = clock_real_ns();
	const struct http_issue wish = {
		.name = "ca", .from_ns = now - NSEC_PER_SEC, .to_ns = now + 3600 * NSEC_PER_SEC};
	struct tls_authority ca;

	assert_ok(http_issue(&wish, &ca.crt, &ca.key, NULL));
	return ca;
}

void tls_authority_done(struct tls_authority *ca)
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

void tls_certify(const struct tls_authority *ca, const char *purpose, int seconds, char **ret_crt,
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
