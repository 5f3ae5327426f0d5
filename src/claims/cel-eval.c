/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluates expressions of CEL. An error is a value: `||`, `&&`, all() and exists() ignore the
 * error of one operand if another operand decides, and every other operation passes the error on.
 * Each node costs a step, and each operation on texts and lists costs steps by their size, so that
 * an expression cannot take long. All values that an evaluation makes are in the run's arena.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "claims/cel-internal.h"

static struct cel_value cel_eval(struct cel_run *run, const struct cel_node *node);

static const struct cel_value cel_error = {.type = CEL_ERROR};

struct cel_value cel_fail(struct cel_run *run, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* The message about too many steps stays, because it explains all later errors. */
	if (run->steps <= CEL_STEPS_MAX)
		fail(run->err, EINVAL, "%s", text);
	return cel_error;
}

struct cel_value cel_fail_types(struct cel_run *run, const char *what)
{
	return cel_fail(run, "%s is not defined for values of these types", what);
}

bool cel_count(struct cel_run *run, size_t steps)
{
	if (run->steps > CEL_STEPS_MAX)
		return false;
	if (steps > CEL_STEPS_MAX - run->steps) {
		fail(run->err, E2BIG, "takes more than %u steps", CEL_STEPS_MAX);
		run->steps = CEL_STEPS_MAX + 1;
		return false;
	}
	run->steps += (uint32_t)steps;
	return true;
}

void *cel_take(struct cel_run *run, size_t n, size_t item)
{
	void *p;

	/* Early ends leave room unused, so the steps of what fills the room are no limit of it. */
	if (!cel_count(run, (n ? n : 1) * item / CEL_STEP_BYTES))
		return NULL;
	p = arena_take_array(&run->arena, n ? n : 1, item);
	if (!p) {
		run->is_out_of_memory = true;
		fail(run->err, ENOMEM, "out of memory");
	}
	return p;
}

/* ---- equality and order ---- */

static bool cel_is_number(struct cel_value v)
{
	return v.type == CEL_INT || v.type == CEL_UINT || v.type == CEL_DOUBLE;
}

static int cel_compare_doubles(double a, double b)
{
	if (isnan(a) || isnan(b))
		return 2;
	return a < b ? -1 : a > b;
}

/* Compares a double with an integer between INT64_MIN and UINT64_MAX, exactly. */
static int cel_compare_mixed(double a, __int128 b)
{
	if (isnan(a))
		return 2;
	if (a < -0x1p63)
		return -1;
	if (a >= 0x1p64)
		return 1;
	if ((__int128)a != b)
		return (__int128)a < b ? -1 : 1;
	return cel_compare_doubles(a, trunc(a));
}

static __int128 cel_whole(struct cel_value v)
{
	return v.type == CEL_INT ? (__int128)v.integer : (__int128)v.natural;
}

static int cel_compare_numbers(struct cel_value a, struct cel_value b)
{
	const bool is_a = a.type == CEL_DOUBLE, is_b = b.type == CEL_DOUBLE;
	int r;

	if (is_a && is_b)
		return cel_compare_doubles(a.number, b.number);
	if (is_a)
		return cel_compare_mixed(a.number, cel_whole(b));
	if (is_b) {
		r = cel_compare_mixed(b.number, cel_whole(a));
		return r == 2 ? r : -r;
	}
	return cel_whole(a) < cel_whole(b) ? -1 : cel_whole(a) > cel_whole(b);
}

int cel_compare(struct cel_value a, struct cel_value b)
{
	int r;

	if (cel_is_number(a) && cel_is_number(b))
		return cel_compare_numbers(a, b);
	if (a.type != b.type)
		return -EINVAL;
	switch (a.type) {
	case CEL_BOOL: return a.boolean - b.boolean;
	case CEL_STRING:
	case CEL_BYTES: r = str_compare(a.text, b.text); return r < 0 ? -1 : r > 0;
	default: return -EINVAL;
	}
}

const struct cel_value *cel_map_find(
	struct cel_run *run, const struct cel_value *map, struct cel_value key)
{
	for (uint32_t i = 0; i < map->map.n; i++) {
		const struct cel_pair *pair = &map->map.v[i];

		if (!cel_count(run, 1))
			return NULL;
		if (key.type == CEL_STRING && pair->key.type == CEL_STRING &&
			(pair->key.text.n != key.text.n || !cel_count(run, key.text.n)))
			continue;
		if ((pair->key.type == key.type ||
			    (cel_is_number(pair->key) && cel_is_number(key))) &&
			cel_compare(pair->key, key) == 0)
			return &pair->value;
	}
	return NULL;
}

