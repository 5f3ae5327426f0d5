/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/place-gang.h"
#include "core/place-mix.h"
#include "replay/replay-internal.h"

void replay_free(struct replay_result *result)
{
	if (!result)
		return;
	free(result->queued_s);
	free(result->completion_s);
	free(result->asked_most);
	free(result->decisions);
	free(result->priorities);
	free(result);
}

static uint64_t asked(const struct task *task)
{
	return (uint64_t)task->spec.share * task->spec.count;
}

/* ---- what the run keeps count of ---- */

void run_load(struct run *run, uint32_t device, int32_t more)
{
	struct run_device *d = &run->devices[device];

	run->used -= MIN(d->load, SPEC_SHARE_ONE);
	d->load += (uint32_t)more;
	run->used += MIN(d->load, SPEC_SHARE_ONE);
}

void run_enter(struct run *run, uint32_t task, const uint32_t *devices, uint32_t n)
{
	const struct task *of = &run->in->workload->tasks[task];

	run->allocated += asked(of);
	for (uint32_t i = 0; i < n; i++) {
		struct run_device *d = &run->devices[devices[i]];
		uint32_t *most = &run->result->asked_most[devices[i]];

		run->in_use += d->n_tasks++ == 0;
		d->asked += of->spec.share;
		*most = MAX(*most, d->asked);
	}
}

void run_leave(struct run *run, uint32_t task, const uint32_t *devices, uint32_t n)
{
	const struct task *of = &run->in->workload->tasks[task];

	run->allocated -= asked(of);
	for (uint32_t i = 0; i < n; i++) {
		run->in_use -= --run->devices[devices[i]].n_tasks == 0;
		run->devices[devices[i]].asked -= of->spec.share;
	}
}

void run_update(struct run *run)
{
	run->now.value[METRICS_ALLOCATED] = (double)run->allocated / run->all;
	run->now.value[METRICS_USED] = (double)run->used / run->all;
	run->now.value[METRICS_IN_USE] = run->in_use * (double)SPEC_SHARE_ONE / run->all;
	run->now.value[METRICS_WAITING] = run->waiting;
}

/* Without limits the engine counts something else than shares: hundredths, or memory. */
static uint32_t share_free(
	const struct run *run, uint32_t device, const struct place_device_view *view)
{
	if (run->in->scheme->has_limits)
		return view->share_free;
	return SPEC_SHARE_ONE - MIN(run->devices[device].asked, SPEC_SHARE_ONE);
}

/* Why the free devices of a node are of no use to that task; adds permille to *sum. */
static void ask_node(const struct run *run, const struct place_node_view *node, uint32_t at,
	const struct place_spec *spec, uint64_t sum[static METRICS_N])
{
	const enum place_reason reason = place_reason_of(run->place, spec, at);

	for (uint32_t i = 0; i < node->n_devices; i++) {
		struct place_device_view d;
		enum metrics_series series = METRICS_OTHER;

		if (!place_device_get(run->place, node->first_device + i, &d))
			continue;
		if (reason == PLACE_NO_CPU || reason == PLACE_NO_MEMORY)
			series = METRICS_NO_CPU;
		else if (reason == PLACE_FITS && d.share_free >= spec->share)
			series = METRICS_OPEN;
		else if (reason == PLACE_FITS || reason == PLACE_NO_SHARE)
			series = METRICS_TOO_SMALL;
		sum[series] += share_free(run, node->first_device + i, &d);
	}
}

void run_sample(struct run *run)
{
	uint64_t sum[METRICS_N] = {0};
	double *value = run->now.value;

	for (uint32_t at = 0; at < place_n_nodes(run->place); at++) {
		struct place_node_view node;

		if (!place_node_get(run->place, at, &node))
			continue;
		for (uint32_t k = 0; k < run->n_kinds; k++)
			ask_node(run, &node, at, &run->specs[run->kinds[k]], sum);
	}
	for (int i = METRICS_NO_CPU; i <= METRICS_OPEN; i++)
		value[i] = run->n_kinds ? (double)sum[i] / run->n_kinds / run->all : 0;
	value[METRICS_FRAGMENTED] = (double)place_mix_fragmentation(run->mix, run->place) /
		run->all;

	for (uint32_t i = 0; i < METRICS_ROWS_MAX; i++)
		run->now.row[i] = 0;
	for (uint32_t i = 0; i < place_n_devices(run->place); i++)
		run->now.row[run->devices[i].row] += MIN(run->devices[i].load, SPEC_SHARE_ONE) /
			(double)SPEC_SHARE_ONE / run->row_size[run->devices[i].row];
}

