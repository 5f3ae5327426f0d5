/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues: use, admission and reclaiming, compared with a second implementation of the rules in this
 * file.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cluster.h"
#include "place/place-internal.h"
#include "place/place-held.h"
#include "place/place-reclaim.h"

/*
 *       a (6000)          b (3000)     c (0), no more than 2000
 *    a1 (2000)  a2 (3000, 1000 of A)
 */
static const struct place_queue_model a2_models[] = {{"A", 1000, 3000}};
static struct place_queue_info tree[] = {
	/* random_clusters_keep_the_queue_rules sets the limit to the quota in some rounds */
	{"a", "", 6000, 9000, 1, NULL, 0},
	{"a1", "a", 2000, PLACE_UNLIMITED, 1, NULL, 0},
	{"a2", "a", 3000, 7000, 2, a2_models, 1},
	{"b", "", 3000, PLACE_UNLIMITED, 1, NULL, 0},
	{"c", "", 0, 2000, 1, NULL, 0},
};
enum { A = 1, A1, A2, B, C };
static const uint32_t leaves[] = {A1, A2, B, C};
static const uint32_t parent[] = {0, 0, A, A, 0, 0};

static bool is_below(uint32_t queue, uint32_t above)
{
	for (; queue; queue = parent[queue])
		if (queue == above)
			return true;
	return false;
}

/* Use by the tenants of the queue and of all queues below; queue 0: by all tenants. */
static uint64_t used_by(const struct place *place, uint32_t queue, uint32_t model)
{
	uint64_t used = 0;

	for (uint32_t i = 0; i < place->n_tenants; i++) {
		const struct place_tenant *t = place_tenant(place, i);

		if (!t || (queue && !is_below(t->spec.queue, queue)))
			continue;
		for (uint32_t k = 0; k < t->n; k++)
			if (model == PLACE_NONE || place->devices[t->device[k]].model == model)
				used += t->spec.share;
	}
	return used;
}

static void check_used(const struct place *place)
{
	for (uint32_t q = A; q <= C; q++) {
		assert_int_equal(
			place_queue_used(place, q, PLACE_NONE), used_by(place, q, PLACE_NONE));
		assert_int_equal(place_queue_used(place, q, 0), used_by(place, q, 0));
		assert_int_equal(place_queue_used(place, q, 1), used_by(place, q, 1));
	}
}

static int64_t beyond(const struct place *place, uint32_t queue, uint32_t model)
{
	int64_t most = (int64_t)used_by(place, queue, PLACE_NONE) - (int64_t)tree[queue - 1].quota;

	if (queue == A2 && model == 0)
		most = MAX(most, (int64_t)used_by(place, A2, 0) - 1000);
	return most;
}

static bool may_go(const struct place *place, const struct place_spec *spec, uint32_t tenant)
{
	const struct place_tenant *t = place_tenant(place, tenant);

	assert_true(t->spec.queue && t->spec.queue != spec->queue);
	for (uint32_t q = t->spec.queue; q && !is_below(spec->queue, q); q = parent[q])
		if (beyond(place, q, place->devices[t->device[0]].model) <= 0)
			return false;
	return true;
}

/*
 * Whether a tenant of the other queue below `a` has borrowed share that the spec's queue may
 * reclaim. Only two queues are below `a`.
 */
static bool is_lent(const struct place *place, const struct place_spec *spec)
{
	for (uint32_t i = 0; i < place->n_tenants; i++) {
		const struct place_tenant *t = place_tenant(place, i);

		if (t && t->n && t->spec.queue != spec->queue && is_below(t->spec.queue, A) &&
			may_go(place, spec, i))
			return true;
	}
	return false;
}

/* Whether a limit forbids the spec devices of the model. */
static bool is_limited(const struct place *place, const struct place_spec *spec, uint32_t model)
{
	const uint64_t asked = (uint64_t)spec->share * spec->count;

	for (uint32_t q = spec->queue; q; q = parent[q])
		if ((tree[q - 1].limit != PLACE_UNLIMITED &&
			    used_by(place, q, PLACE_NONE) + asked > tree[q - 1].limit) ||
			(q == A2 && model == 0 && used_by(place, q, 0) + asked > 3000))
			return true;
	return false;
}

static enum place_admission admission_on(
	const struct place *place, const struct place_spec *spec, uint32_t model)
{
	const uint64_t asked = (uint64_t)spec->share * spec->count;
	const uint64_t used = used_by(place, spec->queue, PLACE_NONE);
	const bool must_wait = is_limited(place, spec, model);
	uint64_t idle = 0;

	for (uint32_t q = spec->queue; q; q = parent[q])
		if (asked > tree[q - 1].limit || (q == A2 && model == 0 && asked > 3000))
			return PLACE_ADMIT_NEVER;
	if (used + asked <= tree[spec->queue - 1].quota &&
		!(spec->queue == A2 && model == 0 && used_by(place, A2, 0) + asked > 1000))
		return must_wait && !is_lent(place, spec) ? PLACE_ADMIT_WAIT : PLACE_ADMIT_NOW;
	if (must_wait)
		return PLACE_ADMIT_WAIT;
	for (uint32_t at = 0; at < place->n_devices; at++)
		idle += place->devices[at].model == model ? 1000 : 0;
	return idle >= used_by(place, 0, model) + asked ? PLACE_ADMIT_BORROW : PLACE_ADMIT_WAIT;
}

static enum place_admission admission(const struct place *place, const struct place_spec *spec)
{
	enum place_admission best = PLACE_ADMIT_NEVER;
	bool has_any = false;
	uint64_t idle = 0;

	if (!spec->count)
		return PLACE_ADMIT_NOW;
	for (uint32_t m = 0; m < 2; m++) {
		bool is_there = false;

		for (uint32_t at = 0; at < place->n_devices; at++)
			is_there = is_there || place->devices[at].model == m;
		if (!is_there || (spec->models && !(spec->models >> m & 1)))
			continue;
		has_any = true;
		best = MIN(best, admission_on(place, spec, m));
		for (uint32_t at = 0; at < place->n_devices && !is_limited(place, spec, m); at++)
			idle += place->devices[at].model == m ? place->share_free[at] : 0;
	}
	/* The idle share of several models may suffice together. */
	if (best == PLACE_ADMIT_WAIT && spec->count > 1 &&
		idle >= (uint64_t)spec->share * spec->count)
		best = PLACE_ADMIT_BORROW;
	return has_any ? best : PLACE_ADMIT_WAIT;
}

