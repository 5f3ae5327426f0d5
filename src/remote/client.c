/* SPDX-License-Identifier: Apache-2.0 */
/* Session, lanes and calls: see client.h. Any thread. */
#include "remote/client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/preloaded.h"
#include "base/str.h"
#include "base/thread.h"
#include "cuda/cuda-names.h"
#include "wire/diagnostic.h"

enum state { STATE_NEW, STATE_CONNECTED, STATE_READY, STATE_FAILED, STATE_GONE, STATE_FORKED };

static struct {
	pthread_mutex_t lock;
	_Atomic int state;
	CUresult failure;
	int sock;
	/* The socket's cookie: a program may close unknown descriptors and reuse their numbers. */
	uint64_t cookie;
	/* Held from sending a note until its answer, and while the library reads messages. */
	pthread_mutex_t notes_lock;
	bool has_said_end; /* the worker has printed why it ends */
	struct remote_session *shared;
	struct ring_watch watch;
	uint64_t lanes[REMOTE_LANES / 64]; /* one bit for each used lane; bit 0: the reverse lane */
	bool is_full_reported;
	pthread_key_t key;
	bool is_synchronous;
	_Atomic uint64_t posted;
	_Atomic uint64_t handles;
} session = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.sock = -1,
	.notes_lock = PTHREAD_MUTEX_INITIALIZER,
	.lanes = {1},
};

/* Bytes of a lane in the session's memory; the reverse lane comes first. */
#define LANE_BYTES (2 * (size_t)REMOTE_RING)

static __thread struct lane *own_lane;
__thread bool is_host_function;

bool is_synchronous(void)
{
	return session.is_synchronous;
}

const struct ring_watch *session_watch(void)
{
	return &session.watch;
}

struct remote_session *session_shared(void)
{
	return session.shared;
}

/* ---- the session ---- */

/* Returns the cookie of the socket; 0: the descriptor is no socket. */
static uint64_t cookie_of(int sock)
{
	uint64_t cookie = 0;
	socklen_t n = sizeof(cookie);

	return getsockopt(sock, SOL_SOCKET, SO_COOKIE, &cookie, &n) < 0 ? 0 : cookie;
}

/* False if the program has closed the socket and reused its number. */
static bool is_own_socket(void)
{
	return cookie_of(session.sock) == session.cookie;
}

/* CUDA's error codes do not tell the user what to change, so the library prints a message. */
void session_send_diagnostic(const char *fmt, ...)
{
	char line[REMOTE_VISIBLE + 64] = "divvy: ";
	const int before = errno;
	size_t n = strlen(line);
	va_list args;
	NOT_CANCELLED;

	va_start(args, fmt);
	n += (size_t)vsnprintf(line + n, sizeof(line) - n, fmt, args);
	va_end(args);
	n = n < sizeof(line) - 1 ? n : sizeof(line) - 1;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, n) < 0)
		errno = before; /* stderr has no reader */
	errno = before;
}

/*
 * Prints a message of the peer, without the control characters that a hostile peer may put into it.
 */
static void say_of(struct remote_note *note)
{
	const char *whence = note->type == REMOTE_DIAGNOSTIC
		? note->link_role ? "remote machine: " : ""
		: note->link_role ? "no GPU on the remote machine: "
				  : DIAGNOSTIC_NO_GPU_TEXT;
	const size_t n = strnlen(note->text, sizeof(note->text));

	str_blank_controls(note->text, n);
	if (n)
		session_send_diagnostic("%s%.*s", whence, (int)n, note->text);
}

/* The caller holds notes_lock, and the socket is the library's own. */
static bool take_said(struct remote_note *note)
{
	if (note->type != REMOTE_DIAGNOSTIC)
		return false;
	say_of(note);
	session.has_said_end |= note->lane == 1;
	return true;
}

/* Reads the worker's messages that have arrived; false: no more messages will come. */
static bool session_read_notes(void)
{
	struct remote_note note;
	ssize_t n;
	NOT_CANCELLED;

	pthread_mutex_lock(&session.notes_lock);
	/* When the peer has ended, one read may fail before the last messages are read. */
	for (unsigned errors = 0; errors < 2;) {
		n = fd_recv(session.sock, &note, sizeof(note), NULL, MSG_DONTWAIT);
		if (n == sizeof(note))
			take_said(&note);
		else
			errors += n < 0 && n != -EAGAIN ? 1 : 2;
	}
	pthread_mutex_unlock(&session.notes_lock);
	return n == -EAGAIN;
}

