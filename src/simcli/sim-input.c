/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the options and files of `divvy sim`, and builds the input of each run from its seed.
 * sim_check() judges the options without opening a file. sim_read() reads every file, also the
 * arrival orders of all seeds, so a faulty file fails before the first run. Every random choice in
 * this file comes from the seed, so a run can be repeated. sim_run() changes nothing in struct sim.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/rand.h"
#include "replay/openb.h"
#include "simcli/sim.h"

#define PATH_MAX_BYTES 4096
#define SEED_WORD "SEED"
#define NAME_SHOWN 60 /* length limit of a file name in titles, bytes */
#define DEFRAG_MOVES 100u
#define DEFRAG_COST_NS (30 * NSEC_PER_SEC)
#define DRAW_WORK_NS (3600 * NSEC_PER_SEC)
#define DRAW_LOAD_MAX 100000u /* permille */

void sim_done(struct sim *sim)
{
	for (uint32_t i = 0; sim->results && i < sim->n_schemes * sim->n_seeds; i++)
		replay_free(sim->results[i]);
	free(sim->results);
	cluster_done(&sim->cluster);
	workload_done(&sim->workload);
	*sim = (struct sim){0};
}

/* ---- options ---- */

static int read_schemes(const struct cli_args *args, struct sim *sim, struct error *err)
{
	/* Names stay valid: they point into argv or into the list of schemes. */
	const char *text = cli_get(args, "policy");
	struct str rest = str_from(text ? text : "default,fgd,best-fit"), name;

	while (str_split(&rest, ',', &name)) {
		struct replay_scheme *scheme = &sim->schemes[sim->n_schemes];
		char word[40];
		int r;

		if (sim->n_schemes == SIM_SCHEMES_MAX)
			return fail(err, EINVAL,
				"--policy has more than %d policies; compare fewer at once",
				SIM_SCHEMES_MAX);
		if (str_copy(word, sizeof(word), name) < 0)
			return fail(err, EINVAL,
				"--policy '%.40s...': unknown policy; 'divvy sim --help' lists "
				"the policies",
				name.p);
		r = replay_scheme_find(word, scheme, err);
		if (r < 0)
			return fail_within(err, r, "--policy");
		if (scheme->name == word)
			scheme->name = !strcmp(word, "default") ? "default" : scheme->policy->name;
		for (uint32_t i = 0; i < sim->n_schemes; i++)
			if (!strcmp(sim->schemes[i].name, scheme->name))
				return fail(
					err, EINVAL, "--policy names '%s' twice; keep one", word);
		sim->n_schemes++;
	}
	return 0;
}

/* "10" means ten seeds from 42; "42-46" is a range of seeds. */
static int read_seeds(const struct cli_args *args, struct sim *sim, struct error *err)
{
	const char *text = cli_get(args, "seeds");
	struct str from = str_from(text);
	const size_t at = str_find(from, '-');
	uint64_t first = SIM_FIRST_SEED, last = SIM_FIRST_SEED + SIM_SEEDS - 1, n;

	sim->has_seeds = text != NULL;
	if (text && at == from.n) {
		if (parse_uint(from, 1, SIM_SEEDS_MAX, &n, NULL) < 0)
			goto bad;
		last = first + n - 1;
	} else if (text) {
		if (parse_uint((struct str){from.p, at}, 0, UINT32_MAX, &first, NULL) < 0 ||
			parse_uint((struct str){from.p + at + 1, from.n - at - 1}, first,
				first + SIM_SEEDS_MAX - 1, &last, NULL) < 0)
			goto bad;
	}
	sim->first_seed = first;
	sim->n_seeds = (uint32_t)(last - first + 1);
	return 0;
bad:
	return fail(err, EINVAL,
		"--seeds '%s': expected a number such as 10, which is %d-%d, or a range such as "
		"1-5, with up to %d seeds",
		text, SIM_FIRST_SEED, SIM_FIRST_SEED + 9, SIM_SEEDS_MAX);
}

