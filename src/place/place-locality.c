/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file computes the locality bonus of a device or node from the tenants that are there.
 * `drawn` caches the nodes of one group, and one device for each cell of that group.
 * place_locality_by() fills the cache when a caller asks for another group. A node belongs to the
 * group if its stamp equals `run`, so a new run needs no clearing. On a node of the group the
 * distance between devices decides. On other nodes the bonus shrinks with the number of cells up to
 * the common cell. A tenant of priority 0 gets a bonus for other opportunistic tenants instead of
 * for its group.
 */
#include "place/place-locality.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "place/place-cell.h"
#include "place/place-internal.h"
#include "place/place-policy.h"

static const struct place_locality_bonus *place_locality_bonus_of(const struct place *place)
{
	const struct place_policy *policy = place->config.policy;

	return policy->locality ? policy->locality(place) : NULL;
}

/* ---- groups ---- */

int place_locality_reserve(struct place *place, uint32_t size, uint32_t n_nodes)
{
	uint32_t room = size;
	int r = array_grow(&place->locality.stamp, &room, n_nodes, sizeof(*place->locality.stamp));

	room = size;
	return r < 0 ? r : array_grow(&place->locality.nodes, &room, n_nodes, sizeof(uint32_t));
}

void place_locality_done(struct place *place)
{
	free(place->locality.stamp);
	free(place->locality.nodes);
}

void place_locality_forget(struct place *place, uint32_t group)
{
	if (!group || group == place->locality.group)
		place->locality.group = 0;
}

/* Adds the device to drawn->device, unless a listed device is in the same cell above the nodes. */
static void note_cell(struct place *place, uint32_t device)
{
	const struct device *d = &place->devices[device];
	struct place_locality *drawn = &place->locality;

	for (uint32_t i = 0; i < drawn->n_cells; i++)
		if (place_cells_above(place, drawn->device[i], device) <= 1)
			return;
	if (drawn->n_cells < PLACE_LOCALITY_CELLS &&
		(d->cell != PLACE_NONE || place->nodes[d->node].rack[0]))
		drawn->device[drawn->n_cells++] = device;
}

static const struct place_locality *place_locality_by(
	struct place *place, const struct group *group)
{
	struct place_locality *drawn = &place->locality;

	if (drawn->group == group->id)
		return drawn;
	if (++drawn->run == 0) {
		memset(drawn->stamp, 0, place->nodes_size * sizeof(*drawn->stamp));
		drawn->run = 1;
	}
	drawn->group = group->id;
	drawn->n_nodes = 0;
	drawn->n_cells = 0;
	for (uint32_t i = 0; i < group->n; i++) {
		const uint32_t node = place->devices[group->devices[i]].node;

		if (drawn->stamp[node] == drawn->run)
			continue;
		drawn->stamp[node] = drawn->run;
		drawn->nodes[drawn->n_nodes++] = node;
		note_cell(place, group->devices[i]);
	}
	return drawn;
}

/* Returns the group near which the tenant gets a bonus, or NULL. */
static const struct group *place_locality_group(
	const struct place *place, const struct place_spec *spec)
{
	return spec->priority && spec->count ? place_group(place, spec->group) : NULL;
}

/* Returns the bonus for a node with devices of the group. */
static int32_t place_locality_within(const struct place *place,
	const struct place_locality_bonus *draws, const struct group *group, uint32_t device)
{
	uint32_t nearest = PLACE_LOCALITY_NODE;

	for (uint32_t i = 0; i < group->n && nearest; i++) {
		const uint32_t other = group->devices[i];
		uint32_t steps;

		if (place->devices[other].node != place->devices[device].node)
			continue;
		steps = place_distance(place, device, other);
		nearest = MIN(nearest, steps ? steps - 1 : 0);
	}
	return draws->near[nearest];
}

/*
 * Returns the bonus for a node without devices of the group. The bonus is smaller, the more cells
 * there are up to the common cell.
 */