/*
 * Notes that the server is lost. CUDA's code only says that the device is busy, so the library
 * prints a message. If the program has closed foreign descriptors, its descriptor 2 may be another
 * file, so nothing is printed then.
 */
static void session_is_lost(void)
{
	int was = atomic_load(&session.state);

	if ((was != STATE_CONNECTED && was != STATE_READY) ||
		!atomic_compare_exchange_strong(&session.state, &was, STATE_GONE) ||
		!is_own_socket())
		return;
	session_read_notes();
	if (session.has_said_end)
		return;
	session_send_diagnostic(session.shared->link_role
			? "remote GPU lost: the worker on the remote machine exited, or the connection "
			  "broke; restart the program"
			: "GPU lost: divvy's worker of this program has "
			  "exited; restart the program");
}

static bool session_is_worker_alive(void *unused)
{
	struct pollfd p = {.fd = session.sock, .events = POLLIN | POLLRDHUP};
	NOT_CANCELLED;

	if (!is_own_socket() || (poll(&p, 1, 0) > 0 && !session_read_notes()))
		session_is_lost();
	return atomic_load(&session.state) < STATE_FAILED;
}

bool session_ask(struct remote_note *note, int fd)
{
	const uint32_t type = note->type;
	bool is_answered;
	NOT_CANCELLED;

	if (!is_own_socket())
		return false;
	pthread_mutex_lock(&session.notes_lock);
	is_answered = fd_send(session.sock, note, sizeof(*note), &fd, 1, MSG_NOSIGNAL) ==
		sizeof(*note);
	do
		is_answered = is_answered &&
			fd_recv(session.sock, note, sizeof(*note), NULL, 0) == sizeof(*note);
	while (is_answered && take_said(note));
	pthread_mutex_unlock(&session.notes_lock);
	return is_answered && note->type == type;
}

uint64_t session_posted(void)
{
	return atomic_load(&session.posted);
}

static void in_child(void)
{
	/*
	 * Another thread of the parent may have held the lock to connect. The child has no such
	 * thread, so it needs a new lock.
	 */
	if (atomic_load(&session.state) == STATE_NEW) {
		pthread_mutex_init(&session.lock, NULL);
		return;
	}
	/* A copy of the socket would hide the parent's end from the server. */
	if (is_own_socket())
		fd_close(session.sock);
	session.sock = -1;
	atomic_store(&session.state, STATE_FORKED);
}

