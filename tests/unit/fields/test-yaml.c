/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>

#include "fields/yaml.h"
#include "kube/json.h"

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

static void refuses_what_could_stand_for_more(void **state)
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

UNIT_MAIN(UNIT(reads_as_kubectl_does), UNIT(reads_several_documents),
	UNIT(refuses_what_could_stand_for_more), UNIT(limits_size_and_depth))
