/* SPDX-License-Identifier: Apache-2.0 */
/* The list of commands in the order of `divvy help`; the file of each is cmd-<name>.c. */
#ifndef CLI_CLI_COMMANDS_H
#define CLI_CLI_COMMANDS_H

#include "cmdline/command.h"

#define CLI_COMMANDS(X) \
	X(run) \
	X(serve) \
	X(ps) \
	X(top) \
	X(set) \
	X(remove) \
	X(why) \
	X(devices) \
	X(report) \
	X(plot) \
	X(sim) \
	X(apply) \
	X(doctor) \
	X(completion) \
	X(version) \
	X(help)

#define X(name) extern const struct cli_command cmd_##name;
CLI_COMMANDS(X)
#undef X

/* Runs cmd_run under the name of another command, which its messages then use. */
int cmd_run_called(const char *name, const struct cli_args *args, struct error *err);

#endif
