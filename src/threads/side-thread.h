/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread beside the daemon's loop. It has ordinary priority, and no signals: those are the loop's
 * to take. The loop's thread calls this.
 */
#ifndef THREADS_SIDE_THREAD_H
#define THREADS_SIDE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/*
 * Runs main(data) in a new thread. The caller joins ret_thread; NULL: the thread is detached.
 * Returns 0 or -errno.
 */
int side_thread_start(
	void *(*main)(void *data), void *data, size_t stack_bytes, pthread_t *ret_thread);

#endif
