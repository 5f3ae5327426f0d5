/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements between nodes (place-mode.h), for place-path.c and place-mode.c. */
#ifndef PLACE_PLACE_PATH_H
#define PLACE_PLACE_PATH_H

#include <stdint.h>

#include "place/place-internal.h"

/*
 * A node that measurements lead to, by name. The node can be added later, or removed and added
 * again under another number.
 */
struct path_end {
	UT_hash_handle hh;
	uint32_t n_uses;
	uint32_t node; /* PLACE_NONE: no node has that name now */
	char text[];
};

struct path {
	struct path_end *to;
	uint32_t latency_us, mbit;
};

struct path_list {
	struct path *v;
	uint32_t n;
};

struct place_paths {
	struct path_end *ends;
	struct path_list *of; /* by node */
	uint32_t n_of;
};

/* The node's own measurements; n is 0 if the node has none. */
struct path_list paths_of(const struct place *place, uint32_t node);
/*
 * The client's measurement to the server; else the server's measurement to the client; else NULL.
 */
const struct path *path_between(const struct place *place, uint32_t client, uint32_t server);

#endif
