/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant asks for: the one internal form that every dialect, flag and file is translated
 * into. Shares are integers in 1/1000 of a device, memory is bytes; nothing here is a float. Pure:
 * no I/O, no clock, no allocation. Any thread.
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
#define SPEC_PATTERN 256u /* of models or devices */
#define SPEC_GROUP 254u   /* a name of Kubernetes', and the byte behind it */
#define SPEC_GROUP_SIZE_MAX 65536u
#define SPEC_MBIT_MAX 1000000000u
#define SPEC_LATENCY_MAX_US 1000000000u
#define SPEC_NAME 64u /* of a tenant, and the byte behind it */

enum spec_class {
	SPEC_LATENCY, /* preempts others as soon as it wants the device */
	SPEC_STANDARD,
	SPEC_OPPORTUNISTIC, /* runs in what the others leave */
};

enum spec_memory_policy {
	SPEC_MEMORY_FAIL, /* out-of-memory error */
	SPEC_MEMORY_WAIT, /* block until it fits */
	SPEC_MEMORY_SWAP, /* managed memory: may exceed the device */
};

enum spec_mode { SPEC_MODE_AUTO, SPEC_MODE_EXCLUSIVE, SPEC_MODE_LOCAL, SPEC_MODE_REMOTE };

struct spec {
	uint32_t request;      /* permille of each device, 1..1000 */
	uint32_t limit;        /* permille, request..1000 */
	uint32_t count;        /* devices, 1..SPEC_DEVICES_MAX */
	bool exclusive;        /* request was a whole number: whole devices, shared with nobody */
	uint64_t memory_bytes; /* on each device; 0: request x device memory */
	uint32_t memory_permille; /* a percentage was asked instead of bytes; 0: none */
	enum spec_memory_policy memory_policy;
	enum spec_class class;
	uint32_t priority; /* 0..100 */
	enum spec_mode mode;
	char model[SPEC_PATTERN];  /* "": any; see spec_model_fits */
	char device[SPEC_PATTERN]; /* UUIDs; "": any; see spec_device_fits */

	char preferred_anti_affinity[SPEC_LABEL]; /* a label: apart from its others, if it can be */

	/* In a cluster only. Labels, also the one above, are those of one namespace; "": none. */
	char affinity[SPEC_LABEL];      /* on the device of the label's others */
	char anti_affinity[SPEC_LABEL]; /* on none with another of the same */
	char exclusion[SPEC_LABEL];     /* on none with anybody who has not the same */
	bool has_exclusion;             /* "" is a label too when it is given */
	char group[SPEC_GROUP];         /* start together, or not at all */
	uint32_t group_size;            /* 0 with a group: an object of that name says it */
	uint32_t group_threshold;       /* permille of the size that has to be there; 0: no group */
	uint32_t network_mbit;          /* least bandwidth to a remote device; 0: any */
	uint32_t network_latency_us;    /* most latency; 0: any */
};

/* The fields, by name, as flags (`--memory-policy`), annotations and file keys use them. */
#define SPEC_FIELDS(X) \
	X(request, \
		"share of a device's time that is guaranteed: 0.001 to 1, or a whole number of " \
		"exclusive devices") \
	X(limit, "most of a device's time it may take when others leave time over: request to 1") \
	X(count, "number of devices, that share and that memory on each: 1 to 16") \
	X(memory, "device memory: bytes, a quantity such as 4Gi, or a percentage such as 25%") \
	X(memory_policy, "when memory runs out: fail, wait or swap") \
	X(class, "latency, standard or opportunistic") \
	X(priority, "0 to 100, 0 is opportunistic") \
	X(mode, "auto, exclusive, local or remote") \
	X(model, "device model: a part of its name; several with commas, !MODEL for not that one") \
	X(device, "device UUID; several with commas, !UUID for not that one") \
	X(preferred_anti_affinity, \
		"label: where it has a choice, on the device with the fewest others of the label")

/*
 * Those that speak of others, or of a way to a device elsewhere: in a cluster, as annotations
 * (`divvy.gpu/anti-affinity`). One machine has no use for them and refuses them.
 */
