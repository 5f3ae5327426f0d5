/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own memory and functions. This file also reserves the addresses of device memory in
 * the program. When a stream reaches work on the program's memory, the worker sends a request, and
 * the reverse thread carries it out. The program's functions run in a thread of their own, so that
 * only later work of the same stream waits for them.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "base/thread.h"
#include "remote/client.h"

#define GRANULE (2ull << 20)
#define KEPT_BYTES \
	(16ull << 30)   /* most freed bytes that stay reserved for the driver's next allocations */
#define ALONE_LOOKS 10u /* looks, one each 100 ms, between two checks of the threads */

static struct ranges device = RANGES_INIT, reserved = RANGES_INIT;
static uint64_t reserved_bytes;
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- device memory ---- */

static bool client_host_reserve_range(uint64_t base, uint64_t end)
{
	void *at = mmap((void *)(uintptr_t)base, end - base, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (at == MAP_FAILED)
		return false;
	if ((uintptr_t)at == base && ranges_add(&reserved, base, end - base, 0) == 0) {
		reserved_bytes += end - base;
		return true;
	}
	/* a kernel without MAP_FIXED_NOREPLACE has mapped another address */
	munmap(at, end - base);
	return false;
}

static bool reserve_all(CUdeviceptr address, size_t bytes)
{
	const uint64_t end = (address + bytes + GRANULE - 1) & ~(GRANULE - 1);

	for (uint64_t at = address & ~(GRANULE - 1), stop; at < end; at = stop) {
		struct range there;

		if (ranges_find(&reserved, at, &there)) {
			stop = there.base + there.size;
			continue;
		}
		for (stop = at + GRANULE; stop < end && !ranges_find(&reserved, stop, NULL);)
			stop += GRANULE;
		if (!client_host_reserve_range(at, stop))
			return false;
	}
	return true;
}

bool device_given(CUdeviceptr address, size_t bytes, enum range_note note)
{
	bool is_ours;

	pthread_mutex_lock(&memory_lock);
	is_ours = reserve_all(address, bytes) &&
		ranges_add(&device, address, bytes ? bytes : 1, note) == 0;
	pthread_mutex_unlock(&memory_lock);
	return is_ours;
}

/* Releases the parts of the range in which no other memory lies. */
static void client_host_unreserve_range(const struct range *range)
{
	const uint64_t end = range->base + range->size;

	for (uint64_t at = range->base & ~(GRANULE - 1); at < end; at += GRANULE) {
		struct range there;

		if (!ranges_find(&reserved, at, &there) ||
			ranges_overlap(&device, there.base, there.size))
			continue;
		munmap((void *)(uintptr_t)there.base, there.size);
		ranges_remove(&reserved, there.base, NULL);
		reserved_bytes -= there.size;
	}
}

void device_of_graph(CUdeviceptr address)
{
	ranges_note(&device, address, RANGE_OF_GRAPH);
}

struct range device_taken(CUdeviceptr address)
{
	struct range range = {.size = 0};

	pthread_mutex_lock(&memory_lock);
	if (ranges_remove_but(&device, address, RANGE_OF_GRAPH, &range) &&
		reserved_bytes > KEPT_BYTES)
		client_host_unreserve_range(&range);
	pthread_mutex_unlock(&memory_lock);
	return range;
}

void device_back(const struct range *had)
{
	if (had->size)
		device_given(had->base, had->size, (enum range_note)had->note);
}

bool is_device(CUdeviceptr address)
{
	return ranges_find(&device, address, NULL);
}

bool device_reaches(const struct copy_place *p, uint64_t width, uint64_t height, uint64_t depth)
{
	return ranges_cover_copy(&device, p, width, height, depth);
}

bool is_reserved(CUdeviceptr address)
{
	return ranges_find(&reserved, address, NULL);
}

/* ---- boxes ---- */

typedef void (*part_fn)(uint8_t *at, uint8_t *packed, size_t bytes);

/* Calls fn for each part of a row that the packed bytes from `offset` to `offset + bytes` cover. */
static void box_walk(
	const struct box *box, size_t offset, uint8_t *packed, size_t bytes, part_fn fn)
{
	while (bytes) {
		const size_t x = offset % box->width, row = offset / box->width;
		const size_t n = box->width - x < bytes ? box->width - x : bytes;

		if (row / box->height >= box->depth)
			return;
		fn(box->base + row / box->height * box->slice + row % box->height * box->pitch + x,
			packed, n);
		offset += n;
		packed += n;
		bytes -= n;
	}
}

static void part_read(uint8_t *at, uint8_t *packed, size_t bytes)
{
	memcpy(packed, at, bytes);
}

static void part_write(uint8_t *at, uint8_t *packed, size_t bytes)
{
	memcpy(at, packed, bytes);
}

void box_read(const struct box *box, size_t offset, void *to, size_t bytes)
{
	box_walk(box, offset, to, bytes, part_read);
}

void box_write(const struct box *box, size_t offset, const void *from, size_t bytes)
{
	box_walk(box, offset, (uint8_t *)(uintptr_t)from, bytes, part_write);
}

static void box_move(const struct box *to, const struct box *from)
{
	for (size_t z = 0; z < to->depth; z++)
		for (size_t y = 0; y < to->height; y++)
			memmove(to->base + z * to->slice + y * to->pitch,
				from->base + z * from->slice + y * from->pitch, to->width);
}

/* ---- requests of the worker ---- */

#define WORKS_MAX (1u << 20)

struct function {
	struct function *next;
	struct work work;
	struct remote_reverse asked;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool is_started;
	struct ring up, down;
	struct work **work; /* indexed by name; NULL: free */
	uint64_t n, free_from;
	uint32_t answered; /* number of reverse frames handled, or given to the function thread */
	bool is_gone;      /* no more frames will come */
	pthread_mutex_t up_lock;
	/*
	 * Functions that the worker requested and that have not run, in order. The function thread
	 * starts when the first function is queued.
	 */
	struct function *functions, **functions_end;
	pthread_cond_t is_function;
	bool has_thread;
	/* number of struct work in flight that write to the program's memory */
	_Atomic uint64_t writers;
	/* taken before `lock`, while the program's memory is read or written */
	pthread_mutex_t touch_lock;
} host = {.lock = PTHREAD_MUTEX_INITIALIZER,
	.touch_lock = PTHREAD_MUTEX_INITIALIZER,
	.done = PTHREAD_COND_INITIALIZER,
	.up_lock = PTHREAD_MUTEX_INITIALIZER,
	.functions_end = &host.functions,
	.is_function = PTHREAD_COND_INITIALIZER};

bool work_get(uint64_t name, struct work *ret_work)
{
	bool is_there;

	pthread_mutex_lock(&host.lock);
	is_there = name < host.n && host.work[name];
	if (is_there)
		*ret_work = *host.work[name];
	pthread_mutex_unlock(&host.lock);
	return is_there;
}

static void work_forget(uint64_t name)
{
	pthread_mutex_lock(&host.lock);
	if (name < host.n && host.work[name]) {
		if (host.work[name]->is_once)
			atomic_fetch_sub(&host.writers, 1);
		free(host.work[name]);
		host.work[name] = NULL;
		if (name < host.free_from)
			host.free_from = name;
	}
	pthread_mutex_unlock(&host.lock);
}

static void client_host_answer_reverse(const struct remote_reverse *asked, const struct box *box)
{
	const size_t bytes = box ? asked->bytes : 0;
	struct remote_frame *frame;

	pthread_mutex_lock(&host.up_lock);
	frame = ring_reserve(&host.up, sizeof(*frame) + sizeof(*asked) + bytes, session_watch());
	if (frame) {
		*frame = (struct remote_frame){.op = box ? REMOTE_PULL : REMOTE_CALL};
		frame->size = (uint32_t)((sizeof(*frame) + sizeof(*asked) + bytes + 15) &
			~(size_t)15);
		memcpy(frame + 1, asked, sizeof(*asked));
		if (box)
			box_read(
				box, asked->offset, (uint8_t *)(frame + 1) + sizeof(*asked), bytes);
		ring_publish(&host.up, frame->size);
	}
	pthread_mutex_unlock(&host.up_lock);
}

/* ---- functions of the program ---- */

static void function_run(const struct work *work, const struct remote_reverse *asked)
{
	is_host_function = true;
	if (work->kind == WORK_CALL)
		work->fn(work->data);
	else
		work->callback(work->stream, (CUresult)asked->status, work->data);
	is_host_function = false;
	client_host_answer_reverse(asked, NULL);
	if (asked->is_last && asked->is_free)
		work_forget(asked->work);
}

static void *functions_main(void *unused)
{
	for (;;) {
		struct function *f;

		pthread_mutex_lock(&host.lock);
		while (!host.functions && !host.is_gone)
			pthread_cond_wait(&host.is_function, &host.lock);
		f = host.functions;
		if (f && !(host.functions = f->next))
			host.functions_end = &host.functions;
		pthread_mutex_unlock(&host.lock);
		if (!f)
			return NULL;
		function_run(&f->work, &f->asked);
		free(f);
	}
}

/* Blocks all signals, because the program's own threads must handle them. */
static bool thread_begin(void *(*fn)(void *))
{
	sigset_t all, before;
	pthread_t thread;
	int failed;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&thread, NULL, fn, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!failed)
		pthread_detach(thread);
	return !failed;
}

