/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates the queues of GPUPolicies in the placement model. The most specific policy decides on a
 * pod's queue. A policy that selects pods by labels is more specific than a policy that selects
 * namespaces. A policy that selects namespaces is more specific than a policy for all pods. Among
 * equally specific policies the first by name wins. The policy names the queue, or each namespace
 * has a queue with the namespace's name. If policies contradict each other, the later queues by
 * name are left out, and their pods wait. cluster_settle() applies all collected changes.
 */
#include "scheduler/cluster-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "kube/kube-json.h"
#include "place/place-queue.h"

#define GRACE_MAX_S 86400

/* ---- fields of a policy ---- */

static uint64_t milli_or(const json_t *object, const char *key, uint64_t otherwise)
{
	const uint64_t milli = cpolicy_milli(json_object_get(object, key));

	return milli == UINT64_MAX ? otherwise : milli;
}

void cqueue_terms_read(const json_t *queue, struct cqueue_terms *ret)
{
	const json_int_t weight = json_integer_value(json_object_get(queue, "weight"));
	const json_int_t grace_s = json_integer_value(json_object_get(queue, "graceSeconds"));
	const json_t *models = json_object_get(queue, "models");

	/* The structs are compared byte by byte, so padding must be 0. */
	memset(ret, 0, sizeof(*ret));
	str_copy(ret->parent, sizeof(ret->parent), str_from(kube_json_text(queue, "parent")));
	ret->quota = milli_or(queue, "guaranteedShare", 0);
	ret->limit = milli_or(queue, "limitShare", PLACE_UNLIMITED);
	ret->weight = (uint32_t)MIN(MAX(weight, (json_int_t)1), (json_int_t)PLACE_QUEUE_WEIGHT_MAX);
	ret->grace_ns = (uint64_t)MIN(MAX(grace_s, (json_int_t)0), (json_int_t)GRACE_MAX_S) *
		1000000000;
	for (size_t i = 0; i < json_array_size(models) && i < CQUEUE_MODELS_MAX; i++) {
		const json_t *model = json_array_get(models, i);

		str_copy(ret->model[i].name, sizeof(ret->model[i].name),
			str_from(kube_json_text(model, "model")));
		ret->model[i].quota = milli_or(model, "guaranteedShare", PLACE_UNLIMITED);
		ret->model[i].limit = milli_or(model, "limitShare", PLACE_UNLIMITED);
		ret->n_models++;
	}
}

/* ---- queue of a pod ---- */

/* Returns how specific the policy is; a greater number has precedence. */
static int cluster_queue_narrowness(const struct cpolicy *p)
{
	return 2 * p->is_of_pods + (p->is_selecting || json_object_get(p->spec, "namespaces"));
}

/*
 * Returns the policy that decides on the queue of a pod with these labels in the namespace. labels
 * NULL: leaves out policies that select pods.
 */
static const struct cpolicy *cluster_queue_narrowest(
	const struct cluster *c, const char *ns, const struct labels *labels)
{
	const struct cpolicy *best = NULL, *p;

	for (p = c->policies; p; p = p->hh.next) {
		if (!p->has_queue ||
			(best && cluster_queue_narrowness(p) <= cluster_queue_narrowness(best)))
			continue;
		if (p->is_of_pods && !(labels && selector_matches(&p->pods, labels)))
			continue;
		if (cpolicy_selects(c, p, ns))
			best = p;
	}
	return best;
}

static const struct cpolicy *policy_of(const struct cluster *c, const struct cpod *pod)
{
	const struct pod *seen = cpod_view(c, pod);

	if (!pod->requested.n && !pod->assigned.n && !(seen && seen->claims.n))
		return NULL;
	return cluster_queue_narrowest(c, pod->ns, seen ? &seen->object.labels : NULL);
}

static const char *cluster_queue_policy_name(const struct cpolicy *p, const struct cpod *pod)
{
	return p->queue[0] ? p->queue : pod->ns;
}

static struct cqueue *cluster_queue_find_named(struct cqueue *queues, uint32_t n, const char *name)
{
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(queues[i].name, name))
			return &queues[i];
	return NULL;
}

