/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the simulated machine, written while it executes. The file `trace` says which process
 * ran on which engine of which device, from when to when. The file `account` says how much device
 * memory a process held, at every change. These files are the only source for shares, busy time,
 * handovers and memory breaches. Only the engine writes them; any number of readers map them.
 *
 * Both are rings: record n is in slot n % capacity. When `written` exceeds capacity, the oldest
 * records are overwritten and counted as lost. Readers copy a record and then check `written`
 * again. A reader's mapping stays valid when the engine ends. Times are CLOCK_MONOTONIC
 * nanoseconds. Records of one engine of one device appear in order of end_ns; kernels of several
 * streams of a context may overlap.
 *
 * The functions allocate with malloc and return 0, a count or -errno. Any thread may use them, with
 * one thread at a time for a struct sim_trace.
 */
#ifndef SIMGPU_TRACE_H
#define SIMGPU_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;

#define SIM_TRACE_MAGIC 0x4543415254495644ull   /* "DVITRACE" */
#define SIM_ACCOUNT_MAGIC 0x544e434341495644ull /* "DVIACCNT" */
#define SIM_TRACE_ABI 1u

enum sim_trace_engine { SIM_ENGINE_COMPUTE, SIM_ENGINE_H2D, SIM_ENGINE_D2H };

enum sim_trace_kind {
	SIM_TRACE_KERNEL,
	SIM_TRACE_MEMSET,
	SIM_TRACE_COPY,
	SIM_TRACE_SWITCH,  /* context switch; pid and context are the new ones */
	SIM_TRACE_MIGRATE, /* managed memory moved before a kernel that uses it */
	SIM_TRACE_KINDS,
};

enum sim_trace_flags {
	SIM_TRACE_LAST = 1u << 0,    /* last piece of the operation (a preempted one has several) */
	SIM_TRACE_FIRST = 1u << 1,   /* first piece */
	SIM_TRACE_GRAPH = 1u << 2,   /* a node of a graph */
	SIM_TRACE_SPIN = 1u << 3,    /* spun for a flag */
	SIM_TRACE_ABORTED = 1u << 4, /* ended by an error or the end of its process */
};

struct sim_trace_record {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t op;        /* the same for all pieces of an operation */
	uint64_t submit_ns; /* when the client submitted it */
	uint32_t pid;
	uint32_t context; /* unique on the machine */
	uint32_t stream;  /* client's slot */
	uint32_t name_id; /* kernels: the client's name_id; else 0 */
	uint16_t device;
	uint8_t engine; /* enum sim_trace_engine */
	uint8_t kind;   /* enum sim_trace_kind */
	uint16_t flags;
	uint16_t permille; /* share of the device's SMs that it occupied */
	uint64_t bytes;    /* copies, memsets, migrations */
};
_Static_assert(sizeof(struct sim_trace_record) == 64, "layout");

struct sim_account_record {
	uint64_t t_ns;
	uint64_t bytes;        /* held by pid on the device from now on */
	uint64_t device_bytes; /* held by all processes on the device */
	uint32_t pid;
	uint16_t device;
	uint16_t reason; /* enum sim_account_reason */
};
_Static_assert(sizeof(struct sim_account_record) == 32, "layout");

enum sim_account_reason {
	SIM_ACCOUNT_ALLOC,
	SIM_ACCOUNT_FREE,
	SIM_ACCOUNT_CONTEXT,
	SIM_ACCOUNT_MODULE,
	SIM_ACCOUNT_POOL,
	SIM_ACCOUNT_VMM,
	SIM_ACCOUNT_MIGRATE,
	SIM_ACCOUNT_DEATH,
};

/* First page of both files; records start at byte 4096. */
struct sim_ring_head {
	uint64_t magic;
	uint32_t abi;
	uint32_t record_bytes;
	uint64_t capacity; /* records */
	uint64_t start_ns; /* time of the engine's start */
	uint32_t engine_pid;
	uint32_t devices;
	_Atomic uint64_t written; /* records in total; release after the record */
	_Atomic uint64_t now_ns;  /* everything that ended before this time is written */
};

/* ---- reading ---- */

struct sim_trace; /* an open trace and account */

