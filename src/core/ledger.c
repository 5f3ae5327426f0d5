/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of one device. Quotas of fail tenants sum to at most the usable memory, so a
 * reservation within a quota always fits. Quotas of wait and swap tenants sum to at most what the
 * fail tenants leave, times the overcommit. wait tenants reserve memory here and queue when none is
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

/* The peer's threads decide how many requests they make, so the daemon limits the number. */
#define LEDGER_REQUESTS_MAX 4096u

struct charge {
	struct charge *next;
	uint32_t process;
	uint64_t bytes;
};

struct ledger_account {
	struct ledger_account *next;
	uint32_t tenant;
	enum spec_memory_policy policy;
	uint64_t quota;
	uint64_t used;
	struct charge *charges;
	bool is_leaving; /* removed; its processes still hold memory on the device */
};

struct waiter {
	struct waiter *next; /* the next younger request */
	struct ledger_account *account;
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
	struct ledger_account *books;
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

static void holdings_free(struct ledger_account *account)
{
	while (account->charges) {
		struct charge *charge = account->charges;

		account->charges = charge->next;
		free(charge);
	}
}

void ledger_free(struct ledger *ledger)
{
	if (!ledger)
		return;
	while (ledger->books) {
		struct ledger_account *account = ledger->books;

		ledger->books = account->next;
		holdings_free(account);
		free(account);
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

static struct ledger_account *ledger_find_account(const struct ledger *ledger, uint32_t tenant)
{
	for (struct ledger_account *account = ledger->books; account; account = account->next)
		if (account->tenant == tenant)
			return account;
	return NULL;
}

static uint64_t add_clamped(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

static uint64_t ledger_subtract(uint64_t a, uint64_t b)
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

/* Sum of the quotas of the fail tenants, or of all other tenants. */
static uint64_t ledger_sum_quotas(
	const struct ledger *ledger, bool is_fail, const struct ledger_account *except)
{
	uint64_t sum = 0;

	for (const struct ledger_account *account = ledger->books; account; account = account->next)
		if (account != except && (account->policy == SPEC_MEMORY_FAIL) == is_fail)
			sum = add_clamped(sum, account->quota);
	return sum;
}

/* The memory that the quotas of all fail tenants leave: the wait tenants share it. */
static uint64_t shared_room(const struct ledger *ledger)
{
	return ledger_subtract(ledger->usable, ledger_sum_quotas(ledger, true, NULL));
}

static uint64_t room_without(const struct ledger *ledger, enum spec_memory_policy policy,
	const struct ledger_account *except)
{
	uint64_t fixed = ledger_sum_quotas(ledger, true, except);
	uint64_t shared = ledger_sum_quotas(ledger, false, except);
	uint64_t left = ledger_subtract(ledger->usable, fixed);
	uint64_t needed;

	if (policy == SPEC_MEMORY_SWAP)
		return ledger_subtract(
			times_permille(left, ledger->oversubscribe_permille), shared);
	if (policy == SPEC_MEMORY_WAIT) /* the quota must fit on the empty device */
		return MIN(left,
			ledger_subtract(
				times_permille(left, ledger->oversubscribe_permille), shared));
	/*
	 * The quota of a fail tenant must leave `needed` bytes, or else the quotas of wait and swap
	 * tenants would exceed the overcommit. It must also leave what wait tenants have reserved.
	 */
	needed = times_permille(shared, 1000u * 1000u / ledger->oversubscribe_permille);
	return ledger_subtract(left, MAX(needed, ledger->wait_used));
}

uint64_t ledger_room(const struct ledger *ledger, enum spec_memory_policy policy)
{
	return room_without(ledger, policy, NULL);
}

static int ledger_refuse_quota(const struct ledger *ledger, uint64_t quota,
	enum spec_memory_policy policy, uint64_t room, struct error *err)
{
	return fail(err, ENOSPC,
		"memory %s: at most %s is free now with memory-policy %s on this device (%s "
		"usable, %s in quotas)",
		format_bytes_exact(quota).s, format_bytes_exact(room).s,
		spec_memory_policy_name(policy), format_bytes(ledger->usable).s,
		format_bytes(add_clamped(ledger_sum_quotas(ledger, true, NULL),
				     ledger_sum_quotas(ledger, false, NULL)))
			.s);
}

int ledger_add(struct ledger *ledger, uint32_t tenant, uint64_t quota_bytes,
	enum spec_memory_policy policy, struct error *err)
{
	uint64_t room = ledger_room(ledger, policy);
	struct ledger_account *account;

	if (ledger_find_account(ledger, tenant))
		return fail(err, EEXIST, "tenant %u is on this device already", tenant);
	if (quota_bytes > room)
		return ledger_refuse_quota(ledger, quota_bytes, policy, room, err);
	account = calloc(1, sizeof(*account));
	if (!account)
		return fail(err, ENOMEM, "out of memory for tenant %u", tenant);
	account->tenant = tenant;
	account->policy = policy;
	account->quota = quota_bytes;
	account->next = ledger->books;
	ledger->books = account;
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

static int ledger_hold_bytes(
	struct ledger *ledger, struct ledger_account *account, uint32_t process, uint64_t bytes)
{
	struct charge *charge = account->charges;

	while (charge && charge->process != process)
		charge = charge->next;
	if (!charge) {
		charge = calloc(1, sizeof(*charge));
		if (!charge)
			return -ENOMEM;
		charge->process = process;
		charge->next = account->charges;
		account->charges = charge;
	}
	charge->bytes += bytes;
	account->used += bytes;
	if (account->policy == SPEC_MEMORY_WAIT)
		ledger->wait_used += bytes;
	return 0;
}

static bool ledger_fits_bytes(
	const struct ledger *ledger, const struct ledger_account *account, uint64_t bytes)
{
	return account->policy != SPEC_MEMORY_WAIT ||
		bytes <= ledger_subtract(shared_room(ledger), ledger->wait_used);
}

static bool is_waiting(
	const struct ledger *ledger, const struct ledger_account *account, uint32_t process)
{
	for (const struct waiter *waiter = ledger->waiters; waiter; waiter = waiter->next)
		if (waiter->account == account && waiter->process == process)
			return true;
	return false;
}

/* Whether every process that holds shared memory waits, so that none can release any memory. */
static bool is_deadlock(const struct ledger *ledger)
{
	for (const struct ledger_account *account = ledger->books; account;
		account = account->next) {
		if (account->policy != SPEC_MEMORY_WAIT)
			continue;
		for (const struct charge *charge = account->charges; charge; charge = charge->next)
			if (charge->bytes && !is_waiting(ledger, account, charge->process))
				return false;
	}
	return true;
}

/* Fails the youngest request, so that its process runs on and may release memory. */
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
static void ledger_grant_waiter(struct ledger *ledger, struct waiter **at)
{
	struct waiter *waiter = *at;
	int r = ledger_hold_bytes(ledger, waiter->account, waiter->process, waiter->bytes);

	*at = waiter->next;
	verdict_add(ledger, waiter, r);
}

/* All requests wait behind one that cannot be granted: grants the oldest request that fits. */
static bool let_one_pass(struct ledger *ledger)
{
	for (struct waiter **at = &ledger->waiters; *at; at = &(*at)->next)
		if (ledger_fits_bytes(ledger, (*at)->account, (*at)->bytes)) {
			ledger_grant_waiter(ledger, at);
			return true;
		}
	return false;
}

/*
 * Grants requests that fit, oldest first. A request does not pass an older one of another tenant
 * while some process may still release memory for the older request. A request may pass older
 * requests of its own tenant, since that delays only this tenant.
 */
static void ledger_grant_waiters(struct ledger *ledger)
{
	do {
		const struct ledger_account *first = NULL;
		struct waiter **at = &ledger->waiters;

		while (*at) {
			struct waiter *waiter = *at;
			struct ledger_account *account = waiter->account;
			bool may_pass = !first || first == account;

			if (waiter->bytes > ledger_subtract(account->quota, account->used)) {
				*at = waiter->next; /* the tenant's quota has shrunk */
				verdict_add(ledger, waiter, -ENOMEM);
			} else if (may_pass && ledger_fits_bytes(ledger, account, waiter->bytes)) {
				ledger_grant_waiter(ledger, at);
			} else {
				first = first ? first : account;
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
	struct ledger_account *account = ledger_find_account(ledger, tenant);
	uint64_t room;

	if (!account)
		return fail(err, ENOENT, "tenant %u is not on this device", tenant);
	room = room_without(ledger, account->policy, account);
	if (quota_bytes > room && quota_bytes > account->quota)
		return ledger_refuse_quota(ledger, quota_bytes, account->policy, room, err);
	account->quota = quota_bytes;
	ledger_grant_waiters(ledger);
	return 0;
}

/* Cancels the requests of a tenant, or of one of its processes. */
static void ledger_cancel_waiters(
	struct ledger *ledger, const struct ledger_account *account, bool all, uint32_t process)
{
	struct waiter **at = &ledger->waiters;

	while (*at) {
		struct waiter *waiter = *at;

		if (waiter->account == account && (all || waiter->process == process)) {
			*at = waiter->next;
			verdict_add(ledger, waiter, -ECANCELED);
		} else {
			at = &waiter->next;
		}
	}
}

static void ledger_close_account(struct ledger *ledger, struct ledger_account *account)
{
	struct ledger_account **at = &ledger->books;

	while (*at != account)
		at = &(*at)->next;
	*at = account->next;
	holdings_free(account);
	free(account);
}

void ledger_leave_held(struct ledger *ledger, uint32_t tenant, uint32_t process, uint64_t bytes)
{
	struct ledger_account *account = ledger_find_account(ledger, tenant);

	/*
	 * The tenant's programs report what they hold, and several may report the same memory: see
	 * ledger_shrink_account(). If the record cannot be allocated, the memory counts as free too
	 * early.
	 */
	if (account && account->policy == SPEC_MEMORY_FAIL && bytes)
		(void)ledger_hold_bytes(ledger, account, process, MIN(bytes, account->quota));
}

/*
 * Memory that a removed fail tenant still holds stays reserved, up to the tenant's quota: its
 * programs cannot claim more.
 */
static void ledger_shrink_account(struct ledger_account *account)
{
	account->quota = account->policy == SPEC_MEMORY_FAIL ? MIN(account->quota, account->used)
							     : 0;
}

void ledger_remove(struct ledger *ledger, uint32_t tenant)
{
	struct ledger_account *account = ledger_find_account(ledger, tenant);

	if (!account)
		return;
	ledger_cancel_waiters(ledger, account, true, 0);
	ledger_shrink_account(account);
	account->is_leaving = account->charges;
	if (!account->is_leaving)
		ledger_close_account(ledger, account);
	ledger_grant_waiters(ledger);
}

int ledger_reserve(struct ledger *ledger, uint32_t tenant, uint32_t process, uint64_t bytes,
	ledger_request request, uint64_t now)
{
	struct ledger_account *account = ledger_find_account(ledger, tenant);
	struct waiter *waiter, **end;

	if (!account)
		return -ENOENT;
	if (bytes > ledger_subtract(account->quota, account->used))
		return -ENOMEM;
	if (bytes > shared_room(ledger) && account->policy == SPEC_MEMORY_WAIT)
		return -ENOMEM; /* the request would wait for ever */
	if (!ledger->waiters && ledger_fits_bytes(ledger, account, bytes))
		return ledger_hold_bytes(ledger, account, process, bytes);
	if (ledger->n_requests >= LEDGER_REQUESTS_MAX)
		return -ENOMEM;
	waiter = calloc(1, sizeof(*waiter));
	if (!waiter)
		return -ENOMEM;
	*waiter = (struct waiter){
		.account = account,
		.process = process,
		.bytes = bytes,
		.request = request,
		.since = now,
	};
	for (end = &ledger->waiters; *end; end = &(*end)->next)
		;
	*end = waiter;
	ledger->n_requests++;
	ledger_grant_waiters(ledger);
	return -EINPROGRESS;
}

static void ledger_release_bytes(
	struct ledger *ledger, struct ledger_account *account, uint32_t process, uint64_t bytes)
{
	struct charge **at = &account->charges;
	struct charge *charge;

	while (*at && (*at)->process != process)
		at = &(*at)->next;
	charge = *at;
	if (!charge)
		return;
	bytes = MIN(bytes, charge->bytes);
	charge->bytes -= bytes;
	account->used -= bytes;
	if (account->policy == SPEC_MEMORY_WAIT)
		ledger->wait_used -= bytes;
	if (charge->bytes == 0) {
		*at = charge->next;
		free(charge);
	}
}

void ledger_release(struct ledger *ledger, uint32_t tenant, uint32_t process, uint64_t bytes)
{
	struct ledger_account *account = ledger_find_account(ledger, tenant);

	if (!account)
		return;
	ledger_release_bytes(ledger, account, process, bytes);
	ledger_grant_waiters(ledger);
}

void ledger_move(struct ledger *ledger, uint32_t tenant, uint32_t from, uint32_t to, uint64_t bytes)
{
	struct ledger_account *account = ledger_find_account(ledger, tenant);
	const struct charge *charge = account ? account->charges : NULL;

	while (charge && charge->process != from)
		charge = charge->next;
	if (!charge)
		return;
	bytes = MIN(bytes, charge->bytes);
	if (ledger_hold_bytes(ledger, account, to, bytes) >= 0)
		ledger_release_bytes(ledger, account, from, bytes);
}

void ledger_process_exited(struct ledger *ledger, uint32_t tenant, uint32_t process)
{
	struct ledger_account *account = ledger_find_account(ledger, tenant);

	if (!account)
		return;
	ledger_cancel_waiters(ledger, account, false, process);
	ledger_release_bytes(ledger, account, process, UINT64_MAX);
	if (account->is_leaving)
		ledger_shrink_account(account);
	if (account->is_leaving && !account->charges)
		ledger_close_account(ledger, account);
	ledger_grant_waiters(ledger);
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
	const struct ledger_account *account = ledger_find_account(ledger, tenant);

	return account ? account->used : 0;
}

uint64_t ledger_quota(const struct ledger *ledger, uint32_t tenant)
{
	const struct ledger_account *account = ledger_find_account(ledger, tenant);

	return account ? account->quota : 0;
}
