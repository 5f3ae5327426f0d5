/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How one place is better than another: a policy is one table entry in one file (place-policies.c
 * lists them). The search (place-search.h, place-bounds.h) asks it for
 *
 *   bound   an upper bound of the score on that node for any tenant of the class, whatever CPU,
 *           memory and labels it has; it is kept until the node changes or the policy says so, and
 *           asked for all classes one after the other, if the node has devices for them at all;
 *   bounds  of all classes in one call, and guesses, which cost less, where a bound takes long;
 *   score   of one tenant on that node with the devices that it may have, and which to take;
 *   grade   what counts of a score for that tenant: never falls where the score rises. Of equal
 *           grades the first node is taken.
 *
 * All are functions of the state alone: integers, no libm, so that every machine decides alike.
 * Threads: as place.h.
 */
#ifndef PLACE_PLACE_POLICY_H
#define PLACE_PLACE_POLICY_H

#include "place/place-draw.h"
#include "place/place.h"

#define PLACE_NEVER INT32_MIN /* it does not go there */
#define PLACE_GRADE_MAX 254   /* of a policy whose bounds are grades */

/* A class is of one share, or of up to that many that follow each other. */
#define PLACE_CLASS_SHARES 50u

/* What of a spec a bound may look at. */
struct place_class {
	uint64_t models;            /* 0: any */
	uint32_t share, share_most; /* of each device: any from the one to the other */
	uint32_t count;
	bool is_idle;  /* only devices that nobody is on */
	uint32_t kind; /* what the policy tells tenants apart by, or 0 */
};

/* Who is on a device, or would be once some have left. */
struct place_company {
	uint32_t n_tenants, share_free;
	uint32_t n_of[SPEC_OPPORTUNISTIC + 1]; /* by class */
};

/*
 * Which devices of the mask one of the class would take, and what each is worth, up to
 * PLACE_VALUE_MAX either way.
 */
#define PLACE_VALUE_MAX (INT32_MAX / (int32_t)SPEC_DEVICES_MAX)
typedef uint64_t place_judge_fn(const struct place *place, const struct place_class *class,
	uint32_t node, uint64_t mask, int64_t *ret_value);

struct place_policy {
	const char *name;                  /* as --policy takes it */
	const char *about;                 /* one line */
	int (*start)(struct place *place); /* may be NULL, as stop; -ENOMEM */
	void (*stop)(struct place *place);
	/*
	 * What else of a spec decides its bounds: one of a few numbers, each has bounds of its own.
	 * NULL: nothing.
	 */
	uint32_t (*kind)(const struct place *place, const struct place_spec *spec);
	/* Its bounds hold for classes of several shares; else each share is a class. */
	bool spans_shares;
	/* They are the node's, the same for all classes; those span many more shares then. */
	bool is_by_node;
	/*
	 * Whether it may join them: rules beside those of place-fit.c, for all who ask who fits
	 * where. Who leaves never makes it stricter. NULL: anybody may.
	 */
	bool (*allows)(const struct place_spec *spec, const struct place_company *company);
	/*
	 * What is typical has changed, or the first decision is to be made; NULL where that does
	 * not matter. All bounds are asked for anew after it. -ENOMEM.
	 */
	int (*learn)(struct place *place);
	int32_t (*bound)(struct place *place, const struct place_class *class, uint32_t node);
	/*
	 * The bounds of that node for n classes, all of which it has devices for, in one call: less
	 * work than one after the other. is_guess: they may be looser, never less; they stand for
	 * a node that has changed until its turn comes, for policies that have guesses. NULL: the
	 * bound is asked for each.
	 */
	void (*bounds)(struct place *place, uint32_t node, const struct place_class *const *class,
		uint32_t n, bool is_guess, int32_t *ret_bounds);
	bool has_guesses;
	/*
	 * Its bounds are grades of scores, which are the same for all tenants, from 0 to
	 * PLACE_GRADE_MAX: a byte holds one. It has no draws.
	 */
	bool bounds_grades;
	/*
	 * mask: bit i is the node's i-th device; at least spec->count of them are set. Fills in
	 * device[] of the choice.
	 */
	int32_t (*score)(struct place *place, const struct place_spec *spec, uint32_t node,
		uint64_t mask, struct place_choice *choice);
	/* What draws tenants to others: a part of scores, not of bounds. NULL: nothing. */
	const struct place_draws *(*draws)(const struct place *place);
	int32_t (*grade)(const struct place *place, const struct place_spec *spec, int32_t score);
	/* A node likely to be asked about soon: its lines may be fetched. NULL: nothing. */
	void (*expect)(const struct place *place, uint32_t node);
	/* For place_judged_bound and place_judged_score, which call it; else NULL. */
	place_judge_fn *judge;
};

extern const struct place_policy place_first_fit, place_best_fit, place_worst_fit,
	place_dot_product, place_fgd, place_scarcity, place_kubeshare, place_kubeshare_code,
	place_kubeshare2, place_kubeshare2_guarantee, place_kubeshare2_opportunistic,
	place_gpushare, place_gaiagpu, place_wang;

/* Not among those that are offered: what they are compared with. */
extern const struct place_policy place_random, place_in_turn, place_by_memory;

/* All there are, in the order in which they are shown; NULL at the end. */
extern const struct place_policy *const place_policies[];
const struct place_policy *place_policy_find(const char *name); /* or NULL */

/* ---- for policies ---- */

struct place_class place_class_of(const struct place *place, const struct place_spec *spec);

/* Whether the node has the devices for the class, as far as shares tell. */
bool place_has_devices(const struct place *place, const struct place_class *class, uint32_t node);

/* The open shares of its devices, or of those that nobody is on, greatest first; how many. */
uint32_t place_open_shares(const struct place *place, uint32_t node, bool is_idle,
	uint16_t ret_shares[static PLACE_NODE_DEVICES_MAX]);

/* Those that such a node has, as far as shares tell: bit i is its i-th device. */
uint64_t place_open_devices(
	const struct place *place, const struct place_class *class, uint32_t node);

/* Those of the mask with the least (or the most) free, the first of equal ones. */
void place_take_least(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);
void place_take_most(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);
/* Near ones of whole devices, of others those with the least free. */
void place_take_fitting(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);
/* Those whose pairs are nearest to each other by the tree of cells, the first of equal ones. */
void place_take_near(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);

/*
 * Those of the mask with the most value, the first of equal ones; value[i] is of the node's i-th
 * device. node and n of the choice are set already. Returns whether there are n.
 */
bool place_take_best(const struct place *place, const int64_t *value, uint64_t mask,
	struct place_choice *choice, int64_t *ret_sum);

/* What a score may be of what is only reckoned wider: the nearest, and never PLACE_NEVER. */
int32_t place_score_of(int64_t value);
/* The sum of the greatest `count` of them, or of all if they are fewer; their order is lost. */
int64_t place_sum_of_greatest(int64_t *values, uint32_t n, uint32_t count);

/*
 * The bound and the score of a policy that judges each device by itself: its `judge` says what they
 * are worth, the best are taken, and the node's score is their sum.
 */
int32_t place_judged_bound(struct place *place, const struct place_class *class, uint32_t node);
int32_t place_judged_score(struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);

#endif
