/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image store: see store.h. An entry is complete before it is counted, and never changes
 * afterwards. A worker that dies while adding an entry leaves only unused room.
 */
#include "remote/store.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/fd.h"

#define ENTRIES 1024u

struct entry {
	uint8_t hash[SHA256_BYTES];
	uint64_t at, bytes;
};

struct head {
	pthread_mutex_t lock; /* for writers */
	_Atomic uint64_t n;
	uint64_t used; /* used bytes of the store, including the head */
	struct entry entry[ENTRIES];
};

static struct head *store;

int store_new(void)
{
	_cleanup_close_ int fd = memfd_new("divvy-remote-store", STORE_BYTES);
	_cleanup_map_ struct map map = MAP_NONE;
	pthread_mutexattr_t attr;
	struct head *head;
	int r = fd < 0 ? fd : memfd_seal(fd, F_SEAL_SHRINK | F_SEAL_GROW);

	if (r >= 0)
		r = map_fd(fd, sizeof(*head), PROT_READ | PROT_WRITE, &map);
	if (r < 0)
		return r;
	head = map.p;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	r = -pthread_mutex_init(&head->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	head->used = (sizeof(*head) + 4095) & ~4095ull;
	return r < 0 ? r : TAKE_FD(fd);
}

int store_open(int fd)
{
	struct map map = MAP_NONE;
	int r = memfd_has_seals(fd, F_SEAL_SHRINK) ? 0 : -EINVAL;

	if (r == 0)
		r = map_fd(fd, STORE_BYTES, PROT_READ | PROT_WRITE, &map);
	if (r == 0)
		store = map.p;
	return r;
}

const uint8_t *store_find(const uint8_t hash[SHA256_BYTES], size_t *ret_bytes)
{
	/* pairs with the release in store_add() */
	const uint64_t n = store ? atomic_load_explicit(&store->n, memory_order_acquire) : 0;

	for (uint64_t i = 0; i < n && i < ENTRIES; i++) {
		const struct entry *e = &store->entry[i];

		if (memcmp(e->hash, hash, SHA256_BYTES) != 0 || e->at > STORE_BYTES ||
			e->bytes > STORE_BYTES - e->at)
			continue;
		*ret_bytes = e->bytes;
		return (const uint8_t *)store + e->at;
	}
	return NULL;
}

void store_add(const uint8_t hash[SHA256_BYTES], const void *p, size_t n)
{
	struct entry *e;
	uint64_t count;
	size_t bytes;

	if (!store)
		return;
	if (pthread_mutex_lock(&store->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&store->lock);
	count = atomic_load_explicit(&store->n, memory_order_relaxed);
	if (count < ENTRIES && store->used <= STORE_BYTES && n <= STORE_BYTES - store->used &&
		!store_find(hash, &bytes)) {
		e = &store->entry[count];
		e->at = store->used;
		e->bytes = n;
		memcpy(e->hash, hash, SHA256_BYTES);
		store->used += (n + 63) & ~63ull;
		memcpy((uint8_t *)store + e->at, p, n);
		atomic_store_explicit(&store->n, count + 1, memory_order_release);
	}
	pthread_mutex_unlock(&store->lock);
}
