/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of a whole daemon in this process. The test runs the daemon's loop, so a loop that
 * waits for a client's descriptor would hang the test. The daemon ignores SO_PASSRIGHTS, as on a
 * kernel without it, so that every descriptor reaches the daemon.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/agent-client.h"
#include "agent/tenant-socket.h"
#include "base/fd.h"
#include "own-agent.h"
#include "../../packet.h"

#define LINGER_S 600
#define HANGS_NS (60 * NSEC_PER_SEC)

static void turn(struct rig *rig)
{
	assert_true(loop_run_once(rig->agent->loop, clock_now_ns() + 5 * NSEC_PER_MSEC) >= 0);
	agent_after_batch(rig->agent);
}

static bool until(struct rig *rig, bool (*fn)(void *data), void *data)
{
	const uint64_t end_ns = clock_now_ns() + HANGS_NS;

	while (!fn(data)) {
		if (clock_now_ns() > end_ns)
			return false;
		turn(rig);
	}
	return true;
}

/* Returns the client's end of a new connection of this kind. */
static int join(struct rig *rig, enum user_kind kind, uint32_t tenant, struct conn **ret_conn)
{
	int pair[2];

	assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	assert_ok(client_accept(rig->agent, pair[0], kind, tenant, ret_conn));
	return pair[1];
}

/* ---- passed descriptors ---- */

static bool is_hung_up(void *fd)
{
	struct pollfd pfd = {.fd = *(int *)fd, .events = POLLIN};

	return poll(&pfd, 1, 0) == 1 && pfd.revents & POLLHUP;
}

static bool has_answer(void *fd)
{
	struct pollfd pfd = {.fd = *(int *)fd, .events = POLLIN};

	return poll(&pfd, 1, 0) == 1 && pfd.revents & POLLIN;
}

static int send_ping(int sock)
{
	union packet p;
	const uint32_t size = make_control(&p, "{\"cmd\":\"ping\"}");

	return send(sock, p.bytes, size, MSG_NOSIGNAL) == (ssize_t)size ? 0 : -errno;
}

/* Checks that the daemon serves another user. */
static void serves(struct rig *rig)
{
	int sock = join(rig, USER_UID, 0, NULL);

	assert_ok(send_ping(sock));
	assert_true(until(rig, has_answer, &sock));
	close(sock);
}

static void pass(int sock, bool is_again, int fd)
{
	union packet p;
	const uint32_t size = is_again ? make_hello(&p, MSG_HELLO_AGAIN)
				       : make_control(&p, "{\"cmd\":\"ping\"}");

	assert_int_equal(fd_send(sock, p.bytes, size, &fd, 1, MSG_NOSIGNAL), size);
	close(fd);
}

static void passed_descriptors_are_closed(void **state)
{
	static const enum user_kind kinds[] = {USER_UID, USER_CGROUP, USER_TENANT};
	struct rig rig;

	rig_start(&rig);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		for (int form = 0; form < 4; form++) {
			int sock = join(&rig, kinds[i], kinds[i] == USER_TENANT ? 7 : 0, NULL);
			int ends[2];

			assert_ok(pipe(ends));
			/*
			 * The client passes the descriptor at once, or after the connection was
			 * idle.
			 */
			for (int k = 0; k < 3 * (form & 1); k++)
				turn(&rig);
			pass(sock, form & 2, ends[1]);
			assert_true(until(&rig, is_hung_up, &ends[0]));
			assert_true(until(&rig, is_hung_up, &sock));
			close(ends[0]);
			close(sock);
		}
	serves(&rig);
	rig_stop(&rig);
}

static void descriptors_behind_a_connections_end_are_closed(void **state)
{
	struct rig rig;
	int ends[2], sock;

	rig_start(&rig);
	sock = join(&rig, USER_UID, 0, NULL);
	assert_ok(pipe(ends));
	assert_int_equal(send(sock, "bad", 3, 0), 3);
	assert_int_equal(send(sock, "", 0, 0), 0);
	pass(sock, false, ends[1]);
	assert_true(until(&rig, is_hung_up, &ends[0]));
	close(ends[0]);
	close(sock);
	rig_stop(&rig);
}

static bool has_no_conns(void *rig)
{
	return LIST_EMPTY(&((struct rig *)rig)->agent->conns);
}

static void a_connection_closed_while_a_closer_receives_is_forgotten(void **state)
{
	struct conn *c = NULL;
	struct rig rig;
	int ends[2], sock;

	rig_start(&rig);
	sock = join(&rig, USER_UID, 0, &c);
	assert_ok(pipe(ends));
	pass(sock, false, ends[1]);
	while (c->closing == CONN_OURS)
		turn(&rig);
	conn_close(c);
	agent_after_batch(rig.agent);
	assert_true(until(&rig, has_no_conns, &rig));
	close(ends[0]);
	close(sock);
	rig_stop(&rig);
}

