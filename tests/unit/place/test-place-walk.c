/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random steps through all changes of a placement model. Steps add, resize, evict, move and remove
 * tenants, gangs and halves of remote tenants; they close, shrink, remove and add nodes. Policies,
 * overcommit factors, taints, queues and budgets vary. The test keeps its own list of tenants. From
 * that list it counts every figure anew and checks the rules. Refused and rolled back steps must
 * change nothing. Now and then a new model restores the whole state. Victims are removed at once,
 * or terminate for a while.
 *
 * The environment variable PLACE_STEPS replaces STEPS.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/str.h"
#include "cluster.h"
#include "place/place-conflicts.h"
#include "place/place-defrag.h"
#include "place/place-gang.h"
#include "place/place-internal.h"
#include "place/place-mode.h"
#include "place/place-network.h"
#include "place/place-reclaim.h"

#define STEPS 120000u
#define STEPS_OF_ONE 4000u /* steps of one walk, with one policy and one set of nodes */
#define NODES 10u
#define TENANTS 2048u
#define MEMBERS 6u

static const char *const models[] = {"T4", "A100", "A100-1g.10gb", "A100-3g.40gb"};
static const uint64_t sizes[] = {16 * GIB, 80 * GIB, 10 * GIB, 40 * GIB};

struct walk {
	struct place *place;
	struct rand rand;
	struct place_config config;
	struct place_tenant is[TENANTS]; /* by number; node PLACE_NONE: no such tenant */
	struct place_node_info info[NODES];
	struct place_device_info devices[NODES][PLACE_NODE_DEVICES_MAX];
	char names[NODES][8];
	uint32_t label[8], budget[3];
	uint64_t taint;
	uint32_t n_marks;
};

static uint32_t below(struct walk *w, uint32_t n)
{
	return (uint32_t)rand_below(&w->rand, n);
}

/* ---- the model of a walk ---- */

static void draw_node(struct walk *w, uint32_t i)
{
	struct place_node_info *info = &w->info[i];
	/*
	 * By kind, a node has no devices, whole devices, or MIG instances: two of one size and one
	 * of another.
	 */
	const uint32_t kind = i % 5;

	snprintf(w->names[i], sizeof(w->names[i]), "n%u", i);
	*info = (struct place_node_info){.name = w->names[i],
		.rack = i % 3 ? "r0" : "r1",
		.cpu_milli = 4000 + 4000 * below(w, 6),
		.memory_bytes = (32 + 32 * (uint64_t)below(w, 4)) * GIB,
		.n_tenants_max = below(w, 5) ? 0 : 6 + below(w, 6),
		.taints = below(w, 4) ? 0 : w->taint,
		.labels = &w->label[i % 2],
		.n_labels = 1,
		.n_devices = kind == 0 ? 0 : 1 + below(w, 4),
		.devices = w->devices[i]};
	if (kind == 4)
		info->n_devices = 6;
	for (uint32_t d = 0; d < info->n_devices; d++) {
		uint32_t model = kind == 4 ? 2 + (d % 3 == 2) : kind % 2;

		w->devices[i][d] = (struct place_device_info){
			.model = model, .memory_bytes = sizes[model], .numa = (uint8_t)(d / 2)};
	}
}

static void add_networks(struct place *place, uint32_t node)
{
	uint32_t network;

	for (uint32_t kind = 0; kind < 2; kind++)
		assert_ok(place_network_add(place,
			&(struct place_network_info){.node = node,
				.kind = (enum place_network_kind)kind,
				.mbit = 1000,
				.latency_us = 5},
			&network, NULL));
}

static const struct place_queue_model few[] = {{"T4", 500, 1500}, {"A100", 0, 0}};
static const struct place_queue_info queues[] = {
	{"all", "", 8000, 20000, 1, NULL, 0},
	{"few", "all", 2000, 3000, 1, few, 2},
	{"many", "all", 5000, PLACE_UNLIMITED, 2, NULL, 0},
	{"guest", "", 0, 6000, 1, NULL, 0},
};

static struct place *place_empty(struct walk *w)
{
	struct place *place = NULL;
	char name[16];
	uint64_t bit;

