/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   divvy-remote-link serve LISTEN-FD DEVICES [FILE]       the device side
 *   divvy-remote-link join LISTEN-FD FOLLOW-PID [DEVICE]   the program side
 *
 * Both sides prove by TLS 1.3 with a pre-shared key that they know the invitation in
 * $DIVVY_INVITATION, "HOST:PORT/KEY". The device side prints the invitation on stdout, or writes it
 * to a new FILE, which it removes at its end. An invitation is valid once. The first program side
 * that joins gets another key over its connection, unless it asks for a device that is not in
 * DEVICES. From then on only this other key is valid, and it expires when that connection ends.
 *
 * Each process of the program has a connection of its own. A peer without the proof gets no answer.
 * The device side forks a child for each connection at once, so a silent peer cannot block other
 * peers. The number of children with unauthenticated peers is bounded.
 */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/listener.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/process.h"
#include "link/children.h"
#include "link/link.h"
#include "link/net.h"
#include "link/link-report.h"
#include "link/secure.h"
#include "link/stream.h"
#include "remote/worker-start.h"

#define KEY_BYTES SECURE_KEY_BYTES
#define LOOK_MS 100
#define COUNT_MS 500
#define LAST_MS 500
/* Messages of a join: the program side sends the first, and the device side answers. */
#define JOIN_ABI 1u
#define JOIN_ANY 0xffu
struct join_ask {
	uint8_t abi;    /* JOIN_ABI */
	uint8_t device; /* number of the wanted device, from 0; or JOIN_ANY */
};
struct join_answer {
	uint8_t abi;
	uint8_t devices; /* number of granted devices */
	uint8_t is_taken;
	uint8_t key[KEY_BYTES]; /* key for the program's processes; zero unless is_taken */
};
/* TLS identifies a key by the name of its purpose. */
enum key_use { KEY_JOIN, KEY_PROCESS, KEY_USES };
static const char *const key_names[KEY_USES] = {"join", "process"};

/*
 * Shared memory of the device side and its children; each child has a slot at its place. The parent
 * writes `counted`, and a child writes the rest of its slot. One child takes the invitation.
 */
static struct shared {
	_Atomic bool is_taken;
	_Atomic pid_t joined; /* child with the connection that joined; 0: none yet */
	uint8_t devices;
	uint8_t key[KEY_USES][KEY_BYTES];
	char peer[ADDRESS_NUMERIC]; /* address of the peer that joined */
	struct children children;
	struct slot {
		uint64_t counted[2]; /* bytes at the last report */
		/* round trip; 0: no process of the program has connected yet */
		_Atomic uint32_t rtt_us;
		_Atomic uint64_t bytes[2]; /* bytes of all rings in total, by enum ring_direction */
	} slot[CHILDREN_MAX];
} * shared;

static struct handover handover; /* device side only */
static uint8_t key[KEY_BYTES];   /* program side only, for use_now */
static enum key_use use_now = KEY_JOIN;
static struct address there; /* the device side's address, for the program side */

static const char *told_in; /* file with the invitation; NULL: none */

/* Removes the invitation's file first, and then lets the signal have its usual effect. */
static void link_main_on_end(int signal)
{
	unlink(told_in);
	sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	raise(signal);
}

static void end_as(void (*handler)(int))
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		struct sigaction now;

		if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaction(ends[i], &(struct sigaction){.sa_handler = handler}, NULL);
	}
}

/* An existing file may be open in another process, so the file must be new. */
static int tell_invitation(const char *path)
{
	const char *text = getenv("DIVVY_INVITATION");
	_cleanup_close_ int fd = -1;

	if (!text)
		return -EINVAL;
	if (!path)
		return dprintf(STDOUT_FILENO, "%s\n", text) < 0 ? -errno : 0;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	told_in = path;
	end_as(link_main_on_end);
	return dprintf(fd, "%s\n", text) < 0 ? -errno : 0;
}

