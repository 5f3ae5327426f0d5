/* SPDX-License-Identifier: Apache-2.0 */
/* How the daemon predicts a CUDA context's cost for tenants that have not measured it. */
#include "unit.h"

#include "agent/context-cost.h"
#include "agent/device.h"
#include "own-agent.h"

#define MIB (UINT64_C(1) << 20)
#define MALLORY 12345u
#define ALICE 12346u
#define BOB 12347u

static struct rig rig;

static int begin(void **state)
{
	rig_start(&rig);
	return 0;
}

static int end(void **state)
{
	rig_stop(&rig);
	return 0;
}

/* The state on device 0 of a new tenant of this user; all tenants share device 0. */
static struct tenant_device *make(uid_t uid)
{
	struct tenant *t;

	assert_ok(rig_make_tenant(&rig, uid, &t));
	assert_int_equal(t->devices[0].device->index, 0);
	return &t->devices[0];
}

static uint64_t guess(void)
{
	return rig.agent->devices->devices[0].context_guess_bytes;
}

static void two_tenants_of_a_user_change_no_other_users_value(void **state)
{
	struct tenant_device *first = make(MALLORY), *second = make(MALLORY),
			     *third = make(MALLORY), *other = make(ALICE);

	context_cost_learn(first, "", 2048 * MIB);
	context_cost_learn(second, "", 1900 * MIB);
	assert_int_equal(context_cost_expected(other), guess());
	/*
	 * Later tenants of other users expect the guess, too; tenants of the same user use its
	 * measurements.
	 */
	assert_int_equal(context_cost_expected(make(BOB)), guess());
	assert_int_equal(context_cost_expected(third), 1900 * MIB);
	assert_int_equal(context_cost_expected(make(MALLORY)), 1900 * MIB);
	assert_int_equal(context_cost_expected(first), 2048 * MIB);
}

static void one_tenant_changes_no_other_tenants_value(void **state)
{
	struct tenant_device *first = make(MALLORY), *second = make(MALLORY), *other = make(ALICE);

	context_cost_learn(first, "", 2048 * MIB);
	assert_int_equal(context_cost_expected(second), guess());
	assert_int_equal(context_cost_expected(other), guess());
}

static void the_smaller_cost_of_two_users_counts(void **state)
{
	struct tenant_device *bad = make(MALLORY), *worse = make(MALLORY), *alice = make(ALICE),
			     *bob = make(BOB);

	context_cost_learn(bad, "", 2048 * MIB);
	context_cost_learn(worse, "", 2048 * MIB);
	context_cost_learn(alice, "", 300 * MIB);
	assert_int_equal(context_cost_expected(bob), 300 * MIB);
	context_cost_learn(alice, "", 400 * MIB);
	assert_int_equal(context_cost_expected(bob), 400 * MIB);
	/* Only one user's measurements are left. */
	tenant_kill(alice->tenant);
	assert_int_equal(context_cost_expected(bob), guess());
}

/* Root in a container can use any uid, and a user can have several cgroups. */
static void one_container_is_one_owner(void **state)
{
	struct tenant_device *root = make(0), *any = make(MALLORY), *again = make(MALLORY),
			     *other = make(ALICE);

	context_cost_learn(root, "/docker/1", 2048 * MIB);
	context_cost_learn(any, "/docker/1", 2048 * MIB);
	assert_int_equal(context_cost_expected(other), guess());
	context_cost_learn(root, "/docker/2", 2048 * MIB);
	assert_int_equal(context_cost_expected(other), 2048 * MIB);
	/*
	 * Tenants of one user, or of one cgroup, have one owner: `any` and `again` have one user,
	 * and `root` shares the cgroup of `again`. But `root` and `any` differ in both, so there
	 * are two owners.
	 */
	context_cost_learn(again, "/docker/2", 300 * MIB);
	assert_int_equal(context_cost_expected(other), 300 * MIB);
	tenant_kill(any->tenant);
	assert_int_equal(context_cost_expected(other), guess());
}

static struct tenant_device *make_pod(const char *space, const char *uid)
{
	struct tenant_device *td = make(0);
	struct tenant_pod *pod = calloc(1, sizeof(*pod));

	assert_non_null(pod);
	snprintf(pod->space, sizeof(pod->space), "%s", space);
	snprintf(pod->uid, sizeof(pod->uid), "%s", uid);
	td->tenant->pod = pod;
	return td;
}

static void pods_of_one_namespace_are_one_owner(void **state)
{
	struct tenant_device *first = make_pod("mallory", "1"), *second = make_pod("mallory", "2"),
			     *alice = make_pod("alice", "3"), *bob = make_pod("bob", "4");

	context_cost_learn(first, "", 2048 * MIB);
	context_cost_learn(second, "", 2048 * MIB);
	assert_int_equal(context_cost_expected(bob), guess());
	assert_int_equal(context_cost_expected(make_pod("mallory", "5")), 2048 * MIB);
	context_cost_learn(alice, "", 300 * MIB);
	assert_int_equal(context_cost_expected(bob), 300 * MIB);
}

static void impossible_costs_change_nothing(void **state)
{
	struct tenant_device *td = make(ALICE);

	context_cost_learn(td, "", 0);
	context_cost_learn(td, "", CONTEXT_COST_GUESSES_MAX * guess() + 1);
	assert_int_equal(context_cost_expected(td), guess());
	context_cost_learn(td, "", CONTEXT_COST_GUESSES_MAX * guess());
	assert_int_equal(context_cost_expected(td), CONTEXT_COST_GUESSES_MAX * guess());
	context_cost_learn(td, "", 1);
	assert_int_equal(context_cost_expected(td), 1);
}

UNIT_MAIN(cmocka_unit_test_setup_teardown(
		  two_tenants_of_a_user_change_no_other_users_value, begin, end),
	cmocka_unit_test_setup_teardown(one_tenant_changes_no_other_tenants_value, begin, end),
	cmocka_unit_test_setup_teardown(the_smaller_cost_of_two_users_counts, begin, end),
	cmocka_unit_test_setup_teardown(one_container_is_one_owner, begin, end),
	cmocka_unit_test_setup_teardown(pods_of_one_namespace_are_one_owner, begin, end),
	cmocka_unit_test_setup_teardown(impossible_costs_change_nothing, begin, end))
