/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of this folder: translated instructions, functions, and the state of warps.
 *
 * A register is an array with one element for each of the 32 lanes; a predicate is a mask. An
 * operand is an offset: >= 0 from the frame's registers, < 0 from the end of the function's
 * constants, which have the same form. So no instruction needs to know which of both an operand is.
 */
#ifndef PTX_PTX_INTERNAL_H
#define PTX_PTX_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "ptx/ptx.h"

enum { LANES = 32 };
#define MASK_ALL UINT32_MAX
#define OPERAND_NONE INT32_MIN

/* Generic addresses of the spaces that are not global; no program has memory there. */
#define SPACE_SHARED UINT64_C(0x1000000000000)
#define SPACE_LOCAL UINT64_C(0x1100000000000)
#define SPACE_PARAM UINT64_C(0x1200000000000)
#define SPACE_CODE UINT64_C(0x1300000000000)
#define SPACE_BYTES UINT64_C(0x100000000000)

/*
 * Addresses in shared memory: first the dynamic part, whose size comes with the launch, then the
 * variables of all kernels of the module.
 */
/* Memory that the blocks of a cooperative launch share: its size, then a word for a barrier. */
enum { GRID_BYTES = 64 };

enum { SHARED_DYNAMIC = 1024, SHARED_STATIC = 1 << 18 };

enum ptx_type {
	T_NONE,
	T_PRED,
	T_B8,
	T_U8,
	T_S8,
	T_B16,
	T_U16,
	T_S16,
	T_F16,
	T_BF16,
	T_B32,
	T_U32,
	T_S32,
	T_F32,
	T_F16X2,
	T_BF16X2,
	T_TF32,
	T_B64,
	T_U64,
	T_S64,
	T_F64,
	T_F32X2,
	T_B128,
	T_E4M3X2,
	T_E5M2X2,
	T_U16X2,
	T_S16X2,
	T_COUNT,
};

struct type_info {
	const char *name;
	uint8_t bytes;
	char kind; /* 'b', 'u', 's', 'f' or 'p' */
};
extern const struct type_info type_table[T_COUNT];

enum space { SP_GENERIC, SP_GLOBAL, SP_SHARED, SP_LOCAL, SP_PARAM, SP_FRAME };

/* Kinds of instructions for the loop of ptx-run.c. */
enum control {
	CTL_LANES, /* calls fn */
	CTL_BRANCH,
	CTL_TABLE, /* brx.idx */
	CTL_CALL,
	CTL_RETURN,
	CTL_EXIT,
	CTL_BARRIER,
	CTL_WARP,  /* waits for the lanes of a member mask, then calls fn */
	CTL_YIELD, /* calls fn, then lets other warps run */
};

enum insn_flags {
	INSN_NOT = 1 << 0,   /* the guard is negated */
	INSN_JOIN = 1 << 1,  /* divergent lanes may meet here */
	INSN_FAULT = 1 << 2, /* may fail */
	INSN_BACK = 1 << 3,  /* a branch backwards */
};

struct warp;
struct insn;
typedef void exec_fn(struct warp *w, const struct insn *in, uint32_t mask);

struct insn {
	exec_fn *fn;
	int32_t d, a, b, c;
	int32_t guard; /* offset of the predicate, or OPERAND_NONE */
	uint8_t control, flags;
	uint16_t n; /* small number, by instruction */
	uint32_t line;
	uint32_t target; /* index of an instruction, by CTL_BRANCH */
	int64_t imm;
	const struct extra *x; /* NULL for most */
};

enum { EXTRA_OPERANDS_MAX = 40 };

/* More about an instruction that needs it. */
struct extra {
	exec_fn *inner; /* of a wrapper that sets the rounding */
	uint8_t space, type, from_type, reg_bytes, width, op, sem, rounding;
	bool is_ftz, is_sat, is_uniform_address, is_relu, is_finite, has_pair, is_negated;
	uint8_t flag_a, flag_b, shape_m, shape_n, shape_k;
	uint32_t n;
	int32_t d2;   /* predicate of "d|p", or OPERAND_NONE */
	int32_t mask; /* operand with the member mask, or OPERAND_NONE */
	int32_t func; /* of a call, or -1 */
	const struct call_shape *call;
	const struct bulk_copy *bulk;
	const uint32_t *targets;
	int32_t ops[EXTRA_OPERANDS_MAX];
	uint8_t sizes[EXTRA_OPERANDS_MAX];
};