/*
 * The order of eviction: largest excess over the quota divided by weight, then low priority, then
 * small share.
 */
static bool goes_before(const struct place *place, uint32_t one, uint32_t other)
{
	const struct place_tenant *a = place_tenant(place, one), *b = place_tenant(place, other);
	const uint32_t p = a->spec.queue, q = b->spec.queue;
	int64_t x = MAX(beyond(place, p, 0), beyond(place, p, 1)) * tree[q - 1].weight;
	int64_t y = MAX(beyond(place, q, 0), beyond(place, q, 1)) * tree[p - 1].weight;

	if (x != y)
		return x > y;
	if (p != q)
		return p < q;
	if (a->spec.priority != b->spec.priority)
		return a->spec.priority < b->spec.priority;
	if (a->spec.share * a->n != b->spec.share * b->n)
		return a->spec.share * a->n < b->spec.share * b->n;
	return one < other;
}

/*
 * Whether each victim, in the order of eviction, may go while its queues still exceed their quotas.
 */
static bool may_all_go(
	struct place *place, const struct place_spec *spec, const uint32_t *victims, uint32_t n)
{
	uint32_t sorted[64], mark;
	bool may = true;

	assert_true(n <= ARRAY_SIZE(sorted));
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = i;

		for (; at && goes_before(place, victims[i], sorted[at - 1]); at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = victims[i];
	}
	mark = place_savepoint(place);
	for (uint32_t i = 0; i < n && may; i++) {
		may = may_go(place, spec, sorted[i]);
		assert_ok(place_remove(place, sorted[i]));
	}
	place_rollback(place, mark);
	place_release(place);
	return may;
}

static void check_victims(
	struct place *place, const struct place_spec *spec, const struct place_plan *plan)
{
	uint32_t mark;

	assert_true(may_all_go(place, spec, plan->victims, plan->n_victims));
	mark = place_savepoint(place);
	for (uint32_t i = 0; i < plan->n_victims; i++)
		assert_ok(place_remove(place, plan->victims[i]));
	assert_int_equal(place_reason_of(place, spec, plan->choice.node), PLACE_FITS);
	place_rollback(place, mark);
	place_release(place);
	for (uint32_t out = 0; out < plan->n_victims; out++) {
		mark = place_savepoint(place);
		for (uint32_t i = 0; i < plan->n_victims; i++)
			if (i != out)
				assert_ok(place_remove(place, plan->victims[i]));
		assert_int_not_equal(place_reason_of(place, spec, plan->choice.node), PLACE_FITS);
		place_rollback(place, mark);
		place_release(place);
	}
}

/*
 * Whether a set of one node's tenants would suffice as victims. Nodes with too many tenants to try
 * all sets are skipped.
 */
static bool has_victims(struct place *place, const struct place_spec *spec)
{
	for (uint32_t node = 0; node < place->n_nodes; node++) {
		uint32_t list[8], n = 0;

		for (uint32_t i = 0; i < place->n_tenants; i++) {
			const struct place_tenant *t = place_tenant(place, i);

			if (t && t->node == node && t->n && t->spec.queue != spec->queue &&
				n < ARRAY_SIZE(list))
				list[n++] = i;
		}
		for (uint32_t set = 1; set < 1u << n; set++) {
			uint32_t victims[8], k = 0, mark = place_savepoint(place);
			bool fits;

			for (uint32_t i = 0; i < n; i++)
				if (set >> i & 1)
					victims[k++] = list[i];
			for (uint32_t i = 0; i < k; i++)
				assert_ok(place_remove(place, victims[i]));
			fits = place_reason_of(place, spec, node) == PLACE_FITS;
			place_rollback(place, mark);
			place_release(place);
			if (fits && may_all_go(place, spec, victims, k))
				return true;
		}
	}
	return false;
}

struct reclaimed {
	uint32_t n, for_a_limit, from_several_nodes;
};

static void count_reclaimed(const struct place *place, const struct place_spec *spec,
	const struct place_plan *plan, struct reclaimed *counted)
{
	const uint64_t asked = (uint64_t)spec->share * spec->count;
	bool is_elsewhere = false;

	for (uint32_t i = 0; i < plan->n_victims; i++)
		is_elsewhere = is_elsewhere ||
			place_tenant(place, plan->victims[i])->node != plan->choice.node;
	counted->n++;
	counted->from_several_nodes += is_elsewhere;
	counted->for_a_limit += is_below(spec->queue, A) &&
		used_by(place, A, PLACE_NONE) + asked > tree[A - 1].limit;
}

static void one_step(struct rand *rand, struct place *place, struct reclaimed *reclaimed)
{
	struct place_spec spec = cluster_spec(rand, place);
	const struct place_preempt rules = {0};
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	struct place_verdict verdict;
	struct place_choice choice;
	uint64_t digest = cluster_digest(place), guaranteed = 0;
	uint32_t tenant, mark;
	int r;

	spec.queue = leaves[rand_below(rand, ARRAY_SIZE(leaves))];
	spec.affinity = 0;
	assert_ok(place_queue_admit(place, &spec, &verdict, NULL));
	assert_int_equal(verdict.admission, admission(place, &spec));
	assert_true(verdict.why[0]);
	if (verdict.admission > PLACE_ADMIT_BORROW)
		return;
	if (place_find(place, &spec, &choice, NULL) == 0) {
		mark = place_savepoint(place);
		assert_ok(place_add(place, &spec, &choice, &tenant, NULL));
		check_used(place);
		if (rand_below(rand, 2))
			place_rollback(place, mark);
		place_release(place);
		check_used(place);
		return;
	}
	r = place_queue_reclaim(place, &spec, &rules, &plan, NULL);
	assert_int_equal(cluster_digest(place), digest);
	if (verdict.admission == PLACE_ADMIT_BORROW) {
		assert_int_equal(r, -EDQUOT);
		return;
	}
	for (uint32_t m = 0; m < 2; m++)
		if ((!spec.models || (spec.models >> m & 1)) &&
			admission_on(place, &spec, m) == PLACE_ADMIT_NOW)
			guaranteed |= 1ull << m;
	spec.models = spec.count ? guaranteed : spec.models;
	if (r < 0) {
		assert_int_equal(r, -ENOSPC);
		assert_false(has_victims(place, &spec));
		return;
	}
	assert_true(plan.n_victims > 0);
	check_victims(place, &spec, &plan);
	count_reclaimed(place, &spec, &plan, reclaimed);
	assert_ok(place_preempt_apply(place, &spec, &plan, &tenant, NULL));
	check_used(place);
}

