/* SPDX-License-Identifier: Apache-2.0 */
/* What queues count, for place-queue.c and place-reclaim.c. Amounts: place-queue.h. */
#ifndef PLACE_PLACE_QUEUE_INTERNAL_H
#define PLACE_PLACE_QUEUE_INTERNAL_H

#include "place/place-internal.h"

/* [PLACE_MODELS_MAX]: of all models together. */
#define ALL PLACE_MODELS_MAX

struct queue {
	char name[SPEC_LABEL];
	uint32_t parent; /* index, or PLACE_NONE */
	uint32_t weight, n_children;
	uint64_t quota[ALL + 1], limit[ALL + 1], used[ALL + 1];
};

struct place_queues {
	uint32_t n;
	uint32_t looked_at; /* while they are set: the one that is, n between them */
	uint64_t models;    /* bits: those that one has a quota or a limit of */
	struct queue queue[];
};

/* What it has, or would have, of each of its devices; and of all together. */
static inline uint32_t queue_share(const struct place *place, const struct place_spec *spec)
{
	return spec->is_exclusive ? place->config.share_factor : spec->share;
}

static inline uint64_t queue_asked(const struct place *place, const struct place_spec *spec)
{
	return (uint64_t)queue_share(place, spec) * spec->count;
}

/* Beyond its quota, of all or of the model, if what has left is not counted; gone: [ALL + 1]. */
static inline int64_t queue_beyond(const struct queue *q, const uint64_t *gone, uint32_t model)
{
	int64_t most = (int64_t)(q->used[ALL] - gone[ALL]) - (int64_t)q->quota[ALL];

	if (model != ALL && q->quota[model] != PLACE_UNLIMITED)
		most = MAX(
			most, (int64_t)(q->used[model] - gone[model]) - (int64_t)q->quota[model]);
	return most;
}

/* If what has left is not counted there is not room for so much of that model. */
static inline bool queue_is_full(
	const struct queue *q, const uint64_t *gone, uint32_t model, uint64_t asked)
{
	return asked > q->limit[model] || q->used[model] - gone[model] > q->limit[model] - asked;
}

extern const uint64_t queue_nothing[ALL + 1]; /* nobody has left */

#endif
