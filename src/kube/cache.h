/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of the objects of one resource, in the caller's own form, to be found by namespace and
 * name or by uid. A reflector feeds the cache, so the cache follows the server with a delay. After
 * a list the cache deletes the objects that the list lacks, and reports them like other deletions.
 * The cache reports a version of an object once, unless the reflector replaces all objects. An
 * object with a known name and another uid counts as a deletion and an addition. One thread.
 */
#ifndef KUBE_CACHE_H
#define KUBE_CACHE_H

#include "kube/reflect.h"

#define CACHE_VERSION_SIZE 32u

/* An entry is valid until its deletion has been reported. Its texts are never NULL. */
struct kube_entry {
	const char *namespace_name; /* "": none */
	const char *name;
	const char *uid;
	char version[CACHE_VERSION_SIZE]; /* resourceVersion; "" if it is longer */
	void *object;                     /* made by `project` */
	struct str raw;                   /* with keeps_raw: the object's JSON text; else empty */
};

/* Handlers may read the cache, and start and cancel calls; they must not free the cache. */
struct kube_cache_handler {
	/*
	 * Converts an object to the caller's form, which the cache then owns. -ENOENT: the object
	 * is ignored, or removed if known. Any other error has the same effect, and the cache
	 * passes it to `trouble`.
	 */
	int (*project)(
		void *data, const struct kube_object *object, void **ret_own, struct error *err);
	void (*release)(void *own);
	/* Each may be NULL. */
	void (*added)(void *data, const struct kube_entry *entry);
	void (*updated)(void *data, const struct kube_entry *entry, void *old);
	void (*deleted)(void *data, const struct kube_entry *entry);
	void (*synced)(void *data); /* the first list is complete */
	void (*trouble)(void *data, const struct error *err);
	void *data;
	bool keeps_raw;
};

struct kube_cache;

int kube_cache_new(struct kube_client *client, const struct kube_reflect_options *options,
	const struct kube_cache_handler *handler, struct kube_cache **ret_cache, struct error *err);
/* Stops the reflector and releases all objects without reporting them. Accepts NULL. */
void kube_cache_free(struct kube_cache *cache);
DEFINE_CLEANUP(struct kube_cache *, kube_cache_free)
#define _cleanup_kube_cache_ _cleanup_(kube_cache_free_p)

bool kube_cache_is_synced(const struct kube_cache *cache);
size_t kube_cache_count(const struct kube_cache *cache);
struct kube_reflect_counts kube_cache_counts(const struct kube_cache *cache);

/* NULL if there is none. namespace_name: "" or NULL for cluster-wide objects. */
const struct kube_entry *kube_cache_find(
	const struct kube_cache *cache, const char *namespace_name, const char *name);
const struct kube_entry *kube_cache_find_uid(const struct kube_cache *cache, const char *uid);

/* Iterates in the order of addition: NULL gives the first entry, the last entry gives NULL. */
const struct kube_entry *kube_cache_next(
	const struct kube_cache *cache, const struct kube_entry *entry);

/*
 * For tests, which feed a cache without a server: a cache without a reflector, and the handler that
 * a reflector would call.
 */
int kube_cache_new_unfed(const struct kube_cache_handler *handler, struct kube_cache **ret_cache);
struct kube_reflect_handler kube_cache_feed(struct kube_cache *cache);

#endif
