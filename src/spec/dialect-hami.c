/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HAMi (formerly k8s-vGPU-scheduler). `nvidia.com/gpu: n` requests n vGPUs on different devices.
 * Each vGPU has gpumem MiB of memory or a percentage of it, or all memory without either key.
 * gpucores is a percentage of the device's time, guaranteed and also the limit. gpucores 0 or no
 * gpucores: no limit and no guarantee; 100: the whole device. Priority 0 goes before 1. Pure; any
 * thread.
 */
#include "spec/dialect-hami.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <strings.h>

#include "base/cleanup.h"

#define P "nvidia.com/"
#define SHOW "%.*s"
#define SHOWN(s) (int)MIN((s).n, (size_t)48), (s).p ? (s).p : ""
#define POLICY "GPU_CORE_UTILIZATION_POLICY"

static const struct hami_names names = {
	P "gpu", P "gpumem", P "gpumem-percentage", P "gpucores", P "priority"};

bool hami_has_own(const struct dialect_draft *draft, uint32_t container, const struct hami_names *n)
{
	return draft_has_resource(draft, container, n->memory) ||
		draft_has_resource(draft, container, n->percentage) ||
		draft_has_resource(draft, container, n->cores);
}

int hami_read(struct dialect_draft *draft, uint32_t container, const struct hami_names *n,
	uint32_t unit_mib, struct hami_requested *ret, struct error *err)
{
	const struct {
		const char *resource;
		uint64_t max, *value;
	} resources[] = {
		{n->count, SPEC_DEVICES_MAX, &ret->count},
		{n->memory, INT64_MAX / DIALECT_MIB / unit_mib, &ret->memory},
		{n->percentage, 100, &ret->percentage},
		{n->cores, 100, &ret->cores},
		{n->priority, 1, &ret->priority},
	};

	*ret = (struct hami_requested){HAMI_NONE, HAMI_NONE, HAMI_NONE, HAMI_NONE, HAMI_NONE};
	for (size_t i = 0; i < ARRAY_SIZE(resources); i++) {
		int r = resources[i].resource
			? draft_resource(draft, container, resources[i].resource, resources[i].max,
				  resources[i].value, err)
			: 0;

		if (r < 0)
			return r;
	}
	if (ret->count == HAMI_NONE)
		ret->count = 1;
	if (ret->memory != HAMI_NONE)
		ret->memory *= unit_mib;
	return ret->count > 0;
}

/* Returns 1 if the container requests GPUs, else 0. */
static int hami_read_requested(struct dialect_draft *draft, uint32_t container,
	struct hami_requested *ret, struct error *err)
{
	/*
	 * In a container without HAMi's further keys, nvidia.com/gpu requests whole devices. Then
	 * the dialect nvidia translates the container if that dialect is on.
	 */
	if (!hami_has_own(draft, container, &names) &&
		(!draft_has_resource(draft, container, names.count) ||
			dialect_is_on(&draft->config, &dialect_nvidia)))
		return 0;
	return hami_read(draft, container, &names, 1, ret, err);
}

/* Whether the container disables the limit that gpucores sets. */
static int hami_read_policy(const struct dialect_draft *draft, uint32_t container,
	bool *ret_unlimited, struct error *err)
{
	const struct str *policy = manifest_find(draft->pod->container[container].env, STR(POLICY));

	*ret_unlimited = false;
	if (!policy || !policy->n)
		return 0;
	*ret_unlimited = policy->n == 7 && !strncasecmp(policy->p, "disable", 7);
	if (!*ret_unlimited && (policy->n != 7 || strncasecmp(policy->p, "default", 7)) &&
		(policy->n != 5 || strncasecmp(policy->p, "force", 5)))
		return fail(err, EINVAL, POLICY " '" SHOW "': expected default, force or disable",
			SHOWN(*policy));
	return 0;
}

