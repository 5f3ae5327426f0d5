/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters and tasks: read from files, drawn and generated. A seed always gives the same tasks, in
 * the requested shape.
 */
#include "../unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "place/place-cell.h"
#include "place/place-policy.h"
#include "place/place-queue.h"
#include "replay/workload.h"

#define NODES "sn,cpu_milli,memory_mib,gpu,model\na,8000,4096,2,T4\nb,8000,4096,1,A10\n"
#define PODS \
	"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n" \
	"p,1000,1024,1,500,T4|V100,10,30\nq,2000,1024,2,1000,,20,20\nr,500,0,0,0,,0,5\n"

static struct workload_shape shape(void)
{
	return *workload_shape_find("kubeshare");
}

static void reads_a_trace(void **state)
{
	_cleanup_cluster_ struct cluster c = {0};
	_cleanup_workload_ struct workload w = {0};

	assert_ok(cluster_read_openb(&c, STR(NODES), NULL));
	assert_int_equal(c.n, 2);
	assert_int_equal(c.n_devices, 3);
	assert_int_equal(c.nodes[1].kinds[0].model, 1);
	assert_ok(workload_read_openb(&w, &c, STR(PODS), NULL));
	assert_int_equal(w.n, 3);
	assert_true(w.has_times);
	/* V100 is not in the cluster, so it gets a new number */
	assert_int_equal(w.tasks[0].spec.models, 1 | 4);
	assert_int_equal(w.tasks[0].spec.share, 500);
	assert_int_equal(w.tasks[0].limit, 500);
	assert_int_equal(w.tasks[0].work_ns, 20 * NSEC_PER_SEC);
	/* both times are in the same second, which counts as 1 s */
	assert_int_equal(w.tasks[1].work_ns, NSEC_PER_SEC);
	assert_int_equal(w.tasks[1].spec.models, 0);
	assert_int_equal(w.tasks[2].spec.count, 0);
}

#define TITLES "sn,cpu_milli,memory_mib,gpu\n"
#define POD_TITLES \
	"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"

/* The column of models may be missing, and a byte order mark may precede the titles. */
static void reads_files_of_other_programs(void **state)
{
	_cleanup_cluster_ struct cluster c = {0};
	_cleanup_workload_ struct workload w = {0};

	assert_ok(cluster_read_openb(&c, STR("\xef\xbb\xbf" TITLES "a,1,1,1\nb,1,1,1\n"), NULL));
	assert_int_equal(c.n_models, 1);
	assert_string_equal(c.models[0], "any");
	assert_ok(workload_read_openb(
		&w, &c, STR("\xef\xbb\xbf" POD_TITLES "p,1,1,1,500,any,10,\n"), NULL));
	assert_false(w.has_times); /* the pod has no deletion time */
	assert_ok(workload_read_openb(&w, &c, STR(POD_TITLES "p,1,1,1,500,any,0,0\n"), NULL));
	assert_true(w.has_times);
}

