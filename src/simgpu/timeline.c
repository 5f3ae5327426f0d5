/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file advances the simulated devices step by step. In a step at time t, first everything that
 * ends at t ends. Then the operations that waited for the ended ones become ready, through the work
 * list. So a stream's next kernel is ready before a device asks whether the context is idle.
 * Finally each touched device decides which work runs. Failing contexts end between steps, never
 * inside hooks. Lists are intrusive. An operation is in at most one of: the arrival heap, the work
 * list, a ready, running or waiting queue.
 */
#include "simgpu/timeline.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/heap.h"

/* `to` must not start before `from` is done. The edge is in the lists of both. */
struct tl_edge {
	struct tl_op *from, *to;
	struct tl_link out, in;
	struct tl_edge *next_free;
};

struct copy_engine {
	struct tl_link queue;
	struct tl_op *running;
};

struct device {
	struct tl_link active; /* contexts with compute work, next first */
	struct tl_ctx *resident;
	struct tl_ctx *target; /* the next resident, while switching */
	bool switching, contended, dirty;
	bool warm; /* a context was resident before, so there is something to switch from */
	uint64_t switch_start, switch_end;
	uint64_t slice_start, slice_end;
	struct copy_engine copy[2];
};

HEAP_HEAD(arrivals, struct tl_op *);

struct timeline {
	struct tl_params p;
	struct tl_hooks hooks;
	uint64_t now;
	uint64_t order, look;
	bool in_step, recheck;
	uint64_t live; /* number of operations */
	struct device dev[TL_MAX_DEVICES];
	/* heap by ready_ns, then order; has room for all live operations */
	struct arrivals arrivals;
	struct tl_op *work, **work_tail;
	struct tl_link waits;
	struct tl_link visible;
	struct tl_ctx *failing;
	struct tl_edge *free_edges;
};

/* ---- lists ---- */

static void list_init(struct tl_link *l)
{
	l->next = l->prev = l;
}

static bool list_empty(const struct tl_link *l)
{
	return l->next == l;
}

static bool tl_is_linked(const struct tl_link *l)
{
	return l->next != NULL;
}

static void list_add_before(struct tl_link *at, struct tl_link *l)
{
	l->prev = at->prev;
	l->next = at;
	at->prev->next = l;
	at->prev = l;
}

static void list_del(struct tl_link *l)
{
	if (!l->next)
		return;
	l->prev->next = l->next;
	l->next->prev = l->prev;
	l->next = l->prev = NULL;
}

#define OP(l, member) CONTAINER_OF(l, struct tl_op, member)
#define CTX(l) CONTAINER_OF(l, struct tl_ctx, ring)

/* ---- arrival heap ---- */

static bool is_earlier(const struct tl_op *a, const struct tl_op *b)
{
	return a->ready_ns != b->ready_ns ? a->ready_ns < b->ready_ns : a->order < b->order;
}

static void set_heap_index(struct tl_op *op, uint32_t at)
{
	op->heap_index = at;
}

HEAP_DEFINE(arrivals, struct tl_op *, is_earlier, set_heap_index)

/* ---- life ---- */

int tl_new(const struct tl_params *params, const struct tl_hooks *hooks, uint64_t now_ns,
	struct timeline **ret_tl)
{
	struct timeline *tl;

	if (!params->devices || params->devices > TL_MAX_DEVICES || !params->slice_ns)
		return -EINVAL;
	tl = calloc(1, sizeof(*tl));
	if (!tl)
		return -ENOMEM;
	tl->p = *params;
	tl->hooks = *hooks;
	tl->now = now_ns;
	tl->work_tail = &tl->work;
	list_init(&tl->waits);
	list_init(&tl->visible);
	for (uint32_t i = 0; i < params->devices; i++) {
		list_init(&tl->dev[i].active);
		list_init(&tl->dev[i].copy[0].queue);
		list_init(&tl->dev[i].copy[1].queue);
	}
	*ret_tl = tl;
	return 0;
}

void tl_free(struct timeline *tl)
{
	if (!tl)
		return;
	while (tl->free_edges) {
		struct tl_edge *e = tl->free_edges;

		tl->free_edges = e->next_free;
		free(e);
	}
	free(tl->arrivals.v);
	free(tl);
}

uint64_t tl_now(const struct timeline *tl)
{
	return tl->now;
}

bool tl_is_idle(const struct timeline *tl)
{
	return !tl->live;
}

const struct tl_ctx *tl_resident(const struct timeline *tl, uint16_t device)
{
	return tl->dev[device].resident;
}

