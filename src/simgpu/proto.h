/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract between a program that uses the simulated GPU (the simulated libcuda.so.1 and
 * libnvidia-ml.so.1, "the client") and the engine process that is the simulated hardware.
 *
 * Two channels:
 *  - a SEQPACKET unix socket for synchronous control calls: one struct sim_request, answered by
 *    one struct sim_reply with the same seq, in order. Every call is answered at once: nothing on
 *    the socket ever waits for the device. One lock around send+receive is enough.
 *  - one memfd per process (struct sim_shm) with a ring for submissions (struct sim_entry),
 *    completions (streams, events, context errors) and host function calls.
 *
 * Order: before the engine executes a control request it ingests everything that is in that
 * client's ring, so ring and socket never overtake each other within one thread.
 *
 * Identity: contexts, streams, events and graphs are named by the client with slot numbers of
 * its own choosing (below the limits here); memory, modules, pools and VMM handles by the engine.
 *
 * Times are CLOCK_MONOTONIC nanoseconds; statuses and errors are CUresult numbers. A client may
 * only write what is marked [client], the engine what is marked [engine]; the engine validates
 * every number that it reads and answers nonsense with an error, never by trusting it.
 */
#ifndef SIMGPU_PROTO_H
#define SIMGPU_PROTO_H

#include <stdint.h>

#define SIM_ABI 1u
#define SIM_MAGIC 0x314d495359565644ull /* "DVVYSIM1" */

/* Files in the machine's directory: $DIVVY_SIM, or /dev/shm/divvy-sim-$UID. */
#define SIM_FILE_SOCKET "engine.sock"
#define SIM_FILE_LOCK "engine.lock" /* flock: held by the engine for its life */
#define SIM_FILE_CONFIG "config"
#define SIM_FILE_FAULTS "faults"   /* read at the start, and again on SIGHUP */
#define SIM_FILE_STATE "state"     /* struct sim_state */
#define SIM_FILE_TRACE "trace"     /* trace.h */
#define SIM_FILE_ACCOUNT "account" /* trace.h */
#define SIM_FILE_LOG "engine.log"
#define SIM_ENV_DIR "DIVVY_SIM"
#define SIM_ENV_DEVICES "DIVVY_SIM_DEVICES" /* device specification, as in config `devices =` */
#define SIM_ENV_COSTS "DIVVY_SIM_COSTS"     /* "switch_us=450,slice_us=2000" */
#define SIM_ENV_ENGINE "DIVVY_SIM_ENGINE"   /* path of divvy-sim-engine */

/*
 * Starting on demand: connect to DIR/engine.sock; on ENOENT or ECONNREFUSED run
 * `divvy-sim-engine --daemon --dir DIR` (found as $DIVVY_SIM_ENGINE, or beside the library) and
 * wait for it to exit. It exits 0 once an engine (its own child, or another process's that won
 * the race) listens, so a connect then succeeds. If the connect is refused all the same (the
 * engine was just leaving) repeat, a few times. Environment: the SIM_ENV_* above are read by
 * the engine that starts; later clients' values have no effect.
 */

/* Device addresses: one arena for all devices and processes, so an address is unique on the
 * machine. Anything outside it is an address of the client's own memory. */
#define SIM_VA_BASE 0x200000000000ull
#define SIM_VA_SIZE 0x200000000000ull
#define SIM_GRANULE 0x200000ull /* physical memory is counted in 2 MiB granules */

/* Limits. */
#define SIM_MAX_DEVICES 16
#define SIM_MAX_CONTEXTS 64   /* per process */
#define SIM_MAX_STREAMS 8192  /* per process */
#define SIM_MAX_EVENTS 131072 /* per process */
#define SIM_MAX_GRAPHS 4096   /* per process, executable graphs alive */
#define SIM_MAX_GRAPH_NODES 65536
#define SIM_MAX_CALLBACKS 256 /* host functions handed to one process and not yet done */
#define SIM_MAX_PARAM_BYTES 4096
#define SIM_MAX_INLINE_BYTES 65536
#define SIM_MAX_STATE_PROCS 4096
#define SIM_NAME_MAX 64

/* ---- kernels ---- */

