/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file counts what queues use, and decides whether a tenant may start within quotas and
 * limits. Queues are an array; `parent` is an index, and a spec's `queue` is an index plus one.
 * place_queue_count_tenant() adds to a queue and all its ancestors, so `used` includes all queues
 * below. Terminating tenants do not count, and index ALL of an array stands for all models
 * together. place_queue_set() builds a new table and replaces the old one only after every check.
 */
#include "place/place-queue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "place/place-queue-internal.h"

#define AMOUNT_MAX (1ull << 40) /* permille of devices: more than any cluster has */
#define TEXT 24u
#define STANDING (2 * TEXT + SPEC_LABEL + 64) /* for place_queue_standing_text() */

const uint64_t queue_nothing[ALL + 1];

void place_queue_free(struct place_queues *queues)
{
	free(queues);
}

DEFINE_CLEANUP(struct place_queues *, place_queue_free)

/* "1.5" for 1500 */
static const char *place_queue_format_devices(uint64_t permille, char ret[static TEXT])
{
	int n = snprintf(
		ret, TEXT, "%" PRIu64 ".%03u", permille / 1000, (unsigned int)(permille % 1000));

	while (ret[n - 1] == '0')
		ret[--n] = '\0';
	if (ret[n - 1] == '.')
		ret[--n] = '\0';
	return ret;
}

/* ---- use ---- */

static void place_queue_count_tenant(struct place_queues *queues, const struct place *place,
	const struct place_tenant *t, int sign)
{
	const uint64_t share = (uint64_t)(int64_t)(sign * (int)queue_share(place, &t->spec));
	uint32_t at = t->spec.queue ? t->spec.queue - 1 : PLACE_NONE;

	for (; at != PLACE_NONE; at = queues->queue[at].parent)
		for (uint32_t i = 0; i < t->n; i++) {
			queues->queue[at].used[ALL] += share;
			queues->queue[at].used[place->devices[t->device[i]].model] += share;
		}
}

void place_queue_count(struct place *place, const struct place_tenant *t, int sign)
{
	if (place->queues)
		place_queue_count_tenant(place->queues, place, t, sign);
}

void place_queue_set_outside(struct place *place, uint32_t queue, uint64_t permille)
{
	struct place_queues *queues = place->queues;
	uint64_t more;

	if (!queue || queue > place_queue_n(place))
		return;
	more = permille - queues->queue[queue - 1].outside; /* modulo 2^64, as the sums below */
	queues->queue[queue - 1].outside = permille;
	for (uint32_t at = queue - 1; at != PLACE_NONE; at = queues->queue[at].parent)
		queues->queue[at].used[ALL] += more;
}

/* ---- setup ---- */

static uint32_t place_queue_index(const struct place_queues *queues, uint32_t n, const char *name)
{
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(queues->queue[i].name, name))
			return i;
	return PLACE_NONE;
}

static int bounds_set(struct queue *q, uint32_t at, const char *of, uint64_t quota, uint64_t limit,
	struct error *err)
{
	char a[TEXT], b[TEXT];

	if (quota > AMOUNT_MAX)
		return fail(err, EINVAL, "queue %s%s: quota %" PRIu64 ": more than any cluster has",
			q->name, of, quota);
	if (quota > limit)
		return fail(err, EINVAL, "queue %s%s: quota %s is above the limit, %s", q->name, of,
			place_queue_format_devices(quota, a), place_queue_format_devices(limit, b));
	q->quota[at] = quota;
	q->limit[at] = limit;
	return 0;
}

static int models_set(struct place *place, struct queue *q, const struct place_queue_info *info,
	uint64_t *named, struct error *err)
{
	uint64_t bit = 0, seen = 0;
	int r;

	for (uint32_t m = 0; m < PLACE_MODELS_MAX; m++) {
		/* no quota of this model: only the quota of all models together applies */
		q->quota[m] = PLACE_UNLIMITED;
		q->limit[m] = PLACE_UNLIMITED;
	}
	for (uint32_t i = 0; i < info->n_models; i++) {
		const struct place_queue_model *m = &info->models[i];
		char of[SPEC_LABEL + 16], a[TEXT], b[TEXT];

		r = place_model(place, m->model, &bit, err);
		if (r < 0)
			return r;
		if (seen & bit)
			return fail(err, EINVAL, "queue %s: model %s is named twice", q->name,
				m->model);
		seen |= bit;
		*named |= bit;
		snprintf(of, sizeof(of), ", model %s", m->model);
		r = bounds_set(q, (uint32_t)__builtin_ctzll(bit), of, m->quota, m->limit, err);
		if (r == 0 && m->quota > info->quota)
			r = fail(err, EINVAL,
				"queue %s%s: quota %s is above that of all models, %s", q->name, of,
				place_queue_format_devices(m->quota, a),
				place_queue_format_devices(info->quota, b));
		if (r < 0)
			return r;
	}
	return 0;
}

