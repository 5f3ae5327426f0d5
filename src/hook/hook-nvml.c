/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libdivvy-nvml.so: the exports of NVML. Functions that count, find and measure devices show the
 * tenant's devices as 0..n-1 in the tenant's order, with the tenant's memory. This library learns
 * the tenant from libdivvy-cuda.so (hook-link.h) and registers nothing itself. Lists of processes
 * are in nvml-list.c. Utilisation is the whole device's. Any thread.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cuda/types.h"
#include "cuda/uuid.h"
#include "hook/elf.h"
#include "hook/hook-link.h"
#include "hook/hook-nvml.h"
#include "hook/system.h"

typedef CUresult export_table_fn(const void **table, const CUuuid *id);

/* ---- the tenant's devices ---- */

static const struct link_table *link_find(void)
{
	static const struct link_table *_Atomic found;
	const struct link_table *table = atomic_load_explicit(&found, memory_order_acquire);
	const struct system *s = system_get();
	char path[SYSTEM_PATH];
	struct elf_object own;
	export_table_fn *ask;
	const char *slash;
	void *handle, *symbol;
	int n;

	if (table || !s->dlopen || !elf_object_find((const void *)link_find, NULL, &own))
		return table;
	slash = strrchr(own.path, '/');
	if (!slash)
		return NULL;
	/*
	 * divvy's CUDA and NVML libraries are mounted under the driver's names, or lie in one
	 * folder under divvy's names
	 */
	n = snprintf(path, sizeof path, "%.*s/%s", (int)(slash - own.path), own.path,
		strncmp(slash, "/libnvidia-ml", 13) ? "libdivvy-cuda.so" : "libcuda.so.1");
	if (n < 0 || (size_t)n >= sizeof path)
		return NULL;
	handle = s->dlopen(path, RTLD_NOW | RTLD_LOCAL);
	symbol = handle ? s->dlsym(handle, "cuGetExportTable") : NULL;
	if (!symbol)
		return NULL;
	memcpy(&ask, &symbol, sizeof ask);
	if (ask((const void **)&table, (const CUuuid *)LINK_ID) != CUDA_SUCCESS || !table ||
		table->size != sizeof *table)
		return NULL;
	atomic_store_explicit(&found, table, memory_order_release);
	return table;
}

/* ---- the other library's use of this one ---- */

static const struct link_nvml_table link_nvml = {sizeof link_nvml, nvml_real_symbol};

NVML_EXPORT nvmlReturn_t nvmlInternalGetExportTable(
	const void **exportTable, const void *exportTableId)
{
	if (exportTable && exportTableId && !memcmp(exportTableId, LINK_ID, 16)) {
		*exportTable = &link_nvml;
		return NVML_SUCCESS;
	}
	return REAL(nvmlInternalGetExportTable)(exportTable, exportTableId);
}

int nvml_tenant_devices(struct link_device devices[static NVML_DEVICES_MAX])
{
	const struct link_table *table;
	int saved = errno, n = -1;

	table = link_find();
	if (table)
		n = table->devices(devices, NVML_DEVICES_MAX);
	errno = saved;
	return n;
}

static nvmlReturn_t nvml_device_handle(const struct link_device *d, nvmlDevice_t *ret_device)
{
	char text[4 + CUDA_UUID_TEXT] = "GPU-";
	nvmlReturn_t r;

	cuda_uuid_format(d->uuid, text + 4);
	r = REAL(nvmlDeviceGetHandleByUUID)(text, ret_device);
	if (r != NVML_ERROR_NOT_FOUND && r != NVML_ERROR_INVALID_ARGUMENT)
		return r;
	memcpy(text, "MIG-", 4);
	return REAL(nvmlDeviceGetHandleByUUID)(text, ret_device);
}

/* The device's index among the tenant's devices; -1: the tenant does not have this device. */
static int nvml_device_index(nvmlDevice_t device, const struct link_device *devices, int n)
{
	char own[CUDA_UUID_TEXT], text[NVML_DEVICE_UUID_V2_BUFFER_SIZE];

	if (REAL(nvmlDeviceGetUUID)(device, text, sizeof text) != NVML_SUCCESS || strlen(text) < 5)
		return -1;
	for (int i = 0; i < n; i++) {
		cuda_uuid_format(devices[i].uuid, own);
		if (!strcasecmp(own, text + 4))
			return i;
	}
	return -1;
}

/* ---- counting and finding ---- */

