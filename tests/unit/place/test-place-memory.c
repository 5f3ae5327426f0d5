/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each allocation of an operation fails once. The operation must then return -ENOMEM with a message
 * and change nothing, and must succeed when repeated without a failure. The linker replaces libc's
 * allocation functions by the functions here (meson.build).
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cluster.h"
#include "place/place-cell.h"
#include "place/place-defrag.h"
#include "place/place-gang.h"
#include "place/place-preempt.h"
#include "place/place-queue.h"
#include "replay/cell-file.h"

/* ---- memory that runs out ---- */

static long left = -1; /* allocations that still succeed before one fails; below 0: none fails */
static bool has_failed;

static bool is_out(void)
{
	if (left < 0 || left-- > 0)
		return false;
	has_failed = true;
	errno = ENOMEM;
	return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
	return is_out() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return is_out() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return is_out() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *text)
{
	return is_out() ? NULL : __real_strdup(text);
}

struct world {
	struct place *place;
	struct rand rand;
	uint32_t i; /* number of the attempt, for distinct names and groups */
	struct place_spec spec;
	uint32_t tenant;
};

typedef int operation(struct world *w, struct error *err);

/*
 * Repeats the operation, each time with a later failing allocation, until none fails. Returns the
 * result of that last run.
 */
static int starve(struct world *w, operation *op)
{
	for (long k = 0;; k++) {
		const uint64_t before = w->place ? cluster_digest(w->place) : 0;
		struct error err = {0};
		int r;

		has_failed = false;
		left = k;
		r = op(w, &err);
		left = -1;
		if (!has_failed || r != -ENOMEM)
			return r;
		assert_contains(err.msg, "out of memory");
		assert_true(!w->place || cluster_digest(w->place) == before);
	}
}

/* ---- names, nodes, tenants ---- */

static int add_label(struct world *w, struct error *err)
{
	char name[16];

	snprintf(name, sizeof(name), "l%u", w->i);
	return place_label(w->place, "job", name, &w->spec.anti_affinity, err);
}

static int add_node(struct world *w, struct error *err)
{
	struct place_device_info devices[2] = {{.memory_bytes = GIB}, {.memory_bytes = GIB}};
	char name[16];
	struct place_node_info info = {.name = name,
		.rack = "r",
		.cpu_milli = 8000,
		.labels = &w->spec.anti_affinity,
		.n_labels = 1,
		.n_devices = 1 + w->i % 2,
		.devices = devices};
	uint32_t node;

	snprintf(name, sizeof(name), "x%u", w->i);
	return place_node_add(w->place, &info, &node, err);
}

static int add_tenant(struct world *w, struct error *err)
{
	struct place_choice choice;
	int r = place_find(w->place, &w->spec, &choice, err);

	return r < 0 ? r : place_add(w->place, &w->spec, &choice, &w->tenant, err);
}

static int make(struct world *w, struct error *err)
{
	const struct place_config config = {.policy = place_policy_find("default")};

	return place_new(&config, &w->place, err);
}

static void a_growing_model_survives_failed_allocations(void **state)
{
	struct world w = {.spec = PLACE_SPEC_INIT};
	uint32_t n_placed = 0;
	uint64_t bit;

	assert_ok(starve(&w, make));
	assert_ok(place_model(w.place, "A", &bit, NULL));
	for (w.i = 0; w.i < 400; w.i++) {
		char name[16];

		assert_ok(starve(&w, add_label));
		assert_ok(starve(&w, add_node));
		/* After all failed attempts, the node is found by its name. */
		snprintf(name, sizeof(name), "x%u", w.i);
		assert_int_not_equal(place_node_find(w.place, name), PLACE_NONE);
		w.spec.group = 1 + w.i;
		w.spec.share = 100 + w.i % 9 * 100;
		place_note_arrival(w.place, &w.spec);
		assert_ok(starve(&w, add_tenant));
		n_placed++;
	}
	assert_int_equal(place_n_tenants(w.place), n_placed);
	cluster_check(w.place);
	place_free(w.place);
}

/* ---- gangs, queues and modes ---- */

