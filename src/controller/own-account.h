/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a request comes from one of divvy's own accounts, and from which node. A daemon's token
 * names its pod, and the pod in the API names the node. The request's own claims are ignored. Pure;
 * any thread.
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

/* The API server's data about a token. Borrowed; "": absent. */
struct own_token {
	const char *user;
	const char *pod_name, *pod_uid;
	const char *node_name; /* since Kubernetes 1.30 */
};

/* The present pod of that name. NULL: there is none. */
struct own_pod {
	const char *uid, *node;
};

/* Borrows from the pod's object, which may be NULL. */
struct own_pod own_pod_of(const json_t *pod);

/* The first value of a key of `extra`, borrowed; "": there is none. */
const char *own_extra(const json_t *extra, const char *key);

/* Whether the user is that service account in namespace `ns`. */
bool own_is_account(const char *ns, const char *user, const char *account);

/* The node of the token's pod, borrowed from the pod. -EPERM with a message. */
int own_node(const struct own_token *token, const struct own_pod *pod, const char **ret_node,
	struct error *err);

#endif
