/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pair: kernels that wait for one another, as collectives do.
 *   pair devices SECONDS          one process on two devices: each round, a kernel on each device
 *                                 sets its flag, spins until the other's is set, then works 1 ms
 *   pair rank SECONDS RANK FILE   one of two processes on one device; FILE carries the IPC handles
 * Prints "rounds <n>". A spin gives up after 10 s, which the program reports as a hang.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/driver.h"

#define SPIN_LIMIT_NS (10 * NSEC_PER_SEC)
#define WORK_NS NSEC_PER_MSEC

struct side {
	CUcontext context;
	CUstream stream;
	CUfunction set, spin, work;
	CUdeviceptr flag;
	unsigned int blocks;
};

static void side_init(struct side *s, int ordinal)
{
	CUdevice device;
	CUmodule module;
	int sms;

	DRIVER_CHECK(DRIVER(cuDeviceGet)(&device, ordinal));
	DRIVER_CHECK(DRIVER(cuDeviceGetAttribute)(
		&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	DRIVER_CHECK(DRIVER(cuCtxCreate_v2)(&s->context, 0, device));
	module = driver_module();
	DRIVER_CHECK(DRIVER(cuModuleGetFunction)(&s->set, module, "set_flag"));
	DRIVER_CHECK(DRIVER(cuModuleGetFunction)(&s->spin, module, "spin_flag"));
	DRIVER_CHECK(DRIVER(cuModuleGetFunction)(&s->work, module, "spin_ns"));
	DRIVER_CHECK(DRIVER(cuStreamCreate)(&s->stream, CU_STREAM_NON_BLOCKING));
	DRIVER_CHECK(DRIVER(cuMemAlloc_v2)(&s->flag, 2u << 20));
	DRIVER_CHECK(DRIVER(cuMemsetD32_v2)(s->flag, 0, 1));
	DRIVER_CHECK(DRIVER(cuCtxSynchronize)());
	s->blocks = (unsigned int)sms;
}

static void launch(struct side *s, CUfunction f, unsigned int blocks, void **params)
{
	DRIVER_CHECK(DRIVER(cuLaunchKernel)(f, blocks, 1, 1, 32, 1, 1, 0, s->stream, params, NULL));
}

static void round_of(struct side *s, CUdeviceptr peer_flag, uint32_t round)
{
	uint64_t limit = SPIN_LIMIT_NS, work = WORK_NS;

	launch(s, s->set, 1, (void *[]){&s->flag, &round});
	launch(s, s->spin, s->blocks, (void *[]){&peer_flag, &round, &limit});
	launch(s, s->work, s->blocks, (void *[]){&work});
}

static void check_time(uint64_t begin)
{
	if (clock_now_ns() - begin < SPIN_LIMIT_NS)
		return;
	fputs("pair: a round took longer than a spin may: the partner's kernel did not run\n",
		stderr);
	exit(1);
}

static uint32_t devices(uint64_t seconds)
{
	struct side side[2];
	uint64_t end;
	uint32_t round = 0;

	for (int i = 0; i < 2; i++)
		side_init(&side[i], i);
	for (int i = 0; i < 2; i++) {
		DRIVER_CHECK(DRIVER(cuCtxSetCurrent)(side[i].context));
		DRIVER_CHECK(DRIVER(cuCtxEnablePeerAccess)(side[!i].context, 0));
	}
	end = clock_now_ns() + seconds * NSEC_PER_SEC;
	while (clock_now_ns() < end) {
		uint64_t begin = clock_now_ns();

		round++;
		for (int i = 0; i < 2; i++) {
			DRIVER_CHECK(DRIVER(cuCtxSetCurrent)(side[i].context));
			round_of(&side[i], side[!i].flag, round);
		}
		for (int i = 0; i < 2; i++) {
			DRIVER_CHECK(DRIVER(cuCtxSetCurrent)(side[i].context));
			DRIVER_CHECK(DRIVER(cuStreamSynchronize)(side[i].stream));
		}
		check_time(begin);
	}
	return round;
}

/*
 * Opens the other rank's flag by the IPC handle in that rank's file. rename() makes each file
 * visible only when it is complete.
 */
static CUdeviceptr peer_flag(struct side *s, const char *base, int rank)
{
	char mine[256], peer[256], temporary[264];
	CUipcMemHandle handle;
	CUdeviceptr p;
	FILE *f;

	snprintf(mine, sizeof(mine), "%s.%d", base, rank);
	snprintf(peer, sizeof(peer), "%s.%d", base, !rank);
	snprintf(temporary, sizeof(temporary), "%s.new", mine);
	DRIVER_CHECK(DRIVER(cuIpcGetMemHandle)(&handle, s->flag));
	f = fopen(temporary, "we");
	if (!f || fwrite(&handle, sizeof(handle), 1, f) != 1 || fclose(f) ||
		rename(temporary, mine)) {
		perror(mine);
		exit(1);
	}
	while (access(peer, R_OK) < 0)
		clock_sleep_until_ns(clock_now_ns() + NSEC_PER_MSEC);
	f = fopen(peer, "re");
	if (!f || fread(&handle, sizeof(handle), 1, f) != 1) {
		perror(peer);
		exit(1);
	}
	fclose(f);
	DRIVER_CHECK(DRIVER(cuIpcOpenMemHandle_v2)(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	return p;
}

/*
 * Runs rounds until the time is over, in step with the partner: each kernel spins until the
 * partner's flag is set.
 */
static uint32_t rank(uint64_t seconds, int number, const char *base)
{
	struct side s;
	CUdeviceptr flag;
	uint64_t end;
	uint32_t round = 0;

	side_init(&s, 0);
	flag = peer_flag(&s, base, number);
	end = clock_now_ns() + seconds * NSEC_PER_SEC;
	while (clock_now_ns() < end) {
		uint64_t begin = clock_now_ns();

		round_of(&s, flag, ++round);
		DRIVER_CHECK(DRIVER(cuStreamSynchronize)(s.stream));
		/* The rank that ends first leaves the other one spinning: this is no hang. */
		if (clock_now_ns() < end)
			check_time(begin);
	}
	/* Ends the partner's last spin, whatever its round. */
	launch(&s, s.set, 1, (void *[]){&s.flag, &(uint32_t){UINT32_MAX}});
	DRIVER_CHECK(DRIVER(cuStreamSynchronize)(s.stream));
	clock_sleep_until_ns(clock_now_ns() + NSEC_PER_SEC);
	return round;
}

int main(int argc, char **argv)
{
	uint32_t rounds;

	if (argc >= 3)
		DRIVER_CHECK(DRIVER(cuInit)(0));
	if (argc == 3 && strcmp(argv[1], "devices") == 0)
		rounds = devices(strtoull(argv[2], NULL, 10));
	else if (argc == 5 && strcmp(argv[1], "rank") == 0)
		rounds = rank(strtoull(argv[2], NULL, 10), argv[3][0] == '1', argv[4]);
	else {
		fputs("usage: pair devices SECONDS | rank SECONDS RANK FILE\n", stderr);
		return 2;
	}
	printf("rounds %" PRIu32 "\n", rounds);
	return 0;
}
