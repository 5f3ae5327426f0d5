/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated machine's time on a virtual clock: slices and switches, preemption, streams, the
 * legacy stream's barriers, dependencies, concurrency by SMs, spinning across devices, graphs,
 * and the promise of tl_next_visible(). Times are nanoseconds from 0; launch latency is 0 unless
 * a test says otherwise.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "simgpu/timeline.h"

#define MS NSEC_PER_MSEC
#define US NSEC_PER_USEC

struct op {
	struct tl_op op;
	uint64_t started, finished;
	bool done, aborted, released;
	unsigned int *flag;   /* WAIT, spin: wait until not 0; others: on_finish() sets it */
	uint64_t length_ns;   /* a spin whose flag is set takes this time instead */
	struct tl_ctx *fails; /* on_finish() fails this context */
	struct op *after;     /* this operation must be done before `op` starts */
	uint64_t extra;
};

struct world {
	struct timeline *tl;
	struct tl_ctx ctx[4];
	struct tl_stream stream[8];
	uint64_t busy[4]; /* compute time of each context */
	uint64_t switches, switch_ns;
	uint64_t pieces;
	uint64_t last_end[TL_MAX_DEVICES];
	/* how often work of one context began while work of another ran on the same device */
	int overlaps;
	struct tl_ctx *last_ctx[TL_MAX_DEVICES];
};

static uint64_t on_start(void *user, struct tl_op *op, uint64_t t)
{
	struct op *o = CONTAINER_OF(op, struct op, op);

	o->started = t;
	if (o->after)
		assert_true(o->after->done);
	return o->extra;
}

static bool on_ready(void *user, struct tl_op *op, uint64_t t)
{
	const struct op *o = CONTAINER_OF(op, struct op, op);

	if (*o->flag && o->length_ns)
		return !tl_set_length(((struct world *)user)->tl, op, o->length_ns);
	return *o->flag != 0;
}

static bool on_finish(void *user, struct tl_op *op, uint64_t t)
{
	struct world *w = user;
	struct op *o = CONTAINER_OF(op, struct op, op);

	assert_false(o->done);
	o->done = true;
	o->aborted = op->aborted;
	o->finished = t;
	if (o->fails)
		tl_ctx_fail(w->tl, o->fails);
	if (op->aborted || !o->flag || op->spin || op->class == TL_WAIT)
		return false;
	*o->flag = 1;
	return true;
}

static void on_release(void *user, struct tl_op *op)
{
	struct op *o = CONTAINER_OF(op, struct op, op);

	assert_true(o->done);
	assert_false(o->released);
	o->released = true;
}

static void on_piece(void *user, const struct tl_piece *p)
{
	struct world *w = user;

	if (p->engine != TL_ENGINE_COMPUTE)
		return;
	w->pieces++;
	if (!p->op) {
		w->switches++;
		w->switch_ns += p->end_ns - p->start_ns;
	} else if (!p->extra) {
		w->busy[p->ctx - w->ctx] += p->end_ns - p->start_ns;
	}
	if (w->last_ctx[p->device] != p->ctx && p->start_ns < w->last_end[p->device])
		w->overlaps++;
	w->last_ctx[p->device] = (struct tl_ctx *)p->ctx;
	w->last_end[p->device] = MAX(w->last_end[p->device], p->end_ns);
}

static void world_init(struct world *w, uint64_t launch_ns)
{
	struct tl_params params = {
		.devices = 2, .slice_ns = 2 * MS, .switch_ns = 150 * US, .launch_ns = launch_ns};
	struct tl_hooks hooks = {w, on_start, on_ready, on_finish, on_release, on_piece};

	memset(w, 0, sizeof(*w));
	assert_int_equal(tl_new(&params, &hooks, 0, &w->tl), 0);
	/*
	 * Contexts 0 to 2 are on device 0, context 3 is on device 1. Streams 0 to 3 belong to the
	 * context of the same number, streams 4 to 7 to context 0.
	 */
	for (int i = 0; i < 4; i++)
		tl_ctx_add(w->tl, &w->ctx[i], i == 3);
	for (int i = 0; i < 8; i++) {
		w->stream[i].blocking = true;
		tl_stream_add(w->tl, &w->stream[i], &w->ctx[i < 4 ? i : 0]);
	}
}

