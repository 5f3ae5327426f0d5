/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter's behaviour: step by step on hand-made events, and on the machine in virtual time.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/arbiter-internal.h"
#include "virtual.h"

/* ---- step by step, with hand-made events ---- */

struct hand {
	struct arbiter *arbiter;
	struct arbiter_action action[64];
	size_t n;
	uint64_t now, next;
};

static struct hand hand_new(const struct arbiter_config *config, uint32_t devices)
{
	struct arbiter_config plain;
	struct hand hand = {.now = SEC};

	arbiter_config_init(&plain);
	assert_ok(arbiter_new(config ? config : &plain, devices, &hand.arbiter, NULL));
	return hand;
}

static void add(struct hand *hand, arbiter_id id, const char *request, const char *limit,
	const char *class, uint64_t devices)
{
	struct spec spec;

	spec_init(&spec);
	assert_ok(spec_set(&spec, "request", request, NULL));
	if (limit)
		assert_ok(spec_set(&spec, "limit", limit, NULL));
	if (class)
		assert_ok(spec_set(&spec, "class", class, NULL));
	assert_ok(spec_finish(&spec, NULL));
	assert_ok(arbiter_add(hand->arbiter, id, &spec, devices, hand->now, NULL));
}

static void step(struct hand *hand, uint64_t later_ns)
{
	hand->now += later_ns;
	hand->n = arbiter_step(
		hand->arbiter, hand->now, hand->action, ARRAY_SIZE(hand->action), &hand->next);
}

static bool did(const struct hand *hand, enum arbiter_action_type type, arbiter_id id)
{
	for (size_t i = 0; i < hand->n; i++)
		if (hand->action[i].type == type && hand->action[i].tenant == id)
			return true;
	return false;
}

static struct arbiter_usage usage(const struct hand *hand, arbiter_id id, uint32_t device)
{
	struct arbiter_usage got;

	assert_ok(arbiter_usage_get(hand->arbiter, id, device, hand->now, &got));
	return got;
}

static void want(struct hand *hand, arbiter_id id)
{
	arbiter_want(hand->arbiter, id, 0, true, hand->now);
}

static void busy(struct hand *hand, arbiter_id id, uint64_t longest_ns, uint64_t queued_ns)
{
	arbiter_observe(hand->arbiter, id, 0, true, longest_ns, queued_ns, hand->now);
}

static void wrong_parameters_are_refused(void **state)
{
	struct hand hand = hand_new(NULL, 2);
	struct arbiter_config config;
	struct arbiter *none = NULL;
	struct error err = {0};
	struct arbiter_usage got;
	struct spec spec;

	arbiter_config_init(&config);
	config.policy = "best";
	assert_int_equal(arbiter_new(&config, 1, &none, &err), -EINVAL);
	assert_contains(err.msg, "'best'");
	assert_contains(err.msg, "share, fifo, bias, gemini");
	config.policy = "bias";
	assert_int_equal(arbiter_new(&config, 0, &none, &err), -EINVAL);
	assert_int_equal(arbiter_new(&config, ARBITER_DEVICES + 1, &none, &err), -EINVAL);
	assert_null(none);

	add(&hand, 7, "0.5", NULL, NULL, 1);
	spec_init(&spec);
	assert_ok(spec_set(&spec, "request", "0.1", NULL));
	assert_ok(spec_finish(&spec, NULL));
	assert_int_equal(arbiter_add(hand.arbiter, 7, &spec, 1, 0, &err), -EEXIST);
	assert_int_equal(arbiter_add(hand.arbiter, 8, &spec, 0, 0, &err), -EINVAL);
	assert_int_equal(arbiter_add(hand.arbiter, 8, &spec, 4, 0, &err), -EINVAL);
	assert_int_equal(arbiter_change(hand.arbiter, 8, &spec, 0, &err), -ENOENT);
	assert_int_equal(arbiter_usage_get(hand.arbiter, 8, 0, 0, &got), -ENOENT);
	assert_int_equal(arbiter_usage_get(hand.arbiter, 7, 1, 0, &got), -ENOENT);
	/* The arbiter ignores unknown tenants and devices. */
	arbiter_remove(hand.arbiter, 8, 0);
	arbiter_want(hand.arbiter, 8, 0, true, 0);
	arbiter_want(hand.arbiter, 7, 63, true, 0);
	arbiter_want(hand.arbiter, 7, 64, true, 0);
	arbiter_observe(hand.arbiter, 8, 0, true, 0, 0, 0);
	arbiter_release(hand.arbiter, 8, 0, 0);
	arbiter_draining(hand.arbiter, 8, 0, 0, 0, 0);
	arbiter_drained(hand.arbiter, 8, 0, 0, 0);
	arbiter_free(hand.arbiter);
	arbiter_free(NULL);
}

static void a_lone_tenant_is_open_and_unbounded(void **state)
{
	struct hand hand = hand_new(NULL, 1);

	add(&hand, 1, "0.3", NULL, NULL, 1);
	step(&hand, 0);
	assert_int_equal(hand.n, 0);
	assert_true(hand.next == UINT64_MAX);
	want(&hand, 1);
	step(&hand, 0);
	assert_int_equal(hand.n, 1);
	assert_int_equal(hand.action[0].type, ARBITER_OPEN);
	assert_int_equal(hand.action[0].window_us, 0);
	assert_false(hand.action[0].contended);
	busy(&hand, 1, MS, 100 * MS);
	step(&hand, 10 * SEC);
	assert_int_equal(hand.n, 0);
	assert_true(usage(&hand, 1, 0).holds);
	assert_false(arbiter_watches(hand.arbiter, 0));
	arbiter_free(hand.arbiter);
}

