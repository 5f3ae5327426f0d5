/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares a search: collects the devices that the node can use, and the choices of each request.
 * Pure; one thread.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "claims/allocate-internal.h"

void *search_room(struct search *search, size_t n, size_t item)
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

int search_prepare(
	struct search *search, const struct claims_wanted *wanted, struct claim_result *results)
{
	int r = search_collect(search);

	if (r < 0)
		return r;
	search->claim = search_room(search, wanted->n, sizeof(*search->claim));
	for (uint32_t i = 0; !search->fault && r == 0 && i < wanted->n; i++) {
		search->claim[i].result = &results[i];
		r = search_prepare_claim(search, wanted->v[i], &search->claim[i]);
	}
	return search->fault ? search->fault : r;
}
