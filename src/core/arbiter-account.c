/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps account of a device: which tenant has used how much, and which is entitled to how much.
 * Pure; one thread.
 *
 * Lag: when a tenant is charged dt, it pays dt, and each active tenant of its class is credited dt
 * times its part of the class's entitlement. So lags measure the distance to the fluid ideal, in
 * which each tenant runs all the time at its entitlement. They sum to zero among the active
 * tenants, and time that no tenant could use (switches, idling) is no tenant's debt. A tenant that
 * becomes inactive keeps its lag, and gets it back if it returns within the window; meanwhile it
 * earns nothing.
 */
#include <string.h>

#include "base/clock.h"
#include "core/arbiter-internal.h"

/* A standard tenant this far below its request goes before latency tenants. */
#define STARVED_NS (100 * NSEC_PER_MSEC)

/*
 * After a turn, a program may need this long to wake up and want the device again; its tenant stays
 * active meanwhile. A longer absence makes the tenant inactive, which changes the entitlements of
 * the other tenants.
 */
#define GRACE_NS (2 * NSEC_PER_MSEC)

/*
 * An absence of at most AWAY_MAX_NS is attributed to the host. The absent tenant is then credited
 * its part of the time that other tenants of its class used meanwhile, up to a lag of CREDIT_MAX_NS
 * (ADR 18).
 */
#define AWAY_MAX_NS (100 * NSEC_PER_MSEC)
#define CREDIT_MAX_NS (100 * NSEC_PER_MSEC)

/* ---- sliding window ---- */

static void window_advance(struct arbiter_td *td, uint64_t now)
{
	uint64_t bucket = now / ARBITER_BUCKET_NS;

	if (bucket <= td->bucket_now)
		return;
	if (bucket - td->bucket_now >= ARBITER_BUCKETS) {
		memset(td->bucket, 0, sizeof(td->bucket));
		td->window_ns = 0;
		td->bucket_now = bucket;
		return;
	}
	while (td->bucket_now < bucket) {
		int32_t *oldest = &td->bucket[++td->bucket_now % ARBITER_BUCKETS];

		td->window_ns -= *oldest;
		*oldest = 0;
	}
}

/* Adds `ns` used evenly over [from, to]; drops time before the window. */
static void window_add(struct arbiter_td *td, int64_t ns, uint64_t from, uint64_t to)
{
	uint64_t first = from / ARBITER_BUCKET_NS;

	window_advance(td, to);
	if (td->bucket_now - first >= ARBITER_BUCKETS)
		first = td->bucket_now - ARBITER_BUCKETS + 1;
	for (uint64_t i = first; i <= td->bucket_now; i++) {
		uint64_t begin = MAX(from, i * ARBITER_BUCKET_NS);
		uint64_t end = MIN(to, (i + 1) * ARBITER_BUCKET_NS);
		int64_t part;

		if (begin >= end)
			continue;
		part = (int64_t)((__int128)ns * (int64_t)(end - begin) / (int64_t)(to - from));
		td->bucket[i % ARBITER_BUCKETS] += (int32_t)part;
		td->window_ns += part;
	}
}

uint64_t td_window_ns(const struct arbiter_td *td, uint64_t now)
{
	uint64_t bucket = now / ARBITER_BUCKET_NS;
	int64_t sum = td->window_ns;

	for (uint64_t i = td->bucket_now + 1; i <= bucket; i++) {
		if (i - td->bucket_now > ARBITER_BUCKETS)
			return 0;
		sum -= td->bucket[i % ARBITER_BUCKETS];
	}
	return sum > 0 ? (uint64_t)sum : 0;
}

/* ---- entitlements ---- */

/* Distributes `capacity` among the tenants of one class; returns the rest. */
static uint32_t entitle_class(struct device *device, enum spec_class class, uint32_t capacity)
{
	uint32_t n = 0, used = 0;

	for (uint32_t i = 0; i < device->n_active; i++) {
		const struct spec *spec = &device->active[i]->tenant->spec;

		if (spec->class == class)
			device->fill[n++] = (struct water_share){spec->request, spec->limit, 0};
	}
	if (n == 0)
		return capacity;
	water_fill(device->fill, n, capacity);
	n = 0;
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct arbiter_td *td = device->active[i];

		if (td->tenant->spec.class != class)
			continue;
		td->micro = device->fill[n++].micro;
		used += td->micro;
	}
	return capacity - used;
}