/* Tenant 2 co-runs while tenant 1's work in flight completes. From then on, turns are bounded. */
static void a_newcomer_opens_beside_a_lone_tenant(void **state)
{
	struct hand hand = hand_new(NULL, 1);

	add(&hand, 1, "0.5", NULL, NULL, 1);
	add(&hand, 2, "0.5", NULL, NULL, 1);
	want(&hand, 1);
	step(&hand, 0);
	busy(&hand, 1, MS, 16 * MS);
	step(&hand, 50 * MS);
	want(&hand, 2);
	step(&hand, 0);
	assert_true(did(&hand, ARBITER_CLOSE, 1));
	assert_true(did(&hand, ARBITER_OPEN, 2));
	assert_true(usage(&hand, 2, 0).corun);
	for (size_t i = 0; i < hand.n; i++)
		if (hand.action[i].type == ARBITER_OPEN)
			assert_int_equal(hand.action[i].window_us, 2000);
	/* Both tenants had the device in these 16 ms. */
	busy(&hand, 2, MS, 2 * MS);
	step(&hand, 16 * MS);
	assert_true(usage(&hand, 2, 0).used_ns == 8 * MS);
	arbiter_drained(hand.arbiter, 1, 0, hand.now, hand.now);
	assert_true(usage(&hand, 1, 0).used_ns == 50 * MS + 8 * MS);
	arbiter_free(hand.arbiter);
}

static void two_tenants(struct hand *hand, const char *class)
{
	add(hand, 1, "0.5", NULL, NULL, 1);
	add(hand, 2, "0.5", NULL, class, 1);
	want(hand, 1);
	want(hand, 2);
	step(hand, 0);
	assert_true(did(hand, ARBITER_OPEN, 1) || did(hand, ARBITER_OPEN, 2));
}

static void the_next_tenant_opens_after_quantum_and_drain(void **state)
{
	struct hand hand = hand_new(NULL, 1);

	two_tenants(&hand, NULL);
	assert_true(did(&hand, ARBITER_OPEN, 1));
	busy(&hand, 1, MS, 0);
	step(&hand, 4 * MS);
	assert_int_equal(hand.n, 0); /* no turn is shorter than 5 ms */
	assert_true(arbiter_watches(hand.arbiter, 0));
	step(&hand, 25 * MS);
	assert_true(did(&hand, ARBITER_CLOSE, 1));
	assert_false(did(&hand, ARBITER_OPEN, 2));
	assert_int_equal(usage(&hand, 2, 0).why, ARBITER_WHY_DRAIN);
	arbiter_want(hand.arbiter, 1, 0, true, hand.now);
	arbiter_draining(hand.arbiter, 1, 0, MS, 0, hand.now);
	step(&hand, 100 * US);
	assert_int_equal(hand.n, 0);
	arbiter_draining(hand.arbiter, 1, 0, 100 * US, 0, hand.now);
	step(&hand, 0);
	assert_true(did(&hand, ARBITER_OPEN, 2)); /* the drain is nearly over */
	assert_int_equal(usage(&hand, 1, 0).why, ARBITER_WHY_TURN);
	assert_int_equal(usage(&hand, 1, 0).why_tenant, 2);
	/* Tenant 1, which drains, pays for the overlap. */
	step(&hand, 80 * US);
	arbiter_drained(hand.arbiter, 1, 0, hand.now, hand.now);
	assert_true(usage(&hand, 2, 0).used_ns == 0);
	assert_true(usage(&hand, 1, 0).used_ns == hand.now - SEC);
	arbiter_free(hand.arbiter);
}

static void an_idle_holder_gives_way(void **state)
{
	struct hand hand = hand_new(NULL, 1);

	two_tenants(&hand, NULL);
	busy(&hand, 1, MS, 0);
	step(&hand, MS);
	arbiter_observe(hand.arbiter, 1, 0, false, MS, 0, hand.now);
	step(&hand, 400 * US);
	assert_int_equal(hand.n, 0);
	assert_true(hand.next <= hand.now + 100 * US);
	step(&hand, 100 * US);
	assert_true(did(&hand, ARBITER_CLOSE, 1));
	arbiter_free(hand.arbiter);
}

/* Tenant 1's gate opened 1 ms ago without a submission: its thread may wait for a processor. */
static struct hand unused_turn(void)
{
	struct hand hand = hand_new(NULL, 1);

	two_tenants(&hand, NULL);
	arbiter_observe(hand.arbiter, 1, 0, false, 0, 0, hand.now);
	step(&hand, 900 * US);
	assert_int_equal(hand.n, 0);
	step(&hand, 100 * US);
	assert_true(did(&hand, ARBITER_OPEN, 2));
	assert_false(did(&hand, ARBITER_CLOSE, 1));
	return hand;
}

