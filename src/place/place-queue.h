/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues guarantee device share to their tenants. Tenants may also borrow share that other queues
 * leave idle. Queues form a tree. Tenants belong to leaves, and their use counts for all queues
 * above.
 *
 * place_add() and place_remove() update the use of the spec's `queue`, and a rollback undoes that.
 * Limits hold for each tenant that is added or resized: no tenant gets a device of a model whose
 * limit its queue has reached. place_queue_admit() checks quotas, and place-reclaim.h reclaims what
 * other queues have borrowed.
 *
 * Amounts are permille of devices, summed over all devices of a tenant. A tenant with a whole
 * device uses place_config's share_factor. Queue numbers begin at 1, in the given order. Threads:
 * as place.h.
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
	uint64_t quota, limit; /* quota and limit for devices of this model */
};

struct place_queue_info {
	const char *name, *parent; /* parent: "" for none */
	uint64_t quota;            /* guaranteed share */
	uint64_t limit;            /* largest use, borrowed share included; or PLACE_UNLIMITED */
	uint32_t weight;           /* from 1; a queue of weight 2 may borrow twice as much */
	/* n_models entries; for other models, only the quota and limit above hold */
	const struct place_queue_model *models;
	uint32_t n_models;
};

/*
 * Replaces all queues and counts present tenants. -EINVAL: unknown or circular parents, children
 * whose quotas together exceed the parent's, a quota above its limit, a model's quota above the
 * queue's, a name that occurs twice. -EBUSY: a queue with tenants would change its number or get
 * children, or a savepoint is open. On failure nothing changes. *ret_at, unless NULL: the refused
 * queue, or n. O(queues + tenants).
 */
int place_queue_set(struct place *place, const struct place_queue_info *queues, uint32_t n,
	uint32_t *ret_at, struct error *err);
uint32_t place_queue_n(const struct place *place);
/*
 * Returns how much of the model's devices the tenants of the queue and of all queues below it use.
 * model PLACE_NONE: of the devices of all models.
 */
uint64_t place_queue_used(const struct place *place, uint32_t queue, uint32_t model);

/*
 * Sets what tenants of the queue use of devices outside of the placement model, in permille. The
 * amount counts as use of the queue and of all queues above, until place_queue_set().
 */
void place_queue_set_outside(struct place *place, uint32_t queue, uint64_t permille);
/* -ENOSPC: `permille` more outside of the model would exceed a limit of the queue, or above. */
int place_queue_allows_outside(
	const struct place *place, uint32_t queue, uint64_t permille, struct error *err);

enum place_admission {
	/*
	 * Within the quota: place_queue_reclaim() may evict borrowers for the tenant, also if a
	 * limit of a queue above is reached.
	 */
	PLACE_ADMIT_NOW,
	PLACE_ADMIT_BORROW, /* beyond the quota, but there is enough idle share */
	PLACE_ADMIT_WAIT,
	PLACE_ADMIT_NEVER, /* more than a limit of the queue, even without other tenants */
};

struct place_verdict {
	enum place_admission admission;
	/* models of spec->models for which `admission` holds; 0: no device is requested */
	uint64_t models;
	char why[256];
};

/*
 * Whether a tenant of spec->queue may be placed. With several models the best admission counts. A
 * tenant of several devices may borrow the idle share of several models together. -EINVAL: no such
 * queue, no leaf, an invalid spec. O(models x depth); with a limit reached O(queues x models x
 * depth^2).
 */
int place_queue_admit(const struct place *place, const struct place_spec *spec,
	struct place_verdict *ret_verdict, struct error *err);

/*
 * Order of queues: `a` comes first if it has less use beyond its quota, divided by its weight. For
 * a queue that uses less than its quota, that value is negative. Of equal queues, the lower number
 * comes first.
 */
bool place_queue_is_before(const struct place *place, uint32_t a, uint32_t b);

/* ---- for place-tenant.c, place-fit.c and place.c ---- */

struct place_queues;

/* Bits of the models for which any queue has a quota or a limit. */
uint64_t place_queues_name(const struct place *place);
void place_queue_free(struct place_queues *queues);
/*
 * Checks that tenants may belong to the queue: 0 for a leaf, and for queue 0 (none); else -EINVAL.
 */
int place_queue_check(const struct place *place, uint32_t queue, struct error *err);
/* The requested models for which all limits allow the whole request. */
uint64_t place_queue_models(const struct place *place, const struct place_spec *spec);
/*
 * Reduces the spec's models to those of place_queue_models(), and sets spec->queue to 0 (none).
 * -ENOSPC: no model is left.
 */
int place_queue_narrow(const struct place *place, struct place_spec *spec, struct error *err);
/* Return -ENOSPC if a limit refuses a device of `model`, or the tenant with its new share. */
int place_queue_allows(const struct place *place, const struct place_spec *spec, uint32_t model,
	struct error *err);
int place_queue_allows_share(
	const struct place *place, const struct place_tenant *t, uint32_t share, struct error *err);
/* sign 1: the tenant was added; -1: it is removed. */
void place_queue_count(struct place *place, const struct place_tenant *t, int sign);

#endif
