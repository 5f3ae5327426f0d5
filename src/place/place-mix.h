/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is typical: the tenants that come most, and how often. Learnt from the arrivals so far, or
 * given; policies that look ahead weigh what a decision leaves over by it. See place.h.
 */
#ifndef PLACE_PLACE_MIX_H
#define PLACE_PLACE_MIX_H

#include <stdbool.h>
#include <stdint.h>

struct place;
struct place_spec;

#define MIX_MAX 256u
#define MIX_WEIGHTS (1 << 14) /* the sum of all is at most this */

struct typical {
	uint32_t cpu_milli, share, count;
	uint64_t models; /* 0: any */
	uint64_t n;      /* how many came */
	uint64_t mib;    /* of the node's memory that they asked for, all together */
	int32_t weight;
};

/* What a policy looks ahead by; one of their own judges those of different policies alike. */
struct place_mix {
	struct typical typical[MIX_MAX]; /* most first, up to 98 % of all that came */
	uint32_t n;
	uint32_t n_common; /* of those, up to 95 %, as Weng et al. have it */
	int32_t weights;   /* the sum of n_common */
	bool is_learnt;    /* and the policy has heard of it */

	struct typical *seen; /* a hash table with open addresses; n == 0 is free */
	uint32_t n_seen;
	struct typical *sorted; /* scratch, for half of it */
	uint64_t arrivals, learnt_at;
	uint32_t n_models, n_nodes; /* as the policy has seen it; nodes: the room for them */
	bool is_given;
};

int place_mix_new(struct place_mix **ret_mix);
void place_mix_free(struct place_mix *mix);

/*
 * These are typical, in the place of what was; what place_spec_check refuses does not count. The
 * place's models tell who may have which by its device memory.
 */
void place_mix_give(struct place_mix *mix, const struct place *place,
	const struct place_spec *specs, uint32_t n);

/*
 * What typical tenants cannot use of a node, times the weights of all of them (mix->weights): the
 * sum over nodes, by those, is place_fragmentation() by a mix that need not be the engine's own.
 * open: what is free of its devices, permille.
 */
uint64_t place_mix_unusable(const struct place_mix *mix, const struct place *place, uint32_t node,
	const uint16_t *open);

/* No tenant asks for those models any more. */
void place_mix_forget(struct place_mix *mix, uint64_t models);

/* Before a decision: learns when enough has come, and tells the policy. -ENOMEM. */
int place_mix_update(struct place *place);

#endif
