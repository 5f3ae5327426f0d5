/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the figures of all runs. The table and the JSON output use the same list of figures. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/format.h"
#include "cmdline/output.h"
#include "replay/stats.h"
#include "simcli/sim.h"

enum unit { PERCENT, SECONDS, NUMBER };

struct figure {
	const char *name, *title; /* title NULL: only in JSON */
	enum unit unit;
	/* Returns NAN if the run does not have this figure. */
	double (*get)(const struct sim *sim, const struct replay_result *result, double at);
	double at;
	/* returns true if the table compares this figure with the first scheme's */
	bool (*is_main)(const struct sim *sim);
	/* returns true, or is NULL: the table shows this figure */
	bool (*is_shown)(const struct sim *sim);
};

/* Values of one figure in all runs of a scheme. */
struct sample {
	double x[SIM_SEEDS_MAX];
	size_t n;
};

/* Returns the value at `at` percent of arrived requests, or NAN if fewer requests arrived. */
static double at_percent(const struct replay_result *result, enum metrics_series series, double at)
{
	return at < result->curves.n ? metrics_at(&result->curves, series, (uint32_t)at) : NAN;
}

static double allocated_at(const struct sim *sim, const struct replay_result *result, double at)
{
	return 100 * at_percent(result, METRICS_ALLOCATED, at);
}

static double in_use_at(const struct sim *sim, const struct replay_result *result, double at)
{
	return at_percent(result, METRICS_IN_USE, at) * sim->cluster.n_devices;
}

static double allocated_at_end(const struct sim *sim, const struct replay_result *result, double at)
{
	return 100 * result->curves.after.value[METRICS_ALLOCATED];
}

static double in_use_at_end(const struct sim *sim, const struct replay_result *result, double at)
{
	return result->curves.after.value[METRICS_IN_USE] * sim->cluster.n_devices;
}

static double fragmentation_at(const struct sim *sim, const struct replay_result *result, double at)
{
	return 100 * at_percent(result, METRICS_FRAGMENTED, at);
}

static double sim_report_placed(
	const struct sim *sim, const struct replay_result *result, double at)
{
	return 100.0 * result->n_placed / result->n_tasks;
}

static double sim_report_throughput(
	const struct sim *sim, const struct replay_result *result, double at)
{
	return result->throughput_per_h;
}

static double completion_mean(const struct sim *sim, const struct replay_result *result, double at)
{
	return result->n_placed ? stats_mean(result->completion_s, result->n_placed) : NAN;
}

static double completion_at(const struct sim *sim, const struct replay_result *result, double at)
{
	return result->n_placed ? stats_quantile(result->completion_s, result->n_placed, at) : NAN;
}

static double queued_mean(const struct sim *sim, const struct replay_result *result, double at)
{
	return result->n_placed ? stats_mean(result->queued_s, result->n_placed) : NAN;
}

static double queued_at(const struct sim *sim, const struct replay_result *result, double at)
{
	return result->n_placed ? stats_quantile(result->queued_s, result->n_placed, at) : NAN;
}

static double in_use(const struct sim *sim, const struct replay_result *result, double at)
{
	return result->in_use * sim->cluster.n_devices;
}

static double sim_report_used(const struct sim *sim, const struct replay_result *result, double at)
{
	return 100 * result->used;
}

static double sim_report_allocated(
	const struct sim *sim, const struct replay_result *result, double at)
{
	return 100 * result->allocated;
}

static double sim_report_end(const struct sim *sim, const struct replay_result *result, double at)
{
	return result->n_placed ? result->end_s : NAN;
}

static double sim_report_busy(const struct sim *sim, const struct replay_result *result, double at)
{
	return result->n_placed ? result->busy_s : NAN;
}

static bool is_drawn(const struct sim *sim)
{
	return sim->draws > 0;
}

static double allocated_arriving(
	const struct sim *sim, const struct replay_result *result, double at)
{
	if (!is_drawn(sim))
		return NAN;
	return 100 *
		metrics_mean_between(&result->curves, METRICS_ALLOCATED, at * result->arrivals_s,
			result->arrivals_s);
}

static double sim_report_moves(const struct sim *sim, const struct replay_result *result, double at)
{
	return result->n_moves;
}

static double sim_report_evicted(
	const struct sim *sim, const struct replay_result *result, double at)
{
	return result->n_evicted;
}

/* Mean wait at the highest priority that has placed tasks. */
static double queued_urgent(const struct sim *sim, const struct replay_result *result, double at)
{
	uint32_t n = result->n_priorities;

	while (n && !result->priorities[n - 1].n_placed)
		n--;
	return n ? result->priorities[n - 1].queued_s : NAN;
}

