/* SPDX-License-Identifier: Apache-2.0 */
/* There are few kinds of nodes, so each node is compared with all shapes found so far. */
#include "place/place-shapes.h"

#include <stdbool.h>

#include "base/cleanup.h"
#include "place/place-internal.h"

static bool place_shapes_is_same(const struct mix_entry *a, const struct mix_entry *b)
{
	return a->count == b->count && a->cpu_milli == b->cpu_milli && a->mib == b->mib &&
		a->models == b->models;
}

/*
 * Returns the entry to write the shape to: that of the same models, a free entry, or an entry with
 * fewer devices. NULL: none.
 */
static struct mix_entry *find_place(
	struct mix_entry *shapes, uint32_t n, const struct mix_entry *shape)
{
	struct mix_entry *fewest = &shapes[0];

	for (uint32_t i = 0; i < n; i++) {
		if (place_shapes_is_same(&shapes[i], shape))
			return &shapes[i];
		if (shapes[i].count <= fewest->count)
			fewest = &shapes[i];
	}
	if (n < PLACE_SHAPES_MAX)
		return &shapes[n];
	return fewest->count < shape->count ? fewest : NULL;
}

uint32_t place_shapes_of(
	const struct place *place, struct mix_entry ret_shapes[static PLACE_SHAPES_MAX])
{
	uint32_t n = 0;

	for (uint32_t node = 0; node < place->n_nodes; node++) {
		const struct node *of = &place->nodes[node];
		const struct mix_entry shape = {.share = SPEC_SHARE_ONE,
			.count = MIN(of->n_devices, SPEC_DEVICES_MAX),
			.cpu_milli = of->cpu_all,
			.mib = of->memory_all >> 20,
			.models = of->models,
			.n = 1};
		struct mix_entry *at;

		if (!of->is_used || !of->n_devices)
			continue;
		at = find_place(ret_shapes, n, &shape);
		n += at == &ret_shapes[n];
		if (at)
			*at = shape;
	}
	return n;
}
