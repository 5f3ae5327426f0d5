/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shares.*: how far each tenant's share of the device is from what it is entitled to, over every
 * sliding window of 1 s and 10 s (step 10 ms, from 2 s after the last one started), worst over the
 * mixes of tenants and of kernels below. Share is kernel time in the device's trace / wall time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "bench/bench.h"

#define TENANTS_MAX 3
#define STEP_NS (10 * NSEC_PER_MSEC)
#define WARM_UP_NS (2 * NSEC_PER_SEC)
#define MILLION 1000000.0

struct mix {
	const char *name;
	const char *spec[TENANTS_MAX];
	uint32_t entitled[TENANTS_MAX]; /* millionths of the device, by section 4.3's rule */
	uint32_t limit[TENANTS_MAX];    /* permille */
	size_t n;
};

static const struct mix mixes[] = {
	{"30:70", {"--request 0.3", "--request 0.7"}, {300000, 700000}, {1000, 1000}, 2},
	{"10:90", {"--request 0.1", "--request 0.9"}, {100000, 900000}, {1000, 1000}, 2},
	{"25:25:50", {"--request 0.25", "--request 0.25", "--request 0.5"},
		{250000, 250000, 500000}, {1000, 1000, 1000}, 3},
	{"0.4..0.7+0.6..0.8", {"--request 0.4 --limit 0.7", "--request 0.6 --limit 0.8"},
		{400000, 600000}, {700, 800}, 2},
	{"0.2..0.3+0.3..0.5+0.1..1",
		{"--request 0.2 --limit 0.3", "--request 0.3 --limit 0.5",
			"--request 0.1 --limit 1"},
		{300000, 350000, 350000}, {300, 500, 1000}, 3},
};

struct load {
	const char *name;
	const char *options;
	bool in_1s; /* kernels above 25 ms count in the 10 s figure only */
};

static const struct load loads[] = {
	{"20us", "--kernel-us 20", true},
	{"1ms", "--kernel-us 1000", true},
	{"20ms", "--kernel-us 20000", true},
	{"graphs", "--kernel-us 50 --graphs 40", true},
	{"cooperative", "--kernel-us 500 --cooperative", true},
	{"mixed", "--kernel-us 1000 --mixed", true},
	{"40ms", "--kernel-us 40000", false},
};

struct worst {
	double pp;
	char where[96];
};

static void keep(
	struct worst *w, double pp, const struct mix *mix, const struct load *load, size_t tenant)
{
	if (pp <= w->pp)
		return;
	w->pp = pp;
	snprintf(w->where, sizeof(w->where), "%s, %s kernels, tenant %zu", mix->name, load->name,
		tenant + 1);
}

static void measure(const struct mix *mix, const struct load *load, struct worst *w1,
	struct worst *w10, struct worst *over)
{
	struct rig rig;
	pid_t pid[TENANTS_MAX];
	char command[256];
	uint64_t t0 = 0, t1;
	double here1 = 0, here10 = 0;

	rig_init(&rig, RIG_SHARED, "1xH200-141Gi", "", NULL);
	snprintf(command, sizeof(command), "%s %s --duration %d --quiet",
		bench_built("tests/programs/spin"), load->options, bench_quick() ? 6 : 15);
	for (size_t i = 0; i < mix->n; i++)
		pid[i] = rig_start(&rig, mix->spec[i], command);
	for (size_t i = 0; i < mix->n; i++)
		if (rig_wait(&rig, pid[i]) != 0)
			bench_die("%s, %s: a tenant failed", mix->name, load->name);
	for (size_t i = 0; i < mix->n; i++) {
		uint64_t first = rig_first_ns(&rig, pid[i]);

		if (!first)
			bench_die("%s, %s: tenant %zu ran no kernel", mix->name, load->name, i + 1);
		t0 = first > t0 ? first : t0;
	}
	/* The first to start is the first to end. */
	t1 = rig_first_ns(&rig, pid[0]) + (bench_quick() ? 6 : 15) * NSEC_PER_SEC -
		200 * NSEC_PER_MSEC;
	t0 += WARM_UP_NS;
	for (size_t i = 0; i < mix->n; i++) {
		struct sim_busy busy;
		double pp1, pp10, over_ms;

		if (sim_busy_load(
			    rig_trace(&rig), &pid[i], 1, 0, SIM_ENGINE_COMPUTE, t0, t1, &busy) < 0)
			bench_die("read the trace: out of memory");
		pp1 = (double)sim_busy_worst_window(
			      &busy, t0, t1, NSEC_PER_SEC, STEP_NS, mix->entitled[i], NULL) /
			MILLION * 100;
		pp10 = (double)sim_busy_worst_window(&busy, t0, t1,
			       bench_quick() ? t1 - t0 : 10 * NSEC_PER_SEC, STEP_NS,
			       mix->entitled[i], NULL) /
			MILLION * 100;
		over_ms = (double)sim_busy_max_window(&busy, t0, t1, NSEC_PER_SEC, STEP_NS) / 1e6 -
			(double)mix->limit[i];
		if (load->in_1s)
			keep(w1, pp1, mix, load, i);
		keep(w10, pp10, mix, load, i);
		keep(over, over_ms, mix, load, i);
		here1 = pp1 > here1 ? pp1 : here1;
		here10 = pp10 > here10 ? pp10 : here10;
		sim_busy_done(&busy);
	}
	bench_note("%s, %s kernels: %.2f pp over 1 s, %.2f pp over 10 s, device busy %.4f",
		mix->name, load->name, here1, here10, rig_share(&rig, 0, 0, t0, t1));
	rig_done(&rig);
}