/* ---- becoming ready ---- */

static void tl_emit_piece(
	struct timeline *tl, struct tl_op *op, enum tl_engine engine, uint64_t end_ns, bool last)
{
	struct tl_piece piece = {
		.op = op,
		.ctx = op->ctx,
		.device = op->ctx->device,
		.engine = engine,
		.first = !op->started,
		.last = last,
		.extra = op->phase == 1,
		.aborted = op->aborted,
		.start_ns = op->piece_ns,
		.end_ns = end_ns,
	};

	if (end_ns <= op->piece_ns && !last)
		return;
	op->started = true;
	tl->hooks.piece(tl->hooks.user, &piece);
}

static void push_work(struct timeline *tl, struct tl_op *op)
{
	op->state = TL_READY;
	op->work_next = NULL;
	*tl->work_tail = op;
	tl->work_tail = &op->work_next;
}

static void tl_unblock(struct timeline *tl, struct tl_op *op)
{
	uint64_t earliest;

	assert(op->blockers);
	if (--op->blockers)
		return;
	earliest = op->stream ? op->submit_ns + tl->p.launch_ns : 0;
	op->ready_ns = MAX(tl->now, earliest);
	if (op->ready_ns > tl->now) {
		op->state = TL_ARRIVING;
		arrivals_add(&tl->arrivals, op);
	} else {
		push_work(tl, op);
	}
}

static void ctx_activate(struct timeline *tl, struct tl_ctx *ctx)
{
	struct device *dev = &tl->dev[ctx->device];

	dev->dirty = true;
	if (!ctx->active++)
		list_add_before(&dev->active, &ctx->ring);
}

static void ctx_deactivate(struct timeline *tl, struct tl_ctx *ctx)
{
	tl->dev[ctx->device].dirty = true;
	if (!--ctx->active)
		list_del(&ctx->ring);
}

static void edge_drop(struct timeline *tl, struct tl_edge *e)
{
	if (e->to->hint == e->from)
		e->to->hint = NULL;
	list_del(&e->out);
	list_del(&e->in);
	e->next_free = tl->free_edges;
	tl->free_edges = e;
}

#define OUT(l) CONTAINER_OF(l, struct tl_edge, out)
#define IN(l) CONTAINER_OF(l, struct tl_edge, in)

static void tl_complete(struct timeline *tl, struct tl_op *op);

static void begin_graph(struct timeline *tl, struct tl_op *op)
{
	struct tl_op *node = op->nodes, *next;

	op->state = TL_PENDING;
	op->start_ns = tl->now;
	if (!node) {
		tl_complete(tl, op);
		return;
	}
	for (; node; node = next) {
		next = node->next;
		tl_unblock(tl, node);
	}
}

/* All predecessors are done, so the operation goes to its engine. */
static void tl_make_ready(struct timeline *tl, struct tl_op *op)
{
	struct tl_link *at;

	switch (op->class) {
	case TL_COMPUTE:
		at = op->ctx->ready.prev;
		while (at != &op->ctx->ready && OP(at, queue)->priority > op->priority)
			at = at->prev;
		list_add_before(at->next, &op->queue);
		ctx_activate(tl, op->ctx);
		break;
	case TL_COPY_IN:
	case TL_COPY_OUT:
		list_add_before(
			&tl->dev[op->ctx->device].copy[op->class == TL_COPY_OUT].queue, &op->queue);
		tl->dev[op->ctx->device].dirty = true;
		break;
	case TL_INSTANT: tl_complete(tl, op); break;
	case TL_WAIT:
		op->state = TL_PENDING;
		if (tl->hooks.ready(tl->hooks.user, op, tl->now))
			tl_complete(tl, op);
		else
			list_add_before(&tl->waits, &op->queue);
		break;
	case TL_EXTERNAL:
		op->state = TL_PENDING;
		tl->hooks.start(tl->hooks.user, op, tl->now);
		break;
	case TL_GRAPH:
		tl->hooks.start(tl->hooks.user, op, tl->now);
		begin_graph(tl, op);
		break;
	}
}

static void run_work(struct timeline *tl)
{
	while (tl->work) {
		struct tl_op *op = tl->work;

		tl->work = op->work_next;
		if (!tl->work)
			tl->work_tail = &tl->work;
		tl_make_ready(tl, op);
	}
}

static void stream_pop(struct timeline *tl, struct tl_op *op)
{
	struct tl_stream *s = op->stream;

	assert(s->head == op);
	s->head = op->next;
	if (!s->head)
		s->tail = NULL;
	else
		tl_unblock(tl, s->head);
}

