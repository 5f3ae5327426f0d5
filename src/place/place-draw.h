/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What draws a tenant to a place because of who is there, beside what the place is worth by itself:
 *
 *   who has a priority goes near the tenants of its group, by the tree of cells;
 *   who has none, an opportunistic one, goes to devices that others of the kind are on: what they
 *   use is in one place then, and others find devices without them.
 *
 * How much each counts is the policy's table; a policy without one draws nobody. Threads: as
 * place.h. O(1), but for the first question about a group since it has changed, which is O(it).
 */
#ifndef PLACE_PLACE_DRAW_H
#define PLACE_PLACE_DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct place;
struct place_spec;
struct place_choice;

/* Where the nearest of the group is. */
enum place_draw_near {
	PLACE_DRAW_LINK,
	PLACE_DRAW_NUMA,
	PLACE_DRAW_NODE,
	PLACE_DRAW_CELL,
	N_PLACE_DRAWS
};

/* In units of the policy's score, falling: added to the score of such a place. */
struct place_draws {
	int32_t near[N_PLACE_DRAWS];
	int32_t beside; /* of opportunistic ones */
};

/* The group that was asked about last. */
#define DRAW_CELLS \
	8u /* cells above nodes that a group draws to; in more than those it is all over */
struct drawn {
	uint32_t group; /* 0: none is known */
	uint32_t run;
	uint32_t *stamp; /* by node: run where it has somebody */
	uint32_t *nodes; /* those, n_nodes of them */
	uint32_t n_nodes;
	uint32_t device[DRAW_CELLS], n_cells; /* one in each cell */
};

/* Whether anything may draw it anywhere, as things are. */
bool place_is_drawn(struct place *place, const struct place_spec *spec);

/* What draws it to the device, and the most to any of the node, now that place_is_drawn(). */
int32_t place_draw_device(struct place *place, const struct place_spec *spec, uint32_t device);
int32_t place_draw_node(struct place *place, const struct place_spec *spec, uint32_t node);
/* The most to a node that is none of place_drawn_nodes(). */
int32_t place_draw_elsewhere(struct place *place, const struct place_spec *spec);
/* Those that its group is on: how many, in ret. Borrowed until the next change. */
uint32_t place_drawn_nodes(
	struct place *place, const struct place_spec *spec, const uint32_t **ret);

/* The group, or what is near, has changed; 0: any. */
void place_draw_forget(struct place *place, uint32_t group);
int place_draw_reserve(struct place *place, uint32_t size, uint32_t n_nodes); /* -ENOMEM */
void place_draw_done(struct place *place);

/* ", near 3 devices of its group": behind why it is there, or nothing. Up to n bytes. */
void place_draw_format(struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, char *ret, size_t n);

#endif
