/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of one device. Quotas of fail tenants sum to at most the usable memory, so a
 * reservation within a quota always fits. Quotas of wait and swap tenants sum to what the fail
 * tenants leave, times the overcommit. wait tenants reserve memory here and queue when none is
 * free. swap tenants reserve none, because their memory can move away. Pure; one thread.
 *
 * The queue is in order of arrival, and the first request that fits is granted. A request may pass
 * an earlier one only if both are of the same tenant, because large requests would starve
 * otherwise. When all tenants that hold memory wait, none will release any. Then the oldest request
 * that fits is granted, whatever precedes it. If none fits, it is a deadlock: the youngest request
 * fails with -ENOMEM.
 */
#include "core/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"

#define LEDGER_REQUESTS_MAX 4096u /* the peer's threads make requests: limited */

struct holding {
	struct holding *next;
	uint32_t process;
	uint64_t bytes;
};

struct book {
	struct book *next;
	uint32_t tenant;
	enum spec_memory_policy policy;
	uint64_t quota;
	uint64_t used;
	struct holding *holdings;
	bool is_leaving; /* removed; its processes still hold memory on the device */
};

struct waiter {
	struct waiter *next; /* older first */
	struct book *book;
	uint32_t process;
	uint64_t bytes;
	ledger_request request;
	uint64_t since;
};

struct verdict {
	struct verdict *next;
	struct ledger_verdict is;
};

struct ledger {
	uint64_t usable;
	uint32_t oversubscribe_permille;
	uint64_t wait_used; /* memory reserved by wait tenants */
	struct book *books;
	struct waiter *waiters;
	struct verdict *verdicts, **verdicts_end;
	uint32_t n_requests; /* waiters and verdicts */
};

void ledger_set_oversubscribe(struct ledger *ledger, uint32_t oversubscribe_permille)
{
	ledger->oversubscribe_permille = MAX(oversubscribe_permille, 1000u);
}

int ledger_new(uint64_t usable_bytes, uint32_t oversubscribe_permille, struct ledger **ret_ledger)
{
	struct ledger *ledger = calloc(1, sizeof(*ledger));

	if (!ledger)
		return -ENOMEM;
	ledger->usable = usable_bytes;
	ledger_set_oversubscribe(ledger, oversubscribe_permille);
	ledger->verdicts_end = &ledger->verdicts;
	*ret_ledger = ledger;
	return 0;
}

static void holdings_free(struct book *book)
{
	while (book->holdings) {
		struct holding *holding = book->holdings;

		book->holdings = holding->next;
		free(holding);
	}
}

void ledger_free(struct ledger *ledger)
{
	if (!ledger)
		return;
	while (ledger->books) {
		struct book *book = ledger->books;

		ledger->books = book->next;
		holdings_free(book);
		free(book);
	}
	while (ledger->waiters) {
		struct waiter *waiter = ledger->waiters;

		ledger->waiters = waiter->next;
		free(waiter);
	}
	while (ledger->verdicts) {
		struct verdict *verdict = ledger->verdicts;

		ledger->verdicts = verdict->next;
		free(verdict);
	}
	free(ledger);
}

static struct book *book_find(const struct ledger *ledger, uint32_t tenant)
{
	for (struct book *book = ledger->books; book; book = book->next)
		if (book->tenant == tenant)
			return book;
	return NULL;
}