/*
 * The operation is done and in no queue any more: applies its effects, then releases its waiters.
 */
static void tl_complete(struct timeline *tl, struct tl_op *op)
{
	struct tl_op *parent = op->parent;

	op->state = TL_DONE;
	if (tl->hooks.finish(tl->hooks.user, op, tl->now))
		tl->recheck = true;
	while (!list_empty(&op->out)) {
		struct tl_op *to = OUT(op->out.next)->to;

		edge_drop(tl, OUT(op->out.next));
		tl_unblock(tl, to);
	}
	if (op->stream)
		stream_pop(tl, op);
	list_del(&op->all);
	list_del(&op->vis);
	tl->live--;
	tl->hooks.release(tl->hooks.user, op);
	if (parent && !--parent->nodes_left)
		tl_complete(tl, parent);
}

/* ---- the compute engine ---- */

static void start_running(struct timeline *tl, struct tl_op *op, uint64_t t)
{
	op->piece_ns = t;
	op->end_ns = op->remaining_ns >= TL_NEVER - t ? TL_NEVER : t + op->remaining_ns;
	if (op->spin && op->phase != 1 && tl->hooks.ready(tl->hooks.user, op, t))
		op->end_ns = t;
}

static void begin_op(struct timeline *tl, struct tl_op *op, uint64_t t)
{
	uint64_t extra;

	op->state = TL_RUNNING;
	op->start_ns = t;
	extra = tl->hooks.start(tl->hooks.user, op, t);
	op->phase = extra ? 1 : 2;
	op->remaining_ns = extra ? extra : MAX(op->duration_ns, UINT64_C(1));
	start_running(tl, op, t);
}

static void start_ready(struct timeline *tl, struct tl_ctx *ctx, uint64_t t)
{
	while (!list_empty(&ctx->ready)) {
		struct tl_op *op = OP(ctx->ready.next, queue);

		if (ctx->used + op->permille > TL_FULL)
			return;
		list_del(&op->queue);
		list_add_before(&ctx->running, &op->queue);
		ctx->used += op->permille;
		begin_op(tl, op, t);
	}
}

static void become_resident(struct timeline *tl, struct device *dev, struct tl_ctx *ctx, uint64_t t)
{
	dev->resident = ctx;
	dev->slice_start = t;
	dev->slice_end = t + tl->p.slice_ns;
	for (struct tl_link *l = ctx->running.next; l != &ctx->running; l = l->next)
		start_running(tl, OP(l, queue), t);
}

static void tl_preempt(struct timeline *tl, struct tl_ctx *ctx, uint64_t t)
{
	for (struct tl_link *l = ctx->running.next; l != &ctx->running; l = l->next) {
		struct tl_op *op = OP(l, queue);

		op->remaining_ns = op->end_ns == TL_NEVER ? TL_NEVER : op->end_ns - t;
		tl_emit_piece(tl, op, TL_ENGINE_COMPUTE, t, false);
	}
}

static struct tl_ctx *next_active(const struct device *dev)
{
	for (struct tl_link *l = dev->active.next; l != &dev->active; l = l->next)
		if (CTX(l) != dev->resident)
			return CTX(l);
	return NULL;
}

static void begin_switch(struct timeline *tl, struct device *dev, struct tl_ctx *to, uint64_t t)
{
	if (!dev->warm || !tl->p.switch_ns) {
		dev->warm = true;
		become_resident(tl, dev, to, t);
		dev->contended = false;
		dev->dirty = true;
		return;
	}
	dev->switching = true;
	dev->target = to;
	dev->switch_start = t;
	dev->switch_end = t + tl->p.switch_ns;
}

static void end_switch(struct timeline *tl, struct device *dev, uint64_t t)
{
	dev->switching = false;
	dev->dirty = true;
	dev->contended = false;
	if (dev->target) {
		struct tl_piece piece = {
			.ctx = dev->target,
			.device = (uint16_t)(dev - tl->dev),
			.start_ns = dev->switch_start,
			.end_ns = t,
			.first = true,
			.last = true,
		};

		tl->hooks.piece(tl->hooks.user, &piece);
		become_resident(tl, dev, dev->target, t);
		dev->target = NULL;
	} else {
		dev->resident = NULL;
	}
}

/* Moves the end of the resident context's slice past t: a lone context gets slice after slice. */
static void roll_slice(struct timeline *tl, struct device *dev, uint64_t t)
{
	if (dev->slice_end <= t)
		dev->slice_end += ((t - dev->slice_end) / tl->p.slice_ns + 1) * tl->p.slice_ns;
}

