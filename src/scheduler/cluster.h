/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the scheduler: the view (kube-scheduler's rules) and the placement model (devices).
 * The objects of the API may arrive in any order. A pod's devices come from its assigned keys. If
 * its node's divvyd reports more, the larger amount counts. A decision that is not in the API yet
 * is assumed until the watch confirms it or the caller revokes it. The state depends on the API's
 * objects only, so a restarted scheduler builds the same state. Pure; one thread.
 */
#ifndef SCHEDULER_CLUSTER_H
#define SCHEDULER_CLUSTER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "claims/claims.h"
#include "kuberules/object.h"
#include "place/place-policy.h"
#include "scheduler/reason.h"
#include "scheduler/tenancy.h"
#include "spec/assigned.h"

struct cluster;
struct cpod;

struct cluster_config {
	const char *scheduler_name; /* schedulerName of the pods that divvy-scheduler places */
	unsigned minor;             /* minor version of Kubernetes 1.x */
	const struct place_policy *policy;
	const char *rack_label; /* node label with the rack; NULL: CLUSTER_RACK_LABEL */
	uint64_t seed;          /* for the identifiers of shares of devices */
};

#define CLUSTER_RACK_LABEL "topology.kubernetes.io/rack"

/* An eviction is sent again after this time, in ns, if its pod is still there. */
#define CLUSTER_EVICT_AGAIN_NS (UINT64_C(5) * 1000000000)

/* Kinds of objects that the view does not know; their numbers follow the view's kinds. */
enum {
	CLUSTER_GPU_NODE = OBJECT_KINDS,
	CLUSTER_LEASE, /* Lease of a node's divvyd */
	CLUSTER_POLICY,
	CLUSTER_BUDGET,
	/*
	 * objects that state the size of gangs: PodGroups of the API groups scheduling.x-k8s.io,
	 * scheduling.sigs.k8s.io, Volcano's and Kubernetes', then others
	 */
	CLUSTER_GROUP,
	CLUSTER_SIGS_GROUP,
	CLUSTER_VOLCANO_GROUP,
	CLUSTER_KUBE_GROUP,
	CLUSTER_JOB_SET,
	CLUSTER_RAY_CLUSTER,
	CLUSTER_LAST_GROUP = CLUSTER_RAY_CLUSTER,
	/* objects of dynamic resource allocation, in the order of enum claims_kind */
	CLUSTER_SLICE,
	CLUSTER_DEVICE_CLASS,
	CLUSTER_RESOURCE_CLAIM,
	CLUSTER_TAINT_RULE,
	CLUSTER_KINDS
};

/*
 * Texts of the config are borrowed. -EINVAL, -ENOTSUP (the Kubernetes release is too old), -ENOMEM.
 */
int cluster_new(
	const struct cluster_config *config, struct cluster **ret_cluster, struct error *err);
void cluster_free(struct cluster *cluster);
DEFINE_CLEANUP(struct cluster *, cluster_free)

/* Sets the time, by CLOCK_MONOTONIC and since 1970. Nodes whose Lease has expired become stale. */
void cluster_set_time(struct cluster *cluster, uint64_t now_ns, uint64_t real_ns);

/*
 * Adds or updates an object. -EINVAL (no name), -ENOMEM: the old object stays. The cluster keeps a
 * reference to the JSON of waiting pods.
 */
int cluster_set(struct cluster *cluster, int kind, json_t *json, struct error *err);
/* -ENOENT: the object is unknown. */
int cluster_remove(struct cluster *cluster, int kind, const char *ns, const char *name);
/* Applies the rules of Kubernetes 1.`minor`: see view_set_minor(). */
void cluster_set_minor(struct cluster *cluster, unsigned minor);
/*
 * The API server serves that kind. Before this call for CLUSTER_KUBE_GROUP, spec.schedulingGroup of
 * pods has no effect. Call it before cluster_set() of pods where possible; later it costs a new
 * settling.
 */
void cluster_note_served(struct cluster *cluster, int kind);

/*
 * Applies changes of policies, namespaces and pods: makes the queues anew and assigns pods to them.
 * Call before each decision. ret_changed: queues or gangs of pods may have changed. -ENOMEM.
 */
int cluster_settle(struct cluster *cluster, bool *ret_changed);

/*
 * cluster_queue_is_before() returns whether queue a is served before queue b.
 * cluster_queue_is_below_guarantee() returns whether a queue uses less than its guarantee.
 */
bool cluster_queue_is_before(const struct cluster *cluster, uint32_t a, uint32_t b);
bool cluster_queue_is_below_guarantee(const struct cluster *cluster, uint32_t queue);

/* Whether anything may have freed capacity since the last call. */
bool cluster_take_news(struct cluster *cluster);
/* Number of devices that began to accept tenants since the last call. */
uint32_t cluster_take_opened(struct cluster *cluster);

/* ---- pods ---- */

enum cpod_state {
	CPOD_OTHER,     /* a pod without a request for divvy, or one that has ended */
	CPOD_EXTENDER,  /* an extender pod: it requests a share and has no node */
	CPOD_RESERVED,  /* an extender pod with a reservation until kube-scheduler binds it */
	CPOD_PENDING,   /* a pod of divvy-scheduler without a node */
	CPOD_NOMINATED, /* the pod's place is reserved while its victims terminate */
	CPOD_ASSUMED,   /* the pod's Binding is in flight */
	CPOD_BOUND,     /* the pod has a node, and devices if it was assigned any */
};

/* NULL: no such pod. The pointer is valid until the next change of that pod. */
struct cpod *cluster_pod(struct cluster *cluster, const char *ns, const char *name);
/* Like cluster_pod(), by the key "namespace/name" (cpod_key()). */
struct cpod *cluster_pod_by_key(struct cluster *cluster, const char *key);
/* The pod with that uid on that node, or NULL. */
struct cpod *cluster_pod_on(struct cluster *cluster, const char *node, const char *uid);
enum cpod_state cpod_state(const struct cpod *pod);
const char *cpod_key(const struct cpod *pod); /* "namespace/name" */
const char *cpod_ns(const struct cpod *pod);
const char *cpod_name(const struct cpod *pod);
const char *cpod_uid(const struct cpod *pod);
const char *cpod_node(const struct cpod *pod); /* "": none */
const char *cpod_why(const struct cpod *pod);  /* reason of the last decision; "": none */
json_t *cpod_json(const struct cpod *pod);     /* borrowed; NULL if the pod does not wait */
const struct assigned *cpod_assigned(const struct cpod *pod);
const struct tenancy *cpod_requested(const struct cpod *pod);
int64_t cpod_priority(const struct cpod *pod); /* spec.priority */
/* highest divvy.gpu/priority of its containers */
uint32_t cpod_gpu_priority(const struct cpod *pod);
uint64_t cpod_created_ns(const struct cpod *pod);
const char *cpod_queue(const struct cpod *pod); /* name of the pod's queue; "": none */
/* number of the pod's queue; 0: none */
uint32_t cpod_queue_index(const struct cluster *cluster, const struct cpod *pod);
/* Notes that the pod was bound before this instance began to lead, and keeps its place. */
void cpod_accept(struct cpod *pod);
/*
 * Whether an accepted pod needs an epoch refresh: it may still start containers, and nodes refuse
 * its older epoch.
 */
bool cpod_is_older(const struct cpod *pod, uint64_t epoch);
bool cpod_is_gated(const struct cpod *pod);    /* the pod has scheduling gates */
bool cpod_is_deleting(const struct cpod *pod); /* the API server has begun to delete the pod */
bool cpod_is_done(const struct cpod *pod);     /* the pod has a node and phase Succeeded */
/* the pod was evicted for another queue's guarantee */
bool cpod_is_reclaimed(const struct cpod *pod);
/* When the pod may evict to reclaim its guarantee; 0: it does not reclaim. */
uint64_t cpod_reclaim_at_ns(const struct cpod *pod);
/* When the pod's nomination or reservation expires. */
uint64_t cpod_give_up_ns(const struct cpod *pod);
/* When the last eviction of the pod was sent; 0: it was not evicted, or its deletion has begun. */
uint64_t cpod_reported_ns(const struct cpod *pod);
/*
 * Whether a pod may have to leave a tainted device since the last call: an object has changed, or a
 * grace period or a pause between two evictions has ended. If true, call cpod_leaves_taint() for
 * all pods that cluster_next_tainted() returns.
 */
bool cluster_must_check_taints(struct cluster *cluster);
/* Makes the next call of cluster_must_check_taints() begin again, after a check that failed. */
void cluster_note_taint_news(struct cluster *cluster);
/*
 * Iterates over the pods with devices of nodes that have a tainted device, and over further pods of
 * these nodes: NULL gives the first, the last gives NULL.
 */
struct cpod *cluster_next_tainted(struct cluster *cluster, struct cpod *pod);
/* Whether a policy requires the eviction of the pod from a tainted device now; `why` says so. */
bool cpod_leaves_taint(struct cluster *cluster, const struct cpod *pod, struct buf *why);
/* Notes an eviction for a taint. Returns false if the last one was only just sent. */
bool cpod_note_taint_eviction(struct cluster *cluster, struct cpod *pod, bool *ret_is_first);
void cpod_set_reported_ns(struct cpod *pod, uint64_t now_ns);
bool cpod_take_resize(struct cpod *pod);
/*
 * A patch of metadata: annotations and labels that users of the pod's dialect expect of a running
 * pod, and that this pod lacks; NULL: none.
 */
json_t *cpod_running(const struct cpod *pod);
void cpod_note_resize(struct cpod *pod);
/* Notes the refusal of a resize request. false: the same `sentence` was noted before. */
bool cpod_deny(struct cpod *pod, struct str sentence);
bool cpod_is_denied(const struct cpod *pod);
/* Cancels the pod's eviction. */
int cluster_readd(struct cluster *cluster, struct cpod *pod);
bool cpod_is_ours(const struct cpod *pod);      /* divvy-scheduler places the pod */
const char *cpod_group(const struct cpod *pod); /* "namespace/name" of its gang, or "" */
/* Kind of the API group's objects that state the size of gangs, for messages. */
const char *cluster_group_kind(const char *api_group);
/* Whether the pod names a PodGroup of Kubernetes and the API server serves none. */
bool cpod_is_group_ignored(const struct cpod *pod);

/*
 * Writes up to `most` members of the gang that have not ended, in order of arrival. Returns the
 * number of all such members.
 */
uint32_t cluster_members(
	struct cluster *cluster, const char *group, struct cpod **ret_pods, uint32_t most);

/*
 * Finds the next claim of a waiting pod whose devices nobody uses: see claims.h. *at is 0 for the
 * first call. The claim is valid until the cluster changes. False: none.
 */
bool cpod_next_unused_claim(struct cluster *cluster, const struct cpod *pod, uint32_t *at,
	struct claims_unused *ret_claim);

/* Number of steps that all searches for devices of ResourceClaims have taken. */
uint64_t cluster_n_claim_steps(const struct cluster *cluster);

/*
 * The ResourceClaims of an assumed pod, in the order of the writes that its Binding needs. The
 * claim is valid until the cluster changes.
 * claims_begin_write() explains the two functions for the write of an allocation.
 */
uint32_t cpod_n_claims(const struct cpod *pod);
struct claims_write cpod_claim(const struct cpod *pod, uint32_t i);
/* Whether drivers have made all devices of the placed pod's claims ready for its Binding. */
bool cpod_claims_are_ready(struct cluster *cluster, const struct cpod *pod);
/* Sets a ResourceClaim that answers a write; the watch may show older ones afterwards. */
int cluster_set_claim_answer(struct cluster *cluster, json_t *json, struct error *err);
void cluster_begin_claim_write(struct cluster *cluster, const char *ns, const char *name);
void cluster_end_claim_write(
	struct cluster *cluster, const char *ns, const char *name, bool is_unclear);
/* The resourceVersion of that claim, as the cluster knows the claim now; NULL: it is deleted. */
const char *cluster_claim_version(
	const struct cluster *cluster, const struct cpod *pod, uint32_t i);

/* Number of nominated pods whose victims are still terminating. */
uint32_t cluster_n_nominated(const struct cluster *cluster);
/* Writes all nominated pods, cluster_n_nominated() of them, in the order of nomination. */
void cluster_nominated(const struct cluster *cluster, struct cpod **ret_pods);
/* The greatest epoch that any node reports. Nodes refuse to start pods with an older epoch. */
uint64_t cluster_epoch(const struct cluster *cluster);
/* Number of extender pods with a reservation. */
uint32_t cluster_n_reserved(const struct cluster *cluster);
/* Iterates over all pods in any state: NULL gives the first, the last gives NULL. */
struct cpod *cluster_next_pod(struct cluster *cluster, struct cpod *pod);

/*
 * Whether the last decision about the pod, or about its gang, left it waiting for a device, so that
 * a further device might help.
 */
bool cpod_needs_device(const struct cpod *pod);
void cpod_set_needs_device(struct cpod *pod, bool needs_device);
/* Whether the pod's condition NeedsDevice already says cpod_needs_device(). */
bool cpod_is_need_reported(const struct cpod *pod);
/* Whether the pod's condition PodScheduled already has this reason and message. */
bool cpod_is_reported(const struct cpod *pod, enum reason reason, const char *sentence);

/* Revokes an assumed decision, a nomination or a reservation; the pod waits again. */
void cluster_forget(struct cluster *cluster, struct cpod *pod);

/*
 * The API server refused the pod's Binding with the message `why`. Revokes the decision like
 * cluster_forget(). In addition, the pod preempts no other pod for CLUSTER_REFUSED_NS, which each
 * further refusal doubles up to CLUSTER_REFUSED_MAX_NS. Call cpod_forgive() after a change of
 * labels, annotations or spec: the pod may preempt again. -ENOMEM: done, but without a text.
 */
#define CLUSTER_REFUSED_NS (UINT64_C(60) * 1000000000)
#define CLUSTER_REFUSED_MAX_NS (UINT64_C(3600) * 1000000000)
int cluster_refuse(struct cluster *cluster, struct cpod *pod, const char *why);
void cpod_forgive(struct cpod *pod);
uint32_t cpod_n_refused(const struct cpod *pod);  /* number of refused Bindings in a row */
const char *cpod_refusal(const struct cpod *pod); /* "the API server refused ..."; "": none */
/* Whether the last Binding was refused, and the pause of preemption still lasts. */
bool cpod_is_refused(const struct cluster *cluster, const struct cpod *pod);
/*
 * Iterates, in the order of cluster_next_pod(), over the pods that waited for the reservation of
 * `keeper`, whose Binding was refused. Their next messages mention the refusal. NULL: no further
 * pod.
 */
struct cpod *cluster_next_kept(
	struct cluster *cluster, const struct cpod *keeper, struct cpod *pod);
/* text about the refused Binding of the pod for whose reservation this pod waited; "": none */
const char *cpod_kept_text(const struct cpod *pod);

/*
 * Returns {POLICY: status} for the policies whose status in the API is out of date. Each status is
 * for a merge patch. The caller owns *ret_statuses. -ENOMEM.
 */
int cluster_report(struct cluster *cluster, json_t **ret_statuses);

/* ---- for pages and tests ---- */

/*
 * Prints for each device its free share, whole share (both in permille) and number of tenants: "n1:
 * GPU-a 700/1000 1". A closed device has " closed" at its end.
 */
void cluster_print(const struct cluster *cluster, struct buf *out);

#endif