/*
 * Computes entitlements class by class, but first sets the requests of standard tenants aside, so
 * that latency tenants do not get this part. If the requests of both classes together exceed the
 * device, both are scaled down.
 */
void device_entitle(struct device *device)
{
	uint64_t standard = 0, latency = 0;
	uint32_t kept, left;

	for (uint32_t i = 0; i < device->n_active; i++) {
		const struct spec *spec = &device->active[i]->tenant->spec;

		if (spec->class == SPEC_STANDARD)
			standard += spec->request;
		else if (spec->class == SPEC_LATENCY)
			latency += spec->request;
	}
	kept = (uint32_t)(standard * WATER_ONE / MAX(standard + latency, (uint64_t)SPEC_SHARE_ONE));
	left = kept + entitle_class(device, SPEC_LATENCY, WATER_ONE - kept);
	left = entitle_class(device, SPEC_STANDARD, left);
	entitle_class(device, SPEC_OPPORTUNISTIC, left);
	device->arbiter->operations += 6 * device->n_active;
	device->is_stale = false;
}

uint64_t class_micro(const struct arbiter_td *td)
{
	const struct device *device = td->device;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < device->n_active; i++)
		if (device->active[i]->tenant->spec.class == td->tenant->spec.class &&
			device->active[i]->idle_from == 0)
			sum += device->active[i]->micro;
	return sum;
}

/* ---- lag ---- */

static int64_t clamp_lag(int64_t lag)
{
	const int64_t most = (int64_t)ARBITER_WINDOW_NS * LAG_ONE;

	return MAX(MIN(lag, most), -most);
}

/*
 * Whether `other` is credited when `td` is charged: not if `other` has no work for the device now.
 */
static bool takes_part(const struct arbiter_td *other, const struct arbiter_td *td)
{
	return other->tenant->spec.class == td->tenant->spec.class && other->idle_from == 0;
}

/*
 * Distributes `amount` among the active tenants of `td`'s class, by entitlement, or evenly if no
 * tenant has one. The last tenant gets the rounding error, so that sums are exact.
 */
static void lag_share_out(struct arbiter_td *td, int64_t amount, bool by_entitlement)
{
	struct device *device = td->device;
	uint64_t whole = by_entitlement ? class_micro(td) : 0;
	struct arbiter_td *last = NULL;
	uint64_t n = 0;
	int64_t left = amount;

	for (uint32_t i = 0; i < device->n_active; i++)
		n += takes_part(device->active[i], td);
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct arbiter_td *other = device->active[i];
		int64_t part;

		if (!takes_part(other, td))
			continue;
		part = whole ? (int64_t)((__int128)amount * other->micro / (int64_t)whole)
			     : amount / (int64_t)n;
		other->lag = clamp_lag(other->lag + part);
		left -= part;
		last = other;
	}
	if (last)
		last->lag = clamp_lag(last->lag + left);
	device->arbiter->operations += 2 * device->n_active;
}

static void td_charge_time(struct arbiter_td *td, int64_t ns, uint64_t from, uint64_t to)
{
	uint64_t *class_used_ns = &td->device->class_used_ns[td->tenant->spec.class];

	*class_used_ns = (uint64_t)((int64_t)*class_used_ns + ns);
	td->used_ns = (uint64_t)((int64_t)td->used_ns + ns);
	td->turn_ns = (uint64_t)((int64_t)td->turn_ns + ns);
	window_add(td, ns, from, to);
	td->budget -= ns * MILLI;
	td->waiting_lag -= ns * MILLI;
	td->lag = clamp_lag(td->lag - ns * LAG_ONE);
	lag_share_out(td, ns * LAG_ONE, true);
}

