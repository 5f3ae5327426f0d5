/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the kinds of arriving tenants. The number of counted kinds is limited: if there are too
 * many, all counts are halved and kinds with a count of 1 are dropped. So frequent kinds stay in
 * the table (Misra and Gries, "Finding repeated elements", 1982).
 */
#include "place/workload-mix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "place/place-bounds.h"
#include "place/place-internal.h"
#include "place/place-policy.h"

#define SEEN_SIZE 8192u /* slots, a power of two; at most half of them are used */
#define FIRST_ARRIVALS 16u
/*
 * The policy learns again once the new arrivals reach 1/LEARN_PART of the earlier arrivals, or of
 * the placed tenants if there are fewer of them. That many new tenants also change which capacity
 * is scarce.
 */
#define LEARN_PART 8u
#define COMMON_PART 95u /* percent */
#define TYPICAL_PART 98u

int workload_mix_new(struct workload_mix **ret)
{
	struct workload_mix *mix = calloc(1, sizeof(*mix));

	if (mix) {
		mix->seen = calloc(SEEN_SIZE, sizeof(*mix->seen));
		mix->sorted = calloc(SEEN_SIZE / 2, sizeof(*mix->sorted));
	}
	if (!mix || !mix->seen || !mix->sorted) {
		workload_mix_free(mix);
		return -ENOMEM;
	}
	*ret = mix;
	return 0;
}

void workload_mix_free(struct workload_mix *mix)
{
	if (!mix)
		return;
	free(mix->seen);
	free(mix->sorted);
	free(mix);
}

static uint32_t workload_mix_hash_workload(const struct mix_entry *t)
{
	uint64_t h = t->models * 0x9e3779b97f4a7c15u;

	h ^= ((uint64_t)t->cpu_milli << 32 | (uint64_t)t->share << 8 | t->count);
	h *= 0xff51afd7ed558ccdu;
	return (uint32_t)(h >> 40) & (SEEN_SIZE - 1);
}

static struct mix_entry *seen_slot(struct workload_mix *mix, const struct mix_entry *t)
{
	uint32_t h = workload_mix_hash_workload(t);

	for (;; h = (h + 1) & (SEEN_SIZE - 1)) {
		struct mix_entry *s = &mix->seen[h];

		if (!s->n ||
			(s->cpu_milli == t->cpu_milli && s->share == t->share &&
				s->count == t->count && s->models == t->models))
			return s;
	}
}

static void workload_mix_halve_counts(struct workload_mix *mix)
{
	struct mix_entry *kept = mix->sorted;
	uint32_t n = 0;

	for (uint32_t i = 0; i < SEEN_SIZE; i++)
		if (mix->seen[i].n > 1)
			kept[n++] = mix->seen[i];
	memset(mix->seen, 0, SEEN_SIZE * sizeof(*mix->seen));
	mix->n_seen = n;
	for (uint32_t i = 0; i < n; i++) {
		kept[i].mib = kept[i].mib / kept[i].n * (kept[i].n / 2);
		kept[i].n /= 2;
		*seen_slot(mix, &kept[i]) = kept[i];
	}
}

/*
 * Requested models with enough device memory. If no model is known to have enough, all requested
 * models.
 */
static uint64_t models_with_memory(const struct place *place, const struct place_spec *spec)
{
	const uint64_t asked = spec->models ? spec->models : UINT64_MAX;
	uint64_t with = 0, without = 0;

	for (uint32_t m = 0; m < place->n_models && spec->device_bytes; m++)
		if (place->model_memory[m] && (asked >> m & 1)) {
			if (place->model_memory[m] >= spec->device_bytes)
				with |= 1ull << m;
			else
				without |= 1ull << m;
		}
	return with && without ? with : spec->models;
}

static void workload_mix_count_workload(
	struct workload_mix *mix, const struct place *place, const struct place_spec *spec)
{
	struct mix_entry t = {.cpu_milli = spec->cpu_milli,
				 .share = spec->share,
				 .count = spec->count,
				 .models = spec->count ? models_with_memory(place, spec) : 0},
			 *slot;

	slot = seen_slot(mix, &t);
	if (!slot->n) {
		/* One halving frees no slot if every kind has been counted more than once. */
		while (mix->n_seen >= SEEN_SIZE / 2)
			workload_mix_halve_counts(mix);
		slot = seen_slot(mix, &t);
		*slot = t;
		mix->n_seen++;
	}
	slot->n++;
	slot->mib += (spec->memory_bytes >> 20) + (spec->memory_bytes % (1u << 20) != 0);
	mix->arrivals++;
}

/* Most frequent first. The order is total, so every machine gets the same result. */
static int workload_mix_compare(const void *pa, const void *pb)
{
	const struct mix_entry *a = pa, *b = pb;

#define BY(field) \
	if (a->field != b->field) \
	return a->field > b->field ? -1 : 1
	BY(n);
	BY(share);
	BY(count);
	BY(cpu_milli);
	BY(models);
#undef BY
	return 0;
}

