/* SPDX-License-Identifier: Apache-2.0 */
/* Labels and selectors: see labels.h. */
#include "kuberules/labels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct label *)a)->key, ((const struct label *)b)->key);
}

int labels_read(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct labels *labels = into;
	struct label *v;
	const char *key;
	json_t *one;
	int r;

	if (!json_is_object(value))
		return fail(err, EINVAL, "is no map");
	if (json_object_size(value) > READ_LIST_MAX)
		return fail(err, E2BIG, "has %zu entries: at most %d", json_object_size(value),
			READ_LIST_MAX);
	v = arena_take_array(arena, json_object_size(value), sizeof(*v));
	if (!v)
		return fail(err, ENOMEM, "out of memory");
	labels->v = v;
	labels->n = 0;
	json_object_foreach(value, key, one) {
		r = read_text(arena, one, &v->value, err);
		if (r < 0)
			return fail_within(err, r, "%.64s", key);
		v->key = arena_dup(arena, str_from(key));
		if (!v->key)
			return fail(err, ENOMEM, "out of memory");
		v++;
		labels->n++;
	}
	if (labels->n)
		qsort(labels->v, labels->n, sizeof(*labels->v), by_key);
	return 0;
}

const char *labels_get(const struct labels *labels, const char *key)
{
	uint32_t low = 0, high = labels->n;

	while (low < high) {
		uint32_t middle = (low + high) / 2;
		int order = strcmp(labels->v[middle].key, key);

		if (!order)
			return labels->v[middle].value;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

bool labels_have_all(const struct labels *labels, const struct labels *wanted)
{
	for (uint32_t i = 0; i < wanted->n; i++) {
		const char *value = labels_get(labels, wanted->v[i].key);

		if (!value || strcmp(value, wanted->v[i].value) != 0)
			return false;
	}
	return true;
}

static const char *const op_words[] = {
	[SELECTOR_IN] = "In",
	[SELECTOR_NOT_IN] = "NotIn",
	[SELECTOR_EXISTS] = "Exists",
	[SELECTOR_ABSENT] = "DoesNotExist",
	[SELECTOR_ABOVE] = "Gt",
	[SELECTOR_BELOW] = "Lt",
};

READ_WORD(read_op, op_words)

static const struct read_field requirement_fields[] = {
	READ_FIELD(struct requirement, key, "key", read_text),
	READ_FIELD(struct requirement, op, "operator", read_op),
	READ_FIELD(struct requirement, values, "values", read_texts),
};

bool label_read_integer(const char *text, int64_t *ret_number)
{
	char *end;

	if (!*text || strspn(text, "+-0123456789") != strlen(text))
		return false;
	errno = 0;
	*ret_number = strtoll(text, &end, 10);
	return !errno && !*end;
}

/* The API's rule: up to 63 of [A-Za-z0-9._-] with letters or digits at both ends, or empty. */
static bool is_label_value(const char *text)
{
	static const char ends[] = "abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	size_t n = strlen(text);

	return !n ||
		(n <= 63 && strspn(text, ends) && strchr(ends, text[n - 1]) &&
			strspn(text,
				"abcdefghijklmnopqrstuvwxyz"
				"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == n);
}

static bool are_label_values(const struct texts *values)
{
	for (uint32_t i = 0; i < values->n; i++)
		if (!is_label_value(values->v[i]))
			return false;
	return true;
}

static int read_requirement(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct requirement *req = into;
	int r;

	req->op = -1;
	r = read_fields(arena, value, requirement_fields, ARRAY_SIZE(requirement_fields), req, err);
	if (r == 0 && (!req->key || req->op < 0))
		r = fail(err, EINVAL, "needs a key and an operator");
	req->is_never = r < 0;
	if (!req->key)
		req->key = "";
	if (r < 0)
		return r;
	/*
	 * The API server accepts a node term whose operator has a wrong number of values; the term
	 * matches no node.
	 */
	if (req->op == SELECTOR_ABOVE || req->op == SELECTOR_BELOW)
		req->is_never = req->values.n != 1 ||
			!label_read_integer(req->values.v[0], &req->number);
	else if (req->op == SELECTOR_IN || req->op == SELECTOR_NOT_IN)
		req->is_never = req->values.n == 0;
	else
		req->is_never = req->values.n != 0;
	req->is_never = req->is_never || !are_label_values(&req->values);
	return 0;
}

READ_LIST(read_requirements, struct requirement, read_requirement)

static bool requirement_holds(const struct requirement *req, const char *value)
{
	int64_t number;

	if (req->is_never)
		return false;
	switch ((enum selector_op)req->op) {
	case SELECTOR_IN: return value && texts_has(&req->values, value);
	case SELECTOR_NOT_IN: return !value || !texts_has(&req->values, value);
	case SELECTOR_EXISTS: return value;
	case SELECTOR_ABSENT: return !value;
	case SELECTOR_ABOVE:
		return value && label_read_integer(value, &number) && number > req->number;
	case SELECTOR_BELOW:
		return value && label_read_integer(value, &number) && number < req->number;
	}
	return false;
}

static const struct read_field selector_fields[] = {
	READ_FIELD(struct selector, labels, "matchLabels", labels_read),
	READ_FIELD(struct selector, requirements, "matchExpressions", read_requirements),
};

int selector_read(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct selector *selector = into;
	int r = read_fields(
		arena, value, selector_fields, ARRAY_SIZE(selector_fields), selector, err);

	for (uint32_t i = 0; r == 0 && i < selector->requirements.n; i++) {
		const struct requirement *req = &selector->requirements.v[i];

		if (req->op == SELECTOR_ABOVE || req->op == SELECTOR_BELOW)
			r = fail(err, EINVAL, "%.64s: only nodes are selected by Gt and Lt",
				req->key);
		else if (req->is_never)
			r = fail(err, EINVAL,
				"%.64s: In and NotIn need values that labels can have, others none",
				req->key);
	}
	for (uint32_t i = 0; r == 0 && i < selector->labels.n; i++)
		if (!is_label_value(selector->labels.v[i].value))
			r = fail(err, EINVAL, "%.64s: '%.64s' is no value that a label can have",
				selector->labels.v[i].key, selector->labels.v[i].value);
	selector->is_given = r == 0;
	return r;
}

bool selector_matches(const struct selector *selector, const struct labels *labels)
{
	if (!selector->is_given || !labels_have_all(labels, &selector->labels))
		return false;
	for (uint32_t i = 0; i < selector->requirements.n; i++) {
		const struct requirement *req = &selector->requirements.v[i];

		if (!requirement_holds(req, labels_get(labels, req->key)))
			return false;
	}
	return true;
}

bool selector_is_empty(const struct selector *selector)
{
	return selector->is_given && !selector->labels.n && !selector->requirements.n;
}

int selector_add(struct arena *arena, struct selector *selector, const char *key,
	enum selector_op op, const char *value)
{
	uint32_t n = selector->requirements.n;
	struct requirement *v = arena_take_array(arena, n + 1, sizeof(*v));
	const char **values = arena_take(arena, sizeof(*values));

	if (!v || !values)
		return -ENOMEM;
	if (n)
		memcpy(v, selector->requirements.v, n * sizeof(*v));
	values[0] = value;
	v[n] = (struct requirement){.key = key, .op = (int)op, .values = {values, 1}};
	selector->requirements = (struct requirements){v, n + 1};
	return 0;
}

static const struct read_field node_term_fields[] = {
	READ_FIELD(struct node_term, labels, "matchExpressions", read_requirements),
	READ_FIELD(struct node_term, fields, "matchFields", read_requirements),
};

int node_term_read(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct node_term *term = into;
	int r = read_fields(
		arena, value, node_term_fields, ARRAY_SIZE(node_term_fields), term, err);

	for (uint32_t i = 0; r == 0 && i < term->fields.n; i++)
		if (strcmp(term->fields.v[i].key, "metadata.name") != 0)
			r = fail(err, ENOTSUP,
				"matchFields: '%.64s' is not known to this scheduler: "
				"metadata.name is",
				term->fields.v[i].key);
		else if (term->fields.v[i].op > SELECTOR_NOT_IN)
			r = fail(err, EINVAL, "matchFields: metadata.name takes In and NotIn");
	/*
	 * After an error the term is emptied, so that it matches nothing: a term with some
	 * requirements missing could match too many nodes.
	 */
	if (r < 0)
		*term = (struct node_term){0};
	return r;
}

READ_LIST(read_node_terms, struct node_term, node_term_read)

static const struct read_field node_terms_fields[] = {
	{"nodeSelectorTerms", read_node_terms, 0},
};

int node_terms_read(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct node_terms *terms = into;

	terms->is_given = true;
	return read_fields(
		arena, value, node_terms_fields, ARRAY_SIZE(node_terms_fields), terms, err);
}

static bool labels_term_matches(
	const struct node_term *term, const struct labels *labels, const char *node_name)
{
	if (!term->labels.n && !term->fields.n)
		return false;
	for (uint32_t i = 0; i < term->labels.n; i++)
		if (!requirement_holds(
			    &term->labels.v[i], labels_get(labels, term->labels.v[i].key)))
			return false;
	for (uint32_t i = 0; i < term->fields.n; i++)
		if (!requirement_holds(&term->fields.v[i], node_name))
			return false;
	return true;
}

bool node_terms_match(
	const struct node_terms *terms, const struct labels *labels, const char *node_name)
{
	if (!terms->is_given)
		return true;
	for (uint32_t i = 0; i < terms->n; i++)
		if (labels_term_matches(&terms->v[i], labels, node_name))
			return true;
	return false;
}

static const struct read_field topology_fields[] = {
	READ_FIELD(struct requirement, key, "key", read_text),
	READ_FIELD(struct requirement, values, "values", read_texts),
};

static int read_topology(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct requirement *req = into;
	int r = read_fields(arena, value, topology_fields, ARRAY_SIZE(topology_fields), req, err);

	req->op = SELECTOR_IN;
	req->is_never = r < 0 || !req->key;
	if (!req->key)
		req->key = "";
	return r;
}

READ_LIST(read_topology_list, struct requirement, read_topology)

static const struct read_field topology_term_fields[] = {
	READ_FIELD(struct node_term, labels, "matchLabelExpressions", read_topology_list),
};

READ_OBJECT(read_topology_term, struct node_term, topology_term_fields)
READ_LIST(read_topology_terms, struct node_term, read_topology_term)

int topologies_read(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct node_terms *terms = into;
	int r = read_topology_terms(arena, value, terms, err);

	terms->is_given = r < 0 || terms->n;
	return r;
}
