/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys and variables written back for each system's own tools. After the foreign resources of a
 * pod have moved into the record, a second translation gives the same result.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "spec/dialect.h"
#include "manifest-text.h"

#define GIB (UINT64_C(1) << 30)

static const struct dialect_device two[] = {
	{.index = 3,
		.uuid = "GPU-aaaa",
		.model = "NVIDIA GeForce GTX 1080",
		.cell = "1/2/0",
		.memory_bytes = 16 * GIB,
		.granted_bytes = UINT64_C(3000) << 20},
	{.index = 1,
		.uuid = "GPU-bbbb",
		.model = "NVIDIA GeForce GTX 1080",
		.memory_bytes = 16 * GIB,
		.granted_bytes = UINT64_C(3000) << 20},
};

static const char *const wheres[] = {
	[DIALECT_ANNOTATION] = "annotation",
	[DIALECT_LABEL] = "label",
	[DIALECT_RESOURCE] = "resource",
	[DIALECT_ENV] = "env",
	[DIALECT_STATUS] = "status",
};

struct written {
	const struct manifest *pod;
	struct buf text;
	int left; /* calls of put until one fails; negative: none fails */
};

/*
 * Checks that the written key is in the tables of dialects. A name that ends in '-' or '_' in a
 * table continues with a number in the key.
 */
static void check_documented(enum dialect_where where, const char *key)
{
	for (size_t i = 0; dialect_at(i); i++)
		for (const struct dialect_key *k = dialect_at(i)->keys; k->key; k++) {
			const size_t n = strlen(k->key);
			const bool goes_on = strchr("-_", k->key[n - 1]);

			if (k->use == DIALECT_GIVES && !strncmp(k->key, key, n) &&
				(goes_on || !key[n]) &&
				(k->where == where || !strncmp(key, "ALIYUN", 6)))
				return;
		}
	fail_msg("%s is written and not in the table", key);
}

static int put(void *data, enum dialect_where where, uint32_t container, const char *key,
	const char *value)
{
	struct written *w = data;
	const struct str name = container == MANIFEST_NONE ? STR("")
							   : w->pod->container[container].name;

	check_documented(where, key);
	if (w->left-- == 0)
		return -ENOSPC;
	return buf_addf(&w->text, "%s%s%" STR_FMT " %s=%s\n", wheres[where], name.n ? " " : "",
		STR_ARG(name), key, value);
}

/* Every tenant gets the first device, or the first `count` devices. The caller frees the text. */
static char *write_back(const char *text, int left, int *ret)
{
	static struct manifest_text t;
	_cleanup_dialect_ struct dialect_result result;
	struct dialect_grant grant[DIALECT_TENANTS_MAX];
	struct dialect_config config;
	struct error err;
	struct written w = {.pod = &t.pod, .text = BUF_INIT(1 << 20), .left = left};
	struct dialect_assigned given = {
		.node = "node7", .vgpu = "abcde", .time_ns = 1705054796123456789, .grant = grant};
	char *shown;

	manifest_text_parse(str_from(text), &t);
	assert_ok(dialect_config_parse(t.dialects, &config, NULL));
	if (dialect_translate(&t.pod, &config, &result, &err) < 0)
		fail_msg("%s", err.msg);
	for (uint32_t i = 0; i < result.n_tenants; i++) {
		const struct spec *spec = &result.tenant[i].spec;

		grant[i] = (struct dialect_grant){
			two, MIN(spec->count, 2u), spec->request, spec->limit};
	}
	*ret = dialect_write_back(&t.pod, &result, &given, put, &w);
	shown = str_dup(buf_str(&w.text));
	buf_done(&w.text);
	return shown;
}

#define FRACTION(p, mem) \
	"a " p "/gpu_request=0.5\na " p "/gpu_limit=1.0\na " p "/" mem "=3145728000\n"