	assert_ok(place_new(&w->config, &place, NULL));
	for (size_t m = 0; m < ARRAY_SIZE(models); m++)
		assert_ok(place_model(place, models[m], &bit, NULL));
	for (uint32_t i = 0; i < ARRAY_SIZE(w->label) + ARRAY_SIZE(w->budget); i++) {
		snprintf(name, sizeof(name), "l%u", i);
		assert_ok(place_label(place, "", name,
			i < ARRAY_SIZE(w->label) ? &w->label[i]
						 : &w->budget[i - ARRAY_SIZE(w->label)],
			NULL));
	}
	assert_ok(place_taint(place, "t", &w->taint, NULL));
	assert_ok(place_queue_set(place, queues, ARRAY_SIZE(queues), NULL, NULL));
	return place;
}

/* ---- figures, counted anew from the test's list ---- */

static uint32_t share_of(const struct walk *w, const struct place_spec *spec)
{
	return spec->is_exclusive ? w->place->config.share_factor : spec->share;
}

static bool is_on(const struct place_tenant *t, uint32_t device)
{
	for (uint32_t k = 0; t->node != PLACE_NONE && k < t->n; k++)
		if (t->device[k] == device)
			return true;
	return false;
}

/* Whether the tenant is on the device and not terminating. */
static bool is_with(const struct place_tenant *t, uint32_t device)
{
	return !t->is_terminating && is_on(t, device);
}

static uint32_t n_leaving(const struct walk *w, uint32_t device)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < TENANTS; i++)
		n += w->is[i].is_terminating && is_on(&w->is[i], device);
	return n;
}

static uint64_t bytes_on(const struct place_tenant *t, uint32_t device)
{
	for (uint32_t k = 0; k < t->n; k++)
		if (t->device[k] == device)
			return t->bytes[k];
	return 0;
}

static void check_device(const struct walk *w, uint32_t at)
{
	const struct place_tenant *first = NULL;
	struct place_device_view view;
	uint64_t share = 0, memory = 0;
	uint32_t n = 0, n_exclusive = 0;

	assert_true(place_device_get(w->place, at, &view));
	for (uint32_t i = 0; i < TENANTS; i++) {
		const struct place_tenant *t = &w->is[i];

		if (!is_with(t, at))
			continue;
		share += share_of(w, &t->spec);
		memory += bytes_on(t, at);
		n_exclusive += t->spec.is_exclusive;
		first = first ? first : t;
		assert_int_equal(t->spec.exclusion, first->spec.exclusion);
		assert_true(!t->spec.models || (t->spec.models >> view.model & 1));
		for (uint32_t k = 0; t->spec.anti_affinity && k < i; k++)
			assert_false(is_with(&w->is[k], at) &&
				w->is[k].spec.anti_affinity == t->spec.anti_affinity);
		n++;
	}
	assert_true(share <= view.share_all && (!n_exclusive || n == 1));
	assert_int_equal(view.share_free, view.share_all - share);
	assert_int_equal(view.memory_free, view.memory_all > memory ? view.memory_all - memory : 0);
	assert_int_equal(view.n_tenants, n);
	assert_int_equal(view.n_terminating, n_leaving(w, at));
}

static void check_node(const struct walk *w, uint32_t at)
{
	struct place_node_view view;
	uint64_t cpu = 0, memory = 0;
	uint32_t n = 0;

	if (!place_node_get(w->place, at, &view))
		return;
	for (uint32_t i = 0; i < TENANTS; i++) {
		if (w->is[i].node != at)
			continue;
		cpu += w->is[i].spec.cpu_milli;
		memory += w->is[i].spec.memory_bytes;
		n++;
	}
	assert_int_equal(view.cpu_free, view.cpu_all > cpu ? view.cpu_all - cpu : 0);
	assert_int_equal(view.memory_free, view.memory_all > memory ? view.memory_all - memory : 0);
	assert_int_equal(view.n_tenants, n);
	for (uint32_t d = 0; d < view.n_devices; d++)
		check_device(w, view.first_device + d);
}

/* Checks that the counts by label equal the sums over all tenants. */
static void check_met(const struct walk *w)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct place_spec spec = PLACE_SPEC_INIT;
		uint32_t *met;

		spec.preferred_anti_affinity = i & 1 ? w->label[4] : w->label[5];
		spec.anti_affinity = i & 2 ? w->label[4] : 0;
		met = cluster_met(w->place, &spec);
		for (uint32_t at = 0; at < w->place->n_devices; at++)
			assert_int_equal(place_count_conflicts(w->place, &spec, at), met[at]);
		free(met);
	}
}

