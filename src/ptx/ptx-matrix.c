/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix instructions of a warp. mma and ldmatrix spread their matrices over the lanes as the ISA
 * documents. The fragments of wmma are opaque to programs: here the elements of a matrix are in
 * order, an equal number in each lane. Sums are computed in double precision and rounded once,
 * which is within what the ISA promises. Any thread.
 */
#include "ptx/ptx-internal.h"

enum { SIDE_MAX = 32, DEPTH_MAX = 64 };

/* Integers are exact in double precision: 32 products of 16 bits fit easily. */
struct matrix {
	double v[SIDE_MAX * DEPTH_MAX];
	uint32_t rows, columns;
};

static double *matrix_at(struct matrix *m, uint32_t row, uint32_t column)
{
	return &m->v[row * m->columns + column];
}

/* ---- elements in registers ---- */

static double element_read(const uint8_t *p, enum ptx_type type)
{
	uint16_t h;
	float f;
	double d;
	int32_t i;

	switch (type) {
	case T_F16: memcpy(&h, p, 2); return (double)half_to_float(h);
	case T_BF16: memcpy(&h, p, 2); return (double)bf16_to_float(h);
	case T_F32: memcpy(&f, p, 4); return (double)f;
	case T_TF32: /* the hardware reads the upper 19 bits */
		memcpy(&i, p, 4);
		i &= ~0x1fff;
		memcpy(&f, &i, 4);
		return (double)f;
	case T_F64: memcpy(&d, p, 8); return d;
	case T_S8: return (int8_t)*p;
	case T_U8: return *p;
	default: memcpy(&i, p, 4); return i;
	}
}

static void element_write(uint8_t *p, enum ptx_type type, double v, bool is_sat)
{
	uint16_t h;
	float f = (float)v;
	int32_t i;

	switch (type) {
	case T_F16:
		h = half_from_double(v);
		memcpy(p, &h, 2);
		break;
	case T_BF16:
		h = bf16_round(v, ROUND_NEAREST);
		memcpy(p, &h, 2);
		break;
	case T_F32:
	case T_TF32: memcpy(p, &f, 4); break;
	case T_F64: memcpy(p, &v, 8); break;
	case T_S8:
	case T_U8: *p = (uint8_t)(int64_t)v; break;
	default:
		if (is_sat && v > INT32_MAX)
			v = INT32_MAX;
		else if (is_sat && v < INT32_MIN)
			v = INT32_MIN;
		i = (int32_t)(uint32_t)(int64_t)v;
		memcpy(p, &i, 4);
		break;
	}
}

static uint32_t element_bytes(enum ptx_type type)
{
	return type_table[type].bytes;
}

/* Bytes of the register that holds elements of the type: 4, or 8 for double precision. */
static uint32_t register_bytes(enum ptx_type type)
{
	return type == T_F64 ? 8 : 4;
}

static void multiply(struct matrix *d, struct matrix *a, struct matrix *b, const struct matrix *c)
{
	*d = (struct matrix){.rows = a->rows, .columns = b->columns};
	for (uint32_t i = 0; i < a->rows; i++)
		for (uint32_t j = 0; j < b->columns; j++) {
			double sum = 0;

			for (uint32_t k = 0; k < a->columns; k++)
				sum += *matrix_at(a, i, k) * *matrix_at(b, k, j);
			*matrix_at(d, i, j) = sum + c->v[i * d->columns + j];
		}
}

/* ---- mma: m rows, 8 columns ---- */

/*
 * Operand registers of the instruction, in x->ops: those of d, a, b, c. x->sizes holds how many
 * each has: [0] d, [1] a, [2] b, [3] c.
 */
struct shape {
	uint32_t m, n, k;
};

/* Row and column of element j of register r in lane i. */
static void place_a(const struct shape *s, uint32_t pack, uint32_t i, uint32_t r, uint32_t j,
	uint32_t *row, uint32_t *column)
{
	uint32_t halves = s->m / 8;

	*row = i / 4 + 8 * (r % halves);
	*column = r / halves * 4 * pack + i % 4 * pack + j;
}

static void place_b(
	uint32_t pack, uint32_t i, uint32_t r, uint32_t j, uint32_t *row, uint32_t *column)
{
	*row = r * 4 * pack + i % 4 * pack + j;
	*column = i / 4;
}

