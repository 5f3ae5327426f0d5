/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file turns ring entries into operations and publishes completions. The code copies an entry
 * before it reads the entry, because the client can write to the ring at any time. An unknown kind
 * or a size beyond the ring breaks the process's ring for good. A bad slot or parameter fails the
 * context. Completion numbers enter the shared memory as the timeline reaches them, and the engine
 * wakes clients once a turn.
 */
#include "simgpu/engine.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#define ENTRY_MAX (SIMGPU_ENTRY_BYTES + SIMGPU_MAX_INLINE_BYTES + SIMGPU_ENTRY_UNIT)

static uint64_t submit_load64(const _Atomic uint64_t *p)
{
	return __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE);
}

static void submit_store64(_Atomic uint64_t *p, uint64_t v)
{
	__atomic_store_n((uint64_t *)p, v, __ATOMIC_RELEASE);
}

void submit_activate(struct proc *p)
{
	if (p->active || p->dead || !p->shm)
		return;
	p->active = true;
	p->active_next = p->engine->active;
	p->engine->active = p;
}

/* ---- events ---- */

void submit_event_unref(struct engine *e, struct eevent *ev)
{
	if (!ev || --ev->refs)
		return;
	if (ev->ipc_key)
		LIST_REMOVE(ev, ipc_link);
	free(ev);
}

int submit_event_bind(struct proc *p, uint32_t slot, struct eevent *ev)
{
	struct event_slot *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->proc = p;
	s->slot = slot;
	LIST_INSERT_HEAD(&ev->slots, s, link);
	ev->refs++;
	p->events[slot] = ev;
	return 0;
}

void submit_event_unbind(struct proc *p, uint32_t slot)
{
	struct eevent *ev = p->events[slot];
	struct event_slot *s;

	if (!ev)
		return;
	p->events[slot] = NULL;
	LIST_FOREACH(s, &ev->slots, link)
		if (s->proc == p && s->slot == slot)
			break;
	if (s)
		LIST_REMOVE(s, link);
	free(s);
	submit_event_unref(p->engine, ev);
}

struct eevent *submit_event_get(struct proc *p, uint32_t slot)
{
	struct eevent *ev;

	if (slot >= SIMGPU_MAX_EVENTS || !p->events)
		return NULL;
	if (p->events[slot])
		return p->events[slot];
	ev = calloc(1, sizeof(*ev));
	if (!ev)
		return NULL;
	if (submit_event_bind(p, slot, ev) < 0) {
		free(ev);
		return NULL;
	}
	return ev;
}

static void event_done(struct eop *op, uint64_t t)
{
	struct eevent *ev = op->event;
	const struct event_slot *s;

	LIST_FOREACH(s, &ev->slots, link) {
		struct simgpu_event *out = &s->proc->shm->events[s->slot];

		submit_store64(&out->time_ns, t);
		if (op->tl.parent)
			submit_store64(&out->graph_records, submit_load64(&out->graph_records) + 1);
		else if (op->e.event.record > submit_load64(&out->record))
			submit_store64(&out->record, op->e.event.record);
	}
	if (ev->last == op)
		ev->last = NULL;
}

/* ---- completion ---- */

static void stream_completed(struct estream *s, uint64_t seq)
{
	struct simgpu_stream *out = &s->proc->shm->streams[s->slot];
	uint64_t before = submit_load64(&out->completed);

	if (seq <= before)
		return;
	submit_store64(&out->completed, seq);
	if (submit_load64(&out->await_seq) > before)
		s->proc->wake = true;
}

static void free_stream(struct estream *s)
{
	struct proc *p = s->proc;

	LIST_REMOVE(s, link);
	tl_stream_remove(p->engine->tl, &s->tl);
	__atomic_store_n((uint32_t *)&p->shm->streams[s->slot].live, 0, __ATOMIC_RELEASE);
	if (p->streams[s->slot] == s)
		p->streams[s->slot] = NULL;
	free(s);
}

