/* SPDX-License-Identifier: Apache-2.0 */
/* Answers what NVML of the program asks, out of the NVML of this machine: remote/nvml.h. */
#include <dlfcn.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "cuda/nvml_proto.h"
#include "remote/nvml.h"
#include "remote/worker.h"

#define ASKED(X) \
	X(nvmlInit_v2) \
	X(nvmlDeviceGetCount_v2) \
	X(nvmlDeviceGetHandleByIndex_v2) \
	X(nvmlDeviceGetName) \
	X(nvmlDeviceGetUUID) \
	X(nvmlDeviceGetCudaComputeCapability) \
	X(nvmlDeviceGetPciInfo_v3) \
	X(nvmlDeviceGetMemoryInfo) \
	X(nvmlDeviceGetUtilizationRates) \
	X(nvmlSystemGetDriverVersion) \
	X(nvmlSystemGetNVMLVersion) \
	X(nvmlSystemGetCudaDriverVersion_v2)

static struct {
#define X(name) PFN_##name *name;
	ASKED(X)
#undef X
} nvml;

static nvmlReturn_t load(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return NVML_ERROR_LIBRARY_NOT_FOUND;
#define X(name) \
	nvml.name = (PFN_##name *)(uintptr_t)dlsym(library, #name); \
	if (!nvml.name) \
		return NVML_ERROR_FUNCTION_NOT_FOUND;
	ASKED(X)
#undef X
	return nvml.nvmlInit_v2();
}

static nvmlReturn_t tell_system(struct remote_nvml_system *s)
{
	nvmlReturn_t r = nvml.nvmlDeviceGetCount_v2(&s->devices);

	r = r ? r : nvml.nvmlSystemGetDriverVersion(s->driver, sizeof(s->driver));
	r = r ? r : nvml.nvmlSystemGetNVMLVersion(s->nvml, sizeof(s->nvml));
	return r ? r : nvml.nvmlSystemGetCudaDriverVersion_v2(&s->cuda);
}

static nvmlReturn_t tell_device(nvmlDevice_t device, struct remote_nvml_device *d)
{
	nvmlReturn_t r = nvml.nvmlDeviceGetName(device, d->name, sizeof(d->name));

	r = r ? r : nvml.nvmlDeviceGetUUID(device, d->uuid, sizeof(d->uuid));
	r = r ? r : nvml.nvmlDeviceGetCudaComputeCapability(device, &d->major, &d->minor);
	return r ? r : nvml.nvmlDeviceGetPciInfo_v3(device, &d->pci);
}

/* A device may know the one and not the other: under MIG there is no utilisation. */
static nvmlReturn_t tell_use(nvmlDevice_t device, struct remote_nvml_use *u)
{
	u->memory_result = nvml.nvmlDeviceGetMemoryInfo(device, &u->memory);
	u->utilisation_result = nvml.nvmlDeviceGetUtilizationRates(device, &u->utilisation);
	return NVML_SUCCESS;
}

static nvmlReturn_t answer(const struct remote_note *asked, struct remote_note *ret_told)
{
	union {
		struct remote_nvml_system system;
		struct remote_nvml_device device;
		struct remote_nvml_use use;
	} told = {0};
	nvmlDevice_t device = NULL;
	nvmlReturn_t r = NVML_SUCCESS;

	if (asked->machine != REMOTE_NVML_SYSTEM)
		r = nvml.nvmlDeviceGetHandleByIndex_v2(asked->lane, &device);
	if (r)
		return r;
	switch (asked->machine) {
	case REMOTE_NVML_SYSTEM: r = tell_system(&told.system); break;
	case REMOTE_NVML_DEVICE: r = tell_device(device, &told.device); break;
	case REMOTE_NVML_USE: r = tell_use(device, &told.use); break;
	default: r = NVML_ERROR_NOT_SUPPORTED;
	}
	memcpy(ret_told->text, &told, sizeof(told));
	return r;
}

int serve_nvml(int sock)
{
	nvmlReturn_t r = load();
	struct remote_note note;

	for (;;) {
		struct remote_note told = {.type = REMOTE_TELL, .abi = REMOTE_ABI};

		if (fd_recv(sock, &note, sizeof(note), NULL, 0) != sizeof(note))
			return 0;
		if (note.type != REMOTE_ASK)
			continue;
		told.lane = r ? r : answer(&note, &told);
		if (fd_send(sock, &told, sizeof(told), NULL, 0, MSG_NOSIGNAL) != sizeof(told))
			return 1;
	}
}