static struct cel_value cel_equal_lists(struct cel_run *run, struct cel_value a, struct cel_value b)
{
	if (a.list.n != b.list.n)
		return cel_bool(false);
	for (uint32_t i = 0; i < a.list.n; i++) {
		const struct cel_value r = cel_equal(run, a.list.v[i], b.list.v[i]);

		if (r.type == CEL_ERROR || !r.boolean)
			return r;
	}
	return cel_bool(true);
}

static struct cel_value cel_equal_maps(struct cel_run *run, struct cel_value a, struct cel_value b)
{
	if (a.map.n != b.map.n)
		return cel_bool(false);
	for (uint32_t i = 0; i < a.map.n; i++) {
		const struct cel_value *other = cel_map_find(run, &b, a.map.v[i].key);
		struct cel_value r;

		if (!other)
			return run->steps > CEL_STEPS_MAX ? cel_error : cel_bool(false);
		r = cel_equal(run, a.map.v[i].value, *other);
		if (r.type == CEL_ERROR || !r.boolean)
			return r;
	}
	return cel_bool(true);
}

struct cel_value cel_equal(struct cel_run *run, struct cel_value a, struct cel_value b)
{
	if (!cel_count(run, 1))
		return cel_error;
	if (cel_is_number(a) && cel_is_number(b))
		return cel_bool(cel_compare_numbers(a, b) == 0);
	if (a.type == CEL_NULL || b.type == CEL_NULL)
		return cel_bool(a.type == b.type);
	/* Kubernetes' own types have no equality with other types, unlike the types of CEL. */
	if (a.type != b.type)
		return a.type == CEL_QUANTITY || a.type == CEL_SEMVER
			? cel_fail_types(run, "equality")
			: cel_bool(false);
	switch (a.type) {
	case CEL_LIST: return cel_equal_lists(run, a, b);
	case CEL_MAP: return cel_equal_maps(run, a, b);
	case CEL_QUANTITY: return cel_bool(amount_compare(*a.amount, *b.amount) == 0);
	case CEL_SEMVER: return cel_bool(semver_compare(a.version, b.version) == 0);
	case CEL_STRING:
	case CEL_BYTES:
		return cel_count(run, MIN(a.text.n, b.text.n)) ? cel_bool(str_eq(a.text, b.text))
							       : cel_error;
	default: return cel_bool(cel_compare(a, b) == 0);
	}
}

struct cel_value cel_contains(struct cel_run *run, struct cel_value set, struct cel_value item)
{
	struct cel_value r, error = cel_bool(false);

	if (set.type == CEL_MAP) {
		const bool is_found = cel_map_find(run, &set, item);

		return run->steps > CEL_STEPS_MAX ? cel_error : cel_bool(is_found);
	}
	if (set.type != CEL_LIST)
		return cel_fail_types(run, "'in'");
	for (uint32_t i = 0; i < set.list.n; i++) {
		r = cel_equal(run, item, set.list.v[i]);
		if (r.type != CEL_ERROR && r.boolean)
			return r;
		if (r.type == CEL_ERROR && run->steps > CEL_STEPS_MAX)
			return r;
	}
	return error;
}

/* ---- arithmetic ---- */

static struct cel_value cel_double(double number)
{
	return (struct cel_value){.type = CEL_DOUBLE, .number = number};
}

static struct cel_value cel_calculate_int(struct cel_run *run, enum cel_op op, int64_t a, int64_t b)
{
	int64_t r = 0;
	bool is_wrong = false;

	switch (op) {
	case CEL_OP_ADD: is_wrong = __builtin_add_overflow(a, b, &r); break;
	case CEL_OP_SUBTRACT: is_wrong = __builtin_sub_overflow(a, b, &r); break;
	case CEL_OP_MULTIPLY: is_wrong = __builtin_mul_overflow(a, b, &r); break;
	default:
		if (!b)
			return cel_fail(run, "division by zero");
		is_wrong = a == INT64_MIN && b == -1;
		if (!is_wrong)
			r = op == CEL_OP_DIVIDE ? a / b : a % b;
	}
	return is_wrong ? cel_fail(run, "integer overflow") : cel_int(r);
}

