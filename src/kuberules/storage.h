/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Volumes, claims, classes and what CSI drivers say, as far as placing a pod needs them.
 */
#ifndef KUBERULES_STORAGE_H
#define KUBERULES_STORAGE_H

#include "kuberules/object.h"

enum volume_mode { VOLUME_FILESYSTEM, VOLUME_BLOCK };

/* Kinds of volumes whose number on a node is limited, or of which two cannot be in one place. */
enum disk_kind {
	DISK_NONE,
	DISK_GCE,
	DISK_EBS,
	DISK_AZURE,
	DISK_CINDER,
	DISK_ISCSI,
	DISK_RBD,
	DISK_CSI,
	DISK_KINDS,
};

struct disk {
	enum disk_kind kind;
	const char *id;     /* the volume's; of CSI its handle */
	const char *driver; /* of CSI */
	const char *pool;   /* of RBD */
	struct texts monitors;
	bool is_read_only;
};

/* The disk of a volume source's field ("gcePersistentDisk": {...}); DISK_NONE for any other. */
int disk_read(struct arena *arena, const char *field, json_t *value, struct disk *ret_disk,
	struct error *err);

/* Whether the field is a volume source that is known, disk or not. */
bool is_volume_source(const char *field);

struct volume {
	struct object object;
	const char *class; /* "" when there is none */
	const char *attributes_class;
	struct texts access_modes;
	int mode;
	int64_t capacity_bytes;
	struct node_terms nodes;
	struct disk disk;
	const char *claim_ns, *claim_name, *claim_uid; /* claim_name NULL: for no claim */
	bool is_available;
};

struct claim {
	struct object object;
	const char *class;
	const char *attributes_class;
	const char *volume; /* "" while it has none */
	struct texts access_modes;
	struct selector selector; /* matches all when not given: has_selector */
	bool has_selector;
	int mode;
	int64_t request_bytes;
	bool is_lost;
};

struct storage_class {
	struct object object;
	const char *provisioner;
	bool is_delayed; /* WaitForFirstConsumer */
	struct node_terms topologies;
};

struct csi_limit {
	const char *driver;
	int64_t count; /* -1: none */
};

struct csi_limits {
	struct csi_limit *v;
	uint32_t n;
};

struct csi_node {
	struct object object; /* named as its node */
	struct csi_limits drivers;
};

struct csi_driver {
	struct object object;
	bool has_capacities; /* the scheduler is to look at CSIStorageCapacity objects */
};

struct csi_capacity {
	struct object object;
	const char *class;
	struct selector nodes;
	int64_t bytes; /* -1: not said */
};

/* Fully bound: what it has says so, and so does the volume controller. */
static inline bool claim_is_bound(const struct claim *claim)
{
	return *claim->volume && claim->object.is_bind_completed;
}

#endif
