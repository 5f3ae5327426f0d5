/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that bench/remote.c measures, local or remote. The program prints lines "name value".
 *   remote-load STEPS [steps]   measures calls, STEPS steps of a loop, copies; `steps`: no copies
 *   remote-load N idle          starts N idle processes with a context
 *
 *   launch_ns   an asynchronous launch, until it returns: median
 *   sync_us     a synchronisation of an idle stream: median
 *   echo_us     between synchronisations, a call that the driver answers from memory: there and
 *               back, through the same rings, links, TLS and sockets
 *   loop_ms     a step of a training-like loop: 200 kernels of 30 us to 1 ms, 2 synchronisations,
 *               1 MiB in and out
 *   in, out     copies of 64 MiB, page-locked memory, bytes a nanosecond; memcpy: the same between
 *               two buffers; paged_in, paged_out: memory that the driver does not know; tcp: the
 *               throughput of a connection over the loopback device
 *   pid         of an idle process, once all are ready
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "bench/driver.h"

enum { LAUNCHES = 2000, SYNCS = 1000, KERNELS = 200, COPIES = 5 };
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
	PFN_cuStreamGetFlags *const ask = DRIVER(cuStreamGetFlags);
	static double took[LAUNCHES], waited[SYNCS], asked[SYNCS];
	unsigned long long ns = 1000;
	void *params[] = {&ns};
	unsigned flags;

	for (int i = 0; i < LAUNCHES; i++) {
		const uint64_t begin = clock_now_ns();

		entry(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
		took[i] = (double)(clock_now_ns() - begin);
		if (i % 100 == 99)
			sync(stream);
	}
	for (int i = 0; i < SYNCS; i++) {
		const uint64_t begin = clock_now_ns();
		uint64_t between;

		sync(stream);
		between = clock_now_ns();
		ask(stream, &flags);
		waited[i] = (double)(between - begin);
		asked[i] = (double)(clock_now_ns() - between);
	}
	say_median("launch_ns", took, LAUNCHES, 1);
	say_median("sync_us", waited, SYNCS, 1e3);
	say_median("echo_us", asked, SYNCS, 1e3);
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
			/* 30 to 110 us, and each tenth kernel 1 ms: about 33 ms in all. */
			launch(f, stream, k % 10 == 0 ? 1000000 : 20000 + k % 10 * 10000);
			if (k == KERNELS / 2)
				DRIVER_CHECK(DRIVER(cuStreamSynchronize)(stream));
		}
		DRIVER_CHECK(DRIVER(cuMemcpyDtoHAsync_v2)(out, p, STEP_BYTES, stream));
		DRIVER_CHECK(DRIVER(cuStreamSynchronize)(stream));
	}
	printf("loop_ms %.3f\n", (double)(clock_now_ns() - begin) / n / 1e6);
}

/* Copies in and out; returns bytes a nanosecond. */
static void copy(CUdeviceptr p, void *host, double *ret_in, double *ret_out)
{
	const uint64_t begin = clock_now_ns();
	uint64_t between;

	DRIVER_CHECK(DRIVER(cuMemcpyHtoD_v2)(p, host, LARGE));
	DRIVER_CHECK(DRIVER(cuCtxSynchronize)());
	between = clock_now_ns();
	DRIVER_CHECK(DRIVER(cuMemcpyDtoH_v2)(host, p, LARGE));
	*ret_in = (double)LARGE / (double)(between - begin);
	*ret_out = (double)LARGE / (double)(clock_now_ns() - between);
}

static void copies(void)
{
	uint8_t *host = malloc(LARGE), *other = malloc(LARGE);
	double in[COPIES], out[COPIES], paged_in[COPIES], paged_out[COPIES], plain[COPIES];
	CUdeviceptr p;
	void *locked;

	DRIVER_CHECK(DRIVER(cuMemAlloc_v2)(&p, LARGE));
	DRIVER_CHECK(DRIVER(cuMemHostAlloc)(&locked, LARGE, 0));
	memset(host, 1, LARGE);
	memset(other, 2, LARGE);
	memset(locked, 3, LARGE);
	/* Touches all pages once. */
	copy(p, host, &paged_in[0], &paged_out[0]);
	for (int i = 0; i < COPIES; i++) {
		uint64_t begin;

		copy(p, locked, &in[i], &out[i]);
		copy(p, host, &paged_in[i], &paged_out[i]);
		begin = clock_now_ns();
		memcpy(other, host, LARGE);
		plain[i] = (double)LARGE / (double)(clock_now_ns() - begin);
	}
	say_median("in", in, COPIES, 1);
	say_median("out", out, COPIES, 1);
	say_median("paged_in", paged_in, COPIES, 1);
	say_median("paged_out", paged_out, COPIES, 1);
	say_median("memcpy", plain, COPIES, 1);
	if (other[LARGE - 1] != 1 || ((uint8_t *)locked)[LARGE - 1] != 3)
		exit(1);
}

