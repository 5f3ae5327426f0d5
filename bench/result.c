/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options and results of a bench: JSON lines in a file, a table on the terminal. One thread.
 */
#include "bench/bench.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/rig.h"

#define RESULTS_MAX 1024

struct result {
	char metric[64], unit[12], goal[16], detail[96];
	double value;
	bool holds, simulated;
	unsigned int n;
};

static struct {
	const char *name;
	const char *out;
	const char *only;
	bool quick, real, strict;
	struct result result[RESULTS_MAX];
	size_t results;
} bench;

struct bench_hook bench_hook;

void bench_note(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "bench %s: ", bench.name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

void bench_die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "bench %s: ", bench.name ? bench.name : "?");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	rig_end_all();
	exit(2);
}

void bench_init(const char *name, int argc, char **argv)
{
	bench.name = name;
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (strcmp(argv[i], "--quick") == 0) {
			bench.quick = true;
			continue;
		}
		if (strcmp(argv[i], "--real") == 0) {
			bench.real = true;
			continue;
		}
		if (strcmp(argv[i], "--strict") == 0) {
			bench.strict = true;
			continue;
		}
		if (value && strcmp(argv[i], "--out") == 0)
			bench.out = value;
		else if (value && strcmp(argv[i], "--only") == 0)
			bench.only = value;
		else if (value && strcmp(argv[i], "--hook") == 0)
			bench_hook.path = value;
		else if (value && strcmp(argv[i], "--env") == 0 && strchr(value, '=') &&
			bench_hook.n_env < BENCH_HOOK_ENV)
			bench_hook.env[bench_hook.n_env++] = value;
		else
			bench_die("option '%s': known are --quick, --real, --strict, --out FILE, "
				  "--only TEXT, --hook PATH, --env K=V",
				argv[i]);
		i++;
	}
	/* Partial results do not belong among those of a full run. */
	if (!bench.out)
		bench.out = bench.only ? "/dev/null" : "out/bench.jsonl";
	/* The loader would only warn of a missing library and go on without it. */
	if (bench_hook.path && (!strchr(bench_hook.path, '/') || access(bench_hook.path, R_OK) < 0))
		bench_die("--hook '%s': the path of a library is needed", bench_hook.path);
	if (mkdir("out", 0755) < 0 && errno != EEXIST)
		bench_die("make folder 'out': %s", strerror(errno));
}

bool bench_quick(void)
{
	return bench.quick;
}

bool bench_wants(const char *name)
{
	return !bench.only || strstr(name, bench.only);
}

bool bench_foreign(void)
{
	return bench_hook.path != NULL;
}

bool bench_real(void)
{
	return bench.real;
}

static bool holds(const char *goal, double value)
{
	double bound = 0;

	if (sscanf(goal, "<= %lf", &bound) == 1)
		return value <= bound;
	if (sscanf(goal, ">= %lf", &bound) == 1)
		return value >= bound;
	if (sscanf(goal, "= %lf", &bound) == 1)
		return value >= bound && value <= bound;
	return true;
}

static void show(FILE *f, const struct result *r)
{
	fprintf(f, "  %-34s %12.4g %-6s %-10s %-5s n=%-6u %s%s\n", r->metric, r->value, r->unit,
		r->goal,
		!r->goal[0]        ? ""
			: r->holds ? "holds"
				   : "MISSED",
		r->n, r->simulated ? "simulated " : "", r->detail);
}

bool bench_metric(const char *metric, double value, const char *unit, const char *goal,
	unsigned int n, bool simulated, const char *detail)
{
	struct result *r = &bench.result[bench.results];
	FILE *f = fopen(bench.out, "a");

	if (!f)
		bench_die("open '%s': %s", bench.out, strerror(errno));
	if (bench.results == RESULTS_MAX)
		bench_die("more than %d results", RESULTS_MAX);
	bench.results++;
	snprintf(r->metric, sizeof(r->metric), "%s", metric);
	snprintf(r->unit, sizeof(r->unit), "%s", unit);
	snprintf(r->goal, sizeof(r->goal), "%s", goal);
	snprintf(r->detail, sizeof(r->detail), "%s", detail ? detail : "");
	r->value = value;
	r->n = n;
	r->simulated = simulated;
	r->holds = holds(goal, value);
	fprintf(f, "{\"metric\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", ", r->metric, value,
		r->unit);
	if (goal[0])
		fprintf(f, "\"goal\": \"%s\", \"holds\": %s, ", r->goal,
			r->holds ? "true" : "false");
	fprintf(f, "\"n\": %u, \"simulated\": %s", n, simulated ? "true" : "false");
	if (r->detail[0])
		fprintf(f, ", \"detail\": \"%s\"", r->detail);
	if (bench.quick)
		fprintf(f, ", \"quick\": true");
	if (bench_hook.path)
		fprintf(f, ", \"hook\": \"%s\"", bench_hook.path);
	fprintf(f, "}\n");
	fclose(f);
	show(stderr, r);
	return r->holds;
}

int bench_done(void)
{
	bool all_hold = true;

	printf("%s\n", bench.name);
	for (size_t i = 0; i < bench.results; i++) {
		show(stdout, &bench.result[i]);
		all_hold &= bench.result[i].holds;
	}
	return bench.strict && !all_hold;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

void bench_sort(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
}

double bench_quantile(const double *sorted, size_t n, double p)
{
	size_t i = (size_t)(p * (double)n);

	return n ? sorted[i < n ? i : n - 1] : 0;
}

double bench_median(double *v, size_t n)
{
	bench_sort(v, n);
	return n % 2 ? v[n / 2] : n ? (v[n / 2 - 1] + v[n / 2]) / 2 : 0;
}
