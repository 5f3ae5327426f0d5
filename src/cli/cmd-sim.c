/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `divvy sim` runs the placement simulation of src/simcli for every policy and every seed, one run
 * after the other. Run i has policy i / n_seeds and seed first_seed + i % n_seeds, and results[i]
 * holds its result. The command tests before the first run that it can write its output files,
 * because all runs may take minutes. Events go to their file during the runs. Pictures, JSON and
 * the table follow in this order; JSON on stdout replaces the table. Progress appears only if
 * stderr is a terminal.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli-text.h"
#include "cli/cli-client.h"
#include "cli/cli-commands.h"
#include "cmdline/output.h"
#include "replay/scheme.h"
#include "simcli/sim.h"

static const struct option_row options[] = {
	{"nodes", "FILE",
		"CSV file of nodes in the format of the OpenB trace: sn, cpu_milli, memory_mib, "
		"gpu, model",
		.letter = 'n'},
	{"pods", "FILE", TEXT_SIM_PODS, .letter = 'p'},
	{"spec", "FILE", "YAML file of nodes and tasks", .letter = 'f'},
	{"generate", "SHAPE", "generate tasks of this shape from the seeds", .letter = 'g',
		.choices = "kubeshare trace-like wang"},
	{"policy", "NAMES", TEXT_SIM_POLICY},
	{"seeds", "N",
		"number of runs of each policy, from seed 42 on; or a range such as 1-5 "
		"(default 5)",
		.letter = 's'},
	{"orders", "FILE", TEXT_SIM_ORDERS},
	{"mode", "MODE", TEXT_SIM_MODE, .choices = "drop queue"},
	{"queue", "ORDER", TEXT_SIM_QUEUE, .choices = "priority fifo"},
	{"faster", "N",
		"let the tasks of a file arrive N times as fast, with their durations unchanged"},
	{"draw", "N", TEXT_SIM_DRAW},
	{"load", "SHARE",
		"sum of the requests of --draw's tasks, as a part of all devices (default 1)"},
	{"defrag", "EVERY,MOVES,COST", TEXT_SIM_DEFRAG},
	{"preempt", "HOW", TEXT_SIM_PREEMPT, .choices = "restart resume"},
	{"grace", "TIME", TEXT_SIM_GRACE},
	{"cells", "FILE", TEXT_SIM_CELLS},
	{"json", "FILE", TEXT_SIM_JSON},
	{"events", "FILE", TEXT_SIM_EVENTS},
	{"svg", "FOLDER", "folder for pictures"},
	{"nodes-like", "NxD", "N nodes with D devices each for --generate (default: of the shape)"},
	{"tasks", "N", "number of tasks to generate"},
	{"hours", "N", TEXT_SIM_HOURS},
	{"rate", "N", "arrivals per hour, as a Poisson process"},
	{"demand", "MEAN,SIGMA", TEXT_SIM_DEMAND},
	{"limit", "SHARE", "largest share that a task can use, where that is above its demand"},
	{"memory", "MEAN,SIGMA",
		"part of a device's memory, in the same form (default: as --demand)"},
	{"duration", "TIME", TEXT_SIM_DURATION},
	{"whole", "LIST",
		"numbers of whole devices by weight, such as 0:8,1:2; 0 is a share by --demand"},
	{"gangs", "LIST", "sizes of gangs by weight, such as 1:9,4:1"},
	{"threshold", "SHARE", TEXT_SIM_THRESHOLD},
	{"priorities", "LIST", "priorities by weight, such as 50:9,90:1"},
	{"affinity", "LIST", TEXT_SIM_AFFINITY},
	{"anti-affinity", "LIST",
		"labels by weight: tasks with the same label never share a device"},
	{"preferred-anti-affinity", "LIST",
		"labels by weight: tasks with the same label share a device only if no other fits"},
	{"exclusion", "LIST",
		"labels by weight: only tasks with the same label, or without one, share a device"},
	{"kinds", "LIST", TEXT_SIM_KINDS},
	{"slowdown", "FACTOR", TEXT_SIM_SLOWDOWN},
	{"apart", NULL, "tasks of one kind never share a device"},
	{"prefer-apart", NULL, "tasks of one kind share a device only if no other fits"},
	{0},
};

struct progress {
	const struct sim *sim;
	uint32_t run; /* number of the run */
	FILE *events; /* NULL: no events are written */
};

static void print_event(void *arg, const struct replay_note *note)
{
	const struct progress *p = arg;

	sim_print_event(p->events, p->sim, p->run / p->sim->n_seeds,
		p->sim->first_seed + p->run % p->sim->n_seeds, note);
}

static void show_progress(void *arg, uint32_t percent)
{
	const struct progress *p = arg;

	fprintf(stderr, "\r\033[Ksimulating: run %u of %u, %s, %u %%", p->run + 1,
		p->sim->n_schemes * p->sim->n_seeds, p->sim->schemes[p->run / p->sim->n_seeds].name,
		percent);
	fflush(stderr);
}

