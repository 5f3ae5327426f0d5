/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs `kubectl divvy cordon-gpu` and `kubectl divvy uncordon-gpu`. set_all() finds every operand
 * before the first change, so a wrong name changes no device. The first failed change ends the
 * command, and the devices before it stay changed.
 */
#include <errno.h>
#include <stdio.h>

#include "kubectl/kubectl-commands.h"
#include "kubectl/cordon-patch.h"
#include "kubectl/kubectl-text.h"
#include "kubectl/report.h"

#define REASON_MAX 256u /* most bytes of a reason, as in the schema of GPUNode */

static const struct option_row cordon_options[] = {
	{"reason", "TEXT", "note that is shown with the device"},
	ACCESS_OPTIONS,
	{0},
};

static const struct option_row uncordon_options[] = {ACCESS_OPTIONS, {0}};

static int set_all(
	const struct cli_args *args, bool is_cordoned, const char *reason, struct error *err)
{
	_cleanup_access_ struct access a = {.loop = NULL};
	_cleanup_json_ json_t *nodes = NULL;
	int r = access_open(args, &a, err);

	r = r < 0 ? r : access_gpunodes(&a, &nodes, err);
	/*
	 * Find the devices of all operands first, so that a wrong operand leaves no device changed.
	 */
	for (int i = 0; r >= 0 && i < args->n_operands; i++) {
		struct report_found found;

		r = report_find_device(nodes, args->operand[i], &found, err);
	}
	for (int i = 0; r >= 0 && i < args->n_operands; i++) {
		struct report_found found;

		report_find_device(nodes, args->operand[i], &found, NULL);
		r = cordon_set(&a, found.node, found.uuid, is_cordoned, reason, err);
		if (r >= 0)
			printf("%s/%s %s%s\n", found.node, found.uuid, r ? "" : "was already ",
				is_cordoned ? "cordoned" : "uncordoned");
	}
	return MIN(r, 0);
}

static int check_reason(const struct cli_args *args, struct error *err)
{
	const char *reason = cli_get(args, "reason");

	if (reason && strlen(reason) > REASON_MAX)
		return fail(err, EINVAL, "--reason: %zu bytes; at most %u are allowed",
			strlen(reason), REASON_MAX);
	return 0;
}

static int run_cordon(const struct cli_args *args, struct error *err)
{
	const char *reason = cli_get(args, "reason");

	return set_all(args, true, reason ? reason : "", err);
}

static int run_uncordon(const struct cli_args *args, struct error *err)
{
	return set_all(args, false, "", err);
}

const struct cli_command cmd_cordon_gpu = {
	.name = "cordon-gpu",
	.operands = "NODE/UUID...",
	.summary = "Keep new tenants off a device; running tenants stay",
	.text = TEXT_CORDON_GPU_TEXT,
	.examples = "kubectl divvy cordon-gpu gpu-7/0 --reason 'ECC errors, ticket 1234'",
	.options = cordon_options,
	.operands_min = 1,
	.operands_max = -1,
	.check = check_reason,
	.run = run_cordon,
};

const struct cli_command cmd_uncordon_gpu = {
	.name = "uncordon-gpu",
	.operands = "NODE/UUID...",
	.summary = "Allow new tenants on a device again",
	.text = TEXT_UNCORDON_GPU_TEXT,
	.examples = "kubectl divvy uncordon-gpu gpu-7/GPU-5a0e",
	.options = uncordon_options,
	.operands_min = 1,
	.operands_max = -1,
	.run = run_uncordon,
};
