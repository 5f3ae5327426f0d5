/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and queries the management library: see driver-nvml.h. Functions are looked up by name at
 * opening. A function that a driver lacks stays NULL, and its answer is "not known".
 */
#include "driver/driver-nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

/* The few types that are needed, laid out as in NVML's public documentation. */
struct nvml_memory_v1 {
	unsigned long long total, free, used;
};
struct nvml_memory_v2 {
	unsigned int version;
	unsigned long long total, reserved, free, used;
};
struct nvml_process_info {
	unsigned int pid;
	unsigned long long used;
	unsigned int gpu_instance, compute_instance;
};
struct nvml_pci_info {
	char bus_id_legacy[16];
	unsigned int domain, bus, device, pci_device, pci_subsystem;
	char bus_id[32];
};

struct nvml_event_data {
	nvml_handle device;
	unsigned long long type, data;
	unsigned int gpu_instance, compute_instance;
};

struct nvml_addressing_mode {
	unsigned int version, value;
};

struct nvml_field {
	unsigned int id, scope;
	long long timestamp, latency;
	int type, result;
	union {
		unsigned int u;
		unsigned long long ull;
	} value;
};

#define NVML_OK 0
#define NVML_FIELD_RECOVERY 230u
#define NVML_TIMEOUT 10
#define NVML_EVENT_XID 8ull
#define NVML_LOST 15
#define NVML_P2P_NVLINK 2u /* an index of nvmlDeviceGetP2PStatus, whose OK is 0 */
/* Levels of nvmlDeviceGetTopologyCommonAncestor. */
#define NVML_TOPOLOGY_MULTIPLE 20u /* only PCIe switches are between the devices */
#define NVML_TOPOLOGY_NODE 40u     /* the host bridges of one NUMA node */
#define NVML_INSUFFICIENT_SIZE 7
#define NVML_ADDRESSING_V1 (unsigned int)(sizeof(struct nvml_addressing_mode) | 1u << 24)
#define NVML_NOT_SUPPORTED 3
#define NVML_MEMORY_V2 (unsigned int)(sizeof(struct nvml_memory_v2) | 2u << 24)
#define PROCESSES_MAX 4096
#define WATCHED_MAX 64u

/* Columns: name in the library, whether it is required, member of struct nvml, parameters. */
#define NVML_FUNCTIONS(X) \
	X("nvmlInit_v2", true, init, (void)) \
	X("nvmlShutdown", true, shutdown, (void)) \
	X("nvmlSystemGetDriverVersion", false, driver_version, (char *, unsigned int)) \
	X("nvmlSystemGetCudaDriverVersion_v2", false, cuda_version, (int *)) \
	X("nvmlDeviceGetCudaComputeCapability", false, capability, (nvml_handle, int *, int *)) \
	X("nvmlDeviceGetArchitecture", false, architecture, (nvml_handle, unsigned int *)) \
	X("nvmlDeviceGetCount_v2", true, count, (unsigned int *)) \
	X("nvmlDeviceGetHandleByIndex_v2", true, handle, (unsigned int, nvml_handle *)) \
	X("nvmlDeviceGetName", true, name, (nvml_handle, char *, unsigned int)) \
	X("nvmlDeviceGetUUID", true, uuid, (nvml_handle, char *, unsigned int)) \
	X("nvmlDeviceGetMemoryInfo", true, memory, (nvml_handle, struct nvml_memory_v1 *)) \
	X("nvmlDeviceGetMemoryInfo_v2", false, memory_v2, (nvml_handle, struct nvml_memory_v2 *)) \
	X("nvmlDeviceGetPciInfo_v3", false, pci, (nvml_handle, struct nvml_pci_info *)) \
	X("nvmlDeviceGetComputeMode", false, compute_mode, (nvml_handle, unsigned int *)) \
	X("nvmlDeviceGetMigMode", false, mig_mode, (nvml_handle, unsigned int *, unsigned int *)) \
	X("nvmlDeviceGetMaxMigDeviceCount", false, mig_count, (nvml_handle, unsigned int *)) \
	X("nvmlDeviceGetMigDeviceHandleByIndex", false, mig_handle, \
		(nvml_handle, unsigned int, nvml_handle *)) \
	X("nvmlDeviceGetComputeRunningProcesses_v3", false, compute, \
		(nvml_handle, unsigned int *, struct nvml_process_info *)) \
	X("nvmlDeviceGetComputeRunningProcesses_v2", false, compute_v2, \
		(nvml_handle, unsigned int *, struct nvml_process_info *)) \
	X("nvmlDeviceGetGraphicsRunningProcesses_v3", false, graphics, \
		(nvml_handle, unsigned int *, struct nvml_process_info *)) \
	X("nvmlDeviceGetMPSComputeRunningProcesses_v3", false, mps, \
		(nvml_handle, unsigned int *, struct nvml_process_info *)) \
	X("nvmlDeviceGetMinorNumber", false, minor, (nvml_handle, unsigned int *)) \
	X("nvmlDeviceGetAddressingMode", false, addressing, \
		(nvml_handle, struct nvml_addressing_mode *)) \
	X("nvmlDeviceGetMemoryAffinity", false, memory_affinity, \
		(nvml_handle, unsigned int, unsigned long *, unsigned int)) \
	X("nvmlDeviceGetTopologyCommonAncestor", false, ancestor, \
		(nvml_handle, nvml_handle, unsigned int *)) \
	X("nvmlDeviceGetP2PStatus", false, p2p, \
		(nvml_handle, nvml_handle, unsigned int, unsigned int *)) \
	X("nvmlDeviceGetGpuInstanceId", false, gpu_instance, (nvml_handle, unsigned int *)) \
	X("nvmlDeviceGetSupportedEventTypes", false, event_types, \
		(nvml_handle, unsigned long long *)) \
	X("nvmlEventSetCreate", false, events_new, (void **)) \
	X("nvmlEventSetFree", false, events_free, (void *)) \
	X("nvmlDeviceRegisterEvents", false, events_register, \
		(nvml_handle, unsigned long long, void *)) \
	X("nvmlEventSetWait_v2", false, events_wait, \
		(void *, struct nvml_event_data *, unsigned int)) \
	X("nvmlDeviceGetHandleByUUID", false, by_uuid, (const char *, nvml_handle *)) \
	X("nvmlDeviceGetFieldValues", false, field_values, (nvml_handle, int, struct nvml_field *))

