/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how a watch moves from the cache of one API version to the cache of another. */
#include "base/clock.h"
#include "scheduler/service-internal.h"
#include "unit.h"

struct rig {
	struct loop *loop;
	struct service service;
	struct watch *watch;
};

static const struct kube_api_row row = {.group_version = "x/v1", .resource = "namespaces"};

static void setup(struct rig *r)
{
	const struct sched_config config = {.cluster = {.scheduler_name = "divvy-scheduler",
						    .minor = 30,
						    .policy = &place_scarcity},
		.seed = 1};

	*r = (struct rig){.watch = &r->service.watches[0]};
	assert_int_equal(loop_new(&r->loop), 0);
	assert_int_equal(loop_add_timer(r->loop, &r->service.pump, NULL), 0);
	assert_int_equal(sched_new(&config, &r->service.sched, NULL), 0);
	r->watch->service = &r->service;
	r->watch->kind = OBJECT_NAMESPACE;
}

static void teardown(struct rig *r)
{
	service_unwatch(&r->service);
	sched_free(r->service.sched);
	loop_remove_timer(&r->service.pump);
	loop_free(r->loop);
}

/* Gives the watch a new cache without a list. */
static struct kube_cache *start(struct rig *r)
{
	const struct kube_cache_handler handler = service_watch_handler(r->watch);
	struct kube_cache *cache;

	assert_int_equal(kube_cache_new_unfed(&handler, &cache), 0);
	service_watch_set(r->watch, &row, cache);
	return cache;
}

static void begin(struct kube_cache *cache)
{
	const struct kube_reflect_handler feed = kube_cache_feed(cache);

	feed.begin(feed.data, true);
}

static void add(struct kube_cache *cache, const char *name)
{
	const struct kube_reflect_handler feed = kube_cache_feed(cache);
	_cleanup_json_ json_t *json = json_pack(
		"{s:{s:s,s:s,s:s}}", "metadata", "name", name, "uid", name, "resourceVersion", "1");
	const struct kube_object object = {.json = json};

	assert_non_null(json);
	assert_int_equal(feed.object(feed.data, KUBE_ADDED, &object), 0);
}

static void end(struct kube_cache *cache)
{
	const struct kube_reflect_handler feed = kube_cache_feed(cache);

	feed.end(feed.data);
}

/* Whether the scheduler knows the namespace, which cluster_remove() then forgets. */
static bool knows(struct rig *r, const char *name)
{
	return sched_remove(r->service.sched, OBJECT_NAMESPACE, "", name) == 0;
}

static void objects_of_the_former_version_stay_until_the_next_list(void **state)
{
	struct rig r;
	struct kube_cache *first, *second;

	setup(&r);
	first = start(&r);
	begin(first);
	add(first, "a");
	add(first, "b");
	end(first);
	second = start(&r);
	assert_ptr_equal(r.watch->former, first);
	begin(second);
	add(second, "b");
	end(second);
	assert_null(r.watch->former);
	assert_false(knows(&r, "a"));
	assert_true(knows(&r, "b"));
	teardown(&r);
}

/* Otherwise the list of the earlier cache would remove its objects and free it in its callback. */
static void an_unlisted_cache_is_freed_with_its_objects_at_once(void **state)
{
	struct rig r;
	struct kube_cache *first;

	setup(&r);
	first = start(&r);
	begin(first);
	add(first, "a");
	start(&r);
	assert_null(r.watch->former);
	assert_false(knows(&r, "a"));
	teardown(&r);
}

static void an_unlisted_cache_leaves_the_objects_of_the_former_one(void **state)
{
	struct rig r;
	struct kube_cache *first, *second, *third;

	setup(&r);
	first = start(&r);
	begin(first);
	add(first, "a");
	end(first);
	second = start(&r);
	begin(second);
	add(second, "a");
	add(second, "b");
	third = start(&r);
	assert_ptr_equal(r.watch->former, first);
	assert_false(knows(&r, "b"));
	begin(third);
	add(third, "a");
	end(third);
	assert_null(r.watch->former);
	assert_true(knows(&r, "a"));
	teardown(&r);
}

/* Otherwise the reflector would ask for the kind of objects for ever. */
static void the_watch_of_a_removed_definition_ends(void **state)
{
	struct rig r;
	struct kube_cache *cache;

	setup(&r);
	service_watch_leave(r.watch);
	cache = start(&r);
	begin(cache);
	add(cache, "a");
	end(cache);
	service_watch_leave(r.watch);
	assert_ptr_equal(r.watch->cache, cache);
	begin(cache);
	end(cache);
	assert_false(knows(&r, "a"));
	service_watch_leave(r.watch);
	assert_null(r.watch->cache);
	start(&r);
	assert_null(r.watch->former);
	teardown(&r);
}

UNIT_MAIN(UNIT(objects_of_the_former_version_stay_until_the_next_list),
	UNIT(an_unlisted_cache_is_freed_with_its_objects_at_once),
	UNIT(an_unlisted_cache_leaves_the_objects_of_the_former_one),
	UNIT(the_watch_of_a_removed_definition_ends))
