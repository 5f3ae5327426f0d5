/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal header of the simulated libcuda.so.1.
 *
 * One lock (cu_lock) protects all client state. Each entry point takes it with CU_ENTER(), and
 * blocking waits release it (cu_wait). A function simgpu_NAME is the whole entry point NAME after
 * the checks that its line of cuda.def states; gen-entries.py makes these checks and the
 * prototypes.
 *
 * Handles for programs are numbers, not addresses: kind, generation and slot (cu-handle.c). So the
 * library always recognises a wrong or destroyed handle.
 *
 * Every operation of a stream first becomes a struct cu_op, made by a cu_build_* function. The
 * cu_op then goes into the ring, or becomes a node of a captured graph, or stays in a graph.
 *
 * Functions return a CUresult unless stated otherwise, and callers hold the lock.
 */
#ifndef SIMGPU_CU_H
#define SIMGPU_CU_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "cuda/types.h"
#include "cuda/proto.h"
#include "simgpu/cu-entries.h"
#include "simgpu/cu-image.h"
#include "simgpu/simgpu-arch.h"
#include "simgpu/simgpu-link.h"
#include "simgpu/simgpu-proto.h"

#define CU_EXPORT __attribute__((visibility("default")))

/* The driver version that the simulation reports. */
#define CU_DRIVER_VERSION 13000

enum {
	CU_MAX_DEPTH = 64, /* most contexts on the context stack of a thread */
	/*
	 * Submissions that a stream holds before a launch blocks. Users have measured about 1,020
	 * on hardware.
	 */
	CU_STREAM_DEPTH = 1024,
	CU_INLINE_COPY_MAX = SIMGPU_MAX_INLINE_BYTES,
	CU_SPIN_NS = 20000, /* waits spin this long before they sleep */
	CU_PITCH_ALIGN = 512,
	CU_TEXTURE_ALIGN = 512,
	CU_SMALL_ALIGN = 512, /* alignment of arrays inside a mipmap */
};

/* ---- handles ---- */

enum cu_kind {
	CU_KIND_NONE,
	CU_KIND_CONTEXT,
	CU_KIND_STREAM,
	CU_KIND_EVENT,
	CU_KIND_MODULE,
	CU_KIND_FUNCTION,
	CU_KIND_LIBRARY,
	CU_KIND_KERNEL,
	CU_KIND_LINK,
	CU_KIND_GRAPH,
	CU_KIND_NODE,
	CU_KIND_EXEC,
	CU_KIND_POOL,
	CU_KIND_ARRAY,
	CU_KIND_MIPMAP,
	CU_KIND_VMM,
	CU_KIND_TEXTURE,
	CU_KIND_SURFACE,
	CU_KIND_USER_OBJECT,
	CU_KIND_COUNT,
};

/* Makes a handle for the object; NULL: out of memory. */
void *cu_handle_new(enum cu_kind kind, void *object);
/* Returns the object of a live handle of that kind, else NULL. Accepts any value. */
void *cu_handle_get(const void *handle, enum cu_kind kind);
void cu_handle_free(const void *handle);

/* ---- lists ---- */

struct cu_list {
	struct cu_list *next, *prev;
};

