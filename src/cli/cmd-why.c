/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy why` prints for each device of a tenant the cause that holds the tenant back, and numbers
 * such as the tenant's use and memory. Causes and numbers come from the daemon's answer to `why`,
 * name and spec from its answer to `list`. The tenant may change between these two requests.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/format.h"
#include "cli/cli-text.h"
#include "cli/cli-client.h"
#include "cli/cli-commands.h"
#include "cmdline/output.h"

static const struct option_row options[] = {CLI_OUTPUT_OPTION, CLI_SOCKET_OPTION, {0}};

static void print_device(const json_t *tenant, const json_t *w)
{
	const json_t *spec = json_object_get(tenant, "spec");
	const char *sentence = json_text_or_empty(w, "sentence"), *end = strrchr(sentence, '?');
	const int64_t lag = json_int_or_zero(w, "lag_ns");

	printf("%s (%d) on device %d: %s%s\n", json_text_or_empty(tenant, "name"),
		(int)json_int_or_zero(tenant, "id"), (int)json_int_or_zero(w, "index"), sentence,
		end && !end[1] ? "" : ".");
	printf("  request %s, limit %s, class %s; entitled to %s now\n",
		format_percent((uint32_t)json_uint_or_zero(spec, "request_permille")).s,
		format_percent((uint32_t)json_uint_or_zero(spec, "limit_permille")).s,
		json_text_or_empty(spec, "class"),
		format_percent((uint32_t)json_uint_or_zero(w, "entitlement_permille")).s);
	printf("  used %s of the last second, %s of the last 10 s; %s in total, waited %s\n",
		format_percent(json_used_permille(w)).s,
		format_percent(
			(uint32_t)json_uint_renamed(w, "used_10s_permille", "got_10s_permille"))
			.s,
		format_duration(json_uint_or_zero(w, "used_ns")).s,
		format_duration(json_uint_or_zero(w, "waited_ns")).s);
	printf("  %s %s; memory %s of %s\n", lag < 0 ? "in debt by" : "behind by",
		format_duration((uint64_t)(lag < 0 ? -lag : lag)).s,
		format_bytes(json_uint_or_zero(w, "memory_used_bytes")).s,
		format_bytes(json_uint_or_zero(w, "memory_quota_bytes")).s);
	if (json_uint_or_zero(w, "excess_bytes"))
		printf("  the device reports %s more, which divvy does not count; see divvy "
		       "doctor\n",
			format_bytes(json_uint_or_zero(w, "excess_bytes")).s);
}

static int cmd_why_run(const struct cli_args *args, struct error *err)
{
	_cleanup_client_ struct client c = CLIENT_NONE;
	_cleanup_json_ json_t *why = NULL, *list = NULL;
	const json_t *devices, *tenant;
	int r = client_connect(&c, cli_get(args, "socket"), err);

	r = r < 0 ? r : client_ask(&c, "why", args->operand[0], &why, err);
	r = r < 0 ? r : client_ask(&c, "list", args->operand[0], &list, err);
	if (r < 0)
		return r;
	devices = json_object_get(why, "why");
	r = output_as_table(args, devices, err);
	if (r != 1)
		return r;
	output_simulated(list);
	tenant = json_array_get(json_object_get(list, "tenants"), 0);
	for (size_t i = 0; i < json_array_size(devices); i++)
		print_device(tenant, json_array_get(devices, i));
	if (json_text_or_empty(why, "note")[0])
		printf("%s (%d): %s.\n", json_text_or_empty(tenant, "name"),
			(int)json_int_or_zero(tenant, "id"), json_text_or_empty(why, "note"));
	return 0;
}

const struct cli_command cmd_why = {
	.name = "why",
	.operands = "TENANT",
	.summary = "Show why a tenant gets less device time than it wants now",
	.text = TEXT_WHY_TEXT,
	.examples = "divvy why train",
	.options = options,
	.operand = CLI_TENANT,
	.operands_min = 1,
	.operands_max = 1,
	.run = cmd_why_run,
};
