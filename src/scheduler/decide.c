/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides where one pod goes, in up to two attempts: without victims, then with victims if the pod
 * may preempt. All containers of a pod use devices of one node; attempt_take_all() tries another
 * node if one of the containers does not fit. attempt_filter() applies Kubernetes' rules and the
 * memory limits whenever the placement model tests a node candidate. A savepoint undoes a failed
 * attempt, and decide_cancel_evictions() clears the marks of its victims. Between decide_begin()
 * and decide_end() the victims stay hidden in the view. decide_end() then cancels each eviction
 * without which all pods of the gang still fit.
 */
#include "scheduler/decide.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/cleanup.h"
#include "kuberules/fit.h"
#include "scheduler/cluster-internal.h"
#include "scheduler/decide-internal.h"

/* ---- the filter: Kubernetes' rules, and limits of single devices ---- */

/* The tenants that count as evicted in a test of memory. */
struct gone {
	const struct attempt *attempt;
	const uint32_t *tenants;
	uint32_t n;
};

static bool decide_is_evicted(void *arg, const struct cpod *pod)
{
	const struct gone *gone = arg;
	const struct attempt *a = gone->attempt;

	for (uint32_t i = 0; i < gone->n; i++)
		if (a->cluster->by_tenant[gone->tenants[i]] == pod)
			return true;
	for (uint32_t i = 0; i < a->n_evicted; i++)
		if (a->evicted[i] == pod)
			return true;
	return false;
}

/*
 * Returns whether the attempt is placing the container now, or has given the device to the
 * container.
 */
static bool decide_is_container_on(const struct attempt *a, uint32_t container, uint32_t device)
{
	if (&a->pod->requested.v[container].spec == a->requested)
		return true;
	for (uint32_t k = 0; k < a->n_taken; k++)
		for (uint32_t d = 0; a->of[k] == container && d < a->choice[k].n; d++)
			if (a->choice[k].device[d] == device)
				return true;
	return false;
}

/*
 * Checks that the node's i-th device has memory for the container that is being placed, for the
 * init containers that use its devices, and for the pod's containers that are already on the
 * device.
 */
static bool has_memory(
	const struct attempt *a, const struct cnode *node, uint32_t i, const struct gone *gone)
{
	struct memory_params params = {
		.ns = a->pod->ns, .is_evicted = decide_is_evicted, .arg = (void *)gone};
	const struct tenancy *requested = &a->pod->requested;
	struct place_node_view view;

	place_node_get(a->cluster->place, node->at, &view);
	for (uint32_t k = 0; k < requested->n; k++)
		if (decide_is_container_on(a, requested->v[k].host, view.first_device + i))
			params.container[params.n++] = &requested->v[k];
	return cluster_has_memory(a->cluster, node, &node->gpus.device[i], &params);
}

static uint64_t allowed_devices(
	const struct attempt *a, const struct cnode *node, const struct gone *gone)
{
	const char *vgpu = a->pod->requested.vgpu;
	uint64_t mask = 0;

	if (!a->requested)
		return UINT64_MAX;
	if (!node->has_gpus)
		return 0;
	for (uint32_t i = 0; i < node->gpus.n_devices; i++)
		if ((!a->requested->device[0] ||
			    spec_device_fits(a->requested, node->gpus.device[i].uuid)) &&
			has_memory(a, node, i, gone))
			mask |= 1ull << i;
	return vgpu[0] ? mask & vgpu_devices(a->cluster, node, vgpu) : mask;
}

uint64_t attempt_devices(const struct attempt *a, const struct cnode *node)
{
	const struct gone nobody = {.attempt = a};

	return allowed_devices(a, node, &nobody);
}

bool attempt_has_memory(const struct attempt *a, const struct cnode *node)
{
	return (uint32_t)__builtin_popcountll(attempt_devices(a, node)) >= a->requested->count;
}

enum node_why attempt_node(struct attempt *a, const struct cnode *node)
{
	if (!a->requested)
		return NODE_FITS;
	if (!node->has_gpus)
		return NODE_NO_GPUS;
	if (node->is_stale)
		return NODE_STALE;
	if (!node->gpus.slots_total)
		return NODE_NO_SLOTS;
	if (a->requested->mode == SPEC_MODE_REMOTE && !node->gpus.is_serving)
		return NODE_NOT_SERVING;
	return NODE_FITS;
}

