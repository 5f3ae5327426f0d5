/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement simulations whose results were computed by hand, and runs that must have equal results.
 */
#include "../unit.h"

#include <errno.h>
#include <math.h>

#include "base/clock.h"
#include "replay/replay.h"

#define S NSEC_PER_SEC

struct scene {
	struct cluster cluster;
	struct workload workload;
	struct replay_scheme scheme;
	struct replay_input input;
	struct replay_result *result;
};

static void scene_done(struct scene *s)
{
	replay_free(s->result);
	workload_done(&s->workload);
	cluster_done(&s->cluster);
}
#define _cleanup_scene_ _cleanup_(scene_done)

static void add(struct scene *s, uint32_t share, uint32_t limit, uint64_t at_ns, uint64_t work_ns)
{
	struct task task = {
		.spec = PLACE_SPEC_INIT, .limit = limit, .arrives_ns = at_ns, .work_ns = work_ns};

	task.spec.share = share;
	assert_ok(workload_add(&s->workload, &task, NULL));
}

static void run(struct scene *s, const char *nodes, const char *scheme, enum replay_mode mode)
{
	struct error err = {0};

	replay_free(s->result);
	s->result = NULL;
	if (!s->cluster.n)
		assert_ok(cluster_like(&s->cluster, str_from(nodes), NULL));
	s->workload.has_times = true;
	assert_ok(replay_scheme_find(scheme, &s->scheme, NULL));
	s->input.cluster = &s->cluster;
	s->input.workload = &s->workload;
	s->input.scheme = &s->scheme;
	s->input.mode = mode;
	if (replay_run(&s->input, &s->result, &err) < 0)
		fail_msg("%s", err.msg);
}

static void assert_times(const double *times, size_t n, const double *expected)
{
	for (size_t i = 0; i < n; i++)
		assert_true(times[i] > expected[i] - 1e-6 && times[i] < expected[i] + 1e-6);
}

/* Two tasks with limit 1 get half of the device each, so both take twice their time. */
static void divides_a_device(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 500, 1000, 0, 10 * S);
	add(&s, 500, 1000, 0, 10 * S);
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_int_equal(s.result->n_placed, 2);
	assert_times(s.result->completion_s, 2, (const double[]){20, 20});
	assert_times(s.result->queued_s, 2, (const double[]){0, 0});
	assert_times(&s.result->used, 1, (const double[]){1});
	assert_times(&s.result->throughput_per_h, 1, (const double[]){360});
	run(&s, "1x1", "whole", REPLAY_QUEUE);
	assert_times(s.result->completion_s, 2, (const double[]){10, 20});
	assert_times(s.result->queued_s, 2, (const double[]){0, 10});
}

/*
 * The first task alone gets its limit 0.8, from 5 s on only 0.5. Then 4 of its 8 device-seconds are
 * left, which take 8 s.
 */
static void unused_share_goes_to_tasks_up_to_their_limits(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 300, 800, 0, 10 * S);
	add(&s, 500, 500, 5 * S, 100 * S);
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->completion_s, 2, (const double[]){13, 100});
}

/*
 * Beside a task of the same kind, each task runs at two thirds of its pace: the short task takes 15
 * s instead of 10 s. By then the long one has 20 of its 30 s left.
 */
static void tasks_of_the_same_kind_slow_each_other(void **state)
{
	_cleanup_scene_ struct scene s = {.input.slowdown_permille = 500};

	add(&s, 500, 500, 0, 30 * S);
	add(&s, 500, 500, 0, 10 * S);
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->completion_s, 2, (const double[]){10, 30});
	s.workload.tasks[0].kind = s.workload.tasks[1].kind = 1;
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->completion_s, 2, (const double[]){15, 35});
	run(&s, "1x2", "whole", REPLAY_QUEUE);
	s.workload.tasks[1].kind = 2;
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->completion_s, 2, (const double[]){10, 30});
	/* A task of the same kind on another device slows no task down. */
	s.workload.tasks[1].kind = 1;
	cluster_done(&s.cluster);
	run(&s, "2x1", "worst-fit", REPLAY_QUEUE);
	assert_times(s.result->completion_s, 2, (const double[]){10, 30});
}

/*
 * Replicas go to devices in turn, whatever is in use there: the first and the third task share a
 * device.
 */
static void reports_the_largest_request_on_each_device(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 800, 800, 0, 10 * S);
	add(&s, 500, 500, 0, 10 * S);
	add(&s, 400, 400, 0, 10 * S);
	run(&s, "1x2", "replicas", REPLAY_DROP);
	assert_int_equal(s.result->n_devices, 2);
	assert_int_equal(s.result->requested_most[0] + s.result->requested_most[1], 1700);
	assert_int_equal(MAX(s.result->requested_most[0], s.result->requested_most[1]), 1200);
	run(&s, "1x2", "best-fit", REPLAY_DROP);
	assert_int_equal(s.result->requested_most[0], 800);
	assert_int_equal(s.result->requested_most[1], 900);
}

/* 64 small tasks are spread over all eight devices, and a second run makes the same choices. */
static void places_at_random(void **state)
{
	_cleanup_scene_ struct scene s = {0};
	uint32_t first[8];

	for (int i = 0; i < 64; i++)
		add(&s, 10, 10, 0, 10 * S);
	run(&s, "2x4", "random", REPLAY_DROP);
	for (int i = 0; i < 8; i++) {
		first[i] = s.result->requested_most[i];
		assert_in_range(first[i], 10, 200);
	}
	run(&s, "2x4", "random", REPLAY_DROP);
	assert_memory_equal(first, s.result->requested_most, sizeof(first));
}

/*
 * Under a scheme without limits both tasks get half of the device, whatever they requested. Under a
 * scheme with limits one task waits.
 */
static void a_scheme_without_limits_gives_equal_shares(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 900, 900, 0, 10 * S);
	add(&s, 600, 600, 0, 10 * S);
	run(&s, "1x1", "replicas", REPLAY_QUEUE);
	/*
	 * Each task gets 0.5. The second needs 6 / 0.5 s; then the first has 9 - 6 left at its
	 * limit 0.9.
	 */
	assert_times(s.result->completion_s, 2, (const double[]){12, 12 + 3 / 0.9});
	assert_times(s.result->queued_s, 2, (const double[]){0, 0});
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->completion_s, 2, (const double[]){10, 20});
}

static void packs_by_memory_alone(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	for (int i = 0; i < 2; i++) {
		add(&s, 800, 800, 0, 10 * S);
		s.workload.tasks[i].spec.device_permille = 500;
	}
	run(&s, "1x2", "memory-only", REPLAY_QUEUE);
	assert_times(s.result->completion_s, 2, (const double[]){16, 16});
	assert_times(&s.result->in_use, 1, (const double[]){0.5});
	run(&s, "1x2", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->completion_s, 2, (const double[]){10, 10});
}

static void add_node(struct scene *s, const char *name, uint64_t device_bytes)
{
	struct cluster_node node = {
		.n_kinds = 1, .kinds = {{.n_devices = 1, .device_bytes = device_bytes}}};

	if (!s->cluster.n_models)
		assert_ok(cluster_model(&s->cluster, STR("any"), &node.kinds[0].model, NULL));
	assert_ok(str_copy(node.name, sizeof(node.name), str_from(name)));
	assert_ok(cluster_add(&s->cluster, &node, NULL));
}

