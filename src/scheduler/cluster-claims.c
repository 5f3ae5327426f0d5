/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects the cluster with src/claims: passes the objects of dynamic resource allocation on, lets
 * the view ask which nodes can have a pod's devices, and assumes the devices of placed pods. A pod
 * keeps its assumption while it has a place. Before CLUSTER_RESOURCE_CLAIM is served, no pod with
 * ResourceClaims fits a node.
 */
#include "scheduler/cluster-internal.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "claims/claims.h"
#include "kube/time.h"
#include "manifest/claim-config.h"

static enum claims_kind cluster_claims_kind(int kind)
{
	return (enum claims_kind)(kind - CLUSTER_SLICE);
}

bool cluster_is_claims_kind(int kind)
{
	return kind >= CLUSTER_SLICE && kind <= CLUSTER_TAINT_RULE;
}

int cluster_set_claims(struct cluster *c, int kind, json_t *json, struct error *err)
{
	return claims_set(c->claims, cluster_claims_kind(kind), json, err);
}

int cluster_remove_claims(struct cluster *c, int kind, const char *ns, const char *name)
{
	return claims_remove(c->claims, cluster_claims_kind(kind), ns, name);
}

/* ---- questions of the view ---- */

/* Returns the claims of the pod, which the caller frees; NULL: out of memory. */
static struct claims_name *cluster_claims_names(const struct pod *pod)
{
	struct claims_name *names = calloc(pod->claims.n + 1ul, sizeof(*names));

	for (uint32_t i = 0; names && i < pod->claims.n; i++)
		names[i] = (struct claims_name){pod->claims.v[i].name, pod->claims.v[i].entry,
			pod->claims.v[i].template_name};
	return names;
}

static int cluster_search_claims(
	struct cluster *c, const struct pod *pod, struct claims_search **ret, struct error *err)
{
	_cleanup_free_ struct claims_name *names = cluster_claims_names(pod);
	struct claims_pod wanted = {pod->object.ns, pod->object.uid, names, pod->claims.n};

	if (!names)
		return fail(err, ENOMEM, "out of memory");
	return claims_search_new(c->claims, &wanted, ret, err);
}

static int cluster_begin_claims(
	void *arg, const struct pod *pod, void **ret_search, struct error *err)
{
	struct claims_search *search = NULL;
	int r = cluster_search_claims(arg, pod, &search, err);

	if (r == 0)
		*ret_search = search;
	return r;
}

static struct claims_node cluster_claims_node(const struct node *node)
{
	return (struct claims_node){node->object.name, &node->object.labels};
}

static bool cluster_fit_claims(void *search, const struct node *node, const char **ret_why)
{
	const struct claims_node at = cluster_claims_node(node);

	return claims_search_fits(search, &at, ret_why);
}

static void cluster_end_claims(void *search)
{
	claims_search_free(search);
}

int cluster_new_claims(struct cluster *c, struct error *err)
{
	int r;

	c->claims_check = (struct view_claims){
		cluster_begin_claims, cluster_fit_claims, cluster_end_claims, c};
	r = claims_new(c->config.seed, &c->claims, err);
	if (r == 0)
		claims_pack(c->claims,
			(struct claims_packing){CLAIM_DRIVER, CLAIM_DRIVER "/nvlinkGroup"});
	return r;
}

void cluster_note_claims(struct cluster *c, int kind)
{
	if (kind == CLUSTER_RESOURCE_CLAIM)
		view_set_claims(c->view, &c->claims_check);
}

void cluster_limit_claims(struct cluster *c, uint32_t n_pods)
{
	claims_limit_steps(c->claims, n_pods ? n_pods * CLAIMS_STEPS_MAX : UINT64_MAX);
}

uint64_t cluster_n_claim_steps(const struct cluster *c)
{
	return claims_n_steps(c->claims);
}

/* ---- devices of pods ---- */

int cpod_assume_claims(
	struct cluster *c, struct cpod *pod, const struct cnode *node, struct error *err)
{
	const struct pod *seen = cpod_view(c, pod);
	const int number = view_find_node(c->view, node->name);
	const struct kube_time now = kube_time_format(c->real_ns);
	_cleanup_(claims_search_free_p) struct claims_search *search = NULL;
	struct claims_node at;
	int r;

