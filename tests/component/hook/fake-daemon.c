/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See fake-daemon.h. One lock protects everything. The thread polls its sockets every 2 ms, so that
 * it ends soon after a request to stop.
 */
#include "fake-daemon.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "../../patience.h"

#define PENDING 64
#define SHARES 64

struct process {
	int socket;
	bool registered;
	struct page_down *down[FAKE_DEVICES];
	struct page_up *up[FAKE_DEVICES];
};

struct fake_daemon {
	pthread_mutex_t mutex;
	pthread_t thread;
	struct fake_options options;
	char path[108];
	int listener;
	bool end;
	struct process process[FAKE_PROCESSES];
	uint32_t processes;
	struct page_tenant *tenant[FAKE_DEVICES];
	int tenant_fd[FAKE_DEVICES];
	uint32_t count[MSG_TYPES];
	uint64_t measure_bytes;
	int reserve_status;
	struct {
		int socket;
		struct msg_memory m;
	} pending[PENDING];
	uint32_t pendings;
	struct { /* one holder at most: tests with shares have one process */
		uint64_t id, bytes;
	} share[SHARES];
};

void fake_stub_uuid(uint32_t n, uint8_t ret_uuid[static 16])
{
	memset(ret_uuid, 0, 16);
	memcpy(ret_uuid, "divvystub", 9);
	ret_uuid[15] = (uint8_t)(n + 1);
}

static void *page_new(const char *name, size_t size, unsigned int seals, int *ret_fd)
{
	int fd = memfd_new(name, size);
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd < 0 || p == MAP_FAILED || memfd_seal(fd, seals | F_SEAL_SHRINK | F_SEAL_GROW) < 0) {
		fprintf(stderr, "fake daemon: page '%s': %s\n", name, strerror(errno));
		abort();
	}
	*ret_fd = fd;
	return p;
}

static void fill_down(struct fake_daemon *d, struct page_down *down, uint32_t process, uint32_t i)
{
	down->magic = PAGE_MAGIC;
	down->abi = PAGE_ABI;
	down->device = (uint16_t)i;
	down->size = sizeof *down;
	down->process = process + 1;
	memcpy(down->uuid, d->options.uuid[i], 16);
	down->daemon_epoch = 1;
	atomic_store(&down->gate, d->options.closed ? GATE_CLOSED : GATE_OPEN);
	atomic_store(&down->flags, d->options.flags);
	atomic_store(&down->window_us, d->options.window_us);
	atomic_store(&down->quota_bytes, d->options.quota_bytes);
	atomic_store(&down->context_bytes, d->options.context_bytes);
	down->device_bytes = UINT64_C(64) << 30;
}

