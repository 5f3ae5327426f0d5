/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a submission takes on the device, told from when markers were seen to be reached.
 *
 * Nobody tells when the device reached a marker; it is only known to lie between the last look that did
 * not see it and the first that did. Where the prediction lies in between it is believed, but a little
 * earlier if these are two of many looks; else the nearer bound is. What is taken for the end of one is
 * the beginning of the next, so that the samples add up to the time that has passed, and errors cancel.
 *
 * Pure: no clock, no memory of its own. Times in ns. The caller locks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ESTIMATE_EVERY_MAX 4096u /* submissions between two markers */

struct estimate {
	uint64_t sub_ns;           /* mean time of one submission; 0: unknown */
	uint64_t spread_ns;        /* mean distance of a segment's time from what was predicted */
	uint64_t longest_ns;       /* longest submission, decaying */
	uint64_t done_ns;          /* when the last segment ended, as far as can be told */
	uint64_t looked_ns;        /* the last look */
	uint64_t sum_ns, sum_subs; /* of which sub_ns is the quotient; subs in 1/256 */
	bool is_guess;             /* sub_ns is what it was at most: nobody saw an end in time */
};

/* A look that found nothing new. */
void estimate_look(struct estimate *e, uint64_t now);

/*
 * A look that found `subs` >= 1 submissions ended, the first of them handed to the driver at `issued`.
 * has_more: others are queued behind them, so that the device has not idled since. is_beside: others'
 * work may have been on the device meanwhile; then they took so long at most.
 */
void estimate_ended(struct estimate *e, uint64_t issued, uint32_t subs, bool has_more,
	bool is_beside, uint64_t now);

/* Submissions between two markers, after `every`, when `window` may be queued: 1..4096. */
uint32_t estimate_every(const struct estimate *e, uint32_t every, uint64_t window);

/* With queued_ns predicted to be queued, in so many segments: must the next submission be held back? */
bool estimate_is_full(
	const struct estimate *e, uint64_t queued_ns, uint32_t segments, uint64_t window);

/* Held back: how long to sleep before the next look; 0: the next `every` submissions may go. */
uint64_t estimate_wait(const struct estimate *e, uint64_t queued_ns, uint32_t segments,
	uint32_t every, uint64_t window);
