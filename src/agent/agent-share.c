/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory of a tenant: see agent-share.h. The daemon charges shared pages in a slot with
 * process index 0, so a recount sums this slot like those of processes. With memory policy wait,
 * the ledger has the bytes in the name of one holder. When this holder releases the memory, the
 * bytes move to another holder.
 *
 * Programs choose the ids of shares and the number of shares. So a table has a random salt, which
 * keeps programs from choosing ids of one bucket. Holders are bounded, and each is also in a list
 * of its process.
 */
#include "agent/agent-share.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "agent/agent-client.h"
#include "base/open-locks.h"
#include "agent/device.h"
#include "agent/agent-memory.h"
#include "base/cleanup.h"
#include "base/rand.h"
#include "core/ledger-counter.h"

#define BUCKETS 4096u

struct holder {
	LIST_ENTRY(holder) of_share;
	LIST_ENTRY(holder) of_process;
	struct process *process;
	struct share *share;
};

struct share {
	LIST_ENTRY(share) link, suspect;
	uint64_t id, pages;
	/* Policy wait: the ledger has the memory in this process's name; NULL: in the daemon's. */
	struct process *booked;
	/*
	 * A holder has ended and may have left open descriptors. The answer to a later query shows
	 * whether a descriptor is open.
	 */
	bool is_suspect;
	uint64_t suspect_since; /* number of queries that had begun when the holder ended */
	LIST_HEAD(, holder) holders;
};

struct share_table {
	struct page_memory slot; /* the pages of all shares */
	uint64_t salt[2];        /* for share_bucket() */
	uint32_t n, n_holders;
	LIST_HEAD(, share) suspects;
	LIST_HEAD(, share) bucket[BUCKETS];
};