static void workload_mix_learn(struct workload_mix *mix)
{
	struct mix_entry *all = mix->seen, *sorted = mix->sorted;
	uint64_t total = 0, sum = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < SEEN_SIZE; i++)
		if (all[i].n) {
			sorted[n++] = all[i];
			total += all[i].n;
		}
	qsort(sorted, n, sizeof(*sorted), workload_mix_compare);
	mix->n = mix->n_common = 0;
	while (mix->n < n && mix->n < WORKLOAD_MIX_MAX && sum * 100 < total * TYPICAL_PART) {
		mix->n_common += sum * 100 < total * COMMON_PART;
		mix->entry[mix->n] = sorted[mix->n];
		sum += sorted[mix->n++].n;
	}
	mix->weights = 0;
	for (uint32_t i = 0; i < mix->n; i++) {
		struct mix_entry *t = &mix->entry[i];

		t->weight = (int32_t)t->n;
		if (sum > WORKLOAD_MIX_WEIGHTS - WORKLOAD_MIX_MAX)
			t->weight = (int32_t)(t->n * (WORKLOAD_MIX_WEIGHTS - WORKLOAD_MIX_MAX) /
					    sum) +
				1;
		if (i < mix->n_common)
			mix->weights += t->weight;
	}
}

void workload_mix_forget(struct workload_mix *mix, uint64_t models)
{
	struct mix_entry *kept = mix->sorted;
	uint32_t n = 0;

	for (uint32_t i = 0; i < SEEN_SIZE; i++) {
		struct mix_entry t = mix->seen[i];

		if (!t.n || (t.models && !(t.models & ~models)))
			continue;
		t.models &= ~models;
		kept[n++] = t;
	}
	memset(mix->seen, 0, SEEN_SIZE * sizeof(*mix->seen));
	mix->n_seen = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct mix_entry *slot = seen_slot(mix, &kept[i]);
		const uint64_t before = slot->n, mib = slot->mib;

		mix->n_seen += before == 0;
		*slot = kept[i];
		slot->n += before;
		slot->mib += mib;
	}
	workload_mix_learn(mix);
	mix->is_learnt = false; /* the policy has not learnt the changed mix yet */
}

int workload_mix_update(struct place *place)
{
	struct workload_mix *mix = place->mix;
	uint64_t fresh = mix->arrivals - mix->learnt_at;
	uint64_t part = MIN(mix->learnt_at, place->n_placed) / LEARN_PART;
	int r;
	bool is_due = !mix->is_learnt || mix->n_models != place->n_models ||
		mix->n_nodes != place->nodes_size ||
		(!mix->is_set && mix->arrivals >= FIRST_ARRIVALS &&
			fresh >= MAX(part, FIRST_ARRIVALS));

	if (!is_due || !place->config.policy->learn)
		return 0;
	/*
	 * Fewer than FIRST_ARRIVALS arrivals say little about the mix, so the policy ignores them.
	 */
	if (!mix->is_set && mix->arrivals >= FIRST_ARRIVALS)
		workload_mix_learn(mix);
	mix->is_learnt = false;
	place_bounds_forget(place->bounds);
	r = place->config.policy->learn(place);
	if (r < 0)
		return r;
	mix->is_learnt = true;
	mix->learnt_at = mix->arrivals;
	mix->n_models = place->n_models;
	mix->n_nodes = place->nodes_size;
	return 0;
}

void place_note_arrival(struct place *place, const struct place_spec *spec)
{
	if (!place->mix->is_set && place_spec_check(spec, NULL) == 0)
		workload_mix_count_workload(place->mix, place, spec);
}

void workload_mix_set(struct workload_mix *mix, const struct place *place,
	const struct place_spec *specs, uint32_t n)
{
	memset(mix->seen, 0, SEEN_SIZE * sizeof(*mix->seen));
	mix->n_seen = 0;
	mix->arrivals = 0;
	for (uint32_t i = 0; i < n; i++)
		if (place_spec_check(&specs[i], NULL) == 0)
			workload_mix_count_workload(mix, place, &specs[i]);
	workload_mix_learn(mix);
	mix->is_set = true;
	mix->is_learnt = false; /* the policy has not learnt the changed mix yet */
}

void place_set_workload_mix(struct place *place, const struct place_spec *specs, uint32_t n)
{
	workload_mix_set(place->mix, place, specs, n);
}

/* ---- capacity that typical tenants cannot use ---- */

static uint64_t workload_mix_unusable_share(
	const struct place *place, uint32_t at, const struct mix_entry *t, const uint16_t *open)
{
	const struct node *node = &place->nodes[at];
	uint64_t rest = 0, small = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < node->n_devices; i++) {
		const uint32_t r = open[i], model = place->devices[node->first_device + i].model;
		const bool is_other = t->models && !(t->models >> model & 1);

		rest += r;
		if (is_other || r < t->share)
			small += r;
		else
			n++;
	}
	return !t->count || n < t->count || place->cpu_free[at] < t->cpu_milli ? rest : small;
}

uint64_t workload_mix_unusable(const struct workload_mix *mix, const struct place *place,
	uint32_t node, const uint16_t *open)
{
	uint64_t sum = 0;

	for (uint32_t m = 0; m < mix->n_common; m++)
		sum += workload_mix_unusable_share(place, node, &mix->entry[m], open) *
			(uint64_t)mix->entry[m].weight;
	return sum;
}

uint64_t place_fragmentation(struct place *place)
{
	struct workload_mix *mix = place->mix;
	uint64_t sum = 0;

	/* Learn the mix as of now. The policy itself learns later, in workload_mix_update(). */
	if (!mix->is_set && mix->arrivals)
		workload_mix_learn(mix);
	for (uint32_t at = 0; at < place->n_nodes; at++)
		sum += workload_mix_unusable(
			mix, place, at, &place->share_open[place->nodes[at].first_device]);
	return mix->weights ? sum / (uint64_t)mix->weights : 0;
}
