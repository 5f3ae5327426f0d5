/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls KIND [OPTION...]: cost of a driver call in this process through the hook library, and of
 * the same call straight to the driver. Hooked and bare batches alternate in the same thread,
 * through the same loop, each by a pointer looked up in its library. The added cost is a hooked
 * batch's mean less the median of the bare batches' means. Prints lines "name value".
 *
 *   launch    batches of 1,000 cuLaunchKernel
 *               --streams N   round robin over N created streams (1); 0: the default stream
 *               --mixed       the default stream and one created stream in turn
 *               --threads N   threads with streams of their own, pinned to the processors (1)
 *               --seconds S   measure for this time, not for a number of batches
 *               --leave-out   leave out hooked batches longer than 1 ms in which the thread slept:
 *                             the gate was closed in them
 *   alloc     batches of 100 cuMemAlloc and as many cuMemFree, each of a random live allocation
 *               --live N      number of live allocations meanwhile (0)
 *               --bytes N     size of each (2 MiB)
 *   backlog   launches without end, until SIGTERM
 *   --batches N   number of hooked and of bare batches (5000)
 *
 * CLOCK_MONOTONIC times the batches of a single thread on a pinned processor. Several threads share
 * processors, so CLOCK_THREAD_CPUTIME_ID times their batches: this clock stops while another thread
 * runs. The program leaves out batches with an involuntary context switch, hooked and bare, and
 * counts them: another program's work is no cost of the library. Behind a real driver, the device
 * finishes its work after each batch, outside the measured time.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "bench/stub/stub.h"
#include "tests/programs/kernels.h"

#define LAUNCHES 1000
#define PAIRS 100
#define WARM_BATCHES 100
#define BATCHES_MAX (1u << 22)
#define LEAVE_OUT_NS NSEC_PER_MSEC
#define NOINLINE __attribute__((noinline))

static struct {
	uint32_t streams, threads, batches, live;
	uint64_t bytes;
	double seconds;
	bool mixed, leave_out;
} options = {.streams = 1, .threads = 1, .batches = 5000, .bytes = 2 << 20};

/* The driver's functions, through the hook and (bare_*) without it. */
static struct {
	PFN_cuLaunchKernel *launch, *bare_launch;
	PFN_cuMemAlloc_v2 *alloc, *bare_alloc;
	PFN_cuMemFree_v2 *free, *bare_free;
	PFN_cuCtxSetCurrent *set_current;
	PFN_cuCtxSynchronize *drain; /* NULL: the driver is the stub, without work to wait for */
	PFN_cuStreamCreate *stream_create;
	uint64_t (*writes)(void);
	CUcontext context;
	CUfunction function;
} cuda;

_Noreturn static void die(const char *what, const char *why)
{
	fprintf(stderr, "calls: %s: %s\n", what, why);
	exit(1);
}

static void check(CUresult r, const char *what)
{
	char text[24];

	if (r == CUDA_SUCCESS)
		return;
	snprintf(text, sizeof(text), "CUDA error %d", (int)r);
	die(what, text);
}

/* ---- the driver's functions, through the hook and directly ---- */

/*
 * Finds the driver that the hook has loaded. Hooks redirect a dlopen of the driver to themselves,
 * so this function walks the loader's list instead: glibc's handles are the entries of that list.
 */
static void *find_driver(void)
{
	struct link_map *map = NULL;
	void *self = dlopen(NULL, RTLD_NOW);

	if (!self || dlinfo(self, RTLD_DI_LINKMAP, &map))
		die("the loader's list", dlerror());
	for (; map; map = map->l_next) {
		const char *slash = strrchr(map->l_name, '/');

		if (slash && !strncmp(slash + 1, "libcuda.so", strlen("libcuda.so")))
			return map;
	}
	die("the driver", "no libcuda.so is loaded behind the hook");
}

static void *must(void *library, const char *name)
{
	void *entry = dlsym(library, name);

	if (!entry)
		die(name, "not in the library");
	return entry;
}

/* The entry that a program gets: by dlsym or, where the hook is no libcuda.so.1, by linking. */
static void *seen(void *library, const char *name, void *bare)
{
	void *entry = must(library, name);

	if (entry == bare)
		entry = must(RTLD_DEFAULT, name);
	if (entry == bare)
		die(name, "the driver's own: no hook library is preloaded");
	return entry;
}

