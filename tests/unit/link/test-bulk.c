/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Further connections of a session: which key admits a connection, and how a listener recognises a
 * further connection. Links of two versions refuse each other with a message.
 */
#include "unit.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "link/bulk.h"
#include "link/handover.h"
#include "link/link.h"
#include "link/secure.h"
#include "link/stream.h"

static const uint8_t right[SECURE_KEY_BYTES] = {1, 2, 3}, wrong[SECURE_KEY_BYTES] = {1, 2, 4};

static bool find_right(const char *name, uint8_t *ret_key)
{
	if (strcmp(name, "right") != 0)
		return false;
	memcpy(ret_key, right, sizeof(right));
	return true;
}

struct end {
	int fd, r;
	gnutls_session_t tls;
};

static void *server_main(void *argument)
{
	static const struct secure_key key = {.find = find_right};
	struct end *end = argument;

	end->r = secure_accept_key(end->fd, &key, &end->tls);
	/* Without the close, the other end would wait for more. */
	if (end->r < 0)
		end->fd = fd_close(end->fd);
	return NULL;
}

static void meet(const struct secure_key *key, struct end *server, struct end *client)
{
	pthread_t thread;
	int pair[2];

	assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	*server = (struct end){.fd = pair[0]};
	*client = (struct end){.fd = pair[1]};
	assert_ok(pthread_create(&thread, NULL, server_main, server));
	client->r = secure_accept_key(client->fd, key, &client->tls);
	/*
	 * A client's handshake can end before the server has refused the key, so only the server's
	 * next message or close shows the result.
	 */
	if (client->r == 0) {
		uint8_t byte;

		pthread_join(thread, NULL);
		if (server->r == 0 && stream_send(stream_tls(server->tls, 0), "", 1) < 0)
			server->r = -EPIPE;
		client->r = stream_receive(stream_tls(client->tls, 0), &byte, 1);
	} else {
		client->fd = fd_close(client->fd);
		pthread_join(thread, NULL);
	}
}

static void end_done(struct end *end)
{
	if (end->tls)
		gnutls_deinit(end->tls);
	fd_close(end->fd);
}

