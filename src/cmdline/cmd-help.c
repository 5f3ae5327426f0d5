/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command `help` prints the list of all commands, or the options of the command in its operand.
 * cmd_help_check() refuses an unknown command before `help` prints anything.
 */
#include <errno.h>

#include "cmdline/command.h"
#include "cmdline/output.h"

static const struct option_row options[] = {{0}};

static int cmd_help_check(const struct cli_args *args, struct error *err)
{
	if (args->n_operands && !cli_command_find(args->operand[0]))
		return cli_unknown_command(args->operand[0], err);
	return 0;
}

static int cmd_help_run(const struct cli_args *args, struct error *err)
{
	_cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);

	if (args->n_operands)
		cli_help(cli_command_find(args->operand[0]), &out);
	else
		cli_overview(&out);
	return output_buf(&out, err);
}

const struct cli_command cmd_help = {
	.name = "help",
	.operands = "[COMMAND]",
	.summary = "Show all commands, or the options of one command",
	.text = "Lists all commands, or the options of COMMAND.",
	.options = options,
	.operand = CLI_COMMAND_NAME,
	.operands_max = 1,
	.check = cmd_help_check,
	.run = cmd_help_run,
};
