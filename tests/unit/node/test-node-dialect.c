/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables that a dialect's users read, and for which container the kubelet allocates a slot.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/device.h"
#include "node/node-internal.h"
#include "unit.h"

#define GI (1ull << 30)

struct world {
	struct node node;
	struct agent agent;
	struct device_set set;
	struct device device[2];
	struct slot slots[8];
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
	w->node.slots = w->slots;
	w->node.n_slots = ARRAY_SIZE(w->slots);
	assert_ok(kube_cache_new_unfed(&handler, &w->node.pods));
	w->feed = kube_cache_feed(w->node.pods);
	w->feed.begin(w->feed.data, false);
}

static void end(struct world *w)
{
	kube_cache_free(w->node.pods);
}

/* A pod as the webhook and the scheduler leave it, with containers main and side. */
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

static bool is_variable(const struct node_variable *v, const char *want)
{
	char text[NODE_ENV_NAME + NODE_ENV_VALUE];

	snprintf(text, sizeof(text), "%s=%s", v->name, v->value);
	return !strcmp(text, want);
}

static void expect(const struct node_env *env, const char *const *want)
{
	uint32_t n = 0;

	while (want[n]) {
		bool is_there = false;

		for (uint32_t i = 0; i < env->n; i++)
			is_there |= is_variable(&env->v[i], want[n]);
		if (!is_there)
			fail_msg("%s is not there", want[n]);
		n++;
	}
	if (env->n != n)
		fail_msg("%u variables, expected %u: %s...", env->n, n, env->v[0].name);
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
	{"volcano=10", "main/volcano.sh/vgpu-memory=300,main/volcano.sh/vgpu-cores=30",
		"main=GPU-0", "main=3000Mi", "main",
		{"CUDA_DEVICE_MEMORY_LIMIT_0=3000m", "CUDA_DEVICE_SM_LIMIT=30"}},
	/* The original plugins of these dialects set no variable of the share. */
	{"mig,timeslicing=4", "main/nvidia.com/mig-1g.5gb.shared=1", "main=GPU-0", "main=1Gi",
		"main", {NULL}},
	{"gaiagpu", "main/tencent.com/vcuda-core=30,main/tencent.com/vcuda-memory=8", "main=GPU-0",
		"main=2Gi", "main", {NULL}},
	{"deepomatic=4", "main/deepomatic.com/shared-gpu=1", "main=GPU-0", "main=20Gi", "main",
		{NULL}},
	/*
	 * No variables for a container without a share, for devices of another node, or for
	 * unreadable keys.
	 */
	{"hami", "main/nvidia.com/gpumem=3000", "main=GPU-0", "main=3000Mi", "side", {NULL}},
	{"hami", "main/nvidia.com/gpumem=3000", "main=GPU-9", "main=3000Mi", "main", {NULL}},
	{"hami", "main/nvidia.com/gpumem=3000", "nonsense", "main=3000Mi", "main", {NULL}},
	{"hami", "main/nvidia.com/gpumem=3000", "side=GPU-0", "side=3000Mi", "main", {NULL}},
};

static void a_container_gets_the_variables_of_the_original_plugin(void **state)
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

static void expect_taker(struct world *w, const struct podres_container *has, size_t n,
	const char *pod, const char *container)
{
	const struct podres_list list = {has, n};
	struct node_taker taker;
	struct error err;

	if (allocate_find_taker(&w->node, &list, &taker, &err) < 0)
		fail_msg("%s", err.msg);
	assert_string_equal(taker.uid, pod);
	assert_string_equal(taker.container, container);
}

static void expect_unknown(
	struct world *w, const struct podres_container *has, size_t n, const char *why)
{
	const struct podres_list list = {has, n};
	struct node_taker taker = {.container = "untouched"};
	struct error err;

	assert_int_equal(allocate_find_taker(&w->node, &list, &taker, &err), -EAGAIN);
	assert_string_equal(err.msg, why);
	assert_string_equal(taker.container, "untouched");
}

/* Marks the slot as allocated to this container. */
static void prepare(struct world *w, uint32_t number, const char *uid, const char *container)
{
	snprintf(w->slots[number].taker_uid, sizeof(w->slots[0].taker_uid), "%s", uid);
	snprintf(w->slots[number].taker, sizeof(w->slots[0].taker), "%s", container);
}

