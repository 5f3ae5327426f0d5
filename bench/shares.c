/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shares.*: how far each tenant's share of the device is from its entitlement: the largest error
 * over all sliding windows of 1 s and of 10 s, and over the mixes of tenants and of kernels below.
 * Windows begin every 10 ms, from 2 s after the last tenant has started. A share is the kernel time
 * in the device's trace, divided by the wall time. For comparison, some of the programs also run
 * alone, and all together without divvy.
 *
 * shares.busy_host_*: the same errors, with one endless loop on each processor beside the programs.
 * shares.cpu_quota_*: the same errors, while each program has a quota of half a processor, which is
 * more than it needs. Idle time is wall time in which the device neither runs a kernel nor switches
 * between contexts, although a tenant has work. In this bench all tenants always have work.
 *
 * shares.cpu_throttled_*: programs that need 0.7 of a processor for their entitlement and get half
 * of one, so that the kernel stops each of them again and again. In this case, a program is
 * entitled to the share that it reaches under its quota on a device of its own. Idle is the part of
 * these shares that the programs lose on a shared device. Nothing outside a program shows whether
 * the program is stopped at an instant, so idle_raw is all time in which the device is idle.
 *
 * shares.unstalled_*: the same errors, only over windows in which the host of a virtual machine
 * stopped none of its processors for 2 ms or longer. The half second before such a window must be
 * free of these stops too, because tenants regain their lags in it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "bench/bench.h"
#include "bench/host.h"

#define TENANTS_MAX 3
#define STEP_NS (10 * NSEC_PER_MSEC)
#define WARM_UP_NS (2 * NSEC_PER_SEC)
#define MILLION 1000000.0
#define AFTER_STALL_NS (500 * NSEC_PER_MSEC)

struct mix {
	const char *name;
	const char *spec[TENANTS_MAX];
	uint32_t entitled[TENANTS_MAX]; /* millionths of the device, by water-filling */
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
	/*
	 * the largest error over windows of 1 s includes this load; false for kernels of over 25 ms
	 */
	bool in_1s;
	bool unshared; /* also measured without divvy, which doubles the time */
};

static const struct load loads[] = {
	{"20us", "--kernel-us 20", true, false},
	{"1ms", "--kernel-us 1000", true, true},
	{"20ms", "--kernel-us 20000", true, false},
	{"graphs", "--kernel-us 50 --graphs 40", true, false},
	{"cooperative", "--kernel-us 500 --cooperative", true, false},
	{"mixed", "--kernel-us 1000 --mixed", true, true},
	{"40ms", "--kernel-us 40000", false, false},
};

/*
 * As mixed, but all launches look alike: the kernel's length is an argument, so that nothing shows
 * the length before the launch.
 */
static const struct load alike = {"alike", "--kernel-us 1000 --mixed --alike", true, false};

struct worst {
	double pp;
	char where[96];
};

/* The worst values of all tenants in n runs; each run has one mix of tenants and one load. */
struct worsts {
	struct worst pp_1s, pp_10s, over_ms, idle;
	unsigned int n;
	struct worst unstalled_1s, unstalled_10s;
	/* number of tenants, over all runs, that have a window without a stall */
	unsigned int n_unstalled_1s, n_unstalled_10s;
};

#define WORST_NONE \
	{ \
		-1e9, "" \
	}
#define WORSTS_NONE \
	{ \
		.pp_1s = WORST_NONE, .pp_10s = WORST_NONE, .over_ms = WORST_NONE, \
		.idle = WORST_NONE, .unstalled_1s = WORST_NONE, .unstalled_10s = WORST_NONE, \
	}

static void keep(
	struct worst *w, double pp, const struct mix *mix, const struct load *load, size_t tenant)
{
	if (pp <= w->pp)
		return;
	w->pp = pp;
	snprintf(w->where, sizeof(w->where), "%s, %s kernels, tenant %zu", mix->name, load->name,
		tenant + 1);
}

/* Programs of n tenants and the time in which all ran, from 2 s after the last one started. */
struct crowd {
	struct rig rig;
	struct host host;
	pid_t pid[TENANTS_MAX];
	uint64_t t0, t1;
	const struct host_stall *stalls;
	size_t n_stalls;
	bool is_apart;                 /* each program has a device of its own */
	uint32_t host_us[TENANTS_MAX]; /* spin's --host-us */
};