static void random_clusters_keep_the_queue_rules(void **state)
{
	struct reclaimed reclaimed = {0};

	for (uint64_t seed = 0; seed < 900; seed++) {
		struct rand rand = rand_seeded(seed);
		_cleanup_place_ struct place *place = cluster_new(
			&rand, &place_best_fit, 3 + (uint32_t)rand_below(&rand, 3), 4);

		tree[A - 1].limit = seed % 3 ? tree[A - 1].quota : 9000;
		assert_ok(place_queue_set(place, tree, ARRAY_SIZE(tree), NULL, NULL));
		for (int step = 0; step < 80; step++) {
			uint32_t gone = (uint32_t)rand_below(&rand, place->n_tenants + 1);

			one_step(&rand, place, &reclaimed);
			if (rand_below(&rand, 6) == 0 && place_tenant(place, gone))
				assert_ok(place_remove(place, gone));
			check_used(place);
		}
		/* place_queue_set() counts all tenants anew, with the same result. */
		assert_ok(place_queue_set(place, tree, ARRAY_SIZE(tree), NULL, NULL));
		check_used(place);
	}
	assert_true(reclaimed.n > 50);
	assert_true(reclaimed.for_a_limit > 50);
	assert_true(reclaimed.from_several_nodes > 0);
}

static struct place *four_devices(void)
{
	const struct place_config config = {.policy = &place_first_fit};
	const struct place_device_info devices[4] = {{.memory_bytes = GIB}, {.memory_bytes = GIB},
		{.memory_bytes = GIB}, {.memory_bytes = GIB}};
	const struct place_node_info info = {.name = "n", .n_devices = 4, .devices = devices};
	struct place *place = NULL;
	uint64_t bit;
	uint32_t node;

	assert_ok(place_new(&config, &place, NULL));
	assert_ok(place_model(place, "A", &bit, NULL));
	assert_ok(place_node_add(place, &info, &node, NULL));
	return place;
}

static uint32_t add(struct place *place, uint32_t queue, uint32_t share)
{
	struct place_spec spec = PLACE_SPEC_INIT;
	struct place_choice choice;
	uint32_t tenant;

	spec.queue = queue;
	spec.share = share;
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_ok(place_add(place, &spec, &choice, &tenant, NULL));
	return tenant;
}

/*
 * Queues x and y have borrowed from z. y has weight 2, so it may borrow twice as much as x before
 * it loses tenants first.
 */
static void the_queue_furthest_above_its_guarantee_loses_tenants_first(void **state)
{
	const struct place_queue_info queues[] = {
		{"x", "", 1000, PLACE_UNLIMITED, 1, NULL, 0},
		{"y", "", 1000, 3000, 2, NULL, 0},
		{"z", "", 2000, 4000, 1, NULL, 0},
	};
	_cleanup_place_ struct place *place = four_devices();
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	const struct place_preempt rules = {0};
	struct place_spec spec = PLACE_SPEC_INIT;
	struct place_verdict verdict;
	struct error err = {0};
	uint32_t x;

	assert_ok(place_queue_set(place, queues, 3, NULL, NULL));
	add(place, 1, 1000);
	add(place, 2, 1000);
	add(place, 2, 600);
	add(place, 2, 400);
	x = add(place, 1, 1000);
	assert_true(place_queue_is_before(place, 3, 2));
	assert_true(place_queue_is_before(place, 2, 1));
	spec.queue = 2;
	spec.share = 100;
	assert_ok(place_queue_admit(place, &spec, &verdict, NULL));
	assert_int_equal(verdict.admission, PLACE_ADMIT_WAIT);
	assert_contains(verdict.why, "queue y has 2 devices, 1 of them borrowed, and 0 are idle");
	assert_int_equal(place_queue_reclaim(place, &spec, &rules, &plan, &err), -EDQUOT);
	assert_contains(err.msg, "nothing to reclaim");
	spec.share = 1000;
	spec.count = 4;
	assert_ok(place_queue_admit(place, &spec, &verdict, NULL));
	assert_int_equal(verdict.admission, PLACE_ADMIT_NEVER);
	assert_contains(verdict.why, "queue y may have 3 devices at most, 4 asked");
	spec.queue = 3;
	spec.count = 1;
	spec.priority = 0; /* guarantees also hold for opportunistic tenants */
	assert_ok(place_queue_admit(place, &spec, &verdict, NULL));
	assert_int_equal(verdict.admission, PLACE_ADMIT_NOW);
	assert_contains(verdict.why, "queue z has 0 of its guaranteed 2 devices, 1 asked");
	assert_ok(place_queue_reclaim(place, &spec, &rules, &plan, NULL));
	assert_int_equal(plan.n_victims, 1);
	assert_true(plan.victims[0] == x || plan.victims[0] == 0);
}

