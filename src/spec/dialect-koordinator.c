/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Koordinator. gpu-core and gpu-memory-ratio are percent of one device, or of n devices together
 * if they are n times 100; gpu is both at once. gpu-memory is bytes of all devices together. With
 * gpu.shared the container gets that many devices, and an equal part of each amount on each. The
 * combinations are those that Koordinator's scheduler accepts. Pure; any thread.
 */
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "spec/dialect-internal.h"
#include "spec/quantity.h"

#define P "koordinator.sh/"
#define S "scheduling.koordinator.sh/"
#define ISOLATION P "gpu-isolation-provider"
#define ONE 100u /* percent of one device */
#define PERCENT_MAX (SPEC_DEVICES_MAX * ONE)

/* The amounts that a container requests of all its devices together; 0: absent. */
struct koordinator_requested {
	uint64_t gpu, core, memory, ratio, shared, shared_too;
};

static int koordinator_read(struct dialect_draft *draft, uint32_t container,
	struct koordinator_requested *ret, struct error *err)
{
	const struct {
		const char *resource;
		uint64_t max, *value;
	} resources[] = {
		{P "gpu", PERCENT_MAX, &ret->gpu},
		{P "gpu-core", PERCENT_MAX, &ret->core},
		{P "gpu-memory", INT64_MAX, &ret->memory},
		{P "gpu-memory-ratio", PERCENT_MAX, &ret->ratio},
		{P "gpu.shared", SPEC_DEVICES_MAX, &ret->shared},
		{P "gpu-shared", SPEC_DEVICES_MAX, &ret->shared_too},
	};

