/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reflector does next: list or watch, and after what pause. Pure.
 *
 * A watch that was cut goes on where it was. What the server no longer knows the history of, and
 * whatever came garbled, is listed again; after garbage everything listed replaces what is known,
 * also where the version is the same. Twice expired between the pages of a list: all in one page.
 */
#ifndef KUBE_COURSE_H
#define KUBE_COURSE_H

#include "kube/backoff.h"

#define COURSE_STEADY_NS (UINT64_C(10) * 1000000000) /* a watch of that age has succeeded */
#define COURSE_EXPIRED_MAX 2u
#define COURSE_ERRORS_MAX 2u

enum course_phase { COURSE_LIST, COURSE_WATCH };

enum course_end {
	COURSE_OK,      /* the list is complete; the watch was closed by the server in good order */
	COURSE_LOST,    /* the connection, or silence for too long */
	COURSE_EXPIRED, /* 410 */
	COURSE_GARBLED,
	COURSE_REFUSED, /* any other status, or ERROR frame */
};

struct course {
	enum course_phase phase;
	bool is_replacing; /* the list under way, or the next */
	bool is_unpaged;
	uint32_t n_expired, n_errors;
	struct backoff backoff;
};

#define COURSE_PAUSE_MAX_NS (UINT64_C(30) * 1000000000)

/* max_pause_ns: of the pauses of its own, which grow; 0: COURSE_PAUSE_MAX_NS. */
void course_init(struct course *course, uint64_t max_pause_ns);

/*
 * The phase is over, having lived that long: sets the next one and returns the pause before it, at
 * least what the server asks for.
 */
uint64_t course_end(struct course *course, enum course_end end, uint64_t lived_ns,
	uint64_t retry_after_ns, struct rand *rand);

#endif
