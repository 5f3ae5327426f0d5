/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns on one device: when the holder's turn ends, which tenant is next, and when its gate opens.
 * Pure; one thread.
 *
 * A turn lasts at least a quantum, and then until a waiting tenant passes the holder in the
 * policy's order; if none does, the holder continues. The holder's work in flight counts as part of
 * its turn, so that the turn ends when this work does. Better ranks do not wait for that.
 */
#include "base/clock.h"
#include "core/arbiter-internal.h"

/*
 * A round of n tenants lasts n times this, and each turn is its tenant's part of the round: often
 * enough to be even, rarely enough to be cheap (tests/unit/core/test-arbiter-shares.c). Among three
 * or more tenants two may have to wait at once, which makes windows of 1 s less even; two tenants
 * can take longer turns.
 */
#define ROUND_OF_TWO_NS (34 * NSEC_PER_MSEC)
#define ROUND_NS (28 * NSEC_PER_MSEC)

/* The class order; a standard tenant far below its request goes before all others for a turn. */
int seat_rank(const struct seat *seat)
{
	return seat->is_starved ? -1 : (int)seat->member->spec.class;
}

/* ---- contention: what a holder learns of other tenants ---- */

static void seen(struct device *device, const struct seat *seat, uint64_t now)
{
	if (device->recent[0].id != seat->member->id || device->recent[0].at == 0) {
		device->recent[1] = device->recent[0];
		device->recent[0].id = seat->member->id;
	}
	device->recent[0].at = now;
	device->recent[0].class = seat->member->spec.class;
	if (seat->member->spec.class == SPEC_LATENCY)
		device->latency_at = now;
}

static bool has_company(struct device *device, const struct seat *seat, uint64_t now)
{
	uint64_t keep = device->arbiter->config.company_ns;

	if (device->n_active > (seat->is_active ? 1u : 0u))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(device->recent); i++) {
		if (device->recent[i].id == seat->member->id || device->recent[i].at == 0)
			continue;
		if (clock_since_ns(now, device->recent[i].at) < keep) {
			device_wake(device, device->recent[i].at + keep);
			return true;
		}
	}
	return false;
}

/* Whether only tenants share the device that have to wait for this one in any case. */
static bool goes_before_all(struct device *device, const struct seat *seat, uint64_t now)
{
	uint64_t keep = device->arbiter->config.company_ns;

	if (seat->member->spec.class != SPEC_LATENCY)
		return false;
	for (uint32_t i = 0; i < device->n_active; i++)
		if (device->active[i] != seat &&
			device->active[i]->member->spec.class != SPEC_OPPORTUNISTIC)
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(device->recent); i++)
		if (device->recent[i].at && device->recent[i].id != seat->member->id &&
			device->recent[i].class != SPEC_OPPORTUNISTIC &&
			clock_since_ns(now, device->recent[i].at) < keep)
			return false;
	return true;
}

static uint32_t window_us(
	struct device *device, const struct seat *seat, bool company, uint64_t now)
{
	const struct arbiter_config *config = &device->arbiter->config;

	if (!config->gate)
		return 0;
	if (seat->member->spec.class == SPEC_OPPORTUNISTIC && device->latency_at &&
		clock_since_ns(now, device->latency_at) < config->company_ns) {
		device_wake(device, device->latency_at + config->company_ns);
		return config->window_latency_us;
	}
	if (seat->member->spec.limit < SPEC_SHARE_ONE)
		return seat->wide_us;
	return company && !goes_before_all(device, seat, now) ? seat->wide_us : 0;
}

/* Fills the common part of OPEN and WINDOW. */
static void tell(struct seat *seat, struct arbiter_action *action, uint64_t now)
{
	struct device *device = seat->device;

	action->tenant = seat->member->id;
	action->device = device->index;
	action->company = has_company(device, seat, now);
	action->waited = device->n_waiting != 0;
	action->window_us = window_us(device, seat, action->company, now);
	seat->told_company = action->company;
	seat->told_waited = action->waited;
	seat->told_window_us = action->window_us;
}

static void retell(struct seat *seat, uint64_t now)
{
	struct arbiter_action action = {.type = ARBITER_WINDOW};
	uint32_t window = seat->told_window_us;
	bool company = seat->told_company, waited = seat->told_waited;

	tell(seat, &action, now);
	if (window != action.window_us || company != action.company || waited != action.waited)
		arbiter_push(seat->device->arbiter, &action);
}

/* ---- opening and closing ---- */

