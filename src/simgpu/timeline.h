/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated machine's time, as pure code. Operations with their submission times go in;
 * executed intervals and completions with exact times come out. There is no clock, I/O or data: the
 * caller implements effects on memory in struct tl_hooks.
 *
 * Each device has a compute engine, which one context holds at a time. Contexts with work share it
 * round robin in time slices, with a switch cost, and kernels are preempted. Each device has two
 * copy engines. Within a context, kernels of several streams run together as long as the SMs
 * suffice.
 *
 * Time moves only in tl_advance(), from event to event. A submission may lie in the past (it then
 * counts as of the time already reached) or in the future.
 *
 * Memory: the caller owns streams, contexts and operations (embed them) and zeroes them. These
 * objects belong to the timeline from tl_*_add() or tl_submit() until their removal or the release
 * hook. One thread.
 */
#ifndef SIMGPU_TIMELINE_H
#define SIMGPU_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TL_NEVER UINT64_MAX
#define TL_MAX_DEVICES 16
#define TL_FULL 1000u /* permille of a device's SMs */

struct tl_link {
	struct tl_link *next, *prev;
};

enum tl_class {
	TL_COMPUTE,
	TL_COPY_IN,  /* host to device engine */
	TL_COPY_OUT, /* device to host engine, and between devices */
	TL_INSTANT,  /* takes no time: event records, value writes, frees */
	TL_WAIT,     /* until the ready hook returns true; occupies no engine */
	TL_EXTERNAL, /* until tl_finish_external(): host functions */
	TL_GRAPH,    /* done when all its nodes are done */
};

enum tl_state {
	TL_NEW,
	TL_QUEUED,   /* waits for its predecessor or a dependency */
	TL_ARRIVING, /* waits only until its launch latency has passed */
	TL_READY,    /* waits for its engine */
	TL_RUNNING,  /* has begun (its context need not be resident now) */
	TL_PENDING,  /* WAIT, EXTERNAL, GRAPH: has begun and waits */
	TL_DONE,
};

struct tl_edge;
struct tl_stream;
struct tl_ctx;

struct tl_op {
	/* set by the caller */
	enum tl_class class;
	bool spin;         /* COMPUTE: ends early when the ready hook returns true */
	bool visible;      /* see tl_next_visible(); change it with tl_set_visible() */
	uint8_t kind;      /* the caller's own; the timeline never reads it */
	uint16_t permille; /* COMPUTE: SMs taken, 1..TL_FULL */
	uint16_t flags;    /* the caller's own; the timeline never reads them */
	uint64_t submit_ns;
	uint64_t duration_ns; /* GRAPH: length of the graph's longest chain of nodes, or less */
	/* set by the timeline */
	enum tl_state state;
	uint8_t phase; /* 1: still in the extra time that the start hook returned */
	bool aborted;
	bool started; /* has executed for some time already */
	int32_t priority;
	uint32_t blockers;
	uint32_t nodes_left;
	uint32_t heap_index;
	struct tl_stream *stream; /* NULL for graph nodes */
	struct tl_ctx *ctx;
	struct tl_op *parent; /* graph node: its graph */
	struct tl_op *next;   /* next in the stream; graph nodes: next in the graph */
	struct tl_op *nodes;  /* graph: its nodes */
	struct tl_op *work_next;
	struct tl_op *hint; /* a dependency that is not done, for time bounds */
	/*
	 * out: edges to the operations that wait for this one; in: edges from the operations for
	 * which this one waits
	 */
	struct tl_link out, in;
	struct tl_link all;   /* in the context's list of all operations */
	struct tl_link queue; /* in the ready, running or waiting list */
	struct tl_link vis;
	uint64_t order;
	uint64_t ready_ns, start_ns, piece_ns, end_ns, remaining_ns;
	/* sum of the durations of the stream's operations, this operation included */
	uint64_t cum_ns;
	uint64_t floor_ns; /* time before which the operation cannot be done */
};

struct tl_stream {
	struct tl_ctx *ctx;
	bool legacy, blocking;
	int32_t priority;
	struct tl_op *head, *tail;
	uint64_t cum_ns;
	uint64_t look; /* number of the last look-ahead that saw the stream */
	struct tl_link link;
	void *user;
};

struct tl_ctx {
	uint16_t device;
	struct tl_link streams;
	struct tl_stream *legacy;
	struct tl_link ready, running; /* COMPUTE */
	uint32_t used;                 /* permille of the SMs that are in use */
	uint32_t active;               /* number of operations in ready and running */
	bool failing;
	struct tl_link all;
	struct tl_link ring; /* among the device's active contexts */
	struct tl_ctx *fail_next;
	void *user;
};

enum tl_engine { TL_ENGINE_COMPUTE, TL_ENGINE_IN, TL_ENGINE_OUT };

