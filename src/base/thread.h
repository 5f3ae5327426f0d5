/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For functions that run in threads of other people's programs. A program may cancel its thread
 * wherever libc waits; a lock that our function holds would then stay held for ever.
 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

static inline int thread_keep(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void thread_let_go(const int *before)
{
	pthread_setcancelstate(*before, NULL);
}

/* The calling thread is not cancelled until the block ends; a cancellation waits until then. */
#define NOT_CANCELLED \
	__attribute__((cleanup(thread_let_go), unused)) const int not_cancelled_ = thread_keep()

#endif
