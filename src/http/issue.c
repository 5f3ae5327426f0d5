/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file builds X.509 certificates of version 3 with GnuTLS. set_purpose() alone decides on the
 * use of a certificate. Without a DNS name and a URI, the certificate is an authority that can sign
 * leaf certificates only. The steps of http_issue() return GnuTLS's error codes, and http_issue()
 * translates the first failure to -EIO. The functions wipe their copies of a private key's text,
 * also after a failure.
 */
#include "http/issue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"

#define SERIAL_BYTES 16
/* the validity begins this much earlier, for clocks that are behind */
#define EARLY_NS (3600 * NSEC_PER_SEC)
#define OWN_NS (10 * 365 * 86400 * NSEC_PER_SEC)
#define FILE_MAX (1u << 20)

static int set_times(gnutls_x509_crt_t crt, const struct http_issue *issue)
{
	int r = gnutls_x509_crt_set_activation_time(crt, (time_t)(issue->from_ns / NSEC_PER_SEC));

	return r < 0
		? r
		: gnutls_x509_crt_set_expiration_time(crt, (time_t)(issue->to_ns / NSEC_PER_SEC));
}

static int set_identity(
	gnutls_x509_crt_t crt, gnutls_x509_privkey_t key, const struct http_issue *issue)
{
	const char *name = issue->name;
	unsigned char serial[SERIAL_BYTES], id[64];
	size_t n_id = sizeof(id);
	int r = random_bytes(serial, sizeof(serial)) < 0 ? GNUTLS_E_RANDOM_FAILED : 0;

	serial[0] &= 0x7f; /* RFC 5280: a serial number is positive */
	r = r < 0 ? r : gnutls_x509_crt_set_version(crt, 3);
	r = r < 0 ? r : gnutls_x509_crt_set_serial(crt, serial, sizeof(serial));
	r = r < 0           ? r
		: issue->of ? gnutls_x509_crt_set_pubkey(crt, issue->of)
			    : gnutls_x509_crt_set_key(crt, key);
	r = r < 0 ? r
		  : gnutls_x509_crt_set_dn_by_oid(
			    crt, GNUTLS_OID_X520_COMMON_NAME, 0, name, (unsigned int)strlen(name));
	r = r < 0 ? r : gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA1, id, &n_id);
	return r < 0 ? r : gnutls_x509_crt_set_subject_key_id(crt, id, n_id);
}

static int set_purpose(gnutls_x509_crt_t crt, const struct http_issue *issue)
{
	const char *name = issue->host ? issue->host : issue->uri;
	int r = gnutls_x509_crt_set_basic_constraints(crt, !name, name ? -1 : 0);

	if (r < 0 || !name)
		return r < 0 ? r
			     : gnutls_x509_crt_set_key_usage(
				       crt, GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN);
	r = gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE);
	if (r >= 0 && (issue->host || issue->is_server))
		r = gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_SERVER, 0);
	if (r >= 0 && !issue->host)
		r = gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_CLIENT, 0);
	return r < 0 ? r
		     : gnutls_x509_crt_set_subject_alt_name(crt,
			       issue->host ? GNUTLS_SAN_DNSNAME : GNUTLS_SAN_URI, name,
			       (unsigned int)strlen(name), GNUTLS_FSAN_SET);
}

static int http_issue_sign(
	gnutls_x509_crt_t crt, gnutls_x509_crt_t issuer, gnutls_x509_privkey_t issuer_key)
{
	unsigned char id[64];
	size_t n_id = sizeof(id);
	int r = gnutls_x509_crt_get_subject_key_id(issuer, id, &n_id, NULL);

	r = r < 0 ? r : gnutls_x509_crt_set_authority_key_id(crt, id, n_id);
	return r < 0 ? r : gnutls_x509_crt_sign2(crt, issuer, issuer_key, GNUTLS_DIG_SHA256, 0);
}

static char *http_issue_take_text(gnutls_datum_t *text)
{
	char *copy = str_dup((struct str){(const char *)text->data, text->size});

	explicit_bzero(text->data, text->size);
	gnutls_free(text->data);
	return copy;
}

static int http_issue_export(
	gnutls_x509_crt_t crt, gnutls_x509_privkey_t key, char **ret_crt, char **ret_key)
{
	gnutls_datum_t text = {NULL, 0};
	int r = gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &text);

	if (r < 0)
		return r;
	*ret_crt = http_issue_take_text(&text);
	if (!key)
		return *ret_crt ? 0 : GNUTLS_E_MEMORY_ERROR;
	r = gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &text);
	if (r >= 0)
		*ret_key = http_issue_take_text(&text);
	return r < 0 ? r : *ret_crt && *ret_key ? 0 : GNUTLS_E_MEMORY_ERROR;
}

int http_issue(const struct http_issue *issue, char **ret_crt, char **ret_key, struct error *err)
{
	_cleanup_(str_wipe) char *pem = NULL, *pem_key = NULL;
	gnutls_x509_privkey_t key = NULL;
	gnutls_x509_crt_t crt = NULL;
	int r = issue->of ? 0 : gnutls_x509_privkey_init(&key);

	if (key)
		r = gnutls_x509_privkey_generate(
			key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
	r = r < 0 ? r : gnutls_x509_crt_init(&crt);
	r = r < 0 ? r : set_times(crt, issue);
	r = r < 0 ? r : set_identity(crt, key, issue);
	r = r < 0 ? r : set_purpose(crt, issue);
	r = r < 0 ? r
		  : http_issue_sign(crt, issue->issuer ? issue->issuer : crt,
			    issue->issuer ? issue->issuer_key : key);
	r = r < 0 ? r : http_issue_export(crt, key, &pem, &pem_key);
	if (crt)
		gnutls_x509_crt_deinit(crt);
	if (key)
		gnutls_x509_privkey_deinit(key);
	if (r < 0)
		return fail(err, EIO, "create the certificate of '%s': %s", issue->name,
			gnutls_strerror(r));
	*ret_crt = TAKE_PTR(pem);
	if (ret_key)
		*ret_key = TAKE_PTR(pem_key);
	return 0;
}

int http_server_issue(
	struct http_server *server, const char *name, const char *host, struct error *err)
{
	const uint64_t now = clock_real_ns();
	const struct http_issue issue = {
		.name = name, .host = host, .from_ns = now - EARLY_NS, .to_ns = now + OWN_NS};
	_cleanup_(str_wipe) char *cert = NULL, *key = NULL;
	int r = http_issue(&issue, &cert, &key, err);

	return r < 0 ? r : http_server_set_certificate(server, cert, key, err);
}

int http_server_read(
	struct http_server *server, const char *cert_file, const char *key_file, struct error *err)
{
	_cleanup_(buf_wipe) struct buf cert = BUF_INIT(FILE_MAX), key = BUF_INIT(FILE_MAX);
	int r = file_read(cert_file, &cert, err);

	r = r < 0 ? r : file_read(key_file, &key, err);
	if (r < 0)
		return r;
	r = http_server_set_certificate(server, buf_text(&cert), buf_text(&key), err);
	return r < 0 ? fail_within(err, r, "%s, %s", cert_file, key_file) : 0;
}
