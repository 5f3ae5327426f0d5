/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints warnings to stderr: requests and cell files that do not match the cluster, and tasks that
 * never got a place. No warning makes the command fail.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "simcli/sim.h"

static const char *sim_warn_plural(uint32_t n)
{
	return n == 1 ? "" : "s";
}

#define ALL_MODELS PLACE_MODELS_MAX

/* Returns the number of devices of the model, or of all models for ALL_MODELS. */
static uint64_t sim_warn_model_devices(const struct cluster *c, uint32_t model)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < c->n; i++)
		for (uint32_t k = 0; k < c->nodes[i].n_kinds; k++)
			if (model == ALL_MODELS || c->nodes[i].kinds[k].model == model)
				n += c->nodes[i].kinds[k].n_devices;
	return n;
}

/* Returns a bit for each model of which some node has devices. */
static uint64_t models_there(const struct cluster *c)
{
	uint64_t have = 0;

	for (uint32_t model = 0; model < c->n_models; model++)
		have |= sim_warn_model_devices(c, model) ? 1ull << model : 0;
	return have;
}

/* Devices whose node names no model have the model "any". */
static const char *model_text(const struct cluster *c, uint32_t model)
{
	return strcmp(c->models[model], "any") != 0 ? c->models[model] : "devices without a model";
}

/*
 * Prints for example "divvy sim: model 'v100': no node has this model, and WHO; nodes have V100".
 * `who` says which tasks or queues name the model.
 */
static void warn_of_model(const struct cluster *c, uint32_t model, uint64_t have, const char *who)
{
	_cleanup_buf_ struct buf names = BUF_INIT(PLACE_MODELS_MAX * (SPEC_LABEL + 2));
	uint32_t there = 0;

	for (uint32_t i = 0; i < c->n_models; i++)
		if (have & 1ull << i)
			buf_addf(&names, "%s%s", there++ ? ", " : "", model_text(c, i));
	fprintf(stderr, "divvy sim: model '%s': no node has this model, and %s; nodes have %s\n",
		c->models[model], who, buf_text(&names));
}

static void warn_of_tasks(const struct sim *sim, uint32_t model, uint64_t have)
{
	uint32_t n = 0, line = 0;
	char who[80];

	for (uint32_t i = 0; i < sim->workload.n; i++) {
		const struct task *task = &sim->workload.tasks[i];

		if (task->spec.models & 1ull << model && !(task->spec.models & have) && !n++)
			line = task->line;
	}
	snprintf(who, sizeof(who),
		"%" PRIu32 " task%s can run nowhere else, the first in line %" PRIu32, n,
		sim_warn_plural(n), line);
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
	snprintf(who, sizeof(who), "%" PRIu32 " queue%s %s a quota of it, the first '%s'", n,
		sim_warn_plural(n), n == 1 ? "has" : "have", first);
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

/* Sum of the quotas of all root queues, in permille; a child's quota is part of its parent's. */
static uint64_t quota_of(const struct cluster *c, uint32_t model)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < c->n_queues; i++) {
		const struct cluster_queue *q = &c->queues[i];

		if (q->parent[0])
			continue;
		sum += model == ALL_MODELS ? q->quota : 0;
		for (uint32_t m = 0; m < q->n_models; m++)
			sum += q->models[m].model == model ? q->models[m].quota : 0;
	}
	return sum;
}

