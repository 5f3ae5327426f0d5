/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `kubectl divvy` and the general text of its help pages. */
#include "kubectl/kubectl-commands.h"
#include "kubectl/kubectl-text.h"

const struct cli_command *const cli_commands[] = {
#define X(name) &cmd_##name,
	KUBECTL_COMMANDS(X)
#undef X
		NULL,
};

static const char *const environment[][2] = {TEXT_KUBECTL_DIVVY_ENVIRONMENT, {NULL, NULL}};

const struct cli_program cli_program = {
	.name = "kubectl divvy",
	.page = "kubectl-divvy",
	.summary = "show and operate the shared GPUs of a cluster",
	.text = TEXT_KUBECTL_DIVVY_TEXT,
	.overview = "Shows and operates the shared GPUs of a cluster.",
	.examples = "kubectl divvy top --once",
	.exit_status = TEXT_KUBECTL_DIVVY_EXIT_STATUS,
	.environment = environment,
	.see_also = ",\n\\fBdivvy\\-scheduler\\fR(8),\n\\fBdivvyd\\fR(8)",
};
