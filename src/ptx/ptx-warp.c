/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions in which lanes of a warp exchange values. ptx-run.c has brought together the lanes
 * of the member mask before. Any thread.
 */
#include "ptx/ptx-internal.h"

#include "ptx/ptx-ops.h"

void exec_nop(struct warp *w, const struct insn *in, uint32_t mask)
{
}

void exec_activemask(struct warp *w, const struct insn *in, uint32_t mask)
{
	uint32_t *d = (uint32_t *)REG(w, in->d);

	FOR_LANES(i, mask)
	d[i] = mask;
}

void exec_elect(struct warp *w, const struct insn *in, uint32_t mask)
{
	uint32_t leader = (uint32_t)__builtin_ctz(mask);

	if (in->d != OPERAND_NONE) {
		uint32_t *d = (uint32_t *)REG(w, in->d);

		FOR_LANES(i, mask)
		d[i] = leader;
	}
	pred_write(w, in->x->d2, mask, 1u << leader);
}

/* a: value, b: lane or distance, c: clamp and segment mask */
void exec_shuffle(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	const uint32_t *a = (const uint32_t *)REG(w, in->a);
	const uint32_t *b = (const uint32_t *)REG(w, in->b);
	const uint32_t *c = (const uint32_t *)REG(w, in->c);
	uint32_t *d = (uint32_t *)REG(w, in->d), out[LANES] = {0}, inside = 0;

	FOR_LANES(i, mask)
	{
		uint32_t segment = c[i] >> 8 & 31, clamp = c[i] & 31, at = b[i] & 31;
		uint32_t lowest = i & segment;
		uint32_t highest = lowest | (clamp & ~segment);
		int32_t from;
		bool is_inside;

		switch ((enum shuffle_op)x->op) {
		case SHUFFLE_UP:
			from = (int32_t)i - (int32_t)at;
			is_inside = from >= (int32_t)highest;
			break;
		case SHUFFLE_DOWN:
			from = (int32_t)(i + at);
			is_inside = from <= (int32_t)highest;
			break;
		case SHUFFLE_BFLY:
			from = (int32_t)(i ^ at);
			is_inside = from <= (int32_t)highest;
			break;
		default:
			from = (int32_t)(lowest | (at & ~segment));
			is_inside = from <= (int32_t)highest;
			break;
		}
		out[i] = a[is_inside ? (uint32_t)from & 31 : i];
		inside |= (uint32_t)is_inside << i;
	}
	FOR_LANES(i, mask)
	d[i] = out[i];
	if (x->d2 != OPERAND_NONE)
		pred_write(w, x->d2, mask, inside);
}

void exec_vote(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	uint32_t votes = pred_read(w, in->a), result;

	if (x->is_negated)
		votes = ~votes;
	votes &= mask;
	switch ((enum vote_op)x->op) {
	case VOTE_ALL: result = votes == mask; break;
	case VOTE_ANY: result = votes != 0; break;
	case VOTE_UNI: result = votes == mask || votes == 0; break;
	default: {
		uint32_t *d = (uint32_t *)REG(w, in->d);

		FOR_LANES(i, mask)
		d[i] = votes;
		return;
	}
	}
	pred_write(w, in->d, mask, result ? MASK_ALL : 0);
}

static uint64_t match_value(const struct warp *w, const struct insn *in, uint32_t lane)
{
	uint64_t v = 0;

	memcpy(&v, REG(w, in->a) + lane * in->x->width, in->x->width);
	return v;
}

void exec_match(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	uint32_t *d = in->d == OPERAND_NONE ? NULL : (uint32_t *)REG(w, in->d), all = 0, out[LANES];

	FOR_LANES(i, mask)
	{
		out[i] = 0;
		for (uint32_t k = 0; k < LANES; k++)
			if (mask >> k & 1 && match_value(w, in, k) == match_value(w, in, i))
				out[i] |= 1u << k;
		if (out[i] == mask)
			all = mask;
	}
	FOR_LANES(i, mask)
	if (d)
		d[i] = x->op ? all : out[i]; /* op 1: match.all */
	if (x->d2 != OPERAND_NONE)
		pred_write(w, x->d2, mask, all ? MASK_ALL : 0);
}

static float redux_float(enum redux_op op, float a, float b, const struct extra *x)
{
	if (x->flag_b) { /* .abs */
		a = __builtin_fabsf(a);
		b = __builtin_fabsf(b);
	}
	if (a != a || b != b)
		return x->flag_a ? __builtin_nanf("") : a != a ? b : a; /* .NaN */
	return (op == REDUX_MIN) == (a < b) ? a : b;
}

void exec_redux(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	const uint32_t *a = (const uint32_t *)REG(w, in->a);
	uint32_t *d = (uint32_t *)REG(w, in->d), first = (uint32_t)__builtin_ctz(mask);
	uint32_t r = a[first];
	bool is_signed = x->type == T_S32;

	FOR_LANES(i, mask & (mask - 1))
	{
		uint32_t v = a[i];

		switch ((enum redux_op)x->op) {
		case REDUX_ADD: r += v; break;
		case REDUX_AND: r &= v; break;
		case REDUX_OR: r |= v; break;
		case REDUX_XOR: r ^= v; break;
		default:
			if (x->type == T_F32) {
				float fr, fv;

				memcpy(&fr, &r, sizeof(fr));
				memcpy(&fv, &v, sizeof(fv));
				fr = redux_float(x->op, fr, fv, x);
				memcpy(&r, &fr, sizeof(r));
			} else {
				bool is_less = is_signed ? (int32_t)v < (int32_t)r : v < r;

				r = is_less == (x->op == REDUX_MIN) ? v : r;
			}
			break;
		}
	}
	FOR_LANES(i, mask)
	d[i] = r;
}
