/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets up a run, plays the mode without time (REPLAY_DROP), and finds tasks that never fit. The
 * mode with time is in replay-queue.c. run_load(), run_enter() and run_leave() update the sums for
 * the curves at every change, so run_update() only divides. replay_run() repeats a run with time if
 * some tasks got a place and others never did. The second run makes the same decisions, and its
 * figures include only tasks that got a place. replay_find_hopeless() tries each task or gang on an
 * empty cluster with up to three policies, and rolls back.
 */
#include "replay/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "place/place-gang.h"
#include "place/workload-mix.h"
#include "place/place-queue.h"
#include "replay/replay-internal.h"

void replay_free(struct replay_result *result)
{
	if (!result)
		return;
	free(result->queued_s);
	free(result->completion_s);
	free(result->requested_most);
	free(result->decisions);
	free(result->priorities);
	free(result);
}

static uint64_t replay_task_requested(const struct task *task)
{
	return (uint64_t)task->spec.share * task->spec.count;
}

/* ---- running sums ---- */

void run_load(struct run *run, uint32_t device, int32_t more)
{
	struct run_device *d = &run->devices[device];

	run->used -= MIN(d->load, SPEC_SHARE_ONE);
	run->row_used[d->row] -= MIN(d->load, SPEC_SHARE_ONE);
	d->load += (uint32_t)more;
	run->used += MIN(d->load, SPEC_SHARE_ONE);
	run->row_used[d->row] += MIN(d->load, SPEC_SHARE_ONE);
}

static uint32_t replay_run_assigned(const struct run *run, uint32_t task)
{
	return run->in->scheme->has_limits ? run->specs[task].share
					   : run->in->workload->tasks[task].spec.share;
}

void run_enter(struct run *run, uint32_t task, const uint32_t *devices, uint32_t n)
{
	const struct task *of = &run->in->workload->tasks[task];

	run->allocated += replay_task_requested(of);
	for (uint32_t i = 0; i < n; i++) {
		struct run_device *d = &run->devices[devices[i]];
		uint32_t *most = &run->result->requested_most[devices[i]];

		run->in_use += d->n_tasks++ == 0;
		d->requested += of->spec.share;
		d->given += replay_run_assigned(run, task);
		*most = MAX(*most, d->requested);
		idle_forget(run, devices[i]);
	}
}

void run_leave(struct run *run, uint32_t task, const uint32_t *devices, uint32_t n)
{
	const struct task *of = &run->in->workload->tasks[task];

	run->allocated -= replay_task_requested(of);
	for (uint32_t i = 0; i < n; i++) {
		struct run_device *d = &run->devices[devices[i]];

		run->in_use -= --d->n_tasks == 0;
		d->requested -= of->spec.share;
		d->given -= replay_run_assigned(run, task);
		idle_forget(run, devices[i]);
	}
}

void run_update(struct run *run)
{
	run->now.value[METRICS_ALLOCATED] = (double)run->allocated / run->all;
	run->now.value[METRICS_USED] = (double)run->used / run->all;
	run->now.value[METRICS_IN_USE] = run->in_use * (double)SPEC_SHARE_ONE / run->all;
	run->now.value[METRICS_WAITING] = run->waiting;
	for (uint32_t i = 0; i < run->result->curves.n_rows; i++)
		run->now.row[i] = (double)run->row_used[i] / (double)run->row_size[i];
}

void run_report_progress(struct run *run, uint64_t done, uint64_t all)
{
	const uint32_t percent = (uint32_t)(100 * done / all);

	if (!run->in->progress || percent == run->percent)
		return;
	run->percent = percent;
	run->in->progress(run->in->progress_arg, percent);
}

/* ---- begin ---- */

/*
 * Each row of the heat map has an equal number of devices, in the cluster's order and not by rank.
 */
