/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds the objects of resource.k8s.io, and finds and assumes devices for pods. A new version of a
 * claim keeps the assumption about the old one, unless the new one has another uid or shows an
 * allocation. The indexes over slices are made again when they are needed after a change. The uses
 * of devices follow each change of a claim, since claims change all the time.
 */
#include "claims/claims.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "claims/claims-internal.h"

#define CLAIMS_KEY_MAX 512u
#define CLAIMS_FINALIZER "resource.kubernetes.io/delete-protection"

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
	free(entry->key);
	free(entry);
}
DEFINE_CLEANUP(struct claims_entry *, claims_entry_free)

static void device_use_free(struct device_use *use)
{
	struct amount_sum *sum;

	while ((sum = use->sums)) {
		use->sums = sum->next;
		free(sum->name);
		free(sum);
	}
	free(use->id);
	free(use);
}

static void claims_drop_uses(struct claims *claims)
{
	struct device_use *use, *next;

	HASH_ITER(hh, claims->uses, use, next) {
		HASH_DEL(claims->uses, use);
		device_use_free(use);
	}
}

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
	for (int kind = 0; kind < CLAIMS_KINDS; kind++)
		HASH_ITER(hh, claims->objects[kind], entry, next) {
			HASH_DEL(claims->objects[kind], entry);
			claims_entry_free(entry);
		}
	free(claims);
}

/* ---- uses of devices ---- */

/* Finds the use of the device, or makes one. NULL: out of memory. */
static struct device_use *claims_use_of(struct claims *claims, const struct claim_device *device)
{
	const size_t size = strlen(device->driver) + strlen(device->pool) + strlen(device->device) +
		3;
	_cleanup_free_ char *id = calloc(size, 1);
	struct device_use *use = NULL;

	if (!id)
		return NULL;
	snprintf(id, size, "%s/%s/%s", device->driver, device->pool, device->device);
	HASH_FIND(hh, claims->uses, id, size - 1, use);
	if (use)
		return use;
	use = calloc(1, sizeof(*use));
	if (!use)
		return NULL;
	use->id = TAKE_PTR(id);
	HASH_ADD_KEYPTR(hh, claims->uses, use->id, size - 1, use);
	return use;
}

static int device_use_add(struct device_use *use, const char *name, __int128 nano)
{
	struct amount_sum *sum = use->sums;

	while (sum && strcmp(sum->name, name) != 0)
		sum = sum->next;
	if (!sum) {
		sum = calloc(1, sizeof(*sum));
		if (!sum)
			return -ENOMEM;
		sum->name = str_dup(str_from(name));
		sum->next = use->sums;
		use->sums = sum;
		if (!sum->name)
			return -ENOMEM;
	}
	sum->nano += nano;
	return 0;
}

static int claims_count_device(
	struct claims *claims, const struct claim_device *device, int32_t sign)
{
	struct device_use *use = claims_use_of(claims, device);

	if (!use)
		return -ENOMEM;
	if (device->is_share)
		use->n_shares += (uint32_t)sign;
	else
		use->n_whole += (uint32_t)sign;
	for (uint32_t i = 0; device->is_share && i < device->consumed.n; i++)
		if (device_use_add(use, device->consumed.v[i].name,
			    sign * device->consumed.v[i].amount.nano) < 0)
			return -ENOMEM;
	if (!use->n_shares && !use->n_whole) {
		HASH_DEL(claims->uses, use);
		device_use_free(use);
	}
	return 0;
}

/* Adds the allocation to the uses of its devices (sign 1), or removes it from them (sign -1). */
static void claims_count(struct claims *claims, const struct allocation *allocation, int32_t sign)
{
	for (uint32_t i = 0; allocation && allocation->json && i < allocation->n; i++) {
		if (claims->are_uses_old)
			return;
		if (!allocation->devices[i].is_admin &&
			claims_count_device(claims, &allocation->devices[i], sign) < 0) {
			claims_drop_uses(claims);
			claims->are_uses_old = true;
		}
	}
}

/* ---- objects ---- */

struct claims_entry *claims_find(struct claims *claims, enum claims_kind kind, const char *key)
{
	struct claims_entry *entry = NULL;

	HASH_FIND(hh, claims->objects[kind], key, strlen(key), entry);
	return entry;
}

