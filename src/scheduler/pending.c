/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps each queue item in exactly one state, and chooses the next item by rank and queue. Each
 * line (pending.h) has a heap of its active items by rank. All items that back off are in one heap
 * by time. UNSCHEDULABLE items are in one list, in the order in which they became unschedulable. A
 * second heap of each line, `waiting`, holds the items that an event may make active early.
 * pending_reserve_entry() makes room in all heaps when an item enters a line, so a change of state
 * cannot fail. An item knows its index in its heaps and is removed in logarithmic time.
 */
#include "scheduler/pending.h"

#include <errno.h>
#include <stdlib.h>

#include <utlist.h>

#define HASH_NONFATAL_OOM 1

#include "base/array.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/heap.h"

enum state { ACTIVE, BACKING_OFF, UNSCHEDULABLE, OUT, N_STATES };

struct entry {
	UT_hash_handle hh;
	/* links of the list of UNSCHEDULABLE items; the item that waited longest comes first */
	struct entry *prev, *next;
	struct pending_rank rank;
	enum state state;
	/*
	 * end of the pause; a wake-up of an unschedulable item before this time backs off until
	 * then
	 */
	uint64_t until_ns;
	uint32_t tries;
	/* Indexes of the item: in the heap of its state, and in the heap `waiting` of its line. */
	uint32_t at_state, at_waiting;
	bool has_failed; /* the last try failed with an error, so no event ends the pause early */
	bool is_doubted; /* see pending_doubt_all() */
	struct pending_key key;
	char name[]; /* text of key.name */
};

HEAP_HEAD(active, struct entry *);
HEAP_HEAD(waiting, struct entry *);
HEAP_HEAD(backing_off, struct entry *);

struct line {
	struct active active;
	/* items that may_be_hurried(): an event may make them active early */
	struct waiting waiting;
	uint32_t n; /* items in any state */
};

struct pending {
	struct entry *entries[PENDING_KINDS]; /* hash by name */
	struct line *lines;
	uint32_t n_lines, lines_room;
	struct pending_queues known;
	struct backing_off backing_off;
	struct entry *unschedulable;
	uint32_t n_of[N_STATES];
	struct rand *rand;
};

/* ---- heaps ---- */

static bool is_first(const struct entry *a, const struct entry *b)
{
	int order;

	if (a->rank.priority != b->rank.priority)
		return a->rank.priority > b->rank.priority;
	if (a->rank.gpu_priority != b->rank.gpu_priority)
		return a->rank.gpu_priority > b->rank.gpu_priority;
	if (a->rank.created_ns != b->rank.created_ns)
		return a->rank.created_ns < b->rank.created_ns;
	order = strcmp(a->name, b->name);
	return order ? order < 0 : a->key.kind < b->key.kind;
}

static bool is_sooner(const struct entry *a, const struct entry *b)
{
	return a->until_ns != b->until_ns ? a->until_ns < b->until_ns : is_first(a, b);
}

static void set_at_state(struct entry *e, uint32_t at)
{
	e->at_state = at;
}

static void set_at_waiting(struct entry *e, uint32_t at)
{
	e->at_waiting = at;
}

HEAP_DEFINE(active, struct entry *, is_first, set_at_state)
HEAP_DEFINE(waiting, struct entry *, is_first, set_at_waiting)
HEAP_DEFINE(backing_off, struct entry *, is_sooner, set_at_state)

/* ---- states ---- */

static bool may_be_hurried(const struct entry *e)
{
	return !e->has_failed && (e->state == BACKING_OFF || e->state == UNSCHEDULABLE);
}

static void leave_state(struct pending *p, struct entry *e)
{
	if (may_be_hurried(e))
		waiting_remove(&p->lines[e->rank.queue].waiting, e->at_waiting);
	p->n_of[e->state]--;
	if (e->state == ACTIVE)
		active_remove(&p->lines[e->rank.queue].active, e->at_state);
	else if (e->state == BACKING_OFF)
		backing_off_remove(&p->backing_off, e->at_state);
	else if (e->state == UNSCHEDULABLE)
		DL_DELETE(p->unschedulable, e);
}

static void enter_state(struct pending *p, struct entry *e, enum state state)
{
	e->state = state;
	p->n_of[state]++;
	if (state == ACTIVE)
		active_add(&p->lines[e->rank.queue].active, e);
	else if (state == BACKING_OFF)
		backing_off_add(&p->backing_off, e);
	else if (state == UNSCHEDULABLE)
		DL_APPEND(p->unschedulable, e);
	if (may_be_hurried(e))
		waiting_add(&p->lines[e->rank.queue].waiting, e);
}

static void pending_set_state(struct pending *p, struct entry *e, enum state state)
{
	leave_state(p, e);
	enter_state(p, e, state);
}