#define COUNTS(name) \
	NVML_EXPORT nvmlReturn_t name(unsigned int *deviceCount) \
	{ \
		struct link_device devices[NVML_DEVICES_MAX]; \
		nvmlReturn_t r = REAL(name)(deviceCount); \
		int n; \
\
		if (r != NVML_SUCCESS) \
			return r; \
		n = nvml_tenant_devices(devices); \
		if (n >= 0) \
			*deviceCount = (unsigned int)n; \
		return r; \
	}

COUNTS(nvmlDeviceGetCount)
COUNTS(nvmlDeviceGetCount_v2)

#define BY_INDEX(name) \
	NVML_EXPORT nvmlReturn_t name(unsigned int index, nvmlDevice_t *device) \
	{ \
		struct link_device devices[NVML_DEVICES_MAX]; \
		int n = nvml_tenant_devices(devices); \
\
		if (n < 0) \
			return REAL(name)(index, device); \
		if (index >= (unsigned int)n || !device) \
			return NVML_ERROR_INVALID_ARGUMENT; \
		return nvml_device_handle(&devices[index], device); \
	}

BY_INDEX(nvmlDeviceGetHandleByIndex)
BY_INDEX(nvmlDeviceGetHandleByIndex_v2)

static nvmlReturn_t only_own(nvmlReturn_t r, nvmlDevice_t *device)
{
	struct link_device devices[NVML_DEVICES_MAX];
	int n;

	if (r != NVML_SUCCESS)
		return r;
	n = nvml_tenant_devices(devices);
	if (n < 0 || nvml_device_index(*device, devices, n) >= 0)
		return r;
	*device = NULL;
	return NVML_ERROR_NOT_FOUND;
}

#define BY(name, params, args) \
	NVML_EXPORT nvmlReturn_t name params \
	{ \
		return only_own(REAL(name) args, device); \
	}

BY(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *device), (uuid, device))
BY(nvmlDeviceGetHandleByUUIDV, (const nvmlUUID_t *uuid, nvmlDevice_t *device), (uuid, device))
BY(nvmlDeviceGetHandleBySerial, (const char *serial, nvmlDevice_t *device), (serial, device))
BY(nvmlDeviceGetHandleByPciBusId, (const char *pciBusId, nvmlDevice_t *device), (pciBusId, device))
BY(nvmlDeviceGetHandleByPciBusId_v2, (const char *pciBusId, nvmlDevice_t *device),
	(pciBusId, device))

NVML_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	struct link_device devices[NVML_DEVICES_MAX];
	nvmlReturn_t r = REAL(nvmlDeviceGetIndex)(device, index);
	int n, i;

	if (r != NVML_SUCCESS)
		return r;
	n = nvml_tenant_devices(devices);
	i = n < 0 ? -1 : nvml_device_index(device, devices, n);
	if (i >= 0)
		*index = (unsigned int)i;
	return r;
}

/* ---- memory ---- */

/* Returns the tenant's memory on this device. False: the tenant does not have this device. */
static bool own_memory(nvmlDevice_t device, uint64_t *ret_quota, uint64_t *ret_used)
{
	struct link_device devices[NVML_DEVICES_MAX];
	int n = nvml_tenant_devices(devices),
	    i = n > 0 ? nvml_device_index(device, devices, n) : -1;

	if (i < 0)
		return false;
	*ret_quota = devices[i].quota_bytes;
	*ret_used = devices[i].used_bytes;
	return true;
}

static void show_own(uint64_t quota, uint64_t used, unsigned long long *total,
	unsigned long long *bytes_free, unsigned long long *bytes_used)
{
	if (quota > *total)
		quota = *total;
	*total = quota;
	*bytes_used = used < quota ? used : quota;
	*bytes_free = *total - *bytes_used;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	nvmlReturn_t r = REAL(nvmlDeviceGetMemoryInfo)(device, memory);
	uint64_t quota, used;

	if (r == NVML_SUCCESS && own_memory(device, &quota, &used))
		show_own(quota, used, &memory->total, &memory->free, &memory->used);
	return r;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	nvmlReturn_t r = REAL(nvmlDeviceGetMemoryInfo_v2)(device, memory);
	uint64_t quota, used;

	if (r == NVML_SUCCESS && own_memory(device, &quota, &used)) {
		memory->reserved = 0;
		show_own(quota, used, &memory->total, &memory->free, &memory->used);
	}
	return r;
}