static void world_done(struct world *w)
{
	for (int i = 0; i < 4; i++)
		tl_ctx_remove(w->tl, &w->ctx[i]);
	assert_true(tl_is_idle(w->tl));
	assert_int_equal(w->overlaps, 0);
	tl_free(w->tl);
}

static void submit(struct world *w, int stream, struct op *o)
{
	if (!o->op.permille)
		o->op.permille = TL_FULL;
	assert_int_equal(tl_submit(w->tl, &w->stream[stream], &o->op), 0);
}

#define KERNEL(ns, ...) \
	{ \
		.op = {.class = TL_COMPUTE, .duration_ns = (ns)}, ##__VA_ARGS__ \
	}

static void test_fifo_and_latency(void **state)
{
	struct world w;
	struct op a = KERNEL(100 * US), b = KERNEL(50 * US), c = KERNEL(10 * US);

	world_init(&w, 4 * US);
	b.op.submit_ns = 10 * US;
	c.op.submit_ns = 400 * US;
	submit(&w, 0, &a);
	submit(&w, 0, &b);
	submit(&w, 0, &c);
	tl_advance(w.tl, 1 * MS);
	assert_int_equal(a.started, 4 * US);
	assert_int_equal(a.finished, 104 * US);
	assert_int_equal(b.started, 104 * US); /* b's launch latency passes while a runs */
	assert_int_equal(b.finished, 154 * US);
	assert_int_equal(c.started, 404 * US);
	assert_true(a.released && b.released && c.released);
	world_done(&w);
}

static void test_lazy_equals_eager(void **state)
{
	uint64_t ends[2][20];

	/*
	 * Both runs have the same submissions. The timeline advances every 7 us, or only once at
	 * the end.
	 */
	for (int lazy = 0; lazy < 2; lazy++) {
		struct world w;
		struct op ops[20];

		world_init(&w, 3 * US);
		memset(ops, 0, sizeof(ops));
		for (int i = 0; i < 20; i++) {
			ops[i].op.class = TL_COMPUTE;
			ops[i].op.submit_ns = (uint64_t)i * 40 * US;
			ops[i].op.duration_ns = (uint64_t)(1 + i % 5) * 100 * US;
		}
		for (int i = 0; i < 20; i++) {
			while (!lazy && tl_now(w.tl) + 7 * US < ops[i].op.submit_ns)
				tl_advance(w.tl, tl_now(w.tl) + 7 * US);
			submit(&w, i % 3, &ops[i]);
		}
		tl_advance(w.tl, 100 * MS);
		for (int i = 0; i < 20; i++) {
			assert_true(ops[i].done);
			ends[lazy][i] = ops[i].finished;
		}
		world_done(&w);
	}
	assert_memory_equal(ends[0], ends[1], sizeof(ends[0]));
}

static void test_slices(void **state)
{
	enum { N = 4000 };
	struct world w;
	struct op *ops = calloc(2 * N, sizeof(*ops));

	world_init(&w, 0);
	for (int i = 0; i < 2 * N; i++) {
		ops[i].op.class = TL_COMPUTE;
		ops[i].op.duration_ns = 500 * US;
		submit(&w, i % 2, &ops[i]);
	}
	tl_advance(w.tl, 1000 * MS);
	/*
	 * With slices of 2000 us and switches of 150 us, both together get 2000 / 2150 = 93.0 % of
	 * the time, and each gets half of that.
	 */
	assert_in_range(w.busy[0] + w.busy[1], 928 * MS, 932 * MS);
	assert_in_range(w.busy[0], 462 * MS, 468 * MS);
	assert_in_range(w.switches, 464, 466);
	assert_int_equal(w.switch_ns, w.switches * 150 * US);
	world_done(&w);
	free(ops);
}

static void test_preempts_mid_kernel(void **state)
{
	struct world w;
	struct op big = KERNEL(100 * MS), small = KERNEL(1 * MS);

	world_init(&w, 0);
	small.op.submit_ns = 10 * MS + 500 * US;
	submit(&w, 0, &big);
	submit(&w, 1, &small);
	tl_advance(w.tl, 200 * MS);
	/* The resident's slice ends at the next multiple of 2 ms. */
	assert_int_equal(small.started, 12 * MS + 150 * US);
	assert_int_equal(small.finished, 13 * MS + 150 * US);
	/* big has run for 12 ms, and continues 150 us after small has ended */
	assert_int_equal(big.finished, 13 * MS + 300 * US + 88 * MS);
	assert_int_equal(w.busy[0], 100 * MS);
	assert_int_equal(w.switches, 2);
	world_done(&w);
}

