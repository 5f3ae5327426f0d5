/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of queues, for place-queue.c and place-reclaim.c. place-queue.h explains amounts. */
#ifndef PLACE_PLACE_QUEUE_INTERNAL_H
#define PLACE_PLACE_QUEUE_INTERNAL_H

#include "place/place-internal.h"

/* Index of the sum over all models. */
#define ALL PLACE_MODELS_MAX

struct queue {
	char name[SPEC_LABEL];
	uint32_t parent; /* index of the parent queue, or PLACE_NONE */
	uint32_t weight, n_children;
	uint64_t quota[ALL + 1], limit[ALL + 1], used[ALL + 1];
	uint64_t outside; /* part of used[ALL] that place_queue_set_outside() has set */
};

struct place_queues {
	uint32_t n;
	uint32_t looked_at; /* during place_queue_set(): the queue under check, or n */
	uint64_t models;    /* bits: models with a quota or limit in any queue */
	struct queue queue[];
};

/*
 * queue_share() is what the tenant uses of each device, queue_requested() of all devices together.
 */
static inline uint32_t queue_share(const struct place *place, const struct place_spec *spec)
{
	return spec->is_exclusive ? place->config.share_factor : spec->share;
}

static inline uint64_t queue_requested(const struct place *place, const struct place_spec *spec)
{
	return (uint64_t)queue_share(place, spec) * spec->count;
}

/*
 * The larger of two excesses over the queue's quotas: use of all models, and use of `model`.
 * evicted: an array of ALL + 1 amounts of use to subtract.
 */
static inline int64_t queue_beyond(const struct queue *q, const uint64_t *evicted, uint32_t model)
{
	int64_t most = (int64_t)(q->used[ALL] - evicted[ALL]) - (int64_t)q->quota[ALL];

	if (model != ALL && q->quota[model] != PLACE_UNLIMITED)
		most = MAX(most,
			(int64_t)(q->used[model] - evicted[model]) - (int64_t)q->quota[model]);
	return most;
}

/* Whether `asked` more of the model would exceed the queue's limit. evicted: use to subtract. */
static inline bool queue_is_full(
	const struct queue *q, const uint64_t *evicted, uint32_t model, uint64_t asked)
{
	return asked > q->limit[model] || q->used[model] - evicted[model] > q->limit[model] - asked;
}

extern const uint64_t queue_nothing[ALL + 1]; /* all zero */

#endif