static void schedule_compute(struct timeline *tl, struct device *dev, uint64_t t)
{
	struct tl_ctx *res = dev->resident, *other;

	if (dev->switching)
		return;
	other = next_active(dev);
	if (res && res->active) {
		if (!other) {
			dev->contended = false;
		} else if (!dev->contended) {
			dev->contended = true;
			roll_slice(tl, dev, t);
		} else if (t >= dev->slice_end) {
			tl_preempt(tl, res, t);
			list_del(&res->ring);
			list_add_before(&dev->active, &res->ring);
			begin_switch(tl, dev, other, t);
			return;
		}
		/*
		 * The context had nothing to run and its slice is over, so a new slice begins with
		 * its new work.
		 */
		if (list_empty(&res->running) && t >= dev->slice_end)
			dev->slice_end = t + tl->p.slice_ns;
		start_ready(tl, res, t);
	} else if (other) {
		begin_switch(tl, dev, other, t);
	} else {
		dev->contended = false;
	}
}

static void schedule_copies(struct timeline *tl, struct device *dev, uint64_t t)
{
	for (int i = 0; i < 2; i++) {
		struct copy_engine *c = &dev->copy[i];
		struct tl_op *op;

		if (c->running || list_empty(&c->queue))
			continue;
		op = OP(c->queue.next, queue);
		list_del(&op->queue);
		c->running = op;
		begin_op(tl, op, t);
	}
}

/* ---- events ---- */

static uint64_t device_next(const struct device *dev)
{
	uint64_t t = TL_NEVER;

	for (int i = 0; i < 2; i++)
		if (dev->copy[i].running)
			t = MIN(t, dev->copy[i].running->end_ns);
	if (dev->switching)
		return MIN(t, dev->switch_end);
	if (!dev->resident)
		return t;
	for (struct tl_link *l = dev->resident->running.next; l != &dev->resident->running;
		l = l->next)
		t = MIN(t, OP(l, queue)->end_ns);
	if (dev->contended && dev->resident->active)
		t = MIN(t, dev->slice_end);
	return t;
}

uint64_t tl_next_event(const struct timeline *tl)
{
	uint64_t t = tl->arrivals.n ? tl->arrivals.v[0]->ready_ns : TL_NEVER;

	for (uint32_t i = 0; i < tl->p.devices; i++)
		t = MIN(t, device_next(&tl->dev[i]));
	return t;
}

/*
 * Ends the extra time (phase 1) and begins the operation itself. Returns false if the operation is
 * already past its extra time, or has none.
 */
static bool next_phase(struct timeline *tl, struct tl_op *op, enum tl_engine engine, uint64_t t)
{
	if (op->phase != 1)
		return false;
	tl_emit_piece(tl, op, engine, t, false);
	op->phase = 2;
	op->started = false;
	op->remaining_ns = MAX(op->duration_ns, UINT64_C(1));
	start_running(tl, op, t);
	return true;
}

static void end_running(struct timeline *tl, struct device *dev, uint64_t t)
{
	struct tl_ctx *ctx = dev->resident;
	struct tl_link *l, *next;

	if (dev->switching || !ctx)
		return;
	for (l = ctx->running.next; l != &ctx->running; l = next) {
		struct tl_op *op = OP(l, queue);

		next = l->next;
		if (op->end_ns > t || next_phase(tl, op, TL_ENGINE_COMPUTE, t))
			continue;
		tl_emit_piece(tl, op, TL_ENGINE_COMPUTE, t, true);
		list_del(&op->queue);
		ctx->used -= op->permille;
		ctx_deactivate(tl, ctx);
		tl_complete(tl, op);
	}
}

static void end_copies(struct timeline *tl, struct device *dev, uint64_t t)
{
	for (int i = 0; i < 2; i++) {
		struct tl_op *op = dev->copy[i].running;
		enum tl_engine engine = i ? TL_ENGINE_OUT : TL_ENGINE_IN;

		if (!op || op->end_ns > t || next_phase(tl, op, engine, t))
			continue;
		tl_emit_piece(tl, op, engine, t, true);
		dev->copy[i].running = NULL;
		dev->dirty = true;
		tl_complete(tl, op);
	}
}

