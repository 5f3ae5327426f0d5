/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"

static int pipe_fds[2];
static int real_stderr;

static int redirect(void **state)
{
	unsetenv("DIVVY_LOG");
	unsetenv("JOURNAL_STREAM");
	real_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	return pipe2(pipe_fds, O_CLOEXEC) || dup2(pipe_fds[1], STDERR_FILENO) < 0;
}

static int restore(void **state)
{
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return 0;
}

static const char *logged(void)
{
	static char text[4096];
	ssize_t n;

	fd_set_nonblock(pipe_fds[0], true);
	n = read(pipe_fds[0], text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = 0;
	return text;
}

static void writes_name_level_and_sentence(void **state)
{
	log_init("prog");
	log_set_level(LOG_LEVEL_INFO);
	log_error("no %s", "luck");
	assert_string_equal(logged(), "prog: error: no luck\n");
	log_info("started");
	assert_string_equal(logged(), "prog: started\n");
	log_debug("secret");
	assert_string_equal(logged(), "");
}

static void the_environment_sets_the_level(void **state)
{
	setenv("DIVVY_LOG", "debug", 1);
	log_init("prog");
	assert_true(log_is_on(LOG_LEVEL_DEBUG));
	setenv("DIVVY_LOG", "error", 1);
	log_init("prog");
	assert_false(log_is_on(LOG_LEVEL_WARN));
	logged();
	setenv("DIVVY_LOG", "nonsense", 1);
	log_set_level(LOG_LEVEL_INFO);
	log_init("prog");
	assert_string_equal(logged(),
		"prog: warning: DIVVY_LOG=nonsense: expected error, warn, info or debug\n");
}

static void the_journal_gets_the_level(void **state)
{
	setenv("JOURNAL_STREAM", "1:2", 1);
	log_init("prog");
	log_set_level(LOG_LEVEL_INFO);
	log_warn("x");
	assert_string_equal(logged(), "<4>prog: warning: x\n");
}

static void one_call_is_one_line(void **state)
{
	log_init("prog");
	log_set_level(LOG_LEVEL_INFO);
	errno = EXDEV;
	log_info("a\nprog: error: forged\x1b[2J");
	assert_int_equal(errno, EXDEV);
	assert_string_equal(logged(), "prog: a?prog: error: forged?[2J\n");
}

static void a_long_line_is_cut(void **state)
{
	const char *text;

	log_init("prog");
	log_set_level(LOG_LEVEL_INFO);
	log_info("%05000d", 1);
	text = logged();
	assert_true(strlen(text) > 1000 && strlen(text) <= 1024);
	assert_int_equal(text[strlen(text) - 1], '\n');
	log_info("next");
	assert_string_equal(logged(), "prog: next\n");
}

static void lines_that_a_client_can_cause_are_limited(void **state)
{
	struct log_limit limit = {0};
	uint32_t unsaid;

	for (unsigned i = 0; i < LOG_LIMIT_LINES; i++)
		assert_true(log_may(&limit, 5 + i, &unsaid));
	for (unsigned i = 0; i < 3; i++)
		assert_false(log_may(&limit, 5 + LOG_LIMIT_NS - 1, &unsaid));
	assert_true(log_may(&limit, 5 + LOG_LIMIT_NS, &unsaid));
	assert_int_equal(unsaid, 3);
	assert_true(log_may(&limit, 5 + LOG_LIMIT_NS, &unsaid));
	assert_int_equal(unsaid, 0);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, redirect, restore)

UNIT_MAIN(CASE(writes_name_level_and_sentence), CASE(the_environment_sets_the_level),
	CASE(the_journal_gets_the_level), CASE(one_call_is_one_line), CASE(a_long_line_is_cut),
	UNIT(lines_that_a_client_can_cause_are_limited))
