/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands described by tables. A command is one static table entry; its option table
 * (base/option.h) yields the parser, --help, the man page and the shell completions (help.c,
 * cmdline-man.c, completion.c). Tables are static text and borrowed. The parser allocates nothing
 * and keeps pointers into argv. One thread.
 */
#ifndef CMDLINE_COMMAND_H
#define CMDLINE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/option.h"
#include "base/str.h"

#define CLI_OPTIONS_MAX 40
#define CLI_EXIT_FAILED 1
#define CLI_EXIT_USAGE 2
/*
 * env(1), nohup(1) and docker(1) use these codes, too. These codes differ from those that most
 * programs return themselves.
 */
#define CLI_EXIT_RUN_FAILED 125
#define CLI_EXIT_RUN_DENIED 126
#define CLI_EXIT_RUN_MISSING 127

/* The kind of an operand, for shell completion. */
enum cli_operand { CLI_NOTHING, CLI_TENANT, CLI_PROGRAM, CLI_COMMAND_NAME, CLI_SHELL_NAME };

struct cli_args;

/* A list of names that an option accepts, with their meaning, for help and man page. */
struct cli_list {
	const char *title;             /* "Policies" */
	const char *(*name)(size_t i); /* NULL after the last */
	const char *(*about)(size_t i);
};

struct cli_command {
	const char *name;
	const char *operands;        /* "TENANT", "[--] COMMAND [ARG...]" */
	const char *summary;         /* one line, no full stop */
	const char *text;            /* paragraphs of the man page, "\n\n" between */
	const struct cli_list *list; /* printed after the options; NULL: none */
	const char *examples;        /* one command a line; NULL: none */
	const char *exit_status;     /* paragraph; NULL: the usual text */
	const struct option_row *options;
	enum cli_operand operand;
	int operands_min, operands_max; /* max -1: any number */
	bool is_program; /* options end at the first operand; the rest is a command line */
	/* exit code for every error; 0: the usual codes, 1 for a failure and 2 for bad usage */
	int failed;
	/* Checks that need only the command line; an error is bad usage. NULL: none. */
	int (*check)(const struct cli_args *args, struct error *err);
	/* Returns the exit code (>= 0), or -errno with a message in err. */
	int (*run)(const struct cli_args *args, struct error *err);
};

struct cli_args {
	const struct cli_command *command;
	const char
		/* by index in the option table; NULL: not given, "" for flags */
		*value[CLI_OPTIONS_MAX];
	char **operand; /* NULL-terminated */
	int n_operands;
	bool help; /* --help was given: operands were not checked */
};

/*
 * argv begins after the command's name. Moves the operands to the front of argv, ended by NULL.
 * -EINVAL for an unknown option (the message suggests the nearest name), a missing or forbidden
 * value, or a wrong number of operands.
 */
int cli_parse(const struct cli_command *command, int argc, char **argv, struct cli_args *ret_args,
	struct error *err);

/* Returns whether all these words are options of the command and their values. */
bool cli_are_options(const struct cli_command *command, int argc, char **argv);

/* Returns the option's value, or NULL if not given. The name must be in the command's table. */
const char *cli_get(const struct cli_args *args, const char *name);
static inline bool cli_has(const struct cli_args *args, const char *name)
{
	return cli_get(args, name) != NULL;
}

/*
 * Parses an option as a duration; `fallback_ns` if it is absent or has no value. -EINVAL, -ERANGE.
 */
int cli_get_duration(const struct cli_args *args, const char *name, uint64_t fallback_ns,
	uint64_t *ret_ns, struct error *err);

/* As cli_get_duration(); -ERANGE if a given value is outside bounds_ns (least, most). */
int cli_get_duration_within(const struct cli_args *args, const char *name, uint64_t fallback_ns,
	const uint64_t bounds_ns[static 2], uint64_t *ret_ns, struct error *err);

/*
 * Returns the name nearest to `word` if the difference may be a typing error, else NULL. `next`
 * returns name i, or NULL after the last.
 */
const char *cli_suggest(
	const char *word, const char *(*next)(const void *names, size_t i), const void *names);

/* ---- output from the tables ---- */

/* The row of --help, which follows each command's own options. */
extern const struct option_row cli_help_row[];
void cli_help(const struct cli_command *command, struct buf *out);

/*
 * A program with commands. Each program that links this folder defines one, and its commands in
 * cli_commands, which ends with NULL and contains `help` and `version`.
 */
struct cli_program {
	const char *name;                    /* as users type it: "divvy", "kubectl divvy" */
	const char *page;                    /* the man page's name; of a command: PAGE-COMMAND */
	const char *summary;                 /* follows the page's name; no full stop */
	const char *text;                    /* paragraphs of the man page */
	const char *overview;                /* one sentence above the list of commands */
	const char *examples;                /* below the list: at most two lines */
	const char *exit_status;             /* roff */
	const char *const (*environment)[2]; /* name and meaning; NULL ends the list */
	const char *see_also;                /* roff: further pages; "": none */
};
extern const struct cli_program cli_program;
extern const struct cli_command *const cli_commands[];
/* The `help` command, for every program. */
extern const struct cli_command cmd_help;
const struct cli_command *cli_command_find(const char *name);
/* Appends the list of all commands with their summaries. */
void cli_overview(struct buf *out);

/* Appends a man page in roff; command NULL: the program's own page. */
void cli_man(const struct cli_command *command, struct buf *out);
/* Writes the pages of the program and of all commands into the folder, which it creates. */
int cli_man_dump(const char *folder, struct error *err);

/* Appends the completion script of `divvy`. shell: bash, zsh or fish; else -EINVAL. */
int cli_completion(const char *shell, struct buf *out, struct error *err);

/* ---- the program (dispatch.c) ---- */

/* Returns -EINVAL; the message suggests the nearest command. */
int cli_unknown_command(const char *name, struct error *err);

/* Does all that the program does after main()'s setup. Returns the exit code. */
int cli_main(int argc, char **argv);

#endif
