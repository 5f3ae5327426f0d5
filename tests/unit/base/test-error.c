/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"

static void returns_the_negative_code_and_keeps_the_sentence(void **state)
{
	struct error err = {0};

	assert_int_equal(fail(&err, ENOENT, "open '%s'", "/x"), -ENOENT);
	assert_int_equal(err.code, ENOENT);
	assert_string_equal(err.msg, "open '/x'");
}

static void fail_accepts_no_error_struct(void **state)
{
	assert_int_equal(fail(NULL, EPERM, "%s", "nobody reads this"), -EPERM);
	assert_int_equal(fail_errno(NULL, EPERM, "x"), -EPERM);
	assert_int_equal(fail_within(NULL, -EPERM, "x"), -EPERM);
}

static void fail_never_returns_success(void **state)
{
	assert_int_equal(fail(NULL, 0, "x"), -EINVAL);
	assert_int_equal(fail(NULL, 70000, "x"), -EINVAL);
	assert_int_equal(fail(NULL, -ENOENT, "x"), -ENOENT);
}

static void preserves_errno(void **state)
{
	struct error err;

	errno = EXDEV;
	fail_errno(&err, ENOMEM, "x");
	fail_within(&err, -ENOMEM, "y");
	assert_int_equal(errno, EXDEV);
}

static void adds_the_text_of_the_code(void **state)
{
	struct error err;

	assert_int_equal(fail_errno(&err, ENOENT, "open '%s'", "/x"), -ENOENT);
	assert_string_equal(err.msg, "open '/x': No such file or directory");
}

static void puts_the_context_first(void **state)
{
	struct error err;
	int r = fail(&err, ERANGE, "'7' is out of range");

	assert_int_equal(fail_within(&err, r, "priority of %s", "a"), -ERANGE);
	assert_string_equal(err.msg, "priority of a: '7' is out of range");
	assert_int_equal(err.code, ERANGE);
}

static void ends_a_long_sentence_in_dots(void **state)
{
	struct error err;
	char text[600];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	fail(&err, EINVAL, "%s", text);
	assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
	assert_string_equal(err.msg + sizeof(err.msg) - 5, "a...");
	fail_within(&err, -EINVAL, "field");
	assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
	assert_memory_equal(err.msg, "field: aaa", 10);
}

static void a_sentence_that_just_fits_is_not_cut(void **state)
{
	struct error err;

	fail(&err, EINVAL, "%0255d", 1);
	assert_string_equal(err.msg + 252, "001");
	fail(&err, EINVAL, "%0256d", 1);
	assert_string_equal(err.msg + 252, "...");
}

static void taking_leaves_an_empty_value(void **state)
{
	char text[] = "x";
	char *p = text;
	int fd = 7;

	assert_ptr_equal(TAKE_PTR(p), text);
	assert_null(p);
	assert_int_equal(TAKE_FD(fd), 7);
	assert_int_equal(fd, -1);
}

static int count_calls(int *calls)
{
	return ++*calls;
}

static void min_and_max_evaluate_once_and_nest(void **state)
{
	int calls = 0;

	assert_int_equal(MIN(count_calls(&calls), 5), 1);
	assert_int_equal(calls, 1);
	assert_int_equal(MAX(MIN(3, 4), MAX(1, 2)), 3);
}

static void a_descriptor_is_closed_with_its_block(void **state)
{
	int seen;

	{
		_cleanup_close_ int fd = memfd_new("test", 1);

		assert_true(fd >= 0);
		seen = fd;
		errno = EXDEV;
	}
	assert_int_equal(errno, EXDEV);
	assert_int_equal(fcntl(seen, F_GETFD), -1);
	assert_int_equal(errno, EBADF);
}

UNIT_MAIN(UNIT(returns_the_negative_code_and_keeps_the_sentence),
	UNIT(fail_accepts_no_error_struct), UNIT(fail_never_returns_success), UNIT(preserves_errno),
	UNIT(adds_the_text_of_the_code), UNIT(puts_the_context_first),
	UNIT(ends_a_long_sentence_in_dots), UNIT(a_sentence_that_just_fits_is_not_cut),
	UNIT(taking_leaves_an_empty_value), UNIT(min_and_max_evaluate_once_and_nest),
	UNIT(a_descriptor_is_closed_with_its_block))