static int read_invitation(void)
{
	char *text = getenv("DIVVY_INVITATION"), *slash = text ? strrchr(text, '/') : NULL;
	const struct str place = {text, slash ? (size_t)(slash - text) : 0};
	int r = !slash ? -EINVAL : address_parse(place, 0, &there, NULL);

	r = r < 0 ? r : parse_hex(str_from(slash + 1), key, sizeof(key), NULL);
	/* Removes the invitation from the environment, so that /proc does not show it. */
	if (text)
		explicit_bzero(text, strlen(text));
	unsetenv("DIVVY_INVITATION");
	return r;
}

/* ---- TLS ---- */

static bool link_main_find_key(const char *name, uint8_t *ret_key)
{
	enum key_use use = KEY_JOIN;

	while (use < KEY_USES && strcmp(name, key_names[use]))
		use++;
	if (use == KEY_USES || (use == KEY_JOIN && atomic_load(&shared->is_taken)))
		return false;
	memcpy(ret_key, shared->key[use], KEY_BYTES);
	return true;
}

/* Program side: returns an authenticated connection, or -errno. */
static int link_main_connect(gnutls_session_t *ret_tls)
{
	const struct secure_key own = {.name = key_names[use_now], .bytes = key};
	const int fd = net_dial(there.host, there.port);

	return fd < 0 ? fd : secure_accept_key(fd, &own, ret_tls);
}

/* ---- one process of the program ---- */

struct counting {
	struct slot *slot;
	const struct remote_session *session;
	int fd;
};

static void *count_main(void *argument)
{
	const struct counting *c = argument;

	for (;;) {
		struct link_counts counts;

		link_count(c->session, c->fd, &counts);
		atomic_store(&c->slot->rtt_us, counts.rtt_us);
		atomic_store(&c->slot->bytes[0], counts.up);
		atomic_store(&c->slot->bytes[1], counts.down);
		poll(NULL, 0, COUNT_MS);
	}
	return NULL;
}

static void link_main_serve_process(gnutls_session_t tls, int fd, const struct link_place *at)
{
	static struct counting counting;
	struct link_end end;
	pthread_t thread;

	if (link_open_worker(tls, at, &end) < 0)
		return;
	counting = (struct counting){&shared->slot[at->place], end.map.p, fd};
	/*
	 * Without this thread, only the link's numbers for `divvy ps` and `divvy top` are missing.
	 */
	pthread_create(&thread, NULL, count_main, &counting);
	link_run(&end, REMOTE_LINK_CLIENT);
}

static void link_main_join_one(int sock, _Atomic uint64_t *alive_ns)
{
	const struct link_program program = {sock, alive_ns};
	struct link_end end;
	gnutls_session_t tls;

	if (link_main_connect(&tls) >= 0 && link_open_program(tls, &program, &end) >= 0)
		link_run(&end, REMOTE_LINK_SERVER);
}

/* ---- the invitation ---- */

/*
 * Answers a join. Returns true if the peer got the key for the program's processes, which no later
 * peer gets.
 */
static bool let_in(struct stream stream)
{
	struct join_answer answer = {.abi = JOIN_ABI, .devices = shared->devices};
	struct join_ask ask;
	bool before = false;
	int r;

	if (stream_receive(stream, &ask, sizeof(ask)) < 0)
		return false;
	answer.is_taken = ask.abi == JOIN_ABI &&
		(ask.device == JOIN_ANY || ask.device < shared->devices);
	if (answer.is_taken && !atomic_compare_exchange_strong(&shared->is_taken, &before, true))
		return false;
	if (answer.is_taken)
		memcpy(answer.key, shared->key[KEY_PROCESS], KEY_BYTES);
	r = stream_send(stream, &answer, sizeof(answer));
	explicit_bzero(&answer.key, sizeof(answer.key));
	if (answer.is_taken && r < 0)
		atomic_store(&shared->is_taken, false);
	return answer.is_taken && r == 0;
}

