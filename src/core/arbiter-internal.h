/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter's own structures, shared by its files:
 *
 *   arbiter.c         tenants, reports from the caller, arbiter_step
 *   arbiter-turn.c    next tenant, end of a turn, opening and closing gates
 *   arbiter-gang.c    tenants on several devices: reserve in order, open together
 *   arbiter-host.c    late submissions on a busy host
 *   arbiter-account.c charged time, lag, limits, entitlements
 *   arbiter-policy.c  orders among tenants of one rank
 *
 * Only these files and their tests include this header.
 */
#ifndef CORE_ARBITER_INTERNAL_H
#define CORE_ARBITER_INTERNAL_H

#include "base/cleanup.h"
#include "core/arbiter.h"
#include "core/water-fill.h"

#define ARBITER_BUCKETS ((uint32_t)(ARBITER_WINDOW_NS / ARBITER_BUCKET_NS))
#define ARBITER_HASH 1024u
#define ARBITER_CORUN_PAIRS 32u
#define ARBITER_CORUN_PAIR_NS 10000000000ull

/* Lag is in 1/1024 ns, because charges round thousands of times a second. */
#define LAG_ONE 1024
/* Budgets are in 1/1000 ns, so that nanoseconds times permille stay exact. */
#define MILLI 1000

enum arbiter_td_state {
	TD_CLOSED,
	TD_OPEN,
	TD_DRAINING, /* closed; work may still be in flight */
};

/* State of one tenant on one device: a tenant-device. */
struct arbiter_td {
	struct arbiter_tenant *tenant;
	struct device *device;
	enum arbiter_td_state state;

	bool is_active;     /* wants the device, holds it, or drains; listed in device->active */
	uint32_t active_at; /* index in device->active */
	/*
	 * time since which it is active without wanting or holding the device; 0: wants or holds it
	 */
	uint64_t idle_from;
	uint64_t left_at;   /* when it last became inactive */
	uint64_t away_from; /* when it last ran out of work, and class_used_ns of its class then */
	uint64_t class_used_ns;

	uint64_t wants_since;
	uint64_t opened_at; /* start of its turn */
	uint64_t gate_opened_at;
	bool has_used;       /* submitted work in this turn */
	uint64_t idle_since; /* without work since then; 0: busy */
	/* time of the last look that saw work begin or end; 0 after arbiter_observe_at() */
	uint64_t changed_at;
	/* if that look saw work begin: the tenant had been idle since unchanged_from */
	uint64_t unchanged_from;
	bool gives_way;        /* set by arbiter_release: the turn ends if other tenants wait */
	bool yields;           /* set by arbiter_yield: the turn ends now */
	uint64_t turn_ends_at; /* OPEN while tenants wait: when its work has to end; 0: unknown */
	/* opened before the previous drain ended: not charged until overlap_until */
	bool is_overlapped;
	bool is_offered; /* OPEN and unused for unused_ns: other tenants were opened too */
	bool is_corun;

	bool is_unbounded;       /* DRAINING: it had no in-flight window */
	bool has_drain_estimate; /* DRAINING: the caller has predicted the end */
	uint64_t ends_at;        /* the predicted end, with an error of spread_ns on average */
	uint64_t spread_ns;
	uint64_t drain_by; /* time from which other tenants may co-run with the drain */
	uint64_t closed_at, drain_bound_ns;
	bool is_noted;       /* DRAINING: past its bound, and n_overdue counts it */
	uint64_t overdue_at; /* when a drain last passed its bound */
	uint32_t n_overdue;  /* consecutive drains that passed their bound */
	uint64_t drained_ns; /* longest drain within the bound, decaying */

	/* time when it was closed because it was idle; 0: closed for another reason */
	uint64_t dry_since;
	uint64_t dry_ns;  /* how long the host lately kept it from submitting, decaying */
	uint64_t wake_ns; /* average time from opening its gate to its first submission */
	uint32_t wide_us; /* in-flight window of this turn: at least the configured one */

	uint64_t longest_ns;
	uint64_t late_ns; /* set by arbiter_late(), which explains it */
	uint64_t queued_ns, queued_at;

	uint32_t micro; /* entitlement among the active tenants now, millionths */
	int64_t lag;    /* entitled minus used time; LAG_ONE per ns */
	int64_t budget; /* time that it may use before it reaches its limit; MILLI per ns */
	uint64_t budget_at;
	bool is_waiting;   /* counted in device->n_waiting */
	bool is_throttled; /* at its limit, until the budget allows half a quantum */
	/* time below its request while latency tenants go first; MILLI per ns */
	int64_t waiting_lag;
	bool is_starved; /* waiting_lag has passed its bound: goes before latency tenants */