/* Devices of 80Gi and 16Gi hold 24 tasks of 4Gi, in either order of the nodes. */
static void gives_no_more_memory_than_a_device_has(void **state)
{
	for (int first = 0; first < 2; first++) {
		_cleanup_scene_ struct scene s = {0};

		add_node(&s, "a", first ? 80ull << 30 : 16ull << 30);
		add_node(&s, "b", first ? 16ull << 30 : 80ull << 30);
		for (int i = 0; i < 40; i++) {
			add(&s, 10, 10, 0, 10 * S);
			s.workload.tasks[i].spec.device_bytes = 4ull << 30;
		}
		run(&s, NULL, "memory-only", REPLAY_QUEUE);
		assert_int_equal(s.result->n_placed, 40);
		assert_times(&s.result->queued_s[23], 2, (const double[]){0, 10});
		s.workload.tasks[39].spec.device_bytes = 81ull << 30;
		run(&s, NULL, "memory-only", REPLAY_QUEUE);
		assert_int_equal(s.result->n_placed, 39);
	}
}

/*
 * After the first task, 40Gi are free on the large device and 16Gi on the small one. So the task of
 * 10Gi goes to the small device, although half of the large one is in use.
 */
static void packs_where_least_memory_is_free(void **state)
{
	for (int first = 0; first < 2; first++) {
		_cleanup_scene_ struct scene s = {0};
		static const uint32_t gib[] = {40, 10, 40, 6};

		add_node(&s, "a", first ? 80ull << 30 : 16ull << 30);
		add_node(&s, "b", first ? 16ull << 30 : 80ull << 30);
		for (uint32_t i = 0; i < ARRAY_SIZE(gib); i++) {
			add(&s, 10, 10, 0, 10 * S);
			s.workload.tasks[i].spec.device_bytes = (uint64_t)gib[i] << 30;
		}
		/*
		 * Both tasks of 40Gi fit on the large device only if those of 10Gi and 6Gi share
		 * the small one.
		 */
		run(&s, NULL, "memory-only", REPLAY_QUEUE);
		assert_times(s.result->queued_s, 4, (const double[]){0, 0, 0, 0});
	}
}

/* A task on two devices, one of them shared, runs at the pace of the shared device. */
static void a_task_runs_at_the_pace_of_its_slowest_device(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 500, 1000, 0, 10 * S);
	s.workload.tasks[0].spec.count = 2;
	add(&s, 500, 500, 0, 100 * S);
	run(&s, "1x2", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->completion_s, 2, (const double[]){20, 100});
}

static void waiting_tasks_start_by_priority_or_arrival(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 1000, 1000, 0, 10 * S);
	add(&s, 1000, 1000, 1 * S, 10 * S);
	add(&s, 1000, 1000, 2 * S, 40 * S);
	s.workload.tasks[2].spec.priority = 90;
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->completion_s, 3, (const double[]){10, 19, 58});
	s.input.queue = REPLAY_PRIORITY;
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->completion_s, 3, (const double[]){10, 48, 59});
}

/* A waiting task that fits starts although a larger task before it in the queue does not fit. */
static void a_task_that_does_not_fit_blocks_no_other(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 600, 600, 0, 10 * S);
	add(&s, 500, 500, 1 * S, 10 * S);
	add(&s, 400, 400, 2 * S, 5 * S);
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->queued_s, 3, (const double[]){0, 0, 9});
}

static void starts_gangs_together(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 1000, 1000, 0, 10 * S);
	for (int i = 0; i < 2; i++) {
		add(&s, 1000, 1000, 1 * S, 5 * S);
		s.workload.tasks[1 + i].gang = 1;
	}
	add(&s, 1000, 1000, 2 * S, 3 * S);
	run(&s, "1x2", "best-fit", REPLAY_QUEUE);
	/*
	 * One of two devices is free. The gang needs both, so the last task starts before the gang.
	 */
	assert_times(s.result->queued_s, 4, (const double[]){0, 0, 9, 9});
	assert_times(&s.result->end_s, 1, (const double[]){15});
}

static void tasks_that_never_fit_are_counted(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 1000, 1000, 0, 10 * S);
	add(&s, 1000, 1000, 0, 10 * S);
	s.workload.tasks[1].spec.count = 3;
	run(&s, "1x2", "best-fit", REPLAY_QUEUE);
	assert_int_equal(s.result->n_tasks, 2);
	assert_int_equal(s.result->n_placed, 1);
}

static void tasks_that_do_not_fit_are_dropped(void **state)
{
	_cleanup_scene_ struct scene s = {0};
	const uint32_t order[] = {0, 1, 0, 0};
	const struct metrics *m;

	add(&s, 400, 400, 0, 1);
	add(&s, 700, 700, 0, 1);
	s.input.order = order;
	s.input.n_order = 4;
	run(&s, "1x1", "first-fit", REPLAY_DROP);
	m = &s.result->curves;
	assert_int_equal(s.result->n_placed, 2);
	/* points 0 to 190: the arrived tasks request 190 % of the cluster */
	assert_int_equal(m->n, 191);
	assert_times(&m->sum[METRICS_ALLOCATED][40], 1, (const double[]){0.4});
	assert_times(&m->sum[METRICS_ALLOCATED][110], 1, (const double[]){0.4});
	assert_times(&m->sum[METRICS_ALLOCATED][150], 1, (const double[]){0.8});
	assert_true(m->weight[100] <= 0);
	assert_true(metrics_at(m, METRICS_ALLOCATED, 100) < 0.5);
	/*
	 * At 150 % the free 0.2 is too little for both tasks. At 40 % the free 0.6 was enough for
	 * one of two tasks.
	 */
	assert_times(&m->sum[METRICS_TOO_SMALL][150], 1, (const double[]){0.2});
	assert_times(&m->sum[METRICS_TOO_SMALL][40], 1, (const double[]){0.3});
	assert_times(&m->sum[METRICS_OPEN][40], 1, (const double[]){0.3});
}

/*
 * Every device gets a first replica before any device gets a second one, on one node or on several.
 */
static void replicas_are_given_in_turn(void **state)
{
	static const char *const clusters[] = {"8x1", "4x2", "1x8"};

	for (size_t i = 0; i < ARRAY_SIZE(clusters); i++) {
		_cleanup_scene_ struct scene s = {0};

		for (int k = 0; k < 12; k++)
			add(&s, 1000, 1000, 0, 1);
		s.workload.tasks[9].spec.count = i ? 2 : 1;
		run(&s, clusters[i], "replicas", REPLAY_DROP);
		for (uint32_t d = 0, twice = i ? 5 : 4; d < 8; d++) {
			const uint32_t most = s.result->requested_most[d];

			assert_true(most == 1000 || (most == 2000 && twice--));
		}
	}
}

/*
 * The last point of the curves includes all arrivals beyond it, and `after` is the state at the
 * end.
 */
static void the_last_point_includes_later_arrivals(void **state)
{
	_cleanup_scene_ struct scene s = {0};
	const struct metrics *m;

	add(&s, 500, 500, 0, 1);
	for (int i = 0; i < 4; i++) {
		add(&s, 1000, 1000, 0, 1);
		s.workload.tasks[i + 1].spec.cpu_milli = 17000; /* the node has 16 cores */
	}
	add(&s, 500, 500, 0, 1);
	run(&s, "1x1", "first-fit", REPLAY_DROP);
	m = &s.result->curves;
	assert_int_equal(s.result->n_placed, 2);
	assert_int_equal(m->n, METRICS_POINTS_MAX);
	assert_times(&m->weight[METRICS_POINTS_MAX - 1], 1, (const double[]){3});
	assert_times(&m->after.value[METRICS_ALLOCATED], 1, (const double[]){1});
	assert_times(&m->after.value[METRICS_IN_USE], 1, (const double[]){1});
	assert_times(&m->after.value[METRICS_WAITING], 1, (const double[]){4});
}

