/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file converts libfyaml's tree to jansson values: see yaml.h. A side table holds the lines,
 * by the address of a value or key. jansson does not move values and keys while their object lives.
 * The table is sorted when the whole text has been read. Any thread.
 */
#include "fields/yaml.h"

#include <ctype.h>
#include <errno.h>
#include <libfyaml.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

DEFINE_CLEANUP(json_t *, json_decref)
DEFINE_CLEANUP(struct fy_document *, fy_document_destroy)

#define WORD_MAX 64

struct yaml_line {
	const void *at;
	unsigned int line;
	bool is_twice;
};

/*
 * If `file` is set, lines are recorded and scalars stay text. If NULL, lines are not recorded, and
 * plain scalars become numbers, booleans or null.
 */
struct conversion {
	struct yaml_file *file;
	bool ignores_tags;
	struct error *err;
};

static int from_node(
	struct conversion *c, struct fy_node *node, unsigned int depth, json_t **ret_json);

static unsigned int yaml_node_line(struct fy_node *node)
{
	const struct fy_mark *mark = NULL;

	if (fy_node_is_scalar(node) && fy_node_get_scalar_token(node))
		mark = fy_token_start_mark(fy_node_get_scalar_token(node));
	return mark ? (unsigned int)mark->line + 1 : 0;
}

/* Returns the line of the first scalar in a list or mapping. */
static unsigned int first_line_of(struct fy_node *node)
{
	for (unsigned int depth = 0; node && depth < YAML_DEPTH_MAX; depth++) {
		void *at = NULL;

		if (fy_node_is_scalar(node))
			return yaml_node_line(node);
		if (fy_node_is_sequence(node))
			node = fy_node_sequence_iterate(node, &at);
		else
			node = fy_node_pair_key(fy_node_mapping_iterate(node, &at));
	}
	return 0;
}

/* ---- lines ---- */

static int note_line(struct conversion *c, const void *at, unsigned int line, bool is_twice)
{
	struct yaml_file *file = c->file;

	if (!file || !line)
		return 0;
	if (array_grow(&file->line, &file->lines_room, file->n_lines + 1ull, sizeof(*file->line)) <
		0)
		return fail(c->err, ENOMEM, "out of memory for YAML");
	file->line[file->n_lines++] = (struct yaml_line){at, line, is_twice};
	return 0;
}

/* Sorts by address; the first occurrence of a key comes before its repetitions. */
static int compare_lines(const void *a, const void *b)
{
	const struct yaml_line *x = a, *y = b;

	if (x->at != y->at)
		return (uintptr_t)x->at < (uintptr_t)y->at ? -1 : 1;
	if (x->is_twice != y->is_twice)
		return x->is_twice ? 1 : -1;
	return x->line < y->line ? -1 : x->line > y->line;
}

static unsigned int line_at(const struct yaml_file *file, const struct yaml_line wanted)
{
	const struct yaml_line *line;
	uint32_t from = 0, end = file->n_lines;

	while (from < end) {
		const uint32_t middle = from + (end - from) / 2;

		if (compare_lines(&file->line[middle], &wanted) < 0)
			from = middle + 1;
		else
			end = middle;
	}
	if (from == file->n_lines)
		return 0;
	line = &file->line[from];
	return line->at == wanted.at && line->is_twice == wanted.is_twice ? line->line : 0;
}

unsigned int yaml_line(const struct yaml_file *file, const void *value_or_key)
{
	return line_at(file, (struct yaml_line){.at = value_or_key});
}

unsigned int yaml_line_twice(const struct yaml_file *file, const char *key)
{
	return line_at(file, (struct yaml_line){.at = key, .is_twice = true});
}

static const char *yaml_key_at(const json_t *object, const char *name)
{
	void *at = json_object_iter_at((json_t *)object, name);

	return at ? json_object_iter_key(at) : NULL;
}

unsigned int yaml_line_of(const struct yaml_file *file, const json_t *object, const char *name)
{
	const char *key = yaml_key_at(object, name);

	return key ? yaml_line(file, key) : 0;
}