static const struct {
	struct place_queue_info queues[2];
	const char *says;
} wrong[] = {
	{{{"a", "b", 1, 1, 1, NULL, 0}, {"b", "a", 1, 1, 1, NULL, 0}}, "lead back"},
	{{{"a", "a", 1, 1, 1, NULL, 0}, {"b", "", 1, 1, 1, NULL, 0}}, "queue a: its parents lead"},
	{{{"a", "", 1, 1, 1, NULL, 0}, {"a", "", 1, 1, 1, NULL, 0}}, "a is named twice"},
	{{{"a", "x", 1, 1, 1, NULL, 0}, {"b", "", 1, 1, 1, NULL, 0}}, "parent 'x' is unknown"},
	{{{"a", "", 1500, 1000, 1, NULL, 0}, {"b", "", 1, 1, 1, NULL, 0}}, "quota 1.5 is above"},
	{{{"a", "", 1500, 2000, 1, NULL, 0}, {"b", "a", 1501, 1600, 1, NULL, 0}},
		"quotas below it are 1.501 together, its own is 1.5"},
	{{{"a", "", 1, 1, 0, NULL, 0}, {"b", "", 1, 1, 1, NULL, 0}}, "weight 0"},
	{{{"", "", 1, 1, 1, NULL, 0}, {"b", "", 1, 1, 1, NULL, 0}}, "queue ''"},
	{{{"a", "", 1ull << 41, PLACE_UNLIMITED, 1, NULL, 0}, {"b", "", 1, 1, 1, NULL, 0}},
		"more than any cluster"},
	{{{"a", "", 1000, 1000, 1, NULL, 0}, {"b", "a", 1000, 5000, 1, a2_models, 1}}, NULL},
	{{{"a", "", 1000, 1000, 1, NULL, 0}, {"b", "a", 999, 5000, 1, a2_models, 1}},
		"queue b, model A: quota 1 is above that of all models, 0.999"},
	{{{"a", "", 1500, 1500, 1, a2_models, 1},
		 {"b", "a", 1200, 1200, 1, (const struct place_queue_model[]){{"A", 1001, 1001}},
			 1}},
		"1.001 together of model A, its own is 1"},
};

static void bad_queues_are_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		_cleanup_place_ struct place *place = four_devices();
		struct error err = {0};
		int r = place_queue_set(place, wrong[i].queues, 2, NULL, &err);

		if (!wrong[i].says) {
			assert_ok(r);
			continue;
		}
		assert_int_equal(r, -EINVAL);
		assert_contains(err.msg, wrong[i].says);
		assert_int_equal(place_queue_n(place), 0);
	}
}

static void refused_queues_leave_no_model(void **state)
{
	_cleanup_place_ struct place *place = four_devices();
	struct place_queue_model model = {.quota = 1, .limit = 0};
	const struct place_queue_info queue = {"q", "", 1000, 1000, 1, &model, 1};
	char name[16];
	uint64_t bit;

	for (uint32_t i = 0; i < 2 * PLACE_MODELS_MAX; i++) {
		snprintf(name, sizeof(name), "m%u", i);
		model.model = name;
		assert_int_equal(place_queue_set(place, &queue, 1, NULL, NULL), -EINVAL);
	}
	assert_ok(place_model(place, "B", &bit, NULL));
	assert_int_equal(bit, 2);
}

/* A cluster of one node that knows models A and B. */
static struct place *one_node(const struct place_config *config, const struct place_node_info *info)
{
	struct place *place = NULL;
	uint32_t node;
	uint64_t bit;

	assert_ok(place_new(config, &place, NULL));
	assert_ok(place_model(place, "A", &bit, NULL));
	assert_ok(place_model(place, "B", &bit, NULL));
	assert_ok(place_node_add(place, info, &node, NULL));
	return place;
}

/*
 * With a share_factor of 2000, an exclusive tenant counts as 2000 permille in its queue, the share
 * of two devices.
 */
static void an_exclusive_tenant_counts_the_whole_device(void **state)
{
	const struct place_config config = {.policy = &place_first_fit, .share_factor = 2000};
	const struct place_device_info device = {.memory_bytes = GIB};
	const struct place_node_info info = {.name = "n", .n_devices = 1, .devices = &device};
	const struct place_queue_info queue = {"q", "", 1000, 2000, 1, NULL, 0};
	_cleanup_place_ struct place *place = one_node(&config, &info);
	struct place_spec spec = PLACE_SPEC_INIT;
	struct place_choice choice;
	struct place_verdict verdict;
	uint32_t tenant;

	assert_ok(place_queue_set(place, &queue, 1, NULL, NULL));
	spec.queue = 1;
	spec.share = 1000;
	assert_ok(place_queue_admit(place, &spec, &verdict, NULL));
	assert_int_equal(verdict.admission, PLACE_ADMIT_NOW);
	spec.is_exclusive = true;
	assert_ok(place_queue_admit(place, &spec, &verdict, NULL));
	assert_int_equal(verdict.admission, PLACE_ADMIT_BORROW);
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_ok(place_add(place, &spec, &choice, &tenant, NULL));
	assert_int_equal(place_queue_used(place, 1, PLACE_NONE), 2000);
	assert_ok(place_queue_set(place, &queue, 1, NULL, NULL));
	assert_int_equal(place_queue_used(place, 1, 0), 2000);
	assert_ok(place_remove(place, tenant));
	assert_int_equal(place_queue_used(place, 1, PLACE_NONE), 0);
}

static void tenants_keep_their_queue(void **state)
{
	_cleanup_place_ struct place *place = four_devices();
	struct place_queue_info queues[17] = {
		{"a", "", 0, 0, 1, NULL, 0}, {"b", "", 0, 0, 1, NULL, 0}};
	struct place_spec spec = PLACE_SPEC_INIT;
	struct place_verdict verdict;
	struct error err = {0};
	char names[17][4];

	queues[1].limit = PLACE_UNLIMITED;
	assert_int_equal(place_queue_set(place, queues, PLACE_QUEUES_MAX + 1, NULL, &err), -EINVAL);
	assert_contains(err.msg, "4097 queues");
	assert_ok(place_queue_set(place, queues, 2, NULL, NULL));
	add(place, 2, 300);
	assert_int_equal(place_queue_set(place, queues, 1, NULL, &err), -EBUSY);
	assert_contains(err.msg, "queue b has tenants");
	queues[0].parent = "b";
	assert_int_equal(place_queue_set(place, queues, 2, NULL, &err), -EBUSY);
	assert_contains(err.msg, "no queue can be below it");
	assert_int_equal(place_queue_used(place, 2, PLACE_NONE), 300);
	spec.share = 1;
	assert_int_equal(place_queue_admit(place, &spec, &verdict, &err), -EINVAL);
	assert_contains(err.msg, "no queue");
	spec.queue = 3;
	assert_int_equal(place_queue_admit(place, &spec, &verdict, &err), -EINVAL);
	assert_contains(err.msg, "queue 3: 2 are known");
	assert_ok(place_remove(place, 0));
	assert_ok(place_queue_set(place, queues, 2, NULL, NULL));
	spec.queue = 2;
	assert_int_equal(place_queue_admit(place, &spec, &verdict, &err), -EINVAL);
	assert_contains(err.msg, "belong to those");
	for (uint32_t i = 0; i < 17; i++) {
		snprintf(names[i], sizeof(names[i]), "%u", i);
		queues[i] = (struct place_queue_info){
			names[i], i ? names[i - 1] : "", 0, 0, 1, NULL, 0};
	}
	assert_int_equal(place_queue_set(place, queues, 17, NULL, &err), -EINVAL);
	assert_contains(err.msg, "up to 15 are possible");
	assert_ok(place_queue_set(place, queues, 16, NULL, &err));
}