static void test_idle_context_gives_way(void **state)
{
	struct world w;
	struct op a = KERNEL(300 * US), b = KERNEL(1 * MS), c = KERNEL(1 * MS);

	world_init(&w, 0);
	submit(&w, 0, &a);
	submit(&w, 1, &b);
	tl_advance(w.tl, 10 * MS);
	assert_int_equal(a.finished, 300 * US);
	assert_int_equal(b.started, 450 * US);
	/* The context of b is still resident, so c needs no switch. */
	c.op.submit_ns = 20 * MS;
	submit(&w, 1, &c);
	tl_advance(w.tl, 30 * MS);
	assert_int_equal(c.started, 20 * MS);
	world_done(&w);
}

static void test_concurrency(void **state)
{
	struct world w;
	struct op a = KERNEL(1 * MS), b = KERNEL(1 * MS), c = KERNEL(1 * MS), d = KERNEL(1 * MS);

	world_init(&w, 0);
	a.op.permille = 400;
	b.op.permille = 400;
	c.op.permille = 400;
	d.op.permille = 100;
	submit(&w, 0, &a);
	submit(&w, 4, &b);
	submit(&w, 5, &c);
	submit(&w, 6, &d); /* d would fit, but kernels start in order, so not before c */
	tl_advance(w.tl, 10 * MS);
	assert_int_equal(a.started, 0);
	assert_int_equal(b.started, 0);
	assert_int_equal(c.started, 1 * MS);
	assert_int_equal(d.started, 1 * MS);
	world_done(&w);
}

static void test_priority(void **state)
{
	struct world w;
	struct op a = KERNEL(1 * MS), low = KERNEL(1 * MS), high = KERNEL(1 * MS);

	world_init(&w, 0);
	w.stream[5].priority = -5;
	submit(&w, 0, &a);
	submit(&w, 4, &low);
	submit(&w, 5, &high);
	tl_advance(w.tl, 10 * MS);
	assert_int_equal(high.started, 0);
	assert_int_equal(low.started, 2 * MS);
	world_done(&w);
}

static void test_events(void **state)
{
	struct world w;
	struct op a = KERNEL(3 * MS), b = KERNEL(1 * MS), other = KERNEL(1 * MS);
	struct op record = {.op = {.class = TL_INSTANT}}, wait = {.op = {.class = TL_INSTANT}};

	/* Stream 3 waits for an event of another context on another device. */
	world_init(&w, 0);
	submit(&w, 0, &a);
	submit(&w, 0, &record);
	assert_int_equal(tl_depend(w.tl, &wait.op, &record.op), 0);
	submit(&w, 3, &wait);
	submit(&w, 3, &b);
	submit(&w, 1, &other);
	tl_advance(w.tl, 20 * MS);
	assert_true(record.finished >= a.finished);
	assert_int_equal(record.finished, a.finished);
	assert_int_equal(b.started, a.finished);
	world_done(&w);
}

static void test_legacy_barrier(void **state)
{
	struct world w;
	struct tl_stream legacy = {.legacy = true, .blocking = true};
	struct op a = KERNEL(1 * MS), b = KERNEL(2 * MS), n = KERNEL(4 * MS), l = KERNEL(1 * MS);
	struct op c = KERNEL(1 * MS), m = KERNEL(1 * MS);

	world_init(&w, 0);
	w.stream[6].blocking = false;
	tl_stream_add(w.tl, &legacy, &w.ctx[0]);
	a.op.permille = b.op.permille = n.op.permille = 200;
	l.op.permille = c.op.permille = m.op.permille = 200;
	submit(&w, 4, &a);
	submit(&w, 5, &b);
	submit(&w, 6, &n); /* stream 6 is non-blocking */
	assert_int_equal(tl_submit(w.tl, &legacy, &l.op), 0);
	submit(&w, 4, &c);
	submit(&w, 6, &m);
	tl_advance(w.tl, 20 * MS);
	assert_int_equal(l.started, 2 * MS); /* after a and b; l does not wait for n */
	assert_int_equal(c.started, 3 * MS); /* after l */
	assert_int_equal(m.started, 4 * MS); /* after n; m does not wait for l */
	world_done(&w);
}

