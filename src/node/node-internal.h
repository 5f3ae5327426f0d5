/* SPDX-License-Identifier: Apache-2.0 */
/* What the files node*.c share; nobody else includes it. */
#ifndef NODE_NODE_INTERNAL_H
#define NODE_NODE_INTERNAL_H

#include <limits.h>
#include <sys/queue.h>

#include "node/account.h"
#include "agent/door.h"
#include "node/network.h"
#include "node/node-library.h"
#include "node/node-slot.h"
#include "node/node.h"
#include "core/arbiter.h"
#include "spec/given.h"
#include "access/page.h"
#include "kube/cache.h"
#include "kube/event.h"
#include "kube/write.h"
#include "kubelet/plugin.h"
#include "kubelet/podres.h"

#define NODE_NOTE 200
#define NODE_FIELD_MANAGER "divvyd"
#define NODE_INSECURE \
	"any container that sets NVIDIA_VISIBLE_DEVICES gets devices: set " \
	"accept-nvidia-visible-devices-envvar-when-unprivileged = false in the node's " \
	"/etc/nvidia-container-runtime/config.toml"

/* Of pods of other nodes: no slot of the kubelet's has such a name. */
#define NODE_SERVED_SLOT "remote-"

struct start;      /* node-start.c */
struct serve;      /* node-serve.c */
struct remote;     /* node-remote.c */
struct identities; /* node-identity.c */
struct held_identity;
struct node_peers;   /* node-peers.c */
struct gang;         /* node-gang.c */
struct node_page;    /* node-page.c */
struct allocation;   /* node-allocate.c */
struct unknown_slot; /* node-unknown.c */

/* node-usage.c */
struct slot_usage {
	uint32_t tenant;      /* id of whom this is; 0: nobody */
	uint64_t used_ns;     /* device time up to the last look */
	uint64_t last_use_ns; /* since 1970 */
	bool is_idle;
};

/* Its number is the plugin's id and the CDI name. */
struct slot {
	uint32_t number;
	char id[16];
	uint32_t tenant; /* id; 0: free */
	struct door *door;
	struct remote *remote; /* its devices are elsewhere, and so is its tenant; NULL: not */
	bool is_over;          /* its container has ended: the tenant goes with the last process */
	bool is_written;       /* the slot's CDI file is there */
	bool is_kept;      /* beyond what the devices have: its container was there before them */
	uint64_t since_ns; /* that it has this tenant */
	/* When the kubelet last asked for it; 0: not since the start. */
	uint64_t allocated_ns;
	char taker_uid[64], taker[64]; /* the container that it was for then; "": not known */
	uint64_t denied;               /* allocations refused to it, as was seen */
	uint64_t over_ns;              /* when that was last told; 0: never */
	char note[NODE_NOTE];
	struct slot_usage usage;
	/* Who had it last, for what becomes known of the devices a moment later. */
	struct tenant_pod last;
	uint64_t last_devices, last_ns; /* a bit for each; when it ended, 0: there was nobody */
};

struct pool_device {
	char placeholder[254]; /* the pod that holds it for us; "": none */
	uint64_t missed_ns;    /* since then the kubelet does not list it; 0: it does */
	bool is_known;         /* the kubelet has said since our start who has it, or nobody */
};

struct node {
	struct agent *agent;
	struct node_options options;
	char library[PATH_MAX], plugin_folder[PATH_MAX], podres_socket[PATH_MAX];
	char cgroup_root[512];

	struct kube_config *config;
	struct kube_client *client;
	struct kube_recorder *recorder;
	struct kube_cache *pods;   /* of this node */
	struct kube_cache *wishes; /* its GPUNode */
	struct kube_cache *policies;

	struct node_page *page; /* NULL: nothing is served */
	struct plugin *plugin;
	char plugin_reason[128]; /* why the kubelet does not know us */
	struct podres *podres;
	struct podres_question *sweep;
	uint64_t sweep_asked_ns;

	bool has_old_libraries; /* as far as is known */

