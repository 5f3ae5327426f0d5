/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal header of divvy-remote-worker: one process for each program, which makes the program's
 * calls on the real driver. The worker is an ordinary tenant: the interception library is between
 * it and the driver. Each lane has a thread, and one thread reads the answers of the reverse lane.
 * The main thread watches the socket: when the program is lost, the process ends, and with it
 * everything that it held.
 *
 * Nothing that arrives is trusted. Handles are looked up, device addresses must lie in memory that
 * this worker allocated, and counts are bounded by the size of the request. A request is copied
 * before it is examined; only data for the device is read in place.
 */
#ifndef REMOTE_WORKER_H
#define REMOTE_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cuda/proto.h"
#include "remote/kinds.h"
#include "remote/launch.h"
#include "remote/ranges.h"
#include "remote/ring.h"

struct driver {
#define CU(abi, since, variant, action, stream, params, args, ...) PFN_##abi *abi;
#include "cuda/cuda.def"
#undef CU
};
/* Functions that the driver lacks return CUDA_ERROR_NOT_SUPPORTED. */
extern struct driver driver;

/* ---- events behind work in streams (worker-behind.c) ---- */

struct behind {
	CUevent event; /* NULL: no event, or the work is complete */
	CUcontext context;
	uint64_t ends; /* number of contexts that had ended before the event was made */
};

/*
 * Returns an event behind all work that the stream has now, in the stream's context. Without an
 * event (b.event NULL) the state is unknown. Do not call this function for a stream that may be
 * captured. The request must name the stream, or the caller must prevent its end.
 */
struct behind behind_stream(CUstream stream);
/*
 * Whether the work is complete. Also false while a stream or context is being destroyed. After
 * true, the caller need not free anything.
 */
bool behind_is_over(struct behind *b);
void behind_forget(struct behind *b);

/*
 * Call end_begin() before the driver destroys streams or contexts, and end_done() after the names
 * of their objects have been removed, too.
 */
void end_begin(void);
void end_done(void);
/*
 * Between look_begin() and look_done() no stream or context is destroyed. False: one is being
 * destroyed now.
 */
bool look_begin(void);
void look_done(void);
/* Number of contexts that have ended. */
uint64_t ends_so_far(void);

/* The worker calls these in place of the driver's functions, and so keeps track of contexts. */
CUresult context_destroy(CUcontext context);
CUresult context_detach(CUcontext context);
CUresult primary_retain(CUcontext *ret_context, CUdevice device);
CUresult primary_release(CUdevice device);
CUresult primary_reset(CUdevice device);

/*
 * The unsettled calls of a lane. A mark is a set of events behind the work of the streams that the
 * lane has used since the mark before.
 */
enum { MARK_EACH = 128, MARK_STREAMS = 4, MARKS = 16 };
struct settling {
	uint64_t posted, marked, settled; /* numbers of calls of the lane */
	uint64_t stream[MARK_STREAMS];    /* handles used since the last mark */
	unsigned n_streams;
	uint64_t ends; /* number of ended contexts when stream[0] was noted */
	struct mark {
		uint64_t at;
		struct behind behind[MARK_STREAMS];
		unsigned n;
	} mark[MARKS];
	unsigned first, n;
};

/*
 * The request that a lane serves now. Memory that the functions below return for a request is valid
 * until the request's answer is written.
 */
struct serve {
	unsigned lane;
	struct ring up, down;
	uint8_t *request, *scratch; /* REMOTE_FRAME_MAX each */
	const uint8_t *in, *in_end; /* unread part of the request */
	const uint8_t *data;        /* position of `in` in the ring itself; only for bulk data */
	uint8_t *room, *room_end;   /* unused part of scratch */
	uint8_t *answer;            /* REMOTE_FRAME_MAX bytes: head and fields */
	size_t n;                   /* bytes of the answer so far, including the head */
	bool answers;               /* the program waits for the answer */
	bool has_answered;          /* the answer is already in the ring */
	bool tells_before;          /* the answer must report earlier errors */
	CUresult error;             /* a fault found in the request */
	uint64_t stream;            /* a handle that the request names */
	bool has_stream;            /* the request names a stream */
	struct settling settling;
	uint64_t given[KINDS]; /* for each kind, the first handle in the request */
	uint64_t since;        /* handles.clock at the last look-up of a handle */
	uint8_t *blob;         /* pieces of an image */
	size_t blob_bytes, blob_room;
	struct copy_parts { /* a single copy whose data comes in several frames */
		struct stage *stage;
		size_t bytes, at;
	} in_parts, out_parts;
};

