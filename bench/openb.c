/* SPDX-License-Identifier: Apache-2.0 */
/*
 * openb.*: how much of a cluster placement can allocate, on the OpenB trace (Alibaba
 * cluster-trace-gpu-v2023) as Weng et al. use it (USENIX ATC 2023). Runs `divvy sim` on the traces
 * in the folder that DIVVY_OPENB names: openb_node_list_gpu_node.csv, openb_pod_list_<trace>.csv,
 * arrivals/<trace>.<seed>.txt and .perm for seeds 42 to 46, published.csv. Without the folder the
 * bench measures nothing. Further traces are derived in which other resources are scarce
 * (derive.h). All policies get the tasks in the same orders, so the bench compares the policies
 * order by order.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "bench/bench.h"
#include "bench/derive.h"
#include "bench/traces.h"
#include "replay/stats.h"

#define POLICIES 4u
#define GIVEN 5u  /* orders of arrival that come with the data */
#define DRAWN 20u /* orders of arrival that divvy sim draws, from seed 1000 on */
#define RUNS (GIVEN + DRAWN)

enum { FGD, BEST_FIT, DEFAULT, FIRST_FIT };
static const char *const policies[POLICIES] = {"fgd", "best-fit", "default", "first-fit"};
#define SIM_POLICIES "--policy fgd,best-fit,default,first-fit "
#define GPUSPEC33 1u /* index of gpuspec33, whose allocation at 100 % has a goal of its own */

/* Points at which results are read: what the arrived tasks request, in percent of the cluster. */
#define POINTS 7u
enum { AT_50, AT_70, AT_80, AT_90, AT_95, AT_100, AT_130 };
static const unsigned int points[POINTS] = {50, 70, 80, 90, 95, 100, 130};
#define EARLY_POINTS AT_100 /* points below the cluster's capacity */

/* Allocated percentage of the cluster at each point, for each policy and order of arrival. */
struct runs {
	double at[POINTS][POLICIES][RUNS];
	size_t n;
};

static const char *folder;

/* ---- running ---- */

static json_t *sim(const char *trace, const char *options)
{
	struct traces_run run = traces_start(trace, options);

	return traces_finish(&run);
}

static double allocated(json_t *run, unsigned int at)
{
	char name[32];

	snprintf(name, sizeof(name), "allocated_at_%u", at);
	return json_number_value(json_object_get(run, name));
}

static void collect(json_t *result, struct runs *to)
{
	json_t *list = json_object_get(result, "policies"), *one, *run;
	size_t p, i, n = 0;

	json_array_foreach(list, p, one) {
		json_array_foreach(json_object_get(one, "runs"), i, run) {
			if (to->n + i >= RUNS || p >= POLICIES)
				bench_die("divvy sim answered more than was asked");
			for (size_t point = 0; point < POINTS; point++)
				to->at[point][p][to->n + i] = allocated(run, points[point]);
		}
		n = i;
	}
	to->n += n;
	json_decref(result);
}

static void run_trace(const char *trace, struct runs *ret)
{
	char options[1024];

	*ret = (struct runs){.n = 0};
	bench_note("%s, the orders that are given", trace);
	snprintf(options, sizeof(options),
		SIM_POLICIES "--orders '%s/arrivals/%s.SEED.txt' --seeds 42-46", folder, trace);
	collect(sim(trace, options), ret);
	if (bench_quick())
		return;
	bench_note("%s, %u orders that are drawn", trace, DRAWN);
	snprintf(options, sizeof(options), SIM_POLICIES "--seeds 1000-%u", 1000 + DRAWN - 1);
	collect(sim(trace, options), ret);
}

/* Derived traces come without orders of arrival, so divvy sim draws an order for each seed. */
static void run_derived(const struct derived *of, struct runs *ret)
{
	char path[] = "/tmp/divvy-derived-XXXXXX", options[128];
	const int fd = mkstemp(path);
	struct traces_run run;

	*ret = (struct runs){.n = 0};
	bench_note("%s, made of %s", of->name, of->from);
	if (fd < 0)
		bench_die("cannot make %s", path);
	close(fd);
	derive(of, folder, path);
	snprintf(options, sizeof(options), SIM_POLICIES "--seeds 42-%u",
		42 + (bench_quick() ? 1 : GIVEN) - 1);
	run = traces_start_file(path, options);
	collect(traces_finish(&run), ret);
	unlink(path);
}

/* ---- what was published ---- */

/* The published allocated percentage when 100 or 130 % of the cluster has been requested. */
static double published(const char *trace, const char *policy, size_t point)
{
	char path[1024], line[256], name[64], as[64];
	double at[5], found = NAN;
	FILE *file;

	snprintf(path, sizeof(path), "%s/published.csv", folder);
	file = fopen(path, "re");
	if (!file)
		bench_die("cannot open %s", path);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%63[^,],%63[^,],%*[^,],%lf,%lf,%lf,%lf,%lf", name, as, &at[0],
			    &at[1], &at[2], &at[3], &at[4]) == 7 &&
			!strcmp(name, trace) && strlen(as) > 3 && !strcmp(as + 3, policy))
			found = at[point == AT_100 ? 2 : 4];
	}
	fclose(file);
	if (isnan(found))
		bench_die("%s has no line for %s, %s", path, trace, policy);
	return found;
}

