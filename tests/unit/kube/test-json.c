/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>

#include "kube/kube-json.h"
#include "unit-json.h"

static void walks_along_keys(void **state)
{
	_cleanup_json_ json_t *json = NULL;

	assert_ok(kube_json_parse(
		STR("{\"metadata\":{\"labels\":{\"a.b/c\":\"x\"},\"n\":1}}"), &json, NULL));
	assert_string_equal(kube_json_text_at(json, "metadata", "labels", "a.b/c", NULL), "x");
	assert_null(kube_json_text_at(json, "metadata", "n", NULL));
	assert_null(kube_json_text_at(json, "metadata", "n", "deeper", NULL));
	assert_null(kube_json_at(json, "spec", NULL));
	assert_null(kube_json_at(NULL, "spec", NULL));
}

static void reads_integers_that_are_too_large(void **state)
{
	_cleanup_json_ json_t *json = NULL;

	assert_ok(kube_json_parse(STR("{\"a\":100000000000000000000,\"b\":\"99999999999999999999\","
				      "\"c\":-100000000000000000000,\"d\":12,\"e\":1.5e3}"),
		&json, NULL));
	assert_true(json_real_value(json_object_get(json, "a")) == 1e20);
	assert_true(json_real_value(json_object_get(json, "c")) == -1e20);
	assert_string_equal(kube_json_text_at(json, "b", NULL), "99999999999999999999");
	assert_int_equal(json_integer_value(json_object_get(json, "d")), 12);
}

static void hides_texts_with_a_nul(void **state)
{
	_cleanup_json_ json_t *json = NULL;

	assert_ok(kube_json_parse(STR("{\"a\":\"x\\u0000y\"}"), &json, NULL));
	assert_null(kube_json_text_at(json, "a", NULL));
}

static void distinguishes_too_large_from_malformed(void **state)
{
	_cleanup_buf_ struct buf deep = BUF_INIT(100000);
	struct error err;
	json_t *json = NULL;

	assert_int_equal(kube_json_parse(STR("{\"a\":1e999}"), &json, &err), -EOVERFLOW);
	assert_int_equal(kube_json_parse(STR("{\"\\u0000\":1}"), &json, &err), -EOVERFLOW);
	for (int i = 0; i < 3000; i++)
		buf_add_text(&deep, "[");
	for (int i = 0; i < 3000; i++)
		buf_add_text(&deep, "]");
	assert_int_equal(kube_json_parse(buf_str(&deep), &json, &err), -EOVERFLOW);
	assert_int_equal(kube_json_parse(STR("{\"a\":}"), &json, &err), -EBADMSG);
	assert_int_equal(kube_json_parse(STR("{\"a\":\"\xff\"}"), &json, &err), -EBADMSG);
	assert_int_equal(kube_json_parse(STR(""), &json, &err), -EBADMSG);
	assert_null(json);
}

static void cuts_a_member_out(void **state)
{
	const struct str text = STR(
		"{\"kind\":\"}\\\"metadata\", \"spec\":{\"metadata\":{\"a\":1}} , \"metadata\" :"
		" {\"name\":\"x\",\"l\":[1,{\"y\":2}]} , \"z\":1}");

	assert_true(
		str_is(kube_json_member(text, "metadata"), "{\"name\":\"x\",\"l\":[1,{\"y\":2}]}"));
	assert_true(str_is(kube_json_member(text, "z"), "1"));
	assert_null(kube_json_member(text, "none").p);
	assert_null(kube_json_member(STR("{\"metadata\":{"), "metadata").p);
	assert_null(kube_json_member(STR("\"metadata"), "metadata").p);
}

static void finds_items_and_owners(void **state)
{
	_cleanup_json_ json_t *pod = unit_json(
		"{'metadata':{'ownerReferences':[{'uid':'1'},{'uid':'2','controller':true}]},"
		"'status':{'phase':'Failed','conditions':[{},{'type':'Ready','status':'True'}]}}");

	assert_string_equal(kube_json_text(kube_json_condition(pod, "Ready"), "status"), "True");
	assert_string_equal(kube_json_text(kube_json_condition(pod, "Other"), "status"), "");
	assert_null(kube_json_find(NULL, "type", "Ready"));
	assert_string_equal(kube_json_text(kube_json_controller(pod), "uid"), "2");
	assert_null(kube_json_controller(NULL));
	assert_true(kube_json_is_over(pod));
	assert_false(kube_json_is_over(NULL));
}

UNIT_MAIN(UNIT(walks_along_keys), UNIT(reads_integers_that_are_too_large),
	UNIT(hides_texts_with_a_nul), UNIT(distinguishes_too_large_from_malformed),
	UNIT(cuts_a_member_out), UNIT(finds_items_and_owners))
