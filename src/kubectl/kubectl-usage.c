/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs `kubectl divvy usage`: prints GPU-seconds by namespace as a table, CSV or JSON. GPUNodes
 * keep the accounts by UTC day, so read_since() turns a duration into the day on which it began.
 * CSV fields have no quotes, since the name of a namespace contains no comma.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cmdline/json-member.h"
#include "cmdline/output.h"
#include "kube/time.h"
#include "kubectl/kubectl-access.h"
#include "kubectl/kubectl-commands.h"
#include "kubectl/kubectl-text.h"
#include "kubectl/report.h"

#define DAY sizeof("2026-11-22")

static const struct option_row options[] = {
	{"since", "WHEN", TEXT_USAGE_SINCE},
	{"csv", NULL, "print comma-separated values"},
	CLI_OUTPUT_OPTION,
	ACCESS_OPTIONS,
	{0},
};

static const struct table_column columns[] = {{"NAMESPACE", false}, {"REQUESTED", true},
	{"GRANTED", true}, {"USED", true}, {"USED/GRANTED", true}};

/* Reads --since into the UTC day on which that duration began. */
static int read_since(const struct cli_args *args, char day[static DAY], struct error *err)
{
	const char *text = cli_get(args, "since");
	uint64_t ns;

	day[0] = '\0';
	if (!text)
		return 0;
	if (strlen(text) + 1 == DAY) {
		char whole[32];

		snprintf(whole, sizeof(whole), "%sT00:00:00Z", text);
		if (kube_time_parse(str_from(whole), &ns) == 0) {
			str_copy(day, DAY, str_from(text));
			return 0;
		}
	}
	if (parse_duration(str_from(text), &ns, NULL) < 0)
		return fail(err, EINVAL,
			"--since '%.40s': expected a day such as 2026-11-01 or a time such as 7d",
			text);
	ns = clock_real_ns() - MIN(ns, clock_real_ns());
	str_copy(day, DAY, (struct str){kube_time_format(ns).s, DAY - 1});
	return 0;
}

static void print_csv(const json_t *rows)
{
	/*
	 * asked_gpu_seconds is the old name of requested_gpu_seconds, which stays for one release.
	 */
	puts("namespace,requested_gpu_seconds,granted_gpu_seconds,used_gpu_seconds,"
	     "asked_gpu_seconds");
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);

		printf("%s,%.3f,%.3f,%.3f,%.3f\n", json_text_or_empty(row, "namespace"),
			json_real_or_zero(row, "requested_gpu_seconds"),
			json_real_or_zero(row, "granted_gpu_seconds"),
			json_real_or_zero(row, "used_gpu_seconds"),
			json_real_or_zero(row, "asked_gpu_seconds"));
	}
}

static int kubectl_usage_print_rows(const json_t *rows, struct error *err)
{
	_cleanup_table_ struct table t;

	table_init(&t, columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);
		const double granted = json_real_or_zero(row, "granted_gpu_seconds"),
			     used = json_real_or_zero(row, "used_gpu_seconds");

		table_add(&t, json_text_or_empty(row, "namespace"));
		table_addf(&t, "%.1f", json_real_or_zero(row, "requested_gpu_seconds"));
		table_addf(&t, "%.1f", granted);
		table_addf(&t, "%.1f", used);
		if (granted > 0)
			table_addf(&t, "%.0f%%", used / granted * 100);
		else
			table_add(&t, "");
	}
	return output_table(&t, err);
}

static int kubectl_usage_run(const struct cli_args *args, struct error *err)
{
	_cleanup_access_ struct access a = {.loop = NULL};
	_cleanup_json_ json_t *nodes = NULL, *rows = NULL;
	char day[DAY];
	int r = read_since(args, day, err);

	r = r < 0 ? r : access_open(args, &a, err);
	r = r < 0 ? r : access_gpunodes(&a, &nodes, err);
	if (r < 0)
		return r;
	rows = report_usage(nodes, day);
	if (cli_has(args, "csv")) {
		print_csv(rows);
		return output_end(err);
	}
	r = output_as_table(args, rows, err);
	return r == 1 ? kubectl_usage_print_rows(rows, err) : r;
}

static int kubectl_usage_check(const struct cli_args *args, struct error *err)
{
	char day[DAY];

	if (cli_has(args, "csv") && cli_has(args, "output"))
		return fail(err, EINVAL, "--csv and --output %s: use only one of them",
			cli_get(args, "output"));
	return read_since(args, day, err);
}

const struct cli_command cmd_usage = {
	.name = "usage",
	.operands = "",
	.summary = "Show GPU-seconds requested, granted and used by each namespace",
	.text = TEXT_USAGE_TEXT,
	.examples = TEXT_USAGE_EXAMPLES,
	.options = options,
	.check = kubectl_usage_check,
	.run = kubectl_usage_run,
};
