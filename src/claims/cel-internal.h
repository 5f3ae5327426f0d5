/* SPDX-License-Identifier: Apache-2.0 */
/* The parsed form of an expression, and one evaluation, for the files cel*.c. */
#ifndef CLAIMS_CEL_INTERNAL_H
#define CLAIMS_CEL_INTERNAL_H

#include "claims/cel.h"

enum cel_op {
	CEL_OP_VALUE,  /* `value` */
	CEL_OP_IDENT,  /* a variable named `text` */
	CEL_OP_SELECT, /* arg[0].text */
	CEL_OP_HAS,    /* has(arg[0].text) */
	CEL_OP_INDEX,  /* arg[0][arg[1]] */
	CEL_OP_LIST,
	CEL_OP_MAP,  /* arg: key, value, key, value, ... */
	CEL_OP_CALL, /* `function` */
	CEL_OP_AND,
	CEL_OP_OR,
	CEL_OP_NOT,
	CEL_OP_MINUS, /* -arg[0] */
	CEL_OP_IF,    /* arg[0] ? arg[1] : arg[2] */
	CEL_OP_EQUAL,
	CEL_OP_UNEQUAL,
	CEL_OP_LESS,
	CEL_OP_LESS_EQUAL,
	CEL_OP_GREATER,
	CEL_OP_GREATER_EQUAL,
	CEL_OP_IN,
	CEL_OP_ADD,
	CEL_OP_SUBTRACT,
	CEL_OP_MULTIPLY,
	CEL_OP_DIVIDE,
	CEL_OP_MODULO,
	/* macros over the range arg[0], with the variable `text` */
	CEL_OP_ALL,
	CEL_OP_EXISTS,
	CEL_OP_EXISTS_ONE,
	CEL_OP_FILTER,
	CEL_OP_TRANSFORM, /* arg[1]: filter or NULL; arg[2]: the item of the result */
	CEL_OP_BIND,      /* arg[0]: value of the variable `text`; arg[1]: where it is valid */
};

struct cel_run;
struct cel_node;

/*
 * Calls a function with its arguments, the object of a method first. No argument is an error.
 * `literal` is the program of a literal regular expression; else NULL.
 */
typedef struct cel_value cel_call_fn(struct cel_run *run, const struct cel_value *arg, uint32_t n);

/* A function: `least` to `most` arguments, with the object of a method. */
struct cel_function {
	const char *name;
	uint8_t least, most;
	bool is_method;
	cel_call_fn *call;
};

struct cel_node {
	enum cel_op op;
	struct str text;
	struct cel_value value;
	const struct cel_function *function;
	struct cel_node **arg;
	uint32_t n;
};

struct cel {
	struct arena arena; /* the nodes and their texts */
	struct cel_node *root;
};

/* A variable of a macro. */
struct cel_scope {
	struct str name;
	struct cel_value value;
	const struct cel_scope *outer;
};

struct cel_run {
	struct arena arena; /* values that the evaluation makes */
	uint32_t steps;
	bool is_out_of_memory;
	const struct cel_value *device;
	const struct cel_scope *scope;
	struct error *err; /* the message of the latest error */
};

/* Finds a function by its name and kind; NULL: unknown. */
const struct cel_function *cel_function_find(struct str name, bool is_method);

/* Reports an error of the evaluation. */
struct cel_value cel_fail(struct cel_run *run, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* "no such overload": the operands have no types that the operation knows. */
struct cel_value cel_fail_types(struct cel_run *run, const char *what);

/* Counts steps. False: there were too many, and the error is reported. */
bool cel_count(struct cel_run *run, size_t steps);
/* Returns zeroed memory of the run; NULL, with the error reported: out of memory or of steps. */
void *cel_take(struct cel_run *run, size_t n, size_t item);

/*
 * Whether the values are equal; an error if one is of a type that has no equality with the other.
 */
struct cel_value cel_equal(struct cel_run *run, struct cel_value a, struct cel_value b);
/* -1, 0, 1; 2: one is not a number; -EINVAL: no order between values of these types. */
int cel_compare(struct cel_value a, struct cel_value b);
/* The value of the key; NULL: none. */
const struct cel_value *cel_map_find(
	struct cel_run *run, const struct cel_value *map, struct cel_value key);
/* Whether the list has an equal item, or the map the key. */
struct cel_value cel_contains(struct cel_run *run, struct cel_value set, struct cel_value item);

#endif
