/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions as sets of states (Thompson's construction). The parser emits states: a piece
 * of the expression is the range of states from its first to the next, and a repetition copies its
 * piece. The matcher keeps the set of states that the text so far can be in, so its time is the
 * length of the text times the number of states. Any thread.
 */
#include "claims/cel-regex.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum regex_op {
	REGEX_CLASS, /* one character of the class */
	REGEX_SPLIT, /* continues at `next` and at `other`, both relative to the state */
	REGEX_JUMP,  /* continues at `next`, relative to the state */
	REGEX_START, /* only at the start of the text */
	REGEX_END,   /* only at the end of the text */
	REGEX_DONE,
};

#define REGEX_RANGES_MAX 16u
#define REGEX_REPEAT_MAX 1000u

struct regex_class {
	bool is_negated;
	uint32_t n;
	struct {
		uint32_t first, last;
	} range[REGEX_RANGES_MAX];
};

struct regex_state {
	enum regex_op op;
	int32_t next, other;
	struct regex_class class;
};

struct regex {
	struct str rest;
	struct regex_state *state; /* CEL_REGEX_STATES_MAX of them */
	uint32_t n, depth;
	bool is_caseless;
	int fault;
	struct error *err;
};

#define REGEX_FAULT(re, code, ...) \
	do { \
		if (!(re)->fault) \
			(re)->fault = fail((re)->err, code, __VA_ARGS__); \
	} while (0)

static void regex_parse_choice(struct regex *re);

static bool regex_take(struct regex *re, char c)
{
	if (!re->rest.n || re->rest.p[0] != c)
		return false;
	re->rest = (struct str){re->rest.p + 1, re->rest.n - 1};
	return true;
}