void submit_fail(struct ectx *ctx, uint32_t error)
{
	struct proc *p = ctx->proc;
	struct estream *s;

	if (ctx->error)
		return;
	log_debug("process %d, context %u: error %u", p->pid, ctx->slot, error);
	ctx->error = error;
	__atomic_store_n((uint32_t *)&p->shm->contexts[ctx->slot].error, error, __ATOMIC_RELEASE);
	tl_ctx_fail(p->engine->tl, &ctx->tl);
	LIST_FOREACH(s, &p->stream_list, link)
		if (s->ctx == ctx)
			stream_completed(s, s->submitted);
	p->wake = true;
	submit_activate(p);
}

void submit_drop_streams(struct proc *p, const struct ectx *ctx)
{
	struct estream *s, *next;

	for (s = LIST_FIRST(&p->stream_list); s; s = next) {
		next = LIST_NEXT(s, link);
		if (!ctx || s->ctx == ctx)
			free_stream(s);
	}
}

/* ---- host functions ---- */

static void give_callback(struct eop *op)
{
	struct proc *p = op->proc;
	uint64_t n = p->cb_given++;
	struct simgpu_callback *cb = &p->shm->callbacks[n % SIMGPU_MAX_CALLBACKS];

	p->cb[n % SIMGPU_MAX_CALLBACKS] = op;
	cb->cookie = op->e.host.cookie;
	cb->context = op->ctx->slot;
	cb->error = op->ctx->error;
	submit_store64(&cb->done_ns, 0);
	__atomic_store_n(
		(uint32_t *)&p->shm->engine.cb_tail, (uint32_t)p->cb_given, __ATOMIC_RELEASE);
	syscall(SYS_futex, (uint32_t *)&p->shm->engine.cb_tail, FUTEX_WAKE, INT32_MAX, NULL, NULL,
		0);
	submit_activate(p);
}

static void start_callback(struct eop *op)
{
	struct proc *p = op->proc;

	if (p->cb_given - p->cb_done < SIMGPU_MAX_CALLBACKS) {
		give_callback(op);
		return;
	}
	TAILQ_INSERT_TAIL(&p->cb_wait, op, cb_link);
}

static void forget_callback(struct eop *op)
{
	struct proc *p = op->proc;
	const struct eop *waiting;

	for (uint32_t i = 0; i < SIMGPU_MAX_CALLBACKS; i++)
		if (p->cb[i] == op)
			p->cb[i] = NULL;
	TAILQ_FOREACH(waiting, &p->cb_wait, cb_link)
		if (waiting == op)
			break;
	if (waiting)
		TAILQ_REMOVE(&p->cb_wait, op, cb_link);
}

/*
 * Finishes the operations whose host functions have returned, and gives the program host functions
 * that waited for a free slot.
 */
static void look_callbacks(struct proc *p)
{
	while (p->cb_done < p->cb_given) {
		uint32_t i = p->cb_done % SIMGPU_MAX_CALLBACKS;
		uint64_t t = submit_load64(&p->shm->callbacks[i].done_ns);
		struct eop *op = p->cb[i];

		if (!t)
			return;
		p->cb[i] = NULL;
		p->cb_done++;
		if (op)
			tl_finish_external(p->engine->tl, &op->tl, MIN(t, clock_now_ns()));
		op = TAILQ_FIRST(&p->cb_wait);
		if (op) {
			TAILQ_REMOVE(&p->cb_wait, op, cb_link);
			give_callback(op);
		}
	}
}

/* ---- the timeline's hooks ---- */

static struct eop *eop_of(struct tl_op *op)
{
	return CONTAINER_OF(op, struct eop, tl);
}

static uint64_t on_start(void *user, struct tl_op *tl_op, uint64_t t)
{
	struct eop *op = eop_of(tl_op);

	if (op->e.kind == SIMGPU_OP_HOST_FUNC) {
		start_callback(op);
		return 0;
	}
	return op->graph ? 0 : exec_start(op);
}

