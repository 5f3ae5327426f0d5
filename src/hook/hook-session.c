/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection with the daemon: registration, the helper thread that listens, and the loss and
 * return of the daemon. Descriptors have high numbers and are checked by inode before each use,
 * because a program may close unknown descriptors and reuse their numbers.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/thread.h"
#include "hook/hook.h"
#include "hook/relax.h"
#include "hook/hook-share.h"
#include "hook/system.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define ANSWER_MS 5000
/*
 * After the loss of the daemon the gates keep their state this long. The time is longer with policy
 * closed, because there the tenants must keep sharing the device.
 */
#define GRACE_NS NSEC_PER_SEC
#define GRACE_CLOSED_NS (10 * NSEC_PER_SEC)
#define RETRY_NS (200 * NSEC_PER_MSEC)
#define RETRY_REFUSED_NS (5 * NSEC_PER_SEC) /* pause after a daemon has refused this process */
#define RESTART_NS (3 * NSEC_PER_SEC)       /* wait for a daemon that is being replaced */
#define LOOK_S 1
#define STACK_BYTES (128u * 1024u)
#define EVERY_FIRST 1u /* submissions between two markers, while their length is unknown */

/* ---- descriptors ---- */

static uint64_t inode_of(int fd)
{
	struct stat st;

	return fd >= 0 && !fd_stat(fd, &st) ? st.st_ino : 0;
}

static int packet_send(int fd, const void *packet, size_t n, const int *fds, size_t n_fds)
{
	ssize_t sent = fd_send(fd, packet, n, fds, n_fds, MSG_DONTWAIT);

	return sent < 0 ? (int)sent : 0;
}

/*
 * Receives a whole message and checks it; its descriptors go to ret_passed. Returns 0; -EPIPE if
 * the daemon closed the connection; or -errno.
 */
static int packet_receive(int fd, void *packet, size_t max, struct fd_list *ret_passed)
{
	ssize_t n;

	ret_passed->n = 0;
	n = fd_recv(fd, packet, max, ret_passed, 0);
	if (n <= 0)
		return n ? (int)n : -EPIPE;
	return msg_check(packet, (uint32_t)n, NULL);
}

/* ---- the daemon's address and this process's identity ---- */

static int connect_path(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	size_t n = strlen(path);
	int fd, r;

	if (!n || n >= sizeof sa.sun_path)
		return -ENAMETOOLONG;
	memcpy(sa.sun_path, path, n);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	do
		r = connect(fd, (struct sockaddr *)&sa, sizeof sa);
	while (r < 0 && errno == EINTR);
	if (r < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	return share_raise_fd(fd);
}

/*
 * Connects to the first daemon that answers. Keeps the path to that daemon, for a later reconnect.
 */
static int session_connect_daemon(struct hook *h)
{
	const char *set = getenv("DIVVY_SOCKET"), *own = getenv("XDG_RUNTIME_DIR");
	char path[2][sizeof h->socket_path] = {"/run/divvy/divvyd.sock", ""};
	int fd = -ENOENT;

	if (h->socket_path[0])
		return connect_path(h->socket_path);
	if (set && *set) {
		snprintf(path[0], sizeof path[0], "%s", set);
	} else if (own && *own) {
		if (snprintf(path[1], sizeof path[1], "%s/divvy/divvyd.sock", own) >=
			(int)sizeof path[1])
			path[1][0] = '\0';
	}
	for (size_t i = 0; i < ARRAY_SIZE(path) && fd < 0; i++) {
		fd = path[i][0] ? connect_path(path[i]) : fd;
		if (fd >= 0)
			memcpy(h->socket_path, path[i], sizeof h->socket_path);
	}
	return fd;
}

static int session_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -EINVAL;
}

/*
 * Reads DIVVY_TENANT; the secret is all zeros if the variable is not set. -EINVAL: the variable
 * holds no valid secret.
 */
