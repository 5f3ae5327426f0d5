/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fragmentation gradient descent: chooses the place that adds least to the capacity that typical
 * tenants cannot use. Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing
 * Workloads with Fragmentation Gradient Descent", USENIX ATC 2023.
 *
 * For typical tenant m with weight w, and node n with free shares r of its devices and their sum R:
 *
 *   F_n(m) = R                                     if m cannot run on n or requests no device
 *          = sum of the r smaller than m's share   otherwise
 *   F_n    = sum over m of w F_n(m)
 *
 * Model and CPU of a node decide which m can run there. Each m's CPU request is a threshold, so
 * only the number of thresholds that the node's CPU reaches matters. For each model and number of
 * thresholds, tables have the weight of all m with a share above r, and of all m with more than k
 * whole devices. So F_n costs one look-up for each device.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "place/place-internal.h"
#include "place/workload-mix.h"
#include "place/place-policy.h"

#define WHOLE SPEC_SHARE_ONE
#define NEAR 1024u
#define MORE (PLACE_NODE_DEVICES_MAX + 1) /* entries by number of devices, 0 included */

/* Sums over the free shares r of a node's devices. `above` and `more` are one row of the tables. */
struct sums {
	const int32_t *above, *more;
	int64_t split; /* sum of r x above[r] */
	int64_t whole; /* sum of all r of at least WHOLE */
	int64_t rest;  /* sum of r */
	int32_t n_whole, unable;
};

/* A node's values for the bounds of all classes. A gain is an amount by which F_n falls. */
struct seen {
	struct sums sums;
	int64_t fragmented, one_less; /* one_less: gain if one device is no longer whole */
	uint32_t n;                   /* number of distinct free shares */
	struct {
		uint32_t r, n;
		int64_t split;          /* fgd_split_row() of one device with free share r */
	} open[PLACE_NODE_DEVICES_MAX]; /* largest first */
};

struct fgd {
	uint32_t n_cpus, cpus[WORKLOAD_MIX_MAX]; /* thresholds, ascending */
	uint32_t n_shares;
	/* by free share: number of typical tenants' shares that are at most this share */
	uint32_t rank[WHOLE + 1];
	/*
	 * number of entries in a row of `above`; a row is for nodes of one model whose CPU reaches
	 * the same number of thresholds
	 */
	uint32_t row;
	/* [model][cpu][rank]: weight of the tenants whose share has a rank above this one */
	int32_t *above;
	int32_t *able; /* [model][cpu]: weight of the tenants that can run */
	/* [model][cpu][k]: the part of `able` from tenants with more than k whole devices */
	int32_t *more;
	int32_t weights;
	int32_t steps[101]; /* steps[g]: the smallest difference that has grade g */
	/*
	 * near[i] is the grade of the difference steps[1] + (i << near_bits). Each grade spans more
	 * than 1 << near_bits differences, so any difference up to the next entry has this grade or
	 * the grade after it.
	 */
	int32_t near[NEAR];
	uint32_t near_bits;
};

/* ---- tables ---- */

static int fgd_start(struct place *place)
{
	place->policy_state = calloc(1, sizeof(struct fgd));
	return place->policy_state ? 0 : -ENOMEM;
}

static void fgd_stop(struct place *place)
{
	struct fgd *f = place->policy_state;

	if (!f)
		return;
	free(f->above);
	free(f->able);
	free(f->more);
	free(f);
}

static uint32_t sort_unique(uint32_t *values, uint32_t n)
{
	uint32_t kept = 0;

	qsort(values, n, sizeof(*values), place_compare_numbers);
	for (uint32_t i = 0; i < n; i++)
		if (!kept || values[i] != values[kept - 1])
			values[kept++] = values[i];
	return kept;
}

/*
 * Returns how many thresholds are at most cpu: a binary search without branches that depend on cpu.
 */
static uint32_t cpu_rank(const struct fgd *f, uint32_t cpu)
{
	const uint32_t *low = f->cpus;

	for (uint32_t n = f->n_cpus, half; n; n -= half) {
		half = (n + 1) / 2;
		low += low[half - 1] <= cpu ? half : 0;
	}
	return (uint32_t)(low - f->cpus);
}

