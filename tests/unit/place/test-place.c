/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement: examples made by hand for the rules, and a walk of random steps. The walk compares
 * every figure with a count over its own list of tenants.
 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/rand.h"
#include "place/place-policy.h"
#include "place/place-queue.h"
#include "place/place.h"

#define GIB (1ull << 30)

static struct place *new_place(const struct place_policy *policy)
{
	struct place *place;

	assert_ok(place_new(&(struct place_config){.policy = policy}, &place, NULL));
	return place;
}

static uint32_t add_node(struct place *place, const char *name, const char *model, uint32_t devices)
{
	struct place_device_info device[PLACE_NODE_DEVICES_MAX] = {0};
	uint64_t bit;
	uint32_t node;

	assert_ok(place_model(place, model, &bit, NULL));
	for (uint32_t i = 0; i < devices; i++)
		device[i] = (struct place_device_info){.model = (uint32_t)__builtin_ctzll(bit),
			.memory_bytes = 16 * GIB,
			.link = (uint8_t)(i / 2),
			.numa = (uint8_t)(i / 4)};
	assert_ok(place_node_add(place,
		&(struct place_node_info){.name = name,
			.cpu_milli = 8000,
			.memory_bytes = 64 * GIB,
			.n_devices = devices,
			.devices = device},
		&node, NULL));
	return node;
}

static uint32_t label(struct place *place, const char *name)
{
	uint32_t id;

	assert_ok(place_label(place, "ns", name, &id, NULL));
	return id;
}

static struct place_spec share(uint32_t permille)
{
	struct place_spec spec = PLACE_SPEC_INIT;

	spec.share = permille;
	return spec;
}

static int put(struct place *place, const struct place_spec *spec, uint32_t *ret_tenant)
{
	struct place_choice choice;
	int r = place_find(place, spec, &choice, NULL);

	return r < 0 ? r : place_add(place, spec, &choice, ret_tenant, NULL);
}

static uint32_t device_of(const struct place *place, uint32_t tenant)
{
	return place_tenant(place, tenant)->device[0];
}

static void shares_add_up_to_a_device(void **state)
{
	struct place *place = new_place(&place_first_fit);
	const struct place_spec a = share(100), b = share(200), c = share(700);
	uint32_t t[3], more;

	add_node(place, "a", "T4", 1);
	assert_ok(put(place, &a, &t[0]));
	assert_ok(put(place, &b, &t[1]));
	assert_ok(put(place, &c, &t[2]));
	assert_int_equal(
		put(place,
			&(struct place_spec){
				.share = 1, .count = 1, .device = PLACE_NONE, .node = PLACE_NONE},
			&more),
		-ENOSPC);
	assert_ok(place_remove(place, t[1]));
	assert_int_equal(place_remove(place, t[1]), -ENOENT);
	assert_ok(put(place, &b, &t[1]));
	place_free(place);
}

static void tenants_of_an_affinity_label_share_a_device(void **state)
{
	struct place *place = new_place(&place_first_fit);
	struct place_spec spec = share(400), other = share(100);
	uint32_t a, b, c;

	add_node(place, "a", "T4", 2);
	assert_ok(put(place, &other, &c));
	spec.affinity = label(place, "together");
	/*
	 * The first tenant of an affinity label takes an idle device, although the used device has
	 * capacity.
	 */
	assert_ok(put(place, &spec, &a));
	assert_int_not_equal(device_of(place, a), device_of(place, c));
	assert_ok(put(place, &spec, &b));
	assert_int_equal(device_of(place, a), device_of(place, b));
	/* The label's device is full, and other devices are not allowed. */
	assert_int_equal(put(place, &spec, &c), -ENOSPC);
	place_free(place);
}

static void anti_affinity_keeps_tenants_on_different_devices(void **state)
{
	struct place *place = new_place(&place_first_fit);
	struct place_spec spec = share(100);
	uint32_t a, b, c;

	add_node(place, "a", "T4", 2);
	spec.anti_affinity = label(place, "apart");
	assert_ok(put(place, &spec, &a));
	assert_ok(put(place, &spec, &b));
	assert_int_not_equal(device_of(place, a), device_of(place, b));
	assert_int_equal(put(place, &spec, &c), -ENOSPC);
	place_free(place);
}

/*
 * All these labels are different. A namespace "" is not the same as no namespace, and a name "" not
 * the same as no name.
 */
static void labels_without_namespace_or_name_are_their_own(void **state)
{
	static const struct {
		const char *ns, *name;
	} keys[] = {{"ns", "a"}, {"", "a"}, {NULL, "a"}, {"ns", NULL}, {"ns", ""}, {"", NULL},
		{"", ""}, {NULL, NULL}, {NULL, ""}, {"n", "sa"}};
	struct place *place = new_place(&place_best_fit);
	uint32_t id[ARRAY_SIZE(keys)], again;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		assert_ok(place_label(place, keys[i].ns, keys[i].name, &id[i], NULL));
		assert_string_equal(
			place_label_name(place, id[i]), keys[i].name ? keys[i].name : "");
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(id[i], id[k]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		assert_ok(place_label(place, keys[i].ns, keys[i].name, &again, NULL));
		assert_int_equal(again, id[i]);
		assert_ok(place_label_forget(place, id[i], NULL));
	}
	place_free(place);
}

