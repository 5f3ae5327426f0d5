/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds victims for a tenant of a queue. The evictions free guaranteed share that other queues have
 * borrowed, or bring a queue below its limit. Within a queue, priorities decide. Threads: as
 * place.h.
 */
#ifndef PLACE_PLACE_RECLAIM_H
#define PLACE_PLACE_RECLAIM_H

#include "place/place-preempt.h"
#include "place/place-queue.h"

/*
 * Finds victims for a tenant that is guaranteed its place, on devices of the verdict's models.
 * Victims are tenants of other queues that exceed their quota. All queues above a victim's queue
 * must exceed their quotas too, up to the queue that is also above the new tenant. The queue with
 * the largest use beyond its quota, divided by its weight, loses tenants first; within a queue low
 * priorities come first, then small shares. A tenant is evicted only while its queues still exceed
 * their quotas. Priorities of different queues are not compared. Tenants that `rules->order`
 * refuses are not evicted. Otherwise as place_preempt_find().
 *
 * If a queue above has reached its limit, tenants of the queues below are evicted until the limit
 * allows the new tenant, on any nodes. The search then adds the victims that free capacity on one
 * node, and drops unnecessary victims. If one node's tenants suffice for limit and capacity, the
 * search returns the cheaper plan (place-preempt.h). Costs O(tenants log tenants) more than
 * place_preempt_find().
 *
 * -EDQUOT: the tenant is not guaranteed its place.
 */
int place_queue_reclaim(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, struct place_plan *ret_plan, struct error *err);

/*
 * As place_preempt_find() with `rules->order`, which must be set. If the tenant's queue or a queue
 * above has reached its limit, victims are tenants whose use counts toward the limit, on several
 * nodes if needed.
 */
int place_queue_preempt(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, struct place_plan *ret_plan, struct error *err);

#endif
