/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file makes the man pages (roff) from the command tables. Pages have no date, so the same
 * source makes the same page. The functions keep no state.
 */
#include <errno.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/man.h"
#include "cmdline/command.h"

static const struct option_row help_row[] = {
	{"help", NULL, "print a short help and exit", .letter = 'h'},
	{0},
};

static void man_add_list(struct buf *out, const struct cli_list *list)
{
	buf_addf(out, ".SS %s\n", list->title);
	for (size_t i = 0; list->name(i); i++)
		man_add_term(out, list->name(i), list->about(i));
}

static void add_environment(struct buf *out)
{
	buf_add_text(out, ".SH ENVIRONMENT\n");
	for (size_t i = 0; cli_program.environment[i][0]; i++)
		man_add_term(out, cli_program.environment[i][0], cli_program.environment[i][1]);
}

/* Adds a reference such as "divvy-run(1)". */
static void add_page(struct buf *out, const char *before, const struct cli_command *c)
{
	buf_addf(out, "%s\\fB", before);
	man_add_text(out, cli_program.page);
	buf_addf(out, "\\-%s\\fR(1)", c->name);
}

static void man_add_see_also(struct buf *out, const struct cli_command *self)
{
	const char *comma = "";

	buf_add_text(out, ".SH SEE ALSO\n");
	if (self) {
		buf_add_text(out, "\\fB");
		man_add_text(out, cli_program.page);
		buf_add_text(out, "\\fR(1)");
		comma = ", ";
	}
	for (size_t i = 0; cli_commands[i]; i++) {
		if (cli_commands[i] == self)
			continue;
		add_page(out, comma, cli_commands[i]);
		comma = ",\n";
	}
	if (!self)
		buf_add_text(out, cli_program.see_also);
	buf_add_byte(out, '\n');
}

static void man_overview(struct buf *out)
{
	buf_addf(out, ".B %s\n\\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.SH DESCRIPTION\n",
		cli_program.name);
	man_add_paragraphs(out, cli_program.text);
	buf_add_text(out, ".SH COMMANDS\n");
	for (size_t i = 0; cli_commands[i]; i++) {
		add_page(out, ".TP\n", cli_commands[i]);
		buf_add_byte(out, '\n');
		man_add_text(out, cli_commands[i]->summary);
		buf_add_text(out, ".\n");
	}
	buf_addf(out, ".SH EXIT STATUS\n%s\n", cli_program.exit_status);
	add_environment(out);
	man_add_see_also(out, NULL);
}

/* `name` receives the page's name. */
static struct man_page page_of(const struct cli_command *c, char name[static 64])
{
	snprintf(name, 64, "%s%s%s", cli_program.page, c ? "-" : "", c ? c->name : "");
	return (struct man_page){.name = name,
		.section = 1,
		.summary = c ? c->summary : cli_program.summary,
		.made_by = cli_program.page};
}

void cli_man(const struct cli_command *c, struct buf *out)
{
	char name[64];
	struct man_page page = page_of(c, name);

	man_add_head(out, &page);
	if (!c) {
		man_overview(out);
		return;
	}
	buf_addf(out, ".B %s %s\n%s", cli_program.name, c->name,
		c->options[0].name ? "[\\fIOPTION\\fR...]\n" : "");
	man_add_text(out, c->operands);
	buf_add_text(out, "\n.SH DESCRIPTION\n");
	man_add_paragraphs(out, c->text);
	buf_add_text(out, ".SH OPTIONS\n");
	option_add_man(out, &(struct option_table){c->options, help_row});
	if (c->list)
		man_add_list(out, c->list);
	buf_add_text(out, ".SH EXIT STATUS\n");
	man_add_paragraphs(out,
		c->exit_status ? c->exit_status : "0 on success, 1 on failure, 2 on wrong usage.");
	if (c->examples) {
		buf_add_text(out, ".SH EXAMPLES\n.nf\n");
		man_add_text(out, c->examples);
		buf_add_text(out, "\n.fi\n");
	}
	add_environment(out);
	man_add_see_also(out, c);
}

static int dump_one(const char *folder, const struct cli_command *c, struct error *err)
{
	_cleanup_buf_ struct buf out = BUF_INIT(MAN_MAX);
	char name[64];
	struct man_page page = page_of(c, name);

	cli_man(c, &out);
	return man_write(folder, &page, &out, err);
}

int cli_man_dump(const char *folder, struct error *err)
{
	int r = folder_make(folder, 0755, err);

	for (size_t i = 0; r >= 0 && cli_commands[i]; i++)
		r = dump_one(folder, cli_commands[i], err);
	return r < 0 ? r : dump_one(folder, NULL, err);
}
