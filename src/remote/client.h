/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal header of libdivvy-remote.so: one session for the process, one lane for each thread, and
 * calls. The library links libc only, ends no process, and makes no thread before the first need.
 * The library prints messages for the program's user only: about unavailable tables that a program
 * requests (client-export.c), about a refusal, about the loss of the server, and the server's
 * diagnostic messages. A forked child has no session and gets CUDA_ERROR_NOT_INITIALIZED, as with a
 * driver.
 */
#ifndef REMOTE_CLIENT_H
#define REMOTE_CLIENT_H

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "cuda/proto.h"
#include "remote/kinds.h"
#include "remote/launch.h"
#include "remote/ranges.h"
#include "remote/ring.h"

#define REMOTE_EXPORT __attribute__((visibility("default")))
/* The result of every call once the server is lost. */
#define CUDA_ERROR_GONE CUDA_ERROR_DEVICE_UNAVAILABLE

struct lane {
	struct ring up, down;
	unsigned index;
	uint64_t posted, settled; /* numbers of calls: posted, and known to be settled */
};

/* One call: first its request is written into the lane, then its answer is read from the lane. */
struct call {
	struct lane *lane;
	struct remote_frame *frame;
	uint8_t *at; /* place of the next field */
	const uint8_t *in, *in_end;
	size_t frame_in; /* bytes of the answer to consume; 0: the answer is stored elsewhere */
};

/* ---- calls (client.c) ---- */

/* Space that a field of n bytes takes. */
#define FIELD(n) (((size_t)(n) + 7) & ~(size_t)7)

/*
 * Begins a request with room for `bytes` of fields. Fails before cuInit, in a forked child, in a
 * host function, when the server is lost, and when the request exceeds a frame. After a failure,
 * the caller need not call call_end().
 */
CUresult call_begin(struct call *c, unsigned op, size_t bytes);
/* Like call_begin(), but also before cuInit: connects if necessary. */
CUresult call_begin_early(struct call *c, unsigned op, size_t bytes);

static inline void call_put(struct call *c, const void *p, size_t n)
{
	if (n)
		memcpy(c->at, p, n);
	c->at += FIELD(n);
}

/*
 * Sends the request without waiting for an answer, unless $DIVVY_REMOTE_SYNC is 1. The call is then
 * over.
 */
CUresult call_post(struct call *c);
/* Sends a request like call_post(), but requests an answer, which call_receive() takes later. */
CUresult call_post_asking(struct call *c);
/* Sends the request and waits for its answer. call_end() must follow whatever the result is. */
CUresult call_wait(struct call *c, unsigned flags);
/*
 * Makes a whole call: sends a request whose only field is the handle `about`, and waits for the
 * answer. call_end() must follow whatever the result is.
 */
CUresult call_ask(struct call *c, unsigned op, uint64_t about);
/* Like call_wait(), but answers from memory if exactly this question was answered before. */
CUresult call_wait_cached(struct call *c);
/*
 * Copies the next field of the answer to `to`, unless `to` is NULL. False: the answer is too short.
 */
bool call_take(struct call *c, void *to, size_t n);
void call_end(struct call *c);
/* Like call_receive(), for an answer from which the program learns nothing about other work. */
CUresult call_receive_quietly(struct call *c);
/* Sends a request. The caller takes its answers later, in order, on the same lane. */
CUresult call_send(struct call *c, unsigned flags);
/* Sends a request that is ordered within its own lane only and has no answer. */
void call_send_aside(struct call *c);
CUresult call_receive(struct call *c);

/* Writes one line, "divvy: ...", to the program's stderr. */
__attribute__((format(printf, 1, 2))) void session_send_diagnostic(const char *fmt, ...);

/* Returns a permanent copy of a string of the driver's; equal strings share one copy. */
const char *text_keep(const char *text, size_t n);

/* Chooses the name of a new handle, so that the call need not wait for the worker. */
uint64_t handle_new(enum kind kind);