static bool has_preemption(const struct sim *sim)
{
	return sim->preempt != REPLAY_KEEP;
}

/* Returns whether tasks can be evicted. */
static bool may_evict(const struct sim *sim)
{
	return has_preemption(sim) || sim->cluster.n_queues;
}

/* Returns whether in all runs the arrived requests reach `percent` of the cluster. */
static bool arrives_at(const struct sim *sim, uint32_t percent)
{
	for (uint32_t i = 0; i < sim->n_schemes * sim->n_seeds; i++)
		if (sim->results[i]->curves.n <= percent)
			return false;
	return true;
}

static bool sim_report_is_full(const struct sim *sim)
{
	return arrives_at(sim, 100);
}

static bool falls_short(const struct sim *sim)
{
	return !sim_report_is_full(sim);
}

/*
 * Returns whether some run ends before the arrived requests reach 130 %. If no run does, the
 * figures at the end repeat the figures at 130 %.
 */
static bool ends_early(const struct sim *sim)
{
	return !arrives_at(sim, 130);
}

static bool sim_report_always(const struct sim *sim)
{
	return true;
}

static bool is_defragmented(const struct sim *sim)
{
	return sim->defrag.period_ns > 0;
}

static const struct figure of_drop[] = {
	{"allocated_at_50", NULL, PERCENT, allocated_at, 50},
	{"allocated_at_70", NULL, PERCENT, allocated_at, 70},
	{"allocated_at_80", NULL, PERCENT, allocated_at, 80},
	{"allocated_at_90", "AT 90%", PERCENT, allocated_at, 90},
	{"allocated_at_95", "AT 95%", PERCENT, allocated_at, 95},
	{"allocated_at_100", "AT 100%", PERCENT, allocated_at, 100, sim_report_is_full},
	{"allocated_at_110", "AT 110%", PERCENT, allocated_at, 110},
	{"allocated_at_130", "AT 130%", PERCENT, allocated_at, 130},
	{"allocated_at_end", "AT END", PERCENT, allocated_at_end, 0, falls_short, ends_early},
	{"fragmentation_at_100", NULL, PERCENT, fragmentation_at, 100},
	{"devices_in_use_at_100", "IN USE AT 100%", NUMBER, in_use_at, 100},
	{"devices_in_use_at_end", "IN USE AT END", NUMBER, in_use_at_end, 0, NULL, ends_early},
	{"placed_percent", "PLACED", PERCENT, sim_report_placed, 0},
	{0},
};

static const struct figure of_queue[] = {
	{"throughput_per_h", "TASKS/H", NUMBER, sim_report_throughput, 0, sim_report_always},
	{"completion_mean_s", "COMPLETION", SECONDS, completion_mean, 0},
	{"completion_p50_s", "COMPLETION P50", SECONDS, completion_at, 0.5},
	{"completion_p99_s", "COMPLETION P99", SECONDS, completion_at, 0.99},
	{"queued_mean_s", "QUEUED", SECONDS, queued_mean, 0},
	{"queued_p50_s", NULL, SECONDS, queued_at, 0.5},
	{"queued_p99_s", "QUEUED P99", SECONDS, queued_at, 0.99},
	{"devices_in_use", "IN USE", NUMBER, in_use, 0},
	{"used", "USED", PERCENT, sim_report_used, 0},
	{"allocated", NULL, PERCENT, sim_report_allocated, 0},
	{"busy_s", NULL, SECONDS, sim_report_busy, 0},
	{"end_s", "ALL DONE", SECONDS, sim_report_end, 0},
	{"placed_percent", "PLACED", PERCENT, sim_report_placed, 0},
	/* leaves out the first third of the arrival time, in which the cluster fills */
	{"allocated_steady", "ALLOCATED", PERCENT, allocated_arriving, 1 / 3.0, NULL, is_drawn},
	{"queued_urgent_mean_s", "URGENT", SECONDS, queued_urgent, 0, NULL, has_preemption},
	{"evicted", "EVICTED", NUMBER, sim_report_evicted, 0, NULL, may_evict},
	{"moves", "MOVES", NUMBER, sim_report_moves, 0, NULL, is_defragmented},
	{0},
};

static const struct figure *figures_of(const struct sim *sim)
{
	return sim->mode == REPLAY_DROP ? of_drop : of_queue;
}

#define FOR_EACH_FIGURE(f, sim) for (const struct figure *f = figures_of(sim); f->name; f++)

static bool has_column(const struct sim *sim, const struct figure *f)
{
	return f->title && (!f->is_shown || f->is_shown(sim));
}

