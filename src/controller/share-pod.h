/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SharePods, divvy's and KubeShare's: the pod of a SharePod, and the status that follows from that
 * pod. Pure. Any thread.
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

/* "divvy.gpu/v1" or "kubeshare.nthu/v1". */
const char *share_pod_api_version(enum share_pod_kind kind);

/* Whether the namespace's list has KubeShare's dialect. An invalid list has no dialect. */
bool share_pod_is_kubeshare_on(const char *dialects);

/*
 * Makes the pod, with the SharePod's name and the SharePod as controlling owner. -EINVAL: an
 * invalid request; -EEXIST: the template's keys contradict the spec. -ENOMEM.
 */
int share_pod_make(
	const json_t *share_pod, enum share_pod_kind kind, json_t **ret_pod, struct error *err);

/* The pod's name if another owner's pod has the SharePod's name; the same each time. -EINVAL. */
int share_pod_other_name(const json_t *share_pod, char ret[static SHARE_POD_NAME_MAX + 1]);

/* Whether the SharePod is the controlling owner of that pod. */
bool share_pod_owns(const json_t *share_pod, const json_t *pod);

/*
 * A merge patch that makes the pod's requested keys equal to the SharePod's; NULL: they are equal.
 * -ENOMEM.
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

/* The controller's input for a status. */
struct share_pod_facts {
	const json_t *pod;     /* NULL: there is none */
	const json_t *tenants; /* GPUNode.status.tenants of the pod's node; NULL: unknown */
	const char *measured;  /* MEASURED_KEY of that node's Lease; NULL: unknown */
	enum share_pod_verdict verdict;
	const char *trouble;     /* reason why PodCreated is false */
	const char *resize_text; /* why a change was not carried over to the pod */
	const char *message;     /* message for verdict or trouble */
	bool was_adopted;
	const char *dialects; /* the namespace's */
	uint64_t real_ns;
};

/* status.used, or status.got of a controller of the release before; NULL: none. Borrowed. */
const char *share_pod_used(const json_t *share_pod);

/*
 * The used share for people: "0.31", or "2x0.3" as the mean of two devices. The old text stays
 * while it differs by less than SHARE_POD_GOT_STEP.
 */
#define SHARE_POD_GOT_STEP 10u /* 1/1000 */
#define SHARE_POD_GOT_SIZE 16u
void share_pod_got(
	const char *was, const struct measured *measured, char ret[static SHARE_POD_GOT_SIZE]);

/* The whole status, owned by the caller; NULL: no memory. */
json_t *share_pod_status(
	const json_t *share_pod, enum share_pod_kind kind, const struct share_pod_facts *facts);

/*
 * A merge patch that turns the object's status into this one, with null for removed fields. NULL:
 * nothing differs, or no memory.
 */
json_t *share_pod_status_patch(const json_t *share_pod, const json_t *status);

#endif
