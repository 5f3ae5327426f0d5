/* SPDX-License-Identifier: Apache-2.0 */
/* JSON in tests, written with ' in place of ", which C strings would have to escape. */
#ifndef TESTS_UNIT_UNIT_JSON_H
#define TESTS_UNIT_UNIT_JSON_H

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

/* Parses any JSON value, which the caller frees. Text that is not JSON fails the test. */
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