/* The number of an accumulator's element counts through all registers. */
static void place_c(uint32_t i, uint32_t e, uint32_t *row, uint32_t *column)
{
	*row = i / 4 + 8 * (e / 2);
	*column = i % 4 * 2 + e % 2;
}

static void mma_read(struct warp *w, const struct extra *x, const struct shape *s, char which,
	uint32_t first, uint32_t n, enum ptx_type type, struct matrix *m)
{
	const uint32_t bytes = register_bytes(type), pack = bytes / element_bytes(type);

	for (uint32_t i = 0; i < LANES; i++)
		for (uint32_t r = 0; r < n; r++)
			for (uint32_t j = 0; j < pack; j++) {
				uint32_t row, column;

				if (which == 'a')
					place_a(s, pack, i, r, j, &row, &column);
				else if (which == 'b')
					place_b(pack, i, r, j, &row, &column);
				else
					place_c(i, r * pack + j, &row, &column);
				*matrix_at(m, row, column) = element_read(
					REG(w, x->ops[first + r]) + i * bytes +
						j * element_bytes(type),
					type);
			}
}

/* type: d, from_type: a; flag_a: type of b; flag_b: type of c */
void exec_mma(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	const struct shape s = {x->shape_m, x->shape_n, x->shape_k};
	struct matrix a = {.rows = s.m, .columns = s.k}, b = {.rows = s.k, .columns = s.n};
	struct matrix c = {.rows = s.m, .columns = s.n}, d;
	const uint32_t bytes = register_bytes(x->type), pack = bytes / element_bytes(x->type);
	uint32_t at = x->sizes[0];

	w->worker->until_pause -= STEPS_MATRIX;

	mma_read(w, x, &s, 'a', at, x->sizes[1], x->from_type, &a);
	at += x->sizes[1];
	mma_read(w, x, &s, 'b', at, x->sizes[2], x->flag_a, &b);
	at += x->sizes[2];
	mma_read(w, x, &s, 'c', at, x->sizes[3], x->flag_b, &c);
	multiply(&d, &a, &b, &c);
	FOR_LANES(i, mask)
	for (uint32_t e = 0; e < x->sizes[0] * pack; e++) {
		uint32_t row, column;

		place_c(i, e, &row, &column);
		element_write(
			REG(w, x->ops[e / pack]) + i * bytes + e % pack * element_bytes(x->type),
			x->type, *matrix_at(&d, row, column), x->is_sat);
	}
}

/* ---- ldmatrix, stmatrix, movmatrix: matrices of 8 rows of 16 bytes ---- */

static uint64_t matrix_address(const struct warp *w, const struct insn *in, uint32_t lane)
{
	if (in->a == OPERAND_NONE)
		return (uint64_t)in->imm;
	if (in->x->flag_a == 8)
		return ((const uint64_t *)REG(w, in->a))[lane] + (uint64_t)in->imm;
	return ((const uint32_t *)REG(w, in->a))[lane] + (uint32_t)in->imm;
}

static uint16_t *row_at(struct warp *w, const struct insn *in, uint32_t lane, bool write)
{
	uint64_t address = matrix_address(w, in, lane);
	bool is_host;
	uint16_t *row;

	if (address & 15) {
		warp_fault(w, in, PTX_MISALIGNED_ADDRESS, address);
		return NULL;
	}
	row = access_lane(w, in, lane, in->x->space, address, 16, write, &is_host);
	if (is_host)
		warp_fault(w, in, PTX_ILLEGAL_ADDRESS, address);
	return row;
}

void exec_ldmatrix(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;

	for (uint32_t k = 0; k < x->n; k++) {
		const uint16_t *rows[8];
		uint16_t *d = (uint16_t *)REG(w, x->ops[k]);

		for (uint32_t r = 0; r < 8; r++) {
			rows[r] = row_at(w, in, 8 * k + r, false);
			if (!rows[r])
				return;
		}
		FOR_LANES(i, mask)
		for (uint32_t j = 0; j < 2; j++)
			d[2 * i + j] = x->is_negated ? rows[i % 4 * 2 + j][i / 4] /* .trans */
						     : rows[i / 4][i % 4 * 2 + j];
	}
}

