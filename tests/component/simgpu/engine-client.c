/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See engine-client.h. Each wait ends with an event; only the test's own time limit bounds the
 * wait.
 */
#include "engine-client.h"

#include <errno.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"

static char dir[64], engine[4096];

const char *client_dir(void)
{
	return dir;
}

static void start_engine(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		execl(engine, engine, "--daemon", "--dir", dir, NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

void client_setup(const char *devices, const char *costs)
{
	const char *build = getenv("DIVVY_BUILD");

	assert_non_null(build);
	snprintf(engine, sizeof(engine), "%s/src/simgpu/divvy-sim-engine", build);
	snprintf(dir, sizeof(dir), "/tmp/divvy-sim-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	setenv(SIMGPU_ENV_DIR, dir, 1);
	setenv(SIMGPU_ENV_DEVICES, devices, 1);
	setenv(SIMGPU_ENV_COSTS, costs ? costs : "", 1);
	start_engine();
}

void client_teardown(void)
{
	static const char *const names[] = {SIMGPU_FILE_SOCKET, SIMGPU_FILE_LOCK,
		SIMGPU_FILE_CONFIG, SIMGPU_FILE_FAULTS, SIMGPU_FILE_STATE, SIMGPU_FILE_TRACE,
		SIMGPU_FILE_ACCOUNT, SIMGPU_FILE_LOG};
	struct client c;
	char path[512], byte;

	client_connect(&c);
	client_call(&c, CALL(.type = SIMGPU_MSG_STOP), -1, NULL, NULL);
	assert_true(recv(c.sock, &byte, 1, 0) <= 0);
	close(c.sock);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(dir), 0);
}

uint32_t client_call(struct client *c, struct simgpu_request q, int fd,
	struct simgpu_reply *ret_reply, int *ret_fd)
{
	struct fd_list fds = {.n = 0};
	struct simgpu_reply a;

	q.seq = ++c->seq;
	assert_int_equal(fd_send(c->sock, &q, sizeof(q), &fd, fd >= 0, 0), sizeof(q));
	assert_int_equal(fd_recv(c->sock, &a, sizeof(a), &fds, 0), sizeof(a));
	assert_int_equal(a.seq, q.seq);
	assert_int_equal(a.type, q.type);
	if (ret_fd) {
		for (size_t i = 0; i < fds.n; i++)
			ret_fd[i] = fds.fd[i];
	} else {
		fd_list_done(&fds);
	}
	if (ret_reply)
		*ret_reply = a;
	return a.status;
}

void client_connect(struct client *c)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fds[2] = {-1, -1};

	memset(c, 0, sizeof(*c));
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s", dir, SIMGPU_FILE_SOCKET);
	c->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	while (connect(c->sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		assert_true(errno == ENOENT || errno == ECONNREFUSED);
		start_engine();
	}
	assert_int_equal(
		client_call(c,
			CALL(.type = SIMGPU_MSG_HELLO, .arg = {SIMGPU_ABI, SIMGPU_ROLE_CUDA}), -1,
			NULL, fds),
		0);
	c->bell = fds[1];
	c->shm = mmap(NULL, sizeof(*c->shm), PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	assert_true(c->shm != MAP_FAILED);
	assert_true(c->shm->magic == SIMGPU_MAGIC);
	close(fds[0]);
}

void client_close(struct client *c)
{
	close(c->sock);
	close(c->bell);
	munmap(c->shm, sizeof(*c->shm));
}

static void ring_bell(struct client *c)
{
	uint64_t one = 1;

	assert_int_equal(write(c->bell, &one, sizeof(one)), sizeof(one));
}

void client_put(struct client *c, struct simgpu_entry *e, const void *trailing, size_t bytes)
{
	struct simgpu_shm *s = c->shm;
	uint64_t tail = s->client.tail, at = tail % SIMGPU_RING_BYTES, size;

	e->units = SIMGPU_ENTRY_UNITS(bytes);
	e->submit_ns = clock_now_ns();
	if (e->kind < SIMGPU_OP_STREAM_CREATE)
		e->seq = ++c->stream_seq[e->stream];
	size = e->units * SIMGPU_ENTRY_UNIT;
	if (at + size > SIMGPU_RING_BYTES) {
		struct simgpu_entry pad = {.kind = SIMGPU_OP_PAD,
			.units = (uint32_t)((SIMGPU_RING_BYTES - at) / SIMGPU_ENTRY_UNIT)};

		memcpy(s->ring + at, &pad, SIMGPU_ENTRY_UNIT);
		tail += SIMGPU_RING_BYTES - at;
		at = 0;
	}
	while (tail + size - s->engine.head > SIMGPU_RING_BYTES) {
		uint32_t seen = s->engine.wake_seq;

		s->client.ring_waiters++;
		ring_bell(c);
		if (tail + size - s->engine.head > SIMGPU_RING_BYTES)
			syscall(SYS_futex, &s->engine.wake_seq, FUTEX_WAIT, seen, NULL, NULL, 0);
		s->client.ring_waiters--;
	}
	memcpy(s->ring + at, e, sizeof(*e));
	if (bytes)
		memcpy(s->ring + at + sizeof(*e), trailing, bytes);
	s->client.tail = tail + size;
	if (s->engine.doorbell == SIMGPU_DOORBELL_ALL ||
		(s->engine.doorbell == SIMGPU_DOORBELL_VISIBLE &&
			(e->flags & SIMGPU_ENTRY_VISIBLE) &&
			s->engine.wake_at_ns > s->streams[e->stream].busy_until_ns))
		ring_bell(c);
}

void client_context(struct client *c, uint32_t context, int device, int streams)
{
	assert_int_equal(
		client_call(c,
			CALL(.type = SIMGPU_MSG_CTX_CREATE, .context = context, .device = device),
			-1, NULL, NULL),
		0);
	for (int i = 0; i <= streams; i++) {
		struct simgpu_entry e = {.kind = SIMGPU_OP_STREAM_CREATE,
			.context = context,
			.stream = (uint32_t)i,
			.stream_new = {.flags = i ? 0 : SIMGPU_STREAM_LEGACY}};

		client_put(c, &e, NULL, 0);
	}
}

void client_kernel(struct client *c, uint32_t stream, enum simgpu_kernel kernel, uint32_t blocks,
	const void *params, size_t bytes)
{
	struct simgpu_entry e = {.kind = SIMGPU_OP_KERNEL, .stream = stream};

	e.kernel = (struct simgpu_op_kernel){.kernel = kernel,
		.blocks = blocks,
		.threads = 256,
		.param_bytes = (uint32_t)bytes,
		.name_id = kernel};
	if (kernel == SIMGPU_KERNEL_SET_FLAG)
		e.flags = SIMGPU_ENTRY_VISIBLE;
	client_put(c, &e, params, bytes);
}

void client_spin_ns(struct client *c, uint32_t stream, uint64_t ns)
{
	client_kernel(c, stream, SIMGPU_KERNEL_SPIN_NS, 16, &ns, sizeof(ns));
}

uint32_t client_sync(struct client *c, uint32_t stream)
{
	struct simgpu_shm *s = c->shm;
	uint64_t seq = c->stream_seq[stream];

	s->streams[stream].await_seq = seq;
	ring_bell(c);
	s->client.waiters++;
	for (;;) {
		uint32_t seen = s->engine.wake_seq;

		if (s->streams[stream].completed >= seq)
			break;
		syscall(SYS_futex, &s->engine.wake_seq, FUTEX_WAIT, seen, NULL, NULL, 0);
	}
	s->client.waiters--;
	return s->contexts[0].error;
}

uint64_t client_alloc(struct client *c, uint64_t bytes)
{
	struct simgpu_reply a;

	assert_int_equal(client_call(c,
				 CALL(.type = SIMGPU_MSG_MEM_ALLOC, .kind = SIMGPU_MEM_LINEAR,
					 .arg = {bytes}),
				 -1, &a, NULL),
		0);
	return a.ptr;
}