static int queue_set(struct place *place, struct place_queues *queues, uint32_t i,
	const struct place_queue_info *info, struct error *err)
{
	struct queue *q = &queues->queue[i];
	size_t n = strlen(info->name);
	int r;

	queues->looked_at = i;
	if (n == 0 || n >= SPEC_LABEL)
		return fail(err, EINVAL, "queue '%.70s': 1 to %u characters are possible",
			info->name, SPEC_LABEL - 1);
	if (place_queue_index(queues, i, info->name) != PLACE_NONE)
		return fail(err, EINVAL, "queue %s is named twice", info->name);
	memcpy(q->name, info->name, n + 1);
	if (info->weight == 0 || info->weight > PLACE_QUEUE_WEIGHT_MAX)
		return fail(err, EINVAL, "queue %s: weight %u: 1 to %u are possible", q->name,
			info->weight, PLACE_QUEUE_WEIGHT_MAX);
	q->weight = info->weight;
	r = bounds_set(q, ALL, "", info->quota, info->limit, err);
	return r < 0 ? r : models_set(place, q, info, &queues->models, err);
}

static int parents_set(
	struct place_queues *queues, const struct place_queue_info *infos, struct error *err)
{
	for (uint32_t i = 0; i < queues->n; i++) {
		struct queue *q = &queues->queue[i];

		queues->looked_at = i;
		q->parent = PLACE_NONE;
		if (!infos[i].parent || !infos[i].parent[0])
			continue;
		q->parent = place_queue_index(queues, queues->n, infos[i].parent);
		if (q->parent == PLACE_NONE)
			return fail(err, EINVAL, "queue %s: its parent '%.70s' is unknown", q->name,
				infos[i].parent);
		queues->queue[q->parent].n_children++;
	}
	for (uint32_t i = 0; i < queues->n; i++) {
		uint32_t depth = 0, up = i;

		queues->looked_at = i;
		while ((up = queues->queue[up].parent) != PLACE_NONE) {
			if (up == i)
				return fail(err, EINVAL, "queue %s: its parents lead back to it",
					queues->queue[i].name);
			if (++depth == PLACE_QUEUE_DEPTH)
				return fail(err, EINVAL,
					"queue %s: %u or more are above it, or in a circle; up to "
					"%u are possible",
					queues->queue[i].name, PLACE_QUEUE_DEPTH,
					PLACE_QUEUE_DEPTH - 1);
		}
	}
	return 0;
}

/* The quotas of children must not exceed their parent's. */
static int sums_check(const struct place *place, struct place_queues *queues, struct error *err)
{
	_cleanup_free_ uint64_t(*sum)[ALL + 1] = calloc(queues->n + 1ull, sizeof(*sum));
	char a[TEXT], b[TEXT];

	if (!sum)
		return fail(err, ENOMEM, "out of memory for queues");
	for (uint32_t i = 0; i < queues->n; i++)
		for (uint32_t m = 0; m <= ALL && queues->queue[i].parent != PLACE_NONE; m++)
			if (queues->queue[i].quota[m] != PLACE_UNLIMITED)
				sum[queues->queue[i].parent][m] += queues->queue[i].quota[m];
	for (uint32_t i = 0; i < queues->n; i++) {
		queues->looked_at = i;
		for (uint32_t m = 0; m <= ALL; m++)
			if (sum[i][m] > queues->queue[i].quota[m])
				return fail(err, EINVAL,
					"queue %s: the quotas below it are %s together%s%s, its "
					"own is %s",
					queues->queue[i].name,
					place_queue_format_devices(sum[i][m], a),
					m == ALL ? "" : " of model ",
					m == ALL ? "" : place->models[m],
					place_queue_format_devices(queues->queue[i].quota[m], b));
	}
	return 0;
}

