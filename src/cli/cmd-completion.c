/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy completion` prints the script that completion.c makes from the tables of all commands.
 * cmd_completion_check() makes the script as well, so the name of an unknown shell is bad usage.
 */
#include "cli/cli-text.h"
#include "cli/cli-commands.h"
#include "cmdline/output.h"

static const struct option_row options[] = {{0}};

static int cmd_completion_check(const struct cli_args *args, struct error *err)
{
	_cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);

	return cli_completion(args->operand[0], &out, err);
}

static int cmd_completion_run(const struct cli_args *args, struct error *err)
{
	_cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);
	const int r = cli_completion(args->operand[0], &out, err);

	return r < 0 ? r : output_buf(&out, err);
}

const struct cli_command cmd_completion = {
	.name = "completion",
	.operands = "bash|zsh|fish",
	.summary = "Print the completion script of a shell",
	.text = TEXT_COMPLETION_TEXT,
	.examples = TEXT_COMPLETION_EXAMPLES,
	.options = options,
	.operand = CLI_SHELL_NAME,
	.operands_min = 1,
	.operands_max = 1,
	.check = cmd_completion_check,
	.run = cmd_completion_run,
};
