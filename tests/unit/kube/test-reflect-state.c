/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "kube/reflect-state.h"

static struct rand rand_of;

static uint64_t end(struct reflect_state *state, enum reflect_end how, uint64_t lived_ns)
{
	return reflect_state_end(state, how, lived_ns, 0, &rand_of);
}

static void begins_with_a_list_and_then_watches(void **state)
{
	struct reflect_state c;

	reflect_state_init(&c, 0);
	assert_int_equal(c.phase, REFLECT_LIST);
	assert_int_equal(end(&c, REFLECT_OK, 0), 0);
	assert_int_equal(c.phase, REFLECT_WATCH);
}

static void resumes_an_interrupted_watch(void **state)
{
	struct reflect_state c;
	uint64_t pause;

	reflect_state_init(&c, 0);
	end(&c, REFLECT_OK, 0);
	pause = end(&c, REFLECT_LOST, NSEC_PER_SEC);
	assert_int_equal(c.phase, REFLECT_WATCH);
	assert_in_range(pause, 1, NSEC_PER_SEC);
	/* The server closed the watch in good order after a while: resume at once. */
	assert_int_equal(end(&c, REFLECT_OK, 300 * NSEC_PER_SEC), 0);
	assert_int_equal(c.phase, REFLECT_WATCH);
	/* The server closes each watch at once: pause, to avoid a busy loop. */
	assert_true(end(&c, REFLECT_OK, 1) > 0);
}

static void lists_again_after_expiry(void **state)
{
	struct reflect_state c;

	reflect_state_init(&c, 0);
	end(&c, REFLECT_OK, 0);
	end(&c, REFLECT_EXPIRED, NSEC_PER_SEC);
	assert_int_equal(c.phase, REFLECT_LIST);
	assert_false(c.is_replacing);
	end(&c, REFLECT_EXPIRED, 0);
	assert_false(c.is_unpaged);
	end(&c, REFLECT_EXPIRED, 0);
	assert_true(c.is_unpaged);
	end(&c, REFLECT_OK, 0);
	assert_false(c.is_unpaged);
}

static void replaces_all_after_garbage(void **state)
{
	struct reflect_state c;

	reflect_state_init(&c, 0);
	end(&c, REFLECT_OK, 0);
	end(&c, REFLECT_GARBLED, NSEC_PER_SEC);
	assert_int_equal(c.phase, REFLECT_LIST);
	assert_true(c.is_replacing);
	end(&c, REFLECT_LOST, 0);
	assert_true(c.is_replacing);
	end(&c, REFLECT_OK, 0);
	assert_false(c.is_replacing);
}

static void replaces_all_after_a_garbled_page(void **state)
{
	struct reflect_state c;

	reflect_state_init(&c, 0);
	end(&c, REFLECT_GARBLED, 0);
	assert_int_equal(c.phase, REFLECT_LIST);
	assert_true(c.is_replacing);
}

static void lists_again_when_a_watch_is_refused_twice(void **state)
{
	struct reflect_state c;

	reflect_state_init(&c, 0);
	end(&c, REFLECT_OK, 0);
	end(&c, REFLECT_REFUSED, 0);
	assert_int_equal(c.phase, REFLECT_WATCH);
	end(&c, REFLECT_REFUSED, 0);
	assert_int_equal(c.phase, REFLECT_LIST);
}

static void waits_longer_until_a_watch_is_steady(void **state)
{
	struct reflect_state c;
	uint64_t last = 0;

	reflect_state_init(&c, 0);
	for (int i = 0; i < 20; i++) {
		last = end(&c, REFLECT_LOST, 0);
		end(&c, REFLECT_OK, 0);
		last = end(&c, REFLECT_GARBLED, NSEC_PER_SEC);
	}
	assert_true(last >= 15 * NSEC_PER_SEC);
	end(&c, REFLECT_OK, 0);
	assert_true(end(&c, REFLECT_LOST, REFLECT_STEADY_NS) < NSEC_PER_SEC);
	assert_true(reflect_state_end(&c, REFLECT_REFUSED, 0, 5 * NSEC_PER_SEC, &rand_of) >=
		5 * NSEC_PER_SEC);
}

UNIT_MAIN(UNIT(begins_with_a_list_and_then_watches), UNIT(resumes_an_interrupted_watch),
	UNIT(lists_again_after_expiry), UNIT(replaces_all_after_garbage),
	UNIT(replaces_all_after_a_garbled_page), UNIT(lists_again_when_a_watch_is_refused_twice),
	UNIT(waits_longer_until_a_watch_is_steady))