static int send_fds(int socket, const void *p, size_t n, const int *fds, size_t n_fds)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(3 * FAKE_DEVICES * sizeof(int))];
	} control;
	struct iovec iov = {(void *)(uintptr_t)p, n};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control};

	memset(&control, 0, sizeof control);
	mh.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
	control.head.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(&control.head), fds, n_fds * sizeof(int));
	return sendmsg(socket, &mh, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void welcome(struct fake_daemon *d, uint32_t at, const struct msg_hello *hello,
	const struct fd_list *passed)
{
	struct process *p = &d->process[at];
	struct msg_welcome m = {.tenant = 1, .devices = d->options.devices};
	int fds[3 * FAKE_DEVICES];
	bool again = hello->flags & MSG_HELLO_AGAIN;

	msg_head_init(&m.head, MSG_WELCOME, sizeof m, hello->head.request);
	m.flags = d->options.shares ? MSG_WELCOME_SHARES : 0;
	for (uint32_t i = 0; i < d->options.devices; i++) {
		memcpy(m.device[i].uuid, d->options.uuid[i], 16);
		m.device[i].device = i;
		m.device[i].quota_bytes = d->options.quota_bytes;
		m.device[i].device_bytes = UINT64_C(64) << 30;
		p->down[i] = page_new("fake-down", sizeof(struct page_down), 0, &fds[3 * i]);
		fill_down(d, p->down[i], at, i);
		memfd_seal(fds[3 * i], F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
		if (again && passed->n == 2 * (size_t)d->options.devices) {
			fds[3 * i + 1] = dup(passed->fd[2 * i]);
			fds[3 * i + 2] = dup(passed->fd[2 * i + 1]);
			p->up[i] = mmap(NULL, sizeof(struct page_up), PROT_READ | PROT_WRITE,
				MAP_SHARED, fds[3 * i + 1], 0);
			d->tenant[i] = mmap(NULL, sizeof(struct page_tenant),
				PROT_READ | PROT_WRITE, MAP_SHARED, fds[3 * i + 2], 0);
		} else {
			p->up[i] = page_new("fake-up", sizeof(struct page_up), 0, &fds[3 * i + 1]);
			fds[3 * i + 2] = dup(d->tenant_fd[i]);
		}
	}
	send_fds(p->socket, &m, sizeof m, fds, 3 * (size_t)d->options.devices);
	for (size_t i = 0; i < 3 * (size_t)d->options.devices; i++)
		close(fds[i]);
	p->registered = true;
}

static void answer(struct fake_daemon *d, int socket, const struct msg_memory *asked)
{
	struct msg_memory m = {.device = asked->device, .bytes = asked->bytes};

	msg_head_init(&m.head, MSG_MEM_REPLY, sizeof m, asked->head.request);
	m.head.status = d->reserve_status;
	send(socket, &m, sizeof m, MSG_NOSIGNAL);
}

static uint64_t shared(const struct fake_daemon *d)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < SHARES; i++)
		sum += d->share[i].bytes;
	return sum;
}

static void share(struct fake_daemon *d, int socket, const struct msg_share *m)
{
	const bool adds = m->head.type == MSG_MEM_SHARE;
	const struct msg_memory asked = {.head = m->head, .device = m->device};

	for (uint32_t i = 0; i < SHARES; i++) {
		if ((adds && d->reserve_status > 0) || d->share[i].id != (adds ? 0 : m->id))
			continue;
		d->share[i].id = adds ? m->id : 0;
		d->share[i].bytes = adds ? m->bytes : 0;
		break;
	}
	if (m->head.request)
		answer(d, socket, &asked);
}

static void handle(
	struct fake_daemon *d, uint32_t at, const void *packet, const struct fd_list *fds)
{
	const struct msg_head *head = packet;
	int socket = d->process[at].socket;

	d->count[head->type]++;
	if (head->type == MSG_HELLO && d->options.refusal) {
		struct msg_refused m = {{0}, {0}};

		msg_head_init(&m.head, MSG_REFUSED, sizeof m, head->request);
		snprintf(m.reason, sizeof m.reason, "%s", d->options.refusal);
		send(socket, &m, sizeof m, MSG_NOSIGNAL);
	} else if (head->type == MSG_HELLO) {
		welcome(d, at, packet, fds);
	} else if (head->type == MSG_MEASURE) {
		struct msg_memory m = {.bytes = d->measure_bytes};

		msg_head_init(&m.head, MSG_MEASURED, sizeof m, head->request);
		m.head.status = d->measure_bytes ? 0 : ENODATA;
		send(socket, &m, sizeof m, MSG_NOSIGNAL);
	} else if (head->type == MSG_MEM_SHARE || head->type == MSG_MEM_UNSHARE) {
		share(d, socket, packet);
	} else if (head->type == MSG_MEM_RESERVE) {
		if (d->reserve_status >= 0)
			answer(d, socket, packet);
		else if (d->pendings < PENDING) {
			d->pending[d->pendings].socket = socket;
			d->pending[d->pendings++].m = *(const struct msg_memory *)packet;
		}
	}
}

static void serve_one(struct fake_daemon *d, uint32_t at)
{
	_Alignas(8) char packet[2048];
	struct error err;
	struct fd_list fds = {.n = 0};
	ssize_t n = fd_recv(d->process[at].socket, packet, sizeof packet, &fds, MSG_DONTWAIT);

	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		close(d->process[at].socket);
		d->process[at].socket = -1;
		return;
	}
	if (msg_check(packet, (uint32_t)n, &err) < 0) {
		fprintf(stderr, "fake daemon: %s\n", err.msg);
		abort();
	}
	handle(d, at, packet, &fds);
	fd_list_done(&fds);
}

