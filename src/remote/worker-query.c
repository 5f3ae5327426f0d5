/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries: a thread watches each object that was not ready when the program asked, and reports its
 * completion on the reverse lane. The longer the completion takes, the less often the thread looks
 * (every 50 us to 1 ms). The thread looks only while it watches an object.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "remote/worker.h"

#define WATCHES_MAX 1024u
#define LOOK_MIN_NS (50 * NSEC_PER_USEC)
#define LOOK_MAX_NS NSEC_PER_MSEC

struct watch {
	struct remote_done said; /* the report to the program */
	CUevent event;           /* NULL: the watch is of `stream` */
	CUstream stream;
	CUcontext context;
	uint64_t since_ns;
};

static struct {
	/*
	 * Held while a thread asks the driver, so that no other thread destroys the object
	 * meanwhile.
	 */
	pthread_mutex_t lock;
	pthread_cond_t some;
	struct watch watch[WATCHES_MAX];
	size_t n;
	bool is_started;
} watches = {.lock = PTHREAD_MUTEX_INITIALIZER, .some = PTHREAD_COND_INITIALIZER};

static CUresult watch_query_driver(const struct watch *w)
{
	return w->event ? driver.cuEventQuery(w->event) : driver.cuStreamQuery(w->stream);
}

/* The caller holds the lock. */
static void watch_report(size_t i, bool is_over)
{
	struct remote_done done = watches.watch[i].said;

	done.is_over = is_over;
	watches.watch[i] = watches.watch[--watches.n];
	reverse_send_done(&done);
}

/* The caller holds the lock. Returns the time until the next look. */
static uint64_t watch_check_all(uint64_t now_ns)
{
	uint64_t wait_ns = LOOK_MAX_NS;

	for (size_t i = watches.n; i-- > 0;) {
		const struct watch *w = &watches.watch[i];
		const uint64_t sixteenth = (now_ns - w->since_ns) / 16;
		CUresult r;

		driver.cuCtxSetCurrent(w->context);
		r = watch_query_driver(w);
		if (r != CUDA_ERROR_NOT_READY)
			watch_report(i, r == CUDA_SUCCESS);
		else if (sixteenth < wait_ns)
			wait_ns = sixteenth < LOOK_MIN_NS ? LOOK_MIN_NS : sixteenth;
	}
	return wait_ns;
}

static void *watch_thread_main(void *unused)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	driver.cuThreadExchangeStreamCaptureMode(&mode);
	for (;;) {
		uint64_t wait_ns;

		pthread_mutex_lock(&watches.lock);
		while (watches.n == 0)
			pthread_cond_wait(&watches.some, &watches.lock);
		wait_ns = watch_check_all(clock_now_ns());
		pthread_mutex_unlock(&watches.lock);
		clock_sleep_until_ns(clock_now_ns() + wait_ns);
	}
	return NULL;
}

/* The caller holds the lock. */
static bool watch_start_thread(void)
{
	pthread_t thread;

	if (!watches.is_started && pthread_create(&thread, NULL, watch_thread_main, NULL) == 0) {
		pthread_detach(thread);
		watches.is_started = true;
	}
	return watches.is_started;
}

/* Returns whether the object is watched. */
static bool watch_add(const struct watch *w)
{
	bool is_there = false;
	size_t i = 0;

	pthread_mutex_lock(&watches.lock);
	/* A later query replaces an earlier one of the same object. */
	while (i < watches.n && watches.watch[i].said.handle != w->said.handle)
		i++;
	if (i < WATCHES_MAX && watch_start_thread()) {
		watches.watch[i] = *w;
		watches.n += i == watches.n;
		pthread_cond_signal(&watches.some);
		is_there = true;
	}
	pthread_mutex_unlock(&watches.lock);
	return is_there;
}

void watches_end(void)
{
	pthread_mutex_lock(&watches.lock);
	while (watches.n)
		watch_report(watches.n - 1, false);
	pthread_mutex_unlock(&watches.lock);
}

static CUresult watch_query(struct serve *s, enum kind kind)
{
	struct watch w = {.said.handle = take_u64(s)};
	const uint64_t real = handle_real(s, kind, w.said.handle);
	uint64_t should_watch, is_watched;
	CUresult r;

	w.said.stamp = take_u64(s);
	should_watch = take_u64(s);
	if (s->error)
		return s->error;
	if (kind == KIND_CUevent)
		w.event = (CUevent)(uintptr_t)real;
	else
		w.stream = (CUstream)(uintptr_t)real;
	if (kind == KIND_CUevent && !w.event)
		return CUDA_ERROR_INVALID_HANDLE;
	r = watch_query_driver(&w);
	w.since_ns = clock_now_ns();
	is_watched = r == CUDA_ERROR_NOT_READY && should_watch && w.said.handle >> 48 &&
		driver.cuCtxGetCurrent(&w.context) == CUDA_SUCCESS && watch_add(&w);
	give(s, &is_watched, sizeof(is_watched));
	return r;
}

CUresult serve_cuEventQuery(struct serve *s)
{
	return watch_query(s, KIND_CUevent);
}

CUresult serve_cuStreamQuery(struct serve *s)
{
	return watch_query(s, KIND_CUstream);
}
