/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections: sockets, packets, limits. register.c handles HELLO, control.c handles control
 * requests, and this file the other packets of hooks. Packets with descriptors, and connections
 * that may hold some, go through the closer, because closing a foreign descriptor may block. HELLO
 * and CONTROL are costly: a connection has at most one of them waiting, and users take turns.
 */
#include "agent/agent-client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/conf.h"
#include "agent/control.h"
#include "agent/device.h"
#include "agent/tenant-socket.h"
#include "agent/agent-memory.h"
#include "agent/register.h"
#include "agent/token.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/process.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define PACKETS_A_TURN 32
#define RATE_STEP_NS (NSEC_PER_SEC / CLIENT_RATE)
#define RATE_BURST_NS (250 * NSEC_PER_MSEC)
#define HOOK_OUT_MAX (64u << 10)
/* In one turn of the loop one request always runs, and further ones only within this time. */
#define REQUESTS_NS (500 * NSEC_PER_USEC)
/*
 * After descriptors are refused on a socket, a send that began earlier queues its packet within
 * this time, however loaded the machine is.
 */
#define RIGHTS_SETTLE_NS NSEC_PER_SEC

/* ---- the closer ---- */

static void client_drop_request(struct conn *c)
{
	struct user *u = c->user;

	if (!c->request)
		return;
	free(c->request);
	c->request = NULL;
	TAILQ_REMOVE(&u->waiting, c, waiting);
	if (TAILQ_EMPTY(&u->waiting))
		TAILQ_REMOVE(&c->agent->turns, u, turn);
}

static void client_on_closed(struct closer_job *job)
{
	struct conn *c = job->data;

	c->closing = CONN_OURS;
	c->agent->has_dead = true;
}

/*
 * Closes the socket here only if its queue has no descriptors, because closing these may block.
 * Otherwise the closer closes the socket.
 */
static void let_close(struct conn *c)
{
	if (c->is_clean || closer_shut(c->fd)) {
		c->fd = fd_close(c->fd);
		return;
	}
	c->closing = CONN_CLOSERS;
	closer_close(
		c->agent->closer, &c->user->closing, &c->job, TAKE_FD(c->fd), client_on_closed);
}

static void client_watch_socket(struct conn *c);
static void on_conn(struct loop_io *io, uint32_t events);

static void on_given_back(struct closer_job *job)
{
	struct conn *c = job->data;

	c->closing = CONN_OURS;
	c->agent->has_dead |= c->is_dead;
	if (c->is_dead)
		let_close(c);
	else
		client_watch_socket(c);
}

static void client_return_fds(struct conn *c)
{
	c->closing = CONN_CLOSERS;
	closer_give_back(c->agent->closer, &c->job, on_given_back);
}

void conn_close(struct conn *c)
{
	if (c->is_dead)
		return;
	c->is_dead = true;
	c->agent->has_dead = true;
	c->agent->n_conns--;
	control_conn_closed(c);
	client_drop_request(c);
	if (c->process)
		c->process->conn = NULL;
	c->process = NULL;
	loop_remove_io(&c->io);
	loop_remove_timer(&c->pause);
	c->pidfd = fd_close(c->pidfd);
	if (c->closing == CONN_OURS)
		let_close(c);
	else if (c->closing == CONN_RECEIVED && !c->is_executing)
		client_return_fds(c);
}

bool conn_free(struct conn *c)
{
	if (c->closing != CONN_OURS)
		return false;
	c->user->out_bytes -= c->out.n;
	if (!TAILQ_EMPTY(&c->user->waiting))
		loop_set_timer(&c->agent->requests, clock_now_ns());
	user_leave(c->agent->users, c->user);
	buf_done(&c->out);
	free(c->deferred);
	free(c);
	return true;
}

/* ---- reading and sending ---- */

/* Registered programs are always read, other peers only when they have read their answers. */
static bool does_read(const struct conn *c)
{
	return !c->is_dead && !c->is_paused && !c->request && c->closing == CONN_OURS &&
		(c->process || !c->out.n);
}

/*
 * Sets what the loop waits for. An idle socket leaves the loop: after a hang-up epoll would report
 * it for ever.
 */
static void client_watch_socket(struct conn *c)
{
	const uint32_t events = (does_read(c) ? (uint32_t)EPOLLIN : 0) |
		(c->out.n ? (uint32_t)EPOLLOUT : 0);

	if (c->is_dead)
		return;
	if (!events)
		loop_remove_io(&c->io);
	else if (c->io.loop)
		loop_mod_io(&c->io, events);
	else if (loop_add_io(c->agent->loop, &c->io, c->fd, events, on_conn) < 0)
		conn_close(c);
}

