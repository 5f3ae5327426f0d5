/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a tenant gets its devices: alone (pass-through), shared where it runs, over the network, or
 * not yet. What the user has fixed is obeyed. Else: whole devices are exclusive; a share is local
 * where it fits; what does not fit anywhere together with the tenant's CPU and memory is split, the
 * tenant on one node and its devices on another; and what does not fit so either waits. (KubeGPU,
 * J. Supercomputing 79, 2023, as far as it is known.)
 *
 * Over the network, by the first difference: fewer that it would rather not meet (place-apart.h);
 * the better kind at both ends (RDMA or SR-IOV, the
 * host's network, an overlay); fewer hops (0 one node, 1 one rack, 2); what was measured between
 * the two nodes, in powers of two: the lower round trip, then the greater bandwidth, and what was
 * not measured last; less load, of both ends together; the lower numbers. Who asks for it and fits
 * on one node gets shared memory and no network device.
 *
 * Network devices are given away and taken back with the tenant, through its spec (`network`,
 * `network_mbit`). Bandwidth is Mbit/s; latency is of one end, in microseconds, and adds up; where
 * the pair of nodes was measured (place_paths_set), that round trip counts instead, and its
 * bandwidth beside what is left of both ends. Who is in two halves is not moved (place-defrag.h),
 * and leaves with both where it has to leave. Remote costs O(network devices + measurements), and
 * nodes are tried for those that qualify. A filter (place_set_filter) is asked of both ends: of the
 * devices' with that end's network device in `network[0]`, of the tenant's own with no device.
 * Threads: as place.h.
 */
#ifndef PLACE_PLACE_MODE_H
#define PLACE_PLACE_MODE_H

#include <stdbool.h>
#include <stdint.h>

#include "place/place.h"

#define PLACE_NETWORKS_MAX (1u << 20)
#define PLACE_MBIT_MAX 1000000000u
#define PLACE_LATENCY_MAX 1000000000u
#define PLACE_LATENCY_UNKNOWN UINT32_MAX /* will do only where none is asked for */

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
	 * Of the same node, the one whose bandwidth it is a part of, as the functions of a card and
	 * what is laid over it are; not one that is itself a part. 0: it has its own.
	 */
	uint32_t within;
};

/* Numbers from 1. They go with their node. -EINVAL, -ENOSPC, -ENOMEM. */
int place_network_add(struct place *place, const struct place_network_info *info,
	uint32_t *ret_network, struct error *err);
/* -EBUSY while tenants use it or others are within it, -EINVAL. */
int place_network_remove(struct place *place, uint32_t network, struct error *err);
/* Mbit/s; 0 where there is none. */
uint32_t place_network_free_mbit(const struct place *place, uint32_t network);

#define PLACE_PATHS_MAX 64u

/* What a node has measured to another one, which need not be there (yet). */
struct place_path {
	const char *node;    /* its name; copied */
	uint32_t latency_us; /* round trip, up to PLACE_LATENCY_MAX */
	uint32_t mbit;       /* up to PLACE_MBIT_MAX; 0: not measured */
};

/*
 * Instead of what it has measured before, and gone with the node; no name twice. -EINVAL, -ENOMEM:
 * as it was.
 */
int place_paths_set(struct place *place, uint32_t node, const struct place_path *paths, uint32_t n,
	struct error *err);
/*
 * What holds between a node of tenants and one of devices: what the former has measured, else what
 * the latter has. ret_path->node is NULL. false: nothing.
 */
bool place_path_get(
	const struct place *place, uint32_t client, uint32_t server, struct place_path *ret_path);

struct place_wish {
	struct place_spec spec;
	enum spec_mode mode;
	uint32_t least_mbit, most_latency_us; /* of the network; 0: any */
};

#define PLACE_MODE_WHY 384u

enum place_outcome { PLACE_EXCLUSIVE, PLACE_LOCAL, PLACE_REMOTE, PLACE_QUEUED };

struct place_decision {
	enum place_outcome outcome;
	/* The devices' side, which is all there is unless remote on two nodes. */
	struct place_spec spec;
	struct place_choice choice;
	/* The tenant's own: CPU and memory, no device. */
	bool has_client;
	struct place_spec client_spec;
	struct place_choice client;
	enum place_network_kind kind; /* with has_client */
	uint32_t hops;
	uint32_t latency_us; /* with has_client: PLACE_LATENCY_UNKNOWN where nobody knows it */
	char why[PLACE_MODE_WHY];
};

/*
 * 0 for each outcome, PLACE_QUEUED too; nothing is given away. -EINVAL for what cannot be
 * (exclusive for a fraction, remote without a device), -ENOMEM.
 */
int place_mode_choose(struct place *place, const struct place_wish *wish,
	struct place_decision *ret_decision, struct error *err);

/*
 * Takes what was decided, all or nothing. ret_tenants: the devices' side, and the tenant's own or
 * PLACE_NONE; both are to be removed. -EINVAL for PLACE_QUEUED; else as place_add.
 */
int place_mode_add(struct place *place, const struct place_decision *decision,
	uint32_t ret_tenants[static 2], struct error *err);

/*
 * The two halves, read back by place_restore, belong together again: who has to leave leaves with
 * both. -EINVAL where one is not there or belongs to another, -ENOMEM.
 */
int place_mode_tie(struct place *place, uint32_t server, uint32_t client, struct error *err);

/* ---- for place-tenant.c and place.c ---- */

struct place_networks;
struct place_paths;

void place_paths_free(struct place_paths *paths);
void place_paths_enter(struct place *place, uint32_t node);
/* Before it goes. */
void place_paths_drop(struct place *place, uint32_t node);
void place_network_free(struct place_networks *networks);
uint32_t place_network_n(const struct place *place);                      /* the highest number */
uint32_t place_network_node(const struct place *place, uint32_t network); /* or PLACE_NONE */
/* -ENOSPC: the server's end is not on that node, or there is too little bandwidth. -EINVAL. */
int place_network_fits(
	const struct place *place, const struct place_spec *spec, uint32_t node, struct error *err);
/* sign 1: the tenant has come; -1: it goes. */
void place_network_count(struct place *place, const struct place_tenant *t, int sign);
bool place_network_is_taken(const struct place *place, uint32_t node);
void place_network_drop(struct place *place, uint32_t node);

#endif
