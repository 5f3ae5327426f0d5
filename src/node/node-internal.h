/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files node*.c; no other file includes this header. */
#ifndef NODE_NODE_INTERNAL_H
#define NODE_NODE_INTERNAL_H

#include <limits.h>
#include <sys/queue.h>

#include "node/account.h"
#include "agent/tenant-socket.h"
#include "node/network.h"
#include "node/node-files.h"
#include "node/node-library.h"
#include "node/node-slot.h"
#include "node/node.h"
#include "core/arbiter.h"
#include "spec/assigned.h"
#include "access/access-page.h"
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

/*
 * Prefix of the names of the slots for pods of other nodes. The kubelet is not offered these slots.
 */
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
struct dra;          /* node-dra.h */

/* node-usage.c */
struct slot_usage {
	uint32_t tenant;      /* the tenant's id; 0: none */
	uint64_t used_ns;     /* tenant's device time at the last node_usage_tick() */
	uint64_t last_use_ns; /* CLOCK_REALTIME */
	bool is_idle;
};

/* A slot. Its number is also its id in the device plugin and its CDI name. */
struct slot {
	uint32_t number;
	char id[16];
	uint32_t tenant; /* the tenant's id; 0: the slot is free */
	struct tenant_socket *tenant_socket;
	/*
	 * Set if the container's devices are on another node, or reached through a worker; else
	 * NULL.
	 */
	struct remote *remote;
	bool is_over;    /* the container has ended; the tenant ends with its last process */
	bool is_written; /* the slot's CDI file exists */
	/* node-dra-tenant.c: the slot belongs to a claim, and its tenant ends with the claim. */
	bool is_claimed;
	/* An extra slot beyond n_regular, for a container that had it before devices were lost. */
	bool is_kept;
	uint64_t since_ns; /* start of the present tenant */
	/* time of the kubelet's last Allocate for the slot; 0: none since this daemon's start */
	uint64_t allocated_ns;
	uint32_t n_writing;  /* allocations whose files are not on the disk yet */
	bool is_list_remote; /* the loader's list written last names the remote libraries */
	/* pod UID and container of the last Allocate; "": not known */
	char taker_uid[64], taker[64];
	uint64_t denied;  /* refused allocations up to the last watch_tick() */
	uint64_t over_ns; /* time of the last Event about refusals; 0: never */
	char note[NODE_NOTE];
	struct slot_usage usage;
	/*
	 * The slot's last tenant. If a device of this tenant is reported lost soon after the
	 * tenant's end, the tenant's pod gets the Event.
	 */
	struct tenant_pod last;
	/*
	 * last_devices: one bit for each device of the last tenant. last_ns: time of its end; 0: no
	 * tenant so far.
	 */
	uint64_t last_devices, last_ns;
};

struct pool_device {
	char placeholder[254]; /* pod that reserves the device for divvy; "": none */
	/* since when no container has the device; 0: a container has it */
	uint64_t missed_ns;
	/*
	 * Since this daemon's start, the kubelet's list has shown which container, if any, has the
	 * device.
	 */
	bool is_known;
};

struct node {
	struct agent *agent;
	struct node_options options;
	char library[PATH_MAX], plugin_folder[PATH_MAX], podres_socket[PATH_MAX];
	char cgroup_root[512];

	struct kube_config *config;
	struct kube_client *client;
	struct kube_recorder *recorder;
	struct kube_cache *pods;     /* pods of this node */
	struct kube_cache *gpunodes; /* this node's GPUNode: node_gpunode() */
	struct kube_cache *policies;

	struct node_page *page;  /* NULL: no HTTP server */
	struct dra *dra;         /* NULL: the node's pods get slots from the device plugin */
	struct plugin *plugin;   /* NULL: dra is not NULL */
	char plugin_reason[128]; /* why the device plugin is not registered with the kubelet */
	struct podres *podres;
	struct podres_question *sweep;
	uint64_t sweep_asked_ns;

	bool has_old_libraries;      /* divvyd has not yet removed all old libraries */
	struct sweep_job *sweep_job; /* node-sweep.c: one at a time; NULL: none */

