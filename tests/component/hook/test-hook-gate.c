/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hook and gates: what a program's calls write to the pages, which calls wait at a closed gate,
 * and what happens after a fork or when the daemon exits.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "../../patience.h"

static CUresult launch(CUstream stream)
{
	return cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

static uint64_t submitted(const struct page_up *up)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < PAGE_LINES; i++)
		sum += atomic_load(&up->line[i].submitted);
	return sum;
}

static struct fake_daemon *start(uint32_t flags, uint32_t window_us)
{
	struct fake_options options;

	rig_options(&options);
	options.flags = flags;
	options.window_us = window_us;
	return rig_start(&options);
}

/* ---- pages ---- */

static int pages_count_submissions_and_markers(void *arg)
{
	struct fake_daemon *d = start(0, 0);
	struct page_up *up;
	CUstream stream[3];

	check(d && rig_context());
	up = fake_daemon_up(d, 0, 0);
	check(up->magic == PAGE_MAGIC && up->abi == PAGE_ABI && up->size == sizeof *up);
	check(up->pid == (uint32_t)getpid() && up->start_time);
	check(atomic_load(&up->contexts) == 1);
	check(submitted(up) == 0);
	for (int i = 0; i < 3; i++)
		check(cuStreamCreate(&stream[i], i == 2 ? CU_STREAM_NON_BLOCKING : 0) ==
			CUDA_SUCCESS);
	errno = 1234;
	for (int i = 0; i < 1000; i++)
		check(launch(i % 4 ? stream[i % 4 - 1] : NULL) == CUDA_SUCCESS);
	check(errno == 1234);
	check(submitted(up) == 1000);
	check(atomic_load(&up->line[0].tid) == (uint32_t)gettid());
	check(atomic_load(&up->line[0].in_launch) == 0);
	check(atomic_load(&up->markers) > 0);
	/* at a flush the hook marks the submissions after the last periodic marker */
	fake_daemon_flush(d, 0, 0);
	for (int i = patience_ms(60000); i > 0 && !fake_daemon_drained(d, 0, 0); i--)
		usleep(1000);
	check(fake_daemon_drained(d, 0, 0));
	check(atomic_load(&up->flushed) == 1000);
	rig_stop(d);
	return 0;
}

/* A driver without value writes: the hook uses host functions instead. */
static int markers_without_value_writes(void *arg)
{
	setenv("STUB_NO_VALUES", "1", 1);
	return pages_count_submissions_and_markers(NULL);
}

/* ---- blocking ---- */

struct worker {
	CUcontext context;
	CUstream stream;
	_Atomic uint32_t done, failed;
	uint32_t count;
	pthread_t thread;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	cuCtxSetCurrent(w->context);
	for (uint32_t i = 0; i < w->count; i++) {
		if (launch(w->stream) != CUDA_SUCCESS)
			atomic_fetch_add(&w->failed, 1);
		atomic_fetch_add(&w->done, 1);
	}
	return NULL;
}

static int closed_gate_blocks(void *arg)
{
	struct fake_daemon *d = start(0, 0);
	struct worker w = {.count = 3};
	struct page_up *up;

	check(d);
	w.context = rig_context();
	check(w.context);
	check(launch(NULL) == CUDA_SUCCESS);
	up = fake_daemon_up(d, 0, 0);
	fake_daemon_gate(d, false);
	check(!pthread_create(&w.thread, NULL, work, &w));
	check(fake_daemon_await(d, MSG_WANT, 1));
	check(atomic_load(&up->want) == 1);
	/* a thread that waits has marked all earlier submissions of its process */
	check(atomic_load(&up->flushed) == 1 && fake_daemon_drained(d, 0, 0));
	check(atomic_load(&w.done) == 0);
	fake_daemon_gate(d, true);
	pthread_join(w.thread, NULL);
	check(atomic_load(&w.done) == 3 && submitted(up) == 4);
	check(atomic_load(&up->want) == 0 && atomic_load(&up->blocked_ns) > 0);
	rig_stop(d);
	return 0;
}

