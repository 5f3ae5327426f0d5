/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A DRA driver that does nothing: it answers at once that claims are prepared, without any device.
 * The bench of pod starts compares divvyd with it.
 *
 *   dra-nothing DRIVER KUBELET-FOLDER      runs until SIGTERM
 */
#include <limits.h>
#include <stdio.h>

#include "base/loop.h"
#include "kubelet/dra-plugin.h"

static void answer_nothing(struct dra_request *request)
{
	static const struct dra_result results[DRA_CLAIMS_MAX];

	dra_answer(request, results);
}

static const struct dra_ops ops = {.prepare = answer_nothing, .unprepare = answer_nothing};

int main(int argc, char **argv)
{
	char registry[PATH_MAX], folder[PATH_MAX];
	struct dra_options options = {.registry = registry, .folder = folder, .ops = &ops};
	struct dra_plugin *plugin;
	struct loop *loop = NULL;
	struct error err;

	if (argc != 3 || loop_new(&loop) < 0) {
		fprintf(stderr, "usage: dra-nothing DRIVER KUBELET-FOLDER\n");
		return 2;
	}
	options.driver = argv[1];
	snprintf(registry, sizeof(registry), "%s/plugins_registry", argv[2]);
	snprintf(folder, sizeof(folder), "%s/plugins/%s", argv[2], argv[1]);
	if (dra_plugin_new(loop, &options, &plugin, &err) < 0) {
		fprintf(stderr, "dra-nothing: %s\n", err.msg);
		return 1;
	}
	return loop_run(loop) < 0;
}
