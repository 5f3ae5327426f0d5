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
#include "claims/claims-internal.h"
#include "claims/consume.h"

enum step {
	STEP_FAILED,   /* no choice satisfies what remains */
	STEP_DONE,     /* everything is satisfied */
	STEP_TOO_MANY, /* the claim would get too many devices, whatever devices they are */
	STEP_ABORT,    /* search->fault has an error that ends the search */
};

/* A device that the node can use. */
struct candidate {
	const struct device *device;
	struct pool *pool;
	const struct device_use *use;
	uint64_t taken_by;  /* bits of the claims for which the search has taken the device */
	uint32_t n_shares;  /* shares that the search has taken */
	__int128 *consumed; /* by these shares, by capacity */
};

/* One choice of a request, and the devices that suit it. */
struct wanted {
	const struct request *request;
	const struct device_class *class;
	uint32_t n;     /* devices that are needed */
	uint32_t *all;  /* with allocationMode All: the candidates */
	uint8_t *suits; /* by candidate: 0 unknown, 1 yes, 2 no */
};

struct wanted_request {
	struct wanted *choices;
	uint32_t n;
	bool is_list;
	uint32_t chosen;
};

/* A constraint with the values of the devices chosen so far. */
struct tracker {
	const struct constraint *of;
	const struct attribute *seen[CLAIM_DEVICES_MAX];
	uint32_t n;
};

struct wanted_claim {
	const struct resource_claim *claim;
	struct wanted_request *requests;
	struct tracker *trackers;
	struct claim_result *result;
};

struct search {
	struct arena *arena;
	const struct claims *claims;
	const struct claims_node *node;
	struct pools pools;
	struct candidate *candidates;
	uint32_t n_candidates;
	struct wanted_claim *claim;
	uint32_t n_claims;
	uint64_t steps;         /* that the search may still take */
	struct amount *amounts; /* room for the capacities of any device */
	int fault;
	struct error *err;
};

/* Which device comes next: of a claim's request, of its choice. */
struct position {
	uint32_t claim, request, choice, device;
	bool is_in_choice; /* the choice is made, if the request is a prioritized list */
	uint32_t from;     /* first candidate to try */
};

static enum step search_step(struct search *search, struct position at);

static enum step search_abort(struct search *search, int r)
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

static int search_judge(
	struct search *search, const struct wanted *wanted, const struct device *device)
{
	int r;

	if (wanted->class->refusal.code) {
		*search->err = wanted->class->refusal;
		return fail_within(search->err, -wanted->class->refusal.code, "class %.64s",
			wanted->class->name);
	}
	r = selectors_match(search, &wanted->class->selectors, device);
	if (r < 0)
		return fail_within(search->err, r, "class %.64s", wanted->class->name);
	if (r > 0)
		r = selectors_match(search, &wanted->request->selectors, device);
	if (r < 0)
		return fail_within(search->err, r, "request %.64s", wanted->request->full_name);
	if (r > 0 && device->slice->is_per_device)
		r = node_choice_has(&device->nodes, search->node->name, search->node->labels);
	return r;
}

/* Returns 1 if the request may have the device, as far as nothing is taken; else 0, or an error. */
static int search_suits(struct search *search, struct wanted *wanted, uint32_t candidate)
{
	const struct device *device = search->candidates[candidate].device;
	int r;

	/* This scheduler does not wait for binding conditions. */
	if (device->has_binding_conditions)
		return 0;
	if (!wanted->suits[candidate]) {
		r = search_judge(search, wanted, device);
		if (r < 0)
			return r;
		wanted->suits[candidate] = r ? 1 : 2;
	}
	return wanted->suits[candidate] == 1;
}

/* ---- capacity ---- */

static __int128 device_use_sum(const struct device_use *use, const char *name)
{
	for (const struct amount_sum *sum = use ? use->sums : NULL; sum; sum = sum->next)
		if (!strcmp(sum->name, name))
			return sum->nano;
	return 0;
}

/*
 * Returns 1 if the device has enough capacity for the request, else 0, or an error. Writes what the
 * request consumes to search->amounts. is_empty: counts the whole capacity, as if no share had any.
 */
