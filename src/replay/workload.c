/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes tasks in three ways: from the rows of a trace, from a shape, or by draws from another
 * workload. In this file every task passes workload_add(), which checks its spec, labels, threshold
 * and times. Normal and exponential numbers come from integers alone: twelve uniform numbers in a
 * sum, and von Neumann's comparisons. workload_generate() adds the members of a gang one after
 * another with the same arrival time. workload_sort() is stable, so members of a gang stay
 * together. All randomness comes from the caller's seed or generator.
 */
#include "replay/workload.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/parse.h"
#include "replay/openb.h"

void workload_done(struct workload *w)
{
	free(w->tasks);
	free(w->labels);
	*w = (struct workload){0};
}

int workload_add(struct workload *w, const struct task *task, struct error *err)
{
	int r = place_spec_check(&task->spec, err);

	if (r < 0)
		return r;
	if (task->spec.affinity > WORKLOAD_LABELS_MAX ||
		task->spec.anti_affinity > WORKLOAD_LABELS_MAX ||
		task->spec.preferred_anti_affinity > WORKLOAD_LABELS_MAX ||
		task->spec.exclusion > WORKLOAD_LABELS_MAX)
		return fail(
			err, EINVAL, "the workload has more than %u labels", WORKLOAD_LABELS_MAX);
	if (task->threshold > 1000)
		return fail(err, EINVAL, "threshold %u permille: expected 1 to 1000, or 0 for all",
			task->threshold);
	if (task->arrives_ns > WORKLOAD_TIME_MAX_NS || task->work_ns > WORKLOAD_TIME_MAX_NS)
		return fail(err, EINVAL, "a task takes more than %u days",
			(unsigned int)(WORKLOAD_TIME_MAX_NS / (86400 * NSEC_PER_SEC)));
	if (w->n == WORKLOAD_TASKS_MAX)
		return fail(err, EINVAL, "the workload has more than %u tasks", WORKLOAD_TASKS_MAX);
	if (array_grow(&w->tasks, &w->room, w->n + 1, sizeof(*w->tasks)) < 0)
		return fail(err, ENOMEM, "out of memory for %u tasks", w->n + 1);
	w->tasks[w->n] = *task;
	w->tasks[w->n++].spec.group = task->gang;
	return 0;
}

int workload_read_openb(
	struct workload *w, struct cluster *cluster, struct str text, struct error *err)
{
	_cleanup_free_ struct openb_pod *rows = NULL;
	int n = openb_pods(text, &rows, err), r = 0;

	w->has_times = true;
	for (int i = 0; r == 0 && i < n; i++) {
		const struct openb_pod *pod = &rows[i];
		struct task task = {.spec = PLACE_SPEC_INIT, .limit = pod->share};

		task.line = pod->line;
		task.spec.share = pod->share;
		task.spec.count = pod->count;
		task.spec.cpu_milli = pod->cpu_milli;
		task.spec.memory_bytes = pod->memory_bytes;
		task.arrives_ns = pod->created_s * NSEC_PER_SEC;
		/*
		 * The trace has whole seconds. A pod that was created and deleted in the same
		 * second counts as 1 s.
		 */
		task.work_ns = MAX(clock_since_ns(pod->deleted_s, pod->created_s), UINT64_C(1)) *
			NSEC_PER_SEC;
		w->has_times = w->has_times && pod->has_times;
		r = cluster_models(cluster, pod->models, &task.spec.models, err);
		r = r < 0 ? r : workload_add(w, &task, err);
		if (r < 0)
			return fail_within(err, r, "line %u: pod '%" STR_FMT "'", pod->line,
				STR_ARG(pod->name));
	}
	return n < 0 ? n : r;
}

static int workload_compare_arrival(const void *pa, const void *pb, void *tasks)
{
	const uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
	const uint64_t x = ((const struct task *)tasks)[a].arrives_ns,
		       y = ((const struct task *)tasks)[b].arrives_ns;

	return x != y ? (x < y ? -1 : 1) : a < b ? -1 : a > b;
}

int workload_sort(struct workload *w, struct error *err)
{
	_cleanup_free_ uint32_t *order = calloc(w->n + 1ull, sizeof(*order));
	struct task *sorted = calloc(w->n + 1ull, sizeof(*sorted));

	if (!order || !sorted) {
		free(sorted);
		return fail(err, ENOMEM, "out of memory for %u tasks", w->n);
	}
	for (uint32_t i = 0; i < w->n; i++)
		order[i] = i;
	if (w->n)
		qsort_r(order, w->n, sizeof(*order), workload_compare_arrival, w->tasks);
	for (uint32_t i = 0; i < w->n; i++)
		sorted[i] = w->tasks[order[i]];
	free(w->tasks);
	w->tasks = sorted;
	w->room = w->n + 1;
	return 0;
}

