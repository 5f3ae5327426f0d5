/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running tenants are restored after a restart, in any order, even where new tenants would be
 * refused.
 */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "cluster.h"
#include "place/place-internal.h"

static uint32_t below(struct rand *rand, uint32_t n)
{
	return (uint32_t)rand_below(rand, n);
}

static struct place_choice choice_of(const struct place_tenant *t)
{
	struct place_choice choice = {.node = t->node, .n = t->n};

	memcpy(choice.device, t->device, sizeof(choice.device));
	return choice;
}

/* Makes random nodes closed, tainted, smaller or full. */
static void change_nodes(struct rand *rand, struct place *place)
{
	uint64_t taint;

	assert_ok(place_taint(place, "t", &taint, NULL));
	for (uint32_t at = 0; at < place->n_nodes; at++) {
		const struct node *node = &place->nodes[at];
		struct place_device_info devices[PLACE_NODE_DEVICES_MAX] = {0};
		struct place_node_info info = {.name = node->name->text,
			.rack = "",
			.cpu_milli = below(rand, 2) ? node->cpu_all : node->cpu_all / 2,
			.memory_bytes = below(rand, 2) ? node->memory_all : node->memory_all / 4,
			.taints = below(rand, 2) ? taint : 0,
			.n_tenants_max = below(rand, 2),
			.is_closed = below(rand, 2),
			.n_devices = node->n_devices,
			.devices = devices};

		for (uint32_t i = 0; i < node->n_devices; i++)
			devices[i] = (struct place_device_info){
				.model = place->devices[node->first_device + i].model,
				.memory_bytes = below(rand, 2) ? 16 * GIB : GIB,
				.is_closed = below(rand, 2)};
		assert_ok(place_node_update(place, at, &info, NULL));
	}
}

static uint64_t tags_of(const struct device *d)
{
	uint64_t tags = 0;

	for (uint32_t i = 0; i < d->n_tags; i++)
		tags += (d->tags[i].label * 31ull + (uint64_t)d->tags[i].role) * 1000003u +
			d->tags[i].n;
	return tags;
}

static void compare(const struct place *a, const struct place *b)
{
	assert_int_equal(place_n_tenants(a), place_n_tenants(b));
	for (uint32_t at = 0; at < a->n_nodes; at++) {
		assert_int_equal(a->cpu_free[at], b->cpu_free[at]);
		assert_int_equal(a->memory_free[at], b->memory_free[at]);
		assert_int_equal(a->nodes[at].n_tenants, b->nodes[at].n_tenants);
	}
	for (uint32_t at = 0; at < a->n_devices; at++) {
		assert_int_equal(a->share_free[at], b->share_free[at]);
		assert_int_equal(a->share_open[at], b->share_open[at]);
		assert_int_equal(a->devices[at].memory_free, b->devices[at].memory_free);
		assert_int_equal(a->devices[at].n_tenants, b->devices[at].n_tenants);
		assert_int_equal(tags_of(&a->devices[at]), tags_of(&b->devices[at]));
	}
}

/* A cluster with the same nodes as the seed's cluster, without its tenants. */
static struct place *same_nodes(uint64_t seed, uint32_t n)
{
	struct rand rand = rand_seeded(seed);
	struct place *place = cluster_new(&rand, &place_best_fit, n, 4);
	uint32_t label;

	assert_ok(place_label(place, "", "a", &label, NULL));
	assert_ok(place_label(place, "", "b", &label, NULL));
	return place;
}

