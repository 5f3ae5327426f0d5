/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requests: a program that serves, for the latency and single benches. A request is some kernels,
 * then a wait for them.
 *   requests poisson COUNT LOAD SEED   arrivals at that load; one line "latency <ns>" a request
 *   requests closed SECONDS            back to back; "requests <count> <ns elapsed>"
 *   requests enqueue ROUNDS            100 ms of kernels, 80 ms of computing, then the wait
 *   requests train ROUNDS              kernels, a copy back, a look at the value, as training does
 *   requests alloc ROUNDS              allocations and frees between kernels, as inference does
 *   requests streams ROUNDS            short kernels round robin over 8 streams, events between
 *   requests graph ROUNDS              graphs of short kernels, a wait each
 *   requests burst ROUNDS ON OFF       ON ms of kernels and the wait for them, OFF ms of nothing
 * All but poisson print "elapsed <ns>" of the rounds alone. One thread.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/programs/spin-kernel.h"

#define KERNEL_NS 1000000u
#define KERNELS 5
#define STREAMS 8

static struct spin_kernel spin;
static cu_handle stream[STREAMS];

static void kernel(uint64_t ns, cu_handle on)
{
	spin_kernel_launch(&spin, ns, on);
}

static void request(void)
{
	for (int i = 0; i < KERNELS; i++)
		kernel(KERNEL_NS, stream[0]);
	cuda_check(cuda.stream_synchronize(stream[0]), "synchronise");
}

static void prepare(void)
{
	spin_kernel_open("requests", 0, &spin);
	for (int i = 0; i < STREAMS; i++)
		cuda_check(cuda.stream_create(&stream[i], CU_STREAM_NON_BLOCKING), "stream");
	request(); /* loads everything that the driver loads at first use */
}

/* splitmix64 and the inverse of the exponential distribution: a seed gives the same arrivals. */
static double exponential(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	z ^= z >> 31;
	return -log(((double)(z >> 11) + 1) / 9007199254740993.0);
}

static void poisson(uint64_t count, double load, uint64_t seed)
{
	const double gap_ns = (double)KERNEL_NS * KERNELS / load;
	double arrival = (double)clock_now_ns() + 1e7;

	for (uint64_t i = 0; i < count; i++) {
		arrival += gap_ns * exponential(&seed);
		clock_sleep_until_ns((uint64_t)arrival);
		request();
		printf("latency %" PRIu64 "\n", clock_now_ns() - (uint64_t)arrival);
	}
}

static void closed(double seconds)
{
	uint64_t begin = clock_now_ns(), n = 0, now;

	do {
		request();
		n++;
		now = clock_now_ns();
	} while ((double)(now - begin) < seconds * 1e9);
	printf("requests %" PRIu64 " %" PRIu64 "\n", n, now - begin);
}

/* CPU work of a fixed wall-clock time, as a program that computes. */
static void compute(uint64_t ns)
{
	uint64_t end = clock_now_ns() + ns;

	while (clock_now_ns() < end)
		;
}

static void enqueue(uint64_t rounds)
{
	for (uint64_t i = 0; i < rounds; i++) {
		for (int k = 0; k < 100; k++)
			kernel(KERNEL_NS, stream[0]);
		compute(80 * NSEC_PER_MSEC);
		cuda_check(cuda.stream_synchronize(stream[0]), "synchronise");
	}
}

static void train(uint64_t rounds)
{
	cu_pointer p;
	uint32_t value[1024];

	cuda_check(cuda.mem_alloc(&p, sizeof(value)), "memory");
	for (uint64_t i = 0; i < rounds; i++) {
		for (int k = 0; k < 40; k++)
			kernel(50000, stream[0]);
		cuda_check(cuda.stream_synchronize(stream[0]), "synchronise");
		cuda_check(cuda.mem_info((size_t[1]){0}, (size_t[1]){0}), "memory info");
	}
	cuda_check(cuda.mem_free(p), "free");
}

