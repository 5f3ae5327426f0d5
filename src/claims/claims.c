/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds the objects of resource.k8s.io. A new version of a claim keeps the assumption about the old
 * one, unless the new one has another uid or shows an allocation. The indexes over slices are made
 * again when they are needed after a change. The uses of devices follow each change of a claim,
 * since claims change all the time.
 */
#include "claims/claims.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "claims/claims-internal.h"

int claims_new(uint64_t seed, struct claims **ret, struct error *err)
{
	struct claims *claims = calloc(1, sizeof(*claims));

	if (!claims)
		return fail(err, ENOMEM, "out of memory");
	claims->rand = rand_seeded(seed);
	claims->is_index_old = claims->are_uses_old = true;
	claims->most_steps = UINT64_MAX;
	*ret = claims;
	return 0;
}

void claims_limit_steps(struct claims *claims, uint64_t steps)
{
	claims->most_steps = steps < UINT64_MAX - claims->n_steps ? claims->n_steps + steps
								  : UINT64_MAX;
}

void claims_pack(struct claims *claims, struct claims_packing packing)
{
	claims->packing = packing;
	claims->is_index_old = true;
}

uint64_t claims_version(const struct claims *claims)
{
	return claims->version;
}

uint64_t claims_slices_version(const struct claims *claims)
{
	return claims->slices_version;
}

int claims_watch(struct claims *claims)
{
	struct claims_entry *entry;
	int r = 0;

	claims->is_watched = true;
	for (entry = claims->objects[CLAIMS_CLAIM]; r == 0 && entry; entry = entry->hh.next)
		r = claims_note_change(claims, entry);
	return r;
}

uint64_t claims_n_steps(const struct claims *claims)
{
	return claims->n_steps;
}

static void claims_entry_free(struct claims_entry *entry)
{
	if (!entry)
		return;
	slice_free(entry->slice);
	device_class_free(entry->class);
	resource_claim_free(entry->claim);
	json_decref(entry->rule_json);
	json_decref(entry->assumed.json);
	arena_done(&entry->assumed_arena);
	free(entry->assumed_user);
	free(entry->ending_uid);
	free(entry->key);
	free(entry);
}
DEFINE_CLEANUP(struct claims_entry *, claims_entry_free)

static void claims_drop_index(struct claims *claims)
{
	free(TAKE_PTR(claims->by_pool));
	free(TAKE_PTR(claims->by_node));
	free(TAKE_PTR(claims->pool_starts));
	claims->n_slices = claims->n_pools = 0;
}

void claims_free(struct claims *claims)
{
	struct claims_entry *entry, *next;

	if (!claims)
		return;
	claims_drop_uses(claims);
	claims_drop_index(claims);
	for (uint32_t i = 0; i < claims->n_changes; i++)
		free(claims->changes[i]);
	free(claims->changes);
	free(claims->taken_change);
	for (int kind = 0; kind < CLAIMS_KINDS; kind++)
		HASH_ITER(hh, claims->objects[kind], entry, next) {
			HASH_DEL(claims->objects[kind], entry);
			claims_entry_free(entry);
		}
	free(claims);
}

/* ---- objects ---- */

struct claims_entry *claims_find(struct claims *claims, enum claims_kind kind, const char *key)
{
	struct claims_entry *entry = NULL;

	HASH_FIND(hh, claims->objects[kind], key, strlen(key), entry);
	return entry;
}

const char *claims_key(
	enum claims_kind kind, const char *ns, const char *name, char room[static CLAIMS_KEY_MAX])
{
	if (kind != CLAIMS_CLAIM)
		return name;
	snprintf(room, CLAIMS_KEY_MAX, "%s/%s", ns, name);
	return room;
}

const struct allocation *claims_entry_allocation(const struct claims_entry *entry)
{
	if (entry->claim->allocation.json)
		return &entry->claim->allocation;
	return entry->assumed.json ? &entry->assumed : NULL;
}

void claims_drop_assumed(struct claims *claims, struct claims_entry *entry)
{
	if (entry->assumed.json)
		claims_uncount(claims, entry);
	json_decref(entry->assumed.json);
	arena_done(&entry->assumed_arena);
	entry->assumed = (struct allocation){.json = NULL};
	entry->assumed_arena = (struct arena){.total = 0};
	free(TAKE_PTR(entry->assumed_user));
	entry->n_assumed = 0;
	entry->is_kept = false;
	if (entry->claim)
		claims_recount(claims, entry);
}

/* Ends the assumption if nothing holds it. */
void claims_drop_unheld(struct claims *claims, struct claims_entry *entry)
{
	if (!entry->n_assumed && !entry->n_writes && !entry->is_kept)
		claims_drop_assumed(claims, entry);
}

