/* SPDX-License-Identifier: Apache-2.0 */
/*
 * busy.fraction: kernel time of the device while three tenants share it, divided by kernel time of
 * the device while one program runs alone for equally long. The switch between contexts costs 0,
 * once or three times the usual time; the result is the worst case. busy.unshared_fraction: the
 * same for three programs without divvy.
 *
 * handover.*: time from the last completion of one tenant to the first kernel of the next, without
 * the device's own switch, in the runs of busy.fraction. All times come from the device's trace.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "bench/bench.h"

#define SWITCH_US 150
#define TENANTS 3

static const char *const spec[TENANTS] = {"--request 0.5", "--request 0.3", "--request 0.2"};

struct gaps {
	double *us;
	size_t n;
};

static void collect(struct rig *rig, uint64_t t0, uint64_t t1, struct gaps *ret)
{
	struct simgpu_handover *v = NULL;
	size_t n = 0;

	if (simgpu_trace_handovers(rig_trace(rig), 0, t0, t1, &v, &n) < 0)
		bench_die("read the trace: out of memory");
	ret->us = calloc(n ? n : 1, sizeof(*ret->us));
	for (size_t i = 0; i < n; i++)
		ret->us[ret->n++] = v[i].gap_ns > v[i].switch_ns
			? (double)(v[i].gap_ns - v[i].switch_ns) / 1e3
			: 0;
	free(v);
}

/* Busy share of the device over some seconds with n programs. */
static double run(
	enum rig_mode mode, size_t n, int switch_us, const char *load, struct gaps *ret_gaps)
{
	const uint64_t wall = (bench_quick() ? 3 : 8) * NSEC_PER_SEC;
	struct rig rig;
	pid_t pid[TENANTS];
	char costs[64], command[256];
	uint64_t t0 = 0;
	double busy;

	snprintf(costs, sizeof(costs), "switch_us=%d", switch_us);
	snprintf(command, sizeof(command), "%s %s --quiet", bench_built("tests/programs/spin"),
		load);
	rig_init(&rig, mode, "1xH200-141Gi", costs, NULL);
	for (size_t i = 0; i < n; i++)
		pid[i] = rig_start(&rig, spec[i], command);
	for (size_t i = 0; i < n; i++) {
		uint64_t first, deadline = clock_now_ns() + 10 * NSEC_PER_SEC;

		while (!(first = rig_first_ns(&rig, pid[i])) && clock_now_ns() < deadline)
			clock_sleep_until_ns(clock_now_ns() + 20 * NSEC_PER_MSEC);
		if (!first)
			bench_die("program %zu ran no kernel", i + 1);
		t0 = first > t0 ? first : t0;
	}
	t0 += NSEC_PER_SEC;
	clock_sleep_until_ns(t0 + wall + 100 * NSEC_PER_MSEC);
	busy = rig_share(&rig, 0, 0, t0, t0 + wall);
	if (ret_gaps)
		collect(&rig, t0, t0 + wall, ret_gaps);
	rig_done(&rig);
	return busy;
}

int main(int argc, char **argv)
{
	static const char *const loads[] = {
		"--kernel-us 20", "--kernel-us 1000", "--kernel-us 50 --graphs 20"};
	static const char *const load_name[] = {"20 us kernels", "1 ms kernels", "graphs of 1 ms"};
	static const int factor[] = {0, 1, 3};
	double worst = 2, worst_unshared = 2;
	unsigned int n = 0;
	char where[96] = "", where_unshared[96] = "";
	struct gaps gaps = {0};

	bench_init("busy", argc, argv);
	for (size_t l = 0; l < ARRAY_SIZE(loads); l++) {
		for (size_t f = 0; f < ARRAY_SIZE(factor); f++) {
			int us = factor[f] * SWITCH_US;
			struct gaps here = {0};
			double alone, unshared, shared;
			char name[96];

			snprintf(name, sizeof(name), "%s, switch %d us", load_name[l], us);
			if (!bench_wants(name))
				continue;
			alone = run(RIG_BARE, 1, us, loads[l], NULL);
			n++;
			unshared = run(RIG_BARE, TENANTS, us, loads[l], NULL) / alone;
			shared = run(RIG_SHARED, TENANTS, us, loads[l], &here) / alone;

			bench_note("%s, switch %d us: shared %.4f, unshared %.4f of alone (%.4f)",
				load_name[l], us, shared, unshared, alone);
			if (shared < worst) {
				worst = shared;
				snprintf(
					where, sizeof(where), "%s, switch %d us", load_name[l], us);
			}
			if (unshared < worst_unshared) {
				worst_unshared = unshared;
				snprintf(where_unshared, sizeof(where_unshared), "%s, switch %d us",
					load_name[l], us);
			}
			gaps.us = reallocarray(gaps.us, gaps.n + here.n + 1, sizeof(*gaps.us));
			for (size_t i = 0; i < here.n; i++)
				gaps.us[gaps.n++] = here.us[i];
			free(here.us);
		}
	}
	bench_metric("busy.fraction", worst, "", ">= 0.98", n, true, where);
	bench_metric("busy.unshared_fraction", worst_unshared, "", "", n, true, where_unshared);
	bench_sort(gaps.us, gaps.n);
	bench_metric("handover.us_p50", bench_quantile(gaps.us, gaps.n, 0.5), "us", "<= 30",
		(unsigned int)gaps.n, true, "beyond the switch itself");
	bench_metric("handover.us_p99", bench_quantile(gaps.us, gaps.n, 0.99), "us", "",
		(unsigned int)gaps.n, true, "beyond the switch itself");
	free(gaps.us);
	return bench_done();
}
