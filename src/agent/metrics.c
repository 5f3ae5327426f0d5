/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three tables of metrics: for the daemon, for its devices, and for each tenant on a device. Each
 * table fills an array of samples from the daemon's state, and base/prom.c writes the text from
 * that array. A sample copies numbers that the loop already has, so no formatting waits for a
 * device. An ending tenant has no samples. A failed allocation becomes the error of the buffer.
 */
#include "agent/metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/audit.h"
#include "agent/agent-client.h"
#include "agent/device.h"
#include "agent/agent-memory.h"
#include "agent/tenant.h"
#include "agent/usage.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/prom.h"
#include "http/listen.h"

/* A tenant on a device. */
struct tenant_sample {
	const struct tenant_device *td;
	struct arbiter_usage usage;
	uint64_t memory_bytes, quota_bytes, denied;
	uint32_t share, request, limit; /* permille */
	bool is_simulated, holds, wants;
};

#define FIELD(member) PROM_FIELD(struct tenant_sample, member)

static const struct prom_metric tenant_metrics[] = {
	{"divvy_tenant_gpu_seconds_total", PROM_COUNTER,
		"Device time charged to the tenant, in seconds.", FIELD(usage.used_ns),
		NSEC_PER_SEC},
	{"divvy_tenant_waited_seconds_total", PROM_COUNTER,
		"Time in which the tenant had work for the device and did not hold it, in seconds.",
		FIELD(usage.waited_ns), NSEC_PER_SEC},
	{"divvy_tenant_share", PROM_GAUGE,
		"Share of the device's time that the tenant used in the last second, 0 to 1.",
		FIELD(share), SPEC_SHARE_ONE},
	{"divvy_tenant_request", PROM_GAUGE,
		"Share of the device's time that is guaranteed to the tenant, 0 to 1.",
		FIELD(request), SPEC_SHARE_ONE},
	{"divvy_tenant_limit", PROM_GAUGE,
		"Largest share of the device's time for the tenant, 0 to 1.", FIELD(limit),
		SPEC_SHARE_ONE},
	{"divvy_tenant_memory_bytes", PROM_GAUGE, "Device memory that the tenant uses, in bytes.",
		FIELD(memory_bytes)},
	{"divvy_tenant_memory_quota_bytes", PROM_GAUGE,
		"Device memory that the tenant may use, in bytes.", FIELD(quota_bytes)},
	{"divvy_tenant_memory_denied_total", PROM_COUNTER,
		"Allocations that the tenant's processes refused above the memory quota.",
		FIELD(denied)},
	{"divvy_tenant_holds", PROM_GAUGE, "1 while the tenant holds the device, else 0.",
		FIELD(holds)},
	{"divvy_tenant_wants", PROM_GAUGE, "1 while the tenant has work for the device, else 0.",
		FIELD(wants)},
};

#undef FIELD

static void label_tenant(struct buf *out, const void *of)
{
	const struct tenant_sample *sample = of;
	const struct tenant *t = sample->td->tenant;
	char id[16];

	snprintf(id, sizeof(id), "%u", t->id);
	prom_label(out, "tenant", id);
	prom_label(out, "name", t->name);
	prom_label(out, "class", spec_class_name(t->spec.class));
	prom_label(out, "device", sample->td->device->info.uuid);
	prom_label(out, "simulated", sample->is_simulated ? "1" : "0");
	if (t->pod) {
		prom_label(out, "namespace", t->pod->space);
		prom_label(out, "pod", t->pod->name);
		prom_label(out, "container", t->pod->container);
	}
}

static struct tenant_sample sample_of(
	const struct agent *agent, const struct tenant_device *td, uint64_t now)
{
	struct tenant_sample sample = {.td = td,
		.memory_bytes = memory_used(td),
		.quota_bytes = td->quota_bytes,
		.denied = memory_denied(td),
		.share = usage_permille(td, NSEC_PER_SEC, now),
		.request = td->tenant->spec.request,
		.limit = td->tenant->spec.limit,
		.is_simulated = agent->devices->is_simulated,
		.holds = td->is_open,
		.wants = td->does_want};

	arbiter_usage_get(agent->arbiter, td->tenant->id, td->device->index, now, &sample.usage);
	return sample;
}

static void add_tenants(struct agent *agent, struct buf *out)
{
	static const struct prom_table table = {tenant_metrics, ARRAY_SIZE(tenant_metrics),
		sizeof(struct tenant_sample), label_tenant};
	_cleanup_free_ struct tenant_sample *samples = NULL;
	const uint64_t now = clock_now_ns();
	uint32_t n = 0, room = 0;
	const struct tenant *t;

	LIST_FOREACH(t, &agent->tenants, link) {
		if (t->is_ending)
			continue;
		if (array_grow(&samples, &room, n + (size_t)t->n, sizeof(*samples)) < 0) {
			out->error = -ENOMEM;
			return;
		}
		for (uint32_t i = 0; i < t->n; i++)
			samples[n++] = sample_of(agent, &t->devices[i], now);
	}
	prom_add_table(out, &table, samples, n);
}

struct device_sample {
	const struct device *device;
	uint64_t memory_bytes, used_bytes, free_bytes, n_xids, n_program_xids, xid;
	bool is_simulated, is_healthy;
};

#define FIELD(member) PROM_FIELD(struct device_sample, member)