/*
 * Beside the first task, the rest of its device is of no use to the two later tasks. All schemes
 * report that fragmentation, which counts all tasks of the workload.
 */
static void fragmentation_counts_all_tasks(void **state)
{
	static const char *const schemes[] = {
		"fgd", "best-fit", "first-fit", "default", "whole", "replicas", "memory-only"};

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		_cleanup_scene_ struct scene s = {0};
		const struct metrics *m;

		add(&s, 400, 400, 0, 1);
		add(&s, 1000, 1000, 0, 1);
		add(&s, 1000, 1000, 0, 1);
		run(&s, "1x2", schemes[i], REPLAY_DROP);
		m = &s.result->curves;
		/*
		 * The idle device is of use to all three tasks, the free 0.6 to one of them. Scheme
		 * "whole" leaves nothing free on the first device.
		 */
		assert_times(&m->sum[METRICS_FRAGMENTED][20], 1,
			(const double[]){strcmp(schemes[i], "whole") ? 0.6 / 2 * 2 / 3 : 0});
	}
}

static void drops_gangs_as_a_whole(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	for (int i = 0; i < 4; i++) {
		add(&s, 1000, 1000, 0, S);
		s.workload.tasks[i].gang = i < 3;
	}
	run(&s, "1x2", "best-fit", REPLAY_DROP);
	assert_int_equal(s.result->n_tasks, 4);
	assert_int_equal(s.result->n_placed, 1);
	assert_true(s.result->curves.weight[100] <= 0); /* all members of the gang arrive at once */
	assert_times(&s.result->curves.sum[METRICS_WAITING][150], 1, (const double[]){3});
	for (int i = 0; i < 3; i++)
		s.workload.tasks[i].threshold = 667; /* two of three members */
	run(&s, "1x2", "best-fit", REPLAY_DROP);
	assert_int_equal(s.result->n_placed, 2);
	assert_times(&s.result->curves.sum[METRICS_ALLOCATED][150], 1, (const double[]){1});
	assert_times(&s.result->curves.sum[METRICS_WAITING][150], 1, (const double[]){1});
	s.workload.tasks[2].gang = 2;
	run(&s, "1x2", "best-fit", REPLAY_DROP);
	assert_int_equal(s.result->n_placed, 2);
	assert_times(&s.result->curves.sum[METRICS_ALLOCATED][100], 1, (const double[]){1});
}

static void reasons_of_idle_devices_are_reported(void **state)
{
	_cleanup_scene_ struct scene s = {0};
	const struct metrics *m;

	add(&s, 500, 500, 0, 1);
	s.workload.tasks[0].spec.cpu_milli = 10000; /* the node has 16 cores */
	run(&s, "1x1", "best-fit", REPLAY_DROP);
	m = &s.result->curves;
	assert_times(&m->sum[METRICS_NO_CPU][50], 1, (const double[]){0.5});
	assert_times(&m->sum[METRICS_OPEN][50], 1, (const double[]){0});
}

static double idle_at(const struct metrics *m, uint32_t at)
{
	return m->sum[METRICS_NO_CPU][at] + m->sum[METRICS_TOO_SMALL][at] +
		m->sum[METRICS_OTHER][at] + m->sum[METRICS_OPEN][at];
}

/*
 * Two tasks count as two of a hundred replicas, as two hundredths of the memory, or as 0.8 of the
 * device, by scheme. Under each scheme, the idle part of the device is what the tasks did not
 * request.
 */
static void idle_share_is_counted_under_every_scheme(void **state)
{
	static const char *const schemes[] = {"replicas", "memory-only", "best-fit", "random"};

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		_cleanup_scene_ struct scene s = {0};
		const struct metrics *m;

		for (int k = 0; k < 2; k++) {
			add(&s, 400, 400, 0, 1);
			s.workload.tasks[k].spec.device_permille = 10;
		}
		run(&s, "1x1", schemes[i], REPLAY_DROP);
		m = &s.result->curves;
		for (int at = 40; at <= 80; at += 40) {
			const double idle = idle_at(m, (uint32_t)at);

			assert_times(&idle, 1, (const double[]){1 - at / 100.0});
		}
	}
}

/* Holds at each point of the curves, also with evictions, grace periods and defragmentation. */
static void free_and_allocated_add_up_to_the_cluster(void **state)
{
	static const char *const schemes[] = {"default", "first-fit", "random"};
	struct workload_shape shape = *workload_shape_find("trace-like");

	shape.n_tasks = 600;
	shape.gap_ns /= 4;
	assert_ok(workload_choices_parse(STR("0:3,1,2"), 2, &shape.affinity, NULL));
	assert_ok(workload_choices_parse(STR("0:3,1,2"), 2, &shape.exclusion, NULL));
	assert_ok(workload_choices_parse(STR("10,90"), 100, &shape.priorities, NULL));
	for (uint32_t i = 0; i < 3 * ARRAY_SIZE(schemes); i++) {
		_cleanup_scene_ struct scene s = {.input.preempt = REPLAY_RESUME,
			.input.grace_ns = i % 3 == 2 ? 600 * S : 0,
			.input.defrag = {.period_ns = 600 * S, .n_moves = 10}};
		const struct metrics *m;

		assert_ok(workload_generate(&s.workload, &shape, 42 + i, NULL));
		run(&s, "6x8", schemes[i / 3], i % 3 ? REPLAY_QUEUE : REPLAY_DROP);
		m = &s.result->curves;
		assert_true(i % 3 == 0 || (s.result->n_evicted && s.result->n_moves));
		assert_true(metrics_mean(m, METRICS_OPEN) > 0 && m->n > 50);
		for (uint32_t at = 0; at < m->n; at++) {
			const double all = m->sum[METRICS_ALLOCATED][at] + idle_at(m, at);

			assert_true(fabs(all - m->weight[at]) <= 1e-6 * (1 + m->weight[at]));
		}
	}
}

/* Progress callback: checks that the percentage grows. */
static void count_progress(void *arg, uint32_t percent)
{
	uint32_t *told = arg;

	assert_true(percent > *told && percent <= 100);
	*told = percent;
}

static void a_brief_run_only_leaves_out_free_devices(void **state)
{
	struct workload_shape shape = *workload_shape_find("trace-like");

	shape.n_tasks = 300;
	for (int mode = REPLAY_DROP; mode <= REPLAY_QUEUE; mode++) {
		uint32_t told = 0;
		_cleanup_scene_ struct scene brief = {.input = {.is_brief = true,
							      .progress = count_progress,
							      .progress_arg = &told}};
		_cleanup_scene_ struct scene full = {0};
		const struct metrics *a, *b;

		assert_ok(workload_generate(&brief.workload, &shape, 42, NULL));
		assert_ok(workload_generate(&full.workload, &shape, 42, NULL));
		run(&brief, "6x8", "default", (enum replay_mode)mode);
		run(&full, "6x8", "default", (enum replay_mode)mode);
		assert_true(told >= 99);
		a = &brief.result->curves;
		b = &full.result->curves;
		assert_int_equal(a->n, b->n);
		assert_memory_equal(a->sum[METRICS_ALLOCATED], b->sum[METRICS_ALLOCATED],
			sizeof(a->sum[METRICS_ALLOCATED]));
		assert_memory_equal(
			a->sum[METRICS_USED], b->sum[METRICS_USED], sizeof(a->sum[METRICS_USED]));
		assert_times(&(double){metrics_mean(a, METRICS_OPEN)}, 1, (const double[]){0});
		assert_true(metrics_mean(b, METRICS_OPEN) > 0);
	}
}

