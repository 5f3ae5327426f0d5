/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the cached objects in two hash tables, by namespace and name and by uid. Each list has a
 * number. An entry has the number of the last list that contained it, or that preceded its addition
 * by the watch. When a list is complete, entries with an older number are deleted. One thread.
 */
#include "kube/cache.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"

#define KEY_MAX 1024u

struct entry {
	struct kube_entry entry;
	uint64_t list;
	UT_hash_handle by_key, by_uid;
	uint32_t n_key;
	char text[]; /* namespace, name, uid, each with its NUL; the key is the first two */
};

struct kube_cache {
	struct kube_cache_handler handler;
	struct kube_reflect *reflect;
	struct entry *by_key, *by_uid;
	uint64_t list;
	bool is_replacing;
	bool is_synced;
};

/* Makes the key "NAMESPACE\0NAME". */
static size_t kube_cache_make_key(
	char key[static KEY_MAX], const char *namespace_name, const char *name)
{
	const size_t n_space = namespace_name ? strlen(namespace_name) : 0, n_name = strlen(name);

	if (n_space + 1 + n_name > KEY_MAX)
		return 0;
	if (n_space)
		memcpy(key, namespace_name, n_space);
	key[n_space] = '\0';
	memcpy(key + n_space + 1, name, n_name);
	return n_space + 1 + n_name;
}

static struct entry *kube_cache_find_entry(
	const struct kube_cache *cache, const char *namespace_name, const char *name)
{
	char key[KEY_MAX];
	const size_t n = kube_cache_make_key(key, namespace_name, name);
	struct entry *e = NULL;

	if (n)
		HASH_FIND(by_key, cache->by_key, key, n, e);
	return e;
}

static struct entry *find_uid(const struct kube_cache *cache, const char *uid)
{
	struct entry *e = NULL;

	HASH_FIND(by_uid, cache->by_uid, uid, strlen(uid), e);
	return e;
}

static void entry_free(struct kube_cache *cache, struct entry *e)
{
	cache->handler.release(e->entry.object);
	free((char *)e->entry.raw.p);
	free(e);
}

/* Removes the entry before the callback, so that the handler sees the new state. */
static void kube_cache_remove_entry(struct kube_cache *cache, struct entry *e)
{
	HASH_DELETE(by_key, cache->by_key, e);
	HASH_DELETE(by_uid, cache->by_uid, e);
	if (cache->handler.deleted)
		cache->handler.deleted(cache->handler.data, &e->entry);
	entry_free(cache, e);
}

/* The names of an object; borrowed from its JSON. */
struct identity {
	const char *namespace_name, *name, *uid, *version;
};

static int kube_cache_identify(const json_t *json, struct identity *ret)
{
	const json_t *metadata = json_object_get(json, "metadata");
	char key[KEY_MAX];

	*ret = (struct identity){
		.namespace_name = kube_json_text_at(metadata, "namespace", NULL),
		.name = kube_json_text_at(metadata, "name", NULL),
		.uid = kube_json_text_at(metadata, "uid", NULL),
		.version = kube_json_text_at(metadata, "resourceVersion", NULL),
	};
	if (!ret->name || !ret->name[0] || !ret->uid || !ret->uid[0] || !ret->version ||
		!kube_cache_make_key(key, ret->namespace_name, ret->name))
		return -EBADMSG;
	return 0;
}

static void kube_cache_set_version(struct entry *e, const char *version)
{
	if (str_copy(e->entry.version, sizeof(e->entry.version), str_from(version)) < 0)
		e->entry.version[0] = '\0';
}

static int set_raw(struct kube_cache *cache, struct entry *e, struct str raw)
{
	char *copy;

	if (!cache->handler.keeps_raw)
		return 0;
	copy = str_dup(raw);
	if (!copy)
		return -ENOMEM;
	free((char *)e->entry.raw.p);
	e->entry.raw = (struct str){copy, raw.n};
	return 0;
}

static struct entry *entry_new(const struct identity *id)
{
	const char *namespace_name = id->namespace_name ? id->namespace_name : "";
	const size_t n_space = strlen(namespace_name) + 1, n_name = strlen(id->name) + 1,
		     n_uid = strlen(id->uid) + 1;
	struct entry *e = calloc(1, sizeof(*e) + n_space + n_name + n_uid);

	if (!e)
		return NULL;
	memcpy(e->text, namespace_name, n_space);
	memcpy(e->text + n_space, id->name, n_name);
	memcpy(e->text + n_space + n_name, id->uid, n_uid);
	e->n_key = (uint32_t)(n_space + n_name - 1);
	e->entry.namespace_name = e->text;
	e->entry.name = e->text + n_space;
	e->entry.uid = e->text + n_space + n_name;
	return e;
}

static int kube_cache_add_entry(struct kube_cache *cache, const struct identity *id,
	const struct kube_object *object, void *own)
{
	struct entry *e = entry_new(id);

	if (!e || set_raw(cache, e, object->raw) < 0) {
		cache->handler.release(own);
		free(e);
		return -ENOMEM;
	}
	e->entry.object = own;
	e->list = cache->list;
	kube_cache_set_version(e, id->version);
	HASH_ADD_KEYPTR(by_key, cache->by_key, e->text, e->n_key, e);
	HASH_ADD_KEYPTR(by_uid, cache->by_uid, e->entry.uid, strlen(e->entry.uid), e);
	if (cache->handler.added)
		cache->handler.added(cache->handler.data, &e->entry);
	return 0;
}

static int update_entry(struct kube_cache *cache, struct entry *e, const struct identity *id,
	const struct kube_object *object, void *own)
{
	void *old = e->entry.object;

	if (set_raw(cache, e, object->raw) < 0) {
		cache->handler.release(own);
		return -ENOMEM;
	}
	e->entry.object = own;
	e->list = cache->list;
	kube_cache_set_version(e, id->version);
	if (cache->handler.updated)
		cache->handler.updated(cache->handler.data, &e->entry, old);
	cache->handler.release(old);
	return 0;
}

