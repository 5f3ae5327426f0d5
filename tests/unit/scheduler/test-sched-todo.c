/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the list of decided actions that are not handed out yet. */
#include <stdlib.h>

#include "acts.h"
#include "base/cleanup.h"
#include "scheduler/sched-todo.h"
#include "unit.h"

static struct todo todo;

static const struct cpod *pod(const char *name)
{
	return cluster_pod(sched_cluster(sched), "s", name);
}

static int begin(void **state)
{
	acts_begin(state);
	add_pod("a", "", "");
	add_pod("b", "", "");
	return 0;
}

static int end(void **state)
{
	todo_done(&todo);
	return acts_end(state);
}

static struct sched_action take(const char *name)
{
	struct sched_action action;

	assert_true(todo_next(&todo, sched_cluster(sched), &action));
	assert_string_equal(cpod_name(action.pod), name);
	return action;
}

static void actions_are_handed_out_in_order(void **state)
{
	struct sched_action action;

	assert_true(todo_is_empty(&todo));
	assert_ok(todo_push(&todo, SCHED_BIND, pod("b"), REASON_NONE, STR("")));
	assert_ok(todo_push(&todo, SCHED_CONDITION, pod("a"), REASON_UNSCHEDULABLE, STR("no")));
	assert_false(todo_is_empty(&todo));
	action = take("b");
	assert_int_equal(action.act, SCHED_BIND);
	action = take("a");
	assert_int_equal(action.act, SCHED_CONDITION);
	assert_int_equal(action.reason, REASON_UNSCHEDULABLE);
	assert_string_equal(action.sentence, "no");
	assert_true(todo_is_empty(&todo));
	assert_false(todo_next(&todo, sched_cluster(sched), &action));
}

static void actions_of_removed_pods_are_skipped(void **state)
{
	struct sched_action action;

	assert_ok(todo_push_eviction(&todo, pod("b"), pod("a")));
	assert_ok(todo_push_eviction(&todo, pod("a"), pod("b")));
	assert_ok(todo_push_eviction(&todo, pod("b"), NULL));
	assert_ok(sched_remove(sched, OBJECT_POD, "s", "b"));
	/* The preemptor of an eviction is still known after it was removed. */
	action = take("a");
	assert_string_equal(action.preemptor->name, "b");
	assert_false(todo_next(&todo, sched_cluster(sched), &action));
}

static struct decide_claims claims_on(const char *node)
{
	struct decide_claims claims = {.node = str_dup(str_from(node)), .n = 1};

	claims.name = calloc(1, sizeof(*claims.name));
	claims.name[0] = str_dup(STR("data"));
	return claims;
}

/*
 * An action that was handed out stays valid while others are added, for example because a Binding
 * fails.
 */
static void a_handed_out_action_stays_valid(void **state)
{
	struct decide_claims claims = claims_on("n1");
	struct sched_action action;

	assert_ok(todo_push_claims(&todo, pod("a"), &claims));
	assert_null(claims.name);
	action = take("a");
	for (int i = 0; i < 100; i++)
		assert_ok(todo_push(&todo, SCHED_EVENT, pod("b"), REASON_GROUP_WAITING, STR("w")));
	assert_string_equal(action.claims->node, "n1");
	assert_int_equal(action.claims->n, 1);
	assert_string_equal(action.claims->name[0], "data");
	for (int i = 0; i < 100; i++)
		take("b");
	assert_true(todo_is_empty(&todo));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(actions_are_handed_out_in_order),
		TEST(actions_of_removed_pods_are_skipped),
		TEST(a_handed_out_action_stays_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