/* The gate closes again before the thread that it woke has submitted its work. */
static int gate_closes_during_wakeup(void *arg)
{
	struct fake_daemon *d = start(0, 0);
	struct worker w = {.count = 20000};

	check(d);
	w.context = rig_context();
	check(w.context);
	check(!pthread_create(&w.thread, NULL, work, &w));
	while (atomic_load(&w.done) < w.count) {
		fake_daemon_gate(d, false);
		sched_yield();
		fake_daemon_gate(d, true);
	}
	pthread_join(w.thread, NULL);
	check(atomic_load(&w.failed) == 0);
	rig_stop(d);
	return 0;
}

/*
 * More threads than lines of counters: each submission is counted, and all wait at a closed gate.
 */
static int more_threads_than_lines(void *arg)
{
	enum { N = 150 };
	static struct worker w[N];
	struct fake_daemon *d = start(0, 0);
	struct page_up *up;
	CUcontext context;

	check(d);
	context = rig_context();
	check(context);
	up = fake_daemon_up(d, 0, 0);
	fake_daemon_gate(d, false);
	for (int i = 0; i < N; i++) {
		w[i] = (struct worker){.context = context, .count = 100};
		check(!pthread_create(&w[i].thread, NULL, work, &w[i]));
	}
	while (atomic_load(&up->want) < N)
		sched_yield();
	check(submitted(up) == 0);
	fake_daemon_gate(d, true);
	for (int i = 0; i < N; i++)
		pthread_join(w[i].thread, NULL);
	check(submitted(up) == 100 * N);
	check(atomic_load(&up->lines) == PAGE_LINES);
	for (uint32_t i = 0; i < PAGE_LINES; i++)
		check(atomic_load(&up->line[i].in_launch) == 0);
	/* new threads reuse the lines of threads that have exited */
	check(launch(NULL) == CUDA_SUCCESS && submitted(up) == 100 * N + 1);
	rig_stop(d);
	return 0;
}

/* ---- in-flight window ---- */

/* When markers never complete, the wait has a bound and the program continues. */
static int stuck_markers_do_not_hang(void *arg)
{
	struct fake_daemon *d = start(PAGE_COMPANY, 1000);
	struct page_up *up;

	check(d && rig_context());
	up = fake_daemon_up(d, 0, 0);
	for (int i = 0; i < 64; i++)
		check(launch(NULL) == CUDA_SUCCESS);
	setenv("STUB_HOLD_MARKERS", "1", 1);
	for (int i = 0; i < 20000; i++)
		check(launch(NULL) == CUDA_SUCCESS);
	check(submitted(up) == 20064);
	unsetenv("STUB_HOLD_MARKERS");
	rig_stop(d);
	return 0;
}

/* ---- capture ---- */