static int tenants_set(const struct place *place, struct place_queues *queues, struct error *err)
{
	const struct place_queues *old = place->queues;

	queues->looked_at = queues->n;
	for (uint32_t i = 0; i < place->n_tenants; i++) {
		const struct place_tenant *t = &place->tenants[i];
		uint32_t at = t->spec.queue - 1;

		if (t->node == PLACE_NONE)
			continue;
		if (t->spec.queue) {
			if (at >= queues->n || strcmp(queues->queue[at].name, old->queue[at].name))
				return fail(err, EBUSY,
					"queue %s has tenants: its position cannot change",
					old->queue[at].name);
			if (queues->queue[at].n_children)
				return fail(err, EBUSY,
					"queue %s has tenants: no queue can be below it",
					old->queue[at].name);
		}
		if (!t->is_terminating)
			place_queue_count_tenant(queues, place, t, 1);
	}
	return 0;
}

int place_queue_set(struct place *place, const struct place_queue_info *infos, uint32_t n,
	uint32_t *ret_at, struct error *err)
{
	_cleanup_(place_queue_free_p) struct place_queues *queues = NULL;
	char models[PLACE_MODELS_MAX][SPEC_LABEL];
	const uint32_t n_models = place->n_models;
	int r = 0;

	if (ret_at)
		*ret_at = n;
	if (n > PLACE_QUEUES_MAX)
		return fail(err, EINVAL, "%u queues: up to %u are possible", n, PLACE_QUEUES_MAX);
	if (place->n_savepoints)
		return fail(err, EBUSY, "queues cannot change: a decision is in progress");
	queues = calloc(1, sizeof(*queues) + n * sizeof(queues->queue[0]));
	if (!queues)
		return fail(err, ENOMEM, "out of memory for queues");
	queues->n = n;
	memcpy(models, place->models, sizeof(models));
	for (uint32_t i = 0; i < n && r == 0; i++)
		r = queue_set(place, queues, i, &infos[i], err);
	if (r == 0)
		r = parents_set(queues, infos, err);
	if (r == 0)
		r = sums_check(place, queues, err);
	if (r == 0)
		r = tenants_set(place, queues, err);
	if (r < 0) {
		/* Removes models that the refused queues added. */
		memcpy(place->models, models, sizeof(models));
		place->n_models = n_models;
		if (ret_at)
			*ret_at = queues->looked_at;
		return r;
	}
	place_queue_free(place->queues);
	place->queues = TAKE_PTR(queues);
	return 0;
}

uint64_t place_queues_name(const struct place *place)
{
	return place->queues ? place->queues->models : 0;
}

uint32_t place_queue_n(const struct place *place)
{
	return place->queues ? place->queues->n : 0;
}

uint64_t place_queue_used(const struct place *place, uint32_t queue, uint32_t model)
{
	if (!queue || queue > place_queue_n(place) || (model != PLACE_NONE && model >= ALL))
		return 0;
	return place->queues->queue[queue - 1].used[model == PLACE_NONE ? ALL : model];
}

/* ---- admission ---- */

/* " of model X", or "" for all models */
struct bound_text {
	char text[SPEC_LABEL + 16];
};

static struct bound_text place_queue_bound_text(const struct place *place, uint32_t model)
{
	struct bound_text t = {""};

	if (model != ALL)
		snprintf(t.text, sizeof(t.text), " of model %s", place->models[model]);
	return t;
}

#define SAY(verdict, what, ...) \
	do { \
		(verdict)->admission = (what); \
		snprintf((verdict)->why, sizeof((verdict)->why), __VA_ARGS__); \
	} while (0)

/*
 * Returns false if the tenant would exceed a limit of its queue or of a queue above; the verdict
 * names that limit.
 */
static bool is_within_limits(const struct place *place, const struct place_spec *spec,
	uint32_t model, struct place_verdict *ret)
{
	const struct place_queues *queues = place->queues;
	const uint64_t asked = queue_requested(place, spec);
	const uint32_t bounds[] = {ALL, model};
	char a[TEXT], b[TEXT], c[TEXT];
	bool is_within = true;

	for (uint32_t at = spec->queue - 1; at != PLACE_NONE; at = queues->queue[at].parent)
		for (int i = 0; i < 2; i++) {
			const struct queue *q = &queues->queue[at];
			const uint32_t m = bounds[i];

			if (asked > q->limit[m]) {
				SAY(ret, PLACE_ADMIT_NEVER,
					"queue %s may have %s devices%s at most, %s asked", q->name,
					place_queue_format_devices(q->limit[m], a),
					place_queue_bound_text(place, m).text,
					place_queue_format_devices(asked, b));
				return false;
			}
			if (is_within && queue_is_full(q, queue_nothing, m, asked)) {
				SAY(ret, PLACE_ADMIT_WAIT,
					"queue %s has %s of the %s devices%s that it may have, %s "
					"asked",
					q->name, place_queue_format_devices(q->used[m], a),
					place_queue_format_devices(q->limit[m], b),
					place_queue_bound_text(place, m).text,
					place_queue_format_devices(asked, c));
				is_within = false;
			}
		}
	return is_within;
}

