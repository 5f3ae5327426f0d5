/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes measure the network between them: divvy-remote-far runs on both sides, as divvyd starts it.
 * tests/programs/link-shim is between them and makes the network worse.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "identity/identity.h"
#include "made.h"
#include "wire/serve.h"
#include "../../patience.h"

#define HIGH 64

static const char *far_path, *shim_path;

/* Acts as the server's divvyd: answers with `status` whether a transfer may fill the network. */
struct door {
	char folder[32];
	struct sockaddr_un address;
	int fd, status;
	uint32_t n_asked, n_other;
	pthread_t thread;
};

struct rig {
	struct made_authority ca;
	struct identity server;
	struct door door;
	int listener, control;
	uint16_t port;
	pid_t serve, shim;
};

static void *door_main(void *argument)
{
	struct door *door = argument;
	int fd;

	while ((fd = accept4(door->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		struct serve_answer answer = {.magic = SERVE_MAGIC, .status = door->status};
		struct serve_ask ask = {.magic = 0};
		char none;

		if (recv(fd, &ask, sizeof(ask), 0) == sizeof(ask) && ask.magic == SERVE_MAGIC &&
			ask.what == SERVE_TRANSFER)
			door->n_asked++;
		else
			door->n_other++;
		send(fd, &answer, sizeof(answer), MSG_NOSIGNAL);
		/* The connection stays open until the transfer has ended. */
		while (door->status == 0 && recv(fd, &none, 1, 0) > 0)
			;
		close(fd);
	}
	return NULL;
}

static void door_open(struct door *door)
{
	snprintf(door->folder, sizeof(door->folder), "/tmp/divvy-probe-XXXXXX");
	assert_non_null(mkdtemp(door->folder));
	door->address.sun_family = AF_UNIX;
	snprintf(door->address.sun_path, sizeof(door->address.sun_path), "%s/serve.sock",
		door->folder);
	door->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_ok(bind(door->fd, (struct sockaddr *)&door->address, sizeof(door->address)));
	assert_ok(listen(door->fd, 8));
	assert_ok(setenv(SERVE_ENV, door->address.sun_path, 1));
	assert_ok(pthread_create(&door->thread, NULL, door_main, door));
}

static void door_close(struct door *door)
{
	shutdown(door->fd, SHUT_RDWR);
	pthread_join(door->thread, NULL);
	close(door->fd);
	unlink(door->address.sun_path);
	rmdir(door->folder);
}

/* Starts the process like divvyd does: with its listener, control connection and identity. */
static pid_t start_far(
	const char *const *argv, const struct identity *identity, int listener, int *ret_control)
{
	int pair[2], fd = identity_to_fd(identity);
	pid_t pid;

	assert_true(fd >= 0);
	assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	pid = fork();
	if (pid == 0) {
		const int given[] = {listener, pair[1], fd};
		int high[3];

		for (int i = 0; i < 3; i++)
			high[i] = fcntl(given[i], F_DUPFD_CLOEXEC, HIGH);
		for (int i = 0; i < 3; i++)
			dup2(high[i], SERVE_FD_LISTEN + i);
		execv(far_path, (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	assert_true(pid > 0);
	close(pair[1]);
	close(fd);
	*ret_control = pair[0];
	return pid;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_in own;
	socklen_t n = sizeof(own);

	assert_ok(getsockname(fd, (struct sockaddr *)&own, &n));
	return ntohs(own.sin_port);
}

/* Starts link-shim with this option or command, such as "delay=3000" or "cut"; NULL: none. */
static void start_shim(struct rig *rig, const char *word)
{
	char place[32], line[16] = "";
	const char *const argv[] = {"link-shim", place, word, NULL};
	int out[2], in[2];
	uint64_t port;

	snprintf(place, sizeof(place), "127.0.0.1:%u", rig->port);
	assert_ok(pipe(out));
	assert_ok(pipe(in));
	rig->shim = fork();
	if (rig->shim == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		for (int fd = 3; fd < HIGH; fd++)
			close(fd);
		execv(shim_path, (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	assert_true(read(out[0], line, sizeof(line) - 1) > 0);
	assert_ok(parse_uint(str_trim(str_from(line)), 1, UINT16_MAX, &port, NULL));
	rig->port = (uint16_t)port;
	close(in[0]);
	close(in[1]);
	close(out[0]);
	close(out[1]);
}

static int begin(void **state)
{
	static const char *const argv[] = {"divvy-remote-far", "serve", NULL};
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rig *rig = calloc(1, sizeof(*rig));

	rig->ca = made_authority();
	rig->server = made_node(&rig->ca, "n1");
	door_open(&rig->door);
	rig->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_ok(bind(rig->listener, (struct sockaddr *)&own, sizeof(own)));
	assert_ok(listen(rig->listener, 8));
	rig->port = port_of(rig->listener);
	rig->serve = start_far(argv, &rig->server, rig->listener, &rig->control);
	*state = rig;
	return 0;
}

static int end(void **state)
{
	struct rig *rig = *state;

	if (rig->shim) {
		kill(rig->shim, SIGKILL);
		waitpid(rig->shim, NULL, 0);
	}
	close(rig->control);
	waitpid(rig->serve, NULL, 0);
	close(rig->listener);
	door_close(&rig->door);
	identity_done(&rig->server);
	made_authority_done(&rig->ca);
	free(rig);
	return 0;
}

/*
 * Starts a probe process and returns the result that it sends to its divvyd. The process then
 * exits.
 */
static struct serve_probe probe(
	struct rig *rig, const struct identity *own, const char *node, const char *ms)
{
	char port[8];
	const char *const argv[] = {"divvy-remote-far", "probe", "127.0.0.1", port, node, ms, NULL};
	struct serve_probe said = {.magic = 0};
	struct pollfd p = {.events = POLLIN};
	pid_t pid;

	snprintf(port, sizeof(port), "%u", rig->port);
	pid = start_far(argv, own, STDERR_FILENO, &p.fd);
	assert_int_equal(poll(&p, 1, patience_ms(60000)), 1);
	assert_int_equal(recv(p.fd, &said, sizeof(said), 0), sizeof(said));
	assert_int_equal(said.magic, SERVE_MAGIC);
	close(p.fd);
	waitpid(pid, NULL, 0);
	return said;
}

/* The shim delays each message by 3 ms in each direction. */
static void the_networks_round_trip_time_is_measured(void **state)
{
	struct rig *rig = *state;
	_cleanup_identity_ struct identity own = made_node(&rig->ca, "n2");
	struct serve_probe said = probe(rig, &own, "n1", "0");

	assert_int_equal(said.status, 0);
	assert_true(said.round_trip_ns > 0);
	assert_int_equal(said.bits_per_second, 0);
	start_shim(rig, "delay=3000");
	said = probe(rig, &own, "n1", "0");
	assert_int_equal(said.status, 0);
	assert_true(said.round_trip_ns >= 6 * NSEC_PER_MSEC);
	/* less than the process's lifetime */
	assert_true(said.round_trip_ns < 20 * NSEC_PER_SEC);
	assert_int_equal(rig->door.n_asked + rig->door.n_other, 0);
}

static void the_bandwidth_is_measured_if_both_sides_allow_it(void **state)
{
	struct rig *rig = *state;
	_cleanup_identity_ struct identity own = made_node(&rig->ca, "n2");
	struct serve_probe said = probe(rig, &own, "n1", "50");

	assert_int_equal(said.status, 0);
	assert_true(said.round_trip_ns > 0);
	assert_true(said.bits_per_second > 0);
	assert_int_equal(rig->door.n_asked, 1);
	rig->door.status = -EBUSY;
	said = probe(rig, &own, "n1", "50");
	assert_int_equal(said.status, 0);
	assert_true(said.round_trip_ns > 0);
	assert_int_equal(said.bits_per_second, 0);
	assert_int_equal(rig->door.n_asked, 2);
	assert_int_equal(rig->door.n_other, 0);
}

static void only_nodes_may_measure(void **state)
{
	struct rig *rig = *state;
	_cleanup_made_authority_ struct made_authority strange = made_authority();
	_cleanup_identity_ struct identity tenant = made_tenant(&rig->ca),
					   own = made_node(&rig->ca, "n2"),
					   other = made_node(&strange, "n2");
	struct serve_probe said = probe(rig, &tenant, "n1", "50");

	assert_int_equal(said.status, -EACCES);
	assert_contains(
		said.text, "the certificate belongs to a container; expected one of a node");
	assert_int_equal(said.round_trip_ns, 0);
	said = probe(rig, &own, "n3", "50");
	assert_true(said.status < 0);
	assert_contains(said.text, "the peer is node 'n1'; expected node 'n3'");
	said = probe(rig, &other, "n1", "50");
	assert_true(said.status < 0);
	assert_int_equal(said.round_trip_ns, 0);
	assert_int_equal(rig->door.n_asked + rig->door.n_other, 0);
}

static void an_unreachable_node_is_an_error(void **state)
{
	struct rig *rig = *state;
	_cleanup_identity_ struct identity own = made_node(&rig->ca, "n2");
	struct serve_probe said;

	start_shim(rig, "cut");
	said = probe(rig, &own, "n1", "50");
	assert_int_equal(said.status, -EAGAIN);
	assert_contains(said.text, "node n1 ");
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(the_networks_round_trip_time_is_measured),
		TEST(the_bandwidth_is_measured_if_both_sides_allow_it),
		TEST(only_nodes_may_measure),
		TEST(an_unreachable_node_is_an_error),
	};

	if (argc != 3) {
		fprintf(stderr, "usage: test-probe DIVVY-REMOTE-FAR LINK-SHIM\n");
		return 2;
	}
	far_path = argv[1];
	shim_path = argv[2];
	sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