static int captured_launches_do_not_wait(void *arg)
{
	struct fake_daemon *d = start(0, 0);
	struct page_up *up;
	CUstream stream;
	CUgraph graph;

	check(d && rig_context());
	up = fake_daemon_up(d, 0, 0);
	check(cuStreamCreate(&stream, 0) == CUDA_SUCCESS);
	check(launch(stream) == CUDA_SUCCESS);
	check(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	check(atomic_load(&up->captures) == 1);
	fake_daemon_gate(d, false);
	/* captured launches do not wait, are not counted and get no marker */
	for (int i = 0; i < 100; i++)
		check(launch(stream) == CUDA_SUCCESS);
	check(submitted(up) == 1);
	fake_daemon_flush(d, 0, 0);
	for (int i = patience_ms(60000); i > 0 && !fake_daemon_drained(d, 0, 0); i--)
		usleep(1000);
	check(fake_daemon_drained(d, 0, 0));
	check(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
	check(atomic_load(&up->captures) == 0);
	fake_daemon_gate(d, true);
	check(launch(stream) == CUDA_SUCCESS && submitted(up) == 2);
	rig_stop(d);
	return 0;
}

/* ---- RELEASE: a program that has waited for its work frees the device ---- */

static int release_after_synchronise(void *arg)
{
	struct fake_daemon *d = start(PAGE_COMPANY | PAGE_WAITED, 2000);

	check(d && rig_context());
	check(launch(NULL) == CUDA_SUCCESS);
	check(cuCtxSynchronize() == CUDA_SUCCESS);
	check(fake_daemon_await(d, MSG_RELEASE, 1));
	check(fake_daemon_drained(d, 0, 0));
	rig_stop(d);
	return 0;
}

/* RELEASE also follows a synchronous copy, but not an asynchronous one. */
static int release_after_copy(void *arg)
{
	struct fake_daemon *d = start(PAGE_COMPANY | PAGE_WAITED, 2000);
	char byte;

	check(d && rig_context());
	check(cuMemcpyHtoD_v2(0x1000, &byte, 1) == CUDA_SUCCESS);
	check(cuMemcpyDtoHAsync_v2(&byte, 0x1000, 1, NULL) == CUDA_SUCCESS);
	check(cuMemcpyDtoH_v2(&byte, 0x1000, 1) == CUDA_SUCCESS);
	check(fake_daemon_await(d, MSG_RELEASE, 1));
	check(cuMemcpyHtoD_v2(0x1000, &byte, 1) == CUDA_SUCCESS);
	check(fake_daemon_count(d, MSG_RELEASE) <= 3); /* three of four copies are synchronous */
	check(submitted(fake_daemon_up(d, 0, 0)) == 4);
	rig_stop(d);
	return 0;
}

/* ---- YIELD: a program whose next submission would overrun its turn ---- */

/* Makes one launch and lets it take `ns` on the device, as the daemon measures it. */
static CUresult launch_for(struct fake_daemon *d, uint64_t ns)
{
	struct page_up *up = fake_daemon_up(d, 0, 0);
	struct page_down *down = fake_daemon_down(d, 0, 0);
	uint64_t began = clock_now_ns();
	CUresult r = launch(NULL);

	clock_sleep_until_ns(began + ns);
	for (uint32_t i = 0; i < PAGE_SLOTS; i++)
		atomic_store(&up->done[i], atomic_load(&up->issued[i]));
	atomic_store(&down->drained_began_ns, began);
	atomic_store(&down->drained_ns, clock_now_ns());
	return r;
}

static int yield_before_overrun(void *arg)
{
	struct fake_daemon *d = start(PAGE_COMPANY | PAGE_WAITED, 2000);
	struct page_down *down;

	check(d && rig_context());
	down = fake_daemon_down(d, 0, 0);
	atomic_store(&down->grant, 1);
	setenv("STUB_HOLD_MARKERS", "1", 1);
	for (int i = 0; i < 3; i++)
		check(launch_for(d, 20 * NSEC_PER_MSEC) == CUDA_SUCCESS);
	check(fake_daemon_count(d, MSG_YIELD) == 0); /* turn_ends_ns is 0: the turn has no end */
	atomic_store(&down->turn_ends_ns, clock_now_ns() + 60 * NSEC_PER_SEC);
	check(launch_for(d, 20 * NSEC_PER_MSEC) == CUDA_SUCCESS);
	check(fake_daemon_count(d, MSG_YIELD) == 0);
	/* the next launch would take longer than the rest of the turn */
	atomic_store(&down->turn_ends_ns, clock_now_ns() + 2 * NSEC_PER_MSEC);
	check(launch_for(d, 20 * NSEC_PER_MSEC) == CUDA_SUCCESS);
	check(fake_daemon_await(d, MSG_YIELD, 1));
	/* at most one YIELD a turn, and none before the turn's first submission */
	check(launch_for(d, 20 * NSEC_PER_MSEC) == CUDA_SUCCESS);
	atomic_fetch_add(&down->grant, 1);
	check(launch_for(d, 20 * NSEC_PER_MSEC) == CUDA_SUCCESS);
	check(fake_daemon_count(d, MSG_YIELD) == 1);
	check(launch_for(d, 20 * NSEC_PER_MSEC) == CUDA_SUCCESS);
	check(fake_daemon_await(d, MSG_YIELD, 2));
	/*
	 * a launch with another grid has another key (estimate.h) and may be short, so the hook
	 * does not yield
	 */
	atomic_fetch_add(&down->grant, 1);
	check(launch_for(d, 0) == CUDA_SUCCESS);
	check(cuLaunchKernel(NULL, 2, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_SUCCESS);
	check(fake_daemon_count(d, MSG_YIELD) == 2);
	rig_stop(d);
	return 0;
}

/*
 * Turns of one submission. The hook knows a submission's time from the turn in which it ran, even
 * though the next turn has begun.
 */
static int yield_after_turns_of_one(void *arg)
{
	struct fake_daemon *d = start(PAGE_COMPANY | PAGE_WAITED, 2000);
	struct page_down *down;

	check(d && rig_context());
	down = fake_daemon_down(d, 0, 0);
	setenv("STUB_HOLD_MARKERS", "1", 1);
	for (int i = 0; i < 4; i++) {
		atomic_fetch_add(&down->grant, 1);
		check(launch_for(d, 20 * NSEC_PER_MSEC) == CUDA_SUCCESS);
	}
	atomic_fetch_add(&down->grant, 1);
	atomic_store(&down->turn_ends_ns, clock_now_ns() + 2 * NSEC_PER_MSEC);
	check(launch_for(d, 0) == CUDA_SUCCESS);
	check(fake_daemon_count(d, MSG_YIELD) == 0);
	check(launch_for(d, 0) == CUDA_SUCCESS);
	check(fake_daemon_await(d, MSG_YIELD, 1));
	rig_stop(d);
	return 0;
}

/* ---- fork ---- */

static int forked_child_registers_itself(void *arg)
{
	struct fake_daemon *d = start(0, 0);
	int status;
	pid_t pid;

	check(d && rig_context());
	check(launch(NULL) == CUDA_SUCCESS);
	pid = fork();
	check(pid >= 0);
	if (!pid) {
		/*
		 * the daemon does not know this child, and the child does not map its parent's
		 * pages
		 */
		launch(NULL);
		launch((CUstream)0x1000);
		_exit(cuInit(0) == CUDA_SUCCESS && rig_context() && launch(NULL) == CUDA_SUCCESS
				? 0
				: 1);
	}
	check(waitpid(pid, &status, 0) == pid && status == 0);
	check(fake_daemon_processes(d) == 2);
	check(submitted(fake_daemon_up(d, 0, 0)) == 1);
	check(submitted(fake_daemon_up(d, 1, 0)) == 1);
	check(fake_daemon_up(d, 1, 0)->pid == (uint32_t)pid);
	check(launch(NULL) == CUDA_SUCCESS && submitted(fake_daemon_up(d, 0, 0)) == 2);
	rig_stop(d);
	return 0;
}

/* ---- no daemon ---- */

static int no_daemon_absent_open(void *arg)
{
	CUcontext context;

	setenv("DIVVY_SOCKET", "/nowhere/at/all", 1);
	context = rig_context();
	check(context && launch(NULL) == CUDA_SUCCESS);
	return 0;
}

static int no_daemon_absent_closed(void *arg)
{
	setenv("DIVVY_SOCKET", "/nowhere/at/all", 1);
	setenv("DIVVY_ABSENT", "closed", 1);
	check(cuInit(0) == CUDA_ERROR_NO_DEVICE);
	check(cuInit(0) == CUDA_ERROR_NO_DEVICE);
	return 0;
}

/* With a malformed secret a program fails; it does not run as a program without a secret. */
static int malformed_secret_fails(void *arg)
{
	static const char *const wrong[] = {"0123456789abcdef0123456789abcde",
		"0123456789abcdef0123456789abcdef0", "0123456789abcdef0123456789abcdeg",
		"0123456789abcdef0123456789abc\t\tf", "00000000000000000000000000000000"};
	struct fake_options options;
	struct fake_daemon *d;
	pid_t pid;
	int status;

	rig_options(&options);
	d = rig_start(&options);
	check(d);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		setenv("DIVVY_TENANT", wrong[i], 1);
		pid = fork();
		if (!pid)
			_exit(cuInit(0) == CUDA_ERROR_NO_DEVICE ? 0 : 1);
		check(waitpid(pid, &status, 0) == pid && !status);
	}
	check(fake_daemon_count(d, MSG_HELLO) == 0);
	setenv("DIVVY_TENANT", "0123456789abcdef0123456789ABCDEF", 1);
	check(cuInit(0) == CUDA_SUCCESS && fake_daemon_count(d, MSG_HELLO) == 1);
	rig_stop(d);
	return 0;
}

static int daemon_refuses_hello(void *arg)
{
	struct fake_options options;
	struct fake_daemon *d;

	rig_options(&options);
	options.refusal = "no tenant has this secret";
	d = rig_start(&options);
	check(d && cuInit(0) == CUDA_ERROR_NO_DEVICE);
	rig_stop(d);
	return 0;
}

/*
 * Launches until a launch waits at the gate, and leaves it there. A restarted daemon answers
 * shortly before its closed gates take effect. Returns how many launches passed, or UINT32_MAX.
 */
static uint32_t launch_until_kept(struct fake_daemon *d, struct worker *w)
{
	for (uint32_t n = 0; n < 10000; n++) {
		atomic_store(&w->done, 0);
		if (pthread_create(&w->thread, NULL, work, w))
			return UINT32_MAX;
		while (!atomic_load(&w->done))
			if (fake_daemon_count(d, MSG_WANT))
				return n;
		pthread_join(w->thread, NULL);
	}
	return UINT32_MAX;
}

static int daemon_restarts(void *arg)
{
	struct fake_options options;
	struct fake_daemon *d;
	struct worker w = {.count = 1};
	struct page_up *up;
	uint32_t before;
	char path[108];

	rig_options(&options);
	d = rig_start(&options);
	check(d);
	w.context = rig_context();
	check(w.context && launch(NULL) == CUDA_SUCCESS);
	fake_daemon_gate(d, false);
	check(!pthread_create(&w.thread, NULL, work, &w));
	check(fake_daemon_await(d, MSG_WANT, 1));
	snprintf(path, sizeof path, "%s", getenv("DIVVY_SOCKET"));
	fake_daemon_free(d);
	pthread_join(w.thread, NULL);
	check(atomic_load(&w.done) == 1);

	/* a restarted daemon with closed gates takes over the process with its old pages */
	options.closed = true;
	d = fake_daemon_new(path, &options);
	check(d);
	up = fake_daemon_up(d, 0, 0);
	check(up && submitted(up) == 2 && up->pid == (uint32_t)getpid());
	before = launch_until_kept(d, &w);
	check(before != UINT32_MAX && atomic_load(&w.done) == 0);
	check(submitted(up) == 2 + before);
	fake_daemon_gate(d, true);
	pthread_join(w.thread, NULL);
	check(submitted(up) == 3 + before);
	rig_stop(d);
	return 0;
}

/* A program closes every descriptor that it does not know, and reuses the numbers. */
static int program_closes_unknown_fds(void *arg)
{
	struct fake_daemon *d = start(0, 0);
	struct worker w = {.count = 1};
	int sock = -1, file;
	struct stat st;

	check(d);
	w.context = rig_context();
	check(w.context && launch(NULL) == CUDA_SUCCESS);
	/* the hook's descriptors are high, the fake daemon's low */
	for (int fd = 500; fd < 600; fd++) {
		if (!fstat(fd, &st) && S_ISSOCK(st.st_mode) && sock < 0)
			sock = fd;
	}
	check(sock >= 0);
	file = open("/dev/null", O_WRONLY);
	check(file >= 0 && dup2(file, sock) == sock);
	/* the hook writes nothing to the reused descriptor, and connects again */
	check(fake_daemon_await(d, MSG_HELLO, 2));
	fake_daemon_gate(d, false);
	check(!pthread_create(&w.thread, NULL, work, &w));
	check(fake_daemon_await(d, MSG_WANT, 1));
	fake_daemon_gate(d, true);
	pthread_join(w.thread, NULL);
	check(!fstat(sock, &st) && S_ISCHR(st.st_mode));
	rig_stop(d);
	return 0;
}

/* ---- devices ---- */

static int visible_devices(void *arg)
{
	const char *setting = arg;
	struct fake_options options;
	struct fake_daemon *d;
	uint8_t uuid[16], expected[16];
	CUuuid seen;
	int count = 0;

	rig_options(&options);
	setenv("STUB_DEVICES", "4", 1);
	/* the tenant's devices are the driver's 3 and 1, in this order */
	options.devices = 2;
	fake_stub_uuid(3, options.uuid[0]);
	fake_stub_uuid(1, options.uuid[1]);
	if (setting)
		setenv("CUDA_VISIBLE_DEVICES", setting, 1);
	d = rig_start(&options);
	check(d && cuInit(0) == CUDA_SUCCESS);
	check(cuDeviceGetCount(&count) == CUDA_SUCCESS && count == (setting ? 1 : 2));
	check(cuDeviceGetUuid_v2(&seen, 0) == CUDA_SUCCESS);
	memcpy(uuid, &seen, 16);
	fake_stub_uuid(setting ? 1 : 3, expected);
	check(!memcmp(uuid, expected, 16));
	check(setting ? !strcmp(getenv("CUDA_VISIBLE_DEVICES"), setting)
		      : !getenv("CUDA_VISIBLE_DEVICES"));
	rig_stop(d);
	return 0;
}

/* Makes two devices with a context on each; NULL if this fails. */
static struct fake_daemon *start_two(CUcontext ret_context[static 2])
{
	struct fake_options options;
	struct fake_daemon *d;

	rig_options(&options);
	options.devices = 2;
	d = rig_start(&options);
	if (!d || cuInit(0) != CUDA_SUCCESS)
		return NULL;
	for (int i = 0; i < 2; i++)
		if (cuDevicePrimaryCtxRetain(&ret_context[i], i) != CUDA_SUCCESS)
			return NULL;
	return d;
}

/* Each device has its own gate: the gate of one device does not stop submissions to the other. */
static int each_device_has_a_gate(void *arg)
{
	CUcontext context[2];
	struct fake_daemon *d = start_two(context);

	check(d);
	for (int i = 0; i < 10; i++) {
		check(cuCtxSetCurrent(context[i % 2]) == CUDA_SUCCESS);
		for (int k = 0; k <= i % 2; k++)
			check(launch(NULL) == CUDA_SUCCESS);
	}
	check(submitted(fake_daemon_up(d, 0, 0)) == 5);
	check(submitted(fake_daemon_up(d, 0, 1)) == 10);
	check(rig_charged(d, 0) == CONTEXT_BYTES && rig_charged(d, 1) == CONTEXT_BYTES);
	check(cuDevicePrimaryCtxRelease_v2(1) == CUDA_SUCCESS);
	check(rig_charged(d, 0) == CONTEXT_BYTES && rig_charged(d, 1) == 0);
	rig_stop(d);
	return 0;
}

/* One thread changes devices at each launch: both devices still get markers. */
static int thread_alternates_devices(void *arg)
{
	CUcontext context[2];
	struct fake_daemon *d = start_two(context);

	check(d);
	for (int i = 0; i < 40000; i++) {
		check(cuCtxSetCurrent(context[i % 2]) == CUDA_SUCCESS);
		check(launch(NULL) == CUDA_SUCCESS);
	}
	for (uint32_t i = 0; i < 2; i++) {
		struct page_up *up = fake_daemon_up(d, 0, i);

		check(submitted(up) == 20000);
		check(atomic_load(&up->markers) > 2 && atomic_load(&up->flushed) > 10000);
	}
	rig_stop(d);
	return 0;
}

/* ---- per-thread default streams ---- */

#define OWN_STREAM ((CUstream)2)

static void *launch_own(void *context)
{
	cuCtxSetCurrent(context);
	launch(OWN_STREAM);
	return NULL;
}

/*
 * The default streams of all threads share one handle: a marker in one thread's stream says nothing
 * about the streams of other threads.
 */
static int per_thread_streams(void *arg)
{
	struct fake_daemon *d = start(0, 0);
	struct page_up *up;
	CUcontext context;
	pthread_t thread;

	check(d);
	context = rig_context();
	check(context && launch(OWN_STREAM) == CUDA_SUCCESS);
	up = fake_daemon_up(d, 0, 0);
	check(atomic_load(&up->flushed) == 1);
	check(!pthread_create(&thread, NULL, launch_own, context));
	pthread_join(thread, NULL);
	check(submitted(up) == 2 && atomic_load(&up->flushed) == 1);
	for (int i = 0; i < 5000; i++)
		check(launch(OWN_STREAM) == CUDA_SUCCESS);
	check(submitted(up) == 5002 && atomic_load(&up->flushed) == 1);
	fake_daemon_flush(d, 0, 0);
	for (int i = patience_ms(60000); i > 0 && !fake_daemon_drained(d, 0, 0); i--)
		usleep(1000);
	check(fake_daemon_drained(d, 0, 0) && atomic_load(&up->flushed) == 5002);
	rig_stop(d);
	return 0;
}

/* ---- many short-lived streams ---- */

static int many_short_lived_streams(void *arg)
{
	enum { N = 3000 };
	static CUstream stream[N];
	struct fake_daemon *d = start(0, 0);
	struct page_up *up;

	check(d && rig_context());
	up = fake_daemon_up(d, 0, 0);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < N; i++) {
			check(cuStreamCreate(&stream[i], 0) == CUDA_SUCCESS);
			check(launch(stream[i]) == CUDA_SUCCESS);
		}
		for (int i = 0; i < N; i++)
			check(launch(stream[i]) == CUDA_SUCCESS);
		for (int i = 0; i < N; i++)
			check(cuStreamDestroy_v2(stream[i]) == CUDA_SUCCESS);
	}
	check(submitted(up) == 3 * 2 * N);
	check(atomic_load(&up->slots) <= PAGE_SLOTS);
	fake_daemon_flush(d, 0, 0);
	for (int i = patience_ms(60000); i > 0 && !fake_daemon_drained(d, 0, 0); i--)
		usleep(1000);
	check(fake_daemon_drained(d, 0, 0));
	rig_stop(d);
	return 0;
}

