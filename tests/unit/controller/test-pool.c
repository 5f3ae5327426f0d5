/* SPDX-License-Identifier: Apache-2.0 */
/* Tests when whole devices are taken from another device plugin and given back, in virtual time. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "controller/pool.h"

#define SEC NSEC_PER_SEC

struct world {
	struct vgpu_pool *pool;
	struct pool_facts facts;
	struct pool_node node[2];
	struct pool_placeholder placeholder[16];
	struct pool_source source[32];
	struct pool_plan plan;
};

static struct world *new_world(enum pool_policy policy, uint32_t reserve)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	assert_ok(vgpu_pool_new(&w->pool));
	w->node[0] = (struct pool_node){"a", policy, reserve};
	w->facts = (struct pool_facts){.node = w->node,
		.n_nodes = 1,
		.placeholder = w->placeholder,
		.source = w->source,
		.now_ns = 1000 * SEC};
	return w;
}

static void free_world(struct world *w)
{
	vgpu_pool_free(w->pool);
	free(w);
}

static void hold(struct world *w, const char *name, bool is_used)
{
	w->placeholder[w->facts.n_placeholders++] = (struct pool_placeholder){
		.name = name, .node = "a", .is_bound = true, .is_used = is_used};
}

static void wait_for(struct world *w, const char *uid, uint64_t milli)
{
	w->source[w->facts.n_sources++] = (struct pool_source){uid, milli};
}

static const struct pool_plan *after(struct world *w, uint64_t ns)
{
	w->facts.now_ns += ns;
	assert_ok(vgpu_pool_decide(w->pool, &w->facts, &w->plan));
	return &w->plan;
}

static void devices_are_taken_for_waiting_pods(void **state)
{
	struct world *w = new_world(POOL_ON_DEMAND, 0);

	assert_int_equal(after(w, 0)->n_make, 0);
	wait_for(w, "one", 300);
	wait_for(w, "two", 300);
	wait_for(w, "three", 600);
	assert_int_equal(after(w, 0)->n_make, 2);
	assert_string_equal(w->plan.make[0], "");
	assert_int_equal(w->plan.again_ns, w->facts.now_ns + POOL_RETRY_NS);
	/* The two placeholders exist and wait for nodes. */
	w->placeholder[0] = (struct pool_placeholder){.name = "p1", .node = ""};
	w->placeholder[1] = (struct pool_placeholder){.name = "p2", .node = ""};
	w->facts.n_placeholders = 2;
	assert_int_equal(after(w, SEC)->n_make, 0);
	assert_int_equal(w->plan.n_give_back, 0);
	/* A further pod fits on the devices that will come. */
	wait_for(w, "four", 500);
	assert_int_equal(after(w, SEC)->n_make, 0);
	free_world(w);
}

/* The second pod comes while the device of the first one is still starting. */
static void a_device_on_its_way_serves_one_pod_only(void **state)
{
	struct world *w = new_world(POOL_ON_DEMAND, 0);

	wait_for(w, "one", 600);
	assert_int_equal(after(w, 0)->n_make, 1);
	hold(w, "p1", false);
	wait_for(w, "two", 600);
	assert_int_equal(after(w, 1)->n_make, 1);
	/* The first pod uses its device, so the unused device is for the second pod. */
	w->placeholder[0].is_used = true;
	hold(w, "p2", false);
	w->source[0] = w->source[1];
	w->facts.n_sources = 1;
	assert_int_equal(after(w, 1)->n_make, 0);
	free_world(w);
}

#define SHARE 300u
#define PER_DEVICE 3u

/*
 * Devices come one by one, and each Binding of a pod is a separate decision. Returns how many
 * placeholders were made for n_pods pods.
 */