static bool submit_on_ready(void *user, struct tl_op *op, uint64_t t)
{
	return exec_ready(eop_of(op));
}

static bool on_finish(void *user, struct tl_op *tl_op, uint64_t t)
{
	struct eop *op = eop_of(tl_op);
	bool wrote = false;

	if (op->event)
		event_done(op, t);
	if (op->e.kind == SIMGPU_OP_HOST_FUNC && tl_op->aborted)
		forget_callback(op);
	if (tl_op->aborted && op->job)
		compute_finish(op);
	if (!op->graph && !tl_op->aborted)
		wrote = exec_finish(op);
	else if (op->e.kind == SIMGPU_OP_FREE_ASYNC && op->ticket) {
		compute_stop();
		mem_free_ticket(op->proc->engine->mem, op->e.mem.ptr, op->ticket);
		compute_resume();
	}
	if (op->stream) {
		op->proc->pending--;
		stream_completed(op->stream, op->e.seq);
	}
	return wrote;
}

static void on_release(void *user, struct tl_op *tl_op)
{
	struct eop *op = eop_of(tl_op);
	struct estream *s = op->stream;

	code_unref(op->code);
	submit_event_unref(op->proc->engine, op->event);
	submit_graph_unref(op->graph);
	if (s && --s->ops == 0 && s->leaving)
		free_stream(s);
	free(op);
}

static void on_piece(void *user, const struct tl_piece *piece)
{
	record_piece(user, piece);
}

struct tl_hooks submit_make_hooks(struct engine *e)
{
	return (struct tl_hooks){e, on_start, submit_on_ready, on_finish, on_release, on_piece};
}

/* ---- operations ---- */

static struct eop *eop_new(
	struct proc *p, struct ectx *ctx, const struct simgpu_entry *entry, uint32_t trailing)
{
	struct eop *op = malloc(sizeof(*op) + trailing);

	if (!op)
		return NULL;
	memset(op, 0, sizeof(*op));
	op->proc = p;
	op->ctx = ctx;
	op->id = ++p->engine->next_op;
	op->e = *entry;
	op->trailing = trailing;
	if (trailing)
		memcpy(op->data, entry + 1, trailing);
	op->tl.kind = (uint8_t)entry->kind;
	op->tl.visible = (entry->flags & SIMGPU_ENTRY_VISIBLE) != 0;
	op->tl.submit_ns = MIN(entry->submit_ns, clock_now_ns());
	return op;
}

/*
 * Binds the operation to its event, or to the ticket of its free. The calls follow the order of the
 * ring, because an event wait depends on the latest record before it in the ring.
 */
static uint32_t submit_attach(struct eop *op)
{
	struct proc *p = op->proc;
	struct tl_op *last;

	switch ((enum simgpu_op_kind)op->e.kind) {
	case SIMGPU_OP_EVENT_RECORD:
		op->event = submit_event_get(p, op->e.event.event);
		if (!op->event)
			return SIMGPU_INVALID_VALUE;
		op->event->refs++;
		return SIMGPU_OK;
	case SIMGPU_OP_EVENT_WAIT:
		if (op->e.event.event >= SIMGPU_MAX_EVENTS)
			return SIMGPU_INVALID_VALUE;
		if (!p->events[op->e.event.event] || !p->events[op->e.event.event]->last)
			return SIMGPU_OK;
		last = &p->events[op->e.event.event]->last->tl;
		return tl_depend(p->engine->tl, &op->tl, last) < 0 ? SIMGPU_OUT_OF_MEMORY
								   : SIMGPU_OK;
	case SIMGPU_OP_FREE_ASYNC:
		if (op->stream &&
			mem_free_later(p->engine->mem, &p->mem, op->e.mem.ptr, op->stream->id,
				&op->ticket) < 0)
			return SIMGPU_INVALID_VALUE;
		return SIMGPU_OK;
	default: return SIMGPU_OK;
	}
}

