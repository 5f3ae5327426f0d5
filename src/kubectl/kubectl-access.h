/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocking requests to the API server of a kubeconfig, one at a time, through the client of
 * src/kube. If the server refuses a request, the error message gives the next step. One thread.
 */
#ifndef KUBECTL_KUBECTL_ACCESS_H
#define KUBECTL_KUBECTL_ACCESS_H

#include "cmdline/command.h"
#include "kube/ask.h"
#include "kube/discovery.h"

#define ACCESS_OPTIONS \
	{"kubeconfig", "FILE", \
		"how to reach the cluster (default $KUBECONFIG, or ~/.kube/config)"}, \
		{"context", "NAME", \
			"the context of the kubeconfig to use, instead of the current one"}, \
		{"as", "USER", \
			"ask as this user, whom you may act as; to see what somebody sees"}, \
	{ \
		"as-group", "GROUP,...", "and as one of these groups" \
	}
#define ACCESS_NAMESPACE_OPTION \
	{ \
		"namespace", "NAMESPACE", "instead of the context's (default 'default')", \
			.letter = 'n' \
	}

struct access {
	struct loop *loop;
	struct kube_config *config;
	struct kube_client *client;
	struct kube_discovery *discovery; /* NULL before access_discover() */
	/* namespace: --namespace, or the context's, or "default" */
	const char *space;
};

/* Reads the kubeconfig; sends no request. */
int access_open(const struct cli_args *args, struct access *ret_access, struct error *err);
void access_close(struct access *access);
#define _cleanup_access_ _cleanup_(access_close)

/*
 * Waits for an answer like kube_ask_wait(). If a right is missing, the message names the roles that
 * grant the right.
 */
int access_await(struct access *access, struct kube_ask *ask, json_t **ret_json, struct error *err);

/* Gets one object or list; query NULL: none. */
int access_get(struct access *access, const char *path, const char *query, json_t **ret_json,
	struct error *err);

/* Gets all items of a resource, page by page. target->name is NULL. */
int access_list(struct access *access, const struct kube_target *target, const char *query,
	json_t **ret_items, struct error *err);

/* Reads which resources the server has, for kube_discovery_find(). A further call does nothing. */
int access_discover(struct access *access, struct error *err);

/* Gets all GPUNodes. -ENOENT: the server has no GPUNodes, so divvy is not installed. */
int access_gpunodes(struct access *access, json_t **ret_items, struct error *err);
/* Gets the Leases of the nodes' divvyd; an empty list if the user may not list them. */
int access_leases(struct access *access, json_t **ret_items, struct error *err);
/* Gets the pods of a namespace; space NULL: of all namespaces. */
int access_pods(struct access *access, const char *space, json_t **ret_items, struct error *err);

#endif