/* Destination, source and barrier of cp.async.bulk: a register or OPERAND_NONE, and an offset. */
struct bulk_copy {
	int32_t reg[3];
	uint8_t reg_bytes[3], space[3];
	bool has_barrier;
	int64_t imm[3];
};

struct param {
	uint32_t offset, bytes; /* in the local memory of the frame; kernels: in the parameters */
	int32_t reg;            /* register parameter, or OPERAND_NONE */
	uint8_t reg_bytes;
};

struct call_shape {
	uint32_t n_args, n_rets;
	const struct param *args, *rets;
};

enum builtin { BUILTIN_NONE, BUILTIN_VPRINTF, BUILTIN_ASSERT, BUILTIN_MALLOC, BUILTIN_FREE };

struct func {
	char *name;
	bool is_entry, has_body, has_alloca;
	uint8_t builtin;
	struct param *params, *rets;
	uint32_t n_params, n_rets;
	uint32_t param_bytes;
	uint32_t reg_bytes, const_bytes, local_bytes;
	struct insn *insns;
	uint32_t n_insns;
	uint8_t *consts; /* end of the constants */
};

struct kernel_name {
	struct str name;
	uint32_t kernel;
};

struct ptx {
	struct func **funcs;
	uint32_t n_funcs, cap_funcs;
	uint32_t *kernels;
	struct kernel_name *names; /* of the kernels, sorted */
	uint32_t n_kernels;
	bool has_functions; /* besides kernels */
	struct ptx_patch *patches;
	uint32_t n_patches, cap_patches;
	uint32_t shared_end; /* of the static shared memory of all kernels */
	bool has_print, has_heap;
	const struct ptx_memory *memory; /* NULL: no bound */
	uint64_t taken;                  /* of the memory */
	struct arena arena;              /* everything that the module keeps */
};

/* ---- state ---- */

struct frame {
	struct frame *parent;
	const struct func *func;
	const struct insn *call; /* the call that made the frame; NULL: the kernel's */
	uint8_t *regs;
	void *memory;   /* of the registers, and of the frame unless it is the kernel's */
	uint32_t mask;  /* lanes that have not returned */
	uint32_t carry; /* CC.CF */
	uint32_t local_base, local_top;
	uint32_t depth;
	uint32_t tops
		[LANES]; /* only with alloca: the end of each lane's memory, instead of local_top */
};

enum frag_state { FRAG_RUN, FRAG_BARRIER, FRAG_WARP };

/* Lanes of one warp that run together. */
struct frag {
	struct frame *frame;
	const struct insn *ip;
	uint32_t mask;
	uint8_t state;
	uint8_t barrier;
};

enum { RANGES = 4 };

struct warp {
	uint8_t *regs;
	const uint8_t *consts;
	uint32_t idle; /* lanes that do not exist or have exited: anything may be written there */
	uint32_t live;
	struct frame *frame;
	struct block *block;
	struct worker *worker;
	uint32_t index;
	uint8_t *local; /* local memory, lane after lane */
	uint64_t local_stride;
	struct frag frags[LANES];
	uint32_t n_frags, current;
	uint32_t prefer; /* lanes that run first for a while, so that no lane waits for ever */
	uint32_t patience;
	uint64_t steps, lane_steps, frames_bytes;
	struct frame root;
	uint32_t tid[3][LANES];
};

enum { BARRIERS = 17, BARRIER_CLUSTER = 16 };

struct barrier {
	uint32_t arrived, expected; /* expected 0: all threads of the block */
	uint32_t count_true, waiting;
};

struct block {
	struct ptx_job *job;
	uint32_t id[3];
	uint64_t number;
	uint8_t *shared;
	uint32_t n_warps, live_threads;
	struct warp *warps;
	struct barrier barriers[BARRIERS];
	bool has_progress;
	uint32_t turns;
};

struct ptx_job {
	const struct ptx *ptx;
	const struct func *func;
	const struct ptx_device *device;
	uint32_t grid[3], block[3];
	uint32_t threads, n_warps;
	uint32_t dynamic_end; /* of dynamic shared memory */
	uint32_t shared_end;  /* of static shared memory */
	uint32_t dynamic_bytes;
	uint32_t local_bytes; /* of each lane */
	uint64_t n_blocks;
	bool is_cooperative;
	_Atomic uint64_t next_block;
	_Atomic uint32_t fault, fault_line, cancel;
	_Atomic uint64_t fault_address, steps, lane_steps;
	uint64_t start_ns;
	uint32_t param_bytes;
	/* where the blocks of a cooperative launch meet: behind the parameters, in their space */
	uint32_t grid_at;
	_Alignas(16) uint8_t params[];
};

