/* SPDX-License-Identifier: Apache-2.0 */
/* The man pages (roff), made of the tables. No dates in them: the same source, the same page. */
#include <errno.h>
#include <stdio.h>

#include "base/fd.h"
#include "cli/option.h"

#define MAN_MAX (256u << 10)

/*
 * roff's own characters: a backslash, a '-' that is meant as such, and '.' or ' at a line's start.
 */
static void add_escaped(struct buf *out, struct str text)
{
	bool is_start = true;

	for (size_t i = 0; i < text.n; i++) {
		const char c = text.p[i];

		if (is_start && (c == '.' || c == '\''))
			buf_add_text(out, "\\&");
		if (c == '\\')
			buf_add_text(out, "\\e");
		else if (c == '-')
			buf_add_text(out, "\\-");
		else
			buf_add_byte(out, c);
		is_start = c == '\n';
	}
}

static void add_text(struct buf *out, const char *text)
{
	add_escaped(out, str_from(text));
}

/* Paragraphs: an empty line in the text becomes .PP */
static void add_paragraphs(struct buf *out, const char *text)
{
	struct str rest = str_from(text), line;

	while (str_split(&rest, '\n', &line)) {
		if (line.n) {
			add_escaped(out, line);
			buf_add_byte(out, '\n');
		} else {
			buf_add_text(out, ".PP\n");
		}
	}
}

static void add_option(struct buf *out, const struct cli_option *o)
{
	buf_add_text(out, ".TP\n");
	if (o->letter)
		buf_addf(out, "\\fB\\-%c\\fR, ", o->letter);
	buf_add_text(out, "\\fB\\-\\-");
	add_text(out, o->name);
	buf_add_text(out, "\\fR");
	if (o->kind != CLI_FLAG) {
		buf_addf(out, "%s=\\fI", o->kind == CLI_MAYBE ? "[" : "");
		add_text(out, o->value);
		buf_addf(out, "\\fR%s", o->kind == CLI_MAYBE ? "]" : "");
	}
	buf_add_byte(out, '\n');
	add_text(out, o->help);
	buf_add_text(out, ".\n");
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
	for (size_t i = 0; i < ARRAY_SIZE(variable); i++) {
		buf_addf(out, ".TP\n.B %s\n", variable[i][0]);
		add_text(out, variable[i][1]);
		buf_add_text(out, ".\n");
	}
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
	buf_add_byte(out, '\n');
}

static void add_head(struct buf *out, const char *title, const char *name, const char *summary)
{
	buf_add_text(out,
		".\\\" Made by divvy --dump-man: change the command's table, not this file.\n");
	buf_addf(out, ".TH %s 1 \"\" \"divvy " DIVVY_VERSION "\" \"divvy\"\n", title);
	buf_addf(out, ".SH NAME\n%s \\- ", name);
	add_text(out, summary);
	buf_add_text(out, "\n.SH SYNOPSIS\n");
}

static void man_overview(struct buf *out)
{
	add_head(out, "DIVVY", "divvy", "share GPUs in fractions");
	buf_add_text(out, ".B divvy\n\\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.SH DESCRIPTION\n");
	add_paragraphs(out,
		"divvy shares GPUs in fractions. A tenant asks for a share of a GPU's time "
		"(request, guaranteed; limit, the most it may take when others leave time over) "
		"and an amount of its memory; programs run unchanged.\n\n"
		"The daemon divvyd starts on demand. Without a GPU it offers a simulated one, "
		"and everything printed about that says so.");
	buf_add_text(out, ".SH COMMANDS\n");
	for (size_t i = 0; cli_commands[i]; i++) {
		buf_addf(out, ".TP\n\\fBdivvy\\-%s\\fR(1)\n", cli_commands[i]->name);
		add_text(out, cli_commands[i]->summary);
		buf_add_text(out, ".\n");
	}
	buf_add_text(out,
		".SH EXIT STATUS\n0 on success, 1 on failure, 2 on bad usage; "
		"\\fBdivvy run\\fR has the program's own.\n");
	add_environment(out);
	add_see_also(out, NULL);
}

void cli_man(const struct cli_command *c, struct buf *out)
{
	char title[64], name[64];

	if (!c) {
		man_overview(out);
		return;
	}
	snprintf(title, sizeof(title), "DIVVY\\-%s", c->name);
	for (char *p = title; *p; p++)
		if (*p >= 'a' && *p <= 'z')
			*p = (char)(*p - 'a' + 'A');
	snprintf(name, sizeof(name), "divvy\\-%s", c->name);
	add_head(out, title, name, c->summary);
	buf_addf(
		out, ".B divvy %s\n%s", c->name, c->options[0].name ? "[\\fIOPTION\\fR...]\n" : "");
	add_text(out, c->operands);
	buf_add_text(out, "\n.SH DESCRIPTION\n");
	add_paragraphs(out, c->text);
	buf_add_text(out, ".SH OPTIONS\n");
	for (const struct cli_option *o = c->options; o->name; o++)
		add_option(out, o);
	add_option(out,
		&(struct cli_option){
			"help", 'h', CLI_FLAG, NULL, NULL, "show a short description and end"});
	buf_add_text(out, ".SH EXIT STATUS\n");
	add_paragraphs(out,
		c->exit_status ? c->exit_status : "0 on success, 1 on failure, 2 on bad usage.");
	if (c->examples) {
		buf_add_text(out, ".SH EXAMPLES\n.nf\n");
		add_text(out, c->examples);
		buf_add_text(out, "\n.fi\n");
	}
	add_environment(out);
	add_see_also(out, c);
}

static int dump_one(const char *folder, const struct cli_command *c, struct error *err)
{
	_cleanup_buf_ struct buf out = BUF_INIT(MAN_MAX);
	char path[4096];

	if (snprintf(path, sizeof(path), "%s/divvy%s%s.1", folder, c ? "-" : "",
		    c ? c->name : "") >= (int)sizeof(path))
		return fail(err, ENAMETOOLONG, "folder '%.60s...'", folder);
	cli_man(c, &out);
	if (buf_error(&out) < 0)
		return fail(err, -buf_error(&out), "man page of '%s'", c ? c->name : "divvy");
	return file_replace(path, buf_str(&out), 0644, err);
}

int cli_man_dump(const char *folder, struct error *err)
{
	int r = folder_make(folder, 0755, err);

	for (size_t i = 0; r >= 0 && cli_commands[i]; i++)
		r = dump_one(folder, cli_commands[i], err);
	return r < 0 ? r : dump_one(folder, NULL, err);
}
