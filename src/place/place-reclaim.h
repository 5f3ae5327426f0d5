/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Victims for a tenant of a queue: guaranteed share is reclaimed from queues that borrowed it, and
 * queue limits may be the reason. Within a queue, priorities decide. Threads: as place.h.
 */
#ifndef PLACE_PLACE_RECLAIM_H
#define PLACE_PLACE_RECLAIM_H

#include "place/place-preempt.h"
#include "place/place-queue.h"

/*
 * Finds victims for a tenant that is guaranteed its place, on devices of the verdict's models.
 * Victims are tenants of other queues that exceed their quota. All queues above them must exceed
 * theirs too, up to the common queue. The queue with the most use beyond its quota, by its weight,
 * loses tenants first; within it low priorities, then small shares. A tenant goes only while its
 * queues still exceed their quotas. Priorities of different queues are not compared. Tenants that
 * the rules' order refuses also stay. Otherwise as place_preempt_find().
 *
 * If a queue above is at its limit, the victims are below that queue. They may be on other nodes
 * than the victims for free capacity. The search takes as many victims as the limits need, then as
 * many as the capacity needs, and drops unnecessary ones. If one node's tenants suffice for both,
 * the cheaper plan is taken (place-preempt.h). Costs O(tenants log tenants) more than
 * place_preempt_find().
 *
 * -EDQUOT: the tenant is not guaranteed its place.
 */
int place_queue_reclaim(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, struct place_plan *ret_plan, struct error *err);

/*
 * As place_preempt_find() with the rules' order, which must be set. If the tenant's queue or one
 * above is at its limit, victims are tenants that count for the limit, on several nodes if needed.
 */
int place_queue_preempt(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, struct place_plan *ret_plan, struct error *err);

#endif
