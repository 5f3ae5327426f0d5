/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "kube/backoff.h"

static void grows_to_its_limit_with_jitter(void **state)
{
	struct backoff b = {.base_ns = 100, .max_ns = 1000};
	const uint64_t most[] = {100, 200, 400, 800, 1000, 1000};
	struct rand rand = rand_seeded(1);

	for (size_t i = 0; i < ARRAY_SIZE(most); i++) {
		const uint64_t ns = backoff_next_ns(&b, &rand);

		assert_in_range(ns, most[i] / 2, most[i]);
	}
	backoff_reset(&b);
	assert_in_range(backoff_next_ns(&b, &rand), 50, 100);
}

static void is_the_same_for_the_same_seed(void **state)
{
	struct backoff a = {.base_ns = 1000000, .max_ns = CLOCK_NEVER / 4}, b = a;
	struct rand one = rand_seeded(7), other = rand_seeded(7);

	for (int i = 0; i < 80; i++)
		assert_int_equal(backoff_next_ns(&a, &one), backoff_next_ns(&b, &other));
}

static void tries_again_only_where_it_is_safe(void **state)
{
	static const struct {
		enum retry_policy policy;
		struct retry_outcome outcome;
		bool is_allowed;
	} cases[] = {
		{RETRY_NEVER, {.http = 429}, false},
		{RETRY_NEVER, {.is_unsent = true}, false},
		{RETRY_UNPROCESSED, {.http = 429}, true},
		{RETRY_UNPROCESSED, {.is_unsent = true}, true},
		{RETRY_UNPROCESSED, {.http = 503}, false},
		{RETRY_UNPROCESSED, {.http = 503, .retry_after_ns = NSEC_PER_SEC}, true},
		{RETRY_UNPROCESSED, {.http = 500, .retry_after_ns = NSEC_PER_SEC}, false},
		{RETRY_NEVER, {.http = 503, .retry_after_ns = NSEC_PER_SEC}, false},
		{RETRY_UNPROCESSED, {.http = 0}, false},
		{RETRY_IDEMPOTENT, {.http = 0}, true},
		{RETRY_IDEMPOTENT, {.http = 500}, true},
		{RETRY_IDEMPOTENT, {.http = 503}, true},
		{RETRY_IDEMPOTENT, {.http = 404}, false},
		{RETRY_IDEMPOTENT, {.http = 409}, false},
		{RETRY_IDEMPOTENT, {.http = 0, .is_answer_begun = true}, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(
			retry_is_allowed(cases[i].policy, &cases[i].outcome), cases[i].is_allowed);
}

static void waits_at_least_what_the_server_asks(void **state)
{
	struct backoff b = {.base_ns = 1, .max_ns = 10};
	struct rand rand = rand_seeded(3);
	struct retry_outcome outcome = {.http = 429, .retry_after_ns = 2 * NSEC_PER_SEC};

	assert_in_range(retry_delay_ns(&b, &rand, &outcome), 2 * NSEC_PER_SEC,
		2 * NSEC_PER_SEC + NSEC_PER_SEC / 4);
	outcome.retry_after_ns = 86400 * NSEC_PER_SEC;
	assert_in_range(retry_delay_ns(&b, &rand, &outcome), RETRY_AFTER_MAX_NS,
		RETRY_AFTER_MAX_NS + RETRY_AFTER_MAX_NS / 8);
}

UNIT_MAIN(UNIT(grows_to_its_limit_with_jitter), UNIT(is_the_same_for_the_same_seed),
	UNIT(tries_again_only_where_it_is_safe), UNIT(waits_at_least_what_the_server_asks))
