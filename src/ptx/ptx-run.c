/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs kernels: threads take blocks, a block runs its warps in turn, and a warp runs the lanes that
 * are at the same instruction together.
 *
 * Lanes that part at a branch become fragments. Of the fragments in the deepest function, the one
 * with the lowest instruction runs, and fragments that meet at a label become one again. This order
 * brings lanes together after loops and conditions, without an analysis of the program, in every
 * layout of compilers where a join lies behind its branches. Where it does not, the lanes still
 * compute the same. A fragment that loops for long yields to the others, so a lane that holds a
 * lock makes progress while other lanes of its warp wait for the lock.
 *
 * Blocks start in order. A block that does not end soon (it may wait for a later one) shares its
 * thread with further blocks.
 */
#include "ptx/ptx-internal.h"

#include <errno.h>
#include <stdlib.h>

#include "ptx/ptx-ops.h"

enum {
	SLICE_STEPS = 8192,         /* of a warp, before the next warp runs */
	PAUSE_STEPS = 16384,        /* of a thread, between calls of device->pause */
	PATIENCE = 512,             /* jumps back of a fragment while others wait */
	ALONE_TURNS = 256,          /* turns of a block before others join it */
	STACK_BYTES = 64 << 10,     /* default of ptx_device.stack_bytes */
	RESIDENT_MAX = 64,          /* default of ptx_device.resident_max */
	FRAMES_BYTES_MAX = 1 << 28, /* registers of the functions that one warp has called */
	DEPTH_MAX = 8192,
	TAKE_BYTES = 1 << 20, /* memory that a thread takes at once */
};

/* ---- memory ---- */

static bool worker_take(struct worker *worker, uint64_t bytes, bool is_spare)
{
	const struct ptx_memory *memory = worker->job->device->memory;
	uint64_t more;

	if (!memory)
		return true;
	if (worker->spare < bytes) {
		more = (bytes - worker->spare + TAKE_BYTES - 1) / TAKE_BYTES * TAKE_BYTES;
		if (!memory->take(memory->user, more, is_spare))
			return false;
		worker->spare += more;
		worker->taken += more;
	}
	worker->spare -= bytes;
	return true;
}

/* The memory of a block that has ended stays with the thread until the thread leaves the job. */
static void worker_give(struct worker *worker, uint64_t bytes)
{
	if (worker->job->device->memory)
		worker->spare += bytes;
}

/* Gives back everything: blocks, and frames that a fault has left behind. */
static void worker_leave(struct worker *worker)
{
	const struct ptx_memory *memory = worker->job->device->memory;

	if (worker->taken)
		memory->give(memory->user, worker->taken);
}

/* ---- faults ---- */

/* Ends the job with a fault that belongs to no instruction. */
static void job_end(struct ptx_job *job, enum ptx_fault fault)
{
	uint32_t none = 0;

	atomic_compare_exchange_strong(&job->fault, &none, (uint32_t)fault);
	atomic_store(&job->cancel, 1);
}

void warp_fault(struct warp *w, const struct insn *in, enum ptx_fault fault, uint64_t address)
{
	struct ptx_job *job = w->worker->job;
	uint32_t none = 0;

	if (atomic_compare_exchange_strong(&job->fault, &none, (uint32_t)fault)) {
		atomic_store(&job->fault_line, in ? in->line : 0);
		atomic_store(&job->fault_address, address);
	}
	atomic_store(&job->cancel, 1);
}

/* ---- fragments ---- */

static void warp_enter(struct warp *w, struct frame *frame)
{
	w->frame = frame;
	w->regs = frame->regs;
	w->consts = frame->func->consts;
}

static void frag_remove(struct warp *w, uint32_t i)
{
	w->n_frags--;
	if (w->current == w->n_frags)
		w->current = i;
	w->frags[i] = w->frags[w->n_frags];
}

static struct frag *frag_add(
	struct warp *w, struct frame *frame, const struct insn *ip, uint32_t mask)
{
	struct frag *f = &w->frags[w->n_frags++];

	*f = (struct frag){.frame = frame, .ip = ip, .mask = mask, .state = FRAG_RUN};
	return f;
}

