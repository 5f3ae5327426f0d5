/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions for matches(): the part of RE2's syntax that is common. The text is read
 * once, whatever the expression is. Pure; any thread.
 */
#ifndef CLAIMS_CEL_REGEX_H
#define CLAIMS_CEL_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

#define CEL_REGEX_STATES_MAX 2000u
#define CEL_REGEX_DEPTH_MAX 100u

/*
 * Sets whether the expression matches a part of the text. A match takes a step for each state of
 * the expression and each character; *ret_steps is their number, also with -ETIMEDOUT, which says
 * that it is above `most`. A short expression such as a{1000} has many states. Other errors leave
 * *ret_steps unchanged. -EINVAL: a fault of the expression;
 * -ENOTSUP: the expression uses something else than letters, classes, groups, alternatives,
 * repetitions, ^, $ and a leading (?i); -E2BIG: the expression is too long; -ENOMEM.
 */
int cel_regex_match(struct str regex, struct str text, size_t most, bool *ret_matches,
	size_t *ret_steps, struct error *err);

#endif