static void an_unused_grant_ends_when_the_next_tenant_submits(void **state)
{
	struct hand hand = unused_turn();
	uint64_t used_ns = usage(&hand, 1, 0).used_ns;

	step(&hand, 500 * US);
	busy(&hand, 2, MS, 0);
	step(&hand, 0);
	assert_true(did(&hand, ARBITER_CLOSE, 1));
	assert_false(did(&hand, ARBITER_CLOSE, 2));
	arbiter_drained(hand.arbiter, 1, 0, hand.now, hand.now);
	step(&hand, 0);
	assert_int_equal(usage(&hand, 1, 0).why, ARBITER_WHY_IDLE);
	/* The arbiter charges tenant 1 only for the millisecond before. */
	assert_int_equal(usage(&hand, 1, 0).used_ns, used_ns);
	arbiter_free(hand.arbiter);
}

static void an_unused_grant_stays_when_its_tenant_submits_first(void **state)
{
	struct hand hand = unused_turn();

	busy(&hand, 1, MS, 0);
	step(&hand, 0);
	assert_true(did(&hand, ARBITER_CLOSE, 2));
	assert_false(did(&hand, ARBITER_CLOSE, 1));
	assert_int_equal(usage(&hand, 1, 0).why, ARBITER_WHY_HOLDS);
	arbiter_free(hand.arbiter);
}

static void unused_grants_end_with_their_tenants(void **state)
{
	struct hand hand = unused_turn();

	arbiter_remove(hand.arbiter, 2, hand.now);
	step(&hand, 0);
	add(&hand, 3, "0.1", NULL, NULL, 1);
	want(&hand, 3);
	step(&hand, MS);
	assert_true(did(&hand, ARBITER_OPEN, 3));
	arbiter_remove(hand.arbiter, 1, hand.now);
	busy(&hand, 3, MS, 0);
	step(&hand, 0);
	assert_int_equal(usage(&hand, 3, 0).why, ARBITER_WHY_HOLDS);
	arbiter_free(hand.arbiter);
}

static void a_release_passes_the_token_at_once(void **state)
{
	struct hand hand = hand_new(NULL, 1);

	two_tenants(&hand, NULL);
	busy(&hand, 1, MS, 0);
	step(&hand, MS);
	arbiter_release(hand.arbiter, 1, 0, hand.now);
	step(&hand, 0);
	assert_true(did(&hand, ARBITER_CLOSE, 1));
	arbiter_free(hand.arbiter);
}

static void a_yield_passes_the_token_at_once(void **state)
{
	struct hand hand = hand_new(NULL, 1);

	/* No tenant waits: the turn has no end, and a tenant that yields keeps the token. */
	add(&hand, 3, "0.1", NULL, NULL, 1);
	want(&hand, 3);
	step(&hand, 0);
	busy(&hand, 3, 20 * MS, MS);
	arbiter_yield(hand.arbiter, 3, 0);
	step(&hand, MS);
	assert_int_equal(arbiter_turn_ends(hand.arbiter, 3, 0), 0);
	assert_false(did(&hand, ARBITER_CLOSE, 3));
	arbiter_free(hand.arbiter);

	hand = hand_new(NULL, 1);
	two_tenants(&hand, NULL);
	busy(&hand, 1, 20 * MS, 3 * MS);
	step(&hand, MS);
	assert_false(did(&hand, ARBITER_CLOSE, 1));
	assert_true(arbiter_turn_ends(hand.arbiter, 1, 0) > hand.now + 2 * MS);
	assert_int_equal(arbiter_turn_ends(hand.arbiter, 2, 0), 0);
	arbiter_yield(hand.arbiter, 1, 0);
	arbiter_yield(hand.arbiter, 9, 0);
	step(&hand, 0);
	assert_true(did(&hand, ARBITER_CLOSE, 1));
	assert_int_equal(arbiter_turn_ends(hand.arbiter, 1, 0), 0);
	assert_int_equal(arbiter_turn_ends(hand.arbiter, 9, 0), 0);
	arbiter_free(hand.arbiter);
}

/*
 * A turn leaves time for its last submission, which may take as long as the longest submission. A
 * smaller value of arbiter_late() makes the turn longer.
 */
static void a_short_last_submission_makes_longer_turns(void **state)
{
	struct hand hand = hand_new(NULL, 1);
	uint64_t ends;

	two_tenants(&hand, NULL);
	busy(&hand, 1, 20 * MS, 0);
	step(&hand, MS);
	ends = arbiter_turn_ends(hand.arbiter, 1, 0);
	assert_true(ends > hand.now);
	arbiter_late(hand.arbiter, 1, 0, 12 * MS);
	arbiter_late(hand.arbiter, 9, 0, 12 * MS);
	busy(&hand, 1, 20 * MS, 0);
	step(&hand, 0);
	assert_int_equal(arbiter_turn_ends(hand.arbiter, 1, 0), ends + 8 * MS);
	/* a value above the longest submission counts as the longest */
	arbiter_late(hand.arbiter, 1, 0, 90 * MS);
	busy(&hand, 1, 20 * MS, 0);
	step(&hand, 0);
	assert_int_equal(arbiter_turn_ends(hand.arbiter, 1, 0), ends);
	arbiter_free(hand.arbiter);
}

