/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench/remote.c measures, local or remote as it is started: prints "name value" lines.
 *   launch_ns   an asynchronous launch, until it returns: median
 *   sync_us     a synchronisation of an idle stream: median
 *   echo_us     a frame there and back between two processes over the same rings: median
 *   loop_ms     a step of a training-like loop: 200 launches of 20 us to 1 ms, 2 synchronisations,
 *               1 MiB in and out
 *   in, out     copies of 64 MiB, bytes a nanosecond; memcpy: the same between two buffers
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "bench/driver.h"
#include "remote/ring.h"

enum { LAUNCHES = 2000, SYNCS = 1000, ECHOES = 1000, KERNELS = 200, COPIES = 8 };
#define LARGE ((size_t)64 << 20)
#define STEP_BYTES ((size_t)1 << 20)

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void say_median(const char *name, double *v, size_t n, double unit)
{
	qsort(v, n, sizeof(*v), by_value);
	printf("%s %.3f\n", name, v[n / 2] / unit);
}

static void launch(CUfunction f, CUstream stream, unsigned long long ns)
{
	void *params[] = {&ns};

	DRIVER_CHECK(DRIVER(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void launches(CUfunction f, CUstream stream)
{
	PFN_cuLaunchKernel *const entry = DRIVER(cuLaunchKernel);
	PFN_cuStreamSynchronize *const sync = DRIVER(cuStreamSynchronize);
	static double took[LAUNCHES], waited[SYNCS];
	unsigned long long ns = 1000;
	void *params[] = {&ns};

	for (int i = 0; i < LAUNCHES; i++) {
		const uint64_t begin = clock_now_ns();

		entry(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
		took[i] = (double)(clock_now_ns() - begin);
		if (i % 100 == 99)
			sync(stream);
	}
	for (int i = 0; i < SYNCS; i++) {
		const uint64_t begin = clock_now_ns();

		sync(stream);
		waited[i] = (double)(clock_now_ns() - begin);
	}
	say_median("launch_ns", took, LAUNCHES, 1);
	say_median("sync_us", waited, SYNCS, 1e3);
}

static bool goes_on(void *unused)
{
	return true;
}

static const struct ring_watch watch = {.goes_on = goes_on};

static void send_frame(struct ring *r)
{
	struct remote_frame *frame = ring_reserve(r, sizeof(*frame), &watch);

	*frame = (struct remote_frame){.size = sizeof(*frame)};
	ring_publish(r, sizeof(*frame));
}

static void take_frame(struct ring *r)
{
	struct remote_frame head;
	const void *frame;

	if (ring_next(r, &watch, &head, &frame) > 0)
		ring_consume(r, head.size);
}

static void echoes(void)
{
	struct remote_session *s = mmap(NULL, REMOTE_BYTES, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	static double took[ECHOES];
	struct ring up, down;
	pid_t other;

	if (s == MAP_FAILED)
		exit(1);
	other = fork();
	if (other == 0) {
		ring_attach_consumer(&up, s, 1, RING_UP);
		ring_attach_producer(&down, s, 1, RING_DOWN);
		for (;;) {
			take_frame(&up);
			send_frame(&down);
		}
	}
	ring_attach_producer(&up, s, 1, RING_UP);
	ring_attach_consumer(&down, s, 1, RING_DOWN);
	for (int i = 0; i < ECHOES; i++) {
		const uint64_t begin = clock_now_ns();

		send_frame(&up);
		take_frame(&down);
		took[i] = (double)(clock_now_ns() - begin);
	}
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	munmap(s, REMOTE_BYTES);
	say_median("echo_us", took, ECHOES, 1e3);
}

static void steps(CUfunction f, CUstream stream, unsigned n)
{
	uint64_t begin = 0;
	CUdeviceptr p;
	void *in, *out;

	DRIVER_CHECK(DRIVER(cuMemAlloc_v2)(&p, STEP_BYTES));
	DRIVER_CHECK(DRIVER(cuMemHostAlloc)(&in, STEP_BYTES, 0));
	DRIVER_CHECK(DRIVER(cuMemHostAlloc)(&out, STEP_BYTES, 0));
	memset(in, 1, STEP_BYTES);
	for (unsigned i = 0; i <= n; i++) {
		if (i == 1)
			begin = clock_now_ns();
		DRIVER_CHECK(DRIVER(cuMemcpyHtoDAsync_v2)(p, in, STEP_BYTES, stream));
		for (unsigned k = 0; k < KERNELS; k++) {
			/* 20 us to 1 ms, most of them short: about 40 ms in all. */
			launch(f, stream, k % 10 == 0 ? 1000000 : 20000 + k % 10 * 10000);
			if (k == KERNELS / 2)
				DRIVER_CHECK(DRIVER(cuStreamSynchronize)(stream));
		}
		DRIVER_CHECK(DRIVER(cuMemcpyDtoHAsync_v2)(out, p, STEP_BYTES, stream));
		DRIVER_CHECK(DRIVER(cuStreamSynchronize)(stream));
	}
	printf("loop_ms %.3f\n", (double)(clock_now_ns() - begin) / n / 1e6);
}

static void copies(void)
{
	uint8_t *host = malloc(LARGE), *other = malloc(LARGE);
	double in[COPIES], out[COPIES], plain[COPIES];
	CUdeviceptr p;

	DRIVER_CHECK(DRIVER(cuMemAlloc_v2)(&p, LARGE));
	memset(host, 1, LARGE);
	memset(other, 2, LARGE);
	for (int i = 0; i < COPIES; i++) {
		const uint64_t a = clock_now_ns();
		uint64_t b, c, d;

		DRIVER_CHECK(DRIVER(cuMemcpyHtoD_v2)(p, host, LARGE));
		DRIVER_CHECK(DRIVER(cuCtxSynchronize)());
		b = clock_now_ns();
		DRIVER_CHECK(DRIVER(cuMemcpyDtoH_v2)(host, p, LARGE));
		c = clock_now_ns();
		memcpy(other, host, LARGE);
		d = clock_now_ns();
		in[i] = (double)LARGE / (double)(b - a);
		out[i] = (double)LARGE / (double)(c - b);
		plain[i] = (double)LARGE / (double)(d - c);
	}
	say_median("in", in, COPIES, 1);
	say_median("out", out, COPIES, 1);
	say_median("memcpy", plain, COPIES, 1);
	if (other[LARGE - 1] != 1)
		exit(1);
}

int main(int argc, char **argv)
{
	uint64_t n = 25;
	CUcontext context;
	CUstream stream;
	CUfunction spin;

	if (argc > 1 && parse_uint(str_from(argv[1]), 1, 10000, &n, NULL) < 0)
		return 2;
	DRIVER_CHECK(DRIVER(cuInit)(0));
	DRIVER_CHECK(DRIVER(cuCtxCreate_v2)(&context, 0, 0));
	DRIVER_CHECK(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	DRIVER_CHECK(DRIVER(cuModuleGetFunction)(&spin, driver_module(), "spin_ns"));
	launches(spin, stream);
	steps(spin, stream, (unsigned)n);
	copies();
	DRIVER_CHECK(DRIVER(cuCtxDestroy_v2)(context));
	echoes();
	return 0;
}