	/* First the n_offered slots for the kubelet, then the slots for pods of other nodes. */
	struct slot *slots;
	uint32_t n_slots, n_offered;
	/* The first part of n_offered: NODE_SLOTS_EACH for each device; kept slots follow. */
	uint32_t n_regular;
	struct serve *serve;            /* NULL: only this node's pods use its devices */
	struct identities *identities;  /* NULL: not needed so far */
	struct held_identity *identity; /* the node's own identity; NULL: not needed so far */
	struct node_peers *peers;       /* NULL: no measurements */
	bool has_resumed;
	LIST_HEAD(, allocation) allocations;
	LIST_HEAD(, unknown_slot) unknown_slots;
	LIST_HEAD(, start) starts;
	LIST_HEAD(, gang) gangs;
	struct loop_timer tick;
	uint64_t next_sweep_ns, next_look_ns;

	uint64_t epoch; /* the newest scheduler epoch seen */
	/* one bit for each fault of each device, as last reported: enum device_fault */
	uint8_t faults[ARBITER_DEVICES];
	/* time of the last Event about an Xid on the device without a known pod; 0: none yet */
	uint64_t xid_event_ns[ARBITER_DEVICES];
	/* resource of another device plugin for GPUs, or name of another DRA driver; "": none */
	char conflict[64];
	bool is_conflict_dra;
	char rival[64]; /* node-rival.c: another DRA driver that hands out the GPUs; "": none */
	struct kube_call *rival_call;
	uint64_t next_rival_ns;
	/* A cordon that names no device of this node, as last reported; "": none. */
	char no_cordon[96];
	bool is_insecure; /* any container can get devices by setting a variable: NODE_INSECURE */
	bool is_insecure_reported;
	bool is_kubelet_new;
	bool is_pid_hidden; /* this daemon's pid namespace is not the kubelet's */

	/* node-pool.c */
	struct {
		bool is_on, has_changed;
		bool is_wanted; /* GPUNode.spec.pool; is_on stays set while placeholders are left */
		uint64_t next_ns;
		struct loop_timer soon;
		/* since when a placeholder waits for a device; 0: none waits */
		uint64_t awaited_ns;
		struct podres_question *question;
		struct pool_device device[ARBITER_DEVICES];
	} pool;

	/* node-faults.c */
	/* UUIDs of devices that the node had, and the driver no longer lists */
	char missing[ARBITER_DEVICES][SPEC_LABEL];
	uint32_t n_missing;
	char missing_note[NODE_NOTE], driver_note[NODE_NOTE]; /* as last reported; "": no fault */

	/* node-network.c */
	struct network_set networks;
	uint64_t next_network_ns;

	/* node-status.c */
	struct loop_timer status_timer;
	struct kube_call *status_call;
	/* status_sent: the patch in progress; status_seen: the server's status. */
	json_t *status_sent, *status_seen;
	/* Start of the last patch; earliest time of the next. */
	uint64_t status_began_ns, status_rest_ns;

	/* node-start.c */
	json_t *space_seen; /* the Namespace object that was read last, at space_seen_ns */
	uint64_t space_seen_ns;

	/* node-usage.c */
	struct accounts accounts;
	json_t *accounts_reported; /* the accounts in the last status; NULL: none yet */
	bool is_account_new, has_account_file;
	struct save_job *save_job; /* a job of the disk worker; one at a time */
	uint64_t began_real_ns, accounted_ns, save_accounts_ns, report_accounts_ns;

	/* node-lease.c */
	struct loop_timer lease_timer;
	struct kube_call *lease_call;
	bool is_lease_missing;
	bool is_lease_current;    /* the last write succeeded, so readers have lease_measured */
	char *lease_measured;     /* the measured values that were written last; NULL: none */
	uint32_t lease_early;     /* early writes of the Lease that are still allowed now */
	uint64_t lease_refill_ns; /* time when lease_early grows by one */
};

/* ---- node-pod.c: the parts of a pod's object that divvyd reads ---- */

/* The assigned keys of one container, also as a spec. */
struct node_assigned {
	struct assigned_container is;
	struct spec spec;
	struct assigned_group group; /* the pod's group */
	uint64_t epoch;
};
/*
 * Reads the assigned keys of a container. Returns 0 or -ENOMEM; with a message, -ENOENT if there
 * are none, or -EINVAL if they are invalid.
 */
int node_assigned(const json_t *pod, const char *container, struct node_assigned *ret_assigned,
	struct error *err);