/*
 * The first peer gets the key for the program's processes, and keeps the connection as long as the
 * program lasts.
 */
static void serve_join(gnutls_session_t tls, int fd, int place)
{
	const struct stream stream = stream_tls(tls, SECURE_SILENT_MS);
	uint8_t beat;

	if (!let_in(stream))
		return;
	explicit_bzero(shared->key[KEY_JOIN], KEY_BYTES);
	address_peer(fd, shared->peer, sizeof(shared->peer));
	atomic_store(&shared->joined, getpid());
	do
		atomic_store(&shared->children.v[place].alive_ns, clock_now_ns());
	while (stream_receive(stream, &beat, sizeof(beat)) == 0);
}

/* -ECHRNG: the tenant has *ret_devices devices, and `device` is none of them. */
static int link_main_join_server(uint8_t device, struct stream *ret_joined, unsigned *ret_devices)
{
	const struct join_ask ask = {JOIN_ABI, device};
	struct join_answer answer;
	gnutls_session_t tls;
	const int r = link_main_connect(&tls);

	if (r < 0)
		return r;
	*ret_joined = stream_tls(tls, SECURE_SILENT_MS);
	if (stream_send(*ret_joined, &ask, sizeof(ask)) < 0 ||
		stream_receive(*ret_joined, &answer, sizeof(answer)) < 0)
		return -EACCES;
	*ret_devices = answer.devices;
	if (answer.abi != JOIN_ABI)
		return -EPROTONOSUPPORT;
	if (!answer.is_taken)
		return -ECHRNG;
	memcpy(key, answer.key, sizeof(key));
	explicit_bzero(&answer, sizeof(answer));
	use_now = KEY_PROCESS;
	return 0;
}

/* ---- accepting: device side ---- */

static void link_main_serve_one(int fd, const struct link_place *at)
{
	static const struct secure_key keys = {.find = link_main_find_key};
	struct bulk_name name;
	gnutls_session_t tls;
	int r;

	end_as(SIG_DFL);
	handover_in_child(&handover);
	r = bulk_look(fd, &name);
	if (r > 0)
		handover_submit(&handover, &name, fd);
	if (r != 0 || secure_accept_key(fd, &keys, &tls) < 0)
		return;
	children_known(&shared->children, at->place);
	if (!strcmp(gnutls_psk_server_get_username(tls), key_names[KEY_JOIN]))
		serve_join(tls, fd, at->place);
	else
		link_main_serve_process(tls, fd, at);
}

static void link_main_serve_next(struct listener_poll *listener)
{
	_cleanup_close_ int fd = listener_poll_accept(listener, 0);
	const int at = fd < 0 ? -1 : children_take(&shared->children, clock_now_ns());
	_cleanup_close_ int own = at < 0 ? -1 : handover_open(&handover, at);
	const pid_t parent = getpid();
	pid_t pid;

	if (own < 0)
		return;
	shared->slot[at] = (struct slot){0};
	pid = fork();
	if (pid == 0) {
		process_end_with(parent);
		link_main_serve_one(fd, &(struct link_place){&handover, at, own});
		_exit(1);
	}
	children_set(&shared->children, at, pid);
}

/* Returns false when the joined peer is lost, and with it the program. */
static bool link_main_reap_children(void)
{
	for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;) {
		if (pid == atomic_load(&shared->joined))
			return false;
		handover_close(&handover, children_exited(&shared->children, pid));
	}
	return true;
}

static struct report reporting = REPORT_NONE;

