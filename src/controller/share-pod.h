/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SharePods, divvy's and KubeShare's: makes the pod of a SharePod, and the status of the SharePod
 * from that pod. Pure. Any thread.
 */
#ifndef CONTROLLER_SHARE_POD_H
#define CONTROLLER_SHARE_POD_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "kube/kube-json.h"
#include "spec/measured.h"

#define SHARE_POD_NAME_MAX 253u
#define SHARE_POD_MESSAGE_MAX 512u

enum share_pod_kind { SHARE_POD_OURS, SHARE_POD_KUBESHARE, SHARE_POD_N_KINDS };

/* Returns "divvy.gpu/v1" or "kubeshare.nthu/v1". */
const char *share_pod_api_version(enum share_pod_kind kind);

/* Whether the namespace's list of dialects has KubeShare's. An invalid list counts as empty. */
bool share_pod_is_kubeshare_on(const char *dialects);

/*
 * Makes the pod, which has the SharePod's name and the SharePod as controlling owner. -EINVAL: the
 * request is invalid. -EEXIST: the template's keys contradict the spec. -ENOMEM.
 */
int share_pod_make(
	const json_t *share_pod, enum share_pod_kind kind, json_t **ret_pod, struct error *err);

/*
 * Returns the pod's name for the case that a pod of another owner has the SharePod's name. Each
 * call gives the same name. -EINVAL.
 */
int share_pod_other_name(const json_t *share_pod, char ret[static SHARE_POD_NAME_MAX + 1]);

/* Whether a pod's owner is a SharePod. owner: an entry of ownerReferences, or NULL. */
bool share_pod_is_owner(const json_t *owner);

/* Whether the SharePod is the controlling owner of that pod. */
bool share_pod_owns(const json_t *share_pod, const json_t *pod);

/*
 * Makes a merge patch that sets the pod's requested keys to those of the SharePod; *ret_patch is
 * NULL if they are equal. -ENOMEM.
 */
int share_pod_carry(
	const json_t *share_pod, enum share_pod_kind kind, const json_t *pod, json_t **ret_patch);

/* Whether a SharePod may have a pod. */
enum share_pod_verdict {
	SHARE_POD_ACCEPTED,
	SHARE_POD_INVALID_SPEC,
	SHARE_POD_TEMPLATE_CONFLICT,
	SHARE_POD_POLICY_DENIED,
	SHARE_POD_VERDICTS,
};
/* Reason of the condition Accepted, such as "PolicyDenied". */
const char *share_pod_verdict_name(enum share_pod_verdict verdict);

/* Input for the status of a SharePod. */
struct share_pod_facts {
	const json_t *pod; /* NULL: the pod does not exist */
	/* GPUNode.status.tenants of the node of the pod's devices; NULL: unknown */
	const json_t *tenants;
	const char *measured; /* annotation MEASURED_KEY of that node's Lease; NULL: unknown */
	enum share_pod_verdict verdict;
	const char *trouble;     /* reason why PodCreated is false */
	const char *resize_text; /* why changed requested keys could not be written to the pod */
	const char *message;     /* message for verdict or trouble */
	bool was_adopted;
	const char *dialects; /* list of dialects of the namespace */
	uint64_t real_ns;
};

/* Returns status.used, or status.got, its name in the previous release; NULL: none. Borrowed. */
const char *share_pod_used(const json_t *share_pod);

/*
 * Formats the used share: "0.31" for one device, "2x0.3" for a mean of 0.3 on two devices. The old
 * text `was` stays while the new value differs by less than SHARE_POD_GOT_STEP.
 */
#define SHARE_POD_GOT_STEP 10u /* 1/1000 */
#define SHARE_POD_GOT_SIZE 16u
void share_pod_got(
	const char *was, const struct measured *measured, char ret[static SHARE_POD_GOT_SIZE]);

/* Returns the complete status, owned by the caller; NULL: no memory. */
json_t *share_pod_status(
	const json_t *share_pod, enum share_pod_kind kind, const struct share_pod_facts *facts);

/*
 * Returns a merge patch that turns the SharePod's present status into `status`, with null for
 * removed fields. NULL: they are equal, or no memory.
 */
json_t *share_pod_status_patch(const json_t *share_pod, const json_t *status);

#endif
