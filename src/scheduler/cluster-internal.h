/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster's own structs, for its files and for those that decide. See cluster.h. */
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
	bool is_there; /* the Node */
	bool has_gpus; /* its GPUNode */
	struct gpunode gpus;
	uint32_t at; /* of the place; PLACE_NONE */
	/* divvyd's Lease, by our own clock since the object last changed. */
	bool has_lease, is_stale;
	char renewed[40];
	uint64_t lease_seen_ns, lease_duration_ns;
	struct cpod *pods;   /* with that node, bound or assumed */
	struct cpod *served; /* on others, with devices of this one */
	uint32_t
		network[GPUNODE_NETWORKS_MAX]; /* numbers of the place, as gpus has them; 0: none */
	uint32_t *orphans, n_orphans,
		orphans_room; /* tenants that no pod that is there accounts for */
	uint32_t cpu_all;     /* as the place was told */
	uint64_t memory_all;
};

struct cpod {
	UT_hash_handle hh;
	struct cpod *prev, *next; /* of its node */
	char *key;                /* namespace/name; ns and name point to copies */
	char *ns, *name, *uid;
	enum cpod_state state;
	struct cnode *node;   /* NULL: none */
	struct cnode *server; /* whose devices it has over the network; NULL: its own node's */
	struct cpod *sprev, *snext; /* of that */
	json_t *json;               /* while it waits */
	struct given given;
	struct tenancy asked;
	struct error refusal; /* of what it asks; code 0: none */
	char group[SPEC_GROUP + 64];
	uint64_t created_ns;
	int64_t priority;
	uint32_t cpu_milli;
	uint64_t memory_bytes;
	bool is_ours, is_deleting;
	bool is_done;        /* it has Succeeded */
	bool is_ready;       /* its condition says so */
	bool is_accepted;    /* bound before who leads now did */
	bool has_wish;       /* to be looked at */
	json_t *running;     /* annotations that are due as it runs; NULL: none */
	uint64_t denied;     /* what was last denied it, as a hash; 0: nothing */
	bool is_told;        /* to leave for somebody */
	uint64_t told_ns;    /* when it was last asked to */
	uint64_t give_up_ns; /* while it holds its place: until when */
	uint32_t n_gone;     /* of its tenants, while victims are looked for */
	/* That it belongs to, since cluster_settle(); NULL: none, or none that is known yet. */
	const struct cqueue *queue;
	/* Since when it asks back what its queue is guaranteed, and when it takes it; 0: not. */
	uint64_t reclaims_ns, reclaim_at_ns;
	bool is_reclaimed; /* told to leave for another queue */
	struct cgroup *in; /* its group, or NULL */
	struct cpod *gprev, *gnext;
	/* One of each container at most, and of who has devices elsewhere what it is here. */
	uint32_t tenants[GIVEN_CONTAINERS_MAX + 1];
	/* Of each tenant: its number among the given; PLACE_NONE: it has no devices. */
	uint32_t containers[GIVEN_CONTAINERS_MAX + 1];
	uint32_t n_tenants;
	char why[PLACE_MODE_WHY]; /* why there, as decided last; "" */
	/* The scheduler has decided about it: its status.nominatedNodeName reserves nothing. */
	bool is_nomination_void;
	uint32_t n_refused;     /* Bindings in a row that the API server refused */
	char *refused;          /* the last of them, as a sentence; NULL: none */
	uint64_t preempt_at_ns; /* until then it preempts no pod */
	char *kept_by;          /* pod (a key) whose reservation it waited for last; or NULL */
	char *kept_text;        /* that pod's Binding was refused, as a sentence; or NULL */
};

struct cgroup {
	UT_hash_handle hh;
	char *key;         /* as cpod.group */
	struct cpod *pods; /* not over */
};

