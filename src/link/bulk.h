/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Further connections of a session, for its bulk data. Each begins with the session's name, by
 * which the listener finds whose it is, and nothing is believed by that: then both sides prove that
 * they know the session's key. Name and key are what the session's first connection, which has been
 * authenticated, gives both its ends by themselves (RFC 5705); neither goes over the network for it
 * but the name in the clear, which says nothing to anybody else. Blocks; one thread.
 */
#ifndef LINK_BULK_H
#define LINK_BULK_H

#include <stdint.h>

struct gnutls_session_int;

#define BULK_MAX 4u

struct bulk_name {
	uint8_t bytes[16];
};

/* How many this side would like to have. */
unsigned bulk_wish(void);

/* Of the session with that first connection. 0 or -EIO. */
int bulk_name(struct gnutls_session_int *first, struct bulk_name *ret_name);

/*
 * The side of the program: one more to where the first one leads, in and authenticated; the
 * caller's. 0 or -errno.
 */
int bulk_reach(struct gnutls_session_int *first, struct gnutls_session_int **ret_tls);

/*
 * The side of the device: one more, that has come through the door (door.h) of this process; who
 * does not know the key is sent away. -ETIMEDOUT: none came within SECURE_HANDSHAKE_MS.
 */
int bulk_accept(struct gnutls_session_int *first, int door, struct gnutls_session_int **ret_tls);

/*
 * What a connection that was just accepted is: 1, and the name has been read; 0: the first of a
 * session, of which nothing has been read; -errno: it says neither.
 */
int bulk_look(int fd, struct bulk_name *ret_name);

#endif
