/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/derive.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/rand.h"
#include "bench/bench.h"

/* The largest node of the OpenB cluster. */
#define CPU_MOST 128000u
#define MIB_MOST 786432u
#define SEED 33u

const struct derived derived[DERIVED] = {
	{.name = "cpu-default", .from = "default", .cpu_percent = 150, .mib_percent = 100},
	{.name = "cpu-gpuspec25", .from = "gpuspec25", .cpu_percent = 200, .mib_percent = 100},
	{.name = "memory-default", .from = "default", .cpu_percent = 100, .mib_percent = 150},
	{.name = "memory-cpu250", .from = "cpu250", .cpu_percent = 100, .mib_percent = 200},
	{.name = "models-default",
		.from = "default",
		.cpu_percent = 100,
		.mib_percent = 100,
		.model_permille = 400},
	{.name = "models-multigpu50",
		.from = "multigpu50",
		.cpu_percent = 100,
		.mib_percent = 100,
		.model_permille = 400},
	{.name = "large-default",
		.from = "default",
		.cpu_percent = 100,
		.mib_percent = 100,
		.large_permille = 2},
	{.name = "large-gpushare40",
		.from = "gpushare40",
		.cpu_percent = 100,
		.mib_percent = 100,
		.large_permille = 3},
};

struct row {
	uint32_t cpu_milli, mib, count, share;
};

/* Tasks for which only a few nodes have room. */
static const struct row large[] = {{120000, 737280, 8, 1000}, {128000, 786432, 8, 1000},
	{96000, 700000, 8, 1000}, {90000, 360000, 8, 1000}, {120000, 600000, 4, 1000},
	{60000, 300000, 4, 1000}, {94000, 500000, 2, 1000}};

/*
 * Models with enough CPU and memory beside each device for most tasks. A model occurs in this list
 * about as often as among the cluster's devices.
 */
static const char *const models[] = {"G2", "G2", "G2", "T4", "G3", "V100M32", "P100"};

static uint32_t times(uint32_t x, uint32_t percent, uint32_t most)
{
	const uint64_t more = (uint64_t)x * percent / 100;

	return more <= most ? (uint32_t)more : x;
}

static void write_row(FILE *out, unsigned int i, const struct row *row, const char *models_of)
{
	fprintf(out, "task-%u,%u,%u,%u,%u,%s\n", i, row->cpu_milli, row->mib, row->count,
		row->share, models_of);
}

void derive(const struct derived *of, const char *folder, const char *path)
{
	struct rand rand = rand_seeded(SEED);
	char from[1024], line[512];
	unsigned int n = 0;
	FILE *in, *out = fopen(path, "we");

	snprintf(from, sizeof(from), "%s/openb_pod_list_%s.csv", folder, of->from);
	in = fopen(from, "re");
	if (!in || !out)
		bench_die("cannot make %s of %s", path, from);
	fputs("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n", out);
	while (fgets(line, sizeof(line), in)) {
		char spec[128] = "";
		struct row row;

		line[strcspn(line, "\r\n")] = '\0';
		if (sscanf(line, "%*[^,],%u,%u,%u,%u,%127[^,]", &row.cpu_milli, &row.mib,
			    &row.count, &row.share, spec) < 4 ||
			(of->large_permille && row.count > 1))
			continue;
		row.cpu_milli = times(row.cpu_milli, of->cpu_percent, CPU_MOST);
		row.mib = times(row.mib, of->mib_percent, MIB_MOST);
		if (row.count && rand_below(&rand, 1000) < of->model_permille) {
			const char *model = models[rand_below(&rand, ARRAY_SIZE(models))];

			/* A task that only the large nodes can take accepts any model. */
			if (row.count == 1 && row.cpu_milli <= 16000 && row.mib <= 65536)
				snprintf(spec, sizeof(spec), "%s", model);
		}
		write_row(out, n++, &row, spec);
		if (rand_below(&rand, 1000) < of->large_permille)
			write_row(out, n++, &large[rand_below(&rand, ARRAY_SIZE(large))], "");
	}
	fclose(in);
	if (fclose(out) != 0)
		bench_die("cannot write %s", path);
}
