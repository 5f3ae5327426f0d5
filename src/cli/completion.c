/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file makes completions for bash, zsh and fish from the tables of commands. The scripts get
 * the tenants from `divvy ps -q`.
 */
#include <errno.h>

#include "cmdline/command.h"

#define TENANTS "divvy ps -q 2>/dev/null"

static void add_commands(struct buf *out)
{
	for (size_t i = 0; cli_commands[i]; i++)
		buf_addf(out, "%s%s", i ? " " : "", cli_commands[i]->name);
}

/* Adds the options whose value is the next word; `between` separates them. */
static void add_valued(struct buf *out, const struct cli_command *c, const char *between)
{
	size_t n = 0;

	for (const struct option_row *o = c->options; o->name; o++) {
		if (!option_needs_value(o))
			continue;
		buf_addf(out, "%s--%s", n++ ? between : "", o->name);
		if (o->letter)
			buf_addf(out, "%s-%c", between, o->letter);
	}
}

/*
 * Finds the word where the program starts, and completes this word and all later words as a command
 * line of its own. Bash splits "--name=value" into three words.
 */
static void bash_program(struct buf *out, const struct cli_command *c)
{
	buf_add_text(out,
		"\t\tlocal i=2\n\t\twhile ((i < COMP_CWORD)); do\n"
		"\t\t\tcase ${COMP_WORDS[i]} in\n"
		"\t\t\t--) ((i++)); break ;;\n\t\t\t");
	add_valued(out, c, "|");
	buf_add_text(out,
		") [[ ${COMP_WORDS[i+1]} == = ]] && ((i++)); ((i += 2)) ;;\n"
		"\t\t\t-*) [[ ${COMP_WORDS[i+1]} == = ]] && ((i += 2)); ((i++)) ;;\n"
		"\t\t\t*) break ;;\n"
		"\t\t\tesac\n\t\tdone\n"
		"\t\tif ((i == COMP_CWORD)) && [[ $prev == -- || $cur != -* ]]; then\n"
		"\t\t\tCOMPREPLY=($(compgen -c -- \"$cur\"))\n\t\t\treturn\n"
		"\t\telif ((i < COMP_CWORD)); then\n"
		"\t\t\tif declare -F _command_offset >/dev/null; then _command_offset $i\n"
		"\t\t\telse COMPREPLY=($(compgen -f -- \"$cur\")); fi\n"
		"\t\t\treturn\n\t\tfi\n");
}

static void bash_command(struct buf *out, const struct cli_command *c)
{
	buf_addf(out, "\t%s)\n", c->name);
	if (c->operand == CLI_PROGRAM)
		bash_program(out, c);
	buf_add_text(out, "\t\tcase $prev in\n");
	for (const struct option_row *o = c->options; o->name; o++) {
		if (!option_needs_value(o))
			continue;
		buf_addf(out, "\t\t--%s", o->name);
		if (o->letter)
			buf_addf(out, "|-%c", o->letter);
		buf_add_text(out, ") ");
		if (o->choices)
			buf_addf(out, "COMPREPLY=($(compgen -W '%s' -- \"$cur\")); ", o->choices);
		else if (!strcmp(o->value, "FILE"))
			buf_add_text(out, "COMPREPLY=($(compgen -f -- \"$cur\")); ");
		buf_add_text(out, "return ;;\n");
	}
	buf_add_text(out, "\t\tesac\n\t\twords='--help");
	for (const struct option_row *o = c->options; o->name; o++)
		buf_addf(out, " --%s", o->name);
	buf_add_text(out, "'\n");
	if (c->operand == CLI_TENANT)
		buf_add_text(out, "\t\t[[ $cur == -* ]] || words=$(" TENANTS ")\n");
	else if (c->operand == CLI_COMMAND_NAME)
		buf_add_text(out, "\t\t[[ $cur == -* ]] || words=$commands\n");
	else if (c->operand == CLI_SHELL_NAME)
		buf_add_text(out, "\t\t[[ $cur == -* ]] || words='bash zsh fish'\n");
	buf_add_text(out, "\t\t;;\n");
}

static void completion_write_bash(struct buf *out)
{
	buf_add_text(out,
		"# bash completion of divvy; made by: divvy completion bash\n"
		"_divvy()\n{\n"
		"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
		"\tlocal words= commands='");
	add_commands(out);
	buf_add_text(out,
		"'\n\tCOMPREPLY=()\n"
		"\t[[ $cur == = ]] && cur=\n"
		"\t[[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}\n"
		"\tif ((COMP_CWORD == 1)); then\n"
		"\t\tCOMPREPLY=($(compgen -W \"$commands\" -- \"$cur\"))\n\t\treturn\n\tfi\n"
		"\tcase ${COMP_WORDS[1]} in\n");
	for (size_t i = 0; cli_commands[i]; i++)
		bash_command(out, cli_commands[i]);
	buf_add_text(out,
		"\tesac\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\n"
		"complete -o default -F _divvy divvy\n");
}

/* Adds text in single quotes. '[', ']' and ':' have a meaning for zsh's _arguments. */
static void add_quoted(struct buf *out, const char *text, const char *special)
{
	for (; *text; text++) {
		if (*text == '\'') {
			buf_add_text(out, "'\\''");
			continue;
		}
		if (strchr(special, *text))
			buf_add_byte(out, '\\');
		buf_add_byte(out, *text);
	}
}