static uint64_t add_clamped(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* a x permille / 1000 without overflow of the product. */
static uint64_t times_permille(uint64_t a, uint32_t permille)
{
	uint64_t whole = a / 1000;

	if (whole && permille > UINT64_MAX / whole)
		return UINT64_MAX;
	return add_clamped(whole * permille, a % 1000 * permille / 1000);
}

/* Sum of the quotas of the fail tenants, or of all others. */
static uint64_t quotas(const struct ledger *ledger, bool is_fail, const struct book *except)
{
	uint64_t sum = 0;

	for (const struct book *book = ledger->books; book; book = book->next)
		if (book != except && (book->policy == SPEC_MEMORY_FAIL) == is_fail)
			sum = add_clamped(sum, book->quota);
	return sum;
}

/* Memory that wait tenants share. */
static uint64_t shared_room(const struct ledger *ledger)
{
	return less(ledger->usable, quotas(ledger, true, NULL));
}

static uint64_t room_without(
	const struct ledger *ledger, enum spec_memory_policy policy, const struct book *except)
{
	uint64_t fixed = quotas(ledger, true, except);
	uint64_t shared = quotas(ledger, false, except);
	uint64_t left = less(ledger->usable, fixed);
	uint64_t needed;

	if (policy == SPEC_MEMORY_SWAP)
		return less(times_permille(left, ledger->oversubscribe_permille), shared);
	if (policy == SPEC_MEMORY_WAIT) /* it must fit on the empty device */
		return MIN(
			left, less(times_permille(left, ledger->oversubscribe_permille), shared));
	/*
	 * The quotas of wait and swap tenants need this much to stay within the overcommit, and
	 * memory reserved by wait tenants is not available.
	 */
	needed = times_permille(shared, 1000u * 1000u / ledger->oversubscribe_permille);
	return less(left, MAX(needed, ledger->wait_used));
}

uint64_t ledger_room(const struct ledger *ledger, enum spec_memory_policy policy)
{
	return room_without(ledger, policy, NULL);
}

static int refuse(const struct ledger *ledger, uint64_t quota, enum spec_memory_policy policy,
	uint64_t room, struct error *err)
{
	return fail(err, ENOSPC,
		"memory %s: at most %s is free now with memory-policy %s on this device (%s "
		"usable, %s in quotas)",
		format_bytes_exact(quota).s, format_bytes_exact(room).s,
		spec_memory_policy_name(policy), format_bytes(ledger->usable).s,
		format_bytes(add_clamped(quotas(ledger, true, NULL), quotas(ledger, false, NULL)))
			.s);
}

int ledger_add(struct ledger *ledger, uint32_t tenant, uint64_t quota_bytes,
	enum spec_memory_policy policy, struct error *err)
{
	uint64_t room = ledger_room(ledger, policy);
	struct book *book;

	if (book_find(ledger, tenant))
		return fail(err, EEXIST, "tenant %u is on this device already", tenant);
	if (quota_bytes > room)
		return refuse(ledger, quota_bytes, policy, room, err);
	book = calloc(1, sizeof(*book));
	if (!book)
		return fail(err, ENOMEM, "out of memory for tenant %u", tenant);
	book->tenant = tenant;
	book->policy = policy;
	book->quota = quota_bytes;
	book->next = ledger->books;
	ledger->books = book;
	return 0;
}

static void verdict_add(struct ledger *ledger, struct waiter *waiter, int status)
{
	/* A waiter is turned into its verdict in place, so that no allocation can fail here. */
	_Static_assert(sizeof(struct verdict) <= sizeof(struct waiter), "reused in place");
	ledger_request request = waiter->request;
	struct verdict *verdict = (void *)waiter;

	*verdict = (struct verdict){.is = {.request = request, .status = status}};
	*ledger->verdicts_end = verdict;
	ledger->verdicts_end = &verdict->next;
}

static int hold(struct ledger *ledger, struct book *book, uint32_t process, uint64_t bytes)
{
	struct holding *holding = book->holdings;

	while (holding && holding->process != process)
		holding = holding->next;
	if (!holding) {
		holding = calloc(1, sizeof(*holding));
		if (!holding)
			return -ENOMEM;
		holding->process = process;
		holding->next = book->holdings;
		book->holdings = holding;
	}
	holding->bytes += bytes;
	book->used += bytes;
	if (book->policy == SPEC_MEMORY_WAIT)
		ledger->wait_used += bytes;
	return 0;
}

static bool fits(const struct ledger *ledger, const struct book *book, uint64_t bytes)
{
	return book->policy != SPEC_MEMORY_WAIT ||
		bytes <= less(shared_room(ledger), ledger->wait_used);
}

static bool is_waiting(const struct ledger *ledger, const struct book *book, uint32_t process)
{
	for (const struct waiter *waiter = ledger->waiters; waiter; waiter = waiter->next)
		if (waiter->book == book && waiter->process == process)
			return true;
	return false;
}

/* Whether no process that holds shared memory runs, so that none can release any. */
static bool is_deadlock(const struct ledger *ledger)
{
	for (const struct book *book = ledger->books; book; book = book->next) {
		if (book->policy != SPEC_MEMORY_WAIT)
			continue;
		for (const struct holding *holding = book->holdings; holding;
			holding = holding->next)
			if (holding->bytes && !is_waiting(ledger, book, holding->process))
				return false;
	}
	return true;
}

/* Fails the youngest request, so that others may get the memory that it could not get. */
static void break_deadlock(struct ledger *ledger)
{
	struct waiter **youngest = NULL;

	for (struct waiter **at = &ledger->waiters; *at; at = &(*at)->next)
		if (!youngest || (*at)->since >= (*youngest)->since)
			youngest = at;
	if (youngest) {
		struct waiter *waiter = *youngest;

		*youngest = waiter->next;
		verdict_add(ledger, waiter, -ENOMEM);
	}
}

/* Grants the request at *at. */
static void grant(struct ledger *ledger, struct waiter **at)
{
	struct waiter *waiter = *at;
	int r = hold(ledger, waiter->book, waiter->process, waiter->bytes);

	*at = waiter->next;
	verdict_add(ledger, waiter, r);
}

/* All wait for an older request that cannot be granted: grants the oldest that fits. */
static bool let_one_pass(struct ledger *ledger)
{
	for (struct waiter **at = &ledger->waiters; *at; at = &(*at)->next)
		if (fits(ledger, (*at)->book, (*at)->bytes)) {
			grant(ledger, at);
			return true;
		}
	return false;
}

/*
 * Grants requests that fit, oldest first. A request does not pass an older one of another tenant
 * while some process may still release memory for the older request. A request may pass older
 * requests of its own tenant, since that delays only this tenant.
 */
static void settle(struct ledger *ledger)
{
	do {
		const struct book *first = NULL;
		struct waiter **at = &ledger->waiters;

		while (*at) {
			struct waiter *waiter = *at;
			struct book *book = waiter->book;
			bool may_pass = !first || first == book;

			if (waiter->bytes > less(book->quota, book->used)) {
				*at = waiter->next; /* its quota has shrunk */
				verdict_add(ledger, waiter, -ENOMEM);
			} else if (may_pass && fits(ledger, book, waiter->bytes)) {
				grant(ledger, at);
			} else {
				first = first ? first : book;
				at = &waiter->next;
			}
		}
		if (!ledger->waiters || !is_deadlock(ledger))
			return;
		if (!let_one_pass(ledger))
			break_deadlock(ledger);
	} while (ledger->waiters);
}

int ledger_change(struct ledger *ledger, uint32_t tenant, uint64_t quota_bytes, struct error *err)
{
	struct book *book = book_find(ledger, tenant);
	uint64_t room;

	if (!book)
		return fail(err, ENOENT, "tenant %u is not on this device", tenant);
	room = room_without(ledger, book->policy, book);
	if (quota_bytes > room && quota_bytes > book->quota)
		return refuse(ledger, quota_bytes, book->policy, room, err);
	book->quota = quota_bytes;
	settle(ledger);
	return 0;
}

/* Cancels the requests of a tenant, or of one of its processes. */
static void cancel(struct ledger *ledger, const struct book *book, bool all, uint32_t process)
{
	struct waiter **at = &ledger->waiters;

	while (*at) {
		struct waiter *waiter = *at;

		if (waiter->book == book && (all || waiter->process == process)) {
			*at = waiter->next;
			verdict_add(ledger, waiter, -ECANCELED);
		} else {
			at = &waiter->next;
		}
	}
}

static void close_book(struct ledger *ledger, struct book *book)
{
	struct book **at = &ledger->books;

	while (*at != book)
		at = &(*at)->next;
	*at = book->next;
	holdings_free(book);
	free(book);
}

void ledger_leave_held(struct ledger *ledger, uint32_t tenant, uint32_t process, uint64_t bytes)
{
	struct book *book = book_find(ledger, tenant);

	/*
	 * The tenant's programs report what they hold, and several may report the same memory: see
	 * shrink(). Out of memory, the memory counts as free too early.
	 */
	if (book && book->policy == SPEC_MEMORY_FAIL && bytes)
		(void)hold(ledger, book, process, MIN(bytes, book->quota));
}

/*
 * Memory that a removed fail tenant still holds stays reserved, but at most its quota: its programs
 * cannot claim more.
 */
static void shrink(struct book *book)
{
	book->quota = book->policy == SPEC_MEMORY_FAIL ? MIN(book->quota, book->used) : 0;
}

void ledger_remove(struct ledger *ledger, uint32_t tenant)
{
	struct book *book = book_find(ledger, tenant);

	if (!book)
		return;
	cancel(ledger, book, true, 0);
	shrink(book);
	book->is_leaving = book->holdings;
	if (!book->is_leaving)
		close_book(ledger, book);
	settle(ledger);
}

int ledger_reserve(struct ledger *ledger, uint32_t tenant, uint32_t process, uint64_t bytes,
	ledger_request request, uint64_t now)
{
	struct book *book = book_find(ledger, tenant);
	struct waiter *waiter, **end;

	if (!book)
		return -ENOENT;
	if (bytes > less(book->quota, book->used))
		return -ENOMEM;
	if (bytes > shared_room(ledger) && book->policy == SPEC_MEMORY_WAIT)
		return -ENOMEM; /* would wait for ever */
	if (!ledger->waiters && fits(ledger, book, bytes))
		return hold(ledger, book, process, bytes);
	if (ledger->n_requests >= LEDGER_REQUESTS_MAX)
		return -ENOMEM;
	waiter = calloc(1, sizeof(*waiter));
	if (!waiter)
		return -ENOMEM;
	*waiter = (struct waiter){
		.book = book,
		.process = process,
		.bytes = bytes,
		.request = request,
		.since = now,
	};
	for (end = &ledger->waiters; *end; end = &(*end)->next)
		;
	*end = waiter;
	ledger->n_requests++;
	settle(ledger);
	return -EINPROGRESS;
}

static void give_back(struct ledger *ledger, struct book *book, uint32_t process, uint64_t bytes)
{
	struct holding **at = &book->holdings;
	struct holding *holding;

	while (*at && (*at)->process != process)
		at = &(*at)->next;
	holding = *at;
	if (!holding)
		return;
	bytes = MIN(bytes, holding->bytes);
	holding->bytes -= bytes;
	book->used -= bytes;
	if (book->policy == SPEC_MEMORY_WAIT)
		ledger->wait_used -= bytes;
	if (holding->bytes == 0) {
		*at = holding->next;
		free(holding);
	}
}

void ledger_release(struct ledger *ledger, uint32_t tenant, uint32_t process, uint64_t bytes)
{
	struct book *book = book_find(ledger, tenant);

	if (!book)
		return;
	give_back(ledger, book, process, bytes);
	settle(ledger);
}

void ledger_move(struct ledger *ledger, uint32_t tenant, uint32_t from, uint32_t to, uint64_t bytes)
{
	struct book *book = book_find(ledger, tenant);
	const struct holding *holding = book ? book->holdings : NULL;

	while (holding && holding->process != from)
		holding = holding->next;
	if (!holding)
		return;
	bytes = MIN(bytes, holding->bytes);
	if (hold(ledger, book, to, bytes) >= 0)
		give_back(ledger, book, from, bytes);
}

void ledger_process_gone(struct ledger *ledger, uint32_t tenant, uint32_t process)
{
	struct book *book = book_find(ledger, tenant);

	if (!book)
		return;
	cancel(ledger, book, false, process);
	give_back(ledger, book, process, UINT64_MAX);
	if (book->is_leaving)
		shrink(book);
	if (book->is_leaving && !book->holdings)
		close_book(ledger, book);
	settle(ledger);
}

size_t ledger_verdicts(struct ledger *ledger, struct ledger_verdict *ret_verdicts, size_t max)
{
	size_t n = 0;

	while (n < max && ledger->verdicts) {
		struct verdict *verdict = ledger->verdicts;

		ret_verdicts[n++] = verdict->is;
		ledger->verdicts = verdict->next;
		ledger->n_requests--;
		free(verdict);
	}
	if (!ledger->verdicts)
		ledger->verdicts_end = &ledger->verdicts;
	return n;
}

uint64_t ledger_used(const struct ledger *ledger, uint32_t tenant)
{
	const struct book *book = book_find(ledger, tenant);

	return book ? book->used : 0;
}

uint64_t ledger_quota(const struct ledger *ledger, uint32_t tenant)
{
	const struct book *book = book_find(ledger, tenant);

	return book ? book->quota : 0;
}
