/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads, stores, atomics and asynchronous copies. Each lane's address becomes a pointer once:
 * shared, local and parameter memory by bounds, device memory by the ranges that the device has
 * confirmed. Memory of the host has no pointer; its bytes go through the device's `host` function.
 * Threads of different blocks reach the same bytes at once, so atomics are the compiler's.
 */
#include "ptx/ptx-internal.h"

#include <errno.h>
#include <math.h>

#include "ptx/ptx-ops.h"

void access_forget(struct worker *worker)
{
	memset(worker->ranges, 0, sizeof(worker->ranges));
}

/* Returns 0, -EFAULT, or -ENXIO for host memory. */
static int access_find_range(
	struct worker *worker, uint64_t address, uint32_t bytes, bool write, struct ptx_range **ret)
{
	const struct ptx_device *device = worker->job->device;
	struct ptx_range *r;
	int e;

	for (uint32_t i = 0; i < RANGES; i++) {
		r = &worker->ranges[i];
		if (address >= r->lo && address < r->hi && bytes <= r->hi - address) {
			*ret = r;
			return !write || r->can_write ? 0 : -EFAULT;
		}
	}
	r = &worker->ranges[worker->next_range++ % RANGES];
	*r = (struct ptx_range){0};
	e = device->range(device->user, address, r);
	if (e < 0) {
		*r = (struct ptx_range){0};
		return e;
	}
	if (address < r->lo || address >= r->hi || bytes > r->hi - address ||
		(write && !r->can_write))
		return -EFAULT;
	*ret = r;
	return 0;
}

static enum space access_split(enum space space, uint64_t *address)
{
	static const struct {
		uint64_t base;
		enum space space;
	} windows[] = {{SPACE_SHARED, SP_SHARED}, {SPACE_LOCAL, SP_LOCAL}, {SPACE_PARAM, SP_PARAM}};

	if (space != SP_GENERIC)
		return space;
	if (*address < SPACE_SHARED)
		return SP_GLOBAL;
	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
		if (*address - windows[i].base < SPACE_BYTES) {
			*address -= windows[i].base;
			return windows[i].space;
		}
	}
	return SP_GLOBAL;
}

void *access_lane(struct warp *w, const struct insn *in, uint32_t lane, enum space space,
	uint64_t address, uint32_t bytes, bool write, bool *ret_host)
{
	struct ptx_job *job = w->worker->job;
	const uint64_t original = address;
	struct ptx_range *range;
	uint64_t limit;
	uint8_t *base;
	int e;

	*ret_host = false;
	switch (access_split(space, &address)) {
	case SP_SHARED:
		base = w->block->shared;
		limit = address < SHARED_STATIC ? job->dynamic_end : job->shared_end;
		break;
	case SP_FRAME: address += w->frame->local_base; __attribute__((fallthrough));
	case SP_LOCAL:
		base = w->local + lane * w->local_stride;
		limit = job->local_bytes;
		break;
	case SP_PARAM:
		base = job->params;
		limit = job->grid_at + GRID_BYTES;
		break;
	default:
		e = access_find_range(w->worker, address, bytes, write, &range);
		if (e == 0)
			return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
		if (e == -ENXIO && job->device->host)
			*ret_host = true;
		else
			warp_fault(w, in, PTX_ILLEGAL_ADDRESS, address);
		return NULL;
	}
	if (address > limit || bytes > limit - address) {
		warp_fault(w, in, PTX_ILLEGAL_ADDRESS, original);
		return NULL;
	}
	return base + address;
}

/*
 * A thread's accesses to host memory go one by one. Memory of the device may move meanwhile: the
 * caller must find its pointers again.
 */
static bool access_host(struct warp *w, const struct insn *in, uint64_t address, void *buf,
	uint32_t bytes, bool write)
{
	const struct ptx_device *device = w->worker->job->device;
	int r;

	w->worker->until_pause -= STEPS_HOST;
	if (atomic_load_explicit(&w->worker->job->cancel, memory_order_relaxed))
		return false;
	r = device->host(device->user, address, buf, bytes, write);
	access_forget(w->worker);
	if (r < 0)
		warp_fault(w, in, PTX_ILLEGAL_ADDRESS, address);
	return r >= 0;
}

enum { HOST_PART = 256 }; /* bytes of a text that are read at once */

