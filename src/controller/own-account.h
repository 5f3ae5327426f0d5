/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out whether a request comes from one of divvy's service accounts, and from which node. A
 * daemon's token names the daemon's pod, and that pod's object names the node. Claims of the
 * request itself are ignored. Pure; any thread.
 */
#ifndef CONTROLLER_OWN_ACCOUNT_H
#define CONTROLLER_OWN_ACCOUNT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

/* Keys of userInfo.extra, as API servers write them. */
#define OWN_POD_NAME "authentication.kubernetes.io/pod-name"
#define OWN_POD_UID "authentication.kubernetes.io/pod-uid"
#define OWN_NODE_NAME "authentication.kubernetes.io/node-name"

/* The API server's data about the token of a request. Borrowed; "": absent. */
struct own_token {
	const char *user;
	const char *pod_name, *pod_uid;
	const char *node_name; /* in tokens since Kubernetes 1.30 */
};

/* Fields of the pod that the token names, as it is now. NULL: no such pod. */
struct own_pod {
	const char *uid, *node;
};

/* Reads the fields, borrowed from the pod's object, which may be NULL. */
struct own_pod own_pod_of(const json_t *pod);

/* Returns the first value of the key in userInfo.extra, borrowed; "": no value. */
const char *own_extra(const json_t *extra, const char *key);

/* Whether the user is the service account `account` in namespace `ns`. */
bool own_is_account(const char *ns, const char *user, const char *account);

/*
 * Sets *ret_node to the node of the token's pod, borrowed from `pod`. -EPERM with a message: the
 * token names no pod, or another one.
 */
int own_node(const struct own_token *token, const struct own_pod *pod, const char **ret_node,
	struct error *err);

#endif
