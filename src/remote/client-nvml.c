/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libdivvy-remote-nvml.so, the program's libnvidia-ml.so.1. The library asks the device's machine
 * for the devices and their usage, in a session of its own, for which the worker needs no CUDA
 * context. Lists of processes are in client-nvml-list.c, other forms in cuda/nvml-forms.c; all
 * other functions return NVML_ERROR_NOT_SUPPORTED (client-nvml-rest.c). Any thread, one question at
 * a time. A forked child begins a session of its own.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/preloaded.h"
#include "base/str.h"
#include "base/thread.h"
#include "cuda/nvml-entries.h"
#include "remote/client-nvml.h"

#define DEVICES_MAX 16u
#define ANSWER_S 10
/* Handles are numbers, so a wrong handle is recognised and never dereferenced. */
#define HANDLE_BASE 0x52454d4c0000ull

static struct {
	pthread_mutex_t lock;
	unsigned users;
	int sock;
	pid_t pid; /* process that owns the socket */
	struct remote_nvml_system system;
	struct remote_nvml_device device[DEVICES_MAX];
} nvml = {.lock = PTHREAD_MUTEX_INITIALIZER, .sock = -1};

/* ---- the session ---- */

static int client_nvml_say_hello(int sock)
{
	struct remote_note note = {.type = REMOTE_HELLO_NVML,
		.abi = REMOTE_ABI,
		.machine = REMOTE_MACHINE,
		.bytes = (uint64_t)getpid(),
		.text = "!"};
	_cleanup_fd_list_ struct fd_list fds = {.n = 0};

	if (fd_send(sock, &note, sizeof(note), NULL, 0, MSG_NOSIGNAL) != sizeof(note) ||
		fd_recv(sock, &note, sizeof(note), &fds, 0) != sizeof(note) ||
		note.type != REMOTE_WELCOME)
		return -ECONNREFUSED;
	return 0;
}

static int session_open(void)
{
	const struct timeval most = {.tv_sec = ANSWER_S};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *path = getenv("DIVVY_REMOTE");
	_cleanup_close_ int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (!path || !path[0])
		path = REMOTE_SOCKET;
	if (sock < 0 || str_copy(address.sun_path, sizeof(address.sun_path), str_from(path)) < 0 ||
		setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) < 0 ||
		connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		client_nvml_say_hello(sock) < 0)
		return -ECONNREFUSED;
	return TAKE_FD(sock);
}

static void client_nvml_before_fork(void)
{
	pthread_mutex_lock(&nvml.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&nvml.lock);
}

/*
 * A fork while another thread asks would leave the child's lock taken for ever, so each fork takes
 * the lock first.
 */
__attribute__((constructor)) static void watch_forks(void)
{
	preloaded_atfork(client_nvml_before_fork, after_fork, after_fork);
}

/* The caller holds the lock. A forked child must not use its copy of the parent's socket. */
static bool has_session(void)
{
	NOT_CANCELLED;

	if (nvml.sock >= 0 && nvml.pid != getpid())
		nvml.sock = fd_close(nvml.sock);
	if (nvml.sock < 0) {
		const int sock = session_open();

		nvml.sock = sock < 0 ? -1 : sock;
		nvml.pid = getpid();
	}
	return nvml.sock >= 0;
}

/*
 * The caller holds the lock. A session ends with its first failure, because a late answer may still
 * come.
 */
static nvmlReturn_t ask_with(enum remote_question question, unsigned device,
	const struct remote_nvml_ask *with, void *to, size_t n)
{
	struct remote_note note = {.type = REMOTE_ASK,
		.abi = REMOTE_ABI,
		.lane = device,
		.machine = (uint16_t)question};
	NOT_CANCELLED;

	NVML_CHECK(has_session(), NVML_ERROR_GPU_IS_LOST);
	memcpy(note.text, with, sizeof(*with));
	if (fd_send(nvml.sock, &note, sizeof(note), NULL, 0, MSG_NOSIGNAL) != sizeof(note) ||
		fd_recv(nvml.sock, &note, sizeof(note), NULL, 0) != sizeof(note) ||
		note.type != REMOTE_TELL) {
		nvml.sock = fd_close(nvml.sock);
		return NVML_ERROR_GPU_IS_LOST;
	}
	memcpy(to, note.text, n);
	return (nvmlReturn_t)note.lane;
}

