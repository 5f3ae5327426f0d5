/* SPDX-License-Identifier: Apache-2.0 */
/* Credential plugins: what they print, how much of it, and what the user reads when they fail. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "../../patience.h"
#include "kube/exec.h"

#define VERSION "client.authentication.k8s.io/v1"
#define CREDENTIAL \
	"{\"kind\":\"ExecCredential\",\"apiVersion\":\"" VERSION "\",\"status\":{\"token\":\"t\"}}"

struct result {
	bool is_done;
	int r;
	char token[8];
	struct error err;
};

static void on_done(void *data, int r, struct exec_result *result, const struct error *err)
{
	struct result *got = data;

	got->is_done = true;
	got->r = r;
	got->err = *err;
	snprintf(got->token, sizeof(got->token), "%s", result->token ? result->token : "");
}

/* Runs the script, or the program if the script is NULL, to its end. */
static struct result run(const char *program, const char *script)
{
	static char *env[] = {NULL};
	char *argv[] = {
		(char *)(uintptr_t)program, script ? "-c" : NULL, (char *)(uintptr_t)script, NULL};
	struct kube_exec exec = {.where = "f: users[u].exec",
		.api_version = VERSION,
		.argv = argv,
		.env = env,
		.hint = "install it"};
	const struct kube_config config = {.server = "https://s", .exec = &exec};
	struct result result = {.is_done = false};
	struct exec_run *started = NULL;
	struct loop *loop = NULL;
	int r;

	assert_ok(loop_new(&loop));
	r = exec_start(loop, &config, patience_ns(EXEC_TIMEOUT_NS), on_done, &result, &started,
		&result.err);
	if (r < 0)
		result.r = r;
	while (r >= 0 && !result.is_done)
		r = loop_run_once(loop, CLOCK_NEVER);
	loop_free(loop);
	return result;
}

static void a_plugin_prints_a_token(void **state)
{
	const struct result got = run("sh", "echo '" CREDENTIAL "'");

	assert_ok(got.r);
	assert_string_equal(got.token, "t");
}

static void a_missing_plugin_is_named_with_the_hint(void **state)
{
	const struct result got = run("/no/such/plugin", NULL);

	assert_int_equal(got.r, -ENOENT);
	assert_string_equal(got.err.msg,
		"f: users[u].exec: start '/no/such/plugin': No such file or directory: install it");
}

/* The output is a credential and then blanks up to that size. */
static struct result run_of_size(size_t size)
{
	char script[512];

	snprintf(script, sizeof(script), "printf %%s '" CREDENTIAL "'; printf %%%zus ''",
		size - strlen(CREDENTIAL));
	return run("sh", script);
}

static void output_has_a_limit(void **state)
{
	struct result got = run_of_size(EXEC_OUTPUT_MAX);

	assert_ok(got.r);
	assert_string_equal(got.token, "t");
	got = run_of_size(EXEC_OUTPUT_MAX + 1);
	assert_int_equal(got.r, -EMSGSIZE);
	assert_contains(got.err.msg, "'sh' wrote more than 1048576 bytes");
	/* A plugin that writes twice the limit is ended by SIGPIPE. */
	got = run_of_size(2 * EXEC_OUTPUT_MAX);
	assert_int_equal(got.r, -EMSGSIZE);
	assert_contains(got.err.msg, "'sh' wrote more than 1048576 bytes");
}

static void a_failure_shows_the_last_line(void **state)
{
	const struct result got = run("sh", "echo first >&2; echo last >&2; exit 3");

	assert_int_equal(got.r, -EACCES);
	assert_contains(got.err.msg, "'sh' failed with status 3: last");
}

UNIT_MAIN(UNIT(a_plugin_prints_a_token), UNIT(a_missing_plugin_is_named_with_the_hint),
	UNIT(output_has_a_limit), UNIT(a_failure_shows_the_last_line))
