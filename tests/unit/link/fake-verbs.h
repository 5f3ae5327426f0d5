/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An RDMA adapter of this process, in libibverbs' place: what is sent at one queue pair arrives at
 * the other one, in order and later, by a thread of its own. It is as strict as an adapter: memory
 * has to be registered, states come in order, and what comes where no receive is posted is counted
 * and breaks the pair.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What happens to a message on its way. */
enum fake_fate { FAKE_ARRIVES, FAKE_CHANGED, FAKE_LOST, FAKE_REPEATED };

struct fake_verbs {
	/* Before something is opened. */
	bool is_absent, is_down, is_iwarp, is_ethernet;
	bool is_deaf;     /* nothing that is sent ever arrives */
	int refuses;      /* registering memory, with that errno */
	unsigned fails;   /* which of the objects that are made, from 1, cannot be */
	uint64_t slow_us; /* each message */
	/* Of the message with that number from 1 on; a repeated one takes its place. */
	unsigned at;
	enum fake_fate fate;

	/* What has been seen. */
	unsigned not_ready; /* messages without a receive for them */
	unsigned misused;   /* what an adapter would have refused, or worse */
	unsigned made, live, messages;
	uint64_t registered; /* bytes */
};
extern struct fake_verbs fake;

/*
 * Where the other end is in another process, by number of the pair: fake-verbs-far.c. All block;
 * send says what fake_arrive() has said there, or FAKE_NOBODY.
 */
struct fake_far {
	uint32_t first; /* this process has numbers from there on */
	void (*open)(void);
	void (*made)(uint32_t number);
	int (*send)(uint32_t to, uint32_t from, const void *p, uint32_t n);
};
extern const struct fake_far *fake_far; /* NULL: both are in this one */
enum { FAKE_TAKEN, FAKE_NOBODY, FAKE_NOT_READY };
int fake_arrive(uint32_t to, uint32_t from, const void *p, uint32_t n);

/* All as in the beginning, with those before `not_ready` as in `how`. */
void fake_begin(const struct fake_verbs *how);
void fake_end(void);
/* The last message as it went over the network. Nothing else may be under way. */
const uint8_t *fake_last(uint32_t *ret_bytes);
