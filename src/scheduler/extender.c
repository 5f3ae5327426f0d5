/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the requests of kube-scheduler, asks decide.h, and formats the answers as JSON of the
 * protocol. extender_find_pod() refuses a pod that the cluster does not know by name and uid,
 * because the watch may be behind. A pod has at most one reservation. extender_filter() and
 * extender_preempt() release an old reservation first; extender_keep() releases only a reservation
 * on another node. Only extender_filter() and extender_bind() reserve; extender_prioritize() reads
 * the reservation. A struct candidates borrows its node names from the request, and ends before the
 * request does.
 */
#include "scheduler/extender.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "kube/kube-json.h"
#include "scheduler/decide.h"

/* ---- requests ---- */

/* Returns the member of that name, in upper or lower case; NULL if it is missing or null. */
static json_t *extender_json_member(const json_t *object, const char *name)
{
	json_t *found = json_object_get(object, name), *value;
	const char *key;

	if (!found)
		json_object_foreach((json_t *)object, key, value)
			found = strcasecmp(key, name) ? found : value;
	return json_is_null(found) ? NULL : found;
}

static const char *extender_json_text(const json_t *object, const char *name)
{
	return json_string_value(extender_json_member(object, name));
}

/*
 * Makes a JSON string from a message. If user text in the message was cut within a UTF-8 character,
 * '?' replaces all bytes that are not printable ASCII.
 */
static json_t *extender_sentence_json(const char *said)
{
	json_t *whole = json_string(said);
	char plain[DECIDE_WHY_MAX];
	size_t n = 0;

	if (whole)
		return whole;
	for (; said[n] && n + 1 < sizeof(plain); n++)
		plain[n] = said[n] >= ' ' && said[n] <= '~' ? said[n] : '?';
	return json_stringn(plain, n);
}

/* The nodes of a request, borrowed from it. */
struct candidates {
	struct decide_candidate *v;
	uint32_t n;
	struct cpod **evicted; /* victims of all nodes */
};

static void candidates_done(struct candidates *candidates)
{
	free(candidates->v);
	free(candidates->evicted);
}
#define _cleanup_candidates_ _cleanup_(candidates_done)

static int extender_reserve_nodes(struct candidates *candidates, size_t n, struct error *err)
{
	if (n > EXTENDER_NODES_MAX)
		return fail(
			err, EINVAL, "%zu nodes: at most %u are allowed", n, EXTENDER_NODES_MAX);
	candidates->v = calloc(n + 1, sizeof(*candidates->v));
	return candidates->v ? 0 : fail(err, ENOMEM, "out of memory");
}

static const char *extender_node_name(const json_t *node)
{
	return json_is_string(node) ? json_string_value(node)
				    : kube_json_text_at(node, "metadata", "name", NULL);
}

/*
 * Returns the request's list of node names or of node objects, whichever is present; NULL if
 * neither is a list.
 */
static json_t *nodes_of(const json_t *args)
{
	json_t *names = extender_json_member(args, "NodeNames");
	json_t *nodes = names ? names
			      : extender_json_member(extender_json_member(args, "Nodes"), "items");

	return json_is_array(nodes) ? nodes : NULL;
}

static int read_nodes(const json_t *args, struct candidates *ret, struct error *err)
{
	const json_t *nodes = nodes_of(args);
	int r = nodes ? extender_reserve_nodes(ret, json_array_size(nodes), err)
		      : fail(err, EINVAL, "neither NodeNames nor Nodes: one of them is needed");

	for (size_t i = 0; r == 0 && i < json_array_size(nodes); i++) {
		const char *name = extender_node_name(json_array_get(nodes, i));

		if (!name)
			return fail(err, EINVAL, "node %zu of the list has no name", i);
		ret->v[ret->n++].node = name;
	}
	return r;
}

static int extender_find_pod(struct sched *s, const char *ns, const char *name, const char *uid,
	struct cpod **ret, struct error *err)
{
	struct cpod *pod;

