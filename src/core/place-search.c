/* SPDX-License-Identifier: Apache-2.0 */
#include "core/place-search.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/place-internal.h"
#include "core/place-mix.h"
#include "core/place-mode.h"
#include "core/place-policy.h"
#include "core/place-queue.h"

#define FAN 16u
#define FAN_BITS 4u
#define LEVELS 6u /* 16^5 nodes are PLACE_NODES_MAX */
#define COLUMNS_MIN 16u
#define COLUMNS_MAX 1024u
#define SLOTS (2 * COLUMNS_MAX) /* of the hash table; a power of two */
/* A column is given up when it was not asked for while that many times its nodes have changed. */
#define IDLE_ROUNDS 4u
#define GUESSES_MIN 64u /* bounds of so few classes are asked for at once */
#define EXACT 15u       /* in the place of a level */
/* Distinct shares with columns of their own; if there are more, neighbours have one together. */
#define SHARES_MOST 128u
#define IDLE_SHARES_MOST 32u /* of devices that nobody is on */
#define NEAR_SHARES 10u      /* of those; up to PLACE_CLASS_SHARES where it matters little */

enum { POOL_MIXED = PLACE_MODELS_MAX, POOL_NONE, N_POOLS };

/* What all classes share is in the first columns: the most that is free. Bytes are in MiB. */
enum { COLUMN_CPU, COLUMN_MEMORY, COLUMN_DEVICE_MEMORY, COLUMN_CLASSES };

struct column {
	struct place_class class;
	uint64_t used; /* the pool's n_changes then */
	bool is_built;
};

/* What a node has for classes: more than which share is not open on so many of its devices. */
struct open {
	uint16_t above[2][SPEC_DEVICES_MAX + 1]; /* of any devices, of those that nobody is on */
};

/* The nodes with devices of one model, or with several, or with none: in the order of nodes. */
struct pool {
	uint32_t *node;
	uint32_t n, size; /* size: a multiple of FAN */
	uint32_t n_levels;
	uint32_t n_at[LEVELS]; /* with padding */

	/* level[l]: for each FAN of its n_at[l], a line of FAN for each column. */
	int32_t *level[LEVELS];
	uint64_t *guessed; /* for each of n_at[0], a bit for each column: it may be a guess */
	struct column *column;
	uint32_t n_columns, columns_size;
	uint16_t *slot; /* of a hash table: column, or 0 */

	uint32_t *changed; /* places; each once */
	uint32_t n_changed;
	uint64_t n_changes; /* that were looked at */
	uint64_t given_up;  /* n_changes when idle columns were given up */
	bool is_forgotten;  /* what is free is as it was, but no bound is */
};

struct place_search {
	struct place *place;
	struct pool pool[N_POOLS];
	uint8_t *pool_of; /* by node; N_POOLS: in none yet */
	uint32_t *at_of;
	bool *is_changed;  /* by node, as the next */
	struct open *open; /* as its columns have it */
	uint32_t *stamp;   /* visit_label: the run that visited it last */
	uint32_t run;
	uint32_t n_nodes;

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
	*ret = s;
	return 0;
}

void place_search_free(struct place_search *s)
{
	if (!s)
		return;
	for (uint32_t g = 0; g < N_POOLS; g++) {
		free(s->pool[g].node);
		free(s->pool[g].level[0]);
		free(s->pool[g].guessed);
		free(s->pool[g].column);
		free(s->pool[g].slot);
		free(s->pool[g].changed);
	}
	free(s->pool_of);
	free(s->at_of);
	free(s->is_changed);
	free(s->open);
	free(s->stamp);
	free(s->heap);
	free(s);
}

/* ---- columns ---- */

static int32_t *line(const struct pool *g, uint32_t level, uint32_t up, uint32_t column)
{
	return &g->level[level][((size_t)up * g->columns_size + column) * FAN];
}

