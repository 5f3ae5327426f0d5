/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine as a process, through its bare protocol: correct data; shares and memory, read from
 * the engine's trace and account; killed clients, faults, damaged rings; one engine per folder.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "engine-client.h"
#include "simgpu/trace.h"

#define MS NSEC_PER_MSEC
#define US NSEC_PER_USEC
#define MIB (UINT64_C(1) << 20)

static struct simgpu_trace *open_trace(void)
{
	struct simgpu_trace *t = NULL;
	struct error err = {0};

	if (simgpu_trace_open(client_dir(), &t, &err) < 0)
		fail_msg("%s", err.msg);
	return t;
}

static uint64_t used_bytes(struct client *c)
{
	struct simgpu_reply a;

	assert_int_equal(client_call(c, CALL(.type = SIMGPU_MSG_MEM_INFO), -1, &a, NULL), 0);
	return a.arg[1] - a.arg[0];
}

static void copy(struct client *c, uint32_t stream, uint64_t dst, uint64_t src, uint64_t bytes)
{
	struct simgpu_entry e = {.kind = SIMGPU_OP_COPY, .stream = stream};

	e.copy = (struct simgpu_op_copy){
		.dst = dst, .src = src, .width = bytes, .height = 1, .depth = 1};
	if (dst - SIMGPU_VA_BASE >= SIMGPU_VA_SIZE)
		e.flags = SIMGPU_ENTRY_VISIBLE;
	client_put(c, &e, NULL, 0);
}

struct saxpy {
	uint64_t y, x;
	float a;
	uint32_t pad;
	uint64_t n;
};

static void test_kernels_compute_correct_data(void **state)
{
	enum { N = 10000 };
	static float x[N], y[N];
	struct client c;
	struct saxpy p = {.a = 2.5f, .n = N};
	struct {
		uint64_t out, in, n;
	} reduce = {.n = N};
	struct {
		uint64_t ptr;
		uint32_t value, pad;
		uint64_t n;
	} fill = {.value = 7, .n = N};
	uint32_t sum = 0;

	client_connect(&c);
	client_context(&c, 0, 0, 2);
	for (int i = 0; i < N; i++) {
		x[i] = (float)i;
		y[i] = 1;
	}
	p.x = client_alloc(&c, sizeof(x));
	p.y = client_alloc(&c, sizeof(y));
	fill.ptr = reduce.in = client_alloc(&c, 4 * N);
	reduce.out = client_alloc(&c, 4);
	copy(&c, 1, p.x, (uint64_t)(uintptr_t)x, sizeof(x));
	copy(&c, 1, p.y, (uint64_t)(uintptr_t)y, sizeof(y));
	client_kernel(&c, 1, SIMGPU_KERNEL_SAXPY_F32, 64, &p, sizeof(p));
	copy(&c, 1, (uint64_t)(uintptr_t)y, p.y, sizeof(y));
	assert_int_equal(client_sync(&c, 1), 0);
	for (int i = 0; i < N; i++)
		assert_true(y[i] == 2.5f * (float)i + 1);
	client_kernel(&c, 1, SIMGPU_KERNEL_FILL_U32, 64, &fill, sizeof(fill));
	client_kernel(&c, 1, SIMGPU_KERNEL_REDUCE_U32, 64, &reduce, sizeof(reduce));
	copy(&c, 1, (uint64_t)(uintptr_t)&sum, reduce.out, 4);
	assert_int_equal(client_sync(&c, 1), 0);
	assert_int_equal(sum, 7 * N);
	client_close(&c);
}

static void test_markers(void **state)
{
	static volatile uint32_t done;
	struct client c;

	client_connect(&c);
	client_context(&c, 0, 0, 1);
	for (uint32_t i = 1; i <= 50; i++) {
		struct simgpu_entry e = {
			.kind = SIMGPU_OP_WRITE_VALUE, .stream = 1, .flags = SIMGPU_ENTRY_VISIBLE};

		for (int k = 0; k < 10; k++)
			client_spin_ns(&c, 1, 20 * US);
		e.value = (struct simgpu_op_value){
			.ptr = (uint64_t)(uintptr_t)&done, .value = i, .bytes = 4};
		client_put(&c, &e, NULL, 0);
	}
	assert_int_equal(client_sync(&c, 1), 0);
	assert_int_equal(done, 50);
	client_close(&c);
}