static CUfunction load_kernel(void *library)
{
	PFN_cuModuleLoadData *load = (PFN_cuModuleLoadData *)must(library, "cuModuleLoadData");
	PFN_cuModuleGetFunction *get = (PFN_cuModuleGetFunction *)must(
		library, "cuModuleGetFunction");
	char *text = kernels_read();
	CUfunction function;
	CUmodule module;

	check(load(&module, text), "cuModuleLoadData");
	free(text);
	check(get(&function, module, "spin_ns"), "cuModuleGetFunction");
	return function;
}

static void open_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *driver;
	const struct stub *stub;
	PFN_cuCtxCreate_v2 *create;
	PFN_cuInit *init;

	if (!library)
		die("open libcuda.so.1", dlerror());
	init = (PFN_cuInit *)must(library, "cuInit");
	create = (PFN_cuCtxCreate_v2 *)must(library, "cuCtxCreate_v2");
	check(init(0), "cuInit");
	check(create(&cuda.context, 0, 0), "cuCtxCreate_v2");
	driver = find_driver();
	stub = dlsym(driver, "stub");
	if (stub) {
		cuda.bare_launch = stub->launch;
		cuda.bare_alloc = stub->alloc;
		cuda.bare_free = stub->free;
		cuda.writes = stub->writes;
	} else {
		cuda.bare_launch = (PFN_cuLaunchKernel *)must(driver, "cuLaunchKernel");
		cuda.bare_alloc = (PFN_cuMemAlloc_v2 *)must(driver, "cuMemAlloc_v2");
		cuda.bare_free = (PFN_cuMemFree_v2 *)must(driver, "cuMemFree_v2");
		cuda.drain = (PFN_cuCtxSynchronize *)must(driver, "cuCtxSynchronize");
	}
	cuda.launch = (PFN_cuLaunchKernel *)seen(
		library, "cuLaunchKernel", (void *)cuda.bare_launch);
	cuda.alloc = (PFN_cuMemAlloc_v2 *)seen(library, "cuMemAlloc_v2", (void *)cuda.bare_alloc);
	cuda.free = (PFN_cuMemFree_v2 *)seen(library, "cuMemFree_v2", (void *)cuda.bare_free);
	cuda.set_current = (PFN_cuCtxSetCurrent *)must(library, "cuCtxSetCurrent");
	cuda.stream_create = (PFN_cuStreamCreate *)must(library, "cuStreamCreate");
	cuda.function = load_kernel(library);
}

/* ---- time ---- */

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

/*
 * Pins the thread to an allowed processor: the last for n = 0, the last but one for n = 1. The
 * first processor also does the machine's other work.
 */
static void pin(uint32_t n)
{
	cpu_set_t may, one;
	uint32_t count, at = 0;

	if (sched_getaffinity(0, sizeof(may), &may) < 0)
		return;
	count = (uint32_t)CPU_COUNT(&may);
	CPU_ZERO(&one);
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &may) && at++ == count - 1 - n % count)
			CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one) < 0)
		die("pin a thread", "not allowed");
}

/* ---- one thread's batches ---- */

struct lane {
	pthread_t thread;
	uint32_t number;
	uint64_t (*now)(void);
	CUstream *stream;
	uint32_t streams, at;
	/* live allocations: those made through the hook, and those made by the driver itself */
	CUdeviceptr *live[2];
	uint64_t random;
	double *mean[2]; /* of each batch: hooked, bare */
	uint32_t n[2];
	uint32_t closed, preempted; /* batches left out */
};

enum { HOOKED, BARE };

static NOINLINE CUresult launch_all(struct lane *lane, PFN_cuLaunchKernel *launch)
{
	uint64_t no_time = 0;
	void *params[] = {&no_time};
	CUfunction f = cuda.function;
	uint32_t at = lane->at, streams = lane->streams;
	CUstream *stream = lane->stream;
	CUresult r = CUDA_SUCCESS;

	for (int i = 0; i < LAUNCHES; i++) {
		r |= launch(f, 1, 1, 1, 32, 1, 1, 0, stream[at], params, NULL);
		at = at + 1 < streams ? at + 1 : 0;
	}
	lane->at = at;
	return r;
}

/*
 * Each allocation frees a random live allocation, so that searches in the hook's and the driver's
 * lists favour neither end.
 */