static uint64_t workload_task_requested(const struct task *task)
{
	return (uint64_t)task->spec.share * task->spec.count;
}

static int workload_requested_by_all(const struct workload *w, uint64_t *ret_sum, struct error *err)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < w->n; i++)
		sum += workload_task_requested(&w->tasks[i]);
	if (!sum)
		return fail(err, EINVAL, "no task requests a device");
	*ret_sum = sum;
	return 0;
}

int workload_draw(const struct workload *w, uint32_t n_devices, uint32_t permille,
	struct rand *rand, uint32_t **ret_order, struct error *err)
{
	const uint64_t wanted = (uint64_t)n_devices * permille;
	uint64_t arrived = 0, sum = 0;
	uint32_t *order = NULL, n = 0, room = 0;
	int r = workload_requested_by_all(w, &sum, err);

	if (r < 0)
		return r;
	while (arrived < wanted) {
		const uint32_t i = (uint32_t)rand_below(rand, w->n);

		if (n == OPENB_ROWS_MAX || array_grow(&order, &room, n + 1, sizeof(*order)) < 0) {
			free(order);
			if (n < OPENB_ROWS_MAX)
				return fail(err, ENOMEM, "out of memory for %u tasks", n);
			return fail(err, EINVAL,
				"%u tasks request less than %u permille of %u devices; use "
				"larger tasks or fewer devices",
				n, permille, n_devices);
		}
		order[n++] = i;
		arrived += workload_task_requested(&w->tasks[i]);
	}
	*ret_order = order;
	return (int)n;
}

void workload_shuffle(uint32_t *items, uint32_t n, struct rand *rand)
{
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t j = (uint32_t)rand_below(rand, i + 1ull);

		items[i] = items[j];
		items[j] = i;
	}
}

/* ---- generated ---- */

#define ONE(value) \
	{ \
		{{value, 1}}, 1 \
	}

static const struct workload_shape shapes[] = {
	{
		.name = "kubeshare",
		.about = "jobs that use a part of a device, with three times the load that whole "
			 "devices can take",
		.nodes = "8x4",
		/* 180 s mean work / 96: three tasks arrive while each of 32 devices does one */
		.gap_ns = 1875 * NSEC_PER_MSEC,
		.n_tasks = 1000,
		.whole = ONE(0),
		.demand = 300,
		.demand_sigma = 100,
		.memory = 300,
		.memory_sigma = 150,
		.work_min_ns = 60 * NSEC_PER_SEC,
		.work_max_ns = 300 * NSEC_PER_SEC,
		.gangs = ONE(1),
		.priorities = ONE(50),
	},
	{
		/* KubeShare 2.0's trace: 989 jobs in 86,217 s, 51 minutes in the mean. */
		.name = "trace-like",
		.about = "a day of jobs as KubeShare 2.0 replays: two thirds whole devices, one "
			 "third shares",
		.nodes = "8x4",
		.gap_ns = 87176 * NSEC_PER_MSEC,
		.n_tasks = 989,
		.whole = {{{1, 671}, {2, 22}, {0, 296}}, 3},
		.work_max_ns = 51 * 60 * NSEC_PER_SEC,
		.gangs = ONE(1),
		.priorities = ONE(50),
	},
	{
		/* Request 0.4 and limit 0.5, with high and low priority. */
		.name = "wang",
		.about = "twenty small trainings of two priorities on one node",
		.nodes = "1x2",
		.gap_ns = 10 * NSEC_PER_SEC,
		.n_tasks = 20,
		.whole = ONE(0),
		.demand = 400,
		.limit = 500,
		.work_min_ns = 300 * NSEC_PER_SEC,
		.work_max_ns = 1200 * NSEC_PER_SEC,
		.gangs = ONE(1),
		.priorities = {{{90, 1}, {10, 1}}, 2},
	},
};

const struct workload_shape *workload_shape_at(size_t i)
{
	return i < ARRAY_SIZE(shapes) ? &shapes[i] : NULL;
}

const struct workload_shape *workload_shape_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		if (!strcmp(shapes[i].name, name))
			return &shapes[i];
	return NULL;
}

