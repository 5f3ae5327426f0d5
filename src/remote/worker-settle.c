/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts how many posted calls of a lane are complete. From time to time the lane records an event
 * behind the work of each stream that it has used. If a thread has posted more calls than a
 * driver's queue takes, it waits for these events in its own lane. In the driver, other threads
 * would wait too. A lane's thread.
 */
#include <time.h>

#include "remote/worker.h"

#define LOOK_NS 20000

/* Makes no event if it would become part of a capture, or end the capture. */
static struct behind mark_stream(struct serve *s, uint64_t handle)
{
	CUstream const stream = (CUstream)(uintptr_t)handle_real(s, KIND_CUstream, handle);
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (s->error || driver.cuStreamIsCapturing(stream, &status) ||
		status != CU_STREAM_CAPTURE_STATUS_NONE)
		return (struct behind){NULL};
	return behind_stream(stream);
}

static void forget_first(struct settling *g)
{
	struct mark *m = &g->mark[g->first];

	for (unsigned i = 0; i < m->n; i++)
		behind_forget(&m->behind[i]);
	g->settled = m->at;
	g->first = (g->first + 1) % MARKS;
	g->n--;
}

static bool is_reached(struct mark *m)
{
	for (unsigned i = 0; i < m->n; i++)
		if (!behind_is_over(&m->behind[i]))
			return false;
	return true;
}

static void settling_check(struct settling *g)
{
	while (g->n && is_reached(&g->mark[g->first]))
		forget_first(g);
	if (!g->n && !g->n_streams)
		g->settled = g->posted;
}

static void set_mark(struct serve *s)
{
	struct settling *g = &s->settling;
	const CUresult before = s->error;
	struct mark *m;

	/* look_begin() keeps other lanes from ending the streams that this lane has used. */
	if (g->n == MARKS || !look_begin())
		return;
	m = &g->mark[(g->first + g->n++) % MARKS];
	*m = (struct mark){.at = g->posted};
	/*
	 * If a context has ended since the first of these streams was noted, streams of the context
	 * have ended too. The handles do not show which ones, so the mark then leaves out all
	 * streams.
	 */
	for (unsigned i = 0; i < g->n_streams && g->ends == ends_so_far(); i++) {
		s->error = CUDA_SUCCESS;
		m->behind[m->n] = mark_stream(s, g->stream[i]);
		m->n += m->behind[m->n].event != NULL;
	}
	look_done();
	s->error = before;
	g->n_streams = 0;
	g->marked = g->posted;
}

static bool settling_is_stream_noted(const struct settling *g, uint64_t stream)
{
	for (unsigned i = 0; i < g->n_streams; i++)
		if (g->stream[i] == stream)
			return true;
	return false;
}

void settling_posted(struct serve *s)
{
	struct settling *g = &s->settling;
	const bool is_new = s->has_stream && !settling_is_stream_noted(g, s->stream);
	CUstreamCaptureMode mode;

	g->posted++;
	if (is_new && g->n_streams == 0)
		g->ends = ends_so_far();
	if (is_new && g->n_streams < MARK_STREAMS)
		g->stream[g->n_streams++] = s->stream;
	if (g->posted - g->marked < MARK_EACH && g->n_streams < MARK_STREAMS)
		return;
	mode = capture_relax(CU_STREAM_CAPTURE_MODE_RELAXED);
	settling_check(g);
	set_mark(s);
	capture_relax(mode);
}

void settling_done(struct serve *s)
{
	while (s->settling.n)
		forget_first(&s->settling);
}

CUresult serve_settled(struct serve *s)
{
	const struct timespec nap = {.tv_nsec = LOOK_NS};
	struct settling *g = &s->settling;
	const uint64_t most = take_u64(s);
	CUstreamCaptureMode mode;

	if (s->error)
		return s->error;
	mode = capture_relax(CU_STREAM_CAPTURE_MODE_RELAXED);
	for (settling_check(g); g->n && g->posted - g->settled > most; settling_check(g))
		nanosleep(&nap, NULL);
	capture_relax(mode);
	give(s, &g->settled, sizeof(g->settled));
	return CUDA_SUCCESS;
}
