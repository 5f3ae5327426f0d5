/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device side: node-link.h. Each connection has a process of its own, and SECURE_HANDSHAKE_MS
 * to prove its identity. The process then asks divvyd for the container's grant, and starts a
 * worker under a user id of that container only. The process and the worker end with the connection
 * to divvyd.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/listener.h"
#include "base/str.h"
#include "link/children.h"
#include "link/node-link.h"
#include "link/link.h"
#include "link/secure.h"
#include "link/stream.h"
#include "remote/worker-start.h"

#define LOOK_MS 1000

static struct children *children; /* shared with the children */
static struct handover handover;

/* ---- a process of a program ---- */

struct watch {
	int daemon, network;
	const struct remote_session *session;
};

/* Ends this process, and the worker with it, when the grant ends. */
static void *node_link_serve_watch_main(void *argument)
{
	const struct watch *w = argument;

	for (;;) {
		struct pollfd p = {.fd = w->daemon, .events = POLLIN};
		struct serve_numbers numbers = {.magic = SERVE_MAGIC};
		struct link_counts counts;

		if (poll(&p, 1, LOOK_MS) > 0)
			_exit(0);
		link_count(w->session, w->network, &counts);
		numbers.rtt_us = counts.rtt_us;
		numbers.received = counts.up;
		numbers.sent = counts.down;
		send(w->daemon, &numbers, sizeof(numbers), MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	return NULL;
}

static void node_link_serve_serve_process(
	gnutls_session_t tls, int network, int daemon, const struct link_place *at)
{
	static struct watch watch;
	struct link_end end;
	pthread_t thread;

	/*
	 * Starts a store of its own, because a tenant must not see or change another tenant's
	 * images.
	 */
	workers_begin();
	if (link_open_worker(tls, at, &end) < 0)
		return;
	watch = (struct watch){daemon, network, end.map.p};
	if (pthread_create(&thread, NULL, node_link_serve_watch_main, &watch))
		return;
	link_run(&end, REMOTE_LINK_CLIENT);
}

static int node_link_serve_check_hello(const struct node_link_hello *hello, struct error *err)
{
	if (hello->magic == NODE_LINK_MAGIC && hello->abi == NODE_LINK_ABI)
		return 0;
	return fail(err, EPROTO,
		"the program's node has version %u of the link protocol and this node %u; "
		"install one version of divvyd",
		hello->abi, NODE_LINK_ABI);
}

/* Returns the connection to divvyd. From then on this process runs as the tenant's user. */
static int node_link_serve_admit(const struct identity_name *peer,
	const struct node_link_hello *hello, int network, struct error *err)
{
	struct serve_ask ask = {.magic = SERVE_MAGIC};
	struct serve_answer answer;
	char address[ADDRESS_NUMERIC];
	int fd, r = node_link_serve_check_hello(hello, err);

	if (r < 0)
		return r;
	if (peer->kind != IDENTITY_OF_TENANT)
		return fail(err, EACCES,
			"the certificate belongs to a node; expected one of a container");
	if (strnlen(hello->space, sizeof(hello->space)) == sizeof(hello->space) ||
		strnlen(hello->pod, sizeof(hello->pod)) == sizeof(hello->pod))
		return fail(err, EPROTO, "a name in the request has no NUL");
	memcpy(ask.uid, peer->uid, sizeof(ask.uid));
	memcpy(ask.container, peer->container, sizeof(ask.container));
	memcpy(ask.space, hello->space, sizeof(ask.space));
	memcpy(ask.pod, hello->pod, sizeof(ask.pod));
	address_peer(network, address, sizeof(address));
	address[strcspn(address, "%")] = '\0'; /* a scope is meaningless on other nodes */
	str_copy(ask.peer, sizeof(ask.peer), str_from(address));
	fd = node_link_ask(&ask, &answer, err);
	if (fd < 0)
		return fd;
	r = node_link_become(&answer, err);
	explicit_bzero(&answer, sizeof(answer));
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

/* Serves a probe. Only nodes may measure the network. */
static void serve_probe(
	gnutls_session_t tls, const struct identity_name *peer, const struct node_link_hello *hello)
{
	struct serve_reply reply;
	struct error err = {0};
	int r = node_link_serve_check_hello(hello, &err);

	if (r == 0 && peer->kind != IDENTITY_OF_NODE)
		r = fail(&err, EACCES,
			"the certificate belongs to a container; expected one of a node");
	node_link_reply_init(&reply, r, r < 0 ? err.msg : "");
	if (gnutls_record_send(tls, &reply, sizeof(reply)) == sizeof(reply) && r == 0)
		node_link_probe_serve(tls);
}

static void node_link_serve_serve_one(int fd, struct identity_tls *tls, const struct link_place *at)
{
	static struct identity_session session;
	struct node_link_hello hello;
	struct serve_reply reply;
	struct bulk_name name;
	struct error err = {0};
	int daemon, r;

	r = bulk_look(fd, &name);
	if (r > 0)
		handover_submit(&handover, &name, fd);
	if (r != 0)
		return;
	if (secure_accept(tls, fd, NULL, &session, &err) < 0) {
		/* A connection without a certificate is not worth a log line. */
		if (session.why.code)
			fprintf(stderr, "divvy-remote-far: refused a connection: %s\n", err.msg);
		return;
	}
	children_known(children, at->place);
	if (stream_receive(stream_tls(session.tls, SECURE_SILENT_MS), &hello, sizeof(hello)) < 0)
		return;
	if (hello.what == NODE_LINK_PROBE) {
		serve_probe(session.tls, &session.peer, &hello);
		gnutls_bye(session.tls, GNUTLS_SHUT_WR);
		return;
	}
	daemon = node_link_serve_admit(&session.peer, &hello, fd, &err);
	node_link_reply_init(&reply, daemon < 0 ? daemon : 0, daemon < 0 ? err.msg : "");
	if (gnutls_record_send(session.tls, &reply, sizeof(reply)) == sizeof(reply) &&
		daemon >= 0 && hello.what == NODE_LINK_PROCESS)
		node_link_serve_serve_process(session.tls, fd, daemon, at);
	gnutls_bye(session.tls, GNUTLS_SHUT_WR);
}

/* ---- accepting ---- */

static void node_link_serve_serve_next(struct listener_poll *listener, struct identity_tls *tls)
{
	_cleanup_close_ int fd = listener_poll_accept(listener, 0);
	const int at = fd < 0 ? -1 : children_take(children, clock_now_ns());
	_cleanup_close_ int own = at < 0 ? -1 : handover_open(&handover, at);
	pid_t pid;

	if (own < 0)
		return;
	pid = fork();
	if (pid == 0) {
		close(SERVE_FD_LISTEN);
		close(SERVE_FD_CONTROL);
		handover_in_child(&handover);
		node_link_serve_serve_one(fd, tls, &(struct link_place){&handover, at, own});
		_exit(1);
	}
	children_set(children, at, pid);
}

int node_link_serve(struct identity_tls *tls)
{
	struct listener_poll listener = {.fd = SERVE_FD_LISTEN};
	int r;

	children = children_new();
	if (!children)
		return -ENOMEM;
	r = handover_init(&handover, children);
	if (r < 0)
		return r;
	for (;;) {
		struct pollfd fds[] = {{.fd = listener_poll_fd(&listener), .events = POLLIN},
			{.fd = SERVE_FD_CONTROL, .events = POLLIN},
			{.fd = handover.in, .events = POLLIN}};

		poll(fds, 3, LOOK_MS);
		if (fds[1].revents)
			return 0;
		if (fds[2].revents)
			handover_pass(&handover);
		if (fds[0].revents & POLLIN)
			node_link_serve_serve_next(&listener, tls);
		children_watch(children, clock_now_ns(), SECURE_HANDSHAKE_MS, SECURE_PEER_MS);
		for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;)
			handover_close(&handover, children_exited(children, pid));
	}
}
