/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of programs that our libraries are loaded into. One may be cancelled wherever a function
 * of libc waits: what it holds of ours would stay as it is for ever.
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

/* Until the block ends the calling thread is not cancelled; a cancellation waits. */
#define NOT_CANCELLED \
	__attribute__((cleanup(thread_let_go), unused)) const int not_cancelled_ = thread_keep()

#endif