/* Cuts a character off the text; a byte that is no UTF-8 counts as one character. */
static uint32_t regex_next_char(struct str *s)
{
	const unsigned char *p = (const unsigned char *)s->p;
	size_t size = str_utf8(*s);
	uint32_t c = p[0];

	size = size ? size : 1;
	if (size == 2)
		c = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
	else if (size == 3)
		c = (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
	else if (size == 4)
		c = (p[0] & 0x7u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 |
			(p[3] & 0x3fu);
	*s = (struct str){s->p + size, s->n - size};
	return c;
}

/* Inserts a state before position `at`. Jumps are relative, and none crosses the position. */
static struct regex_state *regex_insert(struct regex *re, uint32_t at, enum regex_op op)
{
	static struct regex_state none;

	if (re->n >= CEL_REGEX_STATES_MAX)
		REGEX_FAULT(re, E2BIG, "needs more than %u states", CEL_REGEX_STATES_MAX);
	if (re->fault)
		return &none;
	memmove(&re->state[at + 1], &re->state[at], (re->n - at) * sizeof(*re->state));
	re->n++;
	re->state[at] = (struct regex_state){.op = op, .next = 1, .other = 1};
	return &re->state[at];
}

/* Copies the piece of n states at `from` to the end. */
static void regex_copy(struct regex *re, uint32_t from, uint32_t n)
{
	if (re->n + n > CEL_REGEX_STATES_MAX)
		REGEX_FAULT(re, E2BIG, "needs more than %u states", CEL_REGEX_STATES_MAX);
	if (re->fault)
		return;
	memcpy(&re->state[re->n], &re->state[from], n * sizeof(*re->state));
	re->n += n;
}

/* ---- classes ---- */

static void regex_add_range(
	struct regex *re, struct regex_class *class, uint32_t first, uint32_t last)
{
	if (class->n == REGEX_RANGES_MAX) {
		REGEX_FAULT(re, E2BIG, "a class has more than %u ranges", REGEX_RANGES_MAX);
		return;
	}
	class->range[class->n].first = first;
	class->range[class->n++].last = last;
}

static const struct {
	char name;
	const char *ranges; /* pairs of first and last character */
} regex_classes[] = {
	{'d', "09"},
	{'w', "09AZ__az"},
	{'s', "\t\n\f\r  "},
};

/* Adds \d, \w or \s to the class; upper case only if the class is empty. */
static bool regex_add_named(struct regex *re, struct regex_class *class, char name)
{
	for (size_t i = 0; i < ARRAY_SIZE(regex_classes); i++) {
		const char *ranges = regex_classes[i].ranges;
		const bool is_upper = name == regex_classes[i].name - 'a' + 'A';

		if (name != regex_classes[i].name && !is_upper)
			continue;
		if (is_upper && (class->n || class->is_negated))
			REGEX_FAULT(re, ENOTSUP, "\\%c in a class is not supported", name);
		class->is_negated |= is_upper;
		for (; *ranges; ranges += 2)
			regex_add_range(
				re, class, (unsigned char)ranges[0], (unsigned char)ranges[1]);
		return true;
	}
	return false;
}

/* Reads what follows a backslash. Returns false if a class was added instead of a character. */
static bool regex_read_escape(struct regex *re, struct regex_class *class, uint32_t *ret)
{
	static const char from[] = "fnrtv", into[] = "\f\n\r\t\v";
	const char c = re->rest.n ? re->rest.p[0] : '\0';
	const char *at = c ? strchr(from, c) : NULL;

	*ret = (unsigned char)c;
	if (!re->rest.n) {
		REGEX_FAULT(re, EINVAL, "ends with a backslash");
		return true;
	}
	re->rest = (struct str){re->rest.p + 1, re->rest.n - 1};
	if (regex_add_named(re, class, c))
		return false;
	if (at)
		*ret = (unsigned char)into[at - from];
	else if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		(unsigned char)c >= 0x80)
		REGEX_FAULT(re, ENOTSUP, "\\%c is not supported", c);
	return true;
}

/* Reads a class behind its '['. */
static void regex_read_class(struct regex *re, struct regex_class *class)
{
	bool is_first = true;

	class->is_negated = false;
	if (regex_take(re, '^')) {
		class->is_negated = true;
	}
	while (!re->fault && re->rest.n && (is_first || re->rest.p[0] != ']')) {
		uint32_t first, last;

		is_first = false;
		if (str_has_prefix(re->rest, STR("[:")))
			REGEX_FAULT(re, ENOTSUP, "[:...:] is not supported");
		first = regex_next_char(&re->rest);
		if (first == '\\' && !regex_read_escape(re, class, &first))
			continue;
		last = first;
		if (re->rest.n > 1 && re->rest.p[0] == '-' && re->rest.p[1] != ']') {
			struct regex_class other = {0};

			regex_take(re, '-');
			last = regex_next_char(&re->rest);
			if (last == '\\' && !regex_read_escape(re, &other, &last))
				REGEX_FAULT(re, EINVAL, "a range ends with a class");
			if (last < first)
				REGEX_FAULT(re, EINVAL, "a range of a class is empty");
		}
		regex_add_range(re, class, first, last);
	}
	if (!regex_take(re, ']'))
		REGEX_FAULT(re, EINVAL, "a class has no end");
}

/* Adds the other case of all ASCII letters in the class. */
static void regex_ignore_case(struct regex *re, struct regex_class *class)
{
	const uint32_t n = class->n;

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t first = class->range[i].first, last = class->range[i].last;
		const uint32_t low = MAX(first, (uint32_t)'a'), high = MIN(last, (uint32_t)'z');
		const uint32_t up = MAX(first, (uint32_t)'A'), top = MIN(last, (uint32_t)'Z');

		if (low <= high)
			regex_add_range(re, class, low - 'a' + 'A', high - 'a' + 'A');
		if (up <= top)
			regex_add_range(re, class, up - 'A' + 'a', top - 'A' + 'a');
	}
}

/* ---- pieces ---- */

static void regex_parse_group(struct regex *re)
{
	if (regex_take(re, '?') && !regex_take(re, ':'))
		REGEX_FAULT(re, ENOTSUP, "the group (?%.1s is not supported",
			re->rest.n ? re->rest.p : "");
	if (++re->depth > CEL_REGEX_DEPTH_MAX)
		REGEX_FAULT(re, E2BIG, "is nested deeper than %u levels", CEL_REGEX_DEPTH_MAX);
	if (!re->fault)
		regex_parse_choice(re);
	re->depth--;
	if (!regex_take(re, ')'))
		REGEX_FAULT(re, EINVAL, "a group has no end");
}