static int claims_read(
	enum claims_kind kind, json_t *json, struct claims_entry *entry, struct error *err)
{
	switch (kind) {
	case CLAIMS_SLICE: return slice_new(json, &entry->slice, err);
	case CLAIMS_CLASS: return device_class_new(json, &entry->class, err);
	case CLAIMS_CLAIM: return resource_claim_new(json, &entry->claim, err);
	default:
		entry->rule_json = json_incref(json);
		taint_rule_read(json, &entry->rule);
		return 0;
	}
}

/* As strcmp(), for decimal numbers. */
static int version_compare(const char *a, const char *b)
{
	const size_t n_a = strlen(a), n_b = strlen(b);

	return n_a != n_b ? n_a < n_b ? -1 : 1 : strcmp(a, b);
}

/*
 * Whether the claim is an older version of the known one, or the same. The watch shows the versions
 * again that answers to writes have shown, and those say nothing about a later write.
 */
static bool claims_is_known(
	const struct resource_claim *claim, const struct claims_entry *known, bool is_answer)
{
	if (strcmp(claim->uid, known->claim->uid) != 0 || !*claim->version)
		return false;
	if (!is_answer && version_compare(claim->version, known->watched) < 0)
		return false;
	return version_compare(claim->version, known->claim->version) <= 0;
}

/* Replaces the object of an entry by that of `fresh`, and keeps what is assumed about a claim. */
static void claims_replace(
	struct claims *claims, struct claims_entry *entry, struct claims_entry *fresh)
{
	if (entry->claim &&
		(strcmp(entry->claim->uid, fresh->claim->uid) != 0 ||
			fresh->claim->allocation.json))
		claims_drop_assumed(claims, entry);
	/* The API shows that it does not have the allocation, and no place writes it any more. */
	if (!entry->n_assumed && !entry->n_writes)
		claims_drop_assumed(claims, entry);
	if (entry->claim)
		claims_uncount(claims, entry);
	slice_free(entry->slice);
	device_class_free(entry->class);
	resource_claim_free(entry->claim);
	json_decref(entry->rule_json);
	entry->slice = TAKE_PTR(fresh->slice);
	entry->class = TAKE_PTR(fresh->class);
	entry->claim = TAKE_PTR(fresh->claim);
	entry->rule_json = TAKE_PTR(fresh->rule_json);
	entry->rule = fresh->rule;
	if (!entry->claim)
		return;
	if (entry->ending_uid &&
		(!entry->claim->allocation.json ||
			resource_claim_is_used_by_others(entry->claim, entry->ending_uid)))
		claims_end_ending(claims, entry);
	claims_recount(claims, entry);
}

static int claims_put(struct claims *claims, enum claims_kind kind, json_t *json, bool is_answer,
	struct error *err)
{
	const json_t *metadata = json_object_get(json, "metadata");
	const char *ns = json_string_value(json_object_get(metadata, "namespace"));
	const char *name = json_string_value(json_object_get(metadata, "name"));
	_cleanup_(claims_entry_free_p) struct claims_entry *fresh = calloc(1, sizeof(*fresh));
	struct claims_entry *entry;
	char room[CLAIMS_KEY_MAX];
	const char *key;
	bool is_known;
	int r;

	if (!name)
		return fail(err, EINVAL, "an object without a name");
	key = claims_key(kind, ns ? ns : "", name, room);
	if (fresh)
		fresh->key = str_dup(str_from(key));
	if (!fresh || !fresh->key)
		return fail(err, ENOMEM, "out of memory");
	r = claims_read(kind, json, fresh, err);
	if (r < 0)
		return r;
	claims->is_index_old |= kind == CLAIMS_SLICE;
	claims->slices_version += kind == CLAIMS_SLICE;
	if (fresh->class && claims->n_class_numbers < UINT32_MAX)
		fresh->class->number = ++claims->n_class_numbers;
	entry = claims_find(claims, kind, key);
	is_known = entry && kind == CLAIMS_CLAIM && claims_is_known(fresh->claim, entry, is_answer);
	if (fresh->claim && !is_answer)
		str_copy((entry ? entry : fresh)->watched, CLAIM_VERSION_SIZE,
			str_from(fresh->claim->version));
	if (is_known)
		return 0;
	if (entry) {
		claims_replace(claims, entry, fresh);
		return 0;
	}
	HASH_ADD_KEYPTR(hh, claims->objects[kind], fresh->key, strlen(fresh->key), fresh);
	if (fresh->claim)
		claims_recount(claims, fresh);
	fresh = NULL;
	return 0;
}