struct worker {
	struct ptx_job *job;
	struct ptx_range ranges[RANGES];
	uint32_t next_range;
	int64_t until_pause;   /* steps; slow instructions take more than one */
	uint64_t taken, spare; /* bytes of the job's memory: taken in all, and not used */
};

/* How many steps slow instructions count as: for each access and each printing lane, or a warp. */
enum { STEPS_HOST = 64, STEPS_PRINT = 1024, STEPS_MATRIX = 32 };

#define REG(w, off) (((off) >= 0 ? (w)->regs : (uint8_t *)(w)->consts) + (off))

static inline uint32_t pred_read(const struct warp *w, int32_t off)
{
	uint32_t v;

	memcpy(&v, REG(w, off), sizeof(v));
	return v;
}

static inline void pred_write(struct warp *w, int32_t off, uint32_t mask, uint32_t value)
{
	uint32_t v;

	memcpy(&v, REG(w, off), sizeof(v));
	v = (v & ~mask) | (value & mask);
	memcpy(REG(w, off), &v, sizeof(v));
}

static inline bool warp_is_full(const struct warp *w, uint32_t mask)
{
	return (mask | w->idle) == MASK_ALL;
}

#define FOR_LANES(i, mask) \
	for (uint32_t m_##i = (mask), i = 0; m_##i && (i = (uint32_t)__builtin_ctz(m_##i), 1); \
		m_##i &= m_##i - 1)

/* Records the first fault of the job. */
void warp_fault(struct warp *w, const struct insn *in, enum ptx_fault fault, uint64_t address);

/* ---- ptx-access.c ---- */
/*
 * Returns a pointer to memory that a lane may access, or NULL after a fault or for host memory.
 * With host memory, *ret_host is set.
 */
void *access_lane(struct warp *w, const struct insn *in, uint32_t lane, enum space space,
	uint64_t address, uint32_t bytes, bool write, bool *ret_host);
void access_forget(struct worker *worker);
exec_fn exec_load, exec_store, exec_atomic, exec_copy_async;
/* Reads a terminated text at a generic address of a lane into buf; false: fault. */
bool access_text(struct warp *w, const struct insn *in, uint32_t lane, uint64_t address, char *buf,
	size_t size);

/* ---- ptx-mbarrier.c ---- */
/* Counts bytes of an asynchronous copy that is complete; false: a fault. */
bool mbarrier_complete(struct warp *w, const struct insn *in, uint32_t lane, enum space space,
	uint64_t address, uint32_t bytes);

/* ---- ptx-convert.c ---- */
exec_fn exec_convert, exec_wrapped;
float half_to_float(uint16_t h);
uint16_t half_from_float(float f);
uint16_t half_from_double(double f);
uint16_t half_round(double f, int rounding);
static inline float bf16_to_float(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}
uint16_t bf16_round(double f, int rounding);
uint16_t bf16_from_float(float f);

enum rounding { ROUND_NEAREST, ROUND_ZERO, ROUND_DOWN, ROUND_UP, ROUND_AWAY, ROUND_STOCHASTIC };

/* ---- ptx-warp.c ---- */
exec_fn exec_shuffle, exec_vote, exec_match, exec_redux, exec_activemask, exec_elect, exec_nop;

/* ---- ptx-matrix.c ---- */
exec_fn exec_mma, exec_ldmatrix, exec_stmatrix, exec_wmma_load, exec_wmma_store, exec_wmma_mma,
	exec_movmatrix;

/* ---- ptx-print.c ---- */
void print_call(struct warp *w, const struct insn *in, uint32_t mask, enum builtin builtin);

/* ---- ptx-alu.c: the table of arithmetic instructions ---- */
struct alu_row {
	const char *name;
	exec_fn *fn;
	uint8_t d, a, b, c; /* enum ptx_type; T_NONE: no such operand */
};
struct alu_table {
	const struct alu_row *rows;
	uint32_t n;
};
/* The table for this processor. */
const struct alu_row *alu_find(struct str name);

/* Comparisons of setp, set and slct: a mask. NULL: no such comparison of the type. */
typedef uint32_t compare_fn(const void *a, const void *b);
compare_fn *compare_find(struct str op, enum ptx_type type);
exec_fn exec_setp, exec_set, exec_selp, exec_slct, exec_lop3, exec_prmt, exec_frame_address,
	exec_pred_op, exec_isspacep, exec_testp, exec_pack, exec_unpack, exec_carry, exec_cvta,
	exec_stack, exec_sreg;

#endif
