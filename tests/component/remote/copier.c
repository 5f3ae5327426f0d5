/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copier ROUNDS THREADS SEED: in each round THREADS new threads copy data of all lengths to the
 * device and back, with both kinds of host memory and with kernels and memsets between. The threads
 * check each byte that returns. Prints "right" at the end; on a wrong byte it prints what and
 * where, and exits with 1.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../programs/kernels.h"
#include "../simgpu/driver.h"
#include "base/rand.h"

enum { MOST = 6 << 20, THREADS_MAX = 16, COPIES = 5 };

static CUcontext context;
static CUfunction fill;

struct copier {
	pthread_t thread;
	struct rand rand;
	unsigned round, number;
	CUstream stream;
	CUdeviceptr memory;
	uint32_t *from, *to;
	bool is_right;
};

/* Copies n bytes of `seed` words; a kernel and a memset overwrite the middle on the device. */
static CUresult copy_once(struct copier *c, size_t n, uint32_t seed)
{
	unsigned long long at = c->memory + n / 2 / 16 * 16, words = n / 64;
	unsigned value = ~seed;
	void *params[] = {&at, &value, &words};
	CUresult r;

	for (size_t i = 0; i < n / 4; i++)
		c->from[i] = seed + (uint32_t)i * 2654435761u;
	r = drv.cuMemcpyHtoDAsync_v2(c->memory, c->from, n, c->stream);
	r = r ? r : drv.cuLaunchKernel(fill, 1, 1, 1, 64, 1, 1, 0, c->stream, params, NULL);
	r = r ? r : drv.cuMemsetD8Async(c->memory, (unsigned char)seed, n / 4, c->stream);
	r = r ? r : drv.cuMemcpyDtoHAsync_v2(c->to, c->memory, n, c->stream);
	r = r ? r : drv.cuStreamSynchronize(c->stream);
	memset(c->from, (int)(seed & 0xff), n / 4);
	for (size_t i = 0; i < words; i++)
		c->from[n / 2 / 16 * 4 + i] = ~seed;
	return r;
}

static CUresult begin(struct copier *c, bool is_locked)
{
	CUresult r = drv.cuCtxSetCurrent(context);

	r = r ? r : drv.cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING);
	r = r ? r : drv.cuMemAlloc_v2(&c->memory, MOST);
	if (!is_locked) {
		c->from = malloc(MOST);
		c->to = malloc(MOST);
		return c->from && c->to ? r : CUDA_ERROR_OUT_OF_MEMORY;
	}
	r = r ? r : drv.cuMemHostAlloc((void **)(uintptr_t)&c->from, MOST, 0);
	return r ? r : drv.cuMemHostAlloc((void **)(uintptr_t)&c->to, MOST, 0);
}

static CUresult end(struct copier *c, bool is_locked)
{
	CUresult r = drv.cuMemFree_v2(c->memory);

	r = r ? r : drv.cuStreamDestroy_v2(c->stream);
	if (!is_locked) {
		free(c->from);
		free(c->to);
		return r;
	}
	r = r ? r : drv.cuMemFreeHost(c->from);
	return r ? r : drv.cuMemFreeHost(c->to);
}

/* Half of the copies are short, so that they overtake long copies. */
static size_t any_length(struct rand *rand)
{
	const uint64_t most = rand_below(rand, 2) ? MOST : 96 << 10;

	return (256 + rand_below(rand, most - 256)) & ~(size_t)63;
}

static void *copier_main(void *argument)
{
	struct copier *c = argument;
	const bool is_locked = c->number % 2;
	CUresult r = begin(c, is_locked);
	const char *name = "?";

	for (unsigned i = 0; !r && i < COPIES; i++) {
		const size_t n = any_length(&c->rand);

		memset(c->to, 0, n);
		r = copy_once(c, n, (uint32_t)rand_u64(&c->rand));
		if (r || !memcmp(c->from, c->to, n))
			continue;
		printf("round %u, thread %u: copy %u of %zu bytes came back wrong\n", c->round,
			c->number, i, n);
		return NULL;
	}
	r = r ? r : end(c, is_locked);
	c->is_right = !r;
	drv.cuGetErrorName(r, &name);
	if (r)
		printf("round %u, thread %u: %s\n", c->round, c->number, name);
	return NULL;
}

static bool one_round(unsigned round, unsigned threads, uint64_t seed)
{
	static struct copier c[THREADS_MAX];
	bool is_right = true;

	for (unsigned i = 0; i < threads; i++) {
		c[i] = (struct copier){.round = round, .number = i};
		c[i].rand = rand_seeded(seed * 1000003 + round * THREADS_MAX + i);
		if (pthread_create(&c[i].thread, NULL, copier_main, &c[i]))
			return false;
	}
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(c[i].thread, NULL);
		is_right = is_right && c[i].is_right;
	}
	return is_right;
}

int main(int argc, char **argv)
{
	const unsigned rounds = argc == 4 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	const unsigned threads = rounds ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	char *kernels = kernels_read();
	CUmodule module;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!threads || threads > THREADS_MAX || !driver_open()) {
		fprintf(stderr, "usage: copier ROUNDS THREADS SEED (THREADS to %d)\n", THREADS_MAX);
		return 2;
	}
	if (drv.cuInit(0) || drv.cuCtxCreate_v2(&context, 0, 0) ||
		drv.cuModuleLoadData(&module, kernels) ||
		drv.cuModuleGetFunction(&fill, module, "fill_u32")) {
		puts("no device, or no kernels");
		return 1;
	}
	for (unsigned i = 0; i < rounds; i++)
		if (!one_round(i, threads, strtoul(argv[3], NULL, 10)))
			return 1;
	puts("right");
	return 0;
}