static struct cel_value cel_calculate_uint(
	struct cel_run *run, enum cel_op op, uint64_t a, uint64_t b)
{
	uint64_t r = 0;
	bool is_wrong = false;

	switch (op) {
	case CEL_OP_ADD: is_wrong = __builtin_add_overflow(a, b, &r); break;
	case CEL_OP_SUBTRACT: is_wrong = __builtin_sub_overflow(a, b, &r); break;
	case CEL_OP_MULTIPLY: is_wrong = __builtin_mul_overflow(a, b, &r); break;
	default:
		if (!b)
			return cel_fail(run, "division by zero");
		r = op == CEL_OP_DIVIDE ? a / b : a % b;
	}
	if (is_wrong)
		return cel_fail(run, "integer overflow");
	return (struct cel_value){.type = CEL_UINT, .natural = r};
}

static struct cel_value cel_join(struct cel_run *run, struct cel_value a, struct cel_value b)
{
	char *text;
	struct cel_value *items;

	if (a.type == CEL_LIST) {
		items = cel_count(run, a.list.n + b.list.n)
			? cel_take(run, a.list.n + b.list.n, sizeof(*items))
			: NULL;
		if (!items)
			return cel_error;
		for (uint32_t i = 0; i < a.list.n + b.list.n; i++)
			items[i] = i < a.list.n ? a.list.v[i] : b.list.v[i - a.list.n];
		a.list.v = items;
		a.list.n += b.list.n;
		return a;
	}
	text = cel_count(run, a.text.n + b.text.n) ? cel_take(run, a.text.n + b.text.n, 1) : NULL;
	if (!text)
		return cel_error;
	if (a.text.n)
		memcpy(text, a.text.p, a.text.n);
	if (b.text.n)
		memcpy(text + a.text.n, b.text.p, b.text.n);
	a.text = (struct str){text, a.text.n + b.text.n};
	return a;
}

static struct cel_value cel_calculate(
	struct cel_run *run, enum cel_op op, struct cel_value a, struct cel_value b)
{
	if (a.type == CEL_INT && b.type == CEL_INT)
		return cel_calculate_int(run, op, a.integer, b.integer);
	if (a.type == CEL_UINT && b.type == CEL_UINT)
		return cel_calculate_uint(run, op, a.natural, b.natural);
	if (a.type == CEL_DOUBLE && b.type == CEL_DOUBLE) {
		switch (op) {
		case CEL_OP_ADD: return cel_double(a.number + b.number);
		case CEL_OP_SUBTRACT: return cel_double(a.number - b.number);
		case CEL_OP_MULTIPLY: return cel_double(a.number * b.number);
		case CEL_OP_DIVIDE: return cel_double(a.number / b.number);
		default: break;
		}
	}
	if (op == CEL_OP_ADD && a.type == b.type &&
		(a.type == CEL_STRING || a.type == CEL_BYTES || a.type == CEL_LIST))
		return cel_join(run, a, b);
	return cel_fail_types(run, "arithmetic");
}

static struct cel_value cel_order(
	struct cel_run *run, enum cel_op op, struct cel_value a, struct cel_value b)
{
	int r;

	if ((a.type == CEL_STRING || a.type == CEL_BYTES) && a.type == b.type &&
		!cel_count(run, MIN(a.text.n, b.text.n)))
		return cel_error;
	r = cel_compare(a, b);
	if (r == -EINVAL)
		return cel_fail_types(run, "order");
	if (r == 2)
		return cel_bool(false);
	switch (op) {
	case CEL_OP_LESS: return cel_bool(r < 0);
	case CEL_OP_LESS_EQUAL: return cel_bool(r <= 0);
	case CEL_OP_GREATER: return cel_bool(r > 0);
	default: return cel_bool(r >= 0);
	}
}

static struct cel_value cel_eval_binary(struct cel_run *run, const struct cel_node *node)
{
	const struct cel_value a = cel_eval(run, node->arg[0]);
	struct cel_value b, r;