int workload_choices_parse(
	struct str text, uint32_t max, struct workload_choices *ret_choices, struct error *err)
{
	struct workload_choices c = {0};
	struct str piece;

	while (str_split(&text, ',', &piece)) {
		const size_t at = str_find(piece, ':');
		uint64_t value, weight = 1;

		if (c.n == WORKLOAD_CHOICES_MAX)
			return fail(err, EINVAL,
				"the list has more than %u values, '%" STR_FMT
				"' is the first above",
				WORKLOAD_CHOICES_MAX, STR_ARG(piece));
		if (parse_uint((struct str){piece.p, at}, 0, max, &value, NULL) < 0 ||
			(at < piece.n &&
				parse_uint((struct str){piece.p + at + 1, piece.n - at - 1}, 1,
					1000000, &weight, NULL) < 0))
			return fail(err, EINVAL,
				"'%" STR_FMT "': expected VALUE:WEIGHT with values up to %u and "
				"weights from 1 to 1000000, such as 1:9,4:1",
				STR_ARG(piece), max);
		c.of[c.n++] = (struct workload_choice){(uint32_t)value, (uint32_t)weight};
	}
	*ret_choices = c;
	return 0;
}

static uint32_t workload_choose(const struct workload_choices *c, struct rand *rand)
{
	uint64_t sum = 0, at;

	if (!c->n)
		return 0;
	for (uint32_t i = 0; i < c->n; i++)
		sum += c->of[i].weight;
	at = rand_below(rand, sum);
	for (uint32_t i = 0; i < c->n; i++) {
		if (at < c->of[i].weight)
			return c->of[i].value;
		at -= c->of[i].weight;
	}
	return c->of[0].value;
}

/*
 * Exponential numbers by von Neumann's comparisons (1951), which need no logarithm. After a first
 * random number, draw until a number is not below the number before it. If the count of these draws
 * is odd, the first number is the fractional part. Otherwise add one mean and start again.
 */
static uint64_t workload_exponential(uint64_t mean, struct rand *rand)
{
	for (uint64_t whole = 0;; whole += mean) {
		const uint64_t first = rand_below(rand, mean);
		uint64_t before = first, next;
		bool is_odd = true;

		while ((next = rand_below(rand, mean)) < before) {
			before = next;
			is_odd = !is_odd;
		}
		if (is_odd)
			return whole + first;
	}
}

/*
 * Draws a uniform duration from min_ns to max_ns. If min_ns is 0, draws an exponential duration
 * with mean max_ns.
 */
static uint64_t workload_draw_work(uint64_t min_ns, uint64_t max_ns, struct rand *rand)
{
	return min_ns ? min_ns + rand_below(rand, max_ns - min_ns + 1)
		      : 1 + workload_exponential(max_ns, rand);
}

/*
 * Draws an approximately normal number: the sum of twelve uniform numbers has variance 1. Results
 * outside WORKLOAD_PART_MIN to 1000 are drawn again.
 */
static uint32_t workload_normal(uint32_t mean, uint32_t sigma, struct rand *rand)
{
	/*
	 * The loop ends soon: most results are within the bounds, because the mean is within the
	 * bounds and sigma is limited.
	 */
	for (;;) {
		int64_t sum = -(INT64_C(6) << 32), value;

		for (int i = 0; i < 12; i++)
			sum += (int64_t)rand_below(rand, UINT64_C(1) << 32);
		value = mean + sum * (int64_t)sigma / (INT64_C(1) << 32);
		if (value >= WORKLOAD_PART_MIN && value <= SPEC_SHARE_ONE)
			return (uint32_t)value;
	}
}

static uint32_t part_of_device(uint32_t mean, uint32_t sigma, struct rand *rand)
{
	return mean ? workload_normal(mean, sigma, rand)
		    : 1 + (uint32_t)rand_below(rand, SPEC_SHARE_ONE);
}

static int check_choices(const struct workload_choices *c, const char *name, uint32_t min,
	uint32_t max, struct error *err)
{
	if (!c->n)
		return fail(err, EINVAL, "%s: expected at least one value", name);
	for (uint32_t i = 0; i < c->n; i++)
		if (c->of[i].value < min || c->of[i].value > max || !c->of[i].weight)
			return fail(err, EINVAL, "%s %u: expected %u to %u", name, c->of[i].value,
				min, max);
	return 0;
}

static int check_labels(const struct workload_choices *c, const char *name, struct error *err)
{
	return c->n ? check_choices(c, name, 0, WORKLOAD_LABELS_MAX, err) : 0;
}

