/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside divvy-remote-worker: one process for one program, which does with the real driver what
 * the program asks for. It is an ordinary tenant: the interception library stands between it and
 * the driver. One thread a lane, one for the answers of the reverse lane, one (main) that watches
 * the socket: when the program is gone, so is the process, and with it all that it held.
 *
 * Nothing of what comes in is trusted: handles are looked up, device addresses have to be of what
 * was allocated here, counts are bounded by what the request holds. A request is copied before it
 * is looked at; only data for the device is read where it lies.
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
/* What the driver does not have answers CUDA_ERROR_NOT_SUPPORTED. */
extern struct driver driver;

/* ---- what is behind something in a stream (worker-behind.c) ---- */

struct behind {
	CUevent event; /* NULL: there is none, or it is over */
	CUcontext context;
	uint64_t ends; /* of contexts, before it */
};

/*
 * Behind all that the stream has now, whichever context it is of. Without an event it cannot be
 * said. Not for one that may be captured. The stream is the request's, or nothing ends meanwhile.
 */
struct behind behind_stream(CUstream stream);
/* False also while something ends; what is over needs nothing more. */
bool behind_is_over(struct behind *b);
void behind_forget(struct behind *b);

/* Around what ends streams or contexts, their names included. */
void end_begin(void);
void end_done(void);
/* Nothing ends until look_done(). False: something does just now. */
bool look_begin(void);
void look_done(void);
/* How many contexts have ended. */
uint64_t ends_so_far(void);

/* In the driver's place. */
CUresult context_destroy(CUcontext context);
CUresult context_detach(CUcontext context);
CUresult primary_retain(CUcontext *ret_context, CUdevice device);
CUresult primary_release(CUdevice device);
CUresult primary_reset(CUdevice device);

/* What a lane has put into streams since a mark, and the marks that they have yet to reach. */
enum { MARK_EACH = 128, MARK_STREAMS = 4, MARKS = 16 };
struct settling {
	uint64_t posted, marked, settled; /* calls of the lane */
	uint64_t stream[MARK_STREAMS];    /* handles, since the last mark */
	unsigned n_streams;
	uint64_t ends; /* of contexts, when the first of them was noted */
	struct mark {
		uint64_t at;
		struct behind behind[MARK_STREAMS];
		unsigned n;
	} mark[MARKS];
	unsigned first, n;
};

/* One request. Memory that it takes lives until its answer is written. */
struct serve {
	unsigned lane;
	struct ring up, down;
	uint8_t *request, *scratch; /* REMOTE_FRAME_MAX each */
	const uint8_t *in, *in_end; /* what is left of the request */
	const uint8_t *data;        /* the same in the ring, for data alone */
	uint8_t *room, *room_end;   /* what is left of scratch */
	uint8_t *answer;            /* REMOTE_FRAME_MAX: head and fields */
	size_t n;                   /* of the answer so far, head included */
	bool answers;               /* somebody waits for it */
	bool has_answered;          /* it was written into the ring already */
	bool tells_before;          /* it is to say what went wrong before */
	CUresult error;             /* what is wrong with the request */
	uint64_t stream;            /* a handle that the request names; ... */
	bool has_stream;            /* ... there is one */
	struct settling settling;
	uint64_t given[KINDS]; /* of each kind the first handle in the request */
	uint64_t since;        /* when the last of them was looked up */
	uint8_t *blob;         /* pieces of an image */
	size_t blob_bytes, blob_room;
	struct copy_parts { /* of a copy that is one though its data is not */
		struct stage *stage;
		size_t bytes, at;
	} in_parts, out_parts;
};

typedef CUresult (*serve_fn)(struct serve *s);
extern const serve_fn serve_table[REMOTE_OPS];
/* What a call needs around it, as remote.def says of its function: bits. */
enum serve_trait {
	SERVE_ENDS_STREAMS = 1,     /* end_begin() before it and end_done() after it */
	SERVE_ENDS_WATCHES = 2,     /* watches_end() before it */
	SERVE_CHANGES_GRAPHS = 4,   /* graphs_lock() */
	SERVE_SETTLES_ALL = 8,      /* addresses_settle(true) after it */
	SERVE_SETTLES_MODULES = 16, /* addresses_settle(false) after it */
};
extern const uint8_t serve_traits[REMOTE_OPS];
#define REMOTE(name, travel, layout) CUresult serve_##name(struct serve *s);
#include "cuda/remote.def"
#undef REMOTE

#define FIELD(n) (((size_t)(n) + 7) & ~(size_t)7)
#define CALL(s, function) driver.function
#define BLOB_MAX (2ull << 30)  /* of one image */
#define BLOBS_MAX (4ull << 30) /* of all threads' images that are on their way */

