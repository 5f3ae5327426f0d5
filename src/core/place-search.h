/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the best node without looking at each: best first, by bounds.
 *
 * Nodes with devices of the same model are a pool; tenants of the same kind, count and share, or of
 * neighbouring shares, are a class. Of every node of a pool and every class the policy's bound is
 * kept, and the greatest of each 16 nodes, and of each 16 of those, up to one: a class is a column,
 * and each 16 have their lines of all columns next to each other, with what all classes share in
 * the first ones: the most free CPU, memory and device memory. A decision takes the most promising
 * part of its columns apart until a node's own score is no less than what anything else promises.
 *
 * A changed node is noted once, and looked at for all classes when its pool is next asked: the
 * policy has what it is asked at hand then, and classes that the node has no devices for, before
 * and after, cost nothing. Of many classes the policy's guesses are kept if it has any: the bound
 * is asked for when the node's turn comes in a decision, and kept from then on. Columns that are
 * not asked for any more are given up.
 */
#ifndef CORE_PLACE_SEARCH_H
#define CORE_PLACE_SEARCH_H

#include <stdint.h>

struct place;
struct place_search;

int place_search_new(struct place *place, struct place_search **ret_search); /* -ENOMEM */
void place_search_free(struct place_search *search);

/* Room for that many nodes, and for one more with such devices; -ENOMEM. */
int place_search_reserve(
	struct place_search *search, uint32_t n_nodes, uint64_t models, uint32_t n_devices);

/* The node is new, or its devices are others: after place_search_reserve(). */
void place_search_enter(struct place_search *search, uint32_t node);

/* Anything about the node is different now. */
void place_search_changed(struct place_search *search, uint32_t node);

/* All bounds are different now. */
void place_search_forget(struct place_search *search);

#endif
