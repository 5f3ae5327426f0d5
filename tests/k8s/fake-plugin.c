/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake-plugin FOLDER RESOURCE N|ID,ID...: the device plugin of another vendor on the same node. It
 * offers N healthy devices, or devices with these IDs, and accepts every request. It runs until it
 * is killed. One thread.
 */
#include <stdio.h>

#include "base/parse.h"
#include "kubelet/plugin.h"

#define DEVICES_MAX 128

static void allocate(struct plugin_request *request)
{
	struct plugin_edits none[PLUGIN_CONTAINERS_MAX] = {0};

	plugin_allocated(request, none);
}

int main(int argc, char **argv)
{
	static const struct plugin_ops ops = {.allocate = allocate};
	static struct plugin_device device[DEVICES_MAX];
	static char id[DEVICES_MAX][64];
	char plugin_name[128];
	struct plugin *plugin;
	struct loop *loop;
	struct error err;
	struct str rest, name;
	uint64_t wanted = 0;
	size_t n = 0;

	if (argc != 4)
		return 2;
	rest = str_from(argv[3]);
	if (parse_uint(rest, 0, DEVICES_MAX, &wanted, NULL) >= 0)
		for (; n < wanted; n++)
			snprintf(id[n], sizeof(id[n]), "%zu", n);
	else
		while (n < DEVICES_MAX && str_split(&rest, ',', &name))
			if (str_copy(id[n++], sizeof(id[0]), name) < 0)
				return 2;
	for (size_t i = 0; i < n; i++)
		device[i] = (struct plugin_device){id[i], true, -1};
	snprintf(plugin_name, sizeof(plugin_name), "fake-%s", argv[2]);
	for (char *c = plugin_name; *c; c++)
		if (*c == '/')
			*c = '-';
	if (loop_new(&loop) < 0)
		return 1;
	if (plugin_new(loop,
		    &(struct plugin_options){.resource = argv[2],
			    .folder = argv[1],
			    .name = plugin_name,
			    .ops = &ops},
		    &plugin, &err) < 0 ||
		plugin_set_devices(plugin, device, n, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	return loop_run(loop) < 0;
}
