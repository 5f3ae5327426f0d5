/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a session over a network, on each side: link.h. The program's HELLO and the worker's
 * WELCOME go over the first connection. In the member `lane` of these notes, which program and
 * worker do not use, each link puts its version and the number of further connections that it
 * wants. The session gets the smaller of both numbers. The session begins when all connections
 * exist. One thread.
 */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/process.h"
#include "cuda/types.h"
#include "link/link.h"
#include "link/secure.h"
#include "link/stream.h"
#include "remote/worker-start.h"

#define COUNT_BITS 7
/*
 * In `lane`, the bit between the number of connections and the version stays 0: a link that sets
 * this bit offers an RDMA adapter (adr/0033).
 */
#define ABI_SHIFT (COUNT_BITS + 1)

static void link_open_send_setup(struct remote_note *note, unsigned connections)
{
	note->lane = LINK_ABI << ABI_SHIFT | connections;
}

/* Returns the number of further connections, or -EPROTO. */
static int link_open_read_setup(const struct remote_note *note, unsigned most)
{
	const uint32_t other = note->lane & ((1u << COUNT_BITS) - 1);

	if (note->lane >> ABI_SHIFT != LINK_ABI)
		return -EPROTO;
	return (int)(other < most ? other : most);
}

static void link_open_refuse(struct remote_note *note, const char *why)
{
	*note = (struct remote_note){.type = REMOTE_REFUSED,
		.abi = REMOTE_ABI,
		.lane = CUDA_ERROR_NO_DEVICE,
		.link_role = REMOTE_LINK_CLIENT};
	snprintf(note->text, sizeof(note->text), "%s", why);
}

static const char other_version[] =
	"divvy has another version on the remote machine; install the same version on both";

/* ---- device side ---- */

/*
 * Sends heartbeats while the driver starts, so that the peer does not take this link for silent.
 */
static int await_worker(const struct link_end *end)
{
	static const struct remote_note beat = {.type = REMOTE_BEAT, .abi = REMOTE_ABI};
	struct pollfd p = {.fd = end->sock, .events = POLLIN};

	while (poll(&p, 1, SECURE_BEAT_MS) <= 0)
		if (stream_send(end->stream[0], &beat, sizeof(beat)) < 0)
			return -EPIPE;
	return 0;
}

static int start_worker(struct remote_note *note, struct link_end *end)
{
	_cleanup_fd_list_ struct fd_list fds = {.n = 0};
	const pid_t parent = getpid();
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -EPIPE;
	if (fork() == 0) {
		process_end_with(parent);
		worker_become(pair[1]);
		_exit(1);
	}
	close(pair[1]);
	end->sock = pair[0];
	note->link_role = REMOTE_LINK_CLIENT;
	if (fd_send(pair[0], note, sizeof(*note), NULL, 0, MSG_NOSIGNAL) < 0 ||
		await_worker(end) < 0 ||
		fd_recv(pair[0], note, sizeof(*note), &fds, 0) != sizeof(*note))
		return -EPIPE;
	if (note->type == REMOTE_WELCOME &&
		(fds.n != 1 ||
			map_fd(fds.fd[0], REMOTE_BYTES, PROT_READ | PROT_WRITE, &end->map) < 0))
		return -EPIPE;
	return 0;
}

static int accept_further(
	gnutls_session_t first, const struct link_place *at, unsigned wanted, struct link_end *end)
{
	gnutls_session_t tls;
	int r = 0;

	while (r == 0 && end->n < 1 + wanted) {
		r = bulk_accept(first, at->own, &tls);
		if (r == 0)
			end->stream[end->n++] = stream_tls(tls, SECURE_SILENT_MS);
	}
	return r;
}

int link_open_worker(
	struct gnutls_session_int *tls, const struct link_place *at, struct link_end *ret_end)
{
	struct link_end end = {
		.stream = {stream_tls(tls, SECURE_SILENT_MS)}, .n = 1, .map = MAP_NONE};
	struct remote_note note;
	struct bulk_name name;
	int further, r;

	if (stream_receive(end.stream[0], &note, sizeof(note)) < 0)
		return -EPIPE;
	/* A session for NVML only has no bulk data. */
	further = link_open_read_setup(&note, note.type == REMOTE_HELLO_NVML ? 0 : bulk_n_wanted());
	if (further < 0) {
		link_open_refuse(&note, other_version);
		stream_send(end.stream[0], &note, sizeof(note));
		return further;
	}
	r = start_worker(&note, &end);
	if (r < 0)
		return r;
	if (bulk_name(tls, &name) < 0)
		return -EIO;
	handover_name(at->handover, at->place, &name);
	if (note.type == REMOTE_WELCOME)
		link_open_send_setup(&note, (unsigned)further);
	if (stream_send(end.stream[0], &note, sizeof(note)) < 0 || note.type != REMOTE_WELCOME)
		return -EPIPE;
	end.alive_ns = &at->handover->children->v[at->place].alive_ns;
	r = accept_further(tls, at, (unsigned)further, &end);
	handover_shut(at->handover, at->place, at->own);
	if (r == 0)
		*ret_end = end;
	return r;
}

/* ---- program side ---- */

/*
 * Makes as many further connections as the WELCOME says, at most BULK_MAX. On failure, turns the
 * WELCOME into a refusal.
 */
static void reach_further(gnutls_session_t first, struct remote_note *note, struct link_end *end)
{
	const int wanted = link_open_read_setup(note, BULK_MAX);
	gnutls_session_t tls;

	if (wanted < 0) {
		link_open_refuse(note, other_version);
		return;
	}
	while (end->n <= (unsigned)wanted) {
		if (bulk_reach(first, &tls) < 0) {
			link_open_refuse(note, "the remote machine accepts no further connections");
			return;
		}
		end->stream[end->n++] = stream_tls(tls, SECURE_SILENT_MS);
	}
}

int link_open_program(struct gnutls_session_int *tls, const struct link_program *program,
	struct link_end *ret_end)
{
	struct link_end end = {.stream = {stream_tls(tls, SECURE_SILENT_MS)},
		.n = 1,
		.map = MAP_NONE,
		.sock = program->sock,
		.alive_ns = program->alive_ns};
	struct remote_note note;
	int memory = -1;

	if (fd_recv(end.sock, &note, sizeof(note), NULL, 0) != sizeof(note))
		return -EPIPE;
	link_open_send_setup(&note, note.type == REMOTE_HELLO_NVML ? 0 : bulk_n_wanted());
	if (stream_send(end.stream[0], &note, sizeof(note)) < 0)
		return -EPIPE;
	do {
		if (stream_receive(end.stream[0], &note, sizeof(note)) < 0)
			return -EPIPE;
	} while (note.type == REMOTE_BEAT);
	if (note.type == REMOTE_WELCOME)
		reach_further(tls, &note, &end);
	if (note.type == REMOTE_WELCOME && session_new(REMOTE_LINK_SERVER, &end.map, &memory) < 0)
		return -ENOMEM;
	if (note.type == REMOTE_WELCOME)
		note.lane = 0;
	if (fd_send(end.sock, &note, sizeof(note), &memory, memory >= 0, MSG_NOSIGNAL) < 0 ||
		memory < 0)
		return -EPIPE;
	close(memory);
	*ret_end = end;
	return 0;
}

/* ---- both ---- */

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