static void test_spin_across_devices(void **state)
{
	struct world w;
	unsigned int flag_a = 0, flag_b = 0;
	struct op spin = KERNEL(TL_NEVER / 2, .flag = &flag_a);
	struct op work = KERNEL(5 * MS, .flag = &flag_a), set = KERNEL(1 * US, .flag = &flag_b);
	struct op wait = {.op = {.class = TL_WAIT}, .flag = &flag_b};
	struct op after = KERNEL(1 * MS);

	/*
	 * A kernel on device 0 spins until a kernel on device 1 sets its flag. A value wait on
	 * device 1 then waits for device 0.
	 */
	world_init(&w, 0);
	spin.op.spin = true;
	submit(&w, 0, &spin);
	submit(&w, 0, &set);
	submit(&w, 3, &work);
	submit(&w, 3, &wait);
	submit(&w, 3, &after);
	tl_advance(w.tl, 4 * MS);
	assert_true(tl_is_waiting(w.tl));
	assert_false(spin.done);
	tl_advance(w.tl, 20 * MS);
	assert_int_equal(spin.finished, 5 * MS);
	assert_int_equal(set.finished, 5 * MS + 1 * US);
	assert_int_equal(wait.finished, 5 * MS + 1 * US);
	assert_int_equal(after.started, 5 * MS + 1 * US);
	assert_false(tl_is_waiting(w.tl));
	world_done(&w);
}

static void test_spin_needs_residence(void **state)
{
	struct world w;
	unsigned int flag = 0;
	struct op spin = KERNEL(TL_NEVER / 2, .flag = &flag);
	struct op set = KERNEL(500 * US, .flag = &flag);

	/*
	 * Two contexts share one device. The spinning kernel uses its slice up, and sees the flag
	 * when its context is resident again.
	 */
	world_init(&w, 0);
	spin.op.spin = true;
	submit(&w, 0, &spin);
	submit(&w, 1, &set);
	tl_advance(w.tl, 20 * MS);
	assert_int_equal(set.finished, 2 * MS + 150 * US + 500 * US);
	assert_int_equal(spin.finished, set.finished + 150 * US);
	assert_int_equal(w.busy[0], 2 * MS);
	world_done(&w);
}

static void test_spin_gets_a_length(void **state)
{
	struct world w;
	unsigned int flag = 0;
	struct op early = KERNEL(TL_NEVER / 4, .flag = &flag, .length_ns = 5 * MS);
	struct op late = KERNEL(TL_NEVER / 4, .flag = &flag, .length_ns = 1 * MS);

	/* The first kernel's flag is set before its length is over, and the second's after. */
	world_init(&w, 0);
	early.op.spin = late.op.spin = true;
	submit(&w, 0, &early);
	tl_advance(w.tl, 2 * MS);
	flag = 1;
	tl_recheck(w.tl);
	tl_advance(w.tl, 20 * MS);
	assert_int_equal(early.finished - early.started, 5 * MS);
	flag = 0;
	submit(&w, 0, &late);
	tl_advance(w.tl, 23 * MS);
	flag = 1;
	tl_recheck(w.tl);
	tl_advance(w.tl, 30 * MS);
	assert_int_equal(late.finished, 23 * MS);
	world_done(&w);
}

static void test_recheck_from_outside(void **state)
{
	struct world w;
	unsigned int flag = 0;
	struct op wait = {.op = {.class = TL_WAIT}, .flag = &flag};
	struct op after = KERNEL(1 * MS);

	world_init(&w, 0);
	submit(&w, 0, &wait);
	submit(&w, 0, &after);
	tl_advance(w.tl, 3 * MS);
	flag = 1;
	tl_recheck(w.tl);
	tl_advance(w.tl, 10 * MS);
	assert_int_equal(wait.finished, 3 * MS);
	assert_int_equal(after.started, 3 * MS);
	world_done(&w);
}

static void test_copies_beside_compute(void **state)
{
	struct world w;
	struct op k = KERNEL(4 * MS);
	struct op in = {.op = {.class = TL_COPY_IN, .duration_ns = 1 * MS}};
	struct op in2 = {.op = {.class = TL_COPY_IN, .duration_ns = 1 * MS}};
	struct op out = {.op = {.class = TL_COPY_OUT, .duration_ns = 1 * MS}};

	world_init(&w, 0);
	submit(&w, 1, &k);
	submit(&w, 4, &in);
	submit(&w, 5, &in2);
	submit(&w, 6, &out);
	tl_advance(w.tl, 10 * MS);
	assert_int_equal(in.finished, 1 * MS);
	assert_int_equal(in2.finished, 2 * MS);
	assert_int_equal(out.finished, 1 * MS);
	assert_int_equal(k.finished, 4 * MS);
	world_done(&w);
}

