/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assumed allocations: the devices that a pod's claims have before the API shows them. Several
 * places can hold one assumption, which ends with the last of them, unless the API may have the
 * allocation. Pure; one thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "claims/claims-internal.h"

#define CLAIMS_FINALIZER "resource.kubernetes.io/delete-protection"

struct claims_held {
	char *key, *uid, *name;
	json_t *allocation; /* NULL: the API had it */
	bool has_finalizer;
};

struct claims_place {
	struct claims_held *v;
	uint32_t n;
};

static bool claim_has_finalizer(const struct resource_claim *claim)
{
	const json_t *list = json_object_get(
		json_object_get(claim->json, "metadata"), "finalizers");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));

		if (name && !strcmp(name, CLAIMS_FINALIZER))
			return true;
	}
	return false;
}

static void claims_place_free(struct claims_place *place)
{
	for (uint32_t i = 0; place && i < place->n; i++) {
		free(place->v[i].key);
		free(place->v[i].uid);
		free(place->v[i].name);
		json_decref(place->v[i].allocation);
	}
	if (place)
		free(place->v);
	free(place);
}

/* Remembers the chosen devices as the claim's allocation. */
static int claims_assume_one(struct claims_search *search, struct claims_entry *entry,
	const struct claim_result *result, const char *node, const char *time)
{
	json_t *json = allocate_format(search->claims, entry->claim, result, node, time);

	if (!json)
		return -ENOMEM;
	if (allocation_read(&entry->assumed_arena, json, &entry->assumed, NULL) < 0) {
		json_decref(json);
		entry->assumed.json = NULL;
		return -ENOMEM;
	}
	entry->assumed_user = search->name ? str_dup(str_from(search->name)) : NULL;
	claims_recount(search->claims, entry);
	return 0;
}

/* Adds the claim to the place, which holds the assumption about it. */
static int claims_place_add(struct claims_place *place, struct claims_entry *entry)
{
	struct claims_held *held = &place->v[place->n++];
	const bool is_assumed = !entry->claim->allocation.json;

	held->key = str_dup(str_from(entry->key));
	held->uid = str_dup(str_from(entry->claim->uid));
	held->name = str_dup(str_from(entry->claim->name));
	held->has_finalizer = claim_has_finalizer(entry->claim);
	if (is_assumed)
		held->allocation = json_incref(entry->assumed.json);
	entry->n_assumed += is_assumed;
	return held->key && held->uid && held->name ? 0 : -ENOMEM;
}

int claims_assume(struct claims_search *search, const struct claims_node *node, const char *time,
	struct claims_place **ret, struct error *err)
{
	struct claims_place *place = calloc(1, sizeof(*place));
	struct arena arena = {.total = 0};
	struct claims_choice choice = {.v = NULL};
	const char *why;
	int r = place ? 0 : -ENOMEM;

	if (place)
		place->v = calloc(search->n + 1ul, sizeof(*place->v));
	if (!place || !place->v)
		r = fail(err, ENOMEM, "out of memory");
	else if (!claims_search_reaches(search, node, &why))
		r = fail(err, ENOSPC, "%s", why);
	else if (search->wanted.n)
		r = allocate(&arena, search->claims, node, &search->wanted, &choice, err);
	for (uint32_t i = 0; r == 0 && i < search->wanted.n; i++)
		r = claims_assume_one(search, search->entries[search->wanted_at[i]], &choice.v[i],
			node->name, time);
	/*
	 * All claims of the place, or of the failed attempt, are held, so that the release ends it.
	 */
	for (uint32_t i = 0; r == 0 && i < search->n; i++)
		if (claims_place_add(place, search->entries[i]) < 0)
			r = fail(err, ENOMEM, "out of memory");
	arena_done(&arena);
	if (r < 0) {
		for (uint32_t i = 0; i < search->wanted.n; i++)
			if (!search->entries[search->wanted_at[i]]->n_assumed)
				claims_drop_assumed(
					search->claims, search->entries[search->wanted_at[i]]);
		claims_release(search->claims, place);
		return r;
	}
	*ret = place;
	return 0;
}

void claims_release(struct claims *claims, struct claims_place *place)
{
	for (uint32_t i = 0; place && i < place->n; i++) {
		const struct claims_held *held = &place->v[i];
		struct claims_entry *entry = held->key && held->allocation
			? claims_find(claims, CLAIMS_CLAIM, held->key)
			: NULL;

		/* The entry may have lost the assumption since, and may have got another one. */
		if (!entry || !entry->assumed.json || entry->assumed.json != held->allocation)
			continue;
		if (entry->n_assumed)
			entry->n_assumed--;
		claims_drop_unheld(claims, entry);
	}
	claims_place_free(place);
}

bool claims_place_is_free(struct claims *claims, const struct claims_place *place)
{
	if (claims_refresh(claims) < 0)
		return false;
	for (uint32_t i = 0; place && i < place->n; i++) {
		const struct claims_entry *entry = place->v[i].allocation
			? claims_find(claims, CLAIMS_CLAIM, place->v[i].key)
			: NULL;

		if (entry && entry->assumed.json && claims_is_exceeded(claims, &entry->assumed))
			return false;
	}
	return true;
}

void claims_begin_write(struct claims *claims, const char *ns, const char *name)
{
	char key[CLAIMS_KEY_MAX];
	struct claims_entry *entry = claims_find(
		claims, CLAIMS_CLAIM, claims_key(CLAIMS_CLAIM, ns, name, key));

	if (entry)
		entry->n_writes++;
}

void claims_end_write(struct claims *claims, const char *ns, const char *name, bool is_unclear)
{
	char key[CLAIMS_KEY_MAX];
	struct claims_entry *entry = claims_find(
		claims, CLAIMS_CLAIM, claims_key(CLAIMS_CLAIM, ns, name, key));

	/* A claim that was deleted meanwhile has no writes, nor has its successor. */
	if (!entry || !entry->n_writes)
		return;
	entry->n_writes--;
	entry->is_kept |= is_unclear && entry->assumed.json;
	claims_drop_unheld(claims, entry);
}

bool claims_place_is_ready(struct claims *claims, const struct claims_place *place)
{
	const char *device, *condition;

	for (uint32_t i = 0; place && i < place->n; i++) {
		const struct claims_entry *entry = claims_find(
			claims, CLAIMS_CLAIM, place->v[i].key);

		if (entry &&
			resource_claim_binding(entry->claim, NULL, &device, &condition) !=
				CLAIM_READY)
			return false;
	}
	return true;
}

uint32_t claims_place_count(const struct claims_place *place)
{
	return place ? place->n : 0;
}

void claims_place_get(const struct claims_place *place, uint32_t i, struct claims_write *ret)
{
	const struct claims_held *held = &place->v[i];

	*ret = (struct claims_write){held->name, held->uid, held->allocation, held->has_finalizer};
}

const char *claims_place_version(
	struct claims *claims, const struct claims_place *place, uint32_t i)
{
	const struct claims_entry *entry = claims_find(claims, CLAIMS_CLAIM, place->v[i].key);

	return entry && !strcmp(entry->claim->uid, place->v[i].uid) ? entry->claim->version : NULL;
}
