/* SPDX-License-Identifier: Apache-2.0 */
/* The option parser, the suggestions, and the consistency of every command's table. */
#include "../unit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cli/cli-commands.h"
#include "spec/spec.h"

static const struct option_row options[] = {
	{"limit", "SHARE", "a", .letter = 'l'},
	{"output", "F", "b", .letter = 'o', .choices = "table json"},
	{"wait", "TIME", "c", .letter = 'w', .is_maybe = true},
	{"quiet", NULL, "d", .letter = 'q'},
	{"force", NULL, "e", .letter = 'f'},
	{0},
};

static const struct cli_command command = {
	.name = "test", .operands = "[A [B]]", .options = options, .operands_max = 2};
static const struct cli_command program = {.name = "run",
	.operands = "CMD",
	.options = options,
	.operands_min = 1,
	.operands_max = -1,
	.is_program = true};

/* The parser changes argv in place, so each call has a fresh copy of the pointers. */
#define PARSE(c, ...) \
	({ \
		static char *argv_copy[] = {__VA_ARGS__, NULL}; \
		memset(&args, 0, sizeof(args)); \
		memset(&err, 0, sizeof(err)); \
		cli_parse(c, (int)(sizeof(argv_copy) / sizeof(*argv_copy)) - 1, argv_copy, &args, \
			&err); \
	})

static struct cli_args args;
static struct error err;

static void takes_values_in_every_spelling(void **state)
{
	assert_ok(PARSE(&command, "--limit=0.5", "-o", "json", "-qf", "tenant"));
	assert_string_equal(cli_get(&args, "limit"), "0.5");
	assert_string_equal(cli_get(&args, "output"), "json");
	assert_true(cli_has(&args, "quiet") && cli_has(&args, "force") && !cli_has(&args, "wait"));
	assert_int_equal(args.n_operands, 1);
	assert_string_equal(args.operand[0], "tenant");
	assert_ok(PARSE(&command, "a", "--limit", "1", "-ojson", "b", "--wait"));
	assert_string_equal(cli_get(&args, "limit"), "1");
	assert_string_equal(cli_get(&args, "output"), "json");
	assert_string_equal(cli_get(&args, "wait"), "");
	assert_string_equal(args.operand[1], "b");
	assert_null(args.operand[2]);
}

static void leaves_the_programs_options_alone(void **state)
{
	assert_ok(PARSE(&program, "-q", "python3", "--limit", "9", "-x"));
	assert_null(cli_get(&args, "limit"));
	assert_int_equal(args.n_operands, 4);
	assert_string_equal(args.operand[3], "-x");
	assert_ok(PARSE(&program, "--limit=1", "--", "--odd", "--"));
	assert_int_equal(args.n_operands, 2);
	assert_string_equal(args.operand[0], "--odd");
	assert_string_equal(args.operand[1], "--");
}

static void refuses_with_a_message(void **state)
{
	assert_int_equal(PARSE(&command, "--limt=1"), -EINVAL);
	assert_contains(err.msg, "did you mean '--limit'");
	assert_int_equal(PARSE(&command, "--elephant"), -EINVAL);
	assert_contains(err.msg, "--help");
	assert_int_equal(PARSE(&command, "-z"), -EINVAL);
	assert_contains(err.msg, "'-z'");
	assert_int_equal(PARSE(&command, "--limit"), -EINVAL);
	assert_contains(err.msg, "--limit=SHARE");
	assert_int_equal(PARSE(&command, "--limit="), -EINVAL);
	assert_contains(err.msg, "empty");
	assert_int_equal(PARSE(&command, "--wait="), -EINVAL);
	assert_contains(err.msg, "--wait has an empty value; write --wait=TIME");
	assert_int_equal(PARSE(&command, "-l", ""), -EINVAL);
	assert_contains(err.msg, "-l has an empty value");
	assert_int_equal(PARSE(&command, "--quiet=1"), -EINVAL);
	assert_contains(err.msg, "no value");
	assert_int_equal(PARSE(&command, "-o", "xml"), -EINVAL);
	assert_contains(err.msg, "table json");
	assert_int_equal(PARSE(&command, "-q", "-q"), -EINVAL);
	assert_contains(err.msg, "twice");
	assert_int_equal(PARSE(&command, "a", "b", "c"), -EINVAL);
	assert_contains(err.msg, "unexpected argument 'c'");
	assert_int_equal(PARSE(&program, "-q"), -EINVAL);
	assert_contains(err.msg, "missing");
}