void exec_stmatrix(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;

	for (uint32_t k = 0; k < x->n; k++) {
		const uint16_t *a = (const uint16_t *)REG(w, x->ops[k]);
		uint16_t *rows[8];

		for (uint32_t r = 0; r < 8; r++) {
			rows[r] = row_at(w, in, 8 * k + r, true);
			if (!rows[r])
				return;
		}
		FOR_LANES(i, mask)
		for (uint32_t j = 0; j < 2; j++) {
			if (x->is_negated)
				rows[i % 4 * 2 + j][i / 4] = a[2 * i + j];
			else
				rows[i / 4][i % 4 * 2 + j] = a[2 * i + j];
		}
	}
}

void exec_movmatrix(struct warp *w, const struct insn *in, uint32_t mask)
{
	const uint16_t *a = (const uint16_t *)REG(w, in->a);
	uint16_t *d = (uint16_t *)REG(w, in->d), m[8][8];

	for (uint32_t i = 0; i < LANES; i++)
		for (uint32_t j = 0; j < 2; j++)
			m[i / 4][i % 4 * 2 + j] = a[2 * i + j];
	FOR_LANES(i, mask)
	for (uint32_t j = 0; j < 2; j++)
		d[2 * i + j] = m[i % 4 * 2 + j][i / 4];
}

/* ---- wmma ---- */

/* Where element `index` of a fragment lies. */
static uint8_t *fragment_at(struct warp *w, const struct extra *x, uint32_t first,
	enum ptx_type type, uint32_t elements, uint32_t index)
{
	uint32_t each = elements / LANES, lane = index / each, e = index % each;
	uint32_t bytes = register_bytes(type), pack = bytes / element_bytes(type);

	return REG(w, x->ops[first + e / pack]) + lane * bytes + e % pack * element_bytes(type);
}

/* shape_m, shape_n: rows and columns; is_negated: columns lie behind one another in memory */
static void wmma_move(struct warp *w, const struct insn *in, uint32_t mask, bool is_store)
{
	const struct extra *x = in->x;
	const uint32_t lane = (uint32_t)__builtin_ctz(mask), bytes = element_bytes(x->type);
	uint64_t address = matrix_address(w, in, lane), stride;

	stride = x->is_negated ? x->shape_m : x->shape_n;
	if (in->b != OPERAND_NONE)
		stride = ((const uint32_t *)REG(w, in->b))[lane];
	for (uint32_t r = 0; r < x->shape_m; r++)
		for (uint32_t c = 0; c < x->shape_n; c++) {
			uint64_t at = x->is_negated ? c * stride + r : r * stride + c;
			bool is_host;
			uint8_t *element = fragment_at(w, x, 0, x->type,
				(uint32_t)x->shape_m * x->shape_n, r * x->shape_n + c);
			uint8_t *p = access_lane(w, in, lane, x->space, address + at * bytes, bytes,
				is_store, &is_host);

			if (!p) {
				if (is_host)
					warp_fault(w, in, PTX_ILLEGAL_ADDRESS, address);
				return;
			}
			memcpy(is_store ? p : element, is_store ? element : p, bytes);
		}
}

void exec_wmma_load(struct warp *w, const struct insn *in, uint32_t mask)
{
	wmma_move(w, in, mask, false);
}

void exec_wmma_store(struct warp *w, const struct insn *in, uint32_t mask)
{
	wmma_move(w, in, mask, true);
}

static void wmma_read(
	struct warp *w, const struct extra *x, uint32_t first, enum ptx_type type, struct matrix *m)
{
	uint32_t n = m->rows * m->columns;

	for (uint32_t i = 0; i < n; i++)
		m->v[i] = element_read(fragment_at(w, x, first, type, n, i), type);
}

void exec_wmma_mma(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	struct matrix a = {.rows = x->shape_m, .columns = x->shape_k};
	struct matrix b = {.rows = x->shape_k, .columns = x->shape_n};
	struct matrix c = {.rows = x->shape_m, .columns = x->shape_n}, d;
	uint32_t at = x->sizes[0], n = c.rows * c.columns;

	w->worker->until_pause -= STEPS_MATRIX;
	wmma_read(w, x, at, x->from_type, &a);
	at += x->sizes[1];
	wmma_read(w, x, at, x->flag_a, &b);
	at += x->sizes[2];
	wmma_read(w, x, at, x->flag_b, &c);
	multiply(&d, &a, &b, &c);
	for (uint32_t i = 0; i < n; i++)
		element_write(fragment_at(w, x, 0, x->type, n, i), x->type, d.v[i], x->is_sat);
}