static const struct prom_metric device_metrics[] = {
	{"divvy_device_memory_bytes", PROM_GAUGE, "Memory of the device, in bytes.",
		FIELD(memory_bytes)},
	{"divvy_device_memory_used_bytes", PROM_GAUGE,
		"Memory in use on the device as the driver reports it, in bytes.",
		FIELD(used_bytes)},
	{"divvy_device_memory_free_bytes", PROM_GAUGE,
		"Memory of the device that is free for the quota of another tenant, in bytes.",
		FIELD(free_bytes)},
	{"divvy_device_healthy", PROM_GAUGE,
		"1 if the device is healthy, 0 after an error that no program causes or while "
		"the driver does not answer.",
		FIELD(is_healthy)},
	{"divvy_device_xids_total", PROM_COUNTER,
		"Xid errors of the device that the driver has reported since the daemon's start.",
		FIELD(n_xids)},
	{"divvy_device_program_xids_total", PROM_COUNTER,
		"Xid errors of the device since the daemon's start that a program caused.",
		FIELD(n_program_xids)},
	{"divvy_device_xid", PROM_GAUGE,
		"Xid error that no program caused and that keeps new tenants off the device, 0 if "
		"none.",
		FIELD(xid)},
};

#undef FIELD

static void label_device(struct buf *out, const void *of)
{
	const struct device_sample *sample = of;

	prom_label(out, "device", sample->device->info.uuid);
	prom_label(out, "model", sample->device->info.model);
	prom_label(out, "simulated", sample->is_simulated ? "1" : "0");
}

static void metrics_add_devices(const struct device_set *set, struct buf *out)
{
	static const struct prom_table table = {device_metrics, ARRAY_SIZE(device_metrics),
		sizeof(struct device_sample), label_device};
	_cleanup_free_ struct device_sample *samples = NULL;
	uint32_t room = 0;

	if (array_grow(&samples, &room, set->n, sizeof(*samples)) < 0) {
		out->error = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < set->n; i++) {
		const struct device *d = &set->devices[i];

		samples[i] = (struct device_sample){.device = d,
			.memory_bytes = d->info.memory_bytes,
			.used_bytes = d->used_bytes,
			.free_bytes = ledger_room(d->ledger, SPEC_MEMORY_FAIL),
			.n_xids = d->n_xids,
			.n_program_xids = d->n_program_xids,
			.xid = d->xid,
			.is_simulated = set->is_simulated,
			.is_healthy = !device_is_faulty(d)};
	}
	prom_add_table(out, &table, samples, set->n);
}

struct daemon_sample {
	uint32_t n_tenants, n_processes, n_unmanaged, n_missing_devices;
	uint64_t n_refused_grants, uptime_ns;
};

#define FIELD(member) PROM_FIELD(struct daemon_sample, member)

static const struct prom_metric daemon_metrics[] = {
	{"divvy_tenants", PROM_GAUGE, "Tenants of the daemon.", FIELD(n_tenants)},
	{"divvy_processes", PROM_GAUGE, "Processes that are registered with the daemon.",
		FIELD(n_processes)},
	{"divvy_unmanaged_processes", PROM_GAUGE,
		"Processes that use a device and belong to no tenant.", FIELD(n_unmanaged),
		.old_name = "divvy_strangers"},
	{"divvy_devices_missing", PROM_GAUGE,
		"Devices that this node had before and that the driver no longer lists.",
		FIELD(n_missing_devices)},
	{"divvy_grants_refused_total", PROM_COUNTER,
		"Containers of pods whose start the daemon has refused.", FIELD(n_refused_grants)},
	{"divvy_uptime_seconds", PROM_GAUGE, "Time since the daemon's start, in seconds.",
		FIELD(uptime_ns), NSEC_PER_SEC},
};

static void metrics_add_daemon(const struct agent *agent, struct buf *out)
{
	static const struct prom_table table = {
		daemon_metrics, ARRAY_SIZE(daemon_metrics), sizeof(struct daemon_sample), NULL};
	const struct daemon_sample sample = {.n_tenants = agent->n_tenants,
		.n_processes = agent->n_processes,
		.n_unmanaged = audit_n_unmanaged(agent),
		.n_missing_devices = agent->n_missing_devices,
		.n_refused_grants = agent->n_refused_grants,
		.uptime_ns = clock_since_ns(clock_now_ns(), agent->started_ns)};

	prom_add_table(out, &table, &sample, 1);
}

int metrics_format(struct agent *agent, struct buf *out)
{
	add_tenants(agent, out);
	metrics_add_devices(agent->devices, out);
	metrics_add_daemon(agent, out);
	if (agent->options.add_metrics)
		agent->options.add_metrics(agent, out);
	return buf_error(out);
}

/* ---- the address ---- */

int metrics_check(const char *address, struct error *err)
{
	struct str port = str_from(address);
	uint64_t number;

	if (http_address_path(address))
		return http_address_check(address, err);
	if (!str_skip_prefix(&port, STR("[::1]:")) && !str_skip_prefix(&port, STR("127.0.0.1:")) &&
		!str_skip_prefix(&port, STR("localhost:")) && !str_skip_prefix(&port, STR(":")))
		return fail(err, EINVAL,
			"'%s': expected unix:PATH or a loopback address such as 127.0.0.1:9400 "
			"(metrics have no access control)",
			address);
	if (parse_uint(port, 1, 65535, &number, NULL) < 0)
		return fail(err, EINVAL, "'%s': expected a port from 1 to 65535", address);
	return 0;
}
