/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file wraps GnuTLS's functions for certificates and keys. A text above CRT_PEM_MAX bytes, or
 * with more than CRT_LIST_MAX certificates, counts as unreadable. A certificate whose validity
 * period GnuTLS cannot read never holds: crt_begins_ns() returns CLOCK_NEVER and crt_ends_ns()
 * returns 0. crt_is_signed_by() ignores validity periods, so callers also use crt_holds().
 */
#include "identity/crt.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

static gnutls_datum_t crt_datum(const char *text)
{
	return (gnutls_datum_t){(unsigned char *)text, (unsigned int)strlen(text)};
}

unsigned int crt_list_read(const char *pem, gnutls_x509_crt_t list[CRT_LIST_MAX])
{
	unsigned int n = CRT_LIST_MAX;
	gnutls_datum_t text;

	if (!pem || strlen(pem) > CRT_PEM_MAX)
		return 0;
	text = crt_datum(pem);
	if (gnutls_x509_crt_list_import(list, &n, &text, GNUTLS_X509_FMT_PEM,
		    GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED) < 0)
		return 0;
	return n;
}

void crt_list_done(gnutls_x509_crt_t *list, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		gnutls_x509_crt_deinit(list[i]);
}

gnutls_x509_privkey_t crt_key_read(const char *pem)
{
	gnutls_x509_privkey_t key = NULL;
	gnutls_datum_t text;

	if (!pem || strlen(pem) > CRT_PEM_MAX || gnutls_x509_privkey_init(&key) < 0)
		return NULL;
	text = crt_datum(pem);
	if (gnutls_x509_privkey_import2(key, &text, GNUTLS_X509_FMT_PEM, NULL, 0) < 0) {
		gnutls_x509_privkey_deinit(key);
		return NULL;
	}
	return key;
}

bool crt_is_pair(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key)
{
	unsigned char a[64], b[64];
	size_t n_a = sizeof(a), n_b = sizeof(b);

	return gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA256, a, &n_a) >= 0 &&
		gnutls_x509_privkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, b, &n_b) >= 0 &&
		n_a == n_b && !memcmp(a, b, n_a);
}

uint64_t crt_ends_ns(gnutls_x509_crt_t crt)
{
	const time_t t = gnutls_x509_crt_get_expiration_time(crt);

	return t < 0 ? 0 : (uint64_t)t * NSEC_PER_SEC;
}

uint64_t crt_begins_ns(gnutls_x509_crt_t crt)
{
	const time_t t = gnutls_x509_crt_get_activation_time(crt);

	return t < 0 ? CLOCK_NEVER : (uint64_t)t * NSEC_PER_SEC;
}

bool crt_holds(gnutls_x509_crt_t crt, uint64_t real_ns)
{
	return crt_begins_ns(crt) <= real_ns && real_ns < crt_ends_ns(crt);
}

uint64_t crt_age_ns(gnutls_x509_crt_t crt, uint64_t real_ns)
{
	return clock_since_ns(real_ns, clock_add_ns(crt_begins_ns(crt), CRT_EARLY_NS));
}

bool crt_is_running_out(gnutls_x509_crt_t crt, uint64_t length_ns, uint64_t real_ns)
{
	return clock_add_ns(real_ns, length_ns / 3) >= crt_ends_ns(crt);
}

bool crt_is_signed_by(gnutls_x509_crt_t crt, gnutls_x509_crt_t authority)
{
	unsigned int status = 0;

	return gnutls_x509_crt_check_issuer(crt, authority) &&
		gnutls_x509_crt_verify(crt, &authority, 1,
			GNUTLS_VERIFY_DISABLE_TIME_CHECKS |
				GNUTLS_VERIFY_DISABLE_TRUSTED_TIME_CHECKS,
			&status) >= 0 &&
		status == 0;
}

int crt_format(gnutls_x509_crt_t crt, struct buf *out)
{
	gnutls_datum_t text = {NULL, 0};

	if (gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &text) < 0)
		out->error = -EIO;
	buf_add(out, (struct str){(const char *)text.data, text.size});
	gnutls_free(text.data);
	return buf_error(out);
}