#define SCENARIO(name, arg) \
	static void test_##name(void **state) \
	{ \
		rig_child(name, arg); \
	}

SCENARIO(pages_count_submissions_and_markers, NULL)
SCENARIO(closed_gate_blocks, NULL)
SCENARIO(gate_closes_during_wakeup, NULL)
SCENARIO(more_threads_than_lines, NULL)
SCENARIO(stuck_markers_do_not_hang, NULL)
SCENARIO(captured_launches_do_not_wait, NULL)
SCENARIO(release_after_synchronise, NULL)
SCENARIO(release_after_copy, NULL)
SCENARIO(yield_before_overrun, NULL)
SCENARIO(yield_after_turns_of_one, NULL)
SCENARIO(markers_without_value_writes, NULL)
SCENARIO(forked_child_registers_itself, NULL)
SCENARIO(no_daemon_absent_open, NULL)
SCENARIO(no_daemon_absent_closed, NULL)
SCENARIO(malformed_secret_fails, NULL)
SCENARIO(daemon_refuses_hello, NULL)
SCENARIO(daemon_restarts, NULL)
SCENARIO(program_closes_unknown_fds, NULL)
SCENARIO(each_device_has_a_gate, NULL)
SCENARIO(thread_alternates_devices, NULL)
SCENARIO(per_thread_streams, NULL)
SCENARIO(many_short_lived_streams, NULL)