/* Whether each call waits for its answer. */
bool is_synchronous(void);
const struct ring_watch *session_watch(void);
struct remote_session *session_shared(void);
/* The calling thread's lane; it exists once the thread has sent a request. */
struct lane *session_lane(void);
/* Number of calls posted so far. */
uint64_t session_posted(void);
/*
 * Sends a note and a descriptor to the worker on the socket, and waits for the answer. False: no
 * answer came.
 */
bool session_ask(struct remote_note *note, int fd);
/* 0, or the reason why no call is possible now. */
CUresult session_check(void);
CUresult session_connect(void);
void session_set_ready(void);
/* This thread runs a host function, which must not call the driver. */
extern __thread bool is_host_function;

/* ---- memory (client-host.c, client-pinned.c) ---- */

/*
 * Notes device memory that the program has allocated. Reserves its addresses in this process, so
 * that the program's own memory never lies there. false: the addresses are in use.
 */
bool device_given(CUdeviceptr address, size_t bytes, enum range_note note);
/*
 * Notes that the memory belongs to a graph. Each launch allocates it again, so no call removes it
 * for good.
 */
void device_of_graph(CUdeviceptr address);
/*
 * device_taken() removes the memory at an address and returns its range, of 0 bytes if there is
 * none. device_back() adds the range again.
 */
struct range device_taken(CUdeviceptr address);
void device_back(const struct range *had);
bool is_device(CUdeviceptr address);
/* Whether a copy touches only device memory of the program. */
bool device_reaches(const struct copy_place *p, uint64_t width, uint64_t height, uint64_t depth);
/*
 * Whether the address is reserved for device memory, also for memory that was freed, so that none
 * of the program's own memory lies there.
 */
bool is_reserved(CUdeviceptr address);
/* Whether the memory is page-locked: the driver may access it while the program runs on. */
bool is_pinned(const void *p);
/* Forgets the page-locked memory of a context that has ended. */
void pinned_freed(CUcontext context);

/* The source or destination of a copy in the program's memory. */
struct box {
	uint8_t *base;
	size_t pitch, slice;         /* bytes from row to row, and from slice to slice */
	size_t width, height, depth; /* bytes, rows, slices */
};

/* Bytes from the first byte of the first row to the last byte of the last row. */
static inline size_t box_extent(const struct box *box)
{
	return (box->depth - 1) * box->slice + (box->height - 1) * box->pitch + box->width;
}

/*
 * Whether the worker has mapped the whole box; ret_window receives the window and the box's place.
 */
bool is_in_window(const struct box *box, struct remote_window *ret_window);
/*
 * Copy `bytes` bytes between the box and a buffer, in which rows and slices follow each other
 * without a gap. The copy begins at byte `offset` of the box, counted without gaps too.
 */
void box_read(const struct box *box, size_t offset, void *to, size_t bytes);
void box_write(const struct box *box, size_t offset, const void *from, size_t bytes);

/* Work that the worker may request later, by a name whose meaning only the client knows. */
enum work_kind {
	WORK_COPY,
	WORK_MOVE,
	WORK_CALL,
	WORK_STREAM_CALLBACK,
	WORK_VOID, /* the program has given up the work's memory, so nothing is moved */
};
struct work {
	enum work_kind kind;
	struct box box;
	CUhostFn fn;
	CUstreamCallback callback;
	CUstream stream;
	struct box from; /* WORK_MOVE: source; `box` is the destination */
	bool is_source;  /* WORK_COPY: the box is read; else it is written */
	void *data;
	/* The work belongs to no graph: it may write to the program's memory until it has run. */
	bool is_once;
};

/* Stores the work under a new name, and starts the reverse thread if necessary. */
CUresult work_new(const struct work *work, uint64_t *ret_name);
/* False: there is no work of that name. */
bool work_get(uint64_t name, struct work *ret_work);
/*
 * Waits until `asked` reverse frames have been handled, because an answer of the worker requires
 * them.
 */