/* ---- values ---- */

static bool is_one_of(const char *word, const char *const *words)
{
	while (*words && strcmp(word, *words) != 0)
		words++;
	return *words;
}

static json_t *yaml_number_json(const char *word)
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

static json_t *yaml_plain_json(struct str text)
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
		json = yaml_number_json(word);
	}
	return json ? json : json_stringn(text.p ? text.p : "", text.n);
}

static int from_scalar(struct conversion *c, struct fy_node *node, json_t **ret_json)
{
	struct str text;
	json_t *json;
	int r;

	if (c->file && fy_node_is_null(node)) {
		*ret_json = json_null();
		return 0;
	}
	text.p = fy_node_get_scalar(node, &text.n);
	if (!text.p)
		text = STR("");
	json = !c->file && fy_node_get_style(node) == FYNS_PLAIN ? yaml_plain_json(text)
								 : json_stringn(text.p, text.n);
	if (!json)
		return fail(c->err, EINVAL, "line %u: the text is not UTF-8", yaml_node_line(node));
	r = note_line(c, json, yaml_node_line(node), false);
	if (r < 0)
		json_decref(json);
	else
		*ret_json = json;
	return r;
}

/*
 * An alias becomes the number 0. Readers of files accept only text, so all of them refuse an alias.
 */
static int from_alias(struct conversion *c, struct fy_node *node, json_t **ret_json)
{
	_cleanup_(json_decref_p) json_t *json = json_integer(0);
	int r = json ? note_line(c, json, yaml_node_line(node), false)
		     : fail(c->err, ENOMEM, "out of memory for YAML");

	if (r == 0)
		*ret_json = TAKE_PTR(json);
	return r;
}

static int yaml_pair_key(struct conversion *c, struct fy_node_pair *pair, char **ret_key)
{
	struct fy_node *name = fy_node_pair_key(pair);
	struct str text;
	char *key;

	if (!name || !fy_node_is_scalar(name) || fy_node_is_alias(name))
		return fail(c->err, EINVAL, "line %u: a key is not a text",
			first_line_of(name ? name : fy_node_pair_value(pair)));
	text.p = fy_node_get_scalar(name, &text.n);
	key = str_dup(text.p ? text : STR(""));
	if (!key)
		return fail(c->err, ENOMEM, "out of memory for YAML");
	if (strlen(key) != text.n) {
		free(key);
		return fail(c->err, EINVAL, "line %u: a key has a zero byte", yaml_node_line(name));
	}
	*ret_key = key;
	return 0;
}

static int from_pair(
	struct conversion *c, struct fy_node_pair *pair, unsigned int depth, json_t *object)
{
	struct fy_node *name = fy_node_pair_key(pair);
	_cleanup_free_ char *key = NULL;
	json_t *value = NULL;
	int r = yaml_pair_key(c, pair, &key);

	if (r < 0)
		return r;
	if (json_object_get(object, key))
		return c->file ? note_line(c, yaml_key_at(object, key), yaml_node_line(name), true)
			       : fail(c->err, EINVAL, "line %u: '%s' occurs twice",
					 yaml_node_line(name), key);
	r = from_node(c, fy_node_pair_value(pair), depth + 1, &value);
	if (r < 0)
		return r;
	if (json_object_set_new(object, key, value) < 0)
		return fail(c->err, EINVAL, "line %u: the text is not UTF-8, or out of memory",
			yaml_node_line(name));
	return note_line(c, yaml_key_at(object, key), yaml_node_line(name), false);
}

static int from_mapping(
	struct conversion *c, struct fy_node *node, unsigned int depth, json_t **ret_json)
{
	_cleanup_(json_decref_p) json_t *object = json_object();
	struct fy_node_pair *pair;
	void *at = NULL;
	int r = object ? note_line(c, object, first_line_of(node), false)
		       : fail(c->err, ENOMEM, "out of memory for YAML");

	while (r == 0 && (pair = fy_node_mapping_iterate(node, &at)))
		r = from_pair(c, pair, depth, object);
	if (r == 0)
		*ret_json = TAKE_PTR(object);
	return r;
}