/* Frees an operation that was never submitted. */
static void eop_discard(struct eop *op)
{
	while (op->tl.nodes) {
		struct eop *node = eop_of(op->tl.nodes);

		op->tl.nodes = node->tl.next;
		eop_discard(node);
	}
	tl_undepend(op->proc->engine->tl, &op->tl);
	if (op->event && op->event->last == op)
		op->event->last = NULL;
	code_unref(op->code);
	submit_event_unref(op->proc->engine, op->event);
	submit_graph_unref(op->graph);
	free(op);
}

/* Work of a failed context completes as soon as it arrives. */
static void complete_at_once(struct eop *op)
{
	uint64_t t = tl_now(op->proc->engine->tl);

	if (op->e.kind == SIMGPU_OP_EVENT_RECORD) {
		op->event = submit_event_get(op->proc, op->e.event.event);
		if (op->event) {
			op->event->refs++;
			event_done(op, t);
		}
	}
	stream_completed(op->stream, op->e.seq);
	eop_discard(op);
}

static uint32_t plan_graph(struct eop *op)
{
	struct proc *p = op->proc;
	struct timeline *tl = p->engine->tl;
	struct egraph *g = op->e.graph.graph < SIMGPU_MAX_GRAPHS ? p->graphs[op->e.graph.graph]
								 : NULL;
	_cleanup_free_ struct eop **nodes = NULL;
	_cleanup_free_ uint64_t *ends = NULL;
	uint32_t status = SIMGPU_OK, n = 0;

	if (!g)
		return SIMGPU_INVALID_VALUE;
	nodes = calloc(g->n + 1, sizeof(struct eop *));
	ends = calloc(g->n + 1, sizeof(*ends));
	if (!nodes || !ends)
		return SIMGPU_OUT_OF_MEMORY;
	op->graph = g;
	g->refs++;
	op->tl.class = TL_GRAPH;
	op->tl.visible |= g->visible;
	for (n = 0; n < g->n && status == SIMGPU_OK; n++) {
		struct graph_node *from = &g->nodes[n];
		struct eop *node = eop_new(p, op->ctx, from->entry, from->trailing);

		if (!node) {
			status = SIMGPU_OUT_OF_MEMORY;
			break;
		}
		nodes[n] = node;
		tl_add_node(tl, &op->tl, &node->tl);
		node->e.stream = op->e.stream;
		status = exec_plan(node);
		if (status == SIMGPU_OK)
			status = submit_attach(node);
		for (uint32_t d = 0; d < from->ndeps && status == SIMGPU_OK; d++) {
			if (tl_depend(tl, &node->tl, &nodes[from->deps[d]]->tl) < 0)
				status = SIMGPU_OUT_OF_MEMORY;
			ends[n] = MAX(ends[n], ends[from->deps[d]]);
		}
		if (!node->tl.spin)
			ends[n] += node->tl.duration_ns;
		op->tl.duration_ns = MAX(op->tl.duration_ns, ends[n]);
	}
	/* A wait after the launch must see the records inside the graph. */
	for (uint32_t i = 0; i < g->n && status == SIMGPU_OK; i++)
		if (nodes[i]->e.kind == SIMGPU_OP_EVENT_RECORD)
			nodes[i]->event->last = nodes[i];
	return status;
}

/*
 * A launch waits for the executable's last launch in another stream, if that last launch has not
 * ended.
 */
static uint32_t depend_on_last(struct eop *op)
{
	struct proc *p = op->proc;
	const struct simgpu_op_graph *g = &op->e.graph;
	struct estream *s = g->after_seq && g->after < SIMGPU_MAX_STREAMS ? p->streams[g->after]
									  : NULL;

	for (struct tl_op *on = s ? s->tl.head : NULL; on; on = on->next)
		if (eop_of(on)->e.seq == g->after_seq)
			return tl_depend(p->engine->tl, &op->tl, on) < 0 ? SIMGPU_OUT_OF_MEMORY
									 : SIMGPU_OK;
	return SIMGPU_OK;
}