static void test_external(void **state)
{
	struct world w;
	struct op host = {.op = {.class = TL_EXTERNAL}}, after = KERNEL(1 * MS);

	world_init(&w, 0);
	submit(&w, 0, &host);
	submit(&w, 0, &after);
	tl_advance(w.tl, 5 * MS);
	assert_false(host.done);
	tl_finish_external(w.tl, &host.op, 7 * MS);
	tl_advance(w.tl, 20 * MS);
	assert_int_equal(host.finished, 7 * MS);
	assert_int_equal(after.started, 7 * MS);
	world_done(&w);
}

static void test_graph(void **state)
{
	struct world w;
	struct op g = {.op = {.class = TL_GRAPH}}, after = KERNEL(1 * MS), before = KERNEL(1 * MS);
	struct op a = KERNEL(1 * MS), b = KERNEL(2 * MS), c = KERNEL(3 * MS), d = KERNEL(1 * MS);
	struct op empty = {.op = {.class = TL_GRAPH}};

	/* a -> {b, c} -> d; b and c run at the same time */
	world_init(&w, 0);
	b.after = c.after = &a;
	d.after = &c;
	a.op.permille = b.op.permille = c.op.permille = d.op.permille = 500;
	tl_add_node(w.tl, &g.op, &a.op);
	tl_add_node(w.tl, &g.op, &b.op);
	tl_add_node(w.tl, &g.op, &c.op);
	tl_add_node(w.tl, &g.op, &d.op);
	assert_int_equal(tl_depend(w.tl, &b.op, &a.op), 0);
	assert_int_equal(tl_depend(w.tl, &c.op, &a.op), 0);
	assert_int_equal(tl_depend(w.tl, &d.op, &b.op), 0);
	assert_int_equal(tl_depend(w.tl, &d.op, &c.op), 0);
	submit(&w, 0, &before);
	submit(&w, 0, &g);
	submit(&w, 0, &empty);
	submit(&w, 0, &after);
	tl_advance(w.tl, 20 * MS);
	assert_int_equal(a.started, 1 * MS);
	assert_int_equal(b.started, 2 * MS);
	assert_int_equal(c.started, 2 * MS);
	assert_int_equal(d.started, 5 * MS);
	assert_int_equal(g.finished, 6 * MS);
	assert_int_equal(after.started, 6 * MS);
	assert_true(g.released && a.released && d.released);
	world_done(&w);
}

static void test_extra_time(void **state)
{
	struct world w;
	struct op k = KERNEL(1 * MS, .extra = 2 * MS);

	world_init(&w, 0);
	submit(&w, 0, &k);
	tl_advance(w.tl, 10 * MS);
	assert_int_equal(k.finished, 3 * MS);
	assert_int_equal(w.busy[0], 1 * MS);
	world_done(&w);
}

static void test_failing_context(void **state)
{
	struct world w;
	struct op bad = KERNEL(1 * MS), next = KERNEL(1 * MS), beside = KERNEL(9 * MS);
	struct op wait = {.op = {.class = TL_INSTANT}}, other = KERNEL(1 * MS);
	struct op waits_for_other = {.op = {.class = TL_INSTANT}}, later = KERNEL(1 * MS);

	/*
	 * A fault ends all work of its context. Operations of other contexts that waited for this
	 * work continue.
	 */
	world_init(&w, 0);
	bad.fails = &w.ctx[0];
	bad.op.permille = beside.op.permille = 300;
	later.op.submit_ns = 15 * MS;
	submit(&w, 0, &bad);
	submit(&w, 0, &next);
	submit(&w, 4, &beside);
	assert_int_equal(tl_depend(w.tl, &wait.op, &beside.op), 0);
	submit(&w, 3, &wait);
	submit(&w, 3, &other);
	assert_int_equal(tl_depend(w.tl, &waits_for_other.op, &other.op), 0);
	submit(&w, 5, &waits_for_other);
	submit(&w, 6, &later);
	tl_advance(w.tl, 20 * MS);
	assert_false(bad.aborted);
	assert_true(next.aborted && beside.aborted && waits_for_other.aborted && later.aborted);
	assert_int_equal(beside.finished, 1 * MS);
	assert_true(other.done && !other.aborted);
	assert_int_equal(other.started, 1 * MS);
	world_done(&w);
}