struct nvml {
	void *library;
	char version[80];
	uint32_t cuda;
	/* Readers use the driver; writers change `events` or `watched`. Writers come first. */
	pthread_rwlock_t lock;
	bool is_closed; /* the driver could not be opened again */
	void *events;   /* the driver's event set; NULL: nothing is watched */
	/* The UUIDs are kept, because NVML no longer returns the UUID of a lost device. */
	struct {
		nvml_handle handle;
		char uuid[96];
	} watched[WATCHED_MAX];
	uint32_t n_watched;
#define X(symbol, required, member, params) int(*member) params;
	NVML_FUNCTIONS(X)
#undef X
};

/* Whether the loader has mapped a library of divvy's own, which shows a tenant's view. */
static bool nvml_is_own_library(void *library)
{
	struct link_map *map = NULL;
	_cleanup_free_ char *path = NULL;
	const char *base;

	if (dlinfo(library, RTLD_DI_LINKMAP, &map) || !map || !map->l_name)
		return false;
	path = realpath(map->l_name, NULL);
	if (!path)
		return false;
	base = strrchr(path, '/');
	return !strncmp(base ? base + 1 : path, "libdivvy-", strlen("libdivvy-"));
}

static void *open_library(const char *folder)
{
	static const char *const folders[] = {
		"/usr/lib/x86_64-linux-gnu",
		"/usr/lib64",
		"/usr/lib",
		"/usr/lib/aarch64-linux-gnu",
		"/usr/local/nvidia/lib64",
		"/usr/lib/wsl/lib",
	};
	char path[PATH_MAX];
	void *library;
	size_t i;

	if (folder) {
		snprintf(path, sizeof(path), "%s/libnvidia-ml.so.1", folder);
		return dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (library && !nvml_is_own_library(library))
		return library;
	if (library)
		dlclose(library);
	for (i = 0; i < ARRAY_SIZE(folders); i++) {
		snprintf(path, sizeof(path), "%s/libnvidia-ml.so.1", folders[i]);
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (library && !nvml_is_own_library(library))
			return library;
		if (library)
			dlclose(library);
	}
	return NULL;
}

static int find_functions(struct nvml *nvml, struct error *err)
{
#define X(symbol, required, member, params) \
	*(void **)&nvml->member = dlsym(nvml->library, symbol); \
	if (required && !nvml->member) \
		return fail(err, ENOENT, "libnvidia-ml.so.1 has no %s; install a newer driver", \
			symbol);
	NVML_FUNCTIONS(X)
#undef X
	return 0;
}

static void nvml_init_lock(struct nvml *nvml)
{
	pthread_rwlockattr_t attr;

	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&nvml->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
}

static void nvml_unlock(pthread_rwlock_t **lock)
{
	if (*lock)
		pthread_rwlock_unlock(*lock);
}

/* Keeps nvml_reopen() away until the end of the block. */
#define NVML_READ(nvml) \
	__attribute__((cleanup(nvml_unlock))) pthread_rwlock_t *reading = &(nvml)->lock; \
	pthread_rwlock_rdlock(reading)

int nvml_open(const char *folder, struct nvml **ret_nvml, struct error *err)
{
	int cuda = 0;
	_cleanup_free_ struct nvml *nvml = calloc(1, sizeof(*nvml));
	int r;

	if (!nvml)
		return fail(err, ENOMEM, "out of memory");
	nvml->library = open_library(folder);
	if (!nvml->library)
		return fail(err, ENOENT, "no libnvidia-ml.so.1%s%s: no NVIDIA driver is installed",
			folder ? " in " : "", folder ? folder : "");
	r = find_functions(nvml, err);
	if (r >= 0 && (r = nvml->init()) != NVML_OK)
		r = fail(err, ENODEV,
			"the NVIDIA driver finds no device (nvmlInit_v2 failed with %d)", r);
	if (r >= 0)
		nvml_init_lock(nvml);
	if (r < 0) {
		dlclose(nvml->library);
		return r;
	}
	if (!nvml->driver_version || nvml->driver_version(nvml->version, sizeof(nvml->version)))
		snprintf(nvml->version, sizeof(nvml->version), "unknown");
	if (nvml->cuda_version && nvml->cuda_version(&cuda) == NVML_OK && cuda > 0)
		nvml->cuda = (uint32_t)cuda;
	*ret_nvml = TAKE_PTR(nvml);
	return 0;
}

void nvml_close(struct nvml *nvml)
{
	if (!nvml)
		return;
	if (nvml->events)
		nvml->events_free(nvml->events);
	if (!nvml->is_closed)
		nvml->shutdown();
	pthread_rwlock_destroy(&nvml->lock);
	dlclose(nvml->library);
	free(nvml);
}

const char *nvml_driver_version(const struct nvml *nvml)
{
	return nvml ? nvml->version : "none";
}

uint32_t nvml_cuda_version(const struct nvml *nvml)
{
	return nvml ? nvml->cuda : 0;
}

static void read_generation(struct nvml *nvml, nvml_handle handle, struct nvml_info *info)
{
	/* By the number of nvmlDeviceGetArchitecture. */
	static const char *const names[] = {[2] = "Kepler",
		[3] = "Maxwell",
		[4] = "Pascal",
		[5] = "Volta",
		[6] = "Turing",
		[7] = "Ampere",
		[8] = "Ada",
		[9] = "Hopper",
		[10] = "Blackwell"};
	unsigned int number = 0;
	int major = 0, minor = 0;

	if (nvml->architecture && nvml->architecture(handle, &number) == NVML_OK &&
		number < ARRAY_SIZE(names) && names[number])
		info->architecture = names[number];
	if (nvml->capability && nvml->capability(handle, &major, &minor) == NVML_OK && major > 0 &&
		minor >= 0) {
		info->compute_major = (uint32_t)major;
		info->compute_minor = (uint32_t)minor;
	}
}

static void nvml_read_memory(struct nvml *nvml, struct nvml_info *info)
{
	struct nvml_memory_v2 v2 = {.version = NVML_MEMORY_V2};
	struct nvml_memory_v1 v1 = {0};

	if (nvml->memory_v2 && nvml->memory_v2(info->handle, &v2) == NVML_OK && v2.total) {
		info->memory_bytes = v2.total;
		info->usable_bytes = v2.total - MIN(v2.reserved, v2.total);
	} else if (nvml->memory(info->handle, &v1) == NVML_OK) {
		info->memory_bytes = info->usable_bytes = v1.total;
	}
}

static int32_t read_numa(struct nvml *nvml, nvml_handle handle)
{
	unsigned long nodes[1024 / (8 * sizeof(long))] = {0};

	if (!nvml->memory_affinity ||
		nvml->memory_affinity(handle, ARRAY_SIZE(nodes), nodes, 0) != NVML_OK)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++)
		if (nodes[i])
			return (int32_t)(i * 8 * sizeof(long)) + __builtin_ctzl(nodes[i]);
	return -1;
}

