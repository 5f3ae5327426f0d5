/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options, described once: a row of a table makes the parser, a line of --help, an entry of the man
 * page and a shell's completion. Daemons and tools use it by base/program.h, programs with commands
 * by cmdline/command.h. Tables are borrowed static text. The scanner reports what stands on a
 * command line and allocates nothing; its caller words the errors. Any thread.
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

/* -EINVAL, -ERANGE: the sentence is given the option's name in front. */
typedef int option_check_fn(const char *value, struct error *err);
/* Value NULL: none is given. */
typedef int option_set_fn(void *options, const char *value, struct error *err);

struct option_row {
	const char *name;  /* NULL ends a table */
	const char *value; /* placeholder; NULL: takes none */
	const char *help;  /* no full stop */
	/*
	 * Of daemons and tools, which have a struct for their options: the field that this one
	 * sets, unless there is `set`. A const char *, or where it takes no value a bool, to true.
	 */
	size_t at;
	const char *needs;  /* the option without which it means nothing; NULL: none */
	const char *preset; /* of a const char *, before the command line is read */
	option_check_fn *check;
	option_set_fn *set;
	const char *choices; /* "table json yaml": the only values; NULL: any */
	char letter;         /* 0: none */
	bool is_maybe;       /* the value may be left out: --wait, --wait=10s */
};

static inline bool option_needs_value(const struct option_row *row)
{
	return row->value && !row->is_maybe;
}

struct option_table {
	const struct option_row *own;    /* NULL: none */
	const struct option_row *common; /* behind them: --help, and what else every program has */
};

/* Row i of both; NULL behind the last. */
const struct option_row *option_at(const struct option_table *table, size_t i);

/* ---- the parser ---- */

enum option_event {
	OPTION_END,
	OPTION_OPERAND, /* `word` */
	OPTION_GIVEN,   /* `row`, and `value`; NULL: none is given */
	/* Faults. */
	OPTION_UNKNOWN,     /* `name` is no option, or begins several */
	OPTION_NO_VALUE,    /* `row` needs one */
	OPTION_EMPTY_VALUE, /* of `row` */
	OPTION_EXTRA_VALUE, /* `row` takes none, and `value` is given */
};

struct option_scan {
	struct option_table table;
	int argc;
	char **argv;
	int at;               /* of the word that is next */
	bool is_cut_accepted; /* --kube for --kubeconfig, when no other begins like that */
	bool is_over;         /* all that follows is operands; "--" says so, or the caller */
	const char *letters;  /* the rest of a word such as "-qf"; NULL: none */
	/* The last event's. */
	const char *word;
	struct str name;
	bool is_letter; /* given as -q */
	const struct option_row *row;
	const char *value;
};

enum option_event option_next(struct option_scan *scan);

/* Whether the value is one of the row's choices, or passes its check. */
int option_check(const struct option_row *row, const char *value, struct error *err);

/* ---- what the tables make ---- */

#define OPTION_COLUMN_LONGEST 0

struct option_layout {
	char between; /* '=' or ' ': what stands between name and value */
	int column;   /* where the texts begin; OPTION_COLUMN_LONGEST: behind the longest option */
	int width;    /* of a line; texts are wrapped */
};

/* Lines of --help. */
void option_add_help(
	struct buf *out, const struct option_table *table, const struct option_layout *layout);
/* The words in lines of at most `width`, each but the first behind `indent` spaces. */
void option_add_wrapped(struct buf *out, struct str text, int indent, int width);
/* Entries of a man page (roff). */
void option_add_man(struct buf *out, const struct option_table *table);

#endif