/*
 * Averages the allocated percentage over the orders of arrival that come with the data. Returns the
 * largest difference of this mean from the published percentage, over FGD and best fit at 100 and
 * 130 %, or `most` if that is larger.
 */
static double compare(const char *trace, const struct runs *runs, double most)
{
	static const struct {
		size_t policy;
		const char *name;
	} of[] = {{FGD, "FGD"}, {BEST_FIT, "BestFit"}};

	for (size_t i = 0; i < ARRAY_SIZE(of); i++)
		for (size_t point = AT_100; point <= AT_130; point++) {
			double off = stats_mean(runs->at[point][of[i].policy], GIVEN) -
				published(trace, of[i].name, point);

			most = fabs(off) > most ? fabs(off) : most;
		}
	return most;
}

/* ---- results ---- */

static void report(const char *trace, const struct runs *runs)
{
	char name[64], detail[96];

	for (size_t p = 0; p < POLICIES; p++)
		for (size_t point = 0; point < POINTS; point++) {
			const double *x = runs->at[point][p];

			snprintf(name, sizeof(name), "openb.%s.%s.alloc%u", trace, policies[p],
				points[point]);
			snprintf(detail, sizeof(detail), "+-%.2f (95 %%)",
				stats_interval(x, runs->n));
			bench_metric(name, stats_mean(x, runs->n), "%", "", (unsigned int)runs->n,
				true, detail);
		}
}

/*
 * Reports the allocated percentage of the default policy less FGD's at this point, as the mean over
 * all orders of arrival.
 */
static double gain(const char *trace, const struct runs *runs, size_t point)
{
	double d[RUNS], mean;
	char name[64], detail[96];

	for (size_t i = 0; i < runs->n; i++)
		d[i] = runs->at[point][DEFAULT][i] - runs->at[point][FGD][i];
	mean = stats_mean(d, runs->n);
	snprintf(name, sizeof(name), "openb.%s.gain%u", trace, points[point]);
	snprintf(detail, sizeof(detail), "default less fgd, +-%.2f (95 %%), paired",
		stats_interval(d, runs->n));
	bench_metric(name, mean, "pp", point == AT_130 ? ">= -0.1" : ">= 0", (unsigned int)runs->n,
		true, detail);
	return mean;
}

/*
 * Reports the allocated percentage of the default policy less that of FGD or best fit, whichever
 * allocates more. The result is the smallest difference of all orders of arrival, at the points
 * from 50 to 95 %.
 */
static void behind(const char *trace, const struct runs *runs)
{
	char name[64], detail[96];
	double least = INFINITY;
	unsigned int where = 0;

	for (size_t point = 0; point < EARLY_POINTS; point++)
		for (size_t i = 0; i < runs->n; i++) {
			const double more = runs->at[point][DEFAULT][i] -
				fmax(runs->at[point][FGD][i], runs->at[point][BEST_FIT][i]);

			if (more < least) {
				least = more;
				where = points[point];
			}
		}
	snprintf(name, sizeof(name), "openb.%s.least_gain", trace);
	snprintf(detail, sizeof(detail),
		"default less the better of fgd and best-fit, the least of 50 to 95: at %u", where);
	bench_metric(name, least, "pp", ">= -0.1", (unsigned int)runs->n, true, detail);
}

int main(int argc, char **argv)
{
	double sum = 0, off = 0;
	size_t n_traces = 0;
	struct runs runs;

	bench_init("openb", argc, argv);
	folder = traces_folder();
	if (!folder)
		return 0;
	for (size_t t = 0; t < TRACES; t++) {
		double at_100;

		if (!bench_wants(traces[t]))
			continue;
		n_traces++;
		run_trace(traces[t], &runs);
		report(traces[t], &runs);
		off = compare(traces[t], &runs, off);
		at_100 = gain(traces[t], &runs, AT_100);
		gain(traces[t], &runs, AT_130);
		behind(traces[t], &runs);
		if (t != GPUSPEC33)
			sum += at_100;
		else
			bench_metric("openb.gpuspec33.alloc100",
				stats_mean(runs.at[AT_100][DEFAULT], runs.n), "%", ">= 94",
				(unsigned int)runs.n, true, "default");
	}
	for (size_t i = 0; i < DERIVED; i++) {
		if (!bench_wants(derived[i].name))
			continue;
		run_derived(&derived[i], &runs);
		report(derived[i].name, &runs);
		behind(derived[i].name, &runs);
	}
	if (n_traces < TRACES)
		return bench_done();
	bench_metric("openb.mean_gain100", sum / (TRACES - 1), "pp", ">= 0.5",
		bench_quick() ? GIVEN : RUNS, true, "default less fgd, the six without gpuspec33");
	bench_metric("openb.published_off", off, "pp", "<= 0.2", GIVEN, true,
		"fgd and best-fit, the most over traces at 100 and 130");
	return bench_done();
}
