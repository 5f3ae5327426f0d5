/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A placement model (src/place) of the devices that ResourceClaims of divvy's driver can have. The
 * cluster's own model has the devices of nodes that divvy's device plugin serves; this one has the
 * units of the nodes' ResourceSlices, and a tenant for each claim with devices. It chooses node and
 * devices for claims that a placement policy understands: one request without alternatives. The
 * choice is a preference: src/claims decides which devices the claims can have. Pure; one thread.
 */
#ifndef SCHEDULER_CLAIM_MODEL_H
#define SCHEDULER_CLAIM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "spec/spec.h"

struct claim_model;
struct claims_search;
struct cluster;
struct cnode;
struct place_policy;

int claim_model_new(
	const struct place_policy *policy, struct claim_model **ret_model, struct error *err);
void claim_model_free(struct claim_model *model);

/* A pod with its search, and which nodes it may use. */
struct claim_model_params {
	struct claims_search *search;
	uint32_t cpu_milli;
	uint64_t memory_bytes;
	bool is_new; /* the policy has not seen the pod yet */
	bool (*may_use)(void *arg, const struct cnode *node);
	void *arg;
};

struct claim_model_choice {
	const struct cnode *node;
	char unit[SPEC_LABEL]; /* name of its counter set or device; "": any */
};

/*
 * Brings the model up to date with the cluster, and chooses. search NULL: a pod without claims,
 * whose CPU and memory should not be missing beside free devices; only for clusters where all
 * devices are handed out by claims. -EOPNOTSUPP: the policy does not understand the claims;
 * -ENOSPC: no node of the model fits; -ENOMEM.
 */
int claim_model_find(struct claim_model *model, struct cluster *cluster,
	const struct claim_model_params *params, struct claim_model_choice *ret_choice);

#endif
