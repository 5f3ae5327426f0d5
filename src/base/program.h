/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main() of a daemon or tool, from one description: command line, --help, man page, and a daemon's
 * signals and exit status. Every daemon has --log, --version and --help, every tool has --help. The
 * build calls --dump-man FOLDER to write the man page. Main thread, before other threads exist.
 */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "base/loop.h"
#include "base/option.h"

#define PROGRAM_OPTIONS_MAX 48u

/* A section of the man page: a paragraph, then terms with sentences that lack their full stop. */
struct program_section {
	const char *title;
	const char *text;              /* NULL: none */
	const char *const (*terms)[2]; /* NULL: none */
	size_t n_terms;
};

struct program {
	const char *name;     /* "divvyd" */
	const char *operands; /* "COMMAND"; NULL: the program takes only options */
	const char *summary;  /* for the first line of the man page */
	const char *sentence; /* for --help */
	const char *help_end; /* a line after the list of options; NULL: none */
	const char *text;     /* description in the man page; an empty line separates paragraphs */
	const char *see_also; /* "divvyd(8) divvy(1)" */
	const struct option_row *options;
	struct program_section commands;        /* listed before the options if it has terms */
	const struct program_section *sections; /* printed after the options */
	size_t n_sections;
	/* Checks that need all options; NULL: none. */
	int (*finish)(void *options, struct error *err);
	/* Writes further man pages; NULL: none. */
	int (*dump_more)(const char *folder, struct error *err);
	bool has_reload; /* the program handles SIGHUP */
	/* not a daemon: the page is in section 1, and --log and --version do not exist */
	bool is_tool;
};

struct program_signals;

/* Called for SIGTERM and SIGINT, which must end the program; for SIGHUP, is_reload is true. */
typedef void program_signal_fn(void *data, bool is_reload);

/*
 * The loop delivers signals to fn from now on until program_unwatch(); earlier signals stay pending
 * until then. Returns 0 or -errno.
 */
int program_watch(
	struct program_signals *signals, struct loop *loop, program_signal_fn *fn, void *data);
void program_unwatch(struct program_signals *signals);

/*
 * Put this in a main.c: it blocks SIGTERM and SIGINT before the libraries initialise, which takes
 * tens of milliseconds. A signal that arrives meanwhile does not end the program at once, but stays
 * pending until program_watch() delivers it.
 */
#define PROGRAM_HOLDS_SIGNALS \
	__attribute__((section(".preinit_array"), used)) static void (*const program_first)( \
		void) = program_hold_signals
void program_hold_signals(void);

typedef int program_run_fn(void *options, struct program_signals *signals, struct error *err);

/*
 * The whole of main. Returns the exit status: 0; 1 if run failed; 2 if an option is wrong or run
 * returned -EINVAL. Logs failures. Blocks the signals and ignores SIGPIPE before run.
 */
int program_main(
	const struct program *program, program_run_fn *run, void *options, int argc, char **argv);

/*
 * Parses the command line. Returns 0; 1 if an option such as --help only printed; -EINVAL; -ERANGE.
 * Moves the operands to argv[1] and following, and ends them with NULL.
 */
int program_parse(
	const struct program *program, void *options, int argc, char **argv, struct error *err);
/* Prints the text of --help. */
void program_print_help(const struct program *program, FILE *file);
/* Writes the man page into the folder, and the program's further pages by dump_more. */
int program_dump_man(const struct program *program, const char *folder, struct error *err);

#endif
