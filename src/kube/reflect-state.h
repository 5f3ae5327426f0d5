/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reflector state: decides whether a reflector lists or watches next, and how long it pauses
 * before. Pure.
 *
 * A lost watch resumes at its last version. If the server no longer has that history, or sent
 * garbled data, the reflector lists again. After garbled data the list replaces all known objects,
 * also those of the same version. If a list expires twice between its pages, the next list is a
 * single page.
 */
#ifndef KUBE_REFLECT_STATE_H
#define KUBE_REFLECT_STATE_H

#include "kube/backoff.h"

/* a watch that has lived this long resets the backoff */
#define REFLECT_STEADY_NS (UINT64_C(10) * 1000000000)
#define REFLECT_EXPIRED_MAX 2u
#define REFLECT_ERRORS_MAX 2u

enum reflect_phase { REFLECT_LIST, REFLECT_WATCH };

enum reflect_end {
	REFLECT_OK,      /* the list is complete, or the server closed the watch in good order */
	REFLECT_LOST,    /* the connection was lost, or silent for too long */
	REFLECT_EXPIRED, /* the server answered 410 (Gone) */
	REFLECT_GARBLED,
	REFLECT_REFUSED, /* any other HTTP status, or a frame of type ERROR */
};

struct reflect_state {
	enum reflect_phase phase;
	bool is_replacing; /* the current or next list replaces all objects */
	bool is_unpaged;
	uint32_t n_expired, n_errors;
	struct backoff backoff;
};

#define REFLECT_PAUSE_MAX_NS (UINT64_C(30) * 1000000000)

/* max_pause_ns limits the growing pauses; 0: REFLECT_PAUSE_MAX_NS. */
void reflect_state_init(struct reflect_state *state, uint64_t max_pause_ns);

/*
 * The phase has ended after lived_ns: sets the next phase and returns the pause before it, which is
 * at least retry_after_ns (limited by RETRY_AFTER_MAX_NS).
 */
uint64_t reflect_state_end(struct reflect_state *state, enum reflect_end end, uint64_t lived_ns,
	uint64_t retry_after_ns, struct rand *rand);

#endif
