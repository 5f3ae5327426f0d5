/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which tenant holds a device's token. Pure: takes events with their time, returns actions;
 * no clock and no I/O, and only arbiter_new and arbiter_add allocate. One thread at a time. Times
 * are CLOCK_MONOTONIC nanoseconds and never go back.
 *
 * One arbiter serves all devices of a node, because a tenant on several devices gets all tokens
 * together. The caller (src/agent) watches the shared pages and reports what it sees; the arbiter
 * never sees a page. The sequence on one device:
 *
 *   want --> OPEN(tenant) ... quantum over / idle / better tenant waits --> CLOSE(tenant)
 *        --> caller waits until the drain ends --> arbiter_drained --> OPEN(next)
 *
 * For an early handover the caller predicts the end of the drain by arbiter_draining. The arbiter
 * opens the next tenant when less than `overlap_ns` is left. If a drain passes its bound, both
 * tenants co-run.
 */
#ifndef CORE_ARBITER_H
#define CORE_ARBITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "spec/spec.h"

#define ARBITER_DEVICES 64u
#define ARBITER_WINDOW_NS 1000000000ull /* sliding window of usage */
#define ARBITER_BUCKET_NS 10000000ull

struct arbiter;

typedef uint32_t arbiter_id; /* a tenant, chosen by the caller, unique among present tenants */

enum arbiter_action_type {
	ARBITER_OPEN,   /* open the tenant's gates on `device` */
	ARBITER_CLOSE,  /* close the gates and watch the drain */
	ARBITER_WINDOW, /* set the tenant's window_us, contended and waited on `device` */
};

struct arbiter_action {
	enum arbiter_action_type type;
	arbiter_id tenant;
	uint32_t device;
	uint32_t window_us; /* OPEN, WINDOW: in-flight window; 0: none */
	bool contended;     /* OPEN, WINDOW: the device is contended */
	bool waited;        /* OPEN, WINDOW: another tenant waits for the device */
	uint64_t epoch;     /* OPEN: the same for all devices that open together */
};

/* Why a tenant does not run on a device, for `divvy why`. */
enum arbiter_why {
	ARBITER_WHY_IDLE, /* does not want the device */
	ARBITER_WHY_HOLDS,
	ARBITER_WHY_TURN,     /* other tenants go first */
	ARBITER_WHY_LIMIT,    /* at its limit */
	ARBITER_WHY_CLASS,    /* a latency tenant is active */
	ARBITER_WHY_DRAIN,    /* waits for the previous holder's drain */
	ARBITER_WHY_RESERVED, /* waits until all of its devices are free */
};

struct arbiter_usage {
	uint64_t used_ns;        /* charged since arbiter_add; exact */
	uint64_t window_used_ns; /* used in the last ARBITER_WINDOW_NS */
	uint64_t waited_ns;      /* time of wanting the device without holding it */
	uint32_t entitlement;    /* permille, water-filled over the tenants that have work now */
	int64_t lag_ns;          /* entitled minus used; negative: debt */
	enum arbiter_why why;
	arbiter_id why_tenant; /* tenant that holds the device or goes before this one; 0: none */
	bool holds;            /* its gates are open */
	bool corun;            /* open beside another gate that is in use or offered */
};

struct arbiter_config {
	const char *policy;      /* "share" (also if NULL), "fifo", "bias" or "gemini" */
	uint64_t quantum_min_ns; /* shortest turn while other tenants wait; default 5 ms */
	uint64_t quantum_ns;     /* longest turn while other tenants wait; default 29 ms */
	uint64_t turn_max_ns;    /* longest turn with its last submission; default 30 ms */
	uint64_t idle_ns; /* an idle tenant loses its token after this time; default 0.5 ms */
	/* an unused token is offered to other tenants after this time; default 1 ms */
	uint64_t unused_ns;
	uint64_t holdoff_ns;      /* hold-off after a latency tenant becomes idle; default 0.5 ms */
	uint64_t overlap_ns;      /* a gate opens this long before the drain ends; default 150 us */
	uint64_t drain_max_ns;    /* most time for a drain; default 250 ms */
	uint64_t swap_quantum_ns; /* quantum between tenants with memory policy swap; default 2 s */
	uint32_t window_us;       /* in-flight window on a contended device; default 2000 */
	/* in-flight window of opportunistic tenants beside a latency tenant; default 700 */
	uint32_t window_latency_us;
	/* A device is contended if other tenants wanted it within this time; default 1 s. */
	uint64_t contended_ns;
	bool gate; /* false: every gate opens on request, nothing is enforced */
};

void arbiter_config_init(struct arbiter_config *ret_config);

/*
 * Returns 0, -EINVAL for an unknown policy (the message lists the known ones) or a wrong number of
 * devices, or -ENOMEM.
 */
int arbiter_new(const struct arbiter_config *config, uint32_t devices, struct arbiter **ret_arbiter,
	struct error *err);
void arbiter_free(struct arbiter *arbiter);

/*
 * Adds a tenant; `devices` is a bit mask. A tenant on several devices gets all tokens together. The
 * caller's admission keeps the sum of requests on a device at one device or less. A larger sum is
 * scaled down, and then no request is guaranteed. Returns 0, -EEXIST, -EINVAL or -ENOMEM.
 */