static void a_latency_tenant_opens_in_the_step_of_the_close(void **state)
{
	struct hand hand = hand_new(NULL, 1);
	struct arbiter_usage got;

	add(&hand, 1, "0.5", NULL, "opportunistic", 1);
	add(&hand, 2, "0.3", NULL, "latency", 1);
	want(&hand, 1);
	step(&hand, 0);
	busy(&hand, 1, MS, MS);
	step(&hand, 2 * MS);
	want(&hand, 2);
	step(&hand, 0);
	assert_int_equal(hand.action[0].type, ARBITER_CLOSE);
	assert_int_equal(hand.action[0].tenant, 1);
	assert_int_equal(hand.action[1].type, ARBITER_OPEN);
	assert_int_equal(hand.action[1].tenant, 2);
	assert_int_equal(hand.action[1].window_us, 0);
	arbiter_drained(hand.arbiter, 1, 0, hand.now, hand.now);
	want(&hand, 1);
	busy(&hand, 2, MS, MS);
	step(&hand, 200 * MS);
	assert_false(did(&hand, ARBITER_CLOSE, 2));
	got = usage(&hand, 1, 0);
	assert_int_equal(got.why, ARBITER_WHY_CLASS);
	assert_int_equal(got.why_tenant, 2);
	assert_int_equal(got.entitlement, 0);
	/* Between two requests of latency tenant 2, the arbiter holds off other tenants. */
	arbiter_release(hand.arbiter, 2, 0, hand.now);
	step(&hand, 400 * US);
	assert_false(did(&hand, ARBITER_CLOSE, 2));
	busy(&hand, 2, MS, MS);
	step(&hand, MS);
	assert_false(did(&hand, ARBITER_CLOSE, 2));
	/*
	 * Tenant 2 is idle: opportunistic tenant 1 waits half a millisecond at most, and gets the
	 * short in-flight window of window_latency_us.
	 */
	arbiter_observe(hand.arbiter, 2, 0, false, MS, 0, hand.now);
	step(&hand, 500 * US);
	assert_true(did(&hand, ARBITER_CLOSE, 2));
	/*
	 * Nothing bounds tenant 2's work in flight, and it may have submitted just before its gate
	 * closed. The arbiter opens no other gate until this work has completed.
	 */
	assert_false(did(&hand, ARBITER_OPEN, 1));
	arbiter_drained(hand.arbiter, 2, 0, hand.now, hand.now);
	step(&hand, 0);
	assert_true(did(&hand, ARBITER_OPEN, 1));
	for (size_t i = 0; i < hand.n; i++)
		if (hand.action[i].type == ARBITER_OPEN)
			assert_int_equal(hand.action[i].window_us, 700);
	arbiter_free(hand.arbiter);
}

static void a_dead_holder_loses_the_token_at_once(void **state)
{
	struct hand hand = hand_new(NULL, 1);

	two_tenants(&hand, NULL);
	busy(&hand, 1, MS, MS);
	step(&hand, MS);
	arbiter_remove(hand.arbiter, 1, hand.now);
	step(&hand, 0);
	assert_true(did(&hand, ARBITER_OPEN, 2));
	arbiter_free(hand.arbiter);
}

/*
 * Two tenants with backlog. When tenant `id`'s gate closes, its work in flight completes
 * drain_ns[id] later.
 */
struct both {
	struct hand hand;
	uint64_t drain_ns[3], ends[3];
	bool seems_to_move; /* each look finds that work of a drain has ended */
	uint32_t drains[3];
	uint32_t together; /* how many ms both hold the token, without a break */
};

static bool holds(const struct both *both, arbiter_id id)
{
	return usage(&both->hand, id, 0).holds;
}

static void both_ms(struct both *both)
{
	struct hand *hand = &both->hand;

	step(hand, MS);
	for (arbiter_id id = 1; id <= 2; id++) {
		if (did(hand, ARBITER_CLOSE, id)) {
			want(hand, id);
			both->ends[id] = clock_add_ns(hand->now, both->drain_ns[id]);
			both->drains[id]++;
		}
		if (holds(both, id))
			busy(hand, id, MS, MS);
		else if (hand->now >= both->ends[id])
			arbiter_drained(hand->arbiter, id, 0, hand->now, hand->now);
		else if (both->seems_to_move)
			arbiter_drain_seen(hand->arbiter, id, 0, true, true, hand->now);
	}
	both->together = holds(both, 1) && holds(both, 2) ? both->together + 1 : 0;
}

static struct both both_new(void)
{
	struct both both = {.hand = hand_new(NULL, 1)};

	two_tenants(&both.hand, NULL);
	busy(&both.hand, 1, MS, MS);
	return both;
}

/*
 * A frozen holder never ends its drain. The other tenant waits for the drain's bound at first, and
 * later not at all.
 */
static void others_run_beside_a_frozen_holder(void **state)
{
	struct both both = both_new();
	uint32_t waited = 0;

	both.drain_ns[1] = UINT64_MAX;
	for (int i = 0; i < 6000; i++) {
		both_ms(&both);
		waited = holds(&both, 2) ? 0 : waited + 1;
		assert_true(waited <= 250 + 34);
	}
	assert_true(both.together >= 5000);
	arbiter_free(both.hand.arbiter);
}

/* A drain that now and then never ends costs the full wait only the first time. */
static void occasional_late_drains_cost_little(void **state)
{
	struct both both = both_new();
	uint32_t nobody = 0;

	both.seems_to_move = true;
	for (int i = 0; i < 20000; i++) {
		both.drain_ns[1] = both.drains[1] % 8 == 7 ? UINT64_MAX : MS;
		both_ms(&both);
		nobody += i >= 1000 && !holds(&both, 1) && !holds(&both, 2);
	}
	assert_true(nobody < 19000 / 8);
	arbiter_free(both.hand.arbiter);
}

