/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's network devices that other nodes may be reached over, as sysfs has them: cards that
 * are up, bonds of them, their functions, RDMA ports, and what is laid over those. Each with its
 * capacity; without one it is left out, as is all that is virtual and no overlay. Reads files; any
 * thread.
 */
#ifndef NODE_NETWORK_H
#define NODE_NETWORK_H

#include <stdint.h>

#include "base/error.h"
#include "spec/given.h"

#define NETWORKS_MAX 64u

enum network_kind { NETWORK_HOST, NETWORK_SRIOV, NETWORK_RDMA, NETWORK_OVERLAY };

struct network_device {
	char name[GIVEN_NETWORK];
	char link[GIVEN_NETWORK]; /* the card that carries it with others; "": it is that itself */
	enum network_kind kind;
	uint32_t mbit;
};

struct network_set {
	struct network_device v[NETWORKS_MAX]; /* by name, RDMA behind the others; no name twice */
	uint32_t n;
};

const char *network_kind_name(enum network_kind kind); /* as GPUNode has it */

/* sys: where the host's /sys is seen. What cannot be read is not there. */
void network_find(const char *sys, struct network_set *ret_set);

#endif