static void every_state_comes_back_in_any_order(void **state)
{
	uint32_t n_back = 0;

	for (uint64_t seed = 0; seed < 1000; seed++) {
		struct rand rand = rand_seeded(seed + 5000), changes = rand_seeded(seed), again;
		const uint32_t n = 1 + below(&rand, 6);
		_cleanup_place_ struct place *place = same_nodes(seed, n);
		_cleanup_place_ struct place *fresh = same_nodes(seed, n);
		uint32_t order[64], left = 0, tenant;

		cluster_fill(&rand, place, below(&rand, 40));
		for (uint32_t i = 0; i < place->n_tenants; i++)
			if (below(&rand, 3) == 0)
				assert_ok(place_remove(place, i));
		again = changes;
		change_nodes(&changes, place);
		change_nodes(&again, fresh);
		for (uint32_t i = 0; i < place->n_tenants; i++)
			if (place_tenant(place, i))
				order[left++] = i;
		while (left) {
			uint32_t k = below(&rand, left);
			const struct place_tenant *t = place_tenant(place, order[k]);
			const struct place_choice choice = choice_of(t);

			assert_ok(place_restore(fresh, &t->spec, &choice, t->bytes, &tenant, NULL));
			assert_int_equal(place_tenant(fresh, tenant)->bytes[0], t->bytes[0]);
			order[k] = order[--left];
			n_back++;
		}
		compare(place, fresh);
	}
	assert_true(n_back > 5000);
}

/* Every function refuses the spec, and none changes the model. */
static void refuse_spec(struct place *place, const struct place_spec *spec, const char *says)
{
	const struct place_choice choice = {.n = 1};
	const uint64_t digest = cluster_digest(place);
	struct place_choice found;
	struct error err = {0};
	uint32_t tenant;

	assert_int_equal(place_spec_check(spec, &err), -EINVAL);
	assert_contains(err.msg, says);
	err.msg[0] = '\0';
	assert_int_equal(place_find(place, spec, &found, &err), -EINVAL);
	assert_contains(err.msg, says);
	assert_int_equal(place_add(place, spec, &choice, &tenant, &err), -EINVAL);
	assert_int_equal(place_restore(place, spec, &choice, NULL, &tenant, &err), -EINVAL);
	place_note_arrival(place, spec);
	assert_int_equal(cluster_digest(place), digest);
}

static void numbers_out_of_range_change_nothing(void **state)
{
	_cleanup_place_ struct place *place = cluster_by_hand(&place_scarcity, NULL);
	const struct place_spec one = {.share = 500,
		.count = 1,
		.class = SPEC_STANDARD,
		.device = PLACE_NONE,
		.node = PLACE_NONE};
	struct place_spec spec;

	cluster_add_node(place, "n", NULL, NULL, "01");
	cluster_put(place, one, 0);
#define REFUSE(field, value, says) \
	spec = one; \
	spec.field = (value); \
	refuse_spec(place, &spec, says)
	REFUSE(share, UINT32_MAX, "share 4294967295: 1 to 1000 permille are possible");
	REFUSE(share, 0, "share 0: 1 to 1000 permille are possible");
	REFUSE(count, UINT32_MAX, "count 4294967295: up to 16 devices are possible");
	REFUSE(count, 0, "share 500 of no device");
	REFUSE(is_exclusive, true, "share 500: an exclusive tenant needs the whole device");
	REFUSE(device_permille, UINT32_MAX, "device memory 4294967295: up to 1000 permille");
	REFUSE(device_bytes, UINT64_MAX, "memory 18446744073709551615: more than any machine has");
	REFUSE(memory_bytes, UINT64_MAX, "memory 18446744073709551615: more than any machine has");
	REFUSE(cpu_milli, UINT32_MAX, "cpu 4294967295: more than any machine has");
	REFUSE(class, (enum spec_class) - 1, "class 4294967295");
	REFUSE(priority, UINT32_MAX, "priority 4294967295: 0 to 100 are possible");
#undef REFUSE
}

