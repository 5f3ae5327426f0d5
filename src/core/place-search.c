/* SPDX-License-Identifier: Apache-2.0 */
#include "core/place-search.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/place-internal.h"
#include "core/place-mix.h"
#include "core/place-policy.h"

#define FAN 16u
#define FAN_BITS 4u
#define LEVELS 6u /* 16^5 nodes are PLACE_NODES_MAX */
#define TREES 4096u
#define SLOTS (2 * TREES) /* of the hash table; a power of two */
#define LOG_MIN 1024u
#define EXACT 15u /* in the place of a level */
/* Distinct shares with trees of their own; if there are more, neighbours have one together. */
#define SHARES_MOST 128u

enum { POOL_MIXED = PLACE_MODELS_MAX, POOL_NONE, N_POOLS };

/* One array a level, each a sixteenth of the one before; level 0 is by place in the pool. */
struct tree {
	struct place_class class;
	uint32_t pool;
	int32_t *level[LEVELS];
	uint64_t seen; /* entries of the log that it knows */
	uint64_t used; /* the decision for which it was last used */
	bool is_built;
};

/* The nodes with devices of one model, or with several, or with none: in the order of nodes. */
struct pool {
	uint32_t *node;
	uint32_t n, size; /* size: a multiple of FAN */
	uint32_t n_levels;
	uint32_t n_at[LEVELS]; /* with padding */
	size_t tree_items;

	/* The most that is free: of one node at level 0. Bytes are in MiB, rounded up. */
	int32_t *cpu[LEVELS], *memory[LEVELS], *device_memory[LEVELS];
	uint64_t free_seen;

	uint32_t *log; /* places that have changed, a ring of `size` or LOG_MIN */
	uint64_t log_n, log_read;
	uint32_t log_size;
};

struct place_search {
	struct place *place;
	struct pool pool[N_POOLS];
	uint8_t *pool_of; /* by node; N_POOLS: in none yet */
	uint32_t *at_of;
	uint32_t n_nodes;
	uint32_t *stamp; /* by node: the run that has looked at it */
	uint32_t run;

	struct tree *trees;
	uint32_t n_trees;
	uint16_t slot[SLOTS]; /* tree + 1, or 0 */
	uint64_t decision;
	uint64_t shares[16]; /* bits: those that were asked for */
	uint32_t n_shares;

	uint64_t *heap;
	uint32_t heap_n, heap_size;
};

int place_search_new(struct place *place, struct place_search **ret)
{
	struct place_search *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->place = place;
	s->trees = calloc(TREES, sizeof(*s->trees));
	if (!s->trees) {
		free(s);
		return -ENOMEM;
	}
	*ret = s;
	return 0;
}

void place_search_free(struct place_search *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->n_trees; i++)
		free(s->trees[i].level[0]);
	for (uint32_t g = 0; g < N_POOLS; g++) {
		free(s->pool[g].node);
		free(s->pool[g].cpu[0]);
		free(s->pool[g].memory[0]);
		free(s->pool[g].device_memory[0]);
		free(s->pool[g].log);
	}
	free(s->trees);
	free(s->pool_of);
	free(s->at_of);
	free(s->stamp);
	free(s->heap);
	free(s);
}

/* ---- trees by class ---- */

static uint32_t hash(const struct place_class *c, uint32_t pool)
{
	uint64_t h = (uint64_t)c->share << 32 ^ (uint64_t)c->share_most << 18 ^
		(uint64_t)c->count << 8 ^ (uint64_t)c->is_idle << 7 ^ pool ^
		(uint64_t)c->kind << 44 ^ c->models * 0x9e3779b97f4a7c15u;

	h *= 0xff51afd7ed558ccdu;
	return (uint32_t)(h >> 40) & (SLOTS - 1);
}

