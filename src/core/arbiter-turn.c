/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns on one device: when the holder's turn ends, which tenant is next, and when its gate opens.
 * Pure; one thread.
 *
 * A turn lasts at least its planned length, and then until a waiting tenant passes the holder in
 * the policy's order; if none does, the holder continues. The holder's work in flight counts as
 * part of its turn, so that the turn ends when this work does. A waiting tenant of a better rank
 * ends the turn at once.
 */
#include "base/clock.h"
#include "core/arbiter-internal.h"

/*
 * A round of n tenants lasts n * ROUND_NS, or 2 * ROUND_OF_TWO_NS for two, and each turn is its
 * tenant's part of the round. Turns then change often enough for even shares, and rarely enough to
 * be cheap (tests/unit/core/test-arbiter-shares.c). Longer turns would divide each second less
 * evenly among three or more tenants, so only two tenants get them.
 */
#define ROUND_OF_TWO_NS (34 * NSEC_PER_MSEC)
#define ROUND_NS (28 * NSEC_PER_MSEC)

/*
 * The rank: lower goes first. It follows the class, but a standard tenant far below its request
 * goes before all other tenants for a turn.
 */
int td_rank(const struct arbiter_td *td)
{
	return td->is_starved ? -1 : (int)td->tenant->spec.class;
}

/* ---- contention: what a holder learns of other tenants ---- */

static void device_note_queued(struct device *device, const struct arbiter_td *td, uint64_t now)
{
	if (device->recent[0].id != td->tenant->id || device->recent[0].at == 0) {
		device->recent[1] = device->recent[0];
		device->recent[0].id = td->tenant->id;
	}
	device->recent[0].at = now;
	device->recent[0].class = td->tenant->spec.class;
	if (td->tenant->spec.class == SPEC_LATENCY)
		device->latency_at = now;
}

static bool device_is_contended(struct device *device, const struct arbiter_td *td, uint64_t now)
{
	uint64_t keep = device->arbiter->config.contended_ns;

	if (device->n_active > (td->is_active ? 1u : 0u))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(device->recent); i++) {
		if (device->recent[i].id == td->tenant->id || device->recent[i].at == 0)
			continue;
		if (clock_since_ns(now, device->recent[i].at) < keep) {
			device_wake(device, device->recent[i].at + keep);
			return true;
		}
	}
	return false;
}

/*
 * Whether this tenant goes before all other tenants of the device: it has class latency, and the
 * other tenants are opportunistic.
 */
static bool goes_before_all(struct device *device, const struct arbiter_td *td, uint64_t now)
{
	uint64_t keep = device->arbiter->config.contended_ns;

	if (td->tenant->spec.class != SPEC_LATENCY)
		return false;
	for (uint32_t i = 0; i < device->n_active; i++)
		if (device->active[i] != td &&
			device->active[i]->tenant->spec.class != SPEC_OPPORTUNISTIC)
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(device->recent); i++)
		if (device->recent[i].at && device->recent[i].id != td->tenant->id &&
			device->recent[i].class != SPEC_OPPORTUNISTIC &&
			clock_since_ns(now, device->recent[i].at) < keep)
			return false;
	return true;
}

static uint32_t window_us(
	struct device *device, const struct arbiter_td *td, bool contended, uint64_t now)
{
	const struct arbiter_config *config = &device->arbiter->config;

	if (!config->gate)
		return 0;
	if (td->tenant->spec.class == SPEC_OPPORTUNISTIC && device->latency_at &&
		clock_since_ns(now, device->latency_at) < config->contended_ns) {
		device_wake(device, device->latency_at + config->contended_ns);
		return config->window_latency_us;
	}
	if (td->tenant->spec.limit < SPEC_SHARE_ONE)
		return td->wide_us;
	return contended && !goes_before_all(device, td, now) ? td->wide_us : 0;
}

