/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file makes the help texts for the terminal from the command tables alone. HELP_COLUMN and
 * HELP_WIDTH give the layout. The functions keep no state.
 */
#include <errno.h>
#include <stdio.h>

#include "cmdline/command.h"

#define HELP_COLUMN 30
#define HELP_WIDTH 96

static void help_add_list(struct buf *out, const struct cli_list *list)
{
	buf_addf(out, "\n%s:\n", list->title);
	for (size_t i = 0; list->name(i); i++) {
		buf_addf(out, "  %-*s", HELP_COLUMN - 2, list->name(i));
		option_add_wrapped(out, str_from(list->about(i)), HELP_COLUMN, HELP_WIDTH);
	}
}

void cli_help(const struct cli_command *c, struct buf *out)
{
	static const struct option_layout layout = {
		.between = '=', .column = HELP_COLUMN, .width = HELP_WIDTH};

	buf_addf(out, "usage: %s %s%s%s%s\n\n", cli_program.name, c->name,
		c->options[0].name ? " [OPTION...]" : "", c->operands[0] ? " " : "", c->operands);
	buf_addf(out, "%s.\n\n", c->summary);
	option_add_help(out, &(struct option_table){c->options, cli_help_row}, &layout);
	if (c->list)
		help_add_list(out, c->list);
	if (c->examples) {
		struct str rest = str_from(c->examples), line;

		buf_add_text(out, "\nExamples:\n");
		while (str_split(&rest, '\n', &line))
			buf_addf(out, "  %.*s\n", STR_ARG(line));
	}
	buf_addf(out, "\nMore: man %s-%s\n", cli_program.page, c->name);
}

void cli_overview(struct buf *out)
{
	int width = 12;

	for (size_t i = 0; cli_commands[i]; i++)
		width = MAX(width, (int)strlen(cli_commands[i]->name) + 2);
	buf_addf(out, "usage: %s COMMAND [OPTION...]\n\n%s\n\n", cli_program.name,
		cli_program.overview);
	for (size_t i = 0; cli_commands[i]; i++)
		buf_addf(out, "  %-*s%s\n", width, cli_commands[i]->name, cli_commands[i]->summary);
	buf_addf(out, "\nTry:  %s\n      %s help %s\n", cli_program.examples, cli_program.name,
		cli_commands[0]->name);
}
