/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a tenant gets its devices: exclusive (pass-through), local, remote, or not yet (queued). If
 * the user fixed a mode, the choice obeys that mode. Otherwise whole devices are exclusive, and a
 * share is local if one node has the devices, CPU and memory. A tenant that does not fit on one
 * node is split: the client half has CPU and memory, the device half has the devices. If the two
 * halves do not fit either, the tenant waits. (KubeGPU, J. Supercomputing 79, 2023, as far as it is
 * known.)
 *
 * Remote candidates are compared in this order, the first difference decides:
 * - fewer preference conflicts (place-conflicts.h)
 * - better network kind at both ends: RDMA or SR-IOV, the host's network, an overlay
 * - fewer hops: 0 on the same node, 1 in the same rack, otherwise 2
 * - measured paths before unmeasured ones; among these lower round trip, then greater bandwidth,
 *   both rounded to powers of two
 * - less load, summed over both ends
 * - lower numbers of nodes and network devices
 *
 * A remote tenant that fits on one node uses shared memory and no network device.
 *
 * A tenant takes bandwidth of the network devices in its spec (`network`, `network_mbit`), until
 * the tenant is removed. Bandwidth is in Mbit/s. Each end has a latency in microseconds, and both
 * ends' latencies are added. For a measured pair of nodes (place_paths_set()) the measured round
 * trip counts instead. The measured bandwidth limits a path in addition to the free bandwidth of
 * both ends. A tenant in two halves never moves (place-defrag.h), and both halves are evicted
 * together.
 *
 * A remote decision costs O(network devices + measurements), plus a check of the nodes that
 * qualify. The filter (place_set_filter()) is called for both ends. For the device half, network[0]
 * of the spec is the network device on its node. The client half has count 0. Threads: as place.h.
 */
#ifndef PLACE_PLACE_MODE_H
#define PLACE_PLACE_MODE_H

#include <stdbool.h>
#include <stdint.h>

#include "place/place.h"

#define PLACE_NETWORKS_MAX (1u << 20)
#define PLACE_MBIT_MAX 1000000000u
#define PLACE_LATENCY_MAX 1000000000u
/* an unknown latency fits only if the tenant requests no limit */
#define PLACE_LATENCY_UNKNOWN UINT32_MAX

enum place_network_kind {
	PLACE_NETWORK_DIRECT, /* RDMA, or an SR-IOV function */
	PLACE_NETWORK_HOST,
	PLACE_NETWORK_OVERLAY,
	PLACE_NETWORK_KINDS
};

struct place_network_info {
	uint32_t node;
	enum place_network_kind kind;
	uint32_t mbit, latency_us;
	/*
	 * Number of the network device on the same node whose bandwidth this network device shares;
	 * 0: none. SR-IOV functions and overlays share a card's bandwidth. `within` of the shared
	 * device must be 0.
	 */
	uint32_t within;
};

/*
 * Adds a network device and sets its number; numbers begin at 1. Removing a node removes its
 * network devices. -EINVAL, -ENOSPC, -ENOMEM.
 */
int place_network_add(struct place *place, const struct place_network_info *info,
	uint32_t *ret_network, struct error *err);
/*
 * -EBUSY: tenants or other network devices use the network device, or a savepoint is open. -EINVAL.
 */
int place_network_remove(struct place *place, uint32_t network, struct error *err);
/* Free Mbit/s; 0 if there is no such device. */
uint32_t place_network_free_mbit(const struct place *place, uint32_t network);

#define PLACE_PATHS_MAX 64u

/* A node's measurement to another node, which may not exist yet. */
struct place_path {
	const char *node;    /* copied */
	uint32_t latency_us; /* latency of a round trip, up to PLACE_LATENCY_MAX */
	uint32_t mbit;       /* bandwidth, up to PLACE_MBIT_MAX; 0: not measured */
};

/*
 * Replaces all measurements of the node; removing the node removes them. Each name occurs at most
 * once. -EINVAL, -ENOMEM: unchanged.
 */
int place_paths_set(struct place *place, uint32_t node, const struct place_path *paths, uint32_t n,
	struct error *err);
/*
 * The client node's measurement to the server node, else the server's measurement to the client.
 * ret_path->node is NULL. false: neither node has measured the other.
 */
bool place_path_get(
	const struct place *place, uint32_t client, uint32_t server, struct place_path *ret_path);

struct place_mode_params {
	struct place_spec spec;
	enum spec_mode mode;
	uint32_t least_mbit, most_latency_us; /* limits on the network; 0: none */
};

#define PLACE_MODE_WHY 384u

enum place_outcome { PLACE_EXCLUSIVE, PLACE_LOCAL, PLACE_REMOTE, PLACE_QUEUED };

struct place_decision {
	enum place_outcome outcome;
	/* spec and choice: of the whole tenant, or with has_client of its device half. */
	struct place_spec spec;
	struct place_choice choice;
	/* With has_client: the client half, which has CPU and memory but no device. */
	bool has_client;
	struct place_spec client_spec;
	struct place_choice client;
	enum place_network_kind kind; /* with has_client */
	uint32_t hops;
	/* with has_client: latency of the chosen path, or PLACE_LATENCY_UNKNOWN */
	uint32_t latency_us;
	char why[PLACE_MODE_WHY];
};

/*
 * Chooses without taking anything. Returns 0 for each outcome, PLACE_QUEUED included. -EINVAL for
 * contradictions (exclusive for a share, remote without a device), -ENOMEM.
 */
int place_mode_choose(struct place *place, const struct place_mode_params *params,
	struct place_decision *ret_decision, struct error *err);

/*
 * Adds the tenants of the decision: all of them, or on failure none. ret_tenants: the device half,
 * then the client half or PLACE_NONE. The caller removes both. -EINVAL for PLACE_QUEUED; else as
 * place_add().
 */
int place_mode_add(struct place *place, const struct place_decision *decision,
	uint32_t ret_tenants[static 2], struct error *err);

/*
 * Ties two halves that place_restore() put back, so that they are evicted together. -EINVAL: a half
 * does not exist or has another peer. -ENOMEM.
 */
int place_mode_tie(struct place *place, uint32_t server, uint32_t client, struct error *err);

/* ---- for place-tenant.c and place.c ---- */

struct place_networks;
struct place_paths;

void place_paths_free(struct place_paths *paths);
void place_paths_enter(struct place *place, uint32_t node);
/* Call before the node is removed. */
void place_paths_drop(struct place *place, uint32_t node);
void place_network_free(struct place_networks *networks);
uint32_t place_network_n(const struct place *place); /* highest number of a network device */
uint32_t place_network_node(const struct place *place, uint32_t network); /* or PLACE_NONE */
/* -ENOSPC: network[0] of the spec is not on that node, or too little bandwidth is free. -EINVAL. */
int place_network_fits(
	const struct place *place, const struct place_spec *spec, uint32_t node, struct error *err);
/* sign 1: the tenant was added; -1: it is removed. */
void place_network_count(struct place *place, const struct place_tenant *t, int sign);
bool place_network_is_taken(const struct place *place, uint32_t node);
void place_network_drop(struct place *place, uint32_t node);

#endif
