/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of fields: the fields that they read, the values that they refuse, and the reading after
 * an error.
 */
#include "unit-json.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "fields/read.h"
#include "kube/kube-json.h"

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

static void errors_name_the_field_and_the_rest_is_read(void **state)
{
	static const struct {
		const char *json, *says;
		int code;
	} wrong[] = {
		{"[]", "is not an object", -EINVAL},
		{"{'wheel':1,'name':'a'}", "wheel: this scheduler does not know", -ENOTSUP},
		{"{'wheels':[{},{'inches':1.5}],'name':'a'}",
			"wheels: 1: inches: is not a whole number", -EINVAL},
		{"{'load':'x','brake':1,'name':'a'}", "load: is not a list", -EINVAL},
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

static void unlisted_fields_may_be_ignored(void **state)
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
	assert_contains(err.msg, "load: has 4097 items; at most 4096");
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	json_object_clear(json);
	json_object_set_new(json, "name", json_string(text));
	assert_int_equal(
		read_some(&arena, json, cart_fields, ARRAY_SIZE(cart_fields), &cart, &err), -E2BIG);
	assert_contains(err.msg, "name: has 4097 bytes; at most 4096");
}

/* ---- files ---- */

struct tool {
	char name[8];
	bool is_sharp;
	uint64_t others;
};

static int plain(json_t *value, struct str *ret_text, struct error *err)
{
	*ret_text = (struct str){json_string_value(value), json_string_length(value)};
	return ret_text->p ? 0 : fail(err, EINVAL, "one plain value is right");
}

static int parse_tool_name(struct str text, char *ret_name, struct error *err)
{
	return str_copy(ret_name, 8, text) < 0 ? fail(err, EINVAL, "'%s': too long", text.p) : 0;
}

READ_PARSED(read_tool_name, plain, char, parse_tool_name)
READ_PARSED(read_sharp, plain, bool, parse_bool)

static const struct read_field tool_fields[] = {
	READ_FIELD(struct tool, name, "tool-name", read_tool_name),
	READ_FIELD(struct tool, is_sharp, "sharp", read_sharp),
};

static int other_of_tool(const struct read_table *table, const char *name, json_t *value,
	void *into, struct error *err)
{
	struct tool *tool = into;

	tool->others++;
	return name[0] == 'x' ? 0 : fail(err, ENOENT, "no tool has it");
}

static const struct read_table tool_table = {
	tool_fields, ARRAY_SIZE(tool_fields), "'", true, other_of_tool};

static int read_tool(const char *text, struct tool *ret_tool, struct error *err)
{
	const struct yaml_file_params params = {.max_bytes = YAML_MAX_BYTES};
	_cleanup_(yaml_file_done) struct yaml_file file = {.root = NULL};

	assert_ok(yaml_file_parse(str_from(text), &params, &file, NULL));
	return read_lined(&file, file.root, &tool_table, ret_tool, err);
}

static void a_file_fills_a_struct(void **state)
{
	struct tool tool = {.name = ""};

	assert_ok(read_tool("tool_name: saw\nsharp: yes\nx: 1\n", &tool, NULL));
	assert_string_equal(tool.name, "saw");
	assert_true(tool.is_sharp);
	assert_int_equal(tool.others, 1);
}

static void errors_in_a_file_begin_with_the_line(void **state)
{
	static const struct {
		const char *text, *says;
		int code;
	} wrong[] = {
		{"tool-name: a\nsharp: 7\ny: 1\n", "line 2: sharp: '7'", -EINVAL},
		{"sharp:\n  [1]\n", "line 1: sharp: one plain value", -EINVAL},
		{"x: 1\nsharp:\n", "line 2: sharp: one plain value", -EINVAL},
		{"x: 1\n\ntool-name: hammers-and-saws\n",
			"line 3: tool-name: 'hammers-and-saws': too long", -EINVAL},
		{"x: 1\ny: 2\n", "line 2: 'y': no tool has it", -ENOENT},
		{"sharp: no\nx: 1\nsharp: no\n", "line 3: 'sharp': the field occurs twice",
			-EEXIST},
		{"tool-name: a\ntool_name: b\n", "line 2: 'tool-name': the field occurs twice",
			-EEXIST},
	};
	char name[READ_NAME_MAX + 8];

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct tool tool = {.name = ""};
		struct error err = {0};

		assert_int_equal(read_tool(wrong[i].text, &tool, &err), wrong[i].code);
		assert_contains(err.msg, wrong[i].says);
		assert_int_equal(read_tool(wrong[i].text, &tool, NULL), wrong[i].code);
	}
	memset(name, 'x', sizeof(name));
	memcpy(name + READ_NAME_MAX + 1, ": 1", 4);
	assert_int_equal(read_tool(name, &(struct tool){.name = ""}, NULL), -EINVAL);
	assert_ok(read_tool(name + 1, &(struct tool){.name = ""}, NULL));
}

UNIT_MAIN(UNIT(a_table_fills_a_struct), UNIT(errors_name_the_field_and_the_rest_is_read),
	UNIT(unlisted_fields_may_be_ignored), UNIT(lists_and_texts_have_limits),
	UNIT(a_file_fills_a_struct), UNIT(errors_in_a_file_begin_with_the_line))
