/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes and the dispatch of requests: see worker.h. Any lane's thread. */
#include "remote/worker.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LOOK_MS 100u

struct driver driver;

static struct {
	_Atomic uint64_t posted;         /* number of POSTs carried out, in the program's order */
	struct remote_doorbell doorbell; /* for threads that wait for `posted` */
	_Atomic int failed;              /* error for the next SYNC */
} worker;

static bool worker_always(void *unused)
{
	return true;
}

const struct ring_watch worker_watch = {.goes_on = worker_always};

/* ---- the driver ---- */

static CUresult not_there(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

int driver_load(struct driver *d)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return -ENOENT;
#define CU(abi, since, variant, action, stream, params, args, ...) \
	d->abi = (PFN_##abi *)(uintptr_t)dlsym(library, #abi); \
	if (!d->abi) \
		d->abi = (PFN_##abi *)(uintptr_t)not_there;
#include "cuda/cuda.def"
#undef CU
	return 0;
}

/* ---- one request ---- */

/* Anonymous memory: the kernel adds pages only as they are used. */
static uint8_t *worker_buffer(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		-1, 0);

	return p == MAP_FAILED ? NULL : p;
}

int serve_init(struct serve *s)
{
	memset(s, 0, sizeof(*s));
	s->request = worker_buffer(REMOTE_FRAME_MAX);
	s->scratch = worker_buffer(REMOTE_FRAME_MAX);
	s->answer = worker_buffer(REMOTE_FRAME_MAX);
	return s->request && s->scratch && s->answer ? 0 : -ENOMEM;
}

void serve_done(struct serve *s)
{
	uint8_t *const all[] = {s->request, s->scratch, s->answer};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i])
			munmap(all[i], REMOTE_FRAME_MAX);
	serve_blob_done(s);
	serve_copy_done(s);
	settling_done(s);
}

static bool has_bulk(unsigned op)
{
	return op == REMOTE_COPY_IN || op == REMOTE_COPY_PART || op == REMOTE_BLOB;
}

static CUresult serve_function(struct serve *s, unsigned op)
{
	const unsigned traits = serve_traits[op];
	CUresult r;

	if (traits & SERVE_ENDS_STREAMS)
		end_begin();
	if (traits & SERVE_ENDS_WATCHES)
		watches_end();
	if (traits & SERVE_CHANGES_GRAPHS) {
		graphs_lock();
		graphs_used();
	}
	r = serve_table[op] ? serve_table[op](s) : CUDA_ERROR_NOT_SUPPORTED;
	if (traits & SERVE_CHANGES_GRAPHS)
		graphs_unlock();
	if (traits & SERVE_ENDS_STREAMS)
		end_done();
	if (traits & (SERVE_SETTLES_ALL | SERVE_SETTLES_MODULES))
		addresses_settle(traits & SERVE_SETTLES_ALL);
	return r;
}