/* Fills the common part of OPEN and WINDOW. */
static void td_send_action(struct arbiter_td *td, struct arbiter_action *action, uint64_t now)
{
	struct device *device = td->device;

	action->tenant = td->tenant->id;
	action->device = device->index;
	action->contended = device_is_contended(device, td, now);
	action->waited = device->n_waiting != 0;
	action->window_us = window_us(device, td, action->contended, now);
	td->reported_contended = action->contended;
	td->reported_waited = action->waited;
	td->reported_window_us = action->window_us;
}

static void td_resend_action(struct arbiter_td *td, uint64_t now)
{
	struct arbiter_action action = {.type = ARBITER_WINDOW};
	uint32_t window = td->reported_window_us;
	bool contended = td->reported_contended, waited = td->reported_waited;

	td_send_action(td, &action, now);
	if (window != action.window_us || contended != action.contended || waited != action.waited)
		arbiter_push(td->device->arbiter, &action);
}

/* ---- opening and closing ---- */

void device_pass_on(struct device *device)
{
	device->holder = NULL;
	for (uint32_t i = 0; i < device->n_active && !device->holder; i++)
		if (td_has_turn(device->active[i]))
			device->holder = device->active[i];
}

/* The tenant's part of a round, by its entitlement. */
static uint64_t round_part_ns(const struct arbiter_td *td)
{
	const struct device *device = td->device;
	uint64_t n = 0;

	for (uint32_t i = 0; i < device->n_active; i++)
		n += device->active[i]->tenant->spec.class == td->tenant->spec.class;
	return (uint64_t)td->micro * n * (n <= 2 ? ROUND_OF_TWO_NS : ROUND_NS) / WATER_ONE;
}

/* Planned length of the tenant's turn if `next` waits. */
static uint64_t td_planned_turn_ns(const struct arbiter_td *td, const struct arbiter_td *next)
{
	const struct arbiter_config *config = &td->device->arbiter->config;
	const struct device *device = td->device;

	if (td->tenant->spec.memory_policy == SPEC_MEMORY_SWAP &&
		next->tenant->spec.memory_policy == SPEC_MEMORY_SWAP)
		return config->swap_quantum_ns;
	if (device->arbiter->policy->has_even_turns)
		return td_quantum_ns(td);
	return MAX(MIN(round_part_ns(td), td_quantum_ns(td)), config->quantum_min_ns);
}

static void td_open(struct arbiter_td *td, bool corun, uint64_t now)
{
	struct device *device = td->device;
	struct arbiter_action action = {.type = ARBITER_OPEN, .epoch = device->arbiter->epoch};
	bool is_drained = true;

	device_account(device, now);
	device->overlap_until = now;
	for (uint32_t i = 0; i < device->n_active; i++) {
		const struct arbiter_td *other = device->active[i];

		if (other == td || other->state != TD_DRAINING)
			continue;
		is_drained = false;
		if (td_is_end_known(other, td_lead_ns(td)))
			device->overlap_until = MAX(device->overlap_until, other->ends_at);
	}
	if (td->is_waiting)
		device->n_waiting--;
	td->is_waiting = false;
	td->state = TD_OPEN;
	td->opened_at = td->gate_opened_at = now;
	td->turn_ns = 0;
	td->has_used = false;
	td->idle_since = 0;
	td->gives_way = false;
	td->yields = false;
	td->turn_ends_at = 0;
	td->is_offered = false;
	td->is_corun = corun;
	td->is_overlapped = !corun && !is_drained;
	td->has_drain_estimate = false;
	td->is_unbounded = false;
	td->queued_ns = 0;
	td_update_active(td, now);
	td_fade(td);
	td->wide_us = td_wide_us(td, round_part_ns(td));
	if (!device->holder)
		device->holder = td;
	device->is_dirty = true;
	td_send_action(td, &action, now);
	arbiter_push(device->arbiter, &action);
}

void arbiter_tenant_open(struct arbiter_tenant *t, bool corun, uint64_t now)
{
	struct arbiter *arbiter = t->td[0].device->arbiter;

	arbiter->epoch++;
	for (uint32_t i = 0; i < t->n_tds; i++)
		if (t->td[i].state != TD_OPEN)
			td_open(&t->td[i], corun, now);
}