static const struct {
	const char *pod, *running;
} cases[] = {
	{"m cpu=1", ""},
	{"a divvy.gpu/request=0.3\na divvy.gpu/limit=0.6", ""},
	{"c a\nc b\na b.divvy.gpu/request=0.3\na b.divvy.gpu/count=2", ""},
	{"d kubeshare\n" FRACTION("kubeshare", "gpu_mem"),
		"annotation kubeshare/GPUID=abcde\n"
		"status BoundDeviceID=GPU-aaaa\n"
		"status PodManagerPort=0\n"},
	{"d kubeshare2\nl sharedgpu/gpu_request=0.5\nl sharedgpu/gpu_limit=1.0",
		"annotation sharedgpu/gpu_uuid=GPU-aaaa\n"
		"annotation sharedgpu/gpu_model=NVIDIA-GeForce-GTX-1080\n"
		"annotation sharedgpu/gpu_mem=3145728000\n"
		"annotation sharedgpu/cell_id=1/2/0\n"},
	{"d gemini\n" FRACTION("gemini", "gpu_mem"), ""},
	{"d gpushare=MiB\nc binpack-1\nm aliyun.com/gpu-mem=3000",
		"env binpack-1 ALIYUN_COM_GPU_MEM_IDX=3\n"
		"env binpack-1 ALIYUN_COM_GPU_MEM_POD=3000\n"
		"env binpack-1 ALIYUN_COM_GPU_MEM_CONTAINER=3000\n"
		"env binpack-1 ALIYUN_COM_GPU_MEM_DEV=16384\n"
		"annotation ALIYUN_COM_GPU_MEM_IDX=3\n"
		"annotation ALIYUN_COM_GPU_MEM_POD=3000\n"
		"annotation ALIYUN_COM_GPU_MEM_DEV=16384\n"
		"annotation ALIYUN_COM_GPU_MEM_ASSUME_TIME=1705054796123456789\n"
		"annotation ALIYUN_COM_GPU_MEM_ASSIGNED=false\n"},
	{"d gaiagpu\nc prepare init\nc log\nc nvidia\nr tencent.com/vcuda-core=200",
		"annotation tencent.com/predicate-gpu-idx-1=3,1\n"
		"annotation tencent.com/predicate-node=node7\n"
		"annotation tencent.com/predicate-time=1705054796123456789\n"
		"annotation tencent.com/gpu-assigned=false\n"},
	{"d deepomatic\nr deepomatic.com/shared-gpu=1", ""},
	{"d hami\nc a\nm nvidia.com/gpu=2\nm nvidia.com/gpumem=3000\nm nvidia.com/gpucores=30\n"
	 "c log\nc b\nm nvidia.com/gpumem=3000\nm nvidia.com/priority=0",
		"env a CUDA_DEVICE_MEMORY_LIMIT_0=3000m\n"
		"env a CUDA_DEVICE_MEMORY_LIMIT_1=3000m\n"
		"env a CUDA_DEVICE_SM_LIMIT=30\n"
		"env b CUDA_DEVICE_MEMORY_LIMIT_0=3000m\n"
		"env b CUDA_DEVICE_SM_LIMIT=0\n"
		"env b CUDA_TASK_PRIORITY=0\n"
		"annotation hami.io/vgpu-devices-allocated="
		"GPU-aaaa,NVIDIA,3000,30:GPU-bbbb,NVIDIA,3000,30:;;GPU-aaaa,"
		"NVIDIA,3000,0:;\n"
		"annotation hami.io/vgpu-node=node7\n"
		"annotation hami.io/vgpu-time=1705054796\n"
		"annotation hami.io/bind-time=1705054796\n"
		"annotation hami.io/bind-phase=allocating\n"},
	{"d wang\na gpushare/resource_priority=1\n" FRACTION("gpushare", "gpu_memory"),
		"annotation gpushare/GPUID=abcde\n"
		"status deviceid=GPU-aaaa\n"
		"status podmanagerport=0\n"},
	{"d nvidia\nm nvidia.com/gpu=1", ""},
	{"d kai\nc a\nc b\na gpu-fraction=0.5\na gpu-fraction-num-devices=2\n"
	 "a divvy.gpu/container=b,a",
		"env a GPU_PORTION=0.5\n"
		"env a RUNAI_NUM_OF_GPUS=0.5\n"
		"env a CUDA_DEVICE_MEMORY_LIMIT=3000m\n"
		"env b GPU_PORTION=0.5\n"
		"env b RUNAI_NUM_OF_GPUS=0.5\n"
		"env b CUDA_DEVICE_MEMORY_LIMIT=3000m\n"
		"annotation received-resource-type=Fraction\n"},
	/* without a fraction: 3000 MiB of 16 GiB */
	{"d kai\na gpu-memory=3000",
		"env main GPU_PORTION=0.183\n"
		"env main RUNAI_NUM_OF_GPUS=0.183\n"
		"env main CUDA_DEVICE_MEMORY_LIMIT=3000m\n"
		"annotation received-resource-type=Fraction\n"},
	{"d kai\nc prepare init\nc main\na nvidia.com/container.main.gpu-memory.request=3000Mi\n"
	 "a nvidia.com/container.prepare.gpu-memory.request=3000Mi",
		"env prepare GPU_PORTION=0.183\n"
		"env prepare RUNAI_NUM_OF_GPUS=0.183\n"
		"env prepare CUDA_DEVICE_MEMORY_LIMIT=3000m\n"
		"env main GPU_PORTION=0.183\n"
		"env main RUNAI_NUM_OF_GPUS=0.183\n"
		"env main CUDA_DEVICE_MEMORY_LIMIT=3000m\n"
		"annotation received-resource-type=Fraction\n"},
	{"d volcano=10\nc a\nm volcano.sh/vgpu-number=2\nm volcano.sh/vgpu-memory=300\n"
	 "m volcano.sh/vgpu-cores=50\nc log\nc b\nm volcano.sh/vgpu-memory=300",
		"env a CUDA_DEVICE_MEMORY_LIMIT_0=3000m\n"
		"env a CUDA_DEVICE_MEMORY_LIMIT_1=3000m\n"
		"env a CUDA_DEVICE_SM_LIMIT=50\n"
		"env b CUDA_DEVICE_MEMORY_LIMIT_0=3000m\n"
		"env b CUDA_DEVICE_SM_LIMIT=0\n"
		"annotation volcano.sh/vgpu-ids-new="
		"GPU-aaaa,NVIDIA,3000,50:GPU-bbbb,NVIDIA,3000,50:;GPU-aaaa,NVIDIA,3000,0:\n"
		"annotation volcano.sh/vgpu-node=node7\n"
		"annotation volcano.sh/vgpu-time=1705054796\n"
		"annotation volcano.sh/bind-time=1705054796\n"
		"annotation volcano.sh/bind-phase=allocating\n"},
	{"d koordinator\nc a\nm koordinator.sh/gpu.shared=2\nm koordinator.sh/gpu-core=100\n"
	 "m koordinator.sh/gpu-memory=6000Mi\nc b\nm koordinator.sh/gpu-memory=3000Mi\n"
	 "l koordinator.sh/gpu-isolation-provider=HAMi-core",
		"env a CUDA_DEVICE_MEMORY_LIMIT=3145728000\n"
		"env a CUDA_DEVICE_SM_LIMIT=50\n"
		"env b CUDA_DEVICE_MEMORY_LIMIT=3145728000\n"
		"annotation scheduling.koordinator.sh/device-allocated={\"gpu\":["
		"{\"minor\":3,\"resources\":{\"koordinator.sh/gpu-core\":\"50\","
		"\"koordinator.sh/gpu-memory\":\"3000Mi\",\"koordinator.sh/gpu-memory-ratio\":\"18\"},"
		"\"id\":\"GPU-aaaa\"},"
		"{\"minor\":1,\"resources\":{\"koordinator.sh/gpu-core\":\"50\","
		"\"koordinator.sh/gpu-memory\":\"3000Mi\",\"koordinator.sh/gpu-memory-ratio\":\"18\"},"
		"\"id\":\"GPU-bbbb\"},"
		"{\"minor\":3,\"resources\":{"
		"\"koordinator.sh/gpu-memory\":\"3000Mi\",\"koordinator.sh/gpu-memory-ratio\":\"18\"},"
		"\"id\":\"GPU-aaaa\"}]}\n"
		"annotation scheduling.koordinator.sh/gpu-minors=3,1,3\n"
		"annotation scheduling.koordinator.sh/bind-timestamp=1705054796123456789\n"},
	{"d koordinator\nm koordinator.sh/gpu=100",
		"annotation scheduling.koordinator.sh/device-allocated={\"gpu\":["
		"{\"minor\":3,\"resources\":{\"koordinator.sh/gpu-core\":\"100\","
		"\"koordinator.sh/gpu-memory\":\"3000Mi\",\"koordinator.sh/gpu-memory-ratio\":\"18\"},"
		"\"id\":\"GPU-aaaa\"}]}\n"
		"annotation scheduling.koordinator.sh/gpu-minors=3\n"
		"annotation scheduling.koordinator.sh/bind-timestamp=1705054796123456789\n"},
	{"d timeslicing=4\nm nvidia.com/gpu.shared=1", ""},
	{"d mig,timeslicing=4\nc a\nm nvidia.com/mig-1g.5gb.shared=1\nc b\nr nvidia.com/mig-7g.40gb=2",
		""},
};