static void check_waits(struct timeline *tl, uint64_t t)
{
	struct tl_link *l, *next;

	tl->recheck = false;
	for (l = tl->waits.next; l != &tl->waits; l = next) {
		struct tl_op *op = OP(l, queue);

		next = l->next;
		if (!tl->hooks.ready(tl->hooks.user, op, t))
			continue;
		list_del(&op->queue);
		/* The work list completes op: completing op here could change tl->waits. */
		op->class = TL_INSTANT;
		push_work(tl, op);
	}
	for (uint32_t i = 0; i < tl->p.devices; i++) {
		struct device *dev = &tl->dev[i];

		if (dev->switching || !dev->resident)
			continue;
		for (l = dev->resident->running.next; l != &dev->resident->running; l = l->next) {
			struct tl_op *op = OP(l, queue);

			if (op->spin && op->phase == 2 && op->end_ns > t &&
				tl->hooks.ready(tl->hooks.user, op, t))
				op->end_ns = t;
		}
	}
}

static void abort_failing(struct timeline *tl);

/* Processes all that happens at time t. */
static void tl_step(struct timeline *tl, uint64_t t)
{
	tl->in_step = true;
	tl->now = t;
	do {
		for (uint32_t i = 0; i < tl->p.devices; i++) {
			struct device *dev = &tl->dev[i];

			if (dev->switching && dev->switch_end <= t)
				end_switch(tl, dev, t);
			end_running(tl, dev, t);
			end_copies(tl, dev, t);
			if (dev->contended && t >= dev->slice_end)
				dev->dirty = true;
		}
		while (tl->arrivals.n && tl->arrivals.v[0]->ready_ns <= t)
			push_work(tl, arrivals_take(&tl->arrivals));
		do {
			run_work(tl);
			if (tl->recheck)
				check_waits(tl, t);
			abort_failing(tl);
		} while (tl->work || tl->recheck);
		for (uint32_t i = 0; i < tl->p.devices; i++) {
			struct device *dev = &tl->dev[i];

			while (dev->dirty) {
				dev->dirty = false;
				schedule_compute(tl, dev, t);
				schedule_copies(tl, dev, t);
			}
		}
		abort_failing(tl);
	} while (tl->work || tl->recheck || tl_next_event(tl) <= t);
	tl->in_step = false;
}

void tl_advance(struct timeline *tl, uint64_t until_ns)
{
	uint64_t t;

	assert(!tl->in_step);
	if (tl->recheck || tl->work)
		tl_step(tl, tl->now);
	while ((t = tl_next_event(tl)) <= until_ns)
		tl_step(tl, MAX(t, tl->now));
	if (until_ns != TL_NEVER)
		tl->now = MAX(tl->now, until_ns);
}

void tl_recheck(struct timeline *tl)
{
	tl->recheck = true;
	if (!tl->in_step)
		tl_step(tl, tl->now);
}

bool tl_is_waiting(const struct timeline *tl)
{
	if (!list_empty(&tl->waits))
		return true;
	for (uint32_t i = 0; i < tl->p.devices; i++) {
		const struct tl_ctx *ctx = tl->dev[i].resident;

		if (!ctx)
			continue;
		for (struct tl_link *l = ctx->running.next; l != &ctx->running; l = l->next)
			if (OP(l, queue)->spin)
				return true;
	}
	return false;
}

bool tl_set_length(struct timeline *tl, struct tl_op *op, uint64_t length_ns)
{
	uint64_t before = op->duration_ns - op->remaining_ns; /* in earlier pieces */
	uint64_t left = length_ns > before ? length_ns - before : 0;

	op->spin = false;
	op->end_ns = MAX(op->piece_ns + left, tl->now);
	op->remaining_ns = op->end_ns - op->piece_ns;
	return op->end_ns > tl->now;
}

void tl_finish_external(struct timeline *tl, struct tl_op *op, uint64_t t_ns)
{
	assert(!tl->in_step && op->class == TL_EXTERNAL && op->state == TL_PENDING);
	tl_advance(tl, t_ns);
	op->class = TL_INSTANT;
	push_work(tl, op);
	tl_step(tl, tl->now);
}

/* ---- contexts and streams ---- */

void tl_ctx_add(struct timeline *tl, struct tl_ctx *ctx, uint16_t device)
{
	assert(device < tl->p.devices);
	ctx->device = device;
	list_init(&ctx->streams);
	list_init(&ctx->ready);
	list_init(&ctx->running);
	list_init(&ctx->all);
}

