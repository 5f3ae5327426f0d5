/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the interception library in one process, and the functions that its files share.
 *
 * `struct hook` holds everything that must not survive a fork: descriptors, locks, shared pages and
 * records. The struct is in memory that the kernel wipes in the child (MADV_WIPEONFORK). A child
 * finds mode HOOK_NEW and registers at its first CUDA call. Children do not inherit the shared
 * pages at all.
 *
 * Threads: a submission touches its thread's TLS, its stream's record and its own line. Everything
 * else is slow path under the locks of this file. Lock order: init, deferred, share, pool, table,
 * memory; marker, stream.
 */
#ifndef HOOK_HOOK_H
#define HOOK_HOOK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/proto.h"
#include "cuda/types.h"
#include "hook/estimate.h"
#include "hook/hook-lock.h"
#include "wire/msg.h"
#include "wire/page.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define EXPORT __attribute__((visibility("default")))
#define NOINLINE __attribute__((noinline))
#define USED __attribute__((used))

#define HOOK_CONTEXTS 256u
#define HOOK_SEGMENTS 64u /* markers in flight that are watched for timing */
#define HOOK_ASKS 64u     /* questions to the daemon that wait for an answer */

/* Handles that name a default stream of the current context. */
#define STREAM_LEGACY ((uintptr_t)1)
#define STREAM_PER_THREAD ((uintptr_t)2)

struct context;
struct device;
struct dirt;

/*
 * A stream that has submitted work. A record is never freed, but reused for the same or another
 * handle. One cache line.
 */
struct stream {
	_Alignas(64) _Atomic uintptr_t
		handle; /* the program's handle; 0: the legacy default stream */
	/* The fast path requires that this device equals the thread's device. */
	struct device *_Atomic device;
	_Atomic uint32_t dirty; /* submissions that no marker covers; see marker.c */
	uint32_t slot;          /* index in up.done; 0: none yet, or the shared slot 0 */
	struct context *context;
	_Atomic uint32_t owner; /* per-thread default stream: tid of its only user, or ~0 */
	uint32_t sequence;      /* sequence number of its last marker */
	struct stream *next_free;
	bool nonblocking;
	bool alive;
};

struct context {
	CUcontext handle; /* NULL: free */
	struct device *device;
	struct stream *legacy;
	struct stream *per_thread;
	CUdeviceptr done;    /* device address of up.done; 0: this context can have no markers */
	uint64_t pages;      /* charged for the context */
	uint64_t code_bytes; /* code of loaded modules, in blocks that they share */
	uint64_t data_bytes; /* small variables of loaded modules, in other shared blocks */
	int64_t limit_pages; /* charged for limits that cuCtxSetLimit raised; negative: lowered */
	bool primary;
	bool owns_done; /* up.done was registered while this context was current */
};

struct segment { /* a marker in flight */
	uint32_t slot, sequence;
	uint32_t count; /* submissions that the marker covers */
	uint64_t key;   /* key of the only submission, for the estimate; 0: several, or unknown */
	bool used;
	bool is_corun; /* first marker of a turn: other tenants' work may have run before it */
	uint64_t issued_ns;
};

enum device_special { /* bits of device.special; submissions take the slow path while any is set */
	SPECIAL_CAPTURE = 1u << 0,
	SPECIAL_FULL = 1u << 1, /* the predicted work in flight exceeds the in-flight window */
	SPECIAL_EACH = 1u << 2, /* each submission has its own marker, so its kind matters */
};

/* One of the tenant's devices. */
struct device {
	/* read by every submission */
	_Alignas(64) const struct page_down *down;
	struct page_up *up;
	_Atomic uint32_t special; /* enum device_special */
	_Atomic uint32_t every;   /* submissions of a thread between two markers */
	struct page_tenant *tenant;
	uint32_t index;  /* index in hook.device */
	uint32_t daemon; /* the daemon's number of the device, used in messages */
	uint8_t uuid[16];
	uint64_t device_bytes;
	int up_fd, tenant_fd;
	uint64_t up_inode, tenant_inode;
	CUdevice ordinal; /* the driver's current ordinal; -1: not visible */

	/* markers, under marker_lock */
	_Alignas(64) struct lock marker_lock;
	bool no_values; /* the driver refused a value write, so host functions are the markers */
	uint32_t slot_free
		[PAGE_SLOTS]; /* slots of destroyed streams; reusable when done == issued */
	uint32_t slot_frees;
	struct dirt *dirt; /* scratch memory of a flush */
	struct segment segment[HOOK_SEGMENTS];
	uint32_t segments; /* segments in use, from segment_first */
	uint32_t segment_first;
	struct estimate estimate;
	uint64_t marked_submitted; /* sum of `submitted` at the last marker */
	uint32_t marked_grant;     /* value of down.grant at the last marker */
	uint32_t used_grant;       /* value of down.grant at the last submission with a marker */
	uint32_t yielded_grant;    /* value of down.grant when MSG_YIELD was last sent */

