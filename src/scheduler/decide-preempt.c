/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses victims. A victim is a pod of divvy-scheduler that has a place and a lower spec.priority
 * than the preemptor, or an equal spec.priority and a lower divvy.gpu/priority. Victims belong to
 * the preemptor's own queue, or to no queue if the preemptor has none. To reclaim its queue's
 * guarantee a pod also evicts pods of queues that borrowed, whatever their priorities. Preemption
 * by priority across queues could let three pods evict each other endlessly. An eviction ends all
 * containers of a pod. Disruption budgets are checked here too, so that no victim is chosen whose
 * eviction the API server would refuse.
 */
#include <errno.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "place/place-held.h"
#include "place/place-preempt.h"
#include "place/place-reclaim.h"
#include "scheduler/decide-internal.h"

/*
 * Range of spec.priority that the ranks of victims distinguish. A priority outside the range counts
 * as the nearer end of the range.
 */
#define PRIORITY_LEAST (-1000000)
#define PRIORITY_MOST 20000000

static struct cpod *pod_of_holder(const struct attempt *a, const struct holder *h)
{
	return h->tenant < a->cluster->by_tenant_room ? a->cluster->by_tenant[h->tenant] : NULL;
}

static bool preempt_may_be_asked(const struct cpod *pod)
{
	return pod && pod->state == CPOD_BOUND && (pod->is_ours || pod->assigned.n) &&
		!pod->is_deleting && !pod->is_reported;
}

static int rank_any(void *arg, const struct holder *h)
{
	return preempt_may_be_asked(pod_of_holder(arg, h)) ? 0 : -1;
}

static int decide_preempt_rank(void *arg, const struct holder *h)
{
	const struct attempt *a = arg;
	const struct cpod *pod = pod_of_holder(a, h);
	const uint32_t ours = cpod_gpu_priority(a->pod);
	int64_t priority;

	if (!preempt_may_be_asked(pod) || pod->priority > a->pod->priority)
		return -1;
	if (pod->queue != a->pod->queue)
		return -1;
	if (pod->priority == a->pod->priority && cpod_gpu_priority(pod) >= ours)
		return -1;
	priority = MIN(MAX(pod->priority, (int64_t)PRIORITY_LEAST), (int64_t)PRIORITY_MOST);
	return (int)((priority - PRIORITY_LEAST) * 101) + (int)cpod_gpu_priority(pod);
}

static bool decide_preempt_evict(void *arg, const struct holder *h)
{
	struct attempt *a = arg;
	struct cpod *pod = pod_of_holder(a, h);

	if (!pod->n_evicted && !cluster_may_evict(a->cluster, pod)) {
		a->is_budget_kept = true;
		return false;
	}
	if (pod->n_evicted++ == 0)
		cluster_count_evicted(a->cluster, pod, 1);
	return true;
}

static void decide_preempt_keep(void *arg, const struct holder *h)
{
	struct attempt *a = arg;
	struct cpod *pod = pod_of_holder(a, h);

	if (--pod->n_evicted == 0)
		cluster_count_evicted(a->cluster, pod, -1);
}

/* Evicts the pod in the placement model and the view, and adds the pod to the victims. */
static int send_away(struct attempt *a, struct cpod *pod)
{
	struct decide_victims *v = a->victims;
	int r = array_grow(&v->v, &v->room, v->n + 1ul, sizeof(struct cpod *));

	for (uint32_t i = 0; r == 0 && i < pod->n_tenants; i++)
		r = place_remove(a->cluster->place, pod->tenants[i]);
	if (r < 0)
		return r;
	v->v[v->n++] = pod;
	pod->is_reported = true;
	pod->n_evicted = 1;
	cluster_count_evicted(a->cluster, pod, 1);
	return cpod_hide(a->cluster, pod, true);
}

static int decide_preempt_apply(struct attempt *a, const struct place_spec *spec,
	const struct place_plan *plan, bool is_reclaim, uint32_t *ret_tenant, struct error *err)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < plan->n_victims; i++) {
		struct cpod *pod = a->cluster->by_tenant[plan->victims[i]];

		if (pod->is_reported)
			continue;
		r = send_away(a, pod);
		pod->is_reclaimed = is_reclaim;
	}
	return r < 0 ? r : place_add(a->cluster->place, spec, &plan->choice, ret_tenant, err);
}

