/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers that break the protocol. A program without the remote library opens lanes twice and sends
 * requests on several lanes to the same few objects. Its worker continues or ends the session, and
 * does nothing else. A lying server: the program gets an error.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../simgpu/driver.h"
#include "base/clock.h"
#include "base/fd.h"
#include "remote/kinds.h"
#include "remote/launch.h"
#include "remote/ring.h"
#include "../../patience.h"

enum { LANES = 4, POOL = 8, CHAOS_S = 3 };

static uint64_t until_ns;

static bool goes_on(void *unused)
{
	return clock_now_ns() < until_ns;
}

static const struct ring_watch watch = {.goes_on = goes_on};

static void give_up_after(unsigned seconds)
{
	until_ns = clock_now_ns() + seconds * NSEC_PER_SEC;
}

static void check(bool ok, const char *what)
{
	if (!ok) {
		tap_ok(false, "%s", what);
		exit(1);
	}
}

/* ---- a program without the remote library ---- */

static int sock = -1;
static struct remote_session *shared;

static void say_hello(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct remote_note note = {.type = REMOTE_HELLO,
		.abi = REMOTE_ABI,
		.machine = REMOTE_MACHINE,
		.bytes = 1,
		.text = "!"};
	struct fd_list fds = {.n = 0};
	struct map map;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", getenv("DIVVY_REMOTE"));
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	check(connect(sock, (struct sockaddr *)&address, sizeof(address)) == 0, "connect");
	check(fd_send(sock, &note, sizeof(note), NULL, 0, MSG_NOSIGNAL) == sizeof(note), "hello");
	check(fd_recv(sock, &note, sizeof(note), &fds, 0) == sizeof(note), "welcome");
	check(note.type == REMOTE_WELCOME && fds.n == 1, "a session");
	check(map_fd(fds.fd[0], REMOTE_BYTES, PROT_READ | PROT_WRITE, &map) == 0, "map");
	shared = map.p;
	fd_list_done(&fds);
}

struct lane {
	struct ring up, down;
};

static void open_lane(unsigned index, struct lane *ret)
{
	const struct remote_note note = {.type = REMOTE_OPEN, .abi = REMOTE_ABI, .lane = index};

	fd_send(sock, &note, sizeof(note), NULL, 0, MSG_NOSIGNAL);
	ring_attach_producer(&ret->up, shared, index, RING_UP);
	ring_attach_consumer(&ret->down, shared, index, RING_DOWN);
}

static bool is_ended(unsigned seconds)
{
	struct timeval wait = {.tv_sec = (time_t)seconds};
	char byte;

	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	return recv(sock, &byte, 1, 0) == 0;
}

/*
 * Sends a request and copies ret_n bytes of the answer to ret. CUDA_ERROR_UNKNOWN if no answer
 * comes in time.
 */
static CUresult ask(
	struct lane *lane, unsigned op, const void *fields, size_t n, void *ret, size_t ret_n)
{
	const size_t bytes = (sizeof(struct remote_frame) + n + 15) & ~(size_t)15;
	struct remote_frame *frame = ring_reserve(&lane->up, bytes, &watch), head;
	const void *answer;

	if (!frame)
		return CUDA_ERROR_UNKNOWN;
	*frame = (struct remote_frame){
		.size = (uint32_t)bytes, .op = (uint16_t)op, .flags = REMOTE_ANSWER};
	memset((uint8_t *)frame + bytes - 16, 0, n ? 16 : 0);
	memcpy(frame + 1, fields, n);
	ring_publish(&lane->up, bytes);
	if (ring_next(&lane->down, &watch, &head, &answer) <= 0)
		return CUDA_ERROR_UNKNOWN;
	if (!head.result && ret && head.size >= sizeof(head) + ret_n)
		memcpy(ret, (const uint8_t *)answer + sizeof(head), ret_n);
	ring_consume(&lane->down, head.size);
	return (CUresult)head.result;
}

#define ASK(lane, op, ret, ...) \
	ask(lane, op, (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}), ret, \
		sizeof(*(ret)))

static uint64_t unused_answer;
#define TELL(lane, op, ...) ASK(lane, op, &unused_answer, __VA_ARGS__)

