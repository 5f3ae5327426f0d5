/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default policy: preserves the capacity that typical tenants can still use, and gives scarce
 * capacity the largest weight.
 *
 * For typical tenant m, which makes up the part p_m of all requests, and node n with free shares r
 * of its devices:
 *
 *   U_n(m) = devices that copies of m could use on n at once, within its devices, CPU and memory;
 *   G_n(m) = sum of the r not smaller than m's share, of no more devices than CPU and memory allow
 *            copies for: the node's free capacity without fragments;
 *   W(r)   = the likely final waste of r: the minimum, over all ways to fill r with typical shares,
 *            of the rest and of a price for each share in it; rare shares have a high price;
 *   V_n    = sum over m of lambda_m (3 G_n(m) + 2 U_n(m)) - 25 sum over r of W(r),
 *   lambda_m ~ E_m p_m^1.5 / (S_m + 20 devices)^4, sum of lambda_m = 1, S_m = sum over n of U_n(m),
 *   E_m    = the part of all requests from tenants that can use only models of m. Without E_m
 *            nearly all weight would go to rare models, however few tenants request them.
 *
 * The models of m are the models that m requests and whose devices have enough memory for m. So
 * large devices stay free for tenants that need them. A model may have devices of several memory
 * sizes. For a tenant with a byte request, each GiB of a device beyond the model's smallest size
 * therefore costs 2.5 of V_n. That is as much as the waste of a tenth of a permille, and decides
 * only between similar places.
 *
 * If E_m is more than 1.15 times the part of all free shares that is on the models of m, some
 * tenants will lack these models. Then each permille of such a device that a tenant gets costs 6.25
 * of V_n, a quarter of a wasted permille. A tenant that can use only these models pays the same on
 * every node, so the cost only makes other tenants choose other models.
 *
 * The formulas above assume that devices run out before CPU. If typical tenants request more CPU
 * for each device than the nodes have, CPU runs out first. S_m is then small for tenants with large
 * CPU requests, which soon fit nowhere. Weights by S_m would spare nodes for these tenants and use
 * up the CPU of other nodes, whose devices then become unusable. So in this case other formulas
 * apply:
 *
 *   G_n(m) = sum of the r not smaller than m's share if n has devices, CPU and memory for one copy,
 *            else 0: what remains without fragments, nearly as in FGD (place-fgd.c);
 *   V_n    = sum over m of (3 mu_m G_n(m) + 3 lambda_m U_n(m)) - 25 sum over r of W(r),
 *   mu_m   = half of E_m p_m^1.5 / (D_m + 20 devices)^4, D_m = S_m with unlimited CPU, and
 *            half of E_m p_m / (R_m + 20 devices)^2, R_m = all free shares of m's models.
 *
 * If tenants with several devices make up most of the requests, the fourth power of S_m gives
 * nearly all weight to a rare model, even if few tenants request that model and will never use all
 * of its devices. To spare the model, tenants that fit on small nodes would get large ones. In this
 * case weights follow demand divided by supply:
 *
 *   lambda_m ~ E_m p_m / (S_m + 20 devices),  mu_m ~ E_m p_m / (D_m + 20 devices).
 *
 * The mix has no tenants of a kind that has not arrived yet, and omits rare kinds. So for each kind
 * of node, the largest shape k that fits there (place-shapes.h) counts in addition:
 *
 *   V_n   += 5 sum over k of lambda_k U_n(k),
 *   lambda_k = 0.4 L (c_k / 8)^2 (200 / (S_k + 200 devices))^6 (free / all),
 *   L = sum of lambda_m over those m with S_m > 0,
 *
 * Here c_k is the shape's number of devices, and all lambda_k together are at most 0.5 L. A typical
 * tenant that fits on no node has a lambda_m but changes no V_n. If CPU or memory runs out, such
 * tenants soon have nearly all of lambda. Because of the factor L, shapes do not outweigh the
 * tenants that still fit somewhere. So nodes stay empty while tenants fit elsewhere, most of all if
 * few nodes are left for a shape. The effect shrinks as the cluster fills, because fewer tenants
 * are still to come. With the V_n for short CPU, the factor is 3 instead of 5.
 *
 * The policy chooses the place where V_n falls least, after the locality bonus is added
 * (place-locality.h). When the mix is learnt again, all weights are computed anew, so they follow
 * the scarcity. The numbers were tuned on a few arrival orders of the OpenB traces, and evaluated
 * on others (bench/openb.c).
 *
 * The table `fits` has a row for each free share r, with the number of copies of each m that fit in
 * r. A node's sums stay valid until the node changes. So each possible device costs one pass over
 * m, which the compiler vectorizes. The m are sorted by share, and the pass ends at the last m with
 * a share up to r: tenants with larger shares could not use the device anyway.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "place/place-internal.h"
#include "place/workload-mix.h"
#include "place/place-policy.h"
#include "place/place-shapes.h"
#include "place/place-size.h"

