/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file reads certificates, keys and authorities from PEM, and checks the certificate of a
 * client. A server holds one reference to its struct http_tls, and each connection takes one in its
 * handshake. A new certificate of the server therefore does not disturb open connections. The
 * number of references is a plain integer, so all users of one struct run on one thread.
 * http_tls_new() compares the key IDs of certificate and key, so a mismatch fails before the first
 * handshake.
 */
#include "http/http-tls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/x509.h>

static gnutls_datum_t http_tls_datum(const char *text)
{
	return (gnutls_datum_t){(unsigned char *)text, (unsigned int)strlen(text)};
}

int http_tls_read_authorities(
	const char *pem, gnutls_x509_trust_list_t *ret_list, struct error *err)
{
	const gnutls_datum_t text = http_tls_datum(pem);
	gnutls_x509_trust_list_t list;
	gnutls_x509_crt_t *crt = NULL;
	unsigned int n = 0;
	int r = gnutls_x509_crt_list_import2(&crt, &n, &text, GNUTLS_X509_FMT_PEM, 0);

	if (r < 0)
		return fail(err, EINVAL, "certificates of authorities: %s", gnutls_strerror(r));
	r = gnutls_x509_trust_list_init(&list, 0);
	if (r >= 0 && gnutls_x509_trust_list_add_cas(list, crt, n, 0) == (int)n) {
		gnutls_free(crt); /* the list owns the certificates now */
		*ret_list = list;
		return 0;
	}
	if (r >= 0)
		gnutls_x509_trust_list_deinit(list, 0);
	for (unsigned int i = 0; i < n; i++)
		gnutls_x509_crt_deinit(crt[i]);
	gnutls_free(crt);
	return fail(err, ENOMEM, "out of memory");
}

int http_tls_check_authorities(const char *pem, struct error *err)
{
	gnutls_x509_trust_list_t list;
	int r = http_tls_read_authorities(pem, &list, err);

	if (r >= 0)
		gnutls_x509_trust_list_deinit(list, 1);
	return r;
}

/* Reads the peer's chain, the leaf first. Returns its length; 0 if it is missing or unreadable. */
static unsigned int read_chain(gnutls_session_t session, gnutls_x509_crt_t *ret_chain)
{
	unsigned int n_shown = 0, n = 0;
	const gnutls_datum_t *shown = gnutls_certificate_get_peers(session, &n_shown);
	int r = 0;

	if (!shown || n_shown > HTTP_TLS_CHAIN_MAX)
		return 0;
	while (r >= 0 && n < n_shown && gnutls_x509_crt_init(&ret_chain[n]) >= 0) {
		r = gnutls_x509_crt_import(ret_chain[n], &shown[n], GNUTLS_X509_FMT_DER);
		n++;
	}
	if (r >= 0 && n == n_shown)
		return n;
	while (n > 0)
		gnutls_x509_crt_deinit(ret_chain[--n]);
	return 0;
}

bool http_tls_is_vouched_for(
	gnutls_session_t session, gnutls_x509_trust_list_t authorities, char *ret_name, size_t size)
{
	gnutls_typed_vdata_st purpose = {
		GNUTLS_DT_KEY_PURPOSE_OID, (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT, 0};
	gnutls_x509_crt_t chain[HTTP_TLS_CHAIN_MAX];
	unsigned int n = read_chain(session, chain), wrong = 0;
	const bool is_right = n &&
		gnutls_x509_trust_list_verify_crt2(
			authorities, chain, n, &purpose, 1, 0, &wrong, NULL) >= 0 &&
		!wrong;
	size_t n_name = size;

	ret_name[0] = '\0';
	if (is_right &&
		(gnutls_x509_crt_get_dn_by_oid(
			 chain[0], GNUTLS_OID_X520_COMMON_NAME, 0, 0, ret_name, &n_name) < 0 ||
			strlen(ret_name) != n_name))
		ret_name[0] = '\0';
	while (n > 0)
		gnutls_x509_crt_deinit(chain[--n]);
	return is_right;
}

struct http_tls *http_tls_ref(struct http_tls *tls)
{
	tls->n_users++;
	return tls;
}

void http_tls_unref(struct http_tls *tls)
{
	if (!tls || --tls->n_users)
		return;
	for (unsigned int i = 0; i < tls->n_chain; i++)
		gnutls_pcert_deinit(&tls->chain[i]);
	if (tls->key)
		gnutls_privkey_deinit(tls->key);
	free(tls);
}

/* Without this check each handshake would fail, with a less helpful message. */
static int check_pair(struct http_tls *tls, struct error *err)
{
	gnutls_pubkey_t pub = NULL;
	unsigned char a[64], b[64];
	size_t n_a = sizeof(a), n_b = sizeof(b);
	int r = gnutls_pubkey_init(&pub);

	if (r < 0)
		return fail(err, ENOMEM, "certificate: %s", gnutls_strerror(r));
	r = gnutls_pubkey_import_privkey(pub, tls->key, 0, 0);
	if (r >= 0)
		r = gnutls_pubkey_get_key_id(pub, GNUTLS_KEYID_USE_SHA256, a, &n_a);
	if (r >= 0)
		r = gnutls_pubkey_get_key_id(
			tls->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256, b, &n_b);
	gnutls_pubkey_deinit(pub);
	if (r < 0)
		return fail(err, EINVAL, "certificate: %s", gnutls_strerror(r));
	if (n_a != n_b || memcmp(a, b, n_a))
		return fail(err, EINVAL, "certificate: the key belongs to another certificate");
	return 0;
}

int http_tls_new(
	const char *cert_pem, const char *key_pem, struct http_tls **ret_tls, struct error *err)
{
	const gnutls_datum_t cert = http_tls_datum(cert_pem), key = http_tls_datum(key_pem);
	struct http_tls *tls = calloc(1, sizeof(*tls));
	unsigned int n = HTTP_TLS_CHAIN_MAX;
	int r;

	if (!tls)
		return fail(err, ENOMEM, "out of memory");
	tls->n_users = 1;
	r = gnutls_pcert_list_import_x509_raw(
		tls->chain, &n, &cert, GNUTLS_X509_FMT_PEM, GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);
	if (r < 0) {
		fail(err, EINVAL, "certificate: %s", gnutls_strerror(r));
		goto bad;
	}
	tls->n_chain = n;
	r = gnutls_privkey_init(&tls->key);
	if (r >= 0)
		r = gnutls_privkey_import_x509_raw(tls->key, &key, GNUTLS_X509_FMT_PEM, NULL, 0);
	if (r < 0) {
		fail(err, EINVAL, "certificate's key: %s", gnutls_strerror(r));
		goto bad;
	}
	if (check_pair(tls, err) < 0)
		goto bad;
	*ret_tls = tls;
	return 0;
bad:
	http_tls_unref(tls);
	return -EINVAL;
}
