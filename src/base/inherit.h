/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment variables that links and workers inherit. The list is an allowlist, because a
 * worker serves other people's programs. These programs must not reach other variables of a daemon
 * or user, such as credentials. Any thread, while no thread changes the environment.
 */
#ifndef BASE_INHERIT_H
#define BASE_INHERIT_H

#include <stdbool.h>
#include <stddef.h>

enum inherit_by {
	INHERIT_BY_WORKER = 1,
	INHERIT_BY_LINK = 2,
};

#define INHERIT_MAX 64u

/* Whether that program inherits the variable. n: bytes of the name. */
bool inherit_is_kept(enum inherit_by by, const char *name, size_t n);

/*
 * Fills an environment: first all of `more` ("NAME=value", ended by NULL; NULL: none), then the
 * inherited variables that `more` does not set, then NULL. The texts are borrowed. Returns the
 * number of variables, at most INHERIT_MAX; further variables are dropped.
 */
size_t inherit_fill(
	enum inherit_by by, const char *const *more, const char *ret_env[INHERIT_MAX + 1]);

#endif
