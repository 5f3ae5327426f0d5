/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs.*: programs whose kernels wait for one another.
 *
 * pairs.devices_fraction: two tenants have the same two devices, and each kernel spins until its
 * partner on the other device runs. The result is the rounds of both tenants, divided by the rounds
 * of one such program alone.
 *
 * pairs.ranks_fraction: two programs on one device wait for each other. The result is their rounds
 * as two tenants, divided by their rounds without divvy.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/bench.h"

static double rounds_of(struct rig *rig, pid_t pid)
{
	char *text = rig_output(rig, pid), *p = strstr(text, "rounds ");
	double n = p ? strtod(p + 7, NULL) : -1;

	if (n < 0)
		bench_die("a pair said '%s'", text);
	free(text);
	return n;
}

static double devices(enum rig_mode mode, int tenants, int seconds)
{
	struct rig rig;
	char command[256];
	double sum = 0;
	pid_t pid[2];

	rig_init(&rig, mode, "2xH200-141Gi", "", NULL);
	snprintf(command, sizeof(command), "%s devices %d", bench_built("bench/pair"), seconds);
	for (int i = 0; i < tenants; i++)
		pid[i] = rig_start(&rig, "--request 0.5 --count 2", command);
	for (int i = 0; i < tenants; i++) {
		if (rig_wait(&rig, pid[i]) != 0)
			bench_die("a pair over two devices failed");
		sum += rounds_of(&rig, pid[i]);
	}
	rig_done(&rig);
	return sum;
}

static double ranks(enum rig_mode mode, int seconds)
{
	struct rig rig;
	char command[256];
	double sum = 0;
	pid_t pid[2];

	rig_init(&rig, mode, "1xH200-141Gi", "", NULL);
	for (int i = 0; i < 2; i++) {
		snprintf(command, sizeof(command), "%s rank %d %d %s/flags",
			bench_built("bench/pair"), seconds, i, rig.dir);
		pid[i] = rig_start(&rig, "--request 0.5", command);
	}
	for (int i = 0; i < 2; i++) {
		if (rig_wait(&rig, pid[i]) != 0)
			bench_die("rank %d failed", i);
		sum += rounds_of(&rig, pid[i]);
	}
	rig_done(&rig);
	return sum;
}

int main(int argc, char **argv)
{
	int seconds;
	double alone, shared, bare;

	bench_init("pairs", argc, argv);
	seconds = bench_quick() ? 4 : 10;
	alone = devices(RIG_BARE, 1, seconds);
	shared = devices(RIG_SHARED, 2, seconds);
	bench_metric("pairs.devices_fraction", shared / alone, "", ">= 0.8", 2, true,
		"two tenants on two devices each, of one alone");
	bare = ranks(RIG_BARE, seconds);
	shared = ranks(RIG_SHARED, seconds);
	bench_metric("pairs.ranks_fraction", shared / bare, "", ">= 0.8", 2, true,
		"two ranks in two tenants on one device, of unshared");
	return bench_done();
}