static int32_t place_locality_to_cell(struct place *place, const struct place_locality_bonus *draws,
	const struct place_locality *drawn, uint32_t node)
{
	const uint32_t device = place->nodes[node].first_device;
	uint32_t least = CELL_FAR;

	for (uint32_t i = 0; i < drawn->n_cells && place->nodes[node].n_devices; i++)
		least = MIN(least, place_cells_above(place, device, drawn->device[i]));
	return least == CELL_FAR ? 0 : draws->near[PLACE_LOCALITY_CELL] / (int32_t)MAX(least, 1u);
}

/* ---- devices and nodes ---- */

bool place_has_locality(struct place *place, const struct place_spec *spec)
{
	if (!spec->count || !place_locality_bonus_of(place))
		return false;
	return spec->priority ? place_locality_group(place, spec) != NULL
			      : place->n_opportunistic != 0;
}

int32_t place_locality_device(struct place *place, const struct place_spec *spec, uint32_t device)
{
	const struct place_locality_bonus *draws = place_locality_bonus_of(place);
	const struct group *group = place_locality_group(place, spec);
	const uint32_t node = place->devices[device].node;
	const struct place_locality *drawn;

	if (!spec->priority)
		return place->devices[device].n_opportunistic ? draws->opportunistic : 0;
	if (!group)
		return 0;
	drawn = place_locality_by(place, group);
	if (drawn->stamp[node] == drawn->run)
		return place_locality_within(place, draws, group, device);
	return place_locality_to_cell(place, draws, drawn, node);
}

int32_t place_locality_node(struct place *place, const struct place_spec *spec, uint32_t node)
{
	const struct place_locality_bonus *draws = place_locality_bonus_of(place);
	const struct group *group = place_locality_group(place, spec);
	const struct place_locality *drawn;

	if (!spec->priority)
		return place->nodes[node].n_opportunistic ? draws->opportunistic : 0;
	if (!group)
		return 0;
	drawn = place_locality_by(place, group);
	if (drawn->stamp[node] == drawn->run)
		return draws->near[PLACE_LOCALITY_LINK];
	return place_locality_to_cell(place, draws, drawn, node);
}

int32_t place_locality_elsewhere(struct place *place, const struct place_spec *spec)
{
	const struct group *group = place_locality_group(place, spec);

	if (!spec->priority)
		return place_locality_bonus_of(place)->opportunistic;
	return group && place_locality_by(place, group)->n_cells
		? place_locality_bonus_of(place)->near[PLACE_LOCALITY_CELL]
		: 0;
}

uint32_t place_locality_nodes(
	struct place *place, const struct place_spec *spec, const uint32_t **ret)
{
	const struct group *group = place_locality_group(place, spec);
	const struct place_locality *drawn;

	if (!group)
		return 0;
	drawn = place_locality_by(place, group);
	*ret = drawn->nodes;
	return drawn->n_nodes;
}

/* ---- text ---- */

void place_locality_format(struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, char *ret, size_t n)
{
	const struct group *group = place_locality_group(place, spec);
	uint32_t here = 0;

	ret[0] = '\0';
	if (!place_has_locality(place, spec))
		return;
	for (uint32_t i = 0; i < choice->n && !group; i++)
		here += place->devices[choice->device[i]].n_opportunistic;
	for (uint32_t i = 0; group && i < group->n; i++)
		here += place->devices[group->devices[i]].node == choice->node;
	if (here && !group)
		snprintf(ret, n, ", beside %" PRIu32 " opportunistic", here);
	else if (here)
		snprintf(ret, n, ", with %" PRIu32 " of the %" PRIu32 " devices of its group", here,
			group->n);
	else if (group &&
		place_locality_to_cell(place, place_locality_bonus_of(place),
			place_locality_by(place, group), choice->node))
		snprintf(ret, n, ", in a rack or cell of its group");
}