/* Reads "0.3" (short for "0.3,0"), "0.3,0.1", or "uniform", in permille; mean 0 means uniform. */
static int sim_input_read_part(const struct cli_args *args, const char *name, uint32_t *mean,
	uint32_t *sigma, struct error *err)
{
	struct str text = str_from(cli_get(args, name)), first;
	uint32_t m = 0, s = 0;
	char least[8];

	if (!text.p)
		return 0;
	if (!str_is(text, "uniform")) {
		str_split(&text, ',', &first);
		if (parse_share(first, &m, NULL) < 0 || m < WORKLOAD_PART_MIN ||
			m > SPEC_SHARE_ONE ||
			(text.p && (parse_share(text, &s, NULL) < 0 || s > SPEC_SHARE_ONE)))
			return fail(err, EINVAL,
				"--%s '%s': expected MEAN,SIGMA with MEAN from %s to 1 and "
				"SIGMA up to 1 in steps of 0.001, MEAN alone, or 'uniform'",
				name, cli_get(args, name),
				spec_share_format(WORKLOAD_PART_MIN, least));
	}
	*mean = m;
	*sigma = s;
	return 0;
}

/* Reads "1m,5m" as uniform, or "51m" as exponential with that mean. */
static int read_duration(
	const struct cli_args *args, struct workload_shape *shape, struct error *err)
{
	struct str text = str_from(cli_get(args, "duration")), first;
	uint64_t min = 0, max = 0;
	int r;

	if (!text.p)
		return 0;
	str_split(&text, ',', &first);
	r = parse_duration_up_to(first, WORKLOAD_WORK_MAX_NS, &max, err);
	if (r == 0 && text.p) {
		min = max;
		r = parse_duration_up_to(text, WORKLOAD_WORK_MAX_NS, &max, err);
		if (r == 0 && (!min || min > max))
			r = fail(err, EINVAL, "'%s': expected SHORTEST,LONGEST above 0",
				cli_get(args, "duration"));
	}
	r = r < 0 ? r : workload_work_check(min, max, err);
	shape->work_min_ns = min;
	shape->work_max_ns = max;
	return r < 0 ? fail_within(err, r, "--duration") : 0;
}

static int sim_input_read_count(const struct cli_args *args, const char *name, uint64_t max,
	uint64_t *value, struct error *err)
{
	const char *text = cli_get(args, name);
	int r = text ? parse_uint(str_from(text), 1, max, value, err) : 0;

	return r < 0 ? fail_within(err, r, "--%s", name) : 0;
}

static int read_choices(const struct cli_args *args, const char *name, uint32_t max,
	struct workload_choices *choices, struct error *err)
{
	const char *text = cli_get(args, name);
	int r = text ? workload_choices_parse(str_from(text), max, choices, err) : 0;

	return r < 0 ? fail_within(err, r, "--%s", name) : 0;
}

/*
 * Reads a number such as "0.3" in permille, from `min` to `max`. Numbers have steps of 0.001, so a
 * min of 1 permits every number above 0.
 */
static int sim_input_read_number(const struct cli_args *args, const char *name, uint32_t min,
	uint32_t max, uint32_t *permille, struct error *err)
{
	const char *text = cli_get(args, name);
	uint32_t value = 0;

	if (!text)
		return 0;
	if (parse_share(str_from(text), &value, NULL) < 0 || value < min || value > max)
		return fail(err, EINVAL,
			"--%s '%s': expected a number %s up to %u, in steps of 0.001", name, text,
			min < SPEC_SHARE_ONE ? "above 0 and" : "from 1", max / SPEC_SHARE_ONE);
	*permille = value;
	return 0;
}

static int sim_input_read_labels(
	const struct cli_args *args, struct workload_shape *shape, struct error *err)
{
	const uint32_t max = WORKLOAD_LABELS_MAX;
	int r = read_choices(args, "affinity", max, &shape->affinity, err);

	shape->is_apart = cli_has(args, "apart");
	shape->prefers_apart = cli_has(args, "prefer-apart");
	r = r < 0 ? r : read_choices(args, "anti-affinity", max, &shape->anti_affinity, err);
	r = r < 0 ? r
		  : read_choices(args, "preferred-anti-affinity", max,
			    &shape->preferred_anti_affinity, err);
	r = r < 0 ? r : read_choices(args, "kinds", max, &shape->kinds, err);
	return r < 0 ? r : read_choices(args, "exclusion", max, &shape->exclusion, err);
}

