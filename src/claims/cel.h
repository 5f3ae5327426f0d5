/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The expressions that select devices, in the Common Expression Language (CEL) as Kubernetes'
 * resource API documents it: the variable `device`, and the libraries of strings, quantities and
 * versions. The API server has checked the types of each expression before, so an evaluation
 * reports a wrong type as an error of the evaluation. cel_parse() refuses a function or syntax that
 * this evaluator lacks, by its name. Pure; any thread, but one evaluation at a time for each
 * program.
 */
#ifndef CLAIMS_CEL_H
#define CLAIMS_CEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "claims/amount.h"
#include "claims/semver.h"

#define CEL_TEXT_MAX (10u * 1024) /* bytes of an expression, as in the API */
#define CEL_DEPTH_MAX 100u        /* nesting of an expression */
/*
 * Most steps of an evaluation: nodes visited, items compared, bytes of text read or made, states of
 * regular expressions per character, and memory. The API server's own limit is 1,000,000 units of
 * about that size.
 */
#define CEL_STEPS_MAX 2000000u
#define CEL_STEP_BYTES 32u /* bytes of memory that count as a step */

enum cel_type {
	CEL_ERROR,
	CEL_NULL,
	CEL_BOOL,
	CEL_INT,
	CEL_UINT,
	CEL_DOUBLE,
	CEL_STRING,
	CEL_BYTES,
	CEL_LIST,
	CEL_MAP,
	CEL_QUANTITY,
	CEL_SEMVER,
};

struct cel_pair;

struct cel_value {
	enum cel_type type;
	/* for CEL_MAP: a key that is absent has an empty map as its value */
	bool is_default_empty;
	union {
		bool boolean;
		int64_t integer;
		uint64_t natural;
		double number;
		struct str text; /* CEL_STRING, CEL_BYTES */
		struct {
			const struct cel_value *v;
			uint32_t n;
		} list;
		struct {
			const struct cel_pair *v;
			uint32_t n;
		} map;
		const struct amount *amount;
		const struct semver *version;
	};
};

struct cel_pair {
	struct cel_value key, value;
};

static inline struct cel_value cel_text(struct str text)
{
	return (struct cel_value){.type = CEL_STRING, .text = text};
}

static inline struct cel_value cel_bool(bool value)
{
	return (struct cel_value){.type = CEL_BOOL, .boolean = value};
}

static inline struct cel_value cel_int(int64_t value)
{
	return (struct cel_value){.type = CEL_INT, .integer = value};
}

struct cel;

/*
 * Parses the expression, which it copies. -EINVAL: a fault of the expression; -ENOTSUP: this
 * evaluator lacks something that the expression uses; -E2BIG: too long or nested too deeply;
 * -ENOMEM.
 */
int cel_parse(struct str text, struct cel **ret_cel, struct error *err);
void cel_free(struct cel *cel);
DEFINE_CLEANUP(struct cel *, cel_free)

/*
 * Evaluates the expression for a device, which is the value of the variable `device`. Subtracts the
 * steps that the evaluation took from *steps, but never below 0. -EINVAL: the evaluation failed, or
 * its result is no bool; -E2BIG: too many steps; -ENOMEM.
 */
int cel_match(struct cel *cel, const struct cel_value *device, uint64_t *steps, bool *ret_matches,
	struct error *err);

#endif