/* ---- begin ---- */

/* Rows of the picture are as many devices each, in the cluster's order, not in that of ranks. */
static void lay_out(struct run *run, const uint32_t *index)
{
	const struct cluster *c = run->in->cluster;
	uint32_t before = 0;
	_cleanup_free_ uint32_t *first = calloc(c->n, sizeof(*first));

	run->result->curves.n_rows = MIN(c->n_devices, METRICS_ROWS_MAX);
	if (!first)
		return; /* one row then */
	for (uint32_t i = 0; i < c->n; i++) {
		first[i] = before;
		before += c->nodes[i].n_devices;
	}
	for (uint32_t at = 0; at < place_n_nodes(run->place); at++) {
		struct place_node_view node;

		if (!place_node_get(run->place, at, &node))
			continue;
		for (uint32_t i = 0; i < node.n_devices; i++)
			run->devices[node.first_device + i].row =
				(uint32_t)((uint64_t)(first[index[at]] + i) *
					run->result->curves.n_rows / c->n_devices);
	}
	for (uint32_t i = 0; i < place_n_devices(run->place); i++)
		run->row_size[run->devices[i].row]++;
}

/* Some of the tasks that want devices, at even distances. */
static void choose_kinds(struct run *run)
{
	const struct workload *w = run->in->workload;
	uint32_t n = 0, seen = 0;

	for (uint32_t i = 0; i < w->n; i++)
		n += w->tasks[i].spec.count > 0;
	for (uint32_t i = 0; i < w->n && n; i++) {
		if (!w->tasks[i].spec.count)
			continue;
		if (seen++ * (uint64_t)MIN(n, RUN_KINDS) / n >= run->n_kinds)
			run->kinds[run->n_kinds++] = i;
	}
}

/* Names to the engine; by number, from 1. */
static int name_labels(
	struct run *run, uint32_t labels[static WORKLOAD_LABELS_MAX + 1], struct error *err)
{
	uint32_t most = 0;
	int r = 0;

	for (uint32_t i = 0; i < run->in->workload->n; i++) {
		const struct place_spec *spec = &run->in->workload->tasks[i].spec;

		most = MAX(most, MAX(spec->affinity, MAX(spec->anti_affinity, spec->exclusion)));
		most = MAX(most, spec->preferred_anti_affinity);
	}
	for (uint32_t i = 1; r == 0 && i <= most; i++) {
		const struct workload *w = run->in->workload;
		char number[16];

		snprintf(number, sizeof(number), "%u", i);
		r = place_label(run->place, "", i <= w->n_labels ? w->labels[i - 1] : number,
			&labels[i], err);
	}
	return r;
}

static void set_spec(struct run *run, uint32_t task, const uint32_t *labels)
{
	const struct replay_input *in = run->in;
	struct place_spec *spec = &run->specs[task];

	if (in->scheme->adapt && spec->count)
		in->scheme->adapt(in->cluster, spec);
	spec->is_movable = in->defrag.period_ns > 0;
	spec->affinity = labels[spec->affinity];
	spec->anti_affinity = labels[spec->anti_affinity];
	spec->preferred_anti_affinity = labels[spec->preferred_anti_affinity];
	spec->exclusion = labels[spec->exclusion];
}

static int start(struct run *run, struct error *err)
{
	uint32_t labels[WORKLOAD_LABELS_MAX + 1] = {0};
	const struct replay_input *in = run->in;
	_cleanup_free_ uint32_t *index = calloc(in->cluster->n, sizeof(*index));
	int r;

	run->result = calloc(1, sizeof(*run->result));
	run->specs = calloc(in->workload->n, sizeof(*run->specs));
	if (!index || !run->result || !run->specs || place_mix_new(&run->mix) < 0)
		return fail(err, ENOMEM, "out of memory for a run");
	r = cluster_place(in->cluster, in->ranks, in->scheme->policy, &run->place, index, err);
	if (r < 0)
		return r;
	run->result->n_devices = place_n_devices(run->place);
	run->devices = calloc(run->result->n_devices, sizeof(*run->devices));
	run->result->asked_most = calloc(run->result->n_devices, sizeof(*run->result->asked_most));
	if (!run->devices || !run->result->asked_most)
		return fail(err, ENOMEM, "out of memory for a run");
	if (in->cluster->n_networks) {
		run->result->decisions = calloc(in->workload->n, sizeof(*run->result->decisions));
		if (!run->result->decisions)
			return fail(err, ENOMEM, "out of memory for decisions");
	}
	r = name_labels(run, labels, err);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < in->workload->n; i++)
		run->specs[i] = in->workload->tasks[i].spec;
	place_mix_give(run->mix, run->specs, in->workload->n);
	for (uint32_t i = 0; i < in->workload->n; i++)
		set_spec(run, i, labels);
	if (in->scheme->knows_mix)
		place_set_typical(run->place, run->specs, in->workload->n);
	run->all = in->cluster->n_devices * (double)SPEC_SHARE_ONE;
	lay_out(run, index);
	choose_kinds(run);
	return 0;
}