static int check_part(const char *name, uint32_t mean, uint32_t sigma, struct error *err)
{
	if ((mean && mean < WORKLOAD_PART_MIN) || mean > SPEC_SHARE_ONE || sigma > SPEC_SHARE_ONE)
		return fail(err, EINVAL,
			"%s with mean %u and deviation %u permille: expected a mean from %u to "
			"%u and a deviation up to %u",
			name, mean, sigma, WORKLOAD_PART_MIN, SPEC_SHARE_ONE, SPEC_SHARE_ONE);
	return 0;
}

int workload_work_check(uint64_t min_ns, uint64_t max_ns, struct error *err)
{
	const struct text most = format_duration(WORKLOAD_WORK_MAX_NS);

	if (max_ns && min_ns <= max_ns && max_ns <= WORKLOAD_WORK_MAX_NS)
		return 0;
	if (!min_ns)
		return fail(err, EINVAL, "mean %s: expected above 0 and up to %s",
			format_duration(max_ns).s, most.s);
	return fail(err, EINVAL,
		"from %s to %s: expected the shortest before the longest, up to %s",
		format_duration(min_ns).s, format_duration(max_ns).s, most.s);
}

int workload_shape_check(const struct workload_shape *s, struct error *err)
{
	int r;

	if (!s->gap_ns || s->gap_ns > WORKLOAD_TIME_MAX_NS / 64)
		return fail(err, EINVAL, "time between arrivals: expected 1ns to %" PRIu64 "h",
			WORKLOAD_TIME_MAX_NS / 64 / (3600 * NSEC_PER_SEC));
	if (!s->n_tasks || s->n_tasks > WORKLOAD_TASKS_MAX)
		return fail(
			err, EINVAL, "%u tasks: expected 1 to %u", s->n_tasks, WORKLOAD_TASKS_MAX);
	if (s->limit > SPEC_SHARE_ONE)
		return fail(err, EINVAL, "limit %u permille: expected at most %u", s->limit,
			SPEC_SHARE_ONE);
	r = workload_work_check(s->work_min_ns, s->work_max_ns, err);
	if (r < 0)
		return fail_within(err, r, "duration");
	r = check_part("demand", s->demand, s->demand_sigma, err);
	r = r < 0 ? r : check_part("memory", s->memory, s->memory_sigma, err);
	r = r < 0 ? r : check_choices(&s->whole, "whole", 0, SPEC_DEVICES_MAX, err);
	r = r < 0 ? r : check_choices(&s->gangs, "gangs", 1, WORKLOAD_GANG_MAX, err);
	for (uint32_t i = 0; r == 0 && i < s->gangs.n; i++)
		if (s->gangs.of[i].value > s->n_tasks)
			r = fail(err, EINVAL, "gangs %u: with %u tasks, expected at most %u",
				s->gangs.of[i].value, s->n_tasks, s->n_tasks);
	r = r < 0 ? r : check_choices(&s->priorities, "priorities", 0, 100, err);
	r = r < 0 ? r : check_labels(&s->affinity, "affinity", err);
	r = r < 0 ? r : check_labels(&s->anti_affinity, "anti-affinity", err);
	r = r < 0 ? r : check_labels(&s->preferred_anti_affinity, "preferred-anti-affinity", err);
	r = r < 0 ? r : check_labels(&s->kinds, "kinds", err);
	return r < 0 ? r : check_labels(&s->exclusion, "exclusion", err);
}

/*
 * Each property of tasks has its own random stream, so a changed option for one property leaves the
 * others equal.
 */
struct streams {
	struct rand gap, gang, whole, demand, memory, work, priority;
	struct rand affinity, anti_affinity, exclusion, kind, preferred;
};

static struct task make_task(const struct workload_shape *s, struct streams *streams)
{
	const uint32_t whole = workload_choose(&s->whole, &streams->whole);
	struct task task = {.spec = PLACE_SPEC_INIT};

