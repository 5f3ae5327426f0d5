/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP thread: see metrics-thread.h. Two eventfds and a few atomic words connect the two loops.
 * There is no lock, because a thread of lower priority must never make the daemon's loop wait. One
 * text is in use at a time: the thread asks for it, the loop renders it, and the thread copies it
 * and gives it back, because the loop frees its own memory.
 */
#include "agent/metrics-thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/metrics.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "http/server.h"
#include "threads/side-thread.h"

#define TEXT_MAX (16u << 20)
#define CONNECTIONS_MAX 64u
#define BODY_MAX 4096u
#define REQUEST_NS (10 * NSEC_PER_SEC)
#define BEAT_NS NSEC_PER_SEC
#define STACK_BYTES (512u << 10)

struct text {
	struct buf buf;
};

struct metrics_thread {
	/* for the daemon's loop */
	struct agent *agent;
	struct metrics_server server; /* no further server: the function pointers are NULL */
	struct loop_io snapshot_wanted;
	struct loop_timer beat;

	/* for both threads; an eventfd announces each exchange, which is seq_cst */
	int to_agent, to_thread; /* eventfds */
	atomic_bool is_wanted, is_ending, is_ready;
	_Atomic uint64_t beat_ns;
	_Atomic(struct text *) fresh; /* from the loop to the thread */
	_Atomic(struct text *) used;  /* back to the loop */

	/* used by the thread, and by the daemon's loop while the thread does not run */
	pthread_t thread;
	bool is_started;
	struct loop *loop;
	struct loop_io snapshot_ready;
	struct http_server *local;
	/* Requests that wait for the next text of metrics, at most one for each connection. */
	struct http_request **waiting;
	size_t n_waiting, max_waiting;
};

static void metrics_thread_wake(int fd)
{
	const uint64_t one = 1;

	/* write() fails only if the eventfd is full, and then the other thread is awake already. */
	if (write(fd, &one, sizeof(one)) < 0)
		return;
}

static void metrics_thread_drain_fd(int fd)
{
	uint64_t n;

	if (read(fd, &n, sizeof(n)) < 0)
		return;
}

static void text_free(struct text *text)
{
	if (!text)
		return;
	buf_done(&text->buf);
	free(text);
}

/* ---- the daemon's loop ---- */

static void metrics_thread_on_beat(struct loop_timer *timer, uint64_t now)
{
	struct metrics_thread *t = timer->data;

	atomic_store(&t->beat_ns, now);
	atomic_store(&t->is_ready, t->server.is_ready && t->server.is_ready(t->server.data));
	loop_set_timer(timer, now + BEAT_NS);
}

static void metrics_thread_on_request(struct loop_io *io, uint32_t events)
{
	struct metrics_thread *t = io->data;
	struct text *text;

	metrics_thread_drain_fd(t->to_agent);
	if (!atomic_exchange(&t->is_wanted, false))
		return;
	text_free(atomic_exchange(&t->used, NULL));
	text = calloc(1, sizeof(*text));
	if (text) {
		text->buf = BUF_INIT(TEXT_MAX);
		metrics_format(t->agent, &text->buf);
	}
	text_free(atomic_exchange(&t->fresh, text));
	metrics_thread_wake(t->to_thread);
}

/* ---- the thread ---- */

static void answer_waiting(struct metrics_thread *t, const struct text *text)
{
	for (size_t i = 0; i < t->n_waiting; i++)
		if (text)
			http_answer_buf(t->waiting[i], HTTP_METRICS, &text->buf);
		else
			http_answer(t->waiting[i], 503, HTTP_TEXT,
				STR("the daemon has no metrics yet; try again later\n"));
	t->n_waiting = 0;
}

static void metrics_thread_on_snapshot(struct loop_io *io, uint32_t events)
{
	struct metrics_thread *t = io->data;
	struct text *text;

	metrics_thread_drain_fd(t->to_thread);
	if (atomic_load(&t->is_ending)) {
		loop_stop(t->loop, 0);
		return;
	}
	text = atomic_exchange(&t->fresh, NULL);
	answer_waiting(t, text);
	/* `used` is empty: the loop freed the former text when it rendered this one. */
	atomic_store(&t->used, text);
}

void metrics_thread_answer(void *thread, struct http_request *request)
{
	struct metrics_thread *t = thread;

	if (t->n_waiting == t->max_waiting) {
		http_answer(request, 503, HTTP_TEXT, STR("too many requests; try again later\n"));
		return;
	}
	t->waiting[t->n_waiting++] = request;
	if (t->n_waiting > 1)
		return;
	atomic_store(&t->is_wanted, true);
	metrics_thread_wake(t->to_agent);
}

