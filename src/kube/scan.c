/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pushdown automaton over bytes: see scan.h. `keys[d]` is the key whose value is open in the
 * object at depth d, for the few depths that matter. Parts are copied in runs: `from` is the start
 * of the present run in the bytes that were fed. One thread.
 */
#include "kube/scan.h"

#include <errno.h>
#include <string.h>

enum state {
	TOP,       /* between values */
	VALUE,     /* a value has to follow */
	FIRST,     /* a value or the array's end */
	KEY_FIRST, /* a key or the object's end */
	KEY,       /* a key has to follow */
	COLON,
	AFTER, /* a comma or an end */
	STRING,
	ESCAPE,
	LITERAL,
};

enum part { PART_NONE, PART_META, PART_TYPE, PART_OBJECT };

enum key { KEY_OTHER, KEY_METADATA, KEY_ITEMS, KEY_TYPE, KEY_OBJECT, KEY_MANAGED };

static const struct str known_keys[] = {
	[KEY_OTHER] = {"", 0},
	[KEY_METADATA] = {"metadata", 8},
	[KEY_ITEMS] = {"items", 5},
	[KEY_TYPE] = {"type", 4},
	[KEY_OBJECT] = {"object", 6},
	[KEY_MANAGED] = {"managedFields", 13},
};

#define PART_KEEP_BYTES (256u << 10) /* memory kept for the next object */

struct feed {
	const char *p;
	size_t n, i;
	size_t from;
	struct error *err;
};

void scan_init(struct scan *scan, enum scan_kind kind, const struct scan_handler *handler)
{
	*scan = (struct scan){
		.kind = kind,
		.handler = *handler,
		.state = TOP,
		.object_depth = kind == SCAN_LIST ? 3 : 2,
		.part = BUF_INIT(SCAN_ITEM_MAX),
		.type = BUF_INIT(SCAN_TYPE_MAX),
	};
}

void scan_done(struct scan *scan)
{
	buf_done(&scan->part);
	buf_done(&scan->type);
}

static int scan_refuse_input(struct feed *feed, const char *what)
{
	const unsigned char c = feed->i < feed->n ? (unsigned char)feed->p[feed->i] : 0;

	return fail(feed->err, EBADMSG, "%s: byte 0x%02x", what, c);
}

static bool is_object_at(const struct scan *s, uint32_t depth)
{
	return s->stack[depth / 8] & (1u << (depth % 8));
}

static enum key scan_key_at(const struct scan *s, uint32_t depth)
{
	return depth < SCAN_LEVELS ? (enum key)s->keys[depth] : KEY_OTHER;
}

static struct buf *scan_wanted_part(struct scan *s)
{
	return s->taking == PART_TYPE ? &s->type : &s->part;
}

/* Copies the run up to `end`, if it belongs to a part. */
static int scan_take_bytes(struct scan *s, struct feed *feed, size_t end)
{
	struct buf *part = scan_wanted_part(s);
	const size_t max = s->taking == PART_META ? SCAN_META_MAX : part->max;
	int r = 0;

	if (s->taking != PART_NONE && !s->is_cutting && end > feed->from) {
		if (part->n + (end - feed->from) > max)
			return fail(feed->err, EMSGSIZE, "an object of more than %zu bytes", max);
		r = buf_add(part, (struct str){feed->p + feed->from, end - feed->from});
	}
	feed->from = end;
	return r < 0 ? fail(feed->err, ENOMEM, "out of memory for an object") : 0;
}

/* managedFields has ended: removes its key, and one of the commas around it. */
static int end_cut(struct scan *s, struct feed *feed, size_t end)
{
	const char *p = s->part.p;
	size_t n = s->key_at;

	s->is_cutting = false;
	feed->from = end;
	while (n && strchr(" \t\r\n", p[n - 1]))
		n--;
	if (n && p[n - 1] == ',')
		n--;
	else
		s->is_next_comma_cut = true;
	s->part.n = n;
	s->part.p[n] = '\0';
	return 0;
}

static int begin_cut(struct scan *s, struct feed *feed)
{
	int r = scan_take_bytes(s, feed, feed->i);

	s->is_cutting = r == 0;
	return r;
}

/*
 * Returns the part that begins with a value at this place, usually PART_NONE. Refuses misplaced
 * values.
 */
static int part_at(struct scan *s, struct feed *feed, char c)
{
	const enum key key = scan_key_at(s, 1);

	if (s->kind == SCAN_LIST) {
		if (s->depth == 2 && key == KEY_ITEMS && c != '{')
			return scan_refuse_input(feed, "an item must be an object");
		if (s->depth == 2 && key == KEY_ITEMS)
			return PART_OBJECT;
		if (s->depth != 1)
			return PART_NONE;
		if ((key == KEY_METADATA && s->has_meta) || (key == KEY_ITEMS && s->has_items))
			return scan_refuse_input(feed, "a list with two of the same");
		if (key == KEY_ITEMS && c != '[' && c != 'n')
			return scan_refuse_input(feed, "'items' must be a list");
		if (key == KEY_METADATA && c != '{')
			return scan_refuse_input(feed, "'metadata' must be an object");
		s->has_items |= key == KEY_ITEMS;
		s->has_meta |= key == KEY_METADATA;
		return key == KEY_METADATA ? PART_META : PART_NONE;
	}
	if (s->depth != 1 || (key != KEY_TYPE && key != KEY_OBJECT))
		return PART_NONE;
	if (c != (key == KEY_TYPE ? '"' : '{') || (key == KEY_TYPE ? s->type.n > 0 : s->has_object))
		return scan_refuse_input(feed, "a frame needs one type and one object");
	s->has_object |= key == KEY_OBJECT;
	return key == KEY_TYPE ? PART_TYPE : PART_OBJECT;
}