/* Checks that no devices of the node have fewer conflicts than the chosen ones. */
static void check_choice(
	const struct walk *w, const struct place_spec *spec, const struct place_choice *choice)
{
	_cleanup_free_ uint32_t *met = cluster_met(w->place, spec);
	uint32_t n = 0;

	for (uint32_t k = 0; k < choice->n; k++)
		n += met[choice->device[k]];
	assert_int_equal(n, choice->n_conflicts);
	for (uint32_t at = 0; spec->count && at < place_n_nodes(w->place); at++)
		assert_true(place_reason_of(w->place, spec, at) != PLACE_FITS ||
			cluster_fewest(w->place, spec, at, met) >= n);
}

static void check_queue(const struct walk *w, uint32_t queue)
{
	uint64_t used = 0, of[PLACE_MODELS_MAX] = {0};

	for (uint32_t i = 0; i < TENANTS; i++) {
		const struct place_tenant *t = &w->is[i];
		bool is_in = t->spec.queue == queue ||
			(queue == 1 && t->spec.queue > 1 && t->spec.queue < 4);

		is_in &= t->node != PLACE_NONE && !t->is_terminating;
		for (uint32_t k = 0; is_in && k < t->n; k++) {
			used += share_of(w, &t->spec);
			of[w->place->devices[t->device[k]].model] += share_of(w, &t->spec);
		}
	}
	assert_int_equal(place_queue_used(w->place, queue, PLACE_NONE), used);
	assert_true(used <= queues[queue - 1].limit);
	for (uint32_t m = 0; m < ARRAY_SIZE(models); m++)
		assert_int_equal(place_queue_used(w->place, queue, m), of[m]);
	if (queue == 2)
		assert_true(of[0] <= few[0].limit && of[1] == 0);
}

static void check_networks(const struct walk *w)
{
	for (uint32_t net = 1; net <= place_network_n(w->place); net++) {
		const struct network *network = &w->place->networks->list[net - 1];
		uint32_t mbit = 0;

		if (!network->is_used)
			continue;
		for (uint32_t i = 0; i < TENANTS; i++)
			for (int end = 0; end < 2; end++)
				if (w->is[i].node != PLACE_NONE && !w->is[i].is_terminating &&
					w->is[i].spec.network[end] == net)
					mbit += w->is[i].spec.network_mbit;
		assert_int_equal(place_network_free_mbit(w->place, net), network->mbit - mbit);
	}
}

/* Computes place_is_awaiting() from the list of tenants. */
static bool is_awaiting(const struct walk *w, const struct place_tenant *t)
{
	const struct node *node = &w->place->nodes[t->node];
	uint64_t cpu = 0, memory = 0;
	uint32_t n = 0, leaving = 0;

	for (uint32_t i = 0; i < TENANTS; i++) {
		if (w->is[i].node != t->node)
			continue;
		cpu += w->is[i].spec.cpu_milli;
		memory += w->is[i].spec.memory_bytes;
		n++;
		leaving += w->is[i].is_terminating;
	}
	for (uint32_t k = 0; k < t->n; k++)
		if (!t->is_terminating && n_leaving(w, t->device[k]))
			return true;
	return !t->is_terminating && leaving &&
		((t->spec.cpu_milli && cpu > node->cpu_all) ||
			(t->spec.memory_bytes && memory > node->memory_all) ||
			(node->n_tenants_max && n > node->n_tenants_max));
}

static void check_tenants(const struct walk *w)
{
	uint32_t n = 0, uses = 0, counted = 0;

	for (uint32_t i = 0; i < TENANTS; i++) {
		const struct place_tenant *t = place_tenant(w->place, i), *is = &w->is[i];

		assert_int_equal(t != NULL, is->node != PLACE_NONE);
		if (!t)
			continue;
		n++;
		assert_memory_equal(&t->spec, &is->spec, sizeof(t->spec));
		assert_int_equal(t->node, is->node);
		assert_int_equal(t->n, is->n);
		assert_int_equal(t->is_terminating, is->is_terminating);
		assert_int_equal(place_is_awaiting(w->place, i), is_awaiting(w, is));
		assert_memory_equal(t->device, is->device, t->n * sizeof(t->device[0]));
		uses += (t->spec.affinity ? 1u : 0) + (t->spec.anti_affinity ? 1u : 0) +
			(t->spec.exclusion ? 1u : 0) + (t->spec.near ? 1u : 0) +
			(t->spec.budget ? 1u : 0) + (t->spec.preferred_anti_affinity ? 1u : 0);
		if (t->spec.network[0])
			assert_int_equal(place_network_node(w->place, t->spec.network[0]), t->node);
		/*
		 * Both halves exist or none, unless one half was evicted alone and is still
		 * terminating.
		 */
		if (t->peer != PLACE_NONE && !t->is_terminating)
			assert_int_equal(place_peer(w->place, i), t->peer);
	}
	assert_int_equal(place_n_tenants(w->place), n);
	for (uint32_t at = 0; at < w->place->n_nodes; at++)
		uses += w->place->nodes[at].n_labels;
	for (uint32_t id = 1; id <= w->place->n_labels; id++)
		counted += place_label_at(w->place, id) ? place_label_at(w->place, id)->n_uses : 0;
	assert_int_equal(counted, uses);
}

