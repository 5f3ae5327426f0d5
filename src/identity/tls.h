/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 in which both show a certificate. A server lets in whom its authorities vouch for as a
 * client and reads the name from there; a client goes on with the node that it wants and no other,
 * and shows nothing of itself before it knows. Who is refused is told nothing; why, is for the log.
 * (A server's certificate, which names its node, is seen by whoever connects.)
 * Without I/O of its own: the caller sets the transport and does the handshake. Certificates are
 * held to the clock of the moment. One thread for each object.
 */
#ifndef IDENTITY_TLS_H
#define IDENTITY_TLS_H

#include <stdbool.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "identity/identity.h"

/*
 * AES-128 first: where the processor has instructions for it (link-main.c says more) it is the
 * fastest, and as good as P-256.
 */
#define IDENTITY_PRIORITY \
	"NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+CHACHA20-POLY1305"

/* What sessions show and believe. */
struct identity_tls;

/* The texts are copied. -EINVAL with a sentence. */
int identity_tls_new(
	const struct identity *identity, struct identity_tls **ret_tls, struct error *err);
/* After its sessions. NULL is fine. */
void identity_tls_free(struct identity_tls *tls);

/* In the caller's memory; stays where it is until identity_session_done(). */
struct identity_session {
	gnutls_session_t tls;
	const char *node;          /* of a client: whom it wants; borrowed. NULL: a server */
	struct identity_name peer; /* NOBODY until the handshake has come so far */
	struct error why;          /* why the peer was refused; code 0: it was not, so far */
};

/* node: of a client, the server that it wants; NULL makes a server. -ENOMEM. */
int identity_session_init(
	struct identity_session *session, struct identity_tls *tls, const char *node);
void identity_session_done(struct identity_session *session);

/*
 * After gnutls_handshake() has returned r: 0 when the peer is who it should be; else -EACCES with a
 * sentence for the log.
 */
int identity_session_check(const struct identity_session *session, int r, struct error *err);

/* The one URI that is its alternative name. -EINVAL with a sentence: also for more than that. */
int identity_crt_name(gnutls_x509_crt_t crt, struct identity_name *ret_name, struct error *err);

#endif
