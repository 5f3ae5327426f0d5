/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spec: what a tenant requests, in the one internal form to which every dialect, flag and file
 * is translated. Shares are integers in 1/1000 of a device, memory is in bytes. Pure: no I/O, no
 * clock, no allocation. Any thread.
 */
#ifndef SPEC_SPEC_H
#define SPEC_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define SPEC_SHARE_ONE 1000u /* one device */
#define SPEC_DEVICES_MAX 16u
#define SPEC_MEMORY_BLOCK (UINT64_C(2) << 20)
#define SPEC_PRIORITY_MAX 100u
#define SPEC_LABEL 64u
#define SPEC_PATTERN 256u /* bytes of a pattern for models or devices, with the final 0 */
#define SPEC_GROUP 254u   /* bytes of a Kubernetes name, with the final 0 */
#define SPEC_GROUP_SIZE_MAX 65536u
#define SPEC_MBIT_MAX 1000000000u
#define SPEC_LATENCY_MAX_US 1000000000u
#define SPEC_NAME 64u /* bytes of a tenant's name, with the final 0 */

enum spec_class {
	SPEC_LATENCY, /* other classes stop as soon as this tenant wants the device */
	SPEC_STANDARD,
	SPEC_OPPORTUNISTIC, /* runs in the time that other tenants leave unused */
};

enum spec_memory_policy {
	SPEC_MEMORY_FAIL, /* out-of-memory error */
	SPEC_MEMORY_WAIT, /* the allocation blocks until the memory is free */
	SPEC_MEMORY_SWAP, /* managed memory: may exceed the device's memory */
};

enum spec_mode { SPEC_MODE_AUTO, SPEC_MODE_EXCLUSIVE, SPEC_MODE_LOCAL, SPEC_MODE_REMOTE };

struct spec {
	uint32_t request; /* permille of each device, 1..1000 */
	uint32_t limit;   /* permille, request..1000 */
	uint32_t count;   /* devices, 1..SPEC_DEVICES_MAX */
	bool exclusive;   /* the request was a whole number: whole devices, not shared */
	/*
	 * memory on each device; 0: memory_permille of the device's memory, or the part
	 * `request` of it if memory_permille is 0 too
	 */
	uint64_t memory_bytes;
	uint32_t memory_permille; /* a percentage was requested instead of bytes; 0: none */
	enum spec_memory_policy memory_policy;
	enum spec_class class;
	uint32_t priority; /* 0..100 */
	enum spec_mode mode;
	char model[SPEC_PATTERN];  /* "": any; see spec_model_fits */
	char device[SPEC_PATTERN]; /* UUIDs; "": any; see spec_device_fits */

	/* label: if possible on devices without other tenants of this label */
	char preferred_anti_affinity[SPEC_LABEL];

	/*
	 * Fields that only a cluster obeys. Labels, also preferred_anti_affinity above, are per
	 * namespace; "": none.
	 */
	/* label: on the same device as the other tenants with this label */
	char affinity[SPEC_LABEL];
	char anti_affinity[SPEC_LABEL]; /* label: on no device with another tenant of this label */
	char exclusion[SPEC_LABEL];     /* label: on no device with a tenant without this label */
	bool has_exclusion;             /* distinguishes an empty exclusion label from none */
	char group[SPEC_GROUP];         /* gang: start together or not at all */
	uint32_t group_size;            /* 0 with a group: a PodGroup gives the size */
	uint32_t group_threshold;       /* permille of the size that must fit; 0: no group */
	uint32_t network_mbit;          /* least bandwidth to a remote device; 0: any */
	uint32_t network_latency_us;    /* greatest latency to a remote device; 0: any */
};

/* The fields by name, for flags (`--memory-policy`), annotations and file keys. */
#define SPEC_FIELDS(X) \
	X(request, \
		"guaranteed share of a device's time: 0.001 to 1, or a whole number of exclusive " \
		"devices") \
	X(limit, \
		"largest share of a device's time when other tenants leave time unused: request " \
		"to 1") \
	X(count, "number of devices, with that share and memory on each: 1 to 16") \
	X(memory, "device memory: bytes, a quantity such as 4Gi, or a percentage such as 25%") \
	X(memory_policy, "when memory runs out: fail, wait or swap") \
	X(class, "latency, standard or opportunistic") \
	X(priority, "0 to 100; 0 is class opportunistic") \
	X(mode, "auto, exclusive, local or remote") \
	X(model, "device model: a part of its name; several with commas; !MODEL excludes a model") \
	X(device, "device UUID; several with commas; !UUID excludes a device") \
	X(preferred_anti_affinity, \
		"label: if several devices fit, the one with the fewest tenants of the same label")