/* Reads the pod's group only; its name is "" if there is none. Returns 0, -EINVAL or -ENOMEM. */
int node_assigned_group(const json_t *pod, struct assigned_group *ret_group, struct error *err);
/* Reads the assigned keys of all containers, like assigned_parse(). */
int node_assigned_all(const json_t *pod, struct assigned *ret_assigned, struct error *err);
bool node_has_assigned(const json_t *pod); /* whether any container has assigned keys */
/* Whether the pod, or this container of it, has ended and will not run again. */
bool node_is_over(const json_t *pod, const char *container);
bool node_is_terminating(const json_t *pod);
bool node_is_init(const json_t *pod, const char *container);
/* Whether an init container of the pod has ended. */
bool node_has_prepared(const json_t *pod);
/*
 * Reads the kubelet's checkpoint of devices and their containers; the caller owns the result. NULL:
 * unreadable.
 */
json_t *node_checkpoint(const struct node *node);
/*
 * A slot passes from an init container to a container that runs later. Of `names`, in the order in
 * which the containers run, returns the name of the container that starts now. The result is
 * borrowed from `names`. has_tenant: the container that had the slot last. NULL: the pod's status
 * does not show it yet.
 */
const char *node_find_starting(
	const json_t *pod, const char *const *names, size_t n, const char *has_tenant);

