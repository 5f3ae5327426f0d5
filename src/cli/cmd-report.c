/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy report` prints the used time and memory of each tenant, as the daemon has summed them up.
 * The command rounds --since up to whole seconds, and the table shows local time. An idle daemon
 * may have exited and left its usage files in the runtime folder. cmd_report_connect_daemon() then
 * says in its error that the usage still exists.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "cli/cli-text.h"
#include "cli/cli-client.h"
#include "cli/cli-commands.h"
#include "cli/cli-path.h"
#include "cmdline/output.h"

static const struct option_row options[] = {
	{"since", "TIME", "period up to now, such as 1h or 7d (default: all)", .letter = 's'},
	CLI_OUTPUT_OPTION,
	CLI_SOCKET_OPTION,
	{0},
};

static const struct table_column columns[] = {
	{"ID", true},
	{"NAME", false},
	{"GPU-SECONDS", true},
	{"GIB-SECONDS", true},
	{"WAITED", true},
	{"REQUESTED", true},
	{"LIMIT", true},
	{"FIRST", false},
	{"LAST", false},
};

static void add_time(struct table *t, int64_t seconds)
{
	const time_t at = (time_t)seconds;
	struct tm parts;
	char text[32];

	localtime_r(&at, &parts);
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &parts);
	table_add(t, text);
}

static void cmd_report_add_tenant(struct table *t, const json_t *tenant)
{
	table_addf(t, "%d", (int)json_int_or_zero(tenant, "id"));
	table_add(t, json_text_or_empty(tenant, "name"));
	table_addf(t, "%.1f", json_real_or_zero(tenant, "gpu_seconds"));
	table_addf(t, "%.1f", json_real_or_zero(tenant, "gib_seconds"));
	table_addf(t, "%.1f", json_real_or_zero(tenant, "waited_seconds"));
	table_addf(
		t, "%s", format_percent((uint32_t)json_uint_or_zero(tenant, "request_permille")).s);
	table_addf(
		t, "%s", format_percent((uint32_t)json_uint_or_zero(tenant, "limit_permille")).s);
	add_time(t, json_int_or_zero(tenant, "first_s"));
	if (json_bool_or_false(tenant, "alive"))
		table_add(t, "running");
	else
		add_time(t, json_int_or_zero(tenant, "last_s"));
}

static const uint64_t since_bounds[] = {NSEC_PER_SEC, NSEC_PER_SEC * 86400 * 36500};

static int cmd_report_check(const struct cli_args *args, struct error *err)
{
	uint64_t since;

	return cli_get_duration_within(args, "since", 0, since_bounds, &since, err);
}

/* An idle daemon may have exited; its usage files still exist, and the error says so. */
static int cmd_report_connect_daemon(struct client *c, const char *socket, struct error *err)
{
	char folder[PLACES_PATH], path[PLACES_PATH + 8], log[PLACES_PATH + 16];
	int r = client_connect(c, socket, err);

	if ((r != -ENOENT && r != -ECONNREFUSED) || socket || cli_path_socket_named() ||
		cli_path_runtime(folder, sizeof(folder), NULL) < 0)
		return r;
	snprintf(path, sizeof(path), "%s/usage", folder);
	snprintf(log, sizeof(log), "%s-log", path); /* a killed daemon leaves only this file */
	if (access(path, F_OK) == 0 || access(log, F_OK) == 0)
		return fail(err, -r,
			"no daemon runs here; '%s' keeps the usage: `divvy run` starts a daemon "
			"that reports it, or start divvyd",
			path);
	return r;
}

static int cmd_report_run(const struct cli_args *args, struct error *err)
{
	_cleanup_client_ struct client c = CLIENT_NONE;
	_cleanup_json_ json_t *request = json_pack("{s:s}", "cmd", "report"), *answer = NULL;
	_cleanup_table_ struct table t;
	const json_t *tenants;
	uint64_t since = 0;
	int r;

	table_init(&t, columns, ARRAY_SIZE(columns));
	r = cli_get_duration_within(args, "since", 0, since_bounds, &since, err);
	if (r < 0)
		return r;
	if (since)
		json_object_set_new(request, "since_s",
			json_integer((json_int_t)((since + NSEC_PER_SEC - 1) / NSEC_PER_SEC)));
	r = cmd_report_connect_daemon(&c, cli_get(args, "socket"), err);
	r = r < 0 ? r : client_call(&c, TAKE_PTR(request), &answer, err);
	if (r < 0)
		return r;
	r = output_as_table(args, answer, err);
	if (r != 1)
		return r;
	tenants = json_object_get(answer, "tenants");
	for (size_t i = 0; i < json_array_size(tenants); i++)
		cmd_report_add_tenant(&t, json_array_get(tenants, i));
	return output_table(&t, err);
}

const struct cli_command cmd_report = {
	.name = "report",
	.operands = "",
	.summary = "Show the GPU time and the memory time that each tenant has used",
	.text = TEXT_REPORT_TEXT,
	.examples = "divvy report --since 1h\ndivvy report -o json",
	.options = options,
	.check = cmd_report_check,
	.run = cmd_report_run,
};
