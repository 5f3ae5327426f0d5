/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>

#include "fields/yaml.h"
#include "kube/kube-json.h"

static void expect(const char *yaml, const char *want)
{
	_cleanup_json_ json_t *json = NULL;
	_cleanup_free_ char *text = NULL;
	struct error err = {0};

	if (yaml_parse(str_from(yaml), &json, &err) < 0)
		fail_msg("%s: %s", yaml, err.msg);
	text = kube_json_format(json);
	assert_string_equal(text, want);
}

static void reads_as_kubectl_does(void **state)
{
	expect("a: 1\nb: [x, 'yes', yes, No, ~, 1.5, 0x10, 0644, \"7\", -3]\n",
		"[{\"a\":1,\"b\":[\"x\",\"yes\",true,false,null,1.5,16,420,\"7\",-3]}]");
	expect("{\"a\": {\"b\": [true, null, \"\\u00e9\"]}}",
		"[{\"a\":{\"b\":[true,null,\"é\"]}}]");
	expect("a: |\n  x\n  y\nb: 1.2.3\nc: 0.3\ne: 1Gi\nf: 0.5\n",
		"[{\"a\":\"x\\ny\\n\",\"b\":\"1.2.3\",\"c\":0.3,\"e\":\"1Gi\",\"f\":"
		"0.5}]");
	expect("a: 9 %\nb: \xc3\xa9%\n", "[{\"a\":\"9 %\",\"b\":\"é%\"}]");
	expect("a: 12345678901234567890123\nb: 08\nc:\n",
		"[{\"a\":1.2345678901234568e22,\"b\":\"08\",\"c\":null}]");
}

static void reads_several_documents(void **state)
{
	expect("a: 1\n---\n---\nb: 2\n...\n", "[{\"a\":1},{\"b\":2}]");
	expect("", "[]");
	expect("# nothing\n", "[]");
}

static void refuses_aliases_tags_and_directives(void **state)
{
	static const char *const bad[] = {"a: &x 1\nb: *x\n", "a: !!str 1\n",
		"%YAML 1.1\n---\na: 1\n", "a: 1\r%YAML", "\xef\xbb\xbf%YAML 1.1\n---\na: 1\n",
		"a: 1\xe2\x80\xa8%T", "a: 1\na: 2\n", "a: [1\n", "? [a]\n: 1\n",
		"a: \"\\0\"\n\"x\\0\": 1\n", "{a: \xff}"};
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		json_t *json = NULL;

		err.msg[0] = '\0';
		if (yaml_parse(str_from(bad[i]), &json, &err) >= 0)
			fail_msg("was read: %s", bad[i]);
		assert_true(err.msg[0]);
	}
}

static void limits_size_and_depth(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT(YAML_MAX_BYTES + 10);
	json_t *json = NULL;

	for (unsigned int i = 0; i < YAML_DEPTH_MAX + 1; i++)
		buf_add_text(&text, "[");
	for (unsigned int i = 0; i < YAML_DEPTH_MAX + 1; i++)
		buf_add_text(&text, "]");
	assert_ok(yaml_parse((struct str){text.p + 1, text.n - 2}, &json, NULL));
	json_decref(json);
	buf_clear(&text);
	for (unsigned int i = 0; i < YAML_DEPTH_MAX + 2; i++)
		buf_add_text(&text, "[");
	for (unsigned int i = 0; i < YAML_DEPTH_MAX + 2; i++)
		buf_add_text(&text, "]");
	assert_int_equal(yaml_parse(buf_str(&text), &json, NULL), -EMSGSIZE);
	buf_clear(&text);
	while (text.n <= YAML_MAX_BYTES)
		buf_add_text(&text, "#\n");
	assert_int_equal(yaml_parse(buf_str(&text), &json, NULL), -EMSGSIZE);
}

static const struct yaml_file_params any = {.max_bytes = YAML_MAX_BYTES};