static int from_sequence(
	struct conversion *c, struct fy_node *node, unsigned int depth, json_t **ret_json)
{
	_cleanup_(json_decref_p) json_t *array = json_array();
	struct fy_node *item;
	void *at = NULL;
	int r = array ? note_line(c, array, first_line_of(node), false)
		      : fail(c->err, ENOMEM, "out of memory for YAML");

	while (r == 0 && (item = fy_node_sequence_iterate(node, &at))) {
		json_t *value = NULL;

		r = from_node(c, item, depth + 1, &value);
		if (r == 0 && json_array_append_new(array, value) < 0)
			r = fail(c->err, ENOMEM, "out of memory for YAML");
	}
	if (r == 0)
		*ret_json = TAKE_PTR(array);
	return r;
}

static int from_node(
	struct conversion *c, struct fy_node *node, unsigned int depth, json_t **ret_json)
{
	bool is_alias;
	size_t n;

	if (depth > YAML_DEPTH_MAX)
		return fail(c->err, EMSGSIZE, "the file is nested deeper than %u levels",
			YAML_DEPTH_MAX);
	if (!node) {
		*ret_json = json_null();
		return 0;
	}
	is_alias = fy_node_is_alias(node) || (!c->ignores_tags && fy_node_get_tag(node, &n));
	if (is_alias && !c->file)
		return fail(c->err, EINVAL, "line %u: aliases and tags are not allowed",
			yaml_node_line(node));
	if (is_alias)
		return from_alias(c, node, ret_json);
	if (fy_node_is_mapping(node))
		return from_mapping(c, node, depth, ret_json);
	if (fy_node_is_sequence(node))
		return from_sequence(c, node, depth, ret_json);
	return from_scalar(c, node, ret_json);
}

/* ---- texts ---- */

/* The first error that libfyaml has collected. */
static int fail_yaml(struct fy_diag *diag, struct error *err)
{
	void *at = NULL;
	const struct fy_diag_error *first = fy_diag_errors_iterate(diag, &at);

	if (!first)
		return fail(err, EINVAL, "the file is not YAML");
	return fail(err, EINVAL, "line %d, column %d: %s", first->line, first->column, first->msg);
}

/*
 * Whether `before` ends a line, so that the next character begins a line. YAML 1.1 has five line
 * ends; a byte order mark at the start of a line does not count as a character.
 */
static bool may_begin_line(struct str before)
{
	static const char *const ends[] = {
		"\n", "\r", "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9", "\xef\xbb\xbf"};

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (str_has_suffix(before, str_from(ends[i])))
			return true;
	return !before.n;
}

/*
 * Refuses two kinds of text that libfyaml must not see. A directive ("%..." at the start of a line)
 * affects all later documents, and libfyaml 0.7.12 hangs on some directives at the end of the text.
 * On text that is not UTF-8, libfyaml leaks memory.
 */
static int check_text(struct str text, struct error *err)
{
	unsigned int line = 1;

	for (size_t i = 0, n; i < text.n; i += n) {
		const unsigned char byte = (unsigned char)text.p[i];

		n = str_utf8((struct str){text.p + i, text.n - i});
		if (n == 0 || !byte || (byte < ' ' && !strchr("\t\n\r", byte)))
			return fail(err, EINVAL, "line %u: byte 0x%02x: expected text in UTF-8",
				line, byte);
		if (byte == '%' && may_begin_line((struct str){text.p, i}))
			return fail(err, EINVAL, "line %u: '%%': directives are not allowed", line);
		line += byte == '\n';
	}
	return 0;
}

/* A parser of a text with several documents, which stream_next() returns one by one. */
struct stream {
	struct fy_diag *diag;
	struct fy_parser *parser;
};

static void stream_done(struct stream *stream)
{
	fy_parser_destroy(stream->parser);
	fy_diag_destroy(stream->diag);
}