static void a_key_admits_only_its_owner(void **state)
{
	const struct {
		struct secure_key key;
		bool is_in;
	} cases[] = {
		{{.name = "right", .bytes = right}, true},
		{{.name = "right", .bytes = wrong}, false},
		{{.name = "other", .bytes = right}, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct end server, client;

		meet(&cases[i].key, &server, &client);
		assert_int_equal(server.r == 0, cases[i].is_in);
		assert_int_equal(client.r == 0, cases[i].is_in);
		end_done(&server);
		end_done(&client);
	}
}

static void both_ends_know_the_sessions_name(void **state)
{
	const struct secure_key key = {.name = "right", .bytes = right};
	struct bulk_name here[2], there[2];

	for (size_t i = 0; i < 2; i++) {
		struct end server, client;

		meet(&key, &server, &client);
		assert_ok(bulk_name(server.tls, &here[i]));
		assert_ok(bulk_name(client.tls, &there[i]));
		assert_memory_equal(&here[i], &there[i], sizeof(here[i]));
		end_done(&server);
		end_done(&client);
	}
	/* Another session with the same key has another name. */
	assert_memory_not_equal(&here[0], &here[1], sizeof(here[0]));
}

static void a_listener_recognises_further_connections(void **state)
{
	static const struct {
		const char *says;
		size_t n;
		int is;
	} cases[] = {
		{"DVBK0123456789abcdef", 20, 1},
		{"DVBK0123456789abcdef and more", 29, 1},
		{"DVBK0123456789abcde", 19, -EBADMSG},
		{"DIVV0123456789abcdef", 20, -EBADMSG},
		{"D", 1, -EBADMSG},
		{"", 0, -EBADMSG},
		{"\x16\x03\x01", 3, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bulk_name name;
		char left[32];
		int pair[2];

		assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
		assert_ok(fd_write_all(pair[1], cases[i].says, cases[i].n));
		assert_ok(shutdown(pair[1], SHUT_WR));
		assert_int_equal(bulk_look(pair[0], &name), cases[i].is);
		if (cases[i].is == 1)
			assert_memory_equal(name.bytes, "0123456789abcdef", sizeof(name));
		/* bulk_look() consumes no byte of another protocol. */
		if (cases[i].is == 0)
			assert_int_equal(recv(pair[0], left, sizeof(left), 0), cases[i].n);
		fd_close(pair[0]);
		fd_close(pair[1]);
	}
}

/* A child hands in a connection with this name. */
static void knock(struct handover *d, const struct bulk_name *name)
{
	int pair[2];

	assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	assert_ok(handover_submit(d, name, pair[0]));
	fd_close(pair[0]);
	fd_close(pair[1]);
	handover_pass(d);
}

static void a_connection_goes_to_the_session_of_its_name(void **state)
{
	const struct bulk_name one = {"one"}, two = {"two"}, none = {"none"};
	struct children *children = calloc(1, sizeof(*children));
	struct handover *d = calloc(1, sizeof(*d));
	int own[2], fd;

	assert_non_null(children);
	assert_non_null(d);
	assert_ok(handover_init(d, children));
	for (int i = 0; i < 2; i++) {
		own[i] = handover_open(d, i);
		assert_true(own[i] >= 0);
		children_set(children, i, 1000 + i);
	}
	/* Before a session has the name, no session gets the connection. */
	knock(d, &one);
	assert_int_equal(handover_await(own[0], 0), -ETIMEDOUT);
	handover_name(d, 0, &one);
	handover_name(d, 1, &two);
	knock(d, &none);
	knock(d, &two);
	assert_int_equal(handover_await(own[0], 0), -ETIMEDOUT);
	fd = handover_await(own[1], clock_now_ns() + NSEC_PER_SEC);
	assert_true(fd >= 0);
	fd_close(fd);
	/*
	 * A session that has all its connections, or has ended, gets no more connections. A new
	 * session in the same place does not inherit the name of the earlier session.
	 */
	handover_shut(d, 1, own[1]);
	knock(d, &two);
	assert_int_equal(children_exited(children, 1000), 0);
	handover_close(d, 0);
	knock(d, &one);
	assert_int_equal(handover_await(own[0], clock_now_ns() + NSEC_PER_SEC), -EPIPE);
	fd_close(own[0]);
	own[0] = handover_open(d, 0);
	children_set(children, 0, 1002);
	knock(d, &one);
	assert_int_equal(handover_await(own[0], 0), -ETIMEDOUT);
	fd_close(own[0]);
	handover_in_child(d);
	fd_close(d->knock);
	free(d);
	free(children);
}

/* ---- links of two versions ---- */

static const struct secure_key key_right = {.name = "right", .bytes = right};

static void assert_refused(const struct remote_note *note)
{
	assert_int_equal(note->type, REMOTE_REFUSED);
	assert_int_not_equal(note->lane, 0);
	assert_contains(note->text, "another version");
}

/* The first versions left `lane` at 0. */
static void a_program_of_an_older_link_is_refused_with_a_message(void **state)
{
	struct remote_note note = {.type = REMOTE_HELLO, .abi = REMOTE_ABI};
	struct end server, client;
	struct link_end end;

	meet(&key_right, &server, &client);
	assert_ok(stream_send(stream_tls(client.tls, 0), &note, sizeof(note)));
	assert_int_equal(link_open_worker(server.tls, NULL, &end), -EPROTO);
	assert_ok(stream_receive(stream_tls(client.tls, 0), &note, sizeof(note)));
	assert_refused(&note);
	end_done(&server);
	end_done(&client);
}

static void a_worker_of_an_older_link_is_refused_with_a_message(void **state)
{
	struct remote_note note = {.type = REMOTE_WELCOME, .abi = REMOTE_ABI},
			   hello = {.type = REMOTE_HELLO, .abi = REMOTE_ABI};
	struct end server, client;
	struct link_program program = {0};
	struct link_end end;
	int pair[2];

	assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	program.sock = pair[1];
	meet(&key_right, &server, &client);
	assert_int_equal(send(pair[0], &hello, sizeof(hello), 0), sizeof(hello));
	assert_ok(stream_send(stream_tls(server.tls, 0), &note, sizeof(note)));
	assert_int_equal(link_open_program(client.tls, &program, &end), -EPIPE);
	assert_int_equal(recv(pair[0], &note, sizeof(note), 0), sizeof(note));
	assert_refused(&note);
	fd_close(pair[0]);
	fd_close(pair[1]);
	end_done(&server);
	end_done(&client);
}

/*
 * The other link has the same version and supports RDMA: its struct remote_note offers an adapter.
 */
#define OFFER (1u << 7)
#define LANE(connections) (LINK_ABI << 8 | (connections))

static void a_link_that_offers_an_adapter_is_accepted(void **state)
{
	struct remote_note note = {.type = REMOTE_WELCOME, .abi = REMOTE_ABI, .lane = LANE(OFFER)};
	struct remote_note hello = {.type = REMOTE_HELLO, .abi = REMOTE_ABI};
	_cleanup_fd_list_ struct fd_list fds = {.n = 0};
	struct link_program program = {0};
	struct end server, client;
	struct link_end end;
	int pair[2];

	assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	program.sock = pair[1];
	meet(&key_right, &server, &client);
	assert_int_equal(send(pair[0], &hello, sizeof(hello), 0), sizeof(hello));
	assert_ok(stream_send(stream_tls(server.tls, 0), &note, sizeof(note)));
	assert_ok(link_open_program(client.tls, &program, &end));
	assert_int_equal(end.n, 1);
	/* This side offers no adapter. */
	assert_ok(stream_receive(stream_tls(server.tls, 0), &hello, sizeof(hello)));
	assert_int_equal(hello.lane, LANE(bulk_n_wanted()));
	assert_int_equal(fd_recv(pair[0], &note, sizeof(note), &fds, 0), sizeof(note));
	assert_int_equal(note.type, REMOTE_WELCOME);
	assert_int_equal(note.lane, 0);
	map_done(&end.map);
	fd_close(pair[0]);
	fd_close(pair[1]);
	end_done(&server);
	end_done(&client);
}

/* ---- reading and sending ahead ---- */

#define MANY (3u << 20)

struct sender {
	struct stream stream;
	const uint8_t *bytes;
	struct rand rand;
	int r;
};

/* Parts of a few bytes, and parts larger than a stream's buffer. */
static size_t part_of(struct rand *rand, size_t left)
{
	const size_t n = 1 + rand_below(rand, rand_below(rand, 4) ? 64 : 300u << 10);

	return MIN(n, left);
}

static void *sender_main(void *argument)
{
	struct sender *s = argument;

	for (size_t at = 0, n; at < MANY && s->r == 0; at += n) {
		n = part_of(&s->rand, MANY - at);
		s->r = stream_send(s->stream, s->bytes + at, n);
	}
	return NULL;
}

static void receive_as_sent(struct stream stream, const uint8_t *bytes, struct rand *rand)
{
	static uint8_t got[300u << 10];

	for (size_t at = 0, n; at < MANY; at += n) {
		n = part_of(rand, MANY - at);
		assert_ok(stream_receive(stream, got, n));
		assert_memory_equal(got, bytes + at, n);
	}
}

static void bytes_sent_ahead_arrive_unchanged(void **state)
{
	_cleanup_free_ uint8_t *bytes = malloc(MANY);
	struct rand rand = rand_seeded(7);
	struct end server, client;
	struct stream ahead, plain;
	struct sender sender;
	uint8_t byte = 0;

	for (size_t i = 0; i < MANY; i++)
		bytes[i] = (uint8_t)rand_u64(&rand);
	meet(&key_right, &server, &client);
	ahead = stream_ahead(stream_tls(client.tls, 1000));
	plain = stream_tls(server.tls, 0);
	assert_ptr_not_equal(ahead.own, client.tls);
	/* Only one side sends and reads ahead. */
	for (int way = 0; way < 2; way++) {
		pthread_t thread;

		sender = (struct sender){way ? ahead : plain, bytes, rand_seeded(8), 0};
		assert_ok(pthread_create(&thread, NULL, sender_main, &sender));
		receive_as_sent(way ? plain : ahead, bytes, &rand);
		pthread_join(thread, NULL);
		assert_ok(sender.r);
	}
	assert_int_equal(stream_receive(ahead, &byte, 1), -ETIMEDOUT);
	assert_ok(stream_send(plain, "x", 1));
	server.fd = fd_close(server.fd);
	/* Bytes that have arrived can still be read. */
	assert_ok(stream_receive(ahead, &byte, 1));
	assert_int_equal(byte, 'x');
	assert_int_equal(stream_receive(ahead, &byte, 1), -EPIPE);
	assert_int_equal(stream_send(ahead, bytes, MANY), -EPIPE);
	end_done(&server);
	end_done(&client);
	free(ahead.own);
}

UNIT_MAIN(UNIT(bytes_sent_ahead_arrive_unchanged), UNIT(a_key_admits_only_its_owner),
	UNIT(both_ends_know_the_sessions_name), UNIT(a_listener_recognises_further_connections),
	UNIT(a_connection_goes_to_the_session_of_its_name),
	UNIT(a_program_of_an_older_link_is_refused_with_a_message),
	UNIT(a_worker_of_an_older_link_is_refused_with_a_message),
	UNIT(a_link_that_offers_an_adapter_is_accepted))