/* A device that stands still for most of a second shows nothing about its tenants. */
static void a_standstill_of_the_device_makes_no_pair(void **state)
{
	struct both both = both_new();

	both.drain_ns[1] = both.drain_ns[2] = UINT64_MAX;
	for (int i = 0; i < 900; i++)
		both_ms(&both);
	both = (struct both){.hand = both.hand};
	for (int i = 0; i < 1000; i++) {
		both_ms(&both);
		assert_true(i < 100 || !both.together);
	}
	arbiter_free(both.hand.arbiter);
}

/* One drain in eight may pass its bound, for any reason: the tenants are no co-run pair. */
static void slow_drains_make_no_pair(void **state)
{
	struct both both = both_new();
	uint32_t together = 0, n[3] = {0};

	for (int i = 0; i < 60000; i++) {
		for (arbiter_id id = 1; id <= 2; id++)
			both.drain_ns[id] = both.drains[id] % 8 == 7 ? 270 * MS : 0;
		both_ms(&both);
		together += both.together > 0;
		n[1] += holds(&both, 1);
		n[2] += holds(&both, 2);
	}
	assert_true(both.drains[1] + both.drains[2] > 500);
	assert_true(together < 60000 / 8);
	assert_true(n[1] * 10 > n[2] * 9 && n[2] * 10 > n[1] * 9);
	arbiter_free(both.hand.arbiter);
}

static void charges_from_the_begin_of_work_to_its_end(void **state)
{
	struct hand hand = hand_new(NULL, 1);

	add(&hand, 1, "0.2", "0.3", NULL, 1);
	want(&hand, 1);
	step(&hand, 0);
	assert_true(did(&hand, ARBITER_OPEN, 1));
	hand.now += 3 * MS; /* the work begins after 2 ms, and the daemon sees it 1 ms later */
	busy(&hand, 1, MS, 0);
	arbiter_observe_at(hand.arbiter, 1, 0, hand.now - MS, hand.now);
	assert_int_equal(usage(&hand, 1, 0).used_ns, 1 * MS);
	hand.now += 2 * MS;
	arbiter_observe(hand.arbiter, 1, 0, false, MS, 0, hand.now);
	arbiter_observe_at(hand.arbiter, 1, 0, hand.now - MS / 2, hand.now);
	assert_int_equal(usage(&hand, 1, 0).used_ns, 2 * MS + MS / 2);
	hand.now += 5 * MS; /* the tenant pauses */
	busy(&hand, 1, MS, 0);
	arbiter_observe_at(hand.arbiter, 1, 0, hand.now - MS / 4, hand.now);
	assert_int_equal(usage(&hand, 1, 0).used_ns, 2 * MS + 3 * (MS / 4));
	/* No work began or ended since. */
	hand.now += MS;
	busy(&hand, 1, MS, 0);
	arbiter_observe_at(hand.arbiter, 1, 0, hand.now - MS / 4, hand.now);
	assert_int_equal(usage(&hand, 1, 0).used_ns, 3 * MS + 3 * (MS / 4));
	arbiter_free(hand.arbiter);
}

static void charges_a_pause_while_others_wait(void **state)
{
	struct hand hand = hand_new(NULL, 1);
	uint64_t used_ns;

	add(&hand, 1, "0.2", "0.3", NULL, 1);
	add(&hand, 2, "0.2", NULL, NULL, 1);
	want(&hand, 1);
	step(&hand, 0);
	busy(&hand, 1, MS, 0);
	want(&hand, 2);
	step(&hand, MS);
	used_ns = usage(&hand, 1, 0).used_ns;
	assert_int_equal(used_ns, 1 * MS);
	arbiter_observe(hand.arbiter, 1, 0, false, MS, 0, hand.now);
	arbiter_observe_at(hand.arbiter, 1, 0, hand.now - MS / 2, hand.now);
	assert_int_equal(usage(&hand, 1, 0).used_ns, used_ns);
	arbiter_free(hand.arbiter);
}

static void a_limit_holds_for_a_lone_tenant(void **state)
{
	struct hand hand = hand_new(NULL, 1);

	add(&hand, 1, "0.25", "0.5", NULL, 1);
	want(&hand, 1);
	step(&hand, 0);
	assert_int_equal(hand.action[0].window_us, 2000);
	busy(&hand, 1, MS, 0);
	assert_true(arbiter_watches(hand.arbiter, 0));
	step(&hand, 57 * MS); /* a burst of 29 ms, refilled at half speed, lasts 58 ms */
	assert_int_equal(hand.n, 0);
	step(&hand, MS + US);
	assert_true(did(&hand, ARBITER_CLOSE, 1));
	arbiter_drained(hand.arbiter, 1, 0, hand.now, hand.now);
	want(&hand, 1);
	step(&hand, MS);
	assert_int_equal(usage(&hand, 1, 0).why, ARBITER_WHY_LIMIT);
	assert_true(hand.next > hand.now && hand.next < hand.now + 60 * MS);
	step(&hand, hand.next - hand.now);
	assert_true(did(&hand, ARBITER_OPEN, 1));
	arbiter_free(hand.arbiter);
}

