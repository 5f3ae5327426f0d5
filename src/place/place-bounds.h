/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy's upper bound of the score, for every node and every class of tenants. The search
 * (place-search.c) reads these bounds.
 *
 * Nodes whose devices have the same model form a pool, and each pool has a table (place-columns.h)
 * with one row for each node and one column for each class. A class (struct place_class) stands for
 * all specs that differ in nothing that a bound may use. A change of a node only adds the node to
 * the list `changed` of its pool. The next search in that pool computes the node's bounds for all
 * classes that fitted the node before the change or fit it now.
 *
 * If a policy can guess bounds, a node that fits many classes first gets guesses. The search
 * replaces a guess by the bound when it reaches the node. A column that no search has requested for
 * a while is no longer updated.
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

/*
 * Adds a new node to its pool, or moves a node whose devices changed to another pool. Call
 * place_bounds_reserve() first.
 */
void place_bounds_enter(struct place_bounds *bounds, uint32_t node);

/* Notes a change of the node that can change its bounds. */
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
	uint64_t given_up;  /* n_changes when give_up_idle() ran last */
	/* all bounds are out of date; the columns of free capacity are current */
	bool is_forgotten;
};

const struct pool *place_bounds_pool(const struct place_bounds *bounds, uint32_t pool);
uint32_t place_bounds_pool_of(const struct place_bounds *bounds, uint32_t node);
uint32_t place_bounds_row_of(const struct place_bounds *bounds, uint32_t node);

/*
 * The class whose column has the bounds for `of`. While tenants have requested few distinct shares,
 * this class has the share of `of`; later it has a range of shares around that share.
 */
struct place_class place_bounds_class(struct place_bounds *bounds, const struct place_class *of);

/* The class's column in the pool, after all changed nodes are evaluated. 0: out of memory. */
uint32_t place_bounds_column(
	struct place_bounds *bounds, uint32_t pool, const struct place_class *class);

/* Whether the class's share fitted the node when the pool's columns were last updated. */
bool place_bounds_is_open(
	const struct place_bounds *bounds, uint32_t node, const struct place_class *class);

bool place_bounds_is_guess(const struct place_bounds *bounds, uint32_t node, uint32_t column);
/* Replaces the node's guess in `column` by the policy's bound, and returns the bound. */
int32_t place_bounds_look_closer(struct place_bounds *bounds, uint32_t node, uint32_t column);

#endif