void metrics_thread_answer_health(void *thread, struct http_request *request)
{
	const struct metrics_thread *t = thread;
	const uint64_t silent_ns = clock_since_ns(clock_now_ns(), atomic_load(&t->beat_ns));
	char text[96];

	snprintf(text, sizeof(text),
		"not healthy: the daemon's event loop has not run for %llu s\n",
		(unsigned long long)(silent_ns / NSEC_PER_SEC));
	if (silent_ns > METRICS_BEAT_MAX_NS)
		http_answer(request, 503, HTTP_TEXT, str_from(text));
	else
		http_answer_ok(thread, request);
}

void metrics_thread_answer_ready(void *thread, struct http_request *request)
{
	const struct metrics_thread *t = thread;

	http_answer_ready(request, atomic_load(&t->is_ready),
		"the daemon has not seen the pods of its node yet");
}

static void *thread_main(void *data)
{
	struct metrics_thread *t = data;

	loop_run(t->loop);
	return NULL;
}

/* ---- both threads ---- */

static const struct http_route local_routes[] = {
	{"GET", "/healthz", metrics_thread_answer_health},
	{"GET", "/metrics", metrics_thread_answer},
};

static int serve_local(struct metrics_thread *t, const char *address, struct error *err)
{
	char loopback[32];
	struct http_options options = {.address = address,
		.max_connections = CONNECTIONS_MAX,
		.max_body = BODY_MAX,
		.request_ns = REQUEST_NS,
		.idle_ns = REQUEST_NS,
		.routes = local_routes,
		.n_routes = ARRAY_SIZE(local_routes),
		.data = t};
	int r;

	/* An address without a host means this machine only. */
	if (address[0] == ':' || address[0] == 'l') {
		snprintf(loopback, sizeof(loopback), "127.0.0.1%s", strchr(address, ':'));
		options.address = loopback;
	}
	r = http_server_new(t->loop, &options, &t->local, err);
	return r < 0 ? fail_within(err, r, "--metrics") : 0;
}

static int start_thread(struct metrics_thread *t)
{
	int r = side_thread_start(thread_main, t, STACK_BYTES, &t->thread);

	t->is_started = r == 0;
	return r;
}

static int join_loops(struct metrics_thread *t, struct error *err)
{
	int r = loop_new(&t->loop);

	t->to_agent = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t->to_thread = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r >= 0 && (t->to_agent < 0 || t->to_thread < 0))
		r = -errno;
	r = r < 0 ? r : loop_add_timer(t->agent->loop, &t->beat, metrics_thread_on_beat);
	r = r < 0 ? r
		  : loop_add_io(t->agent->loop, &t->snapshot_wanted, t->to_agent, EPOLLIN,
			    metrics_thread_on_request);
	r = r < 0 ? r
		  : loop_add_io(t->loop, &t->snapshot_ready, t->to_thread, EPOLLIN,
			    metrics_thread_on_snapshot);
	return r < 0 ? fail_errno(err, -r, "start the thread of metrics") : 0;
}

int metrics_thread_new(struct agent *agent, const struct metrics_thread_options *options,
	struct metrics_thread **ret_thread, struct error *err)
{
	struct metrics_thread *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return fail(err, ENOMEM, "out of memory");
	t->agent = agent;
	if (options->server)
		t->server = *options->server;
	t->to_agent = t->to_thread = -1;
	t->snapshot_wanted.data = t->beat.data = t->snapshot_ready.data = t;
	t->max_waiting = CONNECTIONS_MAX + t->server.max_connections;
	t->waiting = calloc(t->max_waiting, sizeof(*t->waiting));
	r = t->waiting ? join_loops(t, err) : fail(err, ENOMEM, "out of memory");
	if (r >= 0 && options->local)
		r = serve_local(t, options->local, err);
	if (r >= 0 && t->server.start)
		r = t->server.start(t->server.data, t, t->loop, err);
	if (r >= 0) {
		metrics_thread_on_beat(&t->beat, clock_now_ns());
		r = start_thread(t);
		if (r < 0)
			fail_errno(err, -r, "start the thread of metrics");
	}
	if (r < 0) {
		metrics_thread_free(t);
		return r;
	}
	*ret_thread = t;
	return 0;
}

void metrics_thread_free(struct metrics_thread *t)
{
	if (!t)
		return;
	if (t->is_started) {
		atomic_store(&t->is_ending, true);
		metrics_thread_wake(t->to_thread);
		pthread_join(t->thread, NULL);
	}
	answer_waiting(t, NULL);
	if (t->server.stop)
		t->server.stop(t->server.data);
	http_server_free(t->local);
	loop_remove_io(&t->snapshot_ready);
	loop_remove_io(&t->snapshot_wanted);
	loop_remove_timer(&t->beat);
	loop_free(t->loop);
	fd_close(t->to_agent);
	fd_close(t->to_thread);
	text_free(atomic_exchange(&t->fresh, NULL));
	text_free(atomic_exchange(&t->used, NULL));
	free(t->waiting);
	free(t);
}