/* Parses a character, class, group or anchor. Returns whether it may be repeated. */
static bool regex_parse_atom(struct regex *re)
{
	struct regex_class class = {.n = 0};
	uint32_t c;

	if (regex_take(re, '(')) {
		regex_parse_group(re);
		return true;
	}
	if (regex_take(re, '^')) {
		regex_insert(re, re->n, REGEX_START);
		return true;
	}
	if (regex_take(re, '$')) {
		regex_insert(re, re->n, REGEX_END);
		return true;
	}
	c = regex_next_char(&re->rest);
	if (c == '[') {
		regex_read_class(re, &class);
	} else if (c == '.') {
		class.is_negated = true;
		regex_add_range(re, &class, '\n', '\n');
	} else if (c == '*' || c == '+' || c == '?') {
		REGEX_FAULT(re, EINVAL, "nothing precedes '%c'", (char)c);
	} else if (c != '\\' || regex_read_escape(re, &class, &c)) {
		regex_add_range(re, &class, c, c);
	}
	if (re->is_caseless)
		regex_ignore_case(re, &class);
	if (!re->fault)
		regex_insert(re, re->n, REGEX_CLASS)->class = class;
	return true;
}

/* Reads "{2}", "{2,}" or "{2,4}"; false: the text is no repetition. most: UINT32_MAX for none. */
static bool regex_read_bounds(struct regex *re, uint32_t *least, uint32_t *most)
{
	struct str s = re->rest;
	uint32_t *into = least;

	*least = 0;
	*most = UINT32_MAX;
	if (!str_skip_prefix(&s, STR("{")) || !s.n || s.p[0] < '0' || s.p[0] > '9')
		return false;
	while (s.n && s.p[0] != '}') {
		if (s.p[0] == ',' && into == least) {
			into = most;
		} else if (s.p[0] >= '0' && s.p[0] <= '9') {
			*into = *into == UINT32_MAX ? 0 : *into;
			*into = MIN(*into * 10 + (uint32_t)(s.p[0] - '0'), REGEX_REPEAT_MAX + 1);
		} else {
			return false;
		}
		s = (struct str){s.p + 1, s.n - 1};
	}
	if (!str_skip_prefix(&s, STR("}")))
		return false;
	if (into == least)
		*most = *least;
	re->rest = s;
	return true;
}

/* Repeats the piece from state `from` to the end. */
static void regex_repeat(struct regex *re, uint32_t from, uint32_t least, uint32_t most)
{
	const uint32_t n = re->n - from;
	uint32_t last = from;

	if (least > REGEX_REPEAT_MAX || (most != UINT32_MAX && most > REGEX_REPEAT_MAX) ||
		most < least) {
		REGEX_FAULT(re, EINVAL, "a repetition is out of range");
		return;
	}
	if (!most) {
		re->n = from;
		return;
	}
	for (uint32_t i = 1; i < least && !re->fault; i++) {
		last = re->n;
		regex_copy(re, from, n);
	}
	if (most == UINT32_MAX && least) {
		const uint32_t end = re->n;

		regex_insert(re, end, REGEX_SPLIT)->next = -(int32_t)(end - last);
	} else if (most == UINT32_MAX) {
		regex_insert(re, from, REGEX_SPLIT)->other = (int32_t)n + 2;
		regex_insert(re, re->n, REGEX_JUMP)->next = -(int32_t)n - 1;
	} else {
		/* Without a least number the first copy itself is optional. */
		if (!least)
			regex_insert(re, from, REGEX_SPLIT)->other = (int32_t)n + 1;
		for (uint32_t i = MAX(least, 1u); i < most && !re->fault; i++) {
			regex_insert(re, re->n, REGEX_SPLIT)->other = (int32_t)n + 1;
			regex_copy(re, from + !least, n);
		}
	}
}

static void regex_parse_sequence(struct regex *re)
{
	while (!re->fault && re->rest.n && re->rest.p[0] != '|' && re->rest.p[0] != ')') {
		const uint32_t from = re->n;
		uint32_t least, most;

		regex_parse_atom(re);
		if (regex_take(re, '*'))
			regex_repeat(re, from, 0, UINT32_MAX);
		else if (regex_take(re, '+'))
			regex_repeat(re, from, 1, UINT32_MAX);
		else if (regex_take(re, '?'))
			regex_repeat(re, from, 0, 1);
		else if (regex_read_bounds(re, &least, &most))
			regex_repeat(re, from, least, most);
		else
			continue;
		/* A repetition that prefers fewer copies matches the same texts. */
		regex_take(re, '?');
		if (re->rest.n && strchr("*+?", re->rest.p[0]))
			REGEX_FAULT(re, EINVAL, "a repetition is repeated");
	}
}

