/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains a search without a result: judges each device for the first request that the node cannot
 * satisfy even alone. The text about a node counts devices and names none, so that nodes with equal
 * texts can be counted. The texts about devices name the claims that have them. Pure; one thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "claims/allocate-internal.h"

#define HOLDERS_SHOWN_MAX 3u
#define ROW_TEXT_MAX 400u

/* Lacks of a device for a request, from the least to the most that would have to change. */
enum lack {
	LACK_NOTHING,
	LACK_CAPACITY, /* other claims have too much of it */
	LACK_TAKEN,    /* by another claim, as a whole or by its counters */
	LACK_TAINT,    /* the request does not tolerate a taint */
	LACK_AMOUNT,   /* it has no such capacity, or not in this amount */

	LACK_SELECTORS,
	LACK_CLASS,
	LACKS,
};

struct lack_of {
	enum lack lack;
	const struct device_taint *taint;
	uint32_t capacity; /* LACK_CAPACITY: its index; search->amounts has what is requested */
};

static __int128 lack_free(const struct candidate *candidate, uint32_t capacity)
{
	const struct capacity *of = &candidate->device->capacities[capacity];

	return of->value.nano - device_use_sum(candidate->use, of->name);
}

static struct lack_of search_lack(struct search *search, struct wanted *wanted, uint32_t number)
{
	struct candidate *candidate = &search->candidates[number];
	const struct device *device = candidate->device;
	struct lack_of lack = {.lack = LACK_NOTHING};
	int r;

	if (search_suits(search, wanted, number) <= 0)
		return (struct lack_of){.lack = wanted->suits[number] == SUITS_NOT_SELECTORS
				? LACK_SELECTORS
				: LACK_CLASS};
	lack.taint = search_taint(search, wanted, device);
	if (lack.taint)
		lack.lack = LACK_TAINT;
	else if (!wanted->request->is_admin && candidate_is_whole(candidate))
		lack.lack = LACK_TAKEN;
	if (lack.lack)
		return lack;
	if (!device->is_shared || !candidate->use || !candidate->use->n_shares) {
		if (!search_take_counters(search, candidate))
			return (struct lack_of){.lack = LACK_TAKEN};
		search_consume(candidate, -1);
	}
	r = search_has_capacity(search, wanted, candidate, true);
	if (r <= 0)
		return (struct lack_of){.lack = LACK_AMOUNT};
	for (uint32_t i = 0; i < device->n_capacities; i++)
		if (search->amounts[i].nano > lack_free(candidate, i))
			return (struct lack_of){.lack = LACK_CAPACITY, .capacity = i};
	return lack;
}

/* The devices of the node for one choice of a request. */
struct tally {
	uint32_t n[LACKS];
	uint32_t n_suiting; /* of the class and selected */
	bool is_shared;     /* one device of them can satisfy the request several times */
	struct lack_of example;
};

static void search_tally(struct search *search, struct wanted *wanted, struct tally *ret)
{
	*ret = (struct tally){.n_suiting = 0};
	for (uint32_t i = 0; i < search->n_candidates; i++) {
		const struct lack_of lack = search_lack(search, wanted, i);

		ret->n[lack.lack]++;
		ret->n_suiting += lack.lack < LACK_SELECTORS;
		ret->is_shared |= lack.lack == LACK_NOTHING &&
			search->candidates[i].device->is_shared;
		if (lack.lack && (!ret->example.lack || lack.lack < ret->example.lack))
			ret->example = lack;
	}
}

static bool tally_suffices(const struct tally *tally, const struct wanted *wanted)
{
	if (wanted->request->is_all)
		return tally->n_suiting && tally->n[LACK_NOTHING] == tally->n_suiting;
	return tally->n[LACK_NOTHING] >= wanted->n || tally->is_shared;
}

/* Finds the first request that the node cannot satisfy alone. False: it can satisfy each. */
static bool search_find_unsatisfied(
	struct search *search, struct wanted **ret_wanted, struct tally *ret_tally)
{
	for (uint32_t i = 0; i < search->n_claims; i++)
		for (uint32_t k = 0; k < search->claim[i].claim->n_requests; k++) {
			struct wanted_request *request = &search->claim[i].requests[k];
			bool suffices = false;

			for (uint32_t c = request->n; !suffices && c > 0; c--) {
				search_tally(search, &request->choices[c - 1], ret_tally);
				suffices = tally_suffices(ret_tally, &request->choices[c - 1]);
			}
			*ret_wanted = &request->choices[0];
			if (!suffices)
				return true;
		}
	return false;
}

static const char *search_incomplete_driver(const struct search *search)
{
	for (uint32_t i = 0; i < search->pools.n; i++)
		if (search->pools.v[i].is_incomplete || search->pools.v[i].is_invalid)
			return search->pools.v[i].driver;
	return NULL;
}