static void tenants_without_exclusion_label_share_with_each_other(void **state)
{
	struct place *place = new_place(&place_first_fit);
	struct place_spec mine = share(100), theirs = share(100), none = share(100);
	uint32_t a, b, c, d;

	add_node(place, "a", "T4", 2);
	mine.exclusion = label(place, "mine");
	theirs.exclusion = label(place, "theirs");
	assert_ok(put(place, &mine, &a));
	assert_ok(put(place, &none, &b));
	assert_int_not_equal(device_of(place, a), device_of(place, b));
	assert_int_equal(put(place, &theirs, &c), -ENOSPC);
	assert_ok(put(place, &mine, &d));
	assert_int_equal(device_of(place, a), device_of(place, d));
	/* An idle device accepts any exclusion label. */
	assert_ok(place_remove(place, b));
	assert_ok(put(place, &theirs, &c));
	place_free(place);
}

static void memory_counts_on_each_device(void **state)
{
	struct place *place = new_place(&place_first_fit);
	struct place_spec spec = share(100);
	uint32_t a, b;

	add_node(place, "a", "T4", 2);
	spec.device_bytes = 10 * GIB;
	spec.count = 2;
	assert_ok(put(place, &spec, &a));
	assert_int_equal(put(place, &spec, &b), -ENOSPC);
	spec.device_bytes = 0;
	spec.device_permille = 375; /* 6 GiB, exactly the free memory */
	assert_ok(put(place, &spec, &b));
	assert_int_equal(place_tenant(place, b)->bytes[0], 6 * GIB);
	place_free(place);
}

static void whole_devices_are_near_each_other(void **state)
{
	struct place *place = new_place(&place_first_fit);
	struct place_spec one = share(1000), two = share(1000);
	uint32_t a, b;

	add_node(place, "a", "T4", 8);
	two.count = 2;
	assert_ok(put(place, &one, &a));
	assert_int_equal(device_of(place, a), 0);
	assert_ok(put(place, &two, &b));
	/*
	 * Device 0 is taken, so device 1 has no free neighbour on its link. Devices 2 and 3 are the
	 * first pair.
	 */
	assert_int_equal(place_tenant(place, b)->device[0], 2);
	assert_int_equal(place_tenant(place, b)->device[1], 3);
	place_free(place);
}

/* Each MIG instance of a GPU is a device, whose model names the size. */
static void instances_are_devices(void **state)
{
	struct place *place = new_place(&place_scarcity);
	struct place_device_info devices[PLACE_NODE_DEVICES_MAX] = {0};
	struct place_node_info info = {.name = "mig", .cpu_milli = 64000, .devices = devices};
	struct place_spec small = share(1000), large = share(1000), any = share(500);
	struct place_device_view view;
	uint32_t node, t[PLACE_NODE_DEVICES_MAX];
	struct place_why why;
	struct error err;
	uint64_t bit;

	assert_ok(place_model(place, "A100-1g.10gb", &bit, NULL));
	assert_ok(place_model(place, "A100-3g.40gb", &bit, NULL));
	small.models = 1;
	large.models = 2;
	small.is_exclusive = large.is_exclusive = true;
	/* Each of eight GPUs has one instance of three slices and four of one slice: 40 devices. */
	for (uint32_t gpu = 0; gpu < 8; gpu++)
		for (uint32_t i = 0; i < 5; i++) {
			struct place_device_info *d = &devices[info.n_devices++];

			snprintf(d->uuid, sizeof(d->uuid), "MIG-%u-%u", gpu, i);
			d->model = i == 0;
			d->memory_bytes = (i ? 10 : 40) * GIB;
			d->link = (uint8_t)gpu;
		}
	assert_ok(place_node_add(place, &info, &node, NULL));
	for (uint32_t i = 0; i < 32; i++) {
		assert_ok(put(place, &small, &t[i]));
		assert_true(place_device_get(place, device_of(place, t[i]), &view));
		assert_int_equal(view.model, 0);
		assert_int_equal(place_tenant(place, t[i])->bytes[0], 10 * GIB);
	}
	assert_int_equal(put(place, &small, &t[32]), -ENOSPC);
	place_explain(place, &small, &why);
	assert_int_equal(why.nodes[PLACE_NO_SHARE], 1);
	/*
	 * One tenant gets seven instances. Then two tenants share the last instance, each with half
	 * of its memory.
	 */
	large.count = 7;
	assert_ok(put(place, &large, &t[32]));
	assert_ok(put(place, &any, &t[33]));
	assert_ok(put(place, &any, &t[34]));
	assert_int_equal(device_of(place, t[33]), device_of(place, t[34]));
	assert_int_equal(place_tenant(place, t[34])->bytes[0], 20 * GIB);
	assert_int_equal(put(place, &any, &t[35]), -ENOSPC);
	/*
	 * A GPU may get other instances when it has no tenants. Instances with tenants must stay.
	 */
	assert_ok(place_remove(place, t[33]));
	assert_ok(place_remove(place, t[34]));
	devices[0].model = 0;
	assert_int_equal(place_node_update(place, node, &info, &err), -EBUSY);
	devices[0].model = 1;
	for (uint32_t i = 0; i < info.n_devices; i++) {
		assert_true(place_device_get(place, i, &view));
		if (view.n_tenants)
			continue;
		devices[i].model = 0;
		devices[i].memory_bytes = 10 * GIB;
	}
	assert_ok(place_node_update(place, node, &info, &err));
	assert_ok(put(place, &small, &t[33]));
	large.count = 1;
	assert_int_equal(put(place, &large, &t[34]), -ENOSPC);
	place_free(place);
}

static void refusals_give_the_reason(void **state)
{
	struct place *place = new_place(&place_first_fit);
	struct place_spec spec = share(500);
	char text[PLACE_WHY];
	struct place_why why;
	uint32_t a;

	add_node(place, "a", "T4", 1);
	add_node(place, "b", "H100", 1);
	spec.models = 1;
	assert_ok(put(place, &spec, &a));
	spec.share = 600;
	place_explain(place, &spec, &why);
	assert_int_equal(why.nodes[PLACE_OTHER_MODEL], 1);
	assert_int_equal(why.nodes[PLACE_NO_SHARE], 1);
	assert_int_equal(why.most_share, 500);
	place_why_format(&why, &spec, text);
	assert_contains(text, "0 of 2 nodes");
	assert_contains(text, "1 has other models");
	assert_contains(text, "0.5 free at most");
	assert_contains(text, "0.6 of 1 asked");
	place_free(place);
}

