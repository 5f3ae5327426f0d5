/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory counter of one tenant on one device, shared by all its processes. Processes reserve
 * and release without a lock, and the count is exact although any process may be killed at any
 * instant.
 *
 * A change of d pages by process i, with its next sequence number s:
 *
 *   1. intent_seq = s; intent_pages = d          announces the change; does not count yet
 *   2. w = word
 *      applied[process(w)] = seq(w)              so that overwriting w loses nothing
 *      CAS(word, w -> pages(w) + d | i | s)      now it counts
 *   3. settled = pages + d | s                   one store moves it from the intent to the total
 *   4. intent_pages = 0
 *
 * So at each instant process i's part of the counter is exactly
 *
 *   pages(settled) +
 *      (intent_pages if s is not seq(settled) and (word is of (i, s) or applied[i] == s))
 *
 * and pages(word) is the sum of these parts over all processes (ledger_counter_recount).
 *
 * Only its process writes a slot, one thread at a time under the caller's lock; the daemon uses
 * process index 0 and no slot. The code runs in other people's programs: it is inline, without libc
 * and system calls. Pages are PAGE_MEM_UNIT bytes.
 */
#ifndef CORE_LEDGER_COUNTER_H
#define CORE_LEDGER_COUNTER_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/page.h"

/* A test kills the process at each of these points. */
#ifndef LEDGER_KILLPOINT
#define LEDGER_KILLPOINT(n) ((void)0)
#endif

#define LEDGER_PAGES_MAX ((UINT64_C(1) << (64 - PAGE_WORD_PAGES_SHIFT)) - 1)

/* One process's access; the pointers are borrowed. */
struct ledger_counter {
	struct page_tenant *tenant;
	struct page_memory *slot;
	uint32_t process; /* 1..PAGE_PROCESSES-1 */
};

static inline uint64_t ledger_pages(uint64_t bytes)
{
	return bytes / PAGE_MEM_UNIT + (bytes % PAGE_MEM_UNIT != 0);
}

/*
 * Gives index `process` to a new process. Its sequence numbers continue those of the last owner, so
 * that no record of the last owner counts as a change of the new process. The daemon calls this
 * before the process has the page, but not when a process registers again with its old page.
 */
static inline void ledger_slot_init(
	const struct page_tenant *tenant, struct page_memory *slot, uint32_t process)
{
	uint64_t w = atomic_load_explicit(&tenant->word, memory_order_acquire);
	uint32_t seq = atomic_load_explicit(&tenant->applied[process], memory_order_acquire);

	if (page_word_process(w) == process)
		seq = page_word_seq(w);
	atomic_store_explicit(&slot->settled, page_settled(0, seq), memory_order_relaxed);
	atomic_store_explicit(&slot->intent_pages, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->intent_seq, seq, memory_order_release);
}

/* Pages that the tenant is charged for now. */
static inline uint64_t ledger_counter_pages(const struct page_tenant *tenant)
{
	return page_word_pages(atomic_load_explicit(&tenant->word, memory_order_acquire));
}

/* Pages that the slot's owner holds; exact for the owner, a hint for others. */
static inline uint64_t ledger_slot_pages(const struct page_memory *slot)
{
	return page_settled_pages(atomic_load_explicit(&slot->settled, memory_order_acquire));
}

/*
 * Records that the change in `w` counted, before another change overwrites w. Returns false if w is
 * no longer the word: read it again. The second read of the word proves that the value read from
 * applied[] is not newer than w, so the CAS never replaces a later record by an earlier one.
 */
static inline bool ledger_counter_note(struct page_tenant *tenant, uint64_t w)
{
	_Atomic uint32_t *applied = &tenant->applied[page_word_process(w)];
	uint32_t noted = atomic_load_explicit(applied, memory_order_acquire);

	if (atomic_load_explicit(&tenant->word, memory_order_acquire) != w)
		return false;
	if (noted != page_word_seq(w))
		atomic_compare_exchange_strong_explicit(applied, &noted, page_word_seq(w),
			memory_order_acq_rel, memory_order_acquire);
	return true;
}

/* Adds `change` unless the sum would exceed the quota. Returns 0, or -ENOMEM without a change. */
static inline int ledger_counter_change(
	struct ledger_counter *counter, int64_t change, uint64_t quota_pages)
{
	struct page_tenant *tenant = counter->tenant;
	struct page_memory *slot = counter->slot;
	uint64_t settled = atomic_load_explicit(&slot->settled, memory_order_relaxed);
	uint32_t seq = atomic_load_explicit(&slot->intent_seq, memory_order_relaxed);
	uint64_t held = page_settled_pages(settled);
	uint64_t w;

	seq = (seq + 1) & PAGE_WORD_SEQ_MASK;
	/*
	 * While intent_pages is 0, intent_seq means nothing. This store and all stores below pair
	 * with the acquire loads of ledger_slot_contribution.
	 */
	atomic_store_explicit(&slot->intent_seq, seq, memory_order_release);
	LEDGER_KILLPOINT(1);
	atomic_store_explicit(&slot->intent_pages, change, memory_order_release);
	LEDGER_KILLPOINT(2);
	for (;;) {
		uint64_t pages;

		w = atomic_load_explicit(&tenant->word, memory_order_acquire);
		pages = page_word_pages(w);
		if (change > 0 && (pages > quota_pages || (uint64_t)change > quota_pages - pages)) {
			atomic_store_explicit(&slot->intent_pages, 0, memory_order_release);
			LEDGER_KILLPOINT(3);
			return -ENOMEM;
		}
		if (!ledger_counter_note(tenant, w))
			continue;
		LEDGER_KILLPOINT(4);
		/*
		 * If the tenant has damaged its page, the sum must not overflow into the process
		 * bits.
		 */
		pages = change < 0 && pages < (uint64_t)-change ? 0 : pages + (uint64_t)change;
		if (atomic_compare_exchange_weak_explicit(&tenant->word, &w,
			    page_word(pages, counter->process, seq), memory_order_acq_rel,
			    memory_order_acquire))
			break;
	}
	LEDGER_KILLPOINT(5);
	atomic_store_explicit(
		&slot->settled, page_settled(held + (uint64_t)change, seq), memory_order_release);
	LEDGER_KILLPOINT(6);
	atomic_store_explicit(&slot->intent_pages, 0, memory_order_release);
	LEDGER_KILLPOINT(7);
	return 0;
}