/* ---- reclaiming borrowed devices ---- */

/*
 * Returns when to evict. Each victim keeps its own terminationGracePeriodSeconds, so the eviction
 * comes early enough that all victims have ended when the queue's grace period ends.
 */
static uint64_t due_ns(const struct attempt *a, const struct place_plan *plan)
{
	const uint64_t grace_ns = a->pod->queue->terms.grace_ns;
	uint64_t longest_ns = 0;

	for (uint32_t i = 0; i < plan->n_victims; i++) {
		const struct pod *seen = cpod_view(
			a->cluster, a->cluster->by_tenant[plan->victims[i]]);
		const int64_t grace_s = seen ? MIN(MAX(seen->grace_s, INT64_C(0)), 86400) : 0;

		longest_ns = MAX(longest_ns, (uint64_t)grace_s * 1000000000);
	}
	return a->pod->reclaims_ns + (grace_ns > longest_ns ? grace_ns - longest_ns : 0);
}

static void ask_back(struct attempt *a, const struct place_plan *plan, uint64_t at_ns)
{
	const struct place *place = a->cluster->place;
	const struct cqueue *queue = a->pod->queue;
	bool is_elsewhere = false;

	for (uint32_t i = 0; i < plan->n_victims; i++)
		is_elsewhere |= place_tenant(place, plan->victims[i])->node != plan->choice.node;
	a->pod->reclaim_at_ns = at_ns;
	buf_addf(a->asked_back,
		"queue %s reclaims its guarantee after %u s of grace: evicts %u tenant%s on %s%s",
		queue->name, (uint32_t)(queue->terms.grace_ns / 1000000000), plan->n_victims,
		plan->n_victims == 1 ? "" : "s", a->cluster->by_place[plan->choice.node]->name,
		is_elsewhere ? " and others" : "");
}

static int decide_preempt_reclaim(struct attempt *a, const struct place_spec *spec,
	struct place_choice *ret, uint32_t *ret_tenant, struct error *err)
{
	const struct place_preempt_order order = {.rank = rank_any,
		.leave = decide_preempt_evict,
		.stay = decide_preempt_keep,
		.arg = a};
	const struct place_preempt rules = {.order = &order};
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	struct cpod *pod = a->pod;
	int r = place_queue_reclaim(a->cluster->place, spec, &rules, &plan, err);
	uint64_t at_ns;

	/*
	 * -EDQUOT: the request exceeds the guarantee. -ENOSPC: the pod would not fit even without
	 * borrowers.
	 */
	if (r == -EDQUOT)
		pod->reclaims_ns = 0;
	if (r == -EDQUOT || r == -ENOSPC)
		return -ENOSPC;
	if (r < 0)
		return r;
	if (!pod->reclaims_ns)
		pod->reclaims_ns = MAX(a->cluster->now_ns, UINT64_C(1));
	at_ns = due_ns(a, &plan);
	if (at_ns > a->cluster->now_ns) {
		ask_back(a, &plan, at_ns);
		return -EINPROGRESS;
	}
	r = decide_preempt_apply(a, spec, &plan, true, ret_tenant, err);
	if (r == 0)
		*ret = plan.choice;
	return r;
}

int preempt_take(struct attempt *a, const struct place_spec *spec, struct place_choice *ret,
	uint32_t *ret_tenant, struct error *err)
{
	const struct place_preempt_order order = {.rank = decide_preempt_rank,
		.leave = decide_preempt_evict,
		.stay = decide_preempt_keep,
		.arg = a};
	const struct place_preempt rules = {.order = &order};
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	int r = spec->queue && spec->count ? decide_preempt_reclaim(a, spec, ret, ret_tenant, err)
					   : -ENOSPC;

	if (r != -ENOSPC)
		return r;
	r = (spec->queue ? place_queue_preempt : place_preempt_find)(
		a->cluster->place, spec, &rules, &plan, err);
	r = r < 0 ? r : decide_preempt_apply(a, spec, &plan, false, ret_tenant, err);
	if (r == 0)
		*ret = plan.choice;
	return r;
}