/*
 * The only device of the requested model is full. The refusal names that reason, although more
 * devices have another model. The same holds for a requested device.
 */
static void a_refusal_names_the_missing_model(void **state)
{
	struct place_device_info devices[3] = {{.model = 0}, {.model = 1}, {.model = 1}};
	struct place *place = new_place(&place_first_fit);
	struct place_spec spec = share(1000);
	struct place_why why;
	uint32_t node, tenant;
	uint64_t bit;

	assert_ok(place_model(place, "T4", &bit, NULL));
	assert_ok(place_model(place, "A100", &bit, NULL));
	assert_ok(place_node_add(place,
		&(struct place_node_info){.name = "a", .n_devices = 3, .devices = devices}, &node,
		NULL));
	spec.models = 1;
	assert_ok(put(place, &spec, &tenant));
	assert_int_equal(place_reason_of(place, &spec, node), PLACE_NO_SHARE);
	place_explain(place, &spec, &why);
	assert_int_equal(why.most_share, 0);
	spec.count = 2;
	assert_int_equal(place_reason_of(place, &spec, node), PLACE_OTHER_MODEL);
	spec = share(1000);
	spec.device = 0;
	assert_int_equal(place_reason_of(place, &spec, node), PLACE_NO_SHARE);
	place_free(place);
}

/*
 * The refusal's text gives the free share of devices that lack nothing else. A refusal of an
 * exclusive tenant gives none.
 */
static void refusals_give_exact_numbers(void **state)
{
	struct place *place;
	struct place_device_info devices[3] = {{.memory_bytes = 16 * GIB},
		{.memory_bytes = 16 * GIB}, {.model = 1, .memory_bytes = 16 * GIB}};
	struct place_spec spec = share(900);
	char text[PLACE_WHY];
	struct place_why why;
	uint32_t node, tenant;
	uint64_t bit;

	assert_ok(
		place_new(&(struct place_config){.policy = &place_first_fit, .share_factor = 2000},
			&place, NULL));
	assert_ok(place_model(place, "T4", &bit, NULL));
	assert_ok(place_model(place, "A100", &bit, NULL));
	assert_ok(place_node_add(place,
		&(struct place_node_info){.name = "a", .n_devices = 3, .devices = devices}, &node,
		NULL));
	spec.models = 1;
	spec.device_bytes = GIB;
	for (int i = 0; i < 4; i++)
		assert_ok(put(place, &spec, &tenant));
	spec.share = 500;
	place_explain(place, &spec, &why);
	assert_int_equal(why.nodes[PLACE_NO_SHARE], 1);
	assert_int_equal(why.most_share, 200);
	assert_contains(place_why_format(&why, &spec, text), "(0.5 of 1 asked, 0.2 free at most)");
	assert_ok(place_remove(place, tenant));
	spec.share = 1000;
	spec.is_exclusive = true;
	place_explain(place, &spec, &why);
	assert_contains(place_why_format(&why, &spec, text),
		"1 has too little of its devices left (1 unused requested)");
	place_free(place);
}

static void memory_is_free(const struct place *place, uint64_t first, uint64_t second)
{
	struct place_device_view view;

	assert_true(place_device_get(place, 0, &view));
	assert_int_equal(view.memory_free, first);
	assert_true(place_device_get(place, 1, &view));
	assert_int_equal(view.memory_free, second);
}

/* Half of a device's memory is 20 GiB on a device of 40 GiB, and 8 GiB on one of 16 GiB. */
static void a_percentage_is_of_each_device(void **state)
{
	struct place_device_info devices[2] = {
		{.memory_bytes = 40 * GIB}, {.memory_bytes = 16 * GIB}};
	const uint64_t less[] = {19 * GIB, 7 * GIB}, more[] = {33 * GIB, 7 * GIB};
	const struct place_choice choice = {.n = 2, .device = {0, 1}};
	struct place_node_info info = {.name = "a", .n_devices = 2, .devices = devices};
	struct place *place = new_place(&place_first_fit);
	struct place_spec both = share(100), one = share(100);
	struct error err = {0};
	uint32_t node, tenant, again;
	uint64_t bit;

	assert_ok(place_model(place, "any", &bit, NULL));
	assert_ok(place_node_add(place, &info, &node, NULL));
	both.count = 2;
	both.device_permille = 500;
	assert_ok(put(place, &both, &tenant));
	memory_is_free(place, 20 * GIB, 8 * GIB);
	one.device = 1;
	one.device_bytes = 8 * GIB + 1;
	assert_int_equal(put(place, &one, &again), -ENOSPC);
	one.device_bytes = 8 * GIB;
	assert_ok(put(place, &one, &again));
	assert_int_equal(put(place, &both, &again), -ENOSPC);
	assert_ok(place_resize_each(place, tenant, 200, less, &err));
	memory_is_free(place, 21 * GIB, 1 * GIB);
	assert_ok(place_resize_each(place, tenant, 200, more, &err));
	devices[0].memory_bytes = 32 * GIB; /* less than its tenant uses, so nothing is free */
	assert_ok(place_node_update(place, node, &info, &err));
	memory_is_free(place, 0, 1 * GIB);
	assert_int_equal(
		place_resize_each(place, tenant, 200, (uint64_t[]){34 * GIB, 0}, &err), -ENOSPC);
	assert_ok(place_remove(place, tenant));
	memory_is_free(place, 32 * GIB, 8 * GIB);
	/*
	 * A restored tenant keeps the memory that it was given before, whatever its percentage is
	 * now.
	 */
	assert_ok(place_restore(place, &both, &choice, less, &tenant, &err));
	memory_is_free(place, 13 * GIB, 1 * GIB);
	place_free(place);
}