int hami_set(struct spec *spec, const struct hami_requested *a, const struct hami_names *n,
	bool is_unlimited, struct error *err)
{
	const uint64_t cores = a->cores == HAMI_NONE ? 0 : a->cores;

	if (a->memory != HAMI_NONE && a->memory && a->percentage != HAMI_NONE)
		return fail(err, EINVAL, "%s %llu and %s %llu; keep one of the two", n->memory,
			(unsigned long long)a->memory, n->percentage,
			(unsigned long long)a->percentage);
	if (a->percentage == 0)
		return fail(err, EINVAL, "%s 0: expected 1 to 100", n->percentage);
	if (a->memory != HAMI_NONE && a->memory)
		spec->memory_bytes = a->memory * DIALECT_MIB;
	else
		spec->memory_permille = a->percentage == HAMI_NONE ? SPEC_SHARE_ONE
								   : (uint32_t)a->percentage * 10;
	spec->class = a->priority == 0 ? SPEC_LATENCY : SPEC_STANDARD;
	if (cores == 100) {
		spec->request = (uint32_t)a->count * SPEC_SHARE_ONE;
		return 0;
	}
	spec->count = (uint32_t)a->count;
	spec->request = cores ? (uint32_t)cores * 10 : 1;
	if (cores && !is_unlimited)
		spec->limit = spec->request;
	return 0;
}

static const struct {
	const char *key, *field, *sign;
} lists[] = {
	{P "use-gputype", "model", ""},
	{P "nouse-gputype", "model", "!"},
	{P "use-gpuuuid", "device", ""},
	{P "nouse-gpuuuid", "device", "!"},
};

/* Joins the lists "A100, V100" (use) and "T4" (do not use) to "A100,V100,!T4". */
static int read_lists(
	const struct dialect_draft *draft, const char *field, struct spec *spec, struct error *err)
{
	_cleanup_buf_ struct buf pattern = BUF_INIT(2 * DIALECT_VALUE_MAX);
	const char *key = NULL;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const struct str *value = draft_annotation(draft, lists[i].key);
		struct str rest = value ? *value : STR_NONE, item;

		if (!value || lists[i].field[0] != field[0])
			continue;
		key = lists[i].key;
		if (str_find(*value, '\0') != value->n)
			return fail(err, EINVAL, "%s: the value has a zero byte", key);
		while (str_split(&rest, ',', &item))
			if (str_trim(item).n)
				buf_addf(&pattern, "%s%s%" STR_FMT, pattern.n ? "," : "",
					lists[i].sign, STR_ARG(str_trim(item)));
	}
	if (!key)
		return 0;
	if (buf_error(&pattern) == -ENOMEM)
		return fail(err, ENOMEM, "out of memory");
	if (buf_error(&pattern) < 0)
		return fail(err, EINVAL, "%s: the list has more than %u characters", key,
			SPEC_PATTERN - 1);
	r = pattern.n ? spec_set(spec, field, buf_text(&pattern), err) : 0;
	return r < 0 ? fail_within(err, r, "%s", key) : 0;
}

int hami_read_models(const struct dialect_draft *draft, struct spec *spec, struct error *err)
{
	return read_lists(draft, "model", spec, err);
}

int hami_check_mode(const struct dialect_draft *draft, const char *key, struct error *err)
{
	const struct str *mode = draft_annotation(draft, key);

	if (mode && mode->n && !str_is(*mode, "hami-core"))
		return fail(err, EINVAL,
			"%s '" SHOW "': expected hami-core; pods cannot choose MIG or MPS here",
			key, SHOWN(*mode));
	return 0;
}

static int hami_translate(struct dialect_draft *draft, struct error *err)
{
	struct spec patterns;
	int r = hami_check_mode(draft, P "vgpu-mode", err);

	spec_init(&patterns);
	r = r < 0 ? r : read_lists(draft, "model", &patterns, err);
	r = r < 0 ? r : read_lists(draft, "device", &patterns, err);
	for (uint32_t i = 0; r == 0 && i < draft->pod->n_containers; i++) {
		struct spec spec = patterns;
		bool is_unlimited;
		struct hami_requested requested;

		r = hami_read_requested(draft, i, &requested, err);
		if (r <= 0)
			continue;
		r = hami_read_policy(draft, i, &is_unlimited, err);
		r = r < 0 ? r : hami_set(&spec, &requested, &names, is_unlimited, err);
		r = r < 0 ? r : draft_add(draft, i, &spec, err);
	}
	return r;
}

