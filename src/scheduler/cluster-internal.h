/* SPDX-License-Identifier: Apache-2.0 */
/* The structs of the cluster, for the files cluster-*.c and decide*.c. See cluster.h. */
#ifndef SCHEDULER_CLUSTER_INTERNAL_H
#define SCHEDULER_CLUSTER_INTERNAL_H

#define HASH_NONFATAL_OOM 1

#include "base/hash.h"
#include "kuberules/fit.h"
#include "kuberules/labels.h"
#include "kuberules/view.h"
#include "place/place-mode.h"
#include "place/place.h"
#include "scheduler/cluster.h"
#include "scheduler/gpunode.h"
#include "scheduler/stages.h"

#define LEASE_DURATION_DEFAULT_NS (UINT64_C(40) * 1000000000)

struct cnode {
	UT_hash_handle hh;
	char *name;
	bool is_there; /* the Node object is in the API */
	bool has_gpus; /* the node's GPUNode object is in the API */
	struct gpunode gpus;
	bool is_tainted;               /* a device of the node has a taint */
	struct cnode *t_prev, *t_next; /* links of the list cluster.tainted */
	uint32_t at; /* index of the node in the placement model; PLACE_NONE: not in the model */
	/* The Lease of the node's divvyd. Its age counts from its last change, by our own clock. */
	bool has_lease, is_stale;
	char renewed[40];
	uint64_t lease_seen_ns, lease_duration_ns;
	struct cpod *pods;   /* pods on that node, bound or assumed */
	struct cpod *served; /* pods on other nodes that use devices of this one */
	/* The placement model's numbers of the networks in `gpus`; 0: not in the model. */
	uint32_t network[GPUNODE_NETWORKS_MAX];
	/* Tenants in the GPUNode's status that belong to no known pod. */
	uint32_t *orphans, n_orphans, orphans_room;
	uint32_t cpu_all; /* the node's capacities in the placement model */
	uint64_t memory_all;
};

struct cpod {
	UT_hash_handle hh;
	struct cpod *prev, *next;     /* links of the list cnode.pods */
	struct cpod *n_prev, *n_next; /* links of the list cluster.nominated */
	char *key;                    /* "namespace/name" */
	char *ns, *name, *uid;
	enum cpod_state state;
	struct cnode *node; /* NULL: none */
	/* node of the pod's devices if that is not the pod's own node; else NULL */
	struct cnode *server;
	struct cpod *sprev, *snext; /* links of the list cnode.served */
	json_t *json;               /* the pod's object while the pod waits; else NULL */
	struct assigned assigned;
	struct tenancy requested;
	char *refusal; /* why the pod's requested keys are refused; NULL: they are valid */
	char group[SPEC_GROUP + 64];
	uint64_t created_ns;
	int64_t priority;
	uint32_t gpu_priority; /* the greatest priority of its containers' requests */
	uint32_t cpu_milli;
	uint64_t memory_bytes;
	bool is_ours, is_deleting;
	bool is_done;     /* phase Succeeded */
	bool is_ready;    /* condition Ready is True */
	bool is_accepted; /* bound before this instance began to lead */
	bool has_resize;  /* sched_check_resizes() must check the pod */
	/* annotations of the pod's dialect to write because the pod runs; NULL: none */
	json_t *running;
	uint64_t denied;      /* hash of the last refusal of a resize request; 0: none */
	bool is_reported;     /* evicted for another pod; its tenants still count */
	uint64_t reported_ns; /* when the last eviction was sent */
	uint64_t give_up_ns;  /* end of a nomination or reservation */
	uint32_t n_evicted;   /* number of the pod's tenants that the current trial evicts */
	/* The pod's queue as of cluster_settle(); NULL: none, or not known yet. */
	const struct cqueue *queue;
	/*
	 * When the pod began to reclaim its queue's guarantee, and when it may evict for that; 0:
	 * the pod does not reclaim.
	 */
	uint64_t reclaims_ns, reclaim_at_ns;
	bool is_reclaimed; /* the pod was evicted for another queue's guarantee */
	struct cgroup *in; /* its gang, or NULL */
	struct cpod *gprev, *gnext;
	/* the object that states the size of the pod's gang; NULL: the pod names none */
	struct cgroup_object *object;
	struct cpod *oprev, *onext; /* links of the list cgroup_object.pods */
	/* At most one tenant for each container, and the client half of a remote pod. */
	uint32_t *tenants;
	/*
	 * For each tenant the index of its container in `assigned`; PLACE_NONE: a tenant without
	 * devices.
	 */
	uint32_t *containers;
	uint32_t n_tenants, tenants_room, containers_room;
	char *why; /* why the last decision chose these devices; NULL: no reason is known */
	/* A later decision ended the nomination, so status.nominatedNodeName reserves nothing. */
	bool is_nomination_void;
	/* The last decision left the pod waiting for a device: a further device might help. */
	bool needs_device;
	uint32_t n_refused; /* refused Bindings in a row */
	/* when it was last evicted for a taint that its devices still have; 0: never */
	uint64_t taint_evicted_ns;
	char *refused;          /* message of the API server's last refusal; NULL: none */
	uint64_t preempt_at_ns; /* the pod preempts no other pod before this time */
	/* key of the pod for whose reservation this pod last waited; NULL: none */
	char *kept_by;
	char *kept_text; /* message if the Binding of the pod kept_by was refused, else NULL */
	/* the devices that were chosen for the pod's ResourceClaims; NULL: none */
	struct claims_place *claims;
	bool is_hidden; /* cpod_hide() */
	/* the node and the unit that the placement policy prefers for the claims; NULL: none */
	char *claim_node, *claim_unit;
	bool is_claim_noted; /* the policy has counted the pod as an arrival */
};

