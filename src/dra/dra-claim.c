/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a ResourceClaim as tenants: see dra-claim.h. The allocation is the API server's, but its
 * values are checked again, since they become a tenant. The results come in the order of the
 * allocation, so of several devices of a request the first one is the tenant's first device.
 */
#include "dra/dra-claim.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "kube/kube-json.h"

/* The part of its device that one result gives. */
struct part {
	uint32_t place; /* index into the tenant's places */
	enum dra_kind kind;
	uint64_t permille, bytes;
};

bool dra_device_name(enum dra_kind kind, const char *uuid, char ret[static DRA_DEVICE])
{
	const char *prefix = kind == DRA_WHOLE ? "gpu-" : "share-";
	size_t n = strlen(prefix);

	if (!strncmp(uuid, "GPU-", 4))
		uuid += 4;
	if (!*uuid || n + strlen(uuid) >= DRA_DEVICE)
		return false;
	memcpy(ret, prefix, n);
	for (; *uuid; uuid++) {
		const char c = (char)tolower((unsigned char)*uuid);

		if (!isalnum((unsigned char)c) && c != '-')
			return false;
		ret[n++] = c;
	}
	ret[n] = '\0';
	return ret[n - 1] != '-';
}

struct dra_claim *dra_claim_new(uint32_t n_tenants)
{
	struct dra_claim *claim = calloc(1, sizeof(*claim) + n_tenants * sizeof(claim->tenants[0]));

	for (uint32_t i = 0; claim && i < n_tenants; i++)
		claim->tenants[i].slot = DRA_NO_SLOT;
	return claim;
}

void dra_claim_free(struct dra_claim *claim)
{
	free(claim);
}

static int copy(char *to, size_t size, const json_t *from, const char *key, struct error *err)
{
	const char *text = kube_json_text_at(from, key, NULL);

	if (!text || str_copy(to, size, str_from(text)) < 0)
		return fail(err, EINVAL, "%s '%.80s': expected a text of at most %zu bytes", key,
			text ? text : "", size - 1);
	return 0;
}

/* ---- one result ---- */

static const struct dra_known *find_device(
	const struct dra_inventory *inventory, const char *device, enum dra_kind *ret_kind)
{
	char name[DRA_DEVICE];

	for (size_t i = 0; i < inventory->n; i++)
		for (enum dra_kind kind = DRA_WHOLE; kind <= DRA_SHARED; kind++)
			if (dra_device_name(kind, inventory->devices[i].uuid, name) &&
				!strcmp(name, device)) {
				*ret_kind = kind;
				return &inventory->devices[i];
			}
	return NULL;
}

static int read_part(const json_t *result, const struct dra_known *known, enum dra_kind kind,
	struct part *ret, struct error *err)
{
	struct claim_capacity capacity = {0};
	int r;

	*ret = (struct part){
		.kind = kind, .permille = SPEC_SHARE_ONE, .bytes = known->usable_bytes};
	if (kind == DRA_WHOLE)
		return 0;
	r = claim_capacity_read(json_object_get(result, "consumedCapacity"), &capacity, err);
	if (r < 0)
		return r;
	/* Each result of a shared device has both capacities, even if the claim named none. */
	if (!capacity.share_permille || !capacity.memory_bytes)
		return fail(err, EINVAL, "device %s: the allocation lacks its %s capacity",
			kube_json_text(result, "device"),
			capacity.share_permille ? CLAIM_CAPACITY_MEMORY : CLAIM_CAPACITY_SHARE);
	ret->permille = capacity.share_permille;
	ret->bytes = capacity.memory_bytes;
	return 0;
}

/* ---- tenants ---- */

/* The tenant of the request; NULL: the claim has no room for it. */
static struct dra_tenant *find_tenant(struct dra_claim *claim, const char *request, uint32_t *ret)
{
	const size_t n = strcspn(request, "/");
	struct dra_tenant *t;

	for (uint32_t i = 0; i < claim->n_tenants; i++)
		if (strlen(claim->tenants[i].request) == n &&
			!strncmp(claim->tenants[i].request, request, n)) {
			*ret = i;
			return &claim->tenants[i];
		}
	*ret = claim->n_tenants++;
	t = &claim->tenants[*ret];
	memcpy(t->request, request, n); /* calloc() has ended the text */
	memcpy(t->full_request, request, strlen(request));
	t->spec.count = 0;
	return t;
}

