/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 in which both sides show a certificate. A server accepts a peer if its authorities vouch
 * for the peer as a client, and takes the peer's name from the certificate. A client continues only
 * with the node that it wants, and sends its own certificate only after it has verified the
 * server's. A refused peer learns no reason; the reason is for the log. (Any peer that connects
 * sees the server's certificate, which names its node.)
 *
 * This file does no I/O: the caller sets the transport and runs the handshake. Certificates are
 * checked against the current time. One thread for each object.
 */
#ifndef IDENTITY_IDENTITY_TLS_H
#define IDENTITY_IDENTITY_TLS_H

#include <stdbool.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "identity/identity.h"

/*
 * AES-128 first: with the processor's AES instructions it is the fastest cipher (see link-main.c),
 * and it is as strong as P-256.
 */
#define IDENTITY_PRIORITY \
	"NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+CHACHA20-POLY1305"

/* Certificate, key and authorities for sessions. */
struct identity_tls;

/* Copies certificate, key and authorities of the identity. Returns 0, -EINVAL or -ENOMEM. */
int identity_tls_new(
	const struct identity *identity, struct identity_tls **ret_tls, struct error *err);
/* Call it after all its sessions are done. Accepts NULL. */
void identity_tls_free(struct identity_tls *tls);

/* The caller's memory, which must not move until identity_session_done(). */
struct identity_session {
	gnutls_session_t tls;
	/* of a client: the node that it wants, borrowed; NULL: a server */
	const char *node;
	struct identity_name peer; /* NOBODY until the handshake has verified the peer */
	struct error why;          /* why the peer was refused; code 0: not refused */
};

/* node: the server that a client wants; NULL makes a server session. Returns 0 or -ENOMEM. */
int identity_session_init(
	struct identity_session *session, struct identity_tls *tls, const char *node);
void identity_session_done(struct identity_session *session);

/*
 * Call it with the result r of gnutls_handshake(). Returns 0 if the peer is verified, else -EACCES
 * with a message for the log.
 */
int identity_session_check(const struct identity_session *session, int r, struct error *err);

/* Reads the only URI of the alternative name. -EINVAL, also if there are further names. */
int identity_crt_name(gnutls_x509_crt_t crt, struct identity_name *ret_name, struct error *err);

#endif