struct cgroup {
	UT_hash_handle hh;
	char *key;         /* name that is unique in the cluster, as in cpod.group */
	struct cpod *pods; /* members that have not ended */
};

struct cbudget {
	UT_hash_handle hh;
	char *key; /* namespace/name */
	char *ns;
	struct arena arena; /* memory of the selector */
	struct selector selector;
	int64_t may_evict;
	json_t *going; /* status.disruptedPods: evicted pods that may_evict no longer includes */
	/* evicted pods that may_evict still includes, and victims of the current trial */
	int64_t evicted;
};

#define CQUEUE_MODELS_MAX 16u

/* quota and limit are in 1/1000 of a device, as in place/place-queue.h. */
struct cqueue_terms {
	char parent[SPEC_LABEL]; /* name of the parent queue; "": none */
	uint64_t quota, limit, grace_ns;
	uint32_t weight, n_models;
	struct {
		char name[SPEC_LABEL];
		uint64_t quota, limit;
	} model[CQUEUE_MODELS_MAX];
};

struct cqueue {
	char name[SPEC_LABEL], policy[SPEC_GROUP];
	struct cqueue_terms terms;
	uint32_t number; /* the queue's number in the placement model; 0: the queue is refused */
	struct error refusal; /* reason of the refusal; code 0: none */
};

struct cpolicy {
	UT_hash_handle hh;
	char *name;
	struct arena arena; /* memory of selectors and texts */
	struct selector selector, pods;
	bool is_selecting, has_queue, is_of_pods, is_remote_denied;
	/* Names that the policy lists; spaces: label spaces. */
	struct texts namespaces, spaces, classes, models;
	int64_t highest_priority; /* INT64_MAX: no limit */
	/* name of the policy's queue; "": each namespace has a queue with the namespace's name */
	char queue[SPEC_LABEL];
	struct cqueue_terms terms;
	uint64_t total_milli, total_bytes; /* UINT64_MAX: no limit */
	/* Limit of the total share including opportunistic tenants, in 1/1000 of total_milli. */
	uint32_t overcommit;
	enum gpunode_effect
		evicts;          /* weakest effect of a taint that evicts pods; none: no eviction */
	uint64_t evict_grace_ns; /* from the taint to the eviction */
	struct error refusal;    /* why a selector is invalid; code 0: it is valid */
	json_t *spec, *status;   /* status as last seen in the API */
	int64_t generation;
};

struct ctext { /* key: a namespace; value: its list of dialects */
	UT_hash_handle hh;
	char *key, *value;
};

/* Greatest use of share and memory by a pod at one time, as its namespace's total counts it. */
struct usage {
	uint64_t milli, bytes;
	/* part of milli that belongs to tenants of other classes than opportunistic */
	uint64_t firm;
};

