/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPUNode as divvyd confirms it, read from JSON. What is not understood is left out, and said:
 * a device that is left out gets nobody, a tenant that is left out is not counted.
 */
#ifndef SCHEDULER_GPUNODE_H
#define SCHEDULER_GPUNODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "place/place-mode.h"
#include "spec/given.h"

#define GPUNODE_TENANTS_MAX 4096u
#define GPUNODE_UID 129u
#define GPUNODE_NETWORKS_MAX 64u
#define GPUNODE_PEERS_MAX PLACE_PATHS_MAX

/* Of a node of the pool (another plugin's, until a placeholder holds it), and of others. */
#define GPUNODE_NOT_TAKEN "GPUs not taken from their own plugin yet"
#define GPUNODE_NOT_OURS "GPUs not divvy's"

struct gpunode_device {
	char uuid[SPEC_LABEL], model[SPEC_LABEL];
	uint64_t memory_bytes;
	uint32_t index;
	uint8_t numa, link; /* as struct place_device_info has them */
	const char *closed; /* "cordoned", "unhealthy", whose it is; NULL: it is divvy's to share */
};

struct gpunode_tenant {
	char uid[GPUNODE_UID];
	struct given_container is;
};

struct gpunode_network {
	char name[GIVEN_NETWORK];
	char link[GIVEN_NETWORK]; /* of the port that carries it, with others; "": its own */
	enum place_network_kind kind;
	uint32_t mbit;
};

/* What the node has measured to another one. */
struct gpunode_peer {
	char name[GIVEN_NODE];
	uint32_t latency_us; /* round trip, rounded up */
	uint32_t mbit;       /* rounded down, at least 1; 0: not measured */
};

struct gpunode {
	struct gpunode_device *device; /* up to PLACE_NODE_DEVICES_MAX */
	uint32_t n_devices;
	struct gpunode_tenant *tenant;
	uint32_t n_tenants;
	struct gpunode_network *network; /* names are unique */
	uint32_t n_networks;
	struct gpunode_peer *peer; /* names are unique */
	uint32_t n_peers;
	bool is_serving; /* its devices, to other nodes */
	uint32_t slots_total;
	uint32_t overcommit_memory; /* 1/1000; 0: as policies say */
	uint64_t epoch;
};

/*
 * -EINVAL: something is left out, and the sentence says what, with its value, of the first; the
 * rest is read. -ENOMEM. gpunode_done also after a failure.
 */
int gpunode_read(const json_t *json, struct gpunode *ret_gpunode, struct error *err);
void gpunode_done(struct gpunode *gpunode);

/* Why none of its devices is open; NULL: they differ, or one is. */
const char *gpunode_closed(const struct gpunode *gpunode);
/* NULL when there is none. */
const struct gpunode_device *gpunode_find(const struct gpunode *gpunode, const char *uuid);
/* Its number; n_networks when there is none. */
uint32_t gpunode_find_network(const struct gpunode *gpunode, const char *name);
/* NULL: nothing was measured to it. */
const struct gpunode_peer *gpunode_find_peer(const struct gpunode *gpunode, const char *name);

#endif
