/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the best node without looking at each: best first, by bounds (place-bounds.h). A decision
 * takes the most promising part of the class's columns apart until a node's own score is no less
 * than what anything else promises. Bounds know nothing of whom a tenant would rather not meet
 * (place-apart.h): where each of the nodes with room has somebody, all of them are counted before
 * the fewest are searched for.
 */
#ifndef PLACE_PLACE_SEARCH_H
#define PLACE_PLACE_SEARCH_H

struct place_search;

int place_search_new(struct place_search **ret_search); /* -ENOMEM */
void place_search_free(struct place_search *search);

#endif
