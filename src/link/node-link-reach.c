/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program side: node-link.h. First it asks the other side whether the container has a grant.
 * Then each process of the container connects here, and gets a child of this process. The child
 * joins the process with a worker on the device node. For this node's own devices the child becomes
 * the worker.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/listener.h"
#include "base/process.h"
#include "base/str.h"
#include "cuda/types.h"
#include "kubelet/cgroup.h"
#include "link/children.h"
#include "link/node-link.h"
#include "link/link.h"
#include "link/net.h"
#include "link/secure.h"
#include "link/stream.h"
#include "remote/worker-start.h"

#define LOOK_MS 1000

static void fill_hello(const struct node_link_target *t, enum node_link_request what,
	struct node_link_hello *ret_hello)
{
	*ret_hello = (struct node_link_hello){
		.magic = NODE_LINK_MAGIC, .abi = NODE_LINK_ABI, .what = (uint16_t)what};
	snprintf(ret_hello->space, sizeof(ret_hello->space), "%s", t->space);
	snprintf(ret_hello->pod, sizeof(ret_hello->pod), "%s", t->pod);
}

static int receive_reply(gnutls_session_t tls, const char *node, struct error *err)
{
	struct serve_reply reply;

	/* A server that rejects a certificate reports the rejection only in this answer. */
	if (stream_receive(stream_tls(tls, NODE_LINK_ANSWER_MS), &reply, sizeof(reply)) < 0)
		return fail(err, EAGAIN,
			"node %.100s refused the connection; see the log of its divvyd", node);
	reply.text[sizeof(reply.text) - 1] = '\0';
	str_blank_controls(reply.text, strlen(reply.text));
	if (reply.magic != SERVE_MAGIC)
		return fail(err, EPROTO,
			"node %.100s answered with another protocol; check the address and port "
			"of its divvyd",
			node);
	return reply.status < 0 ? fail(err, -reply.status, "node %.80s: %.160s", node, reply.text)
				: 0;
}

static const char *node_link_reach_explain(int failed)
{
	switch (failed) {
	case ECONNREFUSED: return "no program listens there";
	case ETIMEDOUT: return "no answer within 10 s";
	default: return strerror(failed);
	}
}

int node_link_connect(const struct node_link_target *t, struct identity_tls *tls,
	enum node_link_request what, struct identity_session *session, struct error *err)
{
	int fd = net_dial(t->host, t->port), r;
	struct node_link_hello hello;
	struct error refused;

	if (fd < 0)
		return fail(err, EAGAIN, "node %.80s at %.64s:%.8s: %s", t->node, t->host, t->port,
			node_link_reach_explain(-fd));
	r = secure_accept(tls, fd, t->node, session, &refused);
	if (r < 0)
		return fail(err, EAGAIN, "node %.80s at %.64s:%.8s: %.100s", t->node, t->host,
			t->port, refused.msg);
	fill_hello(t, what, &hello);
	if (gnutls_record_send(session->tls, &hello, sizeof(hello)) != sizeof(hello))
		return fail(err, EAGAIN, "node %.100s closed the connection", t->node);
	return receive_reply(session->tls, t->node, err);
}

static int check_there(
	const struct node_link_target *t, struct identity_tls *tls, struct error *err)
{
	static struct identity_session session;
	const int r = node_link_connect(t, tls, NODE_LINK_CHECK, &session, err);

	if (r >= 0)
		gnutls_bye(session.tls, GNUTLS_SHUT_WR);
	return r;
}

static int join_there(const struct node_link_target *t, struct identity_tls *tls,
	const struct link_program *program, struct error *err)
{
	static struct identity_session session;
	struct link_end end;
	const int r = node_link_connect(t, tls, NODE_LINK_PROCESS, &session, err);

	if (r >= 0 && link_open_program(session.tls, program, &end) >= 0)
		link_run(&end, REMOTE_LINK_SERVER);
	return r;
}

/* ---- devices of this node ---- */

static int ask_here(
	const struct node_link_target *t, struct serve_answer *ret_answer, struct error *err)
{
	struct serve_ask ask = {.magic = SERVE_MAGIC};

	if (str_copy(ask.uid, sizeof(ask.uid), str_from(t->uid)) < 0 ||
		str_copy(ask.container, sizeof(ask.container), str_from(t->container)) < 0 ||
		str_copy(ask.space, sizeof(ask.space), str_from(t->space)) < 0 ||
		str_copy(ask.pod, sizeof(ask.pod), str_from(t->pod)) < 0)
		return fail(err, ENAMETOOLONG, "a name is too long");
	return node_link_ask(&ask, ret_answer, err);
}

static int check_here(const struct node_link_target *t, struct identity_tls *tls, struct error *err)
{
	struct serve_answer answer;
	const int daemon = ask_here(t, &answer, err);

	fd_close(daemon);
	return daemon;
}

/*
 * Runs in a child, which keeps the connection to divvyd. When that connection ends, the child kills
 * the worker.
 */