void sim_warn_of_quotas(const struct sim *sim, const char *path)
{
	const struct cluster *c = &sim->cluster;

	for (uint32_t model = 0; model <= ALL_MODELS; model++) {
		const uint64_t quota = quota_of(c, model);
		const uint64_t there = quota ? sim_warn_model_devices(c, model) : 0;
		const char *name = model == ALL_MODELS ? "devices" : model_text(c, model);
		const bool is_named = model != ALL_MODELS && name == c->models[model];

		/* sim_warn_of_models() has already reported models that no node has */
		if (!there || quota <= there * SPEC_SHARE_ONE)
			continue;
		fprintf(stderr,
			"divvy sim: %s: the queues' quotas sum to %g %s%s, and the cluster has %" PRIu64
			"\n",
			path, (double)quota / SPEC_SHARE_ONE, is_named ? "devices of " : "", name,
			there);
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
			" cells of nodes have the name of no node, the first '%s'; the cluster "
			"has %" PRIu32 " node%s, such as '%s'\n",
			path, met.n_unknown, met.n_nodes, met.unknown, c->n, sim_warn_plural(c->n),
			c->nodes[0].name);
	if (met.n_other)
		fprintf(stderr,
			"divvy sim: %s: %" PRIu32
			" node%s %s other devices than the file of cells says; the "
			"first, '%s', has %s, and its cells are %s\n",
			path, met.n_other, sim_warn_plural(met.n_other),
			met.n_other == 1 ? "has" : "have", met.other, met.has, met.said);
}

static bool sim_warn_is_same(const struct replay_hopeless *a, const struct replay_hopeless *b)
{
	return a->n == b->n && (!a->n || (a->first == b->first && !strcmp(a->why, b->why)));
}

/*
 * Prints how many tasks have no place under a scheme even in an empty cluster. The line names all
 * schemes with the same result, unless every scheme has that result.
 */
static void tell_hopeless(const struct sim *sim, const struct workload *w,
	const struct replay_hopeless *found, uint32_t scheme)
{
	const struct replay_hopeless *here = &found[scheme];
	_cleanup_buf_ struct buf names = BUF_INIT(SIM_SCHEMES_MAX * SPEC_LABEL);
	uint32_t n = 0;

	for (uint32_t s = 0; s < sim->n_schemes; s++)
		if (sim_warn_is_same(&found[s], here)) {
			if (s < scheme)
				return;
			buf_addf(&names, "%s%s", n++ ? ", " : "", sim->schemes[s].name);
		}
	if (!here->n)
		return;
	fputs("divvy sim: ", stderr);
	if (n < sim->n_schemes)
		fprintf(stderr, "%s: ", buf_text(&names));
	fprintf(stderr, "%u of %u tasks ", here->n, w->n);
	if (sim->is_generated)
		fprintf(stderr, "of seed %" PRIu64 " ", sim->first_seed);
	fprintf(stderr, "%s no place even in an empty cluster; the first, task %u",
		here->n == 1 ? "has" : "have", here->first + 1);
	if (!sim->is_generated)
		fprintf(stderr, " (line %" PRIu32 ")", w->tasks[here->first].line);
	fprintf(stderr, ": %s\n", here->why);
}

void sim_warn_of_hopeless(const struct sim *sim)
{
	struct replay_hopeless found[SIM_SCHEMES_MAX] = {0};
	_cleanup_workload_ struct workload made = {0};
	const struct workload *w = sim->is_generated ? &made : &sim->workload;

	/* A task may fit over a network, which this search ignores. */
	if (!sim->cluster.n_devices || sim->cluster.n_networks)
		return;
	if (sim->is_generated && workload_generate(&made, &sim->shape, sim->first_seed, NULL) < 0)
		return;
	for (uint32_t s = 0; s < sim->n_schemes; s++) {
		const struct replay_input input = {
			.cluster = &sim->cluster, .workload = w, .scheme = &sim->schemes[s]};
		uint32_t alike = 0;

		/* Schemes with the same adapt function have the same result. */
		while (sim->schemes[alike].adapt != sim->schemes[s].adapt)
			alike++;
		if (alike < s)
			found[s] = found[alike];
		else if (replay_find_hopeless(&input, &found[s], NULL) < 0)
			return;
	}
	for (uint32_t s = 0; s < sim->n_schemes; s++)
		tell_hopeless(sim, w, found, s);
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
				" tasks never got a place; only PLACED counts them\n",
				sim->schemes[s].name, n - placed_of, n);
	}
}