struct cbudget {
	UT_hash_handle hh;
	char *key; /* namespace/name */
	char *ns;
	struct arena arena; /* of the selector */
	struct selector selector;
	int64_t may_go;
	json_t *going; /* status.disruptedPods: may_go is without these */
	int64_t gone;  /* of those that may go, while victims are looked for */
};

#define CQUEUE_MODELS_MAX 16u

/* Amounts are 1/1000 of devices, as place/place-queue.h has them. */
struct cqueue_terms {
	char parent[SPEC_LABEL]; /* "": none */
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
	uint32_t number;      /* of the place; 0: it was refused */
	struct error refusal; /* then; code 0: none */
};

struct cpolicy {
	UT_hash_handle hh;
	char *name;
	struct arena arena; /* of the selectors and texts */
	struct selector selector, pods;
	bool is_selecting, has_queue, is_of_pods, is_remote_denied;
	struct texts namespaces, spaces, classes, models; /* spaces: of labels */
	int64_t highest_priority;                         /* INT64_MAX: any */
	char queue[SPEC_LABEL]; /* its name; "": each namespace has one of its own name */
	struct cqueue_terms terms;
	uint64_t total_milli, total_bytes; /* UINT64_MAX: any */
	uint32_t overcommit;               /* of total_milli for opportunistic tenants, 1/1000 */
	struct error refusal;              /* of a selector; code 0: none */
	json_t *spec, *status;             /* status: as the API has it */
	int64_t generation;
};

struct ctext { /* by namespace: its dialects */
	UT_hash_handle hh;
	char *key, *value;
};

struct cluster {
	struct cluster_config config;
	struct view *view;
	struct place *place;
	struct cnode *nodes;
	struct cpod *pods;
	struct cgroup *groups;
	struct cgroup_object *group_objects;
	struct cbudget *budgets;
	struct cpolicy *policies; /* by name */
	struct cqueue *queues;
	uint32_t n_queues;
	const struct cqueue **by_queue; /* by the place's number, from 1 */
	uint32_t n_by_queue;
	uint32_t overcommit; /* of device memory: the greatest of all policies and nodes, 1/1000 */
	bool is_unsettled;   /* what policies say is to be looked at again */
	bool has_spaces;     /* and labels with it */
	struct ctext *dialects;
	uint32_t n_holding, n_offered;
	uint32_t n_serving;      /* nodes that serve their devices to others */
	struct cnode **by_place; /* by the place's node */
	uint32_t by_place_room;
	struct cpod **by_tenant; /* NULL: an orphan's */
	uint32_t by_tenant_room;
	uint64_t now_ns, real_ns;
	uint64_t epoch; /* the newest that a node has seen */
	bool has_news;
	uint32_t n_opened; /* devices, since that was asked last */
};

/* ---- cluster-node.c ---- */

struct cnode *cnode_get(struct cluster *c, const char *name); /* made when missing; NULL: -ENOMEM */
struct cnode *cnode_find(struct cluster *c, const char *name);
/* The one with that uid which is on it, or served by it; NULL. */
struct cpod *cnode_pod(const struct cnode *node, const char *uid);
void cnode_release(struct cluster *c, struct cnode *node); /* when nothing speaks of it any more */
void cnode_free(struct cluster *c, struct cnode *node);
/* Devices, tenants and capacities as they are now. err: why the node cannot be taken in. */
int cnode_rebuild(struct cluster *c, struct cnode *node, struct error *err);
/* Its tenants leave the place for a moment, and are counted there again. */
void cnode_uncount(struct cluster *c, struct cnode *node);
int cnode_count(struct cluster *c, struct cnode *node);
/* Capacities and its rack alone. */
int cnode_refresh(struct cluster *c, struct cnode *node);
int cluster_set_gpus(struct cluster *c, json_t *json, struct error *err);
int cluster_set_lease(struct cluster *c, json_t *json);

/* ---- cluster-tenant.c ---- */

