/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter's own structures, shared by its files:
 *   arbiter.c         tenants, events from the caller, step
 *   arbiter-turn.c    who is next, when a turn ends, opening and closing
 *   arbiter-gang.c    tenants on several devices: reserve in order, open together
 *   arbiter-host.c    what a busy host does to turns: late submissions
 *   arbiter-account.c time charged, lag, limits, entitlements
 *   arbiter-policy.c  the orders among tenants of one rank
 * Nothing outside these and their tests includes it.
 */
#ifndef CORE_ARBITER_INTERNAL_H
#define CORE_ARBITER_INTERNAL_H

#include "base/cleanup.h"
#include "core/arbiter.h"
#include "core/water-fill.h"

#define ARBITER_BUCKETS ((uint32_t)(ARBITER_WINDOW_NS / ARBITER_BUCKET_NS))
#define ARBITER_HASH 1024u
#define ARBITER_BONDS 32u
#define ARBITER_BOND_NS 10000000000ull

/* A lag in 1/1024 ns: shares of a nanosecond must not get lost thousands of times a second. */
#define LAG_ONE 1024
/* Limits and guarantees in 1/1000 ns: nanoseconds times permille are exact. */
#define MILLI 1000

enum seat_state {
	SEAT_CLOSED,
	SEAT_OPEN,
	SEAT_DRAINING, /* closed, its work not yet known to have ended */
};

/* One tenant on one device. */
struct seat {
	struct member *member;
	struct device *device;
	enum seat_state state;

	bool is_active;     /* wants the device, has it, or drains: in device->active */
	uint32_t active_at; /* index there */
	uint64_t idle_from; /* active, but neither wants nor has the device, since; 0: it does */
	uint64_t left_at;   /* when it last stopped to be active */
	uint64_t away_from; /* when it last had no work, and what its class had used by then */
	uint64_t class_used_ns;

	uint64_t wants_since;
	uint64_t opened_at; /* its turn began */
	uint64_t gate_opened_at;
	bool has_used;           /* was busy in this turn */
	uint64_t idle_since;     /* seen without work; 0: busy */
	uint64_t changed_at;     /* a look saw work begin or end; 0: that time is settled */
	uint64_t unchanged_from; /* without work from then until changed_at, if work began */
	bool gives_way;          /* arbiter_release */
	bool yields;             /* arbiter_yield */
	uint64_t turn_ends_at;   /* OPEN while others wait: its work is to end then; 0: not known */
	bool is_overlapped;      /* opened while the last one ended: not charged until then */
	bool is_offered;         /* OPEN and unused for so long that others were opened, too */
	bool is_corun;

	bool is_unbounded; /* DRAINING: was closed with no bound on what was queued */
	bool has_rest;     /* DRAINING: the caller has predicted the end, */
	uint64_t ends_at;  /* this, which may be off by spread_ns */
	uint64_t spread_ns;
	uint64_t drain_by; /* others co-run from then on */
	uint64_t closed_at, drain_bound_ns;
	bool is_noted;       /* DRAINING: others have co-run with it, and that is in the books */
	uint64_t overdue_at; /* a drain last passed its bound */
	uint32_t n_overdue;  /* and so many since the last that did not */
	uint64_t drained_ns; /* the longest that did not, decaying */

	uint64_t dry_since; /* closed since it was idle, from then on; 0: for another reason */
	uint64_t dry_ns;    /* how long the host lately kept it from submitting, decaying */
	uint64_t wake_ns;   /* from the opening of its gate to its first submission, on average */
	uint32_t wide_us; /* its in-flight window of this turn, if wider than the configured one */

	uint64_t longest_ns;
	uint64_t late_ns; /* arbiter_late */
	uint64_t queued_ns, queued_at;

	uint32_t micro; /* entitlement among those active now, millionths */
	int64_t lag;    /* entitled minus used; LAG_ONE per ns */
	int64_t budget; /* may use this much before it is at its limit; MILLI per ns */
	uint64_t budget_at;
	bool is_waiting;   /* counted in device->n_waiting */
	bool is_throttled; /* at its limit, until the budget is worth a turn */
	int64_t owed;      /* short of its request, while latency tenants go first; MILLI per ns */
	bool is_starved;   /* by so much that it goes before them */