static void text_is(struct place *place, const struct place_spec *spec, const char *words)
{
	char text[PLACE_WHY];
	struct place_why why;

	place_explain(place, spec, &why);
	assert_contains(place_why_format(&why, spec, text), words);
}

/*
 * If devices have more free share than the tenant may use, the refusal's text says why the tenant
 * cannot use it.
 */
static void free_capacity_is_counted_over_all_devices(void **state)
{
	struct place_device_info devices[3] = {{.memory_bytes = 16 * GIB},
		{.memory_bytes = 16 * GIB}, {.model = 1, .memory_bytes = 16 * GIB}};
	struct place_node_info info = {.name = "a", .n_devices = 3, .devices = devices};
	struct place *place = new_place(&place_first_fit);
	struct place_spec most = share(900), large = share(100), half = share(500);
	uint32_t node, tenant;
	uint64_t bit;

	assert_ok(place_model(place, "T4", &bit, NULL));
	assert_ok(place_model(place, "A100", &bit, NULL));
	assert_ok(place_node_add(place, &info, &node, NULL));
	most.device_bytes = half.device_bytes = GIB;
	half.models = 1; /* T4; the idle device is an A100 */
	assert_ok(put(place, &most, &tenant));
	/*
	 * One device has enough free share. For a request of two devices, the smaller free share
	 * counts.
	 */
	half.count = 2;
	text_is(place, &half, "(0.5 of 2 asked, 0.1 free on each of 2 at most)");
	/* The other device now has 0.9 of its share free, but no memory. */
	large.device = 1;
	large.device_bytes = 16 * GIB;
	assert_ok(put(place, &large, &tenant));
	half.count = 1;
	text_is(place, &half,
		"(0.5 of 1 asked, 0.1 free at most, more only with devices that have too little "
		"memory)");
	/*
	 * The node has no two devices with enough share and memory: each such pair includes the
	 * device without memory, or later the closed device.
	 */
	devices[2].model = 0;
	assert_ok(place_node_update(place, node, &info, NULL));
	half.count = 2;
	text_is(place, &half,
		"(0.5 of 2 asked, 0.1 free on each of 2 at most, more only with devices that have "
		"too little memory)");
	devices[2].is_closed = true;
	assert_ok(place_node_update(place, node, &info, NULL));
	half.count = 1;
	text_is(place, &half,
		"(0.5 of 1 asked, 0.1 free at most, more only with devices that it may not have)");
	place_free(place);
}

static void each_device_gives_its_reason(void **state)
{
	struct place *place = new_place(&place_first_fit);
	struct place_spec spec = share(700);
	uint32_t a;

	add_node(place, "a", "T4", 2);
	add_node(place, "b", "H100", 1);
	assert_ok(put(place, &spec, &a));
	assert_int_equal(place_device_reason(place, &spec, 1), PLACE_FITS);
	assert_int_equal(place_device_reason(place, &spec, 0), PLACE_NO_SHARE);
	spec.share = 100;
	spec.device_bytes = 10 * GIB;
	assert_int_equal(place_device_reason(place, &spec, 0), PLACE_NO_DEVICE_MEMORY);
	spec.models = 1;
	assert_int_equal(place_device_reason(place, &spec, 2), PLACE_OTHER_MODEL);
	spec.cpu_milli = 9000;
	assert_int_equal(place_device_reason(place, &spec, 1), PLACE_NO_CPU);
	spec = share(1000);
	spec.is_exclusive = true;
	assert_int_equal(place_device_reason(place, &spec, 0), PLACE_NO_SHARE);
	assert_int_equal(place_device_reason(place, &spec, 1), PLACE_FITS);
	place_free(place);
}

static void choices_give_the_reason(void **state)
{
	struct place *place = new_place(&place_first_fit);
	struct place_spec spec = share(300);
	struct place_choice choice;
	char text[PLACE_WHY];
	uint32_t a;

	add_node(place, "a", "T4", 1);
	add_node(place, "b", "T4", 1);
	assert_ok(put(place, &spec, &a));
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_string_equal(place_choice_format(place, &spec, &choice, text),
		"node a, a-gpu0 (0.7 of it free, 0.4 when it has come): best of 2 nodes with room "
		"by first-fit");
	place_free(place);
}

static void bad_input_changes_nothing(void **state)
{
	struct place *place = new_place(&place_first_fit);
	struct place_spec spec = share(500);
	struct place_choice choice = {.node = 0, .n = 1};
	struct error err;
	uint32_t node, tenant;

	add_node(place, "a", "T4", 2);
	assert_int_equal(place_node_add(place, &(struct place_node_info){.name = "a"}, &node, &err),
		-EEXIST);
	assert_contains(err.msg, "node a");
	assert_int_equal(
		place_node_add(place, &(struct place_node_info){.name = ""}, &node, &err), -EINVAL);
	assert_int_equal(
		place_node_add(place, &(struct place_node_info){.name = "b", .n_devices = 65},
			&node, &err),
		-EINVAL);
	assert_contains(err.msg, "65 devices");
	spec.share = 1001;
	assert_int_equal(place_add(place, &spec, &choice, &tenant, &err), -EINVAL);
	assert_contains(err.msg, "share 1001");
	spec.share = 500;
	choice.device[0] = 7;
	assert_int_equal(place_add(place, &spec, &choice, &tenant, &err), -EINVAL);
	choice.device[0] = 1;
	assert_ok(place_add(place, &spec, &choice, &tenant, &err));
	assert_int_equal(
		place_add(place, &spec, &(struct place_choice){.node = 9, .n = 1}, &tenant, &err),
		-EINVAL);
	assert_int_equal(place_node_remove(place, 0, &err), -EBUSY);
	assert_contains(err.msg, "1 tenants");
	/* A device with a tenant must not change its UUID. */
	assert_int_equal(place_node_update(place, 0,
				 &(struct place_node_info){.name = "a",
					 .n_devices = 2,
					 .devices = (struct place_device_info[]){{.uuid = "x"},
						 {.uuid = "y"}}},
				 &err),
		-EBUSY);
	assert_int_equal(place_n_tenants(place), 1);
	assert_int_equal(
		place_new(&(struct place_config){.policy = &place_fgd, .share_factor = 900}, &place,
			&err),
		-EINVAL);
	assert_contains(err.msg, "900");
	place_free(place);
}