static enum nvml_host_access read_host_access(struct nvml *nvml, nvml_handle handle)
{
	static const enum nvml_host_access modes[] = {
		NVML_HOST_ACCESS_NONE, NVML_HOST_ACCESS_HMM, NVML_HOST_ACCESS_ATS};
	struct nvml_addressing_mode mode = {.version = NVML_ADDRESSING_V1};
	int r = nvml->addressing ? nvml->addressing(handle, &mode) : NVML_NOT_SUPPORTED;

	return r == NVML_OK && mode.value < ARRAY_SIZE(modes) ? modes[mode.value]
							      : NVML_HOST_ACCESS_UNKNOWN;
}

static bool nvml_read_info(
	struct nvml *nvml, nvml_handle handle, uint32_t index, struct nvml_info *info)
{
	struct nvml_pci_info pci = {0};
	unsigned int mode = 0, n = 0, minor;

	*info = (struct nvml_info){.handle = handle,
		.nvml_index = index,
		.gpu_instance = NVML_NO_INSTANCE,
		.compute_mode = "default",
		.architecture = "",
		.numa = read_numa(nvml, handle),
		.host_access = read_host_access(nvml, handle),
		.minor = -1};
	if (nvml->uuid(handle, info->uuid, sizeof(info->uuid)) != NVML_OK)
		return false;
	if (nvml->name(handle, info->model, sizeof(info->model)) != NVML_OK)
		snprintf(info->model, sizeof(info->model), "unknown");
	nvml_read_memory(nvml, info);
	read_generation(nvml, handle, info);
	if (nvml->pci && nvml->pci(handle, &pci) == NVML_OK)
		snprintf(info->pci, sizeof(info->pci), "%.31s", pci.bus_id);
	if (nvml->minor && nvml->minor(handle, &minor) == NVML_OK)
		info->minor = (int32_t)minor;
	if (nvml->compute_mode && nvml->compute_mode(handle, &mode) == NVML_OK)
		info->compute_mode = mode == 0 ? "default" : mode == 2 ? "prohibited" : "exclusive";
	/*
	 * Asks with an array of length 0: an answer that there are more processes means that the
	 * MPS control daemon runs.
	 */
	info->has_mps = nvml->mps && nvml->mps(handle, &n, NULL) == NVML_INSUFFICIENT_SIZE && n > 0;
	return info->memory_bytes > 0;
}

