/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpushare: Alibaba Cloud's scheduler extender and device plugin. A pod requests only memory, on
 * one device. The size of the device is unknown before placement, so divvy cannot compute a share
 * that would match the memory. Alibaba's plugin guarantees no device time. So the request is the
 * least possible (0.001), and the limit is 1. Memory alone decides where the pod fits, as in
 * Alibaba's extender. Pure; any thread.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "spec/dialect-internal.h"

#define P "aliyun.com/"
#define ENV "ALIYUN_COM_GPU_MEM_"

static uint64_t gpushare_unit_bytes(const struct dialect_config *config)
{
	return config->gpushare_is_mib ? DIALECT_MIB : DIALECT_MIB << 10;
}

static int check_count(struct dialect_draft *draft, uint32_t container, struct error *err)
{
	uint64_t count = 1;
	int r = draft_resource(draft, container, P "gpu-count", SPEC_DEVICES_MAX, &count, err);

	if (r >= 0 && count != 1)
		return fail(err, EINVAL,
			P "gpu-count %llu: gpu-mem counts one device; set gpu-count 1, or "
			  "use divvy.gpu/count for several devices",
			(unsigned long long)count);
	return r < 0 ? r : 0;
}

static int gpushare_translate(struct dialect_draft *draft, struct error *err)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < draft->pod->n_containers; i++) {
		uint64_t memory = 0;
		struct spec spec;

		r = draft_resource(draft, i, P "gpu-mem",
			INT64_MAX / gpushare_unit_bytes(&draft->config), &memory, err);
		if (r <= 0 || !memory) {
			r = MIN(r, 0);
			continue;
		}
		r = check_count(draft, i, err);
		if (r < 0)
			return r;
		spec_init(&spec);
		spec.request = 1;
		spec.memory_bytes = memory * gpushare_unit_bytes(&draft->config);
		r = draft_add(draft, i, &spec, err);
	}
	return r;
}

static int put_number(const struct dialect_writer *w, enum dialect_where where, uint32_t container,
	const char *key, uint64_t value)
{
	return writer_put(w, where, container, key, "%llu", (unsigned long long)value);
}

/* Writes the variables of tenant i's container; the pod's annotations have the same values. */
static int gpushare_write_env(const struct dialect_writer *w, uint32_t i, uint64_t pods)
{
	const uint32_t c = w->result->tenant[i].container;
	const struct dialect_device *d = &w->given->grant[i].device[0];
	const uint64_t one = gpushare_unit_bytes(w->config);
	int r = put_number(w, DIALECT_ENV, c, ENV "IDX", d->index);

	r = r < 0 ? r : put_number(w, DIALECT_ENV, c, ENV "POD", pods);
	r = r < 0 ? r : put_number(w, DIALECT_ENV, c, ENV "CONTAINER", d->granted_bytes / one);
	return r < 0 ? r : put_number(w, DIALECT_ENV, c, ENV "DEV", d->memory_bytes / one);
}

static const struct dialect_step running[] = {
	{ENV "ASSIGNED", "false", "true"}, {ENV "ASSIGN_TIME", NULL, NULL}, {NULL}};

static int write_annotations(
	const struct dialect_writer *w, const struct dialect_device *d, uint64_t pods)
{
	int r = put_number(w, DIALECT_ANNOTATION, MANIFEST_NONE, ENV "IDX", d->index);

	r = r < 0 ? r : put_number(w, DIALECT_ANNOTATION, MANIFEST_NONE, ENV "POD", pods);
	r = r < 0 ? r
		  : put_number(w, DIALECT_ANNOTATION, MANIFEST_NONE, ENV "DEV",
			    d->memory_bytes / gpushare_unit_bytes(w->config));
	r = r < 0 ? r
		  : put_number(w, DIALECT_ANNOTATION, MANIFEST_NONE, ENV "ASSUME_TIME",
			    w->given->time_ns);
	return r < 0 ? r
		     : writer_put(w, DIALECT_ANNOTATION, MANIFEST_NONE, running[0].key, "%s",
			       running[0].before);
}

static int gpushare_write_back(struct dialect_writer *w)
{
	const uint32_t n = w->result->n_tenants, first = writer_next(w, 0);
	uint64_t pods = 0;
	int r = 0;

	for (uint32_t i = first; i < n; i = writer_next(w, i + 1)) {
		if (!w->given->grant[i].n_devices)
			return 0;
		pods += w->given->grant[i].device[0].granted_bytes / gpushare_unit_bytes(w->config);
	}
	for (uint32_t i = first; r >= 0 && i < n; i = writer_next(w, i + 1))
		r = gpushare_write_env(w, i, pods);
	return r < 0 ? r : write_annotations(w, &w->given->grant[first].device[0], pods);
}

static const struct dialect_key keys[] = {
	{P "gpu-mem", DIALECT_RESOURCE, DIALECT_REQUESTS,
		"memory, in GiB, or MiB with gpushare=MiB; request 0.001, limit 1"},
	{P "gpu-count", DIALECT_RESOURCE, DIALECT_READS, "1 or absent"},
	{ENV "IDX", DIALECT_ANNOTATION, DIALECT_GIVES,
		"index of the device; also in the environment"},
	{ENV "POD", DIALECT_ANNOTATION, DIALECT_GIVES,
		"memory of all containers, in that unit; also in the environment"},
	{ENV "DEV", DIALECT_ANNOTATION, DIALECT_GIVES,
		"memory of the device, in that unit; also in the environment"},
	{ENV "CONTAINER", DIALECT_ENV, DIALECT_GIVES, "memory of the container, in that unit"},
	{ENV "ASSUME_TIME", DIALECT_ANNOTATION, DIALECT_GIVES, "time of placement, ns since 1970"},
	{ENV "ASSIGNED", DIALECT_ANNOTATION, DIALECT_GIVES, "true once the pod runs"},
	{ENV "ASSIGN_TIME", DIALECT_ANNOTATION, DIALECT_GIVES, "start of the pod, ns since 1970"},
	{NULL},
};

static const char *const differs[] = {
	"divvy enforces the memory limit. In gpushare it was a number that programs could "
	"respect.",
	"These pods never requested a share. So 0.001 is guaranteed, and all share the unused "
	"time equally. A larger guarantee, such as the memory's fraction of the device, would "
	"keep pods from running together that did so before.",
	"Containers of one pod may be on different devices; IDX is then the index for the first "
	"container. If nothing fits, the pod waits: there is no IDX -1.",
	NULL,
};

const struct dialect dialect_gpushare = {
	.name = "gpushare",
	.title = "gpushare (Alibaba Cloud)",
	.coming = "Switch the dialect on, as `gpushare=MiB` if the device plugin ran with "
		  "`--memory-unit=MiB`. To guarantee time too, replace aliyun.com/gpu-mem by "
		  "divvy.gpu/request and divvy.gpu/memory.",
	.keys = keys,
	.differs = differs,
	.translate = gpushare_translate,
	.write_back = gpushare_write_back,
	.running = running,
};
