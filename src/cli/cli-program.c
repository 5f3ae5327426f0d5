/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file has divvy's table of commands, and the texts that its pages say about divvy as a whole.
 */
#include "cli/cli-text.h"
#include "cli/cli-commands.h"

const struct cli_command *const cli_commands[] = {
#define X(name) &cmd_##name,
	CLI_COMMANDS(X)
#undef X
		NULL,
};

static const char *const environment[][2] = {TEXT_DIVVY_ENVIRONMENT, {NULL, NULL}};

const struct cli_program cli_program = {
	.name = "divvy",
	.page = "divvy",
	.summary = "share GPUs in fractions",
	.text = TEXT_DIVVY_TEXT,
	.overview = "Shares GPUs in fractions: each program gets its share of time and memory, and "
		    "no more.",
	.examples = "divvy run --request 0.3 --memory 4Gi -- python3 train.py",
	.exit_status = TEXT_DIVVY_EXIT_STATUS,
	.environment = environment,
	.see_also = ",\n\\fBdivvyd\\fR(8),\n\\fBtenants.conf\\fR(5)",
};
