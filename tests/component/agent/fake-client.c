/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake client: see fake-client.h. Parent and child exchange packets over a SEQPACKET pair. An
 * order is a struct order. The child forwards the daemon's packets unchanged, with their
 * descriptors. A packet 'H' means that the daemon has closed the connection, 'F' that no daemon
 * answers.
 */
#include "fake-client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/process.h"
#include "core/ledger-counter.h"
#include "../../patience.h"

#define DIE(...) \
	do { \
		fprintf(stderr, "fake-client: " __VA_ARGS__); \
		fputc('\n', stderr); \
		abort(); \
	} while (0)

/* ---- the child ---- */

struct order {
	char what; /* 'C': connect and register; 'S': send */
	bool again;
	bool has_secret;
	uint8_t secret[16];
	char socket[108];
	uid_t uid;
};

struct child {
	int link, sock;
	struct fd_list pages; /* from the last WELCOME: down, up, tenant, ... */
};

static void child_register(struct child *c, const struct order *order)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct msg_hello hello = {.page_abi = PAGE_ABI, .flags = MSG_HELLO_MEMBARRIER};
	int fds[FD_PASS_MAX];
	size_t n = 0;

	c->sock = fd_close(c->sock);
	c->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	memcpy(address.sun_path, order->socket, sizeof(address.sun_path));
	if (connect(c->sock, (struct sockaddr *)&address, sizeof(address)) < 0) {
		c->sock = fd_close(c->sock);
		send(c->link, "F", 1, 0);
		return;
	}
	msg_head_init(&hello.head, MSG_HELLO, sizeof(hello), 7);
	memcpy(hello.secret, order->secret, sizeof(hello.secret));
	process_start_ticks(getpid(), &hello.start_time);
	snprintf(hello.command, sizeof(hello.command), "fake");
	for (size_t i = 0; order->again && i < c->pages.n; i++)
		if (i % 3)
			fds[n++] = c->pages.fd[i];
	hello.flags |= order->again ? MSG_HELLO_AGAIN : 0;
	hello.devices = (uint32_t)(n / 2);
	fd_send(c->sock, &hello, sizeof(hello), fds, n, MSG_NOSIGNAL);
}

static void child_forward(struct child *c)
{
	static _Alignas(8) char packet[MSG_MAX];
	struct fd_list fds = {.n = 0};
	ssize_t n = fd_recv(c->sock, packet, sizeof(packet), &fds, 0);

	if (n <= 0) {
		c->sock = fd_close(c->sock);
		send(c->link, "H", 1, 0);
		return;
	}
	fd_send(c->link, packet, (size_t)n, fds.fd, fds.n, 0);
	if (!fds.n)
		return;
	fd_list_done(&c->pages);
	c->pages = fds;
}

static void child_become(const struct order *order)
{
	if (setresgid(order->uid, order->uid, order->uid) < 0 ||
		setresuid(order->uid, order->uid, order->uid) < 0)
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* the change of user has cleared the signal */
}

static void child_main(int link)
{
	static _Alignas(8) char packet[MSG_MAX];
	struct child c = {.link = link, .sock = -1};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		struct pollfd fds[2] = {
			{.fd = link, .events = POLLIN}, {.fd = c.sock, .events = POLLIN}};

		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[0].revents) {
			ssize_t n = recv(link, packet, sizeof(packet), 0);

			if (n <= 0)
				_exit(0);
			if (packet[0] == 'C')
				child_register(&c, (const struct order *)packet);
			else if (packet[0] == 'U')
				child_become((const struct order *)packet);
			else if (c.sock >= 0)
				send(c.sock, packet + 8, (size_t)n - 8, MSG_NOSIGNAL);
		} else if (fds[1].revents) {
			child_forward(&c);
		}
	}
}

/* ---- the test's side ---- */

