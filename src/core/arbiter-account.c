/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps account of a device: which tenant has used how much, and which is entitled to how much.
 * Pure; one thread.
 *
 * Lag: when a tenant is charged dt, it pays dt, and each active tenant of its class is credited dt
 * times its part of the class's entitlement. So lags measure the distance to the fluid ideal, in
 * which each tenant runs all the time at its entitlement. They sum to zero among the active
 * tenants, and time that no tenant could use (switches, idling) is nobody's debt. A tenant that
 * becomes inactive keeps its lag, and gets it back if it returns within the window; meanwhile it
 * earns nothing.
 */
#include <string.h>

#include "base/clock.h"
#include "core/arbiter-internal.h"

/* A standard tenant this far below its request goes before latency tenants. */
#define STARVED_NS (100 * NSEC_PER_MSEC)

/*
 * Between the end of a turn and the next want, a program only wakes up, and stays active. A longer
 * absence makes the tenant inactive, and changes the entitlements of the others.
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

static void window_advance(struct seat *seat, uint64_t now)
{
	uint64_t bucket = now / ARBITER_BUCKET_NS;

	if (bucket <= seat->bucket_now)
		return;
	if (bucket - seat->bucket_now >= ARBITER_BUCKETS) {
		memset(seat->bucket, 0, sizeof(seat->bucket));
		seat->window_ns = 0;
		seat->bucket_now = bucket;
		return;
	}
	while (seat->bucket_now < bucket) {
		int32_t *oldest = &seat->bucket[++seat->bucket_now % ARBITER_BUCKETS];

		seat->window_ns -= *oldest;
		*oldest = 0;
	}
}

/* Adds `ns` used evenly over [from, to]; drops time before the window. */
static void window_add(struct seat *seat, int64_t ns, uint64_t from, uint64_t to)
{
	uint64_t first = from / ARBITER_BUCKET_NS;

	window_advance(seat, to);
	if (seat->bucket_now - first >= ARBITER_BUCKETS)
		first = seat->bucket_now - ARBITER_BUCKETS + 1;
	for (uint64_t i = first; i <= seat->bucket_now; i++) {
		uint64_t begin = MAX(from, i * ARBITER_BUCKET_NS);
		uint64_t end = MIN(to, (i + 1) * ARBITER_BUCKET_NS);
		int64_t part;

		if (begin >= end)
			continue;
		part = (int64_t)((__int128)ns * (int64_t)(end - begin) / (int64_t)(to - from));
		seat->bucket[i % ARBITER_BUCKETS] += (int32_t)part;
		seat->window_ns += part;
	}
}

uint64_t seat_window_ns(const struct seat *seat, uint64_t now)
{
	uint64_t bucket = now / ARBITER_BUCKET_NS;
	int64_t sum = seat->window_ns;

	for (uint64_t i = seat->bucket_now + 1; i <= bucket; i++) {
		if (i - seat->bucket_now > ARBITER_BUCKETS)
			return 0;
		sum -= seat->bucket[i % ARBITER_BUCKETS];
	}
	return sum > 0 ? (uint64_t)sum : 0;
}

/* ---- entitlements ---- */

/* Distributes `capacity` among the tenants of one class; returns the rest. */
static uint32_t entitle_class(struct device *device, enum spec_class class, uint32_t capacity)
{
	uint32_t n = 0, used = 0;

	for (uint32_t i = 0; i < device->n_active; i++) {
		const struct spec *spec = &device->active[i]->member->spec;

		if (spec->class == class)
			device->fill[n++] = (struct water_share){spec->request, spec->limit, 0};
	}
	if (n == 0)
		return capacity;
	water_fill(device->fill, n, capacity);
	n = 0;
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct seat *seat = device->active[i];

		if (seat->member->spec.class != class)
			continue;
		seat->micro = device->fill[n++].micro;
		used += seat->micro;
	}
	return capacity - used;
}

/*
 * By class order, but latency tenants leave the standard tenants' requests to them. If the requests
 * of both exceed the device, both are scaled.
 */
