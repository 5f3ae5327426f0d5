/* SPDX-License-Identifier: Apache-2.0 */
/* The commands in the order of `kubectl divvy help`; each has a file cmd-<name>.c. */
#ifndef KUBECTL_KUBECTL_COMMANDS_H
#define KUBECTL_KUBECTL_COMMANDS_H

#include "cmdline/command.h"

/* X(name in C) */
#define KUBECTL_COMMANDS(X) \
	X(top) \
	X(ps) \
	X(why) \
	X(fit) \
	X(cordon_gpu) \
	X(uncordon_gpu) \
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
 * Exit status besides 0, 1 and 2: the answer is no (fit), or not everything was done (drain-gpu,
 * defrag).
 */
#define KUBECTL_EXIT_NO 3

/*
 * Prints completions for the words that kubectl passes: one candidate a line, then ":4", or ":0"
 * for file names.
 */
void kubectl_complete(int argc, char **argv);

#endif