/* ---- none leaves ---- */

/* How many come with that task, itself as well: those of its gang, one behind the other. */
static uint32_t unit_size(const struct workload *w, uint32_t first)
{
	uint32_t n = 1;

	while (w->tasks[first].gang && first + n < w->n &&
		w->tasks[first + n].gang == w->tasks[first].gang)
		n++;
	return n;
}

/* How many of them have to have room. */
static uint32_t unit_least(const struct workload *w, uint32_t first, uint32_t n)
{
	const uint32_t threshold = w->tasks[first].threshold;

	return place_gang_least(n, threshold ? threshold : 1000);
}

/* As many as have room, until those cannot be enough; returns how many. */
static int place_members(struct run *run, uint32_t first, uint32_t n, struct place_member *members,
	struct error *err)
{
	const uint32_t least = unit_least(run->in->workload, first, n);
	uint32_t n_placed = n;
	int r = 0;

	for (uint32_t i = 0; i < n && r == 0 && n_placed >= least; i++) {
		const struct place_spec *spec = &run->specs[first + i];
		struct place_member *m = &members[i];

		r = place_find(run->place, spec, &m->choice, err);
		r = r < 0 ? r : place_add(run->place, spec, &m->choice, &m->tenant, err);
		if (r == -ENOSPC) {
			m->tenant = PLACE_NONE;
			n_placed--;
			r = 0;
		}
	}
	return r < 0 ? r : (int)n_placed;
}

/* As many as have room, if those are enough of them; returns how many. */
static int place_unit(struct run *run, uint32_t first, uint32_t n, struct place_member *members,
	struct error *err)
{
	const uint32_t least = unit_least(run->in->workload, first, n);
	const uint32_t mark = place_mark(run->place);
	const int r = place_members(run, first, n, members, err);

	if (r < (int)least)
		place_rollback(run->place, mark);
	place_release(run->place);
	return r < 0 || r >= (int)least ? r : 0;
}

static int arrive(struct run *run, uint32_t first, uint32_t n, struct error *err)
{
	_cleanup_free_ struct place_member *members = calloc(n, sizeof(*members));
	int r;

	if (!members)
		return fail(err, ENOMEM, "out of memory for a run");
	for (uint32_t i = 0; i < n; i++)
		place_note_arrival(run->place, &run->specs[first + i]);
	r = place_unit(run, first, n, members, err);
	if (r < 0)
		return r;
	run->waiting += n - (uint32_t)r;
	run->result->n_placed += (uint32_t)r;
	for (uint32_t i = 0; i < n && r > 0; i++) {
		const struct place_choice *c = &members[i].choice;
		const uint32_t share = run->in->workload->tasks[first + i].spec.share;

		if (members[i].tenant == PLACE_NONE)
			continue;
		run_enter(run, first + i, c->device, c->n);
		for (uint32_t k = 0; k < c->n; k++)
			run_load(run, c->device[k], (int32_t)share);
	}
	return 0;
}

/* Together, over a network or not at all, as the engine chooses. */
static int arrive_by_mode(struct run *run, uint32_t at, struct error *err)
{
	const struct task *task = &run->in->workload->tasks[at];
	const struct place_wish wish = {.spec = run->specs[at],
		.mode = task->mode,
		.least_mbit = task->least_mbit,
		.most_latency_us = task->most_latency_us};
	struct replay_decision *told = &run->result->decisions[at];
	struct place_decision d;
	uint32_t tenants[2];
	int r;

	place_note_arrival(run->place, &wish.spec);
	r = place_mode_choose(run->place, &wish, &d, err);
	if (r == 0 && d.outcome != PLACE_QUEUED)
		r = place_mode_add(run->place, &d, tenants, err);
	if (r < 0)
		return r;
	*told = (struct replay_decision){
		.outcome = d.outcome, .network = {d.spec.network[0], d.spec.network[1]}};
	memcpy(told->why, d.why, sizeof(told->why));
	if (d.outcome == PLACE_QUEUED) {
		run->waiting++;
		return 0;
	}
	run->result->n_placed++;
	run_enter(run, at, d.choice.device, d.choice.n);
	for (uint32_t k = 0; k < d.choice.n; k++)
		run_load(run, d.choice.device[k], (int32_t)task->spec.share);
	return 0;
}