/* Its tenants in the place are what its given keys and its node say. */
int cpod_restore(struct cluster *c, struct cpod *pod);
void cpod_drop(struct cluster *c, struct cpod *pod);
void cluster_drop(struct cluster *c, uint32_t tenant);
int cluster_note_tenant(struct cluster *c, uint32_t tenant, struct cpod *pod);
/* One that it does not ask for any more counts as a main container. */
enum manifest_kind cpod_kind(const struct cpod *pod, const char *container);
/*
 * What is kept for the containers that were given, or would be, that; an entry for each, which
 * borrows from `given`. NULL: no memory.
 */
struct stage *cpod_stages(
	const struct cluster *c, const struct cpod *pod, const struct given *given);
/*
 * Its tenants hold what is kept for that, on the devices that they have: all of them, or none. A
 * negative, and `why`.
 */
int cpod_resize(struct cluster *c, struct cpod *pod, const struct given *given, struct buf *why);
/* Whether all that is kept for them has its tenant. */
bool cpod_is_whole(const struct cluster *c, const struct cpod *pod);
int orphans_restore(struct cluster *c, struct cnode *node);
/* It is that container's from now on. */
int cpod_add_tenant(struct cluster *c, struct cpod *pod, uint32_t tenant, uint32_t container);
void orphans_drop(struct cluster *c, struct cnode *node);

/*
 * A container's wish as the place takes it, without CPU and memory of the node. -EAGAIN: no model
 * that is there will do. i: PLACE_NONE of a pod that asks for no share.
 */
int cluster_spec(struct cluster *c, const struct cpod *pod, uint32_t i, struct place_spec *ret);

/* Labels that it alone has named are forgotten. */
void cluster_forget_labels(struct cluster *c, const struct cpod *pod);

/* ---- cluster-refusal.c ---- */

void cpod_free_refusal(struct cpod *pod);
/* The pod, or a member of its group, was refused a Binding, and preempts no pod for now. */
bool cpod_may_not_preempt(const struct cluster *c, const struct cpod *pod);
/* Its reservation on that node keeps `pod` off; for decide_explain(). */
void cpod_note_keeper(struct cpod *pod, const struct cnode *node);
void cpod_forget_keeper(struct cpod *pod);
/*
 * Appends what refused Bindings have to do with its wait: its own while that counts, and
 * `kept_text` of its keeper's; NULL: none.
 */
void cpod_explain_refusal(
	const struct cluster *c, const struct cpod *pod, const char *kept_text, struct buf *why);

/* ---- cluster-group.c ---- */

int cluster_set_group(struct cluster *c, int kind, const json_t *json);
int cluster_remove_group(struct cluster *c, int kind, const char *ns, const char *name);
void cluster_free_groups(struct cluster *c);
/* What the object that it names says of its group's size. */
void cpod_size_group(const struct cluster *c, struct cpod *pod);

/* ---- cluster-remote.c ---- */

/* Where its devices are. */
struct cnode *cpod_devices_node(const struct cpod *pod);
/* Its server is what its given keys say. -ENOMEM. */
int cpod_find_server(struct cluster *c, struct cpod *pod);
/* It has none any more. */
void cpod_leave_server(struct cluster *c, struct cpod *pod);
/* The node's network devices and what it has measured, into the place. */
int cnode_add_networks(struct cluster *c, struct cnode *node);
/* What its devices' end takes of the network, as it was granted. */
void cpod_network(const struct cluster *c, const struct cpod *pod, const struct given_container *g,
	struct place_spec *spec);

/* ---- cluster-budget.c ---- */

int cluster_set_budget(struct cluster *c, json_t *json);
int cluster_remove_budget(struct cluster *c, const char *ns, const char *name);
void cluster_free_budgets(struct cluster *c);
/* Who was told to leave, and of whom the budgets do not know yet, is counted: before a search. */
void cluster_recount_gone(struct cluster *c);
/* Whether its disruption budgets let it go after those that have gone. */
bool cluster_may_go(struct cluster *c, const struct cpod *pod);
void cluster_count_gone(struct cluster *c, const struct cpod *pod, int sign);

