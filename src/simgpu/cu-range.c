/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file keeps allocations ordered by address in a treap, so all operations cost O(log n). A
 * priority is the scrambled address, so the tree needs no state and no random numbers. Ranges of
 * one tree never overlap. The client's lock protects everything.
 */
#include "simgpu/cu.h"

#include <stdlib.h>

static uint32_t cu_range_scramble(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	x ^= x >> 33;
	return (uint32_t)(x >> 7);
}

static struct cu_range *cu_range_join(struct cu_range *low, struct cu_range *high)
{
	if (!low || !high)
		return low ? low : high;
	if (low->priority > high->priority) {
		low->child[1] = cu_range_join(low->child[1], high);
		return low;
	}
	high->child[0] = cu_range_join(low, high->child[0]);
	return high;
}

static void cu_range_split(
	struct cu_range *root, uint64_t base, struct cu_range **low, struct cu_range **high)
{
	if (!root) {
		*low = *high = NULL;
	} else if (root->base < base) {
		cu_range_split(root->child[1], base, &root->child[1], high);
		*low = root;
	} else {
		cu_range_split(root->child[0], base, low, &root->child[0]);
		*high = root;
	}
}

struct cu_range *cu_range_add(struct cu_tree *tree, uint64_t base, uint64_t size)
{
	struct cu_range *range = calloc(1, sizeof(*range)), *low, *high;

	if (!range)
		return NULL;
	range->base = base;
	range->size = size;
	range->device = -1;
	range->priority = cu_range_scramble(base);
	range->buffer_id = ++cu.next_id;
	cu_range_split(tree->root, base, &low, &high);
	tree->root = cu_range_join(cu_range_join(low, range), high);
	tree->n++;
	return range;
}

struct cu_range *cu_range_find(const struct cu_tree *tree, uint64_t address)
{
	struct cu_range *at = tree->root, *found = NULL;

	while (at) {
		if (at->base <= address) {
			found = at;
			at = at->child[1];
		} else {
			at = at->child[0];
		}
	}
	return found && address - found->base < found->size ? found : NULL;
}

struct cu_range *cu_range_next(const struct cu_tree *tree, uint64_t address)
{
	struct cu_range *at = tree->root, *found = NULL;

	while (at) {
		if (at->base >= address) {
			found = at;
			at = at->child[0];
		} else {
			at = at->child[1];
		}
	}
	return found;
}

void cu_range_remove(struct cu_tree *tree, struct cu_range *range)
{
	struct cu_range **at = &tree->root;

	while (*at && *at != range)
		at = &(*at)->child[(*at)->base < range->base];
	if (!*at)
		return;
	*at = cu_range_join(range->child[0], range->child[1]);
	tree->n--;
	free(range);
}
