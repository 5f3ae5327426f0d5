/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of keys. READY keys are due and are in a list in order of arrival. Each of the LATER keys
 * becomes due at a time of its own; they are few, so the queue searches them linearly.
 */
#include "controller/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/hash.h"
#include "kube/backoff.h"

enum place { IDLE, READY, LATER };

struct item {
	UT_hash_handle hh;
	TAILQ_ENTRY(item) link; /* link of the list of READY keys or of the list of LATER keys */
	enum place place;
	bool is_running, is_again; /* is_again: the key was added while it ran */
	uint64_t due_ns;
	struct backoff backoff;
	struct queue_key key; /* its texts point into `bytes` */
	char bytes[];         /* packed by pack_key() */
};

TAILQ_HEAD(item_list, item);

struct queue {
	struct item *items;
	struct item_list ready, later;
	struct rand rand;
	struct queue_counts counts;
};

int queue_new(uint64_t seed, struct queue **ret_queue)
{
	struct queue *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->rand = rand_seeded(seed);
	TAILQ_INIT(&q->ready);
	TAILQ_INIT(&q->later);
	*ret_queue = q;
	return 0;
}

void queue_free(struct queue *queue)
{
	struct item *item, *next;

	if (!queue)
		return;
	HASH_ITER(hh, queue->items, item, next) {
		HASH_DEL(queue->items, item);
		free(item);
	}
	free(queue);
}

#define BYTES_MAX (sizeof(int) + 2 * QUEUE_NAME)

/*
 * Packs the key for the hash table: kind, namespace, zero byte, name, zero byte. Returns the size
 * or -ENAMETOOLONG.
 */
static int pack_key(struct queue_key key, char ret[static BYTES_MAX])
{
	const size_t n_ns = strlen(key.ns) + 1, n_name = strlen(key.name) + 1;

	if (n_ns > QUEUE_NAME || n_name > QUEUE_NAME)
		return -ENAMETOOLONG;
	memcpy(ret, &key.kind, sizeof(key.kind));
	memcpy(ret + sizeof(key.kind), key.ns, n_ns);
	memcpy(ret + sizeof(key.kind) + n_ns, key.name, n_name);
	return (int)(sizeof(key.kind) + n_ns + n_name);
}

static struct item *queue_find_item(struct queue *q, struct queue_key key)
{
	char bytes[BYTES_MAX];
	const int n = pack_key(key, bytes);
	struct item *item = NULL;

	if (n > 0)
		HASH_FIND(hh, q->items, bytes, (size_t)n, item);
	return item;
}

static void queue_take_item(struct queue *q, struct item *item)
{
	if (item->place == READY)
		TAILQ_REMOVE(&q->ready, item, link);
	else if (item->place == LATER)
		TAILQ_REMOVE(&q->later, item, link);
	item->place = IDLE;
}

static void queue_put_item(struct queue *q, struct item *item, enum place place)
{
	queue_take_item(q, item);
	item->place = place;
	if (place == READY)
		TAILQ_INSERT_TAIL(&q->ready, item, link);
	else
		TAILQ_INSERT_TAIL(&q->later, item, link);
}

static int find_or_make(struct queue *q, struct queue_key key, struct item **ret)
{
	struct item *item = queue_find_item(q, key);
	char bytes[BYTES_MAX];
	const int n = pack_key(key, bytes);

	if (n < 0)
		return n;
	if (!item) {
		item = calloc(1, sizeof(*item) + (size_t)n);
		if (!item)
			return -ENOMEM;
		memcpy(item->bytes, bytes, (size_t)n);
		item->key.kind = key.kind;
		item->key.ns = item->bytes + sizeof(key.kind);
		item->key.name = item->key.ns + strlen(key.ns) + 1;
		item->backoff = (struct backoff){QUEUE_RETRY_NS, QUEUE_RETRY_MAX_NS, 0};
		HASH_ADD_KEYPTR(hh, q->items, item->bytes, (size_t)n, item);
	}
	*ret = item;
	return 0;
}

int queue_add(struct queue *queue, struct queue_key key)
{
	struct item *item;
	int r = find_or_make(queue, key, &item);

	if (r < 0)
		return r;
	queue->counts.n_added++;
	if (item->is_running)
		item->is_again = true;
	else if (item->place != READY)
		queue_put_item(queue, item, READY);
	return 0;
}

int queue_add_at(struct queue *queue, struct queue_key key, uint64_t due_ns)
{
	struct item *item;
	int r = find_or_make(queue, key, &item);

	if (r < 0)
		return r;
	if (item->place == READY || (item->place == LATER && item->due_ns <= due_ns))
		return 0;
	item->due_ns = due_ns;
	queue_put_item(queue, item, LATER);
	return 0;
}

static void queue_ripen_items(struct queue *q, uint64_t now_ns)
{
	struct item *item = TAILQ_FIRST(&q->later), *next;

	for (; item; item = next) {
		next = TAILQ_NEXT(item, link);
		if (item->due_ns <= now_ns && !item->is_running)
			queue_put_item(q, item, READY);
	}
}

const struct queue_key *queue_take(struct queue *queue, uint64_t now_ns)
{
	struct item *item;

	queue_ripen_items(queue, now_ns);
	item = TAILQ_FIRST(&queue->ready);
	if (!item)
		return NULL;
	queue_take_item(queue, item);
	item->is_running = true;
	queue->counts.n_taken++;
	queue->counts.n_running++;
	return &item->key;
}

void queue_done(struct queue *queue, struct queue_key key, bool has_failed, uint64_t now_ns)
{
	struct item *item = queue_find_item(queue, key);

	if (!item || !item->is_running)
		return;
	item->is_running = false;
	queue->counts.n_running--;
	if (has_failed) {
		queue->counts.n_failed++;
		item->due_ns = clock_add_ns(now_ns, backoff_next_ns(&item->backoff, &queue->rand));
		item->is_again = false;
		queue_put_item(queue, item, LATER);
		return;
	}
	backoff_reset(&item->backoff);
	if (item->is_again) {
		item->is_again = false;
		queue_put_item(queue, item, READY);
	} else if (item->place == IDLE) {
		HASH_DEL(queue->items, item);
		free(item);
	}
}

uint64_t queue_next_ns(const struct queue *queue)
{
	uint64_t next = CLOCK_NEVER;
	const struct item *item;

	if (!TAILQ_EMPTY(&queue->ready))
		return 0;
	TAILQ_FOREACH(item, &queue->later, link)
		if (item->due_ns < next && !item->is_running)
			next = item->due_ns;
	return next;
}

struct queue_counts queue_counts(const struct queue *queue)
{
	struct queue_counts counts = queue->counts;
	const struct item *item;

	counts.n_waiting = 0;
	TAILQ_FOREACH(item, &queue->ready, link)
		counts.n_waiting++;
	TAILQ_FOREACH(item, &queue->later, link)
		counts.n_waiting++;
	return counts;
}
