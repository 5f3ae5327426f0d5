/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether and when to try a request again. Pure: clock and random numbers come from the
 * caller.
 */
#ifndef KUBE_BACKOFF_H
#define KUBE_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rand.h"

struct backoff {
	uint64_t base_ns;
	uint64_t max_ns;
	uint32_t tries;
};

/*
 * Returns a random pause between half and all of base * 2^tries, at most max, and counts the try.
 * Randomness separates clients that fail together.
 */
uint64_t backoff_next_ns(struct backoff *backoff, struct rand *rand);

static inline void backoff_reset(struct backoff *backoff)
{
	backoff->tries = 0;
}

enum retry_policy {
	RETRY_NEVER,
	RETRY_UNPROCESSED, /* only if the server has certainly not acted on the request */
	RETRY_IDEMPOTENT,  /* also if the server may have acted: repetition has no further effect */
};

/* How a try ended. */
struct retry_outcome {
	int http;                /* 0: no answer */
	bool is_unsent;          /* no connection to the server was made */
	bool is_answer_begun;    /* part of the answer was passed on: no further try */
	uint64_t retry_after_ns; /* requested by the server; 0: none */
};

/* Longest pause that a server can request. */
#define RETRY_AFTER_MAX_NS (UINT64_C(60) * 1000000000)

bool retry_is_allowed(enum retry_policy policy, const struct retry_outcome *outcome);

/*
 * Returns the longer of two pauses: the one that the server requested, plus up to 1/8 at random,
 * and backoff_next_ns().
 */
uint64_t retry_delay_ns(
	struct backoff *backoff, struct rand *rand, const struct retry_outcome *outcome);

#endif
