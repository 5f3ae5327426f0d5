/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The known ResourceSlices, DeviceClasses, ResourceClaims and DeviceTaintRules, and the choice of
 * devices for a pod's claims. A claim whose devices are chosen but not in the API yet is assumed:
 * its devices count as taken until the API shows the allocation or the assumption is released. The
 * choice is that of kube-scheduler: the first devices by pool, slice and position that satisfy all
 * claims together. claims_pack() names a driver whose devices are tried in another order. Pure; one
 * thread.
 */
#ifndef CLAIMS_CLAIMS_H
#define CLAIMS_CLAIMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kuberules/labels.h"

#define CLAIMS_POD_MAX 32u /* claims of a pod that this scheduler allocates */
/*
 * Most steps of the search for one pod, on all nodes together, and on one node: about a second, and
 * a tenth. kube-scheduler stops its search on a node after 10 seconds.
 */
#define CLAIMS_STEPS_MAX UINT64_C(50000000)
#define CLAIMS_NODE_STEPS_MAX UINT64_C(5000000)
#define CLAIMS_TRY_STEPS 50u /* steps that a try of one device counts */

enum claims_kind {
	CLAIMS_SLICE,
	CLAIMS_CLASS,
	CLAIMS_CLAIM,
	CLAIMS_TAINT_RULE,
	CLAIMS_KINDS,
};

struct claims;

/* seed: for the identifiers of shares, which must differ from those of other processes. */
int claims_new(uint64_t seed, struct claims **ret_claims, struct error *err);
void claims_free(struct claims *claims);
DEFINE_CLEANUP(struct claims *, claims_free)

/*
 * Adds or replaces an object that the watch shows. A claim that is not newer than the known one is
 * ignored, because answers to writes and watches arrive in any order; but a claim that is older
 * than the watch has shown before is taken, since the API server's store was restored. -EINVAL (no
 * name), -ENOMEM: the old object stays.
 */
int claims_set(struct claims *claims, enum claims_kind kind, json_t *json, struct error *err);
/* The same for a claim that answers a write. */
int claims_set_answer(struct claims *claims, json_t *json, struct error *err);
/* ns is ignored for kinds without a namespace. -ENOENT: no such object. */
int claims_remove(struct claims *claims, enum claims_kind kind, const char *ns, const char *name);

/*
 * Limits the steps of all searches together from now on, since a decision about several pods or
 * about evictions makes many searches. UINT64_MAX: no limit.
 */
void claims_limit_steps(struct claims *claims, uint64_t steps);
/* Number of steps that all searches have taken. */
uint64_t claims_n_steps(const struct claims *claims);

/* A claim of a pod. */
struct claims_name {
	const char *name;  /* of the ResourceClaim; NULL: it is not made yet */
	const char *entry; /* name in the pod's spec, for messages */
	bool is_owned;     /* made from a template, so the pod must be its owner */
};

struct claims_pod {
	const char *ns, *name, *uid;
	const struct claims_name *v;
	uint32_t n;
	/* Claims allocated before this RFC 3339 time fail if they are not ready; NULL: none. */
	const char *ready_after;
};

/*
 * A claim of a waiting pod with devices that only some nodes reach, and that no other pod uses. It
 * was allocated for an earlier try to place the pod, such as that of a scheduler that ended. If the
 * pod fits none of these nodes, its devices should be freed.
 */
struct claims_unused {
	const char *name, *uid, *version;
};
/* Finds the next such claim at or behind pod->v[*at], and moves *at behind it. False: none. */
bool claims_next_unused(struct claims *claims, const struct claims_pod *pod, uint32_t *at,
	struct claims_unused *ret_claim);

/*
 * Whether a driver could not make the devices of one of the pod's claims ready, by its binding
 * conditions or in time. The devices should be freed.
 */
bool claims_have_failed(struct claims *claims, const struct claims_pod *pod);

struct claims_node {
	const char *name;
	const struct labels *labels;
};

/*
 * A driver whose devices are packed: used devices first, so that other devices stay free as a
 * whole, and several devices from one group. Texts are borrowed.
 */
struct claims_packing {
	const char *driver; /* NULL: none */
	const char *group;  /* attribute with equal values for devices of one group; NULL: none */
};
void claims_pack(struct claims *claims, struct claims_packing packing);