static void errors_name_the_line(void **state)
{
	static const struct {
		const char *nodes, *pods, *words;
	} bad[] = {
		{TITLES "a,1,1,1\nb,1,1,1\n\na,1,1,1\n", "", "line 5: two nodes have the name 'a'"},
		{"sn,cpu_milli,memory_mib,gpu,gpu\na,1,1,1,2\n", "", "column 'gpu' twice"},
		{TITLES "a,1,1,65\n", "", "line 2"},
		{NODES, POD_TITLES "p,1,1,1,500,|,0,1\n", "line 2: pod 'p': model ''"},
		{NODES, POD_TITLES "p,1,1,1,500,T4|,0,1\n", "line 2: pod 'p': model ''"},
		{NODES, POD_TITLES "p,1,1,1,500,|T4,0,1\n", "line 2: pod 'p': model ''"},
		{NODES, POD_TITLES "p,1,1,1,500,T4,0,1\n ,1,1,1,500,T4,0,1\n",
			"line 3: name '': expected the name of a pod"},
		{"sn,cpu_milli,memory_mib,gpu,model\na,1,1,1,T4|A10\n", "",
			"line 2: model 'T4|A10': expected one model"},
		{TITLES "a,1,1,1\nb\x1b,1,1,1\n", "", "line 3: byte 0x1b"},
		{NODES, POD_TITLES "p,1,1,1,500,T4||A10,0,1\n", "line 2: pod 'p': model ''"},
		{NODES, POD_TITLES "p,1,1,1,500,,0,1\nq,1,1,1,500,,10,5\n",
			"line 3: deletion_time 5 is before creation_time 10"},
		{NODES, "name,name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,q,1,1,1,500\n",
			"column 'name' twice"},
		{TITLES "a,1,1,1\n\"b,1,1,1\n", "", "line 3: column 1: '\"b' has a quote"},
		{TITLES "\"a, b\",1,1,1\n", "", "line 2: column 1: '\"a' has a quote"},
		{TITLES "a,1,1,\"\n", "", "line 2: column 4: '\"' has a quote"},
		{"\"sn,cpu_milli,memory_mib,gpu\na,1,1,1\n", "",
			"line 1: column 1: '\"sn' has a quote"},
		{NODES, POD_TITLES "p,1,1,1,500,T4,0,1\n\"q,1,1,1,500,T4,0,1\n",
			"line 3: column 1: '\"q' has a quote"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_cluster_ struct cluster c = {0};
		_cleanup_workload_ struct workload w = {0};
		struct error err = {0};
		int r = cluster_read_openb(&c, str_from(bad[i].nodes), &err);

		if (bad[i].pods[0]) {
			assert_ok(r);
			r = workload_read_openb(&w, &c, str_from(bad[i].pods), &err);
		}
		assert_int_equal(r, -EINVAL);
		assert_contains(err.msg, bad[i].words);
	}
}

/* A zero byte in a file is refused, and pods may have equal names. */
static void zero_bytes_are_refused_and_equal_names_accepted(void **state)
{
	_cleanup_cluster_ struct cluster c = {0};
	_cleanup_workload_ struct workload w = {0};
	struct error err = {0};

	assert_int_equal(cluster_read_openb(&c, STR(TITLES "a,1,1,1\nb\0,1,1,1\n"), &err), -EINVAL);
	assert_string_equal(err.msg, "line 3: byte 0x00: expected text");
	assert_int_equal(
		workload_read_openb(&w, &c, STR(POD_TITLES "p,1,1,1,500,T4\0,0,1\n"), &err),
		-EINVAL);
	assert_string_equal(err.msg, "line 2: byte 0x00: expected text");
	assert_ok(workload_read_openb(
		&w, &c, STR(POD_TITLES "p,1,1,1,500,T4 | A10,0,1\np,1,1,1,500,T4,0,1\n"), NULL));
	assert_int_equal(w.n, 2);
	assert_int_equal(w.tasks[0].spec.models, 1 | 2);
}

static void equal_nodes_are_made_from_a_short_text(void **state)
{
	_cleanup_cluster_ struct cluster c = {0};
	struct error err = {0};

	assert_ok(cluster_like(&c, STR("8x4"), &err));
	assert_int_equal(c.n, 8);
	assert_int_equal(c.n_devices, 32);
	assert_int_equal(cluster_like(&c, STR("8"), &err), -EINVAL);
	assert_contains(err.msg, "8x4");
	assert_int_equal(cluster_like(&c, STR("0x4"), &err), -EINVAL);
	assert_int_equal(cluster_like(&c, STR("1x65"), &err), -EINVAL);
	assert_int_equal(cluster_like(&c, STR("x"), &err), -EINVAL);
	assert_int_equal(c.n, 8);
}

static void the_number_of_devices_is_limited(void **state)
{
	struct cluster_node node = {.name = "last", .n_kinds = 1, .kinds = {{.n_devices = 1}}};
	_cleanup_cluster_ struct cluster c = {0};
	struct error err = {0};

	/* Refused before any node is added. */
	assert_int_equal(cluster_like(&c, STR("1048576x64"), &err), -EINVAL);
	assert_contains(err.msg, "'1048576x64': 67108864 devices need more than 12.5Gi");
	assert_contains(err.msg, "at most 4194304 are allowed");
	assert_int_equal(c.n, 0);
	assert_ok(cluster_like(&c, STR("65536x64"), &err));
	assert_int_equal(c.n_devices, CLUSTER_DEVICES_MAX);
	assert_int_equal(cluster_add(&c, &node, &err), -ENOSPC);
	assert_contains(err.msg, "'last': the cluster has more than 4194304 devices");
	node.n_kinds = 0;
	assert_ok(cluster_add(&c, &node, &err));
}

#define CELLS \
	"cellTypes:\n" \
	"  2-any: {childCellType: any, childCellNumber: 2, isNodeLevel: true}\n" \
	"  hall: {childCellType: 2-any, childCellNumber: 2}\n" \
	"cells:\n" \
	"- cellType: hall\n" \
	"  cellChildren:\n" \
	"  - cellId: node-0000\n" \
	"  - cellId: node-0001\n"

/*
 * By the nodes' data, devices of two nodes in one rack have distance 4. By the cell file, where the
 * nodes are in one hall, the distance is 2.
 */
static void a_cell_file_sets_distances(void **state)
{
	_cleanup_cluster_ struct cluster c = {0}, other = {0};
	uint32_t index[2];
	struct error err = {0};

	assert_ok(cluster_like(&c, STR("2x2"), NULL));
	for (int i = 0; i < 2; i++) {
		struct place *place;

		assert_ok(cluster_place(&c, NULL, &place_best_fit, &place, index, NULL));
		assert_int_equal(place_distance(place, 0, 2), i == 0 ? 4 : 2);
		place_free(place);
		assert_ok(cluster_read_cells(&c, STR(CELLS), &err));
	}
	assert_ok(cluster_read_openb(&other, STR(NODES), NULL));
	assert_int_equal(cluster_read_cells(&other, STR(CELLS), &err), -EINVAL);
	assert_contains(err.msg, "such as 'a'");
	assert_null(other.cells);
}

/*
 * A node's cells may be in several places of the file, and '-' in a model's name counts as a blank.
 */
static void differences_between_cells_and_nodes_are_found(void **state)
{
	static const struct {
		const char *cells, *has, *said;
		uint32_t n_nodes, n_unknown;
	} of[] = {
		{"- cellType: t4\n  cellId: a\n", "", "", 1, 0},
		{"- cellType: v\n  cellId: b\n- cellType: t4\n  cellId: b\n", "", "", 2, 0},
		{"- cellType: t4\n  cellId: hall/b\n- cellType: t4\n  cellId: x\n",
			"2 of 'T4' and 1 of 'Tesla V100'", "2 of 'T4'", 2, 1},
		{"- cellType: v\n  cellId: a\n- cellType: v\n  cellId: a\n", "2 of 'T4'",
			"2 of 'Tesla-V100'", 2, 0},
	};
	_cleanup_cluster_ struct cluster c = {0};
	struct cluster_node a = {.name = "a", .n_kinds = 1}, b = {.name = "b", .n_kinds = 2};
	struct cluster_cells_met met;

	assert_ok(cluster_model(&c, STR("T4"), &a.kinds[0].model, NULL));
	assert_ok(cluster_model(&c, STR("Tesla V100"), &b.kinds[1].model, NULL));
	a.kinds[0].n_devices = b.kinds[0].n_devices = 2;
	b.kinds[1].n_devices = 1;
	assert_ok(cluster_add(&c, &a, NULL));
	assert_ok(cluster_add(&c, &b, NULL));
	for (size_t i = 0; i < ARRAY_SIZE(of); i++) {
		char text[512];

		snprintf(text, sizeof(text),
			"cellTypes:\n"
			"  t4: {childCellType: T4, childCellNumber: 2, isNodeLevel: true}\n"
			"  v: {childCellType: Tesla-V100, childCellNumber: 1, isNodeLevel: true}\n"
			"cells:\n%s",
			of[i].cells);
		assert_ok(cluster_read_cells(&c, str_from(text), NULL));
		assert_ok(cluster_cells_compare(&c, &met, NULL));
		assert_int_equal(met.n_nodes, of[i].n_nodes);
		assert_int_equal(met.n_unknown, of[i].n_unknown);
		assert_int_equal(met.n_other, of[i].has[0] ? 1 : 0);
		assert_string_equal(met.has, of[i].has);
		assert_string_equal(met.said, of[i].said);
	}
}

static void the_number_of_queues_is_limited(void **state)
{
	_cleanup_cluster_ struct cluster c = {0};
	struct cluster_queue queue = {.name = "0", .limit = PLACE_UNLIMITED, .weight = 1};
	struct error err = {0};

	assert_ok(cluster_queue_add(&c, &queue, NULL));
	assert_int_equal(cluster_queue_add(&c, &queue, &err), -EEXIST);
	assert_contains(err.msg, "two queues have the name '0'");
	for (uint32_t i = 1; i < PLACE_QUEUES_MAX; i++) {
		snprintf(queue.name, sizeof(queue.name), "%u", i);
		assert_ok(cluster_queue_add(&c, &queue, NULL));
	}
	assert_int_equal(cluster_queue_find(&c, STR("17")), 18);
	assert_int_equal(cluster_queue_find(&c, STR("none")), 0);
	assert_ok(cluster_queues_check(&c, &err));
	snprintf(queue.name, sizeof(queue.name), "more");
	assert_int_equal(cluster_queue_add(&c, &queue, &err), -ENOSPC);
	assert_contains(err.msg, "4096");
}

static void draws_until_enough_has_arrived(void **state)
{
	_cleanup_cluster_ struct cluster c = {0};
	_cleanup_workload_ struct workload w = {0};
	_cleanup_free_ uint32_t *first = NULL, *again = NULL;
	struct rand rand = rand_seeded(7), same = rand_seeded(7);
	uint64_t sum = 0;
	struct error err = {0};
	int n;

	assert_ok(workload_read_openb(&w, &c, STR(PODS), NULL));
	n = workload_draw(&w, 100, 1300, &rand, &first, NULL);
	assert_int_equal(workload_draw(&w, 100, 1300, &same, &again, NULL), n);
	assert_memory_equal(first, again, (size_t)n * sizeof(*first));
	for (int i = 0; i < n; i++) {
		assert_true(sum < 130000);
		sum += (uint64_t)w.tasks[first[i]].spec.share * w.tasks[first[i]].spec.count;
	}
	assert_true(sum >= 130000);
	w.n = 1;
	w.tasks[0].spec.share = 1;
	assert_int_equal(workload_draw(&w, 10000, 1300, &rand, &again, &err), -EINVAL);
	assert_contains(err.msg, "10000 devices");
	assert_contains(err.msg, "fewer devices");
	w.tasks[0].spec.share = 0;
	assert_int_equal(workload_draw(&w, 100, 1300, &rand, &again, &err), -EINVAL);
	assert_contains(err.msg, "no task");
}

static void shuffles_all_tasks(void **state)
{
	uint32_t items[100], seen[100] = {0}, moved = 0;
	struct rand rand = rand_seeded(1);

	workload_shuffle(items, 100, &rand);
	for (uint32_t i = 0; i < 100; i++) {
		seen[items[i]]++;
		moved += items[i] != i;
	}
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(seen[i], 1);
	assert_true(moved > 80);
}

static void a_seed_gives_the_same_tasks(void **state)
{
	_cleanup_workload_ struct workload a = {0}, b = {0}, other = {0};
	struct workload_shape s = shape();

	assert_ok(workload_generate(&a, &s, 42, NULL));
	assert_ok(workload_generate(&b, &s, 42, NULL));
	assert_ok(workload_generate(&other, &s, 43, NULL));
	assert_int_equal(a.n, s.n_tasks);
	assert_int_equal(a.n, b.n);
	assert_memory_equal(a.tasks, b.tasks, a.n * sizeof(*a.tasks));
	assert_memory_not_equal(a.tasks, other.tasks, a.n * sizeof(*a.tasks));
	/*
	 * These values must not change, on any machine or in any version: published figures depend
	 * on them.
	 */
	assert_int_equal(a.tasks[0].spec.share, 283);
	assert_int_equal(a.tasks[1].spec.device_permille, 226);
	assert_int_equal(a.tasks[2].arrives_ns, 4428081097);
	assert_int_equal(a.tasks[2].work_ns, 158416388104);
}

/*
 * Gaps of Poisson arrivals, the mean of normal shares and uniform durations are within five
 * standard errors of the expected values.
 */
static void generated_tasks_have_the_requested_shape(void **state)
{
	_cleanup_workload_ struct workload w = {0};
	struct workload_shape s = shape();
	uint64_t share = 0, work = 0, short_gaps = 0;

	s.n_tasks = 20000;
	assert_ok(workload_generate(&w, &s, 1, NULL));
	for (uint32_t i = 0; i < w.n; i++) {
		const struct task *t = &w.tasks[i];

		assert_in_range(t->spec.share, 50, 1000);
		assert_in_range(t->work_ns, s.work_min_ns, s.work_max_ns);
		assert_int_equal(t->limit, t->spec.share);
		share += t->spec.share;
		work += t->work_ns / NSEC_PER_MSEC;
		short_gaps += i && t->arrives_ns - w.tasks[i - 1].arrives_ns < s.gap_ns;
	}
	/* draws below 0.05 are repeated, so the mean is a little above 0.3 */
	assert_in_range(share / w.n, 296, 306);
	assert_in_range(work / w.n, 177500, 182500);
	assert_in_range(
		w.tasks[w.n - 1].arrives_ns / w.n, s.gap_ns / 100 * 96, s.gap_ns / 100 * 104);
	/* the part of exponential gaps below their mean is 1 - 1/e, 0.632 */
	assert_in_range(short_gaps * 1000 / w.n, 615, 649);
}

static void a_changed_option_changes_no_other_property(void **state)
{
	_cleanup_workload_ struct workload a = {0}, b = {0};
	struct workload_shape s = shape();

	assert_ok(workload_generate(&a, &s, 5, NULL));
	s.gap_ns *= 2;
	assert_ok(workload_generate(&b, &s, 5, NULL));
	for (uint32_t i = 0; i < a.n; i++) {
		assert_int_equal(a.tasks[i].spec.share, b.tasks[i].spec.share);
		assert_int_equal(a.tasks[i].work_ns, b.tasks[i].work_ns);
	}
}

static void makes_gangs_and_whole_devices(void **state)
{
	_cleanup_workload_ struct workload w = {0};
	struct workload_shape s = shape();
	uint32_t members = 0, whole = 0;

	s.span_ns = 2 * 3600 * NSEC_PER_SEC;
	s.n_tasks = WORKLOAD_TASKS_MAX;
	assert_ok(workload_choices_parse(STR("1:1,4:1"), 100, &s.gangs, NULL));
	assert_ok(workload_choices_parse(STR("0,2"), 16, &s.whole, NULL));
	assert_ok(workload_generate(&w, &s, 1, NULL));
	assert_true(w.n > 5000);
	for (uint32_t i = 0; i < w.n; i++) {
		members += w.tasks[i].gang > 0;
		whole += w.tasks[i].spec.count == 2 && w.tasks[i].spec.is_exclusive;
		assert_true(w.tasks[i].arrives_ns <= s.span_ns);
		if (i && w.tasks[i].gang && w.tasks[i].gang == w.tasks[i - 1].gang)
			assert_int_equal(w.tasks[i].arrives_ns, w.tasks[i - 1].arrives_ns);
	}
	assert_in_range(members * 100 / w.n, 77, 83);
	assert_in_range(whole * 100 / w.n, 47, 53);
}

static void too_many_tasks_are_refused(void **state)
{
	_cleanup_workload_ struct workload w = {0}, few = {0};
	struct workload_shape s = shape();
	struct error err = {0};

	s.span_ns = 3600 * NSEC_PER_SEC;
	s.gap_ns = NSEC_PER_MSEC;
	s.n_tasks = WORKLOAD_TASKS_MAX;
	assert_int_equal(workload_generate(&w, &s, 1, &err), -EINVAL);
	assert_contains(err.msg, "more than 1048576 tasks arrive in this time");
	/* arrivals end after 1000 tasks, so there are not too many */
	s.n_tasks = 1000;
	assert_ok(workload_generate(&few, &s, 1, NULL));
	assert_int_equal(few.n, 1000);
}

/* Tasks that are drawn from a trace request the given load of the devices on average over time. */
static void drawn_tasks_have_the_requested_load(void **state)
{
	_cleanup_cluster_ struct cluster c = {0};
	_cleanup_workload_ struct workload from = {0}, w = {0}, again = {0};
	struct workload_redraw how = {
		.n = 30000, .n_devices = 100, .load = 800, .work_max_ns = 3600 * NSEC_PER_SEC};
	uint64_t asked = 0, first = 0, work_s = 0, gone = 0;
	struct error err = {0};

	assert_ok(workload_read_openb(&from, &c, STR(PODS), NULL));
	assert_ok(workload_redraw(&w, &from, &how, 7, NULL));
	assert_int_equal(w.n, how.n);
	assert_true(w.has_times);
	for (uint32_t i = 0; i < w.n; i++) {
		const struct task *t = &w.tasks[i];

		first += t->spec.share == 500;
		work_s += t->work_ns / NSEC_PER_SEC;
		asked += (uint64_t)t->spec.share * t->spec.count * (t->work_ns / NSEC_PER_SEC);
		assert_true(!i || t->arrives_ns >= w.tasks[i - 1].arrives_ns);
	}
	gone = w.tasks[w.n - 1].arrives_ns / NSEC_PER_SEC;
	assert_in_range(first * 100 / w.n, 32, 34);
	assert_in_range(work_s / w.n, 3500, 3700);
	assert_in_range(asked / gone / how.n_devices, 780, 820);
	assert_ok(workload_redraw(&again, &from, &how, 7, NULL));
	assert_memory_equal(w.tasks, again.tasks, w.n * sizeof(*w.tasks));
	how.load = 0;
	assert_int_equal(workload_redraw(&w, &from, &how, 7, &err), -EINVAL);
	assert_contains(err.msg, "the load or the number of devices is 0");
	how.load = 800;
	how.work_min_ns = how.work_max_ns + 1;
	assert_int_equal(workload_redraw(&w, &from, &how, 7, &err), -EINVAL);
	assert_contains(err.msg, "duration");
}

static void impossible_shapes_are_refused(void **state)
{
	_cleanup_workload_ struct workload w = {0};
	struct workload_choices choices;
	struct workload_shape s = shape();
	struct error err = {0};

	s.demand = 49;
	assert_int_equal(workload_generate(&w, &s, 1, &err), -EINVAL);
	assert_contains(err.msg, "mean 49");
	s = shape();
	s.gap_ns = 0;
	assert_int_equal(workload_generate(&w, &s, 1, &err), -EINVAL);
	s = shape();
	s.work_min_ns = s.work_max_ns + 1;
	assert_int_equal(workload_generate(&w, &s, 1, &err), -EINVAL);
	assert_contains(err.msg, "from 5m to");
	s = shape();
	s.n_tasks = 7;
	assert_ok(workload_choices_parse(STR("1:9,8"), 9, &s.gangs, NULL));
	assert_int_equal(workload_generate(&w, &s, 1, &err), -EINVAL);
	assert_contains(err.msg, "gangs 8");
	assert_int_equal(workload_choices_parse(STR("1:0"), 9, &choices, &err), -EINVAL);
	assert_contains(err.msg, "1:0");
	assert_int_equal(workload_choices_parse(STR("10"), 9, &choices, &err), -EINVAL);
	assert_int_equal(workload_choices_parse(STR(""), 9, &choices, &err), -EINVAL);
	assert_int_equal(
		workload_choices_parse(STR("1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"), 9, &choices, &err),
		-EINVAL);
	assert_int_equal(w.n, 0);
}

static void every_named_shape_is_possible(void **state)
{
	for (size_t i = 0; workload_shape_at(i); i++) {
		_cleanup_workload_ struct workload w = {0};
		_cleanup_cluster_ struct cluster c = {0};

		assert_ok(workload_generate(&w, workload_shape_at(i), 1, NULL));
		assert_ok(cluster_like(&c, str_from(workload_shape_at(i)->nodes), NULL));
	}
}

UNIT_MAIN(UNIT(reads_a_trace), UNIT(reads_files_of_other_programs), UNIT(errors_name_the_line),
	UNIT(zero_bytes_are_refused_and_equal_names_accepted),
	UNIT(equal_nodes_are_made_from_a_short_text), UNIT(the_number_of_devices_is_limited),
	UNIT(a_cell_file_sets_distances), UNIT(differences_between_cells_and_nodes_are_found),
	UNIT(the_number_of_queues_is_limited), UNIT(draws_until_enough_has_arrived),
	UNIT(shuffles_all_tasks), UNIT(a_seed_gives_the_same_tasks),
	UNIT(generated_tasks_have_the_requested_shape),
	UNIT(a_changed_option_changes_no_other_property), UNIT(makes_gangs_and_whole_devices),
	UNIT(too_many_tasks_are_refused), UNIT(drawn_tasks_have_the_requested_load),
	UNIT(impossible_shapes_are_refused), UNIT(every_named_shape_is_possible))