#define WHOLE SPEC_SHARE_ONE
#define LAMBDAS (1 << 30)          /* sum of all lambda */
#define FRAGMENT_WEIGHTS (1 << 28) /* sum of all mu before the factor FRAGMENT_PART */
#define FRAGMENT_PART 3
/* CPU is short above this: requested CPU per device, in percent of the nodes' CPU per device */
#define SHORT_PERCENT 110
/* by_demand if tenants with several devices request more than this, in percent of all share */
#define SEVERAL_PERCENT 60
#define COPY_BITS 13 /* low bits that `worth` omits, so that it fits in 32 bits */
#define SPARE_MILLI 20000.0
/* weight of a shape of SHAPE_DEVICES devices that no node can hold now, as a part of L */
#define SHAPE_PART 0.4
#define SHAPE_DEVICES 8
#define SHAPE_SPARE_MILLI 200000.0
/* largest weight of all shapes together, as a part of L, so that a score fits in 32 bits */
#define SHAPES_PART_MAX 0.5
#define SCORE_BITS 15 /* low bits of V_n that are not part of a score */
#define USABLE_PART 3
#define USED_PART 2
#define WASTE_PART 25
#define LACK_PARTS 4 /* WASTE_PART / LACK_PARTS: cost of a permille that other tenants will lack */
/* a model is `lacked` if requests for only this model exceed this percentage of its supply */
#define LACK_PERCENT 115
/* WASTE_PART / GIB_PARTS: cost of each GiB beyond the model's smallest device */
#define GIB_PARTS 10
#define WASTE_ONE 64 /* set_waste() counts a wasted permille as this many units */
/* price of a share that every tenant requests, in percent of the cost of a wasted permille */
#define PRICE_PERCENT 60
#define STEP 200u
#define STEPS (WHOLE / STEP)
#define UNKNOWN INT64_MAX
#define LANES 8u
#define TYPICAL_MAX 128u
#define CACHE_LINE 64u

/* One number for each m: a typical tenant or a shape. */
typedef int32_t row[TYPICAL_MAX];

/*
 * A small struct: a decision reads the sums of a few out of many nodes, which are rarely in a
 * cache.
 */
struct sums {
	uint64_t version; /* the node's version when summed up, + 1; 0: not summed up */
	uint64_t model;   /* bit of the first device's model; 0: no device */
	/*
	 * n entries each. slots: how many shares of m fit on the devices. host: how many copies of
	 * m CPU and memory allow.
	 */
	uint16_t *slots, *host;
	/* n entries. usable[m]: sum of the free shares r that are not smaller than m's share */
	int32_t *usable;
	/* rest[i]: the part of the node's value that the m from LANES * i on contribute */
	int64_t rest[TYPICAL_MAX / LANES + 1];
};
_Static_assert(PLACE_NODE_DEVICES_MAX <= UINT16_MAX / WHOLE, "slots");

/*
 * Values of one node, kept while the bounds of all classes are computed one after another. A guess
 * takes the node's value for the remaining share rounded up to a multiple of STEP. The value grows
 * with the remaining share, so a guess is an upper bound.
 */
struct seen {
	const struct sums *sums;
	uint64_t version; /* the node's version, + 1; 0: no node's values are kept */
	bool is_guess;
	uint32_t n; /* number of distinct free shares */
	struct {
		uint32_t r, n;
		/*
		 * The node's value for guesses; the index is the remaining share / STEP, rounded
		 * up. UNKNOWN: not computed yet.
		 */
		int64_t with[STEPS + 1];
	} open[PLACE_NODE_DEVICES_MAX]; /* largest first */
};

struct scarcity {
	/*
	 * Number of m: typical tenants with devices, shapes, and entries of weight 0 up to a
	 * multiple of LANES.
	 */
	uint32_t n;
	/* n counts typical tenants first, then shapes, as `at` does */
	uint32_t n_typical, n_shapes;
	uint32_t per_cpu[TYPICAL_MAX]; /* 2^32 / requested CPU, rounded up; 0: no CPU requested */
	/* 2^32 / mean MiB of node memory that m requests, rounded up; 0: no memory requested */
	uint32_t per_mib[TYPICAL_MAX];
	row able[PLACE_MODELS_MAX]; /* by model: all bits set if m can use the model, else 0 */
	row share, lambda, take;    /* take: share x count */
	row per_count;              /* 65536 / count, rounded up */
	row most; /* WHOLE x count: free share that one copy counts as usable in G_n(m) */
	uint64_t models[TYPICAL_MAX]; /* models that m can use, as bits; 0: any */
	uint64_t lacked;              /* models that some tenants will lack */
	/* CPU is short: V_n uses mu and worth instead of lambda and most */
	bool by_fragments;
	/*
	 * most requests are for several devices: weights by demand; by_fragments is then true too
	 */
	bool by_demand;
	struct place_sizes sizes;
	row mu; /* mu_m times its factor in V_n */
	/* lambda_m times its factor in V_n, for one copy of m; without the low COPY_BITS */
	row worth;
	/* index m of the mix's i-th tenant, then of the shapes; the indices are sorted by share */
	uint32_t at[TYPICAL_MAX];
	/* by share: number of m with at most this share, rounded up to LANES */
	uint32_t n_up_to[WHOLE + 1];
	int64_t waste[WHOLE + 1]; /* contribution of W(r) to V_n */
	int16_t *fits;            /* [r][m]: copies in a free share of r, 0 <= r <= WHOLE */
	struct sums *node;
	uint32_t n_nodes;
	void *room;       /* memory of the arrays in `node` */
	size_t room_size; /* of one node */
	struct seen seen;
};

static int scarcity_start(struct place *place)
{
	place->policy_state = calloc(1, sizeof(struct scarcity));
	return place->policy_state ? 0 : -ENOMEM;
}

static void scarcity_stop(struct place *place)
{
	struct scarcity *s = place->policy_state;

	if (!s)
		return;
	free(s->fits);
	free(s->node);
	free(s->room);
	free(s);
}

/* ---- one pass over the typical tenants ---- */

static inline int32_t copies_of(const struct scarcity *s, uint32_t m, int32_t slots, int32_t host)
{
	const int32_t k = (int32_t)((uint32_t)(slots * s->per_count[m]) >> 16);

	return k < host ? k : host;
}

/*
 * Returns the node's V_n, without waste, after the free share of `devices` devices changed from r
 * to `left`. For tenants with a share above r nothing changes: `rest` has their sum.
 */