static void a_node_with_less_keeps_its_tenants(void **state)
{
	struct place *place = new_place(&place_first_fit);
	struct place_device_info device = {.memory_bytes = 16 * GIB};
	struct place_node_info info = {
		.name = "a", .cpu_milli = 1000, .n_devices = 1, .devices = &device};
	struct place_spec spec = share(100);
	struct place_node_view view;
	uint32_t a, b;

	add_node(place, "a", "T4", 1);
	spec.cpu_milli = 4000;
	assert_ok(put(place, &spec, &a));
	assert_ok(place_node_update(place, 0, &info, NULL));
	assert_true(place_node_get(place, 0, &view));
	assert_int_equal(view.cpu_free, 0);
	assert_int_equal(put(place, &spec, &b), -ENOSPC);
	assert_ok(place_remove(place, a));
	assert_true(place_node_get(place, 0, &view));
	assert_int_equal(view.cpu_free, 1000);
	device.is_closed = true;
	assert_ok(place_node_update(place, 0, &info, NULL));
	spec.cpu_milli = 0;
	assert_int_equal(put(place, &spec, &b), -ENOSPC);
	place_free(place);
}

static void a_device_keeps_its_uuid(void **state)
{
	struct place *place = new_place(&place_first_fit);
	struct place_device_info devices[2] = {{.uuid = "GPU-abc"}, {.uuid = ""}};
	struct place_node_info info = {.name = "a", .n_devices = 2, .devices = devices};
	struct place_spec spec = share(100);
	struct place_device_view view;
	struct error err;
	uint32_t node, tenant;
	uint64_t bit;

	assert_ok(place_model(place, "T4", &bit, NULL));
	assert_ok(place_model(place, "A10", &bit, NULL));
	assert_ok(place_node_add(place, &info, &node, NULL));
	assert_ok(put(place, &spec, &tenant));
	devices[0].uuid[0] = '\0';
	assert_ok(place_node_update(place, node, &info, NULL));
	assert_true(place_device_get(place, 0, &view));
	assert_string_equal(view.uuid, "GPU-abc");
	assert_true(place_device_get(place, 1, &view));
	assert_string_equal(view.uuid, "a-gpu1");
	/* Two devices of a node cannot have the same UUID. */
	snprintf(devices[1].uuid, sizeof(devices[1].uuid), "GPU-abc");
	assert_int_equal(place_node_update(place, node, &info, &err), -EINVAL);
	assert_contains(err.msg, "devices 0 and 1 are both GPU-abc");
	info.name = "b";
	devices[0] = devices[1];
	assert_int_equal(place_node_add(place, &info, &node, &err), -EINVAL);
	assert_int_equal(place_n_nodes(place), 1);
	/* A device whose model changes loses its UUID. */
	info.name = "a";
	devices[0].uuid[0] = devices[1].uuid[0] = '\0';
	devices[1].model = 1;
	snprintf(devices[0].uuid, sizeof(devices[0].uuid), "GPU-abc");
	assert_ok(place_node_update(place, 0, &info, NULL));
	assert_true(place_device_get(place, 1, &view));
	assert_string_equal(view.uuid, "a-gpu1");
	memset(devices[1].uuid, 'x', sizeof(devices[1].uuid));
	assert_int_equal(place_node_update(place, 0, &info, &err), -EINVAL);
	assert_contains(err.msg, "up to 63 characters");
	place_free(place);
}

/*
 * Over time more models are added and forgotten than may exist at once. A model in use cannot be
 * forgotten.
 */
