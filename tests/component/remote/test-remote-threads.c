/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of one program. A copy is one step of its stream, even if other threads submit to that
 * stream. A thread that waits in a call blocks no other thread, in particular no thread that would
 * end the wait. All checks hold on a local driver as well.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../simgpu/driver.h"
#include "../../patience.h"

enum { MIB = 1 << 20, WHOLE = 4 * MIB, ROUNDS = 40 };

static CUcontext context;
static CUdeviceptr device;

static pthread_t thread_new(void *(*main)(void *), void *argument)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, main, argument))
		exit(1);
	return thread;
}

/* ---- one step of its stream ---- */

static _Atomic bool is_over;

static bool is_one_value(const uint32_t *p, size_t bytes)
{
	for (size_t i = 1; i < bytes / 4; i++)
		if (p[i] != p[0])
			return false;
	return true;
}

static void *fill_again_and_again(void *stream)
{
	NEED(drv.cuCtxSetCurrent(context));
	for (uint32_t i = 0; !is_over; i++) {
		NEED(drv.cuMemsetD32Async(device, i, WHOLE / 4, stream));
		if (i % 16 == 15)
			NEED(drv.cuStreamSynchronize(stream));
	}
	return NULL;
}

static void read_beside_fills(CUstream stream, bool is_async)
{
	pthread_t filler = thread_new(fill_again_and_again, stream);
	uint32_t *host = malloc(WHOLE);
	unsigned torn = 0;

	for (int i = 0; i < ROUNDS; i++) {
		if (is_async) {
			NEED(drv.cuMemcpyDtoHAsync_v2(host, device, WHOLE, stream));
			NEED(drv.cuStreamSynchronize(stream));
		} else {
			NEED(drv.cuMemcpyDtoH_v2(host, device, WHOLE));
		}
		torn += !is_one_value(host, WHOLE);
	}
	is_over = true;
	pthread_join(filler, NULL);
	tap_ok(!torn, "%s copy to the host never mixes two fills (%u of %d do)",
		is_async ? "an asynchronous" : "a", torn, ROUNDS);
	free(host);
	is_over = false;
}

static void *copy_again_and_again(void *stream)
{
	uint32_t *host = malloc(WHOLE);

	NEED(drv.cuCtxSetCurrent(context));
	for (unsigned char i = 0; !is_over; i++) {
		memset(host, i, WHOLE);
		if (stream)
			NEED(drv.cuMemcpyHtoDAsync_v2(device, host, WHOLE, stream));
		else
			NEED(drv.cuMemcpyHtoD_v2(device, host, WHOLE));
	}
	free(host);
	return NULL;
}

static void read_beside_copies(CUstream stream)
{
	const CUdeviceptr snapshot = device_memory(WHOLE);
	uint32_t *host = malloc(WHOLE);
	pthread_t copier;
	unsigned torn = 0;

	NEED(drv.cuMemsetD32_v2(device, 0, WHOLE / 4));
	copier = thread_new(copy_again_and_again, stream);
	for (int i = 0; i < ROUNDS; i++) {
		NEED(drv.cuMemcpyDtoDAsync_v2(snapshot, device, WHOLE, stream));
		NEED(drv.cuStreamSynchronize(stream));
		NEED(drv.cuMemcpyDtoH_v2(host, snapshot, WHOLE));
		torn += !is_one_value(host, WHOLE);
	}
	is_over = true;
	pthread_join(copier, NULL);
	tap_ok(!torn, "%s copy from the host is seen whole or not at all (%u of %d are not)",
		stream ? "an asynchronous" : "a", torn, ROUNDS);
	free(host);
	is_over = false;
}

static void one_step(void)
{
	CUstream stream;

	context = begin_context();
	stream = new_stream();
	device = device_memory(WHOLE);
	alarm(patience_s(4 * PATIENCE_S));
	read_beside_fills(stream, true);
	read_beside_fills(NULL, false);
	read_beside_copies(stream);
	read_beside_copies(NULL);
	OK(drv.cuCtxDestroy_v2(context));
}

/* ---- larger than one step ---- */

enum { LARGE = 40 * MIB + 12, PITCH = 1024, ROW = 1000, ROWS = 40000 };

static void *only_there(void *unused)
{
	int version;

	NEED(drv.cuCtxSetCurrent(context));
	while (!is_over) {
		NEED(drv.cuDriverGetVersion(&version));
		usleep(1000);
	}
	return NULL;
}