static size_t placeholders_for(struct world *w, size_t n_pods, size_t n_devices)
{
	static char uid[32][24], name[16][24];
	size_t n_bound = 0, n_made = 0;

	for (size_t i = 0; i < n_pods; i++) {
		snprintf(uid[i], sizeof(uid[i]), "u%zu", i);
		wait_for(w, uid[i], SHARE);
	}
	for (;;) {
		n_made += after(w, 50 * NSEC_PER_MSEC)->n_make;
		for (; w->facts.n_placeholders < n_made; w->facts.n_placeholders++) {
			const size_t i = w->facts.n_placeholders;

			snprintf(name[i], sizeof(name[i]), "p%zu", i);
			w->placeholder[i] = (struct pool_placeholder){.name = name[i], .node = ""};
		}
		if (n_bound == n_devices * PER_DEVICE || !w->facts.n_sources)
			return n_made;
		w->placeholder[n_bound / PER_DEVICE] = (struct pool_placeholder){
			.name = name[n_bound / PER_DEVICE],
			.node = "a",
			.is_bound = true,
			.is_used = true,
			.free_milli = DEVICE_MILLI - SHARE * (uint32_t)(n_bound % PER_DEVICE + 1)};
		n_bound++;
		w->facts.n_sources--;
		memmove(w->source, w->source + 1, w->facts.n_sources * sizeof(*w->source));
	}
}

static void no_placeholder_is_added_while_pods_start(void **state)
{
	static const struct {
		size_t n_pods, n_devices, n_placeholders;
	} cases[] = {{15, 5, 5}, {15, 3, 5}, {30, 10, 10}, {30, 8, 10}, {4, 4, 2}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct world *w = new_world(POOL_ON_DEMAND, 0);

		assert_int_equal(placeholders_for(w, cases[i].n_pods, cases[i].n_devices),
			cases[i].n_placeholders);
		free_world(w);
	}
}

/*
 * For example, the waiting pod needs more memory than the idle device has. The pool then requests
 * another device for the pod.
 */
static void a_device_that_does_not_help_is_not_counted(void **state)
{
	struct world *w = new_world(POOL_ON_DEMAND, 0);

	wait_for(w, "one", 300);
	assert_int_equal(after(w, 0)->n_make, 1);
	hold(w, "p1", false);
	wait_for(w, "two", 300);
	assert_int_equal(after(w, SEC)->n_make, 0);
	w->placeholder[0].is_used = true;
	w->placeholder[0].free_milli = 700;
	w->source[0] = w->source[1];
	w->facts.n_sources = 1;
	assert_int_equal(after(w, SEC)->n_make, 0);
	assert_int_equal(after(w, POOL_COMING_NS)->n_make, 0);
	assert_int_equal(after(w, POOL_RETRY_NS)->n_make, 1);
	free_world(w);
}

/*
 * A new controller finds a used device. Its first tenant may have come long ago, so no further pods
 * are expected there.
 */
static void a_new_controller_expects_no_pods(void **state)
{
	struct world *w = new_world(POOL_ON_DEMAND, 0);

	hold(w, "p1", true);
	w->placeholder[0].free_milli = 700;
	w->placeholder[0].age_ns = POOL_COMING_NS;
	wait_for(w, "one", 300);
	assert_int_equal(after(w, 0)->n_make, 1);
	free_world(w);
}

/* The idle device did not help the pods that waited before, but a new pod may fit there. */
static void a_device_taken_long_ago_serves_every_pod(void **state)
{
	struct world *w = new_world(POOL_ON_DEMAND, 0);

	wait_for(w, "picky", 600);
	assert_int_equal(after(w, 0)->n_make, 1);
	hold(w, "p1", false);
	assert_int_equal(after(w, POOL_COMING_NS)->n_make, 0);
	wait_for(w, "modest", 600);
	assert_int_equal(after(w, 1)->n_make, 0);
	free_world(w);
}

/*
 * The pod needs half of each of two devices, and one device did not help it. So the pod now counts
 * as a need of two devices.
 */
