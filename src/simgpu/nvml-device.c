/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: initialisation, finding devices, and their properties: names, numbers, places, links. */
#include "simgpu/simgpu-nvml.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "simgpu/simgpu-arch.h"
#include "simgpu/simgpu-link.h"

/*
 * Handles are made-up numbers, so the library recognises a wrong handle and never dereferences it.
 */
#define HANDLE_BASE 0x4e564d4c0000ull
#define PCI_CLASS_3D 3u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct link the_link = {.sock = -1, .doorbell = -1};
static unsigned users;
static _Atomic bool lost[SIMGPU_MAX_DEVICES]; /* devices that this process has lost */

const struct simgpu_state *nvml_state(void)
{
	return __atomic_load_n(&the_link.state, __ATOMIC_ACQUIRE);
}

bool nvml_is_begun(void)
{
	return nvml_state() && users != 0;
}

/*
 * Whether this process has lost the device. As with the real driver, the process reaches the device
 * again only after it has initialised the library anew.
 */
static bool nvml_is_lost(unsigned index)
{
	if (nvml_state()->devices[index].lost)
		atomic_store(&lost[index], true);
	return atomic_load(&lost[index]);
}

nvmlDevice_t nvml_handle(unsigned index)
{
	return (nvmlDevice_t)(uintptr_t)(HANDLE_BASE + index + 1);
}

nvmlReturn_t nvml_device(
	nvmlDevice_t handle, const struct simgpu_state_device **ret_device, unsigned *ret_index)
{
	const struct simgpu_state *state = nvml_state();
	uintptr_t number = (uintptr_t)handle - HANDLE_BASE - 1;

	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(number < state->device_count, NVML_ERROR_INVALID_ARGUMENT);
	NVML_CHECK(!nvml_is_lost((unsigned)number), NVML_ERROR_GPU_IS_LOST);
	*ret_device = &state->devices[number];
	if (ret_index)
		*ret_index = (unsigned)number;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	nvmlReturn_t r = NVML_SUCCESS;

	NVML_CHECK((flags & ~3u) == 0, NVML_ERROR_INVALID_ARGUMENT);
	pthread_mutex_lock(&lock);
	if (users == 0 && the_link.state && link_is_dead(&the_link))
		link_close(&the_link);
	if (!the_link.state && link_open(&the_link, SIMGPU_ROLE_NVML, NULL) < 0)
		r = NVML_ERROR_DRIVER_NOT_LOADED;
	for (unsigned i = 0; r == NVML_SUCCESS && users == 0 && i < SIMGPU_MAX_DEVICES; i++)
		atomic_store(&lost[i], false);
	if (r == NVML_SUCCESS)
		users++;
	pthread_mutex_unlock(&lock);
	return r;
}

NVML_EXPORT nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t r = NVML_ERROR_UNINITIALIZED;

	pthread_mutex_lock(&lock);
	if (users != 0) {
		r = NVML_SUCCESS;
		if (--users == 0)
			link_close(&the_link);
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static const struct {
	nvmlReturn_t code;
	const char *text;
} errors[] = {
	{NVML_SUCCESS, "Success"},
	{NVML_ERROR_UNINITIALIZED, "Not initialized"},
	{NVML_ERROR_INVALID_ARGUMENT, "Invalid argument"},
	{NVML_ERROR_NOT_SUPPORTED, "Not supported"},
	{NVML_ERROR_NO_PERMISSION, "No permission"},
	{NVML_ERROR_ALREADY_INITIALIZED, "Already initialized"},
	{NVML_ERROR_NOT_FOUND, "Not found"},
	{NVML_ERROR_INSUFFICIENT_SIZE, "Too little room"},
	{NVML_ERROR_DRIVER_NOT_LOADED, "Driver not loaded"},
	{NVML_ERROR_TIMEOUT, "Timeout"},
	{NVML_ERROR_GPU_IS_LOST, "Device is lost"},
	{NVML_ERROR_MEMORY, "Out of memory"},
	{NVML_ERROR_NO_DATA, "No data"},
	{NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Version of an argument is unknown"},
};

NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == result)
			return errors[i].text;
	return "Unknown error";
}

