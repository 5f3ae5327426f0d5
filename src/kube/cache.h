/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of one resource, in a form of the user's own, always those of the server but for the
 * delay: what a reflector tells, by namespace and name and by uid. After a list what is no longer
 * there is deleted, and told like any other deletion; nothing is told twice for the same version.
 * Another object under an old name (another uid) is a deletion and an addition. One thread.
 */
#ifndef KUBE_CACHE_H
#define KUBE_CACHE_H

#include "kube/reflect.h"

#define CACHE_VERSION_SIZE 32u

/* Borrowed until it is told as deleted; the texts are never NULL. */
struct kube_entry {
	const char *namespace_name; /* "": none */
	const char *name;
	const char *uid;
	char version[CACHE_VERSION_SIZE]; /* "" when longer than that */
	void *object;                     /* what `project` made */
	struct str raw;                   /* with keeps_raw: the object's text; else empty */
};

/* Handlers may look into the cache, and start and cancel calls; they may not free the cache. */
struct kube_cache_handler {
	/*
	 * Makes the own form; what it returns belongs to the cache. -ENOENT: not of interest (then
	 * or from now on), as if it were not there. Other errors too, but they are told as trouble.
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
/* Stops it and releases all; nothing is told. NULL is fine. */
void kube_cache_free(struct kube_cache *cache);
DEFINE_CLEANUP(struct kube_cache *, kube_cache_free)
#define _cleanup_kube_cache_ _cleanup_(kube_cache_free_p)

bool kube_cache_is_synced(const struct kube_cache *cache);
size_t kube_cache_count(const struct kube_cache *cache);
struct kube_reflect_counts kube_cache_counts(const struct kube_cache *cache);

/* NULL when there is none. namespace_name: "" or NULL for objects without. */
const struct kube_entry *kube_cache_find(
	const struct kube_cache *cache, const char *namespace_name, const char *name);
const struct kube_entry *kube_cache_find_uid(const struct kube_cache *cache, const char *uid);

/* Each in turn: NULL gives the first, the last gives NULL. The order is that of their coming. */
const struct kube_entry *kube_cache_next(
	const struct kube_cache *cache, const struct kube_entry *entry);

/* What a reflector calls, for what feeds a cache by itself (tests). */
int kube_cache_new_unfed(const struct kube_cache_handler *handler, struct kube_cache **ret_cache);
struct kube_reflect_handler kube_cache_feed(struct kube_cache *cache);

#endif