static bool frag_is_before(const struct warp *w, const struct frag *a, const struct frag *b)
{
	bool is_a_preferred = (a->mask & w->prefer) != 0;
	bool is_b_preferred = (b->mask & w->prefer) != 0;

	if (is_a_preferred != is_b_preferred)
		return is_a_preferred;
	if (a->frame->depth != b->frame->depth)
		return a->frame->depth > b->frame->depth;
	return a->ip < b->ip;
}

/* Chooses the fragment to run; false: all wait or have exited. */
static bool warp_choose(struct warp *w)
{
	const struct frag *best = NULL;

	for (uint32_t i = 0; i < w->n_frags; i++) {
		struct frag *f = &w->frags[i];

		if (f->state == FRAG_RUN && (!best || frag_is_before(w, f, best)))
			best = f;
	}
	/*
	 * Lanes wait for others of their member mask that have exited or wait elsewhere. The result
	 * is undefined on hardware; here the lanes that are present continue.
	 */
	for (uint32_t i = 0; !best && i < w->n_frags; i++) {
		struct frag *f = &w->frags[i];

		if (f->state == FRAG_WARP) {
			f->state = FRAG_RUN;
			f->barrier = 1; /* forced */
			best = f;
		}
	}
	if (!best)
		return false;
	w->current = (uint32_t)(best - w->frags);
	return true;
}

/* Joins the fragments that are at the same instruction as the present one. */
static void warp_join(struct warp *w)
{
	for (uint32_t i = 0; i < w->n_frags;) {
		struct frag *f = &w->frags[w->current], *g = &w->frags[i];

		if (i != w->current && g->frame == f->frame && g->ip == f->ip &&
			g->state != FRAG_BARRIER) {
			f->mask |= g->mask;
			frag_remove(w, i);
		} else {
			i++;
		}
	}
}

/* A fragment has jumped back often while others wait: another one runs for a while. */
static void warp_rotate(struct warp *w)
{
	w->patience = PATIENCE;
	for (uint32_t k = 1; k < w->n_frags; k++) {
		const struct frag *f = &w->frags[(w->current + k) % w->n_frags];

		if (f->state == FRAG_RUN) {
			w->prefer = f->mask;
			return;
		}
	}
	w->prefer = 0;
}

/* ---- barriers ---- */

static void barrier_result(struct warp *w, struct frag *f, const struct barrier *b)
{
	const struct insn *in = f->ip;
	const struct extra *x = in->x;

	warp_enter(w, f->frame);
	switch ((enum barrier_op)x->op) {
	case BARRIER_POPC:
		FOR_LANES(i, f->mask)
		((uint32_t *)REG(w, in->d))[i] = b->count_true;
		break;
	case BARRIER_AND:
		pred_write(w, in->d, f->mask, b->count_true >= b->waiting ? MASK_ALL : 0);
		break;
	case BARRIER_OR: pred_write(w, in->d, f->mask, b->count_true ? MASK_ALL : 0); break;
	default: break;
	}
}

static void barrier_check(struct block *block, uint32_t id)
{
	struct barrier *b = &block->barriers[id];
	uint32_t expected = b->expected ? b->expected : block->live_threads;

	if (b->arrived == 0 || b->arrived < expected)
		return;
	for (uint32_t k = 0; k < block->n_warps; k++) {
		struct warp *w = &block->warps[k];

		for (uint32_t i = 0; i < w->n_frags; i++) {
			struct frag *f = &w->frags[i];

			if (f->state != FRAG_BARRIER || f->barrier != id)
				continue;
			barrier_result(w, f, b);
			f->ip++;
			f->state = FRAG_RUN;
			f->barrier = 0;
		}
	}
	*b = (struct barrier){0};
	block->has_progress = true;
}