/*
 * A grade is floor(100 sigmoid(d / 1000)), with d in permille of a device, as in the authors'
 * simulator. The table has 1,000,000 ln(g / (100 - g)), rounded up, for g from 51 to 99. The value
 * for 100 - g is the negative of the value for g.
 */
static const int32_t logits[49] = {40006, 80043, 120145, 160343, 200671, 241163, 281852, 322774,
	363966, 405466, 447313, 489549, 532217, 575365, 619040, 663295, 708186, 753772, 800120,
	847298, 895385, 944462, 994623, 1045969, 1098613, 1152680, 1208312, 1265667, 1324926,
	1386295, 1450011, 1516348, 1585628, 1658229, 1734602, 1815290, 1900959, 1992431, 2090742,
	2197225, 2313635, 2442348, 2586690, 2751536, 2944439, 3178054, 3476099, 3891821, 4595120};

static void set_steps(struct fgd *f)
{
	f->steps[0] = -INT32_MAX;
	for (int g = 1; g <= 99; g++) {
		int64_t logit = g == 50 ? 0 : g > 50 ? logits[g - 51] : -logits[49 - g] + 1;
		int64_t step = logit * f->weights;

		/* rounded up: a grade needs at least this difference */
		step = step >= 0 ? (step + 999) / 1000 : -(-step / 1000);
		f->steps[g] = place_score_of(step);
	}
	f->steps[100] = INT32_MAX;
	for (f->near_bits = 0; (f->steps[99] - f->steps[1]) >> f->near_bits >= (int32_t)NEAR;)
		f->near_bits++;
	for (uint32_t i = 0, g = 1; i < NEAR; i++) {
		while (g < 99 && f->steps[g + 1] <= f->steps[1] + (int64_t)(i << f->near_bits))
			g++;
		f->near[i] = (int32_t)g;
	}
}

/* Counts a typical tenant in the row of its own CPU threshold. */
static void fgd_count_entries(struct fgd *f, const struct mix_entry *t, uint32_t row)
{
	int32_t *above = &f->above[row * f->row];
	int32_t *more = &f->more[row * MORE];

	f->able[row] += t->weight;
	for (uint32_t r = 0; r < f->rank[t->share]; r++)
		above[r] += t->weight;
	if (t->share == WHOLE)
		for (uint32_t k = 0; k < t->count; k++)
			more[k] += t->weight;
}

/* Adds the entries of the previous row, which counts the tenants with lower CPU thresholds. */
static void add_row_before(struct fgd *f, uint32_t row)
{
	int32_t *above = &f->above[row * f->row], *less_above = above - f->row;
	int32_t *more = &f->more[row * MORE], *less_more = more - MORE;

	f->able[row] += f->able[row - 1];
	for (uint32_t r = 0; r < f->row; r++)
		above[r] += less_above[r];
	for (uint32_t k = 0; k < PLACE_NODE_DEVICES_MAX; k++)
		more[k] += less_more[k];
}

static void fgd_fill_mix(struct fgd *f, const struct workload_mix *mix, uint32_t model)
{
	const uint32_t first = model * (f->n_cpus + 1);

	for (uint32_t i = 0; i < mix->n_common; i++) {
		const struct mix_entry *t = &mix->entry[i];

		if (t->count && (!t->models || (t->models >> model & 1)))
			fgd_count_entries(f, t, first + cpu_rank(f, t->cpu_milli));
	}
	for (uint32_t cpu = 1; cpu <= f->n_cpus; cpu++)
		add_row_before(f, first + cpu);
}

