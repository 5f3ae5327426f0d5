/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy version` prints the version of this program and then the daemon's version. A daemon that
 * does not run or does not answer is no failure: the command reports it and returns 0.
 */
#include <stdio.h>

#include "cli/cli-text.h"
#include "cli/cli-client.h"
#include "cli/cli-commands.h"
#include "cmdline/output.h"
#include "wire/msg.h"

static const struct option_row options[] = {CLI_SOCKET_OPTION, {0}};

static int cmd_version_run(const struct cli_args *args, struct error *err)
{
	_cleanup_client_ struct client c = CLIENT_NONE;
	_cleanup_json_ json_t *answer = NULL;

	printf("divvy %s (abi %u)\n", DIVVY_VERSION, MSG_ABI);
	if (client_connect(&c, cli_get(args, "socket"), NULL) < 0 ||
		client_ask(&c, "ping", NULL, &answer, NULL) < 0) {
		puts("divvyd does not run");
		return 0;
	}
	printf("divvyd %s (abi %d), pid %d, %d device%s%s, at %s\n",
		json_text_or_empty(answer, "version"), (int)json_int_or_zero(answer, "abi"),
		(int)json_int_or_zero(answer, "pid"), (int)json_int_or_zero(answer, "devices"),
		json_int_or_zero(answer, "devices") == 1 ? "" : "s",
		json_bool_or_false(answer, "simulated") ? " (simulated)" : "", c.socket);
	return 0;
}

const struct cli_command cmd_version = {
	.name = "version",
	.operands = "",
	.summary = "Show the versions of divvy and of the running daemon",
	.text = TEXT_VERSION_TEXT,
	.options = options,
	.run = cmd_version_run,
};