int claims_set(struct claims *claims, enum claims_kind kind, json_t *json, struct error *err)
{
	return claims_put(claims, kind, json, false, err);
}

int claims_set_answer(struct claims *claims, json_t *json, struct error *err)
{
	return claims_put(claims, CLAIMS_CLAIM, json, true, err);
}

int claims_remove(struct claims *claims, enum claims_kind kind, const char *ns, const char *name)
{
	char room[CLAIMS_KEY_MAX];
	struct claims_entry *entry = claims_find(claims, kind, claims_key(kind, ns, name, room));

	if (!entry)
		return -ENOENT;
	HASH_DEL(claims->objects[kind], entry);
	claims_drop_assumed(claims, entry);
	claims_end_ending(claims, entry);
	if (entry->claim)
		claims_uncount(claims, entry);
	claims_entry_free(entry);
	claims->is_index_old |= kind == CLAIMS_SLICE;
	claims->slices_version += kind == CLAIMS_SLICE;
	return 0;
}

/* ---- indexes ---- */

static int claims_compare_pools(const void *pa, const void *pb)
{
	const struct slice *a = *(const struct slice *const *)pa;
	const struct slice *b = *(const struct slice *const *)pb;
	int r = strcmp(a->driver, b->driver);

	r = r ? r : strcmp(a->pool, b->pool);
	return r ? r : strcmp(a->name, b->name);
}

static int claims_compare_nodes(const void *pa, const void *pb)
{
	const struct claims_slot *a = pa, *b = pb;
	const int r = strcmp(slice_node(a->slice), slice_node(b->slice));

	return r ? r : claims_compare_pools(&a->slice, &b->slice);
}

static bool claims_is_same_pool(const struct slice *a, const struct slice *b)
{
	return !strcmp(a->driver, b->driver) && !strcmp(a->pool, b->pool);
}

static int claims_index(struct claims *claims)
{
	const uint32_t n = HASH_COUNT(claims->objects[CLAIMS_SLICE]);
	const struct claims_entry *entry;
	uint32_t i = 0;

	claims_drop_index(claims);
	claims->by_pool = calloc(n + 1ul, sizeof(const struct slice *));
	claims->by_node = calloc(n + 1ul, sizeof(*claims->by_node));
	claims->pool_starts = calloc(n + 2ul, sizeof(*claims->pool_starts));
	if (!claims->by_pool || !claims->by_node || !claims->pool_starts)
		return -ENOMEM;
	claims->n_slices = n;
	claims->has_packed = false;
	for (entry = claims->objects[CLAIMS_SLICE]; entry; entry = entry->hh.next)
		claims->by_pool[i++] = entry->slice;
	qsort(claims->by_pool, n, sizeof(const struct slice *), claims_compare_pools);
	for (i = 0; i < n; i++) {
		if (!i || !claims_is_same_pool(claims->by_pool[i - 1], claims->by_pool[i]))
			claims->pool_starts[claims->n_pools++] = i;
		claims->by_node[i] = (struct claims_slot){claims->by_pool[i], claims->n_pools - 1};
		claims->has_packed |= claims->packing.driver &&
			!strcmp(claims->by_pool[i]->driver, claims->packing.driver);
	}
	claims->pool_starts[claims->n_pools] = n;
	qsort(claims->by_node, n, sizeof(*claims->by_node), claims_compare_nodes);
	claims->is_index_old = false;
	return 0;
}

const struct device *claims_find_device(
	const struct claims *claims, const char *driver, const char *pool, const char *name)
{
	const struct device *found = NULL;
	uint32_t low = 0, high = claims->n_slices;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;
		int r = strcmp(claims->by_pool[middle]->driver, driver);

		r = r ? r : strcmp(claims->by_pool[middle]->pool, pool);
		if (r < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < claims->n_slices; low++) {
		const struct slice *slice = claims->by_pool[low];

		if (strcmp(slice->driver, driver) != 0 || strcmp(slice->pool, pool) != 0)
			break;
		for (uint32_t i = 0; i < slice->n_devices; i++)
			if (!strcmp(slice->devices[i].name, name) &&
				(!found || found->slice->generation < slice->generation))
				found = &slice->devices[i];
	}
	return found;
}

int claims_refresh(struct claims *claims)
{
	struct claims_entry *entry;

	if (claims->is_index_old && claims_index(claims) < 0)
		return -ENOMEM;
	if (!claims->are_uses_old)
		return 0;
	claims_drop_uses(claims);
	claims->are_uses_old = false;
	for (entry = claims->objects[CLAIMS_CLAIM]; entry; entry = entry->hh.next) {
		entry->is_counted = false;
		claims_recount(claims, entry);
	}
	return claims->are_uses_old ? -ENOMEM : 0;
}