	uint64_t used_ns, waited_ns;
	uint64_t turn_ns; /* part of used_ns charged in this turn: a refund returns at most this */
	int32_t bucket[ARBITER_BUCKETS];
	uint64_t bucket_now; /* number of the newest bucket */
	int64_t window_ns;   /* sum of bucket[] */

	uint32_t reported_window_us; /* the values that the last OPEN or WINDOW action carried */
	bool reported_contended, reported_waited;
};

/* A tenant. */
struct arbiter_tenant {
	struct arbiter_tenant *next; /* in its hash chain */
	arbiter_id id;
	struct spec spec;
	uint64_t devices;  /* mask */
	uint64_t wants;    /* mask: devices where threads of the tenant are blocked */
	uint64_t reserved; /* mask: devices reserved for the gang, see arbiter-gang.c */
	uint32_t n_tds;
	struct arbiter_td td[]; /* in the order of the devices */
};

/*
 * Two tenants whose drains pass their bound while both are on the device: probably the work of one
 * waits for the work of the other, so they may co-run.
 */
struct corun_pair {
	arbiter_id a, b;
	uint32_t level;    /* grows with drains past their bound, falls with timely drains */
	uint64_t event_at; /* time of the last drain past its bound */
	uint64_t until;    /* until this time the two co-run without waiting for drains */
};

struct device {
	struct arbiter *arbiter;
	uint32_t index;
	struct arbiter_td **active;
	struct water_share *fill; /* scratch for entitlements, as large as `active` */
	uint32_t n_active;

	struct arbiter_td *holder; /* the tenant whose turn it is; other OPEN tenants co-run */
	struct arbiter_tenant *reserved;
	uint64_t overlap_until; /* predicted end of the drains beside the last opened gate */
	uint64_t corun_until;   /* when exclusive turns are tried again */
	uint64_t drained_at;    /* when a drain last ended within its bound */
	struct corun_pair pair[ARBITER_CORUN_PAIRS];

	/* Time charged to each class so far. */
	uint64_t class_used_ns[SPEC_OPPORTUNISTIC + 1];

	uint64_t accounted_at;
	uint64_t charged_until; /* accounted_at when a tenant was last charged */
	uint32_t n_charged;     /* number of tenants that the last device_account() charged */
	bool is_stale;          /* entitlements are out of date: a tenant has joined or left */
	uint32_t n_waiting;     /* tenants that could be opened now and are not */
	bool is_dirty;          /* decide at the next step */
	uint64_t next_at;       /* decide at this time even without an event */
	uint64_t decided_at;    /* time of the last decision */
	uint32_t n_decided;

	struct {
		arbiter_id id;
		uint64_t at;
		enum spec_class class;
	} recent[2];         /* the two tenants whose gates closed last */
	uint64_t latency_at; /* when a latency tenant was last active */
	uint32_t n_latency;  /* latency tenants on the device, active or not */
};

struct arbiter_policy {
	const char *name;
	/* Among tenants of one rank on one device the highest score goes first. */
	int64_t (*score)(const struct arbiter_td *td, uint64_t now);
	/*
	 * About the time from now after which `waiting` precedes `holder` in the order; 0: it
	 * precedes already. The holder's work in flight runs for another rest_ns. The caller
	 * ensures that a holder keeps the device at least for its planned turn.
	 */
	uint64_t (*passes_ns)(const struct arbiter_td *holder, const struct arbiter_td *waiting,
		uint64_t rest_ns, uint64_t now);
	bool has_even_turns; /* every turn is one quantum; false: in proportion to entitlements */
};

struct arbiter {
	struct arbiter_config config;
	const struct arbiter_policy *policy;
	struct arbiter_tenant *hash[ARBITER_HASH];
	uint32_t n_tenants, n_tds;
	uint64_t epoch;
	uint64_t operations; /* tenant-devices visited; a test checks that idle ones cost nothing */

	struct arbiter_action *queue;
	size_t queue_size, queue_head, queue_n;

	uint32_t n_devices;
	struct device device[];
};

static inline bool is_gang(const struct arbiter_tenant *t)
{
	return t->n_tds > 1;
}

static inline bool td_wants(const struct arbiter_td *td)
{
	return td->tenant->wants != 0;
}

/* Whether the tenant holds the token: it is OPEN, and not merely offered beside another tenant. */
static inline bool td_has_turn(const struct arbiter_td *td)
{
	return td->state == TD_OPEN && !td->is_offered;
}

static inline void device_wake(struct device *device, uint64_t at)
{
	device->next_at = MIN(device->next_at, at);
}

