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
#include <string.h>

#include "base/cleanup.h"
#include "claims/claim-model.h"
#include "claims/claims.h"
#include "kube/time.h"
#include "manifest/claim-config.h"
#include "place/place-queue.h"

/* As kube-scheduler, waits 10 minutes until drivers have made devices ready. */
#define BINDING_TIMEOUT_NS (UINT64_C(600) * 1000000000)

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

/* The time before which claims have failed that are not ready. */
static struct kube_time cluster_ready_after(const struct cluster *c)
{
	return kube_time_format(
		c->real_ns > BINDING_TIMEOUT_NS ? c->real_ns - BINDING_TIMEOUT_NS : 0);
}

static int cluster_search_claims(
	struct cluster *c, const struct pod *pod, struct claims_search **ret, struct error *err)
{
	_cleanup_free_ struct claims_name *names = cluster_claims_names(pod);
	const struct kube_time after = cluster_ready_after(c);
	struct claims_pod wanted = {
		pod->object.ns, pod->object.name, pod->object.uid, names, pod->claims.n, after.s};

	if (!names)
		return fail(err, ENOMEM, "out of memory");
	return claims_search_new(c->claims, &wanted, ret, err);
}

/* The search of a pod, with what its namespace and queue may have in addition. */
struct cluster_search {
	struct cluster *cluster;
	struct claims_search *claims;
	const char *ns;
	uint32_t queue;
	bool has_total; /* a policy limits what the namespace has, which is `used` */
	struct usage used;
	struct error refusal; /* why the last refused node was refused */
};

static void cluster_end_claims(void *arg)
{
	struct cluster_search *search = arg;

	claims_search_free(search->claims);
	free(search);
}

void cluster_keep_usage(struct cluster *c, bool is_kept)
{
	c->is_usage_kept = is_kept;
	free(TAKE_PTR(c->usage_ns));
}

static struct usage cluster_kept_usage(struct cluster *c, const char *ns)
{
	struct usage usage;

	if (c->usage_ns && c->usage_version == claims_version(c->claims) &&
		!strcmp(c->usage_ns, ns))
		return c->usage;
	free(TAKE_PTR(c->usage_ns));
	usage = cluster_usage(c, ns);
	if (c->is_usage_kept)
		c->usage_ns = str_dup(str_from(ns));
	c->usage = usage;
	c->usage_version = claims_version(c->claims);
	return usage;
}

static int cluster_begin_claims(
	void *arg, const struct pod *pod, void **ret_search, struct error *err)
{
	struct cluster_search *search = calloc(1, sizeof(*search));
	struct cluster *c = arg;
	const struct cpod *own = cluster_pod(c, pod->object.ns, pod->object.name);
	int r = search ? cluster_search_claims(c, pod, &search->claims, err)
		       : fail(err, ENOMEM, "out of memory");

	if (r < 0) {
		free(search);
		return r;
	}
	search->cluster = c;
	search->ns = pod->object.ns;
	search->queue = own ? cpod_queue_number(c, own) : 0;
	search->has_total = cluster_has_total(c, search->ns);
	if (search->has_total)
		search->used = cluster_kept_usage(c, search->ns);
	*ret_search = search;
	return 0;
}

static struct claims_node cluster_claims_node(const struct node *node)
{
	return (struct claims_node){node->object.name, &node->object.labels};
}

/* Whether policies and queue allow what the claims would get on the node. */
static bool cluster_may_have_claims(struct cluster_search *search, const struct claims_node *node)
{
	const struct claims_sum sum = claims_search_sum(search->claims, node);
	const struct usage asked = {.milli = sum.share, .firm = sum.share, .bytes = sum.bytes};
	_cleanup_buf_ struct buf why = BUF_INIT(sizeof(search->refusal.msg) - 1);

	/* All claims have devices already, perhaps those that victims still have as well. */
	if (!sum.share && !sum.bytes)
		return true;
	if (search->has_total &&
		!cluster_has_room(search->cluster, search->ns, &search->used, &asked, &why)) {
		fail(&search->refusal, ENOSPC, "%s", buf_text(&why));
		return false;
	}
	/* Victims may have been hidden or shown since the last count. */
	if (search->queue && cluster_count_claims(search->cluster) < 0) {
		fail(&search->refusal, ENOMEM, "out of memory");
		return false;
	}
	return place_queue_allows_outside(
		       search->cluster->place, search->queue, sum.share, &search->refusal) == 0;
}

static bool cluster_fit_claims(void *arg, const struct node *node, const char **ret_why)
{
	const struct claims_node at = cluster_claims_node(node);
	struct cluster_search *search = arg;

	if (!claims_search_fits(search->claims, &at, ret_why))
		return false;
	if (cluster_may_have_claims(search, &at))
		return true;
	*ret_why = search->refusal.msg;
	return false;
}

/* ---- what claims use of totals and queues ---- */