static void *serve(void *arg)
{
	struct fake_daemon *d = arg;

	for (;;) {
		struct pollfd p[1 + FAKE_PROCESSES] = {{.fd = d->listener, .events = POLLIN}};

		for (uint32_t i = 0; i < FAKE_PROCESSES; i++)
			p[1 + i] = (struct pollfd){.fd = d->process[i].socket, .events = POLLIN};
		poll(p, 1 + FAKE_PROCESSES, 2);
		pthread_mutex_lock(&d->mutex);
		if (d->end) {
			pthread_mutex_unlock(&d->mutex);
			return NULL;
		}
		if (p[0].revents && d->processes < FAKE_PROCESSES) {
			int fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC);

			if (fd >= 0)
				d->process[d->processes++].socket = fd;
		}
		for (uint32_t i = 0; i < d->processes; i++) {
			if (d->process[i].socket >= 0)
				serve_one(d, i);
		}
		pthread_mutex_unlock(&d->mutex);
	}
}

struct fake_daemon *fake_daemon_new(const char *socket_path, const struct fake_options *options)
{
	struct fake_daemon *d = calloc(1, sizeof *d);
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	if (!d)
		return NULL;
	pthread_mutex_init(&d->mutex, NULL);
	d->options = *options;
	for (uint32_t i = 0; i < FAKE_PROCESSES; i++)
		d->process[i].socket = -1;
	for (uint32_t i = 0; i < options->devices; i++) {
		d->tenant[i] = page_new(
			"fake-tenant", sizeof(struct page_tenant), F_SEAL_SEAL, &d->tenant_fd[i]);
		d->tenant[i]->magic = PAGE_MAGIC;
		d->tenant[i]->abi = PAGE_ABI;
		d->tenant[i]->size = sizeof(struct page_tenant);
	}
	snprintf(d->path, sizeof d->path, "%s", socket_path);
	memcpy(sa.sun_path, d->path, sizeof d->path);
	unlink(d->path);
	d->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (bind(d->listener, (struct sockaddr *)&sa, sizeof sa) || listen(d->listener, 64) ||
		pthread_create(&d->thread, NULL, serve, d)) {
		fprintf(stderr, "fake daemon at '%s': %s\n", d->path, strerror(errno));
		free(d);
		return NULL;
	}
	return d;
}

void fake_daemon_free(struct fake_daemon *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->mutex);
	d->end = true;
	pthread_mutex_unlock(&d->mutex);
	pthread_join(d->thread, NULL);
	close(d->listener);
	unlink(d->path);
	for (uint32_t i = 0; i < d->processes; i++) {
		if (d->process[i].socket >= 0)
			close(d->process[i].socket);
	}
	free(d);
}

static void nap(void)
{
	struct timespec ts = {0, 1000000};

	nanosleep(&ts, NULL);
}

static bool await_process(struct fake_daemon *d, uint32_t process)
{
	for (int i = patience_ms(60000); i > 0; i--) {
		pthread_mutex_lock(&d->mutex);
		bool there = process < FAKE_PROCESSES && d->process[process].registered;
		pthread_mutex_unlock(&d->mutex);
		if (there)
			return true;
		nap();
	}
	fprintf(stderr, "fake daemon: process %u has not registered\n", process);
	return false;
}

struct page_down *fake_daemon_down(struct fake_daemon *d, uint32_t process, uint32_t device)
{
	return await_process(d, process) ? d->process[process].down[device] : NULL;
}

struct page_up *fake_daemon_up(struct fake_daemon *d, uint32_t process, uint32_t device)
{
	return await_process(d, process) ? d->process[process].up[device] : NULL;
}

struct page_tenant *fake_daemon_tenant(struct fake_daemon *d, uint32_t device)
{
	return d->tenant[device];
}

