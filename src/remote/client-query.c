/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries of events and streams. At the first query the client asks the worker, which from then on
 * watches an object that is not ready. Until the worker reports otherwise, the client itself
 * answers "not ready". So a program that polls costs no round trips.
 *
 * The known state is never older than the state that the program can know from other calls. So
 * after any answer or reverse frame, the next query asks the worker again. A completed event stays
 * complete until it is recorded again; a stream stays empty while nothing has been sent to the
 * worker. Any thread.
 */
#include <stdlib.h>

#include "remote/client.h"

#define QUERIES 1024u

enum query_state { QUERY_UNKNOWN, QUERY_PENDING, QUERY_DONE };

struct query {
	struct query *next;
	uint64_t handle;
	uint64_t stamp;    /* stamp_of() when the client asked for the state */
	uint64_t heard;    /* value of `heard` when the state was learned */
	uint64_t recorded; /* number of calls that recorded the event */
	enum query_state state;
};

static struct {
	pthread_mutex_t lock;
	struct query *bucket[QUERIES];
	uint64_t launched; /* number of launches of graphs; a graph may record any event */
} queries = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic uint64_t heard;

void query_heard(void)
{
	atomic_fetch_add(&heard, 1);
}

/* ---- functions that are called with the lock held ---- */

static struct query **query_find_place(uint64_t handle)
{
	struct query **at = &queries.bucket[(handle ^ handle >> 40) % QUERIES];

	while (*at && (*at)->handle != handle)
		at = &(*at)->next;
	return at;
}

static struct query *query_of(uint64_t handle)
{
	struct query **at = query_find_place(handle);

	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (*at)
			(*at)->handle = handle;
	}
	return *at;
}

/* Returns a number that grows with each call that may change the state of the event or stream. */
static uint64_t stamp_of(const struct query *q, bool is_stream)
{
	return is_stream ? session_posted() : q->recorded + queries.launched;
}

/* ---- changes of state ---- */

static void note_record(CUevent event)
{
	struct query *q;

	pthread_mutex_lock(&queries.lock);
	q = query_of((uintptr_t)event);
	if (q)
		q->recorded++;
	pthread_mutex_unlock(&queries.lock);
}

void event_recorded(CUevent event, CUstream stream)
{
	note_record(event);
	stream_records(stream, event);
}

void event_recorded_everywhere(CUevent event)
{
	note_record(event);
	stream_records_not(event);
}

void query_forget(uint64_t handle)
{
	struct query **at, *q;

	pthread_mutex_lock(&queries.lock);
	at = query_find_place(handle);
	q = *at;
	if (q)
		*at = q->next;
	pthread_mutex_unlock(&queries.lock);
	free(q);
}

void queries_forget(void)
{
	pthread_mutex_lock(&queries.lock);
	for (unsigned i = 0; i < QUERIES; i++)
		for (struct query *q = queries.bucket[i]; q; q = q->next)
			q->state = QUERY_UNKNOWN;
	pthread_mutex_unlock(&queries.lock);
}

void graph_launched(CUstream stream)
{
	pthread_mutex_lock(&queries.lock);
	queries.launched++;
	pthread_mutex_unlock(&queries.lock);
	stream_launches(stream);
}

void query_done(const struct remote_done *done)
{
	struct query *q;

	pthread_mutex_lock(&queries.lock);
	query_heard();
	q = *query_find_place(done->handle);
	if (q && q->state == QUERY_PENDING && q->stamp == done->stamp) {
		q->state = done->is_over ? QUERY_DONE : QUERY_UNKNOWN;
		q->heard = atomic_load(&heard);
	}
	pthread_mutex_unlock(&queries.lock);
}

/* ---- queries ---- */

static bool query_is_known(
	uint64_t handle, bool is_stream, uint64_t *ret_stamp, CUresult *ret_result)
{
	bool is = false;
	struct query *q;

	pthread_mutex_lock(&queries.lock);
	q = query_of(handle);
	*ret_stamp = q ? stamp_of(q, is_stream) : 0;
	if (q && q->state != QUERY_UNKNOWN && q->stamp == *ret_stamp) {
		*ret_result = q->state == QUERY_DONE ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
		is = q->heard == atomic_load(&heard) || (q->state == QUERY_DONE && !is_stream);
	}
	pthread_mutex_unlock(&queries.lock);
	return is;
}

/*
 * Called before the client sends the query: the worker's report on the reverse lane may arrive
 * before the answer.
 */
static void query_expect_result(uint64_t handle, uint64_t stamp, uint64_t now)
{
	struct query *q;

	pthread_mutex_lock(&queries.lock);
	q = *query_find_place(handle);
	if (q) {
		q->state = QUERY_PENDING;
		q->stamp = stamp;
		q->heard = now;
	}
	pthread_mutex_unlock(&queries.lock);
}

static void query_learn_result(uint64_t handle, uint64_t stamp, enum query_state state)
{
	struct query *q;

	pthread_mutex_lock(&queries.lock);
	q = *query_find_place(handle);
	if (q && q->state == QUERY_PENDING && q->stamp == stamp) {
		q->state = state;
		q->heard = atomic_load(&heard);
	}
	pthread_mutex_unlock(&queries.lock);
}

static CUresult query_ask_worker(unsigned op, uint64_t handle, bool is_stream)
{
	const uint64_t now = atomic_load(&heard);
	uint64_t stamp, watch, watched = 0;
	CUresult r = session_check();
	struct call c;

	if (r)
		return r;
	/*
	 * During a capture only the program may query streams and events, so the worker does not
	 * watch.
	 */
	watch = !is_capturing() && reverse_begin() == CUDA_SUCCESS;
	/*
	 * A numbered stream is a different stream in each context, so the client does not use a
	 * state that it knows.
	 */
	if (handle >> 48 && query_is_known(handle, is_stream, &stamp, &r))
		return r;
	r = call_begin(&c, op, 24);
	if (r)
		return r;
	if (!(handle >> 48))
		stamp = 0;
	call_put(&c, &handle, sizeof(handle));
	call_put(&c, &stamp, sizeof(stamp));
	call_put(&c, &watch, sizeof(watch));
	query_expect_result(handle, stamp, now);
	call_send(&c, REMOTE_SYNC);
	r = call_receive_quietly(&c);
	if (!call_take(&c, &watched, sizeof(watched)))
		watched = 0;
	call_end(&c);
	if (r != CUDA_ERROR_NOT_READY)
		query_heard();
	if (r != CUDA_ERROR_NOT_READY || !watched)
		query_learn_result(handle, stamp, r == CUDA_SUCCESS ? QUERY_DONE : QUERY_UNKNOWN);
	return r;
}

REMOTE_EXPORT CUresult cuEventQuery(CUevent hEvent)
{
	CUresult r;

	streams_now();
	r = query_ask_worker(REMOTE_OP_cuEventQuery, (uintptr_t)hEvent, false);
	if (!r)
		event_done(hEvent);
	return r;
}

REMOTE_EXPORT CUresult cuStreamQuery(CUstream hStream)
{
	CUresult r;

	streams_now();
	r = query_ask_worker(REMOTE_OP_cuStreamQuery, (uintptr_t)hStream, true);
	if (!r)
		stream_done(hStream);
	return r;
}