static void a_change_takes_effect_on_a_running_tenant(void **state)
{
	struct hand hand = hand_new(NULL, 1);
	struct spec spec;

	two_tenants(&hand, NULL);
	assert_int_equal(usage(&hand, 1, 0).entitlement, 500);
	spec_init(&spec);
	assert_ok(spec_set(&spec, "request", "0.2", NULL));
	assert_ok(spec_set(&spec, "limit", "0.2", NULL));
	assert_ok(spec_finish(&spec, NULL));
	assert_ok(arbiter_change(hand.arbiter, 1, &spec, hand.now, NULL));
	assert_int_equal(usage(&hand, 1, 0).entitlement, 200);
	assert_int_equal(usage(&hand, 2, 0).entitlement, 800);
	assert_ok(spec_set(&spec, "class", "latency", NULL));
	assert_ok(spec_finish(&spec, NULL));
	assert_ok(arbiter_change(hand.arbiter, 1, &spec, hand.now, NULL));
	busy(&hand, 1, MS, 0);
	step(&hand, MS);
	assert_true(usage(&hand, 1, 0).holds);
	arbiter_free(hand.arbiter);
}

/* Charged times sum to the time that passed and lags to zero, to the nanosecond. */
static void charges_and_lags_are_exact(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct rand rand = rand_seeded(seed);
		struct hand hand = hand_new(NULL, 1);
		static const char *const request[] = {"0.333", "0.333", "0.334"};
		uint64_t from = hand.now, sum = 0;
		int64_t lag = 0;

		for (arbiter_id id = 1; id <= 3; id++)
			add(&hand, id, request[id - 1], NULL, NULL, 1);
		for (arbiter_id id = 1; id <= 3; id++)
			want(&hand, id);
		step(&hand, 0);
		for (int i = 0; i < 2000; i++) {
			for (arbiter_id id = 1; id <= 3; id++) {
				want(&hand, id);
				if (usage(&hand, id, 0).holds)
					busy(&hand, id, MS, 0);
				for (size_t k = 0; k < hand.n; k++)
					if (hand.action[k].type == ARBITER_CLOSE &&
						hand.action[k].tenant == id)
						arbiter_drained(
							hand.arbiter, id, 0, hand.now, hand.now);
			}
			step(&hand, 0); /* so that some tenant always holds the device */
			if (hand.n == 0)
				step(&hand, rand_below(&rand, 3) * 333333 + 1);
		}
		for (arbiter_id id = 1; id <= 3; id++) {
			sum += usage(&hand, id, 0).used_ns;
			lag += hand.arbiter->device[0].active[id - 1]->lag;
		}
		assert_int_equal(hand.arbiter->device[0].n_active, 3);
		assert_int_equal(lag, 0);
		assert_true(sum == hand.now - from);
		arbiter_free(hand.arbiter);
	}
}

/*
 * A drain is charged only up to its bound. A late report of an earlier end refunds this charge and
 * no more.
 */
static void a_late_drain_report_refunds_the_charge(void **state)
{
	struct hand hand = hand_new(NULL, 1);
	uint64_t from = hand.now;

	add(&hand, 1, "0.25", "0.5", NULL, 1);
	add(&hand, 2, "0.5", NULL, NULL, 1);
	want(&hand, 1);
	step(&hand, 0);
	busy(&hand, 1, MS, 0);
	while (!did(&hand, ARBITER_CLOSE, 1)) /* tenant 1 is at its limit: its gate stays closed */
		step(&hand, MS);
	want(&hand, 2);
	while (!did(&hand, ARBITER_OPEN, 2))
		step(&hand, MS);
	busy(&hand, 2, MS, 0);
	step(&hand, 10 * MS);
	assert_true(usage(&hand, 1, 0).used_ns < hand.now - from);
	arbiter_drained(hand.arbiter, 1, 0, from, hand.now);
	assert_int_equal(usage(&hand, 1, 0).used_ns, 0);
	assert_int_equal(usage(&hand, 2, 0).used_ns, hand.now - from);
	arbiter_free(hand.arbiter);
}

static void usage_survives_a_restart(void **state)
{
	struct hand hand = hand_new(NULL, 1);

	add(&hand, 1, "0.5", NULL, NULL, 1);
	add(&hand, 2, "0.5", NULL, NULL, 1);
	arbiter_restore(hand.arbiter, 1, 0, 5 * SEC, -(int64_t)(20 * MS));
	assert_true(usage(&hand, 1, 0).used_ns == 5 * SEC);
	assert_int_equal(usage(&hand, 1, 0).lag_ns, -(int64_t)(20 * MS));
	want(&hand, 1);
	want(&hand, 2);
	step(&hand, 0);
	assert_true(did(&hand, ARBITER_OPEN, 2)); /* tenant 1 is in debt */
	arbiter_free(hand.arbiter);
}

static void leaving_and_coming_back_gives_no_credit(void **state)
{
	struct hand hand = hand_new(NULL, 1);

	two_tenants(&hand, NULL);
	busy(&hand, 1, MS, 0);
	step(&hand, 5 * MS);
	arbiter_want(hand.arbiter, 2, 0, false, hand.now);
	step(&hand, 500 * MS);
	assert_true(usage(&hand, 2, 0).lag_ns < (int64_t)(6 * MS));
	want(&hand, 2);
	assert_true(usage(&hand, 2, 0).lag_ns < (int64_t)(6 * MS));
	arbiter_free(hand.arbiter);
}