/* The caller holds the lock. */
static nvmlReturn_t client_nvml_ask(
	enum remote_question question, unsigned device, void *to, size_t n)
{
	return ask_with(question, device, &(struct remote_nvml_ask){0}, to, n);
}

/* ---- beginning and ending ---- */

bool nvml_is_begun(void)
{
	return __atomic_load_n(&nvml.users, __ATOMIC_ACQUIRE) != 0;
}

/* Ends a text of the peer, which may lack a NUL. */
#define END_TEXT(array) (array)[sizeof(array) - 1] = '\0'

/* The caller holds the lock. */
static nvmlReturn_t client_nvml_begin(void)
{
	NVML_CHECK(has_session(), NVML_ERROR_DRIVER_NOT_LOADED);
	NVML_TRY(client_nvml_ask(REMOTE_NVML_SYSTEM, 0, &nvml.system, sizeof(nvml.system)));
	END_TEXT(nvml.system.driver);
	END_TEXT(nvml.system.nvml);
	if (nvml.system.devices > DEVICES_MAX)
		nvml.system.devices = DEVICES_MAX;
	for (unsigned i = 0; i < nvml.system.devices; i++) {
		NVML_TRY(client_nvml_ask(
			REMOTE_NVML_DEVICE, i, &nvml.device[i], sizeof(nvml.device[i])));
		END_TEXT(nvml.device[i].name);
		END_TEXT(nvml.device[i].uuid);
	}
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	nvmlReturn_t r = NVML_SUCCESS;

	NVML_CHECK((flags & ~3u) == 0, NVML_ERROR_INVALID_ARGUMENT);
	pthread_mutex_lock(&nvml.lock);
	if (!nvml.users)
		r = client_nvml_begin();
	if (r == NVML_SUCCESS)
		__atomic_add_fetch(&nvml.users, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&nvml.lock);
	return r;
}

NVML_EXPORT nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t r = NVML_ERROR_UNINITIALIZED;

	pthread_mutex_lock(&nvml.lock);
	if (nvml.users) {
		r = NVML_SUCCESS;
		if (!__atomic_sub_fetch(&nvml.users, 1, __ATOMIC_RELEASE))
			nvml.sock = fd_close(nvml.sock);
	}
	pthread_mutex_unlock(&nvml.lock);
	return r;
}

NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
	case NVML_SUCCESS: return "Success";
	case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
	case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
	case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
	case NVML_ERROR_NOT_FOUND: return "Not Found";
	case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
	case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
	case NVML_ERROR_TIMEOUT: return "Timeout";
	case NVML_ERROR_LIBRARY_NOT_FOUND: return "NVML Shared Library Not Found";
	case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
	case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
	case NVML_ERROR_MEMORY: return "Insufficient Memory";
	case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
	default: return "Unknown Error";
	}
}

/* ---- constant facts ---- */