static struct entry *pending_find_entry(const struct pending *p, struct pending_key key)
{
	struct entry *e;

	HASH_FIND_STR(p->entries[key.kind], key.name, e);
	return e;
}

int pending_new(struct rand *rand, const struct pending_queues *lines, struct pending **ret)
{
	struct pending *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->known = *lines;
	p->rand = rand;
	*ret = p;
	return 0;
}

void pending_free(struct pending *p)
{
	struct entry *e, *next;

	if (!p)
		return;
	for (int kind = 0; kind < PENDING_KINDS; kind++)
		HASH_ITER(hh, p->entries[kind], e, next) {
			HASH_DEL(p->entries[kind], e);
			free(e);
		}
	for (uint32_t i = 0; i < p->n_lines; i++) {
		free(p->lines[i].active.v);
		free(p->lines[i].waiting.v);
	}
	free(p->lines);
	free(p->backing_off.v);
	free(p);
}

/* Reserves space for one more item, so that a change of state cannot fail. */
static int pending_reserve_entry(struct pending *p, uint32_t at)
{
	const size_t n = HASH_COUNT(p->entries[PENDING_POD]) +
		HASH_COUNT(p->entries[PENDING_GANG]) + 1ul;
	struct line *line;
	int r;

	if (at >= PENDING_QUEUES_MAX)
		return -ENOMEM;
	r = array_grow(&p->lines, &p->lines_room, at + 1ul, sizeof(*p->lines));
	while (r == 0 && p->n_lines <= at)
		p->lines[p->n_lines++] = (struct line){.n = 0};
	if (r < 0)
		return r;
	line = &p->lines[at];
	if (active_reserve(&line->active, line->n + 1ul) < 0 ||
		waiting_reserve(&line->waiting, line->n + 1ul) < 0)
		return -ENOMEM;
	return backing_off_reserve(&p->backing_off, n);
}

/* Sets the item's rank, which may move the item to another line. */
static int set_rank(struct pending *p, struct entry *e, const struct pending_rank *rank)
{
	int r = rank->queue == e->rank.queue ? 0 : pending_reserve_entry(p, rank->queue);

	if (r < 0)
		return r;
	leave_state(p, e);
	p->lines[e->rank.queue].n--;
	e->rank = *rank;
	p->lines[e->rank.queue].n++;
	enter_state(p, e, e->state);
	return 0;
}

int pending_add(struct pending *p, struct pending_key key, const struct pending_rank *rank)
{
	struct entry *e = pending_find_entry(p, key);
	const size_t n = strlen(key.name);

	if (e) {
		e->is_doubted = false;
		return set_rank(p, e, rank);
	}
	e = calloc(1, sizeof(*e) + n + 1);
	if (!e || pending_reserve_entry(p, rank->queue) < 0) {
		free(e);
		return -ENOMEM;
	}
	memcpy(e->name, key.name, n);
	e->key = (struct pending_key){key.kind, e->name};
	e->rank = *rank;
	HASH_ADD_KEYPTR(hh, p->entries[key.kind], e->name, n, e);
	if (!e->hh.tbl) {
		free(e);
		return -ENOMEM;
	}
	p->lines[rank->queue].n++;
	enter_state(p, e, ACTIVE);
	return 0;
}

static void pending_remove_entry(struct pending *p, struct entry *e)
{
	leave_state(p, e);
	p->lines[e->rank.queue].n--;
	HASH_DEL(p->entries[e->key.kind], e);
	free(e);
}

void pending_remove(struct pending *p, struct pending_key key)
{
	struct entry *e = pending_find_entry(p, key);

	if (e)
		pending_remove_entry(p, e);
}

void pending_doubt_all(struct pending *p)
{
	for (int kind = 0; kind < PENDING_KINDS; kind++)
		for (struct entry *e = p->entries[kind]; e; e = e->hh.next)
			e->is_doubted = true;
}

void pending_remove_doubted(struct pending *p)
{
	struct entry *e, *next;

	for (int kind = 0; kind < PENDING_KINDS; kind++)
		for (e = p->entries[kind]; e; e = next) {
			next = e->hh.next;
			if (e->is_doubted)
				pending_remove_entry(p, e);
		}
}

bool pending_has(const struct pending *p, struct pending_key key)
{
	return pending_find_entry(p, key) != NULL;
}

/*
 * Returns the next active item: by rank the first of two items, which are the first item of the
 * line that is_before() prefers and the first item of line 0. NULL: no item is active.
 */
static struct entry *first_active(const struct pending *p)
{
	uint32_t best = 0;