int place_queue_check(const struct place *place, uint32_t queue, struct error *err)
{
	if (queue && queue > place_queue_n(place))
		return fail(err, EINVAL, "queue %u: %u are known", queue, place_queue_n(place));
	if (queue && place->queues->queue[queue - 1].n_children)
		return fail(err, EINVAL, "queue %s has queues below it: tenants belong to those",
			place->queues->queue[queue - 1].name);
	return 0;
}

uint64_t place_queue_models(const struct place *place, const struct place_spec *spec)
{
	const uint64_t asked = spec->models ? spec->models : UINT64_MAX;
	struct place_verdict ignored;
	uint64_t models = 0;

	if (!spec->queue || !spec->count)
		return asked;
	for (uint32_t m = 0; m < place->n_models; m++)
		if ((asked >> m & 1) && is_within_limits(place, spec, m, &ignored))
			models |= 1ull << m;
	return models;
}

int place_queue_narrow(const struct place *place, struct place_spec *spec, struct error *err)
{
	uint64_t known, models;

	if (!spec->queue || !spec->count || !place->n_models)
		return 0;
	known = UINT64_MAX >> (PLACE_MODELS_MAX - place->n_models);
	models = place_queue_models(place, spec);
	for (uint32_t m = 0; !models && m < place->n_models; m++)
		if (!spec->models || (spec->models >> m & 1))
			return place_queue_allows(place, spec, m, err);
	if (models != known)
		spec->models = models;
	spec->queue = 0;
	return models ? 0 : fail(err, ENOSPC, "no node has a device of a requested model");
}

int place_queue_allows(
	const struct place *place, const struct place_spec *spec, uint32_t model, struct error *err)
{
	struct place_verdict verdict;

	if (!spec->queue || !spec->count || is_within_limits(place, spec, model, &verdict))
		return 0;
	return fail(err, ENOSPC, "%s", verdict.why);
}

int place_queue_allows_share(
	const struct place *place, const struct place_tenant *t, uint32_t share, struct error *err)
{
	const struct place_queues *queues = place->queues;
	char a[TEXT], b[TEXT], c[TEXT];

	if (!t->spec.queue || share <= t->spec.share)
		return 0;
	for (uint32_t at = t->spec.queue - 1; at != PLACE_NONE; at = queues->queue[at].parent) {
		const struct queue *q = &queues->queue[at];
		uint64_t more[ALL + 1] = {0};

		for (uint32_t i = 0; i < t->n; i++) {
			more[ALL] += share - t->spec.share;
			more[place->devices[t->device[i]].model] += share - t->spec.share;
		}
		for (uint32_t m = 0; m <= ALL; m++)
			if (more[m] &&
				(more[m] > q->limit[m] || q->limit[m] - more[m] < q->used[m]))
				return fail(err, ENOSPC,
					"queue %s has %s of the %s devices%s that it may have, %s "
					"more asked",
					q->name, place_queue_format_devices(q->used[m], a),
					place_queue_format_devices(q->limit[m], b),
					place_queue_bound_text(place, m).text,
					place_queue_format_devices(more[m], c));
	}
	return 0;
}

int place_queue_allows_outside(
	const struct place *place, uint32_t queue, uint64_t permille, struct error *err)
{
	const struct place_queues *queues = place->queues;
	char a[TEXT], b[TEXT], c[TEXT];

	if (!queue || queue > place_queue_n(place))
		return 0;
	for (uint32_t at = queue - 1; at != PLACE_NONE; at = queues->queue[at].parent) {
		const struct queue *q = &queues->queue[at];

		if (queue_is_full(q, queue_nothing, ALL, permille))
			return fail(err, ENOSPC,
				"queue %s has %s of the %s devices that it may have, %s asked",
				q->name, place_queue_format_devices(q->used[ALL], a),
				place_queue_format_devices(q->limit[ALL], b),
				place_queue_format_devices(permille, c));
	}
	return 0;
}