static void there_and_back(const char *whose, CUstream stream)
{
	uint32_t *from = malloc(LARGE), *to = calloc(1, LARGE);
	CUDA_MEMCPY2D in = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = from,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = device,
		.dstPitch = PITCH,
		.WidthInBytes = ROW,
		.Height = ROWS,
	};
	CUDA_MEMCPY2D out = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = device,
		.srcPitch = PITCH,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = to,
		.WidthInBytes = ROW,
		.Height = ROWS,
	};

	for (uint32_t i = 0; i < LARGE / 4; i++)
		from[i] = i * 2654435761u;
	NEED(drv.cuMemcpyHtoDAsync_v2(device, from, LARGE, stream));
	NEED(drv.cuMemcpyDtoHAsync_v2(to, device, LARGE, stream));
	NEED(drv.cuStreamSynchronize(stream));
	tap_ok(!memcmp(from, to, LARGE), "%s large copy returns unchanged", whose);
	memset(to, 0, LARGE);
	NEED(drv.cuMemcpyHtoD_v2(device, from, LARGE));
	NEED(drv.cuMemcpyDtoH_v2(to, device, LARGE));
	tap_ok(!memcmp(from, to, LARGE), "... without a stream");
	memset(to, 0, LARGE);
	NEED(drv.cuMemcpy2D_v2(&in));
	NEED(drv.cuMemcpy2DAsync_v2(&out, stream));
	NEED(drv.cuStreamSynchronize(stream));
	tap_ok(!memcmp(from, to, (size_t)ROW * ROWS), "... of rows");
	free(from);
	free(to);
}

static void large(void)
{
	CUstream stream;
	pthread_t thread;

	context = begin_context();
	stream = new_stream();
	device = device_memory(LARGE + MIB);
	alarm(patience_s(4 * PATIENCE_S));
	there_and_back("a lonely thread's", stream);
	thread = thread_new(only_there, NULL);
	usleep(20000);
	there_and_back("a thread's beside another one", stream);
	is_over = true;
	pthread_join(thread, NULL);
	is_over = false;
	OK(drv.cuCtxDestroy_v2(context));
}

/* A thread that starts during another thread's copy sees all of the copy or nothing. */
static void newcomers(void)
{
	uint32_t *host = malloc(WHOLE);
	unsigned torn = 0;

	context = begin_context();
	device = device_memory(WHOLE);
	alarm(patience_s(4 * PATIENCE_S));
	for (int i = 0; i < ROUNDS; i++) {
		pthread_t filler = thread_new(fill_again_and_again, NULL);

		for (int k = 0; k < 4; k++) {
			NEED(drv.cuMemcpyDtoH_v2(host, device, WHOLE));
			torn += !is_one_value(host, WHOLE);
		}
		is_over = true;
		pthread_join(filler, NULL);
		is_over = false;
	}
	tap_ok(!torn, "work of a new thread does not split a copy (%u of %d are split)", torn,
		4 * ROUNDS);
	free(host);
	OK(drv.cuCtxDestroy_v2(context));
}

/* ---- a thread that waits ---- */

static CUdeviceptr flag;
static CUfunction spin, set;
static CUstream held, other;

/* A kernel holds the stream, so only the device knows that the stream waits. */
static void begin_held(bool is_default_stream)
{
	uint64_t patience_ns = patience_s(PATIENCE_S) * 1000000000ull;
	uint32_t value = 1;
	void *params[] = {&flag, &value, &patience_ns};
	CUmodule module;

	context = begin_context();
	module = load_kernels();
	spin = kernel_get(module, "spin_flag");
	set = kernel_get(module, "set_flag");
	flag = device_memory(4);
	device = device_memory(256 * MIB);
	held = is_default_stream ? NULL : new_stream();
	other = new_stream();
	NEED(drv.cuMemsetD32_v2(flag, 0, 1));
	NEED(drv.cuCtxSynchronize());
	alarm(patience_s(PATIENCE_S));
	NEED(drv.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, held, params, NULL));
}