static int run_drop(struct run *run, struct error *err)
{
	const struct replay_input *in = run->in;
	const uint64_t all = (uint64_t)in->cluster->n_devices * SPEC_SHARE_ONE;
	const uint32_t n = in->order ? in->n_order : in->workload->n;
	uint32_t last = METRICS_POINTS_MAX, size;
	uint64_t arrived = 0;

	run->result->curves.step = 1;
	run->result->n_tasks = n;
	for (uint32_t i = 0; i < n; i += size) {
		const uint32_t task = in->order ? in->order[i] : i;
		uint64_t at;
		int r;

		size = in->order ? 1 : unit_size(in->workload, task);
		r = run->result->decisions ? arrive_by_mode(run, task, err)
					   : arrive(run, task, size, err);
		if (r < 0)
			return r;
		for (uint32_t k = 0; k < size; k++)
			arrived += asked(&in->workload->tasks[task + k]);
		at = (200 * arrived + all) / (2 * all);
		if (at >= METRICS_POINTS_MAX)
			continue;
		if (at != last)
			run_sample(run);
		last = (uint32_t)at;
		run_update(run);
		metrics_add(&run->result->curves, &run->now, last, 1);
	}
	return 0;
}

static int check_networks(const struct replay_input *in, struct error *err)
{
	if (in->mode == REPLAY_QUEUE || in->order)
		return fail(err, EINVAL,
			"networks: with times or an order tasks are on the node of their devices");
	for (uint32_t i = 0; i < in->workload->n; i++)
		if (in->workload->tasks[i].gang)
			return fail(err, EINVAL,
				"task %u of a gang: with networks each has its place by itself", i);
	return 0;
}

int replay_defrag_check(const struct replay_defrag *defrag, struct error *err)
{
	if (defrag->period_ns > WORKLOAD_TIME_MAX_NS || defrag->cost_ns > REPLAY_COST_MAX_NS)
		return fail(err, EINVAL,
			"every %" PRIu64 "s at a cost of %" PRIu64 "s: up to %" PRIu64
			"s and %" PRIu64 "s are possible",
			defrag->period_ns / NSEC_PER_SEC, defrag->cost_ns / NSEC_PER_SEC,
			WORKLOAD_TIME_MAX_NS / NSEC_PER_SEC, REPLAY_COST_MAX_NS / NSEC_PER_SEC);
	if (defrag->n_moves > PLACE_MOVES_MAX)
		return fail(err, EINVAL, "%u moves: up to %u are possible", defrag->n_moves,
			PLACE_MOVES_MAX);
	return 0;
}

static void finish(struct run *run)
{
	place_free(run->place);
	place_mix_free(run->mix);
	free(run->specs);
	free(run->devices);
}

/* ---- who never has room ---- */

/*
 * Members of a gang come one by one, and who chooses their places may take the last one's: none of
 * these has room for what is called hopeless. One task by itself is the same to all.
 */
static const char *const judges[] = {"first-fit", "best-fit", "worst-fit"};

struct trial {
	struct replay_input input;
	struct replay_scheme scheme;
	struct run run; /* on a cluster where nobody is; begun when it is needed */
};

/* The last that had no room is the one too many. */
static void explain(const struct run *run, uint32_t first, uint32_t n,
	const struct place_member *members, char ret[static REPLAY_WHY])
{
	uint32_t n_placed = 0, refused = 0, at = 0;
	struct place_why why;

	for (uint32_t i = 0; i < n; i++)
		if (members[i].tenant == PLACE_NONE)
			refused = i;
	for (uint32_t i = 0; i < refused; i++)
		n_placed += members[i].tenant != PLACE_NONE;
	if (n > 1)
		at = (uint32_t)snprintf(ret, REPLAY_WHY - PLACE_WHY,
			"%u of its gang of %u have to start together, and when %u have room, task "
			"%u has none: ",
			unit_least(run->in->workload, first, n), n, n_placed, first + refused + 1);
	place_explain(run->place, &run->specs[first + refused], &why);
	place_why_format(&why, &run->specs[first + refused], ret + at);
}

/* How many have room where nobody else is; why (NULL: is not asked) not enough have. */
static int judge_unit(
	struct run *run, uint32_t first, uint32_t n, struct place_member *members, char *why)
{
	const uint32_t mark = place_mark(run->place);
	const int r = place_members(run, first, n, members, NULL);