void device_pass_on(struct device *device)
{
	device->holder = NULL;
	for (uint32_t i = 0; i < device->n_active && !device->holder; i++)
		if (seat_is_held(device->active[i]))
			device->holder = device->active[i];
}

/* The tenant's part of a round, by its entitlement. */
static uint64_t round_part_ns(const struct seat *seat)
{
	const struct device *device = seat->device;
	uint64_t n = 0;

	for (uint32_t i = 0; i < device->n_active; i++)
		n += device->active[i]->member->spec.class == seat->member->spec.class;
	return (uint64_t)seat->micro * n * (n <= 2 ? ROUND_OF_TWO_NS : ROUND_NS) / WATER_ONE;
}

/* The length of its turn if `next` waits. */
static uint64_t hold_ns(const struct seat *seat, const struct seat *next)
{
	const struct arbiter_config *config = &seat->device->arbiter->config;
	const struct device *device = seat->device;

	if (seat->member->spec.memory_policy == SPEC_MEMORY_SWAP &&
		next->member->spec.memory_policy == SPEC_MEMORY_SWAP)
		return config->swap_quantum_ns;
	if (device->arbiter->policy->has_even_turns)
		return seat_quantum_ns(seat);
	return MAX(MIN(round_part_ns(seat), seat_quantum_ns(seat)), config->quantum_min_ns);
}

static void seat_open(struct seat *seat, bool corun, uint64_t now)
{
	struct device *device = seat->device;
	struct arbiter_action action = {.type = ARBITER_OPEN, .epoch = device->arbiter->epoch};
	bool is_drained = true;

	device_account(device, now);
	device->overlap_until = now;
	for (uint32_t i = 0; i < device->n_active; i++) {
		const struct seat *other = device->active[i];

		if (other == seat || other->state != SEAT_DRAINING)
			continue;
		is_drained = false;
		if (seat_is_end_known(other, seat_lead_ns(seat)))
			device->overlap_until = MAX(device->overlap_until, other->ends_at);
	}
	if (seat->is_waiting)
		device->n_waiting--;
	seat->is_waiting = false;
	seat->state = SEAT_OPEN;
	seat->opened_at = seat->gate_opened_at = now;
	seat->turn_ns = 0;
	seat->has_used = false;
	seat->idle_since = 0;
	seat->gives_way = false;
	seat->yields = false;
	seat->turn_ends_at = 0;
	seat->is_offered = false;
	seat->is_corun = corun;
	seat->is_overlapped = !corun && !is_drained;
	seat->has_rest = false;
	seat->is_unbounded = false;
	seat->queued_ns = 0;
	seat_update_active(seat, now);
	seat_fade(seat);
	seat->wide_us = seat_wide_us(seat, round_part_ns(seat));
	if (!device->holder)
		device->holder = seat;
	device->is_dirty = true;
	tell(seat, &action, now);
	arbiter_push(device->arbiter, &action);
}

void member_open(struct member *member, bool corun, uint64_t now)
{
	struct arbiter *arbiter = member->seat[0].device->arbiter;

	arbiter->epoch++;
	for (uint32_t i = 0; i < member->n_seats; i++)
		if (member->seat[i].state != SEAT_OPEN)
			seat_open(&member->seat[i], corun, now);
}

static uint64_t said_rest(const struct seat *seat, uint64_t now)
{
	return clock_since_ns(seat->queued_ns, clock_since_ns(now, seat->queued_at));
}

static uint64_t queued_rest(const struct seat *seat, uint64_t now)
{
	const struct arbiter_config *config = &seat->device->arbiter->config;
	uint64_t rest = said_rest(seat, now);

	/*
	 * The client's number is limited: no more than a window and one submission can be in
	 * flight.
	 */
	return MIN(rest,
		seat->longest_ns + MAX(config->window_us, seat->told_window_us) * NSEC_PER_USEC);
}

/*
 * After a drain past its bound, later drains get only the time that they usually take. Each further
 * overrun doubles that, because the work may have become longer.
 */
uint64_t seat_drain_max_ns(const struct seat *seat)
{
	const struct arbiter_config *config = &seat->device->arbiter->config;
	uint64_t most = MAX(3 * seat->drained_ns / 2, config->hold_max_ns);

	if (!seat->overdue_at ||
		clock_since_ns(seat->closed_at, seat->overdue_at) > ARBITER_BOND_NS)
		return config->drain_max_ns;
	return MIN(most << MIN(seat->n_overdue, 4u), config->drain_max_ns);
}

