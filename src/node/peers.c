/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the peers to measure, and decides when their numbers have changed enough to publish.
 * `fresh` collects the peers with the smallest weights; peers_begin() sorts them by name, copies
 * earlier measurements to the peers that stay, and makes the list current. For each peer `now` has
 * the latest numbers and `reported` those published last. If any number has changed by more than a
 * quarter and more than noise, peers_end() publishes all.
 */
#include "node/peers.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

#define ROUND_TRIP_MAX_US UINT32_C(1000000000) /* the largest value in GPUNode */
#define BITS_MAX (UINT64_C(1000000) * 1000000000)
#define NOISE_US 10u /* smaller changes are noise */

void peers_init(struct peers *peers, const char *own, uint32_t max, struct rand *rand)
{
	*peers = (struct peers){.max = MIN(max, PEERS_MAX), .rand = rand};
	str_copy(peers->own, sizeof(peers->own), str_from(own));
}

/* Adds or subtracts up to a quarter, so that nodes that started together drift apart. */
static uint64_t peers_jitter(struct peers *peers, uint64_t ns)
{
	return ns - ns / 4 + rand_below(peers->rand, ns / 2);
}

bool peers_is_due(const struct peers *peers, uint64_t now_ns)
{
	return peers->max && !peers->is_running && now_ns >= peers->due_ns;
}

/* ---- choosing peers ---- */

/* A well-mixed hash of both names. */
static uint64_t weight_of(const char *own, const char *name)
{
	struct rand mixed = rand_seeded(str_hash_text(str_hash_text(STR_HASH_START, own), name));

	return rand_u64(&mixed);
}

static struct peer *peers_find_heaviest(struct peers *peers)
{
	struct peer *most = &peers->fresh[0];

	for (uint32_t i = 1; i < peers->n_fresh; i++)
		if (peers->fresh[i].weight > most->weight)
			most = &peers->fresh[i];
	return most;
}

void peers_offer(struct peers *peers, const char *name, const struct address *at)
{
	struct peer one = {.weight = weight_of(peers->own, name), .at = *at};

	if (!name[0] || !strcmp(name, peers->own) || !peers->max ||
		str_copy(one.name, sizeof(one.name), str_from(name)) < 0)
		return;
	for (uint32_t i = 0; i < peers->n_fresh; i++)
		if (!strcmp(peers->fresh[i].name, name))
			return;
	if (peers->n_fresh < peers->max)
		peers->fresh[peers->n_fresh++] = one;
	else if (one.weight < peers_find_heaviest(peers)->weight)
		*peers_find_heaviest(peers) = one;
}

static int peers_compare(const void *pa, const void *pb)
{
	const struct peer *a = pa, *b = pb;

	return strcmp(a->name, b->name);
}

void peers_begin(struct peers *peers)
{
	uint32_t n_kept = 0, n_reported = 0;

	qsort(peers->fresh, peers->n_fresh, sizeof(*peers->fresh), peers_compare);
	for (uint32_t i = 0; i < peers->n; i++) {
		const struct peer *old = &peers->v[i];
		struct peer *new = bsearch(
			old, peers->fresh, peers->n_fresh, sizeof(*peers->fresh), peers_compare);

		n_reported += old->reported.round_trip_us != 0;
		if (!new)
			continue;
		n_kept += old->reported.round_trip_us != 0;
		new->now = old->now;
		new->reported = old->reported;
		new->failures = old->failures;
		new->transfer_ns = old->transfer_ns;
	}
	peers->has_lost |= n_kept < n_reported;
	memcpy(peers->v, peers->fresh, sizeof(peers->v));
	peers->n = peers->n_fresh;
	peers->n_fresh = 0;
	peers->is_running = true;
}

void peers_give_up(struct peers *peers, uint64_t now_ns)
{
	peers->n_fresh = 0;
	peers->due_ns = now_ns + peers_jitter(peers, PEERS_EMPTY_NS);
}

/* ---- a round ---- */

struct peer *peers_next(struct peers *peers)
{
	for (uint32_t i = 0; peers->is_running && i < peers->n; i++)
		if (!peers->v[i].is_done)
			return &peers->v[i];
	return NULL;
}

bool peers_wants_transfer(const struct peer *peer, uint64_t now_ns)
{
	return now_ns >= peer->transfer_ns;
}

void peers_measured(struct peers *peers, struct peer *peer, uint64_t round_trip_ns, uint64_t bits,
	uint64_t now_ns, uint64_t real_ns)
{
	const uint64_t us = round_trip_ns / 1000 + (round_trip_ns % 1000 != 0);

	peer->is_done = true;
	peer->failures = 0;
	peer->now.round_trip_us = (uint32_t)MIN(MAX(us, UINT64_C(1)), (uint64_t)ROUND_TRIP_MAX_US);
	peer->now.real_ns = real_ns;
	if (!bits)
		return;
	peer->now.bits_per_second = MIN(bits, BITS_MAX);
	peer->transfer_ns = now_ns + peers_jitter(peers, PEERS_TRANSFER_NS);
}

void peers_failed(struct peer *peer)
{
	peer->is_done = true;
	if (++peer->failures >= PEERS_FAILURES)
		peer->now = (struct peer_found){.round_trip_us = 0};
}

/*
 * Whether a value has changed by more than a quarter and more than noise since it was published, or
 * has become known or unknown.
 */
static bool is_other(uint64_t now, uint64_t told, uint64_t noise)
{
	const uint64_t apart = now > told ? now - told : told - now;

	return !now != !told || (apart > told / 4 && apart > noise);
}

bool peers_end(struct peers *peers, uint64_t now_ns)
{
	bool is_news = peers->has_lost || !peers->has_reported;

	if (!peers->is_running || peers_next(peers))
		return false;
	for (uint32_t i = 0; i < peers->n; i++) {
		const struct peer *p = &peers->v[i];

		is_news |= is_other(p->now.round_trip_us, p->reported.round_trip_us, NOISE_US) ||
			is_other(p->now.bits_per_second, p->reported.bits_per_second, 0);
	}
	for (uint32_t i = 0; is_news && i < peers->n; i++)
		peers->v[i].reported = peers->v[i].now;
	peers->has_lost = false;
	peers->has_reported |= is_news;
	peers->is_running = false;
	peers->due_ns = now_ns + peers_jitter(peers, peers->n ? PEERS_ROUND_NS : PEERS_EMPTY_NS);
	return is_news;
}
