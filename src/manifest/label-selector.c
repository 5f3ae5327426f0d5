/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file evaluates label selectors, and parses their text into the JSON that the evaluation
 * reads. The parser splits the text at commas outside parentheses. Each term becomes one entry of
 * matchExpressions, so both forms share one evaluation. The parser checks characters and lengths of
 * keys and values, but not where a character stands. The table of operators lists `==` before `=`,
 * because the first match by prefix wins.
 */
#include "manifest/label-selector.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

/* ---- evaluation ---- */

/* As in Kubernetes, NotIn also matches if the label is absent. */
static bool label_selector_fits_expression(const json_t *expression, const json_t *labels)
{
	const char *relation = kube_json_text(expression, "operator");
	const json_t *values = json_object_get(expression, "values");
	const char *label = json_string_value(
		json_object_get(labels, kube_json_text(expression, "key")));

	if (!strcmp(relation, "In"))
		return label && kube_json_list_has(values, label);
	if (!strcmp(relation, "NotIn"))
		return !label || !kube_json_list_has(values, label);
	if (!strcmp(relation, "Exists"))
		return label != NULL;
	return !strcmp(relation, "DoesNotExist") && !label;
}

bool label_selector_fits(const json_t *selector, const json_t *labels)
{
	const json_t *expressions = json_object_get(selector, "matchExpressions");
	const char *key;
	json_t *value;

	json_object_foreach(json_object_get(selector, "matchLabels"), key, value) {
		const char *label = json_string_value(json_object_get(labels, key));

		if (!label || !json_is_string(value) || strcmp(label, json_string_value(value)))
			return false;
	}
	for (size_t i = 0; i < json_array_size(expressions); i++)
		if (!label_selector_fits_expression(json_array_get(expressions, i), labels))
			return false;
	return true;
}

/* ---- parsing ---- */

static bool is_letter(char c, bool is_key)
{
	return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.' ||
		(is_key && c == '/');
}

/* Cuts off the longest prefix of characters that a key, or a value, may have. */
static struct str label_selector_take_name(struct str *rest, bool is_key)
{
	size_t n = 0;
	struct str name;

	while (n < rest->n && is_letter(rest->p[n], is_key))
		n++;
	name = (struct str){rest->p, n};
	*rest = str_trim((struct str){rest->p + n, rest->n - n});
	return name;
}

/* Adds a value, which may be empty; false if the text is no value. */
static bool label_selector_add_value(json_t *values, struct str text)
{
	struct str rest = str_trim(text), value = label_selector_take_name(&rest, false);

	return !rest.n && value.n <= LABEL_VALUE_MAX &&
		json_array_append_new(values, json_stringn(value.p ? value.p : "", value.n)) == 0;
}

/* Adds the values of "(a, b)". */
static bool label_selector_add_list(json_t *values, struct str text)
{
	struct str value;

	if (!str_skip_prefix(&text, STR("(")) || !str_skip_suffix(&text, STR(")")))
		return false;
	while (str_split(&text, ',', &value))
		if (!label_selector_add_value(values, value))
			return false;
	return true;
}

/*
 * Parses the text after the key and adds its values to the list. Returns the operator's name, or
 * NULL.
 */
static const char *read_operator(struct str rest, json_t *values)
{
	static const struct {
		const char *mark, *name;
		bool is_list;
	} operators[] = {
		{"==", "In", false},
		{"=", "In", false},
		{"!=", "NotIn", false},
		{"notin", "NotIn", true},
		{"in", "In", true},
	};

	if (!rest.n)
		return "Exists";
	for (size_t i = 0; i < ARRAY_SIZE(operators); i++) {
		struct str operand = rest;

		if (!str_skip_prefix(&operand, str_from(operators[i].mark)))
			continue;
		operand = str_trim(operand);
		if (operators[i].is_list ? label_selector_add_list(values, operand)
					 : label_selector_add_value(values, operand))
			return operators[i].name;
		return NULL;
	}
	return NULL;
}

static int label_selector_add_term(json_t *terms, struct str term, struct error *err)
{
	struct str rest = term, key;
	const bool is_absent = str_skip_prefix(&rest, STR("!"));
	_cleanup_json_ json_t *values = json_array();
	const char *relation;

	rest = str_trim(rest);
	key = label_selector_take_name(&rest, true);
	relation = is_absent && !rest.n ? "DoesNotExist" : NULL;
	if (!is_absent)
		relation = read_operator(rest, values);
	if (!relation || !key.n || key.n > LABEL_KEY_MAX)
		return fail(err, EINVAL,
			"labelSelector: '%.*s': expected KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY "
			"notin (A,B), KEY or !KEY",
			(int)MIN(term.n, (size_t)80), term.p ? term.p : "");
	if (json_array_size(terms) >= LABEL_SELECTOR_TERMS_MAX)
		return fail(
			err, E2BIG, "labelSelector: more than %u terms", LABEL_SELECTOR_TERMS_MAX);
	if (json_array_append_new(terms,
		    json_pack("{s:s%, s:s, s:O}", "key", key.p, key.n, "operator", relation,
			    "values", values)) < 0)
		return fail(err, ENOMEM, "out of memory");
	return 0;
}

/* The next term, up to a comma outside parentheses. */
static bool next_term(struct str *rest, struct str *ret_term)
{
	bool is_within = false;
	size_t i;

	if (!rest->p)
		return false;
	for (i = 0; i < rest->n && (is_within || rest->p[i] != ','); i++)
		if (rest->p[i] == '(' || rest->p[i] == ')')
			is_within = rest->p[i] == '(';
	*ret_term = str_trim((struct str){rest->p, i});
	*rest = i < rest->n ? (struct str){rest->p + i + 1, rest->n - i - 1} : STR_NONE;
	return true;
}

int label_selector_parse(struct str text, json_t **ret_selector, struct error *err)
{
	_cleanup_json_ json_t *terms = json_array();
	json_t *selector;
	struct str term;
	int r = 0;

	if (text.n > LABEL_SELECTOR_TEXT_MAX)
		return fail(
			err, E2BIG, "labelSelector: longer than %u bytes", LABEL_SELECTOR_TEXT_MAX);
	text = str_trim(text);
	if (!text.n)
		text = STR_NONE;
	while (r >= 0 && next_term(&text, &term))
		r = label_selector_add_term(terms, term, err);
	if (r < 0)
		return r;
	selector = json_pack("{s:O}", "matchExpressions", terms);
	if (!selector)
		return fail(err, ENOMEM, "out of memory");
	*ret_selector = selector;
	return 0;
}