	/* Keeps each thread's countdown for this device while the thread uses another device. */
	uint32_t countdown[PAGE_LINES];

	/* memory of graphs, under graph_lock */
	struct lock graph_lock;
	uint64_t graph_pages; /* charged for memory that the device has reserved for graphs */
	uint64_t graph_epoch; /* grows at each trim, after which graphs allocate again */

	/* Mean time between the return of a synchronisation and the next submission. */
	_Atomic uint64_t gap_ns;
};

enum hook_mode {
	HOOK_NEW = 0,
	HOOK_REGISTERED,
	HOOK_OPEN,   /* no daemon and policy open: every call passes */
	HOOK_CLOSED, /* no daemon and policy closed, or the daemon refused this process */
};

struct ask {                    /* a question to the daemon */
	_Atomic uint32_t state; /* 0 free, 1 asked, 2 answered */
	uint32_t request;
	int32_t status;
	uint64_t bytes;
};

/*
 * Maps a handle to its record, with open addressing. Threads read it without a lock. A fork wipes
 * the map, so that it is empty.
 */
struct stream_map {
	uint64_t mask;
	uint64_t used;
	struct stream_map_entry {
		_Atomic uintptr_t handle; /* 0: empty */
		struct stream *_Atomic stream;
	} entry[];
};

struct memory_record;

struct memory_table { /* see hook-memory.h */
	struct memory_record *record;
	uint64_t mask;
	uint64_t used;
};

struct hook {
	_Atomic uint32_t mode; /* enum hook_mode */
	uint32_t pid;
	struct lock init_lock;
	struct lock memory_lock;
	struct lock stream_lock;
	struct lock table_lock;
	struct lock pool_lock;
	struct lock deferred_lock;
	struct deferred *deferred; /* deferred.c; NULL: nothing was freed in stream order yet */
	struct lock share_lock;    /* hook-share.c */
	int share_set;             /* epoll set of exported descriptors */
	uint64_t share_mark;       /* mark that proves share_set is this library's; 0: no set */
	uint64_t share_round;      /* number of looks at share_set */
	_Atomic uint32_t share_exports; /* number of descriptors in share_set */
	bool shares;                    /* the daemon counts shared memory */
	struct lock module_lock;        /* protects code_bytes and data_bytes of contexts */
	struct memory_table table;
	_Atomic bool pools;       /* the process has used a pool */
	_Atomic bool pools_freed; /* memory was freed into a pool since the last settling */
	bool policy_closed;
	_Atomic bool removed; /* the daemon has removed the tenant for good */
	bool simulated;
	bool driver_ready;                /* cuInit has succeeded */
	bool quiet;                       /* the message on stderr has been written */
	_Atomic bool helper;              /* the helper thread runs */
	_Atomic bool orphan;              /* the connection to the daemon is lost */
	_Atomic uint64_t orphan_since_ns; /* time when the connection was lost */
	_Atomic int socket;
	uint64_t socket_inode;
	_Atomic uint16_t abi; /* wire version that library and daemon both speak */
	uint64_t start_time;
	uint64_t tenant;
	uint8_t secret[16];
	char socket_path[108];
	_Atomic uint32_t requests;
	struct ask ask[HOOK_ASKS];
	_Atomic uint64_t lines[PAGE_LINES / 64]; /* lines in use, one bit each */
	uint32_t devices;
	struct device device[MSG_DEVICES];
	struct device *visible[MSG_DEVICES]; /* indexed by the driver's ordinal */
	uint32_t visible_count;
	struct context context[HOOK_CONTEXTS];
	uint32_t contexts; /* number of entries ever used */
	_Atomic uint32_t captures;
	struct stream *spare; /* array of unused records */
	uint32_t spares;      /* number of records in `spare` */
	struct stream *free;  /* records out of use, linked by .next_free */
	struct stream_chunk *chunks;
};

struct stream_chunk { /* records are allocated in arrays, which are never freed */
	struct stream_chunk *next;
	struct stream stream[1000];
};

/* Per-thread state, at most 64 bytes of initial-exec TLS in total. */
struct thread {
	struct stream *last;   /* never NULL */
	struct device *device; /* the device of `line` and `gate` */
	struct page_line *line;
	const _Atomic uint32_t *gate;
	struct context *context; /* the current context; NULL: ask the driver */
	/*
	 * when the last synchronisation returned; 0: the next submission does not call note_gap()
	 */
	uint64_t sync_ns;
	uint32_t countdown; /* submissions until the next marker */
	/*
	 * Line number + 1; 0: no line yet; THREAD_SHARED: the last line, shared with other threads.
	 */
	uint32_t index;
	uint32_t pid; /* process that set this state up, because a fork copies TLS */
	uint32_t registered_exit;
};
_Static_assert(sizeof(struct thread) <= 64, "more would not fit the loader's reserve");

