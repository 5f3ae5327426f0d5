/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network connection before a link runs over it: the TLS handshake with certificates or a
 * pre-shared key, and the time limits for a silent peer. Functions block; one thread for each
 * connection.
 */
#ifndef LINK_SECURE_H
#define LINK_SECURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct gnutls_session_int;
struct identity_session;
struct identity_tls;

#define SECURE_HANDSHAKE_MS 10000
/*
 * A peer that sends nothing for this time counts as lost. A machine short of processors or memory
 * may stop a process for ten seconds, which must not cost a program its GPU.
 */
#define SECURE_PEER_MS 25000
/* Interval of the heartbeats by which each side notices a silent peer. */
#define SECURE_BEAT_MS 2000
#define SECURE_SILENT_MS 20000
#define SECURE_KEY_BYTES 32u

/* Sets socket options: writes are sent at once, and a lost peer is detected. */
void secure_socket(int fd);

/*
 * Runs the handshake for at most SECURE_HANDSHAKE_MS. Returns gnutls_handshake()'s 0 or its fatal
 * error.
 */
int secure_handshake(struct gnutls_session_int *tls, int fd);

/*
 * Both sides show a certificate; identity/identity-tls.h has the rules for accepting one. node: the
 * node that a client wants to reach; NULL: this is the server. 0: ret_session->tls is ready for a
 * link, and ret_session->peer is the peer's name. The caller calls identity_session_done(), and
 * must not move *ret_session. -EACCES: the message is for the log only, and the peer gets no
 * reason. -ENOMEM.
 */
int secure_accept(struct identity_tls *own, int fd, const char *node,
	struct identity_session *ret_session, struct error *err);

/* A key that both sides know, and its purpose. */
struct secure_key {
	const char *name;     /* client only */
	const uint8_t *bytes; /* client only: SECURE_KEY_BYTES */
	/* Server only: finds the key of that name, or returns false. */
	bool (*find)(const char *name, uint8_t *ret_bytes);
};

/*
 * Both sides prove that they know the key, with TLS 1.3 and Diffie-Hellman. 0: the caller owns
 * *ret_tls. -EACCES: one side does not know the key. -ENOMEM. A client also gets -ETIMEDOUT, and
 * -EPROTO if the peer is no server of this kind.
 */
int secure_accept_key(int fd, const struct secure_key *key, struct gnutls_session_int **ret_tls);

#endif
