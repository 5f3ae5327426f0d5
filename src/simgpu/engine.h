/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's objects; only files of divvy-sim-engine include this header. One thread owns
 * everything. A process (one connection) has contexts, streams, events and graphs. An operation
 * (struct eop) embeds the timeline's operation. memory.h keeps the memory.
 *
 *   engine-main.c    start, files, loop, next wake-up
 *   engine-serve.c   connections and control calls
 *   engine-submit.c  ring entries into operations, completions out
 *   engine-compute.c kernels that came as PTX
 *   engine-code.c    translation of modules that came as PTX
 *   engine-pool.c    threads beside the loop, for both
 *   engine-tenant.c  owners of kernels, and the memory that they may take
 *   engine-exec.c    duration of operations, and their effects on memory
 *   engine-record.c  state page, trace and account rings
 */
#ifndef SIMGPU_ENGINE_H
#define SIMGPU_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "base/fd.h"
#include "simgpu/engine-tenant.h"
#include "simgpu/simgpu-config.h"
#include "simgpu/memory.h"
#include "simgpu/simgpu-proto.h"
#include "simgpu/timeline.h"
#include "simgpu/trace.h"

/* The CUresult numbers that the engine itself returns. */
enum simgpu_status {
	SIMGPU_OK = 0,
	SIMGPU_INVALID_VALUE = 1,
	SIMGPU_OUT_OF_MEMORY = 2,
	SIMGPU_INVALID_DEVICE = 101,
	SIMGPU_INVALID_CONTEXT = 201,
	SIMGPU_ECC_UNCORRECTABLE = 214,
	SIMGPU_INVALID_PTX = 218,
	SIMGPU_ILLEGAL_ADDRESS = 700,
	SIMGPU_PEER_ENABLED = 704,
	SIMGPU_PEER_NOT_ENABLED = 705,
	SIMGPU_LAUNCH_FAILED = 719,
	SIMGPU_DEVICE_UNAVAILABLE = 46,
	SIMGPU_NOT_SUPPORTED = 801,
	SIMGPU_UNKNOWN = 999,
};

struct engine;
struct proc;
struct eop;

struct ejob; /* a kernel that is being computed */
struct translation;

/* Translated PTX. */
struct ecode {
	uint32_t refs;
	struct tenant *tenant; /* with a reference: its memory holds the translation */
	struct ptx *ptx;
	uint32_t n;
	int32_t *kernels; /* of the module, by the client's number; -1: not in the text */
	uint64_t taken;   /* of the tenant's memory, beside the translation's */
};

/* How threads reach the memory of a process. */
struct host_memory {
	uint32_t refs; /* the loop's */
	pid_t pid;
	int fd;               /* of the process's /proc/self/mem, or -1 */
	pthread_mutex_t lock; /* of changes in one step */
};

struct module {
	uint64_t id, bytes;
	struct ecode *code; /* NULL: kernels of the module take time */
	LIST_ENTRY(module) link;
};

struct ectx {
	struct tl_ctx tl;
	struct proc *proc;
	uint32_t slot;
	uint32_t id; /* unique on the machine */
	uint32_t device;
	uint32_t error;
	uint32_t peers; /* devices with enabled peer access */
	uint64_t context_bytes, reserve_bytes, code_bytes;
	LIST_HEAD(, module) modules;
	struct heap *heap; /* of kernels that call malloc(); NULL: none needed one yet */
	char *printed;     /* by kernels, until the program takes the text */
	uint32_t n_printed;
};

struct estream {
	struct tl_stream tl;
	struct proc *proc;
	struct ectx *ctx;
	uint32_t slot;
	uint32_t id;
	uint32_t ops; /* number of operations submitted and not released */
	bool leaving;
	uint64_t submitted;
	uint64_t turn;            /* the engine's last turn that published busy_until_ns */
	LIST_ENTRY(estream) link; /* in the process's list of streams */
};

struct event_slot {
	struct proc *proc;
	uint32_t slot;
	LIST_ENTRY(event_slot) link;
};

struct eevent {
	uint32_t refs;    /* references from slots and operations */
	struct eop *last; /* latest record that is not complete */
	LIST_HEAD(, event_slot) slots;
	uint64_t ipc_key; /* 0: the event is not in engine.ipc_events */
	LIST_ENTRY(eevent) ipc_link;
};