static void write_word(CUdeviceptr to, CUstream stream)
{
	uint32_t value = 1;
	void *params[] = {&to, &value};

	NEED(drv.cuLaunchKernel(set, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

/* Work of other streams continues during the wait, and one of these streams ends the wait. */
static void end_held(const char *what, pthread_t thread)
{
	usleep(50000);
	write_word(device + 255 * MIB, other);
	NEED(drv.cuStreamSynchronize(other));
	tap_ok(true, "another stream continues during %s", what);
	write_word(flag, other);
	if (thread)
		pthread_join(thread, NULL);
	OK(drv.cuCtxSynchronize());
}

static void *copy_word(void *unused)
{
	const uint32_t word = 7;

	NEED(drv.cuCtxSetCurrent(context));
	NEED(drv.cuMemcpyHtoD_v2(device, &word, 4));
	return NULL;
}

static void *copy_much(void *unused)
{
	void *host = calloc(1, 3 * MIB);

	NEED(drv.cuCtxSetCurrent(context));
	NEED(drv.cuMemcpyHtoD_v2(device, host, 3 * MIB));
	free(host);
	return NULL;
}

static void *copy_rows(void *unused)
{
	void *host = calloc(1, MIB);
	const CUDA_MEMCPY2D rows = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.srcPitch = 1000,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = device,
		.dstPitch = 1024,
		.WidthInBytes = 900,
		.Height = 1000,
	};

	NEED(drv.cuCtxSetCurrent(context));
	NEED(drv.cuMemcpy2D_v2(&rows));
	free(host);
	return NULL;
}

static void *copy_more_and_more(void *unused)
{
	void *host = calloc(1, MIB);

	NEED(drv.cuCtxSetCurrent(context));
	for (size_t i = 0; i < 100; i++)
		NEED(drv.cuMemcpyHtoDAsync_v2(device + i * MIB, host, MIB, held));
	free(host);
	return NULL;
}

enum { LAUNCHES = 30000 };

static void *launch_more_and_more(void *unused)
{
	uint32_t value = 2;
	CUdeviceptr to = device;
	void *params[] = {&to, &value};

	NEED(drv.cuCtxSetCurrent(context));
	for (int i = 0; i < LAUNCHES; i++)
		NEED(drv.cuLaunchKernel(set, 1, 1, 1, 1, 1, 1, 0, held, params, NULL));
	return NULL;
}

static void *copy_out(void *unused)
{
	void *host = calloc(1, 3 * MIB);

	NEED(drv.cuCtxSetCurrent(context));
	NEED(drv.cuMemcpyDtoH_v2(host, device, 3 * MIB));
	free(host);
	return NULL;
}

static void waits(const char *what, bool is_default_stream, void *(*main)(void *))
{
	begin_held(is_default_stream);
	end_held(what, thread_new(main, NULL));
	OK(drv.cuCtxDestroy_v2(context));
}

static void waits_for_a_word(void)
{
	waits("a copy of a word that waits", true, copy_word);
}

static void waits_for_much(void)
{
	waits("a copy of much that waits", true, copy_much);
}

static void waits_for_rows(void)
{
	waits("a copy of rows that waits", true, copy_rows);
}

static void waits_to_read(void)
{
	waits("a copy to the host that waits", true, copy_out);
}

/* The held stream uses all counted stages; a copy to another stream still gets a stage. */
static void copy_elsewhere(size_t bytes)
{
	uint32_t *host = malloc(bytes), last = 0;

	for (size_t i = 0; i < bytes / 4; i++)
		host[i] = (uint32_t)i + 1;
	NEED(drv.cuMemcpyHtoDAsync_v2(device + 128 * MIB, host, bytes, other));
	NEED(drv.cuStreamSynchronize(other));
	NEED(drv.cuMemcpyDtoH_v2(&last, device + 128 * MIB + bytes - 4, 4));
	tap_ok(last == bytes / 4, "a copy of %zu KiB in another stream completes", bytes / 1024);
	free(host);
}

static void waits_for_room(void)
{
	pthread_t copier;

	begin_held(false);
	copier = thread_new(copy_more_and_more, NULL);
	usleep(200000);
	copy_elsewhere(4);
	copy_elsewhere(100 * 1024);
	copy_elsewhere(MIB);
	copy_elsewhere(40 * MIB);
	end_held("many copies of a stream that waits", copier);
	OK(drv.cuCtxDestroy_v2(context));
}

static void waits_in_a_queue(void)
{
	waits("more launches than a queue takes", false, launch_more_and_more);
}

/* The call has to return: only this thread can end the wait. */
static void waits_for_itself(void)
{
	uint32_t *host, word = 0;

	begin_held(false);
	NEED(drv.cuMemHostAlloc((void **)&host, 200 * MIB, 0));
	host[50 * MIB - 1] = 5;
	NEED(drv.cuMemcpyHtoDAsync_v2(device, host, 200 * MIB, held));
	end_held("a large copy from page-locked memory", 0);
	NEED(drv.cuMemcpyDtoH_v2(&word, device + 200 * MIB - 4, 4));
	tap_ok(word == 5, "... and the copy is complete afterwards");
	OK(drv.cuCtxDestroy_v2(context));
}

/* The held stream's context is not the current context. */
static void waits_elsewhere(void)
{
	CUcontext second;
	CUstream released;
	CUdeviceptr there;
	uint32_t *host, word;

	begin_held(false);
	host = aligned_alloc(4096, MIB);
	memset(host, 0, MIB);
	host[0] = 3;
	NEED(drv.cuMemHostRegister_v2(host, MIB, 0));
	there = device_memory(MIB);
	NEED(drv.cuCtxCreate_v2(&second, 0, 0));
	released = new_stream();
	set = kernel_get(load_kernels(), "set_flag");
	NEED(drv.cuMemcpyHtoDAsync_v2(there, host, MIB, held));
	NEED(drv.cuMemcpyDtoHAsync_v2(host, there, MIB, held));
	write_word(flag, released);
	NEED(drv.cuStreamSynchronize(held));
	NEED(drv.cuCtxSetCurrent(context));
	NEED(drv.cuMemcpyDtoH_v2(&word, there, 4));
	tap_ok(word == 3 && host[0] == 3, "copies run in a stream whose context is not current");
	OK(drv.cuCtxDestroy_v2(second));
	OK(drv.cuCtxDestroy_v2(context));
}

/* ---- cancelled ---- */

static void *wait_for_held(void *unused)
{
	NEED(drv.cuCtxSetCurrent(context));
	NEED(drv.cuStreamSynchronize(held));
	return NULL;
}

static void *ask_this_and_that(void *ret_right)
{
	bool right = true;

	NEED(drv.cuCtxSetCurrent(context));
	for (int i = 0; i < 50 && right; i++) {
		size_t size = 0;
		CUdeviceptr base = 0;
		int version = 0;

		right = !drv.cuMemGetAddressRange_v2(&base, &size, device + 4096) &&
			base == device && size == 256 * MIB && !drv.cuDriverGetVersion(&version) &&
			version > 10000;
	}
	*(_Atomic bool *)ret_right = right;
	return NULL;
}

/* A local driver's behaviour after a cancellation is unspecified. */
static void cancelled(void)
{
	_Atomic bool right[8] = {false};
	bool all = true;
	pthread_t waiter;

	if (!is_remote())
		return;
	begin_held(false);
	waiter = thread_new(wait_for_held, NULL);
	usleep(300000);
	pthread_cancel(waiter);
	usleep(300000);
	for (int i = 0; i < 8; i++)
		pthread_join(thread_new(ask_this_and_that, &right[i]), NULL);
	for (int i = 0; i < 8; i++)
		all = all && right[i];
	tap_ok(all, "other threads' calls return while a cancelled thread is in a call");
	write_word(flag, other);
	pthread_join(waiter, NULL);
	for (int i = 0; i < 8; i++) {
		pthread_join(thread_new(ask_this_and_that, &right[i]), NULL);
		all = all && right[i];
	}
	tap_ok(all, "... also the calls of threads that get its lane");
	OK(drv.cuCtxDestroy_v2(context));
}

static const struct part parts[] = {
	{"one step", one_step},
	{"newcomers", newcomers},
	{"large", large},
	{"a word", waits_for_a_word},
	{"much", waits_for_much},
	{"rows", waits_for_rows},
	{"reading", waits_to_read},
	{"room", waits_for_room},
	{"a queue", waits_in_a_queue},
	{"alone", waits_for_itself},
	{"elsewhere", waits_elsewhere},
	{"cancelled", cancelled},
};

int main(void)
{
	return parts_main(
		"1xH200-8Gi", "context_create_us=0", parts, sizeof(parts) / sizeof(parts[0]));
}
