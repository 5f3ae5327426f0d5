/* SPDX-License-Identifier: Apache-2.0 */
/* JSON in tests: what is said with ' is meant with ", which C's strings are full of. */
#ifndef TESTS_UNIT_UNIT_JSON_H
#define TESTS_UNIT_UNIT_JSON_H

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

/* The caller's. Any value; what is no JSON fails the test. */
static inline json_t *unit_json(const char *text)
{
	char *copy = strdup(text);
	json_error_t why;
	json_t *json;

	assert_non_null(copy);
	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	json = json_loads(copy, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
	if (!json)
		fail_msg("%s: %s", why.text, copy);
	free(copy);
	return json;
}

#endif
