/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a request comes from one of divvy's own accounts, and from which node: a daemon's token
 * names its pod, and the pod as the API has it names the node. What the request says of itself
 * counts for nothing. Pure; any thread.
 */
#ifndef CONTROLLER_OWN_H
#define CONTROLLER_OWN_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

/* Beside who has logged in, in an API server's words. */
#define OWN_POD_NAME "authentication.kubernetes.io/pod-name"
#define OWN_POD_UID "authentication.kubernetes.io/pod-uid"
#define OWN_NODE_NAME "authentication.kubernetes.io/node-name"

/* What the API server says of a token. Borrowed; "": it does not say it. */
struct own_token {
	const char *user;
	const char *pod_name, *pod_uid;
	const char *node_name; /* since Kubernetes 1.30 */
};

/* The pod of that name, as it is. NULL: there is none. */
struct own_pod {
	const char *uid, *node;
};

/* Borrows from the pod's object, which may be NULL. */
struct own_pod own_pod_of(const json_t *pod);

/* The first value of a key of `extra`; "": there is none. Borrowed. */
const char *own_extra(const json_t *extra, const char *key);

/* Is the user that service account of divvy's namespace? */
bool own_is_account(const char *ns, const char *user, const char *account);

/* The node that the token's pod runs on, borrowed from the pod. -EPERM with a sentence. */
int own_node(const struct own_token *token, const struct own_pod *pod, const char **ret_node,
	struct error *err);

#endif
