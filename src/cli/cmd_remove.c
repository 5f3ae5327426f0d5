/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/output.h"

static const struct cli_option options[] = {CLI_SOCKET_OPTION, {0}};

static int run(const struct cli_args *args, struct error *err)
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
	.summary = "Take a tenant's share and memory away for good",
	.text = "What it was promised is free for others at once. Programs of it that run are not "
		"ended, but their gates close for good, and they say so; end them first if they "
		"are yours. Those with a --remote GPU are told so too, and have none from then on: "
		"each further call is CUDA_ERROR_DEVICE_UNAVAILABLE. It is meant for what `divvy "
		"apply --once` has left, and for what no "
		"program will use again.\n\nTENANT is the id or the name that `divvy ps` shows; "
		"of several with one name the newest is meant.",
	.examples = "divvy remove ns/pod\ndivvy remove 12",
	.options = options,
	.operand = CLI_TENANT,
	.operands_min = 1,
	.operands_max = 1,
	.run = run,
};