static uint64_t td_reported_drain_ns(const struct arbiter_td *td, uint64_t now)
{
	return clock_since_ns(td->queued_ns, clock_since_ns(now, td->queued_at));
}

static uint64_t td_turn_queued_rest(const struct arbiter_td *td, uint64_t now)
{
	const struct arbiter_config *config = &td->device->arbiter->config;
	uint64_t rest = td_reported_drain_ns(td, now);

	/*
	 * Limits the time that the client predicts, because at most a window and one submission can
	 * be in flight.
	 */
	return MIN(rest,
		td->longest_ns + MAX(config->window_us, td->reported_window_us) * NSEC_PER_USEC);
}

/*
 * After a drain past its bound, later drains get only the time that they usually take. Each further
 * overrun doubles this time, because the work may have become longer.
 */
uint64_t td_drain_max_ns(const struct arbiter_td *td)
{
	const struct arbiter_config *config = &td->device->arbiter->config;
	uint64_t most = MAX(3 * td->drained_ns / 2, config->turn_max_ns);

	if (!td->overdue_at ||
		clock_since_ns(td->closed_at, td->overdue_at) > ARBITER_CORUN_PAIR_NS)
		return config->drain_max_ns;
	return MIN(most << MIN(td->n_overdue, 4u), config->drain_max_ns);
}

static void td_close(struct arbiter_td *td, uint64_t now)
{
	struct device *device = td->device;
	const struct arbiter_config *config = &device->arbiter->config;
	/*
	 * The bound uses at most the configured window, because queued_ns includes the additional
	 * work of a wider window.
	 */
	uint64_t windows = 4 * NSEC_PER_USEC *
		(td->reported_window_us ? MIN(td->reported_window_us, config->window_us)
					: config->window_us);
	uint64_t beside = 0;
	struct arbiter_action action = {
		.type = ARBITER_CLOSE, .tenant = td->tenant->id, .device = device->index};

	device_account(device, now);
	td->state = TD_DRAINING;
	td->has_drain_estimate = false;
	td->is_overlapped = false;
	td->is_offered = false;
	td->is_corun = false;
	td->is_unbounded = td->reported_window_us == 0;
	/*
	 * The drain's bound adds the longest submission to the client's prediction, because a
	 * submission of unknown length may end the work in flight. The prediction is not cut to a
	 * window: a tenant that was alone a moment ago may have more in flight, and pays for it.
	 */
	td->closed_at = now;
	for (uint32_t i = 0; i < device->n_active; i++)
		beside += device->active[i]->state != TD_CLOSED; /* they share the device's time */
	td->drain_bound_ns = td_drain_max_ns(td);
	if (td->longest_ns) /* else the length of its work is unknown */
		td->drain_bound_ns = MIN(beside *
				MAX(MAX(windows, config->turn_max_ns),
					td_reported_drain_ns(td, now) + td->longest_ns +
						windows / 4),
			td->drain_bound_ns);
	td->is_noted = false;
	td->drain_by = now + td->drain_bound_ns;
	device_note_queued(device, td, now);
	if (device->holder == td)
		device_pass_on(device);
	device->is_dirty = true;
	arbiter_push(device->arbiter, &action);
}

/* Closes the gates on all devices of the tenant: a gang cannot use a part of its devices. */
void arbiter_tenant_close(struct arbiter_tenant *t, uint64_t now)
{
	for (uint32_t i = 0; i < t->n_tds; i++)
		if (t->td[i].state == TD_OPEN)
			td_close(&t->td[i], now);
}

static void device_close_gates(struct device *device, uint64_t now)
{
	for (uint32_t i = 0; i < device->n_active; i++)
		if (device->active[i]->state == TD_OPEN)
			arbiter_tenant_close(device->active[i]->tenant, now);
}

/* ---- co-run pairs: the work of one waits for the work of the other ---- */