static bool is_within_quota(const struct queue *q, uint32_t m, uint64_t asked)
{
	return q->quota[m] == PLACE_UNLIMITED || q->used[m] + asked <= q->quota[m];
}

/* Returns whether queue `at` is the tenant's queue or one of its ancestors. */
static bool is_on_way(const struct place_queues *queues, const struct place_spec *spec, uint32_t at)
{
	uint32_t up = spec->queue - 1;

	while (up != PLACE_NONE && up != at)
		up = queues->queue[up].parent;
	return up == at;
}

/*
 * Returns whether a queue below `above` uses devices of model `bound` (ALL: of any model) that the
 * tenant's queue can reclaim.
 */
static bool place_queue_is_borrowed_below(
	const struct place *place, const struct place_spec *spec, uint32_t above, uint32_t bound)
{
	const struct place_queues *queues = place->queues;
	const struct queue *queue = queues->queue;
	const uint32_t first = bound == ALL ? 0 : bound;
	const uint32_t end = bound == ALL ? place->n_models : bound + 1;

	for (uint32_t i = 0; i < queues->n; i++)
		for (uint32_t m = first; m < end && !queue[i].n_children; m++) {
			uint32_t at = i;

			if (!queue[i].used[m] || is_on_way(queues, spec, i))
				continue;
			while (at != PLACE_NONE && !is_on_way(queues, spec, at) &&
				queue_beyond(&queue[at], queue_nothing, m) > 0)
				at = queue[at].parent;
			if (at == PLACE_NONE || !is_on_way(queues, spec, at))
				continue;
			while (at != PLACE_NONE && at != above)
				at = queue[at].parent;
			if (at == above)
				return true;
		}
	return false;
}

/* Returns whether each exceeded limit can be met by reclaiming borrowed devices. */
static bool place_queue_is_borrowed(
	const struct place *place, const struct place_spec *spec, uint32_t model)
{
	const struct queue *queue = place->queues->queue;
	const uint64_t asked = queue_requested(place, spec);
	const uint32_t bounds[] = {ALL, model};

	for (uint32_t at = spec->queue - 1; at != PLACE_NONE; at = queue[at].parent)
		for (int i = 0; i < 2; i++)
			if (queue_is_full(&queue[at], queue_nothing, bounds[i], asked) &&
				!place_queue_is_borrowed_below(place, spec, at, bounds[i]))
				return false;
	return true;
}

/* Returns whether nodes have open devices of another model too. */
static bool is_one_of_several(const struct place *place, uint32_t model)
{
	for (uint32_t m = 0; m < place->n_models; m++)
		if (m != model && place->capacity[m])
			return true;
	return false;
}

/* `idle` can be negative while members of a gang count as if they were placed. */
static uint64_t idle_of(const struct place *place, uint32_t model)
{
	return (uint64_t)MAX(place->idle[model], 0);
}

/*
 * A request beyond the quota for model `quota` (ALL: for all models), which would use idle share of
 * other queues. `idle` is the idle share of `model` (ALL: of all models).
 */
struct loan {
	uint32_t quota, model;
	uint64_t idle;
};

/* "1 of its guaranteed 2 devices of model A", or "3 devices of model A, 1 of them borrowed". */
static const char *place_queue_standing_text(
	const struct queue *q, uint32_t at, const char *of_model, char ret[static STANDING])
{
	char used[TEXT], other[TEXT];

	if (q->used[at] > q->quota[at])
		snprintf(ret, STANDING, "%s devices%s, %s of them borrowed",
			place_queue_format_devices(q->used[at], used), of_model,
			place_queue_format_devices(q->used[at] - q->quota[at], other));
	else
		snprintf(ret, STANDING, "%s of its guaranteed %s devices%s",
			place_queue_format_devices(q->used[at], used),
			place_queue_format_devices(q->quota[at], other), of_model);
	return ret;
}

static void admit_loan(const struct place *place, const struct place_spec *spec,
	const struct loan *loan, struct place_verdict *ret)
{
	const struct queue *q = &place->queues->queue[spec->queue - 1];
	const struct bound_text quota = place_queue_bound_text(place, loan->quota);
	const struct bound_text model = place_queue_bound_text(place, loan->model);
	char has[STANDING], c[TEXT];

	if (loan->idle >= queue_requested(place, spec))
		SAY(ret, PLACE_ADMIT_BORROW, "queue %s has %s and borrows: %s%s are idle", q->name,
			place_queue_standing_text(q, loan->quota, quota.text, has),
			place_queue_format_devices(loan->idle, c), model.text);
	else
		SAY(ret, PLACE_ADMIT_WAIT, "queue %s has %s, and %s%s are idle to borrow", q->name,
			place_queue_standing_text(q, loan->quota, quota.text, has),
			place_queue_format_devices(loan->idle, c), model.text);
}