	if (!ns || !name || !uid)
		return fail(err, EINVAL, "the pod's namespace, name or uid is missing");
	pod = cluster_pod(sched_cluster(s), ns, name);
	if (!pod || strcmp(cpod_uid(pod), uid))
		return fail(err, EAGAIN,
			"pod %.253s/%.253s with uid %.64s is unknown to divvy-scheduler", ns, name,
			uid);
	*ret = pod;
	return 0;
}

static int extender_read_pod(
	struct sched *s, const json_t *args, struct cpod **ret, struct error *err)
{
	const json_t *metadata = extender_json_member(
		extender_json_member(args, "Pod"), "metadata");

	return extender_find_pod(s, extender_json_text(metadata, "namespace"),
		extender_json_text(metadata, "name"), extender_json_text(metadata, "uid"), ret,
		err);
}

static bool asks_for_nothing(const struct cpod *pod)
{
	return cpod_state(pod) == CPOD_OTHER;
}

static int extender_try_nodes(
	struct sched *s, struct cpod *pod, struct candidates *candidates, struct error *err)
{
	int r;

	if (asks_for_nothing(pod)) {
		for (uint32_t i = 0; i < candidates->n; i++)
			candidates->v[i].is_fit = true;
		return 0;
	}
	if (cpod_state(pod) != CPOD_EXTENDER)
		return fail(err, EBUSY,
			cpod_is_ours(pod) ? "its schedulerName selects divvy-scheduler, which "
					    "places it"
					  : "it is bound already, or its Binding is in progress");
	r = sched_settle(s, err);
	return r < 0 ? r
		     : decide_candidates(sched_cluster(s), pod, candidates->v, candidates->n, err);
}

/* ---- filter ---- */

static json_t *format_filter(const json_t *args, const struct candidates *candidates)
{
	const bool is_by_name = extender_json_member(args, "NodeNames") != NULL;
	json_t *fit = json_array(), *failed = json_object(), *final = json_object();

	for (uint32_t i = 0; i < candidates->n; i++) {
		const struct decide_candidate *candidate = &candidates->v[i];

		if (candidate->is_fit)
			json_array_append(fit, json_array_get(nodes_of(args), i));
		else
			json_object_set_new(
				failed, candidate->node, extender_sentence_json(candidate->why));
		/* kube-scheduler releases that know this field prefer it to FailedNodes. */
		if (!candidate->is_fit && !candidate->may_help)
			json_object_set_new(
				final, candidate->node, extender_sentence_json(candidate->why));
	}
	if (is_by_name)
		return json_pack("{s:o, s:o, s:o, s:s}", "NodeNames", fit, "FailedNodes", failed,
			"FailedAndUnresolvableNodes", final, "Error", "");
	return json_pack("{s:{s:s, s:s, s:{}, s:o}, s:o, s:o, s:s}", "Nodes", "apiVersion", "v1",
		"kind", "NodeList", "metadata", "items", fit, "FailedNodes", failed,
		"FailedAndUnresolvableNodes", final, "Error", "");
}

/* Notes for the pool whether a further device might help the pod, which fits on no node. */
static int extender_note_need(
	struct sched *s, struct cpod *pod, const struct candidates *candidates, struct error *err)
{
	bool has_fit = false, needs_device = false;

	for (uint32_t i = 0; i < candidates->n; i++) {
		has_fit |= candidates->v[i].is_fit;
		needs_device |= candidates->v[i].needs_device;
	}
	return has_fit ? 0 : sched_note_need(s, pod, needs_device, err);
}

static int extender_filter(
	struct sched *s, struct cpod *pod, const json_t *args, json_t **ret, struct error *err)
{
	_cleanup_candidates_ struct candidates candidates = {0};
	int r = read_nodes(args, &candidates, err);

	if (r < 0)
		return r;
	/* A repeated request releases the reservation of the earlier one. */
	if (cpod_state(pod) == CPOD_RESERVED)
		cluster_forget(sched_cluster(s), pod);
	r = extender_try_nodes(s, pod, &candidates, err);
	if (r == 0 && cpod_state(pod) == CPOD_EXTENDER)
		r = extender_note_need(s, pod, &candidates, err);
	if (r == 0 && cpod_state(pod) == CPOD_EXTENDER)
		r = decide_reserve(sched_cluster(s), pod, candidates.v, candidates.n, err);
	if (r < 0 && r != -ENOSPC)
		return r;
	*ret = format_filter(args, &candidates);
	return 0;
}