/* ---- cluster-policy.c ---- */

int cluster_set_policy(struct cluster *c, json_t *json);
int cluster_remove_policy(struct cluster *c, const char *name);
void cluster_free_policies(struct cluster *c);
/* Whether its namespace's policies let it be placed, with all that is granted by now. */
bool cluster_allows(struct cluster *c, const struct cpod *pod, struct buf *why);
bool cluster_allows_model(const struct cluster *c, const char *ns, const char *model);
bool cluster_allows_remote(const struct cluster *c, const char *ns); /* devices of other nodes */
/* The same for what a pod that runs would be given instead of what it has. */
bool cluster_has_room_for(
	struct cluster *c, const struct cpod *pod, const struct given *given, struct buf *why);

/* What a pod has of its namespace's share and memory at most, while all of it runs. */
struct usage {
	uint64_t milli, bytes;
	uint64_t firm; /* of milli: what is not opportunistic */
};
struct usage cpod_usage(const struct cpod *pod, const struct given *given);

/* Whether it speaks of that namespace. */
bool cpolicy_selects(const struct cluster *c, const struct cpolicy *policy, const char *ns);
/* A namespace, or its labels, have changed. */
void cluster_note_namespace(struct cluster *c);
/* One of the namespace's policies names that space. */
bool cluster_is_in_space(const struct cluster *c, const char *ns, struct str space);

/* A number or a text, as people write them: 2.5, "2.5"; in 1/1000. UINT64_MAX: neither. */
uint64_t cpolicy_milli(const json_t *value);

/* ---- cluster-memory.c ---- */

uint32_t cluster_greatest_overcommit(const struct cluster *c);
/* What the place counts of it, since cluster_settle(). */
uint64_t cluster_counted_bytes(
	const struct cluster *c, enum spec_memory_policy policy, uint64_t bytes);

/* n containers of a pod, in its order, that would come to a device, after some have gone. */
struct memory_wish {
	const char *ns;
	const struct tenancy_container *container[GIVEN_CONTAINERS_MAX];
	uint32_t n;
	bool (*is_gone)(void *arg, const struct cpod *pod);
	void *arg;
};

bool cluster_has_memory(const struct cluster *c, const struct cnode *node,
	const struct gpunode_device *device, const struct memory_wish *wish);
/* For a pod that runs, with that instead of what it has. */
bool cluster_has_memory_for(
	const struct cluster *c, const struct cpod *pod, const struct given *then);

/* ---- cluster-queue.c ---- */

/* What a policy's `queue` says; what is no such value is as if nothing were said. */
void cqueue_terms_read(const json_t *queue, struct cqueue_terms *ret);
/* The queue that it belongs to is found; false: as it was. */
bool cpod_find_queue(struct cluster *c, struct cpod *pod);
/* Whether its queue takes anybody; when there was no room, what of its quota is against it. */
bool cluster_queue_takes(const struct cluster *c, const struct cpod *pod, struct buf *why);
void cluster_queue_explain(struct cluster *c, const struct cpod *pod, struct buf *why);
/* Its number in the place; 0: none. */
uint32_t cpod_queue_number(const struct cluster *c, const struct cpod *pod);

/* ---- cluster.c ---- */

/* Its name, and with it its group, is read again. */
int cpod_find_group(struct cluster *c, struct cpod *pod);

/* Its state; what holds its place is counted. */
void cpod_set_state(struct cluster *c, struct cpod *pod, enum cpod_state state);
/* It was told to leave, or need not any more. */
int cpod_tell(struct cluster *c, struct cpod *pod, bool is_told);

/* Moves it between nodes' lists; NULL: to none. */
void cpod_move(struct cluster *c, struct cpod *pod, struct cnode *node);
const char *cluster_dialects(const struct cluster *c, const char *ns);
const struct pod *cpod_view(const struct cluster *c, const struct cpod *pod);

#endif
