/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy's upper bound of the score, for every node and every class of tenants. The search
 * (place-search.c) reads these bounds.
 *
 * Nodes whose devices have the same model form a pool, and each pool has a table (place-columns.h).
 * A class is a kind, a count and a share or a range of shares. A changed node is noted once, and
 * evaluated for all classes when the search next asks for its pool. A class costs nothing if the
 * node has devices for it neither before nor after the change.
 *
 * If a policy has guesses, a node with many classes first gets guesses. A guess is replaced by the
 * bound when a decision reaches the node. Columns that the search stops asking for are no longer
 * updated.
 */
#ifndef PLACE_PLACE_BOUNDS_H
#define PLACE_PLACE_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "place/place-columns.h"

struct place;
struct place_bounds;

int place_bounds_new(struct place *place, struct place_bounds **ret_bounds); /* -ENOMEM */
void place_bounds_free(struct place_bounds *bounds);

/*
 * Makes room for `n_nodes` nodes, and for one more node with `n_devices` devices of `models`.
 * -ENOMEM.
 */
int place_bounds_reserve(
	struct place_bounds *bounds, uint32_t n_nodes, uint64_t models, uint32_t n_devices);

/* Adds a new node, or moves a node whose devices changed. Call place_bounds_reserve() first. */
void place_bounds_enter(struct place_bounds *bounds, uint32_t node);

/* Notes that something about the node has changed. */
void place_bounds_changed(struct place_bounds *bounds, uint32_t node);

/* Marks all bounds as out of date. */
void place_bounds_forget(struct place_bounds *bounds);

/* ---- for the search ---- */

/* One pool per model, one for nodes with several models, and one for nodes without devices. */
enum { POOL_MIXED = PLACE_MODELS_MAX, POOL_NONE, N_POOLS };

/* The nodes of one pool, in ascending order. */
struct pool {
	uint32_t *node;
	uint32_t n, size; /* `size` is a multiple of FAN */
	struct columns columns;

	uint32_t *changed; /* changed rows, each at most once */
	uint32_t n_changed;
	uint64_t n_changes; /* changed rows evaluated so far */
	uint64_t given_up;  /* n_changes when the last search for idle columns ran */
	bool is_forgotten;  /* all bounds are out of date, free capacities are not */
};

const struct pool *place_bounds_pool(const struct place_bounds *bounds, uint32_t pool);
uint32_t place_bounds_pool_of(const struct place_bounds *bounds, uint32_t node);
uint32_t place_bounds_row_of(const struct place_bounds *bounds, uint32_t node);

/*
 * The class whose bounds apply to `of`. It has one share while few distinct shares are in use, and
 * later a range of neighbouring shares.
 */
struct place_class place_bounds_class(struct place_bounds *bounds, const struct place_class *of);

/* The class's column in the pool, after all changed nodes are evaluated. 0: out of memory. */
uint32_t place_bounds_column(
	struct place_bounds *bounds, uint32_t pool, const struct place_class *class);

/* Whether the node had free shares for the class when its pool was last evaluated. */
bool place_bounds_is_open(
	const struct place_bounds *bounds, uint32_t node, const struct place_class *class);

bool place_bounds_is_guess(const struct place_bounds *bounds, uint32_t node, uint32_t column);
/* Replaces the guess by the policy's bound, and returns that bound. */
int32_t place_bounds_look_closer(struct place_bounds *bounds, uint32_t node, uint32_t column);

#endif
