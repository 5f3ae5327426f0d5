/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches devices for claims, as kube-scheduler's allocator does: claim by claim, request by
 * request, and device by device, in the order of pools, slices and positions. The first choice that
 * satisfies everything is the result. The devices of one request are tried in ascending order only,
 * since other orders give the same choice. search_step() calls itself for what remains, and undoes
 * its choice if that fails. A step's result is one of enum step.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "claims/allocate-internal.h"
#include "claims/consume.h"

static enum step search_step(struct search *search, struct position at);

enum step search_abort(struct search *search, int r)
{
	if (!search->fault)
		search->fault = r;
	return STEP_ABORT;
}

/* Counts steps. -ETIMEDOUT: the search has taken too many. */
static int search_count(struct search *search, uint32_t steps)
{
	if (search->steps > steps) {
		search->steps -= steps;
		return 0;
	}
	search->steps = 0;
	return fail(search->err, ETIMEDOUT,
		"the search for devices took too many steps: fewer requests, devices or "
		"constraints, or simpler selectors, need fewer");
}

/* ---- which devices suit a request ---- */

/* Returns 1 if all expressions select the device, else 0, or an error. */
static int selectors_match(
	struct search *search, const struct selectors *selectors, const struct device *device)
{
	struct error *err = search->err;

	for (uint32_t i = 0; i < selectors->n; i++) {
		struct cel *cel = NULL;
		bool matches;
		int r;

		if (device->cel_fault)
			return fail(err, EINVAL, "%s", device->cel_fault);
		/* An evaluation that took more steps than were left is the last one. */
		r = search_count(search, 1);
		if (r < 0)
			return r;
		r = selectors_parse(selectors, i, &cel, err);
		if (r < 0)
			return r;
		r = cel_match(cel, &device->cel, &search->steps, &matches, err);
		if (r < 0)
			return fail_within(err, r, "selector %u on device %.100s", i, device->id);
		if (!matches)
			return 0;
	}
	return 1;
}

/*
 * selectors_match() of a class. The device keeps the result, since nodes are searched again and
 * again for claims of few classes.
 */
static int class_matches(
	struct search *search, const struct device_class *class, const struct device *device)
{
	struct class_match *kept = device->matches ? &device->matches[class->number % CLASS_MATCHES]
						   : NULL;
	int r;

	if (kept && class->number && kept->number == class->number)
		return kept->matches;
	r = selectors_match(search, &class->selectors, device);
	if (r >= 0 && kept && class->number)
		*kept = (struct class_match){class->number, r > 0};
	return r;
}

/* Returns an enum suits, or an error. */
static int search_judge(
	struct search *search, const struct wanted *wanted, const struct device *device)
{
	int r;

	if (wanted->class->refusal.code) {
		*search->err = wanted->class->refusal;
		return fail_within(search->err, -wanted->class->refusal.code, "class %.64s",
			wanted->class->name);
	}
	r = class_matches(search, wanted->class, device);
	if (r < 0)
		return fail_within(search->err, r, "class %.64s", wanted->class->name);
	if (!r)
		return SUITS_NOT_CLASS;
	r = selectors_match(search, &wanted->request->selectors, device);
	if (r < 0)
		return fail_within(search->err, r, "request %.64s", wanted->request->full_name);
	if (!r)
		return SUITS_NOT_SELECTORS;
	if (device->slice->is_per_device &&
		!node_choice_has(&device->nodes, search->node->name, search->node->labels))
		return SUITS_NOT_NODE;
	return SUITS_YES;
}

int search_suits(struct search *search, struct wanted *wanted, uint32_t candidate)
{
	const struct device *device = search->candidates[candidate].device;
	int r;

	if (wanted->suits[candidate] == SUITS_UNKNOWN) {
		r = search_judge(search, wanted, device);
		if (r < 0)
			return r;
		wanted->suits[candidate] = (uint8_t)r;
	}
	return wanted->suits[candidate] == SUITS_YES;
}

/* ---- capacity ---- */

__int128 device_use_sum(const struct device_use *use, const char *name)
{
	for (const struct amount_sum *sum = use ? use->sums : NULL; sum; sum = sum->next)
		if (!strcmp(sum->name, name))
			return sum->nano;
	return 0;
}