static const char *claims_key(
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

static void claims_drop_assumed(struct claims *claims, struct claims_entry *entry)
{
	claims_count(claims, &entry->assumed, -1);
	json_decref(entry->assumed.json);
	arena_done(&entry->assumed_arena);
	entry->assumed = (struct allocation){.json = NULL};
	entry->assumed_arena = (struct arena){.total = 0};
	entry->n_assumed = 0;
	entry->is_kept = false;
}

/* Ends the assumption if nothing holds it. */
static void claims_drop_unheld(struct claims *claims, struct claims_entry *entry)
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

/*
 * Whether the claim is an older version of the known one, or the same. The watch shows the versions
 * again that answers to writes have shown, and those say nothing about a later write.
 */
static bool claims_is_known(const struct resource_claim *claim, const struct resource_claim *known)
{
	const size_t n = strlen(claim->version), n_known = strlen(known->version);

	if (strcmp(claim->uid, known->uid) != 0 || !n)
		return false;
	return n != n_known ? n < n_known : strcmp(claim->version, known->version) <= 0;
}

/* Counts the allocation that the API shows. */
static void claims_count_claim(
	struct claims *claims, const struct claims_entry *entry, int32_t sign)
{
	if (entry->claim)
		claims_count(claims, &entry->claim->allocation, sign);
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
	claims_count_claim(claims, entry, -1);
	slice_free(entry->slice);
	device_class_free(entry->class);
	resource_claim_free(entry->claim);
	json_decref(entry->rule_json);
	entry->slice = TAKE_PTR(fresh->slice);
	entry->class = TAKE_PTR(fresh->class);
	entry->claim = TAKE_PTR(fresh->claim);
	entry->rule_json = TAKE_PTR(fresh->rule_json);
	entry->rule = fresh->rule;
	claims_count_claim(claims, entry, 1);
}

int claims_set(struct claims *claims, enum claims_kind kind, json_t *json, struct error *err)
{
	const json_t *metadata = json_object_get(json, "metadata");
	const char *ns = json_string_value(json_object_get(metadata, "namespace"));
	const char *name = json_string_value(json_object_get(metadata, "name"));
	_cleanup_(claims_entry_free_p) struct claims_entry *fresh = calloc(1, sizeof(*fresh));
	struct claims_entry *entry;
	char room[CLAIMS_KEY_MAX];
	const char *key;
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
	entry = claims_find(claims, kind, key);
	if (entry && kind == CLAIMS_CLAIM && claims_is_known(fresh->claim, entry->claim))
		return 0;
	if (entry) {
		claims_replace(claims, entry, fresh);
		return 0;
	}
	HASH_ADD_KEYPTR(hh, claims->objects[kind], fresh->key, strlen(fresh->key), fresh);
	claims_count_claim(claims, fresh, 1);
	fresh = NULL;
	return 0;
}

int claims_remove(struct claims *claims, enum claims_kind kind, const char *ns, const char *name)
{
	char room[CLAIMS_KEY_MAX];
	struct claims_entry *entry = claims_find(claims, kind, claims_key(kind, ns, name, room));

	if (!entry)
		return -ENOENT;
	HASH_DEL(claims->objects[kind], entry);
	claims_drop_assumed(claims, entry);
	claims_count_claim(claims, entry, -1);
	claims_entry_free(entry);
	claims->is_index_old |= kind == CLAIMS_SLICE;
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
	for (entry = claims->objects[CLAIMS_SLICE]; entry; entry = entry->hh.next)
		claims->by_pool[i++] = entry->slice;
	qsort(claims->by_pool, n, sizeof(const struct slice *), claims_compare_pools);
	for (i = 0; i < n; i++) {
		if (!i || !claims_is_same_pool(claims->by_pool[i - 1], claims->by_pool[i]))
			claims->pool_starts[claims->n_pools++] = i;
		claims->by_node[i] = (struct claims_slot){claims->by_pool[i], claims->n_pools - 1};
	}
	claims->pool_starts[claims->n_pools] = n;
	qsort(claims->by_node, n, sizeof(*claims->by_node), claims_compare_nodes);
	claims->is_index_old = false;
	return 0;
}

const struct device_use *claims_use(const struct claims *claims, const char *id)
{
	struct device_use *use = NULL;

	HASH_FIND(hh, claims->uses, id, strlen(id), use);
	return use;
}

int claims_refresh(struct claims *claims)
{
	const struct claims_entry *entry;

	if (claims->is_index_old && claims_index(claims) < 0)
		return -ENOMEM;
	if (!claims->are_uses_old)
		return 0;
	claims_drop_uses(claims);
	claims->are_uses_old = false;
	for (entry = claims->objects[CLAIMS_CLAIM]; entry; entry = entry->hh.next)
		claims_count(claims, claims_entry_allocation(entry), 1);
	return claims->are_uses_old ? -ENOMEM : 0;
}

/* ---- the claims of one pod ---- */

/* The answer about one node. */
struct claims_answer {
	const char *node;
	bool fits;
	const char *why;
	UT_hash_handle hh;
};

struct claims_search {
	struct claims *claims;
	struct arena arena;
	const char *uid; /* of the pod */
	struct claims_entry **entries;
	uint32_t n;
	struct claims_wanted wanted; /* the claims that have no devices yet */
	uint32_t *wanted_at;         /* their positions in entries */
	struct claims_answer *answers;
};

void claims_search_free(struct claims_search *search)
{
	if (!search)
		return;
	for (uint32_t i = 0; i < search->wanted.n; i++)
		resource_claim_forget(search->wanted.v[i]);
	HASH_CLEAR(hh, search->answers);
	arena_done(&search->arena);
	free(search);
}

static int claims_check_classes(
	struct claims *claims, const struct resource_claim *claim, struct error *err)
{
	for (uint32_t i = 0; i < claim->n_requests; i++)
		for (uint32_t k = 0; k < claim->requests[i].n; k++) {
			const struct request *request = &claim->requests[i].choices[k];
			const struct claims_entry *class = claims_find(
				claims, CLAIMS_CLASS, request->class_name);

			if (!class)
				return fail(err, ENOENT,
					"claim %.64s: device class %.64s does not exist",
					claim->name, request->class_name);
			if (class->class->refusal.code) {
				*err = class->class->refusal;
				return fail_within(
					err, -err->code, "device class %.64s", request->class_name);
			}
		}
	return 0;
}

static int claims_check(struct claims *claims, const struct claims_pod *pod,
	const struct claims_name *name, struct claims_entry **ret, struct error *err)
{
	char key[CLAIMS_KEY_MAX];
	struct claims_entry *entry;
	const struct resource_claim *claim;

	if (!name->name)
		return fail(err, EAGAIN, "waits for Kubernetes to make the ResourceClaim for %.64s",
			name->entry);
	entry = claims_find(
		claims, CLAIMS_CLAIM, claims_key(CLAIMS_CLAIM, pod->ns, name->name, key));
	if (!entry)
		return fail(err, ENOENT, "ResourceClaim %.64s does not exist", name->name);
	claim = entry->claim;
	if (claim->is_deleting)
		return fail(err, EAGAIN, "ResourceClaim %.64s is being deleted", name->name);
	if (name->is_owned && strcmp(claim->owner_uid, pod->uid) != 0)
		return fail(
			err, EAGAIN, "ResourceClaim %.64s was not made for this pod", name->name);
	*ret = entry;
	if (claims_entry_allocation(entry))
		return 0;
	if (claim->refusal.code) {
		*err = claim->refusal;
		return fail_within(err, -err->code, "ResourceClaim %.64s", name->name);
	}
	return claims_check_classes(claims, claim, err);
}

bool claims_next_unused(struct claims *claims, const struct claims_pod *pod, uint32_t *at,
	struct claims_unused *ret)
{
	for (; *at < pod->n; ++*at) {
		const struct claims_name *name = &pod->v[*at];
		const struct claims_entry *entry;
		const struct resource_claim *claim;
		char key[CLAIMS_KEY_MAX];

		if (!name->name)
			continue;
		entry = claims_find(
			claims, CLAIMS_CLAIM, claims_key(CLAIMS_CLAIM, pod->ns, name->name, key));
		claim = entry ? entry->claim : NULL;
		if (!claim || !claim->allocation.json || !claim->allocation.nodes.n ||
			claim->is_deleting ||
			(name->is_owned && strcmp(claim->owner_uid, pod->uid) != 0) ||
			resource_claim_is_used_by_others(claim, pod->uid))
			continue;
		*ret = (struct claims_unused){claim->name, claim->uid, claim->version};
		++*at;
		return true;
	}
	return false;
}

/* Adds the claim unless another entry of the pod names the same claim. */
static void claims_search_add(struct claims_search *search, struct claims_entry *entry)
{
	for (uint32_t i = 0; i < search->n; i++)
		if (search->entries[i] == entry)
			return;
	if (!claims_entry_allocation(entry)) {
		search->wanted.v[search->wanted.n] = entry->claim;
		search->wanted_at[search->wanted.n++] = search->n;
	}
	search->entries[search->n++] = entry;
}

/*
 * Replaces what is no UTF-8, since the API server takes no such message: a message can end within a
 * character of a selector.
 */
static void claims_mend_message(struct error *err)
{
	struct str rest = str_from(err->msg);

	while (rest.n) {
		const size_t size = str_utf8(rest);

		if (!size)
			err->msg[rest.p - err->msg] = '?';
		rest = (struct str){rest.p + MAX(size, 1ul), rest.n - MAX(size, 1ul)};
	}
}

int claims_search_new(struct claims *claims, const struct claims_pod *pod,
	struct claims_search **ret, struct error *err)
{
	_cleanup_(claims_search_free_p) struct claims_search *search = calloc(1, sizeof(*search));
	struct error own = {.code = 0};

	err = err ? err : &own;
	if (!search || claims_refresh(claims) < 0)
		return fail(err, ENOMEM, "out of memory");
	search->claims = claims;
	search->uid = pod->uid;
	search->entries = arena_take_array(
		&search->arena, pod->n + 1ul, sizeof(struct claims_entry *));
	search->wanted.steps = CLAIMS_STEPS_MAX;
	search->wanted.v = arena_take_array(
		&search->arena, pod->n + 1ul, sizeof(struct resource_claim *));
	search->wanted_at = arena_take_array(&search->arena, pod->n + 1ul, sizeof(uint32_t));
	if (!search->entries || !search->wanted.v || !search->wanted_at)
		return fail(err, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < pod->n; i++) {
		struct claims_entry *entry = NULL;
		int r = claims_check(claims, pod, &pod->v[i], &entry, err);

		if (r < 0) {
			claims_mend_message(err);
			return r;
		}
		claims_search_add(search, entry);
	}
	if (search->wanted.n > CLAIMS_POD_MAX)
		return fail(err, ENOTSUP, "the pod has more than %u ResourceClaims without devices",
			CLAIMS_POD_MAX);
	*ret = TAKE_PTR(search);
	return 0;
}

/* Whether the node reaches the devices of all claims that have devices. */
static bool claims_search_reaches(
	struct claims_search *search, const struct claims_node *node, const char **ret_why)
{
	for (uint32_t i = 0; i < search->n; i++) {
		const struct allocation *allocation = claims_entry_allocation(search->entries[i]);

		if (!allocation || node_terms_match(&allocation->nodes, node->labels, node->name))
			continue;
		*ret_why = "a ResourceClaim has devices of another node";
		return false;
	}
	return true;
}

/* allocate() within the limit of all searches. */
static int claims_search_allocate(struct claims_search *search, const struct claims_node *node,
	struct arena *arena, struct error *err)
{
	struct claims *claims = search->claims;
	struct claims_wanted wanted = search->wanted;
	struct claim_result *results;
	uint64_t taken;
	int r;

	wanted.steps = MIN(wanted.steps, claims->most_steps - claims->n_steps);
	taken = wanted.steps;
	r = allocate(arena, claims, node, &wanted, &results, err);
	taken -= wanted.steps;
	search->wanted.steps -= taken;
	claims->n_steps += taken;
	return r;
}

static struct claims_answer *claims_search_ask(
	struct claims_search *search, const struct claims_node *node)
{
	struct claims_answer *answer = arena_take(&search->arena, sizeof(*answer));
	struct arena arena = {.total = 0};
	struct error err = {.code = 0};
	int r = 0;

	if (!answer)
		return NULL;
	answer->node = arena_dup(&search->arena, str_from(node->name));
	if (!answer->node)
		return NULL;
	answer->fits = claims_search_reaches(search, node, &answer->why);
	if (answer->fits && search->wanted.n) {
		r = claims_search_allocate(search, node, &arena, &err);
		answer->fits = r == 0;
		claims_mend_message(&err);
		answer->why = r == -ENOSPC ? "no free devices for the pod's ResourceClaims"
					   : arena_dup(&search->arena, str_from(err.msg));
	}
	arena_done(&arena);
	HASH_ADD_KEYPTR(hh, search->answers, answer->node, strlen(answer->node), answer);
	return answer;
}

bool claims_search_fits(
	struct claims_search *search, const struct claims_node *node, const char **ret_why)
{
	struct claims_answer *answer = NULL;

	HASH_FIND(hh, search->answers, node->name, strlen(node->name), answer);
	if (!answer)
		answer = claims_search_ask(search, node);
	if (answer && answer->fits)
		return true;
	*ret_why = answer && answer->why ? answer->why : "out of memory";
	return false;
}

/* ---- assumptions ---- */

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
	claims_count(search->claims, &entry->assumed, 1);
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
	struct claim_result *results = NULL;
	const char *why;
	int r = place ? 0 : -ENOMEM;

	if (place)
		place->v = calloc(search->n + 1ul, sizeof(*place->v));
	if (!place || !place->v)
		r = fail(err, ENOMEM, "out of memory");
	else if (!claims_search_reaches(search, node, &why))
		r = fail(err, ENOSPC, "%s", why);
	else if (search->wanted.n)
		r = allocate(&arena, search->claims, node, &search->wanted, &results, err);
	for (uint32_t i = 0; r == 0 && i < search->wanted.n; i++)
		r = claims_assume_one(search, search->entries[search->wanted_at[i]], &results[i],
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