static void pods_that_stay_pending_take_devices_ever_more_slowly(void **state)
{
	struct world *w = new_world(POOL_ON_DEMAND, 0);

	wait_for(w, "pair", 1000);
	assert_int_equal(after(w, 0)->n_make, 1);
	hold(w, "p1", false);
	assert_int_equal(after(w, POOL_RETRY_NS - 1)->n_make, 0);
	assert_int_equal(after(w, 1)->n_make, 1);
	hold(w, "p2", false);
	assert_int_equal(after(w, POOL_RETRY_NS)->n_make, 0);
	assert_int_equal(after(w, POOL_RETRY_NS)->n_make, 1);
	free_world(w);
}

/* However long a pod waits, the pool makes only one placeholder for it at a time. */
static void a_pod_without_a_device_takes_one_at_a_time(void **state)
{
	struct world *w = new_world(POOL_ON_DEMAND, 0);

	wait_for(w, "one", 500);
	assert_int_equal(after(w, 0)->n_make, 1);
	w->placeholder[0] = (struct pool_placeholder){.name = "p1", .node = ""};
	w->facts.n_placeholders = 1;
	for (int i = 0; i < 100; i++)
		assert_int_equal(after(w, POOL_RETRY_NS)->n_make, 0);
	/* The placeholder was deleted without a device, so one placeholder is made again. */
	w->facts.n_placeholders = 0;
	assert_int_equal(after(w, POOL_RETRY_MAX_NS)->n_make, 1);
	/* The device came, and another pod uses it. */
	hold(w, "p2", true);
	assert_int_equal(after(w, POOL_RETRY_MAX_NS)->n_make, 1);
	/* The unused device does not help: the pod may take a second one. */
	hold(w, "p3", false);
	assert_int_equal(after(w, POOL_RETRY_MAX_NS)->n_make, 1);
	free_world(w);
}

static void a_device_that_helps_no_pod_is_given_back(void **state)
{
	struct world *w = new_world(POOL_ON_DEMAND, 0);

	wait_for(w, "picky", 500);
	assert_int_equal(after(w, 0)->n_make, 1);
	hold(w, "p1", false);
	after(w, 0);
	assert_int_equal(after(w, POOL_UNUSED_NS - 1)->n_give_back, 0);
	assert_int_equal(after(w, 1)->n_give_back, 1);
	assert_string_equal(w->plan.give_back[0], "p1");
	/* The placeholder found no free device. */
	w->placeholder[0] = (struct pool_placeholder){
		.name = "p2", .node = "", .age_ns = POOL_NO_ROOM_NS - 1};
	assert_int_equal(after(w, SEC)->n_give_back, 0);
	w->placeholder[0].age_ns++;
	assert_int_equal(after(w, SEC)->n_give_back, 1);
	free_world(w);
}

static void on_demand_gives_back_idle_devices(void **state)
{
	struct world *w = new_world(POOL_ON_DEMAND, 0);

	hold(w, "used", true);
	hold(w, "idle", false);
	assert_int_equal(after(w, 0)->n_give_back, 0);
	assert_int_equal(w->plan.again_ns, w->facts.now_ns + POOL_IDLE_NS);
	assert_int_equal(after(w, POOL_IDLE_NS)->n_give_back, 1);
	assert_string_equal(w->plan.give_back[0], "idle");
	/* After a short use the idle time begins anew. */
	w->placeholder[1].is_used = true;
	after(w, 0);
	w->placeholder[1].is_used = false;
	after(w, 0);
	assert_int_equal(after(w, POOL_IDLE_NS - 1)->n_give_back, 0);
	w->placeholder[1].is_leaving = true;
	assert_int_equal(after(w, POOL_IDLE_NS)->n_give_back, 0);
	free_world(w);
}

static void a_device_with_possible_tenants_is_kept(void **state)
{
	struct world *w = new_world(POOL_ON_DEMAND, 0);

	hold(w, "unknown", false);
	w->placeholder[0].is_unknown = true;
	after(w, 0);
	assert_int_equal(after(w, 2 * POOL_UNUSED_NS)->n_give_back, 0);
	/*
	 * Another program has deleted the placeholder, whose pod waits until it is released. The
	 * plan releases the pod once.
	 */
	w->placeholder[0].is_leaving = true;
	assert_int_equal(after(w, SEC)->n_release, 0);
	w->placeholder[0].is_unknown = false;
	w->placeholder[0].may_go = true;
	assert_int_equal(after(w, SEC)->n_release, 1);
	assert_string_equal(w->plan.release[0], "unknown");
	w->placeholder[0].is_released = true;
	assert_int_equal(after(w, SEC)->n_release, 0);
	free_world(w);
}