/*
 * Kernels that the engine knows by their PTX entry name; everything else is SIM_KERNEL_OTHER and
 * runs for sim_entry.kernel.duration_ns, or the default when that is 0. Parameters are the raw
 * parameter buffer, laid out as the PTX declares them (natural alignment).
 *   spin_ns(u64 ns)                              occupies its blocks for ns
 *   stamp_ns(u64 ns, u64 out)                    as spin_ns; out[0], out[1] = begin and end, ns
 *   spin_flag(u64 flag, u32 value, u64 timeout)  until *(u32 *)flag >= value, or timeout ns
 *   set_flag(u64 ptr, u32 value)                 *(u32 *)ptr = value
 *   fill_u32(u64 ptr, u32 value, u64 n)
 *   saxpy_f32(u64 y, u64 x, f32 a, u64 n)        y[i] = a * x[i] + y[i]
 *   reduce_u32(u64 out, u64 in, u64 n)           *(u32 *)out = sum of in[i], modulo 2^32
 *   matmul_f32(u64 c, u64 a, u64 b, u32 n)       c = a * b, row-major n x n
 */
#define SIM_KERNELS(X) \
	X(OTHER, "", 0) \
	X(SPIN_NS, "spin_ns", 8) \
	X(SPIN_FLAG, "spin_flag", 24) \
	X(SET_FLAG, "set_flag", 12) \
	X(FILL_U32, "fill_u32", 24) \
	X(SAXPY_F32, "saxpy_f32", 32) \
	X(REDUCE_U32, "reduce_u32", 24) \
	X(MATMUL_F32, "matmul_f32", 28) \
	X(STAMP_NS, "stamp_ns", 16)

enum sim_kernel {
#define X(id, name, bytes) SIM_KERNEL_##id,
	SIM_KERNELS(X)
#undef X
		SIM_KERNEL_COUNT,
};

/* ---- submissions ---- */

enum sim_op_kind {
	SIM_OP_PAD,    /* skip `units`; fills the end of the ring */
	SIM_OP_KERNEL, /* kernel + param_bytes of parameters behind the entry */
	SIM_OP_MEMSET,
	SIM_OP_COPY,        /* direction follows from the addresses */
	SIM_OP_WRITE_VALUE, /* host or device address */
	SIM_OP_WAIT_VALUE,
	SIM_OP_EVENT_RECORD,
	SIM_OP_EVENT_WAIT, /* waits for the event's latest record that is before it in the ring;
				 an event never recorded is no wait */
	SIM_OP_HOST_FUNC,
	SIM_OP_FREE_ASYNC, /* memory from SIM_MSG_POOL_ALLOC or SIM_MSG_MEM_ALLOC */
	SIM_OP_PREFETCH,   /* managed memory to a device or (device = -1) the host */
	SIM_OP_EMPTY,      /* completes in order, does nothing (graph nodes, barriers) */
	SIM_OP_GRAPH_LAUNCH,
	/* Not work of a stream: taken at once when the engine reads them, in ring order. */
	SIM_OP_STREAM_CREATE,  /* before the first use of a stream slot */
	SIM_OP_STREAM_DESTROY, /* work in the stream still completes; the slot may be reused once
				 sim_stream.live is 0 */
	SIM_OP_EVENT_DESTROY,  /* the slot may be reused at once */
	SIM_OP_GRAPH_DESTROY,  /* launches under way complete; the slot may be reused at once */
	SIM_OP_COUNT,
};

enum sim_entry_flags {
	/*
	 * Somebody outside the device may notice when it is executed: value writes to host memory,
	 * copies to host memory, host functions, kernels that get host addresses, set_flag, graphs
	 * that hold any of these. The client sets it (too often is only slower, see doorbell).
	 */
	SIM_ENTRY_VISIBLE = 1u << 0,
	SIM_ENTRY_COOPERATIVE = 1u << 1, /* the client has refused grids that cannot be resident */
	SIM_ENTRY_PAGEABLE = 1u << 2,    /* copy: the host side is not pinned (slower) */
	SIM_ENTRY_INLINE = 1u << 3,      /* copy to the device: the bytes follow the entry */
	SIM_ENTRY_TIMING = 1u << 4,      /* event record: unused by the engine, for the trace */
};

