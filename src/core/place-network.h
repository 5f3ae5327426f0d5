/* SPDX-License-Identifier: Apache-2.0 */
/* The network devices of a `struct place`, for place-network.c and place-mode.c. */
#ifndef CORE_PLACE_NETWORK_H
#define CORE_PLACE_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/place-mode.h"

struct network {
	uint32_t node;
	uint32_t mbit, mbit_taken; /* taken is never more */
	uint32_t latency_us, n_tenants;
	enum place_network_kind kind;
	bool is_used;
};

struct place_networks {
	struct network *list;
	uint32_t n, n_used, size;
};

#endif