static void admit_model(const struct place *place, const struct place_spec *spec, uint32_t model,
	struct place_verdict *ret)
{
	const struct queue *q = &place->queues->queue[spec->queue - 1];
	const uint64_t asked = queue_requested(place, spec);
	const uint32_t m = is_within_quota(q, ALL, asked) ? model : ALL;
	const bool has_right = m == model && is_within_quota(q, model, asked);
	/*
	 * The idle share is that of `model`, so the text names the model, unless the text already
	 * names the model for its quota.
	 */
	const struct loan loan = {.quota = m,
		.model = m == ALL && is_one_of_several(place, model) ? model : ALL,
		.idle = idle_of(place, model)};
	char a[TEXT], b[TEXT], c[TEXT];

	if (!is_within_limits(place, spec, model, ret) &&
		(!has_right || ret->admission == PLACE_ADMIT_NEVER ||
			!place_queue_is_borrowed(place, spec, model)))
		return;
	if (has_right)
		SAY(ret, PLACE_ADMIT_NOW, "queue %s has %s of its guaranteed %s devices, %s asked",
			q->name, place_queue_format_devices(q->used[ALL], a),
			place_queue_format_devices(q->quota[ALL], b),
			place_queue_format_devices(asked, c));
	else
		admit_loan(place, spec, &loan, ret);
}

static bool place_queue_is_requested(
	const struct place *place, const struct place_spec *spec, uint32_t model)
{
	return (!spec->models || (spec->models >> model & 1)) && place->capacity[model];
}

/*
 * Judges a request for several devices if no single model has enough idle share. A node can have
 * devices of several models, so their idle shares are added. Models excluded by a limit do not
 * count.
 */
static void admit_mixed(
	const struct place *place, const struct place_spec *spec, struct place_verdict *ret)
{
	struct loan loan = {.quota = ALL, .model = ALL};
	struct place_verdict ignored;
	uint64_t models = 0;

	for (uint32_t m = 0; m < place->n_models; m++)
		if (place_queue_is_requested(place, spec, m) &&
			is_within_limits(place, spec, m, &ignored)) {
			models |= 1ull << m;
			loan.idle += idle_of(place, m);
		}
	if (!(models & (models - 1)))
		return;
	admit_loan(place, spec, &loan, ret);
	ret->models = models;
}

int place_queue_admit(const struct place *place, const struct place_spec *spec,
	struct place_verdict *ret, struct error *err)
{
	struct place_verdict best, one;
	int r = place_spec_check(spec, err);

	if (r == 0)
		r = place_spec_known(place, spec, err);
	if (r < 0)
		return r;
	if (!spec->queue)
		return fail(err, EINVAL, "queue 0: the tenant belongs to no queue");
	best.models = 0;
	SAY(&best, PLACE_ADMIT_WAIT, "no node has a device of a requested model");
	if (!spec->count)
		SAY(&best, PLACE_ADMIT_NOW, "no device is requested");
	for (uint32_t m = 0, n = 0; m < place->n_models && spec->count; m++) {
		if (!place_queue_is_requested(place, spec, m))
			continue;
		admit_model(place, spec, m, &one);
		one.models = 1ull << m;
		if (n++ == 0 || one.admission < best.admission)
			best = one;
		else if (one.admission == best.admission)
			best.models |= one.models;
	}
	if (best.admission == PLACE_ADMIT_WAIT && spec->count > 1)
		admit_mixed(place, spec, &best);
	*ret = best;
	return 0;
}

/* ---- order of queues ---- */

bool place_queue_is_before(const struct place *place, uint32_t a, uint32_t b)
{
	const struct queue *one = &place->queues->queue[a - 1];
	const struct queue *other = &place->queues->queue[b - 1];
	const int64_t left = queue_beyond(one, queue_nothing, ALL) * (int64_t)other->weight;
	const int64_t right = queue_beyond(other, queue_nothing, ALL) * (int64_t)one->weight;

	return left != right ? left < right : a < b;
}