/* A TCP socket whose close(2) sleeps unless SO_LINGER is turned off before. */
static int make_lingerer(int *ret_other)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct linger linger = {1, LINGER_S};
	socklen_t n = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	static char data[65536];

	assert_ok(bind(listener, (struct sockaddr *)&address, sizeof(address)));
	assert_ok(listen(listener, 1));
	assert_ok(getsockname(listener, (struct sockaddr *)&address, &n));
	assert_true(connect(fd, (struct sockaddr *)&address, n) == 0 || errno == EINPROGRESS);
	*ret_other = accept(listener, NULL, NULL);
	assert_true(*ret_other >= 0);
	close(listener);
	assert_ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	while (send(fd, data, sizeof(data), MSG_NOSIGNAL) > 0)
		;
	return fd;
}

/* A descriptor whose close(2) sleeps: a socket with a lingering TCP socket in its queue. */
static int make_sleeper(int *ret_other)
{
	int fd = make_lingerer(ret_other), pair[2];

	assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	assert_int_equal(fd_send(pair[0], "x", 1, &fd, 1, 0), 1);
	close(pair[0]);
	close(fd);
	return pair[1];
}

/* The closer finds descriptors also behind packets without descriptors. */
static void a_lingering_socket_behind_plain_packets_blocks_no_loop(void **state)
{
	struct rig rig;
	int sock, far, ends[2];

	rig_start(&rig);
	sock = join(&rig, USER_UID, 0, NULL);
	assert_int_equal(send(sock, "bad", 3, 0), 3);
	assert_ok(pipe(ends));
	pass(sock, false, ends[1]);
	close(ends[0]);
	assert_int_equal(send(sock, "bad", 3, 0), 3);
	assert_int_equal(send(sock, "", 0, 0), 0);
	pass(sock, false, make_lingerer(&far));
	assert_true(until(&rig, has_no_conns, &rig));
	close(far);
	close(sock);
	rig_stop(&rig);
}

static void a_blocked_closer_delays_only_its_own_tenant(void **state)
{
	int first, second, other, far, mine[2], theirs[2];
	struct rig rig;

	rig_start(&rig);
	first = join(&rig, USER_TENANT, 7, NULL);
	second = join(&rig, USER_TENANT, 7, NULL);
	other = join(&rig, USER_TENANT, 8, NULL);
	pass(first, true, make_sleeper(&far));
	for (int i = 0; i < 5; i++)
		turn(&rig);
	assert_ok(pipe(mine));
	assert_ok(pipe(theirs));
	pass(second, false, mine[1]);
	pass(other, false, theirs[1]);
	assert_true(until(&rig, is_hung_up, &theirs[0]));
	serves(&rig);
	assert_false(is_hung_up(&mine[0]));
	/* Tenant 7 is served as before if it passes no descriptor. */
	close(first);
	first = join(&rig, USER_TENANT, 7, NULL);
	assert_ok(send_ping(first));
	assert_true(until(&rig, has_answer, &first));
	/* close(2) of the peer ends the sleep. */
	close(far);
	assert_true(until(&rig, is_hung_up, &mine[0]));
	close(mine[0]);
	close(theirs[0]);
	close(first);
	close(second);
	close(other);
	rig_stop(&rig);
}

static void one_tenants_descriptor_delays_no_other_tenant(void **state)
{
	int idle, blocked, other, far, ends[2], theirs[2];
	struct rig rig;

	rig_start(&rig);
	/* Starts one closer thread, which then waits for a job. */
	idle = join(&rig, USER_TENANT, 9, NULL);
	assert_ok(pipe(ends));
	pass(idle, false, ends[1]);
	assert_true(until(&rig, is_hung_up, &idle));
	blocked = join(&rig, USER_TENANT, 7, NULL);
	other = join(&rig, USER_TENANT, 8, NULL);
	for (int i = 0; i < 20; i++)
		turn(&rig);
	assert_ok(pipe(theirs));
	pass(blocked, true, make_sleeper(&far));
	pass(other, false, theirs[1]);
	assert_true(until(&rig, is_hung_up, &theirs[0]));
	close(far);
	assert_true(until(&rig, is_hung_up, &blocked));
	close(ends[0]);
	close(theirs[0]);
	close(idle);
	close(blocked);
	close(other);
	rig_stop(&rig);
}

