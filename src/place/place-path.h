/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured between nodes (place-mode.h), for place-path.c and place-mode.c. */
#ifndef PLACE_PLACE_PATH_H
#define PLACE_PLACE_PATH_H

#include <stdint.h>

#include "place/place-internal.h"

/* The other end, which need not be there: it may come, go, and come again by another number. */
struct path_end {
	UT_hash_handle hh;
	uint32_t n_uses;
	uint32_t node; /* PLACE_NONE: it is not there */
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

/* What that node has measured itself; n 0: nothing. */
struct path_list paths_of(const struct place *place, uint32_t node);
/* What the client has measured to the server, else what that has to it; NULL: neither has. */
const struct path *path_between(const struct place *place, uint32_t client, uint32_t server);

#endif
