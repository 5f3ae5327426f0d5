/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy apply` sends the path of a Gemini configuration to the daemon, which reads and follows the
 * file. The command makes the path absolute, because the daemon has another working directory. With
 * --stop the command starts no daemon, and the file itself may no longer exist. The table shows all
 * lines of the answer; refused lines follow on stderr and set the exit status.
 */
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli-text.h"
#include "cli/cli-commands.h"
#include "cli/cli-path.h"
#include "cli/cli-start.h"
#include "cmdline/output.h"

static const struct option_row options[] = {
	{"file", "FILE", "the Gemini resource configuration to apply", .letter = 'f'},
	{"once", NULL, "read the file once and do not follow its changes"},
	{"stop", NULL, "remove the file's tenants and stop following the file"},
	CLI_OUTPUT_OPTION,
	CLI_SOCKET_OPTION,
	{0},
};

static int cmd_apply_print_tenants(const json_t *tenants, struct error *err)
{
	static const struct table_column columns[] = {
		{"ID", true}, {"NAME", false}, {"ACTION", false}, {"SECRET", false}};
	_cleanup_table_ struct table t;
	int r, refused = 0;

	table_init(&t, columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < json_array_size(tenants); i++) {
		const json_t *tenant = json_array_get(tenants, i);

		table_addf(&t, "%d", (int)json_int_or_zero(tenant, "id"));
		table_add(&t, json_text_or_empty(tenant, "name"));
		table_add(&t, json_text_or_empty(tenant, "action"));
		table_add(&t, json_text_or_empty(tenant, "secret"));
	}
	r = output_table(&t, err);
	for (size_t i = 0; r == 0 && i < json_array_size(tenants); i++) {
		const json_t *tenant = json_array_get(tenants, i);

		if (!json_text_or_empty(tenant, "error")[0])
			continue;
		fprintf(stderr, "divvy apply: %s: %s\n", json_text_or_empty(tenant, "name"),
			json_text_or_empty(tenant, "error"));
		refused = CLI_EXIT_FAILED;
	}
	return r < 0 ? r : refused;
}

/*
 * Makes the caller's path absolute. A file that the daemon follows may have been removed, so --stop
 * only needs the file's folder to exist.
 */
static char *cmd_apply_absolute_path(const char *path, bool may_be_gone)
{
	char *full = realpath(path, NULL), copy[PLACES_PATH], *joined = NULL;
	_cleanup_free_ char *folder = NULL;
	const char *slash = strrchr(path, '/');

	if (full || errno != ENOENT || !may_be_gone ||
		str_copy(copy, sizeof(copy), str_from(path)) < 0)
		return full;
	folder = realpath(dirname(copy), NULL);
	if (!folder || asprintf(&joined, "%s/%s", folder, slash ? slash + 1 : path) < 0)
		return NULL;
	return joined;
}

static int cmd_apply_check(const struct cli_args *args, struct error *err)
{
	if (!cli_has(args, "file"))
		return fail(
			err, EINVAL, "--file is missing; write divvy apply -f resource-config.txt");
	if (cli_has(args, "once") && cli_has(args, "stop"))
		return fail(err, EINVAL, "--once and --stop exclude each other; keep one");
	return 0;
}

static int cmd_apply_run(const struct cli_args *args, struct error *err)
{
	_cleanup_client_ struct client c = CLIENT_NONE;
	_cleanup_json_ json_t *request = NULL, *answer = NULL;
	_cleanup_free_ char *path = NULL;
	int r;

	path = cmd_apply_absolute_path(cli_get(args, "file"), cli_has(args, "stop"));
	if (!path)
		return fail_errno(err, errno, "open '%s'", cli_get(args, "file"));
	request = json_pack("{s:s, s:s}", "cmd", "apply", "path", path);
	if (cli_has(args, "once"))
		json_object_set_new(request, "follow", json_false());
	if (cli_has(args, "stop"))
		json_object_set_new(request, "stop", json_true());
	r = cli_has(args, "stop") ? client_connect(&c, cli_get(args, "socket"), err)
				  : start_daemon(&c, cli_get(args, "socket"), NULL, err);
	r = r < 0 ? r : client_call(&c, TAKE_PTR(request), &answer, err);
	if (r < 0)
		return r;
	r = output_as_table(args, json_object_get(answer, "tenants"), err);
	return r != 1 ? r : cmd_apply_print_tenants(json_object_get(answer, "tenants"), err);
}

const struct cli_command cmd_apply = {
	.name = "apply",
	.operands = "-f FILE",
	.summary = "Create tenants from a Gemini resource configuration and follow its changes",
	.text = TEXT_APPLY_TEXT,
	.examples = "divvy apply -f resource-config.txt\ndivvy apply -f resource-config.txt --stop",
	.exit_status = "0 on success, 1 on failure or when a line was refused, 2 on wrong usage.",
	.options = options,
	.check = cmd_apply_check,
	.run = cmd_apply_run,
};
