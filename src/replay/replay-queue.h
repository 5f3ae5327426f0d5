/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mode with time, in four parts: what happens when (replay-queue.c), who waits and who may
 * have room now (replay-wait.c), how those that start together get their places (replay-gather.c),
 * and who has been told to go (replay-leave.c).
 */
#ifndef REPLAY_REPLAY_QUEUE_H
#define REPLAY_REPLAY_QUEUE_H

#include "place/place-gang.h"
#include "replay/replay-tasks.h"

#define FREED_MAX 64u

/* Tasks that start together: next to one another in `arrivals`. */
struct unit {
	uint32_t first, n;
	uint32_t share;     /* the least that one of them asks of a device */
	uint32_t threshold; /* permille of them that have to start */
	uint32_t queue;     /* place-queue.h */
	bool is_drawn;      /* by affinity: others that start may make room for it */
	bool is_new;        /* it has not been tried since it waits */
};

/* Who waits, in order; with queues (place-queue.h) one for each, behind that of all others. */
struct line {
	struct unit *units;
	uint32_t n, room;
	uint32_t at, kept; /* of those that are tried: the next one, how many go on waiting */
};

/* What becomes of a task, by task. */
struct progress {
	uint64_t left;     /* permille x ns */
	uint64_t since_ns; /* it waits */
	uint64_t ended_ns; /* CLOCK_NEVER: it has not */
	uint32_t at;       /* in `arrivals` */
	uint32_t queued;   /* its place in the result's queued_s; PLACE_NONE: never had one */
};

/* It has been told to go, and runs until then. */
struct notice {
	uint64_t at_ns;
	uint32_t tenant, round;
	uint32_t comer; /* the task, or the first of the gang, that it goes for */
};

/*
 * It has its place, and starts when those that were told in its round have gone; or (tenant
 * PLACE_NONE) others of its gang have, and it waits again when they start.
 */
struct claim {
	uint32_t at; /* in `arrivals` */
	uint32_t tenant, round;
	struct place_choice choice;
};

struct queue {
	struct run *run;
	struct tasks tasks;
	uint32_t *arrivals; /* tasks by time of arrival */
	struct progress *progress;
	uint32_t next;            /* of the arrivals */
	uint32_t n_counted;       /* tasks that figures are of */
	uint32_t n_ended, n_busy; /* n_busy: by busy_ns */
	struct line *lines;
	uint32_t n_lines;
	struct unit *back; /* those that wait again, or still, once all have been tried */
	uint32_t n_back, back_room;
	/* Of those that figures are of: the first arrival, where curves begin, and the last. */
	uint64_t first_ns, last_ns;
	uint64_t ended_ns; /* the last that has */
	uint64_t busy_ns;  /* when it was no longer busy */
	uint64_t step_ns;
	/*
	 * Who waits had no room before, nor had it had any if others had gone for it: it has some
	 * now only where somebody has left. Nodes since all have been tried; more than FREED_MAX:
	 * anywhere.
	 */
	uint32_t freed[FREED_MAX];
	uint32_t n_freed;
	/*
	 * Others may have room because of one that has begun since: beside it by their labels, or
	 * in its place if it has borrowed what is guaranteed to them. is_helped: while all are
	 * tried because of that.
	 */
	bool helps, is_helped;
	uint32_t room[SPEC_PRIORITY_MAX + 1]; /* there, as place_preempt_room() has it */
	uint64_t defrag_ns;                   /* when the next plan is due */
	bool may_defrag;                      /* something has changed since the last plan */
	struct notice *notices;               /* by time */
	uint32_t n_notices, notices_room;
	struct claim *claims;
	uint32_t n_claims, claims_room;
	uint32_t round; /* of those that are told now */
};

static inline const struct task *task_at(const struct queue *q, uint32_t at)
{
	return &q->run->in->workload->tasks[q->arrivals[at]];
}

static inline const struct place_spec *spec_at(const struct queue *q, uint32_t at)
{
	return &q->run->specs[q->arrivals[at]];
}

/* ---- replay-wait.c: -ENOMEM ---- */

struct unit unit_of(const struct queue *q, uint32_t first, uint32_t n);
int wait_in_line(struct queue *q, struct unit unit);
/* Of those n arrivals, whom the figures are of. */
uint32_t n_counted_of(const struct queue *q, uint32_t first, uint32_t n);
/* The unit has no room: its tasks are told of, with why. */
void note_waits(const struct queue *q, const struct unit *unit);
/* It waits from when all have been tried. */
int wait_again(struct queue *q, uint32_t at);
void note_freed(struct queue *q, uint32_t node);
/* Tries all that wait where there may be room now, until nothing more comes of it. */
int retry(struct queue *q, struct error *err);
bool waits_for_whole(const struct queue *q);

/* ---- replay-gather.c ---- */

/*
 * Places for as many of the unit as have to start, and for others of it that fit, all taken; or
 * -ENOSPC, and nothing has changed. Its victims are out of the engine, or leaving if there is time
 * for that, and still in q->tasks.
 */
int gather(struct queue *q, const struct unit *unit, struct place_group *ret, struct error *err);

/* ---- replay-leave.c: -ENOMEM ---- */

/* When the next one that has been told to go goes; CLOCK_NEVER: there is none. */
uint64_t leave_next_ns(const struct queue *q);
/* A victim that the engine has as leaving: it is told to go, or gives up its claim. */
int leave_tell(struct queue *q, uint32_t tenant, uint32_t comer);
/* How many of the round have still to go. */
uint32_t leave_awaited(const struct queue *q, uint32_t round);
/* It starts when all of this round have gone; until then it counts as waiting. */
int leave_claim(struct queue *q, uint32_t at, const struct place_member *member);
/* NULL: the tenant has none. */
struct claim *claim_of(struct queue *q, uint32_t tenant);
/* The tenant has ended by itself, whether it was told to go or not. */
int leave_ended(struct queue *q, uint32_t tenant);
/* Those go whose time has come. */
int leave_due(struct queue *q);
void leave_done(struct queue *q);

/* ---- replay-defrag.c ---- */

/* As the input has it: plans, and moves all that the plan says. The caller's, for who has left. */
int run_defrag(struct queue *q, struct place_defrag *ret_done, struct error *err);

/* ---- replay-queue.c ---- */

/* It runs on the devices that the engine has given it. -ENOMEM. */
int start_task(struct queue *q, uint32_t task, const struct place_choice *choice, uint32_t tenant);
/* It runs no more and waits again; the engine has let it go already, for that task. -ENOMEM. */
int evict(struct queue *q, uint32_t tenant, uint32_t comer);
/* The task is told of, with whom it goes for. */
void note_for(const struct queue *q, enum replay_event event, uint32_t task, uint32_t comer);

/* 1: it runs, or will when who has to go has gone, which then waits again; 0: there is no room. */
int try_unit(struct queue *q, struct unit unit, struct error *err);

#endif