/* The place of that device, which is added if the tenant does not have the device yet. */
static int find_place(
	struct dra_tenant *t, const struct dra_known *known, uint32_t *ret, struct error *err)
{
	for (uint32_t i = 0; i < t->spec.count; i++)
		if (!strcmp(t->places[i].uuid, known->uuid)) {
			*ret = i;
			return 0;
		}
	if (t->spec.count == SPEC_DEVICES_MAX)
		return fail(err, EINVAL, "request %s: at most %u devices", t->request,
			SPEC_DEVICES_MAX);
	*ret = t->spec.count++;
	return str_copy(t->places[*ret].uuid, DRA_UUID, str_from(known->uuid)) < 0
		? fail(err, EINVAL, "device '%.40s...': its UUID is too long", known->uuid)
		: 0;
}

struct reader {
	struct dra_claim *claim;
	const struct dra_inventory *inventory;
	const json_t *configs, *annotations;
	/* Sums by tenant and place. */
	uint64_t permille[DRA_SHARES_MAX][SPEC_DEVICES_MAX];
	bool is_whole[DRA_SHARES_MAX];
};

static int add_part(struct reader *r, const struct dra_share *share, const struct dra_known *known,
	const struct part *part, struct error *err)
{
	struct dra_tenant *t = &r->claim->tenants[share->tenant];
	uint32_t place = 0;
	int e = find_place(t, known, &place, err);

	if (e < 0)
		return e;
	r->permille[share->tenant][place] += part->permille;
	t->places[place].quota_bytes += part->bytes;
	r->is_whole[share->tenant] |= part->kind == DRA_WHOLE;
	if (r->permille[share->tenant][place] > SPEC_SHARE_ONE ||
		t->places[place].quota_bytes > known->usable_bytes)
		return fail(err, EINVAL, "request %s: more than the whole of device %s", t->request,
			share->device);
	return 0;
}

static int read_result(struct reader *r, const json_t *result, struct error *err)
{
	struct dra_claim *claim = r->claim;
	struct dra_share *share = &claim->shares[claim->n_shares];
	const char *id = kube_json_text_at(result, "shareID", NULL);
	const struct dra_known *known;
	enum dra_kind kind;
	struct part part;
	int e = copy(share->request, sizeof(share->request), result, "request", err);

	e = e < 0 ? e : copy(share->pool, sizeof(share->pool), result, "pool", err);
	e = e < 0 ? e : copy(share->device, sizeof(share->device), result, "device", err);
	if (e >= 0 && id && str_copy(share->share_id, sizeof(share->share_id), str_from(id)) < 0)
		e = fail(err, EINVAL, "shareID '%.80s': too long", id);
	if (e < 0)
		return e;
	if (json_is_true(json_object_get(result, "adminAccess")))
		return fail(err, EINVAL,
			"request %s: adminAccess is not possible with driver " CLAIM_DRIVER
			", whose devices need no administrator's claim: use 'divvy top' on the node",
			share->request);
	known = strcmp(share->pool, r->inventory->pool)
		? NULL
		: find_device(r->inventory, share->device, &kind);
	if (!known)
		return fail(err, ENODEV, "this node has no device %s in pool %.80s", share->device,
			share->pool);
	e = read_part(result, known, kind, &part, err);
	if (e < 0)
		return fail_within(err, e, "request %s", share->request);
	find_tenant(claim, share->request, &share->tenant);
	claim->n_shares++;
	return add_part(r, share, known, &part, err);
}

/* All devices of a tenant have the same share and memory. */
static int finish_tenant(struct reader *r, uint32_t index, struct error *err)
{
	struct dra_tenant *t = &r->claim->tenants[index];
	const uint64_t *permille = r->permille[index];
	const struct claim_grant grant = {
		.request = t->full_request,
		.count = t->spec.count,
		.is_whole = r->is_whole[index],
		.capacity = {r->is_whole[index] ? 0 : (uint32_t)permille[0],
			r->is_whole[index] ? 0 : t->places[0].quota_bytes},
	};

	for (uint32_t i = 1; i < t->spec.count; i++)
		if (permille[i] != permille[0])
			return fail(err, EINVAL,
				"request %s: %llu milli of one device and %llu of another; give "
				"each share its own device by a constraint with distinctAttribute",
				t->request, (unsigned long long)permille[0],
				(unsigned long long)permille[i]);
	return claim_config_read(r->configs, r->annotations, &grant, &t->spec, err);
}

/* ---- the claim ---- */

static int read_pod(const json_t *object, struct dra_claim *claim, struct error *err)
{
	json_t *all = kube_json_at(object, "status", "reservedFor", NULL), *one;
	size_t i;
	int r;

	json_array_foreach(all, i, one) {
		if (strcmp(kube_json_text(one, "resource"), "pods") != 0)
			continue;
		r = copy(claim->pod, sizeof(claim->pod), one, "name", err);
		return r < 0 ? r : copy(claim->pod_uid, sizeof(claim->pod_uid), one, "uid", err);
	}
	return fail(err, ENODATA, "the claim is reserved for no pod");
}