/*
 * After the last task has ended, the device counts as open (METRICS_OPEN). A task that never fitted
 * does not count for the reasons why a device is idle.
 */
static void the_state_after_the_last_end_is_reported(void **state)
{
	_cleanup_scene_ struct scene s = {0};
	const struct metrics_now *after;

	add(&s, 500, 500, 0, 10 * S);
	add(&s, 500, 500, 0, 10 * S);
	s.workload.tasks[1].spec.cpu_milli = 17000; /* the node has 16 cores */
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	after = &s.result->curves.after;
	assert_times(&after->value[METRICS_OPEN], 1, (const double[]){1});
	assert_times(&after->value[METRICS_NO_CPU], 1, (const double[]){0});
	assert_times(&after->value[METRICS_ALLOCATED], 3, (const double[]){0, 0, 0});
	assert_times(&after->value[METRICS_WAITING], 1, (const double[]){0});
	assert_int_equal(s.result->n_placed, 1);
}

static struct replay_hopeless hopeless_of(struct scene *s, const char *nodes, const char *name)
{
	struct replay_hopeless found = {.n = UINT32_MAX};
	struct replay_scheme scheme;

	assert_ok(replay_scheme_find(name, &scheme, NULL));
	s->input.scheme = &scheme;

	if (!s->cluster.n)
		assert_ok(cluster_like(&s->cluster, str_from(nodes), NULL));
	s->input.cluster = &s->cluster;
	s->input.workload = &s->workload;
	assert_ok(replay_find_hopeless(&s->input, &found, NULL));
	return found;
}

static struct replay_hopeless hopeless(struct scene *s, const char *nodes)
{
	return hopeless_of(s, nodes, "default");
}

static void add_gang(struct scene *s, uint32_t n, uint32_t share, uint32_t threshold)
{
	for (uint32_t i = 0; i < n; i++) {
		add(s, share, share, 0, S);
		s->workload.tasks[s->workload.n - 1].gang = s->workload.n - i;
		s->workload.tasks[s->workload.n - 1].threshold = threshold;
	}
}

/* Each member fits alone, but the whole gang does not. */
static void gangs_that_never_fit_are_found(void **state)
{
	_cleanup_scene_ struct scene s = {0};
	struct replay_hopeless found;

	add(&s, 1000, 1000, 0, S);
	add_gang(&s, 3, 600, 0);
	found = hopeless(&s, "2x1");
	assert_int_equal(found.n, 3);
	assert_int_equal(found.first, 1);
	assert_string_equal(found.why,
		"3 of 3 tasks of the gang must start together; 2 fit, and task 4 does not: "
		"0 of 2 nodes have room: 2 have too little of their devices left (0.6 of 1 asked, "
		"0.4 free at most)");
	for (int i = 1; i < 4; i++)
		s.workload.tasks[i].threshold = 667; /* two of three members */
	assert_int_equal(hopeless(&s, NULL).n, 0);
	/*
	 * Two members fit and the gang starts. The third member never fits, for a reason of its
	 * own.
	 */
	s.workload.tasks[2].spec.cpu_milli = 17000;
	found = hopeless(&s, NULL);
	assert_int_equal(found.n, 1);
	assert_int_equal(found.first, 2);
	assert_string_equal(found.why, "0 of 2 nodes have room: 2 have too little CPU");
}

/*
 * Three of five members must start, but only two fit. The reason names the first member that does
 * not fit.
 */
static void the_first_task_that_does_not_fit_is_named(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add_gang(&s, 5, 600, 600);
	s.workload.tasks[4].spec.cpu_milli = 17000;
	assert_contains(hopeless(&s, "2x1").why,
		"2 fit, and task 3 does not: 0 of 2 nodes have room: 2 have too little of");
}

/*
 * Scheme "whole" shares no device, and "replicas" counts no shares. A task with too much CPU fits
 * under no scheme.
 */
static void the_scheme_decides_which_tasks_never_fit(void **state)
{
	static const struct {
		const char *scheme;
		uint32_t halves, larger;
	} expected[] = {{"default", 0, 2}, {"first-fit", 0, 2}, {"random", 0, 2}, {"whole", 2, 2},
		{"replicas", 0, 0}};
	_cleanup_scene_ struct scene halves = {0}, larger = {0}, cpu = {0};

	add_gang(&halves, 2, 500, 0);
	add_gang(&larger, 2, 600, 0);
	add(&cpu, 100, 100, 0, S);
	cpu.workload.tasks[0].spec.cpu_milli = 17000;
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		const char *scheme = expected[i].scheme;

		assert_int_equal(hopeless_of(&halves, "1x1", scheme).n, expected[i].halves);
		assert_int_equal(hopeless_of(&larger, "1x1", scheme).n, expected[i].larger);
		assert_int_equal(hopeless_of(&cpu, "1x1", scheme).n, 1);
	}
}

/*
 * If no node states its device memory, memory is not counted. If one node does, nodes without a
 * value have no device memory.
 */
static void unknown_memory_is_not_counted(void **state)
{
	struct cluster_node node = {.name = "n", .cpu_milli = 16000, .n_kinds = 1};

	for (int i = 0; i < 2; i++) {
		_cleanup_scene_ struct scene s = {0};

		node.kinds[0] = (struct cluster_kind){.n_devices = 1};
		assert_ok(cluster_model(&s.cluster, STR("any"), &node.kinds[0].model, NULL));
		assert_ok(cluster_add(&s.cluster, &node, NULL));
		if (i) {
			struct cluster_node other = node;

			snprintf(other.name, sizeof(other.name), "other");
			other.kinds[0].device_bytes = 1 << 30;
			assert_ok(cluster_add(&s.cluster, &other, NULL));
		}
		add(&s, 500, 500, 0, S);
		s.workload.tasks[0].spec.device_bytes = 4ull << 30;
		assert_int_equal(hopeless(&s, NULL).n, i);
	}
}

/* Gangs whose members exclude each other by labels. */
static void gangs_with_impossible_labels_are_found(void **state)
{
	for (int role = 0; role < 3; role++) {
		_cleanup_scene_ struct scene s = {0};
		struct replay_hopeless found;

		add_gang(&s, 3, 400, 0);
		for (uint32_t i = 0; i < 3; i++) {
			struct place_spec *spec = &s.workload.tasks[i].spec;

			if (role == 0)
				spec->affinity = 1;
			else if (role == 1)
				spec->anti_affinity = 1;
			else
				spec->exclusion = i + 1;
		}
		found = hopeless(&s, "2x1");
		assert_int_equal(found.n, 3);
		assert_contains(found.why, "2 fit, and task 3 does not: 0 of 2 nodes");
		assert_contains(found.why,
			role ? "2 are excluded by affinity or exclusion labels"
			     : "1 is excluded by affinity or exclusion labels");
		for (uint32_t i = 0; i < 3; i++)
			s.workload.tasks[i].gang = 0; /* outside a gang, each task alone fits */
		assert_int_equal(hopeless(&s, NULL).n, 0);
	}
}

/*
 * First fit gives the small member the only node where the large member fits; best fit does not. So
 * the gang is possible.
 */