static void drop_op(struct timeline *tl, struct tl_op *op)
{
	struct device *dev = &tl->dev[op->ctx->device];

	op->aborted = true;
	switch (op->state) {
	case TL_ARRIVING: arrivals_remove(&tl->arrivals, op->heap_index); break;
	case TL_READY:
		if (tl_is_linked(&op->queue)) {
			list_del(&op->queue);
			if (op->class == TL_COMPUTE)
				ctx_deactivate(tl, op->ctx);
		}
		break;
	case TL_RUNNING:
		if (op->class == TL_COMPUTE) {
			if (dev->resident == op->ctx && !dev->switching)
				tl_emit_piece(tl, op, TL_ENGINE_COMPUTE, tl->now, true);
			list_del(&op->queue);
			op->ctx->used -= op->permille;
			ctx_deactivate(tl, op->ctx);
		} else {
			struct copy_engine *c = &dev->copy[op->class == TL_COPY_OUT];

			assert(c->running == op);
			tl_emit_piece(tl, op,
				op->class == TL_COPY_OUT ? TL_ENGINE_OUT : TL_ENGINE_IN, tl->now,
				true);
			c->running = NULL;
			dev->dirty = true;
		}
		break;
	case TL_PENDING: list_del(&op->queue); break;
	default: break;
	}
}

/*
 * Drops operations that wait and operations that run. Operations of other contexts that waited for
 * them continue.
 */
static void abort_ctx(struct timeline *tl, struct tl_ctx *ctx)
{
	struct tl_link *l;
	struct tl_op *list = NULL, **tail = &list, *op;

	/* The work list is empty here, so it holds none of the context's operations. */
	for (l = ctx->all.next; l != &ctx->all; l = l->next)
		drop_op(tl, OP(l, all));
	while (!list_empty(&ctx->all)) {
		op = OP(ctx->all.next, all);
		list_del(&op->all);
		list_del(&op->vis);
		op->state = TL_DONE;
		tl->live--;
		op->work_next = NULL;
		*tail = op;
		tail = &op->work_next;
	}
	for (l = ctx->streams.next; l != &ctx->streams; l = l->next) {
		struct tl_stream *s = CONTAINER_OF(l, struct tl_stream, link);

		s->head = s->tail = NULL;
	}
	for (op = list; op; op = op->work_next) {
		while (!list_empty(&op->in))
			edge_drop(tl, IN(op->in.next));
		if (tl->hooks.finish(tl->hooks.user, op, tl->now))
			tl->recheck = true;
	}
	for (op = list; op; op = op->work_next) {
		while (!list_empty(&op->out)) {
			struct tl_op *to = OUT(op->out.next)->to;

			edge_drop(tl, OUT(op->out.next));
			tl_unblock(tl, to);
		}
	}
	while (list) {
		op = list;
		list = op->work_next;
		tl->hooks.release(tl->hooks.user, op);
	}
}

static void abort_failing(struct timeline *tl)
{
	while (tl->failing) {
		struct tl_ctx *ctx = tl->failing;

		/* The work list must hold no operation of the context. */
		run_work(tl);
		tl->failing = ctx->fail_next;
		ctx->failing = false;
		abort_ctx(tl, ctx);
	}
}

void tl_ctx_fail(struct timeline *tl, struct tl_ctx *ctx)
{
	if (ctx->failing)
		return;
	ctx->failing = true;
	ctx->fail_next = tl->failing;
	tl->failing = ctx;
	if (!tl->in_step)
		tl_step(tl, tl->now);
}

void tl_ctx_remove(struct timeline *tl, struct tl_ctx *ctx)
{
	struct device *dev = &tl->dev[ctx->device];

	assert(!tl->in_step);
	tl_ctx_fail(tl, ctx);
	while (!list_empty(&ctx->streams))
		list_del(ctx->streams.next);
	if (dev->target == ctx)
		dev->target = NULL;
	if (dev->resident == ctx)
		dev->resident = NULL;
	dev->dirty = true;
	tl_step(tl, tl->now);
}

void tl_stream_add(struct timeline *tl, struct tl_stream *stream, struct tl_ctx *ctx)
{
	(void)tl;
	stream->ctx = ctx;
	list_add_before(&ctx->streams, &stream->link);
	if (stream->legacy)
		ctx->legacy = stream;
}

void tl_stream_remove(struct timeline *tl, struct tl_stream *stream)
{
	(void)tl;
	assert(!stream->head);
	list_del(&stream->link);
	if (stream->ctx->legacy == stream)
		stream->ctx->legacy = NULL;
}

/* ---- submission ---- */

static void op_init(struct tl_op *op)
{
	if (tl_is_linked(&op->out))
		return;
	list_init(&op->out);
	list_init(&op->in);
}