/*
 * Tests the node by Kubernetes' rules as if the pods of the tenants `gone`, and terminating pods,
 * had ended.
 */
static struct fit_answer answer_without(struct attempt *a, const struct cnode *node, int seen,
	const uint32_t *gone, uint32_t n_evicted)
{
	struct cluster *c = a->cluster;
	struct fit_answer answer = {FIT_NODE_UNCLEAR, NULL};
	struct fit *fit = NULL;

	decide_hide_terminating(c, node, true);
	for (uint32_t i = 0; i < n_evicted; i++)
		if (c->by_tenant[gone[i]])
			cpod_hide(c, c->by_tenant[gone[i]], true);
	if (fit_new(c->view, cpod_view(c, a->pod), &fit, NULL) == 0)
		answer = fit_node(fit, (uint32_t)seen);
	/* answer.what belongs to `fit`, and no caller needs the text. */
	answer.what = NULL;
	fit_free(fit);
	for (uint32_t i = 0; i < n_evicted; i++)
		if (c->by_tenant[gone[i]] && !c->by_tenant[gone[i]]->is_reported)
			cpod_hide(c, c->by_tenant[gone[i]], false);
	decide_hide_terminating(c, node, false);
	return answer;
}

uint64_t attempt_filter(void *arg, const struct place_spec *spec, uint32_t at, const uint32_t *gone,
	uint32_t n_evicted)
{
	struct attempt *a = arg;
	const struct cnode *node = a->cluster->by_place[at];
	const struct gone who = {a, gone, n_evicted};
	int seen;

	if (!node || (at < a->n_avoided && a->avoided[at]))
		return 0;
	if (a->may_be_remote && (spec->network[0] || !spec->count))
		return remote_filter(a, spec, at);
	if (attempt_node(a, node) != NODE_FITS)
		return 0;
	if (!a->fit)
		return allowed_devices(a, node, &who);
	seen = view_find_node(a->cluster->view, node->name);
	if (seen < 0)
		return 0;
	if (n_evicted ||
		(a->victims &&
			(a->victims->n > a->n_victims ||
				decide_has_terminating(a->cluster, node, a->pod))))
		return answer_without(a, node, seen, gone, n_evicted).why == FIT_OK
			? allowed_devices(a, node, &who)
			: 0;
	if (fit_node(a->fit, (uint32_t)seen).why != FIT_OK)
		return 0;
	return allowed_devices(a, node, &who);
}

/* ---- one pod ---- */

struct claims_trial {
	struct attempt *attempt;
	const struct place_spec *spec;
};

static bool decide_may_use_claims_node(void *arg, const struct cnode *node)
{
	const struct claims_trial *trial = arg;

	return place_reason_of(trial->attempt->cluster->place, trial->spec, node->at) ==
		PLACE_FITS &&
		attempt_filter(trial->attempt, trial->spec, node->at, NULL, 0);
}

static int decide_take_place(struct attempt *a, uint32_t i, uint32_t node, struct error *err)
{
	struct cluster *c = a->cluster;
	struct place_spec spec;
	struct place_choice choice;
	uint32_t tenant;
	int r;

	a->requested = i == PLACE_NONE ? NULL : &a->pod->requested.v[i].spec;
	r = cluster_spec(c, a->pod, i, &spec);
	if (r == -EAGAIN)
		return -ENOSPC;
	if (r < 0)
		return fail(err, -r, "out of memory");
	if (!a->n_taken && !a->is_trial) {
		spec.cpu_milli = a->pod->cpu_milli;
		spec.memory_bytes = a->pod->memory_bytes;
	}
	spec.node = node;
	if (!a->requested && node == PLACE_NONE)
		spec.node = cpod_best_claims_node(c, a->pod, a->fit, decide_may_use_claims_node,
			&(struct claims_trial){a, &spec});
	spec.is_terminating_free = a->victims;
	if (a->may_be_remote)
		return remote_take(a, i, &spec, err);
	r = place_find(c->place, &spec, &choice, err);
	r = r < 0 ? r : place_add(c->place, &spec, &choice, &tenant, err);
	if (r == -ENOSPC && a->victims)
		r = preempt_take(a, &spec, &choice, &tenant, err);
	if (r < 0)
		return r;
	a->taken[a->n_taken] = tenant;
	a->of[a->n_taken] = i == PLACE_NONE ? 0 : i;
	a->choice[a->n_taken++] = choice;
	return 0;
}

