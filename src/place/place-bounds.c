/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file updates the tables of bounds lazily, when the search asks for a column of a pool. Rows
 * of a pool are in node order; if a row shifts, pool_forget() clears the pool's table. `changed`
 * names each changed row once, and look_at_changed() empties that list. `open` holds, per node and
 * shape, the smallest share with which a class no longer fits. Its old and its new value tell which
 * classes fitted before or fit now. look_at_changed() sets only the bounds of these classes. If at
 * least half of the rows have changed, look_at_changed() rebuilds the maxima once at the end.
 */
#include "place/place-bounds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "place/place-internal.h"

/*
 * A pool drops a column that no search requested during this many row changes per node of the pool.
 */
#define IDLE_ROUNDS 4u
/* a node that fits at most this many classes gets exact bounds, not guesses */
#define GUESSES_MIN 64u
/*
 * Up to this many distinct requested shares, each share has a column of its own. With more distinct
 * shares, each column stands for a range of shares.
 */
#define SHARES_MOST 128u
#define IDLE_SHARES_MOST 32u /* like SHARES_MOST, for classes that need idle devices */
/*
 * number of shares for which a common column stands; place_bounds_class() takes PLACE_CLASS_SHARES
 * instead if the exact share matters little
 */
#define NEAR_SHARES 10u

/*
 * Free capacity of a node, by COLUMN_SHAPE. A class of the shape does not fit the node if its share
 * is above[shape] or more.
 */
struct open {
	uint16_t above[COLUMN_UNBUILT + 1];
};

struct place_bounds {
	struct place *place;
	struct pool pool[N_POOLS];
	uint8_t *pool_of; /* pool_of[node]; N_POOLS: the node is in no pool yet */
	uint32_t *row_of;
	bool *is_changed;  /* is_changed and open: by node */
	struct open *open; /* free capacity of each node when the columns were last updated */
	uint32_t n_nodes;

	uint64_t shares[16]; /* one bit for each share that a tenant has requested */
	uint32_t n_shares;
};

int place_bounds_new(struct place *place, struct place_bounds **ret)
{
	struct place_bounds *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->place = place;
	for (uint32_t g = 0; g < N_POOLS; g++)
		columns_init(&b->pool[g].columns, place->config.policy->bounds_grades);
	*ret = b;
	return 0;
}

void place_bounds_free(struct place_bounds *b)
{
	if (!b)
		return;
	for (uint32_t g = 0; g < N_POOLS; g++) {
		free(b->pool[g].node);
		free(b->pool[g].changed);
		columns_done(&b->pool[g].columns);
	}
	free(b->pool_of);
	free(b->row_of);
	free(b->is_changed);
	free(b->open);
	free(b);
}

/* ---- pools ---- */

const struct pool *place_bounds_pool(const struct place_bounds *b, uint32_t pool)
{
	return &b->pool[pool];
}

uint32_t place_bounds_pool_of(const struct place_bounds *b, uint32_t node)
{
	return b->pool_of[node];
}

uint32_t place_bounds_row_of(const struct place_bounds *b, uint32_t node)
{
	return b->row_of[node];
}

static void place_bounds_note_change(struct place_bounds *b, struct pool *g, uint32_t row)
{
	if (b->is_changed[g->node[row]])
		return;
	b->is_changed[g->node[row]] = true;
	g->changed[g->n_changed++] = row;
}

/*
 * Clears the pool's table after a node was inserted or removed, which gives other nodes new rows.
 */
static void pool_forget(struct place_bounds *b, struct pool *g)
{
	columns_clear(&g->columns);
	for (uint32_t row = 0; row < g->n; row++)
		b->is_changed[g->node[row]] = false;
	g->n_changed = 0;
	for (uint32_t row = 0; row < g->n; row++)
		place_bounds_note_change(b, g, row);
}