bool access_text(struct warp *w, const struct insn *in, uint32_t lane, uint64_t address, char *buf,
	size_t size)
{
	for (size_t i = 0; i + 1 < size; i++) {
		bool is_host;
		const char *p = access_lane(
			w, in, lane, SP_GENERIC, address + i, 1, false, &is_host);

		if (is_host) {
			/* A part that crosses no page: the text may be the last of its mapping. */
			size_t n = HOST_PART - (address + i) % HOST_PART;

			n = n < size - 1 - i ? n : size - 1 - i;
			if (!access_host(w, in, address + i, buf + i, (uint32_t)n, false))
				return false;
			if (memchr(buf + i, '\0', n))
				return true;
			i += n - 1;
			continue;
		}
		if (!p)
			return false;
		buf[i] = *p;
		if (buf[i] == '\0')
			return true;
	}
	buf[size - 1] = '\0';
	return true;
}

static void access_addresses(const struct warp *w, const struct insn *in, uint64_t *address)
{
	if (in->a == OPERAND_NONE) {
		for (uint32_t i = 0; i < LANES; i++)
			address[i] = (uint64_t)in->imm;
	} else if (in->x->flag_a == 8) {
		const uint64_t *a = (const uint64_t *)REG(w, in->a);

		for (uint32_t i = 0; i < LANES; i++)
			address[i] = a[i] + (uint64_t)in->imm;
	} else {
		const uint32_t *a = (const uint32_t *)REG(w, in->a);

		for (uint32_t i = 0; i < LANES; i++)
			address[i] = a[i] + (uint32_t)in->imm;
	}
}

/* Copies one value between a register lane of reg_bytes and memory of width bytes. */
static void access_load_value(
	uint8_t *reg, uint32_t reg_bytes, const uint8_t *from, uint32_t width, bool is_signed)
{
	int64_t v = 0;

	if (width == reg_bytes) {
		memcpy(reg, from, width);
		return;
	}
	memcpy(&v, from, width < 8 ? width : 8);
	if (is_signed && width < 8)
		v = (int64_t)((uint64_t)v << (64 - 8 * width)) >> (64 - 8 * width);
	memset(reg, 0, reg_bytes);
	memcpy(reg, &v, reg_bytes < 8 ? reg_bytes : 8);
}

#define COPY_LANES(T) \
	do { \
		T *to = (T *)reg; \
\
		if (is_full) { \
			for (uint32_t i = 0; i < LANES; i++) \
				to[i] = *(const T *)(p[i] + at); \
		} else { \
			FOR_LANES(i, mask) \
			to[i] = *(const T *)(p[i] + at); \
		} \
	} while (0)

static void access_copy_in(const struct warp *w, uint8_t *reg, uint8_t *const *p, uint32_t at,
	uint32_t mask, const struct extra *x)
{
	bool is_full = mask == MASK_ALL;

	if (x->width == x->reg_bytes && x->width == 4) {
		COPY_LANES(uint32_t);
	} else if (x->width == x->reg_bytes && x->width == 8) {
		COPY_LANES(uint64_t);
	} else if (x->width == x->reg_bytes && x->width == 2) {
		COPY_LANES(uint16_t);
	} else {
		FOR_LANES(i, mask)
		access_load_value(reg + i * x->reg_bytes, x->reg_bytes, p[i] + at, x->width,
			type_table[x->type].kind == 's');
	}
}

static void access_copy_out(
	const uint8_t *reg, uint8_t *const *p, uint32_t at, uint32_t mask, const struct extra *x)
{
	switch (x->width) {
	case 4:
		FOR_LANES(i, mask)
		memcpy(p[i] + at, reg + i * x->reg_bytes, 4);
		break;
	case 8:
		FOR_LANES(i, mask)
		memcpy(p[i] + at, reg + i * x->reg_bytes, 8);
		break;
	default:
		FOR_LANES(i, mask)
		memcpy(p[i] + at, reg + i * x->reg_bytes, x->width);
		break;
	}
}

static bool access_host_lane(
	struct warp *w, const struct insn *in, uint32_t lane, uint64_t address, bool write)
{
	const struct extra *x = in->x;
	uint8_t buf[128];

	if (!write && !access_host(w, in, address, buf, x->width * x->n, false))
		return false;
	for (uint32_t k = 0; k < x->n; k++) {
		uint8_t *reg;

		if (x->ops[k] == OPERAND_NONE)
			continue;
		reg = REG(w, x->ops[k]) + lane * x->reg_bytes;
		if (write)
			memcpy(buf + k * x->width, reg, x->width);
		else
			access_load_value(reg, x->reg_bytes, buf + k * x->width, x->width,
				type_table[x->type].kind == 's');
	}
	return !write || access_host(w, in, address, buf, x->width * x->n, true);
}

