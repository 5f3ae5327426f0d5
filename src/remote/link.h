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

/* One note over TLS, before link_run. 0 or -errno. */
int link_send_note(struct gnutls_session_int *tls, const struct remote_note *note);
int link_receive_note(struct gnutls_session_int *tls, struct remote_note *ret_note);
