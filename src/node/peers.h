/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which other nodes are measured, when, and when it is worth saying what came of it. In rounds: who
 * serves is listed, some of those are taken (peers_max of them: for each node others, by a hash of
 * both names, so that all are measured by about as many and the same stay the same), and measured
 * one after the other; what has changed noticeably is told once a round. A bandwidth, for which the
 * network is filled for a moment, is measured in the first round and then about once an hour.
 * Time and chance are the caller's; nothing is done here. One thread.
 *
 *   if (peers_is_due(&peers, now)) {
 *   	for each that serves: peers_offer(&peers, name, &address);
 *   	peers_begin(&peers);
 *   }
 *   while ((peer = peers_next(&peers)))
 *   	peers_measured(&peers, peer, us, bits, now, real) or peers_failed(peer);
 *   if (peers_end(&peers, now)) tell peers.v[].told;
 */
#ifndef NODE_PEERS_H
#define NODE_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/rand.h"
#include "spec/given.h"

#define PEERS_MAX 64u
#define PEERS_DEFAULT 32u
#define PEERS_ROUND_NS (UINT64_C(300) * 1000000000)     /* each time a quarter more or less */
#define PEERS_EMPTY_NS (UINT64_C(30) * 1000000000)      /* while nobody is known */
#define PEERS_TRANSFER_NS (UINT64_C(3600) * 1000000000) /* of a bandwidth, likewise */
#define PEERS_FAILURES 3u /* in a row, and what was measured is no longer so */

struct peer_found {
	uint32_t round_trip_us;   /* 0: not measured */
	uint64_t bits_per_second; /* likewise */
	uint64_t real_ns;         /* since 1970, of the round trip */
};

struct peer {
	char name[GIVEN_NODE];
	struct address at;
	uint64_t weight;
	uint32_t failures;
	uint64_t transfer_ns; /* before that its bandwidth is not measured again */
	struct peer_found now, told;
	bool is_done; /* in this round */
};

struct peers {
	struct peer v[PEERS_MAX];     /* by name */
	struct peer fresh[PEERS_MAX]; /* of the list that is being read */
	uint32_t n, n_fresh, max;
	char own[GIVEN_NODE];
	struct rand *rand; /* borrowed */
	bool is_running, has_told;
	bool has_lost; /* one that was told is none of these any more */
	uint64_t due_ns;
};

/* own: this node's name; max: of peers, up to PEERS_MAX, 0: nothing is measured. */
void peers_init(struct peers *peers, const char *own, uint32_t max, struct rand *rand);

/* A round is to begin. */
bool peers_is_due(const struct peers *peers, uint64_t now_ns);
/* One that serves; itself is left out, and what is no name. */
void peers_offer(struct peers *peers, const char *name, const struct address *at);
/* The list is over: who is taken from it keeps what was measured. */
void peers_begin(struct peers *peers);
/* There was no list: again after a while. */
void peers_give_up(struct peers *peers, uint64_t now_ns);

/* The next of this round; NULL: it is over, or there is none. */
struct peer *peers_next(struct peers *peers);
bool peers_wants_transfer(const struct peer *peer, uint64_t now_ns);
/* bits 0: it was not measured this time. */
void peers_measured(struct peers *peers, struct peer *peer, uint64_t round_trip_ns, uint64_t bits,
	uint64_t now_ns, uint64_t real_ns);
void peers_failed(struct peer *peer);

/*
 * After the last of a round: whether it is to be told, as after the first; then all of it is told
 * as it is now.
 */
bool peers_end(struct peers *peers, uint64_t now_ns);

#endif