/* One T4 and two A100. Queue "q" may have no A100, and "all" at most two devices. */
static struct place *two_models(void)
{
	static const struct place_queue_model none[] = {{"A100", 0, 0}};
	const struct place_queue_info queues[] = {
		{"all", "", 2000, 2000, 1, NULL, 0},
		{"q", "all", 2000, 2000, 1, none, 1},
		{"free", "all", 0, PLACE_UNLIMITED, 1, NULL, 0},
	};
	const struct place_config config = {.policy = &place_first_fit};
	const struct place_device_info devices[3] = {{.model = 1, .memory_bytes = GIB},
		{.memory_bytes = GIB}, {.model = 1, .memory_bytes = GIB}};
	struct place_node_info info = {.name = "a", .n_devices = 2, .devices = devices};
	struct place *place = NULL;
	uint32_t node;
	uint64_t bit;

	assert_ok(place_new(&config, &place, NULL));
	assert_ok(place_model(place, "T4", &bit, NULL));
	assert_ok(place_model(place, "A100", &bit, NULL));
	assert_ok(place_node_add(place, &info, &node, NULL));
	info.name = "b";
	info.n_devices = 1;
	info.devices = &devices[2];
	assert_ok(place_node_add(place, &info, &node, NULL));
	assert_ok(place_queue_set(place, queues, 3, NULL, NULL));
	return place;
}

static void limits_hold_for_each_placement(void **state)
{
	_cleanup_place_ struct place *place = two_models();
	const struct place_preempt rules = {0};
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	struct place_choice choice = {.n = 1, .device = {0}};
	struct place_spec spec = PLACE_SPEC_INIT;
	struct place_verdict verdict;
	struct place_why why;
	uint32_t t[3], other;
	struct error err = {0};
	uint64_t digest;

	spec.queue = 2;
	spec.share = 600;
	assert_ok(place_queue_admit(place, &spec, &verdict, &err));
	assert_int_equal(verdict.admission, PLACE_ADMIT_NOW);
	assert_int_equal(verdict.models, 1);
	assert_int_equal(place_add(place, &spec, &choice, &t[0], &err), -ENOSPC);
	assert_string_equal(err.msg, "queue q may have 0 devices of model A100 at most, 0.6 asked");
	assert_int_equal(place_reason_of(place, &spec, 1), PLACE_OVER_LIMIT);
	assert_ok(place_find(place, &spec, &choice, &err));
	assert_int_equal(choice.device[0], 1);
	assert_ok(place_add(place, &spec, &choice, &t[0], &err));
	/* The next tenant of 0.6 must wait for the T4, or preempt the tenant there. */
	digest = cluster_digest(place);
	assert_int_equal(place_find(place, &spec, &choice, &err), -ENOSPC);
	place_explain(place, &spec, &why);
	assert_int_equal(why.nodes[PLACE_FITS], 0);
	spec.priority = 60;
	assert_ok(place_preempt_find(place, &spec, &rules, &plan, &err));
	assert_int_equal(plan.n_victims, 1);
	assert_int_equal(plan.choice.device[0], 1);
	/* The parent's limit for all models holds for new tenants and for a resize. */
	spec = PLACE_SPEC_INIT;
	spec.queue = 3;
	spec.share = 700;
	assert_int_equal(cluster_digest(place), digest);
	for (int i = 1; i < 3; i++) {
		assert_ok(place_find(place, &spec, &choice, &err));
		assert_ok(place_add(place, &spec, &choice, &t[i], &err));
	}
	digest = cluster_digest(place);
	assert_int_equal(place_resize(place, t[1], 701, 0, &err), -ENOSPC);
	assert_contains(err.msg, "queue all has 2 of the 2 devices that it may have, 0.001 more");
	assert_int_equal(cluster_digest(place), digest);
	assert_ok(place_resize(place, t[1], 600, 0, &err));
	assert_ok(place_resize(place, t[1], 700, 0, &err));
	spec.share = 100;
	assert_int_equal(place_find(place, &spec, &choice, &err), -ENOSPC);
	assert_contains(err.msg, "queue all has 2 of the 2 devices that it may have, 0.1 asked");
	spec.priority = 60;
	assert_int_equal(place_preempt_find(place, &spec, &rules, &plan, &err), -ENOSPC);
	/* Only leaf queues can have tenants. */
	spec.queue = 1;
	assert_int_equal(place_find(place, &spec, &choice, &err), -EINVAL);
	choice = (struct place_choice){.n = 1, .device = {1}};
	assert_int_equal(place_add(place, &spec, &choice, &other, &err), -EINVAL);
	assert_contains(err.msg, "queue all has queues below it");
	/* Running tenants are restored even beyond the limit. */
	spec.queue = 3;
	assert_int_equal(place_add(place, &spec, &choice, &other, &err), -ENOSPC);
	assert_ok(place_restore(place, &spec, &choice, NULL, &other, &err));
	place_plan_done(&plan);
}

/*
 * The queue's quota for all models is used up. The text about idle devices still names the model.
 */
