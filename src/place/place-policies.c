/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of policies, their common functions, and the simple policies. A policy that looks ahead
 * has a file of its own.
 */
#include <string.h>

#include "base/cleanup.h"
#include "place/place-cell.h"
#include "place/place-internal.h"
#include "place/place-policy.h"

const struct place_policy *const place_policies[] = {
	&place_scarcity,
	&place_fgd,
	&place_best_fit,
	&place_first_fit,
	&place_worst_fit,
	&place_dot_product,
	&place_kubeshare,
	&place_kubeshare_code,
	&place_kubeshare2,
	&place_kubeshare2_guarantee,
	&place_kubeshare2_opportunistic,
	&place_gpushare,
	&place_gaiagpu,
	&place_wang,
	NULL,
};

const struct place_policy *place_policy_find(const char *name)
{
	if (!strcmp(name, "default"))
		return place_policies[0];
	for (size_t i = 0; place_policies[i]; i++)
		if (!strcmp(place_policies[i]->name, name))
			return place_policies[i];
	return NULL;
}

/* ---- functions for policies ---- */

bool place_has_devices(const struct place *place, const struct place_class *class, uint32_t at)
{
	const struct node *node = &place->nodes[at];
	const bool is_mixed = node->models & (node->models - 1);
	uint32_t n = 0;

	if (node->n_devices < class->count)
		return false;
	for (uint32_t i = node->first_device;
		n < class->count && i < node->first_device + node->n_devices; i++) {
		if (place->share_open[i] < class->share)
			continue;
		if (class->is_idle && !device_is_idle(place, i))
			continue;
		n += !is_mixed || !class->models || (class->models >> place->devices[i].model & 1);
	}
	return n >= class->count;
}

uint32_t place_open_shares(const struct place *place, uint32_t at, bool is_idle,
	uint16_t ret_shares[static PLACE_NODE_DEVICES_MAX])
{
	const struct node *node = &place->nodes[at];
	uint32_t n = 0;

	for (uint32_t i = node->first_device; i < node->first_device + node->n_devices; i++) {
		uint16_t share = place->share_open[i];
		uint32_t k;

		if (is_idle && !device_is_idle(place, i))
			continue;
		for (k = n++; k && ret_shares[k - 1] < share; k--)
			ret_shares[k] = ret_shares[k - 1];
		ret_shares[k] = share;
	}
	return n;
}

uint64_t place_open_devices(const struct place *place, const struct place_class *class, uint32_t at)
{
	const struct node *node = &place->nodes[at];
	uint64_t mask = 0;

	for (uint32_t i = 0; i < node->n_devices; i++) {
		const uint32_t d = node->first_device + i;

		if (place->share_open[d] < class->share ||
			(class->is_idle && !device_is_idle(place, d)) ||
			(class->models && !(class->models >> place->devices[d].model & 1)))
			continue;
		mask |= 1ull << i;
	}
	return mask;
}

/* sign 1: the devices with the least free share; -1: with the most */
static void policies_take_devices(const struct place *place, uint32_t node, uint64_t mask, int sign,
	struct place_choice *choice)
{
	const uint16_t *share;

	if (!choice->n)
		return;
	share = &place->share_free[place->nodes[node].first_device];
	for (uint32_t k = 0; k < choice->n; k++) {
		int best = __builtin_ctzll(mask);

		for (uint64_t left = mask; left; left &= left - 1) {
			int i = __builtin_ctzll(left);

			if (sign * share[i] < sign * share[best])
				best = i;
		}
		mask &= ~(1ull << best);
		choice->device[k] = place->nodes[node].first_device + (uint32_t)best;
	}
}

void place_take_least(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	policies_take_devices(place, node, mask, 1, choice);
}

void place_take_most(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	policies_take_devices(place, node, mask, -1, choice);
}

/*
 * Starts one set with each device, and adds the device nearest to the set until the set is
 * complete. The set with the smallest sum of distances wins, and among equal sets the first.
 */
