/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "kube/scan.h"

/* The results of a scan as text: "meta {...}\nitem TYPE {...}\n". */
struct seen {
	struct buf text;
	int answer; /* return value of the handlers */
};

static int on_meta(void *data, struct str json)
{
	struct seen *seen = data;

	buf_addf(&seen->text, "meta ");
	buf_add(&seen->text, json);
	buf_add_text(&seen->text, "\n");
	return seen->answer;
}

static int on_item(void *data, struct str type, struct str json)
{
	struct seen *seen = data;

	buf_addf(&seen->text, "item %" STR_FMT " ", STR_ARG(type));
	buf_add(&seen->text, json);
	buf_add_text(&seen->text, "\n");
	return seen->answer;
}

/* Scans in pieces of this size; returns the result of feeding, or of the end. */
static int scan_all(enum scan_kind kind, struct str text, size_t piece, struct seen *seen)
{
	const struct scan_handler handler = {on_meta, on_item, seen};
	struct scan *scan = malloc(sizeof(*scan));
	struct error err = {0};
	int r = 0;

	buf_clear(&seen->text);
	scan_init(scan, kind, &handler);
	for (size_t i = 0; r == 0 && i < text.n; i += piece)
		r = scan_feed(scan, (struct str){text.p + i, MIN(piece, text.n - i)}, &err);
	if (r == 0)
		r = scan_end(scan, &err);
	assert_true(r == 0 || seen->answer || err.msg[0]);
	scan_done(scan);
	free(scan);
	return r;
}

static void expect(enum scan_kind kind, const char *text, int result, const char *want)
{
	struct seen seen = {.text = BUF_INIT(1 << 20)};
	int r;

	for (size_t piece = 1; piece <= strlen(text) + 1; piece += piece < 8 ? 1 : 7) {
		r = scan_all(kind, str_from(text), piece, &seen);
		if (r != result)
			fail_msg("pieces of %zu: %d: %s", piece, r, text);
		if (want)
			assert_string_equal(buf_text(&seen.text), want);
	}
	buf_done(&seen.text);
}

static void cuts_a_list(void **state)
{
	expect(SCAN_LIST,
		"{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":"
		"\"7\","
		"\"continue\":\"x\"},\"items\":[{\"a\":\"}]\\\"{\"},{\"b\":[1,{}]} , {} ]}\n",
		0,
		"meta {\"resourceVersion\":\"7\",\"continue\":\"x\"}\n"
		"item  {\"a\":\"}]\\\"{\"}\nitem  {\"b\":[1,{}]}\nitem  {}\n");
	expect(SCAN_LIST, "{\"metadata\":{},\"items\":[]}", 0, "meta {}\n");
	expect(SCAN_LIST, "{\"metadata\":{},\"items\":null}", 0, "meta {}\n");
	expect(SCAN_LIST, "{\"items\":[{}],\"metadata\":{},\"more\":[{\"items\":[{}]}]}", 0,
		"item  {}\nmeta {}\n");
}

static void cuts_a_watch(void **state)
{
	expect(SCAN_WATCH,
		"{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\"}}\n{\"object\":{\"type\":\"x\"},"
		"\"type\":\"BOOKMARK\"}\n",
		0, "item ADDED {\"kind\":\"Pod\"}\nitem BOOKMARK {\"type\":\"x\"}\n");
	expect(SCAN_WATCH, "", 0, "");
	expect(SCAN_WATCH, "{\"type\":\"ADDED\",\"object\":{}}{\"type\"", -EPIPE,
		"item ADDED {}\n");
}

static void leaves_managed_fields_out(void **state)
{
#define OBJECT(metadata) "{\"a\":1,\"metadata\":{" metadata "},\"managedFields\":3}"
	static const char *const cases[][2] = {
		{OBJECT("\"managedFields\":[{\"x\":{\"managedFields\":[]}}]"), OBJECT("")},
		{OBJECT("\"name\":\"n\",\"managedFields\":[1,2]"), OBJECT("\"name\":\"n\"")},
		{OBJECT("\"managedFields\":[1],\"name\":\"n\""), OBJECT("\"name\":\"n\"")},
		{OBJECT("\"a\":1,\"managedFields\":null,\"b\":{}"), OBJECT("\"a\":1,\"b\":{}")},
		{OBJECT("\"a\":1 , \"managedFields\" : \"x,}\" , \"b\":2"),
			OBJECT("\"a\":1  , \"b\":2")},
		{OBJECT("\"l\":{\"managedFields\":1}"), OBJECT("\"l\":{\"managedFields\":1}")},
		{OBJECT("\"managedFields\":7"), OBJECT("")},
	};
	char text[512], want[512];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		snprintf(text, sizeof(text), "{\"metadata\":{},\"items\":[%s,%s]}", cases[i][0],
			cases[i][0]);
		snprintf(want, sizeof(want), "meta {}\nitem  %s\nitem  %s\n", cases[i][1],
			cases[i][1]);
		expect(SCAN_LIST, text, 0, want);
		snprintf(text, sizeof(text), "{\"type\":\"ADDED\",\"object\":%s}", cases[i][0]);
		snprintf(want, sizeof(want), "item ADDED %s\n", cases[i][1]);
		expect(SCAN_WATCH, text, 0, want);
	}
}