/* Runs n programs, with options `spec`, to their end. Their traces remain until rig_done. */
static void crowd_run(struct crowd *c, enum rig_mode mode, const char *const *spec, size_t n,
	const struct load *load)
{
	const int seconds = bench_quick() ? 6 : 15;
	char devices[32], command[320];

	c->t0 = 0;
	snprintf(devices, sizeof(devices), "%zuxH200-141Gi", c->is_apart ? n : (size_t)1);
	rig_init(&c->rig, mode, devices, "", NULL);
	for (size_t i = 0; i < n; i++) {
		snprintf(command, sizeof(command),
			"%s %s --duration %d --quiet --host-us %u --device %zu",
			bench_built("tests/programs/spin"), load->options, seconds, c->host_us[i],
			c->is_apart ? i : (size_t)0);
		c->pid[i] = rig_start(&c->rig, spec[i], command);
		host_add(&c->host, c->pid[i]);
	}
	for (size_t i = 0; i < n; i++)
		if (rig_wait(&c->rig, c->pid[i]) != 0)
			bench_die("%s kernels: tenant %zu of %zu failed", load->name, i + 1, n);
	for (size_t i = 0; i < n; i++) {
		uint64_t first = rig_first_ns(&c->rig, c->pid[i]);

		if (!first)
			bench_die("%s kernels: tenant %zu of %zu ran none", load->name, i + 1, n);
		c->t0 = MAX(c->t0, first);
	}
	/* The measured time ends with the program that started first. */
	c->t1 = rig_first_ns(&c->rig, c->pid[0]) + (uint64_t)seconds * NSEC_PER_SEC -
		200 * NSEC_PER_MSEC;
	c->t0 += WARM_UP_NS;
	if (c->t1 < c->t0 + (bench_quick() ? 2 : 10) * NSEC_PER_SEC)
		bench_die(
			"%s kernels: %zu tenants ran together for too short a time", load->name, n);
}

/*
 * The fraction of [t0, t1) in which the device was idle. All tenants have work in all of that time.
 */
static double idle_part(struct crowd *c)
{
	struct simgpu_handover *v = NULL;
	uint64_t switching_ns = 0;
	size_t n = 0;

	if (simgpu_trace_handovers(rig_trace(&c->rig), 0, c->t0, c->t1, &v, &n) < 0)
		bench_die("read the trace: out of memory");
	for (size_t i = 0; i < n; i++)
		switching_ns += MIN(v[i].switch_ns, v[i].gap_ns);
	free(v);
	return 1 - rig_share(&c->rig, 0, 0, c->t0, c->t1) -
		(double)switching_ns / (double)(c->t1 - c->t0);
}

static double worst_pp(const struct simgpu_busy *busy, uint64_t from, uint64_t to,
	uint64_t window_ns, uint64_t entitled)
{
	return (double)simgpu_busy_worst_window(
		       busy, from, to, window_ns, STEP_NS, entitled, NULL) /
		MILLION * 100;
}

static double worst_pp_10s(const struct crowd *c, const struct simgpu_busy *busy, uint64_t entitled)
{
	const uint64_t window_ns = bench_quick() ? c->t1 - c->t0 : 10 * NSEC_PER_SEC;

	return worst_pp(busy, c->t0, c->t1, window_ns, entitled);
}

/*
 * Returns the worst error over windows without a stall, in points; -1: every window of this length
 * has a stall.
 */
static double worst_unstalled(const struct crowd *c, const struct simgpu_busy *busy,
	uint64_t window_ns, uint64_t entitled)
{
	uint64_t from = c->t0;
	double worst = -1;

	for (size_t i = 0; i <= c->n_stalls; i++) {
		const struct host_stall *stall = i < c->n_stalls ? &c->stalls[i] : NULL;
		uint64_t to = stall ? MIN(stall->end_ns - stall->ns, c->t1) : c->t1;

		if (to >= from + window_ns)
			worst = MAX(worst, worst_pp(busy, from, to, window_ns, entitled));
		if (stall)
			from = MAX(from, stall->end_ns + AFTER_STALL_NS);
	}
	return worst;
}

static void keep_unstalled(struct worst *w, unsigned int *n, double pp, const struct mix *mix,
	const struct load *load, size_t tenant)
{
	if (pp < 0)
		return;
	keep(w, pp, mix, load, tenant);
	++*n;
}

