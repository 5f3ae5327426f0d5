/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the API server of a kubeconfig for one kubectl-divvy command and waits for each answer.
 * access_explain_refusal() turns the error of an answer into a message, which names divvy's roles
 * if a right is missing. access_leases() returns an empty list if the server denies access: the
 * commands then print no measured values.
 */
#include "kubectl/kubectl-access.h"

#include <errno.h>
#include <stdio.h>

static const char *access_option(const struct cli_args *args, const char *name)
{
	for (const struct option_row *o = args->command->options; o->name; o++)
		if (!strcmp(o->name, name))
			return cli_get(args, name);
	return NULL;
}

int access_open(const struct cli_args *args, struct access *ret, struct error *err)
{
	/* The kubeconfig belongs to the user, who may disable certificate checks there. */
	const struct kube_config_source source = {.files = cli_get(args, "kubeconfig"),
		.context = cli_get(args, "context"),
		.is_insecure_allowed = true};
	struct access a = {.space = access_option(args, "namespace")};
	int r = kube_config_load(&source, &a.config, err);

	if (r == 0 && (cli_has(args, "as") || cli_has(args, "as-group")))
		r = kube_config_act_as(
			a.config, cli_get(args, "as"), cli_get(args, "as-group"), err);
	if (r == 0 && loop_new(&a.loop) < 0)
		r = fail(err, ENOMEM, "no event loop");
	r = r < 0 ? r : kube_client_new(a.loop, a.config, NULL, &a.client, err);
	if (r < 0) {
		access_close(&a);
		return r;
	}
	if (!a.space)
		a.space = a.config->namespace_name;
	if (!a.space || !a.space[0])
		a.space = "default";
	*ret = a;
	return 0;
}

void access_close(struct access *a)
{
	kube_discovery_free(a->discovery);
	kube_client_free(a->client);
	kube_config_free(a->config);
	loop_free(a->loop);
	*a = (struct access){.loop = NULL};
}

/* Turns the error of an answer into a message, with the roles that grant a missing right. */
static int access_explain_refusal(const struct kube_ask *ask, struct error *err)
{
	if (ask->is_right_missing)
		return fail(err, EPERM,
			"%.180s (the roles divvy-viewer and divvy-operator: docs/operating.md)",
			ask->error.msg);
	return fail(err, -ask->result, "%s", ask->error.msg);
}

int access_await(struct access *a, struct kube_ask *ask, json_t **ret, struct error *err)
{
	return kube_ask_wait(a->client, ask, ret, NULL) < 0 ? access_explain_refusal(ask, err) : 0;
}

static int access_take_answer(struct kube_ask *ask, json_t **ret, struct error *err)
{
	if (ask->result < 0)
		return access_explain_refusal(ask, err);
	*ret = TAKE_PTR(ask->json);
	return 0;
}

int access_get(
	struct access *a, const char *path, const char *query, json_t **ret, struct error *err)
{
	struct kube_ask ask;

	kube_ask_get(a->client, path, &(struct kube_question){.query = query}, &ask);
	return access_take_answer(&ask, ret, err);
}

int access_list(struct access *a, const struct kube_target *target, const char *query, json_t **ret,
	struct error *err)
{
	struct kube_ask ask;

	kube_ask_list(a->client, target, &(struct kube_question){.query = query}, &ask);
	return access_take_answer(&ask, ret, err);
}

static void access_on_discovered(void *data, int r, const struct error *err)
{
	struct kube_ask *answer = data;

	answer->is_done = true;
	answer->result = r;
	if (r < 0)
		answer->error = *err;
}

int access_discover(struct access *a, struct error *err)
{
	struct kube_ask answer = {.is_done = false};
	int r;

	if (a->discovery)
		return 0;
	r = kube_discovery_new(a->client, access_on_discovered, &answer, &a->discovery, err);
	r = r < 0 ? r : access_await(a, &answer, NULL, err);
	return r;
}

int access_gpunodes(struct access *a, json_t **ret, struct error *err)
{
	const struct kube_target target = {.group_version = "divvy.gpu/v1", .resource = "gpunodes"};
	const int r = access_list(a, &target, NULL, ret, err);

	return r == -ENOENT ? fail(err, ENOENT,
				      "the cluster of %s has no GPUNodes; install divvy with "
				      "kubectl apply -k deploy/",
				      a->config->where)
			    : r;
}

int access_pods(struct access *a, const char *space, json_t **ret, struct error *err)
{
	const struct kube_target target = {
		.group_version = "v1", .resource = "pods", .namespace_name = space};

	return access_list(a, &target, NULL, ret, err);
}

int access_leases(struct access *a, json_t **ret, struct error *err)
{
	const struct kube_target target = {.group_version = "coordination.k8s.io/v1",
		.resource = "leases",
		.namespace_name = "divvy-node-lease"};
	const int r = access_list(a, &target, NULL, ret, err);

	if (r != -EPERM)
		return r;
	*ret = json_array();
	return *ret ? 0 : fail(err, ENOMEM, "out of memory");
}