/*
 * A drain past its bound counts as much as CORUN_EVENT drains within their bounds. From CORUN_LEVEL
 * on the tenants are a pair: after three overruns in a row, or more than one in eight for a while.
 * If the work of one tenant waits for that of the other, nearly each drain overruns. A program that
 * the host delays overruns now and then, and must not become part of a pair by that.
 */
#define CORUN_EVENT 7u
#define CORUN_LEVEL (2 * CORUN_EVENT + 1)

static bool corun_pair_is_of(const struct corun_pair *pair, arbiter_id id)
{
	return pair->event_at && (pair->a == id || pair->b == id);
}

static struct corun_pair *corun_pair_find(struct device *device, arbiter_id a, arbiter_id b)
{
	for (size_t i = 0; i < ARBITER_CORUN_PAIRS; i++)
		if (corun_pair_is_of(&device->pair[i], a) && corun_pair_is_of(&device->pair[i], b))
			return &device->pair[i];
	return NULL;
}

static bool is_bonded(
	struct device *device, const struct arbiter_td *x, const struct arbiter_td *y, uint64_t now)
{
	const struct corun_pair *pair = corun_pair_find(device, x->tenant->id, y->tenant->id);

	return pair && pair->until > now;
}

void td_drained(struct arbiter_td *td, uint64_t now)
{
	struct device *device = td->device;

	if (td->is_noted)
		return;
	td->n_overdue = 0;
	td->drained_ns = MAX(
		clock_since_ns(now, td->closed_at), td->drained_ns - td->drained_ns / 64);
	device->drained_at = now;
	for (size_t i = 0; i < ARBITER_CORUN_PAIRS; i++) {
		struct corun_pair *pair = &device->pair[i];

		if (corun_pair_is_of(pair, td->tenant->id) && pair->level)
			pair->level--;
	}
}

void corun_pairs_forget(struct device *device, const struct arbiter_tenant *t)
{
	for (size_t i = 0; i < ARBITER_CORUN_PAIRS; i++)
		if (corun_pair_is_of(&device->pair[i], t->id))
			device->pair[i] = (struct corun_pair){0};
}

static struct corun_pair *corun_pair_get(struct device *device, arbiter_id a, arbiter_id b)
{
	struct corun_pair *pair = corun_pair_find(device, a, b);

	if (pair)
		return pair;
	pair = &device->pair[0];
	for (size_t i = 1; i < ARBITER_CORUN_PAIRS; i++)
		if (device->pair[i].event_at < pair->event_at)
			pair = &device->pair[i];
	*pair = (struct corun_pair){.a = a, .b = b};
	return pair;
}

/*
 * A drain has passed its bound. For ARBITER_CORUN_PAIR_NS a pair co-runs without waiting for
 * drains. Another overrun right after that time renews the pair.
 */
static void corun_pair_note(
	struct device *device, const struct arbiter_td *x, const struct arbiter_td *y, uint64_t now)
{
	struct corun_pair *pair = corun_pair_get(device, x->tenant->id, y->tenant->id);
	uint64_t since = clock_since_ns(now, pair->event_at);

	/*
	 * If no drain has ended in time since the last overrun, the device itself may stand still,
	 * which says nothing about these tenants.
	 */
	if (pair->event_at && device->drained_at <= pair->event_at &&
		since < ARBITER_CORUN_PAIR_NS / 10)
		return;
	if (since > ARBITER_CORUN_PAIR_NS)
		pair->level = 0;
	if (pair->until && clock_since_ns(now, pair->until) < ARBITER_CORUN_PAIR_NS / 10)
		pair->level = CORUN_LEVEL;
	pair->level = MIN(pair->level + CORUN_EVENT, 2 * CORUN_LEVEL);
	pair->event_at = now;
	if (pair->level >= CORUN_LEVEL)
		pair->until = now + ARBITER_CORUN_PAIR_NS;
}

/*
 * Whether the tenant is paired with all tenants that run on the device. Only then may a third
 * tenant co-run.
 */