	*ret = (struct koordinator_requested){0};
	for (size_t i = 0; i < ARRAY_SIZE(resources); i++) {
		int r = draft_resource(draft, container, resources[i].resource, resources[i].max,
			resources[i].value, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static unsigned long long shown(uint64_t value)
{
	return value;
}

/* Checks which resources are there together, and merges the two names of some. */
static int check_combination(struct koordinator_requested *a, struct error *err)
{
	if (a->shared && a->shared_too && a->shared != a->shared_too)
		return fail(err, EINVAL,
			P "gpu.shared %llu and " P "gpu-shared %llu; keep one of the two",
			shown(a->shared), shown(a->shared_too));
	a->shared = a->shared ? a->shared : a->shared_too;
	if (a->gpu && (a->core || a->memory || a->ratio || a->shared))
		return fail(err, EINVAL,
			P "gpu %llu is time and memory; leave it out beside other resources of " P
			  ", or keep it alone",
			shown(a->gpu));
	if (a->memory && a->ratio)
		return fail(err, EINVAL,
			P "gpu-memory %llu and " P "gpu-memory-ratio %llu; keep one of the two",
			shown(a->memory), shown(a->ratio));
	if (a->gpu)
		a->core = a->ratio = a->gpu;
	if ((a->core || a->shared) && !a->memory && !a->ratio)
		return fail(err, EINVAL,
			P "gpu-memory-ratio is missing; %s requires it; set 1 to 100 percent, or "
			  "set " P "gpu-memory",
			a->core ? P "gpu-core" : P "gpu.shared");
	return 0;
}

/* Reads a number of percent: up to 100 of one device, or whole devices. */
static int count_devices(const char *resource, uint64_t percent, uint64_t *ret_n, struct error *err)
{
	if (percent > ONE && percent % ONE)
		return fail(err, EINVAL,
			"%s %llu: values above 100 are whole devices; expected 1 to 100, or 200, "
			"300 ... %u, or set " P "gpu.shared",
			resource, shown(percent), PERCENT_MAX);
	*ret_n = percent > ONE ? percent / ONE : 1;
	return 0;
}

/* The number of devices without gpu.shared. */
static int koordinator_count(
	const struct koordinator_requested *a, uint64_t *ret_n, struct error *err)
{
	uint64_t by_core = 1, by_ratio = 1;
	int r = count_devices(a->gpu ? P "gpu" : P "gpu-core", a->core, &by_core, err);

	r = r < 0 ? r : count_devices(P "gpu-memory-ratio", a->ratio, &by_ratio, err);
	if (r < 0)
		return r;
	if (a->core && a->ratio && by_core != by_ratio)
		return fail(err, EINVAL,
			P "gpu-core %llu and " P "gpu-memory-ratio %llu are different numbers of "
			  "devices; set both to the same, or set " P "gpu.shared",
			shown(a->core), shown(a->ratio));
	*ret_n = a->core ? by_core : by_ratio;
	return 0;
}

/* Divides the amount by the number of devices. */
static int koordinator_divide(
	const char *resource, uint64_t *amount, uint64_t n, uint64_t max, struct error *err)
{
	if (*amount % n)
		return fail(err, EINVAL, "%s %llu on %llu devices: expected a multiple of %llu",
			resource, shown(*amount), shown(n), shown(n));
	if (*amount / n > max)
		return fail(err, EINVAL, "%s %llu on %llu devices: expected at most %llu", resource,
			shown(*amount), shown(n), shown(n * max));
	*amount /= n;
	return 0;
}

static int koordinator_set(
	struct spec *spec, struct koordinator_requested *a, bool is_isolated, struct error *err)
{
	uint64_t n = a->shared;
	int r = n ? 0 : koordinator_count(a, &n, err);

	r = r < 0 ? r : koordinator_divide(P "gpu-core", &a->core, n, ONE, err);
	r = r < 0 ? r : koordinator_divide(P "gpu-memory-ratio", &a->ratio, n, ONE, err);
	r = r < 0 ? r : koordinator_divide(P "gpu-memory", &a->memory, n, INT64_MAX, err);
	if (r < 0)
		return r;
	spec->memory_bytes = a->memory;
	if (a->core == ONE) {
		spec->request = (uint32_t)n * SPEC_SHARE_ONE;
		spec->memory_permille = a->ratio == ONE ? 0 : (uint32_t)a->ratio * 10;
		return 0;
	}
	spec->count = (uint32_t)n;
	spec->request = a->core ? (uint32_t)a->core * 10 : 1;
	spec->memory_permille = (uint32_t)a->ratio * 10;
	if (a->core && is_isolated)
		spec->limit = spec->request;
	return 0;
}

static bool is_isolated(const struct manifest *pod)
{
	const struct str *provider = manifest_find(pod->labels, STR(ISOLATION));

	return provider && provider->n;
}

static int koordinator_translate(struct dialect_draft *draft, struct error *err)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < draft->pod->n_containers; i++) {
		struct koordinator_requested requested;
		struct spec spec;

		r = koordinator_read(draft, i, &requested, err);
		r = r < 0 ? r : check_combination(&requested, err);
		if (r < 0 || (!requested.memory && !requested.ratio))
			continue;
		spec_init(&spec);
		r = koordinator_set(&spec, &requested, is_isolated(draft->pod), err);
		r = r < 0 ? r : draft_add(draft, i, &spec, err);
	}
	return r;
}

/* ---- writing back ---- */

static uint32_t koordinator_core(const struct spec *spec)
{
	return spec->request == 1 && !spec->exclusive ? 0 : spec->request / 10;
}

static uint64_t ratio_of(const struct dialect_device *d)
{
	const uint64_t bytes = MIN(d->granted_bytes, d->memory_bytes);

	return d->memory_bytes < ONE ? 0 : MIN(bytes / (d->memory_bytes / ONE), (uint64_t)ONE);
}

static void add_device(struct buf *out, const struct dialect_device *d, const struct spec *spec)
{
	const uint32_t core = koordinator_core(spec);
	char memory[QUANTITY_SIZE];

	buf_addf(out, "{\"minor\":%u,\"resources\":{", d->index);
	if (core)
		buf_addf(out, "\"" P "gpu-core\":\"%u\",", core);
	buf_addf(out, "\"" P "gpu-memory\":\"%s\",\"" P "gpu-memory-ratio\":\"%llu\"},",
		quantity_format_bytes(d->granted_bytes, memory), shown(ratio_of(d)));
	buf_addf(out, "\"id\":\"%s\"}", d->uuid);
}

/* Writes the variables that a container reads if HAMi-core isolates it. */
static int koordinator_write_env(const struct dialect_writer *w, uint32_t i)
{
	const struct dialect_grant *g = &w->given->grant[i];
	const uint32_t c = w->result->tenant[i].container,
		       core = koordinator_core(&w->result->tenant[i].spec);
	int r = 0;

	if (!g->n_devices || !is_isolated(w->pod))
		return 0;
	r = writer_put(w, DIALECT_ENV, c, "CUDA_DEVICE_MEMORY_LIMIT", "%llu",
		shown(g->device[0].granted_bytes));
	if (r >= 0 && core)
		r = writer_put(w, DIALECT_ENV, c, "CUDA_DEVICE_SM_LIMIT", "%u", core);
	return r;
}

static int koordinator_write_back(struct dialect_writer *w)
{
	_cleanup_buf_ struct buf devices = BUF_INIT(60u << 10), minors = BUF_INIT(4096);
	int r = 0;

	for (uint32_t i = writer_next(w, 0); r >= 0 && i < w->result->n_tenants;
		i = writer_next(w, i + 1)) {
		const struct dialect_grant *g = &w->given->grant[i];

		for (uint32_t k = 0; k < g->n_devices; k++) {
			buf_add_text(&devices, devices.n ? "," : "");
			add_device(&devices, &g->device[k], &w->result->tenant[i].spec);
			buf_addf(&minors, "%s%u", minors.n ? "," : "", g->device[k].index);
		}
		r = koordinator_write_env(w, i);
	}
	r = r < 0 ? r : buf_error(&devices);
	r = r < 0 ? r : buf_error(&minors);
	r = r < 0 ? r
		  : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, S "device-allocated",
			    "{\"gpu\":[%s]}", buf_text(&devices));
	r = r < 0 ? r
		  : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, S "gpu-minors", "%s",
			    buf_text(&minors));
	return r < 0 ? r
		     : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, S "bind-timestamp", "%llu",
			       shown(w->given->time_ns));
}