void fake_daemon_gate(struct fake_daemon *d, bool open)
{
	pthread_mutex_lock(&d->mutex);
	d->options.closed = !open;
	for (uint32_t i = 0; i < d->processes; i++) {
		for (uint32_t k = 0; d->process[i].registered && k < d->options.devices; k++) {
			_Atomic uint32_t *gate = &d->process[i].down[k]->gate;

			atomic_store(gate, open ? GATE_OPEN : GATE_CLOSED);
			syscall(SYS_futex, gate, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
		}
	}
	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
	pthread_mutex_unlock(&d->mutex);
}

void fake_daemon_quota(struct fake_daemon *d, uint64_t bytes)
{
	pthread_mutex_lock(&d->mutex);
	d->options.quota_bytes = bytes;
	for (uint32_t i = 0; i < d->processes; i++) {
		for (uint32_t k = 0; d->process[i].registered && k < d->options.devices; k++)
			atomic_store(&d->process[i].down[k]->quota_bytes, bytes);
	}
	pthread_mutex_unlock(&d->mutex);
}

void fake_daemon_flush(struct fake_daemon *d, uint32_t process, uint32_t device)
{
	struct msg_device_note m = {.device = device};

	pthread_mutex_lock(&d->mutex);
	atomic_fetch_add(&d->process[process].down[device]->flush, 1);
	msg_head_init(&m.head, MSG_FLUSH, sizeof m, 0);
	send(d->process[process].socket, &m, sizeof m, MSG_NOSIGNAL);
	pthread_mutex_unlock(&d->mutex);
}

uint32_t fake_daemon_count(struct fake_daemon *d, enum msg_type type)
{
	uint32_t n;

	pthread_mutex_lock(&d->mutex);
	n = d->count[type];
	pthread_mutex_unlock(&d->mutex);
	return n;
}

bool fake_daemon_await(struct fake_daemon *d, enum msg_type type, uint32_t count)
{
	for (int i = patience_ms(60000); i > 0; i--) {
		if (fake_daemon_count(d, type) >= count)
			return true;
		nap();
	}
	fprintf(stderr, "fake daemon: %u of %u messages %s came\n", fake_daemon_count(d, type),
		count, msg_type_name((uint16_t)type));
	return false;
}

uint32_t fake_daemon_processes(struct fake_daemon *d)
{
	uint32_t n = 0;

	pthread_mutex_lock(&d->mutex);
	for (uint32_t i = 0; i < d->processes; i++)
		n += d->process[i].registered;
	pthread_mutex_unlock(&d->mutex);
	return n;
}

bool fake_daemon_drained(struct fake_daemon *d, uint32_t process, uint32_t device)
{
	struct page_up *up = fake_daemon_up(d, process, device);
	uint64_t sum = 0;

	for (uint32_t i = 0; up && i < atomic_load(&up->lines) && i < PAGE_LINES; i++) {
		if (atomic_load(&up->line[i].in_launch))
			return false;
		sum += atomic_load(&up->line[i].submitted);
	}
	if (!up || sum != atomic_load(&up->flushed))
		return false;
	for (uint32_t i = 0; i < atomic_load(&up->slots) && i < PAGE_SLOTS; i++) {
		if (atomic_load(&up->done[i]) != atomic_load(&up->issued[i]))
			return false;
	}
	return true;
}

uint64_t fake_daemon_shared(struct fake_daemon *d)
{
	uint64_t bytes;

	pthread_mutex_lock(&d->mutex);
	bytes = shared(d);
	pthread_mutex_unlock(&d->mutex);
	return bytes;
}

void fake_daemon_measure(struct fake_daemon *d, uint64_t bytes)
{
	pthread_mutex_lock(&d->mutex);
	d->measure_bytes = bytes;
	pthread_mutex_unlock(&d->mutex);
}

void fake_daemon_reserve(struct fake_daemon *d, int status)
{
	pthread_mutex_lock(&d->mutex);
	d->reserve_status = status;
	for (uint32_t i = 0; status >= 0 && i < d->pendings; i++)
		answer(d, d->pending[i].socket, &d->pending[i].m);
	if (status >= 0)
		d->pendings = 0;
	pthread_mutex_unlock(&d->mutex);
}