static void check(const struct walk *w)
{
	check_tenants(w);
	for (uint32_t at = 0; at < place_n_nodes(w->place); at++)
		check_node(w, at);
	for (uint32_t queue = 1; queue <= ARRAY_SIZE(queues); queue++)
		check_queue(w, queue);
	check_networks(w);
	check_met(w);
}

/* ---- steps; each returns whether its change was made ---- */

static void has_come(struct walk *w, uint32_t tenant)
{
	assert_true(tenant < TENANTS && w->is[tenant].node == PLACE_NONE);
	w->is[tenant] = *place_tenant(w->place, tenant);
	assert_false(w->is[tenant].is_terminating);
	for (uint32_t k = 0; k < w->is[tenant].n; k++)
		assert_int_equal(n_leaving(w, w->is[tenant].device[k]), 0);
}

static void has_left(struct walk *w, uint32_t tenant)
{
	assert_int_not_equal(w->is[tenant].node, PLACE_NONE);
	w->is[tenant].node = PLACE_NONE;
}

/*
 * Notes that the tenant is terminating. Call after the tenants that it was evicted for were added.
 */
static void has_been_told(struct walk *w, uint32_t tenant)
{
	assert_true(w->is[tenant].node != PLACE_NONE && !w->is[tenant].is_terminating);
	w->is[tenant].is_terminating = true;
}

static uint32_t any_tenant(struct walk *w)
{
	uint32_t from = below(w, TENANTS);

	for (uint32_t i = 0; i < TENANTS; i++)
		if (w->is[(from + i) % TENANTS].node != PLACE_NONE)
			return (from + i) % TENANTS;
	return PLACE_NONE;
}

static struct place_spec draw(struct walk *w)
{
	struct place_spec s = cluster_spec(&w->rand, w->place);

	s.affinity = s.count && !below(w, 8) ? w->label[2 + below(w, 2)] : 0;
	s.anti_affinity = s.count && !below(w, 8) ? w->label[4 + below(w, 2)] : 0;
	s.exclusion = s.count && !below(w, 8) ? w->label[6 + below(w, 2)] : 0;
	s.preferred_anti_affinity = s.count && s.started % 5 < 2 ? w->label[4 + s.started % 5] : 0;
	s.share = s.share && !s.is_exclusive && below(w, 2) ? 1 + below(w, 999) : s.share;
	s.models = below(w, 3) ? 0 : 1 + below(w, 15);
	s.priority = below(w, 101);
	s.class = (enum spec_class)below(w, N_CLASSES);
	s.near = below(w, 10) ? 0 : w->label[below(w, 2)];
	s.tolerations = below(w, 2) ? w->taint : 0;
	s.group = below(w, 4) ? 0 : 1 + below(w, 5);
	s.budget = below(w, 2) ? 0 : w->budget[below(w, 3)];
	s.queue = below(w, 3) ? 2 + below(w, 3) : 0;
	if (!below(w, 20) && place_network_n(w->place)) {
		s.network[0] = 1 + below(w, place_network_n(w->place));
		s.network_mbit = 100 * below(w, 5);
		if (place_network_node(w->place, s.network[0]) == PLACE_NONE)
			s.network[0] = s.network_mbit = 0;
	}
	return s;
}

static void draw_rules(
	struct walk *w, struct place_preempt *ret, struct place_budget budgets[static 3])
{
	for (uint32_t i = 0; i < 3; i++)
		budgets[i] = (struct place_budget){w->budget[i], below(w, 4)};
	*ret = (struct place_preempt){.budgets = budgets,
		.n_budgets = 3,
		.is_forced = !below(w, 4),
		.is_latest_first = below(w, 2),
		.is_graceful = below(w, 2)};
}

