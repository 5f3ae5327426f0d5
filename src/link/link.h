/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session over a network: on each side a process holds one end of a session in shared memory and
 * copies what is written into its rings to the other side's, over TLS.
 */
#ifndef LINK_LINK_H
#define LINK_LINK_H

#include "base/fd.h"
#include "link/bulk.h"
#include "link/door.h"
#include "link/stream.h"
#include "remote/session.h"

struct gnutls_session_int;

/* How both ends speak; they are of the same. */
#define LINK_ABI 3u

/*
 * This side's end of a session: the connections, of which the first carries all but bulk data, the
 * rings, and the socket of the program, or of the worker.
 */
struct link_end {
	struct stream stream[1 + BULK_MAX];
	unsigned n;
	struct map map;
	int sock;
	_Atomic uint64_t *alive_ns; /* children.h: where it says that it is; may be NULL */
};

/* Copies until one of the sides is gone, and ends the process. */
_Noreturn void link_run(const struct link_end *end, enum remote_hub hub);

/*
 * What link_run() does with what the other side says over one of the streams, until the end of that
 * or nonsense: for tests. free() is enough.
 */
struct link *link_new(const struct link_end *end, enum remote_hub hub);
void link_hear(struct link *l, unsigned stream);

/*
 * A session's beginning, up to link_run(), which the peer does as well: on the side of the device a
 * worker is started for it, whose further connections come through the door at that place, by its
 * own end of it; on that of the program `sock` is answered, and they are made to where the first
 * one leads. -errno: it has none, and has been told so as far as anybody listens. What they give
 * out is the caller's.
 */
struct link_place {
	struct door *door;
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

/* What ps and top show: the round trip as TCP knows it, and how far the rings have come. */
struct link_counts {
	uint32_t rtt_us;
	uint64_t up, down; /* bytes */
};
void link_count(const struct remote_session *session, int fd, struct link_counts *ret_counts);

#endif