/* Compares the crowd's shares with the entitlements of this mix of tenants. */
static void judge(
	struct crowd *c, const struct mix *mix, const struct load *load, struct worsts *ret)
{
	const uint64_t t0 = c->t0, t1 = c->t1;
	const double idle = idle_part(c);
	double here1 = 0, here10 = 0;

	for (size_t i = 0; i < mix->n; i++) {
		struct simgpu_busy busy;
		double pp1, pp10, over_ms;

		rig_busy(&c->rig, c->pid[i], 0, t0, t1, &busy);
		pp1 = worst_pp(&busy, t0, t1, NSEC_PER_SEC, mix->entitled[i]);
		pp10 = worst_pp_10s(c, &busy, mix->entitled[i]);
		over_ms = (double)simgpu_busy_max_window(&busy, t0, t1, NSEC_PER_SEC, STEP_NS) /
				1e6 -
			(double)mix->limit[i];
		if (load->in_1s) {
			keep(&ret->pp_1s, pp1, mix, load, i);
			keep_unstalled(&ret->unstalled_1s, &ret->n_unstalled_1s,
				worst_unstalled(c, &busy, NSEC_PER_SEC, mix->entitled[i]), mix,
				load, i);
		}
		keep_unstalled(&ret->unstalled_10s, &ret->n_unstalled_10s,
			worst_unstalled(c, &busy, 10 * NSEC_PER_SEC, mix->entitled[i]), mix, load,
			i);
		keep(&ret->pp_10s, pp10, mix, load, i);
		keep(&ret->over_ms, over_ms, mix, load, i);
		here1 = pp1 > here1 ? pp1 : here1;
		here10 = pp10 > here10 ? pp10 : here10;
		simgpu_busy_done(&busy);
	}
	keep(&ret->idle, idle, mix, load, 0);
	ret->n++;
	bench_note("%s, %s kernels%s: %.2f pp over 1 s, %.2f pp over 10 s, device busy %.4f, idle "
		   "%.4f, stalls %zu",
		mix->name, load->name, c->rig.mode == RIG_BARE ? ", unshared" : "", here1, here10,
		rig_share(&c->rig, 0, 0, t0, t1), idle, c->n_stalls);
}

static bool is_wanted(const struct mix *mix, const struct load *load)
{
	char name[96];

	snprintf(name, sizeof(name), "%s, %s kernels", mix->name, load->name);
	return bench_wants(name);
}

static void shared(const struct load *load, struct worsts *ret)
{
	struct crowd c = {0};

	for (size_t m = 0; m < ARRAY_SIZE(mixes); m++) {
		if (!is_wanted(&mixes[m], load))
			continue;
		host_watch_start();
		crowd_run(&c, RIG_SHARED, mixes[m].spec, mixes[m].n, load);
		c.n_stalls = host_watch_stop(&c.stalls);
		judge(&c, &mixes[m], load, ret);
		rig_done(&c.rig);
	}
}

static void report_on_host(const char *host, const char *what, const struct worst *worst,
	const char *unit, const char *goal, unsigned int n)
{
	char metric[64];

	snprintf(metric, sizeof(metric), "shares.%s_%s", host, what);
	bench_metric(metric, worst->pp, unit, goal, n, true, worst->where);
}

/*
 * Measures the errors of all mixes, with kernels of 20 us, 500 us and mixed lengths, under this
 * host load.
 */
static void on_host(enum host_load host, const char *name)
{
	static const size_t some[] = {0, 4, 5};
	struct worsts w = WORSTS_NONE;
	struct crowd c = {0};

	for (size_t l = 0; l < ARRAY_SIZE(some); l++) {
		for (size_t m = 0; m < ARRAY_SIZE(mixes); m++) {
			char text[96];

			snprintf(text, sizeof(text), "%s, %s, %s kernels", name, mixes[m].name,
				loads[some[l]].name);
			if (!bench_wants(text))
				continue;
			if (!host_init(&c.host, host))
				return;
			crowd_run(&c, RIG_SHARED, mixes[m].spec, mixes[m].n, &loads[some[l]]);
			judge(&c, &mixes[m], &loads[some[l]], &w);
			rig_done(&c.rig);
			host_done(&c.host);
		}
	}
	if (w.n == 0)
		return;
	report_on_host(name, "error_pp_10s", &w.pp_10s, "pp", "<= 2", w.n);
	report_on_host(name, "error_pp_1s", &w.pp_1s, "pp", "", w.n);
	report_on_host(name, "idle", &w.idle, "", "<= 0.03", w.n);
}

