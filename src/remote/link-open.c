/* SPDX-License-Identifier: Apache-2.0 */
/* How a session over a network begins, on each side: link.h. One thread. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "remote/link.h"

int link_open_worker(struct gnutls_session_int *tls, struct map *ret_map, int *ret_sock)
{
	struct remote_note note;
	struct fd_list fds = {.n = 0};
	int pair[2];

	if (link_receive_note(tls, &note) < 0 ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -EPIPE;
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		worker_become(pair[1]);
		_exit(1);
	}
	close(pair[1]);
	note.hub = REMOTE_HUB_CLIENT;
	if (fd_send(pair[0], &note, sizeof(note), NULL, 0, MSG_NOSIGNAL) < 0 ||
		fd_recv(pair[0], &note, sizeof(note), &fds, 0) != sizeof(note) ||
		link_send_note(tls, &note) < 0 || note.type != REMOTE_WELCOME || fds.n != 1 ||
		map_fd(fds.fd[0], REMOTE_BYTES, PROT_READ | PROT_WRITE, ret_map) < 0)
		return -EPIPE;
	*ret_sock = pair[0];
	return 0;
}

int link_open_program(struct gnutls_session_int *tls, int sock, struct map *ret_map)
{
	struct remote_note note;
	int memory = -1;

	if (fd_recv(sock, &note, sizeof(note), NULL, 0) != sizeof(note) ||
		link_send_note(tls, &note) < 0 || link_receive_note(tls, &note) < 0)
		return -EPIPE;
	if (note.type == REMOTE_WELCOME && session_new(REMOTE_HUB_SERVER, ret_map, &memory) < 0)
		return -ENOMEM;
	if (fd_send(sock, &note, sizeof(note), &memory, memory >= 0, MSG_NOSIGNAL) < 0 ||
		memory < 0)
		return -EPIPE;
	close(memory);
	return 0;
}

void link_count(const struct remote_session *session, int fd, struct link_counts *ret_counts)
{
	struct link_counts counts = {0};
	struct tcp_info info;
	socklen_t n = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0)
		counts.rtt_us = info.tcpi_rtt ? info.tcpi_rtt : 1;
	for (unsigned i = 0; i < REMOTE_LANES; i++) {
		counts.up += atomic_load_explicit(&session->lane[i].up.tail, memory_order_relaxed);
		counts.down += atomic_load_explicit(
			&session->lane[i].down.tail, memory_order_relaxed);
	}
	*ret_counts = counts;
}