/*
 * Whether the tenant is charged: it drains, or it holds the device and either has work there or
 * keeps other tenants waiting. A tenant opened before the end of a drain (`overlap`) is charged
 * from overlap_until on. If the drain continues beyond that time, the device has begun the new
 * tenant's work, and the draining tenant is no longer charged.
 */
static bool is_charged(const struct arbiter_td *td, const struct arbiter_td *overlap, uint64_t at)
{
	switch (td->state) {
	case TD_OPEN:
		if (td->is_overlapped && at < td->device->overlap_until)
			return false;
		if (td->is_offered)
			return false;
		return td->idle_since == 0 || td->device->n_waiting;
	case TD_DRAINING:
		if (overlap)
			return at < td->device->overlap_until;
		/*
		 * A drain that is past its bound beside a holder is not charged: its work appears
		 * frozen.
		 */
		return !td->device->holder || at < td->drain_by;
	default: return false;
	}
}

static void td_refill_burst(struct arbiter_td *td, uint64_t now)
{
	uint64_t dt = clock_since_ns(now, td->budget_at);

	td->budget_at = now;
	td->budget = MIN(td_burst(td),
		td->budget + (int64_t)(MIN(dt, 10 * ARBITER_WINDOW_NS) * td->tenant->spec.limit));
}

static void td_accrue_waiting_lag(struct arbiter_td *td, uint64_t dt, bool has_latency)
{
	const int64_t most = (int64_t)ARBITER_WINDOW_NS * MILLI;
	uint64_t due;

	if (td->tenant->spec.class != SPEC_STANDARD || !has_latency) {
		td->waiting_lag = 0;
		td->is_starved = false;
		return;
	}
	due = MIN(td->tenant->spec.request * (WATER_ONE / SPEC_SHARE_ONE), td->micro);
	td->waiting_lag += (int64_t)(dt * due / (WATER_ONE / MILLI));
	td->waiting_lag = MAX(MIN(td->waiting_lag, most), INT64_C(0));
	if (td->waiting_lag >= (int64_t)STARVED_NS * MILLI)
		td->is_starved = true;
	else if (td->waiting_lag <= (int64_t)STARVED_NS * MILLI - td_burst(td))
		td->is_starved = false;
}

void device_account(struct device *device, uint64_t now)
{
	uint64_t from = device->accounted_at;
	uint64_t dt = clock_since_ns(now, from);
	const struct arbiter_td *overlap = NULL;
	bool has_latency = false;
	uint32_t n = 0;
	uint64_t given = 0;

	if (dt == 0)
		return;
	device->accounted_at = now;
	if (device->is_stale)
		device_entitle(device);
	for (uint32_t i = 0; i < device->n_active; i++) {
		const struct arbiter_td *td = device->active[i];

		if (td->state == TD_OPEN && td->is_overlapped)
			overlap = td;
		has_latency |= td->tenant->spec.class == SPEC_LATENCY;
	}
	for (uint32_t i = 0; i < device->n_active; i++)
		n += is_charged(device->active[i], overlap, from);
	device->n_charged = n;
	if (n)
		device->charged_until = now;
	for (uint32_t i = 0, k = 0; i < device->n_active; i++) {
		struct arbiter_td *td = device->active[i];

		if (td->state == TD_CLOSED && td_wants(td))
			td->waited_ns += dt;
		if (is_charged(td, overlap, from)) { /* the charges sum to exactly dt */
			uint64_t until = dt * ++k / n;

			td_charge_time(td, (int64_t)(until - given), from, now);
			given = until;
		}
		td_refill_burst(td,
			/*
			 * Refills the budget after the charge, so that the burst limit does not cut
			 * off time already used.
			 */
			now);
		td_accrue_waiting_lag(td, dt, has_latency);
	}
	device->arbiter->operations += 3 * device->n_active;
}