static bool is_same(const struct place_class *a, const struct place_class *b)
{
	return a->models == b->models && a->share == b->share && a->share_most == b->share_most &&
		a->count == b->count && a->is_idle == b->is_idle && a->kind == b->kind;
}

static void link_trees(struct place_search *s)
{
	memset(s->slot, 0, sizeof(s->slot));
	for (uint32_t i = 0; i < s->n_trees; i++) {
		uint32_t h = hash(&s->trees[i].class, s->trees[i].pool);

		while (s->slot[h])
			h = (h + 1) & (SLOTS - 1);
		s->slot[h] = (uint16_t)(i + 1);
	}
}

/* Those of the pool, or those that were last used before. */
static void drop_trees(struct place_search *s, uint32_t pool, uint64_t before)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->n_trees; i++) {
		if (s->trees[i].pool == pool || s->trees[i].used < before)
			free(s->trees[i].level[0]);
		else
			s->trees[kept++] = s->trees[i];
	}
	s->n_trees = kept;
	link_trees(s);
}

/* Half of the time since: so that this is rare. */
static void forget_old(struct place_search *s)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < s->n_trees; i++)
		least = MIN(least, s->trees[i].used);
	drop_trees(s, N_POOLS, least + (s->decision - least) / 2 + 1);
}

static void lay_out(const struct pool *g, int32_t *items, int32_t **ret_level)
{
	for (uint32_t l = 0; l < g->n_levels; l++) {
		ret_level[l] = items;
		items += g->n_at[l];
	}
}

static struct tree *tree_get(struct place_search *s, const struct place_class *class, uint32_t pool)
{
	const struct pool *g = &s->pool[pool];
	uint32_t h = hash(class, pool);
	struct tree *t;
	int32_t *items;

	for (; s->slot[h]; h = (h + 1) & (SLOTS - 1)) {
		t = &s->trees[s->slot[h] - 1];
		if (t->pool == pool && is_same(&t->class, class))
			return t;
	}
	items = malloc(g->tree_items * sizeof(*items));
	if (!items)
		return NULL;
	s->slot[h] = (uint16_t)(s->n_trees + 1);
	t = &s->trees[s->n_trees++];
	*t = (struct tree){.class = *class, .pool = pool, .used = s->decision};
	lay_out(g, items, t->level);
	return t;
}

/* ---- pools ---- */

/* Nothing that was seen of it holds any more: all is looked at anew. */
static void pool_forget(struct place_search *s, uint32_t pool)
{
	struct pool *g = &s->pool[pool];

	drop_trees(s, pool, 0);
	g->free_seen = 0;
	g->log_n += g->log_size + 1ull;
	g->log_read = g->log_n;
}

static int free_new(struct pool *g, int32_t **level)
{
	int32_t *items = calloc(g->tree_items, sizeof(*items));

	if (!items)
		return -ENOMEM;
	free(level[0]);
	lay_out(g, items, level);
	return 0;
}

static int pool_grow(struct place_search *s, uint32_t pool)
{
	struct pool *g = &s->pool[pool];
	uint32_t size = g->size ? 2 * g->size : FAN, n = size, *node, *log;

	node = realloc(g->node, size * sizeof(*node));
	if (node)
		g->node = node;
	log = malloc(MAX(size, LOG_MIN) * sizeof(*log));
	if (!node || !log) {
		free(log);
		return -ENOMEM;
	}
	free(g->log);
	g->log = log;
	g->log_size = MAX(size, LOG_MIN);
	g->size = size;
	g->tree_items = 0;
	for (g->n_levels = 0;; n = (n + FAN - 1) / FAN) {
		g->n_at[g->n_levels] = (n + FAN - 1) / FAN * FAN;
		g->tree_items += g->n_at[g->n_levels++];
		if (n <= FAN)
			break;
	}
	pool_forget(s, pool);
	if (free_new(g, g->cpu) < 0 || free_new(g, g->memory) < 0 ||
		free_new(g, g->device_memory) < 0)
		return -ENOMEM;
	return 0;
}

