/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles terminating pods and the nominated pods that wait for them. A terminating pod takes
 * capacity from other pods, except from pods that may wait until it has ended. A nominated pod
 * takes capacity from other pods, except from the nominated pods of its own node.
 */
#include <errno.h>

#include <utlist.h>

#include "claims/claims.h"
#include "kuberules/fit.h"
#include "scheduler/decide-internal.h"

bool decide_is_terminating(const struct cpod *pod)
{
	return pod->is_reported && !pod->n_evicted;
}

bool decide_has_terminating(
	const struct cluster *c, const struct cnode *node, const struct cpod *pod)
{
	const struct pod *seen = cpod_view(c, pod);
	const struct cpod *other = NULL;

	if (seen && seen->claims.n && claims_has_ending(c->claims))
		return true;
	DL_FOREACH(node->pods, other)
		if (decide_is_terminating(other))
			return true;
	return false;
}

void decide_hide_terminating(struct cluster *c, const struct cnode *node, bool is_hidden)
{
	struct cpod *pod = NULL;

	claims_hide_ending(c->claims, is_hidden);
	DL_FOREACH(node->pods, pod)
		if (decide_is_terminating(pod))
			cpod_hide(c, pod, is_hidden);
}

int decide_fits_where_it_is(struct cluster *c, const struct cpod *pod, bool can_wait)
{
	struct fit *fit = NULL;
	const int seen = view_find_node(c->view, pod->node->name);
	bool does_fit = false;
	int r;

	if (can_wait)
		decide_hide_terminating(c, pod->node, true);
	view_assume(c->view, pod->ns, pod->name, "");
	r = fit_new(c->view, cpod_view(c, pod), &fit, NULL);
	if (r == 0 && seen >= 0)
		does_fit = (pod->server ? fit_node_without(
						  fit, (uint32_t)seen, remote_skipped_rules)
					: fit_node(fit, (uint32_t)seen))
					.why == FIT_OK &&
			claims_place_is_free(c->claims, pod->claims);
	fit_free(fit);
	view_assume(c->view, pod->ns, pod->name, pod->node->name);
	if (can_wait)
		decide_hide_terminating(c, pod->node, false);
	return r == -ENOMEM ? r : does_fit;
}

/*
 * Hides the other nominated pods of the node from the view, and removes them from the placement
 * model; the caller undoes the removals by a rollback. None of them has started, so whichever fits
 * first may start. Pods of the same gang stay, because they start together.
 */
static int hide_holders(struct cluster *c, const struct cpod *pod, bool is_hidden)
{
	struct cpod *other = NULL;
	int r = 0;

	DL_FOREACH(pod->node->pods, other) {
		if (other == pod || other->state != CPOD_NOMINATED ||
			(cpod_gang(pod) && other->in == pod->in))
			continue;
		cpod_hide(c, other, is_hidden);
		for (uint32_t i = 0; r == 0 && is_hidden && i < other->n_tenants; i++)
			r = place_remove(c->place, other->tenants[i]);
	}
	return r;
}

static int decide_nominated_try(struct cluster *c, const struct cpod *pod, enum decision *ret)
{
	int r = 0;

	*ret = DECIDE_NOMINATE;
	for (uint32_t i = 0; i < pod->n_tenants; i++)
		if (place_is_awaiting(c->place, pod->tenants[i]))
			return 0;
	r = decide_fits_where_it_is(c, pod, false);
	if (r > 0 && cpod_is_whole(c, pod))
		*ret = DECIDE_BIND;
	else if (r == 0 && decide_has_terminating(c, pod->node, pod))
		r = decide_fits_where_it_is(c, pod, true);
	if (r == 0 || !cpod_is_whole(c, pod))
		*ret = DECIDE_WAIT;
	return MIN(r, 0);
}

int decide_nominated(struct cluster *c, struct cpod *pod, enum decision *ret, struct error *err)
{
	const uint32_t savepoint = place_savepoint(c->place);
	int r = hide_holders(c, pod, true);

	r = r < 0 ? r : decide_nominated_try(c, pod, ret);
	place_rollback(c->place, savepoint);
	place_release(c->place);
	hide_holders(c, pod, false);
	return r < 0 ? fail(err, -r, "out of memory") : 0;
}
