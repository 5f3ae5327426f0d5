/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels and what selects by them: label selectors (of pods, volumes, namespaces) and the terms of
 * node affinity, read from JSON into an arena. A reader that fails leaves a selector that matches
 * nothing.
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

/* By key, each once. */
struct labels {
	struct label *v;
	uint32_t n;
};

int labels_read(struct arena *arena, json_t *value, void *into, struct error *err);

/* NULL when there is none. */
const char *labels_get(const struct labels *labels, const char *key);

/* Each of `wanted` is in `labels`, with its value. */
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
	bool is_never;  /* badly formed, as only a node's can come: matches nothing */
	int64_t number; /* of ABOVE and BELOW */
};

struct requirements {
	struct requirement *v;
	uint32_t n;
};

/* All must hold. One that was never given selects nothing, an empty one everything. */
struct selector {
	struct labels labels;
	struct requirements requirements;
	bool is_given;
};

/* A LabelSelector: matchLabels, matchExpressions. */
int selector_read(struct arena *arena, json_t *value, void *into, struct error *err);

bool selector_matches(const struct selector *selector, const struct labels *labels);
bool selector_is_empty(const struct selector *selector);

/* Adds "key In (value)" or "key NotIn (value)". -ENOMEM. */
int selector_add(struct arena *arena, struct selector *selector, const char *key,
	enum selector_op op, const char *value);

/* One of these must match; of a term all must. A term of nothing matches nothing. */
struct node_term {
	struct requirements labels, fields;
};

struct node_terms {
	struct node_term *v;
	uint32_t n;
	bool is_given;
};

/* A NodeSelector: nodeSelectorTerms. */
int node_terms_read(struct arena *arena, json_t *value, void *into, struct error *err);

/* One NodeSelectorTerm, into struct node_term. */
int node_term_read(struct arena *arena, json_t *value, void *into, struct error *err);

/* Terms that were never given match every node. */
bool node_terms_match(
	const struct node_terms *terms, const struct labels *labels, const char *node_name);

/* A StorageClass's allowedTopologies: as node terms, of "key In (values)"; none match all. */
int topologies_read(struct arena *arena, json_t *value, void *into, struct error *err);

#endif
