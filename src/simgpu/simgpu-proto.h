/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol between a client (the simulated libcuda.so.1 or libnvidia-ml.so.1 in a program) and
 * the engine, the process that simulates the hardware.
 *
 * Two channels:
 * - a SEQPACKET unix socket for synchronous control calls: one struct simgpu_request, answered by
 *   one struct simgpu_reply with the same seq, in order. The engine answers each call at once and
 *   never waits for the device. One lock around send and receive suffices.
 * - one memfd for each process (struct simgpu_shm) with a ring for submissions (struct
 *   simgpu_entry), completions (streams, events, context errors) and calls of host functions.
 *
 * Order: before the engine executes a control request, it takes all entries of that client's ring.
 * So within one thread ring and socket never overtake each other.
 *
 * Identity: the client names contexts, streams, events and graphs by slot numbers of its choice
 * (below the limits here). The engine names memory, modules, pools and VMM handles.
 *
 * Times are CLOCK_MONOTONIC nanoseconds; statuses and errors are CUresult numbers. A client may
 * write only fields marked [client], the engine only those marked [engine]. The engine validates
 * every number that it reads, and answers invalid data with an error.
 */
#ifndef SIMGPU_SIMGPU_PROTO_H
#define SIMGPU_SIMGPU_PROTO_H

#include <stdint.h>

#define SIMGPU_ABI 2u
#define SIMGPU_MAGIC 0x314d495359565644ull /* "DVVYSIM1" */

/* Files in the machine's directory: $DIVVY_SIM, or /dev/shm/divvy-sim-$UID. */
#define SIMGPU_FILE_SOCKET "engine.sock"
#define SIMGPU_FILE_LOCK "engine.lock" /* flock: held by the engine for its life */
#define SIMGPU_FILE_CONFIG "config"
#define SIMGPU_FILE_FAULTS "faults"   /* read at the start, and again on SIGHUP */
#define SIMGPU_FILE_STATE "state"     /* struct simgpu_state */
#define SIMGPU_FILE_TRACE "trace"     /* trace.h */
#define SIMGPU_FILE_ACCOUNT "account" /* trace.h */
#define SIMGPU_FILE_LOG "engine.log"
#define SIMGPU_FILE_KMSG "kmsg" /* the driver's lines of the simulated kernel log */
#define SIMGPU_ENV_DIR "DIVVY_SIM"
#define SIMGPU_ENV_DEVICES "DIVVY_SIM_DEVICES" /* device specification, as in config `devices =` */
#define SIMGPU_ENV_COSTS "DIVVY_SIM_COSTS"     /* "switch_us=450,slice_us=2000" */
#define SIMGPU_ENV_ENGINE "DIVVY_SIM_ENGINE"   /* path of divvy-sim-engine */

/*
 * Start on demand: connect to DIR/engine.sock. On ENOENT or ECONNREFUSED run `divvy-sim-engine
 * --daemon --dir DIR` ($DIVVY_SIM_ENGINE, or beside the library) and wait for its exit. That
 * process exits with 0 once an engine listens: its own child, or the engine of another process that
 * was faster. So the next connect succeeds. If that connect is refused (the engine was about to
 * end), repeat a few times. Only the engine that starts reads the SIMGPU_ENV_* variables; later
 * clients' values have no effect.
 */

/*
 * Device addresses: one arena for all devices and processes, so an address is unique on the
 * machine. An address outside this arena is in the client's own memory.
 */
#define SIMGPU_VA_BASE 0x200000000000ull
#define SIMGPU_VA_SIZE 0x200000000000ull
#define SIMGPU_GRANULE 0x200000ull /* physical memory is counted in 2 MiB granules */

/* Limits. */
#define SIMGPU_MAX_DEVICES 16
#define SIMGPU_MAX_CONTEXTS 64   /* per process */
#define SIMGPU_MAX_STREAMS 8192  /* per process */
#define SIMGPU_MAX_EVENTS 131072 /* per process */
#define SIMGPU_MAX_GRAPHS 4096   /* per process, living executable graphs */
#define SIMGPU_MAX_GRAPH_NODES 65536
#define SIMGPU_MAX_CALLBACKS 256 /* host functions given to one process and not finished */
#define SIMGPU_MAX_PARAM_BYTES 32764
#define SIMGPU_MAX_INLINE_BYTES 65536
#define SIMGPU_MAX_STATE_PROCS 4096
#define SIMGPU_NAME_MAX 64