/* Returns whether the fragment goes on at once. */
static bool barrier_arrive(struct warp *w, struct frag *f, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	const uint32_t lane = (uint32_t)__builtin_ctz(mask);
	uint32_t id = ((const uint32_t *)REG(w, x->ops[0]))[lane];
	uint32_t n = (uint32_t)__builtin_popcount(mask), count = 0;
	struct block *block = w->block;
	struct barrier *b;

	/* a program has the resources 0 to 15 */
	if (id >= BARRIERS || (id == BARRIER_CLUSTER && !x->flag_a)) {
		warp_fault(w, in, PTX_ILLEGAL_INSTRUCTION, 0);
		return false;
	}
	b = &block->barriers[id];
	if (x->ops[1] != OPERAND_NONE) {
		count = ((const uint32_t *)REG(w, x->ops[1]))[lane];
		/* counts are of whole warps: lanes that do not exist count, too */
		if ((mask | w->idle) == MASK_ALL)
			n = LANES;
	}
	b->expected = count;
	b->arrived += n;
	block->has_progress = true;
	if (in->a != OPERAND_NONE)
		b->count_true += (uint32_t)__builtin_popcount(pred_read(w, in->a) & mask);
	if (x->op == BARRIER_ARRIVE) {
		f->ip = in + 1;
		barrier_check(block, id);
		return true;
	}
	b->waiting += (uint32_t)__builtin_popcount(mask);
	f->ip = in;
	f->state = FRAG_BARRIER;
	f->barrier = (uint8_t)id;
	barrier_check(block, id);
	return false;
}

static void warp_exit_lanes(struct warp *w, uint32_t mask)
{
	struct block *block = w->block;

	w->live &= ~mask;
	w->idle |= mask;
	block->live_threads -= (uint32_t)__builtin_popcount(mask);
	block->has_progress = true;
	for (uint32_t i = 0; i < BARRIERS; i++)
		if (block->barriers[i].arrived)
			barrier_check(block, i);
}

/* ---- calls ---- */

/* Bytes of a frame before its registers. */
#define FRAME_HEAD ((sizeof(struct frame) + 63) & ~(size_t)63)

static uint8_t *param_at(struct warp *w, struct frame *frame, const struct param *p, uint32_t lane)
{
	if (p->reg != OPERAND_NONE)
		return frame->regs + p->reg + lane * p->reg_bytes;
	return w->local + lane * w->local_stride + frame->local_base + p->offset;
}

static void params_copy(struct warp *w, struct frame *to, const struct param *to_params,
	struct frame *from, const struct param *from_params, uint32_t n, uint32_t mask)
{
	for (uint32_t k = 0; k < n; k++) {
		uint32_t bytes = to_params[k].bytes < from_params[k].bytes ? to_params[k].bytes
									   : from_params[k].bytes;

		FOR_LANES(i, mask)
		memcpy(param_at(w, to, &to_params[k], i), param_at(w, from, &from_params[k], i),
			bytes);
	}
}

/*
 * Returns aligned memory and what to free. It is zeroed, as the heap may have data of other
 * programs that use the device.
 */
static void *regs_new(size_t bytes, void **ret_memory)
{
	enum { ALIGN = 64 };
	uint8_t *p = calloc(1, ((bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1)) + ALIGN);

	*ret_memory = p;
	return p ? p + (-(uintptr_t)p & (ALIGN - 1)) : NULL;
}

/* The end of the local memory that some lanes use. */
static uint32_t frame_top(const struct frame *f, uint32_t mask)
{
	uint32_t top = f->local_top;

	if (f->func->has_alloca)
		FOR_LANES(i, mask)
	top = f->tops[i] > top ? f->tops[i] : top;
	return top;
}

static void frame_set_tops(struct frame *f)
{
	for (uint32_t i = 0; f->func->has_alloca && i < LANES; i++)
		f->tops[i] = f->local_top;
}

static struct frame *frame_new(
	struct warp *w, const struct insn *in, const struct func *func, uint32_t mask)
{
	struct frame *parent = w->frame, *f;
	uint32_t base = (frame_top(parent, mask) + 15) & ~15u;
	const size_t head = FRAME_HEAD;
	void *memory;

	if (parent->depth == DEPTH_MAX || base + 16 > w->worker->job->local_bytes ||
		func->local_bytes > w->worker->job->local_bytes - base - 16 ||
		w->frames_bytes + func->reg_bytes > FRAMES_BYTES_MAX) {
		warp_fault(w, in, PTX_STACK_ERROR, 0);
		return NULL;
	}
	f = worker_take(w->worker, head + func->reg_bytes, false)
		? regs_new(head + func->reg_bytes, &memory)
		: NULL;
	if (!f) {
		warp_fault(w, in, PTX_OUT_OF_MEMORY, 0);
		return NULL;
	}
	w->frames_bytes += func->reg_bytes;
	*f = (struct frame){
		.parent = parent,
		.func = func,
		.call = in,
		.regs = (uint8_t *)f + head,
		.memory = memory,
		.mask = mask,
		.local_base = base,
		.local_top = base + func->local_bytes + 16,
		.depth = parent->depth + 1,
	};
	frame_set_tops(f);
	return f;
}

