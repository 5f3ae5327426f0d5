/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's network devices over which it reaches other nodes, as sysfs shows them. These are
 * cards that are up, bonds of cards, SR-IOV functions, RDMA ports, and overlays. Each has a
 * capacity; a device without one is left out, and so is a virtual device that is no overlay. The
 * functions read files. Any thread may call them.
 */
#ifndef NODE_NETWORK_H
#define NODE_NETWORK_H

#include <stdint.h>

#include "base/error.h"
#include "spec/assigned.h"

#define NETWORKS_MAX 64u

enum network_kind { NETWORK_HOST, NETWORK_SRIOV, NETWORK_RDMA, NETWORK_OVERLAY };

struct network_device {
	char name[ASSIGNED_NETWORK];
	/* The card that carries this device's traffic; "": the device is a card. */
	char link[ASSIGNED_NETWORK];
	enum network_kind kind;
	uint32_t mbit;
};

struct network_set {
	/* Ordered by name, RDMA ports after all other devices; names are unique. */
	struct network_device v[NETWORKS_MAX];
	uint32_t n;
};

const char *network_kind_name(enum network_kind kind); /* the name in GPUNode */

/* sys: path of the host's /sys. Skips everything that cannot be read. */
void network_find(const char *sys, struct network_set *ret_set);

#endif