/* ---- kernels ---- */

/*
 * Kernels that the engine knows by their PTX entry name. Every other kernel is SIMGPU_KERNEL_OTHER
 * and runs for simgpu_entry.kernel.duration_ns, or for the default time if that is 0. Parameters
 * are the raw parameter buffer in the layout that the PTX declares (natural alignment).
 *   spin_ns(u64 ns)                              occupies its blocks for ns
 *   stamp_ns(u64 ns, u64 out)                    as spin_ns; out[0], out[1] = begin and end, ns
 *   spin_flag(u64 flag, u32 value, u64 timeout)  until *(u32 *)flag >= value, or timeout ns
 *   set_flag(u64 ptr, u32 value)                 *(u32 *)ptr = value
 *   fill_u32(u64 ptr, u32 value, u64 n)
 *   saxpy_f32(u64 y, u64 x, f32 a, u64 n)        y[i] = a * x[i] + y[i]
 *   reduce_u32(u64 out, u64 in, u64 n)           *(u32 *)out = sum of in[i], modulo 2^32
 *   matmul_f32(u64 c, u64 a, u64 b, u32 n)       c = a * b, row-major n x n
 */
#define SIMGPU_KERNELS(X) \
	X(OTHER, "", 0) \
	X(SPIN_NS, "spin_ns", 8) \
	X(SPIN_FLAG, "spin_flag", 24) \
	X(SET_FLAG, "set_flag", 12) \
	X(FILL_U32, "fill_u32", 24) \
	X(SAXPY_F32, "saxpy_f32", 32) \
	X(REDUCE_U32, "reduce_u32", 24) \
	X(MATMUL_F32, "matmul_f32", 28) \
	X(STAMP_NS, "stamp_ns", 16)

enum simgpu_kernel {
#define X(id, name, bytes) SIMGPU_KERNEL_##id,
	SIMGPU_KERNELS(X)
#undef X
		SIMGPU_KERNEL_COUNT,
};

/* ---- submissions ---- */

enum simgpu_op_kind {
	SIMGPU_OP_PAD,    /* skip `units`; fills the end of the ring */
	SIMGPU_OP_KERNEL, /* the entry is followed by param_bytes of parameters */
	SIMGPU_OP_MEMSET,
	SIMGPU_OP_COPY,        /* direction follows from the addresses */
	SIMGPU_OP_WRITE_VALUE, /* host or device address */
	SIMGPU_OP_WAIT_VALUE,
	SIMGPU_OP_EVENT_RECORD,
	/*
	 * Waits for the event's latest record before it in the ring; does not wait for an event
	 * that was never recorded.
	 */
	SIMGPU_OP_EVENT_WAIT,
	SIMGPU_OP_HOST_FUNC,
	SIMGPU_OP_FREE_ASYNC, /* memory from SIMGPU_MSG_POOL_ALLOC or SIMGPU_MSG_MEM_ALLOC */
	SIMGPU_OP_PREFETCH,   /* managed memory to a device or (device = -1) the host */
	SIMGPU_OP_EMPTY,      /* completes in order, does nothing (graph nodes, barriers) */
	SIMGPU_OP_GRAPH_LAUNCH,
	/*
	 * The following operations are not work of a stream: the engine executes them when it reads
	 * them, in ring order.
	 */
	SIMGPU_OP_STREAM_CREATE, /* before the first use of a stream slot */
	/*
	 * Work in the stream still completes; the slot may be reused once simgpu_stream.live is 0.
	 */
	SIMGPU_OP_STREAM_DESTROY,
	SIMGPU_OP_EVENT_DESTROY, /* the slot may be reused at once */
	SIMGPU_OP_GRAPH_DESTROY, /* launches in flight complete; the slot may be reused at once */
	SIMGPU_OP_COUNT,
};