/* Shows the victim in the view again and stops counting its eviction. */
static void decide_show_pod(struct cluster *c, struct cpod *pod)
{
	pod->n_evicted = 0;
	cluster_count_evicted(c, pod, -1);
	cpod_hide(c, pod, false);
}

/* Cancels the evictions from index `from`. */
static void decide_cancel_evictions(
	struct cluster *c, struct decide_victims *victims, uint32_t from)
{
	for (uint32_t i = from; victims && i < victims->n; i++) {
		decide_show_pod(c, victims->v[i]);
		victims->v[i]->is_reported = victims->v[i]->is_reclaimed = false;
	}
	if (victims)
		victims->n = from;
}

uint32_t attempt_next_host(const struct cpod *pod, uint32_t i)
{
	while (i < pod->requested.n && pod->requested.v[i].host != i)
		i++;
	return i;
}

int attempt_take_hosts(struct attempt *a, uint32_t node, struct error *err)
{
	const struct cpod *pod = a->pod;
	uint32_t i = attempt_next_host(pod, 0);
	int r = decide_take_place(a, pod->requested.n ? i : PLACE_NONE, node, err);

	while (r == 0 && (i = attempt_next_host(pod, i + 1)) < pod->requested.n)
		r = decide_take_place(a, i, a->choice[0].node, err);
	return r;
}

/*
 * Each pass of the loop excludes one node, so a node is tried at most once. Init containers that
 * use the devices of other containers need no place.
 */
int attempt_take_all(struct attempt *a, struct error *err)
{
	struct cluster *c = a->cluster;
	const uint32_t n = a->pod->requested.n;
	int r;

	if (n < 2)
		return attempt_take_hosts(a, PLACE_NONE, err);
	if (!a->avoided) {
		a->n_avoided = place_n_nodes(c->place);
		a->avoided = calloc(a->n_avoided + 1ul, sizeof(*a->avoided));
	}
	if (!a->avoided)
		return fail(err, ENOMEM, "out of memory");
	for (;;) {
		const uint32_t savepoint = place_savepoint(c->place);
		const uint32_t n_victims = a->victims ? a->victims->n : 0;

		a->n_taken = 0;
		r = attempt_take_hosts(a, PLACE_NONE, err);
		if (r < 0) {
			place_rollback(c->place, savepoint);
			decide_cancel_evictions(c, a->victims, n_victims);
		}
		place_release(c->place);
		if (r != -ENOSPC || !a->n_taken)
			return r;
		a->avoided[a->choice[0].node] = true;
		a->n_taken = 0;
	}
}

struct cnode *attempt_candidate(const struct attempt *a)
{
	return a->cluster
		->by_place[a->placement.has_client ? a->placement.client.node : a->choice[0].node];
}

/* ---- assigned keys ---- */

static const struct place_choice *decide_container_choice(
	const struct attempt *a, uint32_t container)
{
	uint32_t k = 0;

	while (k + 1 < a->n_taken && a->of[k] != container)
		k++;
	return &a->choice[k];
}

static void decide_assign_container(
	const struct attempt *a, uint32_t i, struct assigned_container *g)
{
	const struct tenancy_container *requested = &a->pod->requested.v[i];
	const struct spec *spec = &requested->spec;
	const bool is_exclusive = spec->exclusive || spec->mode == SPEC_MODE_EXCLUSIVE;
	const struct place_choice *choice = decide_container_choice(a, requested->host);

	str_copy(g->name, sizeof(g->name), str_from(requested->name));
	g->n = MIN(choice->n, spec->count);
	for (uint32_t k = 0; k < g->n; k++) {
		struct place_device_view device;

		place_device_get(a->cluster->place, choice->device[k], &device);
		str_copy(g->device[k], SPEC_LABEL, str_from(device.uuid));
		g->memory_bytes[k] = spec_memory_on(spec, device.memory_all);
	}
	g->request = is_exclusive ? SPEC_SHARE_ONE : spec->request;
	g->limit = is_exclusive ? SPEC_SHARE_ONE : spec->limit;
	g->memory_policy = spec->memory_policy;
	g->class = spec->class;
	g->priority = spec->priority;
	g->mode = is_exclusive ? SPEC_MODE_EXCLUSIVE : SPEC_MODE_LOCAL;
	if (a->placement.outcome == PLACE_REMOTE)
		remote_give(a, g);
}