/*
 * Reserve before the driver allocates; release when the driver has refused or has freed. If a
 * process is killed in between, the daemon takes its reservation away after its death.
 */
static inline int ledger_counter_reserve(
	struct ledger_counter *counter, uint64_t pages, uint64_t quota_pages)
{
	if (quota_pages > LEDGER_PAGES_MAX)
		quota_pages = LEDGER_PAGES_MAX;
	if (pages > quota_pages)
		return -ENOMEM;
	return pages ? ledger_counter_change(counter, (int64_t)pages, quota_pages) : 0;
}

/* Releases at most what this process holds. */
static inline void ledger_counter_release(struct ledger_counter *counter, uint64_t pages)
{
	uint64_t held = ledger_slot_pages(counter->slot);

	if (pages > held)
		pages = held;
	if (pages)
		ledger_counter_change(counter, -(int64_t)pages, LEDGER_PAGES_MAX);
}

/*
 * Computes the process's part of the counter, as of word `w`. The result is right if the word is
 * still w after the call, because the owner has made no CAS meanwhile. It can then only have
 * settled (step 3 above) or announced its next change (step 1), and reading `settled` and
 * `intent_seq` twice detects both. -EAGAIN: the slot kept changing, because its owner runs; try
 * again later.
 */
static inline int ledger_slot_contribution(const struct page_tenant *tenant,
	const struct page_memory *slot, uint32_t process, uint64_t w, int64_t *ret_pages)
{
	for (int i = 0; i < 64; i++) {
		uint64_t settled = atomic_load_explicit(&slot->settled, memory_order_acquire);
		uint32_t seq = atomic_load_explicit(&slot->intent_seq, memory_order_acquire) &
			PAGE_WORD_SEQ_MASK;
		int64_t intent = atomic_load_explicit(&slot->intent_pages, memory_order_acquire);
		bool is_applied = (page_word_process(w) == process && page_word_seq(w) == seq) ||
			atomic_load_explicit(&tenant->applied[process], memory_order_acquire) ==
				seq;

		if (atomic_load_explicit(&slot->settled, memory_order_acquire) != settled ||
			(atomic_load_explicit(&slot->intent_seq, memory_order_acquire) &
				PAGE_WORD_SEQ_MASK) != seq)
			continue;
		*ret_pages = (int64_t)page_settled_pages(settled);
		if (intent && is_applied && seq != page_settled_seq(settled))
			*ret_pages += intent;
		return 0;
	}
	return -EAGAIN;
}

struct ledger_slot {
	const struct page_memory *memory;
	uint32_t process;
};

/*
 * For the daemon: sets the counter to the sum of these slots. The caller leaves out a process that
 * has died and whose memory the device has released: the counter then no longer has its part. Exact
 * beside processes that reserve and release meanwhile: the sum is taken between two reads of one
 * word and stored by a CAS over that word. `daemon_seq` has the daemon's own sequence number, which
 * may start anywhere. Returns the pages taken away (negative: added, because a page was damaged).
 * Sets *ret_error to 0, or to -EAGAIN after `tries` attempts.
 */
static inline int64_t ledger_counter_recount(struct page_tenant *tenant,
	const struct ledger_slot *slots, size_t n, uint32_t *daemon_seq, uint32_t tries,
	int *ret_error)
{
	while (tries--) {
		uint64_t w = atomic_load_explicit(&tenant->word, memory_order_acquire);
		uint64_t sum = 0;
		int64_t pages = 0;
		size_t i;

		for (i = 0; i < n; i++) {
			if (ledger_slot_contribution(
				    tenant, slots[i].memory, slots[i].process, w, &pages) < 0)
				break;
			/* Clients write the slots: the sum must not overflow. */
			if (pages > 0)
				sum += (uint64_t)pages;
			if (sum > LEDGER_PAGES_MAX)
				sum = LEDGER_PAGES_MAX;
		}
		if (i < n)
			continue;
		if (sum == page_word_pages(w)) {
			if (atomic_load_explicit(&tenant->word, memory_order_acquire) != w)
				continue;
			*ret_error = 0;
			return 0;
		}
		if (!ledger_counter_note(tenant, w))
			continue;
		LEDGER_KILLPOINT(8);
		*daemon_seq = (*daemon_seq + 1) & PAGE_WORD_SEQ_MASK;
		if (!atomic_compare_exchange_strong_explicit(&tenant->word, &w,
			    page_word(sum, 0, *daemon_seq), memory_order_acq_rel,
			    memory_order_acquire))
			continue;
		LEDGER_KILLPOINT(9);
		*ret_error = 0;
		return (int64_t)page_word_pages(w) - (int64_t)sum;
	}
	*ret_error = -EAGAIN;
	return 0;
}

#endif
