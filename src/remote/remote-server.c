/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvy-remote-server LISTEN-FD FOLLOW-PID: accepts the processes of one tenant on a unix socket
 * and starts a worker for each. The tenant's secret is in this process's environment and never
 * reaches the program. Only connections of this process's uid and of root are accepted. Prints "ok"
 * on stdout when it has begun. Ends when the process that it follows and all workers have ended.
 * One thread.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/listener.h"
#include "base/parse.h"
#include "base/process.h"
#include "remote/host-access.h"
#include "remote/worker-start.h"

#define WORKERS_MAX 1024u
#define LOOK_MS 100

static bool server_is_allowed(int sock)
{
	struct ucred peer;
	socklen_t n = sizeof(peer);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
		return false;
	return peer.uid == geteuid() || peer.uid == 0;
}

static void accept_one(struct listener_poll *listener, unsigned *workers)
{
	_cleanup_close_ int sock = listener_poll_accept(listener, 0);
	const pid_t parent = getpid();
	pid_t pid;

	if (sock < 0 || !server_is_allowed(sock) || *workers >= WORKERS_MAX)
		return;
	pid = fork();
	if (pid == 0) {
		process_end_with(parent);
		worker_become(sock);
		_exit(1);
	}
	if (pid > 0)
		++*workers;
}

int main(int argc, char **argv)
{
	struct listener_poll knocks;
	uint64_t listener, follow;
	unsigned workers = 0;
	int pidfd;

	if (argc != 3 || parse_uint(str_from(argv[1]), 0, INT_MAX, &listener, NULL) < 0 ||
		parse_uint(str_from(argv[2]), 1, INT_MAX, &follow, NULL) < 0) {
		fprintf(stderr, "usage: divvy-remote-server LISTEN-FD FOLLOW-PID\n");
		return 2;
	}
	process_await_children();
	pidfd = pidfd_new((pid_t)follow);
	fd_set_cloexec((int)listener, true);
	knocks = (struct listener_poll){.fd = (int)listener};
	workers_begin();
	/* server_is_allowed(): the connecting user is the workers' own user. */
	setenv(HOST_ACCESS_ENV, HOST_ACCESS_OWN, 1);
	sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	/* The program that started the server waits for this line before it begins. */
	dprintf(STDOUT_FILENO, "ok\n");
	dup2(STDERR_FILENO, STDOUT_FILENO);
	while (pidfd >= 0 || workers) {
		struct pollfd fds[] = {{.fd = listener_poll_fd(&knocks), .events = POLLIN},
			{.fd = pidfd, .events = POLLIN}};

		poll(fds, 2, LOOK_MS);
		if (fds[0].revents & POLLIN)
			accept_one(&knocks, &workers);
		if (fds[1].revents)
			pidfd = fd_close(pidfd);
		while (workers && waitpid(-1, NULL, WNOHANG) > 0)
			workers--;
	}
	socket_unlink((int)listener);
	return 0;
}