static void opened_twice(void)
{
	struct lane lane;

	say_hello();
	give_up_after(patience_s(PATIENCE_S));
	open_lane(1, &lane);
	tap_ok(ASK(&lane, REMOTE_OP_cuDriverGetVersion, &unused_answer, 1) == CUDA_SUCCESS,
		"the worker serves an opened lane");
	open_lane(1, &lane);
	tap_ok(is_ended(patience_s(PATIENCE_S)), "a lane that is opened twice ends the session");
}

static void opened_again(void)
{
	struct lane lane;
	bool right = true;

	say_hello();
	give_up_after(patience_s(PATIENCE_S));
	for (int i = 0; i < 1000 && right; i++) {
		open_lane(1, &lane);
		right = !TELL(&lane, REMOTE_OP_cuDriverGetVersion, 1) &&
			!TELL(&lane, REMOTE_CLOSE, 0);
	}
	tap_ok(right, "a closed lane can be opened again");
}

/* ---- several lanes use the same objects ---- */

enum pool { GRAPHS, NODES, EXECS, STREAMS, POOLS };

static struct {
	pthread_mutex_t lock;
	uint64_t handle[POOLS][POOL];
	uint64_t context, memory;
} objects = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t pick(enum pool pool, unsigned *seed)
{
	uint64_t handle;

	pthread_mutex_lock(&objects.lock);
	handle = objects.handle[pool][(unsigned)rand_r(seed) % POOL];
	pthread_mutex_unlock(&objects.lock);
	return handle;
}

static void keep(enum pool pool, uint64_t handle, unsigned *seed)
{
	if (!handle)
		return;
	pthread_mutex_lock(&objects.lock);
	objects.handle[pool][(unsigned)rand_r(seed) % POOL] = handle;
	pthread_mutex_unlock(&objects.lock);
}

static void host_node(struct lane *lane, unsigned op, uint64_t of, uint64_t node, unsigned *seed)
{
	struct {
		uint64_t work;
		struct remote_node node;
	} fields = {(uint64_t)rand_r(seed) % 64, {.of = of, .node = node}};
	uint64_t made = 0;

	ask(lane, op, &fields, sizeof(fields), &made, sizeof(made));
	keep(NODES, made, seed);
}

static void host_call(struct lane *lane, unsigned *seed)
{
	const struct remote_host_call call = {.stream = pick(STREAMS, seed),
		.work = (uint64_t)rand_r(seed) % 64,
		.is_callback = rand_r(seed) % 8 == 0,
		.is_free = (uint32_t)rand_r(seed) % 2};

	ask(lane, REMOTE_HOST_CALL, &call, sizeof(call), NULL, 0);
}

static void copy(struct lane *lane, unsigned *seed)
{
	static const unsigned ops[] = {REMOTE_COPY_IN, REMOTE_COPY_OUT, REMOTE_COPY_FETCH,
		REMOTE_COPY_PUSH, REMOTE_COPY_PART, REMOTE_COPY_REST};
	const unsigned op = ops[(unsigned)rand_r(seed) % 6];
	struct {
		struct remote_copy copy;
		uint8_t data[4096];
	} fields = {.copy = {.stream = pick(STREAMS, seed),
			    .work = (uint64_t)rand_r(seed) % 64,
			    .address = objects.memory,
			    .x = (uint64_t)rand_r(seed) % 8192,
			    .width = 1u << (rand_r(seed) % 20),
			    .height = 1 + (uint64_t)rand_r(seed) % 2,
			    .depth = 1,
			    .pitch = 1u << (rand_r(seed) % 20),
			    .is_async = (uint32_t)rand_r(seed) % 2,
			    .is_free = (uint32_t)rand_r(seed) % 2,
			    .is_whole = (uint32_t)rand_r(seed) % 2}};

	if (op == REMOTE_COPY_PART)
		fields.copy.stream = 1u << 20, fields.copy.work = 4096;
	if (op == REMOTE_COPY_REST)
		fields.copy.stream = 1u << (rand_r(seed) % 18);
	ask(lane, op, &fields, sizeof(fields), NULL, 0);
}

