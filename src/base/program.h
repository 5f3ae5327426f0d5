/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of a daemon: its command line, --help, its man page, its signals and its exit status,
 * out of one description. --log, --version and --help are every program's; --dump-man FOLDER, for
 * the build, writes the man page. Main's thread, before there are others.
 */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/loop.h"

#define PROGRAM_OPTIONS_MAX 48u

/* -EINVAL, -ERANGE: the sentence is given the option's name in front. */
typedef int program_check_fn(const char *value, struct error *err);
/* Value NULL: none is given. */
typedef int program_set_fn(void *options, const char *value, struct error *err);

struct program_option {
	const char *name;
	const char *value; /* placeholder; NULL: takes none */
	const char *help;  /* no full stop */
	/* What it sets in the options, unless there is `set`: a const char *, or a bool to true. */
	size_t at;
	const char *needs;  /* the option without which it means nothing; NULL: none */
	const char *preset; /* of a text, before the command line is read */
	program_check_fn *check;
	program_set_fn *set;
	bool is_maybe; /* the value may be left out */
};

/* A section of the man page: a paragraph, then terms with sentences that lack their full stop. */
struct program_section {
	const char *title;
	const char *text;              /* NULL: none */
	const char *const (*terms)[2]; /* NULL: none */
	size_t n_terms;
};

struct program {
	const char *name;     /* "divvyd" */
	const char *summary;  /* for the man page's first line */
	const char *sentence; /* of --help */
	const char *help_end; /* a line behind the list; NULL: none */
	const char *text;     /* of the man page's description, an empty line between paragraphs */
	const char *see_also; /* "divvyd(8) divvy(1)" */
	const struct program_option *options;
	size_t n_options;
	const struct program_section *sections; /* behind the options */
	size_t n_sections;
	/* What can be said only when all options are read; NULL: nothing. */
	int (*finish)(void *options, struct error *err);
	/* Writes further man pages; NULL: there are none. */
	int (*dump_more)(const char *folder, struct error *err);
	bool has_reload; /* SIGHUP is for it */
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

/* The command line alone: 0, 1 when it was one of those that only print, -EINVAL, -ERANGE. */
int program_parse(
	const struct program *program, void *options, int argc, char **argv, struct error *err);

#endif
