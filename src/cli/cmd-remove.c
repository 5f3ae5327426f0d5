/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy remove` sends one `remove` request to the daemon, and prints nothing if the daemon accepts
 * the request.
 */
#include <stdio.h>

#include "cli/cli-text.h"
#include "cli/cli-client.h"
#include "cli/cli-commands.h"
#include "cmdline/output.h"

static const struct option_row options[] = {CLI_SOCKET_OPTION, {0}};

static int cmd_remove_run(const struct cli_args *args, struct error *err)
{
	_cleanup_client_ struct client c = CLIENT_NONE;
	_cleanup_json_ json_t *answer = NULL;
	int r = client_connect(&c, cli_get(args, "socket"), err);

	r = r < 0 ? r
		  : client_call(&c,
			    json_pack("{s:s, s:s}", "cmd", "remove", "tenant", args->operand[0]),
			    &answer, err);
	return r;
}

const struct cli_command cmd_remove = {
	.name = "remove",
	.operands = "TENANT",
	.summary = "Remove a tenant and free its share and memory",
	.text = TEXT_REMOVE_TEXT,
	.examples = "divvy remove ns/pod\ndivvy remove 12",
	.options = options,
	.operand = CLI_TENANT,
	.operands_min = 1,
	.operands_max = 1,
	.run = cmd_remove_run,
};