static void help_goes_before_other_errors(void **state)
{
	assert_ok(PARSE(&program, "--help"));
	assert_true(args.help);
	assert_ok(PARSE(&command, "a", "b", "c", "-h"));
	assert_true(args.help);
}

static void reads_durations(void **state)
{
	uint64_t ns = 0;

	assert_ok(PARSE(&command, "--wait=1.5s"));
	assert_ok(cli_get_duration(&args, "wait", 7, &ns, &err));
	assert_int_equal(ns, 1500 * NSEC_PER_MSEC);
	assert_ok(PARSE(&command, "--wait"));
	assert_ok(cli_get_duration(&args, "wait", 7, &ns, &err));
	assert_int_equal(ns, 7);
	assert_ok(PARSE(&command, "--wait=soon"));
	assert_true(cli_get_duration(&args, "wait", 7, &ns, &err) < 0);
	assert_contains(err.msg, "--wait");
	assert_contains(err.msg, "soon");
	assert_ok(PARSE(&command, "--wait=5ms"));
	assert_int_equal(cli_get_duration_within(&args, "wait", 7,
				 (uint64_t[]){10 * NSEC_PER_MSEC, NSEC_PER_SEC}, &ns, &err),
		-ERANGE);
	assert_contains(err.msg, "--wait '5ms': out of range; expected 10ms to 1s");
}

static void suggests_only_similar_names(void **state)
{
	struct error e = {0};

	cli_unknown_command("reprot", &e);
	assert_contains(e.msg, "'report'");
	cli_unknown_command("dev", &e);
	assert_contains(e.msg, "'devices'");
	cli_unknown_command("zzzzzzzz", &e);
	assert_null(strstr(e.msg, "did you mean"));
}

static void tables_are_consistent(void **state)
{
	for (size_t i = 0; cli_commands[i]; i++) {
		const struct cli_command *c = cli_commands[i];
		size_t n = 0;

		assert_ptr_equal(cli_command_find(c->name), c);
		assert_non_null(c->run);
		assert_true(strlen(c->summary) <= 79 && strlen(c->text) > 20);
		for (; c->options[n].name; n++) {
			const struct option_row *o = &c->options[n];

			assert_true(o->value || (!o->is_maybe && !o->choices));
			assert_non_null(o->help);
			assert_int_not_equal(o->letter, 'h');
			for (size_t j = 0; j < n; j++) {
				assert_string_not_equal(o->name, c->options[j].name);
				assert_true(!o->letter || o->letter != c->options[j].letter);
			}
		}
		assert_true(n <= CLI_OPTIONS_MAX);
	}
}

static void run_has_an_option_for_every_field(void **state)
{
	static const char *const field[] = {
#define X(name, help) #name,
		SPEC_FIELDS(X)
#undef X
	};

	for (size_t i = 0; i < ARRAY_SIZE(field); i++) {
		char spelled[32];
		bool found = false;

		snprintf(spelled, sizeof(spelled), "%s", field[i]);
		for (char *p = spelled; *p; p++)
			*p = *p == '_' ? '-' : *p;
		for (const struct option_row *o = cmd_run.options; o->name; o++)
			found = found || !strcmp(o->name, spelled);
		if (!found)
			fail_msg("divvy run has no --%s", spelled);
	}
}

UNIT_MAIN(UNIT(takes_values_in_every_spelling), UNIT(leaves_the_programs_options_alone),
	UNIT(refuses_with_a_message), UNIT(help_goes_before_other_errors), UNIT(reads_durations),
	UNIT(suggests_only_similar_names), UNIT(tables_are_consistent),
	UNIT(run_has_an_option_for_every_field))
