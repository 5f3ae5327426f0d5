/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables that programs of divvy's own which serve others (links, workers) keep of the
 * environment that they are started in. It is a list: what else stands in a daemon's or a user's
 * environment, such as somebody's credentials, is nothing that a worker's program may ever reach.
 * Any thread, as long as none changes the environment.
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

/* Is a variable of that name kept? n: of its bytes. */
bool inherit_is_kept(enum inherit_by by, const char *name, size_t n);

/*
 * Puts `more` ("NAME=value", NULL behind the last; NULL: nothing) and what is kept of ours, where
 * `more` does not have it, behind one another, and NULL at the end. The texts are borrowed. Returns
 * how many: at most INHERIT_MAX, whatever is beyond is left out.
 */
size_t inherit_fill(
	enum inherit_by by, const char *const *more, const char *ret_env[INHERIT_MAX + 1]);

#endif
