/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decided actions that are not handed out yet, in order. If a pod is removed meanwhile, its actions
 * are skipped. Pure but for its memory; one thread.
 */
#ifndef SCHEDULER_SCHED_TODO_H
#define SCHEDULER_SCHED_TODO_H

#include "base/str.h"
#include "scheduler/sched.h"

struct todo_entry {
	enum sched_act act;
	enum reason reason;
	char *ns, *name;
	union { /* as in struct sched_action (sched.h) */
		char *sentence;
		struct decide_claims claims;
		struct sched_preemptor preemptor; /* without a name for a repeated eviction */
	};
};

/* Initialise with zeroes. */
struct todo {
	struct todo_entry *v;
	uint32_t n, room, at; /* at: index of the entry that todo_next() hands out next */
	/* entry that was handed out last; its texts stay valid while others are added */
	struct todo_entry last;
};

void todo_done(struct todo *todo);

/* For all acts but SCHED_CLAIM and SCHED_EVICT. -ENOMEM: nothing is added. */
int todo_push(struct todo *todo, enum sched_act act, const struct cpod *pod, enum reason reason,
	struct str sentence);
/* Takes over the claims and leaves *claims empty. */
int todo_push_claims(struct todo *todo, const struct cpod *pod, struct decide_claims *claims);
/* preemptor: NULL for a repeated eviction. */
int todo_push_eviction(struct todo *todo, const struct cpod *pod, const struct cpod *preemptor);

bool todo_is_empty(const struct todo *todo);
/* false: the list is empty. The action is valid until the next call. */
bool todo_next(struct todo *todo, struct cluster *cluster, struct sched_action *ret_action);

#endif
