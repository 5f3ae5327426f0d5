/* SPDX-License-Identifier: Apache-2.0 */
/* YAML, the frame of top, man pages and completions. */
#include "../unit.h"

#include <errno.h>
#include <string.h>

#include "cli/cli-client.h"
#include "cli/cli-commands.h"
#include "cli/frame.h"
#include "cmdline/output.h"

static void writes_yaml(void **state)
{
	_cleanup_json_ json_t *value = json_loads(
		"{\"a\": 1, \"list\": [{\"x\": \"yes\", \"z\": \"plain\"}, [], {}], \"s\": \"a: "
		"b\\n\","
		" \"o\": {\"deep\": [1, 2]}, \"e\": null, \"f\": 0.5, \"12\": true, \"a\\\"b\\\\\": 1}",
		0, NULL);
	_cleanup_buf_ struct buf out = BUF_INIT(4096);

	output_yaml(value, &out);
	assert_string_equal(buf_text(&out),
		"a: 1\n"
		"list:\n"
		"- x: \"yes\"\n"
		"  z: plain\n"
		"- []\n"
		"- {}\n"
		"s: \"a: b\\n\"\n"
		"o:\n"
		"  deep:\n"
		"  - 1\n"
		"  - 2\n"
		"e: null\n"
		"f: 0.5\n"
		"\"12\": true\n"
		"\"a\\\"b\\\\\": 1\n");
}

static const char devices_text[] =
	"{\"simulated\": true, \"devices\": [{\"index\": 0, \"model\": \"H200\", \"memory_bytes\": "
	"1000, \"memory_used_bytes\": 500, \"busy_permille\": 900, \"request_permille\": 800}]}";
static const char list_text[] = "{\"tenants\": [{\"id\": 1, \"name\": \"one\", \"spec\": "
				"{\"request_permille\": 500, \"limit_permille\": 1000,"
				" \"class\": \"standard\"}, \"devices\": [{\"index\": 0, "
				"\"used_permille\": 300, \"why\": \"turn\"}]},"
				"{\"id\": 2, \"name\": \"t\\u0001wo\", \"spec\": "
				"{\"request_permille\": 300, \"limit_permille\": 1000, "
				"\"class\": \"latency\"}, \"devices\": [{\"index\": 0, "
				"\"used_permille\": 600, \"why\": \"holds\"}]}]}";
static const char usage_text[] =
	"{\"series\": [{\"tenant\": 1, \"index\": 0, \"permille\": [0, 0, 1000, 1000]}]}";

static void draw(struct frame *f, struct buf *plain)
{
	_cleanup_json_ json_t *devices = json_loads(devices_text, 0, NULL),
			      *list = json_loads(list_text, 0, NULL),
			      *usage = json_loads(usage_text, 0, NULL);
	_cleanup_buf_ struct buf drawn = BUF_INIT(1 << 20);

	f->devices = devices;
	f->list = list;
	f->usage = usage;
	frame_draw(f, &drawn);
	frame_plain(&drawn, plain);
	assert_ok(buf_error(plain));
}

static void draws_a_frame(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT(1 << 20);
	struct frame f = {.width = 106, .ascii = true};
	const char *bar;

	draw(&f, &out);
	assert_contains(buf_text(&out), "simulated");
	assert_contains(buf_text(&out), "90%");
	/* 45 of the 50 characters of the bar are full, for a share of 0.9. */
	bar = strstr(buf_text(&out), "###");
	assert_non_null(bar);
	assert_int_equal(strspn(bar, "#"), 45);
	assert_int_equal(strspn(bar + 45, "."), 5);
	/* A tenant's name that contains the byte of a style mark makes no mark. */
	assert_contains(buf_text(&out), "t?wo");
	assert_true(strstr(buf_text(&out), "one") < strstr(buf_text(&out), "t?wo"));
	assert_contains(buf_text(&out), "turn");
}

static void sorts_rows_and_fits_columns(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT(1 << 20), narrow = BUF_INIT(1 << 20);
	struct frame f = {.width = 110, .ascii = true, .sort = FRAME_BY_USED};
	size_t lines = 0;

	draw(&f, &out);
	assert_true(strstr(buf_text(&out), "one") > strstr(buf_text(&out), "t?wo"));
	f = (struct frame){.width = 20, .height = 5, .keys = true};
	draw(&f, &narrow);
	for (const char *p = buf_text(&narrow); *p; p++)
		lines += *p == '\n';
	assert_int_equal(lines, 5);
	assert_contains(buf_text(&narrow), "1 more tenant ");
}

static void ansi_lines_are_whole(void **state)
{
	_cleanup_buf_ struct buf drawn = BUF_INIT(100), out = BUF_INIT(1000);
	int lines = 0;

	buf_add_text(&drawn,
		"\x01"
		"Bx\x01"
		"A\ny\n");
	frame_ansi(&drawn, &out, &lines);
	assert_int_equal(lines, 2);
	assert_string_equal(buf_text(&out), "\033[0;1mx\033[0;0m\033[K\ny\033[K\n");
}

/* roff writes "memory-policy" as "memory\\-policy". */
static void assert_describes(const char *man, const char *option)
{
	_cleanup_buf_ struct buf escaped = BUF_INIT(200);

	buf_add_text(&escaped, "\\fB\\-\\-");
	for (; *option; option++)
		buf_addf(&escaped, *option == '-' ? "\\%c" : "%c", *option);
	buf_add_text(&escaped, "\\fR");
	assert_contains(man, buf_text(&escaped));
}

static void makes_man_pages_and_completions(void **state)
{
	static const char *const shell[] = {"bash", "zsh", "fish"};
	struct error err = {0};

	for (size_t i = 0; cli_commands[i]; i++) {
		_cleanup_buf_ struct buf man = BUF_INIT(1 << 20);

		cli_man(cli_commands[i], &man);
		assert_ok(buf_error(&man));
		assert_contains(buf_text(&man), ".SH SYNOPSIS");
		for (const struct option_row *o = cli_commands[i]->options; o->name; o++)
			assert_describes(buf_text(&man), o->name);
	}
	for (size_t i = 0; i < 3; i++) {
		_cleanup_buf_ struct buf text = BUF_INIT(1 << 20);

		assert_ok(cli_completion(shell[i], &text, &err));
		for (size_t j = 0; cli_commands[j]; j++)
			assert_contains(buf_text(&text), cli_commands[j]->name);
	}
	_cleanup_buf_ struct buf none = BUF_INIT(100);

	assert_int_equal(cli_completion("csh", &none, &err), -EINVAL);
	assert_contains(err.msg, "bash, zsh or fish");
}

UNIT_MAIN(UNIT(writes_yaml), UNIT(draws_a_frame), UNIT(sorts_rows_and_fits_columns),
	UNIT(ansi_lines_are_whole), UNIT(makes_man_pages_and_completions))
