/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reflector state: decides whether a reflector lists or watches next, and the pause before.
 * Pure.
 *
 * A lost watch resumes at its last version. If the server no longer has that history, or sent
 * garbled data, the reflector lists again. After garbled data the list replaces all known objects,
 * also those of the same version. If a list expires twice between its pages, the next list is a
 * single page.
 */
#ifndef KUBE_REFLECT_STATE_H
#define KUBE_REFLECT_STATE_H

#include "kube/backoff.h"

#define COURSE_STEADY_NS (UINT64_C(10) * 1000000000) /* a watch of this age resets the backoff */
#define COURSE_EXPIRED_MAX 2u
#define COURSE_ERRORS_MAX 2u

enum course_phase { COURSE_LIST, COURSE_WATCH };

enum course_end {
	COURSE_OK,      /* the list is complete; the server closed the watch regularly */
	COURSE_LOST,    /* the connection was lost, or silent for too long */
	COURSE_EXPIRED, /* 410 */
	COURSE_GARBLED,
	COURSE_REFUSED, /* another status or ERROR frame */
};

struct course {
	enum course_phase phase;
	bool is_replacing; /* the current or next list replaces all objects */
	bool is_unpaged;
	uint32_t n_expired, n_errors;
	struct backoff backoff;
};

#define COURSE_PAUSE_MAX_NS (UINT64_C(30) * 1000000000)

/* max_pause_ns limits the growing pauses; 0: COURSE_PAUSE_MAX_NS. */
void course_init(struct course *course, uint64_t max_pause_ns);

/*
 * The phase has ended after lived_ns: sets the next phase and returns the pause before it, which is
 * at least retry_after_ns (limited by RETRY_AFTER_MAX_NS).
 */
uint64_t course_end(struct course *course, enum course_end end, uint64_t lived_ns,
	uint64_t retry_after_ns, struct rand *rand);

#endif
