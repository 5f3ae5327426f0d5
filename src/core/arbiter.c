/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter of a node: its tenants, the caller's reports, and the step that decides. A report
 * only records and marks devices. Only arbiter_step() decides, for marked devices and for those
 * whose time has come. Tenants that neither want nor hold a device cost nothing there. See
 * arbiter-internal.h for the other files. Pure; one thread.
 */
#include "core/arbiter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/arbiter-internal.h"

/*
 * A decision may mark another device, because of a gang. This many rounds at one time suffice for
 * any decision; the rest waits a moment, so that the caller does not spin.
 */
#define ROUNDS_MAX 8
#define ROUNDS_PAUSE_NS (100 * NSEC_PER_USEC)

void arbiter_config_init(struct arbiter_config *ret_config)
{
	*ret_config = (struct arbiter_config){
		.policy = NULL,
		.quantum_min_ns = 5 * NSEC_PER_MSEC,
		.quantum_ns = 29 * NSEC_PER_MSEC,
		.hold_max_ns = 30 * NSEC_PER_MSEC,
		.idle_ns = 500 * NSEC_PER_USEC,
		.unused_ns = NSEC_PER_MSEC,
		.linger_ns = 500 * NSEC_PER_USEC,
		.overlap_ns = 150 * NSEC_PER_USEC,
		.drain_max_ns = 250 * NSEC_PER_MSEC,
		.swap_quantum_ns = 2 * NSEC_PER_SEC,
		.window_us = 2000,
		.window_latency_us = 700,
		.company_ns = NSEC_PER_SEC,
		.gate = true,
	};
}

int arbiter_new(const struct arbiter_config *config, uint32_t devices, struct arbiter **ret_arbiter,
	struct error *err)
{
	const struct arbiter_policy *policy = arbiter_policy_find(config->policy);
	struct arbiter *arbiter;

	if (!policy) {
		char names[128];

		arbiter_policy_names(names, sizeof(names));
		return fail(err, EINVAL, "policy '%.48s': unknown policy; expected one of: %s",
			config->policy, names);
	}
	if (devices == 0 || devices > ARBITER_DEVICES)
		return fail(err, EINVAL, "%u devices; expected 1 to %u", devices, ARBITER_DEVICES);
	arbiter = calloc(1, sizeof(*arbiter) + devices * sizeof(arbiter->device[0]));
	if (!arbiter)
		return fail(err, ENOMEM, "out of memory for %u devices", devices);
	arbiter->config = *config;
	arbiter->config.policy = policy->name;
	arbiter->policy = policy;
	arbiter->n_devices = devices;
	for (uint32_t i = 0; i < devices; i++) {
		arbiter->device[i].arbiter = arbiter;
		arbiter->device[i].index = i;
		arbiter->device[i].next_at = UINT64_MAX;
	}
	*ret_arbiter = arbiter;
	return 0;
}

void arbiter_free(struct arbiter *arbiter)
{
	if (!arbiter)
		return;
	for (uint32_t i = 0; i < ARBITER_HASH; i++) {
		while (arbiter->hash[i]) {
			struct member *member = arbiter->hash[i];

			arbiter->hash[i] = member->next;
			free(member);
		}
	}
	for (uint32_t i = 0; i < arbiter->n_devices; i++) {
		free(arbiter->device[i].active);
		free(arbiter->device[i].fill);
	}
	free(arbiter->queue);
	free(arbiter);
}

/* ---- tenants ---- */

static struct member **member_slot(struct arbiter *arbiter, arbiter_id id)
{
	struct member **at = &arbiter->hash[id * UINT32_C(2654435761) % ARBITER_HASH];

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

static struct member *member_find(const struct arbiter *arbiter, arbiter_id id)
{
	return *member_slot((struct arbiter *)(uintptr_t)arbiter, id);
}

struct seat *member_seat(struct member *member, uint32_t device)
{
	uint64_t bit;

	if (device >= ARBITER_DEVICES)
		return NULL;
	bit = UINT64_C(1) << device;
	if (!(member->devices & bit))
		return NULL;
	return &member->seat[__builtin_popcountll(member->devices & (bit - 1))];
}

static struct seat *seat_find(const struct arbiter *arbiter, arbiter_id tenant, uint32_t device)
{
	struct member *member = member_find(arbiter, tenant);

