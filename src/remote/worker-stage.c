/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page-locked memory of the worker, through which data passes between the program and the device.
 * Data that came with a call has a stage of its own until its copy is complete. Such stages have
 * STAGES_MAX bytes in total, which the program knows and counts. Data beyond this limit gets a
 * stage that is not counted, and the call with the data waits. All copies of a stream that fetch or
 * bring data when the stream reaches them use one stage in turn. Any lane's thread.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "remote/numbered.h"
#include "remote/worker.h"

#define STAGES_MAX ((uint64_t)REMOTE_STAGES * REMOTE_STAGE)
#define STAGES_KEPT (3 * STAGES_MAX) /* most bytes of the counted and the free stages */
#define STAGES_BOUND (8ull << 30)    /* most bytes of all stages together */
#define LOOK_NS 100000

/*
 * Identifies a stream. The handles CU_STREAM_LEGACY and CU_STREAM_PER_THREAD mean another stream in
 * each context, and CU_STREAM_PER_THREAD also in each thread (numbered.h).
 */
struct line {
	CUstream stream; /* NULL: no stream */
	CUcontext context;
	uint64_t thread;
};

struct stage {
	struct stage *next; /* in one of the lists below */
	uint8_t *p;
	size_t room;
	struct behind behind; /* the stage is free once this work is complete */
	bool is_later;        /* the stage does not count against STAGES_MAX */
	bool is_beyond;       /* from stage_beyond(); is_later is then true, too */
	struct line line;
};

static struct {
	pthread_mutex_t lock;
	struct stage *free, *busy; /* busy: in use until `behind` is complete; latest first */
	size_t bytes;              /* bytes of all stages */
	/*
	 * Bytes of the stages in use. along: from stage_get(), which the program counts against
	 * STAGES_MAX; later: all other bytes; beyond: the part of `later` from stage_beyond(),
	 * for calls that found STAGES_MAX used up.
	 */
	size_t along, later, beyond;
	/* list of the stages that graphs no longer need; used without the lock */
	struct stage *_Atomic returned;
	/* blocks of REMOTE_STAGE bytes that became free since the session began, modulo 2^32 */
	_Atomic uint32_t released;
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

/* The caller holds the lock. */
static void count_out(struct stage *s)
{
	if (s->is_later) {
		stages.later -= s->room;
		stages.beyond -= s->is_beyond ? s->room : 0;
	} else {
		stages.along -= s->room;
		stage_released((uint32_t)(s->room / REMOTE_STAGE));
	}
	s->is_later = s->is_beyond = false;
}

/* The caller holds the lock. */
static void stage_set_free(struct stage *s)
{
	count_out(s);
	s->line = (struct line){0};
	s->next = stages.free;
	stages.free = s;
}

/* The caller holds the lock. Frees the stages whose stream or graph is done with them. */
static void stage_reclaim_done(void)
{
	for (struct stage *s = atomic_exchange(&stages.returned, NULL), *next; s; s = next) {
		next = s->next;
		stage_set_free(s);
	}
	for (struct stage **at = &stages.busy, *s; (s = *at);) {
		if (!behind_is_over(&s->behind)) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		stage_set_free(s);
	}
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
	/* Locks the memory if possible. Copies through unlocked memory are only slower. */
	driver.cuMemHostRegister_v2(p, room, CU_MEMHOSTREGISTER_PORTABLE);
	return s;
}

/*
 * The caller holds the lock; it is released while the driver may wait for streams. Frees unused
 * stages, to make room for other sizes.
 */
static void stage_trim_free(void)
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

/* The caller holds the lock. */
static struct stage *take_free(size_t room)
{
	struct stage *s;

	stage_reclaim_done();
	for (struct stage **at = &stages.free; (s = *at); at = &s->next)
		if (s->room == room) {
			*at = s->next;
			return s;
		}
	return NULL;
}

/*
 * The caller holds the lock. Takes a free stage of `room` bytes, or else makes one. If the new
 * stage would exceed a limit, first frees the unused stages of other sizes.
 */
static struct stage *stage_take_any(size_t room, size_t counted, size_t most)
{
	struct stage *s = take_free(room);