/*
 * Writes why the placement mode chose these devices, or else which containers got devices with
 * preference conflicts.
 */
static void say_why(const struct attempt *a, char *ret, size_t size)
{
	size_t n;

	snprintf(ret, size, "%s", a->placement.why);
	for (uint32_t i = 0; i < a->n_taken && !a->placement.why[0]; i++) {
		const struct tenancy_container *requested = NULL;
		const char *label;
		char met[SPEC_CONFLICTS];

		if (!a->choice[i].n_conflicts)
			continue;
		requested = &a->pod->requested.v[a->of[i]];
		label = requested->spec.preferred_anti_affinity;
		n = strlen(ret);
		snprintf(ret + n, size - n, "%s%s %s", n ? "; " : "", requested->name,
			spec_conflicts_format(label[0] ? label : requested->spec.anti_affinity,
				a->choice[i].n_conflicts, met));
	}
}

/* Frees the places that the attempt took, but not the first n, which belong to the pod already. */
static void attempt_give_back(struct attempt *a, uint32_t n)
{
	if (a->placement.has_client && n <= a->n_taken)
		place_remove(a->cluster->place, a->client);
	while (a->n_taken > n)
		place_remove(a->cluster->place, a->taken[--a->n_taken]);
}

int attempt_assume(struct attempt *a, enum cpod_state state, struct error *err)
{
	struct cluster *c = a->cluster;
	struct cpod *pod = a->pod;
	struct cnode *node = attempt_candidate(a);
	_cleanup_buf_ struct buf unused = BUF_INIT(DECIDE_WHY_MAX);
	char why[PLACE_MODE_WHY];
	int r = 0;

	assigned_done(&pod->assigned);
	pod->assigned.v = calloc(MAX(pod->requested.n, 1u), sizeof(*pod->assigned.v));
	if (!pod->assigned.v) {
		attempt_give_back(a, 0);
		return fail(err, ENOMEM, "out of memory");
	}
	pod->assigned.n = pod->requested.n;
	for (uint32_t i = 0; i < pod->requested.n; i++)
		decide_assign_container(a, i, &pod->assigned.v[i]);
	for (uint32_t i = 0; r == 0 && i < a->n_taken; i++)
		r = cpod_add_tenant(c, pod, a->taken[i], a->of[i]);
	if (r == 0 && a->placement.has_client)
		r = cpod_add_tenant(c, pod, a->client, PLACE_NONE);
	say_why(a, why, sizeof(why));
	free(pod->why);
	pod->why = why[0] ? str_dup(str_from(why)) : NULL;
	/*
	 * The tenants were placed with the largest request of the containers that share a device.
	 * With the devices known, cpod_resize() corrects this to the amounts of stages.c.
	 */
	if (r == 0 && a->n_taken < pod->requested.n)
		cpod_resize(c, pod, &pod->assigned, &unused);
	cpod_set_state(c, pod, state);
	cpod_move(c, pod, node);
	if (r == 0 && pod->is_ours && !a->is_trial) {
		/* A nominated pod may have the devices of pods that terminate. */
		if (state == CPOD_NOMINATED)
			decide_hide_terminating(c, node, true);
		r = cpod_assume_claims(c, pod, node, err);
		if (state == CPOD_NOMINATED)
			decide_hide_terminating(c, node, false);
		if (r < 0) {
			attempt_give_back(a, pod->n_tenants);
			cluster_forget(c, pod);
			return r;
		}
	}
	r = r < 0 ? r : cpod_find_server(c, pod);
	r = r < 0 ? r : view_assume(c->view, pod->ns, pod->name, node->name);
	/*
	 * While a gang is decided, the victims are hidden in the view, and the node's capacities
	 * would be wrong. decide_end() refreshes the capacities.
	 */
	r = r < 0 || a->is_together ? r : cnode_refresh(c, node);
	if (r < 0) {
		attempt_give_back(a, pod->n_tenants);
		cluster_forget(c, pod);
		return fail(err, -r, "out of memory");
	}
	return 0;
}

static int decide_wait_for(struct decide_outcome *outcome, const char *sentence)
{
	buf_add_text(&outcome->why, sentence);
	return 0;
}