	if (a.type == CEL_ERROR)
		return a;
	b = cel_eval(run, node->arg[1]);
	if (b.type == CEL_ERROR)
		return b;
	switch (node->op) {
	case CEL_OP_EQUAL: return cel_equal(run, a, b);
	case CEL_OP_UNEQUAL:
		r = cel_equal(run, a, b);
		return r.type == CEL_ERROR ? r : cel_bool(!r.boolean);
	case CEL_OP_LESS:
	case CEL_OP_LESS_EQUAL:
	case CEL_OP_GREATER:
	case CEL_OP_GREATER_EQUAL: return cel_order(run, node->op, a, b);
	case CEL_OP_IN: return cel_contains(run, b, a);
	default: return cel_calculate(run, node->op, a, b);
	}
}

/* ---- access ---- */

static struct cel_value cel_lookup(struct cel_run *run, struct cel_value map, struct cel_value key)
{
	const struct cel_value *found = cel_map_find(run, &map, key);

	if (found)
		return *found;
	if (run->steps > CEL_STEPS_MAX)
		return cel_error;
	if (map.is_default_empty)
		return (struct cel_value){.type = CEL_MAP};
	if (key.type == CEL_STRING)
		return cel_fail(run, "no such key: %" STR_FMT, STR_ARG(key.text));
	return cel_fail(run, "no such key");
}

static struct cel_value cel_index(struct cel_run *run, struct cel_value a, struct cel_value key)
{
	__int128 at;

	if (a.type == CEL_MAP)
		return cel_lookup(run, a, key);
	if (a.type != CEL_LIST || !cel_is_number(key))
		return cel_fail_types(run, "an index");
	if (key.type == CEL_DOUBLE &&
		(fabs(key.number) > 0x1p52 || key.number != trunc(key.number)))
		return cel_fail(run, "the index is no integer");
	at = key.type == CEL_DOUBLE ? (__int128)key.number : cel_whole(key);
	if (at < 0 || at >= a.list.n)
		return cel_fail(run, "index out of range");
	return a.list.v[at];
}

static struct cel_value cel_eval_ident(struct cel_run *run, const struct cel_node *node)
{
	for (const struct cel_scope *scope = run->scope; scope; scope = scope->outer)
		if (str_eq(scope->name, node->text))
			return scope->value;
	if (str_is(node->text, "device"))
		return *run->device;
	return cel_fail(run, "undeclared reference to %" STR_FMT, STR_ARG(node->text));
}

static struct cel_value cel_eval_select(struct cel_run *run, const struct cel_node *node)
{
	const struct cel_value map = cel_eval(run, node->arg[0]);

	if (map.type == CEL_ERROR)
		return map;
	if (map.type != CEL_MAP)
		return cel_fail_types(run, "'.'");
	if (node->op == CEL_OP_SELECT)
		return cel_lookup(run, map, cel_text(node->text));
	return cel_bool(map.is_default_empty || cel_map_find(run, &map, cel_text(node->text)));
}

static struct cel_value cel_eval_index(struct cel_run *run, const struct cel_node *node)
{
	const struct cel_value a = cel_eval(run, node->arg[0]);
	struct cel_value key;

	if (a.type == CEL_ERROR)
		return a;
	key = cel_eval(run, node->arg[1]);
	return key.type == CEL_ERROR ? key : cel_index(run, a, key);
}

/* ---- logic ---- */

/* a && b with `decides` false, a || b with `decides` true. */
static struct cel_value cel_decide(
	struct cel_run *run, struct cel_value a, struct cel_value b, bool decides)
{
	if (a.type == CEL_BOOL && a.boolean == decides)
		return a;
	if (b.type == CEL_BOOL && b.boolean == decides)
		return b;
	if (a.type == CEL_BOOL && b.type == CEL_BOOL)
		return b;
	if (a.type == CEL_ERROR || b.type == CEL_ERROR)
		return cel_error;
	return cel_fail_types(run, decides ? "'||'" : "'&&'");
}

static struct cel_value cel_eval_logic(struct cel_run *run, const struct cel_node *node)
{
	const bool decides = node->op == CEL_OP_OR;
	const struct cel_value a = cel_eval(run, node->arg[0]);

	if (a.type == CEL_BOOL && a.boolean == decides)
		return a;
	return cel_decide(run, a, cel_eval(run, node->arg[1]), decides);
}

static struct cel_value cel_eval_unary(struct cel_run *run, const struct cel_node *node)
{
	const struct cel_value a = cel_eval(run, node->arg[0]);