enum sim_stream_flags {
	SIM_STREAM_NON_BLOCKING = 1u << 0, /* no implicit order with the legacy stream */
	SIM_STREAM_LEGACY = 1u << 1,       /* the context's NULL stream; at most one a context */
};

/* Comparisons of SIM_OP_WAIT_VALUE, numbered as CUstreamWaitValue_flags. */
enum sim_wait_cmp { SIM_WAIT_GEQ, SIM_WAIT_EQ, SIM_WAIT_AND, SIM_WAIT_NOR };

struct sim_op_kernel {
	uint32_t kernel;        /* enum sim_kernel */
	uint32_t name_id;       /* client's choice, e.g. a hash of the name; goes to the trace */
	uint32_t blocks;        /* grid x*y*z, saturated */
	uint32_t threads;       /* per block */
	uint32_t param_bytes;   /* <= SIM_MAX_PARAM_BYTES */
	uint32_t blocks_per_sm; /* how many such blocks fit one SM; 0 means 1 */
	uint64_t duration_ns;   /* 0: from kernel and parameters, or the default */
};

struct sim_op_memset {
	uint64_t ptr;
	uint64_t width; /* elements */
	uint64_t height;
	uint64_t pitch; /* bytes, any when height <= 1 */
	uint32_t value;
	uint32_t elem_bytes; /* 1, 2, 4 */
};

struct sim_op_copy {
	uint64_t dst, src;
	uint64_t width;                /* bytes */
	uint64_t dst_pitch, src_pitch; /* bytes, any when height and depth are 1 */
	uint64_t dst_slice, src_slice; /* bytes, any when depth is 1 */
	uint32_t height, depth;        /* at least 1 */
};

struct sim_op_value {
	uint64_t ptr;
	uint64_t value;
	uint32_t bytes; /* 4, 8 */
	uint32_t cmp;   /* enum sim_wait_cmp */
};

struct sim_op_event {
	uint32_t event; /* slot */
	uint32_t pad;
	uint64_t record; /* EVENT_RECORD: the slot's record number, from 1, growing with each */
};

struct sim_op_host {
	uint64_t cookie; /* handed back in sim_callback */
};

struct sim_op_mem {
	uint64_t ptr;
	uint64_t bytes;
	int32_t device;
	uint32_t pad;
};

struct sim_op_graph {
	uint32_t graph;     /* slot */
	uint32_t after;     /* a stream's slot; ... */
	uint64_t after_seq; /* its operation that comes first; 0: none */
};

struct sim_op_stream {
	uint32_t flags;
	int32_t priority; /* as CUDA: lower number first, -5..0 */
};

/*
 * One submission. In the ring it starts at a multiple of 64 bytes and takes `units` of them,
 * trailing bytes (parameters, inline data) included; it never wraps: fill the rest of the ring
 * with a SIM_OP_PAD entry (of which only kind and units are read) first.
 */
struct sim_entry {
	uint16_t kind;
	uint16_t flags;
	uint32_t units;
	uint64_t submit_ns; /* clock when the client made the call */
	uint64_t seq;       /* per stream, from 1, growing by 1 with each work entry */
	uint32_t stream;    /* slot */
	uint32_t context;   /* slot */
	union {
		struct sim_op_kernel kernel;
		struct sim_op_memset memset;
		struct sim_op_copy copy;
		struct sim_op_value value;
		struct sim_op_event event;
		struct sim_op_host host;
		struct sim_op_mem mem;
		struct sim_op_graph graph;
		struct sim_op_stream stream_new;
		uint64_t raw[12];
	};
}; /* followed by parameters or inline data */

#define SIM_ENTRY_UNIT 64u
#define SIM_ENTRY_BYTES 128u
_Static_assert(sizeof(struct sim_entry) == SIM_ENTRY_BYTES, "two units");

/* Units of an entry with that many trailing bytes. A kernel with up to 64 bytes of parameters
 * is 3 units. */
#define SIM_ENTRY_UNITS(trailing) \
	((uint32_t)((SIM_ENTRY_BYTES + (uint64_t)(trailing) + SIM_ENTRY_UNIT - 1) / SIM_ENTRY_UNIT))