/* No step looks at tenants that do nothing. */
static void idle_tenants_cost_nothing(void **state)
{
	uint64_t operations[2];

	for (int many = 0; many < 2; many++) {
		struct hand hand = hand_new(NULL, 1);

		for (arbiter_id id = 10; id < (many ? 1010u : 11u); id++)
			add(&hand, id, "0.001", NULL, NULL, 1);
		add(&hand, 1, "0.4", NULL, NULL, 1);
		add(&hand, 2, "0.5", NULL, NULL, 1);
		for (int i = 0; i < 1000; i++) {
			want(&hand, 1);
			want(&hand, 2);
			for (size_t k = 0; k < hand.n; k++) {
				const arbiter_id id = hand.action[k].tenant;

				if (hand.action[k].type == ARBITER_CLOSE)
					arbiter_drained(hand.arbiter, id, 0, hand.now, hand.now);
				if (hand.action[k].type == ARBITER_OPEN)
					busy(&hand, id, MS, 0);
			}
			step(&hand, MS);
		}
		operations[many] = hand.arbiter->operations;
		arbiter_free(hand.arbiter);
	}
	assert_true(operations[0] > 1000);
	assert_true(operations[0] == operations[1]);
}

static void every_policy_serves_every_tenant(void **state)
{
	static const char *const policies[] = {"share", "fifo", "bias", "gemini"};

	for (size_t p = 0; p < ARRAY_SIZE(policies); p++) {
		struct vm *vm = vm_new(1, 150 * US, p);

		vm->config.policy = policies[p];
		vm->n_programs = 3;
		for (uint32_t i = 0; i < 3; i++) {
			vm->program[i].request = i == 0 ? "0.5" : "0.2";
			vm->program[i].kernel_ns = MS;
		}
		vm_run(vm, 10 * SEC);
		assert_true(vm_busy(vm, 0, SEC, 10 * SEC) > 0.98);
		for (uint32_t i = 0; i < 3; i++)
			assert_true(vm_share(vm, i, 0, SEC, 10 * SEC) > 0.15);
		if (p == 1)
			assert_true(vm_error_pp(vm, 0, 333, 100, 2 * SEC, 10 * SEC) < 5);
		vm_free(vm);
	}
}

static void gate_off_enforces_nothing(void **state)
{
	struct vm *vm = vm_new(1, 150 * US, 3);

	vm->config.gate = false;
	vm->n_programs = 2;
	vm->program[0].request = "0.1";
	vm->program[1].request = "0.9";
	vm->program[0].kernel_ns = vm->program[1].kernel_ns = MS;
	vm_run(vm, 10 * SEC);
	assert_true(vm_share(vm, 0, 0, SEC, 10 * SEC) > 0.4);
	vm_free(vm);
}

/* ---- in virtual time ---- */

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

struct latency {
	double share, left_used;
	uint64_t p50, p99, requests;
};

static struct latency run_latency(enum vm_pattern pattern, bool in_company)
{
	static uint64_t times[8192];
	struct vm *vm = vm_new(1, 150 * US, 11);
	struct latency got;

	vm->n_programs = in_company ? 2 : 1;
	vm->program[0].request = "0.5";
	vm->program[0].class = "latency";
	vm->program[0].pattern = pattern;
	vm->program[0].kernel_ns = 500 * US;
	vm->program[0].busy_ns = 5 * MS;
	vm->program[0].period_ns = 16667 * US;
	vm->program[0].latency = times;
	vm->program[0].latency_max = ARRAY_SIZE(times);
	vm->program[1].request = "0.1";
	vm->program[1].class = "opportunistic";
	vm->program[1].kernel_ns = MS;
	vm_run(vm, 30 * SEC);
	got.requests = vm->program[0].requests;
	qsort(times, got.requests, sizeof(times[0]), compare);
	got.p50 = times[got.requests / 2];
	got.p99 = times[got.requests * 99 / 100];
	got.share = vm_share(vm, 0, 0, SEC, 30 * SEC);
	got.left_used = in_company ? vm_share(vm, 1, 0, SEC, 30 * SEC) : 0;
	vm_free(vm);
	return got;
}

static void an_opportunistic_tenant_hardly_delays_a_latency_tenant(void **state)
{
	struct latency alone = run_latency(VM_POISSON, false);
	struct latency both = run_latency(VM_POISSON, true);

	assert_true(alone.requests > 1000);
	/* The latency tenant waits at most for the running kernel, a switch and two wake-ups. */
	assert_true(both.p50 <= alone.p50 + alone.p50 / 20 + 2 * MS);
	assert_true(both.left_used >= 0.85 * (1 - alone.share));
}

static void a_busy_latency_tenant_loses_no_time(void **state)
{
	struct latency alone = run_latency(VM_CLOSED, false);
	struct latency both = run_latency(VM_CLOSED, true);

	assert_true((double)both.requests >= 0.99 * (double)alone.requests);
}

/* Standard tenants keep their requests beside a latency tenant that never stops. */
static void standard_tenants_are_not_starved(void **state)
{
	struct vm *vm = vm_new(1, 150 * US, 2);

	vm->n_programs = 3;
	vm->program[0].request = "0.4";
	vm->program[0].class = "latency";
	vm->program[1].request = "0.3";
	vm->program[2].request = "0.1";
	vm->program[2].class = "opportunistic";
	for (uint32_t i = 0; i < 3; i++)
		vm->program[i].kernel_ns = MS;
	vm_run(vm, 20 * SEC);
	assert_true(vm_share(vm, 1, 0, 2 * SEC, 20 * SEC) > 0.28);
	assert_true(vm_share(vm, 0, 0, 2 * SEC, 20 * SEC) > 0.65);
	vm_free(vm);
}