static void idle_devices_are_counted_by_model(void **state)
{
	const struct place_queue_info infos[] = {
		{"q", "", 1000, PLACE_UNLIMITED, 1, NULL, 0},
	};
	_cleanup_place_ struct place *place = two_models();
	struct place_spec spec = PLACE_SPEC_INIT;
	struct place_verdict verdict;

	assert_ok(place_queue_set(place, infos, 1, NULL, NULL));
	add(place, 1, 1000); /* A100 */
	spec.queue = 1;
	spec.share = 400;
	assert_ok(place_queue_admit(place, &spec, &verdict, NULL));
	assert_string_equal(verdict.why,
		"queue q has 1 of its guaranteed 1 devices and borrows: 1 of model T4 are idle");
	add(place, 1, 700); /* T4 */
	spec.models = 1;
	assert_ok(place_queue_admit(place, &spec, &verdict, NULL));
	assert_int_equal(verdict.admission, PLACE_ADMIT_WAIT);
	assert_string_equal(verdict.why,
		"queue q has 1.7 devices, 0.7 of them borrowed, and 0.3 of model T4 are idle to "
		"borrow");
}

/* A node has two devices of each of two models. A tenant of three devices borrows from both. */
static void several_models_are_borrowed_together(void **state)
{
	const struct place_queue_info infos[] = {{"q", "", 0, PLACE_UNLIMITED, 1, NULL, 0}};
	const struct place_config config = {.policy = &place_best_fit};
	struct place_device_info devices[4] = {{.memory_bytes = GIB}, {.memory_bytes = GIB},
		{.model = 1, .memory_bytes = GIB}, {.model = 1, .memory_bytes = GIB}};
	const struct place_node_info info = {.name = "a", .n_devices = 4, .devices = devices};
	_cleanup_place_ struct place *place = one_node(&config, &info);
	struct place_spec spec = PLACE_SPEC_INIT;
	struct place_choice choice;
	struct place_verdict verdict;
	uint32_t tenant;

	assert_ok(place_queue_set(place, infos, 1, NULL, NULL));
	spec.queue = 1;
	spec.share = 1000;
	spec.count = 3;
	assert_ok(place_queue_admit(place, &spec, &verdict, NULL));
	assert_int_equal(verdict.admission, PLACE_ADMIT_BORROW);
	assert_int_equal(verdict.models, 3);
	assert_string_equal(
		verdict.why, "queue q has 0 of its guaranteed 0 devices and borrows: 4 are idle");
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_ok(place_add(place, &spec, &choice, &tenant, NULL));
	spec.count = 2;
	assert_ok(place_queue_admit(place, &spec, &verdict, NULL));
	assert_int_equal(verdict.admission, PLACE_ADMIT_WAIT);
	assert_string_equal(
		verdict.why, "queue q has 3 devices, 3 of them borrowed, and 1 are idle to borrow");
}

/* A tenant on a cordoned device uses nothing of the other devices. */
static void closed_devices_are_not_borrowed(void **state)
{
	const struct place_queue_info infos[] = {{"q", "", 0, PLACE_UNLIMITED, 1, NULL, 0}};
	_cleanup_place_ struct place *place = cluster_by_hand(&place_first_fit, NULL);
	struct place_spec spec = PLACE_SPEC_INIT;
	struct place_device_info devices[2] = {{.memory_bytes = GIB}, {.memory_bytes = GIB}};
	struct place_node_info info = {.name = "a", .n_devices = 2, .devices = devices};
	struct place_verdict verdict;
	uint32_t node;

	assert_ok(place_node_add(place, &info, &node, NULL));
	assert_ok(place_queue_set(place, infos, 1, NULL, NULL));
	spec.share = 1000;
	cluster_put(place, spec, 0);
	devices[0].is_closed = true;
	assert_ok(place_node_update(place, node, &info, NULL));
	spec.queue = 1;
	assert_ok(place_queue_admit(place, &spec, &verdict, NULL));
	assert_int_equal(verdict.admission, PLACE_ADMIT_BORROW);
	devices[0].is_closed = false;
	devices[1].is_closed = true;
	assert_ok(place_node_update(place, node, &info, NULL));
	assert_ok(place_queue_admit(place, &spec, &verdict, NULL));
	assert_int_equal(verdict.admission, PLACE_ADMIT_WAIT);
}

/*
 * Devices are reclaimed only of models with a guarantee, not of models that the queue may only
 * borrow.
 */
static void reclaim_needs_a_guarantee(void **state)
{
	static const struct place_queue_model none[] = {{"A100", 0, PLACE_UNLIMITED}};
	const struct place_queue_info infos[] = {
		{"q", "", 2000, PLACE_UNLIMITED, 1, none, 1},
		{"guest", "", 0, PLACE_UNLIMITED, 1, NULL, 0},
	};
	_cleanup_place_ struct place *place = two_models();
	const struct place_preempt rules = {0};
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	struct place_spec spec = PLACE_SPEC_INIT;
	struct error err = {0};

	assert_ok(place_queue_set(place, infos, 2, NULL, NULL));
	for (int i = 0; i < 3; i++)
		add(place, 2, 1000);
	spec.queue = 1;
	spec.share = 1000;
	assert_ok(place_queue_reclaim(place, &spec, &rules, &plan, &err));
	assert_int_equal(plan.n_victims, 1);
	assert_int_equal(plan.choice.device[0], 1);
}

/*
 * A queue reclaims what its sibling has borrowed, even if the parent's limit for both is reached.
 */