/*
 * An executable graph, sent with SIM_MSG_GRAPH_CREATE in a memfd: struct sim_graph_head, then
 * `nodes` times { struct sim_graph_node, `ndeps` uint32_t node numbers (each lower than the
 * node's own), padding to 8 bytes, struct sim_entry, its trailing bytes, padding to 8 bytes }.
 * Of the entry kind, flags, context, the union are used. Child graphs are flattened by the
 * client; nodes may be KERNEL, MEMSET, COPY (not inline), WRITE_VALUE, WAIT_VALUE, EVENT_RECORD,
 * EVENT_WAIT, HOST_FUNC, FREE_ASYNC, EMPTY. For EVENT_RECORD nodes the record number is 0: each
 * launch completes record number 0, that is, sets sim_event.time_ns and adds one to
 * sim_event.graph_records; EVENT_WAIT in a graph waits for the latest record before the launch.
 */
struct sim_graph_head {
	uint32_t nodes;
	uint32_t pad;
};

struct sim_graph_node {
	uint32_t ndeps;
	uint32_t trailing; /* bytes behind the entry */
	uint32_t pad[2];
};

/* ---- the shared memory of a client and the engine ---- */

struct sim_shm_engine {              /* [engine] */
	_Atomic uint64_t head;       /* ring bytes consumed, ever */
	_Atomic uint64_t wake_at_ns; /* the engine looks again at this time at the latest */
	_Atomic uint64_t now_ns;     /* the simulated device has advanced to here */
	_Atomic uint32_t doorbell;   /* enum sim_doorbell: what must ring */
	_Atomic uint32_t wake_seq;   /* futex: grows whenever something awaited was published */
	_Atomic uint32_t cb_tail;    /* futex: host functions handed over, ever */
	_Atomic uint32_t dead;       /* the engine has dropped this client (shutdown) */
	uint8_t pad[24];
};
_Static_assert(sizeof(struct sim_shm_engine) == 64, "one line");

struct sim_shm_client {                /* [client] */
	_Atomic uint64_t tail;         /* ring bytes produced, ever; release after the entry */
	_Atomic uint32_t ring_waiters; /* threads that wait for room in the ring (on wake_seq) */
	_Atomic uint32_t waiters;      /* threads that wait on wake_seq; 0: no futex wake is sent */
	uint8_t pad[48];
};
_Static_assert(sizeof(struct sim_shm_client) == 64, "one line");

/*
 * Doorbell: after publishing tail, with a seq_cst fence between, read `doorbell`; write 1 to the
 * doorbell eventfd if it is ALL, or if it is VISIBLE and the entry is SIM_ENTRY_VISIBLE and not
 * (wake_at_ns <= sim_stream.busy_until_ns of its stream), or if the ring is more than half full
 * and doorbell is not NONE. Always ring after raising await_seq, after finishing a host function,
 * and before sleeping for room in the ring.
 */
enum sim_doorbell { SIM_BELL_ALL, SIM_BELL_VISIBLE, SIM_BELL_NONE };

struct sim_stream {
	/* [engine] */
	_Atomic uint64_t completed;     /* highest seq completed */
	_Atomic uint64_t busy_until_ns; /* what is queued cannot be done before this */
	_Atomic uint32_t live;          /* created and not yet destroyed and drained */
	uint8_t pad0[44];
	/* [client] */
	_Atomic uint64_t await_seq; /* publish promptly up to this seq; only ever raised */
	uint8_t pad1[56];
};
_Static_assert(sizeof(struct sim_stream) == 128, "two lines, one writer each");

/*
 * Waiting for a stream: raise await_seq, ring, then until completed >= seq or the context has an
 * error: waiters++, read wake_seq, check again, FUTEX_WAIT (not private) on wake_seq, waiters--.
 * Polling (cuStreamQuery): completed >= seq is done. Otherwise, when await_seq is already at
 * least seq, it is not done (the engine promised to publish promptly); else raise await_seq and
 * make a SIM_MSG_SYNC call, then look at completed.
 * An event is waited for as the (stream, seq) of its latest record.
 */