typedef CUresult (*serve_fn)(struct serve *s);
extern const serve_fn serve_table[REMOTE_OPS];
/* Actions around a call, as bits. remote.def states the actions of each function. */
enum serve_trait {
	SERVE_ENDS_STREAMS = 1,     /* end_begin() before the call and end_done() after it */
	SERVE_ENDS_WATCHES = 2,     /* watches_end() before the call */
	SERVE_CHANGES_GRAPHS = 4,   /* graphs_lock() around the call */
	SERVE_SETTLES_ALL = 8,      /* addresses_settle(true) after the call */
	SERVE_SETTLES_MODULES = 16, /* addresses_settle(false) after the call */
};
extern const uint8_t serve_traits[REMOTE_OPS];
#define REMOTE(name, travel, layout) CUresult serve_##name(struct serve *s);
#include "cuda/remote.def"
#undef REMOTE

#define FIELD(n) (((size_t)(n) + 7) & ~(size_t)7)
#define CALL(s, function) driver.function
#define BLOB_MAX (2ull << 30)  /* one image */
#define BLOBS_MAX (4ull << 30) /* images in transit of all threads */

/* ---- the request's fields ---- */

/*
 * Returns the next `n` bytes of the request in place. NULL: fewer bytes are left, and s->error is
 * set.
 */
const void *take(struct serve *s, size_t n);
uint64_t take_u64(struct serve *s);
/*
 * Reads the next field, a device address. The address must be 0 or lie in memory that this worker
 * has allocated, or else s->error is set.
 */
CUdeviceptr take_address(struct serve *s);
const char *take_string(struct serve *s);
void *take_array(struct serve *s, uint64_t n, size_t size);
void *give_array(struct serve *s, uint64_t n, size_t size);
#define TAKE_ARRAY(s, type, n) ((type *)take_array(s, (uint64_t)(n), sizeof(type)))
#define GIVE_ARRAY(s, type, n) ((type *)give_array(s, (uint64_t)(n), sizeof(type)))
#define TAKE_VALUE(s, type) \
	({ \
		type value_; \
		const void *p_ = take(s, sizeof(type)); \
		memset(&value_, 0, sizeof(value_)); \
		if (p_) \
			memcpy(&value_, p_, sizeof(value_)); \
		value_; \
	})

/* ---- the answer's fields ---- */
void give(struct serve *s, const void *p, size_t n);
void give_string(struct serve *s, const char *text);

/* ---- handles and addresses ---- */

/*
 * Returns the driver's object for a handle of the program; returns 0 and numbered streams
 * (numbered.h) unchanged. Sets s->error for an unknown handle.
 */
uint64_t handle_real(struct serve *s, enum kind kind, uint64_t handle);
/*
 * Returns the program's handle of the driver's object `real`, or a new handle if the program has
 * none. If the request names the object's parent (a node's graph, a kernel's library), the handle
 * ends with the parent.
 */
uint64_t handle_name(struct serve *s, enum kind kind, uint64_t real);
bool handles_real_(struct serve *s, enum kind kind, void *handles, uint64_t n);
#define handles_real(s, kind, p, n) (!(p) || handles_real_(s, kind, p, n))
void handles_named(struct serve *s, enum kind kind, void *handles, uint64_t n);
void handle_put(struct serve *s, enum kind kind, uint64_t handle, uint64_t real);
/* Returns the program's handle of an object to which the program got another reference. */
uint64_t handle_again(struct serve *s, enum kind kind, uint64_t real);
/*
 * Drops one of the program's references to the object. With the last reference the object's handle
 * becomes invalid, and so do the handles of all objects that came from the object.
 */
void handle_destroyed(struct serve *s, enum kind kind, uint64_t handle);

size_t handles_count(enum kind kind);
/*
 * The driver's handles of all objects of a kind; the caller frees the array. NULL: none, or no
 * memory.
 */
uint64_t *handles_all(enum kind kind, size_t *ret_n);

void address_given(CUdeviceptr address, uint64_t bytes, enum range_note note);
/*
 * Notes that the memory belongs to a graph. Each launch allocates it again, so no call removes it
 * for good.
 */
void address_of_graph(CUdeviceptr address);
/* Like address_of_graph(), if the stream (a real handle) is being captured. */
void address_of_stream(CUdeviceptr address, CUstream stream);
/*
 * address_freed() removes the memory at an address and returns its range, of 0 bytes if there is
 * none. address_back() adds the range again.
 */
struct range address_freed(CUdeviceptr address);
void address_back(const struct range *had);
bool address_is_ours(CUdeviceptr address);
/*
 * Whether all these bytes were allocated by this worker; true for no bytes. The driver may read or
 * write only such addresses for the program, because this process's own memory lies in the same
 * address space.
 */
bool address_reaches(CUdeviceptr address, uint64_t bytes);
/*
 * Forgets memory that ended with a module or a library; is_all: also memory that may have ended
 * with a context.
 */
void addresses_settle(bool is_all);

/* Like address_reaches(), for a copy from the place's address to its last byte. */
bool copy_reaches(const struct copy_place *p, uint64_t width, uint64_t height, uint64_t depth);