	uint64_t used_ns, waited_ns;
	uint64_t turn_ns; /* of used_ns, since it was opened: what a late word may take back */
	int32_t bucket[ARBITER_BUCKETS];
	uint64_t bucket_now; /* number of the newest bucket */
	int64_t window_ns;   /* their sum */

	uint32_t told_window_us; /* what the caller was told last */
	bool told_company, told_waited;
};

/* A tenant. */
struct member {
	struct member *next; /* of its hash chain */
	arbiter_id id;
	struct spec spec;
	uint64_t devices;  /* mask */
	uint64_t wants;    /* mask: where threads are blocked */
	uint64_t reserved; /* mask: where it is next, see arbiter-gang.c */
	uint32_t n_seats;
	struct seat seat[]; /* in the order of the devices */
};

/* Two tenants that could not be told apart in time, because one's work waits for the other's. */
struct bond {
	arbiter_id a, b;
	uint32_t level;    /* by drains that passed their bound and such that did not */
	uint64_t event_at; /* the last that did */
	uint64_t until;    /* co-run without waiting */
};

struct device {
	struct arbiter *arbiter;
	uint32_t index;
	struct seat **active;
	struct water_share *fill; /* scratch, as many */
	uint32_t n_active;

	struct seat *holder; /* whose turn it is; co-runners are OPEN beside it */
	struct member *reserved;
	uint64_t overlap_until; /* the drain beside an overlapped seat was to end then */
	uint64_t corun_until;   /* then exclusive turns are tried again */
	uint64_t drained_at;    /* somebody's work ended within its bound */
	struct bond bond[ARBITER_BONDS];

	/* Charged to each class so far. */
	uint64_t class_used_ns[SPEC_OPPORTUNISTIC + 1];

	uint64_t accounted_at;
	uint64_t charged_until; /* accounted_at when somebody was last charged */
	uint32_t n_charged;     /* who shared the time accounted last */
	bool is_stale;          /* entitlements: somebody came or went */
	uint32_t n_waiting;     /* who could be opened now, and is not */
	bool is_dirty;          /* decide at the next step */
	uint64_t next_at;       /* decide then though nothing happens */
	uint64_t decided_at;    /* and how often at that instant */
	uint32_t n_decided;

	struct {
		arbiter_id id;
		uint64_t at;
		enum spec_class class;
	} recent[2];         /* last two tenants about: who has company? */
	uint64_t latency_at; /* a latency tenant was about */
	uint32_t n_latency;  /* tenants of class latency, whether they want the device or not */
};

struct arbiter_policy {
	const char *name;
	/* Higher goes first. Among seats of one rank on one device. */
	int64_t (*score)(const struct seat *seat, uint64_t now);
	/*
	 * When `waiting` will be before `holder`, in ns from now, if the holder's work ends in
	 * rest_ns: 0 if it is. The holder's turn has lasted its quantum by then, or is cut there.
	 */
	uint64_t (*passes_ns)(const struct seat *holder, const struct seat *waiting,
		uint64_t rest_ns, uint64_t now);
	bool has_even_turns; /* of one quantum; else in proportion to entitlements */
};

struct arbiter {
	struct arbiter_config config;
	const struct arbiter_policy *policy;
	struct member *hash[ARBITER_HASH];
	uint32_t n_members, n_seats;
	uint64_t epoch;
	uint64_t operations; /* seats looked at, for the test that idle tenants cost nothing */

	struct arbiter_action *queue;
	size_t queue_size, queue_head, queue_n;

	uint32_t n_devices;
	struct device device[];
};

static inline bool is_gang(const struct member *member)
{
	return member->n_seats > 1;
}

static inline bool seat_wants(const struct seat *seat)
{
	return seat->member->wants != 0;
}

/* Has the token: OPEN, and not just offered it beside another. */
static inline bool seat_is_held(const struct seat *seat)
{
	return seat->state == SEAT_OPEN && !seat->is_offered;
}

