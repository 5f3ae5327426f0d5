/* SPDX-License-Identifier: Apache-2.0 */
/* The scanner of command lines, and the help and man pages that it makes of a table. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/option.h"

static int check_even(const char *value, struct error *err)
{
	return strlen(value) % 2 ? fail(err, EINVAL, "'%s': expected an even one", value) : 0;
}

static const struct option_row own[] = {
	{"limit", "SHARE", "the most", .letter = 'l'},
	{"limit-time", "TIME", "how long", .check = check_even},
	{"wait", "TIME", "until it fits", .letter = 'w', .is_maybe = true},
	{"quiet", NULL, "says nothing", .letter = 'q', .old_name = "silent"},
	{"output", "FORMAT", "what to print", .choices = "table json", .old_choices = "list"},
	{0},
};
static const struct option_row common[] = {{"help", NULL, "this"}, {0}};

#define SCAN(...) \
	((struct option_scan){.table = {own, common}, \
		.argc = ARRAY_SIZE(((char *[]){__VA_ARGS__})), \
		.argv = (char *[]){__VA_ARGS__, NULL}})

static void assert_given(struct option_scan *scan, const char *name, const char *value)
{
	assert_int_equal(option_next(scan), OPTION_GIVEN);
	assert_string_equal(scan->row->name, name);
	if (value)
		assert_string_equal(scan->value, value);
	else
		assert_null(scan->value);
}

static void options_come_in_every_spelling(void **state)
{
	struct option_scan scan = SCAN(
		"--limit=1", "--limit", "-q", "-l2", "-ql", "3", "--wait", "--wait=4", "-w");

	assert_given(&scan, "limit", "1");
	assert_given(&scan, "limit", "-q");
	assert_given(&scan, "limit", "2");
	assert_given(&scan, "quiet", NULL);
	assert_given(&scan, "limit", "3");
	assert_given(&scan, "wait", NULL);
	assert_given(&scan, "wait", "4");
	assert_given(&scan, "wait", NULL);
	assert_int_equal(option_next(&scan), OPTION_END);
}

static void operands_stand_anywhere(void **state)
{
	struct option_scan scan = SCAN("a", "-", "--help", "--", "--", "-q");

	assert_int_equal(option_next(&scan), OPTION_OPERAND);
	assert_string_equal(scan.word, "a");
	assert_int_equal(option_next(&scan), OPTION_OPERAND);
	assert_given(&scan, "help", NULL);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(option_next(&scan), OPTION_OPERAND);
		assert_true(scan.is_over);
		assert_string_equal(scan.word, i ? "-q" : "--");
	}
	assert_int_equal(option_next(&scan), OPTION_END);
}

static void each_fault_has_its_own_result(void **state)
{
	struct option_scan scan = SCAN("--nonsense=1", "-qz", "--quiet=1",
		"--limit=", "--wait=", "--lim", "-l", "", "--limit");

	assert_int_equal(option_next(&scan), OPTION_UNKNOWN);
	assert_true(str_is(scan.name, "nonsense") && !scan.is_letter);
	assert_given(&scan, "quiet", NULL);
	assert_int_equal(option_next(&scan), OPTION_UNKNOWN);
	assert_true(str_is(scan.name, "z") && scan.is_letter);
	assert_int_equal(option_next(&scan), OPTION_EXTRA_VALUE);
	assert_int_equal(option_next(&scan), OPTION_EMPTY_VALUE);
	assert_int_equal(option_next(&scan), OPTION_EMPTY_VALUE);
	assert_int_equal(option_next(&scan), OPTION_UNKNOWN);
	assert_int_equal(option_next(&scan), OPTION_EMPTY_VALUE);
	assert_int_equal(option_next(&scan), OPTION_NO_VALUE);
	assert_string_equal(scan.word, "--limit");
}

static void names_may_be_abbreviated_if_accepted(void **state)
{
	struct option_scan scan = SCAN("--limit-=ab", "--limit=1", "--lim", "--h");

	scan.is_cut_accepted = true;
	assert_given(&scan, "limit-time", "ab");
	assert_given(&scan, "limit", "1");
	assert_int_equal(option_next(&scan), OPTION_UNKNOWN);
	assert_given(&scan, "help", NULL);
}

static void old_names_are_accepted_and_not_shown(void **state)
{
	const struct option_table table = {.own = own};
	struct option_scan scan = SCAN("--silent", "--sil");
	_cleanup_buf_ struct buf out = BUF_INIT(4096);

	scan.is_cut_accepted = true;
	assert_given(&scan, "quiet", NULL);
	assert_int_equal(option_next(&scan), OPTION_UNKNOWN);
	assert_ok(option_check(&own[4], "list", NULL));
	option_add_help(&out, &table,
		&(struct option_layout){
			.between = ' ', .column = OPTION_COLUMN_LONGEST, .width = 99});
	option_add_man(&out, &table);
	assert_contains(buf_text(&out), "--quiet");
	assert_null(strstr(buf_text(&out), "silent"));
	assert_null(strstr(buf_text(&out), "list"));
}

static void values_are_checked(void **state)
{
	struct error err;

	assert_ok(option_check(&own[0], "anything", &err));
	assert_ok(option_check(&own[4], "json", &err));
	assert_int_equal(option_check(&own[4], "xml", &err), -EINVAL);
	assert_string_equal(err.msg, "--output 'xml': expected one of: table json");
	assert_ok(option_check(&own[1], "ab", &err));
	assert_int_equal(option_check(&own[1], "abc", &err), -EINVAL);
	assert_string_equal(err.msg, "--limit-time: 'abc': expected an even one");
}

static void help_is_in_columns(void **state)
{
	static const struct option_row rows[] = {
		{"name", "NAME", "one two three", .needs = "loud"},
		{"loud", NULL, "all of it", .letter = 'l'},
		{"wait", "TIME", "or not", .is_maybe = true},
		{0},
	};
	const struct option_table table = {.own = rows};
	_cleanup_buf_ struct buf out = BUF_INIT(4096);

	option_add_help(&out, &table,
		&(struct option_layout){
			.between = ' ', .column = OPTION_COLUMN_LONGEST, .width = 40});
	assert_string_equal(buf_text(&out),
		"      --name NAME   with --loud: one two\n"
		"                    three\n"
		"  -l, --loud        all of it\n"
		"      --wait[=TIME] or not\n");
	buf_clear(&out);
	option_add_help(
		&out, &table, &(struct option_layout){.between = '=', .column = 16, .width = 99});
	assert_string_equal(buf_text(&out),
		"      --name=NAME\n"
		"                with --loud: one two three\n"
		"  -l, --loud    all of it\n"
		"      --wait[=TIME]\n"
		"                or not\n");
	buf_clear(&out);
	option_add_man(&out, &table);
	assert_string_equal(buf_text(&out),
		".TP\n\\fB\\-\\-name\\fR=\\fINAME\\fR\nwith \\-\\-loud: one two three.\n"
		".TP\n\\fB\\-l\\fR, \\fB\\-\\-loud\\fR\nall of it.\n"
		".TP\n\\fB\\-\\-wait\\fR[=\\fITIME\\fR]\nor not.\n");
}

UNIT_MAIN(UNIT(options_come_in_every_spelling), UNIT(operands_stand_anywhere),
	UNIT(each_fault_has_its_own_result), UNIT(names_may_be_abbreviated_if_accepted),
	UNIT(old_names_are_accepted_and_not_shown), UNIT(values_are_checked),
	UNIT(help_is_in_columns))