/* ---- writing back ---- */

static uint64_t hami_device_mib(const struct dialect_device *d)
{
	return d->granted_bytes / DIALECT_MIB;
}

/* Guaranteed percent of a device as HAMi's tools show it: 0 if nothing is guaranteed. */
static uint32_t hami_cores_percent(const struct spec *spec)
{
	return spec->request == 1 && !spec->exclusive ? 0 : spec->request / 10;
}

void hami_format_tenant(const struct dialect_writer *w, uint32_t i, struct buf *out)
{
	const struct dialect_grant *g = &w->given->grant[i];

	for (uint32_t k = 0; k < g->n_devices; k++)
		buf_addf(out, "%s,NVIDIA,%llu,%u:", g->device[k].uuid,
			(unsigned long long)hami_device_mib(&g->device[k]),
			hami_cores_percent(&w->result->tenant[i].spec));
}

/* Writes the devices of all tenants, and ";" after each main container. */
static int format_devices(const struct dialect_writer *w, struct buf *out)
{
	for (uint32_t c = 0; c < w->pod->n_containers; c++) {
		if (w->pod->container[c].kind != MANIFEST_MAIN)
			continue;
		for (uint32_t i = 0; i < w->result->n_tenants; i++)
			if (w->result->tenant[i].container == c)
				hami_format_tenant(w, i, out);
		buf_add_byte(out, ';');
	}
	return buf_error(out);
}

int hami_write_env(const struct dialect_writer *w, uint32_t i)
{
	const struct dialect_grant *g = &w->given->grant[i];
	const struct spec *spec = &w->result->tenant[i].spec;
	const uint32_t c = w->result->tenant[i].container;
	int r = 0;

	for (uint32_t k = 0; r >= 0 && k < g->n_devices; k++) {
		char key[48];

		snprintf(key, sizeof(key), "CUDA_DEVICE_MEMORY_LIMIT_%u", k);
		r = writer_put(w, DIALECT_ENV, c, key, "%llum",
			(unsigned long long)hami_device_mib(&g->device[k]));
	}
	r = r < 0 ? r
		  : writer_put(w, DIALECT_ENV, c, "CUDA_DEVICE_SM_LIMIT", "%u",
			    hami_cores_percent(spec));
	if (r >= 0 && spec->class == SPEC_LATENCY)
		r = writer_put(w, DIALECT_ENV, c, "CUDA_TASK_PRIORITY", "0");
	return r;
}

static const struct dialect_step running[] = {
	{"hami.io/bind-phase", "allocating", "success"}, {NULL}};

static int hami_write_back(struct dialect_writer *w)
{
	_cleanup_buf_ struct buf devices = BUF_INIT(64u << 10);
	const unsigned long long seconds = w->given->time_ns / 1000000000;
	int r = 0;

	for (uint32_t i = writer_next(w, 0); r >= 0 && i < w->result->n_tenants;
		i = writer_next(w, i + 1))
		r = hami_write_env(w, i);
	r = r < 0 ? r : format_devices(w, &devices);
	r = r < 0 ? r
		  : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE,
			    "hami.io/vgpu-devices-allocated", "%s", buf_text(&devices));
	r = r < 0 ? r
		  : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, "hami.io/vgpu-node", "%s",
			    w->given->node);
	r = r < 0 ? r
		  : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, "hami.io/vgpu-time", "%llu",
			    seconds);
	r = r < 0 ? r
		  : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, "hami.io/bind-time", "%llu",
			    seconds);
	return r < 0 ? r
		     : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, running[0].key, "%s",
			       running[0].before);
}