static bool kube_cache_is_same_object(
	const struct kube_cache *cache, const struct entry *e, const struct identity *id)
{
	return !cache->is_replacing && e->entry.version[0] &&
		!strcmp(e->entry.version, id->version);
}

static int kube_cache_put_object(
	struct kube_cache *cache, const struct identity *id, const struct kube_object *object)
{
	struct entry *e = kube_cache_find_entry(cache, id->namespace_name, id->name);
	struct error err = {0};
	void *own = NULL;
	int r;

	if (e && strcmp(e->entry.uid, id->uid) != 0) {
		kube_cache_remove_entry(cache, e);
		e = NULL;
	}
	if (e && kube_cache_is_same_object(cache, e, id)) {
		e->list = cache->list;
		return 0;
	}
	r = cache->handler.project(cache->handler.data, object, &own, &err);
	if (r < 0) {
		if (e)
			kube_cache_remove_entry(cache, e);
		if (r != -ENOENT && cache->handler.trouble) {
			fail_within(&err, r, "%s/%s", id->namespace_name ? id->namespace_name : "",
				id->name);
			cache->handler.trouble(cache->handler.data, &err);
		}
		return 0;
	}
	return e ? update_entry(cache, e, id, object, own)
		 : kube_cache_add_entry(cache, id, object, own);
}

static int on_object(void *data, enum kube_change change, const struct kube_object *object)
{
	struct kube_cache *cache = data;
	struct identity id;
	struct entry *e;
	int r = kube_cache_identify(object->json, &id);

	if (r < 0)
		return r;
	if (change != KUBE_DELETED)
		return kube_cache_put_object(cache, &id, object);
	/* Searches by uid, because the name could belong to a newer object. */
	e = find_uid(cache, id.uid);
	if (e)
		kube_cache_remove_entry(cache, e);
	return 0;
}

static void kube_cache_on_begin(void *data, bool is_replacing)
{
	struct kube_cache *cache = data;

	cache->list++;
	cache->is_replacing = is_replacing;
}

static void kube_cache_on_end(void *data)
{
	struct kube_cache *cache = data;
	struct entry *e = cache->by_key, *next;
	const bool was_synced = cache->is_synced;

	cache->is_replacing = false;
	for (; e; e = next) {
		next = e->by_key.next;
		if (e->list != cache->list)
			kube_cache_remove_entry(cache, e);
	}
	cache->is_synced = true;
	if (!was_synced && cache->handler.synced)
		cache->handler.synced(cache->handler.data);
}

static void kube_cache_on_trouble(void *data, const struct error *err)
{
	struct kube_cache *cache = data;

	if (cache->handler.trouble)
		cache->handler.trouble(cache->handler.data, err);
}

struct kube_reflect_handler kube_cache_feed(struct kube_cache *cache)
{
	return (struct kube_reflect_handler){.begin = kube_cache_on_begin,
		.object = on_object,
		.end = kube_cache_on_end,
		.trouble = kube_cache_on_trouble,
		.data = cache};
}

int kube_cache_new_unfed(const struct kube_cache_handler *handler, struct kube_cache **ret_cache)
{
	struct kube_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	cache->handler = *handler;
	*ret_cache = cache;
	return 0;
}

int kube_cache_new(struct kube_client *client, const struct kube_reflect_options *options,
	const struct kube_cache_handler *handler, struct kube_cache **ret_cache, struct error *err)
{
	_cleanup_kube_cache_ struct kube_cache *cache = NULL;
	struct kube_reflect_handler feed;
	int r = kube_cache_new_unfed(handler, &cache);

	if (r < 0)
		return fail(err, ENOMEM, "out of memory for a cache of %s", options->path);
	feed = kube_cache_feed(cache);
	r = kube_reflect_start(client, options, &feed, &cache->reflect, err);
	if (r < 0)
		return r;
	*ret_cache = TAKE_PTR(cache);
	return 0;
}

void kube_cache_free(struct kube_cache *cache)
{
	struct entry *e, *next;

	if (!cache)
		return;
	kube_reflect_stop(cache->reflect);
	e = cache->by_key;
	HASH_CLEAR(by_key, cache->by_key);
	HASH_CLEAR(by_uid, cache->by_uid);
	for (; e; e = next) {
		next = e->by_key.next;
		entry_free(cache, e);
	}
	free(cache);
}

bool kube_cache_is_synced(const struct kube_cache *cache)
{
	return cache->is_synced;
}

size_t kube_cache_count(const struct kube_cache *cache)
{
	return HASH_CNT(by_key, cache->by_key);
}

struct kube_reflect_counts kube_cache_counts(const struct kube_cache *cache)
{
	return cache->reflect ? kube_reflect_counts(cache->reflect)
			      : (struct kube_reflect_counts){0};
}

const struct kube_entry *kube_cache_find(
	const struct kube_cache *cache, const char *namespace_name, const char *name)
{
	const struct entry *e = kube_cache_find_entry(cache, namespace_name, name);

	return e ? &e->entry : NULL;
}

const struct kube_entry *kube_cache_find_uid(const struct kube_cache *cache, const char *uid)
{
	const struct entry *e = find_uid(cache, uid);

	return e ? &e->entry : NULL;
}

const struct kube_entry *kube_cache_next(
	const struct kube_cache *cache, const struct kube_entry *entry)
{
	const struct entry *e = entry ? CONTAINER_OF(entry, struct entry, entry)->by_key.next
				      : cache->by_key;

	return e ? &e->entry : NULL;
}
