/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: page-locked memory of a program on this machine, mapped here too. The driver locks this
 * memory, and copies from and to it without further help. The address of a former window is never
 * used again, so a graph that still refers to it reaches no other memory. Any lane's thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "remote/worker.h"

/* Address space for all windows together, including closed ones. */
#define WINDOWS_BYTES (32ull << 40)

struct window {
	uint8_t *p; /* NULL: no window of this name */
	size_t n;
	CUcontext context; /* the context that was current when the window was locked */
	bool is_shared;    /* another context has used the window */
};

static struct {
	pthread_mutex_t lock;
	struct window window[REMOTE_WINDOWS];
	uint64_t bytes;
} windows = {.lock = PTHREAD_MUTEX_INITIALIZER};

int window_arrived(uint32_t window, uint64_t bytes, int fd)
{
	_cleanup_map_ struct map map = MAP_NONE;
	int r = 0;

	if (window == 0 || window >= REMOTE_WINDOWS || !bytes ||
		!memfd_has_seals(fd, F_SEAL_SHRINK | F_SEAL_GROW) || fd_size(fd) != (int64_t)bytes)
		return -EINVAL;
	pthread_mutex_lock(&windows.lock);
	if (windows.window[window].p)
		r = -EEXIST;
	else if (bytes > WINDOWS_BYTES - windows.bytes)
		r = -ENOMEM;
	else
		r = map_fd(fd, bytes, PROT_READ | PROT_WRITE, &map);
	if (r == 0) {
		windows.window[window] = (struct window){.p = map.p, .n = map.n};
		windows.bytes += bytes;
		map = MAP_NONE;
	}
	pthread_mutex_unlock(&windows.lock);
	return r;
}

uint8_t *window_find(uint64_t window, uint64_t offset, uint64_t bytes)
{
	struct window w;

	if (window >= REMOTE_WINDOWS)
		return NULL;
	pthread_mutex_lock(&windows.lock);
	w = windows.window[window];
	pthread_mutex_unlock(&windows.lock);
	return w.p && offset <= w.n && bytes <= w.n - offset ? w.p + offset : NULL;
}

CUresult serve_window_open(struct serve *s)
{
	const uint64_t window = take_u64(s), bytes = take_u64(s);
	uint8_t *p = s->error || !bytes ? NULL : window_find(window, 0, bytes);
	CUcontext context = NULL;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	driver.cuCtxGetCurrent(&context);
	pthread_mutex_lock(&windows.lock);
	windows.window[window].context = context;
	pthread_mutex_unlock(&windows.lock);
	/* Locking allocates all pages of the window. */
	return driver.cuMemHostRegister_v2(p, bytes, CU_MEMHOSTREGISTER_PORTABLE);
}

void window_used(uint64_t window, CUstream stream)
{
	CUcontext context = NULL;

	if (handles_count(KIND_CUcontext) < 2 ||
		driver.cuStreamGetCtx(stream, &context) != CUDA_SUCCESS)
		return;
	pthread_mutex_lock(&windows.lock);
	windows.window[window].is_shared |= windows.window[window].context != context;
	pthread_mutex_unlock(&windows.lock);
}

static void window_settle_unmaps(void)
{
	size_t n;
	uint64_t *contexts = handles_all(KIND_CUcontext, &n);
	CUcontext before;

	for (size_t i = 0; i < n; i++)
		if (driver.cuCtxPushCurrent_v2((CUcontext)(uintptr_t)contexts[i]) == CUDA_SUCCESS) {
			driver.cuCtxSynchronize();
			driver.cuCtxPopCurrent_v2(&before);
		}
	free(contexts);
}

CUresult serve_window_close(struct serve *s)
{
	const uint64_t window = take_u64(s), is_context_gone = take_u64(s);
	uint8_t *p = s->error ? NULL : window_find(window, 0, 1);
	bool is_shared;
	size_t n;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&windows.lock);
	is_shared = windows.window[window].is_shared;
	pthread_mutex_unlock(&windows.lock);
	if (is_context_gone && is_shared)
		return CUDA_ERROR_NOT_READY;
	if (is_shared)
		window_settle_unmaps();
	else if (!is_context_gone)
		driver.cuCtxSynchronize();
	driver.cuMemHostUnregister(p);
	pthread_mutex_lock(&windows.lock);
	n = windows.window[window].p == p ? windows.window[window].n : 0;
	windows.window[window] = (struct window){.p = NULL};
	pthread_mutex_unlock(&windows.lock);
	if (n)
		mmap(p, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
			0);
	return CUDA_SUCCESS;
}

CUresult serve_settle(struct serve *s)
{
	window_settle_unmaps();
	return CUDA_SUCCESS;
}