static void zsh_option(struct buf *out, const struct option_row *o)
{
	buf_addf(out, "\t\t\t'--%s%s[", o->name, !o->value ? "" : o->is_maybe ? "=-" : "=");
	add_quoted(out, o->help, "[]:");
	buf_add_byte(out, ']');
	if (o->value) {
		buf_addf(out, ":%s:", o->value);
		if (o->choices)
			buf_addf(out, "(%s)", o->choices);
		else if (!strcmp(o->value, "FILE"))
			buf_add_text(out, "_files");
	}
	buf_add_text(out, "' \\\n");
}

static void completion_write_zsh(struct buf *out)
{
	buf_add_text(out,
		"#compdef divvy\n# zsh completion of divvy; made by: divvy completion zsh\n"
		"_divvy_tenants() { compadd ${(f)\"$(" TENANTS ")\"} }\n"
		"_divvy()\n{\n\tif ((CURRENT == 2)); then\n\t\tlocal -a commands=(\n");
	for (size_t i = 0; cli_commands[i]; i++) {
		buf_addf(out, "\t\t\t'%s:", cli_commands[i]->name);
		add_quoted(out, cli_commands[i]->summary, ":");
		buf_add_text(out, "'\n");
	}
	buf_add_text(out,
		"\t\t)\n\t\t_describe command commands\n\t\treturn\n\tfi\n"
		"\tlocal command=$words[2]\n\tshift words\n\t((CURRENT--))\n"
		"\tcase $command in\n");
	for (size_t i = 0; cli_commands[i]; i++) {
		const struct cli_command *c = cli_commands[i];

		buf_addf(out, "\t%s)\n\t\t_arguments -S \\\n", c->name);
		for (const struct option_row *o = c->options; o->name; o++)
			zsh_option(out, o);
		if (c->operand == CLI_TENANT)
			buf_add_text(out, "\t\t\t':tenant:_divvy_tenants' \\\n");
		else if (c->operand == CLI_PROGRAM)
			buf_add_text(out,
				"\t\t\t'(-)1:command:_command_names -e' '*::argument:_normal' "
				"\\\n");
		else if (c->operand == CLI_SHELL_NAME)
			buf_add_text(out, "\t\t\t':shell:(bash zsh fish)' \\\n");
		buf_add_text(out, "\t\t\t'--help[show a short description]'\n\t\t;;\n");
	}
	buf_add_text(out, "\tesac\n}\n_divvy \"$@\"\n");
}

/*
 * Fish completes the words behind `divvy run` as a command line. The call names the options that
 * take the next word as their value.
 */
static void fish_program(struct buf *out, const struct cli_command *c)
{
	buf_addf(out,
		"complete -c divvy -n '__fish_seen_subcommand_from %s' "
		"-a '(__fish_complete_subcommand --fcs-skip=2 ",
		c->name);
	add_valued(out, c, " ");
	buf_add_text(out, ")'\n");
}

static void fish_command(struct buf *out, const struct cli_command *c)
{
	for (const struct option_row *o = c->options; o->name; o++) {
		buf_addf(out, "complete -c divvy -n '__fish_seen_subcommand_from %s' -l %s",
			c->name, o->name);
		if (o->letter)
			buf_addf(out, " -s %c", o->letter);
		if (option_needs_value(o))
			buf_add_text(out, " -r");
		if (o->choices)
			buf_addf(out, " -a '%s'", o->choices);
		buf_add_text(out, " -d '");
		add_quoted(out, o->help, "");
		buf_add_text(out, "'\n");
	}
	if (c->operand == CLI_TENANT)
		buf_addf(out,
			"complete -c divvy -f -n '__fish_seen_subcommand_from %s' -a '(" TENANTS
			")'\n",
			c->name);
	else if (c->operand == CLI_PROGRAM)
		fish_program(out, c);
	else if (c->operand == CLI_SHELL_NAME)
		buf_addf(out,
			"complete -c divvy -f -n '__fish_seen_subcommand_from %s' -a 'bash zsh "
			"fish'\n",
			c->name);
}

static void completion_write_fish(struct buf *out)
{
	buf_add_text(out,
		"# fish completion of divvy; made by: divvy completion fish\n"
		"complete -c divvy -n __fish_use_subcommand -f\n");
	for (size_t i = 0; cli_commands[i]; i++) {
		buf_addf(out, "complete -c divvy -n __fish_use_subcommand -f -a %s -d '",
			cli_commands[i]->name);
		add_quoted(out, cli_commands[i]->summary, "");
		buf_add_text(out, "'\n");
	}
	for (size_t i = 0; cli_commands[i]; i++)
		fish_command(out, cli_commands[i]);
}

int cli_completion(const char *shell, struct buf *out, struct error *err)
{
	static const struct {
		const char *name;
		void (*make)(struct buf *out);
	} shells[] = {{"bash", completion_write_bash}, {"zsh", completion_write_zsh},
		{"fish", completion_write_fish}};

	for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
		if (strcmp(shells[i].name, shell) == 0) {
			shells[i].make(out);
			return buf_error(out);
		}
	}
	return fail(err, EINVAL,
		"shell '%s': no completion for this shell; expected bash, zsh or fish", shell);
}
