/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/certificate.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/rand.h"
#include "base/str.h"

#define YEAR_S (365 * 86400)
#define HOUR_S 3600 /* for clocks that are late */

static int fill(gnutls_x509_crt_t cert, gnutls_x509_privkey_t key, const char *name)
{
	const time_t now = time(NULL);
	unsigned char serial[16];
	int r = random_bytes(serial, sizeof(serial));

	if (r < 0)
		return GNUTLS_E_RANDOM_FAILED;
	/* Positive. */
	serial[0] &= 0x7f;
	r = gnutls_x509_privkey_generate(
		key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
	if (r < 0 || (r = gnutls_x509_crt_set_version(cert, 3)) < 0 ||
		(r = gnutls_x509_crt_set_serial(cert, serial, sizeof(serial))) < 0 ||
		(r = gnutls_x509_crt_set_activation_time(cert, now - HOUR_S)) < 0 ||
		(r = gnutls_x509_crt_set_expiration_time(cert, now + YEAR_S)) < 0 ||
		(r = gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, name,
			 (unsigned int)strlen(name))) < 0 ||
		(r = gnutls_x509_crt_set_subject_alt_name(cert, GNUTLS_SAN_DNSNAME, name,
			 (unsigned int)strlen(name), GNUTLS_FSAN_SET)) < 0 ||
		(r = gnutls_x509_crt_set_key(cert, key)) < 0)
		return r;
	return gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0);
}

static char *text_of(gnutls_datum_t *datum)
{
	char *text = str_dup((struct str){(const char *)datum->data, datum->size});

	gnutls_free(datum->data);
	return text;
}

int certificate_make(const char *name, char **ret_cert, char **ret_key, struct error *err)
{
	gnutls_datum_t cert_pem = {0}, key_pem = {0};
	gnutls_x509_privkey_t key = NULL;
	gnutls_x509_crt_t cert = NULL;
	int r = gnutls_x509_privkey_init(&key);

	if (r >= 0)
		r = gnutls_x509_crt_init(&cert);
	if (r >= 0)
		r = fill(cert, key, name);
	if (r >= 0)
		r = gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &cert_pem);
	if (r >= 0)
		r = gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &key_pem);
	if (cert)
		gnutls_x509_crt_deinit(cert);
	if (key)
		gnutls_x509_privkey_deinit(key);
	if (r < 0) {
		gnutls_free(cert_pem.data);
		return fail(err, EIO, "a certificate for %s: %s", name, gnutls_strerror(r));
	}
	*ret_cert = text_of(&cert_pem);
	*ret_key = text_of(&key_pem);
	return *ret_cert && *ret_key ? 0 : fail(err, ENOMEM, "out of memory");
}
