/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The actions that have been decided and not yet handed out, in their order. A pod may be removed
 * meanwhile: its actions are passed over. Pure but for its memory; one thread.
 */
#ifndef SCHEDULER_SCHED_TODO_H
#define SCHEDULER_SCHED_TODO_H

#include "base/str.h"
#include "scheduler/sched.h"

struct todo_entry {
	enum sched_act act;
	enum reason reason;
	char *ns, *name;
	union { /* as in struct sched_action */
		char *sentence;
		struct decide_claims claims;
		struct sched_preemptor preemptor; /* without a name: evicted before */
	};
};

/* Begins as zeroes. */
struct todo {
	struct todo_entry *v;
	uint32_t n, room, at;   /* at: the next one */
	struct todo_entry last; /* was handed out: it stays where it is when others are added */
};

void todo_done(struct todo *todo);

/* -ENOMEM: nothing is added. Of any act but SCHED_CLAIM and SCHED_EVICT. */
int todo_push(struct todo *todo, enum sched_act act, const struct cpod *pod, enum reason reason,
	struct str sentence);
/* Takes the claims out of *claims. */
int todo_push_claims(struct todo *todo, const struct cpod *pod, struct decide_claims *claims);
/* preemptor: NULL where the pod was evicted before. */
int todo_push_eviction(struct todo *todo, const struct cpod *pod, const struct cpod *preemptor);

bool todo_is_empty(const struct todo *todo);
/* False: there is none. The action is valid until the next call. */
bool todo_next(struct todo *todo, struct cluster *cluster, struct sched_action *ret_action);

#endif