/* Opens the files of a machine's directory; dir NULL: $DIVVY_SIM or the default directory. */
int sim_trace_open(const char *dir, struct sim_trace **ret_trace, struct error *err);
void sim_trace_close(struct sim_trace *trace);
static inline void sim_trace_closep(struct sim_trace **trace)
{
	sim_trace_close(*trace);
}

uint64_t sim_trace_written(const struct sim_trace *trace);
/* Number of records that were overwritten. */
uint64_t sim_trace_lost(const struct sim_trace *trace);
/* Everything that ended before this time is in the trace. */
uint64_t sim_trace_now_ns(const struct sim_trace *trace);
uint64_t sim_trace_start_ns(const struct sim_trace *trace);

/* Record number n (0 is the first ever). -ENOENT: not yet written; -ESTALE: overwritten. */
int sim_trace_get(const struct sim_trace *trace, uint64_t n, struct sim_trace_record *ret_record);
uint64_t sim_account_written(const struct sim_trace *trace);
/* Number of overwritten changes. Maxima and breaches below are correct only if this is 0. */
uint64_t sim_account_lost(const struct sim_trace *trace);
int sim_account_get(
	const struct sim_trace *trace, uint64_t n, struct sim_account_record *ret_record);

/*
 * The busy intervals of a set of processes on one engine of one device, as a union (sorted,
 * disjoint, merged). Kernels, memsets and migrations count; context switches do not.
 */
struct sim_interval {
	uint64_t start_ns, end_ns;
};

struct sim_busy {
	struct sim_interval *v; /* owned */
	size_t n;
	uint64_t *sum_ns; /* owned: sum_ns[i] = total length of v[0..i-1] */
};

/* pids NULL: all processes. device -1: any. engine: enum sim_trace_engine. */
int sim_busy_load(const struct sim_trace *trace, const pid_t *pids, size_t npids, int device,
	int engine, uint64_t t0_ns, uint64_t t1_ns, struct sim_busy *ret_busy);
void sim_busy_done(struct sim_busy *busy);
/* Busy nanoseconds in [t0, t1). */
uint64_t sim_busy_ns(const struct sim_busy *busy, uint64_t t0_ns, uint64_t t1_ns);

/*
 * Largest |busy / window - want| over all windows of that length in [t0, t1), at every step; in
 * permille x 1000 (millionths). ret_at_ns (may be NULL): start of the worst window.
 */
uint64_t sim_busy_worst_window(const struct sim_busy *busy, uint64_t t0_ns, uint64_t t1_ns,
	uint64_t window_ns, uint64_t step_ns, uint64_t want_millionths, uint64_t *ret_at_ns);
/* Largest number of busy nanoseconds in such a window. */
uint64_t sim_busy_max_window(const struct sim_busy *busy, uint64_t t0_ns, uint64_t t1_ns,
	uint64_t window_ns, uint64_t step_ns);

/*
 * Handovers on the compute engine of a device in [t0, t1), one element for each change of process.
 * gap_ns is the time from the end of a piece of one process to the start of the next piece of
 * another, the context switch included. switch_ns is the context switch alone.
 */
struct sim_handover {
	uint64_t at_ns;
	uint64_t gap_ns;
	uint64_t switch_ns;
	pid_t from, to;
};
int sim_trace_handovers(const struct sim_trace *trace, int device, uint64_t t0_ns, uint64_t t1_ns,
	struct sim_handover **ret_v, size_t *ret_n);

/*
 * Largest sum of bytes that the processes held on the device at any instant in [t0, t1). ret_at_ns
 * may be NULL.
 */
int sim_account_max(const struct sim_trace *trace, const pid_t *pids, size_t npids, int device,
	uint64_t t0_ns, uint64_t t1_ns, uint64_t *ret_bytes, uint64_t *ret_at_ns);
/* Number of changes after which the sum exceeded quota. */
int sim_account_breaches(const struct sim_trace *trace, const pid_t *pids, size_t npids, int device,
	uint64_t quota_bytes, uint64_t *ret_count);

/* The machine's folder: $DIVVY_SIM, or /dev/shm/divvy-sim-UID. */
int sim_dir(char *buf, size_t size);

#endif
