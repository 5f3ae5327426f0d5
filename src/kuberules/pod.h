/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod: the fields that placement needs. pod.c names each field of the newest API's pod spec, and
 * a test compares its list with that API. Further fields that a later API server puts into the spec
 * or a container are ignored, since most are for the kubelet. Below affinity, spread constraints,
 * tolerations and resources every field narrows the choice of nodes, so there an unknown field
 * refuses the pod.
 */
#ifndef KUBERULES_POD_H
#define KUBERULES_POD_H

#include "kuberules/kuberules-node.h"
#include "kuberules/object.h"
#include "kuberules/resources.h"
#include "kuberules/storage.h"

#define POD_CONTAINERS_MAX 1024 /* containers, and also init containers */
#define POD_PORTS_MAX 4096      /* host ports of all containers */

enum port_protocol { PORT_TCP, PORT_UDP, PORT_SCTP, PORT_PROTOCOLS };

struct host_port {
	const char *ip; /* "0.0.0.0": every address of the node */
	int protocol;
	int64_t port;
};

struct host_ports {
	struct host_port *v;
	uint32_t n;
};

/* Above and below compare the taint's value, as an integer, with the toleration's. */
enum toleration_op { TOLERATION_EQUAL, TOLERATION_EXISTS, TOLERATION_ABOVE, TOLERATION_BELOW };

struct toleration {
	const char *key; /* "": the toleration covers every key */
	const char *value;
	int op;
	int effect; /* -1: the toleration covers every effect */
};

struct tolerations {
	struct toleration *v;
	uint32_t n;
};

/* One required term of pod affinity or anti-affinity. */
struct pod_term {
	struct selector pods;
	struct texts namespaces;
	struct selector namespace_selector;
	const char *topology_key;
	struct texts match_keys, mismatch_keys; /* `pods` has requirements for these keys */
};

struct pod_terms {
	struct pod_term *v;
	uint32_t n;
};

/* A required topology spread constraint; ScheduleAnyway only affects scores. */
struct spread {
	const char *topology_key;
	struct selector pods;
	struct texts match_keys; /* `pods` has requirements for these keys */
	int64_t max_skew, min_domains;
	int when; /* 0: DoNotSchedule */
	/* 0: Honor. Nodes that the pod's node affinity excludes do not count. */
	int affinity_policy;
	/* 0: Honor. Nodes with a taint that the pod does not tolerate do not count. */
	int taints_policy;
};

struct spreads {
	struct spread *v;
	uint32_t n;
};

/* A volume with placement rules: a claim, or a disk that the pod names directly. */
struct pod_volume {
	const char *claim; /* NULL: none */
	bool is_ephemeral; /* Kubernetes makes the claim for this pod, which must be its owner */
	struct disk disk;
};

struct pod_volumes {
	struct pod_volume *v;
	uint32_t n;
};

/* A ResourceClaim of the pod. */
struct pod_claim {
	const char *entry;         /* name in the pod's spec */
	const char *name;          /* of the ResourceClaim; NULL: Kubernetes has not made it yet */
	const char *template_name; /* NULL: the spec names the ResourceClaim itself */
};

struct pod_claims {
	struct pod_claim *v;
	uint32_t n;
};

struct pod {
	struct object object;
	const char *scheduler;
	const char *node;           /* node of the pod; "": not bound */
	const char *nominated_node; /* "": none */
	int64_t priority;
	int64_t grace_s; /* terminationGracePeriodSeconds */
	bool is_never_preempting;
	bool is_over;   /* phase Succeeded or Failed: the pod uses no resources any more */
	bool is_done;   /* Succeeded */
	bool is_hidden; /* hidden by view_hide() */
	struct texts gates;
	struct resources request;
	struct host_ports ports;
	struct labels node_labels; /* nodeSelector */
	struct node_terms nodes;   /* required node affinity */
	struct tolerations tolerations;
	struct pod_terms affinity, anti_affinity;
	/* a term of the pod's anti-affinity was not understood, so no pod may join it */
	bool is_anti_affinity_unclear;
	struct spreads spreads;
	struct pod_volumes volumes;
	struct pod_claims claims;
	uint32_t features; /* features that the node must declare: declared-features.h */
};

/* Whether one of the tolerations covers the taint. */
bool tolerates(const struct tolerations *tolerations, const struct taint *taint);

/* Whether the two ports cannot be on one node. */
bool host_port_conflicts(const struct host_port *a, const struct host_port *b);

/* Whether the pod's nodeSelector and required node affinity select the node. */
bool pod_selects_node(const struct pod *pod, const struct node *node);

/* Whether the term of `owner` selects `other`, whose namespace has the labels `ns_labels`. */
bool pod_term_matches(const struct pod_term *term, const struct pod *owner, const struct pod *other,
	const struct labels *ns_labels);

static inline const struct pod *pod_from_object(const struct object *object)
{
	return (const struct pod *)object;
}

#endif