	task.spec.count = whole ? whole : 1;
	task.spec.is_exclusive = whole > 0;
	task.spec.share = whole ? SPEC_SHARE_ONE
				: part_of_device(s->demand, s->demand_sigma, &streams->demand);
	task.limit = MAX(task.spec.share, s->limit);
	if (s->memory && !whole)
		task.spec.device_permille = part_of_device(
			s->memory, s->memory_sigma, &streams->memory);
	task.spec.priority = workload_choose(&s->priorities, &streams->priority);
	if (!task.spec.priority)
		task.spec.class = SPEC_OPPORTUNISTIC;
	task.spec.affinity = workload_choose(&s->affinity, &streams->affinity);
	task.spec.anti_affinity = workload_choose(&s->anti_affinity, &streams->anti_affinity);
	task.spec.exclusion = workload_choose(&s->exclusion, &streams->exclusion);
	task.kind = workload_choose(&s->kinds, &streams->kind);
	if (s->is_apart)
		task.spec.anti_affinity = task.kind;
	task.spec.preferred_anti_affinity = s->prefers_apart
		? task.kind
		: workload_choose(&s->preferred_anti_affinity, &streams->preferred);
	task.work_ns = workload_draw_work(s->work_min_ns, s->work_max_ns, &streams->work);
	return task;
}

int workload_generate(
	struct workload *w, const struct workload_shape *shape, uint64_t seed, struct error *err)
{
	struct rand all = rand_seeded(seed);
	struct streams streams = {rand_seeded(rand_u64(&all)), rand_seeded(rand_u64(&all)),
		rand_seeded(rand_u64(&all)), rand_seeded(rand_u64(&all)),
		rand_seeded(rand_u64(&all)), rand_seeded(rand_u64(&all)),
		rand_seeded(rand_u64(&all)), rand_seeded(rand_u64(&all)),
		rand_seeded(rand_u64(&all)), rand_seeded(rand_u64(&all)),
		rand_seeded(rand_u64(&all)), rand_seeded(rand_u64(&all))};
	uint64_t now = 0;
	uint32_t gang = 0;
	bool is_over = false; /* arrivals have passed span_ns */
	int r = workload_shape_check(shape, err);

	while (r == 0 && w->n < shape->n_tasks) {
		uint32_t size = workload_choose(&shape->gangs, &streams.gang);

		now += workload_exponential(shape->gap_ns, &streams.gap);
		is_over = shape->span_ns && now > shape->span_ns;
		if (is_over)
			break;
		size = MIN(size, shape->n_tasks - w->n);
		gang += size > 1;
		for (uint32_t i = 0; r == 0 && i < size; i++) {
			struct task task = make_task(shape, &streams);

			task.arrives_ns = now;
			task.gang = size > 1 ? gang : 0;
			task.threshold = shape->threshold;
			r = workload_add(w, &task, err);
		}
	}
	w->has_times = true;
	if (r == 0 && shape->span_ns && !is_over && shape->n_tasks == WORKLOAD_TASKS_MAX)
		return fail(err, EINVAL,
			"more than %u tasks arrive in this time; use a shorter time or a lower "
			"rate",
			WORKLOAD_TASKS_MAX);
	return r < 0 || w->n
		? r
		: fail(err, EINVAL,
			  "no task arrives in this time; use a longer time or a higher rate");
}

/* Mean time between arrivals for the requested load, at least 1 ns. */
static uint64_t gap_of(const struct workload *from, const struct workload_redraw *how, uint64_t sum)
{
	const uint64_t mean_ns = how->work_min_ns ? (how->work_min_ns + how->work_max_ns) / 2
						  : how->work_max_ns;
	const uint64_t of = (uint64_t)from->n * how->n_devices * how->load;

	return (uint64_t)MAX((unsigned __int128)mean_ns * sum / of, (unsigned __int128)1);
}

int workload_redraw(struct workload *w, const struct workload *from,
	const struct workload_redraw *how, uint64_t seed, struct error *err)
{
	struct rand all = rand_seeded(seed), which = rand_seeded(rand_u64(&all)),
		    gaps = rand_seeded(rand_u64(&all)), works = rand_seeded(rand_u64(&all));
	uint64_t now = 0, gap_ns, sum = 0;
	int r = workload_requested_by_all(from, &sum, err);

	if (r < 0)
		return r;
	r = workload_work_check(how->work_min_ns, how->work_max_ns, err);
	if (r < 0)
		return fail_within(err, r, "duration");
	if (!how->n_devices || !how->load)
		return fail(err, EINVAL,
			"the load or the number of devices is 0; expected more of each");
	gap_ns = gap_of(from, how, sum);
	for (uint32_t i = 0; r == 0 && i < how->n; i++) {
		struct task task = from->tasks[rand_below(&which, from->n)];

		now += workload_exponential(gap_ns, &gaps);
		task.arrives_ns = now;
		task.work_ns = workload_draw_work(how->work_min_ns, how->work_max_ns, &works);
		r = workload_add(w, &task, err);
	}
	w->has_times = true;
	return r;
}