/*
 * With REPLAY_DROP, a run with too few arrivals has no value of this figure and is left out. The
 * same runs are left out for every scheme. With REPLAY_QUEUE, one missing value makes the mean
 * unknown.
 */
static void sample_add(const struct sim *sim, struct sample *sample, double x)
{
	if (sim->mode == REPLAY_QUEUE || !isnan(x))
		sample->x[sample->n++] = x;
}

static double sample_mean(const struct sample *sample)
{
	return sample->n ? stats_mean(sample->x, sample->n) : NAN;
}

/* One run has no confidence interval; equal runs have interval 0. */
static double sample_interval(const struct sample *sample)
{
	return sample->n > 1 ? stats_interval(sample->x, sample->n) : NAN;
}

static void figure_get(
	const struct sim *sim, const struct figure *f, uint32_t scheme, struct sample *ret)
{
	ret->n = 0;
	for (uint32_t i = 0; i < sim->n_seeds; i++)
		sample_add(sim, ret, f->get(sim, sim_result(sim, scheme, i), f->at));
}

/*
 * Compares with the first scheme, seed by seed: the difference of percentages, the ratio of other
 * figures. Times of different sets of tasks are not comparable, so the result is NAN if the numbers
 * of placed tasks differ.
 */
static void figure_compare(
	const struct sim *sim, const struct figure *f, uint32_t scheme, struct sample *ret)
{
	ret->n = 0;
	for (uint32_t i = 0; i < sim->n_seeds; i++) {
		const struct replay_result *a = sim_result(sim, 0, i);
		const struct replay_result *b = sim_result(sim, scheme, i);
		const double first = f->get(sim, a, f->at), here = f->get(sim, b, f->at);

		if (sim->mode == REPLAY_QUEUE && a->n_placed != b->n_placed &&
			f->get != sim_report_placed)
			sample_add(sim, ret, NAN);
		else if (f->unit == PERCENT)
			sample_add(sim, ret, here - first);
		else
			sample_add(sim, ret, first > 0 ? here / first : NAN);
	}
}

/* ---- table ---- */

static struct text sim_report_duration(double s)
{
	return format_duration_nearest((uint64_t)llround(s * (double)NSEC_PER_SEC));
}

static void add_figure(struct table *t, enum unit unit, const struct sample *sample)
{
	const double mean = sample_mean(sample), interval = sample_interval(sample);
	const double big = isnan(interval) ? mean : mean + interval;
	const int digits = unit == PERCENT ? 2 : big < 10 ? 2 : big < 1000 ? 1 : 0;
	char text[64];

	if (isnan(mean)) {
		table_add(t, "-");
		return;
	}
	if (unit == SECONDS)
		snprintf(text, sizeof(text), "%s", sim_report_duration(mean).s);
	else
		snprintf(text, sizeof(text), "%.*f", digits, mean);
	if (isnan(interval))
		table_add(t, text);
	else if (unit == SECONDS)
		table_addf(t, "%s \302\261%s", text, sim_report_duration(interval).s);
	else
		table_addf(t, "%s \302\261%.*f", text, digits, interval);
}

static void add_comparison(
	struct table *t, const struct sim *sim, const struct figure *f, uint32_t scheme)
{
	struct sample sample;
	double mean, interval;

	if (!scheme) {
		table_add(t, "");
		return;
	}
	figure_compare(sim, f, scheme, &sample);
	mean = sample_mean(&sample);
	interval = sample_interval(&sample);
	if (isnan(mean))
		table_add(t, "-");
	else if (f->unit == PERCENT)
		table_addf(t, sample.n > 1 ? "%+.2f \302\261%.2f" : "%+.2f", mean, interval);
	else
		table_addf(t, sample.n > 1 ? "x%.2f \302\261%.2f" : "x%.2f", mean, interval);
}

static bool is_compared(const struct sim *sim, const struct figure *f)
{
	return sim->n_schemes > 1 && f->is_main && f->is_main(sim);
}

/* Explains the columns that a reader could misunderstand. */
static const char *sim_report_legend(const struct sim *sim)
{
	if (sim->mode == REPLAY_DROP)
		return "AT: requests of placed tasks, in % of all devices";
	return is_drawn(sim) ? "times are virtual; ALLOCATED: requests of running tasks"
			     : "times are virtual";
}

