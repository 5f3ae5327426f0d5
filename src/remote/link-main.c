/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvy-remote-link serve LISTEN-FD             the side of the device
 * divvy-remote-link join LISTEN-FD FOLLOW-PID   the side of the program
 *
 * Both prove to each other by TLS 1.3 with a pre-shared key that they know the invitation in
 * $DIVVY_INVITATION, "HOST:PORT/KEY". It is good once: who joins first is given another key over
 * that connection, which then is the only one that counts, and ends with it. Each process of the
 * program has a connection of its own, served by a child. Nothing is listened to, or said, without
 * that proof.
 */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/process.h"
#include "remote/link.h"

#define KEY_BYTES 32u
#define HANDSHAKE_MS 10000
#define PEER_MS 10000 /* a peer that does not answer for so long is gone */
#define CHILDREN_MAX 1024u
#define LOOK_MS 100
#define IDENTITY "divvy"
/*
 * A pre-shared key goes with SHA-256, which leaves AES-128 and ChaCha20; by itself GnuTLS takes the
 * latter, at a fifth of the speed of the former where the processor has instructions for it.
 */
#define PRIORITY \
	"NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+CHACHA20-POLY1305:" \
	"-KX-ALL:+ECDHE-PSK:+DHE-PSK"

static uint8_t key[KEY_BYTES]; /* that counts now */
static char host[256], port[16];

static int read_invitation(void)
{
	char *text = getenv("DIVVY_INVITATION");
	char hex[2 * KEY_BYTES + 1];
	int r = !text || sscanf(text, "%255[^:/]:%15[0-9]/%64[0-9a-f]", host, port, hex) != 3 ||
			strlen(hex) != 2 * KEY_BYTES ||
			parse_hex(str_from(hex), key, sizeof(key), NULL) < 0
		? -EINVAL
		: 0;

	/* It shall not be found in our environment, by /proc neither. */
	if (text)
		explicit_bzero(text, strlen(text));
	unsetenv("DIVVY_INVITATION");
	return r;
}

/* ---- TLS ---- */

static int server_key(gnutls_session_t session, const char *name, gnutls_datum_t *ret_key)
{
	ret_key->data = gnutls_malloc(sizeof(key));
	if (!ret_key->data)
		return -1;
	memcpy(ret_key->data, key, sizeof(key));
	ret_key->size = sizeof(key);
	return 0;
}

static void set_socket(int fd)
{
	const int one = 1, idle = 5, every = 2, tries = 3, most = PEER_MS;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most, sizeof(most));
}

/* What both sides prove with. Of the process, as its one session is. */
static int set_credentials(gnutls_session_t tls, bool is_server)
{
	static gnutls_psk_server_credentials_t server;
	static gnutls_psk_client_credentials_t client;
	const gnutls_datum_t own = {key, sizeof(key)};
	int r = 0;

	if (is_server) {
		if (!server)
			r = gnutls_psk_allocate_server_credentials(&server);
		if (r < 0)
			return r;
		gnutls_psk_set_server_credentials_function(server, server_key);
		return gnutls_credentials_set(tls, GNUTLS_CRD_PSK, server);
	}
	if (!client)
		r = gnutls_psk_allocate_client_credentials(&client);
	if (r >= 0)
		r = gnutls_psk_set_client_credentials(client, IDENTITY, &own, GNUTLS_PSK_KEY_RAW);
	return r < 0 ? r : gnutls_credentials_set(tls, GNUTLS_CRD_PSK, client);
}

/* Authenticated, or -errno. */
static int handshake(int fd, bool is_server, gnutls_session_t *ret_tls)
{
	gnutls_session_t tls;
	int r;

	set_socket(fd);
	if (gnutls_init(&tls, is_server ? GNUTLS_SERVER : GNUTLS_CLIENT) < 0)
		return -ENOMEM;
	r = gnutls_priority_set_direct(tls, PRIORITY, NULL);
	if (r >= 0)
		r = set_credentials(tls, is_server);
	if (r >= 0) {
		gnutls_transport_set_int(tls, fd);
		gnutls_handshake_set_timeout(tls, HANDSHAKE_MS);
		do {
			r = gnutls_handshake(tls);
		} while (r < 0 && !gnutls_error_is_fatal(r));
	}
	/* A server that would let somebody in without the key is none. */
	if (r < 0 || gnutls_auth_get_type(tls) != GNUTLS_CRD_PSK) {
		gnutls_deinit(tls);
		return -EACCES;
	}
	*ret_tls = tls;
	return 0;
}

static int dial(void)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all = NULL;
	int fd = -1;

	if (getaddrinfo(host, port, &hints, &all) != 0)
		return -EHOSTUNREACH;
	for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
			const int failed = errno;

			fd = fd_close(fd);
			errno = failed;
		}
	}
	freeaddrinfo(all);
	return fd < 0 ? -errno : fd;
}

/* ---- one process of the program ---- */

