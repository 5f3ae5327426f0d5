/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks pod affinity and anti-affinity in both directions: terms of the new pod about existing
 * pods, and terms of existing pods about the new pod. fit_affinity_prepare() counts the matching
 * pods once, by the domains of each topology. The check of a node then only looks up the counts of
 * the node's domains.
 */
#include "kuberules/fit-internal.h"

#include <errno.h>

#include "base/array.h"
#include "base/cleanup.h"

/*
 * Returns the list's counts for this topology, and adds them with zeroes if they are missing; NULL
 * if memory is exhausted.
 */
static struct fit_counts *want_counts(
	struct fit *fit, struct fit_counts_list *list, const char *topology_key)
{
	const struct topology *topology = view_topology(fit->view, topology_key);
	struct fit_counts *counts;

	if (!topology)
		return NULL;
	for (uint32_t i = 0; i < list->n; i++)
		if (list->v[i].topology == topology)
			return &list->v[i];
	if (array_grow(&list->v, &list->room, list->n + 1, sizeof(*list->v)) < 0)
		return NULL;
	counts = &list->v[list->n];
	counts->topology = topology;
	counts->n = arena_take_array(&fit->arena, topology->n_domains, sizeof(*counts->n));
	if (!counts->n)
		return NULL;
	list->n++;
	return counts;
}

static const struct labels *labels_of_namespace(const struct fit *fit, const char *ns)
{
	static const struct labels none = {NULL, 0};
	const struct object *object = view_find(fit->view, OBJECT_NAMESPACE, "", ns);

	return object ? &object->labels : &none;
}

/*
 * Only a term with a namespace selector needs the labels of the other pod's namespace. Such terms
 * are rare, so other terms save the lookup.
 */
static bool fit_affinity_term_matches(const struct fit *fit, const struct pod_term *term,
	const struct pod *owner, const struct pod *other)
{
	return pod_term_matches(term, owner, other,
		term->namespace_selector.is_given ? labels_of_namespace(fit, other->object.ns)
						  : fit->ns_labels);
}

static bool matches_all(
	const struct fit *fit, const struct pod_terms *terms, const struct pod *other)
{
	for (uint32_t i = 0; i < terms->n; i++)
		if (!fit_affinity_term_matches(fit, &terms->v[i], fit->pod, other))
			return false;
	return terms->n;
}

/* Counts a pod in the node's domain of this topology; returns false if the node has no domain. */
static bool count_in(struct fit_counts *counts, uint32_t node)
{
	uint32_t domain = counts->topology->domains[node];

	if (domain == TOPOLOGY_NONE)
		return false;
	counts->n[domain]++;
	return true;
}

static int count_own(struct fit *fit, const struct pod *other, uint32_t node)
{
	const struct pod *pod = fit->pod;

	if (matches_all(fit, &pod->affinity, other))
		for (uint32_t i = 0; i < pod->affinity.n; i++) {
			struct fit_counts *counts = want_counts(
				fit, &fit->near, pod->affinity.v[i].topology_key);

			if (!counts)
				return -ENOMEM;
			fit->is_any_near = count_in(counts, node) || fit->is_any_near;
		}
	for (uint32_t i = 0; i < pod->anti_affinity.n; i++) {
		const struct pod_term *term = &pod->anti_affinity.v[i];
		struct fit_counts *counts;

		if (!fit_affinity_term_matches(fit, term, pod, other))
			continue;
		counts = want_counts(fit, &fit->away, term->topology_key);
		if (!counts)
			return -ENOMEM;
		count_in(counts, node);
	}
	return 0;
}

static int count_repelling(struct fit *fit, const struct pod *other)
{
	for (uint32_t i = 0; i < other->anti_affinity.n; i++) {
		const struct pod_term *term = &other->anti_affinity.v[i];
		struct fit_counts *counts;
		int node;

		if (!pod_term_matches(term, other, fit->pod, fit->ns_labels))
			continue;
		node = view_find_node(fit->view, other->node);
		if (node < 0)
			return 0;
		counts = want_counts(fit, &fit->repelling, term->topology_key);
		if (!counts)
			return -ENOMEM;
		count_in(counts, (uint32_t)node);
	}
	return 0;
}

