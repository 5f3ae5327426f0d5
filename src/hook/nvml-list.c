/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML's lists of processes. A list holds the tenant's own entries of the driver's list, in the
 * driver's order and with the driver's pids. If the caller's array is too small for these entries,
 * the result is NVML_ERROR_INSUFFICIENT_SIZE with their number. Entries of other tenants change
 * nothing. Any thread.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cuda/nvml-entries.h"
#include "hook/hook-nvml.h"
#include "hook/own-tenant.h"

#define TRIES 4
#define MORE 16u /* room for processes that begin after the count */
#define ENTRIES_MAX 65536u

/* Arguments of a query, for the fetch_* functions below. */
struct query {
	nvmlDevice_t device;
	unsigned long long since;
	unsigned int mode;
};

typedef nvmlReturn_t fetch_fn(const struct query *query, unsigned int *count, void *entries);

struct list {
	fetch_fn *fetch;
	struct nvml_entry entry;
};

/* Gets all entries of the device, on the heap. */
static nvmlReturn_t fetch_all(
	const struct list *list, const struct query *query, char **ret_all, unsigned int *ret_n)
{
	nvmlReturn_t r = NVML_ERROR_INSUFFICIENT_SIZE;
	unsigned int room = 0, n;
	char *all = NULL;

	for (int i = 0; i < TRIES && r == NVML_ERROR_INSUFFICIENT_SIZE; i++) {
		n = room;
		r = list->fetch(query, &n, all);
		/* A driver that got no array to fill may report success. */
		if (r == NVML_SUCCESS && n <= room) {
			*ret_all = all;
			*ret_n = n;
			return r;
		}
		if (r != NVML_SUCCESS && r != NVML_ERROR_INSUFFICIENT_SIZE)
			break;
		free(all);
		room = (n < ENTRIES_MAX ? n : ENTRIES_MAX) + MORE;
		all = calloc(room, list->entry.size);
		if (!all)
			return NVML_ERROR_MEMORY;
		r = NVML_ERROR_INSUFFICIENT_SIZE;
	}
	free(all);
	return r == NVML_ERROR_INSUFFICIENT_SIZE ? NVML_ERROR_UNKNOWN : r;
}

static unsigned int keep_own(const void *own, unsigned int pid)
{
	return own_has(own, pid) ? pid : 0;
}

static nvmlReturn_t list_own(
	const struct list *list, const struct query *query, unsigned int *count, void *entries)
{
	struct link_device devices[NVML_DEVICES_MAX];
	_cleanup_free_ char *all = NULL;
	const int saved = errno;
	struct own own;
	unsigned int n;
	nvmlReturn_t r;

	if (!count || nvml_tenant_devices(devices) < 0)
		return list->fetch(query, count, entries);
	r = fetch_all(list, query, &all, &n);
	if (r == NVML_SUCCESS) {
		own_init(&own);
		n = nvml_entries_keep(&list->entry, all, n, keep_own, &own);
		r = nvml_entries_fit(n, entries, count);
		if (r == NVML_SUCCESS && n)
			memcpy(entries, all, n * list->entry.size);
	}
	errno = saved;
	return r;
}

#define LISTS(name, type) \
	static nvmlReturn_t fetch_##name( \
		const struct query *query, unsigned int *count, void *entries) \
	{ \
		return REAL(name)(query->device, count, entries); \
	} \
	NVML_EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, type *entries) \
	{ \
		static const struct list list = {fetch_##name, {sizeof(type), 0}}; \
\
		return list_own(&list, &(struct query){.device = device}, count, entries); \
	}

LISTS(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
LISTS(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
LISTS(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)
LISTS(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
LISTS(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
LISTS(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)
LISTS(nvmlDeviceGetAccountingPids, unsigned int)
_Static_assert(!offsetof(nvmlProcessInfo_v1_t, pid) && !offsetof(nvmlProcessInfo_v2_t, pid) &&
		!offsetof(nvmlProcessInfo_t, pid),
	"LISTS takes it from there");

NVML_EXPORT nvmlReturn_t nvmlDeviceGetAccountingStats(
	nvmlDevice_t device, unsigned int pid, nvmlAccountingStats_t *stats)
{
	struct link_device devices[NVML_DEVICES_MAX];
	const int saved = errno;
	bool is_own = true;
	struct own own;

	if (nvml_tenant_devices(devices) >= 0) {
		own_init(&own);
		is_own = own_has(&own, pid);
	}
	errno = saved;
	return is_own ? REAL(nvmlDeviceGetAccountingStats)(device, pid, stats)
		      : NVML_ERROR_NOT_FOUND;
}

static nvmlReturn_t fetch_details(const struct query *query, unsigned int *count, void *entries)
{
	nvmlProcessDetailList_t list = {.version = NVML_STRUCT_VERSION(ProcessDetailList, 1),
		.mode = query->mode,
		.numProcArrayEntries = *count,
		.procArray = entries};
	const nvmlReturn_t r = REAL(nvmlDeviceGetRunningProcessDetailList)(query->device, &list);

	*count = list.numProcArrayEntries;
	return r;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(
	nvmlDevice_t device, nvmlProcessDetailList_t *plist)
{
	static const struct list list = {fetch_details,
		{sizeof(nvmlProcessDetail_v1_t), offsetof(nvmlProcessDetail_v1_t, pid)}};

	NVML_CHECK_VERSION(plist, ProcessDetailList, 1);
	return list_own(&list, &(struct query){.device = device, .mode = plist->mode},
		&plist->numProcArrayEntries, plist->procArray);
}

/* ---- utilisation ---- */

static nvmlReturn_t fetch_samples(const struct query *query, unsigned int *count, void *entries)
{
	return REAL(nvmlDeviceGetProcessUtilization)(query->device, entries, count, query->since);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
	nvmlProcessUtilizationSample_t *utilization, unsigned int *processSamplesCount,
	unsigned long long lastSeenTimeStamp)
{
	static const struct list list = {fetch_samples,
		{sizeof(*utilization), offsetof(nvmlProcessUtilizationSample_t, pid)}};
	const nvmlReturn_t r = list_own(&list,
		&(struct query){.device = device, .since = lastSeenTimeStamp}, processSamplesCount,
		utilization);

	return processSamplesCount ? nvml_entries_or_none(r, *processSamplesCount) : r;
}

static nvmlReturn_t fetch_used(const struct query *query, unsigned int *count, void *entries)
{
	nvmlProcessesUtilizationInfo_t info = {
		.version = NVML_STRUCT_VERSION(ProcessesUtilizationInfo, 1),
		.processSamplesCount = *count,
		.lastSeenTimeStamp = query->since,
		.procUtilArray = entries};
	const nvmlReturn_t r = REAL(nvmlDeviceGetProcessesUtilizationInfo)(query->device, &info);

	*count = info.processSamplesCount;
	return r;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(
	nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *procesesUtilInfo)
{
	static const struct list list = {fetch_used,
		{sizeof(nvmlProcessUtilizationInfo_v1_t),
			offsetof(nvmlProcessUtilizationInfo_v1_t, pid)}};
	nvmlProcessesUtilizationInfo_t *info = procesesUtilInfo;
	nvmlReturn_t r;

	NVML_CHECK_VERSION(info, ProcessesUtilizationInfo, 1);
	r = list_own(&list, &(struct query){.device = device, .since = info->lastSeenTimeStamp},
		&info->processSamplesCount, info->procUtilArray);
	return nvml_entries_or_none(r, info->processSamplesCount);
}