const char *decide_refusal(const struct cluster *c, const struct cpod *pod)
{
	if (pod->refusal)
		return pod->refusal;
	return decide_remote_is_requested(pod) ? remote_refusal(c, pod) : NULL;
}

/* Returns whether the victim has no tenant on the node of the preemptor's devices. */
static bool decide_is_elsewhere(const struct attempt *a, const struct cpod *pod)
{
	for (uint32_t i = 0; i < pod->n_tenants; i++) {
		const struct place_tenant *t = place_tenant(a->cluster->place, pod->tenants[i]);

		if (t && t->node == a->choice[0].node)
			return false;
	}
	return true;
}

static int64_t grace_of(const struct attempt *a, const struct cpod *pod)
{
	const struct pod *seen = cpod_view(a->cluster, pod);

	return seen ? seen->grace_s : 0;
}

/*
 * Sets when the nomination expires: after the longest grace period of the victims and of all
 * terminating pods on the node, plus a minute. Writes the message.
 */
static void decide_nominate_pod(struct attempt *a, struct buf *why)
{
	const uint32_t n = a->victims->n - a->n_victims;
	const struct cnode *node = a->pod->node;
	const struct cpod *pod = NULL;
	bool are_elsewhere = false;
	int64_t grace_s = 0;

	for (uint32_t i = a->n_victims; i < a->victims->n; i++) {
		are_elsewhere |= decide_is_elsewhere(a, a->victims->v[i]);
		grace_s = MAX(grace_s, grace_of(a, a->victims->v[i]));
	}
	DL_FOREACH(node->pods, pod)
		if (decide_is_terminating(pod))
			grace_s = MAX(grace_s, grace_of(a, pod));
	a->pod->give_up_ns = a->cluster->now_ns + (uint64_t)MIN(grace_s + 60, 86400) * 1000000000;
	if (n)
		buf_addf(why, "waits for %u pod%s to terminate on %s%s", n, n == 1 ? "" : "s",
			node->name, are_elsewhere ? " and others" : "");
	else
		buf_addf(why, "waits for terminating pods on %s", node->name);
}

/*
 * Adds the victims to the model again as terminating tenants, because they run until the eviction
 * takes effect. After an error the caller undoes the changes.
 */
static int decide_readd_terminating(
	struct cluster *c, const struct decide_victims *victims, uint32_t from, struct error *err)
{
	int r = 0;

	for (uint32_t i = from; r == 0 && i < victims->n; i++) {
		const struct cpod *pod = victims->v[i];

		for (uint32_t k = 0; r == 0 && k < pod->n_tenants; k++)
			r = place_readd_terminating(c->place, pod->tenants[k], err);
	}
	for (uint32_t i = from; r == 0 && i < victims->n; i++)
		decide_show_pod(c, victims->v[i]);
	return r;
}

/* Tries without victims, and then with victims if the pod may preempt. All or nothing. */
static int try_both(struct attempt *a, struct decide_victims *victims, struct error *err)
{
	/* A request for mode remote evicts no pod. */
	const bool may_preempt = victims && !decide_remote_is_requested(a->pod) &&
		!cpod_may_not_preempt(a->cluster, a->pod) &&
		!cpod_view(a->cluster, a->pod)->is_never_preempting;
	uint32_t savepoint;
	int r = attempt_take_all(a, err);

	if (r != -ENOSPC || !may_preempt)
		return r;
	a->victims = victims;
	a->n_victims = victims->n;
	a->may_be_remote = false;
	a->placement = (struct place_decision){.has_client = false};
	free(TAKE_PTR(a->avoided));
	a->n_avoided = a->n_taken = 0;
	cluster_recount_evicted(a->cluster);
	savepoint = place_savepoint(a->cluster->place);
	r = attempt_take_all(a, err);
	if (r == 0 && !a->is_together)
		r = decide_readd_terminating(a->cluster, victims, a->n_victims, err);
	if (r < 0) {
		decide_cancel_evictions(a->cluster, victims, a->n_victims);
		a->victims = NULL;
		place_rollback(a->cluster->place, savepoint);
	}
	place_release(a->cluster->place);
	return r;
}

void decide_claims_done(struct decide_claims *claims)
{
	for (uint32_t i = 0; i < claims->n; i++)
		free(claims->name[i]);
	free(claims->name);
	free(claims->node);
	*claims = (struct decide_claims){.n = 0};
}

