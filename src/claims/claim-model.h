/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A placement model (src/place) of the devices that ResourceClaims of the packed driver can have.
 * The scheduler's own model has the devices of nodes that divvy's device plugin serves; this one
 * has the units of the nodes' ResourceSlices, and a tenant for each claim with devices. It chooses
 * node and device for claims that a placement policy understands: one request without alternatives.
 * The choice is a preference: the search decides which devices the claims can have. Pure; one
 * thread.
 */
#ifndef CLAIMS_CLAIM_MODEL_H
#define CLAIMS_CLAIM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "spec/spec.h"

struct claim_model;
struct claims;
struct claims_search;
struct place_policy;
struct view;

int claim_model_new(
	const struct place_policy *policy, struct claim_model **ret_model, struct error *err);
void claim_model_free(struct claim_model *model);

/* A pod with its search, and which nodes it may use. */
struct claim_model_params {
	struct claims *claims;
	const struct view *view;
	struct claims_search *search; /* NULL: the pod has no claims */
	uint32_t cpu_milli;
	uint64_t memory_bytes;
	bool is_new; /* the policy has not seen the pod yet */
	bool (*may_use)(void *arg, const char *node);
	void *arg;
};

struct claim_model_choice {
	const char *node;      /* valid until the next choice */
	char unit[SPEC_LABEL]; /* name of its counter set or device; "": any */
};

/*
 * Brings the model up to date with nodes, pods and claims, and chooses. For a pod without claims
 * the policy keeps CPU and memory beside free devices; that makes sense where all devices are
 * handed out by claims. -EOPNOTSUPP: the policy does not understand the claims, or no node has
 * devices; -ENOSPC: no node of the model fits; -ENOMEM.
 */
int claim_model_find(struct claim_model *model, const struct claim_model_params *params,
	struct claim_model_choice *ret_choice);

#endif