static void descriptors_in_a_tenant_socket_stop_no_loop(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct tenant_socket *door = NULL;
	struct tenant *t;
	struct error err;
	struct rig rig;
	int far[2], socks[2];

	rig_start(&rig);
	assert_ok(rig_make_tenant(&rig, 0, &t));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/door", rig.folder);
	assert_ok(tenant_socket_open(t, address.sun_path, &door, &err));
	for (int i = 0; i < 2; i++) {
		socks[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		assert_ok(connect(socks[i], (struct sockaddr *)&address, sizeof(address)));
		pass(socks[i], i, make_sleeper(&far[i]));
	}
	for (int i = 0; i < 5; i++)
		turn(&rig);
	serves(&rig);
	for (int i = 0; i < 2; i++) {
		close(far[i]);
		assert_true(until(&rig, is_hung_up, &socks[i]));
		close(socks[i]);
	}
	tenant_socket_close(door);
	rig_stop(&rig);
}

/* Closing a tenant socket also closes connections that the daemon has not accepted. */
static void closing_a_tenant_socket_stops_no_loop(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int far, sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct tenant_socket *door = NULL;
	struct tenant *t;
	struct error err;
	struct rig rig;

	rig_start(&rig);
	assert_ok(rig_make_tenant(&rig, 0, &t));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/door", rig.folder);
	assert_ok(tenant_socket_open(t, address.sun_path, &door, &err));
	assert_ok(connect(sock, (struct sockaddr *)&address, sizeof(address)));
	pass(sock, false, make_sleeper(&far));
	tenant_socket_close(door);
	serves(&rig);
	close(far);
	assert_true(until(&rig, is_hung_up, &sock));
	close(sock);
	rig_stop(&rig);
}

/* ---- limits ---- */

static void a_tenant_socket_has_a_limit_of_connections(void **state)
{
	static int socks[TENANT_SOCKET_CONNS_MAX + 1];
	uint32_t n = 0;
	struct rig rig;
	int r;

	rig_start(&rig);
	do {
		int pair[2];

		assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
		r = client_accept(rig.agent, pair[0], USER_TENANT, 7, NULL);
		socks[n++] = pair[1];
		assert_true(n <= TENANT_SOCKET_CONNS_MAX + 1);
	} while (r == 0);
	assert_int_equal(r, -EUSERS);
	/* The limit is the tenant's own: other tenants still connect. */
	close(join(&rig, USER_TENANT, 8, NULL));
	serves(&rig);
	while (n)
		close(socks[--n]);
	for (int i = 0; i < 3 || rig.agent->n_conns; i++)
		turn(&rig);
	close(join(&rig, USER_TENANT, 7, NULL));
	rig_stop(&rig);
}

static void unread_answers_of_a_user_have_a_limit(void **state)
{
	enum { CONNS = 200, REQUESTS = 4, TENANTS = 200 };
	size_t most = 0;
	int socks[CONNS];
	struct conn *c = NULL;
	struct tenant *t;
	union packet p;
	uint32_t size = make_control(&p, "{\"cmd\":\"usage\",\"last_ms\":600000}");
	struct rig rig;

	rig_start(&rig);
	for (int i = 0; i < TENANTS; i++)
		assert_ok(rig_make_tenant(&rig, 0, &t));
	for (int i = 0; i < CONNS; i++) {
		socks[i] = join(&rig, USER_UID, 0, &c);
		for (int k = 0; k < REQUESTS; k++)
			assert_int_equal(send(socks[i], p.bytes, size, 0), size);
	}
	for (int i = 0; i < 3 * CONNS; i++) {
		turn(&rig);
		most = MAX(most, c->user->out_bytes);
	}
	assert_in_range(most, USER_OUT_MAX, USER_OUT_MAX + CLIENT_OUT_MAX);
	for (int i = 0; i < CONNS; i++)
		close(socks[i]);
	serves(&rig);
	rig_stop(&rig);
}

static void users_pay_for_requests_with_time(void **state)
{
	struct user u = {.kind = USER_TENANT};
	uint64_t now = 1000 * NSEC_PER_SEC, when;

	assert_true(user_may_spend(&u, now, &when));
	/*
	 * A user's burst is free. After the burst, the user's requests get 1 / USER_TIME_PART of
	 * the thread's time, and other users get the rest.
	 */
	user_pay(&u, now, USER_TIME_BURST_NS / USER_TIME_PART);
	assert_true(user_may_spend(&u, now, &when));
	user_pay(&u, now, 10 * NSEC_PER_MSEC);
	assert_false(user_may_spend(&u, now, &when));
	assert_int_equal(when, now + USER_TIME_PART * 10 * NSEC_PER_MSEC);
	assert_true(user_may_spend(&u, when, &when));
	u.is_trusted = true;
	assert_true(user_may_spend(&u, now, &when));
}

UNIT_MAIN(UNIT(passed_descriptors_are_closed),
	UNIT(descriptors_behind_a_connections_end_are_closed),
	UNIT(a_connection_closed_while_a_closer_receives_is_forgotten),
	UNIT(a_lingering_socket_behind_plain_packets_blocks_no_loop),
	UNIT(a_blocked_closer_delays_only_its_own_tenant),
	UNIT(one_tenants_descriptor_delays_no_other_tenant),
	UNIT(descriptors_in_a_tenant_socket_stop_no_loop),
	UNIT(closing_a_tenant_socket_stops_no_loop),
	UNIT(a_tenant_socket_has_a_limit_of_connections),
	UNIT(unread_answers_of_a_user_have_a_limit), UNIT(users_pay_for_requests_with_time))
