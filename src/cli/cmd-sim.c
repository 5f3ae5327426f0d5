/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cmdline/output.h"
#include "replay/scheme.h"
#include "simcli/sim.h"

static const struct option_row options[] = {
	{"nodes", "FILE",
		"nodes, as CSV in the OpenB trace's format: sn, cpu_milli, memory_mib, gpu, model",
		.letter = 'n'},
	{"pods", "FILE",
		"tasks, as CSV in the OpenB trace's format: name, cpu_milli, memory_mib, num_gpu, "
		"gpu_milli, gpu_spec",
		.letter = 'p'},
	{"spec", "FILE", "nodes and tasks, as YAML", .letter = 'f'},
	{"generate", "SHAPE", "tasks of that shape, made from the seeds", .letter = 'g',
		.choices = "kubeshare trace-like wang"},
	{"policy", "NAMES",
		"what to compare, of the policies below, with commas between (default "
		"default,fgd,best-fit)"},
	{"seeds", "N", "so many runs of each, from seed 42 on; or a range such as 1-5 (default 5)",
		.letter = 's'},
	{"orders", "FILE",
		"arrivals of --pods: a row's index a line, SEED in the name is the seed; beside "
		"it .perm for .txt, the nodes' ranks (without: they stand as in --nodes)"},
	{"mode", "MODE",
		"drop: none leaves, who does not fit is gone; queue: with times (default drop for "
		"--pods, else queue)",
		.choices = "drop queue"},
	{"queue", "ORDER",
		"who is tried first when there is room, and of those who come at the same time "
		"(default priority, then as they came)",
		.choices = "priority fifo"},
	{"faster", "N",
		"let the tasks of a file arrive N times as fast as it says, each as long as it is"},
	{"draw", "N",
		"N times as many tasks as --pods has, drawn from those at random: they come by "
		"Poisson, take as long as --duration says, and leave"},
	{"load", "SHARE",
		"how much of all devices the tasks of --draw ask for together (default 1)"},
	{"defrag", "EVERY,MOVES,COST",
		"with times: so often, while somebody waits for a whole device, move up to MOVES "
		"tasks together so that devices become free; each loses COST of its work (default "
		"100 moves of 30s)"},
	{"preempt", "HOW",
		"with times: tasks have to go for one of higher priority that has no room, of "
		"its own queue, or of none as it is, wait again, and then begin anew or go on "
		"where they were "
		"(default: nobody has to go but for a queue's quota, and goes on where it was)",
		.choices = "restart resume"},
	{"grace", "TIME",
		"with --preempt: a task that has to go runs on for so long, such as 30s, or until "
		"it ends; then those start that it goes for, and nobody else; they keep to that "
		"place, whatever becomes free elsewhere. From when it is told it counts no more "
		"for its queue's limit, nor does its label of affinity keep others to its device "
		"(default 0)"},
	{"cells", "FILE",
		"what is near to what, as KubeShare 2.0's file of cells says it; else it is what "
		"is on one node or in one rack. The distance of KubeShare's own policies tells "
		"roots apart only by name: give each a cellId that is no number"},
	{"json", "FILE",
		"every figure and curve, null where there is none, runs: how many a mean is of; - "
		"for stdout, and no table"},
	{"events", "FILE",
		"what becomes of each task, a line of JSON for each time that it is placed, waits, "
		"is dropped, is told to go (leaving) or evicted, and why; is moved, or ends; task: "
		"its number in the file, of the pods' rows the same each time that one is drawn, "
		"of --spec with --mode drop in the order in which they come"},
	{"svg", "FOLDER", "pictures"},
	{"nodes-like", "NxD", "N nodes of D devices for --generate (default the shape's)"},
	{"tasks", "N", "generate so many tasks"},
	{"hours", "N",
		"generate arrivals of so long, however many those are, up to --tasks where that is "
		"given"},
	{"rate", "N", "arrivals per hour, by Poisson"},
	{"demand", "MEAN,SIGMA",
		"share of a device, normal within 0.05 to 1; or MEAN alone, the same for all "
		"(SIGMA 0); or uniform"},
	{"limit", "SHARE", "what a task can make use of, where that is above its demand"},
	{"memory", "MEAN,SIGMA", "part of a device's memory, likewise (default as the demand)"},
	{"duration", "TIME",
		"mean of exponential durations such as 51m; or shortest,longest of uniform ones "
		"(default the shape's; 1h for --draw)"},
	{"whole", "LIST",
		"whole devices by weight such as 0:8,1:2; 0 is a share of one, as --demand says"},
	{"gangs", "LIST", "tasks that start together by weight, such as 1:9,4:1"},
	{"threshold", "SHARE",
		"how much of a gang has to start together, rounded half up to tasks and at least "
		"one: 0.5 of 5 is 3; each of the others starts when it has room (default 1)"},
	{"priorities", "LIST", "priorities by weight, such as 50:9,90:1"},
	{"affinity", "LIST",
		"labels by weight, such as 0:8,1:1,2:1: tasks with the same share a device; 0 is "
		"none"},
	{"anti-affinity", "LIST", "labels likewise: tasks with the same never share a device"},
	{"preferred-anti-affinity", "LIST",
		"labels likewise: tasks with the same share a device where nothing else has room"},
	{"exclusion", "LIST",
		"labels likewise: only tasks with the same, or all without, share a device"},
	{"kinds", "LIST",
		"kinds of tasks by weight, such as 0:1,1:1: those of one slow one another; 0 is "
		"of none"},
	{"slowdown", "FACTOR",
		"so many times as long a task takes while another of its kind is on its devices "
		"(default 1)"},
	{"apart", NULL, "tasks of a kind never share a device"},
	{"prefer-apart", NULL, "tasks of a kind share a device where nothing else has room"},
	{0},
};

