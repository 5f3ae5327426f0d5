/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On which streams something waits for what may come later, and where captures began. A stream that
 * has a number is another one in each context, and CU_STREAM_PER_THREAD in each thread besides.
 */
#include "base/cleanup.h"
#include "remote/client.h"

struct stream {
	CUstream handle;
	CUcontext context; /* of one with a number */
	uint64_t thread;   /* of CU_STREAM_PER_THREAD */
};

struct streams {
	struct stream stream[32];
	_Atomic size_t n;      /* both are read without the lock */
	_Atomic bool has_more; /* there were more: nobody knows which */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct streams waiting, capturing;
static __thread CUcontext current; /* NULL: it has to be asked for */

/* ---- which one it is ---- */

void context_is(CUcontext context)
{
	current = context;
}

static CUcontext own_context(void)
{
	if (!current && cuCtxGetCurrent(&current) != CUDA_SUCCESS)
		current = NULL;
	return current;
}

/* Never again, not even after its end. */
static uint64_t own_thread(void)
{
	static _Atomic uint64_t threads;
	static __thread uint64_t own;

	if (!own)
		own = atomic_fetch_add(&threads, 1) + 1;
	return own;
}

static struct stream stream_of(CUstream handle)
{
	if ((uintptr_t)handle > (uintptr_t)CU_STREAM_PER_THREAD)
		return (struct stream){.handle = handle};
	return (struct stream){handle ? handle : CU_STREAM_LEGACY, own_context(),
		handle == CU_STREAM_PER_THREAD ? own_thread() : 0};
}

static bool is_same(const struct stream *a, const void *p)
{
	const struct stream *b = p;

	return a->handle == b->handle && a->context == b->context && a->thread == b->thread;
}

/* ---- the lists ---- */

static void add(struct streams *s, CUstream handle)
{
	const struct stream stream = stream_of(handle);
	size_t i = 0;

	pthread_mutex_lock(&lock);
	while (i < s->n && !is_same(&s->stream[i], &stream))
		i++;
	if (i == ARRAY_SIZE(s->stream))
		s->has_more = true;
	else if (i == s->n)
		s->stream[s->n++] = stream;
	pthread_mutex_unlock(&lock);
}

static void remove_all(
	struct streams *s, bool (*is)(const struct stream *, const void *), const void *what)
{
	pthread_mutex_lock(&lock);
	for (size_t i = s->n; i-- > 0;)
		if (is(&s->stream[i], what))
			s->stream[i] = s->stream[--s->n];
	pthread_mutex_unlock(&lock);
}

static void leave(struct streams *s, CUstream handle)
{
	struct stream stream;

	if (!s->n)
		return;
	stream = stream_of(handle);
	remove_all(s, is_same, &stream);
}

static bool is_any(const struct streams *s)
{
	return s->n || s->has_more;
}

static bool is_of(const struct stream *stream, const void *context)
{
	return stream->context == context;
}

void context_gone(CUcontext context)
{
	context_is(NULL);
	if (context) {
		remove_all(&waiting, is_of, context);
		remove_all(&capturing, is_of, context);
	}
	layouts_forget();
}

/* ---- captures ---- */

bool is_capturing(void)
{
	return is_any(&capturing);
}

/* Others join a capture by its events: the driver alone knows who. */
bool is_captured_on(CUstream stream)
{
	CUstreamCaptureStatus status;

	return is_capturing() && cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
		status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void capture_began(CUstream stream)
{
	add(&capturing, stream);
}

/* Also where that fails, but for a thread that may not end it. */
void capture_ended(CUstream stream, CUresult r)
{
	if (r != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
		leave(&capturing, stream);
}

void stream_gone(CUstream stream)
{
	query_forget((uintptr_t)stream);
	leave(&capturing, stream);
}

/* ---- what may still change the program's memory ---- */

void stream_waits(CUstream stream)
{
	add(&waiting, stream);
}

void stream_done(CUstream stream)
{
	leave(&waiting, stream);
}

bool is_hazardous(void)
{
	return work_writes() || is_any(&waiting);
}