/* Text such as "share 300", for the capacity that the request consumes. */
static void lack_amount(const struct search *search, const struct wanted *wanted,
	const struct lack_of *lack, struct buf *text)
{
	char amount[AMOUNT_SIZE];

	for (uint32_t i = 0; i < search->n_candidates; i++) {
		const struct device *device = search->candidates[i].device;

		if (wanted->suits[i] != SUITS_YES || lack->capacity >= device->n_capacities ||
			search_has_capacity(
				(struct search *)search, wanted, &search->candidates[i], true) <= 0)
			continue;
		buf_addf(text, "%.32s %s", device->capacities[lack->capacity].name,
			amount_format(search->amounts[lack->capacity], amount));
		return;
	}
}

/* Writes what the node lacks, as a phrase that follows a number of nodes. */
static void tally_explain(const struct search *search, const struct wanted *wanted,
	const struct tally *tally, struct buf *text)
{
	const char *class = wanted->class->name, *driver = search_incomplete_driver(search);
	const struct lack_of *lack = &tally->example;

	if (!tally->n_suiting && !tally->n[LACK_SELECTORS] && driver)
		buf_addf(text, "with incomplete ResourceSlices of driver %.64s", driver);
	else if (!tally->n_suiting && !tally->n[LACK_SELECTORS])
		buf_addf(text, "without a device of class %.64s", class);
	else if (!tally->n_suiting && tally->n[LACK_SELECTORS])
		buf_addf(text, "without a device of class %.64s that request %.40s selects", class,
			wanted->request->full_name);
	else if (tally->n_suiting < wanted->n)
		buf_addf(text, "with fewer than %u devices of class %.64s", wanted->n, class);
	else if (lack->lack == LACK_TAINT)
		buf_addf(text, "with devices of class %.64s that have the taint %.60s", class,
			lack->taint->key);
	else if (lack->lack == LACK_TAKEN)
		buf_addf(text, "with devices of class %.64s in use", class);
	else if (lack->lack == LACK_AMOUNT)
		buf_addf(text, "with devices of class %.64s that never have the requested capacity",
			class);

	else {
		buf_addf(text, "without a device of class %.64s with ", class);
		lack_amount(search, wanted, lack, text);
		buf_add_text(text, " free");
	}
}

static void search_explain_node(struct search *search, struct wanted **ret_wanted, struct buf *text)
{
	struct tally tally;

	if (search_find_unsatisfied(search, ret_wanted, &tally)) {
		search_tally(search, *ret_wanted, &tally);
		tally_explain(search, *ret_wanted, &tally, text);
		return;
	}
	buf_add_text(text, "without devices for all requests of the ResourceClaims together");
}

int search_explain(struct search *search)
{
	_cleanup_buf_ struct buf text = BUF_INIT(sizeof(search->err->msg) - 1);
	struct error *err = search->err, ignored = {0};
	struct wanted *wanted;

	search->err = &ignored;
	search_explain_node(search, &wanted, &text);
	search->err = err;
	return fail(err, ENOSPC, "%s", buf_text(&text));
}

/* ---- devices ---- */

static bool device_shares_counter(const struct device *a, const struct device *b)
{
	for (uint32_t i = 0; i < a->n_counters; i++)
		for (uint32_t k = 0; k < b->n_counters; k++)
			if (!strcmp(a->counters[i].set, b->counters[k].set) &&
				!strcmp(a->counters[i].name, b->counters[k].name))
				return true;
	return false;
}

/* Whether the claim's device is this one, or has counters of this one. */
static bool search_is_holder(const struct search *search, const struct candidate *candidate,
	const struct claim_device *held)
{
	const struct device *device = candidate->device;

	if (held->is_admin || strcmp(held->driver, device->slice->driver) != 0 ||
		strcmp(held->pool, device->slice->pool) != 0)
		return false;
	if (!strcmp(held->device, device->name))
		return true;
	for (uint32_t i = 0; i < search->n_candidates; i++)
		if (search->candidates[i].pool == candidate->pool &&
			!strcmp(search->candidates[i].device->name, held->device))
			return device_shares_counter(device, search->candidates[i].device);
	return false;
}

static void holder_add(
	const struct resource_claim *claim, const struct claim_device *held, struct buf *text)
{
	const json_t *users = json_object_get(
		json_object_get(claim->json, "status"), "reservedFor");
	const char *pod = json_string_value(json_object_get(json_array_get(users, 0), "name"));
	char amount[AMOUNT_SIZE];

	buf_addf(text, "claim %s/%s", claim->ns, claim->name);
	if (pod)
		buf_addf(text, " of pod %s", pod);
	if (json_array_size(users) > 1)
		buf_addf(text, " and %zu more", json_array_size(users) - 1);
	for (uint32_t i = 0; held->is_share && i < held->consumed.n; i++)
		buf_addf(text, "%s%s %s", i ? ", " : " (", held->consumed.v[i].name,
			amount_format(held->consumed.v[i].amount, amount));
	if (held->is_share && held->consumed.n)
		buf_add_text(text, ")");
}

