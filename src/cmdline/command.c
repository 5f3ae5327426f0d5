/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file parses the words behind a command's name, reads option values by name, and suggests
 * known names for misspelled ones. cli_parse() stores a value at the place of its option in the
 * command's table, so cli_get() searches the table and not argv. Each option of that table may be
 * given once. With --help, cli_parse() accepts any number of operands. cli_suggest() picks the name
 * with the smallest edit distance; a cut word or two swapped neighbours count as one edit.
 */
#include "cmdline/command.h"

#include <assert.h>
#include <errno.h>

#include "base/format.h"
#include "base/parse.h"

#define WORD_MAX 40u

/* "rnu" for "run": two neighbouring letters are swapped, a common typing error. */
static bool is_swapped(const char *word, const char *name)
{
	const size_t n = strlen(name);
	size_t at = 0;

	while (word[at] && word[at] == name[at])
		at++;
	return strlen(word) == n && at + 1 < n && word[at] == name[at + 1] &&
		word[at + 1] == name[at] && !strcmp(word + at + 2, name + at + 2);
}

const char *cli_suggest(
	const char *word, const char *(*next)(const void *names, size_t i), const void *names)
{
	const char *best = NULL;
	size_t best_distance = strlen(word) < 4 ? 2 : 3; /* a name has to be nearer than this */

	for (size_t i = 0;; i++) {
		const char *name = next(names, i);
		size_t distance;

		if (!name)
			return best;
		distance = str_distance(str_from(word), str_from(name));
		/* A prefix ("dev" for "devices") is near, too. */
		if ((strlen(word) >= 3 && !strncmp(word, name, strlen(word))) ||
			is_swapped(word, name))
			distance = MIN(distance, (size_t)1);
		if (distance < best_distance) {
			best_distance = distance;
			best = name;
		}
	}
}

static const char *next_option(const void *names, size_t i)
{
	const struct option_row *options = names;

	return options[i].name;
}

static int unknown_option(
	const struct cli_command *command, const struct option_scan *scan, struct error *err)
{
	char word[WORD_MAX + 1];
	const char *near = NULL;

	if (!scan->is_letter && str_copy(word, sizeof(word), scan->name) == 0)
		near = cli_suggest(word, next_option, command->options);
	if (near)
		return fail(err, EINVAL, "unknown option '--%.*s'; did you mean '--%s'?",
			STR_ARG(scan->name), near);
	return fail(err, EINVAL, "unknown option '-%s%.*s'; '%s %s --help' lists the options",
		scan->is_letter ? "" : "-", STR_ARG(scan->name), cli_program.name, command->name);
}

const struct option_row cli_help_row[] = {
	{"help", NULL, "print this help", .letter = 'h'},
	{0},
};

static struct option_scan scan_begin(const struct cli_command *command, int argc, char **argv)
{
	return (struct option_scan){
		.table = {command->options, cli_help_row}, .argc = argc, .argv = argv};
}

static int command_set_option(struct cli_args *args, const struct option_row *option,
	const char *value, struct error *err)
{
	const char **at = &args->value[option - args->command->options];
	int r;

	if (*at)
		return fail(err, EINVAL, "--%s occurs twice; keep one", option->name);
	r = value ? option_check(option, value, err) : 0;
	if (r < 0)
		return r;
	*at = value ? value : "";
	return 0;
}

static int command_fail_value(const struct option_scan *scan, const char *fault, struct error *err)
{
	const struct option_row *row = scan->row;

	if (scan->is_letter)
		return fail(err, EINVAL, "-%c %s; write -%c %s", row->letter, fault, row->letter,
			row->value);
	return fail(err, EINVAL, "--%s %s; write --%s=%s", row->name, fault, row->name, row->value);
}

