/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of fields: what they read, what they refuse, and how far they read on. */
#include "unit-json.h"

#include <errno.h>

#include "base/cleanup.h"
#include "fields/read.h"
#include "kube/json.h"

struct wheel {
	int64_t inches;
};

struct cart {
	const char *name;
	bool has_brake, has_bell;
	struct texts load;
	struct {
		struct wheel *v;
		uint32_t n;
	} wheels;
};

static const struct read_field wheel_fields[] = {
	READ_FIELD(struct wheel, inches, "inches", read_number),
};

READ_OBJECT(read_wheel, struct wheel, wheel_fields)
READ_LIST(read_wheels, struct wheel, read_wheel)

static const struct read_field cart_fields[] = {
	READ_FIELD(struct cart, name, "name", read_text),
	READ_FIELD(struct cart, has_brake, "brake", read_bool),
	READ_FIELD(struct cart, has_bell, "bell", read_true),
	READ_FIELD(struct cart, load, "load", read_texts),
	READ_FIELD(struct cart, wheels, "wheels", read_wheels),
	READ_NOTHING("colour"),
};

static void a_table_fills_a_struct(void **state)
{
	_cleanup_json_ json_t *json = unit_json(
		"{'name':'a','brake':true,'bell':{},'load':['x','y'],"
		"'wheels':[{'inches':26},{}],'colour':[1]}");
	_cleanup_(arena_done) struct arena arena = {0};
	struct cart cart = {0};

	assert_ok(read_fields(&arena, json, cart_fields, ARRAY_SIZE(cart_fields), &cart, NULL));
	assert_string_equal(cart.name, "a");
	assert_true(cart.has_brake && cart.has_bell);
	assert_true(texts_has(&cart.load, "y") && !texts_has(&cart.load, "z"));
	assert_int_equal(cart.wheels.n, 2);
	assert_int_equal(cart.wheels.v[0].inches, 26);
	assert_int_equal(cart.wheels.v[1].inches, 0);
}

static void errors_say_where_and_the_rest_is_read(void **state)
{
	static const struct {
		const char *json, *says;
		int code;
	} wrong[] = {
		{"[]", "is no object", -EINVAL},
		{"{'wheel':1,'name':'a'}", "wheel: this scheduler does not know", -ENOTSUP},
		{"{'wheels':[{},{'inches':1.5}],'name':'a'}",
			"wheels: 1: inches: is no whole number", -EINVAL},
		{"{'load':'x','brake':1,'name':'a'}", "load: is no list", -EINVAL},
		{"{'load':['x\\u0000'],'name':'a'}", "load: 0: has a zero byte", -EINVAL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		_cleanup_json_ json_t *json = unit_json(wrong[i].json);
		_cleanup_(arena_done) struct arena arena = {0};
		struct cart cart = {0};
		struct error err = {0};

		assert_int_equal(read_fields(&arena, json, cart_fields, ARRAY_SIZE(cart_fields),
					 &cart, &err),
			wrong[i].code);
		assert_contains(err.msg, wrong[i].says);
		if (json_is_object(json))
			assert_string_equal(cart.name, "a");
	}
}

static void other_fields_may_be_of_no_concern(void **state)
{
	_cleanup_json_ json_t *json = unit_json("{'wheel':1,'name':'a','brake':null}");
	_cleanup_(arena_done) struct arena arena = {0};
	struct cart cart = {.has_brake = true};

	assert_ok(read_some(&arena, json, cart_fields, ARRAY_SIZE(cart_fields), &cart, NULL));
	assert_string_equal(cart.name, "a");
	assert_true(cart.has_brake);
}

static void lists_and_texts_have_limits(void **state)
{
	_cleanup_json_ json_t *list = json_array(), *json = json_object();
	_cleanup_(arena_done) struct arena arena = {0};
	char text[READ_TEXT_MAX + 2];
	struct cart cart = {0};
	struct error err = {0};

	for (unsigned int i = 0; i <= READ_LIST_MAX; i++)
		json_array_append_new(list, json_string(""));
	json_object_set(json, "load", list);
	assert_int_equal(
		read_some(&arena, json, cart_fields, ARRAY_SIZE(cart_fields), &cart, &err), -E2BIG);
	assert_contains(err.msg, "load: has 4097 items: at most 4096");
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	json_object_clear(json);
	json_object_set_new(json, "name", json_string(text));
	assert_int_equal(
		read_some(&arena, json, cart_fields, ARRAY_SIZE(cart_fields), &cart, &err), -E2BIG);
	assert_contains(err.msg, "name: has 4097 bytes: at most 4096");
}

UNIT_MAIN(UNIT(a_table_fills_a_struct), UNIT(errors_say_where_and_the_rest_is_read),
	UNIT(other_fields_may_be_of_no_concern), UNIT(lists_and_texts_have_limits))