void fake_start(struct fake_client *c)
{
	int pair[2];

	*c = (struct fake_client){.link = -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		DIE("socketpair: %m");
	c->pid = fork();
	if (c->pid < 0)
		DIE("fork: %m");
	if (!c->pid) {
		close(pair[0]);
		child_main(pair[1]);
	}
	close(pair[1]);
	c->link = pair[0];
}

static void forget_pages(struct fake_client *c)
{
	for (size_t i = 0; i < MSG_DEVICES; i++) {
		struct map maps[] = {{c->devices[i].down, sizeof(struct page_down)},
			{c->devices[i].up, sizeof(struct page_up)},
			{c->devices[i].tenant, sizeof(struct page_tenant)}};

		for (size_t k = 0; k < 3; k++)
			map_done(&maps[k]);
	}
	memset(c->devices, 0, sizeof(c->devices));
}

void fake_end(struct fake_client *c)
{
	if (c->pid > 0) {
		kill(c->pid, SIGKILL);
		waitpid(c->pid, NULL, 0);
	}
	c->link = fd_close(c->link);
	forget_pages(c);
	c->pid = 0;
}

static void *map_page(int fd, size_t n, int prot)
{
	struct map map;

	if (map_fd(fd, n, prot, &map) < 0)
		DIE("a page cannot be mapped");
	return map.p;
}

static void take_pages(struct fake_client *c, const struct fd_list *fds)
{
	if (fds->n != 3 * c->welcome.devices)
		DIE("%zu descriptors for %u devices", fds->n, c->welcome.devices);
	forget_pages(c);
	for (uint32_t i = 0; i < c->welcome.devices; i++) {
		struct fake_device *d = &c->devices[i];

		if (!memfd_has_seals(
			    fds->fd[3 * i], F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) ||
			!memfd_has_seals(fds->fd[3 * i + 1], F_SEAL_SHRINK | F_SEAL_GROW) ||
			!memfd_has_seals(fds->fd[3 * i + 2], F_SEAL_SHRINK | F_SEAL_GROW))
			DIE("a page is not sealed");
		d->down = map_page(fds->fd[3 * i], sizeof(*d->down), PROT_READ);
		d->up = map_page(fds->fd[3 * i + 1], sizeof(*d->up), PROT_READ | PROT_WRITE);
		d->tenant = map_page(
			fds->fd[3 * i + 2], sizeof(*d->tenant), PROT_READ | PROT_WRITE);
		d->up->magic = PAGE_MAGIC;
		d->up->abi = PAGE_ABI;
		d->up->size = sizeof(*d->up);
		d->up->pid = (uint32_t)c->pid;
		atomic_store(&d->up->lines, 1);
		atomic_store(&d->up->slots, 1);
		atomic_store(&d->up->line[0].tid, (uint32_t)c->pid);
	}
}

void fake_become(struct fake_client *c, uid_t uid)
{
	struct order order = {.what = 'U', .uid = uid};

	if (send(c->link, &order, sizeof(order), 0) < 0)
		DIE("the child is gone");
}

void fake_hello_send(struct fake_client *c, const char *socket, const char *secret, bool again)
{
	struct order order = {.what = 'C', .again = again, .has_secret = secret};

	snprintf(order.socket, sizeof(order.socket), "%s", socket);
	if (secret && parse_hex(str_from(secret), order.secret, sizeof(order.secret), NULL) < 0)
		DIE("secret '%s'", secret);
	if (send(c->link, &order, sizeof(order), 0) < 0)
		DIE("the child is gone");
}

int fake_hello_wait(struct fake_client *c)
{
	static _Alignas(8) char packet[MSG_MAX];
	const struct msg_head *head = (const struct msg_head *)packet;

	for (;;) {
		struct pollfd pfd = {.fd = c->link, .events = POLLIN};
		_cleanup_fd_list_ struct fd_list fds = {.n = 0};
		ssize_t n;

		if (poll(&pfd, 1, patience_ms(60000)) <= 0)
			return -ETIMEDOUT;
		n = fd_recv(c->link, packet, sizeof(packet), &fds, 0);
		if (n == 1 && packet[0] == 'F')
			return -ECONNREFUSED;
		if (n == 1) /* the end of the previous connection */
			continue;
		if (n < (ssize_t)sizeof(*head))
			DIE("no answer to HELLO");
		if (head->type == MSG_REFUSED) {
			memcpy(c->refused, ((struct msg_refused *)packet)->reason,
				sizeof(c->refused));
			return -head->status;
		}
		if (head->type != MSG_WELCOME)
			continue;
		memcpy(&c->welcome, packet, sizeof(c->welcome));
		take_pages(c, &fds);
		return 0;
	}
}

int fake_hello(struct fake_client *c, const char *socket, const char *secret, bool again)
{
	fake_hello_send(c, socket, secret, again);
	return fake_hello_wait(c);
}

void fake_send(struct fake_client *c, const void *packet, uint32_t size)
{
	static char order[MSG_MAX + 8] = "S";

	memcpy(order + 8, packet, size);
	if (send(c->link, order, size + 8, 0) < 0)
		DIE("the child is gone");
}

void fake_note(struct fake_client *c, enum msg_type type, uint32_t at)
{
	struct msg_device_note note = {.device = c->welcome.device[at].device};

	msg_head_init(&note.head, type, sizeof(note), 9);
	fake_send(c, &note, sizeof(note));
}

bool fake_expect(
	struct fake_client *c, enum msg_type type, void *ret_packet, uint32_t size, int timeout_ms)
{
	static _Alignas(8) char packet[MSG_MAX];
	uint64_t deadline = clock_now_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC;

	while (clock_now_ns() < deadline) {
		struct pollfd pfd = {.fd = c->link, .events = POLLIN};
		ssize_t n;

		if (poll(&pfd, 1, 10) <= 0)
			continue;
		n = recv(c->link, packet, sizeof(packet), MSG_DONTWAIT);
		if (n < (ssize_t)sizeof(struct msg_head) ||
			((struct msg_head *)packet)->type != type)
			continue;
		if (ret_packet)
			memcpy(ret_packet, packet, size);
		return true;
	}
	return false;
}

bool fake_is_hung_up(struct fake_client *c, int timeout_ms)
{
	uint64_t deadline = clock_now_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC;
	char packet[2048];

	while (clock_now_ns() < deadline) {
		struct pollfd pfd = {.fd = c->link, .events = POLLIN};

		if (poll(&pfd, 1, 10) > 0 &&
			recv(c->link, packet, sizeof(packet), MSG_DONTWAIT) == 1)
			return true;
	}
	return false;
}

/* ---- pages ---- */

void fake_want(struct fake_client *c, uint32_t at)
{
	if (atomic_fetch_add(&c->devices[at].up->want, 1) == 0)
		fake_note(c, MSG_WANT, at);
}

bool fake_await_gate(struct fake_client *c, uint32_t at, enum page_gate gate, int timeout_ms)
{
	uint64_t deadline = clock_now_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC;

	while (atomic_load(&c->devices[at].down->gate) != gate) {
		if (clock_now_ns() > deadline)
			return false;
		clock_sleep_until_ns(clock_now_ns() + 20 * NSEC_PER_USEC);
	}
	return true;
}

bool fake_acquire(struct fake_client *c, uint32_t at, int timeout_ms)
{
	bool is_open;

	fake_want(c, at);
	is_open = fake_await_gate(c, at, GATE_OPEN, timeout_ms);
	atomic_fetch_sub(&c->devices[at].up->want, 1);
	return is_open;
}

void fake_submit_unmarked(struct fake_client *c, uint32_t at)
{
	atomic_fetch_add(&c->devices[at].up->line[0].submitted, 1);
}

void fake_mark(struct fake_client *c, uint32_t at)
{
	struct page_up *up = c->devices[at].up;

	atomic_fetch_add(&up->issued[0], 1);
	atomic_store(&up->flushed, atomic_load(&up->line[0].submitted));
}

void fake_submit(struct fake_client *c, uint32_t at)
{
	fake_submit_unmarked(c, at);
	fake_mark(c, at);
}

void fake_complete(struct fake_client *c, uint32_t at)
{
	struct page_up *up = c->devices[at].up;

	atomic_store(&up->done[0], atomic_load(&up->issued[0]));
}

bool fake_reserve(struct fake_client *c, uint64_t bytes)
{
	struct ledger_counter counter = {
		.tenant = c->devices[0].tenant,
		.slot = &c->devices[0].up->memory,
		.process = c->devices[0].down->process,
	};

	return ledger_counter_reserve(&counter, ledger_pages(bytes), UINT64_MAX) == 0;
}
