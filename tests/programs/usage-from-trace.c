/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage-from-trace: compares the shares of processes on a simulated device, read from the device's
 * own trace, with their requests. Prints a table (or JSON), draws a picture, and exits 1 when a
 * share is further from the request than the tolerance.
 *
 * The measured time is that in which all processes had work: from the latest first kernel plus a
 * settling time to the earliest last kernel.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/table.h"
#include "cmdline/chart.h"
#include "simgpu/trace.h"

#define TENANTS_MAX CHART_SERIES_MAX

struct tenant {
	char name[64];
	pid_t pid;
	uint32_t asked;
	struct simgpu_busy busy;
	uint64_t first_ns, last_ns;
	uint64_t got_millionths; /* of the measured time */
};

struct job {
	const char *dir, *svg, *title, *subtitle;
	uint64_t device, settle_ms, window_ms, step_ms, tolerance;
	bool json;
	struct tenant tenant[TENANTS_MAX];
	size_t n;
	uint64_t t0_ns, t1_ns; /* the measured time */
};

static int failed(const struct error *err)
{
	fprintf(stderr, "usage-from-trace: %s\n", err->msg);
	return 2;
}

/* NAME:PID:REQUEST, REQUEST as in 0.3 */
static int parse_tenant(struct job *job, const char *text, struct error *err)
{
	struct tenant *t = &job->tenant[job->n];
	struct str rest = str_from(text), name, pid, asked;
	uint64_t number;
	int r;

	if (job->n == TENANTS_MAX)
		return fail(err, E2BIG, "'%s': at most %d tenants are possible", text, TENANTS_MAX);
	if (!str_split(&rest, ':', &name) || !str_split(&rest, ':', &pid) ||
		!str_split(&rest, ':', &asked) || str_copy(t->name, sizeof(t->name), name) < 0)
		return fail(err, EINVAL, "'%s': NAME:PID:ASKED is needed, such as train:4711:0.3",
			text);
	r = parse_uint(pid, 1, INT32_MAX, &number, err);
	r = r < 0 ? r : parse_share(asked, &t->asked, err);
	if (r < 0)
		return fail_within(err, r, "'%s'", text);
	t->pid = (pid_t)number;
	job->n++;
	return 0;
}

static int load(struct job *job, struct error *err)
{
	_cleanup_(simgpu_trace_closep) struct simgpu_trace *trace = NULL;
	int r = simgpu_trace_open(job->dir, &trace, err);

	if (r < 0)
		return r;
	if (simgpu_trace_lost(trace))
		return fail(err, EOVERFLOW,
			"%" PRIu64 " records of the trace are overwritten: measure earlier",
			simgpu_trace_lost(trace));
	job->t1_ns = UINT64_MAX;
	for (size_t i = 0; i < job->n; i++) {
		struct tenant *t = &job->tenant[i];

		r = simgpu_busy_load(trace, &t->pid, 1, (int)job->device, SIMGPU_ENGINE_COMPUTE, 0,
			UINT64_MAX, &t->busy);
		if (r < 0)
			return fail_errno(err, -r, "trace of %s", t->name);
		if (!t->busy.n)
			return fail(err, ENODATA, "%s (pid %d) has run nothing on device %" PRIu64,
				t->name, (int)t->pid, job->device);
		t->first_ns = t->busy.v[0].start_ns;
		t->last_ns = t->busy.v[t->busy.n - 1].end_ns;
		job->t0_ns = MAX(job->t0_ns, t->first_ns + job->settle_ms * NSEC_PER_MSEC);
		job->t1_ns = MIN(job->t1_ns, t->last_ns);
	}
	if (job->t1_ns <= job->t0_ns)
		return fail(err, ENODATA,
			"the processes were never busy together for longer than %" PRIu64 " ms",
			job->settle_ms);
	return 0;
}

static bool measure(struct job *job)
{
	bool is_fine = true;

	for (size_t i = 0; i < job->n; i++) {
		struct tenant *t = &job->tenant[i];
		const uint64_t busy = simgpu_busy_ns(&t->busy, job->t0_ns, job->t1_ns);
		uint64_t off;

		t->got_millionths =
			(uint64_t)((double)busy / (double)(job->t1_ns - job->t0_ns) * 1e6 + 0.5);
		off = t->got_millionths > t->asked * 1000ull
			? t->got_millionths - t->asked * 1000ull
			: t->asked * 1000ull - t->got_millionths;
		is_fine = is_fine && off <= job->tolerance * 1000;
	}
	return is_fine;
}

static void print_table(const struct job *job)
{
	static const struct table_column columns[] = {
		{"TENANT", false}, {"REQUESTED", true}, {"USED", true}, {"OFF BY", true}};
	_cleanup_buf_ struct buf out = BUF_INIT(1u << 20);
	_cleanup_table_ struct table table;

	table_init(&table, columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < job->n; i++) {
		const struct tenant *t = &job->tenant[i];
		const double got = (double)t->got_millionths / 1e4, asked = t->asked / 10.0;

		table_add(&table, t->name);
		table_addf(&table, "%.1f%%", asked);
		table_addf(&table, "%.2f%%", got);
		table_addf(&table, "%+.2f points", got - asked);
	}
	if (table_format(&table, true, &out) == 0)
		fputs(buf_text(&out), stdout);
	printf("(simulated; from the device's trace, %.1f s in which all had work)\n",
		(double)(job->t1_ns - job->t0_ns) / 1e9);
}

