/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page-locked memory. Memory from cuMemHostAlloc is a window if the worker is on this machine. The
 * worker maps the window too, and the driver copies from and to it when the stream reaches the
 * copy. There are no windows over a link, and none for memory that the program already had
 * (cuMemHostRegister). Any thread.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "remote/client.h"

/*
 * The note of a range in `pinned`: the program's flags in the low bits, PINNED_OURS if the library
 * made the memory, and from bit WINDOW_SHIFT on the name of the window.
 */
enum { PINNED_OURS = 1u << 31 };
#define WINDOW_SHIFT 32

static struct ranges pinned = RANGES_INIT;
/* The same ranges as in `pinned`. The note of each is the context with which the range ends. */
static struct ranges owners = RANGES_INIT;

/* ---- windows ---- */

static struct {
	pthread_mutex_t lock; /* also protects a question on the socket and its answer */
	uint64_t used[REMOTE_WINDOWS / 64];
} windows = {.lock = PTHREAD_MUTEX_INITIALIZER, .used = {1}};

/* The caller holds the lock. 0: no name is free. */
static uint32_t window_name(void)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(windows.used); i++)
		if (~windows.used[i])
			return i * 64 + (uint32_t)__builtin_ctzll(~windows.used[i]);
	return 0;
}

static void window_forget(uint32_t window)
{
	pthread_mutex_lock(&windows.lock);
	windows.used[window / 64] &= ~(1ull << window % 64);
	pthread_mutex_unlock(&windows.lock);
}

/* Asks the worker to map the memory. Returns the window's name; 0: there is no window. */
static uint32_t window_send(int fd, size_t bytes)
{
	struct remote_note note = {.type = REMOTE_WINDOW, .abi = REMOTE_ABI, .bytes = bytes};
	uint32_t window;

	pthread_mutex_lock(&windows.lock);
	window = note.lane = window_name();
	if (window && (!session_ask(&note, fd) || note.lane != window))
		window = 0;
	if (window)
		windows.used[window / 64] |= 1ull << window % 64;
	pthread_mutex_unlock(&windows.lock);
	return window;
}

static CUresult window_call(unsigned op, uint64_t window, uint64_t bytes)
{
	struct call c;
	CUresult r = call_begin(&c, op, 16);

	if (r)
		return r;
	call_put(&c, &window, sizeof(window));
	call_put(&c, &bytes, sizeof(bytes));
	r = call_wait(&c, 0);
	call_end(&c);
	return r;
}

/*
 * Asks the worker to close the window. If the window's context has ended (is_context_gone), the
 * worker does not wait for copies of other contexts that still use the window. The client then does
 * not reuse the window's name.
 */
static void window_close(uint32_t window, bool is_context_gone)
{
	if (window &&
		window_call(REMOTE_WINDOW_CLOSE, window, is_context_gone) != CUDA_ERROR_NOT_READY)
		window_forget(window);
}

/*
 * Whether a file of this size is allowed. Beyond the limit, the kernel would send SIGXFSZ to the
 * program instead of returning an error.
 */
static bool is_within_limit(size_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes <= limit.rlim_cur;
}

/*
 * Makes memory in a window, which the driver locks. *ret_p is NULL if there is no window; the
 * caller then takes ordinary memory.
 */