static int find_shape(const char *name, struct workload_shape *ret_shape, struct error *err)
{
	const struct workload_shape *shape = workload_shape_find(name);
	_cleanup_buf_ struct buf known = BUF_INIT(256);

	for (size_t i = 0; workload_shape_at(i); i++)
		buf_addf(&known, " %s", workload_shape_at(i)->name);
	if (!shape)
		return fail(err, EINVAL, "--generate '%s': unknown shape; expected one of:%s", name,
			buf_text(&known));
	*ret_shape = *shape;
	return 0;
}

static int read_shape(const struct cli_args *args, struct sim *sim, struct error *err)
{
	struct workload_shape *shape = &sim->shape;
	uint64_t rate = 0, n = 0, hours = 0;
	int r = find_shape(cli_get(args, "generate"), shape, err);

	sim->is_generated = true;
	if (cli_has(args, "nodes-like"))
		shape->nodes = cli_get(args, "nodes-like");
	r = r < 0 ? r : sim_input_read_count(args, "rate", 3600000000, &rate, err);
	r = r < 0 ? r : sim_input_read_count(args, "tasks", WORKLOAD_TASKS_MAX, &n, err);
	r = r < 0 ? r : sim_input_read_count(args, "hours", 4800, &hours, err);
	r = r < 0 ? r
		  : sim_input_read_part(args, "demand", &shape->demand, &shape->demand_sigma, err);
	r = r < 0 ? r
		  : sim_input_read_part(args, "memory", &shape->memory, &shape->memory_sigma, err);
	r = r < 0 ? r : read_duration(args, shape, err);
	r = r < 0 ? r : read_choices(args, "whole", SPEC_DEVICES_MAX, &shape->whole, err);
	r = r < 0 ? r : read_choices(args, "gangs", WORKLOAD_GANG_MAX, &shape->gangs, err);
	r = r < 0 ? r : read_choices(args, "priorities", 100, &shape->priorities, err);
	r = r < 0 ? r : sim_input_read_labels(args, shape, err);
	r = r < 0 ? r : sim_input_read_number(args, "limit", 1, SPEC_SHARE_ONE, &shape->limit, err);
	r = r < 0 ? r
		  : sim_input_read_number(
			    args, "threshold", 1, SPEC_SHARE_ONE, &shape->threshold, err);
	if (r == 0 && cli_has(args, "threshold") && !cli_has(args, "gangs"))
		r = fail(err, EINVAL, "--threshold works only together with --gangs");
	if (rate)
		shape->gap_ns = 3600 * NSEC_PER_SEC / rate;
	if (hours) {
		shape->span_ns = hours * 3600 * NSEC_PER_SEC;
		shape->n_tasks = WORKLOAD_TASKS_MAX;
	}
	if (n)
		shape->n_tasks = (uint32_t)n;
	if (r < 0)
		return r;
	r = workload_shape_check(shape, err);
	return r < 0 ? fail_within(err, r, "--generate %s", shape->name) : 0;
}

static enum replay_mode mode_of(const struct cli_args *args)
{
	const char *mode = cli_get(args, "mode");

	if (mode)
		return !strcmp(mode, "queue") ? REPLAY_QUEUE : REPLAY_DROP;
	return cli_has(args, "pods") && !cli_has(args, "draw") ? REPLAY_DROP : REPLAY_QUEUE;
}

/* Reads --defrag: PERIOD, PERIOD,MOVES or PERIOD,MOVES,COST, for example "10m,200,1m". */
static int read_defrag(
	const struct cli_args *args, struct replay_defrag *ret_defrag, struct error *err)
{
	struct str text = str_from(cli_get(args, "defrag")), part;
	struct replay_defrag defrag = {.n_moves = DEFRAG_MOVES, .cost_ns = DEFRAG_COST_NS};
	uint64_t n_moves = defrag.n_moves;
	int r;

	if (!text.p)
		return 0;
	str_split(&text, ',', &part);
	r = parse_duration_up_to(part, WORKLOAD_TIME_MAX_NS, &defrag.period_ns, err);
	if (r == 0 && text.p) {
		str_split(&text, ',', &part);
		r = parse_uint(part, 1, PLACE_MOVES_MAX, &n_moves, err);
	}
	if (r == 0 && text.p) {
		r = parse_duration_up_to(text, REPLAY_COST_MAX_NS, &defrag.cost_ns, err);
		r = r < 0 ? fail_within(err, r, "cost") : 0;
	}
	defrag.n_moves = (uint32_t)n_moves;
	if (r == 0 && !defrag.period_ns)
		r = fail(err, EINVAL, "period 0: expected a time above 0, such as 10m");
	r = r < 0 ? r : replay_defrag_check(&defrag, err);
	if (r < 0)
		return fail_within(err, r, "--defrag");
	*ret_defrag = defrag;
	return 0;
}