static void frame_free(struct warp *w, struct frame *f)
{
	w->frames_bytes -= f->func->reg_bytes;
	worker_give(w->worker, FRAME_HEAD + f->func->reg_bytes);
	free(f->memory);
}

/* The function that a lane calls, or NULL after a fault. */
static const struct func *call_target(struct warp *w, const struct insn *in, uint32_t lane)
{
	const struct ptx *ptx = w->worker->job->ptx;
	uint64_t at;
	const struct func *f;

	if (in->x->func >= 0)
		return ptx->funcs[in->x->func];
	at = ((const uint64_t *)REG(w, in->a))[lane] - SPACE_CODE;
	f = at / 16 < ptx->n_funcs && at % 16 == 0 ? ptx->funcs[at / 16] : NULL;
	if (!f || f->is_entry || !f->has_body || f->n_params != in->x->call->n_args ||
		f->n_rets != in->x->call->n_rets) {
		warp_fault(w, in, PTX_INVALID_PC, at + SPACE_CODE);
		return NULL;
	}
	return f;
}

/* Lanes that call another function by a pointer stay at the call. */
static void warp_call(struct warp *w, struct frag *f, const struct insn *in, uint32_t mask)
{
	const struct func *func = call_target(w, in, (uint32_t)__builtin_ctz(mask));
	struct frame *frame;
	uint32_t same = 0;

	if (!func)
		return;
	if (func->builtin != BUILTIN_NONE && !func->has_body) {
		print_call(w, in, mask, func->builtin);
		f->ip = in + 1;
		return;
	}
	if (in->x->func >= 0) {
		same = mask;
	} else {
		FOR_LANES(i, mask)
		same |= (uint32_t)(call_target(w, in, i) == func) << i;
	}
	frame = frame_new(w, in, func, same);
	if (!frame)
		return;
	params_copy(w, frame, func->params, w->frame, in->x->call->args, func->n_params, same);
	if (same != f->mask) {
		uint32_t rest = f->mask & ~mask, others = mask & ~same;

		if (rest)
			frag_add(w, f->frame, in + 1, rest);
		if (others)
			frag_add(w, f->frame, in, others);
	}
	f->mask = same;
	f->frame = frame;
	f->ip = func->insns;
}

static void warp_return(struct warp *w, struct frag *f, const struct insn *in, uint32_t mask)
{
	struct frame *frame = f->frame;

	if (!frame->parent) {
		f->mask &= ~mask;
		f->ip = in + 1;
		warp_exit_lanes(w, mask);
		return;
	}
	params_copy(w, frame->parent, frame->call->x->call->rets, frame, frame->func->rets,
		frame->func->n_rets, mask);
	frame->mask &= ~mask;
	if (mask == f->mask) {
		f->frame = frame->parent;
		f->ip = frame->call + 1;
	} else {
		f->mask &= ~mask;
		f->ip = in + 1;
		frag_add(w, frame->parent, frame->call + 1, mask);
	}
	if (frame->mask == 0)
		frame_free(w, frame);
}

/* Lanes that exit inside of functions leave all frames. */
static void warp_exit(struct warp *w, struct frag *f, const struct insn *in, uint32_t mask)
{
	struct frame *frame = f->frame;

	f->mask &= ~mask;
	f->ip = in + 1;
	while (frame->parent) {
		struct frame *parent = frame->parent;

		frame->mask &= ~mask;
		if (frame->mask == 0) {
			if (f->frame == frame)
				f->frame = parent;
			frame_free(w, frame);
		}
		frame = parent;
	}
	warp_exit_lanes(w, mask);
}

/* ---- the loop ---- */

/* Lanes that jump to different places part. */
static void warp_table(struct warp *w, struct frag *f, const struct insn *in, uint32_t mask)
{
	const uint32_t *index = (const uint32_t *)REG(w, in->a);
	const struct insn *insns = f->frame->func->insns;
	uint32_t first = (uint32_t)__builtin_ctz(mask), rest = f->mask & ~mask, same = 0;

	if (index[first] >= in->x->n) {
		warp_fault(w, in, PTX_INVALID_PC, index[first]);
		return;
	}
	FOR_LANES(i, mask)
	same |= (uint32_t)(index[i] == index[first]) << i;
	if (rest)
		frag_add(w, f->frame, in + 1, rest);
	if (mask & ~same)
		frag_add(w, f->frame, in, mask & ~same);
	f->mask = same;
	f->ip = insns + in->x->targets[index[first]];
}

