/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ends of a connection show certificates to each other. Each end admits or refuses the other.
 */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../identity/made.h"
#include "base/fd.h"
#include "identity/identity-tls.h"
#include "link/secure.h"

#define WORD "a word"

/* One side: its identity, and the result of the handshake. */
struct end {
	const struct identity *own;
	const char *node; /* the node that a client wants */
	int fd, r;
	struct identity_name peer;
	struct error err;
	char heard[sizeof(WORD)];
};

/* An end that admits the other sends WORD and receives it. */
static void *meet_main(void *argument)
{
	struct end *end = argument;
	struct identity_session session;
	struct identity_tls *tls;

	end->r = identity_tls_new(end->own, &tls, &end->err);
	if (end->r < 0)
		return NULL;
	end->r = secure_accept(tls, end->fd, end->node, &session, &end->err);
	if (end->r == 0) {
		end->peer = session.peer;
		gnutls_record_send(session.tls, WORD, sizeof(WORD));
		gnutls_record_recv(session.tls, end->heard, sizeof(end->heard));
		identity_session_done(&session);
	}
	end->fd = fd_close(end->fd);
	identity_tls_free(tls);
	return NULL;
}

static void meet(struct end *server, struct end *client)
{
	pthread_t thread;
	int pair[2];

	assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	server->fd = pair[0];
	client->fd = pair[1];
	assert_ok(pthread_create(&thread, NULL, meet_main, server));
	meet_main(client);
	pthread_join(thread, NULL);
}

static void assert_in(const struct end *end)
{
	if (end->r < 0)
		fail_msg("%s", end->err.msg);
	assert_string_equal(end->heard, WORD);
}

/* The log gets the reason; the other end has received nothing. */
static void assert_out(const struct end *end, const struct end *other, const char *says)
{
	assert_int_equal(end->r, -EACCES);
	assert_contains(end->err.msg, says);
	assert_string_equal(other->heard, "");
}

static void a_tenant_connects_to_the_node_that_it_names(void **state)
{
	_cleanup_made_authority_ struct made_authority ca = made_authority();
	_cleanup_identity_ struct identity node = made_node(&ca, "n1"), tenant = made_tenant(&ca);
	struct end server = {.own = &node}, client = {.own = &tenant, .node = "n1"};

	meet(&server, &client);
	assert_in(&server);
	assert_in(&client);
	assert_int_equal(server.peer.kind, IDENTITY_OF_TENANT);
	assert_string_equal(server.peer.uid, MADE_UID);
	assert_string_equal(server.peer.container, "main");
	assert_string_equal(client.peer.node, "n1");
}

static void a_node_may_connect_to_another(void **state)
{
	_cleanup_made_authority_ struct made_authority ca = made_authority();
	_cleanup_identity_ struct identity n1 = made_node(&ca, "n1"), n2 = made_node(&ca, "n2");
	struct end server = {.own = &n1}, client = {.own = &n2, .node = "n1"};

	meet(&server, &client);
	assert_in(&server);
	assert_in(&client);
	assert_int_equal(server.peer.kind, IDENTITY_OF_NODE);
	assert_string_equal(server.peer.node, "n2");
}

