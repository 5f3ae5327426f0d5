/* SPDX-License-Identifier: Apache-2.0 */
/* Peers of a rig's server that speak TLS, with certificates of authorities made here. */
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

/* What they show, whatever authorities the server names; NULL: nothing. */
extern const char *tls_own_crt, *tls_own_key;
/* The versions and ciphers that they offer, as GnuTLS writes priorities; NULL: its usual ones. */
extern const char *tls_priority;

/* 0, or the handshake's failure. ca_pem: whom it trusts. */
int tls_meet(struct rig *rig, struct tls_peer *peer, const char *ca_pem);
void tls_part(struct tls_peer *peer);
void tls_say(struct tls_peer *peer, const char *text);
/* Until that part of it has come. */
void tls_hear(struct rig *rig, struct tls_peer *peer, const char *part_of_it);

/* For a server, signed by itself; the caller's. */
void tls_issue(char **ret_crt, char **ret_key);

struct tls_authority {
	char *crt, *key;
};

struct tls_authority tls_make_authority(void);
void tls_authority_done(struct tls_authority *ca);
/* Of "me", for that purpose, good from now on by that many seconds; the caller's. */
void tls_certify(const struct tls_authority *ca, const char *purpose, int seconds, char **ret_crt,
	char **ret_key);

#endif
