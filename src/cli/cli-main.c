/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file starts divvy: cli_main() of src/cmdline finds the command in the table of cli-program.c
 * and runs it.
 */
#include "cli/cli-commands.h"

int main(int argc, char **argv)
{
	return cli_main(argc, argv);
}
