/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides the webhook's answers. Input: an AdmissionReview, the dialects and policies of the
 * object's namespace, and the pod whose service account token the request used. Output: an
 * AdmissionReview. Pure: no I/O, no clock. Any thread.
 */
#ifndef CONTROLLER_ADMIT_H
#define CONTROLLER_ADMIT_H

#include "controller/own-account.h"
#include "controller/pod-translate.h"

#define ADMIT_UID_MAX 128u
#define ADMIT_WARNING_MAX 240u

/* Names of divvy's own parts. */
struct admit_rules {
	const char *scheduler_name; /* "divvy-scheduler": schedulerName for translated pods */
	const char *ns;             /* namespace of divvy's own accounts, "divvy-system" */
	const char *lease_ns;       /* "divvy-node-lease" */
};

enum admit_need {
	ADMIT_NEEDS_NOTHING,
	ADMIT_NEEDS_NAMESPACE, /* the dialects and policies of the object's namespace */
	ADMIT_NEEDS_POD,       /* the pod of the author's token, in rules->ns */
};

/* The fields of an AdmissionReview, borrowed from its JSON. */
struct admit_request {
	const char *uid, *operation, *user;
	const char *group, *resource, *subresource; /* "": none */
	const char *ns, *name;                      /* "": none */
	/* from the token of the author; "": not in the token */
	const char *pod_name, *pod_uid, *node_name;
	const json_t *object, *old; /* NULL: none */
};

struct admit_facts {
	struct pod_translate_facts ns;
	struct own_pod author; /* the pod that the author's token names, as the API server has it */
};

struct admit_path;

/* Returns the row for a URL path such as "/mutate/pods"; NULL: no such path. */
const struct admit_path *admit_path_find(const char *path);

/* -EBADMSG: not an AdmissionReview v1 with a request. */
int admit_parse(const json_t *review, struct admit_request *ret_request, struct error *err);

enum admit_need admit_needs(const struct admit_path *path, const struct admit_rules *rules,
	const struct admit_request *request);

/* Returns an AdmissionReview with the response, owned by the caller; NULL: no memory. */
json_t *admit_answer(const struct admit_path *path, const struct admit_rules *rules,
	const struct admit_request *request, const struct admit_facts *facts);

#endif