static void child_load(uint64_t kernel_ns, uint64_t for_ns)
{
	struct client c;
	uint64_t end;

	client_connect(&c);
	client_context(&c, 0, 0, 1);
	end = clock_now_ns() + for_ns;
	while (clock_now_ns() < end) {
		for (int i = 0; i < 1000; i++)
			client_spin_ns(&c, 1, kernel_ns);
		client_sync(&c, 1);
	}
	client_close(&c);
	_exit(0);
}

/* Two processes in time slices get about half each, and together about 93 % of the time. */
static void test_two_processes_share_by_time_slices(void **state)
{
	struct simgpu_trace *t;
	struct simgpu_busy busy[3];
	pid_t pid[2];
	uint64_t t0 = 0, t1 = 0, a, b, all;
	int status;

	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		if (!pid[i])
			child_load(100 * US, 1500 * MS);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(status, 0);
	}
	t = open_trace();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(simgpu_busy_load(t, &pid[i], 1, 0, SIMGPU_ENGINE_COMPUTE, 0,
					 UINT64_MAX, &busy[i]),
			0);
		assert_true(busy[i].n > 0);
		t0 = MAX(t0, busy[i].v[0].start_ns);
		t1 = i ? MIN(t1, busy[i].v[busy[i].n - 1].end_ns) : busy[i].v[busy[i].n - 1].end_ns;
	}
	assert_true(t1 > t0 + 50 * MS);
	assert_int_equal(
		simgpu_busy_load(t, pid, 2, 0, SIMGPU_ENGINE_COMPUTE, 0, UINT64_MAX, &busy[2]), 0);
	a = simgpu_busy_ns(&busy[0], t0, t1);
	b = simgpu_busy_ns(&busy[1], t0, t1);
	all = simgpu_busy_ns(&busy[2], t0, t1);
	assert_int_equal(all, a + b); /* the two processes never ran at the same time */
	assert_in_range(all * 1000 / (t1 - t0), 500, 1000);
	for (int i = 0; i < 3; i++)
		simgpu_busy_done(&busy[i]);
	simgpu_trace_close(t);
}