static void a_gang_that_one_policy_places_is_possible(void **state)
{
	_cleanup_scene_ struct scene s = {0};
	struct cluster_node node = {.n_kinds = 1, .kinds = {{.n_devices = 2}}};

	assert_ok(cluster_model(&s.cluster, STR("any"), &node.kinds[0].model, NULL));
	for (int i = 0; i < 2; i++) {
		snprintf(node.name, sizeof(node.name), "n%d", i);
		node.cpu_milli = i ? 4000 : 16000;
		assert_ok(cluster_add(&s.cluster, &node, NULL));
	}
	add_gang(&s, 2, 500, 0);
	s.workload.tasks[0].spec.cpu_milli = 4000;
	s.workload.tasks[1].spec.cpu_milli = 16000;
	assert_int_equal(hopeless(&s, NULL).n, 0);
	s.workload.tasks[0].spec.cpu_milli = 4001;
	assert_int_equal(hopeless(&s, NULL).n, 2);
}

static void ranks_decide_among_equal_nodes(void **state)
{
	_cleanup_scene_ struct scene s = {0};
	const uint32_t ranks[] = {1, 0};

	add(&s, 1000, 1000, 0, 1);
	run(&s, "2x1", "first-fit", REPLAY_DROP);
	assert_times(&s.result->curves.row[0][50], 1, (const double[]){1});
	s.input.ranks = ranks;
	run(&s, "2x1", "first-fit", REPLAY_DROP);
	assert_times(&s.result->curves.row[0][50], 1, (const double[]){0});
	assert_times(&s.result->curves.row[1][50], 1, (const double[]){1});
}

/* When a long run makes the points of the curves wider, the means stay the same. */
static void long_runs_keep_their_means(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 500, 500, 0, 1 * S);
	add(&s, 500, 500, 0, 100000 * S);
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_true(s.result->curves.n <= METRICS_POINTS_MAX);
	assert_times(&s.result->used, 1, (const double[]){0.500005});
	assert_times(&s.result->in_use, 1, (const double[]){1});
}

/*
 * One of a hundred tasks runs for days. Rates and means cover only the time until 99 % of the tasks
 * had ended.
 */
static void a_few_long_tasks_do_not_count(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	for (int i = 0; i < 99; i++)
		add(&s, 10, 10, 0, 36 * S);
	add(&s, 10, 10, 0, 1000000 * S);
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_times(&s.result->busy_s, 1, (const double[]){36});
	assert_times(&s.result->end_s, 1, (const double[]){1000000});
	assert_times(&s.result->throughput_per_h, 1, (const double[]){9900});
	assert_times(&s.result->used, 1, (const double[]){1});
	assert_true(s.result->curves.n <= 36);
}

/* Adds two tasks, each with a part of a device, and a task that waits for a whole device. */
static void add_two_apart_and_one_whole(struct scene *s)
{
	add(s, 400, 400, 0, 100 * S);
	add(s, 400, 400, 0, 100 * S);
	add(s, 1000, 1000, 1 * S, 10 * S);
}

static void defragmentation_moves_tasks_together(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add_two_apart_and_one_whole(&s);
	run(&s, "1x2", "worst-fit", REPLAY_QUEUE);
	assert_times(s.result->queued_s, 3, (const double[]){0, 0, 99});
	s.input.defrag = (struct replay_defrag){10 * S, 5, 3 * S};
	run(&s, "1x2", "worst-fit", REPLAY_QUEUE);
	assert_int_equal(s.result->n_moves, 1);
	assert_times(s.result->queued_s, 3, (const double[]){0, 0, 9});
	/* The moved task has 3 s more work. */
	assert_times(s.result->completion_s, 3, (const double[]){19, 100, 103});
	s.workload.tasks[2].spec.share = 700;
	run(&s, "1x2", "worst-fit", REPLAY_QUEUE);
	assert_int_equal(s.result->n_moves, 0); /* no task waits for a whole device */
}

static void plans_again_only_when_something_has_changed(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add_two_apart_and_one_whole(&s);
	s.workload.tasks[0].spec.share = s.workload.tasks[0].limit = 700;
	s.workload.tasks[0].work_ns = 4000000 * S;
	s.input.defrag = (struct replay_defrag){1, 5, 3 * S}; /* every nanosecond */
	run(&s, "1x2", "worst-fit", REPLAY_QUEUE);
	assert_int_equal(s.result->n_moves, 0);
	assert_times(s.result->queued_s, 3, (const double[]){0, 0, 99});
	assert_times(&s.result->end_s, 1, (const double[]){4000000});
}

static void an_evicted_task_waits_again(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 1000, 1000, 0, 10 * S);
	add(&s, 1000, 1000, 4 * S, 5 * S);
	s.workload.tasks[0].spec.priority = 10;
	s.workload.tasks[1].spec.priority = 90;
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_int_equal(s.result->n_evicted, 0);
	assert_times(s.result->completion_s, 2, (const double[]){10, 11});
	assert_times(&s.result->priorities[1].queued_s, 1, (const double[]){6});
	s.input.preempt = REPLAY_RESTART;
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_int_equal(s.result->n_evicted, 1);
	assert_int_equal(s.result->n_placed, 2);
	assert_times(s.result->completion_s, 2, (const double[]){5, 19});
	assert_times(s.result->queued_s, 2, (const double[]){0, 5});
	assert_times(&s.result->priorities[1].queued_s, 1, (const double[]){0});
	s.input.preempt = REPLAY_RESUME;
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->completion_s, 2, (const double[]){5, 15});
	s.workload.tasks[0].spec.priority = 90;
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_int_equal(s.result->n_evicted, 0);
}

/*
 * The first task is evicted for the second. The third task never fits, because no node has its
 * model.
 */
static void figures_are_given_for_each_priority(void **state)
{
	_cleanup_scene_ struct scene s = {
		.input = {.queue = REPLAY_PRIORITY, .preempt = REPLAY_RESUME}};
	const struct replay_priority *p;

	add(&s, 1000, 1000, 0, 10 * S);
	add(&s, 1000, 1000, 4 * S, 5 * S);
	add(&s, 1000, 1000, 5 * S, 3 * S);
	add(&s, 1000, 1000, 6 * S, S);
	for (int i = 0; i < 4; i++)
		s.workload.tasks[i].spec.priority = i % 2 ? 90 : 10;
	s.workload.tasks[2].spec.models = 1ull << 7;
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	p = s.result->priorities;
	assert_int_equal(s.result->n_priorities, 2);
	assert_int_equal(p[0].priority, 10);
	assert_int_equal(p[0].n_tasks, 2);
	assert_int_equal(p[0].n_placed, 1);
	assert_times(&p[0].queued_s, 1, (const double[]){6});
	assert_times(&p[0].completion_s, 1, (const double[]){16});
	assert_times(&p[0].busy_s, 1, (const double[]){16});
	assert_int_equal(p[1].priority, 90);
	assert_int_equal(p[1].n_placed, 2);
	assert_times(&p[1].queued_s, 1, (const double[]){1.5});
	assert_times(&p[1].completion_s, 1, (const double[]){4.5});
	assert_times(&p[1].busy_s, 1, (const double[]){10});
}

/*
 * The first task is evicted at 4 s with a grace period of 3 s. At 7 s it stops, with 7 of its 10 s
 * done. The preemptor runs for 5 s. From 12 s on the first task resumes and needs 3 s, or restarts
 * and needs 10 s. With a grace period of 6 s or more, the first task ends by itself at 10 s.
 */
