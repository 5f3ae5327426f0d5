/* SPDX-License-Identifier: Apache-2.0 */
#include "dra/dra-checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kube/kube-json.h"
#include "unit.h"

#define GIB (UINT64_C(1) << 30)

static struct {
	struct dra_claim *claims[4];
	size_t n;
} found;

static void found_add(void *data, struct dra_claim *claim)
{
	assert_true(found.n < ARRAY_SIZE(found.claims));
	found.claims[found.n++] = claim;
}

static int tear_down(void **state)
{
	for (size_t i = 0; i < found.n; i++)
		dra_claim_free(found.claims[i]);
	found.n = 0;
	return 0;
}

static struct dra_claim *claim_new(const char *name)
{
	struct dra_claim *claim = dra_claim_new(2);
	struct error err;

	assert_non_null(claim);
	snprintf(claim->space, sizeof(claim->space), "team-a");
	snprintf(claim->name, sizeof(claim->name), "%s", name);
	snprintf(claim->uid, sizeof(claim->uid), "uid-%s", name);
	snprintf(claim->pod, sizeof(claim->pod), "trainer-0");
	snprintf(claim->pod_uid, sizeof(claim->pod_uid), "pod-uid");
	claim->n_tenants = claim->n_shares = 2;
	for (uint32_t i = 0; i < 2; i++) {
		struct dra_tenant *t = &claim->tenants[i];
		struct dra_share *s = &claim->shares[i];

		snprintf(t->request, sizeof(t->request), "r%u", i);
		snprintf(t->full_request, sizeof(t->full_request), "r%u/half", i);
		t->slot = 3 + i;
		spec_init(&t->spec);
		t->spec.request = 250;
		t->spec.class = SPEC_LATENCY;
		t->spec.count = 1;
		assert_ok(spec_finish(&t->spec, &err));
		snprintf(t->places[0].uuid, sizeof(t->places[0].uuid), "GPU-%u", i);
		t->places[0].quota_bytes = (1 + i) * GIB;
		snprintf(s->request, sizeof(s->request), "r%u/half", i);
		snprintf(s->pool, sizeof(s->pool), "node-1");
		snprintf(s->device, sizeof(s->device), "share-%u", i);
		snprintf(s->share_id, sizeof(s->share_id), "%s", i ? "" : "share-id");
		s->tenant = i;
	}
	return claim;
}

/* The checkpoint of these claims. */
static json_t *list_of(struct dra_claim *a, struct dra_claim *b)
{
	json_t *list = json_array();

	json_array_append_new(list, checkpoint_claim(a));
	json_array_append_new(list, checkpoint_claim(b));
	return list;
}

static void claims_come_back(void **state)
{
	_cleanup_dra_claim_ struct dra_claim *a = claim_new("a"), *b = claim_new("b");
	_cleanup_json_ json_t *list = list_of(a, b);
	_cleanup_buf_ struct buf text = BUF_INIT(CHECKPOINT_MAX);
	struct error err;

	assert_ok(checkpoint_format(list, &text));
	assert_ok(checkpoint_read(buf_str(&text), found_add, NULL, &err));
	assert_int_equal(found.n, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct dra_claim *is = found.claims[i], *was = i ? b : a;

		assert_string_equal(is->space, was->space);
		assert_string_equal(is->name, was->name);
		assert_string_equal(is->uid, was->uid);
		assert_string_equal(is->pod, was->pod);
		assert_string_equal(is->pod_uid, was->pod_uid);
		assert_int_equal(is->n_tenants, 2);
		assert_int_equal(is->n_shares, 2);
		for (uint32_t k = 0; k < 2; k++) {
			assert_true(spec_is_same(&is->tenants[k].spec, &was->tenants[k].spec));
			assert_int_equal(is->tenants[k].slot, 3 + k);
			assert_string_equal(
				is->tenants[k].full_request, was->tenants[k].full_request);
			assert_string_equal(
				is->tenants[k].places[0].uuid, was->tenants[k].places[0].uuid);
			assert_int_equal(is->tenants[k].places[0].quota_bytes, (1 + k) * GIB);
			assert_string_equal(is->shares[k].device, was->shares[k].device);
			assert_string_equal(is->shares[k].share_id, was->shares[k].share_id);
			assert_int_equal(is->shares[k].tenant, k);
		}
	}
}