static void one_request(struct lane *lane, unsigned *seed)
{
	uint64_t made = 0;

	switch (rand_r(seed) % 16) {
	case 0:
		ASK(lane, REMOTE_OP_cuGraphCreate, &made, 1, 0);
		keep(GRAPHS, made, seed);
		break;
	case 1:
	case 2: host_node(lane, REMOTE_OP_cuGraphAddHostNode, pick(GRAPHS, seed), 0, seed); break;
	case 3:
	case 4:
		host_node(lane, REMOTE_OP_cuGraphHostNodeSetParams, 0, pick(NODES, seed), seed);
		break;
	case 5:
		host_node(lane, REMOTE_OP_cuGraphExecHostNodeSetParams, pick(EXECS, seed),
			pick(NODES, seed), seed);
		break;
	case 6:
	case 7:
		ASK(lane, REMOTE_OP_cuGraphInstantiateWithFlags, &made, 1, pick(GRAPHS, seed), 0);
		keep(EXECS, made, seed);
		break;
	case 8:
	case 9: TELL(lane, REMOTE_OP_cuGraphLaunch, pick(EXECS, seed), pick(STREAMS, seed)); break;
	case 10:
		TELL(lane, REMOTE_OP_cuGraphExecUpdate_v2, 1, pick(EXECS, seed),
			pick(GRAPHS, seed));
		break;
	case 11:
		TELL(lane,
			rand_r(seed) % 2 ? REMOTE_OP_cuGraphExecDestroy : REMOTE_OP_cuGraphDestroy,
			pick(rand_r(seed) % 2 ? EXECS : GRAPHS, seed));
		break;
	case 12:
		TELL(lane, REMOTE_OP_cuStreamBeginCapture_v2, pick(STREAMS, seed),
			CU_STREAM_CAPTURE_MODE_RELAXED);
		break;
	case 13:
		ASK(lane, REMOTE_OP_cuStreamEndCapture, &made, 1, pick(STREAMS, seed));
		keep(GRAPHS, made, seed);
		break;
	case 14: host_call(lane, seed); break;
	default: copy(lane, seed); break;
	}
}

static void *chaos(void *argument)
{
	const unsigned index = (unsigned)(uintptr_t)argument;
	unsigned seed = index;
	struct lane lane;

	open_lane(index, &lane);
	TELL(&lane, REMOTE_OP_cuCtxSetCurrent, objects.context);
	while (goes_on(NULL))
		one_request(&lane, &seed);
	return NULL;
}

/* Answers every request of the worker to the program. */
static void *answer_worker(void *unused)
{
	static uint8_t
		frame[sizeof(struct remote_frame) + sizeof(struct remote_reverse) + REMOTE_PIECE];
	struct remote_frame head;
	struct ring up, down;
	const void *asked;

	ring_attach_producer(&up, shared, 0, RING_UP);
	ring_attach_consumer(&down, shared, 0, RING_DOWN);
	while (ring_next(&down, &watch, &head, &asked) > 0) {
		struct remote_reverse reverse = {0};
		struct remote_frame reply = {.op = head.op, .size = sizeof(frame)};
		void *room;

		memcpy(&reverse, (const uint8_t *)asked + sizeof(head), sizeof(reverse));
		ring_consume(&down, head.size);
		if (head.op != REMOTE_PULL && head.op != REMOTE_CALL)
			continue;
		if (head.op == REMOTE_CALL || reverse.bytes > REMOTE_PIECE)
			reverse.bytes = 0;
		reply.size = (uint32_t)((sizeof(reply) + sizeof(reverse) + reverse.bytes + 15) &
			~(size_t)15);
		memcpy(frame, &reply, sizeof(reply));
		memcpy(frame + sizeof(reply), &reverse, sizeof(reverse));
		room = ring_reserve(&up, reply.size, &watch);
		if (!room)
			break;
		memcpy(room, frame, reply.size);
		ring_publish(&up, reply.size);
	}
	return NULL;
}

