/* SPDX-License-Identifier: Apache-2.0 */
/* divvy: its commands, and what its pages say of it as a whole. */
#include "cli/commands.h"

const struct cli_command *const cli_commands[] = {
#define X(name) &cmd_##name,
	CLI_COMMANDS(X)
#undef X
		NULL,
};

static const char *const environment[][2] = {
	{"DIVVY_SOCKET",
		"the daemon's socket; else /run/divvy/divvyd.sock, else "
		"$XDG_RUNTIME_DIR/divvy/divvyd.sock, else /tmp/divvy-UID/divvyd.sock"},
	{"DIVVY_RUNTIME_DIR", "folder of the daemon's socket and state, for a daemon of one's own"},
	{"DIVVYD", "the daemon's program, where it is not beside divvy"},
	{"DIVVY_EXIT_IDLE",
		"how long a daemon that divvy has started stays when it has nothing to do, "
		"such as "
		"5m (default 30s)"},
	{"DIVVY_HOOKS",
		"the folder of libdivvy-cuda.so and libdivvy-nvml.so, where it is not the "
		"installed one"},
	{NULL, NULL},
};

const struct cli_program cli_program = {
	.name = "divvy",
	.page = "divvy",
	.summary = "share GPUs in fractions",
	.text = "divvy shares GPUs in fractions. A tenant asks for a share of a GPU's time "
		"(request, guaranteed; limit, the most it may take when others leave time over) "
		"and an amount of its memory; programs run unchanged.\n\n"
		"The daemon divvyd starts on demand. Without a GPU it offers a simulated one, "
		"and everything printed about that says so.",
	.overview = "Shares GPUs in fractions: each program is held to its share and its memory.",
	.examples = "divvy run --request 0.3 --memory 4Gi -- python3 train.py",
	.exit_status =
		"0 on success. 2 on bad usage: an unknown command or option, an operand or value "
		"that is missing, or one that no machine would take. 1 on any other failure: there "
		"is no daemon, it refuses, or what is named is not there. "
		"\\fBdivvy run\\fR has the program's own, and 125 for all of these.\n",
	.environment = environment,
	.see_also = ",\n\\fBdivvyd\\fR(8),\n\\fBtenants.conf\\fR(5)",
};
