/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/traces.h"

#include <stdlib.h>

#include "bench/bench.h"

const char *const traces[TRACES] = {
	"default", "gpuspec33", "gpuspec25", "cpu250", "gpushare40", "gpushare100", "multigpu50"};

const char *traces_folder(void)
{
	const char *folder = getenv("DIVVY_OPENB");

	if (!folder)
		bench_note(
			"DIVVY_OPENB names no folder with the OpenB traces: nothing is measured");
	return folder;
}

struct traces_run traces_start(const char *trace, const char *options)
{
	char pods[1024];

	snprintf(pods, sizeof(pods), "%s/openb_pod_list_%s.csv", traces_folder(), trace);
	return traces_start_file(pods, options);
}

struct traces_run traces_start_file(const char *pods, const char *options)
{
	struct traces_run run;

	snprintf(run.command, sizeof(run.command),
		"%s sim --nodes '%s/openb_node_list_gpu_node.csv' --pods '%s' %s --json -",
		bench_built("src/cli/divvy"), traces_folder(), pods, options);
	run.out = popen(run.command, "r");
	if (!run.out)
		bench_die("cannot start divvy sim");
	return run;
}

json_t *traces_finish(struct traces_run *run)
{
	json_error_t error;
	json_t *result = json_loadf(run->out, 0, &error);

	if (pclose(run->out) != 0 || !result)
		bench_die("divvy sim failed: %s", run->command);
	return result;
}