/*
 * Whether the lanes of the member mask are together. Otherwise the fragment waits for them, unless
 * it was forced.
 */
static bool warp_gathers(struct warp *w, struct frag *f, const struct insn *in, uint32_t mask)
{
	uint32_t members = MASK_ALL;

	if (in->x->mask != OPERAND_NONE)
		members = ((const uint32_t *)REG(w, in->x->mask))[__builtin_ctz(mask)];
	if ((members & w->live & ~f->mask) == 0 || f->barrier) {
		f->barrier = 0;
		return true;
	}
	f->state = FRAG_WARP;
	return false;
}

enum leave { LEAVE_SWITCH, LEAVE_SLICE };

/*
 * Runs the current fragment until it ends, waits, parts, or meets others, or until the slice is
 * over.
 */
static enum leave warp_run_fragment(struct warp *w, uint64_t until)
{
	struct frag *f = &w->frags[w->current];
	const struct insn *ip = f->ip, *in;
	uint32_t mask = f->mask, m;
	uint64_t steps = w->steps, lane_steps = w->lane_steps;
	enum leave leave = LEAVE_SWITCH;
	_Atomic uint32_t *cancel = &w->worker->job->cancel;
	bool is_first = true;

	warp_enter(w, f->frame);
	for (;; is_first = false) {
		in = ip++;
		if (__builtin_expect(w->n_frags > 1, 0) && in->flags & INSN_JOIN && !is_first) {
			f->ip = in;
			goto out;
		}
		m = mask;
		if (in->guard != OPERAND_NONE) {
			uint32_t p = pred_read(w, in->guard);

			m &= in->flags & INSN_NOT ? ~p : p;
		}
		steps++;
		lane_steps += m == MASK_ALL ? LANES : (uint32_t)__builtin_popcount(m);
		if (in->control == CTL_LANES) {
			if (m == 0)
				continue;
			w->steps = steps; /* for %clock */
			in->fn(w, in, m);
			if (in->flags & INSN_FAULT &&
				(atomic_load_explicit(cancel, memory_order_relaxed) ||
					w->worker->until_pause <= 0)) {
				f->ip = ip;
				goto out;
			}
			continue;
		}
		if (in->control == CTL_BRANCH) {
			if (m == 0)
				continue;
			if (m != mask) {
				f->mask = mask & ~m;
				f->ip = ip;
				frag_add(w, f->frame, f->frame->func->insns + in->target, m);
				goto out;
			}
			ip = f->frame->func->insns + in->target;
			if (!(in->flags & INSN_BACK))
				continue;
			if (w->n_frags > 1 && w->patience-- == 0) {
				f->ip = ip;
				warp_rotate(w);
				goto out;
			}
			if (steps < until && !atomic_load_explicit(cancel, memory_order_relaxed))
				continue;
			f->ip = ip;
			leave = LEAVE_SLICE;
			goto out;
		}
		if (m == 0)
			continue;
		w->steps = steps;
		f->ip = in;
		switch ((enum control)in->control) {
		case CTL_TABLE: warp_table(w, f, in, m); goto out;
		case CTL_CALL:
			warp_call(w, f, in, m);
			if (steps >= until)
				leave = LEAVE_SLICE;
			goto out;
		case CTL_RETURN: warp_return(w, f, in, m); goto out;
		case CTL_EXIT: warp_exit(w, f, in, m); goto out;
		case CTL_BARRIER:
			if (m != mask) {
				frag_add(w, f->frame, ip, mask & ~m);
				f->mask = m;
			}
			barrier_arrive(w, f, in, m);
			goto out;
		case CTL_WARP:
			if (!warp_gathers(w, f, in, m))
				goto out;
			in->fn(w, in, m);
			f->ip = ip;
			if (w->worker->until_pause <= 0 ||
				(in->flags & INSN_FAULT &&
					atomic_load_explicit(cancel, memory_order_relaxed)))
				goto out;
			continue;
		default: /* CTL_YIELD */
			in->fn(w, in, m);
			f->ip = ip;
			leave = LEAVE_SLICE;
			goto out;
		}
	}
out:
	w->steps = steps;
	w->lane_steps = lane_steps;
	return leave;
}