static void mark_awaited(struct estream *s)
{
	uint64_t await = submit_load64(&s->proc->shm->streams[s->slot].await_seq);
	struct tl_op *op;

	if (!s->tl.tail)
		return;
	if (eop_of(s->tl.tail)->e.seq <= await) {
		tl_set_visible(s->proc->engine->tl, s->tl.tail);
		return;
	}
	for (op = s->tl.head; op; op = op->next) {
		if (eop_of(op)->e.seq < await)
			continue;
		if (eop_of(op)->e.seq == await)
			tl_set_visible(s->proc->engine->tl, op);
		return;
	}
}

/* Takes an operation for a stream. Returns true if a client could notice the operation. */
static bool take_work(struct proc *p, const struct simgpu_entry *entry, uint32_t trailing)
{
	struct estream *s = entry->stream < SIMGPU_MAX_STREAMS ? p->streams[entry->stream] : NULL;
	struct eop *op;
	uint32_t status;

	if (!s || s->leaving || s->ctx->slot != entry->context || entry->seq <= s->submitted) {
		if (entry->context < SIMGPU_MAX_CONTEXTS && p->ctx[entry->context])
			submit_fail(p->ctx[entry->context], SIMGPU_UNKNOWN);
		return true;
	}
	s->submitted = entry->seq;
	op = eop_new(p, s->ctx, entry, trailing);
	if (!op) {
		submit_fail(s->ctx, SIMGPU_OUT_OF_MEMORY);
		return true;
	}
	op->stream = s;
	if (s->ctx->error) {
		complete_at_once(op);
		return true;
	}
	if (entry->kind == SIMGPU_OP_GRAPH_LAUNCH) {
		op->tl.submit_ns += p->engine->config.costs.graph_launch_ns;
		status = plan_graph(op);
		if (status == SIMGPU_OK)
			status = depend_on_last(op);
	} else {
		status = exec_plan(op);
		if (status == SIMGPU_OK)
			status = submit_attach(op);
	}
	if (status == SIMGPU_OK && tl_submit(p->engine->tl, &s->tl, &op->tl) < 0)
		status = SIMGPU_OUT_OF_MEMORY;
	if (status != SIMGPU_OK) {
		eop_discard(op);
		submit_fail(s->ctx, status == SIMGPU_INVALID_VALUE ? SIMGPU_LAUNCH_FAILED : status);
		return true;
	}
	p->pending++;
	s->ops++;
	if (entry->kind == SIMGPU_OP_EVENT_RECORD)
		op->event->last = op;
	if (entry->seq <= submit_load64(&p->shm->streams[s->slot].await_seq))
		tl_set_visible(p->engine->tl, &op->tl);
	return op->tl.visible;
}

/* ---- entries that are no work ---- */

static void take_stream(struct proc *p, const struct simgpu_entry *entry)
{
	struct ectx *ctx = entry->context < SIMGPU_MAX_CONTEXTS ? p->ctx[entry->context] : NULL;
	struct estream *s;

	if (!ctx || entry->stream >= SIMGPU_MAX_STREAMS || p->streams[entry->stream]) {
		if (ctx)
			submit_fail(ctx, SIMGPU_UNKNOWN);
		return;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		submit_fail(ctx, SIMGPU_OUT_OF_MEMORY);
		return;
	}
	s->proc = p;
	s->ctx = ctx;
	s->slot = entry->stream;
	s->id = ++p->engine->next_stream;
	s->tl.legacy = (entry->stream_new.flags & SIMGPU_STREAM_LEGACY) != 0;
	s->tl.blocking = !(entry->stream_new.flags & SIMGPU_STREAM_NON_BLOCKING);
	s->tl.priority = entry->stream_new.priority;
	s->submitted = submit_load64(&p->shm->streams[s->slot].completed);
	LIST_INSERT_HEAD(&p->stream_list, s, link);
	p->streams[s->slot] = s;
	tl_stream_add(p->engine->tl, &s->tl, &ctx->tl);
	__atomic_store_n((uint32_t *)&p->shm->streams[s->slot].live, 1, __ATOMIC_RELEASE);
}