enum simgpu_entry_flags {
	/*
	 * A thread outside the device may notice the entry's execution. Such entries are value
	 * writes and copies to host memory, host functions, kernels that get host addresses,
	 * set_flag, and graphs with any of these. The client sets the flag. Setting the flag
	 * needlessly only costs time (see the doorbell).
	 */
	SIMGPU_ENTRY_VISIBLE = 1u << 0,
	SIMGPU_ENTRY_COOPERATIVE = 1u
		<< 1,                    /* the client has refused grids too large to be resident */
	SIMGPU_ENTRY_PAGEABLE = 1u << 2, /* copy: the host side is not pinned (slower) */
	SIMGPU_ENTRY_INLINE = 1u << 3,   /* copy to the device: the bytes follow the entry */
	/* event record: the event has timing; only the trace uses this flag */
	SIMGPU_ENTRY_TIMING = 1u << 4,
};

enum simgpu_stream_flags {
	SIMGPU_STREAM_NON_BLOCKING = 1u << 0, /* no implicit order with the legacy stream */
	SIMGPU_STREAM_LEGACY = 1u << 1,       /* the context's NULL stream; at most one a context */
};

/* Comparisons of SIMGPU_OP_WAIT_VALUE, numbered as CUstreamWaitValue_flags. */
enum simgpu_wait_cmp { SIMGPU_WAIT_GEQ, SIMGPU_WAIT_EQ, SIMGPU_WAIT_AND, SIMGPU_WAIT_NOR };

struct simgpu_op_kernel {
	uint32_t kernel;  /* enum simgpu_kernel */
	uint32_t name_id; /* the client's choice, such as a hash of the name; goes to the trace */
	uint32_t blocks;  /* grid x*y*z, saturated */
	uint32_t threads; /* per block */
	uint32_t param_bytes;   /* <= SIMGPU_MAX_PARAM_BYTES */
	uint32_t blocks_per_sm; /* blocks that fit one SM at a time; 0 means 1 */
	uint64_t duration_ns;   /* 0: follows from kernel and parameters, or is the default */
	uint64_t code;          /* module whose PTX the engine executes; 0: none */
	uint32_t function;      /* number of the kernel in the module's code */
	uint32_t shared_bytes;  /* dynamic */
	uint32_t grid[3], block[3];
};

struct simgpu_op_memset {
	uint64_t ptr;
	uint64_t width; /* elements */
	uint64_t height;
	uint64_t pitch; /* bytes; any value if height <= 1 */
	uint32_t value;
	uint32_t elem_bytes; /* 1, 2, 4 */
};

struct simgpu_op_copy {
	uint64_t dst, src;
	uint64_t width;                /* bytes */
	uint64_t dst_pitch, src_pitch; /* bytes; any value if height and depth are 1 */
	uint64_t dst_slice, src_slice; /* bytes; any value if depth is 1 */
	uint32_t height, depth;        /* at least 1 */
};

struct simgpu_op_value {
	uint64_t ptr;
	uint64_t value;
	uint32_t bytes; /* 4, 8 */
	uint32_t cmp;   /* enum simgpu_wait_cmp */
};

struct simgpu_op_event {
	uint32_t event; /* slot */
	uint32_t pad;
	uint64_t record; /* EVENT_RECORD: number of the record in its slot, from 1, increasing */
};

struct simgpu_op_host {
	uint64_t cookie; /* returned in simgpu_callback */
};

struct simgpu_op_mem {
	uint64_t ptr;
	uint64_t bytes;
	int32_t device;
	uint32_t pad;
};

struct simgpu_op_graph {
	uint32_t graph;     /* slot */
	uint32_t after;     /* slot of the stream to wait for */
	uint64_t after_seq; /* operation of stream `after` that must complete first; 0: none */
};

struct simgpu_op_stream {
	uint32_t flags;
	int32_t priority; /* as in CUDA: -5..0; the lowest number runs first */
};

/*
 * One submission. In the ring the entry starts at a multiple of 64 bytes, and takes `units` times
 * 64 bytes, including the trailing bytes (parameters, inline data). An entry never wraps: first
 * fill the rest of the ring with a SIMGPU_OP_PAD entry, of which the engine reads only kind and
 * units.
 */
