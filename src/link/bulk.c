/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the further connections of a session, and proves on both ends that each belongs to that
 * session. A connection begins with a hello in the clear: four letters and the session's name. No
 * TLS record begins with 'D', so bulk_look() recognises a hello by its first byte. The key is
 * static because the callback bulk_find_key() gets no context. So a process runs one of these
 * handshakes at a time, and erases the key after each.
 */
#include "link/bulk.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "link/handover.h"
#include "link/net.h"
#include "link/secure.h"

/* No TLS record begins with 'D'. */
static const char opening[4] = {'D', 'V', 'B', 'K'};

struct bulk_hello {
	char opening[4];
	struct bulk_name name;
};
_Static_assert(sizeof(struct bulk_hello) == 20, "abi");

#define KEY_NAME "bulk"

/* Key of this process's session, during a handshake. */
static uint8_t key[SECURE_KEY_BYTES];

unsigned bulk_n_wanted(void)
{
	/*
	 * Each connection needs a processor for its cipher, and the session's other threads need
	 * some too.
	 */
	const long processors = sysconf(_SC_NPROCESSORS_ONLN) / 2;

	if (processors > BULK_MAX)
		return BULK_MAX;
	return processors < 2 ? 2 : (unsigned)processors;
}

/*
 * Derives n bytes for the purpose `label`. Both ends derive the same bytes from the connection's
 * secrets. 0 or -EIO.
 */
static int bulk_secret(gnutls_session_t tls, const char *label, void *ret, size_t n)
{
	return gnutls_prf_rfc5705(tls, strlen(label), label, 0, NULL, n, ret) < 0 ? -EIO : 0;
}

int bulk_name(gnutls_session_t first, struct bulk_name *ret_name)
{
	struct bulk_name name;
	const int r = bulk_secret(first, "EXPORTER-divvy-bulk-name", &name, sizeof(name));

	if (r == 0)
		*ret_name = name;
	return r;
}

static int find_own_key(gnutls_session_t first)
{
	return bulk_secret(first, "EXPORTER-divvy-bulk-key", key, sizeof(key));
}

/* ---- program side ---- */

/*
 * Connects to the same address, because a name may have several addresses and lead to another
 * machine next time.
 */
static int dial_again(gnutls_session_t first)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];
	struct sockaddr_storage peer;
	socklen_t n = sizeof(peer);

	if (getpeername(gnutls_transport_get_int(first), (struct sockaddr *)&peer, &n) < 0)
		return -errno;
	if (getnameinfo((struct sockaddr *)&peer, n, host, sizeof(host), port, sizeof(port),
		    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return -EADDRNOTAVAIL;
	return net_dial(host, port);
}

int bulk_reach(gnutls_session_t first, gnutls_session_t *ret_tls)
{
	const struct secure_key own = {.name = KEY_NAME, .bytes = key};
	struct bulk_hello hello;
	_cleanup_close_ int fd = dial_again(first);
	int r;

	if (fd < 0)
		return fd;
	memcpy(hello.opening, opening, sizeof(opening));
	if (bulk_name(first, &hello.name) < 0 || find_own_key(first) < 0)
		return -EIO;
	r = fd_write_all(fd, &hello, sizeof(hello));
	r = r < 0 ? r : secure_accept_key(fd, &own, ret_tls);
	explicit_bzero(key, sizeof(key));
	if (r == 0)
		TAKE_FD(fd);
	return r;
}

/* ---- device side ---- */

static bool bulk_find_key(const char *name, uint8_t *ret_key)
{
	if (strcmp(name, KEY_NAME) != 0)
		return false;
	memcpy(ret_key, key, sizeof(key));
	return true;
}

int bulk_accept(gnutls_session_t first, int handover, gnutls_session_t *ret_tls)
{
	static const struct secure_key own = {.find = bulk_find_key};
	const uint64_t until = clock_now_ns() + SECURE_HANDSHAKE_MS * NSEC_PER_MSEC;
	int r = find_own_key(first);

	if (r < 0)
		return r;
	do {
		_cleanup_close_ int fd = handover_await(handover, until);

		r = fd < 0 ? fd : secure_accept_key(fd, &own, ret_tls);
		if (r == 0)
			TAKE_FD(fd);
	} while (r == -EACCES && clock_now_ns() < until);
	explicit_bzero(key, sizeof(key));
	return r;
}

int bulk_look(int fd, struct bulk_name *ret_name)
{
	const struct timeval most = {.tv_sec = SECURE_HANDSHAKE_MS / 1000}, none = {0};
	struct bulk_hello hello;
	char first = 0;
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	n = recv(fd, &first, 1, MSG_PEEK);
	if (n == 1 && first == opening[0])
		n = recv(fd, &hello, sizeof(hello), MSG_WAITALL);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
	if (n == 1 && first != opening[0])
		return 0;
	if (n != sizeof(hello) || memcmp(hello.opening, opening, sizeof(opening)) != 0)
		return -EBADMSG;
	*ret_name = hello.name;
	return 1;
}