/* Checks that no budget is exceeded; the two halves of a remote tenant count once. */
static void check_budgets(const struct walk *w, const struct place_preempt *rules,
	const uint32_t *victims, uint32_t n)
{
	for (uint32_t k = 0; k < rules->n_budgets && !rules->is_forced; k++) {
		uint32_t gone = 0;

		for (uint32_t i = 0; i < n; i++) {
			const struct place_tenant *t = &w->is[victims[i]];

			gone += t->spec.budget == rules->budgets[k].label &&
				(t->peer == PLACE_NONE || victims[i] < t->peer);
		}
		assert_true(gone <= rules->budgets[k].may_evict);
	}
}

static bool step_add(struct walk *w)
{
	struct place_spec spec = draw(w);
	struct place_choice choice;
	uint32_t tenant;
	int r;

	place_note_arrival(w->place, &spec);
	r = place_find(w->place, &spec, &choice, NULL);
	if (r < 0) {
		assert_int_equal(r, -ENOSPC);
		for (uint32_t at = 0; at < place_n_nodes(w->place); at++)
			assert_int_not_equal(place_reason_of(w->place, &spec, at), PLACE_FITS);
		return false;
	}
	assert_int_equal(place_reason_of(w->place, &spec, choice.node), PLACE_FITS);
	for (uint32_t k = 0; k < choice.n; k++)
		assert_int_equal(
			place_device_reason(w->place, &spec, choice.device[k]), PLACE_FITS);
	check_choice(w, &spec, &choice);
	assert_ok(place_add(w->place, &spec, &choice, &tenant, NULL));
	has_come(w, tenant);
	return true;
}

static bool step_remove(struct walk *w)
{
	const uint32_t tenant = any_tenant(w);
	const uint32_t peer = tenant == PLACE_NONE ? PLACE_NONE : place_peer(w->place, tenant);

	if (tenant == PLACE_NONE)
		return false;
	assert_ok(place_remove(w->place, tenant));
	has_left(w, tenant);
	if (peer != PLACE_NONE) {
		assert_ok(place_remove(w->place, peer));
		has_left(w, peer);
	}
	return true;
}

static bool step_resize(struct walk *w)
{
	const uint32_t tenant = any_tenant(w);
	const struct place_tenant *was = &w->is[tenant == PLACE_NONE ? 0 : tenant], *is;

	if (tenant == PLACE_NONE ||
		place_resize(w->place, tenant, 1 + below(w, 1000), below(w, 6) * GIB, NULL) < 0)
		return false;
	is = place_tenant(w->place, tenant);
	assert_false(was->is_terminating);
	for (uint32_t k = 0; k < is->n; k++)
		assert_true(!n_leaving(w, is->device[k]) ||
			(is->spec.share <= was->spec.share && is->bytes[k] <= was->bytes[k]));
	w->is[tenant] = *is;
	return true;
}

/* Marks a random tenant as terminating, alone or with its other half. */
static bool step_leave(struct walk *w)
{
	const uint32_t tenant = any_tenant(w);
	const uint32_t peer = tenant == PLACE_NONE ? PLACE_NONE : place_peer(w->place, tenant);
	struct error err = {0};

	if (tenant == PLACE_NONE || below(w, 2))
		return false;
	assert_ok(place_mark_terminating(w->place, tenant, NULL));
	w->is[tenant].is_terminating = true;
	assert_int_equal(place_resize(w->place, tenant, 1, 1, &err), -EBUSY);
	assert_contains(err.msg, "is terminating");
	if (peer != PLACE_NONE && below(w, 4)) {
		assert_ok(place_mark_terminating(w->place, peer, NULL));
		w->is[peer].is_terminating = true;
	}
	return true;
}

static bool step_gone(struct walk *w)
{
	const uint32_t from = below(w, TENANTS);

	for (uint32_t k = 0; k < TENANTS; k++) {
		const uint32_t i = (from + k) % TENANTS;

		if (w->is[i].node == PLACE_NONE || !w->is[i].is_terminating)
			continue;
		if (place_peer(w->place, i) != PLACE_NONE) {
			const uint32_t peer = place_peer(w->place, i);

			assert_ok(place_remove(w->place, peer));
			has_left(w, peer);
		}
		assert_ok(place_remove(w->place, i));
		has_left(w, i);
		return true;
	}
	return false;
}