static void lanes_without_order(void)
{
	pthread_t thread[LANES], reverse;
	struct lane lane;
	unsigned seed = 1;

	say_hello();
	give_up_after(patience_s(PATIENCE_S));
	open_lane(LANES + 1, &lane);
	check(!ASK(&lane, REMOTE_OP_cuCtxCreate_v2, &objects.context, 1, 0, 0), "a context");
	check(!ASK(&lane, REMOTE_OP_cuMemAlloc_v2, &objects.memory, 1, 4 << 20), "memory");
	for (uint64_t i = 0; i < 4; i++) {
		const uint64_t stream = handle_make(KIND_CUstream, HANDLE_CLIENT | i);

		check(!TELL(&lane, REMOTE_OP_cuStreamCreate, 1, stream, 1), "a stream");
		for (int k = 0; k < POOL; k++)
			keep(STREAMS, stream, &seed);
	}
	give_up_after(CHAOS_S);
	if (pthread_create(&reverse, NULL, answer_worker, NULL))
		exit(1);
	for (uintptr_t i = 0; i < LANES; i++)
		if (pthread_create(&thread[i], NULL, chaos, (void *)(i + 1)))
			exit(1);
	for (int i = 0; i < LANES; i++)
		pthread_join(thread[i], NULL);
	pthread_join(reverse, NULL);
	give_up_after(patience_s(PATIENCE_S));
	tap_ok(TELL(&lane, REMOTE_OP_cuDriverGetVersion, 1) == CUDA_SUCCESS,
		"a worker survives unordered calls of several lanes on the same objects");
}

/* ---- copies into a capturing stream, sent like copies into any other stream ---- */

static struct {
	struct remote_copy copy;
	uint32_t data[REMOTE_PIECE / 4];
} along;

static void fill(uint64_t stream, uint64_t at, size_t bytes, uint32_t value)
{
	along.copy = (struct remote_copy){.stream = stream,
		.address = objects.memory,
		.x = at,
		.width = bytes,
		.height = 1,
		.depth = 1,
		.is_async = true};
	for (size_t i = 0; i < bytes / 4; i++)
		along.data[i] = value;
}

static bool copy_in(struct lane *lane)
{
	return !ask(lane, REMOTE_COPY_IN, &along, sizeof(along.copy) + along.copy.width, NULL, 0);
}

static uint32_t last_word(struct lane *lane, uint64_t at, size_t bytes)
{
	uint32_t words[1024] = {0};

	fill(0, at + bytes - sizeof(words), sizeof(words), 0);
	along.copy.is_async = false;
	ask(lane, REMOTE_COPY_OUT, &along.copy, sizeof(along.copy), words, sizeof(words));
	return words[1023];
}

static void captured_by_another(void)
{
	enum { SHORT = 8192, LONG = REMOTE_PIECE };
	const uint64_t stream = handle_make(KIND_CUstream, HANDLE_CLIENT | 1);
	uint64_t context, graph, exec;
	struct lane lane;
	bool right = true;

	say_hello();
	give_up_after(patience_s(PATIENCE_S));
	open_lane(1, &lane);
	check(!ASK(&lane, REMOTE_OP_cuCtxCreate_v2, &context, 1, 0, 0), "a context");
	check(!ASK(&lane, REMOTE_OP_cuMemAlloc_v2, &objects.memory, 1, 4 << 20), "memory");
	check(!TELL(&lane, REMOTE_OP_cuStreamCreate, 1, stream, 1), "a stream");
	check(!TELL(&lane, REMOTE_OP_cuStreamBeginCapture_v2, stream,
		      CU_STREAM_CAPTURE_MODE_RELAXED),
		"a capture");
	fill(stream, 0, SHORT, 1);
	check(copy_in(&lane), "a short copy");
	fill(stream, SHORT, LONG, 2);
	check(copy_in(&lane), "a longer copy");
	check(!ASK(&lane, REMOTE_OP_cuStreamEndCapture, &graph, 1, stream), "a graph");
	check(!ASK(&lane, REMOTE_OP_cuGraphInstantiateWithFlags, &exec, 1, graph, 0), "an exec");
	/*
	 * Before the graph is launched, the stream makes further copies, through the ring and
	 * through staging memory.
	 */
	for (uint32_t i = 0; i < 2 * REMOTE_STAGES && right; i++) {
		fill(stream, i % 2 ? SHORT : 0, i % 2 ? LONG : SHORT, 7);
		right = copy_in(&lane);
	}
	tap_ok(right && last_word(&lane, 0, SHORT) == 7 && last_word(&lane, SHORT, LONG) == 7,
		"captured copies take no staging memory from other copies");
	check(!TELL(&lane, REMOTE_OP_cuGraphLaunch, exec, stream), "a launch");
	check(!TELL(&lane, REMOTE_OP_cuCtxSynchronize, 0), "synchronised");
	tap_ok(last_word(&lane, 0, SHORT) == 1 && last_word(&lane, SHORT, LONG) == 2,
		"a launch copies the data that was sent with the captured copy");
}