static CUresult worker_serve_one(struct serve *s, unsigned op)
{
	if (op < REMOTE_OPS)
		return serve_function(s, op);
	switch (op) {
	case REMOTE_COPY_IN:
	case REMOTE_COPY_OUT:
	case REMOTE_COPY_FETCH:
	case REMOTE_COPY_PUSH: return serve_copy(s, op);
	case REMOTE_COPY_PART: return serve_copy_part(s);
	case REMOTE_COPY_REST: return serve_copy_rest(s);
	case REMOTE_WINDOW_IN:
	case REMOTE_WINDOW_OUT: return serve_window_copy(s, op);
	case REMOTE_WINDOW_OPEN: return serve_window_open(s);
	case REMOTE_WINDOW_CLOSE: return serve_window_close(s);
	case REMOTE_COPY_DEVICE: return serve_copy_device(s);
	case REMOTE_HOST_CALL: return serve_host_call(s);
	case REMOTE_SETTLED: return serve_settled(s);
	case REMOTE_SETTLE: return serve_settle(s);
	case REMOTE_LAYOUT: return serve_layout(s);
	case REMOTE_BLOB: return serve_blob(s);
	case REMOTE_BLOB_KNOWN: return serve_blob_known(s);
	case REMOTE_BLOB_NAMED: return serve_blob_named(s);
	case REMOTE_CLOSE: return CUDA_SUCCESS;
	default: return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CUresult worker_dispatch(struct serve *s, const struct remote_frame *head, const void *frame)
{
	const size_t n = head->size - sizeof(*head);

	s->data = (const uint8_t *)frame + sizeof(*head);
	s->error = CUDA_SUCCESS;
	memset(s->given, 0, sizeof(s->given));
	s->answers = head->flags & REMOTE_ANSWER;
	s->tells_before = head->flags & REMOTE_SYNC;
	s->has_answered = s->has_stream = false;
	s->n = sizeof(*head);
	s->room = s->scratch;
	s->room_end = s->scratch + REMOTE_FRAME_MAX;
	/* Copies only the fields before bulk data. */
	memcpy(s->request, s->data, has_bulk(head->op) && n > 256 ? 256 : n);
	s->in = s->request;
	s->in_end = s->request + n;
	return worker_serve_one(s, head->op);
}

/* ---- order among lanes ---- */

static void await_posted(uint64_t before)
{
	for (unsigned i = ring_spins(); i > 0; i--)
		/* pairs with the release in has_posted() */
		if (atomic_load_explicit(&worker.posted, memory_order_acquire) >= before)
			return;
	for (;;) {
		const uint32_t heard = doorbell_listen(&worker.doorbell);

		if (atomic_load_explicit(&worker.posted, memory_order_acquire) >= before) {
			doorbell_leave(&worker.doorbell);
			return;
		}
		doorbell_sleep(&worker.doorbell, heard, LOOK_MS);
	}
}

static void has_posted(uint64_t n)
{
	atomic_store_explicit(&worker.posted, n, memory_order_release);
	doorbell_ring(&worker.doorbell);
}

void worker_fail(CUresult error)
{
	int none = CUDA_SUCCESS;

	if (error)
		atomic_compare_exchange_strong(&worker.failed, &none, (int)error);
}

CUresult worker_failed(const struct serve *s)
{
	return s->tells_before ? (CUresult)atomic_exchange(&worker.failed, CUDA_SUCCESS)
			       : CUDA_SUCCESS;
}

/* ---- lanes ---- */

static struct {
	_Atomic bool is_open[REMOTE_LANES];
	_Atomic unsigned threads; /* also counts the threads of lanes that are closing */
} lanes;

bool worker_lane_opens(unsigned lane)
{
	return !atomic_exchange(&lanes.is_open[lane], true) &&
		atomic_fetch_add(&lanes.threads, 1) < 2 * REMOTE_LANES;
}

static void worker_answer(struct serve *s, CUresult result)
{
	const size_t bytes = (s->n + 15) & ~(size_t)15;
	struct remote_frame head = {.size = (uint32_t)bytes};
	void *frame = ring_reserve(&s->down, bytes, &worker_watch);

	if (!frame)
		return;
	head.result = (int32_t)result;
	head.asked = reverse_asked();
	head.released = stages_released();
	memcpy(s->answer, &head, sizeof(head));
	memcpy(frame, s->answer, s->n);
	ring_publish(&s->down, bytes);
}

static void serve_frame(struct serve *s, const struct remote_frame *head, const void *frame)
{
	CUresult r;

	await_posted(head->after);
	r = worker_dispatch(s, head, frame);
	/* Each request has at most one answer. */
	if (!s->has_answered) {
		const CUresult before = worker_failed(s);

		r = before ? before : r;
	}
	if (head->flags & REMOTE_POSTED) {
		has_posted(head->after + 1);
		settling_posted(s);
	}
	if (!s->answers)
		worker_fail(r);
	else if (!s->has_answered)
		worker_answer(s, r);
}

/* Serves one lane until its thread in the program ends. */
void *worker_lane(void *argument)
{
	struct serve *s = argument;
	struct remote_frame head;
	const void *frame;

	while (ring_next(&s->up, &worker_watch, &head, &frame) > 0) {
		const size_t size = head.size;
		const bool is_last = head.op == REMOTE_CLOSE;

		/* After the answer to this frame, another thread may use the lane. */
		if (is_last) {
			ring_consume(&s->up, size);
			atomic_store(&lanes.is_open[s->lane], false);
		}
		serve_frame(s, &head, frame);
		if (is_last)
			break;
		ring_consume(&s->up, size);
	}
	serve_done(s);
	free(s);
	atomic_fetch_sub(&lanes.threads, 1);
	return NULL;
}