static void a_slot_is_for_the_pod_that_the_kubelet_admits(void **state)
{
	const struct podres_container none[] = {{"a", "first", "main"}, {"a", "first", "side"},
		{"a", "second", "main"}, {"a", "second", "side"}};
	const struct podres_container half[] = {
		{"a", "first", "main", slot, 1}, {"a", "first", "side"}};
	const struct podres_container all[] = {{"a", "first", "main", slot, 1},
		{"a", "first", "side", slot, 1}, {"a", "second", "main"}, {"a", "second", "side"}};
	struct world w;

	begin(&w);
	add(&w,
		make_pod("first", "gpushare", "main/aliyun.com/gpu-mem=2,side/aliyun.com/gpu-mem=3",
			"main=GPU-1 side=GPU-0", "main=2Gi side=3Gi"));
	expect_taker(&w, none, 2, "first", "main"); /* kubelets allocate in the order of the spec */
	expect_taker(&w, half, 2, "first", "side");
	/* The kubelet does not list this pod yet, so the slot cannot be for it. */
	add(&w, make_pod("other", "hami", "main/nvidia.com/gpumem=3000", "main=GPU-0", "main=2Gi"));
	expect_taker(&w, none, 2, "first", "main");
	/* If the kubelet has a pod that divvyd does not know yet, the container is unknown. */
	expect_unknown(
		&w, all, 4, "the kubelet lists pod a/second, which divvyd does not know yet");
	expect_unknown(
		&w, none, 4, "the kubelet lists pod a/second, which divvyd does not know yet");
	add(&w,
		make_pod("second", "gpushare", "main/aliyun.com/gpu-mem=2", "main=GPU-0",
			"main=2Gi"));
	expect_taker(&w, all, 4, "second", "main");
	/* Both pods fit: the kubelet is refusing one of them, and has not reported which one. */
	expect_unknown(
		&w, none, 4, "the slot fits container main, and in pod a/second container main");
	end(&w);
}

static void a_pod_that_has_started_or_ended_takes_no_slot(void **state)
{
	static const struct {
		const char *part, *key, *value;
	} table_of[] = {{"status", "startTime", "2026-01-01T00:00:00Z"},
		{"status", "phase", "Failed"},
		{"metadata", "deletionTimestamp", "2026-01-01T00:00:00Z"}};
	const struct podres_container has[] = {{"a", "first", "main"}, {"a", "second", "main"}};
	struct world w;

	for (size_t i = 0; i < ARRAY_SIZE(table_of); i++) {
		json_t *first = make_pod("first", "", "", "main=GPU-1", "main=2Gi");

		begin(&w);
		json_object_set_new(first, "status", json_object());
		json_object_set_new(json_object_get(first, table_of[i].part), table_of[i].key,
			json_string(table_of[i].value));
		add(&w, first);
		/*
		 * The slot may be for the pod's successor of the same name, which divvyd does not
		 * know yet.
		 */
		expect_unknown(&w, has, 1, "no known pod matches the slot");
		add(&w, make_pod("second", "", "", "main=GPU-1", "main=2Gi"));
		expect_taker(&w, has, 2, "second", "main");
		end(&w);
	}
}

static void init_containers_get_slots_though_the_kubelet_lists_none(void **state)
{
	const struct podres_container listed[] = {{"a", "p", "main"}, {"a", "p", "side"}};
	json_t *pod = make_pod(
		"p", "", "", "side=GPU-0 first=GPU-1 main=GPU-1", "side=2Gi first=2Gi main=2Gi");
	struct world w;

	begin(&w);
	json_object_set_new(json_object_get(pod, "spec"), "initContainers",
		json_pack("[{s:s}, {s:s}]", "name", "plain", "name", "first"));
	for (size_t i = 0; i < 2; i++) {
		const char *const keys[] = {"divvy.gpu/granted-request", "divvy.gpu/granted-limit"};

		json_object_set_new(kube_json_at(pod, "metadata", "annotations", NULL), keys[i],
			json_string("side=0.3 first=0.3 main=0.3"));
	}
	add(&w, pod);
	expect_taker(&w, listed, 2, "p", "first");
	prepare(&w, 3, "p", "first");
	expect_taker(&w, listed, 2, "p", "main");
	prepare(&w, 3, "p", "main"); /* "main" gets the same slot, since "first" has ended */
	expect_taker(&w, listed, 2, "p", "side");
	prepare(&w, 4, "p", "side");
	expect_unknown(&w, listed, 2, "no known pod matches the slot");
	end(&w);
}

UNIT_MAIN(UNIT(a_container_gets_the_variables_of_the_original_plugin),
	UNIT(a_slot_is_for_the_pod_that_the_kubelet_admits),
	UNIT(a_pod_that_has_started_or_ended_takes_no_slot),
	UNIT(init_containers_get_slots_though_the_kubelet_lists_none))