/* Runs a warp for a slice. Returns whether it could run at all. */
static bool warp_run(struct warp *w)
{
	const struct ptx_device *device = w->worker->job->device;
	uint64_t from = w->steps, until = from + SLICE_STEPS;
	bool has_run = false;

	while (w->n_frags && !atomic_load_explicit(&w->worker->job->cancel, memory_order_relaxed) &&
		warp_choose(w)) {
		enum leave leave;

		has_run = true;
		warp_join(w);
		leave = warp_run_fragment(w, until);
		for (uint32_t i = w->n_frags; i-- > 0;)
			if (w->frags[i].mask == 0)
				frag_remove(w, i);
		if (leave == LEAVE_SLICE || w->steps >= until || w->worker->until_pause <= 0)
			break;
	}
	w->worker->until_pause -= (int64_t)(w->steps - from);
	if (device->steps_max && w->steps > device->steps_max)
		warp_fault(w, w->n_frags ? w->frags[0].ip : NULL, PTX_TIMEOUT, 0);
	if (w->worker->until_pause <= 0) {
		w->worker->until_pause = PAUSE_STEPS;
		if (device->pause)
			device->pause(device->user);
		access_forget(w->worker);
	}
	return has_run;
}

/* ---- blocks ---- */

static void block_free(struct block *b)
{
	if (!b)
		return;
	if (b->warps)
		for (uint32_t i = 0; i < b->n_warps; i++) {
			struct warp *w = &b->warps[i];

			/* frames of functions that a fault has left behind */
			for (uint32_t k = 0; k < w->n_frags; k++) {
				struct frame *f = w->frags[k].frame;

				while (f->parent) {
					struct frame *parent = f->parent;

					f->mask &= ~w->frags[k].mask;
					if (f->mask == 0)
						free(f->memory);
					f = parent;
				}
			}
			free(w->root.memory);
			free(w->local);
		}
	free(b->warps);
	free(b->shared);
	free(b);
}

/* The numbers of the threads are the same in each block. */
static void warp_number(struct warp *w, const struct ptx_job *job, uint32_t first)
{
	for (uint32_t i = 0; i < LANES; i++) {
		w->tid[0][i] = (first + i) % job->block[0];
		w->tid[1][i] = (first + i) / job->block[0] % job->block[1];
		w->tid[2][i] = (first + i) / job->block[0] / job->block[1];
	}
}

static uint64_t block_bytes(const struct ptx_job *job)
{
	return sizeof(struct block) + job->shared_end +
		(uint64_t)job->n_warps *
		(sizeof(struct warp) + job->func->reg_bytes + LANES * (uint64_t)job->local_bytes);
}

static struct block *block_new(struct worker *worker, bool is_spare)
{
	struct ptx_job *job = worker->job;
	struct block *b;

	if (!worker_take(worker, block_bytes(job), is_spare))
		return NULL;
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->job = job;
	b->n_warps = job->n_warps;
	b->warps = calloc(job->n_warps, sizeof(*b->warps));
	b->shared = calloc(1, job->shared_end);
	for (uint32_t i = 0; b->warps && b->shared && i < job->n_warps; i++) {
		struct warp *w = &b->warps[i];

		w->root.regs = regs_new(job->func->reg_bytes, &w->root.memory);
		if (job->local_bytes)
			w->local = calloc(LANES, job->local_bytes);
		if (!w->root.regs || (job->local_bytes && !w->local))
			break;
		warp_number(w, job, i * LANES);
		if (i + 1 == job->n_warps)
			return b;
	}
	block_free(b);
	return NULL;
}

static void warp_start(struct warp *w, struct worker *worker, struct block *b, uint32_t index)
{
	struct ptx_job *job = worker->job;
	uint32_t first = index * LANES, n = job->threads - first;

	w->block = b;
	w->worker = worker;
	w->index = index;
	w->live = n >= LANES ? MASK_ALL : (1u << n) - 1;
	w->idle = ~w->live;
	w->local_stride = job->local_bytes;
	w->steps = w->lane_steps = 0;
	w->n_frags = w->current = 0;
	w->prefer = 0;
	w->patience = PATIENCE;
	/* short kernels start often: only what differs from zero, in a frame of zeros */
	w->root.func = job->func;
	w->root.mask = w->live;
	w->root.carry = 0;
	w->root.local_top = job->func->local_bytes;
	frame_set_tops(&w->root);
	frag_add(w, &w->root, job->func->insns, w->live);
}