static int pool_grow(struct place_bounds *b, struct pool *g)
{
	const uint32_t n = g->size ? 2 * g->size : FAN;
	uint32_t *node = realloc(g->node, n * sizeof(*node)), *changed;

	if (!node)
		return -ENOMEM;
	g->node = node;
	changed = realloc(g->changed, n * sizeof(*changed));
	if (!changed)
		return -ENOMEM;
	g->changed = changed;
	if (columns_resize(&g->columns, n) < 0)
		return -ENOMEM;
	g->size = n;
	pool_forget(b, g);
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

int place_bounds_reserve(
	struct place_bounds *b, uint32_t n_nodes, uint64_t models, uint32_t n_devices)
{
	struct pool *g = &b->pool[pool_for(models, n_devices)];
	uint32_t size = b->n_nodes;
	uint8_t *pools;
	int r = 0;

	if (g->n == g->size)
		r = pool_grow(b, g);
	if (r < 0 || n_nodes <= b->n_nodes)
		return r;
	r = array_grow(&b->row_of, &size, n_nodes, sizeof(*b->row_of));
	size = b->n_nodes;
	if (r == 0)
		r = array_grow(&b->is_changed, &size, n_nodes, sizeof(*b->is_changed));
	size = b->n_nodes;
	if (r == 0)
		r = array_grow(&b->open, &size, n_nodes, sizeof(*b->open));
	if (r < 0)
		return r;
	pools = realloc(b->pool_of, size);
	if (!pools)
		return -ENOMEM;
	memset(pools + b->n_nodes, N_POOLS, size - b->n_nodes);
	b->pool_of = pools;
	b->n_nodes = size;
	return 0;
}

static void pool_leave(struct place_bounds *b, uint32_t node)
{
	struct pool *g = &b->pool[b->pool_of[node]];

	b->is_changed[node] = false;
	g->n--;
	for (uint32_t row = b->row_of[node]; row < g->n; row++) {
		g->node[row] = g->node[row + 1];
		b->row_of[g->node[row]] = row;
	}
	pool_forget(b, g);
	b->pool_of[node] = N_POOLS;
}

void place_bounds_enter(struct place_bounds *b, uint32_t node)
{
	const struct node *is = &b->place->nodes[node];
	const uint32_t pool = pool_for(is->models, is->n_devices);
	struct pool *g = &b->pool[pool];
	uint32_t row;

	if (b->pool_of[node] == pool)
		return;
	if (b->pool_of[node] != N_POOLS)
		pool_leave(b, node);
	for (row = g->n++; row && g->node[row - 1] > node; row--) {
		g->node[row] = g->node[row - 1];
		b->row_of[g->node[row]] = row;
	}
	g->node[row] = node;
	b->row_of[node] = row;
	b->pool_of[node] = (uint8_t)pool;
	if (row + 1 < g->n)
		pool_forget(b, g);
}

/* ---- changes ---- */

void place_bounds_changed(struct place_bounds *b, uint32_t node)
{
	b->place->versions[node]++;
	if (b->pool_of[node] != N_POOLS)
		place_bounds_note_change(b, &b->pool[b->pool_of[node]], b->row_of[node]);
}

void place_bounds_forget(struct place_bounds *b)
{
	for (uint32_t g = 0; g < N_POOLS; g++)
		b->pool[g].is_forgotten = true;
}

static int32_t place_bounds_mib(uint64_t bytes)
{
	return columns_number((bytes >> 20) + ((bytes & ((1u << 20) - 1)) != 0));
}

static void place_bounds_set_free(
	const struct place *place, const struct pool *g, uint32_t row, uint32_t levels)
{
	const struct node *node = &place->nodes[g->node[row]];
	uint64_t memory = 0;

	for (uint32_t i = 0; i < node->n_devices; i++)
		memory = MAX(memory, place->devices[node->first_device + i].memory_free);
	columns_set(&g->columns, row, COLUMN_CPU, columns_number(place->cpu_free[g->node[row]]),
		levels);
	columns_set(&g->columns, row, COLUMN_MEMORY,
		place_bounds_mib(place->memory_free[g->node[row]]), levels);
	columns_set(&g->columns, row, COLUMN_DEVICE_MEMORY, place_bounds_mib(memory), levels);
	columns_set(&g->columns, row, COLUMN_OPPORTUNISTIC, node->n_opportunistic != 0, levels);
}

static void count_open(const struct place *place, uint32_t node, struct open *ret)
{
	*ret = (struct open){0};
	if (!place->nodes[node].is_used || place->nodes[node].is_closed)
		return;
	for (uint32_t is_idle = 0; is_idle < 2; is_idle++) {
		uint16_t shares[PLACE_NODE_DEVICES_MAX],
			*above = &ret->above[COLUMN_SHAPE(is_idle, 0)];
		uint32_t n = place_open_shares(place, node, is_idle, shares);

		above[0] = UINT16_MAX;
		for (uint32_t k = 0; k < n && k < SPEC_DEVICES_MAX; k++)
			above[k + 1] = (uint16_t)(shares[k] + 1);
	}
}

bool place_bounds_is_open(
	const struct place_bounds *b, uint32_t node, const struct place_class *class)
{
	return class->share < b->open[node].above[COLUMN_SHAPE(class->is_idle, class->count)];
}

/* Raises `open` to the values of `other`. */
static void open_also(struct open *open, const struct open *other)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(open->above); i++)
		if (open->above[i] < other->above[i])
			open->above[i] = other->above[i];
}

