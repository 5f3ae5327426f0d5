/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory of a tenant: see share.h. The daemon's pages are in a slot of its own, with process
 * index 0, so that a recount sums them as it does those of processes. Where tenants wait for room
 * (memory policy wait), the device's book has the bytes in the name of one holder; they go over to
 * another one when that holder lets go.
 */
#include "agent/share.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "agent/client.h"
#include "agent/device.h"
#include "agent/memory.h"
#include "base/cleanup.h"
#include "core/ledger_counter.h"

#define BUCKETS 256u

struct holder {
	SLIST_ENTRY(holder) link;
	struct process *process;
};

struct share {
	LIST_ENTRY(share) link;
	uint64_t id, pages;
	struct process *booked; /* policy wait: the device's book has it in this one's name */
	SLIST_HEAD(, holder) holders;
};

struct share_table {
	struct page_memory slot; /* what all of them are in the counter */
	uint32_t n;
	LIST_HEAD(, share) bucket[BUCKETS];
};

static uint32_t bucket_of(uint64_t id)
{
	return (uint32_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 56) % BUCKETS;
}

static struct share *find(const struct share_table *table, uint64_t id)
{
	struct share *s;

	LIST_FOREACH(s, &table->bucket[bucket_of(id)], link)
		if (s->id == id)
			return s;
	return NULL;
}

static struct holder *find_holder(const struct share *s, const struct process *p)
{
	struct holder *h;

	SLIST_FOREACH(h, &s->holders, link)
	if (h->process == p)
		return h;
	return NULL;
}

/* A change by the daemon: recounts and shares number theirs in one row. */
static int change(struct tenant_device *td, int64_t pages, uint64_t quota_bytes, uint32_t *seq)
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
	if (!td->shares)
		td->shares = calloc(1, sizeof(*td->shares));
	return td->shares ? 0 : -ENOMEM;
}

static int hold(struct share *s, struct process *p)
{
	struct holder *h = find_holder(s, p) ? NULL : calloc(1, sizeof(*h));

	if (!h)
		return find_holder(s, p) ? 0 : -ENOSPC;
	h->process = p;
	SLIST_INSERT_HEAD(&s->holders, h, link);
	return 0;
}

static void forget(struct tenant_device *td, struct share *s)
{
	LIST_REMOVE(s, link);
	td->shares->n--;
	while (!SLIST_EMPTY(&s->holders)) {
		struct holder *h = SLIST_FIRST(&s->holders);

		SLIST_REMOVE_HEAD(&s->holders, link);
		free(h);
	}
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
	s = find(td->shares, id);
	if (s)
		return hold(s, p);
	s = td->shares->n < SHARES_MAX ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		return -ENOSPC;
	*s = (struct share){.id = id, .pages = pages, .booked = p};
	r = hold(s, p);
	if (!r)
		r = change(td, (int64_t)pages, is_held ? UINT64_MAX : td->quota_bytes, seq);
	LIST_INSERT_HEAD(&td->shares->bucket[bucket_of(id)], s, link);
	td->shares->n++;
	if (r < 0)
		forget(td, s);
	return r < 0 ? r : 1;
}

/* `p` is no holder any more; frees it with its last holder. */
static void settle(struct tenant_device *td, struct share *s, struct process *p, uint32_t *seq)
{
	struct holder *next = SLIST_FIRST(&s->holders);

	if (s->booked == p && next) {
		s->booked = next->process;
		memory_rebook(p, s->booked, td->at, s->pages * PAGE_MEM_UNIT);
	} else if (s->booked == p && !td->tenant->is_ending) {
		/* Of a tenant that ends, the program runs on: its end gives the room back. */
		memory_unbook(p, td->at, s->pages * PAGE_MEM_UNIT);
	}
	if (next)
		return;
	if (td->page)
		change(td, -(int64_t)s->pages, UINT64_MAX, seq);
	forget(td, s);
}

static bool let_go(struct tenant_device *td, struct share *s, struct process *p, uint32_t *seq)
{
	struct holder *h = find_holder(s, p);

	if (!h)
		return false;
	SLIST_REMOVE(&s->holders, h, holder, link);
	free(h);
	settle(td, s, p, seq);
	return true;
}

void share_remove(struct tenant_device *td, struct process *p, uint64_t id, uint32_t *seq)
{
	struct share *s = td->shares ? find(td->shares, id) : NULL;

	if (s)
		let_go(td, s, p, seq);
}

void share_remove_process(struct tenant_device *td, struct process *p, uint32_t *seq)
{
	for (uint32_t i = 0; td->shares && td->shares->n && i < BUCKETS; i++) {
		struct share *s, *next;

		for (s = LIST_FIRST(&td->shares->bucket[i]); s; s = next) {
			next = LIST_NEXT(s, link);
			let_go(td, s, p, seq);
		}
	}
}

uint64_t share_bytes(const struct tenant_device *td, const struct process *p)
{
	uint64_t pages = 0;

	for (uint32_t i = 0; td->shares && td->shares->n && i < BUCKETS; i++) {
		const struct share *s;

		LIST_FOREACH(s, &td->shares->bucket[i], link)
			pages += find_holder(s, p) ? s->pages : 0;
	}
	return pages * PAGE_MEM_UNIT;
}

const struct page_memory *share_slot(const struct tenant_device *td)
{
	return td->shares ? &td->shares->slot : NULL;
}

void share_done(struct tenant_device *td)
{
	for (uint32_t i = 0; td->shares && i < BUCKETS; i++)
		while (!LIST_EMPTY(&td->shares->bucket[i]))
			forget(td, LIST_FIRST(&td->shares->bucket[i]));
	free(td->shares);
	td->shares = NULL;
}
