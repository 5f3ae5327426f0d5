/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of pods that request resources instead of a claim: `divvy.gpu/share: 500` with
 * `divvy.gpu/memory: 8Gi`. kube-scheduler turns an extended resource into that many devices, so it
 * cannot allocate a part. The webhook replaces both resources by a claim of a
 * ResourceClaimTemplate, whose name says share and memory, and the controller creates the template
 * that such a name describes. Pure; any thread.
 */
#ifndef CONTROLLER_CLAIM_TEMPLATE_H
#define CONTROLLER_CLAIM_TEMPLATE_H

#include "controller/pod-translate.h"

#define CLAIM_TEMPLATE_API "resource.k8s.io/v1"
#define CLAIM_TEMPLATE_PREFIX "divvy-share-"
#define CLAIM_TEMPLATE_LABEL "app.kubernetes.io/managed-by"
#define CLAIM_TEMPLATE_MAKER "divvy-controller"
#define CLAIM_TEMPLATE_NAME 64u /* bytes of a template's name, with the final 0 */
/*
 * Most entries of spec.resourceClaims in a pod whose shares become claims, before these come. The
 * API has no such limit, and names of claims are compared with each other.
 */
#define CLAIM_ENTRIES_MAX 256u
/* Entries that claim_template_next() looks at: a user's, and one of each container. */
#define CLAIM_ENTRIES_SEEN (CLAIM_ENTRIES_MAX + MANIFEST_CONTAINERS_MAX)

/* A container's request by resources: a share of one device, or whole devices. */
struct claim_share {
	uint32_t n_devices; /* 0: a share */
	uint32_t share_permille;
	uint64_t memory_mib; /* in whole blocks of device memory */
};

/*
 * Reads the resources of a container. Returns 1; 0 if it has none of the two; -EINVAL with a
 * message for the pod's author.
 */
int claim_share_read(
	const struct manifest *pod, uint32_t container, struct claim_share *ret, struct error *err);

/*
 * Reads the resource for whole devices, divvy.gpu/gpu. kube-scheduler makes claims of it itself;
 * divvy-scheduler does not, so pods of divvy-scheduler get a claim of a template. Returns as
 * claim_share_read().
 */
int claim_devices_read(
	const struct manifest *pod, uint32_t container, struct claim_share *ret, struct error *err);

/* "divvy-share-500-memory-8192mi", or "divvy-gpu-2" for whole devices. Returns ret. */
const char *claim_template_name(
	const struct claim_share *share, char ret[static CLAIM_TEMPLATE_NAME]);

/* Makes the template that the name describes; NULL: the name is another one, or no memory. */
json_t *claim_template_make(const char *name);

/*
 * The pod's next template, from index *at, whose claim Kubernetes has not made yet; advances *at.
 * Looks at the first CLAIM_ENTRIES_SEEN entries. NULL: none is left.
 */
const char *claim_template_next(const json_t *pod, size_t *at);

#endif