	/* First those that the kubelet is offered, behind them those of pods of other nodes. */
	struct slot *slots;
	uint32_t n_slots, n_offered;
	uint32_t n_regular;  /* of n_offered: NODE_SLOTS_EACH of a device, before those kept */
	struct serve *serve; /* NULL: this node's devices are for its own pods alone */
	struct identities *identities;  /* NULL: not needed so far */
	struct held_identity *identity; /* of the node itself; NULL: not needed so far */
	struct node_peers *peers;       /* NULL: nothing is measured */
	bool has_resumed;
	LIST_HEAD(, allocation) allocations;
	LIST_HEAD(, unknown_slot) unknown_slots;
	LIST_HEAD(, start) starts;
	LIST_HEAD(, gang) gangs;
	struct loop_timer tick;
	uint64_t next_sweep_ns, next_look_ns;

	uint64_t epoch;     /* the newest seen */
	uint64_t ill;       /* a bit for each device, as was told */
	uint64_t lost;      /* ... of these the ones that are gone */
	char conflict[64];  /* resource of another plugin for GPUs; "": none */
	char no_cordon[96]; /* a cordon of no device of ours, as was told; "": none */
	bool is_insecure;   /* the runtime gives devices to who sets a variable */
	bool is_insecure_told;
	bool is_kubelet_new;
	bool is_pid_hidden; /* our pid namespace is not the kubelet's */

	/* node-pool.c */
	struct {
		bool is_on, has_changed;
		bool is_wanted; /* GPUNode.spec.pool; is_on also while placeholders are left */
		uint64_t next_ns;
		struct loop_timer soon;
		uint64_t awaited_ns; /* since when a placeholder has no device yet; 0: none */
		struct podres_question *question;
		struct pool_device device[ARBITER_DEVICES];
	} pool;

	/* node-faults.c */
	char missing[ARBITER_DEVICES][SPEC_LABEL]; /* UUIDs of devices that were here before */
	uint32_t n_missing;
	char missing_note[NODE_NOTE], driver_note[NODE_NOTE]; /* as reported; "": no fault */

	/* node-network.c */
	struct network_set networks;
	uint64_t next_network_ns;

	/* node-status.c */
	struct loop_timer status_timer;
	struct kube_call *status_call;
	json_t *status_sent, *status_seen;        /* under way; as the server has it */
	uint64_t status_began_ns, status_rest_ns; /* the last one's begin; when the next may */

	/* node-start.c */
	json_t *space_seen; /* the namespace that was read last, and when */
	uint64_t space_seen_ns;

	/* node-usage.c */
	struct accounts accounts;
	json_t *accounts_told; /* as the status says them; NULL: there are none yet */
	bool is_account_new, has_account_file;
	struct save_job *save_job; /* the disk worker's; one at a time */
	uint64_t began_real_ns, accounted_ns, save_accounts_ns, tell_accounts_ns;

	/* node-lease.c */
	struct loop_timer lease_timer;
	struct kube_call *lease_call;
	bool is_lease_missing;
	bool is_lease_current; /* the last write succeeded: lease_measured is what readers have */
	char *lease_measured;  /* as written last; NULL: nothing */
	uint32_t lease_early;  /* writes before the next renewal that are left */
	uint64_t lease_refill_ns; /* when there is one more */
};

/* ---- node-pod.c: what of a pod's object matters here ---- */

/* What a container was given, and the same as a spec. */
struct node_given {
	struct given_container is;
	struct spec spec;
	struct given_group group; /* of the pod */
	uint64_t epoch;
};
/* -ENOENT: nothing; -EINVAL: what cannot be. Both with a sentence. -ENOMEM. */
int node_given(
	const json_t *pod, const char *container, struct node_given *ret_given, struct error *err);
/* Its group alone, "" for none; -EINVAL, -ENOMEM. */
int node_given_group(const json_t *pod, struct given_group *ret_group, struct error *err);
/* All that it was given. As given_parse(). */
int node_given_all(const json_t *pod, struct given *ret_given, struct error *err);
bool node_has_given(const json_t *pod); /* any of its containers */
/* It will not run again; the pod as a whole, or that container of it. */
bool node_is_over(const json_t *pod, const char *container);
bool node_is_leaving(const json_t *pod);
bool node_is_init(const json_t *pod, const char *container);
/* An init container of it has ended. */
bool node_has_prepared(const json_t *pod);
/* What the kubelet has written down of devices and who has them, the caller's; NULL: nothing. */
json_t *node_checkpoint(const struct node *node);
/*
 * A slot goes from an init container to one that follows: which of them, in the order in which they
 * run, starts now? `has_tenant` says who had it last; the name is borrowed from `names`. NULL: the
 * pod's status does not say it yet.
 */
