/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles pods whose Binding the API server refused, for example because another webhook denies it.
 * A refused pod reserves nothing and preempts no pod for a while, so that other pods can use the
 * capacity. Pods that waited for its reservation get the reason in their message.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "scheduler/cluster-internal.h"

/* bytes; leaves space in a message (DECIDE_WHY_MAX) for the reasons of nodes */
#define REFUSAL_MAX 700u
#define REFUSED_TWICE_MAX 6u

static void cluster_refusal_set_text(char **text, char *to)
{
	free(*text);
	*text = to;
}

void cpod_free_refusal(struct cpod *pod)
{
	cluster_refusal_set_text(&pod->refused, NULL);
	cluster_refusal_set_text(&pod->kept_by, NULL);
	cluster_refusal_set_text(&pod->kept_text, NULL);
}

void cpod_forgive(struct cpod *pod)
{
	pod->n_refused = 0;
	pod->preempt_at_ns = 0;
	cpod_free_refusal(pod);
}

uint32_t cpod_n_refused(const struct cpod *pod)
{
	return pod->n_refused;
}

const char *cpod_refusal(const struct cpod *pod)
{
	return pod->refused ? pod->refused : "";
}

const char *cpod_kept_text(const struct cpod *pod)
{
	return pod->kept_text ? pod->kept_text : "";
}

int cluster_refuse(struct cluster *c, struct cpod *pod, const char *why)
{
	const uint32_t twice = MIN(pod->n_refused, REFUSED_TWICE_MAX);
	_cleanup_buf_ struct buf text = BUF_INIT(REFUSAL_MAX);
	_cleanup_buf_ struct buf kept = BUF_INIT(REFUSAL_MAX);

	/* A text that exceeds the buffer is cut. */
	(void)buf_addf(
		&text, "the API server refused the Binding to %s: %.512s", cpod_node(pod), why);
	(void)buf_addf(&kept,
		"waited for the reservation of pod %s on node %s; the API server refused the "
		"Binding of that pod: %.512s",
		pod->key, cpod_node(pod), why);
	cluster_forget(c, pod);
	pod->n_refused++;
	pod->preempt_at_ns = c->now_ns + MIN(CLUSTER_REFUSED_NS << twice, CLUSTER_REFUSED_MAX_NS);
	cluster_refusal_set_text(&pod->refused, str_dup(buf_str(&text)));
	for (struct cpod *other = c->pods; other; other = other->hh.next)
		if (other->kept_by && !strcmp(other->kept_by, pod->key))
			cluster_refusal_set_text(&other->kept_text, str_dup(buf_str(&kept)));
	return pod->refused ? 0 : -ENOMEM;
}

struct cpod *cluster_next_kept(struct cluster *c, const struct cpod *keeper, struct cpod *pod)
{
	for (pod = pod ? pod->hh.next : c->pods; pod; pod = pod->hh.next)
		if (pod->kept_by && pod->kept_text && !strcmp(pod->kept_by, keeper->key))
			return pod;
	return NULL;
}

static bool is_paused(const struct cluster *c, const struct cpod *pod)
{
	return c->now_ns < pod->preempt_at_ns;
}

bool cpod_is_refused(const struct cluster *c, const struct cpod *pod)
{
	return pod->refused && is_paused(c, pod);
}

bool cpod_may_not_preempt(const struct cluster *c, const struct cpod *pod)
{
	const struct cgroup *gang = cpod_gang(pod);
	const struct cpod *member = NULL;

	/*
	 * The members of a gang start together, so no pod is evicted for the others while one of
	 * them is refused.
	 */
	DL_FOREACH2(gang ? gang->pods : NULL, member, gnext)
	{
		if (is_paused(c, member))
			return true;
	}
	return is_paused(c, pod);
}

void cpod_forget_keeper(struct cpod *pod)
{
	cluster_refusal_set_text(&pod->kept_by, NULL);
}

void cpod_note_keeper(struct cpod *pod, const struct cnode *node)
{
	const struct cpod *other = NULL;

	if (!node || pod->kept_by)
		return;
	DL_FOREACH(node->pods, other) {
		if (other == pod ||
			(other->state != CPOD_NOMINATED && other->state != CPOD_ASSUMED))
			continue;
		pod->kept_by = str_dup(str_from(other->key));
		return;
	}
}

void cpod_explain_refusal(
	const struct cluster *c, const struct cpod *pod, const char *kept_text, struct buf *why)
{
	if (cpod_is_refused(c, pod))
		buf_addf(why, "; %s", pod->refused);
	if (kept_text)
		buf_addf(why, "; %s", kept_text);
}
