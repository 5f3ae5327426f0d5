/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.*: the same program as a local tenant and with its device in a worker process
 * (`divvy run --remote local`), one after the other, medians of pairs. remote-load.c measures.
 *   remote.launch_ns_shm      an asynchronous launch
 *   remote.sync_over_rtt_us   a synchronisation beyond an echo over the same rings
 *   remote.loop_ratio_shm     a training-like loop, remote / local
 *   remote.copy_fraction_shm  copies of 64 MiB, the slower direction, of a plain memcpy
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "bench/bench.h"

#define PAIRS 7
#define ALONE "--request 0.9 --memory 50%"

struct numbers {
	double launch_ns, sync_us, echo_us, loop_ms, in, out, memcpy;
};

static void measure(bool is_remote, struct numbers *ret)
{
	struct {
		const char *name;
		double *value;
	} fields[] = {{"launch_ns", &ret->launch_ns}, {"sync_us", &ret->sync_us},
		{"echo_us", &ret->echo_us}, {"loop_ms", &ret->loop_ms}, {"in", &ret->in},
		{"out", &ret->out}, {"memcpy", &ret->memcpy}};
	char command[256], name[32], *text, *save = NULL;
	struct rig rig;
	double value;
	pid_t pid;

	memset(ret, 0, sizeof(*ret));
	rig_init(&rig, RIG_SHARED, "1xH200-141Gi", "", NULL);
	snprintf(command, sizeof(command), "%s %d", bench_built("bench/remote-load"),
		bench_quick() ? 5 : 25);
	pid = rig_start(&rig, is_remote ? ALONE " --remote local" : ALONE, command);
	if (rig_wait(&rig, pid) != 0)
		bench_die("remote-load failed");
	text = rig_output(&rig, pid);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		for (size_t i = 0;
			sscanf(line, "%31s %lf", name, &value) == 2 && i < ARRAY_SIZE(fields); i++)
			if (!strcmp(name, fields[i].name))
				*fields[i].value = value;
	free(text);
	rig_done(&rig);
	if (ret->memcpy <= 0 || ret->echo_us <= 0 || ret->loop_ms <= 0)
		bench_die("remote-load printed no result");
}

static void calls(void)
{
	const size_t pairs = bench_quick() ? 1 : PAIRS;
	double launch[PAIRS], sync[PAIRS], loop[PAIRS], copy[PAIRS];
	struct numbers local = {0}, remote = {0};
	char detail[160];

	for (size_t i = 0; i < pairs; i++) {
		measure(i % 2, i % 2 ? &remote : &local);
		measure(!(i % 2), i % 2 ? &local : &remote);
		launch[i] = remote.launch_ns;
		sync[i] = remote.sync_us - remote.echo_us;
		loop[i] = remote.loop_ms / local.loop_ms;
		copy[i] = MIN(remote.in, remote.out) / remote.memcpy;
	}
	snprintf(detail, sizeof(detail), "local %.0f ns", local.launch_ns);
	bench_metric("remote.launch_ns_shm", bench_median(launch, pairs), "ns", "<= 400",
		(unsigned)pairs, true, detail);
	snprintf(detail, sizeof(detail), "sync %.1f us, echo %.1f us, local sync %.1f us",
		remote.sync_us, remote.echo_us, local.sync_us);
	bench_metric("remote.sync_over_rtt_us", bench_median(sync, pairs), "us", "<= 10",
		(unsigned)pairs, true, detail);
	snprintf(detail, sizeof(detail), "local step %.2f ms", local.loop_ms);
	bench_metric("remote.loop_ratio_shm", bench_median(loop, pairs), "", "<= 1.03",
		(unsigned)pairs, true, detail);
	snprintf(detail, sizeof(detail),
		"in %.2f, out %.2f, memcpy %.2f GB/s; local in %.2f, out %.2f", remote.in,
		remote.out, remote.memcpy, local.in, local.out);
	bench_metric("remote.copy_fraction_shm", bench_median(copy, pairs), "", ">= 0.9",
		(unsigned)pairs, true, detail);
}

int main(int argc, char **argv)
{
	bench_init("remote", argc, argv);
	calls();
	return bench_done();
}