static void test_memory_account(void **state)
{
	struct client c;
	struct simgpu_trace *t = open_trace();
	uint64_t before, max, at, ptr, breaches;
	pid_t pid;
	int status;

	client_connect(&c);
	before = used_bytes(&c);
	pid = fork();
	if (!pid) {
		struct client d;

		client_connect(&d);
		client_context(&d, 0, 0, 1);
		ptr = client_alloc(&d, 100 * MIB);
		client_alloc(&d, 1000);
		assert_int_equal(client_call(&d, CALL(.type = SIMGPU_MSG_MEM_FREE, .ptr = ptr), -1,
					 NULL, NULL),
			0);
		client_alloc(&d, 50 * MIB);
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	while (used_bytes(&c) != before)
		usleep(1000);
	/* 16 MiB for the context (1/64 of the device), 100 MiB, and a granule for 1,000 bytes */
	assert_int_equal(simgpu_account_max(t, &pid, 1, 0, 0, UINT64_MAX, &max, &at), 0);
	assert_int_equal(max, 118 * MIB);
	assert_int_equal(simgpu_account_breaches(t, &pid, 1, 0, 118 * MIB, &breaches), 0);
	assert_int_equal(breaches, 0);
	assert_int_equal(simgpu_account_breaches(t, &pid, 1, 0, 117 * MIB, &breaches), 0);
	assert_true(breaches > 0);
	simgpu_trace_close(t);
	client_close(&c);
}

static void test_out_of_memory(void **state)
{
	struct client c;
	struct simgpu_request q = CALL(.type = SIMGPU_MSG_MEM_ALLOC, .arg = {2048 * MIB});

	client_connect(&c);
	client_context(&c, 0, 0, 1);
	assert_int_equal(client_call(&c, q, -1, NULL, NULL), 2);
	q.arg[0] = 900 * MIB;
	assert_int_equal(client_call(&c, q, -1, NULL, NULL), 0);
	assert_int_equal(client_call(&c, q, -1, NULL, NULL), 2);
	client_close(&c);
}

static void test_bad_address_is_sticky(void **state)
{
	struct client c;
	struct {
		uint64_t ptr;
		uint32_t value;
	} p = {.value = 1};
	struct simgpu_entry e = {
		.kind = SIMGPU_OP_WRITE_VALUE, .stream = 1, .flags = SIMGPU_ENTRY_VISIBLE};

	/* A kernel that writes freed device memory fails its context. */
	client_connect(&c);
	client_context(&c, 0, 0, 1);
	p.ptr = client_alloc(&c, 4096);
	assert_int_equal(
		client_call(&c, CALL(.type = SIMGPU_MSG_MEM_FREE, .ptr = p.ptr), -1, NULL, NULL),
		0);
	client_kernel(&c, 1, SIMGPU_KERNEL_SET_FLAG, 1, &p, 12);
	assert_int_equal(client_sync(&c, 1), 700);
	client_spin_ns(&c, 1, 10 * MS);
	assert_int_equal(client_sync(&c, 1), 700);
	client_close(&c);
	/* A write to unmapped host memory fails the context. */
	client_connect(&c);
	client_context(&c, 0, 0, 1);
	e.value = (struct simgpu_op_value){.ptr = 4096, .value = 1, .bytes = 4};
	client_put(&c, &e, NULL, 0);
	assert_int_equal(client_sync(&c, 1), 700);
	client_close(&c);
}

static void test_two_processes_share_host_memory(void **state)
{
	static volatile uint32_t *flag;
	struct {
		uint64_t ptr;
		uint32_t value, pad;
		uint64_t timeout;
	} spin;
	struct {
		uint64_t ptr;
		uint32_t value;
	} set;
	struct client c;
	pid_t pid;
	int status;

	/* Both processes map this host memory: one kernel polls it, the other sets it. */
	flag = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(flag != MAP_FAILED);
	spin.ptr = set.ptr = (uint64_t)(uintptr_t)flag;
	spin.value = set.value = 3;
	spin.timeout = 20000 * MS;
	pid = fork();
	if (!pid) {
		client_connect(&c);
		client_context(&c, 0, 1, 1);
		client_spin_ns(&c, 1, 5 * MS);
		client_kernel(&c, 1, SIMGPU_KERNEL_SET_FLAG, 1, &set, 12);
		_exit(client_sync(&c, 1) != 0);
	}
	client_connect(&c);
	client_context(&c, 0, 0, 1);
	client_kernel(&c, 1, SIMGPU_KERNEL_SPIN_FLAG, 1, &spin, sizeof(spin));
	assert_int_equal(client_sync(&c, 1), 0);
	assert_int_equal(*flag, 3);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	client_close(&c);
	munmap((void *)flag, 4096);
}

static void test_host_function(void **state)
{
	struct client c;
	struct simgpu_entry e = {
		.kind = SIMGPU_OP_HOST_FUNC, .stream = 1, .flags = SIMGPU_ENTRY_VISIBLE};
	uint64_t one = 1;

	client_connect(&c);
	client_context(&c, 0, 0, 1);
	e.host.cookie = 42;
	client_put(&c, &e, NULL, 0);
	while (!c.shm->engine.cb_tail)
		usleep(100);
	assert_int_equal(c.shm->callbacks[0].cookie, 42);
	assert_int_equal(c.shm->streams[1].completed, 0);
	c.shm->callbacks[0].done_ns = clock_now_ns();
	assert_int_equal(write(c.bell, &one, 8), 8);
	assert_int_equal(client_sync(&c, 1), 0);
	client_close(&c);
}

static void put_node(char *blob, size_t *at, struct simgpu_entry e, const uint32_t *deps,
	uint32_t n, uint64_t param)
{
	struct simgpu_graph_node node = {.ndeps = n, .trailing = 8};

	memcpy(blob + *at, &node, sizeof(node));
	*at += sizeof(node);
	memcpy(blob + *at, deps, n * sizeof(*deps));
	*at += (n * sizeof(*deps) + 7) & ~(size_t)7;
	memcpy(blob + *at, &e, sizeof(e));
	*at += sizeof(e);
	memcpy(blob + *at, &param, 8);
	*at += 8;
}

static void test_graph(void **state)
{
	struct client c;
	struct simgpu_entry k = {.kind = SIMGPU_OP_KERNEL},
			    launch = {.kind = SIMGPU_OP_GRAPH_LAUNCH, .stream = 1};
	struct simgpu_graph_head head = {.nodes = 3};
	static const uint32_t deps[] = {0, 1};
	char blob[2048] = {0};
	size_t at = sizeof(head);
	int fd;

	client_connect(&c);
	client_context(&c, 0, 0, 1);
	k.kernel = (struct simgpu_op_kernel){
		.kernel = SIMGPU_KERNEL_SPIN_NS, .blocks = 1, .param_bytes = 8};
	memcpy(blob, &head, sizeof(head));
	put_node(blob, &at, k, deps, 0, 100 * US);
	put_node(blob, &at, k, deps, 1, 200 * US);
	put_node(blob, &at, k, deps, 2, 300 * US);
	fd = memfd_new("graph", at);
	assert_int_equal(pwrite(fd, blob, at, 0), (ssize_t)at);
	assert_int_equal(
		client_call(&c, CALL(.type = SIMGPU_MSG_GRAPH_CREATE, .arg = {5}), fd, NULL, NULL),
		0);
	for (int i = 0; i < 20; i++) {
		launch.graph.graph = 5;
		client_put(&c, &launch, NULL, 0);
	}
	assert_int_equal(client_sync(&c, 1), 0);
	launch.graph.graph = 6; /* there is no graph in slot 6 */
	client_put(&c, &launch, NULL, 0);
	assert_int_equal(client_sync(&c, 1), 719);
	/* A dependency on a later node is refused. */
	put_node(blob, &at, k, (const uint32_t[]){3}, 1, 1);
	head.nodes = 4;
	memcpy(blob, &head, sizeof(head));
	close(fd);
	fd = memfd_new("graph", at);
	assert_int_equal(pwrite(fd, blob, at, 0), (ssize_t)at);
	assert_int_equal(
		client_call(&c, CALL(.type = SIMGPU_MSG_GRAPH_CREATE, .arg = {6}), fd, NULL, NULL),
		1);
	close(fd);
	client_close(&c);
}

static void test_pool(void **state)
{
	struct client c;
	struct simgpu_reply a, b;
	struct simgpu_request alloc = CALL(.type = SIMGPU_MSG_POOL_ALLOC,
		.id = SIMGPU_POOL_DEFAULT(0), .stream = 1, .arg = {5 * MIB});
	struct simgpu_entry e = {.kind = SIMGPU_OP_FREE_ASYNC, .stream = 1};
	uint64_t before;

	client_connect(&c);
	client_context(&c, 0, 0, 1);
	before = used_bytes(&c);
	client_spin_ns(&c, 1, 20 * MS);
	assert_int_equal(client_call(&c, alloc, -1, &a, NULL), 0);
	e.mem.ptr = a.ptr;
	client_put(&c, &e, NULL, 0);
	/* The engine may reuse an address whose free precedes the allocation in the same stream. */
	assert_int_equal(client_call(&c, alloc, -1, &b, NULL), 0);
	assert_true(a.ptr == b.ptr);
	e.mem.ptr = b.ptr;
	client_put(&c, &e, NULL, 0);
	assert_int_equal(client_sync(&c, 1), 0);
	assert_int_equal(used_bytes(&c), before);
	client_put(&c, &e, NULL, 0); /* a second free fails */
	assert_int_not_equal(client_sync(&c, 1), 0);
	client_close(&c);
}

static void test_managed_eviction(void **state)
{
	struct {
		uint64_t ptr;
		uint32_t value, pad;
		uint64_t n;
	} p = {.value = 9, .n = 1000};
	struct client c;
	struct simgpu_reply a[3], info;
	int fd[3];
	uint32_t *host;

	/*
	 * The device has 1 GiB. Of three allocations of 400 MiB two fit, and the third evicts the
	 * first.
	 */
	client_connect(&c);
	client_context(&c, 0, 0, 1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(client_call(&c,
					 CALL(.type = SIMGPU_MSG_MEM_ALLOC,
						 .kind = SIMGPU_MEM_MANAGED, .arg = {400 * MIB}),
					 -1, &a[i], &fd[i]),
			0);
	}
	for (int i = 0; i < 3; i++) {
		p.ptr = a[i].ptr;
		client_kernel(&c, 1, SIMGPU_KERNEL_FILL_U32, 64, &p, sizeof(p));
		assert_int_equal(client_sync(&c, 1), 0);
		assert_int_equal(
			client_call(&c, CALL(.type = SIMGPU_MSG_MEM_QUERY, .ptr = p.ptr + 5), -1,
				&info, NULL),
			0);
		assert_int_equal(info.arg[2], 400 * MIB);
	}
	assert_int_equal(client_call(&c, CALL(.type = SIMGPU_MSG_MEM_QUERY, .ptr = a[0].ptr), -1,
				 &info, NULL),
		0);
	assert_int_equal(info.arg[2], 0);
	host = mmap((void *)a[0].ptr, 4096, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fd[0], 0);
	assert_true(host == (void *)a[0].ptr);
	assert_int_equal(host[999], 9);
	munmap(host, 4096);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	client_close(&c);
}

static void test_stopped_client(void **state)
{
	struct client c;
	struct simgpu_trace *t = open_trace();
	struct simgpu_busy busy;
	int go[2];
	pid_t pid;
	char byte;
	uint64_t ns = 0;

	/* The work that a client has submitted continues while the client is stopped. */
	client_connect(&c);
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (!pid) {
		struct client d;

		client_connect(&d);
		client_context(&d, 0, 0, 1);
		for (int i = 0; i < 100; i++)
			client_spin_ns(&d, 1, 1 * MS);
		assert_int_equal(write(go[1], "x", 1), 1);
		raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(read(go[0], &byte, 1), 1);
	waitpid(pid, NULL, WUNTRACED);
	while (ns < 100 * MS) {
		usleep(5000);
		client_call(&c, CALL(.type = SIMGPU_MSG_SYNC), -1, NULL, NULL);
		assert_int_equal(simgpu_busy_load(t, &pid, 1, 0, SIMGPU_ENGINE_COMPUTE, 0,
					 UINT64_MAX, &busy),
			0);
		ns = simgpu_busy_ns(&busy, 0, UINT64_MAX);
		simgpu_busy_done(&busy);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	simgpu_trace_close(t);
	client_close(&c);
	close(go[0]);
	close(go[1]);
}

static int faults_fd(const char *text)
{
	int fd = memfd_new("faults", 0);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static void set_faults(struct client *c, const char *text, uint32_t status)
{
	int fd = faults_fd(text);

	assert_int_equal(client_call(c, CALL(.type = SIMGPU_MSG_FAULTS), fd, NULL, NULL), status);
	close(fd);
}

static void test_faults(void **state)
{
	struct client c, d;
	struct simgpu_request q = CALL(.type = SIMGPU_MSG_MEM_ALLOC, .arg = {MIB});

	client_connect(&d);
	client_connect(&c);
	client_context(&c, 0, 0, 1);
	set_faults(&d, "oom device=0 nth=2\n", 0);
	assert_int_equal(client_call(&c, q, -1, NULL, NULL), 0);
	assert_int_equal(client_call(&c, q, -1, NULL, NULL), 2);
	assert_int_equal(client_call(&c, q, -1, NULL, NULL), 0);
	set_faults(&d, "oom device=0 nth=two\n", 1);
	set_faults(&d, "ecc device=15\n", 1);
	set_faults(&d, "ecc device=0 after=3 # comment\n", 0);
	for (int i = 0; i < 5; i++)
		client_spin_ns(&c, 1, 10 * US);
	assert_int_equal(client_sync(&c, 1), 214);
	client_close(&c);
	/* A hanging kernel ends with its process. */
	client_connect(&c);
	client_context(&c, 0, 0, 1);
	set_faults(&d, "hang device=0\n", 0);
	client_spin_ns(&c, 1, 10 * US);
	client_put(&c, &(struct simgpu_entry){.kind = SIMGPU_OP_EMPTY, .stream = 1}, NULL, 0);
	client_close(&c);
	set_faults(&d, "", 0);
	client_context(&d, 0, 0, 1);
	client_spin_ns(&d, 1, 10 * US);
	assert_int_equal(client_sync(&d, 1), 0);
	client_close(&d);
}

/* A client that writes invalid entries harms only itself. */
static void test_damaged_ring(void **state)
{
	struct client c, good;
	unsigned int seed = 7;
	uint64_t one = 1;

	client_connect(&good);
	client_context(&good, 0, 0, 1);
	for (int round = 0; round < 40; round++) {
		client_connect(&c);
		client_context(&c, 0, 0, 2);
		for (int i = 0; i < 200; i++)
			((uint32_t *)(c.shm->ring + c.shm->client.tail))[i] =
				(uint32_t)rand_r(&seed) % (round % 2 ? 16 : 1u << 30);
		c.shm->client.tail += 64 * (1 + (uint32_t)rand_r(&seed) % 12);
		assert_int_equal(write(c.bell, &one, 8), 8);
		client_call(&c, CALL(.type = SIMGPU_MSG_SYNC), -1, NULL, NULL);
		client_close(&c);
		client_spin_ns(&good, 1, 10 * US);
		assert_int_equal(client_sync(&good, 1), 0);
	}
	client_close(&good);
}

static void test_more_than_the_ring_holds(void **state)
{
	struct client c;

	client_connect(&c);
	client_context(&c, 0, 0, 1);
	for (int i = 0; i < 60000; i++)
		client_spin_ns(&c, 1, 1);
	assert_int_equal(client_sync(&c, 1), 0);
	assert_int_equal(c.shm->streams[1].completed, 60000);
	client_close(&c);
}

static void test_killed_engine_is_replaced(void **state)
{
	struct client c;
	struct simgpu_reply a;
	char byte;

	client_connect(&c);
	assert_int_equal(client_call(&c, CALL(.type = SIMGPU_MSG_STATUS), -1, &a, NULL), 0);
	kill((pid_t)a.arg[0], SIGKILL);
	assert_true(recv(c.sock, &byte, 1, 0) <= 0);
	client_close(&c);
	client_connect(&c);
	client_context(&c, 0, 0, 1);
	client_spin_ns(&c, 1, 10 * US);
	assert_int_equal(client_sync(&c, 1), 0);
	client_close(&c);
}

/* Many processes find no engine at once: one engine starts and serves all. */
static void test_many_clients_start_one_engine(void **state)
{
	struct client c;
	struct simgpu_reply a;
	pid_t pids[12];
	int out[2], status;
	uint64_t engines[12];
	char byte;

	client_connect(&c);
	client_call(&c, CALL(.type = SIMGPU_MSG_STOP), -1, NULL, NULL);
	assert_true(recv(c.sock, &byte, 1, 0) <= 0);
	client_close(&c);
	assert_int_equal(pipe(out), 0);
	for (int i = 0; i < 12; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			client_connect(&c);
			client_call(&c, CALL(.type = SIMGPU_MSG_STATUS), -1, &a, NULL);
			_exit(write(out[1], &a.arg[0], 8) != 8);
		}
	}
	for (int i = 0; i < 12; i++) {
		assert_int_equal(read(out[0], &engines[i], 8), 8);
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
		assert_int_equal(engines[i], engines[0]);
	}
	close(out[0]);
	close(out[1]);
}

static int setup(void **state)
{
	client_setup("2xTest-1Gi", "");
	return 0;
}

static int teardown(void **state)
{
	client_teardown();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernels_compute_correct_data),
		cmocka_unit_test(test_markers),
		cmocka_unit_test(test_two_processes_share_by_time_slices),
		cmocka_unit_test(test_memory_account),
		cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_bad_address_is_sticky),
		cmocka_unit_test(test_two_processes_share_host_memory),
		cmocka_unit_test(test_host_function),
		cmocka_unit_test(test_graph),
		cmocka_unit_test(test_pool),
		cmocka_unit_test(test_managed_eviction),
		cmocka_unit_test(test_stopped_client),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_damaged_ring),
		cmocka_unit_test(test_more_than_the_ring_holds),
		cmocka_unit_test(test_killed_engine_is_replaced),
		cmocka_unit_test(test_many_clients_start_one_engine),
	};

	/* SIGPIPE would end the test instead of failing it. */
	sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	if (getenv("CMOCKA_TEST_FILTER"))
		cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, setup, teardown);
}