static void a_file_keeps_text_and_lines(void **state)
{
	static const char text[] = "a: 007\n"
				   "b:\n"
				   "  - [{c: 'x'}]\n"
				   "  -\n"
				   "a: 2\n"
				   "d: {}\n";
	_cleanup_(yaml_file_done) struct yaml_file file = {.root = NULL};
	_cleanup_free_ char *json = NULL;
	struct error err = {0};
	const json_t *list;

	if (yaml_file_parse(str_from(text), &any, &file, &err) < 0)
		fail_msg("%s", err.msg);
	json = kube_json_format(file.root);
	assert_string_equal(json, "{\"a\":\"007\",\"b\":[[{\"c\":\"x\"}],null],\"d\":{}}");
	list = json_object_get(file.root, "b");
	assert_int_equal(yaml_line_of(&file, file.root, "b"), 2);
	assert_int_equal(yaml_line_of(&file, file.root, "c"), 0);
	assert_int_equal(yaml_line(&file, file.root), 1);
	assert_int_equal(yaml_line(&file, list), 3);
	assert_int_equal(yaml_line(&file, json_array_get(list, 1)), 0);
	assert_int_equal(yaml_line(&file, json_object_get(file.root, "d")), 0);
	assert_int_equal(
		yaml_line_twice(&file, json_object_iter_key(json_object_iter(file.root))), 5);
}

static void a_file_has_no_aliases(void **state)
{
	static const char text[] = "a: [&x 1, *x, !!str 2]\n";
	struct yaml_file_params params = any;

	for (int i = 0; i < 2; i++) {
		_cleanup_(yaml_file_done) struct yaml_file file = {.root = NULL};
		_cleanup_free_ char *json = NULL;

		params.ignores_tags = i;
		assert_ok(yaml_file_parse(str_from(text), &params, &file, NULL));
		json = kube_json_format(file.root);
		assert_string_equal(json, i ? "{\"a\":[\"1\",0,\"2\"]}" : "{\"a\":[\"1\",0,0]}");
	}
}

static void only_the_first_document_of_a_file_counts(void **state)
{
	static const char text[] = "a: 1\n---\nb: 2\n";
	const struct yaml_file_params alone = {.max_bytes = 64, .is_alone = true};
	_cleanup_(yaml_file_done) struct yaml_file file = {.root = NULL}, other = {.root = NULL};
	struct error err = {0};

	assert_ok(yaml_file_parse(str_from(text), &any, &file, NULL));
	assert_non_null(json_object_get(file.root, "a"));
	assert_int_equal(yaml_file_parse(str_from(text), &alone, &other, &err), -EINVAL);
	assert_contains(err.msg, "line 2: a second document begins");
	assert_ok(yaml_file_parse(STR("# nothing\n"), &alone, &other, NULL));
	assert_null(other.root);
}

static void a_file_has_limits(void **state)
{
	const struct yaml_file_params small = {.max_bytes = 4};
	struct yaml_file file;
	struct error err = {0};

	assert_int_equal(yaml_file_parse(STR("a: 10"), &small, &file, &err), -EMSGSIZE);
	assert_contains(err.msg, "more than 4 bytes");
	assert_int_equal(yaml_file_parse(STR("a: \x01"), &any, &file, &err), -EINVAL);
	assert_contains(err.msg, "line 1: byte 0x01");
	assert_int_equal(yaml_file_parse(STR("a: [\n"), &any, &file, &err), -EINVAL);
	assert_contains(err.msg, "line 2, column 1");
}

UNIT_MAIN(UNIT(reads_as_kubectl_does), UNIT(reads_several_documents),
	UNIT(refuses_aliases_tags_and_directives), UNIT(limits_size_and_depth),
	UNIT(a_file_keeps_text_and_lines), UNIT(a_file_has_no_aliases),
	UNIT(only_the_first_document_of_a_file_counts), UNIT(a_file_has_limits))