static nvmlReturn_t client_nvml_find_device(nvmlDevice_t handle, unsigned *ret_index)
{
	const uintptr_t number = (uintptr_t)handle - HANDLE_BASE - 1;

	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(number < nvml.system.devices, NVML_ERROR_INVALID_ARGUMENT);
	*ret_index = (unsigned)number;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	return nvml_text_give(nvml.system.driver, version, length);
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	return nvml_text_give(nvml.system.nvml, version, length);
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion)
{
	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(cudaDriverVersion, NVML_ERROR_INVALID_ARGUMENT);
	*cudaDriverVersion = nvml.system.cuda;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(deviceCount, NVML_ERROR_INVALID_ARGUMENT);
	*deviceCount = nvml.system.devices;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(device && index < nvml.system.devices, NVML_ERROR_INVALID_ARGUMENT);
	*device = (nvmlDevice_t)(uintptr_t)(HANDLE_BASE + index + 1);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(uuid && device, NVML_ERROR_INVALID_ARGUMENT);
	for (unsigned i = 0; i < nvml.system.devices; i++)
		if (!strcasecmp(nvml.device[i].uuid, uuid))
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
	for (unsigned i = 0; i < nvml.system.devices; i++) {
		const nvmlPciInfo_t *pci = &nvml.device[i].pci;

		if (pci->domain == id.domain && pci->bus == id.bus && pci->device == id.slot)
			return nvmlDeviceGetHandleByIndex_v2(i, device);
	}
	return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	unsigned i;

	NVML_TRY(client_nvml_find_device(device, &i));
	NVML_CHECK(index, NVML_ERROR_INVALID_ARGUMENT);
	*index = i;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	unsigned i;

	NVML_TRY(client_nvml_find_device(device, &i));
	return nvml_text_give(nvml.device[i].name, name, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	unsigned i;

	NVML_TRY(client_nvml_find_device(device, &i));
	return nvml_text_give(nvml.device[i].uuid, uuid, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(
	nvmlDevice_t device, int *major, int *minor)
{
	unsigned i;

	NVML_TRY(client_nvml_find_device(device, &i));
	NVML_CHECK(major && minor, NVML_ERROR_INVALID_ARGUMENT);
	*major = nvml.device[i].major;
	*minor = nvml.device[i].minor;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	unsigned i;

	NVML_TRY(client_nvml_find_device(device, &i));
	NVML_CHECK(pci, NVML_ERROR_INVALID_ARGUMENT);
	*pci = nvml.device[i].pci;
	return NVML_SUCCESS;
}

/* ---- changing values ---- */

static nvmlReturn_t use_of(nvmlDevice_t device, struct remote_nvml_use *ret_use)
{
	nvmlReturn_t r;
	unsigned i;

	NVML_TRY(client_nvml_find_device(device, &i));
	pthread_mutex_lock(&nvml.lock);
	r = client_nvml_ask(REMOTE_NVML_USE, i, ret_use, sizeof(*ret_use));
	pthread_mutex_unlock(&nvml.lock);
	return r;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	struct remote_nvml_use use;

	NVML_TRY(use_of(device, &use));
	NVML_CHECK(memory, NVML_ERROR_INVALID_ARGUMENT);
	if (use.memory_result == NVML_SUCCESS)
		*memory = use.memory;
	return use.memory_result;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(
	nvmlDevice_t device, nvmlUtilization_t *utilization)
{
	struct remote_nvml_use use;

	NVML_TRY(use_of(device, &use));
	NVML_CHECK(utilization, NVML_ERROR_INVALID_ARGUMENT);
	if (use.utilisation_result == NVML_SUCCESS)
		*utilization = use.utilisation;
	return use.utilisation_result;
}

/* ---- lists ---- */

/* Gets a list page by page. The caller holds the lock. */
static nvmlReturn_t take_pages(
	unsigned device, struct remote_nvml_ask *with, char *entries, unsigned int *count)
{
	const size_t size = remote_nvml_entry_size(with->kind);
	const unsigned int room = *count;
	struct remote_nvml_list page;

	do {
		NVML_TRY(ask_with(REMOTE_NVML_LIST, device, with, &page, sizeof(page)));
		NVML_CHECK(page.here <= sizeof(page.entries) / size, NVML_ERROR_UNKNOWN);
		*count = room;
		NVML_TRY(nvml_entries_fit(page.n, entries, count));
		NVML_CHECK(with->from + page.here <= page.n, NVML_ERROR_UNKNOWN);
		if (page.here)
			memcpy(entries + with->from * size, page.entries, page.here * size);
		with->from += page.here;
	} while (page.here && with->from < page.n);
	return with->from == page.n ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvml_ask_list(
	nvmlDevice_t device, struct remote_nvml_ask *with, void *entries, unsigned int *count)
{
	nvmlReturn_t r;
	unsigned i;

	NVML_TRY(client_nvml_find_device(device, &i));
	pthread_mutex_lock(&nvml.lock);
	r = take_pages(i, with, entries, count);
	pthread_mutex_unlock(&nvml.lock);
	return r;
}
