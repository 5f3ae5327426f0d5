/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the requests of kube-scheduler, asks decide.h, and formats the answers as JSON of the
 * protocol. find_pod() refuses a pod that the cluster does not know by name and uid, because the
 * watch may be behind. A pod has at most one reservation. filter() and preempt() release an old
 * reservation first; keep() releases only a reservation on another node. Only filter() and
 * extender_bind() reserve; prioritize() reads the reservation. A struct sites borrows its node
 * names from the request, and ends before the request does.
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

/* Finds the member in any case of letters; NULL also for a null value. */
static json_t *member(const json_t *object, const char *name)
{
	json_t *found = json_object_get(object, name), *value;
	const char *key;

	if (!found)
		json_object_foreach((json_t *)object, key, value)
			found = strcasecmp(key, name) ? found : value;
	return json_is_null(found) ? NULL : found;
}

static const char *text(const json_t *object, const char *name)
{
	return json_string_value(member(object, name));
}

/* Makes a JSON string from a sentence that may contain user text cut within a character. */
static json_t *sentence(const char *said)
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
struct sites {
	struct decide_site *v;
	uint32_t n;
	struct cpod **left; /* victims of all nodes */
};

static void sites_done(struct sites *sites)
{
	free(sites->v);
	free(sites->left);
}
#define _cleanup_sites_ _cleanup_(sites_done)

static int make_room(struct sites *sites, size_t n, struct error *err)
{
	if (n > EXTENDER_NODES_MAX)
		return fail(
			err, EINVAL, "%zu nodes: at most %u are looked at", n, EXTENDER_NODES_MAX);
	sites->v = calloc(n + 1, sizeof(*sites->v));
	return sites->v ? 0 : fail(err, ENOMEM, "out of memory");
}

static const char *node_name(const json_t *node)
{
	return json_is_string(node) ? json_string_value(node)
				    : kube_json_text_at(node, "metadata", "name", NULL);
}

/* Returns the list of names or of objects, whichever is present; NULL if neither is a list. */
static json_t *nodes_of(const json_t *args)
{
	json_t *names = member(args, "NodeNames");
	json_t *nodes = names ? names : member(member(args, "Nodes"), "items");

	return json_is_array(nodes) ? nodes : NULL;
}

static int read_nodes(const json_t *args, struct sites *ret, struct error *err)
{
	const json_t *nodes = nodes_of(args);
	int r = nodes ? make_room(ret, json_array_size(nodes), err)
		      : fail(err, EINVAL, "neither NodeNames nor Nodes: one of them is needed");

	for (size_t i = 0; r == 0 && i < json_array_size(nodes); i++) {
		const char *name = node_name(json_array_get(nodes, i));

		if (!name)
			return fail(err, EINVAL, "node %zu of the list has no name", i);
		ret->v[ret->n++].node = name;
	}
	return r;
}