static bool is_bonded_with_all(struct device *device, const struct arbiter_td *td, uint64_t now)
{
	for (uint32_t i = 0; i < device->n_active; i++) {
		const struct arbiter_td *other = device->active[i];

		if (other != td && other->state != TD_CLOSED && !is_bonded(device, td, other, now))
			return false;
	}
	return true;
}

/* ---- may the next tenant open? ---- */

static enum clearance device_clearance_corun(struct device *device, const struct arbiter_td *td,
	const struct arbiter_td *drains, uint64_t now)
{
	uint64_t lead = td_lead_ns(td);
	uint64_t overlap = device->arbiter->config.overlap_ns + lead;
	bool is_known = td_is_end_known(drains, lead);

	if (td->tenant->spec.class == SPEC_LATENCY && td_rank(drains) > td_rank(td))
		return CLEAR_CORUN;
	if (drains->is_unbounded && td_rank(drains) >= td_rank(td))
		return CLEAR_CORUN;
	if (is_bonded(device, td, drains, now) || now >= drains->drain_by)
		return CLEAR_STUCK;
	if (is_known && drains->ends_at <= now + overlap)
		return CLEAR_OVERLAP;
	device_wake(device,
		is_known ? MIN(drains->ends_at - overlap, drains->drain_by) : drains->drain_by);
	return CLEAR_NOT;
}

enum clearance device_clearance(struct device *device, const struct arbiter_td *td, uint64_t now)
{
	enum clearance all = CLEAR_YES;

	for (uint32_t i = 0; i < device->n_active; i++) {
		const struct arbiter_td *other = device->active[i];
		enum clearance one;

		if (other->state != TD_DRAINING || other == td)
			continue;
		one = device_clearance_corun(device, td, other, now);
		if (one == CLEAR_NOT)
			return CLEAR_NOT;
		all = MAX(all, one);
	}
	return all;
}

void device_reopen_stuck(struct device *device, const struct arbiter_td *next, uint64_t now)
{
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct arbiter_td *other = device->active[i];
		bool bonded;

		if (other->state != TD_DRAINING || other == next)
			continue;
		bonded = is_bonded(device, next, other, now);
		if (!bonded && now < other->drain_by)
			continue;
		if (!bonded && !other->is_noted) {
			corun_pair_note(device, next, other, now);
			other->is_noted = true;
			other->overdue_at = now;
			other->n_overdue++;
		}
		/* A tenant at its limit continues to drain beside the other tenants. */
		if (!other->is_throttled)
			arbiter_tenant_open(other->tenant, true, now);
	}
	device->corun_until = now + device->arbiter->config.quantum_ns;
}

static bool try_open(struct device *device, struct arbiter_td *td, uint64_t now)
{
	enum clearance clear;

	if (is_gang(td->tenant)) {
		gang_reserve(td, now);
		return false;
	}
	clear = device_clearance(device, td, now);
	if (clear == CLEAR_NOT)
		return false;
	if (clear == CLEAR_STUCK)
		device_reopen_stuck(device, td, now);
	arbiter_tenant_open(td->tenant, clear >= CLEAR_CORUN, now);
	return true;
}

/* ---- ending turns ---- */

/*
 * The tenant does not submit: its thread waits for a processor. The token is offered to the next
 * tenant, too; the tenant that submits first gets it, see settle_offers().
 */
static void td_offer(struct arbiter_td *td)
{
	struct device *device = td->device;

	td->is_offered = true;
	if (device->holder != td)
		return;
	device_pass_on(device);
}