	if (s)
		return s;
	if (counted + room > most && stages.free)
		stage_trim_free();
	s = stages.bytes + room <= STAGES_BOUND ? stage_new(room) : NULL;
	stages.bytes += s ? room : 0;
	return s;
}

struct stage *stage_get(size_t bytes)
{
	const size_t room = remote_stage_room(bytes);
	struct stage *s = NULL;

	pthread_mutex_lock(&stages.lock);
	stage_reclaim_done();
	if (stages.along + room <= STAGES_MAX) {
		s = stage_take_any(room, stages.bytes - stages.later, STAGES_KEPT);
		stages.along += s ? room : 0;
	}
	pthread_mutex_unlock(&stages.lock);
	return s;
}

/* ---- stages of streams ---- */

static struct line stage_stream_line(CUstream stream)
{
	struct line line = {.stream = stream ? stream : CU_STREAM_LEGACY};

	if (!stream_has_number(stream))
		return line;
	line.thread = stream_thread(stream);
	if (driver.cuCtxGetCurrent(&line.context))
		line.stream = NULL;
	return line;
}

static bool stage_is_same_line(const struct line *a, const struct line *b)
{
	return a->stream && a->stream == b->stream && a->context == b->context &&
		a->thread == b->thread;
}

static struct stage *get_later(const struct line *line, size_t bytes, bool is_beyond)
{
	const size_t room = remote_stage_room(bytes);
	struct stage *s;

	pthread_mutex_lock(&stages.lock);
	for (struct stage **at = &stages.busy; (s = *at); at = &s->next)
		if (stage_is_same_line(&s->line, line) && s->room >= room) {
			behind_forget(&s->behind);
			*at = s->next;
			break;
		}
	if (!s) {
		s = stage_take_any(room, stages.bytes, STAGES_BOUND);
		stages.later += s ? room : 0;
	}
	if (s) {
		s->is_later = true;
		s->is_beyond = is_beyond;
		s->line = *line;
		stages.beyond += is_beyond ? s->room : 0;
	}
	pthread_mutex_unlock(&stages.lock);
	return s;
}

struct stage *stage_of_stream(CUstream stream, size_t bytes)
{
	const struct line line = stage_stream_line(stream);

	return get_later(&line, bytes, false);
}

struct stage *stage_of_graph(size_t bytes)
{
	return get_later(&(struct line){0}, bytes, false);
}

struct stage *stage_beyond(size_t bytes)
{
	return get_later(&(struct line){0}, bytes, true);
}

void stage_becomes_a_graphs(struct stage *s)
{
	pthread_mutex_lock(&stages.lock);
	count_out(s);
	stages.later += s->room;
	s->is_later = true;
	pthread_mutex_unlock(&stages.lock);
}

/* Detaches the stages from the stream, because another stream may get the same handle later. */
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

static void set_behind(struct stage *s, CUstream stream)
{
	s->behind = behind_stream(stream);
	if (!s->behind.event)
		driver.cuStreamSynchronize(stream);
}

static void set_busy(struct stage *s)
{
	pthread_mutex_lock(&stages.lock);
	s->next = stages.busy;
	stages.busy = s;
	pthread_mutex_unlock(&stages.lock);
}

void stage_release_after(struct stage *s, CUstream stream)
{
	set_behind(s, stream);
	set_busy(s);
}

static bool stage_is_full(void)
{
	bool is;

	pthread_mutex_lock(&stages.lock);
	stage_reclaim_done();
	is = stages.along + stages.beyond > STAGES_MAX;
	pthread_mutex_unlock(&stages.lock);
	return is;
}

void stage_release_awaited(struct stage *s, CUstream stream)
{
	const struct timespec nap = {.tv_nsec = LOOK_NS};

	set_behind(s, stream);
	while (!behind_is_over(&s->behind) && stage_is_full())
		nanosleep(&nap, NULL);
	set_busy(s);
}