/* Preempts by priority, or reclaims from queues above their quotas. */
static bool preempt(struct walk *w, bool is_reclaim)
{
	struct place_spec spec = draw(w);
	struct place_budget budgets[3];
	struct place_preempt rules;
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	uint64_t digest = cluster_digest(w->place);
	uint32_t tenant;
	int r;

	draw_rules(w, &rules, budgets);
	r = is_reclaim ? place_queue_reclaim(w->place, &spec, &rules, &plan, NULL)
		       : place_preempt_find(w->place, &spec, &rules, &plan, NULL);
	assert_int_equal(cluster_digest(w->place), digest);
	if (r < 0) {
		assert_true(r == -ENOSPC || (is_reclaim && (r == -EDQUOT || r == -EINVAL)));
		return false;
	}
	check_budgets(w, &rules, plan.victims, plan.n_victims);
	for (uint32_t i = 0; i < plan.n_victims; i++) {
		assert_false(w->is[plan.victims[i]].is_terminating);
		assert_true(is_reclaim || w->is[plan.victims[i]].spec.priority < spec.priority);
		assert_true(i == 0 || plan.victims[i] > plan.victims[i - 1]);
	}
	assert_ok(place_preempt_apply(w->place, &spec, &plan, &tenant, NULL));
	for (uint32_t i = 0; i < plan.n_victims && !rules.is_graceful; i++)
		has_left(w, plan.victims[i]);
	has_come(w, tenant);
	for (uint32_t i = 0; i < plan.n_victims && rules.is_graceful; i++)
		has_been_told(w, plan.victims[i]);
	return plan.n_victims != 0;
}

static bool step_preempt(struct walk *w)
{
	return preempt(w, false);
}

static bool step_reclaim(struct walk *w)
{
	return preempt(w, true);
}

static bool step_gang(struct walk *w)
{
	struct place_spec members[MEMBERS];
	struct place_budget budgets[3];
	struct place_preempt rules;
	struct place_gang gang = {.members = members,
		.n = 1 + below(w, MEMBERS),
		.threshold = 1 + below(w, 1000),
		.near = (enum place_near)below(w, 3),
		.preempt = below(w, 2) ? &rules : NULL};
	_cleanup_(place_group_done) struct place_group group = {0};
	uint64_t digest = cluster_digest(w->place);
	const bool is_alike = below(w, 2);
	struct error err = {0};
	uint32_t n = 0;
	int r;

	draw_rules(w, &rules, budgets);
	for (uint32_t i = 0; i < gang.n; i++) {
		members[i] = i && is_alike ? members[0] : draw(w);
		members[i].priority = members[0].priority;
	}
	r = place_gang_add(w->place, &gang, &group, &err);
	if (r < 0) {
		assert_int_equal(r, -ENOSPC);
		assert_contains(err.msg, "must fit");
		assert_int_equal(cluster_digest(w->place), digest);
		return false;
	}
	check_budgets(w, &rules, group.victims, group.n_victims);
	for (uint32_t i = 0; i < group.n_victims; i++) {
		assert_true(w->is[group.victims[i]].spec.priority < members[0].priority);
		if (!rules.is_graceful)
			has_left(w, group.victims[i]);
	}
	for (uint32_t i = 0; i < group.n; i++)
		if (group.members[i].tenant != PLACE_NONE) {
			has_come(w, group.members[i].tenant);
			n++;
		}
	for (uint32_t i = 0; i < group.n_victims && rules.is_graceful; i++)
		has_been_told(w, group.victims[i]);
	assert_int_equal(n, group.n_placed);
	assert_true(n >= place_gang_least(gang.n, gang.threshold));
	return true;
}

/* Conflicts on the tenant's first device; the count includes the tenant itself. */
static uint32_t meets_now(const struct walk *w, uint32_t tenant)
{
	const struct place_tenant *t = &w->is[tenant];
	_cleanup_free_ uint32_t *met = cluster_met(w->place, &t->spec);

	return met[t->device[0]];
}

static bool step_defrag(struct walk *w)
{
	_cleanup_(place_defrag_done) struct place_defrag plan = {0};
	struct place_budget budgets[3];
	struct place_preempt rules;
	uint64_t digest = cluster_digest(w->place);

	draw_rules(w, &rules, budgets);
	rules.is_forced = false;
	assert_ok(place_defrag_find(w->place, below(w, 20), &rules, &plan, NULL));
	assert_int_equal(cluster_digest(w->place), digest);
	for (uint32_t i = 0; i < plan.n_moves; i++) {
		const uint32_t tenant = plan.moves[i].tenant;
		const struct place_spec spec = w->is[tenant].spec;
		const uint32_t n_conflicts = meets_now(w, tenant);
		uint32_t moved;

		check_budgets(w, &rules, &tenant, 1);
		assert_true(w->is[tenant].spec.is_movable && !w->is[tenant].is_terminating);
		assert_int_equal(w->place->devices[plan.moves[i].from.device[0]].model,
			w->place->devices[plan.moves[i].to.device[0]].model);
		assert_ok(place_defrag_move(w->place, &plan.moves[i], &moved, NULL));
		has_left(w, tenant);
		has_come(w, moved);
		assert_int_equal(
			spec.preferred_anti_affinity, w->is[moved].spec.preferred_anti_affinity);
		assert_true(meets_now(w, moved) <= n_conflicts);
	}
	return plan.n_moves != 0;
}

