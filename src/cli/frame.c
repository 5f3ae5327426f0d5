/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file draws in two passes: frame_draw_body() writes whole lines, and frame_draw() then cuts
 * each line at the width. A character counts as one column, whatever its width on the terminal. A
 * narrow screen drops the columns of tenants by rank, the highest first; NAME and USED always stay.
 * Names of tenants, models and notes pass frame_add_cell(), which replaces control bytes, so no
 * name forges a mark. A static array holds the rows, so only one thread may draw.
 */
#include "cli/frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/format.h"
#include "cli/cli-client.h"

#define TENANTS_MAX 4096
#define SPARK_POINTS 60

struct row {
	const json_t *tenant, *device; /* `device` is the tenant's entry for one device */
	size_t colour;
};

static void frame_set_style(struct buf *out, enum frame_style s)
{
	buf_add_byte(out, FRAME_MARK);
	buf_add_byte(out, (char)('A' + s));
}

static enum frame_style colour_of(size_t i)
{
	return (enum frame_style)(FRAME_COLOUR + i % FRAME_COLOURS);
}

/* Users choose the names: a cell has at most `width` characters, and '?' replaces control bytes. */
static void frame_add_cell(struct buf *out, const char *text, int width, bool is_right)
{
	int n = 0;

	for (const char *p = text; *p; p++)
		n += ((unsigned char)*p & 0xc0) != 0x80;
	if (is_right && n < width)
		buf_addf(out, "%*s", width - n, "");
	for (int shown = 0; *text; text++) {
		const bool begins = ((unsigned char)*text & 0xc0) != 0x80;

		if (begins && shown++ == width)
			return;
		buf_add_byte(out, (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
	}
	if (!is_right && n < width)
		buf_addf(out, "%*s", width - n, "");
}

static void frame_repeat_text(struct buf *out, const char *what, int n)
{
	for (int i = 0; i < n; i++)
		buf_add_text(out, what);
}

static int64_t sort_key(const struct row *r, enum frame_sort sort)
{
	switch (sort) {
	case FRAME_BY_USED: return -(int64_t)json_used_permille(r->device);
	case FRAME_BY_REQUESTED:
		return -json_int_or_zero(json_object_get(r->tenant, "spec"), "request_permille");
	case FRAME_BY_MEMORY: return -json_int_or_zero(r->device, "memory_used_bytes");
	default: return json_int_or_zero(r->tenant, "id");
	}
}

static const struct {
	const char *name, *old_name; /* NULL: the order has no older name */
} sorts[FRAME_SORTS] = {
	[FRAME_BY_ID] = {"id", NULL},
	[FRAME_BY_USED] = {"used", "got"},
	[FRAME_BY_REQUESTED] = {"requested", "asked"},
	[FRAME_BY_MEMORY] = {"memory", NULL},
};

const char *frame_sort_name(enum frame_sort sort)
{
	return sorts[sort % FRAME_SORTS].name;
}

enum frame_sort frame_sort_find(const char *name)
{
	for (int i = 0; name && i < FRAME_SORTS; i++)
		if (!strcmp(sorts[i].name, name) ||
			(sorts[i].old_name && !strcmp(sorts[i].old_name, name)))
			return (enum frame_sort)i;
	return FRAME_BY_ID;
}

/* Insertion sort keeps the order of equal rows, and rows are few. */
static size_t frame_collect_rows(const struct frame *f, struct row *rows, size_t max)
{
	const json_t *tenants = json_object_get(f->list, "tenants");
	size_t n = 0;

	for (size_t i = 0; i < json_array_size(tenants); i++) {
		const json_t *t = json_array_get(tenants, i), *on = json_object_get(t, "devices");

		for (size_t j = 0; j < json_array_size(on) && n < max; j++) {
			const struct row row = {t, json_array_get(on, j), i};
			size_t k = n++;

			for (; k > 0 && sort_key(&rows[k - 1], f->sort) > sort_key(&row, f->sort);
				k--)
				rows[k] = rows[k - 1];
			rows[k] = row;
		}
	}
	return n;
}

static void draw_title(const struct frame *f, size_t rows, struct buf *out)
{
	const size_t devices = json_array_size(json_object_get(f->devices, "devices"));

	frame_set_style(out, FRAME_BOLD);
	buf_add_text(out, "divvy");
	frame_set_style(out, FRAME_NORMAL);
	buf_addf(out, " %s", json_text_or_empty(f->ping, "version"));
	if (json_bool_or_false(f->devices, "simulated")) {
		frame_set_style(out, FRAME_WARN);
		buf_add_text(out, "  simulated");
		frame_set_style(out, FRAME_NORMAL);
	}
	if (json_is_false(json_object_get(f->ping, "gate"))) {
		frame_set_style(out, FRAME_WARN);
		buf_add_text(out, "  gates off: no share is enforced");
		frame_set_style(out, FRAME_NORMAL);
	}
	if (f->paused) {
		frame_set_style(out, FRAME_WARN);
		buf_add_text(out, "  paused");
		frame_set_style(out, FRAME_NORMAL);
	}
	buf_addf(out, "  %zu device%s, %zu tenant%s", devices, devices == 1 ? "" : "s", rows,
		rows == 1 ? "" : "s");
	buf_add_byte(out, '\n');
}

/* Draws the tenants' shares of the last second side by side, each in its colour. */
static void draw_bar(const struct frame *f, int64_t device, const struct row *rows, size_t n,
	int width, struct buf *out)
{
	int64_t total = 0;
	int drawn = 0;

	for (size_t i = 0; i < n; i++) {
		int upto;

		if (json_int_or_zero(rows[i].device, "index") != device)
			continue;
		total += json_used_permille(rows[i].device);
		upto = (int)((total * width + 500) / 1000);
		upto = upto > width ? width : upto;
		frame_set_style(out, colour_of(rows[i].colour));
		frame_repeat_text(out, f->ascii ? "#" : "\xe2\x96\x88", upto - drawn);
		drawn = upto > drawn ? upto : drawn;
	}
	frame_set_style(out, FRAME_DIM);
	frame_repeat_text(out, f->ascii ? "." : "\xe2\x96\x91", width - drawn);
	frame_set_style(out, FRAME_NORMAL);
}

static void draw_memory_bar(
	const struct frame *f, uint64_t used, uint64_t all, int width, struct buf *out)
{
	const int full = all ? (int)((double)used / (double)all * width + 0.5) : 0;
	const int shown = full > width ? width : full;

	frame_repeat_text(out, f->ascii ? "#" : "\xe2\x96\x88", shown);
	frame_set_style(out, FRAME_DIM);
	frame_repeat_text(out, f->ascii ? "." : "\xe2\x96\x91", width - shown);
	frame_set_style(out, FRAME_NORMAL);
}

/* A narrow screen drops the memory bar first, then the requested share, then the memory. */
static void frame_draw_device(
	const struct frame *f, const json_t *d, const struct row *rows, size_t n, struct buf *out)
{
	char memory[72];
	bool has_bar = true, has_asked = true, has_memory = true;
	int room;

	snprintf(memory, sizeof(memory), " %s/%s",
		format_bytes(json_uint_or_zero(d, "memory_used_bytes")).s,
		format_bytes(json_uint_or_zero(d, "memory_bytes")).s);
	/* 25 columns: index, model, used share and two spaces */
	for (;;) {
		room = f->width - 25 - (has_asked ? 13 : 0) - (has_bar ? 9 : 0) -
			(has_memory ? (int)strlen(memory) : 0);
		if (room >= 10 || !has_memory)
			break;
		has_memory = has_bar || has_asked;
		has_asked = has_bar;
		has_bar = false;
	}
	frame_set_style(out, FRAME_BOLD);
	buf_addf(out, "%2d ", (int)json_int_or_zero(d, "index"));
	frame_add_cell(out, json_text_or_empty(d, "model"), 14, false);
	frame_set_style(out, FRAME_NORMAL);
	buf_add_byte(out, ' ');
	draw_bar(f, json_int_or_zero(d, "index"), rows, n, MIN(MAX(room, 10), 60), out);
	buf_add_byte(out, ' ');
	frame_add_cell(
		out, format_percent((uint32_t)json_uint_or_zero(d, "busy_permille")).s, 6, true);
	if (has_asked) {
		buf_add_text(out, " asked ");
		frame_add_cell(out,
			format_percent((uint32_t)json_uint_or_zero(d, "request_permille")).s, 6,
			false);
	}
	if (has_bar) {
		buf_add_byte(out, ' ');
		draw_memory_bar(f, json_uint_or_zero(d, "memory_used_bytes"),
			json_uint_or_zero(d, "memory_bytes"), 8, out);
	}
	if (has_memory)
		buf_add_text(out, memory);
	buf_add_byte(out, '\n');
	if (json_text_or_empty(d, "note")[0]) {
		frame_set_style(out, FRAME_WARN);
		buf_add_text(out, "   ");
		frame_add_cell(out, json_text_or_empty(d, "note"), f->width - 3, false);
		frame_set_style(out, FRAME_NORMAL);
		buf_add_byte(out, '\n');
	}
}

static const json_t *find_usage(const struct frame *f, const struct row *row)
{
	const json_t *all = json_object_get(f->usage, "series");

	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *s = json_array_get(all, i);

		if (json_int_or_zero(s, "tenant") == json_int_or_zero(row->tenant, "id") &&
			json_int_or_zero(s, "index") == json_int_or_zero(row->device, "index"))
			return json_object_get(s, "permille");
	}
	return NULL;
}

/* Draws the last minute in `width` characters. Each character shows the mean of its points. */
static void draw_spark(const struct frame *f, const struct row *row, int width, struct buf *out)
{
	static const char *const block[] = {" ", "\xe2\x96\x81", "\xe2\x96\x82", "\xe2\x96\x83",
		"\xe2\x96\x84", "\xe2\x96\x85", "\xe2\x96\x86", "\xe2\x96\x87", "\xe2\x96\x88"};
	static const char *const plain[] = {" ", ".", ".", ":", "-", "=", "+", "*", "#"};
	const json_t *points = find_usage(f, row);
	const size_t n = json_array_size(points);

	frame_set_style(out, colour_of(row->colour));
	for (int i = 0; i < width && n; i++) {
		const size_t from = n * (size_t)i / (size_t)width,
			     to = n * (size_t)(i + 1) / (size_t)width;
		int64_t sum = 0, level;

		for (size_t j = from; j < to; j++)
			sum += json_integer_value(json_array_get(points, j));
		level = to > from ? (sum * 8 / (int64_t)(to - from) + 500) / 1000 : 0;
		if (level == 0 && sum)
			level = 1;
		level = level > 8 ? 8 : level;
		buf_add_text(out, f->ascii ? plain[level] : block[level]);
	}
	frame_set_style(out, FRAME_NORMAL);
}

/* ---- the columns of tenants ---- */

enum column {
	COLUMN_ID,
	COLUMN_NAME,
	COLUMN_DEVICE,
	COLUMN_CLASS,
	COLUMN_REQUESTED,
	COLUMN_USED,
	COLUMN_LIMIT,
	COLUMN_MEMORY,
	COLUMN_WAITED,
	COLUMN_STATE,
	COLUMNS,
};

static const struct {
	const char *head;
	int width;
	bool is_right;
	int rank; /* a narrow screen drops the largest rank first */
} columns[COLUMNS] = {
	[COLUMN_ID] = {"ID", 4, true, 3},
	[COLUMN_NAME] = {"NAME", 15, false, 0},
	[COLUMN_DEVICE] = {"DEV", 4, true, 7},
	[COLUMN_CLASS] = {"CLASS", 14, false, 8},
	[COLUMN_REQUESTED] = {"REQUESTED", 9, true, 2},
	[COLUMN_USED] = {"USED", 7, true, 1},
	[COLUMN_LIMIT] = {"LIMIT", 7, true, 5},
	[COLUMN_MEMORY] = {"MEMORY", 16, true, 4},
	[COLUMN_WAITED] = {"WAITED", 8, true, 9},
	[COLUMN_STATE] = {"STATE", 10, false, 6},
};

#define SPARK_LEAST 20

struct layout {
	int width[COLUMNS]; /* 0: dropped */
	int spark;
};

static int longest_name(const struct row *rows, size_t n)
{
	size_t longest = 0;

	for (size_t i = 0; i < n; i++)
		longest = MAX(longest, strlen(json_text_or_empty(rows[i].tenant, "name")));
	return (int)MIN(longest, (size_t)200);
}

static struct layout layout_for(int width, int longest)
{
	struct layout l = {.spark = 0};
	int left = width, wanted = longest + 1 - columns[COLUMN_NAME].width;

	for (size_t c = 0; c < COLUMNS; c++) {
		l.width[c] = columns[c].width;
		left -= columns[c].width;
	}
	for (int rank = COLUMNS - 1; rank > 1 && left < 0; rank--)
		for (size_t c = 0; c < COLUMNS; c++)
			if (columns[c].rank == rank) {
				left += columns[c].width;
				l.width[c] = 0;
			}
	/* The name gets the space beyond a small curve, or all of the space without a curve. */
	if (wanted > 0 && left > 0) {
		const int room = left > SPARK_LEAST ? left - SPARK_LEAST : left;
		const int more = MIN(wanted, room);

		l.width[COLUMN_NAME] += more;
		left -= more;
	}
	l.spark = left >= SPARK_LEAST / 2 ? MIN(left, SPARK_POINTS) : 0;
	return l;
}

/* A left-aligned column begins with the space that separates it from the column before. */
static void add_column(struct buf *out, const struct layout *l, enum column c, enum frame_style s,
	const char *text)
{
	const int width = l->width[c], space = columns[c].is_right ? 0 : 1;

	if (!width)
		return;
	frame_set_style(out, s);
	buf_addf(out, "%*s", space, "");
	frame_add_cell(out, text, width - space, columns[c].is_right);
}

static void draw_head(const struct frame *f, const struct layout *l, struct buf *out)
{
	for (enum column c = 0; c < COLUMNS; c++)
		add_column(out, l, c, FRAME_DIM, columns[c].head);
	frame_set_style(out, FRAME_DIM);
	if (l->spark >= 11)
		buf_add_text(out, "LAST MINUTE");
	frame_set_style(out, FRAME_NORMAL);
	buf_add_byte(out, '\n');
}

static void frame_draw_tenant(
	const struct frame *f, const struct layout *l, const struct row *row, struct buf *out)
{
	const json_t *spec = json_object_get(row->tenant, "spec"), *on = row->device;
	const uint64_t waited_ns = json_uint_or_zero(on, "waited_ns") / NSEC_PER_MSEC *
		NSEC_PER_MSEC;
	char id[16], device[16], memory[72];

	snprintf(id, sizeof(id), "%d", (int)json_int_or_zero(row->tenant, "id"));
	snprintf(device, sizeof(device), "%d", (int)json_int_or_zero(on, "index"));
	snprintf(memory, sizeof(memory), "%s/%s",
		format_bytes(json_uint_or_zero(on, "memory_used_bytes")).s,
		format_bytes(json_uint_or_zero(on, "memory_quota_bytes")).s);
	add_column(out, l, COLUMN_ID, FRAME_NORMAL, id);
	add_column(out, l, COLUMN_NAME, colour_of(row->colour),
		json_text_or_empty(row->tenant, "name"));
	add_column(out, l, COLUMN_DEVICE, FRAME_NORMAL, device);
	add_column(out, l, COLUMN_CLASS, FRAME_NORMAL, json_text_or_empty(spec, "class"));
	add_column(out, l, COLUMN_REQUESTED, FRAME_NORMAL,
		format_percent((uint32_t)json_uint_or_zero(spec, "request_permille")).s);
	add_column(out, l, COLUMN_USED, FRAME_BOLD, format_percent(json_used_permille(on)).s);
	add_column(out, l, COLUMN_LIMIT, FRAME_NORMAL,
		format_percent((uint32_t)json_uint_or_zero(spec, "limit_permille")).s);
	add_column(out, l, COLUMN_MEMORY, FRAME_NORMAL, memory);
	add_column(out, l, COLUMN_WAITED, FRAME_NORMAL, format_duration(waited_ns).s);
	add_column(out, l, COLUMN_STATE, FRAME_NORMAL, json_text_or_empty(on, "why"));
	if (l->spark > 0)
		draw_spark(f, row, l->spark, out);
	frame_set_style(out, FRAME_NORMAL);
	buf_add_byte(out, '\n');
}

static const json_t *remote_of(const struct row *row)
{
	return json_object_get(row->tenant, "remote");
}

/* Draws a line below the tenant that names the program's machine. */
static void draw_remote(const struct frame *f, const json_t *remote, struct buf *out)
{
	char text[160];

	snprintf(text, sizeof(text), "from %s  round trip %s  in %s/s  out %s/s",
		json_text_or_empty(remote, "peer"),
		format_duration(json_uint_or_zero(remote, "rtt_us") * NSEC_PER_USEC).s,
		format_bytes(json_uint_or_zero(remote, "received_per_s")).s,
		format_bytes(json_uint_or_zero(remote, "sent_per_s")).s);
	frame_set_style(out, FRAME_DIM);
	buf_add_text(out, "     ");
	frame_add_cell(out, text, f->width - 5, false);
	frame_set_style(out, FRAME_NORMAL);
	buf_add_byte(out, '\n');
}

static void frame_draw_body(const struct frame *frame, struct buf *out)
{
	static struct row rows[TENANTS_MAX];
	struct frame f = *frame;
	const json_t *devices = json_object_get(f.devices, "devices");
	struct layout layout;
	size_t n, lines, shown;

	f.width = f.width < 40 ? 40 : f.width;
	n = frame_collect_rows(&f, rows, TENANTS_MAX);
	layout = layout_for(f.width, longest_name(rows, n));
	draw_title(&f, json_array_size(json_object_get(f.list, "tenants")), out);
	for (size_t i = 0; i < json_array_size(devices); i++)
		frame_draw_device(&f, json_array_get(devices, i), rows, n, out);
	draw_head(&f, &layout, out);
	lines = 2 + json_array_size(devices) + (f.keys ? 1 : 0);
	for (shown = 0; shown < n; shown++) {
		const json_t *remote = remote_of(&rows[shown]);

		lines += remote ? 2 : 1;
		if (f.height && (size_t)f.height < lines)
			break;
		frame_draw_tenant(&f, &layout, &rows[shown], out);
		if (remote)
			draw_remote(&f, remote, out);
	}
	if (!f.keys)
		return;
	frame_set_style(out, FRAME_DIM);
	/*
	 * The number of hidden tenants comes first, because a narrow screen cuts the end of the
	 * line.
	 */
	if (shown < n)
		buf_addf(out, "%zu more tenant%s  ", n - shown, n - shown == 1 ? "" : "s");
	buf_addf(out, "q quit  s sort (%s)  p %s", frame_sort_name(f.sort),
		f.paused ? "resume" : "pause");
	frame_set_style(out, FRAME_NORMAL);
	buf_add_byte(out, '\n');
}

/* The terminal would wrap a line that is wider than the screen. */
void frame_draw(const struct frame *frame, struct buf *out)
{
	_cleanup_buf_ struct buf whole = BUF_INIT(out->max);
	int column = 0;

	frame_draw_body(frame, &whole);
	for (size_t i = 0; i < whole.n; i++) {
		const unsigned char c = (unsigned char)whole.p[i];

		if (c == FRAME_MARK && i + 1 < whole.n) {
			buf_add_byte(out, (char)c);
			buf_add_byte(out, whole.p[++i]);
			continue;
		}
		column = c == '\n' ? 0 : (c & 0xc0) != 0x80 ? column + 1 : column;
		if (column <= frame->width)
			buf_add_byte(out, (char)c);
	}
}

void frame_plain(const struct buf *drawn, struct buf *out)
{
	for (size_t i = 0; i < drawn->n; i++) {
		if (drawn->p[i] == FRAME_MARK)
			i++;
		else
			buf_add_byte(out, drawn->p[i]);
	}
}

void frame_ansi(const struct buf *drawn, struct buf *out, int *ret_lines)
{
	static const char *const code[] = {
		"0", "1", "2", "33;1", "34;1", "33", "32", "35", "36", "31"};

	*ret_lines = 0;
	for (size_t i = 0; i < drawn->n; i++) {
		if (drawn->p[i] == FRAME_MARK) {
			buf_addf(out, "\033[0;%sm",
				code[(size_t)(drawn->p[++i] - 'A') % ARRAY_SIZE(code)]);
			continue;
		}
		if (drawn->p[i] == '\n') {
			buf_add_text(out, "\033[K");
			(*ret_lines)++;
		}
		buf_add_byte(out, drawn->p[i]);
	}
}