PLACE_VECTORS static int64_t value_with(
	const struct scarcity *s, const struct sums *n, uint32_t r, uint32_t left, int32_t devices)
{
	const uint16_t *host = n->host;
	const int16_t *old = &s->fits[MIN(r, WHOLE) * s->n],
		      *new = &s->fits[MIN(left, WHOLE) * s->n];
	const int32_t lost = devices * (int32_t)r, kept = devices * (int32_t)left;
	const uint32_t n_typical = s->n_up_to[MIN(r, WHOLE)];
	int64_t v = n->rest[n_typical / LANES], copies = 0;

	if (s->by_fragments) {
		for (uint32_t m = 0; m < n_typical; m++) {
			int32_t slots = n->slots[m] - devices * (old[m] - new[m]);
			int32_t usable = n->usable[m] - (old[m] ? lost : 0) + (new[m] ? kept : 0);
			int32_t k = copies_of(s, m, slots, host[m]);

			v += (int64_t)s->mu[m] * (k ? usable : 0);
			copies += (int64_t)s->worth[m] * k;
		}
		return v + copies * (1 << COPY_BITS);
	}
	for (uint32_t m = 0; m < n_typical; m++) {
		int32_t slots = n->slots[m] - devices * (old[m] - new[m]);
		int32_t usable = n->usable[m] - (old[m] ? lost : 0) + (new[m] ? kept : 0);
		int32_t k = copies_of(s, m, slots, host[m]);

		usable = usable < host[m] * s->most[m] ? usable : host[m] * s->most[m];
		usable = USABLE_PART * usable + USED_PART * k * s->take[m];
		v += (int64_t)s->lambda[m] * (k ? usable : 0);
	}
	return v;
}

/* Sets rest[i] to the node's present value summed over the m from LANES * i on. */
PLACE_VECTORS static void sum_rest(const struct scarcity *s, struct sums *n)
{
	const uint32_t n_typical = s->n;
	int64_t v[TYPICAL_MAX];

	for (uint32_t m = 0; m < n_typical && s->by_fragments; m++) {
		const int32_t k = copies_of(s, m, n->slots[m], n->host[m]);

		v[m] = (int64_t)s->mu[m] * (k ? n->usable[m] : 0) +
			(int64_t)s->worth[m] * k * (1 << COPY_BITS);
	}
	for (uint32_t m = 0; m < n_typical && !s->by_fragments; m++) {
		const int32_t host = n->host[m], k = copies_of(s, m, n->slots[m], host);
		int32_t usable = n->usable[m] < host * s->most[m] ? n->usable[m]
								  : host * s->most[m];

		usable = USABLE_PART * usable + USED_PART * k * s->take[m];
		v[m] = (int64_t)s->lambda[m] * (k ? usable : 0);
	}
	n->rest[n_typical / LANES] = 0;
	for (uint32_t i = n_typical / LANES; i-- > 0;) {
		n->rest[i] = n->rest[i + 1];
		for (uint32_t m = 0; m < LANES; m++)
			/* cppcheck-suppress uninitvar ; n is a multiple of LANES */
			n->rest[i] += v[i * LANES + m];
	}
}

PLACE_VECTORS static void scarcity_add_device(
	const struct scarcity *s, uint32_t r, int32_t sign, uint16_t *slots, int32_t *usable)
{
	const int16_t *fits = &s->fits[MIN(r, WHOLE) * s->n];
	const int32_t ri = sign * (int32_t)r;
	const uint32_t n_typical = s->n;

	for (uint32_t m = 0; m < n_typical; m++) {
		slots[m] = (uint16_t)(slots[m] + sign * fits[m]);
		usable[m] += fits[m] ? ri : 0;
	}
}

/*
 * For each m, the number of copies that CPU and memory allow; 0 if m cannot use the node's model.
 */
PLACE_VECTORS static void host_slots(const struct place *place, const struct scarcity *s,
	uint32_t node, uint32_t cpu, uint64_t memory, uint16_t *restrict ret)
{
	const struct node *n = &place->nodes[node];
	/* A node with several models counts as a node of its first device's model. */
	const int32_t *able = s->able[n->n_devices ? place->devices[n->first_device].model : 0];
	const uint32_t n_typical = s->n, mib = (uint32_t)MIN(memory >> 20, UINT32_MAX);

	for (uint32_t m = 0; m < n_typical; m++) {
		uint64_t k = (uint64_t)cpu * s->per_cpu[m] >> 32,
			 l = (uint64_t)mib * s->per_mib[m] >> 32;

		k = k < INT16_MAX && s->per_cpu[m] ? k : INT16_MAX;
		k = l < k && s->per_mib[m] ? l : k;
		ret[m] = (uint16_t)((int32_t)k & able[m]);
	}
}

static void scarcity_expect(const struct place *place, uint32_t node)
{
	const struct scarcity *s = place->policy_state;
	const struct sums *sums = &s->node[node];
	const char *room = (const char *)s->room + node * s->room_size;

	__builtin_prefetch(sums);
	__builtin_prefetch((const char *)sums + CACHE_LINE);
	for (size_t at = 0; at < s->room_size; at += CACHE_LINE)
		__builtin_prefetch(room + at);
}