/* ---- a lying server ---- */

static struct liar {
	int listener;
	bool is_unsealed;
	struct ring up, down, reverse;
	/*
	 * writes the answer's fields and returns their size, or returns 0 to answer with `result`
	 */
	size_t (*lie)(struct liar *liar, const struct remote_frame *head, uint8_t *to);
	unsigned asked;
	int program;
	CUresult result;
} liar;

static void *serve_lies(void *unused)
{
	static uint8_t fields[REMOTE_FRAME_MAX];
	struct liar *l = &liar;
	struct remote_note note;
	struct remote_frame head;
	const void *frame;
	struct map map;
	int program = accept(l->listener, NULL, NULL), memory;

	l->program = program;
	if (fd_recv(program, &note, sizeof(note), NULL, 0) != sizeof(note))
		return NULL;
	memory = memfd_new("liar", REMOTE_BYTES);
	if (memory < 0 || map_fd(memory, REMOTE_BYTES, PROT_READ | PROT_WRITE, &map) < 0 ||
		(!l->is_unsealed && memfd_seal(memory, F_SEAL_SHRINK | F_SEAL_GROW) < 0))
		return NULL;
	shared = map.p;
	shared->magic = REMOTE_MAGIC;
	shared->abi = REMOTE_ABI;
	shared->link_role = REMOTE_LINK_SERVER;
	shared->lanes = REMOTE_LANES;
	shared->ring_bytes = REMOTE_RING;
	note = (struct remote_note){.type = REMOTE_WELCOME, .abi = REMOTE_ABI};
	fd_send(program, &note, sizeof(note), &memory, 1, MSG_NOSIGNAL);
	if (fd_recv(program, &note, sizeof(note), NULL, 0) != sizeof(note))
		return NULL;
	ring_attach_consumer(&l->up, shared, note.lane, RING_UP);
	ring_attach_producer(&l->down, shared, note.lane, RING_DOWN);
	ring_attach_producer(&l->reverse, shared, 0, RING_DOWN);
	while (ring_next(&l->up, &watch, &head, &frame) > 0) {
		struct remote_frame answer = {.result = CUDA_SUCCESS};
		size_t n;
		void *room;

		l->result = CUDA_SUCCESS;
		n = l->lie(l, &head, fields);
		answer.size = (uint32_t)((sizeof(answer) + n + 15) & ~(size_t)15);
		answer.result = (int32_t)l->result;
		ring_consume(&l->up, head.size);
		if (!(head.flags & REMOTE_ANSWER))
			continue;
		room = ring_reserve(&l->down, answer.size, &watch);
		if (!room)
			break;
		memcpy(room, &answer, sizeof(answer));
		memcpy((uint8_t *)room + sizeof(answer), fields, n);
		ring_publish(&l->down, answer.size);
	}
	return NULL;
}

static void begin_lies(size_t (*lie)(struct liar *, const struct remote_frame *, uint8_t *))
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	pthread_t thread;

	alarm(patience_s(PATIENCE_S));
	give_up_after(patience_s(PATIENCE_S));
	liar.lie = lie;
	snprintf(address.sun_path, sizeof(address.sun_path), "%.64s/liar-%d.sock", machine_dir(),
		(int)getpid());
	liar.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	check(bind(liar.listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
			listen(liar.listener, 1) == 0 &&
			!pthread_create(&thread, NULL, serve_lies, NULL),
		"a server");
	setenv("DIVVY_REMOTE", address.sun_path, 1);
}