struct cluster {
	struct cluster_config config;
	struct claims *claims;
	struct view_claims claims_check; /* how the view asks `claims` */
	struct claim_model *claim_model;
	uint64_t claims_counted; /* version of the claims that cluster_count_claims() has counted */
	int64_t *claims_by_queue; /* what they have, by the number of the queue, in permille */
	/* cluster_usage() of a namespace for that version, during one decision; NULL: not known */
	char *usage_ns;
	struct usage usage;
	uint64_t usage_version;
	bool is_usage_kept;
	struct view *view;
	struct place *place;
	struct cnode *nodes;
	struct cpod *pods;
	struct cgroup *groups;
	struct cgroup_object *group_objects;
	bool has_kube_groups; /* the API server serves PodGroups of Kubernetes */
	struct cbudget *budgets;
	struct cpolicy *policies; /* sorted by name */
	struct cqueue *queues;
	uint32_t n_queues;
	const struct cqueue **by_queue; /* index: the placement model's queue number, from 1 */
	uint32_t n_by_queue;
	uint32_t overcommit;  /* greatest memory overcommit of all policies and nodes, 1/1000 */
	bool is_unsettled;    /* cluster_settle() must evaluate the policies again */
	bool has_spaces;      /* label spaces must be evaluated again too */
	bool has_other_gangs; /* pods have joined or left gangs since cluster_settle() */
	struct ctext *dialects;
	struct cpod *nominated; /* pods with the state CPOD_NOMINATED */
	uint32_t n_nominated, n_reserved;
	struct cnode *tainted; /* nodes with a tainted device */
	bool has_taint_news;   /* pods on tainted devices need a check now */
	/*
	 * The next end of a grace period, as real time, and of a pause between two evictions of a
	 * pod. These pods need a check then.
	 */
	uint64_t grace_ends_ns, evict_again_ns;
	uint32_t n_serving;      /* nodes that serve their devices to other nodes */
	struct cnode **by_place; /* index: node of the placement model */
	uint32_t by_place_room;
	struct cpod **by_tenant; /* index: tenant of the placement model; NULL for orphans */
	uint32_t by_tenant_room;
	uint64_t now_ns, real_ns;
	/* No Lease that is fresh now becomes stale before this time. */
	uint64_t stale_at_ns;
	uint64_t epoch; /* greatest epoch in the status of all GPUNodes */
	bool has_news;
	uint32_t n_opened; /* devices that began to accept tenants since cluster_take_opened() */
};

/* ---- cluster-node.c ---- */

/* Creates the node if it is missing. NULL: out of memory. */
struct cnode *cnode_get(struct cluster *c, const char *name);
struct cnode *cnode_find(struct cluster *c, const char *name);
/* The pod with that uid on the node, or with devices of the node. NULL: none. */
struct cpod *cnode_pod(const struct cnode *node, const char *uid);
/* Frees the node if no object and no pod refers to it. */
void cnode_release(struct cluster *c, struct cnode *node);
void cnode_free(struct cluster *c, struct cnode *node);
/*
 * Removes the node from the placement model and adds it again with devices, tenants and capacities.
 * err: why the model refuses the node.
 */
int cnode_rebuild(struct cluster *c, struct cnode *node, struct error *err);
/*
 * cnode_uncount() removes all tenants of the node from the placement model; cnode_count() adds them
 * again.
 */
void cnode_uncount(struct cluster *c, struct cnode *node);
int cnode_count(struct cluster *c, struct cnode *node);
/* Updates only capacities and rack of the node in the placement model. */
int cnode_refresh(struct cluster *c, struct cnode *node);
int cluster_set_gpus(struct cluster *c, json_t *json, struct error *err);
/* Call before cnode_rebuild() when the GPUNode was deleted. */
void cnode_remove_gpus(struct cluster *c, struct cnode *node);
int cluster_set_lease(struct cluster *c, json_t *json);
bool cnode_is_stale(const struct cluster *c, const struct cnode *node);
/* Makes cluster_set_time() look at the nodes again when the node's Lease becomes stale. */
void cnode_note_lease(struct cluster *c, const struct cnode *node);

/* ---- cluster-tenant.c ---- */

