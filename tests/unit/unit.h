/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every unit test includes this header: cmocka with the headers that it needs, and a few assertions
 * of divvy's. One program tests one concept: `UNIT_MAIN(UNIT(a_test), UNIT(another_test))`.
 */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* base/error.h has its own fail(). */
#undef fail
#undef fail_msg
#define fail_msg(...) \
	do { \
		print_error("ERROR: " __VA_ARGS__); \
		print_error("\n"); \
		_fail(__FILE__, __LINE__); \
	} while (0)

#define UNIT(fn) cmocka_unit_test(fn)

#define UNIT_MAIN(...) \
	int main(void) \
	{ \
		const struct CMUnitTest tests[] = {__VA_ARGS__}; \
\
		return cmocka_run_group_tests(tests, NULL, NULL); \
	}

/* Asserts that the call returns 0; a failure shows -errno. */
#define assert_ok(expression) assert_int_equal((expression), 0)

/* Asserts that the text, such as a message, contains the part. */
#define assert_contains(text, part) \
	do { \
		const char *_text = (text); \
\
		if (!strstr(_text, (part))) \
			fail_msg("'%s' is not in: %s", (part), _text); \
	} while (0)

/* How often the part is in the text. */
static inline size_t unit_count(const char *text, const char *part)
{
	size_t n = 0;

	for (const char *p = strstr(text, part); p; p = strstr(p + 1, part))
		n++;
	return n;
}

#endif