static size_t nothing(struct liar *l, const struct remote_frame *head, uint8_t *to)
{
	return 0;
}

static void memory_that_may_shrink(void)
{
	liar.is_unsealed = true;
	begin_lies(nothing);
	EXPECT(CUDA_ERROR_OPERATING_SYSTEM, drv.cuInit(0));
}

/* Answers each request with another invalid layout. */
static size_t wrong_layouts(struct liar *l, const struct remote_frame *head, uint8_t *to)
{
	struct remote_layout layout = {.n = 1, .bytes = 8};

	if (head->op != REMOTE_LAYOUT)
		return 0;
	switch (l->asked++) {
	case 0: layout.n = 1u << 20; break;
	case 1: layout.param[0].size = 65535; break;
	case 2: layout.param[0].offset = 8, layout.param[0].size = 1; break;
	default: layout.bytes = 1u << 30; break;
	}
	memcpy(to, &layout, sizeof(layout));
	return sizeof(layout);
}

static void layouts_that_are_none(void)
{
	uint64_t word = 0;
	void *params[] = {&word};

	begin_lies(wrong_layouts);
	NEED(drv.cuInit(0));
	for (uintptr_t i = 0; i < 4; i++)
		EXPECT(CUDA_ERROR_UNKNOWN,
			drv.cuLaunchKernel(
				(CUfunction)(0x1000 + i), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

static size_t growing_cubin(struct liar *l, const struct remote_frame *head, uint8_t *to)
{
	const uint64_t all = l->asked++ ? 64u << 20 : REMOTE_PIECE + 64;
	const uint64_t n = REMOTE_PIECE;

	if (head->op != REMOTE_OP_cuLinkComplete)
		return 0;
	memcpy(to, &all, sizeof(all));
	memcpy(to + 8, &n, sizeof(n));
	memset(to + 16, 'x', n);
	return 16 + n;
}

static void a_cubin_that_grows(void)
{
	void *cubin = NULL;
	size_t size;

	begin_lies(growing_cubin);
	NEED(drv.cuInit(0));
	EXPECT(CUDA_ERROR_UNKNOWN, drv.cuLinkComplete((CUlinkState)0x1000, &cubin, &size));
}

static size_t endless_cubin(struct liar *l, const struct remote_frame *head, uint8_t *to)
{
	const uint64_t all = 64, n = UINT64_MAX;

	if (head->op != REMOTE_OP_cuLinkComplete)
		return 0;
	memcpy(to, &all, sizeof(all));
	memcpy(to + 8, &n, sizeof(n));
	return 16;
}

static void a_cubin_without_end(void)
{
	void *cubin = NULL;
	size_t size;

	begin_lies(endless_cubin);
	NEED(drv.cuInit(0));
	EXPECT(CUDA_ERROR_UNKNOWN, drv.cuLinkComplete((CUlinkState)0x1000, &cubin, &size));
}

#define FALSE_ADDRESS 0x300000000000ull

/* Instead of fetching the source of a copy, the server writes to the source. */
static size_t pushed_to_a_source(struct liar *l, const struct remote_frame *head, uint8_t *to)
{
	const uint64_t address = FALSE_ADDRESS, context = handle_make(KIND_CUcontext, 1);
	struct {
		struct remote_frame head;
		struct remote_reverse reverse;
		uint8_t bytes[64];
	} push = {.head = {.size = sizeof(push), .op = REMOTE_PUSH}, .reverse = {.bytes = 64}};
	void *room;

	switch (head->op) {
	case REMOTE_OP_cuMemAlloc_v2: memcpy(to, &address, sizeof(address)); return 8;
	case REMOTE_OP_cuCtxGetCurrent: memcpy(to, &context, sizeof(context)); return 8;
	case REMOTE_OP_cuCtxGetDevice: memset(to, 0, 8); return 8;
	case REMOTE_COPY_FETCH:
		memset(push.bytes, 'x', sizeof(push.bytes));
		room = ring_reserve(&l->reverse, sizeof(push), &watch);
		if (room) {
			memcpy(room, &push, sizeof(push));
			ring_publish(&l->reverse, sizeof(push));
		}
		return 0;
	default: return 0;
	}
}

static void a_source_that_is_written_to(void)
{
	const CUstream stream = (CUstream)handle_make(KIND_CUstream, 1);
	CUdeviceptr device = 0;
	char *host;

	begin_lies(pushed_to_a_source);
	NEED(drv.cuInit(0));
	NEED(drv.cuMemAlloc_v2(&device, 4096));
	NEED(drv.cuMemHostAlloc((void **)&host, 4096, 0));
	memset(host, 'o', 4096);
	NEED(drv.cuStreamWaitValue32_v2(stream, device, 1, 0));
	NEED(drv.cuMemcpyHtoDAsync_v2(device, host, 4096, stream));
	NEED(drv.cuStreamSynchronize(stream));
	usleep(200000);
	tap_ok(host[0] == 'o' && host[63] == 'o',
		"the server cannot write to the source of a copy");
}

/*
 * The server sends text with terminal escapes, then further messages, and at its end a message of
 * its own about the end.
 */
static size_t words(struct liar *l, const struct remote_frame *head, uint8_t *to)
{
	struct remote_note note = {
		.type = REMOTE_DIAGNOSTIC, .abi = REMOTE_ABI, .link_role = REMOTE_LINK_CLIENT};

	memset(note.text, '\033', sizeof(note.text));
	memcpy(note.text, "red\n", 4);
	fd_send(l->program, &note, sizeof(note), NULL, 0, MSG_NOSIGNAL);
	if (l->asked++ == 0)
		return 0;
	note = (struct remote_note){
		.type = REMOTE_DIAGNOSTIC, .abi = REMOTE_ABI, .lane = 1, .text = "over"};
	fd_send(l->program, &note, sizeof(note), NULL, 0, MSG_NOSIGNAL);
	close(l->program);
	l->result = CUDA_ERROR_UNKNOWN;
	sleep(patience_s(PATIENCE_S));
	return 0;
}

static void words_of_anybody(void)
{
	char said[8 * REMOTE_VISIBLE] = "";
	const int was = dup(STDERR_FILENO), kept = memfd_create("stderr", 0);

	begin_lies(words);
	dup2(kept, STDERR_FILENO);
	NEED(drv.cuInit(0));
	drv.cuCtxSynchronize();
	EXPECT(CUDA_ERROR_DEVICE_UNAVAILABLE, drv.cuCtxSynchronize());
	dup2(was, STDERR_FILENO);
	check(pread(kept, said, sizeof(said) - 1, 0) > 0, "the program prints a message");
	tap_ok(strstr(said, "divvy: remote machine: red??") && !strchr(said, '\033'),
		"messages of the server print no control characters");
	tap_ok(strstr(said, "divvy: over\n") && !strstr(said, "GPU lost"),
		"the server's last message replaces the message about a lost GPU");
}

static void another_version(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct remote_note note = {.type = REMOTE_HELLO, .abi = REMOTE_ABI + 1, .text = "!"};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", getenv("DIVVY_REMOTE"));
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	give_up_after(patience_s(PATIENCE_S));
	check(connect(sock, (struct sockaddr *)&address, sizeof(address)) == 0, "connect");
	check(fd_send(sock, &note, sizeof(note), NULL, 0, MSG_NOSIGNAL) == sizeof(note), "hello");
	check(fd_recv(sock, &note, sizeof(note), NULL, 0) == sizeof(note), "an answer");
	tap_ok(note.type == REMOTE_REFUSED && strstr(note.text, "version"),
		"the refusal of another version names the version");
}

static const struct part parts[] = {
	{"another version", another_version},
	{"words", words_of_anybody},
	{"opened twice", opened_twice},
	{"opened again", opened_again},
	{"lanes without order", lanes_without_order},
	{"captured by another", captured_by_another},
	{"memory that may shrink", memory_that_may_shrink},
	{"layouts", layouts_that_are_none},
	{"a cubin that grows", a_cubin_that_grows},
	{"a cubin without end", a_cubin_without_end},
	{"a source", a_source_that_is_written_to},
};

int main(void)
{
	return parts_main(
		"1xH200-8Gi", "context_create_us=0", parts, sizeof(parts) / sizeof(parts[0]));
}