static void models_can_be_forgotten(void **state)
{
	struct place *place = new_place(place_policy_find("default"));
	const struct place_queue_model of = {.model = "queued", .quota = 1000, .limit = 2000};
	const struct place_queue_info queue = {.name = "q",
		.weight = 1,
		.quota = 1000,
		.limit = 2000,
		.models = &of,
		.n_models = 1};
	struct place_device_info device = {.memory_bytes = GIB};
	struct place_node_info info = {.name = "a", .n_devices = 1, .devices = &device};
	struct place_spec spec = share(100);
	struct place_choice choice;
	uint32_t node, tenant, mark;
	uint64_t t4, other, bit;
	struct error err;
	char name[16];

	assert_ok(place_model(place, "T4", &t4, NULL));
	assert_ok(place_model(place, "A100", &other, NULL));
	assert_ok(place_node_add(place, &info, &node, NULL));
	for (uint32_t i = 0; i < 3 * PLACE_MODELS_MAX; i++) {
		snprintf(name, sizeof(name), "model%u", i);
		assert_ok(place_model(place, name, &bit, &err));
		/*
		 * The workload mix has tenants that request the model until the model is forgotten.
		 */
		spec.models = i % 2 ? bit : bit | t4;
		place_note_arrival(place, &spec);
		assert_int_equal(place_find(place, &spec, &choice, NULL), i % 2 ? -ENOSPC : 0);
		assert_ok(place_model_forget(place, bit, &err));
		assert_int_equal(place_model_forget(place, bit, &err), -EINVAL);
	}
	assert_int_equal(place_model_forget(place, 0, &err), -EINVAL);
	assert_int_equal(place_model_forget(place, t4 | other, &err), -EINVAL);
	assert_int_equal(place_model_forget(place, t4, &err), -EBUSY);
	assert_contains(err.msg, "model T4: node a has it");
	spec.models = t4 | other;
	assert_ok(put(place, &spec, &tenant));
	assert_int_equal(place_model_forget(place, other, &err), -EBUSY);
	assert_contains(err.msg, "model A100: tenant 0 asks for it");
	mark = place_savepoint(place);
	assert_ok(place_remove(place, tenant));
	assert_int_equal(place_model_forget(place, other, &err), -EBUSY);
	assert_contains(err.msg, "in progress");
	place_rollback(place, mark);
	place_release(place);
	assert_ok(place_remove(place, tenant));
	assert_ok(place_model_forget(place, other, &err));
	assert_string_equal(place_model_name(place, (uint32_t)__builtin_ctzll(other)), "");
	/* A model that an accepted queue names cannot be forgotten. Refused queues add no model. */
	assert_ok(place_queue_set(place, &queue, 1, NULL, &err));
	assert_ok(place_model(place, "queued", &bit, NULL));
	assert_int_equal(bit, other);
	assert_int_equal(place_model_forget(place, bit, &err), -EBUSY);
	assert_contains(err.msg, "model queued: a queue has a quota or limit of it");
	assert_ok(place_queue_set(place, NULL, 0, NULL, &err));
	assert_ok(place_model_forget(place, bit, &err));
	assert_int_equal(
		place_queue_set(place, (struct place_queue_info[]){queue, queue}, 2, NULL, &err),
		-EINVAL);
	assert_string_equal(place_model_name(place, (uint32_t)__builtin_ctzll(other)), "");
	place_free(place);
}

/* Over time more labels and taints are added and forgotten than may exist at once. */
static void names_can_be_forgotten(void **state)
{
	struct place *place = new_place(&place_first_fit);
	struct place_device_info device = {.memory_bytes = GIB};
	struct place_node_info info = {.name = "a", .n_devices = 1, .devices = &device};
	struct place_spec spec = share(100);
	uint32_t node, tenant, zone, id, mark;
	uint64_t bit, spot;
	struct error err;
	char name[16];

	assert_ok(place_model(place, "T4", &bit, NULL));
	zone = label(place, "zone");
	assert_ok(place_taint(place, "spot", &spot, NULL));
	info.labels = &zone;
	info.n_labels = 1;
	info.taints = spot;
	assert_ok(place_node_add(place, &info, &node, NULL));
	for (uint32_t i = 0; i < PLACE_LABELS_MAX + 10; i++) {
		snprintf(name, sizeof(name), "job%u", i);
		id = label(place, name);
		assert_string_equal(place_label_name(place, id), name);
		assert_ok(place_label_forget(place, id, &err));
		assert_string_equal(place_label_name(place, id), "");
	}
	assert_int_equal(place_label_forget(place, id, &err), -EINVAL);
	for (uint32_t i = 0; i < PLACE_TAINTS_MAX + 10; i++) {
		snprintf(name, sizeof(name), "taint%u", i);
		assert_ok(place_taint(place, name, &bit, &err));
		assert_ok(place_taint_forget(place, bit, &err));
	}
	assert_int_equal(place_taint_forget(place, bit, &err), -EINVAL);
	assert_int_equal(place_taint_forget(place, 0, &err), -EINVAL);
	assert_int_equal(place_taint_forget(place, spot, &err), -EBUSY);
	assert_contains(err.msg, "taint spot: 1 tenants and nodes have it");
	assert_int_equal(place_label_forget(place, zone, &err), -EBUSY);
	spec.near = zone;
	spec.budget = label(place, "budget");
	spec.tolerations = spot;
	assert_ok(put(place, &spec, &tenant));
	info.n_labels = 0;
	info.taints = 0;
	assert_ok(place_node_update(place, node, &info, NULL));
	assert_int_equal(place_label_forget(place, zone, &err), -EBUSY);
	assert_int_equal(place_taint_forget(place, spot, &err), -EBUSY);
	mark = place_savepoint(place);
	assert_ok(place_remove(place, tenant));
	assert_int_equal(place_label_forget(place, zone, &err), -EBUSY);
	assert_contains(err.msg, "in progress");
	place_rollback(place, mark);
	place_release(place);
	assert_int_equal(place_label_forget(place, spec.budget, &err), -EBUSY);
	assert_ok(place_remove(place, tenant));
	assert_ok(place_label_forget(place, zone, &err));
	assert_ok(place_label_forget(place, spec.budget, &err));
	assert_ok(place_taint_forget(place, spot, &err));
	assert_int_equal(put(place, &spec, &tenant), -EINVAL);
	place_free(place);
}

static void a_resize_obeys_the_rules_of_a_spec(void **state)
{
	struct place *place = new_place(&place_first_fit);
	struct place_spec spec = share(500);
	uint32_t tenant;

	add_node(place, "a", "T4", 1);
	assert_ok(put(place, &spec, &tenant));
	assert_int_equal(place_tenant(place, tenant)->bytes[0], 8 * GIB);
	assert_ok(place_resize(place, tenant, 250, 0, NULL));
	assert_int_equal(place_tenant(place, tenant)->bytes[0], 4 * GIB);
	assert_ok(place_resize(place, tenant, 250, 15 * GIB, NULL));
	assert_ok(place_resize(place, tenant, 1000, 0, NULL));
	assert_int_equal(place_tenant(place, tenant)->bytes[0], 16 * GIB);
	place_free(place);
}