static int fgd_learn(struct place *place)
{
	const struct workload_mix *mix = place->mix;
	struct fgd *f = place->policy_state;
	uint32_t shares[WORKLOAD_MIX_MAX] = {0}, n = 0;
	size_t rows;

	f->n_cpus = 0;
	for (uint32_t i = 0; i < mix->n_common; i++) {
		f->cpus[f->n_cpus++] = mix->entry[i].cpu_milli;
		if (mix->entry[i].count)
			shares[n++] = mix->entry[i].share;
	}
	f->n_cpus = sort_unique(f->cpus, f->n_cpus);
	f->n_shares = sort_unique(shares, n);
	f->row = f->n_shares + 1;
	n = 0;
	for (uint32_t r = 0; r <= WHOLE; r++) {
		while (n < f->n_shares && shares[n] <= r)
			n++;
		f->rank[r] = n;
	}
	rows = (size_t)MAX(place->n_models, 1u) * (f->n_cpus + 1);
	free(f->above);
	free(f->able);
	free(f->more);
	f->above = calloc(rows * f->row, sizeof(*f->above));
	f->able = calloc(rows, sizeof(*f->able));
	f->more = calloc(rows * MORE, sizeof(*f->more));
	if (!f->above || !f->able || !f->more)
		return -ENOMEM;
	f->weights = MAX(mix->weights, 1);
	for (uint32_t model = 0; model < place->n_models; model++)
		fgd_fill_mix(f, mix, model);
	set_steps(f);
	return 0;
}

/* ---- a node ---- */

static uint32_t fgd_find_row(
	const struct place *place, const struct fgd *f, uint32_t node, uint32_t cpu)
{
	const struct node *n = &place->nodes[node];
	uint32_t model = n->models ? (uint32_t)__builtin_ctzll(n->models) : 0;

	/* A node with several models counts as a node of its first device's model. */
	if (n->models & (n->models - 1))
		model = place->devices[n->first_device].model;
	return model * (f->n_cpus + 1) + cpu_rank(f, cpu);
}

static int64_t fgd_split_row(const struct fgd *f, const struct sums *s, uint32_t r)
{
	return (int64_t)r * s->above[f->rank[MIN(r, WHOLE)]];
}

static void fgd_sum_node(const struct place *place, const struct fgd *f, uint32_t node,
	uint32_t cpu, struct sums *ret)
{
	const struct node *n = &place->nodes[node];
	const uint32_t row = fgd_find_row(place, f, node, cpu);
	struct sums s = {.above = &f->above[row * f->row],
		.more = &f->more[row * MORE],
		.unable = f->weights - f->able[row]};

	for (uint32_t i = n->first_device; i < n->first_device + n->n_devices; i++) {
		uint32_t r = place->share_open[i];

		s.split += fgd_split_row(f, &s, r);
		s.rest += r;
		if (r >= WHOLE) {
			s.whole += r;
			s.n_whole++;
		}
	}
	*ret = s;
}

static int64_t fgd_fragmented(const struct sums *s)
{
	return s->split + s->whole * s->more[s->n_whole] + s->rest * s->unable;
}

/* Updates the sums after a device with free share r lost `share`. */
static void fgd_take_row(const struct fgd *f, struct sums *s, uint32_t r, uint32_t share)
{
	uint32_t left = r > share ? r - share : 0;

	s->split += fgd_split_row(f, s, left) - fgd_split_row(f, s, r);
	s->rest -= r - left;
	if (r < WHOLE)
		return;
	s->whole -= r;
	if (left >= WHOLE)
		s->whole += left;
	else
		s->n_whole--;
}

/*
 * A class stands for a range of shares. So a device with free share r that loses a share of the
 * class keeps between least_left() and r - class->share. The bound counts only least_left() as what
 * remains, and counts it as too small for a typical tenant only if r - class->share is too small.
 */
static uint32_t least_left(const struct place_class *class, uint32_t r)
{
	return r > class->share_most ? r - class->share_most : 0;
}

static void fgd_take_devices(
	const struct fgd *f, struct sums *s, const struct place_class *class, uint32_t r)
{
	const uint32_t least = least_left(class, r), most = r - class->share;

	s->split += (int64_t)least * s->above[f->rank[MIN(most, WHOLE)]] - fgd_split_row(f, s, r);
	s->rest -= r - least;
	if (r < WHOLE)
		return;
	s->whole -= r;
	if (least >= WHOLE)
		s->whole += least;
	else if (most < WHOLE)
		s->n_whole--;
}

static void see_open(
	const struct place *place, const struct fgd *f, uint32_t node, struct seen *seen)
{
	uint16_t shares[PLACE_NODE_DEVICES_MAX];
	const uint32_t n = place_open_shares(place, node, false, shares);

	seen->n = 0;
	for (uint32_t i = 0; i < n && shares[i]; i++) {
		if (!i || shares[i] != shares[i - 1]) {
			seen->open[seen->n].r = shares[i];
			seen->open[seen->n].n = 0;
			seen->open[seen->n++].split = fgd_split_row(f, &seen->sums, shares[i]);
		}
		seen->open[seen->n - 1].n++;
	}
}

