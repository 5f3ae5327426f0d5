/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cmdline/output.h"

static const struct option_row options[] = {CLI_SOCKET_OPTION, {0}};

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
	.text = "The tenant's share is free for others at once. Programs of the tenant that run "
		"are not ended. They print a message, and their launches and allocations fail with "
		"CUDA_ERROR_DEVICE_UNAVAILABLE from then on, as does each call of those with a "
		"--remote GPU. Device memory that such a program holds is free for others once it "
		"has ended. The command is meant for what `divvy apply --once` has left, and for "
		"what no program will use again.\n\nTENANT is the id or the name that `divvy ps` "
		"shows; of several with one name the newest is meant.",
	.examples = "divvy remove ns/pod\ndivvy remove 12",
	.options = options,
	.operand = CLI_TENANT,
	.operands_min = 1,
	.operands_max = 1,
	.run = run,
};