static CUresult window_new(size_t bytes, void **ret_p, uint32_t *ret_window)
{
	const size_t whole = (bytes + 4095) & ~(size_t)4095;
	_cleanup_map_ struct map map = MAP_NONE;
	_cleanup_close_ int fd = -1;
	uint32_t window;
	CUresult r;

	*ret_p = NULL;
	*ret_window = 0;
	if (session_shared()->link_role != REMOTE_LINK_NONE || whole < bytes ||
		!is_within_limit(whole))
		return CUDA_SUCCESS;
	fd = memfd_new("divvy-remote-window", whole);
	if (fd < 0 || map_fd(fd, whole, PROT_READ | PROT_WRITE, &map) < 0 ||
		memfd_seal(fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return CUDA_SUCCESS;
	window = window_send(fd, whole);
	if (!window)
		return CUDA_SUCCESS;
	r = window_call(REMOTE_WINDOW_OPEN, window, bytes);
	if (r) {
		window_close(window, false);
		return r;
	}
	*ret_p = map.p;
	*ret_window = window;
	map = MAP_NONE;
	return CUDA_SUCCESS;
}

bool is_in_window(const struct box *box, struct remote_window *ret_window)
{
	struct range range;

	if (!ranges_find(&pinned, (uintptr_t)box->base, &range) || !(range.note >> WINDOW_SHIFT) ||
		box_extent(box) > range.base + range.size - (uintptr_t)box->base)
		return false;
	*ret_window = (struct remote_window){.window = range.note >> WINDOW_SHIFT,
		.offset = (uintptr_t)box->base - range.base,
		.pitch = box->pitch,
		.slice = box->slice};
	return true;
}

/* ---- page-locked memory ---- */

bool is_pinned(const void *p)
{
	return ranges_find(&pinned, (uintptr_t)p, NULL);
}

static bool pinned_register(const void *p, size_t bytes, CUcontext context, uint64_t note)
{
	if (ranges_add(&owners, (uintptr_t)p, bytes, (uintptr_t)context) < 0)
		return false;
	if (ranges_add(&pinned, (uintptr_t)p, bytes, note) == 0)
		return true;
	ranges_remove(&owners, (uintptr_t)p, NULL);
	return false;
}

static void pinned_unregister(const struct range *range, bool is_context_gone)
{
	ranges_remove(&pinned, range->base, NULL);
	ranges_remove(&owners, range->base, NULL);
	window_close((uint32_t)(range->note >> WINDOW_SHIFT), is_context_gone);
}

/* A batch of ranges to remove after the search, which holds the ranges' lock. */
struct going {
	uint64_t context;
	uint64_t base[64];
	unsigned n;
};

static bool is_of_another(const struct range *range, void *argument)
{
	struct going *g = argument;

	if (range->note != g->context || g->n == ARRAY_SIZE(g->base))
		return true;
	g->base[g->n++] = range->base;
	return false;
}

void pinned_freed(CUcontext context)
{
	struct going g = {.context = (uintptr_t)context};

	do {
		g.n = 0;
		ranges_sift(&owners, is_of_another, &g);
		for (unsigned i = 0; i < g.n; i++) {
			struct range range;

			if (!ranges_find(&pinned, g.base[i], &range))
				continue;
			pinned_unregister(&range, true);
			work_leaves((void *)(uintptr_t)range.base, range.size);
			if (range.note & PINNED_OURS)
				munmap((void *)(uintptr_t)range.base, range.size);
		}
	} while (g.n == ARRAY_SIZE(g.base));
}

/* Finds the calling thread's context. An error means that the server has just been lost. */
static CUresult context_find(CUcontext *ret_context)
{
	CUresult r;

	*ret_context = context_now();
	if (*ret_context)
		return CUDA_SUCCESS;
	r = session_check();
	return r ? r : CUDA_ERROR_INVALID_CONTEXT;
}

/* Like context_find(), but also checks that no other thread has ended the context. */
static CUresult context_of_ours(CUcontext *ret_context)
{
	const CUresult r = context_find(ret_context);
	CUdevice device;

	return r ? r : cuCtxGetDevice(&device);
}

REMOTE_EXPORT CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	CUresult r = session_check();
	CUcontext context;
	uint32_t window;
	void *p;

	if (r)
		return r;
	r = context_of_ours(&context);
	if (r)
		return r;
	if (!pp || !bytesize || Flags & ~7u)
		return CUDA_ERROR_INVALID_VALUE;
	r = window_new(bytesize, &p, &window);
	if (r)
		return r;
	if (!p)
		p = mmap(
			NULL, bytesize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!pinned_register(
		    p, bytesize, context, Flags | PINNED_OURS | (uint64_t)window << WINDOW_SHIFT)) {
		window_close(window, false);
		munmap(p, bytesize);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*pp = p;
	return CUDA_SUCCESS;
}

REMOTE_EXPORT CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	return cuMemHostAlloc(pp, bytesize, 0);
}

/*
 * Waits until no context has work in flight. Does not set REMOTE_SYNC, so an earlier call's error
 * stays for the program's next synchronisation.
 */
static void pinned_settle(void)
{
	struct call c;

	if (call_begin(&c, REMOTE_SETTLE, 0) != CUDA_SUCCESS)
		return;
	call_wait(&c, 0);
	call_end(&c);
}

/*
 * If the synchronisation reports an error of earlier work, the result is that error, as in the
 * driver, and the memory is forgotten all the same. ret_range of size 0: there is no such memory.
 */
static CUresult forget_pinned(void *p, bool is_ours, struct range *ret_range)
{
	CUresult earlier = CUDA_SUCCESS;
	struct range range;

	*ret_range = (struct range){.size = 0};
	if (!ranges_find(&pinned, (uintptr_t)p, &range) || range.base != (uintptr_t)p ||
		is_ours != !!(range.note & PINNED_OURS))
		return is_ours ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	/* Work in flight of any context may still write to the memory. */
	if (is_hazardous())
		earlier = cuCtxSynchronize();
	/*
	 * CUDA refuses the synchronisation during a capture. This is no error of earlier work, and
	 * pinned_settle() then waits instead.
	 */
	if (earlier == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
		earlier = CUDA_SUCCESS;
	if (work_touches(p, range.size))
		pinned_settle();
	pinned_unregister(&range, false);
	*ret_range = range;
	return earlier;
}

REMOTE_EXPORT CUresult cuMemFreeHost(void *p)
{
	struct range range;
	CUcontext context;
	CUresult r = session_check();

	if (r)
		return r;
	r = context_find(&context);
	if (r || !p)
		return r;
	r = forget_pinned(p, true, &range);
	if (range.size)
		munmap(p, range.size);
	return r;
}

REMOTE_EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	CUresult r = session_check();
	CUcontext context;

	if (r)
		return r;
	r = context_of_ours(&context);
	if (r)
		return r;
	if (!p || !bytesize || bytesize > INTPTR_MAX - (uintptr_t)p || Flags & ~15u)
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & CU_MEMHOSTREGISTER_IOMEMORY)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (ranges_overlap(&pinned, (uintptr_t)p, bytesize))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	return pinned_register(p, bytesize, context, Flags) ? CUDA_SUCCESS
							    : CUDA_ERROR_OUT_OF_MEMORY;
}