static void fgd_look_at_node(
	const struct place *place, const struct fgd *f, uint32_t node, struct seen *seen)
{
	const struct sums *s = &seen->sums;

	fgd_sum_node(place, f, node, place->cpu_free[node], &seen->sums);
	see_open(place, f, node, seen);
	seen->fragmented = fgd_fragmented(s);
	seen->one_less = 0;
	if (s->n_whole)
		seen->one_less = s->whole * s->more[s->n_whole] -
			(s->whole - WHOLE) * s->more[s->n_whole - 1];
}

/* Returns the grade of the score, floor(100 sigmoid): `near` has this grade or the one below. */
static int32_t fgd_grade_score(const struct fgd *f, int32_t score)
{
	int32_t g;

	if (score < f->steps[1])
		return 0;
	if (score >= f->steps[99])
		return score < f->steps[100] ? 99 : 100;
	g = f->near[(uint32_t)(score - f->steps[1]) >> f->near_bits];
	return g + (f->steps[g + 1] <= score);
}

/*
 * Gain if a device with free share open[i].r loses a share of the class. The effect of one whole
 * device less is not counted.
 */
static int64_t gain_of(
	const struct fgd *f, const struct place_class *class, const struct seen *seen, uint32_t i)
{
	const uint32_t r = seen->open[i].r, least = least_left(class, r), most = r - class->share;

	return seen->open[i].split - (int64_t)least * seen->sums.above[f->rank[MIN(most, WHOLE)]] +
		(int64_t)(r - least) * seen->sums.unable;
}

static int64_t gain_of_many(
	const struct fgd *f, const struct place_class *class, const struct seen *seen)
{
	int64_t gains[PLACE_NODE_DEVICES_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < seen->n && seen->open[i].r >= class->share; i++) {
		const int64_t gain = gain_of(f, class, seen, i);

		for (uint32_t k = 0; k < seen->open[i].n; k++)
			gains[n++] = gain;
	}
	return place_sum_of_greatest(gains, n, class->count);
}

/*
 * A bound for several devices: adds the best devices' own gains and the largest possible gain from
 * fewer whole devices. Both parts need not occur together, so no choice reaches more.
 *
 * share: largest share that one device loses; used only if a device has more than WHOLE free
 * gain:  sum of the best devices' own gains
 */
static int64_t fgd_bound_of_several(
	const struct seen *seen, uint32_t count, uint32_t share, int64_t gain)
{
	const struct sums *s = &seen->sums;
	const int64_t greatest = seen->n ? seen->open[0].r : 0;
	const int64_t less = greatest > WHOLE ? share : 0;
	int64_t least = INT64_MAX;

	for (uint32_t k = 0; k <= count && (int32_t)k <= s->n_whole; k++) {
		const int64_t whole = s->whole - k * greatest - (count - k) * less;

		least = MIN(least, MAX(whole, 0) * s->more[s->n_whole - (int32_t)k]);
	}
	return gain + s->whole * s->more[s->n_whole] - least;
}

/* Gain from `count` devices with free share r each. */
static int64_t gain_of_all(
	const struct fgd *f, const struct place_class *class, const struct seen *seen, uint32_t r)
{
	struct sums after = seen->sums;

	for (uint32_t k = 0; k < class->count; k++)
		fgd_take_devices(f, &after, class, r);
	return seen->fragmented - fgd_fragmented(&after);
}

/*
 * A bound for one device, or for several devices that all have the same free share r. gain_of_all()
 * is exact but slow. For one device with r up to WHOLE, gain_of() and `one_less` give the same sum.
 */
static int64_t bound_of_alike(
	const struct fgd *f, const struct place_class *class, const struct seen *seen)
{
	int64_t best = -INT32_MAX;

	for (uint32_t i = 0; i < seen->n && seen->open[i].r >= class->share; i++) {
		const uint32_t r = seen->open[i].r;
		int64_t gain;

		if (r > WHOLE || class->share == WHOLE)
			gain = gain_of_all(f, class, seen, r);
		else
			gain = gain_of(f, class, seen, i) + (r == WHOLE ? seen->one_less : 0);
		best = MAX(best, gain);
	}
	return best;
}

