/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Further connections of a session for its bulk data. Each begins with the session's name, from
 * which the listener finds the session's process. The name proves nothing: afterwards both sides
 * prove that they know the session's key. Both ends derive name and key from the session's first
 * connection, which is authenticated (RFC 5705). Only the name crosses the network, in the clear,
 * and it tells other parties nothing. Functions block. One thread.
 */
#ifndef LINK_BULK_H
#define LINK_BULK_H

#include <stdint.h>

struct gnutls_session_int;

#define BULK_MAX 4u

struct bulk_name {
	uint8_t bytes[16];
};

/* Number of further connections that this side would like. */
unsigned bulk_n_wanted(void);

/* Derives the session's name from its first connection. 0 or -EIO. */
int bulk_name(struct gnutls_session_int *first, struct bulk_name *ret_name);

/*
 * Program side: makes and authenticates one more connection to the peer of the first one. The
 * caller owns *ret_tls. 0 or -errno.
 */
int bulk_reach(struct gnutls_session_int *first, struct gnutls_session_int **ret_tls);

/*
 * Device side: accepts one more connection, which came through the connection handover (handover.h)
 * of this process. Closes connections whose peer does not know the key. -ETIMEDOUT: no connection
 * came within SECURE_HANDSHAKE_MS.
 */
int bulk_accept(
	struct gnutls_session_int *first, int handover, struct gnutls_session_int **ret_tls);

/*
 * Classifies a newly accepted connection. 1: a further connection, and the name has been read. 0:
 * the first connection of a session, and nothing has been read. -errno: neither.
 */
int bulk_look(int fd, struct bulk_name *ret_name);

#endif
