/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger of a device: admission, waiting, deadlocks, and that no memory is ever lost. */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/rand.h"
#include "core/ledger.h"

#define GI (1ull << 30)

static struct ledger *book(uint64_t usable)
{
	struct ledger *ledger = NULL;

	assert_ok(ledger_new(usable, 1500, &ledger));
	return ledger;
}

static int verdict(struct ledger *ledger, ledger_request *ret_request)
{
	struct ledger_verdict got;

	if (ledger_verdicts(ledger, &got, 1) == 0)
		return 1;
	*ret_request = got.request;
	return got.status;
}

static void fail_tenants_sum_to_the_usable_memory(void **state)
{
	struct ledger *ledger = book(10 * GI);
	struct error err = {0};

	assert_int_equal(ledger_room(ledger, SPEC_MEMORY_FAIL), 10 * GI);
	assert_ok(ledger_add(ledger, 1, 6 * GI, SPEC_MEMORY_FAIL, &err));
	assert_int_equal(ledger_add(ledger, 1, GI, SPEC_MEMORY_FAIL, &err), -EEXIST);
	assert_int_equal(ledger_add(ledger, 2, 5 * GI, SPEC_MEMORY_FAIL, &err), -ENOSPC);
	assert_contains(err.msg, "memory 5Gi");
	assert_contains(err.msg, "at most 4Gi is free now");
	assert_ok(ledger_add(ledger, 2, 4 * GI, SPEC_MEMORY_FAIL, &err));
	assert_int_equal(ledger_room(ledger, SPEC_MEMORY_FAIL), 0);
	assert_int_equal(ledger_change(ledger, 2, 5 * GI, &err), -ENOSPC);
	assert_ok(ledger_change(ledger, 1, 5 * GI, &err));
	assert_ok(ledger_change(ledger, 2, 5 * GI, &err));
	assert_int_equal(ledger_change(ledger, 3, 5 * GI, &err), -ENOENT);
	ledger_remove(ledger, 1);
	ledger_remove(ledger, 9);
	assert_int_equal(ledger_room(ledger, SPEC_MEMORY_FAIL), 5 * GI);
	assert_int_equal(ledger_quota(ledger, 2), 5 * GI);
	ledger_free(ledger);
	ledger_free(NULL);
}

/* A removed tenant's process still runs: its memory stays held until the process has ended. */
static void removed_tenants_hold_memory_until_their_processes_end(void **state)
{
	struct ledger *ledger = book(10 * GI);

	assert_ok(ledger_add(ledger, 1, 6 * GI, SPEC_MEMORY_FAIL, NULL));
	assert_ok(ledger_add(ledger, 2, 3 * GI, SPEC_MEMORY_SWAP, NULL));
	ledger_leave_held(ledger, 1, 1, 2 * GI);
	ledger_leave_held(ledger, 1, 2, 3 * GI);
	ledger_leave_held(ledger, 2, 1, 3 * GI); /* a swap tenant's memory moves to the host */
	ledger_remove(ledger, 1);
	ledger_remove(ledger, 2);
	assert_int_equal(ledger_room(ledger, SPEC_MEMORY_FAIL), 5 * GI);
	assert_int_equal(ledger_add(ledger, 3, 6 * GI, SPEC_MEMORY_FAIL, NULL), -ENOSPC);
	ledger_process_exited(ledger, 1, 2);
	assert_int_equal(ledger_room(ledger, SPEC_MEMORY_FAIL), 8 * GI);
	ledger_process_exited(ledger, 1, 1);
	assert_int_equal(ledger_room(ledger, SPEC_MEMORY_FAIL), 10 * GI);
	assert_ok(ledger_add(ledger, 1, 10 * GI, SPEC_MEMORY_FAIL, NULL));
	ledger_free(ledger);
}

