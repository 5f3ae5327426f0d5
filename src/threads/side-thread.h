/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a thread beside the daemon's loop, with ordinary priority. All signals are blocked in it,
 * so the loop receives them. Call it in the loop's thread.
 */
#ifndef THREADS_SIDE_THREAD_H
#define THREADS_SIDE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/*
 * Runs main(data) in a new thread. The caller joins ret_thread; if it is NULL, the thread is
 * detached. Returns 0 or -errno.
 */
int side_thread_start(
	void *(*main)(void *data), void *data, size_t stack_bytes, pthread_t *ret_thread);

#endif
