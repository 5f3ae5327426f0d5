/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside libdivvy-remote.so: one session for the process, one lane for each thread, calls. Links
 * libc only; prints nothing but sentences: one for each table that a program asks for in vain
 * (client-export.c), for a refusal, for the end of its server and what that says; ends nothing; no
 * thread before the first need. After a fork the child has no session: CUDA_ERROR_NOT_INITIALIZED,
 * as from a driver.
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
/* A call is answered so when its server is gone: at once, and for ever. */
#define CUDA_ERROR_GONE CUDA_ERROR_DEVICE_UNAVAILABLE

struct lane {
	struct ring up, down;
	unsigned index;
	uint64_t posted, settled; /* calls; what comes of them is over, as far as is known */
};

/* A request being written into the lane, then its answer being read out of it. */
struct call {
	struct lane *lane;
	struct remote_frame *frame;
	uint8_t *at; /* where the next field goes */
	const uint8_t *in, *in_end;
	size_t frame_in; /* bytes of the answer to consume; 0: it is remembered elsewhere */
};

/* ---- calls (client.c) ---- */

/* How many bytes a field takes. */
#define FIELD(n) (((size_t)(n) + 7) & ~(size_t)7)

/*
 * Room for a request of so many bytes of fields. Fails, and is then over: before cuInit, in a
 * forked child, in a host function, when the server is gone, when it is larger than a frame.
 */
CUresult call_begin(struct call *c, unsigned op, size_t bytes);
/* The same before cuInit: connects. */
CUresult call_begin_early(struct call *c, unsigned op, size_t bytes);

static inline void call_put(struct call *c, const void *p, size_t n)
{
	if (n)
		memcpy(c->at, p, n);
	c->at += FIELD(n);
}

/* Sent; not waited for, unless $DIVVY_REMOTE_SYNC is 1. Over afterwards. */
CUresult call_post(struct call *c);
/* The same, and an answer will come: call_receive(). */
CUresult call_post_asking(struct call *c);
/* Sent, and its answer is there to be taken, whatever the result; call_end has to follow. */
CUresult call_wait(struct call *c, unsigned flags);
/* From begin to answer, where one handle is all that is asked about; call_end() in any case. */
CUresult call_ask(struct call *c, unsigned op, uint64_t about);
/* Before sending: is the answer to exactly this known already? Then it is not sent. */
CUresult call_wait_cached(struct call *c);
/* The next field of the answer, at `to` unless that is NULL; false when the answer is too short. */
bool call_take(struct call *c, void *to, size_t n);
void call_end(struct call *c);
/* As the second half of call_wait, of an answer from which the program learns nothing of others. */
CUresult call_receive_quietly(struct call *c);
/* A request sent without waiting: its answers are taken later, in order, on the same lane. */
CUresult call_send(struct call *c, unsigned flags);
/* In the order of its own lane alone, and not answered. */
void call_send_aside(struct call *c);
CUresult call_receive(struct call *c);

/* One line on the program's stderr, behind "divvy: ". */
__attribute__((format(printf, 1, 2))) void session_say(const char *fmt, ...);

/* A string of the driver's: kept for ever, each once. */
const char *text_keep(const char *text, size_t n);

/* A handle that the client names. */
uint64_t handle_new(enum kind kind);

/* Whether every call waits for its answer. */
bool is_synchronous(void);
const struct ring_watch *session_watch(void);
struct remote_session *session_shared(void);
/* The calling thread's, which there is once it has sent something. */
struct lane *session_lane(void);
/* How many calls have been posted so far. */
uint64_t session_posted(void);
/* One note with a descriptor to the worker itself, and its answer. False when there is none. */
bool session_ask(struct remote_note *note, int fd);
/* 0, or why there can be no call now. */
CUresult session_check(void);
CUresult session_connect(void);
void session_set_ready(void);
/* This thread runs a host function: it may not call the driver. */
extern __thread bool is_host_function;

/* ---- memory (client-host.c, client-pinned.c) ---- */

/*
 * Device memory that the program was given: its addresses are reserved here, so that no memory of
 * the program's is ever there. false: they are in use already.
 */
bool device_given(CUdeviceptr address, size_t bytes, enum range_note note);
/* It is a graph's: each launch allocates it again, so that no call takes it away for good. */
void device_of_graph(CUdeviceptr address);
/* What is taken, of 0 bytes where nothing is; and given back. */
struct range device_taken(CUdeviceptr address);
void device_back(const struct range *had);
bool is_device(CUdeviceptr address);
/* All that a copy reaches the program was given. */
bool device_reaches(const struct copy_place *p, uint64_t width, uint64_t height, uint64_t depth);
/* Of the addresses where no memory of the program's is: device memory that is there, or was. */
bool is_reserved(CUdeviceptr address);
/* Page-locked: the driver may read and write it while the program goes on. */
bool is_pinned(const void *p);
/* With its context it is the program's no more. */
void pinned_gone(CUcontext context);

