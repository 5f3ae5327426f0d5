/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy decides which place is better. A policy is one table in one file; place-policies.c lists
 * all policies. The search (place-search.h, place-bounds.h) calls these functions:
 *
 * bound    an upper bound of the score on a node, for any tenant of the class, whatever its CPU,
 *          memory and labels. The bound is kept until the node changes or the policy asks for new
 *          ones. The search asks for each class that the node has devices for.
 * bounds   the bounds of several classes in one call, or guesses, which cost less to compute
 * score    the score of one tenant on a node with the allowed devices, and the devices to take
 * grade    the score rounded to a grade: a higher score never has a lower grade. Of equal grades
 *          the first node wins.
 *
 * All functions depend on the state alone. Scores are integers, and of libm only sqrt() is used,
 * which IEEE 754 rounds exactly. So all machines make the same decisions. Threads: as place.h.
 */
#ifndef PLACE_PLACE_POLICY_H
#define PLACE_PLACE_POLICY_H

#include "place/place-locality.h"
#include "place/place.h"

#define PLACE_NEVER INT32_MIN /* a score or bound: the policy never places the tenant there */
#define PLACE_GRADE_MAX 254   /* greatest bound of a policy with bounds_grades */

/* Most shares that a class may span. A class has one share or a range of consecutive shares. */
#define PLACE_CLASS_SHARES 50u

/* The part of a spec that a bound may use. */
struct place_class {
	uint64_t models;            /* 0: any */
	uint32_t share, share_most; /* range of the share of each device, both ends included */
	uint32_t count;
	bool is_idle;  /* the class needs devices without tenants */
	uint32_t kind; /* from the policy's `kind`, or 0 */
};

/* The tenants of a device, as now or without some of them. */
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
	int (*start)(struct place *place); /* start and stop may be NULL; -ENOMEM */
	void (*stop)(struct place *place);
	/*
	 * The tenant's kind: a number that must differ for tenants whose bounds differ although
	 * their shares and models are equal. Each kind adds columns of bounds, so return few
	 * different numbers. NULL: every tenant has kind 0.
	 */
	uint32_t (*kind)(const struct place *place, const struct place_spec *spec);
	/*
	 * `bound` accepts classes with a range of shares. false: each share is a class of its own.
	 */
	bool spans_shares;
	/* Bounds depend on the node only, so one class may span PLACE_CLASS_SHARES shares. */
	bool is_by_node;
	/*
	 * Whether a tenant may share a device with these tenants, in addition to the rules of
	 * place-fit.c. If a tenant may, it must also be allowed with fewer cotenants. NULL: always.
	 */
	bool (*allows)(const struct place_spec *spec, const struct place_cotenants *cotenants);
	/*
	 * Called before the first decision and after each change of the workload mix. After this
	 * call, the search asks for all bounds again. NULL: not needed. -ENOMEM.
	 */
	int (*learn)(struct place *place);
	int32_t (*bound)(struct place *place, const struct place_class *class, uint32_t node);
	/*
	 * The bounds of the node for n classes, for all of which the node has devices. is_guess:
	 * values may be larger than the bound, never smaller; the search uses them for a changed
	 * node until it reaches that node and asks for the bound. NULL: the search calls `bound`
	 * for each class.
	 */
	void (*bounds)(struct place *place, uint32_t node, const struct place_class *const *class,
		uint32_t n, bool is_guess, int32_t *ret_bounds);
	bool has_guesses;
	/*
	 * Bounds are grades from 0 to PLACE_GRADE_MAX, or PLACE_NEVER, so that a byte holds each
	 * bound. `grade` must not depend on the spec, and such a policy has no `locality`, because
	 * a bonus cannot be added to a grade.
	 */
	bool bounds_grades;
	/*
	 * Fills choice->device[] with devices of `mask`, and returns the score. Bit i of `mask` is
	 * the node's i-th device; at least spec->count bits are set.
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
 * Writes the open shares of the node's devices (is_idle: only of devices without tenants), greatest
 * first. Returns their number.
 */
uint32_t place_open_shares(const struct place *place, uint32_t node, bool is_idle,
	uint16_t ret_shares[static PLACE_NODE_DEVICES_MAX]);

/* The node's devices for the class, judged by shares and models. Bit i: the i-th device. */
uint64_t place_open_devices(
	const struct place *place, const struct place_class *class, uint32_t node);

/* Take the devices of the mask with the least, or the most, free share; among equals the first. */
void place_take_least(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);
void place_take_most(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);
/* As place_take_near() for whole devices, else as place_take_least(). */
void place_take_fitting(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);
/* Takes devices that are near each other by the tree of cells: the sum of distances is small. */
void place_take_near(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);

/*
 * Takes the devices of the mask with the greatest values; among equals the first. value[i] is for
 * the node's i-th device. The caller has set choice->node and choice->n. false: the mask has fewer
 * than choice->n devices.
 */
bool place_take_best(const struct place *place, const int64_t *value, uint64_t mask,
	struct place_choice *choice, int64_t *ret_sum);

/* The nearest possible score to a 64-bit value, never PLACE_NEVER. */
int32_t place_score_of(int64_t value);
/* Sum of the `count` greatest values, or of all values if n < count. Reorders `values`. */
int64_t place_sum_of_greatest(int64_t *values, uint32_t n, uint32_t count);

/*
 * `bound` and `score` of a policy that judges each device alone by its `judge`. They take the
 * devices with the greatest values; the score is the sum of these values.
 */
int32_t place_judged_bound(struct place *place, const struct place_class *class, uint32_t node);
int32_t place_judged_score(struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice);

#endif
