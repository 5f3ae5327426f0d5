/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides for extender pods: kube-scheduler asks on which nodes they fit (extender.h). This file
 * checks only devices, labels and policies, and kube-scheduler checks the rest. A reservation for
 * an extender pod counts like an assumed pod of divvy-scheduler.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "scheduler/decide-internal.h"

/*
 * Returns true, with the reason in `why`, if no node can take the pod because of its request or its
 * policies.
 */
static bool is_refused(struct cluster *c, struct cpod *pod, struct buf *why)
{
	if (decide_refusal(c, pod)) {
		buf_add_text(why, decide_refusal(c, pod));
		return true;
	}
	/* kube-scheduler itself gathers the groups of its own API. */
	if (pod->group[0] && pod->requested.n && !cpod_is_in_kube_group(pod)) {
		buf_addf(why,
			"group %s: an extender places no groups; give its pods the schedulerName "
			"%s",
			pod->group, c->config.scheduler_name);
		return true;
	}
	return !cluster_allows(c, pod, why) || !cluster_queue_takes(c, pod, why);
}

/* Tests the pod on one node, as if the pods in a->evicted were gone. Nothing changes. */
static int decide_extender_try(
	struct attempt *a, const struct cnode *node, bool *ret_fit, struct error *err)
{
	struct place *place = a->cluster->place;
	const uint32_t savepoint = place_savepoint(place);
	int r = 0;

	a->n_taken = 0;
	for (uint32_t i = 0; r == 0 && i < a->n_evicted; i++)
		for (uint32_t k = 0; r == 0 && k < a->evicted[i]->n_tenants; k++)
			r = place_remove(place, a->evicted[i]->tenants[k]);
	r = r < 0 ? r : attempt_take_hosts(a, node->at, err);
	a->n_taken = 0;
	place_rollback(place, savepoint);
	place_release(place);
	*ret_fit = r == 0;
	return r == -ENOSPC ? 0 : r;
}

static int decide_extender_try_candidate(
	struct attempt *a, struct decide_candidate *candidate, struct error *err)
{
	const struct cnode *node = cnode_find(a->cluster, candidate->node);
	int r;

	candidate->is_fit = candidate->may_help = candidate->needs_device = false;
	if (!node || node->at == PLACE_NONE) {
		snprintf(candidate->why, sizeof(candidate->why), "not known yet");
		return 0;
	}
	a->needs_device = false;
	a->evicted = candidate->evicted;
	a->n_evicted = candidate->n_evicted;
	r = decide_extender_try(a, node, &candidate->is_fit, err);
	a->evicted = NULL;
	a->n_evicted = 0;
	if (r == 0 && !candidate->is_fit)
		candidate->may_help = attempt_gpu_reason(a, node, candidate->why);
	candidate->needs_device = a->needs_device;
	return r;
}

int decide_candidates(struct cluster *c, struct cpod *pod, struct decide_candidate *candidates,
	uint32_t n, struct error *err)
{
	_cleanup_buf_ struct buf why = BUF_INIT(DECIDE_WHY_MAX);
	struct attempt a = {.cluster = c, .pod = pod, .is_trial = true};
	const bool is_nowhere = is_refused(c, pod, &why);
	const bool is_queue_full = !is_nowhere && cluster_queue_explain(c, pod, &why);
	int r = 0;

	place_set_filter(c->place, attempt_filter, &a);
	for (uint32_t i = 0; r == 0 && i < n; i++) {
		candidates[i].why[0] = '\0';
		if (!is_nowhere) {
			r = decide_extender_try_candidate(&a, &candidates[i], err);
			candidates[i].needs_device &= !is_queue_full;
			continue;
		}
		candidates[i].is_fit = candidates[i].may_help = candidates[i].needs_device = false;
		snprintf(candidates[i].why, sizeof(candidates[i].why), "%s", buf_text(&why));
	}
	place_set_filter(c->place, NULL, NULL);
	return r;
}

int decide_reserve(struct cluster *c, struct cpod *pod, const struct decide_candidate *candidates,
	uint32_t n, struct error *err)
{
	struct attempt a = {.cluster = c, .pod = pod, .n_avoided = place_n_nodes(c->place)};
	_cleanup_free_ bool *avoided = malloc(a.n_avoided + 1ul);
	int r;

	if (!avoided)
		return fail(err, ENOMEM, "out of memory");
	a.avoided = memset(avoided, true, a.n_avoided + 1ul);
	for (uint32_t i = 0; i < n; i++) {
		const struct cnode *node = candidates[i].is_fit ? cnode_find(c, candidates[i].node)
								: NULL;

		if (node && node->at != PLACE_NONE)
			avoided[node->at] = false;
	}
	place_set_filter(c->place, attempt_filter, &a);
	r = attempt_take_all(&a, err);
	place_set_filter(c->place, NULL, NULL);
	r = r < 0 ? r : attempt_assume(&a, CPOD_RESERVED, err);
	if (r == 0)
		pod->give_up_ns = c->now_ns + DECIDE_RESERVE_NS;
	return r;
}