static NOINLINE CUresult allocate_all(struct lane *lane, PFN_cuMemAlloc_v2 *allocate,
	PFN_cuMemFree_v2 *release, CUdeviceptr *live)
{
	uint64_t x = lane->random;
	CUresult r = CUDA_SUCCESS;

	for (int i = 0; i < PAIRS; i++) {
		CUdeviceptr fresh = 0, old;
		uint64_t victim;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		victim = (uint64_t)((unsigned __int128)x * (options.live + 1) >> 64);
		r |= allocate(&fresh, options.bytes);
		old = live[victim];
		live[victim] = fresh;
		/* slot options.live holds no allocation, so the new allocation itself is freed */
		if (victim == options.live)
			old = fresh;
		r |= release(old);
	}
	lane->random = x;
	return r;
}

static CUresult batch(struct lane *lane, bool is_alloc, int side)
{
	if (is_alloc)
		return allocate_all(lane, side == BARE ? cuda.bare_alloc : cuda.alloc,
			side == BARE ? cuda.bare_free : cuda.free, lane->live[side]);
	return launch_all(lane, side == BARE ? cuda.bare_launch : cuda.launch);
}

static void run_batches(struct lane *lane, bool is_alloc)
{
	const uint32_t calls = is_alloc ? PAIRS : LAUNCHES;
	const uint64_t end = clock_now_ns() + (uint64_t)(options.seconds * 1e9);
	const uint32_t max = options.seconds > 0 ? BATCHES_MAX : options.batches;

	lane->mean[HOOKED] = calloc(max, sizeof(double));
	lane->mean[BARE] = calloc(max, sizeof(double));
	if (!lane->mean[HOOKED] || !lane->mean[BARE])
		die("results", "out of memory");
	for (uint32_t i = 0; i < WARM_BATCHES + max; i++) {
		if (options.seconds > 0 && clock_now_ns() > end)
			break;
		for (int side = HOOKED; side <= BARE; side++) {
			struct rusage before, after;
			uint64_t t0, t1;

			getrusage(RUSAGE_THREAD, &before);
			t0 = lane->now();
			check(batch(lane, is_alloc, side), "a call");
			t1 = lane->now();
			getrusage(RUSAGE_THREAD, &after);
			if (cuda.drain)
				check(cuda.drain(), "cuCtxSynchronize");
			if (i < WARM_BATCHES)
				continue;
			if (side == HOOKED && options.leave_out && t1 - t0 > LEAVE_OUT_NS &&
				after.ru_nvcsw != before.ru_nvcsw)
				lane->closed++;
			else if (after.ru_nivcsw != before.ru_nivcsw)
				lane->preempted += side == HOOKED;
			else
				lane->mean[side][lane->n[side]++] = (double)(t1 - t0) / calls;
		}
	}
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Replaces the mean of each hooked batch of this thread by the time that the hook added. */
static double subtract_bare(struct lane *lane)
{
	double bare;

	if (!lane->n[HOOKED] || !lane->n[BARE])
		die("batches", "none was measured");
	qsort(lane->mean[BARE], lane->n[BARE], sizeof(double), compare);
	bare = lane->mean[BARE][lane->n[BARE] / 2];
	for (uint32_t i = 0; i < lane->n[HOOKED]; i++)
		lane->mean[HOOKED][i] -= bare;
	return bare;
}

static void print(struct lane *lanes, uint32_t n, uint64_t calls, uint64_t writes)
{
	double *all, sum = 0, bare = 0;
	size_t count = 0;
	uint32_t closed = 0, preempted = 0;

	for (uint32_t i = 0; i < n; i++) {
		bare += subtract_bare(&lanes[i]) / n;
		count += lanes[i].n[HOOKED];
		closed += lanes[i].closed;
		preempted += lanes[i].preempted;
	}
	all = calloc(count, sizeof(*all));
	if (!all)
		die("results", "out of memory");
	count = 0;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < lanes[i].n[HOOKED]; k++)
			sum += all[count++] = lanes[i].mean[HOOKED][k];
	qsort(all, count, sizeof(*all), compare);
	printf("bare %.4f\nadded_mean %.4f\nadded_p50 %.4f\nadded_p99 %.4f\nbatches %zu\n", bare,
		sum / (double)count, all[count / 2], all[count * 99 / 100], count);
	printf("closed %u\npreempted %u\nmarker_fraction %.8f\n", closed, preempted,
		(double)writes / (double)calls);
	free(all);
}

/* ---- launch ---- */