/* ---- prioritize ---- */

static int extender_prioritize(
	struct cpod *pod, const json_t *args, json_t **ret, struct error *err)
{
	_cleanup_candidates_ struct candidates candidates = {0};
	const char *kept = cpod_state(pod) == CPOD_RESERVED ? cpod_node(pod) : "";
	json_t *list = json_array();
	int r = read_nodes(args, &candidates, err);

	for (uint32_t i = 0; r == 0 && i < candidates.n; i++)
		json_array_append_new(list,
			json_pack("{s:s, s:i}", "Host", candidates.v[i].node, "Score",
				strcmp(candidates.v[i].node, kept) ? 0 : EXTENDER_BEST));
	if (r < 0)
		json_decref(list);
	else
		*ret = list;
	return r;
}

/* ---- preempt ---- */

/*
 * Returns the request's victims, {NODE: victims}, as UIDs or as objects; NULL if the request has
 * none.
 */
static json_t *victims_of(const json_t *args)
{
	json_t *by_uid = extender_json_member(args, "NodeNameToMetaVictims");

	return json_object_size(by_uid) ? by_uid : extender_json_member(args, "NodeNameToVictims");
}

static const char *victim_uid(const json_t *victim)
{
	const char *uid = extender_json_text(victim, "UID");

	return uid ? uid : extender_json_text(extender_json_member(victim, "metadata"), "uid");
}

/* Writes those victims of the node that the cluster knows to `at`, and returns their number. */
static uint32_t extender_find_victims(
	struct cluster *c, const char *node, const json_t *pods, struct cpod **at)
{
	uint32_t n = 0;

	for (size_t i = 0; i < json_array_size(pods); i++) {
		const char *uid = victim_uid(json_array_get(pods, i));
		struct cpod *pod = uid ? cluster_pod_on(c, node, uid) : NULL;

		if (pod)
			at[n++] = pod;
	}
	return n;
}

static int read_victims(
	struct sched *s, const json_t *args, struct candidates *ret, struct error *err)
{
	json_t *by_node = victims_of(args), *value;
	const char *node;
	size_t n = 0, at = 0;
	int r = extender_reserve_nodes(ret, json_object_size(by_node), err);

	json_object_foreach(by_node, node, value)
		n += json_array_size(extender_json_member(value, "Pods"));
	ret->evicted = r < 0 ? NULL : calloc(n + 1, sizeof(struct cpod *));
	if (!ret->evicted)
		return r < 0 ? r : fail(err, ENOMEM, "out of memory");
	json_object_foreach(by_node, node, value) {
		struct decide_candidate *candidate = &ret->v[ret->n++];

		candidate->node = node;
		candidate->evicted = ret->evicted + at;
		candidate->n_evicted = extender_find_victims(sched_cluster(s), node,
			extender_json_member(value, "Pods"), ret->evicted + at);
		at += candidate->n_evicted;
	}
	return 0;
}

static json_t *format_victims(const json_t *victims)
{
	const json_t *pods = extender_json_member(victims, "Pods"),
		     *broken = extender_json_member(victims, "NumPDBViolations");
	json_t *uids = json_array();

	for (size_t i = 0; i < json_array_size(pods); i++) {
		const char *uid = victim_uid(json_array_get(pods, i));

		if (uid)
			json_array_append_new(uids, json_pack("{s:s}", "UID", uid));
	}
	return json_pack(
		"{s:o, s:I}", "Pods", uids, "NumPDBViolations", json_integer_value(broken));
}

static int extender_preempt(
	struct sched *s, struct cpod *pod, const json_t *args, json_t **ret, struct error *err)
{
	_cleanup_candidates_ struct candidates candidates = {0};
	json_t *left;
	int r;