bool cpod_find_queue(struct cluster *c, struct cpod *pod)
{
	const struct cpolicy *p = policy_of(c, pod);
	const struct cqueue *was = pod->queue;

	pod->queue = p ? cluster_queue_find_named(
				 c->queues, c->n_queues, cluster_queue_policy_name(p, pod))
		       : NULL;
	/*
	 * The queue does not exist yet, because the pod is the first of its namespace;
	 * cluster_settle() makes it.
	 */
	c->is_unsettled |= p && !pod->queue;
	return pod->queue != was;
}

uint32_t cpod_queue_number(const struct cluster *c, const struct cpod *pod)
{
	const uint32_t number = pod->queue ? pod->queue->number : 0;

	return place_queue_check(c->place, number, NULL) == 0 ? number : 0;
}

/* ---- queues of all policies ---- */

struct list {
	struct cqueue *v;
	uint32_t n, room;
};

static int cluster_queue_list_add(struct list *l, const struct cpolicy *p, const char *name)
{
	struct cqueue *q;

	/* The first policy that names the queue defines it. */
	if (cluster_queue_find_named(l->v, l->n, name))
		return 0;
	if (array_grow(&l->v, &l->room, l->n + 1ul, sizeof(*l->v)) < 0)
		return -ENOMEM;
	q = &l->v[l->n++];
	memset(q, 0, sizeof(*q));
	str_copy(q->name, sizeof(q->name), str_from(name));
	str_copy(q->policy, sizeof(q->policy), str_from(p->name));
	q->terms = p->terms;
	return 0;
}

/* Namespaces that the policy names get queues even without pods. */
static int add_named(const struct cluster *c, struct list *l, const struct cpolicy *p)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < p->namespaces.n; i++)
		if (*p->namespaces.v[i] &&
			cluster_queue_narrowest(c, p->namespaces.v[i], NULL) == p)
			r = cluster_queue_list_add(l, p, p->namespaces.v[i]);
	return r;
}

static int cluster_queue_collect(const struct cluster *c, struct list *l)
{
	const struct cpolicy *p;
	const struct cpod *pod;
	int r = 0;

	for (p = c->policies; r == 0 && p; p = p->hh.next)
		if (p->has_queue)
			r = p->queue[0] ? cluster_queue_list_add(l, p, p->queue)
					: add_named(c, l, p);
	for (pod = c->pods; r == 0 && pod; pod = pod->hh.next) {
		p = policy_of(c, pod);
		if (p)
			r = cluster_queue_list_add(l, p, cluster_queue_policy_name(p, pod));
	}
	return r;
}

static bool is_as_it_was(struct cluster *c, struct list *l)
{
	struct cpod *pod;

	if (c->has_spaces || l->n != c->n_queues ||
		cluster_greatest_overcommit(c) != MAX(c->overcommit, 1000u))
		return false;
	for (uint32_t i = 0; i < l->n; i++) {
		const struct cqueue *q = cluster_queue_find_named(
			c->queues, c->n_queues, l->v[i].name);

		if (!q || strcmp(q->policy, l->v[i].policy) ||
			memcmp(&q->terms, &l->v[i].terms, sizeof(q->terms)) != 0)
			return false;
	}
	for (pod = c->pods; pod; pod = pod->hh.next)
		if (cpod_find_queue(c, pod))
			return false;
	return true;
}

/* ---- consistent queues ---- */

/* Replaces the placement model's queues by these, in the given order. */
static int cluster_queue_set_queues(
	struct cluster *c, struct cqueue *const *queues, uint32_t n, struct error *err)
{
	_cleanup_free_ struct place_queue_info *infos = calloc(n + 1ul, sizeof(*infos));
	_cleanup_free_ struct place_queue_model *models = calloc(
		(n + 1ul) * CQUEUE_MODELS_MAX, sizeof(*models));

	if (!infos || !models)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		const struct cqueue_terms *t = &queues[i]->terms;
		struct place_queue_model *of = &models[i * CQUEUE_MODELS_MAX];