static int search_has_capacity(struct search *search, const struct wanted *wanted,
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

static struct pool_counter *search_counter(struct pool *pool, const struct counter *of)
{
	for (uint32_t i = 0; i < pool->n_counters; i++)
		if (!strcmp(pool->counters[i].of->name, of->name) &&
			!strcmp(pool->counters[i].of->set, of->set))
			return &pool->counters[i];
	return NULL;
}

static void search_consume(struct candidate *candidate, int sign)
{
	const struct device *device = candidate->device;

	for (uint32_t i = 0; i < device->n_counters; i++) {
		struct pool_counter *counter = search_counter(
			candidate->pool, &device->counters[i]);

		if (counter)
			counter->taken += sign * device->counters[i].amount.nano;
	}
}

/* Takes the device's counters. Like kube-scheduler, needs all counters of the pool to suffice. */
static bool search_take_counters(struct search *search, struct candidate *candidate)
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

static bool candidate_is_whole(const struct candidate *candidate)
{
	return candidate->taken_by || (candidate->use && candidate->use->n_whole);
}

static bool search_is_tainted(
	struct search *search, const struct wanted *wanted, const struct device *device)
{
	const struct device_tolerations *tolerations = &wanted->request->tolerations;
	const struct claims_entry *rules = search->claims->objects[CLAIMS_TAINT_RULE], *entry;

	for (uint32_t i = 0; i < device->taints.n; i++)
		if (device_taint_keeps_off(&device->taints.v[i], tolerations))
			return true;
	for (entry = rules; entry; entry = entry->hh.next)
		if (taint_rule_selects(&entry->rule, device->slice->driver, device->slice->pool,
			    device->name) &&
			device_taint_keeps_off(&entry->rule.taint, tolerations))
			return true;
	return false;
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
	r = !search_is_tainted(search, wanted, device);
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

/* Takes the candidate and what remains. STEP_FAILED: try another candidate. */
static enum step search_try(
	struct search *search, struct position at, uint32_t number, bool is_required)
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
	next.from = number + 1;
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
		const struct candidate *candidate = &search->candidates[i];
		enum step step;
		int r = search_count(search, 1);

		if (r < 0)
			return search_abort(search, r);
		if (wanted->request->is_admin ? candidate->taken_by >> at.claim & 1
					      : candidate_is_whole(candidate))
			continue;
		r = search_suits(search, wanted, i);
		if (r > 0)
			r = search_has_capacity(search, wanted, candidate, false);
		if (r < 0)
			return search_abort(search, r);
		if (!r)
			continue;
		step = search_try(search, at, i, false);
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
		return search_try(search, at, wanted->all[at.device], true);
	return search_any(search, at, wanted);
}

/* ---- preparation ---- */

static void *search_room(struct search *search, size_t n, size_t item)
{
	void *p = arena_take_array(search->arena, n + 1, item);

	if (!p)
		search_abort(search, fail(search->err, ENOMEM, "out of memory"));
	return p;
}

static int search_collect(struct search *search)
{
	uint32_t n = 0, most = 0;

	if (pools_gather(search->arena, search->claims, search->node, &search->pools) < 0)
		return fail(search->err, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < search->pools.n; i++)
		for (uint32_t k = 0; k < search->pools.v[i].n_slices; k++)
			n += search->pools.v[i].slices[k]->n_devices;
	search->candidates = search_room(search, n, sizeof(*search->candidates));
	for (uint32_t i = 0; search->candidates && i < search->pools.n; i++) {
		struct pool *pool = &search->pools.v[i];

		for (uint32_t k = 0; !pool->is_invalid && k < pool->n_slices; k++)
			for (uint32_t d = 0; d < pool->slices[k]->n_devices; d++) {
				const struct device *device = &pool->slices[k]->devices[d];

				search->candidates[search->n_candidates++] = (struct candidate){
					.device = device,
					.pool = pool,
					.use = claims_use(search->claims, device->id),
					.consumed = search_room(
						search, device->n_capacities, sizeof(__int128))};
				most = MAX(most, device->n_capacities);
			}
	}
	search->amounts = search_room(search, most, sizeof(*search->amounts));
	return search->fault;
}

/* Finds all devices that suit a request with allocationMode All. */
static int search_collect_all(struct search *search, struct wanted *wanted)
{
	for (uint32_t i = 0; i < search->pools.n; i++)
		if (search->pools.v[i].is_incomplete || search->pools.v[i].is_invalid)
			return fail(search->err, EAGAIN,
				"request %.64s: needs all devices, but pool %.64s of %.64s is %s",
				wanted->request->full_name, search->pools.v[i].name,
				search->pools.v[i].driver,
				search->pools.v[i].is_invalid ? "invalid" : "incomplete");
	wanted->all = search_room(search, search->n_candidates, sizeof(*wanted->all));
	for (uint32_t i = 0; wanted->all && i < search->n_candidates; i++) {
		int r = search_suits(search, wanted, i);

		if (r > 0)
			r = search_has_capacity(search, wanted, &search->candidates[i], true);
		if (r < 0)
			return r;
		if (r > 0)
			wanted->all[wanted->n++] = i;
	}
	return search->fault;
}

static int search_prepare_choice(
	struct search *search, const struct request *request, struct wanted *wanted)
{
	const struct claims_entry *class = claims_find(
		(struct claims *)search->claims, CLAIMS_CLASS, request->class_name);

	if (!class)
		return fail(search->err, ENOENT, "request %.64s: device class %.64s does not exist",
			request->full_name, request->class_name);
	*wanted = (struct wanted){.request = request, .class = class->class};
	wanted->suits = search_room(search, search->n_candidates, sizeof(*wanted->suits));
	if (!wanted->suits)
		return search->fault;
	if (request->is_all)
		return search_collect_all(search, wanted);
	/* A greater count fails as well, and a sum of such counts fits. */
	wanted->n = (uint32_t)MIN(MAX(request->count, 0), (int64_t)CLAIM_DEVICES_MAX + 1);
	return 0;
}

static int search_prepare_request(struct search *search, const struct claim_request *request,
	struct wanted_request *wanted, uint32_t *n_devices)
{
	uint32_t least = UINT32_MAX;
	int r;

	wanted->n = request->n;
	wanted->is_list = request->is_list;
	wanted->choices = search_room(search, request->n, sizeof(*wanted->choices));
	if (!wanted->choices)
		return search->fault;
	for (uint32_t i = 0; i < request->n; i++) {
		r = search_prepare_choice(search, &request->choices[i], &wanted->choices[i]);
		if (r < 0)
			return r;
		least = MIN(least, wanted->choices[i].n);
	}
	if (least > CLAIM_DEVICES_MAX - *n_devices)
		return fail(search->err, E2BIG,
			"request %.64s: a claim can have at most %u devices", request->name,
			CLAIM_DEVICES_MAX);
	*n_devices += least;
	return 0;
}

static int search_prepare_claim(
	struct search *search, const struct resource_claim *claim, struct wanted_claim *wanted)
{
	uint32_t n_devices = 0;
	int r = 0;

	wanted->claim = claim;
	wanted->requests = search_room(search, claim->n_requests, sizeof(*wanted->requests));
	wanted->trackers = search_room(search, claim->n_constraints, sizeof(*wanted->trackers));
	wanted->result->choices = search_room(search, claim->n_requests, sizeof(uint32_t));
	for (uint32_t i = 0; !search->fault && r == 0 && i < claim->n_requests; i++)
		r = search_prepare_request(
			search, &claim->requests[i], &wanted->requests[i], &n_devices);
	for (uint32_t i = 0; !search->fault && i < claim->n_constraints; i++)
		wanted->trackers[i].of = &claim->constraints[i];
	r = search->fault ? search->fault : r;
	return r < 0 ? fail_within(search->err, r, "claim %.64s", claim->name) : 0;
}

int allocate(struct arena *arena, const struct claims *claims, const struct claims_node *node,
	struct claims_wanted *wanted, struct claim_result **ret, struct error *err)
{
	const uint32_t n = wanted->n;
	const uint64_t steps = MIN(wanted->steps, CLAIMS_NODE_STEPS_MAX);
	struct error own = {0};
	struct search search = {.arena = arena,
		.claims = claims,
		.node = node,
		.n_claims = n,
		.steps = steps,
		.err = err ? err : &own};
	struct claim_result *results = search_room(&search, n, sizeof(*results));
	enum step step = STEP_ABORT;
	int r = steps ? search_collect(&search) : search_count(&search, 1);

	if (r < 0)
		return r;
	search.claim = search_room(&search, n, sizeof(*search.claim));
	for (uint32_t i = 0; !search.fault && r == 0 && i < n; i++) {
		search.claim[i].result = &results[i];
		r = search_prepare_claim(&search, wanted->v[i], &search.claim[i]);
	}
	if (!search.fault && r == 0)
		step = search_step(&search, (struct position){.claim = 0});
	wanted->steps -= steps - search.steps;
	if (step == STEP_ABORT)
		return search.fault ? search.fault : r;
	if (step == STEP_TOO_MANY)
		return fail(
			err, E2BIG, "a claim would get more than %u devices", CLAIM_DEVICES_MAX);
	if (step == STEP_FAILED)
		return -ENOSPC;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < wanted->v[i]->n_requests; k++)
			results[i].choices[k] = search.claim[i].requests[k].chosen;
	*ret = results;
	return 0;
}
