/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of the network before a link runs over it: how long a peer may be silent, and the
 * handshake, with whichever proof the session was given. Blocks; one thread for each connection.
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
 * A peer that does not answer for so long is gone. A machine that is short of processors or memory
 * stops a process for ten seconds at times, which is no reason to take its GPU from a program.
 */
#define SECURE_PEER_MS 25000
/* Who has nothing to say says so; of whom nothing has come for so long it is known in time. */
#define SECURE_BEAT_MS 2000
#define SECURE_SILENT_MS 20000
#define SECURE_KEY_BYTES 32u

/* What is written goes at once, and a peer that is gone is noticed. */
void secure_socket(int fd);

/* At most SECURE_HANDSHAKE_MS. What gnutls_handshake() has said: 0, or what is fatal. */
int secure_handshake(struct gnutls_session_int *tls, int fd);

/*
 * Both show a certificate: identity/tls.h says who is let in, and node of a client which node it
 * wants (NULL: it is the server). 0: ret_session->tls is ready for a link, ret_session->peer is who
 * is there; the caller's, with identity_session_done(), and it stays where it is. -EACCES, with a
 * sentence for the log alone: the peer is told nothing. -ENOMEM.
 */
int secure_meet(struct identity_tls *own, int fd, const char *node,
	struct identity_session *ret_session, struct error *err);

/* A key that both sides know, and what it is for. */
struct secure_key {
	const char *name;     /* of a client */
	const uint8_t *bytes; /* of a client: SECURE_KEY_BYTES */
	/* Of a server: the key of that name, or false. */
	bool (*find)(const char *name, uint8_t *ret_bytes);
};

/*
 * Both prove to each other that they know the key, with TLS 1.3 and Diffie-Hellman. 0: ret_tls is
 * the caller's. -EACCES: one of the two does not know it. -ENOMEM. Of a client -ETIMEDOUT, too,
 * and -EPROTO: what answers is no server of this kind.
 */
int secure_meet_key(int fd, const struct secure_key *key, struct gnutls_session_int **ret_tls);

#endif
