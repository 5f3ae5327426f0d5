/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocator: takes device memory in every way the driver has, for the memory bench.
 *   allocator WORKERS SECONDS SEED [WAY]
 *                                    keeps WORKERS processes that allocate and free at random,
 *                                    and kills a random worker now and then; prints "pid <pid>"
 *                                    for each worker. After SECONDS it prints "operations <n>"
 *                                    and "refused <n>" and waits for SIGTERM, so that the tenant
 *                                    lives on. WAY, a number of enum way, restricts the workers
 *                                    to one way
 *   allocator keep MIB SEED          fills MIB of memory with a pattern, works on it for a while,
 *                                    checks every word; exit status 1 when a word is wrong
 * The workers count out of memory as refused; any other error code ends the program.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/driver.h"

#define HELD_MAX 256
#define WORKERS_MAX 64
#define MIB (1024u * 1024u)

/* Shared with the parent, and outlives a worker, which the parent may kill at any time. */
struct tally {
	_Atomic uint64_t operations, refused;
};

static struct tally *tally;
static uint64_t state;
static CUstream stream;
static CUmemoryPool pool;

static uint64_t random_below(uint64_t n)
{
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % n;
}

/* Counts the call. Returns true on success, false out of memory; other errors end the program. */
static bool got(CUresult r, const char *what)
{
	atomic_fetch_add(&tally->operations, 1);
	if (r == CUDA_SUCCESS)
		return true;
	if (r != CUDA_ERROR_OUT_OF_MEMORY) {
		fprintf(stderr, "allocator: %s: error %d instead of out of memory\n", what, (int)r);
		_exit(3);
	}
	atomic_fetch_add(&tally->refused, 1);
	return false;
}

static size_t random_size(void)
{
	/* Frameworks make many small and some large allocations. */
	switch (random_below(4)) {
	case 0: return 1 + random_below(64 * 1024);
	case 1: return 1 + random_below(4 * MIB);
	case 2: return 1 + random_below(64 * MIB);
	default: return 1 + random_below(768u * MIB);
	}
}

enum way {
	SYNC,
	PITCH,
	MANAGED,
	ASYNC,
	POOL,
	VMM,
	ARRAY,
	MIPMAP,
	MODULE,
	GRAPH,
	CONTEXT,
	WAYS,
};

struct held {
	enum way way;
	union {
		CUdeviceptr p;
		CUarray array;
		CUmipmappedArray mipmap;
		CUmodule module;
		CUgraphExec graph;
		CUcontext context;
	};
	CUmemGenericAllocationHandle handle;
	size_t size;
};

static CUcontext main_context;
static enum way only_way = WAYS; /* WAYS: every way */

static bool take_vmm(struct held *h, size_t size)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};
	CUmemAccessDesc access = {
		.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	h->size = (size + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	if (!got(DRIVER(cuMemCreate)(&h->handle, h->size, &prop, 0), "cuMemCreate"))
		return false;
	DRIVER_CHECK(DRIVER(cuMemAddressReserve)(&h->p, h->size, 0, 0, 0));
	DRIVER_CHECK(DRIVER(cuMemMap)(h->p, h->size, 0, h->handle, 0));
	DRIVER_CHECK(DRIVER(cuMemSetAccess)(h->p, h->size, &access, 1));
	return true;
}

static bool take_array(struct held *h, size_t size)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {
		.Width = 1024,
		.Height = size / 4096 % 4096 + 1,
		.Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 1,
	};

	if (h->way == ARRAY)
		return got(DRIVER(cuArray3DCreate_v2)(&h->array, &d), "cuArray3DCreate_v2");
	return got(DRIVER(cuMipmappedArrayCreate)(&h->mipmap, &d, 4), "cuMipmappedArrayCreate");
}

static bool take_module(struct held *h, size_t size)
{
	char text[256];

	snprintf(text, sizeof(text),
		".version 6.0\n.target sm_70\n.address_size 64\n.visible .global .align 4 .b8 "
		"big[%zu];\n",
		size % (32u * MIB) + 1);
	return got(DRIVER(cuModuleLoadData)(&h->module, text), "cuModuleLoadData");
}

static bool take_graph(struct held *h, size_t size)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
		.bytesize = size,
	};
	CUgraph graph;
	CUgraphNode node, end;
	bool ok;

	DRIVER_CHECK(DRIVER(cuGraphCreate)(&graph, 0));
	ok = got(DRIVER(cuGraphAddMemAllocNode)(&node, graph, NULL, 0, &alloc),
		"cuGraphAddMemAllocNode");
	if (ok)
		DRIVER_CHECK(DRIVER(cuGraphAddMemFreeNode)(&end, graph, &node, 1, alloc.dptr));
	ok = ok &&
		got(DRIVER(cuGraphInstantiateWithFlags)(&h->graph, graph, 0),
			"cuGraphInstantiateWithFlags");
	if (ok && !got(DRIVER(cuGraphLaunch)(h->graph, stream), "cuGraphLaunch")) {
		DRIVER_CHECK(DRIVER(cuGraphExecDestroy)(h->graph));
		ok = false;
	}
	DRIVER_CHECK(DRIVER(cuGraphDestroy)(graph));
	return ok;
}

