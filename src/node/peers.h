/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which other nodes to measure, when, and when to publish the results. Measurements go in
 * rounds. The caller offers all nodes that serve devices, and peers_begin() takes `max` of them by
 * a hash of both nodes' names. So each node is measured by about the same number of nodes, and a
 * node measures the same peers each time. The caller then measures one peer after the other.
 * Noticeable changes are published once a round. A bandwidth measurement fills the network for a
 * moment, so it happens in the first round and then about once an hour.
 *
 * The caller provides time and random numbers, and carries out the measurements. One thread.
 *
 *   if (peers_is_due(&peers, now)) {
 *   	for each that serves: peers_offer(&peers, name, &address);
 *   	peers_begin(&peers);
 *   }
 *   while ((peer = peers_next(&peers)))
 *   	peers_measured(&peers, peer, us, bits, now, real) or peers_failed(peer);
 *   if (peers_end(&peers, now)) publish peers.v[].reported;
 */
#ifndef NODE_PEERS_H
#define NODE_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/rand.h"
#include "spec/assigned.h"

#define PEERS_MAX 64u
#define PEERS_DEFAULT 32u
#define PEERS_ROUND_NS (UINT64_C(300) * 1000000000) /* length of a round, plus or minus a quarter */
#define PEERS_EMPTY_NS (UINT64_C(30) * 1000000000)  /* length of a round without peers */
/* Pause between two bandwidth measurements of a peer, plus or minus a quarter. */
#define PEERS_TRANSFER_NS (UINT64_C(3600) * 1000000000)
#define PEERS_FAILURES 3u /* failures in a row after which earlier numbers are invalid */

struct peer_found {
	uint32_t round_trip_us;   /* 0: not measured */
	uint64_t bits_per_second; /* 0: not measured */
	uint64_t real_ns;         /* CLOCK_REALTIME of the round trip */
};

struct peer {
	char name[ASSIGNED_NODE];
	struct address at;
	uint64_t weight;
	uint32_t failures;
	uint64_t transfer_ns; /* earliest time of the next bandwidth measurement */
	struct peer_found now, reported;
	bool is_done; /* measured in this round */
};

struct peers {
	struct peer v[PEERS_MAX];     /* ordered by name */
	struct peer fresh[PEERS_MAX]; /* peers from the list that the caller is offering */
	uint32_t n, n_fresh, max;
	char own[ASSIGNED_NODE];
	struct rand *rand; /* borrowed */
	bool is_running, has_reported;
	bool has_lost; /* a peer that was published is no longer in the list */
	uint64_t due_ns;
};

/* own: this node's name; max: number of peers, up to PEERS_MAX; 0: no measurements. */
void peers_init(struct peers *peers, const char *own, uint32_t max, struct rand *rand);

/* Whether a new round should begin. */
bool peers_is_due(const struct peers *peers, uint64_t now_ns);
/* Offers a node that serves devices. Ignores this node and invalid names. */
void peers_offer(struct peers *peers, const char *name, const struct address *at);
/* The list is complete: chooses peers. A peer that stays keeps its numbers. */
void peers_begin(struct peers *peers);
/* The caller got no list of nodes: the round is tried again after a while. */
void peers_give_up(struct peers *peers, uint64_t now_ns);

/* The next peer of this round; NULL: the round is over, or there is none. */
struct peer *peers_next(struct peers *peers);
bool peers_wants_transfer(const struct peer *peer, uint64_t now_ns);
/* bits 0: bandwidth was not measured this time. */
void peers_measured(struct peers *peers, struct peer *peer, uint64_t round_trip_ns, uint64_t bits,
	uint64_t now_ns, uint64_t real_ns);
void peers_failed(struct peer *peer);

/*
 * Ends a round. Returns true if the numbers should be published, as after the first round;
 * `reported` then has the present numbers of all peers.
 */
bool peers_end(struct peers *peers, uint64_t now_ns);

#endif
