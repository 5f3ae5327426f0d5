/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The token: see token.h.
 *
 * Closing: store CLOSED into every page, issue one membarrier for all of them, then read in_launch.
 * Each thread either saw the closed gate or is seen here (page.h). Opening: store OPEN, full fence,
 * then read `want`. A thread that blocks raises `want` before its last look at the gate.
 *
 * Everything read from an up page is a hint: counts are bounded by the page's size, times by
 * HINT_MAX_NS, and a false value moves only its own tenant's turn.
 */
#include "agent/token.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/device.h"
#include "agent/usage.h"
#include "base/cleanup.h"
#include "base/log.h"

#define LOOK_DRAIN_NS (100 * NSEC_PER_USEC)
#define LOOK_DRAIN_MIN_NS (25 * NSEC_PER_USEC)
#define LOOK_IDLE_NS (250 * NSEC_PER_USEC)
/* Time until the next look when nothing is in flight, because the tenant is about to be idle. */
#define LOOK_IDLE_MIN_NS (100 * NSEC_PER_USEC)
#define LOOK_BUSY_MAX_NS (1 * NSEC_PER_MSEC) /* longest time between looks at work in flight */
/*
 * Time from the opening of a gate until the program's work is on the device: the daemon's wake-up,
 * the program's wake-up, a launch (measured).
 */
#define OPEN_LEAD_NS (180 * NSEC_PER_USEC)
#define LATE_SPREADS 4 /* a prediction's error rarely exceeds the mean error by this factor */
#define HINT_MAX_NS (10 * NSEC_PER_SEC)
#define HINT_SAVES_NS (220 * NSEC_PER_USEC) /* a look sees work begin or end at most this late */
#define TAIL_MIN_NS (1 * NSEC_PER_MSEC)
#define TAIL_MAX_NS (250 * NSEC_PER_MSEC)
#define ACTIONS 64
#define REST_UNKNOWN UINT64_MAX

TAILQ_HEAD(active_list, tenant_device);

struct token {
	struct agent *agent;
	struct loop_timer timer;
	struct active_list active; /* tenant-devices that are open or draining */
	uint64_t next_decision_ns;
	bool is_touched;
	bool has_membarrier;
	bool is_open_for_all; /* DIVVY_GATE=off */
};

/* One look at a process's page. */
struct look {
	bool is_in_launch, is_unmarked, is_moving;
	uint64_t unfinished; /* markers issued and not done */
	uint64_t done;       /* sum of all done markers: changes when work ends */
	uint64_t longest_ns, rest_ns, spread_ns;
	uint64_t queued_at_ns, ends_ns; /* time of the last marker, and predicted end of its work */
	uint32_t want;
};