struct simgpu_entry {
	uint16_t kind;
	uint16_t flags;
	uint32_t units;
	uint64_t submit_ns; /* time of the client's call */
	uint64_t seq;       /* for each stream, from 1, one more with each work entry */
	uint32_t stream;    /* slot */
	uint32_t context;   /* slot */
	union {
		struct simgpu_op_kernel kernel;
		struct simgpu_op_memset memset;
		struct simgpu_op_copy copy;
		struct simgpu_op_value value;
		struct simgpu_op_event event;
		struct simgpu_op_host host;
		struct simgpu_op_mem mem;
		struct simgpu_op_graph graph;
		struct simgpu_op_stream stream_new;
		uint64_t raw[12];
	};
}; /* followed by parameters or inline data */

#define SIMGPU_ENTRY_UNIT 64u
#define SIMGPU_ENTRY_BYTES 128u
_Static_assert(sizeof(struct simgpu_entry) == SIMGPU_ENTRY_BYTES, "two units");

/*
 * Units of an entry with that many trailing bytes. A kernel with up to 64 bytes of parameters takes
 * 3 units.
 */
#define SIMGPU_ENTRY_UNITS(trailing) \
	((uint32_t)((SIMGPU_ENTRY_BYTES + (uint64_t)(trailing) + SIMGPU_ENTRY_UNIT - 1) / \
		SIMGPU_ENTRY_UNIT))

/*
 * An executable graph, sent with SIMGPU_MSG_GRAPH_CREATE in a memfd: struct simgpu_graph_head, then
 * `nodes` times { struct simgpu_graph_node, `ndeps` uint32_t node numbers (each lower than the
 * node's own), padding to 8 bytes, struct simgpu_entry, its trailing bytes, padding to 8 bytes }.
 * The engine uses kind, flags, context and the union of an entry. The client flattens child graphs.
 * Nodes may be KERNEL, MEMSET, COPY (not inline), WRITE_VALUE, WAIT_VALUE, EVENT_RECORD,
 * EVENT_WAIT, HOST_FUNC, FREE_ASYNC and EMPTY. An EVENT_RECORD node has record number 0: each
 * launch sets simgpu_event.time_ns and adds one to simgpu_event.graph_records. An EVENT_WAIT node
 * waits for the latest record before the launch.
 */
struct simgpu_graph_head {
	uint32_t nodes;
	uint32_t pad;
};

struct simgpu_graph_node {
	uint32_t ndeps;
	uint32_t trailing; /* bytes after the entry */
	uint32_t pad[2];
};

/* ---- the shared memory of a client and the engine ---- */

struct simgpu_shm_engine {           /* [engine] */
	_Atomic uint64_t head;       /* ring bytes consumed in total */
	_Atomic uint64_t wake_at_ns; /* the engine looks again at this time at the latest */
	_Atomic uint64_t now_ns;     /* time of the simulated device */
	_Atomic uint32_t doorbell;   /* enum simgpu_doorbell: which entries must ring */
	_Atomic uint32_t wake_seq;   /* futex: grows when an awaited value is published */
	_Atomic uint32_t cb_tail;    /* futex: number of host functions handed over in total */
	_Atomic uint32_t dead;       /* the engine has dropped this client (shutdown) */
	uint8_t pad[24];
};
_Static_assert(sizeof(struct simgpu_shm_engine) == 64, "one line");

struct simgpu_shm_client { /* [client] */
	/* ring bytes produced in total; stored with release after the entry */
	_Atomic uint64_t tail;
	_Atomic uint32_t ring_waiters; /* threads that wait for room in the ring (on wake_seq) */
	_Atomic uint32_t waiters;      /* threads that wait on wake_seq; 0: no futex wake is sent */
	uint8_t pad[48];
};
_Static_assert(sizeof(struct simgpu_shm_client) == 64, "one line");

/*
 * How a client rings: after it has written an entry, it publishes tail, executes a seq_cst fence
 * and reads `doorbell`. If `doorbell` is ALL, the client writes 1 to the doorbell eventfd. If
 * `doorbell` is VISIBLE, the client writes 1 for a SIMGPU_ENTRY_VISIBLE entry, unless the engine
 * looks again before the entry can complete: wake_at_ns <= busy_until_ns of the entry's stream.
 * Unless `doorbell` is NONE, the client writes 1 when the ring is more than half full. The client
 * always rings after it has raised await_seq, after a host function, and before it sleeps for room
 * in the ring.
 */