/* Processes report what they hold: together they never keep more than the tenant's quota. */
static void removed_tenants_hold_no_more_than_their_quota(void **state)
{
	struct ledger *ledger = book(80 * GI);

	assert_ok(ledger_add(ledger, 1, 4 * GI, SPEC_MEMORY_FAIL, NULL));
	ledger_leave_held(ledger, 1, 1, 80 * GI);
	ledger_leave_held(ledger, 1, 2, 3 * GI);
	ledger_leave_held(ledger, 1, 3, 3 * GI); /* the same memory, shared with process 2 */
	ledger_remove(ledger, 1);
	assert_int_equal(ledger_room(ledger, SPEC_MEMORY_FAIL), 76 * GI);
	/* each living process may hold all that it reported */
	ledger_process_exited(ledger, 1, 1);
	assert_int_equal(ledger_room(ledger, SPEC_MEMORY_FAIL), 76 * GI);
	ledger_process_exited(ledger, 1, 2);
	assert_int_equal(ledger_room(ledger, SPEC_MEMORY_FAIL), 77 * GI);
	ledger_process_exited(ledger, 1, 3);
	assert_int_equal(ledger_room(ledger, SPEC_MEMORY_FAIL), 80 * GI);
	ledger_free(ledger);
}

static void wait_and_swap_tenants_share_the_rest(void **state)
{
	struct ledger *ledger = book(10 * GI);

	assert_ok(ledger_add(ledger, 1, 4 * GI, SPEC_MEMORY_FAIL, NULL));
	/*
	 * 6 GiB are left. The quotas of wait and swap tenants may sum to 9 GiB, but the quota of a
	 * wait tenant must fit into the 6 GiB.
	 */
	assert_int_equal(ledger_room(ledger, SPEC_MEMORY_WAIT), 6 * GI);
	assert_int_equal(ledger_room(ledger, SPEC_MEMORY_SWAP), 9 * GI);
	assert_ok(ledger_add(ledger, 2, 6 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_int_equal(ledger_room(ledger, SPEC_MEMORY_WAIT), 3 * GI);
	assert_ok(ledger_add(ledger, 3, 3 * GI, SPEC_MEMORY_SWAP, NULL));
	assert_int_equal(ledger_room(ledger, SPEC_MEMORY_SWAP), 0);
	/*
	 * A fail tenant may not take memory on which the quotas of the wait and swap tenants rely.
	 */
	assert_true(ledger_room(ledger, SPEC_MEMORY_FAIL) < GI);
	ledger_free(ledger);
}

static void a_request_waits_until_it_fits(void **state)
{
	struct ledger *ledger = book(10 * GI);
	ledger_request request = 0;

	assert_ok(ledger_add(ledger, 1, 6 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_ok(ledger_add(ledger, 2, 6 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_ok(ledger_reserve(ledger, 1, 1, 6 * GI, 1, 0));
	assert_int_equal(ledger_reserve(ledger, 1, 1, 1, 2, 0), -ENOMEM); /* above its quota */
	assert_ok(ledger_reserve(ledger, 2, 1, 4 * GI, 3, 0));
	assert_int_equal(ledger_reserve(ledger, 2, 2, 2 * GI, 4, 1), -EINPROGRESS);
	assert_int_equal(verdict(ledger, &request), 1);
	ledger_release(ledger, 1, 1, GI);
	assert_int_equal(verdict(ledger, &request), 1);
	ledger_release(ledger, 1, 1, GI);
	assert_ok(verdict(ledger, &request));
	assert_int_equal(request, 4);
	assert_int_equal(ledger_used(ledger, 1), 4 * GI);
	assert_int_equal(ledger_used(ledger, 2), 6 * GI);
	ledger_release(ledger, 2, 1, 100 * GI); /* at most what the process holds */
	assert_int_equal(ledger_used(ledger, 2), 2 * GI);
	ledger_free(ledger);
}

/* No other tenant gets memory that one process takes over from another of the same tenant. */
static void moved_memory_bypasses_waiting_requests(void **state)
{
	struct ledger *ledger = book(10 * GI);
	ledger_request request = 0;

	assert_ok(ledger_add(ledger, 1, 6 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_ok(ledger_add(ledger, 2, 6 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_ok(ledger_reserve(ledger, 1, 1, 6 * GI, 1, 0));
	assert_int_equal(ledger_reserve(ledger, 2, 1, 6 * GI, 2, 0), -EINPROGRESS);
	ledger_move(ledger, 1, 1, 2, 4 * GI);
	ledger_move(ledger, 1, 1, 1, GI);
	ledger_move(ledger, 1, 3, 2, GI); /* process 3 holds nothing */
	ledger_move(ledger, 9, 1, 2, GI);
	assert_int_equal(ledger_used(ledger, 1), 6 * GI);
	assert_int_equal(verdict(ledger, &request), 1);
	ledger_process_exited(ledger, 1, 1);
	assert_int_equal(ledger_used(ledger, 1), 4 * GI);
	assert_ok(verdict(ledger, &request));
	assert_int_equal(request, 2);
	ledger_move(ledger, 1, 2, 1, 9 * GI); /* all that process 2 holds */
	ledger_process_exited(ledger, 1, 2);
	assert_int_equal(ledger_used(ledger, 1), 4 * GI);
	ledger_process_exited(ledger, 1, 1);
	assert_int_equal(ledger_used(ledger, 1), 0);
	ledger_free(ledger);
}

/* Each tenant holds half and wants more: the ledger refuses the younger request. */
static void a_deadlock_refuses_the_youngest_request(void **state)
{
	struct ledger *ledger = book(10 * GI);
	ledger_request request = 0;

	assert_ok(ledger_add(ledger, 1, 7 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_ok(ledger_add(ledger, 2, 7 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_ok(ledger_reserve(ledger, 1, 1, 5 * GI, 1, 10));
	assert_ok(ledger_reserve(ledger, 2, 1, 5 * GI, 2, 11));
	assert_int_equal(ledger_reserve(ledger, 1, 1, GI, 3, 12), -EINPROGRESS);
	assert_int_equal(ledger_reserve(ledger, 2, 1, GI, 4, 13), -EINPROGRESS);
	assert_int_equal(verdict(ledger, &request), -ENOMEM);
	assert_int_equal(request, 4);
	assert_int_equal(verdict(ledger, &request), 1);
	/* The other request is granted when the refused tenant's process ends. */
	ledger_process_exited(ledger, 2, 1);
	assert_ok(verdict(ledger, &request));
	assert_int_equal(request, 3);
	ledger_free(ledger);
}

/*
 * Each tenant holds half of its quota and wants the other half. Only the requests of tenants 2 and
 * 3, which are small, fit.
 */
static void a_request_that_fits_is_granted_before_any_is_refused(void **state)
{
	struct ledger *ledger;
	ledger_request request = 0;

	assert_ok(ledger_new(40 * GI, 1500, &ledger));
	assert_ok(ledger_add(ledger, 1, 32 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_ok(ledger_add(ledger, 2, 8 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_ok(ledger_add(ledger, 3, 16 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_ok(ledger_reserve(ledger, 1, 1, 16 * GI, 1, 0));
	assert_ok(ledger_reserve(ledger, 2, 1, 4 * GI, 2, 1));
	assert_ok(ledger_reserve(ledger, 3, 1, 8 * GI, 3, 2));
	/* Tenant 3 runs on and may free memory for tenant 1: no request overtakes tenant 1's. */
	assert_int_equal(ledger_reserve(ledger, 1, 1, 16 * GI, 4, 3), -EINPROGRESS);
	assert_int_equal(ledger_reserve(ledger, 2, 1, 4 * GI, 5, 4), -EINPROGRESS);
	assert_int_equal(verdict(ledger, &request), 1);
	/*
	 * Now all tenants wait. The ledger grants tenant 2's request, the older of the two small
	 * ones, and tenant 1 waits until tenant 2 has ended.
	 */
	assert_int_equal(ledger_reserve(ledger, 3, 1, 8 * GI, 6, 5), -EINPROGRESS);
	assert_ok(verdict(ledger, &request));
	assert_int_equal(request, 5);
	assert_int_equal(verdict(ledger, &request), 1);
	ledger_process_exited(ledger, 2, 1);
	assert_ok(verdict(ledger, &request));
	assert_int_equal(request, 4);
	assert_int_equal(verdict(ledger, &request), 1);
	ledger_process_exited(ledger, 1, 1);
	assert_ok(verdict(ledger, &request));
	assert_int_equal(request, 6);
	ledger_free(ledger);
}

static void requests_of_ended_processes_are_canceled(void **state)
{
	struct ledger *ledger = book(10 * GI);
	ledger_request request = 0;

	assert_ok(ledger_add(ledger, 1, 10 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_ok(ledger_add(ledger, 2, 5 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_ok(ledger_reserve(ledger, 1, 1, 10 * GI, 1, 0));
	assert_int_equal(ledger_reserve(ledger, 2, 7, GI, 2, 1), -EINPROGRESS);
	assert_int_equal(ledger_reserve(ledger, 2, 8, GI, 3, 2), -EINPROGRESS);
	ledger_process_exited(ledger, 2, 7);
	assert_int_equal(verdict(ledger, &request), -ECANCELED);
	assert_int_equal(request, 2);
	ledger_remove(ledger, 2);
	assert_int_equal(verdict(ledger, &request), -ECANCELED);
	assert_int_equal(request, 3);
	assert_int_equal(ledger_reserve(ledger, 2, 8, GI, 3, 2), -ENOENT);
	ledger_free(ledger);
}

/* A small request of another tenant does not overtake a large one for ever. */
static void large_requests_do_not_starve(void **state)
{
	struct ledger *ledger = book(10 * GI);
	ledger_request request = 0;

	assert_ok(ledger_add(ledger, 1, 5 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_ok(ledger_add(ledger, 2, 8 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_ok(ledger_reserve(ledger, 1, 1, 4 * GI, 1, 0));
	assert_int_equal(ledger_reserve(ledger, 2, 1, 8 * GI, 2, 1), -EINPROGRESS);
	assert_int_equal(ledger_reserve(ledger, 1, 2, GI, 3, 2), -EINPROGRESS);
	ledger_release(ledger, 1, 1, 4 * GI);
	assert_ok(verdict(ledger, &request));
	assert_int_equal(request, 2);
	assert_ok(verdict(ledger, &request));
	assert_int_equal(request, 3);
	ledger_free(ledger);
}

static void swap_tenants_use_no_device_memory(void **state)
{
	struct ledger *ledger = book(10 * GI);

	assert_ok(ledger_add(ledger, 1, 8 * GI, SPEC_MEMORY_SWAP, NULL));
	assert_ok(ledger_add(ledger, 2, 7 * GI, SPEC_MEMORY_SWAP, NULL));
	assert_ok(ledger_reserve(ledger, 1, 1, 8 * GI, 1, 0));
	assert_ok(ledger_reserve(ledger, 2, 1, 7 * GI, 2, 0));
	assert_int_equal(ledger_reserve(ledger, 2, 1, 1, 3, 0), -ENOMEM);
	ledger_free(ledger);
}

/* The quota falls below what is in use: new requests fail until they fit. */
static void a_quota_below_use_refuses_new_requests(void **state)
{
	struct ledger *ledger = book(10 * GI);

	assert_ok(ledger_add(ledger, 1, 8 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_ok(ledger_reserve(ledger, 1, 1, 6 * GI, 1, 0));
	assert_ok(ledger_change(ledger, 1, 4 * GI, NULL));
	assert_int_equal(ledger_reserve(ledger, 1, 1, 1, 2, 0), -ENOMEM);
	ledger_release(ledger, 1, 1, 3 * GI);
	assert_ok(ledger_reserve(ledger, 1, 1, GI, 3, 0));
	ledger_free(ledger);
}

static void requests_are_bounded(void **state)
{
	struct ledger *ledger = book(10 * GI);
	int r = -EINPROGRESS;
	uint32_t n = 0;

	assert_ok(ledger_add(ledger, 1, 10 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_ok(ledger_add(ledger, 2, 5 * GI, SPEC_MEMORY_WAIT, NULL));
	assert_ok(ledger_reserve(ledger, 1, 1, 10 * GI, 0, 0));
	for (; r == -EINPROGRESS && n < 100000; n++)
		r = ledger_reserve(ledger, 2, n, 1, n, n);
	assert_int_equal(r, -ENOMEM);
	assert_true(n > 1000);
	ledger_free(ledger);
}

/*
 * After events in any order, the ledger never holds more than the device has, has answered every
 * request, and gets all memory back.
 */
static void random_events_lose_no_memory(void **state)
{
	for (uint64_t seed = 0; seed < 200; seed++) {
		struct rand rand = rand_seeded(seed);
		struct ledger *ledger = book(100);
		struct ledger_verdict got[64];
		uint64_t open = 0;
		size_t n;

		assert_ok(ledger_add(ledger, 1, 20, SPEC_MEMORY_FAIL, NULL));
		for (uint32_t t = 2; t < 5; t++)
			assert_ok(ledger_add(ledger, t, 40, SPEC_MEMORY_WAIT, NULL));
		for (uint64_t i = 0; i < 500; i++) {
			uint32_t tenant = 2 + (uint32_t)rand_below(&rand, 3);
			uint32_t process = (uint32_t)rand_below(&rand, 3);
			uint64_t sum = 0;

			switch (rand_below(&rand, 3)) {
			case 0:
				if (ledger_reserve(ledger, tenant, process,
					    1 + rand_below(&rand, 20), i, i) == -EINPROGRESS)
					open++;
				break;
			case 1:
				ledger_release(ledger, tenant, process, rand_below(&rand, 20));
				break;
			default:
				if (rand_below(&rand, 10) == 0)
					ledger_process_exited(ledger, tenant, process);
			}
			open -= ledger_verdicts(ledger, got, ARRAY_SIZE(got));
			for (uint32_t t = 2; t < 5; t++) {
				assert_true(ledger_used(ledger, t) <= 40);
				sum += ledger_used(ledger, t);
			}
			assert_true(sum <= 80);
		}
		for (uint32_t t = 2; t < 5; t++) {
			for (uint32_t p = 0; p < 2; p++)
				ledger_process_exited(ledger, t, p);
			ledger_remove(ledger, t);
			ledger_process_exited(ledger, t, 2);
			assert_int_equal(ledger_used(ledger, t), 0);
		}
		while ((n = ledger_verdicts(ledger, got, ARRAY_SIZE(got))))
			open -= n;
		assert_int_equal(open, 0);
		assert_int_equal(ledger_room(ledger, SPEC_MEMORY_FAIL), 80);
		ledger_free(ledger);
	}
}

UNIT_MAIN(UNIT(fail_tenants_sum_to_the_usable_memory),
	UNIT(removed_tenants_hold_memory_until_their_processes_end),
	UNIT(removed_tenants_hold_no_more_than_their_quota),
	UNIT(wait_and_swap_tenants_share_the_rest), UNIT(a_request_waits_until_it_fits),
	UNIT(moved_memory_bypasses_waiting_requests), UNIT(a_deadlock_refuses_the_youngest_request),
	UNIT(a_request_that_fits_is_granted_before_any_is_refused),
	UNIT(requests_of_ended_processes_are_canceled), UNIT(large_requests_do_not_starve),
	UNIT(swap_tenants_use_no_device_memory), UNIT(a_quota_below_use_refuses_new_requests),
	UNIT(requests_are_bounded), UNIT(random_events_lose_no_memory))
