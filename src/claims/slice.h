/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ResourceSlices: the devices that drivers offer, as the API server serves them. A slice is read
 * once into structs that borrow their texts from its JSON, which the slice keeps. Pure; one thread.
 */
#ifndef CLAIMS_SLICE_H
#define CLAIMS_SLICE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "claims/amount.h"
#include "claims/cel.h"
#include "claims/toleration.h"
#include "kuberules/labels.h"

enum attribute_kind {
	ATTRIBUTE_NONE, /* no value that this reader knows */
	ATTRIBUTE_INT,
	ATTRIBUTE_BOOL,
	ATTRIBUTE_STRING,
	ATTRIBUTE_VERSION,
	ATTRIBUTE_LIST,
};

struct attribute {
	const char *name;
	enum attribute_kind kind;
	int64_t number;  /* of an int or bool */
	struct str text; /* of a string or version */
};

struct capacity_range {
	struct amount min, max, step;
	bool has_min, has_max, has_step;
};

/* Capacity of a device. The policy says which amounts claims can consume. */
struct capacity {
	const char *name;
	struct amount value;
	bool has_policy, has_preset, has_range;
	struct amount preset;        /* consumed if a claim requests nothing */
	const struct amount *values; /* amounts that can be consumed, ascending */
	uint32_t n_values;
	struct capacity_range range;
};

/* An amount that a device consumes of a counter, or a counter of a set. */
struct counter {
	const char *set, *name;
	struct amount amount;
};

/* The nodes that can use a slice or a device. */
struct node_choice {
	const char *name; /* NULL: none */
	bool is_all;
	bool has_terms;
	struct node_terms terms;
	json_t *json; /* of the node selector; borrowed; NULL: none */
};

struct slice;

/* Whether the selectors of a class match a device. */
struct class_match {
	uint32_t number; /* of the class; 0: none */
	bool matches;
};
#define CLASS_MATCHES 4u /* that a device keeps, by the class's number modulo CLASS_MATCHES */

struct device {
	const char *name;
	const struct slice *slice;
	const char *id; /* driver/pool/name */
	const struct attribute *attributes;
	uint32_t n_attributes;
	const struct capacity *capacities;
	uint32_t n_capacities;
	const struct counter *counters;
	uint32_t n_counters;
	struct node_choice nodes;
	struct device_taints taints;
	bool is_bound_to_node;
	bool has_binding_conditions;
	/* lists of conditions, borrowed; NULL: none */
	json_t *binding_conditions, *binding_failures;
	bool has_groups; /* names compatibility groups, which this scheduler does not know */
	bool is_shared;  /* several claims can have it at once */
	struct class_match *matches; /* CLASS_MATCHES results that searches have found */
	struct cel_value cel;        /* the variable `device` */
	const char *cel_fault;       /* why there is no such value; NULL: there is */
};

struct slice {
	struct arena arena;
	json_t *json;
	const char *name, *driver, *pool;
	int64_t generation, n_slices;
	struct node_choice nodes;
	bool is_per_device; /* each device chooses its nodes */
	bool has_counters;  /* the slice has counters, and no devices */
	/* A part of the slice was not understood, so its pool counts as incomplete. */
	bool is_unclear;
	struct device *devices;
	uint32_t n_devices;
	const struct counter *counters;
	uint32_t n_counters;
};

/* -EINVAL: no name; -ENOMEM. A slice that is not understood is_unclear. */
int slice_new(json_t *json, struct slice **ret_slice, struct error *err);
void slice_free(struct slice *slice);
DEFINE_CLEANUP(struct slice *, slice_free)

/* The attribute with that name and domain; NULL: none. */
const struct attribute *device_attribute(const struct device *device, const char *full_name);
const struct capacity *device_capacity(const struct device *device, const char *name);

/* Whether the choice includes the node. */
bool node_choice_has(
	const struct node_choice *choice, const char *node, const struct labels *labels);

/* Reads a quantity that JSON has as text or number. */
int amount_read_json(const json_t *json, struct amount *ret_amount);

#endif
