/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory between that of the program and the device, which the driver has locked. What came along
 * with a call has a piece of its own until its copy is over; of those there are STAGES_MAX, which
 * the program knows: a caller that is more waits. What a stream fetches, or brings, when it gets
 * there has a piece that all such copies of the stream use in turn, and nobody waits for: the
 * stream may wait for the caller.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "remote/numbered.h"
#include "remote/worker.h"

#define STAGES_MAX ((uint64_t)REMOTE_STAGES * REMOTE_STAGE)
#define STAGES_KEPT (3 * STAGES_MAX) /* with those that are free, but of another size */
#define STAGES_BOUND (8ull << 30)    /* with those of streams and graphs */
#define LOOK_NS 100000

/* Streams that have numbers are others in each context, or thread. */
struct line {
	CUstream stream; /* NULL: of none */
	CUcontext context;
	uint64_t thread;
};

struct stage {
	struct stage *next; /* of one of the lists below */
	uint8_t *p;
	size_t room;
	CUevent event; /* free once it is over */
	bool is_later; /* not of STAGES_MAX */
	struct line line;
};

static struct {
	pthread_mutex_t lock;
	struct stage *free, *busy;      /* busy: with an event, the latest first */
	size_t bytes, later, along;     /* all; those of streams and graphs; with what came along */
	struct stage *_Atomic returned; /* by graphs; without the lock */
	_Atomic uint32_t released;      /* units */
} stages = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint8_t *stage_memory(struct stage *s)
{
	return s->p;
}

/* ---- lists ---- */

void stage_return(struct stage *s)
{
	s->next = atomic_load(&stages.returned);
	while (!atomic_compare_exchange_weak(&stages.returned, &s->next, s))
		;
}

void stage_released(uint32_t units)
{
	atomic_fetch_add_explicit(&stages.released, units, memory_order_relaxed);
}

uint32_t stages_released(void)
{
	return atomic_load_explicit(&stages.released, memory_order_relaxed) & INT32_MAX;
}

/* With the lock held. */
static void set_free(struct stage *s)
{
	if (s->is_later) {
		stages.later -= s->room;
	} else {
		stages.along -= s->room;
		stage_released((uint32_t)(s->room / REMOTE_STAGE));
	}
	s->is_later = false;
	s->line = (struct line){0};
	s->next = stages.free;
	stages.free = s;
}

/* With the lock held: what its stream, or its graph, is done with is free again. */
static void reclaim(void)
{
	for (struct stage *s = atomic_exchange(&stages.returned, NULL), *next; s; s = next) {
		next = s->next;
		set_free(s);
	}
	for (struct stage **at = &stages.busy, *s; (s = *at);) {
		if (driver.cuEventQuery(s->event) == CUDA_ERROR_NOT_READY) {
			at = &s->next;
			continue;
		}
		driver.cuEventDestroy_v2(s->event);
		*at = s->next;
		set_free(s);
	}
}

/*
 * With the lock held, and without it while it waits: a stream may need it to get there. Nobody else
 * has the oldest one meanwhile. False: there is none to wait for.
 */
static bool await_oldest(void)
{
	struct stage **oldest = NULL, *s;

	for (struct stage **at = &stages.busy; *at; at = &(*at)->next)
		if (!(*at)->is_later)
			oldest = at;
	if (!oldest)
		return false;
	s = *oldest;
	*oldest = s->next;
	pthread_mutex_unlock(&stages.lock);
	driver.cuEventSynchronize(s->event);
	driver.cuEventDestroy_v2(s->event);
	pthread_mutex_lock(&stages.lock);
	set_free(s);
	return true;
}

static struct stage *stage_new(size_t room)
{
	struct stage *s = calloc(1, sizeof(*s));
	void *p;

	if (!s)
		return NULL;
	p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		free(s);
		return NULL;
	}
	s->p = p;
	s->room = room;
	/* Locked where that is possible; without, copies are only slower. */
	driver.cuMemHostRegister_v2(p, room, CU_MEMHOSTREGISTER_PORTABLE);
	return s;
}

/* As await_oldest(): room for others, of other sizes; the driver may wait for streams first. */
static void trim(void)
{
	struct stage *unused = stages.free;

	stages.free = NULL;
	for (struct stage *s = unused; s; s = s->next)
		stages.bytes -= s->room;
	pthread_mutex_unlock(&stages.lock);
	for (struct stage *next; unused; unused = next) {
		next = unused->next;
		driver.cuMemHostUnregister(unused->p);
		munmap(unused->p, unused->room);
		free(unused);
	}
	pthread_mutex_lock(&stages.lock);
}