static void test_visible_devices(void **state)
{
	static char one[] = "1", by_uuid[] = "GPU-64697676-7973-7475-6200-000000000002";

	rig_child(visible_devices, NULL);
	rig_child(visible_devices, one);
	rig_child(visible_devices, by_uuid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages_count_submissions_and_markers),
		cmocka_unit_test(test_closed_gate_blocks),
		cmocka_unit_test(test_gate_closes_during_wakeup),
		cmocka_unit_test(test_more_threads_than_lines),
		cmocka_unit_test(test_stuck_markers_do_not_hang),
		cmocka_unit_test(test_captured_launches_do_not_wait),
		cmocka_unit_test(test_release_after_synchronise),
		cmocka_unit_test(test_release_after_copy),
		cmocka_unit_test(test_yield_before_overrun),
		cmocka_unit_test(test_yield_after_turns_of_one),
		cmocka_unit_test(test_markers_without_value_writes),
		cmocka_unit_test(test_forked_child_registers_itself),
		cmocka_unit_test(test_no_daemon_absent_open),
		cmocka_unit_test(test_no_daemon_absent_closed),
		cmocka_unit_test(test_malformed_secret_fails),
		cmocka_unit_test(test_daemon_refuses_hello),
		cmocka_unit_test(test_daemon_restarts),
		cmocka_unit_test(test_program_closes_unknown_fds),
		cmocka_unit_test(test_visible_devices),
		cmocka_unit_test(test_each_device_has_a_gate),
		cmocka_unit_test(test_thread_alternates_devices),
		cmocka_unit_test(test_per_thread_streams),
		cmocka_unit_test(test_many_short_lived_streams),
	};

	return cmocka_run_group_tests_name("hook-gate", tests, NULL, NULL);
}