static bool take(struct held *h)
{
	size_t size = random_size(), pitch;

	h->way = only_way < WAYS ? only_way : (enum way)random_below(WAYS);
	switch (h->way) {
	case SYNC: return got(DRIVER(cuMemAlloc_v2)(&h->p, size), "cuMemAlloc_v2");
	case PITCH:
		return got(DRIVER(cuMemAllocPitch_v2)(&h->p, &pitch, 1000, size / 1024 + 1, 4),
			"cuMemAllocPitch_v2");
	case MANAGED:
		return got(DRIVER(cuMemAllocManaged)(&h->p, size, CU_MEM_ATTACH_GLOBAL),
			"cuMemAllocManaged");
	case ASYNC: return got(DRIVER(cuMemAllocAsync)(&h->p, size, stream), "cuMemAllocAsync");
	case POOL:
		return got(DRIVER(cuMemAllocFromPoolAsync)(&h->p, size, pool, stream),
			"cuMemAllocFromPoolAsync");
	case VMM: return take_vmm(h, size);
	case ARRAY:
	case MIPMAP: return take_array(h, size);
	case MODULE: return take_module(h, size);
	case GRAPH: return take_graph(h, size);
	case CONTEXT:
	default:
		if (!got(DRIVER(cuCtxCreate_v2)(&h->context, 0, 0), "cuCtxCreate_v2"))
			return false;
		DRIVER_CHECK(DRIVER(cuCtxSetCurrent)(main_context));
		return true;
	}
}

static void give(struct held *h)
{
	switch (h->way) {
	case SYNC:
	case PITCH:
	case ASYNC:
	case POOL:
		/*
		 * cuMemFree and cuMemFreeAsync both take pointers of cuMemAlloc and of
		 * cuMemAllocAsync.
		 */
		if (random_below(2))
			DRIVER_CHECK(DRIVER(cuMemFree_v2)(h->p));
		else
			DRIVER_CHECK(DRIVER(cuMemFreeAsync)(h->p, stream));
		break;
	case MANAGED: DRIVER_CHECK(DRIVER(cuMemFree_v2)(h->p)); break;
	case VMM:
		DRIVER_CHECK(DRIVER(cuMemUnmap)(h->p, h->size));
		DRIVER_CHECK(DRIVER(cuMemRelease)(h->handle));
		DRIVER_CHECK(DRIVER(cuMemAddressFree)(h->p, h->size));
		break;
	case ARRAY: DRIVER_CHECK(DRIVER(cuArrayDestroy)(h->array)); break;
	case MIPMAP: DRIVER_CHECK(DRIVER(cuMipmappedArrayDestroy)(h->mipmap)); break;
	case MODULE: DRIVER_CHECK(DRIVER(cuModuleUnload)(h->module)); break;
	case GRAPH: DRIVER_CHECK(DRIVER(cuGraphExecDestroy)(h->graph)); break;
	case CONTEXT:
	default: DRIVER_CHECK(DRIVER(cuCtxDestroy_v2)(h->context)); break;
	}
}

static void prepare_pool(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};
	uint64_t threshold = 64u * MIB;

	DRIVER_CHECK(DRIVER(cuMemPoolCreate)(&pool, &props));
	DRIVER_CHECK(
		DRIVER(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
}

/* Runs until the parent kills it or `end` is reached. */
static int worker(uint64_t seed, uint64_t end)
{
	struct held held[HELD_MAX];
	size_t n = 0;
	CUresult r;

	state = seed;
	DRIVER_CHECK(DRIVER(cuInit)(0));
	/* The other workers' memory may fill the tenant's quota. */
	while ((r = DRIVER(cuCtxCreate_v2)(&main_context, 0, 0)) == CUDA_ERROR_OUT_OF_MEMORY) {
		if (clock_now_ns() > end)
			return 0;
		clock_sleep_until_ns(clock_now_ns() + 10 * NSEC_PER_MSEC);
	}
	DRIVER_CHECK(r);
	DRIVER_CHECK(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	prepare_pool();
	while (clock_now_ns() < end) {
		bool grow = n == 0 || (n < HELD_MAX && random_below(100) < 55);

		if (grow && take(&held[n])) {
			n++;
		} else if (n > 0) {
			size_t i = random_below(n);

			give(&held[i]);
			held[i] = held[--n];
		}
		if (random_below(8) == 0)
			DRIVER_CHECK(DRIVER(cuStreamSynchronize)(stream));
	}
	while (n > 0)
		give(&held[--n]);
	return 0;
}

static pid_t start(uint64_t seed, uint64_t end)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(worker(seed, end));
	}
	if (pid > 0) {
		printf("pid %d\n", (int)pid);
		fflush(stdout);
	}
	return pid;
}