static int session_read_secret(uint8_t secret[static 16])
{
	const char *text = getenv("DIVVY_TENANT");
	uint8_t bytes[16], any = 0;

	memset(secret, 0, 16);
	if (!text || !*text)
		return 0;
	if (strlen(text) != 2 * sizeof bytes)
		return -EINVAL;
	for (size_t i = 0; i < sizeof bytes; i++) {
		int high = session_hex_digit(text[2 * i]), low = session_hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return -EINVAL;
		bytes[i] = (uint8_t)(high << 4 | low);
		any |= bytes[i];
	}
	if (!any)
		return -EINVAL;
	memcpy(secret, bytes, sizeof bytes);
	return 0;
}

/* Field 22 of /proc/self/stat, counted from the last ')', because a name may contain anything. */
static uint64_t read_start_time(void)
{
	_cleanup_close_ int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	char text[1024];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	char *p;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	p = strrchr(text, ')');
	for (int field = 2; p && field < 22; field++) {
		p = strchr(p + 1, ' ');
	}
	return p ? strtoull(p + 1, NULL, 10) : 0;
}

/*
 * Reads a name for people to recognise the process. A remote worker has the name of the program
 * that it serves.
 */
static void read_command(char command[static MSG_COMMAND])
{
	const char *given = getenv("DIVVY_COMMAND");
	char text[256];
	_cleanup_close_ int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	const char *name;
	size_t len;

	memset(command, 0, MSG_COMMAND);
	if (given)
		memcpy(command, given, strnlen(given, MSG_COMMAND - 1));
	if (given || n <= 0)
		return;
	text[n] = '\0';
	name = strrchr(text, '/');
	name = name ? name + 1 : text;
	len = strlen(name);
	memcpy(command, name, len < MSG_COMMAND ? len : MSG_COMMAND - 1);
}

static int session_send_hello(struct hook *h, int fd, bool again, uint16_t abi)
{
	struct msg_hello m = {0};
	int version = 0, fds[2 * MSG_DEVICES];
	size_t n = 0;

	msg_head_init(&m.head, MSG_HELLO, sizeof m, 1);
	m.head.abi = abi;
	m.page_abi = PAGE_ABI;
	memcpy(m.secret, h->secret, sizeof m.secret);
	m.start_time = h->start_time;
	if (REAL(cuDriverGetVersion)(&version) == CUDA_SUCCESS)
		m.driver_version = version;
	read_command(m.command);
	if (!syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0))
		m.flags |= MSG_HELLO_MEMBARRIER;
	if (again) {
		m.flags |= MSG_HELLO_AGAIN;
		m.devices = h->devices;
		for (uint32_t i = 0; i < h->devices; i++) {
			const struct device *d = &h->device[i];

			if (inode_of(d->up_fd) != d->up_inode ||
				inode_of(d->tenant_fd) != d->tenant_inode)
				return -EBADF;
			fds[n++] = d->up_fd;
			fds[n++] = d->tenant_fd;
		}
	}
	return packet_send(fd, &m, sizeof m, fds, n);
}

static int session_read_answer(int fd, void *packet, size_t max, struct fd_list *ret_passed)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t until = clock_now_ns() + ANSWER_MS * NSEC_PER_MSEC;
	int r;

	do
		r = poll(&p, 1, (int)(clock_since_ns(until, clock_now_ns()) / NSEC_PER_MSEC) + 1);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r ? -errno : -ETIMEDOUT;
	return packet_receive(fd, packet, max, ret_passed);
}

/* ---- pages ---- */

static void *map_page(int fd, size_t size, int seals, int prot, void *over)
{
	struct stat st;
	void *p;

	if ((fd_control(fd, F_GET_SEALS, 0) & seals) != seals || fd_stat(fd, &st) ||
		(size_t)st.st_size < size)
		return NULL;
	p = mmap(over, size, prot, over ? MAP_SHARED | MAP_FIXED : MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, size, MADV_DONTFORK);
	return p;
}

#define SEALS_UP (F_SEAL_SHRINK | F_SEAL_GROW)
#define SEALS_DOWN (SEALS_UP | F_SEAL_FUTURE_WRITE)

