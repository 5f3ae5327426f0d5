/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the best node without scoring each node. A best-first search repeatedly expands the part of
 * the class's columns with the greatest bound (place-bounds.h). The search ends when a node's own
 * score is at least every remaining bound. Bounds ignore preference conflicts (place-conflicts.h).
 * If every node with capacity has conflicts, the search counts them on all of these nodes before it
 * looks for the fewest.
 */
#ifndef PLACE_PLACE_SEARCH_H
#define PLACE_PLACE_SEARCH_H

struct place_search;

int place_search_new(struct place_search **ret_search); /* -ENOMEM */
void place_search_free(struct place_search *search);

#endif
