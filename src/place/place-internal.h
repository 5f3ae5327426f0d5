/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a `struct place`, for its own files and for policies. See place.h. */
#ifndef PLACE_PLACE_INTERNAL_H
#define PLACE_PLACE_INTERNAL_H

#include <stddef.h>

#define HASH_NONFATAL_OOM 1

#include "base/array.h"
#include "base/hash.h"
#include "place/place-draw.h"
#include "place/place.h"

struct place_bounds;
struct place_mix;
struct place_networks;
struct place_paths;
struct place_queues;
struct place_search;

/* For loops that the compiler is to make vectors of, of the widest that the machine has. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
	!defined(__SANITIZE_THREAD__) && defined(__x86_64__)
#define PLACE_VECTORS __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define PLACE_VECTORS
#endif

#define N_CLASSES (SPEC_OPPORTUNISTIC + 1)

/* A label's devices, by what it is to the tenants on them. */
enum role { ROLE_AFFINITY, ROLE_ANTI_AFFINITY, ROLE_EXCLUSION, ROLE_PREFERRED, N_ROLES };

struct label {
	UT_hash_handle hh;
	uint32_t id;
	uint32_t n_uses; /* by tenants and nodes */
	uint32_t n_devices[N_ROLES], size[N_ROLES];
	uint32_t *devices[N_ROLES]; /* no order; those that hold such a tenant */
	char *name;                 /* behind the namespace */
	size_t n;
	char text[]; /* for the hash table: see pack_label() */
};

/* The devices of the tenants of a group: each as often as it has one of them, no order. */
struct group {
	UT_hash_handle hh;
	struct group *prev, *next; /* while idle */
	uint32_t id, n, size;
	uint32_t *devices;
};

/* A tenant's labels on a device, counted. */
struct tag {
	uint32_t label, n;
	enum role role;
};

/* What a decision looks at comes first: a line of the caches. */
struct device {
	uint32_t node, n_tenants;
	uint64_t memory_free, memory_size; /* memory_size: memory_all without the factor */
	uint32_t model;
	uint32_t exclusion; /* valid with tenants */
	uint8_t numa, link;
	bool is_closed, is_used; /* is_used: the slot holds a device */
	uint32_t n_leaving;      /* beside n_tenants, who counts all others */
	uint32_t n_tags, tags_size;
	struct tag *tags;
	uint32_t share_all;
	uint32_t n_of[N_CLASSES];
	uint32_t n_opportunistic; /* of n_tenants: without a priority */
	uint32_t cell;            /* of the configuration's; PLACE_NONE: it names none */
	uint64_t memory_all, memory_taken;
	char uuid[SPEC_LABEL];
};

struct node_name {
	UT_hash_handle hh;
	uint32_t node;
	char text[];
};

/* Likewise. */
struct node {
	uint32_t first_device, n_devices;
	uint64_t models; /* bits of its devices */
	uint64_t taints;
	uint32_t n_tenants, n_tenants_max;
	bool is_closed, is_used;
	uint32_t n_labels;
	uint32_t *labels;
	struct node_name *name;
	char *rack;
	uint32_t n_leaving;       /* of n_tenants */
	uint32_t cpu_leaving;     /* of cpu_taken, what those have */
	uint64_t memory_leaving;  /* of memory_taken */
	bool is_lenient;          /* place_be_lenient */
	uint32_t n_opportunistic; /* on all its devices */
	uint32_t cpu_all, cpu_taken;
	uint64_t memory_all, memory_taken;
};

/* What is taken of a node; for who can wait, without what those have who are leaving it. */
struct taken {
	uint32_t n_tenants, cpu;
	uint64_t memory;
};

static inline struct taken node_taken(const struct node *node, bool can_wait)
{
	if (!can_wait)
		return (struct taken){node->n_tenants, node->cpu_taken, node->memory_taken};
	return (struct taken){node->n_tenants - node->n_leaving,
		node->cpu_taken - node->cpu_leaving, node->memory_taken - node->memory_leaving};
}

struct undo {
	enum { UNDO_ADD, UNDO_REMOVE, UNDO_RETURN, UNDO_CHANGE } type;
	uint32_t tenant;
	struct place_tenant was;
};

struct place {
	struct place_config config;

	/* By node. What search and policies read is apart from the rest, in arrays of its own. */
	struct node *nodes;
	uint32_t *cpu_free;
	uint64_t *memory_free;
	uint64_t *versions; /* +1 at each change */
	struct held *held;  /* who is there (place-held.h) */
	uint32_t n_nodes, nodes_size;
	uint32_t used_nodes;
	struct node_name *by_name;

	/* By device; a node's are next to each other. */
	struct device *devices;
	uint16_t *share_free; /* of any device */
	uint16_t *share_open; /* for who has no exclusion label: 0 where those are not let in */
	uint32_t n_devices, devices_size;

	struct place_tenant
		*tenants; /* node == PLACE_NONE: the slot is free, spec.group the next */
	uint32_t n_tenants, tenants_size, n_placed, tenant_free;