enum simgpu_doorbell { SIMGPU_DOORBELL_ALL, SIMGPU_DOORBELL_VISIBLE, SIMGPU_DOORBELL_NONE };

struct simgpu_stream {
	/* [engine] */
	_Atomic uint64_t completed;     /* highest seq completed */
	_Atomic uint64_t busy_until_ns; /* the queued work cannot complete before this time */
	_Atomic uint32_t live;          /* 1 from creation until destroyed and drained */
	uint8_t pad0[44];
	/* [client] */
	/* The engine publishes completions up to this seq promptly. Clients only raise it. */
	_Atomic uint64_t await_seq;
	uint8_t pad1[56];
};
_Static_assert(sizeof(struct simgpu_stream) == 128, "two lines, one writer each");

/*
 * To wait for a stream: raise await_seq and ring. Repeat until completed >= seq or the context has
 * an error: waiters++, read wake_seq, check again, FUTEX_WAIT (not private) on wake_seq, waiters--.
 * To poll (cuStreamQuery): the work is complete if completed >= seq. Otherwise, if await_seq is
 * already at least seq, the work is not complete, because the engine publishes promptly. Else raise
 * await_seq, make a SIMGPU_MSG_SYNC call and look at completed again. To wait for an event, wait
 * for the (stream, seq) of its latest record.
 */

struct simgpu_event {             /* [engine] */
	_Atomic uint64_t record;  /* highest record number completed */
	_Atomic uint64_t time_ns; /* device time of record number `record` */
	_Atomic uint64_t graph_records;
	uint64_t pad;
};

struct simgpu_context { /* [engine] */
	/* CUresult, sticky; afterwards all queued work counts as complete. */
	_Atomic uint32_t error;
	uint32_t pad[15];
};

/*
 * Host functions. The engine fills slot (n % SIMGPU_MAX_CALLBACKS), sets cb_tail = n + 1 and wakes
 * cb_tail as a futex. One client thread runs the functions in order, then stores done_ns (the
 * clock, never 0) and rings. The engine clears done_ns when it has seen the value, and reuses the
 * slot.
 */
struct simgpu_callback {
	/* [engine] */
	uint64_t cookie;
	uint32_t context; /* slot */
	uint32_t error;   /* the context's error at that time (cuStreamAddCallback's status) */
	uint8_t pad0[48];
	/* [client] */
	_Atomic uint64_t done_ns;
	uint8_t pad1[56];
};
_Static_assert(sizeof(struct simgpu_callback) == 128, "two lines, one writer each");

#define SIMGPU_RING_BYTES (4u << 20)

struct simgpu_shm {
	/* [engine], constant after HELLO */
	uint64_t magic;
	uint32_t abi;
	uint32_t ring_bytes;
	uint64_t bytes; /* bytes of the whole mapping */
	uint8_t pad[40];
	struct simgpu_shm_engine engine;
	struct simgpu_shm_client client;
	struct simgpu_context contexts[SIMGPU_MAX_CONTEXTS];
	struct simgpu_callback callbacks[SIMGPU_MAX_CALLBACKS];
	struct simgpu_stream streams[SIMGPU_MAX_STREAMS];
	struct simgpu_event events[SIMGPU_MAX_EVENTS];
	_Alignas(4096) uint8_t ring[SIMGPU_RING_BYTES];
};

/* ---- control calls ---- */

enum simgpu_role { SIMGPU_ROLE_CUDA, SIMGPU_ROLE_NVML, SIMGPU_ROLE_ADMIN };