static void an_evicted_task_gets_a_grace_period(void **state)
{
	static const uint64_t longer[] = {6 * S, 7 * S, REPLAY_GRACE_MAX_NS};
	_cleanup_scene_ struct scene s = {0};

	add(&s, 1000, 1000, 0, 10 * S);
	add(&s, 1000, 1000, 4 * S, 5 * S);
	s.workload.tasks[0].spec.priority = 10;
	s.workload.tasks[1].spec.priority = 90;
	s.input.preempt = REPLAY_RESUME;
	s.input.grace_ns = 3 * S;
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_int_equal(s.result->n_evicted, 1);
	assert_times(s.result->completion_s, 2, (const double[]){8, 15});
	assert_times(s.result->queued_s, 2, (const double[]){3, 5});
	assert_times(&s.result->priorities[1].queued_s, 1, (const double[]){3});
	assert_times(&s.result->used, 1, (const double[]){1});
	s.input.preempt = REPLAY_RESTART;
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->completion_s, 2, (const double[]){8, 22});
	assert_times(s.result->queued_s, 2, (const double[]){3, 5});
	for (size_t i = 0; i < ARRAY_SIZE(longer); i++) {
		s.input.grace_ns = longer[i];
		run(&s, "1x1", "best-fit", REPLAY_QUEUE);
		assert_int_equal(s.result->n_evicted, 0);
		assert_times(s.result->completion_s, 2, (const double[]){10, 11});
		assert_times(s.result->queued_s, 2, (const double[]){0, 6});
	}
}

/*
 * From 4 s on, the preemptor has 0.6 of the device reserved and 0.4 is unreserved. A task of 0.4
 * arrives at 5 s, but starts only at 7 s together with the preemptor, when the victim has ended.
 * The preemptor ends at 12 s.
 */
static void no_task_takes_a_reserved_place(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 1000, 1000, 0, 10 * S);
	add(&s, 600, 600, 4 * S, 5 * S);
	add(&s, 400, 400, 5 * S, 2 * S);
	s.workload.tasks[0].spec.priority = 10;
	s.workload.tasks[1].spec.priority = 90;
	s.workload.tasks[2].spec.priority = 20;
	s.input.preempt = REPLAY_RESUME;
	s.input.grace_ns = 3 * S;
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_int_equal(s.result->n_evicted, 1);
	assert_times(s.result->queued_s, 3, (const double[]){2, 3, 5});
	assert_times(s.result->completion_s, 3, (const double[]){4, 8, 15});
}

/* The gang of two starts at 7 s: one victim ends by itself at 6 s, the other is stopped at 7 s. */
static void a_gang_starts_when_all_victims_have_ended(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 1000, 1000, 0, 10 * S);
	add(&s, 1000, 1000, 0, 6 * S);
	for (int i = 0; i < 2; i++) {
		add(&s, 1000, 1000, 4 * S, 5 * S);
		s.workload.tasks[2 + i].gang = 1;
		s.workload.tasks[i].spec.priority = 10;
		s.workload.tasks[2 + i].spec.priority = 90;
	}
	s.input.preempt = REPLAY_RESUME;
	s.input.grace_ns = 3 * S;
	run(&s, "1x2", "best-fit", REPLAY_QUEUE);
	assert_int_equal(s.result->n_evicted, 1);
	assert_times(s.result->queued_s, 4, (const double[]){0, 3, 3, 5});
	assert_times(s.result->completion_s, 4, (const double[]){6, 8, 8, 15});
}

/*
 * Two low tasks run on a node of 4 CPUs and two devices, with 1 CPU each. At 1 s task M arrives,
 * which needs 2 CPUs and a device: one low task is evicted for M. At 2 s task H arrives, which
 * needs 3 CPUs: M gives up its reserved place, and the other low task is evicted. The low tasks
 * stop at 4 s and 5 s. H runs from 5 s to 10 s, and one low task resumes at once beside H. M starts
 * at 10 s and ends at 15 s. The other low task has waited since 4 s.
 */
static void a_reserved_place_can_be_given_up(void **state)
{
	struct cluster_node node = {
		.name = "a", .n_kinds = 1, .kinds = {{.n_devices = 2}}, .cpu_milli = 4000};
	_cleanup_scene_ struct scene s = {0};

	assert_ok(cluster_model(&s.cluster, STR("any"), &node.kinds[0].model, NULL));
	assert_ok(cluster_add(&s.cluster, &node, NULL));
	for (uint32_t i = 0; i < 4; i++) {
		const uint64_t at_ns = i < 2 ? i * S / 2 : (i - 1) * S;

		add(&s, 1000, 1000, at_ns, i < 2 ? 100 * S : 5 * S);
		s.workload.tasks[i].spec.priority = i < 2 ? 10 : 40 * (i - 1);
		s.workload.tasks[i].spec.cpu_milli = i < 2 ? 1000 : 1000 * i;
	}
	s.workload.tasks[3].spec.count = s.workload.tasks[3].spec.share = 0;
	s.input.preempt = REPLAY_RESUME;
	s.input.queue = REPLAY_PRIORITY;
	s.input.grace_ns = 3 * S;
	run(&s, NULL, "best-fit", REPLAY_QUEUE);
	assert_int_equal(s.result->n_evicted, 2);
	assert_times(s.result->queued_s, 4, (const double[]){0, 3, 9, 11});
	assert_times(s.result->completion_s, 4, (const double[]){8, 14, 100, 111});
}

/*
 * A task that cannot preempt enough on its arrival can do so later: after one task has ended, free
 * share and a victim together suffice.
 */
static void a_waiting_task_may_preempt_later(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 700, 700, 0, 10 * S);
	add(&s, 300, 300, 0, 100 * S);
	add(&s, 1000, 1000, 1 * S, 5 * S);
	s.workload.tasks[0].spec.priority = 90;
	s.workload.tasks[1].spec.priority = 10;
	s.input.preempt = REPLAY_RESUME;
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_int_equal(s.result->n_evicted, 1);
	assert_times(s.result->queued_s, 3, (const double[]){0, 5, 9});
	assert_times(&s.result->end_s, 1, (const double[]){105});
}

static void a_part_of_a_gang_may_start(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 1000, 1000, 0, 10 * S);
	for (int i = 0; i < 2; i++) {
		add(&s, 1000, 1000, 1 * S, 5 * S);
		s.workload.tasks[1 + i].gang = 1;
		s.workload.tasks[1 + i].threshold = 500;
	}
	run(&s, "1x2", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->queued_s, 3, (const double[]){0, 0, 5});
	assert_int_equal(s.result->n_placed, 3);
	for (int i = 0; i < 2; i++)
		/* 0.501 x 2 members still rounds to one member */
		s.workload.tasks[1 + i].threshold = 501;
	run(&s, "1x2", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->queued_s, 3, (const double[]){0, 0, 5});
	for (int i = 0; i < 2; i++)
		s.workload.tasks[1 + i].threshold = 750;
	run(&s, "1x2", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->queued_s, 3, (const double[]){0, 9, 9});
}

static void labels_keep_tasks_apart_and_together(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 300, 300, 0, 10 * S);
	add(&s, 300, 300, 0, 10 * S);
	run(&s, "1x2", "best-fit", REPLAY_QUEUE);
	assert_times(&s.result->in_use, 1, (const double[]){0.5});
	s.workload.tasks[0].spec.exclusion = 7;
	run(&s, "1x2", "best-fit", REPLAY_QUEUE);
	assert_times(&s.result->in_use, 1, (const double[]){1});
	s.workload.tasks[1].spec.exclusion = 7;
	run(&s, "1x2", "best-fit", REPLAY_QUEUE);
	assert_times(&s.result->in_use, 1, (const double[]){0.5});
	for (int i = 0; i < 2; i++)
		s.workload.tasks[i].spec.anti_affinity = 3;
	run(&s, "1x2", "best-fit", REPLAY_QUEUE);
	assert_times(&s.result->in_use, 1, (const double[]){1});
}