static bool down_fits(const struct page_down *down, const struct msg_device *m)
{
	return down->magic == PAGE_MAGIC && down->abi == PAGE_ABI && down->size == sizeof *down &&
		!memcmp(down->uuid, m->uuid, sizeof m->uuid) && down->process &&
		down->process < PAGE_PROCESSES;
}

static int take_device(
	struct hook *h, uint32_t i, const struct msg_device *m, const int fd[static 3])
{
	struct device *d = &h->device[i];

	d->index = i;
	d->daemon = m->device;
	d->ordinal = -1;
	memcpy(d->uuid, m->uuid, sizeof d->uuid);
	d->device_bytes = m->device_bytes;
	d->down = map_page(fd[0], sizeof *d->down, SEALS_DOWN, PROT_READ, NULL);
	d->up = map_page(fd[1], sizeof *d->up, SEALS_UP, PROT_READ | PROT_WRITE, NULL);
	d->tenant = map_page(fd[2], sizeof *d->tenant, SEALS_UP, PROT_READ | PROT_WRITE, NULL);
	if (!d->down || !d->up || !d->tenant || !down_fits(d->down, m) ||
		d->tenant->magic != PAGE_MAGIC)
		return -EBADMSG;
	d->up_fd = share_raise_fd(dup(fd[1]));
	d->tenant_fd = share_raise_fd(dup(fd[2]));
	d->up_inode = inode_of(d->up_fd);
	d->tenant_inode = inode_of(d->tenant_fd);
	d->up->abi = PAGE_ABI;
	d->up->size = sizeof *d->up;
	d->up->pid = h->pid;
	d->up->start_time = h->start_time;
	d->up->magic = PAGE_MAGIC;
	atomic_store_explicit(&d->every, EVERY_FIRST, memory_order_relaxed);
	return 0;
}

static void drop_devices(struct hook *h)
{
	for (uint32_t i = 0; i < h->devices; i++) {
		struct device *d = &h->device[i];

		if (d->down)
			munmap((void *)(uintptr_t)d->down, sizeof *d->down);
		if (d->up)
			munmap(d->up, sizeof *d->up);
		if (d->tenant)
			munmap(d->tenant, sizeof *d->tenant);
		memset(d, 0, sizeof *d);
	}
	h->devices = 0;
}

static int session_take_welcome(
	struct hook *h, const struct msg_welcome *m, const struct fd_list *passed)
{
	int r = 0;

	if (!m->devices || m->devices > MSG_DEVICES || passed->n != 3 * (size_t)m->devices)
		return -EBADMSG;
	h->tenant = m->tenant;
	h->shares = m->flags & MSG_WELCOME_SHARES;
	h->simulated = m->flags & MSG_WELCOME_SIMULATED;
	h->devices = m->devices;
	for (uint32_t i = 0; i < m->devices && !r; i++)
		r = take_device(h, i, &m->device[i], &passed->fd[3 * i]);
	if (r)
		drop_devices(h);
	return r;
}

/* After the daemon's return its new pages replace the old ones at the same addresses. */
static int welcome_again(struct hook *h, const struct msg_welcome *m, const struct fd_list *passed)
{
	if (m->devices != h->devices || passed->n != 3 * (size_t)m->devices)
		return -EBADMSG;
	for (uint32_t i = 0; i < h->devices; i++) {
		if (memcmp(h->device[i].uuid, m->device[i].uuid, 16))
			return -EBADMSG;
	}
	for (uint32_t i = 0; i < h->devices; i++) {
		struct device *d = &h->device[i];
		void *trial = map_page(
			passed->fd[3 * i], sizeof *d->down, SEALS_DOWN, PROT_READ, NULL);
		bool fits = trial && down_fits(trial, &m->device[i]);

		if (trial)
			munmap(trial, sizeof *d->down);
		if (!fits ||
			!map_page(passed->fd[3 * i], sizeof *d->down, SEALS_DOWN, PROT_READ,
				(void *)(uintptr_t)d->down))
			return -EBADMSG;
		d->daemon = m->device[i].device;
	}
	h->shares = m->flags & MSG_WELCOME_SHARES;
	return 0;
}