static int scan_push_level(struct scan *s, struct feed *feed, bool is_object)
{
	if (s->depth >= SCAN_DEPTH_MAX)
		return fail(feed->err, EMSGSIZE, "nested deeper than %u", SCAN_DEPTH_MAX);
	s->depth++;
	if (is_object)
		s->stack[s->depth / 8] |= (uint8_t)(1u << (s->depth % 8));
	else
		s->stack[s->depth / 8] &= (uint8_t) ~(1u << (s->depth % 8));
	if (s->depth < SCAN_LEVELS)
		s->keys[s->depth] = KEY_OTHER;
	s->state = is_object ? KEY_FIRST : FIRST;
	return 0;
}

static bool is_literal(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '+' ||
		c == '.' || c == 'E';
}

static int begin_value(struct scan *s, struct feed *feed, char c)
{
	int r;

	if (s->taking == PART_NONE) {
		r = part_at(s, feed, c);
		if (r < 0)
			return r;
		if (r != PART_NONE) {
			s->taking = r;
			s->part_depth = s->depth;
			feed->from = feed->i;
			buf_clear(scan_wanted_part(s));
		}
	} else if (s->taking == PART_OBJECT && s->depth == s->object_depth + 1 &&
		scan_key_at(s, s->depth) == KEY_MANAGED &&
		scan_key_at(s, s->depth - 1) == KEY_METADATA) {
		r = begin_cut(s, feed);
		if (r < 0)
			return r;
	}
	feed->i++;
	if (c == '{' || c == '[')
		return scan_push_level(s, feed, c == '{');
	if (c == '"') {
		s->is_key = false;
		s->state = STRING;
		return 0;
	}
	feed->i--;
	if (!is_literal(c))
		return scan_refuse_input(feed, "a value is expected");
	s->state = LITERAL;
	return 0;
}

static void scan_shrink_buffer(struct buf *part)
{
	if (part->cap > PART_KEEP_BYTES)
		buf_done(part);
	*part = (struct buf){.p = part->p, .cap = part->cap, .max = SCAN_ITEM_MAX};
	buf_clear(part);
}

static int hand_over_object(struct scan *s, struct str type)
{
	int r;

	s->n_items++;
	r = s->handler.item(s->handler.data, type, buf_str(&s->part));
	scan_shrink_buffer(&s->part);
	return MIN(r, 0);
}

static int end_part(struct scan *s, struct feed *feed, size_t end)
{
	const enum part taken = (enum part)s->taking;
	int r = scan_take_bytes(s, feed, end);

	s->taking = PART_NONE;
	if (r < 0 || taken == PART_TYPE)
		return r;
	if (taken == PART_META) {
		r = s->handler.meta ? s->handler.meta(s->handler.data, buf_str(&s->part)) : 0;
		buf_clear(&s->part);
		return MIN(r, 0);
	}
	/*
	 * In a watch, the frame's type may follow its object, so scan_end_frame() hands over the
	 * object.
	 */
	return s->kind == SCAN_LIST ? hand_over_object(s, STR("")) : 0;
}

static int scan_end_frame(struct scan *s, struct feed *feed)
{
	struct str type = buf_str(&s->type);
	int r;

	if (s->kind == SCAN_LIST) {
		s->is_over = true;
		return 0;
	}
	if (type.n < 3 || !s->has_object)
		return scan_refuse_input(feed, "a frame needs one type and one object");
	r = hand_over_object(s, (struct str){type.p + 1, type.n - 2});
	buf_clear(&s->type);
	s->has_object = false;
	return r;
}

/* The value whose last byte is before `end` is complete. */
static int end_value(struct scan *s, struct feed *feed, size_t end)
{
	int r = 0;

	s->state = s->depth ? AFTER : TOP;
	if (s->is_cutting && s->depth == s->object_depth + 1)
		return end_cut(s, feed, end);
	if (s->taking != PART_NONE && s->depth == s->part_depth)
		r = end_part(s, feed, end);
	if (r == 0 && s->depth == 0)
		r = scan_end_frame(s, feed);
	return r;
}

static int scan_pop_level(struct scan *s, struct feed *feed, bool is_object)
{
	if (!s->depth || is_object_at(s, s->depth) != is_object)
		return scan_refuse_input(feed, "a bracket without its partner");
	s->depth--;
	s->is_next_comma_cut = false;
	feed->i++;
	return end_value(s, feed, feed->i);
}