static int join_here(const struct node_link_target *t, struct identity_tls *tls,
	const struct link_program *program, struct error *err)
{
	struct serve_answer answer;
	const int daemon = ask_here(t, &answer, err);
	struct pollfd end = {.fd = daemon, .events = POLLIN};
	pid_t parent, worker;
	int r;

	if (daemon < 0)
		return daemon;
	r = node_link_become(&answer, err);
	explicit_bzero(&answer, sizeof(answer));
	if (r < 0)
		return r;
	parent = getpid();
	worker = fork();
	if (worker == 0) {
		process_end_with(parent);
		worker_become(program->sock);
		_exit(1);
	}
	close(program->sock);
	/* No other process kills the worker when the grant ends. */
	while (worker > 0 && waitpid(worker, NULL, WNOHANG) == 0)
		if (poll(&end, 1, LOOK_MS / 10) > 0)
			kill(worker, SIGKILL);
	return 0;
}

/* ---- transports between a program and its worker ---- */

struct transport {
	/* Checks that the container has a grant. */
	int (*check)(const struct node_link_target *t, struct identity_tls *tls, struct error *err);
	/* Joins the program with a worker while both live; otherwise -errno. */
	int (*join)(const struct node_link_target *t, struct identity_tls *tls,
		const struct link_program *program, struct error *err);
};

static const struct transport over_memory = {check_here, join_here},
			      over_network = {check_there, join_there};

static const struct transport *transport_to(const struct node_link_target *t)
{
	return t->host[0] ? &over_network : &over_memory;
}

/* ---- processes of the program ---- */

/*
 * Only the pod mounts the socket's folder. The kernel must confirm that the process is in this pod.
 */
static bool node_link_reach_is_ours(const struct node_link_target *t, int sock)
{
	const char *root = strcmp(t->cgroup_root, "*") ? t->cgroup_root : NULL;
	struct cgroup_pod found;
	struct ucred peer;
	socklen_t n = sizeof(peer);
	int r;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
		return false;
	r = cgroup_read_pod(peer.pid, root, &found, NULL);
	/*
	 * -EXDEV: this process has a cgroup namespace of its own, which does not show every node's
	 * pods. Then the socket's folder alone identifies the pod.
	 */
	return r == -EXDEV || (r >= 0 && !strcmp(found.uid, t->uid));
}

static void node_link_reach_refuse_program(int sock, const char *text)
{
	struct remote_note note = {.type = REMOTE_REFUSED,
		.abi = REMOTE_ABI,
		.lane = CUDA_ERROR_NO_DEVICE,
		.link_role = REMOTE_LINK_SERVER};

	snprintf(note.text, sizeof(note.text), "%s", text);
	fd_send(sock, &note, sizeof(note), NULL, 0, MSG_NOSIGNAL);
}

static void node_link_reach_join_one(const struct node_link_target *t, struct identity_tls *tls,
	const struct link_program *program)
{
	struct error err = {0};
	const int r = transport_to(t)->join(t, tls, program, &err);

	if (r < 0) {
		fprintf(stderr, "divvy-remote-far: %s/%s: %s\n", t->space, t->pod, err.msg);
		node_link_reach_refuse_program(program->sock, err.msg);
	}
}

static void node_link_reach_join_next(struct listener_poll *listener,
	const struct node_link_target *t, struct identity_tls *tls, struct children *children)
{
	_cleanup_close_ int sock = listener_poll_accept(listener, 0);
	int at;

	if (sock >= 0 && node_link_reach_is_ours(t, sock) && children_fork(children, &at) == 0) {
		close(SERVE_FD_LISTEN);
		close(SERVE_FD_CONTROL);
		node_link_reach_join_one(
			t, tls, &(struct link_program){sock, &children->v[at].alive_ns});
		_exit(1);
	}
}

/* ---- start and end ---- */

/* Runs in a child, because only the child's end frees all memory of GnuTLS. */
static void check_and_tell(const struct node_link_target *t, struct identity_tls *tls)
{
	struct error err = {0};
	struct serve_reply reply;
	const int r = transport_to(t)->check(t, tls, &err);

	node_link_reply_init(&reply, r < 0 ? r : 0, r < 0 ? err.msg : "");
	send(SERVE_FD_CONTROL, &reply, sizeof(reply), MSG_NOSIGNAL);
}

int node_link_reach(struct identity_tls *tls, const struct node_link_target *t)
{
	struct listener_poll listener = {.fd = SERVE_FD_LISTEN};
	struct pollfd fds[] = {{.fd = SERVE_FD_CONTROL, .events = POLLIN}, {.events = POLLIN}};
	struct children *children = children_new();
	pid_t pid;

	if (!children)
		return -ENOMEM;
	/* All workers that this process starts belong to the one container. */
	workers_begin();
	pid = fork();
	if (pid == 0) {
		check_and_tell(t, tls);
		_exit(0);
	}
	while (!fds[0].revents) {
		fds[1].fd = listener_poll_fd(&listener);
		poll(fds, 2, LOOK_MS);
		if (fds[1].revents & POLLIN)
			node_link_reach_join_next(&listener, t, tls, children);
		children_watch(children, clock_now_ns(), SECURE_HANDSHAKE_MS, SECURE_PEER_MS);
		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			children_exited(children, pid);
	}
	return 0;
}