void td_refund(struct arbiter_td *td, uint64_t end)
{
	struct device *device = td->device;
	const struct arbiter_td *holder = device->holder;
	bool is_overlap = holder && holder != td && holder->is_overlapped;
	uint64_t to = is_overlap ? MIN(device->accounted_at, device->overlap_until)
				 : device->accounted_at;
	uint64_t from = MAX(end, td->opened_at);
	uint64_t over = clock_since_ns(to, from) / MAX(device->n_charged, 1u);
	uint64_t given = 0;
	uint32_t n = 0;

	/*
	 * The tenant was charged neither past its drain's bound, nor while its gate was open beside
	 * the drain before. So the refund is at most its turn's charge.
	 */
	over = MIN(over, td->turn_ns);
	if (over == 0)
		return;
	td_charge_time(td, -(int64_t)over, from, to);
	for (uint32_t i = 0; i < device->n_active; i++)
		n += device->active[i]->state == TD_OPEN;
	for (uint32_t i = 0, k = 0; i < device->n_active; i++) {
		uint64_t until;

		if (device->active[i]->state != TD_OPEN)
			continue;
		until = over * ++k / n;
		td_charge_time(device->active[i], (int64_t)(until - given), from, to);
		given = until;
	}
}

/*
 * Corrects the charge only if this tenant has the device alone; otherwise the ends of drains
 * measure its time. If work ended, the tenant gets the time since at_ns back. If the turn's first
 * work began, the tenant was charged since its opening, and gets the time before at_ns back. If
 * later work began, the idle tenant was not charged, and pays the time since at_ns.
 */
void td_correct(struct arbiter_td *td, uint64_t at_ns, uint64_t now)
{
	struct device *device = td->device;
	uint64_t at = MIN(MAX(at_ns, td->opened_at), now);
	uint64_t over;

	if (device->n_waiting || td->is_overlapped || td->is_offered)
		return;
	for (uint32_t i = 0; i < device->n_active; i++)
		if (device->active[i] != td && device->active[i]->state != TD_CLOSED)
			return;
	if (td->idle_since) { /* work ended */
		over = MIN(now - at, td->turn_ns);
		if (over)
			td_charge_time(td, -(int64_t)over, at, now);
		return;
	}
	if (td->unchanged_from != td->opened_at) {
		/* No time is charged twice: another tenant may have had the device meanwhile. */
		at = MAX(at, MAX(td->unchanged_from, device->charged_until));
		if (at < now)
			td_charge_time(td, (int64_t)(now - at), at, now);
		device->charged_until = now;
		return;
	}
	over = MIN(at - td->opened_at, td->turn_ns);
	if (over)
		td_charge_time(td, -(int64_t)over, td->opened_at, at);
}

/* ---- becoming active and inactive ---- */

static void td_go_away(struct arbiter_td *td, uint64_t now)
{
	td->idle_from = MAX(now, UINT64_C(1));
	td->away_from = td->idle_from;
	td->class_used_ns = td->device->class_used_ns[td->tenant->spec.class];
}

/*
 * The other tenants of the class have used the returning tenant's part, and owe it that time. While
 * they pay, the returning tenant counts as idle, so that it does not pay for its own credit.
 */
static void td_come_back(struct arbiter_td *td, uint64_t now)
{
	uint64_t used = clock_since_ns(
		td->device->class_used_ns[td->tenant->spec.class], td->class_used_ns);
	int64_t credit = (int64_t)(MIN(used, AWAY_MAX_NS) * td->micro / WATER_ONE) * LAG_ONE;

	if (!td->away_from || clock_since_ns(now, td->away_from) > AWAY_MAX_NS)
		return;
	credit = MIN(credit, MAX((int64_t)CREDIT_MAX_NS * LAG_ONE - td->lag, INT64_C(0)));
	td->away_from = 0;
	td->idle_from = MAX(now, UINT64_C(1));
	if (class_micro(td)) { /* another tenant can pay the credit */
		td->lag += credit;
		lag_share_out(td, -credit, true);
	}
	td->idle_from = 0;
}

