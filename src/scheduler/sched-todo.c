/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of pending actions. Entries own their texts and refer to pods by name, so they stay
 * valid if a pod is removed. One thread.
 */
#include "scheduler/sched-todo.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"

static void entry_done(struct todo_entry *e)
{
	free(e->ns);
	free(e->name);
	switch (e->act) {
	case SCHED_CLAIM: decide_claims_done(&e->claims); break;
	case SCHED_EVICT:
		free(e->preemptor.ns);
		free(e->preemptor.name);
		free(e->preemptor.queue);
		break;
	default: free(e->sentence);
	}
	*e = (struct todo_entry){0};
}

void todo_done(struct todo *todo)
{
	entry_done(&todo->last);
	for (uint32_t i = todo->at; i < todo->n; i++)
		entry_done(&todo->v[i]);
	free(todo->v);
	*todo = (struct todo){0};
}

/* Returns NULL if memory is exhausted. */
static struct todo_entry *todo_add_entry(
	struct todo *todo, enum sched_act act, const struct cpod *pod)
{
	_cleanup_free_ char *ns = str_dup(str_from(cpod_ns(pod)));
	_cleanup_free_ char *name = str_dup(str_from(cpod_name(pod)));
	struct todo_entry *e;

	if (!ns || !name || array_grow(&todo->v, &todo->room, todo->n + 1ul, sizeof(*e)) < 0)
		return NULL;
	e = &todo->v[todo->n++];
	*e = (struct todo_entry){.act = act, .ns = TAKE_PTR(ns), .name = TAKE_PTR(name)};
	return e;
}

/*
 * Ends the addition of an entry. is_whole false: a text could not be allocated, and the entry is
 * removed.
 */
static int todo_finish_add(struct todo *todo, bool is_whole)
{
	if (is_whole)
		return 0;
	entry_done(&todo->v[--todo->n]);
	return -ENOMEM;
}

int todo_push(struct todo *todo, enum sched_act act, const struct cpod *pod, enum reason reason,
	struct str sentence)
{
	struct todo_entry *e = todo_add_entry(todo, act, pod);

	if (!e)
		return -ENOMEM;
	e->reason = reason;
	e->sentence = str_dup(sentence);
	return todo_finish_add(todo, e->sentence);
}

int todo_push_claims(struct todo *todo, const struct cpod *pod, struct decide_claims *claims)
{
	struct todo_entry *e = todo_add_entry(todo, SCHED_CLAIM, pod);

	if (!e)
		return -ENOMEM;
	e->claims = TAKE(*claims, (struct decide_claims){.n = 0});
	return 0;
}

int todo_push_eviction(struct todo *todo, const struct cpod *pod, const struct cpod *preemptor)
{
	const bool is_reclaimed = preemptor && cpod_is_reclaimed(pod);
	struct todo_entry *e = todo_add_entry(todo, SCHED_EVICT, pod);
	struct sched_preemptor *p;

	if (!e || !preemptor)
		return e ? 0 : -ENOMEM;
	e->reason = is_reclaimed ? REASON_RECLAIMED : REASON_PREEMPTED;
	p = &e->preemptor;
	*p = (struct sched_preemptor){str_dup(str_from(cpod_ns(preemptor))),
		str_dup(str_from(cpod_name(preemptor))),
		str_dup(is_reclaimed ? str_from(cpod_queue(preemptor)) : STR(""))};
	return todo_finish_add(todo, p->ns && p->name && p->queue);
}

void sched_preemptor_format(const struct sched_preemptor *p, struct buf *out)
{
	buf_addf(out, "%s/%s", p->ns, p->name);
	if (p->queue[0])
		buf_addf(out, ", within the guarantee of queue %s", p->queue);
}

bool todo_is_empty(const struct todo *todo)
{
	return todo->at == todo->n;
}

static struct sched_action action_of(const struct todo_entry *e, const struct cpod *pod)
{
	struct sched_action action = {.act = e->act, .pod = pod, .reason = e->reason};

	switch (e->act) {
	case SCHED_CLAIM: action.claims = &e->claims; break;
	case SCHED_EVICT: action.preemptor = e->preemptor.name ? &e->preemptor : NULL; break;
	default: action.sentence = e->sentence;
	}
	return action;
}

bool todo_next(struct todo *todo, struct cluster *cluster, struct sched_action *ret)
{
	entry_done(&todo->last);
	while (todo->at < todo->n) {
		const struct cpod *pod;

		todo->last = todo->v[todo->at++];
		pod = cluster_pod(cluster, todo->last.ns, todo->last.name);
		if (pod) {
			*ret = action_of(&todo->last, pod);
			return true;
		}
		entry_done(&todo->last);
	}
	todo->n = todo->at = 0;
	return false;
}