/*
 * Adds the pod's tenants to the placement model, by the pod's assigned keys and its node's GPUNode.
 */
int cpod_restore(struct cluster *c, struct cpod *pod);
void cpod_drop(struct cluster *c, struct cpod *pod);
void cluster_drop(struct cluster *c, uint32_t tenant);
int cluster_note_tenant(struct cluster *c, uint32_t tenant, struct cpod *pod);
/*
 * Returns whether the named container is a main container, an init container or a sidecar; a
 * container without a request counts as a main container.
 */
enum manifest_kind cpod_kind(const struct cpod *pod, const char *container);
/*
 * Returns a stage for each container in `assigned`. The stages borrow from `assigned`; the caller
 * frees the array. NULL: no memory.
 */
struct stage *cpod_stages(
	const struct cluster *c, const struct cpod *pod, const struct assigned *assigned);
/*
 * Resizes the pod's tenants to `assigned` on their present devices, all or nothing. -errno: `why`
 * has the reason.
 */
int cpod_resize(
	struct cluster *c, struct cpod *pod, const struct assigned *assigned, struct buf *why);
/* Whether each container that keeps capacity for itself has a tenant in the placement model. */
bool cpod_is_whole(const struct cluster *c, const struct cpod *pod);
int orphans_restore(struct cluster *c, struct cnode *node);
/* Notes that the tenant belongs to the pod's container with that index. */
int cpod_add_tenant(struct cluster *c, struct cpod *pod, uint32_t tenant, uint32_t container);
void orphans_drop(struct cluster *c, struct cnode *node);

/*
 * Converts the request of container i to a spec of the placement model, without the node's CPU and
 * memory. i is PLACE_NONE for a pod without devices. -EAGAIN: the cluster has no device model that
 * fits.
 */
int cluster_spec(struct cluster *c, const struct cpod *pod, uint32_t i, struct place_spec *ret);

/* Frees labels of the placement model that only this pod uses. */
void cluster_forget_labels(struct cluster *c, const struct cpod *pod);

/* ---- cluster-refusal.c ---- */

void cpod_free_refusal(struct cpod *pod);
/*
 * Whether the pod may not preempt yet, because a Binding of the pod or of a member of its gang was
 * refused.
 */
bool cpod_may_not_preempt(const struct cluster *c, const struct cpod *pod);
/* Notes that `pod` waits for the first nominated or assumed pod on that node. */
void cpod_note_keeper(struct cpod *pod, const struct cnode *node);
void cpod_forget_keeper(struct cpod *pod);
/*
 * Appends to `why` how refused Bindings prolong the pod's wait: the refusal of its own Binding
 * while cpod_is_refused(), and `kept_text` (NULL: none) about the pod for which it waited.
 */
void cpod_explain_refusal(
	const struct cluster *c, const struct cpod *pod, const char *kept_text, struct buf *why);

/* ---- cluster-group.c ---- */

int cluster_set_group(struct cluster *c, int kind, const json_t *json);
int cluster_remove_group(struct cluster *c, int kind, const char *ns, const char *name);
void cluster_free_groups(struct cluster *c);
/* Links the pod with the object that its requested keys name, if they name one. -ENOMEM. */
int cpod_join_object(struct cluster *c, struct cpod *pod);
void cpod_leave_object(struct cluster *c, struct cpod *pod);
/* Sets the size of the pod's gang from the object that the pod names, if it names one. */
void cpod_size_group(struct cpod *pod);
/* The group if its members start together; NULL: the pod is in no gang. */
const struct cgroup *cpod_gang(const struct cpod *pod);
/* Whether the pod is in a group because of its spec.schedulingGroup. */
bool cpod_is_in_kube_group(const struct cpod *pod);

/* ---- cluster-claims.c ---- */

int cluster_new_claims(struct cluster *c, struct error *err);
/* Whether objects of that kind belong to dynamic resource allocation. */
bool cluster_is_claims_kind(int kind);
int cluster_set_claims(struct cluster *c, int kind, json_t *json, struct error *err);
int cluster_remove_claims(struct cluster *c, int kind, const char *ns, const char *name);
/* The API server serves that kind of objects. */
void cluster_note_claims(struct cluster *c, int kind);
/*
 * Limits the search for devices from now on to the steps of that many pods, so that a decision
 * about a gang or about evictions takes no longer. 0: no limit.
 */
