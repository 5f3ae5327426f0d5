/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of keys of objects to reconcile. A key that is added several times is in the queue once,
 * and one run per key takes place at a time. A key whose run failed becomes due again after pauses
 * that grow. No clock; one thread.
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

/* The caller defines the meaning of `kind`. */
struct queue_key {
	int kind;
	const char *ns, *name; /* "": none */
};

int queue_new(uint64_t seed, struct queue **ret_queue);
void queue_free(struct queue *queue); /* NULL is allowed */

/*
 * Makes the key due now, even if it was to become due later. If its run is in progress, another run
 * follows. -ENOMEM, -ENAMETOOLONG.
 */
int queue_add(struct queue *queue, struct queue_key key);
/* Makes the key due at due_ns; a key that is due earlier stays so. -ENOMEM, -ENAMETOOLONG. */
int queue_add_at(struct queue *queue, struct queue_key key, uint64_t due_ns);

/* Takes a due key for a run, borrowed until queue_done(); NULL: no key is due. */
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
