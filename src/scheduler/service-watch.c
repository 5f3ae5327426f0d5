/* SPDX-License-Identifier: Apache-2.0 */
/* Watches the API server's objects and passes them to the scheduler. */
#include "scheduler/service-internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"

/*
 * An object while the reflector's cache passes it on. The scheduler keeps its own form of the
 * object.
 */
struct box {
	json_t *json;
};

static int service_watch_project(
	void *data, const struct kube_object *object, void **ret_own, struct error *err)
{
	struct box *box = calloc(1, sizeof(*box));

	if (!box)
		return fail(err, ENOMEM, "out of memory");
	box->json = json_incref(object->json);
	*ret_own = box;
	return 0;
}

static void service_watch_release(void *own)
{
	struct box *box = own;

	if (box)
		json_decref(box->json);
	free(box);
}

static void service_watch_changed(struct watch *w, const struct kube_entry *entry)
{
	struct service *s = w->service;
	struct box *box = entry->object;
	struct error err;

	sched_set_time(s->sched, clock_now_ns(), clock_real_ns());
	if (sched_set(s->sched, w->kind, box->json, &err) < 0)
		log_warn("%s %s%s%s: %s", w->row->resource, entry->namespace_name,
			entry->namespace_name[0] ? "/" : "", entry->name, err.msg);
	json_decref(TAKE_PTR(box->json));
	if (w->kind == OBJECT_POD)
		service_ask_again(s);
	service_wake(s);
}

static void service_watch_on_added(void *data, const struct kube_entry *entry)
{
	service_watch_changed(data, entry);
}

static void service_watch_on_updated(void *data, const struct kube_entry *entry, void *old)
{
	service_watch_changed(data, entry);
}

static void service_watch_on_deleted(void *data, const struct kube_entry *entry)
{
	struct watch *w = data;

	sched_remove(w->service->sched, w->kind, entry->namespace_name, entry->name);
	service_wake(w->service);
}

/* Removes the objects of `from` that `cache` lacks; NULL: all objects of `from`. */
static void service_watch_remove_missing(
	struct watch *w, const struct kube_cache *from, const struct kube_cache *cache)
{
	const struct kube_entry *entry = NULL;

	while ((entry = kube_cache_next(from, entry)))
		if (!cache || !kube_cache_find(cache, entry->namespace_name, entry->name))
			sched_remove(
				w->service->sched, w->kind, entry->namespace_name, entry->name);
}

/* Only `cache` can complete its first list, because a former cache has completed its own. */
static void service_watch_on_synced(void *data)
{
	struct watch *w = data;

	assert(kube_cache_is_synced(w->cache));
	log_debug("%s: the first list is complete, %zu objects", w->row->resource,
		kube_cache_count(w->cache));
	if (w->former) {
		service_watch_remove_missing(w, w->former, w->cache);
		kube_cache_free(TAKE_PTR(w->former));
	}
	if (service_is_synced(w->service))
		log_info("the first lists of all objects are complete");
	service_wake(w->service);
}

static void service_watch_on_trouble(void *data, const struct error *err)
{
	struct watch *w = data;

	log_warn("%s", err->msg);
	/* An upgrade of the API server may have removed the version that is watched. */
	if (err->code == ENOENT)
		kube_discovery_refresh(w->service->discovery);
}

struct kube_cache_handler service_watch_handler(struct watch *w)
{
	return (struct kube_cache_handler){.project = service_watch_project,
		.release = service_watch_release,
		.added = service_watch_on_added,
		.updated = service_watch_on_updated,
		.deleted = service_watch_on_deleted,
		.synced = service_watch_on_synced,
		.trouble = service_watch_on_trouble,
		.data = w};
}

static int service_watch_start(struct service *s, size_t i, const struct kube_api_row *row,
	struct kube_cache **ret_cache, struct error *err)
{
	const struct kube_target target = {.group_version = row->group_version,
		.resource = row->resource,
		.namespace_name = cluster_sources[i].is_leases ? s->options->lease_space : NULL};
	const struct kube_cache_handler handler = service_watch_handler(&s->watches[i]);
	_cleanup_buf_ struct buf path = BUF_INIT(512);
	int r = kube_path(&path, &target, err);

	cluster_note_served(sched_cluster(s->sched), cluster_sources[i].kind);
	return r < 0
		? r
		: kube_cache_new(s->client, &(struct kube_reflect_options){.path = buf_text(&path)},
			  &handler, ret_cache, err);
}

void service_watch_set(struct watch *w, const struct kube_api_row *row, struct kube_cache *cache)
{
	if (w->cache)
		log_info("%s: %s is no longer served, watching %s", row->resource,
			w->row->group_version, row->group_version);
	if (w->cache && kube_cache_is_synced(w->cache)) {
		w->former = w->cache;
	} else if (w->cache) {
		service_watch_remove_missing(w, w->cache, w->former);
		kube_cache_free(w->cache);
	}
	w->cache = cache;
	w->row = row;
}

void service_watch_leave(struct watch *w)
{
	if (!w->cache || kube_cache_count(w->cache) || (w->former && kube_cache_count(w->former)))
		return;
	log_info("%s: no longer served", w->row->resource);
	kube_cache_free(TAKE_PTR(w->cache));
	kube_cache_free(TAKE_PTR(w->former));
	w->row = NULL;
}

void service_watch(struct service *s)
{
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(cluster_sources); i++) {
		const struct kube_api_row *row = kube_discovery_find(
			s->discovery, cluster_sources[i].api);
		struct watch *w = &s->watches[i];
		struct kube_cache *cache;

		if (!row && !cluster_sources[i].is_waited_for)
			service_watch_leave(w);
		if (!row || (w->cache && kube_discovery_has_row(s->discovery, w->row)))
			continue;
		w->service = s;
		w->kind = cluster_sources[i].kind;
		if (service_watch_start(s, i, row, &cache, &err) < 0)
			log_error("%s", err.msg);
		else
			service_watch_set(w, row, cache);
	}
}

bool service_lacks_definitions(const struct service *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(cluster_sources); i++)
		if (!s->watches[i].cache)
			return true;
	return false;
}

bool service_is_synced(const struct service *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(cluster_sources); i++) {
		const struct watch *w = &s->watches[i];
		const struct kube_cache *cache = w->former ? w->former : w->cache;

		if (cache ? !kube_cache_is_synced(cache) : cluster_sources[i].is_waited_for)
			return false;
	}
	return true;
}

void service_unwatch(struct service *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(cluster_sources); i++) {
		kube_cache_free(TAKE_PTR(s->watches[i].cache));
		kube_cache_free(TAKE_PTR(s->watches[i].former));
	}
}