static void block_start(struct block *b, struct worker *worker, uint64_t number)
{
	const struct ptx_job *job = worker->job;

	b->number = number;
	b->id[0] = (uint32_t)(number % job->grid[0]);
	b->id[1] = (uint32_t)(number / job->grid[0] % job->grid[1]);
	b->id[2] = (uint32_t)(number / job->grid[0] / job->grid[1]);
	b->live_threads = job->threads;
	b->turns = 0;
	memset(b->barriers, 0, sizeof(b->barriers));
	for (uint32_t i = 0; i < b->n_warps; i++)
		warp_start(&b->warps[i], worker, b, i);
}

/* Runs each warp for a slice. Returns whether the block has ended. */
static bool block_turn(struct block *b)
{
	bool has_run = false;

	b->has_progress = false;
	b->turns++;
	for (uint32_t i = 0; i < b->n_warps; i++)
		if (b->warps[i].n_frags)
			has_run |= warp_run(&b->warps[i]);
	if (b->live_threads == 0)
		return true;
	/* All threads wait at barriers that the others never reach. */
	if (!has_run && !b->has_progress && !atomic_load(&b->job->cancel))
		warp_fault(&b->warps[0], NULL, PTX_TIMEOUT, 0);
	return false;
}

static void block_count(const struct block *b)
{
	uint64_t steps = 0, lane_steps = 0;

	for (uint32_t i = 0; i < b->n_warps; i++) {
		steps += b->warps[i].steps;
		lane_steps += b->warps[i].lane_steps;
	}
	atomic_fetch_add(&b->job->steps, steps);
	atomic_fetch_add(&b->job->lane_steps, lane_steps);
}

struct residents {
	struct block **blocks;
	uint32_t n, allocated, max, target;
};

/* Starts the next block, if there is one. */
static bool residents_add(struct residents *r, struct worker *worker)
{
	struct ptx_job *job = worker->job;
	uint64_t number = atomic_load(&job->next_block);

	if (number >= job->n_blocks)
		return false;
	if (r->n == r->allocated) {
		struct block *b = block_new(worker, r->n != 0 && !job->is_cooperative);

		if (!b && r->n && !job->is_cooperative)
			return false; /* continues with fewer at once */
		if (!b) {
			job_end(job, PTX_OUT_OF_MEMORY);
			return false;
		}
		r->blocks[r->allocated++] = b;
	}
	number = atomic_fetch_add(&job->next_block, 1);
	if (number >= job->n_blocks)
		return false;
	block_start(r->blocks[r->n++], worker, number);
	return true;
}

static void residents_run(struct residents *r, struct worker *worker)
{
	_Atomic uint32_t *cancel = &worker->job->cancel;

	while (!atomic_load(cancel)) {
		while (r->n < r->target && residents_add(r, worker))
			;
		if (r->n == 0)
			return;
		for (uint32_t i = 0; i < r->n;) {
			struct block *b = r->blocks[i];
			bool has_ended = block_turn(b);

			if (has_ended) {
				block_count(b);
				r->blocks[i] = r->blocks[--r->n];
				r->blocks[r->n] = b;
				continue;
			}
			if (b->turns % ALONE_TURNS == 0 && r->target < r->max)
				r->target++;
			i++;
		}
	}
	for (uint32_t i = 0; i < r->n; i++)
		block_count(r->blocks[i]);
}

void ptx_job_work(struct ptx_job *job)
{
	struct worker worker = {.job = job, .until_pause = PAUSE_STEPS};
	const struct ptx_device *device = job->device;
	struct residents r = {.target = 1};

	r.max = device->resident_max ? device->resident_max : RESIDENT_MAX;
	if (job->is_cooperative)
		r.target = r.max = (uint32_t)job->n_blocks;
	r.blocks = calloc(r.max, sizeof(struct block *));
	if (!r.blocks) {
		job_end(job, PTX_OUT_OF_MEMORY);
		return;
	}
	residents_run(&r, &worker);
	for (uint32_t i = 0; i < r.allocated; i++)
		block_free(r.blocks[i]);
	free(r.blocks);
	worker_leave(&worker);
}

