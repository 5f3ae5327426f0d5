/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nodes promise: of every node and every class of tenants the policy's bound, kept up to date
 * for the search (place-search.c).
 *
 * Nodes with devices of the same model are a pool, with a table of its own (place-columns.h);
 * tenants of the same kind, count and share, or of neighbouring shares, are a class. A changed node
 * is noted once, and looked at for all classes when its pool is next asked: the policy has what it
 * is asked at hand then, and classes that the node has no devices for, before and after, cost
 * nothing. Of many classes the policy's guesses are kept if it has any: the bound is asked for when
 * the node's turn comes in a decision, and kept from then on. Columns that are not asked for any
 * more are given up.
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

/* Room for that many nodes, and for one more with such devices; -ENOMEM. */
int place_bounds_reserve(
	struct place_bounds *bounds, uint32_t n_nodes, uint64_t models, uint32_t n_devices);

/* The node is new, or its devices are others: after place_bounds_reserve(). */
void place_bounds_enter(struct place_bounds *bounds, uint32_t node);

/* Anything about the node is different now. */
void place_bounds_changed(struct place_bounds *bounds, uint32_t node);

/* All bounds are different now. */
void place_bounds_forget(struct place_bounds *bounds);

/* ---- for the search ---- */

/* A pool for each model, one for nodes with several, one for those without devices. */
enum { POOL_MIXED = PLACE_MODELS_MAX, POOL_NONE, N_POOLS };

/* In the order of nodes. */
struct pool {
	uint32_t *node;
	uint32_t n, size; /* size: a multiple of FAN */
	struct columns columns;

	uint32_t *changed; /* rows; each once */
	uint32_t n_changed;
	uint64_t n_changes; /* that were looked at */
	uint64_t given_up;  /* n_changes when idle columns were given up */
	bool is_forgotten;  /* what is free is as it was, but no bound is */
};

const struct pool *place_bounds_pool(const struct place_bounds *bounds, uint32_t pool);
uint32_t place_bounds_pool_of(const struct place_bounds *bounds, uint32_t node);
uint32_t place_bounds_row_of(const struct place_bounds *bounds, uint32_t node);

/*
 * The class whose bounds hold for it: its share alone, as long as there are few; then with its
 * neighbours.
 */
struct place_class place_bounds_class(struct place_bounds *bounds, const struct place_class *of);

/* The class's column of the pool, of nodes as they are now. 0: out of memory. */
uint32_t place_bounds_column(
	struct place_bounds *bounds, uint32_t pool, const struct place_class *class);

/* Whether the node has room for the class, as it was when its pool was last asked. */
bool place_bounds_is_open(
	const struct place_bounds *bounds, uint32_t node, const struct place_class *class);

bool place_bounds_is_guess(const struct place_bounds *bounds, uint32_t node, uint32_t column);
/* The bound in the place of a guess. */
int32_t place_bounds_look_closer(struct place_bounds *bounds, uint32_t node, uint32_t column);

#endif
