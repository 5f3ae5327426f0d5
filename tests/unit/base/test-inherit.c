/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <string.h>
#include <unistd.h>

#include "base/inherit.h"

static const char *find(const char *const *env, const char *name)
{
	const size_t n = strlen(name);

	for (; *env; env++)
		if (!strncmp(*env, name, n) && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

/* Replaces the test's environment during the call, since the result depends on the environment. */
static size_t fill(enum inherit_by by, const char *const *more, const char **env)
{
	static char *other[] = {"AWS_SECRET_ACCESS_KEY=x", "LD_PRELOAD=x", "DIVVY_TENANT_2=x",
		"DIVVY_TENAN=x", "DIVVY_TENANT=t", "DIVVY_INVITATION=i", "LD_LIBRARY_PATH=l",
		"PATH=p", NULL};
	char **own = environ;
	size_t n;

	environ = other;
	n = inherit_fill(by, more, env);
	environ = own;
	return n;
}

static void only_listed_variables_are_inherited(void **state)
{
	const char *env[INHERIT_MAX + 1];

	assert_int_equal(fill(INHERIT_BY_LINK, NULL, env), 4);
	assert_null(find(env, "AWS_SECRET_ACCESS_KEY"));
	assert_null(find(env, "LD_PRELOAD"));
	assert_string_equal(find(env, "DIVVY_TENANT"), "t");
	assert_string_equal(find(env, "DIVVY_INVITATION"), "i");
	assert_string_equal(find(env, "LD_LIBRARY_PATH"), "l");
}

static void a_worker_has_no_invitation(void **state)
{
	const char *env[INHERIT_MAX + 1];

	assert_int_equal(fill(INHERIT_BY_WORKER, NULL, env), 4);
	assert_null(find(env, "DIVVY_INVITATION"));
	assert_string_equal(find(env, "DIVVY_TENANT"), "t");
}

static void added_variables_win(void **state)
{
	static const char *const more[] = {"LD_PRELOAD=mine", "LD_LIBRARY_PATH=mine", NULL};
	const char *env[INHERIT_MAX + 1];

	assert_int_equal(fill(INHERIT_BY_WORKER, more, env), 4);
	assert_string_equal(find(env, "LD_PRELOAD"), "mine");
	assert_string_equal(find(env, "LD_LIBRARY_PATH"), "mine");
}

static void the_number_of_variables_is_limited(void **state)
{
	const char *more[2 * INHERIT_MAX + 1] = {NULL}, *env[INHERIT_MAX + 1];

	for (size_t i = 0; i < 2 * INHERIT_MAX; i++)
		more[i] = "A=b";
	assert_int_equal(fill(INHERIT_BY_LINK, more, env), INHERIT_MAX);
	assert_null(env[INHERIT_MAX]);
}

UNIT_MAIN(UNIT(only_listed_variables_are_inherited), UNIT(a_worker_has_no_invitation),
	UNIT(added_variables_win), UNIT(the_number_of_variables_is_limited))