/* Replace the handles and addresses in a structure by the driver's, or set s->error. */
bool fix_CUDA_MEMCPY3D(struct serve *s, CUDA_MEMCPY3D *p);
bool fix_CUDA_MEMCPY3D_PEER(struct serve *s, CUDA_MEMCPY3D_PEER *p);
bool fix_CUDA_RESOURCE_DESC(struct serve *s, CUDA_RESOURCE_DESC *p);
bool fix_CUDA_MEMSET_NODE_PARAMS(struct serve *s, CUDA_MEMSET_NODE_PARAMS *p);
bool fix_CUDA_GRAPH_INSTANTIATE_PARAMS(struct serve *s, CUDA_GRAPH_INSTANTIATE_PARAMS *p);
bool fix_CUmemAllocationProp(struct serve *s, CUmemAllocationProp *p);
bool fix_CUmemPoolProps(struct serve *s, CUmemPoolProps *p);
bool fix_CUstreamBatchMemOpParams(struct serve *s, CUstreamBatchMemOpParams *p);
void unfix_CUDA_MEMCPY3D(struct serve *s, CUDA_MEMCPY3D *p);
void unfix_CUDA_RESOURCE_DESC(struct serve *s, CUDA_RESOURCE_DESC *p);
void unfix_CUDA_GRAPH_INSTANTIATE_PARAMS(struct serve *s, CUDA_GRAPH_INSTANTIATE_PARAMS *p);
void unfix_CUgraphExecUpdateResultInfo(struct serve *s, CUgraphExecUpdateResultInfo *p);
void unfix_CUmemAllocationProp(struct serve *s, CUmemAllocationProp *p);

/* Whether the location is in host memory; false for NULL. */
bool is_of_host(const CUmemLocation *location);
/*
 * Whether the worker passes on this attribute of a launch, node or stream. Events are not passed
 * on.
 */
bool is_carried(CUlaunchAttributeID id);

/* ---- the reverse lane (worker-reverse.c) ---- */

int reverse_start(struct remote_session *session);
/* Number of frames sent on the reverse lane. */
uint32_t reverse_asked(void);
/* Tells the client that this work will not run. */
void reverse_cancel(uint64_t work);

/* Asks the program and waits for the answer, whose `n` bytes go to `to`. Any thread. */
void reverse_ask(unsigned op, struct remote_reverse *head, uint8_t *to, size_t n);
void reverse_push(const struct remote_reverse *head, const void *data, size_t n);
/* Tells the program that a watched object has completed or is no longer watched. */
void reverse_send_done(const struct remote_done *done);

/* ---- page-locked memory for data on its way (worker-stage.c) ---- */

struct stage;
uint8_t *stage_memory(struct stage *s);
/*
 * Memory for data that comes with a call. NULL: the stages of such data would exceed their limit,
 * or memory is short.
 */
struct stage *stage_get(size_t bytes);
/* Like stage_get(), for a copy with is_beyond, whose data the program does not count. */
struct stage *stage_beyond(size_t bytes);
/* Releases blocks of REMOTE_STAGE bytes that the program has counted without need. */
void stage_released(uint32_t units);
/* Number of blocks of REMOTE_STAGE bytes released since the session began, modulo 2^31. */
uint32_t stages_released(void);
/* Memory for data that a stream moves later. All such copies of a stream use one stage in turn. */
struct stage *stage_of_stream(CUstream stream, size_t bytes);
/*
 * Memory for the data of copies in a graph. stage_return(), which never waits, gives this memory
 * back.
 */
struct stage *stage_of_graph(size_t bytes);
void stage_becomes_a_graphs(struct stage *s);
void stage_return(struct stage *s);
/* Frees the stage when the stream has completed the work that it has now. */
void stage_release_after(struct stage *s, CUstream stream);
/*
 * Like stage_release_after(), but first waits for that work for as long as all data that came with
 * calls exceeds the limit of stage_get().
 */
void stage_release_awaited(struct stage *s, CUstream stream);
/*
 * The worker calls this function in place of cuStreamDestroy, because stages may still be attached
 * to the stream.
 */
CUresult stream_destroy(CUstream stream);

/*
 * Sets this thread's capture mode, so that the worker's own calls disturb no capture. Returns the
 * former mode.
 */
CUstreamCaptureMode capture_relax(CUstreamCaptureMode mode);

/* ---- settled calls (worker-settle.c) ---- */

/* Call after a posted call has been carried out. */
void settling_posted(struct serve *s);
void settling_done(struct serve *s);
CUresult serve_settled(struct serve *s);

/* ---- graphs (worker-call.c) ---- */