/*
 * How well devices of the packed driver fit, in the order of importance. Smaller values are better:
 * later alternatives of prioritized lists, groups beyond the first, unused devices, unused devices
 * in their groups, capacity that the devices have left, and unused devices of the node.
 */
enum claims_criterion {
	CLAIMS_ALTERNATIVES,
	CLAIMS_GROUPS,
	CLAIMS_OPENED,
	CLAIMS_GROUP_FREE,
	CLAIMS_LEFT,
	CLAIMS_NODE_FREE,
	CLAIMS_CRITERIA,
};
struct claims_score {
	bool is_packed; /* some of the devices are of the packed driver; else all values are 0 */
	uint64_t v[CLAIMS_CRITERIA];
};
/* Whether score a is better than b. */
bool claims_score_is_better(const struct claims_score *a, const struct claims_score *b);

struct claims_search;

/*
 * Prepares the choice of devices for a pod. Texts are borrowed; `claims` must not change meanwhile.
 * -EAGAIN: the pod waits for a claim, and `err` says why; -ENOENT: a claim or class is missing;
 * -ENOTSUP, -EINVAL: a claim or class was not understood; -ENOMEM.
 */
int claims_search_new(struct claims *claims, const struct claims_pod *pod,
	struct claims_search **ret_search, struct error *err);
void claims_search_free(struct claims_search *search);
DEFINE_CLEANUP(struct claims_search *, claims_search_free)

/*
 * Whether the node can have all claims. *ret_why, for a node that cannot: the reason, such as "no
 * device for claim a", borrowed from the search; else unchanged.
 */
bool claims_search_fits(
	struct claims_search *search, const struct claims_node *node, const char **ret_why);

/* The score of a node that fits. */
struct claims_score claims_search_score(
	const struct claims_search *search, const struct claims_node *node);

/* Share and memory of the packed driver's devices that a claim has, or that claims would get. */
struct claims_sum {
	const char *ns, *user; /* of a claim, and the first pod that uses it, or NULL; borrowed */
	const json_t *configs; /* its devices.config, borrowed; NULL: none */
	uint64_t share, bytes; /* of the capacities `share` and `memory`, in their units */
};
#define CLAIMS_WHOLE_SHARE 1000u /* the share that counts for a whole device */
/*
 * Goes to the next claim with devices of the packed driver that does not count as free; *at is NULL
 * at first. False: none.
 */
bool claims_next_sum(struct claims *claims, const void **at, struct claims_sum *ret_sum);
/* Number that grows with each change of what claims have. */
uint64_t claims_version(const struct claims *claims);
/* The sum of what the claims would get on a node that fits. */
struct claims_sum claims_search_sum(
	const struct claims_search *search, const struct claims_node *node);

/*
 * A unit of the packed driver: the devices of a node that consume one counter, of which claims have
 * the whole or shares.
 */
struct claims_unit {
	const char *name, *model; /* borrowed from the slices; model "": not known */
	uint64_t bytes;           /* of the capacity `memory` */
	int64_t group;            /* of claims_packing; -1: none */
	bool suits;               /* the only request of the search may have it, if it is free */
};
#define CLAIMS_UNITS_MAX 64u
/* Whether there are slices of the packed driver. */
bool claims_has_units(struct claims *claims);
/* Lists the units of a node, in a constant order. search: a simple one, or NULL. Returns n. */
uint32_t claims_units(struct claims *claims, struct claims_search *search,
	const struct claims_node *node, struct claims_unit units[static CLAIMS_UNITS_MAX]);

/* Claims that a placement model understands: one request without alternatives. */
struct claims_simple {
	uint32_t count;
	uint64_t share, bytes; /* requested of each device; share 0: all of it */
};
bool claims_search_simple(const struct claims_search *search, struct claims_simple *ret_simple);
/* Tries this unit before all others. The name is borrowed. */
void claims_search_prefer(struct claims_search *search, const char *unit);

/* The units that a claim has. */
struct claims_held_units {
	const char *key;       /* of the claim: NAMESPACE/NAME */
	const char *ns, *user; /* user: first pod that uses it; NULL: not known */
	const char *node;      /* NULL: none, as for a claim without devices */
	const char *units[32]; /* n of them */
	uint32_t n;            /* 0: the claim has none, or counts as free; never more than 32 */
	bool is_whole;
	uint64_t share, bytes; /* of each unit */
};
/*
 * Returns a claim whose devices have changed since it was returned last. All texts are valid until
 * the next call. Call claims_watch() first, after claims_pack(): then all known claims count as
 * changed. -ENOMEM: call it again. False: no such claim.
 */
