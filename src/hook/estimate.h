/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates the device time of submissions from the times at which markers were seen complete.
 *
 * The exact time of a completion is unknown: it lies between the time `from` of the last look that
 * did not see the completion and the time `to` of the first look that did. From these and the
 * predicted time, this code estimates the end:
 *   predicted time before `from`           from
 *   predicted time after `to`              to
 *   the looks are more than 1 ms apart     the predicted time
 *   otherwise                              mean of predicted time and from + (to - from) / 4
 * The end of one segment is the beginning of the next, so the samples add up to the elapsed time,
 * and errors cancel.
 *
 * Where each submission has a marker of its own, keys distinguish kinds of submissions. Equal keys
 * stand for submissions of about equal length: a kernel with its launch's shape.
 *
 * Pure: no clock, and no memory of its own. Times are in ns. The caller locks.
 */
#ifndef HOOK_ESTIMATE_H
#define HOOK_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

#define ESTIMATE_EVERY_MAX 4096u /* submissions between two markers */
#define ESTIMATE_KINDS 256u      /* distinct kinds */

struct estimate_kind {
	uint64_t key; /* 0: none */
	uint64_t ns;
};

struct estimate {
	uint64_t sub_ns;    /* mean time of one submission; 0: unknown */
	uint64_t spread_ns; /* mean error of the prediction of a segment's time */
	/* mean error of a prediction that takes all submissions as equally long */
	uint64_t rough_ns;
	uint64_t longest_ns; /* time of the longest submission, decaying */
	uint64_t done_ns;    /* estimated end of the last segment */
	uint64_t looked_ns;  /* time of the last look */
	/* sub_ns = sum_ns / (sum_subs / 256): the unit of sum_subs is 1/256 submission. */
	uint64_t sum_ns, sum_subs;
	bool is_guess; /* sub_ns is only an upper bound, because no look was close to an end */
	struct estimate_kind kind[ESTIMATE_KINDS];
};

/*
 * Work that one look found complete. Start with a zeroed struct, then call estimate_add() for each
 * segment (the submissions that one marker covers).
 */
struct estimate_end {
	uint64_t issued;       /* when the first submission was handed to the driver */
	uint64_t predicted_ns; /* sum of the segments' estimate_time() */
	uint64_t key; /* key of the only segment, or of the only segment of unknown kind; else 0 */
	uint64_t others_ns; /* predicted time of the other segments */
	uint32_t subs, unknowns;
	bool has_more; /* more work is queued behind this work: the device was not idle since */
	bool is_corun; /* other tenants' work may have run meanwhile */
};

/* Time of one submission of the kind `key`; 0: unknown. */
uint64_t estimate_kind(const struct estimate *e, uint64_t key);

/* Time of `subs` submissions. key: kind of a single submission, else 0. Returns 0 if unknown. */
uint64_t estimate_time(const struct estimate *e, uint64_t key, uint32_t subs);

/* Other tenants had the device until `at`: the work in flight did not run before `at`. */
void estimate_began(struct estimate *e, uint64_t at);

/* Notes a look that found nothing new. */
void estimate_look(struct estimate *e, uint64_t now);

void estimate_add(const struct estimate *e, struct estimate_end *end, uint64_t issued, uint64_t key,
	uint32_t subs);

/*
 * Notes a look that found completed work. If other tenants' work ran meanwhile, the measured time
 * is only an upper bound.
 */
void estimate_ended(struct estimate *e, const struct estimate_end *end, uint64_t now);

/*
 * Returns how many submissions one marker should cover, 1..4096. `every`: the number until now;
 * window: the in-flight window in ns.
 */
uint32_t estimate_every(const struct estimate *e, uint32_t every, uint64_t window);

/*
 * Work in flight. Start with a zeroed struct, then call estimate_queue() for each segment, the
 * oldest first.
 */
struct estimate_queue {
	uint64_t ns;        /* predicted time until all work in flight completes */
	uint64_t spread_ns; /* mean error of `ns` */
	uint32_t segments;
};

void estimate_queue(const struct estimate *e, struct estimate_queue *queue, uint64_t issued,
	uint64_t key, uint32_t subs, uint64_t now);

/* Whether the next submission must wait. */
bool estimate_is_full(
	const struct estimate *e, const struct estimate_queue *queue, uint64_t window);

/*
 * Time to sleep before the next look while submissions wait; 0: the next `every` submissions may
 * go.
 */
uint64_t estimate_wait(const struct estimate *e, const struct estimate_queue *queue, uint32_t every,
	uint64_t window);

#endif
