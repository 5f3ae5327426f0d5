/* SPDX-License-Identifier: Apache-2.0 */
#include "fields/yaml.h"

#include <ctype.h>
#include <errno.h>
#include <libfyaml.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

DEFINE_CLEANUP(json_t *, json_decref)
DEFINE_CLEANUP(struct fy_document *, fy_document_destroy)
DEFINE_CLEANUP(struct fy_diag *, fy_diag_destroy)
DEFINE_CLEANUP(struct fy_parser *, fy_parser_destroy)

#define WORD_MAX 64

static int from_node(
	struct fy_node *node, unsigned int depth, json_t **ret_json, struct error *err);

static int line_of(struct fy_node *node)
{
	const struct fy_mark *mark = NULL;

	if (fy_node_is_scalar(node) && fy_node_get_scalar_token(node))
		mark = fy_token_start_mark(fy_node_get_scalar_token(node));
	return mark ? mark->line + 1 : 0;
}

static bool is_one_of(const char *word, const char *const *words)
{
	while (*words && strcmp(word, *words) != 0)
		words++;
	return *words;
}

static json_t *number(const char *word)
{
	const char *digits = word + strspn(word, "+-");
	char *end;
	long long n;
	double x;
	int base = 10;

	if (digits - word > 1 || !(isdigit((unsigned char)*digits) || *digits == '.'))
		return NULL;
	if (digits[0] == '0' && digits[1] == 'x')
		base = 16;
	else if (digits[0] == '0' && (digits[1] == 'o' || isdigit((unsigned char)digits[1])))
		base = 8;
	if (base == 8 && digits[1] == 'o')
		digits += 2;
	errno = 0;
	n = strtoll(digits, &end, base);
	if (!*end && end != digits && !errno)
		return json_integer(*word == '-' ? -n : n);
	errno = 0;
	x = strtod(digits, &end);
	if (*end || end == digits || errno || base != 10 || strpbrk(digits, "xXpP"))
		return NULL;
	return json_real(*word == '-' ? -x : x);
}

static json_t *plain(struct str text)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
	static const char *const trues[] = {
		"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", NULL};
	static const char *const falses[] = {
		"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", NULL};
	char word[WORD_MAX];
	json_t *json = NULL;

	if (str_copy(word, sizeof(word), text) == 0 && strlen(word) == text.n) {
		if (is_one_of(word, nulls))
			return json_null();
		if (is_one_of(word, trues))
			return json_true();
		if (is_one_of(word, falses))
			return json_false();
		json = number(word);
	}
	return json ? json : json_stringn(text.p ? text.p : "", text.n);
}

static int from_scalar(struct fy_node *node, json_t **ret_json, struct error *err)
{
	struct str text;
	json_t *json;

	text.p = fy_node_get_scalar(node, &text.n);
	if (!text.p)
		text = STR("");
	json = fy_node_get_style(node) == FYNS_PLAIN ? plain(text) : json_stringn(text.p, text.n);
	if (!json)
		return fail(err, EINVAL, "line %d: no UTF-8", line_of(node));
	*ret_json = json;
	return 0;
}

static int from_mapping(
	struct fy_node *node, unsigned int depth, json_t **ret_json, struct error *err)
{
	_cleanup_(json_decref_p) json_t *object = json_object();
	struct fy_node_pair *pair;
	void *at = NULL;
	int r;

	while ((pair = fy_node_mapping_iterate(node, &at))) {
		struct fy_node *name = fy_node_pair_key(pair);
		_cleanup_free_ char *key = NULL;
		json_t *value = NULL;
		struct str text = STR("");

		if (!name || !fy_node_is_scalar(name) || fy_node_is_alias(name))
			return fail(err, EINVAL, "a key must be a text");
		text.p = fy_node_get_scalar(name, &text.n);
		key = str_dup(text);
		if (!key)
			return fail(err, ENOMEM, "out of memory for YAML");
		if (strlen(key) != text.n || json_object_get(object, key))
			return fail(err, EINVAL, "line %d: '%s' is there twice, or has a NUL",
				line_of(name), key);
		r = from_node(fy_node_pair_value(pair), depth + 1, &value, err);
		if (r < 0)
			return r;
		if (json_object_set_new(object, key, value) < 0)
			return fail(
				err, EINVAL, "line %d: no UTF-8, or out of memory", line_of(name));
	}
	*ret_json = TAKE_PTR(object);
	return 0;
}

static int from_sequence(
	struct fy_node *node, unsigned int depth, json_t **ret_json, struct error *err)
{
	_cleanup_(json_decref_p) json_t *array = json_array();
	struct fy_node *item;
	void *at = NULL;
	int r;