static int run_all(const struct cli_args *args, struct sim *sim, FILE *events, struct error *err)
{
	const uint32_t n = sim->n_schemes * sim->n_seeds;
	const bool is_seen = isatty(STDERR_FILENO);
	struct progress p = {.sim = sim, .events = events};
	int r = 0;

	for (; r == 0 && p.run < n; p.run++) {
		if (is_seen)
			show_progress(&p, 0);
		r = sim_run(args, sim, p.run / sim->n_seeds, sim->first_seed + p.run % sim->n_seeds,
			is_seen ? show_progress : NULL, events ? print_event : NULL, &p,
			&sim->results[p.run], err);
	}
	if (is_seen)
		fputs("\r\033[K", stderr);
	return r;
}

#define JSON_FLAGS (JSON_INDENT(1) | JSON_REAL_PRECISION(9)) /* further digits are rounding noise */

static int write_json(const struct sim *sim, const char *path, struct error *err)
{
	_cleanup_json_ json_t *all = sim_json(sim);
	_cleanup_free_ char *text = all ? json_dumps(all, JSON_FLAGS) : NULL;

	if (!text)
		return fail(err, ENOMEM, "--json");
	if (strcmp(path, "-") != 0)
		return file_replace(path, str_from(text), 0644, err);
	puts(text);
	return output_end(err);
}

/*
 * Creates a file, because only that proves that the folder is writable. Permission bits prove
 * nothing for root and on some file systems.
 */
static int cmd_sim_probe_folder(const char *folder, int n)
{
	char path[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof(path), "%.*s/.divvy-XXXXXX", n, folder) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(fd);
	return unlink(path) < 0 ? -errno : 0;
}

/* file_replace() follows all symlinks and creates a file in the folder of their target. */
static int check_json(const char *path, struct error *err)
{
	_cleanup_free_ char *target = realpath(path, NULL);
	const char *file = target ? target : path, *slash = strrchr(file, '/');
	struct stat st = {0};
	int r = 0;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return fail(err, EISDIR, "--json '%s' is a folder; expected a file", path);
	if (!target || S_ISREG(st.st_mode))
		r = cmd_sim_probe_folder(slash ? file : ".", slash ? (int)(slash - file) : 1);
	return r < 0 ? fail_errno(err, -r, "--json '%s'", path) : 0;
}

static int make_folder(const char *path, struct error *err)
{
	int r = folder_make(path, 0755, err);

	if (r < 0)
		return fail_within(err, r, "--svg");
	r = cmd_sim_probe_folder(path, (int)strlen(path));
	return r < 0 ? fail_errno(err, -r, "--svg '%s'", path) : 0;
}

static int cmd_sim_run(const struct cli_args *args, struct error *err)
{
	const char *json = cli_get(args, "json"), *svg = cli_get(args, "svg");
	_cleanup_sim_ struct sim sim = {0};
	_cleanup_fclose_ FILE *events = NULL;
	int r = sim_read(args, &sim, err);

	/* Tests the output files now, because the runs may take minutes. */
	if (r == 0 && json && strcmp(json, "-") != 0)
		r = check_json(json, err);
	if (r == 0 && svg)
		r = make_folder(svg, err);
	if (r == 0 && cli_has(args, "events") && !strcmp(cli_get(args, "events"), "-"))
		r = fail(err, EINVAL, "--events -: stdout has the table; name a file");
	if (r == 0 && cli_has(args, "events")) {
		events = fopen(cli_get(args, "events"), "we");
		r = events ? 0 : fail_errno(err, errno, "--events '%s'", cli_get(args, "events"));
	}
	sim.is_brief = !json && !svg;
	if (r == 0) {
		sim_warn_of_models(&sim);
		sim_warn_of_quotas(&sim, cli_get(args, "spec"));
		sim_warn_of_cells(&sim, cli_get(args, "cells"));
		sim_warn_of_hopeless(&sim);
		r = run_all(args, &sim, events, err);
	}
	if (events && (fflush(events) || ferror(events)) && r == 0)
		r = fail_errno(err, errno, "--events '%s'", cli_get(args, "events"));
	if (r == 0)
		sim_warn_of_unplaced(&sim);
	if (r == 0 && svg)
		r = sim_draw(&sim, svg, err);
	if (r == 0 && json)
		r = write_json(&sim, json, err);
	if (r < 0 || (json && !strcmp(json, "-")))
		return r;
	return sim_print(&sim, err);
}

static const struct cli_list policies = {
	.title = "Policies",
	.name = replay_scheme_name,
	.about = replay_scheme_about,
};

const struct cli_command cmd_sim = {
	.name = "sim",
	.operands = "",
	.summary = "Replay a trace or a workload against placement policies, in virtual time",
	.text = TEXT_SIM_TEXT,
	.examples = TEXT_SIM_EXAMPLES,
	.options = options,
	.list = &policies,
	.check = sim_check,
	.run = cmd_sim_run,
};