static void seat_close(struct seat *seat, uint64_t now)
{
	struct device *device = seat->device;
	const struct arbiter_config *config = &device->arbiter->config;
	/*
	 * The configured window, also for a tenant with a wider one: queued_ns includes its
	 * additional work.
	 */
	uint64_t windows = 4 * NSEC_PER_USEC *
		(seat->told_window_us ? MIN(seat->told_window_us, config->window_us)
				      : config->window_us);
	uint64_t beside = 0;
	struct arbiter_action action = {
		.type = ARBITER_CLOSE, .tenant = seat->member->id, .device = device->index};

	device_account(device, now);
	seat->state = SEAT_DRAINING;
	seat->has_rest = false;
	seat->is_overlapped = false;
	seat->is_offered = false;
	seat->is_corun = false;
	seat->is_unbounded = seat->told_window_us == 0;
	/*
	 * The work in flight may end with one submission of unknown length. Here the client's
	 * number counts in full: the tenant may have been alone a moment ago, and it is charged for
	 * what it runs.
	 */
	seat->closed_at = now;
	for (uint32_t i = 0; i < device->n_active; i++)
		beside += device->active[i]->state !=
			SEAT_CLOSED; /* they share the device's time */
	seat->drain_bound_ns = seat_drain_max_ns(seat);
	if (seat->longest_ns) /* else the length of its work is unknown */
		seat->drain_bound_ns = MIN(beside *
				MAX(MAX(windows, config->hold_max_ns),
					said_rest(seat, now) + seat->longest_ns + windows / 4),
			seat->drain_bound_ns);
	seat->is_noted = false;
	seat->drain_by = now + seat->drain_bound_ns;
	seen(device, seat, now);
	if (device->holder == seat)
		device_pass_on(device);
	device->is_dirty = true;
	arbiter_push(device->arbiter, &action);
}

/* Closes the gates on all its devices: a part of a gang is useless to it. */
void member_close(struct member *member, uint64_t now)
{
	for (uint32_t i = 0; i < member->n_seats; i++)
		if (member->seat[i].state == SEAT_OPEN)
			seat_close(&member->seat[i], now);
}

static void close_all(struct device *device, uint64_t now)
{
	for (uint32_t i = 0; i < device->n_active; i++)
		if (device->active[i]->state == SEAT_OPEN)
			member_close(device->active[i]->member, now);
}

/* ---- co-run pairs: the work of one waits for the work of the other ---- */

/*
 * A drain past its bound counts as much as BOND_EVENT others; from BOND_LEVEL on the tenants are a
 * pair: after three in a row, or more than one in eight for a while. Work that waits for the
 * other's work overruns nearly each time. A program that the host delays overruns now and then, and
 * must gain nothing by that.
 */
#define BOND_EVENT 7u
#define BOND_LEVEL (2 * BOND_EVENT + 1)

static bool bond_is_of(const struct bond *bond, arbiter_id id)
{
	return bond->event_at && (bond->a == id || bond->b == id);
}

static struct bond *bond_find(struct device *device, arbiter_id a, arbiter_id b)
{
	for (size_t i = 0; i < ARBITER_BONDS; i++)
		if (bond_is_of(&device->bond[i], a) && bond_is_of(&device->bond[i], b))
			return &device->bond[i];
	return NULL;
}

static bool is_bonded(
	struct device *device, const struct seat *x, const struct seat *y, uint64_t now)
{
	const struct bond *bond = bond_find(device, x->member->id, y->member->id);

	return bond && bond->until > now;
}

void seat_drained(struct seat *seat, uint64_t now)
{
	struct device *device = seat->device;

	if (seat->is_noted)
		return;
	seat->n_overdue = 0;
	seat->drained_ns = MAX(
		clock_since_ns(now, seat->closed_at), seat->drained_ns - seat->drained_ns / 64);
	device->drained_at = now;
	for (size_t i = 0; i < ARBITER_BONDS; i++) {
		struct bond *bond = &device->bond[i];

		if (bond_is_of(bond, seat->member->id) && bond->level)
			bond->level--;
	}
}

void bonds_forget(struct device *device, const struct member *member)
{
	for (size_t i = 0; i < ARBITER_BONDS; i++)
		if (bond_is_of(&device->bond[i], member->id))
			device->bond[i] = (struct bond){0};
}

static struct bond *bond_get(struct device *device, arbiter_id a, arbiter_id b)
{
	struct bond *bond = bond_find(device, a, b);