/* ---- the request's fields ---- */

/* `n` bytes in place; NULL, and s->error, when there are no more so many. */
const void *take(struct serve *s, size_t n);
uint64_t take_u64(struct serve *s);
/* A device address that this worker was given, or 0. */
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

/* ---- the answer's ---- */
void give(struct serve *s, const void *p, size_t n);
void give_string(struct serve *s, const char *text);

/* ---- handles and addresses ---- */

/* The driver's object; 0 for 0 and for the streams that have numbers; else s->error. */
uint64_t handle_real(struct serve *s, enum kind kind, uint64_t handle);
/*
 * The name of the driver's object, a new one when it has none. Where the request names what it was
 * given of (a node's graph, a kernel's library), it ends with that one.
 */
uint64_t handle_name(struct serve *s, enum kind kind, uint64_t real);
bool handles_real_(struct serve *s, enum kind kind, void *handles, uint64_t n);
#define handles_real(s, kind, p, n) (!(p) || handles_real_(s, kind, p, n))
void handles_named(struct serve *s, enum kind kind, void *handles, uint64_t n);
void handle_put(struct serve *s, enum kind kind, uint64_t handle, uint64_t real);
/* The name of an object of which the program was given another reference. */
uint64_t handle_again(struct serve *s, enum kind kind, uint64_t real);
/* One reference fewer; the last one takes the name along, and those of all that was given of it. */
void handle_gone(struct serve *s, enum kind kind, uint64_t handle);

size_t handles_count(enum kind kind);
/* The driver's objects of a kind, in an array for free(); NULL: none, or no memory. */
uint64_t *handles_all(enum kind kind, size_t *ret_n);

void address_given(CUdeviceptr address, uint64_t bytes, enum range_note note);
/* It is a graph's: each launch allocates it again, so that no call takes it away for good. */
void address_of_graph(CUdeviceptr address);
/* The same, if the stream, by its real handle, is being captured. */
void address_of_stream(CUdeviceptr address, CUstream stream);
/* What has gone, of 0 bytes where nothing has; and that it has not. */
struct range address_gone(CUdeviceptr address);
void address_back(const struct range *had);
bool address_is_ours(CUdeviceptr address);
/*
 * All of it was given to this worker; no bytes are nowhere. What the driver itself reads or writes
 * for the program has to: in the same addresses lies memory of this process.
 */
bool address_reaches(CUdeviceptr address, uint64_t bytes);
/* What has gone with a module or a library is no more, or all that may have with a context. */
void addresses_settle(bool is_all);

/* The same of a copy, from the place's address to its last byte. */
bool copy_reaches(const struct copy_place *p, uint64_t width, uint64_t height, uint64_t depth);

/* Structures: handles and addresses inside become the driver's, or s->error. */
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

/* NULL is not. */
bool is_of_host(const CUmemLocation *location);
/* An attribute of a launch, a node or a stream that names no event of the program's. */
bool is_carried(CUlaunchAttributeID id);

/* ---- the reverse lane (worker-reverse.c) ---- */

int reverse_start(struct remote_session *session);
/* How many frames have been put onto it. */
uint32_t reverse_asked(void);
/* The client is told that nothing comes of this work. */
void reverse_cancel(uint64_t work);

/* Asks and waits for the answer, whose `n` bytes go to `to`. Any thread. */
void reverse_ask(unsigned op, struct remote_reverse *head, uint8_t *to, size_t n);
void reverse_push(const struct remote_reverse *head, const void *data, size_t n);
/* What was watched is over, or no longer watched. */
void reverse_say_done(const struct remote_done *done);

/* ---- memory between (worker-stage.c) ---- */

struct stage;
uint8_t *stage_memory(struct stage *s);
/* For what came along. NULL: there are more than the program may count on, or no memory. */
struct stage *stage_get(size_t bytes);
/* The same, of what it does not count. */
struct stage *stage_beyond(size_t bytes);
/* Some that a program had counted upon are not needed. */
void stage_released(uint32_t units);
/* So far, as answers say it. */
uint32_t stages_released(void);
/* For what the stream does when it gets there: one that other such copies of it use, in turn. */
struct stage *stage_of_stream(CUstream stream, size_t bytes);
/* Until it is returned, which waits for nobody. */
struct stage *stage_of_graph(size_t bytes);
void stage_becomes_a_graphs(struct stage *s);
void stage_return(struct stage *s);
/* When the stream has come so far. */
void stage_release_after(struct stage *s, CUstream stream);
/* The same, and waits for that while there are more than the program may count on. */
void stage_release_awaited(struct stage *s, CUstream stream);
/* In the driver's place. */
CUresult stream_destroy(CUstream stream);