void work_await(uint32_t asked);
/* Whether work in flight writes to the program's memory. */
bool work_writes(void);
/* Whether work in flight or in a graph accesses this memory. */
bool work_touches(const void *p, size_t bytes);
/* Stops all work from accessing this memory. */
void work_leaves(const void *p, size_t bytes);
/*
 * Runs the program's own function, or a copy within its memory (WORK_MOVE), when the stream reaches
 * the work. Call after session_check(). is_captured: the result of is_captured_on(stream).
 */
CUresult host_call(struct work *work, CUstream stream, bool is_captured);

/* Starts the reverse thread if necessary. */
CUresult reverse_begin(void);

/* ---- data in pieces (client-pieces.c) ---- */

/* Copies of pageable memory, from and to the box. */
CUresult pieces_in(const struct remote_copy *copy, const struct box *box);
CUresult pieces_out(const struct remote_copy *copy, const struct box *box);
/*
 * Like pieces_in(), but only if the copy can be sent without waiting for a stream; otherwise
 * returns false.
 */
bool pieces_fit_in(const struct remote_copy *copy, const struct box *box, CUresult *ret_result);
/*
 * Notes how many units of REMOTE_STAGE the worker has released since the session began, modulo
 * 2^31. Ignores a count older than the known one.
 */
void pieces_heard(uint32_t released);

/* ---- streams (client-streams.c) ---- */

/*
 * Whether earlier work may still write to the program's memory, or a stream waits for a later
 * action of the program.
 */
bool is_hazardous(void);
/* Whether any stream is capturing, as far as the client knows. */
bool is_capturing(void);
/*
 * Whether work on that stream becomes part of a graph. If any stream is capturing, asks the worker.
 */
bool is_captured_on(CUstream stream);
/* Returns the calling thread's context; NULL: none. */
CUcontext context_now(void);
/*
 * Notes that a graph will call the program's functions or copy the program's memory when it runs.
 */
void graphs_have_work(void);

/*
 * Generated stubs call these. context_is() notes the calling thread's context; NULL: the context
 * has changed and is unknown.
 */
void context_is(CUcontext context);
void context_destroyed(CUcontext context);
/*
 * Notes that a reference to the context was dropped. With the last reference the context has ended.
 */
void context_left(CUcontext context);
void primary_is(CUdevice device, const CUcontext *context);
/* Like context_left(), for a primary context, which may also have been reset. */
void primary_left(CUdevice device);
void capture_began(CUstream stream);
void capture_ended(CUstream stream, CUresult r);
void stream_destroyed(CUstream stream);
/*
 * stream_waits(): the stream waits for a value in memory. stream_launches(): the stream runs a
 * graph, which may wait.
 */
void stream_waits(CUstream stream);
void stream_launches(CUstream stream);
/*
 * Call before an event is recorded, or before a wait or query. stream_records() and the ..._done()
 * functions refer to that moment.
 */
void streams_now(void);
void stream_records(CUstream stream, CUevent event);
/*
 * Notes that several streams record the event (NULL: any event), so that its completion tells
 * nothing about one stream.
 */
void stream_records_not(CUevent event);
void stream_done(CUstream stream);
void context_done(CUcontext context); /* NULL: the calling thread's context */
void event_done(CUevent event);

/* ---- queries (client-query.c) ---- */

/*
 * Call after an answer that may have told the program about completed work: the next query asks
 * again.
 */
void query_heard(void);
/* Takes the worker's report about a watched event or stream. */
void query_done(const struct remote_done *done);

/* Generated stubs call these. */
void event_recorded(CUevent event, CUstream stream);
/* Like event_recorded(), for an event that is recorded in all streams of a context. */
void event_recorded_everywhere(CUevent event);
void query_forget(uint64_t handle);
/* Forgets which events and streams are complete. */
void queries_forget(void);
void graph_launched(CUstream stream);
void layouts_forget(void);
void graph_node_destroyed(CUgraphNode node);

#endif
