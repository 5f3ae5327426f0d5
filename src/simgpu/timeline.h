/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated machine's time, as pure code: operations with the times at which they were
 * submitted go in, executed intervals and completions with exact times come out. No clock, no
 * I/O, no data: what an operation does to memory is the caller's, behind struct tl_hooks.
 *
 * The machine: devices, each with a compute engine that one context holds at a time (time slices
 * round robin among contexts that have work, with a switch cost, preempting kernels), and two copy
 * engines. Inside a context the kernels of several streams run together while their SMs suffice.
 *
 * Time only moves in tl_advance(), from event to event; submissions may lie in the past (they are
 * then taken as of the time already reached) or in the future.
 *
 * Memory: streams, contexts and operations are the caller's (embed them), zeroed before use, and
 * belong to the timeline from tl_*_add/tl_submit until removal or the release hook. One thread.
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
	TL_WAIT,     /* until the ready hook says so; occupies nothing */
	TL_EXTERNAL, /* until tl_finish_external(): host functions */
	TL_GRAPH,    /* done when all its nodes are */
};

enum tl_state {
	TL_NEW,
	TL_QUEUED,   /* waits for its predecessor or a dependency */
	TL_ARRIVING, /* only its launch latency is missing */
	TL_READY,    /* waits for its engine */
	TL_RUNNING,  /* has begun (its context need not be resident now) */
	TL_PENDING,  /* WAIT, EXTERNAL, GRAPH: begun, and waits */
	TL_DONE,
};

struct tl_edge;
struct tl_stream;
struct tl_ctx;

struct tl_op {
	/* set by the caller */
	enum tl_class class;
	bool spin;         /* COMPUTE: ends early when the ready hook says so */
	bool visible;      /* see tl_next_visible(); change with tl_set_visible() */
	uint8_t kind;      /* the caller's */
	uint16_t permille; /* COMPUTE: SMs taken, 1..TL_FULL */
	uint16_t flags;    /* the caller's */
	uint64_t submit_ns;
	uint64_t duration_ns; /* GRAPH: of its longest chain of nodes, or less */
	/* the timeline's */
	enum tl_state state;
	uint8_t phase; /* 1: first the extra time that the start hook asked for */
	bool aborted;
	bool started; /* has executed for a while */
	int32_t priority;
	uint32_t blockers;
	uint32_t nodes_left;
	uint32_t heap_index;
	struct tl_stream *stream; /* NULL for graph nodes */
	struct tl_ctx *ctx;
	struct tl_op *parent; /* graph node: its graph */
	struct tl_op *next;   /* in the stream; graph nodes: in the graph */
	struct tl_op *nodes;  /* graph: its nodes */
	struct tl_op *work_next;
	struct tl_op *hint;     /* a dependency not yet done, for bounds */
	struct tl_link out, in; /* edges to who waits for this; from what this waits for */
	struct tl_link all;     /* of the context */
	struct tl_link queue;   /* ready, running, waiting */
	struct tl_link vis;
	uint64_t order;
	uint64_t ready_ns, start_ns, piece_ns, end_ns, remaining_ns;
	uint64_t cum_ns;   /* durations of the stream up to and including this */
	uint64_t floor_ns; /* cannot be done before */
};

struct tl_stream {
	struct tl_ctx *ctx;
	bool legacy, blocking;
	int32_t priority;
	struct tl_op *head, *tail;
	uint64_t cum_ns;
	uint64_t look; /* the last look ahead that saw it */
	struct tl_link link;
	void *user;
};

struct tl_ctx {
	uint16_t device;
	struct tl_link streams;
	struct tl_stream *legacy;
	struct tl_link ready, running; /* COMPUTE */
	uint32_t used;                 /* permille */
	uint32_t active;               /* operations in ready and running */
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
	/* The operation begins. Returns nanoseconds that pass before its own duration (memory that
	 * must first be moved in). EXTERNAL: hand it to whoever calls tl_finish_external(). */
	uint64_t (*start)(void *user, struct tl_op *op, uint64_t t_ns);
	/* WAIT and spinning COMPUTE: is what it waits for there? */
	bool (*ready)(void *user, struct tl_op *op, uint64_t t_ns);
	/* It is done (or aborted): have its effects. True: memory that others may wait for
	 * changed. Dependents start after this. May call tl_ctx_fail(). */
	bool (*finish)(void *user, struct tl_op *op, uint64_t t_ns);
	/* The timeline has forgotten it: it may be freed. */
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
/* Everything in it must have been removed. */
void tl_free(struct timeline *tl);

void tl_ctx_add(struct timeline *tl, struct tl_ctx *ctx, uint16_t device);
/* All its operations are aborted now (finish hook with op->aborted), dependents elsewhere go on;
 * from inside a hook it happens at the end of the step. */
void tl_ctx_fail(struct timeline *tl, struct tl_ctx *ctx);
/*
 * Aborts and forgets it; its streams must be removed before or are forgotten too. Not from hooks.
 */
void tl_ctx_remove(struct timeline *tl, struct tl_ctx *ctx);

void tl_stream_add(struct timeline *tl, struct tl_stream *stream, struct tl_ctx *ctx);
/* Only when it is empty. */
void tl_stream_remove(struct timeline *tl, struct tl_stream *stream);

/* Before tl_submit/tl_add_node: op will not start before `on` is done. 0 or -ENOMEM. */
int tl_depend(struct timeline *tl, struct tl_op *op, struct tl_op *on);
/* Takes back what tl_depend() did to an operation that is not submitted after all. */
void tl_undepend(struct timeline *tl, struct tl_op *op);
/* -ENOMEM leaves op out (its dependencies are taken back). */
int tl_submit(struct timeline *tl, struct tl_stream *stream, struct tl_op *op);
/* A node of a graph that has not been submitted yet. */
void tl_add_node(struct timeline *tl, struct tl_op *graph, struct tl_op *node);

void tl_set_visible(struct timeline *tl, struct tl_op *op);
void tl_finish_external(struct timeline *tl, struct tl_op *op, uint64_t t_ns);
/* Memory changed from outside at t: look at everything that waits. */
void tl_recheck(struct timeline *tl);
/* Is anything waiting (WAIT, or a resident spinning kernel)? */
bool tl_is_waiting(const struct timeline *tl);

void tl_advance(struct timeline *tl, uint64_t until_ns);
uint64_t tl_now(const struct timeline *tl);
uint64_t tl_next_event(const struct timeline *tl);
/*
 * No visible operation is done before the returned time unless new work or tl_recheck() comes;
 * TL_NEVER: none is under way. *ret_exact: it will be done just then.
 */
uint64_t tl_next_visible(struct timeline *tl, bool *ret_exact);
/* Lower bound for when the stream has done what is in it. */
uint64_t tl_stream_bound(const struct timeline *tl, const struct tl_stream *stream);
bool tl_is_idle(const struct timeline *tl);
/* A device that was reset: its scheduling state forgets who was resident. */
const struct tl_ctx *tl_resident(const struct timeline *tl, uint16_t device);
/* First in the list of visible operations, or after op. */
struct tl_op *tl_visible(const struct timeline *tl, const struct tl_op *after);

#endif