static int64_t fgd_class_bound(
	const struct fgd *f, const struct place_class *class, const struct seen *seen)
{
	if (!class->count)
		return 0;
	/*
	 * If no device has more than WHOLE free, each device that fits a whole share has exactly
	 * WHOLE free.
	 */
	if (class->count == 1 || (class->share == WHOLE && seen->n && seen->open[0].r <= WHOLE))
		return bound_of_alike(f, class, seen);
	return fgd_bound_of_several(
		seen, class->count, class->share_most, gain_of_many(f, class, seen));
}

/* ---- many classes at once ---- */

#define LANES 128u
#define NO_GAIN (INT32_MIN / 2) /* the sum of two fits in 32 bits */

/*
 * The classes of one call, one array element for each class: its shares, and the largest gains of a
 * device, as from gain_of().
 */
struct lanes {
	int32_t share[LANES], share_most[LANES];
	int32_t first[LANES], second[LANES]; /* the two largest gains of single devices */
	/* the largest gain of a single device, including one_less if the device is whole */
	int32_t alone[LANES];
	/* 1: the class requests one device, so `alone` is its bound. 0: two devices. */
	int32_t is_one[LANES];
	int32_t grade[LANES];
	uint8_t others[LANES]; /* indices of the classes that see_bounds() computes one by one */
};

/*
 * Looks at one free share after another, for all classes at once. For r up to WHOLE, 32 bits hold
 * every gain.
 */
PLACE_VECTORS static void see_gains(
	const struct fgd *f, const struct seen *seen, uint32_t n, struct lanes *restrict lanes)
{
	const int32_t *restrict above = seen->sums.above, unable = seen->sums.unable;
	const uint32_t *restrict rank = f->rank;
	/* a local array, so the compiler knows that no other pointer refers to it */
	int32_t gains[LANES];

	for (uint32_t i = 0; i < n; i++) {
		lanes->first[i] = lanes->second[i] = NO_GAIN;
		lanes->alone[i] = -INT32_MAX;
	}
	for (uint32_t k = 0; k < seen->n; k++) {
		const int32_t r = (int32_t)seen->open[k].r, split = (int32_t)seen->open[k].split;
		const int32_t less = r == (int32_t)WHOLE ? (int32_t)seen->one_less : 0;
		/* mask: all bits set if several devices have this free share, else 0 */
		const int32_t again = seen->open[k].n > 1 ? -1 : 0;

		for (uint32_t i = 0; i < n; i++) {
			const int32_t most = r - lanes->share[i];
			const int32_t least = r - lanes->share_most[i];

			gains[i] = split - MAX(least, 0) * above[rank[MAX(most, 0)]] +
				(r - MAX(least, 0)) * unable;
		}
		for (uint32_t i = 0; i < n; i++) {
			const int32_t fits = lanes->share[i] <= r ? -1 : 0;
			const int32_t gain = (gains[i] & fits) | (NO_GAIN & ~fits);
			const int32_t all = ((gains[i] + less) & fits) | (-INT32_MAX & ~fits);
			const int32_t other = (gain & again) |
				(MIN(gain, lanes->first[i]) & ~again);

			lanes->second[i] = MAX(lanes->second[i], other);
			lanes->first[i] = MAX(lanes->first[i], gain);
			lanes->alone[i] = MAX(lanes->alone[i], all);
		}
	}
}

/*
 * Like fgd_grade_score(), but without branches. several: what two devices can gain in addition to
 * the sum of their single gains.
 */
PLACE_VECTORS static void see_grades(
	const struct fgd *f, int32_t several, uint32_t n, struct lanes *restrict lanes)
{
	const int32_t least = f->steps[1];

	for (uint32_t i = 0; i < n; i++) {
		const int32_t two = several + lanes->first[i] + lanes->second[i];
		const int32_t score = lanes->is_one[i] ? lanes->alone[i] : two;
		const uint32_t above = (uint32_t)(score > least ? score : least) - (uint32_t)least;
		const uint32_t at = above >> f->near_bits;
		int32_t g = f->near[at < NEAR ? at : NEAR - 1];

		g += f->steps[g + 1] <= score;
		lanes->grade[i] = score >= least ? g : 0;
	}
}

