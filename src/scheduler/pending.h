/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the pods and gangs that wait for a place, and chooses the next one. A queue item is active,
 * or it backs off after a failed try for 1 to 10 s, longer each time. Or it is unschedulable: it
 * waits for an event that may help (pending_wake()), at most PENDING_UNSCHEDULABLE_NS.
 *
 * Items stand in lines: one line for each queue (place/place-queue.h), and line 0 for items without
 * a queue. Of the lines that belong to queues, is_before() chooses one, whatever priorities their
 * items have. The first item of that line and the first of line 0 are then compared by rank. Pure
 * but for its memory; one thread.
 */
#ifndef SCHEDULER_PENDING_H
#define SCHEDULER_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rand.h"
#include "base/str.h"

#define PENDING_BACKOFF_NS (UINT64_C(1) * 1000000000)
#define PENDING_BACKOFF_MAX_NS (UINT64_C(10) * 1000000000)
#define PENDING_UNSCHEDULABLE_NS (UINT64_C(300) * 1000000000)

#define PENDING_QUEUES_MAX (1u << 16)
/* Most items of a line below its guarantee that one pending_wake() makes active. */
#define PENDING_BELOW_GUARANTEE_MAX 16u
/*
 * Items that become active for each device that begins to accept tenants: the most slots that a
 * device has.
 */
#define PENDING_OPENED_MAX 64u

/* A pod and a gang of the same name are two items. */
enum pending_kind { PENDING_POD, PENDING_GANG, PENDING_KINDS };

struct pending_key {
	enum pending_kind kind;
	const char *name; /* this file only compares names */
};

/* Within a line: higher priorities first, then older items, then by name. */
struct pending_rank {
	int64_t priority;      /* spec.priority */
	uint32_t gpu_priority; /* divvy.gpu/priority */
	uint64_t created_ns;
	uint32_t queue; /* below PENDING_QUEUES_MAX */
};

/* Callbacks about the lines that belong to a queue: all lines except line 0. */
struct pending_queues {
	bool (*is_before)(void *arg, uint32_t a, uint32_t b);
	/*
	 * Whether the queue of the line uses less than its guarantee. An event then makes items of
	 * the line active without a pause.
	 */
	bool (*is_below_guarantee)(void *arg, uint32_t queue);
	void *arg;
};

struct pending;

/* rand: borrowed, makes pauses differ. `lines` is copied. -ENOMEM. */
int pending_new(
	struct rand *rand, const struct pending_queues *lines, struct pending **ret_pending);
void pending_free(struct pending *pending);

/*
 * Adds an active item. An existing item keeps its state and gets the rank, which may move it to
 * another line. -ENOMEM.
 */
int pending_add(struct pending *pending, struct pending_key key, const struct pending_rank *rank);
void pending_remove(struct pending *pending, struct pending_key key);
bool pending_has(const struct pending *pending, struct pending_key key);
/*
 * For a caller whose lines or names have changed: pending_doubt_all() marks all items,
 * pending_add() removes the mark of an item that still waits, and pending_remove_doubted() removes
 * the items with a mark.
 */
void pending_doubt_all(struct pending *pending);
void pending_remove_doubted(struct pending *pending);

/*
 * Takes the first active item out; pending_put_back() and its variants put it back. NULL: no item
 * is active now. The key is valid until the item is removed.
 */
const struct pending_key *pending_next(struct pending *pending, uint64_t now_ns);

enum pending_end {
	PENDING_FAILED,  /* an error: try again after a pause */
	PENDING_NOWHERE, /* unschedulable */
};
void pending_put_back(
	struct pending *pending, struct pending_key key, enum pending_end end, uint64_t now_ns);
/* Sets the item's number of failed tries, which decides the length of its next pause. */
void pending_set_tries(struct pending *pending, struct pending_key key, uint32_t tries);
/* Puts the item back: it becomes active at that time, or earlier by an event. */
void pending_put_back_until(struct pending *pending, struct pending_key key, uint64_t until_ns);

/*
 * Call after an event that may help: unschedulable items become active when their pauses end. Items
 * of lines below their guarantee become active at once.
 */
void pending_wake(struct pending *pending, uint64_t now_ns);
/* Makes one item active at once. */
void pending_wake_one(struct pending *pending, struct pending_key key);
/*
 * After devices were added: makes the first n waiting items of all lines active, by rank. Items
 * that pause after an error keep their pause.
 */
void pending_hurry(struct pending *pending, uint32_t n);

/* When pending_next() may return an item; CLOCK_NEVER: not before an event or a new item. */
uint64_t pending_deadline(const struct pending *pending);

struct pending_counts {
	uint32_t n_active, n_backing_off, n_unschedulable, n_out;
};
struct pending_counts pending_counts(const struct pending *pending);

#endif