static void take_other(struct proc *p, const struct simgpu_entry *entry)
{
	struct estream *s;

	switch ((enum simgpu_op_kind)entry->kind) {
	case SIMGPU_OP_STREAM_CREATE: take_stream(p, entry); break;
	case SIMGPU_OP_STREAM_DESTROY:
		s = entry->stream < SIMGPU_MAX_STREAMS ? p->streams[entry->stream] : NULL;
		if (!s)
			break;
		s->leaving = true;
		if (!s->ops)
			free_stream(s);
		break;
	case SIMGPU_OP_EVENT_DESTROY:
		if (entry->event.event < SIMGPU_MAX_EVENTS)
			submit_event_unbind(p, entry->event.event);
		break;
	case SIMGPU_OP_GRAPH_DESTROY:
		if (entry->graph.graph < SIMGPU_MAX_GRAPHS) {
			submit_graph_unref(p->graphs[entry->graph.graph]);
			p->graphs[entry->graph.graph] = NULL;
		}
		break;
	default: break;
	}
}

/* ---- the ring ---- */

bool submit_ring_is_empty(const struct proc *p)
{
	return p->broken || submit_load64(&p->shm->client.tail) == p->head;
}

static bool break_ring(struct proc *p, const char *why)
{
	log_warn("process %d: its ring is damaged (%s), so the engine reads it no more", p->pid,
		why);
	p->broken = true;
	for (int i = 0; i < SIMGPU_MAX_CONTEXTS; i++)
		if (p->ctx[i])
			submit_fail(p->ctx[i], SIMGPU_UNKNOWN);
	return true;
}

bool submit_ingest(struct proc *p)
{
	static _Alignas(16) uint8_t copy[ENTRY_MAX];
	struct simgpu_entry *entry = (struct simgpu_entry *)copy;
	uint64_t limit = p->engine->config.costs.queue_ops, tail;
	bool visible = false;

	if (!p->shm || p->dead || p->broken)
		return false;
	p->throttled = false;
	tail = submit_load64(&p->shm->client.tail);
	if (tail - p->head > SIMGPU_RING_BYTES || tail % SIMGPU_ENTRY_UNIT)
		return break_ring(p, "tail");
	while (p->head != tail) {
		uint64_t at = p->head % SIMGPU_RING_BYTES, bytes;

		if (p->pending >= limit) {
			p->throttled = true;
			break;
		}
		memcpy(entry, p->shm->ring + at, SIMGPU_ENTRY_UNIT);
		bytes = (uint64_t)entry->units * SIMGPU_ENTRY_UNIT;
		if (!bytes || bytes > tail - p->head || bytes > SIMGPU_RING_BYTES - at)
			return break_ring(p, "size");
		if (entry->kind != SIMGPU_OP_PAD) {
			if (bytes < SIMGPU_ENTRY_BYTES || bytes > sizeof(copy) ||
				entry->kind >= SIMGPU_OP_COUNT)
				return break_ring(p, "entry");
			memcpy(copy + SIMGPU_ENTRY_UNIT, p->shm->ring + at + SIMGPU_ENTRY_UNIT,
				bytes - SIMGPU_ENTRY_UNIT);
			if (entry->kind < SIMGPU_OP_STREAM_CREATE)
				visible |= take_work(
					p, entry, (uint32_t)(bytes - SIMGPU_ENTRY_BYTES));
			else
				take_other(p, entry);
		}
		p->head += bytes;
	}
	submit_store64(&p->shm->engine.head, p->head);
	/* Wakes the clients that wait for room only once a quarter of the ring is free. */
	if (tail - p->head <= SIMGPU_RING_BYTES / 4 * 3 &&
		__atomic_load_n((uint32_t *)&p->shm->client.ring_waiters, __ATOMIC_SEQ_CST))
		p->wake = true;
	return visible;
}

