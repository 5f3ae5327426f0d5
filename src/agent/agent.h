/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon as one object: the parts and what they share. One thread (the loop's); the worker
 * thread (worker.h) and that of HTTP (metrics-thread.h) see none of this.
 *
 * Objects that a batch of the loop may still name (tenants, processes, connections) are marked dead
 * and freed by agent_reap() between batches.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/listener.h"
#include "base/log.h"
#include "base/loop.h"
#include "core/arbiter.h"

struct tenant;
struct process;
struct conn;
struct device_set;
struct worker;
struct state;
struct memory;
struct token;
struct usage;
struct control;
struct metrics_thread;
struct audit;
struct apply;
struct conf;
struct names;

struct agent_options {
	const char *runtime_dir; /* NULL: by the rules of agent_runtime_dir() */
	const char *usage_dir;   /* NULL: $STATE_DIRECTORY, or the runtime folder */
	const char *simulate;    /* "2xH200-141Gi"; NULL: real devices if there are any */
	const char *metrics;     /* "unix:PATH", "127.0.0.1:PORT"; NULL: none */
	const char *policy;      /* of the arbiter; NULL: share */
	const char *tenants_conf;
	const char *apply;          /* a Gemini file to follow; NULL: none */
	const char *police_allow;   /* executables and uid:N, comma-separated */
	struct device_set *devices; /* NULL: found; else these, which are taken over (tests) */
	uint64_t exit_idle_ns;      /* 0: never */
	uint32_t oversubscribe_permille;
	bool police;
	bool replace;          /* take over from a running daemon */
	bool refuse_strangers; /* those of no tenant; else they get the default one */
	bool is_gate_off;
	bool may_have_no_device;     /* instead of a simulated one */
	bool does_ignore_passrights; /* as where the kernel has no SO_PASSRIGHTS (tests) */
};

LIST_HEAD(tenant_list, tenant);
LIST_HEAD(process_list, process);
LIST_HEAD(conn_list, conn);

struct agent {
	struct agent_options options;
	struct loop *loop;
	char runtime_dir[PATH_MAX / 2], usage_dir[PATH_MAX / 2];
	char socket_path[PATH_MAX];
	char programs_dir[PATH_MAX]; /* of the socket that answers programs alone: for containers */
	uint64_t epoch;              /* of this daemon: differs after a restart */
	uint64_t started_ns;
	bool is_system;   /* runs as root */
	bool is_leaving;  /* saves state and ends after this batch */
	bool is_replaced; /* and another has the listening socket already */

	struct worker *worker;
	struct worker *seeker; /* for what may never end; NULL until there is such */
	struct worker *disk;   /* for files that may be on a slow disk */
	struct device_set *devices;
	struct arbiter *arbiter;
	struct state *state;
	struct conf *conf;
	struct memory *memory;
	struct token *token;
	struct usage *usage;
	struct control *control;
	struct metrics_thread *metrics; /* of options.metrics; NULL: none */
	struct audit *audit;
	struct apply *apply;
	struct names *names;

	struct tenant_list tenants;
	struct process_list processes;
	struct conn_list conns;
	struct users *users;
	struct closer *closer;
	struct loop_timer requests; /* client.c: executes those that wait */
	TAILQ_HEAD(, user) turns;   /* users with a waiting request */
	uint32_t n_tenants, n_processes, n_conns;
	uint64_t n_refused_grants;  /* containers of pods that were not let start */
	uint32_t n_missing_devices; /* node/node-faults.c */
	struct log_limit refusals;  /* of processes */
	uint32_t next_tenant;       /* id */
	bool has_dead;              /* agent_reap() has something to do */

	int listen_fd, programs_fd;
	struct listener listen, programs;
	struct loop_timer tick; /* once a second while anything lives: lifetimes, idle exit */
	uint64_t idle_since_ns;
	struct clock_listener listener; /* to connections that say or read nothing */
	int lock_fd;                    /* of the runtime folder */

	/* in a cluster (door.h) */
	bool has_pods;           /* they have shares by their slots alone */
	const char *pod_cgroups; /* the kubelet's; NULL: wherever kubelets have them */
	bool has_read_pods;      /* it was read of some process which pod it is in */
	bool is_cgroup_hidden;   /* it could not: pods' cgroups are not seen from ours */
};

/* Where the socket and the state live. DIVVY_RUNTIME_DIR wins. 0 or -errno. */
int agent_runtime_dir(const char *wished, char *ret_dir, size_t size, struct error *err);

/*
 * Starts everything in order: runtime folder, worker, devices and their locks, state, tenants,
 * socket. When it returns 0 the daemon serves as soon as its loop runs.
 */
int agent_new(const struct agent_options *options, struct agent **ret_agent, struct error *err);
/* Batches until agent_leave(). */
int agent_run(struct agent *agent);
/* Saves the state; removes the socket and the locks. */
void agent_free(struct agent *agent);
void agent_leave(struct agent *agent);
/* Reads tenants.conf again, in the background: its names are asked of the name service. */
void agent_reload(struct agent *agent);

/* Something lives: the tick runs. */
void agent_wake_tick(struct agent *agent);

/* Between batches: decides (token), frees what is dead. Called by agent_run; tests that drive the
 * loop themselves call it after each batch. */
void agent_after_batch(struct agent *agent);

#endif
