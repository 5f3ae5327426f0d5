/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session over a network: on each side a process holds one end of a session in shared memory and
 * copies what is written into its rings to the other side's, over TLS. Also what all processes
 * around a session share: making one, starting a worker.
 */
#pragma once

#include "base/fd.h"
#include "remote/session.h"

struct gnutls_session_int;

/* A sealed session, mapped, and its descriptor. 0 or -errno. */
int session_new(enum remote_hub hub, struct map *ret_map, int *ret_fd);

/* Before the first worker is started: what they have in common, in our environment. */
void workers_begin(void);

/* Room in its command line, into which the worker writes the pid of its program. */
#define WORKER_WHOSE "               "

/*
 * Becomes divvy-remote-worker for the program at the other end of the socket, with the libraries
 * of $DIVVY_REMOTE_HOOKS before the driver. Returns only on failure.
 */
void worker_become(int sock);

/*
 * Copies until one of the sides is gone, and ends the process. tls: connected and authenticated;
 * note_sock: of the program, or of the worker.
 */
_Noreturn void link_run(struct gnutls_session_int *tls, struct remote_session *session,
	enum remote_hub hub, int note_sock);

/*
 * A session's beginning, up to link_run(), which the peer does as well: on the side of the device a
 * worker is started for it, on that of the program `sock` is answered. -errno: it has none, and has
 * been told so as far as anybody listens. What they give out is the caller's.
 */
int link_open_worker(struct gnutls_session_int *tls, struct map *ret_map, int *ret_sock);
int link_open_program(struct gnutls_session_int *tls, int sock, struct map *ret_map);

/* What ps and top show: the round trip as TCP knows it, and how far the rings have come. */
struct link_counts {
	uint32_t rtt_us;
	uint64_t up, down; /* bytes */
};
void link_count(const struct remote_session *session, int fd, struct link_counts *ret_counts);

/* One note over TLS, before link_run. 0 or -errno. */
int link_send_note(struct gnutls_session_int *tls, const struct remote_note *note);
/* Exactly n bytes, likewise. */
int link_receive(struct gnutls_session_int *tls, void *p, size_t n);
int link_receive_note(struct gnutls_session_int *tls, struct remote_note *ret_note);
