/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses JSON with jansson and reads members by path. jansson rejects integers of more than 64
 * bits. After such an error make_real() appends "e0" to long integers, and kube_json_parse() parses
 * the text again. kube_json_member() finds a member by quotes, brackets, colons and commas, without
 * building objects. kube_json_format() writes real numbers with 15 digits, or all with 17 if 15
 * would change one of them.
 */
#include "kube/kube-json.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The index after the string that begins at i; s.n if it has no end. */
static size_t skip_string(struct str s, size_t i)
{
	for (i++; i < s.n; i++) {
		if (s.p[i] == '\\')
			i++;
		else if (s.p[i] == '"')
			return i + 1;
	}
	return s.n;
}

/* Copies the text with "e0" after integers of too many digits, which makes them real numbers. */
static int make_real(struct str text, struct buf *out)
{
	size_t i = 0;

	while (i < text.n) {
		size_t from = i, digits = 0;

		if (text.p[i] == '"') {
			i = skip_string(text, i);
			i = MIN(i, text.n);
		} else if (isdigit((unsigned char)text.p[i])) {
			while (i < text.n && isdigit((unsigned char)text.p[i]))
				i++;
			digits = i - from;
			if (i < text.n && strchr(".eE", text.p[i]))
				digits = 0;
			while (i < text.n && text.p[i] && strchr(".eE+-0123456789", text.p[i]))
				i++;
		} else {
			i++;
		}
		buf_add(out, (struct str){text.p + from, i - from});
		if (digits > KUBE_JSON_DIGITS_MAX)
			buf_add_text(out, "e0");
	}
	return buf_error(out);
}

static json_t *kube_json_load(struct str text, json_error_t *ret_why)
{
	return json_loadb(text.p ? text.p : "", text.n, JSON_ALLOW_NUL, ret_why);
}

int kube_json_parse(struct str text, json_t **ret_json, struct error *err)
{
	_cleanup_buf_ struct buf tame = BUF_INIT(2 * text.n + 64);
	json_error_t why;
	json_t *json = kube_json_load(text, &why);

	if (!json && json_error_code(&why) == json_error_numeric_overflow) {
		if (make_real(text, &tame) < 0)
			return fail(err, ENOMEM, "out of memory for JSON");
		json = kube_json_load(buf_str(&tame), &why);
	}
	if (json) {
		*ret_json = json;
		return 0;
	}
	switch (json_error_code(&why)) {
	case json_error_out_of_memory: return fail(err, ENOMEM, "out of memory for JSON");
	case json_error_stack_overflow:
	case json_error_null_byte_in_key:
	case json_error_numeric_overflow: return fail(err, EOVERFLOW, "JSON: %s", why.text);
	default: return fail(err, EBADMSG, "no JSON: byte %d: %s", why.position, why.text);
	}
}

struct str kube_json_member(struct str object, const char *key)
{
	const size_t n_key = strlen(key);
	size_t depth = 0, value = 0;
	bool is_key = false, is_wanted = false;

	for (size_t i = 0; i < object.n;) {
		const char c = object.p[i];
		size_t next = c == '"' ? skip_string(object, i) : i + 1;

		if (is_wanted && depth == 1 && (c == ',' || c == '}'))
			return str_trim((struct str){object.p + value, i - value});
		if (c == '"' && depth == 1 && is_key) {
			is_wanted = next - i == n_key + 2 && !memcmp(object.p + i + 1, key, n_key);
			is_key = false;
		} else if (c == ':' && depth == 1 && is_wanted && !value) {
			value = next;
		} else if (c == '{' || c == '[') {
			depth++;
		} else if ((c == '}' || c == ']') && depth) {
			depth--;
		}
		if (depth == 1 && (c == ',' || c == '{'))
			is_key = true;
		i = next;
	}
	return STR_NONE;
}

static json_t *kube_json_walk(const json_t *root, va_list keys)
{
	const json_t *at = root;

	for (const char *key = va_arg(keys, const char *); key; key = va_arg(keys, const char *))
		at = json_object_get(at, key);
	return (json_t *)at;
}

json_t *kube_json_at(const json_t *root, ...)
{
	va_list keys;
	json_t *found;

	va_start(keys, root);
	found = kube_json_walk(root, keys);
	va_end(keys);
	return found;
}

const char *kube_json_text_at(const json_t *root, ...)
{
	va_list keys;
	const json_t *found;
	const char *text;

	va_start(keys, root);
	found = kube_json_walk(root, keys);
	va_end(keys);
	text = json_string_value(found);
	return text && strlen(text) == json_string_length(found) ? text : NULL;
}

const char *kube_json_text(const json_t *object, const char *key)
{
	const char *text = kube_json_text_at(object, key, NULL);

	return text ? text : "";
}

/* Whether all real numbers survive being written with DBL_DIG digits. */
static bool are_numbers_short(const json_t *json)
{
	char text[64];

	if (json_is_real(json)) {
		snprintf(text, sizeof(text), "%.*g", DBL_DIG, json_real_value(json));
		return strtod(text, NULL) == json_real_value(json);
	}
	if (json_is_object(json)) {
		const char *key;
		json_t *member;

		json_object_foreach((json_t *)json, key, member)
			if (!are_numbers_short(member))
				return false;
	}
	for (size_t i = 0; i < json_array_size(json); i++)
		if (!are_numbers_short(json_array_get(json, i)))
			return false;
	return true;
}

/* Writes few digits if possible, so that 0.3 stays 0.3. */
char *kube_json_format(const json_t *json)
{
	const size_t digits = are_numbers_short(json) ? DBL_DIG : DBL_DECIMAL_DIG;

	return json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
}

json_t *kube_json_sentence(const char *text)
{
	json_t *json = json_string(text);
	char plain[sizeof(((struct error *)0)->msg)];
	size_t n = 0;

	if (json)
		return json;
	for (; text[n] && n + 1 < sizeof(plain); n++)
		plain[n] = text[n];
	plain[n] = '\0';
	for (size_t i = 0; i < n; i++)
		if (plain[i] & 0x80)
			plain[i] = '?';
	return json_string(plain);
}

int kube_json_set_text(json_t *object, const char *key, const char *text)
{
	return text && text[0] ? json_object_set_new(object, key, json_string(text)) : 0;
}

void kube_json_set_renamed(json_t *object, const char *key, const char *old_key, json_t *value)
{
	json_object_set(object, old_key, value);
	json_object_set_new(object, key, value);
}

const json_t *kube_json_find(const json_t *list, const char *key, const char *text)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *its = kube_json_text_at(json_array_get(list, i), key, NULL);

		if (its && !strcmp(its, text))
			return json_array_get(list, i);
	}
	return NULL;
}

bool kube_json_is_over(const json_t *pod)
{
	const char *phase = kube_json_text_at(pod, "status", "phase", NULL);

	return phase && (!strcmp(phase, "Succeeded") || !strcmp(phase, "Failed"));
}

const json_t *kube_json_controller(const json_t *object)
{
	const json_t *owners = kube_json_at(object, "metadata", "ownerReferences", NULL);

	for (size_t i = 0; i < json_array_size(owners); i++)
		if (json_is_true(json_object_get(json_array_get(owners, i), "controller")))
			return json_array_get(owners, i);
	return NULL;
}

const json_t *kube_json_condition(const json_t *object, const char *type)
{
	return kube_json_find(kube_json_at(object, "status", "conditions", NULL), "type", type);
}

bool kube_json_list_has(const json_t *list, const char *text)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *item = json_string_value(json_array_get(list, i));

		if (item && !strcmp(item, text))
			return true;
	}
	return false;
}