static CUresult session_say_hello(int sock)
{
	struct remote_note note = {.type = REMOTE_HELLO,
		.abi = REMOTE_ABI,
		.machine = REMOTE_MACHINE,
		.bytes = (uint64_t)getpid(),
		.text = "!"};
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	const char *name = program_invocation_short_name;
	ssize_t n;
	_cleanup_fd_list_ struct fd_list fds = {.n = 0};
	_cleanup_map_ struct map map = MAP_NONE;

	memcpy(note.program, name, strnlen(name, sizeof(note.program)));
	if (visible && str_copy(note.text, sizeof(note.text), str_from(visible)) < 0) {
		session_send_diagnostic(
			"CUDA_VISIBLE_DEVICES has %zu characters; at most %u are allowed",
			strlen(visible), REMOTE_VISIBLE - 1);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (fd_send(sock, &note, sizeof(note), NULL, 0, MSG_NOSIGNAL) != sizeof(note))
		return CUDA_ERROR_GONE;
	n = fd_recv(sock, &note, sizeof(note), &fds, 0);
	if (n == -EMSGSIZE) {
		session_send_diagnostic(
			"no GPU for this program: no file descriptor is free; raise the limit "
			"(ulimit -n)");
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (n != sizeof(note))
		return CUDA_ERROR_GONE;
	if (note.type != REMOTE_WELCOME) {
		if (note.type == REMOTE_REFUSED)
			say_of(&note);
		return note.lane ? (CUresult)note.lane : CUDA_ERROR_NO_DEVICE;
	}
	if (fds.n != 1 || fd_size(fds.fd[0]) != (int64_t)REMOTE_BYTES ||
		!memfd_has_seals(fds.fd[0], F_SEAL_SHRINK | F_SEAL_GROW))
		return CUDA_ERROR_OPERATING_SYSTEM;
	/*
	 * In a program that locks its memory, all accessible pages take memory, so only used lanes
	 * are accessible.
	 */
	if (map_fd(fds.fd[0], REMOTE_BYTES, PROT_NONE, &map) < 0 ||
		mprotect(map.p, REMOTE_HEAD + LANE_BYTES, PROT_READ | PROT_WRITE) < 0) {
		session_send_diagnostic(
			"cannot map %llu MiB to share with the worker: %s; raise the limit of "
			"address space (ulimit -v)",
			REMOTE_BYTES >> 20, strerror(errno));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	madvise(map.p, map.n, MADV_DONTFORK);
	session.shared = map.p;
	if (session.shared->magic != REMOTE_MAGIC || session.shared->abi != REMOTE_ABI)
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	map = MAP_NONE;
	return CUDA_SUCCESS;
}

static bool read_synchronous(void)
{
	const char *text = getenv("DIVVY_REMOTE_SYNC");

	if (!text || !strcmp(text, "") || !strcmp(text, "0"))
		return false;
	if (strcmp(text, "1") != 0)
		session_send_diagnostic(
			"DIVVY_REMOTE_SYNC '%.40s': expected 0 or 1; using 0", text);
	return !strcmp(text, "1");
}

static CUresult connect_once(void)
{
	const char *path = getenv("DIVVY_REMOTE");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CUresult r;

	if (!path || !path[0])
		path = REMOTE_SOCKET;
	if (str_copy(address.sun_path, sizeof(address.sun_path), str_from(path)) < 0) {
		session_send_diagnostic(
			"no remote GPU: the path in DIVVY_REMOTE is too long for a socket");
		return CUDA_ERROR_NO_DEVICE;
	}
	if (sock < 0 || connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0) {
		session_send_diagnostic(
			"no remote GPU: no link of divvy listens on '%s' (%s); start the "
			"program by divvy run --remote",
			path, strerror(errno));
		return CUDA_ERROR_NO_DEVICE;
	}
	r = session_say_hello(sock);
	if (r == CUDA_ERROR_GONE)
		session_send_diagnostic(
			"no remote GPU: the link to the remote machine has exited; start the "
			"program again");
	if (r)
		return r;
	session.cookie = cookie_of(sock);
	session.sock = TAKE_FD(sock);
	session.is_synchronous = read_synchronous();
	session.watch = (struct ring_watch){.goes_on = session_is_worker_alive};
	return CUDA_SUCCESS;
}

static void lane_give_back(unsigned lane)
{
	pthread_mutex_lock(&session.lock);
	session.lanes[lane / 64] &= ~(1ull << lane % 64);
	pthread_mutex_unlock(&session.lock);
}

/*
 * Called when a thread ends. Another thread may take the ended thread's lane after the worker has
 * answered.
 */
static void close_lane(void *p)
{
	struct lane *lane = p;
	struct call c;

	own_lane = lane;
	if (call_begin(&c, REMOTE_CLOSE, 0) == CUDA_SUCCESS) {
		call_wait(&c, 0);
		call_end(&c);
		lane_give_back(lane->index);
	}
	own_lane = NULL;
	free(lane);
}

CUresult session_connect(void)
{
	CUresult r = CUDA_SUCCESS;
	NOT_CANCELLED;

	pthread_mutex_lock(&session.lock);
	if (atomic_load(&session.state) == STATE_NEW) {
		preloaded_atfork(NULL, NULL, in_child);
		r = connect_once();
		if (!r && pthread_key_create(&session.key, close_lane))
			r = CUDA_ERROR_OUT_OF_MEMORY;
		session.failure = r;
		atomic_store(&session.state, r ? STATE_FAILED : STATE_CONNECTED);
	}
	r = session.failure;
	pthread_mutex_unlock(&session.lock);
	return r;
}

void session_set_ready(void)
{
	int expected = STATE_CONNECTED;

	atomic_compare_exchange_strong(&session.state, &expected, STATE_READY);
}

CUresult session_check(void)
{
	switch (atomic_load_explicit(&session.state, memory_order_relaxed)) {
	case STATE_READY: return is_host_function ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
	case STATE_GONE: return CUDA_ERROR_GONE;
	default: return CUDA_ERROR_NOT_INITIALIZED;
	}
}

/* ---- lanes ---- */

/* Returns a lane; 0: no lane is free. The library prints a message about that once. */
static unsigned lane_take(void)
{
	bool should_report = false;
	unsigned lane = 0;

	pthread_mutex_lock(&session.lock);
	for (unsigned i = 0; i < ARRAY_SIZE(session.lanes) && !lane; i++) {
		uint64_t *bits = &session.lanes[i];

		if (~*bits) {
			lane = 64 * i + (unsigned)__builtin_ctzll(~*bits);
			*bits |= 1ull << lane % 64;
		}
	}
	if (!lane) {
		should_report = !session.is_full_reported;
		session.is_full_reported = true;
	}
	pthread_mutex_unlock(&session.lock);
	if (should_report)
		session_send_diagnostic(
			"more than %u threads use the remote GPU at once; further threads cannot",
			REMOTE_LANES - 1);
	return lane;
}

static bool lane_map(unsigned lane)
{
	uint8_t *rings = (uint8_t *)session.shared + REMOTE_HEAD + lane * LANE_BYTES;

	return mprotect(rings, LANE_BYTES, PROT_READ | PROT_WRITE) == 0;
}

static CUresult lane_open(struct lane *lane)
{
	struct remote_note note = {.type = REMOTE_OPEN, .abi = REMOTE_ABI};

	note.lane = lane->index = lane_take();
	if (!lane->index)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!lane_map(lane->index) || pthread_setspecific(session.key, lane)) {
		lane_give_back(lane->index);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (is_own_socket() &&
		fd_send(session.sock, &note, sizeof(note), NULL, 0, MSG_NOSIGNAL) >= 0)
		return CUDA_SUCCESS;
	pthread_setspecific(session.key, NULL);
	session_is_lost();
	return CUDA_ERROR_GONE;
}

static CUresult session_open_lane(void)
{
	struct lane *lane = calloc(1, sizeof(*lane));
	NOT_CANCELLED;
	CUresult r = lane ? lane_open(lane) : CUDA_ERROR_OUT_OF_MEMORY;

	if (r) {
		free(lane);
		return r;
	}
	ring_attach_producer(&lane->up, session.shared, lane->index, RING_UP);
	ring_attach_consumer(&lane->down, session.shared, lane->index, RING_DOWN);
	own_lane = lane;
	return CUDA_SUCCESS;
}

struct lane *session_lane(void)
{
	return own_lane;
}

/* ---- calls ---- */

static CUresult call_begin_frame(struct call *c, unsigned op, size_t bytes)
{
	const CUresult r = own_lane ? CUDA_SUCCESS : session_open_lane();

	if (r)
		return r;
	c->lane = own_lane;
	bytes += sizeof(*c->frame);
	if (bytes > REMOTE_FRAME_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	c->frame = ring_reserve(&c->lane->up, bytes, &session.watch);
	if (!c->frame)
		return CUDA_ERROR_GONE;
	c->frame->op = (uint16_t)op;
	c->frame->flags = 0;
	c->at = (uint8_t *)(c->frame + 1);
	c->frame_in = 0;
	return CUDA_SUCCESS;
}

CUresult call_begin(struct call *c, unsigned op, size_t bytes)
{
	const CUresult r = session_check();

	return r ? r : call_begin_frame(c, op, bytes);
}

CUresult call_begin_early(struct call *c, unsigned op, size_t bytes)
{
	CUresult r;

	if (atomic_load_explicit(&session.state, memory_order_relaxed) == STATE_NEW) {
		r = session_connect();
		if (r)
			return r;
	}
	if (atomic_load_explicit(&session.state, memory_order_relaxed) == STATE_CONNECTED)
		return call_begin_frame(c, op, bytes);
	return call_begin(c, op, bytes);
}

/* Ends the frame and returns its size. */
static size_t call_end_frame(struct call *c)
{
	const size_t bytes = ((size_t)(c->at - (uint8_t *)c->frame) + 15) & ~(size_t)15;

	c->frame->size = (uint32_t)bytes;
	return bytes;
}

static void call_publish_frame(struct call *c, unsigned flags)
{
	const size_t bytes = call_end_frame(c);

	c->frame->flags |= (uint16_t)flags;
	c->frame->after = flags & REMOTE_POSTED
		? atomic_fetch_add_explicit(&session.posted, 1, memory_order_acq_rel)
		: atomic_load_explicit(&session.posted, memory_order_acquire);
	ring_publish(&c->lane->up, bytes);
}

/*
 * Waits for earlier calls of the lane, as the driver does when its queue is full. No other thread
 * waits.
 */
static CUresult await_settled(struct lane *lane)
{
	struct call c;
	CUresult r = call_ask(&c, REMOTE_SETTLED, REMOTE_SETTLE_TO);

	if (!r && !call_take(&c, &lane->settled, sizeof(lane->settled)))
		r = CUDA_ERROR_UNKNOWN;
	call_end(&c);
	return r;
}

CUresult call_post(struct call *c)
{
	struct lane *lane = c->lane;
	CUresult r;

	lane->posted++;
	if (!session.is_synchronous) {
		call_publish_frame(c, REMOTE_POSTED);
		return lane->posted - lane->settled < REMOTE_UNSETTLED ? CUDA_SUCCESS
								       : await_settled(lane);
	}
	call_publish_frame(c, REMOTE_POSTED | REMOTE_ANSWER);
	r = call_receive(c);
	call_end(c);
	return r;
}

CUresult call_post_asking(struct call *c)
{
	c->lane->posted++;
	return call_send(c, REMOTE_POSTED);
}

CUresult call_send(struct call *c, unsigned flags)
{
	call_publish_frame(c, flags | REMOTE_ANSWER);
	return CUDA_SUCCESS;
}

void call_send_aside(struct call *c)
{
	const size_t bytes = call_end_frame(c);

	c->frame->after = 0;
	ring_publish(&c->lane->up, bytes);
}

CUresult call_receive(struct call *c)
{
	const CUresult r = call_receive_quietly(c);

	query_heard();
	return r;
}

CUresult call_receive_quietly(struct call *c)
{
	struct remote_frame head;
	const void *frame;
	int r = ring_next(&c->lane->down, &session.watch, &head, &frame);

	c->in = c->in_end = NULL;
	c->frame_in = 0;
	if (r <= 0) {
		session_is_lost();
		return CUDA_ERROR_GONE;
	}
	c->in = (const uint8_t *)frame + sizeof(head);
	c->in_end = (const uint8_t *)frame + head.size;
	c->frame_in = head.size;
	pieces_heard(head.released);
	work_await(head.asked);
	return (CUresult)head.result;
}

CUresult call_wait(struct call *c, unsigned flags)
{
	call_send(c, flags);
	return call_receive(c);
}

CUresult call_ask(struct call *c, unsigned op, uint64_t about)
{
	CUresult r;

	c->frame_in = 0;
	r = call_begin(c, op, sizeof(about));
	if (r)
		return r;
	call_put(c, &about, sizeof(about));
	return call_wait(c, 0);
}

bool call_take(struct call *c, void *to, size_t n)
{
	const size_t left = (size_t)(c->in_end - c->in);

	if (n > left || FIELD(n) > left)
		return false;
	if (to)
		memcpy(to, c->in, n);
	c->in += FIELD(n);
	return true;
}

void call_end(struct call *c)
{
	if (c->frame_in)
		ring_consume(&c->lane->down, c->frame_in);
	c->frame_in = 0;
}

/* ---- answers that never change ---- */

struct known {
	struct known *next;
	size_t asked, answered;
	uint8_t bytes[]; /* op and fields of the question, then fields of the answer */
};

#define KNOWN_BUCKETS 256u

static struct {
	pthread_mutex_t lock;
	struct known *bucket[KNOWN_BUCKETS];
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static unsigned call_hash_bytes(const uint8_t *p, size_t n)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 16777619u;
	return h % KNOWN_BUCKETS;
}

static const struct known *find_known(const uint8_t *asked, size_t n)
{
	const struct known *k;

	pthread_mutex_lock(&known.lock);
	for (k = known.bucket[call_hash_bytes(asked, n)]; k; k = k->next)
		if (k->asked == n && !memcmp(k->bytes, asked, n))
			break;
	pthread_mutex_unlock(&known.lock);
	return k;
}

static void call_remember_answer(const uint8_t *asked, size_t n, const struct call *c)
{
	const size_t answered = (size_t)(c->in_end - c->in);
	struct known *k = malloc(sizeof(*k) + n + answered), **bucket;

	if (!k)
		return;
	k->asked = n;
	k->answered = answered;
	memcpy(k->bytes, asked, n);
	memcpy(k->bytes + n, c->in, answered);
	bucket = &known.bucket[call_hash_bytes(asked, n)];
	pthread_mutex_lock(&known.lock);
	k->next = *bucket;
	*bucket = k;
	pthread_mutex_unlock(&known.lock);
}

CUresult call_wait_cached(struct call *c)
{
	uint8_t asked[512];
	const size_t n = (size_t)(c->at - (uint8_t *)(c->frame + 1)) + sizeof(uint64_t);
	const uint64_t op = c->frame->op;
	const struct known *k;
	CUresult r;

	if (n > sizeof(asked))
		return call_wait(c, 0);
	memcpy(asked, &op, sizeof(op));
	memcpy(asked + sizeof(op), c->frame + 1, n - sizeof(op));
	k = find_known(asked, n);
	if (k) {
		c->in = k->bytes + n;
		c->in_end = c->in + k->answered;
		return CUDA_SUCCESS;
	}
	r = call_wait(c, 0);
	if (!r)
		call_remember_answer(asked, n, c);
	return r;
}

const char *text_keep(const char *text, size_t n)
{
	static struct kept {
		struct kept *next;
		size_t n;
		char text[];
	} * all;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct kept *k;

	pthread_mutex_lock(&lock);
	for (k = all; k; k = k->next)
		if (k->n == n && !memcmp(k->text, text, n))
			break;
	if (!k) {
		k = malloc(sizeof(*k) + n + 1);
		if (k) {
			k->next = all;
			k->n = n;
			memcpy(k->text, text, n);
			k->text[n] = '\0';
			all = k;
		}
	}
	pthread_mutex_unlock(&lock);
	return k ? k->text : NULL;
}

uint64_t handle_new(enum kind kind)
{
	return handle_make(kind,
		HANDLE_CLIENT | (atomic_fetch_add(&session.handles, 1) & (HANDLE_CLIENT - 1)));
}

/* ---- names ---- */

static void *const entries[] = {
#define CU(abi, since, variant, action, stream, params, args, ...) (void *)abi,
#include "cuda/cuda.def"
#undef CU
};

REMOTE_EXPORT CUresult cuInit(unsigned int Flags)
{
	CUresult r;

	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (atomic_load(&session.state) >= STATE_READY &&
		atomic_load(&session.state) != STATE_FAILED)
		return session_check();
	r = session_connect();
	if (r)
		return r;
	session_set_ready();
	/*
	 * Starts the reverse thread: otherwise a program that only posts would not notice the loss
	 * of the peer.
	 */
	reverse_begin();
	return CUDA_SUCCESS;
}

REMOTE_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
	cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
	return cuda_name_ask(entries, symbol, pfn, cudaVersion, flags, symbolStatus);
}

REMOTE_EXPORT CUresult cuGetProcAddress(
	const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	return cuda_name_ask_first(entries, symbol, pfn, cudaVersion, flags);
}

REMOTE_EXPORT CUresult cuGetErrorName(CUresult error, const char **pStr)
{
	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = cuda_result_name(error);
	return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

REMOTE_EXPORT CUresult cuGetErrorString(CUresult error, const char **pStr)
{
	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = cuda_result_text(error);
	return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