struct graph_node {
	const struct simgpu_entry *entry; /* followed by its trailing bytes */
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
	struct ecode *code; /* of a kernel that is computed */
	struct ejob *job;
	uint64_t model_ns;  /* modelled duration of a computed kernel */
	bool is_model_time; /* the computing took less than the model */
	uint64_t moved;     /* bytes of managed memory that must first be moved to the device */
	struct simgpu_entry e;
	uint32_t trailing;
	uint8_t data[]; /* parameters, inline bytes */
};

struct proc {
	struct engine *engine;
	uint32_t id;
	pid_t pid;
	uint64_t start_time;
	enum simgpu_role role;
	bool greeted, dead;
	bool active; /* in the engine's list of active processes */
	bool wake;   /* a thread of the process must be woken */
	int sock, pidfd, doorbell;
	struct host_memory *host;
	struct tenant *tenant;
	struct translation *translation; /* whose end the client awaits, or NULL */
	struct simgpu_shm *shm;
	uint64_t head;    /* ring bytes consumed */
	uint32_t pending; /* operations in the timeline, without graph nodes */
	bool throttled;   /* entries were left in the ring because of `pending` */
	bool broken;      /* the ring held invalid data, and the engine takes no more from it */
	struct mem_owner mem;
	struct ectx *ctx[SIMGPU_MAX_CONTEXTS];
	struct estream **streams; /* by slot */
	LIST_HEAD(, estream) stream_list;
	struct eevent **events; /* by slot */
	struct egraph *graphs[SIMGPU_MAX_GRAPHS];
	uint64_t cb_given, cb_done;
	struct eop *cb[SIMGPU_MAX_CALLBACKS];
	TAILQ_HEAD(, eop) cb_wait;
	int state_slot[SIMGPU_MAX_DEVICES]; /* -1: the process has no slot */
	struct proc *next, *active_next;
};

/*
 * A file that the engine writes through a mapping. On a full file system such a write would kill
 * the engine (SIGBUS).
 */
struct record_file {
	struct map map;
	int fd;        /* -1: the file is complete, or the file system is full */
	uint64_t room; /* bytes that the file system has allocated */
};

struct engine {
	char dir[3072];
	const char *devices; /* device specification from the command line; NULL: not given */
	struct simgpu_config config;
	struct memory *mem;
	struct timeline *tl;
	struct proc *procs, *active;
	uint32_t clients;
	bool clients_ever, stopping;
	int epoll, listen;
	/* The engine ran out of descriptors and does not listen until this time; 0: it listens. */
	uint64_t listen_rests_ns;
	uint64_t start_ns, empty_since_ns;
	uint64_t next_op, next_id, turns;
	uint32_t next_ctx, next_stream, next_proc;
	LIST_HEAD(, eevent) ipc_events;
	/* waiting for host memory */
	bool host_wait;
	uint64_t host_wait_since;
	uint64_t backoff_ns;
	/* faults */
	struct simgpu_faults faults;
	uint64_t faults_since_ns;
	/* files */
	struct map state_map;
	struct record_file trace_file, account_file;
	struct simgpu_state *state;
	struct simgpu_ring_head *trace, *account;
	uint64_t sample_ns;
	uint64_t sampled_busy[SIMGPU_MAX_DEVICES], sampled_copy[SIMGPU_MAX_DEVICES];
	uint64_t *sampled_proc; /* by state slot */
};

/* ---- engine-serve.c ---- */

/* Tag of the listening socket in the epoll set. */
#define ENGINE_TAG_LISTEN 1u

int serve_listen(struct engine *e, struct error *err);
void serve_accept(struct engine *e);
/*
 * Listens again if the pause after a lack of descriptors is over. Otherwise lowers *wake to the end
 * of the pause.
 */
void serve_end_rest(struct engine *e, uint64_t now, uint64_t *wake);
void serve_ready(struct proc *p, uint32_t events);
/*
 * Frees everything of a process at once. serve_reap() frees the struct itself after the batch of
 * epoll events.
 */
void serve_drop(struct proc *p);
void serve_reap(struct engine *e);
/* Answers a call. A client that does not take the answer is dropped. */
void serve_reply(struct proc *p, const struct simgpu_reply *a);

/* ---- engine-submit.c ---- */