/* Runs each second. Returns false when the tenant does not exist any more. */
static bool link_main_report_state(void)
{
	static uint64_t last_ns;
	struct report_numbers numbers = {0};
	const uint64_t now = clock_now_ns(), span = now - last_ns;
	uint64_t bytes[2] = {0}, rtt = 0;

	if (span < NSEC_PER_SEC)
		return true;
	if (!atomic_load(&shared->joined)) {
		last_ns = now;
		return report_send(&reporting, NULL);
	}
	for (unsigned at = 0; at < CHILDREN_MAX; at++) {
		struct slot *s = &shared->slot[at];
		const uint32_t of_one = shared->children.v[at].pid ? atomic_load(&s->rtt_us) : 0;

		if (!of_one)
			continue;
		numbers.processes++;
		rtt += of_one;
		for (unsigned i = 0; i < 2; i++) {
			const uint64_t all = atomic_load(&s->bytes[i]);

			bytes[i] += all - s->counted[i];
			s->counted[i] = all;
		}
	}
	memcpy(numbers.peer, shared->peer, sizeof(numbers.peer));
	numbers.rtt_us = numbers.processes ? rtt / numbers.processes : 0;
	numbers.received_per_s = (uint64_t)((double)bytes[0] * 1e9 / (double)span);
	numbers.sent_per_s = (uint64_t)((double)bytes[1] * 1e9 / (double)span);
	last_ns = now;
	return report_send(&reporting, &numbers);
}

/*
 * Serves until the program or the tenant has ended. Sessions that still run then end with this
 * process.
 */
static int serve_all(int listener_fd, uint8_t devices)
{
	struct listener_poll listener = {.fd = listener_fd};
	bool is_granted;
	int r;

	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return -ENOMEM;
	shared->devices = devices;
	memcpy(shared->key[KEY_JOIN], key, KEY_BYTES);
	explicit_bzero(key, sizeof(key));
	if (getrandom(shared->key[KEY_PROCESS], KEY_BYTES, 0) != KEY_BYTES)
		return -EIO;
	r = handover_init(&handover, &shared->children);
	if (r < 0)
		return r;
	do {
		struct pollfd p[] = {{.fd = listener_poll_fd(&listener), .events = POLLIN},
			{.fd = handover.in, .events = POLLIN}};

		poll(p, 2, LOOK_MS);
		if (p[1].revents)
			handover_pass(&handover);
		if (p[0].revents)
			link_main_serve_next(&listener);
		is_granted = link_main_report_state();
		children_watch(
			&shared->children, clock_now_ns(), SECURE_HANDSHAKE_MS, SECURE_PEER_MS);
	} while (is_granted && link_main_reap_children());
	/* The program may have ended because the tenant was removed. */
	is_granted = is_granted && report_ask(&reporting);
	if (is_granted)
		return 0;
	fprintf(stderr, "divvy serve: exiting, since the tenant has been removed\n");
	/* Leaves the workers time to report the removal to the program. */
	poll(NULL, 0, LAST_MS);
	return -ENOENT;
}

/* ---- accepting: program side ---- */

static bool is_own(int sock)
{
	struct ucred peer;
	socklen_t n = sizeof(peer);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
		(peer.uid == geteuid() || peer.uid == 0);
}

static void link_main_join_next(struct children *children, struct listener_poll *listener)
{
	_cleanup_close_ int sock = listener_poll_accept(listener, 0);
	const pid_t parent = getpid();
	int at;

	if (sock >= 0 && is_own(sock) && children_fork(children, &at) == 0) {
		process_end_with(parent);
		link_main_join_one(sock, &children->v[at].alive_ns);
		_exit(1);
	}
}

/* Tells the device side that the program still lives. No other message follows the join. */
static void link_main_send_beats(struct stream joined)
{
	static uint64_t last_ns;
	const uint64_t now = clock_now_ns();

	if (now - last_ns < SECURE_BEAT_MS * NSEC_PER_MSEC)
		return;
	last_ns = now;
	stream_send(joined, "", 1);
}