static const struct sums *node_sums(const struct place *place, uint32_t node)
{
	const struct scarcity *s = place->policy_state;
	const struct node *n = &place->nodes[node];
	struct sums *sums = &s->node[node];

	if (sums->version == place->versions[node] + 1ull)
		return sums;
	memset(sums->slots, 0, s->n * sizeof(*sums->slots));
	memset(sums->usable, 0, s->n * sizeof(*sums->usable));
	for (uint32_t i = n->first_device; i < n->first_device + n->n_devices; i++)
		scarcity_add_device(s, place->share_open[i], 1, sums->slots, sums->usable);
	host_slots(place, s, node, place->cpu_free[node], place->memory_free[node], sums->host);
	sum_rest(s, sums);
	sums->model = n->n_devices ? 1ull << place->devices[n->first_device].model : 0;
	sums->version = place->versions[node] + 1ull;
	return sums;
}

/* ---- learning ---- */

static uint32_t scarcity_reciprocal(uint32_t asked)
{
	return asked < 2 ? asked * UINT32_MAX : (uint32_t)(((1ull << 32) + asked - 1) / asked);
}

static void set_one(struct scarcity *s, uint32_t m, const struct mix_entry *t)
{
	for (uint32_t model = 0; model < PLACE_MODELS_MAX; model++)
		s->able[model][m] = !t->models || (t->models >> model & 1) ? -1 : 0;
	s->models[m] = t->models;
	s->per_cpu[m] = scarcity_reciprocal(t->cpu_milli);
	s->per_mib[m] = scarcity_reciprocal((uint32_t)MIN(t->mib / MAX(t->n, 1u), UINT32_MAX));
	s->share[m] = (int32_t)t->share;
	s->take[m] = (int32_t)(t->share * t->count);
	s->per_count[m] = (int32_t)((65536 + t->count - 1) / t->count);
	s->most[m] = (int32_t)(WHOLE * t->count);
	s->lambda[m] = t->weight;
}

/*
 * Sets W(r) for ascending r: the minimum of r, and of each typical share's price plus W of the
 * rest.
 */
static void set_waste(struct scarcity *s, const struct workload_mix *mix)
{
	const int32_t weights = s->by_fragments ? FRAGMENT_WEIGHTS : LAMBDAS;
	uint64_t n[WHOLE + 1] = {0}, all = 0;
	int64_t price[WHOLE + 1];

	for (uint32_t i = 0; i < mix->n; i++)
		if (mix->entry[i].count) {
			n[mix->entry[i].share] += mix->entry[i].n;
			all += mix->entry[i].n;
		}
	for (uint32_t q = 1; q <= WHOLE; q++)
		price[q] = n[q] ? (int64_t)(all * WASTE_ONE * PRICE_PERCENT / 100 / n[q]) : -1;
	s->waste[0] = 0;
	for (uint32_t r = 1; r <= WHOLE; r++) {
		s->waste[r] = (int64_t)r * WASTE_ONE;
		for (uint32_t q = 1; q <= r; q++)
			if (price[q] >= 0)
				s->waste[r] = MIN(s->waste[r], price[q] + s->waste[r - q]);
	}
	for (uint32_t r = 0; r <= WHOLE; r++)
		s->waste[r] *= (int64_t)WASTE_PART * (weights / WASTE_ONE);
}

static void scarcity_set_entries(const struct place *place, struct scarcity *s)
{
	static const struct mix_entry none = {.share = WHOLE, .count = 1};
	const struct workload_mix *mix = place->mix;
	const struct mix_entry *with[TYPICAL_MAX] = {NULL};
	struct mix_entry shapes[PLACE_SHAPES_MAX];

	s->n = 0;
	for (uint32_t i = 0; i < mix->n && s->n < TYPICAL_MAX - PLACE_SHAPES_MAX; i++)
		if (mix->entry[i].count)
			with[s->n++] = &mix->entry[i];
	s->n_typical = s->n;
	s->n_shapes = place_shapes_of(place, shapes);
	for (uint32_t i = 0; i < s->n_shapes; i++)
		with[s->n++] = &shapes[i];
	while (s->n % LANES)
		with[s->n++] = &none;
	memset(s->n_up_to, 0, sizeof(s->n_up_to));
	for (uint32_t i = 0; i < s->n; i++)
		s->n_up_to[with[i]->share]++;
	for (uint32_t r = 1; r <= WHOLE; r++)
		s->n_up_to[r] += s->n_up_to[r - 1];
	for (uint32_t i = s->n; i-- > 0;) {
		s->at[i] = --s->n_up_to[with[i]->share];
		set_one(s, s->at[i], with[i]);
	}
	for (uint32_t r = 0; r < WHOLE; r++)
		s->n_up_to[r] = (s->n_up_to[r + 1] + LANES - 1) / LANES * LANES;
	s->n_up_to[WHOLE] = s->n;
}

static int set_tables(struct place *place, struct scarcity *s)
{
	/* Each array of a node begins with a cache line of its own. */
	const size_t unit = CACHE_LINE / sizeof(uint16_t), n = (s->n + unit - 1) / unit * unit,
		     size = n * (2 * sizeof(uint16_t) + sizeof(int32_t));
	char *room;

	free(s->fits);
	free(s->node);
	s->fits = calloc((size_t)(WHOLE + 1) * MAX(s->n, 1u), sizeof(*s->fits));
	s->node = calloc(place->nodes_size, sizeof(*s->node));
	/*
	 * Memory of sufficient size is reused: a new block of this size at each learning would
	 * fragment the heap.
	 */
	if (!s->room || s->n_nodes * s->room_size < place->nodes_size * size) {
		free(s->room);
		s->room = aligned_alloc(CACHE_LINE, MAX(place->nodes_size * size, CACHE_LINE));
	}
	s->n_nodes = place->nodes_size;
	s->room_size = size;
	if (!s->fits || !s->node || !s->room)
		return -ENOMEM;
	for (uint32_t r = 0; r <= WHOLE; r++)
		for (uint32_t m = 0; m < s->n; m++)
			s->fits[r * s->n + m] = (int16_t)(r / (uint32_t)s->share[m]);
	room = s->room;
	for (uint32_t node = 0; node < s->n_nodes; node++, room += size)
		s->node[node] = (struct sums){.slots = (uint16_t *)room,
			.host = (uint16_t *)room + n,
			.usable = (int32_t *)((uint16_t *)room + 2 * n)};
	return 0;
}