	return member ? member_seat(member, device) : NULL;
}

/*
 * Reserves room for every tenant to be active on every device, and for the actions of one decision.
 */
static int reserve_room(struct arbiter *arbiter, uint32_t seats)
{
	uint32_t members = arbiter->n_members + 1;
	size_t queue = 16 * (size_t)seats + 64;
	struct arbiter_action *actions;

	if (members & (members - 1) && members > 1)
		goto queue;
	for (uint32_t i = 0; i < arbiter->n_devices; i++) {
		struct device *device = &arbiter->device[i];
		void *active = realloc(device->active, 2 * members * sizeof(*device->active));
		void *fill;

		if (!active)
			return -ENOMEM;
		device->active = active;
		fill = realloc(device->fill, 2 * members * sizeof(*device->fill));
		if (!fill)
			return -ENOMEM;
		device->fill = fill;
	}
queue:
	if (queue <= arbiter->queue_size)
		return 0;
	queue *= 2;
	actions = malloc(queue * sizeof(*actions));
	if (!actions)
		return -ENOMEM;
	for (size_t i = 0; i < arbiter->queue_n; i++)
		actions[i] = arbiter->queue[(arbiter->queue_head + i) % arbiter->queue_size];
	free(arbiter->queue);
	arbiter->queue = actions;
	arbiter->queue_size = queue;
	arbiter->queue_head = 0;
	return 0;
}

static void member_count_latency(struct member *member, int by)
{
	if (member->spec.class != SPEC_LATENCY)
		return;
	for (uint32_t i = 0; i < member->n_seats; i++)
		member->seat[i].device->n_latency += (uint32_t)by;
}

int arbiter_add(struct arbiter *arbiter, arbiter_id tenant, const struct spec *spec,
	uint64_t devices, uint64_t now, struct error *err)
{
	uint64_t known = arbiter->n_devices == 64 ? UINT64_MAX
						  : (UINT64_C(1) << arbiter->n_devices) - 1;
	uint32_t n = (uint32_t)__builtin_popcountll(devices);
	struct member **at = member_slot(arbiter, tenant);
	struct member *member;

	if (*at)
		return fail(err, EEXIST, "tenant %u exists already", tenant);
	if (devices == 0 || devices & ~known)
		return fail(err, EINVAL, "devices 0x%llx of tenant %u: the machine has %u devices",
			(unsigned long long)devices, tenant, arbiter->n_devices);
	if (reserve_room(arbiter, arbiter->n_seats + n) < 0)
		return fail(err, ENOMEM, "out of memory for tenant %u", tenant);
	member = calloc(1, sizeof(*member) + n * sizeof(member->seat[0]));
	if (!member)
		return fail(err, ENOMEM, "out of memory for tenant %u", tenant);
	member->id = tenant;
	member->spec = *spec;
	member->devices = devices;
	member->n_seats = n;
	for (uint32_t i = 0; i < n; i++, devices &= devices - 1) {
		struct seat *seat = &member->seat[i];

		seat->member = member;
		seat->device = &arbiter->device[__builtin_ctzll(devices)];
		seat->left_at = now;
		seat->budget_at = now;
		seat->budget = seat_burst(seat);
	}
	*at = member;
	member_count_latency(member, 1);
	arbiter->n_members++;
	arbiter->n_seats += n;
	return 0;
}

int arbiter_change(struct arbiter *arbiter, arbiter_id tenant, const struct spec *spec,
	uint64_t now, struct error *err)
{
	struct member *member = member_find(arbiter, tenant);

	if (!member)
		return fail(err, ENOENT, "no tenant %u", tenant);
	for (uint32_t i = 0; i < member->n_seats; i++) {
		struct seat *seat = &member->seat[i];

		device_account(seat->device, now);
		/* Lags belong to a class: the tenant leaves its lag to the old class. */
		if (spec->class != member->spec.class && seat->is_active) {
			seat_leave(seat, now);
			seat->lag = 0;
		}
	}
	member_count_latency(member, -1);
	member->spec = *spec;
	member_count_latency(member, 1);
	for (uint32_t i = 0; i < member->n_seats; i++) {
		struct seat *seat = &member->seat[i];

		seat->budget = MIN(seat->budget, seat_burst(seat));
		seat_update_active(seat, now);
		seat->device->is_stale = true;
		seat->device->is_dirty = true;
	}
	return 0;
}

/* Drops actions for a removed tenant: they would reach a later tenant with that id. */
static void queue_forget(struct arbiter *arbiter, arbiter_id tenant)
{
	size_t n = arbiter->queue_n, kept = 0;

	for (size_t i = 0; i < n; i++) {
		struct arbiter_action action =
			arbiter->queue[(arbiter->queue_head + i) % arbiter->queue_size];

		if (action.tenant != tenant)
			arbiter->queue[(arbiter->queue_head + kept++) % arbiter->queue_size] =
				action;
	}
	arbiter->queue_n = kept;
}

void arbiter_remove(struct arbiter *arbiter, arbiter_id tenant, uint64_t now)
{
	struct member **at = member_slot(arbiter, tenant);
	struct member *member = *at;

	if (!member)
		return;
	gang_unreserve(member);
	member_count_latency(member, -1);
	for (uint32_t i = 0; i < member->n_seats; i++) {
		struct seat *seat = &member->seat[i];
		struct device *device = seat->device;

		device_account(device, now);
		seat->state = SEAT_CLOSED;
		device->n_waiting -= seat->is_waiting;
		seat_leave(seat, now);
		if (device->holder == seat || !device->holder)
			device_pass_on(device);
		bonds_forget(device, member);
		device->is_dirty = true;
	}
	queue_forget(arbiter, tenant);
	*at = member->next;
	arbiter->n_members--;
	arbiter->n_seats -= member->n_seats;
	free(member);
}

/* ---- the caller's reports ---- */

void arbiter_want(
	struct arbiter *arbiter, arbiter_id tenant, uint32_t device, bool want, uint64_t now)
{
	struct seat *seat = seat_find(arbiter, tenant, device);
	struct member *member;
	bool before;

