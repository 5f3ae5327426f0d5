/* SPDX-License-Identifier: Apache-2.0 */
#include "cmdline/option.h"

#include <assert.h>
#include <errno.h>

#include "base/format.h"
#include "base/parse.h"

#define WORD_MAX 40u

/* "rnu" for "run": two neighbours in each other's place, one slip of the fingers. */
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
	size_t best_distance = strlen(word) < 4 ? 2 : 3; /* nearer than that */

	for (size_t i = 0;; i++) {
		const char *name = next(names, i);
		size_t distance;

		if (!name)
			return best;
		distance = str_distance(str_from(word), str_from(name));
		/* A cut word ("dev" for "devices") is near too. */
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
	const struct cli_option *options = names;

	return options[i].name;
}

static int option_find(const struct cli_option *options, struct str name)
{
	for (int i = 0; options[i].name; i++)
		if (str_is(name, options[i].name))
			return i;
	return -1;
}

static int unknown_option(const struct cli_command *command, struct str name, struct error *err)
{
	char word[WORD_MAX + 1];
	const char *near = NULL;

	if (str_copy(word, sizeof(word), name) == 0)
		near = cli_suggest(word, next_option, command->options);
	if (near)
		return fail(err, EINVAL, "unknown option '--%.*s'; did you mean '--%s'?",
			STR_ARG(name), near);
	return fail(err, EINVAL, "unknown option '--%.*s'; '%s %s --help' lists the known ones",
		STR_ARG(name), cli_program.name, command->name);
}

static int check_choice(const struct cli_option *option, const char *value, struct error *err)
{
	struct str rest = str_from(option->choices), word;

	while (str_word(&rest, &word))
		if (str_is(word, value))
			return 0;
	return fail(err, EINVAL, "--%s '%s': one of these is needed: %s", option->name, value,
		option->choices);
}

static int set_option(struct cli_args *args, int i, const char *value, struct error *err)
{
	const struct cli_option *option = &args->command->options[i];

	if (args->value[i])
		return fail(err, EINVAL, "--%s is given twice", option->name);
	if (option->choices && value[0]) {
		int r = check_choice(option, value, err);

		if (r < 0)
			return r;
	}
	args->value[i] = value;
	return 0;
}

/* One "--name", "--name=value" or "--name value"; *at is moved over what was used. */
static int parse_long(struct cli_args *args, char **argv, int argc, int *at, struct error *err)
{
	struct str name = str_from(argv[*at] + 2);
	const size_t equals = str_find(name, '=');
	const char *value = equals < name.n ? name.p + equals + 1 : NULL;
	const struct cli_option *option;
	int i;

	name.n = equals;
	if (str_is(name, "help")) {
		args->help = true;
		return 0;
	}
	i = option_find(args->command->options, name);
	if (i < 0)
		return unknown_option(args->command, name, err);
	option = &args->command->options[i];
	if (option->kind == CLI_FLAG && value)
		return fail(
			err, EINVAL, "--%s takes no value, and '%s' is given", option->name, value);
	if (option->kind == CLI_VALUE && !value) {
		if (*at + 1 >= argc)
			return fail(err, EINVAL, "--%s needs a value: --%s=%s", option->name,
				option->name, option->value);
		value = argv[++*at];
	}
	if (value && !value[0])
		return fail(err, EINVAL, "--%s is empty: --%s=%s", option->name, option->name,
			option->value);
	return set_option(args, i, value ? value : "", err);
}

/* "-o json", "-ojson", "-qf": letters of flags may stand together. */
static int parse_short(struct cli_args *args, char **argv, int argc, int *at, struct error *err)
{
	const struct cli_option *options = args->command->options;

	for (const char *p = argv[*at] + 1; *p; p++) {
		const char *value = "";
		int i = 0, r;

		if (*p == 'h') {
			args->help = true;
			return 0;
		}
		while (options[i].name && options[i].letter != *p)
			i++;
		if (!options[i].name)
			return fail(err, EINVAL,
				"unknown option '-%c'; '%s %s --help' lists the known ones", *p,
				cli_program.name, args->command->name);
		if (options[i].kind == CLI_VALUE) {
			value = p[1] ? p + 1 : *at + 1 < argc ? argv[++*at] : NULL;
			if (!value)
				return fail(err, EINVAL, "-%c needs a value: -%c %s", *p, *p,
					options[i].value);
			if (!value[0])
				return fail(err, EINVAL, "-%c is empty: -%c %s", *p, *p,
					options[i].value);
		}
		r = set_option(args, i, value, err);
		if (r < 0 || options[i].kind == CLI_VALUE)
			return r;
	}
	return 0;
}

/* The required operand number n: "COMMAND" of "[--] COMMAND [ARG...]". */
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
		return fail(err, EINVAL, "%.*s is missing: %s %s %s",
			STR_ARG(operand_name(c, args->n_operands)), cli_program.name, c->name,
			c->operands);
	if (c->operands_max >= 0 && args->n_operands > c->operands_max)
		return fail(err, EINVAL, "'%s' is too much: %s %s%s%s",
			args->operand[c->operands_max], cli_program.name, c->name,
			c->operands[0] ? " " : "", c->operands);
	return 0;
}

int cli_parse(const struct cli_command *command, int argc, char **argv, struct cli_args *ret_args,
	struct error *err)
{
	struct cli_args args = {.command = command, .operand = argv};
	bool is_over = false;
	int n = 0;

	for (int at = 0; at < argc; at++) {
		int r = 0;

		if (is_over || argv[at][0] != '-' || !argv[at][1]) {
			argv[n++] = argv[at];
			is_over = is_over || command->is_program;
		} else if (!strcmp(argv[at], "--")) {
			is_over = true;
		} else if (argv[at][1] == '-') {
			r = parse_long(&args, argv, argc, &at, err);
		} else {
			r = parse_short(&args, argv, argc, &at, err);
		}
		if (r < 0)
			return r;
	}
	if (argv)
		argv[n] = NULL;
	args.n_operands = n;
	if (!args.help) {
		int r = check_operands(&args, err);

		if (r < 0)
			return r;
	}
	*ret_args = args;
	return 0;
}

bool cli_are_options(const struct cli_command *command, int argc, char **argv)
{
	struct cli_args args = {.command = command};

	for (int at = 0; at < argc; at++) {
		const bool is_long = argv[at][0] == '-' && argv[at][1] == '-';

		if (argv[at][0] != '-' || !argv[at][1] || !strcmp(argv[at], "--"))
			return false;
		if ((is_long ? parse_long : parse_short)(&args, argv, argc, &at, NULL) < 0)
			return false;
	}
	return true;
}

const char *cli_get(const struct cli_args *args, const char *name)
{
	const int i = option_find(args->command->options, str_from(name));

	assert(i >= 0 && i < CLI_OPTIONS_MAX);
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
		return fail(err, ERANGE, "--%s %s: %s to %s are possible", name,
			cli_get(args, name), format_duration(bounds_ns[0]).s,
			format_duration(bounds_ns[1]).s);
	*ret_ns = ns;
	return 0;
}