	if (cpod_state(pod) == CPOD_RESERVED)
		cluster_forget(sched_cluster(s), pod);
	r = read_victims(s, args, &candidates, err);
	r = r < 0 ? r : extender_try_nodes(s, pod, &candidates, err);
	if (r < 0)
		return r;
	left = json_object();
	for (uint32_t i = 0; i < candidates.n; i++)
		if (candidates.v[i].is_fit)
			json_object_set_new(left, candidates.v[i].node,
				format_victims(
					json_object_get(victims_of(args), candidates.v[i].node)));
	*ret = json_pack("{s:o}", "NodeNameToMetaVictims", left);
	return 0;
}

int extender_answer(struct sched *s, enum extender_verb verb, const json_t *args, json_t **ret,
	struct error *err)
{
	json_t *answer = NULL;
	struct cpod *pod;
	int r = extender_read_pod(s, args, &pod, err);

	if (r == 0)
		r = verb == EXTENDER_FILTER        ? extender_filter(s, pod, args, &answer, err)
			: verb == EXTENDER_PREEMPT ? extender_preempt(s, pod, args, &answer, err)
						   : extender_prioritize(pod, args, &answer, err);
	if (r == 0 && !answer)
		return fail(err, ENOMEM, "out of memory");
	if (r == 0)
		*ret = answer;
	return r;
}

/* ---- bind ---- */

/* Returns 0 if the pod may be bound to the node, 1 if it is already bound to the node. */
static int check_free(const struct cpod *pod, const char *node, struct error *err)
{
	switch (cpod_state(pod)) {
	case CPOD_OTHER:
	case CPOD_EXTENDER:
	case CPOD_RESERVED: return 0;
	case CPOD_BOUND:
		return strcmp(cpod_node(pod), node)
			? fail(err, EBUSY, "it is bound to %.253s already", cpod_node(pod))
			: 1;
	default:
		return fail(err, EBUSY,
			cpod_is_ours(pod) ? "its schedulerName selects divvy-scheduler, which "
					    "places it"
					  : "its Binding to %.253s is in progress",
			cpod_node(pod));
	}
}

/* Reserves the node for the pod, and releases a reservation on another node. */
static int extender_keep(struct sched *s, struct cpod *pod, const char *node, struct error *err)
{
	struct decide_candidate candidate = {.node = node, .is_fit = true};
	struct cluster *c = sched_cluster(s);
	int r;

	if (cpod_state(pod) == CPOD_RESERVED && !strcmp(cpod_node(pod), node))
		return 0;
	cluster_forget(c, pod);
	r = sched_settle(s, err);
	if (r == 0 && !asks_for_nothing(pod))
		r = decide_candidates(c, pod, &candidate, 1, err);
	if (r == 0 && !candidate.is_fit)
		return fail(err, ENOSPC, "%.253s: %s", node, candidate.why);
	r = r < 0 ? r : decide_reserve(c, pod, &candidate, 1, err);
	return r == -ENOSPC ? fail(err, ENOSPC, "%.253s: too little cpu or memory", node) : r;
}

int extender_bind(
	struct sched *s, const json_t *args, const struct cpod **ret_pod, struct error *err)
{
	const char *node = extender_json_text(args, "Node");
	struct cpod *pod;
	int r = extender_find_pod(s, extender_json_text(args, "PodNamespace"),
		extender_json_text(args, "PodName"), extender_json_text(args, "PodUID"), &pod, err);

	if (r == 0 && !node)
		r = fail(err, EINVAL, "Node is missing");
	r = r < 0 ? r : check_free(pod, node, err);
	if (r != 0)
		return r;
	r = extender_keep(s, pod, node, err);
	if (r < 0)
		return r;
	decide_release(sched_cluster(s), pod);
	*ret_pod = pod;
	return 0;
}

json_t *extender_refusal(enum extender_verb verb, const char *said)
{
	return verb == EXTENDER_FILTER || verb == EXTENDER_BIND
		? json_pack("{s:o}", "Error", extender_sentence_json(said))
		: NULL;
}
