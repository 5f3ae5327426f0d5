/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of divvy top at every width. */
#include "../unit.h"

#include <jansson.h>
#include <stdio.h>

#include "cli/frame.h"

static const char list[] =
	"{\"tenants\": [{\"id\": 4711, \"name\": \"tenant-with-a-rather-long-name-1\","
	"  \"spec\": {\"class\": \"opportunistic\", \"request_permille\": 125,"
	"             \"limit_permille\": 1000},"
	"  \"devices\": [{\"index\": 0, \"used_permille\": 487, \"why\": \"holds\","
	"                \"memory_used_bytes\": 107374182400, \"memory_quota_bytes\": 151397597184,"
	"                \"waited_ns\": 123456789000}]}]}";
static const char devices[] =
	"{\"simulated\": true, \"devices\": [{\"index\": 0, \"model\": \"NVIDIA H200 with more\","
	"  \"busy_permille\": 999, \"request_permille\": 1000, \"memory_used_bytes\": 107374182400,"
	"  \"memory_bytes\": 151397597184}]}";

struct answers {
	json_t *list, *devices, *ping;
};

static void answers_done(struct answers *a)
{
	json_decref(a->list);
	json_decref(a->devices);
	json_decref(a->ping);
}

static void draw(const struct answers *a, int width, struct buf *out)
{
	_cleanup_buf_ struct buf drawn = BUF_INIT(1u << 20);
	const struct frame frame = {.ping = a->ping,
		.devices = a->devices,
		.list = a->list,
		.width = width,
		.keys = true};

	frame_draw(&frame, &drawn);
	frame_plain(&drawn, out);
	assert_int_equal(buf_error(out), 0);
}

static int columns_of(const char *line, size_t n)
{
	int columns = 0;

	for (size_t i = 0; i < n; i++)
		columns += ((unsigned char)line[i] & 0xc0) != 0x80;
	return columns;
}

static void no_line_is_wider_than_the_screen(void **state)
{
	_cleanup_(answers_done) struct answers a = {json_loads(list, 0, NULL),
		json_loads(devices, 0, NULL), json_pack("{s:s}", "version", "0.1.0")};

	for (int width = 20; width <= 220; width++) {
		_cleanup_buf_ struct buf out = BUF_INIT(1u << 20);

		draw(&a, width, &out);
		for (const char *p = buf_text(&out), *end; *p; p = end + 1) {
			end = strchr(p, '\n');
			assert_non_null(end);
			if (columns_of(p, (size_t)(end - p)) > width)
				fail_msg("at %d columns: %.*s", width, (int)(end - p), p);
		}
	}
}

static void a_narrow_screen_keeps_the_main_columns(void **state)
{
	_cleanup_(answers_done) struct answers a = {json_loads(list, 0, NULL),
		json_loads(devices, 0, NULL), json_pack("{s:s}", "version", "0.1.0")};

	for (int width = 40; width <= 220; width++) {
		_cleanup_buf_ struct buf out = BUF_INIT(1u << 20);

		draw(&a, width, &out);
		assert_non_null(strstr(buf_text(&out), "tenant-with-a-"));
		assert_non_null(strstr(buf_text(&out), "12.5%"));
		assert_non_null(strstr(buf_text(&out), "48.7%"));
		assert_non_null(strstr(buf_text(&out), "99.9%"));
	}
}

static void a_wide_screen_shows_whole_names(void **state)
{
	_cleanup_(answers_done) struct answers a = {json_loads(list, 0, NULL),
		json_loads(devices, 0, NULL), json_pack("{s:s}", "version", "0.1.0")};
	_cleanup_buf_ struct buf narrow = BUF_INIT(1u << 20), wide = BUF_INIT(1u << 20);

	draw(&a, 100, &narrow);
	assert_null(strstr(buf_text(&narrow), "rather-long-name-1"));
	draw(&a, 200, &wide);
	assert_non_null(strstr(buf_text(&wide), "tenant-with-a-rather-long-name-1 "));
	assert_non_null(strstr(buf_text(&wide), "LAST MINUTE"));
	assert_non_null(strstr(buf_text(&wide), "WAITED"));
}

static void answers_of_an_older_daemon_are_shown(void **state)
{
	_cleanup_(answers_done) struct answers a = {json_loads(list, 0, NULL),
		json_loads(devices, 0, NULL), json_pack("{s:s}", "version", "0.1.0")};
	json_t *on = json_array_get(
		json_object_get(json_array_get(json_object_get(a.list, "tenants"), 0), "devices"),
		0);
	_cleanup_buf_ struct buf out = BUF_INIT(1u << 20);

	json_object_set(on, "got_permille", json_object_get(on, "used_permille"));
	json_object_del(on, "used_permille");
	draw(&a, 100, &out);
	assert_non_null(strstr(buf_text(&out), "48.7%"));
	assert_non_null(strstr(buf_text(&out), "REQUESTED"));
}

static void old_names_of_orders_are_accepted(void **state)
{
	assert_int_equal(frame_sort_find("used"), FRAME_BY_USED);
	assert_int_equal(frame_sort_find("got"), FRAME_BY_USED);
	assert_int_equal(frame_sort_find("requested"), FRAME_BY_REQUESTED);
	assert_int_equal(frame_sort_find("asked"), FRAME_BY_REQUESTED);
	assert_int_equal(frame_sort_find("memory"), FRAME_BY_MEMORY);
	assert_int_equal(frame_sort_find(NULL), FRAME_BY_ID);
}

UNIT_MAIN(UNIT(no_line_is_wider_than_the_screen), UNIT(a_narrow_screen_keeps_the_main_columns),
	UNIT(a_wide_screen_shows_whole_names), UNIT(answers_of_an_older_daemon_are_shown),
	UNIT(old_names_of_orders_are_accepted))