void cluster_limit_claims(struct cluster *c, uint32_t n_pods);
/* Chooses devices on the node for the claims of one of our pods. -ENOSPC: there are none. */
int cpod_assume_claims(
	struct cluster *c, struct cpod *pod, const struct cnode *node, struct error *err);
/* Frees the devices that the API does not show as allocated. */
void cpod_release_claims(struct cluster *c, struct cpod *pod);
/* Whether a driver could not make the devices of one of the pod's claims ready. */
bool cpod_has_failed_claims(struct cluster *c, const struct cpod *pod);
/* As view_hide(); the pod's use of ResourceClaims is hidden too. */
int cpod_hide(struct cluster *c, struct cpod *pod, bool is_hidden);
/* Call before an evicted pod that has ended is removed: Kubernetes will free its claims. */
void cpod_note_ending_claims(struct cluster *c, const struct cpod *pod);
/*
 * The node of the placement model whose free devices suit the pod's claims best, among those that
 * `may_use` allows. PLACE_NONE: no such node, or the claims have no devices of divvy's driver.
 */
uint32_t cpod_best_claims_node(struct cluster *c, struct cpod *pod, struct fit *fit,
	bool (*may_use)(void *arg, const struct cnode *node), void *arg);
struct claims_teller;
/* Tells why the claims of the checked pod get no devices on the node. */
void cluster_explain_claims(
	struct fit *fit, const struct node *node, const struct claims_teller *teller);

/* Whether a node has devices that divvy's device plugin hands out. */
bool cluster_has_open_devices(const struct cluster *c);

/* ---- cluster-taint.c ---- */

/* Call when the devices of the node's GPUNode have changed, or the node is to be freed. */
void cnode_note_taints(struct cluster *c, struct cnode *node);

/* ---- cluster-remote.c ---- */

/* The node of the pod's devices. */
struct cnode *cpod_devices_node(const struct cpod *pod);
/* Sets cpod.server, the other node that has the pod's devices, from the assigned keys. -ENOMEM. */
int cpod_find_server(struct cluster *c, struct cpod *pod);
/* Removes the pod from the list `served` of its server, and clears cpod.server. */
void cpod_leave_server(struct cluster *c, struct cpod *pod);
/* Adds the node's network devices and measurements to the placement model. */
int cnode_add_networks(struct cluster *c, struct cnode *node);
/*
 * Sets the network devices and the bandwidth of the device half in `spec`, by the assigned keys
 * `g`.
 */
void cpod_network(const struct cluster *c, const struct cpod *pod,
	const struct assigned_container *g, struct place_spec *spec);

/* ---- cluster-budget.c ---- */

int cluster_set_budget(struct cluster *c, json_t *json);
int cluster_remove_budget(struct cluster *c, const char *ns, const char *name);
void cluster_free_budgets(struct cluster *c);
/* Counts evicted pods that the budgets have not subtracted yet; call before each search. */
void cluster_recount_evicted(struct cluster *c);
/* Whether the pod's disruption budgets allow its eviction in addition to the counted evictions. */
bool cluster_may_evict(struct cluster *c, const struct cpod *pod);
void cluster_count_evicted(struct cluster *c, const struct cpod *pod, int sign);

/* ---- cluster-policy.c ---- */

int cluster_set_policy(struct cluster *c, json_t *json);
int cluster_remove_policy(struct cluster *c, const char *name);
void cluster_free_policies(struct cluster *c);
/*
 * Whether the policies of the pod's namespace allow its request in addition to all present grants.
 * If not, `why` has the reason.
 */
bool cluster_allows(struct cluster *c, const struct cpod *pod, struct buf *why);
bool cluster_allows_model(const struct cluster *c, const char *ns, const char *model);
/* whether the policies allow devices of other nodes */
bool cluster_allows_remote(const struct cluster *c, const char *ns);
/*
 * Like cluster_allows(), for a running pod that would get `assigned` instead of its present grant.
 */
bool cluster_has_room_for(struct cluster *c, const struct cpod *pod,
	const struct assigned *assigned, struct buf *why);