int search_has_capacity(struct search *search, const struct wanted *wanted,
	const struct candidate *candidate, bool is_empty)
{
	const struct device *device = candidate->device;
	int r = consume_check(&wanted->request->capacities, device, search->amounts, search->err);

	for (uint32_t i = 0; r > 0 && i < device->n_capacities; i++) {
		__int128 sum = search->amounts[i].nano;

		if (!is_empty)
			sum += device_use_sum(candidate->use, device->capacities[i].name) +
				candidate->consumed[i];
		if (sum > device->capacities[i].value.nano)
			return 0;
	}
	return r;
}

/* ---- counters ---- */

struct pool_counter *search_counter(struct pool *pool, const struct counter *of)
{
	for (uint32_t i = 0; i < pool->n_counters; i++)
		if (!strcmp(pool->counters[i].of->name, of->name) &&
			!strcmp(pool->counters[i].of->set, of->set))
			return &pool->counters[i];
	return NULL;
}

void search_consume(struct candidate *candidate, int sign)
{
	const struct device *device = candidate->device;

	for (uint32_t i = 0; i < device->n_counters; i++) {
		struct pool_counter *counter = search_counter(
			candidate->pool, &device->counters[i]);

		if (counter)
			counter->taken += sign * device->counters[i].amount.nano;
	}
}

bool search_take_counters(struct search *search, struct candidate *candidate)
{
	struct pool *pool = candidate->pool;

	pool_count(search->claims, pool);
	search_consume(candidate, 1);
	for (uint32_t i = 0; i < pool->n_counters; i++)
		if (pool->counters[i].left < pool->counters[i].taken) {
			search_consume(candidate, -1);
			return false;
		}
	return true;
}

/* ---- constraints ---- */

static bool constraint_concerns(const struct constraint *of, const struct wanted_request *request,
	const struct wanted *wanted, const struct claim_request *parent)
{
	return !of->requests.n || texts_has(&of->requests, parent->name) ||
		(request->is_list && texts_has(&of->requests, wanted->request->full_name));
}

static bool attribute_is_same(const struct attribute *a, const struct attribute *b)
{
	return a->kind == b->kind && a->number == b->number && str_eq(a->text, b->text);
}

/* Returns 1 and remembers the device's value, 0 if the constraint does not allow the device. */
static int tracker_add(struct tracker *tracker, const struct device *device)
{
	const struct attribute *attribute = device_attribute(device, tracker->of->attribute);

	if (!attribute)
		return 0;
	if (tracker->n && (attribute->kind == ATTRIBUTE_NONE || attribute->kind == ATTRIBUTE_LIST))
		return 0;
	if (!tracker->of->is_distinct && tracker->n &&
		!attribute_is_same(tracker->seen[0], attribute))
		return 0;
	for (uint32_t i = 0; tracker->of->is_distinct && i < tracker->n; i++)
		if (attribute_is_same(tracker->seen[i], attribute))
			return 0;
	tracker->seen[tracker->n++] = attribute;
	return 1;
}

static void search_untrack(struct wanted_claim *claim, struct position at, uint32_t n)
{
	const struct wanted_request *request = &claim->requests[at.request];

	for (uint32_t i = 0; i < n; i++)
		if (constraint_concerns(claim->trackers[i].of, request,
			    &request->choices[at.choice], &claim->claim->requests[at.request]))
			claim->trackers[i].n--;
}

static bool search_track(
	struct wanted_claim *claim, struct position at, const struct device *device)
{
	const struct wanted_request *request = &claim->requests[at.request];

	for (uint32_t i = 0; i < claim->claim->n_constraints; i++)
		if (constraint_concerns(claim->trackers[i].of, request,
			    &request->choices[at.choice], &claim->claim->requests[at.request]) &&
			!tracker_add(&claim->trackers[i], device)) {
			search_untrack(claim, at, i);
			return false;
		}
	return true;
}

/* ---- devices ---- */

bool candidate_is_whole(const struct candidate *candidate)
{
	return candidate->taken_by || (candidate->use && candidate->use->n_whole);
}

const struct device_taint *search_taint(
	struct search *search, const struct wanted *wanted, const struct device *device)
{
	const struct device_tolerations *tolerations = &wanted->request->tolerations;
	const struct claims_entry *rules = search->claims->objects[CLAIMS_TAINT_RULE], *entry;

	for (uint32_t i = 0; i < device->taints.n; i++)
		if (device_taint_keeps_off(&device->taints.v[i], tolerations))
			return &device->taints.v[i];
	for (entry = rules; entry; entry = entry->hh.next)
		if (taint_rule_selects(&entry->rule, device->slice->driver, device->slice->pool,
			    device->name) &&
			device_taint_keeps_off(&entry->rule.taint, tolerations))
			return &entry->rule.taint;
	return NULL;
}