/*
 * The supply that all nodes have for each m. set_weights() also keeps the weights in such a struct.
 */
struct supply {
	double used[TYPICAL_MAX];  /* S_m */
	double slots[TYPICAL_MAX]; /* D_m */
	double open[TYPICAL_MAX];  /* R_m */
	double all_open, all;
};

static void add_supply(const struct place *place, const struct scarcity *s, struct supply *supply)
{
	for (uint32_t node = 0; node < place->n_nodes; node++) {
		const struct node *n = &place->nodes[node];
		const struct sums *sums;
		const int32_t *able;
		double open = 0;

		if (!n->is_used || !n->n_devices)
			continue;
		sums = node_sums(place, node);
		able = s->able[place->devices[n->first_device].model];
		for (uint32_t i = n->first_device; i < n->first_device + n->n_devices; i++)
			open += place->share_open[i];
		supply->all_open += open;
		supply->all += (double)n->n_devices * WHOLE;
		for (uint32_t m = 0; m < s->n; m++) {
			int32_t k = (int32_t)((uint32_t)(sums->slots[m] * s->per_count[m]) >> 16);

			supply->used[m] += MIN(k, sums->host[m]) * s->take[m];
			supply->slots[m] += (k & able[m]) * s->take[m];
			supply->open[m] += able[m] ? open : 0;
		}
	}
}

static double scarcity_square(double x)
{
	return x * x;
}

/* E_m. The doubles hold integers, so the sums do not depend on the order. */
static double scarcity_requested_within(const struct scarcity *s, uint32_t m)
{
	double within = 0, all = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		const double asked = (double)s->lambda[i] * s->take[i];
		const bool is_within = s->models[i] && !(s->models[i] & ~s->models[m]);

		all += asked;
		within += is_within || !s->models[m] ? asked : 0;
	}
	return all > 0 ? within / all : 0;
}

/* Call before the weights are set: until then lambda[m] holds how frequent m is in the mix. */
static void set_lacked(struct scarcity *s, const struct supply *supply)
{
	s->lacked = 0;
	for (uint32_t m = 0; m < s->n; m++)
		if (s->models[m] &&
			scarcity_requested_within(s, m) * supply->all_open * 100 >
				supply->open[m] * LACK_PERCENT)
			s->lacked |= s->models[m];
}

/*
 * Computes the weights before they are scaled to their sums: see the top of the file. `more` is E_m
 * p_m^1.5.
 */
static void scarcity_weigh_model(
	const struct scarcity *s, const struct supply *supply, uint32_t m, struct supply *ret)
{
	const double p = s->lambda[m], within = scarcity_requested_within(s, m), asked = within * p,
		     more = asked * sqrt(p);

	if (s->by_demand) {
		ret->used[m] = asked / (supply->used[m] + SPARE_MILLI);
		ret->slots[m] = ret->open[m] = asked / (supply->slots[m] + SPARE_MILLI);
	} else {
		ret->used[m] = more /
			scarcity_square(scarcity_square(supply->used[m] + SPARE_MILLI));
		ret->slots[m] = more /
			scarcity_square(scarcity_square(supply->slots[m] + SPARE_MILLI));
		ret->open[m] = asked / scarcity_square(supply->open[m] + SPARE_MILLI);
	}
}

static double shape_weight(const struct scarcity *s, const struct supply *supply, uint32_t m)
{
	const double size = (double)s->take[m] / (SHAPE_DEVICES * WHOLE),
		     scarce = scarcity_square(
			     SHAPE_SPARE_MILLI / (supply->used[m] + SHAPE_SPARE_MILLI));

	return SHAPE_PART * scarcity_square(size) * scarce * scarce * scarce;
}

/* Sets the weights of shapes, lambda_k. counted: the L of the formulas at the top of the file. */
static void set_shape_weights(struct scarcity *s, const struct supply *supply, double counted)
{
	const double free = MIN(supply->all_open, supply->all) / MAX(supply->all, 1.0);
	double sum = 0, most;

	for (uint32_t i = s->n_typical; i < s->n_typical + s->n_shapes; i++)
		sum += shape_weight(s, supply, s->at[i]) * free;
	most = sum > SHAPES_PART_MAX ? SHAPES_PART_MAX / sum : 1;
	for (uint32_t i = s->n_typical; i < s->n_typical + s->n_shapes; i++) {
		const uint32_t m = s->at[i];
		const double lambda = shape_weight(s, supply, m) * free * most * counted;

		s->lambda[m] = (int32_t)(lambda * LAMBDAS);
		s->worth[m] = (int32_t)(lambda * s->take[m] * (FRAGMENT_WEIGHTS >> COPY_BITS) *
			FRAGMENT_PART);
	}
}