static void devices_with_tenants_stay(void **state)
{
	_cleanup_place_ struct place *place = cluster_by_hand(&place_scarcity, NULL);
	struct place_device_info device[2] = {
		{.memory_bytes = 16 * GIB}, {.memory_bytes = 16 * GIB, .link = 1}};
	struct place_node_info info = {.name = "n", .n_devices = 2, .devices = device};
	struct place_spec spec = PLACE_SPEC_INIT;
	struct error err = {0};
	uint64_t digest, other;

	cluster_add_node(place, "n", NULL, "00", "01");
	assert_ok(place_model(place, "other", &other, NULL));
	spec.share = 500;
	cluster_put(place, spec, 1);
	digest = cluster_digest(place);
	/* The tenant's device disappears, changes its model, or the node gets too many devices. */
	info.n_devices = 1;
	assert_int_equal(place_node_update(place, 0, &info, &err), -EBUSY);
	assert_contains(err.msg, "n");
	info.n_devices = 2;
	device[1].model = (uint32_t)__builtin_ctzll(other);
	assert_int_equal(place_node_update(place, 0, &info, &err), -EBUSY);
	info.n_devices = PLACE_NODE_DEVICES_MAX + 1;
	assert_int_equal(place_node_update(place, 0, &info, &err), -EINVAL);
	assert_contains(err.msg, "65 devices");
	info.n_devices = 2;
	device[1].model = UINT32_MAX;
	assert_int_equal(place_node_update(place, 0, &info, &err), -EINVAL);
	device[1].model = 0;
	device[1].memory_bytes = UINT64_MAX;
	assert_int_equal(place_node_update(place, 0, &info, &err), -EINVAL);
	device[1].memory_bytes = 16 * GIB;
	info.cpu_milli = UINT32_MAX;
	assert_int_equal(place_node_update(place, 0, &info, &err), -EINVAL);
	assert_contains(err.msg, "node n: cpu 4294967295: more than any machine has");
	info.cpu_milli = 0;
	info.memory_bytes = UINT64_MAX;
	assert_int_equal(place_node_update(place, 0, &info, &err), -EINVAL);
	assert_contains(err.msg, "memory 18446744073709551615: more than any machine has");
	assert_int_equal(cluster_digest(place), digest);
	cluster_check(place);
}

static void impossible_states_are_refused(void **state)
{
	const struct place_config config = {.policy = &place_first_fit};
	const struct place_device_info device = {.memory_bytes = 16 * GIB, .is_closed = true};
	const struct place_node_info info = {.name = "n", .n_devices = 1, .devices = &device};
	const struct place_choice choice = {.n = 1};
	struct place *place = NULL;
	struct place_spec spec = PLACE_SPEC_INIT;
	uint32_t node, tenant, label;
	struct error err = {0};
	uint64_t bit, digest;

	assert_ok(place_new(&config, &place, NULL));
	assert_ok(place_model(place, "A", &bit, NULL));
	assert_ok(place_label(place, "", "x", &label, NULL));
	assert_ok(place_node_add(place, &info, &node, NULL));
	spec.share = 600;
	assert_int_equal(place_add(place, &spec, &choice, &tenant, &err), -ENOSPC);
	assert_ok(place_restore(place, &spec, &choice, NULL, &tenant, &err));
	digest = cluster_digest(place);
	assert_int_equal(place_restore(place, &spec, &choice, NULL, &tenant, &err), -ENOSPC);
	assert_contains(err.msg, "0.4 free, the tenant has 0.6");
	spec.share = 100;
	spec.exclusion = label;
	assert_int_equal(place_restore(place, &spec, &choice, NULL, &tenant, &err), -ENOSPC);
	assert_contains(err.msg, "exclusion");
	spec.exclusion = label + 1;
	assert_int_equal(place_restore(place, &spec, &choice, NULL, &tenant, &err), -EINVAL);
	spec = PLACE_SPEC_INIT;
	assert_int_equal(place_restore(place, &spec, &choice, NULL, &tenant, &err), -EINVAL);
	spec.share = SPEC_SHARE_ONE;
	spec.is_exclusive = true;
	assert_int_equal(place_restore(place, &spec, &choice, NULL, &tenant, &err), -ENOSPC);
	/* A sum that exceeds its counter is refused. */
	spec = PLACE_SPEC_INIT;
	spec.share = 1;
	spec.cpu_milli = INT32_MAX;
	spec.device_bytes = spec.memory_bytes = UINT64_MAX / 2;
	for (int r = 0; r == 0;)
		r = place_restore(place, &spec, &choice, NULL, &tenant, &err);
	assert_contains(err.msg, "than any");
	assert_true(place_n_tenants(place) <= 3);
	for (uint32_t i = place->n_tenants; i-- > 1;)
		assert_ok(place_remove(place, i));
	assert_int_equal(cluster_digest(place), digest);
	place_free(place);
}

UNIT_MAIN(UNIT(every_state_comes_back_in_any_order), UNIT(numbers_out_of_range_change_nothing),
	UNIT(devices_with_tenants_stay), UNIT(impossible_states_are_refused))