static int read_grace(const struct cli_args *args, uint64_t *ret_grace_ns, struct error *err)
{
	const char *text = cli_get(args, "grace");
	uint64_t grace_ns = 0;
	int r = text ? parse_duration_up_to(str_from(text), REPLAY_GRACE_MAX_NS, &grace_ns, err)
		     : 0;

	if (r < 0)
		return fail_within(err, r, "--grace");
	*ret_grace_ns = grace_ns;
	return 0;
}

/* Reads a slowdown factor such as "1.5", which becomes 500 permille of additional time. */
static int read_slowdown(const struct cli_args *args, uint32_t *ret_permille, struct error *err)
{
	uint32_t factor = SPEC_SHARE_ONE;
	int r = sim_input_read_number(args, "slowdown", SPEC_SHARE_ONE,
		SPEC_SHARE_ONE + REPLAY_SLOWDOWN_MAX, &factor, err);

	*ret_permille = r < 0 ? 0 : factor - SPEC_SHARE_ONE;
	return r;
}

/* Reads the options of --draw, which draws tasks from a trace. */
static int read_draw(const struct cli_args *args, struct sim *sim, struct error *err)
{
	uint64_t draws = 0;
	int r = sim_input_read_count(args, "draw", WORKLOAD_TASKS_MAX, &draws, err);

	sim->draws = (uint32_t)draws;
	sim->load = SPEC_SHARE_ONE;
	if (r < 0 || !draws)
		return r;
	sim->shape.work_max_ns = DRAW_WORK_NS;
	r = read_duration(args, &sim->shape, err);
	return r < 0 ? r : sim_input_read_number(args, "load", 1, DRAW_LOAD_MAX, &sim->load, err);
}

/* Checks which options belong to --pods, --spec and --generate, and which exclude each other. */
static int check_together(const struct cli_args *args, struct error *err)
{
	static const char *const generated[] = {"nodes-like", "rate", "tasks", "hours", "demand",
		"memory", "limit", "whole", "gangs", "threshold", "priorities", "affinity",
		"anti-affinity", "preferred-anti-affinity", "exclusion", "kinds"};
	static const char *const timed[] = {"defrag", "preempt", "queue", "faster"};
	const char *mode = cli_get(args, "mode");
	const bool pods = cli_has(args, "pods"), spec = cli_has(args, "spec"),
		   shape = cli_has(args, "generate"), is_drawn = cli_has(args, "draw"),
		   is_queue = mode && !strcmp(mode, "queue");

	if (pods + spec + shape != 1)
		return fail(err, EINVAL,
			"%s: expected one of --pods FILE with --nodes FILE, --spec FILE, "
			"--generate SHAPE",
			pods || spec || shape ? "too many inputs" : "no input");
	if (pods && !cli_has(args, "nodes"))
		return fail(err, EINVAL, "--pods works only together with --nodes FILE");
	if (spec && cli_has(args, "nodes"))
		return fail(err, EINVAL,
			"--nodes does not work with --spec, whose file lists the nodes; leave "
			"--nodes out");
	if (cli_has(args, "nodes") && cli_has(args, "nodes-like"))
		return fail(err, EINVAL, "--nodes and --nodes-like exclude each other; keep one");
	if (is_drawn && (!pods || (mode && !is_queue) || cli_has(args, "faster")))
		return fail(err, EINVAL,
			"--draw works only together with --pods, and not with --mode drop or "
			"--faster");
	if (cli_has(args, "load") && !is_drawn)
		return fail(err, EINVAL, "--load works only together with --draw");
	for (size_t i = 0; i < ARRAY_SIZE(timed) && mode_of(args) == REPLAY_DROP; i++)
		if (cli_has(args, timed[i]))
			return fail(err, EINVAL,
				"--%s needs tasks with times, which --mode drop ignores; use "
				"--mode queue",
				timed[i]);
	if (cli_has(args, "grace") && !cli_has(args, "preempt"))
		return fail(err, EINVAL, "--grace works only together with --preempt");
	if ((cli_has(args, "slowdown") || cli_has(args, "apart") ||
		    cli_has(args, "prefer-apart")) &&
		!cli_has(args, "kinds"))
		return fail(err, EINVAL,
			"--slowdown, --apart and --prefer-apart work only together with --kinds");
	if (cli_has(args, "prefer-apart") && cli_has(args, "preferred-anti-affinity"))
		return fail(err, EINVAL,
			"--prefer-apart and --preferred-anti-affinity exclude each other; keep "
			"one");
	if (cli_has(args, "apart") && cli_has(args, "prefer-apart"))
		return fail(err, EINVAL, "--apart and --prefer-apart exclude each other; keep one");
	if (cli_has(args, "apart") && cli_has(args, "anti-affinity"))
		return fail(
			err, EINVAL, "--apart and --anti-affinity exclude each other; keep one");
	if (cli_has(args, "faster") && (shape || (pods && !is_queue)))
		return fail(err, EINVAL,
			"--faster works only together with --spec, or with --pods and "
			"--mode queue");
	if (cli_has(args, "orders") && (!pods || mode || is_drawn))
		return fail(err, EINVAL,
			"--orders works only together with --pods, and not with --mode or --draw");
	for (size_t i = 0; i < ARRAY_SIZE(generated) && !shape; i++)
		if (cli_has(args, generated[i]))
			return fail(err, EINVAL, "--%s works only together with --generate",
				generated[i]);
	if (cli_has(args, "duration") && !shape && !is_drawn)
		return fail(
			err, EINVAL, "--duration works only together with --generate or --draw");
	return 0;
}