/* Several gates are open. If one of these tenants has submitted, it gets the token. */
static void settle_offers(struct device *device, uint64_t now)
{
	struct arbiter_td *first = device->holder && device->holder->has_used ? device->holder
									      : NULL;
	uint32_t n_offered = 0;

	for (uint32_t i = 0; i < device->n_active; i++) {
		struct arbiter_td *td = device->active[i];

		n_offered += td->state == TD_OPEN && td->is_offered;
		if (td->state == TD_OPEN && td->is_offered && td->has_used &&
			(!first || td_rank(td) < td_rank(first)))
			first = td;
	}
	if (n_offered == 0 || !first)
		return;
	if (first->is_offered)
		first->opened_at = now;
	first->is_offered = false;
	device->holder = first;
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct arbiter_td *td = device->active[i];

		if (td == first || td->state != TD_OPEN || is_gang(td->tenant) ||
			(td->has_used && !td->is_offered &&
				(td_rank(td) <= td_rank(first) ||
					is_bonded(device, td, first, now))))
			continue;
		if (!td->has_used)
			td->tenant->wants = 0; /* src/agent reports the want again */
		arbiter_tenant_close(td->tenant, now);
	}
}

/* Whether the tenant is idle, or has released the device. */
static bool must_give_way(struct arbiter_td *td, uint64_t now)
{
	const struct arbiter_config *config = &td->device->arbiter->config;
	uint64_t idle = td->tenant->spec.class == SPEC_LATENCY ? config->holdoff_ns
							       : config->idle_ns;
	uint64_t at;

	if (td->gives_way)
		return !is_gang(td->tenant) || gang_is_idle(td->tenant, now);
	if (!td->has_used) {
		at = td->opened_at + config->unused_ns;
		if (now >= at && !is_gang(td->tenant)) {
			td_offer(td);
			return false;
		}
	} else if (td->idle_since) {
		at = td->idle_since + idle;
		if (now >= at && (!is_gang(td->tenant) || gang_is_idle(td->tenant, now - idle))) {
			td->dry_since = td->idle_since;
			return true;
		}
	} else {
		return false;
	}
	if (now < at)
		device_wake(td->device, at);
	return false;
}

/*
 * Positive: `a` was closed for other tenants later than `b`; negative: `b` was closed later than
 * `a`.
 */
static int64_t closed_for_others(const struct arbiter_td *a, const struct arbiter_td *b)
{
	const uint64_t at_a = a->state == TD_DRAINING ? a->closed_at : 0;
	const uint64_t at_b = b->state == TD_DRAINING ? b->closed_at : 0;

	return (at_a > at_b) - (at_a < at_b);
}

/* The best tenant that waits for this device, or NULL. */
static struct arbiter_td *best_waiting(struct device *device, uint64_t now)
{
	const struct arbiter_policy *policy = device->arbiter->policy;
	struct arbiter_td *best = NULL;

	device->n_waiting = 0;
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct arbiter_td *td = device->active[i];
		int64_t order;

		td_update_limits(td, now);
		td->is_waiting = td_wants(td) && td->state != TD_OPEN && !td->is_throttled;
		if (!td->is_waiting)
			continue;
		device->n_waiting++;
		if (is_gang(td->tenant) && !gang_may_compete(td))
			continue;
		if (best) {
			order = td_rank(best) - td_rank(td);
			if (order == 0) /* the tenant last closed for other tenants goes last */
				order = closed_for_others(best, td);
			if (order == 0)
				order = policy->score(td, now) - policy->score(best, now);
			if (order == 0)
				order = best->wants_since > td->wants_since ? 1 : -1;
			if (order < 0)
				continue;
		}
		best = td;
	}
	device->arbiter->operations += device->n_active;
	return best;
}

/* Whether the holder's turn is over, while `next` waits. */
static bool is_turn_over(
	struct device *device, struct arbiter_td *holder, struct arbiter_td *next, uint64_t now)
{
	uint64_t rest = td_turn_queued_rest(holder, now);
	uint64_t passes, ends;

	if (td_rank(next) != td_rank(holder))
		return td_rank(next) < td_rank(holder);
	/* The holder has yielded, or had the device alone until now. */
	if (holder->yields || holder->reported_window_us == 0)
		return true;
	passes = device->arbiter->policy->passes_ns(holder, next, rest, now);
	ends = holder->opened_at + td_planned_turn_ns(holder, next);
	ends = MAX(clock_since_ns(ends, rest), now + passes);
	if (!is_gang(holder->tenant)) /* a gang cannot yield on one device */
		holder->turn_ends_at = ends + rest;
	if (now >= ends)
		return true;
	device_wake(device, ends);
	return false;
}

