/* SPDX-License-Identifier: Apache-2.0 */
/* Peers of a rig's server that use TLS, with certificates of the tests' own authorities. */
#ifndef TESTS_UNIT_HTTP_TLS_PEER_H
#define TESTS_UNIT_HTTP_TLS_PEER_H

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "rig.h"

struct tls_peer {
	gnutls_session_t session;
	gnutls_certificate_credentials_t trust;
	int fd;
};

/*
 * The certificate and key that all peers show, even if the server does not name their authority;
 * NULL: none.
 */
extern const char *tls_own_crt, *tls_own_key;
/*
 * The versions and ciphers that peers offer, as a GnuTLS priority string; NULL: GnuTLS's default.
 */
extern const char *tls_priority;

/* Returns 0, or the handshake's error. ca_pem: the authority that the peer trusts. */
int tls_meet(struct rig *rig, struct tls_peer *peer, const char *ca_pem);
void tls_part(struct tls_peer *peer);
void tls_say(struct tls_peer *peer, const char *text);
/* Runs the loop until the answer contains the part. */
void tls_hear(struct rig *rig, struct tls_peer *peer, const char *part_of_it);

/* Makes a self-signed certificate for a server. The caller frees both texts. */
void tls_issue(char **ret_crt, char **ret_key);

struct tls_authority {
	char *crt, *key;
};

struct tls_authority tls_make_authority(void);
void tls_authority_done(struct tls_authority *ca);
/*
 * Makes a certificate with the name "me" for this purpose, valid from now for `seconds`. The caller
 * frees it.
 */
void tls_certify(const struct tls_authority *ca, const char *purpose, int seconds, char **ret_crt,
	char **ret_key);

#endif