/* ---- what a connection carries ---- */

#define TCP_PIECE ((size_t)128 << 10)

static void receive_all(int listener)
{
	char *piece = malloc(TCP_PIECE);
	int sock = accept(listener, NULL, NULL);
	size_t left = 0;
	ssize_t n;

	while ((n = recv(sock, piece, TCP_PIECE, 0)) > 0) {
		left += (size_t)n;
		if (left >= LARGE) {
			left -= LARGE;
			send(sock, "", 1, 0);
		}
	}
	_exit(0);
}

static void connection(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM, 0), sock = socket(AF_INET, SOCK_STREAM, 0);
	char *piece = calloc(1, TCP_PIECE), byte;
	socklen_t n = sizeof(to);
	double took[COPIES];
	pid_t other;

	if (bind(listener, (struct sockaddr *)&to, n) < 0 || listen(listener, 1) < 0 ||
		getsockname(listener, (struct sockaddr *)&to, &n) < 0)
		exit(1);
	other = fork();
	if (other == 0) {
		close(sock);
		receive_all(listener);
	}
	if (connect(sock, (struct sockaddr *)&to, n) < 0)
		exit(1);
	for (int i = 0; i < COPIES; i++) {
		const uint64_t begin = clock_now_ns();

		for (size_t at = 0; at < LARGE; at += TCP_PIECE)
			if (send(sock, piece, TCP_PIECE, 0) != (ssize_t)TCP_PIECE)
				exit(1);
		if (recv(sock, &byte, 1, 0) != 1)
			exit(1);
		took[i] = (double)LARGE / (double)(clock_now_ns() - begin);
	}
	close(sock);
	waitpid(other, NULL, 0);
	say_median("tcp", took, COPIES, 1);
}

/* ---- many processes ---- */

static void idle(uint64_t n)
{
	CUcontext context;
	pid_t *pid = calloc(n, sizeof(*pid));
	char byte;
	int there[2];

	if (pipe(there) < 0)
		exit(1);
	for (uint64_t i = 0; i < n; i++) {
		pid[i] = fork();
		if (pid[i] != 0)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		DRIVER_CHECK(DRIVER(cuInit)(0));
		DRIVER_CHECK(DRIVER(cuCtxCreate_v2)(&context, 0, 0));
		if (write(there[1], "", 1) != 1)
			exit(1);
		for (;;)
			pause();
	}
	for (uint64_t i = 0; i < n; i++)
		if (read(there[0], &byte, 1) != 1)
			exit(1);
	for (uint64_t i = 0; i < n; i++)
		printf("pid %d\n", (int)pid[i]);
	printf("idle %d\n", (int)n);
	fflush(stdout);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	const bool has_copies = argc < 3;
	uint64_t n = 25;
	CUcontext context;
	CUstream stream;
	CUfunction spin;

	if (argc > 1 && parse_uint(str_from(argv[1]), 1, 10000, &n, NULL) < 0)
		return 2;
	if (argc > 2 && !strcmp(argv[2], "idle"))
		idle(n);
	DRIVER_CHECK(DRIVER(cuInit)(0));
	DRIVER_CHECK(DRIVER(cuCtxCreate_v2)(&context, 0, 0));
	DRIVER_CHECK(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	DRIVER_CHECK(DRIVER(cuModuleGetFunction)(&spin, driver_module(), "spin_ns"));
	launches(spin, stream);
	steps(spin, stream, (unsigned)n);
	if (has_copies)
		copies();
	DRIVER_CHECK(DRIVER(cuCtxDestroy_v2)(context));
	if (has_copies)
		connection();
	return 0;
}
