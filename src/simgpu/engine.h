/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's own objects, shared by its files; nothing outside divvy-sim-engine includes this.
 * One thread owns everything. What hangs on what: a process (one connection) has contexts, streams,
 * events, graphs; an operation (struct eop) embeds the timeline's; memory is memory.h's.
 *
 *   engine-main.c    start, files, loop, when to wake
 *   engine-serve.c   connections and control calls
 *   engine-submit.c  ring entries into operations, completions out
 *   engine-exec.c    how long operations take and what they do to memory
 *   engine-record.c  state page, trace and account rings
 */
#ifndef SIMGPU_ENGINE_H
#define SIMGPU_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "base/fd.h"
#include "simgpu/config.h"
#include "simgpu/memory.h"
#include "simgpu/proto.h"
#include "simgpu/timeline.h"
#include "simgpu/trace.h"

/* The CUresult numbers that the engine itself gives. */
enum sim_status {
	SIM_OK = 0,
	SIM_INVALID_VALUE = 1,
	SIM_OUT_OF_MEMORY = 2,
	SIM_INVALID_DEVICE = 101,
	SIM_INVALID_CONTEXT = 201,
	SIM_ECC_UNCORRECTABLE = 214,
	SIM_ILLEGAL_ADDRESS = 700,
	SIM_PEER_ENABLED = 704,
	SIM_PEER_NOT_ENABLED = 705,
	SIM_LAUNCH_FAILED = 719,
	SIM_DEVICE_UNAVAILABLE = 46,
	SIM_NOT_SUPPORTED = 801,
	SIM_UNKNOWN = 999,
};

struct engine;
struct proc;
struct eop;

struct module {
	uint64_t id, bytes;
	LIST_ENTRY(module) link;
};

struct ectx {
	struct tl_ctx tl;
	struct proc *proc;
	uint32_t slot;
	uint32_t id; /* unique on the machine */
	uint32_t device;
	uint32_t error;
	uint32_t peers; /* devices that it may reach */
	uint64_t context_bytes, reserve_bytes, code_bytes;
	LIST_HEAD(, module) modules;
};

struct estream {
	struct tl_stream tl;
	struct proc *proc;
	struct ectx *ctx;
	uint32_t slot;
	uint32_t id;
	uint32_t ops; /* submitted and not yet released */
	bool leaving;
	uint64_t submitted;
	uint64_t turn;            /* the last turn that published its bound */
	LIST_ENTRY(estream) link; /* of the process */
};

struct event_slot {
	struct proc *proc;
	uint32_t slot;
	LIST_ENTRY(event_slot) link;
};

struct eevent {
	uint32_t refs;    /* slots and operations */
	struct eop *last; /* latest record that is not done */
	LIST_HEAD(, event_slot) slots;
	uint64_t ipc_key; /* 0: not in the engine's list */
	LIST_ENTRY(eevent) ipc_link;
};

struct graph_node {
	const struct sim_entry *entry; /* trailing bytes behind it */
	const uint32_t *deps;
	uint32_t ndeps, trailing;
};

struct egraph {
	uint32_t refs;
	uint32_t n;
	bool visible;
	void *blob;
	size_t bytes;
	struct graph_node nodes[];
};

struct eop {
	struct tl_op tl;
	struct proc *proc;
	struct ectx *ctx;
	struct estream *stream;
	uint64_t id;
	struct eevent *event;
	uint64_t ticket;
	TAILQ_ENTRY(eop) cb_link;
	struct egraph *graph;
	uint64_t moved; /* bytes that had to be moved in before */
	struct sim_entry e;
	uint32_t trailing;
	uint8_t data[]; /* parameters, inline bytes */
};

struct proc {
	struct engine *engine;
	uint32_t id;
	pid_t pid;
	uint64_t start_time;
	enum sim_role role;
	bool greeted, dead;
	bool active; /* in the engine's list */
	bool wake;   /* somebody in it should be woken */
	int sock, pidfd, bell;
	int memory; /* its /proc/self/mem, or -1 */
	struct sim_shm *shm;
	uint64_t head;    /* ring bytes taken */
	uint32_t pending; /* operations in the timeline, graph nodes aside */
	bool throttled;   /* left entries in the ring because of pending */
	bool broken;      /* its ring held nonsense: nothing more is taken */
	struct mem_owner mem;
	struct ectx *ctx[SIM_MAX_CONTEXTS];
	struct estream **streams; /* by slot */
	LIST_HEAD(, estream) stream_list;
	struct eevent **events; /* by slot */
	struct egraph *graphs[SIM_MAX_GRAPHS];
	uint64_t cb_given, cb_done;
	struct eop *cb[SIM_MAX_CALLBACKS];
	TAILQ_HEAD(, eop) cb_wait;
	int state_slot[SIM_MAX_DEVICES]; /* -1 */
	struct proc *next, *active_next;
};

