/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latency.*, harvest.*: a latency tenant, whose requests are 5 ms of kernels each, runs beside an
 * opportunistic tenant, which always has kernels of 1 ms to submit. In the open loop, requests
 * arrive by Poisson at 30 % load, with the same seed alone and beside the opportunistic tenant. In
 * the closed loop, each request follows the one before at once. The harvest is the opportunistic
 * tenant's busy time, divided by the time that the latency tenant leaves idle when it runs alone.
 * Busy times come from the device's trace. If a name ends in _remote, the opportunistic tenant is
 * remote.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/bench.h"

#define KERNEL_MS 1.0

struct open_loop {
	double p50_ms, p99_ms;
	double busy;    /* fraction of the time in which the latency tenant was busy */
	double harvest; /* fraction of the time in which the opportunistic tenant was busy */
	size_t n;
};

static void fill_latencies(char *text, struct open_loop *ret)
{
	double *v = NULL;
	size_t n = 0;

	for (char *p = text; (p = strstr(p, "latency ")); p++) {
		v = reallocarray(v, n + 1, sizeof(*v));
		v[n++] = strtod(p + 8, NULL) / 1e6;
	}
	if (!n)
		bench_die("the serving program reported no request");
	bench_sort(v, n);
	ret->p50_ms = bench_quantile(v, n, 0.5);
	ret->p99_ms = bench_quantile(v, n, 0.99);
	ret->n = n;
	free(v);
}

enum company { NONE, HERE, REMOTE };

/* Starts the opportunistic tenant and waits until it runs on the device; returns its process. */
static pid_t start_company(struct rig *rig, enum company company)
{
	char command[256], wish[128];
	pid_t pid;

	snprintf(command, sizeof(command), "%s --kernel-us 1000 --quiet",
		bench_built("tests/programs/spin"));
	snprintf(wish, sizeof(wish), "--name company --request 0.2 --class opportunistic%s",
		company == REMOTE ? " --remote local" : "");
	pid = rig_start(rig, wish, command);
	while (company == REMOTE && rig_processes(rig, "company", &pid, 1) == 0)
		clock_sleep_until_ns(clock_now_ns() + 20 * NSEC_PER_MSEC);
	while (!rig_first_ns(rig, pid))
		clock_sleep_until_ns(clock_now_ns() + 20 * NSEC_PER_MSEC);
	return pid;
}

static struct open_loop open_loop(enum rig_mode mode, enum company company)
{
	const unsigned int count = bench_quick() ? 600 : 5000;
	struct open_loop r = {0};
	struct rig rig;
	char command[256];
	uint64_t t0, t1;
	pid_t serve, fill = 0;
	char *text;

	rig_init(&rig, mode, "1xH200-141Gi", "", NULL);
	if (company)
		fill = start_company(&rig, company);
	snprintf(command, sizeof(command), "%s poisson %u 0.3 7", bench_built("bench/requests"),
		count);
	serve = rig_start(&rig, "--request 0.5 --class latency", command);
	while (!rig_first_ns(&rig, serve))
		clock_sleep_until_ns(clock_now_ns() + 20 * NSEC_PER_MSEC);
	t0 = rig_first_ns(&rig, serve);
	if (rig_wait(&rig, serve) != 0)
		bench_die("the serving program failed");
	t1 = clock_now_ns() - 50 * NSEC_PER_MSEC;
	text = rig_output(&rig, serve);
	fill_latencies(text, &r);
	free(text);
	r.busy = rig_share(&rig, serve, 0, t0, t1);
	r.harvest = fill ? rig_share(&rig, fill, 0, t0, t1) : 0;
	rig_done(&rig);
	return r;
}

static double closed_loop(enum rig_mode mode, enum company company)
{
	struct rig rig;
	char command[256];
	unsigned long long n = 0, ns = 1;
	pid_t serve;
	char *text;

	rig_init(&rig, mode, "1xH200-141Gi", "", NULL);
	if (company)
		start_company(&rig, company);
	snprintf(command, sizeof(command), "%s closed %d", bench_built("bench/requests"),
		bench_quick() ? 3 : 10);
	serve = rig_start(&rig, "--request 0.5 --class latency", command);
	if (rig_wait(&rig, serve) != 0)
		bench_die("the serving program failed");
	text = rig_output(&rig, serve);
	if (sscanf(text, "requests %llu %llu", &n, &ns) != 2)
		bench_die("the serving program said '%s'", text);
	free(text);
	rig_done(&rig);
	return (double)n * 1e9 / (double)ns;
}

static double rise(double company_ms, double alone_ms)
{
	return (company_ms - KERNEL_MS - alone_ms) / alone_ms;
}

int main(int argc, char **argv)
{
	struct open_loop alone, unshared, shared, remote;
	double closed[3], loss[3];
	char detail[96];
	unsigned int n;

	bench_init("latency", argc, argv);
	alone = open_loop(RIG_BARE, NONE);
	unshared = open_loop(RIG_BARE, HERE);
	shared = open_loop(RIG_SHARED, HERE);
	remote = open_loop(RIG_SHARED, REMOTE);
	n = (unsigned int)shared.n;
	snprintf(detail, sizeof(detail),
		"%.2f ms alone, %.2f in company, %.2f unshared; less one kernel", alone.p50_ms,
		shared.p50_ms, unshared.p50_ms);
	bench_metric("latency.p50_rise", rise(shared.p50_ms, alone.p50_ms), "", "<= 0.05", n, true,
		detail);
	snprintf(detail, sizeof(detail),
		"%.2f ms alone, %.2f in company, %.2f unshared; less one kernel", alone.p99_ms,
		shared.p99_ms, unshared.p99_ms);
	bench_metric("latency.p99_rise", rise(shared.p99_ms, alone.p99_ms), "", "<= 0.05", n, true,
		detail);
	snprintf(detail, sizeof(detail), "latency tenant busy %.3f alone; unshared would be %.3f",
		alone.busy, unshared.harvest / (1 - alone.busy));
	bench_metric("harvest.fraction", shared.harvest / (1 - alone.busy), "", ">= 0.85", n, true,
		detail);
	snprintf(detail, sizeof(detail), "%.2f ms alone, %.2f in company; less one kernel",
		alone.p99_ms, remote.p99_ms);
	bench_metric("latency.p99_rise_remote", rise(remote.p99_ms, alone.p99_ms), "", "<= 0.05", n,
		true, detail);
	bench_metric("harvest.fraction_remote", remote.harvest / (1 - alone.busy), "", ">= 0.85", n,
		true, "of the remote one");
	for (int i = 0; i < 3; i++) {
		closed[0] = closed_loop(RIG_BARE, NONE);
		closed[1] = closed_loop(RIG_SHARED, HERE);
		loss[i] = 1 - closed[1] / closed[0];
	}
	closed[2] = closed_loop(RIG_BARE, HERE);
	snprintf(detail, sizeof(detail), "closed loop; unshared loses %.3f",
		1 - closed[2] / closed[0]);
	bench_metric(
		"latency.loss_fraction", bench_median(loss, 3), "", "<= 0.01", 3, true, detail);
	return bench_done();
}