/* Runs until the program and all of its processes have ended. */
static void join_all(int listener, pid_t follow, struct stream joined)
{
	struct listener_poll knocks = {.fd = listener};
	struct children *children = children_new();
	int program = pidfd_new(follow);

	while (children && (program >= 0 || children_any(children))) {
		struct pollfd fds[] = {{.fd = listener_poll_fd(&knocks), .events = POLLIN},
			{.fd = program, .events = POLLIN}};

		poll(fds, 2, LOOK_MS);
		if (fds[1].revents)
			program = fd_close(program);
		if (fds[0].revents & POLLIN)
			link_main_join_next(children, &knocks);
		link_main_send_beats(joined);
		children_watch(children, clock_now_ns(), SECURE_HANDSHAKE_MS, SECURE_PEER_MS);
		for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;)
			children_exited(children, pid);
	}
	socket_unlink(listener);
}

/* Returns the reason of a failure in words for the user of divvy run. */
static const char *link_main_explain(int failed)
{
	switch (failed) {
	case ENOENT: return "no machine has this name";
	case ECONNREFUSED: return "no program listens there; start divvy serve there";
	case EACCES:
		return "refused: the key belongs to no invitation, or to a used one; ask for a new "
		       "invitation";
	case EPROTO: return "the program that answers there is not divvy serve; check HOST:PORT";
	case EPROTONOSUPPORT:
		return "divvy has another version there; install the same version on both machines";
	case ETIMEDOUT: return "no answer within 10 s; check the address and the firewall";
	default: return strerror(failed);
	}
}

/* Prints a line for the program that started this process, and that waits for the line. */
static void say_begun(int r, const char *device, unsigned devices)
{
	if (r == -ECHRNG && devices == 1)
		dprintf(STDOUT_FILENO,
			"device %s: the tenant has device 0 only; the invitation is still valid\n",
			device);
	else if (r == -ECHRNG)
		dprintf(STDOUT_FILENO,
			"device %s: the tenant has %u devices, 0 to %u; the invitation is still "
			"valid\n",
			device, devices, devices - 1);
	else
		dprintf(STDOUT_FILENO, "%s\n", r == 0 ? "ok" : link_main_explain(-r));
	close(STDOUT_FILENO);
}

static bool link_main_read_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret)
{
	return parse_uint(str_from(text), least, most, ret, NULL) == 0;
}

int main(int argc, char **argv)
{
	const bool is_given = argc == 4 || argc == 5;
	const bool is_server = is_given && strcmp(argv[1], "serve") == 0;
	const bool is_client = is_given && strcmp(argv[1], "join") == 0;
	const char *last = is_given ? argv[4] : NULL;
	uint64_t listener = 0, number = 0, device = JOIN_ANY;
	unsigned devices = 0;
	struct stream joined;
	int r;

	if ((!is_server && !is_client) || !link_main_read_number(argv[2], 0, INT_MAX, &listener) ||
		!link_main_read_number(argv[3], 1, is_server ? JOIN_ANY : INT_MAX, &number) ||
		(is_client && last && !link_main_read_number(last, 0, JOIN_ANY - 1, &device))) {
		fprintf(stderr,
			"usage: divvy-remote-link serve LISTEN-FD DEVICES [FILE] | join LISTEN-FD "
			"PID [DEVICE]\n");
		return 2;
	}
	log_init("divvy-remote-link");
	process_await_children();
	r = is_server ? tell_invitation(last) : 0;
	if (r < 0)
		fprintf(stderr, "divvy serve: %s%s: %s\n", last ? "--invite " : "the invitation",
			last ? last : "", strerror(-r));
	if (r == 0)
		r = read_invitation();
	fd_set_cloexec((int)listener, true);
	if (is_server)
		workers_begin();
	sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	if (r == 0)
		r = is_server ? serve_all((int)listener, (uint8_t)number)
			      : link_main_join_server((uint8_t)device, &joined, &devices);
	if (is_client)
		say_begun(r, last, devices);
	if (is_client && r == 0)
		join_all((int)listener, (pid_t)number, joined);
	if (told_in)
		unlink(told_in);
	/* Skips destructors: TLS state ends with the process. */
	_exit(r < 0);
}