static void preferred_anti_affinity_keeps_no_task_waiting(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	for (int i = 0; i < 3; i++) {
		add(&s, 300, 300, 0, 10 * S);
		s.workload.tasks[i].spec.preferred_anti_affinity = 3;
	}
	run(&s, "1x2", "best-fit", REPLAY_QUEUE);
	assert_times(&s.result->in_use, 1, (const double[]){1});
	assert_times(s.result->queued_s, 3, (const double[]){0, 0, 0});
}

/*
 * A task must share the device of an earlier task with its affinity label. That device is full, so
 * the task waits although another device is idle.
 */
static void a_task_with_affinity_waits_for_its_device(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 400, 400, 0, 100 * S);
	add(&s, 700, 700, 1 * S, 10 * S);
	for (int i = 0; i < 2; i++)
		s.workload.tasks[i].spec.affinity = 2;
	run(&s, "2x1", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->queued_s, 2, (const double[]){0, 99});
}

static void add_queue(struct scene *s, const char *name, uint64_t quota, uint64_t limit)
{
	struct cluster_queue queue = {.quota = quota, .limit = limit, .weight = 1};

	assert_ok(str_copy(queue.name, sizeof(queue.name), str_from(name)));
	assert_ok(cluster_queue_add(&s->cluster, &queue, NULL));
}

/*
 * Two tasks of queue b use both devices. Queue a reclaims its guaranteed device, and the evicted
 * task resumes when a's task has ended.
 */
static void borrowed_shares_are_reclaimed(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	assert_ok(cluster_like(&s.cluster, STR("1x2"), NULL));
	add_queue(&s, "a", 1000, 2000);
	add_queue(&s, "b", 1000, 2000);
	add(&s, 1000, 1000, 0, 100 * S);
	add(&s, 1000, 1000, 0, 100 * S);
	add(&s, 1000, 1000, 1 * S, 10 * S);
	for (uint32_t i = 0; i < 3; i++)
		s.workload.tasks[i].spec.queue = i < 2 ? 2 : 1;
	run(&s, "1x2", "best-fit", REPLAY_QUEUE);
	assert_int_equal(s.result->n_evicted, 1);
	assert_times(s.result->completion_s, 3, (const double[]){10, 100, 110});
	assert_times(s.result->queued_s, 3, (const double[]){0, 0, 10});
}

/*
 * A reclaimed device becomes free after the grace period, and both members of the gang start then.
 */
static void a_reclaimed_task_gets_a_grace_period(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	assert_ok(cluster_like(&s.cluster, STR("1x1"), NULL));
	add_queue(&s, "a", 1000, 1000);
	add_queue(&s, "b", 0, 1000);
	add(&s, 1000, 1000, 0, 100 * S);
	for (int i = 0; i < 2; i++) {
		add(&s, 500, 500, 1 * S, 10 * S);
		s.workload.tasks[1 + i].gang = 1;
		s.workload.tasks[1 + i].spec.queue = 1;
	}
	s.workload.tasks[0].spec.queue = 2;
	s.input.grace_ns = 5 * S;
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_int_equal(s.result->n_evicted, 1);
	assert_times(s.result->queued_s, 3, (const double[]){5, 5, 10});
	assert_times(s.result->completion_s, 3, (const double[]){15, 15, 110});
}

static void queues_obey_limits_and_order(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	assert_ok(cluster_like(&s.cluster, STR("1x2"), NULL));
	add_queue(&s, "a", 0, 1000);
	add_queue(&s, "b", 0, 2000);
	add(&s, 1000, 1000, 0, 10 * S);
	add(&s, 1000, 1000, 0, 10 * S);
	for (int i = 0; i < 2; i++)
		s.workload.tasks[i].spec.queue = 1;
	run(&s, "1x2", "best-fit", REPLAY_QUEUE);
	/* the limit of queue a leaves the second device idle */
	assert_times(s.result->queued_s, 2, (const double[]){0, 10});
	/*
	 * When two devices become free, each queue gets one, although both tasks of queue a came
	 * before that of queue b.
	 */
	s.cluster.queues[0].limit = 2000;
	add(&s, 1000, 1000, 1 * S, 30 * S);
	add(&s, 1000, 1000, 2 * S, 30 * S);
	add(&s, 1000, 1000, 3 * S, 40 * S);
	s.workload.tasks[2].spec.queue = s.workload.tasks[3].spec.queue = 1;
	s.workload.tasks[4].spec.queue = 2;
	run(&s, "1x2", "best-fit", REPLAY_QUEUE);
	assert_times(s.result->queued_s, 5, (const double[]){0, 0, 7, 9, 38});
	s.cluster.queues[0].quota = 3000;
	s.input.workload = &s.workload;
	assert_int_equal(cluster_queues_check(&s.cluster, NULL), -EINVAL);
}

static void means_between_two_times(void **state)
{
	_cleanup_scene_ struct scene s = {0};

	add(&s, 500, 500, 0, 10 * S);
	add(&s, 200, 200, 10 * S, 10 * S);
	run(&s, "1x1", "best-fit", REPLAY_QUEUE);
	assert_times(&s.result->arrivals_s, 1, (const double[]){10});
	const double before = metrics_mean_between(&s.result->curves, METRICS_ALLOCATED, 0, 10);
	const double both = metrics_mean_between(&s.result->curves, METRICS_ALLOCATED, 5, 15);
	const double none = metrics_mean_between(&s.result->curves, METRICS_ALLOCATED, 5.5, 6.1);

	assert_times(&before, 1, (const double[]){0.5});
	assert_times(&both, 1, (const double[]){0.35});
	assert_times(&none, 1, (const double[]){0});
}

static void a_run_is_repeatable(void **state)
{
	static const char *const schemes[] = {"default", "fgd", "whole", "replicas", "memory-only"};

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		_cleanup_scene_ struct scene s = {0};
		struct metrics first;

		assert_ok(
			workload_generate(&s.workload, workload_shape_find("kubeshare"), 3, NULL));
		run(&s, "8x4", schemes[i], REPLAY_QUEUE);
		assert_int_equal(s.result->n_placed, s.workload.n);
		first = s.result->curves;
		run(&s, "8x4", schemes[i], REPLAY_QUEUE);
		assert_memory_equal(&first, &s.result->curves, sizeof(first));
	}
}

static void impossible_runs_are_refused(void **state)
{
	_cleanup_scene_ struct scene s = {0};
	struct error err = {0};

	assert_int_equal(replay_scheme_find("nearest", &s.scheme, &err), -EINVAL);
	assert_contains(err.msg, "memory-only");
	assert_ok(replay_scheme_find("default", &s.scheme, &err));
	s.input = (struct replay_input){.cluster = &s.cluster,
		.workload = &s.workload,
		.scheme = &s.scheme,
		.mode = REPLAY_QUEUE};
	assert_int_equal(replay_run(&s.input, &s.result, &err), -EINVAL);
	assert_contains(err.msg, "at least one device");
	assert_ok(cluster_like(&s.cluster, STR("1x1"), NULL));
	add(&s, 500, 500, 0, S);
	assert_int_equal(replay_run(&s.input, &s.result, &err), -EINVAL);
	assert_contains(err.msg, "no arrival times");
	s.workload.has_times = true;
	s.input.defrag = (struct replay_defrag){1, PLACE_MOVES_MAX + 1, 0};
	assert_int_equal(replay_run(&s.input, &s.result, &err), -EINVAL);
	assert_contains(err.msg, "65537 moves");
	s.input.defrag = (struct replay_defrag){1, 1, REPLAY_COST_MAX_NS + 1};
	assert_int_equal(replay_run(&s.input, &s.result, &err), -EINVAL);
	assert_contains(err.msg, "cost");
	s.input.defrag = (struct replay_defrag){0};
	s.input.grace_ns = REPLAY_GRACE_MAX_NS + 1;
	assert_int_equal(replay_run(&s.input, &s.result, &err), -EINVAL);
	assert_contains(err.msg, "grace");
	assert_null(s.result);
}