/*
 * Called by the reverse thread. If there is no memory for a queue entry, the function runs here,
 * and all other work waits.
 */
static void function_hand_over(const struct work *work, const struct remote_reverse *asked)
{
	struct function *f = malloc(sizeof(*f));

	if (f)
		*f = (struct function){NULL, *work, *asked};
	pthread_mutex_lock(&host.lock);
	if (f && !host.has_thread)
		host.has_thread = thread_begin(functions_main);
	if (f && host.has_thread) {
		*host.functions_end = f;
		host.functions_end = &f->next;
		pthread_cond_signal(&host.is_function);
		f = NULL;
		work = NULL;
	}
	pthread_mutex_unlock(&host.lock);
	if (work)
		function_run(work, asked);
	free(f);
}

/* ---- the reverse thread ---- */

static bool client_host_is_box_within(const struct box *box, const struct remote_reverse *asked)
{
	const size_t whole = box->width * box->height * box->depth;

	return asked->offset <= whole && asked->bytes <= whole - asked->offset &&
		asked->bytes <= REMOTE_PIECE;
}

static void take_done(const struct remote_frame *head, const void *frame)
{
	struct remote_done done;

	if (head->size < sizeof(*head) + sizeof(done))
		return;
	memcpy(&done, (const uint8_t *)frame + sizeof(*head), sizeof(done));
	query_done(&done);
}

