/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the pauses between the tries of a request and decides which failures allow another try.
 * Doubling ends at `max_ns`, and the number of tries stops at UINT32_MAX instead of wrapping to 0.
 * The functions change only the backoff and the random generator that the caller passes. Any thread
 * may therefore call these functions on objects of its own.
 */
#include "kube/backoff.h"

#include "base/cleanup.h"

uint64_t backoff_next_ns(struct backoff *backoff, struct rand *rand)
{
	uint64_t ns = backoff->base_ns;

	for (uint32_t i = 0; i < backoff->tries && ns < backoff->max_ns; i++)
		ns *= 2;
	if (backoff->tries < UINT32_MAX)
		backoff->tries++;
	ns = MIN(ns, backoff->max_ns);
	return ns / 2 + rand_below(rand, ns - ns / 2 + 1);
}

bool retry_is_allowed(enum retry_policy policy, const struct retry_outcome *outcome)
{
	if (policy == RETRY_NEVER || outcome->is_answer_begun)
		return false;
	/*
	 * The server has not acted on a request that it answers with 429 (too many requests, or a
	 * new resource that is not ready), nor on one that a starting or stopping server answers
	 * with 503 and Retry-After.
	 */
	if (outcome->is_unsent || outcome->http == 429 ||
		(outcome->http == 503 && outcome->retry_after_ns))
		return true;
	if (policy == RETRY_UNPROCESSED)
		return false;
	return outcome->http == 0 || outcome->http >= 500;
}

uint64_t retry_delay_ns(
	struct backoff *backoff, struct rand *rand, const struct retry_outcome *outcome)
{
	const uint64_t own_ns = backoff_next_ns(backoff, rand);
	const uint64_t wanted_ns = MIN(outcome->retry_after_ns, RETRY_AFTER_MAX_NS);

	return MAX(own_ns, wanted_ns + rand_below(rand, wanted_ns / 8 + 1));
}