struct progress {
	const struct sim *sim;
	uint32_t run; /* of all */
	FILE *events; /* NULL: nobody wants them */
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

#define JSON_FLAGS (JSON_INDENT(1) | JSON_REAL_PRECISION(9)) /* beyond is the noise of sums */

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

/* Nothing but making a file tells: permissions do not of all file systems, nor of root. */
static int probe(const char *folder, int n)
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

/* What file_replace() needs: room beside a file, behind all links. */
static int check_json(const char *path, struct error *err)
{
	_cleanup_free_ char *target = realpath(path, NULL);
	const char *file = target ? target : path, *slash = strrchr(file, '/');
	struct stat st = {0};
	int r = 0;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return fail(err, EISDIR, "--json '%s': it is a folder, a file is expected", path);
	if (!target || S_ISREG(st.st_mode))
		r = probe(slash ? file : ".", slash ? (int)(slash - file) : 1);
	return r < 0 ? fail_errno(err, -r, "--json '%s'", path) : 0;
}

static int make_folder(const char *path, struct error *err)
{
	int r = folder_make(path, 0755, err);

	if (r < 0)
		return fail_within(err, r, "--svg");
	r = probe(path, (int)strlen(path));
	return r < 0 ? fail_errno(err, -r, "--svg '%s'", path) : 0;
}

static int run(const struct cli_args *args, struct error *err)
{
	const char *json = cli_get(args, "json"), *svg = cli_get(args, "svg");
	_cleanup_sim_ struct sim sim = {0};
	_cleanup_fclose_ FILE *events = NULL;
	int r = sim_read(args, &sim, err);

	/* What cannot be written is better known before minutes of work. */
	if (r == 0 && json && strcmp(json, "-") != 0)
		r = check_json(json, err);
	if (r == 0 && svg)
		r = make_folder(svg, err);
	if (r == 0 && cli_has(args, "events") && !strcmp(cli_get(args, "events"), "-"))
		r = fail(err, EINVAL,
			"--events -: a file is expected, since the table goes to stdout");
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
	/* Figures last: where they are all else is as well. */
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
	.text = "Everything it prints and draws is simulated: tasks are placed by the real engine, "
		"and make progress by their share of the devices and nothing else, --slowdown "
		"apart. With times, "
		"rates, "
		"means over time and curves end when 99 % of those that ever have room have, and "
		"pictures go on "
		"with the cluster as all leave it; of tasks that never "
		"have room only PLACED tells, and policies that placed different ones are not "
		"compared. Allocated, in the table, in --json and in pictures, is what the tasks "
		"that have a place asked for, in parts of all devices, whatever they were given: "
		"with whole one that asked for half a device counts half, while in use counts the "
		"device. Used is what is worked on; idle is what nobody was given, or, without "
		"limits, asked for.\n\n"
		"With --pods, by the protocol of the OpenB benchmark: tasks arrive one by one, "
		"none "
		"leaves, and one that does not fit is dropped. The table shows how much of the "
		"devices is allocated where tasks have asked for 90 % to 130 % of them, as means "
		"of the runs in which they do, and where fewer come at the end. Without "
		"--orders tasks are drawn with replacement up to 130 %, and the nodes' ranks "
		"shuffled. With --mode queue tasks come and go at the trace's own times, or "
		"--faster. With --draw they come and go without end, whatever the trace says of "
		"times.\n\n"
		"With --spec, nodes and tasks are as a YAML file says: a list `nodes` with name, "
		"copies, devices, model, memory (of a device; where no node has it, it is not "
		"counted, else who asks for bytes is never on a device without), cpu and "
		"host-memory (none where nothing is said; devices that are not alike, MIG "
		"instances among them: devices: "
		"A100:3:40Gi|A100-1g.5gb:7:4864Mi), and a list "
		"`tasks` with the fields of a spec (request, limit, count, memory (on each device, "
		"or a percentage of each), class, priority, model), copies, at, every (from one "
		"copy to the next), duration, cpu, "
		"host-memory, gang (yes or no: "
		"they start together, and whoever has to go goes alone), threshold "
		"(how much of the gang has to start together, floor(threshold x copies + 0.5) of "
		"them and at least one: 3 of 5 with 0.5), labels (affinity, anti-affinity, "
		"preferred-anti-affinity, exclusion, whose empty label is one as well and other "
		"than none) and queue. A duration is that of a task that "
		"has its limit; with --mode drop none is needed, "
		"and tasks come in the order of `at`. A list "
		"`queues` has name, parent, quota and limit (in devices), models (both of one "
		"model, such as V100:1.5:4|T4:2) and weight: up to their quotas tasks are "
		"guaranteed their place, up to the limit they borrow what is "
		"idle, the queue that has least beyond its quota by its weight first; what is "
		"borrowed is reclaimed, from tasks that then wait again, also where the limit of "
		"a queue above is what is in the way. A list `networks` has "
		"node, kind (direct, host, overlay), bandwidth such as 9Gbps and latency, and a "
		"node may have a rack: with --mode drop each task then gets its devices where it "
		"runs or over the better network, as its mode and network say, and --json tells "
		"how and why.\n\n"
		"With --generate, tasks are made: kubeshare, jobs that use part of a device, at "
		"three times what whole devices can take; trace-like, a day of jobs with whole "
		"devices and shares; wang, twenty small trainings of two priorities on one node. "
		"The "
		"other options change the shape.\n\n"
		"Beside the engine's policies: whole gives each task whole devices, as Kubernetes "
		"does; replicas counts a device a hundred times and gives those in turn, without "
		"limits on time or memory, so that one is a hundredth of a device to queues as "
		"well; memory-only "
		"gives the device with the least memory free, without limits on time, where "
		"who asks for no memory counts by the request; random takes "
		"any device with room. Comparisons "
		"with the first policy are paired by seed; intervals are Student's, so those of "
		"two or three runs are wide, wider than a share can be, and pictures show what of "
		"them "
		"is possible. fgd knows the whole workload's mix, as "
		"published, the others what has come so far.",
	.examples =
		"divvy sim --nodes nodes.csv --pods pods.csv --policy fgd,best-fit,default "
		"--seeds 10\n"
		"divvy sim --nodes nodes.csv --pods pods.csv --orders arrivals/default.SEED.txt\n"
		"divvy sim --nodes nodes.csv --pods pods.csv --draw 10 --load 1 --defrag 10m,200\n"
		"divvy sim --generate kubeshare --policy whole,replicas,memory-only,default --svg "
		"out\n"
		"divvy sim --generate wang --nodes-like 2x2 --limit 1 --json -\n"
		"divvy sim --generate kubeshare --priorities 10:4,90:1 --preempt resume "
		"--grace 30s\n"
		"divvy sim --spec cluster.yaml --policy default,whole",
	.options = options,
	.list = &policies,
	.check = sim_check,
	.run = run,
};
