/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options described by tables: a row yields the parser, a line of --help, an entry of the man page,
 * and shell completion. Daemons and tools use tables by base/program.h, programs with commands by
 * cmdline/command.h. Tables are static text and borrowed. The scanner reports the words of a
 * command line and allocates nothing; its caller writes the error messages. Any thread.
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

/* Returns 0, -EINVAL or -ERANGE. The caller puts the option's name before the message. */
typedef int option_check_fn(const char *value, struct error *err);
/* value is NULL if the command line gives none. */
typedef int option_set_fn(void *options, const char *value, struct error *err);

struct option_row {
	const char *name;  /* NULL ends a table */
	const char *value; /* placeholder; NULL: the option takes no value */
	const char *help;  /* no full stop */
	/*
	 * For programs that have a struct for their options: offset of the field that the option
	 * sets, if the row has no `set`. The field is a const char *, or a bool, set to true, if
	 * the option takes no value.
	 */
	size_t at;
	const char *needs;  /* the option that this option requires; NULL: none */
	const char *preset; /* initial value of a const char * field; NULL: none */
	option_check_fn *check;
	option_set_fn *set;
	const char *choices;     /* "table json yaml": the allowed values; NULL: any */
	const char *old_choices; /* accepted as well for one release, and not shown; NULL: none */
	const char *old_name;    /* accepted as well for one release, and not shown; NULL: none */
	char letter;             /* 0: none */
	bool is_maybe;           /* the value is optional: --wait, --wait=10s */
};

static inline bool option_needs_value(const struct option_row *row)
{
	return row->value && !row->is_maybe;
}

struct option_table {
	const struct option_row *own; /* NULL: none */
	/* listed after `own`: --help and other options that all programs have */
	const struct option_row *common;
};

/* Row i of both tables together; NULL after the last. */
const struct option_row *option_at(const struct option_table *table, size_t i);

/* ---- the parser ---- */

enum option_event {
	OPTION_END,
	OPTION_OPERAND, /* `word` is an operand */
	OPTION_GIVEN,   /* `row` was given, with `value`, or NULL for none */
	/* Faults of the command line: */
	OPTION_UNKNOWN,     /* `name` is no option, or a prefix of several */
	OPTION_NO_VALUE,    /* `row` needs a value */
	OPTION_EMPTY_VALUE, /* the value of `row` is empty */
	OPTION_EXTRA_VALUE, /* `row` takes no value, but `value` is given */
};

struct option_scan {
	struct option_table table;
	int argc;
	char **argv;
	int at;               /* index of the next word */
	bool is_cut_accepted; /* accepts unique prefixes: --kube for --kubeconfig */
	bool is_over;         /* all further words are operands; set by "--" or by the caller */
	const char *letters;  /* the remaining letters of a word such as "-qf"; NULL: none */
	/* The members below describe the last event: see enum option_event. */
	const char *word;
	struct str name;
	bool is_letter; /* the command line gives the option by its letter: -q */
	const struct option_row *row;
	const char *value;
};

enum option_event option_next(struct option_scan *scan);

/* Checks the value against the row's choices and its check function. */
int option_check(const struct option_row *row, const char *value, struct error *err);

/* ---- output from the tables ---- */

#define OPTION_COLUMN_LONGEST 0

struct option_layout {
	char between; /* '=' or ' ', between name and value */
	/* where the help texts begin; OPTION_COLUMN_LONGEST: after the longest option */
	int column;
	int width; /* columns of a line; longer texts are wrapped */
};

/* Appends the lines of --help. */
void option_add_help(
	struct buf *out, const struct option_table *table, const struct option_layout *layout);
/*
 * Appends the words in lines of at most `width` columns. The first line continues the present line
 * at column `indent`; the other lines begin with `indent` spaces.
 */
void option_add_wrapped(struct buf *out, struct str text, int indent, int width);
/* Appends the entries of a man page (roff). */
void option_add_man(struct buf *out, const struct option_table *table);

#endif