static uint64_t bursts(uint32_t n)
{
	struct vm *vm = vm_new(1, 150 * US, 9);
	uint64_t sum = 0;

	vm->n_programs = n;
	for (uint32_t i = 0; i < n; i++) {
		vm->program[i].request = "0.2";
		vm->program[i].pattern = VM_DUTY;
		vm->program[i].busy_ns = 20 * MS;
		vm->program[i].period_ns = 80 * MS;
		vm->program[i].kernel_ns = MS;
		vm->program[i].from_ns = i * 13 * MS;
	}
	vm_run(vm, 20 * SEC);
	for (uint32_t i = 0; i < n; i++)
		sum += vm->program[i].requests;
	vm_free(vm);
	return sum;
}

static void bursty_tenants_fill_each_others_gaps(void **state)
{
	assert_true(bursts(4) >= 3 * bursts(1));
}

static uint64_t pair_steps(uint32_t n)
{
	struct vm *vm = vm_new(2, 150 * US, 3);
	uint64_t sum = 0;

	vm->n_programs = n;
	for (uint32_t i = 0; i < n; i++) {
		vm->program[i].request = "0.3";
		vm->program[i].devices = 3;
		vm->program[i].pattern = VM_PAIR;
		vm->program[i].kernel_ns = MS;
		vm->program[i].from_ns = i * 100 * MS;
	}
	vm_run(vm, 20 * SEC);
	for (uint32_t i = 0; i < n; i++) {
		assert_true(vm->program[i].steps > 0);
		sum += vm->program[i].steps;
	}
	vm_free(vm);
	return sum;
}

/* Kernels on two devices that spin for each other: a tenant gets all its devices, or none. */
static void gangs_reach_most_of_the_ideal(void **state)
{
	uint64_t ideal = pair_steps(1);

	assert_true(pair_steps(2) * 10 >= ideal * 8);
	assert_true(pair_steps(3) * 10 >= ideal * 8);
}

static void a_gang_shares_devices_with_single_tenants(void **state)
{
	struct vm *vm = vm_new(2, 150 * US, 3);

	vm->n_programs = 3;
	for (uint32_t i = 0; i < 3; i++) {
		vm->program[i].request = "0.5";
		vm->program[i].devices = (uint64_t[]){3, 1, 2}[i];
		vm->program[i].kernel_ns = MS;
	}
	vm->program[0].pattern = VM_PAIR;
	vm_run(vm, 20 * SEC);
	assert_true(vm_share(vm, 0, 0, 2 * SEC, 20 * SEC) > 0.45);
	assert_true(vm_share(vm, 1, 0, 2 * SEC, 20 * SEC) > 0.45);
	assert_true(vm_share(vm, 2, 1, 2 * SEC, 20 * SEC) > 0.45);
	vm_free(vm);
}

/* Two tenants on one device whose kernels wait for each other soon co-run. */
static void tenants_that_wait_for_each_other_co_run(void **state)
{
	struct vm *vm = vm_new(1, 150 * US, 3);

	vm->n_programs = 2;
	for (uint32_t i = 0; i < 2; i++) {
		vm->program[i].request = "0.5";
		vm->program[i].pattern = VM_RANK;
		vm->program[i].partner = 1 - i;
		vm->program[i].kernel_ns = MS;
	}
	vm_run(vm, 20 * SEC);
	assert_true(vm->program[0].on[0].begun > 4000);
	vm_free(vm);
}

UNIT_MAIN(UNIT(wrong_parameters_are_refused), UNIT(a_lone_tenant_is_open_and_unbounded),
	UNIT(a_newcomer_opens_beside_a_lone_tenant),
	UNIT(the_next_tenant_opens_after_quantum_and_drain),
	UNIT(a_short_last_submission_makes_longer_turns), UNIT(an_idle_holder_gives_way),
	UNIT(an_unused_grant_ends_when_the_next_tenant_submits),
	UNIT(an_unused_grant_stays_when_its_tenant_submits_first),
	UNIT(unused_grants_end_with_their_tenants), UNIT(a_release_passes_the_token_at_once),
	UNIT(a_yield_passes_the_token_at_once),
	UNIT(a_latency_tenant_opens_in_the_step_of_the_close),
	UNIT(a_dead_holder_loses_the_token_at_once), UNIT(others_run_beside_a_frozen_holder),
	UNIT(occasional_late_drains_cost_little), UNIT(a_standstill_of_the_device_makes_no_pair),
	UNIT(slow_drains_make_no_pair), UNIT(a_limit_holds_for_a_lone_tenant),
	UNIT(charges_from_the_begin_of_work_to_its_end), UNIT(charges_a_pause_while_others_wait),
	UNIT(a_change_takes_effect_on_a_running_tenant), UNIT(charges_and_lags_are_exact),
	UNIT(a_late_drain_report_refunds_the_charge), UNIT(usage_survives_a_restart),
	UNIT(leaving_and_coming_back_gives_no_credit), UNIT(idle_tenants_cost_nothing),
	UNIT(every_policy_serves_every_tenant), UNIT(gate_off_enforces_nothing),
	UNIT(an_opportunistic_tenant_hardly_delays_a_latency_tenant),
	UNIT(a_busy_latency_tenant_loses_no_time), UNIT(standard_tenants_are_not_starved),
	UNIT(bursty_tenants_fill_each_others_gaps), UNIT(gangs_reach_most_of_the_ideal),
	UNIT(a_gang_shares_devices_with_single_tenants),
	UNIT(tenants_that_wait_for_each_other_co_run))