static uint32_t pool_for(uint64_t models, uint32_t n_devices)
{
	if (!n_devices)
		return POOL_NONE;
	if (models & (models - 1))
		return POOL_MIXED;
	return (uint32_t)__builtin_ctzll(models);
}

int place_search_reserve(
	struct place_search *s, uint32_t n_nodes, uint64_t models, uint32_t n_devices)
{
	const uint32_t pool = pool_for(models, n_devices);
	uint32_t size = s->n_nodes;
	uint8_t *pools;
	int r = 0;

	if (s->pool[pool].n == s->pool[pool].size)
		r = pool_grow(s, pool);
	if (r < 0 || n_nodes <= s->n_nodes)
		return r;
	r = array_grow(&s->at_of, &size, n_nodes, sizeof(*s->at_of));
	size = s->n_nodes;
	if (r == 0)
		r = array_grow(&s->stamp, &size, n_nodes, sizeof(*s->stamp));
	if (r < 0)
		return r;
	pools = realloc(s->pool_of, size);
	if (!pools)
		return -ENOMEM;
	memset(pools + s->n_nodes, N_POOLS, size - s->n_nodes);
	s->pool_of = pools;
	s->n_nodes = size;
	return 0;
}

static void pool_leave(struct place_search *s, uint32_t node)
{
	struct pool *g = &s->pool[s->pool_of[node]];

	g->n--;
	for (uint32_t at = s->at_of[node]; at < g->n; at++) {
		g->node[at] = g->node[at + 1];
		s->at_of[g->node[at]] = at;
	}
	pool_forget(s, s->pool_of[node]);
	s->pool_of[node] = N_POOLS;
}

void place_search_enter(struct place_search *s, uint32_t node)
{
	const struct node *is = &s->place->nodes[node];
	const uint32_t pool = pool_for(is->models, is->n_devices);
	struct pool *g = &s->pool[pool];
	uint32_t at;

	if (s->pool_of[node] == pool)
		return;
	if (s->pool_of[node] != N_POOLS)
		pool_leave(s, node);
	for (at = g->n++; at && g->node[at - 1] > node; at--) {
		g->node[at] = g->node[at - 1];
		s->at_of[g->node[at]] = at;
	}
	g->node[at] = node;
	s->at_of[node] = at;
	s->pool_of[node] = (uint8_t)pool;
	if (at + 1 < g->n)
		pool_forget(s, pool);
}

/* ---- what has changed ---- */

void place_search_changed(struct place_search *s, uint32_t node)
{
	struct pool *g;

	s->place->versions[node]++;
	if (s->pool_of[node] == N_POOLS)
		return;
	g = &s->pool[s->pool_of[node]];
	/* Once is enough until somebody has read it. */
	if (g->log_read < g->log_n && g->log[(g->log_n - 1) & (g->log_size - 1)] == s->at_of[node])
		return;
	g->log[g->log_n++ & (g->log_size - 1)] = s->at_of[node];
}

void place_search_forget(struct place_search *s)
{
	for (uint32_t i = 0; i < s->n_trees; i++)
		s->trees[i].is_built = false;
}

/* What is more than fits counts as the most that does. */
static int32_t at_most(uint64_t n)
{
	return n < INT32_MAX ? (int32_t)n : INT32_MAX;
}

static int32_t mib(uint64_t bytes)
{
	return at_most((bytes >> 20) + ((bytes & ((1u << 20) - 1)) != 0));
}

static int32_t most(const int32_t *p)
{
	int32_t most = p[0];

	for (uint32_t i = 1; i < FAN; i++)
		most = p[i] > most ? p[i] : most;
	return most;
}

