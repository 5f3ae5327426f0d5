/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker thread: see thread-worker.h. One mutex guards two queues; an eventfd informs the loop
 * of finished jobs. The thread blocks all signals, so that the loop's signalfd receives them.
 * worker_leave() abandons a thread that does not end in time, with its memory.
 */
#include "threads/thread-worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "threads/side-thread.h"

/* Plugins of the name service are other people's code and may need much stack. */
#define STACK_BYTES (1u << 20)

STAILQ_HEAD(queue, worker_job);

struct worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct queue todo, finished;
	bool is_ending;
	int event_fd;
	struct loop_io io;
};

static struct worker_job *worker_queue_take(struct queue *q)
{
	struct worker_job *job = STAILQ_FIRST(q);

	if (job)
		STAILQ_REMOVE_HEAD(q, link);
	return job;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	const uint64_t one = 1;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct worker_job *job = worker_queue_take(&w->todo);

		if (!job) {
			if (w->is_ending)
				break;
			pthread_cond_wait(&w->wake, &w->lock);
			continue;
		}
		pthread_mutex_unlock(&w->lock);
		job->run(job);
		pthread_mutex_lock(&w->lock);
		STAILQ_INSERT_TAIL(&w->finished, job, link);
		if (write(w->event_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
			w->is_ending = true;
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void call_finished(struct worker *w)
{
	struct worker_job *job;

	for (;;) {
		pthread_mutex_lock(&w->lock);
		job = worker_queue_take(&w->finished);
		pthread_mutex_unlock(&w->lock);
		if (!job)
			return;
		job->done(job);
	}
}

static void worker_on_event(struct loop_io *io, uint32_t events)
{
	struct worker *w = io->data;
	uint64_t n;

	if (read(w->event_fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		return;
	call_finished(w);
}

int worker_new(struct loop *loop, struct worker **ret_worker)
{
	struct worker *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->event_fd < 0) {
		r = -errno;
		free(w);
		return r;
	}
	STAILQ_INIT(&w->todo);
	STAILQ_INIT(&w->finished);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, NULL);
	w->io.data = w;
	r = loop_add_io(loop, &w->io, w->event_fd, EPOLLIN, worker_on_event);
	if (r < 0) {
		close(w->event_fd);
		free(w);
		return r;
	}
	r = side_thread_start(worker_main, w, STACK_BYTES, &w->thread);
	if (r < 0) {
		loop_remove_io(&w->io);
		close(w->event_fd);
		free(w);
		return r;
	}
	*ret_worker = w;
	return 0;
}

void worker_submit(struct worker *w, struct worker_job *job)
{
	pthread_mutex_lock(&w->lock);
	STAILQ_INSERT_TAIL(&w->todo, job, link);
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
}

static void tell_to_end(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->is_ending = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
}

static void free_joined(struct worker *w)
{
	call_finished(w);
	loop_remove_io(&w->io);
	fd_close(w->event_fd);
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

void worker_free(struct worker *w)
{
	if (!w)
		return;
	tell_to_end(w);
	pthread_join(w->thread, NULL);
	free_joined(w);
}

void worker_leave(struct worker *w, unsigned int seconds)
{
	struct timespec until;

	if (!w)
		return;
	tell_to_end(w);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += seconds;
	if (pthread_timedjoin_np(w->thread, NULL, &until) == 0) {
		free_joined(w);
		return;
	}
	loop_remove_io(&w->io);
	pthread_detach(w->thread);
}