	if (bond)
		return bond;
	bond = &device->bond[0];
	for (size_t i = 1; i < ARBITER_BONDS; i++)
		if (device->bond[i].event_at < bond->event_at)
			bond = &device->bond[i];
	*bond = (struct bond){.a = a, .b = b};
	return bond;
}

/*
 * A drain has passed its bound. A pair co-runs without waiting for ARBITER_BOND_NS; another overrun
 * right after that renews the pair.
 */
static void bond_note(
	struct device *device, const struct seat *x, const struct seat *y, uint64_t now)
{
	struct bond *bond = bond_get(device, x->member->id, y->member->id);
	uint64_t since = clock_since_ns(now, bond->event_at);

	/* The device itself may stand still, which says nothing about these tenants. */
	if (bond->event_at && device->drained_at <= bond->event_at && since < ARBITER_BOND_NS / 10)
		return;
	if (since > ARBITER_BOND_NS)
		bond->level = 0;
	if (bond->until && clock_since_ns(now, bond->until) < ARBITER_BOND_NS / 10)
		bond->level = BOND_LEVEL;
	bond->level = MIN(bond->level + BOND_EVENT, 2 * BOND_LEVEL);
	bond->event_at = now;
	if (bond->level >= BOND_LEVEL)
		bond->until = now + ARBITER_BOND_NS;
}

/* Whether it is paired with all tenants that run on the device; three tenants co-run only then. */
static bool is_bonded_with_all(struct device *device, const struct seat *seat, uint64_t now)
{
	for (uint32_t i = 0; i < device->n_active; i++) {
		const struct seat *other = device->active[i];

		if (other != seat && other->state != SEAT_CLOSED &&
			!is_bonded(device, seat, other, now))
			return false;
	}
	return true;
}

/* ---- may the next tenant open? ---- */

static enum clearance clearance_beside(
	struct device *device, const struct seat *seat, const struct seat *drains, uint64_t now)
{
	uint64_t lead = seat_lead_ns(seat);
	uint64_t overlap = device->arbiter->config.overlap_ns + lead;
	bool is_known = seat_is_end_known(drains, lead);

	if (seat->member->spec.class == SPEC_LATENCY && seat_rank(drains) > seat_rank(seat))
		return CLEAR_CORUN;
	if (drains->is_unbounded && seat_rank(drains) >= seat_rank(seat))
		return CLEAR_CORUN;
	if (is_bonded(device, seat, drains, now) || now >= drains->drain_by)
		return CLEAR_STUCK;
	if (is_known && drains->ends_at <= now + overlap)
		return CLEAR_OVERLAP;
	device_wake(device,
		is_known ? MIN(drains->ends_at - overlap, drains->drain_by) : drains->drain_by);
	return CLEAR_NOT;
}

enum clearance device_clearance(struct device *device, const struct seat *seat, uint64_t now)
{
	enum clearance all = CLEAR_YES;

	for (uint32_t i = 0; i < device->n_active; i++) {
		const struct seat *other = device->active[i];
		enum clearance one;

		if (other->state != SEAT_DRAINING || other == seat)
			continue;
		one = clearance_beside(device, seat, other, now);
		if (one == CLEAR_NOT)
			return CLEAR_NOT;
		all = MAX(all, one);
	}
	return all;
}

void device_reopen_stuck(struct device *device, const struct seat *next, uint64_t now)
{
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct seat *other = device->active[i];
		bool bonded;

		if (other->state != SEAT_DRAINING || other == next)
			continue;
		bonded = is_bonded(device, next, other, now);
		if (!bonded && now < other->drain_by)
			continue;
		if (!bonded && !other->is_noted) {
			bond_note(device, next, other, now);
			other->is_noted = true;
			other->overdue_at = now;
			other->n_overdue++;
		}
		/* A tenant at its limit continues to drain beside the others. */
		if (!other->is_throttled)
			member_open(other->member, true, now);
	}
	device->corun_until = now + device->arbiter->config.quantum_ns;
}

static bool try_open(struct device *device, struct seat *seat, uint64_t now)
{
	enum clearance clear;

	if (is_gang(seat->member)) {
		gang_reserve(seat, now);
		return false;
	}
	clear = device_clearance(device, seat, now);
	if (clear == CLEAR_NOT)
		return false;
	if (clear == CLEAR_STUCK)
		device_reopen_stuck(device, seat, now);
	member_open(seat->member, clear >= CLEAR_CORUN, now);
	return true;
}

/* ---- ending turns ---- */