static uint64_t share_mix_bits(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static uint32_t share_bucket(const struct share_table *table, uint64_t id)
{
	return (uint32_t)(share_mix_bits(share_mix_bits(id ^ table->salt[0]) + table->salt[1]) %
		BUCKETS);
}

static struct share *share_find_entry(const struct share_table *table, uint64_t id)
{
	struct share *s;

	LIST_FOREACH(s, &table->bucket[share_bucket(table, id)], link)
		if (s->id == id)
			return s;
	return NULL;
}

static struct holder *find_holder(const struct share *s, const struct process *p)
{
	struct holder *h;

	LIST_FOREACH(h, &s->holders, of_share)
		if (h->process == p)
			return h;
	return NULL;
}

/* Changes the counter. *seq counts the daemon's changes of counters, recounts included. */
static int share_change_charge(
	struct tenant_device *td, int64_t pages, uint64_t quota_bytes, uint32_t *seq)
{
	struct ledger_counter counter = {.tenant = td->page, .slot = &td->shares->slot};
	int r = 0;

	atomic_store_explicit(&counter.slot->intent_seq, *seq, memory_order_relaxed);
	if (pages > 0)
		r = ledger_counter_reserve(&counter, (uint64_t)pages, quota_bytes / PAGE_MEM_UNIT);
	else
		ledger_counter_release(&counter, (uint64_t)-pages);
	*seq = atomic_load_explicit(&counter.slot->intent_seq, memory_order_relaxed);
	return r;
}

static int table_get(struct tenant_device *td)
{
	_cleanup_free_ struct share_table *table = NULL;
	int r;

	if (td->shares)
		return 0;
	table = calloc(1, sizeof(*table));
	if (!table)
		return -ENOMEM;
	r = random_bytes(table->salt, sizeof(table->salt));
	if (r < 0)
		return r;
	td->shares = TAKE_PTR(table);
	return 0;
}

static bool share_is_unheld(const struct share *s)
{
	return s->is_suspect && LIST_EMPTY(&s->holders);
}

static int share_add_holder(struct tenant_device *td, struct share *s, struct process *p)
{
	const bool was_left = share_is_unheld(s);
	struct holder *h;

	if (find_holder(s, p))
		return 0;
	h = td->shares->n_holders < SHARE_HOLDERS_MAX ? calloc(1, sizeof(*h)) : NULL;
	if (!h)
		return -ENOSPC;
	h->process = p;
	h->share = s;
	LIST_INSERT_HEAD(&s->holders, h, of_share);
	LIST_INSERT_HEAD(&p->devices[td->at].shares, h, of_process);
	td->shares->n_holders++;
	if (was_left) {
		s->booked = p;
		memory_rebook(td, NULL, p, s->pages * PAGE_MEM_UNIT);
	}
	return 0;
}

static void share_remove_holder(struct tenant_device *td, struct holder *h)
{
	LIST_REMOVE(h, of_share);
	LIST_REMOVE(h, of_process);
	td->shares->n_holders--;
	free(h);
}

/* Frees a share without holders. */
static void share_free_entry(struct tenant_device *td, struct share *s)
{
	if (s->is_suspect)
		LIST_REMOVE(s, suspect);
	LIST_REMOVE(s, link);
	td->shares->n--;
	free(s);
}

int share_add(struct tenant_device *td, struct process *p, uint64_t id, uint64_t bytes,
	bool is_held, uint32_t *seq)
{
	uint64_t pages = ledger_pages(bytes);
	struct share *s;
	int r;

	if (!td->page || !bytes || bytes > td->device->info.memory_bytes)
		return -EINVAL;
	if (table_get(td) < 0)
		return -ENOSPC;
	s = share_find_entry(td->shares, id);
	if (s)
		return share_add_holder(td, s, p);
	s = td->shares->n < SHARES_MAX ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		return -ENOSPC;
	*s = (struct share){.id = id, .pages = pages, .booked = p};
	LIST_INSERT_HEAD(&td->shares->bucket[share_bucket(td->shares, id)], s, link);
	td->shares->n++;
	r = share_add_holder(td, s, p);
	if (r < 0) {
		share_free_entry(td, s);
		return r;
	}
	r = share_change_charge(td, (int64_t)pages, is_held ? UINT64_MAX : td->quota_bytes, seq);
	if (r < 0) {
		share_remove_holder(td, LIST_FIRST(&s->holders));
		share_free_entry(td, s);
		return r;
	}
	return 1;
}

/* The share has no holder and no open descriptor: ends its charge. */
static void share_release_charge(struct tenant_device *td, struct share *s, uint32_t *seq)
{
	if (td->page)
		share_change_charge(td, -(int64_t)s->pages, UINT64_MAX, seq);
	share_free_entry(td, s);
}

static void share_suspect_entry(struct tenant_device *td, struct share *s, uint64_t since)
{
	if (!s->is_suspect)
		LIST_INSERT_HEAD(&td->shares->suspects, s, suspect);
	s->is_suspect = true;
	s->suspect_since = since;
}

/* `p` no longer holds the share. If no other process does so, frees it, unless it is `left`. */
static void share_settle_process(
	struct tenant_device *td, struct share *s, struct process *p, uint32_t *seq)
{
	struct holder *next = LIST_FIRST(&s->holders);
	const bool stays = share_is_unheld(s) && !td->tenant->is_ending;

	if (s->booked == p && (next || stays)) {
		s->booked = next ? next->process : NULL;
		memory_rebook(td, p, s->booked, s->pages * PAGE_MEM_UNIT);
	} else if (s->booked == p && !td->tenant->is_ending) {
		/*
		 * In an ending tenant the program runs on and keeps the memory, so nothing is
		 * released before the program's end.
		 */
		memory_release(td, p, s->pages * PAGE_MEM_UNIT);
	}
	if (!next && !stays)
		share_release_charge(td, s, seq);
}

static void share_release(struct tenant_device *td, struct holder *h, uint32_t *seq)
{
	struct process *p = h->process;
	struct share *s = h->share;

	share_remove_holder(td, h);
	share_settle_process(td, s, p, seq);
}

void share_remove(struct tenant_device *td, struct process *p, uint64_t id, uint32_t *seq)
{
	struct share *s = td->shares ? share_find_entry(td->shares, id) : NULL;
	struct holder *h = s ? find_holder(s, p) : NULL;

	if (h)
		share_release(td, h, seq);
}

void share_remove_process(
	struct tenant_device *td, struct process *p, uint64_t ended, uint32_t *seq)
{
	struct holder *h;

	while ((h = LIST_FIRST(&p->devices[td->at].shares))) {
		share_suspect_entry(td, h->share, ended);
		share_release(td, h, seq);
	}
}

void share_look(
	struct tenant_device *td, const struct open_locks *open, uint64_t question, uint32_t *seq)
{
	struct share *s = td->shares ? LIST_FIRST(&td->shares->suspects) : NULL, *next;

	for (; s; s = next) {
		next = LIST_NEXT(s, suspect);
		if (s->suspect_since >= question || open_locks_has(open, s->id))
			continue;
		if (share_is_unheld(s)) {
			memory_release(td, NULL, s->pages * PAGE_MEM_UNIT);
			share_release_charge(td, s, seq);
		} else {
			LIST_REMOVE(s, suspect);
			s->is_suspect = false;
		}
	}
}

bool share_is_any(const struct tenant_device *td)
{
	return td->shares && td->shares->n;
}

uint64_t share_left_bytes(const struct tenant_device *td)
{
	const struct share *s = td->shares ? LIST_FIRST(&td->shares->suspects) : NULL;
	uint64_t pages = 0;

	for (; s; s = LIST_NEXT(s, suspect))
		pages += share_is_unheld(s) ? s->pages : 0;
	return pages * PAGE_MEM_UNIT;
}

uint64_t share_bytes(const struct tenant_device *td, const struct process *p)
{
	const struct holder *h;
	uint64_t pages = 0;

	LIST_FOREACH(h, &p->devices[td->at].shares, of_process)
		pages += h->share->pages;
	return pages * PAGE_MEM_UNIT;
}

const struct page_memory *share_slot(const struct tenant_device *td)
{
	return td->shares ? &td->shares->slot : NULL;
}

/* Does not touch the holders' processes, because these may be freed already. */
void share_done(struct tenant_device *td)
{
	for (uint32_t i = 0; td->shares && i < BUCKETS; i++) {
		struct share *s;

		while ((s = LIST_FIRST(&td->shares->bucket[i]))) {
			struct holder *h = LIST_FIRST(&s->holders), *next;

			for (; h; h = next) {
				next = LIST_NEXT(h, of_share);
				free(h);
			}
			share_free_entry(td, s);
		}
	}
	free(td->shares);
	td->shares = NULL;
}