/*
 * Refused: 600 years of work on one device, or tasks at a pace of 1/1000 that would run for 547
 * years.
 */
static void runs_that_take_too_long_are_refused(void **state)
{
	_cleanup_scene_ struct scene s = {0};
	struct error err = {0};

	assert_ok(cluster_like(&s.cluster, STR("1x1"), NULL));
	for (int i = 0; i < 1100; i++)
		add(&s, 1000, 1000, 0, WORKLOAD_TIME_MAX_NS);
	s.workload.has_times = true;
	assert_ok(replay_scheme_find("best-fit", &s.scheme, &err));
	s.input = (struct replay_input){.cluster = &s.cluster,
		.workload = &s.workload,
		.scheme = &s.scheme,
		.mode = REPLAY_QUEUE};
	assert_int_equal(replay_run(&s.input, &s.result, &err), -ERANGE);
	assert_contains(err.msg, "51200 days");
	s.workload.n = 255;
	assert_ok(replay_run(&s.input, &s.result, &err));
	assert_times(
		&s.result->end_s, 1, (const double[]){255 * (double)(WORKLOAD_TIME_MAX_NS / S)});
	replay_free(s.result);
	s.result = NULL;
	s.workload.n = 1000;
	for (uint32_t i = 0; i < 1000; i++)
		s.workload.tasks[i].spec.share = 1;
	assert_int_equal(replay_run(&s.input, &s.result, &err), -ERANGE);
}

/*
 * The first task takes the only core of node a. So the second task is remote, with the device on
 * node a and 5 of 9 Gbit/s. The third task finds too little bandwidth. Other ranks of the nodes
 * change nothing.
 */
static void a_task_may_use_a_device_over_the_network(void **state)
{
	const uint32_t ranks[] = {1, 0};

	for (int other = 0; other < 2; other++) {
		_cleanup_scene_ struct scene s = {.input.ranks = other ? ranks : NULL};
		const struct replay_decision *d;

		for (uint32_t i = 0; i < 2; i++) {
			const struct cluster_network network = {.node = i,
				.kind = PLACE_NETWORK_HOST,
				.mbit = 9000,
				.latency_us = 5};

			add_node(&s, i ? "b" : "a", 0);
			assert_ok(cluster_network_add(&s.cluster, &network, NULL));
		}
		s.cluster.nodes[0].cpu_milli = 1000;
		s.cluster.nodes[1].cpu_milli = 8000;
		s.cluster.nodes[1].n_devices = 0;
		s.cluster.n_devices = 1;
		for (int i = 0; i < 3; i++) {
			add(&s, 200, 1000, 0, S);
			s.workload.tasks[i].spec.cpu_milli = 1000;
			s.workload.tasks[i].least_mbit = i ? 5000 : 0;
		}
		run(&s, NULL, "best-fit", REPLAY_DROP);
		d = s.result->decisions;
		assert_int_equal(s.result->n_placed, 2);
		assert_int_equal(s.result->requested_most[0], 400);
		assert_int_equal(d[0].outcome, PLACE_LOCAL);
		assert_int_equal(d[0].network[0], 0);
		assert_int_equal(d[1].outcome, PLACE_REMOTE);
		assert_int_equal(d[1].network[0], 1);
		assert_int_equal(d[1].network[1], 2);
		assert_int_equal(d[2].outcome, PLACE_QUEUED);
		assert_contains(d[2].why, "queued");
		s.input.mode = REPLAY_QUEUE;
		replay_free(s.result);
		s.result = NULL;
		assert_int_equal(replay_run(&s.input, &s.result, NULL), -EINVAL);
		s.input.mode = REPLAY_DROP;
		s.workload.tasks[2].gang = 1;
		assert_int_equal(replay_run(&s.input, &s.result, NULL), -EINVAL);
	}
}

UNIT_MAIN(UNIT(divides_a_device), UNIT(unused_share_goes_to_tasks_up_to_their_limits),
	UNIT(tasks_of_the_same_kind_slow_each_other),
	UNIT(reports_the_largest_request_on_each_device), UNIT(places_at_random),
	UNIT(a_scheme_without_limits_gives_equal_shares), UNIT(packs_by_memory_alone),
	UNIT(packs_where_least_memory_is_free), UNIT(gives_no_more_memory_than_a_device_has),
	UNIT(a_task_runs_at_the_pace_of_its_slowest_device),
	UNIT(waiting_tasks_start_by_priority_or_arrival),
	UNIT(a_task_that_does_not_fit_blocks_no_other), UNIT(starts_gangs_together),
	UNIT(tasks_that_never_fit_are_counted), UNIT(tasks_that_do_not_fit_are_dropped),
	UNIT(replicas_are_given_in_turn), UNIT(the_last_point_includes_later_arrivals),
	UNIT(fragmentation_counts_all_tasks), UNIT(drops_gangs_as_a_whole),
	UNIT(reasons_of_idle_devices_are_reported), UNIT(idle_share_is_counted_under_every_scheme),
	UNIT(free_and_allocated_add_up_to_the_cluster),
	UNIT(a_brief_run_only_leaves_out_free_devices),
	UNIT(the_state_after_the_last_end_is_reported), UNIT(gangs_that_never_fit_are_found),
	UNIT(unknown_memory_is_not_counted), UNIT(the_first_task_that_does_not_fit_is_named),
	UNIT(the_scheme_decides_which_tasks_never_fit),
	UNIT(gangs_with_impossible_labels_are_found),
	UNIT(a_gang_that_one_policy_places_is_possible), UNIT(ranks_decide_among_equal_nodes),
	UNIT(long_runs_keep_their_means), UNIT(a_few_long_tasks_do_not_count),
	UNIT(defragmentation_moves_tasks_together),
	UNIT(plans_again_only_when_something_has_changed), UNIT(an_evicted_task_waits_again),
	UNIT(figures_are_given_for_each_priority), UNIT(an_evicted_task_gets_a_grace_period),
	UNIT(no_task_takes_a_reserved_place), UNIT(a_gang_starts_when_all_victims_have_ended),
	UNIT(a_reserved_place_can_be_given_up), UNIT(a_waiting_task_may_preempt_later),
	UNIT(a_part_of_a_gang_may_start), UNIT(labels_keep_tasks_apart_and_together),
	UNIT(preferred_anti_affinity_keeps_no_task_waiting),
	UNIT(a_task_with_affinity_waits_for_its_device), UNIT(borrowed_shares_are_reclaimed),
	UNIT(a_reclaimed_task_gets_a_grace_period), UNIT(queues_obey_limits_and_order),
	UNIT(means_between_two_times), UNIT(a_run_is_repeatable),
	UNIT(a_task_may_use_a_device_over_the_network), UNIT(impossible_runs_are_refused),
	UNIT(runs_that_take_too_long_are_refused))