struct sim_event {                /* [engine] */
	_Atomic uint64_t record;  /* highest record number completed */
	_Atomic uint64_t time_ns; /* when that was, on the device */
	_Atomic uint64_t graph_records;
	uint64_t pad;
};

struct sim_context {            /* [engine] */
	_Atomic uint32_t error; /* CUresult, sticky; then everything queued counts as completed */
	uint32_t pad[15];
};

/*
 * Host functions. The engine fills slot (n % SIM_MAX_CALLBACKS) and sets cb_tail = n + 1, wakes
 * cb_tail as a futex; one client thread runs them in order, then stores done_ns (the clock, never
 * 0) and rings. The engine clears done_ns when it has seen it and reuses the slot.
 */
struct sim_callback {
	/* [engine] */
	uint64_t cookie;
	uint32_t context; /* slot */
	uint32_t error;   /* the context's error at that time (cuStreamAddCallback's status) */
	uint8_t pad0[48];
	/* [client] */
	_Atomic uint64_t done_ns;
	uint8_t pad1[56];
};
_Static_assert(sizeof(struct sim_callback) == 128, "two lines, one writer each");

#define SIM_RING_BYTES (4u << 20)

struct sim_shm {
	/* [engine], constant after HELLO */
	uint64_t magic;
	uint32_t abi;
	uint32_t ring_bytes;
	uint64_t bytes; /* of the whole mapping */
	uint8_t pad[40];
	struct sim_shm_engine engine;
	struct sim_shm_client client;
	struct sim_context contexts[SIM_MAX_CONTEXTS];
	struct sim_callback callbacks[SIM_MAX_CALLBACKS];
	struct sim_stream streams[SIM_MAX_STREAMS];
	struct sim_event events[SIM_MAX_EVENTS];
	_Alignas(4096) uint8_t ring[SIM_RING_BYTES];
};

/* ---- control calls ---- */

enum sim_role { SIM_ROLE_CUDA, SIM_ROLE_NVML, SIM_ROLE_ADMIN };

/* Kinds of memory of SIM_MSG_MEM_ALLOC, and in answers. */
enum sim_mem_kind {
	SIM_MEM_LINEAR,
	SIM_MEM_ARRAY,    /* opaque array or mipmap storage; same rules as LINEAR */
	SIM_MEM_GLOBAL,   /* module and library globals */
	SIM_MEM_GRAPH,    /* memory of graph allocation nodes */
	SIM_MEM_MANAGED,  /* reply carries a memfd: map it shared at the returned address */
	SIM_MEM_POOL,     /* answers only */
	SIM_MEM_VMM,      /* answers only: a mapping */
	SIM_MEM_RESERVED, /* answers only: reserved addresses without a mapping */
	SIM_MEM_CONTEXT,  /* SIM_MSG_CTX_RESERVE: stack, heap, printf buffer: counted, no address */
};

/* Pool attributes, numbered as CUmemPool_attribute. */
enum sim_pool_attr {
	SIM_POOL_RELEASE_THRESHOLD = 4,
	SIM_POOL_RESERVED_CURRENT = 5,
	SIM_POOL_RESERVED_HIGH = 6, /* set to 0 to reset */
	SIM_POOL_USED_CURRENT = 7,
	SIM_POOL_USED_HIGH = 8,
};

/* The default pool of a device in a process; other pools have ids above. */
#define SIM_POOL_DEFAULT(device) ((uint32_t)(device) + 1u)

/*
 * X(name): request fields used -> reply fields set. In every reply `status` is a CUresult; where
 * nothing is named after -> only that. Default statuses: an unknown id is CUDA_ERROR_INVALID_VALUE
 * (1), a destroyed context INVALID_CONTEXT (201), no room on the device OUT_OF_MEMORY (2).
 */
