/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs `kubectl divvy idle`: prints devices without tenants, and tenants without recent use.
 * report_idle() makes the rows; this file formats the rows as a table or as JSON. The command
 * measures idle times with the API server's clock, not with this machine's.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/format.h"
#include "cmdline/json-member.h"
#include "cmdline/output.h"
#include "kube/time.h"
#include "kubectl/kubectl-access.h"
#include "kubectl/kubectl-commands.h"
#include "kubectl/kubectl-text.h"
#include "kubectl/report.h"

#define IDLE_DEFAULT_NS (10 * 60 * NSEC_PER_SEC)

static const struct option_row options[] = {
	{"for", "TIME", "idle time after which a tenant is listed, such as 30m (default 10m)"},
	CLI_OUTPUT_OPTION,
	ACCESS_OPTIONS,
	{0},
};

static const struct table_column columns[] = {{"NODE", false}, {"DEVICE", false}, {"MODEL", false},
	{"WHY", false}, {"NAMESPACE", false}, {"POD", false}, {"CONTAINER", false},
	{"GRANTED", true}, {"MEMORY", true}, {"IDLE", true}};

static int read_idle(const struct cli_args *args, uint64_t *ret_ns, struct error *err)
{
	static const uint64_t bounds[2] = {60 * NSEC_PER_SEC, 365 * 86400 * NSEC_PER_SEC};

	return cli_get_duration_within(args, "for", IDLE_DEFAULT_NS, bounds, ret_ns, err);
}

static void kubectl_idle_add_row(struct table *t, const json_t *row, uint64_t now_ns)
{
	static const char *const texts[] = {
		"node", "uuid", "model", "why", "namespace", "pod", "container", "granted"};
	uint64_t since_ns = 0;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		table_add(t, json_text_or_empty(row, texts[i]));
	table_add(t,
		json_object_get(row, "memory_bytes")
			? format_bytes(json_uint_or_zero(row, "memory_bytes")).s
			: "");
	if (kube_time_parse(str_from(json_text_or_empty(row, "idle_since")), &since_ns) == 0)
		table_add(t,
			format_duration(
				(now_ns - MIN(since_ns, now_ns)) / NSEC_PER_SEC * NSEC_PER_SEC)
				.s);
	else
		table_add(t, "");
}

static int kubectl_idle_run(const struct cli_args *args, struct error *err)
{
	_cleanup_access_ struct access a = {.loop = NULL};
	_cleanup_json_ json_t *nodes = NULL, *rows = NULL, *leases = NULL;
	_cleanup_table_ struct table t;
	uint64_t idle_ns, now_ns;
	int r = read_idle(args, &idle_ns, err);

	table_init(&t, columns, ARRAY_SIZE(columns));
	r = r < 0 ? r : access_open(args, &a, err);
	r = r < 0 ? r : access_gpunodes(&a, &nodes, err);
	r = r < 0 ? r : access_leases(&a, &leases, err);
	if (r < 0)
		return r;
	now_ns = kube_client_real_ns(a.client);
	rows = report_idle(&(struct report_facts){nodes, leases, now_ns}, idle_ns, now_ns);
	r = output_as_table(args, rows, err);
	if (r != 1)
		return r;
	for (size_t i = 0; i < json_array_size(rows); i++)
		kubectl_idle_add_row(&t, json_array_get(rows, i), now_ns);
	return output_table(&t, err);
}

static int kubectl_idle_check(const struct cli_args *args, struct error *err)
{
	uint64_t idle_ns;

	return read_idle(args, &idle_ns, err);
}

const struct cli_command cmd_idle = {
	.name = "idle",
	.operands = "",
	.summary = "List devices without tenants, and tenants that use no device time",
	.text = TEXT_IDLE_TEXT,
	.examples = "kubectl divvy idle\nkubectl divvy idle --for 2h -o json",
	.options = options,
	.check = kubectl_idle_check,
	.run = kubectl_idle_run,
};
