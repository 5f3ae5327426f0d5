/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a `struct place`, for this folder's files and for policies. See place.h. */
#ifndef PLACE_PLACE_INTERNAL_H
#define PLACE_PLACE_INTERNAL_H

#include <stddef.h>

#define HASH_NONFATAL_OOM 1

#include "base/array.h"
#include "base/hash.h"
#include "place/place-locality.h"
#include "place/place.h"

struct place_bounds;
struct workload_mix;
struct place_networks;
struct place_paths;
struct place_queues;
struct place_search;

/* Marks a loop for the compiler to vectorize, with the widest vectors of the machine. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
	!defined(__SANITIZE_THREAD__) && defined(__x86_64__)
#define PLACE_VECTORS __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define PLACE_VECTORS
#endif

#define N_CLASSES (SPEC_OPPORTUNISTIC + 1)

/*
 * The field of its spec by which a tenant uses a label. A label lists the devices of its tenants by
 * role.
 */
enum role { ROLE_AFFINITY, ROLE_ANTI_AFFINITY, ROLE_EXCLUSION, ROLE_PREFERRED, N_ROLES };

struct label {
	UT_hash_handle hh;
	uint32_t id;
	uint32_t n_uses; /* number of tenants and nodes that use the label */
	uint32_t n_devices[N_ROLES], size[N_ROLES];
	/* devices with a tenant that uses the label in that role, in no order */
	uint32_t *devices[N_ROLES];
	char *name; /* the label's name: part of `text`, after the namespace */
	size_t n;
	char text[]; /* key of the hash table: see pack_label() */
};

/* The devices of a group's tenants, in no order; a device is listed once per tenant. */
struct group {
	UT_hash_handle hh;
	struct group *prev, *next; /* in idle_groups */
	uint32_t id, n, size;
	uint32_t *devices;
};

/* Number of tenants with the label in that role on one device. */
struct tag {
	uint32_t label, n;
	enum role role;
};

/* The fields that a decision reads come first, in one cache line. */
struct device {
	uint32_t node, n_tenants;
	/* memory_size: memory_all before the overcommit factor */
	uint64_t memory_free, memory_size;
	uint32_t model;
	uint32_t exclusion; /* label of the device's tenants; valid while n_tenants > 0 */
	uint8_t numa, link;
	bool is_closed, is_used; /* is_used: the slot holds a device */
	uint32_t n_terminating;  /* terminating tenants, which n_tenants does not count */
	uint32_t n_tags, tags_size;
	struct tag *tags;
	uint32_t share_all;
	uint32_t n_of[N_CLASSES];
	uint32_t n_opportunistic; /* tenants of priority 0, part of n_tenants */
	/* cell of the device in config.cells; PLACE_NONE: the cell file does not name the device */
	uint32_t cell;
	uint64_t memory_all, memory_taken;
	char uuid[SPEC_LABEL];
};

struct node_name {
	UT_hash_handle hh;
	uint32_t node;
	char text[];
};

/* The fields that a decision reads come first, in one cache line. */
struct node {
	uint32_t first_device, n_devices;
	uint64_t models; /* bits of its devices' models */
	uint64_t taints;
	uint32_t n_tenants, n_tenants_max;
	bool is_closed, is_used;
	uint32_t n_labels;
	uint32_t *labels;
	struct node_name *name;
	char *rack;
	uint32_t n_terminating;      /* terminating tenants, part of n_tenants */
	uint32_t cpu_terminating;    /* part of cpu_taken that terminating tenants use */
	uint64_t memory_terminating; /* part of memory_taken that terminating tenants use */
	bool is_terminating_free;    /* set by place_count_terminating_free() */
	/* number of opportunistic tenants, summed over the node's devices */
	uint32_t n_opportunistic;
	uint32_t cpu_all, cpu_taken;
	uint64_t memory_all, memory_taken;
};

/*
 * Used capacity of a node. For a pod that may wait (is_terminating_free), terminating tenants do
 * not count.
 */
struct taken {
	uint32_t n_tenants, cpu;
	uint64_t memory;
};

static inline struct taken node_taken(const struct node *node, bool is_terminating_free)
{
	if (!is_terminating_free)
		return (struct taken){node->n_tenants, node->cpu_taken, node->memory_taken};
	return (struct taken){node->n_tenants - node->n_terminating,
		node->cpu_taken - node->cpu_terminating,
		node->memory_taken - node->memory_terminating};
}

struct undo {
	enum { UNDO_ADD, UNDO_REMOVE, UNDO_RETURN, UNDO_CHANGE } type;
	uint32_t tenant;
	struct place_tenant was;
};

struct place {
	struct place_config config;

	/* By node. Values that search and policies read have arrays of their own. */
	struct node *nodes;
	uint32_t *cpu_free;
	uint64_t *memory_free;
	uint64_t *versions; /* versions[node] grows by 1 at each change of the node */
	struct held *held;  /* held[node]: the node's tenants (place-held.h) */
	uint32_t n_nodes, nodes_size;
	uint32_t used_nodes;
	struct node_name *by_name;

	/* By device; the devices of a node are adjacent. */
	struct device *devices;
	uint16_t *share_free; /* free share of each device */
	/* free share for tenants without an exclusion label; 0 if the device refuses them */
	uint16_t *share_open;
	uint32_t n_devices, devices_size;

	struct place_tenant
		/*
		 * node == PLACE_NONE: a free slot, whose spec.group is the index of the next free
		 * slot
		 */
		*tenants;
	uint32_t n_tenants, tenants_size, n_placed, tenant_free;

