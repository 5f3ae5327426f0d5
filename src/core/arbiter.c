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
 * any decision. Further rounds wait a moment, so that the caller does not spin.
 */
#define ROUNDS_MAX 8
#define ROUNDS_PAUSE_NS (100 * NSEC_PER_USEC)

void arbiter_config_init(struct arbiter_config *ret_config)
{
	*ret_config = (struct arbiter_config){
		.policy = NULL,
		.quantum_min_ns = 5 * NSEC_PER_MSEC,
		.quantum_ns = 29 * NSEC_PER_MSEC,
		.turn_max_ns = 30 * NSEC_PER_MSEC,
		.idle_ns = 500 * NSEC_PER_USEC,
		.unused_ns = NSEC_PER_MSEC,
		.holdoff_ns = 500 * NSEC_PER_USEC,
		.overlap_ns = 150 * NSEC_PER_USEC,
		.drain_max_ns = 250 * NSEC_PER_MSEC,
		.swap_quantum_ns = 2 * NSEC_PER_SEC,
		.window_us = 2000,
		.window_latency_us = 700,
		.contended_ns = NSEC_PER_SEC,
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
			struct arbiter_tenant *t = arbiter->hash[i];

			arbiter->hash[i] = t->next;
			free(t);
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

static struct arbiter_tenant **arbiter_tenant_slot(struct arbiter *arbiter, arbiter_id id)
{
	struct arbiter_tenant **at = &arbiter->hash[id * UINT32_C(2654435761) % ARBITER_HASH];

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

static struct arbiter_tenant *arbiter_tenant_find(const struct arbiter *arbiter, arbiter_id id)
{
	return *arbiter_tenant_slot((struct arbiter *)(uintptr_t)arbiter, id);
}

struct arbiter_td *arbiter_tenant_td(struct arbiter_tenant *t, uint32_t device)
{
	uint64_t bit;

	if (device >= ARBITER_DEVICES)
		return NULL;
	bit = UINT64_C(1) << device;
	if (!(t->devices & bit))
		return NULL;
	return &t->td[__builtin_popcountll(t->devices & (bit - 1))];
}

static struct arbiter_td *td_find(const struct arbiter *arbiter, arbiter_id tenant, uint32_t device)
{
	struct arbiter_tenant *t = arbiter_tenant_find(arbiter, tenant);

	return t ? arbiter_tenant_td(t, device) : NULL;
}

/*
 * Reserves room for every tenant to be active on every device, and for the actions of one decision.
 */
static int reserve_room(struct arbiter *arbiter, uint32_t tds)
{
	uint32_t members = arbiter->n_tenants + 1;
	size_t queue = 16 * (size_t)tds + 64;
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

static void arbiter_tenant_count_latency(struct arbiter_tenant *t, int by)
{
	if (t->spec.class != SPEC_LATENCY)
		return;
	for (uint32_t i = 0; i < t->n_tds; i++)
		t->td[i].device->n_latency += (uint32_t)by;
}

int arbiter_add(struct arbiter *arbiter, arbiter_id tenant, const struct spec *spec,
	uint64_t devices, uint64_t now, struct error *err)
{
	uint64_t known = arbiter->n_devices == 64 ? UINT64_MAX
						  : (UINT64_C(1) << arbiter->n_devices) - 1;
	uint32_t n = (uint32_t)__builtin_popcountll(devices);
	struct arbiter_tenant **at = arbiter_tenant_slot(arbiter, tenant);
	struct arbiter_tenant *t;

	if (*at)
		return fail(err, EEXIST, "tenant %u exists already", tenant);
	if (devices == 0 || devices & ~known)
		return fail(err, EINVAL, "devices 0x%llx of tenant %u: the machine has %u devices",
			(unsigned long long)devices, tenant, arbiter->n_devices);
	if (reserve_room(arbiter, arbiter->n_tds + n) < 0)
		return fail(err, ENOMEM, "out of memory for tenant %u", tenant);
	t = calloc(1, sizeof(*t) + n * sizeof(t->td[0]));
	if (!t)
		return fail(err, ENOMEM, "out of memory for tenant %u", tenant);
	t->id = tenant;
	t->spec = *spec;
	t->devices = devices;
	t->n_tds = n;
	for (uint32_t i = 0; i < n; i++, devices &= devices - 1) {
		struct arbiter_td *td = &t->td[i];

		td->tenant = t;
		td->device = &arbiter->device[__builtin_ctzll(devices)];
		td->left_at = now;
		td->budget_at = now;
		td->budget = td_burst(td);
	}
	*at = t;
	arbiter_tenant_count_latency(t, 1);
	arbiter->n_tenants++;
	arbiter->n_tds += n;
	return 0;
}

int arbiter_change(struct arbiter *arbiter, arbiter_id tenant, const struct spec *spec,
	uint64_t now, struct error *err)
{
	struct arbiter_tenant *t = arbiter_tenant_find(arbiter, tenant);

	if (!t)
		return fail(err, ENOENT, "no tenant %u", tenant);
	for (uint32_t i = 0; i < t->n_tds; i++) {
		struct arbiter_td *td = &t->td[i];

		device_account(td->device, now);
		/* Lags belong to a class: the tenant leaves its lag to the old class. */
		if (spec->class != t->spec.class && td->is_active) {
			td_deactivate(td, now);
			td->lag = 0;
		}
	}
	arbiter_tenant_count_latency(t, -1);
	t->spec = *spec;
	arbiter_tenant_count_latency(t, 1);
	for (uint32_t i = 0; i < t->n_tds; i++) {
		struct arbiter_td *td = &t->td[i];

		td->budget = MIN(td->budget, td_burst(td));
		td_update_active(td, now);
		td->device->is_stale = true;
		td->device->is_dirty = true;
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
	struct arbiter_tenant **at = arbiter_tenant_slot(arbiter, tenant);
	struct arbiter_tenant *t = *at;

	if (!t)
		return;
	gang_unreserve(t);
	arbiter_tenant_count_latency(t, -1);
	for (uint32_t i = 0; i < t->n_tds; i++) {
		struct arbiter_td *td = &t->td[i];
		struct device *device = td->device;

		device_account(device, now);
		td->state = TD_CLOSED;
		device->n_waiting -= td->is_waiting;
		td_deactivate(td, now);
		if (device->holder == td || !device->holder)
			device_pass_on(device);
		corun_pairs_forget(device, t);
		device->is_dirty = true;
	}
	queue_forget(arbiter, tenant);
	*at = t->next;
	arbiter->n_tenants--;
	arbiter->n_tds -= t->n_tds;
	free(t);
}

/* ---- the caller's reports ---- */

void arbiter_want(
	struct arbiter *arbiter, arbiter_id tenant, uint32_t device, bool want, uint64_t now)
{
	struct arbiter_td *td = td_find(arbiter, tenant, device);
	struct arbiter_tenant *t;
	bool before;

	if (!td)
		return;
	t = td->tenant;
	before = t->wants != 0;
	if (want) {
		if (td->dry_since)
			td_note_dry(td, td->dry_since, now);
		td->dry_since = 0;
		t->wants |= UINT64_C(1) << device;
	} else {
		t->wants &= ~(UINT64_C(1) << device);
	}
	if (before == (t->wants != 0))
		return;
	if (before)
		gang_unreserve(t);
	for (uint32_t i = 0; i < t->n_tds; i++) {
		struct arbiter_td *each = &t->td[i];

		if (want)
			each->wants_since = now;
		td_update_active(each, now);
		each->device->is_dirty = true;
	}
}

void arbiter_observe(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, bool busy,
	uint64_t longest_ns, uint64_t queued_ns, uint64_t now)
{
	struct arbiter_td *td = td_find(arbiter, tenant, device);

	if (!td)
		return;
	td->longest_ns = longest_ns;
	td->queued_ns = queued_ns;
	td->queued_at = now;
	td->device->is_dirty = true;
	if (td->state != TD_OPEN)
		return;
	device_account(td->device, now);
	if (busy != (td->has_used && td->idle_since == 0)) {
		td->changed_at = now;
		td->unchanged_from = td->has_used ? td->idle_since : td->opened_at;
	}
	if (busy) {
		if (!td->has_used)
			td_note_woken(td, now);
		else if (td->idle_since)
			td_note_dry(td, td->idle_since, now);
		td->has_used = true;
		td->idle_since = 0;
		td->tenant->wants = 0; /* its gates are open: no thread is blocked */
	} else if (td->has_used && td->idle_since == 0) {
		td->idle_since = now;
	}
}

void arbiter_observe_at(
	struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t at_ns, uint64_t now)
{
	struct arbiter_td *td = td_find(arbiter, tenant, device);

	if (!td || td->state != TD_OPEN || td->changed_at != now)
		return;
	td->changed_at = 0;
	device_account(td->device, now);
	td_correct(td, at_ns, now);
}

void arbiter_release(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t now)
{
	struct arbiter_td *td = td_find(arbiter, tenant, device);

	if (!td || td->state != TD_OPEN)
		return;
	device_account(td->device, now);
	/* A latency tenant may submit again soon, so other tenants wait for holdoff_ns. */
	td->gives_way = td->tenant->spec.class != SPEC_LATENCY;
	if (td->idle_since == 0)
		td->idle_since = now;
	td->device->is_dirty = true;
}

uint64_t arbiter_turn_ends(const struct arbiter *arbiter, arbiter_id tenant, uint32_t device)
{
	const struct arbiter_td *td = td_find(arbiter, tenant, device);

	return td && td->state == TD_OPEN ? td->turn_ends_at : 0;
}

void arbiter_yield(struct arbiter *arbiter, arbiter_id tenant, uint32_t device)
{
	struct arbiter_td *td = td_find(arbiter, tenant, device);

	if (!td || td->state != TD_OPEN || !td->turn_ends_at)
		return;
	td->yields = true;
	td->device->is_dirty = true;
}

/* Restarts the drain's bound at `at`, limited by td_drain_max_ns() in total. */
static void td_drain_until(struct arbiter_td *td, uint64_t at)
{
	uint64_t last = td->closed_at + td_drain_max_ns(td);

	td->drain_by = MAX(td->drain_by, MIN(clock_add_ns(at, td->drain_bound_ns), last));
}

void arbiter_draining(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t rest_ns,
	uint64_t spread_ns, uint64_t now)
{
	struct arbiter_td *td = td_find(arbiter, tenant, device);

	if (!td || td->state != TD_DRAINING)
		return;
	td->device->is_dirty = true;
	td->has_drain_estimate = rest_ns != UINT64_MAX;
	if (!td->has_drain_estimate)
		return;
	td->ends_at = clock_add_ns(now, rest_ns);
	td->spread_ns = spread_ns;
	if (td_is_end_known(td, 0))
		td_drain_until(td, td->ends_at);
}

void arbiter_drain_seen(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, bool is_moving,
	bool is_known, uint64_t now)
{
	struct arbiter_td *td = td_find(arbiter, tenant, device);

	if (!td || td->state != TD_DRAINING || (!is_moving && is_known))
		return;
	td_drain_until(td, now);
}

void arbiter_drained(
	struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t end, uint64_t now)
{
	struct arbiter_td *td = td_find(arbiter, tenant, device);
	struct device *on;

	if (!td || td->state != TD_DRAINING)
		return;
	on = td->device;
	device_account(on, now);
	td_refund(td, MIN(end, now));
	td_drained(td, now);
	td->state = TD_CLOSED;
	for (uint32_t i = 0; i < on->n_active; i++) {
		struct arbiter_td *next = on->active[i];

		if (next->state == TD_OPEN && next->is_overlapped) {
			next->is_overlapped = false;
			next->opened_at = MAX(next->opened_at, MIN(end, now));
		}
	}
	td_update_active(td, now);
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
	struct arbiter_td *td = td_find(arbiter, tenant, device);

	if (td)
		td->late_ns = late_ns;
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
		if (on->active[i]->state == TD_DRAINING || td_wants(on->active[i]) ||
			on->active[i]->tenant->spec.limit < SPEC_SHARE_ONE)
			return true;
	return false;
}

/* ---- usage of a tenant ---- */

static enum arbiter_why arbiter_explain_td(struct arbiter_td *td, arbiter_id *ret_other)
{
	struct device *device = td->device;
	const struct arbiter_td *holder = device->holder;

	*ret_other = holder && holder != td ? holder->tenant->id : 0;
	if (td->state == TD_OPEN)
		return ARBITER_WHY_HOLDS;
	if (!td_wants(td))
		return ARBITER_WHY_IDLE;
	if (td->is_throttled)
		return ARBITER_WHY_LIMIT;
	if (holder && holder != td && td_rank(holder) < td_rank(td) &&
		holder->tenant->spec.class == SPEC_LATENCY)
		return ARBITER_WHY_CLASS;
	if (td->tenant->reserved || (device->reserved && device->reserved != td->tenant)) {
		if (device->reserved && device->reserved != td->tenant)
			*ret_other = device->reserved->id;
		return ARBITER_WHY_RESERVED;
	}
	if (holder)
		return ARBITER_WHY_TURN;
	for (uint32_t i = 0; i < device->n_active; i++)
		if (device->active[i]->state == TD_DRAINING) {
			*ret_other = device->active[i]->tenant->id;
			return ARBITER_WHY_DRAIN;
		}
	return ARBITER_WHY_TURN;
}

int arbiter_usage_get(const struct arbiter *arbiter, arbiter_id tenant, uint32_t device,
	uint64_t now, struct arbiter_usage *ret_usage)
{
	struct arbiter_td *td = td_find(arbiter, tenant, device);
	arbiter_id other;

	if (!td)
		return -ENOENT;
	device_account(td->device, now);
	if (td->device->is_stale)
		device_entitle(td->device);
	*ret_usage = (struct arbiter_usage){
		.used_ns = td->used_ns,
		.window_used_ns = td_window_ns(td, now),
		.waited_ns = td->waited_ns,
		.entitlement = td->is_active ? (td->micro + 500) / 1000 : 0,
		.lag_ns = td->lag / LAG_ONE,
		.why = arbiter_explain_td(td, &other),
		.holds = td->state == TD_OPEN,
		.corun = td->state == TD_OPEN && (td->is_corun || td->is_offered),
	};
	ret_usage->why_tenant = other;
	return 0;
}

void arbiter_restore(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t used_ns,
	int64_t lag_ns)
{
	const int64_t most = (int64_t)ARBITER_WINDOW_NS;
	struct arbiter_td *td = td_find(arbiter, tenant, device);

	if (!td || td->is_active)
		return;
	td->used_ns += used_ns;
	td->lag = MAX(MIN(lag_ns, most), -most) * LAG_ONE;
}
