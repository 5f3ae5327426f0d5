/* SPDX-License-Identifier: Apache-2.0 */
/* The table of shared memory: its bounds, and what the ids of a hostile program cost. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

/* The test looks at the hash chains. */
#include "agent/agent-share.c"
#include "base/cleanup.h"

#define PROCESSES 6u
#define BYTES 4096u
#define CHAIN_MAX 64u

_Static_assert((PROCESSES - 2) * SHARES_MAX >= SHARE_HOLDERS_MAX, "they reach the bound");

static uint64_t unbooked_bytes, moved_bytes;

void memory_add_charge(struct process *p, uint32_t at, uint64_t bytes)
{
}

void memory_release(struct tenant_device *td, const struct process *p, uint64_t bytes)
{
	unbooked_bytes += bytes;
}

void memory_rebook(struct tenant_device *td, const struct process *from, const struct process *to,
	uint64_t bytes)
{
	moved_bytes += bytes;
}

struct place {
	struct device device;
	struct page_tenant page;
	struct tenant *tenant;
	struct tenant_device td;
	struct process *process[PROCESSES];
	uint32_t seq;
};

static void place_init(struct place *at)
{
	*at = (struct place){.device = {.info = {.memory_bytes = UINT64_C(80) << 30}}};
	at->tenant = calloc(1, sizeof(*at->tenant));
	assert_non_null(at->tenant);
	at->td = (struct tenant_device){.tenant = at->tenant,
		.device = &at->device,
		.page = &at->page,
		.quota_bytes = UINT64_C(1) << 30};
	for (uint32_t i = 0; i < PROCESSES; i++) {
		at->process[i] = calloc(1, sizeof(*at->process[i]) + sizeof(struct process_device));
		assert_non_null(at->process[i]);
	}
}

static void place_done(struct place *at)
{
	share_done(&at->td);
	free(at->tenant);
	for (uint32_t i = 0; i < PROCESSES; i++)
		free(at->process[i]);
}

static int add(struct place *at, uint32_t process, uint64_t id)
{
	return share_add(&at->td, at->process[process], id, BYTES, false, &at->seq);
}

static uint64_t held(const struct place *at, uint32_t process)
{
	return share_bytes(&at->td, at->process[process]) / BYTES;
}

static uint32_t longest_chain(const struct share_table *table)
{
	uint32_t longest = 0;

	for (uint32_t i = 0; i < BUCKETS; i++) {
		const struct share *s;
		uint32_t n = 0;

		LIST_FOREACH(s, &table->bucket[i], link)
			n++;
		longest = MAX(longest, n);
	}
	return longest;
}

/* A program chooses its ids. Knowing this source does not let it choose ids that collide. */
static void ids_spread_over_the_chains(void **state)
{
	struct place at;
	uint32_t n = 0;

	place_init(&at);
	/* These ids collide under a multiplicative hash. */
	for (uint64_t id = 1; n < SHARES_MAX; id++)
		if ((uint32_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 56) == 7) {
			assert_int_equal(add(&at, 0, id), 1);
			n++;
		}
	assert_in_range(longest_chain(at.td.shares), 1, CHAIN_MAX);
	place_done(&at);
	place_init(&at);
	for (uint64_t i = 0; i < SHARES_MAX; i++) /* the low bits are the same */
		assert_int_equal(add(&at, 0, i << 40 | 1), 1);
	assert_in_range(longest_chain(at.td.shares), 1, CHAIN_MAX);
	place_done(&at);
}

/* Two tables hash the same ids differently. */
static void two_tables_hash_the_same_ids_differently(void **state)
{
	struct place a, b;
	uint32_t n_same = 0;

	place_init(&a);
	place_init(&b);
	assert_int_equal(add(&a, 0, 1), 1);
	assert_int_equal(add(&b, 0, 1), 1);
	for (uint64_t id = 0; id < 1000; id++)
		n_same += share_bucket(a.td.shares, id) == share_bucket(b.td.shares, id);
	assert_in_range(n_same, 0, 100);
	place_done(&a);
	place_done(&b);
}

static void holders_are_bounded(void **state)
{
	uint32_t n = 0, last = 0;
	struct place at;
	uint64_t id;

	place_init(&at);
	while (n < SHARE_HOLDERS_MAX) {
		last = n / SHARES_MAX;
		id = n % SHARES_MAX + 1;
		assert_int_equal(add(&at, last, id), last ? 0 : 1);
		n++;
	}
	assert_int_equal(add(&at, last + 1, 1), -ENOSPC);
	assert_int_equal(held(&at, last + 1), 0);
	assert_int_equal(add(&at, last, 1), 0); /* this process is a holder already */
	share_remove(&at.td, at.process[0], 1, &at.seq);
	assert_int_equal(held(&at, 0), SHARES_MAX - 1);
	assert_int_equal(add(&at, last + 1, 1), 0);
	assert_int_equal(held(&at, last + 1), 1);
	assert_int_equal(add(&at, last + 1, 2), -ENOSPC);
	assert_int_equal(ledger_counter_pages(&at.page), SHARES_MAX * ledger_pages(BYTES));
	/* an import that the limit of holders refuses charges no process */
	share_remove_process(&at.td, at.process[0], 0, &at.seq);
	assert_int_equal(held(&at, 0), 0);
	for (uint32_t i = 1; i < PROCESSES; i++)
		share_remove_process(&at.td, at.process[i], 0, &at.seq);
	share_look(&at.td, &(struct open_locks){0}, 1, &at.seq);
	assert_int_equal(ledger_counter_pages(&at.page), 0);
	assert_int_equal(add(&at, 0, 1), 1);
	place_done(&at);
}