static void serve_one(int fd)
{
	struct remote_note note;
	struct fd_list fds = {.n = 0};
	struct map map = MAP_NONE;
	gnutls_session_t tls;
	int pair[2];

	if (handshake(fd, true, &tls) < 0 || link_receive_note(tls, &note) < 0 ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return;
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
		map_fd(fds.fd[0], REMOTE_BYTES, PROT_READ | PROT_WRITE, &map) < 0)
		return;
	link_run(tls, map.p, REMOTE_HUB_CLIENT, pair[0]);
}

static void join_one(int sock)
{
	struct remote_note note;
	struct map map = MAP_NONE;
	gnutls_session_t tls;
	int fd = dial(), memory = -1;

	if (fd < 0 || handshake(fd, false, &tls) < 0 ||
		fd_recv(sock, &note, sizeof(note), NULL, 0) != sizeof(note) ||
		link_send_note(tls, &note) < 0 || link_receive_note(tls, &note) < 0)
		return;
	if (note.type == REMOTE_WELCOME && session_new(REMOTE_HUB_SERVER, &map, &memory) < 0)
		return;
	if (fd_send(sock, &note, sizeof(note), &memory, memory >= 0, MSG_NOSIGNAL) < 0 ||
		memory < 0)
		return;
	close(memory);
	link_run(tls, map.p, REMOTE_HUB_SERVER, sock);
}

/* ---- the invitation ---- */

/* The first who knows it; whoever does not is sent away, and the next one may try. */
static int await_join(int listener, gnutls_session_t *ret_tls)
{
	for (;;) {
		uint8_t next[KEY_BYTES];
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 && errno != EINTR && errno != ECONNABORTED)
			return -errno;
		if (fd < 0 || handshake(fd, true, ret_tls) < 0) {
			fd_close(fd);
			continue;
		}
		if (getrandom(next, sizeof(next), 0) != sizeof(next) ||
			gnutls_record_send(*ret_tls, next, sizeof(next)) != sizeof(next))
			return -EPIPE;
		memcpy(key, next, sizeof(key));
		return fd;
	}
}

static int join(gnutls_session_t *ret_tls)
{
	int fd = dial(), r;

	r = fd < 0 ? fd : handshake(fd, false, ret_tls);
	if (r < 0)
		return r;
	if (gnutls_record_recv(*ret_tls, key, sizeof(key)) != sizeof(key))
		return -EACCES;
	return fd;
}

/* ---- accepting ---- */

static bool is_own(int sock)
{
	struct ucred peer;
	socklen_t n = sizeof(peer);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
		(peer.uid == geteuid() || peer.uid == 0);
}

/* Until `over` says so (a pidfd that is readable, a connection that has ended) and all is done. */
static void accept_all(int listener, int over, bool is_server)
{
	unsigned children = 0;
	bool is_over = false;

	while (!is_over || (children && !is_server)) {
		struct pollfd fds[] = {{.fd = listener, .events = POLLIN},
			{.fd = is_over ? -1 : over, .events = POLLIN | POLLRDHUP}};

		poll(fds, 2, LOOK_MS);
		is_over |= fds[1].revents != 0;
		if (fds[0].revents & POLLIN) {
			_cleanup_close_ int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

			if (fd >= 0 && children < CHILDREN_MAX && (is_server || is_own(fd))) {
				const pid_t pid = fork();

				if (pid == 0) {
					prctl(PR_SET_PDEATHSIG, SIGKILL);
					is_server ? serve_one(fd) : join_one(fd);
					_exit(1);
				}
				children += pid > 0;
			}
		}
		while (children && waitpid(-1, NULL, WNOHANG) > 0)
			children--;
	}
}

int main(int argc, char **argv)
{
	const bool is_server = argc == 3 && strcmp(argv[1], "serve") == 0;
	const bool is_client = argc == 4 && strcmp(argv[1], "join") == 0;
	uint64_t listener = 0, follow = 0;
	gnutls_session_t tls;
	int r, pidfd;

	if ((!is_server && !is_client) ||
		parse_uint(str_from(argv[2]), 0, INT_MAX, &listener, NULL) < 0 ||
		(is_client && parse_uint(str_from(argv[3]), 1, INT_MAX, &follow, NULL) < 0)) {
		fprintf(stderr, "usage: divvy-remote-link serve LISTEN-FD | join LISTEN-FD PID\n");
		return 2;
	}
	r = read_invitation();
	fd_set_cloexec((int)listener, true);
	if (is_server)
		workers_begin();
	sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	if (r == 0)
		r = is_server ? await_join((int)listener, &tls) : join(&tls);
	if (is_client) {
		/* Who has started us waits for this word before the program begins. */
		dprintf(STDOUT_FILENO, "%s\n", r >= 0 ? "ok" : strerror(-r));
		close(STDOUT_FILENO);
	}
	if (r < 0)
		return 1;
	pidfd = is_server ? r : pidfd_new((pid_t)follow);
	accept_all((int)listener, pidfd, is_server);
	if (is_client)
		socket_unlink((int)listener);
	/* Not through destructors: what TLS holds goes with the process. */
	_exit(0);
}