/* Each program needs 0.7 of a processor to use its entitlement, and its quota is 0.5. */
#define NEEDED_PERMILLE 700u

struct throttled {
	/* errors against the programs' usable shares, and the raw idle time */
	struct worsts errors;
	/* the part of the sum of the programs' usable shares that they lose on a shared device */
	struct worst lost;
	struct worst apart; /* error over 10 s of a program on its own device */
	/*
	 * fraction of the scheduling periods in which the quota stopped a program; the smallest of
	 * all programs
	 */
	double least_throttled;
};

static bool run_throttled(struct crowd *c, enum rig_mode mode, const struct mix *mix,
	const struct load *load, struct throttled *t)
{
	double part;

	if (!host_init(&c->host, HOST_QUOTA))
		return false;
	crowd_run(c, mode, mix->spec, mix->n, load);
	part = host_throttled(&c->host);
	if (part <= 0)
		bench_note("%s, %s kernels: the quotas have not stopped every program: this "
			   "measures something easier",
			mix->name, load->name);
	t->least_throttled = MIN(t->least_throttled, part);
	return true;
}

/*
 * A program's usable share under its quota is its use of a device of its own, without divvy, while
 * the other programs run on their own devices.
 */
static bool throttle(const struct mix *mix, const struct load *load, struct throttled *t)
{
	struct crowd c = {.is_apart = true};
	struct mix usable = *mix;
	double sum = 0;

	for (size_t i = 0; i < mix->n; i++)
		c.host_us[i] = (uint32_t)(NEEDED_PERMILLE * MILLION / mix->entitled[i]);
	if (!run_throttled(&c, RIG_BARE, mix, load, t))
		return false;
	for (size_t i = 0; i < mix->n; i++) {
		struct simgpu_busy busy;
		double share;

		rig_busy(&c.rig, c.pid[i], (int)i, c.t0, c.t1, &busy);
		share = (double)simgpu_busy_ns(&busy, c.t0, c.t1) / (double)(c.t1 - c.t0);
		usable.entitled[i] = (uint32_t)(share * MILLION);
		sum += share;
		keep(&t->apart, worst_pp_10s(&c, &busy, usable.entitled[i]), mix, load, i);
		simgpu_busy_done(&busy);
		bench_note("%s, %s kernels: tenant %zu can use %.4f", mix->name, load->name, i + 1,
			share);
	}
	rig_done(&c.rig);
	host_done(&c.host);
	c.is_apart = false;
	if (!run_throttled(&c, RIG_SHARED, mix, load, t))
		return false;
	judge(&c, &usable, load, &t->errors);
	keep(&t->lost, idle_part(&c) - (1 - sum), mix, load, 0);
	rig_done(&c.rig);
	host_done(&c.host);
	return true;
}

static void throttled(void)
{
	static const size_t some[] = {1, 5};
	static const char name[] = "cpu_throttled";
	struct throttled t = {.errors = WORSTS_NONE,
		.lost = WORST_NONE,
		.apart = WORST_NONE,
		.least_throttled = 1};
	char part[64];

	for (size_t l = 0; l < ARRAY_SIZE(some); l++) {
		for (size_t m = 0; m < ARRAY_SIZE(mixes); m++) {
			char text[96];

			snprintf(text, sizeof(text), "%s, %s, %s kernels", name, mixes[m].name,
				loads[some[l]].name);
			if (bench_wants(text) && !throttle(&mixes[m], &loads[some[l]], &t))
				return;
		}
	}
	if (t.errors.n == 0)
		return;
	report_on_host(name, "error_pp_10s", &t.errors.pp_10s, "pp", "<= 2", t.errors.n);
	report_on_host(name, "error_pp_1s", &t.errors.pp_1s, "pp", "", t.errors.n);
	report_on_host(name, "apart_error_pp_10s", &t.apart, "pp", "", t.errors.n);
	report_on_host(name, "idle", &t.lost, "", "<= 0.03", t.errors.n);
	report_on_host(name, "idle_raw", &t.errors.idle, "", "", t.errors.n);
	snprintf(part, sizeof(part), "shares.%s_periods", name);
	bench_metric(part, t.least_throttled, "", "", t.errors.n, true,
		"part of the quota's periods that stopped a program, the least of all");
}