/*
 * Serves a request about the program's memory. False: the program has no work of the requested
 * name.
 */
static bool serve_memory(const struct remote_frame *head, const struct remote_reverse *asked,
	const uint8_t *data, struct work *ret_work)
{
	const bool is_there = work_get(asked->work, ret_work);
	const struct work *work = ret_work;

	if (!is_there)
		return false;
	if (head->op == REMOTE_PUSH && work->kind == WORK_COPY && !work->is_source &&
		client_host_is_box_within(&work->box, asked) &&
		asked->bytes <= head->size - sizeof(*head) - sizeof(*asked))
		box_write(&work->box, asked->offset, data, asked->bytes);
	else if (head->op == REMOTE_PULL)
		client_host_answer_reverse(asked,
			work->kind == WORK_COPY && work->is_source &&
					client_host_is_box_within(&work->box, asked)
				? &work->box
				: NULL);
	else if (head->op == REMOTE_CALL && work->kind == WORK_MOVE)
		box_move(&work->box, &work->from);
	return true;
}

static bool is_function(const struct work *work)
{
	return work->kind == WORK_CALL || work->kind == WORK_STREAM_CALLBACK;
}

static void client_host_serve_reverse(const struct remote_frame *head, const void *frame)
{
	const uint8_t *data = (const uint8_t *)frame + sizeof(*head) +
		sizeof(struct remote_reverse);
	struct remote_reverse asked;
	struct work work;
	bool is_there;

	if (head->op == REMOTE_DONE) {
		take_done(head, frame);
		return;
	}
	/* Must run before the program can see this frame's data: see query_heard() in client.h. */
	query_heard();
	if (head->size < sizeof(*head) + sizeof(asked))
		return;
	memcpy(&asked, (const uint8_t *)frame + sizeof(*head), sizeof(asked));
	pthread_mutex_lock(&host.touch_lock);
	is_there = serve_memory(head, &asked, data, &work);
	pthread_mutex_unlock(&host.touch_lock);
	if (!is_there) {
		if (head->op != REMOTE_PUSH)
			client_host_answer_reverse(&asked, NULL);
		return;
	}
	if (head->op == REMOTE_CALL && is_function(&work)) {
		function_hand_over(&work, &asked);
		return; /* the client forgets the work only after it has run */
	}
	if (head->op == REMOTE_CALL)
		client_host_answer_reverse(&asked, NULL);
	if (asked.is_last && asked.is_free)
		work_forget(asked.work);
}

/*
 * Whether all of the program's own threads have ended, including the first one, which is then a
 * zombie. The library's threads must then end too, so that the process ends as it would without the
 * library.
 */
static bool client_host_is_left_alone(void)
{
	/*
	 * /proc/self/task has two links of its own and one for each thread: the first thread, the
	 * reverse thread and the function thread.
	 */
	const nlink_t ours = 2 + 1 + 1 + (host.has_thread ? 1 : 0);
	struct process_stat first;
	struct statx stx;

	/* Calls statx by number, because not every libc has symbols for stat and statx. */
	return syscall(SYS_statx, AT_FDCWD, "/proc/self/task", 0, STATX_NLINK, &stx) == 0 &&
		stx.stx_nlink == ours && process_read_stat(getpid(), &first) == 0 &&
		first.state == 'Z';
}

/*
 * The reverse thread calls this each 100 ms while it waits. Each second the function also checks
 * whether the program's own threads have ended.
 */