static void set_weights(struct scarcity *s, const struct supply *supply)
{
	struct supply weight = {0};
	double all_used = 0, all_slots = 0, all_open = 0, counted = 0;

	/* Adds in the mix's order: rounding must not depend on the order of the m. */
	for (uint32_t i = 0; i < s->n_typical; i++) {
		const uint32_t m = s->at[i];

		scarcity_weigh_model(s, supply, m, &weight);
		all_used += weight.used[m];
		all_slots += weight.slots[m];
		all_open += weight.open[m];
		counted += supply->used[m] > 0 ? weight.used[m] : 0;
	}
	for (uint32_t m = 0; m < s->n; m++) {
		const double lambda = all_used > 0 ? weight.used[m] / all_used : 0;
		const double mu = all_used > 0
			? (weight.slots[m] / all_slots + weight.open[m] / all_open) / 2
			: 0;

		s->lambda[m] = (int32_t)(lambda * LAMBDAS);
		s->mu[m] = (int32_t)(mu * FRAGMENT_WEIGHTS * FRAGMENT_PART);
		s->worth[m] = (int32_t)(lambda * s->take[m] * (FRAGMENT_WEIGHTS >> COPY_BITS) *
			FRAGMENT_PART);
	}
	set_shape_weights(s, supply, all_used > 0 ? counted / all_used : 1);
}

/* Returns whether typical tenants use up the nodes' CPU well before their devices. */
static bool is_cpu_short(const struct place *place)
{
	const struct workload_mix *mix = place->mix;
	uint64_t cpu = 0, open = 0;
	double asked_cpu = 0, asked = 0;

	for (uint32_t i = 0; i < mix->n; i++) {
		const struct mix_entry *t = &mix->entry[i];

		asked_cpu += (double)t->n * t->cpu_milli;
		asked += (double)t->n * t->share * t->count;
	}
	for (uint32_t node = 0; node < place->n_nodes; node++)
		if (place->nodes[node].is_used) {
			cpu += place->nodes[node].cpu_all;
			open += (uint64_t)place->nodes[node].n_devices * WHOLE;
		}
	return asked_cpu * (double)open * 100 > asked * (double)cpu * SHORT_PERCENT;
}

/* Returns whether tenants with several devices make up most of the requests. */
static bool ask_several(const struct workload_mix *mix)
{
	double asked = 0, several = 0;

	for (uint32_t i = 0; i < mix->n; i++) {
		const struct mix_entry *t = &mix->entry[i];
		const double devices = (double)t->n * t->share * t->count;

		asked += devices;
		several += t->count > 1 ? devices : 0;
	}
	return several * 100 > asked * SEVERAL_PERCENT;
}

static int scarcity_learn(struct place *place)
{
	struct scarcity *s = place->policy_state;
	struct supply supply = {0};
	int r;

	scarcity_set_entries(place, s);
	s->by_demand = ask_several(place->mix);
	s->by_fragments = s->by_demand || is_cpu_short(place);
	place_sizes_of(place, &s->sizes);
	set_waste(s, place->mix);
	r = set_tables(place, s);
	if (r < 0)
		return r;
	add_supply(place, s, &supply);
	set_lacked(s, &supply);
	set_weights(s, &supply);
	/* add_supply() summed these nodes with the old weights. Their counts are still valid. */
	for (uint32_t node = 0; node < s->n_nodes; node++)
		if (s->node[node].version)
			sum_rest(s, &s->node[node]);
	s->seen.version = 0;
	return 0;
}

/* ---- decisions ---- */

/* Contribution to V_n of one wasted permille. */
static int64_t waste_of_one(const struct scarcity *s)
{
	return (int64_t)WASTE_PART * (s->by_fragments ? FRAGMENT_WEIGHTS : LAMBDAS);
}

static int64_t waste_of(const struct scarcity *s, uint32_t r, uint32_t left)
{
	return s->waste[MIN(r, WHOLE)] - s->waste[MIN(left, WHOLE)];
}

static int32_t score_of(int64_t lost)
{
	return place_score_of(lost >> SCORE_BITS);
}

/*
 * Cost of taking `share` on each of `count` devices of the node, if some tenants will lack the
 * node's model; else 0.
 */
static int64_t lack_of(
	const struct scarcity *s, const struct sums *n, uint32_t share, uint32_t count)
{
	const int64_t one = waste_of_one(s) / LACK_PARTS;

	return s->lacked & n->model ? one * share * count : 0;
}

/* Tenants with byte requests are a kind of their own if cost_of_size() can matter for them. */
static uint32_t scarcity_kind(const struct place *place, const struct place_spec *spec)
{
	const struct scarcity *s = place->policy_state;

	return s->sizes.are_several && spec->device_bytes;
}

/* beyond: sum of place_size_beyond() of the chosen devices */
static int64_t cost_of_size(const struct scarcity *s, uint64_t beyond)
{
	const int64_t one = waste_of_one(s) / GIB_PARTS;

	return one * (int64_t)(beyond >> 30);
}

/* The node's V_n after each chosen device has lost `share`. */
static int64_t value_without(const struct place *place, const struct sums *n, uint32_t share,
	const struct place_choice *choice)
{
	const struct scarcity *s = place->policy_state;
	const uint32_t r0 = choice->n ? place->share_open[choice->device[0]] : 0;
	uint16_t slots[TYPICAL_MAX];
	row usable;
	struct sums after = {.slots = slots, .usable = usable, .host = n->host};
	int64_t saved = 0;
	bool is_same = true;

	for (uint32_t k = 0; k < choice->n; k++) {
		uint32_t r = place->share_open[choice->device[k]];

		is_same &= r == r0;
		saved += waste_of(s, r, r > share ? r - share : 0);
	}
	if (is_same)
		return saved +
			value_with(s, n, r0, r0 > share ? r0 - share : 0, (int32_t)choice->n);
	memcpy(slots, n->slots, s->n * sizeof(*slots));
	memcpy(usable, n->usable, s->n * sizeof(*usable));
	for (uint32_t k = 0; k < choice->n; k++) {
		uint32_t r = place->share_open[choice->device[k]];

		scarcity_add_device(s, r, -1, slots, usable);
		scarcity_add_device(s, r > share ? r - share : 0, 1, slots, usable);
	}
	sum_rest(s, &after);
	return saved + after.rest[0];
}

