/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of a daemon or a tool, out of one description: its command line, --help, its man page,
 * and a daemon's signals and exit status. Every daemon has --log, --version and --help, every tool
 * has --help; --dump-man FOLDER, for the build, writes the man page. Main's thread, before there
 * are others.
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
	const char *operands; /* "COMMAND"; NULL: it takes options only */
	const char *summary;  /* for the man page's first line */
	const char *sentence; /* of --help */
	const char *help_end; /* a line behind the list; NULL: none */
	const char *text;     /* of the man page's description, an empty line between paragraphs */
	const char *see_also; /* "divvyd(8) divvy(1)" */
	const struct option_row *options;
	struct program_section commands;        /* before the options; without terms: none */
	const struct program_section *sections; /* behind the options */
	size_t n_sections;
	/* What can be said only when all options are read; NULL: nothing. */
	int (*finish)(void *options, struct error *err);
	/* Writes further man pages; NULL: there are none. */
	int (*dump_more)(const char *folder, struct error *err);
	bool has_reload; /* SIGHUP is for it */
	bool is_tool; /* no daemon: its page is in section 1, and it has no --log and --version */
};

struct program_signals;

/* SIGTERM and SIGINT: it is to end; is_reload: SIGHUP. */
typedef void program_signal_fn(void *data, bool is_reload);

/* From then on until program_unwatch() they come from the loop; before, they wait. -errno. */
int program_watch(
	struct program_signals *signals, struct loop *loop, program_signal_fn *fn, void *data);
void program_unwatch(struct program_signals *signals);

/*
 * In a main.c: SIGTERM and SIGINT are blocked before the libraries get ready, which takes tens of
 * milliseconds. Who is told to end meanwhile ends as soon as it runs, and not by the signal.
 */
#define PROGRAM_HOLDS_SIGNALS \
	__attribute__((section(".preinit_array"), used)) static void (*const program_first)( \
		void) = program_hold_signals
void program_hold_signals(void);

typedef int program_run_fn(void *options, struct program_signals *signals, struct error *err);

/*
 * All of main: the exit status is 0, 1 when run has failed, or 2 when an option is wrong or run
 * says -EINVAL. Failures are logged. The signals are blocked and SIGPIPE is ignored before run.
 */
int program_main(
	const struct program *program, program_run_fn *run, void *options, int argc, char **argv);

/*
 * The command line alone: 0, 1 when it was one of those that only print, -EINVAL, -ERANGE. Operands
 * are moved together behind argv[0], with NULL behind the last.
 */
int program_parse(
	const struct program *program, void *options, int argc, char **argv, struct error *err);
/* --help's text. */
void program_print_help(const struct program *program, FILE *file);
/* Writes the man page into the folder, and the program's further ones. */
int program_dump_man(const struct program *program, const char *folder, struct error *err);

#endif
