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
 * one thread at a time for a struct simgpu_trace.
 */
#ifndef SIMGPU_TRACE_H
#define SIMGPU_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;

#define SIMGPU_TRACE_MAGIC 0x4543415254495644ull   /* "DVITRACE" */
#define SIMGPU_ACCOUNT_MAGIC 0x544e434341495644ull /* "DVIACCNT" */
#define SIMGPU_TRACE_ABI 1u

enum simgpu_trace_engine { SIMGPU_ENGINE_COMPUTE, SIMGPU_ENGINE_H2D, SIMGPU_ENGINE_D2H };

enum simgpu_trace_kind {
	SIMGPU_TRACE_KERNEL,
	SIMGPU_TRACE_MEMSET,
	SIMGPU_TRACE_COPY,
	SIMGPU_TRACE_SWITCH,  /* context switch; pid and context are the new ones */
	SIMGPU_TRACE_MIGRATE, /* managed memory moved before a kernel that uses it */
	SIMGPU_TRACE_KINDS,
};

enum simgpu_trace_flags {
	SIMGPU_TRACE_LAST = 1u << 0, /* last piece of the operation (a preempted one has several) */
	SIMGPU_TRACE_FIRST = 1u << 1,    /* first piece */
	SIMGPU_TRACE_GRAPH = 1u << 2,    /* a node of a graph */
	SIMGPU_TRACE_SPIN = 1u << 3,     /* the kernel spun while it waited for a flag */
	SIMGPU_TRACE_ABORTED = 1u << 4,  /* ended by an error or the end of its process */
	SIMGPU_TRACE_COMPUTED = 1u << 5, /* a kernel whose PTX was executed */
	/* the kernel took the time of its computing, which was longer than the modelled time */
	SIMGPU_TRACE_COMPUTE_TIME = 1u << 6,
};

struct simgpu_trace_record {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t op;        /* the same for all pieces of an operation */
	uint64_t submit_ns; /* when the client submitted the operation */
	uint32_t pid;
	uint32_t context; /* unique on the machine */
	uint32_t stream;  /* client's slot */
	uint32_t name_id; /* kernels: the client's name_id; else 0 */
	uint16_t device;
	uint8_t engine; /* enum simgpu_trace_engine */
	uint8_t kind;   /* enum simgpu_trace_kind */
	uint16_t flags;
	uint16_t permille; /* share of the device's SMs that the operation occupied */
	uint64_t bytes;    /* bytes of a copy, memset or migration */
};
_Static_assert(sizeof(struct simgpu_trace_record) == 64, "layout");

struct simgpu_account_record {
	uint64_t t_ns;
	uint64_t bytes;        /* bytes that pid holds on the device from now on */
	uint64_t device_bytes; /* bytes that all processes hold on the device */
	uint32_t pid;
	uint16_t device;
	uint16_t reason; /* enum simgpu_account_reason */
};
_Static_assert(sizeof(struct simgpu_account_record) == 32, "layout");

enum simgpu_account_reason {
	SIMGPU_ACCOUNT_ALLOC,
	SIMGPU_ACCOUNT_FREE,
	SIMGPU_ACCOUNT_CONTEXT,
	SIMGPU_ACCOUNT_MODULE,
	SIMGPU_ACCOUNT_POOL,
	SIMGPU_ACCOUNT_VMM,
	SIMGPU_ACCOUNT_MIGRATE,
	SIMGPU_ACCOUNT_DEATH,
};

/* First page of the files `trace` and `account`; records start at byte 4096. */
struct simgpu_ring_head {
	uint64_t magic;
	uint32_t abi;
	uint32_t record_bytes;
	uint64_t capacity; /* records */
	uint64_t start_ns; /* time of the engine's start */
	uint32_t engine_pid;
	uint32_t devices;
	_Atomic uint64_t written; /* records in total; stored with release after the record */
	_Atomic uint64_t now_ns;  /* everything that ended before this time is written */
};

/* ---- reading ---- */

struct simgpu_trace; /* an open trace and account */

/* Opens the files of a machine's directory; dir NULL: $DIVVY_SIM or the default directory. */
int simgpu_trace_open(const char *dir, struct simgpu_trace **ret_trace, struct error *err);
void simgpu_trace_close(struct simgpu_trace *trace);
static inline void simgpu_trace_closep(struct simgpu_trace **trace)
{
	simgpu_trace_close(*trace);
}