/* Arrivals at 0, 20 and 40 s; the entitlements of those present, by water-filling. */
static void staggered(void)
{
	static const char *const spec[] = {"--request 0.3 --limit 0.6", "--request 0.4 --limit 0.6",
		"--request 0.3 --limit 0.5"};
	static const double entitled[3][3] = {{0.6}, {0.5, 0.5}, {0.3, 0.4, 0.3}};
	const uint64_t phase = (bench_quick() ? 5 : 20) * NSEC_PER_SEC;
	struct rig rig;
	pid_t pid[3];
	uint64_t start[4];
	double worst = 0;

	rig_init(&rig, RIG_SHARED, "1xH200-141Gi", "", NULL);
	for (size_t i = 0; i < 3; i++) {
		char command[256];

		snprintf(command, sizeof(command), "%s --kernel-us 1000 --quiet",
			bench_built("tests/programs/spin"));
		start[i] = clock_now_ns();
		pid[i] = rig_start(&rig, spec[i], command);
		clock_sleep_until_ns(start[i] + phase);
	}
	start[3] = clock_now_ns();
	for (size_t p = 0; p < 3; p++) {
		for (size_t i = 0; i <= p; i++) {
			double got = rig_share(&rig, pid[i], 0, start[p] + WARM_UP_NS,
				start[p + 1] - 100 * NSEC_PER_MSEC);
			double pp = 100 *
				(got > entitled[p][i] ? got - entitled[p][i]
						      : entitled[p][i] - got);

			bench_note(
				"staggered, %zu present: tenant %zu is entitled to %.2f, got %.4f",
				p + 1, i + 1, entitled[p][i], got);
			worst = pp > worst ? pp : worst;
		}
	}
	bench_metric("shares.staggered_error_pp", worst, "pp", "<= 1", 6, true,
		"0.6; 0.5/0.5; 0.3/0.4/0.3");
	rig_done(&rig);
}

static bool is_wanted(const struct mix *mix, const struct load *load)
{
	char name[96];

	snprintf(name, sizeof(name), "%s, %s kernels", mix->name, load->name);
	return bench_wants(name);
}

int main(int argc, char **argv)
{
	struct worst w1 = {-1, ""}, w10 = {-1, ""}, over = {-1e9, ""};

	bench_init("shares", argc, argv);
	for (size_t m = 0; m < ARRAY_SIZE(mixes); m++)
		for (size_t l = 0; l < ARRAY_SIZE(loads); l++)
			if (is_wanted(&mixes[m], &loads[l]))
				measure(&mixes[m], &loads[l], &w1, &w10, &over);
	bench_metric("shares.error_pp_10s", w10.pp, "pp", "<= 1",
		ARRAY_SIZE(mixes) * ARRAY_SIZE(loads), true, w10.where);
	bench_metric("shares.error_pp_1s", w1.pp, "pp", "<= 3",
		ARRAY_SIZE(mixes) * ARRAY_SIZE(loads), true, w1.where);
	bench_metric("shares.over_limit_ms", over.pp, "ms", "<= 30",
		ARRAY_SIZE(mixes) * ARRAY_SIZE(loads), true, over.where);
	if (bench_wants("staggered"))
		staggered();
	return bench_done();
}