static int replay_lay_out(struct run *run, const uint32_t *index)
{
	const struct cluster *c = run->in->cluster;
	uint32_t before = 0;
	_cleanup_free_ uint32_t *first = calloc(c->n, sizeof(*first));

	run->result->curves.n_rows = MIN(c->n_devices, METRICS_ROWS_MAX);
	if (!first)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->n; i++) {
		first[i] = before;
		before += c->nodes[i].n_devices;
	}
	for (uint32_t at = 0; at < place_n_nodes(run->place); at++) {
		struct place_node_view node;

		if (!place_node_get(run->place, at, &node))
			continue;
		for (uint32_t i = 0; i < node.n_devices; i++) {
			struct run_device *d = &run->devices[node.first_device + i];

			d->node = at;
			d->row = (uint32_t)((uint64_t)(first[index[at]] + i) *
				run->result->curves.n_rows / c->n_devices);
			run->row_size[d->row] += SPEC_SHARE_ONE;
		}
	}
	return 0;
}

/* Creates labels in the placement model; labels[] translates the workload's numbers, from 1. */
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

static void replay_set_spec(struct run *run, uint32_t task, const uint32_t *labels)
{
	const struct replay_input *in = run->in;
	struct place_spec *spec = &run->specs[task];

	if (in->scheme->adapt && spec->count)
		in->scheme->adapt(in->cluster, spec);
	/* No node states its device memory, so device memory is not counted. */
	if (!in->cluster->device_bytes_max)
		spec->device_bytes = 0;
	spec->is_movable = in->defrag.period_ns > 0;
	spec->affinity = labels[spec->affinity];
	spec->anti_affinity = labels[spec->anti_affinity];
	spec->preferred_anti_affinity = labels[spec->preferred_anti_affinity];
	spec->exclusion = labels[spec->exclusion];
}

static int replay_start_run(struct run *run, struct error *err)
{
	uint32_t labels[WORKLOAD_LABELS_MAX + 1] = {0};
	const struct replay_input *in = run->in;
	_cleanup_free_ uint32_t *index = calloc(in->cluster->n, sizeof(*index));
	uint32_t n_counted = 0;
	int r;

	run->result = calloc(1, sizeof(*run->result));
	run->specs = calloc(in->workload->n, sizeof(*run->specs));
	if (!index || !run->result || !run->specs || workload_mix_new(&run->mix) < 0)
		return fail(err, ENOMEM, "out of memory for a run");
	r = cluster_place(in->cluster, in->ranks, in->scheme->policy, &run->place, index, err);
	if (r < 0)
		return r;
	run->result->n_devices = place_n_devices(run->place);
	run->devices = calloc(run->result->n_devices, sizeof(*run->devices));
	run->result->requested_most = calloc(
		run->result->n_devices, sizeof(*run->result->requested_most));
	if (!run->devices || !run->result->requested_most)
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
		if (run_counts(run, i))
			run->specs[n_counted++] = in->workload->tasks[i].spec;
	workload_mix_set(run->mix, run->place, run->specs, n_counted);
	for (uint32_t i = 0; i < in->workload->n; i++)
		run->specs[i] = in->workload->tasks[i].spec;
	for (uint32_t i = 0; i < in->workload->n; i++)
		replay_set_spec(run, i, labels);
	if (in->scheme->knows_mix)
		place_set_workload_mix(run->place, run->specs, in->workload->n);
	run->all = in->cluster->n_devices * (double)SPEC_SHARE_ONE;
	if (replay_lay_out(run, index) < 0 || (!in->is_brief && idle_start(run) < 0))
		return fail(err, ENOMEM, "out of memory for a run");
	return 0;
}

/* ---- mode without time ---- */

/* Number of tasks that arrive together: one task, or the neighbouring tasks of its gang. */
static uint32_t replay_item_size(const struct workload *w, uint32_t first)
{
	uint32_t n = 1;

	while (w->tasks[first].gang && first + n < w->n &&
		w->tasks[first + n].gang == w->tasks[first].gang)
		n++;
	return n;
}

/* Number of the n tasks that have to start together. */
static uint32_t replay_item_least(const struct workload *w, uint32_t first, uint32_t n)
{
	const uint32_t threshold = w->tasks[first].threshold;

	return place_gang_least(n, threshold ? threshold : 1000);
}

/*
 * Places tasks until the gang can no longer reach its threshold; returns the number of placed
 * tasks.
 */
static int place_members(struct run *run, uint32_t first, uint32_t n, struct place_member *members,
	struct error *err)
{
	const uint32_t least = replay_item_least(run->in->workload, first, n);
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

/* Places the tasks if enough of them fit, else none. Returns the number of placed tasks. */
static int replay_place_item(struct run *run, uint32_t first, uint32_t n,
	struct place_member *members, struct error *err)
{
	const uint32_t least = replay_item_least(run->in->workload, first, n);
	const uint32_t savepoint = place_savepoint(run->place);
	const int r = place_members(run, first, n, members, err);