static int gather(struct world *w, struct error *err)
{
	struct place_spec members[6];
	const struct place_preempt rules = {.is_graceful = w->i % 2};
	const struct place_gang gang = {.members = members,
		.n = ARRAY_SIZE(members),
		.threshold = 500,
		.near = (enum place_near)(w->i % 3),
		.preempt = w->i % 4 < 2 ? &rules : NULL};
	struct place_group group;
	int r;

	for (uint32_t i = 0; i < gang.n; i++)
		members[i] = w->spec;
	r = place_gang_add(w->place, &gang, &group, err);
	if (r == 0)
		place_group_done(&group);
	return r;
}

static int preempt(struct world *w, struct error *err)
{
	const struct place_preempt rules = {.is_graceful = w->i % 2};
	struct place_plan plan;
	int r = place_preempt_find(w->place, &w->spec, &rules, &plan, err);

	if (r < 0)
		return r;
	r = place_preempt_apply(w->place, &w->spec, &plan, &w->tenant, err);
	place_plan_done(&plan);
	return r;
}

static int leave(struct world *w, struct error *err)
{
	const uint32_t mark = place_savepoint(w->place);
	int r = place_mark_terminating(w->place, w->tenant, err);

	if (r == 0 && place_remove(w->place, w->tenant) == -ENOMEM)
		r = fail(err, ENOMEM, "out of memory to remove");
	if (r == 0)
		r = place_readd_terminating(w->place, w->tenant, err);
	if (r < 0)
		place_rollback(w->place, mark);
	place_release(w->place);
	return r;
}

static int set_queues(struct world *w, struct error *err)
{
	const struct place_queue_model of = {.model = "A", .quota = 1000, .limit = 9000};
	const struct place_queue_info queue = {.name = "q",
		.weight = 1,
		.quota = 4000,
		.limit = 9000,
		.models = &of,
		.n_models = 1};

	return place_queue_set(w->place, &queue, 1, NULL, err);
}

static int defragment(struct world *w, struct error *err)
{
	struct place_defrag plan;
	int r = place_defrag_find(w->place, 4, NULL, &plan, err);

	if (r == 0)
		place_defrag_done(&plan);
	return r;
}

static void gangs_and_victims_survive_failed_allocations(void **state)
{
	static operation *const ops[] = {
		gather, preempt, add_tenant, leave, set_queues, defragment};
	static const char *const policies[] = {"default", "fgd", "kubeshare2-guarantee"};
	uint32_t n_done[ARRAY_SIZE(ops)] = {0};

	for (uint32_t seed = 0; seed < 60; seed++) {
		struct rand rand = rand_seeded(seed);
		_cleanup_place_ struct place *place = cluster_new(
			&rand, place_policy_find(policies[seed % 3]), 8, 4);
		struct world w = {.place = place, .rand = rand};

		cluster_fill(&w.rand, place, 40);
		for (w.i = 0; w.i < 30; w.i++) {
			const uint32_t at = (uint32_t)rand_below(&w.rand, ARRAY_SIZE(ops));

			w.spec = cluster_spec(&w.rand, place);
			w.spec.priority = (uint32_t)rand_below(&w.rand, 101);
			w.spec.group = (uint32_t)rand_below(&w.rand, 4);
			w.tenant = (uint32_t)rand_below(&w.rand, 40);
			place_note_arrival(place, &w.spec);
			if (starve(&w, ops[at]) == 0)
				n_done[at]++;
		}
		cluster_check(place);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		assert_true(n_done[i] > 0);
}

/* ---- cells ---- */

static int read_cells(struct world *w, struct error *err)
{
	static const char text[] =
		"cellTypes:\n"
		"  NODE: {childCellType: A, childCellNumber: 4, isNodeLevel: true}\n"
		"  RACK: {childCellType: NODE, childCellNumber: 2}\n"
		"cells:\n"
		"- {cellType: RACK, cellChildren: [{cellId: n1}, {cellId: n2}]}\n";
	struct place_cells *cells;
	int r = place_cells_parse(str_from(text), &cells, err);

	if (r == 0)
		place_cells_free(cells);
	return r;
}

static void cells_survive_failed_allocations(void **state)
{
	struct world w = {0};

	assert_ok(starve(&w, read_cells));
}

UNIT_MAIN(UNIT(a_growing_model_survives_failed_allocations),
	UNIT(gangs_and_victims_survive_failed_allocations), UNIT(cells_survive_failed_allocations))