static bool step_mode(struct walk *w)
{
	struct place_mode_params params = {.spec = draw(w),
		.mode = below(w, 2) ? SPEC_MODE_REMOTE : SPEC_MODE_AUTO,
		.least_mbit = 100 * below(w, 6)};
	struct place_decision d;
	uint32_t tenants[2];
	int r;

	params.spec.network[0] = params.spec.network_mbit = 0;
	params.spec.near = w->label[below(w, 2)];
	r = place_mode_choose(w->place, &params, &d, NULL);
	assert_true(r == 0 || (r == -EINVAL && !params.spec.count));
	if (r < 0 || d.outcome == PLACE_QUEUED)
		return false;
	assert_ok(place_mode_add(w->place, &d, tenants, NULL));
	has_come(w, tenants[0]);
	if (tenants[1] != PLACE_NONE)
		has_come(w, tenants[1]);
	return tenants[1] != PLACE_NONE;
}

/* Makes a random node closed, smaller, tainted, or as at first. */
static bool step_update(struct walk *w)
{
	const uint32_t i = below(w, NODES), at = place_node_find(w->place, w->names[i]);
	struct place_node_info *info = &w->info[i];

	if (w->n_marks || at == PLACE_NONE)
		return false;
	info->cpu_milli = 2000 + 4000 * below(w, 6);
	info->is_closed = !below(w, 6);
	info->taints = below(w, 4) ? 0 : w->taint;
	for (uint32_t d = 0; d < info->n_devices; d++) {
		w->devices[i][d].is_closed = !below(w, 6);
		w->devices[i][d].memory_bytes = sizes[w->devices[i][d].model] /
			(below(w, 6) ? 1 : 4);
	}
	assert_ok(place_node_update(w->place, at, info, NULL));
	return true;
}

static bool step_node(struct walk *w)
{
	const uint32_t i = below(w, NODES);
	uint32_t at = place_node_find(w->place, w->names[i]);

	if (w->n_marks)
		return false;
	if (at == PLACE_NONE) {
		draw_node(w, i);
		assert_ok(place_node_add(w->place, &w->info[i], &at, NULL));
		add_networks(w->place, at);
		return true;
	}
	return place_node_remove(w->place, at, NULL) == 0;
}

static bool step_label(struct walk *w)
{
	uint32_t label;

	assert_ok(place_label(w->place, "job", below(w, 2) ? "x" : "y", &label, NULL));
	return place_label_forget(w->place, label, NULL) == 0;
}

/* ---- the walk ---- */

static bool (*const steps[])(struct walk *w) = {step_add, step_add, step_add, step_remove,
	step_remove, step_resize, step_preempt, step_gang, step_reclaim, step_defrag, step_mode,
	step_update, step_node, step_label, step_leave, step_gone, step_gone};
static uint32_t n_done[ARRAY_SIZE(steps)]; /* by step: how often the step was not refused */

static void step(struct walk *w)
{
	const uint32_t i = below(w, ARRAY_SIZE(steps));

	n_done[i] += steps[i](w);
}

static void steps_taken_back(struct walk *w)
{
	struct walk *before = malloc(sizeof(*before));
	uint64_t digest = cluster_digest(w->place);
	uint32_t mark;

	memcpy(before->is, w->is, sizeof(w->is));
	mark = place_savepoint(w->place);
	w->n_marks++;
	for (uint32_t k = below(w, 20); k; k--)
		step(w);
	check(w);
	place_rollback(w->place, mark);
	place_release(w->place);
	w->n_marks--;
	memcpy(w->is, before->is, sizeof(w->is));
	free(before);
	assert_int_equal(cluster_digest(w->place), digest);
	check(w);
}