struct arbiter_td *arbiter_tenant_td(struct arbiter_tenant *t, uint32_t device);
void arbiter_push(struct arbiter *arbiter, const struct arbiter_action *action);

/* arbiter-policy.c */
const struct arbiter_policy *arbiter_policy_find(const char *name);
void arbiter_policy_names(char *ret, size_t size);

/* arbiter-account.c */
void device_account(struct device *device, uint64_t now);
void device_entitle(struct device *device);
void td_activate(struct arbiter_td *td, uint64_t now);
void td_deactivate(struct arbiter_td *td, uint64_t now);
/*
 * Call after td->state or the wants of its tenant have changed. A tenant-device that becomes active
 * joins at once; one that becomes idle leaves after a delay (device_leave_idle).
 */
void td_update_active(struct arbiter_td *td, uint64_t now);
void device_leave_idle(struct device *device, uint64_t now);
/*
 * Refunds the time charged after `end`, when the work really ended, and charges it to the tenants
 * with open gates.
 */
void td_refund(struct arbiter_td *td, uint64_t end);
/*
 * The look at `now` saw work begin or end, which really happened at at_ns. Charges or refunds the
 * difference.
 */
void td_correct(struct arbiter_td *td, uint64_t at_ns, uint64_t now);
void td_update_limits(struct arbiter_td *td, uint64_t now);
uint64_t td_window_ns(const struct arbiter_td *td, uint64_t now);
uint64_t td_quantum_ns(const struct arbiter_td *td); /* longest turn while tenants wait */
int64_t td_burst(const struct arbiter_td *td);
/* Sum of the entitlements of all active tenants of this tenant's class, in millionths. */
uint64_t class_micro(const struct arbiter_td *td);

/* arbiter-host.c */
/*
 * Notes that the tenant's work resumed at `now`. The device had run dry at `since`, within the
 * tenant's turn.
 */
void td_note_dry(struct arbiter_td *td, uint64_t since, uint64_t now);
/* Notes the first submission of this turn. */
void td_note_woken(struct arbiter_td *td, uint64_t now);
/* Decays the learned times at the start of a turn. */
void td_fade(struct arbiter_td *td);
/* In-flight window for a turn of turn_ns; at least the configured one. */
uint32_t td_wide_us(const struct arbiter_td *td, uint64_t turn_ns);
/* How much earlier the tenant's gate should open than on a quiet host. */
uint64_t td_lead_ns(const struct arbiter_td *td);
/* Whether the end of the drain is predicted exactly enough for a gate that opens lead_ns early. */
bool td_is_end_known(const struct arbiter_td *drains, uint64_t lead_ns);

/* arbiter-turn.c */
int td_rank(const struct arbiter_td *td);
/* Sets the holder to another tenant that holds the token, or to NULL. */
void device_pass_on(struct device *device);
void device_decide(struct device *device, uint64_t now);
void arbiter_tenant_open(struct arbiter_tenant *t, bool corun, uint64_t now);
void arbiter_tenant_close(struct arbiter_tenant *t, uint64_t now);

enum clearance {
	CLEAR_NOT,     /* wait */
	CLEAR_YES,     /* the device is empty */
	CLEAR_OVERLAP, /* open: the drain is about to end */
	CLEAR_CORUN,   /* open beside the work still in flight */
	CLEAR_STUCK,   /* as CLEAR_CORUN; a drain has passed its bound */
};
/*
 * Whether `td` may open beside the drains on its device. For CLEAR_NOT, the function sets the
 * device's next_at.
 */
enum clearance device_clearance(struct device *device, const struct arbiter_td *td, uint64_t now);
/* Reopens the gates of tenants whose drain has passed its bound, and counts these events. */
void device_reopen_stuck(struct device *device, const struct arbiter_td *next, uint64_t now);
/* The most time that the tenant's drain may take in total. */
uint64_t td_drain_max_ns(const struct arbiter_td *td);
/* Handles the end of a drain. Does nothing if the drain has passed its bound (is_noted). */
void td_drained(struct arbiter_td *td, uint64_t now);
/* Removes the pairs of a tenant that is removed. */
void corun_pairs_forget(struct device *device, const struct arbiter_tenant *t);

/* arbiter-gang.c */
bool gang_may_compete(const struct arbiter_td *td);
void gang_reserve(struct arbiter_td *td, uint64_t now);
void gang_unreserve(struct arbiter_tenant *t);
bool gang_is_complete(const struct arbiter_tenant *t);
void gang_try_open(struct arbiter_tenant *t, uint64_t now);
bool gang_is_idle(const struct arbiter_tenant *t, uint64_t since);

#endif