/* Handles up to LANES classes. */
static void see_bounds(const struct fgd *f, const struct seen *seen,
	const struct place_class *const *class, uint32_t n, int32_t *ret)
{
	/* `share` matters only for free shares above WHOLE, which do not occur here */
	const int64_t several = fgd_bound_of_several(seen, 2, 0, 0);
	struct lanes lanes;
	uint32_t n_others = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct place_class *one = class[i];

		lanes.share[i] = (int32_t)one->share;
		lanes.share_most[i] = (int32_t)one->share_most;
		lanes.is_one[i] = one->count == 1;
		lanes.others[n_others] = (uint8_t)i;
		n_others += one->share == WHOLE || one->count - 1 > 1;
	}
	see_gains(f, seen, n, &lanes);
	see_grades(f, (int32_t)several, n, &lanes);
	memcpy(ret, lanes.grade, n * sizeof(*ret));
	for (uint32_t i = 0; i < n_others; i++)
		ret[lanes.others[i]] = fgd_grade_score(
			f, place_score_of(fgd_class_bound(f, class[lanes.others[i]], seen)));
}

static void fgd_bounds(struct place *place, uint32_t node, const struct place_class *const *class,
	uint32_t n, bool is_guess, int32_t *ret)
{
	struct fgd *f = place->policy_state;
	struct seen seen;

	fgd_look_at_node(place, f, node, &seen);
	if (n == 1 || (seen.n && seen.open[0].r > WHOLE))
		for (uint32_t i = 0; i < n; i++)
			ret[i] = fgd_grade_score(
				f, place_score_of(fgd_class_bound(f, class[i], &seen)));
	else
		for (uint32_t i = 0; i < n; i += LANES)
			see_bounds(f, &seen, &class[i], MIN(n - i, LANES), &ret[i]);
}

static int32_t fgd_bound(struct place *place, const struct place_class *class, uint32_t node)
{
	int32_t one;

	fgd_bounds(place, node, &class, 1, false, &one);
	return one;
}

static int32_t fgd_grade(const struct place *place, const struct place_spec *spec, int32_t score)
{
	return fgd_grade_score(place->policy_state, score);
}

static int32_t fgd_score(struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	const struct fgd *f = place->policy_state;
	const uint32_t first = place->nodes[node].first_device;
	int32_t best = PLACE_NEVER, best_grade = -1;
	uint32_t tried = UINT32_MAX;
	struct sums s, rest;
	int64_t before;

	fgd_sum_node(place, f, node, place->cpu_free[node], &s);
	before = fgd_fragmented(&s);
	fgd_sum_node(place, f, node, place->cpu_free[node] - spec->cpu_milli, &rest);
	if (spec->count != 1 || spec->share == WHOLE) {
		place_take_fitting(place, spec, node, mask, choice);
		for (uint32_t k = 0; k < choice->n; k++)
			fgd_take_row(f, &rest, place->share_open[choice->device[k]], spec->share);
		return place_score_of(before - fgd_fragmented(&rest));
	}
	for (; mask; mask &= mask - 1) {
		uint32_t at = first + (uint32_t)__builtin_ctzll(mask);
		struct sums after = rest;
		int32_t score, g;

		if (place->share_open[at] == tried)
			continue;
		tried = place->share_open[at];
		fgd_take_row(f, &after, tried, spec->share);
		score = place_score_of(before - fgd_fragmented(&after));
		g = fgd_grade_score(f, score);
		if (g <= best_grade)
			continue;
		best_grade = g;
		best = score;
		choice->device[0] = at;
	}
	return best;
}

const struct place_policy place_fgd = {
	.name = "fgd",
	.about = "the place that raises least what typical tenants cannot use",
	.start = fgd_start,
	.stop = fgd_stop,
	.learn = fgd_learn,
	.spans_shares = true,
	.bound = fgd_bound,
	.bounds = fgd_bounds,
	.bounds_grades = true,
	.score = fgd_score,
	.grade = fgd_grade,
};
