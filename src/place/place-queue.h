/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues: who is guaranteed how much of the devices, and who may borrow what others leave idle. A
 * tree; tenants belong to its leaves, and what they have counts for all queues above. Used by
 * place_add and place_remove through the spec's `queue`, so taking back is right by itself. Limits
 * hold for every tenant that is placed or resized: devices of models of which a queue may have no
 * more are none for it. Quotas are asked for by place_queue_admit; what others have borrowed of
 * them place-reclaim.h has back.
 *
 * Amounts are permille of devices, summed over all devices of a tenant; who has a device alone has
 * all that may be given away of it (place_config's share_factor). Queues have numbers from 1
 * in the order in which they are given. Threads: as place.h.
 */
#ifndef PLACE_PLACE_QUEUE_H
#define PLACE_PLACE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "place/place.h"

#define PLACE_QUEUES_MAX 4096u
#define PLACE_QUEUE_DEPTH 16u
#define PLACE_QUEUE_WEIGHT_MAX 1000000u
#define PLACE_UNLIMITED UINT64_MAX

struct place_queue_model {
	const char *model;
	uint64_t quota, limit; /* of devices of this model */
};

struct place_queue_info {
	const char *name, *parent; /* parent: "" is none */
	uint64_t quota;            /* guaranteed */
	uint64_t limit;            /* with what is borrowed; or PLACE_UNLIMITED */
	uint32_t weight; /* of two that borrow, twice the weight may borrow twice as much; 1.. */
	const struct place_queue_model *models; /* others are bounded by quota and limit alone */
	uint32_t n_models;
};

/*
 * These are the queues from now on; tenants that are there are counted. Refused in words, nothing
 * changed: parents that are unknown or lead back, quotas of children that together are above their
 * parent's, quotas above limits, those of a model above that of all, names given twice (-EINVAL); a
 * queue with tenants that would get another number or children (-EBUSY). *ret_at, unless it is
 * NULL: the one that is refused, n where it is none of them. O(queues + tenants).
 */
int place_queue_set(struct place *place, const struct place_queue_info *queues, uint32_t n,
	uint32_t *ret_at, struct error *err);
uint32_t place_queue_n(const struct place *place);
uint32_t place_queue_find(const struct place *place, const char *name); /* or 0 */
/* What the tenants of the queue and below have; model PLACE_NONE: of all. */
uint64_t place_queue_used(const struct place *place, uint32_t queue, uint32_t model);

enum place_admission {
	/* It is guaranteed: what others have borrowed may be reclaimed, of the limits above too. */
	PLACE_ADMIT_NOW,
	PLACE_ADMIT_BORROW, /* it is idle */
	PLACE_ADMIT_WAIT,
	PLACE_ADMIT_NEVER, /* more than the queue may ever have */
};

struct place_verdict {
	enum place_admission admission;
	uint64_t models; /* of which this is true: for the spec's `models`; 0: no device is asked */
	char why[256];
};

/*
 * Whether a tenant of spec->queue may be placed. Of several models the one that is most willing
 * decides; who asks for several devices may borrow what all of them together have idle. -EINVAL: no
 * such queue, one that is no leaf, a bad spec. O(models x depth), and for a model against which a
 * limit stands O(queues x models x depth^2).
 */
int place_queue_admit(const struct place *place, const struct place_spec *spec,
	struct place_verdict *ret_verdict, struct error *err);

/*
 * Whether tenants that belong together may be placed, all of them: as the least willing is admitted
 * when those before it are there, in the order given, each as the most willing of its models.
 */
int place_queue_admit_all(struct place *place, const struct place_spec *members, uint32_t n,
	struct place_verdict *ret_verdict, struct error *err);

/*
 * Whose turn it is: a's before b's where a has less beyond its quota by its weight (below the quota
 * counts as less), the first of equals.
 */
bool place_queue_is_before(const struct place *place, uint32_t a, uint32_t b);

/* ---- for place-tenant.c, place-fit.c and place.c ---- */

struct place_queues;

/* The models that any queue has a quota or a limit of: bits. */
uint64_t place_queues_name(const struct place *place);
void place_queue_free(struct place_queues *queues);
/* Tenants may belong to it: there is such a queue, with none below. 0, also for none; -EINVAL. */
int place_queue_check(const struct place *place, uint32_t queue, struct error *err);
/* Of the models that are asked those of which the limits leave it all that it asks. */
uint64_t place_queue_models(const struct place *place, const struct place_spec *spec);
/* Its models become those, and it asks for no queue any more: -ENOSPC where there are none. */
int place_queue_narrow(const struct place *place, struct place_spec *spec, struct error *err);
/* -ENOSPC: a limit stands against that model, or against the tenant with that share. */
int place_queue_allows(const struct place *place, const struct place_spec *spec, uint32_t model,
	struct error *err);
int place_queue_allows_share(
	const struct place *place, const struct place_tenant *t, uint32_t share, struct error *err);
/* sign 1: the tenant has come; -1: it goes. */
void place_queue_count(struct place *place, const struct place_tenant *t, int sign);

#endif
