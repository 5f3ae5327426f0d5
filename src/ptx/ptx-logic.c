/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparisons, predicates, selections, permutations of bytes, chains of carries, moves of vectors
 * and special registers. Any thread.
 */
#include "ptx/ptx-internal.h"

#include <math.h>

#include "ptx/ptx-ops.h"

/* ---- comparisons ---- */

#define COMPARE(id, T, e) \
	static uint32_t compare_##id(const void *pa, const void *pb) \
	{ \
		const T *x = pa, *y = pb; \
		uint32_t r = 0; \
\
		for (uint32_t i = 0; i < LANES; i++) { \
			const T a = x[i], b = y[i]; \
\
			r |= (uint32_t)(e) << i; \
		} \
		return r; \
	}
#define COMPARE_ORDER(S, T) \
	COMPARE(eq_##S, T, a == b) \
	COMPARE(ne_##S, T, a != b) \
	COMPARE(lt_##S, T, a < b) \
	COMPARE(le_##S, T, a <= b) \
	COMPARE(gt_##S, T, a > b) \
	COMPARE(ge_##S, T, a >= b)
#define COMPARE_FLOAT(S, T) \
	COMPARE_ORDER(S, T) \
	COMPARE(one_##S, T, a<b || a> b) \
	COMPARE(equ_##S, T, !(a < b || a > b)) \
	COMPARE(ltu_##S, T, !(a >= b)) \
	COMPARE(leu_##S, T, !(a > b)) \
	COMPARE(gtu_##S, T, !(a <= b)) \
	COMPARE(geu_##S, T, !(a < b)) \
	COMPARE(num_##S, T, a == a && b == b) \
	COMPARE(nan_##S, T, a != a || b != b)
COMPARE_ORDER(u16, uint16_t)
COMPARE_ORDER(s16, int16_t)
COMPARE_ORDER(u32, uint32_t)
COMPARE_ORDER(s32, int32_t)
COMPARE_ORDER(u64, uint64_t)
COMPARE_ORDER(s64, int64_t)
COMPARE_FLOAT(f32, float)
COMPARE_FLOAT(f64, double)

#define ROWS_ORDER(S, T) \
	{"eq", T, compare_eq_##S}, {"lt", T, compare_lt_##S}, {"le", T, compare_le_##S}, \
		{"gt", T, compare_gt_##S}, {"ge", T, compare_ge_##S},
#define ROWS_UNSIGNED(S, T) \
	ROWS_ORDER(S, T){"ne", T, compare_ne_##S}, {"lo", T, compare_lt_##S}, \
		{"ls", T, compare_le_##S}, {"hi", T, compare_gt_##S}, {"hs", T, compare_ge_##S},
#define ROWS_FLOAT(S, T) \
	ROWS_ORDER(S, T){"ne", T, compare_one_##S}, {"equ", T, compare_equ_##S}, \
		{"neu", T, compare_ne_##S}, {"ltu", T, compare_ltu_##S}, \
		{"leu", T, compare_leu_##S}, {"gtu", T, compare_gtu_##S}, \
		{"geu", T, compare_geu_##S}, {"num", T, compare_num_##S}, \
		{"nan", T, compare_nan_##S},
static const struct {
	const char *name;
	enum ptx_type type;
	compare_fn *fn;
} comparisons[] = {ROWS_UNSIGNED(u16, T_U16) ROWS_ORDER(s16, T_S16){"ne", T_S16, compare_ne_s16},
	ROWS_UNSIGNED(u32, T_U32) ROWS_ORDER(s32, T_S32){"ne", T_S32, compare_ne_s32},
	ROWS_UNSIGNED(u64, T_U64) ROWS_ORDER(s64, T_S64){"ne", T_S64, compare_ne_s64},
	ROWS_UNSIGNED(u16, T_B16) ROWS_UNSIGNED(u32, T_B32) ROWS_UNSIGNED(u64, T_B64)
		ROWS_FLOAT(f32, T_F32) ROWS_FLOAT(f64, T_F64)};

compare_fn *compare_find(struct str op, enum ptx_type type)
{
	if (type == T_F16 || type == T_BF16 || type == T_F16X2 || type == T_BF16X2)
		type = T_F32;
	for (size_t i = 0; i < sizeof(comparisons) / sizeof(comparisons[0]); i++)
		if (comparisons[i].type == type && str_is(op, comparisons[i].name))
			return comparisons[i].fn;
	return NULL;
}

/* The comparison itself is in the instruction's inner function. */
static uint32_t compare_run(const struct insn *in, const void *a, const void *b)
{
	compare_fn *fn;

	memcpy(&fn, &in->imm, sizeof(fn));
	return fn(a, b);
}

static void widen_half(const uint8_t *from, const struct extra *x, uint32_t part, float *to)
{
	bool is_bf16 = x->from_type == T_BF16 || x->from_type == T_BF16X2;
	bool is_pair = x->from_type == T_F16X2 || x->from_type == T_BF16X2;

	for (uint32_t i = 0; i < LANES; i++) {
		uint16_t h = ((const uint16_t *)from)[is_pair ? 2 * i + part : i];

		to[i] = is_bf16 ? bf16_to_float(h) : half_to_float(h);
	}
}

static uint32_t compare_operands(const struct warp *w, const struct insn *in, uint32_t part)
{
	const struct extra *x = in->x;
	float a[LANES], b[LANES];

	if (x->from_type != T_F16 && x->from_type != T_BF16 && x->from_type != T_F16X2 &&
		x->from_type != T_BF16X2)
		return compare_run(in, REG(w, in->a), REG(w, in->b));
	widen_half(REG(w, in->a), x, part, a);
	widen_half(REG(w, in->b), x, part, b);
	return compare_run(in, a, b);
}

static uint32_t bool_apply(const struct extra *x, uint32_t r, uint32_t c)
{
	if (x->is_negated)
		c = ~c;
	switch ((enum bool_op)x->op) {
	case BOOL_AND: return r & c;
	case BOOL_OR: return r | c;
	case BOOL_XOR: return r ^ c;
	default: return r;
	}
}

void exec_setp(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	uint32_t r = compare_operands(w, in, 0), c = x->op ? pred_read(w, in->c) : 0, q;
	bool is_pair = x->from_type == T_F16X2 || x->from_type == T_BF16X2;

	q = is_pair ? compare_operands(w, in, 1) : ~r;
	if (in->d != OPERAND_NONE)
		pred_write(w, in->d, mask, bool_apply(x, r, c));
	if (x->d2 != OPERAND_NONE)
		pred_write(w, x->d2, mask, bool_apply(x, q, c));
}

void exec_set(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	uint32_t c = x->op ? pred_read(w, in->c) : 0;
	uint32_t r = bool_apply(x, compare_operands(w, in, 0), c), hi = 0;
	uint32_t *d = (uint32_t *)REG(w, in->d);
	uint32_t one = MASK_ALL;
	bool is_pair = x->from_type == T_F16X2 || x->from_type == T_BF16X2;

	if (x->type == T_F32)
		one = 0x3f800000;
	else if (x->type == T_F16 || x->type == T_F16X2)
		one = 0x3c00;
	else if (x->type == T_BF16 || x->type == T_BF16X2)
		one = 0x3f80;
	if (is_pair) {
		hi = bool_apply(x, compare_operands(w, in, 1), c);
		one &= 0xffff;
	}
	FOR_LANES(i, mask)
	{
		if (type_table[x->type].bytes == 2)
			((uint16_t *)d)[i] = r >> i & 1 ? (uint16_t)one : 0;
		else if (is_pair)
			d[i] = (r >> i & 1 ? one : 0) | (hi >> i & 1 ? one : 0) << 16;
		else
			d[i] = r >> i & 1 ? one : 0;
	}
}

/* ---- selections ---- */

#define SELECT(T) \
	do { \
		T *d = (T *)REG(w, in->d); \
		const T *a = (const T *)REG(w, in->a), *b = (const T *)REG(w, in->b); \
\
		for (uint32_t i = 0; i < LANES; i++) { \
			T r = p >> i & 1 ? a[i] : b[i]; \
\
			d[i] = full >> i & 1 ? r : d[i]; \
		} \
	} while (0)

static void select_lanes(struct warp *w, const struct insn *in, uint32_t mask, uint32_t p)
{
	const uint32_t full = mask;

	switch (in->x->width) {
	case 2: SELECT(uint16_t); break;
	case 8: SELECT(uint64_t); break;
	case 16: SELECT(unsigned __int128); break;
	default: SELECT(uint32_t); break;
	}
}

void exec_selp(struct warp *w, const struct insn *in, uint32_t mask)
{
	select_lanes(w, in, mask, pred_read(w, in->c) ^ (in->x->is_negated ? MASK_ALL : 0));
}

void exec_slct(struct warp *w, const struct insn *in, uint32_t mask)
{
	const int32_t *c = (const int32_t *)REG(w, in->c);
	const float *f = (const float *)REG(w, in->c);
	/* with .ftz, negative subnormal numbers are -0 */
	const float least = in->x->is_ftz ? -0x1.fffffcp-127f : -0.0f;
	uint32_t p = 0;

	for (uint32_t i = 0; i < LANES; i++)
		p |= (uint32_t)(in->x->from_type == T_F32 ? f[i] >= least : c[i] >= 0) << i;
	select_lanes(w, in, mask, p);
}

/* ---- predicates ---- */

void exec_pred_op(struct warp *w, const struct insn *in, uint32_t mask)
{
	uint32_t a = pred_read(w, in->a), b = in->b == OPERAND_NONE ? 0 : pred_read(w, in->b);

	switch ((enum pred_op)in->n) {
	case PRED_MOV: break;
	case PRED_NOT: a = ~a; break;
	case PRED_AND: a &= b; break;
	case PRED_OR: a |= b; break;
	case PRED_XOR: a ^= b; break;
	}
	pred_write(w, in->d, mask, a);
}

/* ---- bits of three operands ---- */

/* imm: the truth table, whose bit 4a + 2b + c is the result for these bits */
void exec_lop3(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	const uint32_t *pa = (const uint32_t *)REG(w, in->a), *pb = (const uint32_t *)REG(w, in->b);
	const uint32_t *pc = (const uint32_t *)REG(w, in->c);
	uint32_t out[LANES], terms[8], p = 0;

	for (uint32_t k = 0; k < 8; k++)
		terms[k] = in->imm >> k & 1 ? MASK_ALL : 0;
	for (uint32_t i = 0; i < LANES; i++) {
		uint32_t a = pa[i], b = pb[i], c = pc[i];
		uint32_t lo = (~b & ((~c & terms[0]) | (c & terms[1]))) |
			(b & ((~c & terms[2]) | (c & terms[3])));
		uint32_t hi = (~b & ((~c & terms[4]) | (c & terms[5]))) |
			(b & ((~c & terms[6]) | (c & terms[7])));

		out[i] = (~a & lo) | (a & hi);
	}
	FOR_LANES(i, mask)
	{
		p |= (uint32_t)(out[i] != 0) << i;
		if (in->d != OPERAND_NONE)
			((uint32_t *)REG(w, in->d))[i] = out[i];
	}
	if (x->d2 != OPERAND_NONE)
		pred_write(w, x->d2, mask, bool_apply(x, p, pred_read(w, x->ops[0])));
}

static uint32_t prmt_selector(enum prmt_mode mode, uint32_t c)
{
	static const uint16_t tables[][4] = {
		[PRMT_F4E] = {0x3210, 0x4321, 0x5432, 0x6543},
		[PRMT_B4E] = {0x5670, 0x6701, 0x7012, 0x0123},
		[PRMT_RC8] = {0x0000, 0x1111, 0x2222, 0x3333},
		[PRMT_ECL] = {0x3210, 0x3211, 0x3222, 0x3333},
		[PRMT_ECR] = {0x0000, 0x1110, 0x2210, 0x3210},
		[PRMT_RC16] = {0x1010, 0x3232, 0x1010, 0x3232},
	};

	return mode == PRMT_DEFAULT ? c : tables[mode][c & 3];
}

void exec_prmt(struct warp *w, const struct insn *in, uint32_t mask)
{
	const uint32_t *a = (const uint32_t *)REG(w, in->a), *b = (const uint32_t *)REG(w, in->b);
	const uint32_t *c = (const uint32_t *)REG(w, in->c);
	uint32_t *d = (uint32_t *)REG(w, in->d);

	FOR_LANES(i, mask)
	{
		uint64_t bytes = (uint64_t)b[i] << 32 | a[i];
		uint32_t selector = prmt_selector((enum prmt_mode)in->n, c[i]), r = 0;

		for (uint32_t k = 0; k < 4; k++) {
			uint32_t s = selector >> 4 * k & 15;
			uint32_t byte = (uint32_t)(bytes >> 8 * (s & 7)) & 0xff;

			if (s & 8)
				byte = byte & 0x80 ? 0xff : 0;
			r |= byte << 8 * k;
		}
		d[i] = r;
	}
}

/* ---- vectors in one register ---- */

void exec_pack(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;

	FOR_LANES(i, mask)
	{
		uint8_t bytes[16];

		for (uint32_t k = 0; k < x->n; k++)
			memcpy(bytes + k * x->width, REG(w, x->ops[k]) + i * x->sizes[k], x->width);
		memcpy(REG(w, in->d) + i * x->width * x->n, bytes, (size_t)x->width * x->n);
	}
}

void exec_unpack(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;

	FOR_LANES(i, mask)
	{
		uint8_t bytes[16];

		memcpy(bytes, REG(w, in->a) + i * x->width * x->n, (size_t)x->width * x->n);
		for (uint32_t k = 0; k < x->n; k++)
			if (x->ops[k] != OPERAND_NONE)
				memcpy(REG(w, x->ops[k]) + i * x->sizes[k], bytes + k * x->width,
					x->width);
	}
}

/* ---- carries ---- */

void exec_carry(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	const uint32_t bytes = x->width, bits = 8 * bytes;
	uint32_t carry = w->frame->carry, out = 0;

	FOR_LANES(i, mask)
	{
		uint64_t a = 0, b = 0, c = 0, max = bits == 64 ? UINT64_MAX : UINT32_MAX;
		unsigned __int128 r;
		uint64_t in_carry = x->flag_a ? carry >> i & 1 : 0;

		memcpy(&a, REG(w, in->a) + i * bytes, bytes);
		memcpy(&b, REG(w, in->b) + i * bytes, bytes);
		if (in->c != OPERAND_NONE)
			memcpy(&c, REG(w, in->c) + i * bytes, bytes);
		switch ((enum carry_op)x->op) {
		case CARRY_ADD: r = (unsigned __int128)a + b + in_carry; break;
		case CARRY_SUB: r = (unsigned __int128)a - b - in_carry; break;
		default:
			r = (unsigned __int128)a * b;
			if (type_table[x->type].kind == 's' && bits == 32)
				r = (unsigned __int128)((__int128)(int32_t)a * (int32_t)b);
			else if (type_table[x->type].kind == 's')
				r = (unsigned __int128)((__int128)(int64_t)a * (int64_t)b);
			r = (uint64_t)(x->op == CARRY_MAD_LO ? r : r >> bits) & max;
			r += (unsigned __int128)c + in_carry;
			break;
		}
		out |= (uint32_t)((uint64_t)(r >> bits) & 1) << i;
		a = (uint64_t)r;
		memcpy(REG(w, in->d) + i * bytes, &a, bytes);
	}
	if (x->flag_b) /* .cc */
		w->frame->carry = (carry & ~mask) | out;
}

/* ---- addresses ---- */

/* d = address of something in the frame's local memory */
void exec_frame_address(struct warp *w, const struct insn *in, uint32_t mask)
{
	uint64_t address = (uint64_t)in->imm + w->frame->local_base;

	FOR_LANES(i, mask)
	{
		if (in->n == 8)
			((uint64_t *)REG(w, in->d))[i] = address;
		else
			((uint32_t *)REG(w, in->d))[i] = (uint32_t)address;
	}
}

/* d = a + imm: from a space to generic addresses and back */
void exec_cvta(struct warp *w, const struct insn *in, uint32_t mask)
{
	FOR_LANES(i, mask)
	{
		if (in->n == 8)
			((uint64_t *)REG(w, in->d))[i] = ((const uint64_t *)REG(w, in->a))[i] +
				(uint64_t)in->imm;
		else
			((uint32_t *)REG(w, in->d))[i] = ((const uint32_t *)REG(w, in->a))[i] +
				(uint32_t)in->imm;
	}
}

/* imm: base of the window, or 0 for global */
void exec_isspacep(struct warp *w, const struct insn *in, uint32_t mask)
{
	const uint64_t *a = (const uint64_t *)REG(w, in->a);
	uint32_t r = 0;

	for (uint32_t i = 0; i < LANES; i++)
		r |= (uint32_t)(in->imm ? a[i] - (uint64_t)in->imm < SPACE_BYTES
					: a[i] < SPACE_SHARED)
			<< i;
	pred_write(w, in->d, mask, r);
}

static bool testp_value(enum testp_op op, double v, bool is_single)
{
	double least = is_single ? 0x1p-126 : 0x1p-1022;

	switch (op) {
	case TESTP_FINITE: return isfinite(v);
	case TESTP_INFINITE: return isinf(v);
	case TESTP_NUMBER: return v == v;
	case TESTP_NAN: return v != v;
	case TESTP_NORMAL: return v == 0 || (isfinite(v) && fabs(v) >= least); /* as the ISA says */
	default: return v != 0 && fabs(v) < least;
	}
}

void exec_testp(struct warp *w, const struct insn *in, uint32_t mask)
{
	bool is_single = in->x->type == T_F32;
	uint32_t r = 0;

	FOR_LANES(i, mask)
	{
		double v = is_single ? (double)((const float *)REG(w, in->a))[i]
				     : ((const double *)REG(w, in->a))[i];

		r |= (uint32_t)testp_value(in->x->op, v, is_single) << i;
	}
	pred_write(w, in->d, mask, r);
}

/* Each lane has its own stack pointer, since lanes may be in different rounds of a loop. */
void exec_stack(struct warp *w, const struct insn *in, uint32_t mask)
{
	const uint32_t width = in->x->width, limit = w->worker->job->local_bytes;
	struct frame *f = w->frame;

	FOR_LANES(i, mask)
	{
		uint64_t v = 0, top = f->tops[i];

		if (in->n != STACK_SAVE)
			memcpy(&v, REG(w, in->a) + i * width, width);
		if (in->n == STACK_RESTORE) {
			if (v < f->local_top || v > top) {
				warp_fault(w, in, PTX_STACK_ERROR, v);
				return;
			}
			f->tops[i] = (uint32_t)v;
			continue;
		}
		if (in->n == STACK_ALLOCA) {
			top = (top + (uint64_t)in->imm - 1) & ~((uint64_t)in->imm - 1);
			if (top > limit || v > limit - top) {
				warp_fault(w, in, PTX_STACK_ERROR, v);
				return;
			}
			f->tops[i] = (uint32_t)(top + v);
		}
		memcpy(REG(w, in->d) + i * width, &top, width);
	}
}

/* ---- special registers ---- */

static uint64_t sreg_uniform(const struct warp *w, enum sreg s)
{
	const struct ptx_job *job = w->worker->job;
	const struct ptx_device *device = job->device;
	uint64_t now = 0;

	if (s >= SREG_GLOBALTIMER && s <= SREG_GLOBALTIMER_HI && device->now_ns)
		now = device->now_ns(device->user);
	switch (s) {
	case SREG_NTID_X: return job->block[0];
	case SREG_NTID_Y: return job->block[1];
	case SREG_NTID_Z: return job->block[2];
	case SREG_CTAID_X: return w->block->id[0];
	case SREG_CTAID_Y: return w->block->id[1];
	case SREG_CTAID_Z: return w->block->id[2];
	case SREG_NCTAID_X: return job->grid[0];
	case SREG_NCTAID_Y: return job->grid[1];
	case SREG_NCTAID_Z: return job->grid[2];
	case SREG_WARPID: return w->index;
	case SREG_NWARPID: return 64;
	case SREG_SMID: return device->sm_count ? w->block->number % device->sm_count : 0;
	case SREG_NSMID: return device->sm_count;
	case SREG_CLOCK: return (uint32_t)w->steps;
	case SREG_CLOCK_HI: return w->steps >> 32;
	case SREG_CLOCK64: return w->steps;
	case SREG_GLOBALTIMER: return now;
	case SREG_GLOBALTIMER_LO: return (uint32_t)now;
	case SREG_GLOBALTIMER_HI: return now >> 32;
	case SREG_DYNAMIC_SMEM: return job->dynamic_bytes;
	case SREG_TOTAL_SMEM: return job->dynamic_bytes + job->shared_end - SHARED_STATIC;
	case SREG_GRID_LO: return job->is_cooperative ? (uint32_t)(SPACE_PARAM + job->grid_at) : 0;
	case SREG_GRID_HI: return job->is_cooperative ? (SPACE_PARAM + job->grid_at) >> 32 : 0;
	case SREG_ONE: return 1;
	case SREG_WARP_SIZE: return LANES;
	default: return 0;
	}
}

static uint64_t sreg_lane(const struct warp *w, enum sreg s, uint32_t i)
{
	switch (s) {
	case SREG_TID_X: return w->tid[0][i];
	case SREG_TID_Y: return w->tid[1][i];
	case SREG_TID_Z: return w->tid[2][i];
	case SREG_LANEID: return i;
	case SREG_LANEMASK_EQ: return 1u << i;
	case SREG_LANEMASK_LE: return (uint32_t)((UINT64_C(2) << i) - 1);
	case SREG_LANEMASK_LT: return (1u << i) - 1;
	case SREG_LANEMASK_GE: return ~((1u << i) - 1);
	case SREG_LANEMASK_GT: return (uint32_t) ~((UINT64_C(2) << i) - 1);
	default: return 0;
	}
}

/* n: bytes of the register, imm: enum sreg */
void exec_sreg(struct warp *w, const struct insn *in, uint32_t mask)
{
	const enum sreg s = (enum sreg)in->imm;
	bool is_lane = (s >= SREG_TID_X && s <= SREG_TID_Z) || s == SREG_LANEID ||
		(s >= SREG_LANEMASK_EQ && s <= SREG_LANEMASK_GT);
	uint64_t v;
	uint8_t *d = REG(w, in->d);

	if (in->n == 4 && warp_is_full(w, mask) && (!is_lane || s <= SREG_TID_Z)) {
		/* the usual case: %tid, %ctaid and %ntid at the beginning of a kernel */
		if (is_lane) {
			memcpy(d, w->tid[s - SREG_TID_X], sizeof(w->tid[0]));
			return;
		}
		v = sreg_uniform(w, s);
		for (uint32_t i = 0; i < LANES; i++)
			((uint32_t *)d)[i] = (uint32_t)v;
		return;
	}
	v = is_lane ? 0 : sreg_uniform(w, s);
	for (uint32_t i = 0; i < LANES; i++) {
		if (is_lane)
			v = sreg_lane(w, s, i);
		if (!(mask >> i & 1))
			continue;
		if (in->n == 4)
			((uint32_t *)d)[i] = (uint32_t)v;
		else if (in->n == 8)
			((uint64_t *)d)[i] = v;
		else if (in->n == 1)
			d[i] = (uint8_t)v;
		else
			((uint16_t *)d)[i] = (uint16_t)v;
	}
}