	if (r < (int)least)
		place_rollback(run->place, savepoint);
	place_release(run->place);
	return r < 0 || r >= (int)least ? r : 0;
}

static int replay_arrive(struct run *run, uint32_t first, uint32_t n, struct error *err)
{
	_cleanup_free_ struct place_member *members = calloc(n, sizeof(*members));
	int r;

	if (!members)
		return fail(err, ENOMEM, "out of memory for a run");
	for (uint32_t i = 0; i < n; i++)
		place_note_arrival(run->place, &run->specs[first + i]);
	r = replay_place_item(run, first, n, members, err);
	if (r < 0)
		return r;
	run->waiting += n - (uint32_t)r;
	run->result->n_placed += (uint32_t)r;
	for (uint32_t i = 0; i < n; i++) {
		const struct task *task = &run->in->workload->tasks[first + i];
		const struct place_choice *c = &members[i].choice;
		const uint32_t share = task->spec.share;

		if (r == 0 || members[i].tenant == PLACE_NONE) {
			run_note_refused(run, REPLAY_DROPPED, task->arrives_ns, first + i,
				r ? 1 : n, replay_item_least(run->in->workload, first, n));
			continue;
		}
		run_note_placed(run, task->arrives_ns, first + i, c, members[i].tenant);
		run_enter(run, first + i, c->device, c->n);
		for (uint32_t k = 0; k < c->n; k++)
			run_load(run, c->device[k], (int32_t)share);
	}
	return 0;
}

/* Places one task exclusively, locally or over a network, as the placement model chooses. */
static int arrive_by_mode(struct run *run, uint32_t at, struct error *err)
{
	const struct task *task = &run->in->workload->tasks[at];
	const struct place_spec *spec = &run->specs[at];
	/* If the scheme shares all devices, an exclusive task becomes a local task. */
	const bool is_shared = task->mode == SPEC_MODE_EXCLUSIVE && task->spec.is_exclusive &&
		!spec->is_exclusive;
	const struct place_mode_params params = {.spec = *spec,
		.mode = is_shared ? SPEC_MODE_LOCAL : task->mode,
		.least_mbit = task->least_mbit,
		.most_latency_us = task->most_latency_us};
	struct replay_decision *told = &run->result->decisions[at];
	struct place_decision d;
	uint32_t tenants[2];
	int r;

	place_note_arrival(run->place, &params.spec);
	r = place_mode_choose(run->place, &params, &d, err);
	if (r == 0 && d.outcome != PLACE_QUEUED)
		r = place_mode_add(run->place, &d, tenants, err);
	if (r < 0)
		return r;
	*told = (struct replay_decision){
		.outcome = d.outcome, .network = {d.spec.network[0], d.spec.network[1]}};
	memcpy(told->why, d.why, sizeof(told->why));
	run_note(run, d.outcome == PLACE_QUEUED ? REPLAY_DROPPED : REPLAY_PLACED, task->arrives_ns,
		at, d.outcome == PLACE_QUEUED ? NULL : &d.choice, d.why);
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
	uint32_t size;
	uint64_t arrived = 0;

	run->result->curves.step = 1;
	run->result->n_tasks = n;
	for (uint32_t i = 0; i < n; i += size) {
		const uint32_t task = in->order ? in->order[i] : i;
		uint64_t at;
		int r;

		size = in->order ? 1 : replay_item_size(in->workload, task);
		r = run->result->decisions ? arrive_by_mode(run, task, err)
					   : replay_arrive(run, task, size, err);
		if (r < 0)
			return r;
		run_report_progress(run, i, n);
		for (uint32_t k = 0; k < size; k++)
			arrived += replay_task_requested(&in->workload->tasks[task + k]);
		at = (200 * arrived + all) / (2 * all);
		at = MIN(at, METRICS_POINTS_MAX - 1);
		run_update(run);
		idle_look(run, (uint32_t)at);
		metrics_add(&run->result->curves, &run->now, (uint32_t)at, 1);
	}
	run->result->curves.after = run->now;
	return 0;
}

static int check_networks(const struct replay_input *in, struct error *err)
{
	if (in->mode == REPLAY_QUEUE || in->order)
		return fail(err, EINVAL,
			"networks: a replay with times or an order runs each task on the node "
			"of its devices; use neither");
	for (uint32_t i = 0; i < in->workload->n; i++)
		if (in->workload->tasks[i].gang)
			return fail(err, EINVAL,
				"task %u of a gang: a replay with networks places each task by "
				"itself; leave gangs out",
				i);
	return 0;
}

int replay_defrag_check(const struct replay_defrag *defrag, struct error *err)
{
	if (defrag->period_ns > WORKLOAD_TIME_MAX_NS || defrag->cost_ns > REPLAY_COST_MAX_NS)
		return fail(err, EINVAL,
			"period %" PRIu64 "s with cost %" PRIu64 "s: expected at most %" PRIu64
			"s and %" PRIu64 "s",
			defrag->period_ns / NSEC_PER_SEC, defrag->cost_ns / NSEC_PER_SEC,
			WORKLOAD_TIME_MAX_NS / NSEC_PER_SEC, REPLAY_COST_MAX_NS / NSEC_PER_SEC);
	if (defrag->n_moves > PLACE_MOVES_MAX)
		return fail(err, EINVAL, "%u moves are too many; at most %u are allowed",
			defrag->n_moves, PLACE_MOVES_MAX);
	return 0;
}

static void replay_finish_run(struct run *run)
{
	idle_stop(run);
	place_free(run->place);
	workload_mix_free(run->mix);
	free(run->specs);
	free(run->devices);
	free(run->has_place);
}

/* ---- tasks that never fit ---- */

/*
 * The members of a gang are placed one by one, so a policy can give an earlier member the only
 * place of a later one. A gang is hopeless only if it fails with each of these policies. A single
 * task fits with every policy or with none.
 */
static const char *const judges[] = {"first-fit", "best-fit", "worst-fit"};

struct trial {
	struct replay_input input;
	struct replay_scheme scheme;
	struct run run; /* run on an empty cluster, which starts when it is first used */
};

/* Explains why the first refused task does not fit, with the earlier tasks in their places. */
static void replay_explain_refusal(struct run *run, uint32_t first, uint32_t n,
	struct place_member *members, char ret[static REPLAY_WHY])
{
	const struct place_spec *spec;
	uint32_t refused = 0;
	struct place_why why;
	size_t at = 0;