#define THREAD_SHARED PAGE_LINES              /* index of the shared line */
#define THREAD_NO_DEVICE ((struct device *)1) /* differs from the device of every record */

extern __thread struct thread hook_thread __attribute__((tls_model("initial-exec")));
extern struct hook *_Atomic hook_state;
extern struct stream hook_no_stream; /* matches no handle and no device */
extern struct stream_map *_Atomic hook_streams __attribute__((visibility("hidden")));

static inline uint64_t stream_hash(uintptr_t handle)
{
	return (uint64_t)handle * UINT64_C(0x9e3779b97f4a7c15) >> 40;
}

/* Returns the state, and makes it at the first call. NULL: the kernel has no memory. */
struct hook *hook_get(void);

static inline struct hook *hook_registered(void)
{
	struct hook *h = atomic_load_explicit(&hook_state, memory_order_acquire);

	return h && atomic_load_explicit(&h->mode, memory_order_acquire) == HOOK_REGISTERED ? h
											    : NULL;
}

/* Anonymous zeroed memory that a fork wipes. malloc does not know of it. NULL: out of memory. */
void *hook_map(size_t n);

/* Writes one line, "divvy: ...", to stderr, for the program's user; see also wire/diagnostic.h. */
void hook_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Like hook_complain(), with the prefix "no GPU for this program: ". */
void hook_complain_no_gpu(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Like hook_complain(), for the message that this process has lost its GPU for good. */
void hook_complain_at_end(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- entry.c: the slot of each export ---- */

/* REAL(cuInit)(0) calls the driver's function, or a stand-in that returns an error. */
#define REAL(name) (hook_slot_##name)
#define CU(name, since, variant, action, stream, params, args, ...) \
	extern PFN_##name *hook_slot_##name __attribute__((visibility("hidden")));
#include "cuda/cuda.def"
#undef CU

/*
 * Generates exports for all lines of cuda.def with one action. For each such action the file has a
 * line like
 *   #define DO_SYNC ~, SYNCS
 * and then includes the list with CU defined as HOOK_DO. The parameters of SYNCS are (name,
 * variant, stream, params, args).
 */
#define HOOK_DO(name, since, variant, action, stream, params, args, ...) \
	HOOK_PICK(DO_##action, HOOK_NOTHING)(name, variant, stream, params, args)
/* HOOK_PICK(X, y) expands to `text` if X is a macro `~, text` as above, and to y otherwise. */
#define HOOK_PICK(...) HOOK_PICK_SECOND(__VA_ARGS__, ~)
#define HOOK_PICK_SECOND(first, second, ...) second
#define HOOK_NOTHING(...)
#define HOOK_PER_THREAD_NONE false
#define HOOK_PER_THREAD_PTDS true
#define HOOK_PER_THREAD_PTSZ true

/*
 * Returns the handle that `stream` stands for. is_per_thread: for this function NULL means the
 * default stream of the thread.
 */
static inline __attribute__((always_inline)) uintptr_t stream_handle(
	bool is_per_thread, CUstream stream)
{
	return is_per_thread && !stream ? STREAM_PER_THREAD : (uintptr_t)stream;
}

/* Address of the driver's function; opens the driver if necessary. NULL: none. */
void *hook_driver_symbol(const char *name);
bool hook_driver_present(void);
/* The driver's handle for dlsym; NULL: no driver. */
void *hook_driver(void);

/* ---- hook-session.c: the daemon ---- */

/* Registers once, and returns the mode. Takes the init lock. */
enum hook_mode session_open(struct hook *h);
/* Starts the helper thread once there are contexts. */
void session_helper_start(struct hook *h);
void session_note(struct hook *h, enum msg_type type, struct device *d);
/*
 * Asks the daemon and waits for the answer. Returns 0 or the daemon's -errno; -ENOTCONN: the
 * connection was lost. ret_bytes may be NULL.
 */
int session_ask(
	struct hook *h, enum msg_type type, struct device *d, uint64_t bytes, uint64_t *ret_bytes);
/*
 * Call after session_ask() returned -ENOTCONN. Sleeps for a moment. Returns whether the daemon may
 * return, so that the caller should ask again.
 */
bool session_comes_back(struct hook *h);
void session_tell(struct hook *h, enum msg_type type, struct device *d, uint64_t bytes);
/*
 * Sends MEM_SHARE or MEM_UNSHARE. With `waits` this function returns the answer like session_ask(),
 * otherwise 0 when the message was sent. -ENOTCONN also means that the daemon does not count shared
 * memory.
 */
int session_share(struct hook *h, enum msg_type type, struct device *d, uint64_t id, uint64_t bytes,
	uint32_t flags, bool waits);

/* ---- hook-thread.c ---- */

/* This thread's TLS, set up for this process; NULL: the process is not registered. */
struct thread *thread_get(void);
/* Sets t->line and t->gate to those of the device. */
void thread_use(struct thread *t, struct device *d);
/* Call after anything that may have changed the current context. */
void thread_forget_context(void);

/* ---- hook-stream.c: streams and contexts ---- */

/*
 * The record of a program's handle, made if necessary; NULL: the stream is on none of the tenant's
 * devices.
 */
struct stream *stream_resolve(struct thread *t, uintptr_t handle);
struct stream *stream_find(uintptr_t handle);
void stream_created(CUstream handle, unsigned int flags);
/* Call before the driver destroys the stream. */
void stream_destroying(CUstream handle);
/* Calls fn for each living record of the device. Takes the stream lock. */
void stream_each(struct device *d, void (*fn)(struct stream *, void *), void *arg);
/* Whether the device has few streams and a marker follows everything that was submitted to them. */
bool stream_few_clean(struct device *d);

/*
 * The record of a context, made if necessary. To make a record, the function pushes the context for
 * a moment if it is not current. NULL: no record.
 */
struct context *context_find(CUcontext handle);
struct context *context_current(struct thread *t);
/* Like context_find(), but makes no record. */
struct context *context_lookup(CUcontext handle);
/* Called after an intercepted call created a context for which `pages` were charged. */
void context_created(CUcontext handle, CUdevice ordinal, bool primary, uint64_t pages);
void context_destroying(CUcontext handle);
struct device *device_of(CUdevice ordinal);

/* ---- gate.c ---- */

struct pass {
	struct thread *thread;
	struct stream *stream; /* NULL: the submission is not counted */
	uint64_t key;          /* equal for submissions of about equal length */
	bool shared;           /* several threads share the line */
};

/*
 * Waits until the gate is open and the in-flight window has room. Afterwards the caller may pass
 * the submission to the driver. Returns false if the tenant was removed, so that no submission may
 * pass.
 */
bool gate_enter(struct pass *pass, uintptr_t handle, uint64_t key);
void gate_leave(struct pass *pass);
/* Puts a marker after the submission that ended the thread's countdown. Returns r. */
CUresult gate_due(CUresult r);
/* Call after a driver call that waited for the device. */
void gate_synced(void);
/*
 * Like gate_synced() after a copy for which the host waited, but only while another tenant waits.
 * Returns r.
 */
CUresult gate_copied(CUresult r);

/* ---- marker.c ---- */

/* Registers up.done with the current context. */
void marker_context(struct context *c);
void marker_context_destroyed(struct context *c);
/*
 * Puts a marker for `count` submissions into one stream. Returns false on failure. The caller holds
 * the marker lock.
 */
bool marker_issue(struct device *d, struct stream *s, uint32_t count, uint64_t key, uint64_t now);
/*
 * Puts a marker behind this thread's latest submission, unless another thread is marking. key 0:
 * unknown.
 */
void marker_due(struct thread *t, struct stream *s, uint64_t key);
/* Looks for completed markers after a synchronisation, unless another thread is looking. */
void marker_look(struct device *d);
/*
 * Puts a marker into each dirty stream of the device. t: the calling thread's TLS; NULL for the
 * helper thread.
 */
void marker_flush(struct device *d, struct thread *t);
/* Whether markers follow all work, and no work is in flight. */
bool marker_drained(struct device *d);
/*
 * Waits while the predicted work in flight exceeds the in-flight window, or until the gate closes.
 */
void marker_wait_window(struct device *d);
/*
 * Whether a submission of the kind `key` would overrun the turn, so that the turn should end first.
 * True at most once a turn.
 */
bool marker_overruns(struct device *d, uint64_t key);
/*
 * The stream has ended: its slot is reusable once its work in flight completes. The caller holds
 * the marker lock.
 */
void marker_slot_release(struct device *d, struct stream *s);
/*
 * The context of these slots was destroyed: its work in flight counts as complete. The caller holds
 * the marker lock.
 */
void marker_context_dead(struct device *d, const uint32_t *slots, uint32_t n);
uint64_t marker_submitted(const struct device *d);

/* ---- calls.c ---- */

/*
 * Whether the stream captures. Also true if another stream's capture keeps the driver from
 * answering.
 */
bool capture_active(uintptr_t handle);

#endif