static void print_json(const struct job *job)
{
	printf("{\"simulated\": true, \"source\": \"trace\", \"seconds\": %.3f, \"tenants\": [",
		(double)(job->t1_ns - job->t0_ns) / 1e9);
	for (size_t i = 0; i < job->n; i++)
		printf("%s{\"name\": \"%s\", \"asked\": %.3f, \"got\": %.6f}", i ? ", " : "",
			job->tenant[i].name, job->tenant[i].asked / 1e3,
			(double)job->tenant[i].got_millionths / 1e6);
	puts("]}");
}

/*
 * Each point is the share of the window that ends there. The first point ends the first whole
 * window: a part of a window may be a single turn, in which a tenant has the whole device.
 */
static double *make_points(
	const struct job *job, const struct tenant *t, uint64_t from_ns, size_t n)
{
	double *share = calloc(n, sizeof(*share));
	const uint64_t window = job->window_ms * NSEC_PER_MSEC;

	for (size_t i = 0; share && i < n; i++) {
		const uint64_t at = from_ns + i * job->step_ms * NSEC_PER_MSEC;
		const bool is_there = at >= t->first_ns + window && at <= t->last_ns + window;

		share[i] = is_there
			? (double)simgpu_busy_ns(&t->busy, at - window, at) / (double)window
			: -1;
	}
	return share;
}

static int draw(const struct job *job, struct error *err)
{
	_cleanup_buf_ struct buf svg = BUF_INIT(CHART_MAX_BYTES);
	struct chart_series series[TENANTS_MAX];
	double *share[TENANTS_MAX] = {0};
	uint64_t from = UINT64_MAX, to = 0;
	struct chart chart = {.title = job->title,
		.subtitle = job->subtitle,
		.simulated = true,
		.series = series};
	int r;

	for (size_t i = 0; i < job->n; i++) {
		from = MIN(from, job->tenant[i].first_ns);
		to = MAX(to, job->tenant[i].last_ns);
	}
	chart.step_s = (double)job->step_ms / 1000;
	chart.n_points = (size_t)((to - from) / (job->step_ms * NSEC_PER_MSEC)) + 1;
	chart.n_series = job->n;
	for (size_t i = 0; i < job->n; i++) {
		const struct tenant *t = &job->tenant[i];

		share[i] = make_points(job, t, from, chart.n_points);
		if (!share[i])
			return fail(err, ENOMEM, "picture");
		series[i] = (struct chart_series){.name = t->name,
			.requested_permille = t->asked,
			.share = share[i],
			.got = (double)t->got_millionths / 1e6};
	}
	r = chart_svg(&chart, &svg, err);
	for (size_t i = 0; i < job->n; i++)
		free(share[i]);
	return r < 0 ? r : file_replace(job->svg, buf_str(&svg), 0644, err);
}

static void usage(FILE *f)
{
	fputs("usage: usage-from-trace [OPTION...] NAME:PID:ASKED...\n"
	      "  --dir=DIR         the simulated machine's folder ($DIVVY_SIM)\n"
	      "  --device=N        0\n"
	      "  --settle-ms=N     not measured after the last one's begin (1500)\n"
	      "  --tolerance=N     most that a share may be off, in tenths of a point (20)\n"
	      "  --svg=FILE        draw a picture\n"
	      "  --window-ms=N     each of its points is the share of so long (500)\n"
	      "  --step-ms=N       time between its points (50)\n"
	      "  --title=TEXT --subtitle=TEXT\n"
	      "  --json\n",
		f);
}

static int parse(int argc, char **argv, struct job *job, struct error *err)
{
	static const struct option table[] = {
		{"dir", 1, NULL, 'd'},
		{"device", 1, NULL, 'n'},
		{"settle-ms", 1, NULL, 's'},
		{"tolerance", 1, NULL, 't'},
		{"svg", 1, NULL, 'v'},
		{"window-ms", 1, NULL, 'w'},
		{"step-ms", 1, NULL, 'p'},
		{"title", 1, NULL, 'T'},
		{"subtitle", 1, NULL, 'S'},
		{"json", 0, NULL, 'j'},
		{0},
	};
	int c, r = 0;

	while (r == 0 && (c = getopt_long(argc, argv, "", table, NULL)) != -1) {
		uint64_t *number = c == 'n' ? &job->device
			: c == 's'          ? &job->settle_ms
			: c == 't'          ? &job->tolerance
			: c == 'w'          ? &job->window_ms
			: c == 'p'          ? &job->step_ms
					    : NULL;
		const char **text = c == 'd' ? &job->dir
			: c == 'v'           ? &job->svg
			: c == 'T'           ? &job->title
			: c == 'S'           ? &job->subtitle
					     : NULL;

		if (number)
			r = parse_uint(
				str_from(optarg), c == 'p' || c == 'w', 1000000, number, err);
		else if (text)
			*text = optarg;
		else if (c == 'j')
			job->json = true;
		else
			return usage(stderr), fail(err, EINVAL, "bad usage");
	}
	for (; r == 0 && optind < argc; optind++)
		r = parse_tenant(job, argv[optind], err);
	if (r == 0 && !job->n)
		return usage(stderr), fail(err, EINVAL, "no NAME:PID:ASKED is given");
	return r;
}

int main(int argc, char **argv)
{
	static struct job job = {.settle_ms = 1500,
		.window_ms = 500,
		.step_ms = 50,
		.tolerance = 20,
		.title = "Share of the device over time",
		.subtitle = "from the device's trace"};
	struct error err = {0};
	bool is_fine;

	if (parse(argc, argv, &job, &err) < 0 || load(&job, &err) < 0)
		return failed(&err);
	is_fine = measure(&job);
	if (job.json)
		print_json(&job);
	else
		print_table(&job);
	if (job.svg && draw(&job, &err) < 0)
		return failed(&err);
	for (size_t i = 0; i < job.n; i++)
		simgpu_busy_done(&job.tenant[i].busy);
	return is_fine ? 0 : 1;
}
