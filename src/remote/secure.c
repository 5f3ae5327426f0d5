/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/secure.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "identity/tls.h"

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

int secure_meet(struct identity_tls *own, int fd, const char *node,
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