	while ((item = fy_node_sequence_iterate(node, &at))) {
		json_t *value = NULL;

		r = from_node(item, depth + 1, &value, err);
		if (r < 0)
			return r;
		if (json_array_append_new(array, value) < 0)
			return fail(err, ENOMEM, "out of memory for YAML");
	}
	*ret_json = TAKE_PTR(array);
	return 0;
}

static int from_node(struct fy_node *node, unsigned int depth, json_t **ret_json, struct error *err)
{
	size_t n;

	if (depth > YAML_DEPTH_MAX)
		return fail(err, EMSGSIZE, "nested deeper than %u", YAML_DEPTH_MAX);
	if (!node) {
		*ret_json = json_null();
		return 0;
	}
	if (fy_node_is_alias(node) || fy_node_get_tag(node, &n))
		return fail(err, EINVAL, "line %d: aliases and tags are not read", line_of(node));
	if (fy_node_is_mapping(node))
		return from_mapping(node, depth, ret_json, err);
	if (fy_node_is_sequence(node))
		return from_sequence(node, depth, ret_json, err);
	return from_scalar(node, ret_json, err);
}

int yaml_fail(struct fy_diag *diag, struct error *err)
{
	void *at = NULL;
	const struct fy_diag_error *first = fy_diag_errors_iterate(diag, &at);

	if (!first)
		return fail(err, EINVAL, "this is no YAML");
	return fail(err, EINVAL, "line %d: %s", first->line, first->msg);
}

/* May a line begin behind this? YAML 1.1 has five ends of one; a byte order mark is nothing. */
static bool may_begin_line(struct str before)
{
	static const char *const ends[] = {
		"\n", "\r", "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9", "\xef\xbb\xbf"};

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (str_has_suffix(before, str_from(ends[i])))
			return true;
	return !before.n;
}

int yaml_check_text(struct str text, struct error *err)
{
	unsigned int line = 1;

	for (size_t i = 0, n; i < text.n; i += n) {
		n = str_utf8((struct str){text.p + i, text.n - i});
		if (n == 0)
			return fail(err, EINVAL, "line %u: byte 0x%02x: text in UTF-8 is right",
				line, (unsigned char)text.p[i]);
		if (text.p[i] == '%' && may_begin_line((struct str){text.p, i}))
			return fail(
				err, EINVAL, "line %u: directives ('%%') are not known here", line);
		line += text.p[i] == '\n';
	}
	return 0;
}

static int read_documents(
	struct fy_parser *parser, struct fy_diag *diag, json_t *documents, struct error *err)
{
	for (;;) {
		_cleanup_(fy_document_destroy_p) struct fy_document *document =
			fy_parse_load_document(parser);
		json_t *json = NULL;
		int r;

		if (!document)
			return fy_parser_get_stream_error(parser) ? yaml_fail(diag, err) : 0;
		r = from_node(fy_document_root(document), 0, &json, err);
		if (r < 0)
			return r;
		if (json_is_null(json))
			json_decref(json);
		else if (json_array_append_new(documents, json) < 0)
			return fail(err, ENOMEM, "out of memory for YAML");
	}
}

int yaml_parse(struct str text, json_t **ret_documents, struct error *err)
{
	struct fy_diag_cfg diag_config = {.level = FYET_ERROR, .module_mask = UINT32_MAX};
	_cleanup_(fy_diag_destroy_p) struct fy_diag *diag = NULL;
	struct fy_parse_cfg config = {.flags = FYPCF_QUIET | FYPCF_ALLOW_DUPLICATE_KEYS};
	_cleanup_(fy_parser_destroy_p) struct fy_parser *parser = NULL;
	_cleanup_(json_decref_p) json_t *documents = json_array();
	int r;

	if (text.n > YAML_MAX_BYTES)
		return fail(err, EMSGSIZE, "more than %u bytes of YAML", YAML_MAX_BYTES);
	r = yaml_check_text(text, err);
	if (r < 0)
		return r;
	diag = fy_diag_create(&diag_config);
	config.diag = diag;
	if (diag)
		fy_diag_set_collect_errors(diag, true);
	parser = diag ? fy_parser_create(&config) : NULL;
	if (!parser || !documents || fy_parser_set_string(parser, text.n ? text.p : "", text.n) < 0)
		return fail(err, ENOMEM, "out of memory for YAML");
	r = read_documents(parser, diag, documents, err);
	if (r < 0)
		return r;
	*ret_documents = TAKE_PTR(documents);
	return 0;
}