void td_activate(struct arbiter_td *td, uint64_t now)
{
	struct device *device = td->device;

	if (td->is_active)
		return;
	device_account(device, now);
	if (clock_since_ns(now, td->left_at) > ARBITER_WINDOW_NS)
		td->lag = 0;
	/* Takes back the lag that the other tenants received when this tenant became inactive. */
	lag_share_out(td, -td->lag, false);
	td->is_active = true;
	td->active_at = device->n_active;
	device->active[device->n_active++] = td;
	td->waiting_lag = 0;
	td_refill_burst(td, now);
	device->is_stale = true;
}

void td_deactivate(struct arbiter_td *td, uint64_t now)
{
	struct device *device = td->device;
	struct arbiter_td *last;

	if (!td->is_active)
		return;
	device_account(device, now);
	last = device->active[--device->n_active];
	device->active[td->active_at] = last;
	last->active_at = td->active_at;
	td->is_active = false;
	td->idle_from = 0;
	td->left_at = now;
	lag_share_out(td, td->lag, false);
	device->is_stale = true;
}

void td_update_active(struct arbiter_td *td, uint64_t now)
{
	if (td->state != TD_CLOSED || td_wants(td)) {
		device_account(td->device, now);
		td->idle_from = 0;
		td_activate(td, now);
		td_come_back(td, now);
	} else if (td->is_active && td->idle_from == 0) {
		device_account(td->device, now);
		td_go_away(td, now);
	}
}

void device_leave_idle(struct device *device, uint64_t now)
{
	for (uint32_t i = 0; i < device->n_active;) {
		struct arbiter_td *td = device->active[i];

		if (td->idle_from && clock_since_ns(now, td->idle_from) >= GRACE_NS) {
			td_deactivate(td, now); /* this moves another tenant to index i */
			continue;
		}
		if (td->idle_from)
			device_wake(device, td->idle_from + GRACE_NS);
		i++;
	}
}

/* ---- limits ---- */

/*
 * The longest turn (turn_max_ns), minus the time by which the last submission may overrun the turn,
 * and minus an eighth of the longest submission, because lengths vary.
 */
uint64_t td_quantum_ns(const struct arbiter_td *td)
{
	const struct arbiter_config *config = &td->device->arbiter->config;
	uint64_t late = td->late_ns ? MIN(td->late_ns, td->longest_ns) : td->longest_ns;
	uint64_t most = clock_since_ns(config->turn_max_ns, late + td->longest_ns / 8);

	return MAX(MIN(most, config->quantum_ns), config->quantum_min_ns);
}

/* Largest budget, which is the time that a tenant may use at once after waiting: one turn. */
int64_t td_burst(const struct arbiter_td *td)
{
	const struct arbiter_config *config = &td->device->arbiter->config;

	return MILLI *
		(int64_t)(td->tenant->spec.memory_policy == SPEC_MEMORY_SWAP
				? config->swap_quantum_ns
				: config->quantum_ns);
}

/* Predicted rest of the holder's work in flight. */
static uint64_t td_account_queued_rest(const struct arbiter_td *td, uint64_t now)
{
	uint64_t rest = clock_since_ns(td->queued_ns, clock_since_ns(now, td->queued_at));

	return td->state == TD_OPEN ? rest : 0;
}

void td_update_limits(struct arbiter_td *td, uint64_t now)
{
	uint64_t limit = td->tenant->spec.limit;
	int64_t resume = (int64_t)td_quantum_ns(td) * MILLI / 2;
	int64_t left;

	if (limit >= SPEC_SHARE_ONE) {
		td->is_throttled = false;
		return;
	}
	if (td->is_throttled) {
		if (td->budget < resume) {
			device_wake(td->device, now + (uint64_t)(resume - td->budget) / limit + 1);
			return;
		}
		td->is_throttled = false;
	}
	/* Work in flight is charged even if the gate closes now. */
	left = td->budget - (int64_t)td_account_queued_rest(td, now) * (int64_t)(MILLI - limit);
	if (left <= 0)
		td->is_throttled = true;
	else if (td->state == TD_OPEN)
		device_wake(td->device, now + (uint64_t)left / (MILLI - limit) + 1);
	if (td->is_throttled)
		device_wake(td->device,
			now + (uint64_t)MAX(resume - td->budget, INT64_C(0)) / limit + 1);
}
