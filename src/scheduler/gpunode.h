/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPUNode as divvyd reports it, read from JSON. Items that are invalid are left out and reported.
 * A device that is left out gets no tenants; a tenant that is left out is not counted.
 */
#ifndef SCHEDULER_GPUNODE_H
#define SCHEDULER_GPUNODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "place/place-mode.h"
#include "spec/assigned.h"

#define GPUNODE_TENANTS_MAX 4096u
#define GPUNODE_UID 129u
#define GPUNODE_NETWORKS_MAX 64u
#define GPUNODE_PEERS_MAX PLACE_PATHS_MAX

/* Why divvy may not share a device. */
enum gpunode_closed {
	GPUNODE_OPEN, /* divvy may share the device, unless the whole node is closed */
	GPUNODE_CORDONED,
	GPUNODE_UNHEALTHY,
	/* on a node of the pool: another plugin owns the device until a placeholder takes it */
	GPUNODE_NOT_TAKEN,
	GPUNODE_NOT_OURS, /* on any other node: divvy does not manage the device */
};

/* Effects of taints, the weakest first. */
enum gpunode_effect { GPUNODE_NO_EFFECT, GPUNODE_NO_SCHEDULE, GPUNODE_NO_EXECUTE, GPUNODE_EFFECTS };

/* Key and value have at most 63 characters of at most 4 bytes (deploy/crd/gpunode.yaml). */
#define GPUNODE_TAINT_SIZE (2 * 63 * 4 + sizeof("=:NoSchedule"))

/* A taint of a device. */
struct gpunode_taint {
	uint64_t since_ns;             /* CLOCK_REALTIME */
	char text[GPUNODE_TAINT_SIZE]; /* "KEY=VALUE:EFFECT" */
};

struct gpunode_device {
	char uuid[SPEC_LABEL], model[SPEC_LABEL];
	uint64_t memory_bytes;
	uint32_t index;
	uint8_t numa, link; /* as in struct place_device_info */
	enum gpunode_closed closed;
	enum gpunode_effect effect; /* the strongest effect of all taints */
	/*
	 * The earliest taint with that effect or a stronger one; for effects up to `effect`. A
	 * later taint must not prolong the time that pods may stay. Array of GPUNODE_EFFECTS
	 * elements; NULL: the device has no taint.
	 */
	struct gpunode_taint *taint;
};

struct gpunode_tenant {
	char uid[GPUNODE_UID];
	struct assigned_container is;
};

struct gpunode_network {
	char name[ASSIGNED_NETWORK];
	/* name of the port that this network device shares with others; "": it has its own port */
	char link[ASSIGNED_NETWORK];
	enum place_network_kind kind;
	uint32_t mbit;
};

/* The path to another node, as this node measured it. */
struct gpunode_peer {
	char name[ASSIGNED_NODE];
	uint32_t latency_us; /* latency of a round trip, rounded up */
	uint32_t mbit;       /* bandwidth, rounded down, at least 1; 0: not measured */
};

struct gpunode {
	struct gpunode_device *device; /* array of up to PLACE_NODE_DEVICES_MAX devices */
	uint32_t n_devices;
	struct gpunode_tenant *tenant;
	uint32_t n_tenants;
	struct gpunode_network *network; /* unique names */
	uint32_t n_networks;
	struct gpunode_peer *peer; /* unique names */
	uint32_t n_peers;
	bool is_serving; /* the node serves its devices to other nodes */
	uint32_t slots_total;
	uint32_t overcommit_memory; /* memory overcommit factor in 1/1000; 0: the policies decide */
	uint64_t epoch;
};

/*
 * -EINVAL: at least one item is left out; `err` names the first of them with its value, and all
 * other items are read. -ENOMEM. Call gpunode_done() after a failure too.
 */
int gpunode_read(const json_t *json, struct gpunode *ret_gpunode, struct error *err);
void gpunode_done(struct gpunode *gpunode);

/* Why no device is open, if all have the same reason; else GPUNODE_OPEN. */
enum gpunode_closed gpunode_closed(const struct gpunode *gpunode);
/* Returns text such as "cordoned"; for GPUNODE_OPEN the reason why the whole node is closed. */
const char *gpunode_closed_text(enum gpunode_closed closed);
/* NULL: no device with that UUID. */
const struct gpunode_device *gpunode_find(const struct gpunode *gpunode, const char *uuid);
/* The index of the network device with that name; n_networks: no such device. */
uint32_t gpunode_find_network(const struct gpunode *gpunode, const char *name);
/* NULL: no measurement to that node. */
const struct gpunode_peer *gpunode_find_peer(const struct gpunode *gpunode, const char *name);

#endif