	if (!p->n_of[ACTIVE])
		return NULL;
	for (uint32_t i = 1; i < p->n_lines; i++)
		if (p->lines[i].active.n && (!best || p->known.is_before(p->known.arg, i, best)))
			best = i;
	if (!best)
		return p->lines[0].active.v[0];
	if (p->lines[0].active.n && is_first(p->lines[0].active.v[0], p->lines[best].active.v[0]))
		best = 0;
	return p->lines[best].active.v[0];
}

const struct pending_key *pending_next(struct pending *p, uint64_t now_ns)
{
	struct entry *e;

	while (p->backing_off.n && p->backing_off.v[0]->until_ns <= now_ns)
		pending_set_state(p, p->backing_off.v[0], ACTIVE);
	while (p->unschedulable && p->unschedulable->until_ns + PENDING_UNSCHEDULABLE_NS <= now_ns)
		pending_set_state(p, p->unschedulable, ACTIVE);
	e = first_active(p);
	if (!e)
		return NULL;
	pending_set_state(p, e, OUT);
	return &e->key;
}

/*
 * Returns the pause after that many failed tries. Half of the pause is random, so that items that
 * failed together are retried at different times.
 */
static uint64_t pending_pause_ns(struct pending *p, uint32_t tries)
{
	const uint64_t pause = MIN(
		PENDING_BACKOFF_NS << MIN(tries, 8u), (uint64_t)PENDING_BACKOFF_MAX_NS);

	return pause / 2 + rand_below(p->rand, pause / 2 + 1);
}

void pending_put_back(
	struct pending *p, struct pending_key key, enum pending_end end, uint64_t now_ns)
{
	struct entry *e = pending_find_entry(p, key);

	if (!e)
		return;
	leave_state(p, e);
	e->until_ns = now_ns + pending_pause_ns(p, e->tries++);
	e->has_failed = end == PENDING_FAILED;
	enter_state(p, e, end == PENDING_NOWHERE ? UNSCHEDULABLE : BACKING_OFF);
}

void pending_set_tries(struct pending *p, struct pending_key key, uint32_t tries)
{
	struct entry *e = pending_find_entry(p, key);

	if (e)
		e->tries = tries;
}

void pending_put_back_until(struct pending *p, struct pending_key key, uint64_t until_ns)
{
	struct entry *e = pending_find_entry(p, key);

	if (!e)
		return;
	leave_state(p, e);
	e->until_ns = until_ns;
	e->has_failed = false;
	enter_state(p, e, BACKING_OFF);
}

static void pending_wake_below_guarantee(struct pending *p)
{
	for (uint32_t i = 1; i < p->n_lines; i++) {
		struct waiting *waiting = &p->lines[i].waiting;

		if (!waiting->n || !p->known.is_below_guarantee(p->known.arg, i))
			continue;
		for (uint32_t n = 0; n < PENDING_BELOW_GUARANTEE_MAX && waiting->n; n++)
			pending_set_state(p, waiting->v[0], ACTIVE);
	}
}

void pending_wake(struct pending *p, uint64_t now_ns)
{
	pending_wake_below_guarantee(p);
	while (p->unschedulable)
		pending_set_state(p, p->unschedulable,
			p->unschedulable->until_ns <= now_ns ? ACTIVE : BACKING_OFF);
}

/* Returns the first item by rank of all heaps `waiting`, or NULL. */
static struct entry *first_waiting(const struct pending *p)
{
	struct entry *first = NULL;

	for (uint32_t i = 0; i < p->n_lines; i++) {
		const struct waiting *waiting = &p->lines[i].waiting;

		if (waiting->n && (!first || is_first(waiting->v[0], first)))
			first = waiting->v[0];
	}
	return first;
}

void pending_hurry(struct pending *p, uint32_t n)
{
	struct entry *e;

	for (; n && (e = first_waiting(p)); n--)
		pending_set_state(p, e, ACTIVE);
}

void pending_wake_one(struct pending *p, struct pending_key key)
{
	struct entry *e = pending_find_entry(p, key);

	if (e && (e->state == UNSCHEDULABLE || e->state == BACKING_OFF)) {
		e->tries = 0;
		pending_set_state(p, e, ACTIVE);
	}
}

uint64_t pending_deadline(const struct pending *p)
{
	uint64_t at = CLOCK_NEVER;

	if (p->n_of[ACTIVE])
		return 0;
	if (p->backing_off.n)
		at = p->backing_off.v[0]->until_ns;
	if (p->unschedulable)
		at = MIN(at, p->unschedulable->until_ns + PENDING_UNSCHEDULABLE_NS);
	return at;
}

struct pending_counts pending_counts(const struct pending *p)
{
	return (struct pending_counts){
		p->n_of[ACTIVE], p->n_of[BACKING_OFF], p->n_of[UNSCHEDULABLE], p->n_of[OUT]};
}
