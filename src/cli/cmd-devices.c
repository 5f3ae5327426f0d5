/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy devices` prints the daemon's answer to `devices`, one row for each device. JSON and YAML
 * show the daemon's list unchanged. The daemon's notes about devices follow below the table.
 */
#include <stdio.h>

#include "base/format.h"
#include "cli/cli-text.h"
#include "cli/cli-client.h"
#include "cli/cli-commands.h"
#include "cli/cli-start.h"
#include "cmdline/output.h"

static const struct option_row options[] = {CLI_OUTPUT_OPTION, CLI_SOCKET_OPTION, {0}};

static const struct table_column columns[] = {
	{"DEVICE", true},
	{"MODEL", false},
	{"UUID", false},
	{"MEMORY", true},
	{"USED", true},
	{"FREE", true},
	{"REQUESTED", true},
	{"LEFT", true},
	{"BUSY", true},
	{"TENANTS", true},
	{"WAITING", true},
};

static void cmd_devices_add_device(struct table *t, const json_t *d)
{
	table_addf(t, "%d", (int)json_int_or_zero(d, "index"));
	table_add(t, json_text_or_empty(d, "model"));
	table_add(t, json_text_or_empty(d, "uuid"));
	table_addf(t, "%s", format_bytes(json_uint_or_zero(d, "memory_bytes")).s);
	table_addf(t, "%s", format_bytes(json_uint_or_zero(d, "memory_used_bytes")).s);
	table_addf(t, "%s", format_bytes(json_uint_or_zero(d, "memory_free_bytes")).s);
	table_addf(t, "%s", format_percent((uint32_t)json_uint_or_zero(d, "request_permille")).s);
	table_addf(t, "%s",
		json_bool_or_false(d, "exclusive")
			? "exclusive"
			: format_percent((uint32_t)json_uint_or_zero(d, "request_free_permille"))
				  .s);
	table_addf(t, "%s", format_percent((uint32_t)json_uint_or_zero(d, "busy_permille")).s);
	table_addf(t, "%zu", json_array_size(json_object_get(d, "tenants")));
	table_addf(t, "%zu", json_array_size(json_object_get(d, "waiting")));
}

static int cmd_devices_run(const struct cli_args *args, struct error *err)
{
	_cleanup_client_ struct client c = CLIENT_NONE;
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_table_ struct table t;
	const json_t *devices;
	int r;

	table_init(&t, columns, ARRAY_SIZE(columns));
	r = client_connect(&c, cli_get(args, "socket"), err);
	r = r < 0 ? r : client_ask(&c, "devices", NULL, &answer, err);
	if (r < 0)
		return r;
	devices = json_object_get(answer, "devices");
	r = output_as_table(args, devices, err);
	if (r != 1)
		return r;
	output_simulated(answer);
	for (size_t i = 0; i < json_array_size(devices); i++)
		cmd_devices_add_device(&t, json_array_get(devices, i));
	r = output_table(&t, err);
	for (size_t i = 0; r == 0 && i < json_array_size(devices); i++) {
		const json_t *d = json_array_get(devices, i);

		if (json_text_or_empty(d, "note")[0])
			printf("device %d: %s\n", (int)json_int_or_zero(d, "index"),
				json_text_or_empty(d, "note"));
	}
	return r;
}

const struct cli_command cmd_devices = {
	.name = "devices",
	.operands = "",
	.summary = "List the devices with their memory, requests and free capacity",
	.text = TEXT_DEVICES_TEXT,
	.examples = "divvy devices\ndivvy devices -o yaml",
	.options = options,
	.run = cmd_devices_run,
};