static void a_client_shows_nothing_to_a_wrong_server(void **state)
{
	_cleanup_made_authority_ struct made_authority ca = made_authority(),
						       other = made_authority();
	_cleanup_identity_ struct identity
		tenant = made_tenant(&ca),
		n2 = made_node(&ca, "n2"), strange = made_node(&other, "n1"),
		as_server = made_tenant(&ca),
		old = made_identity(&(struct made_wish){.uri = "divvy://node/n1",
			.by = &ca,
			.trusts = &ca,
			.from_h = -3,
			.to_h = -1}),
		client_only = made_identity(&(struct made_wish){.uri = "divvy://node/n1",
			.by = &ca,
			.trusts = &ca,
			.is_client_only = true}),
		own = made_identity(&(struct made_wish){.uri = "divvy://node/n1", .trusts = &ca}),
		web = made_identity(&(struct made_wish){.host = "n1", .by = &ca, .trusts = &ca});
	const struct {
		const struct identity *server;
		const char *says;
	} cases[] = {
		{&n2, "the peer is node 'n2'; expected node 'n1'"},
		{&strange, "NOT trusted"},
		{&own, "NOT trusted"},
		{&old, "expired"},
		{&as_server, "as a server"},
		{&client_only, "as a server"},
		{&web, "not a URI"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct end server = {.own = cases[i].server};
		struct end client = {.own = &tenant, .node = "n1"};

		meet(&server, &client);
		assert_out(&client, &server, cases[i].says);
		/* The server has not learned which client that was. */
		assert_int_equal(server.r, -EACCES);
		assert_int_equal(server.peer.kind, IDENTITY_NOBODY);
	}
}

static void a_server_admits_only_certificates_of_its_authorities(void **state)
{
	_cleanup_made_authority_ struct made_authority ca = made_authority(),
						       other = made_authority();
	_cleanup_identity_ struct identity
		node = made_node(&ca, "n1"),
		strange = made_identity(
			&(struct made_wish){.uri = "divvy://tenant/" MADE_UID "/main",
				.by = &other,
				.trusts = &ca,
				.is_client_only = true}),
		own = made_identity(&(struct made_wish){
			.uri = "divvy://tenant/" MADE_UID "/main", .trusts = &ca}),
		old = made_identity(&(struct made_wish){.uri = "divvy://tenant/" MADE_UID "/main",
			.by = &ca,
			.trusts = &ca,
			.from_h = -3,
			.to_h = -1}),
		early = made_identity(&(struct made_wish){.uri = "divvy://tenant/" MADE_UID "/main",
			.by = &ca,
			.trusts = &ca,
			.from_h = 1,
			.to_h = 2}),
		web = made_identity(&(struct made_wish){.host = "n1", .by = &ca, .trusts = &ca}),
		nameless = made_identity(&(struct made_wish){
			.uri = "divvy://tenant/" MADE_UID, .by = &ca, .trusts = &ca});
	const struct {
		const struct identity *client;
		const char *says;
	} cases[] = {
		{&strange, "NOT trusted"},
		{&own, "NOT trusted"},
		{&old, "expired"},
		{&early, "not yet"},
		{&web, "as a client"},
		{&nameless, "neither divvy://node"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct end server = {.own = &node};
		struct end client = {.own = cases[i].client, .node = "n1"};

		meet(&server, &client);
		assert_out(&server, &client, cases[i].says);
	}
}

/* A client without a certificate, with any TLS library. Returns 0 or the handshake's error. */
static int come_with_nothing(int fd, const char *priority, char *heard, size_t size)
{
	gnutls_certificate_credentials_t none;
	gnutls_session_t tls;
	ssize_t n = 0;
	int r;

	assert_ok(gnutls_certificate_allocate_credentials(&none));
	assert_ok(gnutls_init(&tls, GNUTLS_CLIENT));
	assert_ok(gnutls_priority_set_direct(tls, priority, NULL));
	assert_ok(gnutls_credentials_set(tls, GNUTLS_CRD_CERTIFICATE, none));
	gnutls_transport_set_int(tls, fd);
	do {
		r = gnutls_handshake(tls);
	} while (r < 0 && !gnutls_error_is_fatal(r));
	if (r == 0)
		n = gnutls_record_recv(tls, heard, size);
	gnutls_deinit(tls);
	gnutls_certificate_free_credentials(none);
	return r < 0 ? r : (int)n;
}

static void a_client_without_a_certificate_learns_nothing(void **state)
{
	static const char *const ways[] = {"NORMAL:-VERS-ALL:+VERS-TLS1.3",
		"NORMAL:-VERS-ALL:+VERS-TLS1.2",
		"NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-256-GCM"};
	_cleanup_made_authority_ struct made_authority ca = made_authority();
	_cleanup_identity_ struct identity node = made_node(&ca, "n1");

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct end server = {.own = &node};
		char heard[64];
		pthread_t thread;
		int pair[2], r;

		assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
		server.fd = pair[0];
		assert_ok(pthread_create(&thread, NULL, meet_main, &server));
		r = come_with_nothing(pair[1], ways[i], heard, sizeof(heard));
		pthread_join(thread, NULL);
		close(pair[1]);
		/* The server closes the connection without giving a reason. */
		if (r != GNUTLS_E_PREMATURE_TERMINATION && r != GNUTLS_E_PULL_ERROR &&
			r != GNUTLS_E_PUSH_ERROR)
			fail_msg("%s: %d, %s", ways[i], r, gnutls_strerror(r));
		assert_int_equal(server.r, -EACCES);
		assert_contains(server.err.msg, "handshake failed");
	}
}

static void a_client_without_tls_learns_nothing(void **state)
{
	_cleanup_made_authority_ struct made_authority ca = made_authority();
	_cleanup_identity_ struct identity node = made_node(&ca, "n1");
	struct end server = {.own = &node};
	char heard[64];
	pthread_t thread;
	int pair[2];

	assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	server.fd = pair[0];
	assert_ok(pthread_create(&thread, NULL, meet_main, &server));
	assert_ok(fd_write_all(pair[1], "GET / HTTP/1.1\r\n\r\n", 18));
	assert_true(read(pair[1], heard, sizeof(heard)) <= 0);
	pthread_join(thread, NULL);
	close(pair[1]);
	assert_int_equal(server.r, -EACCES);
}

static void during_a_change_both_authorities_are_trusted(void **state)
{
	_cleanup_made_authority_ struct made_authority ca = made_authority(),
						       new = made_authority();
	_cleanup_identity_ struct identity n1 = made_node(&ca, "n1"), n2 = made_node(&new, "n2"),
					   late = made_node(&ca, "n2");
	char *both = NULL;

	assert_true(asprintf(&both, "%s%s", new.crt, ca.crt) > 0);
	for (int i = 0; i < 2; i++) {
		struct identity a = {n1.crt, n1.key, both}, b = {n2.crt, n2.key, both};
		struct end server = {.own = i ? &a : &b},
			   client = {.own = i ? &b : &a, .node = i ? "n1" : "n2"};

		meet(&server, &client);
		assert_in(&server);
		assert_in(&client);
	}
	/*
	 * A client without the new authority does not trust the server, and the server must not
	 * admit the client.
	 */
	{
		struct identity a = {n2.crt, n2.key, new.crt};
		struct end server = {.own = &a}, client = {.own = &late, .node = "n2"};

		meet(&server, &client);
		assert_out(&client, &server, "NOT trusted");
	}
	free(both);
}

UNIT_MAIN(UNIT(a_tenant_connects_to_the_node_that_it_names), UNIT(a_node_may_connect_to_another),
	UNIT(a_client_shows_nothing_to_a_wrong_server),
	UNIT(a_server_admits_only_certificates_of_its_authorities),
	UNIT(a_client_without_a_certificate_learns_nothing),
	UNIT(a_client_without_tls_learns_nothing),
	UNIT(during_a_change_both_authorities_are_trusted))