/* Kinds of memory of SIMGPU_MSG_MEM_ALLOC, and in answers. */
enum simgpu_mem_kind {
	SIMGPU_MEM_LINEAR,
	SIMGPU_MEM_ARRAY,    /* opaque array or mipmap storage; same rules as LINEAR */
	SIMGPU_MEM_GLOBAL,   /* module and library globals */
	SIMGPU_MEM_GRAPH,    /* memory of graph allocation nodes */
	SIMGPU_MEM_MANAGED,  /* reply carries a memfd: map it shared at the returned address */
	SIMGPU_MEM_POOL,     /* answers only */
	SIMGPU_MEM_VMM,      /* answers only: a mapping */
	SIMGPU_MEM_RESERVED, /* answers only: reserved addresses without a mapping */
	/* SIMGPU_MSG_CTX_RESERVE: stack, heap, printf buffer: counted, no address */
	SIMGPU_MEM_CONTEXT,
};

/* Pool attributes, numbered as CUmemPool_attribute. */
enum simgpu_pool_attr {
	SIMGPU_POOL_RELEASE_THRESHOLD = 4,
	SIMGPU_POOL_RESERVED_CURRENT = 5,
	SIMGPU_POOL_RESERVED_HIGH = 6, /* set to 0 to reset */
	SIMGPU_POOL_USED_CURRENT = 7,
	SIMGPU_POOL_USED_HIGH = 8,
};

/* Id of a device's default pool in a process; all other pools have higher ids. */
#define SIMGPU_POOL_DEFAULT(device) ((uint32_t)(device) + 1u)

/*
 * X(name): request fields used -> reply fields set. Every reply sets `status` to a CUresult;
 * without a list after -> it sets nothing else. Default statuses: CUDA_ERROR_INVALID_VALUE (1) for
 * an unknown id, INVALID_CONTEXT (201) for a destroyed context, OUT_OF_MEMORY (2) for no room on
 * the device.
 */