/*
 * Fields about other pods or the network, as annotations in a cluster (`divvy.gpu/anti-affinity`).
 * spec_set() refuses them, because a single machine cannot honour them.
 */
#define SPEC_CLUSTER_FIELDS(X) \
	X(affinity, "label: on the same device as the other tenants with this label") \
	X(anti_affinity, "label: never on a device with another tenant of this label") \
	X(exclusion, "label: only with tenants that have the same label, which may be empty") \
	X(group, "name of the group, whose members start together or not at all") \
	X(group_size, "number of members of the group: 1 to 65536") \
	X(group_threshold, \
		"part of the group that must have a place before any member starts: 0.001 to 1") \
	X(network, "to a remote device: least bandwidth and largest latency, such as 10Gbps,50us")

/* Starts a spec: set fields in any order; spec_finish then applies defaults and checks rules. */
void spec_init(struct spec *ret_spec);

/*
 * Sets one field from text. `field` is spelled with '-' or '_'. Returns 0; -EINVAL, with a message
 * that begins with the field and gives value and allowed range; -ENOENT for an unknown field.
 * Changes nothing on failure.
 */
int spec_set(struct spec *spec, const char *field, const char *value, struct error *err);

/* As spec_set(), but also accepts the fields of SPEC_CLUSTER_FIELDS. */
int spec_set_cluster(struct spec *spec, const char *field, const char *value, struct error *err);

/*
 * As spec_set(), or with is_cluster as spec_set_cluster(), for a caller whose own message names the
 * field: this message begins with the value.
 */
int spec_set_value(struct spec *spec, const char *field, const char *value, bool is_cluster,
	struct error *err);

/*
 * Name and meaning of field i, from 0; NULL after the last. The name is in the annotations'
 * spelling ("memory-policy") and is written into ret. Cluster fields come last.
 */
#define SPEC_FIELD 24u
const char *spec_field_name(size_t i, char ret[static SPEC_FIELD]);
const char *spec_field_help(size_t i);

/*
 * Applies defaults (limit 1, count 1, priority 50, ...) and checks the rules between fields.
 * Returns 0, or -EINVAL without a change.
 */
int spec_finish(struct spec *spec, struct error *err);

/* Checks the name of a tenant: 1 to SPEC_NAME - 1 of A-Z a-z 0-9 . _ -. Returns 0 or -EINVAL. */
int spec_name_check(const char *name, struct error *err);

/* Whether every field is equal; equal finished specs have the same meaning. */
bool spec_is_same(const struct spec *a, const struct spec *b);

/*
 * Whether the spec accepts the model or device. "A100,V100": one of them; "!T4": not this one; both
 * can be combined; "" accepts any. A model matches a part of its name, or with "=NAME" the whole
 * name; case is ignored, and '-', '_' and ' ' are equal. A device matches its whole UUID.
 */
bool spec_model_fits(const struct spec *spec, const char *model);
bool spec_device_fits(const struct spec *spec, const char *uuid);
/* Number of UUIDs that `device` lists as acceptable; 0: any device. */
uint32_t spec_devices_named(const struct spec *spec);

/* Number of gang members that must fit: threshold x size, rounded half up, at least 1. */
uint32_t spec_group_least(const struct spec *spec);

/* The network field's form, "10Gbps,50us"; "" if unset. Returns ret. */
#define SPEC_NETWORK 48u
char *spec_network_format(const struct spec *spec, char ret[static SPEC_NETWORK]);

/*
 * Bytes on a device of that size: memory_bytes, or else the percentage or request of the device,
 * rounded down by spec_memory_whole().
 */
uint64_t spec_memory_on(const struct spec *spec, uint64_t device_bytes);
/*
 * Rounds down to whole blocks, the unit in which devices allocate memory. Less than one block stays
 * as it is.
 */
uint64_t spec_memory_whole(uint64_t bytes);

/*
 * "beside 2 tenants that preferred-anti-affinity 'a' would keep apart": tells users that placement
 * could not honour the preference; "" if n_conflicts is 0. Returns ret.
 */
#define SPEC_CONFLICTS 160u
char *spec_conflicts_format(
	const char *label, uint32_t n_conflicts, char ret[static SPEC_CONFLICTS]);

const char *spec_class_name(enum spec_class class);
const char *spec_memory_policy_name(enum spec_memory_policy policy);
const char *spec_mode_name(enum spec_mode mode);

/* "0.3" for 300, "1", "0.125"; `ret` holds at least 8 bytes. Returns ret. */
char *spec_share_format(uint32_t permille, char ret[static 8]);

/* Request and limit for people: "0.3-0.6", "0.5", "2x0.5-1", "2 GPUs". Returns ret. */
#define SPEC_SHARES 64u
char *spec_shares_format(const struct spec *spec, char ret[static SPEC_SHARES]);

#endif
