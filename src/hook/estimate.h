/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a submission takes on the device, told from when markers were seen to be reached.
 *
 * Nobody tells when the device reached a marker; it is only known to lie between the last look
 * that did not see it and the first that did. Where the prediction lies in between it is
 * believed, but a little earlier if these are two of many looks; else the nearer bound is. What
 * is taken for the end of one is the beginning of the next, so that the samples add up to the
 * time that has passed, and errors cancel.
 *
 * Where each submission has a marker of its own, kinds of them are told apart by keys, of which
 * equal ones stand for submissions that take equally long, more or less: a kernel with its
 * launch's shape.
 *
 * Pure: no clock, no memory of its own. Times in ns. The caller locks.
 */
#ifndef HOOK_ESTIMATE_H
#define HOOK_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

#define ESTIMATE_EVERY_MAX 4096u /* submissions between two markers */
#define ESTIMATE_KINDS 256u      /* told apart */

struct estimate_kind {
	uint64_t key; /* 0: none */
	uint64_t ns;
};

struct estimate {
	uint64_t sub_ns;           /* mean time of one submission; 0: unknown */
	uint64_t spread_ns;        /* mean distance of a segment's time from what was predicted, */
	uint64_t rough_ns;         /* and from what it would be if all were alike */
	uint64_t longest_ns;       /* longest submission, decaying */
	uint64_t done_ns;          /* when the last segment ended, as far as can be told */
	uint64_t looked_ns;        /* the last look */
	uint64_t sum_ns, sum_subs; /* of which sub_ns is the quotient; subs in 1/256 */
	bool is_guess;             /* sub_ns is what it was at most: nobody saw an end in time */
	struct estimate_kind kind[ESTIMATE_KINDS];
};

/* What one look found ended. Zero at first, then estimate_add for each segment. */
struct estimate_end {
	uint64_t issued;       /* when the first of them was handed to the driver */
	uint64_t predicted_ns; /* the sum of their estimate_time */
	uint64_t key;          /* of the only one, or the only one of an unknown kind; else 0 */
	uint64_t others_ns;    /* what the others take */
	uint32_t subs, unknowns;
	bool has_more;  /* others are queued behind them, so that the device has not idled since */
	bool is_beside; /* others' work may have been on the device meanwhile */
};

/* What one of that kind takes, 0: unknown. */
uint64_t estimate_kind(const struct estimate *e, uint64_t key);

/* What `subs` submissions take, of which the only one has that key, or 0. 0: unknown. */
uint64_t estimate_time(const struct estimate *e, uint64_t key, uint32_t subs);

/* What is under way has not run before: the device was others' till then. */
void estimate_began(struct estimate *e, uint64_t at);

/* A look that found nothing new. */
void estimate_look(struct estimate *e, uint64_t now);

void estimate_add(const struct estimate *e, struct estimate_end *end, uint64_t issued, uint64_t key,
	uint32_t subs);

/* A look that found some ended; those beside others' work took so long at most. */
void estimate_ended(struct estimate *e, const struct estimate_end *end, uint64_t now);

/* Submissions between two markers, after `every`, when `window` may be queued: 1..4096. */
uint32_t estimate_every(const struct estimate *e, uint32_t every, uint64_t window);

/* What is under way. Zero at first, then estimate_queue for each segment, oldest first. */
struct estimate_queue {
	uint64_t ns;        /* predicted until its end */
	uint64_t spread_ns; /* that may be off by so much, on average */
	uint32_t segments;
};

void estimate_queue(const struct estimate *e, struct estimate_queue *queue, uint64_t issued,
	uint64_t key, uint32_t subs, uint64_t now);

/* Must the next submission be held back? */
bool estimate_is_full(
	const struct estimate *e, const struct estimate_queue *queue, uint64_t window);

/* Held back: how long to sleep before the next look; 0: the next `every` submissions may go. */
uint64_t estimate_wait(const struct estimate *e, const struct estimate_queue *queue, uint32_t every,
	uint64_t window);

#endif
