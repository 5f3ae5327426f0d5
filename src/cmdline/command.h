/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands, described once: a command is one static table entry, and its option table
 * (base/option.h) makes the parser, --help, the man page and the shell completions (help.c, man.c,
 * completion.c). Everything is borrowed static text; the parser allocates nothing and keeps
 * pointers into argv. One thread.
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
/* What env(1), nohup(1) and docker(1) use, so that the program's own codes stay its own. */
#define CLI_EXIT_RUN_FAILED 125
#define CLI_EXIT_RUN_DENIED 126
#define CLI_EXIT_RUN_MISSING 127

/* What an operand is, for the completions. */
enum cli_operand { CLI_NOTHING, CLI_TENANT, CLI_PROGRAM, CLI_COMMAND_NAME, CLI_SHELL_NAME };

struct cli_args;

/* Names that an option takes, from the table that has them: what each means. */
struct cli_list {
	const char *title;             /* "Policies" */
	const char *(*name)(size_t i); /* NULL behind the last */
	const char *(*about)(size_t i);
};

struct cli_command {
	const char *name;
	const char *operands;        /* "TENANT", "[--] COMMAND [ARG...]" */
	const char *summary;         /* one line, no full stop */
	const char *text;            /* paragraphs of the man page, "\n\n" between */
	const struct cli_list *list; /* shown behind the options; NULL: none */
	const char *examples;        /* one command a line; NULL: none */
	const char *exit_status;     /* paragraph; NULL: the usual one */
	const struct option_row *options;
	enum cli_operand operand;
	int operands_min, operands_max; /* max -1: any number */
	bool is_program; /* options end at the first operand: the rest is a command */
	int failed;      /* exit code of a failure and of bad usage; 0: 1 and 2 */
	/*
	 * What can be told from the words alone: a sentence about the value that is bad usage.
	 * NULL: nothing more than the table says.
	 */
	int (*check)(const struct cli_args *args, struct error *err);
	/* Returns the exit code (>= 0), or -errno with a sentence in err. */
	int (*run)(const struct cli_args *args, struct error *err);
};

struct cli_args {
	const struct cli_command *command;
	const char
		*value[CLI_OPTIONS_MAX]; /* by place in the table; NULL: not given, "" for flags */
	char **operand;                  /* NULL-terminated */
	int n_operands;
	bool help; /* --help was given: nothing else was checked */
};

/*
 * argv is what stands behind the command's name; operands are moved together inside it. -EINVAL
 * with a sentence for unknown options (with the nearest known one), missing and forbidden values.
 */
int cli_parse(const struct cli_command *command, int argc, char **argv, struct cli_args *ret_args,
	struct error *err);

/* All these words are options of the command, and their values. */
bool cli_are_options(const struct cli_command *command, int argc, char **argv);

/*
 * NULL when not given. Asking for an option that the command's table does not have is our mistake.
 */
const char *cli_get(const struct cli_args *args, const char *name);
static inline bool cli_has(const struct cli_args *args, const char *name)
{
	return cli_get(args, name) != NULL;
}

/* --option as a duration; `fallback_ns` when not given or without a value. -EINVAL, -ERANGE */
int cli_get_duration(const struct cli_args *args, const char *name, uint64_t fallback_ns,
	uint64_t *ret_ns, struct error *err);

/* The same within bounds: "--every 1ms: 50ms to 1h are possible". */
int cli_get_duration_within(const struct cli_args *args, const char *name, uint64_t fallback_ns,
	const uint64_t bounds_ns[static 2], uint64_t *ret_ns, struct error *err);

/*
 * The name nearest to `word`, when near enough to be a slip of the hand; NULL otherwise. `next`
 * gives the names one after the other, NULL at the end.
 */
const char *cli_suggest(
	const char *word, const char *(*next)(const void *names, size_t i), const void *names);

/* ---- what the tables make ---- */

/* --help, which every command has behind its own options. */
extern const struct option_row cli_help_row[];
void cli_help(const struct cli_command *command, struct buf *out);

/*
 * The program that these commands are of: each that links this has one, and its commands in
 * cli_commands, NULL-terminated, with a `help` and a `version` among them.
 */
struct cli_program {
	const char *name;        /* as people call it: "divvy", "kubectl divvy" */
	const char *page;        /* its man page; a command's is PAGE-COMMAND */
	const char *summary;     /* behind the page's name, no full stop */
	const char *text;        /* paragraphs of the man page */
	const char *overview;    /* what stands above the list of commands: one sentence */
	const char *examples;    /* below it: two lines at most */
	const char *exit_status; /* roff */
	const char *const (*environment)[2]; /* name and meaning, NULL at the end */
	const char *see_also;                /* roff: further pages; "": none */
};
extern const struct cli_program cli_program;
extern const struct cli_command *const cli_commands[];
/* One that every program has. */
extern const struct cli_command cmd_help;
const struct cli_command *cli_command_find(const char *name);
/* All commands with their summaries: `help`. */
void cli_overview(struct buf *out);

/* roff, for man(1); command NULL: the program's own page. */
void cli_man(const struct cli_command *command, struct buf *out);
/* Writes divvy.1, divvy-run.1, ... into the folder. */
int cli_man_dump(const char *folder, struct error *err);

/* shell: bash, zsh or fish; -EINVAL with the list. Of divvy itself. */
int cli_completion(const char *shell, struct buf *out, struct error *err);

/* ---- the program (dispatch.c) ---- */

/* -EINVAL with the nearest command's name. */
int cli_unknown_command(const char *name, struct error *err);

/* The whole program but for main(). Returns the exit code. */
int cli_main(int argc, char **argv);

#endif
