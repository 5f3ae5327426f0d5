/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes the ResourceClaims of a pod, from API objects: whether each has devices, and why a node
 * has not prepared it. Pure. The caller owns each result; NULL: no memory.
 */
#ifndef KUBECTL_CLAIM_REPORT_H
#define KUBECTL_CLAIM_REPORT_H

#include <jansson.h>
#include <stdbool.h>

struct claim_facts {
	const json_t *claims;   /* ResourceClaims of the pod's namespace; NULL: not known */
	const json_t *slices;   /* all ResourceSlices; NULL: not known */
	const json_t *gpunodes; /* all GPUNodes; NULL: not known */
	const json_t *events;   /* Events about the pod; NULL: not known */
};

/*
 * Returns the claims of the pod: [{entry, claim, state, sentence, devices: [{device, node, driver,
 * consumed: {name: amount}}]}]. state: Missing, Pending (no devices yet), Deleting, Allocated,
 * Running (divvyd has made its tenants).
 */
json_t *claim_report(const struct claim_facts *facts, const json_t *pod);

/* Whether the pod has ResourceClaims. */
bool claim_report_has_claims(const json_t *pod);

/* Whether one of the pod's claims is the ResourceClaim with that name. */
bool claim_report_is_user(const json_t *pod, const char *claim);

/* Returns the row of one ResourceClaim, as claim_report() does for a pod's; pod NULL: no pod. */
json_t *claim_report_one(const struct claim_facts *facts, const json_t *pod, const json_t *claim);

#endif