/*
 * The ledger charges one holder until the last holder lets go. In an ending tenant, the exit of the
 * charged process frees its memory.
 */
static void one_holder_at_a_time_is_charged(void **state)
{
	struct place at;

	place_init(&at);
	unbooked_bytes = moved_bytes = 0;
	for (uint64_t id = 1; id <= 2; id++) {
		assert_int_equal(add(&at, 0, id), 1);
		assert_int_equal(add(&at, 1, id), 0);
	}
	share_remove(&at.td, at.process[0], 1, &at.seq);
	assert_int_equal(moved_bytes, PAGE_MEM_UNIT);
	assert_int_equal(unbooked_bytes, 0);
	share_remove(&at.td, at.process[1], 1, &at.seq);
	assert_int_equal(unbooked_bytes, PAGE_MEM_UNIT);
	at.tenant->is_ending = true;
	share_remove_process(&at.td, at.process[0], 0, &at.seq);
	share_remove_process(&at.td, at.process[1], 0, &at.seq);
	assert_int_equal(moved_bytes, 2 * PAGE_MEM_UNIT);
	assert_int_equal(unbooked_bytes, PAGE_MEM_UNIT);
	assert_int_equal(ledger_counter_pages(&at.page), 0);
	place_done(&at);
}

/* A holder has exited, and a descriptor that it exported is still open somewhere. */
static void an_open_descriptor_keeps_the_charge(void **state)
{
	uint64_t open[] = {3, 7, 9};
	const struct open_locks some = {.starts = open, .n = ARRAY_SIZE(open)}, none = {0};
	struct place at;

	place_init(&at);
	unbooked_bytes = moved_bytes = 0;
	for (uint64_t id = 7; id <= 8; id++)
		assert_int_equal(add(&at, 0, id), 1);
	share_remove_process(&at.td, at.process[0], 5, &at.seq);
	assert_int_equal(moved_bytes, 2 * PAGE_MEM_UNIT); /* the charge moves to the daemon */
	share_look(&at.td, &none, 5, &at.seq);            /* the query is older than the exit */
	assert_int_equal(share_left_bytes(&at.td), 2 * PAGE_MEM_UNIT);
	share_look(&at.td, &some, 6, &at.seq);
	assert_int_equal(share_left_bytes(&at.td), PAGE_MEM_UNIT);
	assert_int_equal(ledger_counter_pages(&at.page), 1);
	assert_int_equal(unbooked_bytes, PAGE_MEM_UNIT);
	/* An importer is a holder like any other; the memory is not charged twice. */
	assert_int_equal(add(&at, 1, 7), 0);
	assert_int_equal(moved_bytes, 3 * PAGE_MEM_UNIT);
	share_remove(&at.td, at.process[1], 7, &at.seq);
	assert_int_equal(ledger_counter_pages(&at.page), 1); /* a descriptor may still be open */
	share_look(&at.td, &some, 7, &at.seq);
	assert_int_equal(ledger_counter_pages(&at.page), 1);
	assert_true(share_is_any(&at.td));
	share_look(&at.td, &none, 8, &at.seq);
	assert_int_equal(ledger_counter_pages(&at.page), 0);
	assert_false(share_is_any(&at.td));
	place_done(&at);
}

/* Memory without an open descriptor is freed with its last holder, as if no holder had exited. */
static void without_a_descriptor_the_last_holder_ends_the_charge(void **state)
{
	const struct open_locks none = {0};
	struct place at;

	place_init(&at);
	assert_int_equal(add(&at, 0, 7), 1);
	assert_int_equal(add(&at, 1, 7), 0);
	share_remove_process(&at.td, at.process[0], 5, &at.seq);
	share_look(&at.td, &none, 6, &at.seq);
	assert_int_equal(ledger_counter_pages(&at.page), 1);
	share_remove(&at.td, at.process[1], 7, &at.seq);
	assert_int_equal(ledger_counter_pages(&at.page), 0);
	place_done(&at);
}

UNIT_MAIN(UNIT(ids_spread_over_the_chains), UNIT(two_tables_hash_the_same_ids_differently),
	UNIT(holders_are_bounded), UNIT(one_holder_at_a_time_is_charged),
	UNIT(an_open_descriptor_keeps_the_charge),
	UNIT(without_a_descriptor_the_last_holder_ends_the_charge))
