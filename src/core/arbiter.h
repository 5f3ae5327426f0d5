/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds a device's token, now and next. Pure: events with a time go in, actions come out; no
 * clock, no I/O, no allocation after arbiter_new but for arbiter_add. One thread at a time.
 * Times are CLOCK_MONOTONIC nanoseconds and never go back.
 *
 * One arbiter serves all devices of a node, since a tenant on several is granted all together.
 * The caller (src/agent) watches the shared pages and reports what it sees; the arbiter never sees
 * a page. Sequence on one device:
 *
 *   want --> OPEN(tenant) ... quantum over / idle / somebody better --> CLOSE(tenant)
 *        --> caller waits until the device has drained it --> arbiter_drained --> OPEN(next)
 *
 * and for an early handover arbiter_draining reports how long the drain will still take; the next
 * one is opened when that is below `overlap_ns`. A drain that passes its bound makes both co-run.
 */
#ifndef CORE_ARBITER_H
#define CORE_ARBITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "spec/spec.h"

#define ARBITER_DEVICES 64u
#define ARBITER_WINDOW_NS 1000000000ull /* usage window, in buckets of */
#define ARBITER_BUCKET_NS 10000000ull

struct arbiter;

typedef uint32_t arbiter_id; /* a tenant, chosen by the caller, unique among the living */

enum arbiter_action_type {
	ARBITER_OPEN,   /* open the tenant's gates on `device` */
	ARBITER_CLOSE,  /* close them and start watching the drain */
	ARBITER_WINDOW, /* set the tenant's window_us and flags (company, waited) on `device` */
};

struct arbiter_action {
	enum arbiter_action_type type;
	arbiter_id tenant;
	uint32_t device;
	uint32_t window_us; /* WINDOW and OPEN: 0 is no bound */
	bool company;       /* WINDOW and OPEN */
	bool waited;        /* WINDOW and OPEN */
	uint64_t epoch;     /* OPEN: same for all devices of one grant */
};

/* What throttles a tenant on a device, for `divvy why`. */
enum arbiter_why {
	ARBITER_WHY_IDLE, /* does not want the device */
	ARBITER_WHY_HOLDS,
	ARBITER_WHY_TURN,     /* others are before it */
	ARBITER_WHY_LIMIT,    /* at its limit */
	ARBITER_WHY_CLASS,    /* a latency tenant is active */
	ARBITER_WHY_DRAIN,    /* waits for the last holder's work to end */
	ARBITER_WHY_RESERVED, /* waits until all devices of a grant are free */
};

struct arbiter_usage {
	uint64_t used_ns;        /* charged since it was added, exact */
	uint64_t window_used_ns; /* of the last ARBITER_WINDOW_NS */
	uint64_t waited_ns;      /* wanted and did not hold */
	uint32_t entitlement;    /* permille, water-filled over those with backlog now */
	int64_t lag_ns;          /* entitled minus used; negative: debt */
	enum arbiter_why why;
	arbiter_id why_tenant; /* who holds or is before it; 0: none */
	bool holds;            /* its gates are open */
	bool corun;            /* ... beside another's, which runs or may be the first to submit */
};

struct arbiter_config {
	const char *policy;      /* "share" (default when NULL), "fifo", "bias", "gemini" */
	uint64_t quantum_min_ns; /* 5 ms */
	uint64_t quantum_ns;   /* aimed at when someone waits; quantum + longest kernel <= 30 ms */
	uint64_t hold_max_ns;  /* 30 ms */
	uint64_t idle_ns;      /* idle token revoked after: 0.5 ms */
	uint64_t unused_ns;    /* unused grant revoked after: 1 ms */
	uint64_t linger_ns;    /* after a latency tenant idles the others wait at most: 0.5 ms */
	uint64_t overlap_ns;   /* open the next when the drain is about to end in less */
	uint64_t drain_max_ns; /* 250 ms */
	uint64_t swap_quantum_ns;   /* quantum among tenants with memory policy swap: 2 s */
	uint32_t window_us;         /* with company: 2000 */
	uint32_t window_latency_us; /* opportunistic while a latency tenant is about: 700 */
	uint64_t company_ns; /* a tenant that wanted the device within this is company: 1 s */
	bool gate;           /* false: every gate stays open, nothing is enforced */
};

void arbiter_config_init(struct arbiter_config *ret_config);

/* -EINVAL for an unknown policy (the sentence lists the known ones), -ENOMEM. */
int arbiter_new(const struct arbiter_config *config, uint32_t devices, struct arbiter **ret_arbiter,
	struct error *err);
void arbiter_free(struct arbiter *arbiter);

/*
 * `devices` is a bit mask. A tenant on several devices is granted all of them together. Requests
 * on a device are to sum to one device at most (the caller's admission); more are scaled, and
 * then nobody is promised a turn. -EEXIST, -EINVAL, -ENOMEM.
 */
