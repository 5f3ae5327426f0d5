/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file decides by exact comparison of names. own_node() compares the pod's UID too, since a
 * later pod may have the name of the token's pod. Each mismatch has its own error message.
 */
#include "controller/own-account.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "kube/kube-json.h"

struct own_pod own_pod_of(const json_t *pod)
{
	return (struct own_pod){.uid = kube_json_text_at(pod, "metadata", "uid", NULL),
		.node = kube_json_text_at(pod, "spec", "nodeName", NULL)};
}

const char *own_extra(const json_t *extra, const char *key)
{
	const char *text = json_string_value(json_array_get(json_object_get(extra, key), 0));

	return text ? text : "";
}

bool own_is_account(const char *ns, const char *user, const char *account)
{
	struct str rest = str_from(user);

	return str_skip_prefix(&rest, STR("system:serviceaccount:")) &&
		str_skip_prefix(&rest, str_from(ns)) && str_skip_prefix(&rest, STR(":")) &&
		str_is(rest, account);
}

int own_node(const struct own_token *token, const struct own_pod *pod, const char **ret_node,
	struct error *err)
{
	if (!token->pod_name[0] || !token->pod_uid[0])
		return fail(err, EPERM,
			"the token of %.100s names no pod; use a token that is bound to divvyd's "
			"pod",
			token->user);
	if (!pod->uid || !pod->node)
		return fail(err, EPERM, "the token's pod '%.100s' does not exist", token->pod_name);
	if (strcmp(pod->uid, token->pod_uid))
		return fail(err, EPERM, "the token belongs to an earlier pod of the name '%.100s'",
			token->pod_name);
	if (token->node_name[0] && strcmp(token->node_name, pod->node))
		return fail(err, EPERM,
			"the token belongs to node '%.60s', but pod '%.80s' runs on node '%.60s'",
			token->node_name, token->pod_name, pod->node);
	*ret_node = pod->node;
	return 0;
}