	if (!seat)
		return;
	member = seat->member;
	before = member->wants != 0;
	if (want) {
		if (seat->dry_since)
			seat_note_dry(seat, seat->dry_since, now);
		seat->dry_since = 0;
		member->wants |= UINT64_C(1) << device;
	} else {
		member->wants &= ~(UINT64_C(1) << device);
	}
	if (before == (member->wants != 0))
		return;
	if (before)
		gang_unreserve(member);
	for (uint32_t i = 0; i < member->n_seats; i++) {
		struct seat *each = &member->seat[i];

		if (want)
			each->wants_since = now;
		seat_update_active(each, now);
		each->device->is_dirty = true;
	}
}

void arbiter_observe(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, bool busy,
	uint64_t longest_ns, uint64_t queued_ns, uint64_t now)
{
	struct seat *seat = seat_find(arbiter, tenant, device);

	if (!seat)
		return;
	seat->longest_ns = longest_ns;
	seat->queued_ns = queued_ns;
	seat->queued_at = now;
	seat->device->is_dirty = true;
	if (seat->state != SEAT_OPEN)
		return;
	device_account(seat->device, now);
	if (busy != (seat->has_used && seat->idle_since == 0)) {
		seat->changed_at = now;
		seat->unchanged_from = seat->has_used ? seat->idle_since : seat->opened_at;
	}
	if (busy) {
		if (!seat->has_used)
			seat_note_woken(seat, now);
		else if (seat->idle_since)
			seat_note_dry(seat, seat->idle_since, now);
		seat->has_used = true;
		seat->idle_since = 0;
		seat->member->wants = 0; /* its gates are open: no thread is blocked */
	} else if (seat->has_used && seat->idle_since == 0) {
		seat->idle_since = now;
	}
}

void arbiter_observe_at(
	struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t at_ns, uint64_t now)
{
	struct seat *seat = seat_find(arbiter, tenant, device);

	if (!seat || seat->state != SEAT_OPEN || seat->changed_at != now)
		return;
	seat->changed_at = 0;
	device_account(seat->device, now);
	seat_correct(seat, at_ns, now);
}

void arbiter_release(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t now)
{
	struct seat *seat = seat_find(arbiter, tenant, device);

	if (!seat || seat->state != SEAT_OPEN)
		return;
	device_account(seat->device, now);
	/* A latency tenant's next request may have arrived already: others wait for linger_ns. */
	seat->gives_way = seat->member->spec.class != SPEC_LATENCY;
	if (seat->idle_since == 0)
		seat->idle_since = now;
	seat->device->is_dirty = true;
}

uint64_t arbiter_turn_ends(const struct arbiter *arbiter, arbiter_id tenant, uint32_t device)
{
	const struct seat *seat = seat_find(arbiter, tenant, device);

	return seat && seat->state == SEAT_OPEN ? seat->turn_ends_at : 0;
}

void arbiter_yield(struct arbiter *arbiter, arbiter_id tenant, uint32_t device)
{
	struct seat *seat = seat_find(arbiter, tenant, device);

	if (!seat || seat->state != SEAT_OPEN || !seat->turn_ends_at)
		return;
	seat->yields = true;
	seat->device->is_dirty = true;
}

/* Restarts the drain's bound at `at`, limited by seat_drain_max_ns() in total. */
static void seat_drain_until(struct seat *seat, uint64_t at)
{
	uint64_t last = seat->closed_at + seat_drain_max_ns(seat);

	seat->drain_by = MAX(seat->drain_by, MIN(clock_add_ns(at, seat->drain_bound_ns), last));
}

void arbiter_draining(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t rest_ns,
	uint64_t spread_ns, uint64_t now)
{
	struct seat *seat = seat_find(arbiter, tenant, device);

	if (!seat || seat->state != SEAT_DRAINING)
		return;
	seat->device->is_dirty = true;
	seat->has_rest = rest_ns != UINT64_MAX;
	if (!seat->has_rest)
		return;
	seat->ends_at = clock_add_ns(now, rest_ns);
	seat->spread_ns = spread_ns;
	if (seat_is_end_known(seat, 0))
		seat_drain_until(seat, seat->ends_at);
}

void arbiter_drain_seen(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, bool is_moving,
	bool is_known, uint64_t now)
{
	struct seat *seat = seat_find(arbiter, tenant, device);

	if (!seat || seat->state != SEAT_DRAINING || (!is_moving && is_known))
		return;
	seat_drain_until(seat, now);
}

void arbiter_drained(
	struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t end, uint64_t now)
{
	struct seat *seat = seat_find(arbiter, tenant, device);
	struct device *on;

	if (!seat || seat->state != SEAT_DRAINING)
		return;
	on = seat->device;
	device_account(on, now);
	seat_refund(seat, MIN(end, now));
	seat_drained(seat, now);
	seat->state = SEAT_CLOSED;
	for (uint32_t i = 0; i < on->n_active; i++) {
		struct seat *next = on->active[i];

		if (next->state == SEAT_OPEN && next->is_overlapped) {
			next->is_overlapped = false;
			next->opened_at = MAX(next->opened_at, MIN(end, now));
		}
	}
	seat_update_active(seat, now);
	on->is_dirty = true;
}

/* ---- deciding ---- */

void arbiter_push(struct arbiter *arbiter, const struct arbiter_action *action)
{
	if (arbiter->queue_n == arbiter->queue_size)
		return; /* impossible: see reserve_room and ROUNDS_MAX */
	arbiter->queue[(arbiter->queue_head + arbiter->queue_n++) % arbiter->queue_size] = *action;
}

static void decide_if_due(struct device *device, uint64_t now)
{
	if (!device->is_dirty && device->next_at > now)
		return;
	if (device->decided_at != now) {
		device->decided_at = now;
		device->n_decided = 0;
	}
	if (device->n_decided++ < 4 * ROUNDS_MAX) {
		device_decide(device, now);
	} else {
		device->is_dirty = false;
		device->next_at = now + ROUNDS_PAUSE_NS;
	}
}

size_t arbiter_step(struct arbiter *arbiter, uint64_t now, struct arbiter_action *ret_actions,
	size_t max, uint64_t *ret_next)
{
	size_t n = 0;

	for (int round = 0; round < ROUNDS_MAX && arbiter->queue_n == 0; round++)
		for (uint32_t i = 0; i < arbiter->n_devices; i++)
			decide_if_due(&arbiter->device[i], now);
	for (; n < max && arbiter->queue_n; n++) {
		ret_actions[n] = arbiter->queue[arbiter->queue_head];
		arbiter->queue_head = (arbiter->queue_head + 1) % arbiter->queue_size;
		arbiter->queue_n--;
	}
	*ret_next = UINT64_MAX;
	for (uint32_t i = 0; i < arbiter->n_devices; i++)
		*ret_next = MIN(
			*ret_next, arbiter->device[i].is_dirty ? now : arbiter->device[i].next_at);
	return n;
}

void arbiter_late(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t late_ns)
{
	struct seat *seat = seat_find(arbiter, tenant, device);

	if (seat)
		seat->late_ns = late_ns;
}

bool arbiter_watches(const struct arbiter *arbiter, uint32_t device)
{
	const struct device *on;

	if (device >= arbiter->n_devices)
		return false;
	on = &arbiter->device[device];
	if (on->n_waiting || on->reserved)
		return true;
	for (uint32_t i = 0; i < on->n_active; i++)
		if (on->active[i]->state == SEAT_DRAINING || seat_wants(on->active[i]) ||
			on->active[i]->member->spec.limit < SPEC_SHARE_ONE)
			return true;
	return false;
}

/* ---- reports ---- */

static enum arbiter_why why(struct seat *seat, arbiter_id *ret_other)
{
	struct device *device = seat->device;
	const struct seat *holder = device->holder;

