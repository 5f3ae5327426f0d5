/* SPDX-License-Identifier: Apache-2.0 */
/* kubectl divvy: its commands, and what its pages say of it as a whole. */
#include "kubectl/commands.h"

const struct cli_command *const cli_commands[] = {
#define X(name) &cmd_##name,
	KUBECTL_COMMANDS(X)
#undef X
		NULL,
};

static const char *const environment[][2] = {
	{"KUBECONFIG",
		"the kubeconfig, or several with colons; else ~/.kube/config, or what a pod "
		"finds in itself"},
	{NULL, NULL},
};

const struct cli_program cli_program = {
	.name = "kubectl divvy",
	.page = "kubectl-divvy",
	.summary = "look after the GPUs that a cluster shares",
	.text = "A plugin of kubectl, which finds it in PATH. It shows what the devices of a "
		"cluster are given to and what comes of it, says why a pod waits and whether one "
		"would fit, and takes devices out of service.\n\n"
		"What it needs to read is in the cluster role divvy-viewer, what it needs to do in "
		"divvy-operator. kubectl wants options behind the plugin's name: kubectl divvy ps "
		"-n team-a, or kubectl divvy -n team-a ps.",
	.overview = "Looks after the GPUs that a cluster shares.",
	.examples = "kubectl divvy top --once",
	.exit_status =
		"0 on success. 1 on failure: the cluster cannot be reached, it refuses, or what is "
		"named is not there. 2 on bad usage: an unknown command or option, or a value that "
		"cannot be right. 3 when all went well and the answer is no: a pod would not run "
		"now "
		"(fit), or some pods are still there (drain\\-gpu, defrag).\n",
	.environment = environment,
	.see_also = ",\n\\fBdivvy\\-scheduler\\fR(8),\n\\fBdivvyd\\fR(8)",
};