/* The GPUNode of this node as last seen; NULL: none yet. */
const json_t *node_gpunode(const struct node *node);
/* Record an Event of type Warning or Normal; fmt makes the message. */
void node_pod_event(struct node *node, const struct tenant_pod *pod, bool is_warning,
	const char *reason, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void node_event(struct node *node, bool is_warning, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- node-slots.c ---- */

/*
 * Makes the slots of all devices, and assigns earlier tenants their slots again. If there are fewer
 * devices than before, slots of containers that the kubelet still has are kept as extra slots.
 */
int node_slots_new(struct node *node, struct error *err);
struct slot *node_slot(struct node *node, const char *id);
/* Number of slots that the kubelet is offered, including those that take no new container. */
uint32_t node_slots_total(const struct node *node);
/*
 * Whether there are kept slots. node_drop_kept() stops offering the kept slots that no container on
 * the kubelet's list has.
 */
bool node_has_kept_slots(const struct node *node);
void node_drop_kept(struct node *node, const struct podres_list *list);
struct tenant *node_tenant(struct node *node, const struct slot *slot);
/* Accepts NULL as tenant. */
bool node_is_tenant_on(const struct tenant *tenant, const struct device *device);
/*
 * Whether the slot serves a pod of another node, or a pod of this node that uses a device here
 * through a worker.
 */
bool node_slot_is_served(const struct node *node, const struct slot *slot);
/* The pod of the slot, with devices here or elsewhere; NULL: none. */
const struct tenant_pod *node_slot_pod(struct node *node, const struct slot *slot);
/* Whether an administrator has cordoned the device ("GPU-..."). */
bool node_is_cordoned(const struct node *node, const char *uuid);
/* The folder of the slot's files. -ENAMETOOLONG: the path does not fit into ret. */
int node_slot_folder(const struct node *node, const struct slot *slot, char *ret, size_t size,
	struct error *err);
/*
 * Has the disk worker write the slot's folder and the loader's list; is_list_remote says which
 * list. See slot_files_write(). -ENAMETOOLONG, -ENOMEM.
 */
int node_slot_write_files(const struct node *node, const struct slot *slot, slot_files_fn *done,
	void *data, struct slot_files **ret_files, struct error *err);
/* Assigns the slot to the tenant, and opens its tenant socket if the container is on this node. */
int node_slot_open(struct node *node, struct slot *slot, struct tenant *tenant, struct error *err);
/* Ends the slot's tenant and closes its socket at once. */
void node_slot_clear(struct node *node, struct slot *slot);
/* Lets no new process into the tenant, which ends when its last process has ended. */
void node_slot_end(struct node *node, struct slot *slot);
/* Updates the list of slots that the kubelet is offered. */
void node_offer(struct node *node);

/* ---- node.c ---- */

/* A pod of another node has changed or was deleted. */
void node_served_changed(struct node *node, const struct kube_entry *entry);
void node_served_removed(struct node *node, const char *uid);
/* Makes sure that node->identities exists. */
int node_need_identities(struct node *node, struct error *err);
/* Makes sure that node->identity exists or is requested; it exists only once. */
int node_need_own_identity(struct node *node, struct error *err);
void node_saw_epoch(struct node *node, uint64_t epoch);

/* Looks again who hands out the node's GPUs. */
void node_look_for_others(struct node *node);
/* "another device plugin serves nvidia.com/gpu on this node". Returns ret. */
#define NODE_CONFLICT_TEXT 128u
const char *node_conflict_text(const struct node *node, char ret[static NODE_CONFLICT_TEXT]);

/* ---- node-rival.c ---- */

/*
 * The driver other than divvy's whose slices have a device with the UUID of a device here; NULL:
 * none. slices: a list of ResourceSlices, or NULL. Borrowed from it.
 */
const char *rival_in(const struct device_set *set, const json_t *slices);
/* Called once a second: asks the API server now and then. */
void rival_look(struct node *node, uint64_t now);

/* ---- node-sweep.c ---- */

/*
 * Has the disk worker delete the records of unused slots, and then the libraries that no record
 * names. A slot is in use if a container on the kubelet's list has it, or if it has a pod here.
 */
void node_sweep_libraries(struct node *node, const struct podres_list *list);
void node_sweep_free(struct node *node);

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
/*
 * Reads the variables that the pod's dialect promises its container. Sets none if the pod uses no
 * dialect, or if its grants are not fully known.
 */
void node_env_read(const struct node *node, const json_t *pod, const char *container,
	struct node_env *ret_env);

/* ---- node-allocate.c: Allocate ---- */

/* The container to which the kubelet allocates a slot. */
struct node_taker {
	const json_t *pod; /* borrowed from the cache */
	char uid[64], container[ASSIGNED_NAME];
};
/*
 * Finds the container in the list that the kubelet gives while it waits for the answer to Allocate.
 * -EAGAIN with a message: the container is not known yet, or no longer known.
 */
int allocate_find_taker(const struct node *node, const struct podres_list *list,
	struct node_taker *ret_taker, struct error *err);
void allocate_slots(struct plugin_request *request);
void allocate_free_all(struct node *node);

/* ---- node-dra.c: the DRA driver, in place of the device plugin ---- */

/*
 * Restores the prepared claims of an earlier divvyd, and registers the driver. Sets node->dra, also
 * on failure. Blocks.
 */
int node_dra_new(struct node *node, struct error *err);
/* Answers the kubelet's open requests, for up to 2 s. Runs the loop. Without a driver: nothing. */
void node_dra_drain(struct node *node);
void node_dra_free(struct node *node);
/* Call when a device, a cordon or the ownership of the devices may have changed. */
void node_dra_changed(struct node *node);
void node_dra_tick(struct node *node);
/*
 * The pod of a slot with is_claimed was deleted. If another pod uses the claim, the tenant is that
 * pod's from now on; it ends when the kubelet says so.
 */
void node_dra_pod_removed(struct node *node, struct slot *slot);
/* Why the kubelet has not registered the driver; NULL: it has. */
const char *node_dra_reason(const struct node *node);

/* ---- node-start.c: PreStartContainer ---- */

void start_pre_start(struct plugin_request *request);
/*
 * Starts the same check as start_pre_start() for a container of another node, whose link has asked.
 * serve_answer_all() answers the link later.
 */
int start_serve(
	struct node *node, struct slot *slot, const struct tenant_pod *pod, struct error *err);
/* Whether a link waits for the answer about that container. */
bool start_is_asked(const struct node *node, const char *uid, const char *container);
/* Whether a start with that slot is in progress. */
bool start_has_slot(const struct node *node, const struct slot *slot);
void start_free_all(struct node *node);
/* Applies the pod's assigned keys to a running tenant. Keys that cannot apply become its note. */
void start_apply(struct node *node, struct slot *slot, struct tenant *tenant, const json_t *pod);

/* ---- node-unknown.c ---- */

/*
 * Called when the kubelet asks for a slot that does not exist. The pod that has the slot by the
 * kubelet's list gets an Event.
 */
void unknown_slot(struct plugin *plugin, const char *id, const char *why);
void unknown_free_all(struct node *node);

/* ---- node-gang.c ---- */

/*
 * Whether enough pods of the group are bound for its containers to start. Returns 0 if so, or
 * without a group; -EAGAIN with a message if not yet.
 */
int gang_may_start(struct node *node, const char *namespace_name,
	const struct assigned_group *group, struct error *err);
void gang_tick(struct node *node, uint64_t now);
void gang_free_all(struct node *node);

/* ---- node-overcommit.c ---- */

/*
 * Gives the memory overcommit, in permille, that the GPUPolicies allow in a namespace. space: the
 * Namespace object. -EAGAIN with a message: the policies are not known yet.
 */
int overcommit_of(
	const struct node *node, const json_t *space, uint32_t *ret_overcommit, struct error *err);
/*
 * Sets the overcommit of the device's ledger: the GPUNode's own value, or the smallest that its
 * present tenants and a new tenant allow. overcommit: the most that the new tenant allows; 0: the
 * new tenant does not overcommit.
 */
void overcommit_set(struct node *node, const struct device *device, uint32_t overcommit);

/* ---- node-pool.c ---- */

/* Whether the resource stands for GPUs, of any device plugin. */
bool node_is_gpu(const char *resource);
int node_pool_new(struct node *node); /* -ENOMEM */
void node_pool_free(struct node *node);
/* Asks the kubelet from time to time which containers have the devices. */
void node_pool_look(struct node *node, uint64_t now);
/* A pod of this node has changed or was deleted. */
void node_pool_pod_changed(struct node *node);
/* Whether new tenants may come to the device. Always true if the node is not in the pool. */
bool node_pool_is_open(const struct node *node, const struct device *device);
/*
 * Whether another device plugin has the device now. Also true until the kubelet's list has shown
 * the owners of the node's devices.
 */
bool node_pool_is_native(const struct node *node, const struct device *device);
/* Name of the placeholder that reserves the device; NULL: none, or no pool. */
const char *node_pool_placeholder(const struct node *node, const struct device *device);

/* ---- node-page.c ---- */

/* Serves options.listen in a thread of its own. */
int node_page_new(struct node *node, struct error *err);
void node_page_free(struct node *node);

/* ---- node-status.c ---- */

/*
 * Call when something in the status may have changed. Soon compares the status, and writes it if it
 * differs.
 */
void node_status_touch(struct node *node);

/* ---- node-faults.c ---- */

/* Takes GPUNode.status as it was before this daemon's first write. */
void faults_seen(struct node *node, const json_t *status);
/* The GPUNode was deleted: no device counts as missing any more. */
void faults_forget(struct node *node);
/*
 * Clears the Xids of devices that GPUNode.spec.cleared names with exactly the time of their taint.
 */
void faults_clear(struct node *node, const json_t *gpu_node);
/* Looks for faults every few seconds, and reports changes. */
void faults_look(struct node *node);
bool faults_is_missing(const struct node *node, const char *uuid);
uint32_t faults_n_missing(const struct node *node); /* cordoned devices do not count */
json_t *faults_missing_json(const struct node *node);

/* ---- node-network.c ---- */

void node_network_look(struct node *node, uint64_t now);
json_t *node_network_json(struct node *node); /* the caller owns it */
int node_status_new(struct node *node);
void node_status_free(struct node *node);
/* Compares the present state with a GPUNode that the watch has found for the first time. */
void node_status_seen(struct node *node, const json_t *object);

/* ---- node-usage.c ---- */

/* Loads the accounts from the state folder. Call before the first tenant. */
void node_usage_load(struct node *node);
/* Takes the accounts of this node's GPUNode if the state folder has none. */
void node_usage_seen(struct node *node, const json_t *status);
/* Called once a second. */
void node_usage_tick(struct node *node, uint64_t now);
/* Adds the members about the tenant's usage to its entry in the status. */
void node_usage_describe(const struct slot *slot, json_t *tenant);
void node_usage_free(struct node *node);

/* ---- node-log.c ---- */

/* Writes a tenant's grant to the log; what: "granted", "kept", "changed" or "ended". */
void node_log(const struct node *node, const char *what, const struct tenant *tenant);

/* ---- node-watch.c: Events about running tenants, devices and unmanaged processes ---- */

void watch_start(struct node *node);
void watch_tick(struct node *node);
/*
 * Reports faulty devices, unmanaged processes and an insecure runtime. These change more slowly
 * than the conditions of watch_tick(), so the caller looks less often.
 */
void watch_look(struct node *node);
/* The slot's tenant ends: reports its last refused allocations. */
void watch_slot_ends(struct node *node, struct slot *slot);

/* ---- node-lease.c ---- */

int node_lease_new(struct node *node);
/* Called once a second: writes the Lease early if the measured values have changed. */
void node_lease_look(struct node *node, uint64_t now);
void node_lease_free(struct node *node);

#endif
