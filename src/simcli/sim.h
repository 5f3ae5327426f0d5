/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy sim`: what is replayed (sim-input.c, sim-yaml.c), what came of it as a table and as JSON
 * (sim-report.c), what it asks for in vain (sim-warn.c), and pictures (sim-pictures.c). One thread.
 */
#ifndef SIMCLI_SIM_H
#define SIMCLI_SIM_H

#include <jansson.h>
#include <stdio.h>

#include "cmdline/command.h"
#include "replay/replay.h"
#include "replay/workload.h"

#define SIM_SCHEMES_MAX 24 /* all that there are, and room */
#define SIM_SEEDS_MAX 1000
#define SIM_FILE_MAX (256u << 20)
/* The OpenB benchmark: seeds 42 to 51, arrivals up to 130 % of the cluster. */
#define SIM_FIRST_SEED 42
#define SIM_SEEDS 5
#define SIM_ARRIVED_PERMILLE 1300

struct sim {
	struct cluster cluster;
	struct workload workload; /* of the files; a generated one is made for each seed */
	struct workload_shape shape;
	bool is_generated;
	uint32_t draws; /* so many times the tasks of the file, drawn for each seed; 0: as it is */
	uint32_t load;  /* permille of the devices that those ask for */
	struct replay_defrag defrag;
	enum replay_preempt preempt;
	uint64_t grace_ns;
	uint32_t slowdown_permille;
	struct replay_scheme schemes[SIM_SCHEMES_MAX];
	uint32_t n_schemes;
	uint64_t first_seed;
	uint32_t n_seeds;
	bool has_seeds; /* they were asked for */
	enum replay_mode mode;
	enum replay_queue queue;
	bool is_brief;                  /* there will be a table, and nothing else */
	uint64_t faster;                /* tasks of files arrive so many times as fast */
	char title[128];                /* what it is, in a few words */
	struct replay_result **results; /* by scheme, then by seed; owned */
};

void sim_done(struct sim *sim);
#define _cleanup_sim_ _cleanup_(sim_done)

static inline struct replay_result *sim_result(
	const struct sim *sim, uint32_t scheme, uint32_t seed)
{
	return sim->results[scheme * sim->n_seeds + seed];
}

/* ---- sim-input.c ---- */

/* What can be told from the words alone: a sentence about bad usage. */
int sim_check(const struct cli_args *args, struct error *err);
/* Reads all that there is to read. */
int sim_read(const struct cli_args *args, struct sim *ret_sim, struct error *err);
/* Runs the scheme with the seed; progress, note: as replay_input has it. */
int sim_run(const struct cli_args *args, const struct sim *sim, uint32_t scheme, uint64_t seed,
	replay_progress_fn *progress, replay_note_fn *note, void *arg,
	struct replay_result **ret_result, struct error *err);

/* ---- sim-yaml.c ---- */

/*
 * Nodes and tasks out of YAML, added to both; docs: the man page. Whether all tasks have a duration
 * is has_times of the workload. Pure. -EINVAL with line, field and value, -ENOMEM.
 */
int sim_yaml(
	struct str text, struct cluster *cluster, struct workload *workload, struct error *err);

extern const char *const sim_network_kinds[PLACE_NETWORK_KINDS]; /* as YAML and JSON have them */

/* ---- sim-report.c ---- */

int sim_print(const struct sim *sim, struct error *err);
/* What has happened to a task, as a line of JSON: with a time where there is one. */
void sim_print_event(FILE *f, const struct sim *sim, uint32_t scheme, uint64_t seed,
	const struct replay_note *note);
/* The caller's; NULL when out of memory. */
json_t *sim_json(const struct sim *sim);

/* ---- sim-warn.c ---- */

/* Of models that no node has and tasks or queues name. */
void sim_warn_of_models(const struct sim *sim);
/* Of more devices guaranteed to queues than there are. */
void sim_warn_of_quotas(const struct sim *sim, const char *path);
/* Of nodes that the file of cells has otherwise than the cluster; without one of nothing. */
void sim_warn_of_cells(const struct sim *sim, const char *path);
/* Of tasks that cannot have a place. */
void sim_warn_of_hopeless(const struct sim *sim);
/* Once all has run, of tasks without one. */
void sim_warn_of_unplaced(const struct sim *sim);

/* ---- sim-pictures.c ---- */

/* Into the folder, which is there. */
int sim_draw(const struct sim *sim, const char *folder, struct error *err);

#endif
