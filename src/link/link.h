/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session over a network. On each side a process holds one end of the session in shared memory.
 * The process copies new bytes of its own rings to the other side's rings, over TLS.
 */
#ifndef LINK_LINK_H
#define LINK_LINK_H

#include "base/fd.h"
#include "link/bulk.h"
#include "link/handover.h"
#include "link/stream.h"
#include "remote/session.h"

struct gnutls_session_int;

/* Version of the protocol between links. Both ends need the same version. */
#define LINK_ABI 3u

/*
 * This side's end of a session: the connections (the first carries everything except bulk data),
 * the rings, and the socket of the program or the worker.
 */
struct link_end {
	struct stream stream[1 + BULK_MAX];
	unsigned n;
	struct map map;
	int sock;
	/* Where this process records its heartbeat (children.h); may be NULL. */
	_Atomic uint64_t *alive_ns;
};

/* Copies until one side has ended, then ends the process. */
_Noreturn void link_run(const struct link_end *end, enum remote_link_role link_role);

/*
 * For tests: handles messages of one stream as link_run() does, until the stream ends or an invalid
 * message arrives. free() releases the object.
 */
struct link *link_new(const struct link_end *end, enum remote_link_role link_role);
void link_hear(struct link *l, unsigned stream);

/*
 * Opens a session, which link_run() then runs; the peer opens its own end. The device side starts a
 * worker, and receives the further connections from the listener (handover.h): `place` is the place
 * of this child, and `own` the child's end. The program side answers `sock`, and makes the further
 * connections to the peer of the first one. -errno: there is no session, and the other side got a
 * refusal if possible. The caller owns the results.
 */
struct link_place {
	struct handover *handover;
	int place, own;
};
int link_open_worker(
	struct gnutls_session_int *tls, const struct link_place *place, struct link_end *ret_end);
struct link_program {
	int sock;
	_Atomic uint64_t *alive_ns;
};
int link_open_program(struct gnutls_session_int *tls, const struct link_program *program,
	struct link_end *ret_end);

/* Numbers for ps and top: TCP's round trip, and the positions of the rings. */
struct link_counts {
	uint32_t rtt_us;
	uint64_t up, down; /* bytes */
};
void link_count(const struct remote_session *session, int fd, struct link_counts *ret_counts);

#endif