static int sim_input_read_options(const struct cli_args *args, struct sim *sim, struct error *err)
{
	const char *queue = cli_get(args, "queue"), *preempt = cli_get(args, "preempt");
	int r = check_together(args, err);

	r = r < 0 ? r : read_schemes(args, sim, err);
	r = r < 0 ? r : read_seeds(args, sim, err);
	if (r == 0 && cli_has(args, "generate"))
		r = read_shape(args, sim, err);
	r = r < 0 ? r : read_draw(args, sim, err);
	r = r < 0 ? r : read_defrag(args, &sim->defrag, err);
	r = r < 0 ? r : read_grace(args, &sim->grace_ns, err);
	r = r < 0 ? r : read_slowdown(args, &sim->slowdown_permille, err);
	sim->mode = mode_of(args);
	if (preempt)
		sim->preempt = !strcmp(preempt, "resume") ? REPLAY_RESUME : REPLAY_RESTART;
	sim->queue = queue && !strcmp(queue, "fifo") ? REPLAY_FIFO : REPLAY_PRIORITY;
	sim->faster = 1;
	return r < 0 ? r : sim_input_read_count(args, "faster", 1000000, &sim->faster, err);
}

int sim_check(const struct cli_args *args, struct error *err)
{
	_cleanup_sim_ struct sim sim = {0};
	_cleanup_cluster_ struct cluster cluster = {0};
	int r = sim_input_read_options(args, &sim, err);

	if (r < 0 || !cli_has(args, "nodes-like"))
		return r;
	r = cluster_like(&cluster, str_from(cli_get(args, "nodes-like")), err);
	return r < 0 ? fail_within(err, r, "--nodes-like") : 0;
}

/* ---- files ---- */

/* Fills `sim` from the text of a file. */
typedef int (*take_fn)(struct sim *sim, struct str text, struct error *err);

static int read_with(struct sim *sim, const struct cli_args *args, const char *option, take_fn take,
	struct error *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT(SIM_FILE_MAX);
	const char *path = cli_get(args, option);
	int r = file_read(path, &text, err);

	if (r < 0)
		return fail_within(err, r, "--%s", option);
	r = take(sim, buf_str(&text), err);
	return r < 0 ? fail_within(err, r, "%s", path) : 0;
}

