/* SPDX-License-Identifier: Apache-2.0 */
/* The commands in the order of `kubectl divvy help`; the file of a command is kubectl-NAME.c. */
#ifndef KUBECTL_KUBECTL_COMMANDS_H
#define KUBECTL_KUBECTL_COMMANDS_H

#include "cmdline/command.h"

/* X(NAME): cmd_NAME is the command's table entry. */
#define KUBECTL_COMMANDS(X) \
	X(top) \
	X(ps) \
	X(why) \
	X(fit) \
	X(cordon_gpu) \
	X(uncordon_gpu) \
	X(clear_gpu) \
	X(drain_gpu) \
	X(defrag) \
	X(usage) \
	X(idle) \
	X(version) \
	X(help)

#define X(name) extern const struct cli_command cmd_##name;
KUBECTL_COMMANDS(X)
#undef X

/*
 * A further exit status besides 0, 1 and 2: `fit` answers no, or `drain-gpu` or `defrag` could not
 * do everything.
 */
#define KUBECTL_EXIT_NO 3

/*
 * Prints completions for the words that kubectl passes: one candidate a line, then a line with
 * ":4", or with ":0" if kubectl may also offer file names.
 */
void kubectl_complete(int argc, char **argv);

#endif