void place_take_near(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	const uint32_t first = place->nodes[node].first_device;
	uint32_t best = UINT32_MAX;

	if (choice->n == 1 || choice->n == (uint32_t)__builtin_popcountll(mask)) {
		for (uint32_t k = 0; k < choice->n; k++, mask &= mask - 1)
			choice->device[k] = first + (uint32_t)__builtin_ctzll(mask);
		return;
	}
	for (uint64_t starts = mask; starts && best; starts &= starts - 1) {
		uint32_t sum = 0, taken[SPEC_DEVICES_MAX];
		uint64_t left = mask & ~(starts & -starts);

		taken[0] = (uint32_t)__builtin_ctzll(starts);
		for (uint32_t k = 1; k < choice->n; k++) {
			uint32_t least = UINT32_MAX, at = 0;

			for (uint64_t m = left; m; m &= m - 1) {
				uint32_t i = (uint32_t)__builtin_ctzll(m), far = 0;

				for (uint32_t j = 0; j < k; j++)
					far += place_distance(place, first + i, first + taken[j]) -
						1;
				if (far < least) {
					least = far;
					at = i;
				}
			}
			sum += least;
			taken[k] = at;
			left &= ~(1ull << at);
		}
		if (sum >= best)
			continue;
		best = sum;
		for (uint32_t k = 0; k < choice->n; k++)
			choice->device[k] = first + taken[k];
	}
}

bool place_take_best(const struct place *place, const int64_t *value, uint64_t mask,
	struct place_choice *choice, int64_t *ret_sum)
{
	int64_t sum = 0;

	if ((uint32_t)__builtin_popcountll(mask) < choice->n)
		return false;
	for (uint32_t k = 0; k < choice->n; k++) {
		int best = __builtin_ctzll(mask);

		for (uint64_t left = mask; left; left &= left - 1)
			if (value[__builtin_ctzll(left)] > value[best])
				best = __builtin_ctzll(left);
		mask &= ~(1ull << best);
		choice->device[k] = place->nodes[choice->node].first_device + (uint32_t)best;
		sum += value[best];
	}
	*ret_sum = sum;
	return true;
}

static int32_t policies_judged_score(const struct place *place, const struct place_class *class,
	uint64_t mask, struct place_choice *choice)
{
	int64_t value[PLACE_NODE_DEVICES_MAX], sum;

	mask = place->config.policy->judge(place, class, choice->node, mask, value);
	return place_take_best(place, value, mask, choice, &sum) ? (int32_t)sum : PLACE_NEVER;
}

int32_t place_judged_bound(struct place *place, const struct place_class *class, uint32_t node)
{
	struct place_choice choice = {.node = node, .n = class->count};

	return policies_judged_score(place, class, place_open_devices(place, class, node), &choice);
}

int32_t place_judged_score(struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	const struct place_class class = place_class_of(place, spec);

	return policies_judged_score(place, &class, mask, choice);
}

void place_take_fitting(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	if (spec->share == SPEC_SHARE_ONE)
		place_take_near(place, spec, node, mask, choice);
	else
		place_take_least(place, spec, node, mask, choice);
}

int32_t place_score_of(int64_t value)
{
	return (int32_t)MIN(MAX(value, -(int64_t)INT32_MAX), INT32_MAX);
}

int64_t place_sum_of_greatest(int64_t *values, uint32_t n, uint32_t count)
{
	int64_t sum = 0;

	if (count == 2 && n > 2) {
		/*
		 * Two devices out of more are the frequent case: one pass finds the two greatest
		 * values.
		 */
		int64_t first = MAX(values[0], values[1]), second = MIN(values[0], values[1]);

		for (uint32_t i = 2; i < n; i++) {
			second = MAX(second, MIN(first, values[i]));
			first = MAX(first, values[i]);
		}
		return first + second;
	}

	for (uint32_t k = 0; k < count && k < n; k++) {
		uint32_t best = k;

		for (uint32_t i = k + 1; i < n; i++)
			if (values[i] > values[best])
				best = i;
		sum += values[best];
		values[best] = values[k];
	}
	return sum;
}

/* ---- first fit ---- */

static int32_t first_fit_bound(struct place *place, const struct place_class *class, uint32_t node)
{
	return 0;
}

static int32_t first_fit_score(struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	place_take_fitting(place, spec, node, mask, choice);
	return 0;
}

const struct place_policy place_first_fit = {
	.name = "first-fit",
	.about = "the first node with room",
	.spans_shares = true,
	.is_by_node = true,
	.bound = first_fit_bound,
	.score = first_fit_score,
};