static bool client_host_is_reverse_wanted(void *unused)
{
	static unsigned looks;

	if (!session_watch()->goes_on(session_watch()->data))
		return false;
	return ++looks % ALONE_LOOKS != 0 || !client_host_is_left_alone();
}

static void *client_host_reverse_main(void *unused)
{
	const struct ring_watch watch = {.goes_on = client_host_is_reverse_wanted};
	struct remote_frame head;
	const void *frame;

	while (ring_next(&host.down, &watch, &head, &frame) > 0) {
		client_host_serve_reverse(&head, frame);
		ring_consume(&host.down, head.size);
		pthread_mutex_lock(&host.lock);
		host.answered++;
		pthread_cond_broadcast(&host.done);
		pthread_mutex_unlock(&host.lock);
	}
	/* The server is lost, so waiting threads must continue. */
	pthread_mutex_lock(&host.lock);
	host.is_gone = true;
	pthread_cond_broadcast(&host.done);
	pthread_cond_signal(&host.is_function);
	pthread_mutex_unlock(&host.lock);
	return NULL;
}

static CUresult start_reverse(void)
{
	if (host.is_started)
		return CUDA_SUCCESS;
	ring_attach_producer(&host.up, session_shared(), 0, RING_UP);
	ring_attach_consumer(&host.down, session_shared(), 0, RING_DOWN);
	host.is_started = thread_begin(client_host_reverse_main);
	return host.is_started ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult reverse_begin(void)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&host.lock);
	if (session_check() == CUDA_SUCCESS)
		r = start_reverse();
	pthread_mutex_unlock(&host.lock);
	return r;
}

static CUresult client_host_find_name(uint64_t *ret_name)
{
	uint64_t name = host.free_from;
	struct work **more;

	while (name < host.n && host.work[name])
		name++;
	if (name == host.n) {
		const uint64_t n = host.n ? 2 * host.n : 64;

		more = n > WORKS_MAX ? NULL : realloc(host.work, n * sizeof(struct work *));
		if (!more)
			return CUDA_ERROR_OUT_OF_MEMORY;
		memset(more + host.n, 0, (n - host.n) * sizeof(struct work *));
		host.work = more;
		host.n = n;
	}
	host.free_from = name + 1;
	*ret_name = name;
	return CUDA_SUCCESS;
}

CUresult work_new(const struct work *work, uint64_t *ret_name)
{
	struct work *w = malloc(sizeof(*w));
	uint64_t name = 0;
	CUresult r;

	if (!w)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*w = *work;
	if (!work->is_once)
		graphs_have_work();
	pthread_mutex_lock(&host.lock);
	r = start_reverse();
	if (!r)
		r = client_host_find_name(&name);
	if (!r)
		host.work[name] = w;
	if (!r && work->is_once)
		atomic_fetch_add(&host.writers, 1);
	pthread_mutex_unlock(&host.lock);
	if (r) {
		free(w);
		return r;
	}
	*ret_name = name;
	return CUDA_SUCCESS;
}

void work_await(uint32_t asked)
{
	NOT_CANCELLED;

	if (!asked)
		return;
	pthread_mutex_lock(&host.lock);
	/* Both counts wrap at 2^32. */
	while (!host.is_gone && (int32_t)(asked - host.answered) > 0)
		pthread_cond_wait(&host.done, &host.lock);
	pthread_mutex_unlock(&host.lock);
}

bool work_writes(void)
{
	return atomic_load(&host.writers);
}

static bool box_touches(const struct box *box, const uint8_t *p, size_t bytes)
{
	return box->base < p + bytes && p < box->base + box_extent(box);
}

/* The caller holds the lock. */
static bool client_host_is_touching(const struct work *work, const void *p, size_t bytes)
{
	return work && (work->kind == WORK_COPY || work->kind == WORK_MOVE) &&
		(box_touches(&work->box, p, bytes) ||
			(work->kind == WORK_MOVE && box_touches(&work->from, p, bytes)));
}

bool work_touches(const void *p, size_t bytes)
{
	bool does = false;

	pthread_mutex_lock(&host.lock);
	for (uint64_t i = 0; i < host.n && !does; i++)
		does = client_host_is_touching(host.work[i], p, bytes);
	pthread_mutex_unlock(&host.lock);
	return does;
}

void work_leaves(const void *p, size_t bytes)
{
	pthread_mutex_lock(&host.touch_lock);
	pthread_mutex_lock(&host.lock);
	for (uint64_t i = 0; i < host.n; i++)
		if (client_host_is_touching(host.work[i], p, bytes))
			host.work[i]->kind = WORK_VOID;
	pthread_mutex_unlock(&host.lock);
	pthread_mutex_unlock(&host.touch_lock);
}
