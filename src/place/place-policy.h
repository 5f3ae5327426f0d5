/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy decides which place is better. A policy is one table in one file; place-policies.c lists
 * all policies. The search (place-search.h, place-bounds.h) calls these functions:
 *
 * bound    an upper bound of the score on that node, for any tenant of the class, whatever its
 *          CPU, memory and labels. The bound is kept until the node changes or the policy asks
 *          for new ones. The search asks for all classes in turn that the node has devices for.
 * bounds   the bounds of all classes in one call, or guesses, which cost less than bounds
 * score    the score of one tenant on that node with the allowed devices, and which to take
 * grade    the precision that counts: a higher score never has a lower grade. Of equal grades the
 *          first node wins.
 *
 * All functions depend on the state alone. Scores are integers, and of libm only sqrt() is used,
 * which IEEE 754 rounds exactly. So all machines make the same decisions. Threads: as place.h.
 */
#ifndef PLACE_PLACE_POLICY_H
#define PLACE_PLACE_POLICY_H

#include "place/place-locality.h"
#include "place/place.h"

#define PLACE_NEVER INT32_MIN /* the policy refuses the place */
#define PLACE_GRADE_MAX 254   /* of a policy with bounds_grades */

/* Most shares of a class, which has one share or consecutive shares. */
#define PLACE_CLASS_SHARES 50u

/* The part of a spec that a bound may use. */
struct place_class {
	uint64_t models;            /* 0: any */
	uint32_t share, share_most; /* of each device; the range is inclusive */
	uint32_t count;
	bool is_idle;  /* only devices without tenants */
	uint32_t kind; /* the policy's own distinction of tenants, or 0 */
};

/* The tenants of a device, now or after some were removed. */
struct place_cotenants {
	uint32_t n_tenants, share_free;
	uint32_t n_of[SPEC_OPPORTUNISTIC + 1]; /* by class */
};

/*
 * Returns the devices of the mask that a tenant of the class would take. Sets the value of each,
 * between -PLACE_VALUE_MAX and PLACE_VALUE_MAX.
 */
#define PLACE_VALUE_MAX (INT32_MAX / (int32_t)SPEC_DEVICES_MAX)
typedef uint64_t place_judge_fn(const struct place *place, const struct place_class *class,
	uint32_t node, uint64_t mask, int64_t *ret_value);

struct place_policy {
	const char *name;                  /* as given to --policy */
	const char *about;                 /* one line of text */
	int (*start)(struct place *place); /* NULL is possible, also for stop; -ENOMEM */
	void (*stop)(struct place *place);
	/*
	 * Tenants of different kind have different bounds. Few kinds are possible. NULL: one kind.
	 */
	uint32_t (*kind)(const struct place *place, const struct place_spec *spec);
	/* Bounds hold for classes of several shares; else each share is a class. */
	bool spans_shares;
	/* Bounds depend on the node only. Classes then span more shares. */
	bool is_by_node;
	/*
	 * Whether a tenant may share a device with these tenants, in addition to place-fit.c. The
	 * answer never becomes stricter when tenants are removed. NULL: any tenant may.
	 */
	bool (*allows)(const struct place_spec *spec, const struct place_cotenants *cotenants);
	/*
	 * Called before the first decision and after each change of the workload mix. The search
	 * then asks for all bounds anew. NULL: not needed. -ENOMEM.
	 */
	int (*learn)(struct place *place);
	int32_t (*bound)(struct place *place, const struct place_class *class, uint32_t node);
	/*
	 * The bounds of the node for n classes, all of which it has devices for. is_guess: the
	 * values may be looser, never smaller. A guess replaces the bound of a changed node until a
	 * decision reaches the node. NULL: `bound` is called for each class.
	 */
	void (*bounds)(struct place *place, uint32_t node, const struct place_class *const *class,
		uint32_t n, bool is_guess, int32_t *ret_bounds);
	bool has_guesses;
	/*
	 * Bounds are grades, the same for all tenants, from 0 to PLACE_GRADE_MAX, so that a byte
	 * holds one. Such a policy has no `draws`.
	 */
	bool bounds_grades;
	/*
	 * Bit i of `mask` is the node's i-th device; at least spec->count bits are set. Fills
	 * choice->device[].
	 */
	int32_t (*score)(struct place *place, const struct place_spec *spec, uint32_t node,
		uint64_t mask, struct place_choice *choice);
	/* The locality bonuses: part of scores, not of bounds. NULL: none. */
	const struct place_locality_bonus *(*locality)(const struct place *place);
	int32_t (*grade)(const struct place *place, const struct place_spec *spec, int32_t score);
	/* A hint that the node's score is needed soon, for prefetching. NULL: ignored. */
	void (*expect)(const struct place *place, uint32_t node);
	/* For place_judged_bound() and place_judged_score(); else NULL. */
	place_judge_fn *judge;
};

extern const struct place_policy place_first_fit, place_best_fit, place_worst_fit,
	place_dot_product, place_fgd, place_scarcity, place_kubeshare, place_kubeshare_code,
	place_kubeshare2, place_kubeshare2_guarantee, place_kubeshare2_opportunistic,
	place_gpushare, place_gaiagpu, place_wang;

/* Policies for comparison, which place_policies[] does not offer. */
extern const struct place_policy place_random, place_in_turn, place_by_memory;

/* All policies in the order of display, then NULL. */
extern const struct place_policy *const place_policies[];
const struct place_policy *place_policy_find(const char *name); /* or NULL */

/* ---- for policies ---- */

struct place_class place_class_of(const struct place *place, const struct place_spec *spec);

/* Whether the node has the devices for the class, judged by shares and models only. */
bool place_has_devices(const struct place *place, const struct place_class *class, uint32_t node);

/*
 * Writes the open shares of the node's devices, or of those without tenants, greatest first.
 * Returns how many.
 */
uint32_t place_open_shares(const struct place *place, uint32_t node, bool is_idle,
	uint16_t ret_shares[static PLACE_NODE_DEVICES_MAX]);

/* The node's devices for the class, judged by shares and models. Bit i: the i-th device. */
uint64_t place_open_devices(
	const struct place *place, const struct place_class *class, uint32_t node);

/* Take the devices of the mask with the least, or the most, free share; the first of equals. */
void place_take_least(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);
void place_take_most(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);
/* As place_take_near() for whole devices, else as place_take_least(). */
void place_take_fitting(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);
/*
 * Takes the devices with the smallest sum of distances by the tree of cells; the first of equals.
 */
void place_take_near(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);

/*
 * Takes the devices of the mask with the greatest value, the first of equals. value[i] is for the
 * node's i-th device. The caller has set choice->node and choice->n. false: fewer than n devices.
 */
bool place_take_best(const struct place *place, const int64_t *value, uint64_t mask,
	struct place_choice *choice, int64_t *ret_sum);

/* The nearest possible score to a 64-bit value, never PLACE_NEVER. */
int32_t place_score_of(int64_t value);
/* Sum of the `count` greatest values, or of all if they are fewer. Reorders `values`. */
int64_t place_sum_of_greatest(int64_t *values, uint32_t n, uint32_t count);

/*
 * Bound and score of a policy that judges each device alone. The best devices by `judge` are taken,
 * and the score is the sum of their values.
 */
int32_t place_judged_bound(struct place *place, const struct place_class *class, uint32_t node);
int32_t place_judged_score(struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);

#endif
