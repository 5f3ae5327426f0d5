/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who goes for a tenant of a queue, where limits of queues may stand against it too: what is
 * guaranteed is had back from who has borrowed it, and within a queue priorities matter. Threads:
 * as place.h.
 */
#ifndef PLACE_PLACE_RECLAIM_H
#define PLACE_PLACE_RECLAIM_H

#include "place/place-preempt.h"
#include "place/place-queue.h"

/*
 * Who is to go so that a tenant that is guaranteed its place gets it, on devices of the verdict's
 * models: tenants of other queues that have more than their quota, as have all above them up to the
 * queue that both are below. Those of the queue that has most beyond its quota, by its weight, go
 * first, then those of low priority, then of little share; in this order each goes only while its
 * queues still have too much. Priorities between queues do not matter; whom the rules' own order
 * ranks below 0 or does not let go stays as well; otherwise as place_preempt_find.
 *
 * Where the limit of a queue above stands against it, it is those below that queue. Who goes for
 * the limit may be on other nodes than who goes for the room: first, in the order above, as many as
 * the limits need, then as many as the room does; in the plan are those without whom it does not
 * fit. Where one node's tenants are enough for both, the cheaper of the two is taken, as
 * place-preempt.h has it. O(tenants log tenants) more.
 *
 * -EDQUOT where the tenant is not guaranteed its place.
 */
int place_queue_reclaim(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, struct place_plan *ret_plan, struct error *err);

/*
 * As place_preempt_find with the rules' own order, which there has to be; but where a limit of the
 * tenant's queue or of one above stands against it, those go that count for it, as many as that
 * needs, from several nodes where one is not enough.
 */
int place_queue_preempt(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, struct place_plan *ret_plan, struct error *err);

#endif
