/* SPDX-License-Identifier: Apache-2.0 */
/*
 * churn.*: the allocated part of a cluster, and the waiting time of tasks, while tasks arrive and
 * end. `divvy sim --draw 10` draws ten times as many tasks as an OpenB trace (traces.h) has, with
 * replacement, and lets them arrive by Poisson. The tasks request as much as all devices of the
 * cluster together, which is more than placement can allocate, so some tasks always wait. Every
 * task has an exponential duration with a mean of one hour. The bench does not use the traces' own
 * durations: a few tasks of more than 50 days have half of the device time, so the load would never
 * be steady, and some traces have no durations.
 *
 * A task that does not fit waits and blocks no other task. `alloc` is the mean over the last two
 * thirds of the arrivals, when the cluster has filled; waiting times are those of all tasks. With
 * defragmentation, the simulation makes up to 100 moves every ten minutes if a task waits for a
 * whole device. Each move costs the moved task 30 s. All policies get the same tasks, so the bench
 * compares them seed by seed.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "bench/bench.h"
#include "bench/traces.h"
#include "replay/stats.h"

#define SEEDS 5u
#define QUICK_SEEDS 2u
#define POLICIES 3u

enum { DEFAULT, FGD, BEST_FIT };
static const char *const policies[POLICIES] = {"default", "fgd", "best-fit"};

enum figure { ALLOC, QUEUED, QUEUED_P95, MOVES, FIGURES };

struct runs {
	double at[POLICIES][FIGURES][SEEDS];
	size_t n;
	double tasks;
};

/* The runs without and with defragmentation. */
static const struct {
	const char *option, *infix;
} kinds[] = {{"", ""}, {"--defrag 10m,100,30s", ".defrag"}};

/* ---- running ---- */

static double number(json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

static void collect(json_t *result, struct runs *ret)
{
	json_t *list = json_object_get(result, "policies"), *one, *run;
	size_t p, i;

	*ret = (struct runs){.n = bench_quick() ? QUICK_SEEDS : SEEDS};
	json_array_foreach(list, p, one) {
		json_array_foreach(json_object_get(one, "runs"), i, run) {
			if (i >= ret->n || p >= POLICIES)
				bench_die("divvy sim answered more than was asked");
			ret->at[p][ALLOC][i] = number(run, "allocated_steady");
			ret->at[p][QUEUED][i] = number(run, "queued_mean_s") / 60;
			ret->at[p][QUEUED_P95][i] =
				json_number_value(json_array_get(
					json_object_get(run, "queued_s_hundredths"), 95)) /
				60;
			ret->at[p][MOVES][i] = number(run, "moves");
			ret->tasks = number(run, "tasks");
		}
	}
	json_decref(result);
}

/* Runs both kinds at once: each needs one processor. */
static void run_trace(const char *trace, struct runs ret[static ARRAY_SIZE(kinds)])
{
	struct traces_run runs[ARRAY_SIZE(kinds)];

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		char options[256];

		snprintf(options, sizeof(options),
			"--draw %u --duration 1h --load 1 --policy default,fgd,best-fit --seeds "
			"%u %s",
			bench_quick() ? 4 : 10, bench_quick() ? QUICK_SEEDS : SEEDS,
			kinds[k].option);
		runs[k] = traces_start(trace, options);
	}
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
		collect(traces_finish(&runs[k]), &ret[k]);
}

/* ---- results ---- */

static void report_one(const char *trace, size_t kind, size_t policy, const struct runs *runs)
{
	static const struct {
		const char *name, *unit;
	} figures[FIGURES] = {
		{"alloc", "%"}, {"queued_min", "min"}, {"queued_p95_min", "min"}, {"moves", ""}};

	for (size_t f = 0; f < (kind ? FIGURES : MOVES); f++) {
		const double *x = runs->at[policy][f];
		char name[96], detail[96];

		snprintf(name, sizeof(name), "churn.%s.%s%s.%s", trace, policies[policy],
			kinds[kind].infix, figures[f].name);
		snprintf(detail, sizeof(detail), "+-%.2f (95 %%), of %.0f tasks",
			stats_interval(x, runs->n), runs->tasks);
		bench_metric(name, stats_mean(x, runs->n), figures[f].unit, "",
			(unsigned int)runs->n, true, detail);
	}
}

/* Reports the difference of two results, seed by seed. */
static double report_less(
	const char *name, const char *unit, const double *a, const double *b, size_t n)
{
	double d[SEEDS], mean;
	char detail[96];

	for (size_t i = 0; i < n; i++)
		d[i] = a[i] - b[i];
	mean = stats_mean(d, n);
	snprintf(detail, sizeof(detail), "+-%.2f (95 %%), paired", stats_interval(d, n));
	bench_metric(name, mean, unit, "", (unsigned int)n, true, detail);
	return mean;
}

static void report_default_less(
	const char *trace, size_t kind, size_t other, const struct runs *runs, double sum[2])
{
	char name[96];

	snprintf(name, sizeof(name), "churn.%s%s.less_%s.alloc", trace, kinds[kind].infix,
		policies[other]);
	sum[0] += report_less(
		name, "pp", runs->at[DEFAULT][ALLOC], runs->at[other][ALLOC], runs->n);
	snprintf(name, sizeof(name), "churn.%s%s.less_%s.queued_min", trace, kinds[kind].infix,
		policies[other]);
	sum[1] += report_less(
		name, "min", runs->at[DEFAULT][QUEUED], runs->at[other][QUEUED], runs->n);
}

static void report_mean(size_t kind, size_t other, const double sum[2], unsigned int n)
{
	char name[96], detail[96];

	snprintf(detail, sizeof(detail), "default less %s, mean of %u traces", policies[other], n);
	snprintf(name, sizeof(name), "churn.mean%s.less_%s.alloc", kinds[kind].infix,
		policies[other]);
	bench_metric(name, sum[0] / n, "pp", "", n, true, detail);
	snprintf(name, sizeof(name), "churn.mean%s.less_%s.queued_min", kinds[kind].infix,
		policies[other]);
	bench_metric(name, sum[1] / n, "min", "", n, true, detail);
}

int main(int argc, char **argv)
{
	struct runs runs[ARRAY_SIZE(kinds)];
	double sums[ARRAY_SIZE(kinds)][POLICIES][2] = {0};
	unsigned int n = 0;

	bench_init("churn", argc, argv);
	if (!traces_folder())
		return 0;
	for (size_t t = 0; t < TRACES; t++) {
		if (!bench_wants(traces[t]) || (bench_quick() && t % 3))
			continue;
		bench_note("simulating %s, trace %zu of %d", traces[t], t + 1, TRACES);
		run_trace(traces[t], runs);
		n++;
		for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
			for (size_t p = 0; p < POLICIES; p++)
				report_one(traces[t], k, p, &runs[k]);
			for (size_t p = FGD; p < POLICIES; p++)
				report_default_less(traces[t], k, p, &runs[k], sums[k][p]);
		}
	}
	for (size_t k = 0; k < ARRAY_SIZE(kinds) && n; k++)
		for (size_t p = FGD; p < POLICIES; p++)
			report_mean(k, p, sums[k][p], n);
	return bench_done();
}