	while (members[refused].tenant != PLACE_NONE)
		refused++;
	place_members(run, first, refused, members, NULL);
	if (n > 1)
		at = (size_t)snprintf(ret, REPLAY_WHY - PLACE_WHY,
			"%u of %u tasks of the gang must start together; %u fit, and task %u "
			"does not: ",
			replay_item_least(run->in->workload, first, n), n, refused,
			first + refused + 1);
	spec = &run->specs[first + refused];
	place_explain(run->place, spec, &why);
	place_why_format(&why, spec, ret + at);
	at += strlen(ret + at);
	if (why.nodes[PLACE_OVER_LIMIT])
		explain_limit(run, spec, ret + at, REPLAY_WHY - at);
}

/*
 * Returns how many tasks fit on the empty cluster. Explains in `why`, unless NULL, a result below
 * the threshold.
 */
static int replay_judge_item(
	struct run *run, uint32_t first, uint32_t n, struct place_member *members, char *why)
{
	const uint32_t savepoint = place_savepoint(run->place);
	const int r = place_members(run, first, n, members, NULL);

	place_rollback(run->place, savepoint);
	if (why && r >= 0 && r < (int)replay_item_least(run->in->workload, first, n))
		replay_explain_refusal(run, first, n, members, why);
	place_rollback(run->place, savepoint);
	place_release(run->place);
	return r;
}

static int begin_trial(struct trial *t, const struct replay_input *input, const char *judge)
{
	if (t->run.in)
		return 0;
	t->input = (struct replay_input){.cluster = input->cluster,
		.workload = input->workload,
		.scheme = &t->scheme,
		.is_brief = true};
	t->run.in = &t->input;
	t->scheme = *input->scheme;
	t->scheme.policy = place_policy_find(judge);
	return replay_start_run(&t->run, NULL);
}

static void note_hopeless(struct replay_hopeless *found, uint32_t first, uint32_t n)
{
	if (!found->n)
		found->first = first;
	found->n += n;
}

/*
 * Tests, one by one, the tasks that found no place when the whole gang was placed. The gang can
 * start without these tasks, but each of them is hopeless if it does not fit even alone.
 */
static int judge_others(struct run *run, uint32_t first, uint32_t n,
	const struct place_member *members, struct replay_hopeless *found)
{
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < n; i++) {
		struct place_member alone;

		if (members[i].tenant != PLACE_NONE)
			continue;
		r = replay_judge_item(run, first + i, 1, &alone, found->n ? NULL : found->why);
		if (r == 0)
			note_hopeless(found, first + i, 1);
	}
	return r;
}

