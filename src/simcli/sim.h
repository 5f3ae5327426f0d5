/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy sim` simulates a workload. sim-input.c and sim-yaml.c read the input. sim-report.c prints
 * the results as a table and as JSON, and sim-pictures.c draws them. sim-warn.c warns of requests
 * that no node can meet. One thread.
 */
#ifndef SIMCLI_SIM_H
#define SIMCLI_SIM_H

#include <jansson.h>
#include <stdio.h>

#include "cmdline/command.h"
#include "replay/replay.h"
#include "replay/workload.h"

#define SIM_SCHEMES_MAX 24 /* at least the number of schemes that exist */
#define SIM_SEEDS_MAX 1000
#define SIM_FILE_MAX (256u << 20)
/* Values of the OpenB benchmark: seeds from 42, and arrivals up to 130 % of the cluster. */
#define SIM_FIRST_SEED 42
#define SIM_SEEDS 5
#define SIM_ARRIVED_PERMILLE 1300

struct sim {
	struct cluster cluster;
	struct workload workload; /* from files; empty if tasks are generated for each seed */
	struct workload_shape shape;
	bool is_generated;
	/*
	 * number of draws as a multiple of the file's tasks, for each seed; 0: the file's tasks
	 * themselves
	 */
	uint32_t draws;
	uint32_t load; /* load of drawn tasks, permille of the devices */
	struct replay_defrag defrag;
	enum replay_preempt preempt;
	uint64_t grace_ns;
	uint32_t slowdown_permille;
	struct replay_scheme schemes[SIM_SCHEMES_MAX];
	uint32_t n_schemes;
	uint64_t first_seed;
	uint32_t n_seeds;
	bool has_seeds; /* the user gave --seeds */
	enum replay_mode mode;
	enum replay_queue queue;
	bool is_brief;                  /* the output is only a table */
	uint64_t faster;                /* arrival times of file tasks are divided by this factor */
	char title[128];                /* short description of the input */
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

/* Checks the options without opening a file. Errors describe wrong usage. */
int sim_check(const struct cli_args *args, struct error *err);
/* Reads all input files. */
int sim_read(const struct cli_args *args, struct sim *ret_sim, struct error *err);
/*
 * Runs one scheme with one seed. `progress` and `note` are the callbacks of struct replay_input,
 * and both get `arg`.
 */
int sim_run(const struct cli_args *args, const struct sim *sim, uint32_t scheme, uint64_t seed,
	replay_progress_fn *progress, replay_note_fn *note, void *arg,
	struct replay_result **ret_result, struct error *err);

/* ---- sim-yaml.c ---- */

/*
 * Reads nodes, queues, networks and tasks from YAML and adds them to `cluster` and `workload`. The
 * man page documents the format. Sets the workload's has_times if all tasks have a duration. Pure.
 * Errors: -EINVAL with line, field and value, -ENOMEM.
 */
int sim_yaml(
	struct str text, struct cluster *cluster, struct workload *workload, struct error *err);

extern const char *const sim_network_kinds[PLACE_NETWORK_KINDS]; /* names in YAML and JSON */

/* ---- sim-report.c ---- */

int sim_print(const struct sim *sim, struct error *err);
/* Prints an event of a task as one line of JSON, with its time in REPLAY_QUEUE. */
void sim_print_event(FILE *f, const struct sim *sim, uint32_t scheme, uint64_t seed,
	const struct replay_note *note);
/* Returns an object that the caller releases, or NULL if memory is exhausted. */
json_t *sim_json(const struct sim *sim);

/* ---- sim-warn.c ---- */

/* Warns of models in tasks or queues that no node has. */
void sim_warn_of_models(const struct sim *sim);
/* Warns of quotas that exceed the devices of the cluster. */
void sim_warn_of_quotas(const struct sim *sim, const char *path);
/* Warns of differences between the cell file and the cluster; silent without a cell file. */
void sim_warn_of_cells(const struct sim *sim, const char *path);
/* Warns of tasks that do not fit even on an empty cluster. */
void sim_warn_of_hopeless(const struct sim *sim);
/* Warns, after all runs, of tasks that never got a place. */
void sim_warn_of_unplaced(const struct sim *sim);

/* ---- sim-pictures.c ---- */

/* Writes the pictures into `folder`, which must exist. */
int sim_draw(const struct sim *sim, const char *folder, struct error *err);

#endif