/* The graph into which the stream is captured; NULL: none. */
CUgraph graph_captured_by(CUstream stream);
/*
 * Attaches p to the graph. The driver calls `forget` when the last graph or executable graph with p
 * has ended and is not in flight. A driver before 11.3 cannot report this, and p then stays for the
 * process's life.
 */
void graph_keep(CUgraph graph, CUhostFn forget, void *p);
/*
 * The exclusive lock around calls that begin or end a capture, or make, change or destroy a graph
 * or a node. Meanwhile no other thread makes such a call, launches a graph, or captures work.
 */
void graphs_lock(void);
void graphs_unlock(void);
/*
 * Call under the lock after a new graph was made from nodes: the data that these nodes have now
 * must outlive that graph.
 */
void graphs_used(void);
/* Under the lock, exclusive or shared: whether graphs_used() was ever called. */
bool graphs_are_used(void);
/*
 * The shared form of the lock, for calls that use a graph, and for calls that a capture may add to
 * a graph.
 */
void graphs_share(void);
/*
 * The worker calls these functions in place of the driver's functions of the same purpose. The
 * caller holds the exclusive lock, except for graph_launch().
 */
CUresult graph_launch(CUgraphExec exec, CUstream stream);
CUresult graph_exec_destroy(CUgraphExec exec);
CUresult graph_update(
	CUgraphExec exec, CUgraph graph, CUgraphNode *ret_node, CUgraphExecUpdateResult *ret);
CUresult graph_update_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *ret);

/* ---- queries (worker-query.c) ---- */

/*
 * Ends all watches and tells the program. Call before an object is destroyed or captured, when no
 * other thread may look at it.
 */
void watches_end(void);

CUresult serve_copy(struct serve *s, unsigned op);
CUresult serve_copy_part(struct serve *s);
CUresult serve_copy_rest(struct serve *s);
/* Drops the pieces that have arrived for unfinished copies. */
void serve_copy_done(struct serve *s);
CUresult serve_copy_device(struct serve *s);
CUresult serve_host_call(struct serve *s);
CUresult serve_layout(struct serve *s);
CUresult serve_blob(struct serve *s);
/* Drops the pieces of an image that have arrived. */
void serve_blob_done(struct serve *s);
CUresult serve_blob_known(struct serve *s);
CUresult serve_blob_named(struct serve *s);

/* ---- windows (worker-window.c) ---- */

/*
 * A window arrives as a memfd, which the caller keeps. Accepts only sealed memfds of the stated
 * size. Main thread. 0 or -errno.
 */
int window_arrived(uint32_t window, uint64_t bytes, int fd);
/* Address of the window at `offset`; NULL: fewer than `bytes` bytes from there. */
uint8_t *window_find(uint64_t window, uint64_t offset, uint64_t bytes);
/* Notes that the stream copies from or to the window, which exists. */
void window_used(uint64_t window, CUstream stream);
CUresult serve_window_open(struct serve *s);
CUresult serve_window_close(struct serve *s);
CUresult serve_settle(struct serve *s);
CUresult serve_window_copy(struct serve *s, unsigned op);

/*
 * The watch of all rings of the worker. It never ends a wait, because the whole process exits when
 * the program is lost.
 */
extern const struct ring_watch worker_watch;

/*
 * Keeps the error of a call without an answer. The next request that reports earlier errors returns
 * this error.
 */
void worker_fail(CUresult error);
/*
 * Returns the error that worker_fail() kept, and forgets it. Returns CUDA_SUCCESS if the request
 * `s` does not report earlier errors.
 */
CUresult worker_failed(const struct serve *s);

/*
 * Checks and serves a frame of a lane, and leaves the answer in s->answer. Lanes and the fuzzer
 * call this function.
 */
CUresult worker_dispatch(struct serve *s, const struct remote_frame *head, const void *frame);
/* Whether a thread may start to serve this lane; an open lane is not opened again. */
bool worker_lane_opens(unsigned lane);
/* Main function of a lane's thread. Owns the argument, a struct serve from malloc(). */
void *worker_lane(void *argument);
int serve_init(struct serve *s);
void serve_done(struct serve *s);

int driver_load(struct driver *ret_driver);

/* ---- diagnostic messages (worker-diagnostics.c) ---- */

/* Keeps the messages of the interception library from now on. Call before the driver is loaded. */
void diagnostic_begin(void);
/*
 * Sends earlier and further messages to the program over `sock`, which the caller keeps. A message
 * that announces the session's end (DIAGNOSTIC_END) ends the process.
 */
void diagnostic_welcome(int sock, enum remote_link_role link_role);
/* Copies the cause in the last DIAGNOSTIC_NO_GPU message; "": there was no message. */
void diagnostic_last(char *ret_text, size_t size);

/* ---- NVML (worker-nvml.c) ---- */

/*
 * Answers the program's NVML questions, which come on the socket, until the program ends. Returns
 * the worker's exit code.
 */
int serve_nvml(int sock);

#endif