/*
 * Without divvy, requests and limits have no effect, so one run serves all mixes with this number
 * of tenants.
 */
static void unshared(const struct load *load, struct worsts *ret)
{
	struct crowd c = {0};

	for (size_t n = 2; n <= TENANTS_MAX; n++) {
		bool is_run = false;

		for (size_t m = 0; m < ARRAY_SIZE(mixes); m++) {
			if (mixes[m].n != n || !is_wanted(&mixes[m], load))
				continue;
			if (!is_run)
				crowd_run(&c, RIG_BARE, mixes[m].spec, n, load);
			is_run = true;
			judge(&c, &mixes[m], load, ret);
		}
		if (is_run)
			rig_done(&c.rig);
	}
}

/* The share of the device that the program uses alone. */
static double alone(const struct load *load)
{
	struct crowd c = {0};
	double share;

	crowd_run(&c, RIG_BARE, mixes[0].spec, 1, load);
	share = rig_share(&c.rig, c.pid[0], 0, c.t0, c.t1);
	bench_note("alone, %s kernels: device busy %.4f", load->name, share);
	rig_done(&c.rig);
	return share;
}

static void compare(void)
{
	struct worsts w = WORSTS_NONE, untold = w;
	char where[96] = "";
	double least = 2;
	unsigned int n = 0;

	for (size_t l = 0; l < ARRAY_SIZE(loads); l++) {
		double share;

		if (!loads[l].unshared)
			continue;
		unshared(&loads[l], &w);
		if (!bench_wants("alone"))
			continue;
		share = alone(&loads[l]);
		n++;
		if (share < least)
			snprintf(where, sizeof(where), "%s kernels", loads[l].name);
		least = share < least ? share : least;
	}
	if (w.n > 0) {
		bench_metric("shares.unshared_error_pp_10s", w.pp_10s.pp, "pp", "", w.n, true,
			w.pp_10s.where);
		bench_metric("shares.unshared_error_pp_1s", w.pp_1s.pp, "pp", "", w.n, true,
			w.pp_1s.where);
	}
	if (n > 0)
		bench_metric("shares.alone_busy", least, "", "", n, true, where);
	shared(&alike, &untold);
	if (untold.n > 0) {
		bench_metric("shares.alike_error_pp_10s", untold.pp_10s.pp, "pp", "", untold.n,
			true, untold.pp_10s.where);
		bench_metric("shares.alike_error_pp_1s", untold.pp_1s.pp, "pp", "", untold.n, true,
			untold.pp_1s.where);
	}
}

/*
 * Arrivals at 0, 20 and 40 s; water-filling gives the entitlements of the tenants that have
 * arrived.
 */
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

int main(int argc, char **argv)
{
	struct worsts w = WORSTS_NONE;

	bench_init("shares", argc, argv);
	for (size_t l = 0; l < ARRAY_SIZE(loads); l++)
		shared(&loads[l], &w);
	if (w.n > 0) {
		bench_metric("shares.error_pp_10s", w.pp_10s.pp, "pp", "<= 0.7", w.n, true,
			w.pp_10s.where);
		bench_metric(
			"shares.error_pp_1s", w.pp_1s.pp, "pp", "<= 2.5", w.n, true, w.pp_1s.where);
		bench_metric("shares.over_limit_ms", w.over_ms.pp, "ms", "<= 30", w.n, true,
			w.over_ms.where);
		bench_metric("shares.idle", w.idle.pp, "", "", w.n, true, w.idle.where);
	}
	if (w.n_unstalled_10s > 0)
		bench_metric("shares.unstalled_error_pp_10s", w.unstalled_10s.pp, "pp", "<= 0.7",
			w.n_unstalled_10s, true, w.unstalled_10s.where);
	if (w.n_unstalled_1s > 0)
		bench_metric("shares.unstalled_error_pp_1s", w.unstalled_1s.pp, "pp", "<= 2.5",
			w.n_unstalled_1s, true, w.unstalled_1s.where);
	compare();
	if (bench_wants("staggered"))
		staggered();
	on_host(HOST_BUSY, "busy_host");
	on_host(HOST_QUOTA, "cpu_quota");
	throttled();
	return bench_done();
}
