/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KubeShare 2.0's two scores of a node, over its n devices c of the requested model:
 *
 *   opportunistic = (sum of [prio_c + 100 u_c] - 100 free / n) / n: packs;
 *   guarantee     = (sum of [prio_c - 100 u_c - 100 mean distance of c to the group's]) / n:
 *                   spreads, near the group;
 *
 * Here u is the used fraction of a device, free the number of idle devices, and prio the model's
 * priority in the cell file. The distance is from place_cell_id_distance(). All values are in
 * thousandths. On the chosen node, the tenant gets the devices whose own terms of the sum are
 * largest.
 *
 * If roots have no cellId, their ids are consecutive numbers. A device under a neighbouring root
 * can then have a smaller distance than another device under the same root (place-cell.h). So a
 * tenant may get a device under a root next to its group's. KubeShare does the same.
 *
 * Where KubeShare's code differs from its comments, this file follows the comments. So `free / n`
 * is not rounded, and a tenant without devices goes to a node without devices.
 */
#include "base/cleanup.h"
#include "place/place-cell.h"
#include "place/place-internal.h"
#include "place/place-policy.h"

enum { GUARANTEE, OPPORTUNISTIC };

/* Open devices of the permitted models. */
static uint64_t kubeshare2_model_devices(const struct place *place, uint64_t models, uint32_t at)
{
	const struct node *node = &place->nodes[at];
	uint64_t mask = 0;

	for (uint32_t i = 0; i < node->n_devices; i++) {
		const struct device *d = &place->devices[node->first_device + i];

		if (device_is_open(d) && (!models || (models >> d->model & 1)))
			mask |= 1ull << i;
	}
	return mask;
}

/* A device's term of the node's sum, without the distance. */
static int64_t kubeshare2_device_value(const struct place *place, uint32_t device, uint32_t kind)
{
	int64_t all = place->devices[device].share_all;
	int64_t used = (all - place->share_free[device]) * 1000 / all;
	int64_t priority = place_cell_priority(place, device);

	return priority * 1000 + (kind == OPPORTUNISTIC ? 100 : -100) * used;
}

/*
 * For each device of the mask, sets ret_far to 100 times its mean distance to the group's devices,
 * in thousandths.
 */
static void add_distances(const struct place *place, const struct group *group, uint32_t node,
	uint64_t mask, int64_t *ret_far)
{
	const uint32_t first = place->nodes[node].first_device;

	for (uint32_t k = 0; k < group->n; k++) {
		struct place_cell_path there, here;

		place_cell_path(place, group->devices[k], &there);
		for (uint64_t left = mask; left; left &= left - 1) {
			uint32_t i = (uint32_t)__builtin_ctzll(left);

			place_cell_path(place, first + i, &here);
			ret_far[i] += place_cell_id_distance(&here, &there);
		}
	}
	for (uint64_t left = mask; left; left &= left - 1)
		ret_far[__builtin_ctzll(left)] = ret_far[__builtin_ctzll(left)] * 100000 / group->n;
}

/* far: the values of add_distances() by device, or NULL for no distance */
static int32_t kubeshare2_node_score(
	const struct place *place, uint32_t node, uint64_t mask, uint32_t kind, const int64_t *far)
{
	const uint32_t first = place->nodes[node].first_device;
	const int64_t n = __builtin_popcountll(mask);
	int64_t sum = 0, n_free = 0;

	if (n == 0)
		return 0;
	for (; mask; mask &= mask - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(mask);

		sum += kubeshare2_device_value(place, first + i, kind) - (far ? far[i] : 0);
		n_free += device_is_idle(place, first + i);
	}
	if (kind == OPPORTUNISTIC)
		sum -= 100000 * n_free / n;
	return place_score_of(sum / n);
}

static int32_t without_device(const struct place *place, uint32_t node)
{
	return place->nodes[node].n_devices ? 0 : 100000;
}

static int32_t kubeshare2_bound(struct place *place, const struct place_class *class, uint32_t node)
{
	if (!class->count)
		return without_device(place, node);
	return kubeshare2_node_score(place, node,
		kubeshare2_model_devices(place, class->models, node), class->kind, NULL);
}

static int32_t kubeshare2_score(struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	const uint32_t kind = place->config.policy->kind(place, spec);
	const struct group *group = kind == GUARANTEE ? place_group(place, spec->group) : NULL;
	const uint32_t first = place->nodes[node].first_device;
	const uint64_t devices = kubeshare2_model_devices(place, spec->models, node);
	int64_t far[PLACE_NODE_DEVICES_MAX] = {0}, value[PLACE_NODE_DEVICES_MAX], sum;

	if (!spec->count)
		return without_device(place, node);
	if (group)
		add_distances(place, group, node, devices, far);
	for (uint64_t left = mask; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(left);

		value[i] = kubeshare2_device_value(place, first + i, kind) - far[i];
	}
	if (!place_take_best(place, value, mask, choice, &sum))
		return PLACE_NEVER;
	return kubeshare2_node_score(place, node, devices, kind, far);
}

/* ---- kinds of tenants ---- */

static uint32_t kind_guarantee(const struct place *place, const struct place_spec *spec)
{
	return GUARANTEE;
}

const struct place_policy place_kubeshare2_guarantee = {
	.name = "kubeshare2-guarantee",
	.about = "KubeShare 2.0 for guarantee pods: spread, near the group",
	.kind = kind_guarantee,
	.bound = kubeshare2_bound,
	.score = kubeshare2_score,
};

static uint32_t kind_opportunistic(const struct place *place, const struct place_spec *spec)
{
	return OPPORTUNISTIC;
}

const struct place_policy place_kubeshare2_opportunistic = {
	.name = "kubeshare2-opportunistic",
	.about = "KubeShare 2.0 for opportunistic pods: pack",
	.kind = kind_opportunistic,
	.bound = kubeshare2_bound,
	.score = kubeshare2_score,
};

static uint32_t kind_by_priority(const struct place *place, const struct place_spec *spec)
{
	return spec->priority ? GUARANTEE : OPPORTUNISTIC;
}

const struct place_policy place_kubeshare2 = {
	.name = "kubeshare2",
	.about = "KubeShare 2.0: packs those of priority 0, spreads the others",
	.kind = kind_by_priority,
	.bound = kubeshare2_bound,
	.score = kubeshare2_score,
};