static const struct dialect_key keys[] = {
	{P "gpu", DIALECT_RESOURCE, DIALECT_REQUESTS,
		"request and memory, 1 to 99 percent of a device; 100, 200, ...: whole devices"},
	{P "gpu-core", DIALECT_RESOURCE, DIALECT_REQUESTS,
		"request, percent of a device; 100, 200, ...: whole devices; absent: 0.001; limit 1, "
		"or the request with gpu-isolation-provider"},
	{P "gpu-memory-ratio", DIALECT_RESOURCE, DIALECT_REQUESTS,
		"memory, percent of a device; 200, 300, ...: all memory of 2, 3, ... devices"},
	{P "gpu-memory", DIALECT_RESOURCE, DIALECT_REQUESTS,
		"memory, in bytes, of all devices of the container together"},
	{P "gpu.shared", DIALECT_RESOURCE, DIALECT_REQUESTS,
		"count; the other resources are sums over these devices"},
	{P "gpu-shared", DIALECT_RESOURCE, DIALECT_REQUESTS, "the same, as release notes spell it"},
	{ISOLATION, DIALECT_LABEL, DIALECT_READS, "any value: gpu-core is the limit, too"},
	{"quota.scheduling.koordinator.sh/name", DIALECT_LABEL, DIALECT_READS,
		"queue: that of a GPUPolicy whose podSelector names this label"},
	{S "device-allocate-hint", DIALECT_ANNOTATION, DIALECT_IGNORES,
		"the cluster's placement policy decides"},
	{S "device-joint-allocate", DIALECT_ANNOTATION, DIALECT_IGNORES, "divvy places GPUs only"},
	{S "gpu-partition-spec", DIALECT_ANNOTATION, DIALECT_IGNORES,
		"divvy chooses neighbouring devices anyway if possible"},
	{S "device-allocated", DIALECT_ANNOTATION, DIALECT_GIVES,
		"JSON: minor, resources and UUID of each device"},
	{S "gpu-minors", DIALECT_ANNOTATION, DIALECT_GIVES, "indexes of the devices"},
	{S "bind-timestamp", DIALECT_ANNOTATION, DIALECT_GIVES, "time of placement, ns since 1970"},
	{"CUDA_DEVICE_MEMORY_LIMIT", DIALECT_ENV, DIALECT_GIVES,
		"memory on each device, in bytes; with gpu-isolation-provider"},
	{"CUDA_DEVICE_SM_LIMIT", DIALECT_ENV, DIALECT_GIVES,
		"gpu-core of each device; with gpu-isolation-provider"},
	{NULL},
};

static const char *const differs[] = {
	"divvy enforces memory and time with or without gpu-isolation-provider. Without the label "
	"a container may use time that others leave unused.",
	"Each container has devices of its own. Koordinator adds up the containers of a pod, and "
	"gives all of them the same devices.",
	"gpu-core 100 is an exclusive device, whatever gpu-memory-ratio says.",
	"divvy refuses combinations that Koordinator's scheduler cannot place, such as gpu-core "
	"alone, when the pod is created.",
	"divvy places GPUs. koordinator.sh/rdma and koordinator.sh/fpga stay in the pod, and need a "
	"device plugin that serves them.",
	"An administrator decides by GPUPolicies which labels lead to which queue. Without such a "
	"policy the name of an ElasticQuota has no effect.",
	NULL,
};

static const char *const schedulers[] = {"koord-scheduler", NULL};

const struct dialect dialect_koordinator = {
	.name = "koordinator",
	.title = "Koordinator",
	.coming =
		"Switch the dialect on. schedulerName koord-scheduler may stay: divvy replaces it "
		"in pods with a share. koordlet and hami-daemon are not needed for GPUs. Whole "
		"devices by nvidia.com/gpu need the dialect nvidia as well.",
	.schedulers = schedulers,
	.keys = keys,
	.differs = differs,
	.translate = koordinator_translate,
	.write_back = koordinator_write_back,
};