/*
 * The tenant does not submit: its thread waits for a processor. The token is offered to the next
 * tenant, too; the tenant that submits first gets it, see settle_offers().
 */
static void seat_offer(struct seat *seat)
{
	struct device *device = seat->device;

	seat->is_offered = true;
	if (device->holder != seat)
		return;
	device_pass_on(device);
}

/* Several gates are open. If one of these tenants has submitted, it gets the token. */
static void settle_offers(struct device *device, uint64_t now)
{
	struct seat *first = device->holder && device->holder->has_used ? device->holder : NULL;
	uint32_t n_offered = 0;

	for (uint32_t i = 0; i < device->n_active; i++) {
		struct seat *seat = device->active[i];

		n_offered += seat->state == SEAT_OPEN && seat->is_offered;
		if (seat->state == SEAT_OPEN && seat->is_offered && seat->has_used &&
			(!first || seat_rank(seat) < seat_rank(first)))
			first = seat;
	}
	if (n_offered == 0 || !first)
		return;
	if (first->is_offered)
		first->opened_at = now;
	first->is_offered = false;
	device->holder = first;
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct seat *seat = device->active[i];

		if (seat == first || seat->state != SEAT_OPEN || is_gang(seat->member) ||
			(seat->has_used && !seat->is_offered &&
				(seat_rank(seat) <= seat_rank(first) ||
					is_bonded(device, seat, first, now))))
			continue;
		if (!seat->has_used)
			seat->member->wants = 0; /* the caller reports its want again */
		member_close(seat->member, now);
	}
}

/* Whether it is idle, or has released the device. */
static bool must_give_way(struct seat *seat, uint64_t now)
{
	const struct arbiter_config *config = &seat->device->arbiter->config;
	uint64_t idle = seat->member->spec.class == SPEC_LATENCY ? config->linger_ns
								 : config->idle_ns;
	uint64_t at;

	if (seat->gives_way)
		return !is_gang(seat->member) || gang_is_idle(seat->member, now);
	if (!seat->has_used) {
		at = seat->opened_at + config->unused_ns;
		if (now >= at && !is_gang(seat->member)) {
			seat_offer(seat);
			return false;
		}
	} else if (seat->idle_since) {
		at = seat->idle_since + idle;
		if (now >= at &&
			(!is_gang(seat->member) || gang_is_idle(seat->member, now - idle))) {
			seat->dry_since = seat->idle_since;
			return true;
		}
	} else {
		return false;
	}
	if (now < at)
		device_wake(seat->device, at);
	return false;
}

/* > 0: a was closed for others, later than b; < 0: b was. */
static int64_t closed_for_others(const struct seat *a, const struct seat *b)
{
	const uint64_t at_a = a->state == SEAT_DRAINING ? a->closed_at : 0;
	const uint64_t at_b = b->state == SEAT_DRAINING ? b->closed_at : 0;

	return (at_a > at_b) - (at_a < at_b);
}

/* The best tenant that waits for this device, or NULL. */
static struct seat *best_waiting(struct device *device, uint64_t now)
{
	const struct arbiter_policy *policy = device->arbiter->policy;
	struct seat *best = NULL;

	device->n_waiting = 0;
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct seat *seat = device->active[i];
		int64_t order;

		seat_update_limits(seat, now);
		seat->is_waiting = seat_wants(seat) && seat->state != SEAT_OPEN &&
			!seat->is_throttled;
		if (!seat->is_waiting)
			continue;
		device->n_waiting++;
		if (is_gang(seat->member) && !gang_may_compete(seat))
			continue;
		if (best) {
			order = seat_rank(best) - seat_rank(seat);
			if (order == 0) /* it was just closed for the others' sake */
				order = closed_for_others(best, seat);
			if (order == 0)
				order = policy->score(seat, now) - policy->score(best, now);
			if (order == 0)
				order = best->wants_since > seat->wants_since ? 1 : -1;
			if (order < 0)
				continue;
		}
		best = seat;
	}
	device->arbiter->operations += device->n_active;
	return best;
}

/* Whether the holder's turn is over, while `next` waits. */
static bool is_turn_over(
	struct device *device, struct seat *holder, struct seat *next, uint64_t now)
{
	uint64_t rest = queued_rest(holder, now);
	uint64_t passes, ends;