		infos[i] = (struct place_queue_info){
			queues[i]->name, t->parent, t->quota, t->limit, t->weight, of, t->n_models};
		for (uint32_t m = 0; m < t->n_models; m++)
			of[m] = (struct place_queue_model){
				t->model[m].name, t->model[m].quota, t->model[m].limit};
	}
	return place_queue_set(c->place, infos, n, NULL, err);
}

struct choice {
	/* taken: consistent so far; left: still to try, parents before children */
	struct cqueue **taken, **left;
	uint32_t n_taken, n_left;
};

/*
 * Adds the n queues of `left` from index `from` on to `taken`, if they are consistent with the
 * queues there. If they are not, tries each half of these queues by itself. A single inconsistent
 * queue keeps the error as its refusal.
 */
static int take_range(struct cluster *c, struct choice *choice, uint32_t from, uint32_t n)
{
	struct error err = {0};
	int r;

	if (!n)
		return 0;
	memcpy(&choice->taken[choice->n_taken], &choice->left[from], n * sizeof(*choice->taken));
	r = cluster_queue_set_queues(c, choice->taken, choice->n_taken + n, &err);
	if (r == 0)
		choice->n_taken += n;
	else if (n == 1 && r != -ENOMEM)
		choice->left[from]->refusal = err;
	if (r == 0 || r == -ENOMEM || n == 1)
		return r == -ENOMEM ? r : 0;
	r = take_range(c, choice, from, n / 2);
	return r < 0 ? r : take_range(c, choice, from + n / 2, n - n / 2);
}

/*
 * Returns the number of the queue's ancestors; PLACE_QUEUE_DEPTH if there are too many or one of
 * them is missing.
 */
static uint32_t depth_of(struct list *l, const struct cqueue *q)
{
	uint32_t depth = 0;

	while (q && q->terms.parent[0] && depth < PLACE_QUEUE_DEPTH) {
		q = cluster_queue_find_named(l->v, l->n, q->terms.parent);
		depth++;
	}
	return q ? depth : PLACE_QUEUE_DEPTH;
}

static void cluster_queue_order(struct list *l, struct choice *choice)
{
	for (uint32_t depth = 0; depth < PLACE_QUEUE_DEPTH; depth++)
		for (uint32_t i = 0; i < l->n; i++)
			if (depth_of(l, &l->v[i]) == depth)
				choice->left[choice->n_left++] = &l->v[i];
	for (uint32_t i = 0; i < l->n; i++)
		if (depth_of(l, &l->v[i]) == PLACE_QUEUE_DEPTH)
			fail(&l->v[i].refusal, EINVAL,
				"queue %s: parent %s, or a queue above it, does not exist, is "
				"below queue %s, or is too deep: at most %u levels are allowed",
				l->v[i].name, l->v[i].terms.parent, l->v[i].name,
				(unsigned int)PLACE_QUEUE_DEPTH);
}

static int cluster_queue_choose(struct cluster *c, struct list *l)
{
	_cleanup_free_ struct cqueue **taken = calloc(l->n + 1ul, sizeof(struct cqueue *));
	_cleanup_free_ struct cqueue **left = calloc(l->n + 1ul, sizeof(struct cqueue *));
	const struct cqueue **by_queue = calloc(l->n + 1ul, sizeof(struct cqueue *));
	struct choice choice = {taken, left, 0, 0};
	int r = taken && left && by_queue ? 0 : -ENOMEM;

	if (r == 0)
		cluster_queue_order(l, &choice);
	r = r < 0 ? r : cluster_queue_set_queues(c, NULL, 0, NULL);
	r = r < 0 ? r : take_range(c, &choice, 0, choice.n_left);
	if (r < 0) {
		free(by_queue);
		return r;
	}
	for (uint32_t i = 0; i < choice.n_taken; i++) {
		taken[i]->number = i + 1;
		by_queue[i] = taken[i];
	}
	free(c->by_queue);
	c->by_queue = by_queue;
	c->n_by_queue = choice.n_taken;
	return 0;
}

