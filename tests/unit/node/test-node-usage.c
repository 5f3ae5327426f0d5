/* SPDX-License-Identifier: Apache-2.0 */
/* How often the use of tenants changes the status: the test has a clock of its own. */
#include "unit.h"

#include <stdlib.h>

#include "base/clock.h"

static uint64_t fake_real_ns(void);

#define clock_real_ns fake_real_ns
#define node_status_touch fake_node_status_touch
#define usage_used_ns fake_usage_used_ns
#define worker_submit fake_worker_submit
#include "node/node-usage.c"

#define TENANTS 8u

static uint64_t now_s, used_ns;
static bool is_touched;

static uint64_t fake_real_ns(void)
{
	return now_s * NSEC_PER_SEC;
}

void node_status_touch(struct node *node)
{
	is_touched = true;
}

uint64_t usage_used_ns(const struct tenant_device *td)
{
	return used_ns;
}

void worker_submit(struct worker *worker, struct worker_job *job)
{
	job->done(job);
}

struct place {
	struct agent agent;
	struct node node;
	struct slot slots[TENANTS];
	struct tenant_pod pods[TENANTS];
	struct tenant *tenants[TENANTS];
};

static void place_init(struct place *at)
{
	now_s = 1000;
	used_ns = 0;
	*at = (struct place){.node = {.agent = &at->agent, .slots = at->slots}};
	at->node.began_real_ns = fake_real_ns();
	at->node.accounted_ns = fake_real_ns();
	LIST_INIT(&at->agent.tenants);
}

static void place_done(struct place *at)
{
	accounts_done(&at->node.accounts);
	json_decref(at->node.accounts_reported);
	for (uint32_t i = 0; i < TENANTS; i++)
		free(at->tenants[i]);
}

static void add_tenant(struct place *at)
{
	const uint32_t i = at->node.n_slots++;
	struct tenant *t = calloc(1, sizeof(*t) + sizeof(t->devices[0]));

	assert_non_null(t);
	snprintf(at->pods[i].space, sizeof(at->pods[i].space), "team");
	t->id = i + 1;
	t->n = 1;
	t->pod = &at->pods[i];
	LIST_INSERT_HEAD(&at->agent.tenants, t, link);
	at->tenants[i] = t;
	at->slots[i].tenant = t->id;
}

/* Returns in how many of these seconds the status changed. */
static uint32_t pass(struct place *at, uint32_t seconds)
{
	uint32_t n = 0;

	while (seconds--) {
		now_s++;
		is_touched = false;
		node_usage_tick(&at->node, fake_real_ns());
		n += is_touched;
	}
	return n;
}

static uint32_t n_idle(const struct place *at)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < TENANTS; i++)
		n += at->slots[i].usage.is_idle;
	return n;
}

/* Pods that start one after another would otherwise write the status one after another. */
static void tenants_become_idle_when_the_accounts_are_written(void **state)
{
	static struct place at;

	place_init(&at);
	for (uint32_t i = 0; i < TENANTS; i++) {
		add_tenant(&at);
		pass(&at, 1);
	}
	assert_true(pass(&at, 50) <= 1);
	assert_int_equal(n_idle(&at), 0);
	assert_true(pass(&at, 70) <= 2);
	assert_int_equal(n_idle(&at), TENANTS);
	assert_int_equal(pass(&at, 120), 2);
	place_done(&at);
}

static void a_tenant_that_works_is_not_idle_from_then_on(void **state)
{
	static struct place at;

	place_init(&at);
	add_tenant(&at);
	pass(&at, 130);
	assert_int_equal(n_idle(&at), 1);
	used_ns = 1;
	assert_int_equal(pass(&at, 1), 1);
	assert_int_equal(n_idle(&at), 0);
	pass(&at, 50);
	assert_int_equal(n_idle(&at), 0);
	pass(&at, 80);
	assert_int_equal(n_idle(&at), 1);
	place_done(&at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT(tenants_become_idle_when_the_accounts_are_written),
		UNIT(a_tenant_that_works_is_not_idle_from_then_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
