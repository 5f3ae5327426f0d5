/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables and functions are nodes of a graph, and a body's words are its edges. A sum visits each
 * node once, so recursion ends, and shared variables that two functions name count once. The search
 * keeps its own list of nodes, since a text may nest calls deeper than the stack.
 */
#include "simgpu/cu-footprint.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include "base/hash.h"

struct node {
	UT_hash_handle hh;
	const char *name;
	struct footprint own;
	struct node **edges; /* its capacity is n_edges rounded up to a power of two */
	size_t n_edges;
	uint64_t visit; /* number of the last sum that reached the node */
	struct node *next;
};

struct footprints {
	struct node *nodes;
	struct node *current;
	uint64_t visit;
};

struct footprints *footprints_new(void)
{
	return calloc(1, sizeof(struct footprints));
}

void footprints_free(struct footprints *f)
{
	struct node *node, *next;

	if (!f)
		return;
	HASH_ITER(hh, f->nodes, node, next) {
		HASH_DEL(f->nodes, node);
		free(node->edges);
		free(node);
	}
	free(f);
}

static struct node *find(struct footprints *f, const char *name, size_t n)
{
	struct node *node;

	HASH_FIND(hh, f->nodes, name, n, node);
	return node;
}

/* A function may be declared before its body, so a node may be there already. */
static struct node *find_or_add(struct footprints *f, const char *name, size_t n)
{
	struct node *node = find(f, name, n);

	if (node)
		return node;
	node = calloc(1, sizeof(*node));
	if (!node)
		return NULL;
	node->name = name;
	HASH_ADD_KEYPTR(hh, f->nodes, node->name, n, node);
	if (!node->hh.tbl) {
		free(node);
		return NULL;
	}
	return node;
}

int footprints_add_variable(struct footprints *f, const char *name, size_t n, uint64_t bytes)
{
	struct node *node = find_or_add(f, name, n);

	if (!node)
		return -ENOMEM;
	node->own.shared_bytes = bytes;
	return 0;
}

int footprints_begin_function(struct footprints *f, const char *name, size_t n)
{
	struct node *node = find_or_add(f, name, n);

	if (!node)
		return -ENOMEM;
	f->current = node;
	return 0;
}

void footprints_end_function(struct footprints *f)
{
	f->current = NULL;
}

static void declare(uint64_t *sum, uint64_t bytes, unsigned align)
{
	if (align)
		*sum = (*sum + align - 1) & ~(uint64_t)(align - 1);
	*sum += bytes;
}

void footprints_declare_shared(struct footprints *f, uint64_t bytes, unsigned align)
{
	if (f->current)
		declare(&f->current->own.shared_bytes, bytes, align);
}

void footprints_declare_local(struct footprints *f, uint64_t bytes, unsigned align)
{
	if (f->current)
		declare(&f->current->own.local_bytes, bytes, align);
}

int footprints_mention(struct footprints *f, const char *name, size_t n)
{
	struct node *node = f->current ? find(f, name, n) : NULL, *current = f->current;
	struct node **edges;

	/* A loop names the same variable again and again: one edge is enough for the last name. */
	if (!node || (current->n_edges && current->edges[current->n_edges - 1] == node))
		return 0;
	if ((current->n_edges & (current->n_edges - 1)) == 0) {
		size_t room = current->n_edges ? current->n_edges * 2 : 1;

		edges = realloc(current->edges, room * sizeof(*edges));
		if (!edges)
			return -ENOMEM;
		current->edges = edges;
	}
	current->edges[current->n_edges++] = node;
	return 0;
}

struct footprint footprints_sum(struct footprints *f, const char *name, size_t n)
{
	struct node *first = find(f, name, n), *last = first;
	struct footprint sum = {0};

	if (!first)
		return sum;
	first->visit = ++f->visit;
	first->next = NULL;
	for (struct node *node = first; node; node = node->next) {
		declare(&sum.shared_bytes, node->own.shared_bytes, 0);
		declare(&sum.local_bytes, node->own.local_bytes, 0);
		for (size_t i = 0; i < node->n_edges; i++) {
			struct node *edge = node->edges[i];

			if (edge->visit == f->visit)
				continue;
			edge->visit = f->visit;
			edge->next = NULL;
			last->next = edge;
			last = edge;
		}
	}
	return sum;
}