	struct label *labels;    /* by text */
	struct label **label_of; /* NULL: the number is free */
	uint32_t *label_gaps;    /* the n_gaps free numbers */
	uint32_t n_labels, labels_size, n_gaps;
	char models[PLACE_MODELS_MAX][SPEC_LABEL];
	/* the largest memory that any device of the model has had */
	uint64_t model_memory[PLACE_MODELS_MAX];
	uint32_t n_models;
	char taints[PLACE_TAINTS_MAX][SPEC_LABEL];
	uint32_t n_taints;

	struct group *groups;
	/* groups without a tenant, kept while a rollback may put a tenant back into them */
	struct group *idle_groups;

	struct undo *undo;
	uint32_t n_undo, undo_size, n_savepoints;

	struct workload_mix *mix;
	struct place_bounds *bounds;
	struct place_search *search;
	struct place_locality locality;
	uint32_t n_opportunistic; /* number of opportunistic tenants, summed over all devices */
	uint64_t capacity[PLACE_MODELS_MAX]; /* by model: share of all open devices, in permille */
	int64_t idle[PLACE_MODELS_MAX];      /* unused part of `capacity` */
	struct place_queues *queues;
	struct place_networks *networks;
	struct place_paths *paths;
	void *policy_state; /* owned by the policy */

	place_filter_fn *filter; /* NULL: no filter */
	void *filter_arg;
	/* Victims that are removed under a savepoint, for the argument `evicted` of the filter. */
	const uint32_t *evicted;
	uint32_t n_evicted;
};

/* The node's devices that the tenant may use, share and memory included. Bit i: the i-th device. */
uint64_t place_eligible(const struct place *place, const struct place_spec *spec, uint32_t node);

/*
 * Checks the node without its devices: PLACE_FITS, or the first reason why the node does not fit.
 */
enum place_reason place_node_reason(
	const struct place *place, const struct place_spec *spec, uint32_t node);

/* The devices that the filter allows; all of them without a filter. */
static inline uint64_t place_filtered(const struct place *place, const struct place_spec *spec,
	uint32_t node, const uint32_t *evicted, uint32_t n_evicted)
{
	return place->filter ? place->filter(place->filter_arg, spec, node, evicted, n_evicted)
			     : UINT64_MAX;
}

/* Bytes of the device's memory that a tenant with this spec would get. */
uint64_t place_device_bytes(
	const struct place *place, const struct place_spec *spec, uint32_t device);

/* Whether the policy lets the tenant share the device with its present tenants. */
bool place_policy_allows(const struct place *place, const struct place_spec *spec, uint32_t device);

/* Checks that labels, network devices and queue of the spec exist: 0, or -EINVAL. */
int place_spec_known(const struct place *place, const struct place_spec *spec, struct error *err);

/*
 * Puts back a tenant that was removed since an open savepoint, as before and under its number.
 * -ENOSPC: it no longer fits. -ENOMEM.
 */
int place_return(struct place *place, uint32_t tenant, const struct place_tenant *was);

/*
 * As place_return(), but also checks that all tenants added since the removal would also have
 * fitted if this tenant had stayed. For example, the first tenant of an affinity label must take an
 * idle device, and the returned tenant's device is not idle for that newer tenant. -ENOSPC if the
 * check fails.
 */
int place_return_overlapping(struct place *place, uint32_t tenant, const struct place_tenant *was);

/*
 * Puts back a removed tenant as terminating, as place_readd_terminating() does. `was` is the tenant
 * before its removal. -ENOSPC, -ENOMEM.
 */
int place_return_terminating(
	struct place *place, uint32_t tenant, const struct place_tenant *was, struct error *err);

/* Makes each of the two tenants the other's peer; a rollback undoes the change. -ENOMEM. */
int place_tie(struct place *place, uint32_t a, uint32_t b);

/*
 * Call after each change of a device's free capacity, or of a property that decides which tenants
 * the device accepts.
 */
void place_device_changed(struct place *place, uint32_t device);

/* Recomputes a node's free CPU and memory after a change of its capacity or of its use. */
void place_node_count(struct place *place, uint32_t node);

/*
 * Starts or stops counting the CPU, memory and tenant slots of terminating tenants as free, for
 * pods that may wait. PLACE_NONE: on all nodes with terminating tenants. Devices do not change.
 */
void place_count_terminating_free(struct place *place, uint32_t node, bool is_terminating_free);

/* Whether the device counts in place->capacity and place->idle. */
static inline bool device_counts(const struct place *place, uint32_t device)
{
	const struct device *d = &place->devices[device];

	return !d->is_closed && !place->nodes[d->node].is_closed;
}

/* Whether the device itself accepts new tenants. */
static inline bool device_is_open(const struct device *d)
{
	return !d->is_closed && !d->n_terminating;
}

/* Whether the device has no tenants other than terminating ones. */
static inline bool device_is_idle(const struct place *place, uint32_t device)
{
	return place->devices[device].n_tenants == 0;
}

/* Returns the group with that number; NULL if no tenant of the group is on a device. */
const struct group *place_group(const struct place *place, uint32_t id);
void place_groups_free(struct place *place);

bool place_is_tagged(const struct place *place, uint32_t device, uint32_t label, enum role role);

/* For qsort(): uint32_t in ascending order. */
static inline int place_compare_numbers(const void *pa, const void *pb)
{
	const uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;

	return (a > b) - (a < b);
}

/* NULL for 0 and for numbers without a label. */
static inline const struct label *place_label_at(const struct place *place, uint32_t label)
{
	return label && label <= place->n_labels ? place->label_of[label] : NULL;
}

#endif