/* Whatever the program captures, what we do of our own is none of it. The mode before. */
CUstreamCaptureMode capture_relax(CUstreamCaptureMode mode);

/* ---- what is settled (worker-settle.c) ---- */

/* A posted call has been carried out. */
void settling_posted(struct serve *s);
void settling_done(struct serve *s);
CUresult serve_settled(struct serve *s);

/* ---- graphs (worker-call.c) ---- */

/* The graph that the stream is captured into; NULL: it is not. */
CUgraph graph_captured_by(CUstream stream);
/*
 * `forget` comes with the last graph, or executable of it, that has p, once that is not under way.
 * Where the driver does not know how (before 11.3) it stays as long as we do.
 */
void graph_keep(CUgraph graph, CUhostFn forget, void *p);
/*
 * Around what begins or ends a capture, makes something else of a graph, or changes or ends it:
 * nobody else does the like then, nor launches one, nor puts something into one that is captured.
 */
void graphs_lock(void);
void graphs_unlock(void);
/* With it: what nodes have had so far is needed as long as what is made of them now. */
void graphs_used(void);
/* With it, or shared: whether there has been any. */
bool graphs_are_used(void);
/* Others may have it as well: around what uses a graph, or becomes a part of one by a capture. */
void graphs_share(void);
/* In the driver's place; the others with that lock. */
CUresult graph_launch(CUgraphExec exec, CUstream stream);
CUresult graph_exec_destroy(CUgraphExec exec);
CUresult graph_update(
	CUgraphExec exec, CUgraph graph, CUgraphNode *ret_node, CUgraphExecUpdateResult *ret);
CUresult graph_update_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *ret);

/* ---- queries (worker-query.c) ---- */

/*
 * Nothing is watched any more, and the program told so: before something is destroyed, or captured,
 * when nobody else may look at it.
 */
void watches_end(void);

CUresult serve_copy(struct serve *s, unsigned op);
CUresult serve_copy_part(struct serve *s);
CUresult serve_copy_rest(struct serve *s);
/* What has come of copies is dropped. */
void serve_copy_done(struct serve *s);
CUresult serve_copy_device(struct serve *s);
CUresult serve_host_call(struct serve *s);
CUresult serve_layout(struct serve *s);
CUresult serve_blob(struct serve *s);
/* What has come of an image is dropped. */
void serve_blob_done(struct serve *s);
CUresult serve_blob_known(struct serve *s);
CUresult serve_blob_named(struct serve *s);

/* ---- windows (worker-window.c) ---- */

/*
 * The program's memory arrives, as a memfd that stays the caller's. Taken are only sealed ones of
 * the size that is said. Main thread. 0 or -errno.
 */
int window_arrived(uint32_t window, uint64_t bytes, int fd);
/* Where it is mapped from `offset` on, when there are so many bytes; NULL. */
uint8_t *window_find(uint64_t window, uint64_t offset, uint64_t bytes);
/* It is there; the stream copies from it or to it. */
void window_used(uint64_t window, CUstream stream);
CUresult serve_window_open(struct serve *s);
CUresult serve_window_close(struct serve *s);
CUresult serve_settle(struct serve *s);
CUresult serve_window_copy(struct serve *s, unsigned op);

/* Whether to go on waiting: the process ends by itself. */
extern const struct ring_watch worker_watch;

/* What a POST has failed with is kept for the next SYNC. */
void worker_fail(CUresult error);
/* What went wrong before, if the request is to say it; told once. */
CUresult worker_failed(const struct serve *s);

/*
 * A frame of a lane, `n` bytes: checks, serves, and leaves the answer in s->answer. For lanes and
 * the fuzzer.
 */
CUresult worker_dispatch(struct serve *s, const struct remote_frame *head, const void *frame);
/* Whether a thread may begin to serve it: one that is open is not opened again. */
bool worker_lane_opens(unsigned lane);
/* Its thread's main function; the argument, a struct serve from malloc(), is its own. */
void *worker_lane(void *argument);
int serve_init(struct serve *s);
void serve_done(struct serve *s);

int driver_load(struct driver *ret_driver);

/* ---- words (worker-words.c) ---- */

/* From now on it is kept what the interception library says; before the driver is loaded. */
void words_begin(void);
/*
 * The program is told it there, and what was said before; the process ends with what is said at the
 * end. The socket stays the caller's.
 */
void words_welcome(int sock, enum remote_hub hub);
/* Of WORDS_NO_GPU the cause alone. "": nothing has been said. */
void words_last(char *ret_text, size_t size);

/* ---- NVML (worker-nvml.c) ---- */

/* Answers on the socket until the program is gone; the process's exit code. */
int serve_nvml(int sock);

#endif