const char *node_who_starts(
	const json_t *pod, const char *const *names, size_t n, const char *has_tenant);

/* Type "Normal" or "Warning"; fmt makes the message. */
void node_pod_event(struct node *node, const struct tenant_pod *pod, bool is_warning,
	const char *reason, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void node_event(struct node *node, bool is_warning, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- node-slots.c ---- */

/*
 * As many as the devices have; those of tenants that were there before have them again. With fewer
 * devices than before, the slots of containers that the kubelet still has are kept beside those.
 */
int node_slots_new(struct node *node, struct error *err);
struct slot *node_slot(struct node *node, const char *id);
/* How many the kubelet is offered, those that take nobody new included. */
uint32_t node_slots_total(const struct node *node);
/* What is kept and the kubelet has for nobody any more is not offered any more. */
bool node_has_kept_slots(const struct node *node);
void node_drop_kept(struct node *node, const struct podres_list *list);
struct tenant *node_tenant(struct node *node, const struct slot *slot);
/* Is it of a pod of another node? (Or of one of this that reaches its devices like those.) */
bool node_slot_is_served(const struct node *node, const struct slot *slot);
/* Whose it is, with devices here or elsewhere; NULL: nobody's. */
const struct tenant_pod *node_slot_pod(struct node *node, const struct slot *slot);
/* "GPU-..." cordoned by an administrator? */
bool node_is_cordoned(const struct node *node, const char *uuid);
int node_slot_folder(const struct node *node, const struct slot *slot, char *ret, size_t size);
/* Opens the door of the slot's tenant. */
int node_slot_open(struct node *node, struct slot *slot, struct tenant *tenant, struct error *err);
/* Tenant and door go at once. */
void node_slot_clear(struct node *node, struct slot *slot);
/* Nobody new comes in; who is in still counts. */
void node_slot_end(struct node *node, struct slot *slot);
/* What the kubelet is offered may have changed. */
void node_offer(struct node *node);

/* ---- node.c ---- */

/* A served pod has changed, or is gone. */
void node_served_changed(struct node *node, const struct kube_entry *entry);
void node_served_gone(struct node *node, const char *uid);
/* node->identities is there. */
int node_need_identities(struct node *node, struct error *err);
/* node->identity is there, or asked for; it is there once. */
int node_need_own_identity(struct node *node, struct error *err);
void node_saw_epoch(struct node *node, uint64_t epoch);

/* ---- node-dialect.c ---- */

#define NODE_ENV_MAX 32u
#define NODE_ENV_NAME 64u
#define NODE_ENV_VALUE 112u
struct node_env {
	struct node_variable {
		char name[NODE_ENV_NAME], value[NODE_ENV_VALUE];
	} v[NODE_ENV_MAX];
	uint32_t n;
};
/* Of a container of that pod; none where it speaks no dialect, or not all of it is known here. */
void node_env_read(const struct node *node, const json_t *pod, const char *container,
	struct node_env *ret_env);

/* ---- node-allocate.c: Allocate ---- */

/* A container that the kubelet allocates a slot to. */
struct node_taker {
	const json_t *pod; /* the cache's */
	char uid[64], container[GIVEN_NAME];
};
/*
 * Which one it is, out of what the kubelet lists meanwhile. -EAGAIN with a sentence: that is not
 * known yet, or not any more.
 */
int allocate_find_taker(const struct node *node, const struct podres_list *list,
	struct node_taker *ret_taker, struct error *err);
void allocate_slots(struct plugin_request *request);
void allocate_free_all(struct node *node);

/* ---- node-start.c: PreStartContainer ---- */

void start_pre_start(struct plugin_request *request);
/*
 * The same for a container of another node, whose link has asked for it: who waits for the answer
 * is told by serve_answer_all(), later.
 */
int start_serve(
	struct node *node, struct slot *slot, const struct tenant_pod *pod, struct error *err);
/* Is a link's question for that container under way? */
bool start_is_asked(const struct node *node, const char *uid, const char *container);
/* Is one under way for that slot? */
bool start_has_slot(const struct node *node, const struct slot *slot);
void start_free_all(struct node *node);
/* The pod's given keys, applied to a tenant that runs; what cannot be is its note. */
void start_apply(struct node *node, struct slot *slot, struct tenant *tenant, const json_t *pod);

/* ---- node-unknown.c ---- */

/* The kubelet asks for a slot that there is not: the pod that has it gets an Event. */
void unknown_slot(struct plugin *plugin, const char *id, const char *why);
void unknown_free_all(struct node *node);

/* ---- node-gang.c ---- */

/*
 * Whether so many of the pod's group are bound that its containers may start. 0: they may, also
 * without a group; -EAGAIN with a sentence: not yet.
 */
int gang_may_start(struct node *node, const char *namespace_name, const struct given_group *group,
	struct error *err);
void gang_tick(struct node *node, uint64_t now);
void gang_free_all(struct node *node);

/* ---- node-overcommit.c ---- */

/*
 * How far the policies of a namespace (its object) let its tenants share memory: 1/1000. -EAGAIN
 * with a sentence: the policies are not known yet.
 */
int overcommit_of(
	const struct node *node, const json_t *space, uint32_t *ret_overcommit, struct error *err);
/* The device's book from now on: for who is there and one more; 0: one that shares no memory. */
void overcommit_set(struct node *node, const struct device *device, uint32_t overcommit);

/* ---- node-pool.c ---- */

/* Of a resource that stands for GPUs, whoever serves it. */
bool node_is_gpu(const char *resource);
int node_pool_new(struct node *node); /* -ENOMEM */
void node_pool_free(struct node *node);
/* The kubelet is asked, now and then, who has the devices. */
void node_pool_look(struct node *node, uint64_t now);
/* A pod of this node has changed or is gone. */
void node_pool_pod_changed(struct node *node);
/* May new tenants come there? Always where the node is none of the pool's. */
bool node_pool_is_open(const struct node *node, const struct device *device);
/* Is it another device plugin's now? Also before it is known whose the node's devices are. */
bool node_pool_is_native(const struct node *node, const struct device *device);
/* Name of the pod that holds it; NULL: none does, or no pool. */
const char *node_pool_placeholder(const struct node *node, const struct device *device);

/* ---- node-page.c ---- */

/* Serves at options.listen, in a thread of its own. */
int node_page_new(struct node *node, struct error *err);
void node_page_free(struct node *node);

/* ---- node-status.c ---- */

/* Something in it may have changed: looked at soon, written if so. */
void node_status_touch(struct node *node);

/* ---- node-faults.c ---- */

/* GPUNode.status, as it was before our first write of it. */
void faults_seen(struct node *node, const json_t *status);
/* The GPUNode was deleted: no device is missing any more. */
void faults_forget(struct node *node);
/* Every some seconds: what has changed is reported. */
void faults_look(struct node *node);
bool faults_is_missing(const struct node *node, const char *uuid);
uint32_t faults_n_missing(const struct node *node); /* without those that are cordoned */
json_t *faults_missing_json(const struct node *node);

/* ---- node-network.c ---- */

void node_network_look(struct node *node, uint64_t now);
json_t *node_network_json(struct node *node); /* the caller's */
int node_status_new(struct node *node);
void node_status_free(struct node *node);
/* GPUNode is new to us: what it says is compared with what is. */
void node_status_seen(struct node *node, const json_t *object);

/* ---- node-usage.c ---- */

/* What the state folder has; before the first tenant. */
void node_usage_load(struct node *node);
/* Our own GPUNode, for where that has nothing. */
void node_usage_seen(struct node *node, const json_t *status);
/* Once a second. */
void node_usage_tick(struct node *node, uint64_t now);
/* Adds what the status says of a tenant's use. */
void node_usage_describe(const struct slot *slot, json_t *tenant);
void node_usage_free(struct node *node);

/* ---- node-log.c ---- */

/* Writes down that the tenant has what it has: "granted", "kept", "changed", "ended". */
void node_log(const struct node *node, const char *what, const struct tenant *tenant);

/* ---- node-watch.c: what is told of running tenants, devices and strangers ---- */

void watch_start(struct node *node);
void watch_tick(struct node *node);
/* What takes longer to change. */
void watch_look(struct node *node);
/* The slot's tenant ends: what was refused to it last. */
void watch_slot_ends(struct node *node, struct slot *slot);

/* ---- node-lease.c ---- */

int node_lease_new(struct node *node);
/* Each second: whether what was measured is news. */
void node_lease_look(struct node *node, uint64_t now);
void node_lease_free(struct node *node);

#endif