/* Changes by taking a device that its result does not show. */
struct undo {
	bool has_counters;
};

static bool search_is_free(
	const struct candidate *candidate, const struct wanted *wanted, struct position at)
{
	if (!wanted->request->is_admin)
		return !candidate_is_whole(candidate);
	return candidate->device->is_shared || !(candidate->taken_by >> at.claim & 1);
}

/*
 * Takes the device for the claim if it is free and the constraints allow it. is_required: no other
 * device can take its place, so a constraint that forbids the device is a fault of the claim.
 */
static enum step search_take(struct search *search, struct position at, uint32_t number,
	bool is_required, struct undo *undo)
{
	struct candidate *candidate = &search->candidates[number];
	const struct device *device = candidate->device;
	struct wanted_claim *claim = &search->claim[at.claim];
	const struct wanted *wanted = &claim->requests[at.request].choices[at.choice];
	struct chosen *chosen = &claim->result->v[claim->result->n];
	const bool is_in_use = device->is_shared &&
		(candidate->n_shares || (candidate->use && candidate->use->n_shares));
	int r;

	*undo = (struct undo){false};
	if (!search_is_free(candidate, wanted, at))
		return STEP_FAILED;
	/* The first share of a device has taken its counters already. */
	if (!is_in_use && device->n_counters) {
		if (!search_take_counters(search, candidate))
			return STEP_FAILED;
		undo->has_counters = true;
	}
	r = !search_taint(search, wanted, device);
	if (r && !search_track(claim, at, device)) {
		r = is_required ? fail(search->err, EINVAL,
					  "request %.64s: a constraint does not allow device "
					  "%.100s, which the request needs",
					  wanted->request->full_name, device->id)
				: 0;
	} else if (r) {
		r = search_has_capacity(search, wanted, candidate, false);
		if (r <= 0)
			search_untrack(claim, at, claim->claim->n_constraints);
	}
	if (r <= 0) {
		if (undo->has_counters)
			search_consume(candidate, -1);
		return r < 0 ? search_abort(search, r) : STEP_FAILED;
	}
	*chosen = (struct chosen){device, wanted->request, NULL};
	if (!device->is_shared) {
		candidate->taken_by |= UINT64_C(1) << at.claim;
	} else {
		chosen->consumed = arena_take_array(
			search->arena, device->n_capacities + 1ul, sizeof(*chosen->consumed));
		if (!chosen->consumed)
			return search_abort(search, fail(search->err, ENOMEM, "out of memory"));
		candidate->n_shares++;
		for (uint32_t i = 0; i < device->n_capacities; i++) {
			chosen->consumed[i] = search->amounts[i];
			candidate->consumed[i] += search->amounts[i].nano;
		}
	}
	claim->result->n++;
	return STEP_DONE;
}

static void search_give_back(
	struct search *search, struct position at, uint32_t number, struct undo undo)
{
	struct candidate *candidate = &search->candidates[number];
	struct wanted_claim *claim = &search->claim[at.claim];
	const struct chosen *chosen = &claim->result->v[--claim->result->n];

	if (chosen->consumed) {
		candidate->n_shares--;
		for (uint32_t i = 0; i < candidate->device->n_capacities; i++)
			candidate->consumed[i] -= chosen->consumed[i].nano;
	} else {
		candidate->taken_by &= ~(UINT64_C(1) << at.claim);
	}
	search_untrack(claim, at, claim->claim->n_constraints);
	if (undo.has_counters)
		search_consume(candidate, -1);
}

/* ---- the search ---- */

/*
 * Takes the candidate and what remains. `from`: the first place in search->order for the request's
 * next device. STEP_FAILED: try another candidate.
 */
static enum step search_try(
	struct search *search, struct position at, uint32_t number, uint32_t from, bool is_required)
{
	struct position next = at;
	struct undo undo;
	enum step step;
	int r = search_count(search, CLAIMS_TRY_STEPS);

	if (r < 0)
		return search_abort(search, r);
	step = search_take(search, at, number, is_required, &undo);
	if (step != STEP_DONE)
		return step;
	next.device++;
	next.from = from;
	step = search_step(search, next);
	if (step != STEP_DONE)
		search_give_back(search, at, number, undo);
	return step;
}

/* The choices of a prioritized list, one after the other. */
static enum step search_list(struct search *search, struct position at)
{
	struct wanted_request *request = &search->claim[at.claim].requests[at.request];
	bool are_all_too_many = true;

