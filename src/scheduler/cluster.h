/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the scheduler knows: the view (kube-scheduler's rules) and the place (devices), both kept
 * true to what the API says, in any order of arrival. A pod's devices are what its given keys say;
 * where its node's divvyd says more, the larger of both counts. What has been decided and is not
 * yet in the API is assumed until the watch confirms it or it is taken back. Nothing else is
 * remembered: after a restart the same objects make the same cluster. Pure; one thread.
 */
#ifndef SCHEDULER_CLUSTER_H
#define SCHEDULER_CLUSTER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "kuberules/object.h"
#include "place/place-policy.h"
#include "scheduler/reason.h"
#include "scheduler/tenancy.h"
#include "spec/given.h"

struct cluster;
struct cpod;

struct cluster_config {
	const char *scheduler_name; /* whose pods are ours */
	unsigned minor;             /* Kubernetes 1.x */
	const struct place_policy *policy;
	const char *rack_label; /* of a node: the rack that it stands in; NULL: the default */
};

#define CLUSTER_RACK_LABEL "topology.kubernetes.io/rack"

/* Beside the kinds of objects that the view knows. */
enum {
	CLUSTER_GPU_NODE = OBJECT_KINDS,
	CLUSTER_LEASE, /* of a node's divvyd */
	CLUSTER_POLICY,
	CLUSTER_BUDGET,
	CLUSTER_GROUP, /* PodGroup of scheduling.x-k8s.io, of scheduling.sigs.k8s.io, of Volcano */
	CLUSTER_SIGS_GROUP,
	CLUSTER_VOLCANO_GROUP,
	CLUSTER_LAST_GROUP = CLUSTER_VOLCANO_GROUP,
	CLUSTER_KINDS
};

/* The config's texts are borrowed. -EINVAL, -ENOTSUP (the release is too old), -ENOMEM. */
int cluster_new(
	const struct cluster_config *config, struct cluster **ret_cluster, struct error *err);
void cluster_free(struct cluster *cluster);
DEFINE_CLEANUP(struct cluster *, cluster_free)

/* The time from now on: CLOCK_MONOTONIC and since 1970. Leases may have become stale by it. */
void cluster_set_time(struct cluster *cluster, uint64_t now_ns, uint64_t real_ns);

/*
 * The object is there, or has changed. -EINVAL (it has no name), -ENOMEM; what was there stays
 * then. The JSON of pods of ours that wait is kept.
 */
int cluster_set(struct cluster *cluster, int kind, json_t *json, struct error *err);
/* -ENOENT: it is not known. */
int cluster_remove(struct cluster *cluster, int kind, const char *ns, const char *name);

/*
 * Policies, namespaces and pods have changed: queues are made anew, and with them what belongs to
 * which; before anything is decided. ret_changed: pods may stand in other lines now, and in other
 * groups. -ENOMEM.
 */
int cluster_settle(struct cluster *cluster, bool *ret_changed);

/* Of two of the place's queues the one whose turn it is; who has less than it is guaranteed. */
bool cluster_queue_is_before(const struct cluster *cluster, uint32_t a, uint32_t b);
bool cluster_queue_is_owed(const struct cluster *cluster, uint32_t queue);

/* What may have made room for somebody since it was last asked. */
bool cluster_take_news(struct cluster *cluster);
/* How many devices take tenants that took none when it was last asked. */
uint32_t cluster_take_opened(struct cluster *cluster);

/* ---- pods ---- */

enum cpod_state {
	CPOD_OTHER,   /* nobody's business here, or over */
	CPOD_GUEST,   /* another scheduler's: it asks for a share, and has no node */
	CPOD_OFFERED, /* of those one whose place is kept until that scheduler binds it there */
	CPOD_PENDING, /* ours, and has no node */
	CPOD_HOLDING, /* its place is its own; it waits for others to leave that */
	CPOD_ASSUMED, /* its Binding is under way */
	CPOD_BOUND,   /* has a node, and devices if it was given any */
};

/* NULL when there is none. Borrowed until the next change of that pod. */
struct cpod *cluster_pod(struct cluster *cluster, const char *ns, const char *name);
/* The same by cpod_key(). */
struct cpod *cluster_pod_by_key(struct cluster *cluster, const char *key);
/* The one with that uid which is on that node, or NULL. */
struct cpod *cluster_pod_on(struct cluster *cluster, const char *node, const char *uid);
enum cpod_state cpod_state(const struct cpod *pod);
const char *cpod_key(const struct cpod *pod); /* "namespace/name" */
const char *cpod_ns(const struct cpod *pod);
const char *cpod_name(const struct cpod *pod);
const char *cpod_uid(const struct cpod *pod);
const char *cpod_node(const struct cpod *pod); /* "": none */
const char *cpod_why(const struct cpod *pod);  /* it was decided so last; "": nothing to say */
json_t *cpod_json(const struct cpod *pod);     /* borrowed; NULL when it does not wait */
const struct given *cpod_given(const struct cpod *pod);
const struct tenancy *cpod_asked(const struct cpod *pod);
int64_t cpod_priority(const struct cpod *pod);      /* spec.priority */
uint32_t cpod_gpu_priority(const struct cpod *pod); /* the highest of its containers */
uint64_t cpod_created_ns(const struct cpod *pod);
const char *cpod_queue(const struct cpod *pod);                            /* its name; "": none */
uint32_t cpod_line(const struct cluster *cluster, const struct cpod *pod); /* 0: of no queue */
/* Its place stands for who leads from now on. */
void cpod_accept(struct cpod *pod);
/* An accepted one that may have containers to start, with an epoch for which nodes refuse that. */
bool cpod_is_older(const struct cpod *pod, uint64_t epoch);
bool cpod_is_done(const struct cpod *pod);      /* it has Succeeded on a node */
bool cpod_is_reclaimed(const struct cpod *pod); /* it was told to leave for another queue */
/* When it takes back what it has asked back; 0: nothing. */
uint64_t cpod_reclaim_at_ns(const struct cpod *pod);
/*
 * While it holds its place, or that is kept for it: until when. While it was told to leave: when it
 * was asked last.
 */
uint64_t cpod_give_up_ns(const struct cpod *pod);
uint64_t cpod_told_ns(const struct cpod *pod); /* 0: it was not told, or is going */
void cpod_set_told_ns(struct cpod *pod, uint64_t now_ns);
bool cpod_take_wish(struct cpod *pod);
/* Annotations that its dialect's users expect now that it runs, and that it lacks; or NULL. */
json_t *cpod_running(const struct cpod *pod);
void cpod_note_wish(struct cpod *pod);
/* Whether that is not what it was told last. */
bool cpod_deny(struct cpod *pod, struct str sentence);
bool cpod_is_denied(const struct cpod *pod);
/* Nobody makes it leave any more. */
int cluster_spare(struct cluster *cluster, struct cpod *pod);
bool cpod_is_ours(const struct cpod *pod);      /* not another scheduler's */
const char *cpod_group(const struct cpod *pod); /* "namespace/name", or "" */

/* Those of a group that are not over, in the order of their coming; how many. */
uint32_t cluster_members(
	struct cluster *cluster, const char *group, struct cpod **ret_pods, uint32_t most);

/* Who holds a place that others are leaving. */
uint32_t cluster_n_holding(const struct cluster *cluster);
/* The newest that any node has seen: it lets nothing begin that an older one has decided. */
uint64_t cluster_epoch(const struct cluster *cluster);
/* For whom a place is kept that another scheduler has yet to bind them to. */
uint32_t cluster_n_offered(const struct cluster *cluster);
/* Each in turn, of all states: NULL gives the first, the last gives NULL. */
struct cpod *cluster_next_pod(struct cluster *cluster, struct cpod *pod);

/* Its condition PodScheduled has this reason and message already. */
bool cpod_is_told(const struct cpod *pod, enum reason reason, const char *sentence);

/* What was assumed of it, or kept for it, is not so: it waits again. */
void cluster_forget(struct cluster *cluster, struct cpod *pod);

/*
 * The API server refused the pod's Binding, and `why` is what the server said. As cluster_forget();
 * besides, the pod preempts no other pod for CLUSTER_REFUSED_NS, after each further refusal twice
 * as long. Its labels, annotations or spec may end that: cpod_forgive(). -ENOMEM: without a text.
 */
#define CLUSTER_REFUSED_NS (UINT64_C(60) * 1000000000)
#define CLUSTER_REFUSED_MAX_NS (UINT64_C(3600) * 1000000000)
int cluster_refuse(struct cluster *cluster, struct cpod *pod, const char *why);
void cpod_forgive(struct cpod *pod);
uint32_t cpod_n_refused(const struct cpod *pod);  /* in a row */
const char *cpod_refusal(const struct cpod *pod); /* "the API server refused ..."; "": none */
/* Its last Binding was refused, and it preempts no pod yet because of that. */
bool cpod_is_refused(const struct cluster *cluster, const struct cpod *pod);
/*
 * The next pod, in the order of cluster_next_pod(), that waited for the reservation of `keeper`,
 * whose Binding was refused; its next sentence says so. NULL: none is left.
 */
struct cpod *cluster_next_kept(
	struct cluster *cluster, const struct cpod *keeper, struct cpod *pod);
const char *cpod_kept_text(const struct cpod *pod); /* that, as a sentence */

/*
 * {NAME: status} of the policies whose status says something else than what is so, for a merge
 * patch of it; the caller's. -ENOMEM.
 */
int cluster_report(struct cluster *cluster, json_t **ret_statuses);

/* ---- for pages and tests ---- */

/* "n1: GPU-a 0.7 free of 1, 1 tenants; ..." */
void cluster_print(const struct cluster *cluster, struct buf *out);

#endif