void decide_outcome_done(struct decide_outcome *outcome)
{
	decide_claims_done(&outcome->claims);
	buf_done(&outcome->why);
}

/*
 * Frees the places of the attempt, and fills `claims` with the claims that need volumes before the
 * pod can start. Returns 1, or -ENOMEM.
 */
static int name_claims(struct attempt *a, struct decide_claims *claims)
{
	const uint32_t n = fit_n_claims(a->fit);

	claims->node = str_dup(str_from(attempt_candidate(a)->name));
	attempt_give_back(a, 0);
	claims->name = calloc(n, sizeof(*claims->name));
	for (uint32_t i = 0; claims->name && i < n; i++)
		claims->name[claims->n++] = str_dup(str_from(fit_claim_name(a->fit, i)));
	for (uint32_t i = 0; i < claims->n; i++)
		if (!claims->name[i])
			return -ENOMEM;
	return claims->node && claims->name ? 1 : -ENOMEM;
}

/* The victims are terminating in the placement model only, so no pod is evicted. */
static void decide_keep_victims(struct attempt *a)
{
	for (uint32_t i = a->n_victims; i < a->victims->n; i++)
		cluster_readd(a->cluster, a->victims->v[i]);
	a->victims->n = a->n_victims;
}

static int decide_one(struct cluster *c, struct cpod *pod, struct decide_victims *victims,
	struct decide_outcome *outcome, struct error *err)
{
	struct buf *why = &outcome->why;
	struct attempt a = {.cluster = c,
		.pod = pod,
		.asked_back = why,
		.is_together = victims && victims->is_open};
	/*
	 * The text about the refused Binding of another pod is reported only once: later this pod
	 * may wait for another reason.
	 */
	_cleanup_free_ char *kept_text = TAKE_PTR(pod->kept_text);
	struct claims_unused unused;
	struct error unfit;
	uint32_t at = 0;
	int r;

	buf_clear(why);
	decide_claims_done(&outcome->claims);
	outcome->decision = DECIDE_WAIT;
	outcome->has_unused_claims = false;
	pod->needs_device = false;
	if (decide_refusal(c, pod))
		return decide_wait_for(outcome, decide_refusal(c, pod));
	cpod_forget_keeper(pod);
	pod->reclaim_at_ns = 0;
	if (cluster_count_claims(c) < 0)
		return fail(err, ENOMEM, "out of memory");
	if (!cluster_allows(c, pod, why) || !cluster_queue_takes(c, pod, why))
		return 0;
	r = fit_new(c->view, cpod_view(c, pod), &a.fit, &unfit);
	if (r == -ENOMEM)
		return fail(err, ENOMEM, "out of memory");
	if (r < 0) {
		outcome->has_unused_claims = pod->is_ours && cpod_has_failed_claims(c, pod);
		return decide_wait_for(outcome, unfit.msg);
	}
	if (!fit_is_provisioned(a.fit)) {
		fit_free(a.fit);
		return decide_wait_for(outcome,
			"a claim waits for its first consumer and an existing volume matches; "
			"divvy-scheduler only provisions new volumes");
	}
	/* While claims lack volumes no pod is evicted, because this pod cannot start yet. */
	if (fit_n_claims(a.fit))
		victims = NULL;
	a.may_be_remote = !remote_refusal(c, pod);
	place_set_filter(c->place, attempt_filter, &a);
	r = try_both(&a, victims, err);
	place_set_filter(c->place, NULL, NULL);
	if (r == -ENOSPC) {
		decide_explain(&a, why);
		pod->needs_device = !cluster_queue_explain(c, pod, why) && a.needs_device;
		cpod_explain_refusal(c, pod, kept_text, why);
		outcome->has_unused_claims = pod->is_ours &&
			cpod_next_unused_claim(c, pod, &at, &unused);
	} else if (r == 0 && fit_n_claims(a.fit)) {
		r = name_claims(&a, &outcome->claims);
		if (r < 0)
			fail(err, -r, "out of memory");
	}
	fit_free(a.fit);
	free(a.avoided);
	if (r > 0) {
		outcome->decision = DECIDE_CLAIM;
		return 0;
	}
	if (r == -ENOSPC || r == -EINPROGRESS)
		return buf_error(why) == -ENOMEM ? fail(err, ENOMEM, "out of memory") : 0;
	if (r < 0)
		return r;
	outcome->decision = a.victims ? DECIDE_NOMINATE : DECIDE_BIND;
	r = attempt_assume(&a, a.victims ? CPOD_NOMINATED : CPOD_ASSUMED, err);
	if (r == 0 && a.victims)
		decide_nominate_pod(&a, why);
	if (r < 0 && a.victims && !a.is_together)
		decide_keep_victims(&a);
	return r;
}