enum simgpu_msg {
	/*
	 * arg[0] SIMGPU_ABI, arg[1] enum simgpu_role -> arg[0] engine pid, arg[1] devices. For
	 * SIMGPU_ROLE_CUDA the reply has the fds {shm, doorbell eventfd}, and the request has the
	 * fd of /proc/self/mem if there is one. First message of a connection.
	 */
	SIMGPU_MSG_HELLO,
	/* Take ring entries, catch up with the clock, publish completions -> arg[0] device time. */
	SIMGPU_MSG_SYNC,
	/* context, device, arg[0] flags. Charges the context's memory. */
	SIMGPU_MSG_CTX_CREATE,
	/* context. Stops its work; frees its streams, modules and memory, but not VMM and pools. */
	SIMGPU_MSG_CTX_DESTROY,
	/* context, arg[0] bytes to count for stack, heap and fifo; replaces the former value. */
	SIMGPU_MSG_CTX_RESERVE,
	/* context, arg[0] code bytes -> id */
	SIMGPU_MSG_MODULE_LOAD,
	/*
	 * context, id, arg[0] bytes of the heap for malloc() of kernels, with fd (struct
	 * simgpu_code_head): the engine translates the PTX. text says which line is wrong
	 * (CUDA_ERROR_INVALID_PTX) or missing here (NOT_SUPPORTED) -> arg[0] 1: its kernels may
	 * print
	 */
	SIMGPU_MSG_MODULE_CODE,
	/* context -> fd with what kernels have printed since the last call; none: nothing */
	SIMGPU_MSG_PRINTED,
	/* context, id */
	SIMGPU_MSG_MODULE_UNLOAD,
	/* context, kind, arg[0] bytes -> ptr, arg[0] bytes; MANAGED: fd */
	SIMGPU_MSG_MEM_ALLOC,
	/* ptr: the first address, also of pool memory. The client has synchronised before. */
	SIMGPU_MSG_MEM_FREE,
	/* ptr: any address -> ptr base, arg[0] bytes, kind, device, context (if the caller's, else
	 * ~0), arg[1] pid of the owner, id pool or VMM handle, arg[2] resident bytes (managed) */
	SIMGPU_MSG_MEM_QUERY,
	/* device -> arg[0] free bytes, arg[1] total bytes */
	SIMGPU_MSG_MEM_INFO,
	/* ptr managed, arg[0] bytes, arg[1] CUmem_advise, device */
	SIMGPU_MSG_MEM_ADVISE,
	/* arg[0] bytes, arg[1] alignment or 0, ptr: preferred address or 0 -> ptr */
	SIMGPU_MSG_VA_RESERVE,
	/* ptr, arg[0] bytes: a whole reservation without mappings */
	SIMGPU_MSG_VA_FREE,
	/* device, arg[0] bytes (multiple of SIMGPU_GRANULE) -> id */
	SIMGPU_MSG_VMM_CREATE,
	/* id: drops a reference; the memory is freed with the last reference and mapping */
	SIMGPU_MSG_VMM_RELEASE,
	/* ptr, arg[0] bytes, arg[1] offset, id. No access until VMM_ACCESS. */
	SIMGPU_MSG_VMM_MAP,
	/* ptr, arg[0] bytes: whole mappings */
	SIMGPU_MSG_VMM_UNMAP,
	/* ptr, arg[0] bytes, device, arg[1] 0 none, 1 read, 3 read and write */
	SIMGPU_MSG_VMM_ACCESS,
	/* id -> fd, which any process may import */
	SIMGPU_MSG_VMM_EXPORT,
	/* with fd -> id, device, arg[0] bytes */
	SIMGPU_MSG_VMM_IMPORT,
	/* ptr in a mapping -> id with one more reference */
	SIMGPU_MSG_VMM_RETAIN,
	/* id -> arg[0] bytes, device */
	SIMGPU_MSG_VMM_INFO,
	/* device, arg[0] greatest reserved bytes or 0 -> id */
	SIMGPU_MSG_POOL_CREATE,
	/* id */
	SIMGPU_MSG_POOL_DESTROY,
	/* id, arg[0] enum simgpu_pool_attr, arg[1] value */
	SIMGPU_MSG_POOL_SET,
	/* id, arg[0] enum simgpu_pool_attr -> arg[0] value */
	SIMGPU_MSG_POOL_GET,
	/* id, arg[0] bytes to keep reserved -> arg[0] 1: frees are still to be executed, 0: none */
	SIMGPU_MSG_POOL_TRIM,
	/*
	 * id, context, stream, arg[0] bytes -> ptr. May allocate memory of the pool whose free
	 * comes earlier in the same stream.
	 */
	SIMGPU_MSG_POOL_ALLOC,
	/* ptr: beginning of an allocation -> arg[0] key */
	SIMGPU_MSG_IPC_GET_MEM,
	/*
	 * context, arg[0] key -> ptr, arg[0] bytes. The address is the exporter's. Fails in the
	 * exporting process (CUDA_ERROR_INVALID_CONTEXT).
	 */
	SIMGPU_MSG_IPC_OPEN_MEM,
	/* ptr */
	SIMGPU_MSG_IPC_CLOSE_MEM,
	/* arg[0] event slot -> arg[0] key */
	SIMGPU_MSG_IPC_GET_EVENT,
	/* arg[0] key, arg[1] event slot of the caller, which then names the same event */
	SIMGPU_MSG_IPC_OPEN_EVENT,
	/* arg[0] graph slot, with fd (struct simgpu_graph_head) */
	SIMGPU_MSG_GRAPH_CREATE,
	/* context, device the peer, arg[0] 1 enable, 0 disable */
	SIMGPU_MSG_PEER_ACCESS,
	/*
	 * Administration. STATUS -> arg[0] engine pid, arg[1] clients. FAULTS: with fd of a faults
	 * file (README), which replaces the current faults; text names an invalid line. STOP ends
	 * the engine.
	 */
	SIMGPU_MSG_STATUS,
	SIMGPU_MSG_FAULTS,
	SIMGPU_MSG_STOP,
	SIMGPU_MSG_COUNT,
};

/*
 * The code of a module, sent with SIMGPU_MSG_MODULE_CODE in a memfd: the head, `variables` and
 * `kernels` names, then the text. Each name is a struct simgpu_code_name, followed by its bytes,
 * padded to 8. A launch names a kernel by its place among the names of kernels.
 */
struct simgpu_code_head {
	uint32_t variables, kernels;
	uint64_t text_bytes;
};

struct simgpu_code_name {
	uint64_t address; /* of a variable */
	uint32_t bytes;
	uint32_t pad;
};

#define SIMGPU_MAX_CODE_BYTES (256u << 20)