	if (seat_rank(next) != seat_rank(holder))
		return seat_rank(next) < seat_rank(holder);
	/* It has yielded, or had the device alone until now. */
	if (holder->yields || holder->told_window_us == 0)
		return true;
	passes = device->arbiter->policy->passes_ns(holder, next, rest, now);
	ends = holder->opened_at + hold_ns(holder, next);
	ends = MAX(clock_since_ns(ends, rest), now + passes);
	if (!is_gang(holder->member)) /* a gang cannot yield on one device */
		holder->turn_ends_at = ends + rest;
	if (now >= ends)
		return true;
	device_wake(device, ends);
	return false;
}

/* Ends co-running of tenants that are no pair: the best gets a turn, the others wait again. */
static void end_corun(struct device *device, uint64_t now)
{
	const struct arbiter_policy *policy = device->arbiter->policy;
	struct seat *best = device->holder;
	uint32_t n = 0;

	for (uint32_t i = 0; i < device->n_active; i++) {
		struct seat *seat = device->active[i];

		if (!seat_is_held(seat))
			continue;
		n++;
		if (policy->score(seat, now) > policy->score(best, now))
			best = seat;
	}
	if (n < 2 || is_bonded_with_all(device, best, now))
		return;
	if (now < device->corun_until) {
		device_wake(device, device->corun_until);
		return;
	}
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct seat *seat = device->active[i];

		if (seat_is_held(seat) && seat != best && !is_bonded(device, seat, best, now))
			member_close(seat->member, now);
	}
	best->opened_at = now;
	device->holder = best;
}

/*
 * A drain should have ended and has not: the tenant that was opened meanwhile co-runs, and is
 * charged.
 */
static void end_overlap(struct device *device, uint64_t now)
{
	uint64_t by = 0;

	for (uint32_t i = 0; i < device->n_active; i++)
		if (device->active[i]->state == SEAT_DRAINING)
			by = MAX(by, device->active[i]->drain_by);
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct seat *seat = device->active[i];

		if (seat->state != SEAT_OPEN || !seat->is_overlapped)
			continue;
		if (now < by) {
			device_wake(device, by);
			continue;
		}
		seat->is_overlapped = false;
		seat->is_corun = by != 0;
	}
}

static void close_idle(struct device *device, uint64_t now)
{
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct seat *seat = device->active[i];

		if (seat->state != SEAT_OPEN)
			continue;
		if (!seat->is_throttled && seat->is_offered && !seat->has_used)
			continue;
		if (seat->is_throttled || (device->n_waiting && must_give_way(seat, now)))
			member_close(seat->member, now);
	}
}

/* Without gates every tenant opens as soon as it wants. */
static void open_all(struct device *device, uint64_t now)
{
	for (uint32_t i = 0; i < device->n_active; i++)
		if (seat_wants(device->active[i]) && device->active[i]->state != SEAT_OPEN)
			member_open(device->active[i]->member, true, now);
}

void device_decide(struct device *device, uint64_t now)
{
	struct seat *next;

	device->is_dirty = false;
	device->next_at = UINT64_MAX;
	device_account(device, now);
	device_leave_idle(device, now);
	if (device->is_stale)
		device_entitle(device);
	if (!device->arbiter->config.gate) {
		open_all(device, now);
		return;
	}
	next = best_waiting(device, now);
	if (device->holder)
		device->holder->turn_ends_at = 0;
	if (device->holder && !next)
		device->holder->yields = false;
	settle_offers(device, now);
	close_idle(device, now);
	end_overlap(device, now);
	if (device->holder)
		end_corun(device, now);
	if (next && device->reserved && next->member != device->reserved &&
		gang_is_complete(device->reserved)) {
		if (seat_rank(next) < seat_rank(member_seat(device->reserved, device->index)))
			gang_unreserve(device->reserved);
		else
			next = NULL; /* the device is drained for the gang */
	}
	if (next && !device->holder) {
		try_open(device, next, now);
	} else if (next && seat_rank(next) <= seat_rank(device->holder) &&
		is_bonded_with_all(device, next, now)) {
		if (!is_gang(next->member))
			member_open(next->member, true, now);
		else
			gang_reserve(next, now);
	} else if (next && is_turn_over(device, device->holder, next, now)) {
		if (is_gang(next->member)) {
			gang_reserve(next, now);
		} else {
			close_all(device, now);
			try_open(device, next, now);
		}
	}
	if (device->reserved && gang_is_complete(device->reserved))
		gang_try_open(device->reserved, now);
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct seat *seat = device->active[i];

		if (seat->member->spec.class == SPEC_LATENCY)
			device->latency_at = now;
		if (seat->state == SEAT_OPEN)
			retell(seat, now);
	}
}
