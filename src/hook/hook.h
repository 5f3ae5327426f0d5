/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the interception library in one process, and what its files offer each other.
 *
 * Everything that must not survive a fork (fds, locks, shared pages, records) lies in `struct
 * hook`, in memory that the kernel wipes in the child (MADV_WIPEONFORK): a child finds mode
 * HOOK_NEW and starts afresh at its first CUDA call. The shared pages themselves are not inherited
 * at all.
 *
 * Threads: a submission touches its thread's TLS, its stream's record and its own line; everything
 * else is slow path under the locks named here. Lock order: init, deferred, share, pool, table,
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
#include "hook/lock.h"
#include "wire/msg.h"
#include "wire/page.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define EXPORT __attribute__((visibility("default")))
#define NOINLINE __attribute__((noinline))
#define USED __attribute__((used))

#define HOOK_CONTEXTS 256u
#define HOOK_SEGMENTS 64u /* markers under way that are watched for timing */
#define HOOK_ASKS 64u     /* questions to the daemon under way */

/* Handles that name a default stream of the current context. */
#define STREAM_LEGACY ((uintptr_t)1)
#define STREAM_PER_THREAD ((uintptr_t)2)

struct context;
struct device;
struct dirt;

/*
 * A stream that has been used. Never freed; reused under the same or another handle. One cache
 * line.
 */
struct stream {
	_Alignas(64) _Atomic uintptr_t
		handle;                /* as the program names it, 0 the legacy default one */
	struct device *_Atomic device; /* fast path goes on only if it is the thread's */
	_Atomic uint32_t dirty;        /* submissions that no marker covers; see marker.c */
	uint32_t slot;                 /* word in up.done; 0: none yet, or the shared one */
	struct context *context;
	_Atomic uint32_t owner; /* per-thread default streams: tid of the only user, or ~0 */
	uint32_t sequence;      /* of its last marker */
	struct stream *next_free;
	bool nonblocking;
	bool alive;
};

struct context {
	CUcontext handle; /* NULL: free */
	struct device *device;
	struct stream *legacy;
	struct stream *per_thread;
	CUdeviceptr done;    /* address of up.done for the device; 0: no markers here */
	uint64_t pages;      /* charged for it */
	uint64_t code_bytes; /* of modules loaded, in shared blocks */
	uint64_t data_bytes; /* of their small variables, in other shared blocks */
	int64_t limit_pages; /* by which cuCtxSetLimit has raised its limits; below 0: lowered */
	bool primary;
	bool owns_done; /* up.done was registered with this context current */
};

struct segment { /* a marker under way */
	uint32_t slot, sequence;
	uint32_t count; /* submissions it covers */
	uint64_t key;   /* of the only one, for the estimate; 0: of several, or unknown */
	bool used;
	bool is_beside; /* the first of a turn: others' work may have been before it */
	uint64_t issued_ns;
};

enum device_special { /* bits of device.special: submissions take the slow path while set */
	SPECIAL_CAPTURE = 1u << 0,
	SPECIAL_FULL = 1u << 1, /* predicted queue is above the window */
	SPECIAL_EACH = 1u << 2, /* each gets its marker: it is worth knowing what it is */
};

/* One of the tenant's devices. */
struct device {
	/* read by every submission */
	_Alignas(64) const struct page_down *down;
	struct page_up *up;
	_Atomic uint32_t special; /* enum device_special */
	_Atomic uint32_t every;   /* submissions of a thread between markers */
	struct page_tenant *tenant;
	uint32_t index;  /* in hook.device */
	uint32_t daemon; /* in messages */
	uint8_t uuid[16];
	uint64_t device_bytes;
	int up_fd, tenant_fd;
	uint64_t up_inode, tenant_inode;
	CUdevice ordinal; /* as the driver numbers it now; -1: not visible */

	/* markers, under marker_lock */
	_Alignas(64) struct lock marker_lock;
	bool no_values; /* the driver refused a value write: host functions mark */
	uint32_t slot_free
		[PAGE_SLOTS]; /* slots of destroyed streams, reusable once done == issued */
	uint32_t slot_frees;
	struct dirt *dirt; /* scratch of a flush */
	struct segment segment[HOOK_SEGMENTS];
	uint32_t segments; /* in use, from segment_first */
	uint32_t segment_first;
	struct estimate estimate;
	uint64_t marked_submitted; /* sum of submitted at the last marker, */
	uint32_t marked_grant;     /* and down.grant */
	uint32_t used_grant;       /* the last in which something was submitted, */
	uint32_t yielded_grant;    /* and in which MSG_YIELD was sent */