	at.is_in_choice = true;
	for (at.choice = 0; at.choice < request->n; at.choice++) {
		const enum step step = search_step(search, at);

		if (step == STEP_DONE)
			request->chosen = at.choice;
		if (step == STEP_DONE || step == STEP_ABORT)
			return step;
		are_all_too_many &= step == STEP_TOO_MANY;
	}
	return are_all_too_many ? STEP_TOO_MANY : STEP_FAILED;
}

static enum step search_any(struct search *search, struct position at, struct wanted *wanted)
{
	for (uint32_t i = at.from; i < search->n_candidates; i++) {
		const uint32_t number = search->order[i];
		const struct candidate *candidate = &search->candidates[number];
		enum step step;
		int r = search_count(search, 1);

		if (r < 0)
			return search_abort(search, r);
		if (wanted->request->is_admin ? candidate->taken_by >> at.claim & 1
					      : candidate_is_whole(candidate))
			continue;
		r = search_suits(search, wanted, number);
		if (r > 0)
			r = search_has_capacity(search, wanted, candidate, false);
		if (r < 0)
			return search_abort(search, r);
		if (!r)
			continue;
		step = search_try(search, at, number, i + 1, false);
		if (step != STEP_FAILED)
			return step;
	}
	return STEP_FAILED;
}

static enum step search_step(struct search *search, struct position at)
{
	struct wanted_claim *claim = &search->claim[at.claim];
	struct wanted_request *request;
	struct wanted *wanted;
	enum step step;

	if (at.claim >= search->n_claims)
		return STEP_DONE;
	if (at.request >= claim->claim->n_requests) {
		step = search_step(search, (struct position){.claim = at.claim + 1});
		/* Another choice for this claim may leave a later claim with fewer devices. */
		return step == STEP_TOO_MANY ? STEP_FAILED : step;
	}
	request = &claim->requests[at.request];
	if (request->is_list && !at.is_in_choice)
		return search_list(search, at);
	wanted = &request->choices[at.choice];
	if (wanted->request->is_all && !wanted->n)
		return STEP_FAILED;
	if (at.device >= wanted->n)
		return search_step(
			search, (struct position){.claim = at.claim, .request = at.request + 1});
	if (wanted->n - at.device > CLAIM_DEVICES_MAX - claim->result->n)
		return STEP_TOO_MANY;
	if (wanted->request->is_all)
		return search_try(search, at, wanted->all[at.device], 0, true);
	return search_any(search, at, wanted);
}

int search_new(struct arena *arena, const struct claims *claims, const struct claims_node *node,
	struct claims_wanted *wanted, struct search *ret, struct error *err)
{
	struct claim_result *results = arena_take_array(arena, wanted->n + 1ul, sizeof(*results));
	int r;

	*ret = (struct search){.arena = arena,
		.claims = claims,
		.node = node,
		.wanted = wanted,
		.n_claims = wanted->n,
		.steps = MIN(wanted->steps, CLAIMS_NODE_STEPS_MAX),
		.err = err};
	if (!results)
		return fail(err, ENOMEM, "out of memory");
	r = ret->steps ? search_prepare(ret, wanted, results) : search_count(ret, 1);
	return r < 0 ? r : search_order(ret);
}

int allocate(struct arena *arena, const struct claims *claims, const struct claims_node *node,
	struct claims_wanted *wanted, struct claims_choice *ret, struct error *err)
{
	const uint64_t steps = MIN(wanted->steps, CLAIMS_NODE_STEPS_MAX);
	struct error own = {0};
	struct search search;
	enum step step = STEP_ABORT;
	int r;

	err = err ? err : &own;
	r = search_new(arena, claims, node, wanted, &search, err);
	if (r == 0)
		step = search_step(&search, (struct position){.claim = 0});
	wanted->steps -= steps - search.steps;
	if (step == STEP_ABORT)
		return search.fault ? search.fault : r;
	if (step == STEP_TOO_MANY)
		return fail(
			err, E2BIG, "a claim would get more than %u devices", CLAIM_DEVICES_MAX);
	if (step == STEP_FAILED)
		return search_explain(&search);
	for (uint32_t i = 0; i < wanted->n; i++)
		for (uint32_t k = 0; k < wanted->v[i]->n_requests; k++)
			search.claim[i].result->choices[k] = search.claim[i].requests[k].chosen;
	*ret = (struct claims_choice){wanted->n ? search.claim[0].result : NULL};
	search_score(&search, &ret->score);
	return 0;
}
