/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of a replay: read or made once, put into a fresh `struct place` for each run. Models
 * are numbered in the order in which they are first named, in each run. One thread at a time.
 */
#ifndef REPLAY_CLUSTER_H
#define REPLAY_CLUSTER_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "place/place-mode.h"
#include "place/place.h"

#define CLUSTER_KINDS 8u
/*
 * Of all nodes: a run looks at each device for each point of its curves, 1 s for so many, and takes
 * 200 bytes for each (one run of 65536x64 on an x86-64, 816 MB).
 */
#define CLUSTER_DEVICES_MAX (1u << 22)
#define CLUSTER_DEVICE_COST 200u

struct cluster_kind { /* devices of a node that are alike */
	uint32_t model, n_devices;
	uint64_t device_bytes; /* of each; 0: not counted */
};

struct cluster_node {
	char name[SPEC_LABEL], rack[SPEC_LABEL];
	struct cluster_kind kinds[CLUSTER_KINDS]; /* one after the other, n_kinds of them */
	uint32_t n_kinds;
	uint32_t n_devices; /* of all kinds: cluster_add() counts them */
	uint32_t cpu_milli;
	uint64_t memory_bytes;
	uint32_t line; /* where a file has it; 0: no file does */
};

#define CLUSTER_QUEUE_MODELS 8u

struct cluster_queue { /* place-queue.h */
	char name[SPEC_LABEL], parent[SPEC_LABEL];
	uint64_t quota, limit;
	uint32_t weight;
	uint32_t line; /* of its file, or 0 */
	uint32_t n_models;
	struct {
		uint32_t model;
		uint64_t quota, limit;
	} models[CLUSTER_QUEUE_MODELS];
};

struct cluster_network { /* place-mode.h; its number there is that in the list, from 1 on */
	uint32_t node;   /* in `nodes` */
	enum place_network_kind kind;
	uint32_t mbit, latency_us;
};

struct cluster {
	struct cluster_node *nodes; /* owned */
	uint32_t n, room;
	uint32_t n_devices;        /* of all */
	uint64_t device_bytes_max; /* of the largest; 0: none says how much it has */
	char models[PLACE_MODELS_MAX][SPEC_LABEL];
	uint32_t n_models;
	struct cluster_queue *queues; /* owned; from 1 on */
	uint32_t n_queues, queues_room;
	struct cluster_network *networks; /* owned */
	uint32_t n_networks, networks_room;
	struct place_cells *cells; /* owned; NULL: what is near is found */
};

void cluster_done(struct cluster *c);
#define _cleanup_cluster_ _cleanup_(cluster_done)

/*
 * A copy. -ENOSPC above PLACE_NODES_MAX or CLUSTER_DEVICES_MAX, -EINVAL for more than
 * PLACE_NODE_DEVICES_MAX devices, -ENOMEM.
 */
int cluster_add(struct cluster *c, const struct cluster_node *node, struct error *err);

/* No two nodes have one name: -EINVAL with it and the second's line, -ENOMEM. */
int cluster_check_names(const struct cluster *c, struct error *err);

/* The model's number, and the bits of any of "A|B"; "" is 0, any. -EINVAL, -ENOSPC. */
int cluster_model(struct cluster *c, struct str name, uint32_t *ret_model, struct error *err);
int cluster_models(struct cluster *c, struct str names, uint64_t *ret_bits, struct error *err);

/* A copy. -EEXIST for a name that there is, -ENOSPC above PLACE_QUEUES_MAX, -ENOMEM. */
int cluster_queue_add(struct cluster *c, const struct cluster_queue *queue, struct error *err);
uint32_t cluster_queue_find(const struct cluster *c, struct str name); /* its number, or 0 */
/* A copy. -EINVAL for a node that is not there, -ENOSPC above PLACE_NETWORKS_MAX, -ENOMEM. */
int cluster_network_add(
	struct cluster *c, const struct cluster_network *network, struct error *err);
/* Parents, quotas and limits together, as place_queue_set() has it: -EINVAL with line, -ENOMEM. */
int cluster_queues_check(const struct cluster *c, struct error *err);

/*
 * KubeShare 2.0's file of cells (place/place-cell.h), which says what is near to what. -EINVAL also
 * where none of its nodes is one of the cluster.
 */
int cluster_read_cells(struct cluster *c, struct str text, struct error *err);

/* What the file of cells says of nodes that is not so: nothing fails, and that of it is lost. */
#define CLUSTER_CELLS_TEXT 160u
struct cluster_cells_met {
	uint32_t n_nodes;    /* cells that are nodes */
	uint32_t n_unknown;  /* of those: no node of the cluster has that name */
	const char *unknown; /* the first; borrowed from the cells */
	uint32_t n_other;    /* nodes of the cluster whose devices are others */
	const char *other;   /* the first; borrowed from the cluster */
	char has[CLUSTER_CELLS_TEXT],
		said[CLUSTER_CELLS_TEXT]; /* its: "2 of 'T4' and 1 of 'A10'" */
};

/* -ENOMEM */
int cluster_cells_compare(
	const struct cluster *c, struct cluster_cells_met *ret_met, struct error *err);

/* The text of a file of nodes in the OpenB trace's format (replay/openb.h); no model is "any". */
int cluster_read_openb(struct cluster *c, struct str text, struct error *err);
/*
 * "8x4": eight nodes of four devices each, with so much CPU and memory that devices are what is
 * short: 16 cores and 64 GiB for each device, which has 16 GiB. -EINVAL before any is made.
 */
int cluster_like(struct cluster *c, struct str text, struct error *err);

/*
 * A new engine with these nodes, the caller's. ranks[i] is the rank of node i among equals, a
 * permutation; NULL: as they come. ret_index: by the engine's node its index here, n of them.
 */
int cluster_place(const struct cluster *c, const uint32_t *ranks, const struct place_policy *policy,
	struct place **ret_place, uint32_t *ret_index, struct error *err);

#endif