struct simgpu_request {
	uint32_t type; /* enum simgpu_msg */
	uint32_t seq;
	uint32_t context;
	uint32_t stream;
	int32_t device;
	uint32_t kind;
	uint64_t id;
	uint64_t ptr;
	uint64_t arg[4];
};

struct simgpu_reply {
	uint32_t type; /* type of the request */
	uint32_t seq;
	uint32_t status; /* CUresult */
	uint32_t context;
	int32_t device;
	uint32_t kind;
	uint64_t id;
	uint64_t ptr;
	uint64_t arg[4];
	char text[240]; /* for people, may be empty */
};

/* Whether kernels are computed. */
enum simgpu_compute {
	SIMGPU_COMPUTE_AUTO,    /* what comes as PTX; other kernels take time */
	SIMGPU_COMPUTE_OFF,     /* kernels take time */
	SIMGPU_COMPUTE_REQUIRE, /* a module without PTX is not loaded */
};

/* How a kernel accesses ordinary memory of its process. */
enum simgpu_host_access {
	SIMGPU_HOST_ACCESS_NONE,
	SIMGPU_HOST_ACCESS_HMM,
	SIMGPU_HOST_ACCESS_ATS,
};

/* ---- the state file, which any process may map read-only ---- */

struct simgpu_state_device {
	char name[SIMGPU_NAME_MAX]; /* "NVIDIA H200" */
	char uuid[48];              /* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
	uint8_t uuid_bytes[16];
	uint64_t mem_total;
	uint32_t cc_major, cc_minor;
	uint32_t sm_count;
	uint32_t clock_khz, mem_clock_khz, mem_bus_bits, l2_bytes;
	uint32_t pci_domain, pci_bus, pci_device, pci_vendor_device; /* device << 16 | vendor */
	uint32_t numa;
	uint32_t host_access;                 /* enum simgpu_host_access */
	uint32_t nvlinks[SIMGPU_MAX_DEVICES]; /* number of NVLinks to each other device */
	uint32_t power_limit_mw;
	uint32_t lost;             /* fault: fallen off the bus */
	_Atomic uint32_t recovery; /* nvmlDeviceGpuRecoveryAction_t; 0: none */
	/* changing */
	_Atomic uint64_t mem_used;
	_Atomic uint64_t busy_ns;     /* compute engine busy, in total */
	_Atomic uint64_t copy_ns;     /* copy engines busy, in total */
	_Atomic uint64_t sample_ns;   /* time of the permille values below (every 100 ms) */
	_Atomic uint32_t sm_permille; /* over the last 100 to 200 ms; 0 if sample_ns is old */
	_Atomic uint32_t mem_permille;
	_Atomic uint64_t ecc_uncorrected;
	_Atomic uint64_t xids; /* number of Xids << 16 | the last Xid */
};

/* One process on one device. A slot is in use if pid is not 0. */
struct simgpu_state_proc {
	_Atomic uint32_t pid; /* in the engine's pid namespace */
	uint16_t device;
	uint16_t contexts;
	uint64_t start_time; /* field 22 of /proc/PID/stat */
	_Atomic uint64_t mem_used;
	_Atomic uint64_t busy_ns;
	/* over the last 100 to 200 ms, like the device's sm_permille */
	_Atomic uint32_t sm_permille;
	uint32_t pad;
};

struct simgpu_state {
	uint64_t magic;
	uint32_t abi;
	uint32_t bytes;
	uint32_t engine_pid;
	uint32_t device_count;
	_Atomic uint32_t generation; /* odd while process slots are being assigned or freed */
	_Atomic uint32_t proc_slots; /* every slot in use has a lower index */
	_Atomic uint64_t now_ns;
	/* costs that the client applies itself */
	uint64_t default_kernel_ns;
	/* cuCtxCreate, primary retain: the client sleeps for this time. */
	uint64_t context_create_ns;
	uint64_t module_load_ns;
	uint32_t compute; /* enum simgpu_compute */
	uint32_t pad;
	struct simgpu_state_device devices[SIMGPU_MAX_DEVICES];
	struct simgpu_state_proc procs[SIMGPU_MAX_STATE_PROCS];
};

#endif