	uint32_t countdown[PAGE_LINES]; /* of threads that are at another device, each its own */

	/* memory of graphs, under graph_lock */
	struct lock graph_lock;
	uint64_t graph_pages; /* charged for what the device has reserved for graphs */
	uint64_t graph_epoch; /* +1 at each trim: then they allocate anew */

	/* gaps between a synchronisation's return and the next submission */
	_Atomic uint64_t gap_ns;
};

enum hook_mode {
	HOOK_NEW = 0,
	HOOK_REGISTERED,
	HOOK_OPEN,   /* no daemon and policy open: everything passes */
	HOOK_CLOSED, /* no daemon and policy closed, or refused */
};

struct ask {                    /* a question to the daemon */
	_Atomic uint32_t state; /* 0 free, 1 asked, 2 answered */
	uint32_t request;
	int32_t status;
	uint64_t bytes;
};

/*
 * Handle to record, open addressing. Read without a lock; wiped by a fork to one that finds
 * nothing.
 */
struct stream_map {
	uint64_t mask;
	uint64_t used;
	struct stream_map_entry {
		_Atomic uintptr_t handle; /* 0: nothing here */
		struct stream *_Atomic stream;
	} entry[];
};

struct memory_record;

struct memory_table { /* see memory.h */
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
	struct deferred *deferred;      /* deferred.c; NULL: nothing was ever freed that way */
	struct lock share_lock;         /* share.c */
	int share_set;                  /* epoll set of exported descriptors, */
	uint64_t share_mark;            /* and what makes it ours; 0: there is none */
	uint64_t share_round;           /* looks at it so far */
	_Atomic uint32_t share_exports; /* descriptors in it */
	bool shares;                    /* the daemon counts shared memory */
	struct lock module_lock;        /* code_bytes and data_bytes of contexts */
	struct memory_table table;
	_Atomic bool pools;       /* there has been one */
	_Atomic bool pools_freed; /* something was freed into a pool since the last settling */
	bool policy_closed;
	_Atomic bool removed; /* the daemon has taken the tenant away, for good */
	bool simulated;
	bool driver_ready;                /* cuInit has succeeded */
	bool quiet;                       /* the line on stderr has been written */
	_Atomic bool helper;              /* the helper thread runs */
	_Atomic bool orphan;              /* the daemon is gone, */
	_Atomic uint64_t orphan_since_ns; /* since then */
	_Atomic int socket;
	uint64_t socket_inode;
	_Atomic uint16_t abi; /* the version of the wire that both speak */
	uint64_t start_time;
	uint64_t tenant;
	uint8_t secret[16];
	char socket_path[108];
	_Atomic uint32_t requests;
	struct ask ask[HOOK_ASKS];
	_Atomic uint64_t lines[PAGE_LINES / 64]; /* lines in use, a bit each */
	uint32_t devices;
	struct device device[MSG_DEVICES];
	struct device *shown[MSG_DEVICES]; /* by the driver's ordinal */
	uint32_t shown_count;
	struct context context[HOOK_CONTEXTS];
	uint32_t contexts; /* ever used */
	_Atomic uint32_t captures;
	struct stream *spare; /* array of records not yet used, */
	uint32_t spares;      /* this many */
	struct stream *free;  /* records out of use, by .next_free */
	struct stream_chunk *chunks;
};

struct stream_chunk { /* records are made in arrays, which stay */
	struct stream_chunk *next;
	struct stream stream[1000];
};

/* Per thread, at most 64 bytes of initial-exec TLS together. */
struct thread {
	struct stream *last;   /* never NULL */
	struct device *device; /* whose line and gate follow */
	struct page_line *line;
	const _Atomic uint32_t *gate;
	struct context *context; /* current one, NULL: ask the driver */
	uint64_t sync_ns;        /* when it last returned from a synchronisation; 0: no matter */
	uint32_t countdown;      /* submissions until the next marker */
	uint32_t index; /* line + 1; 0: none yet; THREAD_SHARED: the last line, with others */
	uint32_t pid;   /* that this was set up in: a fork copies TLS */
	uint32_t registered_exit;
};
_Static_assert(sizeof(struct thread) <= 64, "more would not fit the loader's reserve");

