/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs `kubectl divvy version`: prints the versions of the plugin, the API server and each divvyd.
 * The command succeeds without a cluster or without GPUNodes and prints the reason instead.
 */
#include <stdio.h>

#include "cmdline/json-member.h"
#include "kubectl/kubectl-access.h"
#include "kubectl/kubectl-commands.h"
#include "kubectl/kubectl-text.h"

static const struct option_row options[] = {ACCESS_OPTIONS, {0}};

static int kubectl_version_run(const struct cli_args *args, struct error *err)
{
	_cleanup_access_ struct access a = {.loop = NULL};
	_cleanup_json_ json_t *version = NULL, *nodes = NULL;

	printf("kubectl-divvy %s\n", DIVVY_VERSION);
	if (access_open(args, &a, err) < 0 || access_get(&a, "/version", NULL, &version, err) < 0) {
		printf("no cluster: %s\n", err->msg);
		return 0;
	}
	printf("Kubernetes %s\n", json_text_or_empty(version, "gitVersion"));
	if (access_gpunodes(&a, &nodes, err) < 0) {
		puts(err->msg);
		return 0;
	}
	for (size_t i = 0; i < json_array_size(nodes); i++) {
		const json_t *node = json_array_get(nodes, i);
		const char *its = kube_json_text_at(node, "status", "versions", "divvyd", NULL);

		printf("%s: divvyd %s\n", kube_json_text_at(node, "metadata", "name", NULL),
			its ? its : "version unknown");
	}
	return 0;
}

const struct cli_command cmd_version = {
	.name = "version",
	.operands = "",
	.summary = "Show the versions of the plugin, the cluster and the nodes' daemons",
	.text = TEXT_VERSION_TEXT,
	.options = options,
	.run = kubectl_version_run,
};
