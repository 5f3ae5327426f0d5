/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets the socket options that detect a lost peer, and runs the TLS handshake of a connection.
 * secure_accept() checks certificates; secure_accept_key() proves a pre-shared key. GnuTLS passes
 * only its session to secure_find_key(), so the session's user pointer holds the `struct
 * secure_key`. A client's credentials live for one handshake; the server's are static and live as
 * long as the process. set_server() creates the server's credentials without a lock, so only one
 * thread may make the first call. As a server, secure_accept_key() returns -EACCES for every failed
 * handshake.
 */
#include "link/secure.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "identity/identity-tls.h"

/*
 * A pre-shared key requires SHA-256, which leaves AES-128 and ChaCha20. GnuTLS prefers ChaCha20,
 * which is five times slower than AES-128 on a processor with AES instructions.
 */
#define PRIORITY \
	"NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+CHACHA20-POLY1305:" \
	"-KX-ALL:+ECDHE-PSK:+DHE-PSK"

void secure_socket(int fd)
{
	const int one = 1, idle = 5, every = 2, tries = 3, most = SECURE_PEER_MS;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most, sizeof(most));
}

int secure_handshake(gnutls_session_t tls, int fd)
{
	int r;

	gnutls_transport_set_int(tls, fd);
	gnutls_handshake_set_timeout(tls, SECURE_HANDSHAKE_MS);
	do {
		r = gnutls_handshake(tls);
	} while (r < 0 && !gnutls_error_is_fatal(r));
	return r;
}

int secure_accept(struct identity_tls *own, int fd, const char *node,
	struct identity_session *ret_session, struct error *err)
{
	int r = identity_session_init(ret_session, own, node);

	if (r < 0)
		return fail(err, ENOMEM, "out of memory");
	secure_socket(fd);
	r = secure_handshake(ret_session->tls, fd);
	r = identity_session_check(ret_session, r, err);
	if (r < 0)
		identity_session_done(ret_session);
	return r;
}

static int secure_find_key(gnutls_session_t tls, const char *name, gnutls_datum_t *ret_key)
{
	const struct secure_key *key = gnutls_session_get_ptr(tls);
	uint8_t bytes[SECURE_KEY_BYTES];

	if (!key->find(name, bytes))
		return -1;
	ret_key->data = gnutls_malloc(SECURE_KEY_BYTES);
	if (ret_key->data) {
		memcpy(ret_key->data, bytes, SECURE_KEY_BYTES);
		ret_key->size = SECURE_KEY_BYTES;
	}
	explicit_bzero(bytes, sizeof(bytes));
	return ret_key->data ? 0 : -1;
}

/*
 * All sessions of the process share the credentials. secure_find_key() finds the key of each
 * session.
 */
static int set_server(gnutls_session_t tls)
{
	static gnutls_psk_server_credentials_t credentials;
	int r = 0;

	if (!credentials)
		r = gnutls_psk_allocate_server_credentials(&credentials);
	if (r < 0)
		return r;
	gnutls_psk_set_server_credentials_function(credentials, secure_find_key);
	return gnutls_credentials_set(tls, GNUTLS_CRD_PSK, credentials);
}

static int secure_set_client(gnutls_session_t tls, const struct secure_key *key,
	gnutls_psk_client_credentials_t *ret_credentials)
{
	const gnutls_datum_t own = {(uint8_t *)(uintptr_t)key->bytes, SECURE_KEY_BYTES};
	int r = gnutls_psk_allocate_client_credentials(ret_credentials);

	if (r >= 0)
		r = gnutls_psk_set_client_credentials(
			*ret_credentials, key->name, &own, GNUTLS_PSK_KEY_RAW);
	return r < 0 ? r : gnutls_credentials_set(tls, GNUTLS_CRD_PSK, *ret_credentials);
}

static int secure_prove_key(gnutls_session_t tls, int fd, const struct secure_key *key)
{
	gnutls_psk_client_credentials_t client = NULL;
	int r = gnutls_priority_set_direct(tls, PRIORITY, NULL);

	if (r >= 0)
		r = key->find ? set_server(tls) : secure_set_client(tls, key, &client);
	if (r >= 0)
		r = secure_handshake(tls, fd);
	/* A server that would accept a client without the key is not divvy's. */
	if (r >= 0 && gnutls_auth_get_type(tls) != GNUTLS_CRD_PSK)
		r = GNUTLS_E_INSUFFICIENT_CREDENTIALS;
	if (client) {
		/* The session does not need the key any more. */
		gnutls_credentials_clear(tls);
		gnutls_psk_free_client_credentials(client);
	}
	return r;
}

/*
 * Converts an error of the handshake. As a server: -EACCES, whatever the error is. As a client:
 * -EACCES if the peer closed the connection, as a server does if the key is wrong. A peer that
 * answers otherwise is no server of divvy.
 */
static int why_not(const struct secure_key *key, int failed)
{
	if (key->find)
		return -EACCES;
	switch (failed) {
	case GNUTLS_E_PREMATURE_TERMINATION:
	case GNUTLS_E_PULL_ERROR:
	case GNUTLS_E_PUSH_ERROR: return -EACCES;
	case GNUTLS_E_TIMEDOUT: return -ETIMEDOUT;
	case GNUTLS_E_MEMORY_ERROR: return -ENOMEM;
	default: return -EPROTO;
	}
}

int secure_accept_key(int fd, const struct secure_key *key, gnutls_session_t *ret_tls)
{
	gnutls_session_t tls;
	int r;

	secure_socket(fd);
	if (gnutls_init(&tls, key->find ? GNUTLS_SERVER : GNUTLS_CLIENT) < 0)
		return -ENOMEM;
	gnutls_session_set_ptr(tls, (void *)(uintptr_t)key);
	r = secure_prove_key(tls, fd, key);
	if (r < 0) {
		gnutls_deinit(tls);
		return why_not(key, r);
	}
	*ret_tls = tls;
	return 0;
}