static int stream_init(struct stream *stream, struct str text, size_t max_bytes, struct error *err)
{
	const struct fy_diag_cfg diag_config = {.level = FYET_ERROR, .module_mask = UINT32_MAX};
	/* libfyaml's own search for repeated keys takes minutes for large mappings. */
	struct fy_parse_cfg config = {.flags = FYPCF_QUIET | FYPCF_ALLOW_DUPLICATE_KEYS};
	int r;

	if (text.n > max_bytes)
		return fail(err, EMSGSIZE, "the file has more than %zu bytes", max_bytes);
	r = check_text(text, err);
	if (r < 0)
		return r;
	stream->diag = config.diag = fy_diag_create(&diag_config);
	if (stream->diag)
		fy_diag_set_collect_errors(stream->diag, true);
	stream->parser = stream->diag ? fy_parser_create(&config) : NULL;
	if (!stream->parser ||
		fy_parser_set_string(stream->parser, text.n ? text.p : "", text.n) < 0)
		return fail(err, ENOMEM, "out of memory for YAML");
	return 0;
}

/* *ret_document is NULL at the end of the text. */
static int stream_next(struct stream *stream, struct fy_document **ret_document, struct error *err)
{
	*ret_document = fy_parse_load_document(stream->parser);
	if (!*ret_document && fy_parser_get_stream_error(stream->parser))
		return fail_yaml(stream->diag, err);
	return 0;
}

int yaml_parse(struct str text, json_t **ret_documents, struct error *err)
{
	_cleanup_(json_decref_p) json_t *documents = json_array();
	_cleanup_(stream_done) struct stream stream = {NULL, NULL};
	struct conversion c = {.err = err};
	int r = stream_init(&stream, text, YAML_MAX_BYTES, err);

	while (r == 0) {
		_cleanup_(fy_document_destroy_p) struct fy_document *document = NULL;
		json_t *json = NULL;

		r = stream_next(&stream, &document, err);
		if (r == 0 && !document)
			break;
		if (r == 0)
			r = from_node(&c, fy_document_root(document), 0, &json);
		if (r < 0)
			return r;
		if (json_is_null(json))
			json_decref(json);
		else if (json_array_append_new(documents, json) < 0)
			return fail(err, ENOMEM, "out of memory for YAML");
	}
	if (r == 0)
		*ret_documents = TAKE_PTR(documents);
	return r;
}

static int fail_second(struct fy_document *document, struct error *err)
{
	const struct fy_mark *mark = fy_document_state_start_mark(
		fy_document_get_document_state(document));

	return fail(err, EINVAL, "line %d: a second document begins; expected one only",
		mark ? mark->line + 1 : 0);
}

static int yaml_read_file(struct stream *stream, const struct yaml_file_params *params,
	struct conversion *c, struct error *err)
{
	_cleanup_(fy_document_destroy_p) struct fy_document *document = NULL, *next = NULL;
	int r = stream_next(stream, &document, err);

	if (r == 0 && document && params->is_alone)
		r = stream_next(stream, &next, err);
	if (r < 0 || !document)
		return r;
	if (next)
		return fail_second(next, err);
	return from_node(c, fy_document_root(document), 0, &c->file->root);
}

int yaml_file_parse(struct str text, const struct yaml_file_params *params,
	struct yaml_file *ret_file, struct error *err)
{
	_cleanup_(yaml_file_done) struct yaml_file file = {.root = NULL};
	_cleanup_(stream_done) struct stream stream = {NULL, NULL};
	struct conversion c = {.file = &file, .ignores_tags = params->ignores_tags, .err = err};
	int r = stream_init(&stream, text, params->max_bytes, err);

	if (r == 0)
		r = yaml_read_file(&stream, params, &c, err);
	if (r < 0)
		return r;
	if (file.n_lines)
		qsort(file.line, file.n_lines, sizeof(*file.line), compare_lines);
	*ret_file = file;
	file = (struct yaml_file){.root = NULL};
	return 0;
}

void yaml_file_done(struct yaml_file *file)
{
	json_decref(file->root);
	free(file->line);
	*file = (struct yaml_file){.root = NULL};
}