static void set_level(const struct pool *g, int32_t **level, uint32_t at, int32_t value)
{
	if (level[0][at] == value)
		return;
	level[0][at] = value;
	for (uint32_t l = 1; l < g->n_levels; l++) {
		at >>= FAN_BITS;
		value = most(&level[l - 1][at << FAN_BITS]);
		if (level[l][at] == value)
			return;
		level[l][at] = value;
	}
}

static void look_at_node(const struct place *place, struct pool *g, uint32_t at)
{
	const struct node *node = &place->nodes[g->node[at]];
	uint64_t memory = 0;

	for (uint32_t i = 0; i < node->n_devices; i++)
		memory = MAX(memory, place->devices[node->first_device + i].memory_free);
	set_level(g, g->cpu, at, at_most(place->cpu_free[g->node[at]]));
	set_level(g, g->memory, at, mib(place->memory_free[g->node[at]]));
	set_level(g, g->device_memory, at, mib(memory));
}

static void look_at_free(const struct place *place, struct pool *g)
{
	if (g->log_n - g->free_seen > g->log_size)
		for (uint32_t at = 0; at < g->n; at++)
			look_at_node(place, g, at);
	else
		for (uint64_t i = g->free_seen; i < g->log_n; i++)
			look_at_node(place, g, g->log[i & (g->log_size - 1)]);
	g->free_seen = g->log_n;
	g->log_read = g->log_n;
}

/* ---- a class's bounds ---- */

static int32_t bound(struct place *place, const struct tree *t, uint32_t at)
{
	const struct node *node = &place->nodes[at];

	if (!node->is_used || node->is_closed)
		return PLACE_NEVER;
	return place->config.policy->bound(place, &t->class, at);
}

static void build(struct place *place, const struct pool *g, struct tree *t)
{
	for (uint32_t at = 0; at < g->n_at[0]; at++)
		t->level[0][at] = at < g->n ? bound(place, t, g->node[at]) : PLACE_NEVER;
	for (uint32_t l = 1; l < g->n_levels; l++)
		for (uint32_t at = 0; at < g->n_at[l]; at++)
			t->level[l][at] = at * FAN < g->n_at[l - 1]
				? most(&t->level[l - 1][at * FAN])
				: PLACE_NEVER;
	t->is_built = true;
}

static void catch_up(struct place_search *s, struct tree *t)
{
	const struct pool *g = &s->pool[t->pool];
	uint64_t n = g->log_n - t->seen;

	if (!t->is_built || n > g->log_size || n > 2ull * g->n) {
		build(s->place, g, t);
	} else if (n) {
		if (++s->run == 0) {
			memset(s->stamp, 0, s->n_nodes * sizeof(*s->stamp));
			s->run = 1;
		}
		for (uint64_t i = t->seen; i < g->log_n; i++) {
			uint32_t at = g->log[i & (g->log_size - 1)];

			if (s->stamp[at] == s->run)
				continue;
			s->stamp[at] = s->run;
			set_level(g, t->level, at, bound(s->place, t, g->node[at]));
		}
	}
	t->seen = g->log_n;
}

/* ---- best first ---- */

/* Sorts by grade, then by the first node; below that a level, or EXACT. */
static uint64_t key_of(int32_t grade, uint32_t first, uint32_t level)
{
	return (uint64_t)((uint32_t)grade ^ 0x80000000u) << 32 |
		(uint64_t)(0x0fffffffu - first) << 4 | level;
}

static int push(struct place_search *s, uint64_t key)
{
	uint32_t i = s->heap_n, up;

	if (array_grow(&s->heap, &s->heap_size, i + 1ul, sizeof(*s->heap)) < 0)
		return -ENOMEM;
	for (s->heap_n++; i; i = up) {
		up = (i - 1) / 2;
		if (s->heap[up] >= key)
			break;
		s->heap[i] = s->heap[up];
	}
	s->heap[i] = key;
	return 0;
}