union packet {
	struct msg_head head;
	struct msg_welcome welcome;
	struct msg_refused refused;
	struct msg_device_note note;
	struct msg_memory memory;
	struct msg_diagnostic say;
	uint8_t bytes[1024];
};

/*
 * Whether an older daemon refused the wire version `abi`, and named a version that this library can
 * use instead.
 */
static bool is_older(const union packet *p, uint16_t abi)
{
	return p->head.type == MSG_REFUSED && p->head.status == EBADMSG && p->head.abi < abi &&
		p->head.abi >= msg_oldest();
}

/* Registers in wire version `abi`. -EPROTONOSUPPORT: the daemon accepts *ret_abi instead. */
static int talk_in(
	struct hook *h, bool again, uint16_t abi, char reason[static MSG_TEXT], uint16_t *ret_abi)
{
	_cleanup_fd_list_ struct fd_list passed = {.n = 0};
	const struct timeval look = {LOOK_S, 0};
	union packet p;
	int fd = session_connect_daemon(h), r;

	if (fd < 0)
		return fd;
	r = session_send_hello(h, fd, again, abi);
	if (!r)
		r = session_read_answer(fd, &p, sizeof p, &passed);
	if (!r && is_older(&p, abi)) {
		*ret_abi = p.head.abi;
		r = -EPROTONOSUPPORT;
	} else if (!r && p.head.type == MSG_REFUSED) {
		memcpy(reason, p.refused.reason, MSG_TEXT);
		r = -EACCES;
	} else if (!r && p.head.type != MSG_WELCOME) {
		r = -EBADMSG;
	} else if (!r) {
		r = again ? welcome_again(h, &p.welcome, &passed)
			  : session_take_welcome(h, &p.welcome, &passed);
	}
	if (r) {
		close(fd);
		return r;
	}
	/*
	 * The program may have closed the socket and reused its number, so that the helper waits on
	 * an unrelated socket. With a time-out the helper checks the number now and then.
	 */
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look);
	h->socket_inode = inode_of(fd);
	atomic_store(&h->abi, abi);
	atomic_store(&h->socket, fd);
	return 0;
}

static int session_register(struct hook *h, bool again, char reason[static MSG_TEXT])
{
	uint16_t older = 0;
	int r = talk_in(h, again, msg_newest(), reason, &older);

	return r == -EPROTONOSUPPORT ? talk_in(h, again, older, reason, &older) : r;
}

/*
 * Registers for the first time. The daemon may end during the registration, or be away for a
 * moment. A process with a tenant's secret knows that there is a daemon, so it waits instead of
 * running without one.
 */
static int talk_first(struct hook *h, char reason[static MSG_TEXT])
{
	static const uint8_t none[sizeof h->secret];
	bool expects = memcmp(h->secret, none, sizeof none);
	uint64_t until = clock_now_ns() + RESTART_NS;

	for (;;) {
		int r = session_register(h, false, reason);
		bool absent = r == -ENOENT || r == -ECONNREFUSED;

		if (!r || r == -EACCES || (absent && !expects) || clock_now_ns() >= until)
			return r;
		clock_sleep_until_ns(clock_now_ns() + RETRY_NS / 4);
	}
}

static enum hook_mode open_first(struct hook *h)
{
	const char *policy = getenv("DIVVY_ABSENT");
	char reason[MSG_TEXT] = "";
	int r;

	h->policy_closed = policy && !strcmp(policy, "closed");
	h->pid = (uint32_t)getpid();
	h->start_time = read_start_time();
	atomic_store(&h->socket, -1);
	if (session_read_secret(h->secret)) {
		/*
		 * DIVVY_TENANT asks for a tenant's grant, so a wrong value must not fall back to
		 * running without a tenant.
		 */
		hook_complain_no_gpu(
			"DIVVY_TENANT is not the secret of a tenant; expected 32 hexadecimal "
			"digits");
		return HOOK_CLOSED;
	}
	r = talk_first(h, reason);
	if (!r)
		return HOOK_REGISTERED;
	if (r == -EACCES && reason[0])
		hook_complain_no_gpu("%s", reason);
	else if (h->policy_closed && (r == -EMFILE || r == -EMSGSIZE))
		/*
		 * the daemon's packet arrived, but this process had too few free descriptors to
		 * receive those in the packet
		 */
		hook_complain_no_gpu(
			"too few file descriptors are free for those of divvyd; raise the "
			"limit (ulimit -n) by 64");
	else if (r == -EACCES || h->policy_closed)
		hook_complain_no_gpu(
			"divvyd does not answer (%s); start it, or see its log", strerror(-r));
	return r == -EACCES || h->policy_closed ? HOOK_CLOSED : HOOK_OPEN;
}