/* Appends the claims that have the device, after `before`. */
static void search_add_holders(const struct search *search, const struct candidate *candidate,
	const char *before, struct buf *text)
{
	const struct claims_entry *entry;
	uint32_t n = 0;

	for (entry = search->claims->objects[CLAIMS_CLAIM]; entry; entry = entry->hh.next) {
		const struct allocation *allocation = claims_entry_allocation(entry);

		for (uint32_t i = 0; allocation && i < allocation->n; i++) {
			if (!search_is_holder(search, candidate, &allocation->devices[i]))
				continue;
			if (n++ >= HOLDERS_SHOWN_MAX)
				continue;
			buf_add_text(text, n == 1 ? before : "; ");
			holder_add(entry->claim, &allocation->devices[i], text);
		}
	}
	if (n > HOLDERS_SHOWN_MAX)
		buf_addf(text, "; and %u more", n - HOLDERS_SHOWN_MAX);
}

static void lack_explain(const struct search *search, const struct wanted *wanted,
	const struct candidate *candidate, const struct lack_of *lack, struct buf *text)
{
	const struct capacity *capacity = &candidate->device->capacities[lack->capacity];
	char free[AMOUNT_SIZE], amount[AMOUNT_SIZE];

	switch (lack->lack) {
	case LACK_CAPACITY:
		buf_addf(text, "%s %s free, %s requested", capacity->name,
			amount_format(
				(struct amount){
					.nano = MAX(lack_free(candidate, lack->capacity), 0),
					.is_binary = capacity->value.is_binary},
				free),
			amount_format(search->amounts[lack->capacity], amount));
		search_add_holders(search, candidate, ": ", text);
		return;
	case LACK_TAKEN:
		buf_add_text(text, "in use");
		search_add_holders(search, candidate, " by ", text);
		return;
	case LACK_TAINT:
		buf_addf(text, "has the taint %s:%s, which request %s does not tolerate",
			lack->taint->key, lack->taint->effect, wanted->request->full_name);
		return;
	case LACK_AMOUNT: buf_add_text(text, "never has the requested capacity"); return;

	case LACK_SELECTORS:
		buf_addf(text, "the selectors of request %s do not match",
			wanted->request->full_name);
		return;
	default: return;
	}
}

static uint64_t explain_free(const struct candidate *candidate, const char *name)
{
	for (uint32_t i = 0; i < candidate->device->n_capacities; i++)
		if (!strcmp(candidate->device->capacities[i].name, name))
			return (uint64_t)amount_units(
				(struct amount){.nano = MAX(lack_free(candidate, i), 0)});
	return 0;
}

static void search_tell_device(struct search *search, struct wanted *wanted, uint32_t number,
	const struct claims_teller *teller)
{
	const struct candidate *candidate = &search->candidates[number];
	const struct lack_of lack = search_lack(search, wanted, number);
	_cleanup_buf_ struct buf text = BUF_INIT(ROW_TEXT_MAX);
	_cleanup_free_ char *model = NULL;
	const struct attribute *attribute;
	char name[128];

	if (lack.lack == LACK_CLASS)
		return;
	snprintf(name, sizeof(name), "%.63s/model", candidate->device->slice->driver);
	attribute = device_attribute(candidate->device, name);
	model = attribute && attribute->kind == ATTRIBUTE_STRING ? str_dup(attribute->text) : NULL;
	lack_explain(search, wanted, candidate, &lack, &text);
	teller->tell(teller->data,
		&(struct claims_reason){.device = candidate->device->name,
			.model = model ? model : "",
			.text = buf_text(&text),
			.has_free = candidate->device->is_shared,
			.free_share = explain_free(candidate, "share"),
			.free_bytes = explain_free(candidate, "memory")});
}

int allocate_explain(struct arena *arena, const struct claims *claims,
	const struct claims_node *node, struct claims_wanted *wanted,
	const struct claims_teller *teller, struct error *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT(ROW_TEXT_MAX);
	struct wanted *unsatisfied = NULL;
	struct error ignored = {0};
	struct search search;
	int r = search_new(arena, claims, node, wanted, &search, err);

	if (r < 0)
		return r;
	search.err = &ignored;
	search_explain_node(&search, &unsatisfied, &text);
	teller->tell(teller->data,
		&(struct claims_reason){.device = "", .model = "", .text = buf_text(&text)});
	for (uint32_t i = 0; unsatisfied && i < search.n_candidates; i++)
		search_tell_device(&search, unsatisfied, i, teller);
	return 0;
}
