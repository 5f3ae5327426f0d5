/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs `kubectl divvy clear-gpu`. The command names the time of the device's taint to divvyd, so an
 * Xid error that comes later stays. It finds every operand before the first change, so a wrong name
 * changes no device.
 */
#include <errno.h>
#include <stdio.h>

#include "cmdline/json-member.h"
#include "kubectl/kubectl-commands.h"
#include "kubectl/cordon-patch.h"
#include "kubectl/kubectl-text.h"
#include "kubectl/report.h"

#define XID_KEY "divvy.gpu/xid"

static const struct option_row clear_options[] = {ACCESS_OPTIONS, {0}};

static const json_t *clear_find_device(const json_t *gpunodes, const struct report_found *found)
{
	for (size_t i = 0; i < json_array_size(gpunodes); i++) {
		const json_t *node = json_array_get(gpunodes, i);
		const char *name = kube_json_text_at(node, "metadata", "name", NULL);

		if (name && !strcmp(name, found->node))
			return kube_json_find(
				kube_json_at(node, "status", "devices", NULL), "uuid", found->uuid);
	}
	return NULL;
}

/* Finds the time of the device's taint for an Xid. -ENOENT: divvyd has noted no Xid. */
static int clear_find_time(const json_t *gpunodes, const struct report_found *found,
	const char **ret_time, struct error *err)
{
	const json_t *device = clear_find_device(gpunodes, found);
	const json_t *taints = json_object_get(device, "taints");
	const char *time = kube_json_text_at(
		kube_json_find(taints, "key", XID_KEY), "timeAdded", NULL);

	if (time) {
		*ret_time = time;
		return 0;
	}
	if (json_array_size(taints))
		return fail(err, ENOENT,
			"%s/%s has no Xid error but the taint %s: divvyd removes this taint as soon "
			"as the driver reports the device as healthy",
			found->node, found->uuid,
			json_text_or_empty(json_array_get(taints, 0), "key"));
	return fail(err, ENOENT, "%s/%s has no taint: there is nothing to clear", found->node,
		found->uuid);
}

static int run_clear(const struct cli_args *args, struct error *err)
{
	_cleanup_access_ struct access a = {.loop = NULL};
	_cleanup_json_ json_t *nodes = NULL;
	int r = access_open(args, &a, err);

	r = r < 0 ? r : access_gpunodes(&a, &nodes, err);
	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; r >= 0 && i < args->n_operands; i++) {
			struct report_found found;
			const char *time = NULL;

			r = report_find_device(nodes, args->operand[i], &found, err);
			r = r < 0 ? r : clear_find_time(nodes, &found, &time, err);
			if (r < 0 || pass == 0)
				continue;
			r = clear_set(&a, found.node, found.uuid, time, err);
			if (r >= 0)
				printf("%s/%s %s\n", found.node, found.uuid,
					r ? "cleared" : "was already cleared");
		}
	return MIN(r, 0);
}

const struct cli_command cmd_clear_gpu = {
	.name = "clear-gpu",
	.operands = "NODE/UUID...",
	.summary = "Allow new tenants on a device that had an Xid error",
	.text = TEXT_CLEAR_GPU_TEXT,
	.examples = "kubectl divvy clear-gpu gpu-7/0",
	.options = clear_options,
	.operands_min = 1,
	.operands_max = -1,
	.run = run_clear,
};
