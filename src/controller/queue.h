/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of keys to reconcile: each key once, however often it is added, and one run per key at a
 * time. A failed key comes again after growing pauses. No clock; one thread.
 */
#ifndef CONTROLLER_QUEUE_H
#define CONTROLLER_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define QUEUE_RETRY_NS (UINT64_C(200) * 1000000)
#define QUEUE_RETRY_MAX_NS (UINT64_C(60) * 1000000000)

#define QUEUE_NAME 256u /* bytes of a namespace or name, with the terminating 0 */

struct queue;

/* `kind` is the caller's. */
struct queue_key {
	int kind;
	const char *ns, *name; /* "": none */
};

int queue_new(uint64_t seed, struct queue **ret_queue);
void queue_free(struct queue *queue); /* NULL is allowed */

/*
 * Makes the key due now, even if it waits. If it runs, it runs again afterwards. -ENOMEM,
 * -ENAMETOOLONG.
 */
int queue_add(struct queue *queue, struct queue_key key);
/* Makes the key due then, unless it is due earlier. -ENOMEM, -ENAMETOOLONG. */
int queue_add_at(struct queue *queue, struct queue_key key, uint64_t due_ns);

/* Takes a due key, which then runs, borrowed until queue_done(); NULL: none is due. */
const struct queue_key *queue_take(struct queue *queue, uint64_t now_ns);
void queue_done(struct queue *queue, struct queue_key key, bool has_failed, uint64_t now_ns);

/* When the next key is due; CLOCK_NEVER: none. */
uint64_t queue_next_ns(const struct queue *queue);

struct queue_counts {
	uint64_t n_added, n_taken, n_failed;
	uint32_t n_waiting, n_running;
};
struct queue_counts queue_counts(const struct queue *queue);

#endif
