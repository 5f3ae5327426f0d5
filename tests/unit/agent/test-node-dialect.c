/* SPDX-License-Identifier: Apache-2.0 */
/* The variables that a dialect's users read: of a container, and of whichever may be meant. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/device.h"
#include "agent/node-internal.h"
#include "unit.h"

#define GI (1ull << 30)

struct world {
	struct node node;
	struct agent agent;
	struct device_set set;
	struct device device[2];
	struct kube_reflect_handler feed;
};

static int project(void *data, const struct kube_object *object, void **ret, struct error *err)
{
	*ret = json_incref(object->json);
	return 0;
}

static void release(void *own)
{
	json_decref(own);
}

static void begin(struct world *w)
{
	const struct kube_cache_handler handler = {.project = project, .release = release};

	*w = (struct world){.node.options.name = "node7"};
	w->set = (struct device_set){.devices = w->device, .n = 2};
	for (uint32_t i = 0; i < 2; i++) {
		w->device[i].index = i;
		w->device[i].info.usable_bytes = 80 * GI;
		snprintf(w->device[i].info.uuid, sizeof(w->device[i].info.uuid), "GPU-%u", i);
	}
	w->agent.devices = &w->set;
	w->node.agent = &w->agent;
	assert_ok(kube_cache_new_unfed(&handler, &w->node.pods));
	w->feed = kube_cache_feed(w->node.pods);
	w->feed.begin(w->feed.data, false);
}

static void end(struct world *w)
{
	kube_cache_free(w->node.pods);
}

/* As the webhook and the scheduler leave it: containers main and side, and more if told. */
static json_t *make_pod(const char *name, const char *dialects, const char *foreign,
	const char *devices, const char *memory)
{
	json_t *pod = json_pack("{s:{s:s, s:s, s:s, s:s, s:{s:s, s:s}}, s:{s:[{s:s}, {s:s}]}}",
		"metadata", "name", name, "namespace", "a", "uid", name, "resourceVersion", "1",
		"annotations", "divvy.gpu/dialects", dialects, "divvy.gpu/translated-from", foreign,
		"spec", "containers", "name", "main", "name", "side");
	json_t *keys = kube_json_at(pod, "metadata", "annotations", NULL);
	char text[256];

	assert_non_null(pod);
	if (!devices)
		return pod;
	json_object_set_new(keys, "divvy.gpu/devices", json_string(devices));
	json_object_set_new(keys, "divvy.gpu/granted-memory", json_string(memory));
	json_object_set_new(keys, "divvy.gpu/epoch", json_string("1"));
	snprintf(text, sizeof(text), "main=0.3%s", strstr(devices, "side") ? " side=0.3" : "");
	json_object_set_new(keys, "divvy.gpu/granted-request", json_string(text));
	json_object_set_new(keys, "divvy.gpu/granted-limit", json_string(text));
	return pod;
}

static void add(struct world *w, json_t *pod)
{
	struct kube_object object = {.json = pod};

	assert_ok(w->feed.object(w->feed.data, KUBE_LISTED, &object));
	json_decref(pod);
}

static void expect(const struct node_env *env, const char *const *want)
{
	uint32_t n = 0;

	while (want[n]) {
		bool is_there = false;

		for (uint32_t i = 0; i < env->n; i++)
			is_there |= !strcmp(env->text[i], want[n]);
		if (!is_there)
			fail_msg("%s is not there", want[n]);
		n++;
	}
	if (env->n != n)
		fail_msg("%u variables, expected %u: %s...", env->n, n, env->text[0]);
}