uint64_t simgpu_trace_written(const struct simgpu_trace *trace);
/* Number of records that were overwritten. */
uint64_t simgpu_trace_lost(const struct simgpu_trace *trace);
/* Everything that ended before this time is in the trace. */
uint64_t simgpu_trace_now_ns(const struct simgpu_trace *trace);
uint64_t simgpu_trace_start_ns(const struct simgpu_trace *trace);

/* Copies record number n (0 is the first ever). -ENOENT: not yet written; -ESTALE: overwritten. */
int simgpu_trace_get(
	const struct simgpu_trace *trace, uint64_t n, struct simgpu_trace_record *ret_record);
uint64_t simgpu_account_written(const struct simgpu_trace *trace);
/*
 * Number of changes of memory that newer ones have overwritten in the ring. Maxima and breaches
 * below are correct only if this is 0.
 */
uint64_t simgpu_account_lost(const struct simgpu_trace *trace);
int simgpu_account_get(
	const struct simgpu_trace *trace, uint64_t n, struct simgpu_account_record *ret_record);

/*
 * The busy intervals of a set of processes on one engine of one device, as a union (sorted,
 * disjoint, merged). The intervals include kernels, memsets and migrations, but no context
 * switches.
 */
struct simgpu_interval {
	uint64_t start_ns, end_ns;
};

struct simgpu_busy {
	struct simgpu_interval *v; /* owned */
	size_t n;
	uint64_t *sum_ns; /* owned: sum_ns[i] = total length of v[0..i-1] */
};

/* pids NULL: all processes. device -1: any. engine: enum simgpu_trace_engine. */
int simgpu_busy_load(const struct simgpu_trace *trace, const pid_t *pids, size_t npids, int device,
	int engine, uint64_t t0_ns, uint64_t t1_ns, struct simgpu_busy *ret_busy);
void simgpu_busy_done(struct simgpu_busy *busy);
/* Busy nanoseconds in [t0, t1). */
uint64_t simgpu_busy_ns(const struct simgpu_busy *busy, uint64_t t0_ns, uint64_t t1_ns);

/*
 * Largest |busy / window - want| over all windows of window_ns in [t0, t1), which begin step_ns
 * apart; in millionths. ret_at_ns (may be NULL): start of the worst window.
 */
uint64_t simgpu_busy_worst_window(const struct simgpu_busy *busy, uint64_t t0_ns, uint64_t t1_ns,
	uint64_t window_ns, uint64_t step_ns, uint64_t want_millionths, uint64_t *ret_at_ns);
/* Most busy nanoseconds in any window; windows are as in simgpu_busy_worst_window(). */
uint64_t simgpu_busy_max_window(const struct simgpu_busy *busy, uint64_t t0_ns, uint64_t t1_ns,
	uint64_t window_ns, uint64_t step_ns);

/*
 * Handovers on the compute engine of a device in [t0, t1), one element for each change of process.
 * gap_ns is the time from the end of one process's piece to the start of another's next piece, the
 * context switch included. switch_ns is the context switch alone.
 */
struct simgpu_handover {
	uint64_t at_ns;
	uint64_t gap_ns;
	uint64_t switch_ns;
	pid_t from, to;
};
int simgpu_trace_handovers(const struct simgpu_trace *trace, int device, uint64_t t0_ns,
	uint64_t t1_ns, struct simgpu_handover **ret_v, size_t *ret_n);

/*
 * Largest sum of bytes that the processes held on the device at any instant in [t0, t1). ret_at_ns
 * may be NULL.
 */
int simgpu_account_max(const struct simgpu_trace *trace, const pid_t *pids, size_t npids,
	int device, uint64_t t0_ns, uint64_t t1_ns, uint64_t *ret_bytes, uint64_t *ret_at_ns);
/* Counts the changes after which the sum of the processes' bytes exceeded quota_bytes. */
int simgpu_account_breaches(const struct simgpu_trace *trace, const pid_t *pids, size_t npids,
	int device, uint64_t quota_bytes, uint64_t *ret_count);

/* Writes the machine's folder: $DIVVY_SIM, or /dev/shm/divvy-sim-UID. */
int simgpu_dir(char *buf, size_t size);

#endif