#define THREAD_SHARED PAGE_LINES              /* index of the shared line */
#define THREAD_NO_DEVICE ((struct device *)1) /* differs from what any record has */

extern __thread struct thread hook_thread __attribute__((tls_model("initial-exec")));
extern struct hook *_Atomic hook_state;
extern struct stream hook_no_stream; /* matches no handle and no device */
extern struct stream_map *_Atomic hook_streams __attribute__((visibility("hidden")));

static inline uint64_t stream_hash(uintptr_t handle)
{
	return (uint64_t)handle * UINT64_C(0x9e3779b97f4a7c15) >> 40;
}

/* The state; made on first use. NULL only when the kernel has no memory for it. */
struct hook *hook_get(void);

static inline struct hook *hook_registered(void)
{
	struct hook *h = atomic_load_explicit(&hook_state, memory_order_acquire);

	return h && atomic_load_explicit(&h->mode, memory_order_acquire) == HOOK_REGISTERED ? h
											    : NULL;
}

/* Anonymous zeroed memory that a fork wipes; NULL when out of memory. Not accounted by malloc. */
void *hook_map(size_t n);

/* One line on stderr, "divvy: ...", for what the program's user must know; wire/words.h too. */
void hook_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same behind "no GPU for this program: ". */
void hook_complain_no_gpu(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, when this process will have no GPU any more. */
void hook_complain_at_end(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- entry.c: every export's slot ---- */

/* REAL(cuInit)(0): the driver's function, or one that answers that there is none. */
#define REAL(name) (hook_slot_##name)
#define CU(name, since, variant, action, stream, params, args, ...) \
	extern PFN_##name *hook_slot_##name __attribute__((visibility("hidden")));
#include "cuda/cuda.def"
#undef CU

/*
 * A file makes exports of all lines of cuda.def with one action: it says `#define DO_SYNC ~, SYNCS`
 * of each such action and includes the list with CU defined as HOOK_DO. SYNCS then has the
 * parameters (name, variant, stream, params, args).
 */
#define HOOK_DO(name, since, variant, action, stream, params, args, ...) \
	HOOK_PICK(DO_##action, HOOK_NOTHING)(name, variant, stream, params, args)
/* HOOK_PICK(X, y): what X says after a tilde and a comma if it is such a macro, else y. */
#define HOOK_PICK(...) HOOK_PICK_SECOND(__VA_ARGS__, ~)
#define HOOK_PICK_SECOND(first, second, ...) second
#define HOOK_NOTHING(...)
#define HOOK_PER_THREAD_NONE false
#define HOOK_PER_THREAD_PTDS true
#define HOOK_PER_THREAD_PTSZ true

/* The handle that `stream` means in a form where the default stream is, or is not, the thread's. */
static inline __attribute__((always_inline)) uintptr_t stream_handle(
	bool is_per_thread, CUstream stream)
{
	return is_per_thread && !stream ? STREAM_PER_THREAD : (uintptr_t)stream;
}

/* The driver's function of that name or NULL; opens the driver if need be. */
void *hook_driver_symbol(const char *name);
bool hook_driver_present(void);
/* The driver's handle for dlsym, NULL without a driver. */
void *hook_driver(void);

/* ---- session.c: the daemon ---- */

/* Registers once; returns the mode. Lock: init. */
enum hook_mode session_open(struct hook *h);
/* Starts the helper thread once there are contexts. */
void session_helper_start(struct hook *h);
void session_note(struct hook *h, enum msg_type type, struct device *d);
/*
 * Asks and waits: 0, -errno as answered; -ENOTCONN when the daemon goes away. ret_bytes may be
 * NULL.
 */
int session_ask(
	struct hook *h, enum msg_type type, struct device *d, uint64_t bytes, uint64_t *ret_bytes);
/*
 * After -ENOTCONN: is another daemon to be expected, so that asking again is right? Sleeps a
 * little.
 */
bool session_comes_back(struct hook *h);
void session_tell(struct hook *h, enum msg_type type, struct device *d, uint64_t bytes);
/*
 * MEM_SHARE or MEM_UNSHARE. With `waits` as session_ask; else 0 when it was sent. -ENOTCONN too for
 * a daemon that does not count shared memory.
 */
int session_share(struct hook *h, enum msg_type type, struct device *d, uint64_t id, uint64_t bytes,
	uint32_t flags, bool waits);

/* ---- thread.c ---- */

/* This thread's TLS, set up for this process; NULL when the process is not registered. */
struct thread *thread_get(void);
/* Makes line and gate those of that device. */
void thread_use(struct thread *t, struct device *d);
/* After what may have changed the current context. */
void thread_forget_context(void);

/* ---- stream.c: streams and contexts ---- */

/* The record of a handle as a program gives it, made if need be; NULL: not one of ours. */
struct stream *stream_resolve(struct thread *t, uintptr_t handle);
struct stream *stream_find(uintptr_t handle);
void stream_created(CUstream handle, unsigned int flags);
/* Before the driver destroys it. */
void stream_destroying(CUstream handle);
/* Runs fn on every living record of the device. Takes the stream lock. */
void stream_each(struct device *d, void (*fn)(struct stream *, void *), void *arg);
/* Few enough to look at, and everything submitted to them before has a marker behind it? */
bool stream_few_clean(struct device *d);

/* The record of a context, made if need be (then current or pushed for a moment); NULL: none. */
struct context *context_find(CUcontext handle);
struct context *context_current(struct thread *t);
/* Without a record being made. */
struct context *context_lookup(CUcontext handle);
/* A context was created by a counted call: `pages` were charged before. */
void context_created(CUcontext handle, CUdevice ordinal, bool primary, uint64_t pages);
void context_destroying(CUcontext handle);
struct device *device_of(CUdevice ordinal);

/* ---- gate.c ---- */

struct pass {
	struct thread *thread;
	struct stream *stream; /* NULL: nothing is counted */
	uint64_t key;          /* equal for submissions that take as long, more or less */
	bool shared;           /* line is shared by several threads */
};

/*
 * Waits for the gate and the window; afterwards the submission may go to the driver. False: it
 * never may, since the tenant has been removed.
 */
bool gate_enter(struct pass *pass, uintptr_t handle, uint64_t key);
void gate_leave(struct pass *pass);
/* The thread's countdown has run out after a submission to its last stream; returns r. */
CUresult gate_due(CUresult r);
/* After a call that waited for the device. */
void gate_synced(void);
/* As that, but for somebody waiting only: after a copy that the host waited for. Returns r. */
CUresult gate_copied(CUresult r);

/* ---- marker.c ---- */

/* Registers up.done with the current context. */
void marker_context(struct context *c);
void marker_context_gone(struct context *c);
/* Marks one stream; `count` submissions. Returns whether it was covered. Marker lock held. */
bool marker_issue(struct device *d, struct stream *s, uint32_t count, uint64_t key, uint64_t now);
/*
 * A marker behind this thread's latest submission, unless somebody else is at it. 0: key unknown.
 */
void marker_due(struct thread *t, struct stream *s, uint64_t key);
/* Looks for completions, unless somebody else does: a synchronisation has returned. */
void marker_look(struct device *d);
/* Marks every dirty stream of the device. `t` is the calling thread's TLS, NULL for the helper. */
void marker_flush(struct device *d, struct thread *t);
/* Nothing unmarked and nothing under way? */
bool marker_drained(struct device *d);
/* Waits while the predicted queue is above the window, or until the gate closes. */
void marker_wait_window(struct device *d);
/* Had the turn better end before a submission of that kind? Said once a turn. */
bool marker_overruns(struct device *d, uint64_t key);
/* The stream has ended: its slot can be used again once what is under way is done. Lock held. */
void marker_slot_release(struct device *d, struct stream *s);
/* The context of these slots is gone: what was under way counts as done. Lock held. */
void marker_context_dead(struct device *d, const uint32_t *slots, uint32_t n);
uint64_t marker_submitted(const struct device *d);

/* ---- capture.c ---- */

/*
 * Does the driver say that this stream captures, or that it must not be asked because another does?
 */
bool capture_active(uintptr_t handle);

#endif