/*
 * Removes all tenants first, because a tenant keeps its queue's number while it is in the placement
 * model.
 */
static int cluster_queue_put_in_force(struct cluster *c, struct list *l)
{
	struct cnode *node;
	struct cpod *pod;
	int r;

	for (node = c->nodes; node; node = node->hh.next)
		cnode_uncount(c, node);
	for (pod = c->pods; pod; pod = pod->hh.next)
		cluster_forget_labels(c, pod);
	c->overcommit = cluster_greatest_overcommit(c);
	c->claims_counted = UINT64_MAX;
	r = cluster_queue_choose(c, l);
	if (r < 0) {
		/*
		 * After an error there are no queues rather than wrong ones; the next
		 * cluster_settle() tries again.
		 */
		cluster_queue_set_queues(c, NULL, 0, NULL);
		l->n = c->n_by_queue = 0;
		c->is_unsettled = true;
	}
	free(c->queues);
	c->queues = TAKE_PTR(l->v);
	c->n_queues = l->n;
	for (pod = c->pods; pod; pod = pod->hh.next) {
		int found = cpod_find_group(c, pod);

		cpod_find_queue(c, pod);
		r = r < 0 ? r : found;
	}
	for (node = c->nodes; node; node = node->hh.next) {
		int counted = cnode_count(c, node);

		r = r < 0 ? r : counted;
	}
	c->has_news = true;
	return r;
}

int cluster_settle(struct cluster *c, bool *ret_changed)
{
	struct list l = {0};
	bool has_changed = false;
	int r;

	*ret_changed = c->has_other_gangs;
	c->has_other_gangs = false;
	if (!c->is_unsettled)
		return 0;
	r = cluster_queue_collect(c, &l);
	if (r == 0) {
		has_changed = !is_as_it_was(c, &l);
		c->is_unsettled = false;
	}
	if (r == 0 && has_changed)
		r = cluster_queue_put_in_force(c, &l);
	*ret_changed |= has_changed;
	c->has_other_gangs = *ret_changed && r < 0;
	c->has_spaces = c->has_spaces && r < 0;
	free(l.v);
	return r;
}

/* ---- order ---- */

bool cluster_queue_is_before(const struct cluster *c, uint32_t a, uint32_t b)
{
	return place_queue_is_before(c->place, a, b);
}

bool cluster_queue_is_below_guarantee(const struct cluster *c, uint32_t queue)
{
	return queue && queue <= c->n_by_queue &&
		place_queue_used(c->place, queue, PLACE_NONE) < c->by_queue[queue - 1]->terms.quota;
}

const char *cpod_queue(const struct cpod *pod)
{
	return pod->queue ? pod->queue->name : "";
}

uint32_t cpod_queue_index(const struct cluster *c, const struct cpod *pod)
{
	return cpod_queue_number(c, pod);
}

/* ---- refusals ---- */

bool cluster_queue_takes(const struct cluster *c, const struct cpod *pod, struct buf *why)
{
	struct error err = {0};

	if (!pod->queue || !pod->requested.n)
		return true;
	if (pod->queue->refusal.code)
		buf_addf(why, "policy %s: %s", pod->queue->policy, pod->queue->refusal.msg);
	else if (place_queue_check(c->place, pod->queue->number, &err) < 0)
		buf_add_text(why, err.msg);
	else
		return true;
	return false;
}

bool cluster_queue_explain(struct cluster *c, const struct cpod *pod, struct buf *why)
{
	for (uint32_t i = 0; i < pod->requested.n; i++) {
		struct place_verdict verdict;
		struct place_spec spec;

		if (pod->requested.v[i].host != i)
			continue;
		if (cluster_spec(c, pod, i, &spec) < 0 || !spec.queue ||
			place_queue_admit(c->place, &spec, &verdict, NULL) < 0)
			return false;
		if (verdict.admission > PLACE_ADMIT_BORROW && verdict.models) {
			buf_addf(why, "; %s", verdict.why);
			return true;
		}
	}
	return false;
}
