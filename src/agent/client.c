/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections: sockets, packets, limits. What a packet of a hook means is in register.c (HELLO) and
 * here (the rest); what a control request means is in control.c.
 */
#include "agent/client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/control.h"
#include "agent/device.h"
#include "agent/memory.h"
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

void conn_close(struct conn *c)
{
	if (c->is_dead)
		return;
	c->is_dead = true;
	c->agent->has_dead = true;
	c->agent->n_conns--;
	control_conn_gone(c);
	if (c->process)
		c->process->conn = NULL;
	c->process = NULL;
	loop_remove_io(&c->io);
	loop_remove_timer(&c->pause);
	c->fd = fd_close(c->fd);
	c->pidfd = fd_close(c->pidfd);
}

void conn_free(struct conn *c)
{
	if (!c)
		return;
	buf_done(&c->out);
	free(c->deferred);
	free(c);
}

/* ---- sending ---- */

static void flush_out(struct conn *c)
{
	while (c->out.n >= sizeof(uint32_t)) {
		uint32_t size;

		memcpy(&size, c->out.p, sizeof(size));
		if (send(c->fd, c->out.p + sizeof(size), size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
			if (errno == EAGAIN || errno == EINTR)
				return;
			conn_close(c);
			return;
		}
		buf_consume(&c->out, sizeof(size) + size);
	}
	loop_mod_io(&c->io, c->io.events & ~(uint32_t)EPOLLOUT);
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
	}
	/*
	 * A frozen program does not read; notes to it are hints, and it shall not fill our
	 * memory.
	 */
	if (c->process && c->out.n > HOOK_OUT_MAX)
		return;
	if (buf_add(&c->out, (struct str){(const char *)&size, sizeof(size)}) < 0 ||
		buf_add(&c->out, (struct str){packet, size}) < 0) {
		conn_close(c);
		return;
	}
	loop_mod_io(&c->io, c->io.events | EPOLLOUT);
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

void client_say(struct conn *c, uint32_t device, const char *fmt, ...)
{
	struct msg_say say = {.device = device};
	va_list ap;

	if (!c || !msg_is_in(MSG_SAY, c->abi))
		return;
	va_start(ap, fmt);
	vsnprintf(say.text, sizeof(say.text), fmt, ap);
	va_end(ap);
	msg_head_init(&say.head, MSG_SAY, sizeof(say), 0);
	client_send(c, &say, sizeof(say));
}

/* ---- receiving ---- */

/* A hook names a device by the daemon's index: which of its tenant's is that? */
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

	/* `device` stands at the same place in all of them. */
	if (!p || p->is_dead || !find_device(p, note->device, &at))
		return;
	switch (head->type) {
	case MSG_WANT: token_want(p, at); break;
	case MSG_RELEASE: token_release(p, at); break;
	case MSG_YIELD: token_yield(p, at); break;
	case MSG_MEM_RESERVE: memory_reserve(p, at, head->request, memory->bytes); break;
	case MSG_MEM_RELEASE: memory_release(p, at, memory->bytes); break;
	case MSG_MEASURE: memory_measure(p, at, head->request); break;
	default: break;
	}
}

void client_packet(struct conn *c, const void *packet, uint32_t size, const int *fds, size_t n_fds)
{
	struct msg_head head;
	struct error err;

	/* One that is newer may speak ours as well; who is older at least reads why not. */
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
	loop_mod_io(&c->io, c->io.events & ~(uint32_t)EPOLLIN);
	loop_set_timer(&c->pause, c->rate_ns - RATE_BURST_NS / 2);
	return true;
}

static void on_pause_over(struct loop_timer *timer, uint64_t now)
{
	struct conn *c = timer->data;

	loop_mod_io(&c->io, c->io.events | EPOLLIN);
}

static void on_conn(struct loop_io *io, uint32_t events)
{
	/* One thread, and nothing below comes back here. */
	static _Alignas(8) char packet[MSG_MAX];
	struct conn *c = io->data;

	if (events & EPOLLOUT)
		flush_out(c);
	for (int i = 0; i < PACKETS_A_TURN && !c->is_dead && (events & (EPOLLIN | EPOLLHUP)); i++) {
		_cleanup_fd_list_ struct fd_list fds = {.n = 0};
		ssize_t got = fd_recv(c->fd, packet, sizeof(packet), &fds, MSG_DONTWAIT);

		if (got > 0)
			client_packet(c, packet, (uint32_t)got, fds.fd, fds.n);
		if (got == -EAGAIN)
			break;
		if (got <= 0) {
			conn_close(c);
			break;
		}
		if (!c->is_dead && is_too_fast(c))
			break;
	}
	if (!c->is_dead && (events & EPOLLERR))
		conn_close(c);
}

/* By doors their tenants are counted: the users of pods are one another's by name only. */
static bool has_room_for(struct agent *agent, uid_t uid)
{
	uint32_t n = 0;
	struct conn *c;

	if (uid == 0)
		return true;
	LIST_FOREACH(c, &agent->conns, link)
		n += c->uid == uid && !c->tenant;
	return n < CLIENT_CONNS_PER_USER;
}

int client_accept(struct agent *agent, int fd, uint32_t tenant, struct conn **ret_conn)
{
	struct ucred cred = {0};
	socklen_t n = sizeof(cred);
	struct conn *c;
	int r;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
		return -errno;
	if (!tenant && !has_room_for(agent, cred.uid))
		return -EUSERS;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	*c = (struct conn){
		.agent = agent,
		.fd = fd,
		.is_program = tenant != 0,
		.tenant = tenant,
		.pid = cred.pid,
		.uid = cred.uid,
		.gid = cred.gid,
		.pidfd = -1,
		.abi = msg_newest(),
		.since_ns = clock_now_ns(),
		.out = BUF_INIT(CLIENT_OUT_MAX),
	};
	n = sizeof(c->pidfd);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &c->pidfd, &n) < 0)
		c->pidfd = -1;
	else
		fd_set_cloexec(c->pidfd, true);
	c->io.data = c;
	c->pause.data = c;
	r = loop_add_timer(agent->loop, &c->pause, on_pause_over);
	if (r >= 0)
		r = loop_add_io(agent->loop, &c->io, fd, EPOLLIN, on_conn);
	if (r < 0) {
		loop_remove_timer(&c->pause);
		fd_close(c->pidfd);
		free(c);
		return r;
	}
	LIST_INSERT_HEAD(&agent->conns, c, link);
	agent->n_conns++;
	agent_wake_tick(agent);
	if (ret_conn)
		*ret_conn = c;
	return 0;
}

void client_listen(struct loop_io *io, uint32_t events)
{
	struct agent *agent = io->data;
	const bool is_program = io == &agent->programs_io;
	const int from = is_program ? agent->programs_fd : agent->listen_fd;

	for (int i = 0; i < 64; i++) {
		int fd = accept4(from, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct conn *c;

		if (fd < 0)
			break; /* also without descriptors: they stay in the queue */
		if (client_accept(agent, fd, 0, &c) < 0)
			close(fd);
		else
			c->is_program = is_program;
	}
}