/* Whether the claim's tenants are opportunistic, which take nothing from others. */
static bool claims_sum_is_opportunistic(const struct claims_sum *sum)
{
	const char *class = NULL;

	for (size_t i = 0; i < json_array_size(sum->configs); i++) {
		const json_t *opaque = json_object_get(json_array_get(sum->configs, i), "opaque");
		const char *driver = json_string_value(json_object_get(opaque, "driver"));
		const char *text = json_string_value(
			json_object_get(json_object_get(opaque, "parameters"), "class"));

		if (driver && text && !strcmp(driver, CLAIM_DRIVER))
			class = text;
	}
	return class && !strcmp(class, spec_class_name(SPEC_OPPORTUNISTIC));
}

static struct usage claims_sum_usage(const struct claims_sum *sum)
{
	return (struct usage){.milli = sum->share,
		.firm = claims_sum_is_opportunistic(sum) ? 0 : sum->share,
		.bytes = sum->bytes};
}

bool cluster_next_claim_usage(
	struct cluster *c, const void **at, const char **ret_ns, struct usage *ret)
{
	struct claims_sum sum;

	if (!claims_next_sum(c->claims, at, &sum))
		return false;
	*ret_ns = sum.ns;
	*ret = claims_sum_usage(&sum);
	return true;
}

/* The queue of the pod that uses the claim; 0: none. */
static uint32_t claims_sum_queue(struct cluster *c, const struct claims_sum *sum)
{
	const struct cpod *pod = sum->user ? cluster_pod(c, sum->ns, sum->user) : NULL;

	return pod ? cpod_queue_number(c, pod) : 0;
}

static void cluster_set_outside(struct cluster *c, uint32_t queue)
{
	place_queue_set_outside(
		c->place, queue, (uint64_t)MAX(c->claims_by_queue[queue], INT64_C(0)));
}

int cluster_count_claims(struct cluster *c)
{
	const void *at = NULL;
	struct claims_sum sum;

	if (!c->n_by_queue || c->claims_counted == claims_version(c->claims))
		return 0;
	c->claims_counted = UINT64_MAX;
	free(c->claims_by_queue);
	c->claims_by_queue = calloc(c->n_by_queue + 1ul, sizeof(*c->claims_by_queue));
	if (!c->claims_by_queue)
		return -ENOMEM;
	while (claims_next_sum(c->claims, &at, &sum))
		c->claims_by_queue[claims_sum_queue(c, &sum)] += (int64_t)sum.share;
	for (uint32_t i = 1; i <= c->n_by_queue; i++)
		cluster_set_outside(c, i);
	c->claims_counted = claims_version(c->claims);
	return 0;
}

static void cluster_adjust_usage(struct cluster *c, const struct claims_sum *sum, bool is_free)
{
	const struct usage its = claims_sum_usage(sum);
	const uint64_t sign = is_free ? UINT64_MAX : 1; /* modulo 2^64 */

	if (!c->usage_ns || c->usage_version + 1 != claims_version(c->claims))
		return;
	if (!strcmp(c->usage_ns, sum->ns)) {
		c->usage.milli += sign * its.milli;
		c->usage.firm += sign * its.firm;
		c->usage.bytes += sign * its.bytes;
	}
	c->usage_version++;
}

static void cluster_adjust_queue(struct cluster *c, const struct claims_sum *sum, bool is_free)
{
	const int64_t share = (int64_t)sum->share;
	uint32_t queue;

	if (!c->n_by_queue || c->claims_counted + 1 != claims_version(c->claims))
		return;
	queue = claims_sum_queue(c, sum);
	c->claims_by_queue[queue] += is_free ? -share : share;
	if (queue)
		cluster_set_outside(c, queue);
	c->claims_counted++;
}

/* Keeps valid counts valid, since tests of evictions hide and show claims for each node. */
static void cluster_on_hidden_claim(void *data, const struct claims_sum *sum, bool is_free)
{
	cluster_adjust_usage(data, sum, is_free);
	cluster_adjust_queue(data, sum, is_free);
}

int cluster_new_claims(struct cluster *c, struct error *err)
{
	int r;

	c->claims_check = (struct view_claims){
		cluster_begin_claims, cluster_fit_claims, cluster_end_claims, c};
	c->claims_counted = UINT64_MAX;
	r = claims_new(c->config.seed, &c->claims, err);
	r = r < 0 ? r : claim_model_new(c->config.policy, &c->claim_model, err);
	if (r < 0)
		return r;
	claims_set_on_hidden(c->claims, (struct claims_on_hidden){cluster_on_hidden_claim, c});
	claims_pack(c->claims, (struct claims_packing){CLAIM_DRIVER, CLAIM_DRIVER "/nvlinkGroup"});
	return 0;
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
	if (r == 0 && pod->claim_unit && pod->claim_node && !strcmp(pod->claim_node, node->name))
		claims_search_prefer(search, pod->claim_unit);
	return r < 0 ? r : claims_assume(search, &at, now.s, &pod->claims, err);
}