/* ---- jobs ---- */

int ptx_job_new(const struct ptx_launch *l, struct ptx_job **ret_job)
{
	const struct func *func;
	unsigned __int128 blocks;
	struct ptx_job *job;
	uint64_t threads;

	if (l->kernel >= l->ptx->n_kernels || l->shared_bytes > PTX_DYNAMIC_BYTES_MAX)
		return -EINVAL;
	for (int i = 0; i < 3; i++)
		if (l->grid[i] == 0 || l->block[i] == 0 || l->block[i] > PTX_THREADS_MAX)
			return -EINVAL;
	func = l->ptx->funcs[l->ptx->kernels[l->kernel]];
	threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
	blocks = (unsigned __int128)l->grid[0] * l->grid[1] * l->grid[2];
	if (threads > PTX_THREADS_MAX || blocks > UINT64_MAX / 2 ||
		l->param_bytes < func->param_bytes || l->param_bytes > PTX_PARAM_BYTES_MAX ||
		(l->is_cooperative && blocks > UINT16_MAX))
		return -EINVAL;
	job = calloc(1, sizeof(*job) + ((l->param_bytes + 15) & ~15u) + GRID_BYTES);
	if (!job)
		return -ENOMEM;
	job->ptx = l->ptx;
	job->func = func;
	job->device = l->device;
	memcpy(job->grid, l->grid, sizeof(job->grid));
	memcpy(job->block, l->block, sizeof(job->block));
	job->threads = (uint32_t)threads;
	job->n_warps = (job->threads + LANES - 1) / LANES;
	job->dynamic_bytes = l->shared_bytes;
	job->dynamic_end = SHARED_DYNAMIC + l->shared_bytes;
	job->shared_end = l->ptx->shared_end;
	job->local_bytes = (func->local_bytes + 15) & ~15u;
	if (l->ptx->has_functions || func->has_alloca)
		job->local_bytes += l->device->stack_bytes ? (l->device->stack_bytes + 15) & ~15u
							   : STACK_BYTES;
	job->n_blocks = (uint64_t)blocks;
	job->is_cooperative = l->is_cooperative;
	job->param_bytes = l->param_bytes;
	job->grid_at = (l->param_bytes + 15) & ~15u;
	memcpy(job->params + job->grid_at, &(uint32_t){GRID_BYTES}, sizeof(uint32_t));
	if (l->param_bytes)
		memcpy(job->params, l->params, l->param_bytes);
	*ret_job = job;
	return 0;
}

void ptx_job_cancel(struct ptx_job *job)
{
	job_end(job, PTX_CANCELED);
}

struct ptx_result ptx_job_result(const struct ptx_job *job)
{
	return (struct ptx_result){
		.fault = (enum ptx_fault)job->fault,
		.line = job->fault_line,
		.address = job->fault_address,
		.steps = job->steps,
		.lane_steps = job->lane_steps,
	};
}

void ptx_job_free(struct ptx_job *job)
{
	free(job);
}

const char *ptx_fault_name(enum ptx_fault fault)
{
	switch (fault) {
	case PTX_OK: return "CUDA_SUCCESS";
	case PTX_OUT_OF_MEMORY: return "CUDA_ERROR_OUT_OF_MEMORY";
	case PTX_INVALID_PTX: return "CUDA_ERROR_INVALID_PTX";
	case PTX_ILLEGAL_ADDRESS: return "CUDA_ERROR_ILLEGAL_ADDRESS";
	case PTX_TIMEOUT: return "CUDA_ERROR_LAUNCH_TIMEOUT";
	case PTX_ASSERT: return "CUDA_ERROR_ASSERT";
	case PTX_STACK_ERROR: return "CUDA_ERROR_HARDWARE_STACK_ERROR";
	case PTX_ILLEGAL_INSTRUCTION: return "CUDA_ERROR_ILLEGAL_INSTRUCTION";
	case PTX_MISALIGNED_ADDRESS: return "CUDA_ERROR_MISALIGNED_ADDRESS";
	case PTX_INVALID_PC: return "CUDA_ERROR_INVALID_PC";
	case PTX_LAUNCH_FAILED: return "CUDA_ERROR_LAUNCH_FAILED";
	case PTX_CANCELED: break;
	}
	return "canceled";
}