	struct label *labels;    /* by text */
	struct label **label_of; /* NULL: nobody has this number any more */
	uint32_t *label_gaps;    /* those numbers, n_gaps of them */
	uint32_t n_labels, labels_size, n_gaps;
	char models[PLACE_MODELS_MAX][SPEC_LABEL];
	uint64_t model_memory[PLACE_MODELS_MAX]; /* the most that any of its devices has had */
	uint32_t n_models;
	char taints[PLACE_TAINTS_MAX][SPEC_LABEL];
	uint32_t n_taints;

	struct group *groups;
	struct group *idle_groups; /* a list; those without a tenant, while one may come back */

	struct undo *undo;
	uint32_t n_undo, undo_size, n_marks;

	struct place_mix *mix;
	struct place_bounds *bounds;
	struct place_search *search;
	struct drawn drawn;
	uint32_t n_opportunistic;            /* on all devices */
	uint64_t capacity[PLACE_MODELS_MAX]; /* permille of devices that are open */
	int64_t idle[PLACE_MODELS_MAX];      /* of that, what nobody has */
	struct place_queues *queues;         /* NULL: none */
	struct place_networks *networks;     /* NULL: none */
	struct place_paths *paths;           /* NULL: none */
	void *policy_state;                  /* the policy's own */

	place_filter_fn *filter; /* NULL: none */
	void *filter_arg;
	/* What the filter is told beside the node, while victims are removed under a mark. */
	const uint32_t *gone;
	uint32_t n_gone;
};

/* The node's devices that the tenant may have, share and memory included: bit i is its i-th. */
uint64_t place_eligible(const struct place *place, const struct place_spec *spec, uint32_t node);

/* All about the node but its devices. */
enum place_reason place_node_reason(
	const struct place *place, const struct place_spec *spec, uint32_t node);

/* What the filter says. */
static inline uint64_t place_filtered(const struct place *place, const struct place_spec *spec,
	uint32_t node, const uint32_t *gone, uint32_t n_gone)
{
	return place->filter ? place->filter(place->filter_arg, spec, node, gone, n_gone)
			     : UINT64_MAX;
}

/* What the tenant would take of the device's memory. */
uint64_t place_device_bytes(
	const struct place *place, const struct place_spec *spec, uint32_t device);

/* Whether the policy lets it be on the device with those who are there. */
bool place_policy_allows(const struct place *place, const struct place_spec *spec, uint32_t device);

/* Whether all that it names by number is known: 0, or -EINVAL with the number. */
int place_spec_known(const struct place *place, const struct place_spec *spec, struct error *err);

/*
 * Who has left since a mark that is still open comes back as it was, under its number: 0, -ENOSPC
 * where it does not fit any more, -ENOMEM.
 */
int place_return(struct place *place, uint32_t tenant, const struct place_tenant *was);

/*
 * The same where those who have come since could all have come beside it, in the same order: the
 * rules are not alike for who comes and who is there (the first of a label of affinity takes an
 * idle device, and a policy may tell its classes apart). Else -ENOSPC.
 */
int place_return_beside(struct place *place, uint32_t tenant, const struct place_tenant *was);

/* As place_linger, and was as it was when it was removed. -ENOSPC, -ENOMEM. */
int place_return_leaving(
	struct place *place, uint32_t tenant, const struct place_tenant *was, struct error *err);

/* Each is the other's peer from now on, also in what is taken back. -ENOMEM. */
int place_tie(struct place *place, uint32_t a, uint32_t b);

/* After each change of what is free on the device, or of who may come. */
void place_device_changed(struct place *place, uint32_t device);

/* What is free of a node, after what it has or what is taken of it has changed. */
void place_node_count(struct place *place, uint32_t node);

/*
 * From now on what those have of it who are leaving the node counts as free, for who can wait; or
 * no more. PLACE_NONE: every node that somebody is leaving. Of the devices nothing changes.
 */
void place_be_lenient(struct place *place, uint32_t node, bool is_lenient);

/* Its share counts in capacity, and what is free of it in idle. */
static inline bool device_counts(const struct place *place, uint32_t device)
{
	const struct device *d = &place->devices[device];

	return !d->is_closed && !place->nodes[d->node].is_closed;
}

/* Somebody may come, as far as the device itself goes. */
static inline bool device_is_open(const struct device *d)
{
	return !d->is_closed && !d->n_leaving;
}

/* A device that nobody is on, or only who is leaving. */
static inline bool device_is_idle(const struct place *place, uint32_t device)
{
	return place->devices[device].n_tenants == 0;
}

/* NULL where none of the group is placed on a device. */
const struct group *place_group(const struct place *place, uint32_t id);
void place_groups_free(struct place *place);

bool place_is_tagged(const struct place *place, uint32_t device, uint32_t label, enum role role);

/* For qsort: uint32_t, such as tenants, rising. */
static inline int place_compare_numbers(const void *pa, const void *pb)
{
	const uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;

	return (a > b) - (a < b);
}

/* NULL for none. */
static inline const struct label *place_label_at(const struct place *place, uint32_t label)
{
	return label && label <= place->n_labels ? place->label_of[label] : NULL;
}

#endif