static const struct {
	const char *dialects, *foreign, *devices, *memory, *container;
	const char *want[8];
} table[] = {
	{"hami", "main/nvidia.com/gpu=2,main/nvidia.com/gpumem=3000,main/nvidia.com/gpucores=30",
		"main=GPU-0,GPU-1", "main=3000Mi,3000Mi", "main",
		{"CUDA_DEVICE_MEMORY_LIMIT_0=3000m", "CUDA_DEVICE_MEMORY_LIMIT_1=3000m",
			"CUDA_DEVICE_SM_LIMIT=30"}},
	{"hami", "main/nvidia.com/gpumem=3000,main/nvidia.com/priority=0", "main=GPU-1",
		"main=3000Mi", "main",
		{"CUDA_DEVICE_MEMORY_LIMIT_0=3000m", "CUDA_DEVICE_SM_LIMIT=0",
			"CUDA_TASK_PRIORITY=0"}},
	{"gpushare", "main/aliyun.com/gpu-mem=2,side/aliyun.com/gpu-mem=3", "main=GPU-1 side=GPU-0",
		"main=2Gi side=3Gi", "main",
		{"ALIYUN_COM_GPU_MEM_IDX=1", "ALIYUN_COM_GPU_MEM_POD=5",
			"ALIYUN_COM_GPU_MEM_CONTAINER=2", "ALIYUN_COM_GPU_MEM_DEV=80"}},
	{"gpushare", "main/aliyun.com/gpu-mem=2,side/aliyun.com/gpu-mem=3", "main=GPU-1 side=GPU-0",
		"main=2Gi side=3Gi", "side",
		{"ALIYUN_COM_GPU_MEM_IDX=0", "ALIYUN_COM_GPU_MEM_POD=5",
			"ALIYUN_COM_GPU_MEM_CONTAINER=3", "ALIYUN_COM_GPU_MEM_DEV=80"}},
	{"gpushare=MiB", "main/aliyun.com/gpu-mem=512", "main=GPU-0", "main=512Mi", "main",
		{"ALIYUN_COM_GPU_MEM_IDX=0", "ALIYUN_COM_GPU_MEM_POD=512",
			"ALIYUN_COM_GPU_MEM_CONTAINER=512", "ALIYUN_COM_GPU_MEM_DEV=81920"}},
	/* Their plugins set no variable of the share. */
	{"gaiagpu", "main/tencent.com/vcuda-core=30,main/tencent.com/vcuda-memory=8", "main=GPU-0",
		"main=2Gi", "main", {NULL}},
	{"deepomatic=4", "main/deepomatic.com/shared-gpu=1", "main=GPU-0", "main=20Gi", "main",
		{NULL}},
	/* Of a container without a share, of devices elsewhere, of what cannot be read: nothing. */
	{"hami", "main/nvidia.com/gpumem=3000", "main=GPU-0", "main=3000Mi", "side", {NULL}},
	{"hami", "main/nvidia.com/gpumem=3000", "main=GPU-9", "main=3000Mi", "main", {NULL}},
	{"hami", "main/nvidia.com/gpumem=3000", "nonsense", "main=3000Mi", "main", {NULL}},
	{"hami", "main/nvidia.com/gpumem=3000", "side=GPU-0", "side=3000Mi", "main", {NULL}},
};

static void a_container_gets_what_its_plugin_set(void **state)
{
	struct world w;

	begin(&w);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_json_ json_t *pod = make_pod("p", table[i].dialects, table[i].foreign,
			table[i].devices, table[i].memory);
		struct node_env env;

		node_env_read(&w.node, pod, table[i].container, &env);
		expect(&env, table[i].want);
	}
	end(&w);
}

static const struct podres_device slot[] = {{.resource = NODE_RESOURCE, .id = "3"}};

static void expect_next(
	struct world *w, const struct podres_container *has, size_t n, const char *const *want)
{
	const struct podres_list list = {has, n};
	struct node_env env;

	node_env_expect(&w->node, &list, &env);
	expect(&env, want);
}

static void a_slot_is_prepared_for_whoever_it_may_be(void **state)
{
	static const char *const main_[] = {"ALIYUN_COM_GPU_MEM_IDX=1", "ALIYUN_COM_GPU_MEM_POD=5",
		"ALIYUN_COM_GPU_MEM_CONTAINER=2", "ALIYUN_COM_GPU_MEM_DEV=80", NULL};
	static const char *const side[] = {"ALIYUN_COM_GPU_MEM_IDX=0", "ALIYUN_COM_GPU_MEM_POD=5",
		"ALIYUN_COM_GPU_MEM_CONTAINER=3", "ALIYUN_COM_GPU_MEM_DEV=80", NULL};
	static const char *const both[] = {
		"ALIYUN_COM_GPU_MEM_CONTAINER=2", "ALIYUN_COM_GPU_MEM_DEV=80", NULL};
	static const char *const none[] = {NULL};
	const struct podres_container has[] = {
		{"a", "first", "main", slot, 1}, {"a", "first", "side", slot, 1}};
	struct world w;

	begin(&w);
	expect_next(&w, NULL, 0, none);
	add(&w,
		make_pod("first", "gpushare", "main/aliyun.com/gpu-mem=2,side/aliyun.com/gpu-mem=3",
			"main=GPU-1 side=GPU-0", "main=2Gi side=3Gi"));
	expect_next(&w, NULL, 0, main_); /* the kubelet takes containers in their order */
	expect_next(&w, has, 1, side);
	expect_next(&w, has, 2, none);
	/* Not bound yet. */
	add(&w, make_pod("later", "gpushare", "main/aliyun.com/gpu-mem=7", NULL, NULL));
	expect_next(&w, NULL, 0, main_);
	add(&w,
		make_pod("second", "gpushare", "main/aliyun.com/gpu-mem=2", "main=GPU-0",
			"main=2Gi"));
	expect_next(&w, NULL, 0, both);
	/* One that speaks no dialect expects nothing. */
	add(&w, make_pod("third", "", "", "main=GPU-0", "main=2Gi"));
	expect_next(&w, NULL, 0, none);
	end(&w);
}

UNIT_MAIN(
	UNIT(a_container_gets_what_its_plugin_set), UNIT(a_slot_is_prepared_for_whoever_it_may_be))