int sim_print(const struct sim *sim, struct error *err)
{
	struct table_column columns[TABLE_COLUMNS_MAX] = {{"POLICY", false}};
	_cleanup_table_ struct table t;
	struct sample sample;
	char against[48];
	size_t n = 1;

	FOR_EACH_FIGURE(f, sim) {
		if (!has_column(sim, f))
			continue;
		columns[n++] = (struct table_column){f->title, true};
		if (is_compared(sim, f)) {
			snprintf(against, sizeof(against), "AGAINST %s", sim->schemes[0].name);
			columns[n++] = (struct table_column){against, true};
		}
	}
	table_init(&t, columns, n);
	for (uint32_t s = 0; s < sim->n_schemes; s++) {
		table_add(&t, sim->schemes[s].name);
		FOR_EACH_FIGURE(f, sim) {
			if (!has_column(sim, f))
				continue;
			figure_get(sim, f, s, &sample);
			add_figure(&t, f->unit, &sample);
			if (is_compared(sim, f))
				add_comparison(&t, sim, f, s);
		}
	}
	printf("simulated: %s, %u %s%s; %s\n", sim->title, sim->n_seeds,
		sim->n_seeds == 1 ? "run" : "runs of each",
		sim->n_seeds == 1 ? "" : ", means with 95% intervals", sim_report_legend(sim));
	return output_table(&t, err);
}

/* ---- JSON ---- */

/* JSON cannot express NAN. */
static json_t *json_figure(double value)
{
	return isnan(value) ? json_null() : json_real(value);
}

static json_t *json_sample(const struct sample *sample)
{
	return json_pack("{s:o, s:o, s:I}", "mean", json_figure(sample_mean(sample)), "interval",
		json_figure(sample_interval(sample)), "runs",
		(json_int_t)(isnan(sample_mean(sample)) ? 0 : sample->n));
}

static json_t *json_figures(const struct sim *sim, uint32_t scheme)
{
	json_t *all = json_object();

	FOR_EACH_FIGURE(f, sim) {
		struct sample sample;
		json_t *one;

		figure_get(sim, f, scheme, &sample);
		one = json_sample(&sample);
		if (scheme) {
			figure_compare(sim, f, scheme, &sample);
			json_object_set_new(one,
				f->unit == PERCENT ? "points_against_first" : "ratio_to_first",
				json_sample(&sample));
		}
		json_object_set_new(all, f->name, one);
	}
	return all;
}

static json_t *json_curves(const struct metrics *m)
{
	json_t *all = json_pack("{s:f}", "step", m->step);

	for (int series = 0; series < METRICS_N; series++) {
		json_t *values = json_array();

		for (uint32_t i = 0; i < m->n; i++)
			json_array_append_new(values,
				m->weight[i] > 0
					? json_real(metrics_at(m, (enum metrics_series)series, i))
					: json_null());
		json_object_set_new(all, metrics_names[series], values);
	}
	return all;
}

/* Quantiles in steps of 0.01, from the minimum to the maximum; NAN as null if n is 0. */
static json_t *json_quantiles(const double *sorted, size_t n)
{
	json_t *all = json_array();

	for (int i = 0; i <= 100; i++)
		json_array_append_new(
			all, json_figure(n ? stats_quantile(sorted, n, i / 100.0) : NAN));
	return all;
}

/* Largest sum of requests at one time, as a fraction of each device. */
static json_t *sim_report_json_requested(const struct replay_result *result)
{
	json_t *all = json_array();

	for (uint32_t i = 0; i < result->n_devices; i++)
		json_array_append_new(
			all, json_real(result->requested_most[i] / (double)SPEC_SHARE_ONE));
	return all;
}

/*
 * Lists the mode of each task and the reason for it. A network path has the lower bandwidth of its
 * two ends, and the sum of their latencies.
 */
static json_t *json_decisions(const struct sim *sim, const struct replay_result *result)
{
	static const char *const outcomes[] = {[PLACE_EXCLUSIVE] = "exclusive",
		[PLACE_LOCAL] = "local",
		[PLACE_REMOTE] = "remote",
		[PLACE_QUEUED] = "queued"};
	json_t *all = json_array();

	for (uint32_t i = 0; i < result->n_tasks; i++) {
		const struct replay_decision *d = &result->decisions[i];
		json_t *one = json_pack("{s:s, s:s, s:n, s:n, s:n}", "outcome",
			outcomes[d->outcome], "why", d->why, "network", "mbit", "latency_us");

		if (d->network[0]) {
			const struct cluster_network *a = &sim->cluster.networks[d->network[0] - 1];
			const struct cluster_network *b = &sim->cluster.networks[d->network[1] - 1];

			json_object_set_new(
				one, "network", json_string(sim_network_kinds[a->kind]));
			json_object_set_new(
				one, "mbit", json_integer((json_int_t)MIN(a->mbit, b->mbit)));
			json_object_set_new(one, "latency_us",
				json_integer((json_int_t)a->latency_us + b->latency_us));
		}
		json_array_append_new(all, one);
	}
	return all;
}