/*
 * The usual case: all lanes access one range, or shared memory. Then two comparisons check all
 * addresses. Returns false if the lanes need a closer look.
 */
static bool access_span(struct warp *w, const struct insn *in, uint32_t mask,
	const uint64_t *address, bool write, uint8_t **p)
{
	const struct extra *x = in->x;
	const uint64_t first = address[__builtin_ctz(mask)], bytes = (uint64_t)x->width * x->n;
	uint64_t lo = first, hi = first, low_bits = 0, base = 0, at[LANES];
	const struct ptx_job *job = w->worker->job;
	struct ptx_range *range;

	for (uint32_t i = 0; i < LANES; i++) {
		at[i] = mask >> i & 1 ? address[i] : first;
		lo = at[i] < lo ? at[i] : lo;
		hi = at[i] > hi ? at[i] : hi;
		low_bits |= at[i];
	}
	if ((low_bits & (bytes - 1)) != 0)
		return false;
	if (x->space == SP_SHARED || (x->space == SP_GENERIC && lo - SPACE_SHARED < SPACE_BYTES)) {
		const uint64_t window = x->space == SP_SHARED ? 0 : SPACE_SHARED;
		const uint64_t limit = lo - window < SHARED_STATIC ? job->dynamic_end
								   : job->shared_end;

		if (hi - window > limit || bytes > limit - (hi - window))
			return false;
		base = (uint64_t)(uintptr_t)w->block->shared - window;
	} else if (x->space > SP_GLOBAL || hi >= SPACE_SHARED || hi - lo > UINT32_MAX / 2 ||
		access_find_range(w->worker, lo, (uint32_t)(hi - lo + bytes), write, &range) < 0) {
		return false;
	}
	for (uint32_t i = 0; i < LANES; i++)
		p[i] = (uint8_t *)(uintptr_t)(base + at[i]); // NOLINT
	return true;
}

/* Fills the pointers of the lanes, and the mask of lanes with host memory. False: a fault. */
static bool access_resolve(struct warp *w, const struct insn *in, uint32_t mask,
	const uint64_t *address, bool write, uint8_t **p, uint32_t *ret_hosts)
{
	const struct extra *x = in->x;
	const uint32_t bytes = x->width * x->n;
	const enum space space = x->space;
	const struct ptx_range *r = &w->worker->ranges[0];

	*ret_hosts = 0;
	FOR_LANES(i, mask)
	{
		bool is_host;

		if ((address[i] & (bytes - 1)) != 0) {
			warp_fault(w, in, PTX_MISALIGNED_ADDRESS, address[i]);
			return false;
		}
		if (space <= SP_GLOBAL && address[i] >= r->lo && address[i] < r->hi &&
			bytes <= r->hi - address[i] && (!write || r->can_write)) {
			p[i] = (uint8_t *)(uintptr_t)address[i]; // NOLINT
			continue;
		}
		p[i] = access_lane(w, in, i, space, address[i], bytes, write, &is_host);
		if (is_host)
			*ret_hosts |= 1u << i;
		else if (!p[i])
			return false;
		for (uint32_t k = 0; k < RANGES; k++)
			if (address[i] - w->worker->ranges[k].lo <
				w->worker->ranges[k].hi - w->worker->ranges[k].lo)
				r = &w->worker->ranges[k];
	}
	return true;
}

/*
 * Fills the pointers of the lanes. Lanes with host memory are served at once and leave the mask.
 * Returns the lanes that are left; none after a fault.
 */
static uint32_t access_pointers(struct warp *w, const struct insn *in, uint32_t mask,
	const uint64_t *address, bool write, uint8_t **p)
{
	uint32_t hosts;

	if (access_span(w, in, mask, address, write, p))
		return mask;
	if (!access_resolve(w, in, mask, address, write, p, &hosts))
		return 0;
	if (hosts == 0)
		return mask;
	FOR_LANES(i, hosts)
	if (!access_host_lane(w, in, i, address[i], write))
		return 0;
	mask &= ~hosts;
	return access_resolve(w, in, mask, address, write, p, &hosts) ? mask & ~hosts : 0;
}

