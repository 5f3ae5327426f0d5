/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/program.h"
#include "base/str.h"

struct options {
	const char *name, *color;
	uint64_t n;
	bool is_loud, has_echo;
	unsigned int n_finished;
};

static int check_color(const char *value, struct error *err)
{
	return strcmp(value, "red") ? fail(err, EINVAL, "'%s': expected red", value) : 0;
}

static int set_number(void *data, const char *value, struct error *err)
{
	struct options *o = data;

	o->n = 7;
	return value ? parse_uint(str_from(value), 0, 9, &o->n, err) : 0;
}

static int finish(void *data, struct error *err)
{
	struct options *o = data;

	o->n_finished++;
	return o->is_loud && !o->name ? fail(err, EINVAL, "--loud needs --name") : 0;
}

static const struct option_row table[] = {
	{"name", "NAME", "whose", offsetof(struct options, name)},
	{"color", "COLOR", "which", offsetof(struct options, color), .preset = "blue",
		.check = check_color},
	{"number", "N", "how many", .set = set_number, .is_maybe = true},
	{"loud", NULL, "say so", offsetof(struct options, is_loud)},
	{"echo", NULL, "and again", offsetof(struct options, has_echo), .needs = "loud"},
	{0},
};

static const struct program program = {
	.name = "test", .sentence = "Tests.", .options = table, .finish = finish};

#define PARSE(o, err, ...) parse((o), (err), (char *[]){"test", __VA_ARGS__, NULL})

static int parse(struct options *o, struct error *err, char **argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	*o = (struct options){0};
	return program_parse(&program, o, argc, argv, err);
}

static void options_set_their_fields(void **state)
{
	struct options o;
	struct error err;

	assert_ok(PARSE(&o, &err, "--name", "a", "--number=3", "--loud"));
	assert_string_equal(o.name, "a");
	assert_string_equal(o.color, "blue");
	assert_int_equal(o.n, 3);
	assert_true(o.is_loud);
	assert_int_equal(o.n_finished, 1);
	assert_ok(PARSE(&o, &err, "--echo", "--name=a", "--loud"));
	assert_true(o.has_echo);
	assert_ok(PARSE(&o, &err, "--color=red", "--number"));
	assert_null(o.name);
	assert_string_equal(o.color, "red");
	assert_int_equal(o.n, 7);
	assert_false(o.is_loud);
}

static void errors_name_the_wrong_option(void **state)
{
	static const struct {
		char *first, *second;
		const char *named, *right;
	} cases[] = {
		{"--nonsense", NULL, "--nonsense", "--help"},
		{"--name", NULL, "--name", "value is missing"},
		{"--name=", NULL, "--name: the value is empty", "--help"},
		{"--loud=1", NULL, "--loud=1", "takes no value"},
		{"--color", "green", "--color: 'green'", "expected red"},
		{"--number=10", NULL, "--number: ", "9"},
		{"word", NULL, "'word'", "options only"},
		{"--log", "loud", "--log loud", "error, warn"},
		{"--loud", NULL, "--loud", "needs --name"},
		{"--echo", "--name=a", "--echo", "works only together with --loud"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct options o;
		struct error err;

		assert_true(PARSE(&o, &err, cases[i].first, cases[i].second) < 0);
		assert_contains(err.msg, cases[i].named);
		assert_contains(err.msg, cases[i].right);
	}
}

/* The test's own result goes to stdout, so other output must be caught. */
static int stdout_catch(int *ret_own)
{
	const int caught = memfd_create("printed", 0);

	fflush(stdout);
	*ret_own = dup(STDOUT_FILENO);
	assert_true(*ret_own >= 0 && dup2(caught, STDOUT_FILENO) >= 0);
	return caught;
}

static void stdout_let_go(int own, int caught, const char *words)
{
	char text[2048] = "";

	fflush(stdout);
	assert_true(dup2(own, STDOUT_FILENO) >= 0);
	assert_true(pread(caught, text, sizeof(text) - 1, 0) > 0);
	assert_contains(text, words);
	close(caught);
	close(own);
}

/* With --help the program runs nothing, whatever the other options are. */
static void help_only_prints(void **state)
{
	struct options o;
	struct error err;
	int own, caught = stdout_catch(&own), help = PARSE(&o, &err, "--help", "--loud");

	stdout_let_go(own, caught, "--color COLOR which");
	assert_int_equal(help, 1);
	assert_int_equal(o.n_finished, 0);
}

struct heard {
	struct loop *loop;
	unsigned int n_ends, n_reloads;
};

static void on_signal(void *data, bool is_reload)
{
	struct heard *h = data;

	h->n_reloads += is_reload;
	h->n_ends += !is_reload;
	if (!is_reload)
		loop_stop(h->loop, -ENODEV);
}

PROGRAM_HOLDS_SIGNALS;

/* Signals before main, as a library's constructor might raise them. */
__attribute__((constructor)) static void be_told_to_end_at_once(void)
{
	raise(SIGTERM);
	raise(SIGINT);
}

static int run_at_once(void *options, struct program_signals *signals, struct error *err)
{
	struct heard *h = options;

	assert_ok(loop_new(&h->loop));
	assert_ok(program_watch(signals, h->loop, on_signal, h));
	loop_run(h->loop);
	program_unwatch(signals);
	loop_free(h->loop);
	return 0;
}

/* The first test that watches signals, so it finds the signals that came before main. */
static void a_signal_before_main_ends_the_program(void **state)
{
	static const struct program daemon = {.name = "test"};
	struct heard heard = {0};

	assert_int_equal(
		program_main(&daemon, run_at_once, &heard, 1, (char *[]){"test", NULL}), 0);
	assert_int_equal(heard.n_ends, 2);
}

/* The loop also handles signals that came before it runs. */
static int run(void *options, struct program_signals *signals, struct error *err)
{
	struct heard *h = options;
	int r;

	raise(SIGTERM);
	raise(SIGHUP);
	raise(SIGPIPE);
	assert_ok(loop_new(&h->loop));
	assert_ok(program_watch(signals, h->loop, on_signal, h));
	r = loop_run(h->loop);
	program_unwatch(signals);
	loop_free(h->loop);
	return fail(err, -r, "no device");
}

static void signals_come_from_the_loop(void **state)
{
	static const struct program daemon = {.name = "test", .has_reload = true};
	struct heard heard = {0};

	assert_int_equal(program_main(&daemon, run, &heard, 1, (char *[]){"test", NULL}), 1);
	assert_int_equal(heard.n_ends, 1);
	assert_int_equal(heard.n_reloads, 1);
}

static void wrong_options_are_usage(void **state)
{
	struct options o = {0};
	int own, caught, version;

	assert_int_equal(
		program_main(&program, NULL, &o, 2, (char *[]){"test", "--loud", NULL}), 2);
	caught = stdout_catch(&own);
	version = program_main(&program, NULL, &o, 2, (char *[]){"test", "--version", NULL});
	stdout_let_go(own, caught, "test ");
	assert_int_equal(version, 0);
}

UNIT_MAIN(UNIT(options_set_their_fields), UNIT(errors_name_the_wrong_option),
	UNIT(help_only_prints), UNIT(a_signal_before_main_ends_the_program),
	UNIT(signals_come_from_the_loop), UNIT(wrong_options_are_usage))