/* One end of a copy in the program's memory. */
struct box {
	uint8_t *base;
	size_t pitch, slice;         /* bytes from row to row, from slice to slice */
	size_t width, height, depth; /* bytes, rows, slices */
};

/* From the first byte of its first row to the last one of its last row. */
static inline size_t box_extent(const struct box *box)
{
	return (box->depth - 1) * box->slice + (box->height - 1) * box->pitch + box->width;
}

/* Whether the worker has mapped all of the box, and where it has. */
bool is_in_window(const struct box *box, struct remote_window *ret_window);
/* `bytes` of the box as packed from `offset` on. */
void box_read(const struct box *box, size_t offset, void *to, size_t bytes);
void box_write(const struct box *box, size_t offset, const void *from, size_t bytes);

/* What the worker may ask for later: by a name that only we know what it stands for. */
enum work_kind {
	WORK_COPY,
	WORK_MOVE,
	WORK_CALL,
	WORK_STREAM_CALLBACK,
	WORK_VOID, /* its memory is the program's no more */
};
struct work {
	enum work_kind kind;
	struct box box;
	CUhostFn fn;
	CUstreamCallback callback;
	CUstream stream;
	struct box from; /* WORK_MOVE: to `box` */
	bool is_source;  /* WORK_COPY: the box is read; else written */
	void *data;
	bool is_once; /* no graph's: until it is done it may write to the program's memory */
};

/* Starts the reverse thread when there is none. */
CUresult work_new(const struct work *work, uint64_t *ret_name);
/* False: there is none of that name. */
bool work_get(uint64_t name, struct work *ret_work);
/* The worker's word that so many reverse frames come before: waits until they are done with. */
void work_await(uint32_t asked);
/* Something is under way that writes to the program's memory. */
bool work_writes(void);
/* Something is under way, or in a graph, that reads or writes there. */
bool work_touches(const void *p, size_t bytes);
/* Nothing of that reads or writes there any more. */
void work_leaves(const void *p, size_t bytes);
/*
 * Work of the program's own, in the stream's order, after session_check(). is_captured:
 * is_captured_on(stream).
 */
CUresult host_call(struct work *work, CUstream stream, bool is_captured);

/* The reverse thread is there afterwards. */
CUresult reverse_begin(void);

/* ---- data in pieces (client-pieces.c) ---- */

/* A copy of pageable memory, from and to the box. */
CUresult pieces_in(const struct remote_copy *copy, const struct box *box);
CUresult pieces_out(const struct remote_copy *copy, const struct box *box);
/* pieces_in() if that waits for no stream; false: it would have to. */
bool pieces_fit_in(const struct remote_copy *copy, const struct box *box, CUresult *ret_result);
/* The worker's word of what it has released. */
void pieces_heard(uint32_t released);

/* ---- streams (client-streams.c) ---- */

/*
 * May earlier work still write to the program's memory, or does a stream wait for what the program
 * has yet to do?
 */
bool is_hazardous(void);
/* Any stream is, as far as is known. */
bool is_capturing(void);
/* What is done on that stream becomes a part of a graph; asks, where any is capturing. */
bool is_captured_on(CUstream stream);
/* Of the calling thread; NULL: it has none. */
CUcontext context_now(void);
/* Some graph calls the program, or copies from and to its memory, when it runs. */
void graphs_have_work(void);

/* What generated stubs note. context_is: the calling thread's; NULL: it has changed. */
void context_is(CUcontext context);
void context_gone(CUcontext context);
/* One reference fewer; if it was the last one, it is gone. */
void context_left(CUcontext context);
void primary_is(CUdevice device, const CUcontext *context);
/* The same, or it was reset. */
void primary_left(CUdevice device);
void capture_began(CUstream stream);
void capture_ended(CUstream stream, CUresult r);
void stream_gone(CUstream stream);
/* For a value in memory; for what a graph has. */
void stream_waits(CUstream stream);
void stream_launches(CUstream stream);
/* Before an event is recorded, or anything waited for or asked: stream_records(), ..._done() mean
 * that moment. */
void streams_now(void);
void stream_records(CUstream stream, CUevent event);
/* It, or for NULL any, is recorded where no stream alone is the matter. */
void stream_records_not(CUevent event);
void stream_done(CUstream stream);
void context_done(CUcontext context); /* NULL: the calling thread's */
void event_done(CUevent event);

/* ---- queries (client-query.c) ---- */

/* The program may learn from this answer what has come to its end. */
void query_heard(void);
/* The worker's word of something that it has watched. */
void query_done(const struct remote_done *done);

/* What generated stubs note. */
void event_recorded(CUevent event, CUstream stream);
/* In all streams of a context. */
void event_recorded_everywhere(CUevent event);
void query_forget(uint64_t handle);
/* Of all, that they are over. */
void queries_forget(void);
void graph_launched(CUstream stream);
void layouts_forget(void);
void node_gone(CUgraphNode node);

#endif