/* All lanes read or write one row of memory, the usual case: returns its first byte, or NULL. */
static uint8_t *access_row(
	struct warp *w, const struct insn *in, const uint64_t *address, bool write)
{
	const struct extra *x = in->x;
	struct ptx_range *range;
	uint64_t diff = 0, first = address[0];
	uint64_t stride = x->width;

	for (uint32_t i = 0; i < LANES; i++)
		diff |= address[i] ^ (first + i * stride);
	if (diff != 0 || (first & (stride - 1)) != 0)
		return NULL;
	if (x->space == SP_SHARED) {
		uint64_t limit = first < SHARED_STATIC ? w->worker->job->dynamic_end
						       : w->worker->job->shared_end;

		if (first > limit || LANES * stride > limit - first)
			return NULL;
		return w->block->shared + first;
	}
	if (x->space > SP_GLOBAL || first >= SPACE_SHARED ||
		access_find_range(w->worker, first, LANES * x->width, write, &range) < 0)
		return NULL;
	return (uint8_t *)(uintptr_t)first; // NOLINT
}

#define FILL_LANES(T) \
	do { \
		T *to = (T *)reg, v; \
\
		memcpy(&v, from, sizeof(v)); \
		for (uint32_t i = 0; i < LANES; i++) \
			to[i] = v; \
	} while (0)

static void access_fill(
	struct warp *w, uint8_t *reg, const uint8_t *from, uint32_t mask, const struct extra *x)
{
	if (warp_is_full(w, mask) && x->width == x->reg_bytes && x->width == 4) {
		FILL_LANES(uint32_t);
	} else if (warp_is_full(w, mask) && x->width == x->reg_bytes && x->width == 8) {
		FILL_LANES(uint64_t);
	} else {
		FOR_LANES(i, mask)
		access_load_value(reg + i * x->reg_bytes, x->reg_bytes, from, x->width,
			type_table[x->type].kind == 's');
	}
}

/* Loads at one address for all lanes, as kernels load their parameters. */
static bool access_same(
	struct warp *w, const struct insn *in, uint32_t mask, uint64_t address, uint32_t bytes)
{
	const struct extra *x = in->x;
	bool is_host;
	const uint8_t *from;

	if (x->space == SP_PARAM && address <= w->worker->job->param_bytes &&
		bytes <= w->worker->job->param_bytes - address)
		from = w->worker->job->params + address;
	else
		from = access_lane(w, in, (uint32_t)__builtin_ctz(mask), x->space, address, bytes,
			false, &is_host);
	if (!from)
		return !is_host;
	for (uint32_t k = 0; k < x->n; k++)
		if (x->ops[k] != OPERAND_NONE)
			access_fill(w, REG(w, x->ops[k]), from + k * x->width, mask, x);
	return true;
}

/* With a size that the compiler knows, the copy is a few instructions. */
static void row_copy(uint8_t *to, const uint8_t *from, uint32_t width)
{
	switch (width) {
	case 4: memcpy(to, from, (size_t)LANES * 4); break;
	case 8: memcpy(to, from, (size_t)LANES * 8); break;
	case 2: memcpy(to, from, (size_t)LANES * 2); break;
	default: memcpy(to, from, (size_t)LANES * width); break;
	}
}

void exec_load(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	uint64_t address[LANES];
	uint8_t *p[LANES];
	uint8_t *row;

	if (in->a == OPERAND_NONE && x->space != SP_LOCAL && x->space != SP_FRAME &&
		((uint64_t)in->imm & (x->width * x->n - 1)) == 0 &&
		access_same(w, in, mask, (uint64_t)in->imm, x->width * x->n))
		return;
	access_addresses(w, in, address);
	if (mask == MASK_ALL && x->n == 1 && x->width == x->reg_bytes &&
		x->ops[0] != OPERAND_NONE) {
		row = access_row(w, in, address, false);
		if (row) {
			row_copy(REG(w, x->ops[0]), row, x->width);
			return;
		}
	}
	mask = access_pointers(w, in, mask, address, false, p);
	if (mask == 0)
		return;
	for (uint32_t k = 0; k < x->n; k++)
		if (x->ops[k] != OPERAND_NONE)
			access_copy_in(w, REG(w, x->ops[k]), p, k * x->width, mask, x);
}