static int command_take_event(
	struct cli_args *args, struct option_scan *scan, enum option_event event, struct error *err)
{
	/* --help takes effect whatever else is given. */
	if (scan->row == cli_help_row) {
		args->help = true;
		scan->letters = NULL;
		return 0;
	}
	switch (event) {
	case OPTION_UNKNOWN: return unknown_option(args->command, scan, err);
	case OPTION_NO_VALUE: return command_fail_value(scan, "needs a value", err);
	case OPTION_EMPTY_VALUE: return command_fail_value(scan, "has an empty value", err);
	case OPTION_EXTRA_VALUE:
		return fail(err, EINVAL, "--%s takes no value; remove '%s'", scan->row->name,
			scan->value);
	default: return command_set_option(args, scan->row, scan->value, err);
	}
}

/* Returns the name of required operand n: "COMMAND" of "[--] COMMAND [ARG...]". */
static struct str operand_name(const struct cli_command *c, int n)
{
	struct str rest = str_from(c->operands), word;

	while (str_word(&rest, &word))
		if (word.p[0] != '[' && n-- == 0)
			return word;
	return str_from(c->operands);
}

static int check_operands(const struct cli_args *args, struct error *err)
{
	const struct cli_command *c = args->command;

	if (args->n_operands < c->operands_min)
		return fail(err, EINVAL, "%.*s is missing; usage: %s %s %s",
			STR_ARG(operand_name(c, args->n_operands)), cli_program.name, c->name,
			c->operands);
	if (c->operands_max >= 0 && args->n_operands > c->operands_max)
		return fail(err, EINVAL, "unexpected argument '%s'; usage: %s %s%s%s",
			args->operand[c->operands_max], cli_program.name, c->name,
			c->operands[0] ? " " : "", c->operands);
	return 0;
}

int cli_parse(const struct cli_command *command, int argc, char **argv, struct cli_args *ret_args,
	struct error *err)
{
	struct cli_args args = {.command = command, .operand = argv};
	struct option_scan scan = scan_begin(command, argc, argv);
	enum option_event event;
	int n = 0, r;

	while ((event = option_next(&scan)) != OPTION_END) {
		if (event == OPTION_OPERAND) {
			argv[n++] = argv[scan.at - 1];
			scan.is_over = scan.is_over || command->is_program;
		} else if ((r = command_take_event(&args, &scan, event, err)) < 0) {
			return r;
		}
	}
	if (argv)
		argv[n] = NULL;
	args.n_operands = n;
	r = args.help ? 0 : check_operands(&args, err);
	if (r < 0)
		return r;
	*ret_args = args;
	return 0;
}

bool cli_are_options(const struct cli_command *command, int argc, char **argv)
{
	struct cli_args args = {.command = command};
	struct option_scan scan = scan_begin(command, argc, argv);
	enum option_event event;

	while ((event = option_next(&scan)) != OPTION_END)
		if (event == OPTION_OPERAND || command_take_event(&args, &scan, event, NULL) < 0)
			return false;
	return !scan.is_over;
}

const char *cli_get(const struct cli_args *args, const char *name)
{
	size_t i = 0;

	while (args->command->options[i].name && strcmp(args->command->options[i].name, name) != 0)
		i++;
	assert(i < CLI_OPTIONS_MAX && args->command->options[i].name);
	return args->value[i];
}

int cli_get_duration(const struct cli_args *args, const char *name, uint64_t fallback_ns,
	uint64_t *ret_ns, struct error *err)
{
	const char *text = cli_get(args, name);
	int r;

	*ret_ns = fallback_ns;
	if (!text || !text[0])
		return 0;
	r = parse_duration(str_from(text), ret_ns, err);
	return r < 0 ? fail_within(err, r, "--%s", name) : 0;
}

int cli_get_duration_within(const struct cli_args *args, const char *name, uint64_t fallback_ns,
	const uint64_t bounds_ns[static 2], uint64_t *ret_ns, struct error *err)
{
	uint64_t ns = fallback_ns;
	int r = cli_get_duration(args, name, fallback_ns, &ns, err);

	if (r < 0)
		return r;
	if (cli_has(args, name) && (ns < bounds_ns[0] || ns > bounds_ns[1]))
		return fail(err, ERANGE, "--%s '%s': out of range; expected %s to %s", name,
			cli_get(args, name), format_duration(bounds_ns[0]).s,
			format_duration(bounds_ns[1]).s);
	*ret_ns = ns;
	return 0;
}