static void an_empty_model_fits_nothing(void **state)
{
	struct place *place = new_place(&place_first_fit);
	struct place_spec spec = share(500);
	struct place_node_view node;
	struct place_device_view device;
	struct place_choice choice;

	assert_false(place_node_get(place, 0, &node));
	assert_false(place_device_get(place, 0, &device));
	assert_int_equal(place_find(place, &spec, &choice, NULL), -ENOSPC);
	place_free(place);
}

/* More kinds of tenants arrive than the workload mix can count, each more than once. */
static void any_number_of_node_kinds_is_possible(void **state)
{
	struct place *place = new_place(&place_scarcity);
	struct place_choice choice;
	struct place_spec spec = share(500);

	add_node(place, "a", "T4", 1);
	for (uint32_t round = 0; round < 3; round++)
		for (uint32_t i = 0; i < 4096; i++) {
			spec.cpu_milli = i;
			place_note_arrival(place, &spec);
		}
	for (uint32_t i = 4096; i < 20000; i++) {
		spec.cpu_milli = i;
		place_note_arrival(place, &spec);
	}
	spec.cpu_milli = 0;
	assert_ok(place_find(place, &spec, &choice, NULL));
	place_fragmentation(place);
	place_free(place);
}

/* Holds for every policy. An invalid spec does not count as an arrival. */
static void nodes_without_devices_are_possible(void **state)
{
	for (size_t i = 0; place_policies[i]; i++) {
		struct place *place = new_place(place_policies[i]);
		struct place_spec none = share(0), one = share(500), bad = share(5000);
		uint32_t tenant;

		add_node(place, "a", "T4", 0);
		none.count = 0;
		none.cpu_milli = 1000;
		place_note_arrival(place, &PLACE_SPEC_INIT);
		place_note_arrival(place, &bad);
		place_note_arrival(place, &none);
		place_note_arrival(place, &one);
		assert_ok(put(place, &none, &tenant));
		assert_int_equal(put(place, &one, &tenant), -ENOSPC);
		place_set_workload_mix(place, (struct place_spec[]){bad, PLACE_SPEC_INIT, one}, 3);
		assert_ok(put(place, &none, &tenant));
		add_node(place, "b", "T4", 1);
		assert_ok(put(place, &one, &tenant));
		place_fragmentation(place);
		place_free(place);
	}
}

/* ---- random steps, compared with a second count ---- */

#define WALK_NODES 24u
#define WALK_TENANTS 512u
#define WALK_STEPS 300000u

struct walk {
	struct place *place;
	struct rand rand;
	uint32_t tenant[WALK_TENANTS];
	struct place_tenant model[WALK_TENANTS];
	uint32_t n;
	uint32_t label[3][4];
};

static bool is_with(const struct place_tenant *t, uint32_t device)
{
	for (uint32_t k = 0; k < t->n; k++)
		if (t->device[k] == device)
			return true;
	return false;
}

static uint64_t bytes_on(const struct place_tenant *t, uint32_t device)
{
	for (uint32_t k = 0; k < t->n; k++)
		if (t->device[k] == device)
			return t->bytes[k];
	return 0;
}

/* Counts every figure of a device anew, and checks that no label rule is broken. */
static void compare_device(const struct walk *w, uint32_t at)
{
	uint32_t taken = 0, n = 0, first = WALK_TENANTS;
	uint64_t memory = 0;
	struct place_device_view view;

	assert_true(place_device_get(w->place, at, &view));
	for (uint32_t i = 0; i < w->n; i++) {
		const struct place_tenant *t = &w->model[i];

		if (!is_with(t, at))
			continue;
		taken += t->spec.share;
		memory += bytes_on(t, at);
		n++;
		if (first == WALK_TENANTS)
			first = i;
		assert_int_equal(t->spec.exclusion, w->model[first].spec.exclusion);
		assert_true(!t->spec.is_exclusive || n == 1);
		for (uint32_t j = 0; t->spec.anti_affinity && j < i; j++)
			assert_false(is_with(&w->model[j], at) &&
				w->model[j].spec.anti_affinity == t->spec.anti_affinity);
	}
	assert_true(taken <= view.share_all && memory <= view.memory_all);
	assert_int_equal(view.share_free, view.share_all - taken);
	assert_int_equal(view.memory_free, view.memory_all - memory);
	assert_int_equal(view.n_tenants, n);
}

static void compare_node(const struct walk *w, uint32_t at)
{
	struct place_node_view view;
	uint64_t memory = 0, cpu = 0;
	uint32_t n = 0;

	assert_true(place_node_get(w->place, at, &view));
	for (uint32_t i = 0; i < w->n; i++) {
		if (w->model[i].node != at)
			continue;
		cpu += w->model[i].spec.cpu_milli;
		memory += w->model[i].spec.memory_bytes;
		n++;
	}
	assert_int_equal(view.cpu_free, view.cpu_all - cpu);
	assert_int_equal(view.memory_free, view.memory_all - memory);
	assert_int_equal(view.n_tenants, n);
	for (uint32_t d = 0; d < view.n_devices; d++)
		compare_device(w, view.first_device + d);
}

static void compare(const struct walk *w)
{
	assert_int_equal(place_n_tenants(w->place), w->n);
	for (uint32_t at = 0; at < WALK_NODES; at++)
		compare_node(w, at);
}

static struct place_spec walk_spec(struct walk *w)
{
	struct place_spec s = share(1 + (uint32_t)rand_below(&w->rand, 1000));