void device_entitle(struct device *device)
{
	uint64_t standard = 0, latency = 0;
	uint32_t kept, left;

	for (uint32_t i = 0; i < device->n_active; i++) {
		const struct spec *spec = &device->active[i]->member->spec;

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

uint64_t class_micro(const struct seat *seat)
{
	const struct device *device = seat->device;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < device->n_active; i++)
		if (device->active[i]->member->spec.class == seat->member->spec.class &&
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

/* Whether `other` is credited when `seat` is charged: not if it has no work for the device now. */
static bool takes_part(const struct seat *other, const struct seat *seat)
{
	return other->member->spec.class == seat->member->spec.class && other->idle_from == 0;
}

/*
 * Distributes `amount` among the active tenants of `seat`'s class, by entitlement, or evenly if no
 * tenant has one. The last tenant gets the rounding error, so that sums are exact.
 */
static void lag_share_out(struct seat *seat, int64_t amount, bool by_entitlement)
{
	struct device *device = seat->device;
	uint64_t whole = by_entitlement ? class_micro(seat) : 0;
	struct seat *last = NULL;
	uint64_t n = 0;
	int64_t left = amount;

	for (uint32_t i = 0; i < device->n_active; i++)
		n += takes_part(device->active[i], seat);
	for (uint32_t i = 0; i < device->n_active; i++) {
		struct seat *other = device->active[i];
		int64_t part;

		if (!takes_part(other, seat))
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

static void charge(struct seat *seat, int64_t ns, uint64_t from, uint64_t to)
{
	uint64_t *class_used_ns = &seat->device->class_used_ns[seat->member->spec.class];

	*class_used_ns = (uint64_t)((int64_t)*class_used_ns + ns);
	seat->used_ns = (uint64_t)((int64_t)seat->used_ns + ns);
	seat->turn_ns = (uint64_t)((int64_t)seat->turn_ns + ns);
	window_add(seat, ns, from, to);
	seat->budget -= ns * MILLI;
	seat->owed -= ns * MILLI;
	seat->lag = clamp_lag(seat->lag - ns * LAG_ONE);
	lag_share_out(seat, ns * LAG_ONE, true);
}

/*
 * Charges a tenant that drains, or holds the device while it is busy or others wait. A tenant
 * opened before the end of a drain (`overlap`) is charged from overlap_until on. If the drain
 * continues beyond that time, the device has begun the new tenant's work, and the draining tenant
 * is no longer charged.
 */
static bool is_charged(const struct seat *seat, const struct seat *overlap, uint64_t at)
{
	switch (seat->state) {
	case SEAT_OPEN:
		if (seat->is_overlapped && at < seat->device->overlap_until)
			return false;
		if (seat->is_offered)
			return false;
		return seat->idle_since == 0 || seat->device->n_waiting;
	case SEAT_DRAINING:
		if (overlap)
			return at < seat->device->overlap_until;
		/* Past its bound beside a holder: its work appears frozen. */
		return !seat->device->holder || at < seat->drain_by;
	default: return false;
	}
}

static void refill(struct seat *seat, uint64_t now)
{
	uint64_t dt = clock_since_ns(now, seat->budget_at);

	seat->budget_at = now;
	seat->budget = MIN(seat_burst(seat),
		seat->budget +
			(int64_t)(MIN(dt, 10 * ARBITER_WINDOW_NS) * seat->member->spec.limit));
}

static void accrue_owed(struct seat *seat, uint64_t dt, bool has_latency)
{
	const int64_t most = (int64_t)ARBITER_WINDOW_NS * MILLI;
	uint64_t due;

	if (seat->member->spec.class != SPEC_STANDARD || !has_latency) {
		seat->owed = 0;
		seat->is_starved = false;
		return;
	}
	due = MIN(seat->member->spec.request * (WATER_ONE / SPEC_SHARE_ONE), seat->micro);
	seat->owed += (int64_t)(dt * due / (WATER_ONE / MILLI));
	seat->owed = MAX(MIN(seat->owed, most), INT64_C(0));
	if (seat->owed >= (int64_t)STARVED_NS * MILLI)
		seat->is_starved = true;
	else if (seat->owed <= (int64_t)STARVED_NS * MILLI - seat_burst(seat))
		seat->is_starved = false;
}

void device_account(struct device *device, uint64_t now)
{
	uint64_t from = device->accounted_at;
	uint64_t dt = clock_since_ns(now, from);
	const struct seat *overlap = NULL;
	bool has_latency = false;
	uint32_t n = 0;
	uint64_t given = 0;

	if (dt == 0)
		return;
	device->accounted_at = now;
	if (device->is_stale)
		device_entitle(device);
	for (uint32_t i = 0; i < device->n_active; i++) {
		const struct seat *seat = device->active[i];

		if (seat->state == SEAT_OPEN && seat->is_overlapped)
			overlap = seat;
		has_latency |= seat->member->spec.class == SPEC_LATENCY;
	}
	for (uint32_t i = 0; i < device->n_active; i++)
		n += is_charged(device->active[i], overlap, from);
	device->n_charged = n;
	if (n)
		device->charged_until = now;
	for (uint32_t i = 0, k = 0; i < device->n_active; i++) {
		struct seat *seat = device->active[i];

		if (seat->state == SEAT_CLOSED && seat_wants(seat))
			seat->waited_ns += dt;
		if (is_charged(seat, overlap, from)) { /* in total exactly dt */
			uint64_t until = dt * ++k / n;

			charge(seat, (int64_t)(until - given), from, now);
			given = until;
		}
		refill(seat,
			/*
			 * after the charge, so that the burst limit does not cut off time already
			 * used
			 */
			now);
		accrue_owed(seat, dt, has_latency);
	}
	device->arbiter->operations += 3 * device->n_active;
}

void seat_refund(struct seat *seat, uint64_t end)
{
	struct device *device = seat->device;
	const struct seat *holder = device->holder;
	bool is_overlap = holder && holder != seat && holder->is_overlapped;
	uint64_t to = is_overlap ? MIN(device->accounted_at, device->overlap_until)
				 : device->accounted_at;
	uint64_t from = MAX(end, seat->opened_at);
	uint64_t over = clock_since_ns(to, from) / MAX(device->n_charged, 1u);
	uint64_t given = 0;
	uint32_t n = 0;

	/* It is not charged past its bound, nor while an earlier drain should have ended. */
	over = MIN(over, seat->turn_ns);
	if (over == 0)
		return;
	charge(seat, -(int64_t)over, from, to);
	for (uint32_t i = 0; i < device->n_active; i++)
		n += device->active[i]->state == SEAT_OPEN;
	for (uint32_t i = 0, k = 0; i < device->n_active; i++) {
		uint64_t until;

		if (device->active[i]->state != SEAT_OPEN)
			continue;
		until = over * ++k / n;
		charge(device->active[i], (int64_t)(until - given), from, to);
		given = until;
	}
}

/*
 * Corrects only if this tenant has the device alone; otherwise the drains' ends measure its time.
 * When work began: a seat that had not used its turn was charged since its opening, and gets that
 * back; an idle seat was not charged, and pays.
 */
void seat_correct(struct seat *seat, uint64_t at_ns, uint64_t now)
{
	struct device *device = seat->device;
	uint64_t at = MIN(MAX(at_ns, seat->opened_at), now);
	uint64_t over;

	if (device->n_waiting || seat->is_overlapped || seat->is_offered)
		return;
	for (uint32_t i = 0; i < device->n_active; i++)
		if (device->active[i] != seat && device->active[i]->state != SEAT_CLOSED)
			return;
	if (seat->idle_since) { /* work ended */
		over = MIN(now - at, seat->turn_ns);
		if (over)
			charge(seat, -(int64_t)over, at, now);
		return;
	}
	if (seat->unchanged_from != seat->opened_at) {
		/* No time is charged twice: another tenant may have had the device meanwhile. */
		at = MAX(at, MAX(seat->unchanged_from, device->charged_until));
		if (at < now)
			charge(seat, (int64_t)(now - at), at, now);
		device->charged_until = now;
		return;
	}
	over = MIN(at - seat->opened_at, seat->turn_ns);
	if (over)
		charge(seat, -(int64_t)over, seat->opened_at, at);
}

/* ---- becoming active and inactive ---- */

static void seat_go_away(struct seat *seat, uint64_t now)
{
	seat->idle_from = MAX(now, UINT64_C(1));
	seat->away_from = seat->idle_from;
	seat->class_used_ns = seat->device->class_used_ns[seat->member->spec.class];
}

/*
 * The other tenants of its class have used its part, and owe it. While the credit is shared out it
 * counts as idle, so that it does not pay for its own credit.
 */
static void seat_come_back(struct seat *seat, uint64_t now)
{
	uint64_t used = clock_since_ns(
		seat->device->class_used_ns[seat->member->spec.class], seat->class_used_ns);
	int64_t credit = (int64_t)(MIN(used, AWAY_MAX_NS) * seat->micro / WATER_ONE) * LAG_ONE;

	if (!seat->away_from || clock_since_ns(now, seat->away_from) > AWAY_MAX_NS)
		return;
	credit = MIN(credit, MAX((int64_t)CREDIT_MAX_NS * LAG_ONE - seat->lag, INT64_C(0)));
	seat->away_from = 0;
	seat->idle_from = MAX(now, UINT64_C(1));
	if (class_micro(seat)) { /* a tenant is there to pay */
		seat->lag += credit;
		lag_share_out(seat, -credit, true);
	}
	seat->idle_from = 0;
}

void seat_join(struct seat *seat, uint64_t now)
{
	struct device *device = seat->device;

	if (seat->is_active)
		return;
	device_account(device, now);
	if (clock_since_ns(now, seat->left_at) > ARBITER_WINDOW_NS)
		seat->lag = 0;
	/* Takes back the lag that the others received when it became inactive. */
	lag_share_out(seat, -seat->lag, false);
	seat->is_active = true;
	seat->active_at = device->n_active;
	device->active[device->n_active++] = seat;
	seat->owed = 0;
	refill(seat, now);
	device->is_stale = true;
}

void seat_leave(struct seat *seat, uint64_t now)
{
	struct device *device = seat->device;
	struct seat *last;

	if (!seat->is_active)
		return;
	device_account(device, now);
	last = device->active[--device->n_active];
	device->active[seat->active_at] = last;
	last->active_at = seat->active_at;
	seat->is_active = false;
	seat->idle_from = 0;
	seat->left_at = now;
	lag_share_out(seat, seat->lag, false);
	device->is_stale = true;
}

void seat_update_active(struct seat *seat, uint64_t now)
{
	if (seat->state != SEAT_CLOSED || seat_wants(seat)) {
		device_account(seat->device, now);
		seat->idle_from = 0;
		seat_join(seat, now);
		seat_come_back(seat, now);
	} else if (seat->is_active && seat->idle_from == 0) {
		device_account(seat->device, now);
		seat_go_away(seat, now);
	}
}

void device_leave_idle(struct device *device, uint64_t now)
{
	for (uint32_t i = 0; i < device->n_active;) {
		struct seat *seat = device->active[i];

		if (seat->idle_from && clock_since_ns(now, seat->idle_from) >= GRACE_NS) {
			seat_leave(seat, now); /* moves another tenant to this index */
			continue;
		}
		if (seat->idle_from)
			device_wake(device, seat->idle_from + GRACE_NS);
		i++;
	}
}

/* ---- limits ---- */

/*
 * Subtracts the lateness of the last submission, and an eighth of the longest one, because lengths
 * vary.
 */
uint64_t seat_quantum_ns(const struct seat *seat)
{
	const struct arbiter_config *config = &seat->device->arbiter->config;
	uint64_t late = seat->late_ns ? MIN(seat->late_ns, seat->longest_ns) : seat->longest_ns;
	uint64_t most = clock_since_ns(config->hold_max_ns, late + seat->longest_ns / 8);

	return MAX(MIN(most, config->quantum_ns), config->quantum_min_ns);
}

/* The most time that it may use at once after waiting: one turn. */
int64_t seat_burst(const struct seat *seat)
{
	const struct arbiter_config *config = &seat->device->arbiter->config;

	return MILLI *
		(int64_t)(seat->member->spec.memory_policy == SPEC_MEMORY_SWAP
				? config->swap_quantum_ns
				: config->quantum_ns);
}

/* Predicted rest of the holder's work in flight. */
static uint64_t queued_rest(const struct seat *seat, uint64_t now)
{
	uint64_t rest = clock_since_ns(seat->queued_ns, clock_since_ns(now, seat->queued_at));

	return seat->state == SEAT_OPEN ? rest : 0;
}

void seat_update_limits(struct seat *seat, uint64_t now)
{
	uint64_t limit = seat->member->spec.limit;
	int64_t resume = (int64_t)seat_quantum_ns(seat) * MILLI / 2;
	int64_t left;

	if (limit >= SPEC_SHARE_ONE) {
		seat->is_throttled = false;
		return;
	}
	if (seat->is_throttled) {
		if (seat->budget < resume) {
			device_wake(
				seat->device, now + (uint64_t)(resume - seat->budget) / limit + 1);
			return;
		}
		seat->is_throttled = false;
	}
	/* Work in flight is charged in any case. */
	left = seat->budget - (int64_t)queued_rest(seat, now) * (int64_t)(MILLI - limit);
	if (left <= 0)
		seat->is_throttled = true;
	else if (seat->state == SEAT_OPEN)
		device_wake(seat->device, now + (uint64_t)left / (MILLI - limit) + 1);
	if (seat->is_throttled)
		device_wake(seat->device,
			now + (uint64_t)MAX(resume - seat->budget, INT64_C(0)) / limit + 1);
}
