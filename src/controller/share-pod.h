/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SharePods, divvy's and KubeShare's: the pod that one asks for, and what its status says of that
 * pod. Pure. Any thread.
 */
#ifndef CONTROLLER_SHARE_POD_H
#define CONTROLLER_SHARE_POD_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "kube/json.h"
#include "spec/measured.h"

#define SHARE_POD_NAME_MAX 253u
#define SHARE_POD_MESSAGE_MAX 512u

enum share_pod_kind { SHARE_POD_OURS, SHARE_POD_KUBESHARE, SHARE_POD_N_KINDS };

/* "divvy.gpu/v1" and so on. */
const char *share_pod_api_version(enum share_pod_kind kind);

/* Is KubeShare's dialect among a namespace's? A list that is wrong has none. */
bool share_pod_is_kubeshare_on(const char *dialects);

/*
 * The pod, of the SharePod's own name, with it as its controlling owner. -EINVAL: what is asked
 * cannot be; -EEXIST: the template asks for something else than the spec.
 */
int share_pod_make(
	const json_t *share_pod, enum share_pod_kind kind, json_t **ret_pod, struct error *err);

/* The name for when somebody else's pod has that one: always the same for the same SharePod. */
int share_pod_other_name(const json_t *share_pod, char ret[static SHARE_POD_NAME_MAX + 1]);

/* Is it the controlling owner of that pod? */
bool share_pod_owns(const json_t *share_pod, const json_t *pod);

/*
 * A merge patch that makes the asked keys of a pod those of the SharePod; NULL: they are. -ENOMEM.
 */
int share_pod_carry(
	const json_t *share_pod, enum share_pod_kind kind, const json_t *pod, json_t **ret_patch);

/* Whether a SharePod can have a pod. */
enum share_pod_verdict {
	SHARE_POD_ACCEPTED,
	SHARE_POD_INVALID_SPEC,
	SHARE_POD_TEMPLATE_CONFLICT,
	SHARE_POD_POLICY_DENIED,
	SHARE_POD_VERDICTS,
};
/* "PolicyDenied": reason of the condition Accepted. */
const char *share_pod_verdict_name(enum share_pod_verdict verdict);

/* What the controller has come to know. */
struct share_pod_facts {
	const json_t *pod;     /* NULL: there is none */
	const json_t *tenants; /* GPUNode.status.tenants of the pod's node; NULL: not known */
	const char *measured;  /* MEASURED_KEY of that node's Lease; NULL: not known */
	enum share_pod_verdict verdict;
	const char *trouble; /* reason of PodCreated being false */
	const char *wish;    /* why a change is not carried over */
	const char *message; /* of whichever of these */
	bool was_adopted;
	const char *dialects; /* the namespace's */
	uint64_t real_ns;
};

/*
 * What it got, for people: "0.31", "2x0.3" as the mean of two devices. The text that it was stays
 * while it is within SHARE_POD_GOT_STEP of that.
 */
#define SHARE_POD_GOT_STEP 10u /* 1/1000 */
#define SHARE_POD_GOT_SIZE 16u
void share_pod_got(
	const char *was, const struct measured *measured, char ret[static SHARE_POD_GOT_SIZE]);

/* The whole status; NULL: no memory. */
json_t *share_pod_status(
	const json_t *share_pod, enum share_pod_kind kind, const struct share_pod_facts *facts);

/*
 * A merge patch that makes the object's status that one, null for what is no more; NULL: nothing
 * differs, or no memory.
 */
json_t *share_pod_status_patch(const json_t *share_pod, const json_t *status);

#endif