static void alloc(uint64_t rounds)
{
	for (uint64_t i = 0; i < rounds; i++) {
		cu_pointer p[4];

		for (int k = 0; k < 4; k++) {
			cuda_check(cuda.mem_alloc(&p[k], (size_t)(k + 1) << 20), "memory");
			kernel(200000, stream[k]);
		}
		cuda_check(cuda.ctx_synchronize(), "synchronise");
		for (int k = 0; k < 4; k++)
			cuda_check(cuda.mem_free(p[k]), "free");
	}
}

static void streams(uint64_t rounds)
{
	cu_handle event;

	cuda_check(cuda.event_create(&event, CU_EVENT_DISABLE_TIMING), "event");
	for (uint64_t i = 0; i < rounds; i++) {
		for (int k = 0; k < 64; k++)
			kernel(20000, stream[k % STREAMS]);
		cuda_check(cuda.event_record(event, stream[i % STREAMS]), "event record");
		cuda_check(cuda.event_synchronize(event), "event");
	}
	cuda_check(cuda.ctx_synchronize(), "synchronise");
}

static void graph(uint64_t rounds)
{
	cu_handle captured, exec;

	cuda_check(cuda.stream_begin_capture(stream[0], CU_CAPTURE_MODE_THREAD_LOCAL), "capture");
	for (int k = 0; k < 20; k++)
		kernel(50000, stream[0]);
	cuda_check(cuda.stream_end_capture(stream[0], &captured), "end of capture");
	cuda_check(cuda.graph_instantiate(&exec, captured, 0), "graph");
	for (uint64_t i = 0; i < rounds; i++) {
		cuda_check(cuda.graph_launch(exec, stream[0]), "graph launch");
		cuda_check(cuda.stream_synchronize(stream[0]), "synchronise");
	}
}

/* Every burst does the same work, however long that takes. */
static void burst(uint64_t rounds, uint64_t on_ms, uint64_t off_ms)
{
	for (uint64_t i = 0; i < rounds; i++) {
		for (uint64_t k = 0; k < on_ms; k++)
			kernel(NSEC_PER_MSEC, stream[0]);
		cuda_check(cuda.stream_synchronize(stream[0]), "synchronise");
		clock_sleep_until_ns(clock_now_ns() + off_ms * NSEC_PER_MSEC);
	}
}

static const struct {
	const char *name;
	void (*run)(uint64_t rounds);
} programs[] = {
	{"enqueue", enqueue},
	{"train", train},
	{"alloc", alloc},
	{"streams", streams},
	{"graph", graph},
};

int main(int argc, char **argv)
{
	uint64_t begin;

	if (argc == 5 && strcmp(argv[1], "poisson") == 0) {
		prepare();
		poisson(strtoull(argv[2], NULL, 10), strtod(argv[3], NULL),
			strtoull(argv[4], NULL, 10));
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "closed") == 0) {
		prepare();
		closed(strtod(argv[2], NULL));
		return 0;
	}
	if (argc == 5 && strcmp(argv[1], "burst") == 0) {
		prepare();
		begin = clock_now_ns();
		burst(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10),
			strtoull(argv[4], NULL, 10));
		printf("elapsed %" PRIu64 "\n", clock_now_ns() - begin);
		return 0;
	}
	for (size_t i = 0; argc == 3 && i < sizeof(programs) / sizeof(*programs); i++) {
		if (strcmp(argv[1], programs[i].name) != 0)
			continue;
		prepare();
		begin = clock_now_ns();
		programs[i].run(strtoull(argv[2], NULL, 10));
		printf("elapsed %" PRIu64 "\n", clock_now_ns() - begin);
		return 0;
	}
	fputs("usage: requests poisson COUNT LOAD SEED | closed SECONDS | burst ROUNDS ON OFF | "
	      "enqueue|train|alloc|streams|graph ROUNDS\n",
		stderr);
	return 2;
}