enum hook_mode session_open(struct hook *h)
{
	enum hook_mode mode = atomic_load_explicit(&h->mode, memory_order_acquire);

	if (mode == HOOK_NEW) {
		NOT_CANCELLED;

		lock_take(&h->init_lock);
		mode = atomic_load(&h->mode);
		if (mode == HOOK_NEW) {
			mode = open_first(h);
			atomic_store_explicit(&h->mode, mode, memory_order_release);
		}
		lock_drop(&h->init_lock);
	}
	return mode;
}

/* ---- messages ---- */

static int send_now(struct hook *h, struct msg_head *packet, size_t n)
{
	int fd = atomic_load(&h->socket);

	if (fd < 0 || atomic_load(&h->orphan) || inode_of(fd) != h->socket_inode)
		return -ENOTCONN;
	packet->abi = atomic_load(&h->abi);
	return packet_send(fd, packet, n, NULL, 0);
}

static int send_note(struct hook *h, enum msg_type type, struct device *d, uint32_t request)
{
	struct msg_device_note m = {.device = d->daemon};

	msg_head_init(&m.head, type, sizeof m, request);
	return send_now(h, &m.head, sizeof m);
}

static int send_memory(
	struct hook *h, enum msg_type type, struct device *d, uint32_t request, uint64_t bytes)
{
	struct msg_memory m = {.device = d->daemon, .bytes = bytes};

	msg_head_init(&m.head, type, sizeof m, request);
	return send_now(h, &m.head, sizeof m);
}

void session_note(struct hook *h, enum msg_type type, struct device *d)
{
	int saved = errno;
	NOT_CANCELLED;

	send_note(h, type, d, 0);
	errno = saved;
}

void session_tell(struct hook *h, enum msg_type type, struct device *d, uint64_t bytes)
{
	int saved = errno;
	NOT_CANCELLED;

	send_memory(h, type, d, 0, bytes);
	errno = saved;
}

static struct ask *ask_new(struct hook *h)
{
	for (uint32_t i = 0; i < HOOK_ASKS; i++) {
		uint32_t free = 0;

		if (atomic_compare_exchange_strong(&h->ask[i].state, &free, 1)) {
			do
				h->ask[i].request = atomic_fetch_add(&h->requests, 1) + 1;
			while (!h->ask[i].request);
			return &h->ask[i];
		}
	}
	return NULL;
}

/* Waits for the daemon's answer. r: the result of sending the question. */
static int ask_wait(struct ask *ask, int r, uint64_t *ret_bytes)
{
	if (r)
		r = -ENOTCONN;
	/* the daemon may answer late; if it is lost, session_lose_daemon() ends the question */
	while (!r && atomic_load_explicit(&ask->state, memory_order_acquire) == 1)
		lock_futex_wait(&ask->state, 1, NSEC_PER_SEC, false);
	if (!r) {
		r = ask->status > 0 ? -ask->status : 0;
		if (!r && ret_bytes)
			*ret_bytes = ask->bytes;
	}
	atomic_store_explicit(&ask->state, 0, memory_order_release);
	return r;
}

int session_ask(
	struct hook *h, enum msg_type type, struct device *d, uint64_t bytes, uint64_t *ret_bytes)
{
	int saved = errno, r;
	struct ask *ask;
	NOT_CANCELLED;

	if (!atomic_load(&h->helper))
		return -ENOTCONN;
	ask = ask_new(h);
	if (!ask)
		return -EAGAIN;
	r = type == MSG_MEASURE ? send_note(h, type, d, ask->request)
				: send_memory(h, type, d, ask->request, bytes);
	r = ask_wait(ask, r, ret_bytes);
	errno = saved;
	return r;
}