/* Columns of a table, and their new values in a row. */
struct picked {
	uint32_t n;
	uint16_t column[COLUMNS_MAX];
	const struct place_class *class[COLUMNS_MAX];
	int32_t value[COLUMNS_MAX];
};

/*
 * Picks a class whose share fits the node. A class whose devices the node lacks gets PLACE_NEVER.
 */
static void pick_one(const struct place_bounds *b, const struct pool *g, uint32_t row, uint32_t c,
	uint32_t levels, struct picked *picked)
{
	const struct place_class *class = &g->columns.column[c].class;

	/*
	 * The lines of all columns together exceed the caches: prefetch the line for the later
	 * write.
	 */
	__builtin_prefetch(columns_line(&g->columns, 0, row / FAN, c), 1);
	if (class->models && !place_has_devices(b->place, class, g->node[row])) {
		columns_set(&g->columns, row, c, PLACE_NEVER, levels);
		return;
	}
	picked->column[picked->n] = (uint16_t)c;
	picked->class[picked->n++] = class;
}

/*
 * Picks the classes that fit the node now. A class that fitted before (`ever`) and no longer fits
 * gets PLACE_NEVER.
 */
static void place_bounds_pick_row(const struct place_bounds *b, const struct pool *g, uint32_t row,
	const struct open *ever, uint32_t levels, struct picked *ret)
{
	const uint16_t *above = b->open[g->node[row]].above;

	ret->n = 0;
	for (uint32_t shape = 0; shape < COLUMN_UNBUILT; shape++) {
		const struct column_order *o = &g->columns.order[g->columns.ordered[shape]],
					  *end = &g->columns.order[g->columns.ordered[shape + 1]];

		for (; o < end && o->share < above[shape]; o++)
			pick_one(b, g, row, o->column, levels, ret);
		for (; o < end && o->share < ever->above[shape]; o++)
			columns_set(&g->columns, row, o->column, PLACE_NEVER, levels);
	}
}

static void place_bounds_compute(
	const struct place_bounds *b, uint32_t node, struct picked *picked, bool is_guess)
{
	const struct place_policy *policy = b->place->config.policy;
	const uint32_t n = policy->is_by_node ? MIN(picked->n, 1u) : picked->n;

	if (policy->bounds)
		policy->bounds(b->place, node, picked->class, n, is_guess, picked->value);
	else
		for (uint32_t i = 0; i < n; i++)
			picked->value[i] = policy->bound(b->place, picked->class[i], node);
	for (uint32_t i = n; i < picked->n; i++)
		picked->value[i] = picked->value[0];
}

/* Sets the row's bounds for all classes that fit the node now or fitted before (`ever`). */
static void set_bounds(struct place_bounds *b, const struct pool *g, uint32_t row,
	const struct open *ever, uint32_t levels)
{
	const bool has_guesses = b->place->config.policy->has_guesses;
	struct picked picked;
	bool is_guess;

	place_bounds_pick_row(b, g, row, ever, levels, &picked);
	is_guess = has_guesses && picked.n > GUESSES_MIN;
	place_bounds_compute(b, g->node[row], &picked, is_guess);
	columns_set_many(&g->columns, row, picked.column, picked.value, picked.n, levels);
	if (has_guesses)
		columns_note_guesses(&g->columns, row, picked.column, picked.n, is_guess);
}

static void place_bounds_build_pool(struct place *place, struct pool *g, uint32_t c)
{
	const struct place_class *class = &g->columns.column[c].class;
	const uint16_t column = (uint16_t)c;

	for (uint32_t row = 0; row < g->n; row++) {
		const struct node *node = &place->nodes[g->node[row]];
		int32_t value = PLACE_NEVER;

		if (node->is_used && !node->is_closed &&
			place_has_devices(place, class, g->node[row]))
			value = place->config.policy->bound(place, class, g->node[row]);
		if (place->config.policy->has_guesses)
			columns_note_guesses(&g->columns, row, &column, 1, false);
		columns_put(&g->columns, row, c, value);
	}
	columns_set_levels(&g->columns, c);
	columns_set_built(&g->columns, c, true);
}

