/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints completions for kubectl: the arguments are the words typed so far, the output is the
 * candidates for the last word with descriptions.
 */
#include <stdio.h>
#include <string.h>

#include "kubectl/kubectl-commands.h"

#define NO_FILES ":4" /* last line for kubectl: complete by the candidates only */
#define FILES ":0"

static bool complete_begins_with(const char *word, const char *typed)
{
	return !strncmp(word, typed, strlen(typed));
}

static void complete_commands(const char *typed)
{
	for (size_t i = 0; cli_commands[i]; i++)
		if (complete_begins_with(cli_commands[i]->name, typed))
			printf("%s\t%s\n", cli_commands[i]->name, cli_commands[i]->summary);
}

static const struct option_row *complete_find_option(const struct cli_command *c, const char *word)
{
	for (const struct option_row *o = c->options; o->name; o++)
		if ((word[0] == '-' && word[1] == '-' && !strcmp(word + 2, o->name)) ||
			(o->letter && word[0] == '-' && word[1] == o->letter && !word[2]))
			return o;
	return NULL;
}

static void complete_options(const struct cli_command *c, const char *typed)
{
	char word[64];

	for (const struct option_row *o = c->options; o->name; o++) {
		snprintf(word, sizeof(word), "--%s", o->name);
		if (complete_begins_with(word, typed))
			printf("%s\t%s\n", word, o->help);
	}
	if (complete_begins_with("--help", typed))
		puts("--help\tshow a short description");
}

static const char *complete_values(const struct option_row *o, const char *typed)
{
	struct str rest = str_from(o->choices), word;

	while (o->choices && str_word(&rest, &word))
		if (str_has_prefix(word, str_from(typed)))
			printf("%.*s\n", STR_ARG(word));
	return !strcmp(o->value, "FILE") ? FILES : NO_FILES;
}

void kubectl_complete(int argc, char **argv)
{
	const char *typed = argc ? argv[argc - 1] : "", *end = NO_FILES;
	const struct cli_command *c = argc > 1 ? cli_command_find(argv[0]) : NULL;
	const struct option_row *o = c && argc > 2 ? complete_find_option(c, argv[argc - 2]) : NULL;

	if (argc < 2)
		complete_commands(typed);
	else if (o && option_needs_value(o))
		end = complete_values(o, typed);
	else if (c && typed[0] == '-')
		complete_options(c, typed);
	else if (c && c->operand == CLI_COMMAND_NAME)
		complete_commands(typed);
	puts(end);
}