int arbiter_add(struct arbiter *arbiter, arbiter_id tenant, const struct spec *spec,
	uint64_t devices, uint64_t now, struct error *err);
/* Changes request, limit, class or priority of a running tenant. Returns 0 or -ENOENT. */
int arbiter_change(struct arbiter *arbiter, arbiter_id tenant, const struct spec *spec,
	uint64_t now, struct error *err);
/*
 * Removes a tenant; its token is free at once. This and all functions below ignore unknown tenants.
 */
void arbiter_remove(struct arbiter *arbiter, arbiter_id tenant, uint64_t now);

/*
 * Reports that a thread of the tenant is blocked at the gate (`want`), or that none is. May be
 * repeated. The first busy look after an opening clears the want. While page_up.want != 0, the
 * caller therefore reports the want again: after each CLOSE, and after the arbiter took back an
 * unused opening.
 */
void arbiter_want(
	struct arbiter *arbiter, arbiter_id tenant, uint32_t device, bool want, uint64_t now);

/*
 * Reports a look at a holder's page. busy: work is in flight or was submitted since the last look.
 * longest_ns: the longest recent submission. queued_ns: predicted device time in flight.
 */
void arbiter_observe(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, bool busy,
	uint64_t longest_ns, uint64_t queued_ns, uint64_t now);

/*
 * The arbiter_observe() at `now` saw work begin or end: reports that this happened at at_ns, after
 * the look before. Charges or refunds the time between at_ns and now, unless the time is charged
 * anyway because other tenants wait. Does nothing if that look saw no change.
 */
void arbiter_observe_at(
	struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t at_ns, uint64_t now);

/*
 * Sets how far the last submission may extend a turn. With 0, the initial value, it may extend the
 * turn by the length of the longest submission. A program that knows the length of its submissions,
 * and yields, has a smaller value; then its turns are longer.
 */
void arbiter_late(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t late_ns);

/*
 * Reports that the program has synchronised and has nothing in flight. Its turn then ends if other
 * tenants wait: at once, or after holdoff_ns if its class is latency.
 */
void arbiter_release(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t now);

/*
 * arbiter_turn_ends: the time by which the holder's work should end because other tenants wait; 0:
 * none waits. If more than half of its next submission would run after this time, the program
 * yields instead of submitting. The caller reports that by arbiter_yield, and the turn ends now.
 */
uint64_t arbiter_turn_ends(const struct arbiter *arbiter, arbiter_id tenant, uint32_t device);
void arbiter_yield(struct arbiter *arbiter, arbiter_id tenant, uint32_t device);

/*
 * Call after CLOSE. rest_ns: the predicted rest of the drain; UINT64_MAX: no prediction is possible
 * any more. spread_ns: the prediction's average error; if it is small enough for the next tenant's
 * lead, that tenant's gate opens early. Finally the caller reports by arbiter_drained, once, that
 * the drain ended at `end`.
 */
void arbiter_draining(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t rest_ns,
	uint64_t spread_ns, uint64_t now);
/*
 * Reports a look at a drain: call it after CLOSE, also without a prediction. is_moving: work has
 * ended since the last look. is_known: markers cover all work in flight, so work that does not end
 * is running. A drain that moves, or whose work is not known yet because the program was not
 * scheduled, is no reason to co-run. Its bound then starts anew, up to drain_max_ns in total.
 * Without a report the arbiter assumes a known drain that does not move.
 */
void arbiter_drain_seen(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, bool is_moving,
	bool is_known, uint64_t now);
void arbiter_drained(
	struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t end, uint64_t now);

/*
 * Decides. Writes at most `max` actions and returns their number; call again while it returns max.
 * ret_next: when to call again even if nothing happens (UINT64_MAX: never).
 */
size_t arbiter_step(struct arbiter *arbiter, uint64_t now, struct arbiter_action *ret_actions,
	size_t max, uint64_t *ret_next);

/*
 * Whether the caller should poll the holder's pages continuously: a tenant waits, a gate drains, or
 * a limit applies. Otherwise a look every 100 ms suffices, so that idle time is not charged.
 */
bool arbiter_watches(const struct arbiter *arbiter, uint32_t device);

/* Returns 0 or -ENOENT. */
int arbiter_usage_get(const struct arbiter *arbiter, arbiter_id tenant, uint32_t device,
	uint64_t now, struct arbiter_usage *ret_usage);

/*
 * Carries usage over a restart of the daemon: adds used_ns and sets the lag. Ignored while the
 * tenant is active on the device.
 */
void arbiter_restore(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t used_ns,
	int64_t lag_ns);

/*
 * Entitlements by water-filling: each tenant gets its request. The rest goes to the tenants with
 * the smallest totals, until all totals are equal or at their limits. n tenants; request and limit
 * in permille, results in millionths, so that thirds are exact enough. If the requests sum to more
 * than one device, they are scaled down.
 */
#define ARBITER_FILL_MAX 1024u /* further tenants are ignored */
void arbiter_water_fill(
	const uint32_t *request, const uint32_t *limit, size_t n, uint32_t *ret_micro);

#endif