	if (a.type == CEL_ERROR)
		return a;
	if (node->op == CEL_OP_NOT)
		return a.type == CEL_BOOL ? cel_bool(!a.boolean) : cel_fail_types(run, "'!'");
	if (a.type == CEL_DOUBLE)
		return cel_double(-a.number);
	if (a.type != CEL_INT)
		return cel_fail_types(run, "'-'");
	return a.integer == INT64_MIN ? cel_fail(run, "integer overflow") : cel_int(-a.integer);
}

static struct cel_value cel_eval_if(struct cel_run *run, const struct cel_node *node)
{
	const struct cel_value a = cel_eval(run, node->arg[0]);

	if (a.type == CEL_ERROR)
		return a;
	if (a.type != CEL_BOOL)
		return cel_fail_types(run, "'?'");
	return cel_eval(run, node->arg[a.boolean ? 1 : 2]);
}

/* ---- lists, maps and macros ---- */

static struct cel_value cel_eval_list(struct cel_run *run, const struct cel_node *node)
{
	struct cel_value *items = cel_take(run, node->n, sizeof(*items));

	for (uint32_t i = 0; items && i < node->n; i++) {
		items[i] = cel_eval(run, node->arg[i]);
		if (items[i].type == CEL_ERROR)
			return items[i];
	}
	if (!items)
		return cel_error;
	return (struct cel_value){.type = CEL_LIST, .list = {items, node->n}};
}

static struct cel_value cel_eval_map(struct cel_run *run, const struct cel_node *node)
{
	struct cel_pair *pairs = cel_take(run, node->n / 2, sizeof(*pairs));
	struct cel_value map = {.type = CEL_MAP, .map = {pairs, 0}};

	for (uint32_t i = 0; pairs && i < node->n; i += 2) {
		const struct cel_value key = cel_eval(run, node->arg[i]);
		struct cel_value value;

		if (key.type == CEL_ERROR)
			return key;
		if (key.type != CEL_STRING && key.type != CEL_INT && key.type != CEL_UINT &&
			key.type != CEL_BOOL)
			return cel_fail_types(run, "a key");
		if (cel_map_find(run, &map, key))
			return cel_fail(run, "a map has a key twice");
		value = cel_eval(run, node->arg[i + 1]);
		if (value.type == CEL_ERROR)
			return value;
		pairs[map.map.n++] = (struct cel_pair){key, value};
	}
	return pairs ? map : cel_error;
}

/* The i-th item of a range: of a list the item, of a map the key. */
static struct cel_value cel_item(struct cel_value range, uint32_t i)
{
	return range.type == CEL_LIST ? range.list.v[i] : range.map.v[i].key;
}

static uint32_t cel_range_size(struct cel_value range)
{
	return range.type == CEL_LIST ? range.list.n : range.map.n;
}

/* Evaluates the node with the macro's variable set to `value`. */
static struct cel_value cel_eval_with(struct cel_run *run, const struct cel_node *macro,
	const struct cel_node *node, struct cel_value value)
{
	const struct cel_scope scope = {macro->text, value, run->scope};
	struct cel_value r;

	run->scope = &scope;
	r = cel_eval(run, node);
	run->scope = scope.outer;
	return r;
}

static struct cel_value cel_eval_quantifier(
	struct cel_run *run, const struct cel_node *node, struct cel_value range)
{
	const bool decides = node->op == CEL_OP_EXISTS;
	struct cel_value so_far = cel_bool(!decides);

	for (uint32_t i = 0; i < cel_range_size(range); i++) {
		so_far = cel_decide(run, so_far,
			cel_eval_with(run, node, node->arg[1], cel_item(range, i)), decides);
		if (so_far.type == CEL_BOOL && so_far.boolean == decides)
			break;
		if (run->steps > CEL_STEPS_MAX)
			return cel_error;
	}
	return so_far;
}

static struct cel_value cel_eval_exists_one(
	struct cel_run *run, const struct cel_node *node, struct cel_value range)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < cel_range_size(range); i++) {
		const struct cel_value r = cel_eval_with(
			run, node, node->arg[1], cel_item(range, i));

		if (r.type == CEL_ERROR)
			return r;
		if (r.type != CEL_BOOL)
			return cel_fail_types(run, "exists_one()");
		n += r.boolean;
	}
	return cel_bool(n == 1);
}