void cpod_release_claims(struct cluster *c, struct cpod *pod)
{
	if (pod->claims)
		claims_release(c->claims, TAKE_PTR(pod->claims));
}

bool cpod_has_failed_claims(struct cluster *c, const struct cpod *pod)
{
	const struct pod *seen = cpod_view(c, pod);
	_cleanup_free_ struct claims_name *names = seen ? cluster_claims_names(seen) : NULL;
	const struct kube_time after = cluster_ready_after(c);

	return names &&
		claims_have_failed(c->claims,
			&(struct claims_pod){seen->object.ns, seen->object.name, seen->object.uid,
				names, seen->claims.n, after.s});
}

bool cpod_claims_are_ready(struct cluster *c, const struct cpod *pod)
{
	return claims_place_is_ready(c->claims, pod->claims);
}

bool cpod_next_unused_claim(
	struct cluster *c, const struct cpod *pod, uint32_t *at, struct claims_unused *ret)
{
	const struct pod *seen = cpod_view(c, pod);
	_cleanup_free_ struct claims_name *names = seen ? cluster_claims_names(seen) : NULL;

	if (!names)
		return false;
	return claims_next_unused(c->claims,
		&(struct claims_pod){seen->object.ns, seen->object.name, seen->object.uid, names,
			seen->claims.n},
		at, ret);
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

bool cluster_has_open_devices(const struct cluster *c)
{
	const struct cnode *node;

	for (node = c->nodes; node; node = node->hh.next)
		for (uint32_t i = 0; node->has_gpus && i < node->gpus.n_devices; i++)
			if (!node->gpus.device[i].closed)
				return true;
	return false;
}

struct claims_nodes {
	struct cluster *cluster;
	bool (*may_use)(void *arg, const struct cnode *node);
	void *arg;
};

static bool cluster_may_use_node(void *arg, const char *name)
{
	const struct claims_nodes *nodes = arg;
	const struct cnode *node = cnode_find(nodes->cluster, name);

	return node && node->at != PLACE_NONE && nodes->may_use(nodes->arg, node);
}

/* Asks the placement policy. Returns the node, or PLACE_NONE if the policy has no answer. */
static uint32_t cpod_ask_policy(
	struct cpod *pod, struct claims_search *search, struct claims_nodes *nodes)
{
	struct cluster *c = nodes->cluster;
	const struct claim_model_params params = {.claims = c->claims,
		.view = c->view,
		.search = search,
		.cpu_milli = pod->cpu_milli,
		.memory_bytes = pod->memory_bytes,
		.is_new = !pod->is_claim_noted,
		.may_use = cluster_may_use_node,
		.arg = nodes};
	struct claim_model_choice choice;

	free(TAKE_PTR(pod->claim_node));
	free(TAKE_PTR(pod->claim_unit));
	/* A cluster without such devices does not even pay for a walk over the nodes. */
	if (!claims_has_units(c->claims) || (!search && cluster_has_open_devices(c)) ||
		claim_model_find(c->claim_model, &params, &choice) < 0)
		return PLACE_NONE;
	pod->is_claim_noted = true;
	/* Without memory for the preference, the pod gets another device there. */
	pod->claim_node = str_dup(str_from(choice.node));
	pod->claim_unit = choice.unit[0] ? str_dup(str_from(choice.unit)) : NULL;
	return cnode_find(c, choice.node)->at;
}

uint32_t cpod_best_claims_node(struct cluster *c, struct cpod *pod, struct fit *fit,
	bool (*may_use)(void *arg, const struct cnode *node), void *arg)
{
	const struct cluster_search *search = fit ? fit_claims_search(fit) : NULL;
	struct claims_score best = {.is_packed = false};
	uint32_t at = PLACE_NONE;

	at = cpod_ask_policy(
		pod, search ? search->claims : NULL, &(struct claims_nodes){c, may_use, arg});
	if (at != PLACE_NONE)
		return at;
	for (uint32_t i = 0; search && i < view_n_nodes(c->view); i++) {
		const struct claims_node node = cluster_claims_node(view_node(c->view, i));
		const struct cnode *own = cnode_find(c, node.name);
		struct claims_score score;

		if (!own || own->at == PLACE_NONE || !may_use(arg, own))
			continue;
		score = claims_search_score(search->claims, &node);
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
	struct cluster_search *search = fit_claims_search(fit);
	struct error err = {0};
	const char *why;

	/* The devices are free, but a policy or the queue forbids to take them. */
	if (claims_search_fits(search->claims, &at, &why))
		teller->tell(teller->data,
			&(struct claims_reason){
				.device = "", .model = "", .text = search->refusal.msg});
	else if (claims_search_explain(search->claims, &at, teller, &err) < 0)
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

int cluster_set_claim_answer(struct cluster *c, json_t *json, struct error *err)
{
	c->has_news = true;
	return claims_set_answer(c->claims, json, err);
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