int tl_depend(struct timeline *tl, struct tl_op *op, struct tl_op *on)
{
	struct tl_edge *e = tl->free_edges;

	op_init(op);
	op_init(on);
	if (on->state == TL_DONE)
		return 0;
	if (e)
		tl->free_edges = e->next_free;
	else
		e = malloc(sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->from = on;
	e->to = op;
	list_add_before(&on->out, &e->out);
	list_add_before(&op->in, &e->in);
	op->blockers++;
	op->floor_ns = MAX(op->floor_ns, on->floor_ns);
	if (!op->hint || op->hint->floor_ns < on->floor_ns)
		op->hint = on;
	return 0;
}

void tl_undepend(struct timeline *tl, struct tl_op *op)
{
	op_init(op);
	while (!list_empty(&op->in))
		edge_drop(tl, IN(op->in.next));
	while (!list_empty(&op->out))
		edge_drop(tl, OUT(op->out.next));
}

/* Keeps the order between the legacy stream and the context's blocking streams. */
static int depend_on_streams(struct timeline *tl, struct tl_stream *stream, struct tl_op *op)
{
	struct tl_ctx *ctx = stream->ctx;
	struct tl_link *l;
	int r;

	if (!stream->legacy) {
		if (!stream->blocking || !ctx->legacy || !ctx->legacy->tail)
			return 0;
		return tl_depend(tl, op, ctx->legacy->tail);
	}
	for (l = ctx->streams.next; l != &ctx->streams; l = l->next) {
		struct tl_stream *s = CONTAINER_OF(l, struct tl_stream, link);

		if (s == stream || !s->blocking || !s->tail)
			continue;
		r = tl_depend(tl, op, s->tail);
		if (r < 0)
			return r;
	}
	return 0;
}

static uint64_t own_ns(const struct tl_op *op)
{
	switch (op->class) {
	case TL_COMPUTE:
	case TL_COPY_IN:
	case TL_COPY_OUT: return op->spin ? 1 : MAX(op->duration_ns, UINT64_C(1));
	case TL_GRAPH: return op->duration_ns;
	default: return 0;
	}
}

static void tl_admit(struct timeline *tl, struct tl_ctx *ctx, struct tl_op *op)
{
	op->ctx = ctx;
	op->order = tl->order++;
	op->state = TL_QUEUED;
	list_add_before(&ctx->all, &op->all);
	tl->live++;
	if (op->visible) {
		op->visible = false;
		tl_set_visible(tl, op);
	}
}

int tl_submit(struct timeline *tl, struct tl_stream *stream, struct tl_op *op)
{
	int r;

	op_init(op);
	op->stream = stream;
	op->priority = stream->priority;
	r = arrivals_reserve(&tl->arrivals, tl->live + 1 + op->nodes_left);
	if (r >= 0)
		r = depend_on_streams(tl, stream, op);
	if (r < 0) {
		tl_undepend(tl, op);
		return r;
	}
	tl_admit(tl, stream->ctx, op);
	for (struct tl_op *node = op->nodes; node; node = node->next) {
		node->priority = stream->priority;
		tl_admit(tl, stream->ctx, node);
	}
	op->floor_ns = MAX(op->floor_ns, op->submit_ns + tl->p.launch_ns);
	op->floor_ns = MAX(op->floor_ns, stream->tail ? stream->tail->floor_ns : tl->now);
	op->floor_ns += own_ns(op);
	stream->cum_ns += own_ns(op);
	op->cum_ns = stream->cum_ns;
	op->blockers++;
	if (stream->tail) {
		stream->tail->next = op;
		stream->tail = op;
	} else {
		stream->head = stream->tail = op;
		tl_unblock(tl, op);
	}
	return 0;
}

void tl_add_node(struct timeline *tl, struct tl_op *graph, struct tl_op *node)
{
	op_init(node);
	node->parent = graph;
	node->submit_ns = graph->submit_ns;
	node->next = graph->nodes;
	graph->nodes = node;
	graph->nodes_left++;
	node->blockers++;
}

/* ---- looking ahead ---- */

void tl_set_visible(struct timeline *tl, struct tl_op *op)
{
	struct tl_op *later = op->next;

	if (op->visible || op->state == TL_DONE)
		return;
	op->visible = true;
	/*
	 * Visible operations of a stream keep the stream's order, even if a client makes an earlier
	 * operation visible later.
	 */
	while (op->stream && later && !later->visible)
		later = later->next;
	list_add_before(op->stream && later ? &later->vis : &tl->visible, &op->vis);
}

struct tl_op *tl_visible(const struct timeline *tl, const struct tl_op *after)
{
	const struct tl_link *l = after ? after->vis.next : tl->visible.next;

	return l == &tl->visible ? NULL : OP(l, vis);
}

/* Returns a lower bound of the time at which the context can run. */
static uint64_t resident_bound(const struct timeline *tl, const struct tl_ctx *ctx)
{
	const struct device *dev = &tl->dev[ctx->device];
	const struct tl_ctx *res = dev->resident;
	uint64_t t = 0;

	if (dev->switching)
		return dev->target == ctx ? dev->switch_end : dev->switch_end + tl->p.switch_ns;
	if (res == ctx || !res)
		return tl->now;
	for (const struct tl_link *l = res->running.next; l != &res->running; l = l->next)
		if (!OP(l, queue)->spin)
			t = MAX(t, OP(l, queue)->end_ns);
	if (dev->contended)
		t = MIN(t, dev->slice_end);
	return MAX(tl->now, t) + tl->p.switch_ns;
}

/*
 * Returns the least time that the ready kernels before `op` take. Returns 0 if any of them takes
 * only a part of the device or spins.
 */
static uint64_t work_ahead(const struct tl_op *op)
{
	const struct tl_ctx *ctx = op->ctx;
	uint64_t sum = 0;

	for (const struct tl_link *l = ctx->ready.next; l != &ctx->ready && l != &op->queue;
		l = l->next) {
		const struct tl_op *o = OP(l, queue);

		if (o->permille < TL_FULL || o->spin)
			return 0;
		sum += o->duration_ns;
	}
	return sum;
}

/*
 * Returns a time before which the operation is not done. Clears *exact unless the operation ends
 * exactly then.
 */
static uint64_t done_bound(
	const struct timeline *tl, const struct tl_op *op, int depth, bool *exact)
{
	const struct tl_op *head;
	uint64_t t, floor = MAX(op->floor_ns, tl->now);
	const struct device *dev = &tl->dev[op->ctx->device];

	switch (op->state) {
	case TL_RUNNING:
		if (op->class != TL_COMPUTE || (dev->resident == op->ctx && !dev->switching)) {
			if (op->spin || op->phase == 1 ||
				(dev->contended && op->end_ns > dev->slice_end))
				*exact = false;
			return op->spin ? tl->now : op->end_ns;
		}
		*exact = false;
		if (op->spin)
			return tl->now;
		return resident_bound(tl, op->ctx) + op->remaining_ns;
	case TL_ARRIVING:
		if (op->class != TL_INSTANT)
			*exact = false;
		return MAX(floor, op->ready_ns + own_ns(op));
	case TL_READY:
		*exact = false;
		if (op->class != TL_COMPUTE)
			return floor;
		return MAX(floor, resident_bound(tl, op->ctx) + work_ahead(op) + own_ns(op));
	case TL_QUEUED:
		t = floor;
		head = op->stream ? op->stream->head : NULL;
		if (op->hint || !op->stream || op->class == TL_WAIT || op->class == TL_GRAPH)
			*exact = false;
		if (head && head != op) {
			if (head->next != op || own_ns(op))
				*exact = false;
			t = MAX(t,
				done_bound(tl, head, depth + 1, exact) + op->cum_ns - head->cum_ns);
		}
		if (op->hint && depth < 8)
			t = MAX(t, done_bound(tl, op->hint, depth + 1, exact) + own_ns(op));
		return t;
	default:
		*exact = false;
		return op->class == TL_GRAPH ? MAX(tl->now, op->start_ns + own_ns(op)) : tl->now;
	}
}

uint64_t tl_next_visible(struct timeline *tl, bool *ret_exact)
{
	uint64_t best = TL_NEVER, next = tl_next_event(tl);

	*ret_exact = false;
	tl->look++;
	for (const struct tl_op *op = tl_visible(tl, NULL); op; op = tl_visible(tl, op)) {
		bool exact = true;
		uint64_t t;

		/*
		 * Only the first operation of a stream matters, because the stream's later
		 * operations do not end before it.
		 */
		if (op->stream && op->stream->look == tl->look)
			continue;
		if (op->stream)
			op->stream->look = tl->look;
		t = MAX(done_bound(tl, op, 0, &exact), next);
		if (t < best || (t == best && exact)) {
			best = t;
			*ret_exact = exact && t != TL_NEVER;
		}
	}
	return best;
}

uint64_t tl_stream_bound(const struct timeline *tl, const struct tl_stream *stream)
{
	bool exact = true;

	return stream->tail ? done_bound(tl, stream->tail, 0, &exact) : tl->now;
}