	if (why && r >= 0 && r < (int)unit_least(run->in->workload, first, n))
		explain(run, first, n, members, why);
	place_rollback(run->place, mark);
	place_release(run->place);
	return r;
}

static int begin_trial(struct trial *t, const struct replay_input *input, const char *judge)
{
	int r;

	if (t->run.in)
		return 0;
	t->input = (struct replay_input){
		.cluster = input->cluster, .workload = input->workload, .scheme = &t->scheme};
	t->run.in = &t->input;
	r = replay_scheme_find(judge, &t->scheme, NULL);
	return r < 0 ? r : start(&t->run, NULL);
}

static void note_hopeless(struct replay_hopeless *found, uint32_t first, uint32_t n)
{
	if (!found->n)
		found->first = first;
	found->n += n;
}

/* Those that a gang may start without: each comes by itself then. */
static int judge_others(struct run *run, uint32_t first, uint32_t n,
	const struct place_member *members, struct replay_hopeless *found)
{
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < n; i++) {
		struct place_member alone;

		if (members[i].tenant != PLACE_NONE)
			continue;
		r = judge_unit(run, first + i, 1, &alone, found->n ? NULL : found->why);
		if (r == 0)
			note_hopeless(found, first + i, 1);
	}
	return r;
}

static int judge(struct trial trials[static ARRAY_SIZE(judges)], const struct replay_input *input,
	uint32_t first, uint32_t n, struct replay_hopeless *found)
{
	_cleanup_free_ struct place_member *members = calloc(n, sizeof(*members));
	const int least = (int)unit_least(input->workload, first, n);
	int r = members ? 0 : -ENOMEM;

	for (size_t i = 0; r >= 0 && r < least && i < (n > 1 ? ARRAY_SIZE(judges) : 1); i++) {
		r = begin_trial(&trials[i], input, judges[i]);
		r = r < 0 ? r
			  : judge_unit(&trials[i].run, first, n, members,
				    i || found->n ? NULL : found->why);
	}
	if (r < 0)
		return r;
	if (r >= least)
		return judge_others(&trials[0].run, first, n, members, found);
	note_hopeless(found, first, n);
	return 0;
}

int replay_find_hopeless(
	const struct replay_input *input, struct replay_hopeless *ret_hopeless, struct error *err)
{
	struct trial trials[ARRAY_SIZE(judges)] = {0};
	const struct workload *w = input->workload;
	struct replay_hopeless found = {0};
	int r = 0;

	for (uint32_t i = 0, n; r >= 0 && i < w->n; i += n) {
		n = unit_size(w, i);
		r = judge(trials, input, i, n, &found);
	}
	for (size_t i = 0; i < ARRAY_SIZE(judges); i++) {
		finish(&trials[i].run);
		replay_free(trials[i].run.result);
	}
	if (r < 0)
		return fail(err, -r, "%u tasks cannot be judged", w->n);
	*ret_hopeless = found;
	return 0;
}

int replay_run(
	const struct replay_input *input, struct replay_result **ret_result, struct error *err)
{
	struct run run = {.in = input};
	int r;

	if (!input->cluster->n_devices || !input->workload->n)
		return fail(err, EINVAL, "a replay needs at least one device and one task");
	if (input->mode == REPLAY_QUEUE && !input->workload->has_times)
		return fail(err, EINVAL, "the tasks do not say when they come and end");
	if (input->slowdown_permille > REPLAY_SLOWDOWN_MAX)
		return fail(err, EINVAL, "%u permille longer: up to %u are possible",
			input->slowdown_permille, REPLAY_SLOWDOWN_MAX);
	if (input->grace_ns > REPLAY_GRACE_MAX_NS)
		return fail(err, EINVAL, "grace %" PRIu64 "s: up to %" PRIu64 "s are possible",
			input->grace_ns / NSEC_PER_SEC, REPLAY_GRACE_MAX_NS / NSEC_PER_SEC);
	r = replay_defrag_check(&input->defrag, err);
	if (r == 0 && input->cluster->n_networks)
		r = check_networks(input, err);
	r = r < 0 ? r : start(&run, err);
	if (r == 0)
		r = input->mode == REPLAY_QUEUE ? run_queue(&run, err) : run_drop(&run, err);
	finish(&run);
	if (r < 0) {
		replay_free(run.result);
		return r;
	}
	run.result->allocated = metrics_mean(&run.result->curves, METRICS_ALLOCATED);
	run.result->used = metrics_mean(&run.result->curves, METRICS_USED);
	run.result->in_use = metrics_mean(&run.result->curves, METRICS_IN_USE);
	*ret_result = run.result;
	return 0;
}