static int membarrier_all(void)
{
	return (int)syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

static void wake_all(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- looks at the pages ---- */

static uint64_t hint_ns(_Atomic uint64_t *p)
{
	return MIN(atomic_load_explicit(p, memory_order_relaxed), HINT_MAX_NS);
}

/* Device time in flight: the client's prediction at its last marker, minus the elapsed time. */
static uint64_t token_estimate_drain(
	struct page_up *up, uint64_t unfinished, uint64_t began, uint64_t now)
{
	uint64_t queued = hint_ns(&up->queued_ns);
	uint64_t segment = MAX(hint_ns(&up->segment_ns), hint_ns(&up->longest_ns));
	uint64_t at = atomic_load_explicit(&up->queued_at_ns, memory_order_relaxed);
	/* `began` is the end of the other tenants' work: this work did not run before. */
	uint64_t passed = clock_since_ns(now, MAX(at, began));
	uint64_t rest = clock_since_ns(queued, passed);

	if (!unfinished)
		return 0;
	/* Limits the client's prediction to the time that the unfinished markers can take. */
	if (segment && rest > unfinished * segment)
		rest = unfinished * segment;
	/* Without a prediction, or when the predicted time has passed, the rest is unknown. */
	return rest ? MIN(rest, HINT_MAX_NS) : REST_UNKNOWN;
}

static struct look token_read_process(struct process_device *pd, uint64_t began, uint64_t now)
{
	struct page_up *up = pd->up;
	uint32_t lines = MIN(atomic_load_explicit(&up->lines, memory_order_acquire), PAGE_LINES);
	uint32_t slots = MIN(atomic_load_explicit(&up->slots, memory_order_acquire), PAGE_SLOTS);
	struct look look = {.want = atomic_load_explicit(&up->want, memory_order_relaxed)};
	uint64_t submitted = 0, flushed;

	for (uint32_t i = 0; i < lines; i++) {
		/*
		 * Reads in_launch first. If in_launch is 0, `submitted` contains all submissions of
		 * that thread: the acquire pairs with the release by which the thread clears
		 * in_launch.
		 */
		if (atomic_load_explicit(&up->line[i].in_launch, memory_order_acquire))
			look.is_in_launch = true;
		submitted += atomic_load_explicit(&up->line[i].submitted, memory_order_acquire);
	}
	flushed = atomic_load_explicit(&up->flushed, memory_order_acquire);
	for (uint32_t i = 0; i < slots; i++) {
		uint32_t done = atomic_load_explicit(&up->done[i], memory_order_acquire);
		uint32_t issued = atomic_load_explicit(&up->issued[i], memory_order_acquire);

		/* done is read first: issued may have grown since, but is never below done. */
		if (issued != done)
			look.unfinished += MIN(issued - done, 65536u);
		look.done += done;
	}
	look.is_moving = submitted != pd->submitted;
	pd->submitted = submitted;
	look.is_unmarked = submitted != flushed;
	if (!look.unfinished && !look.is_unmarked && !look.is_in_launch &&
		clock_since_ns(now, pd->unfinished_ns) <= PAGE_DRAINED_NS) {
		atomic_store_explicit(&pd->down->drained_began_ns, began, memory_order_relaxed);
		/* Pairs with the client's acquire, which then finds this drained_began_ns. */
		atomic_store_explicit(&pd->down->drained_ns, now, memory_order_release);
	}
	pd->unfinished_ns = look.unfinished ? now : 0;
	look.longest_ns = hint_ns(&up->longest_ns);
	look.spread_ns = hint_ns(&up->spread_ns);
	look.rest_ns = token_estimate_drain(up, look.unfinished, began, now);
	look.queued_at_ns = MIN(atomic_load_explicit(&up->queued_at_ns, memory_order_acquire), now);
	look.ends_ns = clock_add_ns(MAX(look.queued_at_ns, began), hint_ns(&up->queued_ns));
	return look;
}

static void ask_for_flush(
	struct process *p, struct process_device *pd, uint32_t device, uint64_t now)
{
	struct msg_device_note note = {.device = device};

	pd->is_flush_asked = true;
	pd->flush_sum = pd->submitted;
	pd->flush_at_ns = now;
	atomic_fetch_add_explicit(&pd->down->flush, 1, memory_order_release);
	if (!p->conn)
		return;
	msg_head_init(&note.head, MSG_FLUSH, sizeof(note), 0);
	client_send(p->conn, &note, sizeof(note));
}

/*
 * Handles submissions behind the last marker. The client marks them on request. A frozen client
 * does not. After the time that its longest submission could take, the daemon considers these
 * submissions complete.
 */
static bool is_tail_open(struct process *p, struct process_device *pd, struct look *look,
	const struct tenant_device *td, uint64_t now)
{
	uint64_t bound;

	if (!look->is_unmarked || (pd->presumed && pd->presumed == pd->submitted))
		return false;
	/*
	 * Behind a closed gate no more submissions come, so the daemon need not wait until
	 * `submitted` stops growing.
	 */
	if ((look->is_moving && td->is_open) || look->is_in_launch)
		return true;
	if (!pd->is_flush_asked || pd->flush_sum != pd->submitted) {
		ask_for_flush(p, pd, td->device->index, now);
		return true;
	}
	bound = MAX(4ull * td->window_us * NSEC_PER_USEC, look->longest_ns);
	bound = MIN(MAX(bound, TAIL_MIN_NS), TAIL_MAX_NS);
	if (look->unfinished || clock_since_ns(now, pd->flush_at_ns) < bound)
		return true;
	pd->presumed = pd->submitted;
	return false;
}

struct view {
	bool is_busy, is_wanting;
	bool has_moved; /* work was submitted since the last look */
	bool is_known;  /* a marker follows all work in flight */
	uint64_t done;
	uint64_t longest_ns, rest_ns, spread_ns;
	uint64_t queued_at_ns, ends_ns; /* of the process with the latest predicted end */
};

static struct view look_at_tenant(struct tenant_device *td, uint64_t now)
{
	struct view view = {.is_known = true};
	uint64_t sum_ns = 0;
	struct process *p;

	LIST_FOREACH(p, &td->tenant->processes, of_tenant) {
		struct process_device *pd = &p->devices[td->at];
		struct look look;
		bool is_open;

		if (!pd->up)
			continue;
		look = token_read_process(pd, td->began_ns, now);
		is_open = is_tail_open(p, pd, &look, td, now);
		if (look.is_in_launch || look.unfinished || is_open)
			view.is_busy = true;
		if (look.is_moving)
			view.has_moved = true;
		if (look.is_in_launch || is_open)
			view.is_known = false;
		view.done += look.done;
		if (look.want)
			view.is_wanting = true;
		view.longest_ns = MAX(view.longest_ns, look.longest_ns);
		view.spread_ns = MAX(view.spread_ns, look.spread_ns);
		/*
		 * Processes are different contexts that share the device's time. Each process
		 * predicts the time that its work takes beside the work of the other processes. The
		 * sum gives the latest possible end.
		 */
		sum_ns = clock_add_ns(sum_ns, look.rest_ns);
		view.rest_ns = MAX(view.rest_ns, look.rest_ns);
		if (look.ends_ns >= view.ends_ns) {
			view.ends_ns = look.ends_ns;
			view.queued_at_ns = look.queued_at_ns;
		}
		if (look.is_in_launch || is_open)
			view.rest_ns = REST_UNKNOWN;
	}
	view.spread_ns = clock_add_ns(view.spread_ns, clock_since_ns(sum_ns, view.rest_ns));
	return view;
}

static void token_report_want(struct tenant_device *td, bool does_want, uint64_t now)
{
	struct token *token = td->tenant->agent->token;

	/*
	 * A closed tenant's want is reported again and again, because the arbiter forgets a want
	 * when the gate opens.
	 */
	if (td->does_want == does_want && (td->is_open || !does_want))
		return;
	td->does_want = does_want;
	arbiter_want(token->agent->arbiter, td->tenant->id, td->device->index, does_want, now);
	token->is_touched = true;
}

static uint32_t flags_of(const struct tenant_device *td)
{
	uint32_t flags = td->flags;

	if (td->tenant->spec.memory_policy == SPEC_MEMORY_WAIT)
		flags |= PAGE_MEM_RPC;
	if (td->tenant->spec.memory_policy == SPEC_MEMORY_SWAP)
		flags |= PAGE_MEM_RPC | PAGE_MEM_SWAP;
	return flags;
}

/* Stores a turn's values into a page, except the gate. */
static void store_turn(const struct tenant_device *td, struct page_down *down)
{
	atomic_store_explicit(&down->window_us, td->window_us, memory_order_relaxed);
	atomic_store_explicit(&down->turn_ends_ns, td->turn_ends_ns, memory_order_relaxed);
	atomic_store_explicit(&down->began_ns, td->began_ns, memory_order_relaxed);
	atomic_store_explicit(&down->flags, flags_of(td), memory_order_release);
}

static void store_all(const struct tenant_device *td)
{
	struct process *p;

	LIST_FOREACH(p, &td->tenant->processes, of_tenant)
		if (p->devices[td->at].down)
			store_turn(td, p->devices[td->at].down);
}

/*
 * Call when a tenant has left the device. If only one tenant is there now, it has the device alone
 * since `now`.
 */
static void device_left(struct token *token, const struct device *device, uint64_t now)
{
	struct tenant_device *td, *only = NULL;

	TAILQ_FOREACH(td, &token->active, active) {
		if (td->device != device)
			continue;
		if (only)
			return;
		only = td;
	}
	if (!only || only->began_ns)
		return;
	only->began_ns = now;
	store_all(only);
}

static void stop_draining(struct tenant_device *td, uint64_t now)
{
	struct token *token = td->tenant->agent->token;

	if (!td->is_draining)
		return;
	td->is_draining = false;
	if (td->is_open)
		return;
	TAILQ_REMOVE(&token->active, td, active);
	device_left(token, td->device, now);
}

static uint64_t next_look(const struct view *view)
{
	if (!view->is_busy)
		return LOOK_IDLE_MIN_NS;
	if (view->rest_ns == REST_UNKNOWN)
		return LOOK_IDLE_NS;
	return MIN(MAX(view->rest_ns, LOOK_IDLE_NS), LOOK_BUSY_MAX_NS);
}

/*
 * Reports work that began or ended since the last look. The client's page gives the time: a hint,
 * which shortens the charged time by at most HINT_SAVES_NS. After a time without looks (see
 * arbiter_watches()) the page says too little. The work then counts as begun or ended at the time
 * of the look.
 */
static void token_observe_device(struct tenant_device *td, const struct view *view, uint64_t now)
{
	struct arbiter *arbiter = td->tenant->agent->arbiter;
	const uint32_t device = td->device->index;
	const arbiter_id id = td->tenant->id;
	const uint64_t latest = MIN(td->looked_ns + HINT_SAVES_NS, now);
	const uint64_t begin = MIN(MAX(view->queued_at_ns, td->looked_ns), latest);
	const uint64_t earliest = MAX(begin, clock_since_ns(now, HINT_SAVES_NS));
	const bool is_close = clock_since_ns(now, td->looked_ns) <= 2 * LOOK_BUSY_MAX_NS;

	/* The device was used since the last look and is idle now: reports both changes. */
	if (view->has_moved && !view->is_busy) {
		arbiter_observe(arbiter, id, device, true, view->longest_ns, 0, now);
		if (is_close)
			arbiter_observe_at(arbiter, id, device, begin, now);
	}
	arbiter_observe(arbiter, id, device, view->is_busy, view->longest_ns,
		view->rest_ns == REST_UNKNOWN ? 0 : view->rest_ns, now);
	if (is_close)
		arbiter_observe_at(arbiter, id, device,
			view->is_busy ? begin : MIN(MAX(view->ends_ns, earliest), now), now);
}

/* Reports one look to the arbiter, and sets the time of the next look. */
static void token_look_device(struct tenant_device *td, uint64_t now)
{
	struct token *token = td->tenant->agent->token;
	struct arbiter *arbiter = token->agent->arbiter;
	uint32_t device = td->device->index;
	arbiter_id id = td->tenant->id;
	struct view view = look_at_tenant(td, now);

	token->is_touched = true;
	token_report_want(td, view.is_wanting, now);
	if (td->is_draining) {
		if (view.is_busy) {
			arbiter_draining(arbiter, id, device,
				view.rest_ns == REST_UNKNOWN
					? REST_UNKNOWN
					: clock_since_ns(view.rest_ns, OPEN_LEAD_NS),
				view.spread_ns, now);
			arbiter_drain_seen(
				arbiter, id, device, view.done != td->done, view.is_known, now);
			td->done = view.done;
			td->look_ns = now +
				MAX(MIN(view.rest_ns / 2, LOOK_DRAIN_NS), LOOK_DRAIN_MIN_NS);
			return;
		}
		arbiter_drained(arbiter, id, device, now, now);
		stop_draining(td, now);
	}
	/*
	 * The tenant should yield before a submission if the predictions put more than half of it
	 * after the turn's end.
	 */
	arbiter_late(arbiter, id, device, view.longest_ns / 2 + LATE_SPREADS * view.spread_ns);
	if (td->is_open)
		token_observe_device(td, &view, now);
	td->looked_ns = now;
	td->look_ns = td->is_open && arbiter_watches(arbiter, device) ? now + next_look(&view)
								      : CLOCK_NEVER;
}

/* ---- carrying out the arbiter's actions ---- */

static void set_window(struct tenant_device *td, const struct arbiter_action *action)
{
	td->window_us = action->window_us;
	td->flags = (action->contended ? PAGE_COMPANY : 0) | (action->waited ? PAGE_WAITED : 0);
	store_all(td);
}

static void token_report_turn_ends(struct tenant_device *td)
{
	uint64_t at = arbiter_turn_ends(
		td->tenant->agent->arbiter, td->tenant->id, td->device->index);

	if (at == td->turn_ends_ns)
		return;
	td->turn_ends_ns = at;
	store_all(td);
}

static void open_page(struct process_device *pd)
{
	atomic_fetch_add_explicit(&pd->down->grant, 1, memory_order_relaxed);
	atomic_store_explicit(&pd->down->gate, GATE_OPEN, memory_order_seq_cst);
	/* Pairs with the client's increment of want before its last look at the gate. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!pd->up || atomic_load_explicit(&pd->up->want, memory_order_relaxed))
		wake_all(&pd->down->gate);
}

/* Whether the device runs another tenant's work, or may run it. */
static bool has_others(struct token *token, const struct tenant_device *td)
{
	const struct tenant_device *other;

	TAILQ_FOREACH(other, &token->active, active)
		if (other != td && other->device == td->device)
			return true;
	return false;
}

static void token_open_gates(struct tenant_device *td, const struct arbiter_action *action)
{
	struct token *token = td->tenant->agent->token;
	struct process *p;

	td->began_ns = has_others(token, td) ? 0 : clock_now_ns();
	set_window(td, action);
	if (!td->is_open && !td->is_draining)
		TAILQ_INSERT_TAIL(&token->active, td, active);
	td->is_open = true;
	/* If the gate opened again during a drain, the daemon stops awaiting the drain's end. */
	td->is_draining = false;
	LIST_FOREACH(p, &td->tenant->processes, of_tenant)
		if (p->devices[td->at].down)
			open_page(&p->devices[td->at]);
	td->looked_ns = clock_now_ns();
	td->look_ns = td->looked_ns + LOOK_IDLE_NS;
	usage_wake(token->agent);
}

static void close_gates(struct tenant_device *td, uint64_t now)
{
	struct process *p;

	if (!td->is_open)
		return;
	td->is_open = false;
	td->is_draining = true;
	td->turn_ends_ns = 0;
	td->closed_ns = td->look_ns = now;
	LIST_FOREACH(p, &td->tenant->processes, of_tenant)
		if (p->devices[td->at].down)
			atomic_store_explicit(
				&p->devices[td->at].down->gate, GATE_CLOSED, memory_order_seq_cst);
}

static struct tenant_device *token_find_device(struct agent *agent, arbiter_id id, uint32_t device)
{
	struct tenant *t = tenant_by_id(agent, id);

	for (uint32_t i = 0; t && i < t->n; i++)
		if (t->devices[i].device->index == device)
			return &t->devices[i];
	return NULL;
}

/* Returns whether a gate was closed. */
static bool token_carry_out(struct token *token, const struct arbiter_action *action, uint64_t now)
{
	struct tenant_device *td = token_find_device(token->agent, action->tenant, action->device);

	if (!td)
		return false;
	switch (action->type) {
	case ARBITER_OPEN: token_open_gates(td, action); return false;
	case ARBITER_CLOSE:
		if (token->is_open_for_all)
			return false;
		close_gates(td, now);
		return true;
	case ARBITER_WINDOW:
		set_window(td, action);
		if (td->is_open && arbiter_watches(token->agent->arbiter, action->device))
			td->look_ns = MIN(td->look_ns, now + LOOK_IDLE_NS);
		return false;
	}
	return false;
}

static void token_arm_timer(struct token *token)
{
	uint64_t next = token->next_decision_ns;
	struct tenant_device *td;

	TAILQ_FOREACH(td, &token->active, active)
		next = MIN(next, td->look_ns);
	if (next == CLOCK_NEVER)
		loop_cancel_timer(&token->timer);
	else
		loop_set_timer(&token->timer, next);
}

static void look_where_due(struct token *token, uint64_t now)
{
	struct tenant_device *td, *next;

	for (td = TAILQ_FIRST(&token->active); td; td = next) {
		next = TAILQ_NEXT(td, active);
		if (td->look_ns <= now)
			token_look_device(td, now);
	}
}

/* Starts looks at holders of a device for which a tenant waits now. */
static void watch_holders(struct token *token, uint64_t now)
{
	struct tenant_device *td;

	TAILQ_FOREACH(td, &token->active, active)
		if (td->look_ns == CLOCK_NEVER &&
			arbiter_watches(token->agent->arbiter, td->device->index))
			td->look_ns = now;
}

void token_step(struct agent *agent)
{
	struct token *token = agent->token;
	struct arbiter_action actions[ACTIONS];
	struct tenant_device *td;
	/* Each round has less to do; the limit guards against a programming error. */
	int rounds = 16;

	if (!token->is_touched)
		return;
	while (token->is_touched && rounds--) {
		bool has_closed = false;
		uint64_t now;
		size_t n;

		token->is_touched = false;
		do {
			now = clock_now_ns();
			n = arbiter_step(
				agent->arbiter, now, actions, ACTIONS, &token->next_decision_ns);
			for (size_t i = 0; i < n; i++)
				has_closed |= token_carry_out(token, &actions[i], now);
		} while (n == ACTIONS);
		if (has_closed && token->has_membarrier && membarrier_all() < 0)
			/* Without membarrier() a closing gate may let one more launch pass. */
			token->has_membarrier = false;
		watch_holders(token, now);
		look_where_due(token, clock_now_ns());
	}
	TAILQ_FOREACH(td, &token->active, active)
		token_report_turn_ends(td);
	token_arm_timer(token);
}

static void token_on_timer(struct loop_timer *timer, uint64_t now)
{
	struct token *token = timer->data;

	token->is_touched = true;
	look_where_due(token, clock_now_ns());
}

/* ---- events ---- */

void token_touch(struct agent *agent)
{
	agent->token->is_touched = true;
}

void token_want(struct process *p, uint32_t at)
{
	struct tenant_device *td = &p->tenant->devices[at];

	usage_wake(p->agent);
	/* Reports a repeated want too: the gate may have opened and closed since. */
	td->does_want = true;
	arbiter_want(p->agent->arbiter, p->tenant->id, td->device->index, true, clock_now_ns());
	token_touch(p->agent);
}

void token_release(struct process *p, uint32_t at)
{
	struct tenant_device *td = &p->tenant->devices[at];
	uint64_t now = clock_now_ns();
	struct view view;

	if (!td->is_open)
		return;
	view = look_at_tenant(td, now);
	if (view.is_busy)
		return;
	if (view.has_moved) /* the work has ended since the last look */
		arbiter_observe(p->agent->arbiter, p->tenant->id, td->device->index, true,
			view.longest_ns, 0, now);
	arbiter_release(p->agent->arbiter, p->tenant->id, td->device->index, now);
	/*
	 * A latency tenant keeps the device for the hold-off time: the daemon must see new work
	 * before that time ends.
	 */
	td->look_ns = MIN(td->look_ns, now + LOOK_IDLE_MIN_NS);
	token_touch(p->agent);
}

void token_yield(struct process *p, uint32_t at)
{
	struct tenant_device *td = &p->tenant->devices[at];

	arbiter_yield(p->agent->arbiter, p->tenant->id, td->device->index);
	token_touch(p->agent);
}

void token_process_added(struct process *p)
{
	struct token *token = p->agent->token;

	for (uint32_t i = 0; i < p->tenant->n; i++) {
		struct tenant_device *td = &p->tenant->devices[i];
		struct process_device *pd = &p->devices[i];

		store_turn(td, pd->down);
		if (td->is_open || token->is_open_for_all)
			open_page(pd);
		if (atomic_load_explicit(&pd->up->want, memory_order_relaxed))
			token_want(p, i);
		/*
		 * After a restart the process may have work in flight that the former daemon
		 * allowed. The first look at the page finds this work; until then no other tenant
		 * waits for it.
		 */
		pd->submitted = 0;
	}
	token->is_touched = true;
}

void token_process_exited(struct process *p)
{
	struct token *token = p->agent->token;

	/* The process is off its tenant's list already: these looks cover the other processes. */
	for (uint32_t i = 0; i < p->tenant->n; i++) {
		struct tenant_device *td = &p->tenant->devices[i];

		if (td->is_open || td->is_draining) {
			td->look_ns = 0;
			if (!p->tenant->n_processes && td->is_open)
				arbiter_release(token->agent->arbiter, p->tenant->id,
					td->device->index, clock_now_ns());
		} else if (td->does_want) {
			struct view view = look_at_tenant(td, clock_now_ns());

			token_report_want(td, view.is_wanting, clock_now_ns());
		}
	}
	look_where_due(token, clock_now_ns());
	token->is_touched = true;
}

void token_tenant_removed(struct tenant *t)
{
	struct token *token = t->agent->token;

	for (uint32_t i = 0; i < t->n; i++) {
		struct tenant_device *td = &t->devices[i];

		if (td->is_open || td->is_draining)
			TAILQ_REMOVE(&token->active, td, active);
		td->is_open = td->is_draining = false;
	}
}

void token_tenant_changed(struct tenant *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		store_all(&t->devices[i]);
}

bool token_sample(struct agent *agent, uint64_t now)
{
	struct token *token = agent->token;
	struct tenant_device *td, *next;
	bool is_any = false;

	for (td = TAILQ_FIRST(&token->active); td; td = next) {
		next = TAILQ_NEXT(td, active);
		is_any = true;
		if (td->look_ns == CLOCK_NEVER)
			token_look_device(td, now);
	}
	return is_any;
}

int token_new(struct agent *agent, struct error *err)
{
	struct token *token = calloc(1, sizeof(*token));
	int r;

	if (!token)
		return fail(err, ENOMEM, "out of memory");
	token->agent = agent;
	token->is_open_for_all = agent->options.is_gate_off;
	token->next_decision_ns = CLOCK_NEVER;
	TAILQ_INIT(&token->active);
	token->timer.data = token;
	r = loop_add_timer(agent->loop, &token->timer, token_on_timer);
	if (r < 0) {
		free(token);
		return fail_errno(err, -r, "start a timer");
	}
	token->has_membarrier = membarrier_all() == 0;
	if (!token->has_membarrier)
		log_warn("the kernel refuses membarrier: each thread may submit one launch "
			 "after its gate closes");
	agent->token = token;
	return 0;
}

void token_free(struct agent *agent)
{
	if (!agent->token)
		return;
	loop_remove_timer(&agent->token->timer);
	free(agent->token);
	agent->token = NULL;
}