static int take_nodes(struct sim *sim, struct str text, struct error *err)
{
	return cluster_read_openb(&sim->cluster, text, err);
}

static int take_pods(struct sim *sim, struct str text, struct error *err)
{
	const struct workload *w = &sim->workload;
	int r = workload_read_openb(&sim->workload, &sim->cluster, text, err);
	uint32_t i = 0;

	while (r == 0 && i < w->n && !w->tasks[i].spec.count)
		i++;
	if (r == 0 && i == w->n)
		r = fail(err, EINVAL,
			"no pod requests a device; expected a pod with num_gpu above 0");
	if (r == 0 && sim->mode == REPLAY_QUEUE && !sim->draws && !sim->workload.has_times)
		r = fail(err, EINVAL,
			"--mode queue needs the columns creation_time and deletion_time; add "
			"them, or use --mode drop");
	return r;
}

static int check_durations(const struct workload *w, struct error *err)
{
	for (uint32_t i = 0; i < w->n; i++)
		if (!w->tasks[i].work_ns)
			return fail(err, EINVAL,
				"line %u: the task has no duration; expected one above 0 and up "
				"to 200d, or --mode drop",
				w->tasks[i].line);
	return 0;
}

static int take_spec(struct sim *sim, struct str text, struct error *err)
{
	int r = sim_yaml(text, &sim->cluster, &sim->workload, err);

	if (r == 0 && sim->mode == REPLAY_QUEUE)
		r = check_durations(&sim->workload, err);
	else if (r == 0)
		r = workload_sort(&sim->workload, err);
	if (r == 0 && !sim->workload.n)
		r = fail(err, EINVAL, "'tasks:' has no task; expected at least one");
	if (r == 0 && sim->mode == REPLAY_QUEUE && sim->cluster.n_networks)
		r = fail(err, EINVAL,
			"networks: --mode queue runs each task on the node of its devices; use "
			"--mode drop");
	return r;
}

static int take_cells(struct sim *sim, struct str text, struct error *err)
{
	return cluster_read_cells(&sim->cluster, text, err);
}

static const char *file_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Length of the character at the start of `text`; 0 if JSON, XML or a terminal cannot show it. */
static size_t sim_input_character_size(struct str text)
{
	const size_t n = str_utf8(text);
	const unsigned char *p = (const unsigned char *)text.p;

	if (n == 0 || p[0] < 0x20 || p[0] == 0x7f || (p[0] == 0xc2 && p[1] < 0xa0))
		return 0;
	if (str_has_prefix(text, STR("\xef\xbf\xbe")) || str_has_prefix(text, STR("\xef\xbf\xbf")))
		return 0;
	return n;
}

/*
 * File names are arbitrary bytes: '?' replaces bytes that are no text, and no character is cut at
 * the end.
 */
static void name_as_text(const char *name, char ret[static NAME_SHOWN + 1])
{
	const size_t n = strlen(name);
	size_t at = 0, size;

	for (; at < n; at += size) {
		const size_t known = sim_input_character_size((struct str){name + at, n - at});

		size = MAX(known, (size_t)1);
		if (at + size > NAME_SHOWN)
			break;
		if (known)
			memcpy(ret + at, name + at, size);
		else
			ret[at] = '?';
	}
	ret[at] = 0;
}

/* ---- one run ---- */

/* Path of the order file of a seed: the number replaces the word SEED in the pattern. */
static int order_path(
	const char *pattern, uint64_t seed, char ret[static PATH_MAX_BYTES], struct error *err)
{
	const char *at = strstr(pattern, SEED_WORD);
	const int n = at ? (int)(at - pattern) : (int)strlen(pattern);
	char number[24] = "";

	if (at)
		snprintf(number, sizeof(number), "%" PRIu64, seed);
	if (snprintf(ret, PATH_MAX_BYTES, "%.*s%s%s", n, pattern, number,
		    at ? at + strlen(SEED_WORD) : "") >= PATH_MAX_BYTES)
		return fail(err, ENAMETOOLONG, "--orders '%.40s...'", pattern);
	return 0;
}

