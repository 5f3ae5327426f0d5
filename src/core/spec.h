/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant asks for: the one internal form that every dialect, flag and file is translated
 * into. Shares are integers in 1/1000 of a device, memory is bytes; nothing here is a float. Pure:
 * no I/O, no clock, no allocation. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define SPEC_SHARE_ONE 1000u /* one device */
#define SPEC_DEVICES_MAX 16u
#define SPEC_LABEL 64u
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
	char model[SPEC_LABEL];  /* "": any */
	char device[SPEC_LABEL]; /* UUID; "": any */
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
	X(model, "device model") \
	X(device, "device UUID")

/* A builder: fields in any order, then spec_finish applies defaults and checks them together. */
void spec_init(struct spec *ret_spec);

/*
 * Sets one field from text. `field` is spelled with '-' or '_'. -EINVAL with a sentence that names
 * field, value and allowed range; nothing is changed then. -ENOENT for an unknown field.
 */
int spec_set(struct spec *spec, const char *field, const char *value, struct error *err);

/* Defaults (limit 1, count 1, priority 50, ...) and the rules between fields. 0 or -EINVAL. */
int spec_finish(struct spec *spec, struct error *err);

/* The name of a tenant: 1 to SPEC_NAME - 1 of A-Z a-z 0-9 . _ -, or -EINVAL. */
int spec_name_check(const char *name, struct error *err);

/* Bytes on a device of that size: memory_bytes, or the percentage, or request x device. */
uint64_t spec_memory_on(const struct spec *spec, uint64_t device_bytes);

const char *spec_class_name(enum spec_class class);
const char *spec_memory_policy_name(enum spec_memory_policy policy);
const char *spec_mode_name(enum spec_mode mode);

/* "0.3" for 300, "1", "0.125"; `ret` holds at least 8 bytes. Returns ret. */
char *spec_share_format(uint32_t permille, char ret[static 8]);
