/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy ps` prints the daemon's answer to `list`: a row for each tenant and device, or for each
 * process. The last four columns appear only if a tenant has its program on another machine. Below
 * either table, a line names each tenant that uses more memory of a device than divvy counts.
 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/format.h"
#include "cli/cli-text.h"
#include "cli/cli-client.h"
#include "cli/cli-commands.h"
#include "cmdline/output.h"

static const struct option_row options[] = {
	CLI_OUTPUT_OPTION,
	{"quiet", NULL, "print names only, one on each line", .letter = 'q'},
	{"processes", NULL, "print one line for each process", .letter = 'P'},
	CLI_SOCKET_OPTION,
	{0},
};

static const struct table_column columns[] = {
	{"ID", true},
	{"NAME", false},
	{"USER", false},
	{"CLASS", false},
	{"REQUESTED", true},
	{"USED", true},
	{"LIMIT", true},
	{"MEMORY", true},
	{"QUOTA", true},
	{"DEVICE", true},
	{"PROCS", true},
	{"WAITED", true},
	{"STATE", false},
	/* shown if a tenant's program runs on another machine */
	{"FROM", false},
	{"RTT", true},
	{"IN", true},
	{"OUT", true},
};
#define COLUMNS_REMOTE 4

static void add_remote(struct table *t, const json_t *remote)
{
	if (!remote) {
		for (int i = 0; i < COLUMNS_REMOTE; i++)
			table_add(t, "");
		return;
	}
	table_add(t, json_text_or_empty(remote, "peer"));
	table_addf(t, "%s", format_duration(json_uint_or_zero(remote, "rtt_us") * NSEC_PER_USEC).s);
	table_addf(t, "%s/s", format_bytes(json_uint_or_zero(remote, "received_per_s")).s);
	table_addf(t, "%s/s", format_bytes(json_uint_or_zero(remote, "sent_per_s")).s);
}

static void cmd_ps_add_tenant(struct table *t, const json_t *tenant, const json_t *device)
{
	const json_t *spec = json_object_get(tenant, "spec"), *pod = json_object_get(tenant, "pod");

	table_addf(t, "%d", (int)json_int_or_zero(tenant, "id"));
	if (pod)
		table_addf(t, "%s/%s/%s", json_text_or_empty(pod, "namespace"),
			json_text_or_empty(pod, "name"), json_text_or_empty(pod, "container"));
	else
		table_add(t, json_text_or_empty(tenant, "name"));
	table_add(t, json_text_or_empty(tenant, "user"));
	table_add(t, json_text_or_empty(spec, "class"));
	table_addf(
		t, "%s", format_percent((uint32_t)json_uint_or_zero(spec, "request_permille")).s);
	table_addf(t, "%s", format_percent(json_used_permille(device)).s);
	table_addf(t, "%s", format_percent((uint32_t)json_uint_or_zero(spec, "limit_permille")).s);
	table_addf(t, "%s", format_bytes(json_uint_or_zero(device, "memory_used_bytes")).s);
	table_addf(t, "%s", format_bytes(json_uint_or_zero(device, "memory_quota_bytes")).s);
	table_addf(t, "%d", (int)json_int_or_zero(device, "index"));
	table_addf(t, "%zu", json_array_size(json_object_get(tenant, "processes")));
	table_addf(t, "%s",
		format_duration(
			json_uint_or_zero(device, "waited_ns") / NSEC_PER_MSEC * NSEC_PER_MSEC)
			.s);
	table_add(t, json_text_or_empty(device, "why"));
}

static int print_tenants(const json_t *tenants, struct error *err)
{
	_cleanup_table_ struct table t;
	bool is_any_remote = false;

	for (size_t i = 0; i < json_array_size(tenants); i++)
		is_any_remote |= json_object_get(json_array_get(tenants, i), "remote") != NULL;
	table_init(&t, columns, ARRAY_SIZE(columns) - (is_any_remote ? 0 : COLUMNS_REMOTE));
	for (size_t i = 0; i < json_array_size(tenants); i++) {
		const json_t *tenant = json_array_get(tenants, i);
		const json_t *devices = json_object_get(tenant, "devices");

		for (size_t j = 0; j < json_array_size(devices); j++) {
			cmd_ps_add_tenant(&t, tenant, json_array_get(devices, j));
			if (is_any_remote)
				add_remote(&t, json_object_get(tenant, "remote"));
		}
	}
	return output_table(&t, err);
}

/* Prints lines below the table instead of a column: a tenant rarely uses more than divvy counts. */
static void print_excesses(const json_t *tenants)
{
	for (size_t i = 0; i < json_array_size(tenants); i++) {
		const json_t *tenant = json_array_get(tenants, i), *device;
		size_t j;

		json_array_foreach(json_object_get(tenant, "devices"), j, device)
			if (json_uint_or_zero(device, "excess_bytes"))
				printf("%s (%d) uses %s of device %d that divvy does not "
				       "count; see divvy doctor\n",
					json_text_or_empty(tenant, "name"),
					(int)json_int_or_zero(tenant, "id"),
					format_bytes(json_uint_or_zero(device, "excess_bytes")).s,
					(int)json_int_or_zero(device, "index"));
	}
}

static int print_processes(const json_t *tenants, struct error *err)
{
	static const struct table_column of_process[] = {{"PID", true}, {"TENANT", true},
		{"NAME", false}, {"COMMAND", false}, {"STATE", false}};
	_cleanup_table_ struct table t;

	table_init(&t, of_process, ARRAY_SIZE(of_process));
	for (size_t i = 0; i < json_array_size(tenants); i++) {
		const json_t *tenant = json_array_get(tenants, i);
		const json_t *processes = json_object_get(tenant, "processes");

		for (size_t j = 0; j < json_array_size(processes); j++) {
			const json_t *p = json_array_get(processes, j);

			table_addf(&t, "%d", (int)json_int_or_zero(p, "pid"));
			table_addf(&t, "%d", (int)json_int_or_zero(tenant, "id"));
			table_add(&t, json_text_or_empty(tenant, "name"));
			table_add(&t, json_text_or_empty(p, "command"));
			table_add(&t,
				json_bool_or_false(p, "orphan") ? "not reconnected" : "registered");
		}
	}
	return output_table(&t, err);
}

static int cmd_ps_check(const struct cli_args *args, struct error *err)
{
	if (cli_has(args, "quiet") && (cli_has(args, "output") || cli_has(args, "processes")))
		return fail(err, EINVAL, "--quiet and --%s exclude each other; keep one",
			cli_has(args, "output") ? "output" : "processes");
	return 0;
}

static int cmd_ps_run(const struct cli_args *args, struct error *err)
{
	_cleanup_client_ struct client c = CLIENT_NONE;
	_cleanup_json_ json_t *answer = NULL;
	const json_t *tenants;
	int r = client_connect(&c, cli_get(args, "socket"), err);

	r = r < 0 ? r : client_ask(&c, "list", NULL, &answer, err);
	if (r < 0)
		return r;
	tenants = json_object_get(answer, "tenants");
	if (cli_has(args, "quiet")) {
		for (size_t i = 0; i < json_array_size(tenants); i++)
			puts(json_text_or_empty(json_array_get(tenants, i), "name"));
		return 0;
	}
	r = output_as_table(args, tenants, err);
	if (r != 1)
		return r;
	output_simulated(answer);
	r = cli_has(args, "processes") ? print_processes(tenants, err)
				       : print_tenants(tenants, err);
	if (r >= 0)
		print_excesses(tenants);
	return r;
}

const struct cli_command cmd_ps = {
	.name = "ps",
	.operands = "",
	.summary = "List the tenants with their shares, memory and state",
	.text = TEXT_PS_TEXT,
	.examples = "divvy ps\ndivvy ps -o json | jq '.[].name'",
	.options = options,
	.check = cmd_ps_check,
	.run = cmd_ps_run,
};