int session_share(struct hook *h, enum msg_type type, struct device *d, uint64_t id, uint64_t bytes,
	uint32_t flags, bool waits)
{
	struct msg_share m = {.device = d->daemon, .flags = flags, .id = id, .bytes = bytes};
	struct ask *ask = NULL;
	int saved = errno, r;
	NOT_CANCELLED;

	if (!h->shares || !msg_is_in(type, atomic_load(&h->abi)))
		return -ENOTCONN;
	if (waits && !atomic_load(&h->helper))
		return -ENOTCONN;
	if (waits && !(ask = ask_new(h)))
		return -EAGAIN;
	msg_head_init(&m.head, type, sizeof m, ask ? ask->request : 0);
	r = send_now(h, &m.head, sizeof m);
	if (ask)
		r = ask_wait(ask, r, NULL);
	errno = saved;
	return r;
}

static uint64_t grace_ns(const struct hook *h)
{
	return h->policy_closed ? GRACE_CLOSED_NS : GRACE_NS;
}

bool session_comes_back(struct hook *h)
{
	uint64_t now = clock_now_ns();

	if (!atomic_load(&h->helper) || atomic_load(&h->removed))
		return false;
	/* gives up after the grace time, even if the helper thread has not opened the gates yet */
	if (atomic_load(&h->orphan) &&
		clock_since_ns(now, atomic_load(&h->orphan_since_ns)) > grace_ns(h))
		return false;
	clock_sleep_until_ns(now + RETRY_NS / 4);
	return true;
}

/* ---- the helper thread ---- */

static void session_end_ask(struct ask *ask, int32_t status, uint64_t bytes)
{
	ask->status = status;
	ask->bytes = bytes;
	atomic_store_explicit(&ask->state, 2, memory_order_release);
	futex_wake(&ask->state, INT_MAX);
}

static void session_handle_packet(struct hook *h, const union packet *p)
{
	if (p->head.type == MSG_REFUSED && p->head.status == ENOENT && !atomic_load(&h->removed)) {
		atomic_store(&h->removed, true);
		hook_complain_at_end("this program has lost its GPU: %.*s; restart the program",
			(int)MSG_TEXT - 1, p->refused.reason);
		return;
	}
	if (p->head.type == MSG_DIAGNOSTIC) {
		hook_complain("%.*s", (int)MSG_TEXT - 1, p->say.text);
		return;
	}
	if (p->head.type == MSG_FLUSH) {
		for (uint32_t i = 0; i < h->devices; i++) {
			if (h->device[i].daemon == p->note.device)
				marker_flush(&h->device[i], NULL);
		}
		return;
	}
	if (p->head.type != MSG_MEM_REPLY && p->head.type != MSG_MEASURED)
		return;
	for (uint32_t i = 0; i < HOOK_ASKS; i++) {
		struct ask *ask = &h->ask[i];

		if (atomic_load_explicit(&ask->state, memory_order_acquire) == 1 &&
			ask->request == p->head.request)
			session_end_ask(ask, p->head.status, p->memory.bytes);
	}
}

/*
 * Opens the gates after no daemon has returned: maps pages of this library over the daemon's pages.
 */