int arbiter_add(struct arbiter *arbiter, arbiter_id tenant, const struct spec *spec,
	uint64_t devices, uint64_t now, struct error *err);
/* New request, limit, class or priority while it runs. -ENOENT. */
int arbiter_change(struct arbiter *arbiter, arbiter_id tenant, const struct spec *spec,
	uint64_t now, struct error *err);
/* Its token passes at once. Unknown tenants are ignored, in all calls below too. */
void arbiter_remove(struct arbiter *arbiter, arbiter_id tenant, uint64_t now);

/*
 * It has work for the device (a thread blocked at the gate), or has none. May be repeated. A want
 * is used up by the first busy look after an opening, so the caller repeats it while page_up.want
 * != 0: after each CLOSE, and when an opening was taken back unused.
 */
void arbiter_want(
	struct arbiter *arbiter, arbiter_id tenant, uint32_t device, bool want, uint64_t now);

/*
 * What the caller saw of a holder: `busy`: something is in flight or was submitted since the last
 * look; longest_ns: the longest submission seen lately; queued_ns: predicted device time queued.
 */
void arbiter_observe(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, bool busy,
	uint64_t longest_ns, uint64_t queued_ns, uint64_t now);

/*
 * The holder's work that the last arbiter_observe, at `now`, saw begin or end did so at at_ns,
 * after the look before that one. Charges or refunds the time between at_ns and now, unless the
 * time is charged in any case because others wait. Without a change at `now` does nothing.
 */
void arbiter_observe_at(
	struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t at_ns, uint64_t now);

/*
 * How late a turn may end for its last submission; 0, as from the beginning: by the longest. It is
 * less if the program knows what its submissions take, and yields; then its turns are longer.
 */
void arbiter_late(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t late_ns);

/*
 * The program synchronised with nothing in flight: give way now if somebody waits; one of class
 * latency after linger_ns.
 */
void arbiter_release(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t now);

/*
 * When the work of the holder's turn had best be done, since somebody waits; 0: nobody does. Told
 * beforehand, a program need not start what would overrun that by more than it would fall short
 * of it: then it yields, and the others come now.
 */
uint64_t arbiter_turn_ends(const struct arbiter *arbiter, arbiter_id tenant, uint32_t device);
void arbiter_yield(struct arbiter *arbiter, arbiter_id tenant, uint32_t device);

/*
 * After CLOSE: the predicted rest of the drain, which may be off by spread_ns on average; or
 * UINT64_MAX, if no prediction is possible any more. Then, once, that the device has finished at
 * `end`. A prediction opens the next tenant's gate early if the spread is below that tenant's lead.
 */
void arbiter_draining(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t rest_ns,
	uint64_t spread_ns, uint64_t now);
/*
 * After CLOSE, whether or not an end can be predicted: `is_moving`: work has ended since the last
 * look; `is_known`: all that is in flight is marked, so that no end means that it runs. A drain
 * that moves, or of which nothing is known yet (a program that was not scheduled), is no reason
 * to co-run: its bound is counted anew, up to drain_max_ns in all. Never told: known and at rest.
 */
void arbiter_drain_seen(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, bool is_moving,
	bool is_known, uint64_t now);
void arbiter_drained(
	struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t end, uint64_t now);

/*
 * Decides. Writes at most `max` actions and returns how many; call again while it returns max.
 * ret_next: when to call again though nothing happened (UINT64_MAX: never).
 */
size_t arbiter_step(struct arbiter *arbiter, uint64_t now, struct arbiter_action *ret_actions,
	size_t max, uint64_t *ret_next);

/*
 * Should the caller look at the holder's pages all the time (somebody waits, a drain is on, or a
 * limit counts)? Otherwise every 100 ms or so, so that idle time is not charged.
 */
bool arbiter_watches(const struct arbiter *arbiter, uint32_t device);

/* -ENOENT. */
int arbiter_usage_get(const struct arbiter *arbiter, arbiter_id tenant, uint32_t device,
	uint64_t now, struct arbiter_usage *ret_usage);

/* Usage carried over a restart of the daemon: adds to used_ns and sets the debt. */
void arbiter_restore(struct arbiter *arbiter, arbiter_id tenant, uint32_t device, uint64_t used_ns,
	int64_t lag_ns);

/*
 * Entitlements (4.3): every tenant gets its request; the rest goes to whoever has the least in
 * total until all are equal or at their limit. n tenants, permille in, permille x 1000 out (so
 * that thirds are exact enough); capacity SPEC_SHARE_ONE x 1000. Requests above capacity are
 * scaled.
 */
#define ARBITER_FILL_MAX 1024u /* those beyond are not looked at */
void arbiter_water_fill(
	const uint32_t *request, const uint32_t *limit, size_t n, uint32_t *ret_micro);

#endif