int decide_pod(struct cluster *c, struct cpod *pod, struct decide_victims *victims,
	struct decide_outcome *outcome, struct error *err)
{
	const bool is_alone = !victims || !victims->is_open;
	int r;

	if (is_alone)
		cluster_limit_claims(c, 1);
	cluster_keep_usage(c, true);
	r = decide_one(c, pod, victims, outcome, err);
	cluster_keep_usage(c, false);
	if (is_alone)
		cluster_limit_claims(c, 0);
	return r;
}

/* ---- several pods together ---- */

/* A gang of any size may take the steps of this many pods to search devices: some seconds. */
#define DECIDE_TOGETHER_MAX 4u

void decide_begin(struct cluster *c, struct decide_victims *victims)
{
	victims->n = 0;
	victims->savepoint = place_savepoint(c->place);
	victims->is_open = true;
	cluster_limit_claims(c, DECIDE_TOGETHER_MAX);
}

/*
 * Returns 1, with the eviction cancelled in view and model, if all members of the gang fit without
 * it; else 0, or -ENOMEM.
 */
static int try_without(
	struct cluster *c, struct cpod *victim, struct cpod *const *members, uint32_t n)
{
	const uint32_t savepoint = place_savepoint(c->place);
	int r = 0;

	for (uint32_t k = 0; r == 0 && k < victim->n_tenants; k++)
		r = place_readd(c->place, victim->tenants[k], NULL);
	cpod_hide(c, victim, false);
	for (uint32_t i = 0; r >= 0 && i < n; i++) {
		r = members[i]->node ? decide_fits_where_it_is(c, members[i], true) : 1;
		r = r == 0 ? -ENOSPC : r;
	}
	if (r < 0) {
		cpod_hide(c, victim, true);
		place_rollback(c->place, savepoint);
	}
	place_release(c->place);
	return r == -ENOMEM ? r : r >= 0;
}

/* Sorts the most important victims first, so that their evictions are cancelled first. */
static int compare_victims(const void *pa, const void *pb)
{
	const struct cpod *a = *(struct cpod *const *)pa, *b = *(struct cpod *const *)pb;

	if (a->priority != b->priority)
		return a->priority > b->priority ? -1 : 1;
	if (cpod_gpu_priority(a) != cpod_gpu_priority(b))
		return cpod_gpu_priority(a) > cpod_gpu_priority(b) ? -1 : 1;
	return strcmp(a->ns, b->ns) ? strcmp(a->ns, b->ns) : strcmp(a->name, b->name);
}

static int decide_readd_victims(
	struct cluster *c, struct decide_victims *victims, struct cpod *const *members, uint32_t n)
{
	uint32_t kept = 0;
	int r = 0;

	if (victims->n)
		qsort(victims->v, victims->n, sizeof(*victims->v), compare_victims);
	for (uint32_t i = 0; i < victims->n; i++) {
		struct cpod *pod = victims->v[i];

		r = r < 0 ? r : try_without(c, pod, members, n);
		if (r > 0) {
			decide_show_pod(c, pod);
			pod->is_reported = pod->is_reclaimed = false;
		} else {
			victims->v[kept++] = pod;
		}
	}
	victims->n = kept;
	return MIN(r, 0);
}

int decide_end(struct cluster *c, struct decide_victims *victims, struct cpod *const *members,
	uint32_t n, struct error *err)
{
	int r = decide_readd_victims(c, victims, members, n);

	r = r < 0 ? fail(err, -r, "out of memory") : decide_readd_terminating(c, victims, 0, err);
	if (r < 0) {
		decide_cancel(c, victims, members, n);
		return r;
	}
	place_release(c->place);
	victims->is_open = false;
	cluster_limit_claims(c, 0);
	for (uint32_t i = 0; r == 0 && i < n; i++)
		r = members[i]->node ? cnode_refresh(c, members[i]->node) : 0;
	return r < 0 ? fail(err, -r, "out of memory") : 0;
}

