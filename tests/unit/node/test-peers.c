/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes a node measures, and which results it reports, in virtual time. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/peers.h"

#define US UINT64_C(1000)

static const struct address somewhere = {.host = "192.0.2.7", .port = "7007"},
			    elsewhere = {.host = "192.0.2.8", .port = "7007"};

struct rig {
	struct rand rand;
	struct peers peers;
	uint64_t now;
};

static void begin(struct rig *rig, const char *own, uint32_t max)
{
	rig->rand = rand_seeded(7);
	rig->now = 5 * NSEC_PER_SEC;
	peers_init(&rig->peers, own, max, &rig->rand);
}

/* Offers n nodes that serve devices: n0, n1 and so on. */
static void list(struct rig *rig, uint32_t n)
{
	assert_true(peers_is_due(&rig->peers, rig->now));
	for (uint32_t i = 0; i < n; i++) {
		char name[16];

		snprintf(name, sizeof(name), "n%u", i);
		peers_offer(&rig->peers, name, &somewhere);
	}
	peers_begin(&rig->peers);
	assert_false(peers_is_due(&rig->peers, rig->now));
}

/*
 * Runs a round in which all peers give the same numbers, or none answers (us 0). Returns whether
 * the results are to be published.
 */
static bool whole_round(struct rig *rig, uint32_t n, uint64_t us, uint64_t bits)
{
	struct peer *peer;

	list(rig, n);
	while ((peer = peers_next(&rig->peers))) {
		assert_false(peers_end(&rig->peers, rig->now));
		if (us)
			peers_measured(&rig->peers, peer, us * US, bits, rig->now, 1);
		else
			peers_failed(peer);
	}
	return peers_end(&rig->peers, rig->now);
}

static void wait_for_round(struct rig *rig)
{
	rig->now = rig->peers.due_ns;
}

static void rounds_come_about_every_five_minutes(void **state)
{
	static struct rig rig;
	uint64_t least = UINT64_MAX, most = 0;

	begin(&rig, "own", 32);
	for (int i = 0; i < 200; i++) {
		const uint64_t before = rig.now;

		whole_round(&rig, 3, 100, 0);
		wait_for_round(&rig);
		least = MIN(least, rig.now - before);
		most = MAX(most, rig.now - before);
	}
	assert_in_range(least, PEERS_ROUND_NS * 3 / 4, PEERS_ROUND_NS * 4 / 5);
	assert_in_range(most, PEERS_ROUND_NS * 6 / 5, PEERS_ROUND_NS * 5 / 4);
	/* The next round comes sooner if no node serves yet, or the list of nodes fails. */
	whole_round(&rig, 0, 100, 0);
	assert_in_range(rig.peers.due_ns - rig.now, PEERS_EMPTY_NS * 3 / 4, PEERS_EMPTY_NS * 5 / 4);
	wait_for_round(&rig);
	peers_offer(&rig.peers, "n1", &somewhere);
	peers_give_up(&rig.peers, rig.now);
	assert_in_range(rig.peers.due_ns - rig.now, PEERS_EMPTY_NS * 3 / 4, PEERS_EMPTY_NS * 5 / 4);
	assert_null(peers_next(&rig.peers));
	begin(&rig, "own", 0);
	assert_false(peers_is_due(&rig.peers, rig.now));
}

static void the_node_itself_and_bad_names_are_left_out(void **state)
{
	static struct rig rig;
	char name[300];

	begin(&rig, "n1", 32);
	memset(name, 'x', sizeof(name));
	name[ASSIGNED_NODE] = '\0';
	peers_offer(&rig.peers, name, &somewhere);
	peers_offer(&rig.peers, "", &somewhere);
	peers_offer(&rig.peers, "n2", &elsewhere);
	list(&rig, 3);
	assert_int_equal(rig.peers.n, 2);
	assert_string_equal(rig.peers.v[0].name, "n0");
	assert_string_equal(rig.peers.v[1].name, "n2");
	assert_string_equal(rig.peers.v[1].at.host, "192.0.2.8");
}

static bool has(const struct peers *peers, const char *name)
{
	for (uint32_t i = 0; i < peers->n; i++)
		if (!strcmp(peers->v[i].name, name))
			return true;
	return false;
}

static uint64_t number_of(const struct peer *peer)
{
	uint64_t n = 0;

	assert_ok(parse_uint(str_from(peer->name + 1), 0, 299, &n, NULL));
	return n;
}

/* 300 nodes, each of which measures 8 of the others. */
static void many_nodes_are_measured_about_equally_often(void **state)
{
	static struct rig rig;
	static uint32_t by[300];
	uint32_t most = 0, nobody = 0;

	for (uint32_t i = 0; i < 300; i++) {
		char own[16];

		snprintf(own, sizeof(own), "n%u", i);
		begin(&rig, own, 8);
		list(&rig, 300);
		assert_int_equal(rig.peers.n, 8);
		for (uint32_t k = 0; k < 8; k++)
			by[number_of(&rig.peers.v[k])]++;
		assert_false(has(&rig.peers, own));
	}
	for (uint32_t i = 0; i < 300; i++) {
		most = MAX(most, by[i]);
		nobody += by[i] == 0;
	}
	/*
	 * By chance alone, about e^-8 of the nodes are measured by no node, and almost all by
	 * 8 +- 3 * sqrt(8) nodes.
	 */
	assert_true(nobody <= 3);
	assert_true(most <= 20);
}

