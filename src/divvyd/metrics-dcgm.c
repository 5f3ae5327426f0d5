/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each tenant on a device is a series, with the tenant's view of the device: its quota is the
 * memory, and its used time is the utilisation. A device without tenants is a series with the
 * driver's figures of memory. This series has no utilisation, because divvy measures only the time
 * of tenants. So the sums over a device count nothing twice. No values exist for the metrics of
 * dcgm-exporter that the tables lack, such as temperature and clocks. Loop's thread only.
 */
#include "divvyd/metrics-dcgm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/agent-memory.h"
#include "agent/device.h"
#include "agent/tenant.h"
#include "agent/usage.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/prom.h"

#define MIB (UINT64_C(1) << 20)

/* A tenant on a device, or a device without tenants. */
struct dcgm_sample {
	const char *host, *driver;
	const struct device *device;
	const struct tenant *tenant;            /* NULL: none */
	uint64_t used_mib, free_mib, total_mib; /* whole MiB, as dcgm-exporter has them */
	uint32_t used_permille;                 /* of the last second, by the tenant */
};

#define FIELD(member) PROM_FIELD(struct dcgm_sample, member)

static const struct prom_metric memory_metrics[] = {
	{"DCGM_FI_DEV_FB_TOTAL", PROM_GAUGE,
		"Memory quota of the tenant, or memory of a device without tenants, in MiB.",
		FIELD(total_mib)},
	{"DCGM_FI_DEV_FB_USED", PROM_GAUGE,
		"Device memory that the tenant, or a device without tenants, uses, in MiB.",
		FIELD(used_mib)},
	{"DCGM_FI_DEV_FB_FREE", PROM_GAUGE,
		"Unused part of the tenant's memory quota, or of the memory of a device without "
		"tenants, in MiB.",
		FIELD(free_mib)},
};

static const struct prom_metric time_metrics[] = {
	{"DCGM_FI_DEV_GPU_UTIL", PROM_GAUGE,
		"Share of the device's time that the tenant used in the last second, in percent.",
		FIELD(used_permille), SPEC_SHARE_ONE / 100},
	{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", PROM_GAUGE,
		"Share of the device's time that the tenant used in the last second, 0 to 1.",
		FIELD(used_permille), SPEC_SHARE_ONE},
};

#undef FIELD

static void label_number(struct buf *out, const char *key, const char *prefix, uint32_t n)
{
	char text[32];

	snprintf(text, sizeof(text), "%s%u", prefix, n);
	prom_label(out, key, text);
}

/*
 * dcgm-exporter describes a MIG instance by its GPU and the number of the GPU instance. Compute
 * instances of one GPU instance would be one series without a label for their own UUID.
 */
static void dcgm_label(struct buf *out, const void *of)
{
	const struct dcgm_sample *sample = of;
	const struct nvml_info *info = &sample->device->info;
	const struct tenant *t = sample->tenant;

	label_number(out, "gpu", "", info->nvml_index);
	prom_label(out, "UUID", info->is_mig ? info->parent : info->uuid);
	prom_label(out, "pci_bus_id", info->pci);
	label_number(out, "device", "nvidia",
		info->minor >= 0 ? (uint32_t)info->minor : info->nvml_index);
	prom_label(out, "modelName", info->model);
	if (info->gpu_instance != NVML_NO_INSTANCE)
		label_number(out, "GPU_I_ID", "", info->gpu_instance);
	if (info->is_mig)
		prom_label(out, "MIG_UUID", info->uuid);
	prom_label(out, "Hostname", sample->host);
	prom_label(out, "DCGM_FI_DRIVER_VERSION", sample->driver);
	if (!t)
		return;
	if (t->pod) {
		prom_label(out, "container", t->pod->container);
		prom_label(out, "namespace", t->pod->space);
		prom_label(out, "pod", t->pod->name);
	}
	label_number(out, "tenant", "", t->id); /* series stay distinct without a pod, too */
}

struct dcgm_list {
	const struct agent *agent;
	char host[256];
	struct dcgm_sample *samples;
	uint32_t n, room;
};

static int dcgm_add(struct dcgm_list *list, const struct device *device,
	const struct tenant_device *td, uint64_t used_bytes, uint64_t total_bytes)
{
	const uint64_t used_mib = used_bytes / MIB, total_mib = total_bytes / MIB;
	int r = array_grow(
		&list->samples, &list->room, list->n + (size_t)1, sizeof(*list->samples));

	if (r < 0)
		return r;
	list->samples[list->n++] = (struct dcgm_sample){.host = list->host,
		.driver = nvml_driver_version(list->agent->devices->nvml),
		.device = device,
		.tenant = td ? td->tenant : NULL,
		.used_mib = used_mib,
		.free_mib = total_mib - MIN(used_mib, total_mib),
		.total_mib = total_mib,
		.used_permille = td ? usage_permille(td, NSEC_PER_SEC, clock_now_ns()) : 0};
	return 0;
}

static int dcgm_add_tenants(struct dcgm_list *list)
{
	const struct tenant *t;
	int r = 0;

	LIST_FOREACH(t, &list->agent->tenants, link) {
		for (uint32_t i = 0; i < t->n && !t->is_ending && r == 0; i++) {
			const struct tenant_device *td = &t->devices[i];

			r = dcgm_add(list, td->device, td, memory_used(td), td->quota_bytes);
		}
	}
	return r;
}

static bool has_tenants(const struct dcgm_list *list, uint32_t n, const struct device *device)
{
	for (uint32_t i = 0; i < n; i++)
		if (list->samples[i].device == device)
			return true;
	return false;
}

static int dcgm_add_idle(struct dcgm_list *list)
{
	const struct device_set *set = list->agent->devices;
	const uint32_t n_tenants = list->n;
	int r = 0;

	for (uint32_t i = 0; i < set->n && r == 0; i++) {
		const struct device *d = &set->devices[i];

		if (!has_tenants(list, n_tenants, d))
			r = dcgm_add(list, d, NULL, d->used_bytes, d->info.memory_bytes);
	}
	return r;
}

void metrics_add_dcgm(const struct agent *agent, struct buf *out)
{
	static const struct prom_table memory = {
		memory_metrics, ARRAY_SIZE(memory_metrics), sizeof(struct dcgm_sample), dcgm_label};
	static const struct prom_table time = {
		time_metrics, ARRAY_SIZE(time_metrics), sizeof(struct dcgm_sample), dcgm_label};
	struct dcgm_list list = {.agent = agent};
	uint32_t n_tenants;
	int r;

	if (agent->options.host)
		str_copy(list.host, sizeof(list.host), str_from(agent->options.host));
	else
		gethostname(list.host, sizeof(list.host) - 1);
	r = dcgm_add_tenants(&list);
	n_tenants = list.n;
	if (r < 0 || dcgm_add_idle(&list) < 0) {
		out->error = -ENOMEM;
	} else {
		prom_add_table(out, &time, list.samples, n_tenants);
		prom_add_table(out, &memory, list.samples, list.n);
	}
	free(list.samples);
}