static void regex_parse_choice(struct regex *re)
{
	uint32_t from = re->n;

	regex_parse_sequence(re);
	while (!re->fault && regex_take(re, '|')) {
		const uint32_t n = re->n - from;
		uint32_t jump;

		regex_insert(re, from, REGEX_SPLIT)->other = (int32_t)n + 2;
		jump = re->n;
		regex_insert(re, re->n, REGEX_JUMP);
		from = re->n;
		regex_parse_choice(re);
		if (!re->fault)
			re->state[jump].next = (int32_t)(re->n - jump);
	}
}

/* ---- matching ---- */

static bool regex_class_has(const struct regex_class *class, uint32_t c)
{
	for (uint32_t i = 0; i < class->n; i++)
		if (c >= class->range[i].first && c <= class->range[i].last)
			return !class->is_negated;
	return class->is_negated;
}

struct regex_set {
	uint32_t *v;
	bool *has; /* by state */
	uint32_t n;
};

/*
 * Adds the state and all states that follow without a character. `stack` has room for the states of
 * the expression. Returns whether the end was reached.
 */
static bool regex_add(const struct regex *re, struct regex_set *set, uint32_t *stack,
	uint32_t start, bool is_start, bool is_end)
{
	uint32_t n = 0;
	bool is_done = false;

	stack[n++] = start;
	set->has[start] = true;
	while (n) {
		const uint32_t at = stack[--n];
		const struct regex_state *state = &re->state[at];
		int32_t follow[2] = {0, 0};

		switch (state->op) {
		case REGEX_CLASS: set->v[set->n++] = at; break;
		case REGEX_SPLIT:
			follow[0] = state->next;
			follow[1] = state->other;
			break;
		case REGEX_JUMP: follow[0] = state->next; break;
		case REGEX_START: follow[0] = is_start; break;
		case REGEX_END: follow[0] = is_end; break;
		case REGEX_DONE: is_done = true; break;
		}
		for (size_t i = 0; i < ARRAY_SIZE(follow); i++) {
			const uint32_t to = (uint32_t)((int32_t)at + follow[i]);

			if (!follow[i] || set->has[to])
				continue;
			set->has[to] = true;
			stack[n++] = to;
		}
	}
	return is_done;
}

static bool regex_run(const struct regex *re, struct str text, uint32_t *room, bool *has)
{
	struct regex_set now = {room, has, 0}, next = {room + re->n, has + re->n, 0};
	uint32_t *stack = room + 2 * re->n;
	bool is_start = true;

	for (;;) {
		struct regex_set swap;
		uint32_t c;

		/* A match may begin at each character. */
		if (!now.has[0] && regex_add(re, &now, stack, 0, is_start, !text.n))
			return true;
		if (!text.n)
			return false;
		is_start = false;
		c = regex_next_char(&text);
		memset(next.has, 0, re->n * sizeof(*next.has));
		next.n = 0;
		for (uint32_t i = 0; i < now.n; i++)
			if (regex_class_has(&re->state[now.v[i]].class, c) &&
				!next.has[now.v[i] + 1] &&
				regex_add(re, &next, stack, now.v[i] + 1, false, !text.n))
				return true;
		swap = now;
		now = next;
		next = swap;
	}
}

int cel_regex_match(struct str regex, struct str text, size_t most, bool *ret, size_t *ret_steps,
	struct error *err)
{
	_cleanup_free_ struct regex_state *states = calloc(
		CEL_REGEX_STATES_MAX + 1, sizeof(*states));
	struct regex re = {.rest = regex, .state = states, .err = err};
	_cleanup_free_ uint32_t *room = NULL;
	_cleanup_free_ bool *has = NULL;

	if (!states)
		return fail(err, ENOMEM, "out of memory");
	re.is_caseless = str_skip_prefix(&re.rest, STR("(?i)"));
	regex_parse_choice(&re);
	if (re.rest.n)
		REGEX_FAULT(&re, EINVAL, "has a ')' without '('");
	regex_insert(&re, re.n, REGEX_DONE);
	if (re.fault)
		return re.fault;
	*ret_steps = (text.n + 1) * re.n;
	if (*ret_steps > most)
		return fail(err, ETIMEDOUT, "needs more than %zu steps", most);
	room = calloc(3ul * re.n + 1, sizeof(*room));
	has = calloc(2ul * re.n + 1, sizeof(*has));
	if (!room || !has)
		return fail(err, ENOMEM, "out of memory");
	*ret = regex_run(&re, text, room, has);
	return 0;
}