/* Stops updating columns that no search requested for a long time. */
static void give_up_idle(struct pool *g)
{
	for (uint32_t c = COLUMN_CLASSES; c < g->columns.n; c++)
		if (g->n_changes - g->columns.column[c].used > (uint64_t)IDLE_ROUNDS * g->n)
			columns_set_built(&g->columns, c, false);
	g->given_up = g->n_changes;
}

static void look_at_changed(struct place_bounds *b, struct pool *g)
{
	/*
	 * If at least half of the rows have changed, one pass over each level at the end is
	 * cheaper.
	 */
	const uint32_t levels = !g->is_forgotten && g->n_changed < g->n / 2 ? g->columns.n_levels
									    : 1;

	g->n_changes += g->is_forgotten ? g->n : g->n_changed;
	if (g->n_changes - g->given_up > g->n)
		give_up_idle(g);
	columns_put_in_order(&g->columns);
	while (g->n_changed) {
		const uint32_t row = g->changed[--g->n_changed], node = g->node[row];
		struct open ever = b->open[node];

		count_open(b->place, node, &b->open[node]);
		open_also(&ever, &b->open[node]);
		place_bounds_set_free(b->place, g, row, levels);
		set_bounds(b, g, row, &ever, levels);
		b->is_changed[node] = false;
	}
	/*
	 * The changed rows were handled above. Of all other rows `open` has the present free
	 * capacity.
	 */
	for (uint32_t row = 0; row < g->n && g->is_forgotten; row++)
		set_bounds(b, g, row, &b->open[g->node[row]], levels);
	g->is_forgotten = false;
	for (uint32_t c = 0; levels == 1 && c < g->columns.n; c++)
		columns_set_levels(&g->columns, c);
}

/* ---- for the search ---- */

uint32_t place_bounds_column(struct place_bounds *b, uint32_t pool, const struct place_class *class)
{
	struct pool *g = &b->pool[pool];
	uint32_t c;

	look_at_changed(b, g);
	c = columns_find(&g->columns, class);
	if (!c)
		c = columns_add(&g->columns, class, g->n_changes);
	if (!c)
		return 0;
	g->columns.column[c].used = g->n_changes;
	if (!columns_is_built(&g->columns, c))
		place_bounds_build_pool(b->place, g, c);
	return c;
}

/*
 * Rounds the share to a range of shares if the exact share matters little, or if there are too many
 * distinct shares. For a class that needs idle devices the exact share matters little, because
 * every share fits on an idle device.
 */
struct place_class place_bounds_class(struct place_bounds *b, const struct place_class *of)
{
	const struct place_policy *policy = b->place->config.policy;
	const uint32_t share = of->share;
	const bool is_coarse = policy->is_by_node ||
		(of->is_idle && b->n_shares > IDLE_SHARES_MOST);
	const uint32_t n = is_coarse ? PLACE_CLASS_SHARES : NEAR_SHARES;
	const uint64_t bit = 1ull << share % 64;
	struct place_class class = *of;

	if (!(b->shares[share / 64] & bit)) {
		b->shares[share / 64] |= bit;
		if (b->n_shares++ == SHARES_MOST && !policy->is_by_node)
			for (uint32_t g = 0; g < N_POOLS; g++)
				if (b->pool[g].n)
					columns_drop(&b->pool[g].columns, UINT64_MAX);
	}
	if (!share || share == SPEC_SHARE_ONE || !policy->spans_shares ||
		!(is_coarse || b->n_shares > SHARES_MOST))
		return class;
	class.share = MAX(share - share % n, 1u);
	class.share_most = MIN(share - share % n + n, SPEC_SHARE_ONE) - 1;
	return class;
}

bool place_bounds_is_guess(const struct place_bounds *b, uint32_t node, uint32_t column)
{
	return b->place->config.policy->has_guesses &&
		columns_is_guess(&b->pool[b->pool_of[node]].columns, b->row_of[node], column);
}

int32_t place_bounds_look_closer(struct place_bounds *b, uint32_t node, uint32_t column)
{
	const struct columns *columns = &b->pool[b->pool_of[node]].columns;
	const uint32_t row = b->row_of[node];
	const uint16_t closer = (uint16_t)column;
	const int32_t value = b->place->config.policy->bound(
		b->place, &columns->column[column].class, node);

	columns_set(columns, row, column, value, columns->n_levels);
	columns_note_guesses(columns, row, &closer, 1, false);
	return value;
}
