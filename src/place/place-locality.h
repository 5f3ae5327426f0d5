/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locality bonus: added to the policy's score of a device or node that has certain tenants or is
 * near them.
 *
 * A tenant with a priority above 0 prefers the neighbourhood of its group, by the tree of cells. An
 * opportunistic tenant (priority 0) prefers devices with other opportunistic tenants, so that other
 * devices stay free of them.
 *
 * A policy sets the size of each bonus by its function `locality`; a policy without that function
 * gives no bonus. A query is O(1), but the first one after a change of the group is O(size of the
 * group). Threads: as place.h.
 */
#ifndef PLACE_PLACE_LOCALITY_H
#define PLACE_PLACE_LOCALITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct place;
struct place_spec;
struct place_choice;

/* The nearest level that a device or node shares with a device of the group. */
enum place_locality_near {
	PLACE_LOCALITY_LINK,
	PLACE_LOCALITY_NUMA,
	PLACE_LOCALITY_NODE,
	PLACE_LOCALITY_CELL,
	N_PLACE_LOCALITIES
};

/* Bonuses in units of the policy's score, in descending order. */
struct place_locality_bonus {
	int32_t near[N_PLACE_LOCALITIES];
	int32_t opportunistic; /* bonus for a device with opportunistic tenants */
};

/* Most cells above nodes that give a bonus. A group in more cells is spread out anyway. */
#define PLACE_LOCALITY_CELLS 8u

/* Cached data about the group of the latest query. */
struct place_locality {
	uint32_t group; /* 0: no query is cached */
	uint32_t run;
	uint32_t *stamp; /* stamp[node]: equals `run` if the group has a device on the node */
	uint32_t *nodes; /* the n_nodes nodes of the group */
	uint32_t n_nodes;
	/* one device of the group in each of the n_cells cells above nodes that contain some */
	uint32_t device[PLACE_LOCALITY_CELLS], n_cells;
};

/* Whether any place can get a bonus for the spec now. */
bool place_has_locality(struct place *place, const struct place_spec *spec);

/*
 * The bonus of the device, and the greatest bonus of the node's devices. place_has_locality() must
 * hold.
 */
int32_t place_locality_device(struct place *place, const struct place_spec *spec, uint32_t device);
int32_t place_locality_node(struct place *place, const struct place_spec *spec, uint32_t node);
/* The greatest bonus of a node outside place_locality_nodes(). */
int32_t place_locality_elsewhere(struct place *place, const struct place_spec *spec);
/*
 * Returns the number of the group's nodes and sets *ret to their array, borrowed until the next
 * change.
 */
uint32_t place_locality_nodes(
	struct place *place, const struct place_spec *spec, const uint32_t **ret);

/* Drops the cache after a change of the group. group 0: nodes or devices have changed location. */
void place_locality_forget(struct place *place, uint32_t group);
int place_locality_reserve(struct place *place, uint32_t size, uint32_t n_nodes); /* -ENOMEM */
void place_locality_done(struct place *place);

/* Writes the reason for the bonus in words, or "". Writes at most n bytes. */
void place_locality_format(struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, char *ret, size_t n);

#endif