static void a_cordoned_device_does_not_count_as_coming(void **state)
{
	struct world *w = new_world(POOL_ON_DEMAND, 0);

	hold(w, "cordoned", false);
	w->placeholder[0].is_useless = true;
	wait_for(w, "pod", 500);
	assert_int_equal(after(w, 0)->n_make, 1);
	free_world(w);
}

static void a_reservation_is_kept(void **state)
{
	struct world *w = new_world(POOL_RESERVATION, 2);

	assert_int_equal(after(w, 0)->n_make, 2);
	assert_string_equal(w->plan.make[1], "a");
	w->placeholder[0] = (struct pool_placeholder){
		.name = "p0", .node = "a", .age_ns = 10 * POOL_NO_ROOM_NS};
	w->facts.n_placeholders = 1;
	assert_int_equal(after(w, SEC)->n_make, 1);
	/*
	 * The policy "reservation" does not limit the time for which a placeholder waits for a
	 * device.
	 */
	assert_int_equal(w->plan.n_give_back, 0);
	w->facts.n_placeholders = 0;
	hold(w, "p1", true);
	hold(w, "p2", false);
	hold(w, "p3", false);
	after(w, 0);
	assert_int_equal(after(w, POOL_IDLE_NS)->n_give_back, 1);
	assert_int_equal(w->plan.n_make, 0);
	/* The node's reserve, the number of devices that divvy always holds there, falls to 0. */
	w->node[0].reserve = 0;
	assert_int_equal(after(w, SEC)->n_give_back, 2);
	free_world(w);
}

static void hybrid_keeps_some_idle_devices(void **state)
{
	struct world *w = new_world(POOL_HYBRID, 1);

	assert_int_equal(after(w, 0)->n_make, 0);
	hold(w, "first", false);
	after(w, 0);
	hold(w, "second", false);
	hold(w, "used", true);
	assert_int_equal(after(w, SEC)->n_give_back, 0);
	assert_int_equal(after(w, POOL_IDLE_NS)->n_give_back, 1);
	assert_string_equal(w->plan.give_back[0], "first"); /* the longest idle time */
	free_world(w);
}

static void fail_placeholder(struct world *w, uint64_t age_ns)
{
	w->placeholder[w->facts.n_placeholders++] = (struct pool_placeholder){.name = "failed",
		.node = "a",
		.is_bound = true,
		.has_ended = true,
		.age_ns = age_ns};
}

static void a_failed_placeholder_is_replaced(void **state)
{
	struct world *w = new_world(POOL_RESERVATION, 1);

	fail_placeholder(w, 3600 * SEC);
	assert_int_equal(after(w, 0)->n_give_back, 1);
	assert_string_equal(w->plan.give_back[0], "failed");
	assert_int_equal(w->plan.n_make, 0);
	w->facts.n_placeholders = 0;
	assert_int_equal(after(w, 0)->n_make, 1);
	/* The kubelet rejects the next placeholder too. */
	fail_placeholder(w, SEC);
	assert_int_equal(after(w, SEC)->n_give_back, 0);
	assert_int_equal(w->plan.n_make, 0);
	assert_int_equal(w->plan.again_ns, w->facts.now_ns + POOL_FAILED_NS - SEC);
	w->placeholder[0].age_ns = POOL_FAILED_NS;
	assert_int_equal(after(w, POOL_FAILED_NS - SEC)->n_give_back, 1);
	free_world(w);
}

/*
 * The pod counts as demand again only POOL_RETRY_NS after its placeholder was made. The pause is
 * the same if a device came but the pod could not use it.
 */