static void original_tools_find_their_keys(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r;
		_cleanup_free_ char *written = write_back(cases[i].pod, -1, &r);

		assert_ok(r);
		if (strcmp(written, cases[i].running))
			fail_msg("%s\n%s\nnot\n%s", cases[i].pod, written, cases[i].running);
	}
}

/*
 * A running pod. Its annotations are in `had`, in the form that write_back() of this file returns.
 */
struct runs {
	const char *had;
	struct buf text;
	int left;
};

static const char *get(void *data, enum dialect_where where, const char *key)
{
	static char value[256];
	char line[128];
	const char *at;

	snprintf(line, sizeof(line), "%s %s=", wheres[where], key);
	at = strstr(((struct runs *)data)->had, line);
	if (!at)
		return NULL;
	at += strlen(line);
	str_copy(value, sizeof(value), (struct str){at, strcspn(at, "\n")});
	return value;
}

static int put_running(void *data, enum dialect_where where, uint32_t container, const char *key,
	const char *value)
{
	struct runs *runs = data;

	check_documented(where, key);
	assert_int_equal(container, MANIFEST_NONE);
	if (runs->left-- == 0)
		return -ENOSPC;
	return buf_addf(&runs->text, "%s=%s\n", key, value);
}

static void running_pods_get_their_keys(void **state)
{
	static const struct {
		const char *pod, *changes;
	} placed[] = {
		{"d gpushare\nm aliyun.com/gpu-mem=3",
			"ALIYUN_COM_GPU_MEM_ASSIGNED=true\nALIYUN_COM_GPU_MEM_ASSIGN_TIME=17\n"},
		{"d gaiagpu\nr tencent.com/vcuda-core=100", "tencent.com/gpu-assigned=true\n"},
		{"d hami\nm nvidia.com/gpumem=3000", "hami.io/bind-phase=success\n"},
		{"d volcano\nm volcano.sh/vgpu-memory=3000", "volcano.sh/bind-phase=success\n"},
		{"d kai\na gpu-fraction=0.5", ""},
		{"d kubeshare\n" FRACTION("kubeshare", "gpu_mem"), ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(placed); i++) {
		int r;
		_cleanup_free_ char *written = write_back(placed[i].pod, -1, &r);
		struct runs runs = {.had = written, .text = BUF_INIT(1024), .left = -1};

		assert_ok(dialect_write_running(get, 17, put_running, &runs));
		assert_string_equal(buf_text(&runs.text), placed[i].changes);
		runs.left = 0;
		assert_int_equal(dialect_write_running(get, 17, put_running, &runs),
			placed[i].changes[0] ? -ENOSPC : 0);
		buf_done(&runs.text);
	}
}

/* dialect_write_running() writes each key once. */
static void keys_of_a_running_pod_are_written_once(void **state)
{
	struct runs runs = {.had = "annotation ALIYUN_COM_GPU_MEM_ASSIGNED=true\n"
				   "annotation hami.io/bind-phase=success\n",
		.text = BUF_INIT(1024)};

	assert_ok(dialect_write_running(get, 17, put_running, &runs));
	assert_string_equal(buf_text(&runs.text), "");
}

/* Pods on one device get one label; a pod that has the label or no device gets none. */
static void running_pods_get_a_label(void **state)
{
	static const struct {
		const char *had, *gets;
	} pods[] = {
		{"annotation received-resource-type=Fraction\n"
		 "annotation divvy.gpu/devices=main=GPU-aaaa,GPU-bbbb side=GPU-cccc\n",
			"runai-gpu-group=GPU-aaaa\n"},
		{"annotation received-resource-type=Fraction\n"
		 "annotation divvy.gpu/devices=main=MIG-GPU-aaaa/1/0 side=GPU-cccc\n",
			"runai-gpu-group=MIG-GPU-aaaa_1_0\n"},
		{"annotation received-resource-type=Fraction\n"
		 "annotation divvy.gpu/devices=main=GPU-aaaa\nlabel runai-gpu-group=GPU-aaaa\n",
			""},
		{"annotation divvy.gpu/devices=main=GPU-aaaa\n", ""},
		{"annotation received-resource-type=Fraction\n", ""},
		{"annotation received-resource-type=Fraction\nannotation divvy.gpu/devices=main\n",
			""},
		{"annotation received-resource-type=Fraction\nannotation divvy.gpu/devices=main="
		 "GPU-64-characters-are-one-more-than-a-label-may-have-aaaaaaaaaaa\n",
			""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(pods); i++) {
		struct runs runs = {.had = pods[i].had, .text = BUF_INIT(1024), .left = -1};

		assert_ok(dialect_write_running(get, 17, put_running, &runs));
		assert_string_equal(buf_text(&runs.text), pods[i].gets);
		buf_done(&runs.text);
	}
}

/*
 * gpushare's tools divide the container's memory by the device's memory, so both variables must
 * have one unit.
 */
static void memory_variables_have_the_same_unit(void **state)
{
	int r;
	_cleanup_free_ char *gib = write_back("d gpushare\nm aliyun.com/gpu-mem=2", -1, &r);

	assert_contains(gib, "env main ALIYUN_COM_GPU_MEM_CONTAINER=2\n"); /* granted: 3000Mi */
	assert_contains(gib, "env main ALIYUN_COM_GPU_MEM_DEV=16\n");
}

static void a_failure_ends_the_writing(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const int n = (int)unit_count(cases[i].running, "\n");

		for (int left = 0; left < n; left++) {
			int r;
			_cleanup_free_ char *written = write_back(cases[i].pod, left, &r);

			assert_int_equal(r, -ENOSPC);
			assert_int_equal(unit_count(written, "\n"), left);
		}
	}
}

static char *meaning(const struct manifest *pod, const struct dialect_result *result)
{
	_cleanup_buf_ struct buf out = BUF_INIT(1 << 16);

	manifest_text_show(pod, result, &out);
	return str_dup(buf_str(&out));
}

/*
 * Does as the webhook: moves the resources to the record, writes the list of dialects, and
 * translates again.
 */
static void a_second_translation_is_the_same(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static struct manifest_text t;
		_cleanup_dialect_ struct dialect_result once, twice;
		_cleanup_buf_ struct buf record = BUF_INIT(DIALECT_RECORD_MAX),
					 list = BUF_INIT(256), again = BUF_INIT(DIALECT_RECORD_MAX);
		_cleanup_free_ char *first = NULL, *second = NULL;
		struct dialect_config config, none;
		struct error err;

		manifest_text_parse(str_from(cases[i].pod), &t);
		assert_ok(dialect_config_parse(t.dialects, &config, NULL));
		assert_ok(dialect_config_parse(STR(""), &none, NULL));
		assert_ok(dialect_translate(&t.pod, &config, &once, NULL));
		first = meaning(&t.pod, &once);
		assert_ok(dialect_record_format(&t.pod, &once, &record));
		assert_ok(dialect_config_format(&once.config, &list));
		for (uint32_t c = 0; c < t.pod.n_containers; c++)
			t.container[c].limits.n = t.container[c].requests.n = 0;
		t.annotations[t.pod.annotations.n++] = (struct manifest_entry){
			STR(DIALECT_RECORD_KEY), buf_str(&record)};
		t.annotations[t.pod.annotations.n++] = (struct manifest_entry){
			STR(DIALECT_LIST_KEY), buf_str(&list)};
		t.pod.annotations.entry = t.annotations;
		if (dialect_translate(&t.pod, &none, &twice, &err) < 0)
			fail_msg("%s: %s", cases[i].pod, err.msg);
		second = meaning(&t.pod, &twice);
		assert_string_equal(first, second);
		assert_ok(dialect_record_format(&t.pod, &twice, &again));
		assert_string_equal(buf_text(&record), buf_text(&again));
	}
}

UNIT_MAIN(UNIT(original_tools_find_their_keys), UNIT(running_pods_get_their_keys),
	UNIT(keys_of_a_running_pod_are_written_once), UNIT(running_pods_get_a_label),
	UNIT(memory_variables_have_the_same_unit), UNIT(a_failure_ends_the_writing),
	UNIT(a_second_translation_is_the_same))