enum sim_msg {
	/* arg[0] SIM_ABI, arg[1] enum sim_role -> arg[0] engine pid, arg[1] devices; for
	 * SIM_ROLE_CUDA the fds {shm, doorbell eventfd}, and fd of its own memory
	 * (/proc/self/mem), if it has one, with the request. First message of a connection. */
	SIM_MSG_HELLO,
	/* Ingest, catch up with the clock, publish completions -> arg[0] device time. */
	SIM_MSG_SYNC,
	/* context, device, arg[0] flags. Charges the context's memory. */
	SIM_MSG_CTX_CREATE,
	/* context. Stops its work, frees its streams, modules and memory (not VMM, not pools). */
	SIM_MSG_CTX_DESTROY,
	/* context, arg[0] bytes counted from now on for stack, heap, fifo; replaces the last. */
	SIM_MSG_CTX_RESERVE,
	/* context, arg[0] code bytes -> id */
	SIM_MSG_MODULE_LOAD,
	/* context, id */
	SIM_MSG_MODULE_UNLOAD,
	/* context, kind, arg[0] bytes -> ptr, arg[0] bytes; MANAGED: fd */
	SIM_MSG_MEM_ALLOC,
	/* ptr: its beginning; also of pool memory. The client has synchronised before. */
	SIM_MSG_MEM_FREE,
	/* ptr: any address -> ptr base, arg[0] bytes, kind, device, context (if the caller's, else
	 * ~0), arg[1] pid of the owner, id pool or VMM handle, arg[2] resident bytes (managed) */
	SIM_MSG_MEM_QUERY,
	/* device -> arg[0] free bytes, arg[1] total bytes */
	SIM_MSG_MEM_INFO,
	/* ptr managed, arg[0] bytes, arg[1] CUmem_advise, device */
	SIM_MSG_MEM_ADVISE,
	/* arg[0] bytes, arg[1] alignment or 0, ptr: wish or 0 -> ptr */
	SIM_MSG_VA_RESERVE,
	/* ptr, arg[0] bytes: as reserved, nothing mapped in it */
	SIM_MSG_VA_FREE,
	/* device, arg[0] bytes (multiple of SIM_GRANULE) -> id */
	SIM_MSG_VMM_CREATE,
	/* id: gives one reference back; the memory goes with the last reference and mapping */
	SIM_MSG_VMM_RELEASE,
	/* ptr, arg[0] bytes, arg[1] offset, id. No access until VMM_ACCESS. */
	SIM_MSG_VMM_MAP,
	/* ptr, arg[0] bytes: whole mappings */
	SIM_MSG_VMM_UNMAP,
	/* ptr, arg[0] bytes, device, arg[1] 0 none, 1 read, 3 read and write */
	SIM_MSG_VMM_ACCESS,
	/* id -> fd, which any process may import */
	SIM_MSG_VMM_EXPORT,
	/* with fd -> id, device, arg[0] bytes */
	SIM_MSG_VMM_IMPORT,
	/* ptr in a mapping -> id with one more reference */
	SIM_MSG_VMM_RETAIN,
	/* id -> arg[0] bytes, device */
	SIM_MSG_VMM_INFO,
	/* device, arg[0] greatest reserved bytes or 0 -> id */
	SIM_MSG_POOL_CREATE,
	/* id */
	SIM_MSG_POOL_DESTROY,
	/* id, arg[0] enum sim_pool_attr, arg[1] value */
	SIM_MSG_POOL_SET,
	/* id, arg[0] enum sim_pool_attr -> arg[0] */
	SIM_MSG_POOL_GET,
	/* id, arg[0] bytes to keep reserved -> arg[0] 1: frees are still to be executed, 0: none */
	SIM_MSG_POOL_TRIM,
	/* id, context, stream, arg[0] bytes -> ptr. Freed memory of the pool whose free precedes in
	 * the same stream may be given. */
	SIM_MSG_POOL_ALLOC,
	/* ptr: beginning of an allocation -> arg[0] key */
	SIM_MSG_IPC_GET_MEM,
	/* context, arg[0] key -> ptr, arg[0] bytes. The address is the exporter's. Not in the
	 * exporting process (CUDA_ERROR_INVALID_CONTEXT). */
	SIM_MSG_IPC_OPEN_MEM,
	/* ptr */
	SIM_MSG_IPC_CLOSE_MEM,
	/* arg[0] event slot -> arg[0] key */
	SIM_MSG_IPC_GET_EVENT,
	/* arg[0] key, arg[1] event slot of the caller: from now on the same event */
	SIM_MSG_IPC_OPEN_EVENT,
	/* arg[0] graph slot, with fd (struct sim_graph_head) */
	SIM_MSG_GRAPH_CREATE,
	/* context, device the peer, arg[0] 1 enable, 0 disable */
	SIM_MSG_PEER_ACCESS,
	/* Administration. STATUS -> arg[0] engine pid, arg[1] clients. FAULTS: with fd of a faults
	 * file (README); replaces those set; a bad line is named in text. STOP ends the engine. */
	SIM_MSG_STATUS,
	SIM_MSG_FAULTS,
	SIM_MSG_STOP,
	SIM_MSG_COUNT,
};

