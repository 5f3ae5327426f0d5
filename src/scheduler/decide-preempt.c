/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who leaves for a pod: pods of ours that have a place, of lower spec.priority, or of the same and
 * lower divvy priority. A pod leaves with all its containers. Disruption budgets are kept here as
 * well as by the API server, so that nobody is chosen who will not be let go.
 */
#include <errno.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "core/place-held.h"
#include "core/place-preempt.h"
#include "scheduler/decide-internal.h"

/* What a rank can tell apart of spec.priority; beyond that they are the same. */
#define PRIORITY_LEAST (-1000000)
#define PRIORITY_MOST 20000000

static struct cpod *pod_of_holder(const struct attempt *a, const struct holder *h)
{
	return h->tenant < a->cluster->by_tenant_room ? a->cluster->by_tenant[h->tenant] : NULL;
}

static int rank(void *arg, const struct holder *h)
{
	const struct attempt *a = arg;
	const struct cpod *pod = pod_of_holder(a, h);
	const uint32_t ours = cpod_gpu_priority(a->pod);
	int64_t priority;

	if (!pod || pod->state != CPOD_BOUND || !pod->is_ours || pod->is_deleting || pod->is_told ||
		pod->priority > a->pod->priority)
		return -1;
	if (pod->priority == a->pod->priority && cpod_gpu_priority(pod) >= ours)
		return -1;
	priority = MIN(MAX(pod->priority, (int64_t)PRIORITY_LEAST), (int64_t)PRIORITY_MOST);
	return (int)((priority - PRIORITY_LEAST) * 101) + (int)cpod_gpu_priority(pod);
}

static bool leave(void *arg, const struct holder *h)
{
	struct attempt *a = arg;
	struct cpod *pod = pod_of_holder(a, h);

	if (!pod->n_gone && !cluster_may_go(a->cluster, pod))
		return false;
	if (pod->n_gone++ == 0)
		cluster_count_gone(a->cluster, pod, 1);
	return true;
}

static void stay(void *arg, const struct holder *h)
{
	struct attempt *a = arg;
	struct cpod *pod = pod_of_holder(a, h);

	if (--pod->n_gone == 0)
		cluster_count_gone(a->cluster, pod, -1);
}

/* Its other containers leave with it. */
static int send_away(struct attempt *a, struct cpod *pod)
{
	struct decide_victims *v = a->victims;
	int r = array_grow(&v->v, &v->room, v->n + 1ul, sizeof(struct cpod *));

	for (uint32_t i = 0; r == 0 && i < pod->n_tenants; i++)
		r = place_remove(a->cluster->place, pod->tenants[i]);
	if (r < 0)
		return r;
	v->v[v->n++] = pod;
	pod->is_told = true;
	pod->n_gone = 1;
	cluster_count_gone(a->cluster, pod, 1);
	return view_hide(a->cluster->view, pod->ns, pod->name, true);
}

int preempt_take(struct attempt *a, const struct place_spec *spec, struct place_choice *ret,
	uint32_t *ret_tenant, struct error *err)
{
	const struct place_preempt_order order = {rank, leave, stay, a};
	const struct place_preempt rules = {.order = &order};
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	struct place *place = a->cluster->place;
	int r = place_preempt_find(place, spec, &rules, &plan, err);

	for (uint32_t i = 0; r == 0 && i < plan.n_victims; i++) {
		struct cpod *pod = a->cluster->by_tenant[plan.victims[i]];

		if (!pod->is_told)
			r = send_away(a, pod);
	}
	r = r < 0 ? r : place_add(place, spec, &plan.choice, ret_tenant, err);
	if (r == 0)
		*ret = plan.choice;
	return r;
}
