/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks topology spread constraints: counts the matching pods of each domain, and limits by how
 * many a domain may exceed the domain with the fewest.
 */
#include "kuberules/fit-internal.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

static bool is_by_eligible(const struct fit *fit)
{
	return fit->view->minor >= RULES_SPREAD_ELIGIBLE;
}

static bool has_all_labels(const struct fit *fit, uint32_t node)
{
	for (uint32_t i = 0; i < fit->pod->spreads.n; i++)
		if (fit->spreads[i].topology->domains[node] == TOPOLOGY_NONE)
			return false;
	return true;
}

/*
 * Returns whether the node is eligible. The constraint counts only domains that have an eligible
 * node.
 */
static bool is_eligible(const struct fit *fit, const struct spread *spread, uint32_t node)
{
	const struct node *n = fit->view->nodes[node]->node;

	if (!has_all_labels(fit, node))
		return false;
	if (!is_by_eligible(fit))
		return pod_selects_node(fit->pod, n);
	return (spread->affinity_policy || pod_selects_node(fit->pod, n)) &&
		(spread->taints_policy || !fit_untolerated(fit, n));
}

static uint32_t count_matching(
	const struct fit *fit, const struct view_node *node, const struct selector *selector)
{
	uint32_t n = 0;

	if (is_by_eligible(fit) && selector_is_empty(selector))
		return 0;
	for (uint32_t i = 0; i < node->pods.n; i++) {
		const struct object *pod = &node->pods.v[i]->object;

		n += !pod->is_deleting && !strcmp(pod->ns, fit->pod->object.ns) &&
			selector_matches(selector, &pod->labels);
	}
	return n;
}

static void find_least(struct fit_spread *spread)
{
	spread->least = spread->second = INT32_MAX;
	spread->least_domain = TOPOLOGY_NONE;
	for (uint32_t d = 0; d < spread->topology->n_domains; d++) {
		if (!spread->is_present[d])
			continue;
		spread->n_present++;
		if (spread->n[d] < spread->least) {
			spread->second = spread->least;
			spread->least = spread->n[d];
			spread->least_domain = d;
		} else if (spread->n[d] < spread->second) {
			spread->second = spread->n[d];
		}
	}
}

static void count_spread(struct fit *fit, struct fit_spread *spread)
{
	const struct view *view = fit->view;

	for (uint32_t n = 0; n < view->n_nodes; n++)
		if (is_eligible(fit, spread->spread, n))
			spread->is_present[spread->topology->domains[n]] = true;
	for (uint32_t n = 0; n < view->n_nodes; n++) {
		uint32_t domain = spread->topology->domains[n];

		/*
		 * Releases before RULES_SPREAD_ELIGIBLE counted pods on a node without the label in
		 * the domain of the empty value.
		 */
		if (domain == TOPOLOGY_NONE && !is_by_eligible(fit))
			domain = spread->topology->empty_domain;
		if (domain == TOPOLOGY_NONE || !spread->is_present[domain])
			continue;
		if (!is_by_eligible(fit) || is_eligible(fit, spread->spread, n))
			spread->n[domain] += count_matching(
				fit, view->nodes[n], &spread->spread->pods);
	}
	find_least(spread);
}

int fit_spread_prepare(struct fit *fit)
{
	const struct spreads *spreads = &fit->pod->spreads;

	if (!spreads->n)
		return 0;
	fit->spreads = arena_take_array(&fit->arena, spreads->n, sizeof(*fit->spreads));
	if (!fit->spreads)
		return -ENOMEM;
	for (uint32_t i = 0; i < spreads->n; i++) {
		struct fit_spread *spread = &fit->spreads[i];

		spread->spread = &spreads->v[i];
		spread->topology = view_topology(fit->view, spreads->v[i].topology_key);
		if (!spread->topology)
			return -ENOMEM;
		spread->is_self_matching = selector_matches(
			&spreads->v[i].pods, &fit->pod->object.labels);
		spread->n = arena_take_array(
			&fit->arena, spread->topology->n_domains, sizeof(*spread->n));
		spread->is_present = arena_take_array(
			&fit->arena, spread->topology->n_domains, sizeof(*spread->is_present));
		if (!spread->n || !spread->is_present)
			return -ENOMEM;
	}
	for (uint32_t i = 0; i < spreads->n; i++)
		count_spread(fit, &fit->spreads[i]);
	return 0;
}

/*
 * Returns how many nominated pods of the candidate match the constraint; 0 if the node is not
 * eligible.
 */
static uint32_t count_extra(const struct fit *fit, const struct fit_spread *spread,
	const struct fit_candidate *candidate)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < candidate->n_extra; i++) {
		const struct object *pod = &candidate->extra[i]->object;

		n += !strcmp(pod->ns, fit->pod->object.ns) &&
			selector_matches(&spread->spread->pods, &pod->labels);
	}
	return n && is_eligible(fit, spread->spread, candidate->node->index) ? n : 0;
}

static bool is_skewed(const struct fit *fit, const struct fit_spread *spread,
	const struct fit_candidate *candidate)
{
	uint32_t domain = spread->topology->domains[candidate->node->index];
	uint32_t here = spread->is_present[domain] ? spread->n[domain] : 0;
	uint32_t extra = count_extra(fit, spread, candidate), least = spread->least;

	here += extra;
	if (extra && domain == spread->least_domain)
		least = MIN(here, spread->second);
	if (is_by_eligible(fit) && spread->n_present < spread->spread->min_domains)
		least = 0;
	return (int64_t)here + spread->is_self_matching - least > spread->spread->max_skew;
}

struct fit_answer fit_check_spread(struct fit *fit, const struct fit_candidate *candidate)
{
	for (uint32_t i = 0; i < fit->pod->spreads.n; i++) {
		const struct fit_spread *spread = &fit->spreads[i];
		const char *key = spread->topology->key;

		if (spread->topology->domains[candidate->node->index] == TOPOLOGY_NONE)
			return FIT_NO(SPREAD_LABEL, key);
		if (is_skewed(fit, spread, candidate))
			return FIT_NO(SPREAD_SKEW, key);
	}
	return FIT_YES;
}