static int replay_judge_trials(struct trial trials[static ARRAY_SIZE(judges)],
	const struct replay_input *input, uint32_t first, uint32_t n, struct replay_hopeless *found)
{
	_cleanup_free_ struct place_member *members = calloc(n, sizeof(*members));
	const int least = (int)replay_item_least(input->workload, first, n);
	int r = members ? 0 : -ENOMEM;

	for (size_t i = 0; r >= 0 && r < least && i < (n > 1 ? ARRAY_SIZE(judges) : 1); i++) {
		r = begin_trial(&trials[i], input, judges[i]);
		r = r < 0 ? r
			  : replay_judge_item(&trials[i].run, first, n, members,
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
		n = replay_item_size(w, i);
		r = replay_judge_trials(trials, input, i, n, &found);
	}
	for (size_t i = 0; i < ARRAY_SIZE(judges); i++) {
		replay_finish_run(&trials[i].run);
		replay_free(trials[i].run.result);
	}
	if (r < 0)
		return fail(err, -r, "cannot check %u tasks", w->n);
	*ret_hopeless = found;
	return 0;
}

/*
 * counts: tasks that the figures include, or NULL for all. ret_has_place receives run.has_place,
 * and may be NULL.
 */
static int run_once(const struct replay_input *input, const bool *counts,
	struct replay_result **ret_result, bool **ret_has_place, struct error *err)
{
	struct run run = {.in = input, .counts = counts};
	int r = replay_start_run(&run, err);

	if (r == 0)
		r = input->mode == REPLAY_QUEUE ? run_queue(&run, err) : run_drop(&run, err);
	if (r == 0 && ret_has_place)
		*ret_has_place = TAKE_PTR(run.has_place);
	replay_finish_run(&run);
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

int replay_run(
	const struct replay_input *input, struct replay_result **ret_result, struct error *err)
{
	_cleanup_free_ bool *has_place = NULL;
	struct replay_input again = *input;
	struct replay_result *result;
	int r;

	if (!input->cluster->n_devices || !input->workload->n)
		return fail(err, EINVAL,
			"nothing to replay; expected at least one device and one task");
	if (input->mode == REPLAY_QUEUE && !input->workload->has_times)
		return fail(err, EINVAL, "the tasks have no arrival times and durations");
	if (input->slowdown_permille > REPLAY_SLOWDOWN_MAX)
		return fail(err, EINVAL, "slowdown by %u permille: expected at most %u",
			input->slowdown_permille, REPLAY_SLOWDOWN_MAX);
	if (input->grace_ns > REPLAY_GRACE_MAX_NS)
		return fail(err, EINVAL, "grace %" PRIu64 "s: expected at most %" PRIu64 "s",
			input->grace_ns / NSEC_PER_SEC, REPLAY_GRACE_MAX_NS / NSEC_PER_SEC);
	r = replay_defrag_check(&input->defrag, err);
	if (r == 0 && input->cluster->n_networks)
		r = check_networks(input, err);
	r = r < 0 ? r : run_once(input, NULL, &result, &has_place, err);
	if (r < 0)
		return r;
	/*
	 * The first run finds the tasks that never get a place. The second run makes the same
	 * decisions, which are already reported.
	 */
	again.note = NULL;
	if (input->mode == REPLAY_QUEUE && result->n_placed && result->n_placed < result->n_tasks) {
		replay_free(result);
		r = run_once(&again, has_place, &result, NULL, err);
	}
	if (r == 0)
		*ret_result = result;
	return r;
}