static void took_out(struct conn *c, size_t n)
{
	c->out_at += n;
	c->out_ns = clock_now_ns();
	/* buf_consume() moves the unsent bytes, so it runs only when half of the buffer is sent. */
	if (c->out_at < c->out.n && c->out_at < c->out.n / 2)
		return;
	c->user->out_bytes -= c->out_at;
	buf_consume(&c->out, c->out_at);
	c->out_at = 0;
	if (!TAILQ_EMPTY(&c->user->waiting))
		loop_set_timer(&c->agent->requests, c->out_ns);
}

static void client_flush_out(struct conn *c)
{
	while (c->out.n) {
		const char *at = c->out.p + c->out_at;
		uint32_t size;

		memcpy(&size, at, sizeof(size));
		if (send(c->fd, at + sizeof(size), size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
			if (errno != EAGAIN && errno != EINTR)
				conn_close(c);
			return;
		}
		took_out(c, sizeof(size) + size);
	}
}

void client_send(struct conn *c, void *packet, uint32_t size)
{
	struct msg_head *head = packet;

	if (c->is_dead)
		return;
	head->abi = c->abi;
	if (!c->out.n) {
		if (send(c->fd, packet, size, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return;
		if (errno != EAGAIN && errno != EINTR) {
			conn_close(c);
			return;
		}
		c->out_ns = clock_now_ns();
	}
	/*
	 * A frozen program does not read. The daemon's messages to a program are only hints, so the
	 * daemon drops them instead of filling memory.
	 */
	if (c->process && (c->out.n > HOOK_OUT_MAX || c->user->out_bytes > USER_OUT_MAX))
		return;
	c->user->out_bytes -= c->out.n;
	if (buf_add(&c->out, (struct str){(const char *)&size, sizeof(size)}) >= 0)
		buf_add(&c->out, (struct str){packet, size});
	c->user->out_bytes += c->out.n;
	if (buf_error(&c->out) < 0)
		conn_close(c);
	else
		client_watch_socket(c);
}

void client_reply(struct conn *c, uint32_t request, int status, const char *text, size_t n)
{
	_cleanup_free_ struct msg_control *part = malloc(MSG_MAX);
	const size_t most = MSG_MAX - sizeof(*part);
	size_t at = 0, chunk;

	if (!part) {
		conn_close(c);
		return;
	}
	do {
		chunk = MIN(n - at, most);
		msg_head_init(
			&part->head, MSG_CONTROL_REPLY, (uint32_t)(sizeof(*part) + chunk), request);
		part->more = at + chunk < n;
		part->reserved = 0;
		part->head.status = part->more ? 0 : status;
		memcpy(part->text, text + at, chunk);
		client_send(c, part, part->head.size);
		at += chunk;
	} while (at < n);
}

void client_refuse(struct conn *c, uint32_t request, int code, const char *reason)
{
	struct msg_refused refused = {0};

	msg_head_init(&refused.head, MSG_REFUSED, sizeof(refused), request);
	refused.head.status = code;
	snprintf(refused.reason, sizeof(refused.reason), "%.*s", (int)MSG_TEXT - 1, reason);
	client_send(c, &refused, sizeof(refused));
}

void client_send_diagnostic(struct conn *c, uint32_t device, const char *fmt, ...)
{
	struct msg_diagnostic say = {.device = device};
	va_list ap;

	if (!c || !msg_is_in(MSG_DIAGNOSTIC, c->abi))
		return;
	va_start(ap, fmt);
	vsnprintf(say.text, sizeof(say.text), fmt, ap);
	va_end(ap);
	msg_head_init(&say.head, MSG_DIAGNOSTIC, sizeof(say), 0);
	client_send(c, &say, sizeof(say));
}

/* ---- receiving ---- */

/* A hook names a device by the daemon's index. Finds the device's index in the tenant's list. */
static bool find_device(const struct process *p, uint32_t device, uint32_t *ret_at)
{
	for (uint32_t i = 0; i < p->tenant->n; i++)
		if (p->tenant->devices[i].device->index == device) {
			*ret_at = i;
			return true;
		}
	return false;
}

static void hook_packet(struct conn *c, const struct msg_head *head, const void *packet)
{
	const struct msg_device_note *note = packet;
	const struct msg_memory *memory = packet;
	struct process *p = c->process;
	uint32_t at;

	/* The member `device` has the same offset in all messages handled below. */
	if (!p || p->is_dead || !find_device(p, note->device, &at))
		return;
	switch (head->type) {
	case MSG_WANT: token_want(p, at); break;
	case MSG_RELEASE: token_release(p, at); break;
	case MSG_YIELD: token_yield(p, at); break;
	case MSG_MEM_RESERVE: memory_reserve(p, at, head->request, memory->bytes); break;
	case MSG_MEM_RELEASE: memory_release(&p->tenant->devices[at], p, memory->bytes); break;
	case MSG_MEASURE: memory_measure(p, at, head->request); break;
	case MSG_MEM_SHARE: memory_share(p, at, packet); break;
	case MSG_MEM_UNSHARE: memory_unshare(p, at, packet); break;
	default: break;
	}
}

void client_packet(struct conn *c, const void *packet, uint32_t size, const int *fds, size_t n_fds)
{
	struct msg_head head;
	struct error err;

	/*
	 * Answers use the peer's version, or the daemon's newest if the peer is newer: a newer peer
	 * may speak that version, too. An older peer can then read the refusal.
	 */
	if (size >= sizeof(head)) {
		memcpy(&head, packet, sizeof(head));
		c->abi = head.abi < msg_newest() ? head.abi : msg_newest();
	}
	if (msg_check(packet, size, &err) < 0) {
		log_debug("pid %d: %s", (int)c->pid, err.msg);
		client_refuse(c, 0, EBADMSG, err.msg);
		conn_close(c);
		return;
	}
	memcpy(&head, packet, sizeof(head));
	switch (head.type) {
	case MSG_HELLO: register_hello(c, packet, fds, n_fds); break;
	case MSG_CONTROL:
		control_request(c, head.request, (const char *)packet + sizeof(struct msg_control),
			size - sizeof(struct msg_control));
		break;
	case MSG_BYE:
		if (c->process)
			process_kill(c->process);
		conn_close(c);
		break;
	default: hook_packet(c, &head, packet);
	}
}

static bool is_too_fast(struct conn *c)
{
	uint64_t now = loop_now_ns(c->agent->loop);

	c->rate_ns = MAX(c->rate_ns, now) + RATE_STEP_NS;
	if (c->rate_ns <= now + RATE_BURST_NS)
		return false;
	c->is_paused = true;
	loop_set_timer(&c->pause, c->rate_ns - RATE_BURST_NS / 2);
	return true;
}

static void client_on_pause_over(struct loop_timer *timer, uint64_t now)
{
	struct conn *c = timer->data;

	c->is_paused = false;
	client_watch_socket(c);
}

/* ---- requests ---- */

static bool is_costly(const char *packet, size_t n)
{
	struct msg_head head;

	if (n < sizeof(head))
		return false;
	memcpy(&head, packet, sizeof(head));
	return head.type == MSG_CONTROL || head.type == MSG_HELLO;
}

static void take_request(struct conn *c, const char *packet, size_t n)
{
	struct user *u = c->user;

	c->request = malloc(sizeof(*c->request) + n);
	if (!c->request) {
		conn_close(c);
		return;
	}
	c->request->size = (uint32_t)n;
	memcpy(c->request->packet, packet, n);
	if (TAILQ_EMPTY(&u->waiting))
		TAILQ_INSERT_TAIL(&c->agent->turns, u, turn);
	TAILQ_INSERT_TAIL(&u->waiting, c, waiting);
	loop_set_timer(&c->agent->requests, clock_now_ns());
}

static void client_execute_request(struct conn *c)
{
	_cleanup_free_ struct conn_request *request = TAKE_PTR(c->request);
	const bool has_fds = c->closing == CONN_RECEIVED;

	c->is_executing = true;
	client_packet(c, request->packet, request->size, c->job.fds.fd, has_fds ? c->job.fds.n : 0);
	c->is_executing = false;
	if (has_fds)
		client_return_fds(c);
	client_watch_socket(c);
}

/*
 * Returns the next user in turn that has time left and room for answers. If there is none, returns
 * NULL and the time of the next try.
 */
static struct user *next_user(struct agent *agent, uint64_t now, uint64_t *ret_when_ns)
{
	struct user *u;
	uint64_t when_ns;

	*ret_when_ns = CLOCK_NEVER;
	TAILQ_FOREACH(u, &agent->turns, turn) {
		if (u->out_bytes >= USER_OUT_MAX)
			continue; /* took_out() and conn_free() set the timer when there is room */
		if (user_may_spend(u, now, &when_ns))
			return u;
		*ret_when_ns = MIN(*ret_when_ns, when_ns);
	}
	return NULL;
}

/* Executes one request of each user in turn. */
static void on_requests(struct loop_timer *timer, uint64_t now)
{
	struct agent *agent = timer->data;
	const uint64_t began_ns = clock_now_ns();
	uint64_t at_ns = began_ns, when_ns;
	struct user *u;

	while ((u = next_user(agent, at_ns, &when_ns))) {
		struct conn *c = TAILQ_FIRST(&u->waiting);
		uint64_t before_ns = at_ns;

		if (at_ns - began_ns >= REQUESTS_NS) {
			when_ns = at_ns;
			break;
		}
		TAILQ_REMOVE(&u->waiting, c, waiting);
		TAILQ_REMOVE(&agent->turns, u, turn);
		if (!TAILQ_EMPTY(&u->waiting))
			TAILQ_INSERT_TAIL(&agent->turns, u, turn);
		client_execute_request(c);
		at_ns = clock_now_ns();
		user_pay(u, before_ns, at_ns - before_ns);
	}
	if (when_ns != CLOCK_NEVER)
		loop_set_timer(timer, when_ns);
}

/* ---- receiving ---- */

static void on_received(struct closer_job *job)
{
	struct conn *c = job->data;

	c->closing = job->fds.n ? CONN_RECEIVED : CONN_OURS;
	if (c->is_dead && job->fds.n) {
		client_return_fds(c);
	} else if (c->is_dead) {
		c->agent->has_dead = true;
		let_close(c);
	} else if (job->result <= 0) {
		log_debug("pid %d sent descriptors that are not pages of divvy", (int)c->pid);
		conn_close(c);
	} else if (is_costly(job->packet, (size_t)job->result)) {
		take_request(c, job->packet, (size_t)job->result);
	} else {
		conn_close(c);
	}
}

/*
 * Receives the next packet without descriptors. Returns 0 at the end of the connection, -EAGAIN if
 * there is no packet, and -EINPROGRESS if the closer receives the packet. Peeks first, because this
 * thread must never receive descriptors.
 */
static ssize_t client_receive_packet(struct conn *c, char *packet, size_t size)
{
	struct iovec iov = {.iov_base = packet, .iov_len = size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n = recvmsg(c->fd, &msg, MSG_DONTWAIT | (c->is_clean ? 0 : MSG_PEEK));

	if (n < 0) {
		if (errno == EAGAIN && c->no_rights_ns)
			c->is_clean = clock_since_ns(loop_now_ns(c->agent->loop), c->no_rights_ns) >
				RIGHTS_SETTLE_NS;
		return errno == EINTR ? -EAGAIN : -errno;
	}
	if (msg.msg_flags & MSG_CTRUNC && !c->is_clean) {
		c->closing = CONN_CLOSERS;
		closer_receive(c->agent->closer, &c->user->closing, &c->job, c->fd, on_received);
		return -EINPROGRESS;
	}
	if (!c->is_clean)
		recv(c->fd, &(char){0}, 1, MSG_DONTWAIT);
	return msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EMSGSIZE : n;
}

static void on_conn(struct loop_io *io, uint32_t events)
{
	/* Static is safe: only the loop's thread runs on_conn(), and never recursively. */
	static _Alignas(8) char packet[MSG_MAX];
	struct conn *c = io->data;

	if (c->out.n && events & (EPOLLOUT | EPOLLHUP))
		client_flush_out(c);
	for (int i = 0; i < PACKETS_A_TURN && does_read(c) && (events & (EPOLLIN | EPOLLHUP));
		i++) {
		ssize_t n = client_receive_packet(c, packet, sizeof(packet));

		if (n == -EAGAIN || n == -EINPROGRESS)
			break;
		if (n <= 0)
			conn_close(c);
		else if (is_costly(packet, (size_t)n))
			take_request(c, packet, (size_t)n);
		else
			client_packet(c, packet, (uint32_t)n, NULL, 0);
		if (!c->is_dead && is_too_fast(c))
			break;
	}
	if (!c->is_dead && (events & EPOLLERR))
		conn_close(c);
	client_watch_socket(c);
}

/* ---- accepting ---- */

void client_refuse_rights(struct conn *c)
{
	if (!c->no_rights_ns && !c->agent->options.does_ignore_passrights &&
		socket_refuse_rights(c->fd) == 0)
		c->no_rights_ns = clock_now_ns();
}

/*
 * A program that has lost its connection, or that the former daemon served, hands its pages back
 * when it registers again. So a connection of such a program may pass descriptors.
 */
static bool may_pass_pages(const struct agent *agent, pid_t pid)
{
	const struct process *p;

	LIST_FOREACH(p, &agent->processes, link)
		if (p->pid == pid && !p->is_dead && !p->conn)
			return true;
	return false;
}

static struct user *client_find_user(
	struct agent *agent, enum user_kind kind, const struct ucred *cred, uint32_t tenant)
{
	char cgroup[CONF_CGROUP];

	if (kind == USER_TENANT)
		return user_join(agent->users, kind, tenant, NULL);
	if (kind == USER_UID)
		return user_join(agent->users, kind, cred->uid, NULL);
	if (conf_cgroup(cred->pid, cgroup, NULL) == 0 && cgroup[0])
		return user_join(agent->users, USER_CGROUP, 0, cgroup);
	return user_join(agent->users, USER_CONTAINER_UID, cred->uid, NULL);
}

static int check_room(const struct agent *agent, const struct conn *c)
{
	const struct user *u = c->user;

	if (!user_may_connect(agent->users, u) ||
		(u->kind == USER_TENANT && u->n_conns > TENANT_SOCKET_CONNS_MAX))
		return -EUSERS;
	if (!u->is_trusted &&
		(users_is_reserve(agent->users, c->fd) || users_is_reserve(agent->users, c->pidfd)))
		return -EMFILE;
	return 0;
}

static int enter_loop(struct conn *c)
{
	int r = loop_add_timer(c->agent->loop, &c->pause, client_on_pause_over);

	if (r < 0)
		return r;
	r = loop_add_io(c->agent->loop, &c->io, c->fd, EPOLLIN, on_conn);
	if (r < 0)
		loop_remove_timer(&c->pause);
	return r;
}

static struct conn *conn_new(struct agent *agent, int fd, enum user_kind kind, uint32_t tenant)
{
	struct ucred cred = {0};
	socklen_t n = sizeof(cred);
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n);
	c->user = client_find_user(agent, kind, &cred, tenant);
	if (!c->user) {
		free(c);
		return NULL;
	}
	c->agent = agent;
	c->fd = fd;
	c->is_program = kind != USER_UID;
	c->tenant = tenant;
	c->pid = cred.pid;
	c->uid = cred.uid;
	c->gid = cred.gid;
	c->abi = msg_newest();
	c->since_ns = clock_now_ns();
	c->out = BUF_INIT(CLIENT_OUT_MAX);
	c->io.data = c->pause.data = c->job.data = c;
	n = sizeof(c->pidfd);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &c->pidfd, &n) < 0)
		c->pidfd = -1;
	else
		fd_set_cloexec(c->pidfd, true);
	return c;
}

int client_accept(
	struct agent *agent, int fd, enum user_kind kind, uint32_t tenant, struct conn **ret_conn)
{
	struct conn *c = conn_new(agent, fd, kind, tenant);
	int r;

	if (!c) {
		/*
		 * If closer_shut() fails, the socket leaks: closing its queue may block this
		 * thread.
		 */
		if (closer_shut(fd))
			close(fd);
		return -ENOMEM;
	}
	LIST_INSERT_HEAD(&agent->conns, c, link);
	agent->n_conns++;
	agent_wake_tick(agent);
	r = check_room(agent, c);
	if (r >= 0)
		r = enter_loop(c);
	if (r < 0) {
		conn_close(c);
		return r;
	}
	if (!may_pass_pages(agent, c->pid))
		client_refuse_rights(c);
	if (ret_conn)
		*ret_conn = c;
	return 0;
}

void client_knock(struct listener *l, int fd)
{
	client_accept(l->data, fd, USER_UID, 0, NULL);
}

void client_knock_program(struct listener *l, int fd)
{
	client_accept(l->data, fd, USER_CGROUP, 0, NULL);
}

/* ---- start and end ---- */

int client_new(struct agent *agent, struct error *err)
{
	int r = users_new(&agent->users);

	if (r >= 0)
		r = closer_new(agent->loop, &agent->closer);
	agent->requests.data = agent;
	if (r >= 0)
		r = loop_add_timer(agent->loop, &agent->requests, on_requests);
	return r < 0 ? fail_errno(err, -r, "watch for connections") : 0;
}

void client_free(struct agent *agent)
{
	struct conn *c, *next;
	bool is_left = false;

	LIST_FOREACH(c, &agent->conns, link)
		conn_close(c);
	closer_leave(agent->closer);
	for (c = LIST_FIRST(&agent->conns); c; c = next) {
		next = LIST_NEXT(c, link);
		LIST_REMOVE(c, link);
		is_left |= !conn_free(c);
	}
	loop_remove_timer(&agent->requests);
	if (!is_left)
		users_free(agent->users);
}