static uint64_t pop(struct place_search *s)
{
	uint64_t top = s->heap[0], last = s->heap[--s->heap_n];
	uint32_t i = 0, down;

	while ((down = 2 * i + 1) < s->heap_n) {
		down += down + 1 < s->heap_n && s->heap[down + 1] > s->heap[down];
		if (s->heap[down] <= last)
			break;
		s->heap[i] = s->heap[down];
		i = down;
	}
	s->heap[i] = last;
	return top;
}

/* What is looked for, and the best that was found. */
struct quest {
	const struct place_spec *spec;
	int32_t cpu, memory, device_memory; /* MiB, rounded down */
	uint64_t best;                      /* its key, or 0 */
	struct place_choice choice;
};

static int32_t grade(const struct place_search *s, const struct quest *q, int32_t score)
{
	const struct place_policy *policy = s->place->config.policy;

	return policy->grade ? policy->grade(s->place, q->spec, score) : score;
}

/* The node itself: with its devices' labels and memory, and all that a class does not know. */
static void visit(struct place_search *s, struct quest *q, uint32_t node)
{
	const struct place *place = s->place;
	struct place_choice choice = {.node = node, .n = q->spec->count};
	uint64_t mask, key;

	if (place_node_reason(place, q->spec, node) != PLACE_FITS)
		return;
	mask = place_eligible(place, q->spec, node);
	if ((uint32_t)__builtin_popcountll(mask) < q->spec->count)
		return;
	choice.score = place->config.policy->score(s->place, q->spec, node, mask, &choice);
	if (choice.score == PLACE_NEVER)
		return;
	key = key_of(grade(s, q, choice.score), node, EXACT);
	if (key <= q->best)
		return;
	q->best = key;
	q->choice = choice;
}

static int expand(
	struct place_search *s, const struct tree *t, struct quest *q, uint32_t level, uint32_t up)
{
	const struct pool *g = &s->pool[t->pool];
	const uint32_t first = up * FAN, n = MIN(FAN, g->n_at[level] - first);
	int r = 0;

	for (uint32_t i = first; i < first + n && r == 0; i++) {
		uint64_t key;

		if (t->level[level][i] == PLACE_NEVER || g->cpu[level][i] < q->cpu ||
			g->memory[level][i] < q->memory ||
			g->device_memory[level][i] < q->device_memory)
			continue;
		key = key_of(
			grade(s, q, t->level[level][i]), g->node[i << (FAN_BITS * level)], level);
		if (key > q->best)
			r = push(s, key);
	}
	return r;
}

/* The trees of all pools that may have a place are searched as one. */
static int search_class(struct place_search *s, struct quest *q, const struct place_class *class)
{
	struct place_class of = *class;
	struct tree *tree[N_POOLS] = {0};
	int r = 0;

	s->heap_n = 0;
	if (s->n_trees + N_POOLS > TREES)
		forget_old(s);
	for (uint32_t g = 0; g < N_POOLS && r == 0; g++) {
		if (!s->pool[g].n || (g == POOL_NONE && class->count))
			continue;
		if (g < POOL_MIXED && class->models && !(class->models >> g & 1))
			continue;
		look_at_free(s->place, &s->pool[g]);
		/* Within a pool of one model all of its nodes have what is asked for. */
		of.models = g == POOL_MIXED ? class->models : 0;
		tree[g] = tree_get(s, &of, g);
		if (!tree[g])
			return -ENOMEM;
		tree[g]->used = s->decision;
		catch_up(s, tree[g]);
		r = expand(s, tree[g], q, s->pool[g].n_levels - 1, 0);
	}
	while (r == 0 && s->heap_n && s->heap[0] > q->best) {
		uint64_t key = pop(s);
		uint32_t node = 0x0fffffffu - (uint32_t)(key >> 4 & 0x0fffffffu);
		uint32_t level = key & 15, g = s->pool_of[node];

		if (level == 0)
			visit(s, q, node);
		else
			r = expand(s, tree[g], q, level - 1, s->at_of[node] >> (FAN_BITS * level));
	}
	return r;
}