static void a_chosen_peer_stays(void **state)
{
	static struct rig rig;
	static struct peers before;
	uint32_t n_kept = 0;

	begin(&rig, "own", 8);
	whole_round(&rig, 100, 100, 0);
	before = rig.peers;
	wait_for_round(&rig);
	/* With one node more, at most one of the 8 peers changes. */
	list(&rig, 101);
	for (uint32_t i = 0; i < 8; i++)
		n_kept += has(&before, rig.peers.v[i].name);
	assert_true(n_kept >= 7);
	for (uint32_t i = 0; i < 8; i++)
		if (has(&before, rig.peers.v[i].name))
			assert_int_equal(rig.peers.v[i].now.round_trip_us, 100);
}

static void a_change_of_more_than_a_quarter_is_news(void **state)
{
	static struct rig rig;

	begin(&rig, "own", 8);
	/*
	 * The first round is published even without peers, because it replaces the report of an
	 * earlier daemon.
	 */
	assert_true(whole_round(&rig, 0, 0, 0));
	wait_for_round(&rig);
	assert_true(whole_round(&rig, 3, 100, 0));
	wait_for_round(&rig);
	assert_false(whole_round(&rig, 3, 125, 0));
	wait_for_round(&rig);
	/* Small steps add up: the change is measured from the last report. */
	assert_true(whole_round(&rig, 3, 126, 0));
	assert_int_equal(rig.peers.v[0].reported.round_trip_us, 126);
	wait_for_round(&rig);
	assert_true(whole_round(&rig, 3, 90, 1000));
	assert_int_equal(rig.peers.v[2].reported.bits_per_second, 1000);
	wait_for_round(&rig);
	assert_false(whole_round(&rig, 3, 90, 1250));
	wait_for_round(&rig);
	assert_true(whole_round(&rig, 3, 90, 749));
	wait_for_round(&rig);
	/*
	 * A change by a few microseconds is a large part of a short round trip, but is not
	 * published.
	 */
	assert_true(whole_round(&rig, 3, 4, 749));
	wait_for_round(&rig);
	assert_false(whole_round(&rig, 3, 14, 749));
	wait_for_round(&rig);
	/* The removal of a peer is published. */
	assert_true(whole_round(&rig, 2, 14, 749));
	wait_for_round(&rig);
	assert_false(whole_round(&rig, 2, 14, 749));
}

static void three_failures_in_a_row_clear_the_result(void **state)
{
	static struct rig rig;

	begin(&rig, "own", 8);
	whole_round(&rig, 1, 100, 5000);
	for (int i = 0; i < 2; i++) {
		wait_for_round(&rig);
		assert_false(whole_round(&rig, 1, 0, 0));
	}
	wait_for_round(&rig);
	assert_false(whole_round(&rig, 1, 100, 0));
	for (int i = 0; i < 2; i++) {
		wait_for_round(&rig);
		assert_false(whole_round(&rig, 1, 0, 0));
	}
	assert_int_equal(rig.peers.v[0].reported.round_trip_us, 100);
	wait_for_round(&rig);
	assert_true(whole_round(&rig, 1, 0, 0));
	assert_int_equal(rig.peers.v[0].reported.round_trip_us, 0);
	assert_int_equal(rig.peers.v[0].reported.bits_per_second, 0);
}

static void bandwidth_is_measured_about_once_an_hour(void **state)
{
	static struct rig rig;
	uint64_t last = 0;
	uint32_t n = 0;

	begin(&rig, "own", 8);
	for (int i = 0; i < 2000; i++) {
		struct peer *peer;

		list(&rig, 1);
		peer = peers_next(&rig.peers);
		if (peers_wants_transfer(peer, rig.now)) {
			/* Every tenth transfer is refused. Then the next round tries again. */
			const bool is_refused = i % 10 == 0;

			if (!is_refused && n++)
				assert_true(rig.now - last >= PEERS_TRANSFER_NS * 3 / 4);
			last = is_refused ? last : rig.now;
			peers_measured(
				&rig.peers, peer, 100 * US, is_refused ? 0 : 5000, rig.now, 1);
			assert_int_equal(peers_wants_transfer(peer, rig.now), is_refused);
		} else {
			peers_measured(&rig.peers, peer, 100 * US, 0, rig.now, 1);
		}
		assert_int_equal(peer->now.bits_per_second, n ? 5000 : 0);
		peers_end(&rig.peers, rig.now);
		wait_for_round(&rig);
	}
	/* 2000 rounds of five minutes are 167 hours, with about one transfer an hour. */
	assert_in_range(n, 120, 200);
}

static void measured_values_are_bounded(void **state)
{
	static struct rig rig;
	struct peer *peer;

	begin(&rig, "own", PEERS_MAX + 1);
	list(&rig, PEERS_MAX + 9);
	assert_int_equal(rig.peers.n, PEERS_MAX);
	peer = peers_next(&rig.peers);
	peers_measured(&rig.peers, peer, UINT64_MAX, UINT64_MAX, rig.now, 1);
	assert_int_equal(peer->now.round_trip_us, 1000000000);
	assert_true(peer->now.bits_per_second == UINT64_C(1000000000000000));
	peer = peers_next(&rig.peers);
	peers_measured(&rig.peers, peer, 1, 0, rig.now, 1);
	assert_int_equal(peer->now.round_trip_us, 1);
}

UNIT_MAIN(UNIT(rounds_come_about_every_five_minutes),
	UNIT(the_node_itself_and_bad_names_are_left_out),
	UNIT(many_nodes_are_measured_about_equally_often), UNIT(a_chosen_peer_stays),
	UNIT(a_change_of_more_than_a_quarter_is_news),
	UNIT(three_failures_in_a_row_clear_the_result),
	UNIT(bandwidth_is_measured_about_once_an_hour), UNIT(measured_values_are_bounded))