struct usage cpod_usage(const struct cpod *pod, const struct assigned *assigned);
/* The sum of all pods and claims of the namespace. */
struct usage cluster_usage(struct cluster *c, const char *ns);
/* Whether a policy of the namespace limits that sum. */
bool cluster_has_total(const struct cluster *c, const char *ns);
/* Whether these policies allow `asked` more than `used`; if not, `why` has the reason. */
bool cluster_has_room(const struct cluster *c, const char *ns, const struct usage *used,
	const struct usage *asked, struct buf *why);
/* Goes to the next claim with devices of divvy's driver; *at is NULL at first. False: none. */
bool cluster_next_claim_usage(
	struct cluster *c, const void **at, const char **ret_ns, struct usage *ret_usage);
/*
 * During a decision (is_kept) pods keep what they have, so the sum for totals is kept too, and only
 * adjusted for hidden claims.
 */
void cluster_keep_usage(struct cluster *c, bool is_kept);
/* Counts what claims have as use of the queues of their pods. -ENOMEM. */
int cluster_count_claims(struct cluster *c);

/* Whether the policy applies to that namespace. */
bool cpolicy_selects(const struct cluster *c, const struct cpolicy *policy, const char *ns);
/* Call when a namespace or its labels changed. */
void cluster_note_namespace(struct cluster *c);
/* Whether a policy of the namespace names that label space. */
bool cluster_is_in_space(const struct cluster *c, const char *ns, struct str space);

/*
 * Converts a number or its text, such as 2.5 or "2.5", to 1/1000. UINT64_MAX: the value is neither.
 */
uint64_t cpolicy_milli(const json_t *value);

/* ---- cluster-memory.c ---- */

uint32_t cluster_greatest_overcommit(const struct cluster *c);
/*
 * Returns the bytes that the placement model counts for a tenant with `bytes` and that memory
 * policy, by the overcommit factor that cluster_settle() found.
 */
uint64_t cluster_counted_bytes(
	const struct cluster *c, enum spec_memory_policy policy, uint64_t bytes);

/*
 * n containers of one pod, in the pod's order, that would use a device once some pods are evicted.
 */
struct memory_params {
	const char *ns;
	const struct tenancy_container *container[ASSIGNED_CONTAINERS_MAX];
	uint32_t n;
	bool (*is_evicted)(void *arg, const struct cpod *pod);
	void *arg;
};

bool cluster_has_memory(const struct cluster *c, const struct cnode *node,
	const struct gpunode_device *device, const struct memory_params *params);
/*
 * Like cluster_has_memory(), for a running pod that would get `then` instead of its present grant.
 */
bool cluster_has_memory_for(
	const struct cluster *c, const struct cpod *pod, const struct assigned *then);

/* ---- cluster-queue.c ---- */

/* Reads a policy's `queue`; invalid values count as absent. */
void cqueue_terms_read(const json_t *queue, struct cqueue_terms *ret);
/* Sets the pod's queue. false: the pod has the same queue as before. */
bool cpod_find_queue(struct cluster *c, struct cpod *pod);
/*
 * Whether the pod's queue accepts tenants; if not, `why` has the reason. cluster_queue_explain()
 * appends the quota or limit that keeps the pod waiting; false: neither does.
 */
bool cluster_queue_takes(const struct cluster *c, const struct cpod *pod, struct buf *why);
bool cluster_queue_explain(struct cluster *c, const struct cpod *pod, struct buf *why);
/* The number of the pod's queue in the placement model; 0: none. */
uint32_t cpod_queue_number(const struct cluster *c, const struct cpod *pod);

/* ---- cluster.c ---- */

/* Sets the pod's group name and size anew and joins that gang. */
int cpod_find_group(struct cluster *c, struct cpod *pod);

/* Sets the pod's state, and updates the numbers of nominated pods and reservations. */
void cpod_set_state(struct cluster *c, struct cpod *pod, enum cpod_state state);
/* Marks the pod as evicted, or removes this mark. */
int cpod_set_reported(struct cluster *c, struct cpod *pod, bool is_reported);

/* Moves the pod from the pod list of its node to the list of `node`; NULL: to no list. */
void cpod_move(struct cluster *c, struct cpod *pod, struct cnode *node);
const char *cluster_dialects(const struct cluster *c, const char *ns);
const struct pod *cpod_view(const struct cluster *c, const struct cpod *pod);

#endif