struct place_class place_class_of(const struct place *place, const struct place_spec *spec)
{
	const struct place_policy *policy = place->config.policy;

	return (struct place_class){.models = spec->count ? spec->models : 0,
		.share = spec->share,
		.share_most = spec->share,
		.count = spec->count,
		.is_idle = spec->is_exclusive,
		.kind = policy->kind ? policy->kind(spec) : 0};
}

static void visit_label(struct place_search *s, struct quest *q, uint32_t id, enum role role)
{
	const struct label *label = place_label_at(s->place, id);

	for (uint32_t i = 0; i < label->n_devices[role]; i++)
		visit(s, q, s->place->devices[label->devices[role][i]].node);
}

/* Its share alone, as long as there are few; then with its neighbours. */
static void set_shares(struct place_search *s, struct place_class *class)
{
	const uint32_t share = class->share;
	uint64_t bit = 1ull << share % 64;

	if (!(s->shares[share / 64] & bit)) {
		s->shares[share / 64] |= bit;
		if (s->n_shares++ == SHARES_MOST)
			drop_trees(s, N_POOLS, UINT64_MAX);
	}
	if (!s->place->config.policy->spans_shares || s->n_shares <= SHARES_MOST || !share ||
		share == SPEC_SHARE_ONE)
		return;
	class->share = MAX(share - share % PLACE_CLASS_SHARES, 1u);
	class->share_most =
		MIN(share - share % PLACE_CLASS_SHARES + PLACE_CLASS_SHARES, SPEC_SHARE_ONE) - 1;
}

static int search(struct place_search *s, struct quest *q)
{
	const struct place_spec *spec = q->spec;
	struct place_class class = place_class_of(s->place, spec);

	set_shares(s, &class);
	if (spec->device != PLACE_NONE || spec->node != PLACE_NONE) {
		visit(s, q,
			spec->node != PLACE_NONE ? spec->node
						 : s->place->devices[spec->device].node);
		return 0;
	}
	if (spec->count && spec->affinity) {
		class.is_idle = true;
		if (place_label_at(s->place, spec->affinity)->n_devices[ROLE_AFFINITY]) {
			visit_label(s, q, spec->affinity, ROLE_AFFINITY);
			return 0;
		}
	}
	if (spec->count && spec->exclusion) {
		/* On devices of that label, or on one that nobody is on. */
		class.is_idle = true;
		visit_label(s, q, spec->exclusion, ROLE_EXCLUSION);
	}
	return search_class(s, q, &class);
}

static int check(const struct place *place, const struct place_spec *spec, struct error *err)
{
	int r = place_spec_check(spec, err);

	if (r < 0)
		return r;
	if (spec->device != PLACE_NONE && spec->device >= place->n_devices)
		return fail(err, EINVAL, "there is no device %u", spec->device);
	if (spec->node != PLACE_NONE && spec->node >= place->n_nodes)
		return fail(err, EINVAL, "there is no node %u", spec->node);
	return place_spec_known(place, spec, err);
}

int place_find(struct place *place, const struct place_spec *spec, struct place_choice *ret_choice,
	struct error *err)
{
	struct place_search *s = place->search;
	struct quest q = {.spec = spec,
		.cpu = at_most(spec->cpu_milli),
		.memory = at_most(spec->memory_bytes >> 20),
		.device_memory = at_most(spec->device_bytes >> 20)};
	int r;

	r = check(place, spec, err);
	if (r < 0)
		return r;
	r = place_mix_update(place);
	if (r == 0) {
		s->decision++;
		r = place->n_nodes ? search(s, &q) : 0;
	}
	if (r < 0)
		return fail(err, -r, "out of memory for a decision");
	if (!q.best)
		return fail(err, ENOSPC, "no node has room for it");
	*ret_choice = q.choice;
	return 0;
}