/* filter() and map(): keeps the items for which arg[1] holds, as the value of arg[2] for map(). */
static struct cel_value cel_eval_transform(
	struct cel_run *run, const struct cel_node *node, struct cel_value range)
{
	struct cel_value *items = cel_take(run, cel_range_size(range), sizeof(*items));
	struct cel_value list = {.type = CEL_LIST, .list = {items, 0}}, r;

	for (uint32_t i = 0; items && i < cel_range_size(range); i++) {
		const struct cel_value item = cel_item(range, i);

		if (node->arg[1]) {
			r = cel_eval_with(run, node, node->arg[1], item);
			if (r.type == CEL_ERROR)
				return r;
			if (r.type != CEL_BOOL)
				return cel_fail_types(run, "a filter");
			if (!r.boolean)
				continue;
		}
		r = node->op == CEL_OP_FILTER ? item : cel_eval_with(run, node, node->arg[2], item);
		if (r.type == CEL_ERROR)
			return r;
		items[list.list.n++] = r;
	}
	return items ? list : cel_error;
}

static struct cel_value cel_eval_macro(struct cel_run *run, const struct cel_node *node)
{
	const struct cel_value range = cel_eval(run, node->arg[0]);

	if (range.type == CEL_ERROR)
		return range;
	if (range.type != CEL_LIST && range.type != CEL_MAP)
		return cel_fail_types(run, "a macro");
	switch (node->op) {
	case CEL_OP_EXISTS_ONE: return cel_eval_exists_one(run, node, range);
	case CEL_OP_FILTER:
	case CEL_OP_TRANSFORM: return cel_eval_transform(run, node, range);
	default: return cel_eval_quantifier(run, node, range);
	}
}

#define CEL_CALL_MAX 4u /* arguments of a function */

static struct cel_value cel_eval_call(struct cel_run *run, const struct cel_node *node)
{
	struct cel_value arg[CEL_CALL_MAX];

	for (uint32_t i = 0; i < node->n; i++) {
		arg[i] = cel_eval(run, node->arg[i]);
		if (arg[i].type == CEL_ERROR)
			return arg[i];
	}
	return node->function->call(run, arg, node->n);
}

static struct cel_value cel_eval(struct cel_run *run, const struct cel_node *node)
{
	if (!cel_count(run, 1))
		return cel_error;
	switch (node->op) {
	case CEL_OP_VALUE: return node->value;
	case CEL_OP_IDENT: return cel_eval_ident(run, node);
	case CEL_OP_SELECT:
	case CEL_OP_HAS: return cel_eval_select(run, node);
	case CEL_OP_INDEX: return cel_eval_index(run, node);
	case CEL_OP_LIST: return cel_eval_list(run, node);
	case CEL_OP_MAP: return cel_eval_map(run, node);
	case CEL_OP_CALL: return cel_eval_call(run, node);
	case CEL_OP_AND:
	case CEL_OP_OR: return cel_eval_logic(run, node);
	case CEL_OP_NOT:
	case CEL_OP_MINUS: return cel_eval_unary(run, node);
	case CEL_OP_IF: return cel_eval_if(run, node);
	case CEL_OP_ALL:
	case CEL_OP_EXISTS:
	case CEL_OP_EXISTS_ONE:
	case CEL_OP_FILTER:
	case CEL_OP_TRANSFORM: return cel_eval_macro(run, node);
	case CEL_OP_BIND:
		return cel_eval_with(run, node, node->arg[1], cel_eval(run, node->arg[0]));
	default: return cel_eval_binary(run, node);
	}
}

int cel_match(struct cel *cel, const struct cel_value *device, uint64_t *steps, bool *ret,
	struct error *err)
{
	struct error own = {0};
	struct cel_run run = {.device = device, .err = err ? err : &own};
	const struct cel_value r = cel_eval(&run, cel->root);
	int result = 0;

	if (run.is_out_of_memory)
		result = fail(err, ENOMEM, "out of memory");
	else if (run.steps > CEL_STEPS_MAX)
		result = -E2BIG;
	else if (r.type == CEL_ERROR)
		result = -EINVAL;
	else if (r.type != CEL_BOOL)
		result = fail(err, EINVAL, "the result is not true or false");
	if (result == 0)
		*ret = r.boolean;
	*steps -= MIN(*steps, (uint64_t)run.steps);
	arena_done(&run.arena);
	return result;
}
