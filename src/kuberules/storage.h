/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes, claims, storage classes and CSI objects: the fields that decide where pods may go. */
#ifndef KUBERULES_STORAGE_H
#define KUBERULES_STORAGE_H

#include "kuberules/object.h"

enum volume_mode { VOLUME_FILESYSTEM, VOLUME_BLOCK };

/*
 * Kinds of disks with placement rules: a node attaches a limited number, or two pods cannot share a
 * disk.
 */
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
	const char *id;     /* id of the volume; for CSI its handle */
	const char *driver; /* for CSI */
	const char *pool;   /* for RBD */
	struct texts monitors;
	bool is_read_only;
};

/*
 * Reads the disk of a volume source such as "gcePersistentDisk": {...}. A source without placement
 * rules leaves *ret_disk unchanged.
 */
int disk_read(struct arena *arena, const char *field, json_t *value, struct disk *ret_disk,
	struct error *err);

/* Whether the field is a known volume source, with or without placement rules. */
bool is_volume_source(const char *field);

struct volume {
	struct object object;
	const char *class; /* name of the StorageClass; "": none */
	const char *attributes_class;
	struct texts access_modes;
	int mode;
	int64_t capacity_bytes;
	struct node_terms nodes;
	struct disk disk;
	/* The claim in the volume's claimRef; claim_name NULL: none. */
	const char *claim_ns, *claim_name, *claim_uid;
	bool is_available;
};

struct claim {
	struct object object;
	const char *class;
	const char *attributes_class;
	const char *volume; /* name of the claim's volume; "": not bound */
	struct texts access_modes;
	struct selector selector; /* valid with has_selector */
	bool has_selector;
	int mode;
	int64_t request_bytes;
	bool is_lost;
};

struct storage_class {
	struct object object;
	const char *provisioner;
	bool is_delayed; /* volumeBindingMode WaitForFirstConsumer */
	struct node_terms topologies;
};

struct csi_limit {
	const char *driver;
	int64_t count; /* most volumes of the driver on the node; -1: no limit */
};

struct csi_limits {
	struct csi_limit *v;
	uint32_t n;
};

struct csi_node {
	struct object object; /* the object's name is the node's name */
	struct csi_limits drivers;
};

struct csi_driver {
	struct object object;
	bool has_capacities; /* CSIStorageCapacity objects count for this driver */
	bool is_mandatory;   /* its volumes need a node that has the driver */
};

struct csi_capacity {
	struct object object;
	const char *class;
	struct selector nodes;
	int64_t bytes; /* -1: unknown */
};

/* A VolumeAttachment: the volume is attached to the node, or is being attached or detached. */
struct attachment {
	struct object object;
	const char *node, *driver;
	const char *volume; /* name of the PersistentVolume; "": an inline volume */
};

/*
 * Whether the claim is fully bound: the claim names a volume, and the volume controller confirms
 * it.
 */
static inline bool claim_is_bound(const struct claim *claim)
{
	return *claim->volume && claim->object.is_bind_completed;
}

#endif
