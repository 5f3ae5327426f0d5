/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reliable connected queue pair of an RDMA adapter (verbs), with slots of registered memory for
 * what it sends and receives: the one place that knows libibverbs. Nothing of our memory can be
 * read or written by the other side but the slots that are posted, in order. Two threads: one for
 * each way, and posting from either; the first that waits for a way is the only one to.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

#define VERBS_SENDS 4u
#define VERBS_RECEIVES 10u
/* What an adapter may lock for a user by default, 8 MiB, is enough for two queue pairs. */
#define VERBS_SLOT_BYTES ((256u << 10) + 64)

enum verbs_link { VERBS_INFINIBAND = 1, VERBS_ROCE_1, VERBS_ROCE_2 };

/*
 * One end, for the other one; little-endian. Where it is and no more: who it is has been proved
 * elsewhere, and what is wrong in it keeps the two from meeting.
 */
struct verbs_address {
	uint8_t version; /* VERBS_VERSION */
	uint8_t link;    /* enum verbs_link: how the network frames it, the same at both ends */
	uint8_t mtu;     /* enum ibv_mtu, 256 to 4096 bytes */
	uint8_t reserved;
	uint16_t lid; /* InfiniBand: of the port */
	uint16_t reserved2;
	uint32_t number; /* of the queue pair, of 24 bits */
	uint32_t first;  /* the sequence number that it begins with, of 24 bits */
	uint8_t gid[16]; /* RoCE: the port's address */
};
_Static_assert(sizeof(struct verbs_address) == 32, "abi");
#define VERBS_VERSION 1u

enum verbs_way { VERBS_OUT, VERBS_IN, VERBS_WAYS };

struct verbs;

/*
 * A queue pair at the first active port, of any adapter or of the one of that name, and its slots
 * to receive posted already; the caller's. -ENODEV: there is none; -errno, with a sentence.
 */
int verbs_open(const char *name, struct verbs **ret_verbs, struct error *err);
/* Accepts NULL. */
void verbs_close(struct verbs *v);
DEFINE_CLEANUP(struct verbs *, verbs_close)
#define _cleanup_verbs_ _cleanup_(verbs_close_p)

/* How the other side reaches it; stays its own. */
const struct verbs_address *verbs_address(const struct verbs *v);

/*
 * To that other end, once; it may send only when that one is connected, too. -EINVAL: the address
 * is none that could be reached from here; -errno, with a sentence.
 */
int verbs_connect(struct verbs *v, const struct verbs_address *there, struct error *err);

/* A slot's memory; one that is posted is the adapter's until it is done. */
uint8_t *verbs_slot(struct verbs *v, enum verbs_way way, unsigned slot);
/* Its first n bytes; there is to be one posted to receive them there. 0 or -EPIPE. */
int verbs_post_send(struct verbs *v, unsigned slot, uint32_t n);
int verbs_post_receive(struct verbs *v, unsigned slot);

struct verbs_done {
	unsigned slot;
	uint32_t bytes; /* received */
};
/*
 * The next that is done, in the order of posting: 1. 0: nothing within that time. -EPIPE: something
 * went wrong with it, and with it all that follows: the other side is gone.
 */
int verbs_next(
	struct verbs *v, enum verbs_way way, unsigned timeout_ms, struct verbs_done *ret_done);

/* Everything that is posted is done, with -EPIPE. Any thread. */
void verbs_break(struct verbs *v);
