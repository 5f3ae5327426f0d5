/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels, label selectors (of pods, volumes, namespaces) and terms of node affinity, read from JSON
 * into an arena. A reader that fails leaves a selector that matches nothing.
 */
#ifndef KUBERULES_LABELS_H
#define KUBERULES_LABELS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "fields/read.h"

struct label {
	const char *key, *value;
};

/* Sorted by key, each key once. */
struct labels {
	struct label *v;
	uint32_t n;
};

int labels_read(struct arena *arena, json_t *value, void *into, struct error *err);

/* Like Go's strconv.ParseInt in base 10: digits with an optional sign. */
bool label_read_integer(const char *text, int64_t *ret_number);

/* Returns the value of the label; NULL: no such label. */
const char *labels_get(const struct labels *labels, const char *key);

/* Whether `labels` has each label of `wanted` with its value. */
bool labels_have_all(const struct labels *labels, const struct labels *wanted);

enum selector_op {
	SELECTOR_IN,
	SELECTOR_NOT_IN,
	SELECTOR_EXISTS,
	SELECTOR_ABSENT,
	SELECTOR_ABOVE,
	SELECTOR_BELOW,
};

struct requirement {
	const char *key;
	struct texts values;
	int op;
	/* invalid, so it matches nothing; API servers accept that only in nodeSelectorTerms */
	bool is_never;
	int64_t number; /* value for SELECTOR_ABOVE and SELECTOR_BELOW */
};

struct requirements {
	struct requirement *v;
	uint32_t n;
};

/*
 * All requirements must hold. A missing selector (is_given false) matches nothing; an empty
 * selector matches everything.
 */
struct selector {
	struct labels labels;
	struct requirements requirements;
	bool is_given;
};

/* Reads a LabelSelector: matchLabels, matchExpressions. */
int selector_read(struct arena *arena, json_t *value, void *into, struct error *err);

bool selector_matches(const struct selector *selector, const struct labels *labels);
bool selector_is_empty(const struct selector *selector);

/* Adds the requirement "key In (value)" or "key NotIn (value)". -ENOMEM. */
int selector_add(struct arena *arena, struct selector *selector, const char *key,
	enum selector_op op, const char *value);

/*
 * A term of a NodeSelector matches if all its requirements hold. An empty term matches nothing. A
 * NodeSelector matches if one of its terms does.
 */
struct node_term {
	struct requirements labels, fields;
};

struct node_terms {
	struct node_term *v;
	uint32_t n;
	bool is_given;
};

/* Reads a NodeSelector: nodeSelectorTerms. */
int node_terms_read(struct arena *arena, json_t *value, void *into, struct error *err);

/* Reads one NodeSelectorTerm into a struct node_term. */
int node_term_read(struct arena *arena, json_t *value, void *into, struct error *err);

/* Returns whether one of the terms matches. A missing list of terms matches every node. */
bool node_terms_match(
	const struct node_terms *terms, const struct labels *labels, const char *node_name);

/*
 * Reads a StorageClass's allowedTopologies as node terms with requirements "key In (values)".
 * Without allowedTopologies the terms match all nodes.
 */
int topologies_read(struct arena *arena, json_t *value, void *into, struct error *err);

#endif