struct sim_request {
	uint32_t type; /* enum sim_msg */
	uint32_t seq;
	uint32_t context;
	uint32_t stream;
	int32_t device;
	uint32_t kind;
	uint64_t id;
	uint64_t ptr;
	uint64_t arg[4];
};

struct sim_reply {
	uint32_t type; /* that of the request */
	uint32_t seq;
	uint32_t status; /* CUresult */
	uint32_t context;
	int32_t device;
	uint32_t kind;
	uint64_t id;
	uint64_t ptr;
	uint64_t arg[4];
	char text[128]; /* for people, may be empty */
};

/* How a kernel reaches ordinary memory of its process. */
enum sim_host_access {
	SIM_HOST_ACCESS_NONE,
	SIM_HOST_ACCESS_HMM,
	SIM_HOST_ACCESS_ATS,
};

/* ---- the state file: mapped read-only by whoever wants to look ---- */

struct sim_state_device {
	char name[SIM_NAME_MAX]; /* "NVIDIA H200" */
	char uuid[48];           /* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
	uint8_t uuid_bytes[16];
	uint64_t mem_total;
	uint32_t cc_major, cc_minor;
	uint32_t sm_count;
	uint32_t clock_khz, mem_clock_khz, mem_bus_bits, l2_bytes;
	uint32_t pci_domain, pci_bus, pci_device, pci_vendor_device; /* device << 16 | vendor */
	uint32_t numa;
	uint32_t host_access;              /* enum sim_host_access */
	uint32_t nvlinks[SIM_MAX_DEVICES]; /* number of NVLinks to each other device */
	uint32_t power_limit_mw;
	uint32_t lost; /* fault: fallen off the bus */
	/* changing */
	_Atomic uint64_t mem_used;
	_Atomic uint64_t busy_ns;     /* compute engine busy, ever */
	_Atomic uint64_t copy_ns;     /* copy engines busy, ever */
	_Atomic uint64_t sample_ns;   /* when the permille below were computed (every 100 ms) */
	_Atomic uint32_t sm_permille; /* over the last 100 to 200 ms; 0 if sample_ns is old */
	_Atomic uint32_t mem_permille;
	_Atomic uint64_t ecc_uncorrected;
	_Atomic uint64_t xids; /* how many were told << 16 | the last one */
};

/* One process on one device. A slot is in use when pid is not 0. */
struct sim_state_proc {
	_Atomic uint32_t pid; /* as the engine sees it */
	uint16_t device;
	uint16_t contexts;
	uint64_t start_time; /* field 22 of /proc/PID/stat */
	_Atomic uint64_t mem_used;
	_Atomic uint64_t busy_ns;
	_Atomic uint32_t sm_permille; /* as above */
	uint32_t pad;
};

struct sim_state {
	uint64_t magic;
	uint32_t abi;
	uint32_t bytes;
	uint32_t engine_pid;
	uint32_t device_count;
	_Atomic uint32_t generation; /* odd while proc slots are being given or taken */
	_Atomic uint32_t proc_slots; /* slots in use are below this */
	_Atomic uint64_t now_ns;
	/* costs that the client applies itself */
	uint64_t default_kernel_ns;
	uint64_t context_create_ns; /* cuCtxCreate, primary retain: the client sleeps that long */
	uint64_t module_load_ns;
	struct sim_state_device devices[SIM_MAX_DEVICES];
	struct sim_state_proc procs[SIM_MAX_STATE_PROCS];
};

#endif