void sim_print_event(FILE *f, const struct sim *sim, uint32_t scheme, uint64_t seed,
	const struct replay_note *note)
{
	static const char *const events[] = {[REPLAY_PLACED] = "placed",
		[REPLAY_WAITS] = "waits",
		[REPLAY_DROPPED] = "dropped",
		[REPLAY_TERMINATING] = "terminating",
		[REPLAY_EVICTED] = "evicted",
		[REPLAY_MOVED] = "moved",
		[REPLAY_ENDED] = "ended"};
	json_t *one = json_pack("{s:s, s:I, s:I, s:s}", "policy", sim->schemes[scheme].name, "seed",
		(json_int_t)seed, "task", (json_int_t)note->task + 1, "event", events[note->event]);
	json_t *devices = json_array();

	for (uint32_t i = 0; i < note->n_devices; i++)
		json_array_append_new(devices, json_integer(note->devices[i]));
	if (sim->mode == REPLAY_QUEUE)
		json_object_set_new(one, "at_s", json_real((double)note->at_ns / 1e9));
	if (note->node)
		json_object_set_new(one, "node", json_string(note->node));
	if (note->node)
		json_object_set(one, "devices", devices);
	if (note->why)
		json_object_set_new(one, "why", json_string(note->why));
	json_dumpf(one, f, JSON_COMPACT | JSON_REAL_PRECISION(12));
	fputc('\n', f);
	json_decref(devices);
	json_decref(one);
}

static json_t *json_priorities(const struct replay_result *result)
{
	json_t *all = json_array();

	for (uint32_t i = 0; i < result->n_priorities; i++) {
		const struct replay_priority *p = &result->priorities[i];

		json_array_append_new(all,
			json_pack("{s:I, s:I, s:I, s:o, s:o, s:o}", "priority",
				(json_int_t)p->priority, "tasks", (json_int_t)p->n_tasks, "placed",
				(json_int_t)p->n_placed, "queued_mean_s",
				json_figure(p->n_placed ? p->queued_s : NAN), "completion_mean_s",
				json_figure(p->n_placed ? p->completion_s : NAN), "busy_s",
				json_figure(p->n_placed ? p->busy_s : NAN)));
	}
	return all;
}

static json_t *json_run(const struct sim *sim, uint32_t scheme, uint32_t i)
{
	const struct replay_result *result = sim_result(sim, scheme, i);
	json_t *run = json_pack("{s:I, s:I, s:I, s:o}", "seed", (json_int_t)(sim->first_seed + i),
		"tasks", (json_int_t)result->n_tasks, "placed", (json_int_t)result->n_placed,
		"curves", json_curves(&result->curves));

	json_object_set_new(run, "requested_most_of_devices", sim_report_json_requested(result));
	/* The old name, for one release. */
	json_object_set(
		run, "asked_most_of_devices", json_object_get(run, "requested_most_of_devices"));
	json_object_set_new(
		run, "decisions", result->decisions ? json_decisions(sim, result) : json_null());
	FOR_EACH_FIGURE(f, sim)
		json_object_set_new(run, f->name, json_figure(f->get(sim, result, f->at)));
	if (sim->mode == REPLAY_QUEUE) {
		json_object_set_new(run, "priorities", json_priorities(result));
		json_object_set_new(run, "queued_s_hundredths",
			json_quantiles(result->queued_s, result->n_placed));
		json_object_set_new(run, "completion_s_hundredths",
			json_quantiles(result->completion_s, result->n_placed));
	}
	return run;
}

json_t *sim_json(const struct sim *sim)
{
	json_t *schemes = json_array();

	for (uint32_t s = 0; s < sim->n_schemes; s++) {
		json_t *runs = json_array();

		for (uint32_t i = 0; i < sim->n_seeds; i++)
			json_array_append_new(runs, json_run(sim, s, i));
		json_array_append_new(schemes,
			json_pack("{s:s, s:s, s:o, s:o}", "policy", sim->schemes[s].name, "about",
				sim->schemes[s].about, "figures", json_figures(sim, s), "runs",
				runs));
	}
	return json_pack("{s:b, s:s, s:s, s:s, s:I, s:I, s:o}", "simulated", 1, "workload",
		sim->title, "mode", sim->mode == REPLAY_DROP ? "drop" : "queue", "queue",
		sim->queue == REPLAY_FIFO ? "fifo" : "priority", "nodes",
		(json_int_t)sim->cluster.n, "devices", (json_int_t)sim->cluster.n_devices,
		"policies", schemes);
}