int fit_affinity_prepare(struct fit *fit)
{
	const struct view *view = fit->view;
	int r = 0;

	fit->is_self_near = matches_all(fit, &fit->pod->affinity, fit->pod);
	/*
	 * find_not_near() needs counts for the topology of each affinity term, even if no pod
	 * matches.
	 */
	for (uint32_t i = 0; i < fit->pod->affinity.n; i++)
		if (!want_counts(fit, &fit->near, fit->pod->affinity.v[i].topology_key))
			return -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < view->repelling.n; i++)
		r = count_repelling(fit, view->repelling.v[i]);
	if (!fit->pod->affinity.n && !fit->pod->anti_affinity.n)
		return r;
	for (uint32_t n = 0; r == 0 && n < view->n_nodes; n++)
		for (uint32_t i = 0; r == 0 && i < view->nodes[n]->pods.n; i++)
			r = count_own(fit, view->nodes[n]->pods.v[i], n);
	return r;
}

/* Returns the first topology whose domain of this node has matching pods, or NULL. */
static const char *find_in_domain(const struct fit_counts_list *list, uint32_t node)
{
	for (uint32_t i = 0; i < list->n; i++) {
		uint32_t domain = list->v[i].topology->domains[node];

		if (domain != TOPOLOGY_NONE && list->v[i].n[domain])
			return list->v[i].topology->key;
	}
	return NULL;
}

/*
 * Returns the topology key of a failing affinity term, or NULL. A term holds if the node's domain
 * has matching pods. For the first pod of a group whose pods select each other, no node has
 * matching pods. Such a pod, which matches its own terms, only needs a node with the topology
 * labels; otherwise the group could never start.
 */
static const char *find_not_near(const struct fit *fit, uint32_t node)
{
	const char *missing = NULL;

	for (uint32_t i = 0; i < fit->near.n; i++) {
		uint32_t domain = fit->near.v[i].topology->domains[node];

		if (domain == TOPOLOGY_NONE)
			return fit->near.v[i].topology->key;
		if (!fit->near.v[i].n[domain])
			missing = fit->near.v[i].topology->key;
	}
	return missing && !fit->is_any_near && fit->is_self_near ? NULL : missing;
}

/*
 * Checks anti-affinity to a pod that is nominated to this node. Both pods would be in the same
 * domain if the node has the label of the topology.
 */
static struct fit_answer check_extra(
	const struct fit *fit, const struct node *node, const struct pod *extra)
{
	const struct pod *pod = fit->pod;

	if (extra->is_anti_affinity_unclear)
		return FIT_NO(REPELLED_UNCLEAR, extra->object.name);
	for (uint32_t i = 0; i < pod->anti_affinity.n; i++) {
		const struct pod_term *term = &pod->anti_affinity.v[i];

		if (fit_affinity_term_matches(fit, term, pod, extra) &&
			labels_get(&node->object.labels, term->topology_key))
			return FIT_NO(ANTI_AFFINITY, term->topology_key);
	}
	for (uint32_t i = 0; i < extra->anti_affinity.n; i++) {
		const struct pod_term *term = &extra->anti_affinity.v[i];

		if (pod_term_matches(term, extra, pod, fit->ns_labels) &&
			labels_get(&node->object.labels, term->topology_key))
			return FIT_NO(REPELLED, term->topology_key);
	}
	return FIT_YES;
}

struct fit_answer fit_check_affinity(struct fit *fit, const struct fit_candidate *candidate)
{
	struct fit_answer answer = FIT_YES;
	uint32_t node = candidate->node->index;
	const char *key;

	key = find_not_near(fit, node);
	if (key)
		return FIT_NO(AFFINITY, key);
	key = find_in_domain(&fit->away, node);
	if (key)
		return FIT_NO(ANTI_AFFINITY, key);
	key = find_in_domain(&fit->repelling, node);
	if (key)
		return FIT_NO(REPELLED, key);
	for (uint32_t i = 0; candidate->node->pods.n_unclear && i < candidate->node->pods.n; i++)
		if (candidate->node->pods.v[i]->is_anti_affinity_unclear)
			return FIT_NO(REPELLED_UNCLEAR, candidate->node->pods.v[i]->object.name);
	for (uint32_t i = 0; !answer.why && i < candidate->n_extra; i++)
		answer = check_extra(fit, candidate->node->node, candidate->extra[i]);
	return answer;
}
