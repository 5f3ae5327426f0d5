/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts back tenants that were removed since an open savepoint, unchanged or as terminating: see
 * place.h and place-internal.h. The undo records show which tenants were added after the removal.
 */
#include <errno.h>

#include "place/place-internal.h"
#include "place/place-policy.h"

/* Index of the tenant's removal in the undo records; n_undo if the tenant was not removed. */
static uint32_t left_at(const struct place *place, uint32_t tenant)
{
	uint32_t i = place->n_undo;

	while (i && place->undo[i - 1].tenant != tenant)
		i--;
	return i && place->undo[i - 1].type == UNDO_REMOVE ? i - 1 : place->n_undo;
}

/* ---- newer tenants ---- */

static bool is_newcomer(const struct place *place, uint32_t at)
{
	return place->undo[at].type == UNDO_ADD && place_tenant(place, place->undo[at].tenant);
}

static bool share_a_device(const struct place_tenant *a, const struct place_tenant *b)
{
	for (uint32_t i = 0; i < a->n && a->node == b->node; i++)
		for (uint32_t k = 0; k < b->n; k++)
			if (a->device[i] == b->device[k])
				return true;
	return false;
}

/*
 * Returns whether a newer tenant on one of the tenant's devices is subject to a rule about tenants
 * that were there before. Such rules are affinity, and `allows` of the policy.
 */
static bool is_in_doubt(const struct place *place, uint32_t from, const struct place_tenant *was)
{
	for (uint32_t i = from; i < place->n_undo; i++) {
		const struct place_tenant *t = place_tenant(place, place->undo[i].tenant);

		if (is_newcomer(place, i) && (t->spec.affinity || place->config.policy->allows) &&
			share_a_device(t, was))
			return true;
	}
	return false;
}

/* Removes all newer tenants, the last one first. */
static int take_newcomers_out(struct place *place, uint32_t from, uint32_t end)
{
	int r = 0;

	for (uint32_t i = end; i > from && r == 0; i--)
		if (is_newcomer(place, i - 1))
			r = place_remove(place, place->undo[i - 1].tenant);
	return r;
}

/*
 * Adds the newer tenants again. The undo records from `first` to before `end` are their removals.
 */
static int put_newcomers_back(struct place *place, uint32_t first, uint32_t end)
{
	int r = 0;

	for (uint32_t i = end; i > first && r == 0; i--) {
		const struct undo left = place->undo[i - 1];

		r = place_return(place, left.tenant, &left.was);
	}
	return r;
}

int place_return_overlapping(struct place *place, uint32_t tenant, const struct place_tenant *was)
{
	const uint32_t from = left_at(place, tenant), savepoint = place_savepoint(place);
	uint32_t left = savepoint;
	int r = 0;

	if (is_in_doubt(place, from, was)) {
		r = take_newcomers_out(place, from, savepoint);
		left = place->n_undo;
	}
	r = r < 0 ? r : place_return(place, tenant, was);
	r = r < 0 ? r : put_newcomers_back(place, savepoint, left);
	if (r < 0)
		place_rollback(place, savepoint);
	place_release(place);
	return r;
}

/* ---- by number ---- */

/* Returns the tenant as it was before its removal since an open savepoint; -ENOENT: not removed. */
static int place_readd_find_removed(
	const struct place *place, uint32_t tenant, struct place_tenant *ret, struct error *err)
{
	const uint32_t at = left_at(place, tenant);

	if (at == place->n_undo)
		return fail(err, ENOENT, "tenant %u was not removed since the savepoint", tenant);
	*ret = place->undo[at].was;
	return 0;
}

int place_readd(struct place *place, uint32_t tenant, struct error *err)
{
	struct place_tenant was;
	int r = place_readd_find_removed(place, tenant, &was, err);

	if (r < 0)
		return r;
	place_count_terminating_free(place, was.node, true);
	r = place_return_overlapping(place, tenant, &was);
	place_count_terminating_free(place, was.node, false);
	return r < 0 ? fail(err, -r, "tenant %u cannot be put back", tenant) : 0;
}

int place_readd_terminating(struct place *place, uint32_t tenant, struct error *err)
{
	struct place_tenant was;
	int r = place_readd_find_removed(place, tenant, &was, err);

	return r < 0 ? r : place_return_terminating(place, tenant, &was, err);
}