static void refuses_garbage(void **state)
{
	static const char *const lists[] = {"", "[]", "{}", "{\"items\":[]}", "{\"metadata\":{}}",
		"{\"metadata\":{},\"items\":[1]}", "{\"metadata\":{},\"items\":{}}",
		"{\"metadata\":{},\"items\":[{}]", "{\"metadata\":{},\"items\":[{]}}",
		"{\"metadata\":{},\"items\":[{}{}]}", "{\"metadata\":{},\"items\":[{\"a\" 1}]}",
		"{\"metadata\":{},\"items\":[{\"a\":\"\x01\"}]}", "{\"metadata\":{},\"items\":[]}x",
		"{\"metadata\":{},\"items\":[]}{\"metadata\":{},\"items\":[]}",
		"{\"metadata\":{},\"items\":[],\"items\":[]}", "{\"metadata\":{},\"items\":[,]}",
		"{\"metadata\":[],\"items\":[]}", "<html>",
		"{\"metadata\":{},\"items\":[{\"a\":1,}]}"};
	static const char *const watches[] = {"x", "{}", "{\"type\":\"ADDED\"}",
		"{\"type\":\"\",\"object\":{}}", "{\"type\":1,\"object\":{}}",
		"{\"type\":\"A\",\"object\":[]}", "{\"type\":\"A\",\"type\":\"A\",\"object\":{}}",
		"{\"type\":\"A\",\"object\":{},\"object\":{}}", "[{}]",
		"{\"type\":\"ADDED\",\"object\":{}},"};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		expect(SCAN_LIST, lists[i], -EBADMSG, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(watches); i++)
		expect(SCAN_WATCH, watches[i], -EBADMSG, NULL);
}

static void ends_when_a_handler_fails(void **state)
{
	struct seen seen = {.text = BUF_INIT(1000), .answer = -ESTALE};

	assert_int_equal(
		scan_all(SCAN_LIST, STR("{\"items\":[{},{},{}],\"metadata\":{}}"), 1000, &seen),
		-ESTALE);
	assert_string_equal(buf_text(&seen.text), "item  {}\n");
	buf_done(&seen.text);
}

/* Scans `before`, n bytes and `after`, to find the largest part of each kind. */
static int scan_sized(const char *before, size_t n, const char *after)
{
	_cleanup_buf_ struct buf text = BUF_INIT(32 << 20);
	struct seen seen = {.text = BUF_INIT(32 << 20)};
	int r;

	buf_add_text(&text, before);
	for (size_t i = 0; i < n; i++)
		buf_add_byte(&text, 'x');
	buf_add_text(&text, after);
	r = scan_all(SCAN_LIST, buf_str(&text), 16384, &seen);
	buf_done(&seen.text);
	return r;
}

static void has_limits(void **state)
{
	const char *item = "{\"metadata\":{},\"items\":[{\"a\":\"", *item_end = "\"}]}";
	const char *meta = "{\"items\":[],\"metadata\":{\"a\":\"", *meta_end = "\"}}";
	const char *managed = "{\"metadata\":{},\"items\":[{\"metadata\":{\"managedFields\":\"";

	assert_int_equal(scan_sized(item, SCAN_ITEM_MAX - 8, item_end), 0);
	assert_int_equal(scan_sized(item, SCAN_ITEM_MAX - 7, item_end), -EMSGSIZE);
	assert_int_equal(scan_sized(meta, SCAN_META_MAX - 8, meta_end), 0);
	assert_int_equal(scan_sized(meta, SCAN_META_MAX - 7, meta_end), -EMSGSIZE);
	/* Managed fields do not count, since the scan leaves them out. */
	assert_int_equal(scan_sized(managed, SCAN_ITEM_MAX + 1, "\"}}]}"), 0);
}

static void limits_depth(void **state)
{
	for (size_t depth = SCAN_DEPTH_MAX - 1; depth <= SCAN_DEPTH_MAX; depth++) {
		_cleanup_buf_ struct buf text = BUF_INIT(1 << 20);
		struct seen seen = {.text = BUF_INIT(1 << 20)};
		int r;

		buf_add_text(&text, "{\"metadata\":{},\"items\":[],\"z\":");
		for (size_t i = 0; i < depth; i++)
			buf_add_text(&text, "[");
		for (size_t i = 0; i < depth; i++)
			buf_add_text(&text, "]");
		buf_add_text(&text, "}");
		r = scan_all(SCAN_LIST, buf_str(&text), 4096, &seen);
		assert_int_equal(r, depth == SCAN_DEPTH_MAX ? -EMSGSIZE : 0);
		buf_done(&seen.text);
	}
}

UNIT_MAIN(UNIT(cuts_a_list), UNIT(cuts_a_watch), UNIT(leaves_managed_fields_out),
	UNIT(refuses_garbage), UNIT(ends_when_a_handler_fails), UNIT(has_limits),
	UNIT(limits_depth))
