/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers the program's NVML questions from this machine's NVML: see remote/remote-nvml.h. Main
 * thread.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "cuda/nvml-entries.h"
#include "cuda/nvml-proto.h"
#include "remote/confine.h"
#include "remote/remote-nvml.h"
#include "remote/worker.h"

/* Selects the functions with DEVICE in the column `remote` of nvml.def. */
#define ASKED_DEVICE(X, name) X(name)
#define ASKED_OWN(X, name)
#define ASKED_FORM(X, name)
#define ASKED_NONE(X, name)

static struct {
	PFN_nvmlInit_v2 *nvmlInit_v2;
#define MEMBER(name) PFN_##name *name;
#define NVML(abi, hook, remote, ...) ASKED_##remote(MEMBER, abi)
#include "cuda/nvml.def"
#undef NVML
} nvml;

static nvmlReturn_t worker_nvml_load(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return NVML_ERROR_LIBRARY_NOT_FOUND;
#define FIND(name) \
	nvml.name = (PFN_##name *)(uintptr_t)dlsym(library, #name); \
	if (!nvml.name) \
		return NVML_ERROR_FUNCTION_NOT_FOUND;
#define NVML(abi, hook, remote, ...) ASKED_##remote(FIND, abi)
	FIND(nvmlInit_v2)
#include "cuda/nvml.def"
#undef NVML
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

/* A device may not report its memory or utilisation: with MIG, NVML reports no utilisation. */
static nvmlReturn_t tell_use(nvmlDevice_t device, struct remote_nvml_use *u)
{
	u->memory_result = nvml.nvmlDeviceGetMemoryInfo(device, &u->memory);
	u->utilisation_result = nvml.nvmlDeviceGetUtilizationRates(device, &u->utilisation);
	return NVML_SUCCESS;
}

/* ---- lists ---- */

/* The last requested list, until its last page has been sent. */
static struct {
	uint32_t kind;
	unsigned int n;
	_Alignas(8) char entries[REMOTE_NVML_ENTRIES * sizeof(nvmlProcessUtilizationSample_t)];
} list;

/*
 * The pid of the program that the worker process serves (worker-main.c). 0: the process is no
 * worker.
 */
static unsigned int program_of(const void *context, unsigned int worker)
{
	_cleanup_buf_ struct buf text = BUF_INIT(PATH_MAX + 64);
	struct str rest, name, fd, whose;
	char path[32];
	uint64_t pid;

	snprintf(path, sizeof(path), "/proc/%u/cmdline", worker);
	if (file_read(path, &text, NULL) < 0)
		return 0;
	rest = buf_str(&text);
	if (!str_split(&rest, '\0', &name) || !str_split(&rest, '\0', &fd) ||
		!str_split(&rest, '\0', &whose) ||
		!str_has_suffix(name, STR("/divvy-remote-worker")) ||
		parse_uint(whose, 1, INT32_MAX, &pid, NULL) < 0)
		return 0;
	return (unsigned int)pid;
}

static nvmlReturn_t fetch_list(nvmlDevice_t device, const struct remote_nvml_ask *ask)
{
	void *to = list.entries;

	list.n = REMOTE_NVML_ENTRIES;
	switch (ask->kind) {
	case REMOTE_NVML_COMPUTE:
		return nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &list.n, to);
	case REMOTE_NVML_GRAPHICS:
		return nvml.nvmlDeviceGetGraphicsRunningProcesses_v3(device, &list.n, to);
	case REMOTE_NVML_MPS:
		return nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3(device, &list.n, to);
	case REMOTE_NVML_USED:
		return nvml.nvmlDeviceGetProcessUtilization(device, to, &list.n, ask->since);
	default: return NVML_ERROR_NOT_SUPPORTED;
	}
}

/*
 * Makes the list of the tenant's own processes; the interception library has removed all others.
 * Each worker's pid becomes the pid of the program that it serves. A process without such a program
 * does not exist on the program's machine, so its entry is dropped.
 */
static nvmlReturn_t make_list(nvmlDevice_t device, const struct remote_nvml_ask *ask)
{
	const struct nvml_entry entry = {remote_nvml_entry_size(ask->kind), 0};
	const nvmlReturn_t r = fetch_list(device, ask);

	list.n = nvml_entries_keep(&entry, list.entries, r ? 0 : list.n, program_of, NULL);
	list.kind = ask->kind;
	return ask->kind == REMOTE_NVML_USED ? nvml_entries_or_none(r, list.n) : r;
}
_Static_assert(!offsetof(nvmlProcessInfo_t, pid) && !offsetof(nvmlProcessUtilizationSample_t, pid),
	"make_list");

static nvmlReturn_t tell_list(
	nvmlDevice_t device, const struct remote_note *asked, struct remote_nvml_list *ret_page)
{
	struct remote_nvml_ask ask;
	nvmlReturn_t r;
	size_t size;

	memcpy(&ask, asked->text, sizeof(ask));
	r = ask.from ? NVML_SUCCESS : make_list(device, &ask);
	if (r)
		return r;
	if (ask.kind != list.kind || ask.from > list.n)
		return NVML_ERROR_INVALID_ARGUMENT;
	size = remote_nvml_entry_size(ask.kind);
	ret_page->n = list.n;
	ret_page->here = (uint32_t)MIN(sizeof(ret_page->entries) / size, list.n - ask.from);
	memcpy(ret_page->entries, list.entries + ask.from * size, ret_page->here * size);
	return NVML_SUCCESS;
}

static nvmlReturn_t worker_nvml_answer(
	const struct remote_note *asked, struct remote_note *ret_told)
{
	union {
		struct remote_nvml_system system;
		struct remote_nvml_device device;
		struct remote_nvml_use use;
		struct remote_nvml_list list;
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
	case REMOTE_NVML_LIST: r = tell_list(device, asked, &told.list); break;
	default: r = NVML_ERROR_NOT_SUPPORTED;
	}
	memcpy(ret_told->text, &told, sizeof(told));
	return r;
}

int serve_nvml(int sock)
{
	nvmlReturn_t r = worker_nvml_load();
	struct remote_note note;
	nvmlDevice_t first;

	/*
	 * The interception library registers when it first looks for a device. The registration
	 * needs the secret, which confine() overwrites, so this call comes first.
	 */
	if (!r)
		nvml.nvmlDeviceGetHandleByIndex_v2(0, &first);
	if (confine() < 0)
		return 1;
	for (;;) {
		struct remote_note told = {.type = REMOTE_TELL, .abi = REMOTE_ABI};

		if (fd_recv(sock, &note, sizeof(note), NULL, 0) != sizeof(note))
			return 0;
		if (note.type != REMOTE_ASK)
			continue;
		told.lane = r ? r : worker_nvml_answer(&note, &told);
		if (fd_send(sock, &told, sizeof(told), NULL, 0, MSG_NOSIGNAL) != sizeof(told))
			return 1;
	}
}