static size_t list_mig(
	struct nvml *nvml, const struct nvml_info *parent, struct nvml_info *ret, size_t max)
{
	unsigned int current = 0, pending = 0, n = 0, i;
	size_t found = 0;
	nvml_handle handle;

	if (!nvml->mig_mode || !nvml->mig_count || !nvml->mig_handle ||
		nvml->mig_mode(parent->handle, &current, &pending) != NVML_OK || !current ||
		nvml->mig_count(parent->handle, &n) != NVML_OK)
		return 0;
	for (i = 0; i < n && found < max; i++) {
		if (nvml->mig_handle(parent->handle, i, &handle) != NVML_OK ||
			!nvml_read_info(nvml, handle, parent->nvml_index, &ret[found]))
			continue;
		ret[found].is_mig = true;
		if (!nvml->gpu_instance ||
			nvml->gpu_instance(handle, &ret[found].gpu_instance) != NVML_OK)
			ret[found].gpu_instance = NVML_NO_INSTANCE;
		str_copy(ret[found].parent, sizeof(ret[found].parent), str_from(parent->uuid));
		str_copy(ret[found].pci, sizeof(ret[found].pci), str_from(parent->pci));
		ret[found].architecture = parent->architecture;
		ret[found].compute_major = parent->compute_major;
		ret[found].compute_minor = parent->compute_minor;
		found++;
	}
	return found;
}

int nvml_list(struct nvml *nvml, struct nvml_info *ret_infos, size_t max, struct error *err)
{
	unsigned int n = 0, i;
	size_t found = 0;
	int r;

	NVML_READ(nvml);
	r = nvml->count(&n);
	if (r != NVML_OK)
		return fail(err, EIO, "nvmlDeviceGetCount_v2 failed with %d", r);
	for (i = 0; i < n && found < max; i++) {
		struct nvml_info info;
		nvml_handle handle;
		size_t instances;

		if (nvml->handle(i, &handle) != NVML_OK || !nvml_read_info(nvml, handle, i, &info))
			continue;
		instances = list_mig(nvml, &info, ret_infos + found, max - found);
		if (!instances)
			ret_infos[found] = info;
		found += instances ? instances : 1;
	}
	if (!found)
		return fail(err, ENODEV, "the NVIDIA driver lists no device");
	return (int)found;
}