static void make_streams(struct lane *lane)
{
	uint32_t first = options.streams == 0 || options.mixed;

	lane->streams = options.mixed ? 2 : options.streams ? options.streams : 1;
	lane->stream = calloc(lane->streams, sizeof(*lane->stream));
	if (!lane->stream)
		die("streams", "out of memory");
	for (uint32_t i = first; i < lane->streams; i++)
		check(cuda.stream_create(&lane->stream[i], CU_STREAM_NON_BLOCKING),
			"cuStreamCreate");
}

static void *launch_thread(void *arg)
{
	struct lane *lane = arg;

	pin(lane->number);
	check(cuda.set_current(cuda.context), "cuCtxSetCurrent");
	make_streams(lane);
	lane->now = options.threads > 1 ? cpu_ns : clock_now_ns;
	run_batches(lane, false);
	return NULL;
}

static void measure_launches(void)
{
	struct lane *lanes = calloc(options.threads, sizeof(*lanes));
	uint64_t writes = cuda.writes ? cuda.writes() : 0, batches = 0;

	if (!lanes)
		die("threads", "out of memory");
	for (uint32_t i = 0; i < options.threads; i++) {
		lanes[i].number = i;
		if (pthread_create(&lanes[i].thread, NULL, launch_thread, &lanes[i]))
			die("start a thread", "not allowed");
	}
	for (uint32_t i = 0; i < options.threads; i++) {
		pthread_join(lanes[i].thread, NULL);
		batches += WARM_BATCHES + lanes[i].n[HOOKED] + lanes[i].closed + lanes[i].preempted;
	}
	writes = cuda.writes ? cuda.writes() - writes : 0;
	print(lanes, options.threads, batches * LAUNCHES, writes);
}

static void backlog(void)
{
	struct lane lane = {.number = 1};

	pin(lane.number);
	make_streams(&lane);
	for (;;)
		check(launch_all(&lane, cuda.launch), "cuLaunchKernel");
}

/* ---- alloc ---- */

static void measure_allocations(void)
{
	struct lane lane = {.now = clock_now_ns, .random = UINT64_C(0x9e3779b97f4a7c15)};

	pin(0);
	for (int side = HOOKED; side <= BARE; side++) {
		lane.live[side] = calloc(options.live + 1, sizeof(CUdeviceptr));
		if (!lane.live[side])
			die("allocations", "out of memory");
		for (uint32_t i = 0; i < options.live; i++)
			check((side == BARE ? cuda.bare_alloc : cuda.alloc)(
				      &lane.live[side][i], options.bytes),
				"cuMemAlloc_v2 of those that live");
	}
	run_batches(&lane, true);
	print(&lane, 1, 1, 0);
}

/* ---- options ---- */

static uint64_t number(const char *text, uint64_t max)
{
	char *end;
	unsigned long long v = strtoull(text, &end, 10);

	if (*end || end == text || v > max)
		die(text, "a whole number is expected, and not so large a one");
	return v;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{"streams", required_argument, NULL, 's'},
		{"threads", required_argument, NULL, 't'},
		{"batches", required_argument, NULL, 'b'},
		{"live", required_argument, NULL, 'l'},
		{"bytes", required_argument, NULL, 'y'},
		{"seconds", required_argument, NULL, 'e'},
		{"mixed", no_argument, NULL, 'm'},
		{"leave-out", no_argument, NULL, 'o'},
		{NULL},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 's': options.streams = (uint32_t)number(optarg, 1 << 16); break;
		case 't': options.threads = (uint32_t)number(optarg, 100); break;
		case 'b': options.batches = (uint32_t)number(optarg, BATCHES_MAX); break;
		case 'l': options.live = (uint32_t)number(optarg, 1 << 17); break;
		case 'y': options.bytes = number(optarg, UINT64_C(1) << 40); break;
		case 'e': options.seconds = (double)number(optarg, 600); break;
		case 'm': options.mixed = true; break;
		case 'o': options.leave_out = true; break;
		default: return 2;
		}
	}
	if (optind + 1 != argc || !options.threads || !options.batches)
		die("usage", "calls launch|alloc|backlog [OPTION...]");
	open_driver();
	if (!strcmp(argv[optind], "launch"))
		measure_launches();
	else if (!strcmp(argv[optind], "alloc"))
		measure_allocations();
	else if (!strcmp(argv[optind], "backlog"))
		backlog();
	else
		die(argv[optind], "known are launch, alloc, backlog");
	return 0;
}
