/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that depend only on the node and its pods: taints, node affinity, declared features, host
 * ports and resources.
 */
#include "kuberules/fit-internal.h"

#include <string.h>

#include "base/cleanup.h"
#include "kuberules/declared-features.h"

const struct taint *fit_untolerated(const struct fit *fit, const struct node *node)
{
	for (uint32_t i = 0; i < node->taints.n; i++) {
		const struct taint *taint = &node->taints.v[i];

		if (taint->effect != TAINT_PREFER && !tolerates(&fit->pod->tolerations, taint))
			return taint;
	}
	return NULL;
}

struct fit_answer fit_check_node(struct fit *fit, const struct fit_candidate *candidate)
{
	static const struct taint cordon = {
		"node.kubernetes.io/unschedulable", "", TAINT_NO_SCHEDULE};
	const struct node *node = candidate->node->node;
	const struct pod *pod = fit->pod;
	const struct taint *taint;
	const char *feature;

	if (node->object.refusal.code)
		return FIT_NO(NODE_UNCLEAR, node->object.refusal.msg);
	if (node->is_unschedulable && !tolerates(&pod->tolerations, &cordon))
		return FIT_NO(CORDONED, NULL);
	if (*pod->node && strcmp(pod->node, node->object.name) != 0)
		return FIT_NO(OTHER_NODE, NULL);
	taint = fit_untolerated(fit, node);
	if (taint)
		return FIT_NO(TAINT, taint->key);
	if (!pod_selects_node(pod, node))
		return FIT_NO(NODE_AFFINITY, NULL);
	feature = declared_features_missing(pod->features, node->features, fit->view->minor);
	if (feature)
		return FIT_NO(FEATURE, feature);
	return FIT_YES;
}

struct fit_answer fit_check_ports(struct fit *fit, const struct fit_candidate *candidate)
{
	const struct host_ports *wanted = &fit->pod->ports;

	for (uint32_t p = 0; wanted->n && p < candidate_n_pods(candidate); p++) {
		const struct host_ports *taken = &candidate_pod(candidate, p)->ports;

		for (uint32_t i = 0; i < taken->n; i++)
			for (uint32_t k = 0; k < wanted->n; k++)
				if (host_port_conflicts(&wanted->v[k], &taken->v[i]))
					return FIT_NO(PORT, NULL);
	}
	return FIT_YES;
}

/* Returns the use of one resource: `used` plus the requests of the pods in candidate->extra. */
static int64_t fit_node_used_amount(const struct fit_candidate *candidate, int64_t used,
	int64_t (*get)(const struct resources *, const char *), const char *name)
{
	for (uint32_t i = 0; i < candidate->n_extra; i++)
		used = resource_add(used, get(&candidate->extra[i]->request, name));
	return used;
}

static int64_t get_cpu(const struct resources *r, const char *name)
{
	return r->cpu_milli;
}

static int64_t get_memory(const struct resources *r, const char *name)
{
	return r->memory_bytes;
}

static int64_t get_ephemeral(const struct resources *r, const char *name)
{
	return r->ephemeral_bytes;
}

static const struct {
	const char *name;
	int64_t (*get)(const struct resources *r, const char *name);
} fixed_resources[] = {
	{"cpu", get_cpu},
	{"memory", get_memory},
	{"ephemeral-storage", get_ephemeral},
};

static bool fit_node_is_skipped(
	const struct fit *fit, const struct resources *have, const char *name)
{
	const char *const *one = fit->skipped;

	while (one && *one && strcmp(*one, name) != 0)
		one++;
	if (!one || !*one)
		return false;
	for (uint32_t i = 0; i < have->n_others; i++)
		if (!strcmp(have->others[i].name, name))
			return false;
	return true;
}

struct fit_answer fit_check_resources(struct fit *fit, const struct fit_candidate *candidate)
{
	const struct resources *want = &fit->pod->request, *used = &candidate->node->used;
	const struct resources *have = &candidate->node->node->allocatable;
	bool is_only_wanted = fit->view->minor >= RULES_ONLY_WANTED;

	if ((int64_t)candidate_n_pods(candidate) + 1 > have->pods)
		return FIT_NO(PODS, NULL);
	if (!want->cpu_milli && !want->memory_bytes && !want->ephemeral_bytes && !want->n_others)
		return FIT_YES;
	for (size_t i = 0; i < ARRAY_SIZE(fixed_resources); i++) {
		int64_t (*get)(const struct resources *, const char *) = fixed_resources[i].get;
		const char *name = fixed_resources[i].name;
		int64_t n = get(want, name);

		if ((n || !is_only_wanted) &&
			get(have, name) < resource_add(n,
						  fit_node_used_amount(
							  candidate, get(used, name), get, name)))
			return FIT_NO(RESOURCE, name);
	}
	for (uint32_t i = 0; i < want->n_others; i++) {
		const char *name = want->others[i].name;
		int64_t n = want->others[i].n;

		if ((!n && is_only_wanted) || fit_node_is_skipped(fit, have, name))
			continue;
		if (resources_other(have, name) <
			resource_add(n,
				fit_node_used_amount(candidate, resources_other(used, name),
					resources_other, name)))
			return FIT_NO(RESOURCE, name);
	}
	return FIT_YES;
}