enum nvml_link nvml_link(struct nvml *nvml, nvml_handle a, nvml_handle b)
{
	unsigned int status = 1, level = UINT_MAX;

	NVML_READ(nvml);
	if (nvml->p2p && nvml->p2p(a, b, NVML_P2P_NVLINK, &status) == NVML_OK && status == 0)
		return NVML_LINK_NVLINK;
	if (!nvml->ancestor || nvml->ancestor(a, b, &level) != NVML_OK)
		return NVML_LINK_NONE;
	return level <= NVML_TOPOLOGY_MULTIPLE ? NVML_LINK_SWITCH
		: level <= NVML_TOPOLOGY_NODE  ? NVML_LINK_NUMA
					       : NVML_LINK_NONE;
}

int nvml_used_bytes(struct nvml *nvml, nvml_handle handle, uint64_t *ret_bytes)
{
	struct nvml_memory_v2 v2 = {.version = NVML_MEMORY_V2};
	struct nvml_memory_v1 v1 = {0};

	if (!nvml)
		return -EIO;
	NVML_READ(nvml);
	if (nvml->memory_v2 && nvml->memory_v2(handle, &v2) == NVML_OK) {
		*ret_bytes = v2.used;
		return 0;
	}
	if (nvml->memory(handle, &v1) != NVML_OK)
		return -EIO;
	*ret_bytes = v1.used;
	return 0;
}

static int add_processes(int (*list)(nvml_handle, unsigned int *, struct nvml_process_info *),
	nvml_handle handle, bool is_graphics, struct nvml_process *ret, size_t max)
{
	_cleanup_free_ struct nvml_process_info *infos = calloc(PROCESSES_MAX, sizeof(*infos));
	unsigned int n = PROCESSES_MAX;
	size_t i;
	int r = infos ? list(handle, &n, infos) : -1;

	if (r != NVML_OK)
		return r == NVML_LOST ? -ENODEV : -EIO;
	for (i = 0; i < n && i < max; i++)
		ret[i] = (struct nvml_process){
			.pid = infos[i].pid,
			.is_graphics = is_graphics,
			.used_bytes = infos[i].used,
		};
	return (int)i;
}

int nvml_processes(
	struct nvml *nvml, nvml_handle handle, struct nvml_process *ret_processes, size_t max)
{
	int n = -EIO, more;

	if (!nvml)
		return -EIO;
	NVML_READ(nvml);
	if (nvml->compute)
		n = add_processes(nvml->compute, handle, false, ret_processes, max);
	else if (nvml->compute_v2)
		n = add_processes(nvml->compute_v2, handle, false, ret_processes, max);
	if (n < 0 || !nvml->graphics)
		return n;
	more = add_processes(nvml->graphics, handle, true, ret_processes + n, max - (size_t)n);
	return more > 0 ? n + more : n;
}

static int nvml_watch_handle(struct nvml *nvml, nvml_handle handle)
{
	if (!nvml->events && nvml->events_new(&nvml->events) != NVML_OK)
		nvml->events = NULL;
	return nvml->events &&
			nvml->events_register(handle, NVML_EVENT_XID, nvml->events) == NVML_OK
		? 0
		: -ENOTSUP;
}

static int nvml_watch_xids_locked(struct nvml *nvml, uint32_t nvml_index)
{
	unsigned long long types = 0;
	nvml_handle handle;
	uint32_t n;

	/* nvml_reopen() must free the event set, because its devices are then invalid. */
	if (!nvml->events_new || !nvml->events_free || !nvml->events_register ||
		!nvml->events_wait || nvml->n_watched == WATCHED_MAX ||
		nvml->handle(nvml_index, &handle) != NVML_OK)
		return -ENOTSUP;
	if (nvml->event_types &&
		(nvml->event_types(handle, &types) != NVML_OK || !(types & NVML_EVENT_XID)))
		return -ENOTSUP;
	n = nvml->n_watched;
	if (nvml->uuid(handle, nvml->watched[n].uuid, sizeof(nvml->watched[n].uuid)) != NVML_OK ||
		nvml_watch_handle(nvml, handle) < 0)
		return -ENOTSUP;
	nvml->watched[n].handle = handle;
	nvml->n_watched++;
	return 0;
}

