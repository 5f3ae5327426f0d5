/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake-plugin FOLDER RESOURCE N: a device plugin with N healthy devices and no more sense than
 * that, as another vendor's on the same node. Ends when killed. One thread.
 */
#include <stdio.h>

#include "base/parse.h"
#include "kubelet/plugin.h"

static void allocate(struct plugin_request *request)
{
	struct plugin_edits none[PLUGIN_CONTAINERS_MAX] = {0};

	plugin_allocated(request, none);
}

int main(int argc, char **argv)
{
	static const struct plugin_ops ops = {.allocate = allocate};
	struct plugin_device device[64];
	char id[64][8];
	struct plugin *plugin;
	struct loop *loop;
	struct error err;
	uint64_t wanted;
	size_t n = 0;

	if (argc != 4 || parse_uint(str_from(argv[3]), 0, 64, &wanted, NULL) < 0)
		return 2;
	for (; n < wanted; n++) {
		snprintf(id[n], sizeof(id[n]), "%zu", n);
		device[n] = (struct plugin_device){id[n], true, -1};
	}
	if (loop_new(&loop) < 0)
		return 1;
	if (plugin_new(loop,
		    &(struct plugin_options){.resource = argv[2],
			    .folder = argv[1],
			    .socket_name = "fake.sock",
			    .ops = &ops},
		    &plugin, &err) < 0 ||
		plugin_set_devices(plugin, device, n, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	return loop_run(loop) < 0;
}
