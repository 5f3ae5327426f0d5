/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One allocation fails during the scheduler's decisions, each in turn. All pods must still be bound
 * when there is memory again, and no place may stay taken.
 */
#include "unit.h"

#include <stdio.h>

#include "acts.h"
#include "base/cleanup.h"

static long fails_in; /* allocations until the one that fails; 0: none */

static bool is_out(void)
{
	return fails_in && --fails_in == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_malloc(size_t size)
{
	return is_out() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return is_out() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return is_out() ? NULL : __real_realloc(p, size);
}

#define GROUP "'divvy.gpu/group':'g','divvy.gpu/group-size':'2'"

static const char *const names[] = {"alone", "first", "second", "last"};

/* Decides until nothing is left to do. Returns the pods that were bound, a bit each. */
static unsigned decide(void)
{
	struct sched_action action;
	struct error err;
	unsigned bound = 0;
	int r;

	while ((r = sched_next(sched, &action, &err)) != 0)
		for (unsigned i = 0; r > 0 && i < ARRAY_SIZE(names); i++)
			if (action.act == SCHED_BIND && !strcmp(cpod_name(action.pod), names[i]))
				bound |= 1u << i;
	return bound;
}

static void no_pod_is_lost_with_an_allocation(void **state)
{
	bool has_failed = true;

	for (long k = 1; has_failed; k++) {
		unsigned bound;

		acts_begin(state);
		add_node("n1", 2);
		add_pod("alone", SHARE("0.3"), "");
		add_pod("first", SHARE("0.6") "," GROUP, "");
		add_pod("second", SHARE("0.6") "," GROUP, "");
		fails_in = k;
		bound = decide();
		has_failed = !fails_in;
		fails_in = 0;
		for (int i = 0; i < 10; i++) {
			pass(30);
			add_lease("n1", i % 2 ? "2026-01-03T00:00:01Z" : "2026-01-03T00:00:02Z");
			bound |= decide();
		}
		/* This pod fits only if the failed allocation has left no other capacity taken. */
		add_pod("last", SHARE("0.4"), "");
		bound |= decide();
		if (bound != (1u << ARRAY_SIZE(names)) - 1)
			fail_msg("allocation %ld: pods %x are bound", k, bound);
		acts_end(state);
	}
}

UNIT_MAIN(UNIT(no_pod_is_lost_with_an_allocation))