static struct seen *scarcity_look_at_node(const struct place *place, uint32_t node)
{
	struct scarcity *s = place->policy_state;
	const struct sums *sums = node_sums(place, node);
	struct seen *seen = &s->seen;
	uint16_t shares[PLACE_NODE_DEVICES_MAX];
	uint32_t n;

	if (seen->sums == sums && seen->version == sums->version)
		return seen;
	seen->sums = sums;
	seen->version = sums->version;
	seen->n = 0;
	n = place_open_shares(place, node, false, shares);
	for (uint32_t i = 0; i < n && shares[i]; i++) {
		if (!i || shares[i] != shares[i - 1]) {
			seen->open[seen->n].r = shares[i];
			seen->open[seen->n].n = 0;
			for (uint32_t k = 0; k <= STEPS; k++)
				seen->open[seen->n].with[k] = UNKNOWN;
			seen->n++;
		}
		seen->open[seen->n - 1].n++;
	}
	return seen;
}

/*
 * The node's value after `devices` devices changed from open[i].r to `left`. A guess changes only
 * one device, which never gives a smaller value.
 */
static int64_t worth_with(
	const struct scarcity *s, struct seen *seen, uint32_t i, uint32_t left, uint32_t devices)
{
	const uint32_t r = seen->open[i].r, step = MIN((left + STEP - 1) / STEP, STEPS);
	int64_t *with = &seen->open[i].with[step];

	if (!seen->is_guess)
		return value_with(s, seen->sums, r, left, (int32_t)devices);
	if (r > WHOLE)
		return seen->sums->rest[0];
	if (*with == UNKNOWN)
		*with = value_with(s, seen->sums, r, MIN(step * STEP, r), 1);
	return *with;
}

/*
 * The largest amount by which a share of the class reduces the waste of a device with free share r.
 */
static int64_t most_saved(const struct scarcity *s, const struct place_class *class, uint32_t r)
{
	int64_t least = INT64_MAX;

	for (uint32_t share = class->share; share <= class->share_most && share <= r; share++)
		least = MIN(least, s->waste[MIN(r - share, WHOLE)]);
	return s->waste[MIN(r, WHOLE)] - least;
}

/*
 * Bound for one device. Without waste, a placement never raises a node's value. So a device whose
 * saved waste cannot beat the best bound is skipped.
 */
static int64_t bound_of_one(
	const struct scarcity *s, struct seen *seen, const struct place_class *class, uint32_t n)
{
	int64_t best = INT64_MIN;

	/* The smallest free share leaves least over, so it is tried first. */
	while (n--) {
		const uint32_t r = seen->open[n].r;
		const int64_t saved = most_saved(s, class, r);

		if (saved + seen->sums->rest[0] > best)
			best = MAX(best, saved + worth_with(s, seen, n, r - class->share, 1));
	}
	return best;
}

/*
 * Bound for several devices: the sum of the waste that they save, plus the node's best value after
 * one device has changed. Further changed devices never raise that value. If all devices have the
 * same free share, the value after all of them have changed is computed exactly.
 */
static int64_t scarcity_bound_of_several(
	const struct scarcity *s, struct seen *seen, const struct place_class *class, uint32_t n)
{
	const uint32_t devices = n == 1 ? class->count : 1;
	int64_t best = INT64_MIN, saved[PLACE_NODE_DEVICES_MAX];
	uint32_t n_saved = 0;

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t r = seen->open[i].r;
		const int64_t one = most_saved(s, class, r);

		best = MAX(best, worth_with(s, seen, i, r - class->share, devices));
		for (uint32_t k = 0; k < seen->open[i].n; k++)
			saved[n_saved++] = one;
	}
	return best + place_sum_of_greatest(saved, n_saved, class->count);
}

static int32_t scarcity_class_bound(const struct place *place, uint32_t node, struct seen *seen,
	const struct place_class *class)
{
	const struct scarcity *s = place->policy_state;
	uint32_t n = 0;
	int64_t v;

	if (!class->count)
		return 0;
	while (n < seen->n && seen->open[n].r >= class->share)
		n++;
	v = class->count == 1 ? bound_of_one(s, seen, class, n)
			      : scarcity_bound_of_several(s, seen, class, n);
	v -= lack_of(s, seen->sums, class->share, class->count);
	if (class->kind)
		v -= cost_of_size(
			s, place_size_least_beyond(place, &s->sizes, node) * class->count);
	return score_of(v - seen->sums->rest[0]);
}

static void scarcity_bounds(struct place *place, uint32_t node,
	const struct place_class *const *class, uint32_t n, bool is_guess, int32_t *ret)
{
	struct seen *seen = scarcity_look_at_node(place, node);

	seen->is_guess = is_guess;
	for (uint32_t i = 0; i < n; i++)
		ret[i] = scarcity_class_bound(place, node, seen, class[i]);
}

static int32_t scarcity_bound(struct place *place, const struct place_class *class, uint32_t node)
{
	int32_t one;

	scarcity_bounds(place, node, &class, 1, false, &one);
	return one;
}

/* ---- locality ---- */

/*
 * Locality bonuses, as permille of a device saved from waste. A bonus outweighs a free share that a
 * later tenant can still fill, but not a device that becomes unusable.
 */