static int read_results(struct reader *r, const json_t *object, struct error *err)
{
	json_t *all = kube_json_at(object, "status", "allocation", "devices", "results", NULL);
	json_t *one;
	size_t i;
	int e = 0;

	json_array_foreach(all, i, one) {
		if (strcmp(kube_json_text(one, "driver"), CLAIM_DRIVER) != 0)
			continue;
		if (r->claim->n_shares == DRA_SHARES_MAX)
			return fail(err, EINVAL, "more than %u devices", DRA_SHARES_MAX);
		e = read_result(r, one, err);
		if (e < 0)
			return e;
	}
	if (!r->claim->n_shares)
		return fail(err, ENODATA, "the claim has no device of driver " CLAIM_DRIVER);
	for (uint32_t k = 0; e >= 0 && k < r->claim->n_tenants; k++)
		e = finish_tenant(r, k, err);
	return e;
}

/* Gives back the room of tenants that the claim does not have: it is 90 KB for each claim. */
static struct dra_claim *claim_fit(struct dra_claim *claim)
{
	struct dra_claim *fit = realloc(
		claim, sizeof(*claim) + claim->n_tenants * sizeof(claim->tenants[0]));

	return fit ? fit : claim;
}

int dra_claim_read(const json_t *object, const char *uid, const struct dra_inventory *inventory,
	struct dra_claim **ret_claim, struct error *err)
{
	_cleanup_dra_claim_ struct dra_claim *claim = dra_claim_new(DRA_SHARES_MAX);
	const json_t *meta = json_object_get(object, "metadata");
	_cleanup_free_ struct reader *reader = calloc(1, sizeof(*reader));
	int r;

	if (!claim || !reader)
		return fail(err, ENOMEM, "out of memory");
	if (strcmp(kube_json_text(meta, "uid"), uid) != 0)
		return fail(err, ESTALE, "the claim of this name has uid '%.64s', not '%.64s'",
			kube_json_text(meta, "uid"), uid);
	r = copy(claim->space, sizeof(claim->space), meta, "namespace", err);
	r = r < 0 ? r : copy(claim->name, sizeof(claim->name), meta, "name", err);
	r = r < 0 ? r : copy(claim->uid, sizeof(claim->uid), meta, "uid", err);
	if (r >= 0 && !kube_json_at(object, "status", "allocation", NULL))
		r = fail(err, ENODATA, "the claim is not allocated");
	r = r < 0 ? r : read_pod(object, claim, err);
	*reader = (struct reader){.claim = claim,
		.inventory = inventory,
		.configs = kube_json_at(object, "status", "allocation", "devices", "config", NULL),
		.annotations = json_object_get(meta, "annotations")};
	r = r < 0 ? r : read_results(reader, object, err);
	if (r < 0)
		return r;
	*ret_claim = claim_fit(TAKE_PTR(claim));
	return 0;
}

static bool tenant_has_same_devices(const struct dra_tenant *a, const struct dra_tenant *b)
{
	if (strcmp(a->full_request, b->full_request) != 0 || a->spec.count != b->spec.count ||
		a->spec.request != b->spec.request)
		return false;
	for (uint32_t i = 0; i < a->spec.count; i++)
		if (strcmp(a->places[i].uuid, b->places[i].uuid) != 0 ||
			a->places[i].quota_bytes != b->places[i].quota_bytes)
			return false;
	return true;
}

bool dra_claim_has_same_devices(const struct dra_claim *a, const struct dra_claim *b)
{
	if (a->n_shares != b->n_shares || a->n_tenants != b->n_tenants)
		return false;
	for (uint32_t i = 0; i < a->n_shares; i++) {
		const struct dra_share *x = &a->shares[i], *y = &b->shares[i];

		if (strcmp(x->request, y->request) != 0 || strcmp(x->pool, y->pool) != 0 ||
			strcmp(x->device, y->device) != 0 || strcmp(x->share_id, y->share_id) != 0)
			return false;
	}
	for (uint32_t i = 0; i < a->n_tenants; i++)
		if (!tenant_has_same_devices(&a->tenants[i], &b->tenants[i]))
			return false;
	return true;
}

bool dra_pod_has_claim(const json_t *pod, const char *claim)
{
	const json_t *status = json_object_get(pod, "status");

	return kube_json_find(kube_json_at(pod, "spec", "resourceClaims", NULL),
		       "resourceClaimName", claim) ||
		kube_json_find(json_object_get(status, "resourceClaimStatuses"),
			"resourceClaimName", claim) ||
		!strcmp(kube_json_text(json_object_get(status, "extendedResourceClaimStatus"),
				"resourceClaimName"),
			claim);
}