/* ---- the system ---- */

NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	return nvml_text_give(NVML_SIM_DRIVER, version, length);
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	return nvml_text_give("13." NVML_SIM_DRIVER, version, length);
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion)
{
	NVML_CHECK(cudaDriverVersion, NVML_ERROR_INVALID_ARGUMENT);
	*cudaDriverVersion = NVML_SIM_CUDA;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
	char path[64], text[256];
	size_t n;
	FILE *f;

	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(name && length != 0, NVML_ERROR_INVALID_ARGUMENT);
	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	f = fopen(path, "re");
	NVML_CHECK(f, NVML_ERROR_NOT_FOUND);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	NVML_CHECK(n != 0, NVML_ERROR_NOT_FOUND);
	snprintf(name, length, "%s", text);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetHicVersion(
	unsigned int *hwbcCount, nvmlHwbcEntry_t *hwbcEntries)
{
	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(hwbcCount, NVML_ERROR_INVALID_ARGUMENT);
	*hwbcCount = 0;
	return NVML_SUCCESS;
}

/* ---- finding devices ---- */

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(deviceCount, NVML_ERROR_INVALID_ARGUMENT);
	*deviceCount = nvml_state()->device_count;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(device && index < nvml_state()->device_count, NVML_ERROR_INVALID_ARGUMENT);
	NVML_CHECK(!nvml_is_lost(index), NVML_ERROR_GPU_IS_LOST);
	*device = nvml_handle(index);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(uuid && device, NVML_ERROR_INVALID_ARGUMENT);
	for (unsigned i = 0; i < nvml_state()->device_count; i++)
		if (strcasecmp(nvml_state()->devices[i].uuid, uuid) == 0)
			return nvmlDeviceGetHandleByIndex_v2(i, device);
	return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(uuid && device, NVML_ERROR_INVALID_ARGUMENT);
	NVML_CHECK_VERSION(uuid, UUID, 1);
	if (uuid->type == 1)
		return nvmlDeviceGetHandleByUUID(uuid->value.str, device);
	for (unsigned i = 0; i < nvml_state()->device_count; i++)
		if (memcmp(nvml_state()->devices[i].uuid_bytes, uuid->value.bytes, 16) == 0)
			return nvmlDeviceGetHandleByIndex_v2(i, device);
	return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(
	const char *pciBusId, nvmlDevice_t *device)
{
	struct nvml_bus_id id;

	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(pciBusId && device, NVML_ERROR_INVALID_ARGUMENT);
	NVML_TRY(nvml_bus_id_parse(pciBusId, &id));
	for (unsigned i = 0; i < nvml_state()->device_count; i++) {
		const struct simgpu_state_device *d = &nvml_state()->devices[i];

		if (d->pci_domain == id.domain && d->pci_bus == id.bus && d->pci_device == id.slot)
			return nvmlDeviceGetHandleByIndex_v2(i, device);
	}
	return NVML_ERROR_NOT_FOUND;
}

static void serial_of(const struct simgpu_state_device *d, char text[16])
{
	uint64_t n;

	memcpy(&n, d->uuid_bytes + 8, sizeof(n));
	snprintf(text, 16, "1%012llu", (unsigned long long)(n % 1000000000000ull));
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
	char text[16];

	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(serial && device, NVML_ERROR_INVALID_ARGUMENT);
	for (unsigned i = 0; i < nvml_state()->device_count; i++) {
		serial_of(&nvml_state()->devices[i], text);
		if (strcmp(text, serial) == 0)
			return nvmlDeviceGetHandleByIndex_v2(i, device);
	}
	return NVML_ERROR_NOT_FOUND;
}

/* ---- properties of a device ---- */

static const struct simgpu_arch *arch_of(const struct simgpu_state_device *d)
{
	return simgpu_arch_get(d->cc_major * 10 + d->cc_minor);
}

NVML_VALUE(GetIndex, unsigned int, index)
NVML_VALUE(GetMinorNumber, unsigned int, index)
NVML_VALUE(GetModuleId, unsigned int, index + 1)
NVML_VALUE(GetBoardId, unsigned int, d->pci_bus << 8)
NVML_VALUE(GetMultiGpuBoard, unsigned int, 0)
NVML_VALUE(GetBrand, nvmlBrandType_t, NVML_BRAND_NVIDIA)
NVML_VALUE(GetNumGpuCores, unsigned int, d->sm_count *arch_of(d)->cores)
NVML_VALUE(GetNumaNodeId, unsigned int, d->numa)
NVML_VALUE(GetMemoryBusWidth, unsigned int, d->mem_bus_bits)
NVML_VALUE(GetBusType, nvmlBusType_t, NVML_BUS_TYPE_PCIE)
NVML_VALUE(GetArchitecture, nvmlDeviceArchitecture_t, arch_of(d)->nvml)
NVML_VALUE(GetGpuMaxPcieLinkGeneration, unsigned int, arch_of(d)->pcie_generation)
NVML_VALUE(GetMaxPcieLinkGeneration, unsigned int, arch_of(d)->pcie_generation)
NVML_VALUE(GetCurrPcieLinkGeneration, unsigned int, arch_of(d)->pcie_generation)
NVML_VALUE(GetMaxPcieLinkWidth, unsigned int, 16)
NVML_VALUE(GetCurrPcieLinkWidth, unsigned int, 16)
NVML_VALUE(GetPcieReplayCounter, unsigned int, 0)
NVML_VALUE(GetIrqNum, unsigned int, 64 + index)
NVML_VALUE(GetDisplayMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
NVML_VALUE(GetDisplayActive, nvmlEnableState_t, NVML_FEATURE_DISABLED)
NVML_VALUE(GetMaxMigDeviceCount, unsigned int, 0)
NVML_VALUE(IsMigDeviceHandle, unsigned int, 0)
NVML_VALUE(GetVirtualizationMode, nvmlGpuVirtualizationMode_t, NVML_GPU_VIRTUALIZATION_MODE_NONE)
NVML_VALUE(GetRetiredPagesPendingStatus, nvmlEnableState_t, NVML_FEATURE_DISABLED)
NVML_VALUE(GetInforomConfigurationChecksum, unsigned int, 0x51u + index)
NVML_PAIR(GetCudaComputeCapability, int, (int)d->cc_major, (int)d->cc_minor)
NVML_PAIR(GetMigMode, unsigned int, 0, 0)
NVML_TEXT(GetName, d->name)
NVML_TEXT(GetUUID, d->uuid)
NVML_TEXT(GetVbiosVersion, "simulated")
NVML_TEXT(GetBoardPartNumber, "simulated")
NVML_TEXT(GetInforomImageVersion, "simulated")

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
	const struct simgpu_state_device *d;
	char text[16];

	NVML_TRY(nvml_device(device, &d, NULL));
	serial_of(d, text);
	return nvml_text_give(text, serial, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(
	nvmlDevice_t device, unsigned int index, nvmlDevice_t *migDevice)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(migDevice, NVML_ERROR_INVALID_ARGUMENT);
	return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(
	nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
	const struct simgpu_state_device *d;

	/* Only MIG devices have attributes. */
	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(attributes, NVML_ERROR_INVALID_ARGUMENT);
	return NVML_ERROR_NOT_SUPPORTED;
}

static void bus_id(const struct simgpu_state_device *d, char text[32])
{
	snprintf(text, 32, "%08X:%02X:%02X.0", d->pci_domain, d->pci_bus, d->pci_device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(pci, NVML_ERROR_INVALID_ARGUMENT);
	*pci = (nvmlPciInfo_t){
		.domain = d->pci_domain,
		.bus = d->pci_bus,
		.device = d->pci_device,
		.pciDeviceId = d->pci_vendor_device,
		.pciSubSystemId = d->pci_vendor_device,
	};
	snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0",
		d->pci_domain & 0xffff, d->pci_bus & 0xff, d->pci_device & 0xff);
	bus_id(d, pci->busId);
	return NVML_SUCCESS;
}

/*
 * Versions 1 and 2 of the struct are prefixes of the newest version, so one function fills all.
 * These assertions check the last field that the versions share.
 */
_Static_assert(offsetof(nvmlPciInfo_v1_t, pciDeviceId) == offsetof(nvmlPciInfo_t, pciDeviceId) &&
		offsetof(nvmlPciInfo_v2_t, pciSubSystemId) ==
			offsetof(nvmlPciInfo_t, pciSubSystemId),
	"older versions of nvmlPciInfo_t");

static nvmlReturn_t pci_info(nvmlDevice_t device, void *pci, size_t size)
{
	nvmlPciInfo_t newest;

	NVML_TRY(nvmlDeviceGetPciInfo_v3(device, pci ? &newest : NULL));
	memcpy(pci, &newest, size);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *pci)
{
	return pci_info(device, pci, sizeof(*pci));
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v1_t *pci)
{
	return pci_info(device, pci, sizeof(*pci));
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK_VERSION(pci, PciInfoExt, 1);
	pci->domain = d->pci_domain;
	pci->bus = d->pci_bus;
	pci->device = d->pci_device;
	pci->pciDeviceId = pci->pciSubSystemId = d->pci_vendor_device;
	pci->baseClass = PCI_CLASS_3D;
	pci->subClass = 2;
	bus_id(d, pci->busId);
	return NVML_SUCCESS;
}

/* ---- links and neighbours ---- */

static nvmlReturn_t two_devices(nvmlDevice_t device1, nvmlDevice_t device2,
	const struct simgpu_state_device **ret1, unsigned *ret_index2)
{
	const struct simgpu_state_device *other;

	NVML_TRY(nvml_device(device1, ret1, NULL));
	return nvml_device(device2, &other, ret_index2);
}

static nvmlGpuTopologyLevel_t level_between(
	const struct simgpu_state_device *a, const struct simgpu_state_device *b)
{
	if (a == b)
		return NVML_TOPOLOGY_INTERNAL;
	if (a->pci_domain == b->pci_domain && a->pci_bus >> 4 == b->pci_bus >> 4)
		return NVML_TOPOLOGY_MULTIPLE;
	return a->numa == b->numa ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(
	nvmlDevice_t device1, nvmlDevice_t device2, nvmlGpuTopologyLevel_t *pathInfo)
{
	const struct simgpu_state_device *d;
	unsigned other;

	NVML_TRY(two_devices(device1, device2, &d, &other));
	NVML_CHECK(pathInfo, NVML_ERROR_INVALID_ARGUMENT);
	*pathInfo = level_between(d, &nvml_state()->devices[other]);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device,
	nvmlGpuTopologyLevel_t level, unsigned int *count, nvmlDevice_t *deviceArray)
{
	const struct simgpu_state_device *d;
	unsigned n = 0;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(count, NVML_ERROR_INVALID_ARGUMENT);
	for (unsigned i = 0; i < nvml_state()->device_count; i++) {
		const struct simgpu_state_device *other = &nvml_state()->devices[i];

		if (other == d || level_between(d, other) != level)
			continue;
		if (deviceArray && n < *count)
			deviceArray[n] = nvml_handle(i);
		n++;
	}
	*count = deviceArray && n > *count ? *count : n;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2,
	nvmlGpuP2PCapsIndex_t p2pIndex, nvmlGpuP2PStatus_t *p2pStatus)
{
	const struct simgpu_state_device *d;
	unsigned other;
	bool linked;

	NVML_TRY(two_devices(device1, device2, &d, &other));
	NVML_CHECK(p2pStatus && (unsigned)p2pIndex < NVML_P2P_CAPS_INDEX_UNKNOWN,
		NVML_ERROR_INVALID_ARGUMENT);
	linked = d->nvlinks[other] != 0;
	*p2pStatus = NVML_P2P_STATUS_OK;
	if ((p2pIndex == NVML_P2P_CAPS_INDEX_NVLINK || p2pIndex == NVML_P2P_CAPS_INDEX_ATOMICS) &&
		!linked)
		*p2pStatus = NVML_P2P_STATUS_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceOnSameBoard(
	nvmlDevice_t device1, nvmlDevice_t device2, int *onSameBoard)
{
	const struct simgpu_state_device *d;
	unsigned other;

	NVML_TRY(two_devices(device1, device2, &d, &other));
	NVML_CHECK(onSameBoard, NVML_ERROR_INVALID_ARGUMENT);
	*onSameBoard = d == &nvml_state()->devices[other];
	return NVML_SUCCESS;
}

/* Each link leads to another device, in the order of the devices; higher numbers have no link. */
static nvmlReturn_t link_of(nvmlDevice_t device, unsigned link, unsigned *ret_other)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(link < NVML_NVLINK_MAX_LINKS, NVML_ERROR_INVALID_ARGUMENT);
	for (unsigned i = 0; i < nvml_state()->device_count; i++) {
		if (link < d->nvlinks[i]) {
			*ret_other = i;
			return NVML_SUCCESS;
		}
		link -= d->nvlinks[i];
	}
	return NVML_ERROR_NOT_SUPPORTED;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(
	nvmlDevice_t device, unsigned int link, nvmlEnableState_t *isActive)
{
	unsigned other;

	NVML_CHECK(isActive, NVML_ERROR_INVALID_ARGUMENT);
	NVML_TRY(link_of(device, link, &other));
	*isActive = NVML_FEATURE_ENABLED;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(
	nvmlDevice_t device, unsigned int link, unsigned int *version)
{
	unsigned other;

	NVML_CHECK(version, NVML_ERROR_INVALID_ARGUMENT);
	NVML_TRY(link_of(device, link, &other));
	*version = arch_of(&nvml_state()->devices[other])->nvlink_version;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link,
	nvmlNvLinkCapability_t capability, unsigned int *capResult)
{
	unsigned other;

	NVML_CHECK(capResult && (unsigned)capability < NVML_NVLINK_CAP_COUNT,
		NVML_ERROR_INVALID_ARGUMENT);
	NVML_TRY(link_of(device, link, &other));
	*capResult = capability == NVML_NVLINK_CAP_P2P_SUPPORTED ||
		capability == NVML_NVLINK_CAP_P2P_ATOMICS || capability == NVML_NVLINK_CAP_VALID;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(
	nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci)
{
	unsigned other;

	NVML_CHECK(pci, NVML_ERROR_INVALID_ARGUMENT);
	NVML_TRY(link_of(device, link, &other));
	return nvmlDeviceGetPciInfo_v3(nvml_handle(other), pci);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(
	nvmlDevice_t device, unsigned int link, nvmlIntNvLinkDeviceType_t *type)
{
	unsigned other;

	NVML_CHECK(type, NVML_ERROR_INVALID_ARGUMENT);
	NVML_TRY(link_of(device, link, &other));
	*type = NVML_NVLINK_DEVICE_TYPE_GPU;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link,
	nvmlNvLinkErrorCounter_t counter, unsigned long long *counterValue)
{
	unsigned other;

	NVML_CHECK(counterValue && (unsigned)counter < NVML_NVLINK_ERROR_COUNT,
		NVML_ERROR_INVALID_ARGUMENT);
	NVML_TRY(link_of(device, link, &other));
	*counterValue = 0;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(
	nvmlDevice_t device, unsigned int cpuSetSize, unsigned long *cpuSet)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(cpuSet && cpuSetSize != 0, NVML_ERROR_INVALID_ARGUMENT);
	for (unsigned i = 0; i < cpuSetSize; i++)
		cpuSet[i] = ~0ul;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int nodeSetSize,
	unsigned long *nodeSet, nvmlAffinityScope_t scope)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK(nodeSet && nodeSetSize > d->numa / 64, NVML_ERROR_INVALID_ARGUMENT);
	memset(nodeSet, 0, nodeSetSize * sizeof(*nodeSet));
	nodeSet[d->numa / 64] |= 1ul << d->numa % 64;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetAddressingMode(
	nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode)
{
	const struct simgpu_state_device *d;

	NVML_TRY(nvml_device(device, &d, NULL));
	NVML_CHECK_VERSION(mode, DeviceAddressingMode, 1);
	mode->value = d->host_access; /* both enumerations have the same numbers */
	return NVML_SUCCESS;
}