static void a_failed_placeholder_takes_the_place_of_its_successor(void **state)
{
	struct world *w = new_world(POOL_ON_DEMAND, 0);

	wait_for(w, "one", 500);
	assert_int_equal(after(w, 0)->n_make, 1);
	fail_placeholder(w, SEC);
	assert_int_equal(after(w, SEC)->n_make, 0);
	assert_int_equal(w->plan.n_give_back, 0);
	w->placeholder[0].age_ns = POOL_FAILED_NS;
	assert_int_equal(after(w, POOL_FAILED_NS - SEC)->n_give_back, 1);
	w->facts.n_placeholders = 0;
	assert_int_equal(after(w, 0)->n_make, 0);
	assert_int_equal(after(w, POOL_RETRY_NS - POOL_FAILED_NS)->n_make, 1);
	free_world(w);
}

static void an_idle_device_is_not_given_back_for_a_failed_placeholder(void **state)
{
	struct world *w = new_world(POOL_HYBRID, 1);

	hold(w, "idle", false);
	assert_int_equal(after(w, 0)->n_give_back, 0);
	fail_placeholder(w, 0);
	w->placeholder[1].age_ns = POOL_FAILED_NS - 1;
	assert_int_equal(after(w, 2 * POOL_IDLE_NS)->n_give_back, 0);
	free_world(w);
}

static void a_node_that_leaves_the_pool_gives_all_back(void **state)
{
	struct world *w = new_world(POOL_RESERVATION, 4);

	hold(w, "p1", false);
	hold(w, "p2", true);
	w->facts.n_nodes = 0;
	wait_for(w, "one", 300);
	assert_int_equal(after(w, 0)->n_make, 0);
	assert_int_equal(after(w, POOL_UNUSED_NS)->n_give_back, 1);
	assert_string_equal(w->plan.give_back[0], "p1");
	free_world(w);
}

static void the_number_of_devices_has_a_maximum(void **state)
{
	struct world *w = new_world(POOL_RESERVATION, 128);

	assert_int_equal(after(w, 0)->n_make, POOL_MAKE_MAX);
	wait_for(w, "huge", UINT64_MAX / 2);
	assert_int_equal(after(w, 0)->n_make, POOL_MAKE_MAX);
	free_world(w);
}

static void policies_have_names(void **state)
{
	struct error err = {0};
	enum pool_policy policy;

	assert_ok(pool_policy_parse(STR("hybrid"), &policy, &err));
	assert_int_equal(policy, POOL_HYBRID);
	assert_ok(pool_policy_parse(STR(""), &policy, &err));
	assert_int_equal(policy, POOL_ON_DEMAND);
	assert_int_equal(pool_policy_parse(STR("ondemand"), &policy, &err), -EINVAL);
	assert_contains(err.msg, "'ondemand': allowed are onDemand, reservation and hybrid");
}

UNIT_MAIN(UNIT(devices_are_taken_for_waiting_pods), UNIT(a_device_on_its_way_serves_one_pod_only),
	UNIT(no_placeholder_is_added_while_pods_start),
	UNIT(a_device_that_does_not_help_is_not_counted), UNIT(a_new_controller_expects_no_pods),
	UNIT(a_device_taken_long_ago_serves_every_pod),
	UNIT(pods_that_stay_pending_take_devices_ever_more_slowly),
	UNIT(a_pod_without_a_device_takes_one_at_a_time),
	UNIT(a_device_that_helps_no_pod_is_given_back), UNIT(on_demand_gives_back_idle_devices),
	UNIT(a_device_with_possible_tenants_is_kept),
	UNIT(a_cordoned_device_does_not_count_as_coming), UNIT(a_reservation_is_kept),
	UNIT(hybrid_keeps_some_idle_devices), UNIT(a_failed_placeholder_is_replaced),
	UNIT(a_failed_placeholder_takes_the_place_of_its_successor),
	UNIT(an_idle_device_is_not_given_back_for_a_failed_placeholder),
	UNIT(a_node_that_leaves_the_pool_gives_all_back), UNIT(the_number_of_devices_has_a_maximum),
	UNIT(policies_have_names))
