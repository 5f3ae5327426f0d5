/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/metrics.h"

#include <errno.h>
#include <stdio.h>

#include "agent/audit.h"
#include "agent/client.h"
#include "agent/device.h"
#include "agent/memory.h"
#include "agent/tenant.h"
#include "agent/usage.h"
#include "base/parse.h"
#include "base/prom.h"
#include "http/listen.h"

/* One value of a tenant on a device. */
struct value {
	const struct tenant_device *td;
	const struct arbiter_usage *usage;
	uint64_t now;
};

static double used_seconds(const struct value *v)
{
	return (double)v->usage->used_ns / NSEC_PER_SEC;
}
static double waited_seconds(const struct value *v)
{
	return (double)v->usage->waited_ns / NSEC_PER_SEC;
}
static double share(const struct value *v)
{
	return usage_permille(v->td, NSEC_PER_SEC, v->now) / 1000.0;
}
static double request(const struct value *v)
{
	return v->td->tenant->spec.request / 1000.0;
}
static double limit(const struct value *v)
{
	return v->td->tenant->spec.limit / 1000.0;
}
static double memory(const struct value *v)
{
	return (double)memory_used(v->td);
}
static double quota(const struct value *v)
{
	return (double)v->td->quota_bytes;
}
static double denied(const struct value *v)
{
	return (double)memory_denied(v->td);
}
static double holds(const struct value *v)
{
	return v->td->is_open;
}
static double wants(const struct value *v)
{
	return v->td->does_want;
}

static const struct tenant_metric {
	const char *name, *type, *help;
	double (*get)(const struct value *v);
} tenant_metrics[] = {
	{"divvy_tenant_gpu_seconds_total", "counter", "Device time charged.", used_seconds},
	{"divvy_tenant_waited_seconds_total", "counter",
		"Time it wanted the device and did not hold it.", waited_seconds},
	{"divvy_tenant_share", "gauge", "Share of the device in the last second.", share},
	{"divvy_tenant_request", "gauge", "Share that is guaranteed.", request},
	{"divvy_tenant_limit", "gauge", "Most it may take.", limit},
	{"divvy_tenant_memory_bytes", "gauge", "Device memory in use.", memory},
	{"divvy_tenant_memory_quota_bytes", "gauge", "Device memory it may use.", quota},
	{"divvy_tenant_memory_denied_total", "counter",
		"Allocations refused for the quota, as its processes count them.", denied},
	{"divvy_tenant_holds", "gauge", "1 while it holds the device.", holds},
	{"divvy_tenant_wants", "gauge", "1 while it wants the device.", wants},
};

static double device_memory(const struct device *d)
{
	return (double)d->info.memory_bytes;
}
static double device_used(const struct device *d)
{
	return (double)d->used_bytes;
}
static double device_room(const struct device *d)
{
	return (double)ledger_room(d->ledger, SPEC_MEMORY_FAIL);
}

static double device_healthy(const struct device *d)
{
	return !device_is_ill(d);
}

static double device_xids(const struct device *d)
{
	return (double)d->n_xids;
}

static double device_xid(const struct device *d)
{
	return (double)d->xid;
}

static const struct device_metric {
	const char *name, *type, *help;
	double (*get)(const struct device *d);
} device_metrics[] = {
	{"divvy_device_memory_bytes", "gauge", "Memory of the device.", device_memory},
	{"divvy_device_memory_used_bytes", "gauge", "Memory in use on it, as it says.",
		device_used},
	{"divvy_device_memory_free_bytes", "gauge", "Memory that could still be promised.",
		device_room},
	{"divvy_device_healthy", "gauge",
		"0 where the driver does not answer for it, or has told of an error that is no "
		"program's.",
		device_healthy},
	{"divvy_device_xids_total", "counter",
		"Errors (Xids) that the driver has told of since the daemon's start.", device_xids},
	{"divvy_device_xid", "gauge",
		"The first Xid that is no program's since the daemon's start; 0: none.",
		device_xid},
};

static void add_tenants(struct agent *agent, struct buf *out, const struct tenant_metric *metric)
{
	uint64_t now = clock_now_ns();
	const struct tenant *t;
	char id[16];

	prom_head(out, metric->name, metric->type, metric->help);
	LIST_FOREACH(t, &agent->tenants, link)
		for (uint32_t i = 0; i < t->n && !t->is_ending; i++) {
			struct arbiter_usage usage = {0};
			struct value v = {&t->devices[i], &usage, now};

			arbiter_usage_get(
				agent->arbiter, t->id, t->devices[i].device->index, now, &usage);
			snprintf(id, sizeof(id), "%u", t->id);
			prom_begin(out, metric->name);
			prom_label(out, "tenant", id);
			prom_label(out, "name", t->name);
			prom_label(out, "class", spec_class_name(t->spec.class));
			prom_label(out, "device", t->devices[i].device->info.uuid);
			prom_label(out, "simulated", agent->devices->is_simulated ? "1" : "0");
			if (t->pod) {
				prom_label(out, "namespace", t->pod->space);
				prom_label(out, "pod", t->pod->name);
				prom_label(out, "container", t->pod->container);
			}
			prom_end(out, metric->get(&v));
		}
}

static void add_devices(struct agent *agent, struct buf *out, const struct device_metric *metric)
{
	prom_head(out, metric->name, metric->type, metric->help);
	for (uint32_t k = 0; k < agent->devices->n; k++) {
		const struct device *d = &agent->devices->devices[k];

		prom_begin(out, metric->name);
		prom_label(out, "device", d->info.uuid);
		prom_label(out, "model", d->info.model);
		prom_label(out, "simulated", agent->devices->is_simulated ? "1" : "0");
		prom_end(out, metric->get(d));
	}
}

int metrics_format(struct agent *agent, struct buf *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(tenant_metrics); i++)
		add_tenants(agent, out, &tenant_metrics[i]);
	for (size_t i = 0; i < ARRAY_SIZE(device_metrics); i++)
		add_devices(agent, out, &device_metrics[i]);
	prom_add(out, "divvy_tenants", "gauge", "Tenants.", agent->n_tenants);
	prom_add(out, "divvy_processes", "gauge", "Registered processes.", agent->n_processes);
	prom_add(out, "divvy_strangers", "gauge", "Processes on devices that belong to no tenant.",
		audit_strangers(agent));
	prom_add(out, "divvy_devices_missing", "gauge",
		"Devices that this node had before and that the driver does not list any more.",
		agent->n_missing_devices);
	prom_add(out, "divvy_grants_refused_total", "counter",
		"Containers of pods that were not let start.", (double)agent->n_refused_grants);
	prom_add(out, "divvy_uptime_seconds", "gauge", "Since the daemon has started.",
		(double)clock_since_ns(clock_now_ns(), agent->started_ns) / NSEC_PER_SEC);
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
			"'%s': expected unix:PATH or a loopback port such as 127.0.0.1:9400 (they "
			"are not protected, so no other is served)",
			address);
	if (parse_uint(port, 1, 65535, &number, NULL) < 0)
		return fail(err, EINVAL, "'%s': expected a port from 1 to 65535", address);
	return 0;
}