static const struct dialect_key keys[] = {
	{P "gpu", DIALECT_RESOURCE, DIALECT_REQUESTS, "count; 1 if only other keys are present"},
	{P "gpumem", DIALECT_RESOURCE, DIALECT_REQUESTS, "memory on each device, in MiB"},
	{P "gpumem-percentage", DIALECT_RESOURCE, DIALECT_REQUESTS,
		"memory on each device, 1 to 100 percent; without both: all memory"},
	{P "gpucores", DIALECT_RESOURCE, DIALECT_REQUESTS,
		"request and limit, percent of each device; 0 or absent: request 0.001, limit 1; "
		"100: whole devices"},
	{P "priority", DIALECT_RESOURCE, DIALECT_READS, "0: class latency; 1 or absent: standard"},
	{P "use-gputype", DIALECT_ANNOTATION, DIALECT_READS, "model: one of these"},
	{P "nouse-gputype", DIALECT_ANNOTATION, DIALECT_READS, "model: none of these"},
	{P "use-gpuuuid", DIALECT_ANNOTATION, DIALECT_READS, "device: among these"},
	{P "nouse-gpuuuid", DIALECT_ANNOTATION, DIALECT_READS, "device: none of these"},
	{P "vgpu-mode", DIALECT_ANNOTATION, DIALECT_READS, "hami-core; mig and mps are refused"},
	{POLICY, DIALECT_ENV, DIALECT_READS, "disable: limit 1, whatever gpucores is"},
	{P "numa-bind", DIALECT_ANNOTATION, DIALECT_IGNORES,
		"divvy chooses neighbouring devices anyway if possible"},
	{"hami.io/node-scheduler-policy", DIALECT_ANNOTATION, DIALECT_IGNORES,
		"the cluster's placement policy decides"},
	{"hami.io/gpu-scheduler-policy", DIALECT_ANNOTATION, DIALECT_IGNORES,
		"the cluster's placement policy decides"},
	{"hami.io/vgpu-devices-allocated", DIALECT_ANNOTATION, DIALECT_GIVES,
		"UUID,NVIDIA,MiB,cores of each device, by container"},
	{"hami.io/vgpu-node", DIALECT_ANNOTATION, DIALECT_GIVES, "node of the pod"},
	{"hami.io/vgpu-time", DIALECT_ANNOTATION, DIALECT_GIVES,
		"time of placement, in seconds since 1970"},
	{"hami.io/bind-time", DIALECT_ANNOTATION, DIALECT_GIVES, "the same"},
	{"hami.io/bind-phase", DIALECT_ANNOTATION, DIALECT_GIVES,
		"allocating, then success once the pod runs"},
	{"CUDA_DEVICE_MEMORY_LIMIT_", DIALECT_ENV, DIALECT_GIVES,
		"followed by the device's number: its memory, such as 3000m"},
	{"CUDA_DEVICE_SM_LIMIT", DIALECT_ENV, DIALECT_GIVES, "gpucores, for programs that read it"},
	{"CUDA_TASK_PRIORITY", DIALECT_ENV, DIALECT_GIVES, "0 for priority 0"},
	{NULL},
};

static const char *const differs[] = {
	"gpucores are time on the device for each container, whatever the number of its "
	"processes: 30 and 70 together are 30 and 70.",
	"divvy refuses gpumem together with gpumem-percentage. HAMi dropped the percentage.",
	"divvy refuses gpucores above 100. HAMi reduced the value to 100.",
	"A container cannot change its limits by its own environment: the CUDA_DEVICE_* variables"
	" are for reading. CUDA_DISABLE_CONTROL has no effect.",
	"divvy does not write hami.io/vgpu-devices-to-allocate, since no part allocates by it.",
	NULL,
};

static const char *const schedulers[] = {"hami-scheduler", NULL};

const struct dialect dialect_hami = {
	.name = "hami",
	.title = "HAMi",
	.coming = "First remove HAMi's webhook and device plugin from those nodes, then switch "
		  "the dialect on. If pods request whole GPUs as nvidia.com/gpu alone, switch "
		  "nvidia on too, and these GPUs become exclusive. Without it they are shared, as"
		  " with HAMi.",
	.schedulers = schedulers,
	.keys = keys,
	.differs = differs,
	.translate = hami_translate,
	.write_back = hami_write_back,
	.running = running,
};