int claims_watch(struct claims *claims);
bool claims_next_changed(struct claims *claims, struct claims_held_units *ret_held);
/* Number that grows with each change of the slices. */
uint64_t claims_slices_version(const struct claims *claims);

/* A device that a waiting request does not get, or a reason about the whole node. */
struct claims_reason {
	const char *device;  /* its name in the pool; "": the reason concerns the node */
	const char *model;   /* attribute `model` of its driver; "": none */
	const char *text;    /* "": the device suits the request and is free */
	bool has_free;       /* requests can share the device's capacities */
	uint64_t free_share; /* free part of the capacity `share`, in the driver's units */
	uint64_t free_bytes; /* free part of the capacity `memory` */
};
struct claims_teller {
	void (*tell)(void *data, const struct claims_reason *reason);
	void *data;
};
/*
 * Explains why the node cannot have the claims: calls `tell` once for the node, and then for its
 * devices of the class of the first request that the node cannot satisfy. Errors as of
 * claims_search_new().
 */
int claims_search_explain(struct claims_search *search, const struct claims_node *node,
	const struct claims_teller *teller, struct error *err);

/*
 * Chooses devices on the node and assumes them. ret_place: the assumption, which the caller frees
 * with claims_release(). `time` is the RFC 3339 time of the allocations. -ENOSPC: no devices now.
 */
struct claims_place;
int claims_assume(struct claims_search *search, const struct claims_node *node, const char *time,
	struct claims_place **ret_place, struct error *err);
/* Whether drivers have made all devices of the place's claims ready for the Binding. */
bool claims_place_is_ready(struct claims *claims, const struct claims_place *place);
/* Frees the place. Its claims that the API does not show as allocated are free again. */
void claims_release(struct claims *claims, struct claims_place *place);

/*
 * Hides one more pod that uses the claim (is_hidden), or one fewer. While all pods that use the
 * claim are hidden, its devices count as free, as they will be when these pods have ended.
 */
void claims_hide_user(struct claims *claims, const char *ns, const char *name, bool is_hidden);
/*
 * The pod with that uid was evicted and has ended, and Kubernetes will free the devices of its
 * claim unless others use it: until then claims_hide_ending() counts them as free.
 * claims_has_ending(): whether there is such a claim.
 */
void claims_note_ending(struct claims *claims, const char *ns, const char *name, const char *uid);
void claims_hide_ending(struct claims *claims, bool is_hidden);
bool claims_has_ending(const struct claims *claims);
/*
 * claims_hide_user() and claims_hide_ending() call `done` for each claim whose devices begin to
 * count as free (is_free), or count as taken again. claims_version() has grown by one then.
 */
struct claims_on_hidden {
	void (*done)(void *data, const struct claims_sum *sum, bool is_free);
	void *data;
};
void claims_set_on_hidden(struct claims *claims, struct claims_on_hidden on_hidden);

/*
 * Whether the devices that the place assumes are free of other claims. They are not while the pods
 * that had them still run, for a place that was chosen while these pods were hidden.
 */
bool claims_place_is_free(struct claims *claims, const struct claims_place *place);

/*
 * A write of the claim's assumed allocation begins or ends. Its devices stay taken meanwhile, even
 * after claims_release(). is_unclear: the API may have the allocation, so the devices stay taken
 * until the API shows a later version of the claim.
 */
void claims_begin_write(struct claims *claims, const char *ns, const char *name);
void claims_end_write(struct claims *claims, const char *ns, const char *name, bool is_unclear);

/* The claims that the pod needs before it can be bound, with what each lacks. */
uint32_t claims_place_count(const struct claims_place *place);
struct claims_write {
	const char *name, *uid;
	json_t *allocation; /* status.allocation to write, borrowed; NULL: the API has it */
	bool has_finalizer;
};
/* The resourceVersion of the known claim; NULL: the claim is unknown or another one. */
const char *claims_place_version(
	struct claims *claims, const struct claims_place *place, uint32_t i);
void claims_place_get(const struct claims_place *place, uint32_t i, struct claims_write *ret_write);

#endif