void cu_list_init(struct cu_list *list);
void cu_list_add(struct cu_list *list, struct cu_list *item);
void cu_list_remove(struct cu_list *item);
#define CU_LIST_EACH(type, member, list, it) \
	for (type *it = CONTAINER_OF((list)->next, type, member), *it##_next_; \
		&it->member != (list) && \
		(it##_next_ = CONTAINER_OF(it->member.next, type, member), true); \
		it = it##_next_)

/* ---- memory ranges ---- */

enum cu_mem_kind {
	CU_MEM_DEVICE,
	CU_MEM_MANAGED,
	CU_MEM_HOST,       /* cuMemHostAlloc: the library's memory */
	CU_MEM_REGISTERED, /* cuMemHostRegister: the program's memory */
	CU_MEM_ASYNC,      /* from a pool */
	CU_MEM_IPC,        /* opened from another process */
	CU_MEM_RESERVED,   /* address range without a mapping */
	CU_MEM_MAPPED,     /* VMM mapping inside a reserved range */
	CU_MEM_GRAPH,      /* from an allocation node of a graph */
	CU_MEM_GLOBAL,     /* module variables */
	CU_MEM_ARRAY,      /* not addressable by programs */
};

struct cu_context;
struct cu_pool;
struct cu_vmm;
struct cu_capture;
struct cu_graph;
struct cu_node;

/* One allocation, in the tree of its class, ordered by base. */
struct cu_range {
	struct cu_range *child[2];
	uint32_t priority;
	enum cu_mem_kind kind;
	uint64_t base, size;
	uint64_t buffer_id;
	/* NULL: no context owns the memory (pools, VMM), or the context was destroyed */
	struct cu_context *context;
	int device;
	unsigned flags; /* host flags, managed flags */
	bool sync_memops;
	bool freed;    /* GRAPH, ASYNC: a free was submitted to a stream */
	bool in_graph; /* GRAPH: the addresses have memory */
	struct cu_pool *pool;
	struct cu_vmm *vmm;
	uint64_t vmm_offset;
	uint8_t access[SIMGPU_MAX_DEVICES]; /* MAPPED: CUmemAccess_flags */
	uint64_t vmm_id;                    /* GRAPH: id of the memory */
	unsigned opens;   /* IPC: number of openings; GRAPH: 1 while allocated, else 0 */
	bool read_mostly; /* MANAGED: advice, and the last prefetch */
	bool has_preferred, has_prefetched;
	CUmemLocation preferred, prefetched;
	uint32_t accessed_by; /* one bit for each engine device; bit 31: the host */
};

struct cu_tree {
	struct cu_range *root;
	size_t n;
};

struct cu_range *cu_range_add(struct cu_tree *tree, uint64_t base, uint64_t size);
/* The range that contains the address, or NULL. */
struct cu_range *cu_range_find(const struct cu_tree *tree, uint64_t address);
/* The first range that begins at or after the address, or NULL. */
struct cu_range *cu_range_next(const struct cu_tree *tree, uint64_t address);
/* Removes and frees the range. */
void cu_range_remove(struct cu_tree *tree, struct cu_range *range);

/* ---- operations ---- */

/* One operation of a stream: a ring entry and its trailing bytes. */
struct cu_op {
	struct simgpu_entry entry;
	uint32_t trailing;
	const uint8_t *bytes; /* trailing bytes; may point to .small */
	uint8_t small[256];
	bool waits; /* the call returns only when the operation is complete (pageable copies) */
};

/* ---- objects ---- */

struct cu_context {
	CUcontext handle;
	uint64_t id;
	int device; /* the engine's number */
	uint32_t slot;
	bool primary;
	unsigned flags;
	unsigned api_version;
	uint32_t current; /* number of entries in threads' context stacks that name this context */
	struct cu_list streams, events, modules, arrays;
	struct cu_stream *legacy; /* made on first use */
	uint64_t limits[16];
	CUfunc_cache cache_config;
	CUsharedconfig shared_config;
	uint32_t peers;    /* one bit for each device: enabled peer access */
	bool prints;       /* kernels of the context's modules may print */
	unsigned captures; /* number of the context's streams that capture */
};

struct cu_stream {
	CUstream handle;
	struct cu_list link;
	struct cu_context *context;
	uint32_t slot;
	unsigned flags; /* CUstream_flags */
	int priority;
	bool legacy, per_thread;
	uint64_t seq;    /* last submitted operation */
	uint64_t waited; /* last operation known to be complete */
	uint64_t id;
	CUsynchronizationPolicy sync_policy;
	struct cu_capture *capture;
	struct cu_node **deps; /* nodes on which the next captured node depends */
	size_t n_deps;
};

struct cu_event {
	CUevent handle;
	struct cu_list link;
	struct cu_context *context;
	uint32_t slot;
	unsigned flags;
	uint64_t records; /* number of records by this process */
	bool recorded;    /* recorded at least once, or imported */
	bool by_graph;    /* a graph made the latest record */
	/* the value of simgpu_event.graph_records that completes the latest record */
	uint64_t graph_target;
	struct cu_stream *stream; /* stream of the latest record; NULL: destroyed since */
	uint64_t seq;             /* operation number of the latest record in that stream */
	bool imported, exported;
	struct cu_capture *capture; /* the capture in progress that recorded the event, or NULL */
	struct cu_node **deps;
	size_t n_deps;
};

struct cu_function {
	CUfunction handle;
	struct cu_module *module;
	const struct image_kernel *kernel;
	uint32_t sim_kernel;
	uint32_t name_id;
	bool is_reported;   /* that its results are not computed */
	int attributes[16]; /* settable CUfunction_attribute values; -1: as built */
	CUfunc_cache cache_config;
};

struct cu_module {
	CUmodule handle;
	struct cu_list link;
	struct cu_context *context;
	struct cu_library *library; /* the library that loaded this module, or NULL */
	struct cu_image *image;
	uint64_t engine_id;
	bool has_code;                 /* the engine computes the kernels */
	uint64_t globals;              /* address of the block of variables; 0: none */
	uint64_t *addresses;           /* of each variable */
	struct cu_function *functions; /* one per kernel of the image */
};

/* A parsed image, shared by the modules made from it. */
struct cu_image {
	unsigned refs;
	struct image image;
	size_t bytes;
};

struct cu_library {
	CUlibrary handle;
	struct cu_list link;
	struct cu_image *image; /* of the first device that has code; it numbers the kernels */
	struct cu_image *images[SIMGPU_MAX_DEVICES]; /* by engine device; NULL: no code for it */
	struct cu_kernel *kernels;
};

struct cu_kernel {
	CUkernel handle;
	struct cu_library *library;
	uint32_t index;
	int attributes[SIMGPU_MAX_DEVICES][16];
};

struct cu_pool {
	CUmemoryPool handle;
	uint32_t engine_id;
	int device;
	struct cu_list link;
	bool is_default;
	bool freed;         /* a free has run or will run after the last trim */
	uint64_t threshold; /* bytes that the pool may keep at a synchronisation */
	size_t live;
	uint64_t reuse[3];
	uint8_t access[SIMGPU_MAX_DEVICES];
};

struct cu_array {
	CUarray handle;
	struct cu_list link;
	struct cu_context *context;
	CUDA_ARRAY3D_DESCRIPTOR desc;
	uint64_t base;
	uint64_t bytes;
	uint64_t pitch;           /* bytes of a row */
	uint64_t slice;           /* bytes of a plane */
	unsigned element;         /* bytes */
	struct cu_mipmap *mipmap; /* the mipmap that contains the array, or NULL */
};

/* ---- process and thread ---- */

struct cu_thread {
	CUcontext stack[CU_MAX_DEPTH];
	unsigned depth;
	unsigned per_thread; /* nonzero inside a _ptsz or _ptds entry point */
	CUstreamCaptureMode capture_mode;
	uint64_t serial;         /* number of the thread, for per-thread streams and captures */
	unsigned in_callback;    /* nonzero while running a host function */
	uint64_t capture_thread; /* names the thread that began a capture */
};

struct cu_device {
	int engine; /* the engine's number */
	struct cu_context *primary;
	unsigned retained;
	unsigned primary_flags;
	struct cu_pool *default_pool, *pool;
	uint64_t graph_used, graph_used_high, graph_reserved, graph_reserved_high;
};

struct cu_process {
	pthread_mutex_t lock;
	bool initialised;
	bool forked;      /* child of a process that had initialised */
	struct link link; /* the connection to the engine */
	const struct simgpu_state *state;
	int n_devices; /* number of visible devices */
	struct cu_device devices[SIMGPU_MAX_DEVICES];
	struct cu_context *contexts[SIMGPU_MAX_CONTEXTS];
	struct cu_tree device_memory;
	struct cu_tree host_memory;
	struct cu_tree reserved; /* VMM address ranges */
	struct cu_list libraries;
	struct cu_list pools;
	struct cu_list captures;
	uint64_t next_id;
	uint64_t unsafe_captures; /* number of current captures in global mode */
};

extern struct cu_process cu;
extern _Thread_local struct cu_thread cu_thread;

void cu_unlock(const int *locked);
/* Takes the lock and checks that the process is initialised and no forked child. */
CUresult cu_enter(int *ret_locked);

/* At the beginning of an entry point: takes the lock until the function returns. */
#define CU_ENTER() \
	_cleanup_(cu_unlock) int cu_locked_ = 0; \
	do { \
		CUresult cu_r_ = cu_enter(&cu_locked_); \
		if (cu_r_ != CUDA_SUCCESS) \
			return cu_r_; \
	} while (0)

/* For an entry point that needs a live current context without an error. */
#define CU_ENTER_CONTEXT(ctx) \
	struct cu_context *ctx; \
	CU_ENTER(); \
	CU_TRY(cu_current(&ctx))

#define CU_TRY(expression) \
	do { \
		CUresult cu_try_ = (expression); \
		if (cu_try_ != CUDA_SUCCESS) \
			return cu_try_; \
	} while (0)

#define CU_CHECK(condition, code) \
	do { \
		if (!(condition)) \
			return code; \
	} while (0)

/*
 * Finds the calling thread's context. Errors: INVALID_CONTEXT, CONTEXT_IS_DESTROYED, or the
 * context's sticky error.
 */
CUresult cu_current(struct cu_context **ret_context);
/* Like cu_current(), but ignores the sticky error, for calls that work in a broken context. */
CUresult cu_current_any(struct cu_context **ret_context);
/* Returns CUDA_SUCCESS or the context's sticky error. */
CUresult cu_context_error(const struct cu_context *context);
struct cu_context *cu_context_get(CUcontext handle);
/* Finds a device by the program's number. INVALID_DEVICE. */
CUresult cu_device_get(CUdevice device, struct cu_device **ret_device);
/* Returns the program's number of an engine device; -1: the device is not visible. */
int cu_device_number(int engine);
const struct simgpu_state_device *cu_device_state(int engine);
CUresult cu_device_primary(struct cu_device *device, struct cu_context **ret_context);
CUresult cu_context_create(
	int engine, unsigned flags, bool primary, struct cu_context **ret_context);
CUresult cu_context_destroy(struct cu_context *context);
uint64_t cu_sleep_begin(void);

/* ---- calls to the engine ---- */

/* Sends a request and receives the reply. Returns its status, or UNKNOWN if the engine is lost. */
CUresult cu_call(struct simgpu_request *request, struct simgpu_reply *ret_reply);
CUresult cu_call_fd(
	struct simgpu_request *request, int fd, struct simgpu_reply *ret_reply, int *ret_fd);

/* ---- streams, submission, waiting ---- */

/* Resolves 0, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD, and checks the handle. */
CUresult cu_stream_get(CUstream handle, struct cu_context *context, struct cu_stream **ret);
/* Like cu_stream_get(), but INVALID_HANDLE for a stream of another context (launches, events). */
CUresult cu_stream_get_own(CUstream handle, struct cu_context *context, struct cu_stream **ret);
CUresult cu_stream_new(struct cu_context *context, unsigned flags, int priority, bool legacy,
	struct cu_stream **ret);
void cu_stream_free(struct cu_stream *stream);
/* Puts an operation into the ring. Blocks while the stream has CU_STREAM_DEPTH operations. */
CUresult cu_submit(struct cu_stream *stream, struct cu_op *op);
/* Puts the operation into the ring, or into the graph if the stream captures. */
CUresult cu_stream_do(struct cu_stream *stream, struct cu_op *op);
/* Reserves room in the ring for an entry with that many trailing bytes, and sets kind and flags. */
struct simgpu_entry *cu_ring_begin(uint32_t kind, uint32_t trailing);
void cu_ring_commit(struct simgpu_entry *entry, uint32_t trailing, const struct cu_stream *stream);
/* Waits without the lock until the stream has completed seq. Returns the context's error. */
CUresult cu_wait_stream(struct cu_stream *stream, uint64_t seq);
CUresult cu_wait_event(struct cu_event *event);
CUresult cu_wait_context(struct cu_context *context);
CUresult cu_event_query(struct cu_event *event);
/* Asks the engine to publish all completions up to now. */
void cu_sync_engine(void);
bool cu_stream_done(struct cu_stream *stream, uint64_t seq);
struct cu_event *cu_event_get(CUevent handle);
void cu_event_free(struct cu_event *event);
CUresult cu_event_wait_on(struct cu_stream *stream, struct cu_event *event);
CUresult cu_event_record_on(struct cu_stream *stream, struct cu_event *event);

/* ---- host functions ---- */

typedef void (*cu_host_fn)(void *user_data);

struct cu_host {
	CUhostFn fn;
	CUstreamCallback callback; /* cuStreamAddCallback's form, with stream and status */
	CUstream stream;
	void *user_data;
	bool keep;        /* a graph owns this object, so it is not freed after the call */
	unsigned running; /* number of runs given to the engine and not finished */
};

/*
 * Call cu_host_launched() for each launch of a graph with the host function. cu_host_drop() ends
 * the graph's ownership, and the object is freed after its last run.
 */
void cu_host_launched(struct cu_host *host);
void cu_host_drop(struct cu_host *host);
CUresult cu_host_start(void); /* starts the thread if necessary */
CUresult cu_build_host(struct cu_context *context, struct cu_host *host, struct cu_op *op);

/* ---- builders ---- */

struct cu_launch {
	unsigned grid[3], block[3];
	unsigned shared_bytes;
	void **params, **extra;
	bool cooperative;
	unsigned cluster[3];
};

CUresult cu_function_get(CUfunction handle, struct cu_context *context, struct cu_function **ret);
/*
 * Builds a kernel's operation. The parameters are in op->small, or in a buffer from malloc() that
 * *ret_owned hands to the caller if they do not fit.
 */
CUresult cu_build_kernel(struct cu_context *context, struct cu_function *function,
	const struct cu_launch *launch, struct cu_op *op, uint8_t **ret_owned);
/* Copies the program's kernel parameters to a buffer of kernel->param_bytes bytes. */
CUresult cu_take_params(const struct image_kernel *kernel, const struct cu_launch *l, uint8_t *to,
	uint32_t *ret_bytes);
CUresult cu_build_copy(struct cu_context *context, const CUDA_MEMCPY3D *copy, struct cu_op *op);
CUresult cu_build_memset(
	struct cu_context *context, const CUDA_MEMSET_NODE_PARAMS *params, struct cu_op *op);
CUresult cu_build_value(
	struct cu_context *context, const CUstreamBatchMemOpParams *params, struct cu_op *op);
void cu_op_init(struct cu_op *op, uint32_t kind, const struct cu_context *context);

/* Checks that the device may use [address, +bytes). Host memory counts as usable. */
CUresult cu_check_device_range(uint64_t address, uint64_t bytes);
static inline bool cu_is_device_address(uint64_t address)
{
	return address - SIMGPU_VA_BASE < SIMGPU_VA_SIZE;
}

/* ---- memory ---- */

/*
 * Memory that host and device share by address. cu_memory_free_managed() does nothing if the memory
 * belongs to another context, or is gone.
 */
CUresult cu_memory_alloc_managed(
	struct cu_context *context, uint64_t bytes, unsigned int flags, uint64_t *ret_address);
void cu_memory_free_managed(struct cu_context *context, uint64_t address);
CUresult cu_memory_alloc(struct cu_context *context, enum simgpu_mem_kind kind, uint64_t bytes,
	uint64_t *ret_address);
void cu_memory_forget_context(struct cu_context *context);
void cu_pool_free(struct cu_pool *pool);
/*
 * Gives back memory that pools hold above their thresholds, as documented for a synchronisation of
 * a stream, event or context. @all: gives back all unused memory, because an allocation needs it.
 * Returns whether any memory was given back.
 */
bool cu_pools_trim(bool all);
CUresult cu_pool_default(struct cu_device *device, struct cu_pool **ret_pool);
CUresult cu_free_async(struct cu_stream *stream, struct cu_range *range);
void cu_array_free(struct cu_array *array);
const struct simgpu_arch *cu_arch_of(const struct simgpu_state_device *d);
unsigned cu_device_sm(int engine); /* 90 for compute capability 9.0 */
CUresult cu_image_result(enum image_status status);
/*
 * Reads a file that an application names, with zeros behind the @ret_n bytes. The caller frees
 * *ret_bytes.
 */
CUresult cu_image_read_file(const char *path, char **ret_bytes, size_t *ret_n);

/* The buffers that a program gives for messages of the JIT compiler. */
struct cu_jit {
	char *info, *error; /* may be NULL */
	size_t info_bytes, error_bytes;
	/* Elements of the program's array of values, or NULL: for the number of bytes written. */
	void **ret_info_bytes, **ret_error_bytes;
};

/* @ret may be NULL: then the options are only checked. */
CUresult cu_jit_take_options(
	unsigned n, const CUjit_option *options, void **values, struct cu_jit *ret);
/* Shows the program what was wrong with its image, or that nothing was. @jit may be NULL. */
void cu_jit_write_log(const struct cu_jit *jit, const struct image_log *log);

/* Has the engine translate the module's PTX. The module's variables have addresses already. */
CUresult cu_code_send(struct cu_module *module, const struct cu_jit *jit);
/* Says once that a kernel without PTX takes time but computes nothing. */
void cu_code_report(struct cu_function *function);
/* Writes to stdout what kernels of the context have printed. Call when its work is complete. */
void cu_code_print(struct cu_context *context);

void cu_module_free(struct cu_module *module);
CUresult cu_module_new(struct cu_context *context, struct cu_image *image,
	struct cu_library *library, const struct cu_jit *jit, struct cu_module **ret_module);
/* Writes initial data to the device at once. */
CUresult cu_write_memory(struct cu_context *context, uint64_t address, const void *bytes, size_t n);
unsigned cu_array_element_bytes(CUarray_format format, unsigned channels);

/* ---- capture ---- */

/* Returns the error for a call that may block or act globally, if a current capture forbids it. */
CUresult cu_capture_check_unsafe(void);
/* For a capturing stream: makes the operation a node of the graph. */
CUresult cu_capture_op(struct cu_stream *stream, struct cu_op *op);
CUresult cu_capture_node(struct cu_stream *stream, struct cu_node *node);
CUresult cu_capture_launch(
	struct cu_stream *stream, CUfunction function, const struct cu_launch *launch);
CUresult cu_capture_event_record(struct cu_stream *stream, struct cu_event *event, unsigned flags);
CUresult cu_capture_event_wait(struct cu_stream *stream, struct cu_event *event, unsigned flags);
CUresult cu_capture_refuse(struct cu_stream *stream, CUresult code);
/*
 * For a call that works in the legacy stream: if blocking streams of the context capture,
 * invalidates these captures and returns CUDA_ERROR_STREAM_CAPTURE_IMPLICIT.
 */
CUresult cu_capture_check_legacy(struct cu_context *context);
void cu_capture_forget_stream(struct cu_stream *stream);

#endif