void exec_store(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	uint64_t address[LANES];
	uint8_t *p[LANES];
	uint8_t *row;

	access_addresses(w, in, address);
	if (mask == MASK_ALL && x->n == 1 && x->width == x->reg_bytes) {
		row = access_row(w, in, address, true);
		if (row) {
			row_copy(row, REG(w, x->ops[0]), x->width);
			return;
		}
	}
	mask = access_pointers(w, in, mask, address, true, p);
	for (uint32_t k = 0; k < x->n && mask != 0; k++)
		access_copy_out(REG(w, x->ops[k]), p, k * x->width, mask, x);
}

/* ---- atomics ---- */

static uint64_t atomic_float(enum ptx_type type, enum atomic_op op, uint64_t old, uint64_t b)
{
	float fa, fb;
	double da, db;
	uint32_t ua = (uint32_t)old, ub = (uint32_t)b;

	if (type == T_F64) {
		memcpy(&da, &old, sizeof(da));
		memcpy(&db, &b, sizeof(db));
		da = op == ATOMIC_ADD ? da + db : op == ATOMIC_MIN ? fmin(da, db) : fmax(da, db);
		memcpy(&old, &da, sizeof(da));
		return old;
	}
	memcpy(&fa, &ua, sizeof(fa));
	memcpy(&fb, &ub, sizeof(fb));
	fa = op == ATOMIC_ADD ? fa + fb : op == ATOMIC_MIN ? fminf(fa, fb) : fmaxf(fa, fb);
	memcpy(&ua, &fa, sizeof(ua));
	return ua;
}

static uint16_t atomic_half(enum ptx_type type, enum atomic_op op, uint16_t old, uint16_t b)
{
	bool is_bf16 = type == T_BF16 || type == T_BF16X2;
	double x = (double)(is_bf16 ? bf16_to_float(old) : half_to_float(old));
	double y = (double)(is_bf16 ? bf16_to_float(b) : half_to_float(b));
	double r = op == ATOMIC_ADD ? x + y : op == ATOMIC_MIN ? fmin(x, y) : fmax(x, y);

	return is_bf16 ? bf16_round(r, ROUND_NEAREST) : half_round(r, ROUND_NEAREST);
}

static uint64_t atomic_less(enum ptx_type type, uint64_t a, uint64_t b)
{
	switch (type) {
	case T_S32: return (int32_t)a < (int32_t)b;
	case T_S64: return (int64_t)a < (int64_t)b;
	case T_U64: return a < b;
	default: return (uint32_t)a < (uint32_t)b;
	}
}

static uint64_t atomic_new(const struct extra *x, uint64_t old, uint64_t b, uint64_t c)
{
	const enum ptx_type type = x->type;

	if (x->op <= ATOMIC_MAX) {
		if (type == T_F32 || type == T_F64)
			return atomic_float(type, x->op, old, b);
		if (type == T_F16 || type == T_BF16)
			return atomic_half(type, x->op, (uint16_t)old, (uint16_t)b);
		if (type == T_F16X2 || type == T_BF16X2)
			return atomic_half(type, x->op, (uint16_t)old, (uint16_t)b) |
				(uint32_t)atomic_half(
					type, x->op, (uint16_t)(old >> 16), (uint16_t)(b >> 16))
				<< 16;
	}
	switch ((enum atomic_op)x->op) {
	case ATOMIC_ADD: return old + b;
	case ATOMIC_MIN: return atomic_less(type, b, old) ? b : old;
	case ATOMIC_MAX: return atomic_less(type, old, b) ? b : old;
	case ATOMIC_AND: return old & b;
	case ATOMIC_OR: return old | b;
	case ATOMIC_XOR: return old ^ b;
	case ATOMIC_EXCH: return b;
	case ATOMIC_CAS: return old == b ? c : old;
	case ATOMIC_INC: return (uint32_t)old >= (uint32_t)b ? 0 : old + 1;
	case ATOMIC_DEC: return old == 0 || (uint32_t)old > (uint32_t)b ? b : old - 1;
	}
	return old;
}

#define ATOMIC_LOOP(T) \
	do { \
		T *word = p, before = __atomic_load_n(word, __ATOMIC_RELAXED), after; \
\
		do \
			after = (T)atomic_new(x, before, (T)b, (T)c); \
		while (!__atomic_compare_exchange_n( \
			word, &before, after, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)); \
		return before; \
	} while (0)

