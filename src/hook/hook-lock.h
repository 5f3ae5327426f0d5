/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock in one futex word, zero when free. The lock lies in memory that a fork wipes, so a child
 * never inherits a held lock. The lock does not need libpthread. For short sections only. Preserves
 * errno.
 */
#ifndef HOOK_HOOK_LOCK_H
#define HOOK_HOOK_LOCK_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct lock {
	_Atomic uint32_t word; /* 0 free, 1 held, 2 held with waiters */
};

/* Waits while *word == expected, at most timeout_ns (0: no bound). May return without a wake-up. */
static inline void lock_futex_wait(
	const _Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns, bool shared)
{
	int saved = errno;
	struct timespec ts = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};

	syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, expected,
		timeout_ns ? &ts : NULL, NULL, 0);
	errno = saved;
}

static inline void futex_wake(const _Atomic uint32_t *word, int n)
{
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
	errno = saved;
}

static inline bool lock_try(struct lock *lock)
{
	uint32_t free = 0;

	return atomic_compare_exchange_strong_explicit(
		&lock->word, &free, 1, memory_order_acquire, memory_order_relaxed);
}

static inline void lock_take(struct lock *lock)
{
	if (lock_try(lock))
		return;
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire))
		lock_futex_wait(&lock->word, 2, 0, false);
}

static inline void lock_drop(struct lock *lock)
{
	if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
		futex_wake(&lock->word, 1);
}

#endif