static void session_open_gates(struct hook *h)
{
	for (uint32_t i = 0; i < h->devices; i++) {
		struct device *d = &h->device[i];
		struct page_down *copy = mmap(NULL, sizeof *copy, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (copy == MAP_FAILED)
			continue;
		memcpy((void *)copy, (const void *)d->down, sizeof *copy);
		atomic_store(&copy->turn_ends_ns, 0);
		atomic_store(&copy->gate, GATE_OPEN);
		atomic_store(&copy->window_us, 0);
		atomic_store(&copy->flags, 0);
		madvise(copy, sizeof *copy, MADV_DONTFORK);
		if (mremap(copy, sizeof *copy, sizeof *copy, MREMAP_MAYMOVE | MREMAP_FIXED,
			    (void *)(uintptr_t)d->down) == MAP_FAILED)
			munmap(copy, sizeof *copy);
	}
}

/* Prints once, even if daemons are lost several times. Only the helper thread calls it. */
static void complain_of_loss(void)
{
	static bool has_said;

	if (!has_said)
		hook_complain("divvyd has exited; unless it is back within %u s, this program uses "
			      "its GPU without limits",
			(unsigned int)(GRACE_CLOSED_NS / NSEC_PER_SEC));
	has_said = true;
}

/*
 * Waits for the daemon's return after its loss. The gates keep their state for a while, and then
 * open. If the tenant was removed, no daemon will accept it again: the gates stay closed, and the
 * function returns false.
 */
static bool session_lose_daemon(struct hook *h)
{
	uint64_t since = clock_now_ns(), wait = RETRY_NS;
	char reason[MSG_TEXT];
	bool opened = false;
	int fd = atomic_load(&h->socket), r;

	atomic_store(&h->orphan_since_ns, since);
	atomic_store(&h->orphan, true);
	if (fd >= 0 && inode_of(fd) == h->socket_inode)
		close(fd);
	atomic_store(&h->socket, -1);
	for (uint32_t i = 0; i < HOOK_ASKS; i++) {
		if (atomic_load(&h->ask[i].state) == 1)
			session_end_ask(&h->ask[i], ENOTCONN, 0);
	}
	if (atomic_load(&h->removed))
		return false;
	while ((r = session_register(h, true, reason)) != 0) {
		clock_sleep_until_ns(clock_now_ns() + wait);
		wait = r != -EACCES ? RETRY_NS : wait < RETRY_REFUSED_NS ? 2 * wait : wait;
		if (h->policy_closed && clock_now_ns() - since > GRACE_NS)
			complain_of_loss();
		if (!opened && clock_now_ns() - since > grace_ns(h)) {
			session_open_gates(h);
			opened = true;
		}
	}
	atomic_store(&h->orphan, false);
	share_again(h);
	/* the new daemon does not know of the threads that wait at a gate */
	for (uint32_t i = 0; i < h->devices; i++) {
		if (atomic_load(&h->device[i].up->want))
			session_note(h, MSG_WANT, &h->device[i]);
	}
	return true;
}

static void *session_helper_main(void *arg)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct hook *h = arg;
	union packet p;

	/* for the thread's whole life: none of its calls may invalidate a capture of the program */
	REAL(cuThreadExchangeStreamCaptureMode)(&mode);
	for (;;) {
		_cleanup_fd_list_ struct fd_list passed = {.n = 0};
		int fd = atomic_load(&h->socket), r = -EBADF;

		if (fd >= 0 && inode_of(fd) == h->socket_inode)
			r = packet_receive(fd, &p, sizeof p, &passed);
		if (!r)
			session_handle_packet(h, &p);
		else if (r == -EAGAIN)
			share_look(h);
		else if (!session_lose_daemon(h))
			return NULL;
	}
	return NULL;
}

/*
 * Finds libc's pthread_create, even if the program has its own. Under ThreadSanitizer, finds the
 * sanitizer's function: its malloc crashes in a thread that another function has made.
 */
static pthread_create_fn *find_create(const struct system *s)
{
	void *found = NULL;

	if (s->dlsym && s->dlsym(RTLD_DEFAULT, "__tsan_init"))
		found = s->dlsym(RTLD_DEFAULT, "pthread_create");
	return found ? (pthread_create_fn *)(uintptr_t)found : s->pthread_create;
}

void session_helper_start(struct hook *h)
{
	const struct system *s = system_get();
	pthread_create_fn *create = find_create(s);
	bool no = false;
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int saved = errno;

	if (!create || !s->pthread_attr_init || !s->pthread_attr_setstacksize ||
		!s->pthread_attr_setdetachstate ||
		!atomic_compare_exchange_strong(&h->helper, &no, true))
		return;
	s->pthread_attr_init(&attr);
	s->pthread_attr_setstacksize(&attr, STACK_BYTES);
	s->pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	if (create(&thread, &attr, session_helper_main, h))
		atomic_store(&h->helper, false);
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = saved;
}
