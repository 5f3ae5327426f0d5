/* SPDX-License-Identifier: Apache-2.0 */
/* The structs of the store and the search, for claims.c, slice-pool.c and allocate*.c. */
#ifndef CLAIMS_CLAIMS_INTERNAL_H
#define CLAIMS_CLAIMS_INTERNAL_H

#include "base/hash.h"
#include "base/rand.h"
#include "claims/resource-claim.h"
#include "claims/claims.h"
#include "claims/slice.h"

#define CLAIM_VERSION_SIZE 32u /* a resourceVersion has up to 20 digits */

/* An object of the store by its key: the name, or "namespace/name" of a claim. */
struct claims_entry {
	char *key;
	struct slice *slice;
	struct device_class *class;
	struct resource_claim *claim;
	char watched[CLAIM_VERSION_SIZE]; /* of the claim, as the watch showed it last; "": never */
	json_t *rule_json;
	struct taint_rule rule;
	/* Allocation that is not in the API yet, and its arena; NULL: none. For a claim. */
	struct allocation assumed;
	struct arena assumed_arena;
	char *assumed_user; /* name of the pod that assumed it first; NULL: not known */
	uint32_t n_assumed; /* places that hold the assumption */
	uint32_t n_writes;  /* writes of the allocation in flight */
	bool is_kept;       /* the API may have the assumed allocation */
	uint32_t n_hidden;  /* hidden pods that use the claim */
	char *ending_uid;   /* of the pod of claims_note_ending(); NULL: none */
	struct claims_entry *ending_prev, *ending_next; /* claims.ending */
	bool is_counted; /* its allocation counts as a use of its devices */
	bool is_changed; /* claims.changes has its key */
	UT_hash_handle hh;
};

/* The shares and the whole use that claims have of a device, by its id; none without a claim. */
struct device_use {
	char *id;
	uint32_t n_whole; /* claims that have the device for themselves */
	uint32_t n_shares;
	struct amount_sum *sums; /* consumed by shares; list */
	UT_hash_handle hh;
};

struct amount_sum {
	struct amount_sum *next;
	char *name;
	__int128 nano;
};

struct claims_slot {
	const struct slice *slice;
	uint32_t pool; /* number of its pool */
};

struct claims {
	struct rand rand; /* for the identifiers of shares */
	struct claims_packing packing;
	uint64_t n_steps, most_steps;
	uint64_t version, slices_version;
	uint32_t n_class_numbers;
	/* keys of claims for claims_next_changed(), and the key that it returned last */
	char **changes, *taken_change;
	uint32_t n_changes, changes_room;
	bool is_watched;
	struct claims_entry *objects[CLAIMS_KINDS];
	/*
	 * All slices by pool and name, and by node; valid unless is_index_old. The slices of pool i
	 * are by_pool[pool_starts[i]] to by_pool[pool_starts[i + 1] - 1].
	 */
	const struct slice **by_pool;
	struct claims_slot *by_node;
	uint32_t *pool_starts;
	uint32_t n_slices, n_pools;
	bool is_index_old;
	bool has_packed; /* slices of the packed driver; valid unless is_index_old */
	/* Each change of an allocation updates the uses; are_uses_old: memory was exhausted. */
	struct device_use *uses;
	bool are_uses_old;
	struct claims_entry *ending; /* the claims with ending_uid; list */
	bool is_ending_hidden;
	struct claims_on_hidden on_hidden;
};

/* The node that the slice names; "": none. */
static inline const char *slice_node(const struct slice *slice)
{
	return slice->nodes.name ? slice->nodes.name : "";
}

/* ---- claims.c ---- */

/* The allocation of the claim: in the API, or assumed; NULL: none. */
const struct allocation *claims_entry_allocation(const struct claims_entry *entry);

#define CLAIMS_KEY_MAX 512u
/* The key of the object, in `room` or `name`. */
const char *claims_key(
	enum claims_kind kind, const char *ns, const char *name, char room[static CLAIMS_KEY_MAX]);
struct claims_entry *claims_find(struct claims *claims, enum claims_kind kind, const char *key);
/* Brings the indexes up to date. -ENOMEM. */
int claims_refresh(struct claims *claims);
/* Ends the assumption about the claim; claims_drop_unheld() does so only if nothing holds it. */
void claims_drop_assumed(struct claims *claims, struct claims_entry *entry);
void claims_drop_unheld(struct claims *claims, struct claims_entry *entry);

/* The device with that name in the newest slices of the pool; NULL: none. */
const struct device *claims_find_device(
	const struct claims *claims, const char *driver, const char *pool, const char *name);

/* ---- claims-use.c ---- */

