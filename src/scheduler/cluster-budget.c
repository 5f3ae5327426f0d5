/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads PodDisruptionBudgets, finds the budgets of a pod, and counts how many of their pods may
 * still be evicted.
 */
#include "scheduler/cluster-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void cluster_budget_free(struct cbudget *b)
{
	arena_done(&b->arena);
	json_decref(b->going);
	free(b->key);
	free(b->ns);
	free(b);
}

static struct cbudget *cluster_budget_find(struct cluster *c, const char *ns, const char *name)
{
	char key[SPEC_GROUP * 2 + 2];
	struct cbudget *b;

	snprintf(key, sizeof(key), "%s/%s", ns, name);
	HASH_FIND_STR(c->budgets, key, b);
	return b;
}

int cluster_remove_budget(struct cluster *c, const char *ns, const char *name)
{
	struct cbudget *b = cluster_budget_find(c, ns, name);

	if (!b)
		return -ENOENT;
	HASH_DEL(c->budgets, b);
	cluster_budget_free(b);
	return 0;
}

void cluster_free_budgets(struct cluster *c)
{
	struct cbudget *b, *next;

	HASH_ITER(hh, c->budgets, b, next) {
		HASH_DEL(c->budgets, b);
		cluster_budget_free(b);
	}
}

int cluster_set_budget(struct cluster *c, json_t *json)
{
	const json_t *metadata = json_object_get(json, "metadata");
	const char *ns = json_string_value(json_object_get(metadata, "namespace"));
	const char *name = json_string_value(json_object_get(metadata, "name"));
	json_t *selector = json_object_get(json_object_get(json, "spec"), "selector");
	struct cbudget *b = calloc(1, sizeof(*b));
	char key[SPEC_GROUP * 2 + 2];

	if (!b)
		return -ENOMEM;
	ns = ns ? ns : "";
	snprintf(key, sizeof(key), "%s/%s", ns, name);
	b->key = str_dup(str_from(key));
	b->ns = str_dup(str_from(ns));
	b->may_evict = json_integer_value(
		json_object_get(json_object_get(json, "status"), "disruptionsAllowed"));
	b->going = json_incref(json_object_get(json_object_get(json, "status"), "disruptedPods"));
	/*
	 * An unreadable selector selects every pod of the namespace, so that no pod is evicted by
	 * mistake.
	 */
	if (selector && selector_read(&b->arena, selector, &b->selector, NULL) < 0)
		b->selector = (struct selector){.is_given = true};
	cluster_remove_budget(c, ns, name);
	if (b->key && b->ns)
		HASH_ADD_KEYPTR(hh, c->budgets, b->key, strlen(b->key), b);
	if (b->hh.tbl)
		return 0;
	cluster_budget_free(b);
	return -ENOMEM;
}

static bool speaks_of(const struct cluster *c, const struct cbudget *b, const struct cpod *pod)
{
	const struct pod *seen = cpod_view(c, pod);

	return seen && !strcmp(b->ns, pod->ns) &&
		selector_matches(&b->selector, &seen->object.labels);
}

bool cluster_may_evict(struct cluster *c, const struct cpod *pod)
{
	struct cbudget *b, *next;

	HASH_ITER(hh, c->budgets, b, next)
		if (b->evicted >= b->may_evict && speaks_of(c, b, pod))
			return false;
	return true;
}

/*
 * After an eviction the API server lowers disruptionsAllowed, and lists the pod in disruptedPods
 * until the pod's deletion begins. So an evicted pod counts here only while the budget does not
 * list it and its deletion has not begun.
 */
void cluster_recount_evicted(struct cluster *c)
{
	struct cbudget *b, *next;
	struct cpod *pod, *other;

	HASH_ITER(hh, c->budgets, b, next)
		b->evicted = 0;
	if (!c->budgets)
		return;
	HASH_ITER(hh, c->pods, pod, other) {
		if (!pod->is_reported || pod->is_deleting)
			continue;
		HASH_ITER(hh, c->budgets, b, next)
			b->evicted += speaks_of(c, b, pod) && !json_object_get(b->going, pod->name);
	}
}

void cluster_count_evicted(struct cluster *c, const struct cpod *pod, int sign)
{
	struct cbudget *b, *next;

	HASH_ITER(hh, c->budgets, b, next)
		if (speaks_of(c, b, pod))
			b->evicted += sign;
}
