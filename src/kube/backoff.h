/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether to try again, and when. Pure: the caller has the clock and the random numbers.
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

/* base * 2^tries, at most max, of which a random half to all: those who fail together part. */
uint64_t backoff_next_ns(struct backoff *backoff, struct rand *rand);

static inline void backoff_reset(struct backoff *backoff)
{
	backoff->tries = 0;
}

enum retry_policy {
	RETRY_NEVER,
	RETRY_UNPROCESSED, /* only where the server has surely not acted on it */
	RETRY_IDEMPOTENT,  /* also where it may have: doing it twice is doing it once */
};

/* How a try ended. */
struct retry_outcome {
	int http;                /* 0: no answer */
	bool is_unsent;          /* no connection, or the server said that it took no notice */
	bool is_answer_begun;    /* part of the answer has been handed over: too late */
	uint64_t retry_after_ns; /* what the server asks for; 0: nothing */
};

/* A server may ask for a longer pause than that, but is asked again after it. */
#define RETRY_AFTER_MAX_NS (UINT64_C(60) * 1000000000)

bool retry_is_allowed(enum retry_policy policy, const struct retry_outcome *outcome);

/* The server's wish or our own pause, whichever is longer; the wish is jittered upwards by 1/8. */
uint64_t retry_delay_ns(
	struct backoff *backoff, struct rand *rand, const struct retry_outcome *outcome);

#endif