static int read_order(const char *path, uint32_t n_rows, uint32_t **ret, struct error *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT(SIM_FILE_MAX);
	int r = file_read(path, &text, err);

	if (r < 0)
		return fail_within(err, r, "--orders");
	r = openb_order(buf_str(&text), n_rows, ret, err);
	if (r == 0)
		r = fail(err, EINVAL, "the file has no row; expected one for each task");
	return r < 0 ? fail_within(err, r, "%s", path) : r;
}

/*
 * Reads the ranks of the nodes from the file NAME.perm that belongs to the order file NAME.txt;
 * every rank must occur once. Without that file *ret is unchanged.
 */
static int read_ranks(const struct sim *sim, const char *order, uint32_t **ret, struct error *err)
{
	const uint32_t n_nodes = sim->cluster.n;
	_cleanup_free_ uint32_t *ranks = NULL;
	_cleanup_free_ bool *seen = calloc(n_nodes, sizeof(*seen));
	char path[PATH_MAX_BYTES + 8];
	struct str stem = str_from(order);
	int n;

	str_skip_suffix(&stem, STR(".txt"));
	snprintf(path, sizeof(path), "%.*s.perm", (int)stem.n, order);
	if (access(path, F_OK) < 0)
		return 0;
	n = read_order(path, n_nodes, &ranks, err);
	if (n < 0)
		return n;
	if (!seen)
		return fail(err, ENOMEM, "out of memory for ranks");
	if ((uint32_t)n != n_nodes)
		return fail(err, EINVAL, "%s: %d rank%s for %u node%s; expected one for each node",
			path, n, n == 1 ? "" : "s", n_nodes, n_nodes == 1 ? "" : "s");
	for (uint32_t i = 0; i < n_nodes; i++) {
		if (seen[ranks[i]])
			return fail(err, EINVAL, "%s: rank %u occurs twice", path, ranks[i]);
		seen[ranks[i]] = true;
	}
	*ret = TAKE_PTR(ranks);
	return 0;
}

/* Reads a seed's order and ranks; returns the number of arrivals. */
static int read_orders(const char *pattern, const struct sim *sim, uint64_t seed,
	uint32_t **ret_order, uint32_t **ret_ranks, struct error *err)
{
	char path[PATH_MAX_BYTES];
	int r = order_path(pattern, seed, path, err), n;

	n = r < 0 ? r : read_order(path, sim->workload.n, ret_order, err);
	r = n < 0 ? n : read_ranks(sim, path, ret_ranks, err);
	return r < 0 ? r : n;
}

static int sim_input_shuffle(uint32_t n, uint64_t seed, uint32_t **ret, struct error *err)
{
	struct rand rand = rand_seeded(seed);
	uint32_t *items = calloc(n, sizeof(*items));

	if (!items)
		return fail(err, ENOMEM, "out of memory for %u nodes", n);
	workload_shuffle(items, n, &rand);
	*ret = items;
	return 0;
}

/* Makes the tasks of a seed; makes no tasks if the run uses those of the file. */
static int make_tasks(
	const struct sim *sim, uint64_t seed, struct workload *made, struct error *err)
{
	const struct workload_redraw how = {.n = sim->workload.n * sim->draws,
		.n_devices = sim->cluster.n_devices,
		.load = sim->load,
		.work_min_ns = sim->shape.work_min_ns,
		.work_max_ns = sim->shape.work_max_ns};

	if (sim->is_generated)
		return workload_generate(made, &sim->shape, seed, err);
	if (!sim->draws)
		return 0;
	if (sim->draws > WORKLOAD_TASKS_MAX / sim->workload.n)
		return fail(err, EINVAL,
			"--draw %u: too large; expected at most %u times the %u tasks", sim->draws,
			WORKLOAD_TASKS_MAX / sim->workload.n, sim->workload.n);
	return workload_redraw(made, &sim->workload, &how, seed, err);
}

int sim_run(const struct cli_args *args, const struct sim *sim, uint32_t scheme, uint64_t seed,
	replay_progress_fn *progress, replay_note_fn *note, void *arg,
	struct replay_result **ret_result, struct error *err)
{
	_cleanup_workload_ struct workload made = {0};
	_cleanup_free_ uint32_t *order = NULL, *ranks = NULL;
	struct replay_input input = {.cluster = &sim->cluster,
		.workload = sim->is_generated || sim->draws ? &made : &sim->workload,
		.scheme = &sim->schemes[scheme],
		.mode = sim->mode,
		.queue = sim->queue,
		.defrag = sim->defrag,
		.preempt = sim->preempt,
		.grace_ns = sim->grace_ns,
		.slowdown_permille = sim->slowdown_permille,
		.is_brief = sim->is_brief,
		.progress = progress,
		.progress_arg = arg,
		.note = note,
		.note_arg = arg};
	struct rand rand = rand_seeded(seed);
	int r = make_tasks(sim, seed, &made, err);

