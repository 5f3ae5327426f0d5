/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workload mix: typical tenants and their frequency, learned from arrivals or given. Policies
 * that look ahead use the mix to value the capacity that a decision leaves free. See place.h.
 */
#ifndef PLACE_WORKLOAD_MIX_H
#define PLACE_WORKLOAD_MIX_H

#include <stdbool.h>
#include <stdint.h>

struct place;
struct place_spec;

#define WORKLOAD_MIX_MAX 256u
#define WORKLOAD_MIX_WEIGHTS (1 << 14) /* greatest sum of all weights */

struct mix_entry {
	uint32_t cpu_milli, share, count;
	uint64_t models; /* 0: any */
	uint64_t n;      /* number of arrivals */
	uint64_t mib;    /* sum of the node memory that all n arrivals requested */
	int32_t weight;
};

/*
 * Typical tenants, for policies that look ahead. A caller can also make a mix of its own, to
 * compare the results of several policies by the same mix.
 */
struct workload_mix {
	struct mix_entry
		entry[WORKLOAD_MIX_MAX]; /* most frequent first, up to 98 % of all arrivals */
	uint32_t n;
	uint32_t n_common; /* the first entries, up to 95 % of all arrivals, as in Weng et al. */
	int32_t weights;   /* sum over the first n_common */
	bool is_learnt;    /* the policy has seen the current mix */

	struct mix_entry *seen; /* hash table with open addressing; n == 0 is free */
	uint32_t n_seen;
	struct mix_entry *sorted; /* scratch space for half of `seen` */
	uint64_t arrivals, learnt_at;
	/* numbers of models and of entries of the node array when the policy learnt last */
	uint32_t n_models, n_nodes;
	bool is_set;
};

int workload_mix_new(struct workload_mix **ret_mix);
void workload_mix_free(struct workload_mix *mix);

/*
 * Replaces the mix by the n specs. Specs that place_spec_check() refuses do not count. The memory
 * of the place's models decides which models a spec may have.
 */
void workload_mix_set(struct workload_mix *mix, const struct place *place,
	const struct place_spec *specs, uint32_t n);

/*
 * Free share of the node that typical tenants cannot use, times mix->weights. The sum over all
 * nodes, divided by mix->weights, is what place_fragmentation() returns for that mix. open: free
 * permille of each device.
 */
uint64_t workload_mix_unusable(const struct workload_mix *mix, const struct place *place,
	uint32_t node, const uint16_t *open);

/* Removes the models from all tenants of the mix, after the models were forgotten. */
void workload_mix_forget(struct workload_mix *mix, uint64_t models);

/* Before a decision: learns if enough tenants have arrived, and informs the policy. -ENOMEM. */
int workload_mix_update(struct place *place);

#endif