REMOTE_EXPORT CUresult cuMemHostUnregister(void *p)
{
	struct range range;
	CUcontext context;
	CUresult r = session_check();

	if (r)
		return r;
	r = context_find(&context);
	return r ? r : forget_pinned(p, false, &range);
}

REMOTE_EXPORT CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	struct range range;
	CUresult r = session_check();

	if (r)
		return r;
	if (!pFlags || !ranges_find(&pinned, (uintptr_t)p, &range))
		return CUDA_ERROR_INVALID_VALUE;
	*pFlags = (uint32_t)range.note & ~(uint32_t)PINNED_OURS;
	return CUDA_SUCCESS;
}

static CUresult pinned_pointer_attribute(
	void *data, CUpointer_attribute attribute, const struct range *range, CUdeviceptr ptr)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned int *)data = CU_MEMORYTYPE_HOST; break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER: *(void **)data = (void *)(uintptr_t)ptr; break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(unsigned int *)data = 0; break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(void **)data = (void *)(uintptr_t)range->base;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = range->size; break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = 0; break;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static size_t pointer_attribute_bytes(CUpointer_attribute attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return 8;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return 4;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return 1;
	default: return 0;
	}
}

REMOTE_EXPORT CUresult cuPointerGetAttribute(
	void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	const size_t n = pointer_attribute_bytes(attribute);
	const uint32_t which = attribute;
	struct range range;
	uint64_t value;
	struct call c;
	CUresult r = session_check();

	if (r)
		return r;
	if (!data)
		return CUDA_ERROR_INVALID_VALUE;
	if (ranges_find(&pinned, ptr, &range))
		return pinned_pointer_attribute(data, attribute, &range, ptr);
	/*
	 * Attributes of unknown size, for example tokens, are valid on the server's machine only.
	 */
	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	r = call_begin(&c, REMOTE_OP_cuPointerGetAttribute, 16);
	if (r)
		return r;
	call_put(&c, &which, sizeof(which));
	call_put(&c, &ptr, sizeof(ptr));
	r = call_wait(&c, 0);
	if (!r && call_take(&c, &value, sizeof(value)))
		memcpy(data, &value, n);
	call_end(&c);
	return r;
}

/*
 * Reads an attribute. If the attribute does not apply to the pointer, the value is 0, or no device,
 * and the call succeeds.
 */
static CUresult attribute_or_none(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	const size_t n = pointer_attribute_bytes(attribute);
	const int none = CU_DEVICE_INVALID;
	CUresult r;

	if (!data || !n)
		return CUDA_ERROR_INVALID_VALUE;
	r = cuPointerGetAttribute(data, attribute, ptr);
	if (r != CUDA_ERROR_INVALID_VALUE)
		return r;
	memset(data, 0, n);
	if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		memcpy(data, &none, sizeof(none));
	return CUDA_SUCCESS;
}

REMOTE_EXPORT CUresult cuPointerGetAttributes(
	unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
	CUresult r = session_check();

	if (!r && numAttributes && (!attributes || !data))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; !r && i < numAttributes; i++)
		r = attribute_or_none(data[i], attributes[i], ptr);
	return r;
}
