/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of a placement simulation. The caller collects them once; cluster_place() adds them to
 * a new placement model for each run. Models are numbered in the order of their first use, the same
 * in every run. One thread at a time.
 */
#ifndef REPLAY_REPLAY_CLUSTER_H
#define REPLAY_REPLAY_CLUSTER_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "place/place-mode.h"
#include "place/place.h"

#define CLUSTER_KINDS 8u
/*
 * Limit on the devices of all nodes together. For each point of its curves, a run reads all
 * devices; at this limit one pass takes 1 s. A run needs about 200 bytes for each device (measured:
 * 816 MB for one run of 65536x64 on x86-64).
 */
#define CLUSTER_DEVICES_MAX (1u << 22)
#define CLUSTER_DEVICE_COST 200u

struct cluster_kind { /* a group of equal devices of a node */
	uint32_t model, n_devices;
	uint64_t device_bytes; /* memory of each device; 0: memory is not counted */
};

struct cluster_node {
	char name[SPEC_LABEL], rack[SPEC_LABEL];
	/* the first n_kinds are used; device numbers follow this order */
	struct cluster_kind kinds[CLUSTER_KINDS];
	uint32_t n_kinds;
	uint32_t n_devices; /* number of devices of all kinds; cluster_add() computes the sum */
	uint32_t cpu_milli;
	uint64_t memory_bytes;
	uint32_t line; /* line of the input file; 0: not from a file */
};

#define CLUSTER_QUEUE_MODELS 8u

struct cluster_queue { /* See place-queue.h. */
	char name[SPEC_LABEL], parent[SPEC_LABEL];
	uint64_t quota, limit;
	uint32_t weight;
	uint32_t line; /* line of the input file; 0: not from a file */
	uint32_t n_models;
	struct {
		uint32_t model;
		uint64_t quota, limit;
	} models[CLUSTER_QUEUE_MODELS];
};

/* See place-mode.h. The placement model numbers networks in the order of this list, from 1. */
struct cluster_network {
	uint32_t node; /* index in `nodes` */
	enum place_network_kind kind;
	uint32_t mbit, latency_us;
};

struct cluster {
	struct cluster_node *nodes; /* owned */
	uint32_t n, room;
	uint32_t n_devices; /* number of devices of all nodes together */
	/* memory of the largest device; 0: no node states its device memory */
	uint64_t device_bytes_max;
	char models[PLACE_MODELS_MAX][SPEC_LABEL];
	uint32_t n_models;
	struct cluster_queue *queues; /* owned; numbers start at 1 */
	uint32_t n_queues, queues_room;
	struct cluster_network *networks; /* owned */
	uint32_t n_networks, networks_room;
	/* owned; NULL: no cell file, so the placement model derives distances itself */
	struct place_cells *cells;
};

void cluster_done(struct cluster *c);
#define _cleanup_cluster_ _cleanup_(cluster_done)

/*
 * Copies the node. Errors: -ENOSPC above PLACE_NODES_MAX or CLUSTER_DEVICES_MAX, -EINVAL for more
 * than PLACE_NODE_DEVICES_MAX devices, -ENOMEM.
 */
int cluster_add(struct cluster *c, const struct cluster_node *node, struct error *err);

/*
 * Returns -EINVAL, with the name and the second node's line, if two nodes have the same name;
 * -ENOMEM.
 */
int cluster_check_names(const struct cluster *c, struct error *err);

/*
 * cluster_model() returns a model's number, and numbers a new model. cluster_models() returns the
 * bits of the models in "A|B". The text "" gives 0, which means any model. Errors: -EINVAL for a
 * wrong name, -ENOSPC above PLACE_MODELS_MAX.
 */
int cluster_model(struct cluster *c, struct str name, uint32_t *ret_model, struct error *err);
int cluster_models(struct cluster *c, struct str names, uint64_t *ret_bits, struct error *err);

/*
 * Copies the queue. Errors: -EEXIST for a duplicate name, -ENOSPC above PLACE_QUEUES_MAX, -ENOMEM.
 */
int cluster_queue_add(struct cluster *c, const struct cluster_queue *queue, struct error *err);
/* the queue's number, or 0 */
uint32_t cluster_queue_find(const struct cluster *c, struct str name);
/*
 * Copies the network. Errors: -EINVAL for an unknown node, -ENOSPC above PLACE_NETWORKS_MAX,
 * -ENOMEM.
 */
int cluster_network_add(
	struct cluster *c, const struct cluster_network *network, struct error *err);
/*
 * Checks parents, quotas and limits of all queues together with place_queue_set(). Errors: -EINVAL
 * with the line, -ENOMEM.
 */
int cluster_queues_check(const struct cluster *c, struct error *err);

/*
 * Reads KubeShare 2.0's cell file (place/place-cell.h) and replaces an earlier one. Errors: those
 * of place_cells_parse(), and -EINVAL if no cell is a node of the cluster. The earlier cells stay
 * after an error.
 */
int cluster_read_cells(struct cluster *c, struct str text, struct error *err);

/*
 * Differences between the cell file and the cluster. Differences are no error: the placement model
 * ignores the parts of the file that do not match.
 */
#define CLUSTER_CELLS_TEXT 160u
struct cluster_cells_met {
	uint32_t n_nodes; /* cells that are nodes */
	/* how many of the n_nodes cells have a name that no node of the cluster has */
	uint32_t n_unknown;
	const char *unknown; /* the first such name; borrowed from the cells */
	uint32_t n_other;    /* nodes of the cluster whose devices differ from the file's */
	const char *other;   /* the first such name; borrowed from the cluster */
	/*
	 * devices of node `other` in the cluster and in the file, such as "2 of 'T4' and 1 of
	 * 'A10'"
	 */
	char has[CLUSTER_CELLS_TEXT], said[CLUSTER_CELLS_TEXT];
};

/* Returns -ENOMEM, else 0. */
int cluster_cells_compare(
	const struct cluster *c, struct cluster_cells_met *ret_met, struct error *err);

/*
 * Reads a node file of the OpenB trace (replay/openb.h). Devices without a model get the model
 * "any".
 */
int cluster_read_openb(struct cluster *c, struct str text, struct error *err);
/*
 * Adds equal nodes: "8x4" adds eight nodes of four devices each. For each device of 16 GiB a node
 * has 16 cores and 64 GiB, so that only devices are scarce. Returns -EINVAL before it adds the
 * first node if `text` is wrong.
 */
int cluster_like(struct cluster *c, struct str text, struct error *err);

/*
 * Creates a placement model with these nodes; the caller frees *ret_place with place_free(). Array
 * `ranks` gives the position of each node in the placement model, so it decides between equal
 * nodes; NULL keeps the cluster's order. Array `ret_index` has n entries and receives, for each
 * node of the placement model, its index in `nodes`.
 */
int cluster_place(const struct cluster *c, const uint32_t *ranks, const struct place_policy *policy,
	struct place **ret_place, uint32_t *ret_index, struct error *err);

#endif
