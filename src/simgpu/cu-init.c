/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process: cuInit, the lock, the rules for forked children, visible devices, the current
 * context, and calls to the engine.
 *
 * A child of an initialised process shares nothing with the device. Every call in the child returns
 * NOT_INITIALIZED, as with NVIDIA's driver. The parent holds the lock during fork(), so the child
 * never inherits a lock that another thread holds.
 */
#include "simgpu/cu.h"
#include "simgpu/cu-graph.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/fd.h"

struct cu_process cu = {.lock = PTHREAD_MUTEX_INITIALIZER, .link = {.sock = -1, .doorbell = -1}};
_Thread_local struct cu_thread cu_thread;

void cu_unlock(const int *locked)
{
	if (!*locked)
		return;
	cu_exec_land();
	pthread_mutex_unlock(&cu.lock);
	cu_user_objects_reap();
}

CUresult cu_enter(int *ret_locked)
{
	if (__builtin_expect(cu_thread.in_callback != 0, 0))
		return CUDA_ERROR_NOT_PERMITTED;
	pthread_mutex_lock(&cu.lock);
	*ret_locked = 1;
	return __builtin_expect(cu.initialised, 1) ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

static void cu_init_before_fork(void)
{
	pthread_mutex_lock(&cu.lock);
}

static void after_fork_parent(void)
{
	pthread_mutex_unlock(&cu.lock);
}

static void after_fork_child(void)
{
	if (cu.initialised) {
		cu.initialised = false;
		cu.forked = true;
		link_forget(&cu.link);
	}
	cu_thread = (struct cu_thread){0};
	pthread_mutex_init(&cu.lock, NULL);
}

static int visible_by_uuid(const char *text, size_t n)
{
	int found = -1;

	if (n < 5 || strncasecmp(text, "GPU-", 4) != 0)
		return -1;
	for (uint32_t i = 0; i < cu.state->device_count; i++) {
		const char *uuid = cu.state->devices[i].uuid;

		if (strncasecmp(uuid, text, n) != 0)
			continue;
		if (found >= 0)
			return -1; /* two devices share this prefix */
		found = (int)i;
	}
	return found;
}

/*
 * CUDA_VISIBLE_DEVICES lists indexes or UUIDs, separated by commas. A unique prefix of a UUID is
 * enough. The first invalid entry ends the list, and a device named twice makes the whole list
 * invalid.
 */
static void cu_init_choose_devices(void)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	uint32_t seen = 0;

	cu.n_devices = 0;
	if (!list) {
		for (uint32_t i = 0; i < cu.state->device_count; i++)
			cu.devices[cu.n_devices++] = (struct cu_device){.engine = (int)i};
		return;
	}
	for (;;) {
		size_t n = strcspn(list, ",");
		size_t blank = strspn(list, " \t");
		const char *item = list + (blank < n ? blank : n);
		size_t length = n - (size_t)(item - list);
		char *end;
		long index;

		while (length > 0 && (item[length - 1] == ' ' || item[length - 1] == '\t'))
			length--;
		index = strtol(item, &end, 10);
		if (length == 0)
			return;
		if (end != item + length)
			index = visible_by_uuid(item, length);
		if (index < 0 || index >= (long)cu.state->device_count)
			return;
		if (seen & 1u << index) {
			cu.n_devices = 0;
			return;
		}
		seen |= 1u << index;
		cu.devices[cu.n_devices++] = (struct cu_device){.engine = (int)index};
		if (list[n] == '\0')
			return;
		list += n + 1;
	}
}

static CUresult cu_init_start(void)
{
	static bool hooked;
	int r;

	r = link_open(&cu.link, SIMGPU_ROLE_CUDA, NULL);
	if (r < 0)
		return r == -EPROTO ? CUDA_ERROR_SYSTEM_DRIVER_MISMATCH : CUDA_ERROR_NO_DEVICE;
	cu.state = cu.link.state;
	cu_init_choose_devices();
	if (cu.n_devices == 0) {
		link_close(&cu.link);
		return CUDA_ERROR_NO_DEVICE;
	}
	cu_list_init(&cu.libraries);
	cu_list_init(&cu.pools);
	cu_list_init(&cu.captures);
	if (!hooked)
		pthread_atfork(cu_init_before_fork, after_fork_parent, after_fork_child);
	hooked = true;
	cu.initialised = true;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuInit(unsigned int Flags)
{
	CUresult r = CUDA_SUCCESS;

	CU_CHECK(Flags == 0, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(cu_thread.in_callback == 0, CUDA_ERROR_NOT_PERMITTED);
	pthread_mutex_lock(&cu.lock);
	if (cu.forked)
		r = CUDA_ERROR_NOT_INITIALIZED;
	else if (!cu.initialised)
		r = cu_init_start();
	pthread_mutex_unlock(&cu.lock);
	return r;
}

CU_EXPORT CUresult cuDriverGetVersion(int *driverVersion)
{
	CU_CHECK(driverVersion, CUDA_ERROR_INVALID_VALUE);
	*driverVersion = CU_DRIVER_VERSION;
	return CUDA_SUCCESS;
}

CUresult cu_call_fd(
	struct simgpu_request *request, int fd, struct simgpu_reply *ret_reply, int *ret_fd)
{
	int r = link_call(&cu.link, request, fd, ret_reply, ret_fd);

	/* The engine has ended and all device state is lost; a program cannot repair that. */
	if (r < 0)
		return CUDA_ERROR_UNKNOWN;
	return (CUresult)ret_reply->status;
}

CUresult cu_call(struct simgpu_request *request, struct simgpu_reply *ret_reply)
{
	return cu_call_fd(request, -1, ret_reply, NULL);
}

CUresult cu_context_error(const struct cu_context *context)
{
	return (CUresult)atomic_load_explicit(
		&cu.link.shm->contexts[context->slot].error, memory_order_acquire);
}

CUresult cu_current_any(struct cu_context **ret_context)
{
	struct cu_context *context;

	CU_CHECK(cu_thread.depth != 0 && cu_thread.stack[cu_thread.depth - 1],
		CUDA_ERROR_INVALID_CONTEXT);
	context = cu_handle_get(cu_thread.stack[cu_thread.depth - 1], CU_KIND_CONTEXT);
	CU_CHECK(context, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	*ret_context = context;
	return CUDA_SUCCESS;
}

CUresult cu_current(struct cu_context **ret_context)
{
	CU_TRY(cu_current_any(ret_context));
	return cu_context_error(*ret_context);
}

struct cu_context *cu_context_get(CUcontext handle)
{
	return cu_handle_get(handle, CU_KIND_CONTEXT);
}

CUresult cu_device_get(CUdevice device, struct cu_device **ret_device)
{
	CU_CHECK(device >= 0 && device < cu.n_devices, CUDA_ERROR_INVALID_DEVICE);
	*ret_device = &cu.devices[device];
	return CUDA_SUCCESS;
}

int cu_device_number(int engine)
{
	for (int i = 0; i < cu.n_devices; i++)
		if (cu.devices[i].engine == engine)
			return i;
	return -1;
}

const struct simgpu_state_device *cu_device_state(int engine)
{
	return &cu.state->devices[engine];
}