/* By the column, in words of 64. */
static uint64_t *guessed(const struct pool *g, uint32_t at)
{
	return &g->guessed[(size_t)at * ((g->columns_size + 63) / 64)];
}

static void note_guess(const struct pool *g, uint32_t at, uint32_t column, bool is_guess)
{
	uint64_t *word = &guessed(g, at)[column / 64], bit = 1ull << column % 64;

	*word = is_guess ? *word | bit : *word & ~bit;
}

/* Which they are is not known any more: that some are not is found when it is their turn. */
static void note_guesses(const struct pool *g)
{
	memset(g->guessed, 0xff, g->n_at[0] * sizeof(uint64_t) * ((g->columns_size + 63) / 64));
}

/* Room for that many columns: those that there are keep what they hold, others hold nothing. */
static int pool_lay_out(struct pool *g, uint32_t columns_size)
{
	struct pool was = *g;
	size_t n = 0;
	uint64_t *guesses = calloc(g->n_at[0], sizeof(*guesses) * ((columns_size + 63) / 64));
	int32_t *items;

	for (uint32_t l = 0; l < g->n_levels; l++)
		n += (size_t)g->n_at[l] * columns_size;
	items = malloc(n * sizeof(*items));
	if (!items || !guesses) {
		free(items);
		free(guesses);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		items[i] = PLACE_NEVER;
	g->columns_size = columns_size;
	g->guessed = guesses;
	note_guesses(g);
	for (uint32_t l = 0; l < g->n_levels; l++) {
		g->level[l] = items;
		items += (size_t)g->n_at[l] * columns_size;
		for (uint32_t up = 0; was.level[0] && up < g->n_at[l] / FAN; up++)
			memcpy(line(g, l, up, 0), line(&was, l, up, 0),
				g->n_columns * FAN * sizeof(*items));
	}
	free(was.level[0]);
	free(was.guessed);
	return 0;
}

static uint32_t hash(const struct place_class *c)
{
	uint64_t h = (uint64_t)c->share << 32 ^ (uint64_t)c->share_most << 18 ^
		(uint64_t)c->count << 8 ^ (uint64_t)c->is_idle << 7 ^ (uint64_t)c->kind << 44 ^
		c->models * 0x9e3779b97f4a7c15u;

	h *= 0xff51afd7ed558ccdu;
	return (uint32_t)(h >> 40) & (SLOTS - 1);
}

static bool is_same(const struct place_class *a, const struct place_class *b)
{
	return a->models == b->models && a->share == b->share && a->share_most == b->share_most &&
		a->count == b->count && a->is_idle == b->is_idle && a->kind == b->kind;
}

/* Where the class's column is noted, or is to be. */
static uint16_t *slot_of(const struct pool *g, const struct place_class *class)
{
	uint32_t h = hash(class);

	while (g->slot[h] && !is_same(&g->column[g->slot[h]].class, class))
		h = (h + 1) & (SLOTS - 1);
	return &g->slot[h];
}

/* Those that are not kept up to date, and of the others those that were not used since. */
static void drop_columns(struct pool *g, uint64_t since)
{
	uint32_t n = COLUMN_CLASSES;

	memset(g->slot, 0, SLOTS * sizeof(*g->slot));
	for (uint32_t c = n; c < g->n_columns; c++) {
		if (!g->column[c].is_built || g->column[c].used < since)
			continue;
		for (uint32_t l = 0; l < g->n_levels && c != n; l++)
			for (uint32_t up = 0; up < g->n_at[l] / FAN; up++)
				memcpy(line(g, l, up, n), line(g, l, up, c), FAN * sizeof(int32_t));
		g->column[n] = g->column[c];
		*slot_of(g, &g->column[n].class) = (uint16_t)n;
		n++;
	}
	g->n_columns = n;
	note_guesses(g);
}

/* Room for one more. */
static int reserve_column(struct pool *g)
{
	uint32_t size = MIN(2 * g->columns_size, COLUMNS_MAX);
	uint64_t least = UINT64_MAX;
	struct column *columns;

	if (g->n_columns < g->columns_size)
		return 0;
	drop_columns(g, 0);
	if (g->n_columns <= g->columns_size / 4 * 3)
		return 0;
	if (size > g->columns_size) {
		columns = realloc(g->column, size * sizeof(*columns));
		if (!columns)
			return -ENOMEM;
		g->column = columns;
		return pool_lay_out(g, size);
	}
	/* Half of the time since: so that this is rare. */
	for (uint32_t c = COLUMN_CLASSES; c < g->n_columns; c++)
		least = MIN(least, g->column[c].used);
	drop_columns(g, least + (g->n_changes - least) / 2 + 1);
	return 0;
}

/* ---- pools ---- */

static void note_change(struct place_search *s, struct pool *g, uint32_t at)
{
	if (s->is_changed[g->node[at]])
		return;
	s->is_changed[g->node[at]] = true;
	g->changed[g->n_changed++] = at;
}

static void note_all(struct place_search *s, struct pool *g)
{
	for (uint32_t at = 0; at < g->n; at++)
		note_change(s, g, at);
}

/* Nodes have other places: nothing that was seen of it holds any more. */
static void pool_forget(struct place_search *s, struct pool *g)
{
	for (uint32_t l = 0; l < g->n_levels; l++)
		for (size_t i = 0; i < (size_t)g->n_at[l] * g->columns_size; i++)
			g->level[l][i] = PLACE_NEVER;
	for (uint32_t c = COLUMN_CLASSES; c < g->n_columns; c++)
		g->column[c].is_built = false;
	for (uint32_t at = 0; at < g->n; at++)
		s->is_changed[g->node[at]] = false;
	g->n_changed = 0;
	note_all(s, g);
}

static int pool_grow(struct place_search *s, uint32_t pool)
{
	struct pool *g = &s->pool[pool], next;
	uint32_t n = g->size ? 2 * g->size : FAN, *node, *changed;

	if (!g->size) {
		free(g->column);
		free(g->slot);
		g->column = calloc(COLUMNS_MIN, sizeof(*g->column));
		g->slot = calloc(SLOTS, sizeof(*g->slot));
		g->columns_size = COLUMNS_MIN;
		g->n_columns = COLUMN_CLASSES;
	}
	node = realloc(g->node, n * sizeof(*node));
	if (node)
		g->node = node;
	changed = realloc(g->changed, n * sizeof(*changed));
	if (changed)
		g->changed = changed;
	if (!node || !changed || !g->column || !g->slot)
		return -ENOMEM;
	next = *g;
	next.size = n;
	for (next.n_levels = 0;; n = (n + FAN - 1) / FAN) {
		next.n_at[next.n_levels++] = (n + FAN - 1) / FAN * FAN;
		if (n <= FAN)
			break;
	}
	next.level[0] = NULL;
	next.guessed = NULL;
	if (pool_lay_out(&next, g->columns_size) < 0)
		return -ENOMEM;
	free(g->level[0]);
	free(g->guessed);
	*g = next;
	pool_forget(s, g);
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
		r = array_grow(&s->is_changed, &size, n_nodes, sizeof(*s->is_changed));
	size = s->n_nodes;
	if (r == 0)
		r = array_grow(&s->open, &size, n_nodes, sizeof(*s->open));
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

	s->is_changed[node] = false;
	g->n--;
	for (uint32_t at = s->at_of[node]; at < g->n; at++) {
		g->node[at] = g->node[at + 1];
		s->at_of[g->node[at]] = at;
	}
	pool_forget(s, g);
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
		pool_forget(s, g);
}

/* ---- what has changed ---- */

void place_search_changed(struct place_search *s, uint32_t node)
{
	s->place->versions[node]++;
	if (s->pool_of[node] != N_POOLS)
		note_change(s, &s->pool[s->pool_of[node]], s->at_of[node]);
}

void place_search_forget(struct place_search *s)
{
	for (uint32_t g = 0; g < N_POOLS; g++)
		s->pool[g].is_forgotten = true;
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

/* In fours: the compiler makes vectors of them. */
static int32_t most(const int32_t *p)
{
	int32_t four[4] = {p[0], p[1], p[2], p[3]};

	for (uint32_t at = 4; at < FAN; at += 4)
		for (uint32_t i = 0; i < 4; i++)
			four[i] = four[i] > p[at + i] ? four[i] : p[at + i];
	return MAX(MAX(four[0], four[1]), MAX(four[2], four[3]));
}

/* Up to that level. */
static void set(const struct pool *g, uint32_t at, uint32_t column, int32_t value, uint32_t levels)
{
	int32_t *p = &line(g, 0, at / FAN, column)[at % FAN], was = *p;

	for (uint32_t l = 1; was != value; l++) {
		int32_t *up;

		*p = value;
		if (l == levels)
			return;
		at /= FAN;
		up = &line(g, l, at / FAN, column)[at % FAN];
		if (value < *up) {
			if (was < *up)
				return;
			value = most(line(g, l - 1, at, column));
		}
		was = *up;
		p = up;
	}
}

/* From the first level up. */
static void set_levels(const struct pool *g, uint32_t column)
{
	for (uint32_t l = 1; l < g->n_levels; l++)
		for (uint32_t at = 0; at < g->n_at[l - 1] / FAN; at++)
			line(g, l, at / FAN, column)[at % FAN] = most(line(g, l - 1, at, column));
}

static void set_free(const struct place *place, const struct pool *g, uint32_t at, uint32_t levels)
{
	const struct node *node = &place->nodes[g->node[at]];
	uint64_t memory = 0;

	for (uint32_t i = 0; i < node->n_devices; i++)
		memory = MAX(memory, place->devices[node->first_device + i].memory_free);
	set(g, at, COLUMN_CPU, at_most(place->cpu_free[g->node[at]]), levels);
	set(g, at, COLUMN_MEMORY, mib(place->memory_free[g->node[at]]), levels);
	set(g, at, COLUMN_DEVICE_MEMORY, mib(memory), levels);
}

static void count_open(const struct place *place, uint32_t node, struct open *ret)
{
	*ret = (struct open){0};
	if (!place->nodes[node].is_used || place->nodes[node].is_closed)
		return;
	for (int is_idle = 0; is_idle < 2; is_idle++) {
		uint16_t shares[PLACE_NODE_DEVICES_MAX], *above = ret->above[is_idle];
		uint32_t n = place_open_shares(place, node, is_idle, shares);

		above[0] = UINT16_MAX;
		for (uint32_t k = 0; k < n && k < SPEC_DEVICES_MAX; k++)
			above[k + 1] = (uint16_t)(shares[k] + 1);
	}
}

static bool is_open(const struct open *open, const struct place_class *class)
{
	return class->share < open->above[class->is_idle][class->count];
}

/* And what the other one has. */
static void open_also(struct open *open, const struct open *other)
{
	uint16_t *above = open->above[0];
	const uint16_t *more = other->above[0];

	for (uint32_t i = 0; i < sizeof(*open) / sizeof(*above); i++)
		if (above[i] < more[i])
			above[i] = more[i];
}

/* Of the classes that it has room for, or had. */
static void set_bounds(struct place_search *s, const struct pool *g, uint32_t at,
	const struct open *ever, uint32_t levels)
{
	const struct place_policy *policy = s->place->config.policy;
	const uint32_t node = g->node[at];
	int32_t of_node = PLACE_NEVER;
	uint16_t columns[COLUMNS_MAX];
	uint32_t n = 0;
	bool is_long;

	/* A line of each column is more than the caches hold: all are asked for at once. */
	for (uint32_t c = COLUMN_CLASSES; c < g->n_columns; c++) {
		if (!is_open(ever, &g->column[c].class) || !g->column[c].is_built)
			continue;
		__builtin_prefetch(&line(g, 0, at / FAN, c)[at % FAN], 1);
		columns[n++] = (uint16_t)c;
	}
	is_long = policy->guess && n > GUESSES_MIN;
	for (uint32_t i = 0; i < n; i++) {
		const struct place_class *class = &g->column[columns[i]].class;
		const bool is_guess = is_long && class->share < SPEC_SHARE_ONE;
		int32_t value = PLACE_NEVER;

		if (is_open(&s->open[node], class) &&
			(!class->models || place_has_devices(s->place, class, node))) {
			value = of_node;
			if (value == PLACE_NEVER)
				value = (is_guess ? policy->guess : policy->bound)(
					s->place, class, node);
			if (policy->is_by_node)
				of_node = value;
		}
		set(g, at, columns[i], value, levels);
		note_guess(g, at, columns[i], is_guess);
	}
}

static void build(struct place *place, const struct pool *g, uint32_t c)
{
	const struct place_class *class = &g->column[c].class;

	for (uint32_t at = 0; at < g->n; at++) {
		const struct node *node = &place->nodes[g->node[at]];
		int32_t value = PLACE_NEVER;

		if (node->is_used && !node->is_closed &&
			place_has_devices(place, class, g->node[at]))
			value = place->config.policy->bound(place, class, g->node[at]);
		note_guess(g, at, c, false);
		line(g, 0, at / FAN, c)[at % FAN] = value;
	}
	set_levels(g, c);
	g->column[c].is_built = true;
}

/* That were not asked for in a long time. */
static void give_up_idle(struct pool *g)
{
	for (uint32_t c = COLUMN_CLASSES; c < g->n_columns; c++)
		if (g->n_changes - g->column[c].used > (uint64_t)IDLE_ROUNDS * g->n)
			g->column[c].is_built = false;
	g->given_up = g->n_changes;
}

static void look_at_changed(struct place_search *s, struct pool *g)
{
	/* If all have changed it is cheaper to look at each level once. */
	const uint32_t levels = !g->is_forgotten && g->n_changed < g->n / 2 ? g->n_levels : 1;

	g->n_changes += g->is_forgotten ? g->n : g->n_changed;
	if (g->n_changes - g->given_up > g->n)
		give_up_idle(g);
	while (g->n_changed) {
		const uint32_t at = g->changed[--g->n_changed], node = g->node[at];
		struct open ever = s->open[node];

		count_open(s->place, node, &s->open[node]);
		open_also(&ever, &s->open[node]);
		set_free(s->place, g, at, levels);
		set_bounds(s, g, at, &ever, levels);
		s->is_changed[node] = false;
	}
	/* What they have is as it was. */
	for (uint32_t at = 0; at < g->n && g->is_forgotten; at++)
		set_bounds(s, g, at, &s->open[g->node[at]], levels);
	g->is_forgotten = false;
	for (uint32_t c = 0; levels == 1 && c < g->n_columns; c++)
		set_levels(g, c);
}

/* The class's column, of nodes as they are now; 0: out of memory. */
static uint32_t column_get(struct place_search *s, struct pool *g, const struct place_class *class)
{
	uint32_t c = *slot_of(g, class);

	if (!c) {
		if (reserve_column(g) < 0)
			return 0;
		c = g->n_columns++;
		g->column[c] = (struct column){.class = *class};
		*slot_of(g, class) = (uint16_t)c;
	}
	g->column[c].used = g->n_changes;
	if (!g->column[c].is_built)
		build(s->place, g, c);
	return c;
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
	struct place_class class;
	int32_t cpu, memory, device_memory; /* MiB, rounded down */
	uint64_t best;                      /* its key, or 0 */
	struct place_choice choice;
};

static int32_t grade(const struct place_search *s, const struct quest *q, int32_t score)
{
	const struct place_policy *policy = s->place->config.policy;

	return policy->grade ? policy->grade(s->place, q->spec, score) : score;
}

/* The filter's word; where it leaves fewer devices, what is best of those. */
static bool place_may(struct place_search *s, const struct quest *q, uint32_t node, uint64_t mask,
	struct place_choice *choice)
{
	struct place *place = s->place;
	const uint64_t allowed = place_filtered(place, q->spec, node, place->gone, place->n_gone);

	if (!allowed || !(mask & ~allowed))
		return allowed != 0;
	mask &= allowed;
	if ((uint32_t)__builtin_popcountll(mask) < q->spec->count)
		return false;
	choice->score = place->config.policy->score(place, q->spec, node, mask, choice);
	return choice->score != PLACE_NEVER;
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
	if (key <= q->best || !place_may(s, q, node, mask, &choice))
		return;
	key = key_of(grade(s, q, choice.score), node, EXACT);
	if (key <= q->best)
		return;
	q->best = key;
	q->choice = choice;
}

static int expand(struct place_search *s, const struct pool *g, uint32_t column, struct quest *q,
	uint32_t level, uint32_t up)
{
	const int32_t *bounds = line(g, level, up, column), *cpu = line(g, level, up, COLUMN_CPU),
		      *memory = line(g, level, up, COLUMN_MEMORY),
		      *device_memory = line(g, level, up, COLUMN_DEVICE_MEMORY);
	int r = 0;

	for (uint32_t i = 0; i < FAN && r == 0; i++) {
		uint32_t node;
		uint64_t key;

		if (bounds[i] == PLACE_NEVER || cpu[i] < q->cpu || memory[i] < q->memory ||
			device_memory[i] < q->device_memory)
			continue;
		node = g->node[(up * FAN + i) << FAN_BITS * level];
		key = key_of(grade(s, q, bounds[i]), node, level);
		if (key > q->best && (level || is_open(&s->open[node], &q->class)))
			r = push(s, key);
	}
	return r;
}

/* The node's turn has come by a guess: the bound says whether it keeps it. */
static int look_closer(struct place_search *s, struct quest *q, uint32_t node, uint32_t column)
{
	struct pool *g = &s->pool[s->pool_of[node]];
	const uint32_t at = s->at_of[node];
	const int32_t value = s->place->config.policy->bound(
		s->place, &g->column[column].class, node);
	const uint64_t key = key_of(grade(s, q, value), node, 0);

	set(g, at, column, value, g->n_levels);
	note_guess(g, at, column, false);
	return key > q->best ? push(s, key) : 0;
}

static bool is_guessed(const struct place_search *s, uint32_t node, uint32_t column)
{
	const struct pool *g = &s->pool[s->pool_of[node]];

	return s->place->config.policy->guess &&
		(guessed(g, s->at_of[node])[column / 64] >> column % 64 & 1);
}

/*
 * Its share alone, as long as there are few; then with its neighbours. Where the share makes little
 * difference but whether it fits sooner and with more: to a device that nobody is on all do.
 */
static void set_shares(struct place_search *s, struct place_class *class)
{
	const struct place_policy *policy = s->place->config.policy;
	const uint32_t share = class->share;
	const bool is_coarse = policy->is_by_node ||
		(class->is_idle && s->n_shares > IDLE_SHARES_MOST);
	const uint32_t n = is_coarse ? PLACE_CLASS_SHARES : NEAR_SHARES;
	const uint64_t bit = 1ull << share % 64;

	if (!(s->shares[share / 64] & bit)) {
		s->shares[share / 64] |= bit;
		if (s->n_shares++ == SHARES_MOST && !policy->is_by_node)
			for (uint32_t g = 0; g < N_POOLS; g++)
				if (s->pool[g].n)
					drop_columns(&s->pool[g], UINT64_MAX);
	}
	if (!share || share == SPEC_SHARE_ONE || !policy->spans_shares ||
		!(is_coarse || s->n_shares > SHARES_MOST))
		return;
	class->share = MAX(share - share % n, 1u);
	class->share_most = MIN(share - share % n + n, SPEC_SHARE_ONE) - 1;
}

/* The trees of all pools that may have a place are searched as one. */
static int search_class(struct place_search *s, struct quest *q)
{
	struct place_class of = q->class;
	uint32_t column[N_POOLS] = {0};
	int r = 0;

	set_shares(s, &of);
	s->heap_n = 0;
	for (uint32_t i = 0; i < N_POOLS && r == 0; i++) {
		struct pool *g = &s->pool[i];

		if (!g->n || (i == POOL_NONE && of.count))
			continue;
		if (i < POOL_MIXED && q->class.models && !(q->class.models >> i & 1))
			continue;
		look_at_changed(s, g);
		/* Within a pool of one model all of its nodes have what is asked for. */
		of.models = i == POOL_MIXED ? q->class.models : 0;
		column[i] = column_get(s, g, &of);
		if (!column[i])
			return -ENOMEM;
		r = expand(s, g, column[i], q, g->n_levels - 1, 0);
	}
	while (r == 0 && s->heap_n && s->heap[0] > q->best) {
		uint64_t key = pop(s);
		uint32_t node = 0x0fffffffu - (uint32_t)(key >> 4 & 0x0fffffffu);
		uint32_t level = key & 15, i = s->pool_of[node];

		if (level == 0 && is_guessed(s, node, column[i]))
			r = look_closer(s, q, node, column[i]);
		else if (level == 0)
			visit(s, q, node);
		else
			r = expand(s, &s->pool[i], column[i], q, level - 1,
				s->at_of[node] >> (FAN_BITS * level));
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

/* Each node once, however many of its devices have the label. */
static void visit_label(struct place_search *s, struct quest *q, uint32_t id, enum role role)
{
	const struct label *label = place_label_at(s->place, id);

	if (++s->run == 0) {
		memset(s->stamp, 0, s->n_nodes * sizeof(*s->stamp));
		s->run = 1;
	}
	for (uint32_t i = 0; i < label->n_devices[role]; i++) {
		const uint32_t node = s->place->devices[label->devices[role][i]].node;

		if (s->stamp[node] == s->run)
			continue;
		s->stamp[node] = s->run;
		visit(s, q, node);
	}
}

static int search(struct place_search *s, struct quest *q)
{
	const struct place_spec *spec = q->spec;

	q->class = place_class_of(s->place, spec);
	if (spec->device != PLACE_NONE || spec->node != PLACE_NONE) {
		visit(s, q,
			spec->node != PLACE_NONE ? spec->node
						 : s->place->devices[spec->device].node);
		return 0;
	}
	if (spec->network[0]) {
		visit(s, q, place_network_node(s->place, spec->network[0]));
		return 0;
	}
	if (spec->count && spec->affinity) {
		q->class.is_idle = true;
		if (place_label_at(s->place, spec->affinity)->n_devices[ROLE_AFFINITY]) {
			visit_label(s, q, spec->affinity, ROLE_AFFINITY);
			return 0;
		}
	}
	if (spec->count && spec->exclusion) {
		/* On devices of that label, or on one that nobody is on. */
		q->class.is_idle = true;
		visit_label(s, q, spec->exclusion, ROLE_EXCLUSION);
	}
	return search_class(s, q);
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
	struct place_spec narrowed = *spec;
	struct quest q = {.spec = &narrowed,
		.cpu = at_most(spec->cpu_milli),
		.memory = at_most(spec->memory_bytes >> 20),
		.device_memory = at_most(spec->device_bytes >> 20)};
	int r;

	r = check(place, spec, err);
	if (r < 0)
		return r;
	r = place_queue_narrow(place, &narrowed, err);
	if (r < 0)
		return r;
	r = place_mix_update(place);
	if (r == 0 && place->n_nodes)
		r = search(s, &q);
	if (r < 0)
		return fail(err, -r, "out of memory for a decision");
	if (!q.best)
		return fail(err, ENOSPC, "no node has room for it");
	*ret_choice = q.choice;
	return 0;
}