static void read_back_tenant(struct walk *w, struct place *fresh, const struct place_tenant *t)
{
	struct place_choice choice = {.n = t->n};
	struct place_spec spec = t->spec;
	const struct node *was = &w->place->nodes[t->node];
	uint32_t tenant;

	choice.node = place_node_find(fresh, was->name->text);
	for (uint32_t d = 0; d < t->n; d++)
		choice.device[d] = fresh->nodes[choice.node].first_device + t->device[d] -
			was->first_device;
	spec.network[0] = spec.network[1] = 0; /* the new model has no network devices */
	assert_ok(place_restore(fresh, &spec, &choice, t->bytes, &tenant, NULL));
	if (t->is_terminating)
		assert_ok(place_mark_terminating(fresh, tenant, NULL));
}

/*
 * Makes a new model with the same nodes, in the order of their numbers. Restores all tenants,
 * terminating ones first, from a random number on.
 */
static void read_back(struct walk *w)
{
	struct place *fresh = place_empty(w);
	const struct place *place = w->place;
	uint32_t from = below(w, TENANTS), node;

	for (uint32_t at = 0; at < place->n_nodes; at++)
		for (uint32_t i = 0; i < NODES; i++)
			if (place->nodes[at].is_used &&
				!strcmp(place->nodes[at].name->text, w->names[i]))
				assert_ok(place_node_add(fresh, &w->info[i], &node, NULL));
	for (uint32_t k = 0; k < 2 * TENANTS; k++) {
		const struct place_tenant *t = &w->is[(from + k) % TENANTS];

		if (t->node != PLACE_NONE && t->is_terminating == (k < TENANTS))
			read_back_tenant(w, fresh, t);
	}
	assert_int_equal(place_n_tenants(fresh), place_n_tenants(place));
	for (uint32_t at = 0; at < fresh->n_nodes; at++) {
		const uint32_t was = place_node_find(place, fresh->nodes[at].name->text);

		assert_int_equal(fresh->cpu_free[at], place->cpu_free[was]);
		assert_int_equal(fresh->memory_free[at], place->memory_free[was]);
		for (uint32_t d = 0; d < fresh->nodes[at].n_devices; d++) {
			const uint32_t a = fresh->nodes[at].first_device + d,
				       b = place->nodes[was].first_device + d;

			assert_int_equal(fresh->share_open[a], place->share_open[b]);
			assert_int_equal(fresh->share_free[a], place->share_free[b]);
			assert_int_equal(
				fresh->devices[a].memory_free, place->devices[b].memory_free);
			assert_int_equal(fresh->devices[a].n_tags, place->devices[b].n_tags);
			assert_int_equal(
				fresh->devices[a].n_terminating, place->devices[b].n_terminating);
		}
	}
	for (uint32_t q = 1; q <= ARRAY_SIZE(queues); q++)
		assert_int_equal(place_queue_used(fresh, q, PLACE_NONE),
			place_queue_used(place, q, PLACE_NONE));
	place_free(fresh);
}

static void walk(const struct place_policy *policy, uint64_t seed, uint32_t n)
{
	struct walk *w = calloc(1, sizeof(*w));
	uint32_t node;

	w->rand = rand_seeded(seed);
	w->config = (struct place_config){.policy = policy,
		.share_factor = below(w, 2) ? 1000 : 1000 + below(w, 2000),
		.memory_factor = below(w, 2) ? 1000 : 1500};
	w->place = place_empty(w);
	for (uint32_t i = 0; i < TENANTS; i++)
		w->is[i].node = PLACE_NONE;
	for (uint32_t i = 0; i < NODES; i++) {
		draw_node(w, i);
		assert_ok(place_node_add(w->place, &w->info[i], &node, NULL));
		add_networks(w->place, node);
	}
	for (uint32_t i = 0; i < n; i++) {
		step(w);
		if (i % 32 == 0)
			check(w);
		if (i % 200 == 0)
			steps_taken_back(w);
		if (i % 500 == 0)
			read_back(w);
	}
	check(w);
	place_free(w->place);
	free(w);
}

static void every_random_step_keeps_exact_figures(void **state)
{
	const char *asked = getenv("PLACE_STEPS");
	uint64_t n = STEPS, seed = 1;
	size_t policy = 0;

	if (asked)
		assert_ok(parse_uint(str_from(asked), 1, UINT32_MAX, &n, NULL));
	for (; n; n -= MIN(n, STEPS_OF_ONE), seed++, policy++) {
		if (!place_policies[policy])
			policy = 0;
		walk(place_policies[policy], seed, (uint32_t)MIN(n, STEPS_OF_ONE));
	}
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		if (n_done[i] < 20)
			fail_msg("step %zu was done %u times", i, n_done[i]);
}

UNIT_MAIN(UNIT(every_random_step_keeps_exact_figures))