struct tl_hooks submit_make_hooks(struct engine *e);
/* Takes the entries in the ring. Returns true if a client could notice the new work. */
bool submit_ingest(struct proc *p);
bool submit_ring_is_empty(const struct proc *p);
/* Checks for finished host functions and newly awaited streams. */
void submit_look(struct proc *p);
void submit_activate(struct proc *p);
int submit_graph_create(struct proc *p, uint32_t slot, int fd);
void submit_event_unref(struct engine *e, struct eevent *ev);
struct eevent *submit_event_get(struct proc *p, uint32_t slot);
int submit_event_bind(struct proc *p, uint32_t slot, struct eevent *ev);
void submit_event_unbind(struct proc *p, uint32_t slot);
void submit_graph_unref(struct egraph *g);
/* Sets the context's sticky error and aborts its work. */
void submit_fail(struct ectx *ctx, uint32_t error);
/*
 * Frees the streams, events and graphs of a process or a context. The work of the context must be
 * aborted already.
 */
void submit_drop_streams(struct proc *p, const struct ectx *ctx);

/* ---- engine-exec.c ---- */

/*
 * Fills class, permille, duration and spin of an operation from its copied entry. Returns 0 or a
 * CUresult.
 */
uint32_t exec_plan(struct eop *op);
uint64_t exec_start(struct eop *op);
bool exec_ready(struct eop *op);
/* Returns true if the operation wrote memory for whose change other clients may wait. */
bool exec_finish(struct eop *op);

/* Copies memory of a process: 0 or -EFAULT. May wait for ever. Any thread. */
int exec_host_io(
	const struct host_memory *host, void *buf, uint64_t addr, uint64_t bytes, bool write);
void host_memory_unref(struct host_memory *host); /* accepts NULL */

/* ---- engine-code.c ---- */

/*
 * Begins to translate the code of a module. Returns SIMGPU_OK if the answer follows by
 * serve_reply(), or a CUresult.
 */
uint32_t code_load(
	struct ectx *ctx, struct module *m, int fd, const struct simgpu_request *request);
/* Ends the translation that a process awaits, if there is one. */
void code_cancel(struct proc *p);
/* Answers the clients whose translations have ended. */
void code_settle(void);
void code_unref(struct ecode *code);

/* ---- engine-compute.c ---- */

/* Finds the code of a planned kernel that is computed. */
uint32_t compute_plan(struct eop *op);
void compute_start(struct eop *op);
/* Call for a started kernel, from the ready hook: returns whether the kernel has ended. */
bool compute_is_done(struct eop *op);
/* Ends the computing, if it has not ended. Returns 0, or the CUresult of the kernel's fault. */
uint32_t compute_finish(struct eop *op);
/* Returns a descriptor with the printed text, which the caller owns; -1: nothing was printed. */
int compute_take_printed(struct ectx *ctx);
void compute_drop_printed(struct ectx *ctx);

/* ---- engine-pool.c ---- */

/* Stops all threads that may read memory, between instructions, so that it can change; nests. */
void compute_stop(void);
void compute_resume(void);

/* ---- engine-record.c ---- */

int record_open(struct engine *e, struct error *err);
void record_close(struct engine *e);
void record_piece(struct engine *e, const struct tl_piece *piece);
void record_account(void *user, struct mem_owner *o, uint32_t device, uint64_t owner_bytes,
	uint64_t device_bytes, enum simgpu_account_reason reason);
/* Records that a process made (+1) or lost (-1) a context on a device. */
void record_contexts(struct proc *p, uint32_t device, int change);
void record_exited(struct proc *p);
void record_now(struct engine *e, uint64_t now_ns);

/* ---- engine-main.c ---- */

/* Catches up with the clock: rings, timeline, completions. Returns the time. */
uint64_t engine_catch_up(struct engine *e);
int engine_set_faults(struct engine *e, struct str text, struct error *err);
/* Returns whether an injected fault makes the next allocation on the device fail. */
bool engine_fault_oom(struct engine *e, uint32_t device);
/*
 * Call when a kernel begins. Returns the factor by which injected faults multiply its duration (1:
 * no fault); UINT64_MAX: the kernel never ends.
 */
uint64_t engine_fault_kernel(struct engine *e, uint32_t device, uint32_t pid);
void engine_device_error(struct engine *e, uint32_t device, uint32_t error);

#endif