int nvml_watch_xids(struct nvml *nvml, uint32_t nvml_index)
{
	int r;

	if (!nvml)
		return -ENOTSUP;
	pthread_rwlock_wrlock(&nvml->lock);
	r = nvml_watch_xids_locked(nvml, nvml_index);
	pthread_rwlock_unlock(&nvml->lock);
	return r;
}

static nvml_handle nvml_find_locked(struct nvml *nvml, const char *uuid)
{
	nvml_handle handle;

	return !nvml->is_closed && nvml->by_uuid && nvml->by_uuid(uuid, &handle) == NVML_OK ? handle
											    : NULL;
}

nvml_handle nvml_find(struct nvml *nvml, const char *uuid)
{
	if (!nvml)
		return NULL;
	NVML_READ(nvml);
	return nvml_find_locked(nvml, uuid);
}

int nvml_reopen(struct nvml *nvml, uint64_t *ret_took_ns)
{
	uint64_t began_ns;
	int r;

	*ret_took_ns = 0;
	if (!nvml || !nvml->by_uuid)
		return -ENOTSUP;
	pthread_rwlock_wrlock(&nvml->lock);
	began_ns = clock_now_ns();
	if (nvml->events)
		nvml->events_free(TAKE_PTR(nvml->events));
	if (!nvml->is_closed)
		nvml->shutdown();
	nvml->is_closed = nvml->init() != NVML_OK;
	for (uint32_t i = 0; i < nvml->n_watched; i++) {
		nvml_handle handle = nvml_find_locked(nvml, nvml->watched[i].uuid);

		nvml->watched[i].handle = handle;
		if (handle && nvml_watch_handle(nvml, handle) < 0)
			log_debug("device %s: the driver reports no Xids since it was opened again",
				nvml->watched[i].uuid);
	}
	r = nvml->is_closed ? -EIO : 0;
	*ret_took_ns = clock_since_ns(clock_now_ns(), began_ns);
	pthread_rwlock_unlock(&nvml->lock);
	return r;
}

static enum nvml_recovery nvml_recovery_locked(struct nvml *nvml, nvml_handle handle)
{
	struct nvml_field field = {.id = NVML_FIELD_RECOVERY, .result = NVML_NOT_SUPPORTED};

	if (!handle || !nvml->field_values || nvml->field_values(handle, 1, &field) != NVML_OK ||
		field.result != NVML_OK)
		return NVML_RECOVERY_UNKNOWN;
	return field.value.u < NVML_RECOVERY_UNKNOWN ? (enum nvml_recovery)field.value.u
						     : NVML_RECOVERY_RESET;
}

enum nvml_recovery nvml_recovery(struct nvml *nvml, nvml_handle handle)
{
	if (!nvml)
		return NVML_RECOVERY_UNKNOWN;
	NVML_READ(nvml);
	return nvml_recovery_locked(nvml, handle);
}

static const char *watched_uuid(const struct nvml *nvml, nvml_handle handle)
{
	for (uint32_t i = 0; i < nvml->n_watched; i++)
		if (nvml->watched[i].handle == handle)
			return nvml->watched[i].uuid;
	return NULL;
}

int nvml_await_xid(struct nvml *nvml, uint32_t timeout_ms, struct nvml_xid *ret)
{
	struct nvml_event_data event;
	const char *uuid;
	int r;

	if (!nvml)
		return -EIO;
	NVML_READ(nvml);
	if (!nvml->events)
		return -EIO;
	do {
		event = (struct nvml_event_data){.gpu_instance = NVML_NO_INSTANCE};
		r = nvml->events_wait(nvml->events, &event, timeout_ms);
	} while (r == NVML_OK && event.type != NVML_EVENT_XID);
	if (r != NVML_OK)
		return r == NVML_TIMEOUT ? 0 : -EIO;
	uuid = watched_uuid(nvml, event.device);
	if (uuid)
		memcpy(ret->uuid, uuid, sizeof(ret->uuid));
	else if (nvml->uuid(event.device, ret->uuid, sizeof(ret->uuid)) != NVML_OK)
		ret->uuid[0] = '\0';
	ret->gpu_instance = event.gpu_instance;
	ret->xid = event.data;
	ret->recovery = nvml_recovery_locked(nvml, event.device);
	return 1;
}
