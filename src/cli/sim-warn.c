/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines on stderr: what is asked for, or said of nodes, that the cluster has not, and, once all has
 * run, who never had a place. Nothing fails of it.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cli/sim.h"

static const char *plural(uint32_t n)
{
	return n == 1 ? "" : "s";
}

/* Bits of the models that nodes have. */
static uint64_t models_there(const struct cluster *c)
{
	uint64_t have = 0;

	for (uint32_t i = 0; i < c->n; i++)
		for (uint32_t k = 0; k < c->nodes[i].n_kinds; k++)
			if (c->nodes[i].kinds[k].n_devices)
				have |= 1ull << c->nodes[i].kinds[k].model;
	return have;
}

/* "divvy sim: model 'v100': no node has it, and WHO; there is V100" */
static void warn_of_model(const struct cluster *c, uint32_t model, uint64_t have, const char *who)
{
	_cleanup_buf_ struct buf names = BUF_INIT(PLACE_MODELS_MAX * (SPEC_LABEL + 2));
	uint32_t there = 0;

	for (uint32_t i = 0; i < c->n_models; i++)
		if (have & 1ull << i)
			buf_addf(&names, "%s%s", there++ ? ", " : "", c->models[i]);
	fprintf(stderr, "divvy sim: model '%s': no node has it, and %s; there %s %s\n",
		c->models[model], who, there == 1 ? "is" : "are", buf_text(&names));
}

static void warn_of_tasks(const struct sim *sim, uint32_t model, uint64_t have)
{
	char who[64];
	uint32_t n = 0;

	for (uint32_t i = 0; i < sim->workload.n; i++) {
		const uint64_t wanted = sim->workload.tasks[i].spec.models;

		n += wanted & 1ull << model && !(wanted & have);
	}
	snprintf(who, sizeof(who), "%" PRIu32 " task%s can be nowhere else", n, plural(n));
	if (n)
		warn_of_model(&sim->cluster, model, have, who);
}

static void warn_of_queues(const struct cluster *c, uint32_t model, uint64_t have)
{
	const char *first = "";
	char who[SPEC_LABEL + 64];
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n_queues; i++)
		for (uint32_t m = 0; m < c->queues[i].n_models; m++)
			if (c->queues[i].models[m].model == model && !n++)
				first = c->queues[i].name;
	snprintf(who, sizeof(who), "%" PRIu32 " queue%s %s a share of it, the first '%s'", n,
		plural(n), n == 1 ? "has" : "have", first);
	if (n)
		warn_of_model(c, model, have, who);
}

void sim_warn_of_models(const struct sim *sim)
{
	const uint64_t have = models_there(&sim->cluster);

	for (uint32_t model = 0; model < sim->cluster.n_models; model++) {
		if (have & 1ull << model)
			continue;
		warn_of_tasks(sim, model, have);
		warn_of_queues(&sim->cluster, model, have);
	}
}

void sim_warn_of_cells(const struct sim *sim, const char *path)
{
	const struct cluster *c = &sim->cluster;
	struct cluster_cells_met met;

	if (!c->cells || cluster_cells_compare(c, &met, NULL) < 0)
		return;
	if (met.n_unknown)
		fprintf(stderr,
			"divvy sim: %s: %" PRIu32 " of %" PRIu32
			" cells that are nodes %s a name that no node has, the first '%s'; there "
			"%s %" PRIu32 " node%s, such as '%s'\n",
			path, met.n_unknown, met.n_nodes, met.n_unknown == 1 ? "has" : "have",
			met.unknown, c->n == 1 ? "is" : "are", c->n, plural(c->n),
			c->nodes[0].name);
	if (met.n_other)
		fprintf(stderr,
			"divvy sim: %s: %" PRIu32 " node%s %s other devices than the cells say; "
			"the first, '%s', has %s, and its cells are %s\n",
			path, met.n_other, plural(met.n_other), met.n_other == 1 ? "has" : "have",
			met.other, met.has, met.said);
}

void sim_warn_of_hopeless(const struct sim *sim)
{
	const struct replay_input input = {.cluster = &sim->cluster, .workload = &sim->workload};
	struct replay_hopeless found = {0};

	/* Over a network there may be room that this does not look for. */
	if (!sim->workload.n || !sim->cluster.n_devices || sim->cluster.n_networks ||
		replay_find_hopeless(&input, &found, NULL) < 0 || !found.n)
		return;
	fprintf(stderr,
		"divvy sim: %u of %u tasks %s no room even where nobody else is; the first, "
		"task %u: %s\n",
		found.n, sim->workload.n, found.n == 1 ? "has" : "have", found.first + 1,
		found.why);
}

void sim_warn_of_unplaced(const struct sim *sim)
{
	for (uint32_t s = 0; s < sim->n_schemes && sim->mode == REPLAY_QUEUE; s++) {
		uint64_t n = 0, placed_of = 0;

		for (uint32_t i = 0; i < sim->n_seeds; i++) {
			n += sim_result(sim, s, i)->n_tasks;
			placed_of += sim_result(sim, s, i)->n_placed;
		}
		if (placed_of < n)
			fprintf(stderr,
				"divvy sim: %s: %" PRIu64 " of %" PRIu64
				" tasks never had room, and figures but PLACED are without them\n",
				sim->schemes[s].name, n - placed_of, n);
	}
}