const struct device_use *claims_use(const struct claims *claims, const char *id);
void claims_drop_uses(struct claims *claims);
/*
 * Counts the allocation of the claim, unless all pods that use the claim are hidden. Call
 * claims_uncount() before a change of the claim or of its assumption, and claims_recount()
 * afterwards.
 */
void claims_uncount(struct claims *claims, struct claims_entry *entry);
void claims_recount(struct claims *claims, struct claims_entry *entry);
/* Undoes claims_note_ending(). */
void claims_end_ending(struct claims *claims, struct claims_entry *entry);
/* Whether a device of the allocation has more users than it has room for. */
bool claims_is_exceeded(const struct claims *claims, const struct allocation *allocation);

/* ---- slice-pool.c ---- */

struct pool_counter {
	const struct counter *of;
	__int128 left, taken;
};

/* The newest slices of one pool, as one node sees them. */
struct pool {
	const char *driver, *name;
	bool is_incomplete; /* slices are missing, or are being replaced */
	bool is_invalid;    /* devices or counters are not consistent */
	bool has_binding_conditions;
	const struct slice **slices; /* with devices for the node, by name */
	uint32_t n_slices;
	const struct slice **others; /* with devices for other nodes */
	uint32_t n_others;
	struct pool_counter *counters;
	uint32_t n_counters;
	bool has_counted; /* counters[].left is known */
};

struct pools {
	struct pool *v;
	uint32_t n;
};

/* Collects the pools with devices for the node, in the order in which they are tried. -ENOMEM. */
int pools_gather(struct arena *arena, const struct claims *claims, const struct claims_node *node,
	struct pools *ret_pools);
/* Subtracts what the taken devices of the pool consume from its counters, once. */
void pool_count(const struct claims *claims, struct pool *pool);

/* ---- allocate.c ---- */

/* A device that the search has chosen for a claim. */
struct chosen {
	const struct device *device;
	const struct request *request;
	struct amount *consumed; /* by capacity of the device; NULL: not shared */
};

struct claim_result {
	struct chosen v[CLAIM_DEVICES_MAX];
	uint32_t n;
	uint32_t *choices; /* by request: the choice that the search took */
};

struct claims_wanted {
	struct resource_claim **v;
	uint32_t n;
	uint64_t steps;        /* that the search may still take */
	const char *preferred; /* unit to try first; NULL: none */
};

struct claims_choice {
	struct claim_result *v; /* one for each claim */
	struct claims_score score;
};

/*
 * Chooses devices for the claims. The arena owns the results. -ENOSPC: there are not enough
 * devices, and `err` says why; -ETIMEDOUT: too many steps; other errors are faults of the claims,
 * or -ENOMEM.
 */
int allocate(struct arena *arena, const struct claims *claims, const struct claims_node *node,
	struct claims_wanted *wanted, struct claims_choice *ret_choice, struct error *err);

/* ---- allocate-why.c ---- */

/*
 * Calls `tell` for the devices of the node, for the first request that they cannot satisfy, or that
 * they cannot satisfy together with the others. Errors as of allocate().
 */
int allocate_explain(struct arena *arena, const struct claims *claims,
	const struct claims_node *node, struct claims_wanted *wanted,
	const struct claims_teller *teller, struct error *err);

/* ---- claims-search.c ---- */

struct claims_search {
	struct claims *claims;
	struct arena arena;
	const char *uid, *name; /* of the pod */
	struct claims_entry **entries;
	uint32_t n;
	struct claims_wanted wanted;   /* the claims that have no devices yet */
	uint32_t *wanted_at;           /* their positions in entries */
	struct claims_answer *answers; /* by node */
};

/* Whether the node reaches the devices of all claims that have devices. */
bool claims_search_reaches(
	struct claims_search *search, const struct claims_node *node, const char **ret_why);

/* ---- claims-sum.c ---- */

struct claims_sum claims_sum_chosen(
	const struct claims *claims, const struct claim_result *results, uint32_t n);

/* Sums up the claim, which has an allocation. False: it has none of the driver's devices. */
bool claims_sum_entry(
	struct claims *claims, const struct claims_entry *entry, struct claims_sum *ret_sum);

/* The first pod that uses the claim; NULL: not known. */
const char *claims_entry_user(const struct claims_entry *entry);

/* ---- claims-unit.c ---- */

bool unit_is_preferred(const struct claims_wanted *wanted, const struct device *device);
/* Keeps the key for claims_next_changed(). -ENOMEM. */
int claims_note_change(struct claims *claims, struct claims_entry *entry);

/* ---- allocate-result.c ---- */

/* Returns the AllocationResult of a claim for the API, which the caller owns; NULL: no memory. */
json_t *allocate_format(struct claims *claims, const struct resource_claim *claim,
	const struct claim_result *result, const char *node, const char *time);

#endif
