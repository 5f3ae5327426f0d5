/* SPDX-License-Identifier: Apache-2.0 */
/* The network devices of a `struct place`, for place-network.c and place-mode.c. */
#ifndef PLACE_PLACE_NETWORK_H
#define PLACE_PLACE_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "place/place-mode.h"

struct network {
	uint32_t node;
	uint32_t mbit;
	/*
	 * bandwidth taken by the tenants of this network device and of all that share its
	 * bandwidth; at most mbit
	 */
	uint32_t mbit_taken;
	uint32_t within; /* number of the network device whose bandwidth this one shares; 0: none */
	uint32_t latency_us, n_tenants;
	enum place_network_kind kind;
	bool is_used;
};

struct place_networks {
	struct network *list;
	uint32_t n, n_used, size;
};

/* Free Mbit/s of the network device. */
uint32_t network_free(const struct place_networks *networks, const struct network *network);

#endif
