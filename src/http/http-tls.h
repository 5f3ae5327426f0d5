/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A certificate and its key for GnuTLS. Connections that began with this certificate share the
 * struct.
 */
#ifndef HTTP_HTTP_TLS_H
#define HTTP_HTTP_TLS_H

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdbool.h>

#include "base/error.h"

/* For every server: no version before TLS 1.2 (RFC 8996). */
#define HTTP_TLS_PRIORITY "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

#define HTTP_TLS_CHAIN_MAX 8u

struct http_tls {
	unsigned int n_users;
	unsigned int n_chain;
	gnutls_pcert_st chain[HTTP_TLS_CHAIN_MAX];
	gnutls_privkey_t key;
};

/* Checks for at least one certificate and no unreadable one, in PEM. Returns 0 or -EINVAL. */
int http_tls_check_authorities(const char *pem, struct error *err);
/*
 * Checks like http_tls_check_authorities(), and returns the list. The caller frees it with
 * gnutls_x509_trust_list_deinit(list, 1).
 */
int http_tls_read_authorities(
	const char *pem, gnutls_x509_trust_list_t *ret_list, struct error *err);
/*
 * Whether the peer has shown a client certificate that the authorities vouch for. Writes its common
 * name, or "" if it has none that fits.
 */
bool http_tls_is_vouched_for(gnutls_session_t session, gnutls_x509_trust_list_t authorities,
	char *ret_name, size_t size);

/* Returns 0; -EINVAL: no certificate, no key, or the two do not belong together; -ENOMEM. */
int http_tls_new(
	const char *cert_pem, const char *key_pem, struct http_tls **ret_tls, struct error *err);
struct http_tls *http_tls_ref(struct http_tls *tls);
/* Accepts NULL. */
void http_tls_unref(struct http_tls *tls);

#endif