/* Written through a map, which where the file system is full would end us (SIGBUS). */
struct record_file {
	struct map map;
	int fd;        /* -1: the file system has no more room, or all is there */
	uint64_t room; /* bytes that the file system has given for good */
};

struct engine {
	char dir[3072];
	const char *devices; /* what the command line says of them; NULL: nothing */
	struct sim_config config;
	struct memory *mem;
	struct timeline *tl;
	struct proc *procs, *active;
	uint32_t clients;
	bool clients_ever, stopping;
	int epoll, listen;
	uint64_t listen_rests_ns; /* without descriptors, until then; 0: it does not */
	uint64_t start_ns, empty_since_ns;
	uint64_t next_op, next_id, turns;
	uint32_t next_ctx, next_stream, next_proc;
	LIST_HEAD(, eevent) ipc_events;
	/* waiting for host memory */
	bool host_wait;
	uint64_t host_wait_since;
	uint64_t backoff_ns;
	/* faults */
	struct sim_faults faults;
	uint64_t faults_since_ns;
	/* files */
	struct map state_map;
	struct record_file trace_file, account_file;
	struct sim_state *state;
	struct sim_ring_head *trace, *account;
	uint64_t sample_ns;
	uint64_t sampled_busy[SIM_MAX_DEVICES], sampled_copy[SIM_MAX_DEVICES];
	uint64_t *sampled_proc; /* by state slot */
};

/* ---- engine-serve.c ---- */

/* Of the listening socket in the epoll set. */
#define ENGINE_TAG_LISTEN 1u

int serve_listen(struct engine *e, struct error *err);
void serve_accept(struct engine *e);
/* Listens again after a rest, or brings *wake forward to its end. */
void serve_end_rest(struct engine *e, uint64_t now, uint64_t *wake);
void serve_ready(struct proc *p, uint32_t events);
/* Everything of it is freed at once; the struct itself after the batch, by serve_reap(). */
void serve_drop(struct proc *p);
void serve_reap(struct engine *e);

/* ---- engine-submit.c ---- */

struct tl_hooks submit_make_hooks(struct engine *e);
/* Takes what is in the ring. True when something visible, or the first work, came. */
bool submit_ingest(struct proc *p);
bool submit_ring_is_empty(const struct proc *p);
/* Looks at finished host functions and at newly awaited streams. */
void submit_look(struct proc *p);
void submit_activate(struct proc *p);
int submit_graph_create(struct proc *p, uint32_t slot, int fd);
void submit_event_unref(struct engine *e, struct eevent *ev);
struct eevent *submit_event_get(struct proc *p, uint32_t slot);
int submit_event_bind(struct proc *p, uint32_t slot, struct eevent *ev);
void submit_event_unbind(struct proc *p, uint32_t slot);
void submit_graph_unref(struct egraph *g);
/* Sticky error: aborts the context's work. */
void submit_fail(struct ectx *ctx, uint32_t error);
/* Frees a process's or a context's streams and so on; its context's work must be aborted. */
void submit_drop_streams(struct proc *p, const struct ectx *ctx);

/* ---- engine-exec.c ---- */

/* Fills class, permille, duration, spin of an operation whose entry is copied. 0 or a CUresult. */
uint32_t exec_plan(struct eop *op);
uint64_t exec_start(struct eop *op);
bool exec_ready(struct eop *op);
/* True: memory that others may wait for was written. */
bool exec_finish(struct eop *op);

/* ---- engine-record.c ---- */

int record_open(struct engine *e, struct error *err);
void record_close(struct engine *e);
void record_piece(struct engine *e, const struct tl_piece *piece);
void record_account(void *user, struct mem_owner *o, uint32_t device, uint64_t owner_bytes,
	uint64_t device_bytes, enum sim_account_reason reason);
/* A process has got (+1) or lost a context on a device. */
void record_contexts(struct proc *p, uint32_t device, int change);
void record_gone(struct proc *p);
void record_now(struct engine *e, uint64_t now_ns);

/* ---- engine-main.c ---- */

/* Catches up with the clock: rings, timeline, completions. Returns the time. */
uint64_t engine_catch_up(struct engine *e);
int engine_set_faults(struct engine *e, struct str text, struct error *err);
/* Does the nth allocation on the device fail? */
bool engine_fault_oom(struct engine *e, uint32_t device);
/* A kernel begins: factor for its duration; UINT64_MAX: it never ends. */
uint64_t engine_fault_kernel(struct engine *e, uint32_t device);
void engine_device_error(struct engine *e, uint32_t device, uint32_t error);

#endif