/* With the lock held. */
static struct stage *take_free(size_t room)
{
	struct stage *s;

	reclaim();
	for (struct stage **at = &stages.free; (s = *at); at = &s->next)
		if (s->room == room) {
			*at = s->next;
			return s;
		}
	return NULL;
}

static struct stage *take_new(size_t room)
{
	struct stage *s = stages.bytes + room <= STAGES_BOUND ? stage_new(room) : NULL;

	stages.bytes += s ? room : 0;
	return s;
}

/* With the lock held: until there is room, or nobody has any that comes back. */
static void await_room(size_t room)
{
	const struct timespec nap = {.tv_nsec = LOOK_NS};

	reclaim();
	while (stages.along && stages.along + room > STAGES_MAX) {
		if (await_oldest())
			continue;
		/* Others wait for theirs, or have yet to fill them. */
		pthread_mutex_unlock(&stages.lock);
		nanosleep(&nap, NULL);
		pthread_mutex_lock(&stages.lock);
		reclaim();
	}
}

struct stage *stage_get(size_t bytes)
{
	const size_t room = remote_stage_room(bytes);
	struct stage *s;

	pthread_mutex_lock(&stages.lock);
	await_room(room);
	s = take_free(room);
	if (!s && stages.bytes - stages.later + room > STAGES_KEPT)
		trim();
	s = s ? s : take_new(room);
	stages.along += s ? room : 0;
	pthread_mutex_unlock(&stages.lock);
	return s;
}

void stages_await(uint64_t units)
{
	pthread_mutex_lock(&stages.lock);
	await_room(units < REMOTE_STAGES ? units * REMOTE_STAGE : STAGES_MAX);
	pthread_mutex_unlock(&stages.lock);
}

/* ---- those of streams ---- */

static struct line line_of(CUstream stream)
{
	struct line line = {.stream = stream ? stream : CU_STREAM_LEGACY};

	if (!stream_has_number(stream))
		return line;
	line.thread = stream_thread(stream);
	if (driver.cuCtxGetCurrent(&line.context))
		line.stream = NULL;
	return line;
}

static bool is_same(const struct line *a, const struct line *b)
{
	return a->stream && a->stream == b->stream && a->context == b->context &&
		a->thread == b->thread;
}

static struct stage *get_later(const struct line *line, size_t bytes)
{
	const size_t room = remote_stage_room(bytes);
	struct stage *s;

	pthread_mutex_lock(&stages.lock);
	for (struct stage **at = &stages.busy; (s = *at); at = &s->next)
		if (is_same(&s->line, line) && s->room >= room) {
			driver.cuEventDestroy_v2(s->event);
			*at = s->next;
			break;
		}
	if (!s) {
		s = take_free(room);
		if (!s && stages.bytes + room > STAGES_BOUND && stages.free)
			trim();
		s = s ? s : take_new(room);
		stages.later += s ? room : 0;
	}
	if (s) {
		s->is_later = true;
		s->line = *line;
	}
	pthread_mutex_unlock(&stages.lock);
	return s;
}

struct stage *stage_of_stream(CUstream stream, size_t bytes)
{
	const struct line line = line_of(stream);

	return get_later(&line, bytes);
}

struct stage *stage_of_graph(size_t bytes)
{
	return get_later(&(struct line){0}, bytes);
}

/* Another one may come to have its handle. */
CUresult stream_destroy(CUstream stream)
{
	pthread_mutex_lock(&stages.lock);
	for (struct stage *s = stages.busy; s; s = s->next)
		if (s->line.stream == stream)
			s->line.stream = NULL;
	pthread_mutex_unlock(&stages.lock);
	return driver.cuStreamDestroy_v2(stream);
}

CUstreamCaptureMode capture_relax(CUstreamCaptureMode mode)
{
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	return mode;
}

CUevent event_behind(CUstream stream)
{
	CUcontext context = NULL, before;
	CUevent event = NULL;

	if (!stream_has_number(stream) &&
		(driver.cuStreamGetCtx(stream, &context) || driver.cuCtxPushCurrent_v2(context)))
		return NULL;
	if (!driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) &&
		driver.cuEventRecord(event, stream)) {
		driver.cuEventDestroy_v2(event);
		event = NULL;
	}
	if (context)
		driver.cuCtxPopCurrent_v2(&before);
	return event;
}

void stage_release_after(struct stage *s, CUstream stream)
{
	s->event = event_behind(stream);
	if (!s->event) {
		driver.cuStreamSynchronize(stream);
		stage_return(s);
		return;
	}
	pthread_mutex_lock(&stages.lock);
	s->next = stages.busy;
	stages.busy = s;
	pthread_mutex_unlock(&stages.lock);
}