static void a_faulty_claim_does_not_hide_the_others(void **state)
{
	static const char *const faults[] = {"uid", "tenants", "results"};
	_cleanup_dra_claim_ struct dra_claim *a = claim_new("a"), *b = claim_new("b");

	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		_cleanup_json_ json_t *list = list_of(a, b);
		_cleanup_buf_ struct buf text = BUF_INIT(CHECKPOINT_MAX);
		struct error err;

		json_object_del(json_array_get(list, 0), faults[i]);
		assert_ok(checkpoint_format(list, &text));
		assert_int_equal(checkpoint_read(buf_str(&text), found_add, NULL, &err), -EINVAL);
		assert_contains(err.msg, "claims[0]");
		assert_int_equal(found.n, 1);
		assert_string_equal(found.claims[0]->name, "b");
		tear_down(NULL);
	}
}

static void numbers_are_checked(void **state)
{
	_cleanup_dra_claim_ struct dra_claim *a = claim_new("a"), *b = claim_new("b");
	_cleanup_json_ json_t *list = list_of(a, b);
	json_t *first = json_array_get(list, 0),
	       *tenant = json_array_get(json_object_get(first, "tenants"), 0),
	       *result = json_array_get(json_object_get(first, "results"), 0);
	const struct {
		json_t *at;
		const char *key;
	} numbers[] = {{tenant, "slot"}, {result, "tenant"},
		{json_array_get(json_object_get(tenant, "devices"), 0), "quota"}};

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		_cleanup_json_ json_t *before = json_incref(
			json_object_get(numbers[i].at, numbers[i].key));
		_cleanup_buf_ struct buf text = BUF_INIT(CHECKPOINT_MAX);
		struct error err;

		json_object_set_new(numbers[i].at, numbers[i].key, json_integer(-1));
		assert_ok(checkpoint_format(list, &text));
		assert_int_equal(checkpoint_read(buf_str(&text), found_add, NULL, &err), -EINVAL);
		assert_contains(err.msg, numbers[i].key);
		json_object_set(numbers[i].at, numbers[i].key, before);
		tear_down(NULL);
	}
}

static void other_texts_are_no_checkpoint(void **state)
{
	struct error err;

	assert_int_equal(checkpoint_read(STR(""), found_add, NULL, &err), -EBADMSG);
	assert_int_equal(checkpoint_read(STR("{}"), found_add, NULL, &err), -EBADMSG);
	assert_int_equal(
		checkpoint_read(STR("{\"version\": 2, \"claims\": []}"), found_add, NULL, &err),
		-EBADMSG);
	assert_int_equal(found.n, 0);
	assert_ok(checkpoint_read(STR("{\"version\": 1, \"claims\": []}"), found_add, NULL, &err));
}

static void the_text_has_a_limit(void **state)
{
	_cleanup_dra_claim_ struct dra_claim *a = claim_new("a"), *b = claim_new("b");
	_cleanup_json_ json_t *list = list_of(a, b);
	_cleanup_buf_ struct buf text = BUF_INIT(100);

	assert_int_equal(checkpoint_format(list, &text), -EMSGSIZE);
}

#define RIGGED(fn) cmocka_unit_test_teardown(fn, tear_down)

UNIT_MAIN(RIGGED(claims_come_back), RIGGED(a_faulty_claim_does_not_hide_the_others),
	RIGGED(numbers_are_checked), RIGGED(other_texts_are_no_checkpoint),
	RIGGED(the_text_has_a_limit))