struct tl_piece {
	const struct tl_op *op; /* NULL: a context switch */
	const struct tl_ctx *ctx;
	uint16_t device;
	enum tl_engine engine;
	bool first, last, extra, aborted;
	uint64_t start_ns, end_ns;
};

struct tl_hooks {
	void *user;
	/*
	 * The operation begins. Returns the nanoseconds for moving memory to the device, which pass
	 * before the operation's own duration. EXTERNAL: pass the operation on to the code that
	 * calls tl_finish_external().
	 */
	uint64_t (*start)(void *user, struct tl_op *op, uint64_t t_ns);
	/* WAIT and spinning COMPUTE: whether the awaited condition holds. */
	bool (*ready)(void *user, struct tl_op *op, uint64_t t_ns);
	/*
	 * The operation is done (or aborted): apply its effects. Returns true if memory changed for
	 * which other operations may wait. Dependents start after this call. May call
	 * tl_ctx_fail().
	 */
	bool (*finish)(void *user, struct tl_op *op, uint64_t t_ns);
	/* The timeline does not use the operation any more: the caller may free it. */
	void (*release)(void *user, struct tl_op *op);
	void (*piece)(void *user, const struct tl_piece *piece);
};

struct tl_params {
	uint32_t devices;
	uint64_t slice_ns;
	uint64_t switch_ns;
	uint64_t launch_ns; /* from submission to the earliest start */
};

struct timeline;

int tl_new(const struct tl_params *params, const struct tl_hooks *hooks, uint64_t now_ns,
	struct timeline **ret_tl);
/* All contexts and streams of the timeline must have been removed before. */
void tl_free(struct timeline *tl);

void tl_ctx_add(struct timeline *tl, struct tl_ctx *ctx, uint16_t device);
/*
 * Aborts all operations of the context now (finish hook with op->aborted); operations of other
 * contexts that waited for them continue. A call from within a hook takes effect after the present
 * step.
 */
void tl_ctx_fail(struct timeline *tl, struct tl_ctx *ctx);
/* Aborts the context, and removes it with all streams that it still has. Not within hooks. */
void tl_ctx_remove(struct timeline *tl, struct tl_ctx *ctx);

void tl_stream_add(struct timeline *tl, struct tl_stream *stream, struct tl_ctx *ctx);
/* The stream must be empty. */
void tl_stream_remove(struct timeline *tl, struct tl_stream *stream);

/*
 * Call before tl_submit() or tl_add_node() of op: op then does not start before `on` is done. 0 or
 * -ENOMEM.
 */
int tl_depend(struct timeline *tl, struct tl_op *op, struct tl_op *on);
/* Removes the dependencies of an operation that is not submitted after all. */
void tl_undepend(struct timeline *tl, struct tl_op *op);
/* -ENOMEM: op is not submitted, and its dependencies are removed. */
int tl_submit(struct timeline *tl, struct tl_stream *stream, struct tl_op *op);
/* Adds a node to a graph that has not been submitted yet. */
void tl_add_node(struct timeline *tl, struct tl_op *graph, struct tl_op *node);

void tl_set_visible(struct timeline *tl, struct tl_op *op);
/*
 * A running spinning operation shall have run for length_ns in all, but not end before now: from
 * now on the operation spins no more. Call from the ready hook. Returns whether the length was
 * still to come.
 */
bool tl_set_length(struct timeline *tl, struct tl_op *op, uint64_t length_ns);
void tl_finish_external(struct timeline *tl, struct tl_op *op, uint64_t t_ns);
/* Call when something else changed memory: checks again each operation that waits for memory. */
void tl_recheck(struct timeline *tl);
/* Returns whether an operation waits for memory: a WAIT, or a resident spinning kernel. */
bool tl_is_waiting(const struct timeline *tl);

void tl_advance(struct timeline *tl, uint64_t until_ns);
uint64_t tl_now(const struct timeline *tl);
uint64_t tl_next_event(const struct timeline *tl);
/*
 * No visible operation is done before the returned time, unless new work or tl_recheck() comes.
 * TL_NEVER: no visible operation is in flight. *ret_exact: a visible operation is done exactly at
 * that time.
 */
uint64_t tl_next_visible(struct timeline *tl, bool *ret_exact);
/* Lower bound of the time when the stream has completed its work. */
uint64_t tl_stream_bound(const struct timeline *tl, const struct tl_stream *stream);
bool tl_is_idle(const struct timeline *tl);
/* Returns the context that holds the device's compute engine now. */
const struct tl_ctx *tl_resident(const struct timeline *tl, uint16_t device);
/* Returns the first visible operation, or the next one after `after`. */
struct tl_op *tl_visible(const struct timeline *tl, const struct tl_op *after);

#endif