	s.count = (uint32_t)rand_below(&w->rand, 5);
	if (!s.count)
		s.share = 0;
	if (s.count && rand_below(&w->rand, 4) == 0) {
		s.share = 1000;
		s.is_exclusive = rand_below(&w->rand, 2);
	}
	s.cpu_milli = (uint32_t)rand_below(&w->rand, 2000);
	s.memory_bytes = rand_below(&w->rand, 8) * GIB;
	if (rand_below(&w->rand, 2))
		s.device_bytes = rand_below(&w->rand, 8) * GIB + 1;
	if (rand_below(&w->rand, 3) == 0)
		s.models = 1 + rand_below(&w->rand, 3);
	if (rand_below(&w->rand, 6) == 0)
		s.affinity = w->label[0][rand_below(&w->rand, 4)];
	if (rand_below(&w->rand, 6) == 0)
		s.anti_affinity = w->label[1][rand_below(&w->rand, 4)];
	if (rand_below(&w->rand, 6) == 0)
		s.exclusion = w->label[2][rand_below(&w->rand, 4)];
	return s;
}

static void walk_add(struct walk *w)
{
	struct place_spec spec = walk_spec(w);
	uint32_t tenant;
	int r;

	if (w->n == WALK_TENANTS)
		return;
	place_note_arrival(w->place, &spec);
	r = put(w->place, &spec, &tenant);
	if (r == -ENOSPC) {
		/* place_find() refuses only a spec that fits no node. */
		for (uint32_t at = 0; at < WALK_NODES; at++)
			assert_int_not_equal(place_reason_of(w->place, &spec, at), PLACE_FITS);
		return;
	}
	assert_ok(r);
	w->model[w->n] = *place_tenant(w->place, tenant);
	w->tenant[w->n++] = tenant;
}

static void walk_remove(struct walk *w)
{
	uint32_t at = (uint32_t)rand_below(&w->rand, w->n);

	if (!w->n)
		return;
	assert_ok(place_remove(w->place, w->tenant[at]));
	w->tenant[at] = w->tenant[--w->n];
	w->model[at] = w->model[w->n];
}

static void walk_resize(struct walk *w)
{
	uint32_t at = (uint32_t)rand_below(&w->rand, w->n), to;
	struct place_tenant *t = &w->model[at];
	struct place_spec *s = &t->spec;
	uint64_t bytes;

	if (!w->n || !s->count || s->is_exclusive)
		return;
	to = 1 + (uint32_t)rand_below(&w->rand, 1000);
	bytes = rand_below(&w->rand, 8) * GIB;
	if (place_resize(w->place, w->tenant[at], to, bytes, NULL) < 0)
		return;
	s->share = to;
	for (uint32_t k = 0; k < t->n; k++)
		t->bytes[k] = bytes ? bytes : 16 * GIB / 1000 * to + 16 * GIB % 1000 * to / 1000;
}

static void walk_step(struct walk *w)
{
	switch (rand_below(&w->rand, 8)) {
	case 0:
	case 1:
	case 2: walk_remove(w); break;
	case 3: walk_resize(w); break;
	default: walk_add(w);
	}
}

static void walk(const struct place_policy *policy, uint64_t seed, uint32_t steps)
{
	static const char *const models[] = {"T4", "A10", "H100"};
	struct walk w = {.place = new_place(policy), .rand = rand_seeded(seed)}, before;
	char name[16];

	for (uint32_t i = 0; i < WALK_NODES; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		add_node(w.place, name, models[i % 3], i % 9);
	}
	for (uint32_t i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "l%u", i);
		w.label[i / 4][i % 4] = label(w.place, name);
	}
	for (uint32_t i = 0; i < steps; i++) {
		walk_step(&w);
		if (i % 64 == 0)
			compare(&w);
		if (i % 1000)
			continue;
		/*
		 * Do some steps under a savepoint and roll them back: everything must be as before.
		 */
		before = w;
		place_savepoint(w.place);
		for (uint32_t k = rand_below(&w.rand, 20) & 31; k; k--)
			walk_step(&w);
		compare(&w);
		place_rollback(w.place, 0);
		place_release(w.place);
		before.rand = w.rand;
		w = before;
		compare(&w);
	}
	place_free(w.place);
}

static void every_figure_is_exact(void **state)
{
	for (size_t i = 0; place_policies[i]; i++)
		walk(place_policies[i], i + 1, WALK_STEPS / 8);
}

UNIT_MAIN(UNIT(shares_add_up_to_a_device), UNIT(tenants_of_an_affinity_label_share_a_device),
	UNIT(anti_affinity_keeps_tenants_on_different_devices),
	UNIT(tenants_without_exclusion_label_share_with_each_other),
	UNIT(labels_without_namespace_or_name_are_their_own), UNIT(memory_counts_on_each_device),
	UNIT(whole_devices_are_near_each_other), UNIT(instances_are_devices),
	UNIT(refusals_give_the_reason), UNIT(a_refusal_names_the_missing_model),
	UNIT(each_device_gives_its_reason), UNIT(refusals_give_exact_numbers),
	UNIT(free_capacity_is_counted_over_all_devices), UNIT(a_percentage_is_of_each_device),
	UNIT(choices_give_the_reason), UNIT(bad_input_changes_nothing),
	UNIT(a_node_with_less_keeps_its_tenants), UNIT(a_device_keeps_its_uuid),
	UNIT(names_can_be_forgotten), UNIT(models_can_be_forgotten),
	UNIT(a_resize_obeys_the_rules_of_a_spec), UNIT(an_empty_model_fits_nothing),
	UNIT(any_number_of_node_kinds_is_possible), UNIT(nodes_without_devices_are_possible),
	UNIT(every_figure_is_exact))
