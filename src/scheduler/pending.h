/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits to be placed, and whose turn it is. An entry is active; or backs off after a try that
 * failed, 1 to 10 s, longer each time; or has been found to fit nowhere, and rests until something
 * happens that could help it (pending_wake), at most PENDING_REST_NS.
 *
 * They stand in lines: one for each queue (place/place-queue.h), and line 0 for those of none. Of
 * lines with queues the one goes first that is_before says, whatever priorities are in them; its
 * first and that of line 0 are compared by their ranks. Pure but for its memory; one thread.
 */
#ifndef SCHEDULER_PENDING_H
#define SCHEDULER_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rand.h"
#include "base/str.h"

#define PENDING_BACKOFF_NS (UINT64_C(1) * 1000000000)
#define PENDING_BACKOFF_MAX_NS (UINT64_C(10) * 1000000000)
#define PENDING_REST_NS (UINT64_C(300) * 1000000000)

#define PENDING_LINES_MAX (1u << 16)
/* Of a line that is owed something: its first so many are tried whenever something happens. */
#define PENDING_OWED_MAX 16u
/* For a device that takes tenants from now on: as many as it has slots. */
#define PENDING_OPENED_MAX 64u

/* Both kinds have names of their own: a pod and a gang of one name are two entries. */
enum pending_kind { PENDING_POD, PENDING_GANG, PENDING_KINDS };

struct pending_key {
	enum pending_kind kind;
	const char *name; /* of no meaning here */
};

/* Of one line higher priorities first, then who was there first, then by name. */
struct pending_rank {
	int64_t priority;      /* spec.priority */
	uint32_t gpu_priority; /* divvy.gpu/priority */
	uint64_t created_ns;
	uint32_t line; /* below PENDING_LINES_MAX */
};

/* What is known of lines with queues. */
struct pending_lines {
	bool (*is_before)(void *arg, uint32_t a, uint32_t b);
	/* It has less than it is guaranteed: nobody should come first because it pauses. */
	bool (*is_owed)(void *arg, uint32_t line);
	void *arg;
};

struct pending;

/* rand: of jitter, borrowed. -ENOMEM. */
int pending_new(struct rand *rand, const struct pending_lines *lines, struct pending **ret_pending);
void pending_free(struct pending *pending);

/* A new one is active; one that is there gets the rank, and its line. -ENOMEM. */
int pending_add(struct pending *pending, struct pending_key key, const struct pending_rank *rank);
void pending_remove(struct pending *pending, struct pending_key key);
bool pending_has(const struct pending *pending, struct pending_key key);
/*
 * When lines or names have changed: all are in doubt until they are added again, and those that
 * still are can be removed together.
 */
void pending_doubt_all(struct pending *pending);
void pending_remove_doubted(struct pending *pending);

/*
 * Takes the first active one out: it is nobody's turn until it is put back. NULL: none now. The key
 * is valid until the entry is removed.
 */
const struct pending_key *pending_next(struct pending *pending, uint64_t now_ns);

enum pending_end {
	PENDING_FAILED,  /* something went wrong: once more after its pause */
	PENDING_NOWHERE, /* it rests */
};
void pending_put_back(
	struct pending *pending, struct pending_key key, enum pending_end end, uint64_t now_ns);
/* Number of failed tries before, for the next pause. */
void pending_set_tries(struct pending *pending, struct pending_key key, uint32_t tries);
/* It is tried again then, or when something happens. */
void pending_put_back_until(struct pending *pending, struct pending_key key, uint64_t until_ns);

/*
 * Something has happened that may help: all that rest are tried again after their pauses, and those
 * of lines that are owed something at once.
 */
void pending_wake(struct pending *pending, uint64_t now_ns);
/* The same for one, at once. */
void pending_wake_one(struct pending *pending, struct pending_key key);
/*
 * Devices have come: of those who wait the first n by rank, whatever their lines, are tried at
 * once. Not those for whom something went wrong.
 */
void pending_hurry(struct pending *pending, uint32_t n);

/* When pending_next() may have one; CLOCK_NEVER. */
uint64_t pending_deadline(const struct pending *pending);

struct pending_counts {
	uint32_t n_active, n_backing_off, n_resting, n_out;
};
struct pending_counts pending_counts(const struct pending *pending);

#endif
