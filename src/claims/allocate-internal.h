/* SPDX-License-Identifier: Apache-2.0 */
/* The search of allocate.c, for the files allocate*.c. */
#ifndef CLAIMS_ALLOCATE_INTERNAL_H
#define CLAIMS_ALLOCATE_INTERNAL_H

#include "claims/claims-internal.h"

enum step {
	STEP_FAILED,   /* no choice satisfies what remains */
	STEP_DONE,     /* everything is satisfied */
	STEP_TOO_MANY, /* the claim would get too many devices, whatever devices they are */
	STEP_ABORT,    /* search->fault has an error that ends the search */
};

/* A device that the node can use. */
struct candidate {
	const struct device *device;
	struct pool *pool;
	const struct device_use *use;
	uint64_t taken_by;  /* bits of the claims for which the search has taken the device */
	uint32_t n_shares;  /* shares that the search has taken */
	__int128 *consumed; /* by these shares, by capacity */
};

enum suits {
	SUITS_UNKNOWN,
	SUITS_YES,
	SUITS_NOT_CLASS,     /* a selector of the class does not match */
	SUITS_NOT_SELECTORS, /* a selector of the request does not match */
	SUITS_NOT_NODE,
};

/* One choice of a request, and the devices that suit it. */
struct wanted {
	const struct request *request;
	const struct device_class *class;
	uint32_t n;     /* devices that are needed */
	uint32_t *all;  /* with allocationMode All: the candidates */
	uint8_t *suits; /* by candidate: an enum suits */
};

struct wanted_request {
	struct wanted *choices;
	uint32_t n;
	bool is_list;
	uint32_t chosen;
};

/* A constraint with the values of the devices chosen so far. */
struct tracker {
	const struct constraint *of;
	const struct attribute *seen[CLAIM_DEVICES_MAX];
	uint32_t n;
};

struct wanted_claim {
	const struct resource_claim *claim;
	struct wanted_request *requests;
	struct tracker *trackers;
	struct claim_result *result;
};

struct search {
	struct arena *arena;
	const struct claims *claims;
	const struct claims_node *node;
	const struct claims_wanted *wanted;
	struct pools pools;
	struct candidate *candidates;
	uint32_t n_candidates;
	uint32_t *order;       /* candidates in the order in which they are tried */
	struct packed *packed; /* by candidate, for allocate-order.c; NULL: no driver is packed */
	struct wanted_claim *claim;
	uint32_t n_claims;
	uint64_t steps;         /* that the search may still take */
	struct amount *amounts; /* room for the capacities of any device */
	int fault;
	struct error *err;
};

/* Which device comes next: of a claim's request, of its choice. */
struct position {
	uint32_t claim, request, choice, device;
	bool is_in_choice; /* the choice is made, if the request is a prioritized list */
	uint32_t from;     /* first place in search->order to try */
};

/* ---- allocate.c ---- */

/* Returns STEP_ABORT, and keeps r as the first fault. */
enum step search_abort(struct search *search, int r);
/* Returns 1 if the request may have the device, as far as nothing is taken; else 0, or an error. */
int search_suits(struct search *search, struct wanted *wanted, uint32_t candidate);
/* Whether a claim has the device for itself. */
bool candidate_is_whole(const struct candidate *candidate);
/* The taint that keeps the request off the device; NULL: none. */
const struct device_taint *search_taint(
	struct search *search, const struct wanted *wanted, const struct device *device);
/* The sum of the capacity with that name that claims have. */
__int128 device_use_sum(const struct device_use *use, const char *name);
/*
 * Returns 1 if the device has enough capacity for the request, else 0, or an error. Writes what the
 * request consumes to search->amounts. is_empty: counts the whole capacity, as if no share had any.
 */
int search_has_capacity(struct search *search, const struct wanted *wanted,
	const struct candidate *candidate, bool is_empty);
struct pool_counter *search_counter(struct pool *pool, const struct counter *of);
/* Takes the device's counters. Like kube-scheduler, needs all counters of the pool to suffice. */
bool search_take_counters(struct search *search, struct candidate *candidate);
/* Adds the device's counters to the taken ones (sign 1), or subtracts them. */
void search_consume(struct candidate *candidate, int sign);

/* Prepares a search; the arena owns its parts. ret->fault, or else the result, has the error. */
int search_new(struct arena *arena, const struct claims *claims, const struct claims_node *node,
	struct claims_wanted *wanted, struct search *ret, struct error *err);

/* ---- allocate-order.c ---- */

/* Sets search->order. -ENOMEM. */
int search_order(struct search *search);
/* Judges the devices that a complete search has chosen. */
void search_score(struct search *search, struct claims_score *ret_score);

/* ---- allocate-why.c ---- */

/* Writes why a search without a result had none. Returns -ENOSPC. */
int search_explain(struct search *search);

/* ---- allocate-prepare.c ---- */

/* Returns zeroed memory for n + 1 items, or NULL, which aborts the search. */
void *search_room(struct search *search, size_t n, size_t item);

/* Collects the devices of the node, and prepares the claims. */
int search_prepare(
	struct search *search, const struct claims_wanted *wanted, struct claim_result *results);

#endif
