/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stream over RDMA (stream-verbs.h) in place of the further connections of a session: both ends
 * agree on it over the first one, which says whether the other side could have it at all, and try
 * it before it counts. What goes wrong with that is no failure of the session, whose bulk data then
 * goes over TLS. Blocks; one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "link/stream.h"

struct gnutls_session_int;
struct verbs;

/* "off", or the adapter's name; else the first that has an active port. */
#define BULK_VERBS_ENV "DIVVY_REMOTE_VERBS"
/* After so long without an answer to what is sent for a trial there is no way. */
#define BULK_VERBS_TRIAL_MS 2000u

#if DIVVY_VERBS

/* This side's end (verbs.h), the caller's; NULL, and at debug a line why: there is none. */
struct verbs *bulk_verbs_open(void);

/*
 * With what this side has opened, which may be NULL and is taken, and what the other side has said
 * of itself; at the same time at both. 1, and the stream, which is good until the process ends, or
 * verbs_stream_free() of what it keeps; 0: it is not to be used, and at debug a line why; -EPIPE:
 * the first connection has ended.
 */
int bulk_verbs_agree(struct gnutls_session_int *first, struct verbs *verbs, bool has_other,
	bool is_program, struct stream *ret_stream);

#else /* there is no libibverbs: nobody has one */

static inline struct verbs *bulk_verbs_open(void)
{
	return NULL;
}

static inline int bulk_verbs_agree(struct gnutls_session_int *first, struct verbs *verbs,
	bool has_other, bool is_program, struct stream *ret_stream)
{
	return 0;
}

#endif