static uint64_t atomic_apply(const struct extra *x, void *p, uint64_t b, uint64_t c)
{
	if (x->op == ATOMIC_ADD && (x->type == T_U32 || x->type == T_S32))
		return __atomic_fetch_add((uint32_t *)p, (uint32_t)b, __ATOMIC_SEQ_CST);
	if (x->op == ATOMIC_ADD && (x->type == T_U64 || x->type == T_S64))
		return __atomic_fetch_add((uint64_t *)p, b, __ATOMIC_SEQ_CST);
	switch (x->width) {
	case 2: ATOMIC_LOOP(uint16_t);
	case 8: ATOMIC_LOOP(uint64_t);
	default: ATOMIC_LOOP(uint32_t);
	}
}

static uint64_t atomic_operand(const struct warp *w, int32_t at, uint32_t width, uint32_t lane)
{
	uint64_t v = 0;

	if (at != OPERAND_NONE)
		memcpy(&v, REG(w, at) + lane * width, width);
	return v;
}

struct atomic_update {
	const struct extra *x;
	uint64_t old, b, c;
};

static void atomic_update(void *data, void *buf)
{
	struct atomic_update *u = data;
	uint64_t now;

	memcpy(&u->old, buf, u->x->width);
	now = atomic_new(u->x, u->old, u->b, u->c);
	memcpy(buf, &now, u->x->width);
}

static bool atomic_host(struct warp *w, const struct insn *in, uint64_t address, uint64_t b,
	uint64_t c, uint64_t *ret_old)
{
	const struct ptx_device *device = w->worker->job->device;
	struct atomic_update u = {.x = in->x, .b = b, .c = c};
	int r;

	w->worker->until_pause -= (int64_t)2 * STEPS_HOST;
	if (atomic_load_explicit(&w->worker->job->cancel, memory_order_relaxed))
		return false;
	r = device->host_update(device->user, address, in->x->width, atomic_update, &u);
	access_forget(w->worker);
	if (r < 0)
		warp_fault(w, in, PTX_ILLEGAL_ADDRESS, address);
	*ret_old = u.old;
	return r >= 0;
}

void exec_atomic(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	uint64_t address[LANES];

	access_addresses(w, in, address);
	FOR_LANES(i, mask)
	{
		const uint32_t bytes = x->width * x->n;
		bool is_host;
		uint8_t *p;

		if ((address[i] & (bytes - 1)) != 0) {
			warp_fault(w, in, PTX_MISALIGNED_ADDRESS, address[i]);
			return;
		}
		p = access_lane(w, in, i, x->space, address[i], bytes, true, &is_host);
		if (!p && !is_host)
			return;
		for (uint32_t k = 0; k < x->n; k++) {
			uint64_t b = atomic_operand(w, x->ops[x->n + k], x->width, i);
			uint64_t c = atomic_operand(w, in->c, x->width, i), old = 0;

			if (is_host) {
				if (!atomic_host(w, in, address[i] + k * x->width, b, c, &old))
					return;
			} else {
				old = atomic_apply(x, p + k * x->width, b, c);
			}
			if (x->ops[k] != OPERAND_NONE)
				memcpy(REG(w, x->ops[k]) + i * x->width, &old, x->width);
		}
	}
}

/* ---- asynchronous copies: they are complete at once ---- */

/* a: destination in shared memory, b: source in global memory, c: bytes to read or NONE */
void exec_copy_async(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	uint64_t address[LANES];

	access_addresses(w, in, address);
	FOR_LANES(i, mask)
	{
		uint64_t from = atomic_operand(w, x->ops[0], 8, i) +
			(uint64_t)(int64_t)(int32_t)x->d2;
		uint64_t n = in->c == OPERAND_NONE ? x->width : atomic_operand(w, in->c, 4, i);
		uint8_t bytes[16] = {0};
		bool is_host = false;
		const uint8_t *source = NULL;
		uint8_t *to;

		n = n < x->width ? n : x->width;
		if (n)
			source = access_lane(
				w, in, i, SP_GENERIC, from, (uint32_t)n, false, &is_host);
		if (source)
			memcpy(bytes, source, n);
		else if (n && (!is_host || !access_host(w, in, from, bytes, (uint32_t)n, false)))
			return;
		to = access_lane(w, in, i, x->space, address[i], x->width, true, &is_host);
		if (is_host)
			warp_fault(w, in, PTX_ILLEGAL_ADDRESS, address[i]);
		if (!to)
			return;
		memcpy(to, bytes, x->width);
	}
}