	if (!seen || !seen->claims.n)
		return 0;
	if (number < 0)
		return fail(err, ENOSPC, "node %s is gone", node->name);
	at = cluster_claims_node(view_node(c->view, (uint32_t)number));
	cpod_release_claims(c, pod);
	r = cluster_search_claims(c, seen, &search, err);
	return r < 0 ? r : claims_assume(search, &at, now.s, &pod->claims, err);
}

void cpod_release_claims(struct cluster *c, struct cpod *pod)
{
	if (pod->claims)
		claims_release(c->claims, TAKE_PTR(pod->claims));
}

bool cpod_next_unused_claim(
	struct cluster *c, const struct cpod *pod, uint32_t *at, struct claims_unused *ret)
{
	const struct pod *seen = cpod_view(c, pod);
	_cleanup_free_ struct claims_name *names = seen ? cluster_claims_names(seen) : NULL;

	if (!names)
		return false;
	return claims_next_unused(c->claims,
		&(struct claims_pod){seen->object.ns, seen->object.uid, names, seen->claims.n}, at,
		ret);
}

static void cpod_hide_claims(struct cluster *c, const struct pod *seen, bool is_hidden)
{
	for (uint32_t i = 0; seen && i < seen->claims.n; i++)
		if (seen->claims.v[i].name)
			claims_hide_user(
				c->claims, seen->object.ns, seen->claims.v[i].name, is_hidden);
}

int cpod_hide(struct cluster *c, struct cpod *pod, bool is_hidden)
{
	if (pod->is_hidden != is_hidden)
		cpod_hide_claims(c, cpod_view(c, pod), is_hidden);
	pod->is_hidden = is_hidden;
	return view_hide(c->view, pod->ns, pod->name, is_hidden);
}

void cpod_note_ending_claims(struct cluster *c, const struct cpod *pod)
{
	const struct pod *seen = cpod_view(c, pod);

	for (uint32_t i = 0; seen && pod->is_reported && i < seen->claims.n; i++)
		if (seen->claims.v[i].name)
			claims_note_ending(
				c->claims, pod->ns, seen->claims.v[i].name, seen->object.uid);
}

/* ---- the best node, and reasons ---- */

uint32_t cluster_best_claims_node(struct cluster *c, struct fit *fit,
	bool (*may_use)(void *arg, const struct cnode *node), void *arg)
{
	const struct claims_search *search = fit ? fit_claims_search(fit) : NULL;
	struct claims_score best = {.is_packed = false};
	uint32_t at = PLACE_NONE;

	for (uint32_t i = 0; search && i < view_n_nodes(c->view); i++) {
		const struct claims_node node = cluster_claims_node(view_node(c->view, i));
		const struct cnode *own = cnode_find(c, node.name);
		struct claims_score score;

		if (!own || own->at == PLACE_NONE || !may_use(arg, own))
			continue;
		score = claims_search_score(search, &node);
		/* No device of the driver: the placement model chooses among all nodes. */
		if (!score.is_packed && at == PLACE_NONE)
			return PLACE_NONE;
		if (at != PLACE_NONE && !claims_score_is_better(&score, &best))
			continue;
		best = score;
		at = own->at;
	}
	return at;
}

void cluster_explain_claims(
	struct fit *fit, const struct node *node, const struct claims_teller *teller)
{
	const struct claims_node at = cluster_claims_node(node);
	struct error err = {0};

	if (claims_search_explain(fit_claims_search(fit), &at, teller, &err) < 0)
		teller->tell(teller->data,
			&(struct claims_reason){.device = "", .model = "", .text = err.msg});
}

uint32_t cpod_n_claims(const struct cpod *pod)
{
	return claims_place_count(pod->claims);
}

struct claims_write cpod_claim(const struct cpod *pod, uint32_t i)
{
	struct claims_write write;

	claims_place_get(pod->claims, i, &write);
	return write;
}

void cluster_begin_claim_write(struct cluster *c, const char *ns, const char *name)
{
	claims_begin_write(c->claims, ns, name);
}

void cluster_end_claim_write(struct cluster *c, const char *ns, const char *name, bool is_unclear)
{
	claims_end_write(c->claims, ns, name, is_unclear);
}

const char *cluster_claim_version(const struct cluster *c, const struct cpod *pod, uint32_t i)
{
	return claims_place_version(c->claims, pod->claims, i);
}
