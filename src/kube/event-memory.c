/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remembers earlier Events and decides about new ones: see event.h. Three tables have at most
 * EVENT_KNOWN_MAX entries each; uthash keeps the order of use, so the least recently used entry is
 * replaced. Keys are hashes, which may collide. No I/O and no clock; one thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/str.h"
#include "kube/event.h"

/* An Event that was written before. key: hash of its object, type, reason and message. */
struct said {
	uint64_t key;
	char name[256];
	uint32_t count;
	uint64_t first_real_ns;
	UT_hash_handle hh;
};

/* The different messages so far for one object and reason. */
struct similar {
	uint64_t key;
	uint64_t since_ns;
	uint64_t messages[EVENT_SIMILAR_MAX];
	uint32_t n;
	UT_hash_handle hh;
};

/* How many Events one object may have now; grows with time. */
struct bucket {
	uint64_t key;
	uint64_t at_ns;
	uint64_t left_ns; /* budget: each Event takes EVENT_REFILL_NS */
	UT_hash_handle hh;
};

struct event_memory {
	struct said *said;
	struct similar *similar;
	struct bucket *buckets;
	uint64_t n_names;
};

/*
 * Finds the entry, or makes a new one; in a full table the new entry replaces the least recently
 * used one. The result becomes the most recently used entry. NULL when out of memory.
 */
#define RECALL(head, wanted, ret_is_new) \
	({ \
		typeof(head) _e = NULL; \
\
		HASH_FIND(hh, head, &(wanted), sizeof(uint64_t), _e); \
		*(ret_is_new) = !_e; \
		if (_e) { \
			HASH_DEL(head, _e); \
		} else if (HASH_COUNT(head) >= EVENT_KNOWN_MAX) { \
			_e = head; \
			HASH_DEL(head, _e); \
			memset(_e, 0, sizeof(*_e)); \
		} else { \
			_e = calloc(1, sizeof(*_e)); \
		} \
		if (_e) { \
			_e->key = (wanted); \
			HASH_ADD(hh, head, key, sizeof(uint64_t), _e); \
		} \
		_e; \
	})

#define FORGET_ALL(head) \
	do { \
		typeof(head) _e, _next; \
\
		HASH_ITER(hh, head, _e, _next) { \
			HASH_DEL(head, _e); \
			free(_e); \
		} \
	} while (0)

int event_memory_new(struct event_memory **ret_memory)
{
	*ret_memory = calloc(1, sizeof(**ret_memory));
	return *ret_memory ? 0 : -ENOMEM;
}

void event_memory_free(struct event_memory *memory)
{
	if (!memory)
		return;
	FORGET_ALL(memory->said);
	FORGET_ALL(memory->similar);
	FORGET_ALL(memory->buckets);
	free(memory);
}

static uint64_t object_key(const struct kube_event *e)
{
	uint64_t key = str_hash_text(STR_HASH_START, e->object.kind);

	key = str_hash_text(key, e->object.namespace_name);
	key = str_hash_text(key, e->object.name);
	return str_hash_text(key, e->object.uid);
}

/* Whether the object may have another Event. */
static bool event_memory_spend_token(struct event_memory *memory, uint64_t object, uint64_t now_ns)
{
	const uint64_t most_ns = EVENT_BURST * EVENT_REFILL_NS;
	bool is_new;
	struct bucket *bucket = RECALL(memory->buckets, object, &is_new);

	if (!bucket)
		return false;
	bucket->left_ns = is_new ? most_ns
				 : MIN(most_ns, bucket->left_ns + (now_ns - bucket->at_ns));
	bucket->at_ns = now_ns;
	if (bucket->left_ns < EVENT_REFILL_NS)
		return false;
	bucket->left_ns -= EVENT_REFILL_NS;
	return true;
}

/* Whether the reason has had EVENT_SIMILAR_MAX other messages within EVENT_SIMILAR_NS. */
static bool is_combined(
	struct event_memory *memory, uint64_t reason, uint64_t message, uint64_t now_ns)
{
	bool is_new;
	struct similar *similar = RECALL(memory->similar, reason, &is_new);

	if (!similar)
		return true;
	if (is_new || now_ns - similar->since_ns > EVENT_SIMILAR_NS) {
		similar->since_ns = now_ns;
		similar->n = 0;
	}
	for (uint32_t i = 0; i < similar->n; i++)
		if (similar->messages[i] == message)
			return false;
	if (similar->n == EVENT_SIMILAR_MAX)
		return true;
	similar->messages[similar->n++] = message;
	return false;
}

void event_decide(struct event_memory *memory, const struct kube_event *event, uint64_t now_ns,
	uint64_t real_ns, struct event_decision *ret)
{
	const uint64_t object = object_key(event);
	const uint64_t reason = str_hash_text(str_hash_text(object, event->type), event->reason);
	const uint64_t message = str_hash_text(reason, event->message);
	struct said *said;
	uint64_t key;
	bool is_new;

	*ret = (struct event_decision){.verdict = EVENT_DROPPED};
	if (!event_memory_spend_token(memory, object, now_ns))
		return;
	ret->is_combined = is_combined(memory, reason, message, now_ns);
	key = ret->is_combined ? reason : message;
	said = RECALL(memory->said, key, &is_new);
	if (!said)
		return;
	if (is_new) {
		said->first_real_ns = real_ns;
		snprintf(said->name, sizeof(said->name), "%.200s.%llx%03llx",
			event->object.name ? event->object.name : "none",
			(unsigned long long)real_ns,
			(unsigned long long)(memory->n_names++ & 0xfff));
	}
	said->count++;
	ret->verdict = is_new ? EVENT_NEW : EVENT_AGAIN;
	ret->count = said->count;
	ret->first_real_ns = said->first_real_ns;
	memcpy(ret->name, said->name, sizeof(ret->name));
}

void event_forget(struct event_memory *memory, const char *name)
{
	struct said *e, *next;

	HASH_ITER(hh, memory->said, e, next) {
		if (strcmp(e->name, name) != 0)
			continue;
		HASH_DEL(memory->said, e);
		free(e);
	}
}