/* ---- best fit and worst fit ---- */

/*
 * Both policies add a node's free CPU and free devices, each as a fraction of a large node, and
 * compare the sums in whole percent (Weng et al., USENIX ATC 2023, and their simulator). For best
 * fit a smaller sum is better, for worst fit a larger one.
 */
#define LARGE_CPU 128000 /* milli */
#define LARGE_DEVICES 8000
#define CPU_PER_DEVICE (LARGE_CPU / LARGE_DEVICES)

static int32_t left_over(const struct place *place, uint32_t at)
{
	const struct node *node = &place->nodes[at];
	int64_t left = place->cpu_free[at];

	for (uint32_t i = 0; i < node->n_devices; i++)
		left += CPU_PER_DEVICE * place->share_free[node->first_device + i];
	return left > INT32_MAX ? INT32_MAX : (int32_t)left;
}

static int32_t policies_percent(const struct place_spec *spec, int32_t left)
{
	int64_t n = left - (int64_t)spec->cpu_milli -
		(int64_t)CPU_PER_DEVICE * spec->share * spec->count;

	return (int32_t)((2 * LARGE_CPU - n) * 100 / (2 * LARGE_CPU));
}

static int32_t best_fit_bound(struct place *place, const struct place_class *class, uint32_t node)
{
	return -left_over(place, node);
}

static int32_t best_fit_score(struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	place_take_fitting(place, spec, node, mask, choice);
	return -left_over(place, node);
}

static int32_t best_fit_grade(
	const struct place *place, const struct place_spec *spec, int32_t score)
{
	return policies_percent(spec, -score);
}

const struct place_policy place_best_fit = {
	.name = "best-fit",
	.about = "the node with the least left over, CPU and devices alike",
	.spans_shares = true,
	.is_by_node = true,
	.bound = best_fit_bound,
	.score = best_fit_score,
	.grade = best_fit_grade,
};

static int32_t worst_fit_bound(struct place *place, const struct place_class *class, uint32_t node)
{
	return left_over(place, node);
}

static int32_t worst_fit_score(struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	if (spec->share == SPEC_SHARE_ONE)
		place_take_near(place, spec, node, mask, choice);
	else
		place_take_most(place, spec, node, mask, choice);
	return left_over(place, node);
}

static int32_t worst_fit_grade(
	const struct place *place, const struct place_spec *spec, int32_t score)
{
	return -policies_percent(spec, score);
}

const struct place_policy place_worst_fit = {
	.name = "worst-fit",
	.about = "the node with the most left over",
	.spans_shares = true,
	.is_by_node = true,
	.bound = worst_fit_bound,
	.score = worst_fit_score,
	.grade = worst_fit_grade,
};

/* ---- dot product ---- */

/*
 * This policy takes the node where the dot product of free capacity and request, over CPU and
 * devices, is smallest (Grandl et al., "Multi-resource packing for cluster schedulers", SIGCOMM
 * 2014). A smaller product is better, as in the simulator of Weng et al. The bound does not know
 * the requested CPU and assumes 0.
 */
static int64_t devices_dot(const struct place *place, uint32_t share, uint32_t count, uint32_t at)
{
	const struct node *node = &place->nodes[at];
	int64_t free = 0;

	for (uint32_t i = 0; i < node->n_devices; i++)
		free += place->share_free[node->first_device + i];
	return free * share * count / (LARGE_DEVICES / 100);
}

static int32_t dot_product_bound(
	struct place *place, const struct place_class *class, uint32_t node)
{
	return place_score_of(-devices_dot(place, class->share, class->count, node));
}

static int32_t dot_product_score(struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	int64_t cpu = (int64_t)place->cpu_free[node] / CPU_PER_DEVICE * spec->cpu_milli /
		CPU_PER_DEVICE / (LARGE_DEVICES / 100);

	place_take_fitting(place, spec, node, mask, choice);
	return place_score_of(-devices_dot(place, spec->share, spec->count, node) - cpu);
}

const struct place_policy place_dot_product = {
	.name = "dot-product",
	.about = "the node whose free CPU and devices match the least with what is asked",
	.spans_shares = true,
	.bound = dot_product_bound,
	.score = dot_product_score,
};
