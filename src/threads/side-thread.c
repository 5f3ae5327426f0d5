/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file starts threads of the daemon. All signals are blocked while the thread is created, so
 * the thread inherits that mask; the caller's mask is restored. The thread gets SCHED_OTHER,
 * whatever the loop's thread has.
 */
#include "threads/side-thread.h"

#include <sched.h>
#include <signal.h>

int side_thread_start(
	void *(*main)(void *data), void *data, size_t stack_bytes, pthread_t *ret_thread)
{
	struct sched_param ordinary = {0};
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, stack_bytes);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
	pthread_attr_setschedparam(&attr, &ordinary);
	if (!ret_thread)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attr, main, data);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r == 0 && ret_thread)
		*ret_thread = thread;
	return -r;
}