	*ret_other = holder && holder != seat ? holder->member->id : 0;
	if (seat->state == SEAT_OPEN)
		return ARBITER_WHY_HOLDS;
	if (!seat_wants(seat))
		return ARBITER_WHY_IDLE;
	if (seat->is_throttled)
		return ARBITER_WHY_LIMIT;
	if (holder && holder != seat && seat_rank(holder) < seat_rank(seat) &&
		holder->member->spec.class == SPEC_LATENCY)
		return ARBITER_WHY_CLASS;
	if (seat->member->reserved || (device->reserved && device->reserved != seat->member)) {
		if (device->reserved && device->reserved != seat->member)
			*ret_other = device->reserved->id;
		return ARBITER_WHY_RESERVED;
	}
	if (holder)
		return ARBITER_WHY_TURN;
	for (uint32_t i = 0; i < device->n_active; i++)
		if (device->active[i]->state == SEAT_DRAINING) {
			*ret_other = device->active[i]->member->id;
			return ARBITER_WHY_DRAIN;
		}
	return ARBITER_WHY_TURN;
}

int arbiter_usage_get(const struct arbiter *arbiter, arbiter_id tenant, uint32_t device,
	uint64_t now, struct arbiter_usage *ret_usage)
{
	struct seat *seat = seat_find(arbiter, tenant, device);
	arbiter_id other;

	if (!seat)
		return -ENOENT;
	device_account(seat->device, now);
	if (seat->device->is_stale)
		device_entitle(seat->device);
	*ret_usage = (struct arbiter_usage){
		.used_ns = seat->used_ns,
		.window_used_ns = seat_window_ns(seat, now),
		.waited_ns = seat->waited_ns,
		.entitlement = seat->is_active ? (seat->micro + 500) / 1000 : 0,
		.lag_ns = seat->lag / LAG_ONE,
		.why = why(seat, &other),
		.holds = seat->state == SEAT_OPEN,
		.corun = seat->state == SEAT_OPEN && (seat->is_corun || seat->is_offered),
	};
	ret_usage->why_tenant = other;
	return 0;
}

void arbiter_restore(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t used_ns,
	int64_t lag_ns)
{
	const int64_t most = (int64_t)ARBITER_WINDOW_NS;
	struct seat *seat = seat_find(arbiter, tenant, device);

	if (!seat || seat->is_active)
		return;
	seat->used_ns += used_ns;
	seat->lag = MAX(MIN(lag_ns, most), -most) * LAG_ONE;
}