static int storm(int workers, uint64_t seconds, uint64_t seed)
{
	const uint64_t end = clock_now_ns() + seconds * NSEC_PER_SEC;
	pid_t pid[WORKERS_MAX];
	int status, failed = 0;
	sigset_t told;

	sigemptyset(&told);
	sigaddset(&told, SIGTERM);
	sigprocmask(SIG_BLOCK, &told, NULL);
	state = seed * 7919;
	tally = mmap(
		NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tally == MAP_FAILED)
		return 1;
	for (int i = 0; i < workers; i++)
		pid[i] = start(seed * 1000 + (uint64_t)i, end);
	for (uint64_t n = 0; clock_now_ns() < end - NSEC_PER_SEC; n++) {
		int i = (int)random_below((uint64_t)workers);

		clock_sleep_until_ns(clock_now_ns() + (50 + random_below(400)) * NSEC_PER_MSEC);
		kill(pid[i], SIGKILL);
		waitpid(pid[i], &status, 0);
		failed += WIFEXITED(status) && WEXITSTATUS(status) != 0;
		pid[i] = start(seed * 1000 + 100 + n, end);
	}
	for (int i = 0; i < workers; i++) {
		waitpid(pid[i], &status, 0);
		failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	}
	printf("operations %" PRIu64 "\nrefused %" PRIu64 "\n", (uint64_t)tally->operations,
		(uint64_t)tally->refused);
	fflush(stdout);
	sigwaitinfo(&told, NULL);
	return failed ? 1 : 0;
}

/*
 * A kernel fills one allocation, a chunk at a time. Then this function reads the allocation back
 * and compares every word.
 */
static int keep(size_t mib, uint32_t seed)
{
	const size_t chunk = 64ull * MIB, chunks = mib / 64, words = chunk / 4;
	uint32_t *back = malloc(chunk);
	CUcontext context;
	CUdeviceptr p;
	CUfunction fill, spin;
	CUmodule module;
	uint64_t n = words, ns = 20 * NSEC_PER_MSEC;

	DRIVER_CHECK(DRIVER(cuInit)(0));
	DRIVER_CHECK(DRIVER(cuCtxCreate_v2)(&context, 0, 0));
	module = driver_module();
	DRIVER_CHECK(DRIVER(cuModuleGetFunction)(&fill, module, "fill_u32"));
	DRIVER_CHECK(DRIVER(cuModuleGetFunction)(&spin, module, "spin_ns"));
	DRIVER_CHECK(DRIVER(cuMemAlloc_v2)(&p, chunks * chunk));
	for (size_t i = 0; i < chunks; i++) {
		uint32_t value = seed * 1000003u + (uint32_t)i;
		CUdeviceptr at = p + i * chunk;

		DRIVER_CHECK(DRIVER(cuLaunchKernel)(
			fill, 64, 1, 1, 256, 1, 1, 0, NULL, (void *[]){&at, &value, &n}, NULL));
		DRIVER_CHECK(DRIVER(cuLaunchKernel)(
			spin, 64, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&ns}, NULL));
	}
	DRIVER_CHECK(DRIVER(cuCtxSynchronize)());
	for (size_t i = 0; i < chunks; i++) {
		const uint32_t value = seed * 1000003u + (uint32_t)i;

		DRIVER_CHECK(DRIVER(cuMemcpyDtoH_v2)(back, p + i * chunk, chunk));
		for (size_t w = 0; w < words; w++) {
			if (back[w] == value)
				continue;
			fprintf(stderr, "allocator: chunk %zu word %zu is %u, not %u\n", i, w,
				back[w], value);
			return 1;
		}
	}
	DRIVER_CHECK(DRIVER(cuMemFree_v2)(p));
	DRIVER_CHECK(DRIVER(cuCtxDestroy_v2)(context));
	free(back);
	return 0;
}

int main(int argc, char **argv)
{
	long workers = argc == 4 || argc == 5 ? strtol(argv[1], NULL, 10) : 0;

	if (argc == 4 && strcmp(argv[1], "keep") == 0)
		return keep(strtoull(argv[2], NULL, 10), (uint32_t)strtoul(argv[3], NULL, 10));
	if (argc == 5)
		only_way = (enum way)strtoul(argv[4], NULL, 10);
	if (workers > 0 && workers <= WORKERS_MAX)
		return storm(
			(int)workers, strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
	fputs("usage: allocator WORKERS SECONDS SEED [WAY] | keep MIB SEED\n", stderr);
	return 2;
}
