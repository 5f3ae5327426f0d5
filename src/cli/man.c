/* SPDX-License-Identifier: Apache-2.0 */
/* The man pages (roff), made of the tables. No dates in them: the same source, the same page. */
#include <errno.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/man.h"
#include "cli/option.h"

static void add_option(struct buf *out, const struct cli_option *o)
{
	man_add_option(out,
		&(struct man_option){.name = o->name,
			.letter = o->letter,
			.value = o->kind == CLI_FLAG ? NULL : o->value,
			.is_maybe = o->kind == CLI_MAYBE,
			.help = o->help});
}

static void add_environment(struct buf *out)
{
	static const char *const variable[][2] = {
		{"DIVVY_SOCKET",
			"the daemon's socket; else /run/divvy/divvyd.sock, else "
			"$XDG_RUNTIME_DIR/divvy/divvyd.sock, else /tmp/divvy-UID/divvyd.sock"},
		{"DIVVY_RUNTIME_DIR",
			"folder of the daemon's socket and state, for a daemon of one's own"},
		{"DIVVYD", "the daemon's program, where it is not beside divvy"},
		{"DIVVY_EXIT_IDLE",
			"how long a daemon that divvy has started stays when it has nothing to do, "
			"such as "
			"5m (default 30s)"},
		{"DIVVY_HOOKS",
			"the folder of libdivvy-cuda.so and libdivvy-nvml.so, where it is not the "
			"installed one"},
	};

	buf_add_text(out, ".SH ENVIRONMENT\n");
	for (size_t i = 0; i < ARRAY_SIZE(variable); i++)
		man_add_term(out, variable[i][0], variable[i][1]);
}

static void add_see_also(struct buf *out, const struct cli_command *self)
{
	const char *comma = "";

	buf_add_text(out, ".SH SEE ALSO\n");
	if (self) {
		buf_add_text(out, "\\fBdivvy\\fR(1)");
		comma = ", ";
	}
	for (size_t i = 0; cli_commands[i]; i++) {
		if (cli_commands[i] == self)
			continue;
		buf_addf(out, "%s\\fBdivvy\\-%s\\fR(1)", comma, cli_commands[i]->name);
		comma = ",\n";
	}
	if (!self)
		buf_add_text(out, ",\n\\fBdivvyd\\fR(8),\n\\fBtenants.conf\\fR(5)");
	buf_add_byte(out, '\n');
}

static void man_overview(struct buf *out)
{
	buf_add_text(out, ".B divvy\n\\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.SH DESCRIPTION\n");
	man_add_paragraphs(out,
		"divvy shares GPUs in fractions. A tenant asks for a share of a GPU's time "
		"(request, guaranteed; limit, the most it may take when others leave time over) "
		"and an amount of its memory; programs run unchanged.\n\n"
		"The daemon divvyd starts on demand. Without a GPU it offers a simulated one, "
		"and everything printed about that says so.");
	buf_add_text(out, ".SH COMMANDS\n");
	for (size_t i = 0; cli_commands[i]; i++) {
		buf_addf(out, ".TP\n\\fBdivvy\\-%s\\fR(1)\n", cli_commands[i]->name);
		man_add_text(out, cli_commands[i]->summary);
		buf_add_text(out, ".\n");
	}
	buf_add_text(out,
		".SH EXIT STATUS\n"
		"0 on success. 2 on bad usage: an unknown command or option, an operand or value "
		"that is missing, or one that no machine would take. 1 on any other failure: there "
		"is no daemon, it refuses, or what is named is not there. "
		"\\fBdivvy run\\fR has the program's own, and 125 for all of these.\n");
	add_environment(out);
	add_see_also(out, NULL);
}

/* `name` is room for the page's. */
static struct man_page page_of(const struct cli_command *c, char name[static 64])
{
	snprintf(name, 64, "divvy%s%s", c ? "-" : "", c ? c->name : "");
	return (struct man_page){.name = name,
		.section = 1,
		.summary = c ? c->summary : "share GPUs in fractions",
		.made_by = "divvy"};
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
	buf_addf(
		out, ".B divvy %s\n%s", c->name, c->options[0].name ? "[\\fIOPTION\\fR...]\n" : "");
	man_add_text(out, c->operands);
	buf_add_text(out, "\n.SH DESCRIPTION\n");
	man_add_paragraphs(out, c->text);
	buf_add_text(out, ".SH OPTIONS\n");
	for (const struct cli_option *o = c->options; o->name; o++)
		add_option(out, o);
	add_option(out,
		&(struct cli_option){
			"help", 'h', CLI_FLAG, NULL, NULL, "show a short description and end"});
	buf_add_text(out, ".SH EXIT STATUS\n");
	man_add_paragraphs(out,
		c->exit_status ? c->exit_status : "0 on success, 1 on failure, 2 on bad usage.");
	if (c->examples) {
		buf_add_text(out, ".SH EXAMPLES\n.nf\n");
		man_add_text(out, c->examples);
		buf_add_text(out, "\n.fi\n");
	}
	add_environment(out);
	add_see_also(out, c);
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