void decide_cancel(
	struct cluster *c, struct decide_victims *victims, struct cpod *const *members, uint32_t n)
{
	decide_cancel_evictions(c, victims, 0);
	for (uint32_t i = 0; i < n; i++)
		cluster_forget(c, members[i]);
	place_rollback(c->place, victims->savepoint);
	place_release(c->place);
	victims->is_open = false;
	cluster_limit_claims(c, 0);
}

void decide_release(struct cluster *c, struct cpod *pod)
{
	if (pod->state == CPOD_NOMINATED || pod->state == CPOD_RESERVED)
		cpod_set_state(c, pod, CPOD_ASSUMED);
}

void decide_nominate(struct cluster *c, struct cpod *pod, uint64_t give_up_ns)
{
	if (pod->state == CPOD_ASSUMED)
		cpod_set_state(c, pod, CPOD_NOMINATED);
	pod->give_up_ns = give_up_ns;
}

/*
 * Number of the group's pods with shares that have to be bound before any starts. The nodes enforce
 * this number and know only such pods. So members without a share, or of another scheduler, count
 * as present. An extender pod waits for no member: kube-scheduler has gathered its gang.
 */
static struct assigned_group group_of(const struct cpod *pod)
{
	struct assigned_group group = {.least = pod->requested.group_least};
	const struct cpod *other = NULL;
	uint32_t n_plain = 0;

	if (!cpod_group(pod)[0] || !pod->assigned.n || !pod->is_ours)
		return (struct assigned_group){0};
	/* If the members state different thresholds, the largest one counts. */
	DL_FOREACH2(pod->in ? pod->in->pods : NULL, other, gnext)
	{
		group.least = MAX(group.least, other->requested.group_least);
		n_plain += !other->requested.n || !other->is_ours;
	}
	if (group.least)
		group.least -= MIN(n_plain, group.least - 1);
	if (group.least)
		str_copy(group.name, sizeof(group.name), str_from(pod->requested.group));
	return group;
}

static int decide_put_key(void *data, const char *key, const char *value)
{
	return json_object_set_new(data, key, json_string(value)) ? -ENOMEM : 0;
}

/* Returns KubeShare's GPUID of the pod's device; NULL if the pod has not exactly one device. */
static const char *name_vgpu(const struct cpod *pod, char name[static SPEC_LABEL])
{
	for (uint32_t i = 0; i < pod->assigned.n; i++)
		if (pod->assigned.v[i].n != 1 ||
			strcmp(pod->assigned.v[i].device[0], pod->assigned.v[0].device[0]))
			return NULL;
	vgpu_name(cpod_devices_node(pod), pod->assigned.v[0].device[0], name);
	return name;
}

int decide_annotations(struct cluster *c, const struct cpod *pod, uint64_t epoch, json_t **ret)
{
	struct dialect_device device[ASSIGNED_CONTAINERS_MAX][SPEC_DEVICES_MAX];
	struct dialect_grant grant[ASSIGNED_CONTAINERS_MAX];
	struct assigned assigned = pod->assigned;
	json_t *annotations = json_object();
	char vgpu[SPEC_LABEL];
	int r;

	assigned.epoch = epoch;
	assigned.group = group_of(pod);
	r = annotations ? assigned_format(&assigned, decide_put_key, annotations) : -ENOMEM;
	for (uint32_t i = 0; i < assigned.n; i++) {
		const struct assigned_container *g = &assigned.v[i];

		for (uint32_t k = 0; k < g->n; k++) {
			const struct gpunode_device *d = gpunode_find(
				&cpod_devices_node(pod)->gpus, g->device[k]);

			device[i][k] = (struct dialect_device){.index = d ? d->index : 0,
				.uuid = g->device[k],
				.model = d ? d->model : "",
				.memory_bytes = d ? d->memory_bytes : 0,
				.granted_bytes = g->memory_bytes[k]};
		}
		grant[i] = (struct dialect_grant){device[i], g->n, g->request, g->limit};
	}
	if (r == 0 && assigned.n && pod->json) {
		const struct dialect_assigned back = {.node = pod->node->name,
			.vgpu = name_vgpu(pod, vgpu),
			.time_ns = c->real_ns,
			.grant = grant};

		r = tenancy_write_back(pod->json, cluster_dialects(c, pod->ns), &back, annotations);
	}
	if (r < 0)
		json_decref(annotations);
	else
		*ret = annotations;
	return r;
}