	if (r == 0 && cli_has(args, "orders")) {
		r = read_orders(cli_get(args, "orders"), sim, seed, &order, &ranks, err);
		input.n_order = (uint32_t)MAX(r, 0);
	} else if (r == 0 && cli_has(args, "pods")) {
		if (sim->mode == REPLAY_DROP)
			r = workload_draw(&sim->workload, sim->cluster.n_devices,
				SIM_ARRIVED_PERMILLE, &rand, &order, err);
		input.n_order = (uint32_t)MAX(r, 0);
		r = r < 0 ? r : sim_input_shuffle(sim->cluster.n, rand_u64(&rand), &ranks, err);
	} else if (r == 0 && sim->has_seeds) {
		r = sim_input_shuffle(sim->cluster.n, rand_u64(&rand), &ranks, err);
	}
	input.order = order;
	input.ranks = ranks;
	return r < 0 ? r : replay_run(&input, ret_result, err);
}

/* ---- reading all input ---- */

/*
 * Reads the files with the order of arrivals of all seeds before the first run, so that a faulty
 * file fails at once.
 */
static int check_orders(const char *pattern, const struct sim *sim, struct error *err)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < sim->n_seeds; i++) {
		_cleanup_free_ uint32_t *order = NULL, *ranks = NULL;

		r = read_orders(pattern, sim, sim->first_seed + i, &order, &ranks, err);
		r = MIN(r, 0);
	}
	return r;
}

int sim_read(const struct cli_args *args, struct sim *ret_sim, struct error *err)
{
	_cleanup_sim_ struct sim sim = {0};
	const char *pods = cli_get(args, "pods"), *spec = cli_get(args, "spec");
	const char *what = pods ? pods : spec ? spec : cli_get(args, "generate");
	char name[NAME_SHOWN + 1];
	int r = sim_input_read_options(args, &sim, err);

	if (r == 0 && cli_has(args, "nodes"))
		r = read_with(&sim, args, "nodes", take_nodes, err);
	else if (r == 0 && sim.is_generated)
		r = cluster_like(&sim.cluster, str_from(sim.shape.nodes), err);
	if (r == 0 && cli_has(args, "pods"))
		r = read_with(&sim, args, "pods", take_pods, err);
	if (r == 0 && cli_has(args, "spec")) {
		r = read_with(&sim, args, "spec", take_spec, err);
		/*
		 * A YAML file has no randomness, so one run is enough unless the user asks for
		 * seeds.
		 */
		sim.n_seeds = sim.has_seeds ? sim.n_seeds : 1;
	}
	if (r == 0 && cli_has(args, "cells"))
		r = read_with(&sim, args, "cells", take_cells, err);
	if (r == 0 && cli_has(args, "orders"))
		r = check_orders(cli_get(args, "orders"), &sim, err);
	if (r < 0)
		return r;
	if (!sim.cluster.n_devices)
		return fail(err, EINVAL, "%s: no node has a device; expected at least one",
			spec ? spec : cli_get(args, "nodes"));
	for (uint32_t i = 0; i < sim.workload.n; i++)
		sim.workload.tasks[i].arrives_ns /= sim.faster;
	name_as_text(file_of(what), name);
	snprintf(sim.title, sizeof(sim.title), "%s: %u node%s, %u device%s", name, sim.cluster.n,
		sim.cluster.n == 1 ? "" : "s", sim.cluster.n_devices,
		sim.cluster.n_devices == 1 ? "" : "s");
	sim.results = calloc((size_t)sim.n_schemes * sim.n_seeds, sizeof(*sim.results));
	if (!sim.results)
		return fail(err, ENOMEM, "out of memory for %u runs", sim.n_schemes * sim.n_seeds);
	*ret_sim = sim;
	sim = (struct sim){0};
	return 0;
}
