/* SPDX-License-Identifier: Apache-2.0 */
/* Tests when a node from an autoscaler counts as started, so that its startup taint is removed. */
#include "controller/controller.h"
#include "unit-json.h"

#define READY "'conditions':[{'type':'Ready','status':'True'}]"
#define DEVICES ",'devices':[{'uuid':'GPU-a','health':'Healthy'}]"

static void the_startup_taint_waits_for_slots_and_devices(void **state)
{
	static const struct {
		const char *allocatable, *status;
		bool has_started;
	} cases[] = {
		{"'divvy.gpu/slot':'64','divvy.gpu/milli':'1000'", READY DEVICES, true},
		{"'divvy.gpu/slot':'64'", READY DEVICES, false},
		{"'divvy.gpu/slot':'0','divvy.gpu/milli':'1000'", READY DEVICES, false},
		{"'divvy.gpu/milli':'1000'", READY DEVICES, false},
		{"'divvy.gpu/slot':'64','divvy.gpu/milli':'1000'",
			"'conditions':[{'type':'Ready','status':'False'}]" DEVICES, false},
		/* The pods of a node without devices use devices of other nodes. */
		{"'divvy.gpu/slot':'64'", READY ",'devices':[]", true},
		{"'divvy.gpu/slot':'64'", READY, true},
		{"'cpu':'8'", READY, false},
		{"'divvy.gpu/slot':'64'", "'devices':[]", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *node = NULL, *gpu_node = NULL;
		char text[512];

		snprintf(text, sizeof(text), "{'status':{'allocatable':{%s}}}",
			cases[i].allocatable);
		node = unit_json(text);
		snprintf(text, sizeof(text), "{'status':{%s}}", cases[i].status);
		gpu_node = unit_json(text);
		if (controller_has_started(node, gpu_node) != cases[i].has_started)
			fail_msg("%s; %s", cases[i].allocatable, cases[i].status);
	}
}

UNIT_MAIN(UNIT(the_startup_taint_waits_for_slots_and_devices))
