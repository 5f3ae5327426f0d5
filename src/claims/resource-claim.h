/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ResourceClaims and DeviceClasses, read once from the JSON that the API server serves. The structs
 * borrow their texts from that JSON, which they keep. A claim or class that is not understood has a
 * refusal, which is the reason why its pods wait. Pure; one thread.
 */
#ifndef CLAIMS_RESOURCE_CLAIM_H
#define CLAIMS_RESOURCE_CLAIM_H

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

#define CLAIM_DEVICES_MAX 32u /* devices of a claim, as in the API */

/* Bytes of all selectors of a claim. Parsed selectors take up to 100 times as many. */
#define CLAIM_SELECTORS_MAX (64u * 1024)

/*
 * Expressions that all must select a device. Those of a claim are parsed while a search needs them,
 * since any user can make many large claims.
 */
struct selectors {
	struct cel **v; /* NULL: not parsed now */
	struct str *text;
	uint32_t n;
};

/* An amount of a capacity, requested or consumed. */
struct requested {
	const char *name;
	struct amount amount;
};

struct requesteds {
	struct requested *v;
	uint32_t n;
};

/* A request, or one of the requests of a prioritized list (firstAvailable). */
struct request {
	const char *name, *class_name;
	const char *full_name; /* "request" or "request/subrequest" */
	struct selectors selectors;
	bool is_all;
	int64_t count;
	bool is_admin;
	struct device_tolerations tolerations;
	json_t *tolerations_json; /* borrowed; NULL: none */
	struct requesteds capacities;
};

/* A request of the claim: one choice, or several in the order of preference. */
struct claim_request {
	const char *name;
	struct request *choices;
	uint32_t n;
	bool is_list; /* the choices are a prioritized list */
};

struct constraint {
	struct texts requests; /* none: all */
	const char *attribute;
	bool is_distinct; /* all devices have different values, else the same */
};

/* A device that a claim has. */
struct claim_device {
	const char *driver, *pool, *device;
	bool is_admin, is_share;
	struct requesteds consumed; /* by a share */
};

struct allocation {
	json_t *json; /* NULL: not allocated */
	struct claim_device *devices;
	uint32_t n;
	struct node_terms nodes;
};

struct resource_claim {
	struct arena arena;
	json_t *json;
	const char *ns, *name, *uid;
	const char *owner_uid; /* of the controller; "": none */
	const char *version;   /* resourceVersion: decimal digits */
	bool is_deleting;
	struct claim_request *requests;
	uint32_t n_requests;
	size_t selectors_size; /* bytes of all selectors */
	struct constraint *constraints;
	uint32_t n_constraints;
	struct allocation allocation;
	struct error refusal; /* code 0: none */
};

struct device_class {
	struct arena arena;
	json_t *json;
	uint32_t number; /* from 1, never the same again in a store; 0: results are not kept */
	const char *name;
	struct selectors selectors;
	struct error refusal;
};

/* -EINVAL: no name; -ENOMEM. */
int resource_claim_new(json_t *json, struct resource_claim **ret_claim, struct error *err);
void resource_claim_free(struct resource_claim *claim);
DEFINE_CLEANUP(struct resource_claim *, resource_claim_free)

int device_class_new(json_t *json, struct device_class **ret_class, struct error *err);
void device_class_free(struct device_class *class);
DEFINE_CLEANUP(struct device_class *, device_class_free)

/* Reads an AllocationResult; the arena owns the result, which keeps no reference to the JSON. */
int allocation_read(
	struct arena *arena, json_t *json, struct allocation *ret_allocation, struct error *err);

/* Returns the parsed selector i, which the selectors own. */
int selectors_parse(
	const struct selectors *selectors, uint32_t i, struct cel **ret_cel, struct error *err);
/* Frees the parsed selectors of the claim, which selectors_parse() parses again. */
void resource_claim_forget(struct resource_claim *claim);

/* Whether the drivers have made an allocated claim's devices ready for the pod's Binding. */
enum claim_binding { CLAIM_READY, CLAIM_NOT_READY, CLAIM_FAILED };
/*
 * before: an RFC 3339 time; allocations that are older and not ready have failed. NULL: none.
 * ret_device, ret_condition: of what is not ready or has failed, borrowed.
 */
enum claim_binding resource_claim_binding(const struct resource_claim *claim, const char *before,
	const char **ret_device, const char **ret_condition);

/* Whether the claim is reserved for anything else than the pod with that uid. */
bool resource_claim_is_used_by_others(const struct resource_claim *claim, const char *uid);

#endif
