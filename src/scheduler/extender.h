/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of kube-scheduler's extenders (k8s.io/kube-scheduler/extender/v1): requests and
 * answers as JSON. Decisions, reservations and Bindings are the scheduler's own (decide.h), so that
 * both schedulers can place pods on the same devices. Pure; one thread.
 *
 * `filter` returns the nodes that fit and reserves a place on the best of them. `prioritize` gives
 * that node 10 and all others 0. A reservation expires after DECIDE_RESERVE_NS. `preempt` keeps the
 * nodes where the pod fits once the request's victims are gone, and adds no victims. Gangs are
 * refused. A pod without a share fits every node.
 *
 * Keys may be in upper or lower case, because releases of kube-scheduler differ. A request lists
 * nodes by name or as objects, and the answer has the same form.
 */
#ifndef SCHEDULER_EXTENDER_H
#define SCHEDULER_EXTENDER_H

#include "scheduler/sched.h"

/* 5,000 nodes by name take 200 KiB and fit; as objects they take 50 MiB and do not fit. */
#define EXTENDER_BODY_MAX (16u << 20)
#define EXTENDER_NODES_MAX 65536u
#define EXTENDER_BEST 10 /* highest score of prioritize, by the protocol */

enum extender_verb { EXTENDER_FILTER, EXTENDER_PRIORITIZE, EXTENDER_PREEMPT, EXTENDER_BIND };

/*
 * Answers filter, prioritize and preempt; the caller owns the answer. -EINVAL: not a request of the
 * protocol. -EAGAIN: no pod with that name and uid is known; the watch may be late. -ENOMEM.
 */
int extender_answer(struct sched *sched, enum extender_verb verb, const json_t *args,
	json_t **ret_answer, struct error *err);

/*
 * Handles a bind request. 0: the pod is CPOD_ASSUMED; the caller writes its Binding to cpod_node()
 * and reports the result by sched_bound(). 1: the pod is bound to that node already. -EINVAL,
 * -EAGAIN: as extender_answer(). -ENOSPC: the pod does not fit there. -EBUSY: the pod is bound
 * elsewhere, or a Binding is in flight. -ENOMEM.
 */
int extender_bind(
	struct sched *sched, const json_t *args, const struct cpod **ret_pod, struct error *err);

/*
 * Returns an answer of the verb with the error `said`, owned by the caller; NULL: answers of the
 * verb have no field for errors.
 */
json_t *extender_refusal(enum extender_verb verb, const char *said);

#endif
