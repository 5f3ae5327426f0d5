/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon as one object: its parts, and the state that they share. Only the loop's thread uses
 * it; the worker threads (threads/thread-worker.h) and the HTTP thread (metrics-thread.h) do not
 * see it.
 *
 * A batch of the loop may still refer to a tenant, a process or a connection that ends within the
 * batch. Such an object is marked as dead, and agent_after_batch() frees it between batches.
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

struct agent;
struct buf;
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
struct xid_watch;

struct agent_options {
	const char *runtime_dir; /* NULL: agent_runtime_dir() chooses */
	const char *usage_dir;   /* NULL: $STATE_DIRECTORY, or the runtime folder */
	const char *simulate;    /* "2xH200-141Gi"; NULL: real devices if there are any */
	const char *metrics;     /* "unix:PATH", "127.0.0.1:PORT"; NULL: none */
	void (*add_metrics)(const struct agent *agent, struct buf *out); /* further; NULL: none */
	const char *host;   /* the machine's name in these metrics; NULL: its host name */
	const char *policy; /* the arbiter's policy; NULL: share */
	const char *tenants_conf;
	const char *apply;        /* resource-config.txt to follow: see apply.h; NULL: none */
	const char *police_allow; /* spared by --police: "EXECUTABLE,uid:N,..." */
	/* NULL: the daemon finds the devices. Otherwise it takes ownership of this set (tests). */
	struct device_set *devices;
	struct loop *loop;     /* borrowed; NULL: the daemon makes its own */
	uint64_t exit_idle_ns; /* 0: never */
	/* least time between two searches for a container's processes; 0: CONTAINER_WATCH_NS */
	uint64_t search_ns;
	uint32_t oversubscribe_permille;
	bool police;
	bool replace; /* end a running daemon and take its place */
	/* Refuse processes of no tenant; otherwise they get the default tenant. */
	bool refuse_unmanaged;
	bool is_gate_off;
	bool may_have_no_device;     /* start without devices instead of simulating one */
	bool does_ignore_passrights; /* behave as on a kernel without SO_PASSRIGHTS (tests) */
};

LIST_HEAD(tenant_list, tenant);
LIST_HEAD(process_list, process);
LIST_HEAD(conn_list, conn);

struct agent {
	struct agent_options options;
	struct loop *loop;
	char runtime_dir[PATH_MAX / 2], usage_dir[PATH_MAX / 2];
	char socket_path[PATH_MAX];
	/* Folder of the socket for programs, which refuses control; containers mount the folder. */
	char programs_dir[PATH_MAX];
	uint64_t epoch; /* number of this daemon's run; it changes at each restart */
	uint64_t started_ns;
	bool is_system;   /* runs as root */
	bool is_leaving;  /* the daemon saves its state and ends after this batch */
	bool is_replaced; /* another daemon has the listening socket already */

	struct worker *worker;
	struct worker *disk; /* for files that may be on a slow disk */
	struct device_set *devices;
	struct arbiter *arbiter;
	struct state *state;
	struct conf *conf;
	struct memory *memory;
	struct token *token;
	struct usage *usage;
	struct control *control;
	struct metrics_thread *metrics; /* HTTP server for options.metrics; NULL: none */
	struct audit *audit;
	struct apply *apply;
	struct names *names;
	struct xid_watch *xid_watch;
	struct container_watch *container_watch; /* NULL until the first search for a container */

	struct tenant_list tenants;
	struct process_list processes;
	struct conn_list conns;
	struct users *users;
	struct closer *closer;
	struct loop_timer requests; /* agent-client.c: executes the waiting requests */
	TAILQ_HEAD(, user) turns;   /* users with a waiting request */
	uint32_t n_tenants, n_processes, n_conns;
	uint64_t n_refused_grants;  /* containers of pods that the daemon refused to start */
	uint32_t n_missing_devices; /* set by node/node-faults.c */
	struct log_limit refusals;  /* limits log lines about refused processes */
	uint32_t next_tenant;       /* id of the next tenant */
	bool has_dead;              /* agent_after_batch() has something to free */

	int listen_fd, programs_fd;
	struct listener listen, programs;
	/* Fires once a second while a tenant, process or connection exists; ends an idle daemon. */
	struct loop_timer tick;
	uint64_t idle_since_ns;
	/* Measures the silence of connections, without time in which the daemon did not run. */
	struct clock_listener listener;
	int lock_fd; /* locks the runtime folder */

	/* in a cluster: see tenant-socket.h */
	bool has_pods;           /* pods get devices only through the device plugin's slots */
	const char *pod_cgroups; /* the kubelet's cgroup; NULL: the usual paths of kubelets */
	/*
	 * Whether the pod with that UID may use a tenant that has another pod, because both pods
	 * name the tenant's claim. NULL: never.
	 */
	bool (*may_share)(void *data, const struct tenant *tenant, const char *pod_uid);
	void *may_share_data;
	/* The daemon has read the pod of at least one process from its cgroup. */
	bool has_read_pods;
	bool is_cgroup_hidden; /* the daemon cannot see the cgroups of pods */
};

/*
 * Finds the folder of the socket and of the state: `chosen`, $DIVVY_RUNTIME_DIR, or a default.
 * Returns 0 or -errno.
 */
int agent_runtime_dir(const char *chosen, char *ret_dir, size_t size, struct error *err);

/*
 * Starts the parts in order: runtime folder, workers, devices and their locks, state, tenants,
 * socket. After success the daemon serves as soon as its loop runs.
 */
int agent_new(const struct agent_options *options, struct agent **ret_agent, struct error *err);
/* Runs batches until agent_leave(). */
int agent_run(struct agent *agent);
/* Saves the state, removes the socket and the locks, and frees the agent. */
void agent_free(struct agent *agent);
void agent_leave(struct agent *agent);
/*
 * Reads tenants.conf again. A worker reads the file, because the name service, which knows the
 * users' ids, may block.
 */
void agent_reload(struct agent *agent);

/* Starts the tick. Callers use this when the first tenant, process or connection appears. */
void agent_wake_tick(struct agent *agent);

/*
 * Acts between two batches: lets the token decide, and frees dead objects. agent_run() calls this
 * function; a test that drives the loop itself calls it after each batch.
 */
void agent_after_batch(struct agent *agent);

#endif