static void test_removal_frees_the_device(void **state)
{
	struct world w;
	struct op hog = KERNEL(TL_NEVER / 2), spin = KERNEL(1 * MS);

	world_init(&w, 0);
	submit(&w, 0, &hog);
	tl_advance(w.tl, 1 * MS);
	submit(&w, 1, &spin);
	tl_advance(w.tl, 1 * MS + 10 * US);
	tl_ctx_remove(w.tl, &w.ctx[0]);
	assert_true(hog.aborted && hog.released);
	tl_advance(w.tl, 10 * MS);
	assert_int_equal(spin.started, 1 * MS + 10 * US + 150 * US);
	tl_ctx_add(w.tl, &w.ctx[0], 0);
	world_done(&w);
}

/*
 * Random work, driven only at the times of tl_next_visible(): no visible operation is done before
 * the returned time, and an exact time has a visible operation that ends then.
 */
static void test_visible_bound(void **state)
{
	enum { N = 300 };
	unsigned int seed = 20240917;

	for (int round = 0; round < 30; round++) {
		struct world w;
		struct op *ops = calloc(N, sizeof(*ops));

		world_init(&w, 2 * US);
		for (int i = 0; i < N; i++) {
			unsigned int r = (unsigned int)rand_r(&seed);
			struct tl_op *op = &ops[i].op;

			op->class = r % 3 ? TL_COMPUTE : r % 2 ? TL_INSTANT : TL_COPY_IN;
			op->permille = (uint16_t)(r % 7 ? TL_FULL : 1 + r % TL_FULL);
			op->duration_ns = op->class == TL_INSTANT ? 0 : (1 + r % 300) * US;
			op->visible = r % 5 == 0;
			if (i && r % 11 == 0)
				assert_int_equal(tl_depend(w.tl, op, &ops[i - 1].op), 0);
			submit(&w, (int)(r >> 8) % 8, &ops[i]);
		}
		tl_advance(w.tl, 0);
		/*
		 * A client may await an operation that precedes a visible operation in its stream.
		 */
		for (int i = 0; i < N / 5; i++)
			tl_set_visible(w.tl, &ops[rand_r(&seed) % N].op);
		for (;;) {
			bool exact;
			uint64_t t = tl_next_visible(w.tl, &exact);
			struct tl_op *first = tl_visible(w.tl, NULL);
			size_t left = 0;

			if (t == TL_NEVER)
				break;
			for (struct tl_op *op = first; op; op = tl_visible(w.tl, op))
				left++;
			tl_advance(w.tl, t - 1);
			for (struct tl_op *op = tl_visible(w.tl, NULL); op;
				op = tl_visible(w.tl, op))
				left--;
			assert_int_equal(left, 0);
			tl_advance(w.tl, t);
			if (exact) {
				bool some = false;

				for (int i = 0; i < N; i++)
					some |= ops[i].done && ops[i].op.visible &&
						ops[i].finished == t;
				assert_true(some);
			}
		}
		for (int i = 0; i < N; i++)
			assert_true(ops[i].done || !ops[i].op.visible);
		world_done(&w);
		free(ops);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fifo_and_latency),
		cmocka_unit_test(test_lazy_equals_eager),
		cmocka_unit_test(test_slices),
		cmocka_unit_test(test_preempts_mid_kernel),
		cmocka_unit_test(test_idle_context_gives_way),
		cmocka_unit_test(test_concurrency),
		cmocka_unit_test(test_priority),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_legacy_barrier),
		cmocka_unit_test(test_spin_across_devices),
		cmocka_unit_test(test_spin_needs_residence),
		cmocka_unit_test(test_spin_gets_a_length),
		cmocka_unit_test(test_recheck_from_outside),
		cmocka_unit_test(test_copies_beside_compute),
		cmocka_unit_test(test_external),
		cmocka_unit_test(test_graph),
		cmocka_unit_test(test_extra_time),
		cmocka_unit_test(test_failing_context),
		cmocka_unit_test(test_removal_frees_the_device),
		cmocka_unit_test(test_visible_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