static inline void device_wake(struct device *device, uint64_t at)
{
	device->next_at = MIN(device->next_at, at);
}

struct seat *member_seat(struct member *member, uint32_t device);
void arbiter_push(struct arbiter *arbiter, const struct arbiter_action *action);

/* arbiter-policy.c */
const struct arbiter_policy *arbiter_policy_find(const char *name);
void arbiter_policy_names(char *ret, size_t size);

/* arbiter-account.c */
void device_account(struct device *device, uint64_t now);
void device_entitle(struct device *device);
void seat_join(struct seat *seat, uint64_t now);
void seat_leave(struct seat *seat, uint64_t now);
/*
 * After its state or its want has changed: joins, or begins to be idle; it leaves a little later.
 */
void seat_update_active(struct seat *seat, uint64_t now);
void device_leave_idle(struct device *device, uint64_t now);
/* The seat's work ended at `end`, which was before what has been charged. */
void seat_refund(struct seat *seat, uint64_t end);
/* What a look at `now` saw begin or end did so at at_ns: charges or refunds the difference. */
void seat_correct(struct seat *seat, uint64_t at_ns, uint64_t now);
void seat_update_limits(struct seat *seat, uint64_t now);
uint64_t seat_window_ns(const struct seat *seat, uint64_t now);
uint64_t seat_quantum_ns(const struct seat *seat); /* longest turn while others wait */
int64_t seat_burst(const struct seat *seat);
/* Sum of entitlements of its class. */
uint64_t class_micro(const struct seat *seat);

/* arbiter-host.c */
/* It has work again, after the device ran dry at `since` in its turn. */
void seat_note_dry(struct seat *seat, uint64_t since, uint64_t now);
/* Its first submission of this turn. */
void seat_note_woken(struct seat *seat, uint64_t now);
/* A turn begins: what was learned counts a little less. */
void seat_fade(struct seat *seat);
/* Its in-flight window in a turn of turn_ns: the configured one at least. */
uint32_t seat_wide_us(const struct seat *seat, uint64_t turn_ns);
/* Its gate is to be opened so much earlier than on a quiet host. */
uint64_t seat_lead_ns(const struct seat *seat);
/* Is the end of that drain known well enough for a gate that opens lead_ns earlier? */
bool seat_is_end_known(const struct seat *drains, uint64_t lead_ns);

/* arbiter-turn.c */
int seat_rank(const struct seat *seat);
/* Its holder has the token no more: another seat that is held has it, or none. */
void device_pass_on(struct device *device);
void device_decide(struct device *device, uint64_t now);
void member_open(struct member *member, bool corun, uint64_t now);
void member_close(struct member *member, uint64_t now);

enum clearance {
	CLEAR_NOT,     /* wait */
	CLEAR_YES,     /* the device is empty, or about to be */
	CLEAR_OVERLAP, /* the last one's work is about to end */
	CLEAR_CORUN,   /* open beside what still runs */
	CLEAR_STUCK,   /* what still runs has passed its bound: co-run with it */
};
/* May `seat` open on its device beside what drains there? Sets the device's next_at if not. */
enum clearance device_clearance(struct device *device, const struct seat *seat, uint64_t now);
/* Opens the gates of those whose drain has passed its bound, and remembers. */
void device_reopen_stuck(struct device *device, const struct seat *next, uint64_t now);
/* The longest that its drain may take in all. */
uint64_t seat_drain_max_ns(const struct seat *seat);
/* Its drain has ended: within its bound, unless that is in the books already. */
void seat_drained(struct seat *seat, uint64_t now);
/* The member has gone. */
void bonds_forget(struct device *device, const struct member *member);

/* arbiter-gang.c */
bool gang_may_compete(const struct seat *seat);
void gang_reserve(struct seat *seat, uint64_t now);
void gang_unreserve(struct member *member);
bool gang_is_complete(const struct member *member);
void gang_try_open(struct member *member, uint64_t now);
bool gang_is_idle(const struct member *member, uint64_t since);

#endif