static void end_key(struct scan *s)
{
	uint8_t found = KEY_OTHER;

	for (uint8_t k = KEY_METADATA; k <= KEY_MANAGED; k++)
		if (s->n_key == known_keys[k].n && !memcmp(s->key, known_keys[k].p, s->n_key))
			found = k;
	if (s->depth < SCAN_LEVELS)
		s->keys[s->depth] = found;
	s->state = COLON;
}

static int in_string(struct scan *s, struct feed *feed)
{
	const char *p = feed->p;
	const size_t start = feed->i;
	size_t i = start;

	while (i < feed->n && p[i] != '"' && p[i] != '\\' && (unsigned char)p[i] >= 0x20)
		i++;
	if (s->is_key && s->n_key <= SCAN_KEY_MAX) {
		const size_t n = MIN(i - start, (size_t)SCAN_KEY_MAX - s->n_key);

		memcpy(s->key + s->n_key, p + start, n);
		/* Counts one byte more than fits, so that a longer key matches no known key. */
		s->n_key += (uint32_t)n + (n < i - start);
	}
	feed->i = i;
	if (i == feed->n)
		return 0;
	if (p[i] == '\\') {
		s->n_key = SCAN_KEY_MAX + 1;
		s->state = ESCAPE;
		feed->i++;
		return 0;
	}
	if (p[i] != '"')
		return scan_refuse_input(feed, "a control character in a string");
	feed->i++;
	if (!s->is_key)
		return end_value(s, feed, feed->i);
	end_key(s);
	return 0;
}

static int begin_key(struct scan *s, struct feed *feed)
{
	s->is_key = true;
	s->n_key = 0;
	s->state = STRING;
	if (s->taking == PART_OBJECT && !s->is_cutting && s->depth == s->object_depth + 1)
		s->key_at = s->part.n + (feed->i - feed->from);
	feed->i++;
	return 0;
}

static int after_value(struct scan *s, struct feed *feed, char c)
{
	if (c == '}' || c == ']')
		return scan_pop_level(s, feed, c == '}');
	if (c != ',')
		return scan_refuse_input(feed, "a comma or an end is expected");
	s->state = is_object_at(s, s->depth) ? KEY : VALUE;
	if (s->is_next_comma_cut && s->depth == s->object_depth + 1) {
		int r = scan_take_bytes(s, feed, feed->i);

		if (r < 0)
			return r;
		s->is_next_comma_cut = false;
		feed->from = feed->i + 1;
	}
	feed->i++;
	return 0;
}

static int in_literal(struct scan *s, struct feed *feed)
{
	while (feed->i < feed->n && is_literal(feed->p[feed->i]))
		feed->i++;
	return feed->i < feed->n ? end_value(s, feed, feed->i) : 0;
}

static int scan_between_values(struct scan *s, struct feed *feed, char c)
{
	switch ((enum state)s->state) {
	case TOP:
		if (c != '{' || s->is_over)
			return scan_refuse_input(
				feed, s->is_over ? "more behind the list" : "no object");
		return begin_value(s, feed, c);
	case FIRST:
		if (c == ']')
			return scan_pop_level(s, feed, false);
		return begin_value(s, feed, c);
	case VALUE: return begin_value(s, feed, c);
	case KEY_FIRST:
		if (c == '}')
			return scan_pop_level(s, feed, true);
		return c == '"' ? begin_key(s, feed) : scan_refuse_input(feed, "a key is expected");
	case KEY:
		return c == '"' ? begin_key(s, feed) : scan_refuse_input(feed, "a key is expected");
	case COLON:
		if (c != ':')
			return scan_refuse_input(feed, "a colon is expected");
		s->state = VALUE;
		feed->i++;
		return 0;
	default: return after_value(s, feed, c);
	}
}

static int scan_step(struct scan *s, struct feed *feed)
{
	const char c = feed->p[feed->i];

	if (s->state == STRING)
		return in_string(s, feed);
	if (s->state == LITERAL)
		return in_literal(s, feed);
	if (s->state == ESCAPE) {
		s->state = STRING;
		if ((unsigned char)c < 0x20)
			return scan_refuse_input(feed, "a control character in a string");
		feed->i++;
		return 0;
	}
	if (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
		feed->i++;
		return 0;
	}
	return scan_between_values(s, feed, c);
}

int scan_feed(struct scan *s, struct str bytes, struct error *err)
{
	struct feed feed = {.p = bytes.p, .n = bytes.n, .err = err};
	int r = 0;

	if (s->error)
		return fail(err, -s->error, "the body was refused before");
	while (r == 0 && feed.i < feed.n)
		r = scan_step(s, &feed);
	if (r == 0)
		r = scan_take_bytes(s, &feed, feed.n);
	s->error = r;
	return r;
}

int scan_end(struct scan *s, struct error *err)
{
	if (s->error)
		return fail(err, -s->error, "the body was refused before");
	if (s->kind == SCAN_WATCH)
		return s->state == TOP ? 0 : fail(err, EPIPE, "the body ends within a frame");
	if (!s->is_over)
		return fail(err, EBADMSG, "the body ends within the list");
	return s->has_items && s->has_meta ? 0
					   : fail(err, EBADMSG, "no list: no metadata or items");
}