static void guarantees_hold_below_a_limit_of_the_parent(void **state)
{
	const struct place_queue_info queues[] = {
		{"p", "", 2000, 2000, 1, NULL, 0},
		{"a", "p", 1000, PLACE_UNLIMITED, 1, NULL, 0},
		{"b", "p", 1000, PLACE_UNLIMITED, 1, NULL, 0},
		{"other", "", 0, PLACE_UNLIMITED, 1, NULL, 0},
	};
	_cleanup_place_ struct place *place = two_models();
	_cleanup_(place_plan_done) struct place_plan plan = {0}, none = {0};
	const struct place_preempt rules = {0};
	struct place_spec spec = PLACE_SPEC_INIT;
	struct place_verdict verdict;
	struct error err = {0};
	uint32_t first, second, tenant;

	assert_ok(place_queue_set(place, queues, ARRAY_SIZE(queues), NULL, &err));
	first = add(place, 2, 1000);
	second = add(place, 2, 1000);
	spec.queue = 3;
	spec.share = 1000;
	assert_ok(place_queue_admit(place, &spec, &verdict, &err));
	assert_int_equal(verdict.admission, PLACE_ADMIT_NOW);
	assert_string_equal(verdict.why, "queue b has 0 of its guaranteed 1 devices, 1 asked");
	/*
	 * A device is idle, so the tenant of queue "other" is not evicted: only the parent's limit
	 * is in the way.
	 */
	assert_int_equal(place_find(place, &spec, &plan.choice, &err), -ENOSPC);
	assert_ok(place_queue_reclaim(place, &spec, &rules, &plan, &err));
	assert_int_equal(plan.n_victims, 1);
	assert_int_equal(plan.victims[0], first);
	assert_ok(place_preempt_apply(place, &spec, &plan, &tenant, &err));
	assert_int_equal(place_queue_used(place, 1, PLACE_NONE), 2000);
	/* Now each queue below "p" uses exactly its guarantee. */
	assert_ok(place_queue_admit(place, &spec, &verdict, &err));
	assert_int_equal(verdict.admission, PLACE_ADMIT_WAIT);
	assert_int_equal(place_queue_reclaim(place, &spec, &rules, &none, &err), -EDQUOT);
	assert_ok(place_remove(place, second));
}

/* Two tenants of half a device, on two nodes, use up the limit that one whole device needs. */
static void limits_are_kept_across_nodes(void **state)
{
	const struct place_queue_info queues[] = {
		{"p", "", 1000, 1000, 1, NULL, 0},
		{"a", "p", 0, PLACE_UNLIMITED, 1, NULL, 0},
		{"b", "p", 1000, PLACE_UNLIMITED, 1, NULL, 0},
		{"other", "", 0, PLACE_UNLIMITED, 1, NULL, 0},
	};
	_cleanup_place_ struct place *place = two_models();
	_cleanup_(place_plan_done) struct place_plan plan = {0}, late = {0};
	const struct place_preempt rules = {0};
	struct place_spec spec = PLACE_SPEC_INIT;
	struct place_choice at = {.n = 1, .device = {0}};
	struct error err = {0};
	uint32_t half[2], tenant;

	assert_ok(place_queue_set(place, queues, ARRAY_SIZE(queues), NULL, &err));
	spec.queue = 2;
	spec.share = 500;
	assert_ok(place_add(place, &spec, &at, &half[0], &err));
	at = (struct place_choice){.node = 1, .n = 1, .device = {2}};
	assert_ok(place_add(place, &spec, &at, &half[1], &err));
	add(place, 4, 500);
	add(place, 4, 1000);
	add(place, 4, 500);
	spec.queue = 3;
	spec.share = 1000;
	/*
	 * Both tenants of half a device are evicted for the limit. A tenant of queue "other" beside
	 * one of them is evicted for capacity.
	 */
	assert_ok(place_queue_reclaim(place, &spec, &rules, &plan, &err));
	assert_int_equal(plan.n_victims, 3);
	assert_int_equal(plan.victims[0], half[0]);
	assert_int_equal(plan.victims[1], half[1]);
	assert_int_equal(plan.share_lost, 1500);
	assert_ok(place_queue_reclaim(place, &spec, &rules, &late, &err));
	assert_ok(place_preempt_apply(place, &spec, &plan, &tenant, &err));
	assert_int_equal(place_queue_used(place, 1, PLACE_NONE), 1000);
	assert_int_equal(place_queue_used(place, 4, PLACE_NONE), 1500);
	assert_int_equal(place_preempt_apply(place, &spec, &late, &tenant, &err), -ESTALE);
}

/* Ranks tenants of the spec's own queue by priority; all others stay. */
static int rank_own(void *arg, const struct holder *h)
{
	const struct place_spec *spec = arg;

	return h->queue == spec->queue && h->priority < spec->priority ? h->priority : -1;
}

static bool leave_any(void *arg, const struct holder *h)
{
	return true;
}

static void stay_any(void *arg, const struct holder *h)
{
}

/* A queue at its limit evicts its own tenants of lower priority. Idle devices do not help. */
static void a_queue_at_its_limit_preempts_by_priority(void **state)
{
	const struct place_queue_info queues[] = {
		{"q", "", 1000, 1000, 1, NULL, 0},
		{"other", "", 0, PLACE_UNLIMITED, 1, NULL, 0},
	};
	_cleanup_place_ struct place *place = two_models();
	_cleanup_(place_plan_done) struct place_plan plan = {0}, none = {0}, both = {0};
	struct place_spec spec = PLACE_SPEC_INIT, half = PLACE_SPEC_INIT;
	const struct place_preempt_order order = {
		.rank = rank_own, .leave = leave_any, .stay = stay_any, .arg = &spec};
	const struct place_preempt rules = {.order = &order};
	struct place_choice at = {.n = 1, .device = {0}};
	struct error err = {0};
	uint32_t low[2], tenant;

	assert_ok(place_queue_set(place, queues, ARRAY_SIZE(queues), NULL, &err));
	half.queue = 1;
	half.share = 500;
	half.priority = 10;
	assert_ok(place_add(place, &half, &at, &low[0], &err));
	at = (struct place_choice){.node = 1, .n = 1, .device = {2}};
	half.priority = 20;
	assert_ok(place_add(place, &half, &at, &low[1], &err));
	add(place, 2, 500);
	spec.queue = 1;
	spec.share = 500;
	spec.priority = 10;
	assert_int_equal(place_queue_preempt(place, &spec, &rules, &none, &err), -ENOSPC);
	spec.priority = 50;
	assert_int_equal(place_preempt_find(place, &spec, &rules, &none, &err), -ENOSPC);
	assert_ok(place_queue_preempt(place, &spec, &rules, &plan, &err));
	assert_int_equal(plan.n_victims, 1);
	assert_int_equal(plan.victims[0], low[0]);
	/*
	 * A whole device is idle on the first node, so both tenants of half a device are evicted
	 * only for the limit.
	 */
	spec.share = 1000;
	assert_ok(place_queue_preempt(place, &spec, &rules, &both, &err));
	assert_int_equal(both.n_victims, 2);
	assert_int_equal(both.choice.device[0], 1);
	assert_ok(place_preempt_apply(place, &spec, &both, &tenant, &err));
	assert_int_equal(place_queue_used(place, 1, PLACE_NONE), 1000);
	/*
	 * The tenant of the highest priority uses the whole limit now. No tenant ever gets more
	 * than the limit.
	 */
	assert_int_equal(place_queue_preempt(place, &spec, &rules, &none, &err), -ENOSPC);
	spec.count = 2;
	assert_int_equal(place_queue_preempt(place, &spec, &rules, &none, &err), -ENOSPC);
	assert_contains(err.msg, "queue q may have 1 devices at most, 2 asked");
}

