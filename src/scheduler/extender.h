/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of kube-scheduler's extenders (k8s.io/kube-scheduler/extender/v1): what it asks, as
 * JSON, and the answers. Decisions, and what is kept and bound, are the scheduler's own
 * (decide.h), so that both can place pods on the same devices. Pure; one thread.
 *
 * `filter` says which of the nodes will do and keeps the pod a place on the best of them, to which
 * `prioritize` gives 10 and 0 to all others; what is not bound to in DECIDE_OFFER_NS is free
 * again. `preempt` leaves of the nodes those where it fits once the victims named have gone; it
 * names none itself. Groups are refused. A pod that asks for no share may go anywhere.
 *
 * Keys are read in any case, as releases differ in theirs. Nodes may come by name or as objects,
 * and are answered alike.
 */
#ifndef SCHEDULER_EXTENDER_H
#define SCHEDULER_EXTENDER_H

#include "scheduler/sched.h"

#define EXTENDER_BODY_MAX (16u << 20) /* 5,000 nodes by name are 200 KiB, as objects 50 MiB */
#define EXTENDER_NODES_MAX 65536u
#define EXTENDER_BEST 10 /* of prioritize's scores, in the protocol */

enum extender_verb { EXTENDER_FILTER, EXTENDER_PRIORITIZE, EXTENDER_PREEMPT, EXTENDER_BIND };

/*
 * To the first three; the answer is the caller's. -EINVAL: it is not what the protocol has;
 * -EAGAIN: the pod is not known, or not as that one: the watch may be late. -ENOMEM.
 */
int extender_answer(struct sched *sched, enum extender_verb verb, const json_t *args,
	json_t **ret_answer, struct error *err);

/*
 * To bind. 0: the pod is CPOD_ASSUMED, its Binding to cpod_node() is to be written, and how that
 * went is for sched_bound(); 1: it is bound to that node already. -EINVAL, -EAGAIN as above;
 * -ENOSPC: not there, -EBUSY: it is on its way, or bound, elsewhere; -ENOMEM.
 */
int extender_bind(
	struct sched *sched, const json_t *args, const struct cpod **ret_pod, struct error *err);

/* The answer that says so, in the way that the verb has; NULL: it has none. The caller's. */
json_t *extender_refusal(enum extender_verb verb, const char *said);

#endif
