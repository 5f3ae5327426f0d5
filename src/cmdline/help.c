/* SPDX-License-Identifier: Apache-2.0 */
/* The help texts, for the terminal: made of the tables alone. */
#include <errno.h>
#include <stdio.h>

#include "cmdline/option.h"

#define HELP_COLUMN 30
#define HELP_WIDTH 96

/* "text" in lines of at most HELP_WIDTH, each but the first behind `indent` spaces. */
static void add_wrapped(struct buf *out, struct str text, int indent, int column)
{
	struct str word;

	while (str_word(&text, &word)) {
		if (column > indent && column + 1 + (int)word.n > HELP_WIDTH) {
			buf_addf(out, "\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			buf_add_byte(out, ' ');
			column++;
		}
		buf_add(out, word);
		column += (int)word.n;
	}
	buf_add_byte(out, '\n');
}

static void add_option(struct buf *out, const struct cli_option *o)
{
	char left[80], letter[8] = "    ";
	int n;

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	n = snprintf(left, sizeof(left), "  %s--%s%s%s%s", letter, o->name,
		o->kind == CLI_MAYBE           ? "[="
			: o->kind == CLI_VALUE ? "="
					       : "",
		o->kind == CLI_FLAG ? "" : o->value, o->kind == CLI_MAYBE ? "]" : "");
	buf_add_text(out, left);
	if (n >= HELP_COLUMN)
		buf_addf(out, "\n%*s", HELP_COLUMN, "");
	else
		buf_addf(out, "%*s", HELP_COLUMN - n, "");
	add_wrapped(out, str_from(o->help), HELP_COLUMN, HELP_COLUMN);
}

static void add_list(struct buf *out, const struct cli_list *list)
{
	buf_addf(out, "\n%s:\n", list->title);
	for (size_t i = 0; list->name(i); i++) {
		buf_addf(out, "  %-*s", HELP_COLUMN - 2, list->name(i));
		add_wrapped(out, str_from(list->about(i)), HELP_COLUMN, HELP_COLUMN);
	}
}

void cli_help(const struct cli_command *c, struct buf *out)
{
	buf_addf(out, "usage: %s %s%s%s%s\n\n", cli_program.name, c->name,
		c->options[0].name ? " [OPTION...]" : "", c->operands[0] ? " " : "", c->operands);
	buf_addf(out, "%s.\n\n", c->summary);
	for (const struct cli_option *o = c->options; o->name; o++)
		add_option(out, o);
	add_option(out, &(struct cli_option){"help", 'h', CLI_FLAG, NULL, NULL, "show this text"});
	if (c->list)
		add_list(out, c->list);
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