/*
 * For capacity on the first node, both tenants there would be evicted. For the limit one victim on
 * another node suffices.
 */
static void victims_for_a_limit_may_be_on_other_nodes(void **state)
{
	const struct place_queue_info queues[] = {
		{"q", "", 0, 1500, 1, NULL, 0},
		{"other", "", 0, PLACE_UNLIMITED, 1, NULL, 0},
	};
	static const struct place_queue_model a100[] = {{"A100", 0, 1000}};
	const struct place_queue_info of_models[] = {
		{"q", "", 0, PLACE_UNLIMITED, 1, a100, 1},
		{"other", "", 0, PLACE_UNLIMITED, 1, NULL, 0},
	};
	_cleanup_place_ struct place *place = two_models();
	_cleanup_(place_plan_done) struct place_plan plan = {0}, of_model = {0};
	struct place_spec spec = PLACE_SPEC_INIT, low = PLACE_SPEC_INIT, other = PLACE_SPEC_INIT;
	const struct place_preempt_order order = {
		.rank = rank_own, .leave = leave_any, .stay = stay_any, .arg = &spec};
	const struct place_preempt rules = {.order = &order};
	struct place_choice at = {.n = 1, .device = {0}};
	struct error err = {0};
	uint32_t tenant, low_tenant;

	assert_ok(place_queue_set(place, queues, ARRAY_SIZE(queues), NULL, &err));
	low.queue = 1;
	low.share = 500;
	low.priority = 10;
	assert_ok(place_add(place, &low, &at, &tenant, &err));
	assert_ok(place_add(place, &low, &at, &low_tenant, &err));
	other.queue = 2;
	other.share = 1000;
	at.device[0] = 1;
	assert_ok(place_add(place, &other, &at, &tenant, &err));
	spec.queue = 1;
	spec.share = 700;
	spec.priority = 90;
	assert_ok(place_queue_preempt(place, &spec, &rules, &plan, &err));
	assert_int_equal(plan.n_victims, 1);
	assert_int_equal(plan.highest, 10);
	assert_int_equal(plan.share_lost, 500);
	assert_int_equal(plan.choice.node, 1);
	assert_ok(place_remove(place, low_tenant));
	at = (struct place_choice){.n = 1, .device = {0}};
	other.share = 500;
	assert_ok(place_add(place, &other, &at, &tenant, &err));
	/*
	 * The limits allow the T4, but tenants of other queues use it. On A100 the queue's own
	 * tenants use up the limit, so they are the victims.
	 */
	assert_ok(place_queue_set(place, of_models, ARRAY_SIZE(of_models), NULL, &err));
	assert_ok(place_queue_preempt(place, &spec, &rules, &of_model, &err));
	assert_int_equal(of_model.n_victims, 1);
	assert_int_equal(of_model.choice.node, 1);
}

/*
 * If evicting tenants on T4 is not enough for the limit of T4, the search evicts none of them. The
 * shares of these tenants still count when the search tries the A100.
 */
static void a_limit_that_stays_leaves_the_counts_alone(void **state)
{
	static const struct place_queue_model limits[] = {{"T4", 0, 1000}, {"A100", 0, 1000}};
	const struct place_queue_info queues[] = {
		{"q", "", 0, 2000, 1, limits, 2},
		{"other", "", 0, PLACE_UNLIMITED, 1, NULL, 0},
	};
	_cleanup_place_ struct place *place = two_models();
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	struct place_spec spec = PLACE_SPEC_INIT, own = PLACE_SPEC_INIT;
	const struct place_preempt_order order = {
		.rank = rank_own, .leave = leave_any, .stay = stay_any, .arg = &spec};
	const struct place_preempt rules = {.order = &order};
	uint32_t low;

	assert_ok(place_queue_set(place, queues, ARRAY_SIZE(queues), NULL, NULL));
	own.queue = 1;
	own.share = 600;
	own.priority = 90;
	cluster_put(place, own, 1);
	own.share = 300;
	own.priority = 10;
	cluster_put(place, own, 1);
	own.share = 500;
	own.priority = 20;
	low = cluster_put(place, own, 2);
	own.queue = 2;
	cluster_put(place, own, 2);
	spec.queue = 1;
	spec.share = 700;
	spec.priority = 50;
	/* The first node's A100 is idle; the tenant that exceeds its limit is on the other node. */
	assert_ok(place_queue_preempt(place, &spec, &rules, &plan, NULL));
	assert_int_equal(plan.n_victims, 1);
	assert_int_equal(plan.victims[0], low);
	assert_int_equal(plan.choice.device[0], 0);
}

UNIT_MAIN(UNIT(limits_hold_for_each_placement), UNIT(idle_devices_are_counted_by_model),
	UNIT(several_models_are_borrowed_together), UNIT(closed_devices_are_not_borrowed),
	UNIT(reclaim_needs_a_guarantee), UNIT(guarantees_hold_below_a_limit_of_the_parent),
	UNIT(limits_are_kept_across_nodes), UNIT(a_queue_at_its_limit_preempts_by_priority),
	cmocka_unit_test(victims_for_a_limit_may_be_on_other_nodes),
	UNIT(a_limit_that_stays_leaves_the_counts_alone),
	UNIT(random_clusters_keep_the_queue_rules),
	UNIT(the_queue_furthest_above_its_guarantee_loses_tenants_first),
	UNIT(bad_queues_are_refused), UNIT(refused_queues_leave_no_model),
	UNIT(an_exclusive_tenant_counts_the_whole_device), UNIT(tenants_keep_their_queue))