static int find_pod(struct sched *s, const char *ns, const char *name, const char *uid,
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

static int read_pod(struct sched *s, const json_t *args, struct cpod **ret, struct error *err)
{
	const json_t *metadata = member(member(args, "Pod"), "metadata");

	return find_pod(s, text(metadata, "namespace"), text(metadata, "name"),
		text(metadata, "uid"), ret, err);
}

static bool asks_for_nothing(const struct cpod *pod)
{
	return cpod_state(pod) == CPOD_OTHER;
}

static int look(struct sched *s, struct cpod *pod, struct sites *sites, struct error *err)
{
	int r;

	if (asks_for_nothing(pod)) {
		for (uint32_t i = 0; i < sites->n; i++)
			sites->v[i].is_fit = true;
		return 0;
	}
	if (cpod_state(pod) != CPOD_GUEST)
		return fail(err, EBUSY,
			cpod_is_ours(pod) ? "its schedulerName selects divvy-scheduler, which "
					    "places it"
					  : "it is bound already, or its Binding is in progress");
	r = sched_settle(s, err);
	return r < 0 ? r : decide_sites(sched_cluster(s), pod, sites->v, sites->n, err);
}

/* ---- filter ---- */

static json_t *format_filter(const json_t *args, const struct sites *sites)
{
	const bool is_by_name = member(args, "NodeNames") != NULL;
	json_t *fit = json_array(), *failed = json_object(), *final = json_object();

	for (uint32_t i = 0; i < sites->n; i++) {
		const struct decide_site *site = &sites->v[i];

		if (site->is_fit)
			json_array_append(fit, json_array_get(nodes_of(args), i));
		else
			json_object_set_new(failed, site->node, sentence(site->why));
		/* Releases with this field give it precedence over FailedNodes. */
		if (!site->is_fit && !site->may_help)
			json_object_set_new(final, site->node, sentence(site->why));
	}
	if (is_by_name)
		return json_pack("{s:o, s:o, s:o, s:s}", "NodeNames", fit, "FailedNodes", failed,
			"FailedAndUnresolvableNodes", final, "Error", "");
	return json_pack("{s:{s:s, s:s, s:{}, s:o}, s:o, s:o, s:s}", "Nodes", "apiVersion", "v1",
		"kind", "NodeList", "metadata", "items", fit, "FailedNodes", failed,
		"FailedAndUnresolvableNodes", final, "Error", "");
}

static int filter(
	struct sched *s, struct cpod *pod, const json_t *args, json_t **ret, struct error *err)
{
	_cleanup_sites_ struct sites sites = {0};
	int r = read_nodes(args, &sites, err);

	if (r < 0)
		return r;
	/* A repeated question releases the earlier reservation. */
	if (cpod_state(pod) == CPOD_OFFERED)
		cluster_forget(sched_cluster(s), pod);
	r = look(s, pod, &sites, err);
	if (r == 0 && cpod_state(pod) == CPOD_GUEST)
		r = decide_offer(sched_cluster(s), pod, sites.v, sites.n, err);
	if (r < 0 && r != -ENOSPC)
		return r;
	*ret = format_filter(args, &sites);
	return 0;
}

/* ---- prioritize ---- */

static int prioritize(struct cpod *pod, const json_t *args, json_t **ret, struct error *err)
{
	_cleanup_sites_ struct sites sites = {0};
	const char *kept = cpod_state(pod) == CPOD_OFFERED ? cpod_node(pod) : "";
	json_t *list = json_array();
	int r = read_nodes(args, &sites, err);

	for (uint32_t i = 0; r == 0 && i < sites.n; i++)
		json_array_append_new(list,
			json_pack("{s:s, s:i}", "Host", sites.v[i].node, "Score",
				strcmp(sites.v[i].node, kept) ? 0 : EXTENDER_BEST));
	if (r < 0)
		json_decref(list);
	else
		*ret = list;
	return r;
}

/* ---- preempt ---- */

/* Victims as objects or as UIDs; NULL if there are none. */
static json_t *victims_of(const json_t *args)
{
	json_t *by_uid = member(args, "NodeNameToMetaVictims");

	return json_object_size(by_uid) ? by_uid : member(args, "NodeNameToVictims");
}

static const char *victim_uid(const json_t *victim)
{
	const char *uid = text(victim, "UID");

	return uid ? uid : text(member(victim, "metadata"), "uid");
}

/* Appends the node's known victims at `at` and returns their number. */
static uint32_t find_victims(
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

static int read_victims(struct sched *s, const json_t *args, struct sites *ret, struct error *err)
{
	json_t *by_node = victims_of(args), *value;
	const char *node;
	size_t n = 0, at = 0;
	int r = make_room(ret, json_object_size(by_node), err);

	json_object_foreach(by_node, node, value)
		n += json_array_size(member(value, "Pods"));
	ret->left = r < 0 ? NULL : calloc(n + 1, sizeof(struct cpod *));
	if (!ret->left)
		return r < 0 ? r : fail(err, ENOMEM, "out of memory");
	json_object_foreach(by_node, node, value) {
		struct decide_site *site = &ret->v[ret->n++];

		site->node = node;
		site->left = ret->left + at;
		site->n_left = find_victims(
			sched_cluster(s), node, member(value, "Pods"), ret->left + at);
		at += site->n_left;
	}
	return 0;
}

static json_t *format_victims(const json_t *victims)
{
	const json_t *pods = member(victims, "Pods"), *broken = member(victims, "NumPDBViolations");
	json_t *uids = json_array();

	for (size_t i = 0; i < json_array_size(pods); i++) {
		const char *uid = victim_uid(json_array_get(pods, i));

		if (uid)
			json_array_append_new(uids, json_pack("{s:s}", "UID", uid));
	}
	return json_pack(
		"{s:o, s:I}", "Pods", uids, "NumPDBViolations", json_integer_value(broken));
}

static int preempt(
	struct sched *s, struct cpod *pod, const json_t *args, json_t **ret, struct error *err)
{
	_cleanup_sites_ struct sites sites = {0};
	json_t *left;
	int r;

	if (cpod_state(pod) == CPOD_OFFERED)
		cluster_forget(sched_cluster(s), pod);
	r = read_victims(s, args, &sites, err);
	r = r < 0 ? r : look(s, pod, &sites, err);
	if (r < 0)
		return r;
	left = json_object();
	for (uint32_t i = 0; i < sites.n; i++)
		if (sites.v[i].is_fit)
			json_object_set_new(left, sites.v[i].node,
				format_victims(json_object_get(victims_of(args), sites.v[i].node)));
	*ret = json_pack("{s:o}", "NodeNameToMetaVictims", left);
	return 0;
}

int extender_answer(struct sched *s, enum extender_verb verb, const json_t *args, json_t **ret,
	struct error *err)
{
	json_t *answer = NULL;
	struct cpod *pod;
	int r = read_pod(s, args, &pod, err);

	if (r == 0)
		r = verb == EXTENDER_FILTER        ? filter(s, pod, args, &answer, err)
			: verb == EXTENDER_PREEMPT ? preempt(s, pod, args, &answer, err)
						   : prioritize(pod, args, &answer, err);
	if (r == 0 && !answer)
		return fail(err, ENOMEM, "out of memory");
	if (r == 0)
		*ret = answer;
	return r;
}

/* ---- bind ---- */

/* Returns 1 if the pod is already bound to the node. */
static int check_free(const struct cpod *pod, const char *node, struct error *err)
{
	switch (cpod_state(pod)) {
	case CPOD_OTHER:
	case CPOD_GUEST:
	case CPOD_OFFERED: return 0;
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
static int keep(struct sched *s, struct cpod *pod, const char *node, struct error *err)
{
	struct decide_site site = {.node = node, .is_fit = true};
	struct cluster *c = sched_cluster(s);
	int r;

	if (cpod_state(pod) == CPOD_OFFERED && !strcmp(cpod_node(pod), node))
		return 0;
	cluster_forget(c, pod);
	r = sched_settle(s, err);
	if (r == 0 && !asks_for_nothing(pod))
		r = decide_sites(c, pod, &site, 1, err);
	if (r == 0 && !site.is_fit)
		return fail(err, ENOSPC, "%.253s: %s", node, site.why);
	r = r < 0 ? r : decide_offer(c, pod, &site, 1, err);
	return r == -ENOSPC ? fail(err, ENOSPC, "%.253s: too little cpu or memory", node) : r;
}

int extender_bind(
	struct sched *s, const json_t *args, const struct cpod **ret_pod, struct error *err)
{
	const char *node = text(args, "Node");
	struct cpod *pod;
	int r = find_pod(s, text(args, "PodNamespace"), text(args, "PodName"), text(args, "PodUID"),
		&pod, err);

	if (r == 0 && !node)
		r = fail(err, EINVAL, "Node is missing");
	r = r < 0 ? r : check_free(pod, node, err);
	if (r != 0)
		return r;
	r = keep(s, pod, node, err);
	if (r < 0)
		return r;
	decide_release(sched_cluster(s), pod);
	*ret_pod = pod;
	return 0;
}

json_t *extender_refusal(enum extender_verb verb, const char *said)
{
	return verb == EXTENDER_FILTER || verb == EXTENDER_BIND
		? json_pack("{s:o}", "Error", sentence(said))
		: NULL;
}