/* Ends co-running of tenants that are no pair: the best one gets a turn, the other tenants wait. */
static void end_corun(struct device *device, uint64_t now)
{
	const struct arbiter_policy *policy = device->arbiter->policy;
	struct arbiter_td *best = device->holder;
	uint32_t n = 0;

	for (uint32_t i = 0; i < device->n_active; i++) {
		struct arbiter_td *td = device->active[i];

		if (!td_has_turn(td))
			continue;
		n++;
		if (policy->score(td, now) > policy->score(best, now))
			best = td;
	}
	if (n < 2 || is_bonded_with_all(device, best, now))
		return;
	if (now < device->corun_until) {
		device_wake(device, device->corun_until);
		return;
	}
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct arbiter_td *td = device->active[i];

		if (td_has_turn(td) && td != best && !is_bonded(device, td, best, now))
			arbiter_tenant_close(td->tenant, now);
	}
	best->opened_at = now;
	device->holder = best;
}

/*
 * A drain has not ended when it should have. So the tenant that was opened meanwhile co-runs, and
 * is charged.
 */
static void end_overlap(struct device *device, uint64_t now)
{
	uint64_t by = 0;

	for (uint32_t i = 0; i < device->n_active; i++)
		if (device->active[i]->state == TD_DRAINING)
			by = MAX(by, device->active[i]->drain_by);
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct arbiter_td *td = device->active[i];

		if (td->state != TD_OPEN || !td->is_overlapped)
			continue;
		if (now < by) {
			device_wake(device, by);
			continue;
		}
		td->is_overlapped = false;
		td->is_corun = by != 0;
	}
}

static void close_idle(struct device *device, uint64_t now)
{
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct arbiter_td *td = device->active[i];

		if (td->state != TD_OPEN)
			continue;
		if (!td->is_throttled && td->is_offered && !td->has_used)
			continue;
		if (td->is_throttled || (device->n_waiting && must_give_way(td, now)))
			arbiter_tenant_close(td->tenant, now);
	}
}

/* Without gates every tenant opens as soon as it wants. */
static void open_all(struct device *device, uint64_t now)
{
	for (uint32_t i = 0; i < device->n_active; i++)
		if (td_wants(device->active[i]) && device->active[i]->state != TD_OPEN)
			arbiter_tenant_open(device->active[i]->tenant, true, now);
}

void device_decide(struct device *device, uint64_t now)
{
	struct arbiter_td *next;

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
	if (next && device->reserved && next->tenant != device->reserved &&
		gang_is_complete(device->reserved)) {
		if (td_rank(next) < td_rank(arbiter_tenant_td(device->reserved, device->index)))
			gang_unreserve(device->reserved);
		else
			next = NULL; /* the device is drained for the gang */
	}
	if (next && !device->holder) {
		try_open(device, next, now);
	} else if (next && td_rank(next) <= td_rank(device->holder) &&
		is_bonded_with_all(device, next, now)) {
		if (!is_gang(next->tenant))
			arbiter_tenant_open(next->tenant, true, now);
		else
			gang_reserve(next, now);
	} else if (next && is_turn_over(device, device->holder, next, now)) {
		if (is_gang(next->tenant)) {
			gang_reserve(next, now);
		} else {
			device_close_gates(device, now);
			try_open(device, next, now);
		}
	}
	if (device->reserved && gang_is_complete(device->reserved))
		gang_try_open(device->reserved, now);
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct arbiter_td *td = device->active[i];

		if (td->tenant->spec.class == SPEC_LATENCY)
			device->latency_at = now;
		if (td->state == TD_OPEN)
			td_resend_action(td, now);
	}
}