void submit_look(struct proc *p)
{
	struct estream *s;

	look_callbacks(p);
	LIST_FOREACH(s, &p->stream_list, link) {
		const struct simgpu_stream *shared = &p->shm->streams[s->slot];

		if (submit_load64(&shared->await_seq) > submit_load64(&shared->completed))
			mark_awaited(s);
	}
}

/* ---- graphs ---- */

void submit_graph_unref(struct egraph *g)
{
	if (!g || --g->refs)
		return;
	free(g->blob);
	free(g);
}

static bool submit_is_visible(const struct simgpu_entry *entry)
{
	return (entry->flags & SIMGPU_ENTRY_VISIBLE) || entry->kind == SIMGPU_OP_HOST_FUNC;
}

/* Checks all sizes and numbers in the blob; the nodes point into the blob. */
static int parse_graph(struct egraph *g)
{
	size_t at = sizeof(struct simgpu_graph_head);

	for (uint32_t i = 0; i < g->n; i++) {
		struct graph_node *node = &g->nodes[i];
		struct simgpu_graph_node head;
		size_t deps;

		if (g->bytes - at < sizeof(head))
			return -EINVAL;
		memcpy(&head, (char *)g->blob + at, sizeof(head));
		at += sizeof(head);
		if (head.ndeps > i || head.trailing > SIMGPU_MAX_PARAM_BYTES)
			return -EINVAL;
		deps = (head.ndeps * sizeof(uint32_t) + 7) & ~(size_t)7;
		if (g->bytes - at <
			deps + sizeof(struct simgpu_entry) + ((head.trailing + 7) & ~7u))
			return -EINVAL;
		node->deps = (uint32_t *)((char *)g->blob + at);
		node->ndeps = head.ndeps;
		at += deps;
		node->entry = (struct simgpu_entry *)((char *)g->blob + at);
		node->trailing = head.trailing;
		at += sizeof(struct simgpu_entry) + ((head.trailing + 7) & ~7u);
		for (uint32_t d = 0; d < head.ndeps; d++)
			if (node->deps[d] >= i)
				return -EINVAL;
		if (node->entry->kind == SIMGPU_OP_PAD ||
			node->entry->kind >= SIMGPU_OP_GRAPH_LAUNCH ||
			node->entry->kind == SIMGPU_OP_PREFETCH ||
			(node->entry->flags & SIMGPU_ENTRY_INLINE))
			return -EINVAL;
		g->visible |= submit_is_visible(node->entry);
	}
	return 0;
}

int submit_graph_create(struct proc *p, uint32_t slot, int fd)
{
	struct simgpu_graph_head head;
	struct egraph *g = NULL;
	int64_t size = fd_size(fd);
	int r = -EINVAL;

	if (slot >= SIMGPU_MAX_GRAPHS || p->graphs[slot] || size < (int64_t)sizeof(head) ||
		size > (INT64_C(1) << 30) || pread(fd, &head, sizeof(head), 0) != sizeof(head) ||
		head.nodes > SIMGPU_MAX_GRAPH_NODES)
		return -EINVAL;
	g = calloc(1, sizeof(*g) + head.nodes * sizeof(g->nodes[0]));
	if (!g)
		return -ENOMEM;
	g->refs = 1;
	g->n = head.nodes;
	g->bytes = (size_t)size;
	g->blob = malloc(g->bytes);
	if (!g->blob)
		r = -ENOMEM;
	else if (pread(fd, g->blob, g->bytes, 0) == (ssize_t)g->bytes)
		r = parse_graph(g);
	if (r < 0) {
		submit_graph_unref(g);
		return r;
	}
	p->graphs[slot] = g;
	return 0;
}