#define SPEC_CLUSTER_FIELDS(X) \
	X(affinity, "label: on the same device as the others with that label") \
	X(anti_affinity, "label: never on a device with another of the same label") \
	X(exclusion, "label: only with those that have the same label, which may be empty") \
	X(group, "name of the group that starts together or not at all") \
	X(group_size, "members of the group: 1 to 65536") \
	X(group_threshold, \
		"part of the group that has to have a place before any of it starts: 0.001 to 1") \
	X(network, "to a remote device: least bandwidth, greatest latency, such as 10Gbps,50us")

/* A builder: fields in any order, then spec_finish applies defaults and checks them together. */
void spec_init(struct spec *ret_spec);

/*
 * Sets one field from text. `field` is spelled with '-' or '_'. -EINVAL with a sentence that names
 * field, value and allowed range; nothing is changed then. -ENOENT for an unknown field.
 */
int spec_set(struct spec *spec, const char *field, const char *value, struct error *err);

/* The same with the fields of SPEC_CLUSTER_FIELDS, which spec_set refuses with -EINVAL. */
int spec_set_cluster(struct spec *spec, const char *field, const char *value, struct error *err);

/*
 * The name of field number i, from 0, as annotations spell it ("memory-policy"), and what it means;
 * those of the cluster come last. NULL behind the last. The name is written into ret.
 */
#define SPEC_FIELD 24u
const char *spec_field_name(size_t i, char ret[static SPEC_FIELD]);
const char *spec_field_help(size_t i);

/* Defaults (limit 1, count 1, priority 50, ...) and the rules between fields. 0 or -EINVAL. */
int spec_finish(struct spec *spec, struct error *err);

/* The name of a tenant: 1 to SPEC_NAME - 1 of A-Z a-z 0-9 . _ -, or -EINVAL. */
int spec_name_check(const char *name, struct error *err);

/* Every field is the same; finished specs of the same meaning are. */
bool spec_is_same(const struct spec *a, const struct spec *b);

/*
 * A model or device as the spec wishes: "A100,V100" one of them, "!T4" not that one, both ways
 * together. A model is named by a part of its name, "=NAME" by all of it; case does not count, and
 * '-', '_' and ' ' are the same. A device is named by all of its UUID. Nothing asked: any.
 */
bool spec_model_fits(const struct spec *spec, const char *model);
bool spec_device_fits(const struct spec *spec, const char *uuid);
/* How many devices are named as possible; 0: any. */
uint32_t spec_devices_named(const struct spec *spec);

/* Members that have to have a place: threshold x size, rounded half up, at least 1. */
uint32_t spec_group_least(const struct spec *spec);

/* "10Gbps,50us", as the field network takes it; "" for none. Returns ret. */
#define SPEC_NETWORK 48u
char *spec_network_format(const struct spec *spec, char ret[static SPEC_NETWORK]);

/*
 * Bytes on a device of that size: memory_bytes, or the percentage, or request x device, these two
 * in whole blocks.
 */
uint64_t spec_memory_on(const struct spec *spec, uint64_t device_bytes);
/* Rounded down to the blocks that devices give out; less than one of them stays as it is. */
uint64_t spec_memory_whole(uint64_t bytes);

/*
 * "beside 2 tenants that preferred-anti-affinity 'a' would keep apart": that the wish could not be
 * had; "" with nobody there. Returns ret.
 */
#define SPEC_MET 160u
char *spec_met_format(const char *label, uint32_t n_met, char ret[static SPEC_MET]);

const char *spec_class_name(enum spec_class class);
const char *spec_memory_policy_name(enum spec_memory_policy policy);
const char *spec_mode_name(enum spec_mode mode);

/* "0.3" for 300, "1", "0.125"; `ret` holds at least 8 bytes. Returns ret. */
char *spec_share_format(uint32_t permille, char ret[static 8]);

/* Request and limit for people: "0.3-0.6", "0.5", "2x0.5-1", "2 GPUs". Returns ret. */
#define SPEC_SHARES 64u
char *spec_shares_format(const struct spec *spec, char ret[static SPEC_SHARES]);

#endif
