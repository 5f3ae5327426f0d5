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

static void found_remove(void *data, const char *uid)
{
	for (size_t i = 0; i < found.n; i++)
		if (!strcmp(found.claims[i]->uid, uid)) {
			dra_claim_free(found.claims[i]);
			found.claims[i] = found.claims[--found.n];
			return;
		}
}

static const struct checkpoint_handler handler = {found_add, found_remove, NULL};

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
static void add_claims(struct buf *out, const struct dra_claim *a, const struct dra_claim *b)
{
	assert_ok(checkpoint_add_version(out));
	assert_ok(checkpoint_add_prepared(out, a));
	assert_ok(checkpoint_add_prepared(out, b));
}

static void claims_come_back(void **state)
{
	_cleanup_dra_claim_ struct dra_claim *a = claim_new("a"), *b = claim_new("b");
	_cleanup_buf_ struct buf text = BUF_INIT(CHECKPOINT_MAX);
	struct error err;
	size_t size;

	add_claims(&text, a, b);
	assert_ok(checkpoint_read(buf_str(&text), &handler, &size, &err));
	assert_int_equal(size, text.n);
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

static void unprepared_claims_stay_away(void **state)
{
	_cleanup_dra_claim_ struct dra_claim *a = claim_new("a"), *b = claim_new("b");
	_cleanup_buf_ struct buf text = BUF_INIT(CHECKPOINT_MAX);
	struct error err;
	size_t size;

	add_claims(&text, a, b);
	assert_ok(checkpoint_add_unprepared(&text, "uid-a"));
	assert_ok(checkpoint_read(buf_str(&text), &handler, &size, &err));
	assert_int_equal(found.n, 1);
	assert_string_equal(found.claims[0]->name, "b");
	tear_down(NULL);
	assert_ok(checkpoint_add_prepared(&text, a));
	assert_ok(checkpoint_read(buf_str(&text), &handler, &size, &err));
	assert_int_equal(found.n, 2);
}

/* A kill leaves any part of the last line. The reader says where the next line has to begin. */
static void a_torn_line_is_left_out(void **state)
{
	_cleanup_dra_claim_ struct dra_claim *a = claim_new("a"), *b = claim_new("b");
	_cleanup_buf_ struct buf text = BUF_INIT(CHECKPOINT_MAX);
	struct error err;
	size_t size, whole;

	assert_ok(checkpoint_add_version(&text));
	assert_ok(checkpoint_add_prepared(&text, a));
	whole = text.n;
	assert_ok(checkpoint_add_prepared(&text, b));
	for (size_t n = whole; n < text.n; n++) {
		assert_ok(checkpoint_read((struct str){text.p, n}, &handler, &size, &err));
		assert_int_equal(size, whole);
		assert_int_equal(found.n, 1);
		tear_down(NULL);
	}
}

/* The text in which the first occurrence of `what` is replaced. */
static void spoil(const struct buf *text, const char *what, const char *with, struct buf *ret)
{
	const char *at = memmem(text->p, text->n, what, strlen(what));

	assert_non_null(at);
	buf_add(ret, (struct str){text->p, (size_t)(at - text->p)});
	buf_add_text(ret, with);
	at += strlen(what);
	assert_ok(buf_add(ret, (struct str){at, (size_t)(text->p + text->n - at)}));
}

static void a_faulty_line_does_not_hide_the_others(void **state)
{
	static const struct {
		const char *what, *with, *sentence;
	} faults[] = {
		{"\"uid\":", "\"uiD\":", "uid"},
		{"\"tenants\":", "\"tenantS\":", "tenants"},
		{"\"results\":", "\"resultS\":", "results"},
		{"\"slot\":3", "\"slot\":-1", "slot"},
		{"\"tenant\":0", "\"tenant\":2", "tenant"},
		{"\"quota\":1073741824", "\"quota\":-1", "quota"},
		{"{\"prepared\":", "{\"prepareD\":", "expected 'prepared'"},
		{"{\"prepared\":", "{{\"prepared\":", "JSON"},
	};
	_cleanup_dra_claim_ struct dra_claim *a = claim_new("a"), *b = claim_new("b");
	_cleanup_buf_ struct buf text = BUF_INIT(CHECKPOINT_MAX);

	add_claims(&text, a, b);
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		_cleanup_buf_ struct buf bad = BUF_INIT(CHECKPOINT_MAX);
		struct error err;
		size_t size;

		spoil(&text, faults[i].what, faults[i].with, &bad);
		assert_int_equal(checkpoint_read(buf_str(&bad), &handler, &size, &err), -EINVAL);
		assert_contains(err.msg, "line 2");
		assert_contains(err.msg, faults[i].sentence);
		assert_int_equal(found.n, 1);
		assert_string_equal(found.claims[0]->name, "b");
		tear_down(NULL);
	}
}

static void other_texts_are_no_checkpoint(void **state)
{
	static const char *const texts[] = {
		"", "{}\n", "{half", "{\"version\":1}", "{\"version\":2}\n"};
	struct error err;
	size_t size;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(
			checkpoint_read(str_from(texts[i]), &handler, &size, &err), -EBADMSG);
	assert_int_equal(found.n, 0);
	assert_ok(checkpoint_read(STR("{\"version\":1}\n"), &handler, &size, &err));
}

static void the_text_has_a_limit(void **state)
{
	_cleanup_dra_claim_ struct dra_claim *a = claim_new("a");
	_cleanup_buf_ struct buf text = BUF_INIT(100);

	assert_int_equal(checkpoint_add_prepared(&text, a), -EMSGSIZE);
}

#define RIGGED(fn) cmocka_unit_test_teardown(fn, tear_down)

UNIT_MAIN(RIGGED(claims_come_back), RIGGED(unprepared_claims_stay_away),
	RIGGED(a_torn_line_is_left_out), RIGGED(a_faulty_line_does_not_hide_the_others),
	RIGGED(other_texts_are_no_checkpoint), RIGGED(the_text_has_a_limit))
