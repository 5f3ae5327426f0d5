/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy set` sends changed spec fields, a new name, or both to the daemon in one request.
 * cmd_set_check() parses the same fields without a daemon, and refuses a command that changes
 * nothing. The line that the command prints comes from the daemon's answer, so it shows the spec
 * that is in force.
 */
#include <errno.h>
#include <stdio.h>

#include "base/format.h"
#include "cli/cli-text.h"
#include "cli/cli-client.h"
#include "cli/cli-commands.h"
#include "cli/spec-options.h"
#include "cmdline/output.h"

static const struct option_row options[] = {
	SPEC_OPTIONS_LIVE,
	{"name", "NAME", "the tenant's new name"},
	CLI_OUTPUT_OPTION,
	CLI_SOCKET_OPTION,
	{0},
};

static int cmd_set_check(const struct cli_args *args, struct error *err)
{
	json_t *spec = spec_options_json(args);
	const bool is_empty = !json_object_size(spec) && !cli_has(args, "name");

	json_decref(spec);
	if (is_empty)
		return fail(err, EINVAL,
			"no change requested; use --limit, --request, --memory, --class, "
			"--priority or --name");
	return spec_options_check_change(args, err);
}

static int cmd_set_run(const struct cli_args *args, struct error *err)
{
	_cleanup_client_ struct client c = CLIENT_NONE;
	_cleanup_json_ json_t *answer = NULL, *request = NULL;
	json_t *spec = spec_options_json(args);
	const json_t *tenant, *device;
	int r;

	request = json_pack("{s:s, s:s}", "cmd", "set", "tenant", args->operand[0]);
	if (cli_has(args, "name"))
		json_object_set_new(request, "name", json_string(cli_get(args, "name")));
	json_object_set_new(request, "spec", spec);
	r = client_connect(&c, cli_get(args, "socket"), err);
	r = r < 0 ? r : client_call(&c, TAKE_PTR(request), &answer, err);
	if (r < 0)
		return r;
	tenant = json_object_get(answer, "tenant");
	r = output_as_table(args, tenant, err);
	if (r != 1)
		return r;
	spec = json_object_get(tenant, "spec");
	device = json_array_get(json_object_get(tenant, "devices"), 0);
	printf("%s (%d): request %s, limit %s, memory %s, class %s, priority %d\n",
		json_text_or_empty(tenant, "name"), (int)json_int_or_zero(tenant, "id"),
		format_share((uint32_t)json_uint_or_zero(spec, "request_permille")).s,
		format_share((uint32_t)json_uint_or_zero(spec, "limit_permille")).s,
		format_bytes(json_uint_or_zero(device, "memory_quota_bytes")).s,
		json_text_or_empty(spec, "class"), (int)json_int_or_zero(spec, "priority"));
	if (json_text_or_empty(answer, "note")[0])
		fprintf(stderr, "divvy set: %s\n", json_text_or_empty(answer, "note"));
	return 0;
}

const struct cli_command cmd_set = {
	.name = "set",
	.operands = "TENANT",
	.summary = "Change a tenant's share, memory or class while it runs",
	.text = TEXT_SET_TEXT,
	.examples = "divvy set train --limit 0.5\ndivvy set 12 --class opportunistic",
	.options = options,
	.operand = CLI_TENANT,
	.operands_min = 1,
	.operands_max = 1,
	.check = cmd_set_check,
	.run = cmd_set_run,
};