#define LOCALITY_LINK 170
#define LOCALITY_NUMA 160
#define LOCALITY_NODE 150
#define LOCALITY_CELL 40
#define LOCALITY_OPPORTUNISTIC 100
#define LOCALITY_SCORE(permille, weights) ((permille) * (WASTE_PART * ((weights) >> SCORE_BITS)))
#define LOCALITY_BONUSES(weights) \
	{ \
		.near = {LOCALITY_SCORE(LOCALITY_LINK, weights), \
			LOCALITY_SCORE(LOCALITY_NUMA, weights), \
			LOCALITY_SCORE(LOCALITY_NODE, weights), \
			LOCALITY_SCORE(LOCALITY_CELL, weights)}, \
		.opportunistic = LOCALITY_SCORE(LOCALITY_OPPORTUNISTIC, weights), \
	}

static const struct place_locality_bonus *scarcity_locality(const struct place *place)
{
	static const struct place_locality_bonus usual = LOCALITY_BONUSES(LAMBDAS),
						 fragments = LOCALITY_BONUSES(FRAGMENT_WEIGHTS);
	const struct scarcity *s = place->policy_state;

	return s->by_fragments ? &fragments : &usual;
}

/* Returns the locality bonus of the device, in units of V_n. */
static int64_t scarcity_locality_bonus(
	struct place *place, const struct place_spec *spec, uint32_t device)
{
	return (int64_t)place_locality_device(place, spec, device) * (1 << SCORE_BITS);
}

/* ---- scores ---- */

/*
 * Chooses several devices, or a whole one, without comparing all sets of the node's devices. If
 * enough devices have the largest locality bonus, only these can be chosen. Among them,
 * place_size_take() chooses for a tenant with a byte request, and place_take_fitting() for other
 * tenants.
 */
static int64_t best_of_several(struct place *place, const struct place_spec *spec,
	const struct sums *n, uint64_t mask, struct place_choice *choice)
{
	const uint32_t first = place->nodes[choice->node].first_device;
	const bool has_locality = place_has_locality(place, spec);
	int64_t most = 0;
	uint64_t near = 0;

	for (uint64_t left = mask; has_locality && left; left &= left - 1) {
		const int i = __builtin_ctzll(left);
		const int64_t locality = scarcity_locality_bonus(place, spec, first + (uint32_t)i);

		if (locality > most)
			near = 0;
		near |= locality && locality >= most ? 1ull << i : 0;
		most = MAX(most, locality);
	}
	if (near && (uint32_t)__builtin_popcountll(near) >= spec->count)
		mask = near;
	if (spec->device_bytes)
		place_size_take(place, spec, choice->node, mask, choice);
	else
		place_take_fitting(place, spec, choice->node, mask, choice);
	most = 0;
	for (uint32_t k = 0; k < choice->n && has_locality; k++)
		most = MAX(most, scarcity_locality_bonus(place, spec, choice->device[k]));
	return most + value_without(place, n, spec->share, choice);
}

static bool has_less(const struct place *place, uint32_t at, uint32_t other)
{
	return place->devices[at].memory_free < place->devices[other].memory_free;
}

/*
 * Chooses a device for a part of a device by its value. Devices with equal free share have one
 * value, which is computed once. Among equally good devices, a tenant with a byte request gets the
 * device with the least free memory.
 */
static int64_t best_of_one(struct place *place, const struct place_spec *spec, const struct sums *n,
	uint64_t mask, struct place_choice *choice)
{
	const struct scarcity *s = place->policy_state;
	const uint32_t first = place->nodes[choice->node].first_device;
	const bool has_locality = place_has_locality(place, spec), is_by_bytes = spec->device_bytes;
	uint32_t tried = UINT32_MAX;
	int64_t best = INT64_MIN, value = 0;

	for (; mask; mask &= mask - 1) {
		const uint32_t at = first + (uint32_t)__builtin_ctzll(mask);
		const uint32_t r = place->share_open[at],
			       left = r > spec->share ? r - spec->share : 0;
		int64_t v;

		if (r != tried)
			value = value_with(s, n, r, left, 1) + waste_of(s, r, left);
		else if (!has_locality && !is_by_bytes)
			continue;
		tried = r;
		v = value + (has_locality ? scarcity_locality_bonus(place, spec, at) : 0);
		if (v < best ||
			(v == best && (!is_by_bytes || !has_less(place, at, choice->device[0]))))
			continue;
		best = v;
		choice->device[0] = at;
	}
	return best;
}

static int32_t scarcity_score(struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	const struct scarcity *s = place->policy_state;
	const struct sums *now = node_sums(place, node);
	uint16_t host[TYPICAL_MAX];
	struct sums n = {.slots = now->slots, .usable = now->usable, .host = host};
	uint64_t beyond = 0;
	int64_t value;

	host_slots(place, s, node, place->cpu_free[node] - spec->cpu_milli,
		place->memory_free[node] - spec->memory_bytes, host);
	sum_rest(s, &n);
	if (spec->count != 1 || spec->share == WHOLE)
		value = best_of_several(place, spec, &n, mask, choice);
	else
		value = best_of_one(place, spec, &n, mask, choice);
	value -= lack_of(s, now, spec->share, spec->count);
	for (uint32_t k = 0; k < choice->n && spec->device_bytes; k++)
		beyond += place_size_beyond(place, &s->sizes, choice->device[k]);
	value -= cost_of_size(s, beyond);
	return score_of(value - now->rest[0]);
}

const struct place_policy place_scarcity = {
	.name = "scarcity",
	.about = "keeps what typical tenants can use, most of all what is scarce (the default)",
	.start = scarcity_start,
	.stop = scarcity_stop,
	.learn = scarcity_learn,
	.kind = scarcity_kind,
	.spans_shares = true,
	.bound = scarcity_bound,
	.bounds = scarcity_bounds,
	.has_guesses = true,
	.score = scarcity_score,
	.expect = scarcity_expect,
	.locality = scarcity_locality,
};
